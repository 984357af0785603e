/* Passes: what each does to a small program, that programs compute the same afterwards, and what
 * the manager promises. */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "pass_test.h"

TEST(pass_dead_code_keeps_effects) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, b_n: \"f32[4]\", x: \"f32[4]\"):\n"
             "        add_: \"f32[4]\" = torch.ops.aten.add_.Tensor(b_n, 1)\n"
             "        exp: \"f32[4]\" = torch.ops.aten.exp.default(x)\n"
             "        sin: \"f32[4]\" = torch.ops.aten.sin.default(exp)\n"
             "        rand: \"f32[4]\" = torch.ops.aten.rand_like.default(x)\n"
             "        relu: \"f32[4]\" = torch.ops.aten.relu.default(x)\n"
             "        return (relu,)\n");
    const char *code = code_after("dead_code", p, 2);
    HAS(code, "add_");
    HAS(code, "rand");
    HAS_NOT(code, "exp");
}

TEST(pass_batch_norm_before_an_in_place_activation_is_folded) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, p_w: \"f32[4, 3, 1, 1]\", p_g: \"f32[4]\", p_b: \"f32[4]\", "
             "b_mean: \"f32[4]\", b_var: \"f32[4]\", x: \"f32[2, 3, 5, 5]\"):\n"
             "        conv2d: \"f32[2, 4, 5, 5]\" = torch.ops.aten.conv2d.default(x, p_w)\n"
             "        batch_norm: \"f32[2, 4, 5, 5]\" = torch.ops.aten.batch_norm.default(conv2d, "
             "p_g, p_b, b_mean, b_var, False, 0.1, 1e-05, True)\n"
             "        relu_: \"f32[2, 4, 5, 5]\" = torch.ops.aten.relu_.default(batch_norm)\n"
             "        add: \"f32[2, 4, 5, 5]\" = torch.ops.aten.add.Tensor(relu_, batch_norm)\n"
             "        return (add,)\n");
    cfx_program *was = cfx_program_copy(p);
    const char *code = code_after("fold_batch_norm", p, 1);
    HAS_NOT(code, "batch_norm");
    HAS(code, "relu_.default(conv2d)");
    CHECK_NEAR(difference(was, p, cfx_randn(cfx_list(2, 3, 5, 5))), 0, 1e-5);
}

/* Elements are counted: what has none of them may have dimensions that do not go together. */
TEST(pass_batch_norm_of_no_channels_is_left_alone) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, b_bias: \"f32[2, 0]\", b_mean: \"f32[0]\", "
             "b_var: \"f32[5, 0]\", x: \"f32[5, 0]\"):\n"
             "        batch_norm: \"f32[5, 0]\" = torch.ops.aten.batch_norm.default(x, None, "
             "b_bias, b_mean, b_var, False, 0.1, 1e-05, True)\n"
             "        return (batch_norm,)\n");
    HAS(code_after("fold_batch_norm", p, 0), "batch_norm");
    cfx_value none = cfx_program_run(cfx_optimize(p), cfx_zeros(5, 0));
    CHECK_INT(cfx_tensor_at(none, 0)->numel, 0);
}

/* What a file notes of a node may be wrong: a cast that is noted as what it casts. */
TEST(passes_find_out_what_nodes_compute) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"i64[4]\"):\n"
             "        to: \"f32[4]\" = torch.ops.aten.to.dtype(x, torch.float32)\n"
             "        mean: \"f32[]\" = torch.ops.aten.mean.default(to)\n"
             "        return (mean,)\n");
    cfx_node *to = cfx_graph_find(p->module->graph, "to");
    cfx_node_set_meta(to, "val", cfx_node_get_meta(cfx_graph_find(p->module->graph, "x"), "val"));
    cfx_node_remove_meta(to, "tensor_meta");
    HAS(code_after("remove_noops", p, 0), "torch.ops.aten.to.dtype(x, torch.float32)");
}

