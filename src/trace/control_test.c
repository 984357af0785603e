/* Control flow: branches run, and while tracing become graphs of their own. */
#include "test.h"

#include "trace.h"

static cfx_tensor *of(double a, double b) {
    return cfx_tensor_from_value(cfx_list(a, b));
}

/* ---- cond ------------------------------------------------------------------------------------ */

static cfx_value with_a(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_call(self, "a", a.v[0])));
}

static cfx_value with_b(cfx_module *self, cfx_args a) {
    return cfx_method(cfx_call(self, "b", a.v[0]), "sin");
}

static cfx_value choose(cfx_module *self, cfx_args a) {
    cfx_value pred = cfx_py("operator.gt", cfx_method(a.v[0], "sum"), 0);
    return cfx_cond(self, pred, with_a, with_b, a.v[0]);
}

static cfx_module *new_chooser(void) {
    cfx_module *m = cfx_module_new("Cond", choose, "x");
    cfx_nn_add(m, "a", cfx_nn_linear(2, 2));
    cfx_nn_add(m, "b", cfx_nn_linear(2, 2));
    return m;
}

TEST(cond_runs_the_branch_that_is_taken) {
    cfx_module *m = new_chooser();
    cfx_tensor *up = of(1, 2), *down = of(-1, -2);
    CHECK_STR(cfx_str(cfx_forward(m, up)), cfx_str(cfx_relu(cfx_call(m, "a", up))));
    CHECK_STR(cfx_str(cfx_forward(m, down)), cfx_str(cfx_sin(cfx_call(m, "b", down))));
    CHECK_STR(cfx_str(cfx_cond(m, true, with_a, with_b, up)),
              cfx_str(cfx_relu(cfx_call(m, "a", up))));
    CHECK_OK();
    cfx_cond(m, "x", with_a, with_b, up);
    CHECK_ERROR("Expected pred to be bool or single-element tensor, but got 'x'.");
}

TEST(cond_is_traced_as_a_node_with_two_graphs) {
    cfx_graph *g = cfx_tracer_trace(NULL, new_chooser());
    CHECK_OK();
    CHECK_STR(cfx_graph_str(g),
              "graph():\n"
              "    %x : [num_users=2] = placeholder[target=x]\n"
              "    %sum_1 : [num_users=1] = call_method[target=sum](args = (%x,), kwargs = {})\n"
              "    %gt : [num_users=1] = call_function[target=operator.gt](args = (%sum_1, 0), "
              "kwargs = {})\n"
              "    %true_graph_0 : [num_users=1] = get_attr[target=true_graph_0]\n"
              "    %false_graph_0 : [num_users=1] = get_attr[target=false_graph_0]\n"
              "    %cond : [num_users=1] = call_function[target=torch.ops.higher_order.cond](args "
              "= (%gt, %true_graph_0, %false_graph_0, (%x,)), kwargs = {})\n"
              "    %getitem : [num_users=1] = call_function[target=operator.getitem](args = "
              "(%cond, 0), kwargs = {})\n"
              "    return getitem");
    CHECK_STR(cfx_graph_str(cfx__graph_subgraph(g, "true_graph_0")),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %a : [num_users=1] = call_module[target=a](args = (%x,), kwargs = {})\n"
              "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%a,), kwargs = "
              "{})\n"
              "    return (relu,)");
}

/* ---- what branches use of the forward around them -------------------------------------------- */

static cfx_value plus_outer(cfx_module *self, cfx_args a) {
    return cfx_py("operator.add", a.v[0], *(cfx_value *)self->user);
}

static cfx_value times_weight(cfx_module *self, cfx_args a) {
    return cfx_py("operator.mul", a.v[0], cfx_attr(self, "weight"));
}

static cfx_value inner_choice(cfx_module *self, cfx_args a) {
    cfx_value pred = cfx_py("operator.lt", cfx_method(a.v[0], "sum"), 5);
    return cfx_cond(self, pred, times_weight, plus_outer, a.v[0]);
}

static cfx_value capturing(cfx_module *self, cfx_args a) {
    cfx_value twice = cfx_py("operator.mul", a.v[0], 2);
    self->user = &twice;
    cfx_value pred = cfx_py("operator.gt", cfx_method(a.v[0], "sum"), 0);
    return cfx_cond(self, pred, times_weight, inner_choice, a.v[0]);
}

