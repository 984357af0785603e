/* Fake quantization: floats rounded to what quantized numbers can say, for training. The gradient
 * goes straight through where a number is within the range; learnable scales and zero points get
 * one of their own. */
#include <cfx/ops.h>

#include "../back.h"
#include "quant.h"

CFX_FAMILY(MATH);

/* A call, forward or back: where its parameters are. */
typedef struct fake {
    cfx_tensor *x;
    cfx_value scale, zero; /* numbers, or tensors that go along the channels */
    cfx_value low, high;
    bool between; /* zero points may lie between integers, and are added before rounding */
} fake;

/* t, one number for each channel, so that it goes along the axis of x. */
static cfx_value along(const cfx_tensor *x, cfx_tensor *t, int64_t axis) {
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == axis ? -1 : 1;
    return cfx_tensor_value(cfx_reshape(t, cfx_ints_value(x->ndim, shape)));
}

static cfx_value as_number(cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR)
        return v;
    return cfx_tensor_value(cfx_reshape(cfx_as_tensor(v), cfx_list()));
}

/* Arguments self, scale, zero_point, (axis,) quant_min, quant_max. */
static fake read(const cfx_value *args, bool channels) {
    fake f = {.x = cfx_as_tensor(args[0])};
    int range = channels ? 4 : 3;
    f.low = args[range];
    f.high = args[range + 1];
    if (channels) {
        int64_t axis = cfx_integer(args[3]);
        f.scale = along(f.x, cfx_as_tensor(args[1]), axis);
        f.zero = along(f.x, cfx_as_tensor(args[2]), axis);
        f.between = cfx__dtype_is_float(cfx_as_tensor(args[2])->dtype);
    } else {
        f.scale = as_number(args[1]);
        f.zero = as_number(args[2]);
    }
    return f;
}

/* Learnable zero points are floats: rounded, and within the range. */
static void settle_zero(fake *f) {
    f->zero = cfx_tensor_value(cfx_clamp(cfx_round(f->zero), f->low, f->high));
    f->between = false;
}

/* The steps that x is from zero, before they are cut to the range. */
static cfx_tensor *steps(const fake *f) {
    cfx_value inverse = f->scale.tag == CFX_TAG_TENSOR
                            ? cfx_tensor_value(cfx_reciprocal(f->scale))
                            : cfx_float((double)(1.0f / (float)cfx_number(f->scale)));
    cfx_tensor *scaled = cfx_mul(f->x, inverse);
    return f->between ? cfx_round(cfx_add(scaled, f->zero)) : cfx_add(cfx_round(scaled), f->zero);
}

static cfx_tensor *rounded(const fake *f, cfx_tensor *q) {
    return cfx_mul(cfx_sub(cfx_clamp(q, f->low, f->high), f->zero), f->scale);
}

static cfx_tensor *inside(const fake *f, cfx_tensor *q) {
    return cfx_logical_and(cfx_ge(q, f->low), cfx_le(q, f->high));
}

/* Whether zero is a step of the range: one number, or a whole one for each channel, as far as there
 * are numbers to look at. Floats may be anywhere, and so may a tensor of one. */
static bool zero_is_inside(const cfx_op_call *c, bool channels) {
    cfx_tensor *zero = arg_tensor(c, 2);
    int range = channels ? 4 : 3;
    if (zero && (!channels || !zero->data || !cfx__dtype_is_int(zero->dtype)))
        return true;
    for (int64_t i = 0; i < (zero ? zero->numel : 1); i++) {
        int64_t n = zero ? cfx_integer(cfx__tensor_get(zero, i)) : arg_int(c, 2);
        if (n < arg_int(c, range) || n > arg_int(c, range + 1))
            return false;
    }
    return true;
}

static bool good(cfx_op_call *c, bool channels) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int range = channels ? 4 : 3;
    if (!cfx__dtype_is_float(x->dtype))
        op_fail(c, "%s takes floats, got torch.%s", cfx_op_name(c->op), cfx_dtype_name(x->dtype));
    else if (arg_int(c, range) > arg_int(c, range + 1))
        op_fail(c, "`quant_min` should be less than or equal to `quant_max`.");
    else if (channels && (arg_int(c, 3) < 0 || arg_int(c, 3) >= x->ndim))
        op_fail(c, "`axis` must be between 0 and number of dimensions of input");
    else if (channels && (arg_tensor(c, 1)->numel != x->shape[arg_int(c, 3)] ||
                          arg_tensor(c, 2)->numel != x->shape[arg_int(c, 3)]))
        op_fail(c, "dimensions of scale and zero-point are not consistent with input tensor");
    else if (!channels && ((arg_tensor(c, 1) && arg_tensor(c, 1)->numel != 1) ||
                           (arg_tensor(c, 2) && arg_tensor(c, 2)->numel != 1)))
        op_fail(c, "scale and zero_point are of one element");
    else if (!zero_is_inside(c, channels))
        op_fail(c, "`zero_point` must be between `quant_min` and `quant_max`.");
    else
        return true;
    return false;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void run(cfx_op_call *c, bool channels, bool learnable) {
    if (!good(c, channels))
        return;
    fake f = read(c->args, channels);
    if (learnable)
        settle_zero(&f);
    cfx_tensor *q = steps(&f);
    c->out[0] = rounded(&f, q);
    if (c->nout == 2)
        c->out[1] = inside(&f, q);
}

