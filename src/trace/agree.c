/* Whether a program is what forward does at other sizes than those it was made of: a recording has
 * the same calls, and its numbers are what the program's expressions are at these sizes. Start at
 * cfx__worlds_agree. */
#include <math.h>

#include "worlds.h"

typedef struct {
    const cfx__worlds *worlds;
    int k;
} place;

static bool agree(const place *p, cfx_graph *program, cfx_graph *recording);

/* ---- numbers --------------------------------------------------------------------------------- */

static cfx_value number_of(const place *p, cfx_value v);

/* What arithmetic that gives no integer gives; None where it cannot be computed. */
static cfx_value computed(const place *p, const cfx_node *n) {
    cfx_value args = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++) {
        cfx_value v = number_of(p, cfx_as_list(n->args)->items[i]);
        if (cfx_is_none(v))
            return v;
        cfx_list_append(cfx_as_list(args), v);
    }
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items, NULL};
    cfx_value result =
        n->op == CFX_CALL_FUNCTION ? cfx_py_from((cfx_site){0}, n->target.name, a) : cfx_none();
    cfx__error_forgive();
    return cfx_is_number(result) ? result : cfx_none();
}

/* A number of the program's at these sizes; None where that is not known. */
static cfx_value number_of(const place *p, cfx_value v) {
    int64_t n;
    if (cfx_is_number(v))
        return v;
    cfx_value val = v.tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(v), "val") : v;
    if (val.tag == CFX_TAG_INT || val.tag == CFX_TAG_SYM)
        return cfx__worlds_eval(p->worlds, p->k, val, &n) ? cfx_int(n) : cfx_none();
    return v.tag == CFX_TAG_NODE ? computed(p, cfx_as_node(v)) : cfx_none();
}

/* As arithmetic in another order gives them. */
static bool is_close(double a, double b) {
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-14 * fabs(a);
}

static bool same_number(const place *p, cfx_value a, cfx_value b) {
    cfx_value want = number_of(p, a);
    if (b.tag == CFX_TAG_NODE)
        b = cfx_node_get_meta(cfx_as_node(b), "val");
    if (cfx_is_none(want) || !cfx_is_number(b))
        return true;
    return want.tag == CFX_TAG_INT && b.tag == CFX_TAG_INT
               ? cfx_integer(want) == cfx_integer(b)
               : is_close(cfx_number(want), cfx_number(b));
}

/* ---- arguments and results ------------------------------------------------------------------- */

static bool is_scalar(cfx_value v) {
    return cfx_is_number(v) || v.tag == CFX_TAG_SYM ||
           (v.tag == CFX_TAG_NODE &&
            cfx__merge_is_scalar(cfx_node_get_meta(cfx_as_node(v), "val")));
}

/* Calls of the same target: only numbers can be others. A program may give its sub-graphs sizes
 * beside what was recorded. */
static bool same_values(const place *p, cfx_value a, cfx_value b) {
    bool list = a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE;
    if (is_scalar(a) && is_scalar(b))
        return same_number(p, a, b);
    if (list && b.tag == a.tag)
        for (int64_t i = 0; i < cfx_as_list(a)->len && i < cfx_as_list(b)->len; i++)
            if (!same_values(p, cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]))
                return false;
    if (a.tag == CFX_TAG_DICT && b.tag == CFX_TAG_DICT)
        for (int64_t i = 0; i < cfx_as_dict(a)->len && i < cfx_as_dict(b)->len; i++)
            if (!same_values(p, cfx_as_dict(a)->entries[i].value, cfx_as_dict(b)->entries[i].value))
                return false;
    return true;
}

static bool same_tensor(const place *p, cfx_value a, const cfx_tensor *t) {
    cfx_value all = a.tag == CFX_TAG_DICT ? a : cfx_none();
    if (a.tag == CFX_TAG_TENSOR) {
        const cfx_tensor *own = cfx_as_tensor(a);
        return own->ndim == t->ndim && own->dtype == t->dtype &&
               !memcmp(own->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    }
    cfx_value shape = cfx_is_none(all) ? all : cfx_dict_get(cfx_as_dict(all), "shape"),
              stride = cfx_is_none(all) ? all : cfx_dict_get(cfx_as_dict(all), "stride"),
              dtype = cfx_is_none(all) ? all : cfx_dict_get(cfx_as_dict(all), "dtype");
    if (shape.tag != CFX_TAG_TUPLE || stride.tag != CFX_TAG_TUPLE)
        return true;
    if (cfx_as_list(shape)->len != t->ndim || (cfx_dtype)t->dtype != cfx_as_dtype(dtype))
        return false;
    bool thin = false; /* whose strides may be any */
    for (int i = 0; i < t->ndim; i++)
        thin |= t->shape[i] < 2;
    for (int i = 0; i < t->ndim; i++) {
        int64_t size, step;
        if (!cfx__worlds_eval(p->worlds, p->k, cfx_as_list(shape)->items[i], &size) ||
            !cfx__worlds_eval(p->worlds, p->k, cfx_as_list(stride)->items[i], &step) ||
            size != t->shape[i] || (step != t->stride[i] && !thin))
            return false;
    }
    return true;
}

static bool same_results(const place *p, cfx_value a, cfx_value b) {
    bool list = b.tag == CFX_TAG_LIST || b.tag == CFX_TAG_TUPLE;
    if (b.tag == CFX_TAG_TENSOR)
        return same_tensor(p, a, cfx_as_tensor(b));
    if (!list || (a.tag != CFX_TAG_LIST && a.tag != CFX_TAG_TUPLE))
        return true;
    if (cfx_as_list(a)->len != cfx_as_list(b)->len)
        return false;
    for (int64_t i = 0; i < cfx_as_list(a)->len; i++)
        if (!same_results(p, cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]))
            return false;
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The next call that gives something else than a number, or the output, from n on. Arithmetic on
 * sizes stands elsewhere in programs, and assertions are made with them. */
static cfx_node *next_call(cfx_node *n) {
    for (; n; n = cfx_node_after(n)) {
        cfx_value val = cfx_node_get_meta(n, "val");
        if (n->op == CFX_OUTPUT || n->op == CFX_GET_ATTR)
            return n;
        if (n->op != CFX_PLACEHOLDER && !cfx_is_none(val) && !cfx__merge_is_scalar(val))
            return n;
    }
    return NULL;
}

static bool agree_on(const place *p, cfx_node *a, cfx_node *b) {
    if (a->op != b->op || strcmp(a->target.name, b->target.name))
        return false;
    if (a->op == CFX_GET_ATTR) {
        cfx_graph *mine = cfx__graph_subgraph(a->graph, a->target.name),
                  *other = cfx__graph_subgraph(b->graph, b->target.name);
        return !mine || !other || agree(p, mine, other);
    }
    return same_values(p, a->args, b->args) && same_values(p, a->kwargs, b->kwargs) &&
           same_results(p, cfx_node_get_meta(a, "val"), cfx_node_get_meta(b, "val"));
}

static bool agree(const place *p, cfx_graph *program, cfx_graph *recording) {
    cfx_node *a = next_call(cfx_graph_first(program)), *b = next_call(cfx_graph_first(recording));
    for (; a && b; a = next_call(cfx_node_after(a)), b = next_call(cfx_node_after(b))) {
        size_t mark = cfx_scope_open();
        bool same = agree_on(p, a, b);
        cfx_scope_close(mark);
        if (!same)
            return false;
    }
    return !a && !b;
}

bool cfx__worlds_agree(const cfx__worlds *w, int k, cfx_graph *program, cfx_graph *recording) {
    return agree(&(place){w, k}, program, recording);
}
