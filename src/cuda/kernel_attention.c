/* Attention: how many rows and keys a block has, and how many blocks share the keys. */
#include "kernel.h"

/* Rows and keys of a block's warps, keys of a tile, tiles under way, blocks that share the keys of
 * a row. */
typedef struct shares {
    int64_t wq, wk, keys, stages, splits, d, shared;
} shares;

enum { SPLITS = 32, FEW = 8, AT_ONCE = 4, CLUSTER = 8 };

static int64_t shared_bytes(const shares *s, int64_t wide) {
    const int64_t pitch = s->d * wide + 16, rows = 16 * s->wq;
    const int64_t tiles = rows * pitch + 2 * s->stages * s->wk * s->keys * pitch;
    /* What warps leave, or blocks did, and the share of each. */
    const int64_t left = s->wk * rows * (s->d + 2 + 1) * (int64_t)sizeof(float);
    const int64_t parts = SPLITS * rows * (int64_t)sizeof(float);
    const int64_t more = left > parts ? left : parts;
    return tiles > more ? tiles : more;
}

/* With few rows the warps of a block share the keys, and blocks do where the keys are many. */
static shares share(int64_t rows, int64_t heads, int64_t keys, int64_t d, int64_t wide) {
    shares s = {.wq = 1, .wk = 4, .keys = 32, .stages = 1, .splits = 1, .d = d};
    if (cfx__cuda_up(rows, 64) * heads >= CFX__CUDA_SMS) {
        s.wq = 4, s.wk = 1, s.keys = d * wide <= 256 ? 64 : 32, s.stages = wide == 2 ? 2 : 1;
        for (int64_t wq = 5; wq <= 8 && d * wide <= 128; wq++) /* warps without rows are few */
            if (cfx__cuda_up(rows, 16 * wq) * wq < cfx__cuda_up(rows, 16 * s.wq) * s.wq &&
                cfx__cuda_up(rows, 16 * wq) * heads >= 2 * CFX__CUDA_SMS)
                s.wq = wq;
    } else if (cfx__cuda_up(rows, 32) * heads >= CFX__CUDA_SMS) {
        s.wq = 2, s.wk = 2;
    }
    while (s.wk > 1 && (s.shared = shared_bytes(&s, wide)) > CFX__CUDA_SHARED)
        s.wk /= 2;
    s.shared = shared_bytes(&s, wide);
    const int64_t blocks = cfx__cuda_up(rows, 16 * s.wq) * heads;
    const int64_t steps = cfx__cuda_up(keys, s.wk * s.keys);
    if (blocks < CFX__CUDA_SMS && steps > 1)
        s.splits = 2 * CFX__CUDA_SMS / blocks;
    s.splits = s.splits > steps ? steps : s.splits > SPLITS ? SPLITS : s.splits;
    return s;
}

static bool rows_lie(const cfx__cuda_array *a, cfx_dtype dtype) {
    return a->ndim == 4 && a->dtype == dtype && (a->shape[3] == 1 || a->stride[3] == 1);
}

static bool rows_align(const cfx__cuda_array *a) {
    const int64_t wide = (int64_t)cfx_dtype_size(a->dtype);
    bool held = a->at % 16 == 0 && a->shape[3] * wide % 16 == 0;
    for (int i = 0; i < 3; i++)
        held &= a->shape[i] == 1 || a->stride[i] * wide % 16 == 0;
    return held;
}

/* Whether rows are whole pairs of elements, each aligned as one. */
static bool rows_pair(const cfx__cuda_array *a) {
    bool held = a->at % (2 * (int64_t)cfx_dtype_size(a->dtype)) == 0 && a->shape[3] % 2 == 0;
    for (int i = 0; i < 3; i++)
        held &= a->shape[i] == 1 || a->stride[i] % 2 == 0;
    return held;
}

static int mask_kind(const cfx__cuda_attention_call *c) {
    return c->mask.operand < 0            ? 0
           : c->mask.dtype == CFX_BOOL    ? 1
           : c->mask.dtype == c->q.dtype  ? 2
           : c->mask.dtype == CFX_F32     ? 3
                                          : -1;
}

/* Whether the rows that share keys are few, and keys and values lie in whole 16 bytes; these may
 * be float32 where q is not. */
