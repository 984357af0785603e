/* Sorting, selecting, searching, counting, and losses over classes. */
#include "numbers.h"

#include <cfx/ops.h>
#include <math.h>

#define LIST(...) cfx_tensor_from_value(cfx_list(__VA_ARGS__))
#define STR(t) cfx_tensor_str(t)

/* n numbers that look random, some of them equal. */
static cfx_tensor *noise(int64_t n) {
    float data[4096];
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)test_draw(500) / 8.f - 30.f;
    return cfx_tensor_new(CFX_F32, 1, &n, data);
}

TEST(sort_is_stable_both_ways) {
    for (int64_t n = 1; n <= 4096; n = n * 3 + 1)
        for (int down = 0; down < 2; down++) {
            cfx_tensor *x = noise(n);
            cfx_value pair = cfx_sort(x, 0, cfx_bool(down));
            cfx_tensor *v = cfx_tensor_at(pair, 0), *at = cfx_tensor_at(pair, 1);
            for (int64_t i = 0; i < n; i++) {
                CHECK(cfx_tensor_get(x, (int64_t)cfx_tensor_get(at, i)) == cfx_tensor_get(v, i));
                if (i == 0)
                    continue;
                double a = cfx_tensor_get(v, i - 1), b = cfx_tensor_get(v, i);
                CHECK(down ? a >= b : a <= b);
                CHECK(a != b || cfx_tensor_get(at, i - 1) < cfx_tensor_get(at, i));
            }
        }
    CHECK_OK();
}

TEST(sort_of_nan_and_zeros) {
    cfx_tensor *x = LIST(NAN, 0.0, -0.0, -INFINITY, 2.0);
    CHECK_STR(STR(cfx_tensor_at(cfx_sort(x), 1)), "tensor([3, 1, 2, 4, 0])");
    CHECK_STR(STR(cfx_argsort(x, 0, true)), "tensor([0, 4, 1, 2, 3])");
    cfx_tensor *t = cfx_transpose(cfx_zeros(cfx_list(2, 3)), 0, 1);
    CHECK_STR(STRIDE(cfx_tensor_at(cfx_sort(t, 0), 0)), "[1, 3]");
    CHECK_OK();
    cfx_sort(x, 1);
    CHECK_ERROR("Dimension out of range (expected to be in range of [-1, 0], but got 1)");
}

TEST(topk_gives_what_sort_gives) {
    for (int64_t n = 10; n <= 4000; n *= 20)
        for (int64_t k = 1; k <= n; k = k * 5 + 1) {
            cfx_tensor *x = noise(n), *sorted = cfx_tensor_at(cfx_sort(x, 0, true), 0);
            cfx_value top = cfx_topk(x, k), low = cfx_topk(x, k, 0, false);
            cfx_tensor *values = cfx_tensor_at(top, 0), *at = cfx_tensor_at(top, 1);
            for (int64_t i = 0; i < k; i++) {
                double want = cfx_tensor_get(sorted, i);
                CHECK_NEAR(cfx_tensor_get(values, i), want, 0);
                CHECK_NEAR(cfx_tensor_get(x, (int64_t)cfx_tensor_get(at, i)), want, 0);
                CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(low, 0), i),
                           cfx_tensor_get(sorted, n - 1 - i), 0);
            }
            cfx_value kth = cfx_kthvalue(x, k);
            CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(kth, 0), 0), cfx_tensor_get(sorted, n - k), 0);
        }
    CHECK_OK();
    cfx_topk(LIST(1.0), 2);
    CHECK_ERROR("selected index k out of range");
    cfx_kthvalue(LIST(1.0), 0);
    CHECK_ERROR("kthvalue(): selected number k out of range for dimension 0");
}

TEST(medians_and_modes) {
    cfx_tensor *x = LIST(4.0, 1.0, 1.0, 3.0), *nan = LIST(NAN, 2.0, 1.0);
    CHECK_STR(STR(cfx_median(x)), "tensor(1.)");
    CHECK_STR(STR(cfx_median(nan)), "tensor(nan)");
    CHECK_STR(STR(cfx_nanmedian(nan)), "tensor(1.)");
    CHECK_STR(STR(cfx_median(cfx_zeros(cfx_list(0)))), "tensor(nan)");
    CHECK_STR(STR(cfx_tensor_at(cfx_mode(x), 0)), "tensor(1.)");
    CHECK_STR(STR(cfx_tensor_at(cfx_mode(x), 1)), "tensor(2)");
    CHECK_STR(STR(cfx_quantile(x, 0.5)), "tensor(2.)");
    CHECK_STR(STR(cfx_quantile(x, LIST(0.0, 1.0))), "tensor([1., 4.])");
    CHECK_STR(STR(cfx_nanquantile(nan, 1.0)), "tensor(2.)");
    CHECK_OK();
    cfx_quantile(x, 2.0);
    CHECK_ERROR("quantile() q must be in the range [0, 1] but got 2");
}

