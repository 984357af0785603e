/* FLOPs of single calls: the numbers are those of PyTorch's flop_counter. */
#include "test.h"

static cfx_tensor *sized(int ndim, const int64_t *shape) {
    return cfx_tensor_new(CFX_F32, ndim, shape, NULL);
}

#define SIZED(...)                                                                                 \
    sized((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define FLOPS(name, ...) cfx_op_flops(CFX_HERE, cfx_op_find(name), CFX_ARGS(__VA_ARGS__))

TEST(products_count_two_for_each_multiplication) {
    CHECK_INT(FLOPS("mm", SIZED(3, 5), SIZED(5, 7)), 2 * 3 * 5 * 7);
    CHECK_INT(FLOPS("addmm", SIZED(7), SIZED(3, 5), SIZED(5, 7)), 2 * 3 * 5 * 7);
    CHECK_INT(FLOPS("addmm_", SIZED(3, 7), SIZED(3, 5), SIZED(5, 7)), 2 * 3 * 5 * 7);
    CHECK_INT(FLOPS("bmm", SIZED(2, 3, 5), SIZED(2, 5, 7)), 2 * 2 * 3 * 5 * 7);
    CHECK_INT(FLOPS("baddbmm", SIZED(2, 3, 7), SIZED(2, 3, 5), SIZED(2, 5, 7)), 2 * 2 * 3 * 5 * 7);
    CHECK_INT(FLOPS("mm", SIZED(3, 0), SIZED(0, 7)), 0);
    CHECK_INT(FLOPS("relu", SIZED(3, 5)), 0);
    CHECK_INT(FLOPS("mv", SIZED(3, 5), SIZED(5)), 0);
}

TEST(composite_operators_count_what_they_are_decomposed_to) {
    CHECK_INT(FLOPS("linear", SIZED(4, 3, 5), SIZED(7, 5), SIZED(7)), 2 * 4 * 3 * 5 * 7);
    CHECK_INT(FLOPS("matmul", SIZED(4, 2, 3, 5), SIZED(5, 7)), 2 * 4 * 2 * 3 * 5 * 7);
    CHECK_INT(FLOPS("einsum", "bij,bjk->bik", cfx_list(SIZED(2, 3, 5), SIZED(2, 5, 7))),
              2 * 2 * 3 * 5 * 7);
    CHECK_INT(FLOPS("flatten.using_ints", SIZED(2, 3)), 0);
}

TEST(convolutions_count_by_weights_and_places) {
    CHECK_INT(FLOPS("conv2d", SIZED(2, 3, 8, 8), SIZED(6, 3, 3, 3)), 2 * 2 * 6 * 6 * 6 * 3 * 9);
    CHECK_INT(FLOPS("conv2d", SIZED(2, 4, 8, 8), SIZED(6, 2, 3, 3), NULL, 1, 1, 1, 2),
              2 * 2 * 8 * 8 * 6 * 2 * 9);
    CHECK_INT(FLOPS("conv_transpose1d", SIZED(2, 3, 8), SIZED(3, 5, 4)), 2 * 2 * 8 * 3 * 5 * 4);
    cfx_value one = cfx_list(1, 1), none = cfx_list(0, 0);
    CHECK_INT(FLOPS("convolution_backward", SIZED(2, 6, 6, 6), SIZED(2, 3, 8, 8),
                    SIZED(6, 3, 3, 3), NULL, one, none, one, false, none, 1, cfx_list(1, 1, 0)),
              2 * 2 * 2 * 6 * 6 * 6 * 3 * 9);
}

TEST(attention_counts_its_two_products) {
    CHECK_INT(FLOPS("scaled_dot_product_attention", SIZED(2, 4, 10, 8), SIZED(2, 4, 12, 8),
                    SIZED(2, 4, 12, 8)),
              2 * 2 * 2 * 4 * 10 * 12 * 8);
    CHECK_INT(FLOPS("_scaled_dot_product_flash_attention_for_cpu_backward", SIZED(2, 4, 10, 8),
                    SIZED(2, 4, 10, 8), SIZED(2, 4, 12, 8), SIZED(2, 4, 12, 8),
                    SIZED(2, 4, 10, 8), SIZED(2, 4, 10), 0.0, false),
              5 * 2 * 2 * 4 * 10 * 12 * 8);
}

TEST(flops_of_a_call_that_would_fail) {
    CHECK_INT(FLOPS("mm", SIZED(3, 5), SIZED(4, 7)), -1);
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (3x5 and 4x7)");
}

TEST(flops_that_do_not_fit_are_the_largest_number) {
    cfx_set_fake_mode(true);
    cfx_tensor *much = cfx_empty(cfx_list(1 << 26, 1 << 26));
    cfx_set_fake_mode(false);
    CHECK_INT(FLOPS("mm", much, much), INT64_MAX);
}
