/* Symbolic tracing: the graphs are torch.fx's own, as it prints them for the same programs. */
#include "test.h"

#include "trace.h"

static cfx_tensor *ones(int64_t n) { return cfx_full(cfx_list(n), 1.0); }

static const char *traced(cfx_module *m) {
    cfx_graph *g = cfx_tracer_trace(NULL, m);
    return g ? cfx_graph_str(g) : "no graph";
}

/* ---- all six opcodes ------------------------------------------------------------------------- */

static cfx_value all_six(cfx_module *self, cfx_args a) {
    cfx_value sum = cfx_py("operator.add", a.v[0], cfx_attr(self, "param"));
    cfx_value relu = cfx_method(cfx_call(self, "linear", sum), "relu");
    return cfx_topk(cfx_py("torch.sum", relu, CFX_KW(dim, -1)), 3);
}

TEST(all_six_opcodes_are_traced) {
    cfx_module *m = cfx_module_new("AllSixOps", all_six, "x");
    cfx_nn_parameter(m, "param", cfx_rand(3, 4));
    cfx_nn_add(m, "linear", cfx_nn_linear(4, 5));
    CHECK_STR(
        traced(m),
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %param : [num_users=1] = get_attr[target=param]\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%x, %param), "
        "kwargs = {})\n"
        "    %linear : [num_users=1] = call_module[target=linear](args = (%add,), kwargs = {})\n"
        "    %relu : [num_users=1] = call_method[target=relu](args = (%linear,), kwargs = {})\n"
        "    %sum_1 : [num_users=1] = call_function[target=torch.sum](args = (%relu,), kwargs = "
        "{dim: -1})\n"
        "    %topk : [num_users=1] = call_function[target=torch.topk](args = (%sum_1, 3), kwargs "
        "= {})\n"
        "    return topk");
}

/* ---- parameters, buffers, constants ---------------------------------------------------------- */

static cfx_tensor *buffers(cfx_module *self, cfx_tensor *x) {
    cfx_module *inner = cfx_module_find(self, "inner");
    cfx_value y = cfx_py("torch.matmul", x, cfx_attr(inner, "weight"));
    y = cfx_py("operator.add", y, cfx_attr(self, "running"));
    return cfx_as_tensor(cfx_py("operator.add", y, cfx_mul(ones(4), 3.14)));
}

static cfx_tensor *nothing(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return x;
}

TEST(parameters_buffers_and_constants_become_get_attr) {
    cfx_module *m = cfx_module_new("Buffers", buffers, "x");
    cfx_module *inner = cfx_module_new("Module", nothing, "x");
    cfx_nn_parameter(inner, "weight", cfx_full(cfx_list(4, 4), 1.0));
    cfx_nn_add(m, "inner", inner);
    cfx_nn_buffer(m, "running", ones(4), true);
    CHECK_STR(traced(m),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %inner_weight : [num_users=1] = get_attr[target=inner.weight]\n"
              "    %matmul : [num_users=1] = call_function[target=torch.matmul](args = (%x, "
              "%inner_weight), kwargs = {})\n"
              "    %running : [num_users=1] = get_attr[target=running]\n"
              "    %add : [num_users=1] = call_function[target=operator.add](args = (%matmul, "
              "%running), kwargs = {})\n"
              "    %_tensor_constant0 : [num_users=1] = get_attr[target=_tensor_constant0]\n"
              "    %add_1 : [num_users=1] = call_function[target=operator.add](args = (%add, "
              "%_tensor_constant0), kwargs = {})\n"
              "    return add_1");
}

/* ---- modules in modules ---------------------------------------------------------------------- */

static cfx_tensor *block(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_call(self, "bn", cfx_call(self, "conv", x));
    cfx_value relu = cfx_py("torch.nn.functional.relu", y, CFX_KW(inplace, cfx_bool(true)));
    return cfx_as_tensor(cfx_py("operator.add", relu, x));
}

