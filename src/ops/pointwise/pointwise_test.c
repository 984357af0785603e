/* Pointwise rows: every loop has its expression as text. */
#include "test.h"

#include "../ops.h"

#include <math.h>

static bool says(const void *loop, const char *text) { return !loop || (text && *text); }

TEST(every_pointwise_row_keeps_its_expressions) {
    int rows = 0;
    for (int i = 0; i < cfx_op_count(); i++) {
        const cfx_op *op = cfx_op_at(i);
        if (op->kernel != kernel_pointwise)
            continue;
        const pointwise_row *r = op->row;
        if (!says(r->f32, r->float_expr) || !says(r->f64, r->float_expr) ||
            !says(r->i64, r->int_expr) || !says(r->b8, r->bool_expr) ||
            !says(r->c64, r->complex_expr) || !says(r->c128, r->complex_expr))
            test_fail(CFX_HERE, "%s has a loop without its expression", op->schema);
        rows++;
    }
    CHECK(rows > 150);
}

TEST(expressions_are_kept_as_they_are_written) {
    CHECK_STR(((const pointwise_row *)cfx_op_exp.row)->float_expr, "vexp(x)");
    CHECK_STR(((const pointwise_row *)cfx_op_div_Tensor.row)->complex_expr, "x / y");
    CHECK_STR(((const pointwise_row *)cfx_op_mul_Tensor.row)->int_expr, "WRAP(x, *, y)");
    CHECK_STR(((const pointwise_row *)cfx_op_lt_Tensor.row)->float_expr, "x < y");
}

/* The most units in the last place by which a function of floats is off, from 2^-30 to `most` and
 * below zero too. */
static double units_off(cfx_tensor *(*f)(cfx_tensor *), double (*exact)(double), float most) {
    enum { N = 4096 };
    float x[2 * N];
    for (int i = 0; i < N; i++) {
        x[i] = most * exp2f(-30.f * (float)i / N);
        x[N + i] = -x[i];
    }
    cfx_tensor *y = f(cfx_tensor_borrow(CFX_F32, 1, (const int64_t[]){2 * N}, x, NULL, NULL));
    double worst = 0;
    for (int i = 0; i < 2 * N; i++) {
        const double r = exact((double)x[i]);
        const float near = fabsf((float)r);
        const double off = fabs((double)((const float *)y->data)[i] - r) /
                           (double)(nextafterf(near, INFINITY) - near);
        worst = off > worst ? off : worst;
    }
    return worst;
}

static cfx_tensor *exp_of(cfx_tensor *x) { return cfx_exp(x); }
static cfx_tensor *erf_of(cfx_tensor *x) { return cfx_erf(x); }
static cfx_tensor *tanh_of(cfx_tensor *x) { return cfx_tanh(x); }
static cfx_tensor *sigmoid_of(cfx_tensor *x) { return cfx_sigmoid(x); }
static cfx_tensor *silu_of(cfx_tensor *x) { return cfx_silu(x); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * (1 + erf(x * M_SQRT1_2)); }

TEST(functions_that_are_written_out_are_exact_to_some_units_in_the_last_place) {
    CHECK(units_off(exp_of, exp, 87) < 1.5);
    CHECK(units_off(erf_of, erf, 9) < 5);
    CHECK(units_off(tanh_of, tanh, 12) < 2);
    CHECK(units_off(sigmoid_of, sigmoid, 80) < 3);
    CHECK(units_off(silu_of, silu, 80) < 3);
    /* the largest result, subnormal ones to the least, and NaN whatever its bits are */
    const union { uint32_t u; float f; } payload = {0x7fc001ffu};
    float ends[] = {88.72283f, 88.72284f, -87.5f, -95.25f, -103.9f, -104.f, INFINITY, -INFINITY,
                    NAN, payload.f, 1000.f, -1000.f, 0.f, -0.f};
    const int64_t n = COUNT(ends);
    const float *e = (const float *)cfx_exp(
        cfx_tensor_borrow(CFX_F32, 1, &n, ends, NULL, NULL))->data;
    for (int i = 0; i < n; i++) {
        const float want = (float)exp((double)ends[i]);
        const float unit = nextafterf(want, INFINITY) - want;
        CHECK(isnan(want) ? isnan(e[i]) : e[i] == want || fabsf(e[i] - want) <= unit);
    }
    float odd[] = {NAN, -NAN, INFINITY, -INFINITY, -0.f, 3.925f, 3.9f};
    cfx_tensor *x = cfx_tensor_borrow(CFX_F32, 1, (const int64_t[]){7}, odd, NULL, NULL);
    const float *y = (const float *)cfx_erf(x)->data;
    CHECK(isnan(y[0]) && isnan(y[1]));
    cfx_tensor *results[] = {cfx_log(x), cfx_tanh(x), cfx_sigmoid(x), cfx_silu(x), cfx_gelu(x)};
    double (*const exact[])(double) = {log, tanh, sigmoid, silu, gelu};
    for (int k = 0; k < COUNT(results); k++)
        for (int i = 0; i < COUNT(odd); i++) {
            const float of = ((const float *)results[k]->data)[i];
            const float want = (float)exact[k]((double)odd[i]);
            CHECK(isnan(want) ? isnan(of)
                              : of == want || fabsf(of - want) < 1e-6f * fabsf(want));
        }
    CHECK(y[2] == 1 && y[3] == -1 && y[4] == 0 && signbit(y[4]) && y[5] == 1 && y[6] <= 1);
}

