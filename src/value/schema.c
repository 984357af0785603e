/* Operator schemas: text to parts and back.
 *
 *   aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
 *
 * Invariant: cfx__schema_print gives PyTorch's own text, so a schema that PyTorch printed survives
 * parse and print byte for byte. The short forms of native_functions.yaml (no namespace, stride=1
 * for a list of two, reduction=Mean) are read too and print as PyTorch prints them. */
#include "cursor.h"
#include "default.h"

#include <ctype.h>

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* A run of letters, digits and underscores; its length, 0 where there is none. */
static size_t word(cfx__cursor *r, const char **start) {
    cfx__cursor_skip(r);
    *start = r->p;
    while (is_word(*r->p))
        r->p++;
    return (size_t)(r->p - *start);
}

static const char *copy(cfx__cursor *r, const char *start, const char *end) {
    return cfx__arena_copy(r->arena, start, (size_t)(end - start));
}

/* ---- types ----------------------------------------------------------------------------------- */

#define BIT(tag) (1u << CFX_TAG_##tag)
#define ANY_TAG (((1u << CFX_TAG_KEYWORD) - 1))

/* The written names of types, and which values each takes as they are. A node stands for a value
 * that is not known yet, so it is taken everywhere; NONE is added for T?. */
static const struct type_row {
    const char *name;
    cfx__schema_type type;
    uint32_t accepts;
} types[] = {
    {"Tensor", CFX__T_TENSOR, BIT(TENSOR)},
    {"Scalar", CFX__T_SCALAR, BIT(BOOL) | BIT(INT) | BIT(FLOAT) | BIT(COMPLEX) | BIT(SYM)},
    {"int", CFX__T_INT, BIT(INT) | BIT(SYM)},
    {"SymInt", CFX__T_INT, BIT(INT) | BIT(SYM)},
    {"float", CFX__T_FLOAT, BIT(FLOAT) | BIT(SYM)},
    {"SymFloat", CFX__T_FLOAT, BIT(FLOAT) | BIT(SYM)},
    {"bool", CFX__T_BOOL, BIT(BOOL) | BIT(SYM)},
    {"SymBool", CFX__T_BOOL, BIT(BOOL) | BIT(SYM)},
    {"complex", CFX__T_COMPLEX, BIT(COMPLEX)},
    {"str", CFX__T_STR, BIT(STR)},
    {"ScalarType", CFX__T_DTYPE, BIT(DTYPE)},
    {"Device", CFX__T_DEVICE, BIT(DEVICE)},
    {"DeviceIndex", CFX__T_INT, BIT(INT)},
    {"Layout", CFX__T_LAYOUT, BIT(LAYOUT)},
    {"MemoryFormat", CFX__T_MEMORY_FORMAT, BIT(MEMORY_FORMAT)},
    {"Generator", CFX__T_GENERATOR, 0},
    {"Dimname", CFX__T_DIMNAME, BIT(STR)},
    {"Storage", CFX__T_STORAGE, 0},
    {"Stream", CFX__T_STREAM, 0},
};

static const struct type_row any_type = {NULL, CFX__T_ANY, ANY_TAG};

static const struct type_row *find_type(const char *name, size_t len) {
    for (int i = 0; i < COUNT(types); i++)
        if (!strncmp(types[i].name, name, len) && !types[i].name[len])
            return &types[i];
    return &any_type;
}

/* Skips what stands between brackets of any depth: "(str, t)", "((Tensor, t)[])". */
static void skip_group(cfx__cursor *r) {
    int depth = 0;
    do {
        if (*r->p == '(')
            depth++;
        else if (*r->p == ')')
            depth--;
        else if (!*r->p) {
            cfx__cursor_fail(r, "unbalanced '('");
            return;
        }
        r->p++;
    } while (depth);
}

/* "(a)", "(a!)", "(a! -> *)", "(a|b)", "(*)" after a type. */
static void parse_alias(cfx__cursor *r, cfx__schema_arg *arg) {
    const char *start = r->p + 1;
    skip_group(r);
    if (r->failed)
        return;
    arg->alias = *start;
    arg->writes = memchr(start, '!', (size_t)(r->p - start)) != NULL;
}

