/* Default decompositions of pointwise operators. */
#include "core.h"

#include <cfx/ops.h>

#include <float.h>
#include <math.h>

#define X core_wide(c, 0)
#define Y core_wide(c, 1)

/* An integer operand as a float: of 64 bits beside another of these, whatever its dimensions. */
static cfx_tensor *real_arg(cfx_op_call *c, int i) {
    cfx_tensor *x = core_wide(c, i);
    bool whole = cfx__dtype_is_integral(x->dtype) || x->dtype == CFX_BOOL, wide = false;
    for (int k = 0; k < c->nargs; k++)
        wide |= c->args[k].tag == CFX_TAG_TENSOR && cfx_as_tensor(c->args[k])->dtype == CFX_F64;
    return whole ? core_to(c, x, wide ? CFX_F64 : CFX_F32) : x;
}

/* ---- activations ----------------------------------------------------------------------------- */

static cfx_tensor *relu6_of_three_more(cfx_op_call *c, cfx_tensor *x) {
    cfx_tensor *low = DO(clamp, DO(add_Tensor, x, 3), CFX_KW(min, 0));
    return DO(clamp, low, CFX_KW(max, 6));
}

CORE(hardsigmoid) { c->out[0] = DO(div_Tensor, relu6_of_three_more(c, X), 6); }

CORE(hardswish) {
    cfx_tensor *x = X;
    c->out[0] = DO(div_Tensor, DO(mul_Tensor, x, relu6_of_three_more(c, x)), 6);
}

CORE(silu) {
    cfx_tensor *x = X;
    c->out[0] = DO(mul_Tensor, x, DO(sigmoid, x));
}

static cfx_tensor *softplus(cfx_op_call *c, cfx_tensor *x, cfx_value beta, cfx_value threshold) {
    bool scaled = cfx_number(beta) != 1;
    cfx_tensor *in = scaled ? DO(mul_Tensor, x, beta) : x;
    cfx_tensor *y = DO(log1p, DO(exp, in));
    if (scaled)
        y = DO(div_Tensor, y, beta);
    return DO(where_self, DO(gt_Scalar, in, threshold), x, y);
}

CORE(softplus) { c->out[0] = softplus(c, X, core_real_number(c, 1), core_real_number(c, 2)); }

CORE(mish) {
    cfx_tensor *x = X;
    c->out[0] = DO(mul_Tensor, x, DO(tanh, softplus(c, x, cfx_int(1), cfx_int(20))));
}

CORE(celu) {
    cfx_tensor *x = X;
    bool scaled = arg_float(c, 1) != 1;
    cfx_tensor *y = DO(expm1, scaled ? DO(div_Tensor, x, c->args[1]) : x);
    if (scaled)
        y = DO(mul_Tensor, y, c->args[1]);
    c->out[0] = DO(where_self, DO(gt_Scalar, x, 0), x, y);
}

CORE(glu) {
    cfx_tensor *x = X;
    cfx_value half = DO_ALL(tensor_split_sections, x, 2, c->args[1]);
    c->out[0] = DO(mul_Tensor, cfx_tensor_at(half, 0), DO(sigmoid, cfx_tensor_at(half, 1)));
}

CORE(hardshrink) {
    cfx_tensor *x = X;
    c->out[0] = DO(where_ScalarSelf, DO(le_Scalar, DO(abs, x), core_real_number(c, 1)), 0, x);
}

CORE(softshrink) {
    cfx_value lambda = core_real_number(c, 1);
    cfx_tensor *x = X, *far = DO(gt_Scalar, DO(abs, x), lambda);
    cfx_tensor *moved = DO(sub_Tensor, x, DO(mul_Tensor, DO(sign, x), lambda));
    c->out[0] = DO(where_self, far, moved, DO(mul_Tensor, x, 0));
}

CORE(threshold) {
    cfx_tensor *x = X, *low = DO(le_Scalar, x, core_real_number(c, 1));
    c->out[0] = core_chosen(c, low, core_real_number(c, 2), x);
}

CORE(_prelu_kernel) {
    cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *positive = DO(gt_Scalar, x, 0);
    c->out[0] = DO(where_self, positive, x, DO(mul_Tensor, arg_tensor(c, 1), x));
}

