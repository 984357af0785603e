/* Factorisations multiply back to what they came from; solvers solve; errors are PyTorch's. */
#include <cfx/ops.h>

#include "../libraries.h"
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cfx_tensor *matrix(int m, int n, const double *v) {
    return cfx_tensor_new(CFX_F64, 2, (int64_t[]){m, n}, v);
}

/* Element (i, j) of matrix b of t, real and imaginary. */
static void element(const cfx_tensor *t, int64_t b, int64_t i, int64_t j, double *re, double *im) {
    int d = cfx_tensor_ndim(t);
    const int64_t *s = cfx_tensor_stride(t), *shape = cfx_tensor_shape(t);
    int64_t at = i * s[d - 2] + j * s[d - 1];
    for (int k = d - 3; k >= 0; k--) {
        at += b % shape[k] * s[k];
        b /= shape[k];
    }
    const double *x = cfx_tensor_data(t);
    bool pairs = cfx_tensor_dtype(t) == CFX_C128;
    *re = pairs ? x[2 * at] : x[at];
    *im = pairs ? x[2 * at + 1] : 0;
}

static int64_t rows(const cfx_tensor *t) { return cfx_dim(t, -2); }
static int64_t cols(const cfx_tensor *t) { return cfx_dim(t, -1); }

/* The largest difference between x y and want, in matrix b. */
static double product_error(const cfx_tensor *x, const cfx_tensor *y, const cfx_tensor *want,
                            int64_t b) {
    double worst = 0;
    for (int64_t i = 0; i < rows(want); i++)
        for (int64_t j = 0; j < cols(want); j++) {
            double re = 0, im = 0, ar, ai, br, bi;
            for (int64_t k = 0; k < cols(x); k++) {
                element(x, b, i, k, &ar, &ai);
                element(y, b, k, j, &br, &bi);
                re += ar * br - ai * bi;
                im += ar * bi + ai * br;
            }
            element(want, b, i, j, &ar, &ai);
            worst = fmax(worst, fmax(fabs(re - ar), fabs(im - ai)));
        }
    return worst;
}

TEST(linalg_solves_both_sides_in_batches) {
    if (!CHECK(library_lapack() != NULL))
        return;
    cfx_dtype dtypes[] = {CFX_F64, CFX_C128};
    for (int k = 0; k < 2; k++) {
        cfx_tensor *a = test_noise(dtypes[k], 3, (int64_t[]){2, 4, 4});
        cfx_tensor *b = test_noise(dtypes[k], 3, (int64_t[]){2, 4, 3});
        cfx_tensor *x = cfx_linalg_solve(a, b);
        cfx_tensor *c = test_noise(dtypes[k], 3, (int64_t[]){2, 3, 4});
        cfx_tensor *y = cfx_linalg_solve(a, c, CFX_KW(left, cfx_bool(false)));
        cfx_tensor *inverse = cfx_linalg_inv(a);
        for (int i = 0; i < 2; i++) {
            CHECK_NEAR(product_error(a, x, b, i), 0, 1e-12);
            CHECK_NEAR(product_error(y, a, c, i), 0, 1e-12);
            CHECK_NEAR(product_error(inverse, b, x, i), 0, 1e-11);
        }
        cfx_value lu = cfx_linalg_lu_factor(a);
        cfx_tensor *z =
            cfx_linalg_lu_solve(cfx_at(lu, 0), cfx_at(lu, 1), c, CFX_KW(left, cfx_bool(false)),
                                CFX_KW(adjoint, cfx_bool(true)));
        if (k == 0) /* X A^T = C */
            CHECK_NEAR(product_error(z, cfx_transpose(a, -2, -1), c, 1), 0, 1e-12);
        CHECK_OK();
    }
}

