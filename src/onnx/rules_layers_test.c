/* Rules of layers, windows, boxes, dynamic sizes and complex numbers: every one. */
#include "rules_test.h"

static const rule_case nn_cases[] = {
    {"det", "x: \"f32[2, 3, 3]\"", "y = @det.default(x)"},
    {"det_with_factors", "x: \"f64[3, 3]\"", "a = @_linalg_det.default(x)\n        y = a[0]"},
    {"mm", "x: \"f32[2, 3]\", z: \"f32[3, 4]\"", "y = @mm.default(x, z)"},
    {"mm_integers", "x: \"i64[2, 3]\", z: \"i64[3, 4]\"", "y = @mm.default(x, z)"},
    {"addmm", "x: \"f32[2, 3]\", z: \"f32[3, 4]\", b: \"f32[4]\"",
     "y = @addmm.default(b, x, z, beta = 0.5, alpha = 2)"},
    {"baddbmm", X ", z: \"f32[2, 4, 5]\", b: \"f32[2, 3, 5]\"",
     "y = @baddbmm.default(b, x, z, beta = 0.5, alpha = 2)"},
    {"linear", X ", z: \"f32[5, 4]\", b: \"f32[5]\"", "y = @linear.default(x, z, b)"},
    {"linear_matrix", "x: \"f32[3, 4]\", z: \"f32[5, 4]\"", "y = @linear.default(x, z)"},
    {"layer_norm", X ", z: \"f32[3, 4]\"", "y = @layer_norm.default(x, [3, 4], z)"},
    {"rms_norm", X ", z: \"f32[4]\"", "y = @rms_norm.default(x, [4], z, 1e-06)"},
    {"group_norm_of_no_images", "x: \"f32[0, 3, 5, 1]\", z: \"f32[3]\"",
     "y = @group_norm.default(x, 1, z, z)"},
    {"group_norm_of_nothing", "x: \"f32[2, 3, 0, 1]\", z: \"f32[3]\"",
     "y = @group_norm.default(x, 1, z, z)"},
    {"group_norm", IMAGE ", z: \"f32[4]\"", "y = @group_norm.default(x, 2, z)"},
    {"batch_norm", IMAGE ", z: \"f32[4]\"",
     "a = @abs.default(z)\n        "
     "y = @batch_norm.default(x, z, z, z, a, False, 0.1, 1e-05, True)"},
    {"instance_norm", IMAGE,
     "y = @instance_norm.default(x, None, None, None, None, True, 0.1, 1e-05, True)"},
    {"softmax", X, "y = @softmax.int(x, 1)"},
    {"softmax_half", X, "y = @softmax.int(x, -1, torch.float64)"},
    {"log_softmax", X, "y = @log_softmax.int(x, 0)"},
    {"attention", "x: \"f32[2, 4, 3, 8]\", z: \"f32[2, 2, 5, 8]\"",
     "y = @scaled_dot_product_attention.default(x, z, z, enable_gqa = True)"},
    {"attention_causal", "x: \"f32[2, 4, 3, 8]\"",
     "y = @scaled_dot_product_attention.default(x, x, x, is_causal = True, scale = 0.5)"},
    {"attention_masked", "x: \"f32[2, 4, 3, 8]\", m: \"b8[3, 3]\"",
     "y = @scaled_dot_product_attention.default(x, x, x, m)"},
    {"cosine_similarity", XY, "y = @cosine_similarity.default(x, z, 2)"},
    {"einsum", XY, "y = @einsum.default('bij,bkj->bik', [x, z])"},
};

