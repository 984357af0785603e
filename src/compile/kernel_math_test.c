/* Functions of one number, against <math.h> in double precision. */
#include "kernel_test.h"

/* The largest distance from the function in units of the last place, over floats of all sizes. */
static double units(float (*ours)(float), double (*right)(double), double from, double to) {
    double most = 0;
    for (uint32_t bits = 0; bits < 0xff000000u; bits += 9973) {
        const float x = NAME_of_bits(bits);
        if (!(x >= from && x <= to))
            continue;
        const double want = right(x), unit = ldexp(1, (want ? ilogb(want) : -149) - 23);
        const double off = fabs(ours(x) - want) / fmax(unit, 0x1p-149);
        if (off > most)
            most = off;
    }
    return most;
}

static float own_exp(float x) { return NAME_exp(x); }
static float own_log(float x) { return NAME_log(x); }
static float own_tanh(float x) { return NAME_tanh(x); }
static float own_erf(float x) { return NAME_erf(x); }
static float own_sigmoid(float x) { return NAME_sigmoid(x); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

KERNEL_TEST(math) {
    CHECK(units(own_exp, exp, -103, 88.7) < 2);
    CHECK(units(own_log, log, 0, 3e38) < 2);
    CHECK(units(own_tanh, tanh, -100, 100) < 3);
    CHECK(units(own_erf, erf, -100, 100) < 3);
    CHECK(units(own_sigmoid, sigmoid, -80, 100) < 3);
    float (*const all[])(float) = {own_exp, own_log, own_tanh, own_erf, own_sigmoid};
    for (int i = 0; i < COUNT(all); i++)
        CHECK(isnan(all[i](NAN)));
    CHECK(own_exp(INFINITY) == INFINITY && own_exp(-INFINITY) == 0);
    CHECK(own_log(INFINITY) == INFINITY && own_log(0) == -INFINITY && isnan(own_log(-1)));
    CHECK(own_tanh(INFINITY) == 1 && own_tanh(-INFINITY) == -1 && signbit(own_tanh(-0.f)));
    CHECK(own_erf(INFINITY) == 1 && own_erf(-INFINITY) == -1 && signbit(own_erf(-0.f)));
}

KERNEL_TEST(half) {
    for (uint32_t i = 0; i < 0x10000; i++) {
        const uint16_t h = (uint16_t)i;
        const float f = NAME_from_f16(h), b = NAME_from_bf16(h);
        CHECK(NAME_bits_of(f) == NAME_bits_of(cfx__f16_load(h)));
        CHECK(NAME_bits_of(b) == NAME_bits_of(cfx__bf16_load(h)));
    }
    for (uint32_t bits = 0; bits < 0xfffe0000u; bits += 4099) {
        const float x = NAME_of_bits(bits);
        if (!CHECK_INT(NAME_to_f16(x), cfx__f16_store(x)) ||
            !CHECK_INT(NAME_to_bf16(x), cfx__bf16_store(x)))
            return;
    }
}

KERNEL_TEST(complex) {
    const float _Complex a = NAME_cmulf(NAME_complexf(2, -1), NAME_complexf(0.5f, 3));
    const double _Complex b = NAME_cmul(NAME_complex(2, -1), NAME_complex(0.5, 3));
    CHECK(crealf(a) == 4 && cimagf(a) == 5.5f && creal(b) == 4 && cimag(b) == 5.5);
    CHECK(isnan(crealf(NAME_cmulf(NAME_complexf(INFINITY, 0), NAME_complexf(1, 0)))) == 0);
    CHECK(isnan(cimagf(NAME_cmulf(NAME_complexf(INFINITY, 0), NAME_complexf(1, 0)))));
}
