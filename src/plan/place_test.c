/* Rooms: results stay what they are when a plan runs again, places are shared out by lifetimes. */
#include "plan.h"
#include "plan_test.h"

static cfx_program *deep(void) {
    static const char *const names[] = {"w", "b"};
    cfx_tensor *t[] = {cfx_mul(cfx_randn(32, 32), 0.2), cfx_randn(32)};
    return program_of(
        HEAD "p_w, p_b, x):\n" CALL("a", "linear.default", "x, p_w, p_b")
            CALL("b", "softmax.int", "a, -1") CALL("c", "linear.default", "b, p_w, p_b")
                CALL("d", "view.default", "c, [4, 8, 32]") CALL("e", "transpose.int", "d, 0, 1")
                    CALL("f", "sigmoid.default", "e") CALL("g", "linear.default", "f, p_w")
                        CALL("h", "add.Tensor", "g, f")
                            CALL("i", "split.Tensor",
                                 "h, 16, 2") "        j = operator.getitem(i, 0)\n"
                                             "        k = operator.getitem(i, 1)\n" CALL(
                                                 "l", "mul.Tensor", "j, k")
                                                 CALL("m", "linear.default", "e, p_w, p_b")
                                                     CALL("n", "slice.Tensor",
                                                          "m, 0, 1, 5") "        return (l, n, "
                                                                        "k)\n",
        tensors_of(COUNT(names), names, t));
}

TEST(results_are_the_callers_when_a_plan_runs_again) {
    cfx_program *p = deep();
    cfx_value x = cfx_tensor_value(cfx_randn(32, 32)), y = cfx_tensor_value(cfx_randn(32, 32));
    cfx_value first = run_by(&cfx_planner, p, x), held[3];
    for (int i = 0; i < COUNT(held); i++)
        held[i] = cfx_tensor_value(cfx_clone(cfx_at(first, i)));
    run_by(&cfx_planner, p, y);
    cfx_mul_(cfx_at(run_by(&cfx_planner, p, x), 2), 0);
    cfx_value again = run_by(&cfx_planner, p, x);
    for (int i = 0; i < COUNT(held); i++) {
        CHECK(cfx_integer(cfx_equal(cfx_at(first, i), held[i])));
        CHECK(cfx_integer(cfx_equal(cfx_at(again, i), held[i])));
    }
    CHECK(agree(p, x));
    CHECK_OK();
}

/* Calls that may be views are made when memory is taken; those that draw are not. */
TEST(a_plan_draws_as_often_in_its_first_run) {
    static const char code[] = HEAD
        "x):\n" CALL("a", "exp.default", "x") CALL("b", "neg.default", "a")
            CALL("c", "normal.Tensor_float", "b") CALL("d", "dropout.default", "c, 0.5, True")
                CALL("e", "add.Tensor", "d, 1") "        return (e,)\n";
    cfx_program *p = program_of(code, cfx_dict_new());
    cfx_value x = cfx_tensor_value(cfx_randn(4, 4)), run[3];
    const cfx_executor *by[] = {&cfx_interpreter, &cfx_planner, &cfx_planner};
    for (int i = 0; i < 3; i++) {
        cfx_manual_seed(1);
        run[i] = run_by(by[i], p, x);
    }
    CHECK_OK();
    CHECK_STR(cfx_str(run[1]), cfx_str(run[0]));
    CHECK_STR(cfx_str(run[2]), cfx_str(run[0]));
}

/* The plan of a program with n loops, whose results are all of one size and read once. */
static const char *chain_plan(int n) {
    cfx__text t = {0};
    cfx__text_puts(&t, HEAD "x):\n        v0 = torch.ops.aten.cumsum.default(x, 0)\n");
    for (int i = 0; i < n; i++)
        cfx__text_printf(&t,
                         "        a%d = torch.ops.aten.exp.default(v%d)\n"
                         "        b%d = torch.ops.aten.neg.default(a%d)\n"
                         "        v%d = torch.ops.aten.flip.default(b%d, [0])\n",
                         i, i, i, i, i + 1, i);
    cfx__text_printf(&t, "        return (v%d,)\n", n);
    cfx_program *p = program_of(cfx__text_take(&t), cfx_dict_new());
    return cfx_program_plan(p, cfx_tensor_value(cfx_zeros(1000, 1000)));
}

TEST(places_are_used_again) {
    CHECK(strstr(chain_plan(2), "memory 4.0 MB in one block") != NULL);
    CHECK(strstr(chain_plan(9), "memory 4.0 MB in one block") != NULL);
}

/* ---- concatenation --------------------------------------------------------------------------- */

