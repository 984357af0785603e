/* Sharding rules of operators: a rule shards the replicated operands of a call, divides sizes in
 * its arguments, and determines how the result is sharded. Start at the table at the end; layers
 * and products are in shard_layers.c. */
#include "shard_rules.h"

/* ---- element by element ---------------------------------------------------------------------- */

bool cfx__shard_align(cfx__shard *s, cfx_node *n, cfx_node *lead) {
    const cfx__piece p = *cfx__shard_piece(s, lead);
    int right = ndim_of(s, lead) - p.dim;
    int64_t size = cfx__shard_size(s, lead, p.dim);
    cfx_value inputs = cfx_node_inputs(n);
    for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++) {
        cfx_node *x = cfx_as_node(cfx_as_list(inputs)->items[i]);
        const cfx__piece q = *cfx__shard_piece(s, x);
        int ndim = ndim_of(s, x);
        if (q.dim >= 0 && ndim - q.dim == right && are_alike(&p, &q)) {
            cfx__shard_join(s, p.by, q.by);
        } else if (q.dim >= 0 && ndim - q.dim == right && cfx__shard_covers(&q, &p, size)) {
            if (!cfx__shard_exact(s, n, x, size))
                return false;
        } else if (q.dim >= 0 && ndim - q.dim == right && p.units != q.units) {
            return cfx__shard_agree(s, &p, &q, size) && false;
        } else if (q.dim >= 0) {
            return false;
        } else if (ndim >= right && cfx__shard_size(s, x, ndim - right) == size) {
            cfx__piece own = p;
            own.dim = ndim - right;
            cfx__shard_give(n, x, cfx__shard_cut(s, n, x, &own));
        } else if (ndim >= right && cfx__shard_size(s, x, ndim - right) != 1) {
            return false;
        }
    }
    return true;
}

cfx_node *cfx__shard_first(const cfx__shard *s, const cfx_node *n) {
    cfx_each_input(n, u) if (is_piece(s, u->node)) return u->node;
    return NULL;
}

static bool pointwise(cfx__shard *s, cfx_node *n) {
    cfx_node *lead = cfx__shard_first(s, n);
    int right = ndim_of(s, lead) - cfx__shard_piece(s, lead)->dim, ndim = ndim_of(s, n);
    return ndim >= right && cfx__shard_align(s, n, lead) && follow(s, n, lead, ndim - right);
}

/* ---- views ----------------------------------------------------------------------------------- */

static cfx_node *self_of(const cfx_node *n) {
    cfx_node *x = arg(n, "self");
    return x ? x : arg(n, "input");
}

static bool permute(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int ndim = ndim_of(s, n), dim = cfx__shard_piece(s, x)->dim;
    if (cfx__call_is(n, "t"))
        return follow(s, n, x, ndim == 2 ? 1 - dim : dim);
    if (cfx__call_is(n, "transpose")) {
        int a = dim_arg(n, "dim0", ndim), b = dim_arg(n, "dim1", ndim);
        return follow(s, n, x, dim == a ? b : dim == b ? a : dim);
    }
    const cfx_list *dims = cfx_as_list(cfx__call_arg(n, "dims"));
    for (int i = 0; i < dims->len; i++) {
        int64_t from = cfx_integer(dims->items[i]);
        if ((from < 0 ? from + ndim : from) == dim)
            return follow(s, n, x, i);
    }
    return false;
}

static bool unsqueeze(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int dim = cfx__shard_piece(s, x)->dim;
    return follow(s, n, x, dim + (dim_arg(n, "dim", ndim_of(s, n)) <= dim));
}

static bool squeeze(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int dim = cfx__shard_piece(s, x)->dim, at = dim_arg(n, "dim", ndim_of(s, x));
    if (cfx__call_arg(n, "dim").tag != CFX_TAG_INT || at == dim)
        return false;
    return follow(s, n, x, dim - (at < dim && ndim_of(s, n) < ndim_of(s, x)));
}

/* Whether a dimension of so many elements can be cut as a piece says. */
static bool goes_into(const cfx__shard *s, const cfx__piece *p, int64_t size) {
    return size % (p->units ? p->units : s->ranks) == 0;
}

