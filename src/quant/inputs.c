/* Quantizes inputs of layers where they are produced, and dequantizes them before each layer
 * that uses them. */
#include <cfx/ops.h>

#include "quant.h"

/* The least scale of a layer; and that of what was only seen as 0, and of what is rounded as it
 * comes: as small as PyTorch's observers let it be. */
static const double least_scale = 1e-30, scale_of_zeros = 1.1920928955078125e-07;

cfx_observer cfx__quant_of_inputs(const cfx_quantize_options *o) {
    static const cfx_observer_kind kinds[] = {
        [CFX_QUANTIZE_HISTOGRAM] = CFX_HISTOGRAM_OBSERVER,
        [CFX_QUANTIZE_MINMAX] = CFX_MIN_MAX_OBSERVER,
        [CFX_QUANTIZE_AVERAGE] = CFX_MOVING_AVERAGE_MIN_MAX_OBSERVER,
        [CFX_QUANTIZE_PERCENTILE] = CFX_PERCENTILE_OBSERVER};
    return (cfx_observer){.kind = kinds[o->range],
                          .dtype = CFX_QU8,
                          .percentile = o->percentile,
                          .eps = least_scale};
}

cfx_observer cfx__quant_of_weights(const cfx__quant_layer *l, const cfx_quantize_options *o) {
    const int half = o->bits == 4 && !l->table ? 8 : 128;
    return (cfx_observer){.kind = CFX_PER_CHANNEL_MIN_MAX_OBSERVER,
                          .dtype = CFX_QI8,
                          .qscheme = CFX_PER_CHANNEL_SYMMETRIC,
                          .quant_min = -half,
                          .quant_max = half - 1,
                          .eps = least_scale};
}

/* The integers that inputs are rounded to. */
static const struct {
    cfx_dtype dtype;
    int64_t low, high;
} grid = {CFX_U8, 0, 255};

/* ---- which values ---------------------------------------------------------------------------- */

/* x + y after a layer that gives x to nobody else: the layer can add y in its own loop, and takes
 * it in integers then. The addition, with y; NULL where there is none. */
static cfx_node *added_to(const cfx_node *layer, cfx_node **other) {
    cfx_node *add = layer->num_users == 1 ? layer->users->user : NULL;
    if (!add || !cfx__call_is(add, "add") || cfx_as_list(add->args)->len < 2 ||
        !cfx_equal_values(cfx__call_arg(add, "alpha"), cfx_int(1)))
        return NULL;
    cfx_node *a = cfx__call_node(add, "self"), *b = cfx__call_node(add, "other");
    *other = a == layer ? b : a;
    if (!a || !b || a == b)
        return NULL;
    cfx_result mine = cfx_node_result(layer), y = cfx_node_result(*other);
    bool alike = y.kind == CFX_RESULT_TENSOR && y.dtype == mine.dtype && y.ndim == mine.ndim;
    for (int i = 0; alike && i < mine.ndim; i++)
        alike = cfx_equal_values(cfx_result_size(&y, i), cfx_result_size(&mine, i));
    return alike ? add : NULL;
}

static bool is_back(const cfx_node *n) {
    return cfx__call_op(n) == &cfx_op_quantized_decomposed_dequantize_per_tensor;
}

cfx_node *cfx__quant_source(cfx_node *n) {
    for (cfx_node *from = n; from; n = from ? from : n)
        from = is_back(n) ? n->inputs->node->inputs->node : cfx__quant_passed(n);
    return n;
}

void cfx__quant_plan_inputs(const cfx__quant_layers *layers, cfx__quant_watch *w) {
    for (size_t i = 0; i < layers->len; i++) {
        const cfx__quant_layer *l = &layers->data[i];
        cfx_node *other;
        if (l->left)
            continue;
        cfx__quant_look_at(w, cfx__quant_source(l->input), 1);
        if (!l->linear && added_to(l->node, &other))
            cfx__quant_look_at(w, cfx__quant_source(other), 1);
    }
}

/* Whether all that was seen of a value is 0. */
static bool is_flat(const cfx__quant_seen *s) {
    return cfx__tensor_number(cfx_as_tensor(cfx_module_attr(s->observer, "min_val")), 0) == 0 &&
           cfx__tensor_number(cfx_as_tensor(cfx_module_attr(s->observer, "max_val")), 0) == 0;
}

