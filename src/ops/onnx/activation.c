/* Activations, and what is normalised along an axis. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(ACTIVATION);

ONNX_OP(Relu) { OUT(0) = cfx_relu(T(0)); }
ONNX_OP(Sigmoid) { OUT(0) = cfx_sigmoid(T(0)); }
ONNX_OP(Tanh) { OUT(0) = cfx_tanh(T(0)); }
ONNX_OP(Softplus) { OUT(0) = cfx_softplus(T(0)); }
ONNX_OP(Softsign) { OUT(0) = cfx_div(T(0), cfx_add(cfx_abs(T(0)), 1)); }
ONNX_OP(HardSwish) { OUT(0) = cfx_hardswish(T(0)); }
ONNX_OP(Mish) { OUT(0) = cfx_mish(T(0)); }
ONNX_OP(LeakyRelu) { OUT(0) = cfx_leaky_relu(T(0), arg_float(c, 1)); }
ONNX_OP(Elu) { OUT(0) = cfx_elu(T(0), arg_float(c, 1)); }
ONNX_OP(Celu) { OUT(0) = cfx_celu(T(0), arg_float(c, 1)); }
ONNX_OP(Selu) { OUT(0) = cfx_elu(T(0), arg_float(c, 1), arg_float(c, 2)); }
ONNX_OP(ThresholdedRelu) { OUT(0) = cfx_threshold(T(0), arg_float(c, 1), 0); }
ONNX_OP(Gelu) { OUT(0) = cfx_gelu(T(0), CFX_KW(approximate, c->args[1])); }

ONNX_OP(HardSigmoid) {
    double alpha = arg_float(c, 1), beta = arg_float(c, 2);
    bool usual = fabs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5;
    OUT(0) = usual ? cfx_hardsigmoid(T(0))
                   : cfx_clamp(cfx_add(cfx_mul(T(0), alpha), beta), 0, 1);
}

ONNX_OP(Swish) {
    double alpha = arg_float(c, 1);
    OUT(0) = alpha == 1 ? cfx_silu(T(0)) : cfx_mul(T(0), cfx_sigmoid(cfx_mul(T(0), alpha)));
}

ONNX_OP(SwiGLU) {
    double alpha = arg_float(c, 2);
    cfx_tensor *gate = alpha == 1 ? cfx_silu(T(0))
                                  : cfx_mul(T(0), cfx_sigmoid(cfx_mul(T(0), alpha)));
    OUT(0) = cfx_mul(gate, T(1));
}

ONNX_OP(Shrink) {
    cfx_tensor *x = T(0);
    double bias = arg_float(c, 1), lambd = arg_float(c, 2);
    cfx_dtype d = (cfx_dtype)x->dtype;
    cfx_tensor *below = cfx_where(cfx_lt(x, -lambd), cfx_add(x, bias), 0);
    OUT(0) = onnx_to(cfx_where(cfx_gt(x, lambd), cfx_sub(x, bias), below), d);
}

/* One slope for each channel, as ATen has it, or any that is broadcast to x. */
static bool is_per_channel(const cfx_tensor *x, const cfx_tensor *slope) {
    bool per = x->ndim > 1 && slope->ndim == x->ndim - 1 && onnx_size(slope, 0) == onnx_size(x, 1);
    for (int i = 1; per && i < slope->ndim; i++)
        per = slope->shape[i] == 1;
    return per || slope->numel == 1;
}

ONNX_OP(PRelu) {
    cfx_tensor *x = T(0), *slope = T(1);
    bool computed = cfx__dtype_is_float((cfx_dtype)x->dtype);
    if (computed && is_per_channel(x, slope) && slope->ndim < x->ndim) {
        OUT(0) = cfx_prelu(x, cfx_reshape(slope, cfx_list(-1)));
        return;
    }
    x = onnx_wide(x);
    cfx_tensor *scaled = cfx_mul(x, onnx_wide(slope));
    OUT(0) = onnx_to(cfx_where(cfx_lt(x, 0), scaled, x), (cfx_dtype)T(0)->dtype);
}

CFX_OP(onnx_Relu) = {"onnx::Relu(Tensor X) -> Tensor", ONNX(Relu, 1)};
CFX_OP(onnx_Sigmoid) = {"onnx::Sigmoid(Tensor X) -> Tensor", ONNX(Sigmoid, 1)};
CFX_OP(onnx_Tanh) = {"onnx::Tanh(Tensor input) -> Tensor", ONNX(Tanh, 1)};
CFX_OP(onnx_Softplus) = {"onnx::Softplus(Tensor X) -> Tensor", ONNX(Softplus, 1)};
CFX_OP(onnx_Softsign) = {"onnx::Softsign(Tensor input) -> Tensor", ONNX(Softsign, 1)};
CFX_OP(onnx_HardSigmoid) = {
    "onnx::HardSigmoid(Tensor X, *, float alpha=0.2, float beta=0.5) -> Tensor",
    ONNX(HardSigmoid, 1)};
CFX_OP(onnx_HardSwish) = {"onnx::HardSwish(Tensor X) -> Tensor", ONNX(HardSwish, 14)};
CFX_OP(onnx_Mish) = {"onnx::Mish(Tensor X) -> Tensor", ONNX(Mish, 18)};
CFX_OP(onnx_LeakyRelu) = {
    "onnx::LeakyRelu(Tensor X, *, float alpha=0.01) -> Tensor",
    ONNX(LeakyRelu, 1)};
