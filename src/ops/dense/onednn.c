/* The shared part of the operators that call oneDNN: primitives kept, operands brought to the
 * layouts that they want. */
#include "onednn.h"

#include "../../tensor/packed.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* ---- threads --------------------------------------------------------------------------------- */

int onednn_begin(void) {
#ifdef _OPENMP
    int before = omp_get_max_threads();
    if (before != 1)
        omp_set_num_threads(1);
    return before;
#else
    return 1;
#endif
}

void onednn_end(int before) {
#ifdef _OPENMP
    if (omp_get_max_threads() != before)
        omp_set_num_threads(before);
#else
    (void)before;
#endif
}

/* ---- what a thread keeps --------------------------------------------------------------------- */

enum { PLANS = 512, PLAN_CHAINS = 256 };

typedef struct plan {
    struct plan *next; /* of the same chain */
    uint64_t hash, used;
    size_t size;
    void *data;
    void (*done)(void *);
    char key[];
} plan;

typedef struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    plan *chain[PLAN_CHAINS];
    int len;
    uint64_t clock;
} kept;

static void plan_free(plan *p) {
    p->done(p->data);
    cfx__free(p);
}

static void kept_free(void *arg) {
    kept *k = arg;
    for (int i = 0; i < PLAN_CHAINS; i++)
        for (plan *p = k->chain[i], *next; p; p = next) {
            next = p->next;
            plan_free(p);
        }
    if (k->stream)
        dnnl_stream_destroy(k->stream);
    if (k->engine)
        dnnl_engine_destroy(k->engine);
    cfx__free(k);
}

static void *kept_make(void) { return cfx__alloc0(sizeof(kept)); }

static void engine_make(kept *k) {
    if (dnnl_engine_create(&k->engine, dnnl_cpu, 0) != dnnl_success)
        k->engine = NULL;
    else if (dnnl_stream_create(&k->stream, k->engine, dnnl_stream_default_flags) != dnnl_success)
        k->stream = NULL;
}

static kept *kept_here(void) { return cfx__ctx_slot(CFX__SLOT_OPS, kept_make, kept_free); }

/* Asked for when something is made, which takes memory that oneDNN cannot do without. */
dnnl_engine_t onednn_engine(void) {
    enum { NEEDED = 32 << 20 };
    kept *k = kept_here();
    if (!cfx__memory_headroom(NEEDED))
        return NULL;
    if (!k->engine)
        engine_make(k);
    return k->stream ? k->engine : NULL;
}
dnnl_stream_t onednn_stream(void) { return kept_here()->stream; }

void *onednn_find(const void *key, size_t size) {
    kept *k = kept_here();
    uint64_t hash = cfx__text_hash(key, size);
    for (plan *p = k->chain[hash % PLAN_CHAINS]; p; p = p->next)
        if (p->hash == hash && p->size == size && !memcmp(p->key, key, size)) {
            p->used = ++k->clock;
            return p->data;
        }
    return NULL;
}

/* Frees the half that was used longest ago. */
static void forget_old(kept *k) {
    uint64_t limit = k->clock > PLANS / 2 ? k->clock - PLANS / 2 : 0;
    for (int i = 0; i < PLAN_CHAINS; i++)
        for (plan **at = &k->chain[i]; *at;) {
            plan *p = *at;
            if (p->used > limit) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            plan_free(p);
            k->len--;
        }
}

void onednn_keep(const void *key, size_t size, void *data, void (*done)(void *)) {
    kept *k = kept_here();
    if (k->len >= PLANS)
        forget_old(k);
    plan *p = cfx__alloc(sizeof *p + size);
    uint64_t hash = cfx__text_hash(key, size);
    *p = (plan){.next = k->chain[hash % PLAN_CHAINS],
                .hash = hash,
                .used = ++k->clock,
                .size = size,
                .data = data,
                .done = done};
    memcpy(p->key, key, size);
    k->chain[hash % PLAN_CHAINS] = p;
    k->len++;
}

/* ---- operands -------------------------------------------------------------------------------- */

static dnnl_primitive_t reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to) {
    dnnl_engine_t engine = onednn_engine();
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t p = NULL;
    if (dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, NULL) != dnnl_success)
        return NULL;
    if (dnnl_primitive_create(&p, desc) != dnnl_success)
        p = NULL;
    dnnl_primitive_desc_destroy(desc);
    return p;
}

/* The size of the blocks when `wanted` is `plain` (channels second, then space, in order) with
 * channels innermost, whole or in blocks of 8 or 16 that divide them. */
