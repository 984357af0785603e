/* The shared part of the operators that call oneDNN: primitives kept, operands brought to the
 * layouts that they want. */
#include "onednn.h"
#include "gemm_own.h"
#include "transpose.h"

#include "../../tensor/packed.h"

#include <pthread.h>

/* ---- threads --------------------------------------------------------------------------------- */

bool onednn_begin(onednn_before *before) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    if (!library_onednn_enter())
        return false;
    const onednn_library *l = library_onednn();
    before->threads = l->threads ? l->threads() : 1;
    sigset_t all;
    sigfillset(&all);
    for (int i = 0; i < COUNT(own); i++) /* what goes wrong here is told here */
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before->signals);
    if (before->threads != 1)
        l->set_threads(1);
    return true;
}

void onednn_end(const onednn_before *before) {
    const onednn_library *l = library_onednn();
    if (l->threads && l->threads() != before->threads)
        l->set_threads(before->threads);
    library_onednn_leave();
    pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Whether matrices of `rows` by `cols` lie as oneDNN reads them, and from one line of them to the
 * next. Strides of dims of size 1 mean nothing. */
static bool lies_in_lines(const matrices *m, int64_t rows, int64_t cols, char *how,
                          int64_t *leading) {
    const bool by_row = (m->col == 1 || cols == 1) && (m->row >= cols || rows == 1);
    const bool by_column = (m->row == 1 || rows == 1) && (m->col >= rows || cols == 1);
    *how = by_row ? 'N' : 'T';
    *leading = by_row ? (rows == 1 ? cols : m->row) : cols == 1 ? rows : m->col;
    return by_row || by_column;
}

bool gemm_onednn(int64_t m, int64_t n, int64_t k, const float *a, const matrices *as,
                 const float *b, const matrices *bs, float alpha, float beta, float *c,
                 int64_t ldc) {
    enum { LARGE = 1 << 20 }; /* multiplications: below, the tiles of tile.h are as fast */
    char ta, tb;
    int64_t lda, ldb;
    onednn_before before;
    if ((double)m * (double)n * (double)k < LARGE || !lies_in_lines(as, m, k, &ta, &lda) ||
        !lies_in_lines(bs, k, n, &tb, &ldb) || !onednn_begin(&before))
        return false;
    const dnnl_status_t status =
        DNN(sgemm)(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, m == 1 ? n : ldc);
    onednn_end(&before);
    return status == dnnl_success;
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
    if (library_onednn_enter()) { /* a forked child that does without it leaves all where it is */
        for (int i = 0; i < PLAN_CHAINS; i++)
            for (plan *p = k->chain[i], *next; p; p = next) {
                next = p->next;
                plan_free(p);
            }
        if (k->stream)
            DNN(stream_destroy)(k->stream);
        if (k->engine)
            DNN(engine_destroy)(k->engine);
        library_onednn_leave();
    }
    cfx__free(k);
}

static void *kept_make(void) { return cfx__alloc0(sizeof(kept)); }

static void engine_make(kept *k) {
    if (DNN(engine_create)(&k->engine, dnnl_cpu, 0) != dnnl_success)
        k->engine = NULL;
    else if (DNN(stream_create)(&k->stream, k->engine, dnnl_stream_default_flags) != dnnl_success)
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
    if (DNN(reorder_primitive_desc_create)(&desc, from, engine, to, engine, NULL) != dnnl_success)
        return NULL;
    if (DNN(primitive_create)(&p, desc) != dnnl_success)
        p = NULL;
    DNN(primitive_desc_destroy)(desc);
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
            DNN(memory_desc_init_by_tag)(&a, plain->ndims, plain->dims, dnnl_f32, known[i].first) !=
                dnnl_success ||
            DNN(memory_desc_init_by_tag)(&b, plain->ndims, plain->dims, dnnl_f32, known[i].tag) !=
                dnnl_success ||
            !DNN(memory_desc_equal)(plain, &a) || !DNN(memory_desc_equal)(wanted, &b))
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
    p->size = DNN(memory_desc_get_size)(wanted);
    p->key = cfx__hash_mix(hash_of(wanted), hash_of(plain));
    if (DNN(memory_create)(&p->plain_mem, plain, engine, DNNL_MEMORY_NONE) != dnnl_success ||
        DNN(memory_create)(&p->wanted_mem, wanted, engine, DNNL_MEMORY_NONE) != dnnl_success)
        return false;
    if (DNN(memory_desc_equal)(plain, wanted))
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
        DNN(primitive_destroy)(p->in);
    if (p->out)
        DNN(primitive_destroy)(p->out);
    if (p->plain_mem)
        DNN(memory_destroy)(p->plain_mem);
    if (p->wanted_mem)
        DNN(memory_destroy)(p->wanted_mem);
}

static void move(dnnl_primitive_t how, dnnl_memory_t from, void *from_data, dnnl_memory_t to,
                 void *to_data) {
    DNN(memory_set_data_handle)(from, from_data);
    DNN(memory_set_data_handle)(to, to_data);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    DNN(primitive_execute)(how, onednn_stream(), 2, args);
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
    if (form) {
        form->local = true; /* oneDNN's own layout, which differs with its version */
        move(p->port->in, p->port->plain_mem, p->t->data, p->port->wanted_mem, form->data);
    }
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
