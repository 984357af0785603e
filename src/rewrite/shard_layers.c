/* Sharding of layers, products, attention and embeddings, which produce sharded values, and of
 * the all-reduce that makes them replicated again. */
#include "shard_rules.h"

/* ---- products -------------------------------------------------------------------------------- */

/* A parameter, or one that is turned: what a layer has for a weight. */
static bool is_weight(const cfx__shard *s, const cfx_node *n) {
    while (n && cfx__shard_dim_before(s, n, 0) >= 0)
        n = n->inputs->node;
    const cfx_input_spec *in = n && n->op == CFX_PLACEHOLDER ? cfx_program_input(s->program, n)
                                                             : NULL;
    return in && in->kind != CFX_IN_USER;
}

enum { LEAST = 4 }; /* results that a rank computes of a layer */

/* Whether a layer of so many results, the node of which is n, is to be cut by them, of which each
 * rank has `least` at least; *p is the piece along `dim` then. */
static bool may_cut(cfx__shard *s, const cfx_node *n, int64_t results, int64_t least, int dim,
                    cfx__piece *p) {
    uint32_t id = id_of(cfx_graph_find(s->whole->module->graph, n->name));
    if (s->whole_because[id])
        return false;
    *p = s->layout[id];
    p->by = id;
    p->dim = dim;
    int64_t units = 0, asked = p->units;
    s->whole_because[id] = cfx__shard_divides(s, results, least, &units);
    if (asked && results % asked)
        s->whole_because[id] = cfx__text_format("its %lld results are not %lld parts",
                                                (long long)results, (long long)asked);
    p->units = asked ? asked % s->ranks ? asked : 0 : p->nsegments ? 0 : units;
    p->cover = p->units && p->cover > 0 && p->cover % p->units == 0 ? p->cover : 0;
    s->cut[id] = !s->whole_because[id];
    return s->cut[id];
}

/* Gives n the piece of an argument along a dimension. */
static void cut_arg(cfx__shard *s, cfx_node *n, cfx_node *x, cfx__piece p, int dim) {
    p.dim = dim;
    if (!is_piece(s, x))
        cfx__shard_give(n, x, cfx__shard_cut(s, n, x, &p));
}

/* A layer: by its results where its input is whole, by its input where that is a piece. `in` and
 * `out` are the dimensions of the weight. */
static bool layer(cfx__shard *s, cfx_node *n, cfx_node *x, cfx_node *w, cfx_node *bias, int in,
                  int out) {
    int ndim = ndim_of(s, n), last = ndim_of(s, x) - 1;
    if (is_piece(s, w) || is_piece(s, bias))
        return false;
    if (!is_piece(s, x)) {
        int64_t results = cfx__shard_size(s, w, out);
        cfx__piece p;
        if (!is_weight(s, w) || !may_cut(s, n, results, LEAST, ndim - 1, &p))
            return true;
        cut_arg(s, n, w, p, out);
        if (bias && cfx__shard_size(s, bias, -1) == results)
            cut_arg(s, n, bias, p, ndim_of(s, bias) - 1);
        cfx__shard_set(s, n, p);
        return true;
    }
    const cfx__piece p = *cfx__shard_piece(s, x);
    if (p.dim != last)
        return (!bias || ndim_of(s, bias) == 1) && follow(s, n, x, p.dim);
    if (p.cover) /* what two ranks have would be summed twice */
        return cfx__shard_uncover(s, &p);
    cut_arg(s, n, w, p, in);
    s->cut[id_of(cfx_graph_find(s->whole->module->graph, n->name))] = true;
    if (bias && cfx__call_is(n, "linear"))
        cfx__call_set(n, "bias", cfx_none());
    if (bias && cfx__call_is(n, "addmm")) {
        cfx_op *mm = cfx_op_find("aten.mm.default");
        cfx_value rest = cfx_tuple(arg(n, "mat1"), arg(n, "mat2"));
        if (!cfx_equal_values(cfx__call_arg(n, "beta"), cfx_int(1)) ||
            !cfx_equal_values(cfx__call_arg(n, "alpha"), cfx_int(1)))
            return false;
        cfx_node_set_args(n, rest);
        cfx_node_set_kwargs(n, cfx_dict_value(cfx_dict_new()));
        cfx_node_set_target(n, (cfx_target){.op = mm, .name = cfx_op_name(mm)});
    }
    cfx__shard_reduce(s, n, bias);
    return true;
}

