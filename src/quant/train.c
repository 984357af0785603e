/* Training with quantization in mind: modules that round their weights in forward, as those of
 * torch.ao.nn.qat and torch.ao.nn.intrinsic.qat. A convolution and the normalisation behind it
 * become one, whose weight is rounded as it will be once they are fused. */
#include "fx.h"

#include "../nn/layer.h"

#include <cfx/layers.h>

static cfx_tensor *own(cfx_module *m, const char *name) {
    return cfx_module_has(m, name) ? cfx_attr(m, name) : NULL;
}

/* The layer itself with another weight and bias. */
static cfx_tensor *compute(cfx_module *m, cfx_tensor *x, cfx_tensor *weight, cfx_tensor *bias) {
    static const char *const convolutions[] = {"torch.conv1d", "torch.conv2d", "torch.conv3d"};
    if (cfx_module_has(m, "num_embeddings"))
        return cfx_embedding(weight, x);
    if (!cfx_module_has(m, "stride"))
        return cfx_linear(x, weight, bias);
    const char *name = convolutions[cfx_tensor_ndim(weight) - 3];
    return cfx_as_tensor(cfx_py_from(
        CFX_HERE, name,
        CFX_ARGS(x, weight, bias, cfx_module_attr(m, "stride"), cfx_module_attr(m, "padding"),
                 cfx_module_attr(m, "dilation"), cfx_module_attr(m, "groups"))));
}

/* t, one number for each channel, along dimension `at` of so many. */
static cfx_tensor *along(cfx_tensor *t, int at, int ndim) {
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < ndim; d++)
        shape[d] = d == at ? -1 : 1;
    return cfx_reshape(t, cfx_ints_value(ndim, shape));
}

/* The weight is rounded as it is with the normalisation in it; what that changed is undone before
 * the normalisation itself. */
static cfx_tensor *normalized(cfx_module *self, cfx_module *norm, cfx_tensor *x) {
    cfx_tensor *weight = own(self, "weight"), *bias = own(self, "bias");
    cfx_tensor *deviation =
        cfx_sqrt(cfx_add(own(norm, "running_var"), cfx_module_attr(norm, "eps")));
    cfx_tensor *factor = cfx_div(own(norm, "weight"), deviation);
    int n = cfx_tensor_ndim(weight);
    weight = cfx_call(self, "weight_fake_quant", cfx_mul(weight, along(factor, 0, n)));
    cfx_tensor *y = cfx_div(compute(self, x, weight, NULL), along(factor, 1, n));
    if (bias)
        y = cfx_add(y, along(bias, 1, n));
    return cfx_call(self, "bn", y);
}

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    cfx_module *norm = cfx_module_find(self, "bn");
    cfx_tensor *y = norm
                        ? normalized(self, norm, x)
                        : compute(self, x, cfx_call(self, "weight_fake_quant", own(self, "weight")),
                                  own(self, "bias"));
    return cfx_integer(cfx_module_attr(self, "relu_behind")) ? cfx_relu(y) : y;
}

/* ---- from float and back --------------------------------------------------------------------- */

static bool ends_in_relu(const char *type) { return strstr(type, "ReLU") != NULL; }

/* The convolution of a module of several, its normalisation and whether relu follows. */
static cfx_module *parts(cfx_module *m, cfx_module **norm) {
    cfx_module *inner = cfx__quant_inner(m);
    *norm = NULL;
    for (int i = 1; inner != m && i < cfx_module_count(m); i++)
        if (!strncmp(cfx_module_child(m, i)->type, "BatchNorm", 9))
            *norm = cfx_module_child(m, i);
    return inner;
}

/* The module that trains in the place of m; scope. NULL with an error. */
static cfx_module *trained(cfx_site at, cfx_module *m, const cfx_qconfig *q) {
    cfx_module *norm, *inner = parts(m, &norm), *out = cfx_module_copy(inner);
    cfx_module *fake = cfx_observer_new_from(at, q->weight);
    if (cfx_failed(fake) || cfx_failed(out))
        return NULL;
    out->type = cfx__module_text(out, m->type);
    out->path = cfx__module_text(out, cfx__text_format("torch.ao.nn.qat.%s", m->type));
    out->own_->arity = 1;
    out->own_->forward.one = forward;
    out->training = m->training;
    cfx_module_set_attr(out, "relu_behind", cfx_bool(ends_in_relu(m->type)));
    if (norm)
        cfx_nn_add(out, "bn", norm);
    cfx_nn_add(out, "weight_fake_quant", fake);
    return out;
}

void cfx__quant_train(cfx_site at, cfx_module *gm) {
    cfx_each_node(gm->graph, n) {
        cfx_qconfig q;
        const cfx__quant_row *row = cfx__quant_row_of(gm, n);
        cfx_module *m = row ? cfx_module_find(gm, n->target.name) : NULL, *norm;
        if (!row || !row->reference || strstr(row->reference, "Transpose") ||
            !cfx__quant_is_observed(n) || !cfx__quant_noted(n, &q) || !q.weight.fake ||
            !cfx_module_has(parts(m, &norm), "weight"))
            continue;
        m = trained(at, m, &q);
        if (m)
            cfx__quant_swap(gm, n->target.name, m);
    }
}

cfx_module *cfx_train_module_from(cfx_site at, cfx_module *m, const cfx_qconfig *q) {
    size_t mark = cfx_scope_open();
    cfx_module *norm;
    if (!cfx_module_has(parts(m, &norm), "weight"))
        return cfx_scope_return(mark, NULL);
    m = trained(at, m, q);
    return cfx_scope_return(mark, m ? m : &cfx__module_bad);
}

cfx_module *cfx__quant_untrain(cfx_site at, cfx_module *m, cfx_module **seen) {
    *seen = cfx_module_find(m, "weight_fake_quant");
    if (!*seen)
        return m;
    cfx__scope_own(cfx_keep(*seen)); /* m is about to be replaced */
    cfx_module *norm = cfx_module_find(m, "bn"), *out;
    bool relu = ends_in_relu(m->type);
    const char *type = cfx__quant_plain_class(m->type);
    out = cfx_module_copy(m);
    if (cfx_failed(out))
        return NULL;
    out->own_->arity = 0;
    out->own_->forward.args =
        out->own_->layer->forward ? out->own_->layer->forward : cfx__layer_call;
    cfx_module_remove(out, "weight_fake_quant");
    cfx_module_remove(out, "bn");
    cfx_module_remove(out, "relu_behind");
    out->type = cfx__module_text(out, type);
    out->path = cfx__module_text(out, cfx__text_format("torch.nn.modules.%s", type));
    if (norm)
        out = cfx__quant_folded(out, norm);
    if (!out)
        return NULL;
    cfx_forward_from(at, *seen, CFX_ARGS(cfx_detach(own(out, "weight"))));
    return relu ? cfx__quant_pair(cfx__quant_pair_of(type), out, cfx_nn_relu()) : out;
}
