/* What Python does with values: indexing, attributes, numbers. */
#include <cfx/ops.h>

#include "test.h"

#include "../../tensor/tensor.h"

static cfx_tensor *grid(void) {
    float v[12];
    for (int i = 0; i < 12; i++)
        v[i] = (float)i;
    return cfx_tensor_new(CFX_F32, 2, (int64_t[]){3, 4}, v);
}

static cfx_value range(int from, int to) {
    return cfx_slice_value(cfx_int(from), cfx_int(to), cfx_none());
}

static const cfx_value all = {.tag = CFX_TAG_NONE};

TEST(getitem_takes_what_python_takes) {
    cfx_tensor *x = grid();
    CHECK_STR(cfx_str(cfx_py("operator.getitem", x, 1)), "tensor([4., 5., 6., 7.])");
    CHECK_STR(cfx_str(cfx_py("operator.getitem", x, cfx_tuple(-1, 2))), "tensor(10.)");
    CHECK_STR(cfx_str(cfx_py("operator.getitem", x, cfx_tuple(cfx_ellipsis(), 0))),
              "tensor([0., 4., 8.])");
    CHECK_STR(cfx_str(cfx_py("operator.getitem", x, cfx_tuple(range(1, 3), range(0, 2)))),
              "tensor([[4., 5.],\n        [8., 9.]])");
    cfx_value whole = cfx_slice_value(all, all, all);
    cfx_value picked = cfx_py("operator.getitem", x, cfx_tuple(whole, cfx_list(0, 3)));
    CHECK_STR(cfx_str(picked), "tensor([[ 0.,  3.],\n        [ 4.,  7.],\n        [ 8., 11.]])");
    cfx_value wide = cfx_py("operator.getitem", x, cfx_tuple(CFX_NONE, 0));
    CHECK_INT(cfx_tensor_ndim(cfx_as_tensor(wide)), 2);
    CHECK_OK();
}

TEST(getitem_says_both_ends_of_a_slice) {
    cfx_tensor *x = cfx_arange(6);
    cfx_value none = cfx_none(), back = cfx_slice_value(none, cfx_int(-1), none);
    CHECK_STR(cfx_str(cfx_py("operator.getitem", x, back)), "tensor([0, 1, 2, 3, 4])");
    cfx_value steps = cfx_slice_value(none, none, cfx_int(2));
    CHECK_STR(cfx_str(cfx_py("operator.getitem", x, steps)), "tensor([0, 2, 4])");
    cfx_py("operator.getitem", x, "a");
    CHECK_ERROR("new(): invalid data type 'str'");
}

TEST(getitem_gives_views_where_it_can) {
    cfx_tensor *x = grid();
    cfx_value row = cfx_py("operator.getitem", x, 2);
    CHECK(cfx_tensor_shares(x, cfx_as_tensor(row)));
    cfx_py("operator.setitem", x, cfx_tuple(2, range(0, 2)), 100);
    CHECK_STR(cfx_str(row), "tensor([100., 100.,  10.,  11.])");
    cfx_value same = cfx_py("operator.getitem", x, cfx_ellipsis());
    CHECK(cfx_as_tensor(same) != x && cfx_tensor_shares(x, cfx_as_tensor(same)));
}

TEST(setitem_takes_numbers_and_tensors) {
    cfx_tensor *x = grid();
    cfx_py("operator.setitem", x, 0, CFX_NONE);
    CHECK_ERROR("can't assign a NoneType to a torch.FloatTensor");
    cfx_py("operator.setitem", x, 0, cfx_list(1, 2));
    CHECK_ERROR("can't assign a list to a torch.FloatTensor");
}

TEST(getitem_of_containers) {
    cfx_value pair = cfx_tuple(1, "two", 3.5);
    CHECK_STR(cfx_repr(cfx_py("operator.getitem", pair, -1)), "3.5");
    CHECK_STR(cfx_repr(cfx_py("operator.getitem", pair, range(0, 2))), "(1, 'two')");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "k", cfx_int(7));
    CHECK_STR(cfx_repr(cfx_py("operator.getitem", d, "k")), "7");
    cfx_py("operator.getitem", d, "z");
    CHECK_ERROR("'z'");
    cfx_py("operator.getitem", pair, 3);
    CHECK_ERROR("tuple index out of range");
    cfx_py("operator.getitem", grid(), cfx_tuple(0, 0, 0));
    CHECK_ERROR("too many indices for tensor of dimension 2");
    cfx_py("operator.getitem", 5, 0);
    CHECK_ERROR("'int' object is not subscriptable");
}

