/* The parser: what it reads, what it refuses, and that what is printed comes back. */
#include "numbers.h"

#include "emit.h"

#include <time.h>

/* ---- what comes back ------------------------------------------------------------------------ */

/* The graph form of a code text. */
static const char *graph_of(const char *code) {
    cfx_graph *g = cfx_graph_parse(code, "test.fx");
    return g ? cfx_graph_str(g) : "";
}

TEST(parse_code_written_by_hand) {
    CHECK_STR(graph_of("def forward(self, x, y=(1, 2), *rest): # comment\n"
                       "    x = torch.relu( x )\n"
                       "    # a remark\n"
                       "    a = operator.add(x, y)\n"
                       "    b = x . shape\n"),
              "");
    CHECK_ERROR("test.fx:5:11: expected the end of the statement");
    CHECK_STR(graph_of("def forward(self, x):\n"
                       "    a = torch.relu(x);  x = None;  # semicolons that nothing follows\n"
                       "    b = torch.neg(a);\n"
                       "    return (b,);\n"),
              graph_of("def forward(self, x):\n"
                       "    a = torch.relu(x)\n"
                       "    b = torch.neg(a)\n"
                       "    return (b,)\n"));
    CHECK_STR(graph_of("def forward(self, x, y=(1, 2), *rest):\n"
                       "    x = torch.relu( x )\n"
                       "    a = operator.add(x, y)\n"
                       "    b = -1 ** a\n"
                       "    c = len(rest)\n"
                       "    d = b[..., (c), 2*s0 + 1]\n"
                       "    return {'a': [d, None], 1: -0.5}\n"),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %y : [num_users=1] = placeholder[target=y](default=(1, 2))\n"
              "    %rest : [num_users=1] = placeholder[target=*rest]\n"
              "    %x_1 : [num_users=1] = call_function[target=torch.relu]"
              "(args = (%x,), kwargs = {})\n"
              "    %a : [num_users=1] = call_function[target=operator.add]"
              "(args = (%x_1, %y), kwargs = {})\n"
              "    %b : [num_users=1] = call_function[target=operator.pow]"
              "(args = (-1, %a), kwargs = {})\n"
              "    %c : [num_users=1] = call_function[target=builtins.len]"
              "(args = (%rest,), kwargs = {})\n"
              "    %d : [num_users=1] = call_function[target=operator.getitem]"
              "(args = (%b, (Ellipsis, %c, 2*s0 + 1)), kwargs = {})\n"
              "    return {'a': [d, None], 1: -0.5}");
    CHECK_OK();
}

TEST(parse_strings_of_the_graph_form) {
    cfx_graph *g = cfx_graph_parse(
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x](default=nearest)\n"
        "    %f : [num_users=0] = call_function[target=torch.f](args = (%x, bij,bkj->bik, a (b, c) "
        "d, , cpu, 1.5.2, None), kwargs = {k: True, m: {1: v, w: (1-2j)}})\n"
        "    return f",
        "g");
    CHECK_OK();
    if (!CHECK(!cfx_failed(g)))
        return;
    CHECK_STR(strstr(cfx_graph_code(g), "x = "), "x = 'nearest'):\n    f = torch.f(x, "
              "'bij,bkj->bik', 'a (b, c) d', '', device(type='cpu'), '1.5.2', None, k = True, m = "
              "{1: 'v', 'w': (1-2j)});  x = None\n    return f\n    ");
}

