/* Kernels that write in plain order, whatever strides their result has. */
#ifndef CFX__DENSE_H
#define CFX__DENSE_H

#include "ops.h"

/* Result i if it has the dtype and lies in plain order, else room for it that does; scope. */
static inline cfx_tensor *dense_out_as(cfx_op_call *c, int i, cfx_dtype d) {
    cfx_tensor *t = c->out[i];
    return t->dtype == d && cfx__tensor_is_contiguous(t)
               ? t
               : cfx__tensor_empty(c->at, d, false, t->ndim, t->shape, NULL);
}

static inline cfx_tensor *dense_out(cfx_op_call *c, int i) {
    return dense_out_as(c, i, (cfx_dtype)c->out[i]->dtype);
}

/* Puts what was written to dense_out where it belongs. */
static inline void dense_done(cfx_op_call *c, int i, const cfx_tensor *t) {
    if (t != c->out[i] && !op_failed())
        cfx__tensor_copy(c->out[i], t);
}

/* Result i with the memory format that PyTorch keeps from `like`. */
static inline cfx_tensor *out_format(cfx_op_call *c, int i, cfx_dtype dtype, int ndim,
                                     const int64_t *shape, const cfx_tensor *like) {
    int64_t stride[CFX_MAX_DIMS];
    if (like->ndim != ndim || cfx__shape_numel(c->at, ndim, shape) < 0)
        return out_new(c, i, dtype, ndim, shape);
    cfx__strides_of_format(cfx__tensor_suggest_format(like), ndim, shape, stride);
    return out_strided(c, i, dtype, ndim, shape, stride);
}

/* Twice the product of n sizes: a multiplication and an addition each; INT64_MAX where it does not
 * fit. What formulas of the flops column are made of. */
static inline int64_t flops_of(int n, const int64_t *sizes) {
    int64_t flops = 2;
    for (int i = 0; i < n; i++)
        if (sizes[i] == 0)
            return 0;
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(flops, sizes[i], &flops))
            return INT64_MAX;
    return flops;
}

#endif
