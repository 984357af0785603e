/* bf16: products of halves with sums in single precision, by the machine's own instructions.
 *
 * Machines have them as dot products of pairs in vectors (AVX512-BF16) or as tiles (AMX); both read
 * the same panels. A panel is BF16_WIDTH columns of a matrix: two numbers of one column lie
 * together, the pairs of all columns side by side. Rows are as long as whole steps of a tile, with
 * nothing at their ends. A machine without such instructions goes by tile.h. */
#ifndef CFX__BF16_H
#define CFX__BF16_H

#include "tile.h"

enum {
    BF16_WIDTH = 32,   /* columns of a panel */
    BF16_STEP = 32,    /* numbers that a tile takes from a row at a time */
    BF16_TALLEST = 32, /* rows of a tile, at most */
    BF16_PAD = 32      /* numbers between rows that keep them apart in the first cache */
};

/* The instructions there are; those with tiles have dot products too. */
typedef enum { BF16_NONE, BF16_DOTS, BF16_TILES, BF16_WAYS } bf16_way;
/* Whether this machine, and the system on it, truly has them; BF16_NONE: always. */
bool bf16_has(bf16_way way);
/* The fastest for m rows. */
bf16_way bf16_best(int64_t m);
/* Rows of a tile, at most. */
int bf16_height(bf16_way way);

/* The length of rows that have k numbers, and the elements from one to the next. */
static inline int64_t bf16_depth(int64_t k) { return (k + BF16_STEP - 1) / BF16_STEP * BF16_STEP; }
static inline int64_t bf16_row(int64_t k) { return bf16_depth(k) + BF16_PAD; }

/* n numbers rounded to the nearest half, of two even; then nothing until `depth`. */
void bf16_round(const float *from, int64_t n, int64_t depth, uint16_t *to);

/* Bytes of the panels of a k by n matrix, and making them: see tile_matrix, whose `kept` is not
 * looked at; a row whose `at` is negative is of zeros. On the threads allowed. */
size_t bf16_panels_size(int64_t k, int64_t n);
void bf16_panels_make(const tile_matrix *m, void *to);

/* Rows times a panel. A row is `taps` runs of `depth` elements, one at each of `at`; 0 taps: one
 * run, where the row begins. */
typedef struct {
    const uint16_t *a;
    int64_t row; /* elements from one row to the next */
    int64_t taps, depth;
    const int64_t *at;
    const void *panel;
    float *c;    /* [rows][BF16_WIDTH], aligned to 64 bytes; with tiles, whole tiles of rows */
    bool add;    /* to what is in c; else it is set */
    const char *ahead; /* with tiles: what will be read next, of which `lines` lines of the cache
                          are asked for early at each step */
    int lines;
} bf16_tile;

/* Tile `i` of `tiles` that are run with one panel asks for its share of the next, which lies at
 * `next`; no tiles: there is none. */
static inline void bf16_look_ahead(bf16_tile *t, const uint16_t *next, int64_t tiles, int64_t i) {
    const int64_t lines = BF16_STEP * BF16_WIDTH * 2 / TILE_LINE;
    t->lines = tiles ? (int)((lines + tiles - 1) / tiles) : 0;
    t->ahead = (const char *)next +
               (t->taps ? t->taps : 1) * t->depth / BF16_STEP * TILE_LINE * t->lines * i;
}

/* What a thread does before the first tile and behind the last. */
void bf16_begin(bf16_way way);
void bf16_end(bf16_way way);
/* Computes `rows` rows, bf16_height(way) at most. With tiles, A may be read as far as 16 rows. */
void bf16_tile_run(bf16_way way, const bf16_tile *t, int rows);

/* Sums of a tile go to rows of C with what an epilogue does to them at once. */
typedef struct {
    int rows, cols;
    const float *bias; /* of the columns, padded to a panel; NULL: none */
    const tile_epilogue *epilogue;
    float *c;
    int64_t c_row;
} bf16_result;
void bf16_store(const float *sums, const bf16_result *r);

/* The product of tile.h over such panels; an error is recorded where there is no memory. */
void bf16_product(const product *p, bf16_way way);

#endif
