/* Sizes that vary and arithmetic on them: integers as tensors i64[1], what is computed of them as
 * f64[1] or bool[1], and lists of integers as one tensor. */
#include "export.h"

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* The new value of a number that a node gives. */
static cfx_value number_of(cfx__onnx_export *x, cfx_node *n) {
    cfx_value v = x->values[cfx__node_of(n)->id];
    return v.tag == CFX_TAG_NODE
               ? v
               : cfx__export_lacks("ONNX has nothing for what %s gives", n->name);
}

cfx_value cfx__export_size(cfx__onnx_export *x, cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        return number_of(x, cfx_as_node(v));
    return v.tag == CFX_TAG_INT ? cfx__export_one(x, cfx_integer(v))
                                : cfx__export_lacks("%s is no size", cfx_value_repr(v));
}

/* The dtype of the tensor that stands for a number. */
static cfx_dtype dtype_of(cfx_result r) {
    return r.kind == CFX_RESULT_TENSOR  ? r.dtype
           : r.kind == CFX_RESULT_FLOAT ? CFX_F64
           : r.kind == CFX_RESULT_BOOL  ? CFX_BOOL
                                        : CFX_I64;
}

cfx_value cfx__export_scalar(cfx__onnx_export *x, cfx_value v, cfx_dtype d) {
    if (v.tag != CFX_TAG_NODE)
        return cfx__export_number(x, v, d);
    cfx_dtype from = dtype_of(cfx_node_result(cfx_as_node(v)));
    cfx_value one = cfx__export_cast(x, number_of(x, cfx_as_node(v)), from, d);
    return PUT(Reshape, one, cfx__export_i64(x, 0, NULL));
}

cfx_value cfx__export_sizes(cfx__onnx_export *x, cfx_value list) {
    int64_t run[CFX_MAX_DIMS];
    int n = 0;
    cfx_value parts = cfx_list_value(0, NULL);
    int64_t len = is_sequence(list) ? cfx_as_list(list)->len : 0;
    if (len > CFX_MAX_DIMS)
        return cfx__export_lacks("there are more than %d sizes", CFX_MAX_DIMS);
    for (int64_t i = 0; i < len; i++) {
        cfx_value v = cfx_as_list(list)->items[i];
        if (v.tag == CFX_TAG_INT) {
            run[n++] = cfx_integer(v);
            continue;
        }
        if (n)
            cfx_list_append(cfx_as_list(parts), cfx__export_i64(x, n, run));
        n = 0;
        cfx_list_append(cfx_as_list(parts), cfx__export_size(x, v));
    }
    if (n || !cfx_as_list(parts)->len)
        cfx_list_append(cfx_as_list(parts), cfx__export_i64(x, n, run));
    if (!cfx_ok())
        return cfx_bad();
    return cfx_as_list(parts)->len == 1 ? cfx_at(parts, 0) : PUT(Concat, parts, CFX_KW(axis, 0));
}

cfx_value cfx__export_shape(cfx__onnx_export *x, cfx_value v, const cfx_result *r) {
    return r->shape ? cfx__export_i64(x, r->ndim, r->shape) : PUT(Shape, v);
}

/* ---- rules ----------------------------------------------------------------------------------- */

RULE(sym_size) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), r.ndim);
    (void)op;
    return PUT(Shape, cfx__export_in(x, 0), CFX_KW(start, dim), CFX_KW(end, dim + 1));
}

RULE(sym_numel) {
    (void)op;
    return PUT(Reshape, PUT(Size, cfx__export_in(x, 0)), cfx__export_one(x, 1));
}

/* A number of a tensor of one. */
RULE(item) {
    cfx_result r = cfx__export_given(x, 0);
    (void)op;
    cfx_value v = PUT(Reshape, cfx__export_in(x, 0), cfx__export_one(x, 1));
    return cfx__export_cast(x, v, r.dtype, dtype_of(cfx__export_result(x)));
}

/* ---- arithmetic on numbers ------------------------------------------------------------------- */

static cfx_dtype dtype_in(const cfx__onnx_export *x, int i) {
    cfx_value v = cfx__export_arg(x, i);
    return v.tag == CFX_TAG_NODE ? dtype_of(cfx__export_given(x, i)) : cfx__dtype_of_number(v);
}

/* Operand i in a dtype, with one dimension. */
static cfx_value number_in(cfx__onnx_export *x, int i, cfx_dtype d) {
    cfx_value v = cfx__export_arg(x, i);
    if (v.tag == CFX_TAG_NODE)
        return cfx__export_cast(x, number_of(x, cfx_as_node(v)), dtype_in(x, i), d);
    if (!cfx_is_number(v))
        return cfx__export_lacks("%s is no number", cfx_value_repr(v));
    if (d == CFX_I64)
        return cfx__export_one(x, cfx_integer(v));
    return PUT(Reshape, cfx__export_number(x, v, d), cfx__export_one(x, 1));
}

/* Both operands in the dtype of the result. */
RULE(number_op) {
    cfx_dtype d = dtype_of(cfx__export_result(x));
    return cfx__export_put(x, op, CFX_ARGS(number_in(x, 0, d), number_in(x, 1, d)));
}

