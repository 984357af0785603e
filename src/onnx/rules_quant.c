/* Rules for quantize and dequantize nodes, QuantizeLinear and DequantizeLinear, and for scales that
 * are chosen when the model runs. */
#include "export.h"

/* A scale, f32, or a zero point in the dtype of the integers: a number or a tensor. */
static cfx_value parameter(cfx__onnx_export *x, int i, cfx_dtype d) {
    cfx_value v = cfx__export_arg(x, i);
    if (cfx_is_none(v))
        return v;
    v = cfx__export_as(x, i, d);
    cfx_result r = cfx__export_given(x, i);
    return r.kind == CFX_RESULT_TENSOR && r.ndim == 1 && cfx__export_is_size(&r, 0, 1)
               ? PUT(Reshape, v, cfx__export_i64(x, 0, NULL))
               : v;
}

/* The same for each channel. */
static cfx_value parameters(cfx__onnx_export *x, int i, cfx_dtype d) {
    return cfx_is_none(cfx__export_arg(x, i)) ? cfx_none() : cfx__export_as(x, i, d);
}

/* Whether the numbers are fewer than those of the dtype. */
static bool is_narrow(int64_t least, int64_t most, cfx_dtype d) {
    return d == CFX_U8 ? least > 0 || most < 255
           : d == CFX_I8 ? least > -128 || most < 127
                         : d != CFX_I32 || least > INT32_MIN || most < INT32_MAX;
}

/* Integers from argument `at` on: the least, the most. */
static cfx_value clipped(cfx__onnx_export *x, cfx_value v, int at, cfx_dtype d) {
    cfx_value least = cfx__export_arg(x, at), most = cfx__export_arg(x, at + 1);
    if (least.tag != CFX_TAG_INT || most.tag != CFX_TAG_INT)
        return cfx__export_lacks("its range varies");
    if (!is_narrow(cfx_integer(least), cfx_integer(most), d))
        return v;
    return PUT(Clip, v, cfx__export_number(x, least, d), cfx__export_number(x, most, d));
}

RULE(quantize) {
    cfx_dtype d = cfx__export_result(x).dtype;
    (void)op;
    cfx_value v = PUT(QuantizeLinear, cfx__export_as(x, 0, CFX_F32), parameter(x, 1, CFX_F32),
                      parameter(x, 2, d));
    return clipped(x, v, 3, d);
}

RULE(dequantize) {
    cfx_dtype from = cfx__export_given(x, 0).dtype, to = cfx__export_result(x).dtype;
    (void)op;
    cfx_value v = PUT(DequantizeLinear, cfx__export_in(x, 0), parameter(x, 1, CFX_F32),
                      parameter(x, 2, from));
    return cfx__export_cast(x, v, CFX_F32, to);
}

/* The axis is argument 3. */
RULE(quantize_channels) {
    cfx_result r = cfx__export_result(x);
    (void)op;
    cfx_value v = PUT(QuantizeLinear, cfx__export_as(x, 0, CFX_F32), parameters(x, 1, CFX_F32),
                      parameters(x, 2, r.dtype),
                      CFX_KW(axis, cfx__export_dim(cfx_integer(cfx__export_arg(x, 3)), r.ndim)));
    return clipped(x, v, 4, r.dtype);
}

RULE(dequantize_channels) {
    cfx_result from = cfx__export_given(x, 0);
    (void)op;
    cfx_value v = PUT(DequantizeLinear, cfx__export_in(x, 0), parameters(x, 1, CFX_F32),
                      parameters(x, 2, from.dtype),
                      CFX_KW(axis, cfx__export_dim(cfx_integer(cfx__export_arg(x, 3)), from.ndim)));
    return cfx__export_cast(x, v, CFX_F32, cfx__export_result(x).dtype);
}

/* Each group of a row of weights has a scale: the groups become a dimension for a while. */
RULE(dequantize_groups) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value shape = cfx__export_shape(x, cfx__export_in(x, 0), &r);
    int64_t size = cfx_integer(cfx__export_arg(x, 6)), last[] = {0, -1, size};
    (void)op;
    if (r.ndim != 2)
        return cfx__export_lacks("its weights are no matrix");
    cfx_value apart = cfx__export_i64(x, 3, last), one = cfx__export_one(x, -1);
    cfx_value v = PUT(Reshape, cfx__export_as(x, 0, CFX_F32), apart);
    if (!cfx_is_none(cfx__export_arg(x, 2)))
        v = PUT(Sub, v, PUT(Unsqueeze, cfx__export_as(x, 2, CFX_F32), one));
    v = PUT(Mul, v, PUT(Unsqueeze, cfx__export_as(x, 1, CFX_F32), one));
    return cfx__export_cast(x, PUT(Reshape, v, shape), CFX_F32, cfx__export_result(x).dtype);
}

