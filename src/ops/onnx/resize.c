/* Images in other sizes, and sampled at given places. Where ATen has the very resampling it is
 * called; the others are taken apart: along each axis, the places that results come from are
 * computed, and elements there are weighted. Start at resize. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(POOL);

/* ---- what is asked for ----------------------------------------------------------------------- */

typedef struct {
    const char *mode;    /* nearest, linear, cubic */
    const char *places;  /* coordinate_transformation_mode */
    const char *nearest; /* nearest_mode */
    double a;            /* of the cubic */
    double outside;      /* what there is outside of a crop */
    bool exclude, antialias;
    bool scaled;         /* scales are given, sizes follow from them */
    double scale[CFX_MAX_DIMS];
    int64_t size[CFX_MAX_DIMS];
    double start[CFX_MAX_DIMS], end[CFX_MAX_DIMS]; /* the crop, as shares of the image */
} resizing;

static bool is(const char *a, const char *b) { return !strcmp(a, b); }

/* An axis whose numbers do not change. */
static bool stays(const resizing *r, const cfx_tensor *x, int i) {
    return r->size[i] == x->shape[i] && (!r->scaled || r->scale[i] == 1) &&
           !is(r->places, "tf_crop_and_resize");
}

/* ---- by ATen --------------------------------------------------------------------------------- */

/* The sizes of images, and their scales where these are what is given; None where not. */
static cfx_value image_sizes(const resizing *r, const cfx_tensor *x) {
    return cfx_ints_value(x->ndim - 2, r->size + 2);
}

static cfx_value image_scale(const resizing *r, int i) {
    return r->scaled ? cfx_float(r->scale[i]) : cfx_none();
}

static cfx_tensor *nearest_by_aten(const resizing *r, cfx_tensor *x, bool exact) {
    cfx_value size = image_sizes(r, x), a = image_scale(r, 2);
    cfx_value b = x->ndim > 3 ? image_scale(r, 3) : cfx_none();
    cfx_value d = x->ndim > 4 ? image_scale(r, 4) : cfx_none();
    if (exact)
        return x->ndim == 3   ? cfx_aten__upsample_nearest_exact1d(x, size, a)
               : x->ndim == 4 ? cfx_aten__upsample_nearest_exact2d(x, size, a, b)
                              : cfx_aten__upsample_nearest_exact3d(x, size, a, b, d);
    return x->ndim == 3   ? cfx_upsample_nearest1d(x, size, a)
           : x->ndim == 4 ? cfx_upsample_nearest2d(x, size, a, b)
                          : cfx_upsample_nearest3d(x, size, a, b, d);
}

static cfx_tensor *linear_by_aten(const resizing *r, cfx_tensor *x, bool corners) {
    cfx_value size = image_sizes(r, x), a = image_scale(r, 2);
    cfx_value b = x->ndim > 3 ? image_scale(r, 3) : cfx_none();
    cfx_value d = x->ndim > 4 ? image_scale(r, 4) : cfx_none();
    return x->ndim == 3   ? cfx_upsample_linear1d(x, size, corners, a)
           : x->ndim == 4 ? cfx_upsample_bilinear2d(x, size, corners, a, b)
                          : cfx_upsample_trilinear3d(x, size, corners, a, b, d);
}

/* Whether scales and sizes say the same, which matters where corners are aligned. */
static bool is_exact(const resizing *r, const cfx_tensor *x) {
    bool exact = true;
    for (int i = 2; i < x->ndim; i++)
        exact &= !r->scaled || (double)x->shape[i] * r->scale[i] == (double)r->size[i];
    return exact;
}

/* ATen's resampling of the same name; NULL where it has none. */
static cfx_tensor *by_aten(const resizing *r, cfx_tensor *x) {
    bool image = x->ndim >= 3 && x->ndim <= 5 && cfx__dtype_is_float((cfx_dtype)x->dtype);
    for (int i = 0; i < x->ndim && image; i++)
        image = i < 2 ? stays(r, x, i) : r->size[i] > 0 && x->shape[i] > 0;
    if (!image || r->antialias || r->exclude)
        return NULL;
    bool half = is(r->places, "half_pixel"), corners = is(r->places, "align_corners");
    bool whole = true;
    for (int i = 2; i < x->ndim; i++)
        whole &= r->size[i] > 1;
    half |= whole && is(r->places, "pytorch_half_pixel");
    if (is(r->mode, "nearest")) {
        bool floors = is(r->places, "asymmetric") && is(r->nearest, "floor");
        bool exact = half && is(r->nearest, "round_prefer_ceil");
        return floors || exact ? nearest_by_aten(r, x, exact) : NULL;
    }
    if (!half && !(corners && is_exact(r, x)))
        return NULL;
    if (is(r->mode, "linear"))
        return linear_by_aten(r, x, corners);
    return x->ndim == 4 && r->a == -0.75
               ? cfx_upsample_bicubic2d(x, image_sizes(r, x), corners, image_scale(r, 2),
                                        image_scale(r, 3))
               : NULL;
}