/* A call that running refuses is none that changes nothing, whatever is noted of it. */
TEST(passes_leave_what_running_refuses) {
    static const char *const calls[][2] = {
        {"slice.Tensor(x, 0, 0, 9, 0)", "slice step must be positive"},
        {"permute.default(x, [0, 0])", "permute(): duplicate dims are not allowed."},
        {"to.dtype_layout(x, layout = x)", "Expected a value of type 'Optional[int]'"},
    };
    for (int i = 0; i < COUNT(calls); i++) {
        cfx_program *p = program_of(
            cfx__text_format(HEAD "    def forward(self, x: \"f32[2, 3]\"):\n"
                                  "        y: \"f32[2, 3]\" = torch.ops.aten.%s\n"
                                  "        return (y,)\n", calls[i][0]));
        cfx_program_run(cfx_optimize(p), cfx_ones(2, 3));
        CHECK_ERROR(calls[i][1]);
    }
}

TEST(pass_common_subexpressions) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[4]\"):\n"
             "        exp: \"f32[4]\" = torch.ops.aten.exp.default(x)\n"
             "        exp_1: \"f32[4]\" = torch.ops.aten.exp.default(x)\n"
             "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(exp, 1)\n"
             "        add_1: \"f32[4]\" = torch.ops.aten.add.Tensor(exp_1, 1)\n"
             "        rand: \"f32[4]\" = torch.ops.aten.rand_like.default(x)\n"
             "        rand_1: \"f32[4]\" = torch.ops.aten.rand_like.default(x)\n"
             "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(add, add_1)\n"
             "        mul_1: \"f32[4]\" = torch.ops.aten.mul.Tensor(rand, rand_1)\n"
             "        return (mul, mul_1)\n");
    const char *code = code_after("common_subexpressions", p, 2);
    HAS(code, "mul = torch.ops.aten.mul.Tensor(add, add)");
    HAS(code, "mul_1 = torch.ops.aten.mul.Tensor(rand, rand_1)");
}

TEST(pass_common_subexpressions_minds_writes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, b_n: \"f32[4]\", x: \"f32[4]\"):\n"
             "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(x, b_n)\n"
             "        add_: \"f32[4]\" = torch.ops.aten.add_.Tensor(b_n, 1)\n"
             "        mul_1: \"f32[4]\" = torch.ops.aten.mul.Tensor(x, b_n)\n"
             "        return (mul, mul_1)\n");
    code_after("common_subexpressions", p, 0);
    code_after("fold_constants", p, 0);
}

TEST(pass_folds_constants_up_to_a_size) {
    static const char code[] =
        HEAD "    def forward(self, p_w: \"f32[4]\", x: \"f32[4]\"):\n"
             "        exp: \"f32[4]\" = torch.ops.aten.exp.default(p_w)\n"
             "        neg: \"f32[4]\" = torch.ops.aten.neg.default(exp)\n"
             "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(x, neg)\n"
             "        return (add,)\n";
    cfx_program *p = program_of(code), *was = cfx_program_copy(p);
    const char *after = code_after("fold_constants", p, 1);
    HAS(after, "add = torch.ops.aten.add.Tensor(x, c_folded_neg)");
    CHECK_NEAR(difference(was, p, cfx_randn(4)), 0, 0);
    cfx_value from = cfx_node_get_meta(cfx_graph_find(p->module->graph, "c_folded_neg"),
                                       "from_node");
    CHECK_STR(cfx_value_repr(from), "{'pass': 'fold_constants', 'nodes': ['neg']}");
    cfx_dict *options = cfx_dict_new();
    cfx_dict_set(options, "limit", cfx_string_value("8"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_fold_constants, program_of(code), options), 0);
}

TEST(pass_folds_batch_norms) {
    static const char code[] =
        HEAD "    def forward(self, p_w: \"f32[6, 2, 3, 3]\", p_g: \"f32[6]\", p_b: \"f32[6]\", "
             "b_m: \"f32[6]\", b_v: \"f32[6]\", x: \"f32[1, 4, 5, 5]\"):\n"
             "        conv2d: \"f32[1, 6, 5, 5]\" = torch.ops.aten.conv2d.default(x, p_w, None, "
             "[1, 1], [1, 1], [1, 1], 2)\n"
             "        batch_norm: \"f32[1, 6, 5, 5]\" = torch.ops.aten.batch_norm.default(conv2d, "
             "p_g, p_b, b_m, b_v, False, 0.1, 1e-05, True)\n"
             "        relu_: \"f32[1, 6, 5, 5]\" = torch.ops.aten.relu_.default(batch_norm)\n"
             "        return (relu_,)\n";
    cfx_program *p = program_of(code), *was = cfx_program_copy(p);
    const char *after = code_after("fold_batch_norm", p, 1);
    HAS(after, "conv2d = torch.ops.aten.conv2d.default(x, p_w, p_bias, [1, 1], [1, 1], [1, 1], 2)");
    HAS_NOT(after, "batch_norm");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 4, 5, 5)), 0, 1e-4);
    code_after("prune", p, 8);
    CHECK_INT(p->ninputs, 3);
    CHECK_INT(was->ninputs, 6);
}

