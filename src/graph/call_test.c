/* Graphs built one call a line; names that are not known. */
#include <cfx/ops.h>
#include <cfx/run.h>

#include "graph.h"
#include "test.h"

TEST(a_graph_is_built_one_call_a_line) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node *sum = cfx_graph_call(g, "torch.add", x, 1, CFX_KW(alpha, 2));
    cfx_node *relu = cfx_graph_call(g, "Tensor.relu", sum);
    cfx_node *rows = cfx_graph_call(g, "len", x);
    cfx_node *shape = cfx_graph_call(g, "getattr", x, "shape");
    cfx_graph_output(g, cfx_tuple(relu, rows, shape));
    CHECK_STR(cfx_graph_str(g),
              "graph():\n"
              "    %x : [num_users=3] = placeholder[target=x]\n"
              "    %add : [num_users=1] = call_function[target=torch.add](args = (%x, 1), kwargs = "
              "{alpha: 2})\n"
              "    %relu : [num_users=1] = call_method[target=relu](args = (%add,), kwargs = {})\n"
              "    %len_1 : [num_users=1] = call_function[target=builtins.len](args = (%x,), "
              "kwargs = {})\n"
              "    %getattr_1 : [num_users=1] = call_function[target=builtins.getattr](args = (%x, "
              "shape), kwargs = {})\n"
              "    return (relu, len_1, getattr_1)");
    cfx_module *gm = cfx_graph_module(cfx_module_new("M", NULL, ""), g, "M");
    CHECK_STR(cfx_repr(cfx_forward_value(gm, cfx_tensor_from_value(cfx_list(1.0, -4.0)))),
              "(tensor([3., 0.]), 2, (2,))");
    CHECK_OK();
}

TEST(unknown_functions_are_refused_with_the_nearest_names) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    CHECK(!cfx_graph_call(g, "torch.sigmod", x)->graph);
    CHECK_ERROR("no function is called 'torch.sigmod'; the nearest: torch.sigmoid");
    cfx_graph_call(g, "torch.rleu", x); /* letters that changed places are one mistake */
    CHECK_ERROR("no function is called 'torch.rleu'; the nearest: torch.relu");
    CHECK(!cfx_graph_call_function(g, "operator.ad", cfx_tuple(x, 1), CFX_NONE)->graph);
    CHECK_ERROR("no function is called 'operator.ad'; the nearest: operator.add");
    cfx_graph_call(g, "torch.ops.aten.ad.Tensor", x, 1);
    CHECK_ERROR("no function is called 'aten.ad.Tensor'; the nearest: aten.add.Tensor");
    cfx_graph_call(g, "foo bar", x);
    CHECK_ERROR("'foo bar' cannot be the name of a function");
    cfx_graph_call(g, "", x);
    CHECK_ERROR("'' cannot be the name of a function");
    CHECK(cfx_graph_call(g, "mylib.op", x)->graph && cfx_graph_call(g, "torch.ops.a.b", x)->graph &&
          cfx_graph_call(g, "operator.iadd", x, 1)->graph);
    CHECK(cfx_graph_lint(g, NULL));
    cfx_target made = {.name = "torch.sigmod"};
    cfx_graph_create(g, CFX_CALL_FUNCTION, made, cfx_tuple(x), CFX_NONE, NULL, NULL);
    CHECK_OK();
    CHECK(!cfx_graph_lint(g, NULL));
    CHECK_ERROR("Node sigmod calls torch.sigmod, which is no function known here; the nearest: "
                "torch.sigmoid");
    cfx_py("torch.sigmod", 1.0);
    CHECK_ERROR("no operator is called 'torch.sigmod'; the nearest: torch.sigmoid");
}

/* The format of a call, up to its arguments. */
static const char *called(cfx_graph *g, const char *target) {
    cfx_node *n = cfx_graph_call(g, target, cfx_graph_first(g));
    return cfx__text_format("%s %s %s", n->name, cfx_opcode_name(n->op), n->target.name);
}

