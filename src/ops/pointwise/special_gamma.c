/* The gamma function's family: digamma, polygamma, the Hurwitz zeta function, incomplete gammas. */
#define _GNU_SOURCE /* lgamma_r */
#include <cfx/ops.h>

#include "../loops.h"
#include "../special.h"

CFX_FAMILY(MATH);

#undef lgamma_r

/* lgamma, which leaves the sign alone, a variable of all threads. */
static double log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}
#undef lgamma
#define lgamma log_gamma
#include "written/series.inc"
#include "written/gamma.inc"
#undef lgamma

/* ---- rows ------------------------------------------------------------------------------------ */

FLOAT_SAY(1, lgamma, "lgamma_cpu", 30, "lgamma((double)x)", log_gamma(x))
FLOAT1(digamma, 30, NAME_digamma(x))
FLOAT2(igamma, 200, NAME_gamma_p(x, y))
FLOAT2(igammac, 200, NAME_gamma_q(x, y))
FLOAT2(zeta, 200, NAME_hurwitz(x, y))

CFX_OP(lgamma) = {"aten::lgamma(Tensor self) -> Tensor",
                  "torch.lgamma Tensor.lgamma", POINTWISE(lgamma), GRAD(lgamma, READ(0)),
                  .inplace = "default", .out = "out"};
CFX_OP(digamma) = {"aten::digamma(Tensor self) -> Tensor",
                   "torch.digamma Tensor.digamma", POINTWISE(digamma), GRAD(digamma, READ(0)),
                   .inplace = "default", .out = "out"};
CFX_OP(igamma) = {"aten::igamma(Tensor self, Tensor other) -> Tensor",
                  "torch.igamma Tensor.igamma", POINTWISE(igamma), GRAD(igamma, READ(0) | READ(1)),
                  .inplace = "default", .out = "out"};
CFX_OP(igammac) = {"aten::igammac(Tensor self, Tensor other) -> Tensor",
                   "torch.igammac Tensor.igammac", POINTWISE(igammac),
                   GRAD(igammac, READ(0) | READ(1)), .inplace = "default", .out = "out"};
CFX_OP(special_zeta) = {
    "aten::special_zeta(Tensor self, Tensor other) -> Tensor",
    "torch._C._special.special_zeta torch.special.zeta", POINTWISE(zeta),
    GRAD(special_zeta, READ(0) | READ(1)), .out = "out"};
CFX_OP(special_zeta_other_scalar) = {
    "aten::special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_zeta,
    .effects = CFX_OUT_CASTS, .out = "other_scalar_out"};
CFX_OP(special_zeta_self_scalar) = {
    "aten::special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_zeta,
    .effects = CFX_OUT_CASTS, .out = "self_scalar_out"};

/* ---- polygamma: the order comes first -------------------------------------------------------- */

FLOAT1(polygamma, 200, NAME_poly_gamma(p0, x))

/* The call with the operand first, as rows expect it. */
static cfx_op_call operand_first(cfx_op_call *c, cfx_value swapped[2]) {
    cfx_op_call s = *c;
    swapped[0] = c->args[1];
    swapped[1] = c->args[0];
    s.args = swapped;
    return s;
}

static void shape_polygamma(cfx_op_call *c) {
    cfx_value swapped[2];
    cfx_op_call s = operand_first(c, swapped);
    if (arg_int(c, 0) < 0)
        op_fail(c, "polygamma(n, x) does not support negative n.");
    shape_pointwise(&s);
    c->out[0] = s.out[0];
}

static void kernel_polygamma(cfx_op_call *c) {
    cfx_value swapped[2];
    cfx_op_call s = operand_first(c, swapped);
    kernel_pointwise(&s);
}

CFX_OP(polygamma) = {"aten::polygamma(int n, Tensor self) -> Tensor",
                     "torch.polygamma", .shape = shape_polygamma,
                     .kernel = kernel_polygamma, .row = &row_polygamma,
                     .effects = CFX_POINTWISE | CFX_LOOPS,
                     GRAD(polygamma, READ(1)), .out = "out"};

/* Its first argument is not the one that is written to, so this form has a row of its own. */
static void decompose_polygamma_(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0);
    cfx_tensor *y = cfx_polygamma(c->args[1], c->args[0]);
    if (op_failed())
        return;
    if (cfx__dtype_can_cast((cfx_dtype)y->dtype, (cfx_dtype)self->dtype))
        c->out[0] = cfx_copy_(c->args[0], y);
    else
        op_fail(c, "result type %s can't be cast to the desired output type %s",
                cfx__dtype_title(y->dtype), cfx__dtype_title(self->dtype));
}

