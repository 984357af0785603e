/* Channels turned into pixels and back, channels dealt out anew, and blocks of pixels as columns.
 */
#include "../back.h"
#include "../views.h"

CFX_FAMILY(POOL);

/* ---- pixel_shuffle and channel_shuffle ------------------------------------------------------- */

/* Result 0 in the memory format of t. */
static void out_in_format(cfx_op_call *c, const cfx_tensor *t, const int64_t *shape) {
    int64_t stride[CFX_MAX_DIMS];
    if (format_strides(c, cfx__tensor_suggest_format(t), t->ndim, shape, stride))
        out_strided(c, 0, t->dtype, t->ndim, shape, stride);
}

static bool shuffle_fits(cfx_op_call *c, const char *name, const char *factor, int64_t r) {
    const cfx_tensor *t = arg_tensor(c, 0);
    if (t->ndim < 3)
        op_fail(c,
                "%s expects input to have at least 3 dimensions, but got input with %d "
                "dimension(s)",
                name, t->ndim);
    else if (r <= 0)
        op_fail(c, "%s expects a positive %s, but got %lld", name, factor, (long long)r);
    else if (t->ndim > CFX_MAX_DIMS - 2)
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS - 2);
    return !op_failed();
}

static void shape_pixel_shuffle(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t r = arg_int(c, 1), shape[CFX_MAX_DIMS], square;
    int n = t->ndim;
    if (!shuffle_fits(c, "pixel_shuffle", "upscale_factor", r))
        return;
    if (__builtin_mul_overflow(r, r, &square)) {
        op_fail(c,
                "upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor=%lld",
                (long long)r);
        return;
    }
    if (t->shape[n - 3] % square) {
        op_fail(
            c,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            "of upscale_factor, but input.size(-3)=%lld is not divisible by %lld",
            (long long)t->shape[n - 3], (long long)square);
        return;
    }
    memcpy(shape, t->shape, (size_t)n * sizeof *shape);
    shape[n - 3] /= square;
    if (__builtin_mul_overflow(shape[n - 2], r, &shape[n - 2]) ||
        __builtin_mul_overflow(shape[n - 1], r, &shape[n - 1]))
        op_fail_large(c, "Storage size calculation overflowed with sizes=%s",
                      cfx__shape_text(n, shape));
    else
        out_in_format(c, t, shape);
}

static void shape_pixel_unshuffle(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t r = arg_int(c, 1), shape[CFX_MAX_DIMS];
    int n = t->ndim;
    if (!shuffle_fits(c, "pixel_unshuffle", "downscale_factor", r))
        return;
    for (int d = n - 2; d < n; d++)
        if (t->shape[d] % r) {
            op_fail(c,
                    "pixel_unshuffle expects %s to be divisible by downscale_factor, but "
                    "input.size(%d)=%lld is not divisible by %lld",
                    d == n - 2 ? "height" : "width", d - n, (long long)t->shape[d], (long long)r);
            return;
        }
    memcpy(shape, t->shape, (size_t)n * sizeof *shape);
    shape[n - 2] /= r;
    shape[n - 1] /= r;
    if (__builtin_mul_overflow(shape[n - 3], r, &shape[n - 3]) ||
        __builtin_mul_overflow(shape[n - 3], r, &shape[n - 3]))
        op_fail_large(c, "Storage size calculation overflowed with sizes=%s",
                      cfx__shape_text(n, shape));
    else
        out_in_format(c, t, shape);
}

/* The last three dimensions of `wide` (height and width r times larger) as C, r, r, H, W: seen so,
 * both sides hold their elements in the same order. */
static cfx_tensor *as_pixels(const cfx_tensor *wide, int64_t r) {
    int64_t shape[CFX_MAX_DIMS + 2], stride[CFX_MAX_DIMS + 2];
    int n = wide->ndim, lead = n - 2;
    memcpy(shape, wide->shape, (size_t)lead * sizeof *shape);
    memcpy(stride, wide->stride, (size_t)lead * sizeof *stride);
    for (int k = 0; k < 2; k++) {
        shape[lead + k] = r;
        stride[lead + k] = wide->stride[lead + k];
        shape[lead + 2 + k] = wide->shape[lead + k] / r;
        stride[lead + 2 + k] = wide->stride[lead + k] * r;
    }
    return cfx__tensor_alias(wide, n + 2, shape, stride, wide->offset);
}

