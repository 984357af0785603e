/* Rules for comparisons, truths and choices. */
#include "export.h"

/* The dtype that two operands are compared in; truths have no order in ONNX. */
static cfx_dtype compared(const cfx__onnx_export *x, bool ordered) {
    cfx__promotion p = CFX__PROMOTION_START;
    for (int i = 0; i < 2; i++) {
        const cfx_result r = cfx__export_given(x, i);
        if (r.kind == CFX_RESULT_TENSOR)
            cfx__promotion_sized(&p, r.dtype, r.ndim);
        else
            cfx__promotion_value(&p, r.kind == CFX_RESULT_INT     ? cfx_int(0)
                                     : r.kind == CFX_RESULT_FLOAT ? cfx_float(0)
                                                                  : cfx__export_arg(x, i));
    }
    const cfx_dtype d = cfx__promotion_dtype(&p);
    return ordered && d == CFX_BOOL ? CFX_I32 : d;
}

RULE(compare) {
    cfx_dtype d = compared(x, op != &cfx_op_onnx_Equal);
    return cfx__export_put(x, op, CFX_ARGS(cfx__export_as(x, 0, d), cfx__export_as(x, 1, d)));
}

RULE(differ) {
    cfx_dtype d = compared(x, false);
    (void)op;
    return PUT(Not, PUT(Equal, cfx__export_as(x, 0, d), cfx__export_as(x, 1, d)));
}

RULE(truth) { return cfx__export_put(x, op, CFX_ARGS(cfx__export_as(x, 0, CFX_BOOL))); }

RULE(truths) {
    return cfx__export_put(x, op, CFX_ARGS(cfx__export_as(x, 0, CFX_BOOL),
                                           cfx__export_as(x, 1, CFX_BOOL)));
}

/* Bits of integers; of truths the operator beside it. */
static cfx_value bits(cfx__onnx_export *x, cfx_op *ints, cfx_op *bools) {
    cfx_dtype d = cfx__export_result(x).dtype;
    return cfx__export_put(x, d == CFX_BOOL ? bools : ints,
                           CFX_ARGS(cfx__export_as(x, 0, d), cfx__export_as(x, 1, d)));
}
RULE(bits_and) { return bits(x, op, &cfx_op_onnx_And); }
RULE(bits_or) { return bits(x, op, &cfx_op_onnx_Or); }
RULE(bits_xor) { return bits(x, op, &cfx_op_onnx_Xor); }

RULE(bits_not) {
    cfx_op *way = cfx__export_result(x).dtype == CFX_BOOL ? &cfx_op_onnx_Not : op;
    return cfx__export_put(x, way, CFX_ARGS(cfx__export_in(x, 0)));
}

/* Integers are numbers always. */
RULE(of_floats) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value v = cfx__export_in(x, 0);
    if (cfx__dtype_is_floating(r.dtype))
        return cfx__export_put(x, op, CFX_ARGS(v));
    v = cfx__export_cast(x, v, r.dtype, CFX_F32);
    return cfx__export_put(x, op, CFX_ARGS(v));
}

RULE(isfinite_) {
    cfx_value v = cfx__export_as(x, 0, cfx__dtype_is_floating(cfx__export_given(x, 0).dtype)
                                           ? cfx__export_given(x, 0).dtype
                                           : CFX_F32);
    (void)op;
    return PUT(Not, PUT(Or, PUT(IsNaN, v), PUT(IsInf, v)));
}

/* A choice of truths is one of ands and ors: few know Where for them. */
RULE(where) {
    cfx_dtype d = cfx__export_result(x).dtype;
    cfx_value c = cfx__export_as(x, 0, CFX_BOOL);
    cfx_value a = cfx__export_as(x, 1, d), b = cfx__export_as(x, 2, d);
    (void)op;
    return d == CFX_BOOL ? PUT(Or, PUT(And, c, a), PUT(And, PUT(Not, c), b)) : PUT(Where, c, a, b);
}

#define COMPARED(name, to)                                                                         \
    {"aten." name ".Tensor", compare, &cfx_op_onnx_##to},                                          \
        {"aten." name ".Scalar", compare, &cfx_op_onnx_##to}

static const cfx__onnx_rule rows[] = {
    COMPARED("eq", Equal),
    COMPARED("gt", Greater),
    COMPARED("ge", GreaterOrEqual),
    COMPARED("lt", Less),
    COMPARED("le", LessOrEqual),
    {"aten.ne.Tensor", differ, NULL},
    {"aten.ne.Scalar", differ, NULL},
    {"aten.logical_not.default", truth, &cfx_op_onnx_Not},
    {"aten.logical_and.default", truths, &cfx_op_onnx_And},
    {"aten.logical_or.default", truths, &cfx_op_onnx_Or},
    {"aten.logical_xor.default", truths, &cfx_op_onnx_Xor},
    {"aten.bitwise_and.Tensor", bits_and, &cfx_op_onnx_BitwiseAnd},
    {"aten.bitwise_or.Tensor", bits_or, &cfx_op_onnx_BitwiseOr},
    {"aten.bitwise_xor.Tensor", bits_xor, &cfx_op_onnx_BitwiseXor},
    {"aten.bitwise_and.Scalar", bits_and, &cfx_op_onnx_BitwiseAnd},
    {"aten.bitwise_or.Scalar", bits_or, &cfx_op_onnx_BitwiseOr},
    {"aten.bitwise_xor.Scalar", bits_xor, &cfx_op_onnx_BitwiseXor},
    {"aten.bitwise_and.Scalar_Tensor", bits_and, &cfx_op_onnx_BitwiseAnd},
    {"aten.bitwise_or.Scalar_Tensor", bits_or, &cfx_op_onnx_BitwiseOr},
    {"aten.bitwise_xor.Scalar_Tensor", bits_xor, &cfx_op_onnx_BitwiseXor},
    {"aten.bitwise_not.default", bits_not, &cfx_op_onnx_BitwiseNot},
    {"aten.isnan.default", of_floats, &cfx_op_onnx_IsNaN},
    {"aten.isinf.default", of_floats, &cfx_op_onnx_IsInf},
    {"aten.isfinite.default", isfinite_, NULL},
    {"aten.where.self", where, NULL},
    {"aten.where.ScalarSelf", where, NULL},
    {"aten.where.ScalarOther", where, NULL},
    {"aten.where.Scalar", where, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_logic = CFX__ONNX_RULES(rows);
