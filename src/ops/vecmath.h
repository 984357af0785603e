/* Functions of one number that loops can be vectorised over.
 *
 * libmvec has vector forms of the functions of <math.h>, good to 4 units in the last place; the
 * declarations here tell the compiler of them. exp and log of floats are written out: more exact,
 * and as fast for all arguments (libmvec leaves its fast path where a result is subnormal). So is
 * erf, which is as good as libmvec's and takes half its time. Write vexp, vlog, verf and vsigmoid
 * for those; everything else by its name in <tgmath.h>. */
#ifndef CFX__VECMATH_H
#define CFX__VECMATH_H

#include <math.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(CFX_SANITIZE)
#if __GLIBC_PREREQ(2, 35)
#define VECTOR __attribute__((const, nothrow, simd("notinbranch")))
#define VECTOR1(name)                                                                              \
    extern double name(double) VECTOR;                                                             \
    extern float name##f(float) VECTOR;
#define VECTOR2(name)                                                                              \
    extern double name(double, double) VECTOR;                                                     \
    extern float name##f(float, float) VECTOR;
VECTOR1(acos) VECTOR1(acosh) VECTOR1(asin) VECTOR1(asinh) VECTOR1(atan) VECTOR1(atanh)
VECTOR1(cos) VECTOR1(cosh) VECTOR1(erf) VECTOR1(erfc) VECTOR1(exp) VECTOR1(exp2) VECTOR1(expm1)
VECTOR1(log) VECTOR1(log10) VECTOR1(log1p) VECTOR1(log2) VECTOR1(sin) VECTOR1(sinh) VECTOR1(tan)
VECTOR1(tanh) VECTOR2(atan2) VECTOR2(hypot) VECTOR2(pow)
#undef VECTOR1
#undef VECTOR2
#undef VECTOR
#endif
#endif

#include <tgmath.h>
#undef I /* complex.h's; the loops name the imaginary unit themselves */

/* CFX__SIMD for functions that compute much for each float: with AVX-512 too. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CFX_SANITIZE)
#define CFX__SIMD_WIDE                                                                             \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CFX__SIMD_WIDE
#endif

typedef union {
    float f;
    int32_t i;
    uint32_t u;
} float_bits;

/* Arguments of exp are brought between these first. They are read from memory: of bounds that it
 * knows the compiler makes cases of their own, and loops several times as long. */
extern const float cfx__vexp_least, cfx__vexp_most;

/* e^x: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial in r, and 2^n in two factors so that the
 * result may be subnormal, or as large as floats get: 2^(n + 64) and 2^-64, or 2^(n - 1) and 2. The
 * exponent of the first factor is in the lowest bits of what rounds to n. */
static inline float vexp_f32(float x) {
    x = x > cfx__vexp_most ? cfx__vexp_most : x;
    x = x < cfx__vexp_least ? cfx__vexp_least : x;
    const float rounds = x < 0 ? 0x1.8p23f + 127 + 64 : 0x1.8p23f + 127 - 1;
    const float factor = x < 0 ? 0x1p-64f : 2.f;
    const float_bits shifted = {x * 0x1.715476p+0f + rounds};
    const float n = shifted.f - rounds;
    const float r = (x - n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 0x1.a26762p-13f;
    p = p * r + 0x1.6d2e00p-10f;
    p = p * r + 0x1.110ff2p-7f;
    p = p * r + 0x1.555502p-5f;
    p = p * r + 0x1.555556p-3f;
    p = p * r + 0.5f;
    p = p * r + 1.f;
    p = p * r + 1.f;
    const float_bits scale = {.u = shifted.u << 23};
    return p * scale.f * factor;
}

/* log x: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and a polynomial in m - 1. */
static inline float vlog_f32(float x) {
    float_bits b = {x < 0x1p-126f ? x * 0x1p23f : x};
    int32_t e = (int32_t)(b.u - 0x3f3504f3u) >> 23;
    float_bits m = {.u = b.u - ((uint32_t)e << 23)};
    float n = (float)(x < 0x1p-126f ? e - 23 : e), f = m.f - 1.f, z = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    p = p * f * z;
    p = p - n * 2.12194440e-4f;
    p = p - 0.5f * z;
    float y = (f + p) + n * 0.693359375f;
    y = x == INFINITY ? x : y;
    y = x == 0.f ? -INFINITY : y;
    return x < 0.f || x != x ? NAN : y;
}

/* erf x: x P(x^2) / Q(x^2), whose coefficients are all positive, so that nothing cancels; 1 where
 * that is nearest. Sizes are compared as integers, in which there is an order of NaN too. */
static inline float verf_f32(float x) {
    const uint32_t one = 0x3f800000u, enough = 0x407ad445u; /* 3.9192059 */
    const float_bits given = {x};
    const uint32_t sign = given.u & 0x80000000u, size = given.u & 0x7fffffffu;
    const float_bits at = {.u = size < enough ? size : enough};
    const float s = at.f * at.f;
    float p = 0x1.129d7p-19f, q = 0x1.3f2ab4p-15f;
    p = p * s + 0x1.2aacc2p-12f;
    p = p * s + 0x1.ee7422p-9f;
    p = p * s + 0x1.b04828p-5f;
    p = p * s + 0x1.865416p-3f;
    p = p * s + 0x1.20dd76p+0f;
    q = q * s + 0x1.311648p-10f;
    q = q * s + 0x1.eaf56p-7f;
    q = q * s + 0x1.d3af9ep-4f;
    q = q * s + 0x1.012574p-1f;
    q = q * s + 1.f;
    const float_bits y = {at.f * p / q};
    const uint32_t most = size < enough && y.u < one ? y.u : one;
    const float_bits result = {.u = most | sign};
    return x != x ? x : result.f;
}

static inline double vexp_f64(double x) { return exp(x); }
static inline double vlog_f64(double x) { return log(x); }
static inline double verf_f64(double x) { return erf(x); }

#define vexp(x) _Generic((x), float: vexp_f32, double: vexp_f64)(x)
#define vlog(x) _Generic((x), float: vlog_f32, double: vlog_f64)(x)
#define verf(x) _Generic((x), float: verf_f32, double: verf_f64)(x)
#define vsigmoid(x) (1 / (1 + vexp(-(x))))

#endif
