/* GraphModules as the root of a trace and of an export, and what concrete arguments keep. */
#include "test.h"

#include "trace.h"

static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_py("operator.mul", cfx_call(self, "fc", a.v[0]), a.v[1]);
    return cfx_py("operator.add", cfx_attr(self, "bias"),
                  cfx_py("operator.add", y, cfx_attr(self, "bias")));
}

static cfx_module *new_net(void) {
    cfx_module *m = cfx_module_new_n("Net", forward, "x : torch.Tensor, scale=2 -> torch.Tensor");
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 3));
    cfx_nn_parameter(m, "bias", cfx_ones(3));
    return m;
}

TEST(a_graph_module_is_the_root_of_a_trace) {
    cfx_module *gm = cfx_symbolic_trace(new_net()), *again = cfx_symbolic_trace(gm);
    CHECK_OK();
    CHECK_STR(cfx_module_code(again), cfx_module_code(gm));
    CHECK_STR(cfx_graph_str(again->graph), cfx_graph_str(gm->graph));
    CHECK_STR(again->type, "Net");
    cfx_tensor *x = cfx_randn(2, 4);
    CHECK(cfx_as_bool(cfx_equal(cfx_forward(again, x), cfx_forward(gm, x))));
    CHECK(cfx_as_bool(cfx_equal(cfx_forward(again, x, CFX_KW(scale, 3)), cfx_forward(gm, x, 3))));
}

static cfx_value starred(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value sum = cfx_py("operator.add", a.v[0], cfx_py("operator.getitem", a.v[1], 0));
    return cfx_py("operator.add", sum, cfx_py("operator.getitem", a.v[2], "scale"));
}

TEST(stars_of_a_graph_module_are_traced_as_they_are) {
    cfx_module *gm =
        cfx_symbolic_trace(cfx_module_new_n("Star", starred, "x, *args, **kwargs"));
    cfx_module *again = cfx_symbolic_trace(gm);
    CHECK_STR(cfx_module_code(again), cfx_module_code(gm));
    CHECK_INT(cfx_integer(cfx_forward_value(again, 1, 10, CFX_KW(scale, 100))), 111);
    CHECK_OK();
}

TEST(an_edited_graph_module_is_traced_as_it_is_now) {
    cfx_module *gm = cfx_symbolic_trace(new_net());
    cfx_node *out = cfx_graph_output_node(gm->graph);
    CFX_INSERT_BEFORE(gm->graph, out)
        cfx_node_set_args(out, cfx_tuple(cfx_relu(cfx_at(out->args, 0))));
    cfx_module *again = cfx_symbolic_trace(gm);
    CHECK(again->graph && cfx_graph_find(again->graph, "relu"));
    CHECK_STR(cfx_module_code(again), cfx_module_code(gm));
    CHECK_OK();
}

TEST(a_graph_module_is_exported_with_its_own_names) {
    cfx_module *m = new_net(), *gm = cfx_symbolic_trace(m);
    cfx_tensor *x = cfx_randn(2, 4);
    cfx_program *p = cfx_export(gm, cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK_STR(cfx_program_signature_str(p),
              "\n# inputs\np_bias: PARAMETER target='bias'\n"
              "p_fc_weight: PARAMETER target='fc.weight'\n"
              "p_fc_bias: PARAMETER target='fc.bias'\nx: USER_INPUT\n\n"
              "# outputs\nadd_1: USER_OUTPUT\n");
    CHECK(cfx_as_bool(cfx_allclose(cfx_as_tensor(cfx_program_run(p, x)), cfx_forward(m, x))));
    cfx_export(gm, cfx_tuple(x, 2, 3), CFX_NONE, CFX_NONE);
    CHECK_ERROR("forward() takes 3 positional arguments but 4 were given");
}

/* ---- concrete arguments ---------------------------------------------------------------------- */

static cfx_value pair(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("operator.add", cfx_at(a.v[0], 0), a.v[1]);
}

static cfx_module *traced_pair(void) {
    cfx_module *m = cfx_module_new_n("Pair", pair, "pair, y=2, z=None");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "pair", cfx_tuple(cfx_ellipsis(), cfx_ellipsis()));
    return cfx_graph_module(m, cfx_tracer_trace(&(cfx_tracer){.concrete_args = d}, m), "Pair");
}

TEST(concrete_arguments_keep_the_defaults_of_the_others) {
    cfx_module *gm = traced_pair();
    cfx_value both = cfx_tuple(5, 6);
    CHECK_STR(cfx_module_code(gm),
              "\n\n\ndef forward(self, pair, y = 2, z = None):\n"
              "    self, pair_1, pair_2, y, z, = fx_pytree.tree_flatten_spec([self, pair, y, z], "
              "self._in_spec)\n"
              "    add = pair_1 + y;  pair_1 = y = None\n"
              "    return pytree.tree_unflatten([add], self._out_spec)\n    ");
    CHECK_STR(cfx_repr(cfx_forward_value(gm, both)), "7");
    CHECK_STR(cfx_repr(cfx_forward_value(gm, both, CFX_KW(y, 3))), "8");
    CHECK_OK();
    cfx_graph *read = cfx_graph_parse(cfx_module_code(gm), "code");
    CHECK_STR(cfx_graph_code(read), cfx_module_code(gm));
    CHECK_STR(cfx_graph_str(read), cfx_graph_str(gm->graph));
}

