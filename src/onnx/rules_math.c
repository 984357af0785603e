/* Rules for arithmetic and functions of single numbers. */
#include "export.h"

#include <math.h>

#define NUMBER(v, d) cfx__export_number(x, cfx_float(v), d)

static cfx_dtype dtype(const cfx__onnx_export *x) { return cfx__export_result(x).dtype; }
static bool is_float(cfx_dtype d) { return cfx__dtype_is_floating(d); }

/* ---- functions of one ------------------------------------------------------------------------ */

/* Whether an operator takes bfloat16: many do only from version 22 of the operator set on. */
static bool takes_bf16(const cfx_op *op) {
    static const cfx_op *const all[] = {
        &cfx_op_onnx_Relu, &cfx_op_onnx_Sigmoid, &cfx_op_onnx_Tanh, &cfx_op_onnx_Exp,
        &cfx_op_onnx_Log,  &cfx_op_onnx_Sqrt,    &cfx_op_onnx_Abs,  &cfx_op_onnx_Neg,
        &cfx_op_onnx_Sign, &cfx_op_onnx_Erf,     &cfx_op_onnx_Reciprocal};
    for (int i = 0; i < COUNT(all); i++)
        if (all[i] == op)
            return true;
    return false;
}

RULE(unary) {
    cfx_dtype to = dtype(x), d = to == CFX_BF16 && !takes_bf16(op) ? CFX_F32 : to;
    cfx_value v = cfx__export_put(x, op, CFX_ARGS(cfx__export_as(x, 0, d)));
    return cfx__export_cast(x, v, d, to);
}

/* What is rounded already where numbers are integers. */
RULE(rounding) {
    cfx_value v = cfx__export_as(x, 0, dtype(x));
    return is_float(dtype(x)) ? cfx__export_put(x, op, CFX_ARGS(v)) : PUT(Identity, v);
}

RULE(identity) {
    (void)op;
    return PUT(Identity, cfx__export_in(x, 0));
}

/* self and src: src in the shape and dtype of self. */
RULE(copy) {
    cfx_result self = cfx__export_given(x, 0);
    cfx_value v = cfx__export_as(x, 1, dtype(x)), to = cfx__export_in(x, 0);
    (void)op;
    return PUT(Expand, v, cfx__export_shape(x, to, &self));
}

RULE(to_copy) {
    cfx_value v = cfx__export_in(x, 0);
    cfx_dtype from = cfx__export_given(x, 0).dtype, to = dtype(x);
    (void)op;
    return from == to ? PUT(Identity, v) : cfx__export_cast(x, v, from, to);
}

RULE(rsqrt) {
    (void)op;
    return PUT(Reciprocal, PUT(Sqrt, cfx__export_as(x, 0, dtype(x))));
}

/* Halves are computed in floats, as PyTorch does: several roundings to 8 bits would add up. */
static cfx_dtype in_floats(cfx_dtype d) { return d == CFX_F16 || d == CFX_BF16 ? CFX_F32 : d; }

/* log(1 + v) by Kahan's correction: 1 + v is rounded to u, and log(u) / (u - 1), which is nearly
 * flat, is multiplied by v itself. Where nothing was lost, infinities included, log(u) stands. */
RULE(log1p_) {
    cfx_dtype d = in_floats(dtype(x));
    cfx_value v = cfx__export_as(x, 0, d), u = PUT(Add, v, NUMBER(1, d)), log = PUT(Log, u);
    cfx_value rest = PUT(Sub, u, NUMBER(1, d)), slope = PUT(Div, log, rest);
    cfx_value small = PUT(Where, PUT(Equal, rest, NUMBER(0, d)), v, PUT(Mul, slope, v));
    (void)op;
    return cfx__export_cast(x, PUT(Where, PUT(Equal, rest, v), log, small), d, dtype(x));
}

