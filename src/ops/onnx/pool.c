/* Poolings of images, and of regions in them. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(POOL);

/* ---- windows --------------------------------------------------------------------------------- */

/* A window, and how many places it has along each dimension. */
typedef struct {
    onnx_window w;
    int64_t out[CFX_MAX_DIMS];
    bool ceil;
} pooling;

/* No window begins behind the image and its padding in front. */
static bool count_places(cfx_op_call *c, const cfx_tensor *x, pooling *p) {
    for (int i = 0; i < p->w.n; i++) {
        int64_t size = onnx_size(x, 2 + i), step = p->w.stride[i];
        int64_t room = size + p->w.before[i] + p->w.after[i] -
                       (p->w.kernel[i] - 1) * p->w.dilation[i] - 1;
        if (room < 0 && !(p->ceil && room > -step)) {
            op_fail(c, "%s: the window is larger than the image", op_title(c));
            return false;
        }
        p->out[i] = (room + (p->ceil ? step - 1 : 0)) / step + 1;
        if (p->ceil && (p->out[i] - 1) * step >= size + p->w.before[i])
            p->out[i]--;
    }
    return true;
}

/* Whether ATen takes the window as it is: padded evenly, by no more than half of it. */
static bool is_plain(const pooling *p) {
    bool plain = onnx_window_even(&p->w);
    for (int i = 0; i < p->w.n; i++)
        plain &= 2 * p->w.before[i] <= p->w.kernel[i];
    return plain;
}

/* x with all that windows look at and nothing more, so that none needs padding. */
static cfx_tensor *framed(const pooling *p, cfx_tensor *x, cfx_value with) {
    cfx_value pads = cfx_list_value(0, NULL);
    for (int i = p->w.n - 1; i >= 0; i--) {
        int64_t seen = (p->out[i] - 1) * p->w.stride[i] +
                       (p->w.kernel[i] - 1) * p->w.dilation[i] + 1;
        cfx_list_append(cfx_as_list(pads), cfx_int(p->w.before[i]));
        cfx_list_append(cfx_as_list(pads), cfx_int(seen - p->w.before[i] - onnx_size(x, 2 + i)));
    }
    return cfx_constant_pad_nd(x, pads, with);
}

/* Sums over windows of a framed image, channel by channel. */
static cfx_tensor *window_sums(const pooling *p, cfx_tensor *x) {
    const onnx_window *w = &p->w;
    cfx_value shape = cfx_list(-1, 1), result = cfx_list(onnx_size(x, 0), onnx_size(x, 1));
    cfx_value ones = cfx_list(1, 1), stride = cfx_ints_value(w->n, w->stride);
    cfx_value dilation = cfx_ints_value(w->n, w->dilation);
    for (int i = 0; i < w->n; i++) {
        cfx_list_append(cfx_as_list(shape), cfx_int(onnx_size(x, 2 + i)));
        cfx_list_append(cfx_as_list(result), cfx_int(p->out[i]));
        cfx_list_append(cfx_as_list(ones), cfx_int(w->kernel[i]));
    }
    cfx_tensor *k = cfx_ones(ones, CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)));
    x = cfx_reshape(x, shape);
    x = w->n == 1   ? cfx_conv1d(x, k, NULL, stride, 0, dilation)
        : w->n == 2 ? cfx_conv2d(x, k, NULL, stride, 0, dilation)
                    : cfx_conv3d(x, k, NULL, stride, 0, dilation);
    return cfx_reshape(x, result);
}

/* ---- the largest ----------------------------------------------------------------------------- */

/* X, auto_pad, ceil_mode, dilations, kernel_shape, pads, storage_order, strides */
static bool read_max(cfx_op_call *c, pooling *p) {
    static const onnx_window_args at = {1, 3, 4, 5, 7};
    p->ceil = arg_bool(c, 2);
    return onnx_window_read(c, T(0), NULL, at, &p->w) && count_places(c, T(0), p);
}

static cfx_tensor *largest(const onnx_window *w, cfx_tensor *x, cfx_value pad, bool ceil) {
    cfx_value k = cfx_ints_value(w->n, w->kernel), stride = cfx_ints_value(w->n, w->stride);
    cfx_value dilation = cfx_ints_value(w->n, w->dilation);
    return w->n == 1   ? cfx_max_pool1d(x, k, stride, pad, dilation, ceil)
           : w->n == 2 ? cfx_max_pool2d(x, k, stride, pad, dilation, ceil)
                       : cfx_max_pool3d(x, k, stride, pad, dilation, ceil);
}

/* Small integers are found among floats, which hold them all. */
static cfx_tensor *as_floats(cfx_tensor *x) {
    return cfx__dtype_is_float((cfx_dtype)x->dtype) ? x : onnx_to(x, CFX_F32);
}