TEST(unique_elements_and_rows) {
    cfx_value u = cfx_aten__unique2(LIST(3, 1, 3, 2), true, true, true);
    CHECK_STR(STR(cfx_tensor_at(u, 0)), "tensor([1, 2, 3])");
    CHECK_STR(STR(cfx_tensor_at(u, 1)), "tensor([2, 0, 2, 1])");
    CHECK_STR(STR(cfx_tensor_at(u, 2)), "tensor([1, 1, 2])");
    u = cfx_unique_consecutive(LIST(1, 1, 2, 1), false, true);
    CHECK_STR(STR(cfx_tensor_at(u, 0)), "tensor([1, 2, 1])");
    CHECK_STR(STR(cfx_tensor_at(u, 2)), "tensor([2, 1, 1])");
    u = cfx_unique_consecutive(LIST(1, 1, 2, 1), false, true, 0); /* of a vector: its elements */
    CHECK_STR(STR(cfx_tensor_at(u, 1)), "tensor([], dtype=torch.int64)");
    CHECK_STR(STR(cfx_tensor_at(u, 2)), "tensor([2, 1, 1])");
    cfx_tensor *m = LIST(cfx_list(2, 0), cfx_list(1, 5), cfx_list(2, 0));
    CHECK_STR(STR(cfx_tensor_at(cfx_unique_dim(m, 0), 0)), "tensor([[1, 5],\n        [2, 0]])");
    CHECK_OK();
    cfx_unique_dim(cfx_zeros(cfx_list(2, 0)), 0);
    CHECK_ERROR("There are 0 sized dimensions, and they aren't selected, so unique cannot be "
                "applied");
    cfx_unique_dim(cfx_tensor_fake(CFX_F32, 2, (int64_t[]){3, 2}, NULL), 1);
    CHECK_ERROR("depends on data");
    cfx_aten__unique2(cfx_tensor_fake(CFX_F32, 1, (int64_t[]){3}, NULL));
    CHECK_ERROR("depends on data");
}

TEST(search_in_sorted_sequences) {
    cfx_tensor *edges = LIST(1, 3, 3, 5), *x = LIST(cfx_list(0, 3), cfx_list(5, 9));
    CHECK_STR(STR(cfx_searchsorted(edges, x)), "tensor([[0, 1],\n        [3, 4]])");
    CHECK_STR(STR(cfx_bucketize(x, edges, CFX_KW(right, cfx_bool(true)))),
              "tensor([[0, 3],\n        [4, 4]])");
    CHECK_STR(STR(cfx_searchsorted(edges, 2)), "tensor(1)");
    cfx_tensor *tenth = LIST(0.1); /* a number is compared as one of the tensor's dtype */
    CHECK_STR(STR(cfx_searchsorted(cfx_to(tenth, cfx_f16), 0.1)), "tensor(0)");
    CHECK_STR(STR(cfx_searchsorted(cfx_zeros(1, CFX_KW(dtype, cfx_f64)), 1e-300)), "tensor(1)");
    CHECK_STR(STR(cfx_isin(1e-300, cfx_zeros(1, CFX_KW(dtype, cfx_f64)))), "tensor(False)");
    cfx_tensor *order = LIST(1, 0, 2);
    CHECK_STR(STR(cfx_searchsorted(LIST(3, 1, 5), LIST(3), CFX_KW(sorter, order))), "tensor([1])");
    CHECK_STR(STR(cfx_isin(x, LIST(9, 0))), "tensor([[ True, False],\n        [False,  True]])");
    CHECK_OK();
    cfx_searchsorted(LIST(3, 1), LIST(3), CFX_KW(sorter, LIST(7, 0)));
    CHECK_ERROR("torch.searchsorted(): sorter index out of range");
    cfx_bucketize(x, x);
    CHECK_ERROR("boundaries tensor must be 1 dimension, but got dim(2)");
}

