/* quantized::linear and convolutions: products of integers, exact, brought to the scale of the
 * result as FBGEMM does. A packed weight is a tuple: (weight, bias), and of convolutions (weight,
 * bias, stride, padding, output_padding, dilation, groups). */
#include <cfx/ops.h>

#include "quant.h"

CFX_FAMILY(LINEAR);

enum { W, B, STRIDE, PADDING, OUTPUT_PADDING, DILATION, GROUPS, PARTS };

/* ---- packing --------------------------------------------------------------------------------- */

static void pack(cfx_op_call *c, int n, const cfx_value *parts) {
    const cfx_tensor *w = arg_tensor(c, 0);
    if (!w->quantizer)
        op_fail(c, "%s takes a quantized weight, got one of torch.%s", cfx_op_name(c->op),
                cfx_dtype_name(w->dtype));
    else
        c->result = cfx_tuple_value(n, parts);
}

static void linear_pack(cfx_op_call *c) { pack(c, 2, c->args); }

static void half_pack(cfx_op_call *c) {
    c->result = cfx_tuple(cfx_to(arg_tensor(c, 0), cfx_f16), c->args[1]);
}

/* weight, bias, stride, padding, dilation, groups */
static void conv_pack(cfx_op_call *c) {
    cfx_value *a = c->args;
    pack(c, PARTS, (cfx_value[]){a[0], a[1], a[2], a[3], cfx_list(0), a[4], a[5]});
}

/* weight, bias, stride, padding, output_padding, dilation, groups */
static void transposed_pack(cfx_op_call *c) { pack(c, PARTS, c->args); }

/* ---- products -------------------------------------------------------------------------------- */

/* The differences to the zero point as doubles, which hold every sum of theirs exactly. */
static cfx_tensor *steps(const cfx_tensor *t) {
    cfx_tensor *ints = cfx_to(cfx__quantized_ints(t), cfx_f64);
    const cfx__quantizer *q = t->quantizer;
    if (!q->scales)
        return cfx_sub(ints, q->zero_point);
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++)
        shape[d] = d == q->axis ? -1 : 1;
    return cfx_sub(ints, cfx_reshape(q->zero_points, cfx_ints_value(t->ndim, shape)));
}

/* What a row computes. */
typedef struct product {
    int dims;        /* of the space; 0: linear */
    bool transposed; /* a convolution the other way */
    bool relu;
    bool dynamic; /* floats in and out; the scale of the input is found in the call */
} product;

static bool packed_is_good(cfx_op_call *c, const product *row) {
    int64_t n = arg_count(c, 1), want = row->dims ? PARTS : 2;
    const cfx_tensor *w = n == want ? arg_item(c, 1, W) : NULL;
    if (!w || !w->quantizer)
        op_fail(c, "%s: the second argument is not a packed weight of its kind",
                cfx_op_name(c->op));
    return w && w->quantizer;
}

/* The sums of products of the differences to zero points, float32. */
static cfx_tensor *sums(cfx_op_call *c, const product *row, const cfx_tensor *x, cfx_value packed) {
    cfx_tensor *w = steps(cfx_tensor_at(packed, W)), *y, *in = steps(x);
    if (!row->dims)
        y = cfx_linear(in, w);
    else
        y = cfx_convolution(in, w, NULL, cfx_at(packed, STRIDE), cfx_at(packed, PADDING),
                            cfx_at(packed, DILATION), row->transposed,
                            cfx_at(packed, OUTPUT_PADDING), cfx_at(packed, GROUPS));
    (void)c;
    return cfx_to(y, cfx_f32);
}

/* Numbers of the output's channels, so that they go along them. */
static cfx_tensor *along(const product *row, cfx_tensor *t) {
    cfx_value shape = cfx_list(-1);
    for (int i = 0; i < row->dims; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(1));
    return cfx_reshape(t, shape);
}

/* The scale of a sum: that of the input times that of the weight, one for each channel. */
static cfx_tensor *scale_of(const product *row, double x_scale, const cfx_tensor *w) {
    const cfx__quantizer *q = w->quantizer;
    if (q->scales)
        return along(row, cfx_mul(cfx_to(q->scales, cfx_f32), (double)(float)x_scale));
    float s = (float)x_scale * (float)q->scale;
    return cfx_full(cfx_list(1), (double)s, CFX_KW(dtype, cfx_f32));
}

