/* Control flow in programs: exported, decomposed, saved, opened again and run. The texts are
 * torch.export's. */
#include "exported_test.h"

/* ---- cond ------------------------------------------------------------------------------------ */

static cfx_value with_a(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_call(self, "a", a.v[0])));
}

static cfx_value with_b(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_sin(cfx_call(self, "b", a.v[0])));
}

static cfx_value choose(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), with_a, with_b, a.v[0]);
}

static cfx_module *chooser(void) {
    cfx_manual_seed(0);
    cfx_module *m = cfx_module_new("Cond", choose, "x");
    cfx_nn_add(m, "a", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "b", cfx_nn_linear(4, 4));
    return m;
}

TEST(export_cond_lifts_parameters_in_the_order_of_pytorch) {
    cfx_module *m = chooser();
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_program *p = EXPORT(m, x);
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, p_a_weight, p_a_bias, p_b_weight, p_b_bias, x):\n"
              "    sum_1 = torch.ops.aten.sum.default(x)\n"
              "    gt = torch.ops.aten.gt.Scalar(sum_1, 0);  sum_1 = None\n"
              "    true_graph_0 = self.true_graph_0\n"
              "    false_graph_0 = self.false_graph_0\n"
              "    cond = torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, (x, "
              "p_a_bias, p_a_weight, p_b_bias, p_b_weight));  gt = true_graph_0 = false_graph_0 = "
              "x = p_a_bias = p_a_weight = p_b_bias = p_b_weight = None\n"
              "    getitem = cond[0];  cond = None\n"
              "    return (getitem,)\n    ");
    CHECK_STR(code_of(p, "true_graph_0"),
              "def forward(self, x, p_a_bias, p_a_weight, p_b_bias, p_b_weight):\n"
              "    linear = torch.ops.aten.linear.default(x, p_a_weight, p_a_bias);  x = "
              "p_a_weight = p_a_bias = None\n"
              "    relu = torch.ops.aten.relu.default(linear);  linear = None\n"
              "    return (relu,)\n    ");
    CHECK_STR(cfx_program_signature_str(p),
              "\n# inputs\np_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER "
              "target='a.bias'\np_b_weight: PARAMETER target='b.weight'\np_b_bias: PARAMETER "
              "target='b.bias'\nx: USER_INPUT\n\n# outputs\ngetitem: USER_OUTPUT\n");
    CHECK_STR(code_of(cfx_decompose(p, CFX_NONE), "false_graph_0"),
              "def forward(self, x, p_a_bias, p_a_weight, p_b_bias, p_b_weight):\n"
              "    permute = torch.ops.aten.permute.default(p_b_weight, [1, 0]);  p_b_weight = "
              "None\n"
              "    addmm = torch.ops.aten.addmm.default(p_b_bias, x, permute);  p_b_bias = x = "
              "permute = None\n"
              "    sin = torch.ops.aten.sin.default(addmm);  addmm = None\n"
              "    return (sin,)\n    ");
    for (int sign = -1; sign <= 1; sign += 2)
        check_runs(m, p, cfx_tuple(cfx_mul(cfx_abs(x), sign)));
}

TEST(export_cond_at_sizes_that_vary) {
    cfx_module *m = chooser();
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(6, 4)), CFX_NONE, batch_of("x"));
    if (!CHECK_OK())
        return;
    cfx_module *yes = cfx_module_find(p->module, "true_graph_0");
    CHECK_STR(cfx_value_repr(cfx_dict_get(
                  cfx_as_dict(cfx_node_get_meta(cfx_graph_find(yes->graph, "relu"), "val")),
                  "shape")),
              "(s77, 4)");
    for (int n = 2; n < 9; n += 3)
        check_runs(m, p, cfx_tuple(cfx_randn(n, 4)));
}

/* ---- what branches use ----------------------------------------------------------------------- */

static cfx_value plus_outer(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_add(a.v[0], *(cfx_value *)self->user));
}

static cfx_value difference(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_sub(cfx_mul(a.v[0], 3), a.v[1]));
}

static cfx_value sum_of_both(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(a.v[0], a.v[1]));
}

static cfx_value choose_of_one(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), difference, sum_of_both, a.v[0], a.v[0]);
}

