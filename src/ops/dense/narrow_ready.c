/* Products and tables of narrow weights made ready. */
#include "narrow.h"
#include "pieces.h"
#include "../ops.h"

#include <math.h>

typedef struct {
    cfx__ready pub;
    narrow_panels panels;
    cfx__packed *form; /* counted: the data of the panels */
    product product;   /* table: m rows are picked */
    tile_epilogue epilogue;
    cfx__packed *bias; /* counted */
    bool wide;         /* table: numbers of rows are int64; else int32 */
} kernel;

static void kernel_free(void *obj) {
    kernel *k = obj;
    cfx_drop(k->form);
    cfx_drop(k->bias);
}

static const cfx__obj_type kernel_type = {.name = "narrow kernel", .free = kernel_free};

/* ---- a few rows ------------------------------------------------------------------------------ */

/* Columns of a panel that are wanted, with the bias, what is added and bounds. */
CFX__SIMD static void finish(const product *p, const float *sum, int64_t first, int64_t cols,
                             float *restrict c) {
    const tile_epilogue *e = p->epilogue;
    const float low = e->bounded ? e->low : -INFINITY, high = e->bounded ? e->high : INFINITY;
    const float *bias = p->bias ? p->bias + first : NULL;
    for (int64_t j = 0; j < cols; j++) {
        float v = sum[j] + (bias ? bias[j] : 0);
        v = e->add ? v + c[j] : v;
        v = v < low ? low : v;
        c[j] = v > high ? high : v;
    }
}

static void multiply(void *arg, int64_t begin, int64_t end) {
    const product *p = arg;
    const int64_t width = tile_width(), first = begin * width;
    const int64_t last = end * width < p->n ? end * width : p->n;
    float room[NARROW_ROWS * TILE_WIDEST];
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t at = panel * width, cols = p->n - at < width ? p->n - at : width;
        narrow_tile(p->narrow, panel, (int)p->m, p->a, p->a_row, room);
        for (int64_t r = 0; r < p->m; r++)
            finish(p, room + r * width, at, cols, p->c + r * p->c_row + at);
    }
    if (p->epilogue->n)
        tile_finish(p->epilogue, p->c + first, p->c_row, p->m, last - first);
}

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    enum { GRAIN = 1 << 15 }; /* weights worth a thread */
    const kernel *k = (const kernel *)r;
    const int64_t width = tile_width();
    product p = k->product;
    (void)scratch;
    p.a = x;
    p.c = out;
    if (p.m > NARROW_ROWS)
        product_run(&p);
    else
        cfx__parallel((p.n + width - 1) / width, 1 + GRAIN / (p.k * width), multiply, &p);
    return cfx_ok();
}

/* ---- inputs in int8 -------------------------------------------------------------------------- */

enum {
    NEAR = 1 << 18,      /* bytes of A that stay in the second cache */
    ROUNDED = 1 << 14,   /* numbers to round that are worth a thread */
    GRAIN_DOTS = 1 << 19 /* multiplications worth a thread */
};

typedef struct {
    product p;
    product_pieces cut;
    narrow_rounded x;
} dot_job;

/* Rows [first, first + rows) of a panel, narrow_dot_rows() at most. */
static void dot_tile(const dot_job *j, int64_t panel, const int8_t *bytes, int64_t first,
                     int rows) {
    const product *p = &j->p;
    const int64_t width = tile_width(), at = panel * width;
    const int64_t cols = p->n - at < width ? p->n - at : width;
    _Alignas(64) float room[NARROW_DOT_ROWS * TILE_WIDEST];
    float *c = p->c + first * p->c_row + at;
    narrow_dots(p->narrow, panel, bytes, &j->x, first, rows, room);
    for (int r = 0; r < rows; r++)
        finish(p, room + r * width, at, cols, c + r * p->c_row);
    if (p->epilogue->n)
        tile_finish(p->epilogue, c, p->c_row, rows, cols);
}

/* A tile of rows by some panels, unpacked in registers. */
static void dot_panels(void *arg, int64_t begin, int64_t end) {
    const dot_job *j = arg;
    for (int64_t panel = begin; panel < end; panel++)
        dot_tile(j, panel, NULL, 0, (int)j->p.m);
}

/* Many rows: each panel is unpacked once for as many as stay near. */
static void dot_piece(const void *arg, int64_t piece, void *bytes) {
    const dot_job *j = arg;
    const product_piece b = product_piece_at(&j->p, &j->cut, piece);
    const int64_t tall = narrow_dot_rows(), fit = NEAR / j->p.k / tall * tall;
    const int64_t near = fit < tall ? tall : fit;
    for (int64_t top = b.top; top < b.bottom; top += near) {
        const int64_t rows = b.bottom - top < near ? b.bottom - top : near;
        const int64_t tiles = (rows + tall - 1) / tall;
        for (int64_t panel = b.from; panel < b.to; panel++) {
            narrow_unpack_bytes(j->p.narrow, panel, bytes);
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t first = rows * i / tiles, last = rows * (i + 1) / tiles;
                dot_tile(j, panel, bytes, top + first, (int)(last - first));
            }
        }
    }
}

static void dot_pieces(void *arg, int64_t begin, int64_t end) {
    const dot_job *j = arg;
    pieces_run(dot_piece, j, begin, end, (size_t)(j->p.k * tile_width()));
}

static void round_rows(void *arg, int64_t begin, int64_t end) {
    const dot_job *j = arg;
    narrow_round(j->p.a + begin * j->p.a_row, j->p.a_row, begin, end - begin, j->p.narrow->bits,
                 &j->x);
}

