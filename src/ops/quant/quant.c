/* Quantized numbers: q = clamp(round(x / scale) + zero_point, min, max), and back
 * x = (q - zero_point) scale; with one scale for a tensor, a channel, a token (a row) or a group of
 * a row. */
#include <cfx/ops.h>

#include "../loop.h"
#include "../ops.h"
#include "quant.h"

#include <math.h>

CFX_FAMILY(MATH);

/* ---- what fits ------------------------------------------------------------------------------- */

static bool range_of(cfx_dtype d, int64_t *low, int64_t *high) {
    switch (d) {
    case CFX_U8:
        *low = 0, *high = UINT8_MAX;
        return true;
    case CFX_I8:
        *low = INT8_MIN, *high = INT8_MAX;
        return true;
    case CFX_I16:
        *low = INT16_MIN, *high = INT16_MAX;
        return true;
    case CFX_I32:
        *low = INT32_MIN, *high = INT32_MAX;
        return true;
    default:
        return false;
    }
}

/* Arguments first and first + 1 are the range, first + 2 is the dtype it must lie in. */
static bool range_fits(cfx_op_call *c, int first) {
    cfx_dtype d = arg_dtype(c, first + 2, CFX_F32);
    int64_t low, high;
    if (!range_of(d, &low, &high))
        op_fail_as(VALUE, c, "Unsupported dtype: torch.%s", cfx_dtype_name(d));
    else if (arg_tensor(c, first))
        return true; /* numbers that only the kernel knows */
    else if (arg_int(c, first) < low)
        op_fail_as(ASSERTION, c,
                   "quant_min out of bound for dtype, quant_min_lower_bound: %lld quant_min: %lld",
                   (long long)low, (long long)arg_int(c, first));
    else if (arg_int(c, first + 1) > high)
        op_fail_as(ASSERTION, c,
                   "quant_max out of bound for dtype, quant_max_upper_bound: %lld quant_max: %lld",
                   (long long)high, (long long)arg_int(c, first + 1));
    return !op_failed();
}

/* The input of a quantization in float32. */
static cfx_tensor *float_input(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (cfx__dtype_is_half(x->dtype))
        return cfx_to(x, cfx_f32);
    if (x->dtype != CFX_F32)
        op_fail_as(ASSERTION, c,
                   "Expecting input to have dtype torch.float32, but got dtype: torch.%s",
                   cfx_dtype_name(x->dtype));
    return x;
}

static bool has_dtype(cfx_op_call *c, int i) {
    cfx_dtype want = arg_dtype(c, i, CFX_F32), have = arg_tensor(c, 0)->dtype;
    if (want != have)
        op_fail_as(ASSERTION, c, "Expecting input to have dtype: torch.%s, but got torch.%s",
                   cfx_dtype_name(want), cfx_dtype_name(have));
    return want == have;
}

/* A parameter of the whole tensor, a number or a tensor of one, as a number of dtype d. */
static cfx_value one_number(cfx_op_call *c, int i, const char *name, cfx_dtype d) {
    cfx_tensor *t = arg_tensor(c, i);
    if (!t)
        return c->args[i];
    if (t->numel != 1)
        op_fail_as(ASSERTION, c, "Expecting %s tensor to be one element, but received : %lld", name,
                   (long long)t->numel);
    return cfx_tensor_value(cfx_to(cfx_reshape(t, cfx_list_value(0, NULL)), cfx_dtype_value(d)));
}

/* round(x / scale) + zero_point within the range, in the dtype that argument `first + 2` names. */
static void give_quantized(cfx_op_call *c, cfx_tensor *scaled, cfx_value zero_point, int first) {
    cfx_tensor *q = cfx_add(cfx_round(scaled), zero_point);
    c->out[0] = cfx_to(cfx_clamp(q, c->args[first], c->args[first + 1]), c->args[first + 2]);
}

/* ---- a tensor -------------------------------------------------------------------------------- */

/* input, scale, zero_point, quant_min, quant_max, dtype */
static void quantize_tensor(cfx_op_call *c) {
    cfx_tensor *x = float_input(c);
    cfx_value scale = one_number(c, 1, "scale", CFX_F64);
    cfx_value zero_point = one_number(c, 2, "zero_point", CFX_F32);
    if (op_failed() || !range_fits(c, 3))
        return;
    cfx_value inverse = scale.tag == CFX_TAG_TENSOR
                            ? cfx_tensor_value(cfx_to(cfx_reciprocal(scale), cfx_f32))
                            : cfx_float(1 / cfx_number(scale));
    give_quantized(c, cfx_mul(x, inverse), zero_point, 3);
}

