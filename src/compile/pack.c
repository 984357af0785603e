/* Panels of products and convolutions. */
#include "pack.h"

#include "../tensor/packed.h"
#include "../tensor/tensor.h"

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

int64_t cfx__pack_conv_scratch(const cfx__pack_conv_shape *s, bool smaller) {
    enum { NEAR = 1 << 16 }; /* NAME_CONV_NEAR */
    const int64_t ic = s->ic / s->groups, *k = s->kernel;
    const int64_t width = (s->out[2] - 1) * s->stride[2] + s->dilation[2] * (k[2] - 1) + 1;
    const int64_t wide = width * ic, fit = NEAR / (wide * k[0] * s->stride[1] + 1);
    const int64_t most = fit < 1 ? 1 : fit < s->out[1] ? fit : s->out[1];
    const int64_t lines = (most - 1) * s->stride[1] + s->dilation[1] * (k[1] - 1) + 1;
    const bool whole = s->groups == 1 && !s->pad[0] && !s->pad[1] && !s->pad[2] &&
                       (ic == 1 || s->x_stride[1] == 1) && (s->in[2] == 1 || s->x_stride[4] == ic);
    if (whole)
        return taps_of(s) * 8;
    if (smaller) { /* narrower ones have more lines near: NEAR and what one line needs */
        const int64_t around = s->dilation[1] * (k[1] - 1) + 1;
        const int64_t all = ((s->out[1] - 1) * s->stride[1] + around) * wide;
        const int64_t some = NEAR / k[0] + (s->stride[1] + around) * wide;
        return taps_of(s) * 8 + k[0] * (all < some ? all : some) * (int64_t)sizeof(float);
    }
    return taps_of(s) * 8 + k[0] * lines * wide * (int64_t)sizeof(float);
}

void cfx__pack_depthwise(const cfx__pack_conv_shape *s, const float *w, float *to) {
    const int64_t taps = taps_of(s);
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < s->oc; c++)
            to[tap * s->oc + c] = w[c * taps + tap];
}

/* ---- Winograd -------------------------------------------------------------------------------- */

static int64_t tiles_of(const cfx__pack_conv_shape *s, int step) {
    return s->batch * ((s->out[1] + step - 1) / step) * ((s->out[2] + step - 1) / step);
}

/* What a product costs for a channel of each side, `rows` rows at each of `points`: the weights
 * are read, and transforms take their time. */
static double cost(const cfx__pack_conv_shape *s, int64_t rows, int points, bool transforms) {
    enum { WEIGHT = 15, POINT = 8 };
    const double each = transforms ? POINT * (1 / (double)s->ic + 1 / (double)s->oc) : 0;
    return points * ((double)rows * (1 + each) + WEIGHT);
}

int cfx__pack_winograd_size(const cfx__pack_conv_shape *s) {
    const bool takes = s->groups == 1 && s->kernel[0] == 1 && s->in[0] == 1 && s->out[0] == 1 &&
                       s->kernel[1] == 3 && s->kernel[2] == 3 && s->stride[1] == 1 &&
                       s->stride[2] == 1 && s->dilation[1] == 1 && s->dilation[2] == 1 &&
                       s->ic >= 32 && s->oc >= 32 && s->x_stride[1] == 1;
    if (!takes)
        return 0;
    const double direct = cost(s, s->batch * s->out[1] * s->out[2], 9, false);
    const double four = cost(s, tiles_of(s, 4), 36, true), two = cost(s, tiles_of(s, 2), 16, true);
    return four <= two && four < direct ? 6 : two < direct ? 4 : 0;
}

int64_t cfx__pack_winograd_floats(const cfx__pack_conv_shape *s, int size) {
    return cfx__pack_panels_floats(size * size * s->ic, s->oc);
}

/* A weight of each channel of a panel. */
typedef double panel[CFX__PANEL];