CFX_OP(polygamma_) = {"aten::polygamma_(Tensor(a!) self, int n) -> Tensor(a!)",
                      "Tensor.polygamma_", .decompose = decompose_polygamma_};

/* ---- mvlgamma -------------------------------------------------------------------------------- */

static double multi_gamma(double p, double x) {
    double sum = p * (p - 1) / 4 * log(NAME_PI);
    for (double k = 0; k < p; k++)
        sum += log_gamma(x - k / 2);
    return sum;
}

FLOAT1(mvlgamma, 200, multi_gamma(p0, x))

/* p is the size of a matrix: a large one is for few elements, so that what it takes is bounded by
 * the size of the tensor. */
static void shape_mvlgamma(cfx_op_call *c) {
    enum { EACH = 1 << 12, ALL = 1 << 24 };
    int64_t p = arg_int(c, 1), numel = arg_tensor(c, 0)->numel, terms;
    if (p < 1)
        op_fail(c, "p has to be greater than or equal to 1");
    else if (p > EACH && (__builtin_mul_overflow(numel, p, &terms) || terms > ALL))
        op_fail(c, "mvlgamma: %lld terms for each of %lld elements are too many", (long long)p,
                (long long)numel);
    int64_t shape[CFX_MAX_DIMS];
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_dtype compute, result;
    if (op_failed() || !pointwise_dtypes(c, c->op->row, &compute, &result)) {
        c->out[0] = &cfx__tensor_bad;
        return;
    }
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    out_new(c, 0, result, t->ndim, shape);
}

CFX_OP(mvlgamma) = {"aten::mvlgamma(Tensor self, int p) -> Tensor",
                    "torch.mvlgamma Tensor.mvlgamma",
                    .shape = shape_mvlgamma, .kernel = kernel_pointwise, .row = &row_mvlgamma,
                    .effects = CFX_POINTWISE, GRAD(mvlgamma, READ(0)), .core = core_mvlgamma,
                    .inplace = "default", .out = "out"};

/* ---- other names ----------------------------------------------------------------------------- */

CFX_OP(special_gammaln) = {
    "aten::special_gammaln(Tensor self) -> Tensor",
    "torch._C._special.special_gammaln torch.special.gammaln", ALIAS(lgamma), .out = "out"};
CFX_OP(special_digamma) = {
    "aten::special_digamma(Tensor self) -> Tensor",
    "torch._C._special.special_digamma torch.special.digamma", ALIAS(digamma), .out = "out"};
CFX_OP(special_psi) = {
    "aten::special_psi(Tensor self) -> Tensor",
    "torch._C._special.special_psi torch.special.psi", ALIAS(digamma), .out = "out"};
CFX_OP(special_gammainc) = {
    "aten::special_gammainc(Tensor self, Tensor other) -> Tensor",
    "torch._C._special.special_gammainc torch.special.gammainc", ALIAS(igamma), .out = "out"};
CFX_OP(special_gammaincc) = {
    "aten::special_gammaincc(Tensor self, Tensor other) -> Tensor",
    "torch._C._special.special_gammaincc torch.special.gammaincc", ALIAS(igammac), .out = "out"};
CFX_OP(special_polygamma) = {
    "aten::special_polygamma(int n, Tensor self) -> Tensor",
    "torch._C._special.special_polygamma torch.special.polygamma", ALIAS(polygamma), .out = "out"};
CFX_OP(special_multigammaln) = {
    "aten::special_multigammaln(Tensor self, int p) -> Tensor",
    "torch._C._special.special_multigammaln torch.special.multigammaln", ALIAS(mvlgamma),
    .out = "out"};

/* ---- what scalar overloads share ------------------------------------------------------------- */

void decompose_wrapped(cfx_op_call *c) {
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < c->nargs; i++) {
        args[i] = c->args[i];
        if (cfx_is_number(args[i]))
            args[i] = cfx_tensor_value(cfx__tensor_wrapped(args[i]));
    }
    c->out[0] = cfx_as_tensor(cfx__op_call_bound(c->at, (cfx_op *)c->op->row, args));
}
