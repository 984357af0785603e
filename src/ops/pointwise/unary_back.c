/* Gradients of functions of one number. Where the result says it more cheaply than the argument,
 * the result is what is saved. */
#include "../words.h"

#include <math.h>

#define GX conj_of(X(0)) /* the argument and the result, conjugated where they are complex */
#define GY conj_of(Y(0))

static cfx_tensor *square_of(cfx_tensor *t) { return cfx_mul(t, t); }
static cfx_tensor *one_minus(cfx_tensor *t) { return cfx_rsub(t, 1); }

/* ---- powers of e and 2, logarithms, roots ---------------------------------------------------- */

BACK(exp, cfx_mul(G, GY))
BACK(exp2, cfx_mul(G, cfx_mul(GY, M_LN2)))
BACK(expm1, cfx_mul(G, cfx_add(GY, 1)))
BACK(log, cfx_div(G, GX))
BACK(log2, cfx_div(G, cfx_mul(GX, M_LN2)))
BACK(log10, cfx_div(G, cfx_mul(GX, M_LN10)))
BACK(log1p, cfx_div(G, cfx_add(GX, 1)))
BACK(sqrt, cfx_div(G, cfx_mul(GY, 2)))
BACK(rsqrt, cfx_mul(G, cfx_mul(cfx_pow(GY, 3), -0.5)))

/* ---- trigonometry ---------------------------------------------------------------------------- */

BACK(sin, cfx_mul(G, cfx_cos(GX)))
BACK(cos, cfx_mul(G, cfx_neg(cfx_sin(GX))))
BACK(tan, cfx_mul(G, cfx_add(square_of(GY), 1)))
/* Of complex numbers the two roots have branch cuts of their own. */
static cfx_tensor *back_acosh(cfx_back *b) {
    if (!cfx__dtype_is_complex(GX->dtype))
        return cfx_mul(G, cfx_rsqrt(cfx_sub(square_of(GX), 1)));
    return cfx_mul(G, conj_of(cfx_mul(cfx_rsqrt(cfx_add(GX, 1)), cfx_rsqrt(cfx_sub(GX, 1)))));
}

BACK(asin, cfx_mul(G, conj_of(cfx_rsqrt(one_minus(square_of(X(0)))))))
BACK(acos, cfx_mul(G, conj_of(cfx_neg(cfx_rsqrt(one_minus(square_of(X(0))))))))
BACK(atan, cfx_div(G, cfx_add(square_of(GX), 1)))
BACK(sinh, cfx_mul(G, cfx_cosh(GX)))
BACK(cosh, cfx_mul(G, cfx_sinh(GX)))
BACK(tanh, cfx_tanh_backward(G, Y(0)))
BACK(asinh, cfx_mul(G, conj_of(cfx_rsqrt(cfx_add(square_of(X(0)), 1)))))
BACK(acosh, back_acosh(b))
BACK(atanh, cfx_div(G, one_minus(square_of(GX))))
BACK(deg2rad, cfx_mul(G, M_PI / 180))
BACK(rad2deg, cfx_mul(G, 180 / M_PI))

static cfx_tensor *back_sinc(cfx_back *b) {
    cfx_tensor *x = cfx_mul(GX, M_PI), *below = cfx_mul(cfx_mul(GX, GX), M_PI);
    cfx_tensor *slope = cfx_div(cfx_sub(cfx_mul(x, cfx_cos(x)), cfx_sin(x)), below);
    return cfx_where(cfx_eq(below, 0), cfx_zeros_like(cfx_detach(below)), cfx_mul(G, slope));
}
BACK(sinc, back_sinc(b))

/* ---- the error function and its kin ---------------------------------------------------------- */

static cfx_tensor *bell(cfx_tensor *x) { return cfx_exp(cfx_neg(square_of(x))); }

BACK(erf, cfx_mul(G, cfx_mul(bell(X(0)), M_2_SQRTPI)))
BACK(erfc, cfx_mul(G, cfx_mul(bell(X(0)), -M_2_SQRTPI)))
BACK(erfinv, cfx_mul(G, cfx_mul(cfx_exp(square_of(Y(0))), 1 / M_2_SQRTPI)))
BACK(sigmoid, cfx_sigmoid_backward(G, Y(0)))
BACK(logit, cfx_logit_backward(G, X(0), A(1)))
BACK(special_entr, cfx_mul(G, cfx_neg(cfx_add(cfx_log(X(0)), 1))))
BACK(special_erfcx, cfx_mul(G, cfx_sub(cfx_mul(cfx_mul(X(0), 2), Y(0)), M_2_SQRTPI)))
BACK(special_log_ndtr, cfx_mul(cfx_div(G, cfx_special_erfcx(cfx_mul(X(0), -M_SQRT1_2))),
                               M_SQRT1_2 * M_2_SQRTPI))
