/* A product of halves: A is rounded once, by all threads together, and then multiplied in pieces of
 * rows and panels. Start at bf16_product. */
#include "bf16.h"

#include "../ops.h"

enum {
    NEAR = 1 << 19,       /* elements of A that stay in the second cache */
    TOGETHER = 512,       /* rows that go through panels together at least, with tiles */
    ROUNDED = 1 << 15,    /* numbers to round that are worth a thread */
    GRAIN_DOTS = 1 << 18, /* multiplications that are worth a thread */
    GRAIN_TILES = 1 << 20
};

typedef struct {
    const product *p;
    bf16_way way;
    product_pieces cut;
    uint16_t *a; /* rounded */
    int64_t row, depth;
} job;

static void round_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    for (int64_t i = begin; i < end; i++)
        bf16_round(product_line(j->p, i), j->p->k, j->depth, j->a + i * j->row);
}

/* Rows [top, bottom) times panels [from, to), over elements [at, at + length). Sums lie in `sums`,
 * tile by tile, until the last elements are added. */
typedef struct {
    product_piece in;
    int64_t at, length;
    float *sums; /* of one tile where a row is multiplied at once */
} block;

static void run_block(const job *j, const block *b) {
    const product *p = j->p;
    const int64_t height = bf16_height(j->way), rows = b->in.bottom - b->in.top;
    const int64_t tiles = (rows + height - 1) / height;
    const bool whole = b->length == j->depth, last = b->at + b->length == j->depth;
    for (int64_t panel = b->in.from; panel < b->in.to; panel++) {
        const int64_t col = panel * BF16_WIDTH;
        const uint16_t *panels = p->panels;
        bf16_tile t = {.row = j->row,
                       .depth = b->length,
                       .panel = panels + col * j->depth + b->at * BF16_WIDTH,
                       .c = b->sums,
                       .add = b->at > 0};
        bf16_result r = {.cols = (int)(p->n - col < BF16_WIDTH ? p->n - col : BF16_WIDTH),
                         .bias = p->bias ? p->bias + col : NULL,
                         .epilogue = p->epilogue,
                         .c_row = p->c_row};
        for (int64_t i = 0; i < tiles; i++) {
            bf16_look_ahead(&t, (const uint16_t *)t.panel + j->depth * BF16_WIDTH,
                            panel + 1 == j->cut.panels ? 0 : tiles, i);
            const bool even = j->way == BF16_DOTS; /* tiles are whole, or not worth less */
            const int64_t begin = even ? rows * i / tiles : i * height;
            const int64_t end = even ? rows * (i + 1) / tiles : (i + 1) * height;
            r.rows = (int)((end < rows ? end : rows) - begin);
            t.a = j->a + (b->in.top + begin) * j->row + b->at;
            if (!whole)
                t.c = b->sums + ((panel - b->in.from) * tiles + i) * BF16_TALLEST * BF16_WIDTH;
            bf16_tile_run(j->way, &t, r.rows);
            if (!last)
                continue;
            r.c = p->c + (b->in.top + begin) * p->c_row + col;
            bf16_store(t.c, &r);
            tile_finish(p->epilogue, r.c, r.c_row, r.rows, r.cols);
        }
    }
}

/* Rows of a piece, [top, top + rows), that go through the panels together, so that these are read
 * once: in parts of their length that stay in the second cache. */
static void run_rows(const job *j, product_piece in) {
    const int64_t height = bf16_height(j->way), rows = in.bottom - in.top;
    const int64_t tiles = (rows + height - 1) / height, parts = (rows * j->row + NEAR - 1) / NEAR;
    _Alignas(64) float one[BF16_TALLEST * BF16_WIDTH];
    block b = {.in = in, .length = j->depth, .sums = one};
    if (parts > 1)
        b.length = bf16_depth((j->depth + parts - 1) / parts);
    const size_t size = (size_t)((in.to - in.from) * tiles) * sizeof one;
    if (b.length < j->depth && !(b.sums = cfx__block_alloc(size))) {
        cfx__error_memory(size, false);
        return;
    }
    for (const int64_t length = b.length; b.at < j->depth; b.at += length) {
        b.length = j->depth - b.at < length ? j->depth - b.at : length;
        run_block(j, &b);
    }
    if (b.sums != one)
        cfx__block_free(b.sums, size);
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const int64_t height = bf16_height(j->way);
    /* tiles wait for panels, dot products do not */
    const int64_t least = j->way == BF16_TILES ? TOGETHER : height;
    const int64_t fit = NEAR / j->row / height * height, near = fit < least ? least : fit;
    bf16_begin(j->way);
    for (int64_t i = begin; i < end; i++) {
        const product_piece b = product_piece_at(j->p, &j->cut, i);
        const int64_t rows = b.bottom - b.top, blocks = (rows + near - 1) / near;
        const int64_t each = ((rows + blocks - 1) / blocks + height - 1) / height * height;
        for (int64_t at = b.top; at < b.bottom; at += each)
            run_rows(j, (product_piece){at, b.bottom - at < each ? b.bottom : at + each, b.from,
                                        b.to});
    }
    bf16_end(j->way);
}

void bf16_product(const product *p, bf16_way way) {
    job j = {.p = p, .way = way, .row = bf16_row(p->k), .depth = bf16_depth(p->k)};
    const int64_t height = bf16_height(way), panels = (p->n + BF16_WIDTH - 1) / BF16_WIDTH;
    /* tiles wait for weights: where there are panels enough, each is read by one thread alone */
    const int64_t whole = (p->m + height - 1) / height * height;
    const int64_t unit = panels >= 2 * cfx_get_num_threads() ? whole : height;
    j.cut = way == BF16_TILES ? product_cut(p, BF16_WIDTH, height, unit, GRAIN_TILES)
                              : product_cut(p, BF16_WIDTH, height, 1, GRAIN_DOTS);
    const size_t size = (size_t)((p->m + height) * j.row) * sizeof *j.a;
    j.a = cfx__block_alloc(size);
    if (!j.a) {
        cfx__error_memory(size, false);
        return;
    }
    cfx__parallel(p->m, 1 + ROUNDED / j.row, round_rows, &j);
    cfx__parallel(j.cut.pieces, 1, run_pieces, &j);
    cfx__block_free(j.a, size);
}
