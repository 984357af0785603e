/* Convolutions by our own kernels: made ready for a plan, and called once. */
#include "conv_tile.h"
#include "transpose.h"

#include "../../tensor/packed.h"
#include "../ops.h"

/* ---- weights --------------------------------------------------------------------------------- */

/* What weights become: of the members of conv_tiles, those that say it. */
typedef struct {
    bf16_way way;
    int patch;
    cfx_precision kept;
} conv_form;

/* The form for a layer whose src lies channels last, or as planes. Where convolutions multiply in
 * bf16, those that do not keep all of their weights: reading half of it is no gain to them. */
static conv_form form_of(const conv *v, bool last) {
    conv_form f = {.kept = tile_precision()};
    if (f.kept == CFX_PRECISION_BF16 && bf16_has(BF16_DOTS)) {
        f.way = conv_bf16_way(v);
        f.kept = f.way ? f.kept : CFX_PRECISION_F32;
    }
    f.patch = last && f.kept == CFX_PRECISION_F32 ? conv_winograd_patch(v) : 0;
    return f;
}

/* A key for the form of these weights: all that it depends on. */
static uint64_t key_of(const conv *v, const cfx_tensor *w, const conv_form *f) {
    const int64_t facts[] = {v->groups,    v->ic,    v->oc,   v->kernel[1],
                             v->kernel[2], f->patch, f->kept, w->offset};
    return cfx__packed_key(f->way ? "convolution in pairs" : "convolution", COUNT(facts), facts);
}

/* [channels][taps] -> [taps][channels] */
static void pack_channels(const conv *v, const float *w, float *to) {
    const int64_t taps = v->kernel[1] * v->kernel[2];
    for (int64_t i = 0; i < taps; i++)
        for (int64_t c = 0; c < v->ic; c++)
            to[i * v->ic + c] = w[c * taps + i];
}

/* Weights and what they are to become. */
typedef struct {
    const conv *conv;
    const cfx_tensor *w;
    conv_form form;
    uint64_t key;
    size_t size;
} packing;

static cfx__packed *make_packed(void *user) {
    const packing *p = user;
    cfx__packed *form = cfx__packed_new(p->w->storage, p->key, p->size);
    if (!form)
        return NULL;
    if (conv_channels_takes(p->conv))
        pack_channels(p->conv, (const float *)p->w->data, form->data);
    else if (p->form.way)
        conv_bf16_pack(p->conv, (const float *)p->w->data, form->data);
    else if (p->form.patch)
        conv_winograd_pack(p->conv, (const float *)p->w->data, p->form.patch, form->data);
    else
        conv_tile_pack(p->conv, (const float *)p->w->data, p->form.kept, form->data);
    return form;
}

/* The weights in the form of the kernels, kept with their storage; the caller owns a count. NULL
 * when there is no memory. */
static cfx__packed *packed_weights(const conv *v, const cfx_tensor *w, conv_form f) {
    packing p = {v, w, f, key_of(v, w, &f),
                 conv_channels_takes(v) ? (size_t)w->numel * sizeof(float)
                 : f.way                ? conv_bf16_size(v)
                 : f.patch              ? conv_winograd_weights(v, f.patch)
                                        : conv_tile_size(v, f.kept)};
    return cfx__packed_get(w->storage, p.key, p.size, make_packed, &p);
}

/* The bias, each group's in whole panels. */
static float *padded_bias(const conv *v, const cfx_tensor *bias) {
    if (!bias)
        return NULL;
    const bool single = conv_channels_takes(v);
    const int64_t groups = single ? 1 : v->groups, n = v->oc / groups;
    const int64_t columns = single ? n : conv_tile_columns(v);
    float *to = cfx__alloc0((size_t)(groups * columns) * sizeof *to);
    for (int64_t g = 0; g < groups; g++)
        memcpy(to + g * columns, (const float *)bias->data + g * n, (size_t)n * sizeof *to);
    return to;
}

static void run_tiles(const conv_tiles *t, const float *src, float *dst) {
    if (conv_channels_takes(&t->v))
        conv_channels_run(t, src, dst);
    else if (t->way)
        conv_bf16_run(t, src, dst);
    else if (t->patch)
        conv_winograd_run(t, src, dst);
    else
        conv_tile_run(t, src, dst);
}

/* ---- ready kernels --------------------------------------------------------------------------- */

typedef struct {
    cfx__ready pub;
    conv_tiles tiles;
    cfx__packed *packed; /* counted */
    float *bias;
} kernel;

static void kernel_free(void *obj) {
    kernel *k = obj;
    cfx_drop(k->packed);
    cfx__free(k->bias);
}

static const cfx__obj_type kernel_type = {.name = "ready kernel", .free = kernel_free};

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    (void)scratch;
    run_tiles(&k->tiles, x, out);
    return cfx_ok();
}