/* The base of a type: a name, a name with parameters, or a tuple of types. */
static const struct type_row *parse_base(cfx__cursor *r) {
    static const char *const generic[] = {"Dict", "Future", "RRef", "Await", "Union"};
    if (*r->p == '(') {
        skip_group(r);
        return &any_type;
    }
    const char *start = r->p;
    while (is_word(*r->p) || (*r->p == '.' && is_word(r->p[1])))
        r->p++;
    size_t len = (size_t)(r->p - start);
    if (!len)
        cfx__cursor_fail(r, "expected a type");
    for (int i = 0; i < COUNT(generic); i++)
        if (*r->p == '(' && len == strlen(generic[i]) && !memcmp(start, generic[i], len))
            skip_group(r);
    return find_type(start, len);
}

/* The n of T[n]; lists of more than a few stand for nothing and are not expanded. */
static int parse_len(cfx__cursor *r) {
    int n = 0;
    for (; isdigit((unsigned char)*r->p); r->p++) {
        n = n * 10 + (*r->p - '0');
        if (n > 1024) {
            cfx__cursor_fail(r, "the length of the list is out of range");
            return 0;
        }
    }
    return n;
}

/* T, then any of: alias in parentheses, [] or [n], ?. What is optional is the thing before it. */
static void parse_type(cfx__cursor *r, cfx__schema_arg *arg) {
    cfx__cursor_skip(r);
    const char *start = r->p;
    const struct type_row *row = parse_base(r);
    arg->sym = !strncmp(start, "Sym", 3);
    while (!r->failed) {
        if (*r->p == '(') {
            parse_alias(r, arg);
        } else if (*r->p == '?') {
            arg->optional = true;
            r->p++;
        } else if (*r->p == '[') {
            if (arg->list)
                row = &any_type; /* a list of lists */
            arg->items_optional = arg->optional;
            arg->optional = false;
            arg->list = true;
            r->p++;
            arg->list_len = parse_len(r);
            cfx__cursor_need(r, "]");
        } else {
            break;
        }
    }
    arg->type = row->type;
    arg->type_text = copy(r, start, r->p);
    uint32_t taken = row->accepts | BIT(NODE);
    arg->items = taken | (arg->items_optional ? BIT(NONE) : 0);
    arg->accepts = arg->list && row != &any_type ? BIT(NODE) : taken;
    if (arg->optional)
        arg->accepts |= BIT(NONE);
}

/* ---- defaults -------------------------------------------------------------------------------- */

/* PyTorch's numbers for dtypes, by ours. */
static const int8_t torch_dtype[CFX_DTYPE_END] = {
    [CFX_U8] = 0,  [CFX_I8] = 1,  [CFX_I16] = 2, [CFX_I32] = 3,   [CFX_I64] = 4,   [CFX_F16] = 5,
    [CFX_F32] = 6, [CFX_F64] = 7, [CFX_C64] = 9, [CFX_C128] = 10, [CFX_BOOL] = 11, [CFX_BF16] = 15,
    [CFX_C32] = 8, [CFX_F8E5M2] = 23, [CFX_F8E4M3FN] = 24, [CFX_F8E5M2FNUZ] = 25,
    [CFX_F8E4M3FNUZ] = 26, [CFX_U16] = 27, [CFX_U32] = 28, [CFX_U64] = 29, [CFX_F8E8M0FNU] = 44,
    [CFX_QI8] = 12, [CFX_QU8] = 13, [CFX_QI32] = 14};

/* The words that native_functions.yaml has for numbers. */
static const struct {
    const char *name;
    int number;
} words[] = {{"Mean", 1},          {"Sum", 2},           {"contiguous_format", 0},
             {"preserve_format", 1}, {"channels_last", 2}, {"strided", 0},
             {"long", 4}};

/* A number of an enumeration as the value that the type has for it. */
static cfx_value enum_value(cfx__cursor *r, cfx__schema_type type, int64_t number) {
    if (type == CFX__T_LAYOUT)
        return cfx_layout_value(number ? CFX_SPARSE_COO : CFX_STRIDED);
    if (type == CFX__T_MEMORY_FORMAT)
        return cfx_memory_format_value((cfx_memory_format)(number & 3));
    if (type != CFX__T_DTYPE)
        return cfx_int(number);
    for (int d = 0; d < CFX_DTYPE_END; d++)
        if (torch_dtype[d] == number)
            return cfx_dtype_value((cfx_dtype)d);
    cfx__cursor_fail(r, "no such ScalarType");
    return cfx_none();
}

