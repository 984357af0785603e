/* The origin of a node in the metadata that PyTorch's exporter writes: its modules and source
 * lines. */
#include "onnx.h"

#define SCOPES "pkg.torch.onnx.name_scopes"
#define CLASSES "pkg.torch.onnx.class_hierarchy"
#define LINES "pkg.torch.onnx.stack_trace"

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
static void note_modules(cfx_node *n, const char *scopes, const char *classes) {
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

void cfx__onnx_note_origin(const cfx__onnx_node *n, cfx_node *made) {
    const char *scopes = NULL, *classes = NULL;
    for (size_t i = 0; i < n->nprops; i++) {
        const cfx__onnx_pair *p = &n->props[i];
        if (!strcmp(p->key, SCOPES))
            scopes = p->value;
        else if (!strcmp(p->key, CLASSES))
            classes = p->value;
        else if (!strcmp(p->key, LINES))
            cfx_node_set_meta(made, "stack_trace", cfx_string_value(p->value));
    }
    if (scopes && classes)
        note_modules(made, scopes, classes);
}

static void put_pair(cfx__text *to, const char *key, const char *value) {
    cfx__text pair = {0};
    cfx__wire_put_text(&pair, 1, key);
    cfx__wire_put_text(&pair, 2, value);
    cfx__wire_put_bytes(to, 9, pair.data, pair.len);
    cfx__text_release(&pair);
}

void cfx__onnx_put_origin(cfx__text *to, const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    const char *lines = cfx_text(cfx_node_get_meta(n, "stack_trace"));
    if (stack.tag == CFX_TAG_DICT && cfx_as_dict(stack)->len) CFX_SCOPE {
        cfx_value paths = cfx_list_value(0, NULL), types = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_dict(stack)->len; i++) {
            cfx_value at = cfx_as_dict(stack)->entries[i].value;
            if (at.tag != CFX_TAG_TUPLE || cfx_as_list(at)->len != 2 || !cfx_text(cfx_at(at, 0)) ||
                !cfx_text(cfx_at(at, 1)))
                continue;
            cfx_list_append(cfx_as_list(paths), cfx_at(at, 0));
            cfx_list_append(cfx_as_list(types), cfx_at(at, 1));
        }
        cfx_list_append(cfx_as_list(paths), cfx_string_value(n->name));
        cfx_list_append(cfx_as_list(types), cfx_string_value(n->target.name));
        put_pair(to, SCOPES, cfx_value_repr(paths));
        put_pair(to, CLASSES, cfx_value_repr(types));
    }
    if (lines)
        put_pair(to, LINES, lines);
}
