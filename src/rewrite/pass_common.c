/* common_subexpressions: computes equal expressions once. Nodes are visited in order and looked
 * up in a table by operator and arguments; arguments already refer to the nodes kept before. */
#include "pass.h"

typedef struct table {
    cfx_node **slots;
    size_t mask;
} table;

/* The node that is the same call, or n itself, which is then in the table. */
static cfx_node *look_up(table *t, cfx_node *n) {
    for (size_t i = cfx__node_hash(n) & t->mask;; i = (i + 1) & t->mask) {
        if (!t->slots[i])
            return t->slots[i] = n;
        if (cfx__node_alike(t->slots[i], n))
            return t->slots[i];
    }
}

/* Whether a node computes the same wherever it stands, and no one writes to what it gives or reads.
 */
static bool is_steady(const cfx__alias *a, const cfx_node *n) {
    if (n->op == CFX_GET_ATTR)
        return true;
    if (n->op != CFX_CALL_FUNCTION || cfx_node_higher_order(n) || cfx_node_is_impure(n) ||
        cfx__alias_written(a, n))
        return false;
    cfx_op *op = cfx__call_op(n);
    if (op && (op->effects & CFX_RANDOM))
        return false;
    cfx_each_input(n, u) if (cfx__alias_written(a, u->node)) return false;
    return true;
}

static int merge(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    const char *keep = cfx__pass_text(options, "keep");
    (void)p;
    size_t size = 16;
    while (size < 2 * (size_t)cfx_graph_len(m->graph))
        size *= 2;
    table t = {cfx__alloc0(size * sizeof *t.slots), size - 1};
    cfx__alias a;
    cfx__forward f;
    cfx__alias_open(&a, m->graph);
    cfx__forward_open(&f, m->graph);
    cfx_each_node(m->graph, n) {
        cfx__forward_visit(&f, n);
        cfx_node *same = is_steady(&a, n) && !cfx__pass_keeps(keep, n) ? look_up(&t, n) : n;
        if (same != n)
            cfx__forward_to(&f, n, same);
    }
    cfx__alias_close(&a);
    cfx__free(t.slots);
    return cfx__forward_close(&f);
}

static int run(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, merge);
}

const cfx_pass cfx__pass_common = {
    .name = "common_subexpressions",
    .summary = "computes once what is computed several times from the same, but for what "
               "keep=SELECTOR+SELECTOR picks",
    .options = "keep=",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
