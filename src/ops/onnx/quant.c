/* Quantized numbers: to small integers, back, and what is computed with them. Where scale and zero
 * point are known, the operators of quantized_decomposed are called, as PyTorch's quantizers do, so
 * that programs of both are the same. */
#include "onnx.h"

CFX_FAMILY(MATH);

/* ---- scales ---------------------------------------------------------------------------------- */

/* A type of quantized numbers, and how far it reaches. */
typedef struct {
    cfx_dtype dtype;
    int64_t low, high;
} reach;

/* False, with an error, where numbers are not quantized to the type. */
static bool reach_of(cfx_op_call *c, cfx_dtype d, int bits, reach *r) {
    int n = bits ? bits : 8 * cfx_dtype_size(d);
    bool with_sign = d == CFX_I8 || d == CFX_I16 || d == CFX_I32;
    if (!with_sign && d != CFX_U8 && d != CFX_U16) {
        op_fail(c, "%s: numbers are not quantized to %s", op_title(c), cfx_dtype_name(d));
        return false;
    }
    *r = (reach){d, with_sign ? -((int64_t)1 << (n - 1)) : 0,
                 ((int64_t)1 << (with_sign ? n - 1 : n)) - 1};
    return true;
}

/* t along an axis of x: one for each of its elements, or, in blocks, for so many of them. */
static cfx_tensor *along(cfx_tensor *t, const cfx_tensor *x, int axis, int64_t block) {
    if (t->numel == 1 && t->ndim < 2)
        return cfx_reshape(t, cfx_list_value(0, NULL));
    if (block > 1) {
        t = cfx_repeat_interleave(t, block, axis);
        return t->shape[axis] == x->shape[axis] ? t : cfx_slice(t, axis, 0, x->shape[axis]);
    }
    for (int i = axis + 1; t->ndim == 1 && i < x->ndim; i++)
        t = cfx_unsqueeze(t, -1);
    return t;
}

/* Where x is quantized along an axis: its number, or -1 with an error, also where there are not as
 * many zero points as scales; 0 where it is as a whole. */
static int scale_axis(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *scale,
                      const cfx_tensor *zero, int64_t axis) {
    if (zero && zero->numel != scale->numel) {
        op_fail(c, "%s: %lld zero points for %lld scales", op_title(c), (long long)zero->numel,
                (long long)scale->numel);
        return -1;
    }
    bool whole = scale->numel == 1 && scale->ndim < 2;
    return whole ? 0 : onnx_axis(c, axis, x->ndim);
}

/* ---- to integers ----------------------------------------------------------------------------- */

static cfx_tensor *quantized(cfx_op_call *c, cfx_tensor *x, cfx_tensor *scale, cfx_tensor *zero,
                             int64_t axis, int64_t block, reach r) {
    int at = scale_axis(c, x, scale, zero, axis);
    if (at < 0)
        return &cfx__tensor_bad;
    cfx_dtype d = (cfx_dtype)scale->dtype;
    x = cfx__dtype_is_float((cfx_dtype)x->dtype) ? x : onnx_to(x, d);
    cfx_value dtype = cfx_dtype_value(r.dtype);
    bool plain = r.dtype != CFX_U16 && x->dtype == CFX_F32 && block < 2;
    const cfx_tensor *s = cfx__tensor_known(scale), *z = zero ? cfx__tensor_known(zero) : NULL;
    if (plain && scale->numel == 1 && s && (z || !zero))
        return cfx_quantized_decomposed_quantize_per_tensor(
            x, cfx_number(cfx__tensor_get(s, 0)), z ? cfx__tensor_get(z, 0) : cfx_int(0), r.low,
            r.high, dtype);
    if (plain && scale->ndim == 1 && scale->numel > 1)
        return cfx_quantized_decomposed_quantize_per_channel(
            x, scale,
            zero ? onnx_to(zero, CFX_I64)
                 : cfx_zeros_like(scale, CFX_KW(dtype, cfx_dtype_value(CFX_I64))),
            at, r.low, r.high, dtype);
    x = cfx_round(cfx_div(x, along(onnx_to(scale, (cfx_dtype)x->dtype), x, at, block)));
    if (zero)
        x = cfx_add(x, onnx_to(along(onnx_wide(zero), x, at, block), (cfx_dtype)x->dtype));
    return onnx_to(cfx_clamp(x, r.low, r.high), r.dtype);
}

