/* Products and convolutions on the tensor cores, against cfx's own operators. */
#include "kernels.h"
#include "numbers.h"
#include "player.h"

#include <cfx/ops.h>

#include <math.h>
#include <string.h>

static double tolerance(cfx_dtype dtype, cfx__cuda_precision precision) {
    return dtype == CFX_BF16                                      ? 1e-2
           : dtype == CFX_F16                                     ? 2e-3
           : precision == CFX__CUDA_TF32 ? 4e-3
                                                                  : 3e-6;
}

/* As `dtype`, from float64. */
static cfx_tensor *narrowed(cfx_tensor *t, cfx_dtype dtype) {
    return cfx_to(t, cfx_dtype_value(dtype));
}
static cfx_tensor *exact(cfx_tensor *t) { return cfx_to(t, cfx_dtype_value(CFX_F64)); }
/* What is multiplied of float32, as float64: numbers of 16 bits, which are then exact. */
static cfx_tensor *rounded(cfx_tensor *t, cfx__cuda_precision precision) {
    return exact(precision == CFX__CUDA_F16 ? narrowed(t, CFX_F16) : t);
}

static bool multiplies(cfx_dtype dtype, cfx__cuda_precision precision, int64_t z, int64_t m,
                       int64_t n, int64_t k, bool after) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = cfx_mul(test_noise(dtype, 3, (int64_t[]){z, m, k}), 0.3);
        cfx_tensor *w = cfx_mul(test_noise(dtype, 3, (int64_t[]){z, n, k}), 0.3);
        cfx_tensor *bias = test_noise(dtype, 1, (int64_t[]){n});
        cfx_tensor *add = test_noise(dtype, 3, (int64_t[]){z, m, n});
        cfx_tensor *out = cfx_zeros_like(add);
        cfx_tensor *want =
            cfx_matmul(rounded(x, precision), cfx_transpose(rounded(w, precision), 1, 2));
        if (after)
            want = cfx_relu(cfx_add(cfx_add(want, exact(bias)), exact(add)));
        const cfx__cuda_array ax = player_array(0, x), aw = player_array(1, w);
        const cfx__cuda_array ao = player_array(4, out);
        const cfx__cuda_after then = {player_array(2, bias), player_array(3, add),
                                      "v = v > 0 ? v : 0;"};
        cfx__cuda_work work = {0};
        void *to = player_copy(out);
        held = CHECK(cfx__cuda_product(&ax, &aw, after ? &then : NULL, &ao, precision, &work)) &&
               PLAY(&work, player_copy(x), player_copy(w), player_copy(bias), player_copy(add),
                    to) &&
               PLAYED(to, out, narrowed(want, dtype), tolerance(dtype, precision));
    }
    return held;
}

static void multiplies_all(cfx_dtype dtype) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1},      {1, 5, 7, 3},     {1, 16, 64, 64},
                                       {1, 17, 33, 40},   {2, 40, 70, 129}, {1, 130, 65, 264},
                                       {1, 32, 10, 1024}, {1, 9, 24, 6000}};
    if (!player_runs())
        return;
    for (int i = 0; i < COUNT(sizes); i++)
        if (!multiplies(dtype, CFX__CUDA_EXACT, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                        i % 2))
            return;
}

TEST(cuda_product_f32) { multiplies_all(CFX_F32); }
TEST(cuda_product_bf16) { multiplies_all(CFX_BF16); }
TEST(cuda_product_f16) { multiplies_all(CFX_F16); }
/* Float32 that is rounded before it is multiplied: the sums are those of the rounded numbers. */
TEST(cuda_product_of_rounded_f32) {
    if (!player_runs())
        return;
    multiplies(CFX_F32, CFX__CUDA_TF32, 1, 33, 40, 200, true);
    multiplies(CFX_F32, CFX__CUDA_F16, 1, 33, 40, 200, true);
    multiplies(CFX_F32, CFX__CUDA_F16, 2, 9, 10, 67, false);
}

/* What is not finite comes out as plain arithmetic has it. */
TEST(cuda_product_infinite) {
    if (!player_runs())
        return;
    cfx_tensor *x = test_noise(CFX_F32, 2, (int64_t[]){20, 96});
    cfx_tensor *w = test_numbers(CFX_F32, 2, (int64_t[]){24, 96});
    float *a = cfx_tensor_data(x), *b = cfx_tensor_data(w);
    a[3 * 96 + 5] = INFINITY, a[7 * 96 + 1] = -INFINITY, a[9 * 96] = NAN;
    a[11 * 96 + 2] = 3.4e38f, b[2 * 96 + 2] = 1, b[3 * 96 + 2] = 2;
    b[4 * 96 + 5] = 0; /* infinity times nothing is not a number */
    cfx_tensor *out = cfx_zeros(20, 24);
    const cfx__cuda_array ax = player_array(0, x), aw = player_array(1, w);
    const cfx__cuda_array ao = player_array(2, out);
    cfx__cuda_work work = {0};
    void *to = player_copy(out);
    CHECK(cfx__cuda_product(&ax, &aw, NULL, &ao, CFX__CUDA_EXACT, &work));
    if (PLAY(&work, player_copy(x), player_copy(w), to))
        PLAYED(to, out, cfx_matmul(x, cfx_transpose(w, 0, 1)), 1e-5);
}

