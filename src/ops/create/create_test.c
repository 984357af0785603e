/* Constructors, sequences, conversions, questions and assertions. */
#include <cfx/ops.h>

#include "numbers.h"


TEST(constructors_choose_dtypes) {
    CHECK_STR(cfx_str(cfx_zeros(cfx_list(2))), "tensor([0., 0.])");
    CHECK_STR(cfx_str(cfx_full(cfx_list(2), cfx_bool(true))), "tensor([True, True])");
    CHECK_STR(cfx_str(cfx_full(cfx_list(2), 7)), "tensor([7, 7])");
    CHECK_STR(cfx_str(cfx_full(cfx_list(1), 7, CFX_KW(dtype, cfx_f16))),
              "tensor([7.], dtype=torch.float16)");
    CHECK_STR(cfx_str(cfx_scalar_tensor(3)), "tensor(3.)");
    CHECK_STR(cfx_str(cfx_ones_like(cfx_tensor(cfx_list(1, 2)))), "tensor([1, 1])");
    CHECK_STR(cfx_str(cfx_full(cfx_list(1), -1, CFX_KW(dtype, cfx_u8))),
              "tensor([255], dtype=torch.uint8)");
    CHECK_STR(cfx_str(cfx_eye(2, 3)), "tensor([[1., 0., 0.],\n        [0., 1., 0.]])");
    CHECK_STR(cfx_str(cfx_tensor(cfx_list(cfx_list(1, 2.5)))), "tensor([[1.0000, 2.5000]])");
    CHECK_OK();
}

TEST(constructors_refuse_bad_sizes_and_numbers) {
    cfx_zeros(cfx_list(-1));
    CHECK_ERROR("Trying to create tensor with negative dimension -1: [-1]");
    cfx_zeros(cfx_list((int64_t)1 << 40, (int64_t)1 << 40));
    CHECK_ERROR("Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]");
    cfx_full(cfx_list(2), 300, CFX_KW(dtype, cfx_u8));
    CHECK_ERROR("value cannot be converted to type uint8_t without overflow");
    cfx_full(cfx_list(2), 1e10, CFX_KW(dtype, cfx_f16));
    CHECK_ERROR("value cannot be converted to type at::Half without overflow");
    cfx_empty(cfx_list(2), CFX_KW(memory_format, cfx_channels_last));
    CHECK_ERROR("required rank 4 tensor to use channels_last format");
    cfx_zeros(cfx_list(1), CFX_KW(device, "cuda"));
    CHECK_ERROR("Torch not compiled with CUDA enabled");
    cfx_empty_strided(cfx_list(2), cfx_list(1, 1));
    CHECK_ERROR("dimensionality of sizes (1) must match dimensionality of strides (2)");
    cfx_empty_permuted(cfx_list(2, 2), cfx_list(0, 0));
    CHECK_ERROR("Duplicate dim not allowed");
}

TEST(likes_keep_the_order_of_memory) {
    cfx_tensor *x = cfx_zeros(cfx_list(2, 3, 4, 5));
    cfx_tensor *turned = cfx_permute(x, cfx_list(3, 0, 1, 2));
    CHECK_STR(STRIDE(cfx_empty_like(turned)), STRIDE(turned));
    CHECK_STR(STRIDE(cfx_clone(cfx_slice(turned, 0, 0, 5, 2))), "[1, 36, 12, 3]");
    CHECK_STR(STRIDE(cfx_clone(cfx_expand(cfx_zeros(cfx_list(3, 1)), cfx_list(3, 2)))), "[2, 1]");
    CHECK_STR(STRIDE(cfx_zeros_like(turned, CFX_KW(memory_format, cfx_contiguous_format))),
              "[24, 12, 4, 1]");
    CHECK_STR(STRIDE(cfx_zeros_like(x, CFX_KW(memory_format, cfx_channels_last))),
              "[60, 1, 15, 3]");
    CHECK_STR(STRIDE(cfx_empty_permuted(cfx_list(2, 3, 4), cfx_list(0, 2, 1))), "[12, 1, 3]");
    cfx_tensor *cl = cfx_contiguous(x, CFX_KW(memory_format, cfx_channels_last));
    CHECK_STR(STRIDE(cfx_add(cl, 1)), STRIDE(cl));
    CHECK(cfx_contiguous(cl, CFX_KW(memory_format, cfx_channels_last)) == cl);
    CHECK_OK();
}

