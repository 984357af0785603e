/* Programs that run: inputs and their mistakes, writes, trees, sub-graphs, threads, modules. */
#include "test.h"

#include "run.h"

#include <pthread.h>

/* A program from the text of its graph: placeholders p_NAME are parameters, b_NAME buffers, the
 * rest are the caller's. */
static cfx_program *parse(const char *text) {
    cfx_module *gm = cfx_module_parse(text, "test");
    cfx_program *p = cfx_program_new(gm);
    cfx_each_node(gm->graph, n) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        bool parameter = !strncmp(n->name, "p_", 2), buffer = !strncmp(n->name, "b_", 2);
        cfx_program_add_input(p,
                              (cfx_input_spec){.kind = parameter ? CFX_IN_PARAMETER
                                                       : buffer  ? CFX_IN_BUFFER
                                                                 : CFX_IN_USER,
                                               .name = n->name,
                                               .persistent = true,
                                               .target = parameter || buffer ? n->name + 2 : NULL});
    }
    return p;
}

static cfx_tensor *row(double a, double b) { return cfx_tensor_from_value(cfx_list(a, b)); }

static void set(cfx_program *p, const char *name, cfx_tensor *t) {
    cfx_dict_set(p->state, name, cfx_tensor_value(t));
}

static const char affine[] =
    "class GraphModule(torch.nn.Module):\n"
    "    def forward(self, p_w: \"f32[2]\", x: \"f32[2]\", y: \"f32[2]\"):\n"
    "        mul: \"f32[2]\" = torch.ops.aten.mul.Tensor(x, p_w);  x = p_w = None\n"
    "        sub: \"f32[2]\" = torch.ops.aten.sub.Tensor(mul, y);  mul = y = None\n"
    "        return (sub,)\n";

static cfx_program *new_affine(void) {
    cfx_program *p = parse(affine);
    set(p, "w", row(2, 10));
    return p;
}

TEST(program_runs_on_flat_inputs) {
    cfx_program *p = new_affine();
    CHECK_STR(cfx_str(cfx_program_run(p, row(1, 2), row(1, 1))), "(tensor([ 1., 19.]),)");
    CHECK_STR(cfx_str(cfx_program_run(p, row(1, 2), CFX_KW(y, row(0, 0)))),
              "(tensor([ 2., 20.]),)");
    cfx_program_run(p, row(1, 2));
    CHECK_ERROR("Unexpected number of inputs (expected 2, got 1)");
    cfx_program_run_from(CFX_HERE, NULL, (cfx_args){0});
    CHECK_ERROR("the program is NULL");
}

/* forward(self, batch, *, y) -> {"out": result} */
static cfx_program *new_tree(void) {
    cfx_program *p = new_affine();
    cfx_dict *batch = cfx_dict_new(), *kw = cfx_dict_new(), *out = cfx_dict_new();
    cfx_dict_set(batch, "x", cfx_ellipsis());
    cfx_dict_set(kw, "y", cfx_ellipsis());
    cfx_dict_set(out, "out", cfx_ellipsis());
    p->in_spec = cfx_value_keep(cfx_tuple(cfx_tuple(batch), kw));
    p->out_spec = cfx_value_keep(cfx_dict_value(out));
    return p;
}

TEST(program_takes_and_gives_trees) {
    cfx_program *p = new_tree();
    cfx_dict *batch = cfx_dict_new();
    cfx_dict_set(batch, "x", cfx_tensor_value(row(1, 2)));
    CHECK_STR(cfx_str(cfx_program_run(p, batch, CFX_KW(y, row(1, 1)))),
              "{'out': tensor([ 1., 19.])}");
    CHECK_STR(cfx_str(cfx_program_run(p, row(1, 2), row(1, 1))), "{'out': tensor([ 1., 19.])}");
    cfx_program_run(p, row(1, 2), CFX_KW(y, row(1, 1)));
    CHECK_ERROR("Trying to flatten user inputs with exported input tree spec: \n"
                "TreeSpec(tuple, None, [TreeSpec(tuple, None, [TreeSpec(dict, ['x'], [*])]),\n"
                "  TreeSpec(dict, ['y'], [*])])\n"
                "but actually got inputs with tree spec of: \n"
                "TreeSpec(tuple, None, [TreeSpec(tuple, None, [*]),\n"
                "  TreeSpec(dict, ['y'], [*])]).\n");
    cfx_dict_set(batch, "x", cfx_tensor_value(cfx_zeros(cfx_list(3))));
    cfx_program_run(p, batch, CFX_KW(y, row(1, 1)));
    CHECK_ERROR("Expected input at *args[0]['x'].shape[0] to be equal to 2, but got 3");
    cfx_dict_set(batch, "x", cfx_tensor_value(row(1, 2)));
    cfx_program_run(p, batch, CFX_KW(y, 1));
    CHECK_ERROR("Expected input at 'y' to be a tensor, but got <class 'int'>");
}

