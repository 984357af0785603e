/* Pooling over windows: geometry that max and average pooling share.
 *
 * Two and three dimensions are one: a missing one is of size 1, in front. */
#ifndef CFX__POOL_H
#define CFX__POOL_H

#include "../dense.h"

typedef struct {
    int dims;              /* 2 or 3 that are pooled over */
    bool plain;            /* results are contiguous, whatever the input is */
    int64_t in[3], out[3]; /* sizes */
    int64_t k[3], step[3], pad[3], dil[3];
    int64_t planes, in_plane, out_plane; /* batch times channels, elements of one */
    bool include_pad;
    int64_t divisor; /* 0: the size of the window */
    const void *x;
    void *y;
    int64_t *index; /* where the maxima were, or NULL */
    cfx_tensor *dense[2]; /* what y and index point into */
} pool;

/* What differs between the operators: names in messages, arguments after self, k, stride, pad. */
typedef struct {
    const char *name;
    int dims;
    bool max;      /* has dilation, then ceil_mode; else ceil_mode, count_include_pad, divisor */
    bool backward; /* grad_output comes first */
} pool_row;

/* Result i of the shape that the pool gives (or of its input), in the format of `like`; in PyTorch
 * only maxima over windows are channels last where volumes are. */
void pool_out(cfx_op_call *c, int i, const pool *p, cfx_dtype dtype, const cfx_tensor *like,
              bool input);
/* The product of three sizes; 0 where it does not fit. */
int64_t pool_volume(const int64_t *size);
/* Sizes of batch times channels and the pooled dimensions of t; false when it has too few. */
bool pool_sizes(pool *p, const cfx_tensor *t, int dims);
/* Dense memory for the results, which p then points to, as to the first argument: false where there
 * is none. pool_done stores the results. */
bool pool_begin(cfx_op_call *c, pool *p);
void pool_done(cfx_op_call *c, const pool *p);
/* The columns of a row, whose kernel wants contiguous arguments. */
#define POOL(shape_, kernel_, row_, dtypes_)                                                       \
    .shape = shape_, .kernel = kernel_, .row = row_, .dtypes = dtypes_,                            \
    .effects = CFX_CONTIGUOUS_ARGS
/* Whether there is a kernel for a pool as a layer: its image lies channels last; and that kernel.
 * The caller owns a count. */
bool pool_last_takes(const struct cfx__layer *l, bool max);
struct cfx__ready *pool_last_ready(const struct cfx__layer *l, const pool *p, bool max,
                                   bool adaptive);
/* Scatters grad (shape of out) to the places that index names, plane by plane, adding. */
void pool_scatter(cfx_op_call *c, pool *p, const cfx_tensor *grad, const cfx_tensor *index);

/* Gradients: pool_back.c. Each serves two and three dimensions. */
cfx_grad_fn grad_max_pool, grad_adaptive_max_pool, grad_fractional_max_pool, grad_max_pool_backward,
    grad_max_unpool, grad_avg_pool, grad_avg_pool_backward, grad_adaptive_avg_pool,
    grad_adaptive_avg_pool_backward;

/* The range of kernel positions that lie inside the input. */
static inline void pool_clip(const pool *p, int d, int64_t o, int64_t *from, int64_t *to) {
    int64_t start = o * p->step[d] - p->pad[d], dil = p->dil[d];
    int64_t end = (p->in[d] - start + dil - 1) / dil;
    *from = start < 0 ? (-start + dil - 1) / dil : 0;
    *to = end < p->k[d] ? end : p->k[d];
}

/* How far a window reaches, padding included but not beyond it. */
static inline double pool_span(const pool *p, int d, int64_t o) {
    int64_t start = o * p->step[d] - p->pad[d], end = start + p->k[d];
    int64_t limit = p->in[d] + p->pad[d];
    return (double)((end < limit ? end : limit) - start);
}

#endif