TEST(parse_modules_with_children) {
    static const char text[] = "class M(torch.nn.Module):\n"
                               "    def forward(self, x):\n"
                               "        # No stacktrace found for following nodes\n"
                               "        a = self.a(x);  x = None\n"
                               "        return a\n"
                               "\n"
                               "    class a(torch.nn.Module):\n"
                               "        def forward(self, x):\n"
                               "            # No stacktrace found for following nodes\n"
                               "            relu = torch.relu(x);  x = None\n"
                               "            return relu\n";
    cfx_module *m = cfx_module_parse(text, "m.fx");
    CHECK_OK();
    if (!CHECK(!cfx_failed(m)))
        return;
    CHECK_STR(cfx_module_readable(m, (cfx_readable_options){0}), text);
    CHECK_STR(cfx_graph_module_str(m), "M(\n  (a): a()\n)\n\n\n\ndef forward(self, x):\n"
                                       "    a = self.a(x);  x = None\n    return a\n    \n"
                                       "# To see more debug info, please use "
                                       "`graph_module.print_readable()`");
    double two[] = {-1, 2};
    cfx_tensor *x = cfx_tensor_new(CFX_F64, 1, (int64_t[]){2}, two);
    CHECK_STR(cfx_str(cfx_forward(m, x)), "tensor([0., 2.], dtype=torch.float64)");
    CHECK_OK();
    static const char named[] = "class \"M\\n\"(torch.nn.Module):\n"
                                "    def forward(self, x):\n"
                                "        # No stacktrace found for following nodes\n"
                                "        a_b = getattr(self, \"a\\nb\")(x);  x = None\n"
                                "        return a_b\n"
                                "\n"
                                "    class \"a\\nb\"(torch.nn.Module):\n"
                                "        def forward(self, x):\n"
                                "            return x\n";
    CHECK_STR(cfx_module_readable(cfx_module_parse(named, "m.fx"), (cfx_readable_options){0}),
              named);
    CHECK_OK();
    cfx_module *odd = cfx_module_parse("class A.(torch.nn.Module):\n"
                                       "    def forward(self, x):\n"
                                       "        return x\n", "m.fx");
    CHECK_STR(odd->type, "A."); /* behind the dot there is no name, which every class has */
    CHECK(!cfx_failed(cfx_module_parse(cfx_module_readable(odd, (cfx_readable_options){0}), "m")));
    CHECK(cfx_failed(cfx_module_parse("class A(torch.nn.Module):\n  def f(x):\n    pass\n"
                                      "class B(torch.nn.Module):\n  def f(x):\n    pass\n",
                                      "t")));
    CHECK_ERROR("t: class B stands beside class A, not in it");
}

/* ---- what is refused ------------------------------------------------------------------------ */

TEST(parse_errors) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "t:1:1: expected 'def forward(...)'"},
        {"graph()\n", "t:1:1: expected 'graph():'"},
        {"hello", "t:1:1: expected 'torch.fx._symbolic_trace.wrap(\"'"},
        {"def f(x", "t:1:8: expected ',' or ')'"},
        {"def f(x, x):\n", "t:1:10: duplicate argument 'x'"},
        {"def f(x):\n  y = torch.relu(z)\n",
         "t:2:18: name 'z' is not defined\n      y = torch.relu(z)\n                     ^"},
        {"def f(x):\n  y = torch.relu(x\n", "t:2:19: expected ',' or ')'"},
        {"def f(x):\n  y = torch.relu(x, dim=1, 2)\n", "a positional argument follows keywords"},
        {"def f(x):\n  y = torch.relu(x, d=1, d=2)\n", "the keyword 'd' is given twice"},
        {"def f(x):\n  y = torch.relu(torch.relu(x))\n", "'torch.relu' is not a value"},
        {"def f(x):\n  y = g(h(x))\n", "t:2:9: a call cannot be an argument here: give its result "
                                       "a name first"},
        {"def f(x):\n  y = other.(x)\n", "t:2:7: name 'other' is not defined"},
        {"def f(x):\n  y = x +\n", "t:2:10: expected a value"},
        {"def f(***x):\n", "t:1:9: expected the name of a parameter"},
        {"def f(self, args_list):\n  args_iter = iter(args_list)\n",
         "expected a parameter, x = next(args_iter)"},
        {"def f(x):\n  y = 5\n", "t:2:7: expected a call, an operator or an attribute"},
        {"def f(x):\n  y = x + 99999999999999999999\n", "this integer does not fit in 64 bits"},
        {"def f(x):\n  y = x + 'abc\n", "t:2:11: this string has no end"},
        {"def f(x):\n  y = x + '\\q'\n", "t:2:12: no such escape"},
        {"def f(x):\n  y = torch.f(torch.Tensor(size=[2], dtype=float32))\n",
         "make it an attribute"},
        {"def f(x):\n  return x\n  y = x + 1\n", "t:3:3: nothing may follow the return"},
        {"def f(x):\n  y = x + 1;  x None\n", "t:2:17: expected '='"},
        {"def f(x):\n  x += 1\n", "t:2:9: expected ';'"},
        {"graph():\n    %x : placeholder[target=x]\n", "t:2:10: expected '[num_users=N]'"},
        {"graph():\n    %x : [num_users=0] = placeholder[target=x = y]\n",
         "t:2:45: expected a name"},
        {"graph():\n    %x : [num_users=0] = call_function[target=torch.ops.a.b.c.d]()\n",
         "t:2:47: expected a name"},
        {"graph():\n    %x : a b [num_users=0] = placeholder[target=x]\n",
         "t:2:10: expected a type"},
        {"def f(x : a[b):\n  return x\n", "t:1:11: expected a type"},
        {"graph():\n    return \xee", "t:2:12: this byte is not UTF-8"},
        {"graph():\n    %x : [num_users=1] = input[target=x]\n", "t:2:26: expected one of"},
        {"graph():\n    %x : [num_users=0] = placeholder[target=x]\n"
         "    %x : [num_users=0] = placeholder[target=x]\n", "t:3:5: there is a node %x already"},
        {"graph():\n    %y : [num_users=0] = call_method[target=t](args = (%x,), kwargs = {})\n",
         "t:2:56: there is no node %x before this line"},
        {"graph():\n    %y : [num_users=0] = call_method[target=t](args = (1, kwargs = {})\n",
         "t:2:71: expected ', kwargs = '"},
        {"graph():\n    return 1\n    return 2\n", "t:3:5: nothing may follow the return"},
        {"graph():\n    foo\n", "t:2:5: expected a node"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        CHECK(cfx_failed(cfx_graph_parse(cases[i].text, "t")));
        if (!CHECK_ERROR(cases[i].error))
            printf("  for: %s\n", cases[i].text);
    }
}