TEST(export_cond_of_one_tensor_twice) {
    cfx_program *p = EXPORT(cfx_module_new("Twice", choose_of_one, "x"), cfx_ones(2));
    if (!CHECK_OK())
        return;
    const cfx_graph *yes = cfx_module_find(p->module, "true_graph_0")->graph;
    CHECK(cfx_graph_find(yes, "x") && cfx_graph_find(yes, "x_1"));
    CHECK_STR(cfx_str(cfx_program_run(p, cfx_ones(2))), "tensor([2., 2.])");
    CHECK_STR(cfx_str(cfx_program_run(p, cfx_neg(cfx_ones(2)))), "tensor([-2., -2.])");
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK_STR(cfx_str(cfx_program_run(core, cfx_ones(2))), "tensor([2., 2.])");
}

static cfx_value times_weight(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_mul(a.v[0], cfx_attr(self, "weight")));
}

static cfx_value inner_choice(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_lt(cfx_mean(a.v[0]), 5), times_weight, plus_outer, a.v[0]);
}

static cfx_value plus_constant(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(a.v[0], cfx_tensor_from_value(cfx_list(1.0, 2.0))));
}

static cfx_value nesting(cfx_module *self, cfx_args a) {
    cfx_value twice = cfx_tensor_value(cfx_mul(a.v[0], 2));
    self->user = &twice;
    cfx_value y = cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), inner_choice, plus_constant, a.v[0]);
    return cfx_cond(self, cfx_gt(cfx_sum(y), 0), times_weight, plus_outer, y);
}

TEST(export_branches_inside_branches) {
    cfx_module *m = cfx_module_new("Nested", nesting, "x");
    cfx_nn_parameter(m, "weight", cfx_tensor_from_value(cfx_list(3.0, 4.0)));
    cfx_program *p = EXPORT(m, cfx_ones(2));
    if (!CHECK_OK())
        return;
    CHECK_STR(cfx_node_format(cfx_graph_find(p->module->graph, "cond")),
              "%cond : [num_users=1] = call_function[target=torch.ops.higher_order.cond](args = "
              "(%gt, %true_graph_0, %false_graph_0, (%x, %p_weight, %mul, %detach_)), "
              "kwargs = {})");
    CHECK_STR(cfx_node_format(cfx_graph_find(p->module->graph, "cond_1")),
              "%cond_1 : [num_users=1] = call_function[target=torch.ops.higher_order.cond](args = "
              "(%gt_1, %true_graph_1, %false_graph_1, (%getitem, %p_weight, %mul)), kwargs = {})");
    CHECK_STR(code_of(p, "true_graph_0.true_graph_0"),
              "def forward(self, x, p_weight, mul):\n"
              "    mul_1 = torch.ops.aten.mul.Tensor(x, p_weight);  x = p_weight = None\n"
              "    return (mul_1,)\n    ");
    check_runs(m, p, cfx_tuple(cfx_ones(2)));
    check_runs(m, p, cfx_tuple(cfx_full(cfx_list(2), 6.0)));
    check_runs(m, p, cfx_tuple(cfx_neg(cfx_ones(2))));
}

/* ---- what bodies must not do ----------------------------------------------------------------- */

static cfx_value writes(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_clone(cfx_add_(cfx_as_tensor(a.v[0]), 1)));
}

static cfx_value turns(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_t(a.v[0]));
}

static cfx_value halves(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_to(a.v[0], cfx_f16));
}

static cfx_value doubles(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(a.v[0], 2));
}

static cfx_forward_fn *const wrong[] = {writes, turns, halves};

static cfx_value mistaken(cfx_module *self, cfx_args a) {
    int k = *(int *)self->user;
    return cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), doubles, wrong[k], a.v[0]);
}

