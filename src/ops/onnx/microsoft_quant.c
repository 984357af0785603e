/* Quantized operators of com.microsoft, which ONNX Runtime's quantizer writes: numbers become
 * floats, the operator of ONNX is applied, and the result is rounded again. */
#include "microsoft.h"

CFX_FAMILY(MATH);

/* ---- to floats and back ---------------------------------------------------------------------- */

/* Arguments i, i + 1 and i + 2: integers, their scale and their zero point. */
static cfx_tensor *floats(cfx_op_call *c, int i, int64_t axis) {
    return onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_DequantizeLinear,
        CFX_ARGS(c->args[i], c->args[i + 1], c->args[i + 2], CFX_KW(axis, axis))));
}

/* Gives x, rounded by arguments i and i + 1; without a zero point to the dtype of `like`. */
static void give(cfx_op_call *c, cfx_tensor *x, int i, const cfx_tensor *like) {
    cfx_value type = cfx_none();
    if (!T(i + 1))
        type = cfx_string_value(onnx_type_name(c, like));
    if (cfx_ok())
        OUT(0) = onnx_tensor_of(
            cfx_op_do_from(c->at, &cfx_op_onnx_QuantizeLinear,
                           CFX_ARGS(x, T(i), T(i + 1), CFX_KW(output_dtype, type))));
}

/* The operators of ONNX before those had 16 and 4 bits. `output_dtype` is no attribute of files: it
 * says what bits a zero point has. */
ONNX_OP(QuantizeLinear) { /* x, y_scale, y_zero_point, axis, block_size, output_dtype */
    OUT(0) = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_QuantizeLinear,
        CFX_ARGS(T(0), T(1), T(2), CFX_KW(axis, c->args[3]), CFX_KW(block_size, c->args[4]),
                 CFX_KW(output_dtype, c->args[5]))));
}
ONNX_OP(DequantizeLinear) { /* x, x_scale, x_zero_point, axis, block_size */
    OUT(0) = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_DequantizeLinear,
        CFX_ARGS(T(0), T(1), T(2), CFX_KW(axis, c->args[3]), CFX_KW(block_size, c->args[4]))));
}

CFX_OP(onnx_microsoft_QuantizeLinear) = {
    "onnx_microsoft::QuantizeLinear(Tensor x, Tensor y_scale, Tensor? y_zero_point=None, *, int "
    "axis=1, int block_size=0, str? output_dtype=None) -> Tensor",
    ONNX(QuantizeLinear, 1)};
CFX_OP(onnx_microsoft_DequantizeLinear) = {
    "onnx_microsoft::DequantizeLinear(Tensor x, Tensor x_scale, Tensor? x_zero_point=None, *, int "
    "axis=1, int block_size=0) -> Tensor",
    ONNX(DequantizeLinear, 1)};

/* ---- one and two operands -------------------------------------------------------------------- */

ONNX_OP(QLinearAdd) { give(c, cfx_add(floats(c, 0, 1), floats(c, 3, 1)), 6, T(0)); }
ONNX_OP(QLinearMul) { give(c, cfx_mul(floats(c, 0, 1), floats(c, 3, 1)), 6, T(0)); }
ONNX_OP(QLinearSigmoid) { give(c, cfx_sigmoid(floats(c, 0, 1)), 3, T(0)); }
ONNX_OP(QLinearLeakyRelu) { give(c, cfx_leaky_relu(floats(c, 0, 1), arg_float(c, 5)), 3, T(0)); }

/* X, X_scale, x_zero_point, y_scale, y_zero_point, axis, opset: before version 13 all dimensions
 * from the axis on are one. */
ONNX_OP(QLinearSoftmax) {
    cfx_tensor *x = floats(c, 0, 1);
    int axis = cfx_ok() ? onnx_axis(c, arg_int(c, 5), x->ndim) : -1;
    if (axis < 0)
        return;
    bool rows = arg_int(c, 6) < 13 && axis < x->ndim - 1;
    cfx_tensor *y = cfx_softmax(rows ? cfx_flatten(x, axis) : x, axis);
    give(c, rows ? cfx_reshape_as(y, x) : y, 3, T(0));
}

/* condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point */
ONNX_OP(QLinearWhere) {
    give(c, cfx_where(T(0), floats(c, 1, 1), floats(c, 4, 1)), 7, T(1));
}

/* data, data_scale, data_zero_point, reduced_scale, reduced_zero_point, axes, keepdims */
ONNX_OP(QLinearReduceMean) {
    give(c, onnx_tensor_of(cfx_op_do_from(c->at, &cfx_op_onnx_ReduceMean_v1,
                                          CFX_ARGS(floats(c, 0, 1), CFX_KW(axes, c->args[5]),
                                                   CFX_KW(keepdims, c->args[6])))),
         3, T(0));
}

CFX_OP(onnx_microsoft_QLinearWhere) = {
    "onnx_microsoft::QLinearWhere(Tensor condition, Tensor X, Tensor x_scale, Tensor "
    "x_zero_point, Tensor Y, Tensor y_scale, Tensor y_zero_point, Tensor z_scale, Tensor "
    "z_zero_point) -> Tensor",
    ONNX(QLinearWhere, 1)};
CFX_OP(onnx_microsoft_QLinearReduceMean) = {
    "onnx_microsoft::QLinearReduceMean(Tensor data, Tensor data_scale, Tensor? data_zero_point, "
    "Tensor reduced_scale, Tensor? reduced_zero_point=None, *, int[]? axes=None, int keepdims=1) "
    "-> Tensor",
    ONNX(QLinearReduceMean, 1)};
CFX_OP(onnx_microsoft_QLinearAdd) = {
    "onnx_microsoft::QLinearAdd(Tensor A, Tensor A_scale, Tensor? A_zero_point, Tensor B, Tensor "
    "B_scale, Tensor? B_zero_point, Tensor C_scale, Tensor? C_zero_point=None) -> Tensor",
    ONNX(QLinearAdd, 1)};
CFX_OP(onnx_microsoft_QLinearMul) = {
    "onnx_microsoft::QLinearMul(Tensor A, Tensor A_scale, Tensor? A_zero_point, Tensor B, Tensor "
    "B_scale, Tensor? B_zero_point, Tensor C_scale, Tensor? C_zero_point=None) -> Tensor",
    ONNX(QLinearMul, 1)};
CFX_OP(onnx_microsoft_QLinearSigmoid) = {
    "onnx_microsoft::QLinearSigmoid(Tensor X, Tensor X_scale, Tensor? X_zero_point, Tensor "
    "Y_scale, Tensor? Y_zero_point=None) -> Tensor",
    ONNX(QLinearSigmoid, 1)};
CFX_OP(onnx_microsoft_QLinearLeakyRelu) = {
    "onnx_microsoft::QLinearLeakyRelu(Tensor X, Tensor X_scale, Tensor? X_zero_point, Tensor "
    "Y_scale, Tensor? Y_zero_point=None, *, float alpha=0.01) -> Tensor",
    ONNX(QLinearLeakyRelu, 1)};
CFX_OP(onnx_microsoft_QLinearSoftmax) = {
    "onnx_microsoft::QLinearSoftmax(Tensor X, Tensor X_scale, Tensor? x_zero_point, Tensor "
    "y_scale, Tensor y_zero_point, *, int axis=-1, int opset) -> Tensor",
    ONNX(QLinearSoftmax, 1)};

/* ---- several --------------------------------------------------------------------------------- */

CFX_FAMILY(VIEW);

