/* gemm_own: the kernels behind gemm.h, on one thread: C = beta C + alpha A B for one matrix.
 *
 * Element (i, j) of A is a[i * as->row + j * as->col]; rows of C are ldc elements apart. `room` is
 * scratch memory of the size that the function beside each tells, aligned to 64 bytes. */
#ifndef CFX__GEMM_OWN_H
#define CFX__GEMM_OWN_H

#include "gemm.h"

/* Single precision, by the tiles of tile.h. */
size_t gemm_room_f32(int64_t m, int64_t n, int64_t k);
void gemm_f32(int64_t m, int64_t n, int64_t k, const float *a, const matrices *as, const float *b,
              const matrices *bs, float alpha, float beta, float *c, int64_t ldc, void *room);

/* The same by oneDNN, which is ahead where products are large; false, with nothing done, where they
 * are not, or it is not there. */
#ifdef CFX_DNN
bool gemm_onednn(int64_t m, int64_t n, int64_t k, const float *a, const matrices *as,
                 const float *b, const matrices *bs, float alpha, float beta, float *c,
                 int64_t ldc);
#else
#define gemm_onednn(...) false
#endif

/* Double precision and integers, which wrap round, by the tiles of gemm.inc. */
size_t gemm_room_wide(int64_t m, int64_t n, int64_t k);
void gemm_f64(int64_t m, int64_t n, int64_t k, const double *a, const matrices *as, const double *b,
              const matrices *bs, double alpha, double beta, double *c, int64_t ldc, void *room);
void gemm_i64(int64_t m, int64_t n, int64_t k, const uint64_t *a, const matrices *as,
              const uint64_t *b, const matrices *bs, uint64_t alpha, uint64_t beta, uint64_t *c,
              int64_t ldc, void *room);

/* Complex numbers, as four real products. */
size_t gemm_room_c64(int64_t m, int64_t n, int64_t k);
void gemm_c64(int64_t m, int64_t n, int64_t k, const float _Complex *a, const matrices *as,
              const float _Complex *b, const matrices *bs, float _Complex alpha,
              float _Complex beta, float _Complex *c, int64_t ldc, void *room);
size_t gemm_room_c128(int64_t m, int64_t n, int64_t k);
void gemm_c128(int64_t m, int64_t n, int64_t k, const double _Complex *a, const matrices *as,
               const double _Complex *b, const matrices *bs, double _Complex alpha,
               double _Complex beta, double _Complex *c, int64_t ldc, void *room);

/* The alpha or beta of a product times a number. Where it has no imaginary part it scales both
 * parts of the number: 0 times infinity is not added to them. No other care is taken for
 * infinities, as in BLAS. */
#define GEMM_SCALED(name, R)                                                                       \
    static inline R _Complex name(R _Complex f, R _Complex x) {                                    \
        const R a = __real__ f, b = __imag__ f, c = __real__ x, d = __imag__ x;                    \
        return b == 0 ? __builtin_complex(a * c, a * d)                                            \
                      : __builtin_complex(a * c - b * d, a * d + b * c);                           \
    }
GEMM_SCALED(scaled_c64, float)
GEMM_SCALED(scaled_c128, double)

#endif