static cfx_module *new_block(void) {
    cfx_module *m = cfx_module_new("Block", block, "x");
    cfx_nn_add(m, "conv", cfx_nn_conv2d(4, 4, 3, .padding = 1));
    cfx_nn_add(m, "bn", cfx_nn_batch_norm2d(4));
    return m;
}

static cfx_value nested(cfx_module *self, cfx_args a) {
    cfx_value mean = cfx_method(cfx_call(self, "layers", a.v[0]), "mean", cfx_list(2, 3));
    cfx_module *head = cfx_module_find(self, "head");
    return cfx_tuple(cfx_call(head, "a", mean), cfx_call(head, "b", mean));
}

static cfx_module *new_nested(void) {
    cfx_module *m = cfx_module_new("Nested", nested, "x"), *head = cfx_nn_module_dict();
    cfx_nn_add(head, "a", cfx_nn_linear(4, 2));
    cfx_nn_add(head, "b", cfx_nn_linear(4, 3));
    cfx_nn_add(m, "layers", cfx_nn_sequential(new_block(), new_block()));
    cfx_nn_add(m, "head", head);
    return m;
}

TEST(modules_are_traced_through_down_to_leaves) {
    CHECK_STR(
        traced(new_nested()),
        "graph():\n"
        "    %x : [num_users=2] = placeholder[target=x]\n"
        "    %layers_0_conv : [num_users=1] = call_module[target=layers.0.conv](args = (%x,), "
        "kwargs = "
        "{})\n"
        "    %layers_0_bn : [num_users=1] = call_module[target=layers.0.bn](args = "
        "(%layers_0_conv,), "
        "kwargs = {})\n"
        "    %relu : [num_users=1] = call_function[target=torch.nn.functional.relu](args = "
        "(%layers_0_bn,), kwargs = {inplace: True})\n"
        "    %add : [num_users=2] = call_function[target=operator.add](args = (%relu, %x), kwargs "
        "= "
        "{})\n"
        "    %layers_1_conv : [num_users=1] = call_module[target=layers.1.conv](args = (%add,), "
        "kwargs "
        "= {})\n"
        "    %layers_1_bn : [num_users=1] = call_module[target=layers.1.bn](args = "
        "(%layers_1_conv,), "
        "kwargs = {})\n"
        "    %relu_1 : [num_users=1] = call_function[target=torch.nn.functional.relu](args = "
        "(%layers_1_bn,), kwargs = {inplace: True})\n"
        "    %add_1 : [num_users=1] = call_function[target=operator.add](args = (%relu_1, %add), "
        "kwargs "
        "= {})\n"
        "    %mean : [num_users=2] = call_method[target=mean](args = (%add_1, [2, 3]), kwargs = "
        "{})\n"
        "    %head_a : [num_users=1] = call_module[target=head.a](args = (%mean,), kwargs = {})\n"
        "    %head_b : [num_users=1] = call_module[target=head.b](args = (%mean,), kwargs = {})\n"
        "    return (head_a, head_b)");
}

static bool sequential_is_leaf(cfx_tracer *t, cfx_module *m, const char *path) {
    return !strcmp(m->type, "Sequential") || cfx_tracer_is_leaf(t, m, path);
}

TEST(the_leaf_policy_is_the_users) {
    cfx_tracer t = {.is_leaf = sequential_is_leaf};
    cfx_graph *g = cfx_tracer_trace(&t, new_nested());
    CHECK_INT(cfx_graph_len(g), 6);
    CHECK(cfx_graph_find(g, "layers") && cfx_graph_find(g, "layers")->op == CFX_CALL_MODULE);
}

TEST(nodes_know_their_module_and_line) {
    cfx_graph *g = cfx_tracer_trace(NULL, new_nested());
    cfx_value stack = cfx_node_get_meta(cfx_graph_find(g, "relu_1"), "nn_module_stack");
    CHECK_STR(cfx_repr(stack), "{'layers': ('layers', 'torch.nn.modules.container.Sequential'), "
                               "'layers.1': ('layers.1', 'Block')}");
    const char *source = cfx_text(cfx_node_get_meta(cfx_graph_find(g, "relu_1"), "source"));
    CHECK(source && strstr(source, "symbolic_test.c:"));
}

