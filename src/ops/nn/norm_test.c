/* Normalisations: numbers that PyTorch gave, halves, formats, kept statistics, messages. */
#include "test.h"

#include <cfx/ops.h>

#include <math.h>

static cfx_tensor *curve(double (*f)(double), int ndim, const int64_t *shape) {
    float data[512];
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)f((double)i);
    return cfx_tensor_new(CFX_F32, ndim, shape, data);
}
#define SINES(...)                                                                                 \
    curve(sin, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define COSINES(...)                                                                               \
    curve(cos, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define FLOATS(...) cfx_tensor_from_value(cfx_list(__VA_ARGS__))
#define ALL cfx_list(cfx_bool(1), cfx_bool(1), cfx_bool(1))

static void check_numbers(const cfx_tensor *t, int n, const double *want, cfx_site at) {
    for (int i = 0; i < n; i++)
        test_check_near(cfx_tensor_get(t, i), want[i], 1e-5, at, "element");
}
#define CHECK_NUMBERS(t, ...)                                                                      \
    check_numbers(t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),                      \
                  (double[]){__VA_ARGS__}, CFX_HERE)

TEST(layer_norm_there_and_back) {
    cfx_tensor *x = SINES(3, 4), *w = FLOATS(1.0, 2.0, 3.0, 4.0), *b = FLOATS(0.5, 0.0, 0.0, -0.5);
    cfx_value r = cfx_native_layer_norm(x, cfx_list(4), w, b, 1e-5);
    CHECK_NUMBERS(cfx_tensor_at(r, 0), -0.664342, 1.814309, 3.222379, -3.767756, -0.177387);
    CHECK_NUMBERS(cfx_tensor_at(r, 1), 0.472972, -0.334539, -0.035634);
    CHECK_NUMBERS(cfx_tensor_at(r, 2), 2.461756, 1.604181, 1.280481);
    CHECK_NUMBERS(cfx_layer_norm(x, cfx_list(4), w, b), -0.664342, 1.814309, 3.222379, -3.767756);
    cfx_value g = cfx_native_layer_norm_backward(COSINES(3, 4), x, cfx_list(4), cfx_tensor_at(r, 1),
                                                 cfx_tensor_at(r, 2), w, b, ALL);
    CHECK_NUMBERS(cfx_tensor_at(g, 0), 5.612087, 3.630467, -2.278796, -6.963758, -2.040391);
    CHECK_NUMBERS(cfx_tensor_at(g, 1), -0.912538, -0.316372, 0.184131, 2.002445);
    CHECK_NUMBERS(cfx_tensor_at(g, 2), 0.200856, -0.087166, -0.295048, -0.231665);
    CHECK_OK();
}

TEST(layer_norm_of_long_rows_far_from_zero) {
    /* the variance of 10000 + sin(i) must not drown in the mean's digits */
    enum { N = 10000 };
    static float data[N];
    double mean = 0, var = 0;
    for (int i = 0; i < N; i++)
        mean += (data[i] = (float)(1e4 + sin(i))) / (double)N;
    for (int i = 0; i < N; i++)
        var += (data[i] - mean) * (data[i] - mean) / N;
    cfx_tensor *x = cfx_tensor_new(CFX_F32, 2, (int64_t[]){1, N}, data);
    cfx_value r = cfx_native_layer_norm(x, cfx_list(N), CFX_NONE, CFX_NONE, 0.0);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(r, 2), 0), 1 / sqrt(var), 1e-5);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(r, 0), 7), (data[7] - mean) / sqrt(var), 2e-3);
    CHECK_OK();
}

TEST(rms_norm_equals_its_parts) {
    cfx_tensor *x = SINES(3, 4), *w = FLOATS(1.0, 2.0, 3.0, 4.0);
    cfx_tensor *y = cfx_rms_norm(x, cfx_list(4), w, 1e-6);
    for (int r = 0; r < 3; r++) {
        double s = 0;
        for (int i = 0; i < 4; i++)
            s += sin(4 * r + i) * sin(4 * r + i) / 4;
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(cfx_tensor_get(y, 4 * r + i), sin(4 * r + i) / sqrt(s + 1e-6) * (i + 1),
                       1e-5);
    }
    /* without eps a half takes its own least step */
    cfx_tensor *h = cfx_tensor_new(CFX_BF16, 1, (int64_t[]){2}, (uint16_t[]){0x3d80, 0x3d80});
    CHECK_NEAR(cfx_tensor_get(cfx_rms_norm(h, cfx_list(2)), 0),
               0.0625 / sqrt(0.0625 * 0.0625 + 0x1p-7), 4e-3);
    CHECK_OK();
}

