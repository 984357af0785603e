/* Random operators draw PyTorch's numbers: those of its CPU generator after manual_seed(0). */
#include <cfx/ops.h>

#include "test.h"

TEST(constructors_draw_pytorchs_streams) {
    cfx_manual_seed(0);
    CHECK_NEAR(cfx_tensor_get(cfx_rand(cfx_list(5)), 4), 0.30742281675338745, 1e-9);
    cfx_manual_seed(0);
    CHECK_NEAR(cfx_tensor_get(cfx_randn(cfx_list(5)), 2), -2.1787893772125244, 1e-7);
    cfx_manual_seed(0);
    CHECK_NEAR(cfx_tensor_get(cfx_randn(cfx_list(16)), 0), -1.1258398294448853, 1e-7);
    cfx_manual_seed(0);
    CHECK_STR(cfx_str(cfx_randint(0, 100, cfx_list(4))), "tensor([44, 39, 33, 60])");
    cfx_manual_seed(0);
    CHECK_STR(cfx_str(cfx_randperm(4)), "tensor([0, 1, 3, 2])");
    CHECK_OK();
}

TEST(in_place_and_functional_forms_agree) {
    cfx_tensor *x = cfx_zeros(cfx_list(3, 4)), *y = cfx_zeros(cfx_list(4, 3));
    cfx_manual_seed(1);
    cfx_uniform_(x, -2.0, 3.0);
    cfx_manual_seed(1);
    CHECK_STR(cfx_str(cfx_uniform(x, -2.0, 3.0)), cfx_str(x));
    cfx_manual_seed(1);
    cfx_uniform_(cfx_t(y), -2.0, 3.0);
    CHECK_STR(cfx_str(cfx_flatten(y)), cfx_str(cfx_flatten(x)));
    cfx_manual_seed(2);
    cfx_normal_(x, 1.0, 0.5);
    cfx_manual_seed(2);
    CHECK_STR(cfx_str(cfx_normal(1.0, 0.5, cfx_list(3, 4))), cfx_str(x));
    cfx_manual_seed(2);
    cfx_tensor *mean = cfx_ones(cfx_list(3, 4));
    CHECK_NEAR(cfx_tensor_get(cfx_normal(mean, 0.5), 7), cfx_tensor_get(x, 7), 1e-6);
    CHECK_OK();
}

TEST(coins_and_samples) {
    CHECK_STR(cfx_str(cfx_bernoulli(cfx_tensor(cfx_list(0.0, 1.0)))), "tensor([0., 1.])");
    CHECK_STR(cfx_str(cfx_bernoulli(cfx_zeros(cfx_list(2)), 1.0)), "tensor([1., 1.])");
    cfx_tensor *b = cfx_empty(cfx_list(3), CFX_KW(dtype, cfx_b8));
    cfx_py("Tensor.bernoulli_", b, 1.0);
    CHECK_STR(cfx_str(b), "tensor([True, True, True])");
    CHECK_STR(cfx_str(cfx_multinomial(cfx_tensor(cfx_list(0.0, 1.0)), 1)), "tensor([1])");
    cfx_tensor *x = cfx_zeros(cfx_list(50), CFX_KW(dtype, cfx_i64));
    cfx_random_(x, 5, 7);
    for (int64_t i = 0; i < 50; i++)
        CHECK(cfx_tensor_get(x, i) == 5 || cfx_tensor_get(x, i) == 6);
    CHECK_OK();
}

TEST(random_operators_check_their_arguments) {
    cfx_rand(cfx_list(2), CFX_KW(dtype, cfx_i64));
    CHECK_ERROR("not implemented for 'Long'");
    cfx_randint(5, 5, cfx_list(2));
    CHECK_ERROR("random_ expects 'from' to be less than 'to', but got from=5 >= to=5");
    cfx_randperm(-1);
    CHECK_ERROR("n must be non-negative, got-1");
    cfx_multinomial(cfx_ones(cfx_list(2)), 3);
    CHECK_ERROR("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    cfx_uniform_(cfx_zeros(cfx_list(2)), 1.0, 0.0);
    CHECK_ERROR("uniform_ expects to return a [from, to) range, but found from=1 > to=0");
    cfx_normal_(cfx_expand(cfx_zeros(cfx_list(1)), cfx_list(3)));
    CHECK_ERROR("more than one element of the written-to tensor");
    bool before = cfx_set_fake_mode(true);
    CHECK(cfx_tensor_is_fake(cfx_rand(cfx_list(2, 3))));
    cfx_set_fake_mode(before);
    CHECK_OK();
}
