/* Quantized tensors: integers that stand for numbers by a scale and a zero point, of the whole
 * tensor or of a channel. */
#include "tensor.h"

#include <math.h>

static void quantizer_free(void *p) {
    cfx__quantizer *q = p;
    cfx_drop(q->scales);
    cfx_drop(q->zero_points);
}

static const cfx__obj_type quantizer_type = {.name = "quantizer", .free = quantizer_free};

cfx__quantizer *cfx__quantizer_new(double scale, int64_t zero_point) {
    cfx__quantizer *q = cfx__obj_make(&quantizer_type, sizeof *q);
    q->scale = scale;
    q->zero_point = zero_point;
    return cfx__scope_own(q);
}

cfx__quantizer *cfx__quantizer_channels(cfx_tensor *scales, cfx_tensor *zero_points, int axis) {
    cfx__quantizer *q = cfx__quantizer_new(1, 0);
    q->scales = cfx_keep(scales);
    q->zero_points = cfx_keep(zero_points);
    q->axis = axis;
    return q;
}

void cfx__quantizer_choose(float low, float high, int steps_low, int steps_high, bool symmetric,
                           double *scale, int64_t *zero_point) {
    const float small = 6.1e-5f;
    symmetric = symmetric && low < 0 && high > 0;
    if (symmetric) {
        int half = (steps_high - steps_low) / 2;
        double below = fabs((double)low / (half + 1)), above = fabs((double)high / half);
        double widest = below > above ? below : above;
        low = (float)(-widest * (half + 1));
        high = (float)(widest * half);
    }
    low = low < 0 ? low : 0;
    high = high > 0 ? high : 0;
    double s = ((double)high - low) / (steps_high - steps_low);
    if ((float)s == 0 || isinf(1.0f / (float)s))
        s = 0.1;
    if (s < small) {
        float up = small / (float)s;
        s = small;
        if (low == 0)
            high = small * (float)(steps_high - steps_low);
        else if (high == 0)
            low = -small * (float)(steps_high - steps_low);
        else
            low *= up, high *= up;
    }
    double from_low = steps_low - low / s, from_high = steps_high - high / s;
    double low_error = abs(steps_low) - fabs(low / s);
    double high_error = abs(steps_high) - fabs(high / s);
    double zero = symmetric                ? (double)(steps_low + steps_high) / 2
                  : low_error < high_error ? from_low
                                           : from_high;
    *scale = s;
    *zero_point = zero < steps_low    ? steps_low
                  : zero > steps_high ? steps_high
                                      : (int64_t)nearbyint(zero);
}

const char *cfx__quantizer_scheme(const cfx__quantizer *q) {
    return !q->scales                                   ? "per_tensor_affine"
           : cfx__dtype_is_float(q->zero_points->dtype) ? "per_channel_affine_float_qparams"
                                                        : "per_channel_affine";
}

/* A tensor over the storage of t with another dtype of the same size. */
static cfx_tensor *retyped(const cfx_tensor *t, cfx_dtype dtype, cfx__quantizer *by) {
    cfx_tensor *v = cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset);
    cfx__quantizer *before = v->quantizer;
    v->dtype = (uint8_t)dtype;
    v->quantizer = by ? cfx_keep(by) : NULL;
    v->head.flags = (v->head.flags & ~(uint32_t)CFX__QUANTIZED) | (by ? CFX__QUANTIZED : 0);
    cfx_drop(before);
    return v;
}

cfx_tensor *cfx__quantized_of(const cfx_tensor *ints, cfx_dtype dtype, cfx__quantizer *by) {
    return retyped(ints, dtype, by);
}

