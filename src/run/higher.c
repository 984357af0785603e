/* Higher-order operators: those that take sub-graphs as arguments. A sub-graph is a module, what
 * get_attr gives of a child, and is called with its operands one by one. Start at the table. */
#include <cfx/ops.h>

#include "run.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static const char prefix[] = "torch.ops.higher_order.";

static cfx_value arg(cfx_args a, int i) { return i < a.n ? a.v[i] : cfx_none(); }

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

static int64_t length(cfx_value v) { return is_sequence(v) ? cfx_as_list(v)->len : 0; }

static cfx_value graph_arg(cfx_site at, const char *op, cfx_args a, int i) {
    cfx_value v = arg(a, i);
    if (v.tag == CFX_TAG_MODULE)
        return v;
    cfx_fail(CFX_TYPE_ERROR, at, "%s%s: argument %d must be a graph, not %s", prefix, op, i,
             cfx_value_type_name(v));
    return cfx_bad();
}

static cfx_value list_arg(cfx_site at, const char *op, cfx_args a, int i) {
    cfx_value v = arg(a, i);
    if (cfx_is_none(v))
        return cfx_list_value(0, NULL);
    if (is_sequence(v))
        return v;
    cfx_fail(CFX_TYPE_ERROR, at, "%s%s: argument %d must be a list or tuple, not %s", prefix, op, i,
             cfx_value_type_name(v));
    return cfx_bad();
}

/* The rest of the arguments, from number i on, handed to the sub-graph. */
static cfx_value call_with_rest(cfx_site at, const char *op, cfx_args a, int graph, int from) {
    cfx_value g = graph_arg(at, op, a, graph);
    if (cfx_is_bad(g))
        return g;
    int n = a.n > from ? a.n - from : 0;
    return cfx__run_subgraph(at, cfx_as_module(g), graph, -1,
                             (cfx_args){n, a.v + (n ? from : 0), NULL});
}

/* ---- branches and loops ---------------------------------------------------------------------- */

static cfx_value run_graph(cfx__body *b, cfx_site at, cfx_args given) {
    return cfx__run_subgraph(at, b->module, b->place, b->round, given);
}

static cfx_value call_graph(cfx__body *b, cfx_site at, cfx_args flat) {
    cfx_value v = run_graph(b, at, flat);
    return cfx_is_bad(v) || is_sequence(v) ? v : cfx_tuple_value(1, &v);
}

static cfx__body body_arg(cfx_site at, const char *op, cfx_args a, int i) {
    cfx_value g = graph_arg(at, op, a, i);
    return (cfx__body){
        .call = call_graph, .module = cfx_is_bad(g) ? NULL : cfx_as_module(g), .place = i};
}

static cfx_value cond(cfx_site at, cfx_args a) {
    cfx__body yes = body_arg(at, "cond", a, 1), no = body_arg(at, "cond", a, 2);
    cfx_value operands = list_arg(at, "cond", a, 3);
    return cfx_ok() ? cfx__control_cond(at, arg(a, 0), &yes, &no, operands) : cfx_bad();
}

static cfx_value while_loop(cfx_site at, cfx_args a) {
    cfx__body test = body_arg(at, "while_loop", a, 0), body = body_arg(at, "while_loop", a, 1);
    cfx_value carried = list_arg(at, "while_loop", a, 2), rest = list_arg(at, "while_loop", a, 3);
    return cfx_ok() ? cfx__control_while(at, &test, &body, carried, rest) : cfx_bad();
}

static cfx_value map_impl(cfx_site at, cfx_args a) {
    cfx__body body = body_arg(at, "map_impl", a, 0);
    cfx_value xs = list_arg(at, "map_impl", a, 1), rest = list_arg(at, "map_impl", a, 2);
    return cfx_ok() ? cfx__control_map(at, &body, xs, rest) : cfx_bad();
}

/* Each tensor, from number `from` on, with its rows in the other order. */
static cfx_value turned(cfx_value xs, int64_t from) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < length(xs); i++)
        cfx_list_append(cfx_as_list(out),
                        i < from ? cfx_at(xs, i)
                                 : cfx_tensor_value(cfx_flip(cfx_at(xs, i), cfx_list(0))));
    return out;
}

/* scan(f, init, xs, additional): f gives the next carry and a row of results. Files before PyTorch
 * 2.7 have the dimension and the direction between xs and additional. */
