/* Modules of a program put together again: hierarchy, tensors, calls that differ, signatures that
 * are preserved, modules that take the place of others. Texts are those of PyTorch. */
#include "test.h"

#include "files.h"
#include "rewrite.h"

static cfx_tensor *input(void) {
    cfx_manual_seed(4);
    return cfx_randn(3, 4);
}

static bool same(cfx_value a, cfx_value b) {
    return cfx_as_bool(cfx_allclose(cfx_as_tensor(a), cfx_as_tensor(b)));
}

static cfx_program *exported(cfx_module *m) {
    return cfx_export(m, cfx_tuple(input()), CFX_NONE, CFX_NONE);
}

/* ---- hierarchy ------------------------------------------------------------------------------- */

static cfx_tensor *block(cfx_module *self, cfx_tensor *x) {
    return cfx_relu(cfx_call(self, "norm", cfx_call(self, "fc", x)));
}

static cfx_tensor *net(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "blocks.1", cfx_call(self, "blocks.0", x));
    x = cfx_call(self, "blocks.0", x); /* a second time */
    return cfx_add(cfx_call(self, "head", x), cfx_attr(self, "shift"));
}

static cfx_module *new_block(void) {
    cfx_module *m = cfx_module_new("Block", block, "x");
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "norm", cfx_nn_batch_norm1d(4));
    return m;
}

static cfx_module *new_net(void) {
    cfx_module *m = cfx_module_new("Net", net, "x");
    cfx_module *blocks[] = {new_block(), new_block()};
    cfx_nn_add(m, "head", cfx_nn_linear(4, 2));
    cfx_nn_add(m, "blocks", cfx_nn_module_list(2, blocks));
    cfx_nn_add(m, "unused", cfx_nn_linear(3, 3));
    cfx_nn_buffer(m, "shift", cfx_ones(2), true);
    return m;
}

TEST(unflattened_modules_are_those_of_the_model) {
    cfx_module *m = new_net();
    cfx_module_train(m, false);
    cfx_module *u = cfx_program_unflatten(exported(m));
    CHECK_STR(cfx_module_str(u), "UnflattenedModule(\n"
                                 "  (head): InterpreterModule()\n"
                                 "  (blocks): InterpreterModule(\n"
                                 "    (0): InterpreterModule(\n"
                                 "      (fc): InterpreterModule()\n"
                                 "      (norm): InterpreterModule()\n"
                                 "    )\n"
                                 "    (1): InterpreterModule(\n"
                                 "      (fc): InterpreterModule()\n"
                                 "      (norm): InterpreterModule()\n"
                                 "    )\n"
                                 "  )\n"
                                 "  (unused): Module()\n"
                                 ")");
    CHECK_STR(cfx_module_code(u),
              "\n\n\ndef forward(self, x):\n"
              "    x, = fx_pytree.tree_flatten_spec(([x], {}), self._in_spec)\n"
              "    shift = self.shift\n"
              "    blocks_0 = getattr(self.blocks, \"0\")(x);  x = None\n"
              "    blocks_1 = getattr(self.blocks, \"1\")(blocks_0);  blocks_0 = None\n"
              "    blocks_0_1 = getattr(self.blocks, \"0\")(blocks_1);  blocks_1 = None\n"
              "    head = self.head(blocks_0_1);  blocks_0_1 = None\n"
              "    add = torch.ops.aten.add.Tensor(head, shift);  head = shift = None\n"
              "    return pytree.tree_unflatten((add,), self._out_spec)\n    ");
    CHECK_STR(cfx_str(cfx_module_attr(u, "_ty")), "Net");
    CHECK_STR(cfx_str(cfx_module_attr(u, "blocks.1.fc._ty")), "torch.nn.modules.linear.Linear");
    CHECK(same(cfx_forward_value(u, input()), cfx_forward_value(m, input())));
    cfx_value keys = cfx_module_state_keys(m, cfx_module_state_dict(u));
    CHECK_STR(cfx_repr(keys), "([], [])");
}

