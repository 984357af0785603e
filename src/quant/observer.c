/* Observers: modules that look at the numbers that go through them and choose scale and zero point.
 * Start at `kinds`. */
#include "fx.h"

#include <float.h>
#include <math.h>

/* ---- options --------------------------------------------------------------------------------- */

static const char *const scheme_names[] = {[CFX_PER_TENSOR_AFFINE] = "per_tensor_affine",
                                           [CFX_PER_TENSOR_SYMMETRIC] = "per_tensor_symmetric",
                                           [CFX_PER_CHANNEL_AFFINE] = "per_channel_affine",
                                           [CFX_PER_CHANNEL_SYMMETRIC] = "per_channel_symmetric",
                                           [CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS] =
                                               "per_channel_affine_float_qparams"};

cfx_observer cfx__observer_whole(cfx_observer how) {
    if (how.dtype == CFX_U8)
        how.dtype = how.kind == CFX_PLACEHOLDER_OBSERVER ? CFX_F32 : CFX_QU8;
    if (!how.bins)
        how.bins = 2048;
    if (how.averaging_constant == 0)
        how.averaging_constant = 0.01;
    if (how.percentile == 0)
        how.percentile = 99.99;
    if (how.eps == 0)
        how.eps = FLT_EPSILON;
    return how;
}

void cfx__observer_range(const cfx_observer *how, int *low, int *high) {
    if (how->quant_min || how->quant_max) {
        *low = how->quant_min >> how->reduce_range; /* as Python divides: down */
        *high = how->quant_max >> how->reduce_range;
        return;
    }
    cfx_dtype d = cfx__dtype_stored(how->dtype);
    *low = d == CFX_I8 ? -128 : d == CFX_I16 ? INT16_MIN : d == CFX_I32 ? INT32_MIN : 0;
    *high = d == CFX_I8 ? 127 : d == CFX_I16 ? INT16_MAX : d == CFX_I32 ? INT32_MAX : 255;
    if (how->reduce_range && d != CFX_I32) {
        *low = d == CFX_I8 ? -64 : 0;
        *high = d == CFX_I8 ? 63 : 127;
    }
}

bool cfx__observer_is_per_channel(const cfx_observer *how) {
    return how->qscheme >= CFX_PER_CHANNEL_AFFINE;
}

bool cfx__observer_equal(const cfx_observer *a, const cfx_observer *b) {
    cfx_observer x = cfx__observer_whole(*a), y = cfx__observer_whole(*b);
    return x.kind == y.kind && x.dtype == y.dtype && x.qscheme == y.qscheme &&
           x.reduce_range == y.reduce_range && x.dynamic == y.dynamic &&
           x.quant_min == y.quant_min && x.quant_max == y.quant_max && x.ch_axis == y.ch_axis &&
           x.bins == y.bins && x.averaging_constant == y.averaging_constant &&
           x.percentile == y.percentile && x.eps == y.eps && x.scale == y.scale &&
           x.zero_point == y.zero_point && x.fake == y.fake &&
           x.scale_gradients == y.scale_gradients && x.channels == y.channels;
}

/* ---- scale and zero point -------------------------------------------------------------------- */

void cfx__observer_params(const cfx_observer *how, int64_t n, const float *min, const float *max,
                          float *scale, double *zero) {
    int low, high;
    cfx__observer_range(how, &low, &high);
    float eps = (float)how->eps, steps = (float)(high - low);
    bool is_unsigned = cfx__dtype_stored(how->dtype) == CFX_U8;
    bool custom = how->quant_min || how->quant_max;
    for (int64_t i = 0; i < n; i++) {
        float least = min[i] < 0 ? min[i] : 0, most = max[i] > 0 ? max[i] : 0;
        if (how->qscheme == CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS) {
            scale[i] = (max[i] - min[i]) / steps;
            if (!(scale[i] > eps))
                scale[i] = 1;
            zero[i] = -min[i] / scale[i];
        } else if (how->qscheme == CFX_PER_TENSOR_SYMMETRIC ||
                   how->qscheme == CFX_PER_CHANNEL_SYMMETRIC) {
            most = -least > most ? -least : most;
            scale[i] = most / (float)((double)(high - low) / 2);
            scale[i] = scale[i] > eps ? scale[i] : eps;
            zero[i] = !is_unsigned ? 0 : custom ? (low + high) / 2 : 128;
        } else {
            scale[i] = (most - least) / steps;
            scale[i] = scale[i] > eps ? scale[i] : eps;
            zero[i] = low - (double)cfx__int64_of(nearbyintf(least / scale[i]));
            zero[i] = zero[i] < low ? low : zero[i] > high ? high : zero[i];
        }
    }
}

