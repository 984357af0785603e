/* Nodes by where they come from: torch.fx's get_source_partitions and find_sequential_partitions.
 * Start at cfx_source_partitions. */
#include "../base/given.h"
#include "split.h"

/* ---- where a node comes from ----------------------------------------------------------------- */

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Whether a source is what was asked for: "Linear" is torch.nn.modules.linear.Linear, and so is
 * "torch.nn.Linear". */
static bool is_source(const char *source, const char *wanted) {
    if (strcmp(last_part(source), last_part(wanted)))
        return false;
    size_t a = strcspn(source, "."), b = strcspn(wanted, ".");
    return !source[a] || !wanted[b] || (a == b && !strncmp(source, wanted, a));
}

static const char *text_at(cfx_value pair, int i) {
    bool fits = (pair.tag == CFX_TAG_TUPLE || pair.tag == CFX_TAG_LIST) &&
                i < cfx_as_list(pair)->len;
    return fits ? cfx_text(cfx_as_list(pair)->items[i]) : NULL;
}

/* What stands for the call of a wanted function that n is part of, None where it is of none: the
 * pair of its number and name, as metadata has them. */
static cfx_value function_call(const cfx_node *n, const char *wanted) {
    cfx_value stack = cfx_node_get_meta(n, "source_fn_stack");
    cfx_value fn = cfx_node_get_meta(n, "torch_fn");
    if (stack.tag == CFX_TAG_LIST && cfx_as_list(stack)->len) {
        cfx_value last = cfx_as_list(stack)->items[cfx_as_list(stack)->len - 1];
        const char *source = text_at(last, 1);
        return source && is_source(source, wanted) ? last : cfx_none();
    }
    const char *kind = text_at(fn, 1), *dot = kind ? strchr(kind, '.') : NULL;
    if (!dot)
        return cfx_none();
    const char *name = cfx__string_new(dot + 1, strcspn(dot + 1, "."))->text;
    return is_source(name, wanted) ? fn : cfx_none();
}

/* The same for the call of a module: its key in the stack, of the innermost that is wanted. */
static cfx_value module_call(const cfx_node *n, const char *wanted) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    for (int64_t i = stack.tag == CFX_TAG_DICT ? cfx_as_dict(stack)->len - 1 : -1; i >= 0; i--) {
        const char *type = text_at(cfx_as_dict(stack)->entries[i].value, 1);
        if (type && is_source(type, wanted))
            return cfx_as_dict(stack)->entries[i].key;
    }
    return cfx_none();
}

/* A graph that was not exported: what a node calls is where it comes from. */
static cfx_value own_call(cfx_node *n, const char *wanted) {
    bool known = !cfx_is_none(cfx_node_get_meta(n, "torch_fn")) ||
                 !cfx_is_none(cfx_node_get_meta(n, "source_fn_stack"));
    return !known && cfx_node_is(n, wanted) ? cfx_node_value(n) : cfx_none();
}

static cfx_value call_of(cfx_node *n, const char *wanted) {
    cfx_value call = function_call(n, wanted);
    if (cfx_is_none(call))
        call = module_call(n, wanted);
    return cfx_is_none(call) ? own_call(n, wanted) : call;
}

/* ---- partitions ------------------------------------------------------------------------------ */

static void add(cfx_dict *set, cfx_node *n) { cfx_dict_put(set, cfx_node_value(n), cfx_none()); }

static bool has(const cfx_dict *set, cfx_node *n) { return cfx_dict_find(set, cfx_node_value(n)); }

static cfx_value keys(const cfx_dict *set) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < set->len; i++)
        cfx_list_append(cfx_as_list(out), set->entries[i].key);
    return out;
}

static cfx_value partition_of(cfx_value nodes, cfx_value source) {
    cfx_dict *own = cfx_dict_new(), *in = cfx_dict_new(), *out = cfx_dict_new();
    cfx_dict *params = cfx_dict_new(), *made = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_list(nodes)->len; i++)
        add(own, cfx_as_node(cfx_as_list(nodes)->items[i]));
    for (int64_t i = 0; i < cfx_as_list(nodes)->len; i++) {
        cfx_node *n = cfx_as_node(cfx_as_list(nodes)->items[i]);
        cfx_each_input(n, u) if (!has(own, u->node) && u->node->op != CFX_GET_ATTR)
            add(in, u->node);
        if (n->op == CFX_GET_ATTR)
            add(params, n);
        else
            cfx_each_user(n, u) if (!has(own, u->user)) add(out, n);
    }
    cfx_dict_set(made, "nodes", nodes);
    cfx_dict_set(made, "source", source);
    cfx_dict_set(made, "input_nodes", keys(in));
    cfx_dict_set(made, "output_nodes", keys(out));
    cfx_dict_set(made, "params", keys(params));
    return cfx_dict_value(made);
}

