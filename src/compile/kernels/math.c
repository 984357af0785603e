/* math: functions of one float without branches, which compilers make vectors of. Good to about two
 * units in the last place; NaN stays NaN, and infinities give what <math.h> gives. */

NAME_INLINE uint32_t NAME_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

NAME_INLINE float NAME_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial in r, and 2^n in two factors so that the
 * result may be subnormal. */
NAME_INLINE float NAME_exp(float x) {
    const float magic = 0x1.8p23f, high = x > 89.f ? 89.f : x, at = high < -104.5f ? -104.5f : high;
    const float shifted = at * 0x1.715476p+0f + magic, n = shifted - magic;
    const float r = (at - n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 0x1.a26762p-13f;
    p = p * r + 0x1.6d2e00p-10f;
    p = p * r + 0x1.110ff2p-7f;
    p = p * r + 0x1.555502p-5f;
    p = p * r + 0x1.555556p-3f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    const int32_t k = (int32_t)(NAME_bits_of(shifted) - 0x4b400000u), half = k >> 1;
    const float a = NAME_of_bits((uint32_t)(half + 127) << 23);
    const float b = NAME_of_bits((uint32_t)(k - half + 127) << 23);
    return (p + 1.f) * a * b;
}

/* log x: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and a polynomial in m - 1. */
NAME_INLINE float NAME_log(float x) {
    const uint32_t given = NAME_bits_of(x), small = given < 0x00800000u; /* subnormal */
    const uint32_t bits = NAME_bits_of(x * (1.f + (float)(int32_t)small * 8388607.f));
    const int32_t e = (int32_t)(bits - 0x3f3504f3u) >> 23, less = (int32_t)small * 23;
    const float f = NAME_of_bits(bits - ((uint32_t)e << 23)) - 1.f, z = f * f;
    const float n = (float)(e - less);
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
    const float y = (f + p) + n * 0.693359375f;
    /* What is no positive number is told by its bits. */
    const uint32_t zero = (given << 1) == 0 ? 0xff800000u : 0x7fc00000u;
    const uint32_t other = given == 0x7f800000u ? given : zero;
    return NAME_of_bits(given - 1u < 0x7f7fffffu ? NAME_bits_of(y) : other);
}

NAME_INLINE float NAME_sigmoid(float x) {
    return 1.f / (1.f + NAME_exp(-x));
}

/* Near 0 a polynomial; else 1 - 2 / (e^2x + 1). */
NAME_INLINE float NAME_tanh(float x) {
    const float t = NAME_of_bits(NAME_bits_of(x) & 0x7fffffffu), s = x * x;
    float p = -0.006045165097f;
    p = p * s + 0.02096132911f;
    p = p * s - 0.05384326318f;
    p = p * s + 0.1333271885f;
    p = p * s - 0.3333332843f;
    const float near = t + t * s * p, far = 1.f - 2.f / (NAME_exp(2.f * t) + 1.f);
    const float size = t < 0.625f ? near : far;
    return NAME_of_bits(NAME_bits_of(size) | (NAME_bits_of(x) & 0x80000000u));
}

/* Near 0 a polynomial; else 1 - e^-p of another. A quotient of polynomials would be faster, and
 * good to five units with fused multiply-adds and to six without; this is good to two on both. */
NAME_INLINE float NAME_erf(float x) {
    const float t = NAME_of_bits(NAME_bits_of(x) & 0x7fffffffu), s = x * x;
    const float most = t > 4.f ? 4.f : t;
    float p = 7.84301924e-5f, q = -1.639938016e-6f;
    p = p * s - 0.0008007761015f;
    p = p * s + 0.005188148924f;
    p = p * s - 0.02685377022f;
    p = p * s + 0.1128358542f;
    p = p * s - 0.3761262596f;
    p = p * s + 1.128379166f;
    q = q * most + 4.611291391e-5f;
    q = q * most - 0.0005972644331f;
    q = q * most + 0.004761717236f;
    q = q * most - 0.02642704377f;
    q = q * most + 0.1100901975f;
    q = q * most + 0.6318156996f;
    q = q * most + 1.130239201f;
    q = q * most - 0.0003214710264f;
    const float far = 1.f - NAME_exp(-q);
    const float with = NAME_of_bits(NAME_bits_of(far) | (NAME_bits_of(x) & 0x80000000u));
    return t < 1.f ? x * p : with;
}
