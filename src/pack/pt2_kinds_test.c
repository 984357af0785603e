/* All that may stand in a graph of model.json, whether or not a program of the zoo has it: kinds of
 * inputs, arguments and results. Read, printed, written and read again. */
#include "pt2.h"
#include "test.h"

#define T(name) "{\"as_tensor\": {\"name\": \"" name "\"}}"
#define ARG(name, arg, kind) "{\"name\": \"" name "\", \"arg\": " arg ", \"kind\": " kind "}"
#define NODE(name, target, inputs, outputs)                                                        \
    "{\"name\": \"" name "\", \"target\": \"" target "\", \"inputs\": [" inputs                    \
    "], \"outputs\": [" outputs "], \"metadata\": {}, \"is_hop_single_tensor_return\": "
#define PLAIN "null}"
#define META(sizes, strides)                                                                       \
    "{\"dtype\": 7, \"sizes\": [" sizes "], \"requires_grad\": false, \"device\": {\"type\": "     \
    "\"cpu\", \"index\": null}, \"strides\": [" strides "], \"storage_offset\": {\"as_int\": 0}, " \
    "\"layout\": 7}"
#define F4 META("{\"as_int\": 4}", "{\"as_int\": 1}")
#define N "{\"as_expr\": {\"expr_str\": \"Symbol('s5', positive=True, integer=True)\", \"hint\": " \
          "{\"as_int\": 3}}}"
#define N1 "{\"as_expr\": {\"expr_str\": \"Add(Symbol('s5', positive=True, integer=True), "        \
           "Integer(1))\", \"hint\": {\"as_int\": 4}}}"
#define BODY(name)                                                                                 \
    "{\"as_graph\": {\"name\": \"" name "\", \"graph\": {\"inputs\": [" T("y") "], \"outputs\": [" \
    T("relu") "], \"nodes\": [" NODE("relu", "torch.ops.aten.relu.default",                        \
                                     ARG("self", T("y"), "1"), T("relu")) PLAIN "], "              \
    "\"tensor_values\": {\"y\": " F4 ", \"relu\": " F4 "}, \"sym_int_values\": {}, "               \
    "\"sym_bool_values\": {}, \"is_single_tensor_return\": false}}}"

