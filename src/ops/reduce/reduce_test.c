/* Reductions: each against its definition over all kinds of layouts, and PyTorch's messages. */
#include "numbers.h"

#include <cfx/ops.h>
#include <math.h>
#include <stdlib.h>

#define NUMBERS(...) cfx_tensor_from_value(cfx_list(__VA_ARGS__))
#define STR(t) cfx_tensor_str(t)

#define NOISE(...)                                                                                 \
    test_noise(CFX_F32, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
               (int64_t[]){__VA_ARGS__})

/* ---- definitions ----------------------------------------------------------------------------- */

typedef struct {
    double sum, squares, largest, count, cubes;
} folded;

/* What the elements of x, which has three dims, fold to when the dims of the mask go away. */
static void fold_plain(const cfx_tensor *x, unsigned mask, folded *out) {
    const int64_t *s = cfx_tensor_shape(x);
    int64_t kept[3];
    for (int d = 0; d < 3; d++)
        kept[d] = mask >> d & 1 ? 1 : s[d];
    for (int64_t i = 0; i < kept[0] * kept[1] * kept[2]; i++)
        out[i] = (folded){0, 0, -INFINITY, 0, 0};
    for (int64_t i = 0; i < cfx_tensor_numel(x); i++) {
        int64_t at[3] = {i / (s[1] * s[2]), i / s[2] % s[1], i % s[2]}, to = 0;
        for (int d = 0; d < 3; d++)
            to = to * kept[d] + (mask >> d & 1 ? 0 : at[d]);
        double v = cfx_tensor_get(x, i);
        out[to].sum += v;
        out[to].squares += v * v;
        out[to].largest = fmax(out[to].largest, v);
        out[to].cubes += pow(fabs(v), 3);
        out[to].count++;
    }
}

static void check_result(const cfx_tensor *got[6], int64_t i, folded w, double tol) {
    double mean = w.sum / w.count, scale = sqrt(w.count);
    CHECK_NEAR(cfx_tensor_get(got[0], i), w.sum, tol * scale * 4);
    CHECK_NEAR(cfx_tensor_get(got[1], i), mean, tol);
    CHECK_NEAR(cfx_tensor_get(got[2], i), w.largest, tol);
    CHECK_NEAR(cfx_tensor_get(got[3], i), sqrt(w.squares), tol * scale);
    CHECK_NEAR(cfx_tensor_get(got[4], i), cbrt(w.cubes), tol * scale);
    if (w.count > 1)
        CHECK_NEAR(cfx_tensor_get(got[5], i), (w.squares - w.count * mean * mean) / (w.count - 1),
                   tol);
}

static void check_against_plain(const cfx_tensor *x, double tol) {
    for (unsigned mask = 1; mask < 8; mask++)
        CFX_SCOPE {
            int64_t dims[3];
            int n = 0;
            for (int d = 0; d < 3; d++)
                if (mask >> d & 1)
                    dims[n++] = d;
            cfx_value list = cfx_ints_value(n, dims);
            const cfx_tensor *got[6] = {cfx_sum(x, list),
                                        cfx_mean(x, list, true),
                                        cfx_amax(x, list),
                                        cfx_linalg_vector_norm(x, 2, list),
                                        cfx_linalg_vector_norm(x, 3, list),
                                        cfx_var(x, list)};
            int64_t outs = cfx_tensor_numel(got[0]);
            folded *want = malloc((size_t)outs * sizeof *want);
            fold_plain(x, mask, want);
            for (int64_t i = 0; i < outs; i++)
                check_result(got, i, want[i], tol);
            free(want);
        }
    CHECK_OK();
}

/* As in PyTorch, which computes in double precision. */
TEST(variance_of_floats_whose_squares_are_none) {
    cfx_tensor *x = cfx_zeros(cfx_list(7, 9));
    cfx_fill_(cfx_select(cfx_select(x, 0, 2), 0, 3), -1e20);
    CHECK_NEAR(cfx_tensor_get(cfx_var(x), 0) / 1e38, 1.587302, 1e-5);
    CHECK_NEAR(cfx_tensor_get(cfx_var(cfx_view(x, cfx_list(63, 1)), 0), 0) / 1e38, 1.587302, 1e-5);
    cfx_tensor *twice = cfx_stack(cfx_list(x, x), 2);
    CHECK_NEAR(cfx_tensor_get(cfx_var(cfx_view(twice, cfx_list(63, 2)), 0), 1) / 1e38, 1.587302,
               1e-5);
    CHECK(isinf(cfx_tensor_get(cfx_var(cfx_mul(x, 1e10)), 0)));
    CHECK_OK();
}

