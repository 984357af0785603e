/* Tiles of integer products by the machine's dot products of bytes (AVX-512 VNNI): some rows by two
 * vectors of columns, from the first product to the stored result in registers. */
#include "int8.h"

#include "../ops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define DOTS __attribute__((target("avx512vnni,avx512bw,avx512vl,avx512dq")))
#define INLINE static inline __attribute__((always_inline)) DOTS
#define UNROLL _Pragma("GCC unroll 16")

enum { LANES = INT8_COLUMNS / 2, THIRDS = (INT8_DOTS_ROWS + 2) / 3 };

INLINE __m512i four_bytes(const uint8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Keeps a sum in its register: compilers spill what the end of a tile has no register for at each
 * turn of the loop before. */
#define KEEP(x) __asm__ volatile("" : "+v"(x))

/* Sums over one run of bytes. Rows are reached from every third one, which is as far as an address
 * can be told from two registers. */
INLINE void sum_run(const int rows, const uint8_t *a, int64_t row, int64_t groups, const int8_t *b,
                    __m512i *left, __m512i *right) {
    const uint8_t *base[THIRDS];
    for (int i = 0; i < rows; i += 3)
        base[i / 3] = a + i * row;
    for (int64_t g = 0; g < groups; g++) {
        const __m512i w0 = _mm512_load_si512(b + g * INT8_COLUMNS * INT8_GROUP);
        const __m512i w1 = _mm512_load_si512(b + (g * INT8_COLUMNS + LANES) * INT8_GROUP);
        UNROLL for (int i = 0; i < rows; i++) {
            const __m512i x = four_bytes(base[i / 3] + i % 3 * row + g * INT8_GROUP);
            left[i] = _mm512_dpbusd_epi32(left[i], x, w0);
            right[i] = _mm512_dpbusd_epi32(right[i], x, w1);
        }
    }
}

INLINE __m512 held(const int8_finish *f, __m512 v) {
    return _mm512_min_ps(_mm512_set1_ps(f->high), _mm512_max_ps(_mm512_set1_ps(f->low), v));
}

/* Columns [at, at + LANES) of the panel in each row: scaled, added to, held in bounds, rounded and
 * stored. */
INLINE void finish_bytes(const int rows, const int8_tile *t, const int at, __mmask16 inside,
                         const bool add, const __m512i *sum) {
    const int8_finish *f = t->finish;
    const int64_t first = t->panel * INT8_COLUMNS + at;
    const __m512 scale = _mm512_loadu_ps(f->scale + first), bias = _mm512_loadu_ps(f->bias + first);
    const __m512 added = _mm512_set1_ps(f->added);
    uint8_t *c = (uint8_t *)t->c + at;
    UNROLL for (int i = 0; i < rows; i++) {
        __m512 x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i]), scale, bias);
        if (add) {
            const __m128i there = _mm_maskz_loadu_epi8(inside, c + i * t->c_row);
            x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(there)), added, x);
        }
        const __m512i q = _mm512_cvtps_epi32(held(f, x));
        _mm_mask_storeu_epi8(c + i * t->c_row, inside, _mm512_cvtepi32_epi8(q));
    }
}

INLINE void finish_floats(const int rows, const int8_tile *t, const int at, __mmask16 inside,
                          const __m512i *sum) {
    const int8_finish *f = t->finish;
    const int64_t first = t->panel * INT8_COLUMNS + at;
    const __m512 scale = _mm512_loadu_ps(f->scale + first), bias = _mm512_loadu_ps(f->bias + first);
    float *c = (float *)t->c + at;
    UNROLL for (int i = 0; i < rows; i++) {
        const __m512 x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i]), scale, bias);
        _mm512_mask_storeu_ps(c + i * t->c_row, inside, held(f, x));
    }
}

INLINE void finish(const int rows, const int8_tile *t, const int at, const __m512i *sum) {
    const int64_t left = t->w->n - t->panel * INT8_COLUMNS - at;
    const __mmask16 inside =
        (__mmask16)(left >= LANES ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
    if (!t->finish->rounds)
        finish_floats(rows, t, at, inside, sum);
    else if (t->finish->add)
        finish_bytes(rows, t, at, inside, true, sum);
    else
        finish_bytes(rows, t, at, inside, false, sum);
}

INLINE void dots(const int rows, const int8_tile *t) {
    const int8_weights *w = t->w;
    const int32_t *start = t->finish->start + t->panel * INT8_COLUMNS;
    const int64_t size = w->groups * INT8_COLUMNS * INT8_GROUP;
    const int8_t *b = (const int8_t *)w->panels + t->panel * w->runs * size;
    __m512i left[INT8_DOTS_ROWS], right[INT8_DOTS_ROWS];
    UNROLL for (int i = 0; i < rows; i++) {
        left[i] = _mm512_loadu_si512(start);
        right[i] = _mm512_loadu_si512(start + LANES);
    }
    if (t->sums)
        UNROLL for (int i = 0; i < rows; i++) {
            const int32_t *sums = t->sums + i * INT8_COLUMNS;
            left[i] = _mm512_add_epi32(left[i], _mm512_loadu_si512(sums));
            right[i] = _mm512_add_epi32(right[i], _mm512_loadu_si512(sums + LANES));
        }
    for (int64_t run = 0; run < w->runs && t->done < w->groups; run++)
        sum_run(rows, t->a + t->at[run] + t->done * INT8_GROUP, t->row, w->groups - t->done,
                b + run * size + t->done * INT8_COLUMNS * INT8_GROUP, left, right);
    UNROLL for (int i = 0; i < rows; i++) {
        KEEP(left[i]);
        KEEP(right[i]);
    }
    finish(rows, t, 0, left);
    finish(rows, t, LANES, right);
}

#define EACH(do_it)                                                                                \
    do_it(1) do_it(2) do_it(3) do_it(4) do_it(5) do_it(6) do_it(7) do_it(8) do_it(9) do_it(10)     \
        do_it(11) do_it(12)
#define DEFINE(n)                                                                                  \
    DOTS static void dots_##n(const int8_tile *t) { dots(n, t); }
EACH(DEFINE)
#define NAME(n) dots_##n,
static void (*const by_rows[INT8_DOTS_ROWS])(const int8_tile *t) = {EACH(NAME)};

void int8_dots(const int8_tile *t, int rows) { by_rows[rows - 1](t); }

#else

void int8_dots(const int8_tile *t, int rows) { (void)t, (void)rows; } /* never: int8_has_dots() */

#endif
