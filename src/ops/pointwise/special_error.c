/* The error function's family: scaled erfc, the normal distribution and its inverse. */
#include <cfx/ops.h>

#include "../loops.h"
#include "../special.h"
#include "written/series.inc"
#include "written/error.inc"

CFX_FAMILY(MATH);

FLOAT1(erfcx, 40, NAME_erfcx(x))
FLOAT1(log_ndtr, 60, NAME_log_ndtr(x))
FLOAT1(ndtri, 200, NAME_ndtri(x))

static void decompose_ndtr(cfx_op_call *c) {
    c->out[0] = cfx_mul(cfx_add(cfx_erf(cfx_mul(c->args[0], NAME_SQRT_HALF)), 1), 0.5);
}

CFX_OP(special_erfcx) = {
    "aten::special_erfcx(Tensor self) -> Tensor",
    "torch._C._special.special_erfcx torch.special.erfcx", POINTWISE(erfcx),
    GRAD(special_erfcx, READ(0) | RESULT(0)), .out = "out"};
CFX_OP(special_log_ndtr) = {
    "aten::special_log_ndtr(Tensor self) -> Tensor",
    "torch._C._special.special_log_ndtr torch.special.log_ndtr", POINTWISE(log_ndtr),
    GRAD(special_log_ndtr, READ(0)), .core = core_special_log_ndtr, .out = "out"};
CFX_OP(special_ndtri) = {
    "aten::special_ndtri(Tensor self) -> Tensor",
    "torch._C._special.special_ndtri torch.special.ndtri", POINTWISE(ndtri),
    GRAD(special_ndtri, RESULT(0)), .out = "out"};
CFX_OP(special_ndtr) = {
    "aten::special_ndtr(Tensor self) -> Tensor",
    "torch._C._special.special_ndtr torch.special.ndtr", .decompose = decompose_ndtr,
    .effects = CFX_COMPOSITE, .out = "out"};
