/* Gradients of indexing: what was read is added where it was read from, what was written is read
 * again. */
#include "index.h"

#include "../back.h"

/* ---- x[i, j] --------------------------------------------------------------------------------- */

void grad_index(cfx_back *b) {
    cfx_op *put = b->op == &cfx_op__unsafe_index_Tensor ? &cfx_op__unsafe_index_put
                                                        : &cfx_op_index_put;
    b->gin[0] = cfx_op_do(put, zeros_as(back_arg(b, 0)), b->args[1], b->gout[0], cfx_bool(true));
}

void grad_index_put(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, back_bool(b, 3)
                            ? b->gout[0]
                            : cfx_index_put(b->gout[0], b->args[1], zeros_as(back_arg(b, 2))));
    if (b->needs[2])
        back_give_sum(b, 2, cfx_index(b->gout[0], b->args[1]));
}

/* ---- along one dim --------------------------------------------------------------------------- */

void grad_index_select(cfx_back *b) {
    back_give(b, 0, cfx_index_add(zeros_as(back_arg(b, 0)), b->args[1], b->args[2], b->gout[0]));
}

/* The elements of the gradient at the index of a call (self, dim, index, source). */
static cfx_tensor *at_index(const cfx_back *b) {
    const cfx_tensor *source = back_arg(b, 3);
    cfx_tensor *index = back_arg(b, 2);
    if (!source->ndim)
        return cfx_index_select(b->gout[0], b->args[1], cfx_reshape(index, sizes_of(source)));
    return cfx_expand(cfx_index_select(b->gout[0], b->args[1], index), sizes_of(source));
}

void grad_index_add(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, b->gout[0]);
    if (b->needs[3])
        back_give(b, 3, scaled(at_index(b), b->args[4]));
}

void grad_index_copy(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, cfx_index_fill(b->gout[0], b->args[1], b->args[2], 0));
    if (b->needs[3])
        back_give(b, 3, at_index(b));
}

void grad_index_fill(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, cfx_index_fill(b->gout[0], b->args[1], b->args[2], 0));
    if (b->needs[3]) { /* an index may be there twice, but fills once */
        cfx_tensor *filled = cfx_index_fill(zeros_as(b->gout[0]), b->args[1], b->args[2], 1);
        back_give(b, 3, cfx_sum(cfx_mul(b->gout[0], filled)));
    }
}

void grad_take(cfx_back *b) {
    back_give(b, 0, cfx_put(zeros_as(back_arg(b, 0)), b->args[1], b->gout[0], cfx_bool(true)));
}

void grad_put(cfx_back *b) {
    const cfx_tensor *source = back_arg(b, 2);
    if (b->needs[0])
        back_give(b, 0, back_bool(b, 3) ? b->gout[0]
                                        : cfx_put(b->gout[0], b->args[1], zeros_as(source)));
    if (b->needs[2])
        back_give(b, 2, cfx_reshape(cfx_take(b->gout[0], b->args[1]), sizes_of(source)));
}

/* ---- gather and scatter ---------------------------------------------------------------------- */

void grad_gather(cfx_back *b) {
    back_give(b, 0, cfx_scatter_add(zeros_as(back_arg(b, 0)), b->args[1], b->args[2], b->gout[0]));
}

/* The source of a scatter may be larger than the index; the rest of it counts for nothing. */
static cfx_tensor *cut_to(cfx_tensor *src, const cfx_tensor *index) {
    if (!index->numel) /* which may have any number of dimensions */
        return cfx_new_zeros(src, cfx_ints_value(index->ndim, index->shape));
    if (!src->ndim && index->ndim)
        src = cfx_unsqueeze(src, 0);
    for (int i = 0; i < index->ndim && !op_failed(); i++)
        if (src->shape[i] != index->shape[i])
            src = cfx_slice(src, i, 0, index->shape[i]);
    return src;
}

static void give_src(cfx_back *b, int i, cfx_tensor *grad) {
    const cfx_tensor *src = back_arg(b, i);
    int64_t pad[2 * CFX_MAX_DIMS];
    bool larger = false;
    if (!grad->numel) { /* an index without elements may have any number of dimensions */
        back_give(b, i, zeros_as(src));
        return;
    }
    if (src->ndim && !grad->ndim) /* one row counts as none, so the index may have no dims */
        grad = cfx_unsqueeze(grad, 0);
    for (int d = 0; d < src->ndim && !op_failed(); d++) {
        int64_t *p = pad + 2 * (src->ndim - 1 - d);
        p[0] = 0, p[1] = src->shape[d] - grad->shape[d];
        larger |= p[1] != 0;
    }
    back_give(b, i, larger ? cfx_constant_pad_nd(grad, cfx_ints_value(2 * src->ndim, pad)) : grad);
}

void grad_scatter(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, cfx_scatter(b->gout[0], b->args[1], b->args[2], 0));
    if (b->needs[3])
        give_src(b, 3, cfx_gather(b->gout[0], b->args[1], b->args[2]));
}

void grad_scatter_add(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, b->gout[0]);
    if (b->needs[3])
        give_src(b, 3, cfx_gather(b->gout[0], b->args[1], b->args[2]));
}

/* ---- scatter_reduce and index_reduce --------------------------------------------------------- */

/* Both are (self, dim, index, src, reduce, include_self); only the index is another. */
static bool by_vector(const cfx_back *b) { return b->op == &cfx_op_index_reduce; }

static cfx_tensor *read_from(const cfx_back *b, cfx_tensor *x) {
    return by_vector(b) ? cfx_index_select(x, b->args[1], b->args[2])
                        : cfx_gather(x, b->args[1], b->args[2]);
}

