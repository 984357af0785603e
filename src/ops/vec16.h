/* exp, log, sigmoid, tanh, erf and gelu of 16 floats at a time, for functions that are compiled for
 * AVX-512 (F and DQ). The polynomials of exp, log and erf are those of vecmath.h; a machine with
 * AVX-512 scales by a power of two, takes a float apart and sets what no polynomial gives (log 0)
 * by one instruction each, and a quotient is an estimate that Newton's method makes exact. The
 * smaller of a constant and x is x where x is no number, in this order. */
#ifndef CFX__VEC16_H
#define CFX__VEC16_H

#include <immintrin.h>

#define VEC16 static inline __attribute__((always_inline, target("avx512f,avx512dq")))

VEC16 __m512 all(float x) { return _mm512_set1_ps(x); }
VEC16 __m512 fma16(__m512 a, __m512 b, float c) { return _mm512_fmadd_ps(a, b, all(c)); }
VEC16 __m512 size_of(__m512 x) { return _mm512_andnot_ps(all(-0.f), x); }
VEC16 __m512 with_sign_of(__m512 size, __m512 x) {
    return _mm512_or_ps(size, _mm512_and_ps(all(-0.f), x));
}

/* 1 / x, of x whose quotient is a normal number. */
VEC16 __m512 inverse(__m512 x) {
    const __m512 guess = _mm512_rcp14_ps(x);
    return _mm512_fmadd_ps(guess, _mm512_fnmadd_ps(x, guess, all(1)), guess);
}

VEC16 __m512 exp16(__m512 given) {
    const __m512 x = _mm512_max_ps(all(-104.5f), _mm512_min_ps(all(89.f), given));
    const __m512 rounds = all(0x1.8p23f);
    const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, all(0x1.715476p+0f), rounds), rounds);
    __m512 r = _mm512_fnmadd_ps(n, all(0x1.62e400p-1f), x);
    r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-20f), r);
    __m512 p = fma16(all(0x1.a26762p-13f), r, 0x1.6d2e00p-10f);
    p = fma16(p, r, 0x1.110ff2p-7f);
    p = fma16(p, r, 0x1.555502p-5f);
    p = fma16(p, r, 0x1.555556p-3f);
    p = fma16(p, r, 0.5f);
    p = fma16(p, r, 1.f);
    /* below -104 it is 0: computing that takes the processor 150 cycles, as all that underflows */
    const __mmask16 some = _mm512_cmp_ps_mask(given, all(-104.f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(some, fma16(p, r, 1.f), n);
}

/* x = 2^n m with m in [sqrt(1/2), sqrt(2)), and a polynomial in m - 1. */
VEC16 __m512 log16(__m512 x) {
    /* what becomes of NaN of both kinds, 0, 1, -inf, inf, numbers below 0 and above it */
    enum { Y, SAME_NAN = 2, NEW_NAN, LEAST, MOST };
    const int table = SAME_NAN | SAME_NAN << 4 | LEAST << 8 | Y << 12 | NEW_NAN << 16 |
                      MOST << 20 | NEW_NAN << 24 | Y << 28;
    const __m512 raw = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
    const __mmask16 high = _mm512_cmp_ps_mask(raw, all(0x1.6a09e6p+0f), _CMP_GT_OQ);
    const __m512 m = _mm512_mask_mul_ps(raw, high, raw, all(0.5f));
    const __m512 e = _mm512_getexp_ps(x), n = _mm512_mask_add_ps(e, high, e, all(1));
    const __m512 f = _mm512_sub_ps(m, all(1)), z = _mm512_mul_ps(f, f);
    __m512 p = fma16(all(7.0376836292e-2f), f, -1.1514610310e-1f);
    p = fma16(p, f, 1.1676998740e-1f);
    p = fma16(p, f, -1.2420140846e-1f);
    p = fma16(p, f, 1.4249322787e-1f);
    p = fma16(p, f, -1.6668057665e-1f);
    p = fma16(p, f, 2.0000714765e-1f);
    p = fma16(p, f, -2.4999993993e-1f);
    p = fma16(p, f, 3.3333331174e-1f);
    p = _mm512_fmadd_ps(fma16(p, f, -0.5f), z, f);
    p = _mm512_fnmadd_ps(n, all(2.12194440e-4f), p);
    const __m512 y = _mm512_fmadd_ps(n, all(0.693359375f), p);
    return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(table), 0);
}

