/* fold_batch_norm: a batch norm that does not learn is an affine map of channels, and goes into the
 * weights of the convolution or linear layer before it, or of those after it. */
#include <cfx/ops.h>

#include "pass.h"

/* ---- the norm -------------------------------------------------------------------------------- */

static cfx_tensor *wide(cfx_tensor *t) {
    return t ? cfx_to(t, CFX_KW(dtype, cfx_dtype_value(CFX_F64))) : NULL;
}

static cfx_tensor *back(cfx_tensor *t, cfx_value dtype) {
    return cfx_contiguous(cfx_to(t, CFX_KW(dtype, dtype)));
}

/* The weight times a number, in float64, for each of its elements. */
static cfx_tensor *scaled(cfx_tensor *weight, cfx_tensor *by) {
    return back(cfx_mul(wide(weight), by), cfx_dtype_value((cfx_dtype)weight->dtype));
}

/* The weight times a number for each channel that dimension `dim` counts. Weights are large, and
 * most are of this kind: one loop without copies. */
static cfx_tensor *scaled_channels(cfx_tensor *weight, int dim, cfx_tensor *by) {
    cfx_value shape = cfx_list_value(0, NULL);
    int64_t outer = 1, inner = 1, n = weight->shape[dim];
    for (int i = 0; i < weight->ndim; i++) {
        cfx_list_append(cfx_as_list(shape), cfx_int(i == dim ? -1 : 1));
        *(i < dim ? &outer : &inner) *= i == dim ? 1 : weight->shape[i];
    }
    if (weight->dtype != CFX_F32 || !cfx_tensor_is_contiguous(weight) || by->numel != n)
        return scaled(weight, cfx_reshape(by, shape));
    cfx_tensor *made = cfx_empty_like(weight);
    const float *from = (const float *)weight->data;
    const double *factors = (const double *)by->data;
    float *to = (float *)made->data;
    for (int64_t i = 0; i < outer * n && cfx_ok(); i++, from += inner, to += inner) {
        float factor = (float)factors[i % n];
        for (int64_t k = 0; k < inner; k++)
            to[k] = from[k] * factor;
    }
    return made;
}

/* Whether a tensor, where there is one, is a row with a number for each channel. Norms count
 * elements, so that where there are none they take other shapes as well. */
static bool is_of_channels(const cfx_tensor *t, int64_t n) {
    return !t || (t->ndim == 1 && t->shape[0] == n);
}

bool cfx__affine_of(cfx__affine *a, cfx_tensor *mean, cfx_tensor *var, cfx_tensor *weight,
                    cfx_tensor *bias, cfx_value eps) {
    if (!mean || !var || !cfx_is_number(eps))
        return false;
    const int64_t n = var->numel;
    if (!is_of_channels(mean, n) || !is_of_channels(var, n) || !is_of_channels(weight, n) ||
        !is_of_channels(bias, n))
        return false;
    a->scale = cfx_rsqrt(cfx_add(wide(var), eps));
    if (weight)
        a->scale = cfx_mul(a->scale, wide(weight));
    a->shift = cfx_neg(cfx_mul(wide(mean), a->scale));
    if (bias)
        a->shift = cfx_add(a->shift, wide(bias));
    return cfx_ok();
}

void cfx__affine_apply(const cfx__affine *a, int dim, cfx_tensor **weight, cfx_tensor **bias) {
    cfx_value dtype = cfx_dtype_value((cfx_dtype)(*weight)->dtype);
    cfx_tensor *moved = *bias ? cfx_add(cfx_mul(wide(*bias), a->scale), a->shift) : a->shift;
    *weight = scaled_channels(*weight, dim, cfx_contiguous(a->scale));
    *bias = back(moved, dtype);
}

/* The only node that uses n; where n has several results, the one that takes the first, alone. */
static cfx_node *first_result(cfx_node *n) {
    if (!cfx__call_is(n, "_native_batch_norm_legit_no_training"))
        return n;
    cfx_node *first = n->num_users == 1 ? n->users->user : NULL;
    return first && cfx_node_takes_result(first) &&
                   cfx_integer(cfx_as_list(first->args)->items[1]) == 0
               ? first
               : NULL;
}

static cfx_tensor *held(const cfx_program *p, const cfx__alias *a, const cfx_node *n,
                        const char *name) {
    return cfx__program_constant(p, a, cfx__call_node(n, name));
}

