/* Quantized tensors: made, printed, computed with. Numbers are PyTorch's. */
#include "../ops.h"
#include "numbers.h"

static cfx_tensor *some(void) { return cfx_tensor_from_value(cfx_list(-1.0, 0.24, 0.26, 2.0)); }

TEST(quantized_tensors_round_and_print) {
    cfx_tensor *q = cfx_quantize_per_tensor(some(), 0.1, 10, cfx_qu8);
    CHECK_STR(cfx_str(q), "tensor([-1.0000,  0.2000,  0.3000,  2.0000], size=(4,), "
                          "dtype=torch.quint8,\n       quantization_scheme="
                          "torch.per_tensor_affine, scale=0.1, zero_point=10)");
    CHECK_STR(cfx_str(cfx_int_repr(q)), "tensor([ 0, 12, 13, 30], dtype=torch.uint8)");
    CHECK_STR(cfx_str(cfx_dequantize(q)), "tensor([-1.0000,  0.2000,  0.3000,  2.0000])");
    CHECK_NEAR(cfx_number(cfx_q_scale(q)), 0.1, 0);
    CHECK_INT(cfx_integer(cfx_q_zero_point(q)), 10);
    cfx_tensor *x = cfx_reshape(some(), cfx_list(2, 2));
    cfx_tensor *c = cfx_quantize_per_channel(x, cfx_tensor_from_value(cfx_list(0.1, 0.5)),
                                             cfx_tensor_from_value(cfx_list(0, 1)), 0, cfx_qi8);
    CHECK_STR(cfx_str(c),
              "tensor([[-1.0000,  0.2000],\n        [ 0.5000,  2.0000]], size=(2, 2), "
              "dtype=torch.qint8,\n       quantization_scheme=torch.per_channel_affine,\n       "
              "scale=tensor([0.1000, 0.5000], dtype=torch.float64),\n       "
              "zero_point=tensor([0, 1]), axis=0)");
    CHECK_STR(cfx_str(cfx_int_repr(c)), "tensor([[-10,   2],\n        [  2,   5]], "
                                        "dtype=torch.int8)");
    CHECK_STR(cfx_str(cfx_dequantize(c)), "tensor([[-1.0000,  0.2000],\n        [ 0.5000,  "
                                          "2.0000]])");
}

TEST(quantized_elements_are_the_numbers_they_stand_for) {
    cfx_dtype dtypes[] = {CFX_QI8, CFX_QU8, CFX_QI32};
    for (int i = 0; i < COUNT(dtypes); i++) {
        cfx_tensor *q = cfx_quantize_per_tensor(some(), 0.5, 2, cfx_dtype_value(dtypes[i]));
        CHECK_NEAR(cfx_tensor_get(q, 0), -1, 0);
        CHECK_NEAR(cfx_tensor_get(q, 1), 0, 0);
        CHECK_NEAR(cfx_tensor_get(q, 2), 0.5, 0);
        CHECK_NEAR(cfx_tensor_get(q, 3), 2, 0);
    }
}

TEST(zero_points_may_be_as_far_as_integers_go) {
    cfx_tensor *x = cfx_ones(cfx_list(2));
    cfx_tensor *far = cfx_quantize_per_tensor(x, 1.0, INT64_MIN, cfx_dtype_value(CFX_QI8));
    CHECK(cfx_tensor_get(far, 0) == 0x1p63);
    cfx_tensor *none = cfx_full(cfx_list(), __builtin_nan(""));
    far = cfx_quantize_per_tensor(x, cfx_ones(cfx_list()), none, cfx_dtype_value(CFX_QI8));
    CHECK(cfx_tensor_get(far, 1) == 0x1p63);
    CHECK_OK();
}

TEST(a_quantized_dtype_alone_makes_no_tensor) {
    int8_t bytes[4] = {0};
    int64_t size = 4;
    cfx_tensor *x = cfx_tensor_new(CFX_I8, 1, &size, bytes);
    const char *why = "a tensor of torch.qint8 needs a scale";
    cfx_view(x, cfx_qi8);
    CHECK_ERROR(why);
    cfx_to(x, cfx_qi8);
    CHECK_ERROR(why);
    cfx_empty(cfx_list(4), CFX_KW(dtype, cfx_qi8));
    CHECK_ERROR(why);
    cfx_tensor_borrow(CFX_QI8, 1, &size, bytes, NULL, NULL);
    CHECK_ERROR(why);
    cfx_tensor_fake(CFX_QI8, 1, &size, NULL);
    CHECK_ERROR(why);
}

TEST(quantized_tensors_go_through_operators) {
    cfx_tensor *q = cfx_quantize_per_tensor(some(), 0.1, 10, cfx_qu8);
    CHECK_STR(cfx_str(cfx_int_repr(cfx_relu(q))), "tensor([10, 12, 13, 30], dtype=torch.uint8)");
    cfx_tensor *view = cfx_reshape(q, cfx_list(2, 2));
    CHECK_INT(cfx_tensor_dtype(view), CFX_QU8);
    CHECK_STR(cfx_str(cfx_int_repr(view)), "tensor([[ 0, 12],\n        [13, 30]], "
                                           "dtype=torch.uint8)");
    cfx_tensor *s = cfx_sigmoid(q);
    CHECK_NEAR(cfx_number(cfx_q_scale(s)), 1.0 / 256, 0);
    CHECK_STR(cfx_str(cfx_int_repr(s)), "tensor([ 69, 141, 147, 225], dtype=torch.uint8)");
    cfx_relu_(q);
    CHECK_STR(cfx_str(cfx_int_repr(q)), "tensor([10, 12, 13, 30], dtype=torch.uint8)");
    cfx_tensor *twice = cfx_as_tensor(cfx_py("torch.ops.quantized.mul", q, 2));
    CHECK_NEAR(cfx_number(cfx_q_scale(twice)), 0.2, 0);
    CHECK_STR(cfx_str(cfx_int_repr(twice)), "tensor([10, 12, 13, 30], dtype=torch.uint8)");
    cfx_tensor *sum = cfx_as_tensor(cfx_py("torch.ops.quantized.add", q, q, 0.05, 0));
    CHECK_STR(cfx_str(cfx_int_repr(sum)), "tensor([ 0,  8, 12, 80], dtype=torch.uint8)");
}

