/* A product of halves: A is rounded once, by all threads together, and then multiplied in pieces of
 * rows and panels. Start at bf16_product. */
#include "bf16.h"

#include "../ops.h"

enum {
    NEAR = 1 << 19,       /* elements of A that stay in the second cache */
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

/* Rows [first, last) times panels [from, to). */
static void block(const job *j, int64_t first, int64_t last, int64_t from, int64_t to) {
    _Alignas(64) float sums[BF16_TALLEST * BF16_WIDTH];
    const product *p = j->p;
    const int64_t height = bf16_height(j->way), tiles = (last - first + height - 1) / height;
    const int64_t rows = last - first;
    for (int64_t panel = from; panel < to; panel++) {
        const int64_t col = panel * BF16_WIDTH;
        bf16_tile t = {.row = j->row,
                       .depth = j->depth,
                       .panel = (const uint16_t *)p->panels + col * j->depth,
                       .c = sums};
        bf16_result r = {.cols = (int)(p->n - col < BF16_WIDTH ? p->n - col : BF16_WIDTH),
                         .bias = p->bias ? p->bias + col : NULL,
                         .epilogue = p->epilogue,
                         .c_row = p->c_row};
        for (int64_t i = 0; i < tiles; i++) {
            bf16_look_ahead(&t, (const uint16_t *)t.panel + j->depth * BF16_WIDTH,
                            panel + 1 == j->cut.panels ? 0 : tiles, i);
            const bool even = j->way == BF16_DOTS; /* tiles are whole, or not worth less */
            const int64_t begin = first + (even ? rows * i / tiles : i * height);
            const int64_t end = first + (even ? rows * (i + 1) / tiles : (i + 1) * height);
            r.rows = (int)((end < last ? end : last) - begin);
            t.a = j->a + begin * j->row;
            r.c = p->c + begin * p->c_row + col;
            bf16_tile_run(j->way, &t, r.rows);
            bf16_store(sums, &r);
            tile_finish(p->epilogue, r.c, r.c_row, r.rows, r.cols);
        }
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const int64_t height = bf16_height(j->way), fit = NEAR / j->row / height * height;
    const int64_t near = fit < height ? height : fit;
    bf16_begin(j->way);
    for (int64_t i = begin; i < end; i++) {
        const product_piece b = product_piece_at(j->p, &j->cut, i);
        for (int64_t at = b.top; at < b.bottom; at += near)
            block(j, at, b.bottom - at < near ? b.bottom : at + near, b.from, b.to);
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
