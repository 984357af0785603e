/* Rules for products of matrices, normalisations and attention. */
#include "export.h"

#include <math.h>

static cfx_dtype dtype(const cfx__onnx_export *x) { return cfx__export_result(x).dtype; }

static bool is_one(cfx_value v) { return cfx_is_number(v) && cfx_number(v) == 1; }

/* ---- products -------------------------------------------------------------------------------- */

RULE(product) {
    (void)op;
    return PUT(MatMul, cfx__export_in(x, 0), cfx__export_in(x, 1));
}

/* beta * c + alpha * a @ b; Gemm is for matrices of floats. */
RULE(addmm) {
    cfx_dtype d = dtype(x);
    cfx_value c = cfx__export_as(x, 0, d), a = cfx__export_in(x, 1), b = cfx__export_in(x, 2);
    cfx_value beta = cfx__export_arg(x, 3), alpha = cfx__export_arg(x, 4);
    (void)op;
    if (cfx__dtype_is_floating(d) && cfx__export_given(x, 1).ndim == 2 &&
        cfx__export_given(x, 2).ndim == 2)
        return is_one(beta) && is_one(alpha)
                   ? PUT(Gemm, a, b, c)
                   : PUT(Gemm, a, b, c, CFX_KW(alpha, cfx_number(alpha)),
                         CFX_KW(beta, cfx_number(beta)));
    cfx_value y = PUT(MatMul, a, b);
    y = is_one(alpha) ? y : PUT(Mul, y, cfx__export_number(x, alpha, d));
    c = is_one(beta) ? c : PUT(Mul, c, cfx__export_number(x, beta, d));
    return PUT(Add, c, y);
}

RULE(linear) {
    cfx_result in = cfx__export_given(x, 0), w = cfx__export_given(x, 1);
    cfx_value v = cfx__export_in(x, 0), m = cfx__export_in(x, 1), b = cfx__export_in(x, 2);
    (void)op;
    if (in.ndim == 2 && w.ndim == 2 && cfx__dtype_is_floating(dtype(x)))
        return PUT(Gemm, v, m, b, CFX_KW(transB, 1));
    if (w.ndim == 2)
        m = PUT(Transpose, m, CFX_KW(perm, cfx_list(1, 0)));
    cfx_value y = PUT(MatMul, v, m);
    return cfx_is_none(b) ? y : PUT(Add, y, b);
}

/* Row t belongs to the group whose end is the first behind it: all rows times all matrices, and of
 * each row the product with that of its group. */
RULE(grouped_product) {
    cfx_result a = cfx__export_given(x, 0), b = cfx__export_given(x, 1);
    cfx_value v = cfx__export_in(x, 0), m = cfx__export_in(x, 1), ends = cfx__export_arg(x, 2);
    (void)op;
    if (cfx_is_none(ends))
        return PUT(MatMul, v, m);
    if (a.ndim != 2 || b.ndim != 3)
        return cfx__export_lacks("its groups are not those of rows");
    cfx_value zero = cfx__export_number(x, cfx_int(0), CFX_I64);
    cfx_value one = cfx__export_number(x, cfx_int(1), CFX_I64), last = cfx__export_one(x, -1);
    cfx_value count = PUT(Reshape, PUT(Shape, v, CFX_KW(end, 1)), cfx__export_i64(x, 0, NULL));
    cfx_value rows = PUT(Unsqueeze, PUT(Range, zero, count, one), last);
    cfx_value past = PUT(GreaterOrEqual, rows, cfx__export_as(x, 2, CFX_I64));
    cfx_value group = PUT(ReduceSum, cfx__export_cast(x, past, CFX_BOOL, CFX_I64), last,
                          CFX_KW(keepdims, 1));
    cfx_value most = PUT(Sub, PUT(Shape, m, CFX_KW(end, 1)), one);
    cfx_value at = PUT(Concat, cfx_list(PUT(Min, cfx_list(group, most)), rows), CFX_KW(axis, 1));
    return PUT(GatherND, PUT(MatMul, PUT(Unsqueeze, v, cfx__export_one(x, 0)), m), at);
}

/* ---- normalisations -------------------------------------------------------------------------- */

