/* Reductions: a result is folded from many elements.
 *
 * The engine (reduce.c) walks the input where it lies, whatever its strides and dtype, and hands
 * tiles of it to loops: nk results, each folded from nr elements. Loops are written once per fold
 * and type (reduce_fold.inc and its kin). Accumulators of parts that ran apart are merged in a
 * fixed order, so results do not depend on the number of threads. */
#ifndef CFX__REDUCE_H
#define CFX__REDUCE_H

#include "ops.h"

/* Element (k, r) of a tile is x[k * sk + r * sr]; it belongs to result k. */
typedef struct {
    const void *x;
    int64_t nk, sk, nr, sr;
    int64_t first;      /* where element r = 0 stands in the reduced dimension */
    const void *params; /* the caller's */
} reduce_tile;

/* How the loops of reduce_fold.inc cut: a block's lanes join the accumulator at its end. */
enum { FOLD_BLOCK = 1024, FOLD_LANES = 32, FOLD_ROWS = 32 };

/* What the loops of one fold in one dtype do. `acc` is an array of n accumulators. */
typedef struct {
    int size; /* of an accumulator, in bytes */
    void (*start)(void *acc, int64_t n);
    void (*fold)(void *acc, const reduce_tile *t);
    void (*merge)(void *acc, const void *other, int64_t n);
    /* Results, contiguous in out[0] (and out[1]), of folding `count` elements each. */
    void (*finish)(void *const *out, const void *acc, int64_t n, int64_t count, const void *params);
} reduce_loops;

/* A fold: its loops by the dtype computed in; NULL where there are none. */
typedef struct {
    const reduce_loops *f32, *f64, *i64, *b8, *c64, *c128;
    cfx__loop_fold fold; /* what it is called in a loop */
    const char *name; /* in `"name" not implemented for 'Half'` */
    uint32_t stored;  /* dtypes for storage that it takes: CFX_IN_... */
} reducer;

/* The same; where there are none PyTorch's message is recorded. */
const reduce_loops *reducer_need(cfx_op_call *c, const reducer *r, cfx_dtype d, cfx_dtype *as);

/* One reduction as it is run. */
typedef struct {
    const reduce_loops *loops;
    cfx__loop_fold fold;
    const cfx_tensor *x;
    cfx_dtype as;      /* what the loops read */
    uint64_t mask;     /* dims of x that go away */
    bool ordered;      /* one dim at most goes away, and loops look at `first` */
    int nout;
    cfx_tensor *out[2]; /* contiguous, in the order of the dims that stay */
    cfx_dtype out_as[2]; /* what finish writes */
    const void *params;
} reduction;

void reduce_run(const reduction *r);
/* Runs it, or notes that it folds rows where the call has a note. */
void reduce_run_or_note(cfx_op_call *c, const reduction *r);

/* Result i of a reduction of x: the dims of the mask gone, or 1 where keepdim. */
cfx_tensor *out_reduced(cfx_op_call *c, int i, cfx_dtype dtype, const cfx_tensor *x, uint64_t mask,
                        bool keepdim);
/* All dims of x. */
static inline uint64_t all_dims(const cfx_tensor *x) {
    return x->ndim >= 64 ? UINT64_MAX : ((uint64_t)1 << x->ndim) - 1;
}
/* One dim as a mask; a 0-dim tensor has none. */
static inline uint64_t dim_mask(const cfx_tensor *x, int dim) {
    return x->ndim ? (uint64_t)1 << dim : 0;
}
/* False, with PyTorch's IndexError, when a dim that goes away is empty: `name(): Expected ...`. */
bool reduce_nonempty(cfx_op_call *c, const char *name, const cfx_tensor *x, uint64_t mask);

#endif