static cfx_value scan(cfx_site at, cfx_args a) {
    cfx__body body = body_arg(at, "scan", a, 0);
    cfx_value init = list_arg(at, "scan", a, 1), xs = list_arg(at, "scan", a, 2);
    bool old = arg(a, 3).tag == CFX_TAG_INT;
    bool reverse = old && arg(a, 4).tag == CFX_TAG_BOOL && cfx_as_bool(arg(a, 4));
    cfx_value rest = list_arg(at, "scan", a, old ? 5 : 3);
    if (!cfx_ok())
        return cfx_bad();
    cfx_value v = cfx__control_scan(at, &body, init, reverse ? turned(xs, 0) : xs, rest);
    return reverse && !cfx_is_bad(v) ? turned(v, length(init)) : v;
}

static cfx_value associative_scan(cfx_site at, cfx_args a) {
    cfx__body body = body_arg(at, "associative_scan", a, 0);
    cfx_value xs = list_arg(at, "associative_scan", a, 1);
    cfx_value rest = list_arg(at, "associative_scan", a, 2);
    return cfx_ok() ? cfx__control_associative_scan(at, &body, xs, rest) : cfx_bad();
}

/* A body that is called otherwise than a graph is run: the rest of it is filled in. */
static void fill_body(cfx_site at, const char *op, cfx_args a, int i, cfx__body *b) {
    *b = (cfx__body){.call = b->call, .module = body_arg(at, op, a, i).module, .place = i,
                     .round = -1};
}

/* onnx_loop(body, most, condition, carried, rest) */
static cfx_value onnx_loop(cfx_site at, cfx_args a) {
    cfx__body body = body_arg(at, "onnx_loop", a, 0);
    cfx_value carried = list_arg(at, "onnx_loop", a, 3), rest = list_arg(at, "onnx_loop", a, 4);
    return cfx_ok() ? cfx__loop_onnx(at, &body, arg(a, 1), arg(a, 2), carried, rest) : cfx_bad();
}

/* onnx_sequence_map(body, sequences, rest) */
static cfx_value map_over(cfx_site at, cfx_args a, cfx__body *body) {
    fill_body(at, "onnx_sequence_map", a, 0, body);
    cfx_value xs = list_arg(at, "onnx_sequence_map", a, 1);
    cfx_value rest = list_arg(at, "onnx_sequence_map", a, 2);
    return cfx_ok() ? cfx__loop_sequences(at, body, xs, rest) : cfx_bad();
}

static cfx_value onnx_sequence_map(cfx_site at, cfx_args a) {
    return map_over(at, a, &(cfx__body){.call = call_graph});
}

cfx_value cfx__higher_settled(cfx_site at, const char *name, cfx_args a, cfx__body *yes,
                              cfx__body *no) {
    name = cfx__higher_order(name);
    if (!strcmp(name, "onnx_sequence_map"))
        return map_over(at, a, yes);
    fill_body(at, "cond", a, 1, yes);
    fill_body(at, "cond", a, 2, no);
    cfx_value operands = list_arg(at, "cond", a, 3);
    return cfx_ok() ? cfx__loop_cond(at, arg(a, 0), yes, no, operands) : cfx_bad();
}

/* ---- regions --------------------------------------------------------------------------------- */

/* The graph of a region, argument number i, on the arguments after it. */
static cfx_value call_region(cfx_site at, const char *op, cfx_args a, int i, cfx__body *b) {
    fill_body(at, op, a, i, b);
    int n = a.n > i + 1 ? a.n - i - 1 : 0;
    return cfx_ok() ? b->call(b, at, (cfx_args){n, a.v + (n ? i + 1 : 0), NULL}) : cfx_bad();
}

static bool bool_arg(cfx_site at, const char *op, cfx_args a, int i) {
    if (arg(a, i).tag == CFX_TAG_BOOL)
        return cfx_as_bool(arg(a, i));
    cfx_fail(CFX_TYPE_ERROR, at, "%s%s: argument %d must be a bool, not %s", prefix, op, i,
             cfx_value_type_name(arg(a, i)));
    return false;
}

