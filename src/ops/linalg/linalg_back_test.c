/* Gradients through factorisations of complex matrices, where vectors are known but for a phase. */
#include <cfx.h>

#include "../libraries.h"
#include "test.h"

static cfx_tensor *complex_matrix(const double *v) {
    return cfx_tensor_new(CFX_C128, 2, (int64_t[]){2, 2}, v);
}

static cfx_tensor *leaf(const double *v) { return cfx_requires_grad(complex_matrix(v), true); }

/* Whether a gradient has these four numbers. */
static bool has(cfx_value gradients, const double *want) {
    const double *got = cfx_tensor_data(cfx_contiguous(cfx_tensor_at(gradients, 0)));
    bool same = true;
    for (int i = 0; i < 8; i++)
        same &= CHECK_NEAR(got[i], want[i], 1e-11);
    return same;
}

static const double some[] = {1, 2, 3, -1, 0, 0.5, 2, 0}, cotangent[] = {1, 0, 0, 1, 2, 0, -1, 1};

TEST(linalg_second_gradient_of_complex_singular_values) {
    if (!CHECK(library_lapack() != NULL))
        return;
    cfx_tensor *a = leaf(some);
    cfx_tensor *g = cfx_tensor_new(CFX_F64, 1, (int64_t[]){2}, (double[]){0.5, -1});
    cfx_value first = cfx_grad(cfx_linalg_svdvals(a), a, .grad_outputs = cfx_list(g),
                               .create_graph = true);
    has(first, (double[]){-0.107221413282, -0.127095796789, 0.573642815348, -0.220329948374,
                          0.174694059550, 0.863533105997, -0.258116341452, 0.043673514888});
    has(cfx_grad(first, a, .grad_outputs = cfx_list(complex_matrix(cotangent))),
        (double[]){0.961574700097, -0.233106910759, 0.350417990353, 0.835525644246,
                   -1.112571791498, 0.230245994427, -0.413106101302, -1.248897467153});
    CHECK_OK();
}

TEST(linalg_gradient_of_complex_singular_vectors) {
    if (!CHECK(library_lapack() != NULL))
        return;
    cfx_tensor *a = leaf(some);
    cfx_value usv = cfx_linalg_svd(a);
    cfx_tensor *d = cfx_tensor_new(CFX_F64, 1, (int64_t[]){2}, (double[]){1, 3});
    cfx_tensor *b = cfx_matmul(cfx_mul(cfx_tensor_at(usv, 0), d), cfx_tensor_at(usv, 2));
    has(cfx_grad(b, a, .grad_outputs = cfx_list(complex_matrix(cotangent))),
        (double[]){-1.906200202248, 0.790486969522, -0.835366521546, -1.694155784362,
                   3.968115762112, -0.766519773949, 0.760214965228, 3.822538539654});
    CHECK_OK();
}

TEST(linalg_gradient_of_a_complex_cholesky_factor) {
    if (!CHECK(library_lapack() != NULL))
        return;
    cfx_tensor *h = leaf((double[]){4, 0, 1, -1, 1, 1, 3, 0});
    cfx_tensor *g = complex_matrix((double[]){1, 2, 5, 0, 0, 1, 2, -1});
    has(cfx_grad(cfx_linalg_cholesky(h), h, .grad_outputs = cfx_list(g)),
        (double[]){0.266556941504, 0.522971529248, -0.079056941504, -0.012829175487,
                   -0.237170824513, 0.170943058496, 0.632455532034, -0.316227766017});
    CHECK_OK();
}
