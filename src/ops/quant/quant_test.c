/* Quantized numbers there and back; numbers worked out by hand. */
#include "test.h"

#define OP(name, ...) cfx_op_do(cfx_op_find("quantized_decomposed::" name), __VA_ARGS__)

static cfx_tensor *some(void) {
    return cfx_tensor_from_value(cfx_list(cfx_list(-1.0, 0.26, 5.0), cfx_list(0.1, -0.3, 1.0)));
}

TEST(a_tensor_is_quantized_and_back) {
    cfx_value q = OP("quantize_per_tensor", some(), 0.1, 3, -128, 127, cfx_i8);
    CHECK_STR(cfx_str(q), "tensor([[-7,  6, 53],\n        [ 4,  0, 13]], dtype=torch.int8)");
    cfx_value x = OP("dequantize_per_tensor", q, 0.1, 3, -128, 127, cfx_i8);
    CHECK_STR(cfx_str(x),
              "tensor([[-1.0000,  0.3000,  5.0000],\n        [ 0.1000, -0.3000,  1.0000]])");
    cfx_tensor *scale = cfx_full(cfx_list(1), 0.1, CFX_KW(dtype, cfx_f64)),
               *zero = cfx_full(cfx_list(1), 3);
    CHECK_STR(cfx_str(OP("quantize_per_tensor.tensor", some(), scale, zero, -128, 127, cfx_i8)),
              cfx_str(q));
    CHECK_STR(cfx_str(OP("dequantize_per_tensor.tensor", q, scale, zero, -128, 127, cfx_i8)),
              cfx_str(x));
    OP("quantize_per_tensor", some(), 0.1, 3, -129, 127, cfx_i8);
    CHECK_ERROR("quant_min out of bound for dtype, quant_min_lower_bound: -128 quant_min: -129");
    OP("dequantize_per_tensor", q, 0.1, 3, 0, 255, cfx_u8);
    CHECK_ERROR("Expecting input to have dtype: torch.uint8, but got torch.int8");
}

TEST(channels_have_scales_of_their_own) {
    cfx_tensor *scales = cfx_tensor_from_value(cfx_list(0.1, 0.01));
    cfx_tensor *zeros = cfx_tensor_from_value(cfx_list(0, 10));
    cfx_value q = OP("quantize_per_channel", some(), scales, zeros, 0, -128, 127, cfx_i8);
    CHECK_STR(cfx_str(q), "tensor([[-10,   3,  50],\n        [ 20, -20, 110]], dtype=torch.int8)");
    cfx_value x = OP("dequantize_per_channel", q, scales, zeros, 0, -128, 127, cfx_i8);
    CHECK_STR(cfx_str(x),
              "tensor([[-1.0000,  0.3000,  5.0000],\n        [ 0.1000, -0.3000,  1.0000]])");
    OP("quantize_per_channel", some(), scales, zeros, 2, -128, 127, cfx_i8);
    CHECK_ERROR("Expecting axis to be < 2");
}

TEST(scales_and_zero_points_are_chosen) {
    cfx_value p = OP("choose_qparams.tensor", some(), 0, 255, 1e-7, cfx_u8);
    CHECK_STR(cfx_str(cfx_at(p, 0)), "tensor([0.0235], dtype=torch.float64)");
    CHECK_STR(cfx_str(cfx_at(p, 1)), "tensor([42])");
    p = OP("choose_qparams_symmetric.tensor", some(), -127, 127, 1e-7, cfx_i8);
    CHECK_STR(cfx_str(cfx_at(p, 0)), "tensor([0.0394], dtype=torch.float64)");
    CHECK_STR(cfx_str(cfx_at(p, 1)), "tensor([0])");
    p = OP("choose_qparams_per_token", some(), cfx_i8);
    CHECK_STR(cfx_str(cfx_at(p, 0)), "tensor([[0.0394],\n        [0.0079]])");
    p = OP("choose_qparams_per_token_asymmetric", some(), cfx_i8);
    CHECK_STR(cfx_str(cfx_at(p, 1)), "tensor([[-86],\n        [-69]])");
}

TEST(groups_of_a_row_are_quantized_apart) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(cfx_list(1.0, 2.0, 10.0, 30.0)));
    cfx_tensor *scales = cfx_tensor_from_value(cfx_list(cfx_list(1.0, 10.0)));
    cfx_tensor *zeros = cfx_tensor_from_value(cfx_list(cfx_list(0, 1)));
    cfx_value q = OP("quantize_per_channel_group", x, scales, zeros, -8, 7, cfx_i8, 2);
    CHECK_STR(cfx_str(q), "tensor([[1, 2, 2, 4]], dtype=torch.int8)");
    CHECK_STR(
        cfx_str(OP("dequantize_per_channel_group", q, scales, zeros, -8, 7, cfx_i8, 2, cfx_f32)),
        "tensor([[ 1.,  2., 10., 30.]])");
    OP("quantize_per_channel_group", x, scales, zeros, -8, 7, cfx_i8, 3);
    CHECK_ERROR("input.shape[-1] must be divisible by group_size");
}
