/* Sequences: ranges, lines, powers, identity matrices, triangles of indices, windows. */
#include "../views.h"

#include <math.h>

CFX_FAMILY(CREATE);

typedef float _Complex c64_t;
typedef double _Complex c128_t;

/* ---- arange and range ------------------------------------------------------------------------ */

/* Start, end and step of arange and range in all their overloads. */
typedef struct {
    cfx_value start, end, step;
    int options; /* where dtype, layout, device, pin_memory begin */
} range_args;

static range_args range_of(const cfx_op_call *c) {
    int numbers = 0;
    while (numbers < 3 && cfx_is_number(c->args[numbers]))
        numbers++;
    range_args r = {cfx_int(0), c->args[0], cfx_int(1), numbers};
    if (numbers > 1) {
        r.start = c->args[0];
        r.end = c->args[1];
    }
    if (numbers > 2)
        r.step = c->args[2];
    return r;
}

static bool is_integral(cfx_value v) { return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL; }

/* How many steps there are from start to end; `closed` counts the end in. -1 with an error. */
static int64_t range_length(cfx_op_call *c, const range_args *r, cfx_dtype d, bool closed) {
    bool whole = cfx__dtype_is_int(d);
    cfx_dtype as = whole ? CFX_I64 : CFX_F64;
    if (!number_fits(c, r->start, as) || !number_fits(c, r->end, as) ||
        !number_fits(c, r->step, as))
        return -1;
    double a = whole ? (double)cfx_integer(r->start) : cfx_number(r->start);
    double b = whole ? (double)cfx_integer(r->end) : cfx_number(r->end);
    double s = whole ? (double)cfx_integer(r->step) : cfx_number(r->step);
    if (!(s > 0 || s < 0)) {
        op_fail(c, "step must be nonzero");
        return -1;
    }
    if (!isfinite(a) || !isfinite(b)) {
        op_fail(c, "unsupported range: %g -> %g", a, b);
        return -1;
    }
    if (s > 0 ? b < a : b > a) {
        op_fail(c, "upper bound and lower bound inconsistent with step sign");
        return -1;
    }
    double n = ceil((cfx_number(r->end) - cfx_number(r->start)) / cfx_number(r->step));
    if (closed)
        n = floor((b - a) / s) + 1;
    if (!closed && d == CFX_I64) { /* exact where doubles are not */
        __int128 x = cfx_integer(r->start), y = cfx_integer(r->end), step = cfx_integer(r->step);
        __int128 count = (y - x + step - (step > 0 ? 1 : -1)) / step;
        if (count <= INT64_MAX)
            return (int64_t)count;
        n = INFINITY;
    }
    if (!(n >= 0 && cfx__int64_fits(n))) {
        op_fail(c, "invalid size, possible overflow?");
        return -1;
    }
    return cfx__int64_of(n);
}

static void make_range(cfx_op_call *c, cfx_dtype other, bool closed) {
    range_args r = range_of(c);
    cfx_dtype d = arg_dtype(c, r.options, other);
    if (d == CFX_BOOL || cfx__dtype_is_complex(d) || !cfx__dtype_is_computed(d)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s_cpu\" not implemented for '%s'",
                   closed ? "range" : "arange", cfx__dtype_title(d));
        return;
    }
    int64_t n = options_fit(c, r.options + 1, r.options + 2, r.options + 3)
                    ? range_length(c, &r, d, closed)
                    : -1;
    if (n >= 0)
        out_new(c, 0, d, 1, &n);
}

static void shape_arange(cfx_op_call *c) {
    range_args r = range_of(c);
    bool whole = is_integral(r.start) && is_integral(r.end) && is_integral(r.step);
    make_range(c, whole ? CFX_I64 : default_dtype(), false);
}

static void shape_range(cfx_op_call *c) { make_range(c, default_dtype(), true); }

CFX__SIMD static void kernel_arange(cfx_op_call *c) {
    range_args r = range_of(c);
    cfx_tensor *t = c->out[0];
    int64_t n = t->numel;
    if (t->dtype == CFX_I64) {
        uint64_t a = (uint64_t)cfx_integer(r.start), s = (uint64_t)cfx_integer(r.step);
        uint64_t *out = (uint64_t *)t->data;
        for (int64_t i = 0; i < n; i++)
            out[i] = a + s * (uint64_t)i;
        return;
    }
    double a = cfx_number(r.start), s = cfx_number(r.step);
    if (t->dtype == CFX_F32) {
        float *out = (float *)t->data;
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(a + s * (double)i);
    } else {
        double *out = (double *)t->data;
        for (int64_t i = 0; i < n; i++)
            out[i] = a + s * (double)i;
    }
}

