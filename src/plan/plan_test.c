/* Plans against the interpreter: the same numbers, what is fused, what is seen, who steps in. */
#include <cfx/emit.h>
#include <cfx/ops.h>

#include "plan.h"
#include "plan_test.h"

#include <math.h>
#include <pthread.h>

/* Two blocks of a residual network, the second with a convolution beside it. */
static cfx_program *residual(void) {
    static const char *const names[] = {"w", "v", "d", "s", "b", "m", "q"};
    cfx_tensor *t[] = {cfx_randn(8, 8, 3, 3),  cfx_randn(16, 8, 3, 3), cfx_randn(16, 8, 1, 1),
                       cfx_rand(16),           cfx_randn(16),          cfx_randn(16),
                       cfx_add(cfx_rand(16), 1)};
    return program_of(
        HEAD "p_w, p_v, p_d, p_s, p_b, p_m, p_q, x):\n"
             "        c1 = " ATEN "conv2d.default(x, p_w, None, [1, 1], [1, 1])\n"
             "        r1 = " ATEN "relu_.default(c1)\n"
             "        c2 = " ATEN "conv2d.default(r1, p_w, None, [1, 1], [1, 1])\n"
             "        a1 = " ATEN "add.Tensor(c2, x)\n"
             "        c3 = " ATEN "conv2d.default(a1, p_v, None, [2, 2], [1, 1])\n"
             "        n3 = " ATEN "batch_norm.default(c3, p_s, p_b, p_m, p_q" TAIL
             "        c4 = " ATEN "conv2d.default(a1, p_d, None, [2, 2])\n"
             "        n4 = " ATEN "batch_norm.default(c4, p_s, p_b, p_m, p_q" TAIL
             "        a2 = " ATEN "add_.Tensor(n3, n4)\n"
             "        r2 = " ATEN "hardtanh_.default(a2, 0.0, 6.0)\n"
             "        v = " ATEN "view.default(r2, [2, -1])\n"
             "        return (r2, v)\n",
        tensors_of(COUNT(names), names, t));
}

static cfx_value image(void) { return cfx_tensor_value(cfx_randn(2, 8, 10, 10)); }