ONNX_OP(MaxPool) {
    pooling p;
    cfx_tensor *x = as_floats(T(0));
    if (!read_max(c, &p))
        return;
    static const int64_t none[CFX_MAX_DIMS];
    x = is_plain(&p) ? largest(&p.w, x, cfx_ints_value(p.w.n, p.w.before), p.ceil)
                     : largest(&p.w, framed(&p, x, cfx_float(-INFINITY)),
                               cfx_ints_value(p.w.n, none), false);
    OUT(0) = onnx_to(x, (cfx_dtype)T(0)->dtype);
}

/* The place in a framed plane as one in the whole tensor, in the order of its memory. A window that
 * holds nothing above -inf may have its place in the frame: then it is the one beside that. */
static cfx_tensor *places(const pooling *p, const cfx_tensor *x, const cfx_tensor *frame,
                          cfx_tensor *at, bool by_columns) {
    int64_t plane = 1, step = 1;
    cfx_tensor *sum = NULL;
    for (int i = 0; i < p->w.n; i++)
        plane *= onnx_size(x, 2 + i);
    int64_t stride[CFX_MAX_DIMS];
    for (int k = 0; k < p->w.n; k++) { /* the strides in a plane, by either order */
        int i = by_columns ? k : p->w.n - 1 - k;
        stride[i] = step;
        step *= onnx_size(x, 2 + i);
    }
    for (int i = p->w.n - 1; i >= 0; i--) {
        int64_t size = onnx_size(frame, 2 + i);
        cfx_tensor *own = cfx_sub(i ? cfx_remainder(at, size) : at, p->w.before[i]);
        at = cfx_div(at, size, CFX_KW(rounding_mode, "floor"));
        own = cfx_mul(cfx_clamp(own, 0, onnx_size(x, 2 + i) - 1), stride[i]);
        sum = sum ? cfx_add(sum, own) : own;
    }
    cfx_value i64 = cfx_dtype_value(CFX_I64);
    cfx_tensor *first = cfx_arange(onnx_size(x, 0) * onnx_size(x, 1), CFX_KW(dtype, i64));
    first = cfx_reshape(cfx_mul(first, plane), cfx_list(onnx_size(x, 0), onnx_size(x, 1)));
    for (int i = 0; i < p->w.n; i++)
        first = cfx_unsqueeze(first, -1);
    return cfx_add(sum, first);
}

ONNX_OP(MaxPool_Indices) {
    pooling p;
    cfx_tensor *x = as_floats(T(0));
    if (!read_max(c, &p))
        return;
    const bool plain = is_plain(&p), ceil = plain && p.ceil;
    cfx_tensor *frame = plain ? x : framed(&p, x, cfx_float(-INFINITY));
    cfx_value k = cfx_ints_value(p.w.n, p.w.kernel), stride = cfx_ints_value(p.w.n, p.w.stride);
    cfx_value dilation = cfx_ints_value(p.w.n, p.w.dilation);
    cfx_value pad = plain ? cfx_ints_value(p.w.n, p.w.before) : cfx_list(0);
    cfx_value both =
        p.w.n == 1   ? cfx_max_pool1d_with_indices(frame, k, stride, pad, dilation, ceil)
        : p.w.n == 2 ? cfx_max_pool2d_with_indices(frame, k, stride, pad, dilation, ceil)
                     : cfx_max_pool3d_with_indices(frame, k, stride, pad, dilation, ceil);
    if (plain)
        memset(p.w.before, 0, sizeof p.w.before);
    if (cfx_is_bad(both))
        return;
    OUT(0) = onnx_to(cfx_tensor_at(both, 0), (cfx_dtype)T(0)->dtype);
    OUT(1) = places(&p, x, frame, cfx_tensor_at(both, 1), arg_int(c, 6) == 1);
}

CFX_OP(onnx_MaxPool) = {
    "onnx::MaxPool(Tensor X, *, str auto_pad=\"NOTSET\", int ceil_mode=0, int[]? dilations=None, "
    "int[] kernel_shape, int[]? pads=None, int storage_order=0, int[]? strides=None) -> Tensor",
    ONNX(MaxPool, 1)};
CFX_OP(onnx_MaxPool_Indices) = {
    "onnx::MaxPool.Indices(Tensor X, *, str auto_pad=\"NOTSET\", int ceil_mode=0, int[]? "
    "dilations=None, int[] kernel_shape, int[]? pads=None, int storage_order=0, int[]? "
    "strides=None) -> (Tensor Y, Tensor Indices)",
    ONNX(MaxPool_Indices, 8)};

/* Values go back to the places that they come from, in a tensor of the size there was before; a
 * larger one has zeros behind. */
