/* Pooling: numbers that PyTorch gave, formats, lines and planes, messages. */
#include "numbers.h"

#include <cfx/ops.h>

#include <math.h>

TEST(max_pool_values_and_places) {
    cfx_tensor *x = WAVES(1, 2, 4, 4);
    cfx_value r = cfx_max_pool2d_with_indices(x, cfx_list(3, 3), cfx_list(2, 2), cfx_list(1, 1));
    CHECK_NUMBERS(cfx_tensor_at(r, 0), 0.841471, 0.909297, 0.989358, 0.990607, 0.912945);
    CHECK_NUMBERS(cfx_tensor_at(r, 1), 1, 2, 8, 14, 4, 5, 4, 11);
    /* without places: the same values */
    cfx_tensor *y = cfx_max_pool2d(x, 3, 2, 1);
    CHECK_NUMBERS(y, 0.841471, 0.909297, 0.989358, 0.990607, 0.912945);
    /* places lead back */
    cfx_tensor *up = cfx_max_unpool2d(cfx_tensor_at(r, 0), cfx_tensor_at(r, 1), cfx_list(4, 4));
    CHECK_NEAR(cfx_tensor_get(up, 14), 0.990607, 1e-6);
    CHECK_NEAR(cfx_tensor_get(up, 0), 0, 0);
    cfx_tensor *g = cfx_max_pool2d_with_indices_backward(
        cfx_tensor_at(r, 0), x, cfx_list(3, 3), cfx_list(2, 2), cfx_list(1, 1), cfx_list(1, 1),
        cfx_bool(0), cfx_tensor_at(r, 1));
    CHECK_NEAR(cfx_tensor_get(g, 20), 2 * 0.912945, 2e-6); /* two windows took it */
    CHECK_OK();
}

TEST(max_pool_keeps_nan_and_infinity) {
    float v[4] = {-INFINITY, -INFINITY, NAN, 1};
    cfx_tensor *x = cfx_tensor_new(CFX_F32, 3, (int64_t[]){1, 1, 4}, v);
    cfx_value r = cfx_max_pool1d_with_indices(x, 2);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(r, 0), 0), -INFINITY, 0);
    CHECK_INT(cfx_tensor_get(cfx_tensor_at(r, 1), 0), 0);
    CHECK(isnan(cfx_tensor_get(cfx_tensor_at(r, 0), 1)));
    CHECK_OK();
}

TEST(avg_pool_counts) {
    cfx_tensor *x = WAVES(1, 2, 4, 4);
    cfx_value three = cfx_list(3, 3), two = cfx_list(2, 2), one = cfx_list(1, 1);
    CHECK_NUMBERS(cfx_avg_pool2d(x, three, two, one, cfx_bool(1), cfx_bool(0)), -0.218564, 0.218423,
                  0.399053, -0.071776, 0.038646, 0.102428, -0.058203, 0.687021, 0.650288);
    CHECK_NUMBERS(cfx_avg_pool2d(x, three, two, one, cfx_bool(1), cfx_bool(1), 5), -0.174851,
                  0.262107, 0.159621, -0.086131);
    /* a line is a plane of height one */
    cfx_tensor *line = WAVES(2, 8);
    CHECK_NUMBERS(cfx_avg_pool1d(line, 2), (sin(0) + sin(1)) / 2, (sin(2) + sin(3)) / 2);
    /* going back spreads what going forth gathered: gradients sum to the sum of the results' */
    cfx_tensor *g = cfx_avg_pool2d_backward(WAVES(1, 2, 2, 2), x, two, two, cfx_list(0, 0),
                                            cfx_bool(0), cfx_bool(1), CFX_NONE);
    CHECK_NUMBERS(g, 0, 0, sin(1) / 4, sin(1) / 4);
    CHECK_OK();
}