static bool all_pass(cfx_value nodes, cfx_supports_fn *filter, void *user) {
    for (int64_t i = 0; filter && i < cfx_as_list(nodes)->len; i++)
        if (!filter(cfx_as_node(cfx_as_list(nodes)->items[i]), user))
            return false;
    return true;
}

/* The partitions of one source, in the order of the graph. */
static cfx_value partitions_of(const cfx_graph *g, cfx_value source, cfx_supports_fn *filter,
                               void *user) {
    cfx_dict *calls = cfx_dict_new();
    cfx_value out = cfx_list_value(0, NULL);
    cfx_each_node(g, n) {
        cfx_value call = call_of(n, cfx_text(source));
        if (cfx_is_none(call))
            continue;
        const cfx_value *known = cfx_dict_find(calls, call);
        cfx_value nodes = known ? *known : cfx_list_value(0, NULL);
        if (!known)
            cfx_dict_put(calls, call, nodes);
        cfx_list_append(cfx_as_list(nodes), cfx_node_value(n));
    }
    for (int64_t i = 0; i < calls->len; i++)
        if (all_pass(calls->entries[i].value, filter, user))
            cfx_list_append(cfx_as_list(out), partition_of(calls->entries[i].value, source));
    return out;
}

/* Sources as a list of texts; NULL, with an error, where they are none. */
static cfx_list *sources_of(cfx_site at, const cfx_graph *g, cfx_value wanted) {
    if (!cfx_ok() || !cfx__given(at, g, "graph"))
        return NULL;
    bool fine = wanted.tag == CFX_TAG_LIST || wanted.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; fine && i < cfx_as_list(wanted)->len; i++)
        fine = cfx_text(cfx_as_list(wanted)->items[i]) != NULL;
    if (!fine)
        cfx_fail(CFX_TYPE_ERROR, at,
                 "sources are a list of names of functions and module types, not %s",
                 cfx_value_repr(wanted));
    return fine ? cfx_as_list(wanted) : NULL;
}

cfx_value cfx_source_partitions(const cfx_graph *g, cfx_value wanted, cfx_supports_fn *filter,
                                void *user) {
    size_t mark = cfx_scope_open();
    const cfx_list *sources = sources_of((cfx_site){0}, g, wanted);
    cfx_dict *all = cfx_dict_new();
    for (int64_t i = 0; sources && i < sources->len; i++) {
        cfx_value found = partitions_of(g, sources->items[i], filter, user);
        if (cfx_as_list(found)->len)
            cfx_dict_put(all, sources->items[i], found);
    }
    cfx_value v = cfx_value_keep(sources && cfx_ok() ? cfx_dict_value(all) : cfx_bad());
    cfx_scope_close(mark);
    return cfx__value_scope_own(v);
}

/* ---- one after the other --------------------------------------------------------------------- */

/* Functions and modules that do the same, each after the other. */
static const char *const equivalent[][6] = {
    {"Conv1d", "conv1d"},
    {"Conv2d", "conv2d"},
    {"Conv3d", "conv3d"},
    {"Linear", "linear"},
    {"AdaptiveAvgPool2d", "adaptive_avg_pool2d"},
    {"ReLU", "relu", "relu_"},
    {"BatchNorm2d", "batch_norm"},
    {"Hardtanh", "hardtanh", "hardtanh_"},
    {"add", "iadd", "add_"},
    {"mul", "imul", "mul_"},
};

/* The row of a type; -1 where it has none. */
static int row_of(const char *type) {
    for (int i = 0; i < COUNT(equivalent); i++)
        for (int k = 0; k < COUNT(equivalent[i]) && equivalent[i][k]; k++)
            if (!strcmp(last_part(type), equivalent[i][k]))
                return i;
    return -1;
}

