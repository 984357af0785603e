/* A product of single precision over the tiles of tile.h, where no factor is kept in panels: B is
 * packed a block at a time, A is read as it lies or copied together where that is slow. */
#include "gemm_own.h"
#include "tile.h"
#include "transpose.h"

enum {
    DEPTH = 256,            /* elements of a row that are multiplied at once: a panel stays near */
    WIDTH = 512,            /* columns of B that are packed together */
    ROWS = 8 * TILE_TALLEST, /* of A that are multiplied with them at a time */
    PAD = 16,               /* between copied rows, so that they do not meet in the first cache */
    ALIAS = 512             /* rows of A so far apart do */
};

size_t gemm_room_f32(int64_t m, int64_t n, int64_t k) {
    const int64_t depth = k < DEPTH ? k : DEPTH;
    const int64_t cols = (n < WIDTH ? n : WIDTH) + tile_width(), rows = m < ROWS ? m : ROWS;
    return (size_t)(depth * cols + rows * (DEPTH + PAD)) * sizeof(float);
}

/* Columns [0, n) of k rows of B, times alpha, in panels; the last one is filled up with zeros. */
static void pack(const float *b, const matrices *bs, int64_t k, int64_t n, float alpha, float *to) {
    const int64_t width = tile_width();
    for (int64_t j = 0; j < n; j += width, to += k * width) {
        const int64_t cols = n - j < width ? n - j : width;
        const float *from = b + j * bs->col;
        if (cols < width)
            memset(to, 0, (size_t)(k * width) * sizeof *to);
        if (bs->col == 1)
            for (int64_t p = 0; p < k; p++)
                memcpy(to + p * width, from + p * bs->row, (size_t)cols * sizeof *to);
        else if (bs->row == 1)
            transpose_f32(cols, k, from, bs->col, to, width);
        else
            for (int64_t p = 0; p < k; p++)
                for (int64_t q = 0; q < cols; q++)
                    to[p * width + q] = from[p * bs->row + q * bs->col];
        for (int64_t i = 0; alpha != 1 && i < k * width; i++)
            to[i] *= alpha;
    }
}

/* Rows of A with their elements side by side, `*row` elements apart: where they lie, or in `to`. */
static const float *rows_of_a(const float *a, const matrices *as, int64_t m, int64_t k, float *to,
                              int64_t *row) {
    *row = as->row;
    if (as->col == 1 && (m == 1 || as->row % ALIAS))
        return a;
    *row = DEPTH + PAD;
    for (int64_t i = 0; as->col == 1 && i < m; i++)
        memcpy(to + i * *row, a + i * as->row, (size_t)k * sizeof *to);
    if (as->row == 1 && as->col != 1)
        transpose_f32(k, m, a, as->col, to, *row);
    for (int64_t i = 0; as->row != 1 && as->col != 1 && i < m; i++)
        for (int64_t p = 0; p < k; p++)
            to[i * *row + p] = a[i * as->row + p * as->col];
    return to;
}

/* m rows of A times the packed columns. */
static void multiply(const float *a, int64_t row, int64_t m, const float *panels, int64_t k,
                     int64_t n, bool add, float *c, int64_t ldc) {
    static const int64_t none[1];
    const int64_t width = tile_width(), height = tile_height();
    const int64_t tiles = (m + height - 1) / height;
    for (int64_t j = 0; j < n; j += width, panels += k * width) {
        tile t = {.row = row,
                  .taps = 1,
                  .length = k,
                  .at = none,
                  .panel = panels,
                  .kept = CFX_PRECISION_F32,
                  .c_row = ldc,
                  .cols = (int)(n - j < width ? n - j : width),
                  .add = add};
        for (int64_t i = 0; i < tiles; i++) { /* of nearly the same height */
            const int64_t begin = m * i / tiles, end = m * (i + 1) / tiles;
            t.a = a + begin * row;
            t.c = c + begin * ldc + j;
            tile_run(&t, (int)(end - begin));
        }
    }
}

void gemm_f32(int64_t m, int64_t n, int64_t k, const float *a, const matrices *as, const float *b,
              const matrices *bs, float alpha, float beta, float *c, int64_t ldc, void *room) {
    float *panels = room;
    float *rows = panels + (k < DEPTH ? k : DEPTH) * ((n < WIDTH ? n : WIDTH) + tile_width());
    for (int64_t i = 0; beta != 0 && beta != 1 && i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * ldc + j] *= beta;
    for (int64_t j = 0; j < n; j += WIDTH) {
        const int64_t cols = n - j < WIDTH ? n - j : WIDTH;
        for (int64_t p = 0; p < k; p += DEPTH) {
            const int64_t depth = k - p < DEPTH ? k - p : DEPTH;
            pack(b + p * bs->row + j * bs->col, bs, depth, cols, alpha, panels);
            for (int64_t i = 0; i < m; i += ROWS) {
                const int64_t some = m - i < ROWS ? m - i : ROWS;
                int64_t row;
                const float *from =
                    rows_of_a(a + i * as->row + p * as->col, as, some, depth, rows, &row);
                multiply(from, row, some, panels, depth, cols, p || beta != 0,
                         c + i * ldc + j, ldc);
            }
        }
    }
}