TEST(ranges_and_lines) {
    CHECK_STR(cfx_str(cfx_arange(3)), "tensor([0, 1, 2])");
    CHECK_STR(cfx_str(cfx_arange(5, 0, -2)), "tensor([5, 3, 1])");
    CHECK_STR(cfx_str(cfx_arange(0, 1, 0.25)), "tensor([0.0000, 0.2500, 0.5000, 0.7500])");
    CHECK_STR(cfx_str(cfx_arange(1, 3, CFX_KW(dtype, cfx_bf16))),
              "tensor([1., 2.], dtype=torch.bfloat16)");
    CHECK_STR(cfx_str(cfx_range(0, 2)), "tensor([0., 1., 2.])");
    CHECK_STR(cfx_str(cfx_linspace(0, 1, 5)), "tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])");
    CHECK_STR(cfx_str(cfx_linspace(0, 10, 4, CFX_KW(dtype, cfx_i64))), "tensor([ 0,  3,  6, 10])");
    CHECK_STR(cfx_str(cfx_logspace(0, 2, 3)), "tensor([  1.,  10., 100.])");
    CHECK_STR(cfx_str(cfx_tril_indices(2, 2)), "tensor([[0, 1, 1],\n        [0, 0, 1]])");
    CHECK_STR(SHAPE(cfx_triu_indices(3, 4, 1)), "[2, 6]");
    CHECK_STR(SHAPE(cfx_tril_indices((int64_t)1 << 40, 1, -((int64_t)1 << 40) + 2)), "[2, 2]");
    CHECK_OK();
    cfx_arange(0, 5, 0);
    CHECK_ERROR("step must be nonzero");
    cfx_arange(0, 5, -1);
    CHECK_ERROR("upper bound and lower bound inconsistent with step sign");
    cfx_arange(0, 1.0 / 0.0);
    CHECK_ERROR("unsupported range: 0 -> inf");
    cfx_arange(INT64_MIN, INT64_MAX, 1);
    CHECK_ERROR("invalid size, possible overflow?");
    cfx_linspace(0, 1, -1);
    CHECK_ERROR("number of steps must be non-negative");
}

TEST(to_gives_self_where_nothing_changes) {
    cfx_tensor *x = cfx_ones(cfx_list(2, 2));
    CHECK(cfx_to(x, cfx_f32) == x);
    CHECK(cfx_to(x, cfx_f32, cfx_bool(false), cfx_bool(true)) != x);
    CHECK_INT(cfx_tensor_dtype(cfx_to(x, cfx_zeros(cfx_list(1), CFX_KW(dtype, cfx_i64)))), CFX_I64);
    CHECK_INT(cfx_tensor_dtype(cfx_as_tensor(cfx_py("Tensor.half", x))), CFX_F16);
    CHECK_INT(cfx_tensor_dtype(cfx_as_tensor(cfx_py("Tensor.bool", x))), CFX_BOOL);
    CHECK(cfx_as_tensor(cfx_py("Tensor.cpu", x)) == x);
    CHECK(cfx_as_tensor(cfx_py("Tensor.to", x, "cpu")) == x);
    CHECK_INT(cfx_tensor_dtype(cfx_type_as(x, cfx_tensor(cfx_list(1)))), CFX_I64);
    CHECK_OK();
}

