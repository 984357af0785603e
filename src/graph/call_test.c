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
    CHECK(!cfx_graph_call_function(g, "operator.ad", cfx_tuple(x, 1), CFX_NONE)->graph);
    CHECK_ERROR("no function is called 'operator.ad'; the nearest: operator.add");
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