static cfx_tensor *as_channels(const cfx_tensor *deep, int64_t r) {
    int64_t shape[CFX_MAX_DIMS + 2], stride[CFX_MAX_DIMS + 2];
    int n = deep->ndim, at = n - 3;
    memcpy(shape, deep->shape, (size_t)at * sizeof *shape);
    memcpy(stride, deep->stride, (size_t)at * sizeof *stride);
    for (int k = 0; k < 3; k++) {
        shape[at + k] = k ? r : deep->shape[at] / r / r;
        stride[at + k] = deep->stride[at] * (k == 0 ? r * r : k == 1 ? r : 1);
    }
    for (int k = 1; k < 3; k++) {
        shape[at + 2 + k] = deep->shape[at + k];
        stride[at + 2 + k] = deep->stride[at + k];
    }
    return cfx__tensor_alias(deep, n + 2, shape, stride, deep->offset);
}

static void kernel_pixel_shuffle(cfx_op_call *c) {
    int64_t r = arg_int(c, 1);
    if (c->out[0]->numel)
        cfx__tensor_copy(as_pixels(c->out[0], r), as_channels(arg_tensor(c, 0), r));
}

static void kernel_pixel_unshuffle(cfx_op_call *c) {
    int64_t r = arg_int(c, 1);
    if (c->out[0]->numel)
        cfx__tensor_copy(as_channels(c->out[0], r), as_pixels(arg_tensor(c, 0), r));
}

/* Whether there may be a tensor with the channels in groups, be it empty. */
static bool groups_fit(cfx_op_call *c, const cfx_tensor *t, int64_t groups) {
    int64_t shape[CFX_MAX_DIMS + 1] = {t->shape[0], groups, t->shape[1] / groups};
    memcpy(shape + 3, t->shape + 2, (size_t)(t->ndim - 2) * sizeof *shape);
    return cfx__shape_numel(c->at, t->ndim + 1, shape) >= 0;
}

static void shape_channel_shuffle(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t groups = arg_int(c, 1);
    if (t->ndim < 3)
        op_fail(c, "channel_shuffle expects input with > 2 dims, but got input with sizes %s",
                cfx__shape_text(t->ndim, t->shape));
    else if (groups <= 0)
        op_fail(c, "Number of groups to divide channels in must be positive. Value of groups:%lld",
                (long long)groups);
    else if (t->shape[1] % groups)
        op_fail(
            c, "Number of channels must be divisible by groups. Got %lld channels and %lld groups.",
            (long long)t->shape[1], (long long)groups);
    else if (groups_fit(c, t, groups))
        out_in_format(c, t, t->shape);
}

/* Channel g of each group after the other: a transpose of the channels seen as a matrix. */
static void kernel_channel_shuffle(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int64_t groups = arg_int(c, 1), each = t->shape[1] / groups;
    int64_t shape[CFX_MAX_DIMS + 1], to[CFX_MAX_DIMS + 1], from[CFX_MAX_DIMS + 1];
    if (!t->numel)
        return;
    shape[0] = t->shape[0];
    shape[1] = each;
    shape[2] = groups;
    to[0] = out->stride[0];
    to[1] = groups * out->stride[1];
    to[2] = out->stride[1];
    from[0] = t->stride[0];
    from[1] = t->stride[1];
    from[2] = each * t->stride[1];
    for (int d = 2; d < t->ndim; d++) {
        shape[d + 1] = t->shape[d];
        to[d + 1] = out->stride[d];
        from[d + 1] = t->stride[d];
    }
    cfx__tensor_copy(cfx__tensor_alias(out, t->ndim + 1, shape, to, 0),
                     cfx__tensor_alias(t, t->ndim + 1, shape, from, t->offset));
}

static void grad_pixel_shuffle(cfx_back *b) {
    back_give(b, 0, cfx_pixel_unshuffle(b->gout[0], b->args[1]));
}

static void grad_pixel_unshuffle(cfx_back *b) {
    back_give(b, 0, cfx_pixel_shuffle(b->gout[0], b->args[1]));
}

CFX_OP(pixel_shuffle) = {"aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
                         "torch.pixel_shuffle torch.nn.functional.pixel_shuffle",
                         .shape = shape_pixel_shuffle,
                         .kernel = kernel_pixel_shuffle,
                         GRAD(pixel_shuffle, 0),
                         .core = core_pixel_shuffle, .effects = CFX_MOVES, .out = "out"};
CFX_OP(pixel_unshuffle) = {"aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
                           "torch.pixel_unshuffle torch.nn.functional.pixel_unshuffle",
                           .shape = shape_pixel_unshuffle,
                           .kernel = kernel_pixel_unshuffle,
                           GRAD(pixel_unshuffle, 0),
                           .core = core_pixel_unshuffle, .effects = CFX_MOVES, .out = "out"};