/* Whether n is such a norm of which all numbers are known. */
static bool read_norm(const cfx_program *p, const cfx__alias *a, cfx_node *n, cfx__affine *out) {
    bool core = cfx__call_is(n, "_native_batch_norm_legit_no_training");
    cfx_value training = cfx__call_arg(n, "training"), eps = cfx__call_arg(n, "eps");
    bool off = cfx_is_number(training) && !cfx_integer(training); /* files may say 0 for False */
    if ((!core && (!cfx__call_is(n, "batch_norm") || !off)) || !cfx_is_number(eps))
        return false;
    cfx_tensor *mean = held(p, a, n, "running_mean"), *var = held(p, a, n, "running_var");
    cfx_tensor *weight = held(p, a, n, "weight"), *bias = held(p, a, n, "bias");
    bool known = (weight || !cfx__call_node(n, "weight")) && (bias || !cfx__call_node(n, "bias"));
    return known && first_result(n) && cfx__affine_of(out, mean, var, weight, bias, eps);
}

/* ---- the layer before it --------------------------------------------------------------------- */

/* Whether n is a layer whose result is its bias and products, neither scaled: not addmm. */
static bool is_layer(const cfx_node *n, cfx__call_layer *l) {
    return cfx__call_layer_of(n, l) && l->bias && cfx_is_none(cfx__call_arg(n, "beta"));
}

/* Whether the norm goes over the dimension that the layer's channels are in: the second, which of a
 * linear layer is the last only where there are two. */
static bool fits(const cfx_node *layer, const cfx__call_layer *l, const cfx_tensor *scale,
                 const cfx_tensor *weight) {
    cfx_result r = cfx_node_result(layer);
    if (r.kind != CFX_RESULT_TENSOR || scale->ndim != 1 ||
        scale->shape[0] != weight->shape[l->axis])
        return false;
    return !l->product || r.ndim == 2;
}

bool cfx__call_set_tensor(cfx_program *p, cfx_node *layer, const char *name, cfx_tensor *t,
                          const char *fallback) {
    cfx_node *old = cfx__call_node(layer, name);
    const cfx_input_spec *s = old ? cfx_program_input(p, old) : NULL;
    if (s && old->num_users == 1) {
        cfx_dict_set(cfx__program_tensors(p, s), s->target, cfx_tensor_value(t));
        return true;
    }
    cfx_node *made = cfx_program_add_tensor(p, CFX_IN_PARAMETER, s ? s->target : fallback, t);
    return made->graph && cfx__call_set(layer, name, cfx_node_value(made));
}

/* "conv1.bias" for a layer whose weight is "conv1.weight". */
static const char *bias_name(const cfx_program *p, const cfx_node *weight) {
    const char *target = cfx_program_input(p, weight)->target, *dot = strrchr(target, '.');
    return dot ? cfx__text_format("%.*s.bias", (int)(dot - target), target) : "bias";
}

/* Puts the norm into the layer; whether it could. */
static bool fold(cfx_program *p, const cfx__alias *a, cfx_node *layer, const cfx__affine *n) {
    cfx__call_layer l;
    if (!is_layer(layer, &l) || l.axis < 0)
        return false;
    cfx_node *w = cfx__call_node(layer, l.weight), *b = cfx__call_node(layer, l.bias);
    cfx_tensor *weight = w ? cfx__program_constant(p, a, w) : NULL;
    cfx_tensor *bias = b ? cfx__program_constant(p, a, b) : NULL;
    if (!weight || (b && !bias) || !fits(layer, &l, n->scale, weight))
        return false;
    const char *name = bias_name(p, w);
    cfx__affine_apply(n, l.axis, &weight, &bias);
    return cfx_ok() && cfx__call_set_tensor(p, layer, l.weight, weight, name) &&
           cfx__call_set_tensor(p, layer, l.bias, bias, name);
}

/* ---- the layers after it --------------------------------------------------------------------- */

/* Whether zeros are put around what the layer reads: the norm would have shifted them too. */
static bool is_padded(const cfx_node *layer) {
    cfx_value v = cfx__call_arg(layer, "padding");
    if (cfx_text(v))
        return strcmp(cfx_text(v), "valid") != 0;
    cfx_value zero = cfx_int(0);
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return !cfx_is_none(v) && !cfx_equal_values(v, zero);
    bool padded = false;
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        padded |= !cfx_equal_values(cfx_as_list(v)->items[i], zero);
    return padded;
}

