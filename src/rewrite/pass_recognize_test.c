/* What was written out becomes the operator: activations, norms, pools, attention. */
#include "pass_test.h"

#include <math.h>

TEST(pass_recognizes) {
    static const char body[] =
        HEAD "    def forward(self, p_w: \"f32[8]\", x: \"f32[1, 2, 4, 8]\"):\n"
             "        transpose: \"f32[1, 2, 8, 4]\" = torch.ops.aten.transpose.int(x, -2, -1)\n"
             "        matmul: \"f32[1, 2, 4, 4]\" = torch.ops.aten.matmul.default(x, transpose)\n"
             "        div: \"f32[1, 2, 4, 4]\" = torch.ops.aten.div.Tensor(matmul, 2.0)\n"
             "        softmax: \"f32[1, 2, 4, 4]\" = torch.ops.aten.softmax.int(div, -1)\n"
             "        matmul_1: \"f32[1, 2, 4, 8]\" = torch.ops.aten.matmul.default(softmax, x)\n"
             "        pow_1: \"f32[1, 2, 4, 8]\" = torch.ops.aten.pow.Tensor_Scalar(matmul_1, 2)\n"
             "        mean: \"f32[1, 2, 4, 1]\" = torch.ops.aten.mean.dim(pow_1, [-1], True)\n"
             "        add: \"f32[1, 2, 4, 1]\" = torch.ops.aten.add.Tensor(mean, 1e-05)\n"
             "        rsqrt: \"f32[1, 2, 4, 1]\" = torch.ops.aten.rsqrt.default(add)\n"
             "        mul: \"f32[1, 2, 4, 8]\" = torch.ops.aten.mul.Tensor(matmul_1, rsqrt)\n"
             "        mul_1: \"f32[1, 2, 4, 8]\" = torch.ops.aten.mul.Tensor(mul, p_w)\n"
             "        sigmoid: \"f32[1, 2, 4, 8]\" = torch.ops.aten.sigmoid.default(mul_1)\n"
             "        mul_2: \"f32[1, 2, 4, 8]\" = torch.ops.aten.mul.Tensor(mul_1, sigmoid)\n"
             "        return (mul_2,)\n";
    cfx_program *p = program_of(body), *was = cfx_program_copy(p);
    const char *code = code_after("recognize", p, 3);
    HAS(code, "torch.ops.aten.scaled_dot_product_attention.default(x, x, x, scale = 0.5)");
    HAS(code, "torch.ops.aten.rms_norm.default(contiguous, [8], p_w, 1e-05)");
    HAS(code, "silu = torch.ops.aten.silu.default(rms_norm)");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 2, 4, 8)), 0, 1e-5);
}

/* Nobody sees how the result of attention lies, unless it is viewed. */
TEST(pass_recognizes_attention_without_a_copy) {
    static const char body[] =
        HEAD "    def forward(self, p_w: \"f32[16, 16]\", x: \"f32[1, 2, 4, 8]\"):\n"
             "        permute: \"f32[1, 2, 8, 4]\" = "
             "torch.ops.aten.permute.default(x, [0, 1, 3, 2])\n"
             "        matmul: \"f32[1, 2, 4, 4]\" = torch.ops.aten.matmul.default(x, permute)\n"
             "        mul: \"f32[1, 2, 4, 4]\" = torch.ops.aten.mul.Tensor(matmul, 0.5)\n"
             "        softmax: \"f32[1, 2, 4, 4]\" = torch.ops.aten.softmax.int(mul, -1)\n"
             "        matmul_1: \"f32[1, 2, 4, 8]\" = torch.ops.aten.matmul.default(softmax, x)\n"
             "        transpose: \"f32[1, 4, 2, 8]\" = "
             "torch.ops.aten.transpose.int(matmul_1, 1, 2)\n"
             "        reshape: \"f32[4, 16]\" = "
             "torch.ops.aten.reshape.default(transpose, [4, 16])\n"
             "        linear: \"f32[4, 16]\" = torch.ops.aten.linear.default(reshape, p_w)\n"
             "        return (linear,)\n";
    cfx_program *p = program_of(body), *was = cfx_program_copy(p);
    const char *code = code_after("recognize", p, 2);
    HAS(code, "transpose = torch.ops.aten.transpose.int(scaled_dot_product_attention, 1, 2)");
    HAS_NOT(code, "contiguous");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 2, 4, 8)), 0, 1e-5);
}