/* Runs a model, its unflattened program and that of its decomposition; a buffer is compared
 * afterwards. */
static void check_same(cfx_module *m, const char *state) {
    cfx_module *u = cfx_program_unflatten(exported(m));
    cfx_module *core = cfx_program_unflatten(cfx_decompose(exported(m), CFX_NONE));
    CHECK_OK();
    for (int i = 0; i < 2; i++) {
        cfx_value want = cfx_forward_value(m, input());
        CHECK(same(cfx_forward_value(u, input()), want));
        CHECK(same(cfx_forward_value(core, input()), want));
    }
    if (!state)
        return;
    CHECK(same(cfx_module_attr(u, state), cfx_module_attr(m, state)));
    CHECK(same(cfx_module_attr(core, state), cfx_module_attr(m, state)));
    CHECK(!cfx_tensor_requires_grad(cfx_as_tensor(cfx_module_attr(core, state))));
}

TEST(unflattened_modules_learn_and_count_as_the_model_does) {
    check_same(new_net(), "blocks.0.norm.running_mean");
}

TEST(tensors_of_unflattened_modules_are_copies) {
    cfx_program *p = exported(new_net());
    cfx_module *u = cfx_program_unflatten(p);
    cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_zero_(cfx_module_attr(u, "head.weight"));
    CHECK(!same(cfx_dict_get(p->state, "head.weight"), cfx_module_attr(u, "head.weight")));
}

static cfx_tensor *twice(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "b", cfx_call(self, "a", x));
}

TEST(what_is_tied_stays_tied_when_unflattened) {
    cfx_module *m = cfx_module_new("Tied", twice, "x");
    cfx_nn_add(m, "a", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "b", cfx_nn_linear(4, 4));
    cfx_module_set_attr(m, "b.weight", cfx_module_attr(m, "a.weight"));
    cfx_module *u = cfx_program_unflatten(exported(m));
    CHECK(cfx_as_tensor(cfx_module_attr(u, "a.weight")) ==
          cfx_as_tensor(cfx_module_attr(u, "b.weight")));
    check_same(m, NULL);
    cfx_module *both = cfx_module_new("Shared", twice, "x"), *one = cfx_nn_linear(4, 4);
    cfx_nn_add(both, "a", one);
    cfx_nn_add(both, "b", one);
    u = cfx_program_unflatten(exported(both));
    CHECK(cfx_module_find(u, "a")->graph && cfx_module_find(u, "b")->graph);
    check_same(both, NULL);
}

/* The same bytes as another dtype are another tensor. */
static cfx_value adds_bits(cfx_module *self, cfx_args a) {
    cfx_value bits = cfx_module_attr(self, "bits"), held = cfx_module_attr(self, "held");
    return cfx_tuple(cfx_add(a.v[0], held), bits);
}

TEST(views_of_other_dtypes_stay_what_they_are_when_unflattened) {
    cfx_module *m = cfx_module_new("Bits", adds_bits, "x");
    cfx_tensor *held = cfx_ones(cfx_list(4));
    cfx_nn_buffer(m, "held", held, true);
    cfx_nn_buffer(m, "bits", cfx_view(held, cfx_i32), true);
    cfx_module *u = cfx_program_unflatten(exported(m));
    CHECK_OK();
    CHECK_STR(cfx_str(cfx_module_attr(u, "held")), "tensor([1., 1., 1., 1.])");
    CHECK_INT(cfx_tensor_dtype(cfx_as_tensor(cfx_module_attr(u, "bits"))), CFX_I32);
}

/* ---- calls that differ ----------------------------------------------------------------------- */

static cfx_value scaled(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_call(self, "fc", a.v[0]);
    return a.n > 1 && !cfx_is_none(a.v[1]) ? cfx_tensor_value(cfx_mul(y, a.v[1]))
                                           : cfx_tensor_value(cfx_relu(y));
}

