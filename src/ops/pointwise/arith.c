/* Arithmetic: sums, products, quotients, remainders, and what is made of them. */
#include "../loops.h"
#include "../numbered.h"

CFX_FAMILY(MATH);

/* ---- sums and products ----------------------------------------------------------------------- */

FIELD2_AS(add, "add_stub", 1, x + p0 * y, WRAP(x, +, WRAP(p0, *, y)), x + CMUL(p0, y))
FIELD2_AS(sub, "add_stub", 1, x - p0 * y, WRAP(x, -, WRAP(p0, *, y)), x - CMUL(p0, y))
FIELD2(mul, 1, x *y, WRAP(x, *, y), CMUL(x, y))
FLOATS(3, addcmul, x + p0 * y * z)
INTS(3, addcmul, WRAP(x, +, WRAP(WRAP(p0, *, y), *, z)))
COMPLEXES(3, addcmul, x + CMUL(CMUL(p0, y), z))
ROW(addcmul, RULE_SAME, 1, 3, "addcmul_cpu_out", HAS_FLOATS(addcmul), HAS_INTS(addcmul),
    HAS_COMPLEXES(addcmul), .no_bool = true)

/* alpha must not widen the result: it is no operand. */
static void check_alpha(cfx_op_call *c, cfx_dtype result) {
    cfx_value alpha = c->args[2];
    if (alpha.tag == CFX_TAG_BOOL && result != CFX_BOOL)
        op_fail(c, "Boolean alpha only supported for Boolean results.");
    else if (alpha.tag == CFX_TAG_FLOAT && !cfx__dtype_is_float(result) &&
             !cfx__dtype_is_complex(result))
        op_fail(c, "For integral input tensors, argument alpha must not be a floating point "
                   "number.");
    else if (alpha.tag == CFX_TAG_COMPLEX && !cfx__dtype_is_complex(result))
        op_fail(c, "For non-complex input tensors, argument alpha must not be a complex number.");
}

static void shape_add(cfx_op_call *c) {
    check_alpha(c, arg_result_type(c, 2));
    shape_pointwise(c);
}

static bool is_bool(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v)->dtype == CFX_BOOL : v.tag == CFX_TAG_BOOL;
}

