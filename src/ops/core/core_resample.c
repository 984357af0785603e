/* Default decompositions of resampling: places to take from, and weights for what is there.
 *
 * All take an image, its new size and a scale for each dimension; .vec forms give the size or the
 * scales as lists. Linear and cubic ones say before the scales whether corners are aligned. */
#include "core.h"

#include <cfx/ops.h>

#include "../sizes.h"

typedef struct {
    cfx_tensor *image;
    int dims;            /* spatial ones */
    int64_t size[3];     /* the new size */
    double scale[3];     /* the caller's, or 0 where there is none */
    bool corners;
    cfx_dtype dtype;     /* what is computed in */
} resampling;

static bool read_args(cfx_op_call *c, bool corners, resampling *r) {
    const bool vec = !strcmp(cfx__op_info_of(c->op)->schema->overload, "vec");
    const int scales = corners ? 3 : 2;
    int64_t size[CFX_MAX_DIMS];
    *r = (resampling){.image = arg_tensor(c, 0)};
    r->dims = r->image->ndim - 2;
    r->corners = corners && arg_bool(c, 2);
    r->dtype = cfx__dtype_is_float(r->image->dtype) ? (cfx_dtype)r->image->dtype : CFX_F32;
    if (r->dims < 1 || r->dims > 3 || (vec && arg_is_none(c, 1) == arg_is_none(c, scales))) {
        op_fail(c, "Must specify exactly one of output_size and scale_factors.");
        return false;
    }
    int n = arg_ints(c, 1, size);
    for (int d = 0; d < r->dims; d++) {
        cfx_value given = vec ? c->args[scales] : c->args[scales + d];
        if (given.tag == CFX_TAG_LIST)
            given = cfx_at(given, d);
        r->scale[d] = cfx_is_none(given) ? 0 : cfx_number(given);
        r->size[d] = n == r->dims ? size[d]
                                  : cfx__int64_of((double)r->image->shape[d + 2] * r->scale[d]);
    }
    return !op_failed();
}

static cfx_tensor *in_format(cfx_op_call *c, const resampling *r, cfx_tensor *y) {
    cfx_value format = cfx_memory_format_value(cfx__tensor_suggest_format(r->image));
    return DO(contiguous, y, CFX_KW(memory_format, format));
}

static cfx_tensor *range(cfx_op_call *c, const resampling *r, int64_t n) {
    return DO(arange, n, CFX_KW(device, cfx_device_value(r->image->device)));
}

/* Indices that leave batch and channels alone. */
static cfx_tensor *taken(cfx_op_call *c, const resampling *r, cfx_tensor *const *at) {
    cfx_value index = cfx_list(CFX_NONE, CFX_NONE);
    for (int d = 0; d < r->dims; d++)
        cfx_list_append(cfx_as_list(index), cfx_tensor_value(at[d]));
    return DO(_unsafe_index_Tensor, r->image, index);
}

/* ---- nearest --------------------------------------------------------------------------------- */

static void nearest(cfx_op_call *c, double offset) {
    resampling r;
    cfx_tensor *at[3] = {0};
    if (!read_args(c, false, &r))
        return;
    for (int d = 0; d < r.dims; d++) {
        double in = (double)r.image->shape[d + 2];
        const double each = r.scale[d] > 0 ? in / (in * r.scale[d]) : 0;
        cfx_value scale =
            each ? cfx_float(each) : size_ratio(r.image->shape[d + 2], r.size[d]);
        cfx_tensor *to = DO(arange, r.size[d], CFX_KW(dtype, cfx_f32),
                            CFX_KW(device, cfx_device_value(r.image->device)));
        at[d] = core_to(c, DO(mul_Tensor, DO(add_Tensor, to, offset), scale), CFX_I64);
        if (each && ((double)(r.size[d] - 1) + offset) * each >= in) /* more than the scale gives */
            at[d] = DO(clamp, at[d], CFX_NONE, r.image->shape[d + 2] - 1);
        for (int i = d + 1; i < r.dims; i++)
            at[d] = DO(unsqueeze, at[d], -1);
    }
    cfx_tensor *y = taken(c, &r, at);
    c->out[0] = r.dims == 2 ? in_format(c, &r, y) : y;
}
CORE(nearest) { nearest(c, 0.0); }
CORE(nearest_exact) { nearest(c, 0.5); }

/* ---- linear ---------------------------------------------------------------------------------- */

static double factor(const resampling *r, int d) {
    double in = (double)r->image->shape[d + 2], out = (double)r->size[d];
    if (r->corners)
        return out > 1 ? (in - 1) / (out - 1) : 0;
    return r->scale[d] > 0 ? 1 / r->scale[d] : in / out;
}