TEST(export_refuses_bodies_that_write_to_inputs_or_return_them) {
    static const char *const sentences[] = {
        "Encountered input mutation during higher order op tracing: add_ in a body of cond; write "
        "to a clone of it",
        "Encountered aliasing during higher order op tracing: t in a body of cond; return a clone "
        "of it",
        "When merging two branches' output in torch.cond,  expected same dtype but got "
        "torch.float32 and torch.float16."};
    for (int k = 0; k < 3; k++) {
        cfx_module *m = cfx_module_new("Mistaken", mistaken, "x");
        m->user = &k;
        CHECK(cfx_failed(EXPORT(m, cfx_ones(2, 2))));
        CHECK_ERROR(sentences[k]);
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

static cfx_value below_limit(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_lt(a.v[0], cfx_attr(self, "limit")));
}

static cfx_value next_state(cfx_module *self, cfx_args a) {
    return cfx_tuple(cfx_add(a.v[0], 1), cfx_tanh(cfx_call(self, "l", a.v[1])));
}

static cfx_value looping(cfx_module *self, cfx_args a) {
    return cfx_while_loop(self, below_limit, next_state, a.v[1], a.v[0]);
}

TEST(export_while_loop) {
    cfx_module *m = cfx_module_new("Loop", looping, "x, n");
    cfx_nn_add(m, "l", cfx_nn_linear(4, 4));
    cfx_nn_buffer(m, "limit", cfx_tensor_from_value(cfx_int(3)), true);
    cfx_tensor *x = cfx_randn(2, 4), *n = cfx_tensor_from_value(cfx_int(0));
    cfx_program *p = EXPORT(m, x, n);
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, p_l_weight, p_l_bias, b_limit, x, n):\n"
              "    while_loop_cond_graph_0 = self.while_loop_cond_graph_0\n"
              "    while_loop_body_graph_0 = self.while_loop_body_graph_0\n"
              "    while_loop = torch.ops.higher_order.while_loop(while_loop_cond_graph_0, "
              "while_loop_body_graph_0, (n, x), (b_limit, p_l_bias, p_l_weight));  "
              "while_loop_cond_graph_0 = while_loop_body_graph_0 = n = x = b_limit = p_l_bias = "
              "p_l_weight = None\n"
              "    getitem = while_loop[0]\n"
              "    getitem_1 = while_loop[1];  while_loop = None\n"
              "    return (getitem, getitem_1)\n    ");
    CHECK_STR(code_of(p, "while_loop_cond_graph_0"),
              "def forward(self, arg0_1, arg1_1, arg2_1, arg3_1, arg4_1):\n"
              "    lt = torch.ops.aten.lt.Tensor(arg0_1, arg2_1);  arg0_1 = arg2_1 = None\n"
              "    return lt\n    ");
    CHECK_STR(code_of(p, "while_loop_body_graph_0"),
              "def forward(self, arg0_1, arg1_1, arg2_1, arg3_1, arg4_1):\n"
              "    add = torch.ops.aten.add.Tensor(arg0_1, 1);  arg0_1 = None\n"
              "    linear = torch.ops.aten.linear.default(arg1_1, arg4_1, arg3_1);  arg1_1 = "
              "arg4_1 = arg3_1 = None\n"
              "    tanh = torch.ops.aten.tanh.default(linear);  linear = None\n"
              "    return (add, tanh)\n    ");
    check_runs(m, p, cfx_tuple(x, n));
    EXPORT(m, x, 0.5);
    CHECK_ERROR("Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only "
                "consists of tensor or int leaves, but got 0.5.");
}

static cfx_value scale_row(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_mul(cfx_mul(a.v[0], a.v[1]), cfx_attr(self, "weight")));
}

static cfx_value mapping(cfx_module *self, cfx_args a) {
    return cfx_map(self, scale_row, a.v[0], a.v[1]);
}

TEST(export_map_at_sizes_that_vary) {
    cfx_module *m = cfx_module_new("Map", mapping, "xs, y");
    cfx_nn_parameter(m, "weight", cfx_randn(4));
    cfx_tensor *y = cfx_randn(4);
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(5, 4), y), CFX_NONE, batch_of("xs"));
    if (!CHECK_OK())
        return;
    CHECK_STR(cfx_node_format(cfx_graph_find(p->module->graph, "map_impl")),
              "%map_impl : [num_users=1] = call_function[target=torch.ops.higher_order.map_impl]"
              "(args = (%body_graph_0, [%xs], [%y, %p_weight]), kwargs = {})");
    CHECK_STR(code_of(p, "body_graph_0"),
              "def forward(self, xs, y, p_weight):\n"
              "    mul = torch.ops.aten.mul.Tensor(xs, y);  xs = y = None\n"
              "    mul_1 = torch.ops.aten.mul.Tensor(mul, p_weight);  mul = p_weight = None\n"
              "    return (mul_1,)\n    ");
    check_runs(m, p, cfx_tuple(cfx_randn(5, 4), y));
    check_runs(m, p, cfx_tuple(cfx_randn(3, 4), y));
}

