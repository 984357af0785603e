/* Layers that are kept: see ready.h. */
#include "ready.h"

static void layer_free(void *obj) {
    cfx__layer *l = obj;
    for (int i = 0; i < l->call.nargs; i++)
        cfx_value_drop(l->args[i]);
    cfx_drop(l->call.out[0]);
    cfx_drop((cfx_tensor *)l->integers.scales);
    cfx_drop((cfx_tensor *)l->narrow.integers);
    cfx_drop((cfx_tensor *)l->narrow.scales);
}

static const cfx__obj_type layer_type = {.name = "layer", .free = layer_free};

cfx__layer *cfx__layer_keep(const cfx__layer *from) {
    cfx__layer *l = cfx__obj_make(&layer_type, sizeof *l);
    const cfx_obj head = l->head;
    *l = *from;
    l->head = head;
    l->call.args = l->args;
    for (int i = 0; i < from->call.nargs; i++)
        l->args[i] = cfx_value_keep(from->call.args[i]);
    cfx_keep(l->call.out[0]);
    l->integers = (cfx__integers){0};
    l->narrow = (cfx__narrow){0};
    if (from->epilogue.integers) {
        l->integers = *from->epilogue.integers;
        l->epilogue.integers = &l->integers;
        cfx_keep((cfx_tensor *)l->integers.scales);
    }
    if (from->epilogue.narrow) {
        l->narrow = *from->epilogue.narrow;
        l->epilogue.narrow = &l->narrow;
        cfx_keep((cfx_tensor *)l->narrow.integers);
        cfx_keep((cfx_tensor *)l->narrow.scales);
    }
    return l;
}