TEST(reductions_fold_any_layout) {
    cfx_tensor *x = NOISE(7, 33, 40);
    check_against_plain(x, 1e-5);
    check_against_plain(cfx_permute(x, cfx_list(2, 0, 1)), 1e-5);
    check_against_plain(cfx_permute(x, cfx_list(1, 2, 0)), 1e-5);
    check_against_plain(cfx_slice(cfx_slice(x, 2, 1, 40, 3), 1, 0, 33, 2), 1e-5);
    check_against_plain(cfx_expand(NOISE(1, 9, 1), cfx_list(4, 9, 5)), 1e-5);
}

TEST(reductions_of_narrow_and_of_long_inputs) {
    check_against_plain(NOISE(1, 3000, 3), 1e-5);
    check_against_plain(NOISE(1, 400, 1100), 1e-5);
    check_against_plain(NOISE(2, 3, 30000), 1e-5);
    check_against_plain(cfx_permute(NOISE(3, 30000, 1), cfx_list(1, 0, 2)), 1e-5);
}

TEST(reductions_convert_as_they_go) {
    cfx_tensor *x = NOISE(5, 60, 31);
    check_against_plain(cfx_to(x, cfx_f64), 1e-9);
    check_against_plain(cfx_to(x, cfx_f16), 1e-2);
    check_against_plain(cfx_to(cfx_permute(x, cfx_list(2, 1, 0)), cfx_bf16), 8e-2);
}

TEST(results_do_not_depend_on_threads) {
    cfx_tensor *x = NOISE(3, 501, 97), *t = cfx_permute(x, cfx_list(2, 1, 0));
    cfx_set_num_threads(1);
    cfx_tensor *a = cfx_sum(x), *b = cfx_sum(t, cfx_list(1)), *c = cfx_std(x);
    cfx_set_num_threads(4);
    CHECK(cfx_tensor_get(cfx_sum(x), 0) == cfx_tensor_get(a, 0));
    CHECK(cfx_tensor_get(cfx_sum(t, cfx_list(1)), 5) == cfx_tensor_get(b, 5));
    CHECK(cfx_tensor_get(cfx_std(x), 0) == cfx_tensor_get(c, 0));
}

TEST(a_long_sum_stays_exact) {
    int64_t n = 1 << 22;
    cfx_tensor *x = cfx_full(cfx_ints_value(1, &n), 0.1);
    CHECK_NEAR(cfx_tensor_get(cfx_sum(x), 0), 0.1f * (double)n, 0.25);
    CHECK_NEAR(cfx_tensor_get(cfx_mean(x), 0), 0.1, 1e-7);
    CHECK_OK();
}

/* ---- dtypes, shapes, empty tensors ----------------------------------------------------------- */

TEST(reductions_have_pytorchs_dtypes) {
    cfx_tensor *ints = NUMBERS(1, 2, 3), *truth = cfx_gt(ints, 1);
    CHECK_STR(STR(cfx_sum(cfx_to(ints, cfx_i32))), "tensor(6)");
    CHECK_STR(STR(cfx_sum(truth)), "tensor(2)");
    CHECK_STR(STR(cfx_sum(NUMBERS(0.5, 1.5), CFX_KW(dtype, cfx_i64))), "tensor(1)");
    CHECK_STR(STR(cfx_prod(truth)), "tensor(0)");
    CHECK_STR(STR(cfx_all(cfx_to(ints, cfx_u8))), "tensor(1, dtype=torch.uint8)");
    CHECK_STR(STR(cfx_any(ints)), "tensor(True)");
    CHECK_STR(STR(cfx_count_nonzero(truth)), "tensor(2)");
    CHECK_OK();
    cfx_mean(ints);
    CHECK_ERROR("mean(): could not infer output dtype. Input dtype must be either a floating point "
                "or complex dtype. Got: Long");
    cfx_var(ints);
    CHECK_ERROR("std and var only support floating point and complex dtypes");
    cfx_error_clear();
    cfx_tensor *rows = cfx_view(cfx_arange(6, CFX_KW(dtype, cfx_f32)), cfx_list(2, 3));
    CHECK_STR(cfx_str(cfx_std(rows, 1)), "tensor([1., 1.])");
    CHECK_STR(cfx_str(cfx_var(rows, 0)), "tensor([4.5000, 4.5000, 4.5000])");
    CHECK_STR(cfx_str(cfx_std(rows, CFX_KW(unbiased, (bool)false))), "tensor(1.7078)");
    CHECK_STR(cfx_str(cfx_std(rows)), "tensor(1.8708)");
}

