/* Fourier transforms of lines of numbers: any length, in time n log n.
 *
 * A plan holds what depends on the length alone. Lengths whose prime factors are small are split by
 * them (Stockham's form, which needs no reordering); others become a convolution of a length that
 * splits (Bluestein). Several lines are transformed at once, side by side in memory, real and
 * imaginary parts apart, so that every inner loop runs over neighbours. */
#ifndef CFX__FFT_H
#define CFX__FFT_H

#include "../ops.h"

enum { FFT_MAX_FACTORS = 64, FFT_LARGEST_FACTOR = 13 };

typedef struct fft_plan {
    int64_t n;                         /* the length */
    int64_t split;                     /* the length that is split: n, or Bluestein's */
    int nfactors, factors[FFT_MAX_FACTORS];
    cfx_dtype as;                      /* F32 or F64: what is computed in */
    void *wr, *wi;                     /* exp(-2 pi i k / split) */
    void *chirp_r, *chirp_i;           /* Bluestein: exp(-pi i k^2 / n), n of them, or NULL */
    void *filter_r, *filter_i;         /* its transform, split of them */
} fft_plan;


typedef enum { FFT_C2C, FFT_R2C, FFT_C2R } fft_kind;

/* One pass: every line of `in` along dimension `dim` is transformed into the same line of `out`
 * (which may be `in`); elements of in beyond the length n are left out, missing ones count as 0,
 * and as many elements are stored as out has. Forward has the minus in its exponent. False, with
 * an error, when memory runs out. */
bool fft_pass(cfx_op_call *c, fft_kind kind, const cfx_tensor *in, cfx_tensor *out, int dim,
              int64_t n, bool forward, double scale);

#endif
