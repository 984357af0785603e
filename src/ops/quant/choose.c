/* Scales and zero points chosen from the numbers themselves. */
#include <cfx/ops.h>

#include "../ops.h"

#include <float.h>

CFX_FAMILY(REDUCE);

static bool is_plain_float(cfx_op_call *c) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    if (d != CFX_F32 && !cfx__dtype_is_half(d))
        op_fail_as(ASSERTION, c,
                   "Expecting input to have dtype torch.float32/16/b16, but got dtype: torch.%s",
                   cfx_dtype_name(d));
    return !op_failed();
}

/* input, quant_min, quant_max, eps, dtype: the least and largest number, zero among them */
static bool limits(cfx_op_call *c, cfx_tensor **low, cfx_tensor **high) {
    if (!is_plain_float(c))
        return false;
    if (arg_int(c, 1) >= arg_int(c, 2)) {
        op_fail_as(ASSERTION, c, "qmin must be less than qmax.");
        return false;
    }
    cfx_value both = cfx_aminmax(arg_tensor(c, 0));
    *low = cfx_clamp(cfx_tensor_at(both, 0), CFX_NONE, 0);
    *high = cfx_clamp(cfx_tensor_at(both, 1), 0);
    return !op_failed();
}

static void give(cfx_op_call *c, cfx_tensor *scale, cfx_tensor *zero_point) {
    c->out[0] = cfx_to(cfx_reshape(scale, cfx_list(1)), cfx_f64);
    c->out[1] = cfx_to(cfx_reshape(zero_point, cfx_list(1)), cfx_i64);
}

static double steps(const cfx_op_call *c) { return (double)arg_int(c, 2) - (double)arg_int(c, 1); }

/* The scale in float32 or wider, at least eps. */
static cfx_tensor *at_least_eps(cfx_op_call *c, cfx_tensor *scale) {
    return cfx_maximum(scale, cfx_full(cfx_list(1), c->args[3], CFX_KW(dtype, cfx_f32)));
}

static void choose(cfx_op_call *c) {
    cfx_tensor *low, *high;
    if (!limits(c, &low, &high))
        return;
    cfx_tensor *scale = at_least_eps(c, cfx_div(cfx_sub(high, low), steps(c)));
    cfx_tensor *zero = cfx_rsub(cfx_to(cfx_round(cfx_div(low, scale)), cfx_i32), c->args[1]);
    give(c, scale, cfx_clamp(zero, c->args[1], c->args[2]));
}

static void choose_symmetric(cfx_op_call *c) {
    cfx_tensor *low, *high;
    if (!limits(c, &low, &high))
        return;
    cfx_tensor *far = cfx_maximum(cfx_neg(low), high);
    cfx_tensor *scale = at_least_eps(c, cfx_div(far, steps(c) / 2));
    int64_t zero = arg_dtype(c, 4, CFX_F32) == CFX_U8 ? 128 : 0;
    give(c, scale, cfx_full(cfx_list(1), zero, CFX_KW(dtype, cfx_i64)));
}

/* input, dtype: one pair for each row of the last dimension */
static void choose_token(cfx_op_call *c) {
    if (arg_dtype(c, 1, CFX_F32) != CFX_I8) {
        op_fail_as(VALUE, c, "unsupported dtype in choose_qparams_per_token: torch.%s",
                   cfx_dtype_name(arg_dtype(c, 1, CFX_F32)));
        return;
    }
    cfx_tensor *far = cfx_amax(cfx_abs(arg_tensor(c, 0)), cfx_list(-1), true);
    if (!op_failed() && far->dtype == CFX_F16)
        far = cfx_to(far, cfx_f32);
    c->out[0] = cfx_div(cfx_clamp(far, 1e-5), 127);
    c->out[1] = cfx_zeros_like(c->out[0]);
}

static void choose_token_asymmetric(cfx_op_call *c) {
    const double low = -128, high = 127;
    cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *least = cfx_clamp(cfx_amin(x, cfx_list(-1), true), CFX_NONE, 0);
    cfx_tensor *most = cfx_clamp(cfx_amax(x, cfx_list(-1), true), 0);
    cfx_tensor *scale = cfx_clamp(cfx_div(cfx_sub(most, least), high - low), (double)FLT_EPSILON);
    cfx_tensor *from = cfx_div(least, scale), *to = cfx_div(most, scale);
    cfx_tensor *error = cfx_add(cfx_add(from, low), cfx_add(to, high));
    cfx_tensor *zero = cfx_where(cfx_gt(error, 0), cfx_rsub(from, low), cfx_rsub(to, high));
    c->out[0] = cfx_to(scale, cfx_f64);
    c->out[1] = cfx_to(cfx_round(cfx_clamp(zero, low, high)), cfx_i64);
}

CFX_OP(quantized_decomposed_choose_qparams_tensor) = {
    "quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float "
    "eps, ScalarType dtype) -> (Tensor, Tensor)",
    NULL, .decompose = choose};
CFX_OP(quantized_decomposed_choose_qparams_symmetric_tensor) = {
    "quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int "
    "quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)",
    NULL, .decompose = choose_symmetric};
CFX_OP(quantized_decomposed_choose_qparams_per_token) = {
    "quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, "
    "Tensor)",
    NULL, .decompose = choose_token};
CFX_OP(quantized_decomposed_choose_qparams_per_token_asymmetric) = {
    "quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> "
    "(Tensor, Tensor)",
    NULL, .decompose = choose_token_asymmetric};
CFX_OP(quantized_decomposed__choose_qparams_per_token_asymmetric_impl) = {
    "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType "
    "dtype) -> (Tensor, Tensor)",
    NULL, .decompose = choose_token_asymmetric};