TEST(a_number_summed_to_no_size_is_widened) {
    cfx_tensor *x = cfx_tensor_new(CFX_U8, 0, NULL, (uint8_t[]){5});
    CHECK_STR(cfx_str(cfx_sum_to_size(x, cfx_list_value(0, NULL))), "tensor(5)");
    CHECK_OK();
}

TEST(reductions_of_nothing) {
    cfx_tensor *x = cfx_zeros(cfx_list(2, 0, 3));
    CHECK_STR(STR(cfx_sum(x)), "tensor(0.)");
    CHECK_STR(STR(cfx_prod(x)), "tensor(1.)");
    CHECK_STR(STR(cfx_mean(x)), "tensor(nan)");
    CHECK_STR(STR(cfx_all(x)), "tensor(True)");
    CHECK_STR(STR(cfx_var(x)), "tensor(nan)");
    CHECK_STR(SHAPE(cfx_sum(x, cfx_list(1))), "[2, 3]");
    CHECK_STR(SHAPE(cfx_amax(x, cfx_list(0))), "[0, 3]");
    CHECK_STR(STR(cfx_logsumexp(cfx_zeros(cfx_list(0)), cfx_list(0))), "tensor(-inf)");
    CHECK_OK();
    cfx_max(x);
    CHECK_ERROR("max(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                "reduction dim with the 'dim' argument.");
    cfx_amax(x, cfx_list(1));
    CHECK_ERROR("amax(): Expected reduction dim 1 to have non-zero size.");
    cfx_argmax(x);
    CHECK_ERROR("argmax(): Expected reduction dim to be specified for input.numel() == 0.");
}

TEST(reductions_of_numbers_without_dims) {
    cfx_tensor *x = cfx_sum(NUMBERS(2.0, 3.0));
    CHECK_STR(STR(cfx_sum(x, cfx_list(0))), "tensor(5.)");
    CHECK_STR(STR(cfx_sum(x, cfx_list(-1), true)), "tensor(5.)");
    CHECK_STR(STR(cfx_argmax(x, 0)), "tensor(0)");
    CHECK_STR(STR(cfx_cumsum(x, 0)), "tensor(5.)");
    CHECK_STR(STR(cfx_softmax(x, 0)), "tensor(1.)");
    CHECK_OK();
    cfx_sum(x, cfx_list(1));
    CHECK_ERROR("Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    cfx_sum(NUMBERS(1.0), cfx_list(0, 0));
    CHECK_ERROR("dim 0 appears multiple times in the list of dims");
}

/* ---- extremes -------------------------------------------------------------------------------- */

TEST(nan_wins_and_the_first_of_equals_is_the_place) {
    cfx_tensor *x = NUMBERS(1.0, 7.0, 3.0, 7.0), *nan = NUMBERS(1.0, NAN, INFINITY);
    CHECK_STR(STR(cfx_argmax(x)), "tensor(1)");
    CHECK_STR(STR(cfx_argmin(nan)), "tensor(1)");
    CHECK_STR(STR(cfx_amax(nan)), "tensor(nan)");
    CHECK_STR(STR(cfx_min(nan)), "tensor(nan)");
    for (int d = 0; d < 2; d++) {
        /* rows and columns are folded by different loops */
        cfx_tensor *m = NOISE(60, 70), *places = cfx_argmax(cfx_transpose(m, 0, 1), 1 - d);
        cfx_value pair = cfx_py("torch.max", m, d);
        for (int64_t i = 0; i < cfx_tensor_numel(places); i++)
            CHECK_INT(cfx_tensor_get(cfx_tensor_at(pair, 1), i), cfx_tensor_get(places, i));
    }
    cfx_value pair = cfx_py("torch.aminmax", x);
    CHECK_STR(STR(cfx_tensor_at(pair, 0)), "tensor(1.)");
    CHECK_STR(STR(cfx_tensor_at(pair, 1)), "tensor(7.)");
    CHECK_OK();
}

/* ---- norms, softmax, scans ------------------------------------------------------------------- */

/* Wherever it stands: in whole vectors, behind them, in rows, columns and neither. */
TEST(nan_wins_in_every_place_of_a_row_and_of_a_column) {
    enum { N = 101 };
    for (int d = 0; d < 2; d++) {
        for (int at = 0; at < N; at++) {
            CFX_SCOPE {
                cfx_tensor *x = cfx_to(cfx_zeros(cfx_list(3, N)), d ? cfx_f64 : cfx_f32);
                cfx_fill_(cfx_select(cfx_select(x, 0, 1), 0, at), NAN);
                cfx_tensor *turned = cfx_contiguous(cfx_t(x));
                cfx_tensor *apart = cfx_select(cfx_stack(cfx_list(x, x), 2), 2, 0);
                cfx_tensor *most[] = {cfx_amax(x, cfx_list(1)), cfx_amin(x, cfx_list(1)),
                                      cfx_amax(turned, cfx_list(0)), cfx_amin(turned, cfx_list(0)),
                                      cfx_amax(apart, cfx_list(1))};
                for (int i = 0; i < 5; i++)
                    for (int row = 0; row < 3; row++)
                        CHECK((row == 1) == (isnan(cfx_tensor_get(most[i], row)) != 0));
            }
        }
    }
}

TEST(the_first_of_the_largest_is_found_in_every_place_of_a_row) {
    enum { N = 101 };
    for (int k = 0; k < 2 * N; k++)
        CFX_SCOPE {
            const int at = k / 2;
            cfx_tensor *x = cfx_zeros(cfx_list(1, N));
            cfx_fill_(cfx_slice(cfx_select(x, 0, 0), 0, at, N, 7), k % 2 ? NAN : 1.0);
            CHECK_INT(cfx_tensor_get(cfx_argmax(x, 1), 0), at);
            CHECK_INT(cfx_tensor_get(cfx_argmin(k % 2 ? x : cfx_neg(x), 1), 0), at);
        }
    CHECK_OK();
}

TEST(softmax_of_rows_of_any_length) {
    for (int64_t n = 1; n < 70; n++)
        CFX_SCOPE {
            cfx_tensor *x = cfx_mul(NOISE(3, n), 40), *wide = cfx_to(x, cfx_f64);
            cfx_fill_(cfx_select(cfx_select(x, 0, 1), 0, n / 2), -INFINITY);
            cfx_fill_(cfx_select(cfx_select(wide, 0, 1), 0, n / 2), -INFINITY);
            CHECK(cfx_is_true(cfx_allclose(cfx_to(cfx_softmax(x, 1), cfx_f64),
                                           cfx_softmax(wide, 1), 1e-5, 1e-7, true)));
            CHECK(cfx_is_true(cfx_allclose(cfx_to(cfx_log_softmax(x, 1), cfx_f64),
                                           cfx_log_softmax(wide, 1), 1e-6, 1e-5, true)));
        }
    CHECK_OK();
}

TEST(norms_of_every_order) {
    cfx_tensor *x = NUMBERS(3.0, -4.0, 0.0);
    CHECK_NEAR(cfx_tensor_get(cfx_norm(x), 0), 5, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_norm(x, 0), 0), 2, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_norm(x, 1), 0), 7, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_norm(x, INFINITY), 0), 4, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_norm(x, -INFINITY), 0), 0, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_dist(x, cfx_neg(x)), 0), 10, 1e-5);
    CHECK_OK();
    cfx_norm(NUMBERS(1, 2));
    CHECK_ERROR("norm(): input dtype should be either floating point or complex. Got Long "
                "instead.");
    cfx_linalg_vector_norm(cfx_zeros(cfx_list(0)), INFINITY);
    CHECK_ERROR("linalg.vector_norm cannot compute the inf norm on an empty tensor because the "
                "operation does not have an identity");
}

