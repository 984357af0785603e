/* Converting: observers become quantize and dequantize, modules with weights reference modules,
 * whose weights are rounded. What torch.ao's convert_to_reference_fx gives. */
#include "fx.h"

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether the node was there before preparing, and is to stay in float. */
static bool is_left_out(const cfx_node *n) {
    cfx_qconfig q;
    bool original = cfx_node_get_meta(n, "observed").tag == CFX_TAG_BOOL;
    return original && !cfx__quant_noted(n, &q);
}

/* "c_input" or "c": what the scale of an observer is called after. */
static const char *prefix_of(const cfx_node *observer) {
    const cfx_node *observed = cfx__quant_arg(observer, 0), *of = observed;
    bool input = is_left_out(observed);
    if (input) {
        of = observer->users ? observer->users->user : NULL;
        cfx_each_user(observer, u) {
            bool linear =
                u->user->op == CFX_CALL_FUNCTION &&
                !strcmp(cfx__quant_spelling(u->user->target.name), "torch.nn.functional.linear");
            if (linear) {
                of = u->user;
                break;
            }
        }
    }
    return cfx__text_format("%s%s", of ? cfx__quant_scope(of) : "", input ? "_input" : "");
}

/* An attribute of gm, and the node that reads it. */
static cfx_node *attr_node(cfx_module *gm, const char *prefix, cfx_value value) {
    const char *name = cfx__quant_new_name(gm, prefix);
    if (value.tag == CFX_TAG_TENSOR)
        cfx_nn_buffer(gm, name, cfx_as_tensor(value), true);
    else
        cfx_module_set_attr(gm, name, value);
    return cfx_graph_get_attr(gm->graph, name);
}

/* ---- observers ------------------------------------------------------------------------------- */

/* quantize_per_tensor or quantize_per_channel by what the observer has seen. */
static cfx_node *static_node(cfx_site at, cfx_module *gm, cfx_node *n, cfx_module *observer,
                             const cfx_observer *how) {
    cfx_value params = cfx_observer_qparams_from(at, observer);
    if (cfx_is_bad(params))
        return NULL;
    bool channels = cfx__observer_is_per_channel(how);
    cfx_value scale = cfx_at(params, 0), zero = cfx_at(params, 1);
    cfx_value x = cfx_node_value(cfx__quant_arg(n, 0)), dtype = cfx_dtype_value(how->dtype);
    const char *prefix = prefix_of(n);
    if (!channels) {
        scale = cfx_float(cfx__tensor_number(cfx_as_tensor(scale), 0));
        zero = cfx_int(cfx__int64_of(cfx__tensor_number(cfx_as_tensor(zero), 0)));
    }
    cfx_node *s = attr_node(gm, cfx__text_format("%s_scale_", prefix), scale);
    cfx_node *z = attr_node(gm, cfx__text_format("%s_zero_point_", prefix), zero);
    if (channels)
        return cfx_graph_call_function(gm->graph, "torch.quantize_per_channel",
                                       cfx_tuple(x, s, z, how->ch_axis, dtype), CFX_NONE);
    return cfx_graph_call_function(gm->graph, "torch.quantize_per_tensor",
                                   cfx_tuple(x, s, z, dtype), CFX_NONE);
}

static bool all_left_out(const cfx_node *n) {
    cfx_each_input(n, u) if (!is_left_out(u->node)) return false;
    cfx_each_user(n, u) if (!is_left_out(u->user)) return false;
    return true;
}

