/* Groups: layers with what follows, runs of pointwise operators, rotary embeddings; and back. */
#include "files.h"
#include "pass_test.h"

/* A convolution, its activation and a residual; and a second one just like it. */
static const char residuals[] =
    HEAD "    def forward(self, p_w: \"f32[4, 4, 1, 1]\", p_v: \"f32[4, 4, 1, 1]\", "
         "x: \"f32[1, 4, 3, 3]\"):\n"
         "        conv2d: \"f32[1, 4, 3, 3]\" = torch.ops.aten.conv2d.default(x, p_w)\n"
         "        relu: \"f32[1, 4, 3, 3]\" = torch.ops.aten.relu.default(conv2d)\n"
         "        add: \"f32[1, 4, 3, 3]\" = torch.ops.aten.add.Tensor(relu, x)\n"
         "        conv2d_1: \"f32[1, 4, 3, 3]\" = torch.ops.aten.conv2d.default(add, p_v)\n"
         "        relu_1: \"f32[1, 4, 3, 3]\" = torch.ops.aten.relu.default(conv2d_1)\n"
         "        add_1: \"f32[1, 4, 3, 3]\" = torch.ops.aten.add.Tensor(relu_1, add)\n"
         "        return (add_1,)\n";

TEST(pass_groups_layers) {
    cfx_program *p = program_of(residuals), *was = cfx_program_copy(p);
    const char *code = code_after("group_layers", p, 2);
    HAS(code, "invoke_subgraph = torch.ops.higher_order.invoke_subgraph(layer_0, 'layer_0', x, "
              "p_w)");
    HAS(code, "layer_1 = self.layer_0");
    HAS(code, "torch.ops.higher_order.invoke_subgraph(layer_1, 'layer_0', getitem, p_v)");
    const char *inner = cfx_module_code(cfx_module_find(p->module, "layer_0"));
    HAS(inner, "relu = torch.ops.aten.relu.default(conv2d)");
    HAS(inner, "add = torch.ops.aten.add.Tensor(relu, arg0_1)");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 4, 3, 3)), 0, 0);
    code_after("inline", p, 2);
    CHECK(cfx_graph_equal(p->module->graph, was->module->graph));
    CHECK(!cfx_module_has(p->module, "layer_0"));
}

TEST(groups_are_saved) {
    cfx_program *p = program_of(residuals);
    code_after("group_layers", p, 2);
    const char *path = test_path("groups.pt2");
    CHECK(cfx_save(p, path));
    cfx_program *q = cfx_open(path);
    if (CHECK(!cfx_failed(q)))
        CHECK_NEAR(difference(p, q, cfx_randn(1, 4, 3, 3)), 0, 0);
    test_unlink("groups.pt2");
    test_folder_done();
}

TEST(pass_groups_pointwise_runs) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, p_b: \"f32[4]\", x: \"f32[2, 4]\"):\n"
             "        exp: \"f32[2, 4]\" = torch.ops.aten.exp.default(x)\n"
             "        neg: \"f32[4]\" = torch.ops.aten.neg.default(p_b)\n"
             "        add: \"f32[2, 4]\" = torch.ops.aten.add.Tensor(exp, neg)\n"
             "        mul: \"f32[2, 4]\" = torch.ops.aten.mul.Tensor(add, exp)\n"
             "        sum_1: \"f32[2]\" = torch.ops.aten.sum.dim_IntList(mul, [1])\n"
             "        tanh: \"f32[2, 4]\" = torch.ops.aten.tanh.default(mul)\n"
             "        sin: \"f32[2, 4]\" = torch.ops.aten.sin.default(tanh)\n"
             "        return (sin, sum_1)\n");
    cfx_program *was = cfx_program_copy(p);
    const char *code = code_after("group_pointwise", p, 2);
    HAS(code, "neg = torch.ops.aten.neg.default(p_b)"); /* of another shape */
    const char *first = cfx_module_code(cfx_module_find(p->module, "pointwise_1"));
    HAS(first, "add = torch.ops.aten.add.Tensor(exp, arg1_1)");
    HAS(first, "return (mul,)");
    const char *second = cfx_module_code(cfx_module_find(p->module, "pointwise_0"));
    HAS(second, "sin = torch.ops.aten.sin.default(tanh)");
    CHECK_NEAR(difference(was, p, cfx_randn(2, 4)), 0, 0);
}

TEST(groups_mind_writes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, b_n: \"f32[4]\", x: \"f32[4]\"):\n"
             "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(x, b_n)\n"
             "        add_: \"f32[4]\" = torch.ops.aten.add_.Tensor(b_n, 1)\n"
             "        exp: \"f32[4]\" = torch.ops.aten.exp.default(mul)\n"
             "        return (exp,)\n");
    code_after("group_pointwise", p, 0);
}

TEST(pass_finds_rotary_embeddings) {
    static const char body[] =
        HEAD "    def forward(self, p_c: \"f32[3, 4]\", p_s: \"f32[3, 4]\", "
             "x: \"f32[1, 2, 3, 4]\"):\n"
             "        mul: \"f32[1, 2, 3, 4]\" = torch.ops.aten.mul.Tensor(x, p_c)\n"
             "        slice_1: \"f32[1, 2, 3, 2]\" = torch.ops.aten.slice.Tensor(x, 3, 0, 2)\n"
             "        slice_2: \"f32[1, 2, 3, 2]\" = torch.ops.aten.slice.Tensor(x, 3, 2, "
             "9223372036854775807)\n"
             "        neg: \"f32[1, 2, 3, 2]\" = torch.ops.aten.neg.default(slice_2)\n"
             "        cat: \"f32[1, 2, 3, 4]\" = torch.ops.aten.cat.default([neg, slice_1], -1)\n"
             "        mul_1: \"f32[1, 2, 3, 4]\" = torch.ops.aten.mul.Tensor(cat, p_s)\n"
             "        add: \"f32[1, 2, 3, 4]\" = torch.ops.aten.add.Tensor(mul, mul_1)\n"
             "        return (add,)\n";
    cfx_program *p = program_of(body), *was = cfx_program_copy(p);
    HAS(code_after("group_rotary", p, 1),
        "torch.ops.higher_order.invoke_subgraph(rotary_embedding_0, 'rotary_embedding_0', x, p_c, "
        "p_s)");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 2, 3, 4)), 0, 0);
}