static cfx_value called_twice(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_call(self, "s", cfx_call(self, "s", a.v[0])));
}

TEST(every_call_of_a_module_has_a_key_of_its_own) {
    cfx_module *m = cfx_module_new("M", called_twice, "x");
    cfx_nn_add(m, "s", cfx_nn_sequential(cfx_nn_relu()));
    cfx_graph *g = cfx_tracer_trace(NULL, m);
    cfx_value stack = cfx_node_get_meta(cfx_graph_find(g, "s_1"), "nn_module_stack");
    CHECK_STR(cfx_repr(stack), "{'s@1': ('s', 'torch.nn.modules.container.Sequential'), "
                               "'s.0@1': ('s.0', 'torch.nn.modules.activation.ReLU')}");
}

static cfx_value functional(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = cfx_py("torch.nn.functional.softmax", a.v[0], -1, CFX_KW(dtype, cfx_f32));
    return cfx_py("torch.nn.functional.relu", x);
}

TEST(functions_of_torch_nn_functional_name_their_defaults) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("F", functional, "x"));
    CHECK_STR(cfx_graph_str(gm->graph),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %softmax : [num_users=1] = call_function[target=torch.nn.functional.softmax]"
              "(args = (%x,), kwargs = {dim: -1, _stacklevel: 3, dtype: torch.float32})\n"
              "    %relu : [num_users=1] = call_function[target=torch.nn.functional.relu](args = "
              "(%softmax,), kwargs = {inplace: False})\n"
              "    return relu");
    CHECK_STR(cfx_str(cfx_forward(gm, cfx_full(cfx_list(1, 4), 2.0))),
              "tensor([[0.2500, 0.2500, 0.2500, 0.2500]])");
}

static cfx_value of_torch(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = a.v[0], parts = cfx_split(x, 1);
    return cfx_list(parts, cfx_py("torch.split", x, cfx_list(1, 1), CFX_KW(dim, 1)),
                    cfx_py("torch.norm", x), cfx_py("torch.einsum", "ij->i", x),
                    cfx_py("torch.meshgrid", x, x), cfx_py("F.gelu", x), cfx_py("F.tanh", x),
                    cfx_conv2d(x, x), cfx_py("F.conv2d", x, x), cfx_linalg_norm(x),
                    cfx_py("torch.special.expit", x), cfx_py("F.elu_", x),
                    cfx_py("operator.sub", cfx_ones(1), x));
}

TEST(functions_have_the_names_that_python_gives_them) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("F", of_torch, "x"));
    CHECK_STR(cfx_module_code(gm), /* torch.fx's */
              "\n\n\ndef forward(self, x):\n"
              "    split = torch.functional.split(x, 1, dim = 0)\n"
              "    split_1 = torch.functional.split(x, [1, 1], dim = 1)\n"
              "    norm = torch.functional.norm(x, p = 'fro', dim = None, keepdim = False, "
              "out = None, dtype = None)\n"
              "    einsum = torch.functional.einsum('ij->i', x)\n"
              "    meshgrid = torch.functional.meshgrid(x, x, indexing = None)\n"
              "    gelu = torch._C._nn.gelu(x)\n"
              "    tanh = x.tanh()\n"
              "    conv2d = torch.conv2d(x, x)\n"
              "    conv2d_1 = torch.conv2d(x, x)\n"
              "    linalg_norm = torch._C._linalg.linalg_norm(x)\n"
              "    special_expit = torch._C._special.special_expit(x)\n"
              "    elu_ = torch._C._nn.elu_(x)\n"
              "    _tensor_constant0 = self._tensor_constant0\n"
              "    sub = _tensor_constant0.sub(x);  _tensor_constant0 = x = None\n"
              "    return [split, split_1, norm, einsum, meshgrid, gelu, tanh, conv2d, conv2d_1, "
              "linalg_norm, special_expit, elu_, sub]\n    ");
    cfx_node *n = cfx_graph_find(gm->graph, "split");
    CHECK(cfx_node_is(n, "split") && cfx_node_is(n, "torch.split") &&
          cfx_node_is(n, "torch.functional.split") && !cfx_node_is(n, "torch.relu"));
    CHECK(cfx_node_is(cfx_graph_find(gm->graph, "gelu"), "F.gelu"));
    CHECK_INT(cfx_as_list(cfx_graph_find_nodes(gm->graph, CFX_CALL_FUNCTION, "F.conv2d"))->len, 2);
}

