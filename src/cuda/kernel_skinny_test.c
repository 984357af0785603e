/* Products with a few rows, of weights of all kinds, and convolutions of single channels. */
#include "kernels.h"
#include "numbers.h"
#include "player.h"

#include <cfx/ops.h>

static cfx_tensor *exact(cfx_tensor *t) { return cfx_to(t, cfx_dtype_value(CFX_F64)); }

/* What the integers of a weight stand for, [n, k]. */
static cfx_tensor *opened(cfx_tensor *w, cfx_tensor *scales, int bits, int64_t n, int64_t k,
                          int64_t group) {
    cfx_tensor *to = cfx_zeros(n, k);
    const unsigned char *from = cfx_tensor_data(w);
    for (int64_t i = 0; i < n * k; i++) {
        const int64_t row = i / k, at = i % k;
        const int whole = bits == 8 ? (signed char)from[i]
                                    : (from[row * (k / 2) + at / 2] >> 4 * (at % 2) & 15) - 8;
        ((float *)cfx_tensor_data(to))[i] =
            (float)(whole * cfx_tensor_get(scales, group ? row * (k / group) + at / group : 0));
    }
    return to;
}

static cfx_tensor *integers(cfx_dtype dtype, int64_t n, int64_t columns) {
    cfx_tensor *t = cfx_zeros(n, columns, CFX_KW(dtype, cfx_dtype_value(dtype)));
    for (int64_t i = 0; i < n * columns; i++)
        ((unsigned char *)cfx_tensor_data(t))[i] = (unsigned char)(i * 37 + i / 7);
    return t;
}

static bool multiplies_as(cfx__cuda_precision precision, cfx_dtype dtype, cfx_dtype weight,
                          int bits, int64_t group, int64_t m, int64_t n, int64_t k) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = cfx_mul(test_noise(dtype, 2, (int64_t[]){m, k}), 0.2);
        cfx_tensor *w = bits ? integers(weight, n, bits == 4 ? k / 2 : k)
                             : test_noise(weight, 2, (int64_t[]){n, k});
        cfx_tensor *scales =
            cfx_mul(test_noise(CFX_F32, 2, (int64_t[]){n, group ? k / group : 1}), 0.05);
        cfx_tensor *bias = test_noise(dtype, 1, &n);
        cfx_tensor *add = test_noise(dtype, 2, (int64_t[]){m, n}), *out = cfx_zeros_like(add);
        cfx_tensor *whole = bits ? opened(w, scales, bits, n, k, group) : w;
        cfx_value of = cfx_dtype_value(precision == CFX__CUDA_F16 ? CFX_F16 : dtype);
        cfx_tensor *want = cfx_matmul(exact(cfx_to(x, of)),
                                      cfx_transpose(exact(bits ? whole : cfx_to(whole, of)), 0, 1));
        want = cfx_tanh(cfx_add(cfx_add(want, exact(bias)), exact(add)));
        const cfx__cuda_array ax = player_array(0, x), ao = player_array(5, out);
        const cfx__cuda_skinny_part part = {
            .w = {player_array(1, w), player_array(2, scales), bits, group},
            .after = {player_array(3, bias), player_array(4, add), "v = tanhf(v);"},
            .out = ao, .constant = n % 2 != 0};
        cfx__cuda_work work = {0};
        void *to = player_copy(out);
        held = CHECK_OK() && CHECK(cfx__cuda_skinny(&ax, NULL, 1, &part, precision, &work)) &&
               PLAY(&work, player_copy(x), player_copy(w), player_copy(scales), player_copy(bias),
                    player_copy(add), to) &&
               PLAYED(to, out, want, dtype == CFX_F32 ? 5e-6 : 1e-2);
    }
    return held;
}

static bool multiplies(cfx_dtype dtype, cfx_dtype weight, int bits, int64_t group, int64_t m,
                       int64_t n, int64_t k) {
    return multiplies_as(CFX__CUDA_EXACT, dtype, weight, bits, group, m, n, k);
}

TEST(cuda_skinny) {
    if (!player_runs())
        return;
    CHECK(multiplies_as(CFX__CUDA_F16, CFX_F32, CFX_F32, 0, 0, 2, 9, 64) &&
          multiplies_as(CFX__CUDA_F16, CFX_F32, CFX_F32, 0, 0, 1, 5, 67));
    CHECK(multiplies(CFX_F32, CFX_F32, 0, 0, 1, 5, 64) &&
          multiplies(CFX_F32, CFX_F32, 0, 0, 3, 9, 513) && /* rows that are not whole 16 bytes */
          multiplies(CFX_BF16, CFX_BF16, 0, 0, 1, 2200, 136) &&
          multiplies(CFX_F16, CFX_F16, 0, 0, 11, 7, 2048) &&
          multiplies(CFX_F32, CFX_BF16, 0, 0, 2, 33, 72) &&
          multiplies(CFX_F32, CFX_F16, 0, 0, 1, 3, 9) &&
          multiplies(CFX_F32, CFX_I8, 8, 32, 1, 40, 1088) &&
          multiplies(CFX_F32, CFX_I8, 8, 0, 2, 6, 96) &&
          multiplies(CFX_BF16, CFX_I8, 8, 5, 1, 6, 25) && /* groups that cut a piece */
          multiplies(CFX_F32, CFX_U8, 4, 32, 1, 50, 256) &&
          multiplies(CFX_F32, CFX_U8, 4, 0, 2, 17, 1000) && /* the last piece is not all lanes' */
          multiplies(CFX_F32, CFX_I8, 8, 8, 1, 850, 584) &&
          multiplies(CFX_F32, CFX_F32, 0, 0, 1, 850, 576) && /* a row is all asked for at once */
          multiplies(CFX_BF16, CFX_U8, 4, 64, 9, 6, 128) &&
          multiplies(CFX_F32, CFX_U8, 4, 6, 1, 5, 12));
}