static bool are_few(const cfx__cuda_attention_call *c) {
    return c->k.shape[1] > 0 && c->q.shape[1] / c->k.shape[1] * c->q.shape[2] <= FEW &&
           c->lse.operand < 0 && c->q.shape[3] == c->v.shape[3] && rows_align(&c->k) &&
           rows_align(&c->v);
}

static bool takes(const cfx__cuda_attention_call *c) {
    const cfx__cuda_array *q = &c->q, *k = &c->k, *v = &c->v, *out = &c->out;
    const cfx_dtype dtype = q->dtype, of = k->dtype;
    if (!rows_lie(q, dtype) || !rows_lie(k, of) || !rows_lie(v, of) || !rows_lie(out, dtype) ||
        (of != dtype && (of != CFX_F32 || !are_few(c))))
        return false;
    for (int i = 0; i < 4; i++)
        if (q->shape[i] == 0 || v->shape[i] == 0)
            return false;
    return cfx__cuda_element(dtype, c->precision) && mask_kind(c) >= 0 && k->shape[1] > 0 &&
           q->shape[1] % k->shape[1] == 0 && q->shape[3] == k->shape[3] && q->shape[3] <= 256 &&
           v->shape[3] <= 256 && k->shape[2] < INT32_MAX - 1024 &&
           q->shape[1] * q->shape[2] < INT32_MAX - 1024 &&
           q->shape[0] * k->shape[1] <= 65535 && (c->mask.operand < 0 || c->mask.ndim == 4);
}

/* The strides of the first n dimensions, 0 where there is one element. */
static void pass_strides(cfx__cuda_launch *l, const cfx__cuda_array *a, int n) {
    for (int i = 0; i < n; i++)
        cfx__cuda_pass_integer(l, a->operand < 0 || a->shape[i] == 1 ? 0 : a->stride[i]);
}

/* What both kernels are given. */
static void pass_call(cfx__cuda_launch *l, const cfx__cuda_attention_call *c, int64_t splits) {
    const int64_t heads = c->q.shape[1], groups = c->k.shape[1];
    cfx__cuda_pass_array(l, &c->q), cfx__cuda_pass_array(l, &c->k), cfx__cuda_pass_array(l, &c->v);
    cfx__cuda_pass_optional(l, &c->mask), cfx__cuda_pass_array(l, &c->out);
    cfx__cuda_pass_optional(l, &c->lse);
    cfx__cuda_pass_place(l, CFX__CUDA_SCRATCH), cfx__cuda_pass_place(l, CFX__CUDA_COUNTERS);
    cfx__cuda_pass_double(l, c->scale);
    const int64_t numbers[] = {heads, heads / groups, c->q.shape[2], c->k.shape[2],
                               c->causal ? c->offset : INT32_MAX, splits};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    pass_strides(l, &c->q, 3), pass_strides(l, &c->k, 3), pass_strides(l, &c->v, 3);
    pass_strides(l, &c->mask, 4), pass_strides(l, &c->out, 3);
}

/* ---- a few rows ------------------------------------------------------------------------------ */

/* Threads beside each other that have a key, pieces of it that each has, warps of a block, blocks
 * that share keys, and how many of those see each other's memory (1: none). */
typedef struct spread {
    int64_t lanes, per, warps, splits, cluster;
} spread;

static spread spread_few(int64_t tiles, int64_t rows, int64_t keys, int64_t head, int64_t wide) {
    const int64_t pieces = head * wide / 16;
    spread s = {.lanes = 1, .per = cfx__cuda_up(pieces, 32), .splits = 1, .cluster = 1};
    s.warps = rows * s.per * 16 / wide > 16 ? 8 : 16; /* what registers hold */
    while (s.lanes * s.per < pieces)
        s.lanes *= 2;
    const int64_t of_warp = 32 / s.lanes * AT_ONCE, steps = cfx__cuda_up(keys, s.warps * of_warp);
    const int64_t free = 2 * CFX__CUDA_SMS / tiles, most = free < SPLITS ? free : SPLITS;
    if (tiles > CFX__CUDA_COUNTED)
        return s;
    /* Blocks that leave results in memory wait for each other, which is worth some steps of each;
     * those of a cluster wait for little more than a barrier. */
    s.splits = steps / 4 < most ? steps / 4 : most;
    if (s.splits <= CLUSTER) {
        for (s.splits = 1; 2 * s.splits <= CLUSTER && 2 * s.splits <= free &&
                           keys >= 2 * s.splits * of_warp;)
            s.splits *= 2;
        s.cluster = s.splits;
        while (s.warps > 4 && keys <= s.splits * of_warp * s.warps / 2)
            s.warps /= 2;
    }
    return s;
}

