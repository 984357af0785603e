/* FakeQuantize: an observer whose numbers are used at once. What goes through is rounded to what
 * quantized numbers can say; gradients go straight through, and to scale and zero point where these
 * are learned. Start at `forms`. */
#include "fx.h"

#include <cfx/grad.h>
#include <float.h>
#include <math.h>

static cfx_tensor *stored(const cfx_module *m, const char *name) {
    return cfx_as_tensor(cfx_module_attr(m, name));
}

static bool is_on(const cfx_module *m, const char *name) {
    return cfx__tensor_number(stored(m, name), 0) != 0;
}

static cfx_module *observer_in(const cfx_module *m) {
    return cfx_module_find(m, "activation_post_process");
}

static bool is_symmetric(const cfx_observer *how) {
    return how->qscheme == CFX_PER_TENSOR_SYMMETRIC || how->qscheme == CFX_PER_CHANNEL_SYMMETRIC;
}

/* ---- what is seen ---------------------------------------------------------------------------- */

/* Buffers become these; parameters are written to: the optimiser has them. */
static void set_params(cfx_module *self, cfx_tensor *scale, cfx_tensor *zero) {
    cfx_tensor *old = stored(self, "scale");
    if (!cfx_ok())
        return;
    if (cfx_observer_how(self).fake != CFX_LEARNABLE_FAKE_QUANTIZE) {
        cfx_module_set_attr(self, "scale", cfx_tensor_value(scale));
        cfx_module_set_attr(self, "zero_point", cfx_tensor_value(zero));
    } else if (cfx_tensor_numel(old) != cfx_tensor_numel(scale)) {
        cfx_fail(CFX_VALUE_ERROR, CFX_HERE,
                 "%lld scales are learned, and there are %lld channels: say how many in `channels`",
                 (long long)cfx_tensor_numel(old), (long long)cfx_tensor_numel(scale));
    } else {
        cfx_copy_(old, scale);
        cfx_copy_(stored(self, "zero_point"), zero);
    }
}

/* What the observer has seen becomes scale and zero point. */
static void choose(cfx_module *self, const cfx_observer *how) {
    cfx_value params = cfx_observer_qparams(observer_in(self));
    bool floats = how->qscheme == CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
    if (!cfx_is_bad(params))
        set_params(self, cfx_tensor_at(params, 0),
                   cfx_to(cfx_tensor_at(params, 1), floats ? cfx_f32 : cfx_i32));
}

/* The same in the arithmetic of PyTorch's kernels. */
static void choose_fused(cfx_module *self, const cfx_observer *how) {
    const cfx_tensor *min = stored(observer_in(self), "min_val"),
                     *max = stored(observer_in(self), "max_val");
    int low, high;
    int64_t n = cfx_tensor_numel(min);
    if (!n || cfx__tensor_number(min, 0) == INFINITY)
        return;
    cfx__observer_range(how, &low, &high);
    cfx_tensor *scale = cfx_tensor_new(CFX_F32, 1, &n, NULL);
    cfx_tensor *zero = cfx_tensor_new(CFX_I32, 1, &n, NULL);
    for (int64_t i = 0; i < n && cfx_ok(); i++) {
        double s;
        int64_t z;
        cfx__quantizer_choose((float)cfx__tensor_number(min, i), (float)cfx__tensor_number(max, i),
                              low, high, is_symmetric(how), &s, &z);
        ((float *)(void *)scale->data)[i] = (float)s;
        ((int32_t *)(void *)zero->data)[i] = (int32_t)z;
    }
    set_params(self, scale, zero);
}

/* ---- what is rounded ------------------------------------------------------------------------- */

static cfx_tensor *rounded(cfx_module *self, const cfx_observer *how, cfx_tensor *x) {
    cfx_tensor *scale = stored(self, "scale"), *zero = stored(self, "zero_point");
    int low, high;
    cfx__observer_range(how, &low, &high);
    if (cfx__observer_is_per_channel(how))
        return cfx_fake_quantize_per_channel_affine(x, scale, zero, how->ch_axis, low, high);
    return cfx_fake_quantize_per_tensor_affine(x, scale, zero, low, high);
}

