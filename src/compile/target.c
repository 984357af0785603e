/* The target "c": takes the layers that layer.c can write and the loops of loop.c; every result,
 * also of calls, has an arena offset. */
#include "compile.h"

static bool schedule(cfx__loop *l) { return cfx__c_loop_known(l, false); }

/* Elements are read before they are written, and in the last pass over a row alone. */
static bool in_place(const cfx__loop *l, int in, int out) {
    const cfx__loop_lane *a = &l->lanes[in], *b = &l->lanes[out];
    return a->breadth == CFX__LOOP_WIDE && b->breadth == CFX__LOOP_WIDE &&
           a->like->dtype == b->like->dtype && cfx__tensor_same_shape(a->like, b->like) &&
           cfx__plan_lies_like(a->like, b->like);
}

static bool places(const cfx__plan_kernel *k) { return k->op != NULL; }

const cfx__plan_target cfx__plan_c = {.name = "c",
                                      .images = CFX_CHANNELS_LAST,
                                      .row_most = INT64_MAX,
                                      .takes = cfx__c_layer_known,
                                      .schedule = schedule,
                                      .in_place = in_place,
                                      .places = places};