CORE(log_sigmoid_forward) {
    cfx_tensor *x = X;
    cfx_tensor *zero = DO(new_zeros, x, cfx_list_value(0, NULL));
    cfx_tensor *least = DO(minimum, zero, x), *z = DO(exp, DO(neg, DO(abs, x)));
    c->out[1] = core_to(c, z, arg_tensor(c, 0)->dtype);
    c->out[0] = DO(sub_Tensor, least, DO(log1p, z));
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Argument i in the dtype that the first n of them are computed in. */
static cfx_tensor *promoted(cfx_op_call *c, int i, int n) {
    return core_to(c, arg_tensor(c, i), core_wide_dtype(arg_result_type(c, n)));
}

CORE(addcmul) {
    cfx_dtype d = arg_result_type(c, 3);
    cfx_value value = cfx__dtype_is_int(d) ? core_fitting(c->args[3], d) : c->args[3];
    cfx_tensor *x = promoted(c, 0, 3), *y = promoted(c, 1, 3), *z = promoted(c, 2, 3);
    c->out[0] = DO(add_Tensor, x, DO(mul_Tensor, DO(mul_Tensor, y, value), z));
}

CORE(addcdiv) {
    cfx_tensor *x = promoted(c, 0, 3), *y = promoted(c, 1, 3), *z = promoted(c, 2, 3);
    c->out[0] = DO(add_Tensor, x, DO(div_Tensor, DO(mul_Tensor, y, c->args[3]), z));
}

CORE(rsub_Scalar) {
    c->out[0] = DO(sub_Tensor, c->args[1], arg_tensor(c, 0), CFX_KW(alpha, c->args[2]));
}
CORE(rsub_Tensor) {
    c->out[0] = DO(sub_Tensor, arg_tensor(c, 1), arg_tensor(c, 0), CFX_KW(alpha, c->args[2]));
}
CORE(floor_divide) {
    c->out[0] = DO(div_Tensor_mode, c->args[0], c->args[1], CFX_KW(rounding_mode, "floor"));
}
CORE(clamp_min) { c->out[0] = DO(clamp, arg_tensor(c, 0), CFX_KW(min, c->args[1])); }
CORE(clamp_max) { c->out[0] = DO(clamp, arg_tensor(c, 0), CFX_KW(max, c->args[1])); }
CORE(clamp_min_Tensor) { c->out[0] = DO(clamp_Tensor, arg_tensor(c, 0), CFX_KW(min, c->args[1])); }
CORE(clamp_max_Tensor) { c->out[0] = DO(clamp_Tensor, arg_tensor(c, 0), CFX_KW(max, c->args[1])); }
CORE(frac) {
    cfx_tensor *x = X;
    cfx_tensor *whole = DO(floor, DO(abs, x));
    c->out[0] = DO(sub_Tensor, x, DO(mul_Tensor, whole, DO(sign, x)));
}
CORE(deg2rad) { c->out[0] = DO(mul_Tensor, real_arg(c, 0), M_PI / 180); }
CORE(rad2deg) { c->out[0] = DO(mul_Tensor, real_arg(c, 0), 180 / M_PI); }

CORE(sgn) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (!cfx__dtype_is_complex(x->dtype)) {
        c->out[0] = DO(sign, x);
        return;
    }
    x = X;
    cfx_tensor *size = DO(abs, x);
    c->out[0] = DO(where_ScalarSelf, DO(eq_Scalar, size, 0), 0, DO(div_Tensor, x, size));
}

CORE(lerp) { /* start, end, weight: a tensor or a number */
    cfx_tensor *a = X, *b = Y, *w = arg_tensor(c, 2) ? core_wide(c, 2) : NULL;
    if (!w)
        w = DO(new_full, a, cfx_list_value(0, NULL), c->args[2]);
    cfx_tensor *near_end = DO(ge_Scalar, DO(abs, w), 0.5);
    cfx_tensor *factor = DO(where_self, near_end, DO(sub_Tensor, w, 1), w);
    cfx_tensor *base = DO(where_self, near_end, b, a);
    c->out[0] = DO(add_Tensor, DO(mul_Tensor, factor, DO(sub_Tensor, b, a)), base);
}

