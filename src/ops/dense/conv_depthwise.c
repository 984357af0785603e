/* Convolution channel by channel, as image networks for small machines have it: each channel of the
 * result comes from one of the input. Bringing planes to a library's layout would cost more than
 * the arithmetic.
 *
 * A plane is laid out with its padding, in `stride` times `stride` phases: points that a tap of the
 * kernel meets then follow each other, row after row at one pitch, and a result is a sum of shifted
 * copies of the phases. What falls between rows is computed too and left out. */
#include "conv.h"
#include "tile.h"
#include "widths.h"

enum { DEPTHWISE_STEP = 64, TAPS = 256 };

#define BODY "conv_depthwise.inc"
#include "widths.inc"

typedef void taps_fn(int64_t n, int64_t taps, const float *const *from, const float *weight,
                     float bias, float *out);

static taps_fn *taps_here(void) { return BY_WIDTH(vector_bytes(), taps); }

typedef struct {
    const conv *v;
    const float *src, *weights, *bias;
    float *dst;
    int64_t rows, pitch; /* of one phase */
    taps_fn *run;
} depthwise;

/* Every second of 2n elements to `even`, the others to `odd`. */
CFX__SIMD static void split_pairs(int64_t n, const float *restrict from, float *restrict even,
                                  float *restrict odd) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        even[i] = from[2 * i];
        odd[i] = from[2 * i + 1];
    }
}

/* A row of the plane to the phases of its columns, which start at `phases`. */
static void lay_row(const depthwise *d, const float *from, float *phases) {
    const conv *v = d->v;
    const int64_t step = v->stride[2], pad = v->pad[2], n = v->in[2], apart = d->rows * d->pitch;
    if (step == 1) {
        memcpy(phases + pad, from, (size_t)n * sizeof *from);
        return;
    }
    if (step == 2) {
        const int64_t first = pad % 2; /* with odd padding the first element is an odd one */
        float *even = phases + (pad + first) / 2, *odd = phases + apart + (pad - first) / 2 + first;
        if (first && n)
            phases[apart + pad / 2] = from[0];
        split_pairs((n - first) / 2, from + first, even, odd);
        if (n > first && (n - first) % 2)
            even[(n - first) / 2] = from[n - 1];
        return;
    }
    for (int64_t w = 0; w < n; w++)
        phases[(w + pad) % step * apart + (w + pad) / step] = from[w];
}

/* The plane in phases: element (r, c) of phase (p, q) is (r * stride + p, c * stride + q) of it
 * with its padding. Padding is zero already and stays so. */
static void lay_out(const depthwise *d, const float *plane, float *to) {
    const conv *v = d->v;
    const int64_t sh = v->stride[1], sw = v->stride[2];
    for (int64_t h = 0; h < v->in[1]; h++) {
        const int64_t at = h + v->pad[1], row = at / sh;
        lay_row(d, plane + h * v->in[2], to + (at % sh * sw * d->rows + row) * d->pitch);
    }
}

static void planes(void *arg, int64_t begin, int64_t end) {
    const depthwise *d = arg;
    const conv *v = d->v;
    const int64_t times = v->oc / v->groups, taps = v->kernel[1] * v->kernel[2];
    const int64_t flat =
        (v->out[1] * d->pitch + DEPTHWISE_STEP - 1) / DEPTHWISE_STEP * DEPTHWISE_STEP;
    const int64_t phase = d->rows * d->pitch, phases = v->stride[1] * v->stride[2] * phase;
    const size_t bytes = (size_t)(phases + 2 * flat) * sizeof(float);
    float *room = cfx__alloc_try(bytes);
    if (!room)
        return;
    memset(room, 0, bytes);
    float *result = room + phases + flat;
    const float *from[TAPS];
    for (int64_t kh = 0; kh < v->kernel[1]; kh++)
        for (int64_t kw = 0; kw < v->kernel[2]; kw++) {
            const int64_t h = kh * v->dilation[1], w = kw * v->dilation[2];
            const int64_t sh = v->stride[1], sw = v->stride[2];
            from[kh * v->kernel[2] + kw] =
                room + (h % sh * sw + w % sw) * phase + h / sh * d->pitch + w / sw;
        }
    for (int64_t i = begin, laid = -1; i < end; i++) {
        const int64_t channel = i % v->oc, plane = i / v->oc * v->ic + channel / times;
        if (plane != laid) {
            lay_out(d, d->src + plane * v->in[1] * v->in[2], room);
            laid = plane;
        }
        d->run(flat, taps, from, d->weights + channel * taps, d->bias ? d->bias[channel] : 0,
               result);
        float *dst = d->dst + i * v->out[1] * v->out[2];
        for (int64_t h = 0; h < v->out[1]; h++)
            memcpy(dst + h * v->out[2], result + h * d->pitch, (size_t)v->out[2] * sizeof *dst);
    }
    cfx__free(room);
}

bool conv_depthwise(cfx_op_call *c, const conv *v, const conv_operands *o) {
    (void)c;
    if (o->what != CONV_DST || v->ic != v->groups || v->groups == 1 || v->dims == 3 ||
        v->kernel[1] * v->kernel[2] > TAPS || !cfx__tensor_is_contiguous(o->src) ||
        !cfx__tensor_is_contiguous(o->dst))
        return false;
    int64_t size[2];
    for (int i = 0; i < 2; i++) { /* rows and columns of a phase: what the results reach */
        const int64_t reach = (v->out[i + 1] - 1) * v->stride[i + 1] +
                              v->dilation[i + 1] * (v->kernel[i + 1] - 1) + 1;
        const int64_t padded = v->in[i + 1] + 2 * v->pad[i + 1];
        size[i] = ((reach > padded ? reach : padded) + v->stride[i + 1] - 1) / v->stride[i + 1];
    }
    if ((double)size[0] * (double)size[1] * (double)v->stride[1] * (double)v->stride[2] > 1 << 24)
        return false; /* large steps or padding: mostly empty */
    depthwise d = {.v = v,
                   .src = (const float *)o->src->data,
                   .weights = (const float *)o->weights->data,
                   .bias = o->bias ? (const float *)o->bias->data : NULL,
                   .dst = (float *)o->dst->data,
                   .rows = size[0],
                   .pitch = size[1],
                   .run = taps_here()};
    const int64_t cost = v->out[1] * size[1] * v->kernel[1] * v->kernel[2];
    cfx__parallel(v->batch * v->oc, 1 + 65536 / (cost + 1), planes, &d);
    return true;
}
