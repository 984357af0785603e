/* Bias correction: a quantized weight makes a mean error of (w - w') E[x]. This mean, for the
 * inputs seen during calibration, is added to the bias. */
#include <cfx/ops.h>

#include "quant.h"

/* The error of a layer's weight summed over the places of its kernel, as [results, inputs of a
 * group]. */
static cfx_tensor *weight_error(const cfx__quant_layer *l, const cfx_quantize_options *o) {
    cfx_tensor *e = cfx_sub(cfx__quant_weight(l), cfx__quant_rounded(l, o));
    if (l->linear)
        return l->axis ? cfx_t(e) : e;
    e = l->axis ? cfx_transpose(e, 0, 1) : e;
    return cfx_sum(cfx_flatten(e, 2), cfx_list(-1));
}

/* What the layer's results lack on average. */
static cfx_tensor *mean_error(const cfx__quant_layer *l, cfx_tensor *mean,
                              const cfx_quantize_options *o) {
    cfx_tensor *e = weight_error(l, o);
    if (!cfx_ok() || mean->numel % e->shape[1])
        return NULL;
    const int64_t groups = mean->numel / e->shape[1];
    cfx_tensor *parts = cfx_reshape(e, cfx_list(groups, -1, e->shape[1]));
    cfx_tensor *x = cfx_reshape(mean, cfx_list(groups, e->shape[1], 1));
    return cfx_reshape(cfx_matmul(parts, x), cfx_list(-1));
}

static bool correct(cfx_program *p, const cfx__quant_layer *l, cfx_tensor *mean,
                    const cfx_quantize_options *o) {
    const cfx_input_spec *s = l->bias ? cfx_program_input(p, l->bias) : NULL;
    cfx_tensor *bias = s ? cfx_program_tensor(p, s) : NULL, *more = mean_error(l, mean, o);
    if (!more ||
        (l->bias && (!bias || !cfx__quant_rounds(bias->dtype) || bias->numel != more->numel)))
        return cfx_ok();
    const char *name = cfx__text_format("%s_corrected", cfx_program_input(p, l->weight)->target);
    cfx_tensor *sum = cfx_to(bias ? cfx_add(bias, more) : more, cfx_dtype_value(l->tensor->dtype));
    return cfx_ok() && cfx__call_set_tensor(p, l->node, l->bias_name, sum, name);
}

/* Which dimension of a layer's input counts its channels, from the end: there may be no batch. */
static int channel_of(const cfx__quant_layer *l) { return l->linear ? 1 : l->tensor->ndim - 1; }

/* A layer stays in float where what is rounded for it has no range: that is watched as well. */
static void look_at(cfx__quant_watch *w, const cfx__quant_layer *l) {
    cfx__quant_look_at(w, l->input, channel_of(l));
    cfx__quant_look_at(w, cfx__quant_source(l->input), channel_of(l));
}

bool cfx__quant_correct(cfx_program *p, const cfx__quant_layers *layers, cfx_value batches,
                        const cfx_quantize_options *o) {
    cfx__quant_watch w = {0};
    for (size_t i = 0; i < layers->len; i++)
        if (!layers->data[i].left && layers->data[i].bias_name)
            look_at(&w, &layers->data[i]);
    bool fine = cfx__quant_calibrate(p, batches, o, false, &w);
    for (size_t i = 0; fine && i < layers->len; i++) {
        const cfx__quant_layer *l = &layers->data[i];
        const cfx__quant_seen *seen =
            l->left ? NULL : cfx__quant_seen_of(&w, l->input, channel_of(l));
        const cfx__quant_seen *source =
            seen ? cfx__quant_seen_of(&w, cfx__quant_source(l->input), 0) : NULL;
        size_t mark = cfx_scope_open();
        if (source && !source->unbounded && seen->mean && l->bias_name)
            fine = correct(p, l, seen->mean, o);
        cfx_scope_close(mark);
    }
    cfx__quant_watch_free(&w);
    return fine;
}
