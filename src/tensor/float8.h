/* The five 8-bit floats of PyTorch, to and from float32: bits alone, so that loops over them are
 * vectorised. Rounding is to nearest, ties to even; what is too large becomes infinity where there
 * is one, NaN where not. */
#ifndef CFX__FLOAT8_H
#define CFX__FLOAT8_H

#include <math.h>
#include <stdint.h>

static inline float float8_float(uint32_t bits) {
    union { uint32_t u; float f; } x = {bits};
    return x.f;
}

static inline uint32_t float8_bits(float f) {
    union { float f; uint32_t u; } x = {f};
    return x.u;
}

/* A number of `mantissa` bits behind an exponent of bias `bias`: as a float whose exponent is too
 * small by the difference of the biases, which a product mends, subnormal numbers too. */
static inline float float8_load(uint8_t x, int mantissa, float scale) {
    float size = float8_float((uint32_t)(x & 0x7f) << (23 - mantissa)) * scale;
    return x & 0x80 ? -size : size;
}

/* The bits of |f|, which is below the largest, without its sign. A sum with 2^(23 - mantissa) times
 * the smallest normal number rounds subnormal ones. */
static inline uint32_t float8_round(float f, int mantissa, int bias) {
    uint32_t bits = float8_bits(f) & 0x7fffffffu, least = (uint32_t)(128 - bias) << 23;
    uint32_t whole = least + ((uint32_t)(23 - mantissa) << 23);
    uint32_t small = float8_bits(float8_float(bits) + float8_float(whole)) - whole;
    int shift = 23 - mantissa;
    uint32_t odd = bits >> shift & 1, half = (1u << (shift - 1)) - 1;
    uint32_t large = (bits - ((uint32_t)(127 - bias) << 23) + half + odd) >> shift;
    return bits < least ? small : large;
}

static inline uint8_t float8_sign(float f) { return float8_bits(f) >> 24 & 0x80; }

static inline float e4m3fn_load(uint8_t x) {
    return (x & 0x7f) == 0x7f ? NAN : float8_load(x, 3, 0x1p120f);
}

static inline uint8_t e4m3fn_store(float f) {
    uint8_t size = fabsf(f) < 480 ? (uint8_t)float8_round(f, 3, 7) : 0x7f;
    return size | float8_sign(f);
}

static inline float e5m2_load(uint8_t x) { return cfx__f16_load((uint16_t)(x << 8)); }

static inline uint8_t e5m2_store(float f) {
    uint8_t size = f != f ? 0x7f : fabsf(f) < 65536 ? (uint8_t)float8_round(f, 2, 15) : 0x7c;
    return size | float8_sign(f);
}

/* These two have no negative zero: its bits are NaN. */
static inline float e4m3fnuz_load(uint8_t x) {
    return x == 0x80 ? NAN : float8_load(x, 3, 0x1p119f);
}

static inline uint8_t e4m3fnuz_store(float f) {
    uint8_t size = fabsf(f) < 256 ? (uint8_t)float8_round(f, 3, 8) : 0x80;
    return size ? size | float8_sign(f) : 0;
}

static inline float e5m2fnuz_load(uint8_t x) {
    return x == 0x80 ? NAN : float8_load(x, 2, 0x1p111f);
}

static inline uint8_t e5m2fnuz_store(float f) {
    uint8_t size = fabsf(f) < 65536 ? (uint8_t)float8_round(f, 2, 16) : 0x80;
    return size ? size | float8_sign(f) : 0;
}

/* A power of two: the exponent alone, no sign, no zero. */
static inline float e8m0fnu_load(uint8_t x) {
    return x == 0xff ? NAN : float8_float(x ? (uint32_t)x << 23 : 0x00400000u);
}

static inline uint8_t e8m0fnu_store(float f) {
    uint32_t bits = float8_bits(f), exponent = bits >> 23 & 0xff, rest = bits & 0x7fffff;
    bool up = rest > 0x400000 || (rest == 0x400000 && exponent > 0);
    return (uint8_t)(exponent == 0xff ? exponent : exponent + up);
}

#endif
