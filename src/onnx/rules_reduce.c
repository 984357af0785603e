/* Rules for sums, extremes and other folds along dimensions. */
#include "export.h"

#include <math.h>

/* The dimensions of argument i as an input of ONNX's: None for all of them. Bad, with an error. */
static cfx_value axes_in(cfx__onnx_export *x, int i) {
    int64_t dims[CFX_MAX_DIMS];
    int ndim = cfx__export_given(x, 0).ndim;
    int n = i ? cfx__export_ints(x, i, dims) : 0;
    for (int k = 0; k < n; k++)
        dims[k] = cfx__export_dim(dims[k], ndim);
    return n < 0 ? cfx_bad() : n && ndim ? cfx__export_i64(x, n, dims) : cfx_none();
}

/* The place of an argument; 0 where the operator has none of that name. */
static int place(const cfx__onnx_export *x, const char *name) {
    for (int i = 1; i < x->schema->nargs; i++)
        if (!strcmp(x->schema->args[i].name, name))
            return i;
    return 0;
}

static int keeps(const cfx__onnx_export *x) {
    int i = place(x, "keepdim");
    return i && cfx__export_flag(x, i) ? 1 : 0;
}

static cfx_value folded(cfx__onnx_export *x, cfx_op *op, cfx_value v) {
    return cfx__export_put(x, op, CFX_ARGS(v, axes_in(x, place(x, "dim")),
                                           CFX_KW(keepdims, keeps(x))));
}

/* In the dtype of the result. */
RULE(fold) { return folded(x, op, cfx__export_as(x, 0, cfx__export_result(x).dtype)); }

/* Whether some, or all, are true: the largest, or the smallest, of ones and zeros. */
/* By comparing: the largest of no elements is the least of all numbers, and no truth. */
/* Over no dimensions, unlike sums, each element is its own truth. */
RULE(truths) {
    cfx_value v = cfx__export_as(x, 0, CFX_BOOL);
    const int dim = place(x, "dim");
    if (dim && x->args[dim].tag == CFX_TAG_LIST && !cfx_as_list(x->args[dim])->len)
        return cfx__export_cast(x, v, CFX_BOOL, cfx__export_result(x).dtype);
    v = folded(x, op, cfx__export_cast(x, v, CFX_BOOL, CFX_I32));
    v = PUT(Greater, v, cfx__export_number(x, cfx_int(0), CFX_I32));
    return cfx__export_cast(x, v, CFX_BOOL, cfx__export_result(x).dtype);
}

/* Without a dimension, the place among all elements. */
static cfx_value argument(cfx__onnx_export *x, cfx_op *op, bool keep) {
    cfx_value dim = cfx__export_arg(x, 1), v = cfx__export_in(x, 0);
    cfx_result r = cfx__export_given(x, 0);
    if (r.dtype == CFX_BOOL)
        v = cfx__export_cast(x, v, CFX_BOOL, CFX_I32);
    if (cfx_is_none(dim) || !r.ndim) {
        v = PUT(Reshape, v, cfx__export_one(x, -1));
        v = cfx__export_put(x, op, CFX_ARGS(v, CFX_KW(axis, 0), CFX_KW(keepdims, 0)));
        int64_t ones[CFX_MAX_DIMS];
        for (int i = 0; i < r.ndim; i++)
            ones[i] = 1;
        return keep && r.ndim ? PUT(Reshape, v, cfx__export_i64(x, r.ndim, ones)) : v;
    }
    return cfx__export_put(x, op, CFX_ARGS(v, CFX_KW(axis, cfx__export_dim(cfx_integer(dim),
                                                                           r.ndim)),
                                           CFX_KW(keepdims, keep ? 1 : 0)));
}

RULE(arg) { return argument(x, op, cfx__export_flag(x, 2)); }

/* aten.max.dim: the largest and where it is. */
static cfx_value extreme(cfx__onnx_export *x, cfx_op *fold_op, cfx_op *arg_op) {
    cfx_value v = cfx__export_in(x, 0);
    cfx_value best = folded(x, fold_op, v);
    cfx_value at = argument(x, arg_op, keeps(x));
    return cfx_is_bad(best) || cfx_is_bad(at) ? cfx_bad() : cfx_tuple(best, at);
}
RULE(max_dim) { return extreme(x, op, &cfx_op_onnx_ArgMax); }
RULE(min_dim) { return extreme(x, op, &cfx_op_onnx_ArgMin); }

