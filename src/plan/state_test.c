/* Inputs that are written to, as caches are: plans write where the interpreter writes, in order. */
#include "plan.h"
#include "plan_test.h"

/* A cache of six rows, which gets one at `at`; what was read before stays what it was, views see
 * what is written later. */
static cfx_program *cached(void) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(4, 4)};
    return program_of(HEAD "p_w, cache, at, x):\n"
        CALL("before", "add.Tensor", "cache, 1")
        CALL("view", "select.int", "cache, 0, 2")
        CALL("y", "linear.default", "x, p_w")
        CALL("r", "relu.default", "y")
        CALL("wrote", "index_copy_.default", "cache, 0, at, r")
        CALL("twice", "mul.Tensor", "before, 2")
        CALL("seen", "add.Tensor", "view, 1")
        CALL("row", "select.int", "cache, 0, 1")
        CALL("filled", "fill_.Scalar", "row, 7")
        CALL("all", "sum.default", "wrote")
        CALL("z", "linear.default", "wrote, p_w")
        CALL("last", "add.Tensor", "z, cache")
        "        return (twice, seen, all, last)\n", tensors_of(1, names, t));
}

static cfx_value step(const cfx_executor *x, cfx_program *p, cfx_tensor *cache, int at,
                      cfx_tensor *in) {
    cfx_value args[] = {cfx_tensor_value(cache),
                        cfx_tensor_value(cfx_tensor_from_value(cfx_list(at))),
                        cfx_tensor_value(in)};
    return cfx_program_run_with(CFX_HERE, p, x, NULL, (cfx_args){3, args, NULL});
}

static bool same(cfx_value a, cfx_value b) {
    return cfx_ok() && cfx_integer(cfx_allclose(a, b, 1e-5, 1e-5));
}

TEST(a_cache_is_written_in_place_by_a_plan_as_by_the_interpreter) {
    cfx_program *p = cached();
    cfx_tensor *one = cfx_randn(6, 4), *two = cfx_clone(one);
    const void *memory = cfx_tensor_data(two);
    for (int i = 0; i < 8; i++) {
        cfx_tensor *x = cfx_randn(1, 4);
        cfx_value a = step(&cfx_interpreter, p, one, i % 6, x);
        cfx_value b = step(&cfx_planner, p, two, i % 6, x);
        CHECK_OK();
        for (int k = 0; k < 4; k++)
            CHECK(same(cfx_at(a, k), cfx_at(b, k)));
        CHECK(same(cfx_tensor_value(one), cfx_tensor_value(two)));
    }
    CHECK(cfx_tensor_data(two) == memory);
}

/* A program that keeps its cache and its counter itself. */
static cfx_program *counting(cfx_tensor *w) {
    static const char *const names[] = {"w", "cache", "at"};
    cfx_tensor *t[] = {w, cfx_zeros(40, 4), cfx_zeros(cfx_list(1), CFX_KW(dtype, cfx_i64))};
    return program_of(HEAD "p_w, p_cache, p_at, x):\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("wrote", "index_copy_.default", "p_cache, 0, p_at, y")
        CALL("next", "add_.Tensor", "p_at, 1")
        CALL("z", "linear.default", "wrote, p_w")
        CALL("r", "relu.default", "z")
        "        return (r,)\n", tensors_of(COUNT(names), names, t));
}

static int plans;

static void *count_plan(const cfx_execution *e) {
    plans++;
    return cfx_planner.prepare(e);
}

TEST(a_program_that_writes_its_own_buffers_is_planned_once) {
    cfx_tensor *w = cfx_randn(4, 4);
    cfx_program *a = counting(w), *b = counting(w);
    static cfx_executor planner; /* what was prepared is freed by it, with the program */
    planner = cfx_planner;
    planner.prepare = count_plan;
    for (int i = 0; i < 30; i++) {
        cfx_value x = cfx_tensor_value(cfx_randn(1, 4));
        CHECK(same(cfx_at(run_by(&cfx_interpreter, a, x), 0), cfx_at(run_by(&planner, b, x), 0)));
    }
    CHECK_INT(plans, 1);
    CHECK_OK();
}

