/* Gradients of sums, products and quotients. */
#include "../words.h"

/* ---- sums ------------------------------------------------------------------------------------ */

void grad_add(cfx_back *b) {
    GIVE(0, G);
    GIVE(1, scaled(G, conj_value(A(2))));
}

void grad_sub(cfx_back *b) {
    GIVE(0, G);
    GIVE(1, cfx_neg(scaled(G, conj_value(A(2)))));
}

void grad_rsub(cfx_back *b) {
    GIVE(0, cfx_neg(scaled(G, conj_value(A(2)))));
    GIVE(1, G);
}

BACK(neg, cfx_neg(G))
BACK(same, G)
BACK(zero, cfx_zeros_like(G))

/* ---- products -------------------------------------------------------------------------------- */

void grad_mul(cfx_back *b) {
    GIVE(0, cfx_mul(G, conj_value(A(1))));
    GIVE(1, cfx_mul(G, conj_value(A(0))));
}

void grad_addcmul(cfx_back *b) {
    GIVE(0, G);
    GIVE(1, cfx_mul(G, conj_of(cfx_mul(A(2), A(3)))));
    GIVE(2, cfx_mul(G, conj_of(cfx_mul(A(1), A(3)))));
}

/* ---- quotients ------------------------------------------------------------------------------- */

void grad_div(cfx_back *b) {
    GIVE(0, cfx_div(G, conj_value(A(1))));
    GIVE(1, cfx_mul(cfx_neg(G), conj_of(cfx_div(cfx_div(A(0), A(1)), A(1)))));
}

void grad_div_mode(cfx_back *b) {
    if (cfx_is_none(A(2))) {
        grad_div(b);
        return;
    }
    GIVE(0, cfx_zeros_like(G));
    GIVE(1, cfx_zeros_like(G));
}

/* a - b * floor(a / b), and the same with trunc. */
void grad_remainder(cfx_back *b) {
    GIVE(0, G);
    GIVE(1, cfx_mul(cfx_neg(G), cfx_div(A(0), A(1), CFX_KW(rounding_mode, "floor"))));
}

void grad_fmod(cfx_back *b) {
    GIVE(0, G);
    GIVE(1, cfx_mul(cfx_neg(G), cfx_div(A(0), A(1), CFX_KW(rounding_mode, "trunc"))));
}

void grad_addcdiv(cfx_back *b) {
    GIVE(0, G);
    GIVE(1, cfx_mul(G, conj_of(cfx_mul(cfx_reciprocal(A(2)), A(3)))));
    GIVE(2, cfx_mul(cfx_neg(G), conj_of(cfx_div(cfx_mul(A(1), A(3)), cfx_mul(A(2), A(2))))));
}

BACK(reciprocal, cfx_mul(cfx_neg(G), conj_of(cfx_mul(Y(0), Y(0)))))
BACK(abs, cfx_mul(G, cfx_sgn(A(0))))