static cfx_value share_row(cfx_module *self, cfx_args a) {
    cfx_tensor *y = *(cfx_tensor **)self->user;
    return cfx_tensor_value(cfx_mul(a.v[0], cfx_dim(y, 0)));
}

static cfx_value sharing(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_as_tensor(a.v[1]);
    self->user = &y;
    return cfx_map(self, share_row, a.v[0]);
}

/* The body has only rows of xs, and no tensor with the size of y. */
TEST(export_gives_bodies_the_sizes_that_they_use) {
    cfx_module *m = cfx_module_new("Share", sharing, "xs, y");
    cfx_program *p =
        cfx_export(m, cfx_tuple(cfx_randn(3, 4), cfx_randn(5)), CFX_NONE, batch_of("y"));
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, xs, y):\n"
              "    sym_size_int = torch.ops.aten.sym_size.int(y, 0);  y = None\n"
              "    body_graph_0 = self.body_graph_0\n"
              "    map_impl = torch.ops.higher_order.map_impl(body_graph_0, [xs], [sym_size_int]); "
              " body_graph_0 = xs = sym_size_int = None\n"
              "    getitem = map_impl[0];  map_impl = None\n"
              "    return (getitem,)\n    ");
    CHECK_STR(code_of(p, "body_graph_0"),
              "def forward(self, xs, sym_size_int):\n"
              "    mul = torch.ops.aten.mul.Tensor(xs, sym_size_int);  xs = sym_size_int = None\n"
              "    return (mul,)\n    ");
    for (int n = 2; n < 7; n += 2)
        check_runs(m, p, cfx_tuple(cfx_randn(3, 4), cfx_randn(n)));
}

/* ---- scans ----------------------------------------------------------------------------------- */

static cfx_value step(cfx_module *self, cfx_args a) {
    cfx_tensor *h = cfx_tanh(cfx_add(cfx_call(self, "l", a.v[1]), a.v[0]));
    return cfx_tuple(h, cfx_mul(h, 2));
}

static cfx_value scanning(cfx_module *self, cfx_args a) {
    return cfx_scan(self, step, a.v[1], a.v[0], .dim = 1, .reverse = true);
}

TEST(export_scan) {
    cfx_module *m = cfx_module_new("Scan", scanning, "xs, h");
    cfx_nn_add(m, "l", cfx_nn_linear(3, 4));
    cfx_tensor *xs = cfx_randn(2, 5, 3), *h = cfx_randn(2, 4);
    cfx_program *p = EXPORT(m, xs, h);
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, p_l_weight, p_l_bias, xs, h):\n"
              "    movedim = torch.ops.aten.movedim.int(xs, 1, 0);  xs = None\n"
              "    flip = torch.ops.aten.flip.default(movedim, [0]);  movedim = None\n"
              "    scan_combine_graph_0 = self.scan_combine_graph_0\n"
              "    scan = torch.ops.higher_order.scan(scan_combine_graph_0, [h], [flip], "
              "(p_l_weight, p_l_bias));  scan_combine_graph_0 = h = flip = p_l_weight = p_l_bias = "
              "None\n"
              "    getitem = scan[0]\n"
              "    getitem_1 = scan[1];  scan = None\n"
              "    flip_1 = torch.ops.aten.flip.default(getitem_1, [0]);  getitem_1 = None\n"
              "    return (getitem, flip_1)\n    ");
    check_runs(m, p, cfx_tuple(xs, h));
}

static cfx_value bytes_step(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *bytes = cfx_view(cfx_contiguous(a.v[1]), cfx_u8);
    return cfx_tuple(cfx_add(a.v[0], cfx_sum(bytes)), cfx_mul(a.v[1], 2));
}

static cfx_value scanning_bytes(cfx_module *self, cfx_args a) {
    return cfx_scan(self, bytes_step, a.v[1], a.v[0]);
}

/* Rows are packed where the body is captured, and contiguous() is none of its nodes. So they are
 * when it runs, however the whole lies. */