static int lines_with(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

TEST(a_residual_network_is_four_kernels) {
    cfx_program *p = residual();
    cfx_value x = image();
    const char *plan = cfx_program_plan(p, x);
    CHECK_OK();
    CHECK(strstr(plan, "    = conv2d(r1: f32[2, 8, 10, 10] channels last, f32[8, 8, 3, 3], None, "
                       "[1, 1], [1, 1]) + x\n"));
    CHECK(strstr(plan, ", f32[16, 8, 1, 1], f32[16], [2, 2]) + n3 then hardtanh(0.0, 6.0)\n"));
    CHECK(strstr(plan, "channels last at 6400\n"));
    CHECK_INT(lines_with(plan, "5 kernels, 0 views; 6 nodes inside others"), 1);
    CHECK(agree(p, x));
    CHECK(agree(p, cfx_tensor_value(cfx_randn(1, 8, 7, 9))));
}

TEST(the_first_run_of_a_plan_has_the_bits_of_the_later_ones) {
    cfx_program *p = residual();
    cfx_value x = image(), first = run_by(&cfx_planner, p, x);
    for (int i = 0; i < 3; i++)
        CHECK(cfx_integer(cfx_equal(cfx_at(first, 0), cfx_at(run_by(&cfx_planner, p, x), 0))));
}

TEST(a_plan_keeps_up_with_its_weights) {
    cfx_program *p = residual();
    cfx_value x = image();
    CHECK(agree(p, x));
    cfx_mul_(cfx_dict_get(p->state, "w"), 2);
    CHECK(agree(p, x));
    cfx_dict_set(p->state, "v", cfx_tensor_value(cfx_randn(16, 8, 3, 3)));
    CHECK(agree(p, x));
    float *raw =
        cfx_tensor_data(cfx_as_tensor(cfx_dict_get(p->state, "w"))); /* may change unseen now */
    raw[0] += 3;
    CHECK(agree(p, x));
    raw[0] -= 5;
    CHECK(agree(p, x));
    cfx_dict_set(p->state, "w", cfx_tensor_value(cfx_randn(8, 8, 3, 3)));
    CHECK(agree(p, x));
}

TEST(an_epilogue_does_not_hide_what_is_not_finite) {
    cfx_program *p = residual();
    cfx_value x = image();
    CHECK(agree(p, x));
    cfx_tensor *bad = cfx_clone(x);
    cfx_fill_(cfx_select(cfx_select(bad, 0, 1), 0, 3), NAN);
    cfx_value a = run_by(&cfx_interpreter, p, cfx_tensor_value(bad));
    cfx_value b = run_by(&cfx_planner, p, cfx_tensor_value(bad));
    CHECK(cfx_integer(cfx_allclose(cfx_at(a, 0), cfx_at(b, 0), 1e-4, 1e-4, true)));
    CHECK(!cfx_is_true(cfx_tensor_value(cfx_all(cfx_isfinite(cfx_at(b, 1))))));
    CHECK(agree(p, x));
    cfx_fill_(cfx_select(cfx_dict_get(p->state, "w"), 0, 0), INFINITY);
    a = run_by(&cfx_interpreter, p, x), b = run_by(&cfx_planner, p, x);
    CHECK(cfx_integer(cfx_allclose(cfx_at(a, 0), cfx_at(b, 0), 1e-4, 1e-4, true)));
}

TEST(clamps_end_a_layer_as_activations_do) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(8, 8, 3, 3)};
    cfx_program *p = program_of(
        HEAD "p_w, x):\n"
             "        c1 = " ATEN "conv2d.default(x, p_w, None, [1, 1], [1, 1])\n"
             "        l1 = " ATEN "clamp.default(c1, 0, 6)\n"
             "        c2 = " ATEN "conv2d.default(l1, p_w, None, [1, 1], [1, 1])\n"
             "        l2 = " ATEN "clamp.default(c2, None, 0.5)\n"
             "        c3 = " ATEN "conv2d.default(l2, p_w, None, [1, 1], [1, 1])\n"
             "        l3 = " ATEN "clamp.default(c3, 2.0, 1.0)\n"
             "        return (l1, l2, l3)\n",
        tensors_of(COUNT(names), names, t));
    cfx_value x = image();
    const char *plan = cfx_program_plan(p, x);
    CHECK_OK();
    CHECK(strstr(plan, " then clamp(0, 6)\n"));
    CHECK(strstr(plan, " then clamp(None, 0.5)\n"));
    CHECK(!strstr(plan, " then clamp(2")); /* all are 1 then */
    CHECK(agree(p, x));
}

/* The interpreter computes them in tiles, which is what they are held against. */
TEST(convolutions_by_three_points_run_after_winograd) {
    static const char *const names[] = {"w", "v"};
    cfx_tensor *t[] = {cfx_randn(48, 8, 1, 1), cfx_mul(cfx_randn(48, 48, 3, 3), 0.05)};
    cfx_program *p = program_of(
        HEAD "p_w, p_v, x):\n"
             "        c = " ATEN "conv2d.default(x, p_w)\n"
             "        d = " ATEN "conv2d.default(c, p_v, None, [1, 1], [1, 1])\n"
             "        e = " ATEN "add.Tensor(d, c)\n"
             "        f = " ATEN "relu.default(e)\n"
             "        g = " ATEN "conv2d.default(f, p_v, None, [2, 2], [1, 1])\n"
             "        return (f, g)\n",
        tensors_of(COUNT(names), names, t));
    cfx_value x = image();
    CHECK_INT(lines_with(cfx_program_plan(p, x), "convolution after Winograd"), 1);
    CHECK(agree(p, x));
    cfx_set_precision(CFX_PRECISION_BF16);
    CHECK_INT(lines_with(cfx_program_plan(p, x), "convolution after Winograd"), 0);
    cfx_set_precision(CFX_PRECISION_F32);
    CHECK_OK();
}