/* Argument i in a dtype, or where it is left out so many of one number. */
static cfx_value weight(cfx__onnx_export *x, int i, cfx_dtype d, int n, const int64_t *sizes,
                        double other) {
    if (!cfx_is_none(cfx__export_arg(x, i)))
        return cfx__export_as(x, i, d);
    cfx_tensor *t = cfx_full(cfx_ints_value(n, sizes), other, CFX_KW(dtype, cfx_dtype_value(d)));
    return cfx_ok() ? cfx__export_tensor(x, t) : cfx_bad();
}

/* Results beside the first are for gradients. */
static cfx_value alone(cfx_value v, int n) {
    cfx_value out = cfx_tuple(v);
    for (int i = 1; i < n && !cfx_is_bad(v); i++)
        cfx_list_append(cfx_as_list(out), cfx_none());
    return cfx_is_bad(v) ? v : out;
}

static cfx_value layer_normed(cfx__onnx_export *x) {
    int64_t sizes[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, sizes);
    if (n < 0)
        return cfx_bad();
    cfx_dtype d = cfx__export_given(x, 0).dtype;
    cfx_value bias = cfx_is_none(cfx__export_arg(x, 3)) ? cfx_none() : cfx__export_as(x, 3, d);
    cfx_value scale = weight(x, 2, d, n, sizes, 1);
    return PUT(LayerNormalization, cfx__export_in(x, 0), scale, bias, CFX_KW(axis, -n),
               CFX_KW(epsilon, cfx_number(cfx__export_arg(x, 4))));
}
RULE(layer_norm) {
    (void)op;
    return layer_normed(x);
}
RULE(native_layer_norm) {
    (void)op;
    return alone(layer_normed(x), 3);
}

/* A vector as one that is added to, or multiplies, the channels of an image. */
static cfx_value by_channel(cfx__onnx_export *x, cfx_value v, int ndim) {
    int64_t shape[CFX_MAX_DIMS];
    for (int i = 1; i < ndim; i++)
        shape[i - 1] = i == 1 ? -1 : 1;
    return PUT(Reshape, v, cfx__export_i64(x, ndim - 1, shape));
}

/* The numbers of one group of an image; -1 where sizes vary. */
static int64_t group_size(const cfx_result *r, int64_t groups) {
    int64_t all = 1;
    for (int i = 1; i < r->ndim; i++) {
        const cfx_value size = cfx_result_size(r, i);
        if (size.tag != CFX_TAG_INT)
            return -1;
        all *= cfx_integer(size);
    }
    return all / groups;
}

/* The channels of each group are one instance; their weights come after. */
static cfx_value group_normed(cfx__onnx_export *x, int64_t groups, cfx_value w, cfx_value b,
                              double eps) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value v = cfx__export_in(x, 0), shape = cfx__export_shape(x, v, &r);
    cfx_value like = cfx_dtype_value(r.dtype), n = cfx_list(groups);
    cfx_value ones = cfx__export_tensor(x, cfx_ones(n, CFX_KW(dtype, like)));
    cfx_value zeros = cfx__export_tensor(x, cfx_zeros(n, CFX_KW(dtype, like)));
    const int64_t each = group_size(&r, groups);
    if (!each)
        return v;
    cfx_value y = PUT(Reshape, v, cfx__export_i64(x, 3, (int64_t[]){0, groups, each}));
    y = PUT(Reshape, PUT(InstanceNormalization, y, ones, zeros, CFX_KW(epsilon, eps)), shape);
    y = cfx_is_none(w) ? y : PUT(Mul, y, by_channel(x, w, r.ndim));
    return cfx_is_none(b) ? y : PUT(Add, y, by_channel(x, b, r.ndim));
}

RULE(native_group_norm) {
    (void)op;
    return alone(group_normed(x, cfx_integer(cfx__export_arg(x, 6)), cfx__export_in(x, 1),
                              cfx__export_in(x, 2), cfx_number(cfx__export_arg(x, 7))), 3);
}

/* The number of channels; -1 where it varies. */
static int64_t channels(const cfx__onnx_export *x) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value size = cfx_result_size(&r, 1);
    return size.tag == CFX_TAG_INT ? cfx_integer(size) : -1;
}