static cfx_tensor *differs(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_call(self, "inner", x);
    return cfx_call(self, "inner", y, cfx_call(self, "inner", y));
}

static cfx_module *new_differs(void) {
    cfx_module *m = cfx_module_new("Differs", differs, "x");
    cfx_module *inner = cfx_module_new("Scaled", scaled, "x, k=None");
    cfx_nn_add(inner, "fc", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "inner", inner);
    return m;
}

TEST(a_call_that_does_something_else_is_a_module_beside_the_first) {
    cfx_module *u = cfx_program_unflatten(exported(new_differs()));
    CHECK_STR(cfx_module_str(u), "UnflattenedModule(\n"
                                 "  (inner): InterpreterModule(\n"
                                 "    (fc): InterpreterModule()\n"
                                 "  )\n"
                                 "  (inner@2): InterpreterModule(\n"
                                 "    (fc): InterpreterModule()\n"
                                 "  )\n"
                                 ")");
    CHECK_STR(cfx_graph_str(u->graph),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %inner : [num_users=2] = call_module[target=inner](args = (%x,), kwargs = {})\n"
              "    %inner_1 : [num_users=1] = call_module[target=inner](args = (%inner,), "
              "kwargs = {})\n"
              "    %inner_2 : [num_users=1] = call_module[target=inner@2](args = (%inner_1, "
              "%inner), kwargs = {})\n"
              "    return (inner_2,)");
    CHECK(cfx_module_find(u, "inner.fc") == cfx_module_find(u, "inner@2.fc"));
    cfx_nn_add(cfx_module_find(u, "inner"), "fc", cfx_nn_linear(4, 4)); /* for all of its calls */
    CHECK(cfx_module_find(u, "inner.fc") == cfx_module_find(u, "inner@2.fc"));
    cfx_module *copy = cfx_module_copy(u);
    CHECK(cfx_module_find(copy, "inner.fc") == cfx_module_find(copy, "inner@2.fc"));
    CHECK(cfx_module_find(copy, "inner.fc") != cfx_module_find(u, "inner.fc"));
    check_same(new_differs(), NULL);
}

/* The same graph, but for the layer that it calls. */
static cfx_tensor *one_of_two(cfx_module *self, cfx_tensor *x, cfx_tensor *k) {
    return cfx_call(self, k ? "a" : "b", x);
}

static cfx_tensor *in_turn(cfx_module *self, cfx_tensor *x) {
    return cfx_sub(cfx_call(self, "inner", x, cfx_ones(1)), cfx_call(self, "inner", x, NULL));
}

static cfx_module *new_in_turn(void) {
    cfx_module *m = cfx_module_new("InTurn", in_turn, "x");
    cfx_module *inner = cfx_module_new("OneOfTwo", one_of_two, "x, k=None");
    cfx_nn_add(inner, "a", cfx_nn_linear(4, 4));
    cfx_nn_add(inner, "b", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "inner", inner);
    return m;
}

TEST(a_call_that_runs_another_layer_does_something_else) {
    cfx_module *m = new_in_turn();
    cfx_value want = cfx_forward_value(m, input());
    CHECK(same(cfx_forward_value(cfx_program_unflatten(exported(m)), input()), want));
    cfx_program *p = cfx_export(m, cfx_tuple(input()), CFX_NONE, CFX_NONE,
                                .preserve_module_call_signature = cfx_list("inner"));
    CHECK(same(cfx_forward_value(cfx_program_unflatten(p), input()), want));
}

/* ---- state ----------------------------------------------------------------------------------- */

static cfx_tensor *counting(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *n = cfx_attr(self, "n"), *kept = cfx_attr(self, "kept");
    cfx_add_(n, 1);
    cfx_masked_fill_(kept, cfx_gt(x, 0), 2);
    return cfx_mul(cfx_call(self, "norm", x), cfx_add(kept, n));
}

