/* random: what the files of random numbers share. */
#ifndef CFX__RANDOM_H
#define CFX__RANDOM_H

#include "tensor.h"

typedef enum cfx__random_kind {
    CFX__RANDOM_UNIFORM,
    CFX__RANDOM_NORMAL,
    CFX__RANDOM_LOG_NORMAL,
    CFX__RANDOM_EXPONENTIAL,
    CFX__RANDOM_GEOMETRIC,
    CFX__RANDOM_CAUCHY,
    CFX__RANDOM_COIN,
    CFX__RANDOM_COIN_EACH,
    CFX__RANDOM_RANGE,
    CFX__RANDOM_ANY
} cfx__random_kind;

/* Where a tensor on a card is in the stream of numbers there (philox.c). */
typedef struct cfx__philox {
    uint64_t seed, call; /* the first that its threads make */
    int64_t threads, next; /* the element that is drawn next */
    int per_call; /* elements that a call of a thread is for */
} cfx__philox;

/* What a filler draws: n numbers at a time, as double or int64. */
typedef struct cfx__random_draw {
    cfx__random_kind kind;
    void (*fn)(cfx__generator *g, const struct cfx__random_draw *d, void *out, int64_t n);
    cfx_dtype as;    /* CFX_F64 or CFX_I64: what fn writes */
    cfx_dtype dtype; /* of the tensor; set by cfx__random_fill */
    double a, b;     /* parameters of the distribution */
    double end;      /* UNIFORM: what is not drawn any more */
    cfx__philox *card; /* NULL: the tensor is on the host */
    int64_t base;
    uint64_t range;
    const cfx_tensor *p; /* numbers of the tensor's shape, one an element, or NULL, ... */
    double *each;        /* ... of which these belong to the elements that fn draws */
} cfx__random_draw;

/* Sets all elements of t in the order of memory. */
void cfx__random_fill(cfx__generator *g, cfx_tensor *t, cfx__random_draw d);
/* Lets a draw be that of PyTorch's CUDA generator for a tensor on a card. */
void cfx__philox_begin(cfx__philox *s, cfx__generator *g, const cfx_tensor *t,
                       cfx__random_draw *d);
/* The seed of a card's generator, and the call from which on its threads draw; `words` of each are
 * taken, a multiple of four. */
uint64_t cfx__generator_card(cfx__generator *g, cfx_device d, uint64_t words, uint64_t *call);
/* Whether `held`; where not, the sentence is recorded as a RuntimeError. */
bool cfx__random_require(bool held, const char *fmt, ...) CFX_PRINTF(2, 3);
/* x as an element of a floating-point type. */
double cfx__random_rounded(cfx_dtype d, double x);
/* [0, 1) with 24 bits. */
float cfx__random_float(cfx__generator *g);

#endif
