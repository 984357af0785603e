/* Rounding, signs, and what is asked of one number: is it finite? */
#include "../loops.h"

CFX_FAMILY(MATH);

/* ---- rounding -------------------------------------------------------------------------------- */

/* Integers are whole already; bools and complex numbers are refused. */
#define ROUNDING(id, cost, expr)                                                                   \
    FLOATS_SAY(1, id, #expr, expr)                                                                 \
    INTS(1, id, x)                                                                                 \
    ROW(id, RULE_SAME, cost, 1, #id "_vml_cpu", HAS_FLOATS(id), HAS_INTS(id), .no_bool = true)
ROUNDING(ceil, 1, ceil(x))
ROUNDING(floor, 1, floor(x))
ROUNDING(trunc, 1, trunc(x))
ROUNDING(round, 1, rint(x))
ONLY_FLOAT_AS(1, round_floats, "round_vml_cpu", 1, rint(x))
ONLY_FLOAT_AS(1, round_decimals, "round_cpu", 2, p1 != 0 ? rint(x / p0) * p0 : rint(x * p0) / p0)
ONLY_FLOAT1(frac, 1, x - trunc(x))

static const pointwise_row *round_row(const cfx_op_call *c) {
    return arg_int(c, 1) ? &row_round_decimals : &row_round_floats;
}

static void shape_round_decimals(cfx_op_call *c) { pointwise_shape(c, round_row(c)); }

/* The factor is ten to the number of decimals; a negative number of them divides by it. */
static void kernel_round_decimals(cfx_op_call *c) {
    double decimals = (double)arg_int(c, 1);
    pointwise_kernel(c, round_row(c),
                     &(pointwise_params){.f = {pow(10., fabs(decimals)), decimals < 0}});
}

static void shape_rounding(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        op_fail(c, "%s is not supported for complex inputs", op_title(c));
    shape_pointwise(c);
}

CFX_OP(ceil) = {"aten::ceil(Tensor self) -> Tensor", "torch.ceil Tensor.ceil",
                POINTWISE_IN(ceil, shape_rounding, CFX_IN_UINT), GRAD(zero, 0),
                .inplace = "default", .out = "out"};
CFX_OP(floor) = {"aten::floor(Tensor self) -> Tensor", "torch.floor Tensor.floor",
                 POINTWISE_IN(floor, shape_rounding, CFX_IN_UINT), GRAD(zero, 0),
                 .inplace = "default", .out = "out"};
CFX_OP(trunc) = {"aten::trunc(Tensor self) -> Tensor", "torch.trunc Tensor.trunc",
                 POINTWISE_IN(trunc, shape_rounding, CFX_IN_UINT), GRAD(zero, 0),
                 .inplace = "default", .out = "out"};
CFX_OP(fix) = {"aten::fix(Tensor self) -> Tensor", "torch.fix Tensor.fix", ALIAS(trunc),
               .inplace = "default", .out = "out"};
CFX_OP(round) = {"aten::round(Tensor self) -> Tensor", "torch.round Tensor.round",
                 POINTWISE_IN(round, shape_pointwise, CFX_IN_UINT), GRAD(zero, 0),
                 .inplace = "default", .out = "out"};
CFX_OP(round_decimals) = {"aten::round.decimals(Tensor self, *, int decimals) -> Tensor", NULL,
                          .shape = shape_round_decimals, .kernel = kernel_round_decimals,
                          .effects = CFX_POINTWISE, GRAD(zero, 0), .inplace = "decimals",
                          .out = "decimals_out"};
CFX_OP(special_round) = {"aten::special_round(Tensor self, *, int decimals=0) -> Tensor",
                         "torch.special.round", ALIAS(round_decimals), .out = "out"};
CFX_OP(frac) = {"aten::frac(Tensor self) -> Tensor", "torch.frac Tensor.frac", POINTWISE(frac),
                GRAD(same, 0), .core = core_frac, .inplace = "default", .out = "out"};

/* ---- signs ----------------------------------------------------------------------------------- */

/* x / |x|, or 0. */
#define UNIT(x) ((x) == 0 ? 0 : (x) / cabs(x))
NUMBER1(sign, 1, (x > 0) - (x < 0), (x > 0) - (x < 0))
FIELD1(sgn, 1, (x > 0) - (x < 0), (x > 0) - (x < 0), UNIT(x))
COMPARE1(signbit, signbit((double)x) != 0)

static void shape_sign(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        op_fail(c, "Unlike NumPy, torch.sign is not intended to support complex numbers. Please "
                   "use torch.sgn instead.");
    shape_pointwise(c);
}

static void shape_signbit(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        op_fail(c, "signbit is not implemented for complex tensors.");
    shape_pointwise(c);
}

CFX_OP(sign) = {"aten::sign(Tensor self) -> Tensor", "torch.sign Tensor.sign",
                POINTWISE_AS(sign, shape_sign), GRAD(zero, 0), .inplace = "default", .out = "out"};
CFX_OP(sgn) = {"aten::sgn(Tensor self) -> Tensor", "torch.sgn Tensor.sgn",
               POINTWISE_IN(sgn, shape_pointwise, CFX_IN(C32)), GRAD(sgn, READ(0) | RESULT(0)),
               .core = core_sgn, .inplace = "default", .out = "out"};
CFX_OP(signbit) = {"aten::signbit(Tensor self) -> Tensor", "torch.signbit Tensor.signbit",
                   POINTWISE_AS(signbit, shape_signbit), .out = "out"};

/* ---- questions ------------------------------------------------------------------------------- */

/* What holds for a float; integers have one answer; a complex number is asked by its parts. */
#define QUESTION(id, expr, iexpr, cexpr)                                                           \
    SAYS(id, float, #expr)                                                                         \
    SAYS(id, int, #iexpr)                                                                          \
    SAYS(id, complex, #cexpr)                                                                      \
    LOOP1(id##_f32, float, uint8_t, f, expr)                                                       \
    LOOP1(id##_f64, double, uint8_t, f, expr)                                                      \
    LOOP1(id##_i64, int64_t, uint8_t, i, (void)x, iexpr)                                           \
    LOOP1(id##_c64, c64_t, uint8_t, c, cexpr)                                                      \
    LOOP1(id##_c128, c128_t, uint8_t, c, cexpr)                                                    \
    ROW(id, RULE_BOOL, 1, 1, #id "_cpu", HAS_FLOATS(id), HAS_INTS(id), HAS_COMPLEXES(id))
#define INFINITE(x) (fabs(x) == INFINITY)
QUESTION(isnan, x != x, 0, x != x)
QUESTION(isinf, INFINITE(x), 0, INFINITE(creal(x)) || INFINITE(cimag(x)))
QUESTION(isfinite, fabs(x) < INFINITY, 1, fabs(creal(x)) < INFINITY && fabs(cimag(x)) < INFINITY)
QUESTION(isposinf, x == INFINITY, 0, ((void)x, 0))
QUESTION(isneginf, x == -INFINITY, 0, ((void)x, 0))
QUESTION(isreal, ((void)x, 1), 1, cimag(x) == 0)

/* Of integers the answer is known. */
static void shape_finite(cfx_op_call *c) {
    const cfx_dtype d = arg_tensor(c, 0)->dtype;
    if (cfx__dtype_is_integral(d) || d == CFX_BOOL)
        shape_pointwise_like(c);
    else
        shape_pointwise(c);
}

/* Asked by a comparison of the parts of complex numbers with a number. */
static void shape_of_parts(cfx_op_call *c, void (*others)(cfx_op_call *)) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t stride[CFX_MAX_DIMS];
    if (!cfx__dtype_is_complex(t->dtype)) {
        others(c);
        return;
    }
    cfx__strides_sorted(1, &t, t->ndim, t->shape, stride);
    out_strided(c, 0, CFX_BOOL, t->ndim, t->shape, stride);
}

static void shape_isinf(cfx_op_call *c) { shape_of_parts(c, shape_finite); }
static void shape_isreal(cfx_op_call *c) { shape_of_parts(c, shape_pointwise_like); }

static void shape_real_question(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        op_fail(c, "%s does not support complex inputs.", op_title(c));
    shape_pointwise(c);
}

CFX_FAMILY(COMPARE);
CFX_OP(isnan) = {"aten::isnan(Tensor self) -> Tensor", "torch.isnan Tensor.isnan",
                 POINTWISE_IN(isnan, shape_pointwise, CFX_IN_STORED), .out = "out"};
CFX_OP(isinf) = {"aten::isinf(Tensor self) -> Tensor", "torch.isinf Tensor.isinf",
                 POINTWISE_IN(isinf, shape_isinf, CFX_IN_UINT | CFX_IN(C32)), .out = "out"};
CFX_OP(isfinite) = {"aten::isfinite(Tensor self) -> Tensor", "torch.isfinite Tensor.isfinite",
                    POINTWISE_IN(isfinite, shape_finite, CFX_IN_UINT | CFX_IN(C32)),
                    .core = core_isfinite};
CFX_OP(isreal) = {"aten::isreal(Tensor self) -> Tensor", "torch.isreal Tensor.isreal",
                  POINTWISE_IN(isreal, shape_isreal, CFX_IN_STORED)};
CFX_OP(isposinf) = {"aten::isposinf(Tensor self) -> Tensor", "torch.isposinf Tensor.isposinf",
                    POINTWISE_IN(isposinf, shape_real_question, CFX_IN_UINT),
                    .core = core_isposinf, .out = "out"};
CFX_OP(isneginf) = {"aten::isneginf(Tensor self) -> Tensor", "torch.isneginf Tensor.isneginf",
                    POINTWISE_IN(isneginf, shape_real_question, CFX_IN_UINT),
                    .core = core_isneginf, .out = "out"};

/* ---- what is not a number -------------------------------------------------------------------- */

#define NAN_TO_NUM(x) ((x) != (x) ? p0 : (x) == INFINITY ? p1 : (x) == -INFINITY ? p2 : (x))
FLOATS(1, nan_to_num, NAN_TO_NUM(x))
INTS(1, nan_to_num, x)

static inline double _Complex number_of_parts(double _Complex x, double p0, double p1, double p2) {
    return __builtin_complex(NAN_TO_NUM(creal(x)), NAN_TO_NUM(cimag(x)));
}
COMPLEXES(1, nan_to_num, number_of_parts(x, creal(p0), creal(p1), creal(p2)))
ROW(nan_to_num, RULE_SAME, 1, 1, "nan_to_num", HAS_FLOATS(nan_to_num), HAS_INTS(nan_to_num),
    HAS_COMPLEXES(nan_to_num))

/* By default infinities become the dtype's largest numbers. */
static void kernel_nan_to_num(cfx_op_call *c) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    double most = d == CFX_F64 || d == CFX_C128 ? 0x1.fffffffffffffp+1023
                  : d == CFX_F16 ? 65504.
                  : d == CFX_BF16 ? 0x1.fep+127
                                  : 0x1.fffffep+127;
    pointwise_params p = {.f = {arg_float(c, 1), most, -most}};
    for (int i = 2; i < 4; i++)
        if (!arg_is_none(c, i))
            p.f[i - 1] = arg_float(c, i);
    pointwise_kernel(c, &row_nan_to_num, &p);
}

CFX_OP(nan_to_num) = {"aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? "
                      "neginf=None) -> Tensor",
                      "torch.nan_to_num Tensor.nan_to_num",
                      .shape = shape_pointwise_like,
                      .kernel = kernel_nan_to_num,
                      .row = &row_nan_to_num,
                      .dtypes = CFX_IN_AS_IS | CFX_IN_SELF | CFX_IN_UINT,
                      .effects = CFX_POINTWISE,
                      GRAD(nan_to_num, READ(0)),
                      .core = core_nan_to_num, .inplace = "default", .out = "out"};

/* ---- mantissa and exponent ------------------------------------------------------------------- */

#define FREXP(T, name)                                                                             \
    static void name(void *const *p, int64_t n, const void *params) {                              \
        T *mantissa = p[0];                                                                        \
        int32_t *exponent = p[1];                                                                  \
        const T *x = p[2];                                                                         \
        (void)params;                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int e = 0;                                                                             \
            mantissa[i] = frexp(x[i], &e);                                                         \
            exponent[i] = e;                                                                       \
        }                                                                                          \
    }
FREXP(float, frexp_f32)
FREXP(double, frexp_f64)

static void shape_frexp(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (!cfx__dtype_is_float(t->dtype))
        op_fail(c, "torch.frexp() only supports floating-point dtypes");
    out_like(c, 0, t->dtype, t);
    out_like(c, 1, CFX_I32, t);
}

static void kernel_frexp(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_dtype as = t->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    cfx__iter_operand o[] = {{c->out[0], as}, {c->out[1], CFX_I32}, {t, as}};
    cfx__iter_pointwise(as == CFX_F64 ? frexp_f64 : frexp_f32, 2, 1, o, NULL, 4);
}

CFX_FAMILY(MATH);
CFX_OP(frexp_Tensor) = {"aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
                        "torch.frexp Tensor.frexp", .shape = shape_frexp, .kernel = kernel_frexp,
                        GRAD(frexp, RESULT(1)), .out = "Tensor_out"};