TEST(pools_of_images_stay_channels_last) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(150, 8, 1, 1)};
    cfx_program *p = program_of(
        HEAD "p_w, x):\n"
             "        c = " ATEN "conv2d.default(x, p_w)\n"
             "        a = " ATEN "max_pool2d.default(c, [3, 3], [2, 2], [1, 1], [1, 1], True)\n"
             "        b = " ATEN "max_pool2d.default(c, [2, 3], [1, 2], [1, 0], [2, 1])\n"
             "        d = " ATEN "avg_pool2d.default(c, [3, 2], [2, 1], [1, 1], True)\n"
             "        e = " ATEN "avg_pool2d.default(c, [3, 3], [], [1, 0], False, False)\n"
             "        f = " ATEN "avg_pool2d.default(c, [2, 2], [2, 2], 0, False, True, 3)\n"
             "        g = " ATEN "adaptive_avg_pool2d.default(c, [1, 1])\n"
             "        h = " ATEN "adaptive_avg_pool2d.default(c, [3, 7])\n"
             "        k = " ATEN "flatten.using_ints(g, 1)\n"
             "        return (a, b, d, e, f, h, k)\n",
        tensors_of(COUNT(names), names, t));
    cfx_value x = image();
    CHECK_INT(lines_with(cfx_program_plan(p, x), "pool channels last"), 7);
    CHECK(agree(p, x));
    cfx_tensor *bad = cfx_clone(x);
    cfx_fill_(cfx_select(cfx_select(cfx_select(bad, 0, 1), 1, 4), 1, 5), NAN);
    cfx_value a = run_by(&cfx_interpreter, p, cfx_tensor_value(bad));
    cfx_value b = run_by(&cfx_planner, p, cfx_tensor_value(bad));
    for (int i = 0; i < 7; i++)
        CHECK(cfx_integer(cfx_allclose(cfx_at(a, i), cfx_at(b, i), 1e-4, 1e-4, true)));
    CHECK_OK();
}

/* Images of one element a plane lie alike in both orders. What is made larger of them does not: it
 * is in the order that the interpreter gives it, which a view needs. */
TEST(upsampled_elements_are_in_order) {
    static const char *const names[] = {"w", "v"};
    cfx_tensor *t[] = {cfx_randn(16, 8, 16, 16), cfx_randn(48, 16, 1, 1)};
    cfx_program *p = program_of(
        HEAD "p_w, p_v, x):\n"
             "        a = " ATEN "conv2d.default(x, p_w)\n"
             "        b = " ATEN "relu.default(a)\n"
             "        c = " ATEN "conv2d.default(b, p_v)\n"
             "        d = " ATEN "upsample_bilinear2d.vec(c, [8, 8], False, None)\n"
             "        e = " ATEN "view.default(d, [96, 8, 8])\n"
             "        f = " ATEN "exp.default(e)\n"
             "        return (f,)\n",
        tensors_of(COUNT(names), names, t));
    cfx_value x = cfx_tensor_value(cfx_randn(2, 8, 16, 16));
    CHECK(*cfx_program_plan(p, x));
    CHECK(agree(p, x));
    CHECK_OK();
}

/* ---- transformers ---------------------------------------------------------------------------- */

