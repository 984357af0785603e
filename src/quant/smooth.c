/* SmoothQuant: where a normalisation feeds linear layers, channels with outliers are divided in
 * the normalisation and multiplied in the weights of the layers: the product is equal, and the
 * inputs quantize better. The factor of a channel is far(x)^a / far(w)^(1 - a). */
#include <cfx/ops.h>

#include "quant.h"

/* ---- what can be smoothed -------------------------------------------------------------------- */

/* Where the scale of a normalisation's channels is stored: arguments of a node. */
typedef struct norm {
    cfx_node *node;
    const char *weight, *bias; /* names of arguments; bias NULL: it has none */
} norm;

static cfx_tensor *held(const cfx_program *p, const cfx__alias *a, const norm *n, const char *arg) {
    return arg ? cfx__program_constant(p, a, cfx__call_node(n->node, arg)) : NULL;
}

/* A norm with a weight, or a product with a parameter of one dimension, as RMS norms end. */
static bool find_norm(const cfx_program *p, const cfx__alias *a, cfx_node *n, norm *out) {
    static const norm known[] = {{NULL, "weight", "bias"}, {NULL, "weight", NULL},
                                 {NULL, "self", NULL},     {NULL, "other", NULL}};
    const bool is[] = {cfx__call_is(n, "layer_norm"), cfx__call_is(n, "rms_norm"),
                       cfx__call_is(n, "mul"), cfx__call_is(n, "mul")};
    for (int i = 0; i < COUNT(known); i++) {
        *out = known[i];
        out->node = n;
        cfx_tensor *w = is[i] ? held(p, a, out, known[i].weight) : NULL;
        if (w && w->ndim == 1 && cfx__quant_rounds(w->dtype))
            return true;
    }
    return false;
}

typedef VEC(size_t) numbers;

/* The linear layers that take what n gives, through views that keep its last dimension; false where
 * something else takes it too. */
static bool find_takers(const cfx__quant_layers *layers, const cfx_node *n, int64_t channels,
                        numbers *out) {
    cfx_each_user(n, u) {
        cfx_result r = cfx_node_result(u->user);
        size_t i = 0;
        while (i < layers->len && layers->data[i].node != u->user)
            i++;
        const cfx__quant_layer *l = i < layers->len ? &layers->data[i] : NULL;
        if (l && l->linear && !l->left && l->input == n &&
            l->tensor->shape[1 - l->axis] == channels)
            VEC_PUSH(*out, i);
        else if (!l && (cfx__call_is(u->user, "view") || cfx__call_is(u->user, "reshape")) &&
                 cfx_equal_values(cfx_result_size(&r, -1), cfx_int(channels))) {
            if (!find_takers(layers, u->user, channels, out))
                return false;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- smoothing ------------------------------------------------------------------------------- */

/* The largest magnitude that each input has in the weights of some layers. */
static cfx_tensor *weights_far(const cfx__quant_layers *layers, const numbers *takers) {
    cfx_tensor *far = NULL;
    for (size_t i = 0; i < takers->len; i++) {
        const cfx__quant_layer *l = &layers->data[takers->data[i]];
        cfx_tensor *mine = cfx_amax(cfx_abs(cfx__quant_weight(l)), cfx_list(l->axis));
        far = far ? cfx_maximum(far, mine) : mine;
    }
    return far;
}

static bool scale_norm(cfx_program *p, const cfx__alias *a, const norm *n, cfx_tensor *s) {
    const char *const args[] = {n->weight, n->bias};
    for (int i = 0; i < COUNT(args); i++) {
        cfx_tensor *t = held(p, a, n, args[i]);
        cfx_tensor *less = t ? cfx_to(cfx_div(t, s), cfx_dtype_value(t->dtype)) : NULL;
        if (t && !cfx__call_set_tensor(p, n->node, args[i], less, "smoothed"))
            return false;
    }
    return cfx_ok();
}

static bool scale_layer(cfx_program *p, cfx__quant_layer *l, cfx_tensor *s) {
    cfx_tensor *w = cfx_mul(cfx__quant_weight(l), l->axis ? cfx_unsqueeze(s, 1) : s);
    w = cfx_to(w, cfx_dtype_value(l->tensor->dtype));
    const cfx_input_spec *spec = cfx_program_input(p, l->weight);
    if (!cfx_ok() || l->weight->num_users > 1) /* tied: another layer would be scaled too */
        return false;
    cfx_dict_set(cfx__program_tensors(p, spec), spec->target, cfx_tensor_value(w));
    l->tensor = w;
    return true;
}

static bool smooth(cfx_program *p, const cfx__alias *a, cfx__quant_layers *layers, const norm *n,
                   const numbers *takers, cfx_tensor *far, double alpha) {
    for (size_t i = 0; i < takers->len; i++)
        if (layers->data[takers->data[i]].weight->num_users > 1)
            return true;
    cfx_tensor *x = cfx_pow(cfx_clamp(far, 1e-5), alpha);
    cfx_tensor *w = cfx_pow(cfx_clamp(weights_far(layers, takers), 1e-5), 1 - alpha);
    cfx_tensor *s = cfx_clamp(cfx_div(x, w), 1e-5);
    bool fine = scale_norm(p, a, n, s);
    for (size_t i = 0; fine && i < takers->len; i++)
        fine = scale_layer(p, &layers->data[takers->data[i]], s);
    return fine && cfx_ok();
}

/* Calls for each norm whose result only linear layers take; first to note it, then to smooth. */
static bool each_norm(cfx_program *p, cfx__quant_layers *layers, const cfx_quantize_options *o,
                      cfx__quant_watch *w, bool change) {
    cfx__alias a;
    bool fine = true;
    cfx__alias_open(&a, p->module->graph);
    cfx_each_node(p->module->graph, n) {
        norm found;
        numbers takers = {0};
        if (fine && find_norm(p, &a, n, &found)) {
            const int64_t channels = held(p, &a, &found, found.weight)->shape[0];
            bool only = find_takers(layers, n, channels, &takers) && takers.len;
            const cfx__quant_seen *seen = cfx__quant_seen_of(w, n, 1);
            if (only && !change)
                cfx__quant_look_at(w, n, 1);
            else if (only && seen && seen->far && seen->far->numel == channels)
                fine = smooth(p, &a, layers, &found, &takers, seen->far, o->smooth);
        }
        VEC_FREE(takers);
    }
    cfx__alias_close(&a);
    return fine;
}

bool cfx__quant_smooth(cfx_program *p, cfx__quant_layers *layers, cfx_value batches,
                       const cfx_quantize_options *o) {
    cfx__quant_watch w = {0};
    bool fine = each_norm(p, layers, o, &w, false) &&
                (!w.len || cfx__quant_calibrate(p, batches, o, false, &w)) &&
                each_norm(p, layers, o, &w, true);
    cfx__quant_watch_free(&w);
    return fine && cfx_ok();
}
