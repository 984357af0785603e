/* What the value room asks of tensors, operators, nodes and modules: how they print, t[i]. */
#include "dispatch.h"

#include "../value/later.h"

void cfx__dispatch_repr(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx__text_puts(out, cfx_tensor_str(cfx_as_tensor(v)));
    else if (v.tag == CFX_TAG_OP)
        cfx__text_puts(out, cfx_op_name(cfx_as_op(v)));
    else if (v.tag == CFX_TAG_NODE)
        cfx__text_puts(out, cfx__later_rooms.node_name(cfx_as_node(v)));
    else if (v.tag == CFX_TAG_MODULE)
        cfx__text_puts(out, cfx__later_rooms.module_str(cfx_as_module(v)));
    else
        cfx__text_puts(out, "<bad>");
}

cfx_value cfx__dispatch_item(cfx_value v, int64_t i) {
    return cfx_py_from((cfx_site){0}, "operator.getitem", CFX_ARGS(v, i));
}