static bool attend_few(const cfx__cuda_attention_call *c, cfx__cuda_work *work) {
    const int64_t head = c->q.shape[3], rows = c->q.shape[1] / c->k.shape[1] * c->q.shape[2];
    const int64_t wide = (int64_t)cfx_dtype_size(c->k.dtype);
    const int64_t tiles = c->q.shape[0] * c->k.shape[1];
    const int64_t left = rows * (head + 2) * (int64_t)sizeof(float); /* of a warp or a block */
    const spread s = spread_few(tiles, rows, c->k.shape[2], head, wide);
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("few"), "few");
    if (!l)
        return false;
    l->defines = cfx__text_format(
        "%s#define HEAD %d\n#define L %d\n#define R %d\n#define LANES %d\n#define PER %d\n"
        "#define WARPS %d\n#define MASK %d\n#define KV %s\n#define SPLIT_KEYS %d\n"
        "#define CLUSTER %d\n",
        cfx__cuda_element(c->q.dtype, c->precision), (int)head, (int)c->q.shape[2], (int)rows,
        (int)s.lanes, (int)s.per, (int)s.warps, mask_kind(c),
        c->k.dtype == CFX_F32 ? "float" : "T", s.splits > 1, (int)s.cluster);
    l->grid[0] = (unsigned)c->k.shape[1], l->grid[1] = (unsigned)c->q.shape[0];
    l->grid[2] = (unsigned)s.splits;
    l->block[0] = (unsigned)s.warps * 32;
    l->shared = (unsigned)((s.warps + (s.cluster > 1)) * left);
    l->cluster = (unsigned)(s.cluster > 1 ? s.cluster : 0);
    pass_call(l, c, s.splits);
    if (s.splits > 1)
        cfx__cuda_need(work, tiles * s.splits * left);
    return true;
}

/* ---- the way in ------------------------------------------------------------------------------ */

bool cfx__cuda_attention(const cfx__cuda_attention_call *c, cfx__cuda_work *work) {
    if (!takes(c))
        return false;
    if (are_few(c))
        return attend_few(c, work);
    const int64_t wide = (int64_t)cfx_dtype_size(c->q.dtype), heads = c->q.shape[1];
    const int64_t groups = c->k.shape[1], head = c->q.shape[3], value = c->v.shape[3];
    const int64_t rows = heads / groups * c->q.shape[2], keys = c->k.shape[2];
    const int64_t d = cfx__cuda_up(head > value ? head : value, 16) * 16;
    const shares s = share(rows, c->q.shape[0] * groups, keys, d, wide);
    const int64_t tiles = cfx__cuda_up(rows, 16 * s.wq) * c->q.shape[0] * groups;
    const int64_t splits = tiles > CFX__CUDA_COUNTED ? 1 : s.splits;
    cfx__cuda_launch *l = NULL;
    if (s.shared <= CFX__CUDA_SHARED)
        l = cfx__cuda_launch_add(work, cfx__cuda_text("attention"), "attention");
    if (!l)
        return false;
    l->defines = cfx__text_format(
        "%s#define HEAD %d\n#define VALUE %d\n#define D %d\n#define WQ %d\n#define WK %d\n"
        "#define KEYS %d\n#define STAGES %d\n#define MASK %d\n#define VECTOR %d\n"
        "#define PAIRS %d\n",
        cfx__cuda_element(c->q.dtype, c->precision), (int)head, (int)value, (int)d, (int)s.wq,
        (int)s.wk, (int)s.keys, (int)s.stages, mask_kind(c),
        rows_align(&c->q) && rows_align(&c->k) && rows_align(&c->v), rows_pair(&c->out));
    l->grid[0] = (unsigned)cfx__cuda_up(rows, 16 * s.wq);
    l->grid[1] = (unsigned)(c->q.shape[0] * groups), l->grid[2] = (unsigned)splits;
    l->block[0] = (unsigned)(s.wq * s.wk * 32);
    l->shared = (unsigned)s.shared;
    pass_call(l, c, splits);
    if (splits > 1)
        cfx__cuda_need(work, tiles * splits * 16 * s.wq * (d + 2) * (int64_t)sizeof(float));
    return true;
}