static const char model[] =
    "{\"graph_module\": {\"graph\": {\"inputs\": [" T("x") ", {\"as_sym_int\": {\"as_name\": "
    "\"n\"}}, {\"as_none\": true}, {\"as_string\": \"mean\"}, {\"as_float\": 2.5}, "
    "{\"as_bool\": true}], \"outputs\": [" T("getitem") ", {\"as_sym_int\": {\"as_name\": "
    "\"add\"}}, {\"as_int\": 7}, {\"as_none\": true}, " T("l1") ", " T("w0") ", " T("m0")
    ", " T("to") "], \"nodes\": ["
    NODE("sort", "torch.ops.aten.sort.default",
         ARG("self", T("x"), "1") ", " ARG("descending", "{\"as_bool\": true}", "2"),
         T("getitem") ", " T("sort_unused_1")) PLAIN ", "
    NODE("split", "torch.ops.aten.split.Tensor",
         ARG("self", T("x"), "1") ", " ARG("split_size", "{\"as_int\": 2}", "1"),
         "{\"as_tensors\": [{\"name\": \"s0\"}, {\"name\": \"s1\"}]}") PLAIN ", "
    NODE("cat", "torch.ops.aten.cat.default",
         ARG("tensors", "{\"as_tensors\": [{\"name\": \"s1\"}, {\"name\": \"s0\"}]}", "1"),
         T("cat")) PLAIN ", "
    NODE("f", "torch.ops.mylib.f.default",
         ARG("first", T("cat"), "1") ", " ARG("scale", "{\"as_floats\": [0.5, \"Infinity\"]}", "1")
         ", " ARG("mode", "{\"as_string\": \"a\\\"b\"}", "2"),
         T("t1") ", {\"as_tensors\": [{\"name\": \"l0\"}, {\"name\": \"l1\"}]}, "
         "{\"as_none\": true}") PLAIN ", "
    NODE("add", "_operator.add",
         ARG("a", "{\"as_sym_int\": {\"as_name\": \"n\"}}", "1") ", "
         ARG("b", "{\"as_sym_int\": {\"as_int\": 1}}", "1"),
         "{\"as_sym_int\": {\"as_name\": \"add\"}}") PLAIN ", "
    NODE("_assert_scalar", "torch.ops.aten._assert_scalar.default",
         ARG("self", "{\"as_sym_int\": {\"as_name\": \"add\"}}", "1") ", "
         ARG("assert_msg", "{\"as_string\": \"too small\"}", "1"), "") PLAIN ", "
    NODE("index", "torch.ops.aten.index.Tensor",
         ARG("self", T("t1"), "1") ", "
         ARG("indices", "{\"as_optional_tensors\": [{\"as_none\": true}, " T("l0") "]}", "1"),
         T("index")) PLAIN ", "
    NODE("full", "torch.ops.aten.full.default",
         ARG("size", "{\"as_sym_ints\": [{\"as_int\": 2}, {\"as_name\": \"n\"}]}", "1") ", "
         ARG("fill_value", "{\"as_complex\": {\"real\": 1.0, \"imag\": -2.0}}", "1"), T("full"))
    PLAIN ", "
    NODE("to", "torch.ops.aten.to.dtype_layout",
         ARG("self", T("index"), "1") ", " ARG("dtype", "{\"as_scalar_type\": 8}", "2") ", "
         ARG("layout", "{\"as_layout\": 7}", "2") ", "
         ARG("device", "{\"as_device\": {\"type\": \"cpu\", \"index\": null}}", "2") ", "
         ARG("memory_format", "{\"as_memory_format\": 4}", "2"), T("to")) PLAIN ", "
    NODE("wrap", "torch.ops.higher_order.wrap_with_set_grad_enabled",
         ARG("", "{\"as_bool\": false}", "1") ", " ARG("", BODY("submod_0"), "1") ", "
         ARG("", T("x"), "1"), T("w0")) "false}, "
    NODE("map_impl", "torch.ops.higher_order.map_impl",
         ARG("", BODY("body_0"), "1") ", " ARG("", "{\"as_tensors\": [{\"name\": \"x\"}]}", "1")
         ", " ARG("", "{\"as_tensors\": []}", "1"), T("m0")) "false}"
    "], \"tensor_values\": {\"x\": " F4 ", \"getitem\": " F4 ", \"sort_unused_1\": " F4
    ", \"s0\": " F4 ", \"s1\": " F4 ", \"cat\": " F4 ", \"t1\": " F4 ", \"l0\": " F4 ", \"l1\": " F4
    ", \"index\": " F4 ", \"full\": " META("{\"as_int\": 2}, " N, N ", {\"as_int\": 1}")
    ", \"to\": " F4 ", \"w0\": " F4 ", \"m0\": " F4 "}, \"sym_int_values\": {\"n\": " N
    ", \"add\": " N1 "}, \"sym_bool_values\": {}, \"is_single_tensor_return\": false, "
    "\"custom_obj_values\": {}, \"sym_float_values\": {}}, \"signature\": {\"input_specs\": ["
    "{\"user_input\": {\"arg\": " T("x") "}}, {\"user_input\": {\"arg\": {\"as_sym_int\": "
    "{\"as_name\": \"n\"}}}}, {\"constant_input\": {\"name\": \"mask\", \"value\": {\"as_none\": "
    "true}}}, {\"constant_input\": {\"name\": \"mode\", \"value\": {\"as_string\": \"mean\"}}}, "
    "{\"constant_input\": {\"name\": \"scale\", \"value\": {\"as_float\": 2.5}}}, "
    "{\"constant_input\": {\"name\": \"flag\", \"value\": {\"as_bool\": true}}}], "
    "\"output_specs\": [{\"user_output\": {\"arg\": " T("getitem") "}}, {\"user_output\": "
    "{\"arg\": {\"as_sym_int\": {\"as_name\": \"add\"}}}}, {\"user_output\": {\"arg\": "
    "{\"as_int\": 7}}}, {\"user_output\": {\"arg\": {\"as_none\": true}}}, {\"user_output\": "
    "{\"arg\": " T("l1") "}}, {\"user_output\": {\"arg\": " T("w0") "}}, {\"user_output\": "
    "{\"arg\": " T("m0") "}}, {\"user_input_mutation\": {\"arg\": {\"name\": \"to\"}, "
    "\"user_input_name\": \"x\"}}]}, \"module_call_graph\": [], \"metadata\": {}}, "
    "\"opset_version\": {\"aten\": 10}, \"range_constraints\": {\"s5\": {\"min_val\": 2, "
    "\"max_val\": null}}, \"schema_version\": {\"major\": 8, \"minor\": 17}, \"verifiers\": "
    "[\"ATEN\"], \"torch_version\": \"2.11.0\", \"guards_code\": [\"n > 2\"]}";