/* Three products of the same x at once, of different sizes, with different things behind them. */
static bool multiplies_together(cfx_dtype dtype, int64_t m, int64_t k) {
    static const int64_t rows[] = {37, 8, 90};
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = cfx_mul(test_noise(dtype, 2, (int64_t[]){m, k}), 0.2);
        cfx_tensor *w[3], *out[3], *add = test_noise(dtype, 2, (int64_t[]){m, rows[1]});
        cfx__cuda_skinny_part parts[3];
        void *to[3];
        for (int i = 0; i < 3; i++) {
            w[i] = test_noise(dtype, 2, (int64_t[]){rows[i], k});
            out[i] = cfx_to(cfx_zeros(m, rows[i]), cfx_dtype_value(dtype));
            to[i] = player_copy(out[i]);
            parts[i] = (cfx__cuda_skinny_part){
                .w = {player_array(1 + i, w[i]), PLAYER_NONE, 0, 0},
                .after = {PLAYER_NONE, PLAYER_NONE, i == 2 ? "v = tanhf(v);" : NULL},
                .out = player_array(4 + i, out[i]), .constant = true};
        }
        parts[1].after.add = player_array(7, add);
        const cfx__cuda_array ax = player_array(0, x);
        cfx__cuda_work work = {0};
        held = CHECK(cfx__cuda_skinny(&ax, NULL, 3, parts, CFX__CUDA_EXACT, &work)) &&
               PLAY(&work, player_copy(x), player_copy(w[0]), player_copy(w[1]),
                    player_copy(w[2]), to[0], to[1], to[2], player_copy(add));
        for (int i = 0; i < 3 && held; i++) {
            cfx_tensor *want = cfx_matmul(exact(x), cfx_transpose(exact(w[i]), 0, 1));
            want = i == 1 ? cfx_add(want, exact(add)) : i == 2 ? cfx_tanh(want) : want;
            held = PLAYED(to[i], out[i], want, dtype == CFX_F32 ? 5e-6 : 1e-2);
        }
    }
    return held;
}

TEST(cuda_skinny_together) {
    if (player_runs())
        CHECK(multiplies_together(CFX_F32, 1, 64) && multiplies_together(CFX_BF16, 2, 72) &&
              multiplies_together(CFX_F32, 9, 35));
}

static bool convolves(cfx_dtype dtype, int64_t channels, int64_t each, int64_t high, int64_t wide,
                      int64_t kernel, int64_t stride, bool last) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = test_noise(dtype, 4, (int64_t[]){2, channels, high, wide});
        cfx_tensor *w = test_noise(dtype, 4, (int64_t[]){channels * each, 1, kernel, kernel});
        cfx_tensor *bias = test_noise(dtype, 1, (int64_t[]){channels * each});
        if (last)
            x = cfx_contiguous(x, CFX_KW(memory_format, cfx_channels_last));
        cfx_tensor *want = cfx_relu(cfx_conv2d(exact(x), exact(w), exact(bias), stride, kernel / 2,
                                               1, channels));
        cfx_tensor *out = cfx_to(cfx_zeros_like(want), cfx_dtype_value(dtype));
        if (last)
            out = cfx_contiguous(out, CFX_KW(memory_format, cfx_channels_last));
        const cfx__cuda_array ax = player_array(0, x), aw = player_array(1, w);
        const cfx__cuda_array ao = player_array(3, out);
        const cfx__cuda_after after = {player_array(2, bias), PLAYER_NONE, "v = v > 0 ? v : 0;"};
        const cfx__cuda_window window = {{stride, stride}, {kernel / 2, kernel / 2}, {1, 1},
                                         channels};
        cfx__cuda_work work = {0};
        void *to = player_copy(out);
        held = CHECK_OK() && CHECK(cfx__cuda_depthwise(&ax, &aw, &window, &after, &ao, &work)) &&
               PLAY(&work, player_copy(x), player_copy(w), player_copy(bias), to) &&
               PLAYED(to, out, want, dtype == CFX_F32 ? 3e-6 : 2e-2);
    }
    return held;
}

TEST(cuda_depthwise) {
    if (!player_runs())
        return;
    CHECK(convolves(CFX_F32, 40, 1, 9, 7, 3, 1, true) &&
          convolves(CFX_BF16, 16, 1, 8, 8, 5, 2, true) &&
          convolves(CFX_F32, 3, 2, 6, 9, 3, 2, false) &&
          convolves(CFX_F16, 5, 1, 4, 4, 3, 1, true));
}
