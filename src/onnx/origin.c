/* Where a node comes from, as PyTorch's exporter notes it: the modules around it. */
#include "onnx.h"

/* A list of texts, as Python writes it; None where the text is none. Scope. */
static cfx_value texts(const char *text) {
    cfx_value v;
    if (!cfx__value_literal(&text, &v) || v.tag != CFX_TAG_LIST)
        return cfx_none();
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        if (cfx_as_list(v)->items[i].tag != CFX_TAG_STR)
            return cfx_none();
    return v;
}

/* The last of both is the call itself. */
void cfx__onnx_note_modules(cfx_node *n, const char *scopes, const char *classes) {
    cfx_value paths = texts(scopes), types = texts(classes);
    if (paths.tag != CFX_TAG_LIST || types.tag != CFX_TAG_LIST ||
        cfx_as_list(paths)->len != cfx_as_list(types)->len)
        return;
    cfx_dict *stack = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_list(paths)->len - 1; i++) {
        cfx_value path = cfx_as_list(paths)->items[i];
        const char *key = *cfx_text(path) ? cfx_text(path) : "self";
        cfx_dict_set(stack, key, cfx_tuple(path, cfx_as_list(types)->items[i]));
    }
    if (stack->len)
        cfx_node_set_meta(n, "nn_module_stack", cfx_dict_value(stack));
}
