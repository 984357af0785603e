/* Products and convolutions on the tensor cores: which tile, and how many blocks share a tile. */
#include "kernel.h"

/* Of a tile: its size, that of a warp, slabs under way; cycles of a slab where a block has a
 * multiprocessor for itself and where several share one, of float32 and of others (on an H200). */
typedef struct tile {
    int bm, bn, wm, wn, stages;
    int alone[2], busy[2];
} tile;

static const tile tiles[] = {
    {16, 64, 16, 16, 4, {900, 540}, {500, 420}},
    {32, 64, 16, 16, 4, {780, 620}, {720, 600}},
    {64, 32, 16, 16, 4, {850, 620}, {720, 600}},
    {64, 64, 32, 16, 4, {1150, 850}, {1150, 750}},
    {128, 64, 32, 32, 3, {2590, 1500}, {2220, 1050}},
    {128, 128, 64, 32, 3, {4160, 2800}, {3900, 1800}},
};

/* What is to be multiplied. */
typedef struct sizes {
    int64_t z, m, n, k;
    int64_t ldx, ldw, ldadd, ldout, zx, zw, zbias, zadd, zout;
    int64_t image[16]; /* of a convolution, as the kernel is given it */
    bool conv, vector;
} sizes;

/* Blocks that share a tile, at most; of those a cluster has, on any card with clusters. */
enum { SPLITS = 16, CLUSTER = 8 };

static int64_t blocks_of(const tile *t, const sizes *s) {
    return cfx__cuda_up(s->m, t->bm) * cfx__cuda_up(s->n, t->bn) * s->z;
}

/* Cycles until the last block is done, roughly: up to three blocks of a multiprocessor wait for
 * memory by turns, all wait for the tensor cores; each has to begin, and sums that blocks share
 * have to be read by another, far more slowly through memory. */
static double cycles(const tile *t, const sizes *s, int64_t splits, bool exact, int64_t wide) {
    const double slabs = (double)cfx__cuda_up(cfx__cuda_up(s->k, 128 / wide), splits);
    const double each = (double)cfx__cuda_up(blocks_of(t, s) * splits, CFX__CUDA_SMS);
    const double shared = splits == 1 ? 0 : t->bm * t->bn / 16.0 * (splits > CLUSTER ? 4 : 1);
    const double waits =
        (double)cfx__cuda_up((int64_t)each, 3) * (slabs * t->alone[!exact] + 1500 + shared);
    const double works = each * (slabs * t->busy[!exact] + 300 + shared);
    return (waits > works ? waits : works) +
           (splits == 1 ? 0 : splits <= CLUSTER ? 300 + 60.0 * (double)splits : 6500);
}

static const tile *choose(const sizes *s, bool exact, int64_t wide, int64_t *splits) {
    const tile *best = NULL;
    double least = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (int64_t n = 1; n <= SPLITS && n <= cfx__cuda_up(s->k, 128 / wide); n *= 2) {
            const tile *t = &tiles[i];
            if (n > 1 && blocks_of(t, s) > CFX__CUDA_COUNTED)
                break;
            const double c = cycles(t, s, n, exact, wide);
            if (!best || c < least)
                best = t, least = c, *splits = n;
        }
    return best;
}

static bool aligned(int64_t elements, int64_t wide) { return elements * wide % 16 == 0; }

