/* Numbers that loops carry, and what branches give that are not alike: symbols of their own in
 * exported programs. The texts are torch.export's. */
#include <cfx/draw.h>
#include <cfx/watch.h>

#include "exported_test.h"

#define OP(name, ...) cfx_py("operator." name, __VA_ARGS__)

/* ---- numbers that are carried ---------------------------------------------------------------- */

static cfx_value below_five(cfx_module *self, cfx_args a) {
    (void)self;
    return OP("lt", a.v[0], 5);
}

static cfx_value count_up(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(OP("add", a.v[0], 1), cfx_add(a.v[1], a.v[0]));
}

static cfx_value counting(cfx_module *self, cfx_args a) {
    return cfx_while_loop(self, below_five, count_up, 0, a.v[0]);
}

TEST(export_a_loop_that_carries_a_number) {
    cfx_module *m = cfx_module_new("Count", counting, "x");
    cfx_tensor *x = cfx_ones(3, 4);
    cfx_program *p = EXPORT(m, x);
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, x):\n"
              "    while_loop_cond_graph_0 = self.while_loop_cond_graph_0\n"
              "    while_loop_body_graph_0 = self.while_loop_body_graph_0\n"
              "    while_loop = torch.ops.higher_order.while_loop(while_loop_cond_graph_0, "
              "while_loop_body_graph_0, (0, x), ());  while_loop_cond_graph_0 = "
              "while_loop_body_graph_0 = x = None\n"
              "    getitem_2 = while_loop[0]\n"
              "    getitem_1 = while_loop[1];  while_loop = None\n"
              "    return (getitem_2, getitem_1)\n    ");
    CHECK_STR(code_of(p, "while_loop_cond_graph_0"),
              "def forward(self, arg0_1, arg1_1):\n"
              "    lt = arg0_1 < 5;  arg0_1 = None\n"
              "    return lt\n    ");
    CHECK_STR(code_of(p, "while_loop_body_graph_0"),
              "def forward(self, arg0_1, arg1_1):\n"
              "    add = arg0_1 + 1\n"
              "    add_1 = torch.ops.aten.add.Tensor(arg1_1, arg0_1);  arg1_1 = arg0_1 = None\n"
              "    return (add, add_1)\n    ");
    const char *all = cfx_program_str(p);
    CHECK(strstr(all, "getitem_2: \"Sym(u1)\" = while_loop[0]"));
    CHECK(strstr(all, "lt: \"Sym(u0 < 5)\" = arg0_1 < 5"));
    CHECK(strstr(all, "add: \"Sym(u0 + 1)\" = arg0_1 + 1"));
    CHECK(strstr(all, "Range constraints: {u0: VR[-int_oo, int_oo], u1: VR[-int_oo, int_oo]}"));
    CHECK_STR(cfx_value_repr(cfx_at(cfx_program_run(p, x), 0)), "5");
    check_runs_as("control.fx", m, p, cfx_tuple(x));
    CHECK(!cfx_save(p, test_path("control.pt2")));
    CHECK_ERROR("node 'while_loop' has a list of mixed kinds as an argument, for which files have "
                "no form");
    test_folder_done();
}

TEST(bodies_that_carry_numbers_have_gradients_taps_and_drawings) {
    cfx_program *p = EXPORT(cfx_module_new("Count", counting, "x"), cfx_ones(3));
    if (!CHECK_OK())
        return;
    cfx_tensor *x = cfx_requires_grad(cfx_ones(3), true);
    cfx_interp it = {.module = p->module};
    cfx_value y = cfx_at(cfx_run(&it, x), 1);
    cfx_backward(cfx_sum(cfx_mul(y, y)));
    CHECK_STR(cfx_str(cfx_tensor_grad(x)), "tensor([22., 22., 22.])"); /* 2 * (1 + 10) */
    cfx_dict *seen = cfx_tap(p->module, "while_loop.*.add_1", cfx_ones(3));
    CHECK_INT(seen->len, 5);
    CHECK_STR(cfx_str(seen->entries[4].value), "tensor([11., 11., 11.])");
    CHECK(strstr(cfx_program_draw(p, (cfx_draw_options){0}), "while_loop_body_graph_0"));
    CHECK_OK();
}

static cfx_value below_size(cfx_module *self, cfx_args a) {
    (void)self;
    return OP("lt", a.v[0], cfx_size(cfx_as_tensor(a.v[1]), 0));
}

