/* Views: where they lie is part of the plan, and runs do what the operators do. */
#include "form.h"
#include "plan_test.h"

/* Views of an input, of a result in the arena, of a result that the caller gets, of a call's. */
static cfx_program *looking(void) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(24, 8)};
    return program_of(
        HEAD "p_w, x):\n" CALL("a", "slice.Tensor", "x, 0, 1, 5")
            CALL("b", "linear.default", "a, p_w") CALL("c", "view.default", "b, [4, 3, 2, 4]")
                CALL("d", "unbind.int", "c, 1") "        e = operator.getitem(d, 1)\n"
                                                "        f = operator.getitem(d, 2)\n"
            CALL("g", "transpose.int", "f, 1, 2") CALL("h", "contiguous.default", "e")
                CALL("i", "mul.Tensor", "e, 2") CALL("j", "exp.default", "i")
                    CALL("k", "cumsum.default", "j, 0") CALL("m", "select.int", "k, 2, -1")
                        CALL("n", "contiguous.default", "m")
                            CALL("o", "add.Tensor", "n, 1")
                                CALL("q", "permute.default", "j, [2, 0, 1]")
            "        return (g, h, o, q, a)\n",
        tensors_of(COUNT(names), names, t));
}

/* The line of a plan that begins with a name and a space. */
static const char *line_of(const char *plan, const char *name) {
    const size_t n = strlen(name);
    while (plan && *plan && (strncmp(plan, name, n) != 0 || plan[n] != ' ')) {
        plan = strchr(plan, '\n');
        plan = plan ? plan + 1 : NULL;
    }
    if (!plan || !*plan)
        return "";
    cfx__text t = {0};
    cfx__text_add(&t, plan, strcspn(plan, "\n"));
    const char *line = cfx__text_take(&t), *shape = strchr(line, '[');
    return shape ? shape : line;
}

TEST(a_plan_says_where_views_lie) {
    const char *plan = cfx_program_plan(looking(), cfx_tensor_value(cfx_randn(6, 8)));
    CHECK_STR(line_of(plan, "a"), "[4, 8], a view of x from 8, strides [8, 1]");
    CHECK_STR(line_of(plan, "c"), "[4, 3, 2, 4], a view of b from 0, strides [24, 8, 4, 1]");
    CHECK_STR(line_of(plan, "d"), "");
    CHECK_STR(line_of(plan, "e"), "[4, 2, 4], a view of b from 8, strides [24, 4, 1]");
    CHECK_STR(line_of(plan, "g"), "[4, 4, 2], a view of b from 16, strides [24, 1, 4]");
    CHECK_STR(line_of(plan, "m"), "[4, 2], a view of k from 3, strides [8, 4]");
    CHECK_STR(line_of(plan, "q"), "[4, 4, 2], a view of j from 0, strides [1, 8, 4]");
    CHECK(strstr(plan, " 7 views; ") != NULL);
    CHECK_OK();
}

TEST(views_are_what_the_operators_give) {
    cfx_program *p = looking();
    for (int i = 0; i < 3; i++)
        CHECK(agree(p, cfx_tensor_value(cfx_randn(6, 8))));
    cfx_value wide = cfx_tensor_value(cfx_slice(cfx_randn(6, 24), 1, 8, 16));
    CHECK(agree(p, wide));
    CHECK_OK();
}

/* Views of inputs are the caller's memory, as the interpreter gives them; what gives its argument
 * again gives the tensor itself. */
/* An image lies channels last until somebody needs it in order: what looks into it after that looks
 * into the copy, not into what the convolution left. */
TEST(views_of_what_was_brought_in_order_look_into_the_copy) {
    static const char *const names[] = {"w", "v"};
    cfx_tensor *t[] = {cfx_randn(5, 2, 1, 1), cfx_randn(9, 5)};
    cfx_program *p = program_of(
        HEAD "p_w, p_v, x):\n" CALL("c", "conv2d.default", "x, p_w")
            CALL("a", "view.default", "c, [5, 10]") CALL("b", "view.default", "c, [10, 5]")
                CALL("d", "linear.default", "b, p_v") CALL("e", "flip.default", "a, [0]")
                    CALL("f", "select.int", "c, 1, 3") CALL("g", "exp.default", "f")
            "        return (d, e, g)\n",
        tensors_of(COUNT(names), names, t));
    for (int i = 0; i < 3; i++)
        CHECK(agree(p, cfx_tensor_value(cfx_randn(1, 2, 2, 5))));
    CHECK_OK();
}

