/* Names of a program that was traced again, in the order of the trace. PyTorch's tracer writes down
 * all arithmetic on sizes that vary, what is dropped again as well: inputs are compared with their
 * bounds, and of each tensor that the program gets, or writes to, the memory is computed, which is
 * itemsize * (offset + 1 + the sum of stride * (size - 1)). That arithmetic takes names. */
#include "relations.h"
#include "symints.h"

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

static void take(cfx__merging *g, const char *name) {
    cfx__name_create(&g->m->graph[0]->names, name, false);
}

static bool is_either(cfx_value a, cfx_value b, int64_t number) {
    return (a.tag == CFX_TAG_INT && cfx_integer(a) == number) ||
           (b.tag == CFX_TAG_INT && cfx_integer(b) == number);
}

/* Whether a product varies. One with 1 is not written down, one with 0 is a number. */
static bool take_product(cfx__merging *g, cfx_value a, cfx_value b) {
    bool varies = a.tag == CFX_TAG_SYM || b.tag == CFX_TAG_SYM;
    if (varies && !is_either(a, b, 1))
        take(g, "mul");
    return varies && !is_either(a, b, 0);
}

static void take_memory(cfx__merging *g, const struct cfx__record_wrap *w) {
    cfx_value val = cfx_node_get_meta(w->tensor, "val"), shape = cfx__merge_sizes(val);
    cfx_value stride =
        val.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(val), "stride") : cfx_none();
    cfx_value dtype =
        val.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(val), "dtype") : cfx_none();
    bool varies = false;
    for (int64_t i = 0; is_list(shape) && is_list(stride) && i < cfx_len(shape); i++) {
        cfx_value size = cfx_at(shape, i), less = size;
        if (size.tag == CFX_TAG_SYM) {
            take(g, "eq");
            take(g, "sub");
        } else {
            less = cfx_int(cfx_integer(size) - 1);
        }
        varies |= take_product(g, cfx_at(stride, i), less);
        if (varies)
            take(g, "add");
    }
    if (varies)
        take(g, "add");
    if (varies && dtype.tag == CFX_TAG_DTYPE && cfx_dtype_size(cfx_as_dtype(dtype)) != 1)
        take(g, "mul");
    if (varies && w->written) /* it is enough */
        take(g, "ge");
}

static void take_bounds(cfx__merging *g, const cfx_node *input, cfx_list *seen) {
    cfx_value shape = cfx__merge_sizes(cfx_node_get_meta(input, "val"));
    for (int64_t i = 0; is_list(shape) && i < cfx_len(shape); i++) {
        cfx_value size = cfx_at(shape, i);
        bool again = false;
        for (int64_t k = 0; k < seen->len; k++)
            again |= cfx_equal_values(seen->items[k], size);
        if (size.tag != CFX_TAG_SYM)
            continue;
        if (again)
            take(g, "eq");
        if (!again && cfx__relation_bounds(g->m->worlds, size, true))
            take(g, "ge");
        if (!again && cfx__relation_bounds(g->m->worlds, size, false))
            take(g, "le");
        cfx_list_append(seen, size);
    }
}

/* Arithmetic of numbers that do not vary is no part of the trace. */
static bool is_traced(const cfx_node *n) {
    cfx_value val = cfx_node_get_meta(n, "val");
    bool number = n->op == CFX_CALL_FUNCTION && (!n->target.op || n->target.fn) &&
                  (val.tag == CFX_TAG_INT || val.tag == CFX_TAG_FLOAT);
    for (int64_t i = 0; number && i < cfx_len(n->args); i++)
        if (cfx_at(n->args, i).tag == CFX_TAG_NODE)
            return true;
    return !number;
}

void cfx__symints_name(cfx__merging *g) {
    const cfx__record_log *log = g->m->log[0];
    cfx_graph *graph = g->m->graph[0];
    cfx_list *seen = cfx_as_list(cfx_list_value(0, NULL));
    size_t wraps = 0;
    cfx__graph_rename_begin(graph);
    cfx_each_node(graph, n) if (n->op == CFX_PLACEHOLDER) take_bounds(g, n, seen);
    cfx_each_node(graph, n) {
        if (n->op != CFX_PLACEHOLDER && is_traced(n))
            cfx__node_rename_again(n);
        for (; wraps < log->wraps.len && !cfx_node_precedes(n, log->wraps.data[wraps].after);
             wraps++)
            take_memory(g, &log->wraps.data[wraps]);
    }
    cfx_each_node(graph, n) if (!is_traced(n)) cfx_node_rename(n, "number");
}