ONNX_OP(MaxUnpool) { /* X, I, output_shape, kernel_shape, pads, strides */
    static const onnx_window_args at = {-1, -1, 3, 4, 5};
    cfx_tensor *x = T(0);
    onnx_window w;
    int64_t shape[CFX_MAX_DIMS], asked[CFX_MAX_DIMS], all = 1;
    int n;
    if (!onnx_window_read(c, x, NULL, at, &w) || !onnx_ints(c, 2, asked, &n))
        return;
    for (int i = 0; i < x->ndim; i++) {
        shape[i] = i < 2 ? x->shape[i]
                         : (x->shape[i] - 1) * w.stride[i - 2] + w.kernel[i - 2] -
                               w.before[i - 2] - w.after[i - 2];
        all *= shape[i];
    }
    cfx_tensor *flat = cfx_zeros(cfx_list(all),
                                 CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)));
    flat = cfx_scatter(flat, 0, cfx_reshape(T(1), cfx_list(-1)), cfx_reshape(x, cfx_list(-1)));
    OUT(0) = cfx_reshape(flat, cfx_ints_value(x->ndim, shape));
    cfx_value more = cfx_list_value(0, NULL);
    for (int i = x->ndim - 1; i >= 0 && n == x->ndim; i--) {
        cfx_list_append(cfx_as_list(more), cfx_int(0));
        cfx_list_append(cfx_as_list(more), cfx_int(asked[i] - shape[i]));
    }
    if (n == x->ndim)
        OUT(0) = cfx_constant_pad_nd(OUT(0), more);
}

CFX_OP(onnx_MaxUnpool) = {
    "onnx::MaxUnpool(Tensor X, Tensor I, Tensor? output_shape=None, *, int[] kernel_shape, int[]? "
    "pads=None, int[]? strides=None) -> Tensor",
    ONNX(MaxUnpool, 9)};

/* ---- means and norms ------------------------------------------------------------------------- */

/* How many elements of the image each window has, or of the image and its padding; what `ceil` lets
 * windows have behind that is none. */
static cfx_tensor *window_counts(const pooling *p, cfx_tensor *x, bool padding) {
    cfx_tensor *one = cfx_ones_like(cfx_slice(cfx_slice(x, 0, 0, 1), 1, 0, 1));
    cfx_value pads = cfx_list_value(0, NULL);
    pooling whole = *p;
    for (int i = p->w.n - 1; i >= 0 && padding; i--) {
        cfx_list_append(cfx_as_list(pads), cfx_int(p->w.before[i]));
        cfx_list_append(cfx_as_list(pads), cfx_int(p->w.after[i]));
        whole.w.before[i] = 0;
    }
    if (padding)
        one = cfx_constant_pad_nd(one, pads, 1);
    return window_sums(p, framed(&whole, one, cfx_int(0)));
}

/* X, auto_pad, ceil_mode, count_include_pad, dilations, kernel_shape, pads, strides */
ONNX_OP(AveragePool) {
    static const onnx_window_args at = {1, 4, 5, 6, 7};
    cfx_tensor *x = T(0);
    pooling p = {.ceil = arg_bool(c, 2)};
    bool padding = arg_bool(c, 3), plain;
    if (!onnx_window_read(c, x, NULL, at, &p.w) || !count_places(c, x, &p))
        return;
    plain = is_plain(&p);
    for (int i = 0; i < p.w.n; i++)
        plain &= p.w.dilation[i] == 1;
    if (!plain) {
        cfx_tensor *sums = window_sums(&p, framed(&p, x, cfx_int(0)));
        int64_t all = 1;
        for (int i = 0; i < p.w.n; i++)
            all *= p.w.kernel[i];
        OUT(0) = padding && !p.ceil ? cfx_div(sums, all)
                                    : cfx_div(sums, window_counts(&p, x, padding));
        return;
    }
    cfx_value k = cfx_ints_value(p.w.n, p.w.kernel), stride = cfx_ints_value(p.w.n, p.w.stride);
    cfx_value pad = cfx_ints_value(p.w.n, p.w.before);
    OUT(0) = p.w.n == 1   ? cfx_avg_pool1d(x, k, stride, pad, p.ceil, padding)
             : p.w.n == 2 ? cfx_avg_pool2d(x, k, stride, pad, p.ceil, padding)
                          : cfx_avg_pool3d(x, k, stride, pad, p.ceil, padding);
}

/* X, auto_pad, ceil_mode, dilations, kernel_shape, p, pads, strides */
ONNX_OP(LpPool) {
    static const onnx_window_args at = {1, 3, 4, 6, 7};
    cfx_tensor *x = T(0);
    pooling p = {.ceil = arg_bool(c, 2)};
    double power = (double)arg_int(c, 5);
    if (!onnx_window_read(c, x, NULL, at, &p.w) || !count_places(c, x, &p))
        return;
    x = cfx_pow(cfx_abs(x), power);
    OUT(0) = cfx_pow(window_sums(&p, framed(&p, x, cfx_int(0))), 1 / power);
}

