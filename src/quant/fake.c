/* FakeQuantize: an observer whose numbers are used at once. What goes through is rounded to what
 * quantized numbers can say; gradients go straight through, and to scale and zero point where these
 * are learned. */
#include "fx.h"

static bool is_on(const cfx_module *m, const char *name) {
    return cfx_tensor_get(cfx_as_tensor(cfx_module_attr(m, name)), 0) != 0;
}

static cfx_tensor *stored(cfx_module *m, const char *name) {
    return cfx_as_tensor(cfx_module_attr(m, name));
}

/* What the observer has seen becomes scale and zero point. */
static void observe(cfx_module *self, cfx_tensor *x) {
    cfx_module *observer = cfx_module_find(self, "activation_post_process");
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_forward(observer, cfx_detach(x));
    cfx_value params = cfx_observer_qparams(observer);
    bool learned = cfx_dict_find(self->parameters, cfx_string_value("scale")) != NULL;
    if (!cfx_is_bad(params) && learned) {
        /* parameters stay the same objects: the optimiser has them */
        cfx_tensor *scale = stored(self, "scale"), *zero = stored(self, "zero_point");
        if (cfx_tensor_numel(scale) == cfx_tensor_numel(cfx_tensor_at(params, 0))) {
            cfx_copy_(scale, cfx_tensor_at(params, 0));
            cfx_copy_(zero, cfx_tensor_at(params, 1));
        }
    } else if (!cfx_is_bad(params)) {
        cfx_module_set_attr(self, "scale", cfx_at(params, 0));
        cfx_module_set_attr(self, "zero_point",
                            cfx_tensor_value(cfx_to(cfx_tensor_at(params, 1), cfx_i32)));
    }
    cfx_set_grad_mode(before);
}

static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    if (is_on(self, "observer_enabled") && !cfx_tensor_is_fake(x))
        observe(self, x);
    if (!is_on(self, "fake_quant_enabled") || !cfx_ok())
        return a.v[0];
    cfx_observer how = cfx_observer_how(self);
    int low, high;
    cfx__observer_range(&how, &low, &high);
    cfx_tensor *scale = cfx_attr(self, "scale"), *zero = cfx_attr(self, "zero_point");
    bool channels = cfx__observer_is_per_channel(&how);
    if (how.learnable) {
        double factor = 1;
        return channels ? cfx_tensor_value(cfx_aten__fake_quantize_learnable_per_channel_affine(
                              x, scale, zero, how.ch_axis, low, high, factor))
                        : cfx_tensor_value(cfx_aten__fake_quantize_learnable_per_tensor_affine(
                              x, scale, zero, low, high, factor));
    }
    if (channels)
        return cfx_tensor_value(
            cfx_fake_quantize_per_channel_affine(x, scale, zero, how.ch_axis, low, high));
    return cfx_tensor_value(cfx_fake_quantize_per_tensor_affine(x, scale, zero, low, high));
}

static const char *show(const cfx_module *m) {
    cfx_observer how = cfx_observer_how(m);
    int low, high;
    cfx__observer_range(&how, &low, &high);
    const cfx_module *observer = cfx_module_find(m, "activation_post_process");
    return cfx__text_format(
        "fake_quant_enabled=%s, observer_enabled=%s, quant_min=%d, "
        "quant_max=%d, dtype=torch.%s, qscheme=torch.%s, ch_axis=%d, scale=%s, "
        "zero_point=%s",
        cfx_str(cfx_module_attr(m, "fake_quant_enabled")),
        cfx_str(cfx_module_attr(m, "observer_enabled")), low, high, cfx_dtype_name(how.dtype),
        cfx_text(cfx_module_attr(observer, "qscheme")),
        cfx__observer_is_per_channel(&how) ? how.ch_axis : -1, cfx_str(cfx_module_attr(m, "scale")),
        cfx_str(cfx_module_attr(m, "zero_point")));
}

cfx_module *cfx__fake_quantize_new(cfx_site at, cfx_observer how) {
    bool learnable = how.learnable;
    const char *type = learnable                                ? "_LearnableFakeQuantize"
                       : how.kind == CFX_FIXED_QPARAMS_OBSERVER ? "FixedQParamsFakeQuantize"
                                                                : "FakeQuantize";
    how.fake = how.learnable = false;
    cfx_module *observer = cfx_observer_new_from(at, how);
    if (!observer)
        return NULL;
    int64_t one = 1;
    uint8_t on = 1;
    float scale = 1, zero_float = 0;
    int32_t zero = 0;
    cfx_module *m = cfx_module_new(type, forward, "X");
    m->path = cfx__module_text(m, cfx__text_format("torch.ao.quantization.%s", type));
    m->leaf = true;
    m->extra_repr = show;
    cfx_nn_add(m, "activation_post_process", observer);
    cfx_nn_buffer(m, "fake_quant_enabled", cfx_tensor_new(CFX_U8, 1, &one, &on), true);
    cfx_nn_buffer(m, "observer_enabled", cfx_tensor_new(CFX_U8, 1, &one, &on), true);
    if (learnable) {
        cfx_nn_parameter(m, "scale", cfx_tensor_new(CFX_F32, 1, &one, &scale));
        cfx_nn_parameter(m, "zero_point", cfx_tensor_new(CFX_F32, 1, &one, &zero_float));
    } else {
        cfx_nn_buffer(m, "scale", cfx_tensor_new(CFX_F32, 1, &one, &scale), true);
        cfx_nn_buffer(m, "zero_point", cfx_tensor_new(CFX_I32, 1, &one, &zero), true);
    }
    return m;
}

static void set_on(cfx_module *m, const char *name, bool on) {
    int64_t one = 1;
    uint8_t value = on;
    cfx_module_set_attr(m, name, cfx_tensor_value(cfx_tensor_new(CFX_U8, 1, &one, &value)));
}

static void set_one(cfx_module *m, void *user) {
    const bool *on = user;
    if (!cfx_module_has(m, "fake_quant_enabled"))
        return;
    set_on(m, "observer_enabled", on[0]);
    set_on(m, "fake_quant_enabled", on[1]);
}

void cfx_fake_quantize_set(cfx_module *m, bool observes, bool rounds) {
    if (m)
        cfx_module_apply(m, set_one, (bool[]){observes, rounds});
}