/* Where the new places lie in the image. */
static cfx_tensor *source(cfx_op_call *c, const resampling *r, cfx_value factor, cfx_tensor *to) {
    if (r->corners)
        return DO(mul_Tensor, to, factor);
    return DO(sub_Tensor, DO(mul_Tensor, DO(add_Tensor, to, 0.5), factor), 0.5);
}

CORE(linear_resample) {
    resampling r;
    cfx_tensor *place[3], *low[3], *high[3], *v[8], *at[3];
    if (!read_args(c, true, &r))
        return;
    for (int d = 0; d < r.dims; d++) {
        cfx_tensor *to = core_to(c, range(c, &r, r.size[d]), r.dtype);
        place[d] = DO(clamp, source(c, &r, cfx_float(factor(&r, d)), to), CFX_KW(min, 0.0));
        int64_t shape[3] = {r.size[d], 1, 1};
        place[d] = DO(reshape, place[d], cfx_ints_value(r.dims - d, shape));
        low[d] = core_to(c, place[d], CFX_I64);
        high[d] = DO(clamp, DO(add_Tensor, low[d], 1),
                     CFX_KW(max, size_minus(size_of(r.image, d + 2), 1)));
    }
    int n = 1 << r.dims;
    for (int k = 0; k < n; k++) {
        for (int d = 0; d < r.dims; d++)
            at[d] = k >> (r.dims - 1 - d) & 1 ? high[d] : low[d];
        v[k] = core_to(c, taken(c, &r, at), r.dtype);
    }
    for (int d = r.dims - 1; d >= 0; d--) {
        cfx_tensor *part = DO(clamp, DO(sub_Tensor, place[d], low[d]), 0.0, 1.0);
        part = core_to(c, part, r.dtype);
        n /= 2;
        for (int k = 0; k < n; k++) {
            cfx_tensor *step = DO(sub_Tensor, v[2 * k + 1], v[2 * k]);
            v[k] = DO(add_Tensor, v[2 * k], DO(mul_Tensor, step, part));
        }
    }
    c->out[0] = in_format(c, &r, v[0]);
    if (!cfx__dtype_is_float(r.image->dtype))
        c->out[0] = DO(round, c->out[0]);
}

/* ---- cubic ----------------------------------------------------------------------------------- */

/* The weights of the four neighbours of a place that lies `t` past the second of them. */
static void cubic_weights(cfx_op_call *c, cfx_tensor *t, cfx_tensor **w) {
    const double a = -0.75;
    cfx_tensor *other = DO(rsub_Scalar, t, 1.0);
    cfx_tensor *near_two = DO(stack, cfx_list(t, other), 0), *far_two;
    cfx_tensor *before = DO(add_Tensor, t, 1.0), *after = DO(rsub_Scalar, t, 2.0);
    far_two = DO(stack, cfx_list(before, after), 0);
    cfx_tensor *y = DO(sub_Tensor, DO(mul_Tensor, far_two, a), 5 * a);
    y = DO(add_Tensor, DO(mul_Tensor, y, far_two), 8 * a);
    y = DO(sub_Tensor, DO(mul_Tensor, y, far_two), 4 * a);
    cfx_tensor *z = DO(sub_Tensor, DO(mul_Tensor, near_two, a + 2), a + 3);
    z = DO(add_Tensor, DO(mul_Tensor, DO(mul_Tensor, z, near_two), near_two), 1);
    cfx_value ends = DO_ALL(unbind_int, y), middle = DO_ALL(unbind_int, z);
    w[0] = cfx_tensor_at(ends, 0), w[3] = cfx_tensor_at(ends, 1);
    w[1] = cfx_tensor_at(middle, 0), w[2] = cfx_tensor_at(middle, 1);
}

static cfx_tensor *weighed(cfx_op_call *c, cfx_tensor *const *x, cfx_tensor *const *w) {
    cfx_tensor *sum = DO(mul_Tensor, x[0], w[0]);
    for (int i = 1; i < 4; i++)
        sum = DO(add_Tensor, sum, DO(mul_Tensor, x[i], w[i]));
    return sum;
}

/* A place and its neighbours: one before, itself, two after. */
static void neighbours(cfx_op_call *c, cfx_tensor *x, cfx_tensor **out) {
    out[0] = DO(sub_Tensor, x, 1), out[1] = x;
    out[2] = DO(add_Tensor, x, 1), out[3] = DO(add_Tensor, x, 2);
}

/* The same number as `factor`; a quotient is computed here and not where it is used. */
static cfx_value factor_here(const resampling *r, int d) {
    return r->corners || r->scale[d] > 0
               ? cfx_float(factor(r, d))
               : size_do("operator.truediv", size_of(r->image, d + 2), cfx_int(r->size[d]));
}