TEST(linalg_solve_broadcasts) {
    cfx_tensor *a = test_noise(CFX_F64, 4, (int64_t[]){2, 1, 3, 3});
    cfx_tensor *b = test_noise(CFX_F64, 3, (int64_t[]){4, 3, 2});
    cfx_tensor *x = cfx_linalg_solve(a, b);
    CHECK_INT(cfx_dim(x, 0), 2);
    CHECK_INT(cfx_dim(x, 1), 4);
    cfx_tensor *wide = cfx_expand(a, cfx_list(2, 4, 3, 3));
    cfx_tensor *rhs = cfx_expand(b, cfx_list(2, 4, 3, 2));
    for (int i = 0; i < 8; i++)
        CHECK_NEAR(product_error(wide, x, rhs, i), 0, 1e-12);
    cfx_tensor *v = test_noise(CFX_F64, 1, (int64_t[]){3});
    CHECK_INT(cfx_tensor_ndim(cfx_linalg_solve(cfx_select(cfx_select(a, 0, 0), 0, 0), v)), 1);
    CHECK_OK();
}

TEST(linalg_factors_multiply_back) {
    const int64_t shapes[][2] = {{4, 4}, {5, 3}, {3, 5}, {70, 3}, {1, 1}};
    cfx_dtype dtypes[] = {CFX_F64, CFX_C128};
    for (int s = 0; s < 5; s++)
        for (int k = 0; k < 2; k++) {
            cfx_tensor *a = test_noise(dtypes[k], 2, shapes[s]);
            cfx_value qr = cfx_linalg_qr(a), full = cfx_linalg_qr(a, "complete");
            CHECK_NEAR(product_error(cfx_tensor_at(qr, 0), cfx_tensor_at(qr, 1), a, 0), 0, 1e-12);
            CHECK_NEAR(product_error(cfx_tensor_at(full, 0), cfx_tensor_at(full, 1), a, 0), 0,
                       1e-12);
            CHECK_INT(rows(cfx_tensor_at(full, 1)), shapes[s][0]);
            for (int all = 0; all < 2; all++) {
                cfx_value svd = cfx_linalg_svd(a, (bool)all);
                cfx_tensor *u = cfx_tensor_at(svd, 0), *v = cfx_tensor_at(svd, 2);
                int64_t least = shapes[s][0] < shapes[s][1] ? shapes[s][0] : shapes[s][1];
                cfx_tensor *scaled = cfx_mul(cfx_narrow(u, 1, 0, least), cfx_tensor_at(svd, 1));
                CHECK_NEAR(product_error(scaled, cfx_narrow(v, 0, 0, least), a, 0), 0, 1e-12);
            }
            cfx_value plu = cfx_linalg_lu(a);
            cfx_tensor *l = cfx_tensor_at(plu, 1), *p = cfx_tensor_at(plu, 0);
            CHECK_NEAR(cfx_tensor_get(l, 0), 1, 0);
            CHECK_INT(rows(p), shapes[s][0]);
            CHECK_OK();
        }
}

TEST(linalg_eigenvalues) {
    if (!CHECK(library_lapack() != NULL))
        return;
    cfx_tensor *s = matrix(2, 2, (double[]){2, 1, 1, 2});
    cfx_value e = cfx_linalg_eigh(s);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(e, 0), 0), 1, 1e-14);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(e, 0), 1), 3, 1e-14);
    CHECK_NEAR(cfx_tensor_get(cfx_linalg_eigvalsh(s), 1), 3, 1e-14);
    cfx_value r = cfx_linalg_eig(matrix(2, 2, (double[]){0, -1, 1, 0})); /* a quarter turn */
    const double *w = cfx_tensor_data(cfx_tensor_at(r, 0));
    CHECK_INT(cfx_tensor_dtype(cfx_tensor_at(r, 0)), CFX_C128);
    CHECK_NEAR(w[0], 0, 1e-15);
    CHECK_NEAR(fabs(w[1]), 1, 1e-15);
    cfx_tensor *a = test_noise(CFX_F64, 2, (int64_t[]){5, 5}), *values = cfx_linalg_eigvals(a);
    double trace = 0, sum = 0;
    for (int i = 0; i < 5; i++) {
        trace += cfx_tensor_get(a, i * 6);
        sum += ((double *)cfx_tensor_data(values))[2 * i];
    }
    CHECK_NEAR(sum, trace, 1e-12);
    CHECK_OK();
}

