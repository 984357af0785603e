/* Products over packed weights, against sums by hand. */
#include "kernel_test.h"

static void doubled(float *x, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] *= 2;
}

/* The largest difference of a product and its epilogue to the same by hand; NaN counts as many. */
static double product_error(int64_t m, int64_t n, int64_t k, int64_t a_row, int64_t c_row, bool add,
                            bool post) {
    float *a = kernel_numbers(m * a_row, 1), *w = kernel_numbers(k * n, 2);
    float *bias = kernel_numbers(n, 3), *before = kernel_numbers(m * c_row, 4);
    float *c = kernel_numbers(m * c_row, 4);
    float *panels = cfx__alloc((size_t)cfx__pack_panels_floats(k, n) * sizeof *panels + 1);
    cfx__pack_panels(w, 1, k, k, n, panels); /* as linear has it: [n, k] */
    const NAME_epilogue e = {.bias = bias, .add = add ? c : NULL, .add_row = c_row,
                             .low = -40, .high = 50, .post = post ? doubled : NULL};
    NAME_product(m, n, k, a, a_row, panels, c, c_row, &e);
    double most = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < c_row; j++) {
            double sum = j < n ? bias[j] + (add ? before[i * c_row + j] : 0) : 0;
            for (int64_t q = 0; q < k && j < n; q++)
                sum += (double)a[i * a_row + q] * w[q + j * k];
            sum = sum < -40 ? -40 : sum > 50 ? 50 : sum;
            sum = j < n ? sum * (post ? 2 : 1) : before[i * c_row + j]; /* left alone */
            most = fmax(most, fabs(sum - c[i * c_row + j]));
        }
    cfx__free(a), cfx__free(w), cfx__free(bias), cfx__free(before), cfx__free(c);
    cfx__free(panels);
    return most;
}

KERNEL_TEST(product) {
    const int64_t ns[] = {1, 7, 8, 9, 16, 17, 31, 32, 33, 48, 100};
    for (int64_t m = 0; m <= 31; m += m > 15 ? 5 : 1)
        for (int i = 0; i < COUNT(ns); i++)
            for (int64_t k = 0; k <= 21; k = 2 * k + 1)
                if (!CHECK(product_error(m, ns[i], k, k + m % 3, ns[i] + k % 2, k % 2, m % 2) == 0))
                    return;
    CHECK(product_error(40, 70, 5000, 5000, 70, true, false) == 0);
    CHECK(product_error(500, 40, 300, 300, 40, false, false) == 0);
}

KERNEL_TEST(product_nan) {
    float a[3] = {NAN, 1, INFINITY}, w[3] = {1, 1, 1}, panels[CFX__PANEL], c[9];
    cfx__pack_panels(w, 3, 1, 1, 3, panels);
    NAME_product(3, 3, 1, a, 1, panels, c, 3, &(NAME_epilogue){.low = 0, .high = 6});
    CHECK(isnan(c[0]) && isnan(c[1]) && isnan(c[2]));
    CHECK(c[3] == 1 && c[8] == 6);
}
