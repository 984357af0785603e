/* Makes nodes of size expressions in the arguments of calls, before all calls of their graph.
 * Start at cfx__dynamic_reify. */
#include "../value/walk.h"
#include "dynamic.h"

/* A graph whose arguments are written. */
typedef struct reifying {
    cfx_graph *graph;
    cfx_dict *made; /* text of an expression to its node */
} reifying;

static cfx_value reify(reifying *r, const struct cfx_sym *e);

/* The input of the graph that is the symbol, or has it as a size. */
static cfx_value read_symbol(reifying *r, const struct cfx_sym *e) {
    cfx_value name = cfx__value_of_sym(e);
    cfx_each_node(r->graph, n) {
        cfx_result v = n->op == CFX_PLACEHOLDER ? cfx_node_result(n) : (cfx_result){0};
        if (v.value.tag == CFX_TAG_SYM && cfx_equal_values(v.value, name))
            return cfx_node_value(n);
        for (int i = 0; v.kind == CFX_RESULT_TENSOR && i < v.ndim; i++)
            if (cfx_equal_values(cfx_result_size(&v, i), name))
                return cfx_node_value(cfx_graph_call(r->graph, "aten.sym_size.int", n, i));
    }
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
             "a sub-graph needs the size %s, which none of its inputs has", e->name);
    return cfx_bad();
}

static cfx_value apply(reifying *r, const struct cfx_sym *e) {
    static const char *const functions[] = {
        [CFX__SYM_ADD] = "operator.add",           [CFX__SYM_MUL] = "operator.mul",
        [CFX__SYM_FLOORDIV] = "operator.floordiv", [CFX__SYM_MOD] = "operator.mod",
        [CFX__SYM_POW] = "operator.pow",           [CFX__SYM_MIN] = "torch.sym_min",
        [CFX__SYM_MAX] = "torch.sym_max"};
    cfx_value a = reify(r, e->a), b = reify(r, e->b);
    if (cfx_is_bad(a) || cfx_is_bad(b))
        return cfx_bad();
    return cfx_node_value(cfx_graph_call(r->graph, functions[e->op], a, b));
}

static cfx_value reify(reifying *r, const struct cfx_sym *e) {
    if (e->op == CFX__SYM_INT)
        return cfx_int(e->hint);
    cfx_value text = cfx_string_value(cfx_value_str(cfx__value_of_sym(e)));
    const cfx_value *made = cfx_dict_find(r->made, text);
    if (made)
        return *made;
    cfx_value v = e->op == CFX__SYM_NAME ? read_symbol(r, e) : apply(r, e);
    if (cfx_is_bad(v))
        return v;
    if (cfx_as_node(v)->op != CFX_PLACEHOLDER)
        cfx_node_set_meta(cfx_as_node(v), "val", cfx__value_of_sym(e));
    cfx_dict_put(r->made, text, v);
    return v;
}

static cfx_value reified(reifying *r, cfx_value v) {
    if (v.tag == CFX_TAG_SYM)
        return reify(r, cfx_as_sym(v));
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(out), reified(r, cfx_as_list(v)->items[i]));
    return out;
}

static bool is_number(cfx_value v, void *none) {
    (void)none;
    return v.tag != CFX_TAG_SYM;
}

static bool has_expression(cfx_value v) { return !cfx__value_each(v, is_number, NULL); }

void cfx__dynamic_reify(const char *path, cfx_module *m, void *user) {
    (void)path, (void)user;
    cfx_node *first = NULL;
    reifying r = {.graph = m->graph, .made = cfx_dict_new()};
    if (!m->graph)
        return;
    cfx_each_node(m->graph, n) first = !first && n->op != CFX_PLACEHOLDER ? n : first;
    CFX_INSERT_BEFORE(m->graph, first) cfx_each_node(m->graph, n)
        if (cfx_ok() && has_expression(n->args)) {
            cfx_value val = cfx_node_get_meta(n, "val"), args = reified(&r, n->args);
            if (cfx_ok()) {
                cfx_node_set_args(n, args);
                cfx_node_set_meta(n, "val", val);
            }
        }
}
