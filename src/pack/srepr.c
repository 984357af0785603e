/* Sympy's srepr form, read and written. The grammar is calls and literals alone: a name with
 * arguments in brackets, a quoted string, a number; name=value among the arguments is an assumption
 * and is stepped over. */
#include "srepr.h"

#include "../trace/relations.h"

/* Sums are kept in order, which takes the square of their length: longer texts stay texts. */
enum { MAX_NESTING = 200, MAX_POWER = 64, MAX_PARTS = 500, MAX_PLAIN = 4096 };

typedef struct reader {
    const char *at;
    const cfx__srepr_hints *hints;
    int depth, parts;
    bool failed;
} reader;

void cfx__srepr_hints_release(cfx__srepr_hints *h) {
    cfx__map_release(&h->map);
    cfx__arena_release(&h->arena);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

/* The name in Symbol('s77', ...) or s77, where the text is that alone; its length, or 0. */
static size_t lone_symbol(const char *text, const char **name) {
    if (strncmp(text, "Symbol('", 8)) {
        size_t n = 0;
        while (is_word(text[n]))
            n++;
        *name = text;
        return text[n] || (*text >= '0' && *text <= '9') ? 0 : n;
    }
    *name = text + 8;
    size_t len = strcspn(*name, "'");
    const char *close = strchr(*name + len, ')');
    return close && !close[1] && (*name)[len] ? len : 0;
}

void cfx__srepr_hints_note(cfx__srepr_hints *h, const char *expr, int64_t hint) {
    const char *name;
    size_t len = lone_symbol(expr, &name);
    if (!len || cfx__map_getn(&h->map, name, len))
        return;
    int64_t *kept = cfx__arena_alloc(&h->arena, sizeof *kept);
    *kept = hint;
    cfx__map_set(&h->map, cfx__arena_copy(&h->arena, name, len), kept);
}

/* ---- reading --------------------------------------------------------------------------------- */

static cfx_value fail(reader *r) {
    r->failed = true;
    return cfx_int(0);
}

static void blanks(reader *r) { r->at += strspn(r->at, " "); }

static bool take(reader *r, char c) {
    blanks(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static bool held(cfx_value v) { return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_SYM; }

/* Symbols are called as Python calls things. */
static bool is_name(const char *text, size_t len) {
    bool is = len && (text[0] < '0' || text[0] > '9');
    for (size_t i = 0; i < len; i++)
        is = is && is_word(text[i]) && text[i] != '.';
    return is;
}

static cfx_value symbol(reader *r, const char *name, size_t len) {
    if (!is_name(name, len))
        return fail(r);
    int64_t *hint = r->hints ? cfx__map_getn(&r->hints->map, name, len) : NULL;
    return cfx__sym_name(cfx__string_new(name, len)->text, hint != NULL, hint ? *hint : 0);
}

/* The functions that symbolic integers have, with the number of arguments they take. */
static const struct function {
    const char *name;
    cfx__sym_op op;
    bool many;
} functions[] = {
    {"Add", CFX__SYM_ADD, true},      {"Mul", CFX__SYM_MUL, true},
    {"Min", CFX__SYM_MIN, true},      {"Max", CFX__SYM_MAX, true},
    {"FloorDiv", CFX__SYM_FLOORDIV, false}, {"CleanDiv", CFX__SYM_FLOORDIV, false},
    {"Mod", CFX__SYM_MOD, false},     {"PythonMod", CFX__SYM_MOD, false},
    {"Pow", CFX__SYM_POW, false},     {"PowByNatural", CFX__SYM_POW, false},
};

enum { FLOORDIV = 4, MOD = 6 }; /* their places in it */

/* Whether s is a line over one size, which is 1 or more: its slope, and what it is at 1. */
static bool is_line(const cfx_sym *s, const cfx_sym **size, int64_t *slope, int64_t *first) {
    int64_t other, there;
    *slope = s->op == CFX__SYM_NAME;
    *first = s->op == CFX__SYM_INT ? s->hint : 1;
    if (s->op == CFX__SYM_INT)
        return true;
    if (s->op == CFX__SYM_NAME) {
        const bool same = *s->name == 's' && (!*size || cfx__sym_equal(*size, s));
        *size = s;
        return same;
    }
    if ((s->op != CFX__SYM_ADD && s->op != CFX__SYM_MUL) || !is_line(s->a, size, slope, first) ||
        !is_line(s->b, size, &other, &there))
        return false;
    if (s->op == CFX__SYM_ADD)
        return !__builtin_add_overflow(*slope, other, slope) &&
               !__builtin_add_overflow(*first, there, first);
    const int64_t by = *slope ? there : *first; /* a number times a line */
    return !(*slope && other) && !__builtin_mul_overflow(*slope ? *slope : other, by, slope) &&
           !__builtin_mul_overflow(*first, there, first);
}

/* The larger (most) or smaller of a number and a line that never meet, as sympy knows when it reads
 * one: Max(0, 1 - s0) is 0. PyTorch's own, in memory, stay as they are. None: neither always is. */
static cfx_value never_met(bool most, cfx_value a, cfx_value b) {
    const bool turned = b.tag == CFX_TAG_INT;
    cfx_value number = turned ? b : a, line = turned ? a : b;
    const cfx_sym *size = NULL;
    int64_t slope, first;
    if (number.tag != CFX_TAG_INT || line.tag != CFX_TAG_SYM ||
        !is_line(cfx_as_sym(line), &size, &slope, &first) || !slope)
        return cfx_none();
    const bool above = slope > 0 && first >= cfx_integer(number);
    const bool below = slope < 0 && first <= cfx_integer(number);
    return above ? (most ? line : number) : below ? (most ? number : line) : cfx_none();
}

/* The value of a function, or a bad one where it has none that can be held. */
static cfx_value evaluate(const struct function *f, const cfx_list *args) {
    if (args->len < 1 || (!f->many && args->len != 2))
        return cfx_bad();
    for (int64_t i = 0; i < args->len; i++)
        if (!held(args->items[i]))
            return cfx_bad();
    /* A number before several factors stays outside them: it is multiplied with last. */
    bool turned = f->op == CFX__SYM_MUL && args->len > 2 && args->items[0].tag == CFX_TAG_INT;
    cfx_value v = args->items[turned];
    for (int64_t i = 1 + turned; i < args->len + turned; i++) {
        cfx_value b = args->items[i % args->len];
        bool divides = f->op == CFX__SYM_FLOORDIV || f->op == CFX__SYM_MOD;
        if ((divides && b.tag == CFX_TAG_INT && !cfx_integer(b)) ||
            (f->op == CFX__SYM_POW &&
             (b.tag != CFX_TAG_INT || cfx_integer(b) < 0 || cfx_integer(b) > MAX_POWER)))
            return cfx_bad();
        bool bounds = f->op == CFX__SYM_MAX || f->op == CFX__SYM_MIN;
        cfx_value one = bounds ? never_met(f->op == CFX__SYM_MAX, v, b) : cfx_none();
        v = cfx_is_none(one) ? cfx__sym_binary(f->op, v, b) : one;
    }
    return v;
}

/* Relations and the like, which only their text can stand for: between operands, or as a call by
 * another name. */
static const struct {
    const char *name, *sign, *call;
} others[] = {
    {"LessThan", " <= ", NULL},        {"StrictLessThan", " < ", NULL},
    {"GreaterThan", " >= ", NULL},     {"StrictGreaterThan", " > ", NULL},
    {"And", " & ", NULL},              {"Or", " | ", NULL},
    {"Rational", "/", NULL},           {"Pow", "**", NULL},
    {"Add", " + ", NULL},              {"Mul", "*", NULL},
    {"Equality", NULL, "Eq"},          {"Unequality", NULL, "Ne"},
};

static void put_operand(cfx__text *out, cfx_value v, bool relation) {
    const char *text = cfx_value_str(v);
    bool wrap = relation ? cfx__relation_wraps(v) : strchr(text, ' ') || text[0] == '-';
    cfx__text_printf(out, wrap ? "(%s)" : "%s", text);
}

static cfx_value describe(const char *name, size_t len, const cfx_list *args) {
    const char *sign = NULL, *call = cfx__string_new(name, len)->text;
    for (int i = 0; i < COUNT(others); i++)
        if (!strcmp(others[i].name, call)) {
            sign = others[i].sign;
            call = others[i].call;
            break;
        }
    cfx__text out = {0};
    if (!sign)
        cfx__text_printf(&out, "%s(", call);
    bool relation = sign && strpbrk(sign, "<>=");
    for (int64_t i = 0; i < args->len; i++) {
        if (i)
            cfx__text_puts(&out, sign ? sign : ", ");
        if (sign)
            put_operand(&out, args->items[i], relation);
        else
            cfx__text_printf(&out, "%s", cfx_value_str(args->items[i]));
    }
    if (!sign)
        cfx__text_putc(&out, ')');
    cfx_value v = cfx_string_value_n(out.data, out.len);
    cfx__text_release(&out);
    return v;
}

static cfx_value expression(reader *r);

/* The arguments up to the closing bracket, those with names left out. */
static cfx_value arguments(reader *r) {
    cfx_value args = cfx_list_value(0, NULL);
    if (take(r, ')'))
        return args;
    do {
        blanks(r);
        size_t word = 0;
        while (is_word(r->at[word]))
            word++;
        bool named = word && r->at[word] == '=';
        r->at += named ? word + 1 : 0;
        cfx_value v = expression(r);
        if (!named)
            cfx_list_append(cfx_as_list(args), v);
    } while (!r->failed && take(r, ','));
    if (!take(r, ')'))
        fail(r);
    return args;
}

static cfx_value call(reader *r, const char *name, size_t len) {
    cfx_value args = arguments(r);
    if (r->failed)
        return args;
    const char *word = cfx__string_new(name, len)->text;
    cfx_value first = cfx_as_list(args)->len ? cfx_as_list(args)->items[0] : cfx_none();
    const char *text = cfx_text(first);
    if (!strcmp(word, "Symbol") && text)
        return symbol(r, text, strlen(text));
    if ((!strcmp(word, "Integer") || !strcmp(word, "Identity") || !strcmp(word, "Float") ||
         !strcmp(word, "ToFloat")) && cfx_as_list(args)->len == 1)
        return !strcmp(word, "ToFloat") ? describe(name, len, cfx_as_list(args)) : first;
    if (!strcmp(word, "ModularIndexing") && cfx_as_list(args)->len == 3) { /* (a // b) % c */
        cfx_value quotient = cfx_list(first, cfx_as_list(args)->items[1]);
        cfx_value rest = cfx_list(evaluate(&functions[FLOORDIV], cfx_as_list(quotient)),
                                  cfx_as_list(args)->items[2]);
        cfx_value v = evaluate(&functions[MOD], cfx_as_list(rest));
        return cfx_is_bad(v) ? describe(name, len, cfx_as_list(args)) : v;
    }
    for (int i = 0; i < COUNT(functions); i++)
        if (!strcmp(functions[i].name, word)) {
            cfx_value v = evaluate(&functions[i], cfx_as_list(args));
            if (!cfx_is_bad(v))
                return v;
        }
    return describe(name, len, cfx_as_list(args));
}

static cfx_value number(reader *r) {
    const char *start = r->at;
    bool negative = *r->at == '-';
    int64_t v = 0;
    bool whole = true;
    for (r->at += negative; *r->at >= '0' && *r->at <= '9'; r->at++) {
        int digit = *r->at - '0';
        whole = whole && !__builtin_mul_overflow(v, 10, &v) &&
                !__builtin_add_overflow(v, negative ? -digit : digit, &v);
    }
    if (r->at == start + negative)
        return fail(r);
    while (is_word(*r->at))
        whole = false, r->at++;
    return whole ? cfx_int(v) : cfx_string_value_n(start, (size_t)(r->at - start));
}

static cfx_value expression(reader *r) {
    blanks(r);
    const char *start = r->at;
    cfx_value v;
    if (++r->depth > MAX_NESTING || ++r->parts > MAX_PARTS || r->failed) {
        v = fail(r);
    } else if (*start == '\'' || *start == '"') {
        size_t len = strcspn(start + 1, *start == '"' ? "\"" : "'");
        bool closed = start[1 + len] != 0;
        r->at += 1 + len + closed;
        v = closed ? cfx_string_value_n(start + 1, len) : fail(r);
    } else if (*start == '-' || (*start >= '0' && *start <= '9')) {
        v = number(r);
    } else {
        while (is_word(*r->at))
            r->at++;
        size_t len = (size_t)(r->at - start);
        if (!len)
            v = fail(r);
        else if (*r->at == '(')
            r->at++, v = call(r, start, len);
        else if (!strncmp(start, "True", 4) || !strncmp(start, "False", 5) ||
                 !strncmp(start, "true", 4) || !strncmp(start, "false", 5))
            v = cfx_string_value_n(start, len);
        else
            v = symbol(r, start, len);
    }
    r->depth--;
    return v;
}

cfx_value cfx__srepr_read(const char *text, const cfx__srepr_hints *h) {
    size_t mark = cfx_scope_open();
    reader r = {.at = text, .hints = h};
    cfx_value v = expression(&r);
    blanks(&r);
    if (r.failed || *r.at) {
        const char *rest, *end = text + strlen(text);
        if (end - text > MAX_PLAIN || !cfx__sym_parse(text, end, &rest, &v) || rest != end)
            v = cfx_string_value(text);
    }
    return cfx_scope_return_value(mark, v);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_symbol(cfx__text *out, const char *name) {
    bool backed = name[0] == 's'; /* a size of an input: at least 1; others may be 0 */
    cfx__text_printf(out, "Symbol('%s', %sinteger=True)", name, backed ? "positive=True, " : "");
}

/* The operands of a chain of one operator, from the left. */
static void put_chain(cfx__text *out, const struct cfx_sym *s, cfx__sym_op op) {
    if (s->op != op) {
        cfx__srepr_write(out, cfx__value_of_sym(s));
        return;
    }
    put_chain(out, s->a, op);
    cfx__text_puts(out, ", ");
    put_chain(out, s->b, op);
}

/* "u0 <= 8": a relation between two expressions. */
static bool put_relation(cfx__text *out, const char *text) {
    for (int i = 0; i < 4; i++) {
        const char *at = strstr(text, others[i].sign), *rest, *end = text + strlen(text);
        cfx_value a, b;
        if (!at || !cfx__sym_parse(text, at, &rest, &a) || rest != at)
            continue;
        const char *right = at + strlen(others[i].sign);
        if (!cfx__sym_parse(right, end, &rest, &b) || rest != end)
            continue;
        cfx__text_printf(out, "%s(", others[i].name);
        cfx__srepr_write(out, a);
        cfx__text_puts(out, ", ");
        cfx__srepr_write(out, b);
        cfx__text_putc(out, ')');
        return true;
    }
    return false;
}

void cfx__srepr_write(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_INT) {
        cfx__text_printf(out, "Integer(%lld)", (long long)cfx_integer(v));
        return;
    }
    if (v.tag == CFX_TAG_STR) {
        size_t mark = cfx_scope_open();
        if (!put_relation(out, cfx_as_string(v)->text))
            cfx__text_puts(out, cfx_as_string(v)->text); /* sympy reads its own str form too */
        cfx_scope_close(mark);
        return;
    }
    if (v.tag != CFX_TAG_SYM)
        return;
    const struct cfx_sym *s = cfx_as_sym(v);
    if (s->op == CFX__SYM_INT) {
        cfx__text_printf(out, "Integer(%lld)", (long long)s->hint);
        return;
    }
    if (s->op == CFX__SYM_NAME) {
        put_symbol(out, s->name);
        return;
    }
    const char *name = "Add";
    for (int i = 0; i < COUNT(functions); i++)
        if (functions[i].op == s->op) {
            name = functions[i].name;
            break;
        }
    if (s->op == CFX__SYM_MOD && !cfx__sym_is_natural_mod(s))
        name = "PythonMod";
    bool chain = s->op == CFX__SYM_ADD || s->op == CFX__SYM_MUL || s->op == CFX__SYM_MIN ||
                 s->op == CFX__SYM_MAX;
    cfx__text_printf(out, "%s(", name);
    if (chain) {
        put_chain(out, s, s->op);
    } else {
        cfx__srepr_write(out, cfx__value_of_sym(s->a));
        cfx__text_puts(out, ", ");
        cfx__srepr_write(out, cfx__value_of_sym(s->b));
    }
    cfx__text_putc(out, ')');
}
