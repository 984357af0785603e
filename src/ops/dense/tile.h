/* tile: products in single precision by kernels of our own, over weights in panels.
 *
 * A panel is as many columns of the weights as two vectors of the machine hold, row after row, so
 * that a kernel reads it from end to end. The kernel keeps a tile of the result in registers: some
 * rows of A times one panel, with the bias, what is added and the bounds of the result. Kernels
 * know no threads: those who call them cut the work. NaN goes through all of it. */
#ifndef CFX__TILE_H
#define CFX__TILE_H

#include "../ready.h"

enum { TILE_WIDEST = 32, TILE_TALLEST = 14, /* columns of a panel, rows of a tile, at most */
       TILE_RUN = 8, TILE_LINE = 64 };

/* Rows of A times a panel. A row is `taps` runs of `length` elements, one at each of `at`. */
typedef struct {
    const float *a;
    int64_t row; /* from one row of A to the next, in elements */
    int64_t taps, length;
    const int64_t *at;
    const void *panel; /* [taps * length][tile_width()] */
    cfx_precision kept;         /* what its elements are */
    float *c;
    int64_t c_row;
    int cols;          /* of the panel that are wanted */
    const float *bias; /* of the panel's columns, padded to its width; NULL: none */
    bool add;          /* to what c holds */
    bool bounded;
    float low, high;
    const char *ahead; /* what will be read next: `lines` lines of the cache every TILE_RUN elements
                          are asked for early */
    int lines;
} tile;

/* Columns of a panel and the most rows of a tile, on this machine. */
int tile_width(void);
int tile_height(void);
/* Computes `rows` rows, tile_height() at most. */
void tile_run(const tile *t, int rows);

/* Bytes of an element, and of the panels of a k by n matrix. */
/* What this thread's plans keep weights in: the CPU has no tf32, and is exact in its place. */
static inline cfx_precision tile_precision(void) {
    const cfx_precision p = cfx_get_precision();
    return p == CFX_PRECISION_TF32 ? CFX_PRECISION_F32 : p;
}

static inline int tile_bytes(cfx_precision kept) { return kept == CFX_PRECISION_F32 ? 4 : 2; }
size_t tile_panels_size(int64_t k, int64_t n, cfx_precision kept);
/* Makes them: element (i, j) of the matrix is w[i * row + j * col], or w[at[i] + j * col] where
 * `at` is given. On the threads allowed. */
typedef struct {
    int64_t k, n;
    const float *w;
    int64_t row, col;
    const int64_t *at;
    cfx_precision kept;
} tile_matrix;
void tile_panels_make(const tile_matrix *m, void *to);

/* ---- epilogues ------------------------------------------------------------------------------- */

/* Rows of a result, `row` elements apart. */
typedef struct {
    float *c;
    int64_t row, rows, cols;
} tile_rows;

typedef void tile_post_fn(const tile_rows *r, float low, float high);

/* An epilogue as kernels take it: an addition, bounds, and what else is done to each element. */
typedef struct {
    bool add, bounded;
    float low, high;
    int n;
    struct {
        tile_post_fn *run;
        float low, high;
    } post[CFX__POSTS];
} tile_epilogue;

/* False where a post is none that is known here. */
bool tile_epilogue_of(const cfx__epilogue *e, tile_epilogue *to);
/* The posts on rows of a result, `row` elements apart. */
void tile_finish(const tile_epilogue *e, float *c, int64_t row, int64_t rows, int64_t cols);

/* ---- products -------------------------------------------------------------------------------- */

/* C [m, n] = A [m, k] W + bias, with an epilogue. Rows of A come in lines of `line` rows: row i is
 * at a + i / line * a_line + i % line * a_row. */
typedef struct {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, line, a_line;
    const void *panels;
    cfx_precision kept;
    const struct narrow_panels *narrow; /* panels in their place, unpacked as they are needed */
    const float *bias; /* padded to whole panels; NULL: none */
    float *c;
    int64_t c_row;
    const tile_epilogue *epilogue;
} product;

/* Pieces of rows and panels, near to squares of the result, for the threads allowed. Rows of a tile
 * are `height` at most, those of a piece whole units; `grain` is how many multiplications are worth
 * a thread. Pieces are numbered by rows, then by panels. */
typedef struct {
    int64_t panels, parts; /* of the columns */
    int64_t rows, cols;    /* of a piece: rows, panels */
    int64_t pieces;
} product_pieces;

product_pieces product_cut(const product *p, int64_t width, int64_t height, int64_t unit,
                           double grain);
/* Rows and panels of a piece. */
typedef struct {
    int64_t top, bottom, from, to;
} product_piece;
product_piece product_piece_at(const product *p, const product_pieces *cut, int64_t piece);
static inline const float *product_line(const product *p, int64_t i) {
    return p->a + i / p->line * p->a_line + i % p->line * p->a_row;
}

/* Computes on the threads allowed; an error is recorded where there is no memory. */
void product_run(const product *p);
/* A contiguous bias in whole panels of any kernel, kept with its storage where it is all of that;
 * the caller owns a count. NULL when out of memory. */
cfx__packed *product_bias(const cfx_tensor *bias);
/* Elements from a row of a result to the next, where those are all alike; 0: they are not. */
int64_t product_row(const cfx_tensor *out);

#endif
