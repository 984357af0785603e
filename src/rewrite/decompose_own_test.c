/* Decompositions of the caller's. */
#include "decompose_test.h"

static void gelu_of_sigmoid(cfx_op_call *c) {
    c->out[0] = cfx_mul(c->args[0], cfx_sigmoid(cfx_mul(c->args[0], 1.702)));
}

static void linear_by_einsum(cfx_op_call *c) {
    cfx_tensor *y = cfx_matmul(c->args[0], cfx_t(c->args[1]));
    c->out[0] = cfx_is_none(c->args[2]) ? y : cfx_add(y, c->args[2]);
}

static void made_of_itself(cfx_op_call *c) { c->out[0] = cfx_neg(cfx_gelu(c->args[0])); }

static cfx_program *sample(void) {
    return program_of(HEAD "    def forward(self, x: \"f32[2, 3]\", w: \"f32[4, 3]\"):\n"
                           "        linear: \"f32[2, 4]\" = torch.ops.aten.linear.default(x, w)\n"
                           "        gelu: \"f32[2, 4]\" = torch.ops.aten.gelu.default(linear)\n"
                           "        silu: \"f32[2, 4]\" = torch.ops.aten.silu.default(gelu)\n"
                           "        return (silu,)\n");
}

TEST(decompositions_of_ones_own_come_first) {
    const cfx_decomposition own[] = {{"aten.gelu.default", gelu_of_sigmoid}};
    cfx_program *p = cfx_decompose_by(sample(), (cfx_decompose_options){.own = own, .nown = 1});
    const char *code = cfx_module_code(p->module);
    CHECK_OK();
    HAS(code, "mm = torch.ops.aten.mm.default(x, permute)");
    HAS(code, "mul = torch.ops.aten.mul.Tensor(mm, 1.702)");
    HAS(code, "sigmoid = torch.ops.aten.sigmoid.default(mul)");
    CHECK(!strstr(code, "gelu"));
    CHECK(!strstr(code, "silu")); /* by PyTorch's table */
    cfx_tensor *x = cfx_randn(2, 3), *w = cfx_randn(4, 3), *y = cfx_linear(x, w);
    y = cfx_silu(cfx_mul(y, cfx_sigmoid(cfx_mul(y, 1.702))));
    CHECK(cfx_is_true(cfx_allclose(cfx_tensor_at(cfx_program_run(p, x, w), 0), y)));
    CHECK_OK();
}

TEST(only_decompositions_of_ones_own) {
    const cfx_decomposition own[] = {{"gelu", gelu_of_sigmoid}, {"linear", linear_by_einsum}};
    cfx_program *p = cfx_decompose_by(
        sample(), (cfx_decompose_options){.own = own, .nown = 2, .only_own = true});
    const char *code = cfx_module_code(p->module);
    CHECK_OK();
    HAS(code, "matmul = torch.ops.aten.matmul.default(x, t)");
    HAS(code, "sigmoid = torch.ops.aten.sigmoid.default(mul)");
    HAS(code, "silu = torch.ops.aten.silu.default(mul_1)");
}

#define NORM(training)                                                                             \
    HEAD "    def forward(self, p_w: \"f32[4]\", p_b: \"f32[4]\", b_m: \"f32[4]\", "               \
         "b_v: \"f32[4]\", x: \"f32[3, 4]\"):\n"                                                   \
         "        bn = torch.ops.aten.batch_norm.default(x, p_w, p_b, b_m, b_v, " training         \
         ", 0.1, 1e-05, False)\n"                                                                  \
         "        relu_ = torch.ops.aten.relu_.default(bn)\n"                                      \
         "        return (relu_,)\n"

/* A norm that updates nothing is no exception, beside a write that becomes a result; one that
 * does is. */
TEST(only_own_leaves_norms_whole_that_update_nothing) {
    const cfx_decompose_options only = {.only_own = true};
    const char *code = cfx_module_code(cfx_decompose_by(program_of(NORM("False")), only)->module);
    HAS(code, "torch.ops.aten.batch_norm.default(");
    HAS(code, "torch.ops.aten.relu.default(");
    code = cfx_module_code(cfx_decompose_by(program_of(NORM("True")), only)->module);
    HAS(code, "torch.ops.aten._native_batch_norm_legit_functional.default(");
    CHECK_OK();
}

/* Rows of three alone, by itself. */
static void gelu_of_threes(cfx_op_call *c) {
    cfx_tensor *x = cfx_as_tensor(c->args[0]);
    if (cfx_tensor_shape(x)[1] == 3)
        c->out[0] = cfx_narrow(cfx_gelu(cfx_cat(cfx_list(x, x), 1)), 1, 0, 3);
}

TEST(decompositions_leave_calls_whole_that_they_give_nothing_for) {
    const cfx_decomposition own[] = {{"gelu", gelu_of_threes}};
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[2, 3]\", y: \"f32[2, 4]\"):\n"
                                     "        a = torch.ops.aten.gelu.default(x)\n"
                                     "        b = torch.ops.aten.gelu.default(y)\n"
                                     "        return (a, b)\n");
    p = cfx_decompose_by(p, (cfx_decompose_options){.own = own, .nown = 1, .only_own = true});
    const char *code = cfx_module_code(p->module);
    CHECK_OK();
    HAS(code, "cat = torch.ops.aten.cat.default([x, x], 1)");
    HAS(code, "gelu = torch.ops.aten.gelu.default(cat)");
    HAS(code, "torch.ops.aten.gelu.default(y)");
}

TEST(decompositions_have_to_end) {
    const cfx_decomposition own[] = {{"gelu", made_of_itself}}, none[] = {{"aten.jelu", NULL}};
    CHECK(cfx_failed(cfx_decompose_by(sample(), (cfx_decompose_options){.own = own, .nown = 1})));
    CHECK_ERROR("the decomposition of gelu given for it is made of aten.gelu.default itself");
    CHECK(cfx_failed(cfx_decompose_by(sample(), (cfx_decompose_options){.own = none, .nown = 1})));
    CHECK_ERROR("decomposition");
}
