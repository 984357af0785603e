/* Arithmetic: one operand, two, or several; casts. */
#include "onnx.h"

CFX_FAMILY(MATH);

/* ---- one operand ----------------------------------------------------------------------------- */

/* What ATen computes in other dtypes than it stores is brought back. */
#define UNARY(name, call)                                                                          \
    ONNX_OP(name) {                                                                                \
        cfx_tensor *x = onnx_wide(T(0));                                                           \
        OUT(0) = onnx_to(call, (cfx_dtype)T(0)->dtype);                                            \
    }

UNARY(Abs, cfx_abs(x))
UNARY(Acos, cfx_acos(x))
UNARY(Acosh, cfx_acosh(x))
UNARY(Asin, cfx_asin(x))
UNARY(Asinh, cfx_asinh(x))
UNARY(Atan, cfx_atan(x))
UNARY(Atanh, cfx_atanh(x))
UNARY(Ceil, cfx_ceil(x))
UNARY(Cos, cfx_cos(x))
UNARY(Cosh, cfx_cosh(x))
UNARY(Erf, cfx_erf(x))
UNARY(Exp, cfx_exp(x))
UNARY(Floor, cfx_floor(x))
UNARY(Log, cfx_log(x))
UNARY(Neg, cfx_neg(x))
UNARY(Reciprocal, cfx_reciprocal(x))
UNARY(Round, cfx_round(x))
UNARY(Sign, cfx_sign(x))
UNARY(Sin, cfx_sin(x))
UNARY(Sinh, cfx_sinh(x))
UNARY(Sqrt, cfx_sqrt(x))
UNARY(Tan, cfx_tan(x))
UNARY(BitwiseNot, cfx_bitwise_not(x))
#undef UNARY

CFX_OP(onnx_Abs) = {"onnx::Abs(Tensor X) -> Tensor", ONNX(Abs, 1)};
CFX_OP(onnx_Acos) = {"onnx::Acos(Tensor input) -> Tensor", ONNX(Acos, 7)};
CFX_OP(onnx_Acosh) = {"onnx::Acosh(Tensor input) -> Tensor", ONNX(Acosh, 9)};
CFX_OP(onnx_Asin) = {"onnx::Asin(Tensor input) -> Tensor", ONNX(Asin, 7)};
CFX_OP(onnx_Asinh) = {"onnx::Asinh(Tensor input) -> Tensor", ONNX(Asinh, 9)};
CFX_OP(onnx_Atan) = {"onnx::Atan(Tensor input) -> Tensor", ONNX(Atan, 7)};
CFX_OP(onnx_Atanh) = {"onnx::Atanh(Tensor input) -> Tensor", ONNX(Atanh, 9)};
CFX_OP(onnx_BitwiseNot) = {"onnx::BitwiseNot(Tensor X) -> Tensor", ONNX(BitwiseNot, 18)};
CFX_OP(onnx_Ceil) = {"onnx::Ceil(Tensor X) -> Tensor", ONNX(Ceil, 1)};
CFX_OP(onnx_Cos) = {"onnx::Cos(Tensor input) -> Tensor", ONNX(Cos, 7)};
CFX_OP(onnx_Cosh) = {"onnx::Cosh(Tensor input) -> Tensor", ONNX(Cosh, 9)};
CFX_OP(onnx_Erf) = {"onnx::Erf(Tensor input) -> Tensor", ONNX(Erf, 9)};
CFX_OP(onnx_Exp) = {"onnx::Exp(Tensor input) -> Tensor", ONNX(Exp, 1)};
CFX_OP(onnx_Floor) = {"onnx::Floor(Tensor X) -> Tensor", ONNX(Floor, 1)};
CFX_OP(onnx_Log) = {"onnx::Log(Tensor input) -> Tensor", ONNX(Log, 1)};
CFX_OP(onnx_Neg) = {"onnx::Neg(Tensor X) -> Tensor", ONNX(Neg, 1)};
CFX_OP(onnx_Reciprocal) = {"onnx::Reciprocal(Tensor X) -> Tensor", ONNX(Reciprocal, 1)};
CFX_OP(onnx_Round) = {"onnx::Round(Tensor X) -> Tensor", ONNX(Round, 11)};
CFX_OP(onnx_Sign) = {"onnx::Sign(Tensor input) -> Tensor", ONNX(Sign, 9)};
CFX_OP(onnx_Sin) = {"onnx::Sin(Tensor input) -> Tensor", ONNX(Sin, 7)};
CFX_OP(onnx_Sinh) = {"onnx::Sinh(Tensor input) -> Tensor", ONNX(Sinh, 9)};
CFX_OP(onnx_Sqrt) = {"onnx::Sqrt(Tensor X) -> Tensor", ONNX(Sqrt, 1)};
CFX_OP(onnx_Tan) = {"onnx::Tan(Tensor input) -> Tensor", ONNX(Tan, 7)};