CORE(sinc) {
    cfx_tensor *x = DO(mul_Tensor, real_arg(c, 0), M_PI);
    cfx_tensor *none = DO(eq_Scalar, x, 0);
    c->out[0] = DO(where_ScalarSelf, none, 1, DO(div_Tensor, DO(sin, x), x));
}

CORE(logit) {
    cfx_tensor *x = real_arg(c, 0);
    double low = arg_is_none(c, 1) ? -1 : arg_float(c, 1), high = 1 - low;
    cfx_tensor *under = DO(lt_Scalar, x, low), *over = DO(gt_Scalar, x, high);
    x = core_chosen(c, over, cfx_float(high), x);
    x = core_chosen(c, under, cfx_float(low), x);
    c->out[0] = DO(log, DO(div_Tensor, x, DO(rsub_Scalar, x, 1)));
}

static cfx_tensor *real_part(cfx_op_call *c, cfx_tensor *x) {
    return cfx__dtype_is_complex(x->dtype) ? DO(real, x) : x;
}

/* Complex numbers are compared by their real parts. */
CORE(logaddexp) {
    cfx_tensor *a = real_arg(c, 0), *b = real_arg(c, 1);
    cfx_tensor *more = DO(ge_Tensor, real_part(c, a), real_part(c, b));
    cfx_tensor *most = DO(where_self, more, a, b), *least = DO(where_self, more, b, a);
    cfx_tensor *endless = DO(logical_not, DO(isfinite, real_part(c, a)));
    cfx_tensor *same = DO(logical_and, endless, DO(eq_Tensor, real_part(c, a), real_part(c, b)));
    cfx_tensor *at_end = a;
    bool complex = cfx__dtype_is_complex(least->dtype);
    if (complex) {
        cfx_tensor *below = DO(lt_Scalar, real_part(c, least), 0);
        cfx_tensor *whole = DO(log, DO(add_Tensor, DO(exp, least), DO(exp, most)));
        at_end = DO(where_self, below, least, whole);
    }
    cfx_tensor *sum = DO(add_Tensor, most, DO(log1p, DO(exp, DO(sub_Tensor, least, most))));
    sum = DO(where_self, same, at_end, sum);
    cfx_value unknown = complex ? cfx_complex_value(NAN, NAN) : cfx_none();
    c->out[0] = complex ? DO(where_ScalarSelf, DO(isnan, least), unknown, sum) : sum;
}

CORE(logaddexp2) {
    cfx_tensor *a = real_arg(c, 0), *b = real_arg(c, 1), *more = DO(ge_Tensor, a, b);
    cfx_tensor *most = DO(where_self, more, a, b), *least = DO(where_self, more, b, a);
    cfx_tensor *endless = DO(isinf, a);
    cfx_tensor *same = DO(logical_and, endless, DO(eq_Tensor, a, b));
    cfx_tensor *tail = DO(log1p, DO(exp2, DO(sub_Tensor, least, most)));
    cfx_tensor *sum = DO(add_Tensor, most, DO(mul_Tensor, tail, 1 / M_LN2));
    c->out[0] = DO(where_self, same, a, sum);
}

/* x, y: tensors, or one of them a number that becomes a tensor. */
static void times_log(cfx_op_call *c, cfx_op *log) {
    cfx_tensor *a = arg_tensor(c, 0) ? real_arg(c, 0) : NULL;
    cfx_tensor *b = arg_tensor(c, 1) ? real_arg(c, 1) : NULL, *like = a ? a : b;
    cfx_value dtype = cfx_dtype_value((cfx_dtype)like->dtype);
    cfx_value device = cfx_device_value(like->device);
    cfx_dtype d = arg_result_type(c, 2);
    d = cfx__dtype_is_half(d) ? d : like->dtype;
    if (!a)
        a = DO(scalar_tensor, core_fitting(c->args[0], d), CFX_KW(dtype, dtype),
               CFX_KW(device, device));
    if (!b)
        b = DO(scalar_tensor, core_fitting(c->args[1], d), CFX_KW(dtype, dtype),
               CFX_KW(device, device));
    cfx_tensor *none = DO(eq_Scalar, a, 0);
    cfx_tensor *y = DO(where_ScalarSelf, none, 0,
                       DO(mul_Tensor, a, core_do(c, log, CFX_ARGS(b))));
    c->out[0] = DO(where_ScalarSelf, DO(isnan, b), NAN, y);
}
CORE(xlogy) { times_log(c, &cfx_op_log); }
CORE(xlog1py) { times_log(c, &cfx_op_log1p); }

