/* attention: softmax(q k' scale + mask) v, without a matrix of all scores.
 *
 * Keys are gone through in blocks; of each row the largest score and the sum so far are kept. Keys
 * and values of a head are brought to panels once and read by all heads of q that share them. */
#ifndef CFX__ATTENTION_H
#define CFX__ATTENTION_H

#include "bf16.h"

typedef struct {
    int64_t batch, heads, rows, keys, size; /* of one head */
    int64_t shared;                         /* heads of q that use one of k and v */
    const float *q, *k, *v;
    int64_t qs[3], ks[3], vs[3]; /* strides of batch, head, row; rows are without gaps */
    const char *mask;            /* NULL: none */
    int64_t ms[4];
    bool mask_bool, causal;
    float scale;
    float *out, *lse; /* lse: the logarithm of the sums; NULL: not wanted */
    int64_t os[3], ls[3];
} flash;

/* How its products are computed: in float32, or by the halves that the machine has. */
bf16_way flash_way(const flash *f, cfx_precision precision);
/* Computes on the threads allowed; an error is recorded where there is no memory. */
void flash_run(const flash *f, bf16_way way);

/* Keys or values of a head as they lie. */
typedef struct {
    const float *from;
    int64_t step, size, keys; /* from one to the next; of one; how many */
} few;

/* Rows of queries or of sums, `wide` floats from one to the next, and those of their scores. */
typedef struct {
    int64_t n, wide, scores;
} few_rows;

/* s = q k' and o += s v. */
void few_scores(const few *f, const few_rows *r, const float *q, float *s);
void few_values(const few *f, const few_rows *r, const float *s, float *o);

#endif