/* ---- state ----------------------------------------------------------------------------------- */

static float number_at(const cfx_module *m, const char *name) {
    return (float)cfx__tensor_number(cfx_as_tensor(cfx_module_attr(m, name)), 0);
}

static void set_range(cfx_module *m, cfx_tensor *min, cfx_tensor *max) {
    cfx_module_set_attr(m, "min_val", cfx_tensor_value(min));
    cfx_module_set_attr(m, "max_val", cfx_tensor_value(max));
}

static cfx_tensor *scalar(float x) { return cfx_tensor_new(CFX_F32, 0, NULL, &x); }

/* The least and largest number of x, one for each channel where axis is not -1. */
static bool range_of(cfx_tensor *x, int axis, cfx_tensor **min, cfx_tensor **max) {
    cfx_value both;
    x = cfx_to(x, cfx_f32);
    if (axis < 0) {
        both = cfx_aminmax(x);
    } else {
        int64_t order[CFX_MAX_DIMS], n = cfx_tensor_ndim(x);
        for (int64_t d = 0; d < n; d++)
            order[d] = d;
        order[0] = axis;
        order[axis] = 0;
        cfx_tensor *rows = cfx_flatten(cfx_permute(x, cfx_ints_value(n, order)), 1);
        both = cfx_aminmax(rows, CFX_KW(dim, 1));
    }
    *min = cfx_tensor_at(both, 0);
    *max = cfx_tensor_at(both, 1);
    return cfx_ok();
}

static bool seen(const cfx_module *m) {
    const cfx_tensor *min = cfx_as_tensor(cfx_module_attr(m, "min_val"));
    return cfx_tensor_numel(min) > 0 && cfx__tensor_number(min, 0) != INFINITY;
}

/* ---- what each kind sees ----------------------------------------------------------------------
 */

static void see_min_max(cfx_module *m, const cfx_observer *how, cfx_tensor *x) {
    int axis = cfx__observer_is_per_channel(how) ? how->ch_axis : -1;
    cfx_tensor *min, *max, *old_min = cfx_as_tensor(cfx_module_attr(m, "min_val")),
                           *old_max = cfx_as_tensor(cfx_module_attr(m, "max_val"));
    if (!range_of(x, axis, &min, &max))
        return;
    if (seen(m)) {
        min = cfx_minimum(min, old_min);
        max = cfx_maximum(max, old_max);
    }
    set_range(m, min, max);
}

static void see_moving_average(cfx_module *m, const cfx_observer *how, cfx_tensor *x) {
    int axis = cfx__observer_is_per_channel(how) ? how->ch_axis : -1;
    cfx_tensor *min, *max, *old_min = cfx_as_tensor(cfx_module_attr(m, "min_val")),
                           *old_max = cfx_as_tensor(cfx_module_attr(m, "max_val"));
    if (!range_of(x, axis, &min, &max))
        return;
    if (seen(m)) {
        double c = how->averaging_constant;
        min = cfx_add(old_min, cfx_mul(cfx_sub(min, old_min), c));
        max = cfx_add(old_max, cfx_mul(cfx_sub(max, old_max), c));
    }
    set_range(m, min, max);
}

/* The old histogram in the bins of a wider range. */
static cfx_tensor *upscaled(cfx_tensor *old, int bins, float min, float max, float new_min,
                            float new_max) {
    enum { FINER = 16 };
    if (min == max) {
        cfx_tensor *one = cfx_histc(scalar(min), bins, CFX_KW(min, (double)new_min),
                                    CFX_KW(max, (double)new_max));
        return cfx_mul(one, cfx_sum(old));
    }
    cfx_tensor *fine = cfx_div(cfx_repeat_interleave(old, (int)FINER), (int)FINER);
    float size = (max - min) / (float)(bins * FINER);
    cfx_tensor *middles = cfx_linspace((double)min, (double)max, bins * FINER + 1);
    middles = cfx_add(cfx_slice(middles, 0, 0, bins * FINER), (double)(0.5f * size));
    cfx_tensor *edges = cfx_linspace((double)new_min, (double)new_max, bins + 1);
    cfx_tensor *to = cfx_sub(cfx_bucketize(middles, edges, CFX_KW(right, true)), 1);
    to = cfx_clamp(to, 0, bins - 1);
    return cfx_bincount(to, fine, bins);
}