/* ---- casts ----------------------------------------------------------------------------------- */

ONNX_OP(Cast) {
    OUT(0) = onnx_cast(c, T(0), onnx_type_named(c, arg_text(c, 1)), arg_bool(c, 2), arg_text(c, 3));
}

/* A cast to the type of another: that one's numbers need not be known. Where they have few bits
 * `to` says so, which files do not have: a tensor's dtype does not tell. */
ONNX_OP(CastLike) {
    const char *name = arg_is_none(c, 4) ? onnx_type_name(c, T(1)) : arg_text(c, 4);
    if (!cfx_ok())
        return;
    cfx_value v = cfx_op_do_from(c->at, &cfx_op_onnx_Cast,
                                 CFX_ARGS(T(0), CFX_KW(to, name), CFX_KW(saturate, c->args[2]),
                                          CFX_KW(round_mode, c->args[3])));
    if (!cfx_is_bad(v))
        OUT(0) = cfx_as_tensor(v);
}

ONNX_OP(BitCast) {
    const cfx__onnx_type *to = onnx_type_named(c, arg_text(c, 1));
    if (!to)
        return;
    if (to->bits || cfx_dtype_size(to->dtype) != cfx_dtype_size((cfx_dtype)T(0)->dtype)) {
        op_fail(c, "BitCast: '%s' has other bits than %s", to->name,
                cfx_dtype_name((cfx_dtype)T(0)->dtype));
        return;
    }
    OUT(0) = cfx_as_tensor(cfx_op_do_from(c->at, &cfx_op_view_dtype,
                                          CFX_ARGS(T(0), cfx_dtype_value(to->dtype))));
}

CFX_OP(onnx_Cast) = {
    "onnx::Cast(Tensor input, *, str to, int saturate=1, str round_mode=\"up\") -> Tensor",
    ONNX(Cast, 1)};
CFX_OP(onnx_CastLike) = {
    "onnx::CastLike(Tensor input, Tensor target_type, *, int saturate=1, str round_mode=\"up\", "
    "str? to=None) -> Tensor",
    ONNX(CastLike, 15)};
CFX_OP(onnx_BitCast) = {"onnx::BitCast(Tensor input, *, str to) -> Tensor", ONNX(BitCast, 26)};

/* ---- two operands ---------------------------------------------------------------------------- */

/* Both operands, in a dtype that ATen computes in; b is a number where it can be. */
typedef struct {
    cfx_tensor *a;
    cfx_value b;
    cfx_dtype dtype; /* of the result */
} pair;

static pair operands(cfx_op_call *c) {
    pair p = {.a = onnx_wide(T(0)), .dtype = (cfx_dtype)T(0)->dtype};
    p.b = onnx_operand(onnx_wide(T(1)), p.a);
    return p;
}

/* The same where the operands may change places: a number is the second. */
static pair either_way(cfx_op_call *c) {
    pair p = operands(c);
    cfx_value a = p.b.tag == CFX_TAG_TENSOR ? onnx_operand(p.a, cfx_as_tensor(p.b)) : cfx_none();
    if (cfx_is_number(a))
        p = (pair){cfx_as_tensor(p.b), a, p.dtype};
    return p;
}

static void give(cfx_op_call *c, const pair *p, cfx_tensor *result) {
    OUT(0) = onnx_to(result, p->dtype);
}

#define BINARY(name, read, call)                                                                   \
    ONNX_OP(name) {                                                                                \
        pair p = read(c);                                                                          \
        give(c, &p, call);                                                                         \
    }
BINARY(Add, either_way, cfx_add(p.a, p.b))
BINARY(Mul, either_way, cfx_mul(p.a, p.b))
BINARY(BitwiseAnd, operands, cfx_bitwise_and(p.a, p.b))
BINARY(BitwiseOr, operands, cfx_bitwise_or(p.a, p.b))
BINARY(BitwiseXor, operands, cfx_bitwise_xor(p.a, p.b))
#undef BINARY

