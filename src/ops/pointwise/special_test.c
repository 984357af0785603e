/* Special functions against numbers computed to 40 digits, at the joints of their pieces and at the
 * points where they have no value. */
#include <cfx/ops.h>

#include "test.h"

#include <math.h>

static double call1(const char *name, double x) {
    cfx_tensor *t = cfx_tensor_new(CFX_F64, 0, NULL, &x);
    return cfx_tensor_get(cfx_as_tensor(cfx_op_do(cfx_op_find(name), t)), 0);
}

static double call2(const char *name, double x, double y) {
    cfx_tensor *a = cfx_tensor_new(CFX_F64, 0, NULL, &x), *b = cfx_tensor_new(CFX_F64, 0, NULL, &y);
    return cfx_tensor_get(cfx_as_tensor(cfx_op_do(cfx_op_find(name), a, b)), 0);
}

/* Relative. */
#define CHECK_CLOSE(got, want) CHECK_NEAR((got) / (want), 1.0, 1e-12)

TEST(special_gamma_family) {
    CHECK_CLOSE(call1("lgamma", -1.5), 0.8600470153764810145);
    CHECK(isinf(call1("lgamma", -3)));
    CHECK_CLOSE(call1("digamma", 1), -0.5772156649015328606);
    CHECK_CLOSE(call1("digamma", -2.5), 1.1031566406452431872);
    CHECK(isnan(call1("digamma", -2)));
    CHECK(call1("digamma", 0.0) == -INFINITY);
    CHECK(call1("digamma", -0.0) == INFINITY);
    CHECK_CLOSE(call2("special_zeta", 2, 1), 1.6449340668482264365);
    CHECK_CLOSE(call2("special_zeta", 3, 1), 1.2020569031595942854);
    CHECK(isinf(call2("special_zeta", 1, 1)));
    CHECK(isnan(call2("special_zeta", 0.5, 1)));
    CHECK(isinf(call2("special_zeta", 3, -2)));
    CHECK(isnan(call2("special_zeta", 2.5, -1.5)));
    CHECK_CLOSE(call2("special_zeta", 2, -1e9 - 0.5), 9.8696044000893586);
}

TEST(special_polygamma) {
    double x[] = {1, 0.25, -1.5};
    cfx_tensor *t = cfx_tensor_new(CFX_F64, 1, (int64_t[]){3}, x);
    cfx_tensor *one = cfx_polygamma(1, t), *two = cfx_polygamma(2, t);
    CHECK_CLOSE(cfx_tensor_get(one, 0), 1.6449340668482264365);
    CHECK_CLOSE(cfx_tensor_get(one, 2), 9.3792466449891237539);
    CHECK_CLOSE(cfx_tensor_get(two, 0), -2.4041138063191885708);
    CHECK_CLOSE(cfx_tensor_get(two, 1), -129.32773993753692033);
    CHECK_OK();
    cfx_polygamma(-1, t);
    CHECK_ERROR("polygamma(n, x) does not support negative n.");
}

TEST(special_incomplete_gamma) {
    CHECK_CLOSE(call2("igamma", 2, 3), 0.80085172652854421);
    CHECK_CLOSE(call2("igammac", 2, 3), 0.19914827347145579);
    CHECK_CLOSE(call2("igammac", 1e-9, 0.5), 5.5977359506954064e-10);
    CHECK_NEAR(call2("igamma", 1e8, 1e8) + call2("igammac", 1e8, 1e8), 1, 1e-15);
    for (double a = 150; a < 300; a *= 1.3) /* both sides of the joint agree with each other */
        for (double x = a * 0.6; x < a * 1.6; x *= 1.1)
            CHECK_NEAR(call2("igamma", a, x) + call2("igammac", a, x), 1, 1e-13);
    CHECK(call2("igamma", 3, 0) == 0);
    CHECK(call2("igamma", 3, INFINITY) == 1);
    CHECK(call2("igammac", 0, 1) == 0);
    CHECK(isnan(call2("igamma", -1, 1)));
    CHECK(isnan(call2("igammac", 0, 0)));
}