TEST(copy_broadcasts_and_converts) {
    cfx_tensor *x = cfx_zeros(cfx_list(2, 2), CFX_KW(dtype, cfx_i64));
    cfx_copy_(x, cfx_tensor(cfx_list(1.9, -1.9)));
    CHECK_STR(cfx_str(x), "tensor([[ 1, -1],\n        [ 1, -1]])");
    cfx_fill_(cfx_select(x, 1, 0), 5);
    cfx_fill_(cfx_select(x, 1, 1), cfx_scalar_tensor(6));
    CHECK_STR(cfx_str(x), "tensor([[5, 6],\n        [5, 6]])");
    cfx_zero_(cfx_select(x, 0, 0));
    CHECK_STR(cfx_str(x), "tensor([[0, 0],\n        [5, 6]])");
    CHECK_OK();
    cfx_copy_(x, cfx_zeros(cfx_list(3)));
    CHECK_ERROR("The size of tensor a (2) must match the size of tensor b (3) at non-singleton "
                "dimension 1");
    cfx_copy_(x, cfx_zeros(cfx_list(2, 2, 2)));
    CHECK_ERROR("output with shape [2, 2] doesn't match the broadcast shape [2, 2, 2]");
    cfx_copy_(cfx_slice(x, 0, 0, 1), cfx_zeros(cfx_list(1, 2)));
    cfx_tensor *line = cfx_arange(4);
    cfx_copy_(cfx_slice(line, 0, 1), cfx_slice(line, 0, 0, 3));
    CHECK_ERROR("some elements of the input tensor and the written-to tensor refer to a single "
                "memory location");
}

TEST(resize_keeps_what_fits) {
    cfx_tensor *x = cfx_arange(4), *view = cfx_slice(x, 0, 0, 2);
    cfx_resize_(x, cfx_list(2, 3));
    CHECK_STR(SHAPE(x), "[2, 3]");
    CHECK_NEAR(cfx_tensor_get(x, 3), 3, 0);
    CHECK_NEAR(cfx_tensor_get(view, 1), 1, 0);
    cfx_resize_(x, cfx_list(2));
    CHECK_STR(cfx_str(x), "tensor([0, 1])");
    cfx_set_(x, cfx_arange(3));
    CHECK_STR(cfx_str(x), "tensor([0, 1, 2])");
    CHECK_OK();
    cfx_resize_(x, cfx_list(-1));
    CHECK_ERROR("negative dimension");
    cfx_resize_(x, cfx_list(INT64_MAX));
    CHECK_ERROR("overflowed");
}

TEST(large_copies_turn_right) {
    static const cfx_dtype dtypes[] = {CFX_U8, CFX_F16, CFX_F32, CFX_F64, CFX_C128};
    for (int i = 0; i < 5; i++)
        CFX_SCOPE
    {
        cfx_tensor *x =
            cfx_to(cfx_view(cfx_arange(67 * 259), cfx_list(67, 259)), cfx_dtype_value(dtypes[i]));
        cfx_tensor *t = cfx_contiguous(cfx_t(x)), *back = cfx_contiguous(cfx_t(t));
        CHECK_STR(STRIDE(t), "[67, 1]");
        for (int64_t k = 0; k < 259 * 67; k += 83)
            CHECK_NEAR(cfx_tensor_get(t, k), cfx_tensor_get(x, k % 67 * 259 + k / 67), 0);
        CHECK(cfx_tensor_get(back, 1000) == cfx_tensor_get(x, 1000));
        cfx_tensor *f = cfx_contiguous(cfx_to(cfx_t(x), cfx_f64));
        CHECK_NEAR(cfx_tensor_get(f, 68), cfx_tensor_get(x, 260), 0);
    }
    cfx_tensor *y = cfx_view(cfx_arange(2 * 3 * 70 * 5), cfx_list(2, 3, 70, 5));
    cfx_tensor *p = cfx_contiguous(cfx_permute(y, cfx_list(3, 0, 2, 1)));
    for (int64_t k = 0; k < 2100; k++) {
        int64_t c = k % 3, h = k / 3 % 70, n = k / 210 % 2, w = k / 420;
        if (!CHECK_NEAR(cfx_tensor_get(p, k), (double)(((n * 3 + c) * 70 + h) * 5 + w), 0))
            break;
    }
    CHECK_OK();
}