ONNX_OP(Sub) {
    pair p = operands(c);
    cfx_value a = p.b.tag == CFX_TAG_TENSOR ? onnx_operand(p.a, cfx_as_tensor(p.b)) : cfx_none();
    give(c, &p, cfx_is_number(a) ? cfx_rsub(p.b, a) : cfx_sub(p.a, p.b));
}

/* Integers are divided as in C. */
ONNX_OP(Div) {
    pair p = operands(c);
    if (!cfx__dtype_is_integral(p.dtype))
        give(c, &p, cfx_div(p.a, p.b));
    else
        give(c, &p, cfx_div(p.a, p.b, CFX_KW(rounding_mode, "trunc")));
}

/* The result has the dtype of the base, whatever it is raised to. */
ONNX_OP(Pow) {
    cfx_tensor *a = onnx_wide(T(0)), *b = onnx_wide(T(1));
    bool real = cfx__dtype_is_float((cfx_dtype)b->dtype), whole = cfx__dtype_is_int(
        (cfx_dtype)a->dtype);
    const cfx_tensor *known = b->numel == 1 && b->ndim <= a->ndim ? cfx__tensor_known(b) : NULL;
    cfx_value exponent = known ? cfx__tensor_get(known, 0) : cfx_tensor_value(b);
    if (whole && (real || !known))
        a = onnx_to(a, CFX_F64);
    OUT(0) = onnx_to(cfx_pow(a, exponent), (cfx_dtype)T(0)->dtype);
}

/* A remainder has the sign of what it is divided by, also where it is 0. */
ONNX_OP(Mod) {
    pair p = operands(c);
    if (arg_bool(c, 2)) {
        give(c, &p, cfx_fmod(p.a, p.b));
        return;
    }
    cfx_tensor *r = cfx_remainder(p.a, p.b);
    if (cfx__dtype_is_float(p.dtype))
        r = cfx_where(cfx_eq(r, 0), cfx_copysign(r, p.b), r);
    give(c, &p, r);
}

/* The sign bit of uint64 is shifted like the others. */
static cfx_tensor *shifted_right(cfx_tensor *a, cfx_tensor *b, bool wide) {
    cfx_tensor *plain = cfx_bitwise_right_shift(a, b);
    if (!wide)
        return plain;
    cfx_tensor *one = cfx_bitwise_and(cfx_bitwise_right_shift(a, 1), INT64_MAX);
    cfx_tensor *rest = cfx_bitwise_right_shift(one, cfx_clamp(cfx_sub(b, 1), 0));
    return cfx_where(cfx_eq(b, 0), plain, rest);
}

ONNX_OP(BitShift) {
    cfx_tensor *a = onnx_wide(T(0)), *b = onnx_wide(T(1));
    const char *direction = arg_text(c, 2);
    bool left = direction && !strcmp(direction, "LEFT");
    if (!left && (!direction || strcmp(direction, "RIGHT"))) {
        op_fail(c, "BitShift: the direction is LEFT or RIGHT, not '%s'", direction);
        return;
    }
    cfx_tensor *out = left ? cfx_bitwise_left_shift(a, b)
                           : shifted_right(a, b, T(0)->dtype == CFX_U64);
    OUT(0) = onnx_to(out, (cfx_dtype)T(0)->dtype);
}

CFX_OP(onnx_Add) = {"onnx::Add(Tensor A, Tensor B) -> Tensor", ONNX(Add, 7)};
CFX_OP(onnx_Sub) = {"onnx::Sub(Tensor A, Tensor B) -> Tensor", ONNX(Sub, 7)};
CFX_OP(onnx_Mul) = {"onnx::Mul(Tensor A, Tensor B) -> Tensor", ONNX(Mul, 7)};
CFX_OP(onnx_Div) = {"onnx::Div(Tensor A, Tensor B) -> Tensor", ONNX(Div, 7)};
CFX_OP(onnx_Pow) = {"onnx::Pow(Tensor X, Tensor Y) -> Tensor", ONNX(Pow, 7)};
CFX_OP(onnx_Mod) = {"onnx::Mod(Tensor A, Tensor B, *, int fmod=0) -> Tensor", ONNX(Mod, 10)};
CFX_OP(onnx_BitShift) = {
    "onnx::BitShift(Tensor X, Tensor Y, *, str direction) -> Tensor",
    ONNX(BitShift, 11)};