static void grad_channel_shuffle(cfx_back *b) {
    const int64_t groups = back_int(b, 1);
    back_give(b, 0, cfx_channel_shuffle(b->gout[0], back_arg(b, 0)->shape[1] / groups));
}

CFX_FAMILY(VIEW);
CFX_OP(channel_shuffle) = {"aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor",
                           "torch.channel_shuffle torch.nn.functional.channel_shuffle",
                           .shape = shape_channel_shuffle,
                           .kernel = kernel_channel_shuffle,
                           GRAD(channel_shuffle, 0),
                           .core = core_channel_shuffle, .effects = CFX_MOVES, .out = "out"};
CFX_OP(native_channel_shuffle) = {
    "aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    "torch.native_channel_shuffle",
    .shape = shape_channel_shuffle,
    .kernel = kernel_channel_shuffle,
    GRAD(channel_shuffle, 0),
    .core = core_channel_shuffle, .effects = CFX_MOVES};

/* ---- im2col and col2im ----------------------------------------------------------------------- */

/* Windows over an image: sizes by height and width. */
typedef struct {
    int64_t kernel[2], dilation[2], padding[2], stride[2];
    int64_t image[2], blocks[2]; /* blocks: how many windows there are each way */
    int64_t planes;              /* images times channels */
} windows;

static bool read_pairs(cfx_op_call *c, int first, windows *w) {
    int64_t *pairs[] = {w->kernel, w->dilation, w->padding, w->stride};
    for (int i = 0; i < 4; i++) {
        int64_t v[CFX_MAX_DIMS];
        int n = arg_ints(c, first + i, v);
        if (op_failed())
            return false;
        if (n != 2) {
            static const char *const names[] = {"kernel_size", "dilation", "padding", "stride"};
            op_fail(c, "It is expected %s equals to 2, but got size %d", names[i], n);
            return false;
        }
        memcpy(pairs[i], v, sizeof w->kernel);
    }
    const int64_t *k = w->kernel, *s = w->stride, *d = w->dilation, *p = w->padding;
    if (k[0] <= 0 || k[1] <= 0)
        op_fail(c,
                "kernel size should be greater than zero, but got kernel_height: %lld "
                "kernel_width: %lld",
                (long long)k[0], (long long)k[1]);
    else if (s[0] <= 0 || s[1] <= 0)
        op_fail(c,
                "stride should be greater than zero, but got stride_height: %lld stride_width: "
                "%lld",
                (long long)s[0], (long long)s[1]);
    else if (d[0] <= 0 || d[1] <= 0)
        op_fail(c,
                "dilation should be greater than zero, but got dilation_height: %lld "
                "dilation_width: %lld",
                (long long)d[0], (long long)d[1]);
    else if (p[0] < 0 || p[1] < 0)
        op_fail(c, "padding should be non-negative, but got pad_height: %lld pad_width: %lld",
                (long long)p[0], (long long)p[1]);
    else if (p[0] > INT64_MAX / 16 || p[1] > INT64_MAX / 16)
        op_fail_large(c, "Storage size calculation overflowed with padding=%s",
                      cfx__shape_text(2, p));
    return !op_failed();
}

/* The number of windows each way; numbers too large to add up count as no room. */
static void count_blocks(windows *w) {
    for (int i = 0; i < 2; i++) {
        __int128 room = (__int128)w->image[i] + 2 * (__int128)w->padding[i] -
                        (__int128)w->dilation[i] * (w->kernel[i] - 1) - 1;
        /* rounds down, below zero too */
        __int128 n = room >= 0 ? room / w->stride[i] : -((-room + w->stride[i] - 1) / w->stride[i]);
        n += 1;
        w->blocks[i] = n > INT64_MAX ? INT64_MAX : n < -INT64_MAX ? -INT64_MAX : (int64_t)n;
    }
}