TEST(special_mvlgamma_adds_terms) {
    double v = 5.25;
    cfx_tensor *t = cfx_tensor_new(CFX_F64, 0, NULL, &v);
    CHECK_CLOSE(cfx_tensor_get(cfx_mvlgamma(t, 1), 0), lgamma(v));
    CHECK_CLOSE(cfx_tensor_get(cfx_mvlgamma(t, 2), 0),
                lgamma(v) + lgamma(v - 0.5) + log(3.14159265358979323846) / 2);
    CHECK_OK();
    cfx_mvlgamma(t, 0);
    CHECK_ERROR("p has to be greater than or equal to 1");
    cfx_mvlgamma(t, INT64_MAX);
    CHECK_ERROR("too many");
    cfx_mvlgamma(t, 4097);
    cfx_mvlgamma(cfx_ones(4096), 4096);
    CHECK_OK();
    cfx_mvlgamma(t, (1 << 24) + 1);
    CHECK_ERROR("mvlgamma: 16777217 terms for each of 1 elements are too many");
    cfx_mvlgamma(cfx_ones(4096), 4097);
    CHECK_ERROR("mvlgamma: 4097 terms for each of 4096 elements are too many");
}

TEST(special_bessel) {
    CHECK_CLOSE(call1("i0", 8), 427.56411572180474);
    CHECK_CLOSE(call1("i0", 8.0000001), 427.56411572180474 + 399.87313678256011e-7);
    CHECK_CLOSE(call1("special_i1", -1), -0.56515910399248502721);
    CHECK_CLOSE(call1("special_i0e", 500), 0.017845706500153167);
    CHECK_CLOSE(call1("special_modified_bessel_k0", 2), 0.11389387274953343565);
    CHECK_CLOSE(call1("special_modified_bessel_k1", 2), 0.13986588181652242728);
    CHECK(isinf(call1("special_modified_bessel_k0", 0)));
    CHECK(isnan(call1("special_modified_bessel_k1", -1)));
    CHECK_CLOSE(call1("special_scaled_modified_bessel_k0", 1), 1.1444630798068950);
    CHECK_CLOSE(call1("special_bessel_j0", 1), 0.76519768655796655145);
    CHECK_CLOSE(call1("special_bessel_j1", -1), -0.44005058574493351596);
    CHECK(call1("special_bessel_y0", 0) == -INFINITY);
    CHECK(isnan(call1("special_bessel_y1", -1)));
    CHECK_CLOSE(call1("special_spherical_bessel_j0", 2), 0.45464871341284084770);
    CHECK(call1("special_spherical_bessel_j0", 0) == 1);
    CHECK_CLOSE(call1("special_airy_ai", 0), 0.35502805388781723926);
    CHECK_CLOSE(call1("special_airy_ai", 2), 0.034924130423274379135);
    CHECK_CLOSE(call1("special_airy_ai", -2), 0.22740742820168557599);
    CHECK_NEAR(call1("special_airy_ai", -2.0000000001), 0.22740742820168557599, 1e-9);
    CHECK(call1("special_airy_ai", 104) == 0);
}

TEST(special_normal_distribution) {
    CHECK_CLOSE(call1("special_erfcx", 1), 0.42758357615580700442);
    CHECK_CLOSE(call1("special_erfcx", -2), 108.94090438997797);
    CHECK_CLOSE(call1("special_erfcx", 1e20), 5.6418958354775628e-21);
    CHECK(call1("special_erfcx", INFINITY) == 0);
    CHECK(isinf(call1("special_erfcx", -30)));
    CHECK_CLOSE(call1("special_ndtr", 1), 0.84134474606854294859);
    CHECK_CLOSE(call1("special_log_ndtr", -30), -454.32124395634325);
    CHECK_CLOSE(call1("special_ndtri", 1e-300), -37.047096299361199);
    for (double p = 1e-12; p < 1; p = p < 0.1 ? p * 7 : p + 0.07)
        CHECK_NEAR(exp(call1("special_log_ndtr", call1("special_ndtri", p))) / p, 1, 1e-11);
    CHECK(call1("special_ndtri", 0) == -INFINITY);
    CHECK(call1("special_ndtri", 1) == INFINITY);
    CHECK(isnan(call1("special_ndtri", 1.5)));
}