bool cfx__shard_linear(cfx__shard *s, cfx_node *n) {
    return layer(s, n, arg(n, "input"), arg(n, "weight"), arg(n, "bias"), 1, 0);
}

bool cfx__shard_addmm(cfx__shard *s, cfx_node *n) {
    return layer(s, n, arg(n, "mat1"), arg(n, "mat2"), arg(n, "self"), 0, 1);
}

/* Products of two values: batches, rows of the first and columns of the second may be cut, or what
 * is summed over, in both. */
bool cfx__shard_matmul(cfx__shard *s, cfx_node *n) {
    cfx_node *a = arg(n, "self"), *b = arg(n, "mat2") ? arg(n, "mat2") : arg(n, "other");
    int na = a ? ndim_of(s, a) : 0, nb = b ? ndim_of(s, b) : 0;
    if (na < 2 || nb < 2)
        return !cfx__shard_first(s, n);
    if (nb == 2 && is_weight(s, b))
        return layer(s, n, a, b, NULL, 0, 1);
    if (!cfx__shard_first(s, n)) {
        int64_t experts = nb == 3 ? cfx__shard_size(s, b, 0) : 0;
        cfx__piece p;
        if (na != 3 || !is_weight(s, b) || !may_cut(s, n, experts, 1, 0, &p))
            return true;
        cut_arg(s, n, a, p, 0);
        cut_arg(s, n, b, p, 0);
        cfx__shard_set(s, n, p);
        return true;
    }
    bool first = is_piece(s, a);
    cfx_node *lead = first ? a : b, *other = first ? b : a;
    const cfx__piece p = *cfx__shard_piece(s, lead);
    int right = ndim_of(s, lead) - p.dim, ndim = ndim_of(s, n);
    if (right >= 3)
        return cfx__shard_align(s, n, lead) && follow(s, n, lead, ndim - right);
    if (right == (first ? 1 : 2)) { /* what is summed over */
        const cfx__piece q = *cfx__shard_piece(s, other);
        if (q.dim >= 0 && (ndim_of(s, other) - q.dim != (first ? 2 : 1) || !are_alike(&p, &q)))
            return false;
        if (p.cover)
            return cfx__shard_uncover(s, &p);
        cut_arg(s, n, other, p, ndim_of(s, other) - (first ? 2 : 1));
        cfx__shard_reduce(s, n, NULL);
        return true;
    }
    return !is_piece(s, other) && follow(s, n, lead, ndim - right);
}

/* A product of batches that is added to something. */
bool cfx__shard_baddbmm(cfx__shard *s, cfx_node *n) {
    cfx_node *lead = cfx__shard_first(s, n);
    return ndim_of(s, lead) - cfx__shard_piece(s, lead)->dim == 3 && cfx__shard_align(s, n, lead) &&
           follow(s, n, lead, 0);
}