/* Whether no type comes twice, in another spelling either. */
static bool are_unique(const cfx_list *types) {
    for (int64_t i = 0; i < types->len; i++)
        for (int64_t k = 0; k < i; k++) {
            const char *a = cfx_text(types->items[i]), *b = cfx_text(types->items[k]);
            if (!strcmp(a, b) || (row_of(a) >= 0 && row_of(a) == row_of(b)))
                return false;
        }
    return true;
}

static cfx_value first_node(cfx_value partition) {
    return cfx_at(cfx_dict_get(cfx_as_dict(partition), "nodes"), 0);
}

/* All partitions of a type and of what does the same, each set of nodes once. */
static cfx_value typed_partitions(const cfx_graph *g, cfx_value type, cfx_supports_fn *filter,
                                  void *user) {
    cfx_value all = partitions_of(g, type, filter, user);
    cfx_dict *seen = cfx_dict_new();
    int row = row_of(cfx_text(type));
    for (int64_t i = 0; i < cfx_as_list(all)->len; i++)
        cfx_dict_put(seen, first_node(cfx_as_list(all)->items[i]), cfx_none());
    for (int k = 0; row >= 0 && k < COUNT(equivalent[row]) && equivalent[row][k]; k++) {
        if (!strcmp(equivalent[row][k], last_part(cfx_text(type))))
            continue;
        cfx_value more = partitions_of(g, cfx_string_value(equivalent[row][k]), filter, user);
        for (int64_t i = 0; i < cfx_as_list(more)->len; i++) {
            cfx_value one = cfx_as_list(more)->items[i];
            if (!cfx_dict_find(seen, first_node(one)))
                cfx_list_append(cfx_as_list(all), one);
            cfx_dict_put(seen, first_node(one), cfx_none());
        }
    }
    return all;
}

/* Whether a node of b uses one of a. */
static bool are_connected(cfx_value a, cfx_value b) {
    cfx_value nodes = cfx_dict_get(cfx_as_dict(a), "output_nodes");
    cfx_value in = cfx_dict_get(cfx_as_dict(b), "input_nodes");
    for (int64_t i = 0; i < cfx_as_list(nodes)->len; i++)
        for (int64_t k = 0; k < cfx_as_list(in)->len; k++)
            if (cfx_as_node(cfx_as_list(nodes)->items[i]) == cfx_as_node(cfx_as_list(in)->items[k]))
                return true;
    return false;
}

/* Adds the sequences that begin with `begun` and go on with what follows its last one. */
static void go_on(const cfx_list *typed, const cfx_list *begun, cfx_list *out) {
    if (begun->len == typed->len) {
        cfx_list_append(out, cfx_list_value(begun->len, begun->items));
        return;
    }
    const cfx_list *next = cfx_as_list(typed->items[begun->len]);
    for (int64_t i = 0; i < next->len; i++) {
        if (begun->len && !are_connected(begun->items[begun->len - 1], next->items[i]))
            continue;
        cfx_list *longer = cfx_as_list(cfx_list_value(begun->len, begun->items));
        cfx_list_append(longer, next->items[i]);
        go_on(typed, longer, out);
    }
}

cfx_value cfx_sequential_partitions(const cfx_graph *g, cfx_value types, cfx_supports_fn *filter,
                                    void *user) {
    size_t mark = cfx_scope_open();
    const cfx_list *sources = sources_of((cfx_site){0}, g, types);
    cfx_value typed = cfx_list_value(0, NULL), out = cfx_list_value(0, NULL);
    if (sources && !are_unique(sources))
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Invalid partition types: %s. Each type in the sequence must be unique",
                 cfx_value_repr(types));
    for (int64_t i = 0; sources && cfx_ok() && i < sources->len; i++)
        cfx_list_append(cfx_as_list(typed), typed_partitions(g, sources->items[i], filter, user));
    if (sources && cfx_ok() && sources->len)
        go_on(cfx_as_list(typed), cfx_as_list(cfx_list_value(0, NULL)), cfx_as_list(out));
    cfx_value v = cfx_value_keep(sources && cfx_ok() ? out : cfx_bad());
    cfx_scope_close(mark);
    return cfx__value_scope_own(v);
}