TEST(parse_reads_strings_that_look_like_heads) {
    cfx_module *m = cfx_module_parse(
        "def forward(self):\n    return 'x, = fx_pytree.tree_flatten_spec([x])'\n", "t");
    CHECK(strstr(cfx_module_code(m), "return 'x, = fx_pytree.tree_flatten_spec([x])'"));
    CHECK_OK();
}

TEST(parse_refuses_what_is_nested_too_deep) {
    static const char *const opens[] = {"(", "[", "{1: ", "getattr(", "slice("};
    for (int i = 0; i < COUNT(opens); i++) {
        cfx__text t = {0};
        cfx__text_puts(&t, "def f(x):\n  y = ");
        for (int k = 0; k < 100000; k++)
            cfx__text_puts(&t, opens[i]);
        CHECK(cfx_failed(cfx_graph_parse(t.data, "t")));
        CHECK(!cfx_ok());
        cfx_error_clear();
        cfx__text_release(&t);
    }
    cfx__text t = {0};
    cfx__text_puts(&t, "graph():\n    %x : [num_users=0] = call_method[target=t](args = ");
    for (int k = 0; k < 100000; k++)
        cfx__text_puts(&t, "([");
    CHECK(cfx_failed(cfx_graph_parse(t.data, "t")));
    CHECK_ERROR("lists are nested too deep");
    cfx__text_release(&t);
}

/* Every prefix of a text, and the text with one character changed: no crash, and an error or a
 * graph, never both or neither. */
TEST(parse_survives_broken_texts) {
    static const char *const texts[] = {
        "\ntorch.fx._symbolic_trace.wrap(\"math_sqrt\")\n\n"
        "def forward(self, x : typing_List[int] = None, *args) -> int:\n    _args = args\n"
        "    y: \"f32[3, s0][4, 1]cpu\" = getattr(self.a, \"0\").b(x, (1+2j), k = {'a\\x41': [1.5, "
        "-inf]});  x = None\n    y[0] = 1;  setitem = y\n"
        "    z = -y\n    return (z, slice(1, None, 2), device(type='cpu', index=0))\n    ",
        "graph():\n    %x : int [num_users=1] = placeholder[target=x](default=[1, 'a'])\n    %y : "
        "[num_users=0] = call_function[target=torch.f](args = (%x, [a b, {k: (1-2j)}], "
        "slice(None, x, 1)), kwargs = {dim: -1})\n    return (x, {'a': y})"};
    for (int i = 0; i < COUNT(texts); i++) {
        size_t n = strlen(texts[i]);
        char *copy = cfx__alloc(n + 1);
        for (size_t k = 0; k < 2 * n; k++) {
            memcpy(copy, texts[i], n + 1);
            if (k < n)
                copy[k] = 0;
            else
                copy[k - n] = "([{'\"%,=: \n9z"[k % 13];
            CFX_SCOPE {
                cfx_graph *g = cfx_graph_parse(copy, "t");
                CHECK(cfx_failed(g) != cfx_ok());
                cfx_graph_code(g);
            }
            cfx_error_clear();
        }
        free(copy);
    }
}

/* ---- random graphs -------------------------------------------------------------------------- */

static cfx_node *any_node(cfx_graph *g) {
    cfx_node *n = cfx_graph_first(g);
    for (uint32_t k = n ? test_draw((uint32_t)cfx_graph_len(g)) : 0; k > 0; k--)
        n = n->next;
    return n;
}