static cfx_tensor *counting_twice(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "inner", cfx_neg(cfx_call(self, "inner", x)));
}

static cfx_module *new_counting(void) {
    cfx_manual_seed(5);
    cfx_module *m = cfx_module_new("Twice", counting_twice, "x");
    cfx_module *c = cfx_module_new("Counting", counting, "x");
    cfx_nn_buffer(c, "n", cfx_zeros(1), true);
    cfx_nn_buffer(c, "kept", cfx_zeros(3, 4), true);
    cfx_nn_add(c, "norm", cfx_nn_batch_norm1d(4));
    cfx_nn_add(m, "inner", c);
    return m;
}

/* Statistics are results of a call that has several, and a mask is the first argument of what
 * masked_fill_ is decomposed to. */
TEST(what_a_preserved_module_writes_is_there_at_its_next_call) {
    for (int core = 0; core < 2; core++) {
        cfx_module *m = new_counting();
        cfx_program *p =
            cfx_export(new_counting(), cfx_tuple(input()), CFX_NONE, CFX_NONE,
                       .preserve_module_call_signature = cfx_list("inner", "inner.norm"));
        cfx_module *u = cfx_program_unflatten(core ? cfx_decompose(p, CFX_NONE) : p);
        for (int i = 0; i < 3 && CHECK_OK(); i++)
            CHECK(same(cfx_forward_value(u, input()), cfx_forward_value(m, input())));
        static const char *const names[] = {"inner.n", "inner.kept", "inner.norm.running_mean",
                                            "inner.norm.running_var"};
        for (int i = 0; i < COUNT(names) && CHECK_OK(); i++)
            CHECK(same(cfx_module_attr(u, names[i]), cfx_module_attr(m, names[i])));
    }
}

static cfx_tensor *shared(cfx_module *self, cfx_tensor *x) {
    return cfx_add(cfx_call(self, "a", x), cfx_call(self, "b", x));
}

TEST(a_shared_layer_has_parameters_under_each_of_its_names) {
    cfx_module *m = cfx_module_new("Shared", shared, "x");
    cfx_nn_add(m, "a", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "b", cfx_module_find(m, "a"));
    cfx_module *u = cfx_program_unflatten(exported(m));
    CHECK(same(cfx_forward_value(u, input()), cfx_forward_value(m, input())));
    CHECK_INT(cfx_module_named(u, CFX_NAMED_BUFFERS, "", true)->len, 0);
}

/* Nodes that stand apart, as passes may leave them. */
TEST(nodes_of_a_call_need_not_stand_together) {
    cfx_module *m = cfx_module_new("Tied", twice, "x");
    cfx_nn_add(m, "a", new_block());
    cfx_nn_add(m, "b", cfx_nn_linear(4, 4));
    cfx_program *p = exported(m);
    cfx_value want = cfx_program_run(p, input());
    cfx_node *relu = cfx_graph_find(p->module->graph, "relu");
    cfx_value stack = cfx_node_get_meta(cfx_graph_find(p->module->graph, "linear_1"),
                                        "nn_module_stack");
    CFX_INSERT_BEFORE(p->module->graph, relu) {
        cfx_node *norm = cfx_node_input(relu, 0);
        cfx_node *twin = cfx_graph_call(p->module->graph, "aten.mul.Tensor", norm, 1);
        cfx_node_set_meta(twin, "nn_module_stack", stack); /* of b, between two of a */
        cfx_node_replace_input(relu, norm, twin);
    }
    cfx_module *u = cfx_program_unflatten(p);
    CHECK_OK();
    CHECK(same(cfx_forward_value(u, input()), want));
    cfx_each_node(p->module->graph, n) cfx_node_remove_meta(n, "nn_module_stack");
    u = cfx_program_unflatten(p); /* nobody knows anything: all of it is the root's */
    CHECK(same(cfx_forward_value(u, input()), want));
    CHECK_OK();
}