double cfx__value_read_float(const char *text, size_t len) {
    char buffer[64];
    if (len >= sizeof buffer)
        len = sizeof buffer - 1;
    memcpy(buffer, text, len);
    buffer[len] = 0;
    return cfx__number_read(buffer, NULL);
}

static cfx_value parse_number(cfx__cursor *r, cfx__schema_type type) {
    const char *start = r->p;
    bool whole = true;
    if (*r->p == '-')
        r->p++;
    while (isalnum((unsigned char)*r->p) || *r->p == '.' ||
           (strchr("+-", *r->p) && *r->p && strchr("eE", r->p[-1]))) {
        whole = whole && isdigit((unsigned char)*r->p);
        r->p++;
    }
    size_t len = (size_t)(r->p - start);
    if (!whole || type == CFX__T_FLOAT)
        return cfx_float(cfx__value_read_float(start, len));
    return enum_value(r, type, strtoll(start, NULL, 10));
}

static cfx_value parse_string(cfx__cursor *r) {
    static const char escapes[] = "a\ab\bf\fn\nr\rt\tv\v";
    cfx__text text = {0};
    char quote = *r->p++;
    for (; *r->p && *r->p != quote; r->p++) {
        char c = *r->p;
        if (c == '\\' && r->p[1]) {
            c = *++r->p;
            for (const char *e = escapes; *e; e += 2)
                if (*e == c) {
                    c = e[1];
                    break;
                }
        }
        cfx__text_putc(&text, c);
    }
    cfx_value v = cfx_string_value_n(text.data ? text.data : "", text.len);
    cfx__text_release(&text);
    if (*r->p == quote)
        r->p++;
    else
        cfx__cursor_fail(r, "unterminated string");
    return v;
}

static cfx_value parse_item(cfx__cursor *r, cfx__schema_type type) {
    cfx__cursor_skip(r);
    if (*r->p == '"' || *r->p == '\'')
        return parse_string(r);
    if (isdigit((unsigned char)*r->p) || *r->p == '-' || *r->p == '.')
        return parse_number(r, type);
    const char *start;
    size_t len = word(r, &start);
    if (len == 4 && !memcmp(start, "None", 4))
        return cfx_none();
    if (len == 4 && !memcmp(start, "True", 4))
        return cfx_bool(true);
    if (len == 5 && !memcmp(start, "False", 5))
        return cfx_bool(false);
    if (len == 3 && (!memcmp(start, "inf", 3) || !memcmp(start, "nan", 3)))
        return cfx_float(cfx__value_read_float(start, len));
    for (int i = 0; i < COUNT(words); i++)
        if (strlen(words[i].name) == len && !memcmp(start, words[i].name, len))
            return enum_value(r, type, words[i].number);
    r->p = start;
    cfx__cursor_fail(r, "expected a default value");
    return cfx_none();
}

static cfx_value parse_default(cfx__cursor *r, const cfx__schema_arg *arg) {
    cfx__cursor_skip(r);
    if (*r->p != '[') {
        cfx_value v = parse_item(r, arg->type);
        if (!arg->list || !arg->list_len || cfx_is_none(v))
            return v;
        cfx_value list = cfx_list_value(0, NULL);
        for (int i = 0; i < arg->list_len; i++)
            cfx_list_append(list.list_, v);
        return list;
    }
    r->p++;
    cfx_value list = cfx_list_value(0, NULL);
    while (!r->failed && !cfx__cursor_eat(r, "]")) {
        if (list.list_->len)
            cfx__cursor_need(r, ",");
        cfx_list_append(list.list_, parse_item(r, arg->type));
    }
    return list;
}

/* ---- the whole ------------------------------------------------------------------------------- */

typedef VEC(cfx__schema_arg) arg_vec;

static void parse_arg(cfx__cursor *r, cfx__schema_arg *arg) {
    parse_type(r, arg);
    const char *start;
    size_t len = r->failed ? 0 : word(r, &start);
    if (!len)
        return;
    arg->name = copy(r, start, r->p);
    if (cfx__cursor_eat(r, "=")) {
        arg->has_default = true;
        arg->fallback = cfx_value_keep(parse_default(r, arg));
    }
}

