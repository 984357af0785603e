/* The conditions of rules: what a rule asks of the values its pattern found. A condition is a small
 * graph that is computed from them; what is not known (a shape that nothing noted) is None, and so
 * is all that follows from it, so that a rule is applied only where its condition is known to hold.
 * Start at cfx__condition_holds. */
#include "match.h"

#include <math.h>

typedef struct condition {
    const cfx__pattern *pattern;
    const cfx_value *table;
    const cfx_program *program; /* or NULL */
    cfx_dict *values;           /* node of the condition to its value */
} condition;

/* ---- what conditions ask --------------------------------------------------------------------- */

static cfx_value dtype_of(const cfx_value *v) {
    cfx_result r = v->tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(*v)) : cfx_result_of(*v);
    return r.kind == CFX_RESULT_TENSOR ? cfx_dtype_value(r.dtype) : cfx_none();
}

static cfx_value rank_of(const cfx_value *v) {
    cfx_result r = v->tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(*v)) : cfx_result_of(*v);
    return r.kind == CFX_RESULT_TENSOR ? cfx_int(r.ndim) : cfx_none();
}

static cfx_value shape_of(const cfx_value *v) {
    cfx_result r = v->tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(*v)) : cfx_result_of(*v);
    if (r.kind != CFX_RESULT_TENSOR)
        return cfx_none();
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int i = 0; i < r.ndim; i++)
        cfx_list_append(cfx_as_list(out), cfx_result_size(&r, i));
    return out;
}

static cfx_value numel_of(const cfx_value *v) {
    cfx_value shape = shape_of(v);
    int64_t n = 1;
    for (int64_t i = 0; shape.tag == CFX_TAG_TUPLE && i < cfx_as_list(shape)->len; i++)
        if (cfx_as_list(shape)->items[i].tag != CFX_TAG_INT ||
            __builtin_mul_overflow(n, cfx_integer(cfx_as_list(shape)->items[i]), &n))
            return cfx_none();
    return shape.tag == CFX_TAG_TUPLE ? cfx_int(n) : cfx_none();
}

static cfx_value len_of(const cfx_value *v) {
    bool list = v->tag == CFX_TAG_LIST || v->tag == CFX_TAG_TUPLE;
    return list ? cfx_int(cfx_as_list(*v)->len) : cfx_none();
}

static cfx_value users_of(const cfx_value *v) {
    return v->tag == CFX_TAG_NODE ? cfx_int(cfx_as_node(*v)->num_users) : cfx_none();
}

static cfx_value is_number(const cfx_value *v) { return cfx_bool(cfx_is_number(*v)); }

static cfx_value is_int(const cfx_value *v) { return cfx_bool(v->tag == CFX_TAG_INT); }

static cfx_value is_none(const cfx_value *v) { return cfx_bool(cfx_is_none(*v)); }

static cfx_value is_tensor(const cfx_value *v) {
    cfx_result r = v->tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(*v)) : cfx_result_of(*v);
    return v->tag == CFX_TAG_NODE && r.kind == CFX_RESULT_UNKNOWN
               ? cfx_none()
               : cfx_bool(r.kind == CFX_RESULT_TENSOR);
}

static cfx_value absolute(const cfx_value *v) {
    int64_t i = cfx_integer(*v);
    if (v->tag == CFX_TAG_INT)
        return cfx_int(i < 0 ? (int64_t)(0 - (uint64_t)i) : i);
    double im = v->tag == CFX_TAG_COMPLEX ? cfx_as_complex(*v)->im : 0;
    return cfx_float(hypot(cfx_number(*v), im));
}

static cfx_value close_to(const cfx_value *v) { return cfx_bool(cfx__near(v[0], v[1])); }

static cfx_value not_(const cfx_value *v) {
    return v->tag == CFX_TAG_BOOL ? cfx_bool(!cfx_integer(*v)) : cfx_none();
}

/* False where one is false, though nothing be known of the other. */
static cfx_value and_(const cfx_value *v) {
    for (int i = 0; i < 2; i++)
        if (v[i].tag == CFX_TAG_BOOL && !cfx_integer(v[i]))
            return cfx_bool(false);
    return v[0].tag == CFX_TAG_BOOL && v[1].tag == CFX_TAG_BOOL ? cfx_bool(true) : cfx_none();
}

static cfx_value or_(const cfx_value *v) {
    for (int i = 0; i < 2; i++)
        if (v[i].tag == CFX_TAG_BOOL && cfx_integer(v[i]))
            return cfx_bool(true);
    return v[0].tag == CFX_TAG_BOOL && v[1].tag == CFX_TAG_BOOL ? cfx_bool(false) : cfx_none();
}

static cfx_value in_(const cfx_value *v) {
    if (v[1].tag != CFX_TAG_LIST && v[1].tag != CFX_TAG_TUPLE)
        return cfx_none();
    for (int64_t i = 0; i < cfx_as_list(v[1])->len; i++)
        if (cfx_equal_values(v[0], cfx_as_list(v[1])->items[i]))
            return cfx_bool(true);
    return cfx_bool(false);
}

static cfx_value equal(const cfx_value *v) { return cfx_bool(cfx_equal_values(v[0], v[1])); }

static cfx_value unequal(const cfx_value *v) { return cfx_bool(!cfx_equal_values(v[0], v[1])); }

