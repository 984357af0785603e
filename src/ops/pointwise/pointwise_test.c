/* Pointwise rows: every loop has its expression as text. */
#include "test.h"

#include "../ops.h"

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
