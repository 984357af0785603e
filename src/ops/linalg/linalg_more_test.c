/* What is composed of factorisations: norms, ranks, pseudo-inverses, powers, exponentials. */
#include <cfx/ops.h>

#include "../libraries.h"
#include "test.h"

#include <math.h>

static cfx_tensor *matrix(int m, int n, const double *v) {
    return cfx_tensor_new(CFX_F64, 2, (int64_t[]){m, n}, v);
}

static double at(cfx_tensor *t, int64_t i) { return cfx_tensor_get(t, i); }

TEST(linalg_exponentials) {
    if (!CHECK(library_lapack() != NULL))
        return;
    cfx_tensor *e = cfx_matrix_exp(matrix(2, 2, (double[]){0, 1, 0, 0}));
    CHECK_NEAR(at(e, 0), 1, 1e-15);
    CHECK_NEAR(at(e, 1), 1, 1e-15);
    CHECK_NEAR(at(e, 2), 0, 1e-15);
    e = cfx_linalg_matrix_exp(matrix(2, 2, (double[]){0, -40, 40, 0})); /* a turn by 40 */
    CHECK_NEAR(at(e, 0), cos(40), 1e-11);
    CHECK_NEAR(at(e, 2), sin(40), 1e-11);
    double v[] = {0, 0, 0, 3.14159265358979323846}; /* exp(0) and exp(i pi) */
    cfx_tensor *z = cfx_tensor_new(CFX_C128, 3, (int64_t[]){2, 1, 1}, v);
    CHECK_NEAR(((double *)cfx_tensor_data(cfx_matrix_exp(z)))[2], -1, 1e-15);
    CHECK_NEAR(((double *)cfx_tensor_data(cfx_matrix_exp(z)))[0], 1, 1e-15);
    CHECK(isnan(at(cfx_matrix_exp(matrix(1, 1, (double[]){NAN})), 0)));
    CHECK_OK();
}

TEST(linalg_powers) {
    cfx_tensor *f = matrix(2, 2, (double[]){1, 1, 1, 0}); /* Fibonacci */
    CHECK_NEAR(at(cfx_matrix_power(f, 30), 1), 832040, 0);
    CHECK_NEAR(at(cfx_linalg_matrix_power(f, 3), 0), 3, 0);
    CHECK_NEAR(at(cfx_matrix_power(f, 0), 3), 1, 0);
    CHECK_NEAR(at(cfx_matrix_power(f, -2), 3), 2, 1e-14);
    CHECK_OK();
    cfx_matrix_power(matrix(1, 2, (double[]){1, 1}), 2);
    CHECK_ERROR("linalg.matrix_power: A must be batches of square matrices");
}

TEST(linalg_norms) {
    cfx_tensor *a = matrix(2, 2, (double[]){3, 0, 4, 5});
    CHECK_NEAR(at(cfx_linalg_matrix_norm(a, 1), 0), 7, 1e-14);
    CHECK_NEAR(at(cfx_linalg_matrix_norm(a, INFINITY), 0), 9, 1e-14);
    CHECK_NEAR(at(cfx_linalg_matrix_norm(a, -INFINITY), 0), 3, 1e-14);
    CHECK_NEAR(at(cfx_linalg_matrix_norm(a, 2), 0), sqrt(45), 1e-13);
    CHECK_NEAR(at(cfx_linalg_matrix_norm(a, -2), 0), sqrt(5), 1e-13);
    CHECK_NEAR(at(cfx_linalg_matrix_norm(a, "fro"), 0), sqrt(50), 1e-13);
    CHECK_NEAR(at(cfx_linalg_matrix_norm(a, "nuc"), 0), sqrt(45) + sqrt(5), 1e-13);
    CHECK_NEAR(at(cfx_linalg_norm(a), 0), sqrt(50), 1e-13);
    CHECK_NEAR(at(cfx_linalg_norm(a, 1, cfx_list(0)), 0), 7, 1e-13);
    CHECK_NEAR(at(cfx_linalg_cond(a), 0), 3, 1e-13);
    CHECK_NEAR(at(cfx_linalg_cond(a, 1), 0), 7 * 9 / 15.0, 1e-13);
    CHECK(isinf(at(cfx_linalg_cond(matrix(2, 2, (double[]){1, 1, 1, 1}), 1), 0)));
    cfx_tensor *b = cfx_reshape(a, cfx_list(2, 1, 2));
    cfx_tensor *kept = cfx_linalg_matrix_norm(b, 2, cfx_list(0, 2), cfx_bool(true));
    CHECK_INT(cfx_tensor_ndim(kept), 3);
    CHECK_NEAR(at(kept, 0), sqrt(45), 1e-13);
    CHECK_OK();
    cfx_linalg_matrix_norm(a, 3);
    CHECK_ERROR("linalg.matrix_norm: Order 3 not supported.");
    cfx_linalg_matrix_norm(a, 1, cfx_list(1, -1));
    CHECK_ERROR("linalg.matrix_norm: dims must be different. Got (1, 1)");
    cfx_linalg_norm(b, 2);
    CHECK_ERROR("If dim is not specified but ord is, the input must be 1D or 2D. Got 3D.");
    cfx_linalg_cond(a, "max");
    CHECK_ERROR("linalg.cond got an invalid norm type: max");
}

