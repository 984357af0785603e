/* Rules for convolutions, poolings and resizing. */
#include "export.h"

#include <math.h>

/* Argument i for each of n dimensions: one number stands for all, none for `other`. False, with an
 * error. */
static bool each(cfx__onnx_export *x, int i, int n, int64_t other, int64_t *out) {
    int given = cfx__export_ints(x, i, out);
    for (int k = given; given >= 0 && given < n && k < n; k++)
        out[k] = given ? out[0] : other;
    return given >= 0;
}

/* Pads before all dimensions, then behind them. */
static cfx_value both(int n, const int64_t *pads) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int k = 0; k < 2 * n; k++)
        cfx_list_append(cfx_as_list(list), cfx_int(pads[k % n]));
    return list;
}

/* What it is computed in: there is nothing for bfloat16 before version 22 of the operator set, and
 * nothing for integers but the largest of bytes. */
static cfx_dtype computed(const cfx__onnx_export *x) {
    cfx_dtype d = cfx__export_given(x, 0).dtype;
    const bool knows_bytes = !strncmp(x->schema->name, "max_pool", 8) && cfx_dtype_size(d) == 1;
    return d == CFX_BF16                                 ? CFX_F32
           : cfx__dtype_is_integral(d) && !knows_bytes ? CFX_F64
                                                       : d;
}

/* An image without a batch gets one, and loses it after. */
static cfx_value batched(cfx__onnx_export *x, bool batch) {
    cfx_value v = cfx__export_as(x, 0, computed(x));
    return batch ? v : PUT(Unsqueeze, v, cfx__export_one(x, 0));
}
static cfx_value squeezed(cfx__onnx_export *x, cfx_value v, bool batch) {
    return batch ? v : PUT(Squeeze, v, cfx__export_one(x, 0));
}
/* The same for numbers, in the dtype of the image again. */
static cfx_value unbatched(cfx__onnx_export *x, cfx_value v, bool batch) {
    return cfx__export_cast(x, squeezed(x, v, batch), computed(x), cfx__export_given(x, 0).dtype);
}

RULE(convolution) {
    int n = cfx__export_given(x, 1).ndim - 2;
    bool batch = cfx__export_given(x, 0).ndim == n + 2, turned = cfx__export_flag(x, 6);
    int64_t stride[CFX_MAX_DIMS], pad[CFX_MAX_DIMS], dilation[CFX_MAX_DIMS], more[CFX_MAX_DIMS];
    cfx_value group = cfx__export_arg(x, 8);
    (void)op;
    if (!each(x, 3, n, 1, stride) || !each(x, 4, n, 0, pad) || !each(x, 5, n, 1, dilation) ||
        !each(x, 7, n, 0, more))
        return cfx_bad();
    cfx_dtype d = computed(x);
    cfx_value v = batched(x, batch), w = cfx__export_as(x, 1, d), b = cfx__export_as(x, 2, d);
    cfx_value pads = both(n, pad), strides = cfx_ints_value(n, stride);
    cfx_value dilations = cfx_ints_value(n, dilation);
    v = turned ? PUT(ConvTranspose, v, w, b, CFX_KW(strides, strides), CFX_KW(pads, pads),
                     CFX_KW(dilations, dilations), CFX_KW(group, group),
                     CFX_KW(output_padding, cfx_ints_value(n, more)))
               : PUT(Conv, v, w, b, CFX_KW(strides, strides), CFX_KW(pads, pads),
                     CFX_KW(dilations, dilations), CFX_KW(group, group));
    return unbatched(x, v, batch);
}

/* What a pooling is over. */
typedef struct {
    int n;
    bool batch;
    int64_t kernel[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], pad[CFX_MAX_DIMS], dilation[CFX_MAX_DIMS];
} window;

/* kernel, stride (the kernel's where it is left out) and padding from argument 1 on. */
static bool read_window(cfx__onnx_export *x, int n, window *w) {
    *w = (window){.n = n, .batch = cfx__export_given(x, 0).ndim == n + 2};
    if (!each(x, 1, n, 1, w->kernel) || !each(x, 2, n, 0, w->stride) || !each(x, 3, n, 0, w->pad))
        return false;
    for (int k = 0; k < n; k++) {
        w->stride[k] = w->stride[k] ? w->stride[k] : w->kernel[k];
        w->dilation[k] = 1;
    }
    return true;
}

