/* Orthogonal polynomials: Chebyshev (four kinds, also shifted to [0, 1]), Hermite, Laguerre,
 * Legendre. The order is a tensor too; it is cut to an integer, and orders that are negative or no
 * integer of 64 bits give 0. */
#include "../loops.h"
#include "../special.h"

CFX_FAMILY(MATH);

/* The order from which closed or asymptotic forms replace the recurrences. */
enum { MANY = 100000 };

/* Chebyshev polynomials of kind 0 to 3 (T, U, V, W) outside [-1, 1]. What overflows is nan, as at
 * the end of the recurrence. */
static double chebyshev_outside(int kind, double x, int64_t n) {
    if (x < 0 && kind >= 2)
        kind = 5 - kind; /* V(-x) and W(x) differ by the sign alone */
    double theta = acosh(fabs(x)), value;
    switch (kind) {
    case 0: value = cosh((double)n * theta); break;
    case 1: value = sinh(((double)n + 1) * theta) / sinh(theta); break;
    case 2: value = cosh(((double)n + 0.5) * theta) / cosh(theta / 2); break;
    default: value = sinh(((double)n + 0.5) * theta) / sinh(theta / 2); break;
    }
    return isinf(value) ? NAN : x < 0 && n % 2 ? -value : value;
}

/* Fejer's and Hilb's formulas; the error falls as the order rises. */
static double laguerre_far(double x, int64_t n) {
    double z = 2 * sqrt(fabs(x) * ((double)n + 0.5));
    double value = exp(x / 2) * (x < 0 ? special_i0(z) : (j0)(z));
    return isinf(value) ? NAN : value;
}

static double legendre_far(double x, int64_t n) {
    double a = fabs(x), sign = x < 0 && n % 2 ? -1 : 1;
    double theta = a < 1 ? acos(a) : acosh(a), z = ((double)n + 0.5) * theta;
    double value = a < 1 ? sqrt(theta / sin(theta)) * (j0)(z)
                         : sqrt(theta / sinh(theta)) * special_i0(z);
    return isinf(value) ? NAN : sign * value;
}

#define T float
#define FN(name) name##_of_f32
#define HERMITE_LIMIT 128
#include "special_poly.inc"
#define T double
#define FN(name) name##_of_f64
#define HERMITE_LIMIT 512
#include "special_poly.inc"

