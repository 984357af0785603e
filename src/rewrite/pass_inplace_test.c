/* Writes put in and taken out. */
#include "pass_test.h"

TEST(pass_writes_in_place_what_is_not_needed) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[4]\"):\n"
             "        relu: \"f32[4]\" = torch.ops.aten.relu.default(x)\n"
             "        exp: \"f32[4]\" = torch.ops.aten.exp.default(relu)\n"
             "        view: \"f32[2, 2]\" = torch.ops.aten.view.default(exp, [2, 2])\n"
             "        add: \"f32[2, 2]\" = torch.ops.aten.add.Tensor(view, 1)\n"
             "        sin: \"f32[2, 2]\" = torch.ops.aten.sin.default(add)\n"
             "        mul: \"f32[2, 2]\" = torch.ops.aten.mul.Tensor(sin, add)\n"
             "        gt: \"b8[2, 2]\" = torch.ops.aten.gt.Scalar(mul, 0)\n"
             "        maximum: \"f32[2, 2]\" = torch.ops.aten.maximum.default(mul, sin)\n"
             "        tanh: \"f32[2, 2]\" = torch.ops.aten.tanh.default(maximum)\n"
             "        return (tanh, gt)\n");
    cfx_program *was = cfx_program_copy(p);
    const char *code = code_after("reinplace", p, 2);
    HAS(code, "relu = torch.ops.aten.relu.default(x)"); /* the caller's */
    HAS(code, "exp = torch.ops.aten.exp_.default(relu)");
    HAS(code, "add = torch.ops.aten.add.Tensor(view, 1)"); /* a view */
    HAS(code, "mul = torch.ops.aten.mul.Tensor(sin, add)"); /* sin is needed again */
    HAS(code, "tanh = torch.ops.aten.tanh_.default(maximum)");
    CHECK_NEAR(difference(was, p, cfx_randn(4)), 0, 0);
    code = code_after("functionalize", p, 2);
    HAS(code, "exp = torch.ops.aten.exp.default(relu)");
    HAS_NOT(code, "tanh_");
    CHECK_NEAR(difference(was, p, cfx_randn(4)), 0, 0);
}

TEST(pass_makes_writes_results) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/mutating_buffer/model.pt2");
    if (!CHECK(!cfx_failed(p)))
        return;
    CHECK(cfx_pass_apply(&cfx__pass_functionalize, p, NULL) > 0);
    CHECK_OK();
    CHECK(cfx_program_check(p));
    CHECK_INT(p->outputs[0].kind, CFX_OUT_BUFFER_MUTATION);
    CHECK_INT(cfx_pass_apply(&cfx__pass_functionalize, p, NULL), 0);
    /* operators stay whole */
    cfx_program *q = cfx_open(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2");
    CHECK(cfx_graph_equal(cfx_program_functionalize(q)->module->graph, q->module->graph));
}