static const rule_case window_cases[] = {
    {"conv2d", IMAGE ", w: \"f32[6, 2, 3, 3]\", b: \"f32[6]\"",
     "y = @conv2d.default(x, w, b, [2, 1], [1, 0], [1, 2], 2)"},
    {"conv1d_unbatched", "x: \"f32[4, 9]\", w: \"f32[6, 4, 3]\"", "y = @conv1d.default(x, w)"},
    {"conv_transpose", IMAGE ", w: \"f32[4, 3, 3, 3]\"",
     "y = @conv_transpose2d.input(x, w, None, [2, 2], [1, 1], [1, 0])"},
    {"conv_integers", "x: \"i32[2, 4, 9]\", w: \"i32[6, 4, 3]\"", "y = @conv1d.default(x, w)"},
    {"conv_bf16", "x: \"bf16[2, 4, 9]\", w: \"bf16[6, 4, 3]\"", "y = @conv1d.default(x, w)"},
    {"max_pool2d", IMAGE, "y = @max_pool2d.default(x, [3, 2], [2, 2], [1, 1], [1, 1], True)"},
    {"max_pool1d", "x: \"f32[2, 4, 9]\"", "y = @max_pool1d.default(x, [3])"},
    {"avg_pool2d", IMAGE, "y = @avg_pool2d.default(x, [3, 2], [2, 2], [1, 1], False, False)"},
    {"avg_pool2d_ceil", IMAGE, "y = @avg_pool2d.default(x, [2, 3], [2, 2], [0, 1], True)"},
    {"adaptive_one", IMAGE, "y = @adaptive_avg_pool2d.default(x, [1, 1])"},
    {"adaptive_even", IMAGE, "y = @adaptive_avg_pool2d.default(x, [3, 4])"},
    {"adaptive_uneven", IMAGE, "y = @adaptive_avg_pool2d.default(x, [4, 3])"},
    {"adaptive_of_infinities", IMAGE,
     "a = @div.Scalar(x, 0.0)\n        y = @adaptive_avg_pool2d.default(a, [4, 3])"},
    {"adaptive_max", IMAGE, "a = @adaptive_max_pool2d.default(x, [3, 4])\n        y = a[0]"},
    {"adaptive_max_uneven", IMAGE, "a = @adaptive_max_pool2d.default(x, [4, 3])\n        y = a[0]"},
    {"smoothed", IMAGE, "y = @_upsample_bilinear2d_aa.default(x, [4, 5], False)"},
    {"smoothed_larger", IMAGE, "y = @_upsample_bilinear2d_aa.vec(x, None, False, [2.0, 0.5])"},
    {"smoothed_cubic", IMAGE, "y = @_upsample_bicubic2d_aa.default(x, [4, 11], False)"},
    {"nearest", IMAGE, "y = @upsample_nearest2d.vec(x, None, [2.0, 1.5])"},
    {"nearest_size", IMAGE, "y = @upsample_nearest2d.vec(x, [5, 20], None)"},
    {"bilinear", IMAGE, "y = @upsample_bilinear2d.vec(x, [5, 20], False, None)"},
    {"bilinear_to_one", IMAGE, "y = @upsample_bilinear2d.vec(x, [1, 3], False, None)"},
    {"bilinear_corners", IMAGE, "y = @upsample_bilinear2d.vec(x, [5, 20], True, None)"},
    {"bilinear_corners_by_scales", IMAGE,
     "y = @upsample_bilinear2d.vec(x, None, True, [1.7, 0.6])"},
    {"bilinear_corners_at_any_size", "x: \"f32[s0, 4, 9, 8]\"",
     "y = @upsample_bilinear2d.vec(x, None, True, [1.7, 0.6])"},
    {"linear_corners_to_sizes", X, "y = @upsample_linear1d.default(x, [6], True, 1.7)"},
    {"nearest_exact", IMAGE, "y = @_upsample_nearest_exact2d.vec(x, [5, 20], None)"},
    {"grid_sample", IMAGE ", z: \"f32[2, 5, 6, 2]\"",
     "y = @grid_sampler_2d.default(x, z, 0, 1, False)"},
    {"im2col", IMAGE, "y = @im2col.default(x, [3, 2], [1, 1], [1, 0], [2, 2])"},
    {"col2im", "x: \"f32[2, 12, 8]\"",
     "y = @col2im.default(x, [5, 3], [2, 2], [1, 1], [0, 0], [1, 1])"},
    {"bicubic", IMAGE, "y = @upsample_bicubic2d.vec(x, [18, 16], False, None)"},
    {"bilinear_to_sizes", IMAGE, "y = @upsample_bilinear2d.default(x, [5, 20], False)"},
    {"bilinear_by_scales", IMAGE, "y = @upsample_bilinear2d.default(x, [13, 20], False, 1.5, 2.5)"},
    {"bicubic_to_sizes", IMAGE, "y = @upsample_bicubic2d.default(x, [18, 16], True)"},
    {"max_pool_indices", IMAGE,
     "a = @max_pool2d_with_indices.default(x, [3, 2], [2, 2], [1, 0])\n        b = a[0]\n        "
     "c = a[1]\n        y = @add.Tensor(b, c)"},
    {"max_pool_indices_of_one", "x: \"f32[4, 9, 8]\"",
     "a = @max_pool2d_with_indices.default(x, [3, 3], [2, 2], [1, 1], 1, True)\n        "
     "y = a[1]"},
    {"max_pool_indices_of_halves", "x: \"bf16[2, 4, 9, 8]\"",
     "a = @max_pool2d_with_indices.default(x, [3, 2], [2, 2], [1, 0])\n        y = a[1]"},
    {"bicubic_to_one", IMAGE, "y = @upsample_bicubic2d.vec(x, [3, 1], False, None)"},
};