/* Infinite numbers are left out. */
static cfx_tensor *finite_part(cfx_tensor *x) {
    x = cfx_to(x, cfx_f32);
    cfx_tensor *min, *max;
    if (!range_of(x, -1, &min, &max) ||
        (cfx__tensor_number(min, 0) != -INFINITY && cfx__tensor_number(max, 0) != INFINITY))
        return x;
    return cfx_masked_select(x, cfx_ne(cfx_abs(x), (double)INFINITY));
}

static void see_histogram(cfx_module *m, const cfx_observer *how, cfx_tensor *x) {
    cfx_tensor *min, *max;
    x = finite_part(x);
    if (!cfx_tensor_numel(x) || !range_of(x, -1, &min, &max))
        return;
    float low = (float)cfx__tensor_number(min, 0), high = (float)cfx__tensor_number(max, 0);
    float old_low = number_at(m, "min_val"), old_high = number_at(m, "max_val");
    bool first = !seen(m);
    if (!first) {
        low = old_low < low ? old_low : low;
        high = old_high > high ? old_high : high;
    }
    cfx_tensor *now = cfx_histc(x, how->bins, CFX_KW(min, (double)low), CFX_KW(max, (double)high));
    cfx_tensor *old = cfx_as_tensor(cfx_module_attr(m, "histogram"));
    if (!first && low == old_low && high == old_high)
        now = cfx_add(old, now);
    else if (!first)
        now = cfx_add(now, upscaled(old, how->bins, old_low, old_high, low, high));
    if (!cfx_ok())
        return;
    cfx_module_set_attr(m, "histogram", cfx_tensor_value(cfx_to(now, cfx_f32)));
    set_range(m, scalar(low), scalar(high));
}

/* ---- what each kind chooses -------------------------------------------------------------------
 */

static cfx_value params_of_range(const cfx_observer *how, cfx_tensor *min, cfx_tensor *max) {
    int64_t n = cfx_tensor_numel(min);
    bool floats = how->qscheme == CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
    bool affine = how->qscheme == CFX_PER_TENSOR_AFFINE || how->qscheme == CFX_PER_CHANNEL_AFFINE;
    cfx_tensor *scale = cfx_tensor_new(CFX_F32, 1, &n, NULL);
    cfx_tensor *zero = cfx_tensor_new(CFX_F64, 1, &n, NULL);
    min = cfx_contiguous(min);
    max = cfx_contiguous(max);
    if (!cfx_ok())
        return cfx_bad();
    cfx__observer_params(how, n, (void *)min->data, (void *)max->data, (void *)scale->data,
                         (void *)zero->data);
    return cfx_tuple(scale, cfx_to(zero, floats ? cfx_f32 : affine ? cfx_i32 : cfx_i64));
}

static cfx_value choose_min_max(cfx_module *m, const cfx_observer *how) {
    return params_of_range(how, cfx_as_tensor(cfx_module_attr(m, "min_val")),
                           cfx_as_tensor(cfx_module_attr(m, "max_val")));
}

static cfx_value choose_histogram(cfx_module *m, const cfx_observer *how) {
    float min, max;
    cfx_tensor *h = cfx_contiguous(cfx_as_tensor(cfx_module_attr(m, "histogram")));
    if (!cfx_ok())
        return cfx_bad();
    int steps = cfx__dtype_stored(how->dtype) == CFX_I16 ? 65536 : 256;
    cfx__histogram_search((void *)h->data, how->bins, steps, number_at(m, "min_val"),
                          number_at(m, "max_val"), &min, &max);
    return params_of_range(how, scalar(min), scalar(max));
}

static cfx_value choose_percentile(cfx_module *m, const cfx_observer *how) {
    const cfx_tensor *h = cfx_as_tensor(cfx_module_attr(m, "histogram"));
    float min = number_at(m, "min_val"), max = number_at(m, "max_val");
    double all = 0, left = 0, right = 0, width = ((double)max - min) / how->bins;
    int first = 0, last = how->bins - 1;
    for (int i = 0; i < how->bins; i++)
        all += cfx__tensor_number(h, i);
    double spare = all * (1 - how->percentile / 100) / 2;
    while (first < last && (left += cfx__tensor_number(h, first)) <= spare)
        first++;
    while (last > first && (right += cfx__tensor_number(h, last)) <= spare)
        last--;
    return params_of_range(how, scalar((float)(min + width * first)),
                           scalar((float)(min + width * (last + 1))));
}

