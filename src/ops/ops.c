/* What the operators share: reading lists, making results. Pointwise rows are in pointwise.c. */
#include "ops.h"

double arg_real(const cfx_op_call *c, int i) {
    cfx_value v = c->args[i];
    if (v.tag == CFX_TAG_COMPLEX && cfx_as_complex(v)->im != 0)
        op_fail(c, "value cannot be converted to type double without overflow");
    return cfx_number(v);
}

int arg_ints(const cfx_op_call *c, int i, int64_t *out) {
    cfx_value v = c->args[i];
    if (v.tag == CFX_TAG_NONE)
        return 0;
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE) {
        out[0] = cfx_integer(v);
        return 1;
    }
    if (cfx_as_list(v)->len > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return 0;
    }
    for (int64_t k = 0; k < cfx_as_list(v)->len; k++)
        out[k] = cfx_integer(cfx_as_list(v)->items[k]);
    return (int)cfx_as_list(v)->len;
}

bool arg_dims_mask(const cfx_op_call *c, int i, int ndim, uint64_t *mask) {
    int64_t dims[CFX_MAX_DIMS];
    int n = arg_ints(c, i, dims);
    *mask = 0;
    if (!n) {
        *mask = ndim >= 64 ? UINT64_MAX : ((uint64_t)1 << ndim) - 1;
        return !op_failed();
    }
    for (int k = 0; k < n; k++) {
        int d = cfx__shape_wrap_dim(c->at, dims[k], ndim);
        if (d < 0)
            return false;
        if (*mask >> d & 1) {
            op_fail(c, "dim %d appears multiple times in the list of dims", d);
            return false;
        }
        *mask |= (uint64_t)1 << d;
    }
    if (!ndim)
        *mask = 0;
    return true;
}

cfx_tensor *out_broadcast(cfx_op_call *c, int i, cfx_dtype dtype, int n,
                          const cfx_tensor *const *t) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int ndim = 0;
    for (int k = 0; k < n; k++)
        if (!cfx__shape_broadcast(c->at, &ndim, shape, t[k]->ndim, t[k]->shape))
            return c->out[i] = &cfx__tensor_bad;
    cfx__strides_pointwise(n, t, ndim, shape, stride);
    return out_strided(c, i, dtype, ndim, shape, stride);
}

void *scratch(cfx_op_call *c, cfx_dtype dtype, int64_t n) {
    return cfx__tensor_empty(c->at, dtype, false, 1, &n, NULL)->data;
}