static void shape_sub(cfx_op_call *c) {
    bool a = is_bool(c->args[0]), b = is_bool(c->args[1]);
    if (a && b)
        op_fail(c, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
                   "`^` or `logical_xor()` operator instead.");
    else if (a || b)
        op_fail(c, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
                   "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    shape_add(c);
}

/* The same the other way round: operands change places, alpha stays. */
static void shape_rsub(cfx_op_call *c) {
    cfx_value args[] = {c->args[1], c->args[0], c->args[2]};
    cfx_op_call f = *c;
    f.args = args;
    shape_sub(&f);
    c->out[0] = f.out[0];
}

static void kernel_rsub(cfx_op_call *c) {
    cfx_value args[] = {c->args[1], c->args[0], c->args[2]};
    cfx_op_call f = *c;
    f.args = args;
    kernel_pointwise(&f);
}

#define REVERSED                                                                                   \
    .shape = shape_rsub, .kernel = kernel_rsub, .row = &row_sub,                                   \
    .effects = CFX_POINTWISE | CFX_LOOPS

CFX_OP(add_Tensor) = {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                      "torch.add Tensor.add operator.add",
                      POINTWISE_IN(add, shape_add, CFX_IN(C32)) | CFX_NUMBERS | CFX_COMMUTES,
                      GRAD(add, 0), .out = "out", .inplace = "Tensor"};
CFX_OP(add_Scalar) = {"aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", NULL,
                      POINTWISE_IN(add, shape_add, CFX_IN(C32)) | CFX_COMMUTES, GRAD(add, 0),
                      .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(sub_Tensor) = {"aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                      "torch.sub Tensor.sub operator.sub",
                      POINTWISE_IN(sub, shape_sub, CFX_IN(C32)) | CFX_NUMBERS, GRAD(sub, 0),
                      .out = "out", .inplace = "Tensor"};
CFX_OP(sub_Scalar) = {"aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", NULL,
                      POINTWISE_IN(sub, shape_sub, CFX_IN(C32)), GRAD(sub, 0), .inplace = "Scalar",
                      .out = "Scalar_out"};
CFX_OP(rsub_Tensor) = {"aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                       "torch.rsub Tensor.__rsub__", REVERSED, GRAD(rsub, 0),
                       .core = core_rsub_Tensor, .out = "Tensor_out"};
CFX_OP(rsub_Scalar) = {"aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
                       NULL, REVERSED, GRAD(rsub, 0), .core = core_rsub_Scalar,
                       .out = "Scalar_out"};
CFX_OP(subtract_Tensor) = {"aten::subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) "
                           "-> Tensor", "torch.subtract Tensor.subtract",
                           ALIAS(sub_Tensor) | CFX_NUMBERS, .out = "out", .inplace = "Tensor"};
CFX_OP(subtract_Scalar) = {"aten::subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> "
                           "Tensor", NULL, ALIAS(sub_Scalar), .inplace = "Scalar"};
CFX_OP(mul_Tensor) = {
    "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", "torch.mul Tensor.mul operator.mul",
    POINTWISE_IN(mul, shape_pointwise, CFX_IN_STORED) | CFX_NUMBERS | CFX_COMMUTES,
    GRAD(mul, READ(0) | READ(1)), .out = "out", .inplace = "Tensor"};
CFX_OP(mul_Scalar) = {"aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                      POINTWISE_IN(mul, shape_pointwise, CFX_IN_STORED) | CFX_COMMUTES,
                      GRAD(mul, 0), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(multiply_Tensor) = {"aten::multiply.Tensor(Tensor self, Tensor other) -> Tensor",
                           "torch.multiply Tensor.multiply", ALIAS(mul_Tensor) | CFX_NUMBERS,
                           .out = "out", .inplace = "Tensor"};
CFX_OP(multiply_Scalar) = {"aten::multiply.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                           ALIAS(mul_Scalar), .inplace = "Scalar"};
CFX_OP(addcmul) = {"aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar "
                   "value=1) -> Tensor", "torch.addcmul Tensor.addcmul", POINTWISE(addcmul),
                   GRAD(addcmul, READ(1) | READ(2)), .core = core_addcmul, .inplace = "default",
                   .out = "out"};

/* ---- quotients ------------------------------------------------------------------------------- */

/* Quotients of integers wrap around where the true one does not fit: the smallest by -1. Kernels
 * look for zeros first; one that a number becomes when it is narrowed (256 among bytes) gives 0. */
#define QUOTIENT(x, y) ((y) == -1 ? WRAP(0, -, x) : (y) == 0 ? 0 : (x) / (y))
#define RESIDUE(x, y) ((y) == -1 || (y) == 0 ? 0 : (x) % (y))


/* Python's floor division: what is left has the sign of the divisor. */
#define FLOOR_DIV(T, name)                                                                         \
    static inline T name(T x, T y) {                                                               \
        if (y == 0)                                                                                \
            return x / y;                                                                          \
        T rest = fmod(x, y), quotient = (x - rest) / y;                                            \
        if (rest != 0 && (y < 0) != (rest < 0))                                                    \
            quotient -= 1;                                                                         \
        if (quotient == 0)                                                                         \
            return copysign((T)0, x / y);                                                          \
        T whole = floor(quotient);                                                                 \
        return quotient - whole > (T)0.5 ? whole + 1 : whole;                                      \
    }
FLOOR_DIV(float, floor_div_f32)
FLOOR_DIV(double, floor_div_f64)
#define floor_div(x, y) _Generic((x), float: floor_div_f32, double: floor_div_f64)(x, y)

static inline int64_t floor_div_i64(int64_t x, int64_t y) {
    return QUOTIENT(x, y) - (RESIDUE(x, y) != 0 && (x < 0) != (y < 0));
}

/* Python's x % y, from C's. */
#define MOD(T, name, rest)                                                                         \
    static inline T name(T x, T y) {                                                               \
        T r = rest;                                                                                \
        return r != 0 && (y < 0) != (r < 0) ? r + y : r;                                           \
    }
MOD(float, mod_f32, fmod(x, y))
MOD(double, mod_f64, fmod(x, y))
MOD(int64_t, mod_i64, RESIDUE(x, y))
#define mod(x, y) _Generic((x), float: mod_f32, double: mod_f64)(x, y)

FLOATS(2, div, x / y)
COMPLEXES(2, div, x / y)
ROW(div, RULE_FLOAT, 1, 2, "div_cpu", HAS_FLOATS(div), HAS_COMPLEXES(div), .wide = true)
ANALYTIC3(addcdiv, 2, x + p0 * y / z, x + CMUL(p0, y) / z)

#define DIVISION(id, cost, expr, iexpr)                                                            \
    FLOATS_SAY(2, id, #expr, expr)                                                                 \
    INTS_SAY(2, id, #iexpr, iexpr)                                                                 \
    ROW(id, RULE_SAME, cost, 2, #id "_cpu", HAS_FLOATS(id), HAS_INTS(id), .no_bool = true)
DIVISION(div_trunc, 1, trunc(x / y), QUOTIENT(x, y))
DIVISION(div_floor, 8, floor_div(x, y), floor_div_i64(x, y))
DIVISION(remainder, 8, mod(x, y), mod_i64(x, y))
DIVISION(fmod, 8, fmod(x, y), RESIDUE(x, y))

static bool holds_zero(cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR)
        return cfx_integer(v) == 0;
    const cfx_tensor *t = cfx__tensor_contiguous_as(cfx_as_tensor(v), CFX_I64);
    const int64_t *x = (const int64_t *)t->data;
    bool found = false;
    for (int64_t i = 0; i < t->numel; i++)
        found |= x[i] == 0;
    return found;
}

/* Runs a division. Integers have no infinity to give: a zero among the divisors is looked for
 * first, since a loop cannot report it. */
static void divide(cfx_op_call *c, const pointwise_row *r) {
    cfx_dtype compute, result;
    if (!pointwise_dtypes(c, r, &compute, &result))
        return;
    if (c->note && cfx__dtype_is_int(compute))
        return;
    if (cfx__dtype_is_int(compute) && c->out[0]->numel && holds_zero(c->args[1]))
        op_fail(c, "ZeroDivisionError");
    else
        pointwise_run(c, r, compute, 2, c->args, &(pointwise_params){.dtype = compute});
}

static void kernel_division(cfx_op_call *c) { divide(c, c->op->row); }

/* The row that rounding_mode, argument 2, asks for. */
static const pointwise_row *mode_row(cfx_op_call *c) {
    const char *mode = arg_text(c, 2);
    if (!mode)
        return &row_div;
    if (!strcmp(mode, "trunc"))
        return &row_div_trunc;
    if (!strcmp(mode, "floor"))
        return &row_div_floor;
    op_fail(c, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'",
            mode);
    return &row_div;
}

static void shape_div_mode(cfx_op_call *c) { pointwise_shape(c, mode_row(c)); }

static void kernel_div_mode(cfx_op_call *c) {
    const pointwise_row *r = mode_row(c);
    if (r == &row_div)
        pointwise_kernel(c, r, &(pointwise_params){.text = NULL});
    else
        divide(c, r);
}

static void shape_addcdiv(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (!cfx__dtype_is_float(a->dtype) && !cfx__dtype_is_complex(a->dtype) &&
        !cfx__dtype_is_float(b->dtype) && !cfx__dtype_is_complex(b->dtype))
        op_fail(c, "Integer division with addcdiv is no longer supported, and in a future  release "
                   "addcdiv will perform a true division of tensor1 and tensor2. The historic "
                   "addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / "
                   "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
                   "tensor2) for float inputs. The future addcdiv behavior is just the latter "
                   "implementation: (input + value * tensor1 / tensor2), for all dtypes.");
    shape_pointwise(c);
}

#define DIVIDES(id)                                                                                \
    .shape = shape_pointwise, .kernel = kernel_division, .row = &row_##id,                         \
    .effects = CFX_POINTWISE | CFX_LOOPS
#define DIVIDES_BY_MODE                                                                            \
    .shape = shape_div_mode, .kernel = kernel_div_mode, .effects = CFX_POINTWISE | CFX_LOOPS

CFX_OP(div_Tensor) = {"aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
                      "torch.div Tensor.div operator.truediv", POINTWISE(div) | CFX_NUMBERS,
                      GRAD(div, READ(0) | READ(1)), .out = "out", .inplace = "Tensor"};
CFX_OP(div_Scalar) = {"aten::div.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                      POINTWISE(div), GRAD(div, 0), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(div_Tensor_mode) = {"aten::div.Tensor_mode(Tensor self, Tensor other, *, str? "
                           "rounding_mode) -> Tensor", NULL, DIVIDES_BY_MODE | CFX_NUMBERS,
                           GRAD(div_mode, READ(0) | READ(1)), .out = "out_mode",
                           .inplace = "Tensor_mode"};
CFX_OP(div_Scalar_mode) = {"aten::div.Scalar_mode(Tensor self, Scalar other, *, str? "
                           "rounding_mode) -> Tensor", NULL, DIVIDES_BY_MODE, GRAD(div_mode, 0),
                           .inplace = "Scalar_mode", .out = "Scalar_mode_out"};
CFX_OP(divide_Tensor) = {"aten::divide.Tensor(Tensor self, Tensor other) -> Tensor",
                         "torch.divide Tensor.divide", ALIAS(div_Tensor) | CFX_NUMBERS,
                         .out = "out", .inplace = "Tensor"};
CFX_OP(divide_Scalar) = {"aten::divide.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                         ALIAS(div_Scalar), .inplace = "Scalar"};
CFX_OP(divide_Tensor_mode) = {"aten::divide.Tensor_mode(Tensor self, Tensor other, *, str? "
                              "rounding_mode) -> Tensor", NULL,
                              ALIAS(div_Tensor_mode) | CFX_NUMBERS, .out = "out_mode",
                              .inplace = "Tensor_mode"};
CFX_OP(divide_Scalar_mode) = {"aten::divide.Scalar_mode(Tensor self, Scalar other, *, str? "
                              "rounding_mode) -> Tensor", NULL, ALIAS(div_Scalar_mode),
                              .inplace = "Scalar_mode"};
CFX_OP(true_divide_Tensor) = {"aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor",
                              "torch.true_divide Tensor.true_divide",
                              ALIAS(div_Tensor) | CFX_NUMBERS, .out = "out", .inplace = "Tensor"};
CFX_OP(true_divide_Scalar) = {"aten::true_divide.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                              ALIAS(div_Scalar), .inplace = "Scalar"};
CFX_OP(floor_divide) = {"aten::floor_divide(Tensor self, Tensor other) -> Tensor",
                        "torch.floor_divide Tensor.floor_divide operator.floordiv",
                        DIVIDES(div_floor) | CFX_NUMBERS, NO_GRAD, .inplace = "Tensor",
                        .core = core_floor_divide, .out = "out"};
CFX_OP(floor_divide_Scalar) = {
    "aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", NULL, DIVIDES(div_floor),
    NO_GRAD, .core = core_floor_divide, .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(remainder_Tensor) = {"aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor",
                            "torch.remainder Tensor.remainder operator.mod", DIVIDES(remainder),
                            GRAD(remainder, READ(0) | READ(1)), NUMBERED(1), .inplace = "Tensor",
                            .out = "Tensor_out"};
CFX_OP(remainder_Scalar) = {"aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                            DIVIDES(remainder), GRAD(remainder, 0), NUMBERED(0),
                            .inplace = "Scalar",
                            .out = "Scalar_out"};
CFX_OP(remainder_Scalar_Tensor) = {
    "aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", NULL, DIVIDES(remainder),
    GRAD(remainder, READ(1)), .out = "Scalar_Tensor_out"};
CFX_OP(fmod_Tensor) = {"aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor",
                       "torch.fmod Tensor.fmod", DIVIDES(fmod), GRAD(fmod, READ(0) | READ(1)),
                       NUMBERED(1),
                       .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(fmod_Scalar) = {"aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                       DIVIDES(fmod), GRAD(fmod, 0), NUMBERED(0), .inplace = "Scalar",
                       .out = "Scalar_out"};
CFX_OP(addcdiv) = {"aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar "
                   "value=1) -> Tensor", "torch.addcdiv Tensor.addcdiv",
                   POINTWISE_AS(addcdiv, shape_addcdiv), GRAD(addcdiv, READ(1) | READ(2)),
                   .core = core_addcdiv, .inplace = "default", .out = "out"};

/* ---- signs and size -------------------------------------------------------------------------- */

FIELD1(neg, 1, -x, WRAP(0, -, x), -x)
ANALYTIC1(reciprocal, 1, 1 / x, 1 / x)

FLOATS(1, abs, fabs(x))
INTS(1, abs, x < 0 ? WRAP(0, -, x) : x)
SAYS(abs, complex, "cabs(x)")
LOOP1(abs_c64, c64_t, float, c, cabsf(x))
LOOP1(abs_c128, c128_t, double, c, cabs(x))
ROW(abs, RULE_ABS, 1, 1, "abs_cpu", HAS_FLOATS(abs), HAS_INTS(abs), HAS_COMPLEXES(abs),
    .no_bool = true)

static void shape_neg(cfx_op_call *c) {
    if (arg_tensor(c, 0)->dtype == CFX_BOOL)
        op_fail(c, "Negation, the `-` operator, on a bool tensor is not supported. If you are "
                   "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    shape_pointwise(c);
}

static void view_positive(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (t->dtype == CFX_BOOL)
        op_fail(c, "The `+` operator, on a bool tensor is not supported.");
    c->out[0] = t;
}

CFX_OP(neg) = {"aten::neg(Tensor self) -> Tensor", "torch.neg Tensor.neg operator.neg",
               POINTWISE_IN(neg, shape_neg, CFX_IN(C32)), GRAD(neg, 0), .inplace = "default",
               .out = "out"};
CFX_OP(negative) = {"aten::negative(Tensor self) -> Tensor", "torch.negative Tensor.negative",
                    ALIAS(neg), .inplace = "default", .out = "out"};
CFX_OP(positive) = {"aten::positive(Tensor(a) self) -> Tensor(a)",
                    "torch.positive Tensor.positive operator.pos", .view = view_positive,
                    GRAD(same, 0), .core = core_positive, .core_early = true};
CFX_OP(reciprocal) = {"aten::reciprocal(Tensor self) -> Tensor",
                      "torch.reciprocal Tensor.reciprocal", POINTWISE(reciprocal),
                      GRAD(reciprocal, RESULT(0)), .autocast = CFX_CAST_F32_ON_GPU,
                      .inplace = "default", .out = "out"};
static void shape_abs(cfx_op_call *c) {
    if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        shape_pointwise_like(c);
    else
        shape_pointwise(c);
}

CFX_OP(abs) = {"aten::abs(Tensor self) -> Tensor", "torch.abs Tensor.abs operator.abs",
               POINTWISE_IN(abs, shape_abs, CFX_IN_FLOAT8 | CFX_IN(C32)), GRAD(abs, READ(0)),
               .inplace = "default", .out = "out"};
CFX_OP(absolute) = {"aten::absolute(Tensor self) -> Tensor", "torch.absolute Tensor.absolute",
                    ALIAS(abs), .inplace = "default", .out = "out"};