TEST(program_without_numbers_runs_on_fake_tensors) {
    cfx_program *p = parse(affine);
    int64_t two = 2;
    set(p, "w", cfx_tensor_fake(CFX_F32, 1, &two, NULL));
    cfx_program_run(p, row(1, 2), row(1, 1));
    CHECK_ERROR("the program was saved without the numbers of 'w'");
    cfx_value y = cfx_program_run(p, cfx_tensor_fake(CFX_F32, 1, &two, NULL), row(1, 1));
    CHECK(cfx_tensor_is_fake(cfx_tensor_at(y, 0)));
}

TEST(program_checks_rank_and_dtype) {
    cfx_program *p = new_affine();
    cfx_program_run(p, row(1, 2), cfx_zeros(cfx_list(1, 2)));
    CHECK_ERROR("Unexpected number of dimensions in input at *args[1].shape (expected "
                "torch.Size([2]), got torch.Size([1, 2]))");
    cfx_program_run(p, row(1, 2), cfx_zeros(cfx_list(2), CFX_KW(dtype, cfx_f64)));
    CHECK(strstr(cfx_error_last()->notes, "Input y is declared as f32[2]") != NULL);
    CHECK_ERROR("Expected input at *args[1] to be of dtype torch.float32, but got torch.float64");
}

TEST(program_checks_symbolic_sizes) {
    cfx_program *p =
        parse("class GraphModule(torch.nn.Module):\n"
              "    def forward(self, x: \"f32[s0, 2]\", y: \"f32[s0]\", z: \"f32[2*s1 + 1]\"):\n"
              "        sum_1: \"f32[s0]\" = torch.ops.aten.sum.dim_IntList(x, [1]);  x = None\n"
              "        add: \"f32[s0]\" = torch.ops.aten.add.Tensor(sum_1, y);  sum_1 = y = None\n"
              "        return (add,)\n");
    cfx_dict_set(p->ranges, "s0", cfx_tuple(3, 5));
    cfx_tensor *x = cfx_ones(cfx_list(4, 2)), *y = cfx_ones(cfx_list(4)), *z = cfx_ones(3);
    CHECK_STR(cfx_str(cfx_program_run(p, x, y, z)), "(tensor([3., 3., 3., 3.]),)");
    cfx_program_run(p, x, cfx_ones(3), z);
    CHECK_ERROR("Expected input at *args[1].shape[0] to be equal to 4, but got 3");
    cfx_program_run(p, cfx_ones(cfx_list(6, 2)), y, z);
    CHECK(strstr(cfx_error_last()->notes, "Input x is declared as f32[s0, 2], with s0 in [3, 5]") !=
          NULL);
    CHECK_ERROR("Expected input at *args[0].shape[0] to be <= 5, but got 6");
    cfx_program_run(p, cfx_ones(cfx_list(2, 2)), y, z);
    CHECK_ERROR("Expected input at *args[0].shape[0] to be >= 3, but got 2");
    cfx_program_run(p, x, y, cfx_ones(4));
    CHECK_ERROR("to be of the form 2*s1 + 1, where s1 is an integer");
}

