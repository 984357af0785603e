/* The gradient column: what a row says, and the formulas that rows of several files name. They are
 * written in the files *_back.c, by what they differentiate. */
#ifndef CFX__FORMULAS_H
#define CFX__FORMULAS_H

#include <cfx/op.h>

/* A row's gradient: grad_NAME, and whose numbers it reads, READ(0) | RESULT(0) or 0 for none. */
#define GRAD(name, reads) .grad = grad_##name, .saves = reads
#define READ(i) CFX_SAVE_ARG(i)
#define RESULT(i) CFX_SAVE_OUT(i)
/* Nothing flows back: what is made does not depend on the numbers of the arguments. */
#define NO_GRAD .grad = cfx__op_grad_none

/* arith_back.c */
cfx_grad_fn grad_add, grad_sub, grad_rsub, grad_neg, grad_same, grad_zero, grad_mul, grad_addcmul,
    grad_div, grad_div_mode, grad_remainder, grad_fmod, grad_addcdiv, grad_reciprocal, grad_abs;
/* unary_back.c */
cfx_grad_fn grad_exp, grad_exp2, grad_expm1, grad_log, grad_log2, grad_log10, grad_log1p, grad_sqrt,
    grad_rsqrt, grad_sin, grad_cos, grad_tan, grad_asin, grad_acos, grad_atan, grad_sinh, grad_cosh,
    grad_tanh, grad_asinh, grad_acosh, grad_atanh, grad_deg2rad, grad_rad2deg, grad_sinc, grad_erf,
    grad_erfc, grad_erfinv, grad_sigmoid, grad_logit, grad_special_entr, grad_special_erfcx,
    grad_special_log_ndtr, grad_special_ndtri, grad_nan_to_num, grad_frexp, grad_sgn, grad_i0,
    grad_special_i0e, grad_special_i1, grad_special_i1e, grad_lgamma, grad_digamma, grad_polygamma,
    grad_mvlgamma, grad_igamma, grad_igammac, grad_special_zeta;
/* binary_back.c */
cfx_grad_fn grad_atan2, grad_hypot, grad_copysign, grad_pow, grad_xlogy, grad_xlog1py,
    grad_logaddexp, grad_logaddexp2, grad_lerp, grad_maximum, grad_minimum, grad_fmax, grad_fmin,
    grad_clamp_min, grad_clamp_max, grad_clamp, grad_where, grad_masked_fill;
/* activation_back.c */
cfx_grad_fn grad_relu, grad_leaky_relu_backward, grad_leaky_relu, grad_threshold,
    grad_threshold_backward, grad_elu, grad_elu_backward, grad_gelu_backward, grad_gelu, grad_silu,
    grad_silu_backward, grad_mish_backward, grad_mish, grad_softplus_backward, grad_softplus,
    grad_log_sigmoid, grad_log_sigmoid_backward, grad_hardtanh, grad_hardtanh_backward,
    grad_hardsigmoid, grad_hardsigmoid_backward, grad_hardswish, grad_hardswish_backward,
    grad_hardshrink_backward, grad_hardshrink, grad_softshrink, grad_softshrink_backward, grad_glu,
    grad_glu_backward, grad_prelu_backward, grad_prelu, grad_sigmoid_backward, grad_tanh_backward,
    grad_logit_backward;
/* reduce_back.c */
cfx_grad_fn grad_sum, grad_sum_dim, grad_mean, grad_mean_dim, grad_nansum, grad_prod, grad_prod_dim,
    grad_amax, grad_max, grad_max_dim, grad_aminmax, grad_var, grad_std, grad_var_mean,
    grad_std_mean, grad_norm, grad_norm_dim, grad_renorm, grad_logsumexp, grad_softmax_backward,
    grad_softmax, grad_log_softmax, grad_log_softmax_backward;
/* scan_back.c */
cfx_grad_fn grad_cumsum, grad_cumprod, grad_logcumsumexp;
/* view_back.c */
cfx_grad_fn grad_copy_, grad_as_strided, grad_reshape, grad_transpose, grad_t, grad_permute,
    grad_slice, grad_select, grad_diagonal, grad_narrow, grad_unfold, grad_split, grad_unbind,
    grad_stack, grad_slice_scatter, grad_select_scatter, grad_diagonal_scatter,
    grad_as_strided_scatter, grad_fill, grad_fill_diagonal;

#endif