static cfx_value choose_fixed(cfx_module *m, const cfx_observer *how) {
    (void)how;
    return cfx_tuple(cfx_module_attr(m, "scale"), cfx_module_attr(m, "zero_point"));
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static const struct kind {
    const char *type;
    void (*see)(cfx_module *m, const cfx_observer *how, cfx_tensor *x);
    cfx_value (*choose)(cfx_module *m, const cfx_observer *how);
    bool range, histogram; /* its buffers */
} kinds[] = {
    [CFX_MIN_MAX_OBSERVER] = {"MinMaxObserver", see_min_max, choose_min_max, true, false},
    [CFX_MOVING_AVERAGE_MIN_MAX_OBSERVER] = {"MovingAverageMinMaxObserver", see_moving_average,
                                             choose_min_max, true, false},
    [CFX_PER_CHANNEL_MIN_MAX_OBSERVER] = {"PerChannelMinMaxObserver", see_min_max, choose_min_max,
                                          true, false},
    [CFX_MOVING_AVERAGE_PER_CHANNEL_MIN_MAX_OBSERVER] = {"MovingAveragePerChannelMinMaxObserver",
                                                         see_moving_average, choose_min_max, true,
                                                         false},
    [CFX_HISTOGRAM_OBSERVER] = {"HistogramObserver", see_histogram, choose_histogram, true, true},
    [CFX_PERCENTILE_OBSERVER] = {"PercentileObserver", see_histogram, choose_percentile, true,
                                 true},
    [CFX_FIXED_QPARAMS_OBSERVER] = {"FixedQParamsObserver", NULL, choose_fixed, false, false},
    [CFX_PLACEHOLDER_OBSERVER] = {"PlaceholderObserver", NULL, NULL, false, false},
    [CFX_NOOP_OBSERVER] = {"NoopObserver", NULL, NULL, false, false},
    [CFX_REUSE_INPUT_OBSERVER] = {"ReuseInputObserver", NULL, NULL, false, false},
};

static const struct kind *kind_of(const cfx_module *m, int *number) {
    for (int k = 1; m && k < COUNT(kinds); k++)
        if (!strcmp(m->type, kinds[k].type) && cfx_module_has(m, "quant_min")) {
            *number = k;
            return &kinds[k];
        }
    return NULL;
}

bool cfx_module_is_observer(const cfx_module *m) {
    int k;
    return m && (kind_of(m, &k) || cfx__fake_quantize_kind(m));
}

cfx_observer cfx_observer_how(const cfx_module *m) {
    int k = 0;
    cfx_observer how = {0};
    cfx_fake_quantize fake = cfx__fake_quantize_kind(m);
    if (fake) {
        how = cfx_observer_how(cfx_module_find(m, "activation_post_process"));
        how.fake = fake;
        how.scale_gradients = cfx_integer(cfx_module_attr(m, "use_grad_scaling"));
        how.channels = (int)cfx_tensor_numel(cfx_as_tensor(cfx_module_attr(m, "scale")));
        return how;
    }
    if (!kind_of(m, &k))
        return how;
    how.kind = (cfx_observer_kind)k;
    cfx_value scheme = cfx_module_attr(m, "qscheme");
    for (int i = 0; i < COUNT(scheme_names); i++)
        if (cfx_text(scheme) && !strcmp(cfx_text(scheme), scheme_names[i]))
            how.qscheme = (cfx_qscheme)i;
    how.dtype = cfx_as_dtype(cfx_module_attr(m, "dtype"));
    how.reduce_range = cfx_integer(cfx_module_attr(m, "reduce_range"));
    how.dynamic = cfx_integer(cfx_module_attr(m, "is_dynamic"));
    how.quant_min = (int)cfx_integer(cfx_module_attr(m, "quant_min"));
    how.quant_max = (int)cfx_integer(cfx_module_attr(m, "quant_max"));
    how.ch_axis = (int)cfx_integer(cfx_module_attr(m, "ch_axis"));
    how.bins = (int)cfx_integer(cfx_module_attr(m, "bins"));
    how.averaging_constant = cfx_number(cfx_module_attr(m, "averaging_constant"));
    how.percentile = cfx_number(cfx_module_attr(m, "percentile"));
    cfx_value eps = cfx_module_attr(m, "eps");
    how.eps = eps.tag == CFX_TAG_TENSOR ? cfx__tensor_number(cfx_as_tensor(eps), 0)
                                        : cfx_number(eps);
    if (how.kind == CFX_FIXED_QPARAMS_OBSERVER) {
        how.scale = number_at(m, "scale");
        how.zero_point = (int)cfx__int64_of(number_at(m, "zero_point"));
    }
    return how;
}

/* Learned scales and zero points, as far as the range reaches. */
static cfx_value learned_params(const cfx_module *m) {
    cfx_observer how = cfx_observer_how(m);
    int low, high;
    cfx__observer_range(&how, &low, &high);
    cfx_tensor *scale = cfx_detach(cfx_module_attr(m, "scale"));
    cfx_tensor *zero = cfx_round(cfx_detach(cfx_module_attr(m, "zero_point")));
    return cfx_tuple(cfx_clamp(scale, (double)FLT_EPSILON),
                     cfx_to(cfx_clamp(zero, low, high), cfx_i64));
}

cfx_value cfx_observer_qparams_from(cfx_site at, cfx_module *m) {
    int k;
    cfx_fake_quantize fake = cfx__fake_quantize_kind(m);
    if (fake == CFX_LEARNABLE_FAKE_QUANTIZE)
        return learned_params(m);
    if (fake)
        return cfx_observer_qparams_from(at, cfx_module_find(m, "activation_post_process"));
    const struct kind *kind = kind_of(m, &k);
    if (!kind || !kind->choose) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "calculate_qparams should not be called for %s",
                 m ? m->type : "None");
        return cfx_bad();
    }
    cfx_observer how = cfx_observer_how(m);
    if (kind->range && !seen(m)) {
        float one = 1;
        int64_t n = 1, zero = 0;
        return cfx_tuple(cfx_tensor_new(CFX_F32, 1, &n, &one),
                         cfx_tensor_new(CFX_I64, 1, &n, &zero));
    }
    return kind->choose(m, &how);
}