/* What the exporter saw forward decide by sizes. */
TEST(program_checks_guards) {
    cfx_program *p =
        parse("class GraphModule(torch.nn.Module):\n"
              "    def forward(self, x: \"f32[s0, 2]\", pair_a_b_0: \"f32[s1]\", n):\n"
              "        sum_1: \"f32[s0]\" = torch.ops.aten.sum.dim_IntList(x, [1]);  x = None\n"
              "        return (sum_1,)\n");
    cfx_dict_set(p->extra, "guards",
                 cfx_list("L['x'].size()[0] != 7", "(L['Pair']['a.b'][0].size()[0] % 4) == 0",
                          "2*L['x'].size()[0] < L['n'] + L['x'].stride()[0]",
                          "what_nobody_knows(L['x'])", "L['y'].size()[0] == 3"));
    cfx_tensor *y = cfx_ones(8);
    CHECK_STR(cfx_str(cfx_program_run(p, cfx_ones(cfx_list(2, 2)), y, 9)), "(tensor([2., 2.]),)");
    cfx_program_run(p, cfx_ones(cfx_list(7, 2)), y, 90);
    CHECK_ERROR("Guard failed: x.size()[0] != 7");
    cfx_program_run(p, cfx_ones(cfx_list(2, 2)), cfx_ones(6), 9);
    CHECK_ERROR("Guard failed: Pair['a.b'][0].size()[0] % 4 == 0");
    cfx_program_run(p, cfx_ones(cfx_list(6, 2)), y, 9);
    CHECK_ERROR("Guard failed: 2 * x.size()[0] < n + x.stride()[0]");
    cfx_forward(cfx_program_module(p), cfx_ones(cfx_list(7, 2)), y, 90);
    CHECK_ERROR("Guard failed: x.size()[0] != 7");
}

/* ---- writes ---------------------------------------------------------------------------------- */

static cfx_program *new_counter(void) {
    cfx_program *p = parse("class GraphModule(torch.nn.Module):\n"
                           "    def forward(self, b_count: \"f32[2]\", x: \"f32[2]\"):\n"
                           "        add: \"f32[2]\" = torch.ops.aten.add.Tensor(b_count, x)\n"
                           "        neg: \"f32[2]\" = torch.ops.aten.neg.default(x)\n"
                           "        mul: \"f32[2]\" = torch.ops.aten.mul.Tensor(add, 2)\n"
                           "        return (add, neg, mul)\n");
    set(p, "count", row(1, 2));
    cfx_program_add_output(
        p, (cfx_output_spec){.kind = CFX_OUT_BUFFER_MUTATION, .name = "add", .target = "count"});
    cfx_program_add_output(
        p, (cfx_output_spec){.kind = CFX_OUT_INPUT_MUTATION, .name = "neg", .target = "x"});
    cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .name = "mul"});
    p->out_spec = cfx_ellipsis();
    return p;
}

TEST(program_writes_buffers_and_inputs_back) {
    cfx_program *p = new_counter();
    cfx_tensor *x = row(1, 1);
    CHECK_STR(cfx_str(cfx_program_run(p, x)), "tensor([4., 6.])");
    CHECK_STR(cfx_str(cfx_dict_get(p->state, "count")), "tensor([2., 3.])");
    CHECK_STR(cfx_str(x), "tensor([-1., -1.])");
    CHECK_STR(cfx_str(cfx_program_run(p, x)), "tensor([2., 4.])");
}

TEST(program_becomes_a_module) {
    cfx_module *m = cfx_program_module(new_tree());
    CHECK_STR(cfx_module_code(m),
              "\n\n\ndef forward(self, arg_0, y):\n"
              "    x, y, = fx_pytree.tree_flatten_spec(([arg_0], {'y':y}), self._in_spec)\n"
              "    w = self.w\n"
              "    mul = torch.ops.aten.mul.Tensor(x, w);  x = w = None\n"
              "    sub = torch.ops.aten.sub.Tensor(mul, y);  mul = y = None\n"
              "    return pytree.tree_unflatten((sub,), self._out_spec)\n    ");
    CHECK_INT(cfx_module_named_parameters(m)->len, 1);
    CHECK(!cfx_tensor_requires_grad(cfx_as_tensor(cfx_module_attr(m, "w"))));
    cfx_dict *batch = cfx_dict_new();
    cfx_dict_set(batch, "x", cfx_tensor_value(row(1, 2)));
    CHECK_STR(cfx_str(cfx_forward_value(m, batch, CFX_KW(y, row(1, 1)))),
              "{'out': tensor([ 1., 19.])}");
    cfx_program *p = new_counter();
    m = cfx_program_module(p);
    cfx_tensor *x = row(1, 1);
    CHECK_STR(cfx_str(cfx_forward_value(m, x)), "(tensor([4., 6.]),)");
    CHECK_STR(cfx_str(cfx_module_attr(m, "count")), "tensor([2., 3.])");
    CHECK_STR(cfx_str(x), "tensor([-1., -1.])");
}