TEST(batch_norm_trains_and_evaluates) {
    cfx_tensor *x = SINES(2, 4, 3), *w = FLOATS(1.0, 2.0, 3.0, 4.0),
               *b = FLOATS(0.5, 0.0, 0.0, -0.5);
    cfx_tensor *mean = FLOATS(0.0, 0.0, 0.0, 0.0), *var = FLOATS(1.0, 1.0, 1.0, 1.0);
    cfx_value r = cfx_native_batch_norm(x, w, b, mean, var, cfx_bool(1), 0.1, 1e-5);
    CHECK_NUMBERS(cfx_tensor_at(r, 0), -0.291682, 1.231027, 1.353764, 1.679962);
    CHECK_NUMBERS(cfx_tensor_at(r, 2), 1.809579, 1.668649, 1.568511, 1.501465);
    CHECK_NUMBERS(mean, 0.043749, -0.036227, 0.027979, -0.019172);
    CHECK_NUMBERS(var, 0.936645, 0.943096, 0.948775, 0.953228);
    cfx_value g =
        cfx_native_batch_norm_backward(COSINES(2, 4, 3), x, w, mean, var, cfx_tensor_at(r, 1),
                                       cfx_tensor_at(r, 2), cfx_bool(1), 1e-5, ALL);
    CHECK_NUMBERS(cfx_tensor_at(g, 0), 0.392293, 0.539088, -1.112798, -0.593077);
    CHECK_NUMBERS(cfx_tensor_at(g, 1), -2.131013, -1.810993, -1.421895, -0.984260);
    /* evaluation leaves the statistics alone and gives none */
    r = cfx_native_batch_norm(x, w, b, mean, var, cfx_bool(0), 0.1, 1e-5);
    CHECK_INT(cfx_tensor_numel(cfx_tensor_at(r, 1)), 0);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(r, 0), 0), (0 - 0.043749) / sqrt(0.936655) + 0.5, 1e-5);
    CHECK_NEAR(cfx_tensor_get(mean, 0), 0.043749, 1e-5);
    CHECK_OK();
}

/* In planes as side by side: sums of squares are floats in PyTorch. */
TEST(batch_norm_of_floats_whose_squares_are_none) {
    cfx_tensor *x =
        cfx_view(FLOATS(0.0, 0.0, 0.0, 1e30, 0.0, 0.0, 0.0, 1e18), cfx_list(1, 2, 2, 2));
    for (int last = 0; last < 2; last++) {
        if (last)
            x = cfx_contiguous(x, CFX_KW(memory_format, cfx_channels_last));
        cfx_value all = cfx_native_batch_norm(x, CFX_NONE, CFX_NONE, CFX_NONE, CFX_NONE,
                                              cfx_bool(1), 0.1, 1e-5);
        cfx_tensor *y = cfx_flatten(cfx_contiguous(cfx_tensor_at(all, 0)), 0, -1);
        CHECK_NEAR(cfx_tensor_get(y, 3), 0, 0);
        CHECK_NEAR(cfx_tensor_get(y, 4), -0.57735, 1e-5);
        CHECK_NEAR(cfx_tensor_get(y, 7), 1.73205, 1e-5);
    }
    CHECK_OK();
}

TEST(batch_norm_of_channels_last_equals_that_of_planes) {
    cfx_tensor *x = SINES(2, 3, 4, 5), *w = FLOATS(1.0, 2.0, 3.0);
    cfx_tensor *cl = cfx_contiguous(x, CFX_KW(memory_format, cfx_channels_last));
    cfx_value a = cfx_native_batch_norm(x, w, w, CFX_NONE, CFX_NONE, cfx_bool(1), 0.1, 1e-5);
    cfx_value b = cfx_native_batch_norm(cl, w, w, CFX_NONE, CFX_NONE, cfx_bool(1), 0.1, 1e-5);
    CHECK_INT(cfx_tensor_stride(cfx_tensor_at(b, 0))[1], 1);
    for (int i = 0; i < 120; i++)
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(a, 0), i), cfx_tensor_get(cfx_tensor_at(b, 0), i),
                   1e-5);
    /* instance_norm: each plane by its own moments */
    cfx_tensor *y = cfx_instance_norm(x, CFX_NONE, CFX_NONE, CFX_NONE, CFX_NONE, cfx_bool(1), 0.1,
                                      1e-5, cfx_bool(0));
    double sum = 0;
    for (int i = 20; i < 40; i++)
        sum += cfx_tensor_get(y, i);
    CHECK_NEAR(sum, 0, 1e-4);
    CHECK_OK();
}