/* Divides a size in a list of them as a piece is cut; false where it is not told in numbers. */
static bool divide(cfx__shard *s, cfx_node *n, const cfx__piece *p, const char *name, int at) {
    cfx_value old = cfx__call_arg(n, name), sizes = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(old)->len; i++) {
        cfx_value v = cfx_as_list(old)->items[i];
        if (i == at && v.tag == CFX_TAG_INT && cfx_integer(v) > 0) {
            if (!goes_into(s, p, cfx_integer(v)))
                return false;
            v = cfx_int(cfx__shard_part(s, p, cfx_integer(v)));
        } else if (i == at && v.tag != CFX_TAG_INT) {
            return false;
        }
        cfx_list_append(cfx_as_list(sizes), v);
    }
    return cfx__call_set(n, name, sizes);
}

static bool expand(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int at = ndim_of(s, n) - ndim_of(s, x) + cfx__shard_piece(s, x)->dim;
    return divide(s, n, cfx__shard_piece(s, x), "size", at) && follow(s, n, x, at);
}

static bool select_one(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int dim = cfx__shard_piece(s, x)->dim, at = dim_arg(n, "dim", ndim_of(s, x));
    return at != dim && follow(s, n, x, dim - (at < dim));
}

/* A stretch of the dimension that is cut: where the piece has it as one, it is cut itself. */
static bool slice(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    const cfx__piece p = *cfx__shard_piece(s, x);
    if (dim_arg(n, "dim", ndim_of(s, x)) != p.dim)
        return follow(s, n, x, p.dim);
    int64_t size = cfx__shard_size(s, x, p.dim), own = cfx__shard_size(s, n, p.dim);
    cfx_value start = cfx__call_arg(n, "start");
    int64_t from = start.tag == CFX_TAG_INT ? cfx_integer(start) : 0;
    from += from < 0 ? size : 0;
    if (own == size)
        return follow(s, n, x, p.dim);
    if (!cfx_equal_values(cfx__call_arg(n, "step"), cfx_int(1)))
        return false;
    int64_t at = 0, here = 0; /* in the whole, and in this rank's piece */
    for (int i = 0; i < p.nsegments; at += p.segments[i++]) {
        const int64_t part_size = cfx__shard_part(s, &p, p.segments[i]);
        if (at == from && p.segments[i] == own) {
            cfx__call_set(n, "start", cfx_int(here));
            cfx__call_set(n, "end", cfx_int(here + part_size));
            cfx__piece part = {.dim = p.dim, .by = p.by, .units = p.units};
            cfx__shard_set(s, n, part);
            return true;
        }
        here += part_size;
    }
    int64_t parts[CFX__SEGMENTS];
    int k = 0;
    for (at = 0; size % own == 0 && k < CFX__SEGMENTS && at < size; at += own)
        parts[k++] = own;
    return at == size && !p.nsegments && cfx__shard_ask(s, &p, k, parts) && false;
}

/* The sizes of the parts that a call takes its argument apart into. */
static int parts_of(const cfx__shard *s, const cfx_node *n, int dim, int64_t *sizes) {
    cfx_result r = cfx__shard_whole(s, n);
    int64_t k = cfx_result_count(&r);
    if (r.kind != CFX_RESULT_SEVERAL || k > CFX__SEGMENTS)
        return 0;
    for (int64_t i = 0; i < k; i++) {
        cfx_result item = cfx_result_item(&r, i);
        cfx_value size = cfx_result_size(&item, dim);
        sizes[i] = size.tag == CFX_TAG_INT ? cfx_integer(size) : 0;
    }
    return (int)k;
}

