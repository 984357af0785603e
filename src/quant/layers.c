/* Layers: what of a program can be quantized. A table of calls with weights, and of calls that pass
 * numbers on without changing them. */
#include "quant.h"

/* A call with a weight; which dimension of that counts the results. */
typedef struct rule {
    const char *op, *input, *weight, *bias;
    int axis;
    bool linear;
} rule;

static const rule rules[] = {
    {"linear", "input", "weight", "bias", 0, true},
    {"addmm", "mat1", "mat2", "self", 1, true},
    {"mm", "self", "mat2", NULL, 1, true},
    {"matmul", "self", "other", NULL, 1, true},
    {"conv1d", "input", "weight", "bias", 0, false},
    {"conv2d", "input", "weight", "bias", 0, false},
    {"conv3d", "input", "weight", "bias", 0, false},
    {"convolution", "input", "weight", "bias", 0, false},
    {"conv_transpose1d", "input", "weight", "bias", 1, false},
    {"conv_transpose2d", "input", "weight", "bias", 1, false},
    {"conv_transpose3d", "input", "weight", "bias", 1, false},
};

static const rule *rule_of(const cfx_node *n) {
    for (int i = 0; i < COUNT(rules); i++)
        if (cfx__call_is(n, rules[i].op))
            return &rules[i];
    return NULL;
}

/* ---- what passes numbers on ------------------------------------------------------------------ */

cfx_node *cfx__quant_passed(const cfx_node *n) {
    static const char *const names[] = {
        "max_pool1d", "max_pool2d",  "max_pool3d", "view",      "reshape",   "flatten",
        "permute",    "transpose",   "t",          "squeeze",   "unsqueeze", "contiguous",
        "slice",      "select",      "dropout",    "clone",     "alias",     "channel_shuffle",
        "expand",     "pixel_shuffle"};
    for (int i = 0; i < COUNT(names); i++)
        if (cfx__call_is(n, names[i]))
            return cfx__call_node(n, !strcmp(names[i], "dropout") ? "input" : "self");
    return NULL;
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

/* Finds the stored weight of a layer; why not, where there is none. */
static const char *find_weight(const cfx_program *p, const cfx__alias *a, const rule *r,
                               cfx__quant_layer *l) {
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
        return "its weight is computed";
    if (l->tensor->dtype != CFX_F32)
        return "its weight is not float32";
    if (l->tensor->ndim < 2 || (r->linear && l->tensor->ndim != 2))
        return "its weight is no matrix";
    return NULL;
}

static bool is_one(cfx_value v) { return v.tag == CFX_TAG_INT && cfx_integer(v) == 1; }

/* Why the call itself is left out. */
static const char *check_call(const rule *r, const cfx_node *n) {
    cfx_value turned = cfx__call_arg(n, "transposed");
    if (!strcmp(r->op, "addmm") &&
        (!is_one(cfx__call_arg(n, "alpha")) || !is_one(cfx__call_arg(n, "beta"))))
        return "it scales its operands";
    if (r->axis == 1 && !r->linear && !is_one(cfx__call_arg(n, "groups")))
        return "it is transposed and has groups";
    if (turned.tag == CFX_TAG_BOOL && cfx_integer(turned))
        return "it is transposed";
    return NULL;
}

static void add_layer(const cfx_program *p, const cfx__alias *a, const cfx_quantize_options *o,
                      const rule *r, cfx_node *n, cfx__quant_layers *out) {
    cfx__quant_layer l = {.node = n,
                          .input = cfx__call_node(n, r->input),
                          .bias = r->bias ? cfx__call_node(n, r->bias) : NULL,
                          .linear = r->linear,
                          .input_name = r->input,
                          .bias_name = r->bias};
    l.left = find_weight(p, a, r, &l);
    if (!strcmp(r->op, "matmul") && (!l.tensor || l.tensor->ndim != 2))
        return; /* of two values: no layer */
    if (!l.left)
        l.left = check_call(r, n);
    if (!l.left && (!l.input || cfx_node_result(l.input).kind != CFX_RESULT_TENSOR ||
                    cfx_node_result(l.input).dtype != CFX_F32))
        l.left = "its input is not float32";
    if (l.left && !strcmp(l.left, "its weight is computed") && !strcmp(r->op, "mm"))
        return;
    if (!l.left && o->per == CFX_QUANTIZE_GROUP && !l.linear)
        l.left = "groups are for linear layers";
    if (!l.left && o->scheme == CFX_QUANTIZE_DYNAMIC && !l.linear)
        l.left = "dynamic quantization is for linear layers";
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
    cfx__alias a;
    cfx__alias_open(&a, p->module->graph);
    cfx_each_node(p->module->graph, n) {
        const rule *r = rule_of(n);
        if (r)
            add_layer(p, &a, o, r, n, out);
    }
    cfx__alias_close(&a);
    const bool listed = o->skip.tag == CFX_TAG_LIST || o->skip.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; listed && i < cfx_as_list(o->skip)->len; i++)
        if (!skip(cfx_as_text(cfx_as_list(o->skip)->items[i]), out))
            return false;
    return cfx_ok();
}