static const char graph[] =
    "graph():\n"
    "    %x : [num_users=4] = placeholder[target=x]\n"
    "    %n : [num_users=2] = placeholder[target=n]\n"
    "    %mask : [num_users=0] = placeholder[target=mask]\n"
    "    %mode : [num_users=0] = placeholder[target=mode]\n"
    "    %scale : [num_users=0] = placeholder[target=scale]\n"
    "    %flag : [num_users=0] = placeholder[target=flag]\n"
    "    %sort : [num_users=1] = call_function[target=torch.ops.aten.sort.default](args = (%x,), "
    "kwargs = {descending: True})\n"
    "    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%sort, 0), "
    "kwargs = {})\n"
    "    %split : [num_users=2] = call_function[target=torch.ops.aten.split.Tensor](args = (%x, "
    "2), kwargs = {})\n"
    "    %s0 : [num_users=1] = call_function[target=operator.getitem](args = (%split, 0), "
    "kwargs = {})\n"
    "    %s1 : [num_users=1] = call_function[target=operator.getitem](args = (%split, 1), "
    "kwargs = {})\n"
    "    %cat : [num_users=1] = call_function[target=torch.ops.aten.cat.default](args = ([%s1, "
    "%s0],), kwargs = {})\n"
    "    %f : [num_users=3] = call_function[target=torch.ops.mylib.f.default](args = (%cat, [0.5, "
    "inf]), kwargs = {mode: a\"b})\n"
    "    %t1 : [num_users=1] = call_function[target=operator.getitem](args = (%f, 0), "
    "kwargs = {})\n"
    "    %getitem_1 : [num_users=2] = call_function[target=operator.getitem](args = (%f, 1), "
    "kwargs = {})\n"
    "    %l0 : [num_users=1] = call_function[target=operator.getitem](args = (%getitem_1, 0), "
    "kwargs = {})\n"
    "    %l1 : [num_users=1] = call_function[target=operator.getitem](args = (%getitem_1, 1), "
    "kwargs = {})\n"
    "    %as_none : [num_users=0] = call_function[target=operator.getitem](args = (%f, 2), "
    "kwargs = {})\n"
    "    %add : [num_users=2] = call_function[target=operator.add](args = (%n, 1), kwargs = {})\n"
    "    %_assert_scalar : [num_users=0] = call_function[target=torch.ops.aten._assert_scalar."
    "default](args = (%add, too small), kwargs = {})\n"
    "    %index : [num_users=1] = call_function[target=torch.ops.aten.index.Tensor](args = (%t1, "
    "[None, %l0]), kwargs = {})\n"
    "    %full : [num_users=0] = call_function[target=torch.ops.aten.full.default](args = ([2, "
    "%n], (1-2j)), kwargs = {})\n"
    "    %to : [num_users=1] = call_function[target=torch.ops.aten.to.dtype_layout](args = (%index,"
    "), kwargs = {dtype: torch.float64, layout: torch.strided, device: cpu, memory_format: "
    "torch.preserve_format})\n"
    "    %submod_0 : [num_users=1] = get_attr[target=submod_0]\n"
    "    %wrap : [num_users=1] = call_function[target=torch.ops.higher_order."
    "wrap_with_set_grad_enabled](args = (False, %submod_0, %x), kwargs = {})\n"
    "    %w0 : [num_users=1] = call_function[target=operator.getitem](args = (%wrap, 0), "
    "kwargs = {})\n"
    "    %body_0 : [num_users=1] = get_attr[target=body_0]\n"
    "    %map_impl : [num_users=1] = call_function[target=torch.ops.higher_order.map_impl](args = "
    "(%body_0, [%x], []), kwargs = {})\n"
    "    %m0 : [num_users=1] = call_function[target=operator.getitem](args = (%map_impl, 0), "
    "kwargs = {})\n"
    "    return (getitem, add, 7, None, l1, w0, m0, to)";