TEST(pass_merges_linears) {
    static const char code[] =
        HEAD "    def forward(self, p_q: \"f32[4, 8]\", p_k: \"f32[2, 8]\", x: \"f32[3, 8]\"):\n"
             "        linear: \"f32[3, 4]\" = torch.ops.aten.linear.default(x, p_q)\n"
             "        linear_1: \"f32[3, 2]\" = torch.ops.aten.linear.default(x, p_k)\n"
             "        view: \"f32[6, 2]\" = torch.ops.aten.view.default(linear, [6, 2])\n"
             "        t: \"f32[2, 3]\" = torch.ops.aten.t.default(linear_1)\n"
             "        mm: \"f32[6, 3]\" = torch.ops.aten.mm.default(view, t)\n"
             "        return (mm,)\n";
    cfx_program *p = program_of(code), *was = cfx_program_copy(p);
    const char *after = code_after("merge_linears", p, 2);
    HAS(after, "linear_2 = torch.ops.aten.linear.default(x, p_q_merged)");
    HAS(after, "split_with_sizes = torch.ops.aten.split_with_sizes.default(linear_2, [4, 2], -1)");
    HAS(after, "torch.ops.aten.reshape.default(getitem, [6, 2])");
    CHECK_NEAR(difference(was, p, cfx_randn(3, 8)), 0, 1e-4);
}

TEST(pass_folds_batch_norms_into_what_follows) {
    static const char code[] =
        HEAD "    def forward(self, p_w: \"f32[6, 2, 3, 3]\", p_c: \"f32[6]\", p_g: \"f32[4]\", "
             "p_b: \"f32[4]\", b_m: \"f32[4]\", b_v: \"f32[4]\", x: \"f32[1, 4, 5, 5]\"):\n"
             "        batch_norm: \"f32[1, 4, 5, 5]\" = torch.ops.aten.batch_norm.default(x, p_g, "
             "p_b, b_m, b_v, False, 0.1, 1e-05, True)\n"
             "        conv2d: \"f32[1, 6, %d, %d]\" = torch.ops.aten.conv2d.default(batch_norm, "
             "p_w, p_c, [1, 1], [%d, %d], [1, 1], 2)\n"
             "        return (conv2d,)\n";
    cfx_program *p = program_of(cfx__text_format(code, 3, 3, 0, 0)), *was = cfx_program_copy(p);
    const char *after = code_after("fold_batch_norm", p, 1);
    HAS(after, "conv2d = torch.ops.aten.conv2d.default(x, p_w, p_c, [1, 1], [0, 0], [1, 1], 2)");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 4, 5, 5)), 0, 1e-4);
    /* zeros around the input are not what the norm makes of zeros */
    code_after("fold_batch_norm", program_of(cfx__text_format(code, 5, 5, 1, 1)), 0);
}

TEST(pass_merges_convolutions) {
    static const char code[] =
        HEAD "    def forward(self, p_a: \"f32[4, 3, 1, 1]\", p_b: \"f32[2, 3, 1, 1]\", "
             "p_c: \"f32[2, 3, 3, 3]\", x: \"f32[1, 3, 5, 5]\"):\n"
             "        conv2d: \"f32[1, 4, 5, 5]\" = torch.ops.aten.conv2d.default(x, p_a)\n"
             "        conv2d_1: \"f32[1, 2, 5, 5]\" = torch.ops.aten.conv2d.default(x, p_b)\n"
             "        conv2d_2: \"f32[1, 2, 5, 5]\" = torch.ops.aten.conv2d.default(x, p_c, None, "
             "[1, 1], [1, 1])\n"
             "        cat: \"f32[1, 8, 5, 5]\" = torch.ops.aten.cat.default([conv2d, conv2d_1, "
             "conv2d_2], 1)\n"
             "        return (cat,)\n";
    cfx_program *p = program_of(code), *was = cfx_program_copy(p);
    const char *after = code_after("merge_convolutions", p, 2);
    HAS(after, "conv2d_3 = torch.ops.aten.conv2d.default(x, p_a_merged)");
    HAS(after, "split_with_sizes = torch.ops.aten.split_with_sizes.default(conv2d_3, [4, 2], -3)");
    HAS(after, "cat = torch.ops.aten.cat.default([getitem, getitem_1, conv2d_2], 1)");
    CHECK_NEAR(difference(was, p, cfx_randn(1, 3, 5, 5)), 0, 1e-5);
}