/* x, y_scale, y_zero_point, axis, block_size, output_dtype, precision, saturate */
ONNX_OP(QuantizeLinear) {
    cfx_tensor *x = T(0), *scale = T(1), *zero = T(2);
    const cfx__onnx_type *type = arg_is_none(c, 5) ? NULL : onnx_type_named(c, arg_text(c, 5));
    reach r;
    if (!cfx_ok())
        return;
    cfx_dtype d = type ? type->dtype : zero ? (cfx_dtype)zero->dtype : CFX_U8;
    if (cfx__dtype_is_float8(d)) {
        int at = scale_axis(c, x, scale, NULL, arg_int(c, 3));
        if (at >= 0)
            OUT(0) = onnx_cast(c, cfx_div(x, along(scale, x, at, arg_int(c, 4))),
                               type ? type : cfx__onnx_type_of(d), arg_bool(c, 7), "up");
        return;
    }
    if (reach_of(c, d, type ? type->bits : 0, &r))
        OUT(0) = quantized(c, x, scale, zero, arg_int(c, 3), arg_int(c, 4), r);
}

CFX_OP(onnx_QuantizeLinear) = {
    "onnx::QuantizeLinear(Tensor x, Tensor y_scale, Tensor? y_zero_point=None, *, int axis=1, int "
    "block_size=0, str? output_dtype=None, str? precision=None, int saturate=1) -> Tensor",
    ONNX(QuantizeLinear, 10)};

/* The range of the numbers, zero among them, in 256 steps. */
ONNX_OP(DynamicQuantizeLinear) {
    cfx_tensor *x = T(0);
    cfx_tensor *high = cfx_clamp(cfx_amax(x), 0), *low = cfx_clamp(cfx_amin(x), cfx_none(), 0);
    cfx_tensor *scale = cfx_div(cfx_sub(high, low), 255);
    scale = cfx_where(cfx_eq(scale, 0), cfx_ones_like(scale), scale);
    cfx_tensor *zero = cfx_clamp(cfx_round(cfx_neg(cfx_div(low, scale))), 0, 255);
    OUT(0) = onnx_to(cfx_clamp(cfx_add(cfx_round(cfx_div(x, scale)), zero), 0, 255), CFX_U8);
    OUT(1) = scale;
    OUT(2) = onnx_to(zero, CFX_U8);
}

CFX_OP(onnx_DynamicQuantizeLinear) = {
    "onnx::DynamicQuantizeLinear(Tensor x) -> (Tensor y, Tensor y_scale, Tensor y_zero_point)",
    ONNX(DynamicQuantizeLinear, 11)};

/* ---- to floats ------------------------------------------------------------------------------- */

/* The range of a tensor's dtype is what quantized_decomposed is told, though nothing depends on
 * it. */
static cfx_tensor *dequantized(cfx_op_call *c, cfx_tensor *x, cfx_tensor *scale, cfx_tensor *zero,
                               int64_t axis, int64_t block, cfx_dtype to) {
    int at = scale_axis(c, x, scale, zero, axis);
    cfx_dtype d = (cfx_dtype)x->dtype;
    if (at < 0)
        return &cfx__tensor_bad;
    bool plain = (d == CFX_U8 || d == CFX_I8 || d == CFX_I16 || d == CFX_I32) && block < 2;
    cfx_value dtype = cfx_dtype_value(d), out = to == CFX_F32 ? cfx_none() : cfx_dtype_value(to);
    const cfx_tensor *s = cfx__tensor_known(scale), *z = zero ? cfx__tensor_known(zero) : NULL;
    reach r;
    if (plain && !reach_of(c, d, 0, &r))
        return &cfx__tensor_bad;
    if (plain && scale->numel == 1 && s && (z || !zero))
        return cfx_quantized_decomposed_dequantize_per_tensor(
            x, cfx_number(cfx__tensor_get(s, 0)), z ? cfx__tensor_get(z, 0) : cfx_int(0), r.low,
            r.high, dtype, CFX_KW(out_dtype, out));
    if (plain && scale->ndim == 1 && scale->numel > 1)
        return cfx_quantized_decomposed_dequantize_per_channel(
            x, scale, zero ? onnx_to(zero, CFX_I64) : NULL, at, r.low, r.high, dtype,
            CFX_KW(out_dtype, out));
    cfx_tensor *y = onnx_to(x, to);
    if (zero && !cfx__dtype_is_float8((cfx_dtype)zero->dtype))
        y = cfx_sub(y, onnx_to(along(onnx_wide(zero), x, at, block), to));
    return cfx_mul(y, onnx_to(along(scale, x, at, block), to));
}

/* x, x_scale, x_zero_point, axis, block_size, output_dtype */
ONNX_OP(DequantizeLinear) {
    const cfx__onnx_type *type = arg_is_none(c, 5) ? NULL : onnx_type_named(c, arg_text(c, 5));
    if (cfx_ok())
        OUT(0) = dequantized(c, T(0), T(1), T(2), arg_int(c, 3), arg_int(c, 4),
                             type ? type->dtype : (cfx_dtype)T(1)->dtype);
}

