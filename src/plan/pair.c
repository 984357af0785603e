/* Two kernels as one: what the first gives goes to the second alone, a part at a time. */
#include "plan.h"

/* The kernel whose result kernel k reads, where nothing else does and nobody looks on; NULL: none.
 * A result with a home is read by the whole. */
static cfx__plan_kernel *before(const cfx__lowering *l, const cfx__plan_kernel *k) {
    cfx__plan_kernel *first = k->x >= 0 ? &l->plan->kernels[k->x] : NULL;
    return first && first->kind == CFX__PLAN_READY && k->add != k->x &&
                   cfx__plan_only_user(l, k->x) == k->chain[0] &&
                   !cfx__plan_wants(l->e, first->step->node) &&
                   cfx__plan_lies_like(first->like, k->x_like)
               ? first
               : NULL;
}

/* What the first reads has to be there as long: nothing writes to what a ready kernel reads. */
static void join(cfx__lowering *l, cfx__plan_kernel *first, cfx__plan_kernel *k, cfx__ready *both) {
    const size_t size = sizeof *k->chain;
    int *chain = cfx__arena_alloc(&l->plan->arena, (size_t)(first->nchain + k->nchain) * size);
    memcpy(chain, first->chain, (size_t)first->nchain * size);
    memcpy(chain + first->nchain, k->chain, (size_t)k->nchain * size);
    cfx_drop(k->ready);
    cfx_drop(k->x_like);
    k->ready = both;
    k->x = first->x;
    k->x_like = first->x_like;
    k->chain = chain;
    k->nchain += first->nchain;
    k->nposts += first->nposts;
    if (both->scratch > l->plan->scratch)
        l->plan->scratch = both->scratch;
    cfx_drop(first->ready);
    cfx_drop(first->like);
    *first = (cfx__plan_kernel){.step = first->step, .x = -1, .add = -1};
}

void cfx__plan_pair(cfx__lowering *l) {
    for (int i = 0; i < l->plan->n; i++) {
        cfx__plan_kernel *k = &l->plan->kernels[i];
        if (k->kind != CFX__PLAN_READY || !k->ready->behind)
            continue;
        cfx__plan_kernel *first = before(l, k);
        cfx__ready *both = first ? k->ready->behind(first->ready, k->ready) : NULL;
        if (both)
            join(l, first, k, both);
    }
}
