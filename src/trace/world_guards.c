/* The guards that a program was exported with, such as "L['x'].size()[1] % 4 == 0": whether they
 * hold at the sizes of a world. */
#include "worlds.h"

/* The inputs as they are in world k. */
static cfx_dict *inputs_in(const cfx__worlds *w, int k) {
    cfx_dict *inputs = cfx_dict_new();
    cfx_each_node(w->inputs, n) {
        cfx_value val = n->op == CFX_PLACEHOLDER ? cfx_node_get_meta(n, "val") : cfx_none();
        cfx_value tensor = cfx__worlds_tensor(w, k, val);
        if (!cfx_is_none(val))
            cfx_dict_set(inputs, n->name,
                         tensor.tag == CFX_TAG_TENSOR ? tensor : cfx__worlds_value(w, k, val));
    }
    return inputs;
}

bool cfx__worlds_allow(const cfx__worlds *w, int k) {
    bool all = true;
    size_t mark = cfx_scope_open();
    cfx_dict *inputs = w->guards ? inputs_in(w, k) : NULL;
    for (int64_t i = 0; w->guards && i < w->guards->len && all; i++) {
        cfx_value text = w->guards->items[i];
        all = text.tag != CFX_TAG_STR ||
              cfx__guard_holds(cfx_text(text), cfx__guard_source, inputs) != CFX__FALSE;
    }
    cfx_scope_close(mark);
    return all;
}