static cfx_program *feed_forward(void) {
    static const char *const names[] = {"w", "b", "v", "c"};
    cfx_tensor *t[] = {cfx_randn(64, 16), cfx_randn(64), cfx_randn(64, 16), cfx_randn(16)};
    return program_of(
        HEAD "p_w, p_b, p_v, p_c, x):\n"
             "        h = " ATEN "linear.default(x, p_w, p_b)\n"
             "        g = " ATEN "gelu.default(h)\n"
             "        d = " ATEN "dropout.default(g, 0.1, False)\n"
             "        f = " ATEN "view.default(d, [-1, 64])\n"
             "        y = " ATEN "addmm.default(p_c, f, p_v)\n"
             "        z = " ATEN "view.default(y, [2, 5, 16])\n"
             "        k = " ATEN "mul.Tensor(p_c, 2)\n"
             "        s = " ATEN "add.Tensor(z, k)\n"
             "        return (s, k)\n",
        tensors_of(COUNT(names), names, t));
}

TEST(products_take_what_follows_and_constants_are_folded) {
    cfx_program *p = feed_forward();
    cfx_value x = cfx_tensor_value(cfx_randn(2, 5, 16));
    const char *plan = cfx_program_plan(p, x);
    CHECK_INT(lines_with(plan, "f32[64]) then "), 1);
    CHECK_INT(lines_with(plan, "3 kernels, 0 views; 4 nodes inside others, 1 constant"), 1);
    CHECK(agree(p, x));
    /* a folded result is the caller's to change */
    cfx_value k = cfx_at(run_by(&cfx_planner, p, x), 1);
    cfx_mul_(k, 0);
    CHECK(agree(p, x));
}

TEST(a_result_that_is_constant_as_a_whole_is_given) {
    static const char *const names[] = {"b"};
    cfx_tensor *t[] = {cfx_randn(8)};
    cfx_program *p = program_of(HEAD "p_b, x):\n"
                                     "        h = " ATEN "relu.default(p_b)\n"
                                     "        return (h,)\n",
                                tensors_of(COUNT(names), names, t));
    cfx_value x = cfx_tensor_value(cfx_randn(2));
    CHECK(cfx_integer(cfx_equal(cfx_at(run_by(&cfx_planner, p, x), 0), cfx_relu(t[0]))));
    CHECK(agree(p, x));
}

TEST(making_a_plan_draws_no_random_numbers) {
    cfx_program *p = program_of(HEAD "x):\n"
                                     "        n = " ATEN "sym_size.int(x, 0)\n"
                                     "        f = " ATEN "scalar_tensor(n)\n"
                                     "        h = " ATEN "normal.float_Tensor(0.0, f)\n"
                                     "        y = " ATEN "add.Tensor(x, h)\n"
                                     "        return (y,)\n",
                                cfx_dict_new());
    cfx_value x = cfx_tensor_value(cfx_zeros(cfx_list(2)));
    cfx_manual_seed(1);
    const char *want = cfx_str(run_by(&cfx_interpreter, p, x));
    cfx_manual_seed(1);
    CHECK_STR(cfx_str(run_by(&cfx_planner, p, x)), want);
}

TEST(a_plan_minds_the_time) {
    cfx_program *p = program_of(HEAD "x):\n"
                                     "        y = " ATEN "mul.Tensor(x, x)\n"
                                     "        return (y,)\n",
                                cfx_dict_new());
    cfx_value x = cfx_tensor_value(cfx_ones(cfx_list(2)));
    CHECK_STR(cfx_str(run_by(&cfx_planner, p, x)), "(tensor([1., 1.]),)"); /* and plans */
    cfx_set_time_limit(1e-9);
    run_by(&cfx_planner, p, x);
    CHECK_ERROR("the time limit of 1e-09 seconds is used up");
    cfx_set_time_limit(0);
}

TEST(a_number_is_not_what_a_call_is_about) {
    cfx_program *p = program_of(HEAD "x):\n"
                                     "        n = " ATEN "sym_size.int(x, 0)\n"
                                     "        h = " ATEN "sum.dim_IntList(n, [0])\n"
                                     "        y = " ATEN "add.Tensor(x, h)\n"
                                     "        return (y,)\n",
                                cfx_dict_new());
    cfx_value x = cfx_tensor_value(cfx_ones(cfx_list(3)));
    static const cfx_executor *const ways[] = {&cfx_interpreter, &cfx_planner};
    for (int i = 0; i < COUNT(ways); i++) {
        run_by(ways[i], p, x);
        CHECK_ERROR("aten::sum() Expected a value of type 'Tensor' for argument 'self' but instead "
                    "found type 'int'.");
    }
}

