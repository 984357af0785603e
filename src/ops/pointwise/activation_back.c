/* Gradients of activations, and of those gradients: the second derivatives. */
#include "../words.h"

#include <math.h>

BACK(relu, cfx_threshold_backward(G, Y(0), 0))
BACK(leaky_relu, cfx_leaky_relu_backward(G, X(0), A(1), false))
BACK(threshold, cfx_threshold_backward(G, X(0), A(1)))
BACK(elu, cfx_elu_backward(G, A(1), A(2), A(3), false, X(0)))
BACK(gelu, cfx_gelu_backward(G, X(0), CFX_KW(approximate, A(1))))
BACK(silu, cfx_silu_backward(G, X(0)))
BACK(mish, cfx_mish_backward(G, X(0)))
BACK(softplus, cfx_softplus_backward(G, X(0), A(1), A(2)))
BACK(log_sigmoid, cfx_log_sigmoid_backward(G, X(0), Y(1)))
BACK(hardtanh, cfx_hardtanh_backward(G, X(0), A(1), A(2)))
BACK(hardsigmoid, cfx_hardsigmoid_backward(G, X(0)))
BACK(hardswish, cfx_hardswish_backward(G, X(0)))
BACK(hardshrink, cfx_hardshrink_backward(G, X(0), A(1)))
BACK(softshrink, cfx_softshrink_backward(G, X(0), A(1)))
BACK(glu, cfx_glu_backward(G, X(0), A(1)))

void grad_prelu(cfx_back *b) {
    cfx_value both = cfx_aten__prelu_kernel_backward(G, X(0), X(1));
    back_give_at(b, 0, both, 0);
    back_give_at(b, 1, both, 1);
}

/* ---- second derivatives ---------------------------------------------------------------------- */

/* Of a gradient that is g times a slope: the same slope goes back to g, and g times the slope's own
 * slope to the argument. */
#define TWICE(name, again, x, second)                                                              \
    void grad_##name(cfx_back *b) {                                                                \
        GIVE(0, again);                                                                            \
        GIVE(x, cfx_mul(cfx_mul(conj_of(G), X(0)), second));                                       \
    }

static cfx_tensor *one_minus(cfx_tensor *t) { return cfx_rsub(t, 1); }
static cfx_tensor *slope_of_sigmoid(cfx_tensor *s) { return cfx_mul(s, one_minus(s)); }

/* s (1 - s) (2 + x (1 - 2 s)) */
static cfx_tensor *silu_second(cfx_tensor *x) {
    cfx_tensor *s = cfx_sigmoid(x);
    cfx_tensor *bend = cfx_add(cfx_mul(x, cfx_rsub(cfx_mul(s, 2), 1)), 2);
    return cfx_mul(slope_of_sigmoid(s), bend);
}

/* With w = tanh(softplus(x)): s (1 - w^2) (2 + x (1 - s) - 2 x w s) */
static cfx_tensor *mish_second(cfx_tensor *x) {
    cfx_tensor *s = cfx_sigmoid(x), *w = cfx_tanh(cfx_softplus(x));
    cfx_tensor *bend = cfx_add(cfx_mul(x, one_minus(s)), 2);
    bend = cfx_sub(bend, cfx_mul(cfx_mul(cfx_mul(x, w), s), 2));
    return cfx_mul(cfx_mul(s, one_minus(cfx_mul(w, w))), bend);
}

static cfx_tensor *softplus_second(cfx_back *b) {
    cfx_tensor *z = cfx_mul(X(1), A(2));
    cfx_tensor *bend = cfx_mul(slope_of_sigmoid(cfx_sigmoid(z)), A(2));
    return cfx_where(cfx_gt(z, A(3)), cfx_zeros_like(cfx_detach(bend)), bend);
}

/* The normal density times 2 - x^2; with tanh, by the chain rule over u = k (x + a x^3). */
static cfx_tensor *gelu_second(cfx_back *b) {
    cfx_tensor *x = X(1), *xx = cfx_mul(x, x);
    const char *how = cfx_text(A(2));
    if (!how || strcmp(how, "tanh")) {
        cfx_tensor *density = cfx_mul(cfx_exp(cfx_mul(xx, -0.5)), 1 / sqrt(2 * M_PI));
        return cfx_mul(density, cfx_rsub(xx, 2));
    }
    const double k = M_SQRT2 * M_2_SQRTPI * 0.5, a = 0.044715;
    cfx_tensor *t = cfx_tanh(cfx_mul(cfx_add(x, cfx_mul(cfx_mul(xx, x), a)), k));
    cfx_tensor *du = cfx_add(cfx_mul(xx, 3 * a * k), k), *ddu = cfx_mul(x, 6 * a * k);
    cfx_tensor *bend = cfx_sub(ddu, cfx_mul(cfx_mul(t, cfx_mul(du, du)), 2));
    return cfx_mul(one_minus(cfx_mul(t, t)), cfx_add(du, cfx_mul(cfx_mul(x, bend), 0.5)));
}

static cfx_tensor *hardswish_second(cfx_tensor *x) {
    cfx_tensor *inside = cfx_logical_and(cfx_gt(x, -3), cfx_lt(x, 3));
    return cfx_div(cfx_to(inside, cfx_dtype_value(x->dtype)), 3);
}