TEST(group_norm_there_and_back) {
    cfx_tensor *x = SINES(2, 4, 3), *w = FLOATS(1.0, 2.0, 3.0, 4.0),
               *b = FLOATS(0.5, 0.0, 0.0, -0.5);
    cfx_value r = cfx_native_group_norm(x, w, b, 2, 4, 3, 2, 1e-5);
    CHECK_NUMBERS(cfx_tensor_at(r, 0), 0.458766, 1.640545, 1.735802, 0.313915);
    CHECK_NUMBERS(cfx_tensor_at(r, 1), 0.029360, 0.039173, 0.045865, 0.048903);
    CHECK_NUMBERS(cfx_group_norm(x, 2, w, b), 0.458766, 1.640545, 1.735802, 0.313915);
    cfx_value g = cfx_native_group_norm_backward(COSINES(2, 4, 3), x, cfx_tensor_at(r, 1),
                                                 cfx_tensor_at(r, 2), w, 2, 4, 3, 2, ALL);
    CHECK_NUMBERS(cfx_tensor_at(g, 0), 1.781865, 1.023975, -0.328333, -2.422117);
    CHECK_NUMBERS(cfx_tensor_at(g, 1), 0.027940, 0.371814, -0.079595, 0.357403);
    CHECK_NUMBERS(cfx_tensor_at(g, 2), 3.012193, -3.352485, 3.625676, -3.826299);
    CHECK_OK();
}

TEST(weight_norm_gives_length) {
    cfx_tensor *v = SINES(2, 3), *g = cfx_full(cfx_list(2, 1), 5.0);
    cfx_tensor *w = cfx_aten__weight_norm(v, g, 0);
    for (int r = 0; r < 2; r++) {
        double s = 0;
        for (int i = 0; i < 3; i++)
            s += cfx_tensor_get(w, 3 * r + i) * cfx_tensor_get(w, 3 * r + i);
        CHECK_NEAR(sqrt(s), 5, 1e-5);
    }
    cfx_tensor *cube = SINES(2, 3, 2), *len = cfx_full(cfx_list(1, 3, 1), 2.0);
    CHECK_NEAR(cfx_tensor_get(cfx_aten__weight_norm(cube, len, 1), 1),
               2 * sin(1) / sqrt(sin(1) * sin(1) + sin(6) * sin(6) + sin(7) * sin(7)), 1e-5);
    CHECK_OK();
}

TEST(norm_mistakes) {
    cfx_tensor *x = SINES(2, 6, 4, 5), *w = FLOATS(1.0, 2.0, 3.0),
               *ints = cfx_full(cfx_list(2, 6), 1);
    cfx_layer_norm(x, cfx_list(4));
    CHECK_ERROR("Given normalized_shape=[4], expected input with shape [*, 4], but got input of "
                "size[2, 6, 4, 5]");
    cfx_layer_norm(x, cfx_list(5), w);
    CHECK_ERROR(
        "Expected weight to be of same shape as normalized_shape, but got weight of shape [3] "
        "and normalized_shape = [5]");
    cfx_layer_norm(ints, cfx_list(6));
    CHECK_ERROR("\"LayerNormKernelImpl\" not implemented for 'Long'");
    cfx_batch_norm(x, w, CFX_NONE, CFX_NONE, CFX_NONE, cfx_bool(1), 0.1, 1e-5, cfx_bool(0));
    CHECK_ERROR("weight should contain 6 elements not 3");
    cfx_batch_norm(x, CFX_NONE, CFX_NONE, CFX_NONE, CFX_NONE, cfx_bool(0), 0.1, 1e-5, cfx_bool(0));
    CHECK_ERROR("running_mean must be defined in evaluation mode");
    cfx_group_norm(x, 4);
    CHECK_ERROR(
        "Expected number of channels in input to be divisible by num_groups, but got input of "
        "shape [2, 6, 4, 5] and num_groups=4");
    cfx_native_group_norm(x, CFX_NONE, CFX_NONE, 2, 6, 21, 2, 1e-5);
    CHECK_ERROR("Expected X.numel() == N * C * HxW to be true");
}