/* input, scale, zero_point, quant_min, quant_max, dtype, out_dtype */
static void dequantize_tensor(cfx_op_call *c) {
    int64_t low, high;
    if (!has_dtype(c, 5))
        return;
    if (!range_of(arg_dtype(c, 5, CFX_F32), &low, &high)) {
        op_fail_as(VALUE, c, "Unsupported dtype in dequantize_per_tensor: torch.%s",
                   cfx_dtype_name(arg_dtype(c, 5, CFX_F32)));
        return;
    }
    cfx_dtype d = arg_dtype(c, 6, CFX_F32);
    cfx_value scale = one_number(c, 1, "scale", d);
    cfx_value zero_point = one_number(c, 2, "zero_point", d);
    cfx_tensor *x = cfx_to(arg_tensor(c, 0), cfx_dtype_value(d));
    c->out[0] = cfx_mul(cfx_sub(x, zero_point), scale);
}

/* ---- a tensor, by numbers ------------------------------------------------------------------- */

typedef struct {
    float scale, zero, low, high;
} scaling;

CFX__SIMD static void quantize_block(void *const *p, int64_t n, const void *params) {
    const scaling *s = params;
    const float *x = p[1];
    float *out = p[0];
    for (int64_t i = 0; i < n; i++) {
        float v = rintf(x[i] * s->scale) + s->zero;
        v = v < s->low ? s->low : v;
        out[i] = v > s->high ? s->high : v;
    }
}

CFX__SIMD static void dequantize_block(void *const *p, int64_t n, const void *params) {
    const scaling *s = params;
    const float *x = p[1];
    float *out = p[0];
    for (int64_t i = 0; i < n; i++)
        out[i] = (x[i] - s->zero) * s->scale;
}

static void run_block(cfx_op_call *c, cfx__iter_loop *loop, const scaling *s) {
    enum { COST = 2 };
    if (c->note) {
        loop_note(c->note, CFX__LOOP_EACH, loop, CFX_F32, COST, s, sizeof *s);
        const double numbers[] = {s->scale, s->zero, s->low, s->high};
        c->note->says.expr = loop == dequantize_block ? "(x - p1) * p0"
                                                      : "BOUNDED(rint(x * p0) + p1, p2, p3)";
        memcpy(c->note->says.f, numbers, sizeof numbers);
        loop_operand(c->note, arg_tensor(c, 0), CFX_F32);
        return;
    }
    const cfx__iter_operand o[] = {{c->out[0], CFX_F32}, {arg_tensor(c, 0), CFX_F32}};
    cfx__iter_pointwise(loop, 1, 1, o, s, COST);
}

/* input, scale, zero_point, quant_min, quant_max, dtype */
static void shape_quantize(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (!cfx__dtype_is_half(x->dtype) && x->dtype != CFX_F32)
        float_input(c);
    else if (range_fits(c, 3))
        out_like(c, 0, arg_dtype(c, 5, CFX_F32), x);
}

static void kernel_quantize(cfx_op_call *c) {
    const scaling s = {(float)(1 / arg_float(c, 1)), (float)arg_int(c, 2), (float)arg_int(c, 3),
                       (float)arg_int(c, 4)};
    run_block(c, quantize_block, &s);
}

/* input, scale, zero_point, quant_min, quant_max, dtype, out_dtype */
static void shape_dequantize(cfx_op_call *c) {
    int64_t low, high;
    if (!has_dtype(c, 5))
        return;
    if (range_of(arg_dtype(c, 5, CFX_F32), &low, &high))
        out_like(c, 0, arg_dtype(c, 6, CFX_F32), arg_tensor(c, 0));
    else
        op_fail_as(VALUE, c, "Unsupported dtype in dequantize_per_tensor: torch.%s",
                   cfx_dtype_name(arg_dtype(c, 5, CFX_F32)));
}

static void kernel_dequantize(cfx_op_call *c) {
    const scaling s = {.scale = (float)arg_float(c, 1), .zero = (float)arg_int(c, 2)};
    run_block(c, dequantize_block, &s);
}

/* ---- channels -------------------------------------------------------------------------------- */

/* Argument i, one number for each channel, so that it goes along the axis (argument 3). */
static cfx_tensor *along_axis(cfx_op_call *c, int i) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int64_t axis = arg_int(c, 3), shape[CFX_MAX_DIMS];
    if (axis < 0 || axis >= x->ndim) {
        op_fail_as(ASSERTION, c, "Expecting axis to be < %d", x->ndim);
        return &cfx__tensor_bad;
    }
    for (int k = 0; k < x->ndim; k++)
        shape[k] = k == axis ? arg_tensor(c, i)->numel : 1;
    return cfx_view(arg_tensor(c, i), cfx_ints_value(x->ndim, shape));
}