TEST(pass_checks_for_nan) {
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[2]\"):\n"
                                     "        log: \"f32[2]\" = torch.ops.aten.log.default(x)\n"
                                     "        return (log,)\n");
    code_after("check_nan", p, 1);
    CHECK(!cfx_is_bad(cfx_program_run(p, cfx_ones(2))));
    cfx_program_run(p, cfx_neg(cfx_ones(2)));
    CHECK_ERROR("node log gives NaN");
    const char *code = code_after("remove_asserts", p, 4);
    HAS_NOT(code, "isnan");
}

TEST(pass_normalizes_arguments) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[2]\"):\n"
             "        add: \"f32[2]\" = torch.ops.aten.add.Tensor(other = x, self = x, alpha = 1)\n"
             "        return (add,)\n");
    HAS(code_after("normalize", p, 1), "add = torch.ops.aten.add.Tensor(x, x);");
}

static cfx_tensor *spelled(cfx_module *self, cfx_tensor *x) {
    (void)self;
    cfx_tensor *y = cfx_as_tensor(cfx_method(x, "add", CFX_KW(other, 1)));
    y = cfx_as_tensor(cfx_py("torch.nn.functional.relu", y, CFX_KW(inplace, cfx_bool(true))));
    return cfx_as_tensor(cfx_py("operator.mul", cfx_relu(y), x));
}

TEST(calls_are_spelled_one_way) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("Spelled", spelled, "x"));
    cfx_tensor *x = cfx_randn(3);
    const char *want = cfx_str(cfx_forward(gm, x));
    CHECK_INT(cfx_module_normalize(gm), 3);
    CHECK(cfx_graph_lint(gm->graph, gm));
    const char *code = cfx_module_code(gm);
    HAS(code, "add = torch.ops.aten.add.Tensor(x, 1)");
    HAS(code, "relu = torch.ops.aten.relu_.default(add)");
    HAS(code, "relu_1 = torch.ops.aten.relu.default(relu)");
    HAS(code, "mul = relu_1 * x"); /* which may be numbers for all that is known */
    cfx_shape_prop(gm, x);
    CHECK_INT(cfx_module_normalize(gm), 1);
    HAS(cfx_module_code(gm), "mul = torch.ops.aten.mul.Tensor(relu_1, x)");
    CHECK_STR(cfx_str(cfx_forward(gm, x)), want);
    CHECK_INT(cfx_module_normalize(gm), 0);
}

TEST(pass_lowers_precision) {
    static const char code[] =
        HEAD "    def forward(self, p_w: \"f32[4, 8]\", p_g: \"f32[4]\", x: \"f32[3, 8]\"):\n"
             "        linear: \"f32[3, 4]\" = torch.ops.aten.linear.default(x, p_w)\n"
             "        relu: \"f32[3, 4]\" = torch.ops.aten.relu.default(linear)\n"
             "        softmax: \"f32[3, 4]\" = torch.ops.aten.softmax.int(relu, -1)\n"
             "        mul: \"f32[3, 4]\" = torch.ops.aten.mul.Tensor(softmax, p_g)\n"
             "        return (mul,)\n";
    cfx_program *p = program_of(code), *was = cfx_program_copy(p);
    const char *after = code_after("to_dtype", p, 2);
    HAS(after, "_to_copy = torch.ops.aten._to_copy.default(x, dtype = torch.bfloat16)");
    HAS(after, "linear = torch.ops.aten.linear.default(_to_copy, p_w)");
    HAS(after, "_to_copy_1 = torch.ops.aten._to_copy.default(relu, dtype = torch.float32)");
    HAS(after, "softmax = torch.ops.aten.softmax.int(_to_copy_1, -1)");
    CHECK_INT(cfx_as_tensor(cfx_dict_get(p->state, "w"))->dtype, CFX_BF16);
    CHECK_INT(cfx_as_tensor(cfx_dict_get(p->state, "g"))->dtype, CFX_F32);
    CHECK_INT(cfx_as_tensor(cfx_dict_get(was->state, "w"))->dtype, CFX_F32);
    CHECK_NEAR(difference(was, p, cfx_randn(3, 8)), 0, 5e-2);
    cfx_dict *options = cfx_dict_new();
    cfx_dict_set(options, "keep", cfx_string_value("op:linear"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_to_dtype, was, options), 0);
}

