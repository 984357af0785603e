/* Creates the layer records of a plan, for the passes that find layers. */
#include "plan.h"

void cfx__plan_put_layer(cfx__lowering *l, const cfx__layer *layer, int x, int add, int n,
                         const int *slots) {
    cfx__plan *p = l->plan;
    const int end = slots[n - 1];
    cfx__plan_kernel *k = &p->kernels[end];
    k->kind = CFX__PLAN_LAYER;
    k->layer = cfx__layer_keep(layer);
    k->x = x;
    k->add = add;
    k->nchain = n;
    k->chain = cfx__arena_alloc(&p->arena, (size_t)n * sizeof *k->chain);
    memcpy(k->chain, slots, (size_t)n * sizeof *k->chain);
    for (int i = 0; i < n; i++)
        l->taken[slots[i]] = true;
    cfx_value_drop(p->given[end]);
    p->given[end] = cfx_value_keep(cfx_tensor_value(cfx__layer_out(k->layer)));
}

const cfx_tensor *cfx__plan_read(const cfx__plan *p, const cfx__plan_kernel *k) {
    return cfx__layer_x(k->first >= 0 ? p->kernels[k->first].layer : k->layer);
}
