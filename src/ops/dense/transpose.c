/* Matrices of floats turned over, 8 by 8 in registers. */
#include "transpose.h"

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