TEST(modules_that_a_file_nests_too_deeply_are_refused) {
    cfx_program *p = exported(cfx_nn_relu());
    cfx_dict *stack = cfx_dict_new();
    cfx__text path = {0};
    for (int i = 0; i < 3000; i++) {
        cfx__text_puts(&path, i ? ".a" : "a");
        cfx_dict_set(stack, path.data, cfx_tuple(path.data, "A"));
    }
    cfx_node_set_meta(cfx_graph_find(p->module->graph, "relu"), "nn_module_stack",
                      cfx_dict_value(stack));
    CHECK(cfx_failed(cfx_program_unflatten(p)));
    CHECK_ERROR("modules are more than 1000 deep in node relu");
    cfx__text_release(&path);
}

/* ---- control flow ---------------------------------------------------------------------------- */

static cfx_value yes(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_sin(a.v[0]));
}

static cfx_value no(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_cos(a.v[0]));
}

static cfx_tensor *chooses(cfx_module *self, cfx_tensor *x) {
    return cfx_as_tensor(cfx_cond(self, cfx_gt(cfx_sum(x), 0), yes, no, x));
}

static cfx_tensor *around(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "choice", cfx_call(self, "fc", x));
}

TEST(branches_go_with_the_module_that_chooses) {
    cfx_module *m = cfx_module_new("Around", around, "x");
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "choice", cfx_module_new("Choice", chooses, "x"));
    cfx_module *u = cfx_program_unflatten(exported(m));
    CHECK(cfx_module_find(u, "choice.true_graph_0") != NULL);
    CHECK(cfx_module_find(u, "true_graph_0") == NULL);
    check_same(m, NULL);
}

/* ---- signatures that are preserved ----------------------------------------------------------- */

static cfx_value inner(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_mul(cfx_call(self, "fc", a.v[0]), cfx_dict_get(cfx_as_dict(a.v[1]), "k"));
    cfx_dict *out = cfx_dict_new();
    cfx_dict_set(out, "y", cfx_tensor_value(cfx_add(y, cfx_attr(self, "b"))));
    cfx_dict_set(out, "z", cfx_tuple(y, a.v[0], 7));
    return cfx_dict_value(out);
}

static cfx_value with(const char *key, cfx_value v) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, key, v);
    return cfx_dict_value(d);
}

static cfx_value outer(cfx_module *self, cfx_args a) {
    cfx_value d = cfx_call_value(self, "inner", a.v[0],
                                 CFX_KW(scale, with("k", cfx_tensor_value(cfx_sin(a.v[0])))));
    cfx_value e = cfx_call_value(self, "inner", cfx_dict_get(cfx_as_dict(d), "y"),
                                 CFX_KW(scale, with("k", a.v[0])));
    cfx_value first = cfx_at(cfx_dict_get(cfx_as_dict(d), "z"), 0);
    return cfx_call_value(self, "out", cfx_add(first, cfx_dict_get(cfx_as_dict(e), "y")));
}

static cfx_module *new_inner(void) {
    cfx_module *m = cfx_module_new_n("Inner", inner, "x, *, scale, shift=None");
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 4));
    cfx_nn_buffer(m, "b", cfx_ones(4), true);
    return m;
}

static cfx_module *new_outer(void) {
    cfx_module *m = cfx_module_new_n("Outer", outer, "x");
    cfx_nn_add(m, "inner", new_inner());
    cfx_nn_add(m, "out", cfx_nn_linear(4, 2));
    return m;
}

static cfx_program *preserved(cfx_module *m) {
    return cfx_export(m, cfx_tuple(input()), CFX_NONE, CFX_NONE,
                      .preserve_module_call_signature = cfx_list("inner"));
}

