/* Bessel functions of integer order, modified and not, and the Airy function. */
#include "../loops.h"
#include "../special.h"
#include "written/series.inc"
#include "written/bessel.inc"

CFX_FAMILY(MATH);


double special_i0(double x) { return NAME_i0(x); }

/* ---- rows ------------------------------------------------------------------------------------ */

static double y0_right(double x) { return x > 0 ? (y0)(x) : x == 0 ? -INFINITY : NAN; }
static double y1_right(double x) { return x > 0 ? (y1)(x) : x == 0 ? -INFINITY : NAN; }

FLOAT1(i0, 30, NAME_i0(x))
FLOAT1(i0e, 30, NAME_i0_scaled(x))
FLOAT1(i1, 30, NAME_i1(x))
FLOAT1(i1e, 30, NAME_i1_scaled(x))
FLOAT1(airy_ai, 60, NAME_airy(x))
FLOAT1(bessel_j0, 60, (j0)((double)x))
FLOAT1(bessel_j1, 60, (j1)((double)x))
FLOAT1(bessel_y0, 60, y0_right(x))
FLOAT1(bessel_y1, 60, y1_right(x))
FLOAT1(modified_bessel_i0, 30, NAME_i0(x))
FLOAT1(modified_bessel_i1, 30, NAME_i1(x))
FLOAT1(modified_bessel_k0, 60, NAME_k0(x))
FLOAT1(modified_bessel_k1, 60, NAME_k1(x))
FLOAT1(scaled_modified_bessel_k0, 60, NAME_k0_scaled(x))
FLOAT1(scaled_modified_bessel_k1, 60, NAME_k1_scaled(x))
FLOAT1(spherical_bessel_j0, 30, NAME_spherical(x))

CFX_OP(i0) = {"aten::i0(Tensor self) -> Tensor", "torch.i0 Tensor.i0", POINTWISE(i0),
              GRAD(i0, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(special_i0) = {
    "aten::special_i0(Tensor self) -> Tensor",
    "torch._C._special.special_i0 torch.special.i0", ALIAS(i0), .out = "out"};
CFX_OP(special_i0e) = {
    "aten::special_i0e(Tensor self) -> Tensor",
    "torch._C._special.special_i0e torch.special.i0e", POINTWISE(i0e),
    GRAD(special_i0e, READ(0) | RESULT(0)), .out = "out"};
CFX_OP(special_i1) = {
    "aten::special_i1(Tensor self) -> Tensor",
    "torch._C._special.special_i1 torch.special.i1", POINTWISE(i1),
    GRAD(special_i1, READ(0) | RESULT(0)), .out = "out"};
CFX_OP(special_i1e) = {
    "aten::special_i1e(Tensor self) -> Tensor",
    "torch._C._special.special_i1e torch.special.i1e", POINTWISE(i1e),
    GRAD(special_i1e, READ(0) | RESULT(0)), .out = "out"};
CFX_OP(special_airy_ai) = {
    "aten::special_airy_ai(Tensor x) -> Tensor",
    "torch._C._special.special_airy_ai torch.special.airy_ai", POINTWISE(airy_ai), .out = "out"};
CFX_OP(special_bessel_j0) = {
    "aten::special_bessel_j0(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_j0 torch.special.bessel_j0", POINTWISE(bessel_j0),
    .out = "out"};
CFX_OP(special_bessel_j1) = {
    "aten::special_bessel_j1(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_j1 torch.special.bessel_j1", POINTWISE(bessel_j1),
    .out = "out"};
CFX_OP(special_bessel_y0) = {
    "aten::special_bessel_y0(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_y0 torch.special.bessel_y0", POINTWISE(bessel_y0),
    .out = "out"};
CFX_OP(special_bessel_y1) = {
    "aten::special_bessel_y1(Tensor self) -> Tensor",
    "torch._C._special.special_bessel_y1 torch.special.bessel_y1", POINTWISE(bessel_y1),
    .out = "out"};
CFX_OP(special_modified_bessel_i0) = {
    "aten::special_modified_bessel_i0(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_i0 torch.special.modified_bessel_i0",
    POINTWISE(modified_bessel_i0), .out = "out"};
CFX_OP(special_modified_bessel_i1) = {
    "aten::special_modified_bessel_i1(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_i1 torch.special.modified_bessel_i1",
    POINTWISE(modified_bessel_i1), .out = "out"};
CFX_OP(special_modified_bessel_k0) = {
    "aten::special_modified_bessel_k0(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_k0 torch.special.modified_bessel_k0",
    POINTWISE(modified_bessel_k0), .out = "out"};
CFX_OP(special_modified_bessel_k1) = {
    "aten::special_modified_bessel_k1(Tensor self) -> Tensor",
    "torch._C._special.special_modified_bessel_k1 torch.special.modified_bessel_k1",
    POINTWISE(modified_bessel_k1), .out = "out"};
CFX_OP(special_scaled_modified_bessel_k0) = {
    "aten::special_scaled_modified_bessel_k0(Tensor x) -> Tensor",
    "torch._C._special.special_scaled_modified_bessel_k0 torch.special.scaled_modified_bessel_k0",
    POINTWISE(scaled_modified_bessel_k0), .out = "out"};
CFX_OP(special_scaled_modified_bessel_k1) = {
    "aten::special_scaled_modified_bessel_k1(Tensor x) -> Tensor",
    "torch._C._special.special_scaled_modified_bessel_k1 torch.special.scaled_modified_bessel_k1",
    POINTWISE(scaled_modified_bessel_k1), .out = "out"};
CFX_OP(special_spherical_bessel_j0) = {
    "aten::special_spherical_bessel_j0(Tensor x) -> Tensor",
    "torch._C._special.special_spherical_bessel_j0 torch.special.spherical_bessel_j0",
    POINTWISE(spherical_bessel_j0), .out = "out"};
