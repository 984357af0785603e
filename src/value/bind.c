/* Binding: the arguments of a call find their places in a schema.
 *
 * Invariant: `out` borrows from the arguments, from the schema's defaults or from the scope; the
 * arguments are never changed. The common call, positional values of the very types asked for,
 * allocates nothing: each value is one test of a bit that the parser of schemas prepared. */
#include "value.h"

static bool is_taken(uint32_t mask, cfx_value v) { return mask >> v.tag & 1; }

/* ---- one value ------------------------------------------------------------------------------- */

static bool has_number_tag(cfx_value v) { return cfx_is_number(v) || v.tag == CFX_TAG_SYM; }

/* What became of v is as little known as v. */
static cfx_value as_marked(cfx_value v, cfx_value made) {
    made.spare = cfx__value_mark(v);
    return made;
}

/* Turns a value into the type asked for where Python would: True to 1, 1 to 1.0, "cpu" to a device.
 * In overload resolution a bool is no int and an int no bool, but for 0 and 1, which is what C11's
 * false and true are; torch.ops takes both. */
static bool convert(cfx__schema_type type, cfx_value v, unsigned mode, cfx_value *out) {
    bool exact = mode & CFX__BIND_EXACT;
    switch (type) {
    case CFX__T_TENSOR:
        *out = v;
        return (mode & CFX__BIND_NUMBERS) && has_number_tag(v);
    case CFX__T_INT:
        *out = as_marked(v, cfx_int(v.tag == CFX_TAG_BOOL && v.b_));
        return v.tag == CFX_TAG_BOOL && !exact;
    case CFX__T_FLOAT:
        if (v.tag != CFX_TAG_INT && v.tag != CFX_TAG_BOOL)
            return false;
        *out = as_marked(v, cfx_float(v.tag == CFX_TAG_INT ? (double)v.i_ : v.b_));
        return true;
    case CFX__T_BOOL:
        *out = as_marked(v, cfx_bool(v.i_ != 0));
        return v.tag == CFX_TAG_INT && (!exact || v.i_ == 0 || v.i_ == 1);
    case CFX__T_COMPLEX:
        if (!cfx_is_number(v))
            return false;
        *out = cfx_complex_value(cfx_number(v), 0);
        return true;
    case CFX__T_DEVICE: {
        cfx_device d;
        if (v.tag != CFX_TAG_STR || !cfx__device_parse(v.str_->text, &d))
            return false;
        *out = cfx_device_value(d);
        return true;
    }
    default: return false;
    }
}

static bool take_item(const cfx__schema_arg *arg, cfx_value v, unsigned mode, cfx_value *out) {
    if (is_taken(arg->items, v)) {
        *out = v;
        return true;
    }
    return convert(arg->type, v, mode & ~(unsigned)CFX__BIND_NUMBERS, out);
}

/* A list or tuple whose items all fit; it is made anew only where an item had to be converted. */
static bool take_list(const cfx__schema_arg *arg, cfx_value v, unsigned mode, cfx_value *out) {
    const cfx_list *l = v.list_;
    int64_t i = 0;
    while (i < l->len && is_taken(arg->items, l->items[i]))
        i++;
    v.tag = CFX_TAG_LIST; /* a tuple is the same object under another tag */
    *out = v;
    if (i == l->len)
        return true;
    cfx_value made = cfx_list_value(i, l->items);
    for (; i < l->len; i++) {
        cfx_value item;
        if (!take_item(arg, l->items[i], mode, &item))
            return false;
        cfx_list_append(made.list_, item);
    }
    *out = made;
    return true;
}

