/* Graphs of evil calls: nodes that call any operator on earlier nodes and on values of any kind.
 * They are run, exported to files, decomposed and drawn. */
#include "fuzz.h"

#include "dispatch/dispatch.h"
#include "tensor/tensor.h"

static cfx_node *nodes[64];
static int count;

static cfx_value operand(fuzz_bytes *b) {
    return fuzz_below(b, 3) ? cfx_node_value(nodes[fuzz_below(b, (uint32_t)count)])
                            : fuzz_value(b, 1);
}

static bool holds_tensor(cfx_value v) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            if (holds_tensor(cfx_as_list(v)->items[i]))
                return true;
    return v.tag == CFX_TAG_TENSOR;
}

/* An argument of the kind that the schema names, more often than not; no tensor by value. */
static cfx_value argument(fuzz_bytes *b, const cfx__schema_arg *a) {
    cfx_value v = cfx_none();
    if (a->type == CFX__T_TENSOR && !a->list && fuzz_below(b, 8))
        return cfx_node_value(nodes[fuzz_below(b, (uint32_t)count)]);
    if (a->has_default && fuzz_below(b, 2))
        return a->fallback;
    if (a->list && fuzz_below(b, 8)) {
        v = cfx_list_value(0, NULL);
        for (uint32_t n = fuzz_below(b, 5); n > 0; n--)
            cfx_list_append(cfx_as_list(v), a->type == CFX__T_INT ? cfx_int(fuzz_int(b)) : operand(b));
    } else if (a->type == CFX__T_INT && fuzz_below(b, 8)) {
        v = cfx_int(fuzz_int(b));
    } else {
        v = operand(b);
    }
    return holds_tensor(v) ? cfx_none() : v;
}

static void add_call(cfx_graph *g, fuzz_bytes *b) {
    cfx_op *op = fuzz_op(fuzz_below(b, 1 << 16));
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args = cfx_tuple_value(0, NULL);
    for (int i = 0; i < s->nargs; i++)
        cfx_list_append(cfx_as_list(args), argument(b, &s->args[i]));
    cfx_target target = {.op = op, .name = cfx_op_name(op)};
    cfx_node *n = cfx_graph_create(g, CFX_CALL_FUNCTION, target, args, CFX_NONE, NULL, NULL);
    if (fuzz_fine() && n && count < 64)
        nodes[count++] = n;
}

/* Exported with sizes that may vary, it gives at others what the module gives. */
static void with_sizes(fuzz_bytes *b, cfx_module *m, cfx_list *inputs) {
    cfx_dict *dynamic = cfx_dict_new();
    cfx_value sizes = cfx_list_value(0, NULL), other = cfx_list_value(0, NULL);
    const cfx_tensor *x = cfx_as_tensor(inputs->items[0]);
    int64_t shape[6], more = 1 + fuzz_below(b, 3);
    for (int i = 0; i < x->ndim; i++) {
        cfx_list_append(cfx_as_list(sizes), cfx_string_value("Dim.AUTO"));
        shape[i] = x->shape[i] + more;
    }
    cfx_dict_set(dynamic, "x", sizes);
    cfx_program *p = cfx_export(m, cfx_tuple_value(3, inputs->items), CFX_NONE, cfx_dict_value(dynamic));
    if (!fuzz_fine() || cfx_failed(p))
        return;
    cfx_list_append(cfx_as_list(other), cfx_tensor_value(cfx_tensor_new(x->dtype, x->ndim, shape, NULL)));
    cfx_zero_(cfx_as_list(other)->items[0]);
    cfx_list_append(cfx_as_list(other), inputs->items[1]);
    cfx_list_append(cfx_as_list(other), inputs->items[2]);
    if (fuzz_fine())
        fuzz_same(p, m, other);
    fuzz_use(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, data + size};
    fuzz_begin();
    cfx_graph *g = cfx_graph_new();
    count = 0;
    cfx_value inputs = cfx_list_value(0, NULL);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"x", "y", "z"};
        nodes[count++] = cfx_graph_placeholder(g, names[i], NULL, false, CFX_NONE);
        cfx_list_append(cfx_as_list(inputs), cfx_tensor_value(fuzz_tensor(&b)));
    }
    bool sized = size && data[size - 1] % 8 == 7;
    for (int i = 0; i < 12 && b.at < b.end; i++)
        add_call(g, &b);
    cfx_graph_output(g, cfx_tuple(cfx_node_value(nodes[count - 1])));
    fuzz_fine();
    cfx_module *m = cfx_graph_module(NULL, g, "Evil");
    fuzz_fine();
    if (m) {
        cfx_args args = {3, cfx_as_list(inputs)->items, NULL};
        cfx_forward_value_from(CFX_HERE, m, args);
        fuzz_fine();
        cfx_program *p = cfx_export(m, cfx_tuple_value(3, cfx_as_list(inputs)->items), CFX_NONE, CFX_NONE);
        if (fuzz_fine())
            fuzz_use(p);
        if (sized)
            with_sizes(&b, m, cfx_as_list(inputs));
    }
    return fuzz_end();
}