/* ---- scales from the numbers themselves: x, the least and the most integer, the least scale -- */

static cfx_value float_of(cfx__onnx_export *x, double v) {
    return cfx__export_number(x, cfx_float(v), CFX_F32);
}

/* The least and the largest number, 0 among them. */
static void read_limits(cfx__onnx_export *x, cfx_value *low, cfx_value *high) {
    cfx_value v = cfx__export_as(x, 0, CFX_F32), zero = float_of(x, 0);
    *low = PUT(ReduceMin, v, CFX_KW(keepdims, 0));
    *high = PUT(ReduceMax, v, CFX_KW(keepdims, 0));
    if (cfx_ok()) {
        *low = PUT(Min, cfx_list(*low, zero));
        *high = PUT(Max, cfx_list(*high, zero));
    }
}

/* Both as f64[1] and i64[1]. */
static cfx_value chosen(cfx__onnx_export *x, cfx_value scale, cfx_value zero, cfx_dtype from) {
    cfx_value one = cfx__export_one(x, 1);
    scale = PUT(Reshape, cfx__export_cast(x, scale, CFX_F32, CFX_F64), one);
    zero = PUT(Reshape, cfx__export_cast(x, zero, from, CFX_I64), one);
    return cfx_ok() ? cfx_tuple(scale, zero) : cfx_bad();
}

static cfx_value at_least_eps(cfx__onnx_export *x, cfx_value range, double steps) {
    cfx_value eps = float_of(x, cfx_number(cfx__export_arg(x, 3)));
    cfx_value scale = PUT(Div, range, float_of(x, steps));
    return cfx_ok() ? PUT(Max, cfx_list(scale, eps)) : cfx_bad();
}

static double steps_of(const cfx__onnx_export *x) {
    return cfx_number(cfx__export_arg(x, 2)) - cfx_number(cfx__export_arg(x, 1));
}

RULE(choose) {
    cfx_value low, high, least = float_of(x, cfx_number(cfx__export_arg(x, 1)));
    (void)op;
    read_limits(x, &low, &high);
    cfx_value scale = at_least_eps(x, PUT(Sub, high, low), steps_of(x));
    cfx_value zero = PUT(Sub, least, PUT(Round, PUT(Div, low, scale)));
    zero = PUT(Clip, zero, least, float_of(x, cfx_number(cfx__export_arg(x, 2))));
    return chosen(x, scale, zero, CFX_F32);
}

RULE(choose_symmetric) {
    cfx_value low, high, type = cfx__export_arg(x, 4);
    (void)op;
    read_limits(x, &low, &high);
    cfx_value far = cfx_ok() ? PUT(Max, cfx_list(PUT(Neg, low), high)) : cfx_bad();
    bool bytes = type.tag == CFX_TAG_DTYPE && cfx_as_dtype(type) == CFX_U8;
    return chosen(x, at_least_eps(x, far, steps_of(x) / 2),
                  cfx__export_number(x, cfx_int(bytes ? 128 : 0), CFX_I64), CFX_I64);
}

#define QUANT(name) "quantized_decomposed." name

static const cfx__onnx_rule rows[] = {
    {QUANT("quantize_per_tensor.default"), quantize, NULL},
    {QUANT("quantize_per_tensor.tensor"), quantize, NULL},
    {QUANT("quantize_per_tensor.tensor2"), quantize, NULL},
    {QUANT("dequantize_per_tensor.default"), dequantize, NULL},
    {QUANT("dequantize_per_tensor.tensor"), dequantize, NULL},
    {QUANT("dequantize_per_tensor.tensor2"), dequantize, NULL},
    {QUANT("quantize_per_channel.default"), quantize_channels, NULL},
    {QUANT("dequantize_per_channel.default"), dequantize_channels, NULL},
    {QUANT("dequantize_per_channel_group.default"), dequantize_groups, NULL},
    {QUANT("choose_qparams.tensor"), choose, NULL},
    {QUANT("choose_qparams_symmetric.tensor"), choose_symmetric, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_quant = CFX__ONNX_RULES(rows);