TEST(pass_lays_channels_last) {
    static const char code[] =
        HEAD "    def forward(self, p_w: \"f32[6, 4, 3, 3]\", x: \"f32[1, 4, 5, 5]\"):\n"
             "        conv2d: \"f32[1, 6, 3, 3]\" = torch.ops.aten.conv2d.default(x, p_w)\n"
             "        relu: \"f32[1, 6, 3, 3]\" = torch.ops.aten.relu.default(conv2d)\n"
             "        view: \"f32[6, 9]\" = torch.ops.aten.view.default(relu, [6, 9])\n"
             "        sum_1: \"f32[6]\" = torch.ops.aten.sum.dim_IntList(view, [1])\n"
             "        return (relu, sum_1)\n";
    cfx_program *p = program_of(code), *was = cfx_program_copy(p);
    const char *after = code_after("channels_last", p, 1);
    HAS(after, "view = torch.ops.aten.reshape.default(relu, [6, 9])");
    HAS(after, "contiguous = torch.ops.aten.contiguous.default(relu)");
    HAS(after, "return (contiguous, sum_1)");
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, "relu"));
    CHECK_INT(r.stride[1], 1);
    CHECK_INT(cfx_as_tensor(cfx_dict_get(p->state, "w"))->stride[1], 1);
    CHECK_NEAR(difference(was, p, cfx_randn(1, 4, 5, 5)), 0, 1e-5);
    code_after("channels_last", p, 0);
}

TEST(pass_specializes_sizes) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/dyn_conv/model.pt2");
    cfx_dict *options = cfx_dict_new();
    cfx_dict_set(options, "s39", cfx_string_value("32"));
    CHECK(cfx_pass_apply(&cfx__pass_specialize, p, options) > 0);
    CHECK_OK();
    CHECK(cfx_program_check(p));
    CHECK_INT(p->ranges->len, 2);
    const char *text = cfx_module_readable(p->module, (cfx_readable_options){0});
    HAS(text, "s94");
    HAS_NOT(text, "s39");
    CHECK_INT(cfx_pass_apply(&cfx__pass_specialize, p, options), -1);
    CHECK_ERROR("no size of the program is called 's39'");
}

TEST(pass_simplifies) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[2, 4]\", i: \"i64[2, 4]\"):\n"
             "        add: \"f32[2, 4]\" = torch.ops.aten.add.Tensor(x, 0)\n"
             "        mul: \"f32[2, 4]\" = torch.ops.aten.mul.Tensor(i, 1.0)\n"
             "        transpose: \"f32[4, 2]\" = torch.ops.aten.transpose.int(add, 0, 1)\n"
             "        transpose_1: \"f32[2, 4]\" = torch.ops.aten.transpose.int(transpose, 0, 1)\n"
             "        sub: \"f32[2, 4]\" = torch.ops.aten.sub.Tensor(transpose_1, mul)\n"
             "        return (sub,)\n");
    const char *code = code_after("simplify", p, 2);
    HAS(code, "mul = torch.ops.aten.mul.Tensor(i, 1.0)");
    HAS(code, "sub = torch.ops.aten.sub.Tensor(x, mul)");
}

TEST(nothing_is_near_infinity) {
    cfx_program *p =
        program_of(HEAD "    def forward(self, x: \"f32[2, 4]\"):\n"
                        "        add: \"f32[2, 4]\" = torch.ops.aten.add.Tensor(x, inf)\n"
                        "        mul: \"f32[2, 4]\" = torch.ops.aten.mul.Tensor(add, -inf)\n"
                        "        return (mul,)\n");
    code_after("simplify", p, 0);
}