/* Arguments or returns up to the ')'. A '*' opens the keyword-only ones, '...' must be last. */
static void parse_list(cfx__cursor *r, arg_vec *args, bool *variadic, bool returns) {
    bool keyword_only = false;
    for (bool first = true; !r->failed && !cfx__cursor_eat(r, ")"); first = false) {
        if (!first)
            cfx__cursor_need(r, ",");
        cfx__cursor_skip(r);
        if (cfx__cursor_eat(r, "...")) {
            *variadic = true;
        } else if (!returns && *r->p == '*') {
            r->p++;
            keyword_only = true;
        } else if (!r->failed) {
            cfx__schema_arg arg = {.keyword_only = keyword_only};
            parse_arg(r, &arg);
            if (!returns && !arg.name)
                cfx__cursor_fail(r, "expected the name of an argument");
            VEC_PUSH(*args, arg);
        }
    }
}

static cfx__schema_arg *seal(cfx__cursor *r, arg_vec *args, int *n) {
    *n = (int)args->len;
    cfx__schema_arg *a = cfx__arena_alloc(r->arena, (args->len + 1) * sizeof *a);
    if (args->len)
        memcpy(a, args->data, args->len * sizeof *a);
    VEC_FREE(*args);
    return a;
}

static void parse_name(cfx__cursor *r, cfx__schema *s) {
    const char *start;
    s->ns = "aten";
    if (!word(r, &start))
        cfx__cursor_fail(r, "expected the name of an operator");
    if (!strncmp(r->p, "::", 2)) {
        s->ns = copy(r, start, r->p);
        r->p += 2;
        if (!word(r, &start))
            cfx__cursor_fail(r, "expected the name of an operator");
    }
    s->name = copy(r, start, r->p);
    s->overload = "";
    if (*r->p == '.') {
        r->p++;
        start = r->p;
        while (is_word(*r->p) || *r->p == '.')
            r->p++;
        s->overload = copy(r, start, r->p);
    }
}

cfx__schema *cfx__schema_parse(const char *text) {
    size_t mark = cfx_scope_open();
    cfx__schema *s = cfx__alloc0(sizeof *s);
    cfx__cursor r = {"schema", CFX_RUNTIME_ERROR, text, text, &s->arena, false};
    arg_vec args = {0}, rets = {0};
    s->text = cfx__arena_copy(&s->arena, text, strlen(text));
    parse_name(&r, s);
    cfx__cursor_need(&r, "(");
    parse_list(&r, &args, &s->varargs, false);
    cfx__cursor_need(&r, "->");
    if (!r.failed && cfx__cursor_eat(&r, "(")) {
        parse_list(&r, &rets, &s->varrets, true);
    } else if (!r.failed && cfx__cursor_eat(&r, "...")) {
        s->varrets = true;
    } else if (!r.failed) {
        cfx__schema_arg ret = {0};
        parse_arg(&r, &ret);
        VEC_PUSH(rets, ret);
    }
    cfx__cursor_skip(&r);
    if (!r.failed && *r.p)
        cfx__cursor_fail(&r, "unexpected text");
    s->args = seal(&r, &args, &s->nargs);
    s->rets = seal(&r, &rets, &s->nrets);
    while (s->npositional < s->nargs && !s->args[s->npositional].keyword_only)
        s->npositional++;
    cfx_scope_close(mark);
    if (!r.failed)
        return s;
    cfx__schema_free(s);
    return NULL;
}

