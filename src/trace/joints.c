/* Ranges that follow from what a node is given. What one of two branches gives is a symbol of its
 * own where they differ, from the least that either may give to the most; bincount gives as many
 * counts as are asked for, or more. */
#include <cfx/ops.h>

#include "merge.h"

typedef struct {
    int64_t least, most;
} range;

static range range_of(const cfx__merging *g, cfx_value v) {
    const cfx__symbol *s = v.tag == CFX_TAG_SYM && cfx_as_sym(v)->op == CFX__SYM_NAME
                               ? cfx__worlds_find(g->m->worlds, cfx_as_sym(v)->name)
                               : NULL;
    if (v.tag == CFX_TAG_INT)
        return (range){cfx_integer(v), cfx_integer(v)};
    return s ? (range){s->least, s->most} : (range){INT64_MIN + 1, INT64_MAX};
}

/* The symbol is a in one branch and b in the other. */
static void join(const cfx__merging *g, cfx_value symbol, cfx_value a, cfx_value b) {
    cfx__symbol *s = symbol.tag == CFX_TAG_SYM && cfx_as_sym(symbol)->op == CFX__SYM_NAME
                         ? cfx__worlds_find(g->m->worlds, cfx_as_sym(symbol)->name)
                         : NULL;
    if (!s || !s->joined)
        return;
    range x = range_of(g, a), y = range_of(g, b);
    s->least = x.least < y.least ? x.least : y.least;
    s->most = x.most > y.most ? x.most : y.most;
}

/* Result number i of a branch, as metadata has it. */
static cfx_value given(const cfx__merging *g, const cfx_node *n, int branch, int64_t i) {
    cfx_module *below = NULL;
    const char *name = cfx_as_node(cfx_at(n->args, branch))->target.name;
    cfx_graph *sub = cfx__branch_graph(g->m->graph[0], g->m->root[0], name, &below);
    return cfx__reify_meaning(cfx_at(cfx_at(cfx_graph_output_node(sub)->args, 0), i));
}

static cfx_value size_of(cfx_value val, int64_t dim) {
    return val.tag == CFX_TAG_TENSOR ? cfx_int(cfx_as_tensor(val)->shape[dim])
                                     : cfx_at(cfx__merge_sizes(val), dim);
}

static void count(const cfx__merging *g, const cfx_node *n, cfx_value val) {
    cfx_value sizes = cfx__merge_sizes(val), least = cfx_none();
    if (cfx_len(n->args) > 2)
        least = cfx_at(n->args, 2);
    cfx__symbol *s = sizes.tag == CFX_TAG_TUPLE && cfx_at(sizes, 0).tag == CFX_TAG_SYM
                         ? cfx__worlds_find(g->m->worlds, cfx_as_sym(cfx_at(sizes, 0))->name)
                         : NULL;
    if (s)
        s->most = INT64_MAX;
    if (s && least.tag == CFX_TAG_INT)
        s->least = cfx_integer(least);
}

void cfx__merge_ranges(cfx__merging *g, const cfx_node *n, cfx_value val) {
    if (n->op == CFX_CALL_FUNCTION && n->target.op == &cfx_op_bincount && !g->m->eager)
        count(g, n, val);
    const char *op = n->op == CFX_CALL_FUNCTION ? cfx_node_higher_order(n) : NULL;
    if (!op || strcmp(op, "cond") || g->m->eager)
        return;
    for (int64_t i = 0; i < cfx_len(val); i++) {
        cfx_value one = cfx_at(val, i), sizes = cfx__merge_sizes(one);
        cfx_value a = given(g, n, 1, i), b = given(g, n, 2, i);
        join(g, one, a, b);
        for (int64_t d = 0; sizes.tag == CFX_TAG_TUPLE && d < cfx_len(sizes); d++)
            join(g, cfx_at(sizes, d), size_of(a, d), size_of(b, d));
    }
}