/* Y_scale, Y_zero_point, then the parts: each with its scale and its zero point; axis. */
ONNX_OP(QLinearConcat) {
    const cfx_list *given = cfx_as_list(c->args[2]);
    cfx_value parts = cfx_list_value(0, NULL);
    if (given->len % 3 || !given->len) {
        op_fail(c, "QLinearConcat: %lld inputs are not triples of tensor, scale and zero point",
                (long long)given->len);
        return;
    }
    for (int64_t i = 0; i < given->len; i += 3)
        cfx_list_append(cfx_as_list(parts),
                        cfx_op_do_from(c->at, &cfx_op_onnx_DequantizeLinear,
                                       CFX_ARGS(given->items[i], given->items[i + 1],
                                                given->items[i + 2])));
    if (cfx_ok())
        give(c, cfx_cat(parts, arg_int(c, 3)), 0, T(1));
}

CFX_OP(onnx_microsoft_QLinearConcat) = {
    "onnx_microsoft::QLinearConcat(Tensor Y_scale, Tensor Y_zero_point, Tensor[] inputs, *, int "
    "axis) -> Tensor",
    ONNX(QLinearConcat, 1)};

/* ---- pools ----------------------------------------------------------------------------------- */

CFX_FAMILY(POOL);

/* x with its channels in the second place, and back. */
static cfx_tensor *channels_first(cfx_tensor *x, bool last) {
    return last ? cfx_movedim(x, -1, 1) : x;
}
static cfx_tensor *channels_back(cfx_tensor *x, bool last) {
    return last ? cfx_movedim(x, 1, -1) : x;
}

ONNX_OP(QLinearGlobalAveragePool) { /* X, x_scale, x_zero_point, y_scale, y_zero_point, last */
    bool last = arg_bool(c, 5);
    cfx_tensor *x = channels_first(floats(c, 0, 1), last);
    if (!cfx_ok())
        return;
    cfx_tensor *y = onnx_tensor_of(
        cfx_op_do_from(c->at, &cfx_op_onnx_GlobalAveragePool, CFX_ARGS(x)));
    give(c, channels_back(y, last), 3, T(0));
}

/* X, x_scale, x_zero_point, y_scale, y_zero_point, auto_pad, ceil_mode, channels_last,
 * count_include_pad, kernel_shape, pads, strides */
ONNX_OP(QLinearAveragePool) {
    bool last = arg_bool(c, 7);
    cfx_tensor *x = channels_first(floats(c, 0, 1), last);
    if (!cfx_ok())
        return;
    cfx_tensor *y = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_AveragePool,
        CFX_ARGS(x, CFX_KW(auto_pad, c->args[5]), CFX_KW(ceil_mode, c->args[6]),
                 CFX_KW(count_include_pad, c->args[8]), CFX_KW(kernel_shape, c->args[9]),
                 CFX_KW(pads, c->args[10]), CFX_KW(strides, c->args[11]))));
    give(c, channels_back(y, last), 3, T(0));
}

/* x, auto_pad, ceil_mode, dilations, kernel_shape, pads, strides */
ONNX_OP(NhwcMaxPool) {
    cfx_tensor *y = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_MaxPool,
        CFX_ARGS(channels_first(T(0), true), CFX_KW(auto_pad, c->args[1]),
                 CFX_KW(ceil_mode, c->args[2]), CFX_KW(dilations, c->args[3]),
                 CFX_KW(kernel_shape, c->args[4]), CFX_KW(pads, c->args[5]),
                 CFX_KW(strides, c->args[6]))));
    if (cfx_ok())
        OUT(0) = channels_back(y, true);
}

CFX_OP(onnx_microsoft_NhwcMaxPool) = {
    "onnx_microsoft::NhwcMaxPool(Tensor x, *, str auto_pad=\"NOTSET\", int ceil_mode=0, int[]? "
    "dilations=None, int[] kernel_shape, int[]? pads=None, int[]? strides=None) -> Tensor",
    ONNX(NhwcMaxPool, 1)};
CFX_OP(onnx_microsoft_QLinearGlobalAveragePool) = {
    "onnx_microsoft::QLinearGlobalAveragePool(Tensor X, Tensor x_scale, Tensor x_zero_point, "
    "Tensor y_scale, Tensor y_zero_point, *, int channels_last=0) -> Tensor",
    ONNX(QLinearGlobalAveragePool, 1)};
