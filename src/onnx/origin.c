/* The origin of a node in the metadata that PyTorch's exporter writes: its modules and source
 * lines. Nodes that other tools add to a model, such as quantizers, have none: they belong
 * to the modules that all of their neighbours are in. */
#include "onnx.h"

#include "../graph/graph.h"

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

/* The modules around both of two nodes; None, of a node that may be anywhere, gives the other. */
static cfx_value common(cfx_value a, cfx_value b) {
    if (a.tag != CFX_TAG_DICT || b.tag != CFX_TAG_DICT)
        return a.tag == CFX_TAG_DICT ? a : b;
    const cfx_dict *x = cfx_as_dict(a), *y = cfx_as_dict(b);
    int64_t n = 0;
    while (n < x->len && n < y->len &&
           cfx_equal_values(x->entries[n].key, y->entries[n].key) &&
           cfx_equal_values(x->entries[n].value, y->entries[n].value))
        n++;
    if (n == x->len || n == y->len)
        return n == x->len ? a : b;
    cfx_dict *both = cfx_dict_new();
    for (int64_t i = 0; i < n; i++)
        cfx_dict_put(both, x->entries[i].key, x->entries[i].value);
    return cfx_dict_value(both);
}

/* The modules that a node is in; of a tensor of the file None, and of an input none at all. */
static cfx_value modules_of(const cfx_node *n, bool weight) {
    if (n->op == CFX_PLACEHOLDER)
        return weight ? cfx_none() : cfx_dict_value(cfx_dict_new());
    return cfx_node_get_meta(n, "nn_module_stack");
}

static uint32_t id_of(const cfx_node *n) { return cfx__node_of(n)->id; }

void cfx__onnx_place_rest(cfx_graph *g, const cfx_node *last_weight) {
    bool weight = last_weight != NULL, any = false;
    cfx_value *givers = cfx__alloc((g->made.len + 1) * sizeof *givers);
    cfx_value *takers = cfx__alloc((g->made.len + 1) * sizeof *takers);
    cfx_each_node(g, n) {
        cfx_value at = takers[id_of(n)] = modules_of(n, weight);
        any |= n->op != CFX_PLACEHOLDER && at.tag == CFX_TAG_DICT;
        if (at.tag != CFX_TAG_DICT)
            cfx_each_input(n, u)
                at = common(at, givers[id_of(u->node)]);
        givers[id_of(n)] = at;
        weight &= n != last_weight;
    }
    for (cfx_node *n = cfx_graph_last(g); n && any; n = cfx_node_before(n)) {
        cfx_value *at = &takers[id_of(n)];
        if (at->tag == CFX_TAG_DICT || n->op == CFX_PLACEHOLDER || n->op == CFX_OUTPUT)
            continue;
        cfx_each_user(n, u)
            *at = common(*at, takers[id_of(u->user)]);
        cfx_value all = common(givers[id_of(n)], *at);
        if (all.tag == CFX_TAG_DICT && cfx_as_dict(all)->len)
            cfx_node_set_meta(n, "nn_module_stack", all);
    }
    cfx__free(givers);
    cfx__free(takers);
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
