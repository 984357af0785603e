/* Quantized tensors, dtypes torch.quint8 and the like: made of floats, looked into, and turned to
 * floats again. What other operators do with them is said in dispatch/quantized.c. */
#include <cfx/ops.h>

#include "quant.h"

#include <math.h>

CFX_FAMILY(MATH);

static bool is_quantized_dtype(cfx_op_call *c, int i) {
    cfx_dtype d = arg_dtype(c, i, CFX_F32);
    if (!cfx__dtype_is_quantized(d))
        op_fail(c,
                "quantize only supports the dtypes torch.qint8, torch.quint8 and torch.qint32, "
                "not torch.%s",
                cfx_dtype_name(d));
    return cfx__dtype_is_quantized(d);
}

static bool is_float32(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (x->dtype != CFX_F32)
        op_fail(c, "Quantize only works on Float Tensor, got %s", cfx__dtype_title(x->dtype));
    return x->dtype == CFX_F32;
}

static const cfx_tensor *quantized_input(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (!t->quantizer)
        op_fail(c, "%s is for quantized tensors, got one of torch.%s", cfx_op_name(c->op),
                cfx_dtype_name(t->dtype));
    return t->quantizer ? t : NULL;
}

/* A number, or the only element of a tensor; 1 where that is fake. */
static double number_of(cfx_op_call *c, int i) {
    const cfx_tensor *t = arg_tensor(c, i);
    if (!t)
        return arg_float(c, i);
    if (t->numel != 1)
        op_fail(c, "a scale or zero point of one element is needed, got %lld", (long long)t->numel);
    return t->data && t->numel == 1 ? cfx__tensor_number(t, 0) : 1;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void quantize_tensor(cfx_op_call *c) {
    cfx__quantizer *by = cfx__quantizer_new(number_of(c, 1), cfx__int64_of(number_of(c, 2)));
    if (!op_failed() && is_quantized_dtype(c, 3) && is_float32(c))
        c->out[0] = cfx__quantized_from(c->at, arg_tensor(c, 0), arg_dtype(c, 3, CFX_QU8), by);
}

/* Scales of channels are doubles; zero points are integers, or floats where they are given so. */
static cfx__quantizer *by_channels(cfx_op_call *c, int axis) {
    cfx_tensor *zero = arg_tensor(c, 2);
    return cfx__quantizer_channels(
        cfx_to(arg_tensor(c, 1), cfx_f64),
        cfx_to(zero, cfx__dtype_is_float(zero->dtype) ? cfx_f32 : cfx_i64), axis);
}

static void quantize_channel(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int axis = arg_dim(c, 3, x->ndim);
    if (axis < 0 || !is_quantized_dtype(c, 4) || !is_float32(c))
        return;
    cfx__quantizer *by = by_channels(c, axis);
    c->out[0] = cfx__quantized_from(c->at, x, arg_dtype(c, 4, CFX_QU8), by);
}

cfx_tensor *quant_dynamic(cfx_op_call *c, cfx_tensor *x, cfx_dtype dtype, bool reduce) {
    double scale = 1;
    int64_t zero_point = 0;
    int low = dtype == CFX_QI8 ? -128 : 0, high = dtype == CFX_QI8 ? 127 : 255;
    if (x->data && x->numel) {
        cfx_value both = cfx_aminmax(x);
        if (op_failed())
            return &cfx__tensor_bad;
        cfx__quantizer_choose((float)cfx__tensor_number(cfx_tensor_at(both, 0), 0),
                              (float)cfx__tensor_number(cfx_tensor_at(both, 1), 0),
                              reduce ? low / 2 : low, reduce ? high / 2 : high, false, &scale,
                              &zero_point);
    }
    return cfx__quantized_from(c->at, x, dtype, cfx__quantizer_new(scale, zero_point));
}

static void quantize_dynamic(cfx_op_call *c) {
    if (arg_dtype(c, 1, CFX_QU8) == CFX_F16) { /* no integers: a range is not needed */
        c->out[0] = cfx_to(arg_tensor(c, 0), cfx_f16);
        return;
    }
    if (!is_quantized_dtype(c, 1) || !is_float32(c))
        return;
    if (arg_dtype(c, 1, CFX_QU8) == CFX_QI32)
        op_fail(c, "dynamic quantization is to torch.quint8 or torch.qint8");
    else
        c->out[0] = quant_dynamic(c, arg_tensor(c, 0), arg_dtype(c, 1, CFX_QU8), arg_bool(c, 2));
}

/* The quantized dtype that is stored as d; d itself where there is none. */
static cfx_dtype quantized_dtype(cfx_dtype d) {
    return d == CFX_U8 ? CFX_QU8 : d == CFX_I8 ? CFX_QI8 : d == CFX_I32 ? CFX_QI32 : d;
}

static void make(cfx_op_call *c, cfx__quantizer *by) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_dtype d = quantized_dtype(x->dtype);
    if (d == x->dtype)
        op_fail(c, "%s takes integers of torch.uint8, torch.int8 or torch.int32, got torch.%s",
                cfx_op_name(c->op), cfx_dtype_name(d));
    else
        c->out[0] = cfx__quantized_of(tensor_copy(x), d, by);
}

static void make_tensor(cfx_op_call *c) {
    make(c, cfx__quantizer_new(arg_float(c, 1), arg_int(c, 2)));
}