CFX_OP(onnx_microsoft_QLinearAveragePool) = {
    "onnx_microsoft::QLinearAveragePool(Tensor X, Tensor x_scale, Tensor? x_zero_point, Tensor "
    "y_scale, Tensor? y_zero_point=None, *, str auto_pad=\"NOTSET\", int ceil_mode=0, int "
    "channels_last=0, int count_include_pad=0, int[] kernel_shape, int[]? pads=None, int[]? "
    "strides=None) -> Tensor",
    ONNX(QLinearAveragePool, 1)};

CFX_FAMILY(CONV);

/* ONNX's arguments, with channels_last before the dilations; the weight is ONNX's either way. */
ONNX_OP(QLinearConv) {
    bool last = arg_bool(c, 10);
    cfx_tensor *y = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_QLinearConv,
        CFX_ARGS(channels_first(T(0), last), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8),
                 CFX_KW(auto_pad, c->args[9]), CFX_KW(dilations, c->args[11]),
                 CFX_KW(group, c->args[12]), CFX_KW(kernel_shape, c->args[13]),
                 CFX_KW(pads, c->args[14]), CFX_KW(strides, c->args[15]))));
    if (cfx_ok())
        OUT(0) = channels_back(y, last);
}

CFX_OP(onnx_microsoft_QLinearConv) = {
    "onnx_microsoft::QLinearConv(Tensor x, Tensor x_scale, Tensor x_zero_point, Tensor w, Tensor "
    "w_scale, Tensor w_zero_point, Tensor y_scale, Tensor y_zero_point, Tensor? B=None, *, str "
    "auto_pad=\"NOTSET\", int channels_last=0, int[]? dilations=None, int group=1, int[]? "
    "kernel_shape=None, int[]? pads=None, int[]? strides=None) -> Tensor",
    ONNX(QLinearConv, 1)};

/* ---- products -------------------------------------------------------------------------------- */

CFX_FAMILY(LINEAR);

/* A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point, alpha, transA,
 * transB: C are integers of both scales; without y_scale the result stays in floats. */
ONNX_OP(QGemm) {
    double alpha = arg_float(c, 9);
    bool turned = arg_bool(c, 11);
    cfx_tensor *a = floats(c, 0, 1), *b = floats(c, 3, turned ? 0 : 1);
    if (!cfx_ok())
        return;
    b = turned ? b : cfx_t(b);
    cfx_tensor *y = cfx_linear(arg_bool(c, 10) ? cfx_t(a) : a, b);
    if (T(6))
        y = cfx_add(y, cfx_mul(onnx_to(T(6), CFX_F32), cfx_mul(T(1), T(4))));
    y = alpha == 1 ? y : cfx_mul(y, alpha);
    if (T(7))
        give(c, y, 7, T(0));
    else
        OUT(0) = y;
}

/* Integers less their zero point, times their scale, of the last dimension. */
static cfx_tensor *scaled(cfx_tensor *x, cfx_tensor *scale, cfx_tensor *zero) {
    x = onnx_to(x, CFX_F32);
    x = zero ? cfx_sub(x, onnx_to(zero, CFX_F32)) : x;
    return cfx_mul(x, scale);
}

static cfx_tensor *with_bias(cfx_tensor *y, cfx_tensor *bias) {
    return bias ? cfx_add(y, bias) : y;
}

ONNX_OP(MatMulIntegerToFloat) { /* A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias */
    cfx_tensor *a = scaled(T(0), T(2), T(4)), *b = scaled(T(1), T(3), T(5));
    OUT(0) = with_bias(cfx_matmul(a, b), T(6));
}