TEST(a_preserved_module_is_called_as_it_was) {
    cfx_module *m = new_outer();
    cfx_program *p = preserved(m);
    CHECK_INT(p->ncalls, 5); /* the program, inner, inner.fc, out, inner@1 */
    CHECK_STR(p->calls[4].path, "inner@1");
    CHECK_STR(cfx_repr(p->calls[4].inputs), "(add, x)");
    CHECK_STR(cfx_repr(p->calls[4].outputs), "(add_1, mul_1, add, 7)");
    cfx_module *u = cfx_program_unflatten(p);
    CHECK_STR(u ? cfx_module_find(u, "inner")->type : "", "InterpreterModuleDispatcher");
    CHECK_STR(cfx_graph_str(cfx_as_module(cfx_at(cfx_module_attr(u, "inner._call_modules"), 0))
                                ->graph),
              "graph():\n"
              "    %_positional_arg_0 : [num_users=1] = placeholder[target=_positional_arg_0]\n"
              "    %scale : [num_users=1] = placeholder[target=scale]\n"
              "    %b : [num_users=1] = get_attr[target=b]\n"
              "    %_spec_0 : [num_users=1] = get_attr[target=_spec_0]\n"
              "    %tree_flatten_spec : [num_users=2] = call_function[target=torch.fx._pytree."
              "tree_flatten_spec](args = (((%_positional_arg_0,), {scale: %scale}), %_spec_0), "
              "kwargs = {})\n"
              "    %x : [num_users=2] = call_function[target=operator.getitem](args = "
              "(%tree_flatten_spec, 0), kwargs = {})\n"
              "    %sin : [num_users=1] = call_function[target=operator.getitem](args = "
              "(%tree_flatten_spec, 1), kwargs = {})\n"
              "    %fc : [num_users=1] = call_module[target=fc](args = (%x,), kwargs = {})\n"
              "    %mul : [num_users=2] = call_function[target=torch.ops.aten.mul.Tensor](args = "
              "(%fc, %sin), kwargs = {})\n"
              "    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = "
              "(%mul, %b), kwargs = {})\n"
              "    %_spec_1 : [num_users=1] = get_attr[target=_spec_1]\n"
              "    %tree_unflatten : [num_users=1] = call_function[target=torch.utils._pytree."
              "tree_unflatten](args = ((%add, %mul, %x, 7), %_spec_1), kwargs = {})\n"
              "    return tree_unflatten");
    cfx_value want = cfx_forward_value(m, input());
    CHECK(same(cfx_forward_value(u, input()), want));
    CHECK(same(cfx_forward_value(u, input()), want)); /* it counts from the start again */
    cfx_nn_add(u, "inner", cfx_module_find(m, "inner"));
    CHECK(same(cfx_forward_value(u, input()), want));
}

TEST(calls_of_a_module_that_is_replaced_may_read_what_the_one_before_wrote) {
    cfx_module *m = new_counting();
    cfx_program *p = preserved(m);
    cfx_dict *modules = cfx_dict_new();
    cfx_dict_set(modules, "inner", cfx_module_value(cfx_module_find(new_counting(), "inner")));
    cfx_module *gm = cfx_program_swap_modules(p, modules);
    CHECK_OK();
    CHECK(same(cfx_forward_value(gm, input()), cfx_forward_value(m, input())));
    CHECK_INT(cfx_len(cfx_graph_find_nodes(gm->graph, CFX_CALL_MODULE, "inner")), 2);
}

TEST(signatures_stay_with_the_program) {
    cfx_module *m = new_outer();
    cfx_program *p = preserved(m), *core = cfx_decompose(p, CFX_NONE);
    const char *path = test_path("preserved.pt2");
    CHECK(cfx_save(core, path));
    cfx_program *read = cfx_open(path);
    test_unlink("preserved.pt2");
    test_folder_done();
    CHECK_STR(cfx_repr(core->calls[1].outputs), "(add, mul, x, 7)");
    CHECK_STR(cfx_repr(read->calls[1].outputs), "(add, mul, x, 7)");
    CHECK_STR(cfx_repr(cfx_program_copy(read)->calls[1].inputs), "(x, sin)");
    CHECK_STR(cfx_tree_spec_text(read->calls[1].in_spec), cfx_tree_spec_text(p->calls[1].in_spec));
    CHECK(same(cfx_forward_value(cfx_program_unflatten(read), input()),
               cfx_forward_value(m, input())));
    cfx_node *mul = cfx_graph_find(read->module->graph, "mul");
    cfx_node_replace(mul, cfx_node_input(mul, 0));
    cfx_graph_erase(mul); /* what it gave is not there any more */
    CHECK(!cfx_program_copy(read)->calls[1].preserved);
    CHECK_OK();
}

