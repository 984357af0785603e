/* Generated code, piece by piece: literals, operators, paths, names, types, comments. */
#include "test.h"

#include "emit.h"

/* The one statement that a call_function of these arguments prints. */
static const char *statement(const char *target, cfx_value args, cfx_value kwargs) {
    cfx_graph *g = cfx_graph_new();
    cfx_graph_call_function(g, target, args, kwargs);
    const char *code = cfx_graph_code(g), *line = strstr(code, ":\n    ") + 6;
    return cfx__string_new(line, strcspn(line, "\n;"))->text;
}

static const char *literal(cfx_value v) {
    const char *line = statement("torch.relu", cfx_tuple(v), CFX_NONE);
    const char *start = strchr(line, '(') + 1;
    return cfx__string_new(start, strlen(start) - 1)->text;
}

TEST(code_literals) {
    static const struct {
        int64_t i;
        const char *text;
    } ints[] = {{0, "0"}, {-1, "-1"}, {INT64_MAX, "9223372036854775807"},
                {INT64_MIN, "-9223372036854775808"}};
    for (int i = 0; i < COUNT(ints); i++)
        CHECK_STR(literal(cfx_int(ints[i].i)), ints[i].text);
    CHECK_STR(literal(cfx_float(1e-5)), "1e-05");
    CHECK_STR(literal(cfx_float(-__builtin_inf())), "-inf");
    CHECK_STR(literal(cfx_float(__builtin_nan(""))), "nan");
    CHECK_STR(literal(cfx_complex_value(1, -2)), "(1-2j)");
    CHECK_STR(literal(cfx_complex_value(0, 2.5)), "2.5j");
    CHECK_STR(literal(cfx_bool(true)), "True");
    CHECK_STR(literal(CFX_NONE), "None");
    CHECK_STR(literal(cfx_ellipsis()), "Ellipsis");
    CHECK_STR(literal(cfx_f32), "torch.float32");
    CHECK_STR(literal(cfx_layout_value(CFX_STRIDED)), "torch.strided");
    CHECK_STR(literal(cfx_channels_last), "torch.channels_last");
    CHECK_STR(literal(cfx_device_value((cfx_device){CFX_CPU, -1})), "device(type='cpu')");
    CHECK_STR(literal(cfx_device_value((cfx_device){CFX_CUDA, 1})), "device(type='cuda', index=1)");
    CHECK_STR(literal(cfx_string_value("it's \"x\"\n")), "'it\\'s \"x\"\\n'");
    CHECK_STR(literal(cfx_slice_value(CFX_NONE, cfx_int(2), CFX_NONE)), "slice(None, 2, None)");
    CHECK_STR(literal(cfx_tuple_value(0, NULL)), "()");
    CHECK_STR(literal(cfx_tuple(1)), "(1,)");
    CHECK_STR(literal(cfx_list(1, cfx_tuple(2.0, "a"))), "[1, (2.0, 'a')]");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "k", cfx_list(1));
    cfx_dict_put(d, cfx_int(2), CFX_NONE);
    CHECK_STR(literal(cfx_dict_value(d)), "{'k': [1], 2: None}");
    CHECK_STR(literal(cfx_op_value(cfx_op_find("add.Tensor"))), "torch.ops.aten.add.Tensor");
    int64_t shape[] = {2, 3};
    CHECK_STR(literal(cfx_tensor_value(cfx_tensor_new(CFX_F32, 2, shape, NULL))),
              "torch.Tensor(size=[2, 3], dtype=float32)");
    CHECK_OK();
}