static cfx_tensor *rounded_by_parameters(cfx_module *self, const cfx_observer *how, cfx_tensor *x) {
    cfx_tensor *scale = stored(self, "scale"), *zero = stored(self, "zero_point");
    int low, high;
    cfx__observer_range(how, &low, &high);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_clamp_(scale, (double)FLT_EPSILON);
    if (is_symmetric(how))
        cfx_zero_(zero);
    cfx_set_grad_mode(before);
    double factor = how->scale_gradients ? 1 / sqrt((double)cfx_tensor_numel(x) * high) : 1;
    if (cfx__observer_is_per_channel(how))
        return cfx_aten__fake_quantize_learnable_per_channel_affine(x, scale, zero, how->ch_axis,
                                                                    low, high, factor);
    return cfx_aten__fake_quantize_learnable_per_tensor_affine(x, scale, zero, low, high, factor);
}

/* ---- forms ----------------------------------------------------------------------------------- */

static const char *params_text(const cfx_module *m) {
    return cfx__text_format("scale=%s, zero_point=%s", cfx_str(cfx_module_attr(m, "scale")),
                            cfx_str(cfx_module_attr(m, "zero_point")));
}

static const char *range_text(const cfx_observer *how) {
    int low, high;
    cfx__observer_range(how, &low, &high);
    return cfx__text_format("quant_min=%d, quant_max=%d", low, high);
}

/* "a, b, c" behind what all show: which parts are on. */
static const char *show_enabled(const cfx_module *m, const char *a, const char *b, const char *c) {
    return cfx__text_format("fake_quant_enabled=%s, observer_enabled=%s, %s, %s, %s",
                            cfx_str(cfx_module_attr(m, "fake_quant_enabled")),
                            cfx_str(cfx_module_attr(m, "observer_enabled")), a, b, c);
}

/* Rows of 4 bits are bytes until they are packed. */
static const char *dtype_text(const cfx_observer *how) {
    bool rows = how->qscheme == CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
    return cfx__text_format("dtype=torch.%s",
                            rows && how->quant_max == 15 ? "quint4x2" : cfx_dtype_name(how->dtype));
}

static const char *qscheme_text(const cfx_module *m) {
    return cfx__text_format("qscheme=torch.%s",
                            cfx_text(cfx_module_attr(observer_in(m), "qscheme")));
}

static const char *show_plain(const cfx_module *m) {
    cfx_observer how = cfx_observer_how(m);
    int axis = cfx__observer_is_per_channel(&how) ? how.ch_axis : -1;
    const char *scheme =
        cfx__text_format("%s, %s, ch_axis=%d", dtype_text(&how), qscheme_text(m), axis);
    return show_enabled(m, range_text(&how), scheme, params_text(m));
}

static const char *show_fixed(const cfx_module *m) {
    cfx_observer how = cfx_observer_how(m);
    const char *dtype = cfx__text_format("%s, %s", dtype_text(&how), range_text(&how));
    return show_enabled(m, params_text(m), dtype, qscheme_text(m));
}

static const char *show_fused(const cfx_module *m) {
    cfx_observer how = cfx_observer_how(m);
    return cfx__text_format("%s, reduce_range=%s", show_fixed(m),
                            how.reduce_range ? "True" : "False");
}

static const char *show_nothing(const cfx_module *m) {
    (void)m;
    return "";
}

/* The classes of torch.ao.quantization. */
static const struct form {
    const char *type, *observes; /* the buffer that says whether it does */
    void (*choose)(cfx_module *self, const cfx_observer *how);
    cfx_tensor *(*round)(cfx_module *self, const cfx_observer *how, cfx_tensor *x);
    const char *(*show)(const cfx_module *m);
    cfx_dtype flag; /* of the buffers that say what is on */
    bool late;      /* chooses when it rounds, not when it observes */
} forms[] = {
    [CFX_FAKE_QUANTIZE] = {"FakeQuantize", "observer_enabled", choose, rounded, show_plain, CFX_U8,
                           false},
    [CFX_FUSED_FAKE_QUANTIZE] = {"FusedMovingAvgObsFakeQuantize", "observer_enabled", choose_fused,
                                 rounded, show_fused, CFX_I64, true},
    [CFX_LEARNABLE_FAKE_QUANTIZE] = {"_LearnableFakeQuantize", "static_enabled", choose,
                                     rounded_by_parameters, show_nothing, CFX_U8, false},
};

static const struct form fixed = {
    "FixedQParamsFakeQuantize", "observer_enabled", choose, rounded, show_fixed, CFX_U8, false};

static const struct form *form_of(const cfx_observer *how) {
    return how->kind == CFX_FIXED_QPARAMS_OBSERVER ? &fixed : &forms[how->fake];
}