RULE(norm) {
    double ord = cfx_number(cfx__export_arg(x, 1));
    cfx_value v = cfx__export_as(x, 0, cfx__export_result(x).dtype);
    (void)op;
    if (ord == 1 || ord == 2)
        return folded(x, ord == 1 ? &cfx_op_onnx_ReduceL1 : &cfx_op_onnx_ReduceL2, v);
    if (ord == (double)INFINITY || ord == -(double)INFINITY)
        return folded(x, ord > 0 ? &cfx_op_onnx_ReduceMax : &cfx_op_onnx_ReduceMin, PUT(Abs, v));
    return cfx__export_lacks("norms of order %g are none of ONNX's", ord);
}

/* How many elements are folded to one, less the correction, and 0 at least; as a number of a dtype.
 */
static cfx_value count(cfx__onnx_export *x, double less, cfx_dtype d) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t dims[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, dims), all = n ? n : r.ndim;
    double product = 1;
    bool varies = false;
    for (int i = 0; i < all; i++) {
        dims[i] = n ? cfx__export_dim(dims[i], r.ndim) : i;
        cfx_value size = cfx_result_size(&r, (int)dims[i]);
        varies |= size.tag != CFX_TAG_INT;
        product *= varies ? 1 : (double)cfx_integer(size);
    }
    if (n < 0 || !varies)
        return n < 0 ? cfx_bad() : cfx__export_number(x, cfx_float(fmax(product - less, 0)), d);
    cfx_value sizes = PUT(Gather, PUT(Shape, cfx__export_in(x, 0)), cfx__export_i64(x, all, dims));
    cfx_value found = PUT(ReduceProd, sizes, cfx__export_one(x, 0), CFX_KW(keepdims, 0));
    cfx_value left = PUT(Sub, cfx__export_cast(x, found, CFX_I64, d),
                         cfx__export_number(x, cfx_float(less), d));
    return cfx_is_bad(left)
               ? left
               : PUT(Max, cfx_list(left, cfx__export_number(x, cfx_float(0), d)));
}

static cfx_value variance(cfx__onnx_export *x) {
    cfx_dtype d = cfx__export_given(x, 0).dtype;
    cfx_value less = cfx__export_arg(x, 2), v = cfx__export_in(x, 0), axes = axes_in(x, 1);
    cfx_value mean = PUT(ReduceMean, v, axes, CFX_KW(keepdims, 1)), apart = PUT(Sub, v, mean);
    cfx_value sum = PUT(ReduceSumSquare, apart, axes, CFX_KW(keepdims, keeps(x)));
    return PUT(Div, sum, count(x, cfx_is_none(less) ? 1 : cfx_number(less), d));
}
RULE(var) {
    (void)op;
    return variance(x);
}
RULE(var_mean) {
    cfx_value v = variance(x);
    cfx_value mean = PUT(ReduceMean, cfx__export_in(x, 0), axes_in(x, 1),
                         CFX_KW(keepdims, keeps(x)));
    (void)op;
    return cfx_is_bad(v) || cfx_is_bad(mean) ? cfx_bad() : cfx_tuple(v, mean);
}

/* Norms of the differences of all pairs of rows. */
RULE(cdist) {
    double p = cfx_number(cfx__export_arg(x, 2));
    cfx_value a = PUT(Unsqueeze, cfx__export_in(x, 0), cfx__export_one(x, -2));
    cfx_value apart = PUT(Sub, a, PUT(Unsqueeze, cfx__export_in(x, 1), cfx__export_one(x, -3)));
    cfx_value last = cfx__export_one(x, -1);
    (void)op;
    if (p != 1 && p != 2)
        return cfx__export_lacks("norms of order %g are none of ONNX's", p);
    return p == 1 ? PUT(ReduceL1, apart, last, CFX_KW(keepdims, 0))
                  : PUT(ReduceL2, apart, last, CFX_KW(keepdims, 0));
}