/* input, scales, zero_points, axis, quant_min, quant_max, dtype */
static void quantize_channel(cfx_op_call *c) {
    cfx_tensor *x = float_input(c);
    if (op_failed() || !range_fits(c, 4))
        return;
    cfx_tensor *scaled = cfx_mul(x, cfx_reciprocal(along_axis(c, 1)));
    give_quantized(c, scaled, cfx_tensor_value(along_axis(c, 2)), 4);
}

CFX__SIMD static void dequantize_run(const int8_t *x, int64_t n, float zero, float scale,
                                     float *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = ((float)x[i] - zero) * scale;
}

/* Whether a tensor has one number of dtype d for each of n channels. */
static bool counts(const cfx_tensor *t, cfx_dtype d, int64_t n) {
    return t->dtype == d && t->ndim == 1 && t->numel == n && cfx__tensor_is_contiguous(t);
}

/* Weights as they are stored, channels first, by float32 scales: in one go, where the operators
 * below would make integers of 64 bits of them. False where it is anything else. */
static bool dequantize_weight(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *scales = arg_tensor(c, 1), *zeros = arg_tensor(c, 2);
    if (!x->data || x->dtype != CFX_I8 || !x->ndim || arg_int(c, 3) != 0 ||
        !cfx__tensor_is_contiguous(x) || !counts(scales, CFX_F32, x->shape[0]) ||
        (zeros && !counts(zeros, CFX_I64, x->shape[0])) || arg_dtype(c, 7, CFX_F32) != CFX_F32)
        return false;
    const int64_t channels = x->shape[0], n = channels ? x->numel / channels : 0;
    const int64_t *zero = zeros ? (const int64_t *)zeros->data : NULL, exact = 1 << 23;
    for (int64_t k = 0; zero && k < channels; k++)
        if (zero[k] < -exact || zero[k] > exact)
            return false;
    float *to = (float *)out_new(c, 0, CFX_F32, x->ndim, x->shape)->data;
    const int8_t *from = (const int8_t *)x->data;
    for (int64_t k = 0; to && k < channels; k++)
        dequantize_run(from + k * n, n, zero ? (float)zero[k] : 0,
                       ((const float *)scales->data)[k], to + k * n);
    return true;
}

/* input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype */
static void dequantize_channel(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (!has_dtype(c, 6) || !range_fits(c, 4) || dequantize_weight(c))
        return;
    if (arg_tensor(c, 2))
        x = cfx_sub(x, along_axis(c, 2));
    c->out[0] = cfx_to(cfx_mul(x, along_axis(c, 1)), cfx_dtype_value(arg_dtype(c, 7, CFX_F32)));
}

/* input, scales, zero_points, axis, quant_min, quant_max */
static void fake_quantize_channel(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *scales = cfx_to(along_axis(c, 1), cfx_f32);
    cfx_tensor *points = cfx_to(along_axis(c, 2), cfx_i32);
    float_input(c);
    if (op_failed())
        return;
    cfx_tensor *q = cfx_add(cfx_round(cfx_mul(x, cfx_reciprocal(scales))), points);
    c->out[0] = cfx_mul(cfx_sub(cfx_clamp(q, c->args[4], c->args[5]), points), scales);
}

/* ---- tokens and groups ----------------------------------------------------------------------- */

/* input, scales, zero_points, quant_min, quant_max, dtype: the zero point is added, then rounded */
static cfx_tensor *quantized_rows(cfx_op_call *c, cfx_tensor *x, cfx_tensor *scales,
                                  cfx_tensor *points) {
    cfx_tensor *q = cfx_round(cfx_add(cfx_mul(x, cfx_reciprocal(scales)), points));
    return cfx_to(cfx_clamp(q, c->args[3], c->args[4]), c->args[5]);
}

static void quantize_token(cfx_op_call *c) {
    if (range_fits(c, 3))
        c->out[0] = quantized_rows(c, arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2));
}

/* input, scales, zero_points, quant_min, quant_max, dtype, output_dtype */
static void dequantize_token(cfx_op_call *c) {
    cfx_tensor *x = cfx_mul(cfx_sub(arg_tensor(c, 0), arg_tensor(c, 2)), arg_tensor(c, 1));
    c->out[0] = cfx_to(x, c->args[6]);
}