CFX_OP(onnx_DequantizeLinear) = {
    "onnx::DequantizeLinear(Tensor x, Tensor x_scale, Tensor? x_zero_point=None, *, int axis=1, "
    "int block_size=0, str? output_dtype=None) -> Tensor",
    ONNX(DequantizeLinear, 10)};

/* ---- products of integers -------------------------------------------------------------------- */

CFX_FAMILY(LINEAR);

/* Integers less their zero point, in floats that hold every sum of n products exactly. */
static cfx_tensor *centred(cfx_tensor *x, cfx_tensor *zero, bool rows, int64_t n) {
    cfx_dtype d = n <= (1 << 24) / (255 * 255) ? CFX_F32 : CFX_F64;
    x = onnx_to(x, d);
    if (!zero)
        return x;
    zero = onnx_to(zero, d);
    if (rows && zero->ndim == 1 && zero->numel > 1)
        zero = cfx_unsqueeze(zero, 1);
    return cfx_sub(x, zero);
}

ONNX_OP(MatMulInteger) { /* A, B, a_zero_point, b_zero_point */
    cfx_tensor *a = T(0), *b = T(1);
    int64_t n = a->ndim ? a->shape[a->ndim - 1] : 1;
    OUT(0) = onnx_to(cfx_matmul(centred(a, T(2), true, n), centred(b, T(3), false, n)), CFX_I32);
}

CFX_OP(onnx_MatMulInteger) = {
    "onnx::MatMulInteger(Tensor A, Tensor B, Tensor? a_zero_point=None, Tensor? "
    "b_zero_point=None) -> Tensor",
    ONNX(MatMulInteger, 10)};

/* a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point */
ONNX_OP(QLinearMatMul) {
    reach r;
    if (!reach_of(c, (cfx_dtype)T(7)->dtype, 0, &r))
        return;
    cfx_tensor *a = dequantized(c, T(0), T(1), T(2), -2, 0, CFX_F32);
    cfx_tensor *b = dequantized(c, T(3), T(4), T(5), -1, 0, CFX_F32);
    OUT(0) = quantized(c, cfx_matmul(a, b), T(6), T(7), -2, 0, r);
}

CFX_OP(onnx_QLinearMatMul) = {
    "onnx::QLinearMatMul(Tensor a, Tensor a_scale, Tensor a_zero_point, Tensor b, Tensor b_scale, "
    "Tensor b_zero_point, Tensor y_scale, Tensor y_zero_point) -> Tensor",
    ONNX(QLinearMatMul, 10)};

CFX_FAMILY(CONV);

/* x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B, auto_pad,
 * dilations, group, kernel_shape, pads, strides */
ONNX_OP(QLinearConv) {
    reach r;
    if (!reach_of(c, (cfx_dtype)T(7)->dtype, 0, &r))
        return;
    cfx_tensor *x = dequantized(c, T(0), T(1), T(2), 1, 0, CFX_F32);
    cfx_tensor *w = dequantized(c, T(3), T(4), T(5), 0, 0, CFX_F32);
    cfx_tensor *bias = NULL;
    if (T(8))
        bias = cfx_mul(onnx_to(T(8), CFX_F32), cfx_mul(cfx_reshape(T(1), cfx_list_value(0, NULL)),
                                                       T(4)));
    cfx_value y = cfx_op_do_from(
        c->at, &cfx_op_onnx_Conv,
        CFX_ARGS(x, w, bias, CFX_KW(auto_pad, c->args[9]), CFX_KW(dilations, c->args[10]),
                 CFX_KW(group, c->args[11]), CFX_KW(kernel_shape, c->args[12]),
                 CFX_KW(pads, c->args[13]), CFX_KW(strides, c->args[14])));
    if (!cfx_is_bad(y))
        OUT(0) = quantized(c, cfx_as_tensor(y), T(6), T(7), 1, 0, r);
}

CFX_OP(onnx_QLinearConv) = {
    "onnx::QLinearConv(Tensor x, Tensor x_scale, Tensor x_zero_point, Tensor w, Tensor w_scale, "
    "Tensor w_zero_point, Tensor y_scale, Tensor y_zero_point, Tensor? B=None, *, str "
    "auto_pad=\"NOTSET\", int[]? dilations=None, int group=1, int[]? kernel_shape=None, int[]? "
    "pads=None, int[]? strides=None) -> Tensor",
    ONNX(QLinearConv, 10)};