TEST(softmax_sums_to_one_along_every_dim) {
    cfx_tensor *x = cfx_mul(NOISE(5, 67, 21), 30);
    for (int d = 0; d < 3; d++) {
        cfx_tensor *y = cfx_softmax(x, d), *sums = cfx_sum(y, cfx_list(d));
        cfx_tensor *l = cfx_exp(cfx_log_softmax(x, d)), *lse = cfx_logsumexp(x, cfx_list(d));
        cfx_tensor *want = cfx_exp(cfx_sub(x, cfx_unsqueeze(lse, d)));
        for (int64_t i = 0; i < cfx_tensor_numel(sums); i++)
            CHECK_NEAR(cfx_tensor_get(sums, i), 1, 1e-5);
        for (int64_t i = 0; i < cfx_tensor_numel(y); i += 13) {
            CHECK_NEAR(cfx_tensor_get(l, i), cfx_tensor_get(y, i), 1e-5);
            CHECK_NEAR(cfx_tensor_get(want, i), cfx_tensor_get(y, i), 1e-5);
        }
    }
    CHECK_OK();
}

TEST(softmax_at_the_edges) {
    cfx_tensor *none = NUMBERS(-INFINITY, -INFINITY), *nan = NUMBERS(1.0, NAN, 2.0);
    CHECK_STR(STR(cfx_softmax(none, 0)), "tensor([nan, nan])");
    CHECK_STR(STR(cfx_softmax(nan, 0)), "tensor([nan, nan, nan])");
    CHECK_STR(STR(cfx_aten__safe_softmax(none, 0)), "tensor([0., 0.])");
    CHECK_STR(STR(cfx_aten__safe_softmax(NUMBERS(-INFINITY, NAN), 0)), "tensor([nan, nan])");
    CHECK_STR(STR(cfx_softmax(NUMBERS(1000.0, 1000.0), 0)), "tensor([0.5000, 0.5000])");
    CHECK_STR(STR(cfx_logsumexp(none, cfx_list(0))), "tensor(-inf)");
    CHECK_STR(STR(cfx_logsumexp(nan, cfx_list(0))), "tensor(nan)");
    CHECK_STR(STR(cfx_softmax(NUMBERS(1, 1), 0, cfx_f64)),
              "tensor([0.5000, 0.5000], dtype=torch.float64)");
    CHECK_STR(SHAPE(cfx_softmax(cfx_zeros(cfx_list(2, 0)), 1)), "[2, 0]");
    CHECK_OK();
    cfx_softmax(NUMBERS(1, 2), 0);
    CHECK_ERROR("\"softmax_lastdim_kernel_impl\" not implemented for 'Long'");
}

