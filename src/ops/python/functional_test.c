/* torch.nn.functional: values that PyTorch gives, and its words where it refuses. */
#include "test.h"

#include <math.h>

#define F(name, ...) cfx_py("torch.nn.functional." name, __VA_ARGS__)

static cfx_tensor *line(int n) { return cfx_arange(0.0, (double)n); }

static cfx_tensor *image(int h, int w) { return cfx_reshape(line(h * w), cfx_list(1, 1, h, w)); }

static const char *flat(cfx_value v) {
    return cfx_is_bad(v) ? "bad" : cfx_str(cfx_reshape(v, cfx_list(-1)));
}

TEST(functional_interpolate) {
    CHECK_STR(flat(F("interpolate", image(1, 2), CFX_KW(scale_factor, 2.0))),
              "tensor([0., 0., 1., 1., 0., 0., 1., 1.])");
    CHECK_STR(flat(F("interpolate", image(2, 2), 3, CFX_KW(mode, "bilinear"),
                     CFX_KW(align_corners, true))),
              "tensor([0.0000, 0.5000, 1.0000, 1.0000, 1.5000, 2.0000, 2.0000, 2.5000, 3.0000])");
    CHECK_STR(flat(F("interpolate", image(4, 4), cfx_tuple(2, 2), CFX_KW(mode, "area"))),
              "tensor([ 2.5000,  4.5000, 10.5000, 12.5000])");
    cfx_tensor *row = cfx_reshape(line(3), cfx_list(1, 1, 3));
    CHECK_STR(flat(F("interpolate", row, 5, CFX_KW(mode, "linear"))),
              "tensor([0.0000, 0.4000, 1.0000, 1.6000, 2.0000])");
    CHECK_STR(flat(F("interpolate", row, 6, CFX_KW(mode, "nearest-exact"))),
              "tensor([0., 0., 1., 1., 2., 2.])");
    CHECK_OK();
    F("interpolate", row, 5, CFX_KW(mode, "bilinear"));
    CHECK_ERROR("Got 3D input, but bilinear mode needs 4D input");
    F("interpolate", row);
    CHECK_ERROR("either size or scale_factor should be defined");
    F("interpolate", row, 5, 2.0);
    CHECK_ERROR("only one of size or scale_factor should be defined");
    F("interpolate", row, 5, CFX_KW(align_corners, false));
    CHECK_ERROR("align_corners option can only be set with the interpolating modes");
    F("interpolate", row, cfx_list(5, 5));
    CHECK_ERROR("got input with spatial dimensions of [3] and output size of [5, 5]");
}

TEST(functional_interpolate_to_absurd_sizes) {
    F("interpolate", image(4, 4), CFX_NONE, cfx_float(1e300), CFX_KW(mode, "area"));
    CHECK_ERROR("integer out of range");
}

TEST(functional_windows_and_grids) {
    CHECK_STR(flat(F("unfold", image(2, 3), 2)), "tensor([0., 1., 1., 2., 3., 4., 4., 5.])");
    CHECK_STR(flat(F("fold", F("unfold", image(2, 3), 2), cfx_list(2, 3), 2)),
              "tensor([0., 2., 2., 3., 8., 5.])");
    CHECK_STR(flat(F("pad", line(2), cfx_list(1, 1), CFX_KW(value, 9.0))),
              "tensor([9., 0., 1., 9.])");
    cfx_value theta = cfx_list(cfx_list(cfx_list(1.0, 0.0, 0.0), cfx_list(0.0, 1.0, 0.0)));
    cfx_value grid = F("affine_grid", cfx_tensor_from_value(theta), cfx_list(1, 1, 2, 2));
    CHECK_STR(flat(F("grid_sample", image(2, 2), grid)), "tensor([0., 1., 2., 3.])");
    CHECK_OK();
    F("grid_sample", image(2, 2), grid, "smooth");
    CHECK_ERROR("expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'smooth'");
}

TEST(functional_pools) {
    CHECK_STR(flat(F("adaptive_max_pool2d", image(4, 4), 2)), "tensor([ 5.,  7., 13., 15.])");
    cfx_value both = F("adaptive_max_pool2d", image(2, 2), 1, CFX_KW(return_indices, true));
    CHECK_STR(flat(cfx_at(both, 1)), "tensor([3])");
    CHECK_STR(flat(F("lp_pool2d", image(2, 2), 2.0, 2)), "tensor([3.7417])");
    CHECK_STR(flat(F("max_pool2d", image(2, 2), 2)), "tensor([3.])");
    CHECK_OK();
}

