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
        const cfx__cuda_weight aw = {player_array(1, w), player_array(2, scales), bits, group};
        const cfx__cuda_after after = {player_array(3, bias), player_array(4, add),
                                       "v = tanhf(v);"};
        cfx__cuda_work work = {0};
        void *to = player_copy(out);
        held = CHECK_OK() && CHECK(cfx__cuda_skinny(&ax, &aw, &after, &ao, precision, &work)) &&
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
          multiplies(CFX_BF16, CFX_I8, 8, 5, 1, 6, 25) && /* groups that cut the 16 bytes */
          multiplies(CFX_F32, CFX_U8, 4, 32, 1, 50, 256) &&
          multiplies(CFX_BF16, CFX_U8, 4, 64, 9, 6, 128) &&
          multiplies(CFX_F32, CFX_U8, 4, 6, 1, 5, 12));
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