/* From the least number there is to the largest, against double. */
TEST(logarithms_are_exact_to_two_units_in_the_last_place) {
    enum { N = 1 << 16 };
    float *x = cfx__alloc(N * sizeof *x);
    for (uint32_t i = 0; i < N; i++) {
        const union { uint32_t u; float f; } b = {1 + i * 32639u};
        x[i] = b.f;
    }
    const int64_t n = N;
    const float *y = (const float *)cfx_log(cfx_tensor_borrow(CFX_F32, 1, &n, x, NULL, NULL))->data;
    double worst = 0;
    for (int i = 0; i < N; i++) {
        const double r = log((double)x[i]);
        const float near = fabsf((float)r);
        worst = fmax(worst, fabs((double)y[i] - r) / (double)(nextafterf(near, INFINITY) - near));
    }
    CHECK(worst < 2);
    cfx__free(x);
}

/* As the kernels of PyTorch have it: what does not fit into a dtype is refused, fake or not. */
TEST(numbers_of_rows_fit_the_dtype_that_is_computed_in) {
    cfx_tensor *x = cfx_ones(cfx_list(2)), *fake = cfx_tensor_fake(CFX_F32, 1, x->shape, NULL);
    cfx_tensor *both[] = {x, fake};
    for (int i = 0; i < COUNT(both); i++) {
        const char *why = "value cannot be converted to type float without overflow";
        cfx_value j = cfx_complex_value(1, 2);
        cfx_softplus(both[i], 1, j);
        CHECK_ERROR(why);
        cfx_hardshrink(both[i], j);
        CHECK_ERROR(why);
        cfx_leaky_relu(both[i], 1e300);
        CHECK_ERROR(why);
        cfx_threshold(both[i], 0, j);
        CHECK_ERROR(why);
        cfx_addcmul(both[i], both[i], both[i], CFX_KW(value, j));
        CHECK_ERROR(why);
        cfx_elu(both[i], 1, 1, -1e39);
        CHECK_ERROR(why);
    }
    CHECK_STR(cfx_str(cfx_threshold(x, 0, INFINITY)), "tensor([1., 1.])");
    CHECK_STR(cfx_str(cfx_softshrink(x, cfx_complex_value(0.5, 0))), "tensor([0.5000, 0.5000])");
}

/* Where PyTorch asks for a double, or for numbers of the dtype of a product. */
TEST(complex_numbers_are_not_read_as_real_ones) {
    cfx_tensor *x = cfx_ones(cfx_list(2, 2)), *v = cfx_ones(cfx_list(2));
    cfx_value j = cfx_complex_value(1, 2);
    const char *why = "value cannot be converted to type double without overflow";
    cfx_softshrink(x, j);
    CHECK_ERROR(why);
    cfx_linalg_vector_norm(x, j);
    CHECK_ERROR(why);
    cfx_linalg_matrix_norm(x, j);
    CHECK_ERROR(why);
    cfx_var(x, CFX_KW(correction, j));
    CHECK_ERROR(why);
    cfx_arange(j);
    CHECK_ERROR(why);
    cfx_dist(x, x, j);
    CHECK_ERROR(why);
    why = "value cannot be converted to type float without overflow";
    cfx_addmm(x, x, x, CFX_KW(beta, j));
    CHECK_ERROR(why);
    cfx_addmv(v, x, v, CFX_KW(alpha, j));
    CHECK_ERROR(why);
    cfx_addr(x, v, v, CFX_KW(alpha, 1e300));
    CHECK_ERROR(why);
    cfx_trapezoid(x, CFX_KW(dx, j));
    CHECK_ERROR("trapezoid: Currently, we only support dx as a real number.");
    CHECK_STR(cfx_str(cfx_linalg_vector_norm(v, cfx_complex_value(1, 0))), "tensor(2.)");
}

TEST(real_numbers_have_complex_powers) {
    cfx_tensor *x = cfx_full(cfx_list(1), 2.0);
    CHECK_STR(cfx_str(cfx_pow(x, cfx_complex_value(0.5, 0.25))), "tensor([1.3930+0.2438j])");
    CHECK_OK();
}

/* As clamp does: nan stays, and where the bounds are the wrong way round the upper one takes all
 * else. */