TEST(what_is_filled_part_by_part_is_planned) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(4, 3, 1, 1)};
    cfx_program *p = program_of(
        HEAD "p_w, x):\n"
        CALL("c", "conv2d.default", "x, p_w")
        CALL("z", "zeros.default", "[6, 8]")
        CALL("a", "slice.Tensor", "z, 0, 0, 3")
        CALL("b", "slice.Tensor", "a, 1, 2, 6")
        CALL("f", "fill_.Scalar", "b, 3")
        CALL("g", "slice.Tensor", "c, 1, 1, 3")
        CALL("h", "select.int", "c, 0, 0")
        CALL("i", "mul_.Scalar", "g, 2")
        CALL("s", "split.Tensor", "z, 4, 1")
        "        t = s[1]\n"
        CALL("u", "add_.Tensor", "t, 5")
        CALL("n", "add.Tensor", "z, 1")
        CALL("o", "mul.Tensor", "n, z")
        CALL("q", "sigmoid.default", "c")
        CALL("r", "add.Tensor", "h, 1")
        CALL("v", "conv2d.default", "x, p_w")
        CALL("y", "relu.default", "v")
        "        return (o, q, r, i, y)\n", tensors_of(1, names, t));
    cfx_value x = cfx_tensor_value(cfx_randn(2, 3, 5, 4));
    const char *plan = cfx_program_plan(p, x);
    CHECK_OK();
    CHECK(strstr(plan, "fill_") && strstr(plan, "mul_") && strstr(plan, "add_"));
    cfx_value a = run_by(&cfx_interpreter, p, x);
    for (int i = 0; i < 3; i++) {
        cfx_value b = run_by(&cfx_planner, p, x);
        for (int k = 0; k < 5; k++)
            CHECK(same(cfx_at(a, k), cfx_at(b, k)));
    }
    CHECK_OK();
}

TEST(what_writes_to_an_input_is_planned) {
    cfx_program *p = cached();
    cfx_value args[] = {cfx_tensor_value(cfx_zeros(6, 4)),
                        cfx_tensor_value(cfx_tensor_from_value(cfx_list(1))),
                        cfx_tensor_value(cfx_randn(1, 4))};
    const char *plan = cfx_program_plan_from(CFX_HERE, p, (cfx_args){3, args, NULL});
    CHECK_OK();
    CHECK(strstr(plan, "index_copy_") && strstr(plan, "fill_"));
    CHECK(strstr(plan, "product in tiles"));
}

/* How much a mask picks only data tells: there is no plan, and that is no error. */
TEST(no_plan_where_only_data_tells_sizes) {
    cfx_program *p = program_of(HEAD "x):\n" CALL("m", "gt.Scalar", "x, 0")
        CALL("i", "index.Tensor", "x, [m]") CALL("s", "sum.default", "i") "        return (s,)\n",
        tensors_of(0, NULL, NULL));
    cfx_value x = cfx_tensor_value(cfx_arange(-2, 4));
    CHECK_STR(cfx_program_plan_from(CFX_HERE, p, (cfx_args){1, &x, NULL}), "");
    CHECK_OK();
}

static void note_kernel(cfx_watcher *w, const cfx_ran *r) {
    cfx__text *t = w->user;
    CHECK(r->seconds >= 0 && r->value.tag == CFX_TAG_TENSOR);
    for (int i = 0; i < r->nnodes; i++)
        cfx__text_printf(t, "%s%s", r->nodes[i]->name, i + 1 < r->nnodes ? " " : "");
    cfx__text_printf(t, ": %s\n", r->kernel);
}

TEST(kernels_and_calls_are_timed) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(4, 4)};
    cfx_program *p = program_of(HEAD "p_w, x):\n" CALL("y", "linear.default", "x, p_w")
        CALL("r", "relu.default", "y") CALL("s", "sum.default", "r") "        return (s,)\n",
        tensors_of(1, names, t));
    cfx_value x = cfx_tensor_value(cfx_randn(3, 4));
    cfx__text plan = {0}, calls = {0};
    cfx_watcher w = {.ran = note_kernel, .user = &plan};
    cfx_program_run_with(CFX_HERE, p, &cfx_planner, &w, (cfx_args){1, &x, NULL});
    w.user = &calls;
    cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, &w, (cfx_args){1, &x, NULL});
    CHECK_OK();
    CHECK_STR(cfx__text_take(&plan), "y r: product in tiles\ns: loop of sum\n");
    CHECK_STR(cfx__text_take(&calls),
              "y: aten.linear.default\nr: aten.relu.default\ns: aten.sum.default\n");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

TEST(arithmetic_of_sizes_is_folded) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(6, 4)};
    cfx_program *p = program_of(HEAD "p_w, x):\n"
        CALL("n", "sym_size.int", "x, 0")
        "        m = n * 6\n"
        "        d = m // 2\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("v", "reshape.default", "y, [2, d]")
        CALL("s", "sigmoid.default", "v")
        "        return (s,)\n", tensors_of(1, names, t));
    for (int64_t n = 2; n < 8; n += 2) {
        cfx_value x = cfx_tensor_value(cfx_randn(n, 4));
        CHECK(strstr(cfx_program_plan(p, x), "product in tiles") != NULL);
        CHECK(agree(p, x));
    }
    CHECK_OK();
}