/* ---- operators that are not there ------------------------------------------------------------ */

TEST(program_lists_all_unknown_operators) {
    cfx_program *p = parse("class GraphModule(torch.nn.Module):\n"
                           "    def forward(self, x):\n"
                           "        bar = torch.ops.foo.bar.default(x);  x = None\n"
                           "        bar_1 = torch.ops.foo.bar.default(bar);  bar = None\n"
                           "        baz = torch.ops.foo.baz.default(bar_1);  bar_1 = None\n"
                           "        return (baz,)\n");
    cfx_program_run(p, row(1, 2));
    CHECK_ERROR("2 operators of this program are not registered; see cfx_op_register\n"
                "  torch.ops.foo.bar.default: 2 nodes (bar, bar_1)\n"
                "  torch.ops.foo.baz.default: 1 node (baz)");
}

/* A graph that nothing names is not run. */
TEST(program_runs_beside_unknown_operators_that_nobody_calls) {
    cfx_program *p = parse("class GraphModule(torch.nn.Module):\n"
                           "    def forward(self, x: \"f32[2]\"):\n"
                           "        relu = torch.ops.aten.relu.default(x);  x = None\n"
                           "        return (relu,)\n"
                           "    class spare(torch.nn.Module):\n"
                           "        def forward(self, x: \"f32[2]\"):\n"
                           "            bar: \"f32[2]\" = torch.ops.foo.bar.default(x);  x = None\n"
                           "            return (bar,)\n");
    CHECK(cfx_module_find(p->module, "spare") != NULL);
    CHECK_STR(cfx_str(cfx_program_run(p, row(1, 2))), "(tensor([1., 2.]),)");
    CHECK_STR(cfx_str(cfx_program_run(cfx_decompose(p, CFX_NONE), row(1, 2))),
              "(tensor([1., 2.]),)");
    CHECK_OK();
}

static void twice(cfx_op_call *c) { c->out[0] = cfx_mul(c->args[0], 2); }

TEST(operator_registered_after_the_program_was_made) {
    cfx_program *p = parse("class GraphModule(torch.nn.Module):\n"
                           "    def forward(self, x):\n"
                           "        twice = torch.ops.late.twice.default(x);  x = None\n"
                           "        return (twice,)\n");
    static cfx_op op = {.schema = "late::twice(Tensor self) -> Tensor", .decompose = twice};
    CHECK(cfx_op_register(&op));
    CHECK_STR(cfx_str(cfx_program_run(p, row(1, 2))), "(tensor([2., 4.]),)");
}

/* ---- sub-graphs ------------------------------------------------------------------------------ */

TEST(cond_takes_one_branch) {
    cfx_program *p = parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, flag: \"b8[]\", x: \"f32[2]\"):\n"
        "        t = self.t\n"
        "        f = self.f\n"
        "        cond = torch.ops.higher_order.cond(flag, t, f, [x]);  flag = t = f = x = None\n"
        "        getitem: \"f32[2]\" = cond[0];  cond = None\n"
        "        return (getitem,)\n"
        "\n"
        "    class t(torch.nn.Module):\n"
        "        def forward(self, x: \"f32[2]\"):\n"
        "            neg: \"f32[2]\" = torch.ops.aten.neg.default(x);  x = None\n"
        "            return (neg,)\n"
        "\n"
        "    class f(torch.nn.Module):\n"
        "        def forward(self, x: \"f32[2]\"):\n"
        "            mul: \"f32[2]\" = torch.ops.aten.mul.Tensor(x, 3);  x = None\n"
        "            return (mul,)\n");
    cfx_value yes = cfx_tensor_value(cfx_ones(cfx_list_value(0, NULL), CFX_KW(dtype, cfx_b8)));
    cfx_value no = cfx_tensor_value(cfx_zeros(cfx_list_value(0, NULL), CFX_KW(dtype, cfx_b8)));
    CHECK_STR(cfx_str(cfx_program_run(p, yes, row(1, 2))), "(tensor([-1., -2.]),)");
    CHECK_STR(cfx_str(cfx_program_run(p, no, row(1, 2))), "(tensor([3., 6.]),)");
}

