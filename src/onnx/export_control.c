/* Higher-order operators: branches as they are, loops with their condition at the end of the body.
 * Start at cfx__export_control. */
#include "export.h"

/* The module that an argument reads. */
static cfx_module *graph_arg(cfx__onnx_export *x, int i) {
    cfx_value v = i < cfx_len(x->node->args) ? cfx_as_list(x->node->args)->items[i] : cfx_none();
    const cfx_module *owner = x->node->graph->owner;
    cfx_value m = v.tag == CFX_TAG_NODE && owner
                      ? cfx_module_attr((cfx_module *)owner, cfx_as_node(v)->target.name)
                      : cfx_none();
    if (m.tag == CFX_TAG_MODULE && cfx_as_module(m)->graph)
        return cfx_as_module(m);
    cfx__export_lacks("its sub-graph is not there");
    return NULL;
}

/* The values of an argument that is a list; numbers become tensors. Scope. */
static cfx_value values_arg(cfx__onnx_export *x, int i) {
    cfx_value v = i < cfx_len(x->node->args) ? cfx_as_list(x->node->args)->items[i] : cfx_none();
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t k = 0; (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) && k < cfx_len(v); k++) {
        cfx_value item = cfx_as_list(v)->items[k];
        cfx_value now = item.tag == CFX_TAG_NODE
                            ? x->values[cfx__node_of(cfx_as_node(item))->id]
                            : cfx_is_number(item)
                                  ? cfx__export_number(x, item, cfx__dtype_of_number(item))
                                  : cfx_bad();
        if (now.tag != CFX_TAG_NODE)
            return cfx__export_lacks("%s is an operand", cfx_value_repr(item));
        cfx_list_append(cfx_as_list(out), now);
    }
    return out;
}

/* The nodes of a graph in that of x, its inputs being values there; what it gives, a tuple. */
static cfx_value inlined(cfx__onnx_export *x, const cfx_module *m, cfx_value inputs) {
    cfx__onnx_export in = *x;
    cfx_graph *g = m->graph;
    int64_t k = 0;
    in.values = cfx__alloc0((g->made.len + 1) * sizeof *in.values);
    cfx_each_node(g, n) {
        if (n->op == CFX_PLACEHOLDER && k < cfx_len(inputs))
            in.values[cfx__node_of(n)->id] = cfx_value_keep(cfx_as_list(inputs)->items[k++]);
    }
    cfx_value out = cfx__export_nodes(&in, g);
    for (size_t i = 0; i < g->made.len; i++)
        cfx_value_drop(in.values[i]);
    cfx__free(in.values);
    return out;
}

/* A graph of its own that is being made. */
typedef struct {
    cfx__onnx_export x;
    cfx_value inputs;
} body;

static void open_body(body *b, cfx__onnx_export *x) {
    b->x = *x;
    b->x.outer = x;
    b->x.module = cfx__module_new_raw("GraphModule", NULL);
    b->x.graph = cfx_graph_new();
    b->x.constants = cfx_dict_new();
    b->inputs = cfx_list_value(0, NULL);
}

static void add_input(body *b, const char *name, cfx_value val) {
    cfx_node *n = cfx_graph_placeholder(b->x.graph, name, NULL, false, cfx_none());
    if (n->graph)
        cfx_node_set_meta(n, "val", val);
    cfx_list_append(cfx_as_list(b->inputs), n->graph ? cfx_node_value(n) : cfx_bad());
}

/* An input for each of a graph's. */
static void add_inputs_of(body *b, const cfx_module *m) {
    cfx_each_node(m->graph, n) {
        if (n->op == CFX_PLACEHOLDER)
            add_input(b, n->name, cfx_node_get_meta(n, "val"));
    }
}

/* Ends it with its results; the node that reads it. Bad, with an error. */
static cfx_value close_body(body *b, cfx__onnx_export *x, cfx_value results, const char *kind) {
    if (cfx_is_bad(results) || !cfx_graph_output(b->x.graph, results)->graph)
        return cfx_bad();
    cfx_graph_eliminate_dead_code(b->x.graph);
    const char *name = cfx__text_format("%s_0", kind);
    for (int i = 1; cfx_module_has(x->module, name); i++)
        name = cfx__text_format("%s_%d", kind, i);
    cfx_module *gm = cfx_graph_module(b->x.module, b->x.graph, "GraphModule");
    if (!gm->graph)
        return cfx_bad();
    cfx_module_set_attr(x->module, name, cfx_module_value(gm));
    return cfx_node_value(cfx_graph_get_attr(x->graph, name));
}

/* A sub-graph as it is. */
static cfx_value make_body(cfx__onnx_export *x, cfx_module *m, const char *kind) {
    body b;
    if (!m)
        return cfx_bad();
    open_body(&b, x);
    add_inputs_of(&b, m);
    return close_body(&b, x, inlined(&b.x, m, b.inputs), kind);
}