/* Where the function is exponential: by its argument the same exponential once more, by its result
 * a constant. */
static cfx_tensor *elu_second(cfx_back *b) {
    cfx_tensor *v = X(5), *bent = cfx_lt(v, 0);
    double scale = back_float(b, 3);
    if (back_bool(b, 4))
        return cfx_mul(bent, scale);
    double height = back_float(b, 1) * back_float(b, 2) * scale * scale;
    return cfx_mul(cfx_mul(cfx_exp(cfx_mul(cfx_clamp_max(v, 0), scale)), bent), height);
}

static cfx_tensor *logit_second(cfx_back *b) {
    cfx_tensor *x = X(1), *p = cfx_mul(x, one_minus(x));
    cfx_tensor *bend = cfx_div(cfx_sub(cfx_mul(x, 2), 1), cfx_mul(p, p));
    double eps = cfx_is_none(A(2)) ? -1 : back_float(b, 2);
    if (eps < 0)
        return bend;
    cfx_tensor *inside = cfx_logical_and(cfx_ge(x, eps), cfx_le(x, 1 - eps));
    return cfx_where(inside, bend, cfx_zeros_like(cfx_detach(bend)));
}

void grad_threshold_backward(cfx_back *b) { GIVE(0, cfx_threshold_backward(G, X(1), A(2))); }
void grad_leaky_relu_backward(cfx_back *b) {
    GIVE(0, cfx_leaky_relu_backward(G, X(1), A(2), A(3)));
}
void grad_hardtanh_backward(cfx_back *b) { GIVE(0, cfx_hardtanh_backward(G, X(1), A(2), A(3))); }
void grad_hardsigmoid_backward(cfx_back *b) { GIVE(0, cfx_hardsigmoid_backward(G, X(1))); }
void grad_hardshrink_backward(cfx_back *b) { GIVE(0, cfx_hardshrink_backward(G, X(1), A(2))); }
void grad_softshrink_backward(cfx_back *b) { GIVE(0, cfx_softshrink_backward(G, X(1), A(2))); }

TWICE(sigmoid_backward, cfx_sigmoid_backward(G, conj_of(X(1))), 1,
      conj_of(cfx_rsub(cfx_mul(X(1), 2), 1)))
TWICE(tanh_backward, cfx_tanh_backward(G, conj_of(X(1))), 1, conj_of(cfx_mul(X(1), -2)))
TWICE(silu_backward, cfx_silu_backward(G, X(1)), 1, silu_second(X(1)))
TWICE(mish_backward, cfx_mish_backward(G, X(1)), 1, mish_second(X(1)))
TWICE(softplus_backward, cfx_softplus_backward(G, X(1), A(2), A(3)), 1, softplus_second(b))
TWICE(log_sigmoid_backward, cfx_log_sigmoid_backward(G, X(1), X(2)), 1,
      cfx_neg(slope_of_sigmoid(cfx_sigmoid(X(1)))))
TWICE(gelu_backward, cfx_gelu_backward(G, X(1), CFX_KW(approximate, A(2))), 1, gelu_second(b))
TWICE(hardswish_backward, cfx_hardswish_backward(G, X(1)), 1, hardswish_second(X(1)))
TWICE(logit_backward, cfx_logit_backward(G, X(1), A(2)), 1, logit_second(b))
TWICE(elu_backward, cfx_elu_backward(G, A(1), A(2), A(3), A(4), X(5)), 5, elu_second(b))

void grad_prelu_backward(cfx_back *b) {
    cfx_tensor *gx = back_gout(b, 0), *gw = back_gout(b, 1), *right = cfx_gt(X(1), 0);
    GIVE(0, cfx_where(right, gx, cfx_add(cfx_mul(gx, X(2)), cfx_mul(gw, X(1)))));
    GIVE(1, cfx_where(right, 0, cfx_mul(gw, X(0))));
    GIVE(2, cfx_where(right, 0, cfx_mul(gx, X(0))));
}

/* a times sigmoid(c), for the two halves a and c of the argument. */
void grad_glu_backward(cfx_back *b) {
    int dim = back_dim(b, 2, X(1)->ndim);
    int64_t half = X(1)->shape[dim] / 2;
    cfx_tensor *a = cfx_narrow(X(1), dim, 0, half), *c = cfx_narrow(X(1), dim, half, half);
    cfx_tensor *ga = cfx_narrow(G, dim, 0, half), *gc = cfx_narrow(G, dim, half, half);
    cfx_tensor *s = cfx_sigmoid(c), *slope = slope_of_sigmoid(s);
    GIVE(0, cfx_add(cfx_mul(ga, s), cfx_mul(cfx_mul(gc, a), slope)));
    if (!b->needs[1])
        return;
    cfx_tensor *bend = cfx_mul(cfx_mul(cfx_mul(gc, a), slope), cfx_rsub(cfx_mul(s, 2), 1));
    cfx_tensor *to_a = cfx_mul(cfx_mul(gc, X(0)), slope);
    cfx_tensor *to_c = cfx_mul(X(0), cfx_add(cfx_mul(ga, slope), bend));
    GIVE(1, cfx_cat(cfx_list(to_a, to_c), dim));
}
