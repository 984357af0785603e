/* Quantizing a program: layers are found, inputs and weights looked at, then nodes are inserted.
 * Start at cfx_quantize. */
#include <cfx/ops.h>

#include "quant.h"

/* ---- the result ------------------------------------------------------------------------------ */

static void quantized_free(void *obj) {
    cfx_quantized *q = obj;
    cfx_drop(q->program);
    cfx_drop(q->reference);
    cfx__free(q->layers);
}

static const cfx__obj_type quantized_type = {.name = "quantized", .free = quantized_free};
cfx_quantized cfx__quantized_bad = {
    .head = {.refs = 1, .flags = CFX__BAD, .type = &quantized_type},
    .program = &cfx__program_bad, .reference = &cfx__program_bad};

static int64_t bytes_in(const cfx_dict *d) {
    int64_t sum = 0;
    for (int64_t i = 0; i < d->len; i++)
        if (d->entries[i].value.tag == CFX_TAG_TENSOR) {
            const cfx_tensor *t = cfx_as_tensor(d->entries[i].value);
            sum += t->numel * (int64_t)cfx_dtype_size((cfx_dtype)t->dtype);
        }
    return sum;
}

static int64_t bytes_of(const cfx_program *p) {
    return bytes_in(p->state) + bytes_in(p->constants);
}

/* Channels of a weight that hold nothing but zeros. */
static int zero_channels(const cfx__quant_layer *l) {
    if (l->left)
        return 0;
    size_t mark = cfx_scope_open();
    cfx_tensor *rows = cfx_reshape(cfx_movedim(cfx__quant_weight(l), l->axis, 0),
                                   cfx_list(l->tensor->shape[l->axis], -1));
    cfx_tensor *far = cfx_amax(cfx_abs(rows), cfx_list(1));
    int zeros = 0;
    for (int64_t i = 0; cfx_ok() && i < far->numel; i++)
        zeros += ((const float *)far->data)[i] == 0;
    cfx_scope_close(mark);
    return zeros;
}

static void list_layers(cfx_quantized *q, const cfx__quant_layers *layers) {
    q->nlayers = (int)layers->len;
    q->layers = cfx__alloc0((layers->len + 1) * sizeof *q->layers);
    for (size_t i = 0; i < layers->len; i++) {
        const cfx__quant_layer *l = &layers->data[i];
        q->layers[i] = (cfx_quantize_layer){cfx_program_text(q->program, l->node->name),
                                            cfx_op_name(cfx__call_op(l->node)), l->left,
                                            zero_channels(l), l->flat};
    }
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static bool needs_batches(const cfx_quantize_options *o) {
    return o->scheme == CFX_QUANTIZE_STATIC || o->smooth > 0;
}

static bool has_batches(cfx_value v) {
    return (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) && cfx_as_list(v)->len > 0;
}

static bool check_options(cfx_value batches, const cfx_quantize_options *o) {
    if (o->bits != 0 && o->bits != 4 && o->bits != 8)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "weights of %d bits: only 8 and 4 are there",
                 o->bits);
    else if (o->group < 0 || o->group == 1)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "a group of %d inputs has no use", o->group);
    else if (o->activations != 0 && o->activations != 8)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "activations of %d bits: only 8 are there",
                 o->activations);
    else if (o->activations && o->scheme != CFX_QUANTIZE_WEIGHT)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "activations of 8 bits in blocks are for weights quantized alone: the other "
                 "schemes round them in their own way");
    else if (o->smooth < 0 || o->smooth > 1)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "smoothing by %g: it is between 0 and 1",
                 o->smooth);
    else if (o->percentile < 0 || o->percentile > 100)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%g is no percentile", o->percentile);
    else if (needs_batches(o) && !has_batches(batches))
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "there are no batches to calibrate with, and %s needs them",
                 o->scheme == CFX_QUANTIZE_STATIC ? "static quantization" : "smoothing");
    return cfx_ok();
}