/* By e^-|x|, which never overflows. */
VEC16 __m512 sigmoid16(__m512 x) {
    const __m512 e = exp16(_mm512_or_ps(x, all(-0.f))), s = inverse(_mm512_add_ps(all(1), e));
    return _mm512_mask_mul_ps(s, _mm512_cmp_ps_mask(x, all(0), _CMP_NGE_UQ), e, s);
}

VEC16 __m512 silu16(__m512 x) { return _mm512_mul_ps(x, sigmoid16(x)); }

/* (e^2x - 1) / (e^2x + 1), by e^2x - 1 = (e^2r - 1) 2^n + (2^n - 1) with x = n ln 2 / 2 + r, so
 * that nothing is lost near 0. The quotient e / (e + 2) is an estimate and what it leaves of e. */
VEC16 __m512 tanh16(__m512 x) {
    const __m512 t = _mm512_min_ps(all(10.f), size_of(x)), rounds = all(0x1.8p23f);
    const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(t, all(0x1.715476p+1f), rounds), rounds);
    __m512 r = _mm512_fnmadd_ps(n, all(0x1.62e400p-2f), t);
    r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-21f), r);
    __m512 p = fma16(all(0.088888560f), r, 0.26781065f);
    p = fma16(p, r, 0.66667419f);
    p = fma16(p, r, 1.3333205f);
    p = fma16(p, r, 2.f);
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, r));
    const __m512 power = _mm512_scalef_ps(all(1), n);
    const __m512 e = _mm512_fmadd_ps(p, power, _mm512_sub_ps(power, all(1)));
    const __m512 guess = _mm512_rcp14_ps(_mm512_add_ps(e, all(2))), y = _mm512_mul_ps(e, guess);
    const __m512 left = _mm512_fnmadd_ps(y, e, _mm512_fnmadd_ps(y, all(2), e));
    return with_sign_of(_mm512_fmadd_ps(left, guess, y), x);
}

/* x P(x^2) / Q(x^2); 1 where that is nearest. */
VEC16 __m512 erf16(__m512 x) {
    const __m512 at = _mm512_min_ps(all(3.9192059f), size_of(x)), s = _mm512_mul_ps(at, at);
    __m512 p = fma16(all(0x1.129d7p-19f), s, 0x1.2aacc2p-12f);
    __m512 q = fma16(all(0x1.3f2ab4p-15f), s, 0x1.311648p-10f);
    p = fma16(p, s, 0x1.ee7422p-9f);
    p = fma16(p, s, 0x1.b04828p-5f);
    p = fma16(p, s, 0x1.865416p-3f);
    p = fma16(p, s, 0x1.20dd76p+0f);
    q = fma16(q, s, 0x1.eaf56p-7f);
    q = fma16(q, s, 0x1.d3af9ep-4f);
    q = fma16(q, s, 0x1.012574p-1f);
    q = fma16(q, s, 1.f);
    const __m512 y = _mm512_mul_ps(_mm512_mul_ps(at, p), inverse(q));
    const __mmask16 end = _mm512_cmp_ps_mask(at, all(3.9192059f), _CMP_GE_OQ);
    return with_sign_of(_mm512_mask_mov_ps(_mm512_min_ps(all(1), y), end, all(1)), x);
}

VEC16 __m512 gelu16(__m512 x) {
    const __m512 half = _mm512_mul_ps(all(0.5f), x);
    return _mm512_fmadd_ps(half, erf16(_mm512_mul_ps(x, all(0x1.6a09e6p-1f))), half);
}

#endif