static const rule_case size_cases[] = {
    {"sizes_of_sizes", S, SIZE "a: \"Sym(2*s0)\" = n * 2\n        "
                               "b: \"Sym(2*s0//3)\" = a // 3\n        "
                               "c: \"Sym(Max(2*s0//3, 1))\" = torch.sym_max(b, 1)\n        "
                               "y = @full.default([c, 2], 1.0)"},
    {"size_as_number", S, SIZE "y = @mul.Tensor(x, n)"},
    {"size_as_float", S, SIZE "a = torch.sym_float(n)\n        b = a / 2.0\n        "
                              "y = @mul.Tensor(x, b)"},
    {"numel", S, "n: \"Sym(12*s0)\" = @sym_numel.default(x)\n        y = @view.default(x, [n])"},
};

#define BOXES                                                                                      \
    "a = @abs.default(z)\n        i = @zeros.default([3, 1])\n        "                            \
    "r = @cat.default([i, a], 1)\n        "
#define IMAGE_AND_BOXES "x: \"f32[2, 4, 9, 8]\", z: \"f32[3, 4]\""

static const rule_case box_cases[] = {
    {"roi_align", IMAGE_AND_BOXES,
     BOXES "y = torch.ops.torchvision.roi_align.default(x, r, 2.0, 2, 3, 2, True)"},
    {"roi_align_unaligned", IMAGE_AND_BOXES,
     BOXES "y = torch.ops.torchvision.roi_align.default(x, r, 1.0, 2, 2, -1, False)"},
    {"nms", "x: \"f32[9]\", z: \"f32[9, 2]\"",
     "a = @abs.default(z)\n        b = @add.Tensor(a, 1.5)\n        c = @cat.default([a, b], 1)\n"
     "        y: \"i64[u0]\" = torch.ops.torchvision.nms.default(c, x, 0.3)"},
    {"roi_pool", IMAGE_AND_BOXES,
     BOXES "b = torch.ops.torchvision.roi_pool.default(x, r, 2.0, 2, 3)\n        y = b[0]"},
};

static const rule_case complex_cases[] = {
    {"rfft", X, "a = @fft_rfft.default(x, None, -1, 'ortho')\n        "
                "y = @view_as_real.default(a)"},
    {"fft2", X, "a = @fft_fft2.default(x)\n        y = @real.default(a)"},
    {"irfft", X, "a = @fft_rfft2.default(x)\n        b = @mul.Tensor(a, a)\n        "
                 "y = @fft_irfft2.default(b, [3, 4])"},
    {"fft_dynamic", S, "a = @fft_fft.default(x, None, 0)\n        y = @real.default(a)"},
    {"irfft_odd", "x: \"f32[2, 5]\"",
     "a = @fft_rfft.default(x)\n        y = @fft_irfft.default(a, 5)"},
    {"rotary", "x: \"f32[2, 3, 4]\", z: \"f32[3, 2]\"",
     "a = @view.default(x, [2, 3, 2, 2])\n        b = @view_as_complex.default(a)\n        "
     "o = @ones_like.default(z)\n        c = @polar.default(o, z)\n        "
     "d = @mul.Tensor(b, c)\n        e = @view_as_real.default(d)\n        "
     "y = @view.default(e, [2, 3, 4])"},
    {"complex_views", XY,
     "a = @complex.default(x, z)\n        b = @permute.default(a, [2, 0, 1])\n        "
     "c = @slice.Tensor(b, 0, 1, 3)\n        d = @reshape.default(c, [2, 6])\n        "
     "e = @unsqueeze.default(d, 1)\n        f = @expand.default(e, [2, 3, 6])\n        "
     "g = @cat.default([f, f], -1)\n        h = @select.int(g, -1, 5)\n        "
     "y = @view_as_real.default(h)"},
    {"complex_abs", XY, "a = @complex.default(x, z)\n        y = @abs.default(a)"},
};

TEST(onnx_rules_of_layers) { CHECK_CASES(nn_cases); }
TEST(onnx_rules_of_windows) { CHECK_CASES(window_cases); }
TEST(onnx_rules_of_boxes) { CHECK_CASES(box_cases); }
TEST(onnx_rules_of_sizes) { CHECK_CASES(size_cases); }
TEST(onnx_rules_of_complex_numbers) { CHECK_CASES(complex_cases); }