TEST(linalg_ranks_and_pseudo_inverses) {
    cfx_tensor *a = matrix(3, 2, (double[]){1, 2, 2, 4, 3, 6});
    CHECK_INT(at(cfx_linalg_matrix_rank(a), 0), 1);
    CHECK_INT(at(cfx_linalg_matrix_rank(a, 100.0), 0), 0);
    cfx_tensor *none = cfx_tensor_new(CFX_F64, 2, (int64_t[]){0, 3}, NULL);
    CHECK_INT(at(cfx_linalg_matrix_rank(none), 0), 0);
    cfx_tensor *p = cfx_linalg_pinv(a), *again = cfx_matmul(cfx_matmul(a, p), a);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(at(again, i), at(a, i), 1e-13);
    CHECK_INT(cfx_dim(p, 0), 2);
    CHECK_NEAR(at(cfx_pinverse(a), 0), at(p, 0), 1e-13);
    cfx_tensor *h = matrix(2, 2, (double[]){1, 1, 1, 1});
    CHECK_NEAR(at(cfx_linalg_pinv(h, CFX_KW(hermitian, cfx_bool(true))), 1), 0.25, 1e-13);
    CHECK_OK();
    cfx_linalg_pinv(cfx_tensor_new(CFX_I64, 2, (int64_t[]){1, 1}, (int64_t[]){1}));
    CHECK_ERROR("linalg.pinv(Long{[1, 1]}): expected a tensor with 2 or more dimensions of float");
}

TEST(linalg_small_ones) {
    cfx_tensor *x = matrix(1, 3, (double[]){1, 0, 0});
    cfx_tensor *y = matrix(2, 3, (double[]){0, 1, 0, 0, 0, 1});
    cfx_tensor *z = cfx_linalg_cross(x, y);
    CHECK_NEAR(at(z, 2), 1, 0);
    CHECK_NEAR(at(z, 4), -1, 0);
    CHECK_NEAR(at(cfx_logdet(matrix(1, 1, (double[]){2})), 0), log(2), 1e-15);
    CHECK(isnan(at(cfx_logdet(matrix(1, 1, (double[]){-2})), 0)));
    cfx_tensor *v = cfx_tensor_new(CFX_F64, 1, (int64_t[]){3}, (double[]){1, 2, 3});
    CHECK_NEAR(at(cfx_vander(v), 6), 9, 0);
    CHECK_NEAR(at(cfx_linalg_vander(v), 8), 9, 0);
    CHECK_NEAR(at(cfx_linalg_vecdot(v, v), 0), 14, 0);
    CHECK_NEAR(at(cfx_linalg_multi_dot(cfx_list(v, cfx_transpose(y, 0, 1), y, v)), 0), 13, 0);
    cfx_value usv = cfx_svd(y);
    CHECK_INT(cfx_dim(cfx_tensor_at(usv, 2), 0), 3);
    CHECK_OK();
    cfx_tensor *eye = cfx_reshape(cfx_eye(4), cfx_list(2, 2, 4));
    CHECK_INT(cfx_dim(cfx_linalg_tensorinv(eye), 0), 4);
    cfx_tensor *s = cfx_linalg_tensorsolve(cfx_reshape(cfx_eye(4), cfx_list(2, 2, 2, 2)),
                                           cfx_ones(cfx_list(2, 2)));
    CHECK_NEAR(at(s, 3), 1, 1e-6);
    CHECK_OK();
    cfx_linalg_cross(matrix(1, 2, (double[]){1, 2}), matrix(1, 2, (double[]){1, 2}));
    CHECK_ERROR("linalg.cross: inputs dimension -1 must have length 3. Got 2 and 2");
    cfx_linalg_multi_dot(cfx_list(v));
    CHECK_ERROR("multi_dot(): expected at least 2 tensors but got 1");
    cfx_linalg_tensorinv(eye, 0);
    CHECK_ERROR("Expected a strictly positive integer for 'ind', but got 0");
}