static void decompose_product(cfx_op_call *c) {
    const product *row = c->op->row;
    cfx_tensor *x = arg_tensor(c, 0), *bias;
    if (!packed_is_good(c, row))
        return;
    cfx_value packed = c->args[1];
    const cfx_tensor *w = cfx_tensor_at(packed, W);
    if (row->dynamic)
        x = quant_dynamic(c, cfx_to(x, cfx_f32), CFX_QU8, arg_bool(c, 2));
    else if (!x->quantizer || x->quantizer->scales)
        op_fail(c, "%s takes an input quantized by one scale", cfx_op_name(c->op));
    if (op_failed())
        return;
    bias = arg_item(c, 1, B);
    cfx_tensor *scale = scale_of(row, x->quantizer->scale, w);
    cfx_tensor *y = sums(c, row, x, packed);
    if (row->dynamic) {
        y = cfx_mul(y, scale);
        y = bias ? cfx_add(y, along(row, bias)) : y;
        c->out[0] = row->relu ? cfx_relu(y) : y;
        return;
    }
    double out_scale = arg_float(c, 2);
    if (bias)
        y = cfx_add(y, cfx_div(along(row, bias), scale));
    y = cfx_mul(y, cfx_div(scale, (double)(float)out_scale)); /* in steps of the result */
    y = cfx_mul(row->relu ? cfx_relu(y) : y, (double)(float)out_scale);
    if (!op_failed())
        c->out[0] =
            cfx__quantized_from(c->at, y, x->dtype, cfx__quantizer_new(out_scale, arg_int(c, 3)));
}