TEST(nested_arguments_are_bound_as_python_does) {
    cfx_module *gm = traced_pair();
    cfx_forward_value(gm);
    CHECK_ERROR("forward() missing 1 required positional argument: 'pair'");
    cfx_forward_value(gm, cfx_tuple(5, 6), CFX_KW(q, 1));
    CHECK_ERROR("forward() got an unexpected keyword argument 'q'");
    cfx_forward_value(gm, cfx_tuple(5, 6), CFX_KW(pair, 1));
    CHECK_ERROR("forward() got multiple values for argument 'pair'");
    cfx_forward_value(gm, cfx_list(5, 6));
    CHECK_ERROR("Trying to flatten argument 'pair'");
}

TEST(placeholders_may_bring_metadata) {
    cfx_module *m = cfx_module_new_n("Pair", pair, "pair, y");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "pair", cfx_tuple(CFX_PH(ph_key, "first"), cfx_ellipsis()));
    cfx_graph *g = cfx_tracer_trace(&(cfx_tracer){.concrete_args = d}, m);
    CHECK_OK();
    CHECK_STR(cfx_str(cfx_node_get_meta(cfx_graph_find(g, "pair_1"), "ph_key")), "first");
    CHECK(cfx_is_none(cfx_node_get_meta(cfx_graph_find(g, "pair_2"), "ph_key")));
}

/* ---- mutation -------------------------------------------------------------------------------- */

static cfx_tensor *writes_by_name(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_add_(x, 1);
}

static cfx_value writes_out(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("torch.add", a.v[0], 1, CFX_KW(out, a.v[0]));
}

static cfx_tensor *writes_nothing(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_relu(cfx_add(x, 1));
}

TEST(a_tracer_refuses_mutation_where_it_is_told_to) {
    cfx_tracer strict = {.check_mutable_operations = true};
    cfx_module *by_name = cfx_module_new("M", writes_by_name, "x");
    cfx_tracer_trace(NULL, by_name);
    cfx_tracer_trace(&strict, cfx_module_new("M", writes_nothing, "x"));
    CHECK_OK();
    CHECK(cfx_failed(cfx_tracer_trace(&strict, by_name)));
    CHECK_ERROR("Tried to trace mutable operation aten::add_.Tensor(Tensor(a!) self, Tensor other, "
                "*, Scalar alpha=1) -> Tensor(a!). FX only supports functional code, so operations "
                "that mutate operands in-place (e.g. via `out` arguments) are not supported");
    cfx_tracer_trace(&strict, cfx_module_new_n("M", writes_out, "x"));
    CHECK_ERROR("Tried to trace mutable operation aten::add.out(");
}

/* ---- the rest of a tracer -------------------------------------------------------------------- */

static cfx_value sum_of(cfx_args a) {
    cfx_value both = a.kw ? cfx_dict_get(a.kw, "both") : a.v[0];
    return cfx_py("operator.add", cfx_at(both, 0), cfx_at(both, 1));
}

static cfx_value wraps(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value inside = cfx_wrap("sum_of", sum_of, cfx_list(a.v[0], 1));
    return cfx_wrap("sum_of", sum_of, CFX_KW(both, cfx_list(inside, 2)));
}

TEST(wrapped_functions_see_traced_values_inside_lists) {
    cfx_module *m = cfx_module_new_n("Wraps", wraps, "x");
    CHECK_STR(cfx_repr(cfx_forward_value(m, 4)), "7");
    cfx_module *gm = cfx_symbolic_trace(m);
    CHECK_STR(cfx_module_code(gm), "\ntorch.fx._symbolic_trace.wrap(\"sum_of\")\n\n"
                                   "def forward(self, x):\n"
                                   "    sum_of_1 = sum_of([x, 1]);  x = None\n"
                                   "    sum_of_2 = sum_of(both = [sum_of_1, 2]);  sum_of_1 = None\n"
                                   "    return sum_of_2\n    ");
    CHECK_STR(cfx_repr(cfx_forward_value(gm, 4)), "7");
    CHECK_OK();
}

static cfx_tensor *reads_twice(cfx_module *self, cfx_tensor *x) {
    return cfx_add(cfx_add(x, cfx_attr(self, "b")), cfx_attr(self, "b"));
}

TEST(buffers_have_one_node_where_the_tracer_says_so) {
    cfx_module *m = cfx_module_new("Buffers", reads_twice, "x");
    cfx_nn_buffer(m, "b", cfx_ones(2), true);
    cfx_graph *each = cfx_tracer_trace(NULL, m);
    cfx_graph *one = cfx_tracer_trace(&(cfx_tracer){.proxy_buffer_attributes = true}, m);
    CHECK_INT(cfx_as_list(cfx_graph_find_nodes(each, CFX_GET_ATTR, NULL))->len, 2);
    CHECK_INT(cfx_as_list(cfx_graph_find_nodes(one, CFX_GET_ATTR, NULL))->len, 1);
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "y", cfx_int(1));
    cfx_tracer_trace(&(cfx_tracer){.concrete_args = d}, m);
    CHECK_ERROR("concrete_args has 'y', which Buffers does not take");
}
