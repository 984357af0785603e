/* One node for each expression, once a program is traced: the first that computes it. Sizes that
 * were read off tensors are computed from those of the inputs where that can be, and what depends
 * on data is asserted to be in its range where it appears. What nodes that go had used stays, used
 * or not: PyTorch drops nothing after this. */
#include "symints.h"

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* Whether n reads a size off a tensor that is no input. */
static bool is_read(const cfx_node *n) {
    const cfx__schema *s = n->target.op && !n->target.fn ? cfx__op_info_of(n->target.op)->schema
                                                         : NULL;
    cfx_value from = cfx_len(n->args) ? cfx_at(n->args, 0) : cfx_none();
    return s && s->nrets == 1 && s->rets[0].sym && !s->rets[0].list &&
           s->args[0].type == CFX__T_TENSOR && from.tag == CFX_TAG_NODE &&
           cfx_as_node(from)->op != CFX_PLACEHOLDER;
}

static bool is_known(const cfx__merging *g, const cfx_sym *e) {
    if (!e || e->op == CFX__SYM_INT)
        return true;
    if (e->op != CFX__SYM_NAME)
        return is_known(g, e->a) && is_known(g, e->b);
    const struct cfx__place *p = cfx__place_find(g, cfx__value_of_sym(e));
    return p && p->node;
}

/* Lets the node that has n's expression already stand for n, or n for it from now on. */
static bool cons(cfx__merging *g, cfx_node *n) {
    cfx_value val = cfx_node_get_meta(n, "val");
    bool expression = val.tag == CFX_TAG_SYM || val.tag == CFX_TAG_STR;
    if (!expression || n->op != CFX_CALL_FUNCTION)
        return false;
    const struct cfx__place *p = cfx__place_find(g, val);
    cfx_value first = p && p->node ? cfx_node_value(p->node) : cfx_none();
    if (cfx_is_none(first) && is_read(n) && is_known(g, cfx_as_sym(val)))
        first = cfx__reify(g, val, false);
    if (first.tag != CFX_TAG_NODE) {
        cfx__place_add(g, val, n, NULL, 0);
        return false;
    }
    cfx_node_replace(n, cfx_as_node(first));
    cfx_graph_erase(n);
    return true;
}

/* Whether metadata has a symbol that depends on data and no node gives yet. */
static bool has_fresh(const cfx__merging *g, cfx_value val) {
    cfx_value all = is_list(val) ? val : cfx__merge_sizes(val);
    bool fresh = cfx__merge_is_fresh(g, val);
    for (int64_t i = 0; is_list(all) && i < cfx_len(all); i++)
        fresh |= has_fresh(g, cfx_at(all, i));
    return fresh;
}

/* An assertion that was made already goes, and what it asked, which stands for nothing then. */
static bool drop_claimed(cfx__merging *g, cfx_node *n) {
    cfx_value asked = cfx__merge_claimed(g, n);
    if (asked.tag != CFX_TAG_NODE)
        return false;
    cfx_graph_erase(n);
    cfx_node *asks = cfx_as_node(asked);
    struct cfx__place *p = cfx__place_find(g, cfx_node_get_meta(asks, "val"));
    if (asks->num_users)
        return true;
    if (p && p->node == asks)
        p->node = NULL;
    cfx_graph_erase(asks);
    return true;
}

/* Ranges are asserted where a symbol appears. */
static bool is_range(const cfx_node *n) {
    return !strcmp(n->target.name, "aten.sym_constrain_range.default") ||
           !strcmp(n->target.name, "aten.sym_constrain_range_for_size.default");
}

static void visit(cfx__merging *g, cfx_node *n, cfx_node *next) {
    g->at[0] = n;
    cfx_graph_insert_before(n->graph, next);
    cfx_value val = cfx_node_get_meta(n, "val");
    bool fresh = has_fresh(g, val);
    if (fresh)
        cfx__merge_note(g, n, val);
    else if (is_range(n))
        cfx_graph_erase(n);
    else if (!drop_claimed(g, n))
        cons(g, n);
}

bool cfx__symints_cons(cfx__merging *g) {
    cfx_graph *graph = g->m->graph[0];
    VEC(cfx_node *) nodes = {0};
    cfx_each_node(graph, n) if (n->op != CFX_PLACEHOLDER) VEC_PUSH(nodes, n);
    if (nodes.len)
        cfx_graph_insert_before(graph, nodes.data[0]);
    cfx__merge_note_inputs(g);
    size_t read = g->made.len;
    for (size_t i = 0; i + 1 < nodes.len && cfx_ok(); i++) {
        size_t mark = cfx_scope_open();
        visit(g, nodes.data[i], nodes.data[i + 1]);
        cfx_scope_close(mark);
    }
    for (size_t i = 0; i < read; i++) /* symbols that nobody uses */
        if (!g->made.data[i]->num_users)
            cfx_graph_erase(g->made.data[i]);
    VEC_FREE(nodes);
    cfx__replaced_end(g);
    return cfx_ok();
}