static cfx_value set_grad_enabled(cfx_site at, cfx_args a, cfx__body *b) {
    cfx_grad_mode before = cfx_get_grad_mode();
    bool on = bool_arg(at, "wrap_with_set_grad_enabled", a, 0);
    if (!cfx_ok())
        return cfx_bad();
    if (before != CFX_INFERENCE) /* which stays what it is, as in PyTorch */
        cfx_set_grad_mode(on ? CFX_GRAD_ON : CFX_NO_GRAD);
    cfx_value v = call_region(at, "wrap_with_set_grad_enabled", a, 1, b);
    if (before != CFX_INFERENCE)
        cfx_set_grad_mode(before);
    return v;
}

cfx_autocast_options cfx__autocast_of(cfx_site at, cfx_args a) {
    static const char op[] = "wrap_with_autocast";
    cfx_value device = arg(a, 0), dtype = arg(a, 1);
    if (device.tag != CFX_TAG_STR)
        cfx_fail(CFX_TYPE_ERROR, at, "%s%s: argument 0 must be a str, not %s", prefix, op,
                 cfx_value_type_name(device));
    if (dtype.tag != CFX_TAG_DTYPE && !cfx_is_none(dtype))
        cfx_fail(CFX_TYPE_ERROR, at, "%s%s: argument 1 must be a dtype or None, not %s", prefix, op,
                 cfx_value_type_name(dtype));
    return (cfx_autocast_options){
        .device = cfx_text(device),
        .dtype = dtype.tag == CFX_TAG_DTYPE ? cfx_as_dtype(dtype) : (cfx_dtype)0,
        .off = !bool_arg(at, op, a, 2),
    };
}

/* wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, *operands) */
static cfx_value autocast(cfx_site at, cfx_args a, cfx__body *b) {
    cfx_autocast_begin_from(at, cfx__autocast_of(at, a));
    cfx_value v = cfx_ok() ? call_region(at, "wrap_with_autocast", a, 4, b) : cfx_bad();
    cfx_autocast_end_from(at);
    return v;
}

cfx_value cfx__higher_region(cfx_site at, const char *name, cfx_args a, cfx__body *b) {
    return !strcmp(name, "wrap_with_autocast") ? autocast(at, a, b) : set_grad_enabled(at, a, b);
}

static cfx_value run_set_grad_enabled(cfx_site at, cfx_args a) {
    return set_grad_enabled(at, a, &(cfx__body){.call = run_graph});
}

static cfx_value run_autocast(cfx_site at, cfx_args a) {
    return autocast(at, a, &(cfx__body){.call = run_graph});
}

static cfx_value invoke_subgraph(cfx_site at, cfx_args a) {
    return call_with_rest(at, "invoke_subgraph", a, 0, 2);
}

static cfx_value wrap(cfx_site at, cfx_args a) { return call_with_rest(at, "wrap", a, 0, 1); }

static cfx_value strict_mode(cfx_site at, cfx_args a) {
    cfx_value g = graph_arg(at, "strict_mode", a, 0), operands = list_arg(at, "strict_mode", a, 1);
    if (!cfx_ok())
        return cfx_bad();
    const cfx_list *all = cfx_as_list(operands);
    return cfx__run_subgraph(at, cfx_as_module(g), 0, -1,
                             (cfx_args){(int)all->len, all->items, NULL});
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cfx__higher_fn *run;
} table[] = {
    {"cond", cond},
    {"while_loop", while_loop},
    {"map_impl", map_impl},
    {"scan", scan},
    {"associative_scan", associative_scan},
    {"wrap_with_set_grad_enabled", run_set_grad_enabled},
    {"wrap_with_autocast", run_autocast},
    {"invoke_subgraph", invoke_subgraph},
    {"tag_activation_checkpoint", wrap},
    {"wrap", wrap},
    {"strict_mode", strict_mode},
    {"hints_wrapper", strict_mode},
    {"onnx_loop", onnx_loop},
    {"onnx_sequence_map", onnx_sequence_map},
    {"print", cfx__higher_print},
    {"auto_functionalized", cfx__higher_auto_functionalized},
    {"auto_functionalized_v2", cfx__higher_auto_functionalized_v2},
};

cfx__higher_fn *cfx__higher_find(const char *name) {
    name = name ? cfx__higher_order(name) : NULL;
    for (int i = 0; name && i < COUNT(table); i++)
        if (!strcmp(name, table[i].name))
            return table[i].run;
    return NULL;
}