CORE(special_entr) {
    cfx_tensor *x = real_arg(c, 0), *unknown = DO(isnan, x), *more = DO(gt_Scalar, x, 0);
    cfx_tensor *y = DO(mul_Tensor, DO(neg, x), DO(log, x)), *none = DO(eq_Scalar, x, 0);
    cfx_tensor *rest = DO(where_Scalar, none, 0, -INFINITY);
    c->out[0] = DO(where_self, unknown, x, DO(where_self, more, y, rest));
}

CORE(special_log_ndtr) {
    cfx_tensor *x = real_arg(c, 0), *t = DO(mul_Tensor, x, M_SQRT1_2);
    cfx_tensor *low = DO(lt_Scalar, x, 1.0);
    cfx_tensor *half = DO(div_Tensor, DO(special_erfcx, DO(neg, t)), 2);
    cfx_tensor *below = DO(sub_Tensor, DO(log, half), DO(mul_Tensor, t, t));
    cfx_tensor *above = DO(log1p, DO(div_Tensor, DO(neg, DO(erfc, t)), 2));
    c->out[0] = DO(where_self, low, below, above);
}

static bool is_complex(cfx_op_call *c, int i) {
    cfx_tensor *x = arg_tensor(c, i);
    return x ? cfx__dtype_is_complex(x->dtype) : c->args[i].tag == CFX_TAG_COMPLEX;
}

static cfx_value doubled(cfx_op_call *c, int i) {
    cfx_tensor *x = arg_tensor(c, i);
    cfx_dtype d = is_complex(c, 0) || is_complex(c, 1) ? CFX_C128 : CFX_F64;
    if (x)
        return cfx_tensor_value(core_to(c, x, d));
    return is_complex(c, i) ? c->args[i]
           : d == CFX_C128  ? cfx_complex_value(arg_float(c, i), 0)
                            : cfx_float(arg_float(c, i));
}
CORE(float_power_Tensor_Tensor) { c->out[0] = DO(pow_Tensor_Tensor, doubled(c, 0), doubled(c, 1)); }
CORE(float_power_Tensor_Scalar) { c->out[0] = DO(pow_Tensor_Scalar, doubled(c, 0), doubled(c, 1)); }
CORE(float_power_Scalar) { c->out[0] = DO(pow_Scalar, doubled(c, 0), doubled(c, 1)); }

/* ---- comparing and choosing ------------------------------------------------------------------ */

static void is_value(cfx_op_call *c, double value) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (cfx__dtype_is_float(x->dtype))
        c->out[0] = DO(eq_Scalar, x, value);
    else
        c->out[0] = DO(zeros_like, x, CFX_KW(dtype, cfx_dtype_value(CFX_BOOL)));
}
CORE(mvlgamma) { /* self, p */
    cfx_tensor *x = real_arg(c, 0);
    int64_t p = arg_int(c, 1);
    cfx_tensor *step = DO(arange_start_step, 1 - p, 1, 1, CFX_KW(dtype, cfx_dtype_value(x->dtype)),
                          CFX_KW(device, cfx_device_value(x->device)), CFX_KW(pin_memory, false));
    step = DO(mul_Tensor, step, 0.5);
    cfx_tensor *terms = DO(lgamma, DO(add_Tensor, DO(unsqueeze, x, -1), step));
    cfx_tensor *sum = DO(sum_dim_IntList, terms, cfx_list(-1));
    c->out[0] = DO(add_Tensor, sum, 0.25 * (double)(p * (p - 1)) * log(M_PI));
}