static void decompose_tensor(cfx_op_call *c) { run(c, false, false); }
static void decompose_channels(cfx_op_call *c) { run(c, true, false); }
static void decompose_tensor_learned(cfx_op_call *c) { run(c, false, true); }
static void decompose_channels_learned(cfx_op_call *c) { run(c, true, true); }

/* ---- back ------------------------------------------------------------------------------------ */

static void straight_through(cfx_back *b, bool channels) {
    fake f = read(b->args, channels);
    cfx_tensor *mask = inside(&f, steps(&f));
    back_give(b, 0, cfx_mul(back_gout(b, 0), mask));
}

void grad_fake_quantize(cfx_back *b) { straight_through(b, false); }
void grad_fake_quantize_channels(cfx_back *b) { straight_through(b, true); }

/* The derivative by the scale is the error in steps, and the end of the range outside of it; by the
 * zero point it is -scale outside. */
static void learned(cfx_back *b, bool channels) {
    fake f = read(b->args, channels);
    double factor = back_float(b, channels ? 6 : 5);
    settle_zero(&f);
    cfx_tensor *q = steps(&f), *mask = inside(&f, q), *g = back_gout(b, 0);
    if (b->needs[0])
        back_give(b, 0, cfx_mul(g, mask));
    cfx_tensor *scaled = cfx_mul(g, factor);
    if (b->needs[1]) {
        cfx_tensor *ends = cfx_sub(cfx_clamp(q, f.low, f.high), f.zero);
        cfx_tensor *error = cfx_div(cfx_sub(rounded(&f, q), f.x), f.scale);
        cfx_tensor *by_scale = cfx_mul(cfx_where(mask, error, ends), scaled);
        cfx_tensor *like = cfx_as_tensor(f.scale);
        back_give(b, 1,
                  cfx_reshape(sum_to(by_scale, like->ndim, like->shape), sizes_of(back_arg(b, 1))));
    }
    if (b->needs[2]) {
        cfx_tensor *by_zero = cfx_mul(cfx_mul(cfx_logical_not(mask), cfx_neg(f.scale)), scaled);
        cfx_tensor *like = cfx_as_tensor(f.zero);
        back_give(b, 2,
                  cfx_reshape(sum_to(by_zero, like->ndim, like->shape), sizes_of(back_arg(b, 2))));
    }
}

void grad_fake_quantize_learned(cfx_back *b) { learned(b, false); }
void grad_fake_quantize_channels_learned(cfx_back *b) { learned(b, true); }

/* ---- rows ------------------------------------------------------------------------------------ */

#define ALL_READ READ(0) | READ(1) | READ(2)

CFX_OP(fake_quantize_per_tensor_affine) = {
    "aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int "
    "quant_min, int quant_max) -> Tensor",
    "torch.fake_quantize_per_tensor_affine", .decompose = decompose_tensor,
    GRAD(fake_quantize, READ(0))};
CFX_OP(fake_quantize_per_tensor_affine_tensor_qparams) = {
    "aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor "
    "zero_point, int quant_min, int quant_max) -> Tensor",
    NULL, .decompose = decompose_tensor, GRAD(fake_quantize, ALL_READ)};
CFX_OP(fake_quantize_per_tensor_affine_cachemask) = {
    "aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int "
    "quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    NULL, .decompose = decompose_tensor, GRAD(fake_quantize, READ(0)),
    .out = "aten::fake_quantize_per_tensor_affine_cachemask.out(Tensor self, float scale, int "
    "zero_point, int quant_min, int quant_max, *, Tensor(a!) out0, Tensor(b!) out1) -> "
    "(Tensor(a!), Tensor(b!))"};
CFX_OP(fake_quantize_per_channel_affine) = {
    "aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int "
    "axis, int quant_min, int quant_max) -> Tensor",
    "torch.fake_quantize_per_channel_affine", .decompose = decompose_channels,
    GRAD(fake_quantize_channels, ALL_READ)};
CFX_OP(fake_quantize_per_channel_affine_cachemask) = {
    "aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor "
    "zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    NULL, .decompose = decompose_channels, GRAD(fake_quantize_channels, ALL_READ),
    .out = "aten::fake_quantize_per_channel_affine_cachemask.out(Tensor self, Tensor scale, "
    "Tensor zero_point, int axis, int quant_min, int quant_max, *, Tensor(a!) out0, Tensor(b!) "
    "out1) -> (Tensor(a!), Tensor(b!))"};
CFX_OP(_fake_quantize_learnable_per_tensor_affine) = {
    "aten::_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor "
    "zero_point, int quant_min, int quant_max, float grad_factor=1.) -> Tensor",
    "torch._fake_quantize_learnable_per_tensor_affine", .decompose = decompose_tensor_learned,
    GRAD(fake_quantize_learned, ALL_READ), .out = "out"};
CFX_OP(_fake_quantize_learnable_per_channel_affine) = {
    "aten::_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor "
    "zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.) -> Tensor",
    "torch._fake_quantize_learnable_per_channel_affine", .decompose = decompose_channels_learned,
    GRAD(fake_quantize_channels_learned, ALL_READ), .out = "out"};