/* ---- the manager ----------------------------------------------------------------------------- */

static int break_graph(cfx_program *p, const cfx_dict *options) {
    (void)options;
    cfx_graph *g = p->module->graph;
    cfx_node_set_target(cfx_graph_find(g, "relu"), cfx_graph_target(g, "aten.mm.default"));
    return 1;
}

static const cfx_pass breaks = {.name = "breaks", .summary = "breaks", .run = break_graph};
static const cfx_pass late = {
    .name = "late", .summary = "late", .after = "dead_code", .run = break_graph};

TEST(failed_pass_leaves_the_program_as_it_was) {
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[2]\"):\n"
                                     "        relu: \"f32[2]\" = torch.ops.aten.relu.default(x)\n"
                                     "        return (relu,)\n");
    cfx_graph *before = cfx_graph_copy(p->module->graph);
    CHECK_INT(cfx_pass_apply(&breaks, p, NULL), -1);
    CHECK(!cfx_ok());
    CHECK_ERROR("mm");
    CHECK(cfx_graph_equal(p->module->graph, before));
    CHECK(cfx_program_check(p));
    CHECK(!cfx_is_bad(cfx_program_run(p, cfx_ones(2))));
}

TEST(pipeline_has_an_order) {
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[2]\"):\n"
                                     "        return (x,)\n");
    cfx_pass_step steps[] = {{&late, NULL}, {&cfx__pass_dead_code, NULL}};
    cfx_pass_manager m = {.steps = steps, .nsteps = 2};
    CHECK(cfx_failed(cfx_passes_run(&m, p).program));
    CHECK_ERROR("pass late has to come after dead_code, which the pipeline has later");
    cfx_dict *options = cfx_dict_new();
    cfx_dict_set(options, "colour", cfx_string_value("red"));
    CHECK_INT(cfx_pass_apply(&cfx__pass_fold_constants, p, options), -1);
    CHECK_ERROR("it has no option 'colour'; its options are limit=16777216");
}

TEST(copy_is_edited_unless_asked_otherwise) {
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[2]\"):\n"
                                     "        exp: \"f32[2]\" = torch.ops.aten.exp.default(x)\n"
                                     "        return (x,)\n");
    cfx_pass_manager m = {.check = true};
    cfx_pass_result r = cfx_passes_run(&m, p);
    CHECK(r.modified && r.program != p);
    CHECK_INT(cfx_graph_len(p->module->graph), 3);
    CHECK_INT(cfx_graph_len(r.program->module->graph), 2);
    m.in_place = true;
    r = cfx_passes_run(&m, p);
    CHECK(r.program == p);
    CHECK_INT(cfx_graph_len(p->module->graph), 2);
}

static void note_held(const cfx_pass_report *r, void *user) {
    (void)r;
    *(size_t *)user = cfx_memory_held();
}

/* Without a copy to put back there is one program in memory while passes run. */
TEST(program_that_is_consumed_is_not_copied) {
    size_t held[2];
    for (int consume = 0; consume < 2; consume++)
        CFX_SCOPE {
            cfx_graph *g = cfx_graph_new();
            cfx_node *x = cfx_graph_input(g, "x");
            cfx_node_set_meta(x, "val", cfx_tensor_value(cfx_ones(cfx_list(2))));
            for (int i = 0; i < 2000; i++)
                x = cfx_graph_call(g, "aten.add.Tensor", x, i + 1);
            cfx_graph_output(g, cfx_tuple(x));
            cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
            cfx_program_infer(p);
            const size_t before = cfx_memory_held();
            cfx_pass_step step = {cfx_pass_find("dead_code"), NULL};
            cfx_pass_manager m = {.steps = &step, .nsteps = 1, .in_place = true,
                                  .consume = consume, .report = note_held, .user = &held[consume]};
            CHECK(cfx_passes_run(&m, p).program == p);
            held[consume] -= before;
        }
    CHECK(held[1] + 2000 * 300 < held[0]);
}