TEST(questions_and_numbers) {
    cfx_tensor *x = cfx_t(cfx_zeros(cfx_list(2, 3)));
    CHECK_INT(cfx_integer(cfx_numel(x)), 6);
    CHECK_INT(cfx_integer(cfx_sym_size(x, -1)), 2);
    CHECK_INT(cfx_integer(cfx_sym_stride(x, 1)), 3);
    CHECK(!cfx_integer(cfx_is_contiguous(x)));
    CHECK(cfx_number(cfx_item(cfx_scalar_tensor(2.5))) == 2.5);
    CHECK(cfx_item(cfx_tensor(cfx_bool(true))).tag == CFX_TAG_BOOL);
    CHECK_INT(cfx_integer(cfx_result_type(x, cfx_tensor(cfx_list(1)))), CFX_F32);
    CHECK_OK();
    cfx_item(x);
    CHECK_ERROR("a Tensor with 6 elements cannot be converted to Scalar");
    cfx_item(cfx_tensor_fake(CFX_F32, 0, NULL, NULL));
    CHECK_ERROR("fake");
}

TEST(assertions_speak_for_themselves) {
    cfx_tensor *x = cfx_zeros(cfx_list(2, 3));
    cfx_aten__assert_tensor_metadata(x, cfx_list(2, 3), cfx_list(3, 1), cfx_f32);
    cfx_aten__assert_scalar(cfx_bool(true), "never");
    cfx_aten__assert_async(cfx_tensor(1), "never");
    cfx_sym_constrain_range(3, CFX_KW(min, 0), CFX_KW(max, 5));
    CHECK_OK();
    cfx_aten__assert_tensor_metadata(x, cfx_list(2, 2));
    CHECK_ERROR("Tensor sizes mismatch! Expected: [2, 2], Got: [2, 3]");
    cfx_aten__assert_tensor_metadata(x, CFX_NONE, CFX_NONE, cfx_f64);
    CHECK_ERROR("Tensor dtype mismatch! Expected: Double, Got: float");
    cfx_aten__assert_scalar(cfx_bool(false), "u0 <= 8");
    CHECK_ERROR("u0 <= 8");
    cfx_aten__assert_async(cfx_tensor(0), "must hold");
    CHECK_ERROR("must hold");
    cfx_sym_constrain_range(9, CFX_KW(min, 0), CFX_KW(max, 5));
    CHECK_ERROR("Invalid value range for 9 between [0, 5].");
}

TEST(one_hot_counts_classes) {
    CHECK_STR(cfx_str(cfx_one_hot(cfx_tensor(cfx_list(0, 2)))),
              "tensor([[1, 0, 0],\n        [0, 0, 1]])");
    CHECK_STR(SHAPE(cfx_one_hot(cfx_tensor_fake(CFX_I64, 1, (int64_t[]){4}, NULL), 7)), "[4, 7]");
    cfx_one_hot(cfx_tensor(cfx_list(1, 3)), 2);
    CHECK_ERROR("Class values must be smaller than num_classes.");
    cfx_one_hot(cfx_tensor(cfx_list(-1)));
    CHECK_ERROR("Class values must be non-negative.");
    CHECK_STR(cfx_str(cfx_vander(cfx_tensor(cfx_list(2, 3)), 3)),
              "tensor([[4, 2, 1],\n        [9, 3, 1]])");
    cfx_tensor *m = cfx_zeros(cfx_list(5, 2));
    cfx_fill_diagonal_(m, 1, cfx_bool(true));
    CHECK_STR(cfx_str(cfx_select(m, 1, 0)), "tensor([1., 0., 0., 1., 0.])");
}

/* The logarithm of a negative base turns by pi. */
TEST(complex_powers_have_any_base) {
    CHECK_STR(cfx_str(cfx_real(cfx_logspace(cfx_complex_value(1, 0), 3, 3, -2))),
              "tensor([-2.,  4., -8.])");
    CHECK_STR(cfx_str(cfx_logspace(cfx_complex_value(1, 0), 2, 2)), "tensor([ 10.+0.j, 100.+0.j])");
}

TEST(memory_that_nobody_has_set_is_zero) {
    CFX_SCOPE cfx_full(cfx_list(1000), 7.5); /* what may lie there */
    cfx_tensor *made[] = {cfx_empty(cfx_list(1000)), cfx_empty_like(cfx_ones(10, 100)),
                          cfx_new_empty(cfx_ones(2), cfx_list(1000)),
                          cfx_empty_strided(cfx_list(10, 100), cfx_list(1, 10))};
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(cfx_tensor_get(cfx_sum(cfx_abs(made[i])), 0), 0, 0);
    CHECK_OK();
}
