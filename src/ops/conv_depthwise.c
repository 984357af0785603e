/* Convolution channel by channel, as image networks for small machines have it: each channel of the
 * result comes from one of the input. Planes are read where they lie; bringing them to a library's
 * layout would cost more than the arithmetic. */
#include "conv.h"

typedef struct {
    const conv *v;
    const float *src, *weights, *bias;
    float *dst;
} depthwise;

/* out[l] += w * in[l * stride] for n elements. */
CFX__SIMD static void add_row(float *restrict out, const float *restrict in, float w,
                              int64_t stride, int64_t n) {
    if (stride == 1)
        for (int64_t l = 0; l < n; l++)
            out[l] += w * in[l];
    else if (stride == 2)
        for (int64_t l = 0; l < n; l++)
            out[l] += w * in[2 * l];
    else
        for (int64_t l = 0; l < n; l++)
            out[l] += w * in[stride * l];
}

/* The elements of a row that point `k` of the kernel reaches: in[first * stride + k' ...]. */
static void reach(const conv *v, int64_t k, int64_t *first, int64_t *end) {
    int64_t shift = k * v->dilation[2] - v->pad[2], s = v->stride[2];
    *first = shift < 0 ? (-shift + s - 1) / s : 0;
    *end = v->in[2] - shift <= 0 ? 0 : (v->in[2] - shift - 1) / s + 1;
    if (*end > v->out[2])
        *end = v->out[2];
}

static void planes(void *arg, int64_t begin, int64_t end) {
    const depthwise *d = arg;
    const conv *v = d->v;
    const int64_t times = v->oc / v->groups, taps = v->kernel[1] * v->kernel[2];
    for (int64_t i = begin; i < end; i++) {
        const int64_t channel = i % v->oc, image = i / v->oc;
        const float *src = d->src + (image * v->ic + channel / times) * v->in[1] * v->in[2];
        const float *w = d->weights + channel * taps;
        float *dst = d->dst + i * v->out[1] * v->out[2];
        for (int64_t h = 0; h < v->out[1]; h++, dst += v->out[2]) {
            for (int64_t l = 0; l < v->out[2]; l++)
                dst[l] = d->bias ? d->bias[channel] : 0;
            for (int64_t kh = 0; kh < v->kernel[1]; kh++) {
                int64_t row = h * v->stride[1] - v->pad[1] + kh * v->dilation[1];
                if (row < 0 || row >= v->in[1])
                    continue;
                for (int64_t kw = 0; kw < v->kernel[2]; kw++) {
                    int64_t first, last;
                    reach(v, kw, &first, &last);
                    if (first < last)
                        add_row(dst + first,
                                src + row * v->in[2] + first * v->stride[2] + kw * v->dilation[2] -
                                    v->pad[2],
                                w[kh * v->kernel[2] + kw], v->stride[2], last - first);
                }
            }
        }
    }
}

bool conv_depthwise(cfx_call *c, const conv *v, const conv_operands *o) {
    (void)c;
    if (o->what != CONV_DST || v->ic != v->groups || v->groups == 1 || v->dims == 3 ||
        !cfx__is_contiguous(o->src) || !cfx__is_contiguous(o->dst))
        return false;
    depthwise d = {v, (const float *)o->src->data, (const float *)o->weights->data,
                   o->bias ? (const float *)o->bias->data : NULL, (float *)o->dst->data};
    int64_t cost = v->out[1] * v->out[2] * v->kernel[1] * v->kernel[2];
    cfx__parallel(v->batch * v->oc, 1 + 65536 / (cost + 1), planes, &d);
    return true;
}