cfx_fake_quantize cfx__fake_quantize_kind(const cfx_module *m) {
    for (int i = 1; m && i < COUNT(forms); i++)
        if (!strcmp(m->type, forms[i].type) && cfx_module_has(m, "fake_quant_enabled"))
            return (cfx_fake_quantize)i;
    return m && !strcmp(m->type, fixed.type) ? CFX_FAKE_QUANTIZE : CFX_NO_FAKE_QUANTIZE;
}

static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_observer how = cfx_observer_how(self);
    const struct form *form = form_of(&how);
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    bool observes = is_on(self, form->observes) && !cfx_tensor_is_fake(x);
    bool rounds = is_on(self, "fake_quant_enabled");
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    if (observes)
        cfx_forward(observer_in(self), cfx_detach(x));
    if (form->late ? rounds : observes)
        form->choose(self, &how);
    cfx_set_grad_mode(before);
    return rounds && cfx_ok() ? cfx_tensor_value(form->round(self, &how, x)) : a.v[0];
}

/* ---- modules --------------------------------------------------------------------------------- */

static cfx_tensor *flag(cfx_dtype dtype, bool on) {
    return cfx_full(cfx_list(1), (int64_t)on, CFX_KW(dtype, cfx_dtype_value(dtype)));
}

static void set_state(cfx_module *m, const struct form *form, const cfx_observer *how) {
    int64_t n = how->channels > 1 ? how->channels : 1;
    bool floats = how->qscheme == CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
    bool given = how->kind == CFX_FIXED_QPARAMS_OBSERVER;
    cfx_tensor *scale = cfx_full(cfx_list(n), given ? how->scale : 1.0);
    cfx_tensor *zero = cfx_full(cfx_list(n), given ? (double)how->zero_point : 0.0);
    cfx_nn_buffer(m, "fake_quant_enabled", flag(form->flag, true), true);
    cfx_nn_buffer(m, "observer_enabled", flag(form->flag, true), true);
    if (how->fake != CFX_LEARNABLE_FAKE_QUANTIZE) {
        cfx_nn_buffer(m, "scale", scale, true);
        cfx_nn_buffer(m, "zero_point", cfx_to(zero, floats ? cfx_f32 : cfx_i32), true);
        return;
    }
    cfx_nn_parameter(m, "scale", scale);
    cfx_nn_parameter(m, "zero_point", zero);
    cfx_nn_buffer(m, "static_enabled", flag(form->flag, true), true);
    cfx_nn_buffer(m, "learning_enabled", flag(form->flag, false), true);
    cfx_nn_buffer(m, "eps", cfx_full(cfx_list(1), (double)FLT_EPSILON), true);
    cfx_module_set_attr(m, "use_grad_scaling", cfx_bool(how->scale_gradients));
}

cfx_module *cfx__fake_quantize_new(cfx_site at, cfx_observer how) {
    const struct form *form = form_of(&how);
    cfx_observer seen = how;
    seen.fake = CFX_NO_FAKE_QUANTIZE;
    cfx_module *observer = cfx_observer_new_from(at, seen);
    if (cfx_failed(observer))
        return observer;
    cfx_module *m = cfx_module_new(form->type, forward, "X");
    m->path =
        cfx__module_text(m, cfx__text_format("torch.ao.quantization.fake_quantize.%s", form->type));
    m->leaf = true;
    m->extra_repr = form->show;
    cfx_nn_add(m, "activation_post_process", observer);
    set_state(m, form, &how);
    return m;
}

static void set_flag(cfx_module *m, const char *name, bool on) {
    cfx_dtype dtype = (cfx_dtype)cfx_tensor_dtype(stored(m, name));
    cfx_module_set_attr(m, name, cfx_tensor_value(flag(dtype, on)));
}

/* Scales are learned where they are not observed. */
static void set_one(cfx_module *m, void *user) {
    const bool *on = user;
    cfx_fake_quantize kind = cfx__fake_quantize_kind(m);
    if (kind == CFX_NO_FAKE_QUANTIZE)
        return;
    set_flag(m, "fake_quant_enabled", on[1]);
    set_flag(m, forms[kind].observes, on[0]);
    if (kind == CFX_LEARNABLE_FAKE_QUANTIZE) {
        set_flag(m, "learning_enabled", !on[0]);
        cfx_requires_grad(stored(m, "scale"), !on[0]);
        cfx_requires_grad(stored(m, "zero_point"), !on[0]);
    }
}

void cfx_fake_quantize_set(cfx_module *m, bool observes, bool rounds) {
    if (m)
        cfx_module_apply(m, set_one, (bool[]){observes, rounds});
}