TEST(code_operators) {
    CHECK_STR(statement("operator.add", cfx_tuple(1, 2), CFX_NONE), "add = 1 + 2");
    CHECK_STR(statement("operator.neg", cfx_tuple(-1), CFX_NONE), "neg = --1");
    CHECK_STR(statement("operator.getitem", cfx_tuple(cfx_tuple(1), 0), CFX_NONE),
              "getitem = (1,)[0]");
    CHECK_STR(statement("operator.abs", cfx_tuple(1), CFX_NONE), "abs_1 = _operator_abs(1)");
    CHECK_STR(statement("builtins.getattr", cfx_tuple(1, "real"), CFX_NONE),
              "getattr_1 = 1.real");
    CHECK_STR(statement("builtins.getattr", cfx_tuple(1, "a b"), CFX_NONE),
              "getattr_1 = getattr(1, 'a b')");
    CHECK_STR(statement("builtins.getattr", cfx_tuple(1, "a", 2), CFX_NONE),
              "getattr_1 = getattr(1, 'a', 2)");
    CHECK_STR(statement("aten.add.Tensor", cfx_tuple(1, 2), CFX_NONE),
              "add_tensor = torch.ops.aten.add.Tensor(1, 2)");
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_call_function(g, "operator.iadd", cfx_tuple(x, 1), CFX_NONE);
    cfx_graph_call_function(g, "operator.setitem", cfx_tuple(y, cfx_tuple(0, 1), x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(y));
    CHECK_STR(cfx_graph_code(g), "\n\n\ndef forward(self, x):\n"
                                 "    x += 1;  iadd = x\n"
                                 "    iadd[(0, 1)] = x;  setitem = iadd;  x = setitem = None\n"
                                 "    return iadd\n    ");
    CHECK_OK();
}

TEST(code_of_paths_that_are_no_identifiers) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_get_attr(g, "a.0.b");
    cfx_node *y = cfx_graph_call_module(g, "0", cfx_tuple(x), CFX_NONE);
    cfx_graph_call_method(g, "0.1", cfx_tuple(y, 2), CFX_NONE);
    CHECK_STR(cfx_graph_code(g),
              "\n\n\ndef forward(self):\n"
              "    a_0_b = getattr(self.a, \"0\").b\n"
              "    _0 = getattr(self, \"0\")(a_0_b);  a_0_b = None\n"
              "    _0_1 = getattr(getattr(_0, \"0\"), \"1\")(2);  _0 = _0_1 = None\n    ");
    CHECK_STR(cfx_graph_code(cfx_graph_new()), "\n\n\ndef forward(self):\n    pass\n    ");
    g = cfx_graph_new();
    cfx_graph_get_attr(g, "a\n\"b\\.c");
    const char *code = cfx_graph_code(g);
    CHECK_STR(code, "\n\n\ndef forward(self):\n    a_b_c = getattr(self, \"a\\n\\\"b\\\\\").c;  "
                    "a_b_c = None\n    ");
    CHECK_STR(cfx_graph_code(cfx_module_parse(code, "t")->graph), code);
    CHECK_OK();
}

TEST(code_names_of_functions_and_nodes_do_not_clash) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "math_sqrt", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_call_function(g, "math.sqrt", cfx_tuple(x), CFX_NONE);
    cfx_node_set_meta(y, "is_wrapped", cfx_bool(true));
    cfx_graph_output(g, cfx_node_value(y));
    CHECK_STR(cfx_graph_code(g), "\ntorch.fx._symbolic_trace.wrap(\"math_sqrt_1\")\n\n"
                                 "def forward(self, math_sqrt):\n"
                                 "    sqrt = math_sqrt_1(math_sqrt);  math_sqrt = None\n"
                                 "    return sqrt\n    ");
    CHECK_OK();
}

static const char *written(const char *type) {
    cfx__text t = {0};
    cfx__emit_type(&t, type);
    return cfx__text_take(&t);
}

static const char *read_back(const char *text) {
    cfx__text t = {0};
    cfx__parse_type(&t, text, strlen(text));
    return cfx__text_take(&t);
}

TEST(code_types) {
    static const char *const pairs[][2] = {
        {"torch.Tensor", "torch.Tensor"},
        {"int", "int"},
        {"typing.Optional[torch.Tensor]", "typing_Union[torch.Tensor,NoneType]"},
        {"typing.Union[int, str, NoneType]", "typing_Union[int,str,NoneType]"},
        {"typing.List[typing.Optional[int]]", "typing_List[typing_Union[int,NoneType]]"},
        {"typing.Dict[str, torch.Tensor]", "typing_Dict[str,torch.Tensor]"},
        {"typing.Tuple[int, ...]", "typing_Tuple[int,_]"},
        {"typing.Sequence[int]", "collections_abc_Sequence[int]"},
        {"torch.device", "device"},
        {"list[float]", "list[float]"},
        {"int | None", "int|NoneType"},
        {"typing.Any", "typing_Any"},
    };
    for (int i = 0; i < COUNT(pairs); i++) {
        CHECK_STR(written(pairs[i][0]), pairs[i][1]);
        CHECK_STR(read_back(pairs[i][1]), pairs[i][0]);
    }
    CHECK_STR(written("typing.Tuple[()]"), "typing_Tuple"); /* these say less in code */
    CHECK_STR(written("typing.Literal['a']"), "typing_Literal[_a_]");
    CHECK_STR(written("m.f.<locals>.A"), "m_f__locals__A");
    CHECK_STR(written("typing.List[ForwardRef('m.A')]"), "typing_List[ForwardRef_m_A_]");
    CHECK_STR(written("typing.List['List[m.A]']"), "typing_List[_List_m_A_]");
    CHECK_STR(written("'A"), "_A");
    cfx__text deep = {0};
    for (int i = 0; i < 100000; i++)
        cfx__text_putc(&deep, '[');
    CHECK(strlen(read_back(deep.data)) < 1000);
    cfx__text_release(&deep);
}

