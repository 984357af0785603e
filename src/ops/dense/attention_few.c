/* Attention of few rows, or of small heads, whose keys and values are read as they lie: a token's
 * step goes through all keys and values of a cache once, so that bringing them to panels costs more
 * than it saves. With AVX-512 by hand, since each key's sum ends across a vector: those of sixteen
 * keys are summed across together. All rows go through some keys before any goes on to the next,
 * which the first cache holds meanwhile. Start at few_scores and few_values. */
#include "../dense.h"
#include "attention.h"
#include "widths.h"

enum { AT_ONCE = 64 }; /* keys */

/* ---- any machine ----------------------------------------------------------------------------- */

CFX__SIMD static void scores_plain(const few *f, const float *q, float *s) {
    for (int64_t j = 0; j < f->keys; j++) {
        const float *y = f->from + j * f->step;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < f->size; d++)
            sum += q[d] * y[d];
        s[j] = sum;
    }
}

CFX__SIMD static void values_plain(const few *f, const float *s, float *o) {
    for (int64_t j = 0; j < f->keys; j++) {
        const float p = s[j], *y = f->from + j * f->step;
#pragma omp simd
        for (int64_t d = 0; d < f->size; d++)
            o[d] += p * y[d];
    }
}

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 static inline __attribute__((always_inline, target("avx512f,avx512dq")))

enum { LANES = 16 };

AVX512 __mmask16 lanes(int64_t n) {
    return n >= LANES ? (__mmask16)0xffff : (__mmask16)((1 << n) - 1);
}

/* The sums of 16 vectors, each in its lane. */
AVX512 __m512 sums_across(__m512 *v) {
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                             _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        const __m512d a = _mm512_castps_pd(v[2 * i]), b = _mm512_castps_pd(v[2 * i + 1]);
        v[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    const __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x88),
                                     _mm512_shuffle_f32x4(v[0], v[1], 0xdd));
    const __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x88),
                                      _mm512_shuffle_f32x4(v[2], v[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88),
                         _mm512_shuffle_f32x4(low, high, 0xdd));
}

/* q times one key, lane by lane. Keys are read one after the other: those that come from memory
 * take 1.3 times as long where sixteen are read at once. */
AVX512 __m512 times_key(const few *f, const float *q, const float *key) {
    __m512 sum = _mm512_setzero_ps();
    int64_t d = 0;
    for (; d + LANES <= f->size; d += LANES) {
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(q + d), _mm512_loadu_ps(key + d), sum);
    }
    const __mmask16 k = lanes(f->size - d);
    return k ? _mm512_fmadd_ps(_mm512_maskz_loadu_ps(k, q + d), _mm512_maskz_loadu_ps(k, key + d),
                               sum)
             : sum;
}

__attribute__((target("avx512f,avx512dq"))) static void scores_16(const few *f, const float *q,
                                                                  float *s) {
    int64_t j = 0;
    for (; j + LANES <= f->keys; j += LANES) {
        __m512 sum[LANES];
        for (int i = 0; i < LANES; i++)
            sum[i] = times_key(f, q, f->from + (j + i) * f->step);
        _mm512_storeu_ps(s + j, sums_across(sum));
    }
    for (; j < f->keys; j++)
        s[j] = _mm512_reduce_add_ps(times_key(f, q, f->from + j * f->step));
}

/* o += s v for `wide` vectors of every value, of which the last has the lanes k; as many keys at a
 * time as keep the unit busy. */
AVX512 void value_columns(const few *f, const float *s, const float *v, int wide, __mmask16 k,
                          float *o) {
    enum { MOST = 8 };
    const int at_once = MOST / wide;
    __m512 sum[MOST];
    for (int i = 0; i < at_once * wide; i++)
        sum[i] = _mm512_setzero_ps();
    int64_t j = 0;
    for (; j + at_once <= f->keys; j += at_once)
#pragma GCC unroll 8
        for (int i = 0; i < at_once; i++)
#pragma GCC unroll 4
            for (int c = 0; c < wide; c++) {
                const float *at = v + (j + i) * f->step + c * LANES;
                sum[i * wide + c] = _mm512_fmadd_ps(
                    _mm512_set1_ps(s[j + i]),
                    _mm512_maskz_loadu_ps(c + 1 < wide ? (__mmask16)0xffff : k, at),
                    sum[i * wide + c]);
            }
    for (; j < f->keys; j++)
        for (int c = 0; c < wide; c++)
            sum[c] = _mm512_fmadd_ps(_mm512_set1_ps(s[j]),
                                     _mm512_maskz_loadu_ps(c + 1 < wide ? (__mmask16)0xffff : k,
                                                           v + j * f->step + c * LANES),
                                     sum[c]);
    for (int c = 0; c < wide; c++) {
        const __mmask16 m = c + 1 < wide ? (__mmask16)0xffff : k;
        for (int i = 1; i < at_once; i++)
            sum[c] = _mm512_add_ps(sum[c], sum[i * wide + c]);
        _mm512_mask_storeu_ps(o + c * LANES, m,
                              _mm512_add_ps(sum[c], _mm512_maskz_loadu_ps(m, o + c * LANES)));
    }
}

__attribute__((target("avx512f,avx512dq"))) static void values_16(const few *f, const float *s,
                                                                  float *o) {
    for (int64_t d = 0; d < f->size;) {
        const int64_t vectors = (f->size - d + LANES - 1) / LANES;
        const int wide = vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;
        const __mmask16 k = lanes(f->size - d - (wide - 1) * LANES);
        if (wide == 4)
            value_columns(f, s, f->from + d, 4, k, o + d);
        else if (wide == 2)
            value_columns(f, s, f->from + d, 2, k, o + d);
        else
            value_columns(f, s, f->from + d, 1, k, o + d);
        d += wide * LANES;
    }
}
#else
#define scores_16 scores_plain
#define values_16 values_plain
#endif

/* ---- which ----------------------------------------------------------------------------------- */

/* Keys or values [j, j + n). */
static few part_of(const few *f, int64_t j, int64_t n) {
    return (few){f->from + j * f->step, f->step, f->size, f->keys - j < n ? f->keys - j : n};
}

void few_scores(const few *f, const few_rows *r, const float *q, float *s) {
    for (int64_t j = 0; j < f->keys; j += AT_ONCE) {
        const few some = part_of(f, j, AT_ONCE);
        for (int64_t i = 0; i < r->n; i++)
            (vector_bytes() == 64 ? scores_16 : scores_plain)(&some, q + i * r->wide,
                                                              s + i * r->scores + j);
    }
}

void few_values(const few *f, const few_rows *r, const float *s, float *o) {
    for (int64_t j = 0; j < f->keys; j += AT_ONCE) {
        const few some = part_of(f, j, AT_ONCE);
        for (int64_t i = 0; i < r->n; i++)
            (vector_bytes() == 64 ? values_16 : values_plain)(&some, s + i * r->scores + j,
                                                              o + i * r->wide);
    }
}