TEST(rows_of_a_scan_are_packed) {
    cfx_module *m = cfx_module_new("Scan", scanning_bytes, "xs, h");
    cfx_tensor *xs = cfx_t(cfx_reshape(cfx_arange(6), cfx_list(3, 2)));
    cfx_tensor *h = cfx_zeros(cfx_list(), CFX_KW(dtype, cfx_i64));
    cfx_program *p = EXPORT(m, xs, h);
    if (!CHECK_OK())
        return;
    CHECK_STR(cfx_str(cfx_program_run(p, xs, h)),
              "(tensor(15), tensor([[ 0,  4,  8],\n        [ 2,  6, 10]]))");
    CHECK_OK();
}

static cfx_value add_two(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(a.v[0], a.v[1]));
}

static cfx_value summing(cfx_module *self, cfx_args a) {
    return cfx_associative_scan(self, add_two, a.v[0]);
}

TEST(export_associative_scan) {
    cfx_module *m = cfx_module_new("Sum", summing, "xs");
    cfx_tensor *xs = cfx_randn(5, 4);
    CHECK(cfx_is_true(cfx_allclose(cfx_forward(m, xs), cfx_cumsum(xs, 0), 1e-4, 1e-6)));
    cfx_program *p = EXPORT(m, xs);
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, xs):\n"
              "    associative_scan_combine_graph_0 = self.associative_scan_combine_graph_0\n"
              "    associative_scan = torch.ops.higher_order.associative_scan("
              "associative_scan_combine_graph_0, [xs], ());  associative_scan_combine_graph_0 = xs "
              "= None\n"
              "    getitem = associative_scan[0];  associative_scan = None\n"
              "    return (getitem,)\n    ");
    check_runs(m, p, cfx_tuple(xs));
}

/* ---- gradients ------------------------------------------------------------------------------- */

static cfx_tensor *leaf(cfx_tensor *t) { return cfx_requires_grad(t, true); }

/* The graph of p on its inputs, and backward from the sum of squares of its first result. */
static void differentiate(cfx_program *p, cfx_args a) {
    cfx_interp it = {.module = p->module};
    cfx_value y = cfx_at(cfx_run_from(CFX_HERE, &it, a), 0);
    cfx_backward(cfx_sum(cfx_mul(y, y)));
    CHECK_OK();
}

static bool is_zero(const cfx_tensor *t) {
    cfx_tensor *g = cfx_tensor_grad(t);
    return CHECK(g != NULL) && cfx_is_true(cfx_all(cfx_eq(g, 0)));
}

TEST(operands_of_a_branch_that_is_not_taken_get_gradients_of_zero) {
    cfx_program *p = EXPORT(chooser(), cfx_ones(3, 4));
    cfx_tensor *in[] = {leaf(cfx_ones(4, 4)), leaf(cfx_ones(4)), leaf(cfx_ones(4, 4)),
                        leaf(cfx_ones(4)), leaf(cfx_ones(3, 4))};
    if (!CHECK_OK())
        return;
    differentiate(p, CFX_ARGS(in[0], in[1], in[2], in[3], in[4]));
    for (int i = 0; i < 5; i++)
        CHECK_INT(is_zero(in[i]), i == 2 || i == 3);
}

TEST(loops_and_scans_have_gradients) {
    cfx_module *m = cfx_module_new("Sum", summing, "xs");
    cfx_program *p = EXPORT(m, cfx_ones(3, 2));
    cfx_tensor *x = leaf(cfx_ones(3, 2));
    differentiate(p, CFX_ARGS(x)); /* sums 1, 2, 3: 2 * (1 + 2 + 3), 2 * (2 + 3), 2 * 3 */
    CHECK_STR(cfx_str(cfx_tensor_grad(x)),
              "tensor([[12., 12.],\n        [10., 10.],\n        [ 6.,  6.]])");
    m = cfx_module_new("Map", mapping, "xs, y");
    cfx_nn_parameter(m, "weight", cfx_ones(2));
    p = EXPORT(m, cfx_ones(3, 2), cfx_ones(2));
    cfx_tensor *w = leaf(cfx_ones(2)), *xs = leaf(cfx_ones(3, 2)), *y = leaf(cfx_ones(2));
    differentiate(p, CFX_ARGS(w, xs, y));
    CHECK_STR(cfx_str(cfx_tensor_grad(w)), "tensor([6., 6.])");
    CHECK_STR(cfx_str(cfx_tensor_grad(y)), "tensor([6., 6.])");
}