static cfx_graph *annotated(void) {
    cfx_graph *g = cfx_graph_new();
    int64_t shape[] = {3, 4};
    cfx_node *x = cfx_graph_placeholder(g, "x", "torch.Tensor", false, CFX_NONE);
    cfx_node_set_meta(x, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2, shape, NULL)));
    cfx_node_set_meta(x, "desc", cfx_string_value("the input"));
    cfx_node *y = cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE);
    cfx_node_set_meta(y, "val", cfx_tensor_value(cfx_tensor_fake(CFX_BF16, 2, shape, NULL)));
    cfx_node_set_meta(y, "stack_trace",
                      cfx_string_value("  File \"a.py\", line 1, in f\n    g(x)\n  File \"b.py\", "
                                       "line 22, in <lambda>\n    torch.relu(x)\n"));
    cfx_node *z = cfx_graph_call_function(g, "torch.clamp", cfx_tuple(y, 0.5), CFX_NONE);
    cfx_dict *custom = cfx_dict_new();
    cfx_dict_set(custom, "tag", cfx_int(1));
    cfx_dict_set(custom, "long", cfx_string_value("0123456789012345678901234567890123456789..."));
    cfx_node_set_meta(z, "custom", cfx_dict_value(custom));
    cfx_node_set_meta(z, "seq_nr", cfx_int(7));
    cfx_node *out = cfx_graph_output(g, cfx_tuple(z));
    cfx_node_set_meta(out, "desc", cfx_tuple("the result"));
    return g;
}

static const char *readable(cfx_readable_options o) {
    cfx_module *m = cfx__module_new_raw("M", NULL);
    cfx__graph_own(annotated(), m);
    return cfx_module_readable(m, o);
}

TEST(readable_options) {
    static const char *const meta[] = {"seq_nr", "absent", NULL};
    CHECK_STR(readable((cfx_readable_options){.include_stride = true, .include_device = true}),
              "class M(torch.nn.Module):\n"
              "    def forward(self, x: \"f32[3, 4][4, 1]cpu\"):\n"
              "        # File: b.py:22 in <lambda>, code: torch.relu(x)\n"
              "        relu: \"bf16[3, 4][4, 1]cpu\" = torch.relu(x);  x = None\n"
              "\n"
              "        # Annotation: {'tag': 1, 'long': "
              "'0123456789012345678901234567890123456789...'} No stacktrace found for following "
              "nodes\n"
              "        clamp = torch.clamp(relu, 0.5);  relu = None\n"
              "        return (clamp,)\n");
    CHECK_STR(readable((cfx_readable_options){.expanded_def = true, .additional_meta = meta}),
              "class M(torch.nn.Module):\n"
              "    def forward(\n"
              "        self,\n"
              "        x: \"f32[3, 4]\",  # the input\n"
              "    ):\n"
              "        # File: b.py:22 in <lambda>, code: torch.relu(x)\n"
              "        relu: \"bf16[3, 4]\" = torch.relu(x);  x = None\n"
              "\n"
              "        # seq_nr: 7 # Annotation: {'tag': 1, 'long': "
              "'0123456789012345678901234567890123456789...'} No stacktrace found for following "
              "nodes\n"
              "        clamp = torch.clamp(relu, 0.5);  relu = None\n"
              "        return (\n"
              "            clamp,  # the result\n"
              "        )\n");
    const char *colored = readable((cfx_readable_options){.colored = true});
    CHECK(strstr(colored, "x: \"\033[31mf32\033[0m\033[34m[3, 4]\033[0m\033[2m\033[34m\033[0m"
                          "\033[2m\033[32m\033[0m\""));
    CHECK(strstr(colored, "torch.clamp(relu, \033[34m0.5\033[0m);  \033[2mrelu = None\033[0m\n"));
    CHECK(strstr(colored, "    \033[2m# File: b.py:22 in <lambda>, code: torch.relu(x)\033[0m\n"));
    CHECK_OK();
}