TEST(views_of_inputs_share_their_memory) {
    static const char code[] = HEAD
        "x):\n" CALL("a", "slice.Tensor", "x, 0, 1, 3") CALL("b", "contiguous.default", "x")
            CALL("c", "exp.default", "a") CALL("d", "neg.default", "c")
                "        return (a, b, d)\n";
    cfx_program *p = program_of(code, cfx_dict_new());
    cfx_tensor *x = cfx_randn(4, 5);
    cfx_value v = run_by(&cfx_planner, p, cfx_tensor_value(x));
    CHECK_OK();
    CHECK(cfx_tensor_at(v, 0)->storage == x->storage);
    CHECK_INT(cfx_tensor_at(v, 0)->offset, 5);
    CHECK(cfx_tensor_at(v, 1) == x);
}

/* ---- other values than planned --------------------------------------------------------------- */

static bool wants(cfx_watcher *w, const cfx_node *n) { return !strcmp(n->name, w->user); }

/* The same numbers and more, in another order of dimensions. */
static cfx_value replace(cfx_watcher *w, cfx_node *n, cfx_value v) {
    (void)w;
    (void)n;
    if (v.tag != CFX_TAG_TENSOR)
        return cfx_none();
    cfx_tensor *t = cfx_contiguous(cfx_transpose(v, 0, -1));
    return cfx_tensor_value(cfx_add(cfx_transpose(t, 0, -1), 1));
}

/* Whether plan and interpreter give the same where the result of a node is replaced. */
static bool agree_with(cfx_program *p, cfx_value x, const char *replaced) {
    cfx_watcher w = {.see = replace, .wants = wants, .user = (void *)replaced};
    cfx_value by[2];
    for (int k = 0; k < 2; k++)
        by[k] = cfx_program_run_with(CFX_HERE, p, k ? &cfx_planner : &cfx_interpreter, &w,
                                     (cfx_args){1, &x, NULL});
    bool same = cfx_ok();
    for (int k = 0; same && k < 5; k++)
        same = cfx_integer(cfx_allclose(cfx_at(by[0], k), cfx_at(by[1], k), 1e-4, 1e-4));
    return same && cfx_ok();
}

TEST(views_look_into_what_was_put_in_place) {
    static const char *const replaced[] = {"b", "c", "e", "f", "j", "k", "m", "x"};
    cfx_program *p = looking();
    cfx_value x = cfx_tensor_value(cfx_randn(6, 8));
    run_by(&cfx_planner, p, x); /* a plan that is made already */
    for (int i = 0; i < COUNT(replaced); i++)
        CHECK(agree_with(p, x, replaced[i]));
}

/* Views of views of a call's result, of a layer's, of one of several, of an input. */
static cfx_program *looking_on(void) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(24, 8)};
    return program_of(
        HEAD "p_w, x):\n" CALL("a", "cumsum.default", "x, 0")
            CALL("b", "view.default", "a, [3, 2, 8]") CALL("c", "transpose.int", "b, 0, 1")
                CALL("d", "unsqueeze.default", "c, 0") CALL("e", "cumsum.default", "d, 1")
            CALL("f", "linear.default", "x, p_w") CALL("g", "view.default", "f, [6, 4, 6]")
                CALL("h", "permute.default", "g, [1, 0, 2]") CALL("i", "slice.Tensor", "h, 0, 1, 3")
                    CALL("j", "flip.default", "i, [0]") CALL("k", "split.Tensor", "a, 4, 1")
            "        l = operator.getitem(k, 1)\n" CALL("m", "transpose.int", "l, 0, 1")
                CALL("n", "select.int", "m, 0, 2") CALL("o", "cumsum.default", "n, 0")
            CALL("q", "transpose.int", "x, 0, 1") CALL("r", "select.int", "q, 0, 1")
                CALL("s", "flip.default", "r, [0]")
            "        return (e, j, o, s, c)\n",
        tensors_of(COUNT(names), names, t));
}

