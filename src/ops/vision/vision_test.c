/* Operators of torchvision, with numbers worked out by hand. */
#include "test.h"

static cfx_tensor *counting(int ndim, const int64_t *shape) {
    cfx_tensor *t = cfx_tensor_new(CFX_F32, ndim, shape, NULL);
    return cfx_view(cfx_to(cfx_arange(cfx_numel(t)), cfx_f32), cfx_ints_value(ndim, shape));
}

#define OP(name, ...) cfx_op_do(cfx_op_find("torchvision::" name), __VA_ARGS__)

TEST(nms_keeps_the_best_of_those_that_overlap) {
    cfx_tensor *boxes = cfx_tensor_from_value(
        cfx_list(cfx_list(0.0, 0.0, 10.0, 10.0), cfx_list(1.0, 1.0, 11.0, 11.0),
                 cfx_list(20.0, 20.0, 30.0, 30.0), cfx_list(0.0, 0.0, 10.0, 9.0)));
    cfx_tensor *scores = cfx_tensor_from_value(cfx_list(0.5, 0.9, 0.1, 0.8));
    CHECK_STR(cfx_str(OP("nms", boxes, scores, 0.5)), "tensor([1, 2])");
    CHECK_STR(cfx_str(OP("nms", boxes, scores, 0.95)), "tensor([1, 3, 0, 2])");
    CHECK_STR(cfx_str(OP("nms", cfx_zeros(cfx_list(0, 4)), cfx_zeros(cfx_list(0)), 0.5)),
              "tensor([], dtype=torch.int64)");
    OP("nms", boxes, cfx_zeros(cfx_list(3)), 0.5);
    CHECK_ERROR("boxes and scores should have same number of elements in dimension 0, got 4 and 3");
}

TEST(roi_align_is_the_mean_of_interpolated_places) {
    cfx_tensor *x = counting(4, (int64_t[]){1, 1, 4, 4});
    cfx_tensor *box = cfx_tensor_from_value(cfx_list(cfx_list(0.0, 0.0, 0.0, 4.0, 4.0)));
    CHECK_STR(cfx_str(OP("roi_align", x, box, 1.0, 2, 2, 2, true)),
              "tensor([[[[ 2.5000,  4.5000],\n          [10.5000, 12.5000]]]])");
    CHECK_STR(cfx_str(OP("roi_align", x, box, 1.0, 1, 1, 1, false)), "tensor([[[[10.]]]])");
    cfx_tensor *other = cfx_tensor_from_value(cfx_list(cfx_list(3.0, 0.0, 0.0, 4.0, 4.0)));
    OP("roi_align", x, other, 1.0, 2, 2, 2, true);
    CHECK_ERROR("region 0 is of image 3, but the batch has 1");
}

/* Time is for the places of the image, not for those of a grid without bound. */
TEST(roi_align_with_a_fine_grid) {
    cfx_tensor *x = cfx_full(cfx_list(1, 2, 8, 8), 3.0), *box = cfx_tensor_from_value(
        cfx_list(cfx_list(0.0, 1.0, 1.0, 6.0, 6.0), cfx_list(0.0, -1e30, -1e30, 1e30, 1e30)));
    cfx_value y = OP("roi_align", x, box, 1.0, 7, 7, (int64_t)1 << 31, true);
    CHECK(cfx_integer(cfx_allclose(cfx_select(y, 0, 0), cfx_full(cfx_list(2, 7, 7), 3.0), 1e-4)));
    CHECK_OK();
}

TEST(roi_pool_is_the_largest_of_each_bin) {
    cfx_tensor *x = counting(4, (int64_t[]){1, 1, 4, 4});
    cfx_tensor *box = cfx_tensor_from_value(cfx_list(cfx_list(0.0, 0.0, 0.0, 3.0, 3.0)));
    cfx_value out = OP("roi_pool", x, box, 1.0, 2, 2);
    CHECK_STR(cfx_str(cfx_at(out, 0)), "tensor([[[[ 5.,  7.],\n          [13., 15.]]]])");
    CHECK_STR(cfx_str(cfx_at(out, 1)),
              "tensor([[[[ 5,  7],\n          [13, 15]]]], dtype=torch.int32)");
}

TEST(ps_roi_pooling_has_a_channel_for_each_bin) {
    cfx_tensor *x = counting(4, (int64_t[]){1, 4, 3, 3});
    cfx_tensor *box = cfx_tensor_from_value(cfx_list(cfx_list(0.0, 0.0, 0.0, 2.0, 2.0)));
    cfx_value out = OP("ps_roi_pool", x, box, 1.0, 2, 2);
    CHECK_STR(cfx_str(cfx_at(out, 0)), "tensor([[[[ 0., 10.],\n          [21., 31.]]]])");
    CHECK_STR(cfx_str(cfx_at(out, 1)),
              "tensor([[[[0, 1],\n          [2, 3]]]], dtype=torch.int32)");
    out = OP("ps_roi_align", x, box, 1.0, 2, 2, 1);
    CHECK_STR(cfx_str(cfx_at(out, 0)), "tensor([[[[ 0., 10.],\n          [21., 31.]]]])");
    OP("ps_roi_align", counting(4, (int64_t[]){1, 3, 3, 3}), box, 1.0, 2, 2, 1);
    CHECK_ERROR("input channels must be a multiple of pooling height * pooling width");
}

