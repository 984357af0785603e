/* Eigenvalues and eigenvectors of symmetric matrices. */
#include "kernel_test.h"

#define EPS 1.1102230246251565e-16

static double element(const double *a, ptrdiff_t n, ptrdiff_t i, ptrdiff_t j) {
    return a[i * n + j];
}

/* Whether q is orthogonal, a q = q d, and d goes up. */
static bool belong(const double *a, const double *q, const double *d, ptrdiff_t n) {
    bool fine = true;
    for (ptrdiff_t i = 0; i < n && fine; i++) {
        fine &= CHECK(!i || d[i - 1] <= d[i]);
        for (ptrdiff_t j = 0; j < n && fine; j++) {
            double product = 0, image = 0;
            for (ptrdiff_t k = 0; k < n; k++) {
                product += element(q, n, k, i) * element(q, n, k, j);
                image += element(a, n, i, k) * element(q, n, k, j);
            }
            fine = CHECK_NEAR(product, i == j, 1e-12) &&
                   CHECK_NEAR(image, d[j] * element(q, n, i, j), 1e-11 * (double)(n + 8));
        }
    }
    return fine;
}

KERNEL_TEST(eigenvalues) {
    enum { MOST = 40 };
    for (ptrdiff_t n = 0; n <= MOST; n++)
        for (int upper = 0; upper < 2; upper++)
            for (int kind = 0; kind < 4; kind++) {
                double a[MOST * MOST] = {0}, q[MOST * MOST], d[MOST], alone[MOST];
                double *w = cfx__alloc((size_t)(n * n + 2 * n + 1) * sizeof *w);
                for (ptrdiff_t i = 0; i < n; i++)
                    for (ptrdiff_t j = 0; j <= i; j++)
                        a[i * n + j] = a[j * n + i] =
                            kind == 1   ? i == j ? 3 : 0 /* one, often */
                            : kind == 2 ? 1              /* of rank 1 */
                            : kind == 3 ? i - j == 1 ? 1
                                          : i == j   ? 2
                                                     : 0 /* tridiagonal */
                                        : (double)((i * 7 + j * 5 + i * j) % 13) - 6;
                memcpy(q, a, sizeof q);
                bool fine = CHECK(NAME_eigen(q, n, upper, 1, EPS, d, w) == 0) && belong(a, q, d, n);
                memcpy(q, a, sizeof q);
                fine &= CHECK(NAME_eigen(q, n, upper, 0, EPS, alone, w) == 0);
                for (ptrdiff_t i = 0; i < n && fine; i++)
                    fine = CHECK_NEAR(alone[i], d[i], 1e-11 * (double)(n + 8));
                cfx__free(w);
                if (!fine)
                    return;
            }
}

/* Numbers whose squares are none. */
KERNEL_TEST(eigenvalues_of_any_scale) {
    for (int power = -1000; power <= 1000; power += 500) {
        const double x = ldexp(1, power);
        double a[4] = {2 * x, x, x, 2 * x}, d[2], w[8];
        CHECK(NAME_eigen(a, 2, 0, 1, EPS, d, w) == 0);
        CHECK_NEAR(d[0] / x, 1, 1e-15);
        CHECK_NEAR(d[1] / x, 3, 1e-15);
    }
}

KERNEL_TEST(eigenvalues_that_are_none) {
    double a[9] = {1, 2, 0, 2, 2, INFINITY, 0, INFINITY, 3}, d[3], w[15];
    CHECK(NAME_eigen(a, 3, 0, 1, EPS, d, w) == 1);
    for (int i = 0; i < 9; i++)
        a[i] = NAN;
    CHECK(NAME_eigen(a, 3, 0, 1, EPS, d, w) == 1);
}