TEST(views_that_only_views_read_are_made_where_one_is_called) {
    static const char *const replaced[] = {"a", "b", "c", "f", "g", "h", "l", "m", "q", "x"};
    cfx_program *p = looking_on();
    cfx_value x = cfx_tensor_value(cfx_randn(6, 8));
    for (int mode = 0; mode < 3; mode++) {
        cfx_grad_mode before = cfx_set_grad_mode((cfx_grad_mode)mode);
        CHECK(agree(p, x));
        CHECK(agree(p, cfx_tensor_value(cfx_slice(cfx_randn(6, 24), 1, 8, 16))));
        cfx_set_grad_mode(before);
    }
    const cfx__prepared *last = p->module->graph->prepared;
    const cfx__plan *plan = ((const cfx__plan_form *)last->form)->plan;
    int between = 0;
    for (int k = 0; k < plan->n && last->by->run == cfx_planner.run; k++)
        between += plan->kernels[k].between;
    CHECK_INT(between, 6); /* b, g, h, l, m, q */
    for (int i = 0; i < COUNT(replaced); i++)
        CHECK(agree_with(p, x, replaced[i]));
    CHECK_OK();
}

/* A view that a kernel reads, and a view of that which is made much later, by its operator. */
TEST(what_a_view_reads_stays_until_the_view_is_made) {
    cfx_program *p = program_of(
        HEAD "x):\n" CALL("a", "cumsum.default", "x, 0") CALL("b", "view.default", "a, [3, 2, 8]")
            CALL("c", "flip.default", "b, [0]") CALL("d", "transpose.int", "b, 0, 1")
                CALL("e", "sort.stable", "c, stable=True, dim=0, descending=False")
            "        f = operator.getitem(e, 0)\n" CALL("k", "exp.default", "f")
                CALL("g", "neg.default", "k") CALL("h", "select.int", "d, 0, 1")
                    CALL("i", "flip.default", "h, [1]")
            "        return (g, i)\n", cfx_dict_new());
    for (int mode = 0; mode < 3; mode++) {
        cfx_grad_mode before = cfx_set_grad_mode((cfx_grad_mode)mode);
        for (int i = 0; i < 3; i++)
            CHECK(agree(p, cfx_tensor_value(cfx_randn(6, 8))));
        cfx_set_grad_mode(before);
    }
    CHECK_OK();
}

/* What is computed of weights alone stays, where the operator of a view may be called with it. */
TEST(views_may_be_called_with_what_was_folded) {
    static const char *const names[] = {"w", "at"};
    cfx_tensor *t[] = {cfx_randn(2, 3), cfx_tensor_from_value(cfx_list(1))};
    cfx_program *p = program_of(
        HEAD "p_w, p_at, x):\n" CALL("a", "sqrt.default", "p_w")
            CALL("b", "view_as.default", "x, a") CALL("c", "neg.default", "p_at")
                CALL("d", "neg.default", "c") CALL("e", "tensor_split.tensor_indices_or_sections",
                                                   "x, d") "        f = operator.getitem(e, 1)\n"
            "        return (b, f)\n",
        tensors_of(COUNT(names), names, t));
    CHECK_OK();
    cfx_value x = cfx_tensor_value(cfx_randn(6));
    for (int mode = 0; mode < 3; mode++) {
        cfx_grad_mode before = cfx_set_grad_mode((cfx_grad_mode)mode);
        CHECK(agree(p, x));
        CHECK(agree(p, x));
        cfx_set_grad_mode(before);
    }
    CHECK_OK();
}

/* Planned for what lies at the beginning of a storage, run on what does not: PyTorch looks at where
 * a tensor lies before it sees it as wider numbers, also where nobody asks for them and there are
 * no elements. */
TEST(views_that_depend_on_the_place_in_a_storage_are_asked_for_in_every_run) {
    cfx_program *p = program_of(
        HEAD "x, y):\n" CALL("v", "view.dtype", "x, torch.float64") CALL("e", "exp.default", "y")
            CALL("c", "clone.default", "e") CALL("n", "neg.default", "x") "        return (c, n)\n",
        cfx_dict_new());
    cfx_tensor *x = cfx_randn(6);
    for (int n = 0; n < 4; n += 2) {
        for (int at = 0; at < 3; at += 2)
            cfx_program_run_with(CFX_HERE, p, &cfx_planner, NULL,
                                 CFX_ARGS(cfx_slice(x, 0, at, at + n), x));
        CHECK_OK();
        cfx_program_run_with(CFX_HERE, p, &cfx_planner, NULL,
                             CFX_ARGS(cfx_slice(x, 0, 1, 1 + n), x));
        CHECK_ERROR("self.storage_offset() must be divisible by 2 to view Float as Double "
                    "(different element sizes), but got 1");
    }
}