static void convert_observer(cfx_site at, cfx_module *gm, cfx_node *n, cfx_module *observer) {
    cfx_observer how = cfx_observer_how(observer);
    cfx_node *x = cfx__quant_arg(n, 0), *quantized = x;
    bool half = how.dtype == CFX_F16;
    if (!all_left_out(n) && (half || cfx__dtype_is_quantized(how.dtype))) {
        CFX_INSERT_BEFORE(gm->graph, n) {
            if (how.dynamic) /* half of the range, as kernels for x86 want it */
                quantized = cfx_graph_call_function(
                    gm->graph, "torch.quantize_per_tensor_dynamic",
                    cfx_tuple(cfx_node_value(x), cfx_dtype_value(how.dtype), cfx_bool(true)),
                    CFX_NONE);
            else if (half)
                quantized = cfx_graph_call_method(
                    gm->graph, "to", cfx_tuple(cfx_node_value(x), cfx_dtype_value(how.dtype)),
                    CFX_NONE);
            else
                quantized = static_node(at, gm, n, observer, &how);
            if (quantized)
                quantized = cfx_graph_call_method(gm->graph, "dequantize",
                                                  cfx_tuple(cfx_node_value(quantized)), CFX_NONE);
        }
    }
    if (!quantized)
        return;
    cfx_node_replace(n, quantized);
    cfx_graph_erase(n);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A weight rounded as the observer says, as a quantized tensor; scope. */
static cfx_tensor *rounded(cfx_site at, const cfx_observer *how, cfx_value params, cfx_tensor *w) {
    cfx_tensor *scale = cfx_tensor_at(params, 0), *zero = cfx_tensor_at(params, 1);
    (void)at;
    w = cfx_detach(w);
    if (cfx__observer_is_per_channel(how))
        return cfx_quantize_per_channel(w, scale, zero, how->ch_axis, cfx_dtype_value(how->dtype));
    return cfx_quantize_per_tensor(w, cfx__tensor_number(scale, 0),
                                   cfx__int64_of(cfx__tensor_number(zero, 0)),
                                   cfx_dtype_value(how->dtype));
}

/* One parameter of m becomes what float16 can say of it. */
static void halve_parameter(cfx_module *m, const char *name) {
    cfx_tensor *w = cfx_detach(cfx_as_tensor(cfx_module_attr(m, name)));
    cfx_tensor *half = cfx_to(w, cfx_f16);
    if (!cfx_ok())
        return;
    cfx_nn_parameter(m, name, cfx_to(half, cfx_f32));
    cfx_module_set_attr(m, cfx__text_format("%s_quantized", name), cfx_tensor_value(half));
}

/* One parameter of m becomes what its quantized form stands for; scale and zero point are kept. */
static void round_parameter(cfx_site at, cfx_module *m, const char *name, const cfx_observer *how,
                            cfx_value params) {
    cfx_tensor *w = cfx_as_tensor(cfx_module_attr(m, name));
    cfx_tensor *q = rounded(at, how, params, w);
    if (!cfx_ok())
        return;
    cfx_nn_parameter(m, name, cfx_dequantize(q));
    cfx_nn_buffer(m, cfx__text_format("%s_scale", name), cfx_tensor_at(params, 0), true);
    cfx_nn_buffer(m, cfx__text_format("%s_zero_point", name), cfx_tensor_at(params, 1), true);
    cfx_module_set_attr(m, cfx__text_format("%s_quantized", name), cfx_tensor_value(q));
    int low, high;
    cfx__observer_range(how, &low, &high);
    cfx_module_set_attr(m, cfx__text_format("%s_quant_max", name), cfx_int(high));
}

/* A copy of a float module that prints as a reference module, its weights rounded. */
static cfx_module *reference_of(cfx_site at, cfx_module *m, const cfx_observer *weight,
                                cfx_module *seen) {
    cfx_module *out = cfx_module_copy(m);
    if (cfx_failed(out))
        return NULL;
    bool embedding = !strncmp(m->type, "Embedding", 9);
    out->type = cfx__module_text(
        out, cfx__text_format("Quantized%s(Reference)", embedding ? "Embedding" : m->type));
    out->path =
        cfx__module_text(out, cfx__text_format("torch.ao.nn.quantized.reference.%s", m->type));
    for (int64_t i = 0; i < m->parameters->len; i++) {
        const char *name = cfx_text(m->parameters->entries[i].key);
        cfx_value v = m->parameters->entries[i].value;
        if (strncmp(name, "weight", 6) || v.tag != CFX_TAG_TENSOR)
            continue;
        if (weight->dtype == CFX_F16) {
            halve_parameter(out, name);
            continue;
        }
        cfx_value params = seen ? cfx_observer_qparams_from(at, seen)
                                : cfx__observer_params_of(at, *weight, cfx_as_tensor(v));
        if (!cfx_is_bad(params))
            round_parameter(at, out, name, weight, params);
    }
    return cfx_ok() ? out : NULL;
}

/* Whether the backend has kernels for a module with that qconfig. */
static bool has_kernels(const cfx__quant_row *row, const cfx_qconfig *q) {
    cfx_dtype act = cfx__observer_whole(q->activation).dtype;
    cfx_dtype weight = cfx__observer_whole(q->weight).dtype;
    return ((row->can & CFX__Q_WEIGHTED) && act == CFX_QU8 && weight == CFX_QI8) ||
           ((row->can & CFX__Q_DYNAMIC) && act == CFX_QU8 && weight == CFX_QI8 &&
            q->activation.dynamic) ||
           ((row->can & CFX__Q_EMBED) && act == CFX_F32 && weight == CFX_QU8) ||
           ((row->can & CFX__Q_HALF) && act == CFX_F16 && weight == CFX_F16 &&
            q->activation.dynamic);
}

static void convert_module(cfx_site at, cfx_module *gm, cfx_node *n) {
    cfx_module *m = cfx_module_find(gm, n->target.name), *seen = NULL;
    m = cfx__quant_untrain(at, m, &seen);
    if (!m)
        return;
    if (seen)
        cfx__quant_swap(gm, n->target.name, m);
    const cfx__quant_row *row = cfx__quant_row_of(gm, n);
    cfx_qconfig q;
    if (!row || !row->reference || !cfx__quant_is_observed(n) || !cfx__quant_noted(n, &q) ||
        !has_kernels(row, &q))
        return;
    cfx_observer weight = cfx__observer_whole(q.weight);
    weight.fake = CFX_NO_FAKE_QUANTIZE;
    cfx_module *inner = cfx__quant_inner(m), *made = NULL;
    if (!strncmp(inner->path, "torch.nn.", 9)) /* else another call of it came before */
        made = reference_of(at, inner, &weight, seen);
    if (!made)
        return;
    if (inner != m)
        cfx_nn_add(m, "0", made);
    else
        cfx__quant_swap(gm, n->target.name, made);
}

static cfx_module *reference(cfx_site at, cfx_module *prepared) {
    if (!prepared || !prepared->graph || !cfx_module_has(prepared, "_observed")) {
        cfx_fail(CFX_ASSERTION_ERROR, at, "incoming model must be produced by prepare_fx");
        return &cfx__module_bad;
    }
    cfx_module *gm = cfx_module_copy(prepared);
    if (cfx_failed(gm) || !cfx_ok())
        return &cfx__module_bad;
    cfx_each_node(gm->graph, n) {
        cfx_module *m = n->op == CFX_CALL_MODULE ? cfx_module_find(gm, n->target.name) : NULL;
        if (!cfx_ok())
            return &cfx__module_bad;
        if (m && cfx_module_is_observer(m))
            convert_observer(at, gm, n, m);
        else if (m)
            convert_module(at, gm, n);
    }
    cfx_graph_eliminate_dead_code(gm->graph);
    return cfx_ok() ? cfx_graph_module(gm, cfx_graph_copy(gm->graph), NULL) : &cfx__module_bad;
}

/* The quantized form of a float module, alone or in a pair. */
static cfx_module *quantized(cfx_site at, cfx_module *m, const cfx_qconfig *q, cfx_module *seen,
                             double scale, int64_t zero_point) {
    cfx_module *inner = cfx__quant_inner(m), *made = NULL;
    bool dynamic = q->activation.dynamic, embedding = !strncmp(inner->type, "Embedding", 9);
    cfx_observer weight = cfx__observer_whole(q->weight);
    weight.fake = CFX_NO_FAKE_QUANTIZE;
    if (!dynamic && !embedding) /* layers whose weights stay floats */
        made = cfx__quant_native(at, m, CFX__NATIVE_SPECIAL, scale, zero_point);
    cfx_module *rounded = made || !cfx_ok() ? NULL : reference_of(at, inner, &weight, seen);
    if (!rounded)
        return made;
    if (inner != m)
        rounded = cfx__quant_pair(m->type, rounded, cfx_module_child(m, 1));
    if (dynamic || embedding)
        return cfx__quant_native(at, rounded, embedding ? CFX__NATIVE_WEIGHT : CFX__NATIVE_DYNAMIC,
                                 1, 0);
    made = cfx__quant_native(at, rounded, CFX__NATIVE_STATIC, scale, zero_point);
    return made ? made : cfx__quant_native(at, rounded, CFX__NATIVE_SPECIAL, scale, zero_point);
}

cfx_module *cfx_convert_module_from(cfx_site at, cfx_module *m, const cfx_qconfig *q,
                                    cfx_module *seen, double scale, int64_t zero_point) {
    size_t mark = cfx_scope_open();
    cfx_module *trained = NULL;
    m = cfx__quant_untrain(at, m, &trained);
    cfx_module *made = m ? quantized(at, m, q, trained ? trained : seen, scale, zero_point) : NULL;
    return cfx_scope_return(mark, cfx_ok() ? made : &cfx__module_bad);
}

cfx_module *cfx_convert_to_reference_fx_from(cfx_site at, cfx_module *prepared) {
    size_t mark = cfx_scope_open();
    return cfx_scope_return(mark, reference(at, prepared));
}

cfx_module *cfx_convert_fx_from(cfx_site at, cfx_module *prepared) {
    size_t mark = cfx_scope_open();
    cfx_module *gm = reference(at, prepared);
    if (!cfx_failed(gm))
        gm = cfx__quant_lower(at, gm);
    return cfx_scope_return(mark, gm);
}
