/* builtin: work for hand-written kernels, with refs as operands. */
#ifndef CFX__CUDA_BUILTIN_H
#define CFX__CUDA_BUILTIN_H

#include "kernels.h"
#include "plan.h"

typedef struct cfx__cuda_piece {
    cfx__cuda_making *m;
    cfx__cuda_work work;
    int n;
    const cfx__c_ref *refs[CFX__CUDA_OPERANDS];
} cfx__cuda_piece;

/* A ref as a kernel sees it, in dims of its own; none where there is no ref. */
static inline cfx__cuda_array cfx__cuda_array_as(cfx__cuda_piece *p, const cfx__c_ref *r, int ndim,
                                                 const int64_t *shape, const int64_t *stride) {
    if (!r || p->n == CFX__CUDA_OPERANDS)
        return (cfx__cuda_array){.operand = -1};
    p->refs[p->n] = r;
    return (cfx__cuda_array){.operand = p->n++,
                             .dtype = r->dtype,
                             .ndim = ndim,
                             .shape = shape,
                             .stride = stride,
                             .at = cfx__cuda_offset(r)};
}

static inline cfx__cuda_array cfx__cuda_array_of(cfx__cuda_piece *p, const cfx__c_ref *r) {
    return r ? cfx__cuda_array_as(p, r, r->ndim, r->shape, r->stride)
             : (cfx__cuda_array){.operand = -1};
}

/* What float32 is multiplied as. Where bfloat16 is asked for, it is stored so; what is not has a
 * reason to be float32. */
cfx__cuda_precision cfx__cuda_precise(void);
/* The first posts as a kernel does them: an addition, then statements over `v`. How many; what
 * stands behind is for a kernel of its own. Then the steps: the kernel, and those. */
int cfx__cuda_after_of(cfx__cuda_piece *p, const struct cfx__c_work *k, cfx__cuda_after *after);
bool cfx__cuda_finish(cfx__cuda_piece *p, int slot, const struct cfx__c_work *k, int done);

/* A product of matrices, with those of the same x that follow where it has few rows, and a
 * convolution of images that are single points (builtin_product.c). */
bool cfx__cuda_matrix_product(cfx__cuda_making *m, int slot, struct cfx__c_work *k,
                              const cfx_op *op);
bool cfx__cuda_points(cfx__cuda_making *m, int slot, struct cfx__c_work *k,
                      const cfx__cuda_window *win);
/* Calls in which order counts: running sums, sorting, the largest (builtin_order.c). */
bool cfx__cuda_try_order(cfx__cuda_making *m, int slot);

#endif