static cfx_value max_pooled(cfx__onnx_export *x, int n, int dilation, int ceil) {
    window w;
    if (!read_window(x, n, &w) || !each(x, dilation, n, 1, w.dilation))
        return cfx_bad();
    cfx_value v = PUT(MaxPool, batched(x, w.batch),
                      CFX_KW(kernel_shape, cfx_ints_value(n, w.kernel)),
                      CFX_KW(strides, cfx_ints_value(n, w.stride)), CFX_KW(pads, both(n, w.pad)),
                      CFX_KW(dilations, cfx_ints_value(n, w.dilation)),
                      CFX_KW(ceil_mode, cfx__export_flag(x, ceil) ? 1 : 0));
    return unbatched(x, v, w.batch);
}

RULE(max_pool1d) {
    (void)op;
    return max_pooled(x, 1, 4, 5);
}
RULE(max_pool2d) {
    (void)op;
    return max_pooled(x, 2, 4, 5);
}
RULE(max_pool3d) {
    (void)op;
    return max_pooled(x, 3, 4, 5);
}

/* Whether a window may step over all of an image that has this size in dimension i, and padding
 * around it. ATen gives it a place outside the image. */
static bool steps_over(const window *w, int i, cfx_value size) {
    return size.tag == CFX_TAG_INT && w->pad[i] > 0 && cfx_integer(size) < w->dilation[i];
}

/* Indices count within an image, those of ONNX within all of them. */
static cfx_value with_indices(cfx__onnx_export *x, int n) {
    window w;
    if (!cfx__export_is_read(x, 1)) {
        cfx_value v = max_pooled(x, n, 4, 5);
        return cfx_is_bad(v) ? v : cfx_tuple(v, cfx_none());
    }
    if (!read_window(x, n, &w) || !each(x, 4, n, 1, w.dilation))
        return cfx_bad();
    const cfx_result r = cfx__export_given(x, 0);
    for (int i = 0; i < n; i++)
        if (steps_over(&w, i, cfx_result_size(&r, r.ndim - n + i)))
            return cfx__export_lacks("a window has nothing but padding in it");
    cfx_value in = batched(x, w.batch);
    cfx_value v = PUT(MaxPool_Indices, in, CFX_KW(kernel_shape, cfx_ints_value(n, w.kernel)),
                      CFX_KW(strides, cfx_ints_value(n, w.stride)), CFX_KW(pads, both(n, w.pad)),
                      CFX_KW(dilations, cfx_ints_value(n, w.dilation)),
                      CFX_KW(ceil_mode, cfx__export_flag(x, 5) ? 1 : 0));
    cfx_value sizes = PUT(Shape, in, CFX_KW(start, 2));
    cfx_value image = PUT(ReduceProd, sizes, cfx_none(), CFX_KW(keepdims, 0));
    cfx_value at = PUT(Mod, cfx__export_item(x, v, 1), image);
    return cfx_ok() ? cfx_tuple(unbatched(x, cfx__export_item(x, v, 0), w.batch),
                                squeezed(x, at, w.batch))
                    : cfx_bad();
}
RULE(max_pool2d_indices) {
    (void)op;
    return with_indices(x, 2);
}
RULE(max_pool3d_indices) {
    (void)op;
    return with_indices(x, 3);
}

static cfx_value mean_pooled(cfx__onnx_export *x, int n) {
    window w;
    if (!read_window(x, n, &w))
        return cfx_bad();
    if (x->schema->nargs > 6 && !cfx_is_none(cfx__export_arg(x, 6)))
        return cfx__export_lacks("it divides by a number of its own");
    cfx_value v = PUT(AveragePool, batched(x, w.batch),
                      CFX_KW(kernel_shape, cfx_ints_value(n, w.kernel)),
                      CFX_KW(strides, cfx_ints_value(n, w.stride)), CFX_KW(pads, both(n, w.pad)),
                      CFX_KW(ceil_mode, cfx__export_flag(x, 4) ? 1 : 0),
                      CFX_KW(count_include_pad, cfx__export_flag(x, 5) ? 1 : 0));
    return unbatched(x, v, w.batch);
}
RULE(avg_pool1d) {
    (void)op;
    return mean_pooled(x, 1);
}
RULE(avg_pool2d) {
    (void)op;
    return mean_pooled(x, 2);
}
RULE(avg_pool3d) {
    (void)op;
    return mean_pooled(x, 3);
}

/* The windows of a pooling to sizes that divide those it is made of; false where they do not, or
 * vary. */
