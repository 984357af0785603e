/* Modules of programs: their trees go with the graph through every tool, and inputs are checked. */
#include "test.h"

#include "run.h"

static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_tensor *sum = cfx_add(cfx_at(a.v[0], 0), cfx_at(a.v[0], 1));
    cfx_tensor *y = cfx_call(self, "fc", sum);
    cfx_dict *out = cfx_dict_new();
    cfx_dict_set(out, "y", cfx_tensor_value(cfx_relu(y)));
    cfx_dict_set(out, "z", cfx_tuple(cfx_mul(y, cfx_dict_get(cfx_as_dict(a.v[1]), "k")), sum));
    return cfx_dict_value(out);
}

static cfx_value pair(void) { return cfx_tuple(cfx_full(cfx_list(1, 2), 0.5), cfx_ones(1, 2)); }

static cfx_value dict(void) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "k", cfx_tensor_value(cfx_full(cfx_list(1, 2), -1.0)));
    return cfx_dict_value(d);
}

static cfx_module *model(void) {
    cfx_module *m = cfx_module_new("Nested", forward, "pair, d");
    cfx_nn_add(m, "fc", cfx_nn_linear(2, 2, .no_bias = true));
    cfx_module_requires_grad(m, false);
    cfx_copy_(cfx_module_attr(m, "fc.weight"),
              cfx_tensor_from_value(cfx_list(cfx_list(1.0, 2.0), cfx_list(-2.0, 1.0))));
    return m;
}

static cfx_module *exported(void) {
    return cfx_program_module(
        cfx_export(model(), cfx_tuple(pair(), dict()), CFX_NONE, CFX_NONE));
}

static const char result[] = "{'y': tensor([[4.5000, 0.0000]]), "
                             "'z': (tensor([[-4.5000,  1.5000]]), tensor([[1.5000, 1.5000]]))}";
static const char code[] =
    "\n\n\ndef forward(self, pair, d):\n"
    "    pair_0, pair_1, d_k, = fx_pytree.tree_flatten_spec(([pair, d], {}), self._in_spec)\n"
    "    fc_weight = self.fc.weight\n"
    "    add = torch.ops.aten.add.Tensor(pair_0, pair_1);  pair_0 = pair_1 = None\n"
    "    linear = torch.ops.aten.linear.default(add, fc_weight);  fc_weight = None\n"
    "    relu = torch.ops.aten.relu.default(linear)\n"
    "    mul = torch.ops.aten.mul.Tensor(linear, d_k);  linear = d_k = None\n"
    "    return pytree.tree_unflatten((relu, mul, add), self._out_spec)\n    ";

#define CHECK_RESULT(m) CHECK_STR(cfx_repr(cfx_forward_value(m, pair(), dict())), result)

static int part_of(cfx_node *n, void *user) {
    (void)user;
    return cfx_node_is(n, "relu") || cfx_node_is(n, "mul");
}

static bool supports(const cfx_node *n, void *user) {
    (void)user;
    return cfx_node_is(n, "linear") || cfx_node_is(n, "relu");
}

TEST(a_program_module_keeps_its_tree_through_every_tool) {
    cfx_module *gm = exported();
    cfx_interp it = {.module = gm};
    CHECK_RESULT(model());
    CHECK_STR(cfx_module_code(gm), code);
    CHECK_RESULT(gm);
    CHECK_STR(cfx_repr(cfx_run(&it, pair(), dict())), result);
    CHECK_RESULT(cfx_transform(&it));
    CHECK_RESULT(cfx_module_copy(gm));
    CHECK_RESULT(cfx_graph_module(gm, cfx_graph_copy(gm->graph), NULL));
    CHECK_RESULT(cfx_split_module(gm, part_of, NULL, (cfx_split_options){0}));
    cfx_module *parts = cfx_module_partition(gm, supports, NULL, false);
    CHECK_RESULT(parts);
    CHECK_INT(cfx_module_inline(parts, NULL), 1);
    CHECK_RESULT(parts);
    CHECK_INT(cfx_replace_pattern(gm, "relu(x)", "clamp_min(x, 0)")->len, 1);
    CHECK_RESULT(gm);
    CHECK_OK();
}

TEST(a_program_module_is_traced_and_exported_again) {
    cfx_module *gm = exported(), *traced = cfx_symbolic_trace(gm);
    CHECK_STR(cfx_module_code(traced),
              "\n\n\ndef forward(self, pair, d):\n"
              "    getitem = pair[0]\n"
              "    getitem_1 = pair[1];  pair = None\n"
              "    getitem_2 = d['k'];  d = None\n"
              "    fc_weight = self.fc.weight\n"
              "    add_tensor = torch.ops.aten.add.Tensor(getitem, getitem_1);  "
              "getitem = getitem_1 = None\n"
              "    linear_default = torch.ops.aten.linear.default(add_tensor, fc_weight);  "
              "fc_weight = None\n"
              "    relu_default = torch.ops.aten.relu.default(linear_default)\n"
              "    mul_tensor = torch.ops.aten.mul.Tensor(linear_default, getitem_2);  "
              "linear_default = getitem_2 = None\n"
              "    return {'y': relu_default, 'z': (mul_tensor, add_tensor)}\n    ");
    CHECK_RESULT(traced);
    cfx_program *again = cfx_export(gm, cfx_tuple(pair(), dict()), CFX_NONE, CFX_NONE);
    CHECK_STR(cfx_module_code(cfx_program_module(again)), code);
    CHECK_STR(cfx_repr(cfx_program_run(again, pair(), dict())), result);
    CHECK_OK();
}