static cfx_tensor *last(cfx_tensor *t) {
    return cfx_contiguous(t, CFX_KW(memory_format, cfx_channels_last));
}

typedef struct shape {
    int64_t batch, c, o, high, wide, kernel[2], stride, padding, dilation, groups;
} shape;

static bool convolves(const shape *s, cfx_dtype dtype, bool after) {
    bool held;
    CFX_SCOPE {
        cfx_tensor *x = last(test_noise(dtype, 4, (int64_t[]){s->batch, s->c, s->high, s->wide}));
        cfx_tensor *w = last(cfx_mul(test_noise(dtype, 4, (int64_t[]){s->o, s->c / s->groups,
                                                                      s->kernel[0], s->kernel[1]}),
                                     0.3));
        cfx_tensor *bias = test_noise(dtype, 1, (int64_t[]){s->o});
        cfx_tensor *want = cfx_conv2d(exact(x), exact(w), after ? exact(bias) : NULL, s->stride,
                                      s->padding, s->dilation, s->groups);
        cfx_tensor *add = last(test_noise(dtype, 4, cfx_tensor_shape(want)));
        if (after)
            want = cfx_clamp(cfx_add(want, exact(add)), 0, 6);
        cfx_tensor *out = cfx_zeros_like(add);
        const cfx__cuda_array ax = player_array(0, x), aw = player_array(1, w);
        const cfx__cuda_array ao = player_array(4, out);
        const cfx__cuda_after then = {player_array(2, bias), player_array(3, add),
                                      "v = v > 6 ? 6 : v < 0 ? 0 : v;"};
        const cfx__cuda_window window = {{s->stride, s->stride}, {s->padding, s->padding},
                                         {s->dilation, s->dilation}, s->groups};
        cfx__cuda_work work = {0};
        void *to = player_copy(out);
        held = CHECK(CHECK_OK() && cfx__cuda_conv(&ax, &aw, &window, after ? &then : NULL, &ao,
                                                  CFX__CUDA_EXACT, &work)) &&
               PLAY(&work, player_copy(x), player_copy(w), player_copy(bias), player_copy(add),
                    to) &&
               PLAYED(to, out, narrowed(want, dtype), 2 * tolerance(dtype, CFX__CUDA_EXACT));
    }
    return held;
}

static void convolves_all(cfx_dtype dtype) {
    static const shape shapes[] = {
        {1, 8, 16, 7, 9, {3, 3}, 1, 1, 1, 1},   {2, 3, 5, 8, 6, {3, 2}, 2, 1, 1, 1},
        {1, 16, 40, 6, 6, {1, 1}, 1, 0, 1, 1},  {1, 32, 24, 9, 5, {3, 3}, 2, 2, 2, 2},
        {1, 64, 32, 4, 4, {3, 3}, 1, 1, 1, 1},  {1, 6, 9, 5, 5, {5, 5}, 1, 2, 1, 3},
        {3, 4, 70, 10, 10, {7, 7}, 2, 3, 1, 1}, {2, 3, 20, 18, 16, {8, 8}, 8, 0, 1, 1},
        {2, 3, 20, 9, 19, {3, 4}, 4, 0, 1, 1},  {1, 2, 9, 11, 8, {4, 4}, 4, 0, 2, 1},
    };
    if (!player_runs())
        return;
    for (int i = 0; i < COUNT(shapes); i++)
        if (!convolves(&shapes[i], dtype, i % 2 == 0))
            return;
}

/* Patches of pixels of few channels are read 16 bytes at a time, as rows of channels. */
TEST(cuda_conv_of_patches) {
    CFX_SCOPE {
        cfx_tensor *x = last(cfx_zeros(1, 3, 32, 32)), *out = last(cfx_zeros(1, 8, 2, 2));
        cfx_tensor *w = last(cfx_zeros(8, 3, 16, 16));
        const cfx__cuda_array ax = player_array(0, x), aw = player_array(1, w);
        const cfx__cuda_array ao = player_array(4, out);
        for (int64_t apart = 15; apart <= 16; apart++) {
            const cfx__cuda_window window = {{16, apart}, {0, 0}, {1, 1}, 1};
            cfx__cuda_work work = {0};
            CHECK(cfx__cuda_conv(&ax, &aw, &window, NULL, &ao, CFX__CUDA_EXACT, &work));
            CHECK(strstr(work.launch[0].defines,
                         apart == 16 ? "#define VECTOR 1" : "#define VECTOR 0"));
        }
    }
}

TEST(cuda_conv_f32) { convolves_all(CFX_F32); }
TEST(cuda_conv_bf16) { convolves_all(CFX_BF16); }
TEST(cuda_conv_f16) { convolves_all(CFX_F16); }
