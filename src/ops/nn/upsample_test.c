/* Resampling, grids and embeddings: numbers that PyTorch gave, formats, messages. */
#include "numbers.h"

#include <cfx/ops.h>

#include <math.h>

#define YES cfx_bool(1)
#define NO cfx_bool(0)

TEST(upsample_values) {
    cfx_tensor *x = WAVES(1, 1, 3, 4);
    CHECK_NUMBERS(cfx_upsample_bilinear2d(x, cfx_list(2, 3), NO), -0.092438, 0.501746, 0.327092,
                  0.472241, -0.204256, -0.567767);
    CHECK_NUMBERS(cfx_upsample_bilinear2d(x, cfx_list(5, 7), YES), 0, 0.420735, 0.841471, 0.875384,
                  0.909297, 0.525209, 0.141120, -0.378401);
    CHECK_NUMBERS(cfx_upsample_bicubic2d(x, cfx_list(5, 6), NO), -0.009088, 0.542627, 1.113534,
                  1.119342, 0.558359, 0.010710);
    CHECK_NUMBERS(cfx_aten__upsample_bilinear2d_aa(x, cfx_list(2, 2), NO), 0.015871, 0.365803,
                  0.036112, -0.367468);
    CHECK_NUMBERS(cfx_aten__upsample_bicubic2d_aa(x, cfx_list(2, 2), NO), -0.035885, 0.440384,
                  0.050489, -0.441877);
    CHECK_NUMBERS(cfx_upsample_nearest2d(x, cfx_list(5, 6)), 0, 0, 0.841471, 0.909297, 0.909297);
    CHECK_NUMBERS(cfx_aten__upsample_nearest_exact2d(x, cfx_list(5, 6)), 0, 0.841471, 0.841471,
                  0.909297, 0.141120);
    CHECK_OK();
}

TEST(upsample_by_factors) {
    cfx_tensor *x = WAVES(1, 2, 3, 4);
    cfx_tensor *a = cfx_upsample_bilinear2d(x, CFX_NONE, NO, cfx_list(2.0, 2.0));
    cfx_tensor *b = cfx_upsample_bilinear2d(x, cfx_list(6, 8), NO);
    CHECK_STR(STRIDE(a), "[96, 48, 8, 1]");
    for (int i = 0; i < 96; i++)
        CHECK_NEAR(cfx_tensor_get(a, i), cfx_tensor_get(b, i), 1e-6);
    cfx_tensor *cl = cfx_contiguous(x, CFX_KW(memory_format, cfx_channels_last));
    CHECK_STR(STRIDE(cfx_upsample_nearest2d(cl, CFX_NONE, cfx_list(2.0, 2.0))), "[96, 1, 16, 2]");
    /* the transpose of a sum of taps has the same total */
    cfx_tensor *g = cfx_upsample_bilinear2d_backward(b, cfx_list(6, 8), cfx_list(1, 2, 3, 4), NO);
    double there = 0, back = 0;
    for (int i = 0; i < 96; i++)
        there += cfx_tensor_get(b, i);
    for (int i = 0; i < 24; i++)
        back += cfx_tensor_get(g, i);
    CHECK_NEAR(there, back, 1e-4);
    CHECK_OK();
}

TEST(upsample_mistakes) {
    cfx_tensor *x = WAVES(1, 1, 3, 4);
    cfx_upsample_nearest2d(x, cfx_list(0, 3));
    CHECK_ERROR(
        "Input and output sizes should be greater than 0, but got input (H: 3, W: 4) output "
        "(H: 0, W: 3)");
    cfx_upsample_nearest1d(x, cfx_list(3));
    CHECK_ERROR("It is expected input_size equals to 3, but got size 4");
    cfx_upsample_bilinear2d(x, CFX_NONE, NO, CFX_NONE);
    CHECK_ERROR("Must specify exactly one of output_size and scale_factors");
    cfx_upsample_nearest2d(x, CFX_NONE, cfx_list(1e300, (double)NAN));
    CHECK_ERROR(
        "Input and output sizes should be greater than 0, but got input (H: 3, W: 4) output "
        "(H: -9223372036854775808, W: -9223372036854775808)");
    cfx_upsample_bilinear2d(cfx_full(cfx_list(1, 1, 2, 2), 1), cfx_list(4, 4), NO);
    CHECK_ERROR("not implemented for 'Long'");
    cfx_upsample_nearest2d(x, cfx_list((int64_t)1 << 40, (int64_t)1 << 40));
    CHECK_ERROR("overflow");
}

