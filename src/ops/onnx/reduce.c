/* What is folded along axes, and running sums. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* ---- folded ---------------------------------------------------------------------------------- */

/* x over some of its dimensions, which stay as dimensions of size 1. */
typedef cfx_tensor *fold(cfx_tensor *x, cfx_value dims, int n, const int64_t *axes);

#define FOLD(name, call)                                                                           \
    static cfx_tensor *fold_##name(cfx_tensor *x, cfx_value dims, int n, const int64_t *axes) {    \
        (void)dims, (void)n, (void)axes;                                                           \
        return call;                                                                               \
    }

static cfx_tensor *sum(cfx_tensor *x, cfx_value dims) {
    return cfx_sum(x, dims, true, CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)));
}

/* Integers in double, where a root or a logarithm follows. */
static cfx_tensor *real(cfx_tensor *x) {
    return cfx__dtype_is_float((cfx_dtype)x->dtype) ? x : onnx_to(x, CFX_F64);
}

FOLD(Sum, sum(x, dims))
FOLD(L1, sum(cfx_abs(x), dims))
FOLD(L2, cfx_sqrt(sum(cfx_square(real(x)), dims)))
FOLD(LogSum, cfx_log(sum(real(x), dims)))
FOLD(LogSumExp, cfx_logsumexp(real(x), dims, true))
FOLD(Mean, cfx_mean(real(x), dims, true))
FOLD(Max, cfx_amax(x, dims, true))
FOLD(Min, cfx_amin(x, dims, true))
FOLD(SumSquare, sum(cfx_mul(x, x), dims))
#undef FOLD

static cfx_tensor *fold_Prod(cfx_tensor *x, cfx_value dims, int n, const int64_t *axes) {
    (void)dims;
    for (int i = 0; i < n; i++)
        x = cfx_prod(x, axes[i], true, CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)));
    return x;
}

/* What the largest of none is: the smallest number there is; and the other way round. */
static cfx_value extreme(cfx_dtype d, bool largest) {
    if (d == CFX_BOOL)
        return cfx_bool(!largest);
    if (cfx__dtype_is_float(d))
        return cfx_float(largest ? -INFINITY : INFINITY);
    int bits = 8 * cfx_dtype_size(d);
    if (d == CFX_U8 || d == CFX_U16 || d == CFX_U32)
        return cfx_int(largest ? 0 : ((int64_t)1 << bits) - 1);
    return cfx_int(largest ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
}

/* The largest or smallest along axes of size 0. */
static cfx_tensor *fold_none(const cfx_tensor *x, int n, const int64_t *axes, bool largest) {
    int64_t shape[CFX_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        shape[i] = x->shape[i];
    for (int i = 0; i < n; i++)
        shape[axes[i]] = 1;
    return cfx_full(cfx_ints_value(x->ndim, shape), extreme((cfx_dtype)x->dtype, largest),
                    CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)));
}

static cfx_tensor *folded(cfx_tensor *x, fold *by, int n, const int64_t *axes) {
    bool ordered = !cfx__dtype_is_complex((cfx_dtype)x->dtype), none = false;
    bool extremes = ordered && (by == fold_Max || by == fold_Min);
    for (int i = 0; i < n; i++)
        none |= x->shape[axes[i]] == 0;
    int64_t last = -1; /* counted from the end where it is alone, as PyTorch's programs have it */
    bool alone = n == 1 && axes[0] == x->ndim - 1;
    return extremes && none ? fold_none(x, n, axes, by == fold_Max)
                            : by(x, cfx_ints_value(n, alone ? &last : axes), n,
                                 alone ? &last : axes);
}

/* Over no axis at all: what a fold does to each number beside adding them up. */
static cfx_tensor *fold_nothing(cfx_tensor *x, fold *by) {
    if (by == fold_L1 || by == fold_L2)
        return cfx_abs(x);
    if (by == fold_LogSum)
        return cfx_log(real(x));
    return by == fold_SumSquare ? cfx_mul(x, x) : x;
}