TEST(histograms_and_counts) {
    cfx_tensor *x = LIST(0.0, 0.5, 1.0, 2.0, NAN);
    CHECK_STR(STR(cfx_histc(x, 2, 0, 2)), "tensor([2., 2.])");
    CHECK_STR(STR(cfx_bincount(LIST(0, 2, 2), CFX_NONE, 4)), "tensor([1, 0, 2, 0])");
    CHECK_STR(STR(cfx_bincount(LIST(0, 1), LIST(0.5, 2.0))), "tensor([0.5000, 2.0000])");
    cfx_value h = cfx_histogram(LIST(1.0, 2.0, 4.0), LIST(0.0, 2.0, 4.0));
    CHECK_STR(STR(cfx_tensor_at(h, 0)), "tensor([1., 2.])");
    cfx_tensor *points = LIST(cfx_list(0.0, 0.0), cfx_list(1.0, 1.0));
    cfx_value dd = cfx_histogramdd(points, cfx_list(2, 2));
    CHECK_STR(STR(cfx_tensor_at(dd, 0)), "tensor([[1., 0.],\n        [0., 1.]])");
    CHECK_STR(STR(cfx_segment_reduce(LIST(1.0, 2.0, 5.0), "mean", CFX_KW(lengths, LIST(2, 0, 1)))),
              "tensor([1.5000,    nan, 5.0000])");
    /* a dim of one element may have any stride */
    cfx_tensor *odd = cfx_tensor_view(points, 2, (int64_t[]){1, 2}, (int64_t[]){9, 1}, 2);
    CHECK_STR(STR(cfx_segment_reduce(odd, "sum", CFX_KW(lengths, LIST(1)))), "tensor([[1., 1.]])");
    CHECK_OK();
    cfx_bincount(LIST(-1));
    CHECK_ERROR("bincount only supports 1-d non-negative integral inputs.");
    cfx_histc(x, 0);
    CHECK_ERROR("bins must be > 0, but got 0");
    cfx_segment_reduce(LIST(1.0, 2.0), "sum", CFX_KW(lengths, LIST(1, 7)));
    CHECK_ERROR("segment_reduce(): Expected all rows of lengths along axis to sum to");
    cfx_tensor *ones = LIST(1.0, 1.0), *two = LIST(2);
    cfx_segment_reduce(ones, "prod", CFX_KW(lengths, two),
                       CFX_KW(initial, cfx_complex_value(1, 2)));
    CHECK_ERROR("value cannot be converted to type double without overflow");
    cfx_aten__segment_reduce_backward(LIST(1.0), LIST(1.0), ones, "sum", CFX_KW(lengths, two),
                                      CFX_KW(initial, cfx_complex_value(1, 2)));
    CHECK_ERROR("value cannot be converted to type double without overflow");
}

TEST(differences_and_closeness) {
    CHECK_STR(STR(cfx_diff(LIST(1, 4, 9, 16))), "tensor([3, 5, 7])");
    CHECK_STR(STR(cfx_diff(LIST(1, 4, 9, 16), 2)), "tensor([2, 2])");
    CHECK_STR(SHAPE(cfx_diff(LIST(1, 4), 9)), "[0]");
    CHECK(cfx_integer(cfx_equal(LIST(1, 2), LIST(1, 2))));
    CHECK(!cfx_integer(cfx_equal(LIST(1, 2), LIST(1))));
    CHECK(cfx_integer(cfx_allclose(LIST(1.0), LIST(1.0 + 1e-7))));
    CHECK_OK();
    cfx_diff(cfx_sum(LIST(1)));
    CHECK_ERROR("diff expects input to be at least one-dimensional");
}

TEST(losses_over_classes) {
    cfx_tensor *x = LIST(cfx_list(1.0, 2.0, 0.0), cfx_list(0.0, 0.0, 5.0)), *t = LIST(1, 2);
    cfx_tensor *loss = cfx_cross_entropy_loss(x, t);
    double want = (log(exp(1) + exp(2) + 1) - 2 + log(2 + exp(5)) - 5) / 2;
    CHECK_NEAR(cfx_tensor_get(loss, 0), want, 1e-6);
    cfx_tensor *hot = LIST(cfx_list(0.0, 1.0, 0.0), cfx_list(0.0, 0.0, 1.0));
    CHECK_NEAR(cfx_tensor_get(cfx_cross_entropy_loss(x, hot), 0), want, 1e-6);
    /* an ignored target leaves the other one alone */
    loss = cfx_cross_entropy_loss(x, LIST(1, -100));
    CHECK_NEAR(cfx_tensor_get(loss, 0), log(exp(1) + exp(2) + 1) - 2, 1e-6);
    /* images are rows of places */
    cfx_tensor *image = cfx_expand(cfx_view(x, cfx_list(2, 3, 1, 1)), cfx_list(2, 3, 2, 2));
    cfx_tensor *targets = cfx_expand(cfx_view(t, cfx_list(2, 1, 1)), cfx_list(2, 2, 2));
    CHECK_NEAR(cfx_tensor_get(cfx_cross_entropy_loss(image, targets), 0), want, 1e-6);
    CHECK_STR(STR(cfx_multi_margin_loss(x, t)), "tensor(0.)");
    CHECK_OK();
    cfx_nll_loss_nd(x, LIST(0, 5));
    CHECK_ERROR("Target 5 is out of bounds.");
    cfx_nll_loss_nd(x, LIST(0));
    CHECK_ERROR("Expected input batch_size (2) to match target batch_size (1).");
    cfx_cross_entropy_loss(x, cfx_to(hot, cfx_i64));
    CHECK_ERROR("Expected floating point type for target with class probabilities, got Long");
    cfx_multi_margin_loss(x, LIST(0, 3));
    CHECK_ERROR("target out of range");
}