TEST(the_gradient_of_softmax_is_its_derivative) {
    cfx_tensor *x = NOISE(4, 6), *g = NOISE(4, 6);
    for (int d = 0; d < 2; d++) {
        cfx_tensor *y = cfx_softmax(x, d);
        cfx_tensor *got = cfx_aten__softmax_backward_data(g, y, d, cfx_f32);
        cfx_tensor *want = cfx_mul(y, cfx_sub(g, cfx_sum(cfx_mul(g, y), cfx_list(d), true)));
        for (int64_t i = 0; i < 24; i++)
            CHECK_NEAR(cfx_tensor_get(got, i), cfx_tensor_get(want, i), 1e-6);
    }
    CHECK_OK();
}

TEST(scans_run_along_any_dim) {
    cfx_tensor *x = NOISE(3, 150, 4);
    for (int d = 0; d < 3; d++) {
        int64_t n = cfx_dim(x, d);
        cfx_tensor *sums = cfx_select(cfx_cumsum(x, d), d, n - 1), *want = cfx_sum(x, cfx_list(d));
        cfx_tensor *most = cfx_select(cfx_tensor_at(cfx_cummax(x, d), 0), d, n - 1);
        cfx_tensor *logs = cfx_select(cfx_logcumsumexp(x, d), d, n - 1);
        for (int64_t i = 0; i < cfx_tensor_numel(want); i++) {
            CHECK_NEAR(cfx_tensor_get(sums, i), cfx_tensor_get(want, i), 1e-4);
            CHECK_NEAR(cfx_tensor_get(most, i), cfx_tensor_get(cfx_amax(x, cfx_list(d)), i), 0);
            CHECK_NEAR(cfx_tensor_get(logs, i), cfx_tensor_get(cfx_logsumexp(x, cfx_list(d)), i),
                       1e-4);
        }
    }
    CHECK_STR(STR(cfx_tensor_at(cfx_cummax(NUMBERS(1.0, 3.0, 3.0, 2.0), 0), 1)),
              "tensor([0, 1, 2, 2])");
    CHECK_STR(STR(cfx_cumprod(NUMBERS(2, 3, 4), 0)), "tensor([ 2,  6, 24])");
    CHECK_OK();
}
