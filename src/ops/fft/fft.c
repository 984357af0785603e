/* The transforms that all the others are made of: complex to complex, real to complex, and back. */
#include "../back.h"
#include "fft.h"

#include <math.h>

/* The dims of argument i, wrapped, in order. Returns how many; -1, with an error, where one is out
 * of range or there twice. */
static int fft_dims(cfx_op_call *c, int i, int ndim, int *dims) {
    int64_t given[CFX_MAX_DIMS];
    int n = arg_ints(c, i, given);
    uint64_t seen = 0;
    for (int k = 0; k < n; k++) {
        int d = ndim ? cfx__shape_wrap_dim(c->at, given[k], ndim) : -1;
        if (d < 0 || (seen >> d & 1)) {
            if (!op_failed())
                op_fail_as(VALUE, c, ndim ? "axis specified repeatedly" : "bad axis number");
            return -1;
        }
        seen |= (uint64_t)1 << d;
        dims[k] = d;
    }
    return op_failed() ? -1 : n;
}

/* Strides of a result of the given sizes: the dimensions that are not transformed come first, by
 * falling strides of the input, then the transformed ones in the order of `dims`. */
static void fft_strides(int ndim, const int64_t *in_stride, const int64_t *size, int n,
                        const int *dims, int64_t *stride) {
    int order[CFX_MAX_DIMS], batch = 0;
    uint64_t transformed = 0;
    for (int k = 0; k < n; k++)
        transformed |= (uint64_t)1 << dims[k];
    for (int d = 0; d < ndim; d++) {
        if (transformed >> d & 1)
            continue;
        int at = batch++;
        for (; at > 0 && in_stride[order[at - 1]] < in_stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    memcpy(order + batch, dims, (size_t)n * sizeof *order);
    int64_t next = 1;
    for (int k = ndim - 1; k >= 0; k--) {
        stride[order[k]] = next; /* sizes too large to exist are refused when the result is made */
        next = (int64_t)((uint64_t)next * (uint64_t)(size[order[k]] > 1 ? size[order[k]] : 1));
    }
}

/* Dims by falling strides of the input, but for the last `keep` of them. */
static void sort_dims(const cfx_tensor *t, int n, int *dims, int keep) {
    for (int k = 1; k < n - keep; k++)
        for (int i = k; i > 0 && t->stride[dims[i - 1]] < t->stride[dims[i]]; i--) {
            int held = dims[i];
            dims[i] = dims[i - 1];
            dims[i - 1] = held;
        }
}

/* What the numbers are divided by: 0 nothing, 1 the root of the number of points, 2 that number. */
static bool check_mode(cfx_op_call *c, int64_t mode) {
    if (mode < 0 || mode > 2)
        op_fail(c, "Unsupported normalization type%lld", (long long)mode);
    return mode >= 0 && mode <= 2;
}

static double scale_of(int64_t mode, double points) {
    return mode == 0 ? 1 : mode == 1 ? 1 / sqrt(points) : 1 / points;
}

static void fail_kind(cfx_op_call *c, const char *what) {
    op_fail(c,
            "Expected self.is_%s() to be true, but got false.  (Could this error message be "
            "improved?  If so, please report an enhancement request to PyTorch.)",
            what);
}

/* ---- complex to complex ---------------------------------------------------------------------- */

static void shape_c2c(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int dims[CFX_MAX_DIMS];
    if (!cfx__dtype_is_complex(t->dtype)) {
        fail_kind(c, "complex");
        return;
    }
    int n = fft_dims(c, 1, t->ndim, dims);
    if (n < 0 || !check_mode(c, arg_int(c, 2)))
        return;
    if (n == 0) {
        out_like(c, 0, t->dtype, t);
        return;
    }
    int64_t stride[CFX_MAX_DIMS];
    sort_dims(t, n, dims, 0);
    fft_strides(t->ndim, t->stride, t->shape, n, dims, stride);
    out_strided(c, 0, t->dtype, t->ndim, t->shape, stride);
}

static void kernel_c2c(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int dims[CFX_MAX_DIMS], n = fft_dims(c, 1, t->ndim, dims);
    double points = 1;
    for (int k = 0; k < n; k++)
        points *= (double)t->shape[dims[k]];
    if (n == 0)
        cfx__tensor_copy(out, t);
    for (int k = n - 1; k >= 0; k--)
        if (!fft_pass(c, FFT_C2C, k == n - 1 ? t : out, out, dims[k], t->shape[dims[k]],
                      arg_bool(c, 3), k ? 1 : scale_of(arg_int(c, 2), points)))
            return;
}

/* ---- backward -------------------------------------------------------------------------------- */

static void grad_c2c(cfx_back *b) {
    back_give(b, 0,
              cfx_aten__fft_c2c(b->gout[0], b->args[1], b->args[2], cfx_bool(!back_bool(b, 3))));
}

/* The last of the dims transformed, which is the one that is half as long. */
static int last_dim(const cfx_back *b) {
    const cfx_list *dims = cfx_as_list(b->args[1]);
    return (int)cfx__shape_wrap_dim(b->at, cfx_integer(dims->items[dims->len - 1]),
                                    back_arg(b, 0)->ndim);
}

/* What the transform left out counts as zero. */
static void grad_r2c(cfx_back *b) {
    cfx_tensor *g = b->gout[0];
    const cfx_tensor *x = back_arg(b, 0);
    const int dim = last_dim(b);
    if (back_bool(b, 3) && x->shape[dim] > g->shape[dim]) {
        int64_t pad[2 * CFX_MAX_DIMS] = {0};
        const int n = x->ndim - dim;
        pad[2 * n - 1] = x->shape[dim] - g->shape[dim];
        g = cfx_constant_pad_nd(g, cfx_ints_value(2 * n, pad));
    }
    back_give(b, 0, cfx_real(cfx_aten__fft_c2c(g, b->args[1], b->args[2], cfx_bool(false))));
}

/* Frequencies that stand for their mirror image as well count twice. */
static void grad_c2r(cfx_back *b) {
    cfx_tensor *g = cfx_aten__fft_r2c(b->gout[0], b->args[1], b->args[2], cfx_bool(true));
    const int dim = last_dim(b);
    if (op_failed())
        return;
    const int64_t half = g->shape[dim], twice = b->out[0]->shape[dim] - half;
    if (twice > 0) {
        cfx_tensor *middle = cfx_mul(cfx_slice(g, dim, 1, 1 + twice), 2);
        g = cfx_cat(cfx_list(cfx_slice(g, dim, 0, 1), middle, cfx_slice(g, dim, 1 + twice)), dim);
    }
    back_give(b, 0, g);
}

CFX_OP(_fft_c2c) = {
    "aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", NULL,
    .shape = shape_c2c, .kernel = kernel_c2c, GRAD(c2c, 0), .out = "out"};

/* ---- real to complex ------------------------------------------------------------------------- */

static void shape_r2c(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int dims[CFX_MAX_DIMS];
    if (!cfx__dtype_is_float(t->dtype)) {
        fail_kind(c, "floating_point");
        return;
    }
    if (cfx__dtype_is_half(t->dtype)) {
        op_fail(c, "Unsupported dtype %s", cfx__dtype_title(t->dtype));
        return;
    }
    int n = fft_dims(c, 1, t->ndim, dims);
    if (n == 0)
        op_fail(c, "ArrayRef: attempted to access back() of empty list");
    if (n <= 0 || !check_mode(c, arg_int(c, 2)))
        return;
    int64_t size[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    memcpy(size, t->shape, (size_t)t->ndim * sizeof *size);
    if (arg_bool(c, 3))
        size[dims[n - 1]] = size[dims[n - 1]] / 2 + 1;
    sort_dims(t, n, dims, 1);
    fft_strides(t->ndim, t->stride, size, n, dims, stride);
    out_strided(c, 0, t->dtype == CFX_F64 ? CFX_C128 : CFX_C64, t->ndim, size, stride);
}

static void kernel_r2c(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int dims[CFX_MAX_DIMS], n = fft_dims(c, 1, t->ndim, dims);
    double points = 1;
    for (int k = 0; k < n; k++)
        points *= (double)t->shape[dims[k]];
    for (int k = n - 1; k >= 0; k--)
        if (!fft_pass(c, k == n - 1 ? FFT_R2C : FFT_C2C, k == n - 1 ? t : c->out[0], c->out[0],
                      dims[k], t->shape[dims[k]], true, k ? 1 : scale_of(arg_int(c, 2), points)))
            return;
}

CFX_OP(_fft_r2c) = {
    "aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", NULL,
    .shape = shape_r2c, .kernel = kernel_r2c, GRAD(r2c, 0), .out = "out"};

/* ---- complex to real ------------------------------------------------------------------------- */

static void shape_c2r(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int dims[CFX_MAX_DIMS];
    int64_t last = arg_int(c, 3);
    if (!cfx__dtype_is_complex(t->dtype)) {
        fail_kind(c, "complex");
        return;
    }
    int n = fft_dims(c, 1, t->ndim, dims);
    if (n == 0)
        op_fail(c, "ArrayRef: attempted to access back() of empty list");
    if (n <= 0 || !check_mode(c, arg_int(c, 2)))
        return;
    if (last < 1) {
        op_fail(c, "Invalid number of data points (%lld) specified", (long long)last);
        return;
    }
    /* The other dims are transformed before, which leaves its own order of strides. */
    int64_t size[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], before[CFX_MAX_DIMS];
    memcpy(size, t->shape, (size_t)t->ndim * sizeof *size);
    memcpy(before, t->stride, (size_t)t->ndim * sizeof *before);
    if (n > 1) {
        int first[CFX_MAX_DIMS];
        memcpy(first, dims, (size_t)(n - 1) * sizeof *first);
        sort_dims(t, n - 1, first, 0);
        fft_strides(t->ndim, t->stride, size, n - 1, first, before);
    }
    size[dims[n - 1]] = last;
    fft_strides(t->ndim, before, size, 1, &dims[n - 1], stride);
    out_strided(c, 0, cfx__dtype_real(t->dtype), t->ndim, size, stride);
}

static void kernel_c2r(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int dims[CFX_MAX_DIMS], n = fft_dims(c, 1, t->ndim, dims);
    int64_t last = arg_int(c, 3);
    double points = (double)last;
    for (int k = 0; k < n - 1; k++)
        points *= (double)t->shape[dims[k]];
    cfx_tensor *held = NULL;
    if (n > 1) {
        held = cfx__tensor_empty(c->at, t->dtype, false, t->ndim, t->shape, NULL);
        for (int k = 0; k < n - 1; k++)
            if (op_failed() || !fft_pass(c, FFT_C2C, k ? held : t, held, dims[k], t->shape[dims[k]],
                                         false, 1))
                return;
    }
    fft_pass(c, FFT_C2R, held ? held : t, c->out[0], dims[n - 1], last, false,
             scale_of(arg_int(c, 2), points));
}

CFX_OP(_fft_c2r) = {
    "aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    NULL, .shape = shape_c2r, .kernel = kernel_c2r, GRAD(c2r, 0),
    .effects = CFX_OUT_CASTS, .out = "out"};
