/* Padding, pixels, columns. */
#include <cfx/ops.h>

#include "numbers.h"


static cfx_tensor *image(int64_t n, int64_t c, int64_t h, int64_t w) {
    return cfx_view(cfx_arange(n * c * h * w, CFX_KW(dtype, cfx_f32)), cfx_list(n, c, h, w));
}

TEST(constant_padding_grows_and_shrinks) {
    cfx_tensor *x = cfx_view(cfx_arange(4), cfx_list(2, 2));
    CHECK_STR(cfx_str(cfx_pad(x, cfx_list(1, -1), "constant", 9.0)),
              "tensor([[9, 0],\n        [9, 2]])");
    CHECK_STR(cfx_str(cfx_constant_pad_nd(x, cfx_list(0, 0, 0, 1))),
              "tensor([[0, 1],\n        [2, 3],\n        [0, 0]])");
    CHECK_STR(cfx_str(cfx_constant_pad_nd(cfx_t(x), cfx_list(0, 1))),
              "tensor([[0, 2, 0],\n        [1, 3, 0]])");
    CHECK_STR(STRIDE(cfx_constant_pad_nd(cfx_t(x), cfx_list(-1, 0))), "[1, 2]");
    CHECK_STR(cfx_str(cfx_constant_pad_nd(cfx_tensor(3), cfx_list_value(0, NULL))), "tensor(3)");
    cfx_tensor *cl = cfx_contiguous(image(1, 3, 4, 4), CFX_KW(memory_format, cfx_channels_last));
    cfx_tensor *wide = cfx_pad(cl, cfx_list(1, 1, 1, 1));
    CHECK_STR(STRIDE(wide), "[108, 1, 18, 3]");
    CHECK_STR(cfx_str(wide), cfx_str(cfx_pad(cfx_contiguous(cl), cfx_list(1, 1, 1, 1))));
    CHECK_OK();
    cfx_constant_pad_nd(x, cfx_list(1));
    CHECK_ERROR("Length of pad must be even but instead it equals 1");
    cfx_constant_pad_nd(x, cfx_list(-2, -1));
    CHECK_ERROR("The input size 2, plus negative padding -2 and -1 resulted in a negative output "
                "size, which is invalid. Check dimension 1 of your input.");
    cfx_constant_pad_nd(x, cfx_list(INT64_MAX, INT64_MAX));
    CHECK_ERROR("overflowed");
}

/* Strides that lead nowhere may be any number. */
TEST(padding_of_empty_tensors_with_absurd_strides) {
    cfx_value absurd = cfx_list(1, (int64_t)1 << 61, (int64_t)1 << 62, 1);
    cfx_tensor *x = cfx_as_strided(cfx_ones(cfx_list(4)), cfx_list(0, 4, 1, 1), absurd);
    CHECK_STR(SHAPE(cfx_constant_pad_nd(x, cfx_list(0, 0, 0, 0, 0, 0, 1, 1))), "[2, 4, 1, 1]");
    x = cfx_as_strided(cfx_ones(cfx_list(4)), cfx_list(1, 1, 1, 1), absurd);
    CHECK_STR(cfx_str(cfx_flatten(cfx_constant_pad_nd(x, cfx_list(1, 0)))), "tensor([0., 1.])");
    CHECK_OK();
}

TEST(edges_are_reflected_replicated_or_wrapped) {
    cfx_tensor *x = cfx_view(cfx_arange(3, CFX_KW(dtype, cfx_f32)), cfx_list(1, 3));
    CHECK_STR(cfx_str(cfx_pad(x, cfx_list(2, 1), "reflect")), "tensor([[2., 1., 0., 1., 2., 1.]])");
    CHECK_STR(cfx_str(cfx_pad(x, cfx_list(2, -1), "replicate")), "tensor([[0., 0., 0., 1.]])");
    cfx_tensor *y = cfx_view(x, cfx_list(1, 1, 3));
    CHECK_STR(cfx_str(cfx_pad(y, cfx_list(2, 1), "circular")),
              "tensor([[[1., 2., 0., 1., 2., 0.]]])");
    CHECK_STR(cfx_str(cfx_pad(y, cfx_list(1, -1), "circular")), "tensor([[[1., 0., 1.]]])");
    cfx_tensor *im = image(2, 2, 3, 4);
    cfx_tensor *a = cfx_reflection_pad2d(im, cfx_list(1, 2, 2, 1));
    cfx_tensor *b = cfx_reflection_pad2d(
        cfx_contiguous(im, CFX_KW(memory_format, cfx_channels_last)), cfx_list(1, 2, 2, 1));
    CHECK_STR(SHAPE(a), "[2, 2, 6, 7]");
    CHECK_STR(STRIDE(b), "[84, 1, 14, 2]");
    CHECK_STR(cfx_str(a), cfx_str(b));
    CHECK_OK();
    cfx_pad(x, cfx_list(3, 0), "reflect");
    CHECK_ERROR("Argument #4: Padding size should be less than the corresponding input dimension, "
                "but got: padding (3, 0) at dimension 1 of input [1, 3]");
    cfx_pad(x, cfx_list(1, 1), "reflect", 1.0);
    CHECK_ERROR("Padding mode \"reflect\" doesn't take in value argument");
    cfx_pad(x, cfx_list(1, 1), "mirror");
    CHECK_ERROR("Unrecognised padding mode mirror");
    cfx_replication_pad1d(x, cfx_list(-2, -2));
    CHECK_ERROR("input (W: 3) is too small. Calculated output W: -1");
    cfx_pad(y, cfx_list(4, 0), "circular");
    CHECK_ERROR("Padding value causes wrapping around more than once.");
}

