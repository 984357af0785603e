/* Weights of layers in integers, and what becomes of their sums. */
#include "pack.h"

#include <math.h>

enum { GROUP = 4 }; /* NAME_INT8_GROUP */

static int64_t steps_of(const cfx__pack_conv_shape *s) {
    return s->dilation[2] == 1 ? 1 : s->kernel[2];
}

/* Numbers of a run below the kernel, and groups of them. */
static int64_t length_of(const cfx__pack_conv_shape *s) {
    return s->kernel[2] / steps_of(s) * s->ic / s->groups;
}

static int64_t groups_of(const cfx__pack_conv_shape *s) {
    return (length_of(s) + GROUP - 1) / GROUP;
}

int64_t cfx__pack_int8_bytes(const cfx__pack_conv_shape *s) {
    const int64_t rows = s->kernel[1] * steps_of(s) * groups_of(s) * GROUP;
    return s->groups * cfx__pack_panels_floats(rows, s->oc / s->groups);
}

void cfx__pack_int8(const cfx__pack_conv_shape *s, const int8_t *w, int8_t *to, int32_t *sums) {
    const int64_t ic = s->ic / s->groups, oc = s->oc / s->groups, steps = steps_of(s);
    const int64_t taps = s->kernel[1] * s->kernel[2], runs = s->kernel[1] * steps;
    const int64_t length = length_of(s), filled = groups_of(s) * GROUP;
    memset(sums, 0, (size_t)s->oc * sizeof *sums);
    for (int64_t g = 0; g < s->groups; g++, w += oc * ic * taps, sums += oc)
        for (int64_t first = 0; first < oc; first += CFX__PANEL)
            for (int64_t i = 0; i < runs * filled; i += GROUP)
                for (int64_t j = first; j < first + CFX__PANEL; j++)
                    for (int64_t q = i % filled; q < i % filled + GROUP; q++) {
                        const int64_t tap = i / filled * (s->kernel[2] / steps) + q / ic;
                        const bool inside = j < oc && q < length;
                        *to = inside ? w[(j * ic + q % ic) * taps + tap] : 0;
                        if (inside)
                            sums[j] += *to;
                        to++;
                    }
}

int64_t cfx__pack_int8_scratch(const cfx__pack_conv_shape *s, bool smaller) {
    enum { NEAR = 1 << 18 }; /* NAME_INT8_NEAR */
    const int64_t *k = s->kernel;
    const int64_t width = (s->out[2] - 1) * s->stride[2] + s->dilation[2] * (k[2] - 1) + 1;
    const int64_t wide = width * s->ic / s->groups, fit = NEAR / (wide * s->stride[1] + 1);
    const int64_t most = fit < 1 ? 1 : fit < s->out[1] ? fit : s->out[1];
    const int64_t lines = (most - 1) * s->stride[1] + s->dilation[1] * (k[1] - 1) + 1;
    if (smaller) { /* narrower ones have more lines near: NEAR and what one line needs */
        const int64_t around = s->dilation[1] * (k[1] - 1) + 1;
        const int64_t all = ((s->out[1] - 1) * s->stride[1] + around) * wide;
        const int64_t some = NEAR + (s->stride[1] + around) * wide;
        return k[1] * k[2] * 8 + (all < some ? all : some) + GROUP;
    }
    return k[1] * k[2] * 8 + lines * wide + GROUP;
}

void cfx__pack_int8_depthwise(const cfx__pack_conv_shape *s, const int8_t *w, int8_t *to,
                              int32_t *sums) {
    const int64_t taps = s->kernel[1] * s->kernel[2];
    for (int64_t c = 0; c < s->oc; c++) {
        sums[c] = 0;
        for (int64_t tap = 0; tap < taps; tap++)
            sums[c] += to[tap * s->oc + c] = w[c * taps + tap];
    }
}

int64_t cfx__pack_int8_dynamic_scratch(int64_t m, int64_t n, int64_t k) {
    return (2 * n + n % 2 * 2) * (int64_t)sizeof(float) + (m * k + 15) / 16 * 16 + 8 + m * k +
           GROUP;
}

void cfx__pack_int8_finish_of(const cfx__integers *q, int64_t n, const int32_t *sums,
                              const float *bias, float low, float high, bool adds, bool posts,
                              cfx__pack_int8_finish *to) {
    const float *scales = (const float *)q->scales->data, by = q->dynamic ? 1 : q->x.scale;
    *to = (cfx__pack_int8_finish){to->start, to->scale, to->bias, 0, low, high, 0, 0};
    for (int64_t j = 0; j < n; j++) {
        to->scale[j] = scales[q->scales->numel == 1 ? 0 : j] * by;
        to->bias[j] = bias ? bias[j] : 0;
        to->start[j] = q->dynamic ? 0 : -q->x.zero * sums[j];
    }
    if (!q->rounds)
        return;
    const float steps = 1 / q->out.scale, zero = (float)q->out.zero;
    if (posts) {
        to->steps = steps, to->zero = zero;
        return;
    }
    /* In the units of the bytes themselves. */
    to->added = q->add.scale * steps;
    for (int64_t j = 0; j < n; j++) {
        to->scale[j] *= steps;
        to->bias[j] = to->bias[j] * steps + zero - (adds ? (float)q->add.zero * to->added : 0);
    }
    to->low = low * steps + zero > 0 ? fminf(low * steps + zero, 255) : 0;
    to->high = high * steps + zero < 255 ? fmaxf(high * steps + zero, 0) : 255;
}