TEST(grid_sampler_modes) {
    cfx_tensor *x = WAVES(1, 1, 3, 4);
    float places[] = {-.9f, -.5f, .1f, .2f, 1.3f, .4f};
    cfx_tensor *grid = cfx_tensor_new(CFX_F32, 4, (int64_t[]){1, 1, 3, 2}, places);
    static const double want[3][3][3] = {{{-0.132440, -0.415441, 0},
                                          {-0.189201, -0.415441, -0.337199},
                                          {-0.189201, -0.415441, -0.347297}},
                                         {{0, -0.279415, 0},
                                          {0, -0.279415, -0.999990},
                                          {0, -0.279415, -0.999990}},
                                         {{-0.245829, -0.678448, 0.025997},
                                          {-0.301010, -0.666434, -0.319940},
                                          {-0.330221, -0.666434, -0.338787}}};
    for (int mode = 0; mode < 3; mode++)
        for (int padding = 0; padding < 3; padding++)
            test_check_numbers(cfx_grid_sampler(x, grid, mode, padding, NO), 3, want[mode][padding],
                               CFX_HERE);
    /* the grid of the identity samples the input itself */
    cfx_tensor *same =
        cfx_tensor_new(CFX_F32, 3, (int64_t[]){1, 2, 3}, (float[]){1, 0, 0, 0, 1, 0});
    cfx_tensor *id = cfx_affine_grid_generator(same, cfx_list(1, 1, 3, 4), NO);
    cfx_tensor *y = cfx_grid_sampler_2d(x, id, 0, 0, NO);
    for (int i = 0; i < 12; i++)
        CHECK_NEAR(cfx_tensor_get(y, i), sin(i), 1e-5);
    CHECK_OK();
    cfx_grid_sampler_2d(x, WAVES(1, 2, 2, 3), 0, 0, NO);
    CHECK_ERROR("grid_sampler(): expected grid to have size 2 in last dimension, but got grid with "
                "sizes [1, 2, 2, 3]");
    float lost[] = {NAN, INFINITY, -INFINITY, 1e30f};
    y = cfx_grid_sampler_2d(x, cfx_tensor_new(CFX_F32, 4, (int64_t[]){1, 1, 2, 2}, lost), 0, 0, NO);
    CHECK_NUMBERS(y, 0, 0);
    CHECK_OK();
}

TEST(embedding_and_bags) {
    cfx_tensor *w = WAVES(4, 3);
    cfx_tensor *i = cfx_tensor_from_value(cfx_list(0, 2, 3, 3));
    cfx_tensor *offsets = cfx_tensor_from_value(cfx_list(0, 1, 1));
    CHECK_NUMBERS(cfx_embedding(w, i), 0, 0.841471, 0.909297, -0.279415);
    cfx_value r = cfx_aten__embedding_bag(w, i, offsets, NO, 2);
    CHECK_NUMBERS(cfx_tensor_at(r, 0), 0, 0.841471, 0.909297, 0, 0, 0, 0.412118, 0.656987,
                  0.989358);
    CHECK_NUMBERS(cfx_tensor_at(r, 1), 0, 2, 2, 2);
    CHECK_NUMBERS(cfx_tensor_at(r, 2), 1, 0, 3);
    CHECK_NUMBERS(cfx_tensor_at(r, 3), 0, 0, 0, 0, 0, 0, 3, 2, 2);
    /* gradients of one row meet; the padding row gets none */
    cfx_tensor *g = cfx_embedding_dense_backward(WAVES(4, 3), i, 4, 0, NO);
    CHECK_NUMBERS(g, 0, 0, 0, 0, 0, 0, sin(3), sin(4), sin(5), sin(6) + sin(9));
    cfx_tensor *row = cfx_tensor_from_value(cfx_list(1, 1));
    cfx_embedding_renorm_(w, row, 1.0, 2.0);
    CHECK_NUMBERS(w, 0, 0.841471, 0.909297, 0.114758, -0.615429, -0.779793, -0.279415);
    CHECK_OK();
    cfx_embedding(w, cfx_tensor_from_value(cfx_list(4)));
    CHECK_ERROR("index out of range in self");
    cfx_embedding(w, w);
    CHECK_ERROR("Expected tensor for argument #1 'indices' to have one of the following scalar "
                "types: Long, Int; but got torch.FloatTensor instead");
    cfx_embedding_bag(w, i, cfx_tensor_from_value(cfx_list(1)));
    CHECK_ERROR("offsets[0] has to be 0, i.e., the first sequence in the mini-batch");
}