/* Windows of im2col: sizes of the result are planes * kernel and blocks. */
static bool im2col_windows(cfx_op_call *c, windows *w) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int n = t->ndim;
    if (!read_pairs(c, 1, w))
        return false;
    bool valid = n == 3 || n == 4;
    for (int d = n == 4; valid && d < n; d++)
        valid = t->shape[d] != 0;
    if (!valid) {
        op_fail(c,
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
                "non-zero dimensions for input, but got: %s",
                cfx__shape_text(n, t->shape));
        return false;
    }
    w->image[0] = t->shape[n - 2];
    w->image[1] = t->shape[n - 1];
    w->planes = t->shape[n - 3] * (n == 4 ? t->shape[0] : 1);
    count_blocks(w);
    if (w->blocks[0] >= 1 && w->blocks[1] >= 1)
        return true;
    op_fail(
        c,
        "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, "
        "%lld), padding=(%lld, %lld), calculated shape of the array of sliding blocks as (%lld, "
        "%lld), but its components must be at least one.",
        (long long)w->image[0], (long long)w->image[1], (long long)w->kernel[0],
        (long long)w->kernel[1], (long long)w->dilation[0], (long long)w->dilation[1],
        (long long)w->padding[0], (long long)w->padding[1], (long long)w->blocks[0],
        (long long)w->blocks[1]);
    return false;
}

static void shape_im2col(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    windows w;
    int64_t shape[3] = {t->ndim == 4 ? t->shape[0] : 1};
    if (!im2col_windows(c, &w))
        return;
    if (cfx__dtype_is_int(t->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"im2col_out_cpu\" not implemented for '%s'",
                   cfx__dtype_title(t->dtype));
        return;
    }
    if (__builtin_mul_overflow(t->shape[t->ndim - 3], w.kernel[0], &shape[1]) ||
        __builtin_mul_overflow(shape[1], w.kernel[1], &shape[1]) ||
        __builtin_mul_overflow(w.blocks[0], w.blocks[1], &shape[2]))
        op_fail_large(c, "Storage size calculation overflowed with sizes=%s",
                      cfx__shape_text(2, w.kernel));
    else if (t->ndim == 4)
        out_new(c, 0, t->dtype, 3, shape);
    else
        out_new(c, 0, t->dtype, 2, shape + 1);
}

typedef struct {
    const windows *w;
    char *out;
    const char *in;
    size_t size;
} unfolding;

/* One row of columns: a place in the window, for all windows of a plane. */
static void unfold_rows(void *arg, int64_t begin, int64_t end) {
    const unfolding *u = arg;
    const windows *w = u->w;
    int64_t area = w->kernel[0] * w->kernel[1], width = w->blocks[1];
    for (int64_t row = begin; row < end; row++) {
        int64_t plane = row / area, ky = row % area / w->kernel[1], kx = row % w->kernel[1];
        const char *image = u->in + (size_t)(plane * w->image[0] * w->image[1]) * u->size;
        char *to = u->out + (size_t)(row * w->blocks[0] * width) * u->size;
        int64_t x0 = kx * w->dilation[1] - w->padding[1];
        for (int64_t by = 0; by < w->blocks[0]; by++, to += (size_t)width * u->size) {
            int64_t y = ky * w->dilation[0] - w->padding[0] + by * w->stride[0];
            if (y < 0 || y >= w->image[0]) {
                memset(to, 0, (size_t)width * u->size);
                continue;
            }
            const char *line = image + (size_t)(y * w->image[1]) * u->size;
            for (int64_t bx = 0; bx < width; bx++) {
                int64_t x = x0 + bx * w->stride[1];
                if (x < 0 || x >= w->image[1]) {
                    memset(to + (size_t)bx * u->size, 0, u->size);
                } else if (w->stride[1] == 1) {
                    int64_t run = w->image[1] - x < width - bx ? w->image[1] - x : width - bx;
                    memcpy(to + (size_t)bx * u->size, line + (size_t)x * u->size,
                           (size_t)run * u->size);
                    bx += run - 1;
                } else {
                    memcpy(to + (size_t)bx * u->size, line + (size_t)x * u->size, u->size);
                }
            }
        }
    }
}

static void kernel_im2col(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    windows w;
    if (!t->numel || !im2col_windows(c, &w))
        return;
    unfolding u = {&w, c->out[0]->data, t->data, (size_t)cfx_dtype_size(t->dtype)};
    cfx__parallel(w.planes * w.kernel[0] * w.kernel[1],
                  cfx__grain((double)(w.blocks[0] * w.blocks[1])), unfold_rows, &u);
}