/* Rows of one group each; the size of a group is argument 6. */
static cfx_tensor *grouped(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *scales = arg_tensor(c, 1);
    int64_t size = arg_int(c, 6), last = x->ndim ? x->shape[x->ndim - 1] : 0;
    if (size > last && scales->ndim && scales->shape[scales->ndim - 1] == 1)
        size = last;
    if (arg_int(c, 6) <= 1)
        op_fail_as(ASSERTION, c, "group_size must be > 1");
    else if (!size || last % size)
        op_fail_as(ASSERTION, c, "input.shape[-1] must be divisible by group_size");
    else if (x->ndim != 2)
        op_fail_as(ASSERTION, c, "input must be 2-dimensional");
    return op_failed() ? &cfx__tensor_bad : cfx_reshape(x, cfx_list(-1, size));
}

static cfx_tensor *column(cfx_tensor *t) { return cfx_reshape(t, cfx_list(-1, 1)); }

static cfx_value shape_of_input(const cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    return cfx_ints_value(x->ndim, x->shape);
}

/* input, scales, zero_points, quant_min, quant_max, dtype, group_size */
static void quantize_group(cfx_op_call *c) {
    cfx_tensor *x = grouped(c);
    if (op_failed() || !range_fits(c, 3))
        return;
    cfx_tensor *q = quantized_rows(c, x, column(arg_tensor(c, 1)), column(arg_tensor(c, 2)));
    c->out[0] = cfx_reshape(q, shape_of_input(c));
}

/* input, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype */
static void dequantize_group(cfx_op_call *c) {
    cfx_tensor *x = grouped(c);
    if (op_failed())
        return;
    if (arg_tensor(c, 2))
        x = cfx_sub(x, column(arg_tensor(c, 2)));
    x = cfx_reshape(cfx_mul(x, column(arg_tensor(c, 1))), shape_of_input(c));
    c->out[0] = cfx_to(x, c->args[7]);
}

static void convert(cfx_op_call *c) { c->out[0] = cfx_to(arg_tensor(c, 0), c->args[1]); }

/* ---- rows ------------------------------------------------------------------------------------ */

CFX_OP(quantized_decomposed_quantize_per_tensor) = {
    "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int "
    "quant_min, int quant_max, ScalarType dtype) -> Tensor",
    NULL, .shape = shape_quantize, .kernel = kernel_quantize, .takes = takes_rounded,
    .make = make_rounded, .effects = CFX_LOOPS};
CFX_OP(quantized_decomposed_quantize_per_tensor_tensor) = {
    "quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor "
    "zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
    NULL, .decompose = quantize_tensor};
CFX_OP(quantized_decomposed_quantize_per_tensor_tensor2) = {
    "quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor "
    "zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor",
    NULL, .decompose = quantize_tensor};
CFX_OP(quantized_decomposed_dequantize_per_tensor) = {
    "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int "
    "quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
    NULL, .shape = shape_dequantize, .kernel = kernel_dequantize, .effects = CFX_LOOPS};
CFX_OP(quantized_decomposed_dequantize_per_tensor_tensor) = {
    "quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor "
    "zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) "
    "-> Tensor",
    NULL, .decompose = dequantize_tensor};
CFX_OP(quantized_decomposed_dequantize_per_tensor_tensor2) = {
    "quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor "
    "zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype, *, ScalarType? "
    "out_dtype=None) -> Tensor",
    NULL, .decompose = dequantize_tensor};
CFX_OP(quantized_decomposed_quantize_per_channel) = {
    "quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, "
    "int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
    NULL, .decompose = quantize_channel};
CFX_OP(quantized_decomposed_dequantize_per_channel) = {
    "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? "
    "zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? "
    "out_dtype=None) -> Tensor",
    NULL, .decompose = dequantize_channel};
CFX_OP(quantized_decomposed_fake_quant_per_channel) = {
    "quantized_decomposed::fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, "
    "int axis, int quant_min, int quant_max) -> Tensor",
    NULL, .decompose = fake_quantize_channel};
CFX_OP(quantized_decomposed_quantize_per_token) = {
    "quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int "
    "quant_min, int quant_max, ScalarType dtype) -> Tensor",
    NULL, .decompose = quantize_token};
CFX_OP(quantized_decomposed_dequantize_per_token) = {
    "quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
    "int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor",
    NULL, .decompose = dequantize_token};
CFX_OP(quantized_decomposed_quantize_per_channel_group) = {
    "quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor "
    "zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor",
    NULL, .decompose = quantize_group};
CFX_OP(quantized_decomposed_dequantize_per_channel_group) = {
    "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? "
    "zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType "
    "output_dtype) -> Tensor",
    NULL, .decompose = dequantize_group};
CFX_OP(quantized_decomposed_convert_element_type_no_fuse) = {
    "quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor",
    NULL, .decompose = convert, .effects = CFX_SHARES};