/* Arguments: data, axes, keepdims, noop_with_empty_axes (-1: is none of the row's). */
static void reduce(cfx_op_call *c, fold *by, int keepdims, int noop) {
    cfx_tensor *x = onnx_wide(T(0));
    int64_t axes[CFX_MAX_DIMS];
    int given = arg_is_none(c, 1) ? 0 : 1;
    int n = onnx_axes(c, 1, x->ndim, axes);
    if (n < 0)
        return;
    if (!given || n == 0) {
        if (noop >= 0 && arg_bool(c, noop)) {
            OUT(0) = onnx_to(fold_nothing(x, by), (cfx_dtype)T(0)->dtype);
            return;
        }
        for (n = 0; n < x->ndim; n++)
            axes[n] = n;
    }
    cfx_tensor *y = onnx_to(x->ndim ? folded(x, by, n, axes)
                                    : by(x, cfx_ints_value(0, NULL), 0, axes),
                            (cfx_dtype)T(0)->dtype);
    OUT(0) = arg_bool(c, keepdims) || !n ? y : cfx_squeeze(y, cfx_ints_value(n, axes));
}

#define REDUCE(name)                                                                               \
    ONNX_OP(Reduce##name) { reduce(c, fold_##name, 2, 3); }                                        \
    ONNX_OP(Reduce##name##_v1) { reduce(c, fold_##name, 2, -1); }
REDUCE(Sum)
REDUCE(L1)
REDUCE(L2)
REDUCE(LogSum)
REDUCE(LogSumExp)
REDUCE(Mean)
REDUCE(Max)
REDUCE(Min)
REDUCE(Prod)
REDUCE(SumSquare)
#undef REDUCE

CFX_OP(onnx_ReduceL1) = {
    "onnx::ReduceL1(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceL1, 18)};
CFX_OP(onnx_ReduceL1_v1) = {
    "onnx::ReduceL1.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceL1_v1, 1)};
CFX_OP(onnx_ReduceL2) = {
    "onnx::ReduceL2(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceL2, 18)};
CFX_OP(onnx_ReduceL2_v1) = {
    "onnx::ReduceL2.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceL2_v1, 1)};
CFX_OP(onnx_ReduceLogSum) = {
    "onnx::ReduceLogSum(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceLogSum, 18)};
CFX_OP(onnx_ReduceLogSum_v1) = {
    "onnx::ReduceLogSum.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceLogSum_v1, 1)};
CFX_OP(onnx_ReduceLogSumExp) = {
    "onnx::ReduceLogSumExp(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceLogSumExp, 18)};
CFX_OP(onnx_ReduceLogSumExp_v1) = {
    "onnx::ReduceLogSumExp.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceLogSumExp_v1, 1)};
CFX_OP(onnx_ReduceMax) = {
    "onnx::ReduceMax(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceMax, 18)};
CFX_OP(onnx_ReduceMax_v1) = {
    "onnx::ReduceMax.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceMax_v1, 1)};
CFX_OP(onnx_ReduceMean) = {
    "onnx::ReduceMean(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceMean, 18)};
CFX_OP(onnx_ReduceMean_v1) = {
    "onnx::ReduceMean.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceMean_v1, 1)};
CFX_OP(onnx_ReduceMin) = {
    "onnx::ReduceMin(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceMin, 18)};
CFX_OP(onnx_ReduceMin_v1) = {
    "onnx::ReduceMin.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceMin_v1, 1)};
CFX_OP(onnx_ReduceProd) = {
    "onnx::ReduceProd(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceProd, 18)};
CFX_OP(onnx_ReduceProd_v1) = {
    "onnx::ReduceProd.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceProd_v1, 1)};
CFX_OP(onnx_ReduceSum) = {
    "onnx::ReduceSum(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceSum, 13)};
CFX_OP(onnx_ReduceSum_v1) = {
    "onnx::ReduceSum.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceSum_v1, 1)};
CFX_OP(onnx_ReduceSumSquare) = {
    "onnx::ReduceSumSquare(Tensor data, Tensor? axes=None, *, int keepdims=1, int "
    "noop_with_empty_axes=0) -> Tensor",
    ONNX(ReduceSumSquare, 18)};
CFX_OP(onnx_ReduceSumSquare_v1) = {
    "onnx::ReduceSumSquare.v1(Tensor data, *, int[]? axes=None, int keepdims=1) -> Tensor",
    ONNX(ReduceSumSquare_v1, 1)};

/* ---- where the largest is -------------------------------------------------------------------- */

static void find(cfx_op_call *c, bool largest) { /* data, axis, keepdims, select_last_index */
    cfx_tensor *x = onnx_wide(T(0));
    int axis = onnx_axis(c, arg_int(c, 1), x->ndim);
    if (axis < 0)
        return;
    bool last = arg_bool(c, 3), keep = arg_bool(c, 2);
    cfx_tensor *from = last ? cfx_flip(x, cfx_list(axis)) : x;
    cfx_tensor *at = largest ? cfx_argmax(from, axis, keep) : cfx_argmin(from, axis, keep);
    OUT(0) = last ? cfx_rsub(at, x->shape[axis] - 1) : at;
}

ONNX_OP(ArgMax) { find(c, true); }
ONNX_OP(ArgMin) { find(c, false); }

CFX_OP(onnx_ArgMax) = {
    "onnx::ArgMax(Tensor data, *, int axis=0, int keepdims=1, int select_last_index=0) -> Tensor",
    ONNX(ArgMax, 1)};
CFX_OP(onnx_ArgMin) = {
    "onnx::ArgMin(Tensor data, *, int axis=0, int keepdims=1, int select_last_index=0) -> Tensor",
    ONNX(ArgMin, 1)};

/* ---- running --------------------------------------------------------------------------------- */

/* x without its last element along an axis, behind one that changes nothing. */
static cfx_tensor *shifted(cfx_tensor *x, int64_t axis, int64_t neutral) {
    cfx_tensor *first = cfx_full_like(cfx_slice(x, axis, 0, 1), neutral);
    return cfx_cat(cfx_list(first, cfx_slice(x, axis, 0, -1)), axis);
}

static void accumulate(cfx_op_call *c, bool product) { /* x, axis, exclusive, reverse */
    cfx_tensor *x = onnx_wide(T(0));
    int64_t axis;
    if (!onnx_int(c, 1, 0, &axis) || (axis = onnx_axis(c, axis, x->ndim)) < 0)
        return;
    cfx_value d = cfx_dtype_value((cfx_dtype)x->dtype);
    bool reverse = arg_bool(c, 3);
    x = reverse ? cfx_flip(x, cfx_list(axis)) : x;
    x = arg_bool(c, 2) ? shifted(x, axis, product) : x;
    x = product ? cfx_cumprod(x, axis, CFX_KW(dtype, d)) : cfx_cumsum(x, axis, CFX_KW(dtype, d));
    OUT(0) = onnx_to(reverse ? cfx_flip(x, cfx_list(axis)) : x, (cfx_dtype)T(0)->dtype);
}

ONNX_OP(CumSum) { accumulate(c, false); }
ONNX_OP(CumProd) { accumulate(c, true); }

CFX_OP(onnx_CumSum) = {
    "onnx::CumSum(Tensor x, Tensor axis, *, int exclusive=0, int reverse=0) -> Tensor",
    ONNX(CumSum, 11)};
CFX_OP(onnx_CumProd) = {
    "onnx::CumProd(Tensor x, Tensor axis, *, int exclusive=0, int reverse=0) -> Tensor",
    ONNX(CumProd, 26)};