TEST(parts_of_a_concatenation_are_written_into_place) {
    static const char *const names[] = {"w", "v", "l"};
    cfx_tensor *t[] = {cfx_randn(8, 4, 3, 3), cfx_randn(16, 4, 1, 1), cfx_randn(5, 20)};
    cfx_program *p = program_of(
        HEAD "p_w, p_v, p_l, x):\n" CALL("a", "conv2d.default", "x, p_w, None, [1, 1], [1, 1]")
            CALL("b", "relu.default", "a") CALL("c", "conv2d.default", "x, p_v")
                CALL("d", "max_pool2d.default", "x, [3, 3], [1, 1], [1, 1]")
                    CALL("e", "cat.default", "[b, c, d, x], 1") CALL("f", "sigmoid.default", "e")
                        CALL("g", "mean.dim", "f, [1]") CALL("h", "linear.default", "g, p_l")
                            CALL("i", "mul.Tensor", "h, 2") CALL("j", "exp.default", "h")
                                CALL("k", "cat.default", "[j, h, g, i], -1")
                                    CALL("m", "neg.default", "k") "        return (m, f)\n",
        tensors_of(COUNT(names), names, t));
    cfx_value x = cfx_tensor_value(cfx_randn(2, 4, 6, 20));
    const char *plan = cfx_program_plan(p, x);
    CHECK(strstr(plan, "f32[2, 32, 6, 20] channels last, 3 of 4 parts in place") != NULL);
    CHECK(strstr(plan, "f32[2, 6, 35], 3 of 4 parts in place") != NULL);
    for (int i = 0; i < 3; i++)
        CHECK(agree(p, cfx_tensor_value(cfx_randn(2, 4, 6, 20))));
    CHECK_OK();
}

/* A result without elements takes no room, whatever its strides reach: here some back. */
TEST(empty_results_take_no_room) {
    static const char *const names[] = {"q"};
    cfx_tensor *t[] = {cfx_zeros(4, 65536, CFX_KW(dtype, cfx_i8))};
    cfx_program *p = program_of(
        HEAD "p_q, x):\n" CALL("a", "exp.default", "x") CALL("b", "neg.default", "a")
            CALL("i", "to.dtype", "x, torch.int64") CALL("j", "slice.Tensor", "i, 0, 0, 0")
                CALL("k", "slice.Tensor", "j, 1, 0, 0") "        w = torch.ops."
            "quantized_decomposed.dequantize_per_tensor.default(p_q, 0.1, 0, -128, 127, "
            "torch.int8)\n" CALL("e", "embedding.default", "w, k")
                CALL("f", "cumsum.default", "e, 2") CALL("c", "flip.default", "b, [0]")
                    "        return (c, f)\n",
        tensors_of(COUNT(names), names, t));
    cfx_value x = cfx_tensor_value(cfx_randn(512, 512));
    const char *plan = cfx_program_plan(p, x);
    CHECK(strstr(plan, "memory 3.1 MB in one block") != NULL);
    CHECK(agree(p, x));
    CHECK_OK();
}

/* A loop whose body makes what it carries larger: it has no place in what it is joined to. */
TEST(what_grew_is_not_written_into_its_place) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/hostile/loop_that_grows.fx");
    cfx_value in[] = {cfx_tensor_value(cfx_ones(64, 8)),
                      cfx_tensor_value(cfx_zeros(cfx_list_value(0, NULL), CFX_KW(dtype, cfx_i64)))};
    cfx_value v = cfx_program_run_with(CFX_HERE, p, &cfx_planner, NULL,
                                       (cfx_args){COUNT(in), in, NULL});
    CHECK_INT(cfx_tensor_at(v, 0)->shape[0], 64 + 8 * 64);
    CHECK_OK();
}

/* Results that are alive at once and have 2^64 bytes together, which is no number of bytes. */
TEST(results_that_have_no_size_together_have_no_room) {
    enum { LIVE = 64 };
    cfx__text t = {0};
    cfx__text_puts(&t, HEAD "x):\n" CALL("e", "expand.default", "x, [72057594037927936]"));
    for (int i = 0; i < LIVE; i++)
        cfx__text_printf(&t, CALL("a%d", "add.Tensor", "e, %d") CALL("b%d", "relu.default", "a%d"),
                         i, i, i, i);
    for (int i = 0; i < LIVE; i++)
        cfx__text_printf(&t, CALL("s%d", "sum.default", "b%d"), i, i);
    cfx__text_puts(&t, "        return (s0, s63)\n");
    cfx_program *p = program_of(cfx__text_take(&t), cfx_dict_new());
    run_by(&cfx_planner, p, cfx_tensor_value(cfx_ones(1)));
    CHECK_ERROR("can't allocate memory: you tried to allocate 288230376151711744 bytes");
}
