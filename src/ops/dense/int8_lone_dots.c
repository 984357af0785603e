/* Integer convolution channel by channel by dot products of bytes (AVX-512 VNNI).
 *
 * Four lines of the input at a time are laid side by side, so that the bytes that a column of the
 * kernel sees in one channel are one group; a column laid so is read by as many results as the
 * kernel is wide. Within a block of 64 channels vector v has channels 16 i + 4 v to 16 i + 4 v + 3
 * of each sixteen, which is what interleaving bytes gives and packing takes. */
#include "int8.h"

#include "../ops.h"

enum { BLOCK = 64, PLACE = BLOCK * INT8_GROUP, NEAR = 96 }; /* channels; bytes of a place laid out;
                                                              places laid out at once */

/* Groups of lines below a kernel, and blocks of channels. */
static int64_t groups_of(const conv *v) { return (v->kernel[1] + INT8_GROUP - 1) / INT8_GROUP; }
static int64_t blocks_of(const conv *v) { return (v->ic + BLOCK - 1) / BLOCK; }

size_t int8_lone_dots_size(const conv *v) {
    return (size_t)(blocks_of(v) * v->kernel[2] * groups_of(v) * PLACE);
}

/* [blocks][columns of the kernel][groups][PLACE] */
void int8_lone_dots_pack(const conv *v, const int8_t *w, int8_t *to) {
    const int64_t height = v->kernel[1], width = v->kernel[2], groups = groups_of(v);
    memset(to, 0, int8_lone_dots_size(v));
    for (int64_t c = 0; c < v->ic; c++)
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++) {
                const int64_t place = (c / BLOCK * width + x) * groups + y / INT8_GROUP;
                const int64_t i = c % BLOCK, lane = i / 4 % 4 * 16 + i / 16 * 4 + i % 4;
                to[place * PLACE + lane * INT8_GROUP + y % INT8_GROUP] =
                    w[(c * height + y) * width + x];
            }
}

/* Columns of the input below n results of a line. */
static int64_t columns_under(const conv *v, int64_t n) {
    return (n - 1) * v->stride[2] + (v->kernel[2] - 1) * v->dilation[2] + 1;
}

/* Results whose columns are laid out at once. */
static int64_t results_near(const conv *v) {
    const int64_t spare = NEAR / groups_of(v) - columns_under(v, 1);
    const int64_t n = spare > 0 ? 1 + spare / v->stride[2] : 1;
    return n < v->out[2] ? n : v->out[2];
}

/* Columns laid out, then results whose posts are yet to be done. */
static int64_t laid_bytes(const conv *v) {
    return columns_under(v, results_near(v)) * groups_of(v) * PLACE;
}

size_t int8_lone_dots_room(const conv *v) {
    return (size_t)(laid_bytes(v) + results_near(v) * BLOCK * (int64_t)sizeof(float));
}

#if defined(__x86_64__)
#include <immintrin.h>

#define DOTS __attribute__((target("avx512vnni,avx512bw,avx512vl,avx512dq")))
#define INLINE static inline __attribute__((always_inline)) DOTS
#define UNROLL _Pragma("GCC unroll 4")

/* Four bytes of each of 64 channels, in the order of this file. */
INLINE void interleave(const __m512i *row, __m512i *to) {
    const __m512i low01 = _mm512_unpacklo_epi8(row[0], row[1]);
    const __m512i low23 = _mm512_unpacklo_epi8(row[2], row[3]);
    const __m512i high01 = _mm512_unpackhi_epi8(row[0], row[1]);
    const __m512i high23 = _mm512_unpackhi_epi8(row[2], row[3]);
    to[0] = _mm512_unpacklo_epi16(low01, low23);
    to[1] = _mm512_unpackhi_epi16(low01, low23);
    to[2] = _mm512_unpacklo_epi16(high01, high23);
    to[3] = _mm512_unpackhi_epi16(high01, high23);
}