/* The call, and its results as a tuple of nodes. */
static cfx_value call(cfx__onnx_export *x, const char *op, cfx_value args, int64_t count) {
    for (int64_t i = 0; i < cfx_len(args); i++)
        if (cfx_is_bad(cfx_as_list(args)->items[i]))
            return cfx_bad();
    cfx_node *made = cfx_graph_create(
        x->graph, CFX_CALL_FUNCTION,
        cfx_graph_target(x->graph, cfx__text_format("torch.ops.higher_order.%s", op)), args,
        cfx_none(), op, NULL);
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int i = 0; i < count && made->graph; i++)
        cfx_list_append(cfx_as_list(out), cfx__export_item(x, cfx_node_value(made), i));
    return made->graph && cfx_ok() ? out : cfx_bad();
}

static int64_t results_of(const cfx__onnx_export *x) {
    cfx_result r = cfx__export_result(x);
    return cfx_result_count(&r);
}

static cfx_value as_tuple(cfx_value v) {
    return cfx_is_bad(v) ? v : cfx_tuple_value(cfx_len(v), cfx_as_list(v)->items);
}

static cfx_value export_cond(cfx__onnx_export *x) {
    x->args[0] = cfx_as_list(x->node->args)->items[0];
    cfx_value pred = cfx__export_as(x, 0, CFX_BOOL), operands = values_arg(x, 3);
    cfx_value yes = make_body(x, graph_arg(x, 1), "true_graph");
    cfx_value no = make_body(x, graph_arg(x, 2), "false_graph");
    return cfx_ok() ? call(x, "cond", cfx_tuple(pred, yes, no, as_tuple(operands)), results_of(x))
                    : cfx_bad();
}

/* A truth without dimensions, as loops want it. */
static cfx_value flag(cfx__onnx_export *x, cfx_value results) {
    return cfx_is_bad(results) ? results
                               : PUT(Reshape, cfx_at(results, 0), cfx__export_i64(x, 0, NULL));
}

static cfx_value joined(cfx_value a, cfx_value b) {
    cfx_value out = cfx_list_value(cfx_len(a), cfx_as_list(a)->items);
    for (int64_t i = 0; i < cfx_len(b); i++)
        cfx_list_append(cfx_as_list(out), cfx_as_list(b)->items[i]);
    return out;
}

/* The condition is asked before the loop, and at the end of each round. */
static cfx_value export_while(cfx__onnx_export *x) {
    cfx_module *test = graph_arg(x, 0), *round = graph_arg(x, 1);
    cfx_value carried = values_arg(x, 2), rest = values_arg(x, 3);
    if (!test || !round || !cfx_ok())
        return cfx_bad();
    cfx_value go = flag(x, inlined(x, test, joined(carried, rest)));
    body b;
    int64_t n = cfx_len(carried);
    open_body(&b, x);
    add_input(&b, "round", cfx_tensor_value(cfx_tensor_fake(CFX_I64, 0, NULL, NULL)));
    add_input(&b, "go", cfx_tensor_value(cfx_tensor_fake(CFX_BOOL, 0, NULL, NULL)));
    add_inputs_of(&b, round);
    cfx_value own = cfx_list_value(cfx_len(b.inputs) - 2, cfx_as_list(b.inputs)->items + 2);
    cfx_value next = inlined(&b.x, round, own), results = cfx_bad();
    if (!cfx_is_bad(next) && cfx_len(next) == n && cfx_len(own) >= n) {
        cfx_value others = cfx_list_value(cfx_len(own) - n, cfx_as_list(own)->items + n);
        cfx_value on = flag(&b.x, inlined(&b.x, test, joined(next, others)));
        results = cfx_is_bad(on) ? on : as_tuple(joined(cfx_list(on), next));
    }
    cfx_value made = close_body(&b, x, results, "loop_body");
    return call(x, "onnx_loop", cfx_tuple(made, cfx_none(), go, as_tuple(carried), as_tuple(rest)),
                n);
}

static cfx_value export_scan(cfx__onnx_export *x) {
    if (cfx_len(x->node->args) != 4)
        return cfx__export_lacks("it is of a file before PyTorch 2.7");
    cfx_value init = values_arg(x, 1), xs = values_arg(x, 2), rest = values_arg(x, 3);
    cfx_value made = make_body(x, graph_arg(x, 0), "scan_combine_graph");
    return cfx_ok() ? call(x, "scan", cfx_tuple(made, init, xs, as_tuple(rest)), results_of(x))
                    : cfx_bad();
}

static cfx_value export_map(cfx__onnx_export *x) {
    cfx_value xs = values_arg(x, 1), rest = values_arg(x, 2), none = cfx_list_value(0, NULL);
    cfx_value made = make_body(x, graph_arg(x, 0), "map_body_graph");
    return cfx_ok() ? call(x, "scan", cfx_tuple(made, none, xs, as_tuple(rest)), results_of(x))
                    : cfx_bad();
}

cfx_value cfx__export_control(cfx__onnx_export *x, const char *name) {
    static const struct {
        const char *name;
        cfx_value (*fn)(cfx__onnx_export *x);
    } kinds[] = {{"cond", export_cond}, {"while_loop", export_while}, {"scan", export_scan},
                 {"map_impl", export_map}};
    for (int i = 0; i < COUNT(kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return kinds[i].fn(x);
    return cfx__export_lacks("ONNX has no operator for it");
}
