/* random: what the files of random numbers share. */
#ifndef CFX__RANDOM_H
#define CFX__RANDOM_H

#include "tensor.h"

/* What a filler draws: n numbers at a time, as double or int64. */
typedef struct cfx__random_draw {
    void (*fn)(cfx__generator *g, const struct cfx__random_draw *d, void *out, int64_t n);
    cfx_dtype as;    /* CFX_F64 or CFX_I64: what fn writes */
    cfx_dtype dtype; /* of the tensor; set by cfx__random_fill */
    double a, b;     /* parameters of the distribution */
    int64_t base;
    uint64_t range;
    const cfx_tensor *p; /* numbers of the tensor's shape, one an element, or NULL, ... */
    double *each;        /* ... of which these belong to the elements that fn draws */
} cfx__random_draw;

/* Sets all elements of t in the order of memory. */
void cfx__random_fill(cfx__generator *g, cfx_tensor *t, cfx__random_draw d);
/* Whether `held`; where not, the sentence is recorded as a RuntimeError. */
bool cfx__random_require(bool held, const char *fmt, ...) CFX_PRINTF(2, 3);
/* x as an element of a floating-point type. */
double cfx__random_rounded(cfx_dtype d, double x);
/* [0, 1) with 24 bits. */
float cfx__random_float(cfx__generator *g);

#endif