static bool launch(const sizes *s, const cfx__cuda_array *x, const cfx__cuda_array *w,
                   const cfx__cuda_after *after, const cfx__cuda_array *out,
                   cfx__cuda_precision precision, cfx__cuda_work *work) {
    const int64_t wide = (int64_t)cfx_dtype_size(x->dtype);
    const char *type = cfx__cuda_element(x->dtype, precision);
    if (!type || s->k > INT32_MAX || s->m > INT32_MAX || s->n > 32 * 65535)
        return false;
    int64_t splits = 1;
    const tile *t = choose(s, x->dtype == CFX_F32 && precision == CFX__CUDA_EXACT, wide, &splits);
    if (s->z * splits > 65535)
        splits = 1;
    cfx__cuda_launch *l =
        s->z > 65535 ? NULL : cfx__cuda_launch_add(work, cfx__cuda_text("product"), "product");
    if (!l)
        return false;
    const int64_t cluster = splits <= CLUSTER ? splits : 1;
    l->defines = cfx__text_format(
        "%s#define BM %d\n#define BN %d\n#define WM %d\n#define WN %d\n#define STAGES %d\n"
        "#define CONV %d\n#define VECTOR %d\n#define CLUSTER %d\n#define POST(v) %s\n",
        type, t->bm, t->bn, t->wm, t->wn, t->stages, s->conv, s->vector, (int)cluster,
        after && after->post ? after->post : "");
    l->grid[0] = (unsigned)cfx__cuda_up(s->m, t->bm);
    l->grid[1] = (unsigned)cfx__cuda_up(s->n, t->bn);
    l->grid[2] = (unsigned)(s->z * splits);
    l->cluster = (unsigned)(cluster > 1 ? cluster : 0);
    l->block[0] = (unsigned)(t->bm / t->wm * (t->bn / t->wn) * 32);
    l->shared = (unsigned)((t->bm + t->bn) * 128 * t->stages);
    cfx__cuda_pass_array(l, x), cfx__cuda_pass_array(l, w);
    cfx__cuda_pass_optional(l, after ? &after->bias : NULL);
    cfx__cuda_pass_optional(l, after ? &after->add : NULL);
    cfx__cuda_pass_array(l, out);
    cfx__cuda_pass_place(l, CFX__CUDA_SCRATCH), cfx__cuda_pass_place(l, CFX__CUDA_COUNTERS);
    const int64_t numbers[] = {s->m,     s->n,  s->k,  s->ldx,   s->ldw,  s->ldadd, s->ldout,
                               s->zx,    s->zw, s->zbias, s->zadd, s->zout, splits};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    for (int i = 0; i < 16; i++)
        cfx__cuda_pass_integer(l, s->image[i]);
    if (splits > 1)
        cfx__cuda_need(work, (int64_t)l->grid[0] * l->grid[1] * l->grid[2] * t->bm * t->bn *
                                 (int64_t)sizeof(float));
    return true;
}

/* The size and stride of a dimension, counted from the last; 1 and 0 where there is none. */
static int64_t size_of(const cfx__cuda_array *a, int back) {
    return back < a->ndim ? a->shape[a->ndim - 1 - back] : 1;
}
static int64_t stride_of(const cfx__cuda_array *a, int back) {
    return back < a->ndim && size_of(a, back) != 1 ? a->stride[a->ndim - 1 - back] : 0;
}

static bool is_row(const cfx__cuda_array *a) {
    return a->ndim <= 3 && (size_of(a, 0) == 1 || stride_of(a, 0) == 1);
}

bool cfx__cuda_product(const cfx__cuda_array *x, const cfx__cuda_array *w,
                       const cfx__cuda_after *after, const cfx__cuda_array *out,
                       cfx__cuda_precision precision, cfx__cuda_work *work) {
    sizes s = {.z = size_of(out, 2), .m = size_of(out, 1), .n = size_of(out, 0),
               .k = size_of(x, 0)};
    if (!is_row(x) || !is_row(w) || !is_row(out) || s.m == 0 || s.n == 0 || s.z == 0 ||
        size_of(w, 0) != s.k || size_of(w, 1) != s.n || size_of(x, 1) != s.m ||
        w->dtype != x->dtype || out->dtype != x->dtype)
        return false;
    s.ldx = stride_of(x, 1), s.ldw = stride_of(w, 1), s.ldout = stride_of(out, 1);
    s.zx = stride_of(x, 2), s.zw = stride_of(w, 2), s.zout = stride_of(out, 2);
    if (after && after->add.operand >= 0) {
        if (!is_row(&after->add) || after->add.dtype != x->dtype)
            return false;
        s.ldadd = stride_of(&after->add, 1), s.zadd = stride_of(&after->add, 2);
    }
    const int64_t wide = (int64_t)cfx_dtype_size(x->dtype);
    s.vector = aligned(s.k, wide) && aligned(s.ldx, wide) && aligned(s.ldw, wide) &&
               aligned(s.zx, wide) && aligned(s.zw, wide) && x->at % 16 == 0 && w->at % 16 == 0;
    return launch(&s, x, w, after, out, precision, work);
}