/* ---- axis by axis ---------------------------------------------------------------------------- */

/* Where each result lies in the image along an axis, as float64; scales are float32, and so are
 * the places that they give, which decides where one lies halfway between two. */
static cfx_tensor *places_of(const resizing *r, const cfx_tensor *x, int axis) {
    int64_t in = x->shape[axis], out = r->size[axis];
    double wide = r->scaled ? (float)in * (float)r->scale[axis] : (double)out;
    cfx_tensor *i = cfx_arange(out, CFX_KW(dtype, cfx_dtype_value(CFX_F64)));
    if (is(r->places, "align_corners"))
        return wide == 1 ? cfx_mul(i, 0) : cfx_mul(i, (double)(in - 1) / (wide - 1));
    if (is(r->places, "tf_crop_and_resize")) {
        double s = r->start[axis], e = r->end[axis], last = (double)(in - 1);
        return out > 1 ? cfx_add(cfx_mul(i, (e - s) * last / (double)(out - 1)), s * last)
                       : cfx_add(i, 0.5 * (s + e) * last);
    }
    bool middle = !is(r->places, "asymmetric");
    i = middle ? cfx_add(i, 0.5) : i;
    i = r->scaled ? onnx_to(cfx_div(onnx_to(i, CFX_F32), r->scale[axis]), CFX_F64)
                  : cfx_div(cfx_mul(i, in), out);
    if (is(r->places, "tf_half_pixel_for_nn") || !middle)
        return i;
    if (is(r->places, "pytorch_half_pixel") && wide == 1)
        return cfx_full_like(i, -0.5);
    double shift = is(r->places, "half_pixel_symmetric")
                       ? (double)in / 2 * (1 - (double)out / wide)
                       : 0;
    return cfx_add(i, shift - 0.5);
}

static cfx_tensor *whole(cfx_tensor *x, int64_t size) {
    return cfx_clamp(onnx_to(x, CFX_I64), 0, size - 1);
}

static cfx_tensor *nearest(const resizing *r, cfx_tensor *x, int axis) {
    cfx_tensor *at = places_of(r, x, axis);
    at = is(r->nearest, "floor")               ? cfx_floor(at)
         : is(r->nearest, "ceil")              ? cfx_ceil(at)
         : is(r->nearest, "round_prefer_ceil") ? cfx_floor(cfx_add(at, 0.5))
                                               : cfx_ceil(cfx_sub(at, 0.5));
    return cfx_index_select(x, axis, whole(at, x->shape[axis]));
}

/* The weight of what lies `d` away. */
static cfx_tensor *weight(const resizing *r, cfx_tensor *d) {
    d = cfx_abs(d);
    if (is(r->mode, "linear"))
        return cfx_clamp(cfx_rsub(d, 1), 0);
    double a = r->a;
    cfx_tensor *near = cfx_add(cfx_mul(cfx_mul(cfx_sub(cfx_mul(d, a + 2), a + 3), d), d), 1);
    cfx_tensor *far = cfx_sub(
        cfx_mul(cfx_add(cfx_mul(cfx_sub(cfx_mul(d, a), 5 * a), d), 8 * a), d), 4 * a);
    return cfx_where(cfx_le(d, 1), near, cfx_where(cfx_lt(d, 2), far, 0));
}

/* Along an axis, the sum of a few elements around each place, by their weights. Where an image is
 * made smaller, and that shall not show, the weights are wider. */