TEST(while_loop_goes_on_while_its_graph_says_so) {
    cfx_program *p =
        parse("class GraphModule(torch.nn.Module):\n"
              "    def forward(self, n: \"i64[]\", x: \"f32[2]\", k: \"f32[2]\"):\n"
              "        c = self.c\n"
              "        b = self.b\n"
              "        loop = torch.ops.higher_order.while_loop(c, b, [n, x], [k]);  c = b = None\n"
              "        getitem: \"i64[]\" = loop[0]\n"
              "        getitem_1: \"f32[2]\" = loop[1];  loop = None\n"
              "        return (getitem, getitem_1)\n"
              "\n"
              "    class c(torch.nn.Module):\n"
              "        def forward(self, n: \"i64[]\", x: \"f32[2]\", k: \"f32[2]\"):\n"
              "            lt: \"b8[]\" = torch.ops.aten.lt.Scalar(n, 3);  n = None\n"
              "            return lt\n"
              "\n"
              "    class b(torch.nn.Module):\n"
              "        def forward(self, n: \"i64[]\", x: \"f32[2]\", k: \"f32[2]\"):\n"
              "            add: \"i64[]\" = torch.ops.aten.add.Tensor(n, 1);  n = None\n"
              "            mul: \"f32[2]\" = torch.ops.aten.mul.Tensor(x, k);  x = k = None\n"
              "            return (add, mul)\n");
    cfx_value n = cfx_tensor_value(cfx_tensor_from_value(cfx_int(0)));
    CHECK_STR(cfx_str(cfx_program_run(p, n, row(1, 2), row(2, 1))),
              "(tensor(3), tensor([8., 2.]))");
    n = cfx_tensor_value(cfx_tensor_from_value(cfx_int(7)));
    CHECK_STR(cfx_str(cfx_program_run(p, n, row(1, 2), row(2, 1))),
              "(tensor(7), tensor([1., 2.]))");
}

/* One program over a sub-graph `g` of two tensors, which the call puts to use. */
static cfx_program *over(const char *call) {
    return parse(cfx__text_format("class GraphModule(torch.nn.Module):\n"
                                  "    def forward(self, xs, k):\n"
                                  "        g = self.g\n"
                                  "        made = torch.ops.higher_order.%s\n"
                                  "        return made\n"
                                  "\n"
                                  "    class g(torch.nn.Module):\n"
                                  "        def forward(self, a, b):\n"
                                  "            add = torch.ops.aten.add.Tensor(a, b)\n"
                                  "            mul = torch.ops.aten.mul.Tensor(a, b)\n"
                                  "            return (%s)\n",
                                  call, strncmp(call, "associative", 11) ? "add, mul" : "add,"));
}

TEST(graphs_are_mapped_and_scanned_over_the_first_dimension) {
    cfx_tensor *xs = cfx_tensor_from_value(cfx_list(cfx_list(1.0, 2.0), cfx_list(3.0, 4.0)));
    CHECK_STR(cfx_str(cfx_program_run(over("map_impl(g, [xs], [k])"), xs, row(1, 10))),
              "(tensor([[ 2., 12.],\n        [ 4., 14.]]), tensor([[ 1., 20.],\n        [ 3., "
              "40.]]))");
    CHECK_STR(cfx_str(cfx_program_run(over("scan(g, [k], [xs], [])"), xs, row(1, 10))),
              "(tensor([ 5., 16.]), tensor([[ 1., 20.],\n        [ 6., 48.]]))");
    CHECK_STR(cfx_str(cfx_program_run(over("scan(g, [k], [xs], 0, True, [])"), xs, row(1, 10))),
              "(tensor([ 5., 16.]), tensor([[ 4., 28.],\n        [ 3., 40.]]))");
    CHECK_STR(cfx_str(cfx_program_run(over("associative_scan(g, [xs], [])"), xs, row(0, 0))),
              "(tensor([[1., 2.],\n        [4., 6.]]),)");
    cfx_program_run(over("map_impl(g, [xs, k], [])"), xs, cfx_ones(3));
    CHECK_ERROR("all xs leaves must be tensors with the same leading dimension");
    cfx_program_run(over("scan(xs, [k], [xs], [])"), xs, row(0, 0));
    CHECK_ERROR("torch.ops.higher_order.scan: argument 0 must be a graph, not Tensor");
}

