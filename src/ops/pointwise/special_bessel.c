/* Bessel functions of integer order, modified and not, and the Airy function. */
#include "../loops.h"
#include "../special.h"
#include "special_tables.h"

CFX_FAMILY(MATH);

#define SERIES(name, t) special_series(name, COUNT(name), t)
#define SQRT_PI 1.77245385090551602730

/* ---- modified Bessel functions --------------------------------------------------------------- */

/* Times exp(-|x|). */
static double special_i0_scaled(double x) {
    x = fabs(x);
    return x <= 8 ? SERIES(cheb_i0_small, x / 4 - 1) : SERIES(cheb_i0_large, 16 / x - 1) / sqrt(x);
}

static double special_i1_scaled(double x) {
    double a = fabs(x);
    double value =
        a <= 8 ? a * SERIES(cheb_i1_small, a / 4 - 1) : SERIES(cheb_i1_large, 16 / a - 1) / sqrt(a);
    return x < 0 ? -value : value;
}

double special_i0(double x) {
    double a = fabs(x);
    return a <= 8 ? exp(a) * special_i0_scaled(a)
                  : exp(a) * SERIES(cheb_i0_large, 16 / a - 1) / sqrt(a);
}

static double special_i1(double x) {
    double a = fabs(x);
    if (a <= 8)
        return exp(a) * special_i1_scaled(x);
    double value = exp(a) * SERIES(cheb_i1_large, 16 / a - 1) / sqrt(a);
    return x < 0 ? -value : value;
}

/* Times exp(x). */
static double special_k0_scaled(double x) {
    if (x <= 0)
        return x == 0 ? INFINITY : NAN;
    if (x <= 2)
        return exp(x) * (SERIES(cheb_k0_small, x * x / 2 - 1) - log(x / 2) * special_i0(x));
    return SERIES(cheb_k0_large, 4 / x - 1) / sqrt(x);
}

static double special_k1_scaled(double x) {
    if (x <= 0)
        return x == 0 ? INFINITY : NAN;
    if (x <= 2)
        return exp(x) * (SERIES(cheb_k1_small, x * x / 2 - 1) / x + log(x / 2) * special_i1(x));
    return SERIES(cheb_k1_large, 4 / x - 1) / sqrt(x);
}

static double special_k0(double x) { return x == 0 ? INFINITY : exp(-x) * special_k0_scaled(x); }
static double special_k1(double x) { return x == 0 ? INFINITY : exp(-x) * special_k1_scaled(x); }

/* ---- the Airy function ----------------------------------------------------------------------- */

/* Both solutions of y'' = x y as power series, for |x| up to 2. */
static double airy_near(double x) {
    double cube = x * x * x, f = 1, g = x, fk = 1, gk = x;
    for (int k = 3; k < 60; k += 3) {
        fk *= cube / ((k - 1) * k);
        gk *= cube / (k * (k + 1));
        f += fk;
        g += gk;
    }
    return 0.35502805388781723926 * f - 0.25881940379280679840 * g;
}