cfx_tensor *cfx__quantized_ints(const cfx_tensor *t) {
    return retyped(t, cfx__dtype_stored(t->dtype), NULL);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* One scale and zero point for a run of elements. */
typedef struct step {
    float scale, zero; /* zero is whole but for float_qparams */
    float low, high;
    bool early; /* the zero point is added before rounding */
} step;

static void quantize_run(int32_t *to, const float *from, int64_t n, const step *s) {
    float inverse = 1.0f / s->scale;
    for (int64_t i = 0; i < n; i++) {
        float q = s->early ? nearbyintf(from[i] * inverse + s->zero)
                           : nearbyintf(from[i] * inverse) + s->zero;
        to[i] = (int32_t)(q > s->high ? s->high : q > s->low ? q : s->low); /* NaN: the lowest */
    }
}

static void dequantize_run(float *to, const int32_t *from, int64_t n, const step *s) {
    for (int64_t i = 0; i < n; i++)
        to[i] = ((float)from[i] - s->zero) * s->scale;
}

static step step_of(const cfx__quantizer *by, int64_t channel, cfx_dtype dtype) {
    step s = {(float)by->scale, (float)by->zero_point, 0, 255, false};
    if (by->scales) {
        s.scale = (float)cfx__tensor_number(by->scales, channel);
        s.zero = (float)cfx__tensor_number(by->zero_points, channel);
        s.early = cfx__dtype_is_float(by->zero_points->dtype);
    }
    if (dtype == CFX_QI8)
        s.low = -128, s.high = 127;
    if (dtype == CFX_QI32)
        s.low = -2147483648.0f, s.high = 2147483520.0f; /* the last float below 2^31 */
    return s;
}

/* Walks contiguous elements in runs that share a scale. */
static void walk(const cfx__quantizer *by, const cfx_tensor *shape, cfx_dtype dtype, int32_t *ints,
                 float *floats, bool to_ints) {
    int64_t inner = shape->numel, channels = 1;
    if (by->scales) {
        channels = shape->shape[by->axis];
        inner = 1;
        for (int d = by->axis + 1; d < shape->ndim; d++)
            inner *= shape->shape[d];
    }
    for (int64_t at = 0, c = 0; at < shape->numel; at += inner, c = (c + 1) % channels) {
        step s = step_of(by, c, dtype);
        if (to_ints)
            quantize_run(ints + at, floats + at, inner, &s);
        else
            dequantize_run(floats + at, ints + at, inner, &s);
    }
}

static bool fits(cfx_site at, const cfx__quantizer *by, const cfx_tensor *t) {
    if (!by->scales)
        return true;
    if (by->axis < 0 || by->axis >= t->ndim)
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Channel axis out of range in per channel affine "
                 "quantization. Got: %d Expected: [0, %d)",
                 by->axis, t->ndim);
    else if (by->scales->numel != t->shape[by->axis] || by->zero_points->numel != by->scales->numel)
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "length of scales must equal to channel, expected %lld got, %lld",
                 (long long)t->shape[by->axis], (long long)by->scales->numel);
    else
        return true;
    return false;
}

/* A tensor with the sizes and, where they are dense, the strides of t. */
static cfx_tensor *like(cfx_site at, const cfx_tensor *t, cfx_dtype dtype, bool fake) {
    const int64_t *stride = cfx__tensor_is_dense(t) ? t->stride : NULL;
    return cfx__tensor_empty(at, dtype, fake, t->ndim, t->shape, stride);
}

cfx_tensor *cfx__quantized_from(cfx_site at, const cfx_tensor *x, cfx_dtype dtype,
                                cfx__quantizer *by) {
    if (!fits(at, by, x))
        return &cfx__tensor_bad;
    bool fake = x->head.flags & CFX__FAKE;
    cfx_tensor *out = like(at, x, cfx__dtype_stored(dtype), fake);
    if (!fake && !cfx__obj_is_bad(out)) {
        cfx_tensor *floats = cfx__tensor_contiguous_as(x, CFX_F32);
        cfx_tensor *ints = cfx__tensor_empty(at, CFX_I32, false, x->ndim, x->shape, NULL);
        if (cfx__obj_is_bad(floats) || cfx__obj_is_bad(ints))
            return &cfx__tensor_bad;
        walk(by, x, dtype, (int32_t *)ints->data, (float *)floats->data, true);
        cfx__tensor_copy(out, ints);
    }
    return cfx__obj_is_bad(out) ? out : retyped(out, dtype, by);
}

cfx_tensor *cfx__quantized_to_float(cfx_site at, const cfx_tensor *t) {
    bool fake = t->head.flags & CFX__FAKE;
    cfx_tensor *out = like(at, t, CFX_F32, fake);
    if (fake || cfx__obj_is_bad(out))
        return out;
    cfx_tensor *ints = cfx__tensor_contiguous_as(cfx__quantized_ints(t), CFX_I32);
    cfx_tensor *floats = cfx__tensor_empty(at, CFX_F32, false, t->ndim, t->shape, NULL);
    if (cfx__obj_is_bad(ints) || cfx__obj_is_bad(floats))
        return &cfx__tensor_bad;
    walk(t->quantizer, t, t->dtype, (int32_t *)ints->data, (float *)floats->data, false);
    cfx__tensor_copy(out, floats);
    return out;
}