static cfx_tensor *weighted(const resizing *r, cfx_tensor *x, int axis) {
    int64_t in = x->shape[axis];
    double scale = r->scaled ? r->scale[axis] : (double)r->size[axis] / (double)in;
    double narrow = r->antialias && scale < 1 ? scale : 1;
    double reach = (is(r->mode, "linear") ? 1 : 2) / narrow;
    int first = (int)floor(-reach) + 1, count = 2 - 2 * first;
    cfx_tensor *at = places_of(r, x, axis), *base = cfx_floor(at), *all = NULL, *sum = NULL;
    bool fit = r->exclude || narrow < 1;
    for (int k = 0; k < count; k++) {
        cfx_tensor *i = cfx_add(base, first + k), *d = cfx_sub(i, at);
        cfx_tensor *w = weight(r, narrow < 1 ? cfx_mul(d, narrow) : d);
        if (r->exclude)
            w = cfx_where(cfx_logical_and(cfx_ge(i, 0), cfx_lt(i, in)), w, 0);
        all = !fit ? NULL : all ? cfx_add(all, w) : w;
        w = onnx_to(w, (cfx_dtype)x->dtype);
        for (int n = axis + 1; n < x->ndim; n++)
            w = cfx_unsqueeze(w, -1);
        cfx_tensor *part = cfx_mul(cfx_index_select(x, axis, whole(i, in)), w);
        sum = sum ? cfx_add(sum, part) : part;
    }
    all = all ? onnx_to(all, (cfx_dtype)x->dtype) : NULL;
    for (int n = axis + 1; all && n < x->ndim; n++)
        all = cfx_unsqueeze(all, -1);
    return all ? cfx_div(sum, all) : sum;
}

/* What a crop has of the world outside of the image is one number. */
static cfx_tensor *cut_outside(const resizing *r, cfx_tensor *y, const cfx_tensor *x, int axis) {
    cfx_tensor *at = places_of(r, x, axis);
    cfx_tensor *out = cfx_logical_or(cfx_lt(at, 0), cfx_gt(at, x->shape[axis] - 1));
    for (int n = axis + 1; n < x->ndim; n++)
        out = cfx_unsqueeze(out, -1);
    return cfx_where(out, r->outside, y);
}

static void resize(cfx_op_call *c, const resizing *r) {
    cfx_tensor *x = onnx_wide(T(0)), *from = x;
    cfx_tensor *y = by_aten(r, x);
    bool floats = cfx__dtype_is_float((cfx_dtype)x->dtype), crop = is(r->places,
                                                                      "tf_crop_and_resize");
    if (!y) {
        y = floats || is(r->mode, "nearest") ? x : onnx_to(x, CFX_F32);
        for (int i = 0; i < x->ndim && cfx_ok(); i++)
            if (!stays(r, x, i))
                y = is(r->mode, "nearest") ? nearest(r, y, i) : weighted(r, y, i);
        for (int i = 0; i < x->ndim && crop && cfx_ok(); i++)
            y = cut_outside(r, y, from, i);
        if (!floats && r->antialias) /* others are cut off, as ONNX's evaluator does */
            y = cfx_round(y);
    }
    OUT(0) = onnx_to(y, (cfx_dtype)T(0)->dtype);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool known_word(cfx_op_call *c, const char *what, const char *word, int n,
                       const char *const *words) {
    for (int i = 0; i < n; i++)
        if (is(words[i], word))
            return true;
    op_fail(c, "%s: there is no %s '%s'", op_title(c), what, word);
    return false;
}

static bool known_words(cfx_op_call *c, const resizing *r) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const places[] = {
        "half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
        "align_corners", "asymmetric",           "tf_crop_and_resize", "tf_half_pixel_for_nn"};
    static const char *const nearests[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                           "ceil"};
    return known_word(c, "mode", r->mode, COUNT(modes), modes) &&
           known_word(c, "coordinate_transformation_mode", r->places, COUNT(places), places) &&
           known_word(c, "nearest_mode", r->nearest, COUNT(nearests), nearests);
}

/* Sizes of all dimensions from scales: those that the axes name, the others stay. */
static bool take_scales(cfx_op_call *c, resizing *r, const cfx_tensor *scales, int n,
                        const int64_t *axes) {
    const cfx_tensor *x = T(0);
    if (scales->numel != n) {
        op_fail(c, "%s: there are %lld scales for %d axes", op_title(c), (long long)scales->numel,
                n);
        return false;
    }
    r->scaled = true;
    for (int i = 0; i < n; i++) {
        double s = cfx_number(cfx__tensor_get(scales, i));
        double size = floor((double)x->shape[axes[i]] * s);
        if (!(s > 0) || !(size < 0x1p40)) {
            op_fail(c, "%s: an image cannot be scaled by %g", op_title(c), s);
            return false;
        }
        r->scale[axes[i]] = s;
        r->size[axes[i]] = (int64_t)size;
    }
    return true;
}

