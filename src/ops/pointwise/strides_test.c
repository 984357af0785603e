/* Strides of results of pointwise operators, as PyTorch's kernels leave them. */
#include <cfx/ops.h>

#include "numbers.h"

/* Zeros of these strides. */
static cfx_tensor *laid_out(int n, const int64_t *shape, const int64_t *stride) {
    return cfx_as_strided(cfx_zeros(cfx_list(100)), cfx_ints_value(n, shape),
                          cfx_ints_value(n, stride));
}

/* A number beside a tensor is an operand of no dimensions, so sizes of 1 take their place by their
 * strides; but not in powers. What PyTorch makes by empty_like keeps the strides of a dense tensor
 * whatever they are. */
TEST(strides_where_a_size_is_one) {
    cfx_tensor *x = laid_out(3, (int64_t[]){2, 1, 3}, (int64_t[]){3, 9, 1});
    CHECK_STR(STRIDE(cfx_add(x, 1)), "[3, 6, 1]");
    CHECK_STR(STRIDE(cfx_gt(x, 0)), "[3, 6, 1]");
    CHECK_STR(STRIDE(cfx_relu(x)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_pow(x, 2)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_float_power(x, 2)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_clamp(x, 0)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_deg2rad(x)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_hardtanh(x)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_relu6(x)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_nan_to_num(x)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_isreal(x)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_isfinite(x)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_tensor_at(cfx_frexp(x), 0)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_tensor_at(cfx_sort(x), 1)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_aten__prelu_kernel(x, cfx_ones(cfx_list(1)))), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_isfinite(cfx_to(x, cfx_i64))), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_isinf(cfx_to(x, cfx_dtype_value(CFX_BOOL)))), "[3, 9, 1]");
    CHECK_OK();
}

TEST(strides_of_complex_numbers_where_a_size_is_one) {
    cfx_tensor *x =
        cfx_as_strided(cfx_zeros(cfx_list(100), CFX_KW(dtype, cfx_dtype_value(CFX_C64))),
                       cfx_list(2, 1, 3), cfx_list(3, 9, 1));
    CHECK_STR(STRIDE(cfx_abs(x)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_conj_physical(x)), "[3, 9, 1]");
    CHECK_STR(STRIDE(cfx_isreal(x)), "[3, 6, 1]");
    CHECK_STR(STRIDE(cfx_isinf(x)), "[3, 6, 1]");
    CHECK_STR(STRIDE(cfx_isfinite(x)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_angle(x)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_exp(x)), "[3, 3, 1]");
    CHECK_OK();
}

TEST(strides_where_a_size_is_zero) {
    cfx_tensor *x = laid_out(3, (int64_t[]){0, 1, 3}, (int64_t[]){6, 6, 2});
    CHECK_STR(STRIDE(cfx_add(x, 1)), "[3, 0, 1]");
    CHECK_STR(STRIDE(cfx_exp(x)), "[3, 3, 1]");
    CHECK_STR(STRIDE(cfx_hardtanh(x)), "[6, 6, 2]");
    CHECK_STR(STRIDE(cfx_mul(cfx_zeros(cfx_list(0, 1)), cfx_ones(cfx_list(1)))), "[1, 0]");
    CHECK_OK();
}

TEST(powers_of_a_number_are_contiguous) {
    cfx_tensor *x = cfx_permute(cfx_ones(cfx_list(2, 3, 4)), cfx_list(2, 0, 1));
    CHECK_STR(STRIDE(cfx_pow(2, x)), "[6, 3, 1]");
    CHECK_STR(STRIDE(cfx_float_power(2, x)), "[6, 3, 1]");
    CHECK_STR(STRIDE(cfx_pow(x, 2)), "[1, 12, 4]");
    CHECK_STR(STRIDE(cfx_pow(x, x)), "[1, 12, 4]");
    CHECK_OK();
}

TEST(a_weight_that_is_larger_than_what_it_weighs_gives_its_sizes) {
    cfx_tensor *x = cfx_neg(cfx_ones(cfx_list(2, 1)));
    cfx_tensor *y = cfx_aten__prelu_kernel(x, cfx_mul(cfx_ones(cfx_list(2, 3)), 0.5));
    CHECK_STR(SHAPE(y), "[2, 3]");
    CHECK(cfx_is_true(cfx_all(cfx_eq(y, -0.5))));
    CHECK_OK();
}