TEST(tables_of_unusual_targets) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_call_function(g, "torch._C._nn.linear", CFX_NONE, CFX_NONE);
    cfx_graph_call_function(g, "builtins.int", cfx_tuple(cfx_op_value(cfx_op_find("add.Tensor"))),
                            CFX_NONE);
    cfx_graph_call_function(g, "my.function", cfx_tuple("\xc3\xa4\xc3\xa4"), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(x));
    CHECK_STR(cfx_graph_tabular(g),
              "opcode         name      target                      "
              "args                                               kwargs\n"
              "-------------  --------  --------------------------  "
              "-------------------------------------------------  --------\n"
              "call_function  linear    <built-in function linear>  "
              "()                                                 {}\n"
              "call_function  int_1     <class 'int'>               "
              "(<OpOverload(op='aten.add', overload='Tensor')>,)  {}\n"
              "call_function  function  my.function                 "
              "('\xc3\xa4\xc3\xa4',)                                            {}\n"
              "output         output    output                      "
              "(linear,)                                          {}");
    CHECK_STR(cfx_graph_tabular(cfx_graph_new()),
              "opcode    name    target    args    kwargs\n"
              "--------  ------  --------  ------  --------");
    CHECK_OK();
}

TEST(texts_of_modules_without_a_graph) {
    CHECK_STR(cfx_module_code(cfx__module_new_raw("Linear", NULL)), "");
    CHECK_ERROR("'Linear' object has no attribute 'code'");
    CHECK_STR(cfx_graph_code(NULL), "");
    CHECK_STR(cfx_graph_tabular(NULL), "");
}

TEST(code_of_nested_arguments) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", "int", false, CFX_NONE);
    cfx_node *y = cfx_graph_placeholder(g, "y_1", NULL, false, CFX_NONE);
    cfx_graph_output(g, cfx_tuple(x, y));
    cfx_dict *by_name = cfx_dict_new();
    cfx_dict_set(by_name, "y", cfx_ellipsis());
    cfx_value spec = cfx_tuple(cfx_tuple(cfx_ellipsis()), cfx_dict_value(by_name));
    cfx_graph_set_tree(g, cfx_list("x", "y"), spec, cfx_tuple(cfx_ellipsis(), cfx_ellipsis()));
    const char *code = "\n\n\ndef forward(self, x, y):\n"
                       "    x : int; \n"
                       "\n"
                       "    x , y_1, = fx_pytree.tree_flatten_spec(([x], {'y':y}), self._in_spec)\n"
                       "    return pytree.tree_unflatten((x, y_1), self._out_spec)\n    ";
    CHECK_STR(cfx_graph_code(g), code);
    cfx_graph *none = cfx_graph_new();
    cfx_node *made = cfx_graph_call_function(none, "torch.ones", cfx_tuple(2), CFX_NONE);
    cfx_graph_output(none, cfx_tuple(made));
    cfx_graph_set_tree(none, cfx_list_value(0, NULL),
                       cfx_tuple(cfx_tuple_value(0, NULL), cfx_dict_value(cfx_dict_new())),
                       cfx_tuple(cfx_ellipsis()));
    CHECK_STR(cfx_graph_code(none), "\n\n\ndef forward(self):\n    ones = torch.ones(2)\n"
                                    "    return pytree.tree_unflatten((ones,), self._out_spec)\n"
                                    "    ");
    cfx_graph *back = cfx_graph_parse(code, "code");
    CHECK_OK();
    CHECK(back && cfx_graph_equal(back, g));
    CHECK_STR(back ? cfx_graph_code(back) : "", code);
    cfx_graph_set_tree(g, CFX_NONE, CFX_NONE, CFX_NONE);
    CHECK(!strstr(cfx_graph_code(g), "pytree"));
    cfx_graph_set_tree(g, cfx_int(1), CFX_NONE, CFX_NONE);
    CHECK_ERROR("a tree of arguments is a list of names");
}