static cfx_value item(const cfx_value *v) {
    bool list = v[0].tag == CFX_TAG_LIST || v[0].tag == CFX_TAG_TUPLE;
    int64_t i = v[1].tag == CFX_TAG_INT ? cfx_integer(v[1]) : 0;
    if (!list || v[1].tag != CFX_TAG_INT)
        return cfx_none();
    i = i < 0 ? i + cfx_as_list(v[0])->len : i;
    return i >= 0 && i < cfx_as_list(v[0])->len ? cfx_as_list(v[0])->items[i] : cfx_none();
}

/* The path of the innermost module that a node is of. */
static cfx_value module_of(const cfx_value *v) {
    cfx_value stack =
        v->tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(*v), "nn_module_stack") : cfx_none();
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return cfx_none();
    return cfx_at(cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value, 0);
}

static cfx_value is_selected(const cfx_value *v) {
    const char *selector = cfx_text(v[1]);
    return v[0].tag == CFX_TAG_NODE && selector
               ? cfx_bool(cfx__run_selects(selector, cfx_as_node(v[0])))
               : cfx_none();
}

/* kinds: what arguments have to be for the function to be asked: anything, a value that is known, a
 * number. */
static const struct {
    const char *name;
    int nargs;
    enum { ANYTHING, KNOWN, NUMBERS } wants;
    cfx_value (*fn)(const cfx_value *v);
} functions[] = {{"dtype", 1, KNOWN, dtype_of},    {"rank", 1, KNOWN, rank_of},
                 {"shape", 1, KNOWN, shape_of},    {"numel", 1, KNOWN, numel_of},
                 {"len", 1, KNOWN, len_of},        {"users", 1, KNOWN, users_of},
                 {"number", 1, ANYTHING, is_number}, {"int", 1, ANYTHING, is_int},
                 {"none", 1, ANYTHING, is_none},   {"tensor", 1, ANYTHING, is_tensor},
                 {"module", 1, KNOWN, module_of},  {"selected", 2, KNOWN, is_selected},
                 {"abs", 1, NUMBERS, absolute},
                 {"close", 2, NUMBERS, close_to},  {"not", 1, ANYTHING, not_},
                 {"and", 2, ANYTHING, and_},       {"or", 2, ANYTHING, or_},
                 {"in", 2, KNOWN, in_},            {"operator.eq", 2, KNOWN, equal},
                 {"operator.ne", 2, KNOWN, unequal}, {"operator.getitem", 2, KNOWN, item}};

/* What does not depend on the caller: literals, attributes, and the parameters, buffers and
 * constants that programs have as inputs. */
static bool is_constant(const condition *c, cfx_value v) {
    if (v.tag != CFX_TAG_NODE)
        return true;
    const cfx_input_spec *in = c->program ? cfx_program_input(c->program, cfx_as_node(v)) : NULL;
    return cfx_as_node(v)->op == CFX_GET_ATTR || (in && in->kind != CFX_IN_USER);
}

static int find(const char *name) {
    for (int i = 0; i < COUNT(functions); i++)
        if (!strcmp(functions[i].name, name))
            return i;
    return -1;
}

int cfx__condition_arity(const char *name) {
    int i = find(name);
    return i >= 0 ? functions[i].nargs : !strcmp(name, "constant") ? 1 : -1;
}

/* ---- computing ------------------------------------------------------------------------------- */

static cfx_value given(cfx_node *n, void *data) {
    const condition *c = data;
    const cfx_value *v = cfx_dict_find(c->values, cfx_node_value(n));
    return v ? cfx_value_keep(*v) : cfx_none();
}

static bool all(const cfx_list *args, bool numbers) {
    for (int64_t i = 0; i < args->len; i++)
        if (numbers ? !cfx_is_number(args->items[i]) : cfx_is_none(args->items[i]))
            return false;
    return true;
}

/* Arithmetic and order, of numbers alone; what cannot be computed is not known. */
static cfx_value computed(const cfx_node *n, const cfx_list *args) {
    if (!all(args, true))
        return cfx_none();
    cfx_value v = cfx_py_from((cfx_site){0}, n->target.name,
                              (cfx_args){(int)args->len, args->items, NULL});
    if (!cfx_ok())
        cfx__error_forgive();
    return cfx_is_bad(v) ? cfx_none() : v;
}

static cfx_value value_of(condition *c, const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER)
        return c->table[cfx__node_of(cfx__pattern_named(c->pattern->graph, n->target.name))->id];
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, given, c));
    int i = find(n->target.name);
    if (!strcmp(n->target.name, "constant"))
        return cfx_bool(is_constant(c, cfx_as_list(args)->items[0]));
    if (i < 0)
        return computed(n, cfx_as_list(args));
    bool fine =
        functions[i].wants == ANYTHING || all(cfx_as_list(args), functions[i].wants == NUMBERS);
    return fine ? functions[i].fn(cfx_as_list(args)->items) : cfx_none();
}

bool cfx__condition_holds(const cfx_graph *g, const cfx__pattern *p, const cfx_value *table,
                          const cfx_program *program) {
    size_t mark = cfx_scope_open();
    condition c = {p, table, program, cfx_dict_new()};
    cfx_value v = cfx_none();
    cfx_each_node(g, n) {
        if (n->op == CFX_OUTPUT) {
            v = cfx__value_scope_own(cfx__node_map(cfx_at(n->args, 0), given, &c));
            break;
        }
        cfx_dict_put(c.values, cfx_node_value(n), value_of(&c, n));
    }
    bool holds = v.tag == CFX_TAG_BOOL && cfx_integer(v);
    cfx_scope_close(mark);
    return holds;
}