static cfx_value grow(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value twice = OP("mul", a.v[0], 2);
    return cfx_tuple(OP("add", twice, 1), cfx_mul(a.v[1], OP("add", a.v[0], 1)));
}

static cfx_value growing(cfx_module *self, cfx_args a) {
    cfx_value all = cfx_while_loop(self, below_size, grow, 0, a.v[0]), i = cfx_at(all, 0);
    return cfx_tuple(cfx_add(cfx_at(all, 1), i), OP("mul", i, 2));
}

TEST(export_computes_with_numbers_that_are_carried_at_sizes_that_vary) {
    cfx_module *m = cfx_module_new("Grow", growing, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(6, 4)), CFX_NONE, batch_of("x"));
    if (!CHECK_OK())
        return;
    const char *all = cfx_program_str(p);
    CHECK(strstr(all, "mul: \"Sym(2*u0)\" = arg0_1 * 2"));
    CHECK(strstr(all, "lt: \"Sym(u0 < s77)\" = arg0_1 < sym_size_int"));
    CHECK(strstr(all, "mul: \"Sym(2*u1)\" = getitem_2 * 2"));
    for (int n = 2; n < 12; n += 3)
        check_runs_as("control.fx", m, p, cfx_tuple(cfx_randn(n, 4)));
}

/* ---- numbers that nobody may decide by ------------------------------------------------------- */

static cfx_value compared_in_c(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_bool(cfx_as_int(a.v[0]) < 5);
}

static cfx_value decides_in_c(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *y = cfx_as_int(a.v[0]) == 0 ? cfx_add(a.v[1], 1) : cfx_mul(a.v[1], 2);
    return cfx_tuple(OP("add", a.v[0], 1), y);
}

static cfx_value mistaken(cfx_module *self, cfx_args a) {
    bool tested = *(bool *)self->user;
    return cfx_while_loop(self, tested ? compared_in_c : below_five,
                          tested ? count_up : decides_in_c, 0, a.v[0]);
}

TEST(export_refuses_to_decide_by_a_number_that_is_carried) {
    static const char *const sentences[] = {
        "Could not extract specialized integer from data-dependent expression u0 (unhinted: u0)",
        "Could not extract specialized integer from data-dependent expression u0 (unhinted: u0)"};
    for (int k = 0; k < 2; k++) {
        cfx_module *m = cfx_module_new("Mistaken", mistaken, "x");
        bool tested = k;
        m->user = &tested;
        CHECK(cfx_failed(EXPORT(m, cfx_ones(2, 2))));
        CHECK_ERROR(sentences[k]);
    }
}

/* ---- branches that are not alike ------------------------------------------------------------- */

static cfx_value two_rows(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(cfx_slice(a.v[0], 0, 0, 2), 1));
}

static cfx_value all_rows(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(a.v[0], 2));
}

static cfx_value rows(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), two_rows, all_rows, a.v[0]);
    return cfx_tuple(cfx_sin(y), cfx_size(cfx_as_tensor(y), 0));
}

TEST(export_branches_of_different_shapes) {
    cfx_module *m = cfx_module_new("Rows", rows, "x");
    cfx_tensor *x = cfx_ones(3, 4);
    cfx_program *p = EXPORT(m, x);
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, x):\n"
              "    sum_1 = torch.ops.aten.sum.default(x)\n"
              "    gt = torch.ops.aten.gt.Scalar(sum_1, 0);  sum_1 = None\n"
              "    true_graph_0 = self.true_graph_0\n"
              "    false_graph_0 = self.false_graph_0\n"
              "    cond = torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, (x,));  gt "
              "= true_graph_0 = false_graph_0 = x = None\n"
              "    getitem_1 = cond[0]\n"
              "    sym_size_int = torch.ops.aten.sym_size.int(getitem_1, 0);  getitem_1 = None\n"
              "    ge = sym_size_int >= 2\n"
              "    _assert_scalar_default = torch.ops.aten._assert_scalar.default(ge, \"Runtime "
              "assertion failed for expression u0 >= 2 on node 'ge'\");  ge = "
              "_assert_scalar_default = None\n"
              "    le = sym_size_int <= 3\n"
              "    _assert_scalar_default_1 = torch.ops.aten._assert_scalar.default(le, \"Runtime "
              "assertion failed for expression u0 <= 3 on node 'le'\");  le = "
              "_assert_scalar_default_1 = None\n"
              "    getitem = cond[0];  cond = None\n"
              "    sin = torch.ops.aten.sin.default(getitem);  getitem = None\n"
              "    return (sin, sym_size_int)\n    ");
    CHECK(strstr(cfx_program_str(p), "Range constraints: {u0: VR[2, 3]}"));
    for (int sign = -1; sign <= 1; sign += 2)
        check_runs(m, p, cfx_tuple(cfx_mul(x, sign)));
}

