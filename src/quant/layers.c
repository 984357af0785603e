/* Layers: what of a program can be quantized. Calls with weights, and calls that pass numbers on
 * without changing them. */
#include "quant.h"

/* ---- dtypes ---------------------------------------------------------------------------------- */

bool cfx__quant_rounds(cfx_dtype d) { return d == CFX_F32 || cfx__dtype_is_half(d); }

cfx_value cfx__quant_gives(cfx_dtype d) {
    cfx_dict *kwargs = cfx_dict_new();
    if (d != CFX_F32)
        cfx_dict_set(kwargs, "out_dtype", cfx_dtype_value(d));
    return cfx_dict_value(kwargs);
}

/* ---- what passes numbers on ------------------------------------------------------------------ */

cfx_node *cfx__quant_passed(const cfx_node *n) {
    const cfx_op *op = cfx__call_op(n);
    bool passes = op && (op->effects & (CFX_MOVES | CFX_LARGEST) || cfx__call_drops_nothing(n));
    cfx_value first = passes ? cfx_at(n->args, 0) : cfx_none();
    if (first.tag != CFX_TAG_NODE)
        return NULL;
    cfx_node *from = cfx_as_node(first);
    cfx_each_input(n, u) /* sizes may come from other nodes, numbers may not */
        passes &= u->node == from || cfx_node_result(u->node).kind != CFX_RESULT_TENSOR;
    return passes ? from : NULL;
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_quantized(const cfx_node *n) {
    cfx_op *op = n ? cfx__call_op(n) : NULL;
    return op && !strncmp(cfx_op_name(op), "quantized_decomposed.dequantize", 31);
}

/* The dimensions that a transposition of a matrix swaps, as it may stand between a weight and the
 * product that takes it. */
static bool swaps(const cfx_node *n) {
    if (cfx__call_is(n, "t") || cfx__call_is(n, "numpy_T"))
        return true;
    if (cfx__call_is(n, "permute")) {
        cfx_value dims = cfx__call_arg(n, "dims");
        return dims.tag == CFX_TAG_LIST && cfx_as_list(dims)->len == 2 &&
               cfx_integer(cfx_at(dims, 0)) != 0;
    }
    return cfx__call_is(n, "transpose") &&
           cfx_integer(cfx__call_arg(n, "dim0")) != cfx_integer(cfx__call_arg(n, "dim1"));
}

static const char computed[] = "its weight is computed";

/* Finds the stored weight of a layer; why not, where there is none. */
static const char *find_weight(const cfx_program *p, const cfx__alias *a,
                               const cfx__call_layer *r, cfx__quant_layer *l) {
    cfx_node *w = cfx__call_node(l->node, r->weight);
    l->reader = l->node;
    l->axis = r->axis;
    if (w && swaps(w) && w->num_users == 1) {
        l->reader = w;
        l->axis = 1 - r->axis;
        w = w->inputs->node;
    }
    if (is_quantized(w))
        return "its weight is quantized already";
    l->tensor = w ? cfx__program_constant(p, a, w) : NULL;
    l->weight = w;
    if (!l->tensor)
        return computed;
    if (!cfx__quant_rounds(l->tensor->dtype))
        return "its weight is neither float32 nor half precision";
    if (l->tensor->ndim < 2 || (r->product && l->tensor->ndim != 2))
        return "its weight is no matrix";
    if (!l->tensor->numel)
        return "its weight has no elements";
    return NULL;
}

static bool is_one(cfx_value v) { return v.tag == CFX_TAG_INT && cfx_integer(v) == 1; }

/* Why the call itself is left out. */
static const char *check_call(const cfx__call_layer *r, const cfx_node *n) {
    cfx_value alpha = cfx__call_arg(n, "alpha"), beta = cfx__call_arg(n, "beta");
    if ((!cfx_is_none(alpha) && !is_one(alpha)) || (!cfx_is_none(beta) && !is_one(beta)))
        return "it scales its operands";
    if (r->axis < 0)
        return "it is transposed and has groups";
    if (r->axis && cfx__call_is(n, "convolution"))
        return "it is transposed";
    return NULL;
}

/* Whether it has no elements: nothing has a range there, and observers of PyTorch's refuse it. */
static bool is_empty(const cfx_node *n) {
    const cfx_result r = cfx_node_result(n);
    for (int i = 0; r.shape && i < r.ndim; i++)
        if (!r.shape[i])
            return true;
    return false;
}

/* A table, whose rows are picked: there is no input to round, but a weight. */
static bool is_table(const cfx_node *n) { return cfx__call_is(n, "embedding"); }

static void add_layer(const cfx_program *p, const cfx__alias *a, const cfx_quantize_options *o,
                      const cfx__call_layer *r, cfx_node *n, cfx__quant_layers *out) {
    cfx__quant_layer l = {.node = n,
                          .input = cfx__call_node(n, r->input),
                          .bias = r->bias ? cfx__call_node(n, r->bias) : NULL,
                          .linear = r->product,
                          .table = is_table(n),
                          .input_name = r->input,
                          .bias_name = r->bias};
    l.left = find_weight(p, a, r, &l);
    if (!r->bias && (l.left == computed || (l.tensor && l.tensor->ndim != 2)))
        return; /* a product of two values: no layer */
    if (!l.left)
        l.left = check_call(r, n);
    if (!l.left && !l.table &&
        (!l.input || cfx_node_result(l.input).kind != CFX_RESULT_TENSOR ||
         cfx_node_result(l.input).dtype != l.tensor->dtype))
        l.left = "its input and its weight differ in dtype";
    if (!l.left && o->per == CFX_QUANTIZE_GROUP && !l.linear && !l.table)
        l.left = "groups are for linear layers";
    if (!l.left && o->scheme == CFX_QUANTIZE_DYNAMIC && !l.linear)
        l.left = "dynamic quantization is for linear layers";
    if (!l.left && o->scheme == CFX_QUANTIZE_DYNAMIC && is_empty(l.input))
        l.left = "its input has no elements";
    VEC_PUSH(*out, l);
}

/* ---- selectors ------------------------------------------------------------------------------- */

/* Marks what a selector picks; false, with an error, where that is no layer. */
static bool skip(const char *selector, cfx__quant_layers *layers) {
    bool any = false;
    for (size_t i = 0; i < layers->len; i++)
        if (cfx__run_selects(selector, layers->data[i].node)) {
            layers->data[i].left = "skipped";
            any = true;
        }
    if (!any)
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no layer with a weight fits '%s'", selector);
    return any;
}

bool cfx__quant_find_layers(cfx_program *p, const cfx_quantize_options *o, cfx__quant_layers *out) {
    static const cfx__call_layer table = {.input = "indices", .weight = "weight"};
    cfx__alias a;
    cfx__alias_open(&a, p->module->graph);
    cfx_each_node(p->module->graph, n) {
        cfx__call_layer r;
        if (cfx__call_layer_of(n, &r))
            add_layer(p, &a, o, &r, n, out);
        else if (is_table(n) && o->scheme == CFX_QUANTIZE_WEIGHT)
            add_layer(p, &a, o, &table, n, out);
    }
    cfx__alias_close(&a);
    const bool listed = o->skip.tag == CFX_TAG_LIST || o->skip.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; listed && i < cfx_as_list(o->skip)->len; i++)
        if (!skip(cfx_as_text(cfx_as_list(o->skip)->items[i]), out))
            return false;
    return cfx_ok();
}
