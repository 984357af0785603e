/* The error function's family: scaled erfc, the normal distribution and its inverse. */
#include <cfx/ops.h>

#include "../loops.h"
#include "../special.h"
#include "special_tables.h"

CFX_FAMILY(MATH);

#define SQRT_HALF 0.70710678118654752440
#define SQRT_2PI 2.50662827463100050242

/* exp(x^2) erfc(x). */
static double erfcx(double x) {
    if (x < 0) {
        double square = x * x, low = fma(x, x, -square);
        return x < -26.7 ? INFINITY : 2 * exp(square) * (1 + low) - erfcx(-x);
    }
    double t = x > 1e10 ? 1 : (x - 3.75) / (x + 3.75);
    return special_series(cheb_erfcx, COUNT(cheb_erfcx), t) / (1 + 2 * x);
}

static double log_ndtr(double x) {
    double z = x * SQRT_HALF;
    return x < -1 ? log(erfcx(-z) / 2) - z * z : log1p(-erfc(z) / 2);
}

/* The inverse of the normal distribution for p of (0, 1/2]: a rational guess, then two steps of
 * Halley's iteration, each of which triples the digits. */
static double ndtri_left(double p) {
    double r = sqrt(-2 * log(p));
    double x = (2.515517 + r * (0.802853 + r * 0.010328)) /
                   (1 + r * (1.432788 + r * (0.189269 + r * 0.001308))) - r;
    for (int k = 0; k < 3; k++) {
        double u = (0.5 * erfc(-x * SQRT_HALF) - p) * SQRT_2PI * exp(x * x / 2);
        x -= u / (1 + x * u / 2);
    }
    return x;
}

static double ndtri(double p) {
    if (p == 0)
        return -INFINITY;
    if (p == 1)
        return INFINITY;
    if (!(p > 0 && p < 1))
        return NAN;
    return p <= 0.5 ? ndtri_left(p) : -ndtri_left(1 - p);
}

FLOAT1(erfcx, 40, erfcx(x))
FLOAT1(log_ndtr, 60, log_ndtr(x))
FLOAT1(ndtri, 200, ndtri(x))

static void decompose_ndtr(cfx_op_call *c) {
    c->out[0] = cfx_mul(cfx_add(cfx_erf(cfx_mul(c->args[0], SQRT_HALF)), 1), 0.5);
}

CFX_OP(special_erfcx) = {
    "aten::special_erfcx(Tensor self) -> Tensor",
    "torch._C._special.special_erfcx torch.special.erfcx", POINTWISE(erfcx),
    GRAD(special_erfcx, READ(0) | RESULT(0))};
CFX_OP(special_log_ndtr) = {
    "aten::special_log_ndtr(Tensor self) -> Tensor",
    "torch._C._special.special_log_ndtr torch.special.log_ndtr", POINTWISE(log_ndtr),
    GRAD(special_log_ndtr, READ(0)), .core = core_special_log_ndtr};
CFX_OP(special_ndtri) = {
    "aten::special_ndtri(Tensor self) -> Tensor",
    "torch._C._special.special_ndtri torch.special.ndtri", POINTWISE(ndtri),
    GRAD(special_ndtri, RESULT(0))};
CFX_OP(special_ndtr) = {
    "aten::special_ndtr(Tensor self) -> Tensor",
    "torch._C._special.special_ndtr torch.special.ndtr", .decompose = decompose_ndtr,
    .effects = CFX_COMPOSITE};