/* ---- two in one ------------------------------------------------------------------------------ */

typedef struct {
    cfx__ready pub;
    const kernel *first, *second; /* counted */
} pair;

static void pair_free(void *obj) {
    pair *p = obj;
    cfx_drop((kernel *)p->first);
    cfx_drop((kernel *)p->second);
}

static const cfx__obj_type pair_type = {.name = "ready kernel", .free = pair_free};

static bool run_pair(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const pair *p = (const pair *)r;
    (void)scratch;
    conv_pair_run(&p->first->tiles, &p->second->tiles, x, out);
    return cfx_ok();
}

static cfx__ready *behind(const cfx__ready *first, const cfx__ready *second) {
    const kernel *a = (const kernel *)first, *b = (const kernel *)second;
    if (first->run != run || !conv_pair_takes(&a->tiles, &b->tiles))
        return NULL;
    pair *p = cfx__obj_make(&pair_type, sizeof *p);
    p->first = cfx_keep((kernel *)a);
    p->second = cfx_keep((kernel *)b);
    p->pub.name = "convolution in tiles, of channels";
    p->pub.run = run_pair;
    return &p->pub;
}

bool conv_takes(const conv *v, const conv_operands *o, const cfx__epilogue *e) {
    const bool single = conv_channels_takes(v);
    tile_epilogue epilogue;
    if (v->dims != 2 || o->src->ndim != 4 || (!single && !conv_tile_takes(v)) ||
        !tile_epilogue_of(e, &epilogue) || (single && epilogue.add))
        return false;
    const int64_t row = cfx__tensor_channels_row(o->dst);
    return row && (!single || row == v->oc) &&
           (cfx__tensor_is_channels_last(o->src) ||
            (!single && cfx__tensor_is_contiguous(o->src)));
}

cfx__ready *conv_ready(const conv *v, const conv_operands *o, const cfx__epilogue *e) {
    const bool single = conv_channels_takes(v), last = cfx__tensor_is_channels_last(o->src);
    const conv_form f = form_of(v, last);
    cfx__packed *packed = packed_weights(v, o->weights, f);
    if (!packed)
        return NULL;
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->packed = packed;
    k->bias = padded_bias(v, o->bias);
    k->tiles = (conv_tiles){.v = *v,
                            .src_last = last,
                            .way = f.way,
                            .patch = f.patch,
                            .kept = f.kept,
                            .weights = packed->data,
                            .bias = k->bias,
                            .dst_row = cfx__tensor_channels_row(o->dst)};
    tile_epilogue_of(e, &k->tiles.epilogue);
    k->pub.name = single    ? "convolution of channels"
                  : f.way   ? "convolution in tiles of bf16"
                  : f.patch ? "convolution after Winograd"
                            : "convolution in tiles";
    k->pub.run = run;
    k->pub.behind = single ? behind : NULL;
    return &k->pub;
}

/* ---- a single call --------------------------------------------------------------------------- */

/* Images as planes to channels last, or back. */
static void turn(const conv *v, int64_t channels, const int64_t *size, const float *from, float *to,
                 bool back) {
    const int64_t points = size[1] * size[2], each = channels * points;
    for (int64_t i = 0; i < v->batch; i++)
        if (back)
            transpose_f32(points, channels, from + i * each, channels, to + i * each, points);
        else
            transpose_f32(channels, points, from + i * each, points, to + i * each, channels);
}

bool conv_tiled(cfx_op_call *c, const conv *v, const conv_operands *o) {
    const bool single = conv_channels_takes(v);
    if (o->what != CONV_DST || (!single && !conv_tile_takes(v)) || v->dims == 3)
        return false;
    const bool last = !cfx__tensor_is_contiguous(o->dst) || !cfx__tensor_is_contiguous(o->src);
    conv_tiles t = {.v = *v, .src_last = true};
    const float *src = (const float *)o->src->data;
    float *dst = (float *)o->dst->data;
    if (!last) {
        float *turned = scratch(c, CFX_F32, v->batch * v->ic * v->in[1] * v->in[2]);
        dst = scratch(c, CFX_F32, v->batch * v->oc * v->out[1] * v->out[2]);
        if (op_failed())
            return false;
        turn(v, v->ic, v->in, src, turned, false);
        src = turned;
    }
    cfx__packed *packed = packed_weights(v, o->weights, (conv_form){.kept = CFX_PRECISION_F32});
    if (!packed)
        return false;
    float *bias = padded_bias(v, o->bias);
    t.weights = packed->data;
    t.bias = bias;
    run_tiles(&t, src, dst);
    cfx__free(bias);
    cfx_drop(packed);
    if (!last && !op_failed())
        turn(v, v->oc, v->out, dst, (float *)o->dst->data, true);
    return true;
}
