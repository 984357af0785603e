/* Layers in integers made ready: products and convolutions of bytes, with scales, bias, addition,
 * bounds and rounding of the result in one go. */
#include "int8.h"

#include "../dense.h"
#include "../ops.h"

#include <math.h>

typedef struct {
    cfx__ready pub;
    int8_weights *w;    /* of each group */
    int8_lone lone;
    int8_finish finish;
    tile_epilogue posts;
    conv v;             /* products: a point for each row, channels ic and oc */
    uint8_t zero;       /* of the input */
    bool dynamic;
} kernel;

static void kernel_free(void *obj) {
    kernel *k = obj;
    for (int64_t g = 0; k->w && g < k->v.groups; g++)
        int8_weights_free(&k->w[g]);
    cfx__free(k->w);
    int8_lone_free(&k->lone);
    cfx__free(k->finish.scale);
    cfx__free(k->finish.bias);
    cfx__free(k->finish.start);
}

static const cfx__obj_type kernel_type = {.name = "integer kernel", .free = kernel_free};

/* ---- running --------------------------------------------------------------------------------- */

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    const int64_t ic = k->v.ic / k->v.groups, oc = k->v.oc / k->v.groups;
    const int64_t element = k->finish.rounds ? 1 : (int64_t)sizeof(float);
    (void)scratch;
    for (int64_t g = 0; g < k->v.groups && cfx_ok(); g++) {
        int8_finish f = k->finish;
        f.start += g * oc, f.scale += g * oc, f.bias += g * oc;
        int8_work w = {k->v, k->v.ic, k->v.oc, &k->w[g], &f, (const uint8_t *)x + g * ic,
                       (char *)out + g * oc * element, k->zero};
        w.v.ic = ic, w.v.oc = oc;
        int8_run(&w);
    }
    return cfx_ok();
}

static bool run_lone(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    (void)scratch;
    return int8_lone_run(&(int8_lone_work){&k->lone, &k->finish, x, out, k->zero});
}

/* Bytes of a row that is rounded when it comes: whole groups. */
static int64_t depth_of(const kernel *k) { return k->w->groups * INT8_GROUP; }

/* Scratch: the rows as bytes, then their ranges, which give way to what columns begin with and are
 * scaled by. */
static int64_t scratch_of(const kernel *k) {
    const int64_t rows = k->v.out[2], most = rows > k->w->padded ? rows : k->w->padded;
    return rows * depth_of(k) + 2 * most * (int64_t)sizeof(float);
}