TEST(functional_losses) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(0.5, 1.0, 3.0));
    cfx_tensor *y = cfx_tensor_from_value(cfx_list(1.0, 1.0, 1.0));
    cfx_tensor *w = cfx_tensor_from_value(cfx_list(1.0, 1.0, 2.0));
    CHECK_STR(cfx_str(F("mse_loss", x, y)), "tensor(1.4167)");
    CHECK_STR(cfx_str(F("mse_loss", x, y, CFX_KW(weight, w))), "tensor(2.0625)");
    CHECK_STR(cfx_str(F("l1_loss", x, y, CFX_KW(reduction, "sum"))), "tensor(2.5000)");
    CHECK_STR(cfx_str(F("smooth_l1_loss", x, y, CFX_KW(reduction, "none"))),
              "tensor([0.1250, 0.0000, 1.5000])");
    CHECK_STR(cfx_str(F("huber_loss", x, y, CFX_KW(reduction, "sum"))), "tensor(1.6250)");
    CHECK_STR(cfx_str(F("kl_div", cfx_log(x), y, CFX_KW(reduction, "batchmean"))),
              "tensor(-0.1352)");
    CHECK_STR(cfx_str(F("gaussian_nll_loss", x, y, w)), "tensor(0.4905)");
    CHECK_STR(cfx_str(F("l1_loss", x, y, CFX_KW(size_average, false))), "tensor(2.5000)");
    CHECK_OK();
    F("mse_loss", x, y, CFX_KW(reduction, "median"));
    CHECK_ERROR("median is not a valid value for reduction");
}

TEST(functional_similarity) {
    cfx_tensor *a = cfx_tensor_from_value(cfx_list(cfx_list(1.0, 0.0), cfx_list(1.0, 1.0)));
    cfx_tensor *b = cfx_tensor_from_value(cfx_list(cfx_list(0.0, 1.0), cfx_list(2.0, 2.0)));
    cfx_tensor *angle = cfx_as_tensor(F("cosine_similarity", a, b));
    CHECK_NEAR(cfx_tensor_get(angle, 0), 0, 1e-6);
    CHECK_NEAR(cfx_tensor_get(angle, 1), 1, 1e-6);
    CHECK_STR(cfx_str(F("pairwise_distance", a, b)), "tensor([1.4142, 1.4142])");
    CHECK_STR(cfx_str(F("triplet_margin_loss", a, a, b)), "tensor(0.)");
    CHECK_STR(cfx_str(F("normalize", a)),
              "tensor([[1.0000, 0.0000],\n        [0.7071, 0.7071]])");
    CHECK_OK();
}

TEST(functional_noise) {
    cfx_manual_seed(0);
    cfx_value hard = F("gumbel_softmax", cfx_zeros(5, 3), CFX_KW(hard, true));
    CHECK_STR(cfx_str(cfx_sum(hard, cfx_list(1))), "tensor([1., 1., 1., 1., 1.])");
    cfx_tensor *channels = cfx_as_tensor(F("dropout2d", cfx_ones(2, 8, 3, 3), 0.5));
    cfx_tensor *sums = cfx_reshape(cfx_sum(channels, cfx_list(2, 3)), cfx_list(-1));
    for (int i = 0; i < 16; i++) {
        double v = cfx_tensor_get(sums, i);
        CHECK(v == 0 || v == 18);
    }
    CHECK_STR(cfx_str(F("alpha_dropout", line(3))), "tensor([0., 1., 2.])");
    CHECK_OK();
    F("dropout3d", line(3), 2.0);
    CHECK_ERROR("dropout probability has to be between 0 and 1, but got 2.0");
}

TEST(functional_local_response_norm) {
    cfx_tensor *x = cfx_reshape(line(4), cfx_list(1, 4, 1, 1));
    cfx_value y = F("local_response_norm", x, 3, CFX_KW(alpha, 1.0), CFX_KW(beta, 1.0));
    CHECK_STR(flat(y), "tensor([0.0000, 0.3750, 0.3529, 0.5625])");
    CHECK_OK();
}

TEST(functional_losses_of_no_classes) {
    cfx_tensor *none = cfx_ones(cfx_list_value(0, NULL));
    cfx_py("torch.nn.functional.multilabel_soft_margin_loss", none, none);
    CHECK_ERROR("Dimension specified as -1 but tensor has no dimensions");
}
