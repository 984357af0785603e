/* Memory that several values share: plans write and read it in the order of the program. */
#include "plan.h"
#include "plan_test.h"

/* Runs a program of one weight and inputs by the interpreter, by a plan and by it again; what it
 * gives, and what is left in the inputs and the weight, is the same. */
static void check_same(const char *text, cfx_tensor *weight, int n, cfx_tensor **in) {
    static const char *const names[] = {"w"};
    cfx_value want = cfx_none();
    for (int turn = 0; turn < 4; turn++) {
        cfx_tensor *w = cfx_clone(weight);
        cfx_program *p = program_of(text, tensors_of(1, names, &w));
        cfx_value args[4], got = cfx_tuple_value(0, NULL);
        for (int again = 0; again < (turn == 3 ? 2 : 1); again++) {
            cfx_copy_(w, cfx_tensor_value(weight));
            for (int i = 0; i < n; i++)
                args[i] = cfx_tensor_value(cfx_clone(in[i]));
            cfx_value v = cfx_program_run_with(CFX_HERE, p, turn ? &cfx_planner : &cfx_interpreter,
                                               NULL, (cfx_args){n, args, NULL});
            got = cfx_list(v, cfx_clone(w));
            for (int i = 0; i < n; i++)
                cfx_list_append(cfx_as_list(got), args[i]);
        }
        if (!turn)
            want = got;
        CHECK_OK();
        CHECK_STR(cfx_str(got), cfx_str(want));
    }
}

TEST(as_strided_counts_from_the_start_of_its_own_storage) {
    cfx_tensor *in[] = {cfx_randn(3, 4)};
    check_same(HEAD "p_w, x):\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("r", "relu.default", "y")
        CALL("a", "as_strided.default", "r, [2, 2], [4, 1], 5")
        CALL("s", "select.int", "r, 0, 1")
        CALL("b", "as_strided.default", "s, [3], [1]")
        CALL("c", "as_strided_copy.default", "r, [2], [3], 1")
        CALL("z", "linear.default", "r, p_w")
        "        return (a, b, c, z)\n", cfx_randn(4, 4), 1, in);
}

TEST(a_write_does_not_overtake_a_read) {
    cfx_tensor *in[] = {cfx_randn(3, 4), cfx_tensor_from_value(cfx_list(1, 2))};
    check_same(HEAD "p_w, x, i):\n"
        CALL("j", "sub_.Tensor", "i, 1")
        CALL("f", "flip.default", "x, [0]")
        CALL("n", "neg.default", "f")
        CALL("g", "index_fill_.int_Scalar", "f, 0, i, 9")
        CALL("y", "linear.default", "n, p_w")
        CALL("m", "mul.Tensor", "n, 2")
        "        return (g, y, m)\n", cfx_randn(4, 4), 2, in);
}

TEST(statistics_are_updated_once_by_the_first_planned_run) {
    cfx_tensor *in[] = {cfx_zeros(4), cfx_ones(4), cfx_randn(3, 4)};
    check_same(HEAD "p_w, mean, var, x):\n"
        CALL("b", "batch_norm.default", "p_w, None, None, mean, var, True, 0.1, 1e-5, False")
        CALL("y", "linear.default", "x, b")
        CALL("r", "relu.default", "y")
        "        return (r,)\n", cfx_randn(4, 4), 3, in);
}

TEST(what_is_written_later_is_no_constant) {
    cfx_tensor *in[] = {cfx_randn(3, 4)};
    check_same(HEAD "p_w, x):\n"
        CALL("n", "neg.default", "p_w")
        CALL("y", "linear.default", "x, n")
        CALL("r", "exp_.default", "n")
        CALL("z", "linear.default", "x, n")
        "        return (y, z)\n", cfx_randn(4, 4), 1, in);
}

TEST(inputs_that_share_memory_are_one_memory) {
    static const char *const names[] = {"w"};
    cfx_tensor *w = cfx_randn(4, 4);
    const char *text = HEAD "p_w, x, y):\n"
        CALL("a", "neg.default", "x")
        CALL("b", "mul_.Tensor", "y, 3")
        CALL("c", "add.Tensor", "x, 1")
        CALL("z", "linear.default", "c, p_w")
        CALL("d", "add.Tensor", "a, z")
        "        return (d,)\n";
    cfx_program *p = program_of(text, tensors_of(1, names, &w));
    for (int shared = 0; shared < 4; shared++) { /* a plan fits only where they do not */
        cfx_value got[2];
        for (int planned = 0; planned < 2; planned++) {
            cfx_tensor *x = cfx_add(cfx_zeros(3, 4), 2), *y = cfx_add(cfx_zeros(3, 4), 5);
            cfx_value args[] = {cfx_tensor_value(x),
                                cfx_tensor_value(shared % 2 ? cfx_view(x, cfx_list(3, 4)) : y)};
            const cfx_executor *by = planned ? &cfx_planner : &cfx_interpreter;
            got[planned] =
                cfx_program_run_with(CFX_HERE, p, by, NULL, (cfx_args){2, args, NULL});
        }
        CHECK_OK();
        CHECK_STR(cfx_str(got[1]), cfx_str(got[0]));
    }
}

static cfx_value count(cfx_watcher *w, cfx_node *n, cfx_value v) {
    (void)n;
    *(int *)w->user += v.tag == CFX_TAG_TENSOR;
    return cfx_none();
}

TEST(a_tap_after_a_run_without_one_sees_every_node) {
    static const char *const names[] = {"w"};
    cfx_tensor *w = cfx_randn(4, 4);
    cfx_program *p = program_of(HEAD "p_w, x):\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("a", "neg.default", "y")
        CALL("unused", "exp.default", "a")
        "        return (a,)\n", tensors_of(1, names, &w));
    cfx_value x = cfx_tensor_value(cfx_randn(3, 4));
    int seen = 0;
    cfx_watcher all = {.see = count, .user = &seen};
    cfx_program_run_with(CFX_HERE, p, &cfx_planner, NULL, (cfx_args){1, &x, NULL});
    cfx_program_run_with(CFX_HERE, p, &cfx_planner, &all, (cfx_args){1, &x, NULL});
    CHECK_OK();
    CHECK_INT(seen, 5);
}
