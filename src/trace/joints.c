/* Ranges of symbols that follow from the operands of a node. The result of a branch has its own
 * symbol if the branches differ, from the smaller minimum to the larger maximum; bincount
 * returns at least as many counts as requested. */
#include <cfx/ops.h>

#include "merge.h"
#include "relations.h"

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

static int64_t most_of(const cfx__merging *g, cfx_value size) {
    const cfx__symbol *s = size.tag == CFX_TAG_SYM && cfx_as_sym(size)->op == CFX__SYM_NAME
                               ? cfx__worlds_find(g->m->worlds, cfx_as_sym(size)->name)
                               : NULL;
    return s ? cfx__symbol_largest(s) : cfx__relation_most(g->m->worlds, size);
}

/* How many elements a tensor has at most, or where dim is an integer how many along that dimension;
 * INT64_MAX where there is no bound. */
static int64_t elements(const cfx__merging *g, cfx_value tensor, cfx_value dim) {
    cfx_value val = tensor.tag == CFX_TAG_NODE ? cfx__reify_meaning(tensor) : tensor;
    cfx_value sizes = val.tag == CFX_TAG_TENSOR
                          ? cfx_ints_value(cfx_as_tensor(val)->ndim, cfx_as_tensor(val)->shape)
                          : cfx__merge_sizes(val);
    int64_t all = 1;
    if (sizes.tag != CFX_TAG_LIST && sizes.tag != CFX_TAG_TUPLE)
        return INT64_MAX;
    if (dim.tag == CFX_TAG_INT)
        return most_of(g, cfx_at(sizes, (int)cfx_integer(dim)));
    for (int64_t i = 0; i < cfx_as_list(sizes)->len; i++) {
        int64_t size = most_of(g, cfx_as_list(sizes)->items[i]);
        if (size >= INT64_MAX - 1 || __builtin_mul_overflow(all, size, &all))
            return INT64_MAX;
    }
    return all;
}

static bool is_mask(cfx_value v) {
    cfx_result r = v.tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(v)) : cfx_result_of(v);
    return r.kind == CFX_RESULT_TENSOR && (r.dtype == CFX_BOOL || r.dtype == CFX_U8);
}

/* From how many elements n picks, whose result has size number i that depends on data; INT64_MAX:
 * it picks none, or there is no bound. */
static int64_t picked_from(const cfx__merging *g, const cfx_node *n, int64_t i) {
    cfx_op *op = n->target.op;
    if (op == &cfx_op_unique_dim || op == &cfx_op_unique_dim_consecutive)
        return elements(g, cfx_at(n->args, 0), cfx_at(n->args, 1));
    if (op == &cfx_op_unique_consecutive)
        return elements(g, cfx_at(n->args, 0), cfx__node_arg(n, cfx__op_info_of(op)->schema, 3));
    if (cfx__unknown_counts(op) || op == &cfx_op__unique2 || op == &cfx_op_masked_select)
        return elements(g, cfx_at(n->args, 0), cfx_none());
    cfx_value indices = op->effects & CFX_DATA_SHAPE || cfx_len(n->args) < 2 ? cfx_none()
                                                                            : cfx_at(n->args, 1);
    for (int64_t k = 0; indices.tag == CFX_TAG_LIST && k < cfx_len(indices); k++)
        if (is_mask(cfx_at(indices, k)) && !i--)
            return elements(g, cfx_at(indices, k), cfx_none());
    return INT64_MAX;
}

/* The sizes of what n picks are bounded by what there is; PyTorch says so of masked_select for more
 * than two elements alone. */
static void bound_picked(cfx__merging *g, const cfx_node *n) {
    enum { FEW = 2 };
    cfx_value names = cfx_node_get_meta(n, "data");
    for (int64_t i = 0; names.tag == CFX_TAG_LIST && i < cfx_len(names); i++) {
        int64_t most = picked_from(g, n, i);
        cfx__symbol *s = cfx__worlds_find(g->m->worlds, cfx_text(cfx_at(names, (int)i)));
        bool few = n->target.op == &cfx_op_masked_select && most <= FEW;
        if (s)
            s->picked = most < INT64_MAX && most >= s->least && !few ? most : 0;
    }
}

void cfx__merge_ranges(cfx__merging *g, const cfx_node *n, cfx_value val) {
    if (n->op == CFX_CALL_FUNCTION && n->target.op && !g->m->eager)
        bound_picked(g, n);
    if (n->op == CFX_CALL_FUNCTION && n->target.op == &cfx_op_bincount && !g->m->eager)
        count(g, n, val);
    if (!cfx__higher_is(n, "cond") || g->m->eager)
        return;
    for (int64_t i = 0; i < cfx_len(val); i++) {
        cfx_value one = cfx_at(val, i), sizes = cfx__merge_sizes(one);
        cfx_value a = given(g, n, 1, i), b = given(g, n, 2, i);
        join(g, one, a, b);
        for (int64_t d = 0; sizes.tag == CFX_TAG_TUPLE && d < cfx_len(sizes); d++)
            join(g, cfx_at(sizes, d), size_of(a, d), size_of(b, d));
    }
}
