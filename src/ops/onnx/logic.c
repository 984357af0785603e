/* Comparisons, truths, and choices by them. */
#include "onnx.h"

CFX_FAMILY(COMPARE);

/* Operands in an order that int64 has: that of uint64 is another. */
static cfx_tensor *comparable(cfx_tensor *x) {
    return x->dtype == CFX_U64 ? cfx_bitwise_xor(onnx_wide(x), INT64_MIN) : onnx_wide(x);
}

static cfx_value right(cfx_op_call *c) {
    return T(1)->dtype == CFX_U64 ? cfx_tensor_value(comparable(T(1)))
                                  : onnx_operand(onnx_wide(T(1)), onnx_wide(T(0)));
}

#define COMPARE(name, call)                                                                        \
    ONNX_OP(name) {                                                                                \
        cfx_tensor *a = comparable(T(0));                                                          \
        cfx_value b = right(c);                                                                    \
        OUT(0) = call(a, b);                                                                       \
    }
COMPARE(Equal, cfx_eq)
COMPARE(Greater, cfx_gt)
COMPARE(GreaterOrEqual, cfx_ge)
COMPARE(Less, cfx_lt)
COMPARE(LessOrEqual, cfx_le)
#undef COMPARE

ONNX_OP(And) { OUT(0) = cfx_logical_and(T(0), T(1)); }
ONNX_OP(Or) { OUT(0) = cfx_logical_or(T(0), T(1)); }
ONNX_OP(Xor) { OUT(0) = cfx_logical_xor(T(0), T(1)); }
ONNX_OP(Not) { OUT(0) = cfx_logical_not(T(0)); }

CFX_OP(onnx_Equal) = {"onnx::Equal(Tensor A, Tensor B) -> Tensor", ONNX(Equal, 7)};
CFX_OP(onnx_Greater) = {"onnx::Greater(Tensor A, Tensor B) -> Tensor", ONNX(Greater, 7)};
CFX_OP(onnx_GreaterOrEqual) = {
    "onnx::GreaterOrEqual(Tensor A, Tensor B) -> Tensor",
    ONNX(GreaterOrEqual, 12)};
CFX_OP(onnx_Less) = {"onnx::Less(Tensor A, Tensor B) -> Tensor", ONNX(Less, 7)};
CFX_OP(onnx_LessOrEqual) = {
    "onnx::LessOrEqual(Tensor A, Tensor B) -> Tensor",
    ONNX(LessOrEqual, 12)};
CFX_OP(onnx_And) = {"onnx::And(Tensor A, Tensor B) -> Tensor", ONNX(And, 7)};
CFX_OP(onnx_Or) = {"onnx::Or(Tensor A, Tensor B) -> Tensor", ONNX(Or, 7)};
CFX_OP(onnx_Xor) = {"onnx::Xor(Tensor A, Tensor B) -> Tensor", ONNX(Xor, 7)};
CFX_OP(onnx_Not) = {"onnx::Not(Tensor X) -> Tensor", ONNX(Not, 1)};

ONNX_OP(IsNaN) { OUT(0) = cfx_isnan(onnx_wide(T(0))); }

ONNX_OP(IsInf) {
    cfx_tensor *x = onnx_wide(T(0));
    bool negative = arg_bool(c, 1), positive = arg_bool(c, 2);
    OUT(0) = negative && positive ? cfx_isinf(x)
             : negative           ? cfx_isneginf(x)
             : positive           ? cfx_isposinf(x)
                                  : cfx_zeros_like(x, CFX_KW(dtype, cfx_dtype_value(CFX_BOOL)));
}

CFX_OP(onnx_IsNaN) = {"onnx::IsNaN(Tensor X) -> Tensor", ONNX(IsNaN, 9)};
CFX_OP(onnx_IsInf) = {
    "onnx::IsInf(Tensor X, *, int detect_negative=1, int detect_positive=1) -> Tensor",
    ONNX(IsInf, 10)};

/* The choices have one dtype. One of them may be a number, which then is no larger than the other
 * or the condition. */
ONNX_OP(Where) {
    cfx_tensor *x = onnx_wide(T(1)), *y = onnx_wide(T(2));
    cfx_value b = onnx_operand(y, x), a = cfx_is_number(b) ? cfx_tensor_value(x)
                                                          : onnx_operand(x, y);
    OUT(0) = onnx_to(cfx_where(T(0), a, b), (cfx_dtype)T(1)->dtype);
}

CFX_OP(onnx_Where) = {
    "onnx::Where(Tensor condition, Tensor X, Tensor Y) -> Tensor",
    ONNX(Where, 9)};