/* Attention by heads. Where queries share heads of keys, a rank has those that its queries need. */
bool cfx__shard_attention(cfx__shard *s, cfx_node *n) {
    cfx_node *q = arg(n, "query"), *all[] = {arg(n, "key"), arg(n, "value"), arg(n, "attn_mask")};
    if (!is_piece(s, q) || ndim_of(s, q) - cfx__shard_piece(s, q)->dim != 3)
        return false;
    const cfx__piece p = *cfx__shard_piece(s, q);
    int64_t heads = cfx__shard_size(s, q, -3), own = cfx__shard_part(s, &p, heads);
    for (int i = 0; i < 3; i++) {
        cfx_node *x = all[i];
        int ndim = x ? ndim_of(s, x) : 0;
        int64_t count = ndim >= 3 ? cfx__shard_size(s, x, -3) : 1;
        cfx__piece had = x ? *cfx__shard_piece(s, x) : p;
        if (x && had.dim >= 0) {
            if (ndim - had.dim != 3 || p.cover)
                return false;
            if (i < 2 && cfx__shard_covers(&had, &p, heads)) {
                if (!cfx__shard_exact(s, n, x, heads))
                    return false;
            } else if (had.units != p.units) {
                return cfx__shard_agree(s, &p, &had, heads) && false;
            } else {
                cfx__shard_join(s, p.by, had.by);
            }
        } else if (count > 1 && (p.units ? count % p.units : count % s->ranks) == 0) {
            cut_arg(s, n, x, p, ndim - 3);
        } else if (count > 1) { /* fewer heads than ranks: those that are shared */
            int64_t shared = heads / count, from = s->rank * own / shared;
            if (p.units || own > shared || shared % own)
                return false;
            cfx__shard_give(n, x, cfx__call_new(n, x, "aten.slice.Tensor",
                                                cfx_tuple(x, cfx_int(ndim - 3), cfx_int(from),
                                                          cfx_int(from + 1)),
                                                cfx_dict_value(cfx_dict_new())));
        }
    }
    return follow(s, n, q, p.dim);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static cfx_node *before(cfx_node *n, const char *op, cfx_value args) {
    return cfx__call_new(n, n, op, args, cfx_dict_value(cfx_dict_new()));
}

/* Whether indices are what the caller gives, in whichever sizes and dtype: words, not positions
 * that are counted here. */
static bool is_given(const cfx__shard *s, const cfx_node *ids) {
    while (ids && ids->op == CFX_CALL_FUNCTION) {
        const cfx_op *op = cfx__call_op(ids);
        ids = op && op->effects & CFX_ALIKE && ids->inputs ? ids->inputs->node : NULL;
    }
    const cfx_input_spec *in = ids && ids->op == CFX_PLACEHOLDER
                                   ? cfx_program_input(s->program, ids) : NULL;
    return in && in->kind == CFX_IN_USER;
}

/* By vocabulary: a rank looks up the words that it has, zeros stand for others, and the sum over
 * ranks is what was asked for. */
bool cfx__shard_embedding(cfx__shard *s, cfx_node *n) {
    cfx_node *w = arg(n, "weight"), *ids = arg(n, "indices");
    if (cfx__shard_first(s, n))
        return false;
    int64_t words = cfx__shard_size(s, w, 0);
    cfx__piece p;
    if (!is_weight(s, w) || !is_given(s, ids) || !may_cut(s, n, words, 2 * LEAST, 0, &p))
        return true;
    cut_arg(s, n, w, p, 0);
    const int64_t from = cfx__shard_begin(s, &p, words, s->rank);
    const int64_t own = cfx__shard_part(s, &p, words);
    cfx_node *local = before(n, "aten.sub.Tensor", cfx_tuple(ids, cfx_int(from)));
    cfx_node *above = before(n, "aten.ge.Scalar", cfx_tuple(local, cfx_int(0)));
    cfx_node *below = before(n, "aten.lt.Scalar", cfx_tuple(local, cfx_int(own)));
    cfx_node *known = before(n, "aten.logical_and.default", cfx_tuple(above, below));
    cfx_node *row = before(n, "aten.mul.Tensor", cfx_tuple(local, known));
    cfx_node *shown = before(n, "aten.unsqueeze.default", cfx_tuple(known, cfx_int(-1)));
    cfx__shard_give(n, ids, row);
    cfx__call_set(n, "padding_idx", cfx_int(-1));
    cfx_node *next = cfx_node_after(n);
    cfx_node *zeroed = cfx__call_new(next, n, "aten.mul.Tensor", cfx_tuple(n, shown),
                                     cfx_dict_value(cfx_dict_new()));
    cfx_value users = cfx_node_users(n);
    for (int64_t i = 0; i < cfx_as_list(users)->len; i++)
        if (cfx_as_node(cfx_as_list(users)->items[i]) != zeroed)
            cfx__shard_give(cfx_as_node(cfx_as_list(users)->items[i]), n, zeroed);
    cfx__shard_same(s, zeroed, n);
    cfx__shard_reduce(s, zeroed, NULL);
    return true;
}