TEST(what_a_branch_uses_of_outside_becomes_an_operand) {
    cfx_module *m = cfx_module_new("Capturing", capturing, "x");
    cfx_nn_parameter(m, "weight", of(3, 4));
    cfx_graph *g = cfx_tracer_trace(NULL, m);
    CHECK_OK();
    CHECK_STR(cfx_node_format(cfx_graph_find(g, "cond")),
              "%cond : [num_users=1] = call_function[target=torch.ops.higher_order.cond](args = "
              "(%gt, %true_graph_0, %false_graph_0, (%x, %mul)), kwargs = {})");
    CHECK_STR(cfx_graph_str(cfx__graph_subgraph(g, "true_graph_0")),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %mul : [num_users=0] = placeholder[target=mul]\n"
              "    %weight : [num_users=1] = get_attr[target=weight]\n"
              "    %mul_1 : [num_users=1] = call_function[target=operator.mul](args = (%x, "
              "%weight), kwargs = {})\n"
              "    return (mul_1,)");
    cfx_graph *inner = cfx__graph_subgraph(g, "false_graph_0");
    CHECK_STR(cfx_node_format(cfx_graph_find(inner, "cond")),
              "%cond : [num_users=1] = call_function[target=torch.ops.higher_order.cond](args = "
              "(%lt, %true_graph_0, %false_graph_0, (%x, %mul)), kwargs = {})");
    CHECK(cfx_graph_lint(g, NULL) && cfx_graph_lint(inner, NULL));
    cfx_graph *copy = cfx_graph_copy(g);
    CHECK(cfx__graph_subgraph(copy, "false_graph_0") != inner);
}

/* ---- branches that do not fit ---------------------------------------------------------------- */

static cfx_value two_of(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(a.v[0], a.v[0]);
}

static cfx_value unmatched(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_method(a.v[0], "any"), two_of, times_weight, a.v[0]);
}

TEST(branches_must_return_the_same_shape) {
    cfx_module *m = cfx_module_new("Unmatched", unmatched, "x");
    cfx_nn_parameter(m, "weight", of(3, 4));
    CHECK(cfx_failed(cfx_tracer_trace(NULL, m)));
    CHECK_ERROR("Unmatched output spec from torch.cond branches: true branch tree_spec");
}

/* ---- while_loop ------------------------------------------------------------------------------ */

static cfx_value below_five(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("operator.lt", a.v[0], 5);
}

static cfx_value grow(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = cfx_py("operator.mul", a.v[1], 1.5);
    return cfx_tuple(cfx_py("operator.add", a.v[0], 1), x);
}

static cfx_value loop(cfx_module *self, cfx_args a) {
    return cfx_while_loop(self, below_five, grow, a.v[1], a.v[0]);
}

TEST(while_loop_runs_and_is_traced) {
    cfx_value n = cfx_tensor_value(cfx_tensor_from_value(cfx_int(3)));
    cfx_module *m = cfx_module_new("Loop", loop, "x, n");
    CHECK_STR(cfx_repr(cfx_forward_value(m, of(1, 2), n)),
              "(tensor(5), tensor([2.2500, 4.5000]))");
    cfx_graph *g = cfx_tracer_trace(NULL, m);
    CHECK_OK();
    CHECK_STR(cfx_graph_str(g),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %n : [num_users=1] = placeholder[target=n]\n"
              "    %while_loop_cond_graph_0 : [num_users=1] = "
              "get_attr[target=while_loop_cond_graph_0]\n"
              "    %while_loop_body_graph_0 : [num_users=1] = "
              "get_attr[target=while_loop_body_graph_0]\n"
              "    %while_loop : [num_users=2] = "
              "call_function[target=torch.ops.higher_order.while_loop](args = "
              "(%while_loop_cond_graph_0, %while_loop_body_graph_0, (%n, %x), ()), kwargs = {})\n"
              "    %getitem : [num_users=1] = call_function[target=operator.getitem](args = "
              "(%while_loop, 0), kwargs = {})\n"
              "    %getitem_1 : [num_users=1] = call_function[target=operator.getitem](args = "
              "(%while_loop, 1), kwargs = {})\n"
              "    return (getitem, getitem_1)");
    CHECK_STR(cfx_graph_str(cfx__graph_subgraph(g, "while_loop_cond_graph_0")),
              "graph():\n"
              "    %arg0_1 : [num_users=1] = placeholder[target=arg0_1]\n"
              "    %arg1_1 : [num_users=0] = placeholder[target=arg1_1]\n"
              "    %lt : [num_users=1] = call_function[target=operator.lt](args = (%arg0_1, 5), "
              "kwargs = {})\n"
              "    return lt");
}

static cfx_value forgets(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("operator.add", a.v[0], 1);
}

TEST(a_loop_carries_as_many_values_as_it_was_given) {
    cfx_while_loop(NULL, below_five, forgets, cfx_tensor_from_value(cfx_int(3)), of(1, 2));
    CHECK_ERROR("body_fn should return the same number of elements as carried_inputs, got 1 vs 2");
}