cfx_value cfx__observer_params_of(cfx_site at, cfx_observer how, cfx_tensor *x) {
    how.fake = CFX_NO_FAKE_QUANTIZE;
    cfx_module *m = cfx_observer_new_from(at, how);
    if (cfx_failed(m))
        return cfx_bad();
    cfx_forward_from(at, m, CFX_ARGS(cfx_detach(x)));
    return cfx_observer_qparams_from(at, m);
}

/* ---- modules --------------------------------------------------------------------------------- */

static cfx_value forward(cfx_module *self, cfx_args a) {
    int k;
    const struct kind *kind = kind_of(self, &k);
    if (a.v[0].tag != CFX_TAG_TENSOR)
        return a.v[0];
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    if (!kind || !kind->see || !cfx_tensor_numel(x) || cfx_tensor_is_fake(x))
        return a.v[0];
    cfx_observer how = cfx_observer_how(self);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    kind->see(self, &how, cfx_detach(x));
    cfx_set_grad_mode(before);
    return a.v[0];
}

/* A number of Python's where there is one, else what print() shows of the tensor. */
static const char *text_of(const cfx_module *m, const char *name) {
    const cfx_tensor *t = cfx_as_tensor(cfx_module_attr(m, name));
    return cfx_tensor_ndim(t) ? cfx_tensor_str(t) : cfx_repr(cfx__tensor_number(t, 0));
}

static const char *show(const cfx_module *m) {
    int k = -1;
    const struct kind *kind = kind_of(m, &k);
    if (kind && kind->range)
        return cfx__text_format("min_val=%s, max_val=%s", text_of(m, "min_val"),
                                text_of(m, "max_val"));
    if (k != CFX_PLACEHOLDER_OBSERVER)
        return "";
    cfx_observer how = cfx_observer_how(m);
    return cfx__text_format("dtype=torch.%s, is_dynamic=%s", cfx_dtype_name(how.dtype),
                            how.dynamic ? "True" : "False");
}

static bool sees_channels(const cfx_observer *how) {
    return how->kind == CFX_PER_CHANNEL_MIN_MAX_OBSERVER ||
           how->kind == CFX_MOVING_AVERAGE_PER_CHANNEL_MIN_MAX_OBSERVER;
}