CFX_OP(onnx_Elu) = {"onnx::Elu(Tensor X, *, float alpha=1.) -> Tensor", ONNX(Elu, 1)};
CFX_OP(onnx_Celu) = {"onnx::Celu(Tensor X, *, float alpha=1.) -> Tensor", ONNX(Celu, 12)};
CFX_OP(onnx_Selu) = {
    "onnx::Selu(Tensor X, *, float alpha=1.67326319217681884765625, float "
    "gamma=1.05070102214813232421875) -> Tensor",
    ONNX(Selu, 6)};
CFX_OP(onnx_Selu_v1) = {
    "onnx::Selu.v1(Tensor X, *, float alpha=1.6732, float gamma=1.0507) -> Tensor",
    ONNX(Selu, 1)};
CFX_OP(onnx_ThresholdedRelu) = {
    "onnx::ThresholdedRelu(Tensor X, *, float alpha=1.) -> Tensor",
    ONNX(ThresholdedRelu, 1)};
CFX_OP(onnx_Gelu) = {"onnx::Gelu(Tensor X, *, str approximate=\"none\") -> Tensor", ONNX(Gelu, 20)};
CFX_OP(onnx_Swish) = {"onnx::Swish(Tensor X, *, float alpha=1.) -> Tensor", ONNX(Swish, 24)};
CFX_OP(onnx_SwiGLU) = {
    "onnx::SwiGLU(Tensor A, Tensor B, *, float alpha=1.) -> Tensor",
    ONNX(SwiGLU, 28)};
CFX_OP(onnx_Shrink) = {
    "onnx::Shrink(Tensor input, *, float bias=0., float lambd=0.5) -> Tensor",
    ONNX(Shrink, 9)};
CFX_OP(onnx_PRelu) = {"onnx::PRelu(Tensor X, Tensor slope) -> Tensor", ONNX(PRelu, 7)};

/* ---- along an axis --------------------------------------------------------------------------- */

/* 1 at the first of the largest, 0 elsewhere. */
static cfx_tensor *hardmax(cfx_tensor *x, int64_t axis) {
    cfx_tensor *at = cfx_argmax(x, axis, true);
    return cfx_scatter(cfx_zeros_like(x), axis, at, 1);
}

/* The last dimension is the one that counts from the end, as PyTorch's programs have it. */
static int64_t from_end(const cfx_tensor *x, int64_t axis) {
    return axis == x->ndim - 1 ? -1 : axis;
}

ONNX_OP(Softmax) { OUT(0) = cfx_softmax(T(0), from_end(T(0), arg_int(c, 1))); }
ONNX_OP(LogSoftmax) { OUT(0) = cfx_log_softmax(T(0), arg_int(c, 1)); }
ONNX_OP(Hardmax) { OUT(0) = hardmax(T(0), arg_int(c, 1)); }

CFX_OP(onnx_Softmax) = {"onnx::Softmax(Tensor input, *, int axis=-1) -> Tensor", ONNX(Softmax, 13)};
CFX_OP(onnx_LogSoftmax) = {
    "onnx::LogSoftmax(Tensor input, *, int axis=-1) -> Tensor",
    ONNX(LogSoftmax, 13)};
CFX_OP(onnx_Hardmax) = {"onnx::Hardmax(Tensor input, *, int axis=-1) -> Tensor", ONNX(Hardmax, 13)};

/* Before version 13 all dimensions from the axis on were one. */
static void call_flat(cfx_op_call *c, cfx_tensor *(*call)(cfx_tensor *x, int64_t axis)) {
    cfx_tensor *x = T(0);
    int axis = onnx_axis(c, arg_int(c, 1), x->ndim);
    if (axis < 0)
        return;
    cfx_tensor *flat = axis == x->ndim - 1 ? x : cfx_flatten(x, axis, -1);
    OUT(0) = cfx_reshape(call(flat, axis), cfx_ints_value(x->ndim, x->shape));
}

static cfx_tensor *softmax(cfx_tensor *x, int64_t axis) {
    return cfx_softmax(x, from_end(x, axis));
}
static cfx_tensor *log_softmax(cfx_tensor *x, int64_t axis) { return cfx_log_softmax(x, axis); }

ONNX_OP(Softmax_v1) { call_flat(c, softmax); }
ONNX_OP(LogSoftmax_v1) { call_flat(c, log_softmax); }
ONNX_OP(Hardmax_v1) { call_flat(c, hardmax); }

CFX_OP(onnx_Softmax_v1) = {
    "onnx::Softmax.v1(Tensor input, *, int axis=1) -> Tensor",
    ONNX(Softmax_v1, 1)};
CFX_OP(onnx_LogSoftmax_v1) = {
    "onnx::LogSoftmax.v1(Tensor input, *, int axis=1) -> Tensor",
    ONNX(LogSoftmax_v1, 1)};
CFX_OP(onnx_Hardmax_v1) = {
    "onnx::Hardmax.v1(Tensor input, *, int axis=1) -> Tensor",
    ONNX(Hardmax_v1, 1)};