/* ---- signatures ------------------------------------------------------------------------------ */

static cfx_value star(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = cfx_py("operator.add", a.v[0], cfx_at(a.v[1], 0));
    return cfx_py("operator.add", x, cfx_py("operator.getitem", a.v[2], "k"));
}

static cfx_value typed(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value y = cfx_py("operator.mul", a.v[0], a.v[1]);
    return cfx_py("torch.cat", cfx_list(y, a.v[0]), CFX_KW(dim, 0));
}

TEST(signatures_become_placeholders) {
    CHECK_STR(
        traced(cfx_module_new("VarArgs", star, "x, *args, **kwargs")),
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %_args : [num_users=1] = placeholder[target=*args]\n"
        "    %_kwargs : [num_users=1] = placeholder[target=**kwargs]\n"
        "    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%_args, "
        "0), kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%x, %getitem), "
        "kwargs = {})\n"
        "    %getitem_1 : [num_users=1] = call_function[target=operator.getitem](args = "
        "(%_kwargs, k), kwargs = {})\n"
        "    %add_1 : [num_users=1] = call_function[target=operator.add](args = (%add, "
        "%getitem_1), kwargs = {})\n"
        "    return add_1");
    CHECK_STR(
        traced(cfx_module_new("Typed", typed, "x : torch.Tensor, n : int -> torch.Tensor")),
        "graph():\n"
        "    %x : torch.Tensor [num_users=2] = placeholder[target=x]\n"
        "    %n : int [num_users=1] = placeholder[target=n]\n"
        "    %mul : [num_users=1] = call_function[target=operator.mul](args = (%x, %n), kwargs = "
        "{})\n"
        "    %cat : [num_users=1] = call_function[target=torch.cat](args = ([%mul, %x],), kwargs "
        "= {dim: 0})\n"
        "    return cat");
}

static cfx_value keyword_only(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("operator.add", a.v[0], a.v[2]);
}

TEST(parameters_that_keywords_reach_come_before_the_rest) {
    cfx_module *m = cfx_module_new("M", keyword_only, "x : int, *args, k : int = 1, **kw -> int");
    const char *code = cfx_module_code(cfx_symbolic_trace(m)); /* torch.fx's, without "-> int" */
    CHECK_STR(code, "\n\n\ndef forward(self, x : int, k : int = 1, *args, **kw):\n"
                    "    _args = args\n"
                    "    _kw = kw\n"
                    "    add = x + k;  x = k = None\n"
                    "    return add\n    ");
    CHECK_STR(cfx_repr(cfx_forward_value(cfx_symbolic_trace(m), 2, CFX_KW(k, 5))), "7");
}

static cfx_value flagged(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_method(a.v[0], cfx_is_true(a.v[1]) ? "relu" : "neg");
}

TEST(concrete_arguments_are_asserted) {
    cfx_tracer t = {.concrete_args = cfx_dict_new()};
    cfx_dict_set(t.concrete_args, "flag", cfx_bool(true));
    cfx_graph *g = cfx_tracer_trace(&t, cfx_module_new("M", flagged, "x, flag"));
    CHECK_STR(
        cfx_graph_str(g),
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %flag_1 : [num_users=1] = placeholder[target=flag_1]\n"
        "    %eq : [num_users=1] = call_function[target=operator.eq](args = (%flag_1, True), "
        "kwargs = {})\n"
        "    %_assert : [num_users=0] = call_function[target=torch._assert](args = (%eq, flag has "
        "been specialized to have value True but got another value), kwargs = {})\n"
        "    %relu : [num_users=1] = call_method[target=relu](args = (%x,), kwargs = {})\n"
        "    return relu");
}