/* A, B, b_scale, b_zero_point, bias: A is rounded by its own range. */
ONNX_OP(DynamicQuantizeMatMul) {
    cfx_value q = cfx_op_do_from(c->at, &cfx_op_onnx_DynamicQuantizeLinear, CFX_ARGS(T(0)));
    if (cfx_is_bad(q))
        return;
    cfx_tensor *a = scaled(cfx_tensor_at(q, 0), cfx_tensor_at(q, 1), cfx_tensor_at(q, 2));
    OUT(0) = with_bias(cfx_matmul(a, scaled(T(1), T(2), T(3))), T(4));
}

CFX_OP(onnx_microsoft_QGemm) = {
    "onnx_microsoft::QGemm(Tensor A, Tensor a_scale, Tensor a_zero_point, Tensor B, Tensor "
    "b_scale, Tensor b_zero_point, Tensor? C=None, Tensor? y_scale=None, Tensor? "
    "y_zero_point=None, *, float alpha=1., int transA=0, int transB=0) -> Tensor",
    ONNX(QGemm, 1)};
CFX_OP(onnx_microsoft_MatMulIntegerToFloat) = {
    "onnx_microsoft::MatMulIntegerToFloat(Tensor A, Tensor B, Tensor a_scale, Tensor b_scale, "
    "Tensor? a_zero_point=None, Tensor? b_zero_point=None, Tensor? bias=None) -> Tensor",
    ONNX(MatMulIntegerToFloat, 1)};
CFX_OP(onnx_microsoft_DynamicQuantizeMatMul) = {
    "onnx_microsoft::DynamicQuantizeMatMul(Tensor A, Tensor B, Tensor b_scale, Tensor? "
    "b_zero_point=None, Tensor? bias=None) -> Tensor",
    ONNX(DynamicQuantizeMatMul, 1)};

/* ---- weights of few bits --------------------------------------------------------------------- */

/* Numbers of so many bits in bytes, the first in the lowest: the last dimension grows. */
static cfx_tensor *unpacked(cfx_tensor *x, int64_t bits) {
    if (bits == 8)
        return x;
    cfx_value parts = cfx_list_value(0, NULL);
    x = onnx_to(x, CFX_I32);
    for (int64_t at = 0; at < 8; at += bits)
        cfx_list_append(cfx_as_list(parts),
                        cfx_tensor_value(cfx_bitwise_and(cfx_bitwise_right_shift(x, at),
                                                         (1 << bits) - 1)));
    return cfx_flatten(cfx_stack(parts, -1), -2);
}

/* A, B, scales, zero_points, g_idx, bias, K, N, accuracy_level, bits, block_size: B is
 * [N, blocks, bytes of a block], numbers of which have 2^(bits - 1) as zero where none is given. */
ONNX_OP(MatMulNBits) {
    int64_t k = arg_int(c, 6), n = arg_int(c, 7), bits = arg_int(c, 9), block = arg_int(c, 10);
    if ((bits != 2 && bits != 4 && bits != 8) || k < 1 || n < 1 || block < 1 ||
        block > INT32_MAX || k > INT32_MAX || n > INT32_MAX) {
        op_fail(c, "MatMulNBits: %lld by %lld numbers of %lld bits in blocks of %lld",
                (long long)n, (long long)k, (long long)bits, (long long)block);
        return;
    }
    if (T(4) || arg_int(c, 11)) {
        op_fail_as(NOT_IMPLEMENTED, c, "MatMulNBits: %s not known here",
                   T(4) ? "an order of groups (g_idx) is" : "weights packed for a machine are");
        return;
    }
    int64_t blocks = (k + block - 1) / block;
    cfx_dtype d = (cfx_dtype)T(0)->dtype;
    cfx_tensor *w = onnx_to(unpacked(cfx_reshape(T(1), cfx_list(n, blocks, -1)), bits), d);
    cfx_tensor *zero = T(3), *scale = cfx_reshape(T(2), cfx_list(n, blocks, 1));
    if (zero && zero->dtype == CFX_U8)
        zero = cfx_slice(unpacked(cfx_reshape(zero, cfx_list(n, -1)), bits), 1, 0, blocks);
    w = zero ? cfx_sub(w, onnx_to(cfx_reshape(zero, cfx_list(n, blocks, 1)), d))
             : cfx_sub(w, 1 << (bits - 1));
    w = cfx_slice(cfx_flatten(cfx_mul(w, onnx_to(scale, d)), 1), 1, 0, k);
    OUT(0) = cfx_linear(T(0), w, T(5));
}