static cfx_value any_literal(void) {
    static const char *const strings[] = {"", "a", "it's", "\"q\" 'r'", "a\n\tb\\", "None", "x",
                                          "1", "\xc3\xa9\xe2\x82\xac", "a, b)", "\x01\x7f"};
    static const double floats[] = {0, -0.0, 1, -2.5, 1e-9, 3.141592653589793, 1e300, 5e-324};
    switch (test_draw(16)) {
    case 0: return cfx_none();
    case 1:
        return cfx_bool(test_draw(2));
    case 2:
        return cfx_int((int64_t)test_draw(1000) - 500);
    case 3:
        return cfx_int(test_draw(2) ? INT64_MAX : INT64_MIN);
    case 4:
        return cfx_float(floats[test_draw(COUNT(floats))]);
    case 5:
        return cfx_float(test_draw(2) ? __builtin_inf() : -__builtin_inf());
    case 6:
        return cfx_complex_value(floats[test_draw(COUNT(floats))],
                                 floats[test_draw(COUNT(floats))]);
    case 7:
        return cfx_dtype_value((cfx_dtype)test_draw(CFX_DTYPE_COUNT));
    case 8:
        return cfx_device_value(
            (cfx_device){(int16_t)test_draw(3), (int16_t)((int)test_draw(3) - 1)});
    case 9:
        return cfx_layout_value((cfx_layout)test_draw(2));
    case 10:
        return cfx_memory_format_value((cfx_memory_format)test_draw(4));
    case 11: return cfx_ellipsis();
    case 12:
        return cfx_op_value(cfx_op_find(test_draw(2) ? "add.Tensor" : "relu"));
    case 13:
        return cfx__sym_binary(CFX__SYM_ADD, cfx__sym_name("s0", false, 0), cfx_int(test_draw(9)));
    default:
        return cfx_string_value(strings[test_draw(COUNT(strings))]);
    }
}

static cfx_value any_value(cfx_graph *g, int depth) {
    uint32_t kind = test_draw(depth > 3 ? 5 : 9);
    cfx_value items[3];
    cfx_node *n = any_node(g);
    if (kind < 3 && n)
        return cfx_node_value(n);
    if (kind < 5)
        return any_literal();
    int64_t len = test_draw(4);
    for (int64_t i = 0; i < 3; i++)
        items[i] = any_value(g, depth + 1);
    if (kind == 5)
        return cfx_list_value(len, items);
    if (kind == 6)
        return cfx_tuple_value(len, items);
    if (kind == 7)
        return cfx_slice_value(items[0], items[1], items[2]);
    cfx_dict *d = cfx_dict_new();
    for (int64_t i = 0; i < len && i < 3; i++)
        cfx_dict_put(d, test_draw(2) ? cfx_int(i) : cfx_string_value(i ? "k" : "it's"), items[i]);
    return cfx_dict_value(d);
}

static cfx_value any_args(cfx_graph *g, int64_t n) {
    cfx_value items[4];
    for (int64_t i = 0; i < n; i++)
        items[i] = any_value(g, 0);
    return cfx_tuple_value(n, items);
}

static cfx_value any_kwargs(cfx_graph *g) {
    cfx_dict *d = cfx_dict_new();
    for (uint32_t i = test_draw(6); i > 3; i--)
        cfx_dict_set(d, i == 4 ? "dim" : "keepdim", any_value(g, 0));
    return cfx_dict_value(d);
}

