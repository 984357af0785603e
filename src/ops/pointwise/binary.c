/* Functions of two numbers or three: angles, lengths, powers, logarithms of sums, blends. */
#include <cfx/ops.h>

#include "../loops.h"
#include "../numbered.h"
#include "../special.h"

CFX_FAMILY(MATH);

/* ---- angles and lengths ---------------------------------------------------------------------- */

FLOAT2(atan2, 6, atan2(x, y))
ONLY_FLOAT2(hypot, 4, hypot(x, y))
FLOAT2(copysign, 1, copysign(x, y))
ONLY_FLOAT2(nextafter, 8, nextafter(x, y))
NUMBER2(heaviside, 1, x == 0 ? y : (x > 0), x == 0 ? y : (x > 0))

static void shape_heaviside(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (cfx__dtype_is_complex(a->dtype) || cfx__dtype_is_complex(b->dtype))
        op_fail(c, "heaviside is not yet implemented for complex tensors.");
    else if (a->dtype != b->dtype)
        op_fail(c, "heaviside is not yet implemented for tensors with different dtypes.");
    shape_pointwise(c);
}

CFX_OP(atan2) = {"aten::atan2(Tensor self, Tensor other) -> Tensor", "torch.atan2 Tensor.atan2",
                 POINTWISE(atan2), GRAD(atan2, READ(0) | READ(1)), .inplace = "default",
                 .out = "out"};
CFX_OP(arctan2) = {"aten::arctan2(Tensor self, Tensor other) -> Tensor",
                   "torch.arctan2 Tensor.arctan2", ALIAS(atan2), .inplace = "default",
                   .out = "out"};
CFX_OP(hypot) = {"aten::hypot(Tensor self, Tensor other) -> Tensor", "torch.hypot Tensor.hypot",
                 POINTWISE(hypot), GRAD(hypot, READ(0) | READ(1) | RESULT(0)),
                 .inplace = "default", .out = "out"};
CFX_OP(copysign_Tensor) = {"aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor",
                           "torch.copysign Tensor.copysign", POINTWISE(copysign),
                           GRAD(copysign, READ(0) | RESULT(0)), .out = "out", .inplace = "Tensor"};