CFX_OP(onnx_microsoft_MatMulNBits) = {
    "onnx_microsoft::MatMulNBits(Tensor A, Tensor B, Tensor scales, Tensor? zero_points=None, "
    "Tensor? g_idx=None, Tensor? bias=None, *, int K, int N, int accuracy_level=0, int bits=4, "
    "int block_size, int weight_prepacked=0) -> Tensor",
    ONNX(MatMulNBits, 1)};

CFX_FAMILY(INDEX);

/* Slices of argument i by the places of argument 1. */
static cfx_tensor *gathered(cfx_op_call *c, int i, int axis) {
    return onnx_tensor_of(cfx_op_do_from(c->at, &cfx_op_onnx_Gather,
                                         CFX_ARGS(T(i), T(1), CFX_KW(axis, (int64_t)axis))));
}

/* data, indices, scales, zero_points, bits, block_size, data_type, gather_axis, quantize_axis:
 * bytes hold numbers of so many bits along the last dimension, unless the file says that numbers
 * themselves have 4 bits: `data_type`, which is no attribute of files. */
ONNX_OP(GatherBlockQuantized) {
    int64_t bits = arg_int(c, 4), block = arg_int(c, 5);
    bool packed = T(0)->dtype == CFX_U8 && arg_is_none(c, 6);
    int by = onnx_axis(c, arg_int(c, 7), T(0)->ndim);
    int along = by < 0 ? -1 : onnx_axis(c, arg_int(c, 8), T(0)->ndim);
    if (along < 0)
        return;
    if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || by == along ||
        cfx__dtype_is_float8((cfx_dtype)T(0)->dtype) ||
        (packed && bits < 8 && along != T(0)->ndim - 1)) {
        op_fail_as(NOT_IMPLEMENTED, c,
                   "GatherBlockQuantized: numbers of %lld bits in blocks of %lld along axis %d, "
                   "taken along axis %d, are not known here", (long long)bits, (long long)block,
                   along, by);
        return;
    }
    cfx_tensor *x = gathered(c, 0, by), *scale = gathered(c, 2, by);
    cfx_tensor *zero = T(3) ? gathered(c, 3, by) : NULL;
    if (!cfx_ok())
        return;
    int at = along > by ? along + T(1)->ndim - 1 : along;
    cfx_dtype d = (cfx_dtype)scale->dtype;
    x = packed ? unpacked(x, bits) : x;
    zero = zero && packed ? cfx_slice(unpacked(zero, bits), at, 0, onnx_size(scale, at)) : zero;
    x = onnx_to(x, d);
    if (zero)
        zero = cfx_slice(cfx_repeat_interleave(onnx_to(zero, d), block, at), at, 0,
                         onnx_size(x, at));
    x = zero ? cfx_sub(x, zero) : packed ? cfx_sub(x, (int64_t)1 << (bits - 1)) : x;
    OUT(0) = cfx_mul(x, cfx_slice(cfx_repeat_interleave(scale, block, at), at, 0,
                                  onnx_size(x, at)));
}

CFX_OP(onnx_microsoft_GatherBlockQuantized) = {
    "onnx_microsoft::GatherBlockQuantized(Tensor data, Tensor indices, Tensor scales, Tensor? "
    "zero_points=None, *, int bits=4, int block_size=128, str? data_type=None, int gather_axis=0, "
    "int quantize_axis=1) -> Tensor",
    ONNX(GatherBlockQuantized, 1)};