/* An error where no layer is left to be quantized: why. */
static bool check_layers(const cfx__quant_layers *layers) {
    const char *why = NULL;
    for (size_t i = 0; i < layers->len; i++) {
        if (!layers->data[i].left)
            return true;
        why = layers->data[i].left;
    }
    if (!why)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "there is nothing to quantize: no convolution or product with a weight");
    else
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is nothing to quantize: of %s, %s",
                 layers->data[layers->len - 1].node->name, why);
    return false;
}

/* In-place forms are functional where they can be, batch norms are part of the layer before them,
 * and what does nothing is not in the way. */
static cfx_program *prepared(const cfx_program *p) {
    static const char *const passes[] = {"remove_noops", "fold_batch_norm", "dead_code", "prune"};
    cfx_program *q = cfx_program_copy(p);
    if (!cfx_failed(q) && cfx_pass_apply(cfx_pass_find("functionalize"), q, NULL) < 0)
        cfx__error_forgive(); /* caches that are written to in ways of their own stay as they are */
    for (int i = 0; i < COUNT(passes); i++)
        if (cfx_pass_apply(cfx_pass_find(passes[i]), q, NULL) < 0)
            return &cfx__program_bad;
    return q;
}

/* ---- doing it -------------------------------------------------------------------------------- */

static bool insert(cfx_program *p, const cfx__quant_layers *layers, const cfx__quant_watch *w,
                   const cfx_quantize_options *o) {
    cfx_node **made = cfx__alloc0((layers->len + 1) * sizeof *made);
    bool fine = cfx__quant_inputs(p, layers, w, o);
    for (size_t i = 0; fine && i < layers->len; i++) {
        if (o->progress)
            o->progress("rounding weights", (int64_t)i, (int64_t)layers->len, o->user);
        if (!layers->data[i].left)
            fine = cfx__quant_store(p, layers, i, made, o);
    }
    cfx__free(made);
    return fine && cfx_pass_apply(cfx_pass_find("dead_code"), p, NULL) >= 0 &&
           cfx_pass_apply(cfx_pass_find("prune"), p, NULL) >= 0 && cfx_program_infer(p);
}

/* Quantizes p in place; `reference` is p as it was right before nodes came in. */
static bool quantize(cfx_program *p, cfx_value batches, const cfx_quantize_options *o,
                     cfx__quant_layers *layers, cfx_program **reference) {
    cfx__quant_watch w = {0};
    bool fine = cfx__quant_find_layers(p, o, layers) && check_layers(layers) &&
                (o->smooth == 0 || cfx__quant_smooth(p, layers, batches, o));
    if (fine)
        *reference = cfx_program_copy(p);
    fine = fine && !cfx_failed(*reference) && (o->keep_bias || !has_batches(batches) ||
                                               cfx__quant_correct(p, layers, batches, o));
    if (fine && o->scheme == CFX_QUANTIZE_STATIC) {
        cfx__quant_plan_inputs(layers, &w);
        fine = cfx__quant_calibrate(p, batches, o, true, &w);
        if (fine)
            cfx__quant_judge_inputs(layers, &w);
        fine = fine && check_layers(layers);
    }
    fine = fine && insert(p, layers, &w, o);
    cfx__quant_watch_free(&w);
    return fine;
}

cfx_quantized *cfx_quantize(const cfx_program *p, cfx_value batches, cfx_quantize_options options) {
    if (!cfx__program_given((cfx_site){0}, p) || !check_options(batches, &options))
        return &cfx__quantized_bad;
    size_t mark = cfx_scope_open();
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_program *copy = prepared(p), *reference = NULL;
    cfx__quant_layers layers = {0};
    cfx_quantized *q = &cfx__quantized_bad;
    if (!cfx_failed(copy) && quantize(copy, batches, &options, &layers, &reference)) {
        q = cfx__obj_new(&quantized_type, sizeof *q);
        q->program = cfx_keep(copy);
        q->reference = cfx_keep(reference);
        q->bytes_before = bytes_of(p);
        q->bytes_after = bytes_of(copy);
        list_layers(q, &layers);
    }
    VEC_FREE(layers);
    cfx_set_grad_mode(grad);
    return cfx_scope_return(mark, q);
}
