/* The target "cuda": layers are products and convolutions with whatever an expression can say
 * behind them; everything has a place in the arena, results of calls included. */
#include "plan.h"

/* Elements are read before they are written, by the thread that writes them, in the last pass over
 * a row alone. */
static bool in_place(const cfx__loop *l, int in, int out) {
    const cfx__loop_lane *a = &l->lanes[in], *b = &l->lanes[out];
    return a->breadth == CFX__LOOP_WIDE && b->breadth == CFX__LOOP_WIDE &&
           a->like->dtype == b->like->dtype && cfx__tensor_same_shape(a->like, b->like) &&
           cfx__plan_lies_like(a->like, b->like);
}

static bool takes(const cfx__layer *l) {
    return !l->epilogue.integers && !l->epilogue.narrow && cfx__c_layer_known(l);
}

static bool schedule(cfx__loop *l) { return cfx__c_loop_known(l); }

static bool places(const cfx__plan_kernel *k) { return k->op != NULL; }

const cfx__plan_target cfx__plan_cuda = {.name = "cuda",
                                         .images = CFX_CHANNELS_LAST,
                                         .row_most = INT64_MAX,
                                         .takes = takes,
                                         .schedule = schedule,
                                         .in_place = in_place,
                                         .places = places};
