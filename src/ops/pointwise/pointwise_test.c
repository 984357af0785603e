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
