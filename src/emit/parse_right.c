/* What stands right of an assignment: one call, one operator or one attribute over names and
 * literals, as generated code has it. Calls inside calls are refused. */
#include "emit.h"

static bool same(const char *a, size_t n, const char *b) {
    return strlen(b) == n && !memcmp(a, b, n);
}

/* ---- references ----------------------------------------------------------------------------- */

typedef enum ref_base { REF_VALUE, REF_SELF, REF_GLOBAL, REF_NOTHING } ref_base;

/* What stands before a call or is read: self.a.b, x.size, torch.relu. The path is in p->path. */
typedef struct ref {
    ref_base base;
    cfx_value value;
    const char *at;
} ref;

static void path_add(cfx__parser *p, const char *atom, size_t len, bool first) {
    if (!first)
        cfx__text_putc(&p->path, '.');
    cfx__text_add(&p->path, atom, len);
}

static void take_atoms(cfx__parser *p, const ref *r, int *atoms) {
    const char *name;
    while (!p->failed && cfx__parser_take(p, ".")) {
        size_t len = cfx__parser_take_name(p, &name);
        if (!len)
            cfx__parse_fail(p, p->at, "expected a name");
        path_add(p, name, len, !(*atoms)++ && r->base != REF_GLOBAL);
    }
}

static ref take_ref(cfx__parser *p, int *atoms);

/* getattr(self.layers, "0"): the path grows. False, and nothing taken, where it is the function. */
static bool take_getattr(cfx__parser *p, ref *r, int *atoms) {
    const char *start = p->at;
    size_t path = p->path.len;
    bool quiet = p->quiet, done = false;
    p->quiet = true; /* only a try */
    p->at += strlen("getattr(");
    if (++p->depth > CFX__MAX_NESTING)
        p->failed = true;
    else
        *r = take_ref(p, atoms);
    p->depth--;
    if (r->base != REF_GLOBAL && cfx__parser_take(p, ", \"")) {
        p->at--;
        cfx_value atom = cfx__parser_take_string(p);
        bool closed = cfx__parser_take(p, ")");
        bool goes_on = r->base != REF_VALUE || (p->at < p->end && strchr("(.,", *p->at));
        done = closed && goes_on && atom.tag == CFX_TAG_STR;
        if (done)
            path_add(p, cfx_as_string(atom)->text, cfx_as_string(atom)->len, !(*atoms)++);
    }
    p->quiet = quiet;
    if (done)
        return true;
    p->failed = false;
    p->at = start;
    p->path.len = path;
    *atoms = 0;
    return false;
}

/* Whether a word starts a value, not the name of a function, though it may be followed by a dot. */
static bool starts_value(const cfx__parser *p, size_t len) {
    static const char *const words[] = {"None", "True", "False", "Ellipsis", "inf", "nan"};
    for (int i = 0; i < COUNT(words); i++)
        if (same(p->at, len, words[i]))
            return true;
    const char *end = cfx__parser_torch_value_end(p);
    return cfx__parser_is_symbol(p->at, len) || (end && end < p->end && *end == '.');
}

/* A dotted name that is called is a function; other words are values. */
static bool take_global(cfx__parser *p, size_t first) {
    static const char *const values[] = {"slice", "device", "complex", "torch.Tensor"};
    const char *start = p->at, *name;
    if (starts_value(p, first))
        return false;
    bool whole;
    do
        whole = cfx__parser_take_name(p, &name) > 0;
    while (whole && cfx__parser_take(p, "."));
    size_t len = (size_t)(p->at - start);
    bool called = whole && p->at < p->end && *p->at == '(';
    for (int i = 0; i < COUNT(values); i++)
        called &= !same(start, len, values[i]);
    if (called)
        cfx__text_add(&p->path, start, len);
    else
        p->at = start;
    return called;
}

static ref take_ref(cfx__parser *p, int *atoms) {
    cfx__parser_skip(p);
    ref r = {REF_VALUE, cfx_none(), p->at};
    const char *start = p->at, *name;
    size_t len = cfx__parser_take_name(p, &name);
    p->at = start;
    bool known = len && cfx__parser_find_node(p, name, len);
    if (!known && same(name, len, "self")) {
        r.base = REF_SELF;
        p->at += len;
    } else if (!known && same(name, len, "getattr") && start[len] == '(' &&
               take_getattr(p, &r, atoms)) {
        r.at = start;
    } else if (p->end - p->at > 1 && (*p->at == ',' || (*p->at == '.' && p->at[1] != '.'))) {
        r.base = REF_NOTHING; /* a method without arguments has nothing to be called on */
    } else if (!p->failed && len && !known && take_global(p, len)) {
        r.base = REF_GLOBAL;
        return r;
    } else {
        r.value = cfx__parser_take_operand(p);
    }
    take_atoms(p, &r, atoms);
    return r;
}

/* ---- right sides ---------------------------------------------------------------------------- */

