/* Rules for complex numbers, which ONNX's operators do not compute with: a tensor of them has a
 * last dimension more, the real and the imaginary part. Of other tables those rules are for such
 * tensors that are named here. */
#include "export.h"

#include <math.h>

static bool is_complex(cfx_result r) {
    return r.kind == CFX_RESULT_TENSOR && cfx__dtype_is_complex(r.dtype);
}

/* The dtype of the parts of what the node computes. */
static cfx_dtype part(const cfx__onnx_export *x) {
    cfx_dtype d = cfx__export_result(x).dtype;
    return cfx__dtype_is_complex(d) ? cfx__dtype_real(d) : d;
}

/* Part i of a pair: 0 is the real one. */
static cfx_value taken(cfx__onnx_export *x, cfx_value v, int64_t i) {
    return PUT(Gather, v, cfx__export_number(x, cfx_int(i), CFX_I64), CFX_KW(axis, -1));
}

static cfx_value paired(cfx__onnx_export *x, cfx_value re, cfx_value im) {
    cfx_value last = cfx__export_one(x, -1);
    cfx_value parts = cfx_list(PUT(Unsqueeze, re, last), PUT(Unsqueeze, im, last));
    return cfx_ok() ? PUT(Concat, parts, CFX_KW(axis, -1)) : cfx_bad();
}

/* The parts of argument i, which may be real, or a number. */
static void read_parts(cfx__onnx_export *x, int i, cfx_value out[2]) {
    cfx_value v = cfx__export_arg(x, i), zero = cfx__export_number(x, cfx_int(0), part(x));
    bool pair = is_complex(cfx__export_given(x, i));
    if (!pair && v.tag == CFX_TAG_COMPLEX) {
        out[0] = out[1] = cfx__export_lacks("%s is a number", cfx_value_repr(v));
        return;
    }
    v = pair ? cfx__export_in(x, i) : cfx__export_as(x, i, part(x));
    for (int k = 0; k < 2; k++)
        out[k] = pair ? taken(x, v, k) : k ? PUT(Mul, v, zero) : v;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

RULE(same) {
    (void)op;
    return PUT(Identity, cfx__export_in(x, 0));
}

RULE(complex_of) {
    (void)op;
    return paired(x, cfx__export_as(x, 0, part(x)), cfx__export_as(x, 1, part(x)));
}

RULE(polar) {
    cfx_value r = cfx__export_as(x, 0, part(x)), angle = cfx__export_as(x, 1, part(x));
    (void)op;
    return paired(x, PUT(Mul, r, PUT(Cos, angle)), PUT(Mul, r, PUT(Sin, angle)));
}

RULE(conjugate) {
    cfx_value a[2];
    (void)op;
    if (!is_complex(cfx__export_given(x, 0)))
        return PUT(Identity, cfx__export_in(x, 0));
    read_parts(x, 0, a);
    return paired(x, a[0], PUT(Neg, a[1]));
}

RULE(absolute) {
    (void)op;
    return PUT(ReduceL2, cfx__export_in(x, 0), cfx__export_one(x, -1), CFX_KW(keepdims, 0));
}

RULE(converted) {
    cfx_value a[2];
    (void)op;
    if (!is_complex(cfx__export_result(x)))
        return cfx__export_lacks("it drops the imaginary part");
    read_parts(x, 0, a);
    cfx_result from = cfx__export_given(x, 0);
    cfx_dtype d = is_complex(from) ? cfx__dtype_real(from.dtype) : part(x);
    return paired(x, cfx__export_cast(x, a[0], d, part(x)), cfx__export_cast(x, a[1], d, part(x)));
}

/* a + b and a - b, part by part. */
RULE(summed) {
    cfx_value a[2], b[2], by = cfx__export_arg(x, 2);
    if (!cfx_is_number(by) || cfx_number(by) != 1)
        return cfx__export_lacks("its alpha is not 1");
    read_parts(x, 0, a), read_parts(x, 1, b);
    return paired(x, cfx__export_put(x, op, CFX_ARGS(a[0], b[0])),
                  cfx__export_put(x, op, CFX_ARGS(a[1], b[1])));
}

RULE(multiplied) {
    cfx_value a[2], b[2];
    (void)op;
    read_parts(x, 0, a), read_parts(x, 1, b);
    return paired(x, PUT(Sub, PUT(Mul, a[0], b[0]), PUT(Mul, a[1], b[1])),
                  PUT(Add, PUT(Mul, a[0], b[1]), PUT(Mul, a[1], b[0])));
}

/* ---- transforms ------------------------------------------------------------------------------ */

/* The product of the sizes of `r` that are transformed; 0, with an error, where one varies. */
static double points(cfx__onnx_export *x, cfx_result r) {
    int64_t dims[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, dims);
    double all = 1;
    for (int i = 0; i < n; i++) {
        cfx_value size = cfx_result_size(&r, cfx__export_dim(dims[i], r.ndim));
        if (size.tag != CFX_TAG_INT) {
            cfx__export_lacks("its result is divided by a size that varies");
            return 0;
        }
        all *= (double)cfx_integer(size);
    }
    return n < 0 ? 0 : all;
}

/* ATen's normalisations: none, by the root of the number of points, by the number. Backwards ONNX
 * divides by it. `r` has the sizes of the points. */
static cfx_value scaled(cfx__onnx_export *x, cfx_value v, cfx_result r, bool inverse) {
    enum { NONE, ROOT, ALL };
    int64_t mode = cfx_integer(cfx__export_arg(x, 2));
    if (mode == (inverse ? ALL : NONE) || cfx_is_bad(v))
        return v;
    double n = points(x, r), by = mode == ALL ? 1 / n : mode == ROOT ? 1 / sqrt(n) : 1;
    return n > 0 ? PUT(Mul, v, cfx__export_number(x, cfx_float(inverse ? by * n : by), part(x)))
                 : cfx_bad();
}

static cfx_value transformed(cfx__onnx_export *x, cfx_value v, int64_t dim, bool inverse,
                             bool onesided) {
    return PUT(DFT, v, cfx_none(), cfx__export_number(x, cfx_int(dim), CFX_I64),
               CFX_KW(inverse, inverse ? 1 : 0), CFX_KW(onesided, onesided ? 1 : 0));
}

RULE(fft_c2c) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t dims[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, dims);
    bool inverse = !cfx__export_flag(x, 3);
    cfx_value v = cfx__export_in(x, 0);
    (void)op;
    for (int i = 0; i < n; i++)
        v = transformed(x, v, cfx__export_dim(dims[i], r.ndim), inverse, false);
    return n < 0 ? cfx_bad() : scaled(x, v, r, inverse);
}