/* ---- map ------------------------------------------------------------------------------------- */

static cfx_value add_to_row(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("operator.add", a.v[0], a.v[1]);
}

static cfx_value mapping(cfx_module *self, cfx_args a) {
    return cfx_map(self, add_to_row, a.v[0], a.v[1]);
}

TEST(map_runs_and_is_traced) {
    cfx_module *m = cfx_module_new("Map", mapping, "xs, y");
    cfx_tensor *xs = cfx_tensor_from_value(cfx_list(cfx_list(1.0, 2.0), cfx_list(3.0, 4.0)));
    CHECK_STR(cfx_str(cfx_forward(m, xs, of(10, 20))),
              "tensor([[11., 22.],\n        [13., 24.]])");
    cfx_graph *g = cfx_tracer_trace(NULL, m);
    CHECK_STR(cfx_node_format(cfx_graph_find(g, "map_impl")),
              "%map_impl : [num_users=1] = call_function[target=torch.ops.higher_order.map_impl]"
              "(args = (%body_graph_0, [%xs], [%y]), kwargs = {})");
    CHECK_OK();
    cfx_map(NULL, add_to_row, cfx_tensor_from_value(cfx_float(1)), 1);
    CHECK_ERROR("Leading dimensions of mapped xs cannot be 0");
}

/* ---- torch.fx's way in ----------------------------------------------------------------------- */

#define OP(name, ...) cfx_py("operator." name, __VA_ARGS__)

static cfx_value halved(cfx_module *self, cfx_args a) {
    return OP("truediv", cfx_call(self, "linear", a.v[0]), 2);
}

static cfx_value negated(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_method(a.v[0], "neg");
}

static cfx_value chooses(cfx_module *self, cfx_args a) {
    cfx_value pred = OP("gt", cfx_method(a.v[0], "sum"), 0);
    cfx_value y = cfx_cond(self, pred, halved, negated, a.v[0]);
    return OP("add", y, 1);
}

TEST(control_flow_is_traced_shown_and_run) {
    cfx_module *m = cfx_module_new_n("Chooses", chooses, "x");
    cfx_nn_add(m, "linear", cfx_nn_linear(3, 3));
    cfx_module *gm = cfx_symbolic_trace(m);
    if (!CHECK_OK() || !CHECK(gm != NULL))
        return;
    CHECK_STR(cfx_module_readable(gm, (cfx_readable_options){0}),
              "class Chooses(torch.nn.Module):\n"
              "    def forward(self, x):\n"
              "        # No stacktrace found for following nodes\n"
              "        sum_1 = x.sum()\n"
              "        gt = sum_1 > 0;  sum_1 = None\n"
              "        true_graph_0 = self.true_graph_0\n"
              "        false_graph_0 = self.false_graph_0\n"
              "        cond = torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, (x,));  "
              "gt = true_graph_0 = false_graph_0 = x = None\n"
              "        getitem = cond[0];  cond = None\n"
              "        add = getitem + 1;  getitem = None\n"
              "        return add\n\n"
              "    class true_graph_0(torch.nn.Module):\n"
              "        def forward(self, x):\n"
              "            # No stacktrace found for following nodes\n"
              "            linear = self.linear(x);  x = None\n"
              "            truediv = linear / 2;  linear = None\n"
              "            return (truediv,)\n\n"
              "    class false_graph_0(torch.nn.Module):\n"
              "        def forward(self, x):\n"
              "            # No stacktrace found for following nodes\n"
              "            neg = x.neg();  x = None\n"
              "            return (neg,)\n");
    CHECK(cfx_graph_lint(gm->graph, gm));
    CHECK_INT(cfx_graph_eliminate_dead_code(gm->graph), 0);
    cfx_module *back = cfx_module_parse(cfx_module_readable(gm, (cfx_readable_options){0}), "fx");
    CHECK(back && cfx_graph_equal(back->graph, gm->graph));
    cfx_interp it = {.module = gm};
    cfx_module *same = cfx_transform(&it);
    for (double sign = -1; sign <= 1; sign += 2) {
        cfx_tensor *x = cfx_full(cfx_list(2, 3), sign), *want = cfx_forward(m, x);
        CHECK_STR(cfx_str(cfx_forward(gm, x)), cfx_str(want));
        CHECK_STR(cfx_str(cfx_forward(same, x)), cfx_str(want));
    }
    CHECK_OK();
    CHECK_INT(cfx_module_count(m), 1); /* the traced module is left as it was */
}