TEST(signatures_that_cannot_be_preserved_are_refused) {
    cfx_module *m = new_outer();
    cfx_export(m, cfx_tuple(input()), CFX_NONE, CFX_NONE,
               .preserve_module_call_signature = cfx_list("nobody"));
    CHECK_ERROR("'Outer' object has no attribute 'nobody'");
    cfx_module *d = new_differs();
    cfx_export(d, cfx_tuple(input()), CFX_NONE, CFX_NONE,
               .preserve_module_call_signature = cfx_list("inner"));
    CHECK_ERROR("in_spec mismatch for inner: TreeSpec(tuple, None, [TreeSpec(tuple, None, [*]),");
}

/* ---- other modules --------------------------------------------------------------------------- */

static cfx_value half(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_dict *out = cfx_dict_new();
    cfx_value zero = cfx_tensor_value(cfx_mul(a.v[0], 0.5));
    cfx_dict_set(out, "y", zero);
    cfx_dict_set(out, "z", cfx_tuple(zero, a.v[0], 7));
    return cfx_dict_value(out);
}

TEST(modules_of_the_callers_take_the_place_of_exported_ones) {
    cfx_module *m = new_outer(), *other = cfx_module_new_n("Half", half, "x, scale");
    cfx_program *p = preserved(m);
    cfx_dict *modules = cfx_dict_new();
    cfx_dict_set(modules, "inner", cfx_module_value(cfx_module_find(m, "inner")));
    cfx_module *gm = cfx_program_swap_modules(p, modules);
    CHECK(same(cfx_forward_value(gm, input()), cfx_forward_value(m, input())));
    cfx_dict_set(modules, "inner", cfx_module_value(other));
    gm = cfx_program_swap_modules(p, modules);
    cfx_value got = cfx_forward_value(gm, input());
    cfx_nn_add(m, "inner", other);
    CHECK(same(got, cfx_forward_value(m, input())));
    CHECK_INT(cfx_len(cfx_graph_find_nodes(gm->graph, CFX_CALL_MODULE, "inner")), 2);
    CHECK(cfx_graph_find(gm->graph, "mul") == NULL);
    gm = cfx_program_swap_modules(cfx_decompose(p, CFX_NONE), modules);
    CHECK(same(cfx_forward_value(gm, input()), got));
    CHECK_OK();
}

static cfx_tensor *times(cfx_module *self, cfx_tensor *x, cfx_tensor *y) {
    (void)self;
    return cfx_mul(x, y);
}

static cfx_tensor *chain(cfx_module *self, cfx_tensor *x, cfx_tensor *y) {
    return cfx_call(self, "bar", cfx_call(self, "foo", x, y));
}