/* Three weights of a line, `apart`, at the points of a tile. */
static void at_points(panel *w, int apart, int size, panel *to) {
    const double a = 0.625, b = 1.5, a2 = a * a, b2 = b * b;
    const double by_a = 1 / (2 * a2 * (a2 - b2)), by_b = 1 / (2 * b2 * (b2 - a2));
    for (int j = 0; j < CFX__PANEL; j++) {
        const double w0 = w[0][j], w1 = w[apart][j], w2 = w[2 * apart][j];
        const bool two = size == 4; /* points 0, 1, -1; else a and b, too, in place of 1 */
        const double to_a = two ? 0.5 : by_a, one = two ? 1 : a, square = two ? 1 : a2;
        to[0][j] = two ? w0 : w0 / (a2 * b2);
        to[apart][j] = (w0 + one * w1 + square * w2) * to_a;
        to[2 * apart][j] = (w0 - one * w1 + square * w2) * to_a;
        to[(size - 1) * apart][j] = w2;
        if (!two) {
            to[3 * apart][j] = (w0 + b * w1 + b2 * w2) * by_b;
            to[4 * apart][j] = (w0 - b * w1 + b2 * w2) * by_b;
        }
    }
}

void cfx__pack_winograd(const cfx__pack_conv_shape *s, int size, const float *w, float *to) {
    const int64_t ic = s->ic, points = size * size;
    for (int64_t first = 0; first < s->oc; first += CFX__PANEL, to += points * ic * CFX__PANEL)
        for (int64_t c = 0; c < ic; c++) {
            panel given[9], half[6 * 3], whole[6 * 6];
            for (int j = 0; j < CFX__PANEL; j++)
                for (int q = 0; q < 9; q++)
                    given[q][j] = first + j < s->oc ? w[((first + j) * ic + c) * 9 + q] : 0;
            for (int x = 0; x < 3; x++)
                at_points(given + x, 3, size, half + x);
            for (int y = 0; y < size; y++)
                at_points(half + 3 * y, 1, size, whole + y * size);
            for (int64_t q = 0; q < points; q++)
                for (int j = 0; j < CFX__PANEL; j++)
                    to[(q * ic + c) * CFX__PANEL + j] = (float)whole[q][j];
        }
}

int64_t cfx__pack_winograd_scratch(const cfx__pack_conv_shape *s, int size, bool smaller) {
    enum { NEAR = 1 << 18, PAD = 16, COLS = 32 }; /* NAME_WINOGRAD_NEAR, the widest tile */
    const int64_t points = size * size, row = s->ic + PAD, fit = NEAR / (points * row);
    const int64_t tiles = tiles_of(s, size - 2), most = fit < 16 ? 16 : fit;
    const int64_t rounds = (tiles + most - 1) / most, even = (tiles + rounds - 1) / rounds;
    const int64_t count = !smaller ? even : tiles < most ? tiles : most;
    return (s->ic + points * (count * (row + COLS) + 2 * PAD)) * (int64_t)sizeof(float);
}

/* ---- transposed ------------------------------------------------------------------------------ */

int64_t cfx__pack_transposed_floats(const cfx__pack_conv_shape *s) {
    return s->groups * cfx__pack_panels_floats(s->oc / s->groups, taps_of(s) * s->ic / s->groups);
}

void cfx__pack_transposed(const cfx__pack_conv_shape *s, const float *w, float *to) {
    const int64_t taps = taps_of(s), ic = s->ic / s->groups, oc = s->oc / s->groups;
    for (int64_t g = 0; g < s->groups; g++, w += oc * ic * taps)
        for (int64_t first = 0; first < taps * ic; first += CFX__PANEL)
            for (int64_t i = 0; i < oc; i++)
                for (int64_t j = first; j < first + CFX__PANEL; j++)
                    *to++ = j < taps * ic ? w[(i * ic + j % ic) * taps + j / ic] : 0;
}

int64_t cfx__pack_transposed_scratch(const cfx__pack_conv_shape *s) {
    const int64_t oc = s->oc / s->groups, ic = s->ic / s->groups;
    return (s->out[2] * (oc + taps_of(s) * ic) + s->in[0] * s->in[1] * s->in[2] * s->ic) *
           (int64_t)sizeof(float);
}

/* ---- any of them ----------------------------------------------------------------------------- */

int64_t cfx__packing_floats(const cfx__packing *p) {
    switch (p->kind) {
    case CFX__PACKING_PANELS: return cfx__pack_panels_floats(p->k, p->n);
    case CFX__PACKING_CONV: return cfx__pack_conv_floats(p->s);
    case CFX__PACKING_DEPTHWISE: return taps_of(p->s) * p->s->oc;
    case CFX__PACKING_WINOGRAD: return cfx__pack_winograd_floats(p->s, p->size);
    case CFX__PACKING_TRANSPOSED: return cfx__pack_transposed_floats(p->s);
    }
    return 0;
}

typedef struct {
    const cfx__packing *how;
    const float *w;
} filling;