static bool even_windows(const cfx_result *r, int n, const int64_t *to, int64_t *kernel) {
    for (int k = 0; k < n; k++) {
        cfx_value size = cfx_result_size(r, k - n);
        if (size.tag != CFX_TAG_INT || to[k] < 1 || cfx_integer(size) % to[k])
            return false;
        kernel[k] = cfx_integer(size) / to[k];
    }
    return true;
}

/* `fold` of each of `to` windows of a dimension of `from` elements, side by side. */
static cfx_value folds(cfx__onnx_export *x, cfx_op *fold, cfx_value v, int64_t dim, int64_t from,
                       int64_t to) {
    cfx_value parts = cfx_list_value(0, NULL), axis = cfx__export_one(x, dim);
    for (int64_t i = 0; i < to && cfx_ok(); i++) {
        const int64_t first = i * from / to, end = ((i + 1) * from + to - 1) / to;
        cfx_value part = PUT(Slice, v, cfx__export_one(x, first), cfx__export_one(x, end), axis);
        part = cfx__export_put(x, fold, CFX_ARGS(part, axis, CFX_KW(keepdims, 1)));
        cfx_list_append(cfx_as_list(parts), part);
    }
    return !cfx_ok() ? cfx_bad() : PUT(Concat, parts, CFX_KW(axis, dim));
}

/* Windows of several sizes, one dimension after the other. */
static cfx_value uneven(cfx__onnx_export *x, cfx_op *fold, int n, const int64_t *to) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value v = cfx__export_as(x, 0, computed(x));
    for (int k = 0; k < n; k++) {
        cfx_value size = cfx_result_size(&r, k - n);
        if (size.tag != CFX_TAG_INT || to[k] < 1)
            return cfx__export_lacks("its windows are of several sizes");
        v = folds(x, fold, v, r.ndim + k - n, cfx_integer(size), to[k]);
    }
    return cfx__export_cast(x, v, computed(x), r.dtype);
}

RULE(adaptive_avg_pool) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t to[CFX_MAX_DIMS], kernel[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, to);
    bool batch = r.ndim == n + 2, ones = true;
    for (int k = 0; k < n; k++)
        ones &= to[k] == 1;
    if (n < 1)
        return cfx_bad();
    if (ones)
        return unbatched(x, PUT(GlobalAveragePool, batched(x, batch)), batch);
    if (!even_windows(&r, n, to, kernel))
        return uneven(x, op, n, to);
    cfx_value v = PUT(AveragePool, batched(x, batch),
                      CFX_KW(kernel_shape, cfx_ints_value(n, kernel)),
                      CFX_KW(strides, cfx_ints_value(n, kernel)));
    return unbatched(x, v, batch);
}

RULE(adaptive_max_pool) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t to[CFX_MAX_DIMS], kernel[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, to);
    bool batch = r.ndim == n + 2;
    if (n < 1)
        return cfx_bad();
    if (cfx__export_is_read(x, 1))
        return cfx__export_lacks("ONNX does not tell where the largest of such windows are");
    cfx_value v = !even_windows(&r, n, to, kernel)
                      ? uneven(x, op, n, to)
                      : unbatched(x, PUT(MaxPool, batched(x, batch),
                                         CFX_KW(kernel_shape, cfx_ints_value(n, kernel)),
                                         CFX_KW(strides, cfx_ints_value(n, kernel))), batch);
    return cfx_is_bad(v) ? v : cfx_tuple(v, cfx_none());
}

/* ---- resizing -------------------------------------------------------------------------------- */

/* By the scales that are given, or to the sizes that are (x, sizes; scales in a list or None).
 * Where corners are aligned, sizes alone say where pixels are; else pixels are squares. ONNX's
 * pytorch_half_pixel is not PyTorch's: it reads the first pixel where one alone is made, not the
 * middle. */