/* ---- higher-order operators ------------------------------------------------------------------ */

static cfx_program *wrapped(const char *inner) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(8, 8)};
    cfx__text code = {0};
    cfx__text_printf(&code,
                     HEAD "p_w, x):\n"
                          "        a = " ATEN "linear.default(x, p_w)\n"
                          "        m = self.m\n"
                          "        c = torch.ops.higher_order.wrap_with_set_grad_enabled(False, m, "
                          "a)\n"
                          "        d = c[0]\n"
                          "        e = " ATEN "linear.default(d, p_w)\n"
                          "        return (e, a)\n"
                          "\n"
                          "    class m(torch.nn.Module):\n"
                          "        def forward(self, x):\n"
                          "            y = " ATEN "%s(x)\n"
                          "            z = " ATEN "add.Tensor(y, x)\n"
                          "            return (z,)\n",
                     inner);
    return program_of(cfx__text_take(&code), tensors_of(COUNT(names), names, t));
}

TEST(calls_with_sub_graphs_run_between_kernels) {
    cfx_value x = cfx_tensor_value(cfx_randn(3, 8));
    cfx_program *p = wrapped("relu.default");
    const char *plan = cfx_program_plan(p, x);
    CHECK_INT(lines_with(plan, "product in tiles"), 2);
    CHECK_INT(lines_with(plan, "torch.ops.higher_order.wrap_with_set_grad_enabled"), 1);
    CHECK(agree(p, x));
    /* what writes to its arguments is the interpreter's */
    cfx_program *writes = wrapped("relu_.default");
    CHECK_STR(cfx_program_plan(writes, x), "");
    CHECK(agree(writes, x));
    CHECK_OK();
}

/* What grows in a loop is as large as the data says, whatever is noted. */
TEST(a_loop_that_changes_shapes_is_not_planned) {
    cfx_program *p = program_of(
        HEAD "x: \"f32[2]\"):\n"
             "        t = self.t\n"
             "        b = self.b\n"
             "        w = torch.ops.higher_order.while_loop(t, b, (x,), ())\n"
             "        y: \"f32[2]\" = w[0]\n"
             "        z: \"f32[2]\" = " ATEN "relu.default(y)\n"
             "        return (z,)\n"
             "\n"
             "    class t(torch.nn.Module):\n"
             "        def forward(self, a):\n"
             "            s = " ATEN "sum.default(a)\n"
             "            c = " ATEN "lt.Scalar(s, 7)\n"
             "            return (c,)\n"
             "\n"
             "    class b(torch.nn.Module):\n"
             "        def forward(self, a):\n"
             "            d = " ATEN "cat.default([a, a])\n"
             "            return (d,)\n",
        cfx_dict_new());
    cfx_value x = cfx_tensor_value(cfx_ones(2));
    CHECK(agree(p, x));
    CHECK_STR(cfx_str(cfx_program_run(p, x)), "(tensor([1., 1., 1., 1., 1., 1., 1., 1.]),)");
    CHECK_OK();
}

/* ---- watchers and errors --------------------------------------------------------------------- */

typedef struct {
    const char *name;
    cfx_value seen;
} wish;

static bool wants(cfx_watcher *w, const cfx_node *n) {
    return !strcmp(((wish *)w->user)->name, n->name);
}

static cfx_value see(cfx_watcher *w, cfx_node *n, cfx_value v) {
    (void)n;
    ((wish *)w->user)->seen = v;
    cfx_value_keep(v);
    return cfx_none();
}

