/* Integer convolution channel by channel, and the plain way to do it: by products of 16 bits. */
#include "int8.h"

#include "../dense.h"
#include "../ops.h"

enum { BLOCK = 64, TAPS = 64 }; /* channels that are summed in registers; taps at a time */

static int64_t taps_of(const conv *v) { return v->kernel[1] * v->kernel[2]; }

static size_t weights_size(const conv *v) {
    const size_t size = int8_has_dots() ? int8_lone_dots_size(v)
                                        : (size_t)(taps_of(v) * v->ic) * sizeof(int16_t);
    return (size + TILE_LINE - 1) / TILE_LINE * TILE_LINE;
}

size_t int8_lone_size(const conv *v) {
    return weights_size(v) + (size_t)v->ic * sizeof(int32_t);
}

int8_lone int8_lone_in(const conv *v, void *memory) {
    return (int8_lone){.v = *v,
                       .weights = memory,
                       .sums = (int32_t *)((char *)memory + weights_size(v))};
}

void int8_lone_pack(const int8_lone *to, const int8_t *w) {
    const conv *v = &to->v;
    const int64_t taps = taps_of(v);
    const bool dots = int8_has_dots();
    memset(to->sums, 0, (size_t)v->ic * sizeof *to->sums);
    for (int64_t c = 0; c < v->ic; c++)
        for (int64_t t = 0; t < taps; t++) {
            to->sums[c] += w[c * taps + t];
            if (!dots)
                ((int16_t *)to->weights)[t * v->ic + c] = w[c * taps + t];
        }
    if (dots)
        int8_lone_dots_pack(v, w, to->weights);
}

/* ---- the plain way --------------------------------------------------------------------------- */

/* Adds to n channels, BLOCK at most, some taps: bytes at x[t], weights at w[t]. A product of a byte
 * less another by a weight fits 16 bits. */
CFX__SIMD static void add_taps(const uint8_t *const *x, const int16_t *const *w, int taps,
                               int16_t zero, int64_t at, int64_t n, int32_t *restrict sum) {
    for (int t = 0; t < taps; t++) {
        const uint8_t *xt = x[t] + at;
        const int16_t *wt = w[t] + at;
        if (n == BLOCK)
            for (int c = 0; c < BLOCK; c++)
                sum[c] += (int16_t)((int16_t)(xt[c] - zero) * wt[c]);
        else
            for (int64_t c = 0; c < n; c++)
                sum[c] += (int16_t)((int16_t)(xt[c] - zero) * wt[c]);
    }
}

/* The taps of one place, from the first on, that lie inside the image; how many. */
static int taps_at(const int8_lone_work *w, int64_t line, int64_t ox, int64_t *tap,
                   const uint8_t **x, const int16_t **weights) {
    const conv *v = &w->l->v;
    const int64_t oy = line % v->out[1], image = line / v->out[1];
    int n = 0;
    for (; *tap < taps_of(v) && n < TAPS; ++*tap) {
        const int64_t ky = *tap / v->kernel[2], kx = *tap % v->kernel[2];
        const int64_t y = oy * v->stride[1] - v->pad[1] + ky * v->dilation[1];
        const int64_t at = ox * v->stride[2] - v->pad[2] + kx * v->dilation[2];
        if (y < 0 || y >= v->in[1] || at < 0 || at >= v->in[2])
            continue;
        x[n] = w->x + ((image * v->in[1] + y) * v->in[2] + at) * v->ic;
        weights[n++] = (const int16_t *)w->l->weights + *tap * v->ic;
    }
    return n;
}

/* What is outside counts nothing here, so that sums are without the input's zero from the start. */
static void plain_line(const int8_lone_work *w, int64_t line, int64_t block) {
    const conv *v = &w->l->v;
    const int64_t first = block * BLOCK, left = v->ic - first, n = left < BLOCK ? left : BLOCK;
    const int64_t element = w->finish->rounds ? 1 : (int64_t)sizeof(float);
    const uint8_t *x[TAPS];
    const int16_t *weights[TAPS];
    for (int64_t ox = 0; ox < v->out[2]; ox++) {
        int32_t sum[BLOCK] = {0};
        for (int64_t tap = 0; tap < taps_of(v);) {
            const int taps = taps_at(w, line, ox, &tap, x, weights);
            add_taps(x, weights, taps, w->zero, first, n, sum);
        }
        char *c = (char *)w->out + ((line * v->out[2] + ox) * v->ic + first) * element;
        int8_finish_row(w->finish, sum, first, n, c);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void lines(void *arg, int64_t begin, int64_t end) {
    const int8_lone_work *w = arg;
    const conv *v = &w->l->v;
    const int64_t blocks = (v->ic + BLOCK - 1) / BLOCK;
    const size_t size = int8_has_dots() ? int8_lone_dots_room(v) : 0;
    void *room = size ? cfx__block_alloc(size) : NULL;
    if (size && !room) {
        cfx__error_memory(size, false);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        if (int8_has_dots())
            int8_lone_dots(w, i / blocks, i % blocks, room);
        else
            plain_line(w, i / blocks, i % blocks);
    if (room)
        cfx__block_free(room, size);
}

bool int8_lone_run(const int8_lone_work *w) {
    const conv *v = &w->l->v;
    const int64_t blocks = (v->ic + BLOCK - 1) / BLOCK;
    cfx__parallel(v->batch * v->out[1] * blocks, cfx__grain((double)(v->out[2] * taps_of(v) * 8)),
                  lines, (void *)w);
    return cfx_ok();
}