TEST(padding_gradients_count_appearances) {
    cfx_tensor *x = cfx_zeros(cfx_list(1, 3)), *ones = cfx_ones(cfx_list(1, 6));
    CHECK_STR(cfx_str(cfx_reflection_pad1d_backward(ones, x, cfx_list(2, 1))),
              "tensor([[1., 3., 2.]])");
    CHECK_STR(cfx_str(cfx_replication_pad1d_backward(ones, x, cfx_list(2, 1))),
              "tensor([[3., 1., 2.]])");
    CHECK_OK();
}

TEST(pixels_and_channels_change_places) {
    cfx_tensor *x = image(1, 8, 2, 3), *y = cfx_pixel_shuffle(x, 2);
    CHECK_STR(SHAPE(y), "[1, 2, 4, 6]");
    CHECK_NEAR(cfx_tensor_get(y, 1), 6, 0);
    CHECK_STR(cfx_str(cfx_pixel_unshuffle(y, 2)), cfx_str(x));
    cfx_tensor *s = cfx_channel_shuffle(x, 2);
    CHECK_NEAR(cfx_tensor_get(s, 6), 24, 0);
    CHECK_STR(cfx_str(cfx_channel_shuffle(s, 4)), cfx_str(x));
    CHECK_OK();
    cfx_pixel_shuffle(x, 3);
    CHECK_ERROR(
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
        "of upscale_factor, but input.size(-3)=8 is not divisible by 9");
    cfx_pixel_shuffle(x, INT64_MAX);
    CHECK_ERROR("overflowed");
    cfx_channel_shuffle(x, 3);
    CHECK_ERROR("Number of channels must be divisible by groups. Got 8 channels and 3 groups.");
    cfx_channel_shuffle(cfx_zeros(cfx_list(0, 0, 3)), INT64_MAX);
    CHECK_ERROR("Storage size calculation overflowed with sizes=[0, 9223372036854775807, 0, 3]");
}

TEST(columns_add_up_to_the_image) {
    cfx_value k = cfx_list(2, 2), one = cfx_list(1, 1), zero = cfx_list(0, 0);
    cfx_tensor *x = image(1, 1, 3, 3), *cols = cfx_im2col(x, k, one, zero, one);
    CHECK_STR(SHAPE(cols), "[1, 4, 4]");
    CHECK_STR(cfx_str(cfx_select(cfx_squeeze(cols), 0, 3)), "tensor([4., 5., 7., 8.])");
    cfx_tensor *back = cfx_col2im(cols, cfx_list(3, 3), k, one, zero, one);
    CHECK_STR(cfx_str(cfx_squeeze(back)),
              "tensor([[ 0.,  2.,  2.],\n        [ 6., 16., 10.],\n        [ 6., 14.,  8.]])");
    CHECK_STR(SHAPE(cfx_im2col(x, k, cfx_list(2, 2), one, cfx_list(2, 2))), "[1, 4, 4]");
    CHECK_OK();
    cfx_im2col(x, cfx_list(9, 9), one, zero, one);
    CHECK_ERROR("Given input with spatial size (3, 3), kernel_size=(9, 9), dilation=(1, 1), "
                "padding=(0, 0), calculated shape of the array of sliding blocks as (-5, -5), but "
                "its components must be at least one.");
    cfx_im2col(x, k, one, zero, zero);
    CHECK_ERROR("stride should be greater than zero, but got stride_height: 0 stride_width: 0");
    cfx_col2im(cols, cfx_list(5, 5), k, one, zero, one);
    CHECK_ERROR("expected size of input's dimension 2 to match the calculated number of sliding "
                "blocks 4 * 4 = 16, but got input.size(2)=4.");
}
