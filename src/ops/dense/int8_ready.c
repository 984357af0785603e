/* Layers in integers made ready: products and convolutions of bytes, with scales, bias, addition,
 * bounds and rounding of the result in one go. */
#include "int8.h"

#include "../../tensor/packed.h"
#include "../dense.h"
#include "../ops.h"

#include <math.h>

typedef struct {
    cfx__ready pub;
    cfx__packed *packed; /* counted: the memory of the weights, which other kernels share */
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
    cfx_drop(k->packed);
    cfx__free(k->w);
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
static bool takes_posts(const cfx__epilogue *e, tile_epilogue *to) {
    return tile_epilogue_of(e, to) && !(to->add && to->n);
}

static void read_posts(kernel *k, const cfx__epilogue *e) {
    int8_finish *f = &k->finish;
    takes_posts(e, &k->posts);
    f->add = k->posts.add;
    f->low = k->posts.bounded ? k->posts.low : -INFINITY;
    f->high = k->posts.bounded ? k->posts.high : INFINITY;
    f->posts = k->posts.n ? &k->posts : NULL;
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

/* What column j of n is scaled by, before that of the result. */
static float scale_of(const cfx__integers *q, int64_t j) {
    const float *s = (const float *)q->scales->data;
    return s[q->scales->numel == 1 ? 0 : j] * (q->dynamic ? 1 : q->x.scale);
}

/* Whether the scales, the bias and the posts of n columns fit together. */
static bool takes_columns(const cfx__epilogue *e, const cfx_tensor *bias, int64_t n) {
    const cfx__integers *q = e->integers;
    tile_epilogue posts;
    if (q->scales->dtype != CFX_F32 || !cfx__tensor_is_contiguous(q->scales) ||
        (q->scales->numel != n && q->scales->numel != 1) || !takes_posts(e, &posts) ||
        (bias && (bias->dtype != CFX_F32 || bias->numel != n || !bias->data)) ||
        (posts.add && !q->rounds) || (q->dynamic && (q->rounds || posts.add)))
        return false;
    for (int64_t j = 0; j < q->scales->numel; j++)
        if (!isfinite(scale_of(q, j) * (q->rounds && !posts.n ? 1 / q->out.scale : 1)))
            return false;
    return true;
}

/* Scales, biases and beginnings of the columns. */
static void read_columns(kernel *k, const cfx__epilogue *e, const cfx_tensor *bias) {
    const cfx__integers *q = e->integers;
    const int64_t n = k->v.oc, padded = n + INT8_COLUMNS;
    int8_finish *f = &k->finish;
    read_posts(k, e);
    f->scale = cfx__alloc0((size_t)padded * sizeof *f->scale);
    f->bias = cfx__alloc0((size_t)padded * sizeof *f->bias);
    f->start = cfx__alloc0((size_t)padded * sizeof *f->start);
    for (int64_t j = 0; j < n; j++) {
        f->scale[j] = scale_of(q, j);
        if (bias)
            f->bias[j] = ((const float *)bias->data)[j];
        f->start[j] = -q->x.zero * sum_of(k, j);
    }
    f->rounds = q->rounds;
    if (f->posts)
        f->steps = 1 / q->out.scale, f->zero = (float)q->out.zero;
    else if (q->rounds)
        in_steps(f, q, n);
    k->zero = (uint8_t)q->x.zero;
    k->dynamic = q->dynamic;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Weights that are to be packed: one channel a group, or matrices one after the other. */
typedef struct {
    const cfx_tensor *w;
    const conv *lone;  /* NULL: matrices */
    int8_matrix first; /* that of the first group, and */
    int64_t groups, apart; /* elements to the next */
    uint64_t key;
    size_t size;
} packing;

static int8_matrix matrix_of(const packing *p, int64_t g) {
    int8_matrix m = p->first;
    m.w += g * p->apart;
    return m;
}

static int8_weights weights_of(const packing *p, int64_t g, void *memory) {
    const size_t each = int8_weights_size(&p->first);
    return int8_weights_in(&p->first, (char *)memory + (size_t)g * each);
}

static cfx__packed *make_packed(void *user) {
    const packing *p = user;
    cfx__packed *form = cfx__packed_new(p->w->storage, p->key, p->size);
    if (form && p->lone) {
        const int8_lone to = int8_lone_in(p->lone, form->data);
        int8_lone_pack(&to, (const int8_t *)p->w->data);
    }
    for (int64_t g = 0; form && !p->lone && g < p->groups; g++) {
        const int8_matrix m = matrix_of(p, g);
        const int8_weights to = weights_of(p, g, form->data);
        int8_pack(&to, &m);
    }
    return form;
}

/* Packs the weights, or finds them packed, with their storage. False, with an error, without
 * memory. */
static bool find_packed(kernel *k, packing *p, const int64_t *facts, int n) {
    p->key = cfx__packed_key(p->lone ? "int8 of channels" : "int8", n, facts);
    p->size = p->lone ? int8_lone_size(p->lone) : (size_t)p->groups * int8_weights_size(&p->first);
    k->packed = cfx__packed_get(p->w->storage, p->key, p->size, make_packed, p);
    if (!k->packed)
        return false;
    if (p->lone) {
        k->lone = int8_lone_in(p->lone, k->packed->data);
        return true;
    }
    k->w = cfx__alloc((size_t)p->groups * sizeof *k->w);
    for (int64_t g = 0; g < p->groups; g++)
        k->w[g] = weights_of(p, g, k->packed->data);
    return true;
}

/* Weights [oc][ic][taps] of each group, whose rows are taps, then their channels. */
static bool pack_conv(kernel *k, const cfx_tensor *w, bool lone) {
    conv v = k->v; /* of a group */
    v.ic /= v.groups, v.oc /= v.groups;
    const int64_t taps = v.kernel[1] * v.kernel[2], depth = taps * v.ic;
    const int64_t facts[] = {v.groups, v.ic, v.oc, v.kernel[1], v.kernel[2], w->offset};
    int64_t *at = cfx__alloc((size_t)depth * sizeof *at);
    for (int64_t i = 0; i < depth; i++)
        at[i] = i % v.ic * taps + i / v.ic;
    packing p = {.w = w, .lone = lone ? &k->v : NULL, .groups = v.groups, .apart = v.oc * depth};
    p.first = (int8_matrix){int8_runs(&v), int8_run_length(&v), v.oc, (const int8_t *)w->data, at,
                            depth};
    const bool fine = find_packed(k, &p, facts, COUNT(facts));
    cfx__free(at);
    return fine;
}

/* The kernel when its weights are packed; NULL, with an error, where there was no memory. */
static cfx__ready *made(kernel *k, bool packed, const cfx__epilogue *e, const cfx_tensor *bias) {
    if (!packed) {
        cfx_drop(k);
        return NULL;
    }
    read_columns(k, e, bias);
    k->pub.run = k->lone.weights ? run_lone : k->dynamic ? run_dynamic : run;
    k->pub.scratch = k->dynamic ? scratch_of(k) : 0;
    return &k->pub;
}

static bool is_lone(const conv *v) {
    return v->groups > 1 && v->groups == v->ic && v->ic == v->oc;
}

bool int8_conv_takes(const conv *v, const conv_operands *o, const cfx__epilogue *e) {
    const int64_t taps = v->kernel[1] * v->kernel[2], ic = v->ic / v->groups;
    return v->dims == 2 && (ic >= INT8_GROUP || v->groups == 1 || is_lone(v)) &&
           !e->integers->dynamic && o->src->dtype == CFX_U8 && o->weights->dtype == CFX_I8 &&
           cfx__tensor_is_channels_last(o->src) && cfx__tensor_is_channels_last(o->dst) &&
           cfx__tensor_is_contiguous(o->weights) && o->dst->numel && o->src->numel &&
           taps <= INT8_TAPS && taps * ic <= INT8_DEPTH && takes_columns(e, o->bias, v->oc);
}

cfx__ready *int8_conv_ready(const conv *v, const conv_operands *o, const cfx__epilogue *e) {
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->v = *v;
    k->pub.name = is_lone(v)                          ? "int8 depthwise"
                  : v->kernel[1] * v->kernel[2] == 1 ? "int8 points"
                                                      : "int8 convolution";
    return made(k, pack_conv(k, o->weights, is_lone(v)), e, o->bias);
}

bool int8_gemm_takes(const product_layer *l, const cfx__epilogue *e) {
    const cfx_tensor *x = l->x, *w = l->w;
    const int64_t depth = x->ndim ? x->shape[x->ndim - 1] : 0;
    return x->dtype == (e->integers->dynamic ? CFX_F32 : CFX_U8) && w->dtype == CFX_I8 &&
           w->ndim == 2 && depth && x->numel && depth <= INT8_DEPTH &&
           cfx__tensor_is_contiguous(x) && cfx__tensor_is_contiguous(l->out) &&
           cfx__tensor_is_contiguous(w) &&
           takes_columns(e, l->bias, w->shape[l->w_transposed ? 0 : 1]);
}

cfx__ready *int8_gemm_ready(const product_layer *l, const cfx__epilogue *e) {
    const cfx_tensor *x = l->x, *w = l->w;
    const int64_t depth = x->shape[x->ndim - 1], rows = x->numel / depth;
    const int64_t n = w->shape[l->w_transposed ? 0 : 1];
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->v = (conv){.dims = 2, .batch = 1, .groups = 1, .ic = depth, .oc = n,
                  .in = {1, 1, rows}, .out = {1, 1, rows}, .kernel = {1, 1, 1},
                  .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    int64_t *at = cfx__alloc((size_t)depth * sizeof *at);
    for (int64_t i = 0; i < depth; i++)
        at[i] = l->w_transposed ? i : i * n;
    const int64_t facts[] = {depth, n, l->w_transposed, w->offset};
    packing p = {.w = w, .groups = 1};
    p.first = (int8_matrix){1, depth, n, (const int8_t *)w->data, at, l->w_transposed ? depth : 1};
    const bool packed = find_packed(k, &p, facts, COUNT(facts));
    cfx__free(at);
    k->pub.name = e->integers->dynamic ? "int8 product, rounding" : "int8 product";
    return made(k, packed, e, l->bias);
}
