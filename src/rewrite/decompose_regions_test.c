/* Sub-graphs that are written out in the graph around them: branches that are settled, regions. */
#include "decompose_test.h"

/* A program whose parameter p is true. */
static cfx_program *settled_program(const char *code) {
    cfx_program *p = program_of(code);
    cfx_dict_set(p->state, "p", cfx_tensor_value(cfx_full(cfx_list(), cfx_bool(true))));
    return p;
}

/* Of a branch that is settled what only data settles stays a call. */
TEST(a_branch_in_a_settled_branch_stays) {
    cfx_program *p = settled_program(
        HEAD "    def forward(self, p_p: \"b8[]\", x: \"f32[2]\", y: \"b8[]\"):\n"
             "        true_graph_0 = self.true_graph_0\n"
             "        false_graph_0 = self.false_graph_0\n"
             "        cond = torch.ops.higher_order.cond(p_p, true_graph_0, false_graph_0, [x, "
             "y])\n"
             "        getitem: \"f32[2]\" = cond[0]\n"
             "        return (getitem,)\n"
             "\n"
             "    class true_graph_0(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\", y: \"b8[]\"):\n"
             "            true_graph_0 = self.true_graph_0\n"
             "            false_graph_0 = self.false_graph_0\n"
             "            cond = torch.ops.higher_order.cond(y, true_graph_0, false_graph_0, [x])\n"
             "            getitem: \"f32[2]\" = cond[0]\n"
             "            return (getitem,)\n"
             "\n"
             "        class true_graph_0(torch.nn.Module):\n"
             "            def forward(self, x: \"f32[2]\"):\n"
             "                silu: \"f32[2]\" = torch.ops.aten.silu.default(x)\n"
             "                return (silu,)\n"
             "\n"
             "        class false_graph_0(torch.nn.Module):\n"
             "            def forward(self, x: \"f32[2]\"):\n"
             "                neg: \"f32[2]\" = torch.ops.aten.neg.default(x)\n"
             "                return (neg,)\n"
             "\n"
             "    class false_graph_0(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\", y: \"b8[]\"):\n"
             "            return (x,)\n");
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    HAS(cfx_module_code(core->module),
        "    true_graph_0 = self.true_graph_0\n"
        "    false_graph_0 = self.false_graph_0\n"
        "    cond = torch.ops.higher_order.cond(y, true_graph_0, false_graph_0, (x,));");
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(1.0, -2.0));
    CHECK_STR(cfx_str(cfx_program_run(core, x, cfx_full(cfx_list(), cfx_bool(false)))),
              "(tensor([-1.,  2.]),)");
    CHECK_STR(cfx_str(cfx_program_run(core, x, cfx_full(cfx_list(), cfx_bool(true)))),
              cfx_str(cfx_tuple(cfx_silu(x))));
    CHECK_OK();
}

/* Two branches have an attribute each by the same name. */
TEST(attributes_of_settled_branches_stay_apart) {
    cfx_program *p = settled_program(
        HEAD "    def forward(self, p_p: \"b8[]\", x: \"f32[2]\"):\n"
             "        a = self.a\n"
             "        b = self.b\n"
             "        cond = torch.ops.higher_order.cond(p_p, a, b, [x])\n"
             "        getitem: \"f32[2]\" = cond[0]\n"
             "        cond_1 = torch.ops.higher_order.cond(p_p, b, a, [getitem])\n"
             "        getitem_1: \"f32[2]\" = cond_1[0]\n"
             "        return (getitem_1,)\n"
             "\n"
             "    class a(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\"):\n"
             "            c = self.c\n"
             "            add: \"f32[2]\" = torch.ops.aten.add.Tensor(x, c)\n"
             "            return (add,)\n"
             "\n"
             "    class b(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\"):\n"
             "            c = self.c\n"
             "            mul: \"f32[2]\" = torch.ops.aten.mul.Tensor(x, c)\n"
             "            return (mul,)\n");
    for (int i = 0; i < 2; i++)
        cfx_module_set_attr(cfx_as_module(cfx_module_attr(p->module, i ? "b" : "a")), "c",
                            cfx_tensor_value(cfx_full(cfx_list(), i ? 10.0 : 1.0)));
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(1.0, -2.0));
    CHECK_STR(cfx_str(cfx_program_run(p, x)), "(tensor([ 20., -10.]),)");
    CHECK_STR(cfx_str(cfx_program_run(cfx_decompose(p, CFX_NONE), x)), "(tensor([ 20., -10.]),)");
    CHECK_OK();
}

/* A view that a region gives is written to outside of it. */
TEST(what_regions_view_is_written_to_behind_them) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[3]\"):\n"
             "        submod_1 = self.submod_1\n"
             "        wrap = torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_1, "
             "x)\n"
             "        narrow: \"f32[2]\" = wrap[0]\n"
             "        neg_: \"f32[2]\" = torch.ops.aten.neg_.default(narrow)\n"
             "        add: \"f32[3]\" = torch.ops.aten.add.Tensor(x, 0)\n"
             "        return (add,)\n"
             "\n"
             "    class submod_1(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[3]\"):\n"
             "            narrow: \"f32[2]\" = torch.ops.aten.narrow.default(x, 0, 1, 2)\n"
             "            return (narrow,)\n");
    cfx_program *f = cfx_program_functionalize(p);
    CHECK_OK();
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(1.0, 2.0, 3.0));
    CHECK_STR(cfx_str(cfx_program_run(f, x)), "(tensor([ 1., -2., -3.]),)");
    CHECK_STR(cfx_str(x), "tensor([ 1., -2., -3.])");
    CHECK_OK();
}

/* Two results of a region that are alike stay two where one of them is written to behind it. */
TEST(results_of_regions_that_are_written_to_stay_apart) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[2]\"):\n"
             "        submod_1 = self.submod_1\n"
             "        wrap = torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_1, "
             "x)\n"
             "        neg: \"f32[2]\" = wrap[0]\n"
             "        neg_1: \"f32[2]\" = wrap[1]\n"
             "        mul: \"f32[2]\" = wrap[2]\n"
             "        add_: \"f32[2]\" = torch.ops.aten.add_.Tensor(neg, 10)\n"
             "        return (add_, neg_1, mul, x)\n"
             "\n"
             "    class submod_1(torch.nn.Module):\n"
             "        def forward(self, x: \"f32[2]\"):\n"
             "            neg: \"f32[2]\" = torch.ops.aten.neg.default(x)\n"
             "            neg_1: \"f32[2]\" = torch.ops.aten.neg.default(x)\n"
             "            mul: \"f32[2]\" = torch.ops.aten.clone.default(x)\n"
             "            return (neg, neg_1, mul)\n");
    cfx_program *o = cfx_optimize(p);
    CHECK_OK();
    CHECK_STR(cfx_str(cfx_program_run(o, cfx_tensor_from_value(cfx_list(1.0, 2.0)))),
              "(tensor([9., 8.]), tensor([-1., -2.]), tensor([1., 2.]), tensor([1., 2.]))");
    CHECK_OK();
}