static cfx_value tapped(const cfx_executor *x, cfx_program *p, const char *name, cfx_value in) {
    wish want = {name, cfx_none()};
    cfx_watcher w = {.wants = wants, .see = see, .user = &want};
    cfx_program_run_with(CFX_HERE, p, x, &w, (cfx_args){1, &in, NULL});
    return cfx__value_scope_own(want.seen);
}

TEST(what_is_tapped_is_there_although_it_was_fused) {
    cfx_program *p = residual();
    static const char *const names[] = {"c1", "c2", "n3", "c4", "a2", "r2", "p_w"};
    cfx_value x = image();
    for (int i = 0; i < COUNT(names); i++) {
        cfx_value a = tapped(&cfx_interpreter, p, names[i], x);
        cfx_value b = tapped(&cfx_planner, p, names[i], x);
        if (i != 0 && i != 2 && i != 4) /* written to later: the interpreter shows what it became */
            CHECK(cfx_integer(cfx_allclose(a, b, 1e-4, 1e-4)));
        CHECK_INT(b.tag, CFX_TAG_TENSOR);
    }
    CHECK(agree(p, x));
    CHECK_OK();
}

TEST(convolutions_of_channels_run_with_the_points_before_them) {
    static const char *const names[] = {"u", "w", "c", "v", "d"};
    cfx_tensor *t[] = {cfx_randn(8, 8, 1, 1), cfx_randn(40, 8, 1, 1), cfx_randn(40),
                       cfx_randn(40, 1, 3, 3), cfx_randn(24, 40, 1, 1)};
    cfx_program *p = program_of(
        HEAD "p_u, p_w, p_c, p_v, p_d, x):\n"
             "        y = " ATEN "conv2d.default(x, p_u)\n"
             "        a = " ATEN "conv2d.default(y, p_w, p_c)\n"
             "        b = " ATEN "silu.default(a)\n"
             "        c = " ATEN "conv2d.default(b, p_v, None, [2, 2], [1, 1], [1, 1], 40)\n"
             "        d = " ATEN "relu6.default(c)\n"
             "        e = " ATEN "conv2d.default(d, p_d)\n"
             "        return (e,)\n",
        tensors_of(COUNT(names), names, t));
    static const char *const between[] = {"a", "b", "c", "d", "e"};
    cfx_value x = image();
    CHECK_INT(lines_with(cfx_program_plan(p, x), "convolution in tiles, of channels"), 1);
    CHECK_INT(lines_with(cfx_program_plan(p, x), "convolution"), 3);
    CHECK(agree(p, x));
    for (int i = 0; i < COUNT(between); i++)
        CHECK(cfx_integer(cfx_allclose(tapped(&cfx_interpreter, p, between[i], x),
                                       tapped(&cfx_planner, p, between[i], x), 1e-4, 1e-4)));
    CHECK_OK();
}

TEST(what_is_not_planned_is_interpreted) {
    cfx_dict *none = cfx_dict_new();
    cfx_value x = cfx_tensor_value(cfx_tensor_from_value(cfx_list(-1.0, 2.0)));
    cfx_program *writes = program_of(HEAD "x):\n        y = " ATEN "add_.Tensor(x, 1)\n"
                                          "        return (y,)\n", none);
    CHECK_STR(cfx_program_plan(writes, x), "");
    CHECK_STR(cfx_str(cfx_at(run_by(&cfx_planner, writes, x), 0)), "tensor([0., 3.])");
    CHECK_STR(cfx_str(x), "tensor([0., 3.])");
    cfx_program *data = program_of(HEAD "x):\n        y = " ATEN "nonzero.default(x)\n"
                                        "        return (y,)\n", none);
    CHECK_STR(cfx_str(cfx_at(run_by(&cfx_planner, data, x), 0)), "tensor([[1]])");
    cfx_program *drawn = program_of(HEAD "x):\n        y = " ATEN "rand.default([2])\n"
                                         "        z = " ATEN "add.Tensor(x, y)\n"
                                         "        return (z,)\n", none);
    CHECK_STR(cfx_program_plan(drawn, x), "");
}