/* exp(v) - 1 likewise, where that is small: (u - 1) / log(u) times v. */
RULE(expm1_) {
    cfx_dtype d = in_floats(dtype(x));
    cfx_value v = cfx__export_as(x, 0, d), u = PUT(Exp, v), rest = PUT(Sub, u, NUMBER(1, d));
    cfx_value slope = PUT(Div, rest, PUT(Log, u));
    cfx_value small = PUT(Where, PUT(Equal, rest, NUMBER(0, d)), v, PUT(Mul, slope, v));
    (void)op;
    cfx_value is_small = PUT(Less, PUT(Abs, rest), NUMBER(0.5, d));
    return cfx__export_cast(x, PUT(Where, is_small, small, rest), d, dtype(x));
}

/* A logarithm to another base. */
static cfx_value based(cfx__onnx_export *x, double natural) {
    cfx_dtype d = dtype(x);
    return PUT(Mul, PUT(Log, cfx__export_as(x, 0, d)), NUMBER(1 / natural, d));
}
RULE(log2_) {
    (void)op;
    return based(x, 0.69314718055994531);
}
RULE(log10_) {
    (void)op;
    return based(x, 2.30258509299404568);
}

RULE(exp2_) {
    cfx_dtype d = dtype(x);
    (void)op;
    return PUT(Pow, NUMBER(2, d), cfx__export_as(x, 0, d));
}

RULE(trunc_) {
    cfx_value v = cfx__export_in(x, 0);
    (void)op;
    return is_float(dtype(x)) ? PUT(Mul, PUT(Sign, v), PUT(Floor, PUT(Abs, v))) : PUT(Identity, v);
}

/* ---- activations ----------------------------------------------------------------------------- */

RULE(silu) {
    cfx_value v = cfx__export_in(x, 0);
    (void)op;
    return PUT(Mul, v, PUT(Sigmoid, v));
}

RULE(gelu) {
    cfx_value how = cfx__export_arg(x, 1);
    (void)op;
    return PUT(Gelu, cfx__export_in(x, 0), CFX_KW(approximate, how));
}

/* Attributes are float32, so doubles would be computed with another number. */
static bool is_attribute(double v, cfx_dtype d) { return d != CFX_F64 || (double)(float)v == v; }

RULE(leaky_relu) {
    const cfx_dtype d = dtype(x);
    const double slope = cfx_number(cfx__export_arg(x, 1));
    cfx_value v = cfx__export_in(x, 0);
    (void)op;
    if (is_attribute(slope, d))
        return PUT(LeakyRelu, v, CFX_KW(alpha, slope));
    return PUT(Where, PUT(Greater, v, NUMBER(0, d)), v, PUT(Mul, v, NUMBER(slope, d)));
}

/* scale * (v where it is positive, alpha * (exp(input * v) - 1) where not). */
static cfx_value elu_of(cfx__onnx_export *x, double alpha, double scale, double input) {
    const cfx_dtype d = dtype(x);
    const bool exact = is_attribute(alpha, d);
    cfx_value v = cfx__export_in(x, 0);
    if (scale == 1 && input == 1 && exact)
        return PUT(Elu, v, CFX_KW(alpha, alpha));
    cfx_value inner = input == 1 ? v : PUT(Mul, v, NUMBER(input, d)), low;
    if (input > 0) /* else Elu gives what it is given: its own borders are those of inner */
        low = PUT(Elu, inner, CFX_KW(alpha, exact ? alpha : 1));
    else
        low = PUT(Sub, PUT(Exp, inner), NUMBER(1, d));
    if (!exact || input <= 0)
        low = PUT(Mul, low, NUMBER(alpha, d));
    cfx_value y = PUT(Where, PUT(Greater, v, NUMBER(0, d)), v, low);
    return scale == 1 ? y : PUT(Mul, y, NUMBER(scale, d));
}

RULE(elu) {
    (void)op;
    return elu_of(x, cfx_number(cfx__export_arg(x, 1)), cfx_number(cfx__export_arg(x, 2)),
                  cfx_number(cfx__export_arg(x, 3)));
}