TEST(a_deformable_convolution_without_offsets_is_a_convolution) {
    cfx_tensor *x = cfx_sin(counting(4, (int64_t[]){2, 4, 5, 6}));
    cfx_tensor *w = cfx_cos(counting(4, (int64_t[]){6, 2, 3, 3}));
    cfx_tensor *b = counting(1, (int64_t[]){6});
    cfx_tensor *none = cfx_zeros(cfx_list(2, 18, 5, 6)), *mask = cfx_ones(cfx_list(2, 9, 5, 6));
    cfx_value y = OP("deform_conv2d", x, w, none, mask, b, 1, 1, 1, 1, 1, 1, 2, 1, true);
    cfx_tensor *want = cfx_conv2d(x, w, b, 1, 1, 1, 2);
    CHECK(cfx_integer(cfx_allclose(y, want, 1e-4, 1e-4)));
    /* half a place to the right: the mean of neighbours */
    cfx_tensor *image = counting(4, (int64_t[]){1, 1, 2, 3}), *one = cfx_ones(cfx_list(1, 1, 1, 1));
    cfx_tensor *move =
        cfx_stack(cfx_list(cfx_zeros(cfx_list(2, 3)), cfx_full(cfx_list(2, 3), 0.5)));
    y = OP("deform_conv2d", image, one, cfx_unsqueeze(move, 0), cfx_zeros(cfx_list(1, 1, 1, 1)),
           cfx_zeros(cfx_list(1)), 1, 1, 0, 0, 1, 1, 1, 1, false);
    CHECK_STR(cfx_str(y),
              "tensor([[[[0.5000, 1.5000, 1.0000],\n          [3.5000, 4.5000, 2.5000]]]])");
    OP("deform_conv2d", x, cfx_slice(w, 3, 0, 2), none, mask, b, 1, 1, 1, 1, 1, INT64_MAX, 2, 1,
       true);
    CHECK_ERROR("Calculated output size too small: the kernel does not fit the input");
    OP("deform_conv2d", x, w, none, mask, b, 0, 1, 1, 1, 1, 1, 2, 1, true);
    CHECK_ERROR("deform_conv2d: kernel 3, stride 0, padding 1 and dilation 1 must be positive "
                "(padding may be 0)");
}

/* What is linear in the image (the place of a largest number does not move when it is scaled)
 * gives the same product with a gradient as the gradient's way back gives with the image. */
static void check_way_back(cfx_site at, const char *name, const char *back, int64_t channels,
                           cfx_args more) {
    cfx_tensor *x = cfx_randn(cfx_list(2, channels, 7, 6), CFX_KW(dtype, cfx_f64));
    cfx_tensor *boxes = cfx_to(
        cfx_tensor_from_value(cfx_list(cfx_list(0.0, 0.5, 1.0, 5.0, 4.0),
                                       cfx_list(1.0, 1.0, 0.0, 3.5, 6.0),
                                       cfx_list(1.0, -2.0, 3.0, 9.0, 4.2))), cfx_f64);
    cfx_value args[8] = {cfx_tensor_value(cfx_requires_grad(x, true)), cfx_tensor_value(boxes)};
    for (int i = 0; i < more.n; i++)
        args[2 + i] = more.v[i];
    cfx_value y = cfx_op_do_from(at, cfx_op_find(name), (cfx_args){2 + more.n, args, NULL});
    cfx_tensor *out = y.tag == CFX_TAG_TENSOR ? cfx_as_tensor(y) : cfx_tensor_at(y, 0);
    cfx_tensor *g = cfx_randn_like(cfx_detach(out));
    cfx_value grads = cfx_grad(out, cfx_list(x), .grad_outputs = cfx_tensor_value(g));
    double want = cfx_tensor_get(cfx_sum(cfx_mul(out, g)), 0);
    double got = cfx_tensor_get(cfx_sum(cfx_mul(x, cfx_tensor_at(grads, 0))), 0);
    if (!(got - want < 1e-10 && want - got < 1e-10))
        test_fail(at, "%s: %.12g, not %.12g", name, got, want);
    CHECK(cfx_op_find(back) != NULL);
}

TEST(pooled_regions_have_gradients) {
    check_way_back(CFX_HERE, "torchvision::roi_align", "torchvision::_roi_align_backward", 3,
                   CFX_ARGS(0.8, 2, 3, 2, true));
    check_way_back(CFX_HERE, "torchvision::roi_align", "torchvision::_roi_align_backward", 3,
                   CFX_ARGS(1.0, 3, 2, -1, false));
    check_way_back(CFX_HERE, "torchvision::roi_pool", "torchvision::_roi_pool_backward", 2,
                   CFX_ARGS(1.0, 2, 2));
    check_way_back(CFX_HERE, "torchvision::ps_roi_align", "torchvision::_ps_roi_align_backward", 8,
                   CFX_ARGS(1.0, 2, 2, 2));
    check_way_back(CFX_HERE, "torchvision::ps_roi_pool", "torchvision::_ps_roi_pool_backward", 8,
                   CFX_ARGS(1.0, 2, 2));
}

TEST(deform_backward_of_no_dims) {
    cfx_tensor *none = cfx_ones(cfx_list_value(0, NULL));
    cfx_torchvision__deform_conv2d_backward(none, none, none, none, none, none, 1, 1, 1, 1, 1, 1, 1,
                                            1, true);
    CHECK_ERROR("_deform_conv2d_backward: the gradient [] does not fit weight []");
}