static cfx_value of_tree(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value pair = cfx_dict_get(cfx_as_dict(a.v[1]), "b");
    cfx_dict *out = cfx_dict_new();
    cfx_dict_set(out, "sum",
                 cfx_py("operator.add", a.v[0], cfx_dict_get(cfx_as_dict(a.v[1]), "a")));
    cfx_dict_set(out, "pair", cfx_tuple(cfx_at(pair, 0), cfx_at(pair, 1)));
    return cfx_dict_value(out);
}

static cfx_dict *tree(cfx_value a, cfx_value b, cfx_value c) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", a);
    cfx_dict_set(d, "b", cfx_list(b, c));
    return d;
}

TEST(nested_arguments_are_taken_apart) {
    cfx_module *m = cfx_module_new("Tree", of_tree, "x, d");
    cfx_value free_leaf = cfx_ellipsis();
    cfx_tracer t = {.concrete_args = cfx_dict_new()};
    cfx_dict_set(t.concrete_args, "d", cfx_dict_value(tree(free_leaf, free_leaf, cfx_int(7))));
    cfx_module *gm = cfx_graph_module(m, cfx_tracer_trace(&t, m), NULL);
    CHECK_OK();
    const char *code =
        "\n\n\ndef forward(self, x, d):\n"
        "    self, x, d_1, d_2, d_3, = fx_pytree.tree_flatten_spec([self, x, d], self._in_spec)\n"
        "    eq = d_3 == 7;  d_3 = None\n"
        "    _assert = torch._assert(eq, 'd has been specialized to have value 7 but got another "
        "value');  eq = _assert = None\n"
        "    add = x + d_1;  x = d_1 = None\n"
        "    return pytree.tree_unflatten([add, d_2, 7], self._out_spec)\n    ";
    CHECK_STR(cfx_module_code(gm), code);
    cfx_value one = cfx_tensor_value(ones(1));
    cfx_dict *d = tree(one, one, cfx_int(7));
    const char *want = "{'sum': tensor([2.]), 'pair': (tensor([1.]), 7)}";
    CHECK_STR(cfx_repr(cfx_forward_value(gm, one, d)), want);
    CHECK_STR(cfx_repr(cfx_forward_value(gm, one, CFX_KW(d, d))), want);
    CHECK_STR(cfx_repr(cfx_forward_value(cfx_module_copy(gm), one, d)), want);
    cfx_interp it = {.module = gm};
    CHECK_STR(cfx_module_code(cfx_transform(&it)), code);
    CHECK_STR(cfx_repr(cfx_run(&it, one, d)), want);
    CHECK_OK();
    cfx_forward_value(gm, one, cfx_list(one));
    CHECK_ERROR("Trying to flatten argument 'd' with tree spec");
    cfx_forward_value(gm, one);
    CHECK_ERROR("forward() missing 1 required positional argument: 'd'");
    cfx_graph *back = cfx_graph_parse(code, "code");
    CHECK_OK();
    CHECK(back && cfx_graph_equal(back, gm->graph));
    CHECK_STR(cfx_graph_code(back), code);
    cfx_forward_value(cfx_graph_module(NULL, back, NULL), one, d);
    CHECK_ERROR("how 'd' is nested is not known");
}

/* ---- what cannot be traced ------------------------------------------------------------------- */

static cfx_tensor *branching(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_is_true(cfx_py("operator.gt", cfx_method(x, "sum"), 0)) ? cfx_relu(x) : x;
}

static cfx_tensor *uses_dim(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_add(x, cfx_dim(x, 0));
}

TEST(control_flow_on_a_traced_value_is_refused) {
    CHECK(cfx_failed(cfx_tracer_trace(NULL, cfx_module_new("ControlFlowIf", branching, "x"))));
    const cfx_error *e = cfx_error_last();
    CHECK(e && e->kind == CFX_TRACE_ERROR && e->at.file && strstr(e->at.file, "symbolic_test.c"));
    CHECK_ERROR("symbolically traced variables cannot be used as inputs to control flow");
    CHECK(cfx_failed(cfx_tracer_trace(NULL, cfx_module_new("UsesDim", uses_dim, "x"))));
    CHECK_ERROR("the size of a traced tensor is not a number yet; use cfx_size");
}