/* Python's remainder has the sign of the divisor, as that of ONNX has for integers. */
RULE(number_floordiv) {
    cfx_value a = number_in(x, 0, CFX_I64), b = number_in(x, 1, CFX_I64);
    (void)op;
    if (dtype_of(cfx__export_result(x)) != CFX_I64)
        return cfx__export_lacks("it divides numbers that are no integers");
    return PUT(Div, PUT(Sub, a, PUT(Mod, a, b)), b);
}

RULE(number_mod) {
    if (dtype_of(cfx__export_result(x)) != CFX_I64)
        return cfx__export_lacks("it divides numbers that are no integers");
    return cfx__export_put(x, op, CFX_ARGS(number_in(x, 0, CFX_I64), number_in(x, 1, CFX_I64)));
}

RULE(number_extreme) {
    cfx_dtype d = dtype_of(cfx__export_result(x));
    return cfx__export_put(x, op, CFX_ARGS(cfx_list(number_in(x, 0, d), number_in(x, 1, d))));
}

RULE(number_unary) {
    return cfx__export_put(x, op, CFX_ARGS(number_in(x, 0, dtype_of(cfx__export_result(x)))));
}

/* A function of floats whose result is rounded to an integer. */
RULE(number_rounded) {
    cfx_value v = cfx__export_put(x, op, CFX_ARGS(number_in(x, 0, CFX_F64)));
    return cfx__export_cast(x, v, CFX_F64, dtype_of(cfx__export_result(x)));
}

RULE(number_cast) {
    cfx_value v = number_in(x, 0, dtype_of(cfx__export_result(x)));
    (void)op;
    return cfx_is_bad(v) ? v : PUT(Identity, v);
}

static cfx_dtype compared(const cfx__onnx_export *x) {
    return dtype_in(x, 0) == CFX_F64 || cfx__dtype_is_floating(dtype_in(x, 1)) ? CFX_F64 : CFX_I64;
}

RULE(number_relation) {
    cfx_dtype d = compared(x);
    return cfx__export_put(x, op, CFX_ARGS(number_in(x, 0, d), number_in(x, 1, d)));
}

RULE(number_ne) {
    cfx_dtype d = compared(x);
    return cfx__export_put(
        x, op, CFX_ARGS(PUT(Equal, number_in(x, 0, d), number_in(x, 1, d))));
}

/* Checks, which ONNX does not have. */
RULE(nothing) {
    (void)x, (void)op;
    return cfx_none();
}

static const cfx__onnx_rule rows[] = {
    {"aten.sym_size.int", sym_size, NULL},
    {"aten.sym_numel.default", sym_numel, NULL},
    {"aten._local_scalar_dense.default", item, NULL},
    {"aten.item.default", item, NULL},
    {"operator.add", number_op, &cfx_op_onnx_Add},
    {"operator.sub", number_op, &cfx_op_onnx_Sub},
    {"operator.mul", number_op, &cfx_op_onnx_Mul},
    {"operator.truediv", number_op, &cfx_op_onnx_Div},
    {"operator.mod", number_mod, &cfx_op_onnx_Mod},
    {"operator.pow", number_op, &cfx_op_onnx_Pow},
    {"operator.floordiv", number_floordiv, NULL},
    {"operator.neg", number_unary, &cfx_op_onnx_Neg},
    {"torch.sym_max", number_extreme, &cfx_op_onnx_Max},
    {"torch.sym_min", number_extreme, &cfx_op_onnx_Min},
    {"torch.sym_float", number_cast, NULL},
    {"torch.sym_int", number_cast, NULL},
    {"torch.sym_not", number_unary, &cfx_op_onnx_Not},
    {"torch._sym_sqrt", number_unary, &cfx_op_onnx_Sqrt},
    {"math.ceil", number_rounded, &cfx_op_onnx_Ceil},
    {"math.floor", number_rounded, &cfx_op_onnx_Floor},
    {"math.trunc", number_cast, NULL},
    {"operator.ge", number_relation, &cfx_op_onnx_GreaterOrEqual},
    {"operator.gt", number_relation, &cfx_op_onnx_Greater},
    {"operator.le", number_relation, &cfx_op_onnx_LessOrEqual},
    {"operator.lt", number_relation, &cfx_op_onnx_Less},
    {"operator.eq", number_relation, &cfx_op_onnx_Equal},
    {"operator.ne", number_ne, &cfx_op_onnx_Not},
    {"operator.and_", number_op, &cfx_op_onnx_And},
    {"operator.or_", number_op, &cfx_op_onnx_Or},
    {"torch._check", nothing, NULL},
    {"aten._assert_scalar.default", nothing, NULL},
    {"aten._assert_tensor_metadata.default", nothing, NULL},
    {"aten._assert_async.msg", nothing, NULL},
    {"aten.sym_constrain_range.default", nothing, NULL},
    {"aten.sym_constrain_range_for_size.default", nothing, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_sizes = CFX__ONNX_RULES(rows);