TEST(adaptive_pools) {
    cfx_tensor *x = WAVES(1, 2, 4, 4);
    CHECK_NUMBERS(cfx_adaptive_avg_pool2d(x, cfx_list(3, 2)), -0.218564, 0.356997, -0.078563,
                  -0.291610, 0.321268, 0.024221);
    CHECK_NUMBERS(cfx_tensor_at(cfx_adaptive_max_pool2d(x, cfx_list(3, 2)), 1), 1, 2, 8, 7, 8, 14);
    cfx_tensor *mean = cfx_adaptive_avg_pool2d(x, cfx_list(1, 1));
    double sum = 0;
    for (int i = 0; i < 16; i++)
        sum += sin(i);
    CHECK_NEAR(cfx_tensor_get(mean, 0), sum / 16, 1e-6);
    cfx_tensor *g = cfx_aten__adaptive_avg_pool2d_backward(cfx_full(cfx_list(1, 2, 3, 2), 1.0), x);
    CHECK_NUMBERS(g, 0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5);
    CHECK_OK();
}

TEST(pools_keep_channels_last) {
    cfx_tensor *x = WAVES(2, 3, 6, 6);
    cfx_tensor *cl = cfx_contiguous(x, CFX_KW(memory_format, cfx_channels_last));
    cfx_tensor *a = cfx_max_pool2d(x, 2), *b = cfx_max_pool2d(cl, 2);
    CHECK_STR(STRIDE(a), "[27, 9, 3, 1]");
    CHECK_STR(STRIDE(b), "[27, 1, 9, 3]");
    for (int i = 0; i < 54; i++)
        CHECK_NEAR(cfx_tensor_get(a, i), cfx_tensor_get(b, i), 0);
    CHECK_STR(STRIDE(cfx_avg_pool2d(cl, 3)), "[12, 1, 6, 3]");
    CHECK_STR(STRIDE(cfx_adaptive_avg_pool2d(cl, cfx_list(2, 2))), "[12, 1, 6, 3]");
    cl = cfx_contiguous(WAVES(2, 3, 6, 6, 6),
                        CFX_KW(memory_format, cfx_memory_format_value(CFX_CHANNELS_LAST_3D)));
    CHECK_STR(STRIDE(cfx_max_pool3d(cl, 2)), "[81, 1, 27, 9, 3]");
    CHECK_STR(STRIDE(cfx_avg_pool3d(cl, 2)), "[81, 27, 9, 3, 1]");
    CHECK_STR(STRIDE(cfx_adaptive_avg_pool3d(cl, cfx_list(3, 3, 3))), "[81, 27, 9, 3, 1]");
    CHECK_STR(STRIDE(cfx_adaptive_avg_pool3d(cl, cfx_list(1, 1, 1))), "[3, 1, 3, 3, 3]");
    CHECK_STR(STRIDE(cfx_tensor_at(cfx_adaptive_max_pool3d(cl, cfx_list(3, 3, 3)), 1)),
              "[81, 27, 9, 3, 1]");
    CHECK_OK();
}

TEST(pool_mistakes) {
    cfx_tensor *x = WAVES(1, 2, 4, 4);
    cfx_max_pool2d(x, 3, 0);
    CHECK_ERROR("stride should not be zero");
    cfx_max_pool2d(x, 3, 1, 2);
    CHECK_ERROR(
        "pad should be at most half of effective kernel size, but got pad=2, kernel_size=3");
    cfx_max_pool2d(x, 9);
    CHECK_ERROR(
        "Given input size: (2x4x4). Calculated output size: (2x0x0). Output size is too small");
    cfx_max_pool2d(WAVES(4, 4), 2);
    CHECK_ERROR("non-empty 3D or 4D (batch mode) tensor expected for input");
    cfx_avg_pool2d(x, cfx_list(1, 2, 3));
    CHECK_ERROR("avg_pool2d: kernel_size must either be a single int, or a tuple of two ints");
    cfx_avg_pool2d(x, 2, 2, 0, cfx_bool(0), cfx_bool(1), 0);
    CHECK_ERROR("divisor must be not zero");
    cfx_adaptive_avg_pool2d(x, cfx_list(-1, 1));
    CHECK_ERROR("elements of output_size must be greater than or equal to 0 but received {-1, 1}");
    cfx_max_pool2d(x, cfx_list(INT64_MAX, INT64_MAX));
    CHECK_ERROR("integer out of range");
    cfx_max_unpool2d(x, cfx_full(cfx_list(1, 2, 4, 4), 100), cfx_list(9, 9));
    CHECK_ERROR("Found an invalid max index: 100 (output volumes are of size 9x9");
}