/* Four vectors of channels one after another, in the order of this file, and back. */
INLINE void turn(const __m512i *from, __m512i *to) {
    const __m512i low01 = _mm512_shuffle_i32x4(from[0], from[1], 0x44);
    const __m512i low23 = _mm512_shuffle_i32x4(from[2], from[3], 0x44);
    const __m512i high01 = _mm512_shuffle_i32x4(from[0], from[1], 0xee);
    const __m512i high23 = _mm512_shuffle_i32x4(from[2], from[3], 0xee);
    to[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    to[1] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    to[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    to[3] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
}

/* n numbers of 32 bits, BLOCK at most. */
INLINE void turned(const void *from, int64_t n, __m512i *to) {
    __m512i plain[4];
    UNROLL for (int v = 0; v < 4; v++) {
        const int64_t left = n - 16 * v;
        const __mmask16 inside = (__mmask16)(left >= 16 ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
        plain[v] = _mm512_maskz_loadu_epi32(inside, (const int32_t *)from + 16 * v);
    }
    turn(plain, to);
}

/* A block of channels of a line, and what is done with its sums. */
typedef struct {
    const int8_finish *f;
    const int8_t *weights;
    int64_t n;         /* channels */
    __mmask64 inside;
    __m512i start[4], scale[4], bias[4];
} block_of;

/* Lays out n columns, the first of them column `from` of the image. */
DOTS static void lay(const int8_lone_work *w, const block_of *b, int64_t line, int64_t channel,
                     int64_t from, int64_t n, __m512i *to) {
    const conv *v = &w->l->v;
    const int64_t groups = groups_of(v), top = line % v->out[1] * v->stride[1] - v->pad[1];
    const uint8_t *image = w->x + line / v->out[1] * v->in[1] * v->in[2] * v->ic + channel;
    const __m512i zero = _mm512_set1_epi8((char)w->zero);
    for (int64_t g = 0; g < groups; g++) {
        const uint8_t *row[INT8_GROUP];
        for (int i = 0; i < INT8_GROUP; i++) {
            const int64_t ky = g * INT8_GROUP + i, y = top + ky * v->dilation[1];
            const bool there = ky < v->kernel[1] && y >= 0 && y < v->in[1];
            row[i] = there ? image + y * v->in[2] * v->ic : NULL;
        }
        for (int64_t x = 0; x < n; x++) {
            const bool there = from + x >= 0 && from + x < v->in[2];
            const int64_t at = (from + x) * v->ic;
            __m512i bytes[INT8_GROUP];
            UNROLL for (int i = 0; i < INT8_GROUP; i++)
                bytes[i] = there && row[i]
                               ? _mm512_mask_loadu_epi8(zero, b->inside, row[i] + at)
                               : zero;
            interleave(bytes, to + (x * groups + g) * 4);
        }
    }
}

INLINE void finish_bytes(const block_of *b, const __m512i *sum, uint8_t *c) {
    const int8_finish *f = b->f;
    __m512i q[4], there[4];
    if (f->add) {
        const __m512i none = _mm512_setzero_si512();
        const __m512i rows[INT8_GROUP] = {_mm512_maskz_loadu_epi8(b->inside, c), none, none, none};
        interleave(rows, there);
    }
    UNROLL for (int v = 0; v < 4; v++) {
        __m512 x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[v]), _mm512_castsi512_ps(b->scale[v]),
                                   _mm512_castsi512_ps(b->bias[v]));
        if (f->add)
            x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(there[v]), _mm512_set1_ps(f->added), x);
        x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(f->low)), _mm512_set1_ps(f->high));
        q[v] = _mm512_cvtps_epi32(x);
    }
    const __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(q[0], q[1]),
                                              _mm512_packs_epi32(q[2], q[3]));
    _mm512_mask_storeu_epi8(c, b->inside, bytes);
}