TEST(quantized_linear_is_exact) {
    cfx_tensor *x = cfx_quantize_per_tensor(some(), 0.1, 10, cfx_qu8);
    cfx_tensor *w =
        cfx_reshape(cfx_tensor_from_value(cfx_list(0.5, -0.5, 1.0, 0.25)), cfx_list(1, 4));
    w = cfx_quantize_per_tensor(w, 0.01, 0, cfx_qi8);
    cfx_value packed =
        cfx_py("torch.ops.quantized.linear_prepack", w, cfx_tensor_from_value(cfx_list(0.5)));
    cfx_tensor *y = cfx_as_tensor(
        cfx_py("torch.ops.quantized.linear", cfx_reshape(x, cfx_list(1, 4)), packed, 0.1, 3));
    CHECK_STR(cfx_str(cfx_int_repr(y)), "tensor([[10]], dtype=torch.uint8)"); /* 0.7 */
    cfx_py("torch.ops.quantized.linear", x, cfx_tuple(1, 2), 0.1, 3);
    CHECK_ERROR("is not a packed weight of its kind");
}

TEST(quantized_tensors_are_made_by_quantizing_alone) {
    cfx_zeros(cfx_list(2), CFX_KW(dtype, cfx_qu8));
    CHECK_ERROR("a tensor of torch.quint8 needs a scale");
    cfx_quantize_per_tensor(some(), 0.1, 0, cfx_f32);
    CHECK_ERROR("quantize only supports the dtypes torch.qint8");
    cfx_int_repr(some());
    CHECK_ERROR("is for quantized tensors");
}

TEST(fake_quantize_lets_gradients_through) {
    cfx_tensor *x = some();
    cfx_requires_grad(x, true);
    cfx_tensor *y = cfx_fake_quantize_per_tensor_affine(x, 0.1, 0, -5, 5);
    CHECK_STR(cfx_str(cfx_detach(y)), "tensor([-0.5000,  0.2000,  0.3000,  0.5000])");
    cfx_backward(cfx_sum(y));
    CHECK_STR(cfx_str(cfx_tensor_grad(x)), "tensor([0., 1., 1., 0.])");
}

TEST(learnable_scales_get_gradients) {
    cfx_tensor *x = some(), *scale = cfx_tensor_from_value(cfx_list(0.1)),
               *zero = cfx_tensor_from_value(cfx_list(0.0));
    cfx_requires_grad(scale, true);
    cfx_requires_grad(zero, true);
    cfx_tensor *y = cfx_aten__fake_quantize_learnable_per_tensor_affine(x, scale, zero, -5, 5);
    cfx_backward(cfx_sum(y));
    /* -5 and 5 at the ends, (0.2 - 0.24) / 0.1 and (0.3 - 0.26) / 0.1 inside */
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(scale), 0), 0, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_grad(zero), 0), -0.2, 1e-6);
}

/* Means, and what Python's functions end in, on quantized tensors: PyTorch's integers. */
TEST(quantized_means_and_functions) {
    cfx_tensor *ints = cfx_remainder(cfx_add(cfx_mul(cfx_arange(576), 37), 11), 256);
    cfx_value q = cfx_py("torch._make_per_tensor_quantized_tensor",
                         cfx_reshape(cfx_to(ints, cfx_u8), cfx_list(2, 8, 6, 6)), 0.02, 64);
    cfx_value y = cfx_py("torch.nn.functional.avg_pool2d", q, 2);
    CHECK_NUMBERS(cfx_int_repr(y), 76, 86, 160, 200, 82, 92, 132, 206, 88, 64, 138, 212);
    y = cfx_py("torch.nn.functional.adaptive_avg_pool2d", q, cfx_tuple(2, 3));
    CHECK_NUMBERS(cfx_int_repr(y), 124, 70, 144, 150, 181, 84, 90, 122, 196, 202, 62, 94);
    y = cfx_py("torch.nn.functional.hardsigmoid", q);
    CHECK(cfx_number(cfx_py("torch.q_scale", y)) == 1.0 / 256);
    y = cfx_tensor_value(cfx_quantized_mul(2, q));
    CHECK(cfx_number(cfx_py("torch.q_scale", y)) == 0.04);
    CHECK_OK();
}

/* A weight of integers, packed as if it were of float16: its floats are seen, and refused. */
TEST(packed_weights_of_another_kind_are_refused) {
    cfx_tensor *w = cfx_quantize_per_tensor(cfx_ones(2, 3), 0.1, 0, cfx_dtype_value(CFX_QI8));
    cfx_op_do(cfx_op_find("quantized::linear_dynamic_fp16"), cfx_ones(1, 3),
              cfx_tuple(w, CFX_NONE));
    CHECK_ERROR("the second argument is not a packed weight of float16");
}

TEST(halves_quantized_to_halves_are_themselves_which_the_row_says) {
    cfx_tensor *x = cfx_to(some(), cfx_f16);
    cfx_tensor *q = cfx_quantize_per_tensor_dynamic(x, cfx_f16, false);
    CHECK(q->storage == x->storage && cfx__op_shares(&cfx_op_quantize_per_tensor_dynamic, 0));
}