TEST(an_error_in_a_plan_names_its_node) {
    cfx_program *p = program_of(HEAD "x):\n        y = " ATEN "add.Tensor(x, 1)\n"
                                     "        z = " ATEN "index_select.default(y, 0, x)\n"
                                     "        return (z,)\n", cfx_dict_new());
    cfx_tensor *t = cfx_tensor_from_value(cfx_list(cfx_int(0), cfx_int(7)));
    run_by(&cfx_planner, p, cfx_tensor_value(t));
    CHECK(strstr(cfx_error_last()->notes, "While executing %z") != NULL);
    CHECK_ERROR("index out of range");
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct {
    cfx_program *p;
    cfx_value x, want;
} shared;

static void *run_often(void *arg) {
    shared *s = arg;
    const char *bad = NULL;
    for (int i = 0; i < 30 && !bad; i++)
        CFX_SCOPE
            if (!cfx_integer(
                    cfx_allclose(cfx_at(run_by(&cfx_planner, s->p, s->x), 0), s->want, 1e-4, 1e-4)))
                bad = "wrong";
    return cfx_ok() ? (void *)bad : "failed";
}

TEST(one_plan_runs_from_many_threads) {
    shared s = {residual(), image(), cfx_none()};
    s.want = cfx_at(run_by(&cfx_interpreter, s.p, s.x), 0);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, run_often, &s);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        CHECK(!bad);
    }
}

/* ---- what is spelled out --------------------------------------------------------------------- */

/* GELU by its hyperbolic tangent behind a product and a view; `last` is what is returned. */
static cfx_program *spelled_out(const char *last) {
    static const char *const names[] = {"w", "b", "v"};
    cfx_tensor *t[] = {cfx_randn(24, 40), cfx_randn(40), cfx_randn(40, 24)};
    return program_of(
        cfx__text_format(HEAD "p_w, p_b, p_v, x):\n"
                              "        f = " ATEN "view.default(x, [6, 24])\n"
                              "        l = " ATEN "addmm.default(p_b, f, p_w)\n"
                              "        y = " ATEN "view.default(l, [2, 3, 40])\n"
                              "        h = " ATEN "mul.Tensor(y, 0.5)\n"
                              "        c = " ATEN "pow.Tensor_Scalar(y, 3.0)\n"
                              "        d = " ATEN "mul.Tensor(c, 0.044715)\n"
                              "        s = " ATEN "add.Tensor(y, d)\n"
                              "        a = " ATEN "mul.Tensor(s, 0.7978845608028654)\n"
                              "        t = " ATEN "tanh.default(a)\n"
                              "        o = " ATEN "add.Tensor(t, 1.0)\n"
                              "        g = " ATEN "mul.Tensor(h, o)\n"
                              "        i = " ATEN "view.default(g, [6, 40])\n"
                              "        m = " ATEN "mm.default(i, p_v)\n"
                              "        n = " ATEN "view.default(m, [2, 3, 24])\n"
                              "        r = " ATEN "add.Tensor(x, n)\n"
                              "        return (r, %s)\n",
                         last),
        tensors_of(COUNT(names), names, t));
}

/* What was added before a view has other dims than what comes out. */
TEST(a_product_ends_before_a_view_of_its_sum) {
    static const char *const names[] = {"w"};
    cfx_tensor *w = cfx_randn(24, 24);
    cfx_program *p = program_of(HEAD "p_w, x):\n"
                                     "        l = " ATEN "linear.default(x, p_w)\n"
                                     "        s = " ATEN "add.Tensor(x, l)\n"
                                     "        v = " ATEN "view.default(s, [6, 24])\n"
                                     "        r = " ATEN "relu.default(v)\n"
                                     "        return (r,)\n",
                                tensors_of(1, names, &w));
    CHECK(agree(p, cfx_tensor_value(cfx_randn(2, 3, 24))));
}