TEST(functions_are_called_by_every_name_they_have) {
    cfx_graph *g = cfx_graph_new();
    cfx_graph_input(g, "x");
    CHECK_STR(called(g, "F.relu"), "relu call_function torch.nn.functional.relu");
    CHECK_STR(called(g, "F.relu_"), "relu_ call_function torch.relu_");
    CHECK_STR(called(g, "F.gelu"), "gelu call_function torch._C._nn.gelu");
    CHECK_STR(called(g, "torch.Tensor.relu"), "relu_1 call_method relu");
    CHECK_STR(called(g, "torch.ops.aten.relu.default"), "relu_default call_function "
                                                        "aten.relu.default");
    CHECK_STR(called(g, "aten.relu"), "relu_2 call_function torch.ops.aten.relu");
    CHECK(cfx_node_is(cfx_graph_last(g), "relu") && cfx_node_is(cfx_graph_last(g), "aten.relu"));
    CHECK(cfx_node_is(cfx_graph_last(g), "torch.ops.aten.relu"));
    CHECK(!cfx_node_is(cfx_graph_last(g), "aten.relu.default"));
    cfx_graph_output(g, cfx_node_value(cfx_graph_last(g)));
    CHECK_STR(cfx_str(cfx_forward(cfx_graph_module(NULL, g, NULL), cfx_full(cfx_list(1), -2.0))),
              "tensor([0.])");
}

TEST(calls_of_modules_are_of_their_type) {
    cfx_module *m = cfx_module_new("M", NULL, "");
    cfx_graph *g = cfx_graph_new();
    cfx_nn_add(m, "act", cfx_nn_relu());
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node *n = cfx_graph_call_module(g, "act", cfx_tuple(x), CFX_NONE);
    CHECK(!cfx_node_is(n, "ReLU")); /* nobody knows what it is */
    cfx_graph_output(g, cfx_node_value(n));
    cfx_module *gm = cfx_graph_module(m, g, NULL);
    CHECK(cfx_node_is(n, "ReLU") && cfx_node_is(n, "nn.ReLU") && cfx_node_is(n, "torch.nn.ReLU"));
    CHECK(!cfx_node_is(n, "relu") && !cfx_node_is(x, "ReLU"));
    CHECK_INT(cfx_tap(gm, "op:nn.ReLU", cfx_ones(1))->len, 1);
}

TEST(values_are_read_by_type) {
    CHECK_INT(cfx_as_int(cfx_int(3)), 3);
    CHECK(cfx_as_float(cfx_int(3)) == 3 && cfx_as_bool(cfx_bool(true)));
    CHECK_STR(cfx_as_text(cfx_string_value("a")), "a");
    CHECK_INT(cfx_as_list(cfx_tuple(1, 2))->len, 2);
    CHECK_OK();
    CHECK(cfx__obj_is_bad(cfx_as_tensor(cfx_int(3))));
    CHECK_ERROR("expected a tensor, got int");
    CHECK_INT(cfx_as_int(cfx_float(3)), 0);
    CHECK_ERROR("expected an int, got float");
    CHECK_STR(cfx_as_text(CFX_NONE), "");
    CHECK_ERROR("expected a str, got NoneType");
    CHECK_INT(cfx_as_dict(cfx_list(1))->len, 0);
    CHECK_ERROR("expected a dict, got list");
    CHECK(cfx_as_node(cfx_int(1)) == cfx__node_bad);
    CHECK_ERROR("expected a node, got int");
    cfx_as_list(cfx_bad());
    CHECK_OK();
}

TEST(targets_are_made_whole) {
    cfx_target t = cfx_target_named("torch.sigmoid");
    CHECK(t.fn && t.op == &cfx_op_sigmoid);
    CHECK_STR(t.name, "torch.sigmoid");
    t = cfx_target_named("torch.ops.aten.add.Tensor");
    CHECK(!t.fn && t.op == &cfx_op_add_Tensor);
    CHECK_STR(cfx_target_op(&cfx_op_relu).name, "aten.relu.default");
    CHECK_OK();
    CHECK(!cfx_target_named("torch.sigmod").op);
    CHECK_ERROR("no operator is called 'torch.sigmod'");
}

TEST(names_of_overloads_and_methods_are_checked_too) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_graph_call(g, "aten.sigmod", x);
    CHECK_ERROR("no function is called 'aten.sigmod'; the nearest: aten.sigmoid.default");
    cfx_graph_call(g, "aten.add.Tensr", x, x);
    CHECK_ERROR("no function is called 'aten.add.Tensr'; the nearest: aten.add.Tensor");
    cfx_graph_call(g, "Tensor.sigmod", x);
    CHECK_ERROR("no method is called 'Tensor.sigmod'; the nearest: Tensor.sigmoid");
    CHECK_STR(cfx_graph_call(g, "Tensor.add_", x, 1)->name, "add_");
    CHECK_STR(cfx_graph_call(g, "torch.ops.mine.op.default", x)->name, "op_default");
    CHECK_OK();
}
