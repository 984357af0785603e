/* Products of double precision, of integers and of complex numbers, on one thread. */
#include "gemm_own.h"
#include "widths.h"

enum {
    GEMM_MR = 6,  /* rows of a tile of C */
    GEMM_MC = 96, /* rows of A kept in the second cache */
    GEMM_KC = 256,
    GEMM_NC = 512,
    PART = 256, /* rows and columns of complex matrices that are split at a time */
    LINE = 64
};

#define BODY "gemm_types.inc"
#include "widths.inc"

size_t gemm_room_wide(int64_t m, int64_t n, int64_t k) {
    const int64_t depth = k < GEMM_KC ? k : GEMM_KC;
    const int64_t rows = (m < GEMM_MC ? m : GEMM_MC) + GEMM_MR,
                  cols = (n < GEMM_NC ? n : GEMM_NC) + 16;
    return (size_t)(depth * (rows + cols)) * sizeof(double);
}

void gemm_f64(int64_t m, int64_t n, int64_t k, const double *a, const matrices *as, const double *b,
              const matrices *bs, double alpha, double beta, double *c, int64_t ldc, void *room) {
    BY_WIDTH(vector_bytes(), blocks_f64)(m, n, k, a, as, b, bs, alpha, beta, c, ldc, room);
}

void gemm_i64(int64_t m, int64_t n, int64_t k, const uint64_t *a, const matrices *as,
              const uint64_t *b, const matrices *bs, uint64_t alpha, uint64_t beta, uint64_t *c,
              int64_t ldc, void *room) {
    BY_WIDTH(vector_bytes(), blocks_i64)(m, n, k, a, as, b, bs, alpha, beta, c, ldc, room);
}

#define T float _Complex
#define R float
#define REAL gemm_f32
#define REAL_ROOM gemm_room_f32
#define FN(x) x##_c64
#include "gemm_complex.inc"
#define T double _Complex
#define R double
#define REAL gemm_f64
#define REAL_ROOM gemm_room_wide
#define FN(x) x##_c128
#include "gemm_complex.inc"
