/* Functions of one number: exponentials, logarithms, trigonometry, rounding, signs. */
#include "../loops.h"
#include "by_hand.h"
#include "../views.h"

CFX_FAMILY(MATH);

/* ---- powers of e and 2, logarithms, roots ---------------------------------------------------- */

FLOATS(1, exp, vexp(x))
COMPLEXES(1, exp, cexp(x))
ROW(exp, RULE_FLOAT, 3, 1, "exp_cpu", HAS_FLOATS(exp), HAS_COMPLEXES(exp), .by_hand = &by_hand_exp)
ANALYTIC1(exp2, 3, exp2(x), cpow((T)2, x))
ANALYTIC1(expm1, 4, expm1(x), cexp(x) - 1)
FLOATS(1, log, vlog(x))
COMPLEXES(1, log, clog(x))
ROW(log, RULE_FLOAT, 3, 1, "log_cpu", HAS_FLOATS(log), HAS_COMPLEXES(log), .by_hand = &by_hand_log)
ANALYTIC1(log2, 4, log2(x), clog(x) * 1.442695040888963407)
ANALYTIC1(log10, 4, log10(x), clog(x) * 0.434294481903251828)
ANALYTIC1(log1p, 4, log1p(x), clog(1 + x))
ANALYTIC1(sqrt, 2, sqrt(x), csqrt(x))
ANALYTIC1(rsqrt, 2, 1 / sqrt(x), 1 / csqrt(x))

