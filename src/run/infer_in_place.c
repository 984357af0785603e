/* In-place operators give the tensor they were given, and may leave it another shape (transpose_,
 * squeeze_, resize_): what is noted of the last of them is what later readers of the tensor get.
 * Start at cfx__infer_latest. */
#include "infer.h"

typedef cfx__inference inference;

struct cfx__in_place {
    cfx_node *maker; /* of an in-place operator: the node that made its tensor */
    cfx_node *last;  /* of such a node: the last in-place operator that writes to its tensor */
    cfx_node *before; /* of an in-place operator: the one before it, on the same tensor */
};

static bool is_in_place(cfx_op *op) {
    const cfx__schema *s = op ? cfx__op_info_of(op)->schema : NULL;
    return s && s->nargs && s->args[0].writes && s->nrets == 1 &&
           s->rets[0].alias == s->args[0].alias;
}

cfx_node *cfx__infer_written(const cfx_node *n) {
    const cfx_list *args = n->args.tag == CFX_TAG_TUPLE ? cfx_as_list(n->args) : NULL;
    if (n->op != CFX_CALL_FUNCTION || !is_in_place(n->target.op) || !args || args->len < 1)
        return NULL;
    return args->items[0].tag == CFX_TAG_NODE ? cfx_as_node(args->items[0]) : NULL;
}

/* Told by the targets of all nodes, of which there are few. */
static bool any_in_place(const cfx_graph *g) {
    for (const cfx__target_row *row = g->rows[CFX_CALL_FUNCTION]; row; row = row->next)
        if (row->first && is_in_place(row->target.op))
            return true;
    return false;
}

static struct cfx__in_place *place_of(const inference *f, const cfx_node *n) {
    return &f->in_place[cfx__node_of(n)->id];
}

static cfx_node *maker_of(const inference *f, cfx_node *n) {
    cfx_node *maker = place_of(f, n)->maker;
    return maker ? maker : n;
}

void cfx__infer_find_in_place(inference *f, const cfx_graph *g) {
    cfx__free(f->in_place);
    f->in_place = NULL;
    if (!any_in_place(g))
        return;
    cfx_each_node(g, n) {
        cfx_node *written = cfx__infer_written(n);
        if (!written)
            continue;
        if (!f->in_place)
            f->in_place = cfx__alloc0((g->made.len + 1) * sizeof *f->in_place);
        cfx_node *maker = maker_of(f, written);
        place_of(f, n)->maker = maker;
        place_of(f, n)->before = place_of(f, maker)->last;
        place_of(f, maker)->last = n;
    }
}

cfx_node *cfx__infer_latest(const inference *f, cfx_node *n, const cfx_node *reader) {
    if (!f->in_place)
        return n;
    cfx_node *at = place_of(f, maker_of(f, n))->last;
    while (at && !cfx_node_precedes(at, reader))
        at = place_of(f, at)->before;
    return at ? at : n;
}