static int64_t channel_block(const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *wanted) {
    static const struct {
        int ndims;
        dnnl_format_tag_t first, tag;
        int64_t block;
    } known[] = {
        {3, dnnl_abc, dnnl_acb, 0},         {3, dnnl_abc, dnnl_aBc8b, 8},
        {3, dnnl_abc, dnnl_aBc16b, 16},     {4, dnnl_abcd, dnnl_acdb, 0},
        {4, dnnl_abcd, dnnl_aBcd8b, 8},     {4, dnnl_abcd, dnnl_aBcd16b, 16},
        {5, dnnl_abcde, dnnl_acdeb, 0},     {5, dnnl_abcde, dnnl_aBcde8b, 8},
        {5, dnnl_abcde, dnnl_aBcde16b, 16},
    };
    for (int i = 0; i < COUNT(known); i++) {
        dnnl_memory_desc_t a, b;
        if (known[i].ndims != plain->ndims ||
            dnnl_memory_desc_init_by_tag(&a, plain->ndims, plain->dims, dnnl_f32, known[i].first) !=
                dnnl_success ||
            dnnl_memory_desc_init_by_tag(&b, plain->ndims, plain->dims, dnnl_f32, known[i].tag) !=
                dnnl_success ||
            !dnnl_memory_desc_equal(plain, &a) || !dnnl_memory_desc_equal(wanted, &b))
            continue;
        int64_t channels = plain->dims[1], block = known[i].block ? known[i].block : channels;
        return channels % block ? 0 : block;
    }
    return 0;
}

/* All of a description: unlike a text, its middle matters. */
static uint64_t hash_of(const dnnl_memory_desc_t *md) {
    const unsigned char *b = (const unsigned char *)md;
    uint64_t h = sizeof *md;
    for (size_t i = 0; i < sizeof *md; i++)
        h = cfx__hash_mix(h, b[i]);
    return h;
}

bool onednn_port_make(onednn_port *p, const dnnl_memory_desc_t *plain,
                      const dnnl_memory_desc_t *wanted, bool in, bool out) {
    dnnl_engine_t engine = onednn_engine();
    *p = (onednn_port){.plain = *plain, .wanted = *wanted};
    p->size = dnnl_memory_desc_get_size(wanted);
    p->key = cfx__hash_mix(hash_of(wanted), hash_of(plain));
    if (dnnl_memory_create(&p->plain_mem, plain, engine, DNNL_MEMORY_NONE) != dnnl_success ||
        dnnl_memory_create(&p->wanted_mem, wanted, engine, DNNL_MEMORY_NONE) != dnnl_success)
        return false;
    if (dnnl_memory_desc_equal(plain, wanted))
        return true;
    p->block = channel_block(plain, wanted);
    if (in)
        p->in = reorder(plain, wanted);
    if (out)
        p->out = reorder(wanted, plain);
    return (!in || p->in) && (!out || p->out);
}

void onednn_port_free(onednn_port *p) {
    if (p->in)
        dnnl_primitive_destroy(p->in);
    if (p->out)
        dnnl_primitive_destroy(p->out);
    if (p->plain_mem)
        dnnl_memory_destroy(p->plain_mem);
    if (p->wanted_mem)
        dnnl_memory_destroy(p->wanted_mem);
}

static void move(dnnl_primitive_t how, dnnl_memory_t from, void *from_data, dnnl_memory_t to,
                 void *to_data) {
    dnnl_memory_set_data_handle(from, from_data);
    dnnl_memory_set_data_handle(to, to_data);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    dnnl_primitive_execute(how, onednn_stream(), 2, args);
}

static int64_t space(const onednn_port *p) {
    int64_t n = 1;
    for (int i = 2; i < p->plain.ndims; i++)
        n *= p->plain.dims[i];
    return n;
}

void *onednn_port_read(cfx_op_call *c, onednn_port *p, const void *data) {
    if (!p->in)
        return (void *)data;
    char *to = scratch(c, CFX_U8, (int64_t)p->size);
    if (!to)
        return NULL;
    if (!p->block) {
        move(p->in, p->plain_mem, (void *)data, p->wanted_mem, to);
        return to;
    }
    int64_t n = space(p), blocks = p->plain.dims[0] * p->plain.dims[1] / p->block;
    for (int64_t i = 0; i < blocks; i++)
        transpose_f32(p->block, n, (const float *)data + i * p->block * n, n,
                      (float *)to + i * p->block * n, p->block);
    return to;
}

/* A port, and weights that go through it. */
typedef struct {
    onednn_port *port;
    const cfx_tensor *t;
    uint64_t key;
} packing;

static cfx__packed *make_packed(void *user) {
    const packing *p = user;
    cfx__packed *form = cfx__packed_new(p->t->storage, p->key, p->port->size);
    if (form)
        move(p->port->in, p->port->plain_mem, p->t->data, p->port->wanted_mem, form->data);
    return form;
}

/* Weights in the wanted form, kept with the storage of t, which has one that is ours; the caller
 * owns a count. NULL when there is no memory. */
static cfx__packed *port_pack(onednn_port *p, const cfx_tensor *t) {
    packing of = {p, t, cfx__hash_mix(p->key, (uint64_t)t->offset)};
    return cfx__packed_get(t->storage, of.key, p->size, make_packed, &of);
}

