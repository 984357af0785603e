/* The target "cuda": layers are products and convolutions with any epilogue that can be written
 * as an expression; every result, also of calls, has an arena offset. */
#include "plan.h"

/* Elements are read before they are written, by the thread that writes them, in the last pass over
 * a row alone. */
static bool in_place(const cfx__loop *l, int in, int out) {
    const cfx__loop_lane *a = &l->lanes[in], *b = &l->lanes[out];
    return a->breadth == CFX__LOOP_WIDE && b->breadth == CFX__LOOP_WIDE &&
           a->like->dtype == b->like->dtype && cfx__tensor_same_shape(a->like, b->like) &&
           cfx__plan_lies_like(a->like, b->like);
}

/* Weights of 8 and 4 bits are read as they are by products of a few rows, which wait for them; what
 * multiplies more has them as floats. */
static bool takes(const cfx__layer *l) {
    const cfx__narrow *w = l->epilogue.narrow;
    return !l->epilogue.integers && cfx__c_layer_known(l) &&
           (!w || (l->call.op->layer.product && w->k &&
                   cfx__layer_x(l)->numel <= CFX__CUDA_SKINNY * w->k));
}

static bool schedule(cfx__loop *l) { return cfx__c_loop_known(l, true); }

static bool places(const cfx__plan_kernel *k) { return k->op != NULL; }

#define FIELDS                                                                                     \
    .name = "cuda", .images = CFX_CHANNELS_LAST, .row_most = INT64_MAX, .own_most = CFX__CUDA_OWN, \
    .takes = takes, .schedule = schedule, .in_place = in_place, .places = places

const cfx__plan_target cfx__plan_cuda = {FIELDS, .updates = true};
const cfx__plan_target cfx__plan_cuda_apart = {FIELDS};
