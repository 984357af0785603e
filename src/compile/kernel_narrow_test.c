/* Weights of fewer bits, order, and Fourier transforms. */
#include "kernel_test.h"
#include "numbers.h"

/* Products by weights of so many bits, against the same in doubles. */
static bool multiplies(int bits, int64_t m, int64_t n, int64_t k, int64_t group, bool single) {
    bool same = true;
    CFX_SCOPE {
        cfx_tensor *x = test_numbers(CFX_F32, 2, (int64_t[]){m, k});
        cfx_tensor *scale = cfx_add(
            test_numbers(CFX_F32, 2, (int64_t[]){single ? 1 : n, single ? 1 : k / group}), 9);
        cfx_tensor *whole = cfx_remainder(test_numbers(CFX_F32, 2, (int64_t[]){n, k}), 16);
        whole = cfx_sub(whole, 8);
        const float *a = cfx_tensor_data(x), *s = cfx_tensor_data(scale);
        const float *w = cfx_tensor_data(whole);
        const int64_t row[] = {n, bits == 4 ? k / 2 : k};
        cfx_tensor *stored = cfx_tensor_new(bits == 4 ? CFX_U8 : CFX_I8, 2, row, NULL);
        for (int64_t i = 0; i < n * k; i++) {
            uint8_t *at = (uint8_t *)cfx_tensor_data(stored) + (bits == 4 ? i / 2 : i);
            if (bits == 4)
                *at = (uint8_t)((i % 2 ? *at : 0) | ((int)w[i] + 8) << i % 2 * 4);
            else
                *at = (uint8_t)(int8_t)w[i];
        }
        const cfx__narrow from = {bits, n, k, group, stored, scale, 0};
        void *numbers = cfx__alloc((size_t)cfx__pack_panels_floats(k, n) * 2 + 1);
        float *scales = cfx__alloc((size_t)cfx__pack_panels_floats(k, n) * 4 + 1);
        float *c = cfx__alloc((size_t)(m * n) * sizeof *c), *column = cfx__alloc((size_t)k * 4);
        if (bits == 16)
            cfx__pack_bf16(w, 1, k, k, n, numbers);
        else
            cfx__pack_narrow(&from, numbers, scales);
        const NAME_narrow by = {bits, k, group, numbers, scales};
        for (int64_t i = 0; i < m * n; i++)
            c[i] = 5;
        NAME_narrow_product(m, n, a, k, &by, c, n,
                            &(NAME_epilogue){.add = c, .add_row = n, .low = -1e6f, .high = 1e6f});
        for (int64_t i = 0; i < m * n && same; i++) {
            double sum = 5;
            const int64_t j = i % n;
            NAME_narrow_row(&by, j, column);
            for (int64_t p = 0; p < k; p++) {
                const double by_scale = bits == 16 ? 1
                                        : single   ? s[0]
                                                   : s[j * (k / group) + p / group];
                sum += a[i / n * k + p] * w[j * k + p] * by_scale;
                same = same && CHECK(column[p] == w[j * k + p] * by_scale);
            }
            same = same && CHECK_NEAR(c[i], sum, 0);
        }
        cfx__free(numbers), cfx__free(scales), cfx__free(c), cfx__free(column);
    }
    return same && CHECK_OK();
}

KERNEL_TEST(narrow) {
    const int bits[] = {16, 8, 4};
    for (int i = 0; i < COUNT(bits); i++)
        for (int64_t m = 1; m <= 40; m = 3 * m + 2)
            for (int64_t n = 1; n <= 70; n = 2 * n + 5)
                if (!CHECK(multiplies(bits[i], m, n, 32, 8, n % 2)) ||
                    !CHECK(multiplies(bits[i], m, n, 300, n % 3 ? 300 : 20, false)))
                    return;
}

KERNEL_TEST(order) {
    uint64_t key[200];
    int64_t index[200], scratch[200];
    for (int64_t n = 0; n < 200; n += n < 20 ? 1 : 37)
        for (int down = 0; down < 2; down++)
            CFX_SCOPE
    {
        cfx_tensor *x = test_numbers(CFX_F32, 1, &n); /* many are alike */
        float *from = cfx_tensor_data(x);
        if (n > 5)
            from[1] = NAN, from[3] = INFINITY, from[4] = -INFINITY, from[5] = -0.f, from[0] = NAN;
        for (int64_t i = 0; i < n; i++)
            key[i] = NAME_key_f32(from[i]);
        NAME_order(key, n, down, index, scratch);
        cfx_value want = cfx_sort(x, CFX_KW(stable, cfx_bool(true)), CFX_KW(dim, 0),
                                  CFX_KW(descending, cfx_bool(down)));
        for (int64_t i = 0; i < n; i++)
            CHECK_INT(index[i], cfx_tensor_get(cfx_tensor_at(want, 1), i));
    }
    CHECK(NAME_key_f64(-1) < NAME_key_f64(-0.) && NAME_key_f64(-0.) == NAME_key_f64(0) &&
          NAME_key_f64(1e300) < NAME_key_f64(INFINITY) &&
          NAME_key_f64(INFINITY) < NAME_key_f64(NAN) && NAME_key_f64(NAN) == NAME_key_f64(-NAN));
    CHECK(NAME_key_i64(INT64_MIN) < NAME_key_i64(-1) && NAME_key_i64(-1) < NAME_key_i64(0));
    CHECK_OK();
}

KERNEL_TEST(fft) {
    double x[2 * 100], y[2 * 100];
    for (int64_t n = 1; n <= 100; n += n < 20 ? 1 : 16) {
        double *scratch = cfx__alloc((size_t)cfx__pack_fft_scratch(n));
        for (int64_t i = 0; i < 2 * n; i++)
            x[i] = y[i] = (double)(i * 7 % 13) - 6;
        NAME_fft(y, n, -1, scratch);
        for (int64_t k = 0; k < n; k++) {
            double re = 0, im = 0;
            for (int64_t i = 0; i < n; i++) {
                const double angle = -6.283185307179586 * (double)(i * k % n) / (double)n;
                re += x[2 * i] * cos(angle) - x[2 * i + 1] * sin(angle);
                im += x[2 * i] * sin(angle) + x[2 * i + 1] * cos(angle);
            }
            CHECK_NEAR(y[2 * k], re, 1e-10);
            CHECK_NEAR(y[2 * k + 1], im, 1e-10);
        }
        NAME_fft(y, n, 1, scratch);
        for (int64_t i = 0; i < 2 * n; i++)
            CHECK_NEAR(y[i] / (double)n, x[i], 1e-12);
        cfx__free(scratch);
    }
}
