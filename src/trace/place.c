/* Where a call on nodes goes that no trace records. */
#include "trace.h"

/* The last node of those that a value holds or stands for, or `last`. */
static cfx_node *last_operand(cfx_value v, cfx_node *last) {
    cfx_node *n = cfx__traced_node(v);
    if (n)
        return !last || cfx__node_of(last)->order < cfx__node_of(n)->order ? n : last;
    if (v.tag == CFX_TAG_DICT)
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            last = last_operand(cfx_as_dict(v)->entries[i].value, last);
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            last = last_operand(cfx_as_list(v)->items[i], last);
    if (v.tag == CFX_TAG_SLICE) {
        last = last_operand(cfx_as_slice(v)->start, last);
        last = last_operand(cfx_as_slice(v)->stop, last);
        last = last_operand(cfx_as_slice(v)->step, last);
    }
    return last;
}

cfx_insert cfx__trace_place(cfx_graph *g, cfx_args a) {
    cfx_insert held = {g->insert};
    if (g->insert || !cfx_graph_output_node(g))
        return held;
    cfx_node *last = NULL;
    for (int i = 0; i < a.n; i++)
        last = last_operand(a.v[i], last);
    if (a.kw)
        last = last_operand(cfx_dict_value(a.kw), last);
    while (last && last->next && last->next->op == CFX_PLACEHOLDER)
        last = last->next;
    g->insert = last ? last->next : NULL;
    return held;
}