/* As attention is written for runtimes without it: rows that are masked whole give zeros. */
TEST(pass_recognizes_attention_with_rows_that_see_nothing) {
    static const char body[] =
        HEAD "    def forward(self, x: \"f32[1, 2, 3, 4]\", m: \"f32[3, 3]\"):\n"
             "        transpose: \"f32[1, 2, 4, 3]\" = torch.ops.aten.transpose.int(x, -2, -1)\n"
             "        matmul: \"f32[1, 2, 3, 3]\" = torch.ops.aten.matmul.default(x, transpose)\n"
             "        mul: \"f32[1, 2, 3, 3]\" = torch.ops.aten.mul.Tensor(matmul, 0.5)\n"
             "        add: \"f32[1, 2, 3, 3]\" = torch.ops.aten.add.Tensor(mul, m)\n"
             "        p: \"f32[1, 2, 3, 3]\" = torch.ops.aten.softmax.int(add, -1)\n"
             "        isnan: \"b8[1, 2, 3, 3]\" = torch.ops.aten.isnan.default(p)\n"
             "        where: \"f32[1, 2, 3, 3]\" = "
             "torch.ops.aten.where.ScalarSelf(isnan, 0.0, p)\n"
             "        y: \"f32[1, 2, 3, 4]\" = torch.ops.aten.matmul.default(where, x)\n"
             "        return (y,)\n";
    cfx_program *p = program_of(body), *was = cfx_program_copy(p);
    HAS(code_after("recognize", p, 2),
        "torch.ops.aten.scaled_dot_product_attention.default(x, x, x, m, scale = 0.5)");
    cfx_tensor *x = cfx_randn(1, 2, 3, 4), *mask = cfx_full(cfx_list(3, 3), -HUGE_VAL);
    cfx_fill_(cfx_select(mask, 0, 1), 0);
    cfx_value before = cfx_program_run(was, x, mask), after = cfx_program_run(p, x, mask);
    CHECK(cfx_as_bool(cfx_allclose(cfx_tensor_at(before, 0), cfx_tensor_at(after, 0))));
}

TEST(pass_recognizes_means_of_pictures) {
    static const char body[] =
        HEAD "    def forward(self, x: \"f32[1, 2, 4, 8]\"):\n"
             "        mean: \"f32[1, 2, 1, 1]\" = torch.ops.aten.mean.dim(x, [3, 2], True)\n"
             "        mean_1: \"f32[1, 2, 1, 1]\" = torch.ops.aten.mean.dim(x, [-1, -2], True)\n"
             "        mean_2: \"f32[1, 1, 4, 1]\" = torch.ops.aten.mean.dim(x, [1, 3], True)\n"
             "        mean_3: \"f32[1, 2, 4, 1]\" = torch.ops.aten.mean.dim(x, [3], True)\n"
             "        add: \"f32[1, 2, 1, 1]\" = torch.ops.aten.add.Tensor(mean, mean_1)\n"
             "        add_1: \"f32[1, 2, 4, 1]\" = torch.ops.aten.add.Tensor(mean_2, mean_3)\n"
             "        return (add, add_1)\n";
    cfx_program *p = program_of(body), *was = cfx_program_copy(p);
    const char *code = code_after("recognize", p, 2);
    HAS(code, "torch.ops.aten.adaptive_avg_pool2d.default(x, [1, 1])");
    HAS(code, "torch.ops.aten.mean.dim(x, [1, 3], True)");
    HAS(code, "torch.ops.aten.mean.dim(x, [3], True)");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 2, 4, 8)), 0, 1e-5);
}