void *onednn_port_weights(cfx_op_call *c, onednn_port *p, const cfx_tensor *t, cfx__packed **held) {
    *held = NULL;
    if (!p->in)
        return t->data;
    if (t->storage && !t->storage->foreign) {
        *held = port_pack(p, t);
        if (*held)
            return (*held)->data;
    }
    void *to = scratch(c, CFX_U8, (int64_t)p->size);
    if (to)
        move(p->in, p->plain_mem, t->data, p->wanted_mem, to);
    return to;
}

void *onednn_port_write(cfx_op_call *c, onednn_port *p, void *data) {
    return p->out ? scratch(c, CFX_U8, (int64_t)p->size) : data;
}

void onednn_port_finish(onednn_port *p, void *wrote, void *data) {
    if (!p->out)
        return;
    if (!p->block) {
        move(p->out, p->wanted_mem, wrote, p->plain_mem, data);
        return;
    }
    int64_t n = space(p), blocks = p->plain.dims[0] * p->plain.dims[1] / p->block;
    for (int64_t i = 0; i < blocks; i++)
        transpose_f32(n, p->block, (const float *)wrote + i * p->block * n, p->block,
                      (float *)data + i * p->block * n, n);
}

/* ---- transposition --------------------------------------------------------------------------- */

enum { LANES = 8, TILE = 16, CHUNK = 256 };

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct {
    int64_t rows, cols, in_row, out_row;
    const float *in;
    float *out;
} transposition;

/* Which of two vectors' elements a step takes. */
#define LOW 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define EVEN 0, 1, 8, 9, 4, 5, 12, 13
#define ODD 2, 3, 10, 11, 6, 7, 14, 15
#define FIRST 0, 1, 2, 3, 8, 9, 10, 11
#define SECOND 4, 5, 6, 7, 12, 13, 14, 15

/* 8 by 8 in registers: pairs, then pairs of pairs, then halves change places. */
static inline __attribute__((always_inline)) void transpose_8(const float *in, int64_t in_row,
                                                              float *out, int64_t out_row) {
    lanes r[8], t[8], u[8];
    for (int i = 0; i < 8; i++)
        r[i] = *(const lanes *)(in + i * in_row);
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], LOW);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], HIGH);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = __builtin_shufflevector(t[i], t[i + 2], EVEN);
        u[i + 1] = __builtin_shufflevector(t[i], t[i + 2], ODD);
        u[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], EVEN);
        u[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], ODD);
    }
    for (int i = 0; i < 4; i++) {
        *(lanes *)(out + i * out_row) = __builtin_shufflevector(u[i], u[i + 4], FIRST);
        *(lanes *)(out + (i + 4) * out_row) = __builtin_shufflevector(u[i], u[i + 4], SECOND);
    }
}

/* Tiles [begin, end): TILE columns of `in` by CHUNK rows of it, which become rows of `out`. */
CFX__SIMD static void transpose_tiles(const transposition *t, int64_t begin, int64_t end) {
    const int64_t chunks = (t->rows + CHUNK - 1) / CHUNK;
    for (int64_t s = begin; s < end; s++) {
        const int64_t j = s / chunks * TILE, first = s % chunks * CHUNK;
        const int64_t cols = t->cols - j < TILE ? t->cols - j : TILE;
        const int64_t rows = t->rows - first < CHUNK ? t->rows : first + CHUNK;
        int64_t i = first;
        if (cols == TILE)
            for (; i + LANES <= rows; i += LANES)
                for (int q = 0; q < TILE; q += LANES)
                    transpose_8(t->in + i * t->in_row + j + q, t->in_row,
                                t->out + (j + q) * t->out_row + i, t->out_row);
        for (int64_t q = 0; q < cols; q++)
            for (int64_t p = i; p < rows; p++)
                t->out[(j + q) * t->out_row + p] = t->in[p * t->in_row + j + q];
    }
}

static void transpose_range(void *arg, int64_t begin, int64_t end) {
    transpose_tiles(arg, begin, end);
}

/* Three planes of colours to points of three. */
CFX__SIMD static void weave_colours(int64_t n, const float *restrict in, float *restrict out) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        out[3 * j] = in[j];
        out[3 * j + 1] = in[n + j];
        out[3 * j + 2] = in[2 * n + j];
    }
}

void transpose_f32(int64_t rows, int64_t cols, const float *in, int64_t in_row, float *out,
                   int64_t out_row) {
    if (rows == 3 && in_row == cols && out_row == 3) {
        weave_colours(cols, in, out);
        return;
    }
    transposition t = {rows, cols, in_row, out_row, in, out};
    int64_t tiles = (cols + TILE - 1) / TILE * ((rows + CHUNK - 1) / CHUNK);
    cfx__parallel(tiles, cfx__grain((double)(TILE * (rows < CHUNK ? rows : CHUNK))),
                  transpose_range, &t);
}