CFX_OP(exp) = {"aten::exp(Tensor self) -> Tensor", "torch.exp Tensor.exp", POINTWISE(exp),
               GRAD(exp, RESULT(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
               .out = "out"};
CFX_OP(exp2) = {"aten::exp2(Tensor self) -> Tensor", "torch.exp2 Tensor.exp2", POINTWISE(exp2),
                GRAD(exp2, RESULT(0)), .inplace = "default", .out = "out"};
CFX_OP(expm1) = {"aten::expm1(Tensor self) -> Tensor", "torch.expm1 Tensor.expm1",
                 POINTWISE(expm1), GRAD(expm1, RESULT(0)), .autocast = CFX_CAST_F32_ON_GPU,
                 .inplace = "default", .out = "out"};
CFX_OP(log) = {"aten::log(Tensor self) -> Tensor", "torch.log Tensor.log", POINTWISE(log),
               GRAD(log, READ(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
               .out = "out"};
CFX_OP(log2) = {"aten::log2(Tensor self) -> Tensor", "torch.log2 Tensor.log2", POINTWISE(log2),
                GRAD(log2, READ(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
                .out = "out"};
CFX_OP(log10) = {"aten::log10(Tensor self) -> Tensor", "torch.log10 Tensor.log10",
                 POINTWISE(log10), GRAD(log10, READ(0)), .autocast = CFX_CAST_F32_ON_GPU,
                 .inplace = "default", .out = "out"};
CFX_OP(log1p) = {"aten::log1p(Tensor self) -> Tensor", "torch.log1p Tensor.log1p",
                 POINTWISE(log1p), GRAD(log1p, READ(0)), .autocast = CFX_CAST_F32_ON_GPU,
                 .inplace = "default", .out = "out"};
CFX_OP(sqrt) = {"aten::sqrt(Tensor self) -> Tensor", "torch.sqrt Tensor.sqrt", POINTWISE(sqrt),
                GRAD(sqrt, RESULT(0)), .inplace = "default", .out = "out"};
CFX_OP(rsqrt) = {"aten::rsqrt(Tensor self) -> Tensor", "torch.rsqrt Tensor.rsqrt",
                 POINTWISE(rsqrt), GRAD(rsqrt, RESULT(0)), .autocast = CFX_CAST_F32_ON_GPU,
                 .inplace = "default", .out = "out"};
CFX_OP(special_exp2) = {"aten::special_exp2(Tensor self) -> Tensor", "torch.special.exp2",
                        ALIAS(exp2), .out = "out"};
CFX_OP(special_expm1) = {"aten::special_expm1(Tensor self) -> Tensor", "torch.special.expm1",
                         ALIAS(expm1), .out = "out"};
CFX_OP(special_log1p) = {"aten::special_log1p(Tensor self) -> Tensor", "torch.special.log1p",
                         ALIAS(log1p), .out = "out"};

/* ---- trigonometry ---------------------------------------------------------------------------- */

ANALYTIC1(sin, 4, sin(x), csin(x))
ANALYTIC1(cos, 4, cos(x), ccos(x))
ANALYTIC1(tan, 4, tan(x), ctan(x))
ANALYTIC1(asin, 4, asin(x), casin(x))
ANALYTIC1(acos, 4, acos(x), cacos(x))
ANALYTIC1(atan, 4, atan(x), catan(x))
ANALYTIC1(sinh, 4, sinh(x), csinh(x))
ANALYTIC1(cosh, 4, cosh(x), ccosh(x))
FLOATS(1, tanh, tanh(x))
COMPLEXES(1, tanh, ctanh(x))
ROW(tanh, RULE_FLOAT, 4, 1, "tanh_cpu", HAS_FLOATS(tanh), HAS_COMPLEXES(tanh),
    .by_hand = &by_hand_tanh)
ANALYTIC1(asinh, 6, asinh(x), casinh(x))
ANALYTIC1(acosh, 6, acosh(x), cacosh(x))
ANALYTIC1(atanh, 6, atanh(x), catanh(x))
ANALYTIC1(sinc, 4, x == 0 ? 1 : sin((T)M_PI * x) / ((T)M_PI * x),
          x == 0 ? 1 : csin((T)M_PI * x) / ((T)M_PI * x))
FLOAT1(deg2rad, 1, x *(T)(M_PI / 180))
FLOAT1(rad2deg, 1, x *(T)(180 / M_PI))

static void shape_degrees(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        op_fail(c, "%s is not supported for complex tensors.", op_title(c));
    shape_pointwise_like(c);
}

CFX_OP(sin) = {"aten::sin(Tensor self) -> Tensor", "torch.sin Tensor.sin", POINTWISE(sin),
               GRAD(sin, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(cos) = {"aten::cos(Tensor self) -> Tensor", "torch.cos Tensor.cos", POINTWISE(cos),
               GRAD(cos, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(tan) = {"aten::tan(Tensor self) -> Tensor", "torch.tan Tensor.tan", POINTWISE(tan),
               GRAD(tan, RESULT(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
               .out = "out"};
CFX_OP(asin) = {"aten::asin(Tensor self) -> Tensor", "torch.asin Tensor.asin", POINTWISE(asin),
                GRAD(asin, READ(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
                .out = "out"};
CFX_OP(acos) = {"aten::acos(Tensor self) -> Tensor", "torch.acos Tensor.acos", POINTWISE(acos),
                GRAD(acos, READ(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
                .out = "out"};
CFX_OP(atan) = {"aten::atan(Tensor self) -> Tensor", "torch.atan Tensor.atan", POINTWISE(atan),
                GRAD(atan, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(sinh) = {"aten::sinh(Tensor self) -> Tensor", "torch.sinh Tensor.sinh", POINTWISE(sinh),
                GRAD(sinh, READ(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
                .out = "out"};
CFX_OP(cosh) = {"aten::cosh(Tensor self) -> Tensor", "torch.cosh Tensor.cosh", POINTWISE(cosh),
                GRAD(cosh, READ(0)), .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default",
                .out = "out"};
CFX_FAMILY(ACTIVATION);
CFX_OP(tanh) = {"aten::tanh(Tensor self) -> Tensor",
                "torch.tanh Tensor.tanh", POINTWISE_POST(tanh, shape_pointwise, TANH),
                GRAD(tanh, RESULT(0)), .quantized = CFX_QUANTIZED_SIGNED, .inplace = "default",
                .out = "out"};
CFX_FAMILY(MATH);
CFX_OP(asinh) = {"aten::asinh(Tensor self) -> Tensor", "torch.asinh Tensor.asinh",
                 POINTWISE(asinh), GRAD(asinh, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(acosh) = {"aten::acosh(Tensor self) -> Tensor", "torch.acosh Tensor.acosh",
                 POINTWISE(acosh), GRAD(acosh, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(atanh) = {"aten::atanh(Tensor self) -> Tensor", "torch.atanh Tensor.atanh",
                 POINTWISE(atanh), GRAD(atanh, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(arcsin) = {"aten::arcsin(Tensor self) -> Tensor", "torch.arcsin Tensor.arcsin", ALIAS(asin),
                  .inplace = "default", .out = "out"};
CFX_OP(arccos) = {"aten::arccos(Tensor self) -> Tensor", "torch.arccos Tensor.arccos", ALIAS(acos),
                  .inplace = "default", .out = "out"};
CFX_OP(arctan) = {"aten::arctan(Tensor self) -> Tensor", "torch.arctan Tensor.arctan", ALIAS(atan),
                  .inplace = "default", .out = "out"};
CFX_OP(arcsinh) = {"aten::arcsinh(Tensor self) -> Tensor", "torch.arcsinh Tensor.arcsinh",
                   ALIAS(asinh), .inplace = "default", .out = "out"};
CFX_OP(arccosh) = {"aten::arccosh(Tensor self) -> Tensor", "torch.arccosh Tensor.arccosh",
                   ALIAS(acosh), .inplace = "default", .out = "out"};
CFX_OP(arctanh) = {"aten::arctanh(Tensor self) -> Tensor", "torch.arctanh Tensor.arctanh",
                   ALIAS(atanh), .inplace = "default", .out = "out"};
CFX_OP(sinc) = {"aten::sinc(Tensor self) -> Tensor", "torch.sinc Tensor.sinc", POINTWISE(sinc),
                GRAD(sinc, READ(0)), .core = core_sinc, .inplace = "default", .out = "out"};
CFX_OP(special_sinc) = {"aten::special_sinc(Tensor self) -> Tensor", "torch.special.sinc",
                        ALIAS(sinc), .out = "out"};
CFX_OP(deg2rad) = {"aten::deg2rad(Tensor self) -> Tensor", "torch.deg2rad Tensor.deg2rad",
                   POINTWISE_AS(deg2rad, shape_degrees), GRAD(deg2rad, 0), .core = core_deg2rad,
                   .inplace = "default", .out = "out"};
CFX_OP(rad2deg) = {"aten::rad2deg(Tensor self) -> Tensor", "torch.rad2deg Tensor.rad2deg",
                   POINTWISE_AS(rad2deg, shape_degrees), GRAD(rad2deg, 0), .core = core_rad2deg,
                   .inplace = "default", .out = "out"};

/* ---- the error function and its kin ---------------------------------------------------------- */

#include "written/erfinv.inc"

#define LOGIT(x) vlog((x) / (1 - (x)))
FLOATS(1, erf, verf(x))
ROW(erf, RULE_FLOAT, 4, 1, "erf_vml_cpu", HAS_FLOATS(erf), .by_hand = &by_hand_erf)
FLOAT_AS(1, erfc, "erfc_vml_cpu", 5, erfc(x))
FLOAT_AS(1, erfinv, "erfinv_vml_cpu", 60, NAME_erfinv(x))
FLOAT1(logit, 5, LOGIT(x))
FLOAT1(logit_eps, 5, LOGIT(x < p0 ? p0 : x > 1 - p0 ? 1 - p0 : x))
FLOATS(1, sigmoid, vsigmoid(x))
COMPLEXES(1, sigmoid, 1 / (1 + cexp(-x)))
ROW(sigmoid, RULE_FLOAT, 3, 1, "sigmoid_cpu", HAS_FLOATS(sigmoid), HAS_COMPLEXES(sigmoid),
    .by_hand = &by_hand_sigmoid)
FLOAT_AS(1, special_entr, "entr_cpu", 4,
         x != x ? x : x > 0 ? -x * vlog(x) : x == 0 ? 0 : -(T)INFINITY)

/* With an eps, what is below eps or above 1 - eps is taken to be there. */
static void shape_logit(cfx_op_call *c) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    shape_pointwise(c);
    if (!arg_is_none(c, 1) && !op_failed())
        number_fits(c, c->args[1], d == CFX_F64 ? CFX_F64 : CFX_F32);
}

static void kernel_logit(cfx_op_call *c) {
    bool held = !arg_is_none(c, 1) && arg_float(c, 1) >= 0;
    pointwise_kernel(c, held ? &row_logit_eps : &row_logit,
                     &(pointwise_params){.f = {arg_float(c, 1)}});
}

CFX_OP(erf) = {"aten::erf(Tensor self) -> Tensor", "torch.erf Tensor.erf", POINTWISE(erf),
               GRAD(erf, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(erfc) = {"aten::erfc(Tensor self) -> Tensor", "torch.erfc Tensor.erfc", POINTWISE(erfc),
                GRAD(erfc, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(erfinv) = {"aten::erfinv(Tensor self) -> Tensor", "torch.erfinv Tensor.erfinv",
                  POINTWISE(erfinv), GRAD(erfinv, RESULT(0)), .autocast = CFX_CAST_F32_ON_GPU,
                  .inplace = "default", .out = "out"};
CFX_OP(special_erf) = {"aten::special_erf(Tensor self) -> Tensor", "torch.special.erf", ALIAS(erf),
                       .out = "out"};
CFX_OP(special_erfc) = {"aten::special_erfc(Tensor self) -> Tensor", "torch.special.erfc",
                        ALIAS(erfc), .out = "out"};
CFX_OP(special_erfinv) = {"aten::special_erfinv(Tensor self) -> Tensor", "torch.special.erfinv",
                          ALIAS(erfinv), .out = "out"};
CFX_FAMILY(ACTIVATION);
CFX_OP(sigmoid) = {"aten::sigmoid(Tensor self) -> Tensor", "torch.sigmoid Tensor.sigmoid",
                   POINTWISE_POST(sigmoid, shape_pointwise, SIGMOID), GRAD(sigmoid, RESULT(0)),
                   .quantized = CFX_QUANTIZED_UNIT, .inplace = "default", .out = "out"};
CFX_FAMILY(MATH);
CFX_OP(special_expit) = {"aten::special_expit(Tensor self) -> Tensor", "torch.special.expit",
                         ALIAS(sigmoid), .out = "out"};
CFX_OP(logit) = {"aten::logit(Tensor self, float? eps=None) -> Tensor", "torch.logit Tensor.logit",
                 .shape = shape_logit, .kernel = kernel_logit, .row = &row_logit,
                 .effects = CFX_POINTWISE, GRAD(logit, READ(0)), .core = core_logit,
                 .inplace = "default", .out = "out"};
CFX_OP(special_logit) = {"aten::special_logit(Tensor self, float? eps=None) -> Tensor",
                         "torch.special.logit", ALIAS(logit), .out = "out"};
CFX_OP(special_entr) = {"aten::special_entr(Tensor self) -> Tensor", "torch.special.entr",
                        POINTWISE(special_entr), GRAD(special_entr, READ(0)),
                        .core = core_special_entr, .out = "out"};
