/* torch.utils._pytree in graphs: values are put together and taken apart. A spec is the value
 * itself with an ellipsis for each leaf. */
#include "../ops.h"

static void tree_flatten(cfx_op_call *c) {
    cfx_value leaves = cfx_list_value(0, NULL);
    cfx_value spec = cfx_tree_flatten(c->args[0], cfx_as_list(leaves));
    c->result = cfx_tuple(leaves, spec);
}

static void tree_flatten_spec(cfx_op_call *c) {
    cfx_value leaves = cfx_list_value(0, NULL);
    bool fits = cfx__tree_flatten_as(c->args[1], c->args[0], cfx_as_list(leaves));
    c->result = fits ? leaves : cfx_bad();
    if (fits)
        return;
    cfx_value real = cfx_tree_flatten(c->args[0], cfx_as_list(cfx_list_value(0, NULL)));
    cfx__fail_lines(CFX_RUNTIME_ERROR, c->at,
                    "Real spec %s of object %s is different from expected spec %s.",
                    cfx_tree_spec_text(real), cfx_value_repr(c->args[0]),
                    cfx_tree_spec_text(c->args[1]));
}

static void tree_unflatten(cfx_op_call *c) {
    cfx_value v = c->args[0];
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    c->result = list ? cfx_tree_unflatten(c->args[1], cfx_as_list(v)) : cfx_bad();
    if (!list)
        op_fail_as(TYPE, c, "the leaves of a tree are a list, not %s", cfx_value_type_name(v));
}

CFX_FAMILY(VIEW);
CFX_OP(python_tree_flatten) = {"python::tree_flatten(t tree) -> t",
                               "torch.utils._pytree.tree_flatten", .decompose = tree_flatten,
                               .effects = CFX_COMPOSITE};
CFX_OP(python_tree_flatten_spec) = {"python::tree_flatten_spec(t tree, t spec) -> t",
                                    "torch.fx._pytree.tree_flatten_spec",
                                    .decompose = tree_flatten_spec, .effects = CFX_COMPOSITE};
CFX_OP(python_tree_unflatten) = {"python::tree_unflatten(t leaves, t spec) -> t",
                                 "torch.utils._pytree.tree_unflatten",
                                 .decompose = tree_unflatten, .effects = CFX_COMPOSITE};