TEST(gelu_that_is_spelled_out_ends_a_product) {
    cfx_value x = cfx_tensor_value(cfx_randn(2, 3, 24));
    cfx_program *p = spelled_out("g");
    CHECK(agree(p, x));
    const char *plan = cfx_program_plan(p, x);
    CHECK_INT(lines_with(plan, "product in tiles"), 2);
    CHECK_INT(lines_with(plan, ") then gelu"), 1);
    CHECK_INT(lines_with(plan, ") + x"), 1);
    CHECK_INT(lines_with(plan, "loop of"), 0);
    p = spelled_out("t"); /* what is inside is wanted too */
    CHECK(agree(p, x));
    CHECK_INT(lines_with(cfx_program_plan(p, x), "loop of"), 1);
    CHECK_OK();
}

/* ---- precision ------------------------------------------------------------------------------- */

/* How far the difference of two results is below them, in dB. */
static double decibels(cfx_value a, cfx_value b) {
    cfx_value x = cfx_at(a, 0), off = CFX_V(cfx_sub(x, cfx_at(b, 0)));
    double signal = cfx_tensor_get(cfx_sum(cfx_mul(x, x)), 0);
    return 10 * log10(signal / cfx_tensor_get(cfx_sum(cfx_mul(off, off)), 0));
}

TEST(halves_are_multiplied_as_the_machine_can) {
    static const char *const names[] = {"w", "b", "v"};
    cfx_manual_seed(5);
    cfx_tensor *t[] = {cfx_randn(96, 64), cfx_randn(96), cfx_randn(64, 96)};
    cfx_program *p = program_of(HEAD "p_w, p_b, p_v, x):\n"
                                     "        l = " ATEN "linear.default(x, p_w, p_b)\n"
                                     "        g = " ATEN "gelu.default(l)\n"
                                     "        m = " ATEN "linear.default(g, p_v)\n"
                                     "        a = " ATEN "add.Tensor(m, x)\n"
                                     "        return (a,)\n",
                                tensors_of(COUNT(names), names, t));
    for (int64_t rows = 1; rows <= 49; rows += 12) {
        cfx_value x = cfx_tensor_value(cfx_randn(rows, 64)), whole = run_by(&cfx_planner, p, x);
        const double least[] = {100, 40, 60}; /* by precision */
        for (int i = CFX_PRECISION_BF16; i <= CFX_PRECISION_F16; i++) {
            cfx_set_precision((cfx_precision)i);
            cfx_value halves = run_by(&cfx_planner, p, x), again = run_by(&cfx_planner, p, x);
            CHECK(decibels(whole, halves) > least[i] && decibels(whole, halves) < 100);
            CHECK(cfx_is_true(cfx_equal(cfx_at(halves, 0), cfx_at(again, 0))));
            cfx_set_precision(CFX_PRECISION_F32);
        }
        cfx_set_precision(CFX_PRECISION_TF32); /* a card's: the CPU computes it in float32 */
        cfx_value same = run_by(&cfx_planner, p, x);
        CHECK(cfx_is_true(cfx_equal(cfx_at(whole, 0), cfx_at(same, 0))));
        cfx_set_precision(CFX_PRECISION_F32);
    }
    CHECK_OK();
}

/* Splitting may leave such a graph: there is no last step whose results could be looked at. */
TEST(a_graph_without_nodes_has_no_plan) {
    cfx_module *m = cfx_graph_module(cfx_module_new("Empty", NULL, ""), cfx_graph_new(),
                                     NULL);
    cfx_execution e = {.at = CFX_HERE, .module = m, .graph = m->graph};
    CHECK(cfx__plan_make(&cfx__plan_cpu, &e) == NULL);
    CHECK(cfx_ok());
}