TEST(numbers_follow_python) {
    CHECK_STR(cfx_repr(cfx_py("operator.mul", 6, 7)), "42");
    CHECK_STR(cfx_repr(cfx_py("operator.add", 1, 2.5)), "3.5");
    CHECK_STR(cfx_repr(cfx_py("operator.floordiv", -7, 2)), "-4");
    CHECK_STR(cfx_repr(cfx_py("operator.mod", -7, 3)), "2");
    CHECK_STR(cfx_repr(cfx_py("operator.truediv", 7, 2)), "3.5");
    CHECK_STR(cfx_repr(cfx_py("operator.pow", 2, 10)), "1024");
    CHECK_STR(cfx_repr(cfx_py("operator.le", 3, 3)), "True");
    CHECK_STR(cfx_repr(cfx_py("torch.sym_max", 3, 9)), "9");
    CHECK_OK();
    cfx_py("operator.mul", INT64_MAX, 2);
    CHECK_ERROR("more than 64 bits");
    cfx_py("operator.floordiv", 1, 0);
    CHECK_ERROR("division by zero");
}

TEST(attributes_and_asserts) {
    cfx_tensor *x = grid();
    CHECK_STR(cfx_repr(cfx_py("builtins.getattr", x, "shape")), "(3, 4)");
    CHECK_STR(cfx_repr(cfx_py("builtins.getattr", x, "dtype")), "torch.float32");
    cfx_py("builtins.getattr", x, "flavour");
    CHECK_ERROR("'Tensor' object has no attribute 'flavour'");
    cfx_py("torch._assert", true, "fine");
    CHECK_OK();
    cfx_py("torch._assert", false, "x has been specialized");
    CHECK_ERROR("x has been specialized");
}

TEST(numbers_are_rounded_as_python_does) {
    CHECK_STR(cfx_str(cfx_py("math.ceil", 2.1)), "3");
    CHECK_STR(cfx_str(cfx_py("math.floor", -2.1)), "-3");
    CHECK_STR(cfx_str(cfx_py("math.trunc", -2.9)), "-2");
    CHECK_STR(cfx_str(cfx_py("math.ceil", 7)), "7");
    CHECK_STR(cfx_str(cfx_py("builtins.round", 2.5)), "2");
    CHECK_STR(cfx_str(cfx_py("builtins.round", 2.345, 1)), "2.3");
    CHECK_STR(cfx_str(cfx_py("math.sqrt", 16)), "4.0");
    CHECK_STR(cfx_str(cfx_py("torch.sym_ite", cfx_bool(false), 1, 2)), "2");
    CHECK_STR(cfx_str(cfx_py("torch.sym_sum", cfx_list(1, 2, 3))), "6");
    CHECK_OK();
    cfx_py("math.ceil", 1e300);
    CHECK_ERROR("more than 64 bits");
    cfx_py("math.sqrt", -1.0);
    CHECK_ERROR("math domain error");
}

TEST(operators_that_assign_write_to_tensors_and_give_new_numbers) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(1.0, 2.0));
    CHECK(cfx_as_tensor(cfx_py("operator.iadd", x, 1)) == x);
    CHECK(cfx_as_tensor(cfx_py("operator.imul", x, x)) == x);
    CHECK(cfx_as_tensor(cfx_py("operator.ipow", x, 2)) == x);
    CHECK_STR(cfx_str(x), "tensor([16., 81.])");
    CHECK_STR(cfx_repr(cfx_py("operator.isub", 5, 7)), "-2");
    CHECK_STR(cfx_repr(cfx_py("operator.ifloordiv", 7, 2)), "3");
    CHECK_STR(cfx_repr(cfx_py("operator.iconcat", cfx_list(1), cfx_list(2, 3))), "[1, 2, 3]");
    cfx_tensor *m = cfx_ones(cfx_list(2, 2));
    CHECK(cfx_as_tensor(cfx_py("operator.imatmul", m, m)) != m);
    CHECK(cfx_is_none(cfx_py("torch.fx._symbolic_trace._assert_is_none", NULL, "given")));
    cfx_py("torch.fx._symbolic_trace._assert_is_none", 1, "x has been specialized");
    CHECK_ERROR("x has been specialized");
}