TEST(regions_run_under_their_modes) {
    cfx_tensor *xs = cfx_tensor_from_value(cfx_list(1.0, 2.0));
    CHECK_STR(cfx_str(cfx_program_run(over("wrap_with_set_grad_enabled(False, g, xs, k)"), xs, xs)),
              "(tensor([2., 4.]), tensor([1., 4.]))");
    cfx_program *p = parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        g = self.g\n"
        "        made = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, "
        "None, g, x)\n"
        "        return made\n"
        "\n"
        "    class g(torch.nn.Module):\n"
        "        def forward(self, a):\n"
        "            h = self.h\n"
        "            mm = torch.ops.aten.mm.default(a, a)\n"
        "            add = torch.ops.aten.add.Tensor(a, a)\n"
        "            off = torch.ops.higher_order.wrap_with_autocast('cpu', None, False, None, h, "
        "a)\n"
        "            return (mm, add, off)\n"
        "\n"
        "        class h(torch.nn.Module):\n"
        "            def forward(self, a):\n"
        "                mm = torch.ops.aten.mm.default(a, a)\n"
        "                return mm\n");
    cfx_value made = cfx_program_run(p, cfx_eye(2));
    CHECK_INT(cfx_tensor_dtype(cfx_tensor_at(made, 0)), CFX_BF16);
    CHECK_INT(cfx_tensor_dtype(cfx_tensor_at(made, 1)), CFX_F32);
    CHECK_INT(cfx_tensor_dtype(cfx_tensor_at(made, 2)), CFX_F32);
}

TEST(a_subgraph_may_be_given_to_a_call_that_takes_none) {
    cfx_program *p = parse("class GraphModule(torch.nn.Module):\n"
                           "    def forward(self, x):\n"
                           "        g = self.g\n"
                           "        one = operator.getitem(g, 0)\n"
                           "        return one\n"
                           "\n"
                           "    class g(torch.nn.Module):\n"
                           "        def forward(self, a):\n"
                           "            return a\n");
    cfx_node *x = cfx_graph_first(p->module->graph);
    cfx_node_set_meta(x, "val",
                      cfx_tensor_value(cfx_tensor_fake(CFX_F32, 1, (int64_t[]){2}, NULL)));
    CHECK(!cfx_program_infer(p));
    CHECK_ERROR("'Module' object is not subscriptable");
}

TEST(modes_of_regions_are_what_they_are_said_to_be) {
    static const char *const all[][2] = {
        {"wrap_with_set_grad_enabled('no', g, xs, k)", "wrap_with_set_grad_enabled: argument 0 "
                                                       "must be a bool, not str"},
        {"wrap_with_set_grad_enabled(None, g, xs, k)", "wrap_with_set_grad_enabled: argument 0 "
                                                       "must be a bool, not NoneType"},
        {"wrap_with_autocast(1, None, True, None, g, xs, k)", "wrap_with_autocast: argument 0 must "
                                                              "be a str, not int"},
        {"wrap_with_autocast('cpu', 'bf16', True, None, g, xs, k)",
         "wrap_with_autocast: argument 1 must be a dtype or None, not str"},
        {"wrap_with_autocast('cpu', None, 'off', None, g, xs, k)",
         "wrap_with_autocast: argument 2 must be a bool, not str"}};
    cfx_tensor *xs = cfx_tensor_from_value(cfx_list(1.0, 2.0));
    for (int i = 0; i < COUNT(all); i++) {
        cfx_program *p = over(all[i][0]);
        const cfx_problems *found = cfx_program_problems(p);
        bool told = false;
        for (int k = 0; k < found->n; k++)
            told |= strstr(found->items[k].text, all[i][1]) != NULL;
        CHECK(told);
        CHECK(cfx_is_bad(cfx_program_run(p, xs, xs)));
        CHECK_ERROR(all[i][1]);
    }
}

