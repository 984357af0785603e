/* Gradients of functions of two numbers, of comparisons that choose one, and of limits. */
#include "../words.h"

#include <math.h>

static cfx_tensor *only(cfx_tensor *mask, cfx_tensor *g) { return cfx_where(mask, g, 0); }

/* ---- angles, sizes and signs ----------------------------------------------------------------- */

void grad_atan2(cfx_back *b) {
    cfx_tensor *part = cfx_div(G, cfx_add(cfx_mul(X(0), X(0)), cfx_mul(X(1), X(1))));
    GIVE(0, cfx_mul(part, X(1)));
    GIVE(1, cfx_mul(part, cfx_neg(X(0))));
}

void grad_hypot(cfx_back *b) {
    GIVE(0, cfx_mul(G, cfx_div(X(0), Y(0))));
    GIVE(1, cfx_mul(G, cfx_div(X(1), Y(0))));
}

void grad_copysign(cfx_back *b) {
    cfx_tensor *turned = cfx_div(Y(0), X(0));
    GIVE(0, cfx_mul(G, cfx_masked_fill(turned, cfx_eq(X(0), 0), 0)));
    GIVE(1, cfx_zeros_like(G));
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* base^exponent in the dtype of the result, which float_power widens. */
static cfx_tensor *power(cfx_back *b, cfx_value base, cfx_value exponent) {
    bool wide = cfx__op_info_of(b->op)->schema->name[0] == 'f';
    return wide ? cfx_float_power(base, exponent) : cfx_pow(base, exponent);
}

static cfx_value one_less(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? CFX_V(cfx_sub(v, 1))
           : v.tag == CFX_TAG_COMPLEX
               ? cfx_complex_value(cfx_as_complex(v)->re - 1, cfx_as_complex(v)->im)
           : v.tag == CFX_TAG_INT && cfx_integer(v) > INT64_MIN ? cfx_int(cfx_integer(v) - 1)
                                                                : cfx_float(cfx_number(v) - 1);
}

static cfx_tensor *back_base(cfx_back *b) {
    cfx_value e = A(1);
    if (cfx_is_number(e) && e.tag != CFX_TAG_COMPLEX && cfx_number(e) == 0)
        return cfx_zeros_like(G);
    cfx_tensor *slope = cfx_mul(power(b, A(0), one_less(e)), e);
    cfx_tensor *g = cfx_mul(G, conj_of(slope));
    return e.tag == CFX_TAG_TENSOR ? cfx_where(cfx_eq(e, 0), 0, g) : g;
}

/* Times the logarithm of the base, except that 0 to a power of at least 0 has no slope. */
static cfx_tensor *back_exponent(cfx_back *b) {
    if (X(0)) {
        cfx_tensor *g = cfx_mul(G, conj_of(cfx_mul(Y(0), cfx_log(X(0)))));
        cfx_tensor *flat = cfx_eq(X(0), 0);
        if (!cfx__dtype_is_complex((cfx_dtype)X(1)->dtype))
            flat = cfx_logical_and(flat, cfx_ge(X(1), 0));
        return cfx_where(flat, 0, g);
    }
    if (A(0).tag == CFX_TAG_COMPLEX) {
        double re = cfx_as_complex(A(0))->re, im = cfx_as_complex(A(0))->im;
        cfx_value log_ = cfx_complex_value(log(hypot(re, im)), atan2(im, re));
        return cfx_mul(G, conj_of(cfx_mul(Y(0), log_)));
    }
    double base = cfx_number(A(0));
    cfx_tensor *g = cfx_mul(G, conj_of(cfx_mul(Y(0), log(base))));
    return base == 0 ? cfx_where(cfx_ge(X(1), 0), 0, g) : g;
}

void grad_pow(cfx_back *b) {
    GIVE(0, back_base(b));
    GIVE(1, back_exponent(b));
}

/* ---- logarithms ------------------------------------------------------------------------------ */

/* g without the places where the factor is 0 and the logarithm has no value. */
static cfx_tensor *without_poles(cfx_back *b, cfx_tensor *g, double pole) {
    if (!X(1))
        return cfx_number(A(1)) > pole ? g : cfx_where(cfx_eq(X(0), 0), 0, g);
    return cfx_where(cfx_logical_and(cfx_eq(X(0), 0), cfx_le(X(1), pole)), 0, g);
}

void grad_xlogy(cfx_back *b) {
    GIVE(0, without_poles(b, cfx_xlogy(G, A(1)), 0));
    GIVE(1, cfx_div(cfx_mul(G, A(0)), X(1)));
}

void grad_xlog1py(cfx_back *b) {
    GIVE(0, without_poles(b, cfx_special_xlog1py(G, A(1)), -1));
    GIVE(1, cfx_div(cfx_mul(G, A(0)), cfx_add(X(1), 1)));
}

void grad_logaddexp(cfx_back *b) {
    GIVE(0, cfx_div(G, conj_of(cfx_add(cfx_exp(cfx_sub(X(1), X(0))), 1))));
    GIVE(1, cfx_div(G, conj_of(cfx_add(cfx_exp(cfx_sub(X(0), X(1))), 1))));
}

void grad_logaddexp2(cfx_back *b) {
    GIVE(0, cfx_div(G, cfx_add(cfx_exp2(cfx_sub(X(1), X(0))), 1)));
    GIVE(1, cfx_div(G, cfx_add(cfx_exp2(cfx_sub(X(0), X(1))), 1)));
}

void grad_lerp(cfx_back *b) {
    cfx_value w = conj_value(A(2));
    GIVE(0, X(2) ? cfx_mul(G, cfx_rsub(w, 1)) : cfx_sub(G, cfx_mul(G, w)));
    GIVE(1, cfx_mul(G, w));
    GIVE(2, cfx_mul(G, conj_of(cfx_sub(X(1), X(0)))));
}

/* ---- the larger, the smaller ----------------------------------------------------------------- */

/* Where both are the same each gets half. */
static cfx_tensor *back_chosen(cfx_back *b, cfx_tensor *lost) {
    return cfx_masked_fill(cfx_where(cfx_eq(X(0), X(1)), cfx_div(G, 2), G), lost, 0);
}

void grad_maximum(cfx_back *b) {
    GIVE(0, back_chosen(b, cfx_lt(X(0), X(1))));
    GIVE(1, back_chosen(b, cfx_gt(X(0), X(1))));
}

void grad_minimum(cfx_back *b) {
    GIVE(0, back_chosen(b, cfx_gt(X(0), X(1))));
    GIVE(1, back_chosen(b, cfx_lt(X(0), X(1))));
}

static void give_first(cfx_back *b, cfx_tensor *first) {
    first = cfx_logical_or(first, cfx_isnan(X(1)));
    GIVE(0, only(first, G));
    GIVE(1, cfx_masked_fill(G, first, 0));
}

void grad_fmax(cfx_back *b) { give_first(b, cfx_ge(X(0), X(1))); }
void grad_fmin(cfx_back *b) { give_first(b, cfx_le(X(0), X(1))); }

/* ---- limits ---------------------------------------------------------------------------------- */

void grad_clamp_min(cfx_back *b) {
    GIVE(0, only(cfx_ge(X(0), A(1)), G));
    GIVE(1, only(cfx_lt(X(0), A(1)), G));
}

void grad_clamp_max(cfx_back *b) {
    GIVE(0, only(cfx_le(X(0), A(1)), G));
    GIVE(1, only(cfx_gt(X(0), A(1)), G));
}

/* Limits may be numbers, tensors or missing. */
void grad_clamp(cfx_back *b) {
    cfx_value low = A(1), high = A(2);
    cfx_tensor *x = X(0), *inside = NULL;
    if (!cfx_is_none(low))
        inside = cfx_ge(x, low);
    if (!cfx_is_none(high))
        inside = inside ? cfx_logical_and(inside, cfx_le(x, high)) : cfx_le(x, high);
    GIVE(0, inside ? only(inside, G) : G);
    if (b->needs[1]) {
        cfx_tensor *below = cfx_lt(x, low);
        GIVE(1, only(cfx_is_none(high) ? below : cfx_logical_and(below, cfx_lt(low, high)), G));
    }
    if (b->needs[2]) {
        cfx_tensor *above = cfx_gt(x, high);
        GIVE(2, only(cfx_is_none(low) ? above : cfx_logical_or(above, cfx_lt(high, low)), G));
    }
}

void grad_where(cfx_back *b) {
    GIVE(1, cfx_where(X(0), G, 0));
    GIVE(2, cfx_where(X(0), 0, G));
}

void grad_masked_fill(cfx_back *b) {
    GIVE(0, cfx_masked_fill(G, X(1), 0));
    GIVE(2, cfx_where(X(1), G, 0));
}
