/* Weights that are tied and untied, results that are left out, types that are noted. */
#include "pass_test.h"

static const char twice[] =
    HEAD "    def forward(self, p_w: \"f32[4, 4]\", p_v: \"f32[4, 4]\", x: \"f32[2, 4]\"):\n"
         "        linear: \"f32[2, 4]\" = torch.ops.aten.linear.default(x, p_w)\n"
         "        linear_1: \"f32[2, 4]\" = torch.ops.aten.linear.default(linear, p_v)\n"
         "        return (linear_1, linear, 3)\n";

TEST(pass_ties_equal_weights) {
    cfx_program *p = program_of(twice);
    code_after("tie_weights", p, 0);
    cfx_dict_set(p->state, "v", cfx_tensor_value(cfx_clone(cfx_dict_get(p->state, "w"))));
    cfx_dict *options = cfx_dict_new();
    cfx_dict_set(options, "least", cfx_string_value("17"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_tie_weights, p, options), 0);
    cfx_dict_set(options, "least", cfx_string_value("16"));
    cfx_program *was = cfx_program_copy(p);
    CHECK_INT(cfx_pass_apply(&cfx__pass_tie_weights, p, options), 1);
    CHECK_INT(p->ninputs, 2);
    CHECK_INT(p->state->len, 1);
    CHECK_NEAR(difference(was, p, cfx_randn(2, 4)), 0, 0);
    code_after("untie_weights", p, 1);
    CHECK_INT(p->ninputs, 3);
    CHECK_STR(p->inputs[1].target, "w_1");
    CHECK_NEAR(difference(was, p, cfx_randn(2, 4)), 0, 0);
}

TEST(pass_prunes_results) {
    cfx_program *p = program_of(twice);
    cfx_dict *options = cfx_dict_new();
    cfx_dict_set(options, "outputs", cfx_string_value("1+2"));
    CHECK(cfx_pass_apply(&cfx__pass_prune, p, options) > 0);
    CHECK_INT(p->noutputs, 2);
    CHECK_STR(p->outputs[0].name, "linear");
    CHECK_INT(p->ninputs, 2); /* p_v is not needed any more */
    CHECK_STR(cfx_repr(cfx_at(cfx_program_run(p, cfx_ones(2, 4)), 1)), "3");
    cfx_dict_set(options, "outputs", cfx_string_value("2"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_prune, p, options), -1);
    CHECK_ERROR("outputs are numbers of results with + between, below 2, not '2'");
}

TEST(pass_notes_types) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[4]\"):\n"
             "        relu: \"f32[4]\" = torch.ops.aten.relu.default(x)\n"
             "        return (relu,)\n");
    const char *code = code_after("annotate_types", p, 2);
    HAS(code, "relu : torch.Tensor = torch.ops.aten.relu.default(x)");
    cfx_program *q = cfx_open(CFX_TEST_DATA "/zoo/while_loop/model.pt2");
    code = code_after("annotate_types", q, 13);
    HAS(code, "while_loop : typing_Tuple[torch.Tensor,torch.Tensor] = ");
}