/* Whether channels lie beside each other, and windows as rows of them can be counted through. */
static bool channels_last(const cfx__cuda_array *a, bool whole) {
    const int64_t *n = a->shape, *s = a->stride;
    if (a->ndim != 4 || (n[1] != 1 && s[1] != 1))
        return false;
    return !whole || ((n[3] == 1 || s[3] >= n[1]) && (n[2] == 1 || s[2] == n[3] * s[3]) &&
                      (n[0] == 1 || s[0] == n[2] * s[2]));
}

/* How far pixels are apart, where all are evenly. */
static int64_t pixel_of(const cfx__cuda_array *a) {
    return a->shape[3] > 1   ? a->stride[3]
           : a->shape[2] > 1 ? a->stride[2]
           : a->shape[0] > 1 ? a->stride[0]
                             : 0;
}

/* Whether each pixel of the result is made of one of the image. */
static bool is_point(const cfx__cuda_window *w, int64_t taps) {
    return taps == 1 && w->stride[0] == 1 && w->stride[1] == 1 && w->padding[0] == 0 &&
           w->padding[1] == 0;
}

/* Whether windows lie in a row one behind the other, as those of patches: then the pixels of one
 * that are beside each other are a pixel of so many more channels, in the same memory. */
static bool are_patches(const cfx__cuda_array *x, const cfx__cuda_window *w, int64_t c,
                        int64_t wide) {
    return wide > 1 && w->groups == 1 && w->stride[1] == wide && w->dilation[1] == 1 &&
           w->padding[1] == 0 && x->stride[3] == c;
}

bool cfx__cuda_conv(const cfx__cuda_array *x, const cfx__cuda_array *w,
                    const cfx__cuda_window *window, const cfx__cuda_after *after,
                    const cfx__cuda_array *out, cfx__cuda_precision precision,
                    cfx__cuda_work *work) {
    if (!channels_last(x, false) || !channels_last(w, false) || !channels_last(out, true) ||
        w->dtype != x->dtype || out->dtype != x->dtype || !cfx__cuda_window_fits(window))
        return false;
    const int64_t groups = window->groups, c = w->shape[1], o = w->shape[0] / groups;
    const int64_t high = w->shape[2], wide = w->shape[3], size = (int64_t)cfx_dtype_size(x->dtype);
    /* The weight as rows of taps of channels. */
    if ((wide > 1 && w->stride[3] != c) || (high > 1 && w->stride[2] != wide * c) ||
        (w->shape[0] > 1 && w->stride[0] != high * wide * c) || o == 0 || c == 0 ||
        out->shape[0] * out->shape[2] * out->shape[3] == 0 ||
        x->shape[2] > 1 << 24 || x->shape[3] > 1 << 24 || high * wide > 1 << 15)
        return false;
    sizes s = {.z = groups, .m = out->shape[0] * out->shape[2] * out->shape[3], .n = o,
               .k = high * wide * c, .ldw = high * wide * c, .ldout = pixel_of(out), .zx = c,
               .zw = o * high * wide * c, .zbias = o, .zout = o, .conv = true};
    if (after && after->add.operand >= 0) {
        const cfx__cuda_array *a = &after->add;
        if (!channels_last(a, true) || a->dtype != x->dtype || a->shape[0] != out->shape[0] ||
            a->shape[1] != out->shape[1] || a->shape[2] != out->shape[2] ||
            a->shape[3] != out->shape[3])
            return false;
        s.ldadd = pixel_of(a);
        s.zadd = o;
    }
    const int64_t by = are_patches(x, window, c, wide) ? wide : 1;
    const int64_t image[16] = {x->shape[2], x->shape[3] / by, c * by, x->stride[0], x->stride[2],
                               x->stride[3] * by, high, wide / by, out->shape[2], out->shape[3],
                               window->stride[0], window->stride[1] / by, window->padding[0],
                               window->padding[1], window->dilation[0], window->dilation[1]};
    memcpy(s.image, image, sizeof image);
    s.vector = aligned(c * by, size) && aligned(x->stride[0], size) &&
               aligned(x->stride[2], size) && aligned(x->stride[3] * by, size) &&
               x->at % 16 == 0 && w->at % 16 == 0;
    if (is_point(window, high * wide) && channels_last(x, true)) /* pixels are rows */
        s.conv = false, s.ldx = pixel_of(x);
    return launch(&s, x, w, after, out, precision, work);
}