CFX_OP(onnx_BitwiseAnd) = {"onnx::BitwiseAnd(Tensor A, Tensor B) -> Tensor", ONNX(BitwiseAnd, 18)};
CFX_OP(onnx_BitwiseOr) = {"onnx::BitwiseOr(Tensor A, Tensor B) -> Tensor", ONNX(BitwiseOr, 18)};
CFX_OP(onnx_BitwiseXor) = {"onnx::BitwiseXor(Tensor A, Tensor B) -> Tensor", ONNX(BitwiseXor, 18)};

/* ---- several operands ------------------------------------------------------------------------ */

/* uint64 as int64 of the same order; and back, by the same step. */
static cfx_tensor *in_order(cfx_tensor *x, cfx_dtype from) {
    return from == CFX_U64 ? cfx_bitwise_xor(x, INT64_MIN) : x;
}

typedef cfx_tensor *fold(cfx_tensor *a, cfx_tensor *b);
static cfx_tensor *fold_add(cfx_tensor *a, cfx_tensor *b) { return cfx_add(a, b); }
static cfx_tensor *fold_max(cfx_tensor *a, cfx_tensor *b) { return cfx_maximum(a, b); }
static cfx_tensor *fold_min(cfx_tensor *a, cfx_tensor *b) { return cfx_minimum(a, b); }

static cfx_tensor *folded(cfx_op_call *c, fold *with) {
    int64_t n = arg_count(c, 0);
    if (!n) {
        op_fail(c, "%s: there are no operands", op_title(c));
        return &cfx__tensor_bad;
    }
    cfx_dtype d = (cfx_dtype)arg_item(c, 0, 0)->dtype;
    cfx_tensor *sum = in_order(onnx_wide(arg_item(c, 0, 0)), with == fold_add ? CFX_F32 : d);
    for (int64_t i = 1; i < n; i++)
        sum = with(sum, in_order(onnx_wide(arg_item(c, 0, i)), with == fold_add ? CFX_F32 : d));
    return onnx_to(in_order(sum, with == fold_add ? CFX_F32 : d), d);
}

ONNX_OP(Sum) { OUT(0) = folded(c, fold_add); }
ONNX_OP(Max) { OUT(0) = folded(c, fold_max); }
ONNX_OP(Min) { OUT(0) = folded(c, fold_min); }
ONNX_OP(Mean) { OUT(0) = cfx_div(folded(c, fold_add), arg_count(c, 0)); }

CFX_OP(onnx_Sum) = {"onnx::Sum(Tensor[] data_0) -> Tensor", ONNX(Sum, 1)};
CFX_OP(onnx_Max) = {"onnx::Max(Tensor[] data_0) -> Tensor", ONNX(Max, 1)};
CFX_OP(onnx_Min) = {"onnx::Min(Tensor[] data_0) -> Tensor", ONNX(Min, 1)};
CFX_OP(onnx_Mean) = {"onnx::Mean(Tensor[] data_0) -> Tensor", ONNX(Mean, 1)};

/* ---- bounds ---------------------------------------------------------------------------------- */

static cfx_value bound(cfx_op_call *c, int i, cfx_tensor *x) {
    return arg_is_none(c, i) ? cfx_none() : onnx_operand(onnx_wide(T(i)), x);
}

/* The upper bound holds where the lower is larger, as in clamp. */
ONNX_OP(Clip) {
    cfx_tensor *x = onnx_wide(T(0));
    cfx_value low = bound(c, 1, x), high = bound(c, 2, x);
    bool tensors = low.tag == CFX_TAG_TENSOR || high.tag == CFX_TAG_TENSOR;
    if (tensors && !cfx_is_none(low))
        x = cfx_maximum(x, onnx_wide(T(1)));
    if (tensors && !cfx_is_none(high))
        x = cfx_minimum(x, onnx_wide(T(2)));
    if (!tensors && (!cfx_is_none(low) || !cfx_is_none(high)))
        x = cfx_clamp(x, low, high);
    OUT(0) = onnx_to(x, (cfx_dtype)T(0)->dtype);
}

CFX_OP(onnx_Clip) = {
    "onnx::Clip(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor",
    ONNX(Clip, 11)};