static bool run_dynamic(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    const int64_t rows = k->v.out[2], depth = depth_of(k);
    void *behind = (char *)scratch + rows * depth;
    const cfx__rounding in = int8_round(x, rows, k->v.ic, depth, scratch, behind);
    int8_finish f = k->finish;
    f.start = behind;
    f.scale = (float *)behind + k->w->padded;
    for (int64_t j = 0; j < k->w->padded; j++) {
        f.start[j] = -in.zero * k->w->sums[j];
        f.scale[j] = k->finish.scale[j] * in.scale;
    }
    int8_work w = {k->v, depth, k->v.oc, k->w, &f, scratch, out, (uint8_t)in.zero};
    w.v.ic = depth;
    return int8_run(&w);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* An addition first, then bounds, or bounds and anything else. */
static bool read_posts(kernel *k, const cfx__epilogue *e) {
    int8_finish *f = &k->finish;
    if (!tile_epilogue_of(e, &k->posts) || (k->posts.add && k->posts.n))
        return false;
    f->add = k->posts.add;
    f->low = k->posts.bounded ? k->posts.low : -INFINITY;
    f->high = k->posts.bounded ? k->posts.high : INFINITY;
    f->posts = k->posts.n ? &k->posts : NULL;
    return true;
}

/* The same in the units of a result in bytes, where what is added lies already. */
static void in_steps(int8_finish *f, const cfx__integers *q, int64_t n) {
    const float steps = 1 / q->out.scale, zero = (float)q->out.zero;
    f->added = q->add.scale * steps;
    for (int64_t j = 0; j < n; j++) {
        f->scale[j] *= steps;
        f->bias[j] = f->bias[j] * steps + zero - (f->add ? (float)q->add.zero * f->added : 0);
    }
    const float low = f->low * steps + zero, high = f->high * steps + zero;
    f->low = low > 0 ? low < 255 ? low : 255 : 0;
    f->high = high < 255 ? high > 0 ? high : 0 : 255;
}

/* The sum of the weights of column j. */
static int32_t sum_of(const kernel *k, int64_t j) {
    const int64_t columns = k->v.oc / k->v.groups;
    return k->w ? k->w[j / columns].sums[j % columns] : k->lone.sums[j];
}

/* Scales, biases and beginnings of the columns; false where they do not fit. */
static bool read_columns(kernel *k, const cfx__epilogue *e, const cfx_tensor *bias) {
    const cfx__integers *q = e->integers;
    const int64_t n = k->v.oc, padded = n + INT8_COLUMNS;
    int8_finish *f = &k->finish;
    if (q->scales->dtype != CFX_F32 || !cfx__tensor_is_contiguous(q->scales) ||
        (q->scales->numel != n && q->scales->numel != 1) || !read_posts(k, e) ||
        (bias && (bias->dtype != CFX_F32 || bias->numel != n || !bias->data)) ||
        (f->add && !q->rounds) || (q->dynamic && (q->rounds || f->add)))
        return false;
    f->scale = cfx__alloc0((size_t)padded * sizeof *f->scale);
    f->bias = cfx__alloc0((size_t)padded * sizeof *f->bias);
    f->start = cfx__alloc0((size_t)padded * sizeof *f->start);
    for (int64_t j = 0; j < n; j++) {
        const float *s = (const float *)q->scales->data;
        f->scale[j] = s[q->scales->numel == 1 ? 0 : j] * (q->dynamic ? 1 : q->x.scale);
        if (bias)
            f->bias[j] = ((const float *)bias->data)[j];
        f->start[j] = -q->x.zero * sum_of(k, j);
    }
    f->rounds = q->rounds;
    if (f->posts)
        f->steps = 1 / q->out.scale, f->zero = (float)q->out.zero;
    else if (q->rounds)
        in_steps(f, q, n);
    for (int64_t j = 0; j < n; j++)
        if (!isfinite(f->scale[j]))
            return false;
    k->zero = (uint8_t)q->x.zero;
    k->dynamic = q->dynamic;
    return true;
}

/* Weights [oc][ic][taps] of each group, whose rows are taps, then their channels. */
static bool pack_conv(kernel *k, const int8_t *w) {
    conv v = k->v; /* of a group */
    v.ic /= v.groups, v.oc /= v.groups;
    const int64_t taps = v.kernel[1] * v.kernel[2], depth = taps * v.ic;
    int64_t *at = cfx__alloc((size_t)depth * sizeof *at);
    for (int64_t i = 0; i < depth; i++)
        at[i] = i % v.ic * taps + i / v.ic;
    k->w = cfx__alloc0((size_t)v.groups * sizeof *k->w);
    bool fine = true;
    for (int64_t g = 0; g < v.groups && fine; g++) {
        const int8_t *from = w + g * v.oc * depth;
        const int8_matrix m = {int8_runs(&v), int8_run_length(&v), v.oc, from, at, depth};
        fine = int8_pack(&k->w[g], &m);
    }
    cfx__free(at);
    return fine;
}

static cfx__ready *made(kernel *k, bool fine, const char *name) {
    k->pub.name = name;
    k->pub.run = k->lone.weights ? run_lone : k->dynamic ? run_dynamic : run;
    if (fine)
        return &k->pub;
    cfx_drop(k);
    return NULL;
}

cfx__ready *int8_conv_ready(const conv *v, const conv_operands *o, const cfx__epilogue *e) {
    const bool lone = v->groups > 1 && v->groups == v->ic && v->ic == v->oc;
    if (v->dims != 2 || (v->ic / v->groups < INT8_GROUP && v->groups > 1 && !lone) ||
        e->integers->dynamic ||
        o->src->dtype != CFX_U8 || o->weights->dtype != CFX_I8 ||
        !cfx__tensor_is_channels_last(o->src) || !cfx__tensor_is_channels_last(o->dst) ||
        !cfx__tensor_is_contiguous(o->weights) || !o->dst->numel || !o->src->numel ||
        v->kernel[1] * v->kernel[2] > INT8_TAPS ||
        v->kernel[1] * v->kernel[2] * (v->ic / v->groups) > INT8_DEPTH)
        return NULL;
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    const int8_t *w = (const int8_t *)o->weights->data;
    k->v = *v;
    const bool fine = (lone ? int8_lone_pack(&k->lone, v, w) : pack_conv(k, w)) &&
                      read_columns(k, e, o->bias);
    return made(k, fine,
                lone                                ? "int8 depthwise"
                : v->kernel[1] * v->kernel[2] == 1 ? "int8 points"
                                                    : "int8 convolution");
}

cfx__ready *int8_gemm_ready(const cfx_tensor *x, const cfx_tensor *w, bool w_transposed,
                            const cfx_tensor *bias, const cfx_tensor *out, const cfx__epilogue *e) {
    const cfx_dtype in = e->integers->dynamic ? CFX_F32 : CFX_U8;
    const int64_t k_size = x->ndim ? x->shape[x->ndim - 1] : 0;
    if (x->dtype != in || w->dtype != CFX_I8 || w->ndim != 2 || !k_size || !x->numel ||
        k_size > INT8_DEPTH ||
        !cfx__tensor_is_contiguous(x) || !cfx__tensor_is_contiguous(out) ||
        !cfx__tensor_is_contiguous(w))
        return NULL;
    const int64_t n = w->shape[w_transposed ? 0 : 1], rows = x->numel / k_size;
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->v = (conv){.dims = 2, .batch = 1, .groups = 1, .ic = k_size, .oc = n,
                  .in = {1, 1, rows}, .out = {1, 1, rows}, .kernel = {1, 1, 1},
                  .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    int64_t *at = cfx__alloc((size_t)k_size * sizeof *at);
    for (int64_t i = 0; i < k_size; i++)
        at[i] = w_transposed ? i : i * n;
    const int8_matrix m = {1, k_size, n, (const int8_t *)w->data, at, w_transposed ? k_size : 1};
    k->w = cfx__alloc0(sizeof *k->w);
    const bool fine = int8_pack(k->w, &m) && read_columns(k, e, bias);
    cfx__free(at);
    if (k->dynamic)
        k->pub.scratch = scratch_of(k);
    return made(k, fine, k->dynamic ? "int8 product, rounding" : "int8 product");
}