/* Of reals: the last of the dimensions first, of which half may be left out. */
RULE(fft_r2c) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t dims[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, dims);
    bool half = cfx__export_flag(x, 3);
    cfx_value v = PUT(Unsqueeze, cfx__export_in(x, 0), cfx__export_one(x, -1));
    (void)op;
    for (int i = n - 1; i >= 0; i--)
        v = transformed(x, v, cfx__export_dim(dims[i], r.ndim), false, half && i == n - 1);
    return n < 0 ? cfx_bad() : scaled(x, v, r, false);
}

/* To reals: the half that was left out is the other one's mirror image, conjugated. */
RULE(fft_c2r) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t dims[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, dims), last = n > 0 ? cfx__export_dim(dims[n - 1], r.ndim) : 0;
    cfx_value size = cfx__export_arg(x, 3), v = cfx__export_in(x, 0);
    (void)op;
    if (n < 1 || size.tag != CFX_TAG_INT)
        return n < 0 ? cfx_bad() : cfx__export_lacks("a size that it transforms varies");
    for (int i = 0; i < n - 1; i++)
        v = transformed(x, v, cfx__export_dim(dims[i], r.ndim), true, false);
    int64_t own = cfx_integer(size), kept = own / 2 + 1, others = own - kept;
    cfx_value given = cfx_result_size(&r, last);
    if (given.tag == CFX_TAG_INT && cfx_integer(given) < kept)
        return cfx__export_lacks("fewer numbers are given than half of the points");
    cfx_value axis = cfx__export_one(x, last), one = cfx__export_one(x, 1);
    v = PUT(Slice, v, cfx__export_one(x, 0), cfx__export_one(x, kept), axis, one);
    if (others > 0) {
        float sign[2] = {1, -1};
        cfx_tensor *turn = cfx_tensor_new(CFX_F32, 1, (int64_t[]){2}, sign);
        cfx_value mirror = PUT(Slice, v, cfx__export_one(x, others), cfx__export_one(x, 0), axis,
                               cfx__export_one(x, -1));
        cfx_value signs = cfx__export_cast(x, cfx__export_tensor(x, turn), CFX_F32, part(x));
        mirror = PUT(Mul, mirror, signs);
        v = cfx_ok() ? PUT(Concat, cfx_list(v, mirror), CFX_KW(axis, last)) : cfx_bad();
    }
    v = taken(x, transformed(x, v, last, true, false), 0);
    return scaled(x, v, cfx__export_result(x), true);
}

static const cfx__onnx_rule rows[] = {
    {"aten.view_as_real.default", same, NULL},
    {"aten.view_as_complex.default", same, NULL},
    {"aten._to_copy.default", converted, NULL},
    {"aten.complex.default", complex_of, NULL},
    {"aten.polar.default", polar, NULL},
    {"aten._conj.default", conjugate, NULL},
    {"aten._conj_physical.default", conjugate, NULL},
    {"aten.abs.default", absolute, NULL},
    {"aten.add.Tensor", summed, &cfx_op_onnx_Add},
    {"aten.sub.Tensor", summed, &cfx_op_onnx_Sub},
    {"aten.mul.Tensor", multiplied, NULL},
    {"aten._fft_c2c.default", fft_c2c, NULL},
    {"aten._fft_r2c.default", fft_r2c, NULL},
    {"aten._fft_c2r.default", fft_c2r, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_complex = CFX__ONNX_RULES(rows);

bool cfx__export_holds_for_pairs(const char *name) {
    static const char *const all[] = {
        "aten.view.default",         "aten.reshape.default",   "aten._unsafe_view.default",
        "aten.permute.default",      "aten.transpose.int",     "aten.t.default",
        "aten.unsqueeze.default",    "aten.squeeze.default",   "aten.squeeze.dim",
        "aten.squeeze.dims",         "aten.expand.default",    "aten.slice.Tensor",
        "aten.select.int",           "aten.cat.default",       "aten.split_with_sizes.default",
        "aten.flip.default",         "aten.repeat.default",    "aten.clone.default",
        "aten.alias.default",        "aten.detach.default",    "aten.contiguous.default",
        "aten.lift_fresh_copy.default", "aten._assert_tensor_metadata.default"};
    for (int i = 0; name && i < COUNT(all); i++)
        if (!strcmp(all[i], name))
            return true;
    return false;
}