TEST(a_tree_below_a_tree_is_taken_apart_level_by_level) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *a = cfx_graph_input(g, "a"), *b = cfx_graph_input(g, "b"),
             *c = cfx_graph_input(g, "c");
    cfx_graph_output(g, cfx_node_value(cfx_graph_call(g, "torch.add", b, c)));
    cfx_value leaf = cfx_ellipsis(), names = cfx_list("t");
    cfx_graph_set_tree(g, names, cfx_tuple(cfx_tuple(cfx_tuple(leaf, leaf), leaf)), CFX_NONE);
    cfx_module *nested = cfx_graph_module(NULL, g, NULL);
    CHECK_STR(cfx_module_code(cfx_symbolic_trace(nested)),
              "\n\n\ndef forward(self, t):\n"
              "    getitem = t[0]\n"
              "    getitem_1 = t[1];  t = None\n"
              "    getitem_2 = getitem[0];  getitem_2 = None\n"
              "    getitem_3 = getitem[1];  getitem = None\n"
              "    add = torch.add(getitem_3, getitem_1);  getitem_3 = getitem_1 = None\n"
              "    return add\n    ");
    CHECK_STR(cfx_repr(cfx_forward_value(nested, cfx_tuple(cfx_tuple(1, 2), 3))), "5");
    CHECK_INT(a->num_users, 0);
}

TEST(a_tuple_and_a_dict_are_two_arguments_where_their_names_say_so) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *a = cfx_graph_input(g, "a"), *b = cfx_graph_input(g, "b");
    cfx_graph_output(g, cfx_node_value(cfx_graph_call(g, "torch.add", a, b)));
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "k", cfx_ellipsis());
    cfx_value tuple = cfx_tuple(cfx_ellipsis());
    cfx_graph_set_tree(g, cfx_list("t", "d"), cfx_tuple(tuple, cfx_dict_value(d)), CFX_NONE);
    cfx_module *gm = cfx_graph_module(NULL, g, NULL);
    CHECK_STR(cfx_repr(cfx_forward_value(gm, cfx_tuple(cfx_ones(1)), dict())),
              "tensor([[0., 0.]])");
    CHECK_STR(cfx_module_code(gm),
              "\n\n\ndef forward(self, t, d):\n"
              "    self, a, b, = fx_pytree.tree_flatten_spec([self, t, d], self._in_spec)\n"
              "    add = torch.add(a, b);  a = b = None\n"
              "    return add\n    ");
}

TEST(parameters_of_a_program_module_learn_as_those_of_the_model_did) {
    cfx_module *m = model();
    cfx_value args = cfx_tuple(pair(), dict());
    cfx_program *p = cfx_export(m, args, CFX_NONE, CFX_NONE);
    cfx_module *frozen = cfx_program_module(p);
    CHECK(!cfx_tensor_requires_grad(cfx_as_tensor(cfx_module_attr(frozen, "fc.weight"))));
    cfx_module *again = cfx_symbolic_trace(frozen);
    CHECK(!cfx_tensor_requires_grad(cfx_as_tensor(cfx_module_attr(again, "fc.weight"))));
    cfx_module_requires_grad(m, true);
    p = cfx_export(m, args, CFX_NONE, CFX_NONE);
    CHECK(cfx_tensor_requires_grad(
        cfx_as_tensor(cfx_module_attr(cfx_program_module(p), "fc.weight"))));
}

/* ---- inputs ---------------------------------------------------------------------------------- */

TEST(a_program_module_checks_its_inputs) {
    cfx_module *gm = exported();
    cfx_forward_value(gm, cfx_tuple(cfx_ones(1, 3), cfx_ones(1, 2)), dict());
    CHECK_ERROR("Expected input at *args[0][0].shape[1] to be equal to 2, but got 3");
    cfx_forward_value(gm, cfx_tuple(cfx_ones(1, 2)), dict());
    CHECK_ERROR("Trying to flatten user inputs with exported input tree spec: \nTreeSpec(tuple, ");
    cfx_forward_value(gm, pair(), CFX_KW(e, dict()));
    CHECK_ERROR("Ran into a kwarg keyword mismatch: Got the following keywords ['e'] but expected "
                "[]");
    cfx_forward_value(gm, pair(), CFX_KW(d, dict()));
    CHECK_OK();
    cfx_module_set_attr(gm, "validate_inputs", cfx_bool(false));
    cfx_forward_value(gm, cfx_tuple(cfx_ones(4, 2), cfx_ones(4, 2)), dict());
    CHECK_OK();
}