#define ARANGE .shape = shape_arange, .kernel = kernel_arange, .dtypes = CFX_IN_NUMBER
#define RANGE .shape = shape_range, .kernel = kernel_arange, .dtypes = CFX_IN_NUMBER

CFX_OP(arange) = {"aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, "
                  "Device? device=None, bool? pin_memory=None) -> Tensor",
                  "torch.arange", ARANGE, .core = core_arange, .out = "out"};
CFX_OP(arange_start) = {
    "aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, ARANGE, .core = core_arange_start};
CFX_OP(arange_start_step) = {
    "aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, ARANGE, .out = "start_out"};
CFX_OP(range) = {
    "aten::range(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.range", RANGE, .out = "out_"};
CFX_OP(range_step) = {
    "aten::range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, RANGE, .out = "out"};

/* ---- linspace and logspace ------------------------------------------------------------------- */

#define T float
#define STEP float
#define FN(x) x##_f32
#define FROM_DOUBLE(x) (float)(x)
#define POWER(b, e) pow(b, (double)(e))
#include "sequence.inc"
#define T double
#define STEP double
#define FN(x) x##_f64
#define FROM_DOUBLE(x) (x)
#define POWER(b, e) pow(b, e)
#include "sequence.inc"
#define T int64_t
#define STEP double
#define FN(x) x##_i64
#define FROM_DOUBLE(x) cfx__int64_of(x)
#define POWER(b, e) pow(b, e)
#include "sequence.inc"

/* Complex lines, and powers where there is a base: exp(log(base) * exponent) by its parts. */
static void line_c128(double *out, int64_t n, cfx_value start, cfx_value end, const double *base) {
    double a[2] = {cfx_number(start), start.tag == CFX_TAG_COMPLEX ? cfx_as_complex(start)->im : 0};
    double b[2] = {cfx_number(end), end.tag == CFX_TAG_COMPLEX ? cfx_as_complex(end)->im : 0};
    for (int64_t i = 0; i < n; i++) {
        double e[2];
        for (int k = 0; k < 2; k++) {
            double step = n > 1 ? (b[k] - a[k]) / (double)(n - 1) : 0;
            e[k] =
                n == 1 || i < n / 2 ? a[k] + step * (double)i : b[k] - step * (double)(n - 1 - i);
        }
        if (base) { /* the logarithm of a negative number turns by pi */
            double half = *base < 0 ? M_PI : 0, angle = log(fabs(*base)) * e[1] + half * e[0];
            double size = pow(fabs(*base), e[0]) * exp(-half * e[1]);
            e[0] = size * cos(angle);
            e[1] = size * sin(angle);
        }
        out[2 * i] = e[0];
        out[2 * i + 1] = e[1];
    }
}

/* Where logspace has its base; -1 for linspace. */
static const int base_arg[] = {-1, 3};

/* Whether the numbers that are looked at are ones of the dtype: of a line of one the first alone,
 * of one power none. */
static bool ends_fit(cfx_op_call *c, cfx_dtype d, int64_t n, bool line) {
    for (int i = 0; i < (n > 1 ? 2 : line && n); i++)
        if (!arg_tensor(c, i) && !number_fits(c, c->args[i], d))
            return false;
    return true;
}

static void shape_line(cfx_op_call *c) {
    int base = *(const int *)c->op->row, options = base < 0 ? 3 : 4;
    const char *name = base < 0 ? "linspace" : "logspace";
    int64_t n = arg_int(c, 2);
    bool complex_ = false;
    for (int i = 0; i < 2; i++) {
        cfx_tensor *t = arg_tensor(c, i);
        if (t && t->ndim) {
            bool both = arg_tensor(c, 0) && arg_tensor(c, 1);
            op_fail(c, "%s only supports 0-dimensional %s, but got %s with %d dimension(s)%s.",
                    name,
                    both ? "start and end tensors"
                    : i  ? "end tensors"
                         : "start tensors",
                    both ? "start"
                    : i  ? "end"
                         : "start",
                    arg_tensor(c, both ? 0 : i)->ndim,
                    both ? cfx__text_format(" and end with %d dimension(s)", arg_tensor(c, 1)->ndim)
                         : "");
            return;
        }
        complex_ |= t ? cfx__dtype_is_complex(t->dtype) : c->args[i].tag == CFX_TAG_COMPLEX;
    }
    cfx_dtype d = arg_dtype(c, options, complex_ ? CFX_C64 : default_dtype());
    if (complex_ && !cfx__dtype_is_complex(d))
        op_fail(c,
                "torch.%s(): inferred dtype ComplexFloat can't be safely cast to passed dtype %s",
                name, cfx__dtype_title(d));
    else if (n < 0)
        op_fail(c, "number of steps must be non-negative");
    else if (d == CFX_BOOL)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s_cpu\" not implemented for 'Bool'", name);
    else if (options_fit(c, options + 1, options + 2, options + 3) && ends_fit(c, d, n, base < 0))
        out_new(c, 0, d, 1, &n);
}

static void kernel_line(cfx_op_call *c) {
    int at = *(const int *)c->op->row;
    cfx_tensor *t = c->out[0];
    cfx_value v[2];
    double base = at < 0 ? 0 : arg_float(c, at);
    for (int i = 0; i < 2; i++)
        v[i] = arg_tensor(c, i) ? cfx__tensor_get(arg_tensor(c, i), 0) : c->args[i];
    int64_t n = t->numel;
    if (!n)
        return;
    switch (t->dtype) {
    case CFX_F32:
        if (at < 0)
            line_f32((float *)t->data, n, (float)cfx_number(v[0]), (float)cfx_number(v[1]));
        else
            powers_f32((float *)t->data, n, (float)cfx_number(v[0]), (float)cfx_number(v[1]), base);
        break;
    case CFX_F64:
        if (at < 0)
            line_f64((double *)t->data, n, cfx_number(v[0]), cfx_number(v[1]));
        else
            powers_f64((double *)t->data, n, cfx_number(v[0]), cfx_number(v[1]), base);
        break;
    case CFX_I64:
        if (at < 0)
            line_i64((int64_t *)t->data, n, cfx_integer(v[0]), cfx_integer(v[1]));
        else
            powers_i64((int64_t *)t->data, n, cfx_integer(v[0]), cfx_integer(v[1]), base);
        break;
    default: {
        cfx_tensor *wide = cfx__tensor_empty(c->at, CFX_C128, false, 1, &n, NULL);
        if (!wide->data)
            return;
        line_c128((double *)wide->data, n, v[0], v[1], at < 0 ? NULL : &base);
        cfx__tensor_copy(t, wide);
    }
    }
}

#define LINE(base)                                                                                 \
    .shape = shape_line, .kernel = kernel_line, .row = &base_arg[base],                            \
    .dtypes = CFX_IN_NUMBER | CFX_IN(C64) | CFX_IN(C128)

CFX_OP(linspace) = {
    "aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.linspace", LINE(0), .core = core_linspace, .out = "out"};
CFX_OP(linspace_Tensor_Tensor) = {
    "aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, LINE(0), .out = "Tensor_Tensor_out"};
CFX_OP(linspace_Tensor_Scalar) = {
    "aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, LINE(0), .out = "Tensor_Scalar_out"};
CFX_OP(linspace_Scalar_Tensor) = {
    "aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, LINE(0), .out = "Scalar_Tensor_out"};
CFX_OP(logspace) = {
    "aten::logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? "
    "dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.logspace", LINE(1), .core = core_logspace, .out = "out"};
CFX_OP(logspace_Tensor_Tensor) = {
    "aten::logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, "
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
    "Tensor",
    NULL, LINE(1), .out = "Tensor_Tensor_out"};
CFX_OP(logspace_Tensor_Scalar) = {
    "aten::logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, "
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
    "Tensor",
    NULL, LINE(1), .out = "Tensor_Scalar_out"};
CFX_OP(logspace_Scalar_Tensor) = {
    "aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, "
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
    "Tensor",
    NULL, LINE(1), .out = "Scalar_Tensor_out"};

/* ---- identity matrices ----------------------------------------------------------------------- */

static void make_eye(cfx_op_call *c, int64_t n, int64_t m, int options) {
    if (n < 0)
        op_fail(c, "n must be greater or equal to 0, got %lld", (long long)n);
    else if (m < 0)
        op_fail(c, "m must be greater or equal to 0, got %lld", (long long)m);
    else if (options_fit(c, options + 1, options + 2, options + 3))
        out_new(c, 0, arg_dtype(c, options, default_dtype()), 2, (int64_t[]){n, m});
}

static void shape_eye(cfx_op_call *c) { make_eye(c, arg_int(c, 0), arg_int(c, 0), 1); }
static void shape_eye_m(cfx_op_call *c) { make_eye(c, arg_int(c, 0), arg_int(c, 1), 2); }

static void kernel_eye(cfx_op_call *c) {
    cfx_tensor *t = c->out[0];
    int64_t n = t->shape[0] < t->shape[1] ? t->shape[0] : t->shape[1];
    cfx__tensor_fill(t, cfx_int(0));
    if (!n)
        return;
    int64_t stride = t->shape[1] + 1;
    cfx__tensor_fill(cfx__tensor_alias(t, 1, &n, &stride, 0), cfx_int(1));
}

CFX_OP(eye) = {"aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
               "torch.eye",
               .shape = shape_eye,
               .kernel = kernel_eye,
               .dtypes = CFX_IN_AS_IS | CFX_IN_FLOAT8,
               .core = core_eye, .out = "out"};
CFX_OP(eye_m) = {"aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, "
                 "Device? device=None, bool? pin_memory=None) -> Tensor",
                 NULL,
                 .shape = shape_eye_m,
                 .kernel = kernel_eye,
                 .dtypes = CFX_IN_AS_IS | CFX_IN_FLOAT8,
                 .core = core_eye_m, .out = "m_out"};

/* ---- indices of triangles -------------------------------------------------------------------- */

/* The columns of one row that belong to the triangle: [*from, *to). */
static void triangle_row(bool upper, int64_t row, int64_t cols, int64_t offset, int64_t *from,
                         int64_t *to) {
    int64_t edge = row + offset + !upper; /* first column that is not below, or not above */
    edge = edge < 0 ? 0 : edge > cols ? cols : edge;
    *from = upper ? edge : 0;
    *to = upper ? cols : edge;
}

/* The number of elements in the triangle; -1 where it is absurd. */
static int64_t triangle_size(bool upper, int64_t rows, int64_t cols, int64_t offset) {
    /* clamp(row + shift, 0, cols) columns of a row lie before the edge */
    __int128 shift = offset + !upper, first = shift < 0 ? -shift : 0, full = cols - shift;
    first = first > rows ? rows : first;
    full = full < first ? first : full > rows ? rows : full;
    __int128 grow = full - first, least = first + shift;
    __int128 before = grow * least + grow * (grow - 1) / 2 + (rows - full) * cols;
    __int128 n = upper ? (__int128)rows * cols - before : before;
    return n > INT64_MAX / 4 ? -1 : (int64_t)n;
}

static void make_triangle(cfx_op_call *c, bool upper) {
    int64_t rows = arg_int(c, 0), cols = arg_int(c, 1), k = arg_int(c, 2);
    cfx_dtype d = arg_dtype(c, 3, CFX_I64);
    if (rows < 0)
        op_fail(c, "row must be non-negative, got%lld", (long long)rows);
    else if (cols < 0)
        op_fail(c, "col must be non-negative, got%lld", (long long)cols);
    else if (d != CFX_I64 && d != CFX_I32)
        op_fail(c, "\"%s_indices\" not implemented for '%s'", upper ? "triu" : "tril",
                cfx__dtype_title(d));
    if (op_failed() || !options_fit(c, 4, 5, 6))
        return;
    /* past the corners all offsets are alike */
    k = k > cols ? cols : k < -rows ? -rows : k;
    int64_t n = triangle_size(upper, rows, cols, k);
    if (n < 0)
        op_fail_large(c, "Storage size calculation overflowed with sizes=[%lld, %lld]",
                      (long long)rows, (long long)cols);
    else
        out_new(c, 0, d, 2, (int64_t[]){2, n});
}

static void fill_triangle(cfx_op_call *c, bool upper) {
    int64_t rows = arg_int(c, 0), cols = arg_int(c, 1), k = arg_int(c, 2), n = c->out[0]->shape[1];
    int64_t *out = (int64_t *)c->out[0]->data, at = 0, from, to;
    k = k > cols ? cols : k < -rows ? -rows : k;
    int64_t first = upper || k > 0 ? 0 : -k - 1, last = upper && cols - k < rows ? cols - k : rows;
    for (int64_t r = first < 0 ? 0 : first; r < last && at < n; r++) {
        triangle_row(upper, r, cols, k, &from, &to);
        for (int64_t j = from; j < to; j++, at++) {
            out[at] = r;
            out[n + at] = j;
        }
    }
}

static void shape_tril_indices(cfx_op_call *c) { make_triangle(c, false); }
static void shape_triu_indices(cfx_op_call *c) { make_triangle(c, true); }
static void kernel_tril_indices(cfx_op_call *c) { fill_triangle(c, false); }
static void kernel_triu_indices(cfx_op_call *c) { fill_triangle(c, true); }

CFX_OP(tril_indices) = {
    "aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.tril_indices", .shape = shape_tril_indices, .kernel = kernel_tril_indices,
    .dtypes = CFX_IN(I64), .out = "out"};
CFX_OP(triu_indices) = {
    "aten::triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "torch.triu_indices", .shape = shape_triu_indices, .kernel = kernel_triu_indices,
    .dtypes = CFX_IN(I64), .out = "out"};