void cfx__quant_judge_inputs(cfx__quant_layers *layers, const cfx__quant_watch *w) {
    for (size_t i = 0; i < layers->len; i++) {
        cfx__quant_layer *l = &layers->data[i];
        const cfx__quant_seen *s =
            l->left ? NULL : cfx__quant_seen_of(w, cfx__quant_source(l->input), 1);
        if (s && s->observer)
            l->flat = is_flat(s);
        else if (!l->left)
            l->left = s && s->unbounded ? "its input is NaN or infinite in a calibration batch"
                                        : "calibration gives no numbers for its input";
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Before which node something may be inserted that reads n. */
static cfx_node *place_after(cfx_node *n) {
    cfx_node *at = cfx_node_after(n);
    while (n->op == CFX_PLACEHOLDER && at->op == CFX_PLACEHOLDER)
        at = cfx_node_after(at);
    return at;
}

static bool is_item(const cfx_node *n, int i) {
    return n->op == CFX_CALL_FUNCTION && cfx_as_list(n->args)->len == 2 &&
           cfx_equal_values(cfx_as_list(n->args)->items[1], cfx_int(i));
}

/* n rounded, once for all its readers: the node that gives the integers. */
static cfx_node *rounded(cfx_node *n, cfx_value params, cfx_value *pair) {
    double scale = cfx__tensor_number(cfx_tensor_at(params, 0), 0);
    int64_t zero_point = cfx__int64_of(cfx__tensor_number(cfx_tensor_at(params, 1), 0));
    cfx_value dtype = cfx_dtype_value(grid.dtype);
    *pair = cfx_tuple(scale, zero_point, grid.low, grid.high, dtype);
    cfx_value args = cfx_tuple(n, scale, zero_point, grid.low, grid.high, dtype);
    cfx_each_user(n, u) if (cfx__call_op(u->user) ==
                                &cfx_op_quantized_decomposed_quantize_per_tensor &&
                            cfx_equal_values(u->user->args, args)) return u->user;
    return cfx__call_new(place_after(n), n, "quantized_decomposed.quantize_per_tensor.default",
                         args, cfx_none());
}

/* An argument of a node comes back from integers; and so does what the nodes before it pass on. */
static void round_argument(cfx_node *reader, cfx_node *n, cfx_value params) {
    cfx_node *before = cfx__quant_passed(n);
    if (before && !is_back(before))
        round_argument(n, before, params);
    cfx_value how;
    cfx_node *q = rounded(n, params, &how);
    cfx_value args = cfx_list_value(0, NULL);
    cfx_list_append(cfx_as_list(args), cfx_node_value(q));
    for (int64_t i = 0; i < cfx_as_list(how)->len; i++)
        cfx_list_append(cfx_as_list(args), cfx_as_list(how)->items[i]);
    cfx_node *dq = cfx__call_new(reader, reader,
                                 "quantized_decomposed.dequantize_per_tensor.default",
                                 cfx_tuple_value(cfx_as_list(args)->len, cfx_as_list(args)->items),
                                 cfx__quant_gives(cfx_node_result(n).dtype));
    cfx_node_replace_input(reader, n, dq);
}

static void round_input(const cfx__quant_watch *w, cfx_node *reader, cfx_node *n) {
    const cfx__quant_seen *seen = cfx__quant_seen_of(w, cfx__quant_source(n), 1);
    if (!seen || !seen->observer)
        return;
    cfx_value params = is_flat(seen) ? cfx_tuple(cfx_full(cfx_list(1), scale_of_zeros),
                                                 cfx_zeros(cfx_list(1)))
                                     : cfx_observer_qparams(seen->observer);
    if (!cfx_is_bad(params))
        round_argument(reader, n, params);
}

/* Rounded by the range that the value has when it runs. */
static void round_as_it_comes(const cfx__quant_layer *l) {
    cfx_node *at = place_after(l->input), *x = l->input, *found = NULL;
    cfx_op *choose = cfx_op_find("quantized_decomposed.choose_qparams.tensor");
    cfx_each_user(x, u) if (cfx__call_op(u->user) == choose) found = u->user;
    if (!found)
        found = cfx__call_new(at, l->node, "quantized_decomposed.choose_qparams.tensor",
                              cfx_tuple(x, grid.low, grid.high, scale_of_zeros,
                                        cfx_dtype_value(grid.dtype)),
                              cfx_none());
    cfx_node *item[2] = {NULL, NULL}, *q = NULL;
    cfx_each_user(found, u) item[cfx_integer(cfx_as_list(u->user->args)->items[1])] = u->user;
    for (int i = 0; i < 2 && !item[i]; i++)
        CFX_INSERT_BEFORE(at->graph, at)
            item[i] = cfx_graph_call_function(at->graph, "operator.getitem", cfx_tuple(found, i),
                                              cfx_none());
    cfx_op *quantize = cfx_op_find("quantized_decomposed.quantize_per_tensor.tensor");
    cfx_each_user(x, u) if (cfx__call_op(u->user) == quantize) q = u->user;
    cfx_value dtype = cfx_dtype_value(grid.dtype);
    if (!q)
        q = cfx__call_new(at, l->node, "quantized_decomposed.quantize_per_tensor.tensor",
                          cfx_tuple(x, item[0], item[1], grid.low, grid.high, dtype), cfx_none());
    cfx_node *dq = cfx__call_new(l->node, l->node,
                                 "quantized_decomposed.dequantize_per_tensor.tensor",
                                 cfx_tuple(q, item[0], item[1], grid.low, grid.high, dtype),
                                 cfx__quant_gives(l->tensor->dtype));
    cfx_node_replace_input(l->node, x, dq);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { BLOCK = 32 }; /* inputs that share a scale */

/* A node that reads x and calls op so; made where there is none. */
static cfx_node *call_once(cfx_node *at, cfx_node *x, const char *op, cfx_value args) {
    cfx_each_user(x, u) if (cfx__call_op(u->user) == cfx_op_find(op) &&
                            cfx_equal_values(u->user->args, args)) return u->user;
    return cfx__call_new(at, x, op, args, cfx_none());
}

static cfx_node *item_once(cfx_node *at, cfx_node *pair, int i) {
    cfx_each_user(pair, u) if (is_item(u->user, i)) return u->user;
    cfx_node *item = NULL;
    CFX_INSERT_BEFORE(at->graph, at)
        item = cfx_graph_call_function(at->graph, "operator.getitem", cfx_tuple(pair, i),
                                       cfx_none());
    return item;
}

/* The input of a layer rounded to int8 block by block as it comes, and back; once for all layers
 * that take it. Rows of other lengths stay as they are. */
static void round_in_blocks(const cfx__quant_layer *l) {
    const int64_t inputs = l->tensor->shape[1 - l->axis];
    cfx_node *x = l->input, *at = place_after(x);
    if (inputs % BLOCK || l->tensor->dtype != CFX_F32)
        return;
    cfx_value i8 = cfx_dtype_value(CFX_I8);
    cfx_node *rows = call_once(at, x, "aten.unflatten.int",
                               cfx_tuple(x, -1, cfx_list(inputs / BLOCK, BLOCK)));
    cfx_node *pair = call_once(at, rows, "quantized_decomposed.choose_qparams_per_token.default",
                               cfx_tuple(rows, i8));
    cfx_node *scale = item_once(at, pair, 0), *zero = item_once(at, pair, 1);
    cfx_node *q = call_once(at, rows, "quantized_decomposed.quantize_per_token.default",
                            cfx_tuple(rows, scale, zero, -127, 127, i8));
    cfx_node *back = call_once(at, q, "quantized_decomposed.dequantize_per_token.default",
                               cfx_tuple(q, scale, zero, -127, 127, i8, cfx_f32));
    cfx_node *whole = call_once(at, back, "aten.flatten.using_ints", cfx_tuple(back, -2, -1));
    cfx_node_replace_input(l->node, x, whole);
}

/* ---- layers ---------------------------------------------------------------------------------- */

bool cfx__quant_inputs(cfx_program *p, const cfx__quant_layers *layers, const cfx__quant_watch *w,
                       const cfx_quantize_options *o) {
    (void)p;
    for (size_t i = 0; i < layers->len && cfx_ok(); i++) {
        const cfx__quant_layer *l = &layers->data[i];
        size_t mark = cfx_scope_open();
        cfx_node *other, *add = l->left || l->linear ? NULL : added_to(l->node, &other);
        if (!l->left && o->scheme == CFX_QUANTIZE_STATIC) {
            round_input(w, l->node, l->input);
            if (add)
                round_input(w, add, other);
        } else if (!l->left && o->scheme == CFX_QUANTIZE_DYNAMIC) {
            round_as_it_comes(l);
        } else if (!l->left && o->activations && l->linear) {
            round_in_blocks(l);
        }
        cfx_scope_close(mark);
    }
    return cfx_ok();
}