void cfx__schema_free(cfx__schema *s) {
    if (!s)
        return;
    for (int i = 0; i < s->nargs; i++)
        cfx_value_drop(s->args[i].fallback);
    for (int i = 0; i < s->nrets; i++)
        cfx_value_drop(s->rets[i].fallback);
    cfx__arena_release(&s->arena);
    cfx__free(s);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* As C++ prints a double with 17 digits, with a point to tell it from an int. */
static void put_float(cfx__text *out, double f) {
    char text[40];
    cfx__number_print(text, sizeof text, "%.17g", f);
    cfx__text_puts(out, text);
    if (strspn(text, "-0123456789") == strlen(text))
        cfx__text_putc(out, '.');
}

static void put_string(cfx__text *out, const cfx_string *s) {
    static const char escapes[] = "\aa\bb\ff\nn\rr\tt\vv\\\\''\"\"";
    cfx__text_putc(out, '"');
    for (size_t i = 0; i < s->len; i++) {
        char c = s->text[i];
        const char *e = escapes;
        while (*e && *e != c)
            e += 2;
        if (*e)
            cfx__text_printf(out, "\\%c", e[1]);
        else if (isprint((unsigned char)c))
            cfx__text_putc(out, c);
        else
            cfx__text_printf(out, "\\%03o", (unsigned char)c);
    }
    cfx__text_putc(out, '"');
}

static void put_default(cfx__text *out, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_FLOAT: put_float(out, v.f_); break;
    case CFX_TAG_STR: put_string(out, v.str_); break;
    case CFX_TAG_DTYPE: cfx__text_printf(out, "%d", torch_dtype[v.i_]); break;
    case CFX_TAG_LAYOUT:
    case CFX_TAG_MEMORY_FORMAT: cfx__text_printf(out, "%d", (int)v.i_); break;
    case CFX_TAG_LIST:
        cfx__text_putc(out, '[');
        for (int64_t i = 0; i < v.list_->len; i++) {
            if (i)
                cfx__text_puts(out, ", ");
            put_default(out, v.list_->items[i]);
        }
        cfx__text_putc(out, ']');
        break;
    default: cfx__repr_with(out, v, NULL); break;
    }
}

/* Several equal ints print as one, int[2] padding=0, but SymInts do not: that is PyTorch's way. */
static bool prints_as_one(const cfx__schema_arg *arg) {
    cfx_value v = arg->fallback;
    if (v.tag != CFX_TAG_LIST || arg->type != CFX__T_INT || arg->sym || v.list_->len < 2)
        return false;
    for (int64_t i = 1; i < v.list_->len; i++)
        if (!cfx_equal_values(v.list_->items[0], v.list_->items[i]))
            return false;
    return true;
}

/* The default as a value that prints as PyTorch prints it: it reads the 1 of float? x=1 as an int,
 * which here is a float as any other. */
static cfx_value printed_default(const cfx__schema_arg *arg) {
    cfx_value v = arg->fallback;
    if (prints_as_one(arg))
        return v.list_->items[0];
    if (v.tag == CFX_TAG_FLOAT && arg->optional && v.f_ == (double)cfx_integer(v))
        return cfx_int(cfx_integer(v));
    return v;
}

static void put_args(cfx__text *out, const cfx__schema_arg *args, int n, bool variadic) {
    for (int i = 0; i < n; i++) {
        const cfx__schema_arg *a = &args[i];
        if (i)
            cfx__text_puts(out, ", ");
        if (a->keyword_only && (i == 0 || !args[i - 1].keyword_only))
            cfx__text_puts(out, "*, ");
        cfx__text_puts(out, a->type_text);
        if (a->name)
            cfx__text_printf(out, " %s", a->name);
        if (a->has_default) {
            cfx__text_putc(out, '=');
            put_default(out, printed_default(a));
        }
    }
    if (variadic)
        cfx__text_puts(out, n ? ", ..." : "...");
}

const char *cfx__schema_print(const cfx__schema *s) {
    cfx__text out = {0};
    cfx__text_printf(&out, "%s::%s%s%s(", s->ns, s->name, *s->overload ? "." : "", s->overload);
    put_args(&out, s->args, s->nargs, s->varargs);
    cfx__text_puts(&out, ") -> ");
    bool one = s->nrets == 1 && !s->varrets && s->rets[0].type_text[0] != '(';
    bool bare = one || (s->varrets && !s->nrets);
    cfx__text_puts(&out, bare ? "" : "(");
    put_args(&out, s->rets, s->nrets, s->varrets);
    cfx__text_puts(&out, bare ? "" : ")");
    return cfx__text_take(&out);
}

bool cfx__schema_is_default(const cfx__schema_arg *a, cfx_value v) {
    if (!a->has_default)
        return false;
    cfx_value d = a->fallback;
    if (v.tag == CFX_TAG_LIST && d.tag != CFX_TAG_LIST && d.tag != CFX_TAG_NONE) {
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            if (!cfx_equal_values(cfx_as_list(v)->items[i], d))
                return false;
        return cfx_as_list(v)->len == a->list_len;
    }
    return v.tag == d.tag ? cfx_equal_values(v, d)
                          : cfx_is_number(v) && a->type != CFX__T_SCALAR && cfx_equal_values(v, d);
}