TEST(autocast_sees_calls_whole_while_gradients_are_recorded) {
    cfx_program *p = parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x, w, b):\n"
        "        g = self.g\n"
        "        made = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, "
        "None, g, x, w, b)\n"
        "        return made\n"
        "\n"
        "    class g(torch.nn.Module):\n"
        "        def forward(self, x, w, b):\n"
        "            linear = torch.ops.aten.linear.default(x, w, b)\n"
        "            return (linear,)\n");
    cfx_tensor *x = cfx_requires_grad(cfx_ones(2, 3), true), *w = cfx_ones(4, 3);
    cfx_requires_grad(w, true);
    cfx_interp it = {.module = p->module};
    cfx_value y = cfx_at(cfx_run(&it, x, w, cfx_zeros(4)), 0);
    if (!CHECK_OK())
        return;
    CHECK_INT(cfx_tensor_dtype(cfx_as_tensor(y)), CFX_BF16);
    cfx_backward(cfx_sum(y));
    CHECK_OK();
    CHECK_STR(cfx_str(cfx_tensor_grad(x)), "tensor([[4., 4., 4.],\n        [4., 4., 4.]])");
    CHECK_INT(cfx_tensor_dtype(cfx_tensor_grad(w)), CFX_F32);
}

TEST(autocast_leaves_calls_alone_where_its_dtype_is_none_of_its_own) {
    static cfx_op op = {.schema = "mine::low(Tensor x) -> Tensor",
                        .decompose = twice,
                        .autocast = CFX_CAST_LOW};
    CHECK(cfx_op_register(&op));
    cfx_program *p =
        parse("class GraphModule(torch.nn.Module):\n"
              "    def forward(self, x: \"f32[2]\"):\n"
              "        g = self.g\n"
              "        made = torch.ops.higher_order.wrap_with_autocast('cpu', torch.quint8, True, "
              "None, g, x)\n"
              "        getitem: \"f32[2]\" = made[0]\n"
              "        return (getitem,)\n"
              "\n"
              "    class g(torch.nn.Module):\n"
              "        def forward(self, x: \"f32[2]\"):\n"
              "            low: \"f32[2]\" = torch.ops.mine.low.default(x)\n"
              "            return (low,)\n");
    CHECK_STR(cfx_str(cfx_program_run(p, row(1, 2))), "(tensor([2., 4.]),)");
    CHECK_STR(cfx_str(cfx_program_run(cfx_decompose(p, CFX_NONE), row(1, 2))),
              "(tensor([2., 4.]),)");
    CHECK_OK();
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 6, RUNS = 200 };

static void *run_often(void *program) {
    int wrong = 0;
    for (int i = 0; i < RUNS; i++)
        CFX_SCOPE {
            cfx_value y = cfx_program_run((cfx_program *)program, row(i, 2), row(1, 1));
            wrong += !cfx_ok() || cfx_tensor_get(cfx_tensor_at(y, 0), 0) != 2 * i - 1;
        }
    cfx_finish(stderr);
    return (void *)(intptr_t)wrong;
}

TEST(a_program_without_an_output_gives_nothing) {
    cfx_program *p = parse("graph():\n    %x : [num_users=0] = placeholder[target=x]\n");
    CHECK(cfx_is_bad(cfx_program_run(p, row(1, 2))));
    CHECK_ERROR("the graph of the program has no output");
    CHECK(cfx_is_bad(cfx_program_run_with(CFX_HERE, p, &cfx_planner, NULL, CFX_ARGS(row(1, 2)))));
    CHECK_ERROR("the graph of the program has no output");
    CHECK(cfx_failed(cfx_program_module(p)));
    CHECK_ERROR("the graph of the program has no output");
}

TEST(one_program_runs_in_many_threads_at_once) {
    cfx_program *p = new_affine();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run_often, p);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK_INT((intptr_t)wrong, 0);
    }
}