static void fill(void *user, void *to) {
    const filling *f = user;
    const cfx__packing *p = f->how;
    switch (p->kind) {
    case CFX__PACKING_PANELS: cfx__pack_panels(f->w, p->row, p->col, p->k, p->n, to); return;
    case CFX__PACKING_CONV: cfx__pack_conv(p->s, f->w, to); return;
    case CFX__PACKING_DEPTHWISE: cfx__pack_depthwise(p->s, f->w, to); return;
    case CFX__PACKING_WINOGRAD: cfx__pack_winograd(p->s, p->size, f->w, to); return;
    case CFX__PACKING_TRANSPOSED: cfx__pack_transposed(p->s, f->w, to); return;
    }
}

const float *cfx__packed_floats(const cfx_tensor *w, const cfx__packing *p) {
    static const cfx__pack_conv_shape none;
    const cfx__pack_conv_shape *s = p->s ? p->s : &none;
    const int64_t facts[] = {p->kind,   p->size,      p->row,       p->col,
                             p->k,      p->n,         s->ic,        s->oc,
                             s->groups, s->kernel[0], s->kernel[1], s->kernel[2]};
    const int64_t floats = cfx__packing_floats(p);
    filling f = {p, (const float *)w->data};
    return (const float *)cfx__packed_tensor(w, cfx__packed_key("compiled", COUNT(facts), facts),
                                             CFX_F32, 1, &floats, fill, &f)
        ->data;
}

/* ---- scratch of what has no weights ---------------------------------------------------------- */

int64_t cfx__pack_matmul_scratch(int64_t m, int64_t n, int64_t k, bool copied) {
    const int64_t panels = cfx__pack_panels_floats(k > 0 ? k : 1, n);
    return (panels + (copied ? m * k : 0)) * (int64_t)sizeof(float);
}

int64_t cfx__pack_attention_scratch(int64_t rows, int64_t keys, int64_t size, int64_t value) {
    enum { ROWS = 28, FEW = 4, SMALL = 256 }; /* NAME_ATTENTION_ROWS, ..._FEW, ..._SMALL */
    const bool few = rows <= FEW || rows * keys <= SMALL;
    const int64_t panels =
        few ? 0 : cfx__pack_panels_floats(size, keys) + cfx__pack_panels_floats(keys, value);
    return ((rows < ROWS ? rows : ROWS) * keys + panels) * (int64_t)sizeof(float);
}

int64_t cfx__pack_recurrent_scratch(const cfx__pack_recurrent *r) {
    enum { MOST = 16 }; /* NAME_recurrent_steps */
    const int64_t wide = r->directions * r->given, n = r->gates * r->hidden;
    const int64_t beside = r->layers > 1 && r->directions > 1 ? r->steps * wide : 0;
    const int64_t fit = r->steps * (r->size + wide) / (2 * n);
    const int64_t steps = fit < 1 ? 1 : fit < MOST ? fit : MOST;
    return r->batch * (beside + (steps + 1) * n + r->hidden) * (int64_t)sizeof(float);
}

int64_t cfx__pack_fft_scratch(int64_t n) {
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return (4 * m + 2 * n) * (int64_t)sizeof(double);
}

/* ---- weights of fewer bits ------------------------------------------------------------------- */

void cfx__pack_bf16(const float *w, int64_t row, int64_t col, int64_t k, int64_t n, uint16_t *to) {
    for (int64_t first = 0; first < n; first += CFX__PANEL)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = first; j < first + CFX__PANEL; j++)
                *to++ = j < n ? cfx__bf16_store(w[i * row + j * col]) : 0;
}

void cfx__pack_narrow(const cfx__narrow *w, void *numbers, float *scales) {
    const int64_t row = w->k * w->bits / 8; /* bytes of a column of the matrix */
    const uint8_t *from = (const uint8_t *)w->integers->data;
    const float *given = (const float *)w->scales->data;
    uint8_t *to = numbers;
    for (int64_t first = 0; first < w->n; first += CFX__PANEL) {
        for (int64_t i = 0; i < row; i++)
            for (int64_t j = first; j < first + CFX__PANEL; j++)
                *to++ = j < w->n ? from[j * row + i] : 0;
        for (int64_t g = 0; g < w->k / w->group; g++)
            for (int64_t j = first; j < first + CFX__PANEL; j++)
                *scales++ = j >= w->n                ? 0
                            : w->scales->numel == 1 ? given[0]
                                                    : given[j * (w->k / w->group) + g];
    }
}