static cfx_program *read(const char *text, size_t len) {
    cfx__json_tree tree = {0};
    cfx__pt2_reader r = {.path = "kinds.pt2"};
    cfx_program *p = cfx__json_read(&tree, text, len, "model.json")
                         ? cfx__pt2_program(&r, tree.items.data)
                         : NULL;
    cfx__pt2_reader_close(&r);
    cfx__json_release(&tree);
    return p;
}

static void check(const cfx_program *p) {
    if (!CHECK_OK() || !CHECK(!cfx_failed(p)))
        return;
    CHECK_STR(cfx_graph_str(p->module->graph), graph);
    CHECK(cfx__graph_check(p->module->graph));
    CHECK_INT(cfx_module_count(p->module), 2);
    CHECK(cfx_is_none(p->inputs[2].value) && p->inputs[2].constant);
    CHECK_STR(cfx_text(p->inputs[3].value), "mean");
    CHECK_NEAR(cfx_number(p->inputs[4].value), 2.5, 0);
    CHECK(!p->inputs[1].constant);
    CHECK_INT(cfx_integer(p->outputs[2].value), 7);
    CHECK_STR(p->outputs[7].target, "x");
    CHECK_INT(p->outputs[7].kind, CFX_OUT_INPUT_MUTATION);
    cfx_value n = cfx_node_get_meta(cfx_graph_find(p->module->graph, "add"), "val");
    CHECK_STR(cfx_str(n), "s5 + 1");
    CHECK(n.tag == CFX_TAG_SYM && cfx_as_sym(n)->hint == 4);
    CHECK_STR(cfx_repr(cfx_dict_value(p->ranges)), "{'s5': (2, None)}");
    CHECK_STR(cfx_repr(cfx_dict_get(p->extra, "guards")), "['n > 2']");
}

TEST(every_kind_of_value_is_read_and_written) {
    cfx_program *p = read(model, sizeof model - 1);
    check(p);
    cfx__text again = {0};
    CHECK(!cfx_failed(p) && cfx__pt2_write_model(p, "kinds.pt2", NULL, &again));
    CHECK_OK();
    check(read(again.data, again.len));
    cfx__text_release(&again);
}

TEST(results_that_nothing_reads_are_written) {
    cfx_program *p = read(model, sizeof model - 1);
    cfx__text again = {0};
    CHECK(!cfx_failed(p) && cfx__pt2_write_model(p, "kinds.pt2", NULL, &again));
    CHECK(strstr(again.data, "{\"as_tensor\": {\"name\": \"sort_unused_1\"}}") != NULL);
    CHECK(strstr(again.data, "\"name\": \"first\"") != NULL); /* of an operator not registered */
    cfx__text_release(&again);
}
