/* Gradients of views and of what lays numbers out anew: the gradient is laid back. */
#include "words.h"

/* What was copied goes to the source; what was there before is gone. */
void grad_copy_(cfx_back *b) { GIVE(1, G); }

/* ---- as_strided ------------------------------------------------------------------------------ */

static int64_t reach_of(int ndim, const int64_t *shape, const int64_t *stride) {
    int64_t last = 0;
    for (int i = 0; i < ndim; i++) {
        if (!shape[i])
            return 0;
        last += (shape[i] - 1) * stride[i];
    }
    return last + 1;
}

static cfx_value stride_of(const cfx_tensor *t) { return cfx_ints_value(t->ndim, t->stride); }

/* The places in a line of n that a tensor of this outline looks at, as one row. */
static cfx_tensor *places(const cfx_tensor *t, int64_t n, int64_t offset) {
    cfx_tensor *line = cfx_arange(n);
    return cfx_reshape(cfx_as_strided(line, sizes_of(t), stride_of(t), offset), -1);
}

/* Argument and result are two ways to look at one storage. The gradient is added up in a line that
 * stands for it; places that the argument itself looks at several times share their part. */
void grad_as_strided(cfx_back *b) {
    if (!b->needs[0])
        return;
    cfx_tensor *in = X(0), *out = Y(0);
    int64_t to = cfx_is_none(A(3)) ? in->offset : cfx_integer(A(3));
    int64_t start = in->offset < to ? in->offset : to;
    int64_t end_in = in->offset - start + reach_of(in->ndim, in->shape, in->stride);
    int64_t end_out = to - start + reach_of(out->ndim, out->shape, out->stride);
    int64_t n = end_in > end_out ? end_in : end_out;
    cfx_tensor *line = cfx_new_zeros(G, cfx_ints_value(1, &n));
    if (cfx__overlaps_itself(out))
        line = cfx_index_add(line, 0, places(out, n, to - start), cfx_reshape(G, -1));
    else
        line = cfx_as_strided_scatter(line, G, sizes_of(out), stride_of(out), to - start);
    if (cfx__overlaps_itself(in)) {
        cfx_tensor *at = places(in, n, in->offset - start);
        cfx_tensor *times = cfx_index_add(cfx_zeros_like(cfx_detach(line)), 0, at,
                                          cfx_new_ones(G, cfx_ints_value(1, &in->numel)));
        line = cfx_div(line, times);
    }
    GIVE(0, cfx_as_strided(line, sizes_of(in), stride_of(in), in->offset - start));
}