/* Where the rounded rows of A lie in the room for them; its bytes. */
static int64_t rounded_in(const product *p, char *room, narrow_rounded *x) {
    const int64_t blocks = p->m * (p->k / NARROW_BLOCK);
    *x = (narrow_rounded){.k = p->k, .scales = (float *)room,
                          .starts = (int32_t *)room + blocks,
                          .numbers = (int8_t *)((int32_t *)room + 2 * blocks)};
    return 8 * blocks + p->m * p->k;
}

static bool run_dots(const cfx__ready *r, const void *x, void *out, void *scratch) {
    enum { GRAIN = 1 << 15 }; /* weights worth a thread */
    const kernel *k = (const kernel *)r;
    const int64_t width = tile_width(), tall = narrow_dot_rows();
    dot_job j = {.p = k->product};
    j.p.a = x;
    j.p.c = out;
    rounded_in(&j.p, scratch, &j.x);
    cfx__parallel(j.p.m, 1 + ROUNDED / j.p.k, round_rows, &j);
    if (j.p.m <= tall) {
        cfx__parallel((j.p.n + width - 1) / width, 1 + GRAIN / (j.p.k * width), dot_panels, &j);
    } else {
        j.cut = product_cut(&j.p, width, tall, 1, GRAIN_DOTS);
        cfx__parallel(j.cut.pieces, 1, dot_pieces, &j);
    }
    return cfx_ok();
}

/* ---- making ---------------------------------------------------------------------------------- */

static const char *name_of(const cfx__narrow *w, bool table) {
    static const char *const names[][2] = {{"rows of int4 weights", "rows of int8 weights"},
                                           {"product, int4 weights", "product, int8 weights"},
                                           {"product, int4 weights by int8",
                                            "product, int8 weights by int8"}};
    return names[table ? 0 : w->block ? 2 : 1][w->bits == 8];
}

static kernel *made(const cfx__narrow *w, bool table) {
    narrow_panels panels;
    cfx__packed *form;
    if (!narrow_pack(w, &panels, &form))
        return NULL;
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->panels = panels;
    k->form = form;
    k->pub.name = name_of(w, table);
    return k;
}

bool narrow_gemm_takes(const product_layer *l, const cfx__epilogue *e) {
    const cfx__narrow *w = e->narrow;
    const cfx_tensor *x = l->x, *bias = l->bias;
    tile_epilogue epilogue;
    return x->dtype == CFX_F32 && x->numel && x->ndim && x->shape[x->ndim - 1] == w->k &&
           cfx__tensor_is_contiguous(x) && product_row(l->out) >= w->n &&
           (!bias || (bias->dtype == CFX_F32 && bias->ndim == 1 && bias->shape[0] == w->n &&
                      bias->data && cfx__tensor_is_contiguous(bias))) &&
           (!w->block || (w->block == NARROW_BLOCK && w->group % NARROW_BLOCK == 0)) &&
           tile_epilogue_of(e, &epilogue) && narrow_takes(w);
}

cfx__ready *narrow_gemm_ready(const product_layer *l, const cfx__epilogue *e) {
    const cfx__narrow *w = e->narrow;
    const cfx_tensor *x = l->x, *bias = l->bias, *out = l->out;
    kernel *k = made(w, false);
    if (!k)
        return NULL;
    tile_epilogue_of(e, &k->epilogue);
    k->bias = bias ? product_bias(bias) : NULL;
    if (bias && !k->bias) {
        cfx_drop(k);
        return NULL;
    }
    k->product = (product){.m = x->numel / w->k, .n = w->n, .k = w->k, .a_row = w->k,
                           .line = x->numel / w->k, .narrow = &k->panels,
                           .bias = k->bias ? k->bias->data : NULL,
                           .c_row = product_row(out), .epilogue = &k->epilogue};
    k->pub.run = w->block ? run_dots : run;
    k->pub.scratch = w->block ? rounded_in(&k->product, NULL, &(narrow_rounded){0}) : 0;
    return &k->pub;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool pick(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    (void)scratch;
    for (int64_t i = 0; i < k->product.m; i++) {
        const int64_t row = k->wide ? ((const int64_t *)x)[i] : ((const int32_t *)x)[i];
        if (row < 0 || row >= k->panels.n) {
            cfx_fail(CFX_INDEX_ERROR, (cfx_site){0}, "index out of range in self");
            return false;
        }
        narrow_column(&k->panels, row, (float *)out + i * k->panels.k);
    }
    return true;
}

bool cfx__ready_takes_rows(const cfx__layer *l) {
    const cfx_tensor *rows = cfx__layer_x(l), *out = cfx__layer_out(l);
    return l->epilogue.narrow && !l->epilogue.narrow->block && !l->epilogue.n &&
           (rows->dtype == CFX_I64 || rows->dtype == CFX_I32) && cfx__tensor_is_contiguous(rows) &&
           out->dtype == CFX_F32 && cfx__tensor_is_contiguous(out) &&
           narrow_takes(l->epilogue.narrow);
}

cfx__ready *cfx__ready_rows(const cfx__layer *l) {
    const cfx_tensor *rows = cfx__layer_x(l);
    kernel *k = made(l->epilogue.narrow, true);
    if (!k)
        return NULL;
    k->product.m = rows->numel;
    k->wide = rows->dtype == CFX_I64;
    k->pub.run = pick;
    return &k->pub;
}