static bool split(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    const cfx__piece p = *cfx__shard_piece(s, x);
    int64_t sizes[CFX__SEGMENTS];
    if (dim_arg(n, "dim", ndim_of(s, x)) != p.dim)
        return follow(s, n, x, p.dim);
    int k = parts_of(s, n, p.dim, sizes);
    cfx__piece parts = {.nsegments = k, .units = p.units};
    memcpy(parts.segments, sizes, (size_t)k * sizeof *sizes);
    if (!k || p.nsegments != k || !are_alike(&p, &parts))
        return k && !p.nsegments && cfx__shard_ask(s, &p, k, sizes) && false;
    cfx_value size = cfx__call_arg(n, "split_size");
    if (size.tag == CFX_TAG_INT &&
        !cfx__call_set(n, "split_size", cfx_int(cfx__shard_part(s, &p, sizes[0]))))
        return false;
    for (int i = 0; cfx__call_is(n, "split_with_sizes") && i < k; i++)
        if (!divide(s, n, &p, "split_sizes", i))
            return false;
    cfx__piece part = {.dim = p.dim, .by = p.by, .units = p.units};
    cfx__shard_set(s, n, part);
    return true;
}

static bool unbind(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int dim = cfx__shard_piece(s, x)->dim, at = dim_arg(n, "dim", ndim_of(s, x));
    return at != dim && follow(s, n, x, dim - (at < dim));
}

/* A view that makes dimensions to..end - 1 of n of the one along which x is cut, the first of which
 * does not go into the ranks as it is cut now: (3 * heads * size) to (3, heads, size) wants every
 * stretch cut, (heads * size) to (heads, size) whole heads. */
static bool ask_for(cfx__shard *s, const cfx_node *n, const cfx_node *x, int to, int end) {
    const cfx__piece p = *cfx__shard_piece(s, x);
    int64_t outer = cfx__shard_size(s, n, to), parts[CFX__SEGMENTS];
    if (to + 2 < end && !p.nsegments && outer <= CFX__SEGMENTS) {
        for (int64_t m = 0; m < outer; m++)
            parts[m] = cfx__shard_size(s, x, p.dim) / outer;
        if (cfx__shard_ask(s, &p, (int)outer, parts))
            return true;
    }
    return cfx__shard_ask_units(s, &p, outer);
}

/* Dimensions that become others: stretches of both shapes that have the same product belong
 * together, and the piece has to be along the outermost of one, but for dimensions of 1. */
static bool reshape(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    const cfx__piece p = *cfx__shard_piece(s, x);
    int nx = ndim_of(s, x), ny = ndim_of(s, n), i = 0, k = 0;
    bool inner = cfx__call_is(n, "unflatten"), listed = !cfx__call_is(n, "flatten");
    const char *name = inner ? "sizes" : cfx__call_is(n, "reshape") ? "shape" : "size";
    int first = inner ? dim_arg(n, "dim", nx) : 0; /* the dimension that sizes begin with */
    while (i < nx && k < ny) {
        int from = i, to = k;
        int64_t a = cfx__shard_size(s, x, i++), b = cfx__shard_size(s, n, k++);
        while (a != b && a > 0 && b > 0) {
            if (a < b && i < nx)
                a *= cfx__shard_size(s, x, i++);
            else if (b < a && k < ny)
                b *= cfx__shard_size(s, n, k++);
            else
                return false;
        }
        if (a <= 0 || b <= 0)
            return false;
        if (p.dim < from || p.dim >= i)
            continue;
        while (from < p.dim && cfx__shard_size(s, x, from) == 1)
            from++;
        while (to + 1 < k && cfx__shard_size(s, n, to) == 1)
            to++;
        if (from != p.dim)
            return false;
        int64_t outer = cfx__shard_size(s, n, to);
        bool equal = p.nsegments > 1 && outer == p.nsegments && to + 1 < k;
        for (int m = 1; equal && m < p.nsegments; m++)
            equal = p.segments[m] == p.segments[0];
        if (equal) /* (3 * heads * size) to (3, heads, size): every stretch is cut */
            to++;
        else if (p.nsegments > 1 && to + 1 < k)
            return false;
        outer = cfx__shard_size(s, n, to);
        if (!goes_into(s, &p, outer))
            return ask_for(s, n, x, to, k) && false;
        bool sized = listed && (!inner || (to >= first && to <= first + ny - nx));
        if (sized && !divide(s, n, &p, name, to - first))
            return false;
        follow(s, n, x, to);
        if (equal)
            cfx__shard_set(s, n, (cfx__piece){.dim = to, .by = p.by, .units = p.units});
        return true;
    }
    return false;
}