static cfx_value resized(cfx__onnx_export *x, const char *mode, cfx_value by, bool corners) {
    cfx_result r = cfx__export_given(x, 0), own = cfx__export_result(x);
    cfx_value v = cfx__export_in(x, 0), to = cfx_none();
    bool nearest = !strcmp(mode, "nearest");
    const char *where = nearest ? "asymmetric" : corners ? "align_corners" : "half_pixel";
    if (corners && own.shape)
        by = cfx_none();
    if (!cfx_is_none(by)) {
        int64_t n = r.ndim;
        cfx_tensor *t = cfx_tensor_new(CFX_F32, 1, &n, NULL);
        for (int64_t k = 0; k < n && cfx_ok(); k++)
            ((float *)t->data)[k] = k < 2 ? 1 : (float)cfx_number(cfx_at(by, k - 2));
        by = cfx__export_tensor(x, t);
        if (corners) { /* the sizes that the scales give, whole numbers */
            cfx_value all = cfx__export_cast(x, PUT(Shape, v), CFX_I64, CFX_F32);
            to = cfx__export_cast(x, PUT(Floor, PUT(Mul, all, by)), CFX_F32, CFX_I64);
            by = cfx_none();
        }
    } else if (own.shape) {
        to = cfx__export_i64(x, own.ndim, own.shape);
    } else {
        to = PUT(Concat, cfx_list(PUT(Shape, v, CFX_KW(end, 2)),
                                  cfx__export_sizes(x, cfx__export_arg(x, 1))), CFX_KW(axis, 0));
    }
    return nearest ? PUT(Resize, v, cfx_none(), by, to, CFX_KW(mode, mode),
                         CFX_KW(coordinate_transformation_mode, where),
                         CFX_KW(nearest_mode, "floor"))
                   : PUT(Resize, v, cfx_none(), by, to, CFX_KW(mode, mode),
                         CFX_KW(coordinate_transformation_mode, where),
                         CFX_KW(cubic_coeff_a, -0.75));
}

RULE(nearest) {
    (void)op;
    return resized(x, "nearest", cfx__export_arg(x, 2), false);
}
RULE(linearly) {
    (void)op;
    return resized(x, "linear", cfx__export_arg(x, 3), cfx__export_flag(x, 2));
}
RULE(cubic) {
    (void)op;
    return resized(x, "cubic", cfx__export_arg(x, 3), cfx__export_flag(x, 2));
}

/* The forms with a scale for each dimension (x, sizes, corners, scales one by one): sizes must be
 * those that the scales give. */
static cfx_value to_sizes(cfx__onnx_export *x, const char *mode) {
    cfx_result r = cfx__export_given(x, 0), own = cfx__export_result(x);
    cfx_value by = cfx_list_value(0, NULL);
    for (int k = 2; k < r.ndim; k++) {
        cfx_value scale = cfx__export_arg(x, 1 + k);
        if (cfx_is_none(scale))
            return resized(x, mode, cfx_none(), cfx__export_flag(x, 2));
        if (!own.shape || !r.shape ||
            floor((double)r.shape[k] * cfx_number(scale)) != (double)own.shape[k])
            return cfx__export_lacks("its sizes are not those that its scales give");
        cfx_list_append(cfx_as_list(by), scale);
    }
    return resized(x, mode, by, cfx__export_flag(x, 2));
}
RULE(linearly_to) {
    (void)op;
    return to_sizes(x, "linear");
}
RULE(cubic_to) {
    (void)op;
    return to_sizes(x, "cubic");
}

/* What the operator makes of `from` pixels in one direction, as a matrix: of the pictures that have
 * one pixel each. */
static cfx_tensor *weights_of(const cfx__onnx_export *x, cfx_op *op, int64_t from, int64_t to,
                              cfx_value scale, cfx_dtype d) {
    cfx_tensor *all = cfx_eye(from, CFX_KW(dtype, cfx_dtype_value(d)));
    cfx_value args[] = {cfx_tensor_value(cfx_reshape(all, cfx_list(1, 1, from, from))),
                        cfx_list(to, from), cfx__export_arg(x, 2), scale, cfx_none()};
    return cfx_squeeze(cfx_as_tensor(cfx__op_call_bound((cfx_site){0}, op, args)),
                       cfx_list(0, 1));
}

/* Over all pixels that one is made of, where an image becomes smaller: a product with a matrix for
 * each direction, as ONNX's Resize weighs the pixels of the border otherwise. */