TEST(trees_are_put_together_and_taken_apart) {
    cfx_value tree = cfx_tuple(1, cfx_list(2, 3));
    cfx_value flat = cfx_py("torch.utils._pytree.tree_flatten", tree);
    CHECK_STR(cfx_repr(cfx_at(flat, 0)), "[1, 2, 3]");
    cfx_value spec = cfx_at(flat, 1);
    CHECK_STR(cfx_repr(cfx_py("torch.utils._pytree.tree_unflatten", cfx_list(4, 5, 6), spec)),
              "(4, [5, 6])");
    CHECK_STR(cfx_repr(cfx_py("torch.fx._pytree.tree_flatten_spec", tree, spec)), "[1, 2, 3]");
    cfx_py("torch.fx._pytree.tree_flatten_spec", cfx_tuple(1, 2), spec);
    CHECK_ERROR("Real spec TreeSpec(tuple, None, [*,\n  *]) of object (1, 2) is different from "
                "expected spec TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *])]).");
    cfx_py("torch.utils._pytree.tree_unflatten", 1, spec);
    CHECK_ERROR("the leaves of a tree are a list, not int");
}

static const char *reflected;

static cfx_tensor *number_first(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_as_tensor(cfx_py(reflected, 3, x));
}

/* "aten.rsub.Scalar(x, 3)", calls one after the other; scope. */
static const char *calls_of(const char *name, cfx_module *m) {
    reflected = name;
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(2)), CFX_NONE, CFX_NONE);
    cfx__text out = {0};
    cfx_each_node(p->module->graph, n) if (n->op == CFX_CALL_FUNCTION)
        cfx__text_printf(&out, "%s%s", n->target.name, cfx_repr(n->args));
    return cfx__text_take(&out);
}

TEST(operators_with_a_number_on_the_left_are_the_tensors_own) {
    cfx_module *m = cfx_module_new("Number", number_first, "x");
    static const char *const rows[][2] = {
        {"operator.add", "aten.add.Tensor(x, 3)"},
        {"operator.sub", "aten.rsub.Scalar(x, 3)"},
        {"operator.mul", "aten.mul.Tensor(x, 3)"},
        {"operator.truediv", "aten.reciprocal.default(x,)aten.mul.Tensor(reciprocal, 3)"},
        {"operator.floordiv", "aten.floor_divide.default(3, x)"},
        {"operator.mod", "aten.remainder.Scalar_Tensor(3, x)"},
        {"operator.pow", "aten.pow.Scalar(3, x)"},
        {"operator.lt", "aten.gt.Scalar(x, 3)"},
        {"operator.ge", "aten.le.Scalar(x, 3)"},
        {"operator.eq", "aten.eq.Scalar(x, 3)"}};
    for (int i = 0; i < COUNT(rows); i++)
        CHECK_STR(calls_of(rows[i][0], m), rows[i][1]);
    reflected = "operator.sub";
    cfx_module *gm = cfx_symbolic_trace(m); /* what is traced says what was written */
    CHECK_STR(cfx_node_format(cfx_graph_find(gm->graph, "sub")),
              "%sub : [num_users=1] = call_function[target=operator.sub](args = (3, %x), "
              "kwargs = {})");
    CHECK_STR(cfx_str(cfx_forward(gm, cfx_ones(2))), "tensor([2., 2.])");
    cfx_value quarter = cfx_py("operator.truediv", 1, cfx_full(cfx_list(1), 4.0));
    CHECK_STR(cfx_str(quarter), "tensor([0.2500])");
    CHECK_STR(cfx_str(cfx_py("operator.lt", 1, cfx_ones(1))), "tensor([False])");
    CHECK_OK();
}

TEST(numbers_are_no_sequences_to_pack) {
    cfx_py("torch.nn.utils.rnn.pack_sequence", cfx_list(cfx_ones(2), cfx_sum(cfx_ones(2))));
    CHECK_ERROR("Dimension specified as 0 but tensor has no dimensions");
}
