/* CTC loss: numbers that can be counted by hand. */
#include "test.h"

#include <math.h>

/* Every one of `classes` as likely as the others, at each of `time` steps. */
static cfx_tensor *even(int64_t time, int64_t batch, int64_t classes) {
    return cfx_full(cfx_list(time, batch, classes), -log((double)classes));
}

TEST(ctc_counts_the_ways_to_spread_a_target) {
    cfx_tensor *a = cfx_tensor_from_value(cfx_list(cfx_list(1))); /* aa, -a, a- */
    cfx_tensor *loss = cfx_ctc_loss(even(2, 1, 3), a, cfx_list(2), cfx_list(1));
    CHECK_STR(cfx_str(loss), "tensor(1.0986)");
    cfx_tensor *twice = cfx_tensor_from_value(cfx_list(cfx_list(1, 1))); /* a-a alone */
    loss = cfx_ctc_loss(even(3, 1, 3), twice, cfx_list(3), cfx_list(2), 0, 2);
    CHECK_STR(cfx_str(loss), "tensor(3.2958)");
    CHECK_STR(cfx_str(cfx_ctc_loss(even(3, 1, 3), twice, cfx_list(3), cfx_list(2))),
              "tensor(1.6479)");
    loss = cfx_ctc_loss(even(2, 1, 3), twice, cfx_list(2), cfx_list(2), 0, 0);
    CHECK_STR(cfx_str(loss), "tensor([inf])");
    loss = cfx_ctc_loss(even(2, 1, 3), twice, cfx_list(2), cfx_list(2), 0, 0, true);
    CHECK_STR(cfx_str(loss), "tensor([0.])");
}

TEST(ctc_takes_targets_behind_each_other_and_lengths_as_tensors) {
    cfx_tensor *flat = cfx_tensor_from_value(cfx_list(1, 1, 1));
    cfx_tensor *lengths = cfx_tensor_from_value(cfx_list(1, 2));
    cfx_tensor *loss = cfx_ctc_loss(even(3, 2, 3), flat, cfx_tensor_from_value(cfx_list(2, 3)),
                                    lengths, 0, 0);
    CHECK_STR(cfx_str(loss), "tensor([1.0986, 3.2958])");
    cfx_ctc_loss(even(3, 2, 3), flat, cfx_list(4, 3), cfx_list(1, 2));
    CHECK_ERROR("Expected input_lengths to have value at most 3, but got value 4 (while checking "
                "arguments for ctc_loss)");
    cfx_ctc_loss(even(3, 1, 3), cfx_tensor_from_value(cfx_list(5)), cfx_list(3), cfx_list(1));
    CHECK_ERROR("ctc_loss: label 5 is not among 3 classes");
}

TEST(the_gradient_of_ctc_is_what_is_likely_less_what_is_wanted) {
    cfx_tensor *p = cfx_requires_grad(even(2, 1, 3), true);
    cfx_tensor *a = cfx_tensor_from_value(cfx_list(cfx_list(1)));
    cfx_backward(cfx_ctc_loss(p, a, cfx_list(2), cfx_list(1), 0, 2));
    cfx_tensor *row = cfx_tensor_from_value(cfx_list(cfx_list(0.0, -1.0 / 3, 1.0 / 3)));
    CHECK(cfx_integer(cfx_allclose(cfx_tensor_grad(p), cfx_expand_as(row, p), 0, 1e-6)));
}