/* One value for an argument that does not take it as it is. */
static bool take_other(const cfx__schema_arg *arg, cfx_value v, unsigned mode, cfx_value *out) {
    if (arg->writes) /* a number cannot be written to */
        mode &= ~(unsigned)CFX__BIND_NUMBERS;
    if (!arg->list || arg->type == CFX__T_ANY)
        return convert(arg->type, v, mode, out);
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        return take_list(arg, v, mode, out);
    cfx_value item;
    if (!arg->list_len || v.tag == CFX_TAG_NONE || !take_item(arg, v, mode, &item))
        return false;
    cfx_value list = cfx_list_value(0, NULL); /* T[2]: one stands for two */
    for (int i = 0; i < arg->list_len; i++)
        cfx_list_append(list.list_, item);
    *out = list;
    return true;
}

static inline bool take(const cfx__schema_arg *arg, cfx_value v, unsigned mode, cfx_value *out) {
    if (likely(is_taken(arg->accepts, v))) {
        *out = v;
        return true;
    }
    return take_other(arg, v, mode, out);
}

bool cfx__bind_takes(const cfx__schema_arg *arg, cfx_value v, unsigned mode) {
    size_t mark = cfx_scope_open();
    cfx_value unused;
    bool taken = take(arg, v, mode, &unused);
    cfx_scope_close(mark);
    return taken;
}

/* ---- names ----------------------------------------------------------------------------------- */

bool cfx__schema_arg_named(const cfx__schema_arg *arg, const char *name) {
    static const char *const others[][2] = {{"self", "input"},
                                            {"self", "x"},
                                            {"other", "x2"},
                                            {"dim", "axis"},
                                            {"keepdim", "keepdims"}};
    if (!strcmp(arg->name, name))
        return true;
    for (int i = 0; i < COUNT(others); i++)
        if (!strcmp(others[i][1], name) && !strcmp(others[i][0], arg->name))
            return true;
    return false;
}

/* The argument of that very name, else the one that Python also calls so, else -1. */
static int find_arg(const cfx__schema *s, const char *name) {
    for (int i = 0; i < s->nargs; i++)
        if (!strcmp(s->args[i].name, name))
            return i;
    for (int i = 0; i < s->nargs; i++)
        if (cfx__schema_arg_named(&s->args[i], name))
            return i;
    return -1;
}