/* ---- hooks ----------------------------------------------------------------------------------- */

static cfx_value doubles(cfx_event *e) { return cfx_py("operator.mul", e->out, 2); }

static cfx_value adds_one(cfx_event *e) {
    return cfx_tuple(cfx_py("operator.add", e->args.v[0], 1));
}

static cfx_value reads(cfx_event *e) {
    cfx_tensor_get(cfx_as_tensor(e->out), 0);
    return CFX_NONE;
}

static cfx_tensor *inner_block(cfx_module *self, cfx_tensor *x) {
    return cfx_neg(cfx_call(self, "block", x));
}

static cfx_tensor *just_relu(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_relu(x);
}

TEST(hooks_are_recorded_never_skipped) {
    cfx_module *m = cfx_module_new("Root", inner_block, "x");
    cfx_nn_add(m, "block", cfx_module_new("Block", just_relu, "x"));
    cfx_hook(m, "", doubles, NULL);
    cfx_pre_hook(m, "", adds_one, NULL);
    cfx_hook(m, "block", doubles, NULL);
    cfx_module *gm = cfx_symbolic_trace(m);
    CHECK_STR(cfx_graph_str(gm->graph),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), "
              "kwargs = {})\n"
              "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%add,), kwargs "
              "= {})\n"
              "    %mul : [num_users=1] = call_function[target=operator.mul](args = (%relu, 2), "
              "kwargs = {})\n"
              "    %neg : [num_users=1] = call_function[target=torch.neg](args = (%mul,), kwargs = "
              "{})\n"
              "    %mul_1 : [num_users=1] = call_function[target=operator.mul](args = (%neg, 2), "
              "kwargs = {})\n"
              "    return mul_1");
    CHECK_STR(cfx_str(cfx_forward(gm, ones(2))), cfx_str(cfx_forward(m, ones(2))));
    CHECK_OK();
    cfx_hook(m, "block", reads, NULL); /* wants numbers: refused */
    CHECK(cfx_failed(cfx_symbolic_trace(m)));
    CHECK_ERROR("");
}

TEST(hooks_of_leaves_run_with_the_graph) {
    cfx_module *m = new_nested(), *gm;
    cfx_hook(m, "head.a", doubles, NULL);
    gm = cfx_symbolic_trace(m);
    cfx_tensor *x = cfx_full(cfx_list(1, 4, 3, 3), 1.0);
    cfx_module_train(m, false);
    CHECK_STR(cfx_repr(cfx_forward_value(gm, x)), cfx_repr(cfx_forward_value(m, x)));
    CHECK_OK();
}

/* ---- opaque functions ------------------------------------------------------------------------ */

static cfx_value twice(cfx_args a) { return cfx_py("operator.mul", a.v[0], 2); }

static cfx_value wrapping(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_wrap("twice", twice, a.v[0]);
}

TEST(wrapped_functions_are_one_node_and_still_run) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("W", wrapping, "x"));
    CHECK_INT(cfx_graph_len(gm->graph), 3);
    CHECK_STR(cfx_str(cfx_forward(gm, ones(2))), "tensor([2., 2.])");
    CHECK_STR(cfx_str(cfx_wrap("twice", twice, ones(1))), "tensor([2.])");
}

/* A factor, and how many of them there were and are gone. */
typedef struct {
    double by;
    int *freed;
} factor;

static cfx_value factor_call(void *data, cfx_args a) {
    return cfx_py("operator.mul", a.v[0], ((const factor *)data)->by);
}

static void factor_free(void *data) {
    ++*((factor *)data)->freed;
    free(data);
}

static const cfx_object_type factor_type = {
    .name = "Factor", .call = factor_call, .free = factor_free};

static cfx_value factor_new(double by, int *freed) {
    factor *f = malloc(sizeof *f);
    *f = (factor){by, freed};
    return cfx_object_value(&factor_type, f);
}