static bool good(cfx_site at, const cfx_observer *how) {
    bool histogram = kinds[how->kind].histogram;
    const char *type = kinds[how->kind].type;
    if ((how->quant_min || how->quant_max) && (how->quant_min > 0 || how->quant_max < 0))
        cfx_fail(CFX_ASSERTION_ERROR, at, "Used-specified quantization range must include 0.");
    else if (how->quant_min > how->quant_max)
        cfx_fail(CFX_ASSERTION_ERROR, at,
                 "qmin must be strictly less than qmax for user-specified "
                 "quantization range.");
    else if (kinds[how->kind].range && !sees_channels(how) && cfx__observer_is_per_channel(how))
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "%s's qscheme only support torch.per_tensor_symmetric and "
                 "torch.per_tensor_affine.",
                 type);
    else if (histogram && how->dynamic)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at, "%s doesn't support dynamic quantization", type);
    else if (kinds[how->kind].range && cfx__dtype_is_float(how->dtype))
        cfx_fail(CFX_ASSERTION_ERROR, at, "%s chooses integers, not torch.%s", type,
                 cfx_dtype_name(how->dtype));
    else
        return true;
    return false;
}

static void set_options(cfx_module *m, const cfx_observer *how) {
    cfx_module_set_attr(m, "dtype", cfx_dtype_value(how->dtype));
    cfx_module_set_attr(m, "qscheme", cfx_string_value(scheme_names[how->qscheme]));
    cfx_module_set_attr(m, "reduce_range", cfx_bool(how->reduce_range));
    cfx_module_set_attr(m, "is_dynamic", cfx_bool(how->dynamic));
    cfx_module_set_attr(m, "quant_min", cfx_int(how->quant_min));
    cfx_module_set_attr(m, "quant_max", cfx_int(how->quant_max));
    cfx_module_set_attr(m, "ch_axis", cfx_int(how->ch_axis));
    cfx_module_set_attr(m, "bins", cfx_int(how->bins));
    cfx_module_set_attr(m, "averaging_constant", cfx_float(how->averaging_constant));
    cfx_module_set_attr(m, "percentile", cfx_float(how->percentile));
    if (!kinds[how->kind].range) /* else it is in the state dict */
        cfx_module_set_attr(m, "eps", cfx_float(how->eps));
}

static void set_state(cfx_module *m, const cfx_observer *how) {
    const struct kind *kind = &kinds[how->kind];
    int64_t none = 0, one = 1, bins = how->bins;
    int32_t zero = how->zero_point;
    float scale = (float)how->scale;
    if (kind->range)
        cfx_nn_buffer(m, "eps", cfx_full(cfx_list(1), how->eps), true);
    if (kind->histogram)
        cfx_nn_buffer(m, "histogram", cfx_zeros(cfx_list(bins)), true);
    if (kind->range && sees_channels(how)) {
        cfx_nn_buffer(m, "min_val", cfx_tensor_new(CFX_F32, 1, &none, NULL), true);
        cfx_nn_buffer(m, "max_val", cfx_tensor_new(CFX_F32, 1, &none, NULL), true);
    } else if (kind->range) {
        cfx_nn_buffer(m, "min_val", scalar(INFINITY), true);
        cfx_nn_buffer(m, "max_val", scalar(-INFINITY), true);
    }
    if (how->kind == CFX_FIXED_QPARAMS_OBSERVER) {
        cfx_nn_buffer(m, "scale", cfx_tensor_new(CFX_F32, 1, &one, &scale), true);
        cfx_nn_buffer(m, "zero_point", cfx_tensor_new(CFX_I32, 1, &one, &zero), true);
    }
}

cfx_module *cfx_observer_new_from(cfx_site at, cfx_observer how) {
    if (how.kind <= CFX_NO_OBSERVER || how.kind >= COUNT(kinds)) {
        cfx_fail(CFX_VALUE_ERROR, at, "there is no observer of kind %d", (int)how.kind);
        return &cfx__module_bad;
    }
    how = cfx__observer_whole(how);
    bool channels = how.kind == CFX_PER_CHANNEL_MIN_MAX_OBSERVER ||
                    how.kind == CFX_MOVING_AVERAGE_PER_CHANNEL_MIN_MAX_OBSERVER;
    if (channels && !cfx__observer_is_per_channel(&how))
        how.qscheme = how.qscheme == CFX_PER_TENSOR_SYMMETRIC ? CFX_PER_CHANNEL_SYMMETRIC
                                                              : CFX_PER_CHANNEL_AFFINE;
    if (!good(at, &how))
        return &cfx__module_bad;
    if (how.fake)
        return cfx__fake_quantize_new(at, how);
    cfx_module *m = cfx_module_new(kinds[how.kind].type, forward, "x_orig");
    m->path = cfx__module_text(
        m, cfx__text_format("torch.ao.quantization.observer.%s", kinds[how.kind].type));
    m->leaf = true;
    m->extra_repr = show;
    set_options(m, &how);
    set_state(m, &how);
    return m;
}
