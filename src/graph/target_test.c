/* Which operator a node calls, whatever its spelling. */
#include <cfx/ops.h>

#include "graph.h"
#include "test.h"

TEST(node_is_tells_operators_and_their_in_place_forms_apart) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_value args = cfx_tuple(x);
    cfx_dict *inplace = cfx_dict_new();
    cfx_dict_set(inplace, "inplace", cfx_bool(true));
    static const char *const plain[] = {"torch.relu", "torch.nn.functional.relu",
                                        "aten.relu.default", "torch.ops.aten.relu.default"};
    for (int i = 0; i < COUNT(plain); i++) {
        cfx_node *n = cfx_graph_call_function(g, plain[i], args, CFX_NONE);
        CHECK(cfx_node_is(n, "relu") && !cfx_node_is(n, "relu_") && cfx_node_is(n, plain[i]));
        CHECK(cfx_target_is(n->target, "relu") && !cfx_target_is(n->target, "relu_"));
    }
    cfx_node *written[] = {
        cfx_graph_call_function(g, "torch.relu_", args, CFX_NONE),
        cfx_graph_call_function(g, "aten.relu_.default", args, CFX_NONE),
        cfx_graph_call_method(g, "relu_", args, CFX_NONE),
        cfx_graph_call_function(g, "torch.nn.functional.relu", args, cfx_dict_value(inplace)),
        cfx_graph_call_function(g, "torch.nn.functional.relu", cfx_tuple(x, cfx_bool(true)),
                                CFX_NONE)};
    for (int i = 0; i < COUNT(written); i++)
        CHECK(cfx_node_is(written[i], "relu_") && !cfx_node_is(written[i], "relu"));
    CHECK(cfx_node_is(cfx_graph_call_method(g, "relu", args, CFX_NONE), "relu"));
    CHECK_OK();
}

TEST(node_is_takes_spellings_and_overloads) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *add = cfx_graph_call_function(g, "aten.add.Tensor", cfx_tuple(x, 1), CFX_NONE);
    cfx_node *plus = cfx_graph_call_function(g, "operator.add", cfx_tuple(x, 1), CFX_NONE);
    CHECK(cfx_node_is(add, "add") && cfx_node_is(add, "aten.add") &&
          cfx_node_is(add, "aten.add.Tensor") && cfx_node_is(add, "torch.ops.aten.add.Tensor") &&
          cfx_node_is(add, "aten::add.Tensor"));
    CHECK(!cfx_node_is(add, "aten.add.Scalar") && !cfx_node_is(add, "operator.add") &&
          !cfx_node_is(add, "aten.ad") && !cfx_node_is(add, "torch.add"));
    CHECK(cfx_node_is(plus, "add") && cfx_node_is(plus, "operator.add") &&
          !cfx_node_is(plus, "aten.add.Tensor"));
    cfx_node *mine = cfx_graph_call_function(g, "mine.relu", cfx_tuple(x), CFX_NONE);
    CHECK(cfx_node_is(mine, "relu") && cfx_node_is(mine, "mine.relu"));
    CHECK(!cfx_node_is(x, "x") && !cfx_node_is(NULL, "x") && !cfx_node_is(mine, NULL) &&
          !cfx_node_is(cfx_graph_call_module(g, "relu", cfx_tuple(x), CFX_NONE), "relu"));
    CHECK_OK();
}