static int factors_freed;

static cfx_value wrapping_factors(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value v = cfx_wrap_object("by", factor_new(2, &factors_freed), a.v[0]);
    return cfx_wrap_object("by", factor_new(5, &factors_freed), v);
}

TEST(wrapped_objects_bring_data_of_their_own_which_goes_with_the_graph) {
    factors_freed = 0;
    CFX_SCOPE {
        cfx_module *gm = cfx_symbolic_trace(cfx_module_new("W", wrapping_factors, "x"));
        CHECK_INT(cfx_graph_len(gm->graph), 4);
        CHECK_STR(cfx_str(cfx_forward(gm, ones(2))), "tensor([10., 10.])");
        CHECK_INT(factors_freed, 0);
    }
    CHECK_INT(factors_freed, 2);
    cfx_wrap_object("f", cfx_int(3), ones(1));
    CHECK_ERROR("a wrapped object has a name and can be called");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static cfx_value sized(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value n = cfx_size(cfx_as_tensor(a.v[0]), 0);
    cfx_value flat = cfx_method(a.v[0], "view", n, -1);
    return cfx_py("operator.add", flat, cfx_zeros(n, 1));
}

TEST(sizes_are_values_that_any_argument_takes) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("Sized", sized, "x"));
    CHECK_STR(
        cfx_graph_str(gm->graph),
        "graph():\n"
        "    %x : [num_users=2] = placeholder[target=x]\n"
        "    %size : [num_users=2] = call_method[target=size](args = (%x, 0), kwargs = {})\n"
        "    %view : [num_users=1] = call_method[target=view](args = (%x, %size, -1), kwargs = "
        "{})\n"
        "    %zeros : [num_users=1] = call_function[target=torch.zeros](args = (%size, 1), kwargs "
        "= {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%view, %zeros), "
        "kwargs = {})\n"
        "    return add");
    cfx_tensor *y = cfx_forward(gm, cfx_full(cfx_list(2, 2, 2), 1.0));
    CHECK_STR(cfx_str(y), "tensor([[1., 1., 1., 1.],\n        [1., 1., 1., 1.]])");
}

TEST(what_python_asks_of_values_is_asked_of_plain_ones) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", cfx_int(1));
    cfx_dict_set(d, "b", cfx_int(2));
    CHECK_INT(cfx_len(cfx_list(1, 2, 3)), 3);
    CHECK_INT(cfx_len(cfx_dict_value(d)), 2);
    CHECK_INT(cfx_len(cfx_string_value("four")), 4);
    CHECK_INT(cfx_len(cfx_zeros(cfx_list(5, 2))), 5);
    CHECK_OK();
    CHECK_INT(cfx_len(cfx_tensor_from_value(cfx_int(1))), -1);
    CHECK_ERROR("len() of a 0-d tensor");
    CHECK_INT(cfx_len(3), -1);
    CHECK_ERROR("object of type 'int' has no len()");
    CHECK_STR(cfx_str(cfx_items(cfx_dict_value(d))), "['a', 'b']");
    CHECK_STR(cfx_str(cfx_items(cfx_tuple(1, 2))), "[1, 2]");
    CHECK_STR(cfx_str(cfx_items(cfx_tensor(cfx_list(1.0, 2.0)))), "[tensor(1.), tensor(2.)]");
    CHECK_OK();
    cfx_items(cfx_tensor_from_value(cfx_int(1)));
    CHECK_ERROR("iteration over a 0-d tensor");
    cfx_items(3);
    CHECK_ERROR("'int' object is not iterable");
    CHECK(cfx_is_true(cfx_string_value("x")) && !cfx_is_true(cfx_string_value("")));
    CHECK(!cfx_is_true(cfx_ones(cfx_list(2))));
    CHECK_ERROR("Boolean value of Tensor with more than one value is ambiguous");
    CHECK(!cfx_is_true(cfx_ones(cfx_list(0))));
    CHECK_ERROR("Boolean value of Tensor with no values is ambiguous");
    CHECK(!cfx_is_tracing());
}