/* Windows of col2im, the other way round: the image is given, the columns must fit it. */
static bool col2im_windows(cfx_op_call *c, windows *w) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t size[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, size), ndim = t->ndim;
    if (op_failed() || !read_pairs(c, 2, w))
        return false;
    if (n != 2) {
        op_fail(c, "It is expected output_size equals to 2, but got size %d", n);
        return false;
    }
    if (!((ndim == 2 && t->numel) || (ndim == 3 && t->shape[1] && t->shape[2]))) {
        op_fail(c,
                "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
                "non-zero dimensions for input, but got: %s",
                cfx__shape_text(ndim, t->shape));
        return false;
    }
    const int64_t *k = w->kernel, *d = w->dilation, *p = w->padding, *s = w->stride;
    int64_t area, rows = t->shape[ndim - 2], blocks;
    if (__builtin_mul_overflow(k[0], k[1], &area) || rows % area) {
        op_fail(c,
                "Expected size of input's dimension 1 to be divisible by the product of "
                "kernel_size, but got input.size(1)=%lld and kernel_size=(%lld, %lld).",
                (long long)rows, (long long)k[0], (long long)k[1]);
        return false;
    }
    memcpy(w->image, size, sizeof w->image);
    w->planes = rows / area * (ndim == 3 ? t->shape[0] : 1);
    count_blocks(w);
    if (__builtin_mul_overflow(w->blocks[0], w->blocks[1], &blocks))
        blocks = -1;
    bool fits = blocks == t->shape[ndim - 1] && w->blocks[0] > 0 && w->blocks[1] > 0;
    if (!fits)
        op_fail(
            c,
            "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), "
            "padding=(%lld, %lld), stride=(%lld, %lld), expected size of input's dimension 2 to "
            "match the calculated number of sliding blocks %lld * %lld = %lld, but got "
            "input.size(2)=%lld.",
            (long long)size[0], (long long)size[1], (long long)k[0], (long long)k[1],
            (long long)d[0], (long long)d[1], (long long)p[0], (long long)p[1], (long long)s[0],
            (long long)s[1], (long long)w->blocks[0], (long long)w->blocks[1], (long long)blocks,
            (long long)t->shape[ndim - 1]);
    return fits;
}

static void shape_col2im(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    windows w;
    if (!col2im_windows(c, &w))
        return;
    if (cfx__dtype_is_int(t->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"col2im_out_cpu\" not implemented for '%s'",
                   cfx__dtype_title(t->dtype));
        return;
    }
    int64_t shape[4] = {t->ndim == 3 ? t->shape[0] : 1,
                        t->shape[t->ndim - 2] / (w.kernel[0] * w.kernel[1]), w.image[0],
                        w.image[1]};
    if (t->ndim == 3)
        out_new(c, 0, t->dtype, 4, shape);
    else
        out_new(c, 0, t->dtype, 3, shape + 1);
}

typedef float _Complex c64_t;
typedef double _Complex c128_t;
#define T float
#define FN(x) x##_f32
#include "col2im.inc"
#define T double
#define FN(x) x##_f64
#include "col2im.inc"
#define T c64_t
#define FN(x) x##_c64
#include "col2im.inc"
#define T c128_t
#define FN(x) x##_c128
#include "col2im.inc"

static void kernel_col2im(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    windows w;
    if (!out->numel || !col2im_windows(c, &w))
        return;
    unfolding u = {&w, out->data, t->data, 0};
    cfx__parallel_fn *fold = t->dtype == CFX_F32   ? fold_planes_f32
                             : t->dtype == CFX_F64 ? fold_planes_f64
                             : t->dtype == CFX_C64 ? fold_planes_c64
                                                   : fold_planes_c128;
    cfx__parallel(w.planes, cfx__grain((double)t->numel / (double)(w.planes + 1)), fold, &u);
}

static void grad_im2col(cfx_back *b) {
    const cfx_tensor *x = back_arg(b, 0);
    back_give(b, 0, cfx_col2im(b->gout[0], cfx_ints_value(2, x->shape + x->ndim - 2), b->args[1],
                               b->args[2], b->args[3], b->args[4]));
}

static void grad_col2im(cfx_back *b) {
    back_give(b, 0, cfx_im2col(b->gout[0], b->args[2], b->args[3], b->args[4], b->args[5]));
}

CFX_OP(im2col) = {"aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, "
                  "int[2] stride) -> Tensor",
                  "torch._C._nn.im2col", .shape = shape_im2col, .kernel = kernel_im2col,
                  .effects = CFX_CONTIGUOUS_ARGS, GRAD(im2col, 0), .core = core_im2col,
                  .out = "out"};
CFX_OP(col2im) = {"aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] "
                  "dilation, int[2] padding, int[2] stride) -> Tensor",
                  "torch._C._nn.col2im",
                  .shape = shape_col2im,
                  .kernel = kernel_col2im,
                  .dtypes = CFX_IN_FLOAT | CFX_IN(C64) | CFX_IN(C128),
                  .effects = CFX_CONTIGUOUS_ARGS, GRAD(col2im, 0), .core = core_col2im,
                  .out = "out"};