TEST(linalg_determinants) {
    cfx_tensor *a = matrix(2, 2, (double[]){1, 2, 3, 4});
    CHECK_NEAR(cfx_tensor_get(cfx_det(a), 0), -2, 1e-14);
    cfx_value s = cfx_linalg_slogdet(a);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(s, 0), 0), -1, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(s, 1), 0), log(2), 1e-14);
    CHECK_NEAR(cfx_tensor_get(cfx_det(matrix(0, 0, NULL)), 0), 1, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_det(matrix(2, 2, (double[]){1, 2, 2, 4})), 0), 0, 0);
    CHECK_OK();
}

TEST(linalg_cholesky_both_triangles) {
    if (!CHECK(library_lapack() != NULL))
        return;
    cfx_tensor *a = matrix(2, 2, (double[]){4, 2, 2, 3});
    cfx_tensor *l = cfx_linalg_cholesky(a);
    cfx_tensor *u = cfx_linalg_cholesky(a, CFX_KW(upper, cfx_bool(true)));
    CHECK_NEAR(cfx_tensor_get(l, 0), 2, 1e-15);
    CHECK_NEAR(cfx_tensor_get(l, 1), 0, 0);
    CHECK_NEAR(cfx_tensor_get(l, 2), 1, 1e-15);
    CHECK_NEAR(product_error(l, u, a, 0), 0, 1e-14);
    CHECK_INT(cfx_tensor_stride(l)[0], 1);
    cfx_tensor *b = matrix(2, 1, (double[]){1, 2}), *x = cfx_cholesky_solve(b, l);
    CHECK_NEAR(product_error(a, x, b, 0), 0, 1e-14);
    CHECK_NEAR(product_error(cfx_cholesky_inverse(l), b, x, 0), 0, 1e-14);
    CHECK_OK();
}

TEST(linalg_least_squares_residuals) {
    cfx_tensor *a = matrix(3, 2, (double[]){1, 0, 0, 1, 0, 0});
    cfx_tensor *b = matrix(3, 1, (double[]){1, 2, 3});
    const char *drivers[] = {"gels", "gelsd", "gelss", "gelsy"};
    for (int i = 0; i < 4; i++) {
        cfx_value v = cfx_linalg_lstsq(a, b, CFX_KW(driver, drivers[i]));
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(v, 0), 1), 2, 1e-14);
        CHECK_INT(cfx_tensor_numel(cfx_tensor_at(v, 1)), i < 3);
        if (i < 3)
            CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(v, 1), 0), 9, 1e-13);
        CHECK_INT(cfx_tensor_numel(cfx_tensor_at(v, 2)), i > 0);
    }
    CHECK_OK();
    cfx_linalg_lstsq(a, b, CFX_KW(driver, "gelsz"));
    CHECK_ERROR("should be one of (gels, gelsy, gelsd, gelss)");
}

TEST(linalg_triangular) {
    cfx_tensor *u = matrix(2, 2, (double[]){2, 1, 9, 4}), *b = matrix(2, 1, (double[]){4, 8});
    cfx_tensor *x = cfx_linalg_solve_triangular(u, b, CFX_KW(upper, cfx_bool(true)));
    CHECK_NEAR(cfx_tensor_get(x, 0), 1, 0);
    CHECK_NEAR(cfx_tensor_get(x, 1), 2, 0);
    cfx_tensor *unit = cfx_linalg_solve_triangular(u, b, CFX_KW(upper, cfx_bool(true)),
                                                   CFX_KW(unitriangular, cfx_bool(true)));
    CHECK_NEAR(cfx_tensor_get(unit, 0), -4, 0);
    cfx_value old = cfx_triangular_solve(b, u, cfx_bool(true), cfx_bool(true));
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(old, 0), 0), 2, 0);
    CHECK_OK();
}