RULE(cumsum) {
    cfx_result r = cfx__export_result(x);
    cfx_value v = cfx__export_as(x, 0, r.dtype);
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), r.ndim);
    (void)op;
    if (!r.ndim)
        return PUT(Identity, v);
    return PUT(CumSum, v, cfx__export_number(x, cfx_int(dim), CFX_I64));
}

/* Each element times the one before it, then times what is 2 before it, 4, 8: products of all. */
RULE(cumprod) {
    const cfx_result r = cfx__export_result(x);
    cfx_value v = cfx__export_as(x, 0, r.dtype);
    const int dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), r.ndim);
    (void)op;
    if (!r.ndim)
        return PUT(Identity, v);
    if (!r.shape)
        return cfx__export_lacks("it multiplies along a size that varies");
    const cfx_value axis = cfx__export_one(x, dim), zero = cfx__export_one(x, 0);
    for (int64_t by = 1; by < r.shape[dim] && cfx_ok(); by *= 2) {
        const cfx_value at = cfx__export_one(x, by), end = cfx__export_one(x, r.shape[dim]);
        const cfx_value before = PUT(Slice, v, zero, cfx__export_one(x, r.shape[dim] - by), axis);
        const cfx_value product = PUT(Mul, PUT(Slice, v, at, end, axis), before);
        const cfx_value first = PUT(Slice, v, zero, at, axis);
        v = cfx_is_bad(product) || cfx_is_bad(first)
                ? cfx_bad()
                : PUT(Concat, cfx_list(first, product), CFX_KW(axis, dim));
    }
    return r.shape[dim] > 1 ? v : PUT(Identity, v);
}

/* The middle one of n that are sorted, the lower of two; NaN where one is. */
static cfx_value middle(cfx__onnx_export *x, cfx_value v, int64_t n, int dim, bool keep) {
    const cfx_dtype d = cfx__export_result(x).dtype;
    const cfx_value k = cfx__export_one(x, (n - 1) / 2 + 1), axis = cfx__export_one(x, dim);
    const cfx_value found =
        PUT(TopK, v, k, CFX_KW(axis, dim), CFX_KW(largest, 0), CFX_KW(sorted, 1));
    const cfx_value lower = cfx__export_item(x, found, 0);
    cfx__export_item(x, found, 1); /* it has two results */
    const cfx_value best = PUT(ReduceMax, lower, axis, CFX_KW(keepdims, keep));
    if (!cfx__dtype_is_floating(d))
        return best;
    const cfx_value nan = cfx__export_cast(x, PUT(IsNaN, v), CFX_BOOL, CFX_I32);
    const cfx_value any = PUT(ReduceMax, nan, axis, CFX_KW(keepdims, keep));
    return PUT(Where, PUT(Greater, any, cfx__export_number(x, cfx_int(0), CFX_I32)),
               cfx__export_number(x, cfx_float(NAN), d), best);
}

RULE(median) {
    const cfx_result r = cfx__export_given(x, 0);
    int64_t n = 1;
    (void)op;
    for (int i = 0; r.shape && i < r.ndim; i++)
        n *= r.shape[i];
    if (!r.shape || !n)
        return cfx__export_lacks("it is of %s", n ? "a size that varies" : "no elements");
    return middle(x, PUT(Reshape, cfx__export_in(x, 0), cfx__export_one(x, -1)), n, 0, false);
}

/* aten.median.dim: of equal elements ATen does not say whose index it gives. */
RULE(median_dim) {
    const cfx_result r = cfx__export_given(x, 0);
    const int dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), r.ndim);
    (void)op;
    if (cfx__export_is_read(x, 1) || !r.ndim)
        return cfx__export_lacks("where the median is cannot be told");
    if (!r.shape || !r.shape[dim])
        return cfx__export_lacks("it is of %s", r.shape ? "no elements" : "a size that varies");
    const cfx_value v = middle(x, cfx__export_in(x, 0), r.shape[dim], dim, keeps(x));
    return cfx_is_bad(v) ? v : cfx_tuple(v, cfx_none());
}