static void make_channel(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int axis = arg_dim(c, 3, x->ndim);
    if (axis < 0)
        return;
    if (x->ndim == 0 || arg_tensor(c, 1)->numel != x->shape[axis] ||
        arg_tensor(c, 2)->numel != x->shape[axis])
        op_fail(c, "length of scales must equal to channel");
    else
        make(c, by_channels(c, axis));
}

/* ---- looking --------------------------------------------------------------------------------- */

static void dequantize(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (t->quantizer)
        c->out[0] = cfx__quantized_to_float(c->at, t);
    else
        c->out[0] = t->dtype == CFX_F32 ? t : cfx_to(t, cfx_f32);
}

static void int_repr(cfx_op_call *c) {
    const cfx_tensor *t = quantized_input(c);
    if (t)
        c->out[0] = tensor_copy(cfx__quantized_ints(t));
}

/* Of tensors with one scale; PyTorch's words for others. */
static const cfx__quantizer *whole(cfx_op_call *c) {
    const cfx_tensor *t = quantized_input(c);
    if (t && t->quantizer->scales)
        op_fail(c, "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.");
    return t && !t->quantizer->scales ? t->quantizer : NULL;
}

static void q_scale(cfx_op_call *c) {
    const cfx__quantizer *q = whole(c);
    c->result = cfx_float(q ? q->scale : 0);
}

static void q_zero_point(cfx_op_call *c) {
    const cfx__quantizer *q = whole(c);
    c->result = cfx_int(q ? q->zero_point : 0);
}

static const cfx__quantizer *channels(cfx_op_call *c) {
    const cfx_tensor *t = quantized_input(c);
    if (t && !t->quantizer->scales)
        op_fail(c, "%s is for tensors with a scale for each channel", cfx_op_name(c->op));
    return t && t->quantizer->scales ? t->quantizer : NULL;
}

static void q_scales(cfx_op_call *c) {
    const cfx__quantizer *q = channels(c);
    if (q)
        c->out[0] = tensor_copy(q->scales);
}

static void q_zero_points(cfx_op_call *c) {
    const cfx__quantizer *q = channels(c);
    if (q)
        c->out[0] = tensor_copy(q->zero_points);
}

static void q_axis(cfx_op_call *c) {
    const cfx__quantizer *q = channels(c);
    c->result = cfx_int(q ? q->axis : 0);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define QUANTIZED(fn) .decompose = fn, .quantized = CFX_QUANTIZED_OWN, NO_GRAD

CFX_OP(quantize_per_tensor) = {
    "aten::quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> "
    "Tensor",
    "torch.quantize_per_tensor", QUANTIZED(quantize_tensor), .out = "out"};
CFX_OP(quantize_per_tensor_tensor_qparams) = {
    "aten::quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
    "ScalarType dtype) -> Tensor",
    NULL, QUANTIZED(quantize_tensor), .out = "tensor_qparams_out"};
CFX_OP(quantize_per_tensor_dynamic) = {
    "aten::quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor",
    "torch.quantize_per_tensor_dynamic", QUANTIZED(quantize_dynamic), .effects = CFX_SHARES,
    .out = "out"};
CFX_OP(quantize_per_channel) = {
    "aten::quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, "
    "ScalarType dtype) -> Tensor",
    "torch.quantize_per_channel", QUANTIZED(quantize_channel), .out = "out"};
CFX_OP(_make_per_tensor_quantized_tensor) = {
    "aten::_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor",
    "torch._make_per_tensor_quantized_tensor", QUANTIZED(make_tensor), .out = "out"};
CFX_OP(_make_per_channel_quantized_tensor) = {
    "aten::_make_per_channel_quantized_tensor(Tensor self, Tensor scale, Tensor zero_point, int "
    "axis) -> Tensor",
    "torch._make_per_channel_quantized_tensor", QUANTIZED(make_channel), .out = "out"};
CFX_OP(dequantize_self) = {"aten::dequantize.self(Tensor self) -> Tensor",
                           "torch.dequantize Tensor.dequantize", QUANTIZED(dequantize),
                           .effects = CFX_SHARES, .out = "self_out"};
CFX_OP(int_repr) = {"aten::int_repr(Tensor self) -> Tensor", "torch.int_repr Tensor.int_repr",
                    QUANTIZED(int_repr), .out = "out"};
CFX_OP(q_scale) = {"aten::q_scale(Tensor self) -> float", "torch.q_scale Tensor.q_scale",
                   QUANTIZED(q_scale)};
CFX_OP(q_zero_point) = {"aten::q_zero_point(Tensor self) -> int",
                        "torch.q_zero_point Tensor.q_zero_point", QUANTIZED(q_zero_point)};
CFX_OP(q_per_channel_scales) = {"aten::q_per_channel_scales(Tensor self) -> Tensor",
                                "torch.q_per_channel_scales Tensor.q_per_channel_scales",
                                QUANTIZED(q_scales), .out = "out"};
CFX_OP(q_per_channel_zero_points) = {
    "aten::q_per_channel_zero_points(Tensor self) -> Tensor",
    "torch.q_per_channel_zero_points Tensor.q_per_channel_zero_points", QUANTIZED(q_zero_points),
    .out = "out"};
CFX_OP(q_per_channel_axis) = {"aten::q_per_channel_axis(Tensor self) -> int",
                              "torch.q_per_channel_axis Tensor.q_per_channel_axis",
                              QUANTIZED(q_axis)};
