/* Sizes that a sub-graph uses and that none of its own inputs has: they become inputs of the
 * sub-graph and operands of the call. */
#include "merge.h"

static cfx_node *last_input(cfx_graph *g) {
    cfx_node *last = NULL;
    cfx_each_node(g, n) last = n->op == CFX_PLACEHOLDER ? n : last;
    return last;
}

/* One more input, after those there are. */
static cfx_node *add_input(cfx_graph *g, cfx_value size) {
    cfx_node *last = last_input(g);
    cfx_insert was =
        last ? cfx_graph_insert_after(g, last) : cfx_graph_insert_before(g, cfx_graph_first(g));
    cfx_node *n = cfx_graph_placeholder(g, "size", NULL, false, cfx_none());
    if (n->graph)
        cfx_node_set_meta(n, "val", size);
    cfx_graph_set_insert(g, was);
    return n;
}

cfx_value cfx__merge_lift(cfx__merging *g, cfx_value size) {
    cfx__merging *outer = g->m->outer;
    cfx_value given = cfx__reify(outer, size, true);
    if (given.tag != CFX_TAG_NODE)
        return given;
    cfx_node *input = add_input(g->m->graph[0], size);
    struct cfx__lift l = {g->m->graph[0], cfx_value_keep(size), input, cfx_as_node(given)};
    VEC_PUSH(outer->lifts, l);
    return input->graph ? cfx_node_value(input) : cfx_bad();
}

/* The input of a sub-graph for a size that some sub-graph of the call was given: the last one from
 * now on. */
static void put_input(cfx__merging *g, cfx_graph *sub, cfx_value size) {
    for (size_t i = 0; i < g->lifts.len; i++) {
        const struct cfx__lift *l = &g->lifts.data[i];
        if (l->graph != sub || !cfx_equal_values(l->size, size))
            continue;
        cfx_node *last = last_input(sub);
        if (last != l->input)
            cfx_node_move_after(l->input, last);
        return;
    }
    add_input(sub, size);
}

static bool is_first(const cfx__merging *g, size_t k) {
    for (size_t i = 0; i < k; i++)
        if (cfx_equal_values(g->lifts.data[i].size, g->lifts.data[k].size))
            return false;
    return true;
}

/* The arguments of the call with one more operand in the last of them. */
static cfx_value with_operand(cfx_value args, cfx_node *n) {
    const cfx_list *all = cfx_as_list(args);
    cfx_value out = cfx_tuple_value(all->len, all->items), last = cfx_at(args, all->len - 1);
    if (last.tag != CFX_TAG_LIST && last.tag != CFX_TAG_TUPLE)
        return out;
    const cfx_list *had = cfx_as_list(last);
    cfx_value more = last.tag == CFX_TAG_TUPLE ? cfx_tuple_value(had->len, had->items)
                                               : cfx_list_value(had->len, had->items);
    cfx_list_append(cfx_as_list(more), cfx_node_value(n));
    out = cfx_tuple_value(all->len - 1, all->items);
    cfx_list_append(cfx_as_list(out), more);
    return out;
}

void cfx__merge_give_lifted(cfx__merging *g, cfx_node *n) {
    if (!g->lifts.len || !cfx_node_higher_order(n))
        return;
    for (size_t k = 0; k < g->lifts.len; k++) {
        if (!is_first(g, k))
            continue;
        cfx_each_input(n, u) {
            cfx_module *below = NULL;
            cfx_graph *sub = u->node->op == CFX_GET_ATTR
                                 ? cfx__branch_graph(g->m->graph[0], g->m->root[0],
                                                     u->node->target.name, &below)
                                 : NULL;
            if (sub)
                put_input(g, sub, g->lifts.data[k].size);
        }
        cfx_node_set_args(n, with_operand(n->args, g->lifts.data[k].node));
    }
    for (size_t k = 0; k < g->lifts.len; k++)
        cfx_value_drop(g->lifts.data[k].size);
    g->lifts.len = 0;
}