/* Whether n is a layer that takes the norm's result, and only as its input, channel by channel. */
static bool takes(const cfx_program *p, const cfx__alias *a, const cfx_node *n,
                  const cfx_node *norm, const cfx_tensor *scale) {
    cfx__call_layer l;
    if (!is_layer(n, &l) || l.axis != 0)
        return false;
    cfx_node *w = cfx__call_node(n, l.weight), *b = cfx__call_node(n, l.bias);
    cfx_tensor *weight = cfx__program_constant(p, a, w);
    cfx_value groups = cfx__call_arg(n, "groups");
    cfx_result r = cfx_node_result(norm);
    if (cfx__call_node(n, l.input) != norm || !weight || w == norm || b == norm || is_padded(n) ||
        (b && !cfx__program_constant(p, a, b)) || r.kind != CFX_RESULT_TENSOR)
        return false;
    int64_t parts = groups.tag == CFX_TAG_INT ? cfx_as_int(groups) : 1;
    int64_t inputs = weight->shape[1] * parts;
    return r.ndim == weight->ndim && scale->ndim == 1 && inputs > 0 && inputs == scale->shape[0];
}

/* A number for each input channel as a factor of a weight, (results, channels of a group, ...). */
static cfx_tensor *spread(cfx_tensor *t, const cfx_tensor *weight) {
    int64_t inner = weight->shape[1], groups = t->shape[0] / inner;
    cfx_value shape = cfx_list(weight->shape[0], inner);
    for (int i = 2; i < weight->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(1));
    cfx_tensor *rows = cfx_reshape(t, cfx_list(groups, 1, inner));
    rows = cfx_expand(rows, cfx_list(groups, weight->shape[0] / groups, inner));
    return cfx_reshape(rows, shape);
}

/* Puts the norm into a layer that takes its result. */
static bool fold_into(cfx_program *p, const cfx__alias *a, cfx_node *layer, const cfx__affine *n) {
    cfx_node *w = cfx__call_node(layer, "weight"), *b = cfx__call_node(layer, "bias");
    cfx_tensor *weight = cfx__program_constant(p, a, w), *bias = cfx__program_constant(p, a, b);
    cfx_value dtype = cfx_dtype_value((cfx_dtype)weight->dtype), rest = cfx_list_value(0, NULL);
    for (int i = 1; i < weight->ndim; i++)
        cfx_list_append(cfx_as_list(rest), cfx_int(i));
    const char *name = bias_name(p, w);
    cfx_tensor *moved = cfx_sum(cfx_mul(wide(weight), spread(n->shift, weight)), rest);
    if (bias)
        moved = cfx_add(moved, wide(bias));
    weight = scaled(weight, spread(n->scale, weight));
    return cfx_ok() && cfx__call_set_tensor(p, layer, "weight", weight, name) &&
           cfx__call_set_tensor(p, layer, "bias", back(moved, dtype), name);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The norm in the layer before it; whether that could be. What is written to the norm's result is
 * then written to the layer's, which nobody else sees. */
static bool fold_before(cfx_program *p, const cfx__alias *a, cfx_node *n, const cfx__affine *norm) {
    cfx_node *layer = cfx__call_node(n, "input"), *result = first_result(n);
    if (!layer || layer->num_users != 1 || cfx__alias_written(a, layer) ||
        !fold(p, a, layer, norm))
        return false;
    cfx_node_replace(result, layer);
    return true;
}

/* The norm in all the layers after it; whether that could be. */
static bool fold_after(cfx_program *p, const cfx__alias *a, cfx_node *n, const cfx__affine *norm) {
    cfx_node *input = cfx__call_node(n, "input"), *result = first_result(n);
    bool fits = input && result->num_users && !cfx__alias_written(a, input) &&
                !cfx__alias_written(a, result);
    cfx_each_user(result, u) fits = fits && takes(p, a, u->user, result, norm->scale);
    if (!fits)
        return false;
    cfx_each_user(result, u) fits = fits && fold_into(p, a, u->user, norm);
    if (fits)
        cfx_node_replace(result, input);
    return fits;
}

static int run(cfx_program *p, const cfx_dict *options) {
    (void)options;
    int changes = 0;
    cfx__alias a;
    cfx__alias_open(&a, p->module->graph);
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_each_node(p->module->graph, n) {
        size_t mark = cfx_scope_open();
        cfx__affine norm;
        if (read_norm(p, &a, n, &norm) &&
            (fold_before(p, &a, n, &norm) || fold_after(p, &a, n, &norm))) {
            cfx_node *result = first_result(n);
            if (result != n)
                cfx_graph_erase(result);
            changes += cfx_graph_erase(n);
        }
        cfx_scope_close(mark);
        if (!cfx_ok())
            break;
    }
    cfx_set_grad_mode(grad);
    cfx__alias_close(&a);
    return changes;
}

const cfx_pass cfx__pass_fold_batch_norm = {
    .name = "fold_batch_norm",
    .summary = "puts batch norms into the weights of the convolutions and linear layers before or "
               "after them",
    .after = "remove_noops",
    .promise = CFX_PASS_ROUNDED,
    .run = run,
};