static double special_airy(double x) {
    const double z0 = 1.88561808316412673174; /* 2/3 2^(3/2) */
    if (isinf(x))
        return NAN;
    if (x > 103.892)
        return 0;
    if (fabs(x) <= 2)
        return airy_near(x);
    double a = fabs(x), root = sqrt(a), z = 2 * a * root / 3, s = z0 / z;
    if (x > 0)
        return SERIES(cheb_airy_right, 2 * s - 1) * exp(-z) / (2 * SQRT_PI * sqrt(root));
    double t = 2 * s * s - 1, angle = z - 0.78539816339744830962;
    return (SERIES(cheb_airy_p, t) * cos(angle) + SERIES(cheb_airy_q, t) / z * sin(angle)) /
           (SQRT_PI * sqrt(root));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static double y0_right(double x) { return x > 0 ? (y0)(x) : x == 0 ? -INFINITY : NAN; }
static double y1_right(double x) { return x > 0 ? (y1)(x) : x == 0 ? -INFINITY : NAN; }
static double spherical(double x) { return isinf(x) ? 0 : x == 0 ? 1 : sin(x) / x; }

FLOAT1(i0, 30, special_i0(x))
FLOAT1(i0e, 30, special_i0_scaled(x))
FLOAT1(i1, 30, special_i1(x))
FLOAT1(i1e, 30, special_i1_scaled(x))
FLOAT1(airy_ai, 60, special_airy(x))
FLOAT1(bessel_j0, 60, (j0)((double)x))
FLOAT1(bessel_j1, 60, (j1)((double)x))
FLOAT1(bessel_y0, 60, y0_right(x))
FLOAT1(bessel_y1, 60, y1_right(x))
FLOAT1(modified_bessel_i0, 30, special_i0(x))
FLOAT1(modified_bessel_i1, 30, special_i1(x))
FLOAT1(modified_bessel_k0, 60, special_k0(x))
FLOAT1(modified_bessel_k1, 60, special_k1(x))
FLOAT1(scaled_modified_bessel_k0, 60, special_k0_scaled(x))
FLOAT1(scaled_modified_bessel_k1, 60, special_k1_scaled(x))
FLOAT1(spherical_bessel_j0, 30, spherical(x))

CFX_OP(i0) = {"aten::i0(Tensor self) -> Tensor", "torch.i0 Tensor.i0", POINTWISE(i0),
              GRAD(i0, READ(0))};
CFX_OP(special_i0) = {
    "aten::special_i0(Tensor self) -> Tensor",
    "torch._C._special.special_i0 torch.special.i0", ALIAS(i0)};
CFX_OP(special_i0e) = {
    "aten::special_i0e(Tensor self) -> Tensor",
    "torch._C._special.special_i0e torch.special.i0e", POINTWISE(i0e),
    GRAD(special_i0e, READ(0) | RESULT(0))};
CFX_OP(special_i1) = {
    "aten::special_i1(Tensor self) -> Tensor",
    "torch._C._special.special_i1 torch.special.i1", POINTWISE(i1),
    GRAD(special_i1, READ(0) | RESULT(0))};
CFX_OP(special_i1e) = {
    "aten::special_i1e(Tensor self) -> Tensor",
    "torch._C._special.special_i1e torch.special.i1e", POINTWISE(i1e),
    GRAD(special_i1e, READ(0) | RESULT(0))};
CFX_OP(special_airy_ai) = {
    "aten::special_airy_ai(Tensor x) -> Tensor",
    "torch._C._special.special_airy_ai torch.special.airy_ai", POINTWISE(airy_ai)};
CFX_OP(special_bessel_j0) = {
    "aten::special_bessel_j0(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_j0 torch.special.bessel_j0", POINTWISE(bessel_j0)};
CFX_OP(special_bessel_j1) = {
    "aten::special_bessel_j1(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_j1 torch.special.bessel_j1", POINTWISE(bessel_j1)};
CFX_OP(special_bessel_y0) = {
    "aten::special_bessel_y0(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_y0 torch.special.bessel_y0", POINTWISE(bessel_y0)};
CFX_OP(special_bessel_y1) = {
    "aten::special_bessel_y1(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_y1 torch.special.bessel_y1", POINTWISE(bessel_y1)};
CFX_OP(special_modified_bessel_i0) = {
    "aten::special_modified_bessel_i0(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_i0 torch.special.modified_bessel_i0",
    POINTWISE(modified_bessel_i0)};
CFX_OP(special_modified_bessel_i1) = {
    "aten::special_modified_bessel_i1(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_i1 torch.special.modified_bessel_i1",
    POINTWISE(modified_bessel_i1)};
CFX_OP(special_modified_bessel_k0) = {
    "aten::special_modified_bessel_k0(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_k0 torch.special.modified_bessel_k0",
    POINTWISE(modified_bessel_k0)};
CFX_OP(special_modified_bessel_k1) = {
    "aten::special_modified_bessel_k1(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_k1 torch.special.modified_bessel_k1",
    POINTWISE(modified_bessel_k1)};
CFX_OP(special_scaled_modified_bessel_k0) = {
    "aten::special_scaled_modified_bessel_k0(Tensor x) -> Tensor",
    "torch._C._special.special_scaled_modified_bessel_k0 torch.special.scaled_modified_bessel_k0",
    POINTWISE(scaled_modified_bessel_k0)};
CFX_OP(special_scaled_modified_bessel_k1) = {
    "aten::special_scaled_modified_bessel_k1(Tensor x) -> Tensor",
    "torch._C._special.special_scaled_modified_bessel_k1 torch.special.scaled_modified_bessel_k1",
    POINTWISE(scaled_modified_bessel_k1)};
CFX_OP(special_spherical_bessel_j0) = {
    "aten::special_spherical_bessel_j0(Tensor x) -> Tensor",
    "torch._C._special.special_spherical_bessel_j0 torch.special.spherical_bessel_j0",
    POINTWISE(spherical_bessel_j0)};