TEST(export_branches_that_are_alike_at_the_size_of_the_example) {
    cfx_module *m = cfx_module_new("Rows", rows, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(2, 4)), CFX_NONE, batch_of("x"));
    if (!CHECK_OK())
        return;
    CHECK(strstr(cfx_program_str(p), "sin: \"f32[u0, 4]\""));
    for (int n = 2; n < 8; n += 2)
        for (int sign = -1; sign <= 1; sign += 2)
            check_runs(m, p, cfx_tuple(cfx_mul(cfx_ones(n, 4), sign)));
}

static cfx_value and_three(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(cfx_add(a.v[0], 1), 3, 7);
}

static cfx_value and_four(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(cfx_mul(a.v[0], 2), 4, 7);
}

static cfx_value numbers(cfx_module *self, cfx_args a) {
    cfx_value v = cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), and_three, and_four, a.v[0]);
    return cfx_tuple(cfx_mul(cfx_at(v, 0), cfx_at(v, 1)), cfx_zeros(cfx_list(cfx_at(v, 1))),
                     cfx_at(v, 2));
}

TEST(export_branches_that_give_numbers) {
    cfx_module *m = cfx_module_new("Numbers", numbers, "x");
    cfx_tensor *x = cfx_ones(3, 4);
    cfx_program *p = EXPORT(m, x);
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, "true_graph_0"),
              "def forward(self, x):\n"
              "    add = torch.ops.aten.add.Tensor(x, 1);  x = None\n"
              "    return (add, 3, 7)\n    ");
    const char *all = cfx_program_str(p);
    CHECK(strstr(all, "getitem_2: \"Sym(u0)\" = cond[1]"));
    CHECK(strstr(all, "zeros: \"f32[u0]\" = torch.ops.aten.zeros.default([getitem_2]"));
    CHECK(strstr(all, "return (mul, zeros, 7)"));
    CHECK(strstr(all, "Range constraints: {u0: VR[3, 4]}"));
    for (int sign = -1; sign <= 1; sign += 2)
        check_runs(m, p, cfx_tuple(cfx_mul(x, sign)));
}

/* ---- branches that do not fit together ------------------------------------------------------- */

static cfx_value turned(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_t(cfx_add(a.v[0], 1)));
}

static cfx_value one_row(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_clone(cfx_select(a.v[0], 0, 0)));
}

static cfx_value cut(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_slice(cfx_add(a.v[0], 1), 1, 0, 2));
}

static cfx_value a_half(cfx_module *self, cfx_args a) {
    (void)self, (void)a;
    return cfx_float(0.5);
}

static cfx_forward_fn *const unlike[] = {turned, one_row, cut, a_half};

static cfx_value unfit(cfx_module *self, cfx_args a) {
    cfx_forward_fn *no = unlike[*(int *)self->user];
    return cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), all_rows, no, a.v[0]);
}

TEST(export_refuses_branches_that_do_not_fit_together) {
    static const char *const sentences[] = {
        ("The sorted order of strides of the two branches' output doesn't match.this indicates the "
         "contiguousness of the two branches are different. True branch has stride (4, 1) but "
         "false branch has stride (1, 4)."),
        "When merging two branches' output in torch.cond,  expected same dim but got 2 and 1.",
        ("It seems one of cond's output stride is not a simple accumulative multiplication of "
         "sizes."),
        "expected two tensors, two integers or None twice, but got Tensor and float"};
    for (int k = 0; k < 4; k++) {
        cfx_module *m = cfx_module_new("Unfit", unfit, "x");
        m->user = &k;
        CHECK(cfx_failed(EXPORT(m, cfx_ones(4, 4))));
        CHECK_ERROR(sentences[k]);
    }
}