/* ---- along dimensions ------------------------------------------------------------------------ */

/* Softmax and the like: along any dimension but the one that is cut. */
static bool along(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int dim = cfx__shard_piece(s, x)->dim;
    return dim_arg(n, "dim", ndim_of(s, x)) != dim && follow(s, n, x, dim);
}

static bool norm(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    cfx_value shape = cfx__call_arg(n, "normalized_shape");
    int dim = x ? cfx__shard_piece(s, x)->dim : -1;
    bool listed = shape.tag == CFX_TAG_LIST || shape.tag == CFX_TAG_TUPLE;
    return dim >= 0 && listed && dim < ndim_of(s, x) - cfx_as_list(shape)->len &&
           follow(s, n, x, dim);
}

/* Sums: over the dimension that is cut they are parts of a sum. */
static bool reduce(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    int ndim = ndim_of(s, x), dim = cfx__shard_piece(s, x)->dim, before = 0;
    cfx_value dims = cfx__call_arg(n, "dim"), keep = cfx__call_arg(n, "keepdim");
    bool kept = keep.tag == CFX_TAG_BOOL && cfx_as_bool(keep), over = false;
    bool list = dims.tag == CFX_TAG_LIST || dims.tag == CFX_TAG_TUPLE;
    if (!list && dims.tag != CFX_TAG_INT)
        return false;
    for (int64_t i = 0; i < (list ? cfx_as_list(dims)->len : 1); i++) {
        int64_t d = cfx_integer(list ? cfx_as_list(dims)->items[i] : dims);
        d += d < 0 ? ndim : 0;
        over |= d == dim;
        before += d < dim;
    }
    if (!over)
        return follow(s, n, x, kept ? dim : dim - before);
    if (!cfx__call_is(n, "sum"))
        return false;
    if (cfx__shard_piece(s, x)->cover)
        return cfx__shard_uncover(s, cfx__shard_piece(s, x));
    cfx__shard_reduce(s, n, NULL);
    return true;
}

static bool cat(cfx__shard *s, cfx_node *n) {
    cfx_node *lead = cfx__shard_first(s, n);
    int dim = cfx__shard_piece(s, lead)->dim;
    return dim_arg(n, "dim", ndim_of(s, lead)) != dim && cfx__shard_align(s, n, lead) &&
           follow(s, n, lead, dim);
}

static bool stack(cfx__shard *s, cfx_node *n) {
    cfx_node *lead = cfx__shard_first(s, n);
    int dim = cfx__shard_piece(s, lead)->dim;
    return cfx__shard_align(s, n, lead) &&
           follow(s, n, lead, dim + (dim_arg(n, "dim", ndim_of(s, lead) + 1) <= dim));
}

/* Of two values, or along a dimension. */
static bool extreme(cfx__shard *s, cfx_node *n) {
    return arg(n, "other") ? pointwise(s, n) : reduce(s, n);
}

/* What is asked of sizes is asked of the whole's. */
static bool check(cfx__shard *s, cfx_node *n) {
    (void)s;
    cfx__call_set(n, "size", cfx_none());
    return cfx__call_set(n, "stride", cfx_none());
}

/* A cache is written to by pieces: each rank keeps its part of it. */
static bool index_copy(cfx__shard *s, cfx_node *n) {
    cfx_node *to = arg(n, "self"), *from = arg(n, "source");
    const cfx__piece p = *cfx__shard_piece(s, from);
    const cfx_input_spec *in = cfx_program_input(s->program, to);
    if (p.dim < 0 || p.nsegments > 1 || is_piece(s, arg(n, "index")) || is_piece(s, to) || !in ||
        in->kind == CFX_IN_USER || dim_arg(n, "dim", ndim_of(s, from)) == p.dim ||
        cfx__shard_size(s, to, p.dim) != cfx__shard_size(s, from, p.dim))
        return false;
    cfx__shard_give(n, to, cfx__shard_cut(s, n, to, &p));
    VEC_PUSH(s->written, to);
    VEC_PUSH(s->written_by, p.by);
    return follow(s, n, from, p.dim);
}