BACK(special_ndtri, cfx_mul(G, cfx_mul(cfx_exp(cfx_mul(square_of(Y(0)), 0.5)), sqrt(2 * M_PI))))

/* ---- rounding and signs ---------------------------------------------------------------------- */

BACK(nan_to_num, cfx_mul(G, cfx_isfinite(X(0))))
BACK(frexp, cfx_div(G, cfx_exp2(Y(1))))

/* Of a complex number the part across its direction, over its size. */
static cfx_tensor *back_sgn(cfx_back *b) {
    if (!cfx__dtype_is_complex((cfx_dtype)X(0)->dtype))
        return cfx_zeros_like(G);
    cfx_tensor *size = cfx_abs(X(0)), *along = cfx_real(cfx_mul(GY, G));
    cfx_tensor *slope = cfx_div(cfx_sub(G, cfx_mul(along, Y(0))), size);
    return cfx_masked_fill(slope, cfx_eq(size, 0), 0);
}
BACK(sgn, back_sgn(b))

/* ---- Bessel and gamma ------------------------------------------------------------------------ */

BACK(i0, cfx_mul(G, cfx_special_i1(X(0))))
BACK(special_i0e, cfx_mul(G, cfx_sub(cfx_special_i1e(X(0)), cfx_mul(cfx_sgn(X(0)), Y(0)))))

/* Near 0 the quotient is its limit, 1/2; `scaled` is the function times exp(-|x|). */
static cfx_tensor *back_i1(cfx_back *b, bool scaled_) {
    cfx_tensor *x = X(0);
    double eps = x->dtype == CFX_F64 ? 0x1p-52 : 0x1p-23;
    cfx_tensor *far = cfx_gt(cfx_abs(x), eps);
    cfx_tensor *safe = cfx_where(far, x, eps), *part = cfx_reciprocal(safe);
    if (scaled_)
        part = cfx_add(part, cfx_sgn(safe));
    cfx_tensor *slope = cfx_sub(scaled_ ? cfx_special_i0e(safe) : cfx_i0(safe),
                                cfx_mul(Y(0), part));
    return cfx_mul(G, cfx_where(far, slope, 0.5));
}
BACK(special_i1, back_i1(b, false))
BACK(special_i1e, back_i1(b, true))

BACK(lgamma, cfx_mul(G, cfx_digamma(X(0))))
BACK(digamma, cfx_mul(G, cfx_polygamma(1, X(0))))
void grad_polygamma(cfx_back *b) {
    int64_t n = back_int(b, 0), next = n < INT64_MAX ? n + 1 : n;
    GIVE(1, cfx_mul(G, cfx_polygamma(next, X(1))));
}

static cfx_tensor *back_mvlgamma(cfx_back *b) {
    int64_t p = back_int(b, 1);
    cfx_tensor *steps = cfx_arange(0.5 - (double)p / 2, 0.5, 0.5,
                                   CFX_KW(dtype, cfx_dtype_value((cfx_dtype)X(0)->dtype)));
    cfx_tensor *each = cfx_digamma(cfx_add(cfx_unsqueeze(X(0), -1), steps));
    return cfx_mul(G, cfx_sum(each, cfx_list(-1), false));
}
BACK(mvlgamma, back_mvlgamma(b))

/* By the upper bound of the integral; by the other argument nobody has it in closed form. */
static cfx_tensor *back_igamma(cfx_back *b) {
    cfx_tensor *rate = cfx_mul(cfx_sub(X(0), 1), cfx_log(X(1)));
    return cfx_mul(G, cfx_exp(cfx_sub(cfx_sub(rate, X(1)), cfx_lgamma(X(0)))));
}

static bool fail_first(cfx_back *b) {
    if (b->needs[0])
        cfx_fail(CFX_RUNTIME_ERROR, b->at, "the derivative for 'self' is not implemented.");
    return b->needs[0];
}

void grad_igamma(cfx_back *b) {
    if (!fail_first(b))
        GIVE(1, back_igamma(b));
}
void grad_igammac(cfx_back *b) {
    if (!fail_first(b))
        GIVE(1, cfx_neg(back_igamma(b)));
}
void grad_special_zeta(cfx_back *b) {
    if (!fail_first(b))
        GIVE(1, cfx_mul(G, cfx_mul(cfx_neg(X(0)), cfx_special_zeta(cfx_add(X(0), 1), X(1)))));
}