RULE(batch_norm) {
    int64_t n = channels(x);
    (void)op;
    if (n < 0)
        return cfx__export_lacks("the number of its channels varies");
    cfx_dtype d = cfx__export_given(x, 0).dtype;
    cfx_value w = weight(x, 1, d, 1, &n, 1), b = weight(x, 2, d, 1, &n, 0);
    return alone(PUT(BatchNormalization, cfx__export_in(x, 0), w, b, cfx__export_in(x, 3),
                     cfx__export_in(x, 4), CFX_KW(epsilon, cfx_number(cfx__export_arg(x, 6)))), 3);
}

/* By the mean and variance of what it is given: over all dimensions but the channels. */
RULE(batch_norm_own) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value v = cfx__export_in(x, 0), w = cfx__export_arg(x, 1), b = cfx__export_arg(x, 2);
    int64_t axes[CFX_MAX_DIMS];
    int n = 0;
    (void)op;
    for (int i = 0; i < r.ndim; i++)
        if (i != 1)
            axes[n++] = i;
    cfx_value over = cfx__export_i64(x, n, axes);
    cfx_value apart = PUT(Sub, v, PUT(ReduceMean, v, over, CFX_KW(keepdims, 1)));
    cfx_value var = PUT(ReduceMean, PUT(Mul, apart, apart), over, CFX_KW(keepdims, 1));
    cfx_value eps = cfx__export_number(x, cfx__export_arg(x, 5), r.dtype);
    cfx_value y = PUT(Div, apart, PUT(Sqrt, PUT(Add, var, eps)));
    if (!cfx_is_none(w))
        y = PUT(Mul, y, by_channel(x, cfx__export_as(x, 1, r.dtype), r.ndim));
    if (!cfx_is_none(b))
        y = PUT(Add, y, by_channel(x, cfx__export_as(x, 2, r.dtype), r.ndim));
    return alone(y, 3);
}

/* ---- softmax and attention ------------------------------------------------------------------- */

/* Along a dimension, in the dtype of the result. */
RULE(softmax) {
    cfx_result r = cfx__export_result(x);
    cfx_value v = cfx__export_as(x, 0, r.dtype);
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), r.ndim);
    if (!r.ndim)
        return cfx__export_lacks("it is given a tensor without dimensions");
    return cfx__export_put(x, op, CFX_ARGS(v, CFX_KW(axis, dim == r.ndim - 1 ? -1 : dim)));
}

/* Heads of keys and values that several of queries share, once for each. */
static cfx_value repeated(cfx__onnx_export *x, int i, int64_t times) {
    cfx_result r = cfx__export_given(x, i);
    cfx_value v = cfx__export_in(x, i), shape = PUT(Shape, v);
    if (times == 1)
        return v;
    int n = r.ndim, head = n - 3;
    cfx_value before = PUT(Slice, shape, cfx__export_one(x, 0), cfx__export_one(x, head));
    cfx_value heads = PUT(Slice, shape, cfx__export_one(x, head), cfx__export_one(x, head + 1));
    cfx_value after = PUT(Slice, shape, cfx__export_one(x, head + 1), cfx__export_one(x, n));
    cfx_value by = cfx__export_one(x, times);
    cfx_value all = PUT(Concat, cfx_list(before, heads, by, after), CFX_KW(axis, 0));
    cfx_value last = PUT(Concat, cfx_list(before, PUT(Mul, heads, by), after), CFX_KW(axis, 0));
    return PUT(Reshape, PUT(Expand, PUT(Unsqueeze, v, cfx__export_one(x, head + 1)), all), last);
}

/* The mask of those that look back only, as truths [L, S]. */
static cfx_value causal(cfx__onnx_export *x, cfx_value q, cfx_value k) {
    cfx_value zero = cfx__export_number(x, cfx_int(0), CFX_I64);
    cfx_value one = cfx__export_number(x, cfx_int(1), CFX_I64), none = cfx__export_i64(x, 0, NULL);
    cfx_value rows = PUT(Reshape, PUT(Shape, q, CFX_KW(start, -2), CFX_KW(end, -1)), none);
    cfx_value columns = PUT(Reshape, PUT(Shape, k, CFX_KW(start, -2), CFX_KW(end, -1)), none);
    cfx_value i = PUT(Unsqueeze, PUT(Range, zero, rows, one), cfx__export_one(x, 1));
    return PUT(LessOrEqual, PUT(Range, zero, columns, one), i);
}