INLINE void finish_floats(const block_of *b, const __m512i *sum, float *c) {
    const int8_finish *f = b->f;
    __m512i x[4], plain[4];
    UNROLL for (int v = 0; v < 4; v++) {
        const __m512 y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[v]),
                                         _mm512_castsi512_ps(b->scale[v]),
                                         _mm512_castsi512_ps(b->bias[v]));
        x[v] = _mm512_castps_si512(
            _mm512_min_ps(_mm512_set1_ps(f->high), _mm512_max_ps(_mm512_set1_ps(f->low), y)));
    }
    turn(x, plain);
    UNROLL for (int v = 0; v < 4; v++)
        _mm512_mask_storeu_epi32(c + 16 * v, (__mmask16)(b->inside >> 16 * v), plain[v]);
}

/* n results of a line; columns of a kernel are `step` places apart, results `stride`. */
INLINE void results(const block_of *b, const int taps, int64_t groups, int64_t step,
                    int64_t stride, int64_t n, const __m512i *laid, void *c, int64_t c_row) {
    const __m512i *weights = (const __m512i *)b->weights; /* memory that is aligned */
    for (int64_t i = 0; i < n; i++, laid += stride * groups * 4) {
        __m512i sum[4];
        UNROLL for (int v = 0; v < 4; v++)
            sum[v] = b->start[v];
        UNROLL for (int t = 0; t < taps; t++)
            for (int64_t g = 0; g < groups; g++)
                UNROLL for (int v = 0; v < 4; v++)
                    sum[v] = _mm512_dpbusd_epi32(sum[v], laid[(t * step * groups + g) * 4 + v],
                                                 weights[(t * groups + g) * 4 + v]);
        if (b->f->rounds)
            finish_bytes(b, sum, (uint8_t *)c + i * c_row);
        else
            finish_floats(b, sum, (float *)c + i * c_row);
    }
}

DOTS static void results_3(const block_of *b, int64_t step, int64_t stride, int64_t n,
                           const __m512i *laid, void *c, int64_t c_row) {
    results(b, 3, 1, step, stride, n, laid, c, c_row);
}

DOTS void int8_lone_dots(const int8_lone_work *w, int64_t line, int64_t block, void *room) {
    const conv *v = &w->l->v;
    const int64_t first = block * BLOCK, near = results_near(v), groups = groups_of(v);
    const int64_t element = w->finish->rounds ? 1 : (int64_t)sizeof(float);
    const int8_finish before = int8_before_posts(w->finish), *f = w->finish;
    float *beside = f->posts ? (float *)((char *)room + laid_bytes(v)) : NULL;
    block_of b = {.f = beside ? &before : f, .n = v->ic - first < BLOCK ? v->ic - first : BLOCK};
    b.inside = b.n < BLOCK ? ((__mmask64)1 << b.n) - 1 : ~(__mmask64)0;
    b.weights = (const int8_t *)w->l->weights + block * v->kernel[2] * groups * PLACE;
    turned(b.f->start + first, b.n, b.start);
    turned(b.f->scale + first, b.n, b.scale);
    turned(b.f->bias + first, b.n, b.bias);
    for (int64_t ox = 0; ox < v->out[2]; ox += near) {
        const int64_t n = v->out[2] - ox < near ? v->out[2] - ox : near;
        lay(w, &b, line, first, ox * v->stride[2] - v->pad[2], columns_under(v, n), room);
        char *c = (char *)w->out + ((line * v->out[2] + ox) * v->ic + first) * element;
        void *to = beside ? (void *)beside : c;
        const int64_t to_row = beside ? BLOCK : v->ic;
        if (v->kernel[2] == 3 && groups == 1)
            results_3(&b, v->dilation[2], v->stride[2], n, room, to, to_row);
        else
            results(&b, (int)v->kernel[2], groups, v->dilation[2], v->stride[2], n, room, to,
                    to_row);
        if (beside)
            int8_finish_posts(f, &(tile_rows){beside, BLOCK, n, b.n}, c, v->ic);
    }
}

#else

void int8_lone_dots(const int8_lone_work *w, int64_t line, int64_t block, void *room) {
    (void)w, (void)line, (void)block, (void)room; /* never: int8_has_dots() */
}

#endif
