/* Operators over lists, and the forms of operators that give lists. */
#include "test.h"

#include <cfx/ops.h>

static cfx_value two(double a, double b) {
    return cfx_list(cfx_full(cfx_list(2), a), cfx_full(cfx_list(1), b));
}

static const char *of(const char *op, cfx_args a) {
    return cfx_repr(cfx_op_do_from(CFX_HERE, cfx_op_find(op), a));
}
#define OF(op, ...) of(op, CFX_ARGS(__VA_ARGS__))

TEST(lists_are_computed_item_by_item) {
    CHECK_STR(OF("aten._foreach_add.List", two(1, 2), two(3, 4), CFX_KW(alpha, 2)),
              "[tensor([7., 7.]), tensor([10.])]");
    CHECK_STR(OF("aten._foreach_mul.ScalarList", two(1, 2), cfx_list(3, 4)),
              "[tensor([3., 3.]), tensor([8.])]");
    CHECK_STR(OF("aten._foreach_addcdiv.Scalar", two(1, 1), two(4, 6), two(2, 3), 0.5),
              "[tensor([2., 2.]), tensor([2.])]");
    CHECK_STR(OF("aten._foreach_norm.Scalar", two(3, -2)), "[tensor(4.2426), tensor(2.)]");
    CHECK_STR(OF("aten._foreach_maximum.Scalar", two(1, 5), 3),
              "[tensor([3., 3.]), tensor([5.])]");
    CHECK_STR(OF("aten._foreach_sqrt.default", two(4, 9)), "[tensor([2., 2.]), tensor([3.])]");
    CHECK_OK();
    OF("aten._foreach_add.List", two(1, 2), cfx_list(cfx_ones(1)));
    CHECK_ERROR("Tensor lists must have the same number of tensors, got 2 and 1");
    OF("aten._foreach_abs.default", cfx_list_value(0, NULL));
    CHECK_ERROR("Tensor list must have at least one tensor.");
}

TEST(lists_are_written_in_place_and_to_out) {
    cfx_value x = two(1, 2), y = two(0, 0);
    CHECK_STR(OF("aten._foreach_add_.Scalar", x, 1), "None");
    CHECK_STR(cfx_repr(x), "[tensor([2., 2.]), tensor([3.])]");
    CHECK_STR(OF("aten._foreach_neg.out", x, CFX_KW(out, y)), "None");
    CHECK_STR(cfx_repr(y), "[tensor([-2., -2.]), tensor([-3.])]");
    cfx_value parts = cfx_list(cfx_zeros(0), cfx_zeros(0));
    OF("aten.split_copy.Tensor_out", cfx_arange(4.0), 2, 0, CFX_KW(out, parts));
    CHECK_STR(cfx_repr(parts), "[tensor([0., 1.]), tensor([2., 3.])]");
    CHECK_OK();
    OF("aten.unbind_copy.int_out", cfx_arange(3.0), 0, CFX_KW(out, parts));
    CHECK_ERROR("unbind_copy() expected an out= argument of size 3, got size 2");
}

TEST(options_are_those_of_out) {
    cfx_tensor *t = cfx_zeros(1, CFX_KW(dtype, cfx_i64));
    OF("aten.arange.start_out", 1, 7, 2, CFX_KW(out, t));
    CHECK_STR(cfx_str(t), "tensor([1, 3, 5])");
    OF("aten.ones.out", cfx_list(2), CFX_KW(out, t));
    CHECK_STR(cfx_str(t), "tensor([1, 1])");
    cfx_tensor *v = cfx_zeros(2);
    OF("aten.var.out", cfx_arange(6.0), cfx_list(0), false, CFX_KW(out, v));
    CHECK_STR(cfx_str(v), "tensor(2.9167)");
    CHECK_STR(cfx_op_find("aten.zeros.out")->schema,
              "aten::zeros.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)");
    cfx_tensor *p = cfx_full(cfx_list(1), 2.0);
    OF("aten.polygamma_.default", p, 1);
    CHECK_STR(cfx_str(p), "tensor([0.6449])");
    CHECK_OK();
}