TEST(special_polynomials) {
    for (double x = -1.5; x < 1.6; x += 0.25) {
        CHECK_NEAR(call2("special_chebyshev_polynomial_t", x, 3), 4 * x * x * x - 3 * x, 1e-12);
        CHECK_NEAR(call2("special_chebyshev_polynomial_u", x, 2), 4 * x * x - 1, 1e-12);
        CHECK_NEAR(call2("special_chebyshev_polynomial_v", x, 2), 4 * x * x - 2 * x - 1, 1e-12);
        CHECK_NEAR(call2("special_chebyshev_polynomial_w", x, 2), 4 * x * x + 2 * x - 1, 1e-12);
        CHECK_NEAR(call2("special_hermite_polynomial_h", x, 3), 8 * x * x * x - 12 * x, 1e-12);
        CHECK_NEAR(call2("special_hermite_polynomial_he", x, 3), x * x * x - 3 * x, 1e-12);
        CHECK_NEAR(call2("special_laguerre_polynomial_l", x, 2), x * x / 2 - 2 * x + 1, 1e-12);
        CHECK_NEAR(call2("special_legendre_polynomial_p", x, 2), 1.5 * x * x - 0.5, 1e-12);
        CHECK_NEAR(call2("special_shifted_chebyshev_polynomial_t", x, 2),
                   2 * (2 * x - 1) * (2 * x - 1) - 1, 1e-12);
    }
    CHECK_NEAR(call2("special_chebyshev_polynomial_t", 0.3, 9),
               2 * 0.3 * call2("special_chebyshev_polynomial_t", 0.3, 8) -
                   call2("special_chebyshev_polynomial_t", 0.3, 7), 1e-12);
    CHECK(call2("special_legendre_polynomial_p", 0.5, -1) == 0);
    CHECK(call2("special_legendre_polynomial_p", 0.5, NAN) == 0);
}

/* Orders that no loop could reach come from closed and asymptotic forms. */
TEST(special_polynomials_of_absurd_order) {
    CHECK(fabs(call2("special_legendre_polynomial_p", 0.5, 1e18)) < 1e-6);
    CHECK(isnan(call2("special_chebyshev_polynomial_w", -3, 1e18)));
    CHECK(isnan(call2("special_hermite_polynomial_h", 0, 1e18)));
    CHECK(fabs(call2("special_laguerre_polynomial_l", 1, 1e18)) < 1);
    double a = call2("special_legendre_polynomial_p", 0.5, 100000); /* the last by recurrence */
    double b = call2("special_legendre_polynomial_p", 0.5, 99999);
    CHECK_NEAR(call2("special_legendre_polynomial_p", 0.5, 100001),
               (200001 * 0.5 * a - 100000 * b) / 100001, 1e-6);
}

TEST(special_numbers_may_stand_for_tensors) {
    float x[] = {0.5f, -0.25f};
    cfx_tensor *t = cfx_tensor_new(CFX_F32, 1, (int64_t[]){2}, x);
    cfx_tensor *r =
        cfx_as_tensor(cfx_op_do(cfx_op_find("special_chebyshev_polynomial_t.n_scalar"), t, 2));
    CHECK_INT(cfx_tensor_dtype(r), CFX_F32);
    CHECK_NEAR(cfx_tensor_get(r, 0), -0.5, 1e-6);
    int64_t n[] = {0, 1, 2};
    cfx_tensor *orders = cfx_tensor_new(CFX_I64, 1, (int64_t[]){3}, n);
    r = cfx_as_tensor(cfx_op_do(cfx_op_find("special_hermite_polynomial_h.x_scalar"), 2.0, orders));
    CHECK_INT(cfx_tensor_dtype(r), CFX_F32);
    CHECK_NEAR(cfx_tensor_get(r, 2), 14, 1e-6);
    r = cfx_as_tensor(cfx_op_do(cfx_op_find("special_zeta.self_scalar"), 2, t));
    CHECK_NEAR(cfx_tensor_get(r, 0), 4.934802200544679, 1e-5);
    CHECK_OK();
}

TEST(polygamma_of_integers_is_not_stored_in_them) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(2, 4));
    cfx_polygamma_(x, 1);
    CHECK_ERROR("result type Float can't be cast to the desired output type Long");
}