static int fails_late(cfx_program *p, const cfx_dict *options) {
    (void)options;
    cfx_graph_erase(cfx_graph_output_node(p->module->graph));
    cfx_fail(CFX_RUNTIME_ERROR, CFX_HERE, "it cannot be done");
    return -1;
}

TEST(failing_pass_of_a_consumed_program_does_not_promise_it_back) {
    static const cfx_pass pass = {.name = "late", .run = fails_late};
    cfx_program *p = program_of(HEAD "    def forward(self, x: \"f32[2]\"):\n"
                                     "        return (x,)\n");
    cfx_pass_step step = {&pass, NULL};
    cfx_pass_manager m = {.steps = &step, .nsteps = 1, .consume = true};
    CHECK(cfx_failed(cfx_passes_run(&m, p).program));
    CHECK_STR(cfx_error_last()->notes, "in pass late");
    cfx_error_clear();
    CHECK(!cfx_graph_output_node(p->module->graph));
}

/* A pass that may make no node, or one, or two, ends in the limit's sentence. */
static void within_limit(const cfx_pass *pass, const char *path) {
    for (int more = 0; more < 3; more++)
        CFX_SCOPE {
            cfx_program *p = cfx_open(path);
            cfx_graph *before = cfx_graph_copy(p->module->graph);
            CHECK(cfx_program_check(p));
            cfx_set_node_limit(cfx_graph_len(p->module->graph) + more);
            cfx_pass_apply(pass, p, NULL);
            cfx_set_node_limit(0);
            const cfx_error *e = cfx_error_last();
            if (e && e->kind == CFX_LIMIT_ERROR)
                CHECK(cfx_graph_equal(p->module->graph, before));
            cfx_error_clear();
            CHECK(cfx_program_check(p));
        }
}

TEST(passes_at_the_limit_of_nodes) {
    for (int i = 0; cfx_pass_number(i); i++) {
        within_limit(cfx_pass_number(i), CFX_TEST_DATA "/zoo/seed_mlp/model.pt2");
        within_limit(cfx_pass_number(i), CFX_TEST_DATA "/zoo/index_zoo/model.pt2");
        within_limit(cfx_pass_number(i), CFX_TEST_DATA "/zoo/cond/model.pt2");
    }
}

/* ---- programs of PyTorch's ------------------------------------------------------------------- */

/* What a program computes from its own inputs, which it may write to: copies, flattened. */
static cfx_list *results_of(cfx_program *p) {
    cfx_list *given = cfx_as_list(cfx_list_value(0, NULL));
    cfx_list *in = cfx_as_list(cfx_list_value(0, NULL));
    cfx_list *out = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(cfx_program_sample_inputs(p), given);
    for (int64_t i = 0; i < given->len; i++) {
        cfx_value v = given->items[i];
        cfx_list_append(in, v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx_clone(v)) : v);
    }
    cfx_manual_seed(0);
    cfx_args a = {(int)in->len, in->items, NULL};
    cfx_tree_flatten(cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, a), out);
    return out;
}

/* Whether two results are the same but for rounding, measured by the largest value. */
static bool are_close(cfx_value a, cfx_value b) {
    if (a.tag != CFX_TAG_TENSOR || b.tag != CFX_TAG_TENSOR)
        return a.tag == b.tag;
    const cfx_tensor *t = cfx_as_tensor(a);
    double most = 0, tolerance = cfx_dtype_size((cfx_dtype)t->dtype) < 4 ? 3e-2 : 1e-3;
    if (t->numel)
        most = cfx_number(cfx_item(cfx_max(cfx_nan_to_num(cfx_abs(cfx_to(a, cfx_f64)), 0, 0, 0))));
    return cfx_is_true(cfx_allclose(cfx_to(b, cfx_f64), cfx_to(a, cfx_f64), 0,
                                    tolerance * most + 1e-6, true));
}