/* How many lie in each of the bins between two numbers, the upper end in the last. */
RULE(histc) {
    cfx_dtype d = cfx__export_result(x).dtype;
    cfx_value from = cfx__export_arg(x, 2), to = cfx__export_arg(x, 3);
    cfx_value bins = cfx__export_arg(x, 1);
    double least = cfx_is_number(from) ? cfx_number(from) : 0;
    double most = cfx_is_number(to) ? cfx_number(to) : 0;
    (void)op;
    if (bins.tag != CFX_TAG_INT || !(least < most))
        return cfx__export_lacks("its bins are between numbers that only a run can tell");
    double n = (double)cfx_integer(bins);
    cfx_value v = PUT(Reshape, cfx__export_as(x, 0, CFX_F32), cfx__export_one(x, -1));
    cfx_value lo = cfx__export_number(x, cfx_float(least), CFX_F32);
    cfx_value hi = cfx__export_number(x, cfx_float(most), CFX_F32);
    cfx_value inside = PUT(And, PUT(GreaterOrEqual, v, lo), PUT(LessOrEqual, v, hi));
    cfx_value scale = cfx__export_number(x, cfx_float(n / (most - least)), CFX_F32);
    cfx_value at = PUT(Floor, PUT(Mul, PUT(Sub, v, lo), scale));
    at = PUT(Min, cfx_list(at, cfx__export_number(x, cfx_float(n - 1), CFX_F32)));
    cfx_value zero = cfx__export_number(x, cfx_int(0), CFX_F32);
    cfx_value numbers = PUT(Range, zero, cfx__export_number(x, bins, CFX_F32),
                            cfx__export_number(x, cfx_int(1), CFX_F32));
    cfx_value last = cfx__export_one(x, -1);
    cfx_value hit = PUT(And, PUT(Equal, PUT(Unsqueeze, at, last), numbers),
                        PUT(Unsqueeze, inside, last));
    cfx_value sum = PUT(ReduceSum, cfx__export_cast(x, hit, CFX_BOOL, CFX_F32),
                        cfx__export_one(x, 0), CFX_KW(keepdims, 0));
    return cfx__export_cast(x, sum, CFX_F32, d);
}

#define FOLD(name, to) {"aten." name, fold, &cfx_op_onnx_##to}

static const cfx__onnx_rule rows[] = {
    FOLD("sum.dim_IntList", ReduceSum), FOLD("sum.default", ReduceSum),
    FOLD("mean.dim", ReduceMean), FOLD("mean.default", ReduceMean),
    FOLD("prod.dim_int", ReduceProd), FOLD("prod.default", ReduceProd),
    FOLD("amax.default", ReduceMax), FOLD("amin.default", ReduceMin),
    FOLD("max.default", ReduceMax), FOLD("min.default", ReduceMin),
    FOLD("logsumexp.default", ReduceLogSumExp),
    {"aten.any.dim", truths, &cfx_op_onnx_ReduceMax},
    {"aten.any.dims", truths, &cfx_op_onnx_ReduceMax},
    {"aten.any.default", truths, &cfx_op_onnx_ReduceMax},
    {"aten.all.dim", truths, &cfx_op_onnx_ReduceMin},
    {"aten.all.default", truths, &cfx_op_onnx_ReduceMin},
    {"aten.argmax.default", arg, &cfx_op_onnx_ArgMax},
    {"aten.argmin.default", arg, &cfx_op_onnx_ArgMin},
    {"aten.max.dim", max_dim, &cfx_op_onnx_ReduceMax},
    {"aten.min.dim", min_dim, &cfx_op_onnx_ReduceMin},
    {"aten.linalg_vector_norm.default", norm, NULL},
    {"aten.var.correction", var, NULL},
    {"aten.var_mean.correction", var_mean, NULL},
    {"aten._cdist_forward.default", cdist, NULL},
    {"aten.cumsum.default", cumsum, NULL},
    {"aten.cumprod.default", cumprod, NULL},
    {"aten.median.default", median, NULL},
    {"aten.median.dim", median_dim, NULL},
    {"aten.histc.default", histc, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_reduce = CFX__ONNX_RULES(rows);