cfx__parser_statement cfx__parser_make_operator(const cfx__emit_operator *o, int n,
                                                const cfx_value *args) {
    return (cfx__parser_statement){CFX_CALL_FUNCTION,        o->target,  strlen(o->target),
                                   cfx_tuple_value(n, args), cfx_none(), false};
}

/* The arguments of a call; the opening bracket is next. `self` is the first one, if given. */
static cfx__parser_statement take_call(cfx__parser *p, cfx_opcode op, const char *target,
                                       const cfx_value *self) {
    cfx_dict *kw = cfx_dict_new();
    size_t from = p->stack.len;
    if (self)
        VEC_PUSH(p->stack, *self);
    p->at++;
    cfx__parser_take_values(p, ")", kw);
    return (cfx__parser_statement){op,
                                   target,
                                   strlen(target),
                                   cfx__parser_pop_values(p, from, CFX_TAG_TUPLE),
                                   kw->len ? cfx_dict_value(kw) : cfx_none(),
                                   false};
}

static cfx__parser_statement take_attribute(cfx__parser *p, const ref *r, int atoms,
                                            const char *path) {
    if (r->base == REF_SELF && atoms)
        return (cfx__parser_statement){CFX_GET_ATTR, path,       strlen(path),
                                       cfx_none(),   cfx_none(), false};
    if (r->base == REF_VALUE && atoms == 1 && cfx__name_is_identifier(path, strlen(path))) {
        cfx_value args[] = {r->value, cfx_string_value(path)};
        return (cfx__parser_statement){
            CFX_CALL_FUNCTION,        "builtins.getattr", strlen("builtins.getattr"),
            cfx_tuple_value(2, args), cfx_none(),         false};
    }
    cfx__parse_fail(p, r->at, "expected a call, an operator or an attribute");
    return (cfx__parser_statement){.op = CFX_OUTPUT};
}

static cfx_value negated(cfx_value v) {
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_INT: return cfx_int((int64_t)(0 - (uint64_t)cfx_integer(v)));
    case CFX_TAG_FLOAT: return cfx_float(-cfx_number(v));
    default: return cfx_complex_value(cfx_as_complex(v)->re, -cfx_as_complex(v)->im);
    }
}

/* x + 1, x[0], or x alone. */
static cfx__parser_statement take_operation(cfx__parser *p, const ref *r) {
    cfx__parser_skip(p);
    const cfx__emit_operator *o =
        p->at < p->end ? cfx__emit_operator_starting(p->at, CFX__BINARY) : NULL;
    cfx_value args[2] = {r->value, cfx_none()};
    if (o) {
        p->at += strlen(o->sign);
        args[1] = cfx__parser_take_value(p);
        return cfx__parser_make_operator(o, 2, args);
    }
    if (cfx__parser_take(p, "[")) {
        args[1] = cfx__parser_take_subscript(p);
        return cfx__parser_make_operator(cfx__emit_operator_named("getitem"), 2, args);
    }
    if (r->value.tag == CFX_TAG_NODE)
        return (cfx__parser_statement){CFX_OUTPUT, NULL, 0, r->value, cfx_none(), true};
    if (*r->at == '-' && cfx_is_number(r->value)) { /* nothing else makes a literal a statement */
        args[0] = negated(r->value);
        return cfx__parser_make_operator(cfx__emit_operator_named("neg"), 1, args);
    }
    return take_attribute(p, r, 0, "");
}

cfx__parser_statement cfx__parser_take_right_side(cfx__parser *p) {
    cfx__parser_skip(p);
    p->path.len = 0;
    cfx__text_add(&p->path, "", 0);
    const cfx__emit_operator *o = p->at < p->end && !cfx__parser_is_number_next(p)
                                      ? cfx__emit_operator_starting(p->at, CFX__UNARY)
                                      : NULL;
    if (o) {
        p->at++;
        cfx_value v = cfx__parser_take_operand(p);
        return cfx__parser_make_operator(o, 1, &v);
    }
    int atoms = 0;
    ref r = take_ref(p, &atoms);
    if (p->failed)
        return (cfx__parser_statement){.op = CFX_OUTPUT};
    const char *path = cfx__string_new(p->path.data, p->path.len)->text;
    bool called = p->at < p->end && *p->at == '(';
    if (called && r.base == REF_GLOBAL) {
        cfx__text name = {0};
        if (strchr(path, '.'))
            cfx__text_puts(&name, path);
        else
            cfx__parse_global(&name, path, strlen(path));
        return take_call(p, CFX_CALL_FUNCTION, cfx__text_take(&name), NULL);
    }
    if (called && atoms)
        return take_call(p, r.base == REF_SELF ? CFX_CALL_MODULE : CFX_CALL_METHOD, path,
                         r.base == REF_VALUE ? &r.value : NULL);
    if (r.base == REF_VALUE && !atoms)
        return take_operation(p, &r);
    return take_attribute(p, &r, atoms, path);
}