CORE(isposinf) { is_value(c, INFINITY); }
CORE(isneginf) { is_value(c, -INFINITY); }

CORE(isfinite) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (cfx__dtype_is_complex(x->dtype)) {
        c->out[0] = DO(bitwise_and_Tensor, DO(isfinite, DO(real, x)), DO(isfinite, DO(imag, x)));
        return;
    }
    if (!cfx__dtype_is_floating(x->dtype)) {
        c->out[0] = DO(ones_like, x, CFX_KW(dtype, cfx_dtype_value(CFX_BOOL)));
        return;
    }
    cfx_tensor *bounded = DO(ne_Scalar, DO(abs, x), INFINITY);
    c->out[0] = DO(mul_Tensor, DO(eq_Tensor, x, x), bounded);
}

CORE(heaviside) {
    cfx_tensor *x = arg_tensor(c, 0), *none = DO(eq_Scalar, x, 0);
    cfx_tensor *low = DO(logical_or, DO(lt_Scalar, x, 0), DO(isnan, x));
    cfx_tensor *step = DO(where_Scalar, low, 0, 1);
    c->out[0] = DO(where_self, none, arg_tensor(c, 1), step);
}

/* condition, self, other: the numbers among them become tensors of the common type */
CORE(where) {
    cfx__promotion p = CFX__PROMOTION_START;
    cfx__promotion_value(&p, c->args[1]);
    cfx__promotion_value(&p, c->args[2]);
    cfx_dtype d = cfx__promotion_dtype(&p);
    cfx_tensor *t[3] = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2)};
    for (int i = 2; i > 0; i--)
        if (!t[i])
            t[i] = DO(scalar_tensor, core_fitting(c->args[i], d), CFX_KW(dtype, cfx_dtype_value(d)),
                      CFX_KW(layout, cfx_layout_value(CFX_STRIDED)),
                      CFX_KW(device, cfx_device_value(t[0]->device)));
    c->out[0] = DO(where_self, t[0], core_to(c, t[1], d), core_to(c, t[2], d));
}

/* A number as the element of a tensor of that dtype would be. */
static cfx_value number_as(cfx_value v, cfx_dtype d) {
    if (d == CFX_BOOL)
        return cfx_bool(cfx_number(v) != 0);
    if (cfx__dtype_is_int(d))
        return cfx_int(cfx_integer(v));
    return cfx__dtype_is_complex(d) ? v : cfx_float(cfx_number(v));
}

CORE(masked_fill) {
    cfx_tensor *x = arg_tensor(c, 0), *value = arg_tensor(c, 2), *y;
    if (value)
        y = DO(where_self, arg_tensor(c, 1), core_to(c, value, x->dtype), x);
    else
        y = DO(where_ScalarSelf, arg_tensor(c, 1), number_as(c->args[2], x->dtype), x);
    c->out[0] = DO(contiguous, y);
}

static double largest(cfx_dtype d) {
    return d == CFX_F64 ? DBL_MAX : d == CFX_F16 ? 65504. : d == CFX_BF16 ? 0x1.fep127 : FLT_MAX;
}

CORE(nan_to_num) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (cfx__dtype_is_complex(x->dtype)) { /* either part by itself */
        cfx_tensor *parts = DO(nan_to_num, DO(view_as_real, x), c->args[1], c->args[2], c->args[3]);
        c->out[0] = DO(view_as_complex, parts);
        return;
    }
    if (!cfx__dtype_is_float(x->dtype)) {
        c->out[0] = DO(clone, x);
        return;
    }
    double most = arg_is_none(c, 2) ? largest(x->dtype) : arg_float(c, 2);
    double least = arg_is_none(c, 3) ? -largest(x->dtype) : arg_float(c, 3);
    double nan = arg_is_none(c, 1) ? 0.0 : arg_float(c, 1);
    cfx_tensor *y = core_chosen(c, DO(isnan, x), cfx_float(nan), x);
    y = core_chosen(c, DO(isneginf, x), cfx_float(least), y);
    c->out[0] = core_chosen(c, DO(isposinf, x), cfx_float(most), y);
}