RULE(attention) {
    cfx_result q = cfx__export_given(x, 0), k = cfx__export_given(x, 1);
    cfx_value scale = cfx__export_arg(x, 6), mask = cfx__export_arg(x, 3);
    cfx_value width = cfx_result_size(&q, -1), heads = cfx_result_size(&q, -3);
    cfx_value shared = cfx_result_size(&k, -3);
    cfx_dtype d = q.dtype;
    bool gqa = x->schema->nargs > 7 && cfx__export_flag(x, 7);
    int n = k.ndim;
    (void)op;
    if (cfx_number(cfx__export_arg(x, 4)) != 0)
        return cfx__export_lacks("it drops out");
    if (width.tag != CFX_TAG_INT || (gqa && (heads.tag != CFX_TAG_INT ||
                                             shared.tag != CFX_TAG_INT)))
        return cfx__export_lacks("the size of its heads varies");
    int64_t times = gqa ? cfx_integer(heads) / cfx_integer(shared) : 1, order[CFX_MAX_DIMS];
    double s = cfx_is_number(scale) ? cfx_number(scale) : 1 / sqrt((double)cfx_integer(width));
    for (int i = 0; i < n; i++)
        order[i] = i == n - 1 ? n - 2 : i == n - 2 ? n - 1 : i;
    cfx_value query = cfx__export_in(x, 0), key = repeated(x, 1, times);
    cfx_value turned = PUT(Transpose, key, CFX_KW(perm, cfx_ints_value(n, order)));
    cfx_value p = PUT(Mul, PUT(MatMul, query, turned),
                      cfx__export_number(x, cfx_float(s), d));
    bool back = cfx__export_flag(x, 5), masked = !cfx_is_none(mask) || back;
    cfx_value m = back ? causal(x, query, key) : cfx_none();
    bool truths = back || cfx__export_given(x, 3).dtype == CFX_BOOL;
    if (!cfx_is_none(mask))
        m = cfx__export_in(x, 3);
    if (masked && truths)
        m = PUT(Where, m, cfx__export_number(x, cfx_float(0), d),
                cfx__export_number(x, cfx_float(-(double)INFINITY), d));
    p = PUT(Softmax, masked ? PUT(Add, p, m) : p, CFX_KW(axis, -1));
    if (!cfx_is_none(mask)) /* a row of which nothing is seen is zeros */
        p = PUT(Where, PUT(IsNaN, p), cfx__export_number(x, cfx_float(0), d), p);
    return PUT(MatMul, p, repeated(x, 2, times));
}

/* Of _linalg_det the parts of the factorisation, which have no form in ONNX, are left out. */
RULE(determinant) {
    cfx_value y = PUT(Det, cfx__export_in(x, 0));
    (void)op;
    return x->schema->nrets == 1 || cfx_is_bad(y) ? y : cfx_tuple(y, cfx_none(), cfx_none());
}

static const cfx__onnx_rule rows[] = {
    {"aten.mm.default", product, NULL},
    {"aten.bmm.default", product, NULL},
    {"aten.matmul.default", product, NULL},
    {"aten.det.default", determinant, NULL},
    {"aten.linalg_det.default", determinant, NULL},
    {"aten._linalg_det.default", determinant, NULL},
    {"aten.mv.default", product, NULL},
    {"aten.dot.default", product, NULL},
    {"aten._grouped_mm.default", grouped_product, NULL},
    {"transformers.grouped_mm_fallback.default", grouped_product, NULL},
    {"aten.addmm.default", addmm, NULL},
    {"aten.baddbmm.default", addmm, NULL},
    {"aten.addmv.default", addmm, NULL},
    {"aten.linear.default", linear, NULL},
    {"aten.layer_norm.default", layer_norm, NULL},
    {"aten.native_layer_norm.default", native_layer_norm, NULL},
    {"aten.native_group_norm.default", native_group_norm, NULL},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm, NULL},
    {"aten._native_batch_norm_legit.no_stats", batch_norm_own, NULL},
    {"aten._softmax.default", softmax, &cfx_op_onnx_Softmax},
    {"aten._log_softmax.default", softmax, &cfx_op_onnx_LogSoftmax},
    {"aten.softmax.int", softmax, &cfx_op_onnx_Softmax},
    {"aten.log_softmax.int", softmax, &cfx_op_onnx_LogSoftmax},
    {"aten.scaled_dot_product_attention.default", attention, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_nn = CFX__ONNX_RULES(rows);