RULE(selu) {
    (void)op;
    if (dtype(x) == CFX_F64)
        return elu_of(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
    return PUT(Selu, cfx__export_in(x, 0));
}

RULE(hardsigmoid) {
    (void)op;
    cfx_dtype to = dtype(x), d = to == CFX_BF16 ? CFX_F32 : to;
    cfx_value v = cfx__export_as(x, 0, d);
    if (d == CFX_F64)
        return PUT(Clip, PUT(Add, PUT(Div, v, NUMBER(6, d)), NUMBER(0.5, d)), NUMBER(0, d),
                   NUMBER(1, d));
    return cfx__export_cast(x, PUT(HardSigmoid, v, CFX_KW(alpha, 1.0 / 6), CFX_KW(beta, 0.5)), d,
                            to);
}

RULE(softplus) {
    cfx_dtype d = dtype(x);
    cfx_value v = cfx__export_in(x, 0);
    double beta = cfx_number(cfx__export_arg(x, 1)), most = cfx_number(cfx__export_arg(x, 2));
    (void)op;
    cfx_value scaled = beta == 1 ? v : PUT(Mul, v, NUMBER(beta, d)), y = PUT(Softplus, scaled);
    y = beta == 1 ? y : PUT(Div, y, NUMBER(beta, d));
    return PUT(Where, PUT(Greater, scaled, NUMBER(most, d)), v, y);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Numbers that are true or false are counted as integers. */
static cfx_dtype computed(cfx_dtype d) { return d == CFX_BOOL ? CFX_I32 : d; }

/* a op b * alpha, where there is an alpha. */
RULE(arithmetic) {
    cfx_dtype to = dtype(x), d = computed(to);
    cfx_value a = cfx__export_as(x, 0, d), b = cfx__export_as(x, 1, d);
    bool alpha = x->schema->nargs > 2 && !strcmp(x->schema->args[2].name, "alpha");
    cfx_value by = alpha ? cfx__export_arg(x, 2) : cfx_none();
    if (alpha && !(cfx_is_number(by) && cfx_number(by) == 1))
        b = PUT(Mul, b, cfx__export_as(x, 2, d));
    return cfx__export_cast(x, cfx__export_put(x, op, CFX_ARGS(a, b)), d, to);
}

RULE(rsub) {
    cfx_dtype d = dtype(x);
    cfx_value a = cfx__export_as(x, 0, d), by = cfx__export_arg(x, 2);
    (void)op;
    if (cfx_is_number(by) && cfx_number(by) != 1)
        a = PUT(Mul, a, cfx__export_number(x, by, d));
    return PUT(Sub, cfx__export_as(x, 1, d), a);
}

/* Whether what fmod left is not 0 and has not the sign of b. */
static cfx_value is_turned(cfx__onnx_export *x, cfx_value left, cfx_value b, cfx_dtype d) {
    cfx_value zero = NUMBER(0, d);
    cfx_value turned = PUT(Xor, PUT(Less, left, zero), PUT(Less, b, zero));
    return PUT(And, turned, PUT(Not, PUT(Equal, left, zero)));
}

/* What is left of a with the sign of b: exactly, as a quotient would not be. */
static cfx_value left_over(cfx__onnx_export *x, cfx_value a, cfx_value b, cfx_dtype d) {
    if (!is_float(d))
        return PUT(Mod, a, b);
    cfx_value left = PUT(Mod, a, b, CFX_KW(fmod, 1));
    return PUT(Where, is_turned(x, left, b, d), PUT(Add, left, b), left);
}

/* The largest integer not above a / b: that of 1 and 0.1 is 9, though they divide to 10; that of -1
 * and infinity is -1, so that 1 is taken from the quotient and not b from a. */
static cfx_value floored(cfx__onnx_export *x, cfx_value a, cfx_value b, cfx_dtype d) {
    if (!is_float(d))
        return PUT(Div, PUT(Sub, a, left_over(x, a, b, d)), b);
    cfx_value left = PUT(Mod, a, b, CFX_KW(fmod, 1)), whole = PUT(Div, PUT(Sub, a, left), b);
    cfx_value below = PUT(Sub, whole, NUMBER(1, d));
    whole = PUT(Round, PUT(Where, is_turned(x, left, b, d), below, whole));
    return PUT(Where, PUT(Equal, b, NUMBER(0, d)), PUT(Div, a, b), whole);
}

RULE(floor_divide) {
    cfx_dtype d = dtype(x);
    (void)op;
    return floored(x, cfx__export_as(x, 0, d), cfx__export_as(x, 1, d), d);
}

RULE(div_mode) {
    const char *mode = cfx_text(cfx__export_arg(x, 2));
    cfx_dtype d = dtype(x);
    cfx_value a = cfx__export_as(x, 0, d), b = cfx__export_as(x, 1, d);
    (void)op;
    if (mode && !strcmp(mode, "floor"))
        return floored(x, a, b, d);
    cfx_value q = PUT(Div, a, b);
    return mode && is_float(d) ? PUT(Mul, PUT(Sign, q), PUT(Floor, PUT(Abs, q))) : q;
}

/* Shifts of integers, as products and quotients of powers of 2. 2 to the 63 is no number of i64. */
enum { MOST_SHIFT = 62 };

/* 2 to the number of bits, and whether there are 0 to MOST_SHIFT of them: 1, or what ONNX finds
 * out. */
static cfx_value powers(cfx__onnx_export *x, cfx_value *fits) {
    const cfx_value by = cfx__export_arg(x, 1), zero = NUMBER(0, CFX_I64),
                    most = NUMBER(MOST_SHIFT, CFX_I64), n = cfx__export_as(x, 1, CFX_I64);
    *fits = cfx_int(1);
    if (cfx_is_number(by) && cfx_integer(by) >= 0 && cfx_integer(by) <= MOST_SHIFT)
        return PUT(Pow, NUMBER(2, CFX_I64), n);
    *fits = PUT(And, PUT(GreaterOrEqual, n, zero), PUT(LessOrEqual, n, most));
    return PUT(Pow, NUMBER(2, CFX_I64), PUT(Clip, n, zero, most));
}

/* A shift by less than nothing or by more than there are bits moves all of them out. */
RULE(shift_left) {
    cfx_value fits, v = cfx__export_as(x, 0, CFX_I64), by = powers(x, &fits);
    (void)op;
    if (fits.tag != CFX_TAG_INT) {
        cfx_value last = PUT(Equal, cfx__export_as(x, 1, CFX_I64), NUMBER(MOST_SHIFT + 1, CFX_I64));
        cfx_value beyond = PUT(Where, last, cfx__export_number(x, cfx_int(INT64_MIN), CFX_I64),
                               NUMBER(0, CFX_I64));
        by = PUT(Where, fits, by, beyond);
    }
    return cfx__export_cast(x, PUT(Mul, v, by), CFX_I64, dtype(x));
}
RULE(shift_right) {
    cfx_value fits, v = cfx__export_as(x, 0, CFX_I64);
    cfx_value by = powers(x, &fits), y = floored(x, v, by, CFX_I64);
    (void)op;
    if (fits.tag != CFX_TAG_INT) {
        cfx_value sign = PUT(Where, PUT(Less, v, NUMBER(0, CFX_I64)), NUMBER(-1, CFX_I64),
                             NUMBER(0, CFX_I64));
        y = PUT(Where, fits, y, sign);
    }
    return cfx__export_cast(x, y, CFX_I64, dtype(x));
}

/* Floats are shifted by __lshift__ alone, and rarely. */
RULE(shifted) {
    const cfx_dtype d = dtype(x);
    if (is_float(d))
        return cfx__export_lacks("it shifts floats");
    return op == &cfx_op_onnx_Mul ? shift_left(x, op) : shift_right(x, op);
}

/* By the larger of the two, so that squares neither overflow nor vanish. An infinity is the result
 * even beside a NaN. */
RULE(hypot_) {
    const cfx_dtype d = dtype(x), in = in_floats(d);
    const cfx_value a = PUT(Abs, cfx__export_as(x, 0, in)), b = PUT(Abs, cfx__export_as(x, 1, in));
    if (cfx_is_bad(a) || cfx_is_bad(b))
        return cfx_bad();
    const cfx_value most = PUT(Max, cfx_list(a, b)), least = PUT(Min, cfx_list(a, b));
    const cfx_value none = PUT(Equal, most, NUMBER(0, in));
    const cfx_value share = PUT(Div, least, PUT(Where, none, NUMBER(1, in), most));
    cfx_value y = PUT(Mul, most, PUT(Sqrt, PUT(Add, PUT(Mul, share, share), NUMBER(1, in))));
    const cfx_value endless = PUT(Or, PUT(IsInf, a), PUT(IsInf, b));
    (void)op;
    return cfx__export_cast(x, PUT(Where, endless, NUMBER(INFINITY, in), y), in, d);
}

/* -0 has its sign in its reciprocal. */
RULE(signbit_) {
    cfx_dtype d = cfx__export_given(x, 0).dtype;
    cfx_value v = cfx__export_in(x, 0), zero = NUMBER(0, d);
    (void)op;
    if (!is_float(d))
        return PUT(Less, v, zero);
    return PUT(Or, PUT(Less, v, zero), PUT(Less, PUT(Reciprocal, v), zero));
}

RULE(remainder_) {
    cfx_dtype d = dtype(x);
    cfx_value a = cfx__export_as(x, 0, d), b = cfx__export_as(x, 1, d);
    (void)op;
    return left_over(x, a, b, d);
}

RULE(fmod_) {
    cfx_dtype d = dtype(x);
    (void)op;
    return PUT(Mod, cfx__export_as(x, 0, d), cfx__export_as(x, 1, d), CFX_KW(fmod, 1));
}

RULE(pow_) {
    cfx_dtype d = dtype(x);
    cfx_value a = cfx__export_as(x, 0, d), e = cfx__export_arg(x, 1);
    (void)op;
    if (cfx_is_number(e) && cfx_number(e) == 2)
        return PUT(Mul, a, a);
    if (cfx_is_number(e) && cfx_number(e) == 0.5)
        return PUT(Sqrt, a);
    cfx_value by = cfx__export_as(x, 1, d), power = PUT(Pow, a, by);
    if (is_float(d) || (cfx_is_number(e) && cfx_number(e) >= 0))
        return power;
    cfx_value zero = NUMBER(0, d); /* 0 to a negative power is 0 in PyTorch, open in ONNX */
    return PUT(Where, PUT(And, PUT(Equal, a, zero), PUT(Less, by, zero)), zero, power);
}

RULE(extreme) {
    cfx_dtype d = dtype(x);
    return cfx__export_put(x, op, CFX_ARGS(cfx_list(cfx__export_as(x, 0, d),
                                                    cfx__export_as(x, 1, d))));
}

static cfx_value clipped(cfx__onnx_export *x, int least, int most) {
    cfx_dtype d = dtype(x);
    cfx_value lo = cfx_none(), hi = cfx_none(), v = cfx__export_as(x, 0, d);
    if (least && !cfx_is_none(cfx__export_arg(x, least)))
        lo = cfx__export_as(x, least, d);
    if (most && !cfx_is_none(cfx__export_arg(x, most)))
        hi = cfx__export_as(x, most, d);
    return PUT(Clip, v, lo, hi);
}
RULE(clamp) {
    (void)op;
    return clipped(x, 1, 2);
}
RULE(clamp_min_) {
    (void)op;
    return clipped(x, 1, 0);
}
RULE(clamp_max_) {
    (void)op;
    return clipped(x, 0, 1);
}

RULE(clamp_tensor) {
    cfx_dtype d = dtype(x);
    cfx_value v = cfx__export_as(x, 0, d);
    (void)op;
    if (!cfx_is_none(cfx__export_arg(x, 1)))
        v = PUT(Max, cfx_list(v, cfx__export_as(x, 1, d)));
    if (!cfx_is_none(cfx__export_arg(x, 2)))
        v = PUT(Min, cfx_list(v, cfx__export_as(x, 2, d)));
    return v;
}

/* Whether a number is below zero, or the negative zero. */
static cfx_value is_negative(cfx__onnx_export *x, cfx_value v, cfx_value zero) {
    return PUT(Less, PUT(Where, PUT(Equal, v, zero), PUT(Reciprocal, v), v), zero);
}

/* atan(|a| / |b|), where equal ones, infinities too, have a ratio of 1 and zeros one of 0; taken
 * from half a circle where b is negative, and negated where a is. */
RULE(atan2_) {
    cfx_dtype d = dtype(x);
    cfx_value a = cfx__export_as(x, 0, d), b = cfx__export_as(x, 1, d), zero = NUMBER(0, d);
    (void)op;
    cfx_value pi = NUMBER(3.14159265358979324, d), one = NUMBER(1, d);
    cfx_value high = PUT(Abs, a), wide = PUT(Abs, b);
    cfx_value alike = PUT(Where, PUT(Equal, a, zero), zero, one);
    cfx_value ratio = PUT(Where, PUT(Equal, high, wide), alike, PUT(Div, high, wide));
    cfx_value turn = PUT(Atan, ratio);
    turn = PUT(Where, is_negative(x, b, zero), PUT(Sub, pi, turn), turn);
    return PUT(Where, is_negative(x, a, zero), PUT(Neg, turn), turn);
}

RULE(copysign_) {
    cfx_dtype d = dtype(x);
    cfx_value size = PUT(Abs, cfx__export_as(x, 0, d)), sign = cfx__export_as(x, 1, d);
    (void)op;
    return PUT(Where, is_negative(x, sign, NUMBER(0, d)), PUT(Neg, size), size);
}

/* The larger or smaller, where one of them is no number the other. */
RULE(extreme_number) {
    cfx_dtype d = dtype(x);
    cfx_value a = cfx__export_as(x, 0, d), b = cfx__export_as(x, 1, d);
    cfx_value both = cfx__export_put(x, op, CFX_ARGS(cfx_list(a, b)));
    if (!is_float(d))
        return both;
    return PUT(Where, PUT(IsNaN, a), b, PUT(Where, PUT(IsNaN, b), a, both));
}

/* To so many digits behind the point, or in front of it. */
RULE(round_decimals) {
    cfx_dtype d = dtype(x);
    int64_t digits = cfx_integer(cfx__export_arg(x, 1)), n = digits < 0 ? -digits : digits;
    cfx_value v = cfx__export_as(x, 0, d);
    (void)op;
    if (!is_float(d) || n > 30)
        return cfx__export_lacks("it rounds integers, or to %lld digits", (long long)digits);
    if (!n)
        return PUT(Round, v);
    double power = 1;
    for (int64_t i = 0; i < n; i++)
        power *= 10;
    cfx_value by = NUMBER(power, d);
    return digits < 0 ? PUT(Mul, PUT(Round, PUT(Div, v, by)), by)
                      : PUT(Div, PUT(Round, PUT(Mul, v, by)), by);
}

#define UNARY(name, to) {"aten." name ".default", unary, &cfx_op_onnx_##to}

static const cfx__onnx_rule rows[] = {
    UNARY("relu", Relu), UNARY("sigmoid", Sigmoid), UNARY("tanh", Tanh), UNARY("exp", Exp),
    UNARY("log", Log), UNARY("sqrt", Sqrt), UNARY("abs", Abs), UNARY("neg", Neg),
    UNARY("sign", Sign), UNARY("sin", Sin), UNARY("cos", Cos), UNARY("tan", Tan),
    UNARY("asin", Asin), UNARY("acos", Acos), UNARY("atan", Atan), UNARY("sinh", Sinh),
    UNARY("cosh", Cosh), UNARY("asinh", Asinh), UNARY("acosh", Acosh), UNARY("atanh", Atanh),
    UNARY("erf", Erf), UNARY("reciprocal", Reciprocal), UNARY("hardswish", HardSwish),
    UNARY("mish", Mish),
    {"aten.floor.default", rounding, &cfx_op_onnx_Floor},
    {"aten.ceil.default", rounding, &cfx_op_onnx_Ceil},
    {"aten.round.default", rounding, &cfx_op_onnx_Round},
    {"aten.trunc.default", trunc_, NULL},
    {"aten.clone.default", identity, NULL},
    {"aten.alias.default", identity, NULL},
    {"aten.detach.default", identity, NULL},
    {"aten.contiguous.default", identity, NULL},
    {"aten.lift_fresh_copy.default", identity, NULL},
    {"aten.lift_fresh.default", identity, NULL},
    {"aten.copy.default", copy, NULL},
    {"aten._to_copy.default", to_copy, NULL},
    {"aten.rsqrt.default", rsqrt, NULL},
    {"aten.log1p.default", log1p_, NULL},
    {"aten.expm1.default", expm1_, NULL},
    {"aten.log2.default", log2_, NULL},
    {"aten.log10.default", log10_, NULL},
    {"aten.exp2.default", exp2_, NULL},
    {"aten.silu.default", silu, NULL},
    {"aten.gelu.default", gelu, NULL},
    {"aten.leaky_relu.default", leaky_relu, NULL},
    {"aten.selu.default", selu, NULL},
    {"aten.elu.default", elu, NULL},
    {"aten.hardsigmoid.default", hardsigmoid, NULL},
    {"aten.softplus.default", softplus, NULL},
    {"aten.add.Tensor", arithmetic, &cfx_op_onnx_Add},
    {"aten.add.Scalar", arithmetic, &cfx_op_onnx_Add},
    {"aten.sub.Tensor", arithmetic, &cfx_op_onnx_Sub},
    {"aten.sub.Scalar", arithmetic, &cfx_op_onnx_Sub},
    {"aten.mul.Tensor", arithmetic, &cfx_op_onnx_Mul},
    {"aten.mul.Scalar", arithmetic, &cfx_op_onnx_Mul},
    {"aten.div.Tensor", arithmetic, &cfx_op_onnx_Div},
    {"aten.div.Scalar", arithmetic, &cfx_op_onnx_Div},
    {"aten.div.Tensor_mode", div_mode, NULL},
    {"aten.floor_divide.default", floor_divide, NULL},
    {"aten.rsub.Scalar", rsub, NULL},
    {"aten.rsub.Tensor", rsub, NULL},
    {"aten.remainder.Scalar", remainder_, NULL},
    {"aten.remainder.Tensor", remainder_, NULL},
    {"aten.fmod.Scalar", fmod_, NULL},
    {"aten.fmod.Tensor", fmod_, NULL},
    {"aten.pow.Tensor_Scalar", pow_, NULL},
    {"aten.pow.Tensor_Tensor", pow_, NULL},
    {"aten.pow.Scalar", pow_, NULL},
    {"aten.maximum.default", extreme, &cfx_op_onnx_Max},
    {"aten.minimum.default", extreme, &cfx_op_onnx_Min},
    {"aten.fmax.default", extreme_number, &cfx_op_onnx_Max},
    {"aten.fmin.default", extreme_number, &cfx_op_onnx_Min},
    {"aten.copysign.Tensor", copysign_, NULL},
    {"aten.copysign.Scalar", copysign_, NULL},
    {"aten.round.decimals", round_decimals, NULL},
    {"aten.clamp.default", clamp, NULL},
    {"aten.clamp.Tensor", clamp_tensor, NULL},
    {"aten.clamp_min.default", clamp_min_, NULL},
    {"aten.clamp_max.default", clamp_max_, NULL},
    {"aten.hardtanh.default", clamp, NULL},
    {"aten.atan2.default", atan2_, NULL},
    {"aten.signbit.default", signbit_, NULL},
    {"aten.hypot.default", hypot_, NULL},
    {"aten.__lshift__.Scalar", shifted, &cfx_op_onnx_Mul},
    {"aten.__lshift__.Tensor", shifted, &cfx_op_onnx_Mul},
    {"aten.__rshift__.Scalar", shifted, &cfx_op_onnx_Div},
    {"aten.__rshift__.Tensor", shifted, &cfx_op_onnx_Div},
    {"aten.bitwise_left_shift.Tensor", shift_left, NULL},
    {"aten.bitwise_left_shift.Tensor_Scalar", shift_left, NULL},
    {"aten.bitwise_right_shift.Tensor", shift_right, NULL},
    {"aten.bitwise_right_shift.Tensor_Scalar", shift_right, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_math = CFX__ONNX_RULES(rows);