static cfx_tensor *add_to(const cfx_back *b, cfx_tensor *x, cfx_tensor *src) {
    return by_vector(b) ? cfx_index_add(x, b->args[1], b->args[2], src)
                        : cfx_scatter_add(x, b->args[1], b->args[2], src);
}

static cfx_tensor *multiply_to(const cfx_back *b, cfx_tensor *x, cfx_tensor *src) {
    return by_vector(b) ? cfx_index_reduce(x, b->args[1], b->args[2], src, b->args[4],
                                           CFX_KW(include_self, b->args[5]))
                        : cfx_scatter_reduce(x, b->args[1], b->args[2], src, b->args[4],
                                             CFX_KW(include_self, b->args[5]));
}

typedef struct {
    cfx_tensor *self, *src;
} both_grads;

/* A factor's gradient is the product of the others: the whole by the factor, and where a factor is
 * the only zero of its product, the product made with 1 in its place. */
static both_grads back_reduce_prod(const cfx_back *b, cfx_tensor *self, cfx_tensor *src) {
    cfx_tensor *g = b->gout[0];
    cfx_tensor *filled = cfx_masked_fill(self, cfx_eq(self, 0), 1);
    cfx_tensor *zero = cfx_eq(src, 0);
    cfx_tensor *zeros = add_to(b, zeros_as(self), cfx_to(zero, cfx_dtype_value(self->dtype)));
    cfx_tensor *alone = cfx_logical_and(zero, cfx_eq(read_from(b, zeros), 1));
    cfx_tensor *others = multiply_to(b, self, cfx_masked_fill(src, alone, 1));
    cfx_tensor *shares = cfx_div(read_from(b, cfx_mul(g, b->out[0])),
                                 cfx_masked_fill(src, zero, 1));
    return (both_grads){
        cfx_div(cfx_mul(g, multiply_to(b, filled, src)), filled),
        cfx_where(alone, read_from(b, cfx_mul(g, others)), shares)};
}

static both_grads back_reduce_mean(const cfx_back *b, cfx_tensor *self, cfx_tensor *src) {
    cfx_tensor *count = zeros_as(self);
    if (back_bool(b, 5))
        count = cfx_add(count, 1);
    cfx_tensor *one = cfx_ones(sizes_of(src), CFX_KW(dtype, cfx_dtype_value(src->dtype)));
    count = cfx_clamp_min(add_to(b, count, one), 1);
    cfx_tensor *share = cfx_div(b->gout[0], count);
    return (both_grads){share, read_from(b, share)};
}

/* Those that equal the extreme share its gradient. */
static both_grads back_reduce_extreme(const cfx_back *b, cfx_tensor *self, cfx_tensor *src) {
    cfx_value d = cfx_dtype_value(self->dtype);
    cfx_tensor *self_is = cfx_to(cfx_eq(self, b->out[0]), d);
    cfx_tensor *src_is = cfx_to(cfx_eq(src, read_from(b, b->out[0])), d);
    cfx_tensor *share = cfx_div(b->gout[0], add_to(b, self_is, src_is));
    return (both_grads){cfx_mul(self_is, share), cfx_mul(src_is, read_from(b, share))};
}

void grad_reduce_to(cfx_back *b) {
    cfx_tensor *self = back_arg(b, 0), *src = back_arg(b, 3);
    const char *how = cfx_text(b->args[4]);
    both_grads grads;
    if (!by_vector(b))
        src = cut_to(src, back_arg(b, 2));
    if (!strcmp(how, "sum"))
        grads = (both_grads){b->gout[0], read_from(b, b->gout[0])};
    else if (!strcmp(how, "prod"))
        grads = back_reduce_prod(b, self, src);
    else if (!strcmp(how, "mean"))
        grads = back_reduce_mean(b, self, src);
    else
        grads = back_reduce_extreme(b, self, src);
    if (b->needs[0] && !back_bool(b, 5))
        grads.self = by_vector(b) ? cfx_index_fill(grads.self, b->args[1], b->args[2], 0)
                                  : cfx_scatter(grads.self, b->args[1], b->args[2], 0);
    if (b->needs[0])
        back_give(b, 0, grads.self);
    if (b->needs[3])
        give_src(b, 3, grads.src);
}

/* ---- masks ----------------------------------------------------------------------------------- */

void grad_masked_scatter(cfx_back *b) {
    cfx_tensor *g = b->gout[0];
    if (b->needs[0])
        back_give_sum(b, 0, cfx_masked_fill(g, b->args[1], 0));
    if (b->needs[2])
        back_give(b, 2, cfx_masked_scatter_backward(g, b->args[1], sizes_of(back_arg(b, 2))));
}

void grad_masked_select(cfx_back *b) {
    const cfx_tensor *x = back_arg(b, 0), *mask = back_arg(b, 1);
    int64_t shape[CFX_MAX_DIMS];
    int ndim = x->ndim > mask->ndim ? x->ndim : mask->ndim;
    for (int i = 0; i < ndim; i++) { /* the call was good, so they broadcast */
        int dx = i - (ndim - x->ndim), dm = i - (ndim - mask->ndim);
        int64_t sx = dx < 0 ? 1 : x->shape[dx], sm = dm < 0 ? 1 : mask->shape[dm];
        shape[i] = sx == 1 ? sm : sx;
    }
    cfx_tensor *zeros = cfx_zeros(cfx_ints_value(ndim, shape),
                                  CFX_KW(dtype, cfx_dtype_value(x->dtype)));
    back_give_sum(b, 0, cfx_masked_scatter(zeros, b->args[1], b->gout[0]));
}