/* Each element so many times, as heads of keys are for those of queries. */
static bool repeat(cfx__shard *s, cfx_node *n) {
    cfx_node *x = self_of(n);
    bool number = cfx__call_arg(n, "repeats").tag == CFX_TAG_INT;
    return number && cfx__call_arg(n, "dim").tag == CFX_TAG_INT &&
           cfx__shard_piece(s, x)->nsegments <= 1 && follow(s, n, x, cfx__shard_piece(s, x)->dim);
}

static bool item(cfx__shard *s, cfx_node *n) {
    return follow(s, n, n->inputs->node, cfx__shard_piece(s, n->inputs->node)->dim);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cfx__shard_fn *rule;
    bool whole; /* it is asked where there are no pieces yet, too */
} rules[] = {
    {"linear", cfx__shard_linear, true},
    {"addmm", cfx__shard_addmm, true},
    {"mm", cfx__shard_matmul, true},
    {"bmm", cfx__shard_matmul, true},
    {"matmul", cfx__shard_matmul, true},
    {"embedding", cfx__shard_embedding, true},
    {"scaled_dot_product_attention", cfx__shard_attention, false},
    {"permute", permute, false},
    {"transpose", permute, false},
    {"t", permute, false},
    {"unsqueeze", unsqueeze, false},
    {"squeeze", squeeze, false},
    {"expand", expand, false},
    {"select", select_one, false},
    {"slice", slice, false},
    {"split", split, false},
    {"split_with_sizes", split, false},
    {"chunk", split, false},
    {"unbind", unbind, false},
    {"view", reshape, false},
    {"_unsafe_view", reshape, false},
    {"reshape", reshape, false},
    {"flatten", reshape, false},
    {"unflatten", reshape, false},
    {"softmax", along, false},
    {"_softmax", along, false},
    {"log_softmax", along, false},
    {"_log_softmax", along, false},
    {"cumsum", along, false},
    {"layer_norm", norm, false},
    {"native_layer_norm", norm, false},
    {"rms_norm", norm, false},
    {"sum", reduce, false},
    {"mean", reduce, false},
    {"amax", reduce, false},
    {"any", reduce, false},
    {"all", reduce, false},
    {"cat", cat, false},
    {"repeat_interleave", repeat, false},
    {"stack", stack, false},
    {"max", extreme, false},
    {"min", extreme, false},
    {"baddbmm", cfx__shard_baddbmm, false},
    {"index_copy_", index_copy, false},
    {"_assert_tensor_metadata", check, false},
    /* copies, and what does nothing where nothing is trained */
    {"full_like", pointwise, false},
    {"zeros_like", pointwise, false},
    {"ones_like", pointwise, false},
    {"clone", pointwise, false},
    {"contiguous", pointwise, false},
    {"to", pointwise, false},
    {"_to_copy", pointwise, false},
    {"type_as", pointwise, false},
    {"alias", pointwise, false},
    {"detach", pointwise, false},
    {"detach_", pointwise, false},
    {"gelu", pointwise, false},
    {"silu", pointwise, false},
    {"relu", pointwise, false},
    {"masked_fill", pointwise, false},
    {"where", pointwise, false},
    {"square", pointwise, false},
    {"expand_as", pointwise, false},
};

bool cfx__shard_rule(cfx__shard *s, cfx_node *n) {
    cfx_node *lead = cfx__shard_first(s, n);
    if (cfx_node_takes_result(n))
        return !lead || item(s, n);
    cfx_op *op = cfx__call_op(n);
    for (int i = 0; i < COUNT(rules); i++)
        if (cfx__call_is(n, rules[i].name))
            return lead || rules[i].whole ? rules[i].rule(s, n) : true;
    if (!lead)
        return true;
    bool each = op && op->effects & CFX_POINTWISE && !(op->effects & CFX_RANDOM);
    return (each || cfx__call_drops_nothing(n)) && pointwise(s, n);
}