RULE(smoothed) {
    const cfx_result own = cfx__export_result(x), r = cfx__export_given(x, 0);
    const cfx_dtype d = computed(x);
    cfx_value v = cfx__export_as(x, 0, d);
    const bool listed = x->schema->nargs == 4; /* the scales */
    if (!own.shape || !r.shape)
        return cfx__export_lacks("its sizes vary");
    if (!cfx__dtype_is_floating(r.dtype))
        return cfx__export_lacks("it rounds integers in its own way");
    for (int k = 2; k < own.ndim && cfx_ok(); k++) {
        const cfx_value all = cfx__export_arg(x, 3);
        const cfx_value scale = !listed            ? cfx__export_arg(x, 1 + k)
                                : cfx_is_none(all) ? all
                                                   : cfx_at(all, k - 2);
        cfx_tensor *by = weights_of(x, op, r.shape[k], own.shape[k], scale,
                                    d == CFX_F64 ? d : CFX_F32);
        cfx_value m = cfx__export_tensor(x, cfx_contiguous(k == 2 ? by : cfx_t(by)));
        m = cfx__export_cast(x, m, d == CFX_F64 ? d : CFX_F32, d);
        v = k == 2 ? PUT(MatMul, m, v) : PUT(MatMul, v, m);
    }
    return cfx__export_cast(x, v, d, r.dtype);
}

RULE(grid_sample) {
    static const char *const modes[] = {"linear", "nearest", "cubic"};
    static const char *const pads[] = {"zeros", "border", "reflection"};
    int64_t mode = cfx_integer(cfx__export_arg(x, 2)), pad = cfx_integer(cfx__export_arg(x, 3));
    (void)op;
    if (mode < 0 || mode >= COUNT(modes) || pad < 0 || pad >= COUNT(pads))
        return cfx__export_lacks("its mode is none of ONNX's");
    return PUT(GridSample, cfx__export_in(x, 0), cfx__export_in(x, 1), CFX_KW(mode, modes[mode]),
               CFX_KW(padding_mode, pads[pad]),
               CFX_KW(align_corners, cfx__export_flag(x, 4) ? 1 : 0));
}

static const cfx__onnx_rule rows[] = {
    {"aten.convolution.default", convolution, NULL},
    {"aten.max_pool1d.default", max_pool1d, NULL},
    {"aten.max_pool2d.default", max_pool2d, NULL},
    {"aten.max_pool3d.default", max_pool3d, NULL},
    {"aten.max_pool2d_with_indices.default", max_pool2d_indices, NULL},
    {"aten.max_pool3d_with_indices.default", max_pool3d_indices, NULL},
    {"aten.avg_pool1d.default", avg_pool1d, NULL},
    {"aten.avg_pool2d.default", avg_pool2d, NULL},
    {"aten.avg_pool3d.default", avg_pool3d, NULL},
    {"aten.adaptive_avg_pool1d.default", adaptive_avg_pool, &cfx_op_onnx_ReduceMean},
    {"aten._adaptive_avg_pool2d.default", adaptive_avg_pool, &cfx_op_onnx_ReduceMean},
    {"aten._adaptive_avg_pool3d.default", adaptive_avg_pool, &cfx_op_onnx_ReduceMean},
    {"aten.adaptive_max_pool2d.default", adaptive_max_pool, &cfx_op_onnx_ReduceMax},
    {"aten.adaptive_max_pool3d.default", adaptive_max_pool, &cfx_op_onnx_ReduceMax},
    {"aten.grid_sampler_2d.default", grid_sample, NULL},
    {"aten.grid_sampler_3d.default", grid_sample, NULL},
    {"aten.upsample_nearest1d.vec", nearest, NULL},
    {"aten.upsample_nearest2d.vec", nearest, NULL},
    {"aten.upsample_nearest3d.vec", nearest, NULL},
    {"aten.upsample_linear1d.vec", linearly, NULL},
    {"aten.upsample_bilinear2d.vec", linearly, NULL},
    {"aten.upsample_trilinear3d.vec", linearly, NULL},
    {"aten.upsample_bicubic2d.vec", cubic, NULL},
    {"aten.upsample_linear1d.default", linearly_to, NULL},
    {"aten.upsample_bilinear2d.default", linearly_to, NULL},
    {"aten.upsample_trilinear3d.default", linearly_to, NULL},
    {"aten.upsample_bicubic2d.default", cubic_to, NULL},
    {"aten._upsample_bilinear2d_aa.vec", smoothed, &cfx_op__upsample_bilinear2d_aa},
    {"aten._upsample_bilinear2d_aa.default", smoothed, &cfx_op__upsample_bilinear2d_aa},
    {"aten._upsample_bicubic2d_aa.vec", smoothed, &cfx_op__upsample_bicubic2d_aa},
    {"aten._upsample_bicubic2d_aa.default", smoothed, &cfx_op__upsample_bicubic2d_aa},
};

const cfx__onnx_rules cfx__onnx_rules_window = CFX__ONNX_RULES(rows);
