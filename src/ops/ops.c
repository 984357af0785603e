/* What the operators share: reading lists, making results, pointwise rows. */
#include "ops.h"

int arg_ints(const cfx_call *c, int i, int64_t *out) {
    cfx_value v = c->args[i];
    if (v.tag == CFX_TAG_NONE)
        return 0;
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE) {
        out[0] = cfx_integer(v);
        return 1;
    }
    if (v.list->len > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return 0;
    }
    for (int64_t k = 0; k < v.list->len; k++)
        out[k] = cfx_integer(v.list->items[k]);
    return (int)v.list->len;
}

bool arg_dims_mask(const cfx_call *c, int i, int ndim, uint64_t *mask) {
    int64_t dims[CFX_MAX_DIMS];
    int n = arg_ints(c, i, dims);
    *mask = 0;
    if (!n) {
        *mask = ndim >= 64 ? UINT64_MAX : ((uint64_t)1 << ndim) - 1;
        return !op_failed();
    }
    for (int k = 0; k < n; k++) {
        int d = cfx__wrap_dim(c->at, dims[k], ndim);
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

cfx_tensor *out_like(cfx_call *c, int i, cfx_dtype dtype, const cfx_tensor *t) {
    int64_t stride[CFX_MAX_DIMS];
    cfx__pointwise_strides(1, &t, t->ndim, t->shape, stride);
    return out_strided(c, i, dtype, t->ndim, t->shape, stride);
}

cfx_tensor *out_broadcast(cfx_call *c, int i, cfx_dtype dtype, int n, const cfx_tensor *const *t) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int ndim = 0;
    for (int k = 0; k < n; k++)
        if (!cfx__broadcast(c->at, &ndim, shape, t[k]->ndim, t[k]->shape))
            return c->out[i] = &cfx__bad_tensor;
    cfx__pointwise_strides(n, t, ndim, shape, stride);
    return out_strided(c, i, dtype, ndim, shape, stride);
}

void *scratch(cfx_call *c, cfx_dtype dtype, int64_t n) {
    return cfx__tensor_empty(c->at, dtype, false, 1, &n, NULL)->data;
}

/* ---- pointwise rows ---------------------------------------------------------------------------------- */

/* The leading tensor arguments: the operands of a pointwise call. */
static int operands(const cfx_call *c, const cfx_tensor **t) {
    int n = 0;
    while (n < c->nargs && n < CFX__ITER_MAX - 1 && c->args[n].tag == CFX_TAG_TENSOR) {
        t[n] = c->args[n].tensor;
        n++;
    }
    return n;
}

static cfx__loop *loop_for(const pointwise_row *r, cfx_dtype d, cfx_dtype *as) {
    switch (d) {
    case CFX_BOOL:
        if (r->b8)
            return *as = CFX_BOOL, r->b8;
        return *as = CFX_I64, r->i64;
    case CFX_F64: return *as = CFX_F64, r->f64;
    case CFX_F32:
    case CFX_F16:
    case CFX_BF16: return *as = CFX_F32, r->f32;
    case CFX_C64: return *as = CFX_C64, r->c64;
    case CFX_C128: return *as = CFX_C128, r->c128;
    default: return *as = CFX_I64, r->i64;
    }
}

bool pointwise_dtypes(cfx_call *c, const pointwise_row *r, cfx_dtype *compute, cfx_dtype *result) {
    cfx__promotion p = CFX__PROMOTION_START;
    bool tensors = true;
    for (int i = 0; i < c->nargs; i++) {
        /* tensors first, then the numbers that belong to the arithmetic */
        if (c->args[i].tag == CFX_TAG_TENSOR && tensors)
            cfx__promote_tensor(&p, c->args[i].tensor);
        else if (tensors && i > 0 && cfx_is_number(c->args[i]))
            cfx__promote_value(&p, c->args[i]), tensors = false;
        else
            tensors = false;
    }
    cfx_dtype d = cfx__promoted(&p);
    if (r->rule == RULE_FLOAT && (cfx__is_int(d) || d == CFX_BOOL))
        d = CFX_F32;
    *compute = r->rule == RULE_TO_BOOL ? CFX_BOOL : d;
    *result = r->rule == RULE_BOOL || r->rule == RULE_TO_BOOL ? CFX_BOOL
              : r->rule == RULE_ABS                         ? cfx__real_of(d)
                                                            : d;
    cfx_dtype as;
    if (loop_for(r, *compute, &as))
        return true;
    op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", r->name, cfx__dtype_title(*compute));
    return false;
}

void shape_pointwise(cfx_call *c) {
    const cfx_tensor *t[CFX__ITER_MAX];
    int n = operands(c, t);
    cfx_dtype compute, result;
    if (!pointwise_dtypes(c, c->op->row, &compute, &result)) {
        c->out[0] = &cfx__bad_tensor;
        return;
    }
    out_broadcast(c, 0, result, n, t);
}

void kernel_pointwise(cfx_call *c) {
    const pointwise_row *r = c->op->row;
    const cfx_tensor *t[CFX__ITER_MAX];
    int n = operands(c, t), numbers = 0;
    cfx_dtype compute, result, as;
    if (!pointwise_dtypes(c, r, &compute, &result))
        return;
    cfx__loop *loop = loop_for(r, compute, &as);
    pointwise_params p = {.dtype = compute};
    for (int i = n; i < c->nargs && numbers < COUNT(p.f); i++) {
        cfx_value v = c->args[i];
        if (v.tag == CFX_TAG_STR) {
            p.text = cfx_text(v);
            continue;
        }
        p.f[numbers] = cfx_number(v);
        p.i[numbers] = cfx_integer(v);
        p.im[numbers++] = v.tag == CFX_TAG_COMPLEX ? v.complex_->im : 0;
    }
    cfx_dtype out_as = r->rule == RULE_BOOL || r->rule == RULE_TO_BOOL ? CFX_BOOL
                       : r->rule == RULE_ABS                         ? cfx__real_of(as)
                                                                     : as;
    cfx__operand o[CFX__ITER_MAX];
    o[0] = (cfx__operand){c->out[0], out_as};
    for (int i = 0; i < n; i++)
        o[i + 1] = (cfx__operand){t[i], as};
    cfx__pointwise(loop, 1, n, o, &p, r->cost);
}
