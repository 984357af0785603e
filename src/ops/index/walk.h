/* A walk through indices: one side of it is reached through an index, the other lies in plain
 * order.
 *
 * Gathering, putting, adding rows, embeddings are one loop: dimensions before the indexed ones, the
 * positions of the index, dimensions after. Offsets are made and checked before anything is
 * written, so a bad index leaves all as it was. */
#ifndef CFX__WALK_H
#define CFX__WALK_H

#include "../ops.h"

/* What happens to an element a of the indexed side and its partner b. */
typedef enum {
    WALK_GET, /* b = a */
    WALK_SET, /* a = b */
    WALK_ADD, /* a += alpha * b, and so on: only for float32, float64, int64 and complex */
    WALK_MUL,
    WALK_MAX,
    WALK_MIN
} walk_op;

/* How indices that are negative or out of range are met. */
typedef enum {
    WALK_WRAP = 1,       /* negative ones count from the end */
    WALK_NAMED = 2,      /* "index 7 is out of bounds for dimension 0 with size 5" */
    WALK_RUNTIME = 4,    /* a RuntimeError, not an IndexError */
    WALK_INDEX_COPY = 8, /* the text of index_copy_ */
    WALK_INDICES = 16,   /* "INDICES element is out of DATA bounds, id=7 axis_dim=5" */
    WALK_TAKE = 32,      /* the text of take and put */
    WALK_LAZY = 64       /* where slices have no elements the index is not looked at */
} walk_rule;

typedef struct {
    int64_t n, a, b; /* size, strides of both sides in elements */
} walk_dim;

typedef struct walk {
    walk_op op;
    cfx_dtype dtype;
    char *a, *b;         /* the first elements */
    int64_t positions;   /* of the index */
    const int64_t *at;   /* offset in a of each */
    const int64_t *at_b; /* offset in b of each; NULL: step_b apart */
    int64_t step_b;
    int nouter, ninner; /* dimensions around and inside the positions */
    walk_dim outer[CFX_MAX_DIMS], inner[CFX_MAX_DIMS];
    cfx_value alpha; /* of WALK_ADD; None is 1 */
} walk;

/* Offsets of n indices (contiguous int64 arrays of `positions`) into dimensions of the given sizes
 * and strides; messages number these from `dim` on. NULL, with an error by `rules`, when one is out
 * of range. */
const int64_t *walk_offsets(cfx_op_call *c, unsigned rules, int dim, int64_t positions, int n,
                            const cfx_tensor *const *index, const int64_t *size,
                            const int64_t *stride);
/* Adds a dimension to the outside or the inside, from the outermost on. */
void walk_outer(walk *w, int64_t n, int64_t a, int64_t b);
void walk_inner(walk *w, int64_t n, int64_t a, int64_t b);
void walk_run(cfx_op_call *c, walk *w);

/* The walk of an index along one dimension: a is indexed at `dim` by `index` (contiguous int64,
 * any number of elements), b has that many there and is broadcast where its strides are 0. */
typedef struct {
    unsigned rules;
    cfx_tensor *a, *b;
    int dim;
    const cfx_tensor *index;
    const int64_t *b_stride; /* one for each dimension of a, one at least: they alone tell the shape
                                of b */
    cfx_value alpha;
} walk_line;
void walk_along(cfx_op_call *c, walk_op op, const walk_line *l);

/* t seen as a tensor of this shape, to which it broadcasts; scope. */
cfx_tensor *op_expand(const cfx_tensor *t, int ndim, const int64_t *shape);
/* The start of an operator that gives self with some elements changed: self in c->out[0]. Nothing
 * is copied when the operator runs in place. */
void op_start_from_self(cfx_op_call *c);
/* The dtype that sums of this one are kept in: float32 for halves, int64 for integers and bool. */
cfx_dtype op_lifted(cfx_dtype d);
/* The indices of the elements that are not zero: int64, [count, ndim] with strides {1, count};
 * scope. The bad tensor when memory runs out. */
cfx_tensor *op_nonzero(cfx_op_call *c, const cfx_tensor *t);
/* out /= counts, element by element; integers round down. For float32, float64 and int64. */
void op_divide_counts(cfx_tensor *out, const cfx_tensor *counts);
/* How many are not zero. */
int64_t op_count_nonzero(const cfx_tensor *t);

#endif