CORE(cubic) {
    resampling r;
    cfx_tensor *ys[4], *xs[4], *wx[4], *wy[4], *row[4], *rows[4];
    if (!read_args(c, true, &r))
        return;
    const cfx_value down = factor_here(&r, 0), across = factor_here(&r, 1);
    cfx_tensor *i = core_to(c, range(c, &r, r.size[0]), r.dtype);
    cfx_tensor *j = core_to(c, range(c, &r, r.size[1]), r.dtype);
    cfx_tensor *x = source(c, &r, across, j), *y = DO(unsqueeze, source(c, &r, down, i), -1);
    cfx_tensor *xf = DO(floor, x), *yf = DO(floor, y);
    cfx_tensor *ty = DO(clamp, DO(sub_Tensor, y, yf), 0.0, 1.0);
    cfx_tensor *tx = DO(clamp, DO(sub_Tensor, x, xf), 0.0, 1.0);
    xf = core_to(c, xf, CFX_I64), yf = core_to(c, yf, CFX_I64);
    neighbours(c, yf, ys);
    neighbours(c, xf, xs);
    cubic_weights(c, tx, wx);
    cubic_weights(c, ty, wy);
    for (int k = 0; k < 4 && !op_failed(); k++) {
        for (int l = 0; l < 4; l++) {
            cfx_tensor *at[2] = {DO(clamp, ys[k], 0, size_minus(size_of(r.image, 2), 1))};
            at[1] = DO(clamp, xs[l], 0, size_minus(size_of(r.image, 3), 1));
            row[l] = taken(c, &r, at);
        }
        rows[k] = weighed(c, row, wx);
    }
    if (!op_failed())
        c->out[0] = in_format(c, &r, weighed(c, rows, wy));
}

/* With antialiasing the list forms are the others under another name. */
static void plain(cfx_op_call *c, cfx_op *op) {
    resampling r;
    cfx_value scale[2];
    if (!read_args(c, true, &r))
        return;
    for (int d = 0; d < 2; d++)
        scale[d] = r.scale[d] ? cfx_float(r.scale[d]) : cfx_none();
    c->out[0] = core_do(c, op, CFX_ARGS(r.image, cfx_ints_value(2, r.size), c->args[2], scale[0],
                                        scale[1]));
}
CORE(bilinear_aa) { plain(c, &cfx_op__upsample_bilinear2d_aa); }
CORE(bicubic_aa) { plain(c, &cfx_op__upsample_bicubic2d_aa); }

/* ---- grids ----------------------------------------------------------------------------------- */

/* Places of n pixels from -1 to 1, or of their middles. */
static cfx_tensor *pixel_places(cfx_op_call *c, int64_t n, bool corners) {
    cfx_tensor *theta = arg_tensor(c, 0);
    double end = n <= 1 ? 0 : corners ? 1 : (double)(n - 1) / (double)n;
    return DO(linspace, -end, end, n, CFX_KW(dtype, cfx_dtype_value((cfx_dtype)theta->dtype)),
              CFX_KW(device, cfx_device_value(theta->device)));
}

/* theta, size, align_corners */
CORE(affine_grid_generator) {
    cfx_tensor *theta = arg_tensor(c, 0), *sum = NULL;
    int64_t size[CFX_MAX_DIMS], view[CFX_MAX_DIMS];
    int dims = arg_ints(c, 1, size) - 2;
    cfx_tensor *axes[4];
    if (op_failed() || dims < 2 || dims > 3)
        return;
    for (int k = 0; k < dims; k++) { /* the last dimension of the image comes first */
        for (int i = 0; i <= dims; i++)
            view[i] = i == dims - 1 - k ? size[dims + 1 - k] : 1;
        axes[k] = DO(view, pixel_places(c, size[dims + 1 - k], arg_bool(c, 2)),
                     cfx_ints_value(dims + 1, view));
    }
    for (int i = 0; i <= dims; i++)
        view[i] = 1;
    axes[dims] = DO(ones, cfx_ints_value(dims + 1, view),
                    CFX_KW(dtype, cfx_dtype_value((cfx_dtype)theta->dtype)),
                    CFX_KW(device, cfx_device_value(theta->device)));
    for (int k = 0; k <= dims; k++)
        axes[k] = DO(constant_pad_nd, axes[k], cfx_list(k, dims - k), 0.0);
    for (int k = 0; k <= dims; k++)
        sum = sum ? DO(add_Tensor, sum, axes[k]) : axes[k];
    cfx_tensor *base = DO(view, sum, cfx_list(-1, dims + 1, 1));
    cfx_tensor *turned = DO(unsqueeze, DO(permute, theta, cfx_list(0, 2, 1)), 1);
    cfx_tensor *grid = DO(sum_dim_IntList, DO(mul_Tensor, base, turned), cfx_list(-2));
    view[0] = size[0];
    memcpy(view + 1, size + 2, (size_t)dims * sizeof *view);
    view[dims + 1] = dims;
    c->out[0] = DO(view, grid, cfx_ints_value(dims + 2, view));
}

/* .vec forms are composite: they are decomposed before functionalisation. */