/* A row: the polynomial of x or of 2 x - 1. */
#define POLYNOMIAL(id, fn, at)                                                                     \
    SAYS(id, float, #fn "(" #at ", y)")                                                            \
    LOOP2(id##_f32, float, float, f, fn##_of_f32(at, y))                                           \
    LOOP2(id##_f64, double, double, f, fn##_of_f64(at, y))                                         \
    static const pointwise_row row_##id = {RULE_FLOAT, 100, .name = #id "_cpu", HAS_FLOATS(id)};

POLYNOMIAL(chebyshev_polynomial_t, chebyshev_t, x)
POLYNOMIAL(chebyshev_polynomial_u, chebyshev_u, x)
POLYNOMIAL(chebyshev_polynomial_v, chebyshev_v, x)
POLYNOMIAL(chebyshev_polynomial_w, chebyshev_w, x)
POLYNOMIAL(shifted_chebyshev_polynomial_t, chebyshev_t, x + x - 1)
POLYNOMIAL(shifted_chebyshev_polynomial_u, chebyshev_u, x + x - 1)
POLYNOMIAL(shifted_chebyshev_polynomial_v, chebyshev_v, x + x - 1)
POLYNOMIAL(shifted_chebyshev_polynomial_w, chebyshev_w, x + x - 1)
POLYNOMIAL(hermite_polynomial_h, hermite_h, x)
POLYNOMIAL(hermite_polynomial_he, hermite_he, x)
POLYNOMIAL(laguerre_polynomial_l, laguerre, x)
POLYNOMIAL(legendre_polynomial_p, legendre, x)

CFX_OP(special_chebyshev_polynomial_t) = {
    "aten::special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_chebyshev_polynomial_t torch.special.chebyshev_polynomial_t",
    POINTWISE(chebyshev_polynomial_t), .out = "out"};
CFX_OP(special_chebyshev_polynomial_t_x_scalar) = {
    "aten::special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_t,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_chebyshev_polynomial_t_n_scalar) = {
    "aten::special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_t,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_chebyshev_polynomial_u) = {
    "aten::special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_chebyshev_polynomial_u torch.special.chebyshev_polynomial_u",
    POINTWISE(chebyshev_polynomial_u), .out = "out"};
CFX_OP(special_chebyshev_polynomial_u_x_scalar) = {
    "aten::special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_u,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_chebyshev_polynomial_u_n_scalar) = {
    "aten::special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_u,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_chebyshev_polynomial_v) = {
    "aten::special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_chebyshev_polynomial_v torch.special.chebyshev_polynomial_v",
    POINTWISE(chebyshev_polynomial_v), .out = "out"};
CFX_OP(special_chebyshev_polynomial_v_x_scalar) = {
    "aten::special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_v,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_chebyshev_polynomial_v_n_scalar) = {
    "aten::special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_v,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_chebyshev_polynomial_w) = {
    "aten::special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_chebyshev_polynomial_w torch.special.chebyshev_polynomial_w",
    POINTWISE(chebyshev_polynomial_w), .out = "out"};
CFX_OP(special_chebyshev_polynomial_w_x_scalar) = {
    "aten::special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_w,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_chebyshev_polynomial_w_n_scalar) = {
    "aten::special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_chebyshev_polynomial_w,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_t) = {
    "aten::special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_shifted_chebyshev_polynomial_t "
    "torch.special.shifted_chebyshev_polynomial_t", POINTWISE(shifted_chebyshev_polynomial_t),
    .out = "out"};
CFX_OP(special_shifted_chebyshev_polynomial_t_x_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_t,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_t_n_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_t,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_u) = {
    "aten::special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_shifted_chebyshev_polynomial_u "
    "torch.special.shifted_chebyshev_polynomial_u", POINTWISE(shifted_chebyshev_polynomial_u),
    .out = "out"};
CFX_OP(special_shifted_chebyshev_polynomial_u_x_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_u,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_u_n_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_u,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_v) = {
    "aten::special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_shifted_chebyshev_polynomial_v "
    "torch.special.shifted_chebyshev_polynomial_v", POINTWISE(shifted_chebyshev_polynomial_v),
    .out = "out"};
CFX_OP(special_shifted_chebyshev_polynomial_v_x_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_v,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_v_n_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_v,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_w) = {
    "aten::special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_shifted_chebyshev_polynomial_w "
    "torch.special.shifted_chebyshev_polynomial_w", POINTWISE(shifted_chebyshev_polynomial_w),
    .out = "out"};
CFX_OP(special_shifted_chebyshev_polynomial_w_x_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_w,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_shifted_chebyshev_polynomial_w_n_scalar) = {
    "aten::special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_shifted_chebyshev_polynomial_w,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_hermite_polynomial_h) = {
    "aten::special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_hermite_polynomial_h torch.special.hermite_polynomial_h",
    POINTWISE(hermite_polynomial_h), .out = "out"};
CFX_OP(special_hermite_polynomial_h_x_scalar) = {
    "aten::special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_hermite_polynomial_h,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_hermite_polynomial_h_n_scalar) = {
    "aten::special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_hermite_polynomial_h,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_hermite_polynomial_he) = {
    "aten::special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_hermite_polynomial_he torch.special.hermite_polynomial_he",
    POINTWISE(hermite_polynomial_he), .out = "out"};
CFX_OP(special_hermite_polynomial_he_x_scalar) = {
    "aten::special_hermite_polynomial_he.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_hermite_polynomial_he,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_hermite_polynomial_he_n_scalar) = {
    "aten::special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_hermite_polynomial_he,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_laguerre_polynomial_l) = {
    "aten::special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_laguerre_polynomial_l torch.special.laguerre_polynomial_l",
    POINTWISE(laguerre_polynomial_l), .out = "out"};
CFX_OP(special_laguerre_polynomial_l_x_scalar) = {
    "aten::special_laguerre_polynomial_l.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_laguerre_polynomial_l,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_laguerre_polynomial_l_n_scalar) = {
    "aten::special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_laguerre_polynomial_l,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
CFX_OP(special_legendre_polynomial_p) = {
    "aten::special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor",
    "torch._C._special.special_legendre_polynomial_p torch.special.legendre_polynomial_p",
    POINTWISE(legendre_polynomial_p), .out = "out"};
CFX_OP(special_legendre_polynomial_p_x_scalar) = {
    "aten::special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_legendre_polynomial_p,
    .effects = CFX_OUT_CASTS, .out = "x_scalar_out"};
CFX_OP(special_legendre_polynomial_p_n_scalar) = {
    "aten::special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_legendre_polynomial_p,
    .effects = CFX_OUT_CASTS, .out = "n_scalar_out"};