TEST(hardtanh_is_clamp_for_nan_and_for_crossed_bounds) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(NAN, -3.0, 0.5, 7.0, INFINITY));
    const double bounds[][2] = {{-1, 1}, {1, 0}, {NAN, 1}, {-1, NAN}};
    for (int i = 0; i < 4; i++)
        CHECK_STR(cfx_str(cfx_hardtanh(x, bounds[i][0], bounds[i][1])),
                  cfx_str(cfx_clamp(x, bounds[i][0], bounds[i][1])));
    CHECK_STR(cfx_str(cfx_hardtanh(x, 1.0, 0.0)), "tensor([nan, 0., 0., 0., 0.])");
    CHECK_OK();
}

/* Large results are written past the caches, in blocks, whatever their address. */
TEST(large_results_are_those_of_small_pieces) {
    enum { N = (4 << 20) + 37, PIECE = 1000 };
    for (int off = 0; off < 3; off++)
        CFX_SCOPE {
            cfx_tensor *base = cfx_randn(N + off), *x = cfx_narrow(base, 0, off, N);
            cfx_tensor *to = cfx_narrow(cfx_empty(cfx_list(N + off)), 0, off, N);
            cfx_exp(x, CFX_KW(out, to));
            cfx_tensor *y = cfx_add(x, x);
            for (int64_t at = 0; at < N; at += N / 7) {
                const int64_t n = N - at < PIECE ? N - at : PIECE;
                cfx_tensor *piece = cfx_narrow(x, 0, at, n);
                CHECK(cfx_integer(cfx_equal(cfx_narrow(to, 0, at, n), cfx_exp(piece))));
                CHECK(cfx_integer(cfx_equal(cfx_narrow(y, 0, at, n), cfx_add(piece, piece))));
            }
            cfx_tensor *rows = cfx_view(cfx_narrow(x, 0, 0, 4 << 20), cfx_list(4096, 1024));
            cfx_tensor *norms = cfx_layer_norm(rows, cfx_list(1024));
            for (int64_t r = 0; r < 4096; r += 511)
                CHECK(cfx_integer(
                    cfx_equal(cfx_narrow(norms, 0, r, 1),
                              cfx_layer_norm(cfx_narrow(rows, 0, r, 1), cfx_list(1024)))));
        }
    CHECK_OK();
}

/* C's product of inf + nanj by a number looks for an infinity in it; PyTorch's does not. */
TEST(products_of_complex_infinities_are_nan) {
    cfx_tensor *x = cfx_full(cfx_list(3), cfx_complex_value(INFINITY, NAN));
    const char *nan = "tensor([nan+nanj, nan+nanj, nan+nanj])";
    CHECK_STR(cfx_str(cfx_mul(x, x)), nan);
    CHECK_STR(cfx_str(cfx_lerp(x, cfx_zeros_like(x), x)), nan);
    CHECK_STR(cfx_str(cfx_cumprod(x, 0)), nan);
    CHECK_STR(cfx_str(cfx_prod(x)), "tensor(nan+nanj)");
    x = cfx_full(cfx_list(2), cfx_complex_value(INFINITY, 0));
    CHECK_STR(cfx_str(cfx_prod(x)), "tensor(nan+nanj)");
    CHECK_STR(cfx_str(cfx_lerp(x, cfx_zeros_like(x), x)), "tensor([-inf+nanj, -inf+nanj])");
    CHECK_OK();
}

/* In PyTorch the conjugate of complex numbers is a view of them. */
TEST(conjugates_follow_what_they_mirror) {
    cfx_tensor *x = cfx_full(cfx_list(2), cfx_complex_value(1, 2)), *y = cfx_conj(x);
    cfx_tensor *part = cfx_select(y, 0, 1), *back = cfx_conj(y);
    CHECK(cfx_is_true(cfx_is_conj(y)) && !cfx_is_true(cfx_is_conj(back)));
    cfx_mul_(x, 2);
    CHECK_STR(cfx_str(cfx_add(y, 0)), "tensor([2.-4.j, 2.-4.j])");
    cfx_add_(part, cfx_complex_value(0, 1));
    CHECK_STR(cfx_str(x), "tensor([2.+4.j, 2.+3.j])");
    CHECK_STR(cfx_str(back), "tensor([2.+4.j, 2.+3.j])");
    cfx_fill_(cfx_imag(y), 7);
    CHECK_STR(cfx_str(x), "tensor([2.-7.j, 2.-7.j])");
    cfx_zero_(back);
    CHECK_STR(cfx_str(x), "tensor([0.+0.j, 0.+0.j])");
    cfx_tensor *own = cfx_resolve_conj(y);
    cfx_fill_(own, 1);
    CHECK_STR(cfx_str(y), "tensor([0.-0.j, 0.-0.j])");
    cfx_sigmoid_(cfx_matrix_H(cfx_unsqueeze(x, 0)));
    CHECK_STR(cfx_str(x), "tensor([0.5000-0.j, 0.5000-0.j])");
    CHECK_OK();
}
