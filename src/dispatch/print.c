/* How values of later rooms than the value room print: tensors, operators, nodes and modules. */
#include "dispatch.h"

void cfx__repr_other(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx__text_puts(out, cfx_tensor_str(v.tensor));
    else if (v.tag == CFX_TAG_OP)
        cfx__text_puts(out, cfx_op_name(v.op));
    else if (v.tag == CFX_TAG_NODE)
        cfx__text_puts(out, cfx__node_name(v.node));
    else if (v.tag == CFX_TAG_MODULE)
        cfx__text_puts(out, cfx_module_str(v.module));
    else
        cfx__text_puts(out, "<bad>");
}
