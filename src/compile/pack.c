/* Panels of products and convolutions. */
#include "pack.h"

int64_t cfx__pack_panels_floats(int64_t k, int64_t n) {
    return (n + CFX__PANEL - 1) / CFX__PANEL * CFX__PANEL * k;
}

void cfx__pack_panels(const float *w, int64_t row, int64_t col, int64_t k, int64_t n, float *to) {
    for (int64_t first = 0; first < n; first += CFX__PANEL)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = first; j < first + CFX__PANEL; j++)
                *to++ = j < n ? w[i * row + j * col] : 0;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static int64_t taps_of(const cfx__pack_conv_shape *s) {
    return s->kernel[0] * s->kernel[1] * s->kernel[2];
}

int64_t cfx__pack_conv_floats(const cfx__pack_conv_shape *s) {
    return s->groups * cfx__pack_panels_floats(taps_of(s) * s->ic / s->groups, s->oc / s->groups);
}

void cfx__pack_conv(const cfx__pack_conv_shape *s, const float *w, float *to) {
    const int64_t taps = taps_of(s), ic = s->ic / s->groups, oc = s->oc / s->groups;
    for (int64_t g = 0; g < s->groups; g++, w += oc * ic * taps)
        for (int64_t first = 0; first < oc; first += CFX__PANEL)
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t c = 0; c < ic; c++)
                    for (int64_t j = first; j < first + CFX__PANEL; j++)
                        *to++ = j < oc ? w[(j * ic + c) * taps + tap] : 0;
}

int64_t cfx__pack_conv_scratch(const cfx__pack_conv_shape *s) {
    enum { NEAR = 1 << 16 }; /* NAME_CONV_NEAR */
    const int64_t ic = s->ic / s->groups, *k = s->kernel;
    const int64_t width = (s->out[2] - 1) * s->stride[2] + s->dilation[2] * (k[2] - 1) + 1;
    const int64_t wide = width * ic, fit = NEAR / (wide * k[0] * s->stride[1] + 1);
    const int64_t most = fit < 1 ? 1 : fit < s->out[1] ? fit : s->out[1];
    const int64_t lines = (most - 1) * s->stride[1] + s->dilation[1] * (k[1] - 1) + 1;
    const bool whole = s->groups == 1 && !s->pad[0] && !s->pad[1] && !s->pad[2] &&
                       (ic == 1 || s->x_stride[1] == 1) && (s->in[2] == 1 || s->x_stride[4] == ic);
    return taps_of(s) * 8 + (whole ? 0 : k[0] * lines * wide * (int64_t)sizeof(float));
}

void cfx__pack_depthwise(const cfx__pack_conv_shape *s, const float *w, float *to) {
    const int64_t taps = taps_of(s);
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < s->oc; c++)
            to[tap * s->oc + c] = w[c * taps + tap];
}
