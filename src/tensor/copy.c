/* Copies: conversion, contiguity, filling, overlap. */
#include "tensor.h"

static void move_block(void *const *p, int64_t n, const void *params) {
    memcpy(p[0], p[1], (size_t)(n * *(const int *)params));
}

void cfx__copy(cfx_tensor *dst, const cfx_tensor *src) {
    int size = cfx_dtype_size(dst->dtype);
    cfx__pointwise(move_block, 1, 1,
                   (cfx__operand[]){{dst, (cfx_dtype)dst->dtype}, {src, (cfx_dtype)dst->dtype}},
                   &size, 1);
}

static void fill_block(void *const *p, int64_t n, const void *params) {
    const cfx_tensor *one = params;
    cfx__convert(p[0], cfx_dtype_size(one->dtype), one->dtype, one->data, 0, one->dtype, n);
}

void cfx__fill(cfx_tensor *dst, cfx_value number) {
    size_t mark = cfx_scope_open();
    cfx_tensor *one = cfx__tensor_scalar(number, dst->dtype, false);
    cfx__pointwise(fill_block, 1, 0, (cfx__operand[]){{dst, (cfx_dtype)dst->dtype}}, one, 1);
    cfx_scope_close(mark);
}

cfx_tensor *cfx__contiguous_as(const cfx_tensor *t, cfx_dtype dtype) {
    if (t->dtype == dtype && cfx__is_contiguous(t))
        return (cfx_tensor *)t;
    cfx_tensor *c =
        cfx__tensor_empty((cfx_where){0}, dtype, !t->data, t->ndim, t->shape, NULL);
    if (c->data && t->data)
        cfx__copy(c, t);
    return c;
}

cfx_tensor *cfx__contiguous(const cfx_tensor *t) { return cfx__contiguous_as(t, t->dtype); }

cfx_tensor *cfx__to_dtype(const cfx_tensor *t, cfx_dtype dtype) {
    if (t->dtype == dtype)
        return (cfx_tensor *)t;
    int64_t stride[CFX_MAX_DIMS];
    cfx__pointwise_strides(1, &t, t->ndim, t->shape, stride);
    cfx_tensor *c = cfx__tensor_empty((cfx_where){0}, dtype, !t->data, t->ndim, t->shape, stride);
    if (c->data && t->data)
        cfx__copy(c, t);
    return c;
}

static bool same_strides(const cfx_tensor *a, const cfx_tensor *b) {
    return cfx__same_shape(a, b) &&
           !memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride);
}

bool cfx__overlaps_itself(const cfx_tensor *t) {
    if (cfx__is_dense(t))
        return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] > 1 && t->stride[d] == 0)
            return true;
    return false;
}

cfx__overlap cfx__overlap_of(const cfx_tensor *a, const cfx_tensor *b) {
    if (a == b)
        return CFX__SAME;
    if (a->storage != b->storage || !a->numel || !b->numel || !a->data)
        return CFX__APART;
    if (!cfx__is_dense(a) || !cfx__is_dense(b))
        return a->data == b->data && same_strides(a, b) ? CFX__SAME
                                                        : CFX__APART; /* as far as PyTorch looks */
    const char *a1 = a->data + a->numel * cfx_dtype_size(a->dtype);
    const char *b1 = b->data + b->numel * cfx_dtype_size(b->dtype);
    if (a->data == b->data && a1 == b1)
        return same_strides(a, b) ? CFX__SAME : CFX__PARTLY;
    return a->data < b1 && b->data < a1 ? CFX__PARTLY : CFX__APART;
}
