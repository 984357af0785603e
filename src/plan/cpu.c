/* The CPU target: images are channels last, layers are whatever operators have kernels for, and
 * loops run block by block in the first-level cache (loop_run.c). */
#include "plan.h"

static bool takes(const cfx__layer *l) { return l->call.op->takes(l); }

/* ---- two as one ------------------------------------------------------------------------------ */

/* The slot of the layer whose result kernel k reads, where nothing else does and nobody looks on;
 * -1: none. A result with a home is read by the whole. */
static int before(const cfx__lowering *l, const cfx__plan_kernel *k) {
    const cfx__plan_kernel *first = k->x >= 0 ? &l->plan->kernels[k->x] : NULL;
    return first && first->kind == CFX__PLAN_LAYER && k->add != k->x &&
                   cfx__plan_only_user(l, k->x) == k->chain[0] &&
                   !cfx__plan_wants(l->e, first->step->node) &&
                   cfx__plan_lies_like(cfx__layer_out(first->layer), cfx__layer_x(k->layer))
               ? k->x
               : -1;
}

/* Kernel k computes the layer at slot `first` too, whose result goes to it a part at a time. What
 * that reads has to be there as long: nothing writes to what a layer reads. */
static void join(cfx__lowering *l, int first, cfx__plan_kernel *k, cfx__ready *both) {
    cfx__plan_kernel *a = &l->plan->kernels[first];
    const size_t size = sizeof *k->chain;
    int *chain = cfx__arena_alloc(&l->plan->arena, (size_t)(a->nchain + k->nchain) * size);
    memcpy(chain, a->chain, (size_t)a->nchain * size);
    memcpy(chain + a->nchain, k->chain, (size_t)k->nchain * size);
    cfx_drop(k->ready);
    cfx_drop(a->ready);
    k->ready = both;
    k->first = first;
    k->x = a->x;
    k->chain = chain;
    k->nchain += a->nchain;
    a->ready = NULL;
    a->kind = CFX__PLAN_NONE;
    a->x = a->add = -1;
    a->nchain = 0;
}

static bool bind(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    for (int i = 0; i < p->n && cfx_ok(); i++) {
        cfx__plan_kernel *k = &p->kernels[i];
        if (k->kind != CFX__PLAN_LAYER)
            continue;
        size_t mark = cfx_scope_open();
        k->ready = cfx__plan_ready(p, k);
        cfx_scope_close(mark);
        if (!k->ready) /* there was no memory for it */
            return false;
        const int first = k->ready->behind ? before(l, k) : -1;
        cfx__ready *both =
            first >= 0 ? k->ready->behind(p->kernels[first].ready, k->ready) : NULL;
        if (both)
            join(l, first, k, both);
        if (k->ready->scratch > p->scratch)
            p->scratch = k->ready->scratch;
    }
    return cfx_ok();
}

cfx__ready *cfx__plan_ready(const cfx__plan *p, const cfx__plan_kernel *k) {
    cfx__ready *own = k->layer->call.op->make(k->layer);
    if (k->first < 0 || !own)
        return own;
    const cfx__layer *before = p->kernels[k->first].layer;
    cfx__ready *first = own->behind ? before->call.op->make(before) : NULL;
    cfx__ready *both = first ? own->behind(first, own) : NULL;
    cfx_drop(first);
    cfx_drop(own);
    return both;
}

const cfx__plan_target cfx__plan_cpu = {
    .name = "cpu",
    .images = CFX_CHANNELS_LAST,
    .row_most = CFX__LOOP_ROW_MOST,
    .updates = true,
    .least = 1,
    .takes = takes,
    .schedule = cfx__loop_schedule,
    .in_place = cfx__loop_in_place,
    .bind = bind,
};