/* The same from sizes; by a policy they keep their ratio, and are no larger or no smaller. */
static bool take_sizes(cfx_op_call *c, resizing *r, int at, const char *policy, int n,
                       const int64_t *axes) {
    const cfx_tensor *x = T(0);
    int64_t size[CFX_MAX_DIMS];
    int count;
    double ratio = 0;
    if (!onnx_ints(c, at, size, &count))
        return false;
    if (count != n) {
        op_fail(c, "%s: there are %d sizes for %d axes", op_title(c), count, n);
        return false;
    }
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
    if (!known_word(c, "keep_aspect_ratio_policy", policy, COUNT(policies), policies))
        return false;
    bool larger = is(policy, "not_larger"), keep = larger || is(policy, "not_smaller");
    for (int i = 0; i < n; i++) {
        double own = (double)size[i] / (double)x->shape[axes[i]];
        ratio = i == 0 || (larger ? own < ratio : own > ratio) ? own : ratio;
    }
    for (int i = 0; i < n; i++) {
        r->size[axes[i]] = size[i];
        if (keep)
            r->size[axes[i]] = (int64_t)floor(ratio * (double)x->shape[axes[i]] + 0.5);
    }
    for (int i = 0; keep && i < n; i++)
        r->scale[axes[i]] = ratio;
    r->scaled |= keep;
    return true;
}

/* Everything as it is. */
static resizing unchanged(const cfx_tensor *x) {
    resizing r = {.places = "half_pixel", .nearest = "round_prefer_floor", .a = -0.75};
    for (int i = 0; i < x->ndim; i++) {
        r.scale[i] = 1;
        r.size[i] = x->shape[i];
        r.end[i] = 1;
    }
    return r;
}