/* Weights of float16: the product itself is of float32. */
static void decompose_half(cfx_op_call *c) {
    const cfx_tensor *w = arg_count(c, 1) == 2 ? arg_item(c, 1, W) : NULL;
    if (!w || w->dtype != CFX_F16) {
        op_fail(c, "%s: the second argument is not a packed weight of float16", cfx_op_name(c->op));
        return;
    }
    cfx_tensor *y = cfx_linear(c->args[0], cfx_to(w, cfx_f32), arg_item(c, 1, B));
    c->out[0] = ((const product *)c->op->row)->relu ? cfx_relu(y) : y;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define PRODUCT(...)                                                                               \
    .decompose = decompose_product, .quantized = CFX_QUANTIZED_OWN, NO_GRAD,                       \
    .row = &(const product) {                                                                      \
        __VA_ARGS__                                                                                \
    }
#define HALF(...)                                                                                  \
    .decompose = decompose_half, NO_GRAD, .row = &(const product) { __VA_ARGS__ }
#define PACK(fn)                                                                                   \
    .decompose = fn, .quantized = CFX_QUANTIZED_OWN, .effects = CFX_SHARES, NO_GRAD

CFX_OP(quantized_linear_prepack) = {"quantized::linear_prepack(Tensor W, Tensor? B=None) -> Any",
                                    "torch.ops.quantized.linear_prepack", PACK(linear_pack)};
CFX_OP(quantized_linear) = {
    "quantized::linear(Tensor qx, Any packed_weight, float output_scale, int output_zero_point) "
    "-> Tensor",
    "torch.ops.quantized.linear", PRODUCT(.dims = 0)};
CFX_OP(quantized_linear_relu) = {
    "quantized::linear_relu(Tensor qx, Any packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.linear_relu", PRODUCT(.dims = 0, .relu = true)};
CFX_OP(quantized_linear_dynamic) = {
    "quantized::linear_dynamic(Tensor X, Any packed_weight, bool reduce_range=False) -> Tensor",
    "torch.ops.quantized.linear_dynamic", PRODUCT(.dims = 0, .dynamic = true)};
CFX_OP(quantized_linear_relu_dynamic) = {
    "quantized::linear_relu_dynamic(Tensor X, Any packed_weight, bool reduce_range=False) -> "
    "Tensor",
    "torch.ops.quantized.linear_relu_dynamic", PRODUCT(.dims = 0, .dynamic = true, .relu = true)};
CFX_OP(quantized_linear_prepack_fp16) = {
    "quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> Any",
    "torch.ops.quantized.linear_prepack_fp16", PACK(half_pack)};
CFX_OP(quantized_linear_dynamic_fp16) = {
    "quantized::linear_dynamic_fp16(Tensor X, Any packed_weight) -> Tensor",
    "torch.ops.quantized.linear_dynamic_fp16", HALF(.dims = 0)};
CFX_OP(quantized_linear_relu_dynamic_fp16) = {
    "quantized::linear_relu_dynamic_fp16(Tensor X, Any packed_weight) -> Tensor",
    "torch.ops.quantized.linear_relu_dynamic_fp16", HALF(.relu = true)};

CFX_FAMILY(CONV);
CFX_OP(quantized_conv1d_prepack) = {
    "quantized::conv1d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
    "dilation, int groups) -> Any",
    "torch.ops.quantized.conv1d_prepack", PACK(conv_pack)};
CFX_OP(quantized_conv2d_prepack) = {
    "quantized::conv2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
    "dilation, int groups) -> Any",
    "torch.ops.quantized.conv2d_prepack", PACK(conv_pack)};
CFX_OP(quantized_conv3d_prepack) = {
    "quantized::conv3d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
    "dilation, int groups) -> Any",
    "torch.ops.quantized.conv3d_prepack", PACK(conv_pack)};
CFX_OP(quantized_conv_transpose1d_prepack) = {
    "quantized::conv_transpose1d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] "
    "padding, int[] output_padding, int[] dilation, int groups) -> Any",
    "torch.ops.quantized.conv_transpose1d_prepack", PACK(transposed_pack)};
CFX_OP(quantized_conv_transpose2d_prepack) = {
    "quantized::conv_transpose2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] "
    "padding, int[] output_padding, int[] dilation, int groups) -> Any",
    "torch.ops.quantized.conv_transpose2d_prepack", PACK(transposed_pack)};
CFX_OP(quantized_conv_transpose3d_prepack) = {
    "quantized::conv_transpose3d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] "
    "padding, int[] output_padding, int[] dilation, int groups) -> Any",
    "torch.ops.quantized.conv_transpose3d_prepack", PACK(transposed_pack)};
CFX_OP(quantized_conv1d) = {
    "quantized::conv1d(Tensor qx, Any packed_weight, float output_scale, int output_zero_point) "
    "-> Tensor",
    "torch.ops.quantized.conv1d", PRODUCT(.dims = 1)};
CFX_OP(quantized_conv2d) = {
    "quantized::conv2d(Tensor qx, Any packed_weight, float output_scale, int output_zero_point) "
    "-> Tensor",
    "torch.ops.quantized.conv2d", PRODUCT(.dims = 2)};
CFX_OP(quantized_conv3d) = {
    "quantized::conv3d(Tensor qx, Any packed_weight, float output_scale, int output_zero_point) "
    "-> Tensor",
    "torch.ops.quantized.conv3d", PRODUCT(.dims = 3)};
CFX_OP(quantized_conv1d_relu) = {
    "quantized::conv1d_relu(Tensor qx, Any packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.conv1d_relu", PRODUCT(.dims = 1, .relu = true)};
CFX_OP(quantized_conv2d_relu) = {
    "quantized::conv2d_relu(Tensor qx, Any packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.conv2d_relu", PRODUCT(.dims = 2, .relu = true)};
CFX_OP(quantized_conv3d_relu) = {
    "quantized::conv3d_relu(Tensor qx, Any packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.conv3d_relu", PRODUCT(.dims = 3, .relu = true)};
CFX_OP(quantized_conv_transpose1d) = {
    "quantized::conv_transpose1d(Tensor qx, Any packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.conv_transpose1d", PRODUCT(.dims = 1, .transposed = true)};
CFX_OP(quantized_conv_transpose2d) = {
    "quantized::conv_transpose2d(Tensor qx, Any packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.conv_transpose2d", PRODUCT(.dims = 2, .transposed = true)};
CFX_OP(quantized_conv_transpose3d) = {
    "quantized::conv_transpose3d(Tensor qx, Any packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.conv_transpose3d", PRODUCT(.dims = 3, .transposed = true)};