CFX_OP(onnx_AveragePool) = {
    "onnx::AveragePool(Tensor X, *, str auto_pad=\"NOTSET\", int ceil_mode=0, int "
    "count_include_pad=0, int[]? dilations=None, int[] kernel_shape, int[]? pads=None, int[]? "
    "strides=None) -> Tensor",
    ONNX(AveragePool, 1)};
CFX_OP(onnx_LpPool) = {
    "onnx::LpPool(Tensor X, *, str auto_pad=\"NOTSET\", int ceil_mode=0, int[]? dilations=None, "
    "int[]? kernel_shape=None, int p=2, int[]? pads=None, int[]? strides=None) -> Tensor",
    ONNX(LpPool, 1)};

/* ---- whole images ---------------------------------------------------------------------------- */

static cfx_value spatial(const cfx_tensor *x) {
    cfx_value dims = cfx_list_value(0, NULL);
    for (int i = 2; i < x->ndim; i++)
        cfx_list_append(cfx_as_list(dims), cfx_int(i));
    return dims;
}

ONNX_OP(GlobalAveragePool) { OUT(0) = cfx_mean(T(0), spatial(T(0)), true); }
ONNX_OP(GlobalMaxPool) { OUT(0) = cfx_amax(T(0), spatial(T(0)), true); }
ONNX_OP(GlobalLpPool) {
    double p = arg_float(c, 1);
    cfx_tensor *sums = cfx_sum(cfx_pow(cfx_abs(T(0)), p), spatial(T(0)), true);
    OUT(0) = cfx_pow(sums, 1 / p);
}

CFX_OP(onnx_GlobalAveragePool) = {
    "onnx::GlobalAveragePool(Tensor X) -> Tensor",
    ONNX(GlobalAveragePool, 1)};
CFX_OP(onnx_GlobalMaxPool) = {"onnx::GlobalMaxPool(Tensor X) -> Tensor", ONNX(GlobalMaxPool, 1)};
CFX_OP(onnx_GlobalLpPool) = {
    "onnx::GlobalLpPool(Tensor X, *, int p=2) -> Tensor",
    ONNX(GlobalLpPool, 2)};

/* ---- regions --------------------------------------------------------------------------------- */

ONNX_OP(MaxRoiPool) { /* X, rois, pooled_shape, spatial_scale */
    cfx_value size = c->args[2];
    cfx_value both = cfx_torchvision_roi_pool(T(0), T(1), c->args[3], cfx_at(size, 0),
                                              cfx_at(size, 1));
    if (!cfx_is_bad(both))
        OUT(0) = cfx_tensor_at(both, 0);
}

/* X, rois, batch_indices, coordinate_transformation_mode, mode, output_height, output_width,
 * sampling_ratio, spatial_scale */
static void roi_align(cfx_op_call *c, int mode, bool aligned) {
    cfx_tensor *x = T(0), *batch = onnx_to(T(2), (cfx_dtype)x->dtype);
    if (strcmp(arg_text(c, mode), "avg")) {
        op_fail_as(NOT_IMPLEMENTED, c, "RoiAlign: the mode '%s' is not known here",
                   arg_text(c, mode));
        return;
    }
    cfx_tensor *rois = cfx_cat(cfx_list(cfx_unsqueeze(batch, 1), T(1)), 1);
    OUT(0) = cfx_torchvision_roi_align(x, rois, c->args[mode + 4], c->args[mode + 1],
                                       c->args[mode + 2], c->args[mode + 3], aligned);
}

ONNX_OP(RoiAlign) { roi_align(c, 4, !strcmp(arg_text(c, 3), "half_pixel")); }
ONNX_OP(RoiAlign_v10) { roi_align(c, 3, false); }

CFX_OP(onnx_MaxRoiPool) = {
    "onnx::MaxRoiPool(Tensor X, Tensor rois, *, int[] pooled_shape, float spatial_scale=1.) -> "
    "Tensor",
    ONNX(MaxRoiPool, 1)};
CFX_OP(onnx_RoiAlign) = {
    "onnx::RoiAlign(Tensor X, Tensor rois, Tensor batch_indices, *, str "
    "coordinate_transformation_mode=\"half_pixel\", str mode=\"avg\", int output_height=1, int "
    "output_width=1, int sampling_ratio=0, float spatial_scale=1.) -> Tensor",
    ONNX(RoiAlign, 16)};
CFX_OP(onnx_RoiAlign_v10) = {
    "onnx::RoiAlign.v10(Tensor X, Tensor rois, Tensor batch_indices, *, str mode=\"avg\", int "
    "output_height=1, int output_width=1, int sampling_ratio=0, float spatial_scale=1.) -> Tensor",
    ONNX(RoiAlign_v10, 10)};