int cfx__schema_varargs(const cfx__schema *s) {
    int last = s->npositional - 1;
    if (last < 0 || last > 1 || (last == 1 && strcmp(s->args[0].name, "self")))
        return -1;
    const cfx__schema_arg *arg = &s->args[last];
    return arg->list && arg->type == CFX__T_INT ? last : -1;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The type as TorchScript writes it in messages: Optional[List[int]]. Enumerations are ints. */
static const char *script_type(const cfx__schema_arg *arg) {
    static const char *const names[] = {
        [CFX__T_TENSOR] = "Tensor",   [CFX__T_SCALAR] = "number", [CFX__T_INT] = "int",
        [CFX__T_FLOAT] = "float",     [CFX__T_BOOL] = "bool",     [CFX__T_STR] = "str",
        [CFX__T_DTYPE] = "int",       [CFX__T_DEVICE] = "Device", [CFX__T_LAYOUT] = "int",
        [CFX__T_MEMORY_FORMAT] = "int", [CFX__T_GENERATOR] = "Generator", [CFX__T_DIMNAME] = "str",
        [CFX__T_STORAGE] = "Storage", [CFX__T_STREAM] = "Stream", [CFX__T_COMPLEX] = "complex"};
    if (arg->type == CFX__T_ANY)
        return arg->type_text;
    const char *text = names[arg->type];
    if (arg->items_optional)
        text = cfx__text_format("Optional[%s]", text);
    if (arg->list)
        text = cfx__text_format("List[%s]", text);
    return arg->optional ? cfx__text_format("Optional[%s]", text) : text;
}

/* The last part of a type's name, as type(v).__name__ gives it. */
static const char *short_type(cfx_value v) {
    const char *name = cfx__value_python_type(v), *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static const char *cast_error(const cfx__schema_arg *arg, cfx_value v) {
    if (arg->type == CFX__T_TENSOR && !arg->list)
        return cfx__text_format("Unable to cast %s to Tensor", cfx_value_str(v));
    if (arg->type == CFX__T_SCALAR && !arg->list)
        return cfx__text_format("Cannot cast %s to number", cfx_value_str(v));
    return cfx__text_format(
        "Unable to cast Python instance of type <class '%s%s'> to C++ type '?' "
        "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for "
        "details)",
        v.tag == CFX_TAG_TENSOR ? "torch." : "", cfx__value_python_type(v));
}

static bool fail_type(const cfx__schema *s, cfx_site at, int i, cfx_value v) {
    const cfx__schema_arg *arg = &s->args[i];
    size_t mark = cfx_scope_open();
    if (arg->type == CFX__T_DEVICE && v.tag == CFX_TAG_STR)
        cfx_fail(CFX_RUNTIME_ERROR, at, "Invalid device string: '%s'", v.str_->text);
    else
        cfx__fail_lines(
            CFX_RUNTIME_ERROR, at,
            "%s::%s() Expected a value of type '%s' for argument '%s' but instead found type "
            "'%s'.\nPosition: %d\nValue: %s\nDeclaration: %s\nCast error details: %s",
            s->ns, s->name, script_type(arg), arg->name, short_type(v), i, cfx_value_repr(v),
            cfx__schema_print(s), cast_error(arg, v));
    cfx_scope_close(mark);
    return false;
}

static bool fail_count(const cfx__schema *s, cfx_site at, int given) {
    size_t mark = cfx_scope_open();
    cfx_fail(CFX_RUNTIME_ERROR, at,
             "%s::%s() expected at most %d argument(s) but received %d argument(s). "
             "Declaration: %s",
             s->ns, s->name, s->nargs, given, cfx__schema_print(s));
    cfx_scope_close(mark);
    return false;
}

static bool fail_missing(const cfx__schema *s, cfx_site at, int i) {
    size_t mark = cfx_scope_open();
    cfx_fail(CFX_RUNTIME_ERROR, at, "%s::%s() is missing value for argument '%s'. Declaration: %s",
             s->ns, s->name, s->args[i].name, cfx__schema_print(s));
    cfx_scope_close(mark);
    return false;
}

static bool fail_keyword(const cfx__schema *s, cfx_site at, const char *name, bool known) {
    size_t mark = cfx_scope_open();
    if (known)
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Argument '%s' specified both as positional and keyword argument. Schema: %s",
                 name, cfx__schema_print(s));
    else
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Unknown keyword argument '%s' for operator '%s::%s'. Schema: %s", name, s->ns,
                 s->name, cfx__schema_print(s));
    cfx_scope_close(mark);
    return false;
}

bool cfx__bind_one(const cfx__schema *s, cfx_site at, int i, cfx_value v, unsigned mode,
                   cfx_value *out) {
    return likely(take(&s->args[i], v, mode, out)) || fail_type(s, at, i, v);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* A call in the making. Places not filled yet hold a bad value. */
typedef struct binding {
    const cfx__schema *s;
    cfx_site at;
    unsigned mode;
    cfx_value *out;
    int clash; /* the first keyword that had a value already, or that nobody knows */
    const char *clash_name;
} binding;

static bool quiet(const binding *b) { return b->mode & CFX__BIND_EXACT; }

/* zeros(2, 3), x.view(2, -1): all that is left of the positional values as one list. */
static bool gather(binding *b, int place, const cfx_value *v, int n) {
    const cfx__schema_arg *arg = &b->s->args[place];
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++) {
        cfx_value item;
        if (!take_item(arg, v[i], b->mode, &item))
            return quiet(b) ? false : fail_type(b->s, b->at, place, v[i]);
        cfx_list_append(list.list_, item);
    }
    b->out[place] = list;
    return true;
}

/* Whether the n positional values from v on are meant to be gathered. */
static bool is_gathered(const cfx__schema_arg *arg, const cfx_value *v, int n) {
    if (v[0].tag == CFX_TAG_NODE)
        return n > 1;
    return (v[0].tag == CFX_TAG_INT || v[0].tag == CFX_TAG_SYM) && (n > 1 || !arg->list_len);
}