TEST(a_result_goes_from_one_module_to_the_next) {
    cfx_module *m = cfx_module_new("Chain", chain, "x, y");
    cfx_nn_add(m, "foo", cfx_module_new("Times", times, "x, y"));
    cfx_nn_add(m, "bar", cfx_nn_linear(4, 2));
    cfx_program *p = cfx_export(m, cfx_tuple(input(), input()), CFX_NONE, CFX_NONE,
                                .preserve_module_call_signature = cfx_list("foo", "bar"));
    cfx_dict *modules = cfx_dict_new();
    cfx_dict_set(modules, "foo", cfx_module_value(cfx_module_find(m, "foo")));
    cfx_dict_set(modules, "bar", cfx_module_value(cfx_module_find(m, "bar")));
    cfx_module *gm = cfx_program_swap_modules(p, modules);
    CHECK_STR(cfx_module_code(gm),
              "\n\n\ndef forward(self, x, y):\n"
              "    x_1 = x\n"
              "    y_1 = y\n"
              "    _spec_0 = self._spec_0\n"
              "    _spec_1 = self._spec_1\n"
              "    _spec_4 = self._spec_4\n"
              "    tree_flatten = torch.utils._pytree.tree_flatten((x_1, y_1));  x_1 = y_1 = None\n"
              "    getitem = tree_flatten[0];  tree_flatten = None\n"
              "    x = getitem[0]\n"
              "    y = getitem[1];  getitem = None\n"
              "    tree_unflatten_1 = torch.utils._pytree.tree_unflatten([x, y], _spec_1);  "
              "x = y = _spec_1 = None\n"
              "    getitem_1 = tree_unflatten_1[0];  tree_unflatten_1 = None\n"
              "    getitem_2 = getitem_1[0]\n"
              "    getitem_3 = getitem_1[1];  getitem_1 = None\n"
              "    foo = self.foo(getitem_2, getitem_3);  getitem_2 = getitem_3 = None\n"
              "    bar = self.bar(foo);  foo = None\n"
              "    tree_flatten_spec_1 = torch.fx._pytree.tree_flatten_spec(bar, _spec_4);  "
              "bar = _spec_4 = None\n"
              "    getitem_9 = tree_flatten_spec_1[0];  tree_flatten_spec_1 = None\n"
              "    tree_unflatten = torch.utils._pytree.tree_unflatten((getitem_9,), _spec_0);  "
              "getitem_9 = _spec_0 = None\n"
              "    return tree_unflatten\n    ");
    CHECK(same(cfx_forward_value(gm, input(), input()), cfx_forward_value(m, input(), input())));
    cfx_dict_set(modules, "baz", cfx_module_value(cfx_nn_relu()));
    cfx_program_swap_modules(p, modules);
    CHECK_ERROR("the program was exported from no module 'baz'");
    p = cfx_export(m, cfx_tuple(input(), input()), CFX_NONE, CFX_NONE);
    cfx_program_swap_modules(p, modules);
    CHECK_ERROR("foo cannot be replaced: how it was called is not known. Name it in "
                "preserve_module_call_signature when the program is exported");
}

/* A result that the exported module makes of nothing anybody uses is an argument all the same. */
static cfx_value pair(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(cfx_add(a.v[0], 1), cfx_mul(a.v[1], 2));
}

static cfx_tensor *pairs(cfx_module *self, cfx_tensor *x) {
    cfx_value first = cfx_call_value(self, "inner", x, cfx_sin(x));
    cfx_value second = cfx_call_value(self, "inner", cfx_at(first, 0), cfx_at(first, 1));
    return cfx_as_tensor(cfx_at(second, 0));
}

static cfx_value both(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(cfx_add(a.v[0], a.v[1]), cfx_mul(a.v[1], 2));
}

TEST(modules_of_the_callers_are_given_arguments_that_the_exported_ones_did_not_use) {
    cfx_module *m = cfx_module_new("Pairs", pairs, "x");
    cfx_nn_add(m, "inner", cfx_module_new_n("Pair", pair, "x, y"));
    cfx_dict *modules = cfx_dict_new();
    cfx_dict_set(modules, "inner", cfx_module_value(cfx_module_new_n("Both", both, "x, y")));
    cfx_module *gm = cfx_program_swap_modules(preserved(m), modules);
    CHECK_OK();
    cfx_nn_add(m, "inner", cfx_as_module(cfx_dict_get(modules, "inner")));
    CHECK(same(cfx_forward_value(gm, input()), cfx_forward_value(m, input())));
}