TEST(sizes_that_a_program_module_was_exported_with_bind_what_is_made_of_it) {
    cfx_module *relu = cfx_nn_relu();
    cfx_program *p = cfx_export(relu, cfx_tuple(cfx_ones(3, 2)), CFX_NONE, CFX_NONE);
    cfx_dict *dims = cfx_dict_new(), *dynamic = cfx_dict_new();
    cfx_dict_put(dims, cfx_int(0), cfx_string_value("batch"));
    cfx_dict_set(dynamic, "input", cfx_dict_value(dims));
    cfx_module *gm = cfx_program_module(p);
    CHECK(cfx_failed(
        cfx_export(gm, cfx_tuple(cfx_ones(3, 2)), CFX_NONE, cfx_dict_value(dynamic))));
    CHECK_ERROR("You marked batch as dynamic but your code specialized it to be a constant (3)");
    cfx_module_set_attr(gm, "validate_inputs", cfx_bool(false));
    cfx_export(gm, cfx_tuple(cfx_ones(3, 2)), CFX_NONE, cfx_dict_value(dynamic));
    CHECK_OK();
}

static cfx_value counts(cfx_module *self, cfx_args a) {
    cfx_tensor *b = cfx_attr(self, "b");
    cfx_add_(b, 1);
    return cfx_tuple(cfx_mul(b, a.v[0]), cfx_add_(a.v[0], a.v[1]));
}

TEST(what_is_written_and_given_is_the_copy) {
    cfx_module *m = cfx_module_new("Counts", counts, "x, n");
    cfx_nn_buffer(m, "b", cfx_zeros(2), true);
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "n", cfx_int(3));
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(2)), cfx_dict_value(kw), CFX_NONE);
    cfx_module *gm = cfx_program_module(cfx_decompose(p, CFX_NONE));
    CHECK_STR(cfx_module_code(gm),
              "\n\n\ndef forward(self, x, n):\n"
              "    x, n, = fx_pytree.tree_flatten_spec(([x], {'n':n}), self._in_spec)\n"
              "    b = self.b\n"
              "    add = torch.ops.aten.add.Tensor(b, 1)\n"
              "    mul = torch.ops.aten.mul.Tensor(add, x)\n"
              "    add_1 = torch.ops.aten.add.Tensor(x, 3)\n"
              "    copy__default = torch.ops.aten.copy_.default(b, add);  "
              "b = add = copy__default = None\n"
              "    copy__default_1 = torch.ops.aten.copy_.default(x, add_1);  x = add_1 = None\n"
              "    return pytree.tree_unflatten((mul, copy__default_1), self._out_spec)\n    ");
    cfx_tensor *x = cfx_ones(2);
    CHECK_STR(cfx_repr(cfx_forward_value(gm, x, CFX_KW(n, 3))),
              "(tensor([1., 1.]), tensor([4., 4.]))");
    CHECK_STR(cfx_str(x), "tensor([4., 4.])");
    cfx_forward_value(gm, x, CFX_KW(n, 4));
    CHECK_ERROR("Expected input at 'n' to be equal to 3, but got 4");
    cfx_forward_value(gm, x);
    CHECK_ERROR("Ran into a kwarg keyword mismatch: Got the following keywords [] but expected "
                "['n']");
}

/* ---- calls of modules ------------------------------------------------------------------------ */

TEST(a_program_knows_the_modules_that_it_was_exported_from) {
    cfx_module *m = cfx_module_new("Two", forward, "pair, d"), *shared = cfx_nn_linear(2, 2);
    cfx_nn_add(m, "fc", shared);
    cfx_nn_add(m, "again", shared);
    cfx_program *p = cfx_export(m, cfx_tuple(pair(), dict()), CFX_NONE, CFX_NONE);
    CHECK_INT(p->ncalls, 3);
    CHECK_STR(p->calls[0].path, "");
    CHECK_STR(cfx_repr(p->calls[0].names), "['pair', 'd']");
    CHECK_STR(p->calls[1].path, "fc");
    CHECK_STR(p->calls[2].path, "again");
    CHECK(!p->calls[2].preserved);
    cfx_program *copy = cfx_program_copy(p);
    CHECK_INT(copy->ncalls, 3);
    CHECK_INT(cfx_decompose(p, CFX_NONE)->ncalls, 3);
    cfx_graph_erase(cfx_graph_output_node(copy->module->graph));
    cfx_graph_output(copy->module->graph,
                     cfx_tuple(cfx_graph_find(copy->module->graph, "relu")));
    CHECK(cfx_program_sync(copy));
    CHECK(cfx_is_none(copy->calls[0].names));
}