/* Positional values; returns how many places they filled, -1 where one does not fit. */
static int bind_positional(binding *b, const cfx_value *v, int n) {
    const cfx__schema *s = b->s;
    int varargs = quiet(b) ? cfx__schema_varargs(s) : -1; /* Python's functions, not torch.ops */
    for (int i = 0; i < n; i++) {
        if (i == varargs && is_gathered(&s->args[i], v + i, n - i))
            return gather(b, i, v + i, n - i) ? i + 1 : -1;
        if (i >= (quiet(b) ? s->npositional : s->nargs)) {
            if (!quiet(b))
                fail_count(s, b->at, n);
            return -1;
        }
        if (!take(&s->args[i], v[i], b->mode, &b->out[i])) {
            if (!quiet(b))
                fail_type(s, b->at, i, v[i]);
            return -1;
        }
    }
    return n;
}

/* A keyword that is not wanted is remembered: PyTorch speaks of missing values first. */
static bool bind_keyword(binding *b, const char *name, cfx_value v) {
    int i = find_arg(b->s, name);
    if (i < 0 || b->out[i].tag != CFX_TAG_BAD) {
        if (!b->clash_name) {
            b->clash = i;
            b->clash_name = name;
        }
        return !quiet(b);
    }
    if (take(&b->s->args[i], v, b->mode, &b->out[i]))
        return true;
    return quiet(b) ? false : fail_type(b->s, b->at, i, v);
}

static bool bind_slow(binding *b, cfx_args a) {
    const cfx__schema *s = b->s;
    VEC(cfx_value) plain = {0};
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag != CFX_TAG_KEYWORD)
            VEC_PUSH(plain, a.v[i]);
    int keywords = a.n - (int)plain.len + (a.kw ? (int)a.kw->len : 0);
    for (int i = 0; i < s->nargs; i++)
        b->out[i] = cfx_bad();
    int given = (int)plain.len, filled = -1;
    bool gathers = quiet(b) && cfx__schema_varargs(s) >= 0;
    if (given + keywords <= s->nargs || gathers)
        filled = bind_positional(b, plain.data, given);
    else if (!quiet(b))
        fail_count(s, b->at, given + keywords);
    VEC_FREE(plain);
    bool fine = filled >= 0;
    for (int i = 0; fine && i < a.n; i++)
        if (a.v[i].tag == CFX_TAG_KEYWORD)
            fine = bind_keyword(b, a.v[i].keyword_->name->text, a.v[i].keyword_->value);
    for (int64_t i = 0; fine && a.kw && i < a.kw->len; i++) {
        const char *name = cfx_text(a.kw->entries[i].key);
        fine = bind_keyword(b, name ? name : "", a.kw->entries[i].value);
    }
    for (int i = 0; fine && i < s->nargs; i++) {
        if (b->out[i].tag != CFX_TAG_BAD)
            continue;
        b->out[i] = s->args[i].fallback;
        if (!s->args[i].has_default)
            fine = quiet(b) ? false : fail_missing(s, b->at, i);
    }
    if (fine && b->clash_name)
        fine = fail_keyword(s, b->at, b->clash_name, b->clash >= 0);
    return fine;
}

bool cfx__bind(const cfx__schema *s, cfx_site at, cfx_args a, unsigned mode, cfx_value *out) {
    const cfx__schema_arg *args = s->args;
    int n = a.n;
    if (likely(n <= s->npositional && (!a.kw || !a.kw->len))) {
        int i = 0;
        for (; i < n && is_taken(args[i].accepts, a.v[i]); i++)
            out[i] = a.v[i];
        if (i == n) {
            for (; i < s->nargs && args[i].has_default; i++)
                out[i] = args[i].fallback;
            if (likely(i == s->nargs))
                return true;
        }
    }
    binding b = {.s = s, .at = at, .mode = mode, .out = out};
    return bind_slow(&b, a);
}