TEST(linalg_errors) {
    cfx_tensor *zero = matrix(2, 2, (double[]){0, 0, 0, 0});
    cfx_tensor *tall = matrix(3, 2, (double[6]){0}), *v = test_noise(CFX_F64, 1, (int64_t[]){3});
    cfx_linalg_cholesky(matrix(2, 2, (double[]){1, 2, 2, 1}));
    CHECK_ERROR("linalg.cholesky: The factorization could not be completed because the input is "
                "not positive-definite (the leading minor of order 2 is not positive-definite).");
    cfx_linalg_inv(zero);
    CHECK_ERROR("linalg.inv: The diagonal element 1 is zero, the inversion could not be completed "
                "because the input matrix is singular.");
    cfx_linalg_solve(tall, v);
    CHECK_ERROR("linalg.solve: A must be batches of square matrices, but they are 3 by 2 matrices");
    cfx_linalg_solve(zero, matrix(2, 1, (double[]){1, 1}));
    CHECK_ERROR("torch.linalg.solve: The solver failed because the input matrix is singular.");
    cfx_linalg_inv(test_noise(CFX_I64, 2, (int64_t[]){2, 2}));
    CHECK_ERROR("linalg.inv: Expected a floating point or complex tensor as input. Got Long");
    cfx_linalg_svd(matrix(1, 1, (double[]){NAN}));
    CHECK_ERROR("linalg.svd: The algorithm failed to converge because the input matrix contained "
                "non-finite values.");
    cfx_linalg_eig(matrix(1, 1, (double[]){INFINITY}));
    CHECK_ERROR("torch.linalg.eig: input tensor should not contain infs or NaNs.");
    cfx_det(v);
    CHECK_ERROR("linalg.det: The input tensor A must have at least 2 dimensions.");
    cfx_linalg_qr(tall, "thin");
    CHECK_ERROR("qr received unrecognized mode 'thin'");
    cfx_linalg_eigh(zero, "X");
    CHECK_ERROR("Expected UPLO argument to be 'L' or 'U', but got X");
}

/* Pivots that no factorisation gives must not reach LAPACK, which would follow them anywhere. */
TEST(linalg_pivots_are_checked) {
    cfx_tensor *a = matrix(2, 2, (double[]){2, 1, 1, 2}), *b = matrix(2, 1, (double[]){1, 1});
    int32_t bad[][2] = {{0, 2}, {1, 3}, {1, -1}, {-1, 2}, {-3, -3}};
    for (int i = 0; i < 5; i++) {
        cfx_tensor *pivots = cfx_tensor_new(CFX_I32, 1, (int64_t[]){2}, bad[i]);
        cfx_linalg_lu_solve(a, pivots, b);
        CHECK_ERROR(i == 1 ? "smaller or equal to LU.size(-2)" : "greater or equal to 1");
        cfx_linalg_ldl_solve(a, pivots, b);
        CHECK_ERROR("pivots must be those that ldl_factor gave");
        cfx_lu_unpack(a, pivots);
        CHECK_ERROR("pivots passed to lu_unpack must be between 1 and LU.size(-2)");
    }
    cfx_value ld = cfx_linalg_ldl_factor(matrix(2, 2, (double[]){0, 1, 1, 0})); /* a block of 2 */
    cfx_tensor *rhs = matrix(2, 1, (double[]){3, 4});
    cfx_tensor *x = cfx_linalg_ldl_solve(cfx_at(ld, 0), cfx_at(ld, 1), rhs);
    CHECK_NEAR(cfx_tensor_get(x, 0), 4, 1e-14);
    CHECK_OK();
}

TEST(linalg_empty) {
    cfx_tensor *none = cfx_tensor_new(CFX_F64, 3, (int64_t[]){0, 3, 3}, NULL);
    cfx_linalg_inv(none), cfx_linalg_qr(none), cfx_linalg_svd(none), cfx_linalg_eigh(none);
    cfx_linalg_eig(none), cfx_det(none), cfx_linalg_cholesky(none), cfx_linalg_lu(none);
    CHECK_OK();
    cfx_value svd = cfx_linalg_svd(cfx_tensor_new(CFX_F64, 2, (int64_t[]){2, 0}, NULL),
                                   cfx_bool(true));
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(svd, 0), 3), 1, 0);
    cfx_value qr = cfx_linalg_qr(cfx_tensor_new(CFX_F64, 2, (int64_t[]){2, 0}, NULL), "complete");
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(qr, 0), 0), 1, 0);
    cfx_value ls = cfx_linalg_lstsq(cfx_tensor_new(CFX_F64, 2, (int64_t[]){0, 2}, NULL),
                                    cfx_tensor_new(CFX_F64, 2, (int64_t[]){0, 1}, NULL));
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(ls, 0), 1), 0, 0);
    CHECK_OK();
}