static void check_pass(const char *path, const cfx_pass *pass, const cfx_list *want) {
    cfx_program *p = cfx_open(path);
    cfx_pass_step step = {pass, NULL};
    cfx_pass_manager m = {.steps = &step, .nsteps = pass != NULL, .check = true, .in_place = true};
    const char *name = pass ? pass->name : "the default pipeline";
    cfx_passes_run(&m, p);
    if (!cfx_ok() && strstr(cfx_error_last()->message, "no node that gives")) {
        cfx_error_clear(); /* there is nothing to look at */
        return;
    }
    const cfx_list *got = cfx_ok() ? results_of(p) : want;
    bool same = got->len == want->len;
    for (int64_t i = 0; same && cfx_ok() && i < want->len; i++)
        same = are_close(want->items[i], got->items[i]);
    bool found = !cfx_ok() && !strncmp(name, "check_", 6) &&
                 !strncmp(cfx_error_last()->message, "node ", 5); /* -inf in a mask, say */
    if (!found && (!same || !cfx_ok()))
        test_fail(CFX_HERE, "%s, %s: %s", path, name,
                  cfx_ok() ? "a result differs" : cfx_error_last()->message);
    cfx_error_clear();
}

static void hear_nothing(const char *line, void *user) { (void)line, (void)user; }

/* Reference programs, those of CFX_ZOO where that is set. */
TEST(passes_keep_what_programs_compute) {
    const char *folder = getenv("CFX_ZOO") ? getenv("CFX_ZOO") : CFX_TEST_DATA "/zoo";
    DIR *d = opendir(folder);
    cfx_set_log(hear_nothing, NULL);
    for (struct dirent *e; d && (e = readdir(d));)
        CFX_SCOPE {
            const char *path = cfx__text_format("%s/%s/model.pt2", folder, e->d_name);
            if (e->d_name[0] == '.' || access(path, R_OK))
                continue;
            const cfx_list *want = results_of(cfx_open(path));
            if (!CHECK_OK())
                continue;
            check_pass(path, NULL, want);
            for (int k = 0; cfx_pass_number(k); k++)
                if (cfx_pass_number(k)->promise != CFX_PASS_LOWERED)
                    CFX_SCOPE check_pass(path, cfx_pass_number(k), want);
        }
    closedir(d);
}

TEST(pass_lowers_parts_of_results) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, p_w: \"f32[4, 8]\", x: \"f32[3, 8]\"):\n"
             "        linear: \"f32[3, 4]\" = torch.ops.aten.linear.default(x, p_w)\n"
             "        split = torch.ops.aten.split.Tensor(linear, 2, 1)\n"
             "        getitem: \"f32[3, 2]\" = split[0]\n"
             "        softmax: \"f32[3, 2]\" = torch.ops.aten.softmax.int(getitem, -1)\n"
             "        return (softmax,)\n");
    HAS(code_after("to_dtype", p, 2), "_to_copy.default(getitem, dtype = torch.float32)");
}

TEST(pass_lowers_nothing_that_is_written_to) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, b_n: \"f32[4, 8]\", x: \"f32[3, 8]\"):\n"
             "        add_: \"f32[4, 8]\" = torch.ops.aten.add_.Tensor(b_n, 1)\n"
             "        linear: \"f32[3, 4]\" = torch.ops.aten.linear.default(x, b_n)\n"
             "        return (linear,)\n");
    code_after("to_dtype", p, 0);
}

static const char *normalized(cfx_node *n, const cfx_module *root, bool only) {
    return cfx_repr(cfx_node_normalized_arguments(n, root, only));
}

TEST(arguments_are_matched_to_signatures) {
    cfx_module *root = cfx_module_new_n("M", NULL, "x");
    cfx_nn_add(root, "fc", cfx_nn_linear(2, 2));
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node *add = cfx_graph_call(g, "torch.add", x, x);
    CHECK_STR(normalized(add, NULL, false), "((x, x), {'alpha': 1})");
    CHECK_STR(normalized(add, NULL, true), "((), {'input': x, 'other': x, 'alpha': 1})");
    cfx_node *relu = cfx_graph_call(g, "torch.nn.functional.relu", CFX_KW(input, x));
    CHECK_STR(normalized(relu, NULL, false), "((), {'input': x, 'inplace': False})");
    cfx_node *fc = cfx_graph_call_module(g, "fc", cfx_tuple(x), CFX_NONE);
    CHECK_STR(normalized(fc, root, true), "((), {'input': x})");
    CHECK_STR(normalized(cfx_graph_call(g, "torch.add", x, x, x, x, x), NULL, false), "None");
    CHECK_STR(normalized(x, root, false), "None");
    CHECK_OK();
}