static void add_any_node(cfx_graph *g) {
    static const char *const functions[] = {
        "torch.relu", "torch.nn.functional.gelu", "torch.ops.aten.add.Tensor", "math.sqrt",
        "operator.abs", "builtins.len", "builtins.getattr", "my_function",
        "torch.ops.higher_order.cond", "torch.ops.mine.op.default"};
    static const char *const operators[] = {"add", "pow", "neg", "invert", "pos", "getitem", "lt",
                                            "iadd", "setitem", "imatmul", "eq", "matmul"};
    static const char *const paths[] = {"a", "a.b", "layers.0.conv", "0", "a.0.1.b", "x-y"};
    static const char *const types[] = {"int", "torch.Tensor", "typing.Optional[torch.Tensor]",
                                        "typing.List[typing.Tuple[int, ...]]", "int | None"};
    uint32_t kind = test_draw(10);
    const char *path = paths[test_draw(COUNT(paths))];
    cfx_node *n;
    if (kind < 3) {
        n = cfx_graph_call_function(g, functions[test_draw(COUNT(functions))],
                                    any_args(g, test_draw(4)), any_kwargs(g));
    } else if (kind < 6) {
        const cfx__emit_operator *o =
            cfx__emit_operator_named(operators[test_draw(COUNT(operators))]);
        n = cfx_graph_call_function(
            g, o->target,
            any_args(g, test_draw(8) ? cfx__emit_operator_arity(o) : (int)test_draw(4)),
            test_draw(8) ? cfx_none() : any_kwargs(g));
    } else if (kind < 7) {
        cfx_value args[] = {any_value(g, 0), cfx_string_value(test_draw(2) ? "shape" : "not so")};
        n = cfx_graph_call_function(g, "builtins.getattr", cfx_tuple_value(2, args), CFX_NONE);
    } else if (kind < 8) {
        n = cfx_graph_call_method(g, path, any_args(g, test_draw(4)), any_kwargs(g));
    } else if (kind < 9) {
        n = cfx_graph_call_module(g, path, any_args(g, test_draw(4)), any_kwargs(g));
    } else {
        n = cfx_graph_get_attr(g, path);
    }
    if (!test_draw(5))
        cfx_node_set_type(n, types[test_draw(COUNT(types))]);
    if (!test_draw(5))
        cfx_node_set_meta(n, "stack_trace",
                          cfx_string_value("  File \"a b.py\", line 3, in f\n    x = y, code: z"));
    if (!test_draw(5)) {
        int64_t shape[] = {2, 3};
        cfx_node_set_meta(n, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2, shape, NULL)));
    }
}

static cfx_graph *any_graph(uint32_t size) {
    static const char *const names[] = {"x", "sum", "*args", "**kwargs", "input", "x_1"};
    cfx_graph *g = cfx_graph_new();
    for (uint32_t i = 0; i < test_draw(6); i++)
        cfx_graph_placeholder(g, names[i], test_draw(3) ? NULL : "int",
                              test_draw(2) && i != 2 && i != 3, any_literal());
    for (uint32_t i = 0; i < size; i++)
        add_any_node(g);
    if (test_draw(8)) {
        cfx_node *out = cfx_graph_output(g, any_value(g, 0));
        if (!test_draw(4))
            cfx_node_set_type(out, "torch.Tensor");
    }
    return g;
}

TEST(random_graphs_come_back_from_their_code) {
    for (uint64_t seed = 1; seed <= 400; seed++) {
        test_seed(seed * 7919);
        CFX_SCOPE {
            cfx_graph *g = any_graph(test_draw(30));
            const char *code = cfx_graph_code(g);
            cfx_graph *back = cfx_graph_parse(code, "code");
            if (!CHECK_OK() || !CHECK(back && cfx_graph_equal(g, back)) ||
                !CHECK_STR(cfx_graph_code(back), code)) {
                printf("seed %llu:%s\n", (unsigned long long)seed, code);
                return;
            }
            if (!cfx_graph_find(g, "my_function")) /* a node called like it gets another name */
                CHECK_STR(cfx_graph_str(back), cfx_graph_str(g));
            cfx_module *m = cfx__module_new_raw("M", NULL);
            cfx__graph_own(g, m);
            const char *readable = cfx_module_readable(m, (cfx_readable_options){0});
            back = cfx_graph_parse(readable, "readable");
            if (!CHECK_OK() || !back)
                return;
            m = cfx__module_new_raw("M", NULL);
            cfx__graph_own(back, m);
            CHECK_STR(cfx_module_readable(m, (cfx_readable_options){0}), readable);
        }
    }
}

/* ---- size ----------------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The time it takes to print and parse a chain of n nodes that all use x, in all forms. */
static double time_of(int n) {
    size_t mark = cfx_scope_open();
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE), *last = x;
    for (int i = 0; i < n; i++)
        CFX_SCOPE last = cfx_graph_call_function(g, i % 2 ? "torch.relu" : "operator.add",
                                                 cfx_tuple(last, x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(last));
    double start = seconds();
    cfx_graph *code = cfx_graph_parse(cfx_graph_code(g), "code");
    cfx_graph *graph = cfx_graph_parse(cfx_graph_str(g), "graph");
    CHECK(*cfx_graph_tabular(g));
    double end = seconds();
    CHECK(code && graph && cfx_graph_equal(code, graph));
    CHECK_OK();
    cfx_scope_close(mark);
    return end - start;
}

TEST(large_graphs_print_and_parse_in_linear_time) {
    time_of(3000); /* to warm up */
    double few = time_of(3000), many = time_of(30000);
    if (!CHECK(many < 40 * few))
        printf("  %g s for 3000 nodes, %g s for 30000\n", few, many);
}
