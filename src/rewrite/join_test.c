/* Two programs as one: one after the other, and side by side. */
#include <cfx/split.h>

#include "pass_test.h"

static const char first[] =
    HEAD "    def forward(self, p_w: \"f32[4, 4]\", x: \"f32[2, 4]\"):\n"
         "        linear: \"f32[2, 4]\" = torch.ops.aten.linear.default(x, p_w)\n"
         "        sum_1: \"f32[]\" = torch.ops.aten.sum.default(linear)\n"
         "        return (linear, sum_1)\n";

static const char second[] =
    HEAD "    def forward(self, p_w: \"f32[3, 4]\", x: \"f32[2, 4]\", y: \"f32[2, 3]\"):\n"
         "        linear: \"f32[2, 3]\" = torch.ops.aten.linear.default(x, p_w)\n"
         "        add: \"f32[2, 3]\" = torch.ops.aten.add.Tensor(linear, y)\n"
         "        return (add,)\n";

static cfx_dict *wires(const char *input, const char *from) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, input, cfx_string_value(from));
    return d;
}

TEST(joined_programs_run_one_after_the_other) {
    cfx_program *a = program_of(first), *b = program_of(second);
    cfx_program *both = cfx_program_join(a, b, wires("x", "out0"));
    if (!CHECK(both != NULL) || !CHECK(cfx_program_check(both)))
        return;
    CHECK_STR(cfx_module_code(both->module),
              "\n\n\ndef forward(self, p_w, p_w_1, x, y):\n"
              "    linear = torch.ops.aten.linear.default(x, p_w);  x = p_w = None\n"
              "    sum_1 = torch.ops.aten.sum.default(linear)\n"
              "    linear_1 = torch.ops.aten.linear.default(linear, p_w_1);  linear = p_w_1 = None"
              "\n"
              "    add = torch.ops.aten.add.Tensor(linear_1, y);  linear_1 = y = None\n"
              "    return (sum_1, add)\n    ");
    CHECK_STR(both->inputs[1].target, "w_1");
    cfx_tensor *x = cfx_randn(2, 4), *y = cfx_randn(2, 3);
    cfx_value mid = cfx_program_run(a, x);
    cfx_value want = cfx_program_run(b, cfx_at(mid, 0), y), got = cfx_program_run(both, x, y);
    CHECK_STR(cfx_repr(cfx_at(got, 0)), cfx_repr(cfx_at(mid, 1)));
    CHECK_STR(cfx_repr(cfx_at(got, 1)), cfx_repr(cfx_at(want, 0)));
}

TEST(joined_programs_may_share_inputs) {
    cfx_program *a = program_of(first), *b = program_of(second);
    cfx_program *both = cfx_program_join(a, b, wires("in0", "x"));
    if (!CHECK(both != NULL))
        return;
    cfx_tensor *x = cfx_randn(2, 4), *y = cfx_randn(2, 3);
    cfx_value got = cfx_program_run(both, x, y);
    CHECK_INT(cfx_as_list(got)->len, 3);
    CHECK_STR(cfx_repr(cfx_at(got, 2)), cfx_repr(cfx_at(cfx_program_run(b, x, y), 0)));
    CHECK_INT(cfx_program_join(a, b, NULL)->ninputs, 5);
}

TEST(joined_programs_keep_what_they_name) {
    cfx_program *a = cfx_open(CFX_TEST_DATA "/zoo/cond/model.pt2");
    cfx_program *b = cfx_open(CFX_TEST_DATA "/zoo/cond/model.pt2");
    cfx_program *both = cfx_program_join(a, b, wires("in0", "in0"));
    if (!CHECK(both != NULL) || !CHECK(cfx_program_check(both)))
        return;
    CHECK(cfx_module_has(both->module, "true_graph_0"));
    CHECK(cfx_module_has(both->module, "true_graph_0_1"));
    cfx_value x = cfx_at(cfx_at(cfx_program_sample_inputs(a), 0), 0);
    cfx_value got = cfx_program_run(both, x);
    CHECK_STR(cfx_repr(cfx_at(got, 0)), cfx_repr(cfx_at(got, 1)));
}

TEST(wires_have_to_fit) {
    cfx_program *a = program_of(first), *b = program_of(second);
    CHECK(cfx_failed(cfx_program_join(a, b, wires("z", "out0"))));
    CHECK_ERROR("the second program has no input called 'z'");
    CHECK(cfx_failed(cfx_program_join(a, b, wires("x", "out2"))));
    CHECK_ERROR("the first program has no result 'out2'");
    CHECK(cfx_failed(cfx_program_join(a, b, wires("x", "out1"))));
    CHECK_ERROR("input x is f32[2, 4], and is given f32[]");
}