CFX_OP(copysign_Scalar) = {"aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                           POINTWISE(copysign), GRAD(copysign, READ(0) | RESULT(0)),
                           .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(nextafter) = {"aten::nextafter(Tensor self, Tensor other) -> Tensor",
                     "torch.nextafter Tensor.nextafter", POINTWISE(nextafter),
                     .inplace = "default", .out = "out"};
CFX_OP(heaviside) = {"aten::heaviside(Tensor self, Tensor values) -> Tensor",
                     "torch.heaviside Tensor.heaviside", POINTWISE_AS(heaviside, shape_heaviside),
                     NO_GRAD, .core = core_heaviside, .inplace = "default", .out = "out"};

/* ---- divisors -------------------------------------------------------------------------------- */

#include "written/integers.inc"

INTS(2, gcd, NAME_gcd(x, y))
INTS(2, lcm, NAME_lcm(x, y))
ROW(gcd, RULE_SAME, 30, 2, "gcd_cpu", HAS_INTS(gcd), .no_bool = true)
ROW(lcm, RULE_SAME, 30, 2, "lcm_cpu", HAS_INTS(lcm), .no_bool = true)

CFX_OP(gcd) = {"aten::gcd(Tensor self, Tensor other) -> Tensor", "torch.gcd Tensor.gcd",
               POINTWISE(gcd), .inplace = "default", .out = "out"};
CFX_OP(lcm) = {"aten::lcm(Tensor self, Tensor other) -> Tensor", "torch.lcm Tensor.lcm",
               POINTWISE(lcm), .inplace = "default", .out = "out"};

/* ---- powers ---------------------------------------------------------------------------------- */

FLOATS(2, pow, pow(x, y))
INTS(2, pow, NAME_power(x, y))
COMPLEXES(2, pow, cpow(x, y))
ROW(pow, RULE_SAME, 20, 2, "pow", HAS_FLOATS(pow), HAS_INTS(pow), HAS_COMPLEXES(pow),
    .no_bool = true)
ROW(float_power, RULE_DOUBLE, 20, 2, "pow", HAS_FLOATS(pow), HAS_COMPLEXES(pow))

/* The exponents that are worth a loop of their own. */
#define EXPONENT(id, price, expr)                                                                  \
    FLOATS_SAY(1, id, #expr, expr)                                                                 \
    ROW(id, RULE_SAME, price, 1, "pow", HAS_FLOATS(id))
EXPONENT(power_half, 2, sqrt(x))
EXPONENT(power_2, 1, x *x)
EXPONENT(power_3, 1, x *x *x)
EXPONENT(power_minus_half, 2, 1 / sqrt(x))
EXPONENT(power_minus_1, 1, 1 / x)
EXPONENT(power_minus_2, 1, 1 / (x * x))

static const struct {
    double exponent;
    const pointwise_row *row;
} short_powers[] = {{0.5, &row_power_half},          {2, &row_power_2},
                    {3, &row_power_3},               {-0.5, &row_power_minus_half},
                    {-1, &row_power_minus_1},        {-2, &row_power_minus_2}};

/* Powers of a number are contiguous. */
static void shape_of_number(cfx_op_call *c) {
    const cfx_tensor *exponent = arg_tensor(c, 1);
    cfx_dtype compute, result;
    c->out[0] = &cfx__tensor_bad;
    if (pointwise_dtypes(c, c->op->row, &compute, &result))
        out_new(c, 0, result, exponent->ndim, exponent->shape);
}

static void shape_pow_Scalar(cfx_op_call *c) {
    cfx_tensor *base = arg_tensor(c, 0);
    bool whole = c->args[1].tag == CFX_TAG_INT || c->args[1].tag == CFX_TAG_BOOL;
    if ((cfx__dtype_is_int(base->dtype) || base->dtype == CFX_BOOL) && whole && arg_int(c, 1) < 0)
        op_fail(c, "Integers to negative integer powers are not allowed.");
    shape_pointwise_alone(c);
}

static void kernel_pow_Scalar(cfx_op_call *c) {
    const pointwise_params none = {.text = NULL};
    cfx_dtype compute, result;
    if (!pointwise_dtypes(c, &row_pow, &compute, &result))
        return;
    if (cfx__dtype_is_float(compute))
        for (int i = 0; i < COUNT(short_powers); i++)
            if (short_powers[i].exponent == arg_float(c, 1)) {
                pointwise_run(c, short_powers[i].row, compute, 1, c->args, &none);
                return;
            }
    pointwise_run(c, &row_pow, compute, 2, c->args, &none);
}

static void decompose_square(cfx_op_call *c) { c->out[0] = cfx_pow(arg_tensor(c, 0), 2); }

CFX_OP(pow_Tensor_Tensor) = {"aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                             "torch.pow Tensor.pow operator.pow", POINTWISE(pow),
                             GRAD(pow, READ(0) | READ(1) | RESULT(0)), NUMBERED(1),
                             .inplace = "Tensor",
                             .autocast = CFX_CAST_F32_ON_GPU, .out = "Tensor_Tensor_out"};
CFX_OP(pow_Tensor_Scalar) = {"aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                             NULL, .shape = shape_pow_Scalar, .kernel = kernel_pow_Scalar,
                             .row = &row_pow, .effects = CFX_POINTWISE | CFX_LOOPS,
                             GRAD(pow, READ(0)), NUMBERED(0),
                             .inplace = "Scalar", .autocast = CFX_CAST_F32_ON_GPU,
                             .out = "Tensor_Scalar_out"};
CFX_OP(pow_Scalar) = {"aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor", NULL,
                      POINTWISE_AS(pow, shape_of_number), GRAD(pow, READ(1) | RESULT(0)),
                      .autocast = CFX_CAST_F32_ON_GPU, .out = "Scalar_out"};
CFX_OP(float_power_Tensor_Tensor) = {
    "aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    "torch.float_power Tensor.float_power", POINTWISE(float_power),
    GRAD(pow, READ(0) | READ(1) | RESULT(0)), .inplace = "Tensor",
    .core = core_float_power_Tensor_Tensor, .out = "Tensor_Tensor_out"};
CFX_OP(float_power_Tensor_Scalar) = {
    "aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", NULL,
    POINTWISE_AS(float_power, shape_pointwise_alone), GRAD(pow, READ(0)), .inplace = "Scalar",
    .core = core_float_power_Tensor_Scalar, .out = "Tensor_Scalar_out"};
CFX_OP(float_power_Scalar) = {"aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
                              NULL, POINTWISE_AS(float_power, shape_of_number),
                              GRAD(pow, READ(1) | RESULT(0)),
                              .core = core_float_power_Scalar, .out = "Scalar_out"};
CFX_OP(square) = {"aten::square(Tensor self) -> Tensor", "torch.square Tensor.square",
                  .decompose = decompose_square, .effects = CFX_COMPOSITE, .inplace = "default",
                  .out = "out"};

static void decompose_ldexp(cfx_op_call *c) {
    c->out[0] = cfx_mul(arg_tensor(c, 0), cfx_pow(2.0, arg_tensor(c, 1)));
}

CFX_OP(ldexp_Tensor) = {"aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
                        "torch.ldexp Tensor.ldexp",
                        .decompose = decompose_ldexp, .effects = CFX_COMPOSITE,
                        .inplace = "default", .out = "out"};

/* ---- logarithms ------------------------------------------------------------------------------ */

#define MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
FLOAT2(xlogy, 4, y != y ? y : x == 0 ? 0 : x * vlog(y))
FLOAT_AS(2, special_xlog1py, "xlog1py_cpu", 5, y != y ? y : x == 0 ? 0 : x * log1p(y))
FLOATS(2, logaddexp, x == y && fabs(x) == INFINITY ? x : MAX(x, y) + log1p(vexp(-fabs(x - y))))
COMPLEXES(2, logaddexp, special_log_add(x, y))
ROW(logaddexp, RULE_SAME, 8, 2, "logaddexp_cpu", HAS_FLOATS(logaddexp), HAS_COMPLEXES(logaddexp))
ONLY_FLOAT2(logaddexp2, 8,
            x == y && fabs(x) == INFINITY
                ? x
                : MAX(x, y) + log1p(exp2(-fabs(x - y))) * (T)1.442695040888963407)

CFX_OP(xlogy_Tensor) = {"aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
                        "torch.xlogy Tensor.xlogy", POINTWISE(xlogy),
                        GRAD(xlogy, READ(0) | READ(1)), .core = core_xlogy, .out = "OutTensor",
                        .inplace = "Tensor"};
CFX_OP(xlogy_Scalar_Self) = {"aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor", NULL,
                             POINTWISE(xlogy), GRAD(xlogy, READ(1)), .core = core_xlogy,
                             .out = "OutScalar_Self"};
CFX_OP(xlogy_Scalar_Other) = {"aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", NULL,
                              POINTWISE(xlogy), GRAD(xlogy, READ(0)), .core = core_xlogy,
                              .out = "OutScalar_Other", .inplace = "Scalar_Other"};
CFX_OP(special_xlogy) = {"aten::special_xlogy(Tensor self, Tensor other) -> Tensor",
                         "torch.special.xlogy", ALIAS(xlogy_Tensor), .out = "out"};
CFX_OP(special_xlogy_self_scalar) = {
    "aten::special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor", NULL,
    ALIAS(xlogy_Scalar_Self), .out = "self_scalar_out"};
CFX_OP(special_xlogy_other_scalar) = {
    "aten::special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor", NULL,
    ALIAS(xlogy_Scalar_Other), .out = "other_scalar_out"};
CFX_OP(special_xlog1py) = {"aten::special_xlog1py(Tensor self, Tensor other) -> Tensor",
                           "torch.special.xlog1py", POINTWISE(special_xlog1py),
                           GRAD(xlog1py, READ(0) | READ(1)), .core = core_xlog1py, .out = "out"};
CFX_OP(special_xlog1py_self_scalar) = {
    "aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor", NULL,
    POINTWISE(special_xlog1py), GRAD(xlog1py, READ(1)), .core = core_xlog1py,
    .out = "self_scalar_out"};
CFX_OP(special_xlog1py_other_scalar) = {
    "aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor", NULL,
    POINTWISE(special_xlog1py), GRAD(xlog1py, READ(0)), .core = core_xlog1py,
    .out = "other_scalar_out"};
CFX_OP(logaddexp) = {"aten::logaddexp(Tensor self, Tensor other) -> Tensor",
                     "torch.logaddexp Tensor.logaddexp", POINTWISE(logaddexp),
                     GRAD(logaddexp, READ(0) | READ(1)), .core = core_logaddexp, .out = "out"};
CFX_OP(logaddexp2) = {"aten::logaddexp2(Tensor self, Tensor other) -> Tensor",
                      "torch.logaddexp2 Tensor.logaddexp2", POINTWISE(logaddexp2),
                      GRAD(logaddexp2, READ(0) | READ(1)), .core = core_logaddexp2, .out = "out"};

/* ---- blends ---------------------------------------------------------------------------------- */

/* From x to y by w; from the nearer end, so that both ends are exact. */
#define LERP(x, y, w)                                                                              \
    (fabs(w) < 0.5 ? (x) + (w) * ((y) - (x)) : (y) - ((y) - (x)) * (1 - (w)))
#define COMPLEX_LERP(x, y, w)                                                                      \
    (cabs(w) < 0.5 ? (x) + CMUL(w, (y) - (x)) : (y)-CMUL((y) - (x), 1 - (w)))
FLOATS(2, lerp, LERP(x, y, p0))
COMPLEXES(2, lerp, COMPLEX_LERP(x, y, p0))
ROW(lerp, RULE_SAME, 1, 2, "lerp_kernel_scalar", HAS_FLOATS(lerp), HAS_COMPLEXES(lerp))
FLOATS(3, lerp_by, LERP(x, y, z))
COMPLEXES(3, lerp_by, COMPLEX_LERP(x, y, z))
ROW(lerp_by, RULE_SAME, 1, 3, "lerp_kernel_tensor", HAS_FLOATS(lerp_by), HAS_COMPLEXES(lerp_by))

static void shape_lerp(cfx_op_call *c) {
    static const char *const names[] = {"self", "end", "weight"};
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    for (int i = 1; i < 3; i++)
        if (arg_tensor(c, i) && arg_tensor(c, i)->dtype != d)
            op_fail(c, "expected dtype %s for `%s` but got dtype %s", cfx__dtype_cpp_name(d),
                    names[i], cfx__dtype_cpp_name(arg_tensor(c, i)->dtype));
    shape_pointwise(c);
}

CFX_OP(lerp_Scalar) = {"aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
                       "torch.lerp Tensor.lerp", POINTWISE_AS(lerp, shape_lerp), GRAD(lerp, 0),
                       .core = core_lerp, .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(lerp_Tensor) = {"aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", NULL,
                       POINTWISE_AS(lerp_by, shape_lerp), GRAD(lerp, READ(0) | READ(1) | READ(2)),
                       .core = core_lerp, .inplace = "Tensor", .out = "Tensor_out"};
