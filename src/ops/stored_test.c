/* Operators on dtypes for storage: what PyTorch's kernels take is computed, the rest is refused by
 * the names of its kernels. Expected is what PyTorch 2.11 gave. */
#include "test.h"

static cfx_tensor *square(cfx_value dtype) {
    return cfx_to(cfx_reshape(cfx_arange(1, 5), cfx_list(2, 2)), dtype);
}

TEST(unsigned_integers_are_summed_ordered_and_compared) {
    cfx_tensor *x = square(cfx_u16),
               *big = cfx_to(cfx_tensor_from_value(cfx_list(1, -1, 7)), cfx_u64);
    CHECK_STR(cfx_str(cfx_sum(x)), "tensor(10)");
    CHECK_STR(cfx_str(cfx_prod(x)), "tensor(24)");
    CHECK_STR(cfx_str(cfx_cumsum(x, 0)), "tensor([[1, 2],\n        [4, 6]])");
    CHECK_STR(cfx_str(cfx_tensor_at(cfx_sort(big), 0)),
              "tensor([                   1,                    7, 18446744073709551615],\n"
              "       dtype=torch.uint64)");
    CHECK_STR(cfx_str(cfx_eq(x, 2)), "tensor([[False,  True],\n        [False, False]])");
    CHECK_STR(cfx_str(cfx_mul(x, x)), "tensor([[ 1,  4],\n        [ 9, 16]], dtype=torch.uint16)");
    CHECK_STR(cfx_str(cfx_bitwise_and(x, 2)),
              "tensor([[0, 2],\n        [2, 0]], dtype=torch.uint16)");
    CHECK_STR(cfx_str(cfx_add(x, 2.5)), "tensor([[3.5000, 4.5000],\n        [5.5000, 6.5000]])");
    CHECK_STR(cfx_str(cfx_sqrt(x)), "tensor([[1.0000, 1.4142],\n        [1.7321, 2.0000]])");
    CHECK_STR(cfx_str(cfx_floor(x)), "tensor([[1, 2],\n        [3, 4]], dtype=torch.uint16)");
    CHECK_STR(cfx_str(cfx_fill_(x, -1)),
              "tensor([[65535, 65535],\n        [65535, 65535]], dtype=torch.uint16)");
}

TEST(numbers_of_uint64_that_are_no_int64_are_no_items) {
    cfx_item(cfx_to(cfx_tensor_from_value(cfx_int(-2)), cfx_u64));
    CHECK_ERROR("the number 18446744073709551614 of a uint64 tensor is too large for an integer");
}

TEST(float8_is_multiplied) {
    cfx_tensor *x = square(cfx_f8e4m3fn);
    CHECK_STR(cfx_str(cfx_mm(x, x)),
              "tensor([[ 7., 10.],\n        [15., 22.]], dtype=torch.float8_e4m3fn)");
    CHECK_STR(cfx_str(cfx_mul(x, x)),
              "tensor([[ 1.,  4.],\n        [ 9., 16.]], dtype=torch.float8_e4m3fn)");
    CHECK_STR(cfx_str(cfx_abs(x)),
              "tensor([[1., 2.],\n        [3., 4.]], dtype=torch.float8_e4m3fn)");
    CHECK_STR(cfx_str(cfx_sum(x, CFX_KW(dtype, cfx_f32))), "tensor(10.)");
    CHECK_STR(cfx_str(cfx_any(x)), "tensor(True)");
    cfx_tensor *a = cfx_to(cfx_reshape(cfx_arange(1, 257), cfx_list(16, 16)), cfx_f8e4m3fn);
    cfx_tensor *y = cfx_aten__scaled_mm(a, cfx_t(a), cfx_tensor_from_value(cfx_float(0.5)),
                                        cfx_tensor_from_value(cfx_float(0.25)),
                                        CFX_KW(bias, cfx_ones(16)), CFX_KW(out_dtype, cfx_f32));
    CHECK(cfx_tensor_get(cfx_sum(y), 0) == 8474425);
}

TEST(complex32_is_added) {
    cfx_tensor *x = square(cfx_c32);
    CHECK_STR(cfx_str(cfx_add(x, x)),
              "tensor([[2.+0.j, 4.+0.j],\n        [6.+0.j, 8.+0.j]], dtype=torch.complex32)");
    CHECK_STR(cfx_str(cfx_abs(x)), "tensor([[1., 2.],\n        [3., 4.]], dtype=torch.float16)");
    CHECK_STR(cfx_str(cfx_real(x)), "tensor([[1., 2.],\n        [3., 4.]], dtype=torch.float16)");
    CHECK_STR(cfx_str(cfx_add(x, cfx_ones(2))),
              "tensor([[2.+0.j, 3.+0.j],\n        [4.+0.j, 5.+0.j]])");
}

TEST(what_kernels_do_not_take_is_refused_by_their_names) {
    cfx_tensor *f = square(cfx_f8e5m2), *u = square(cfx_u32), *c = square(cfx_c32);
    cfx_value index = CFX_V(cfx_tensor_from_value(cfx_list(cfx_list(0, 1))));
    cfx_add(f, f);
    CHECK_ERROR("\"add_stub\" not implemented for 'Float8_e5m2'");
    cfx_sub(u, 1);
    CHECK_ERROR("\"add_stub\" not implemented for 'UInt32'");
    cfx_sum(f);
    CHECK_ERROR("\"sum_cpu\" not implemented for 'Float8_e5m2'");
    cfx_mm(u, u);
    CHECK_ERROR("\"addmm_impl_cpu_\" not implemented for 'UInt32'");
    cfx_softmax(f, 0);
    CHECK_ERROR("\"softmax_kernel_impl\" not implemented for 'Float8_e5m2'");
    cfx_amax(u);
    CHECK_ERROR("\"max_values_cpu\" not implemented for 'UInt32'");
    cfx_gather(u, 0, index);
    CHECK_ERROR("\"scatter_gather_tensor_cpu\" not implemented for 'UInt32'");
    cfx_tril(u);
    CHECK_ERROR("\"tril\" not implemented for 'UInt32'");
    cfx_where(cfx_eq(u, u), u, u);
    CHECK_ERROR("\"where_cpu\" not implemented for 'UInt32'");
    cfx_lt(f, 1);
    CHECK_ERROR("\"lt_cpu\" not implemented for 'Float8_e5m2'");
    cfx_bmm(cfx_unsqueeze(c, 0), cfx_unsqueeze(c, 0));
    CHECK_ERROR("\"bmm\" not implemented for 'ComplexHalf'");
    cfx_fill_(f, 1e6);
    CHECK_ERROR("value cannot be converted to type c10::Float8_e5m2 without overflow");
    cfx_where(cfx_ones(2, CFX_KW(dtype, cfx_b8)), 300, cfx_zeros(2, CFX_KW(dtype, cfx_u8)));
    CHECK_ERROR("value cannot be converted to type uint8_t without overflow");
    cfx_arange(4, CFX_KW(dtype, cfx_u16));
    CHECK_ERROR("\"arange_cpu\" not implemented for 'UInt16'");
}