static bool take_crop(cfx_op_call *c, resizing *r, int n, const int64_t *axes) {
    if (!is(r->places, "tf_crop_and_resize"))
        return true;
    const cfx_tensor *roi = T(1) ? onnx_numbers(c, 1) : NULL;
    if (!roi || roi->numel != 2 * n) {
        if (cfx_ok())
            op_fail(c, "%s: a crop needs %d numbers in 'roi'", op_title(c), 2 * n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        r->start[axes[i]] = cfx_number(cfx__tensor_get(roi, i));
        r->end[axes[i]] = cfx_number(cfx__tensor_get(roi, n + i));
    }
    return true;
}

/* X, roi, scales, sizes, antialias, axes, coordinate_transformation_mode, cubic_coeff_a,
 * exclude_outside, extrapolation_value, keep_aspect_ratio_policy, mode, nearest_mode */
ONNX_OP(Resize) {
    resizing r = unchanged(T(0));
    int64_t axes[CFX_MAX_DIMS];
    int n = onnx_axes(c, 5, T(0)->ndim, axes);
    r.antialias = arg_bool(c, 4);
    r.places = arg_text(c, 6), r.a = arg_float(c, 7), r.exclude = arg_bool(c, 8);
    r.outside = arg_float(c, 9), r.mode = arg_text(c, 11), r.nearest = arg_text(c, 12);
    if (n < 0 || !known_words(c, &r))
        return;
    bool by_scales = T(2) && T(2)->numel;
    const cfx_tensor *scales = by_scales ? onnx_numbers(c, 2) : NULL;
    if (by_scales ? !scales || !take_scales(c, &r, scales, n, axes)
                  : !take_sizes(c, &r, 3, arg_text(c, 10), n, axes))
        return;
    if (take_crop(c, &r, n, axes))
        resize(c, &r);
}

/* As Upsample did it: from the corner on, and the nearest below. */
static void upsample(cfx_op_call *c, const cfx_tensor *scales, const char *mode) {
    static const char *const modes[] = {"nearest", "linear", "bilinear"};
    resizing r = unchanged(T(0));
    int64_t axes[CFX_MAX_DIMS];
    for (int i = 0; i < T(0)->ndim; i++)
        axes[i] = i;
    r.places = "asymmetric", r.nearest = "floor";
    r.mode = is(mode, "bilinear") ? "linear" : mode;
    if (scales && known_word(c, "mode", mode, COUNT(modes), modes) &&
        take_scales(c, &r, scales, T(0)->ndim, axes))
        resize(c, &r);
}

ONNX_OP(Upsample) { upsample(c, onnx_numbers(c, 1), arg_text(c, 2)); }

ONNX_OP(Upsample_v7) { /* X, mode, scales */
    double values[CFX_MAX_DIMS];
    int64_t n = arg_count(c, 2);
    for (int64_t i = 0; i < n && i < CFX_MAX_DIMS; i++)
        values[i] = cfx_number(cfx_at(c->args[2], i));
    n = n < CFX_MAX_DIMS ? n : CFX_MAX_DIMS;
    upsample(c, cfx_tensor_new(CFX_F64, 1, &n, values), arg_text(c, 1));
}

ONNX_OP(Upsample_v1) { /* X, height_scale, mode, width_scale */
    double values[] = {1, 1, arg_float(c, 1), arg_float(c, 3)};
    int64_t n = COUNT(values);
    upsample(c, cfx_tensor_new(CFX_F64, 1, &n, values), arg_text(c, 2));
}

CFX_OP(onnx_Resize) = {
    "onnx::Resize(Tensor X, Tensor? roi=None, Tensor? scales=None, Tensor? sizes=None, *, int "
    "antialias=0, int[]? axes=None, str coordinate_transformation_mode=\"half_pixel\", float "
    "cubic_coeff_a=-0.75, int exclude_outside=0, float extrapolation_value=0., str "
    "keep_aspect_ratio_policy=\"stretch\", str mode=\"nearest\", str "
    "nearest_mode=\"round_prefer_floor\") -> Tensor",
    ONNX(Resize, 11)};
CFX_OP(onnx_Resize_v10) = {
    "onnx::Resize.v10(Tensor X, Tensor scales, *, str mode=\"nearest\") -> Tensor",
    ONNX(Upsample, 10)};
CFX_OP(onnx_Upsample) = {
    "onnx::Upsample(Tensor X, Tensor scales, *, str mode=\"nearest\") -> Tensor",
    ONNX(Upsample, 9)};
CFX_OP(onnx_Upsample_v7) = {
    "onnx::Upsample.v7(Tensor X, *, str mode=\"nearest\", float[] scales) -> Tensor",
    ONNX(Upsample_v7, 7)};
CFX_OP(onnx_Upsample_v1) = {
    "onnx::Upsample.v1(Tensor X, *, float height_scale, str mode=\"nearest\", float width_scale) "
    "-> Tensor",
    ONNX(Upsample_v1, 1)};

/* ---- at given places ------------------------------------------------------------------------- */

/* X, grid, align_corners, mode, padding_mode */
ONNX_OP(GridSample) {
    static const char *const modes[] = {"linear", "nearest", "cubic", "bilinear", "", "bicubic"};
    static const char *const pads[] = {"zeros", "border", "reflection"};
    int mode = 0, pad = 0;
    if (!known_word(c, "mode", arg_text(c, 3), COUNT(modes), modes) ||
        !known_word(c, "padding_mode", arg_text(c, 4), COUNT(pads), pads))
        return;
    while (strcmp(modes[mode], arg_text(c, 3)))
        mode++;
    while (strcmp(pads[pad], arg_text(c, 4)))
        pad++;
    OUT(0) = cfx_grid_sampler(T(0), T(1), mode % 3, pad, arg_bool(c, 2));
}

ONNX_OP(AffineGrid) { /* theta, size, align_corners */
    int64_t size[CFX_MAX_DIMS];
    int n;
    if (onnx_ints(c, 1, size, &n))
        OUT(0) = cfx_affine_grid_generator(T(0), cfx_ints_value(n, size), arg_bool(c, 2));
}

CFX_OP(onnx_GridSample) = {
    "onnx::GridSample(Tensor X, Tensor grid, *, int align_corners=0, str mode=\"linear\", str "
    "padding_mode=\"zeros\") -> Tensor",
    ONNX(GridSample, 16)};
CFX_OP(onnx_AffineGrid) = {
    "onnx::AffineGrid(Tensor theta, Tensor size, *, int align_corners=0) -> Tensor",
    ONNX(AffineGrid, 20)};
