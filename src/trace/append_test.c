/* Nodes as operands: outside tracing a call on a node appends to its graph. */
#include <cfx/export.h>
#include <cfx/layers.h>
#include <cfx/ops.h>
#include <cfx/run.h>

#include "test.h"
#include "trace.h"

static cfx_tensor *swish(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_mul(x, cfx_sigmoid(x));
}

static cfx_module *traced(void) { return cfx_symbolic_trace(cfx_module_new("Swish", swish, "x")); }

TEST(a_pass_is_written_as_mathematics) {
    cfx_module *gm = traced();
    cfx_graph *g = gm->graph;
    cfx_node *x = cfx_graph_find(g, "x"), *mul = cfx_graph_find(g, "mul");
    CFX_INSERT_BEFORE(g, mul)
    CHECK_INT(cfx_node_replace(mul, cfx_add(cfx_relu(cfx_proxy(x)), 1, CFX_KW(alpha, 2))), 1);
    CHECK_INT(cfx_graph_eliminate_dead_code(g), 2);
    CHECK_STR(cfx_graph_str(g),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = "
              "{})\n"
              "    %add : [num_users=1] = call_function[target=torch.add](args = (%relu, 1), "
              "kwargs = {alpha: 2})\n"
              "    return add");
    CHECK(cfx_graph_lint(g, gm));
    CHECK_STR(cfx_str(cfx_forward(gm, cfx_tensor_from_value(cfx_list(-1.0, 3.0)))),
              "tensor([2., 5.])");
}

TEST(a_call_follows_its_operands_where_the_graph_is_whole) {
    cfx_module *gm = traced();
    cfx_node *s = cfx_graph_find(gm->graph, "sigmoid");
    CHECK_INT(cfx_node_replace(s, cfx_mul(cfx_tanh(cfx_node_input(s, 0)), 2)), 1);
    cfx_graph_eliminate_dead_code(gm->graph);
    CHECK_STR(strstr(cfx_module_code(gm), "    tanh"),
              "    tanh = torch.tanh(x)\n"
              "    mul_1 = torch.mul(tanh, 2);  tanh = None\n"
              "    mul = torch.mul(x, mul_1);  x = mul_1 = None\n"
              "    return mul\n    ");
    CHECK(cfx_graph_lint(gm->graph, gm));
}

TEST(a_node_itself_is_an_operand_also_in_lists_and_methods) {
    cfx_graph *g = traced()->graph;
    cfx_node *x = cfx_graph_find(g, "x"), *s = cfx_graph_find(g, "sigmoid");
    CFX_INSERT_AFTER(g, s) {
        cfx_node *sum = cfx_proxy_node(cfx_py("operator.add", x, s));
        CHECK_STR(cfx_node_format(sum), "%add : [num_users=0] = call_function[target=operator.add]"
                                        "(args = (%x, %sigmoid), kwargs = {})");
        cfx_tensor *both = cfx_cat(cfx_list(x, cfx_proxy(s)), 1);
        CHECK_STR(cfx_node_format(cfx_proxy_node(both)),
                  "%cat : [num_users=0] = call_function[target=torch.cat](args = ([%x, %sigmoid], "
                  "1), kwargs = {})");
        cfx_value item = cfx_at(cfx_method(cfx_proxy(x), "chunk", 2), 1);
        CHECK_STR(cfx_node_format(cfx_proxy_node(item)),
                  "%getitem : [num_users=0] = call_function[target=operator.getitem](args = "
                  "(%chunk, 1), kwargs = {})");
        CHECK_STR(cfx_node_format(cfx_proxy_node(cfx_relu_(cfx_proxy(x)))),
                  "%relu_ : [num_users=0] = call_function[target=torch.relu_](args = (%x,), kwargs "
                  "= {})");
        cfx_node *by_hand = cfx_graph_call_function(g, "torch.neg", cfx_tuple(both), CFX_NONE);
        CHECK_STR(cfx_repr(by_hand->args), "(cat,)");
    }
    CHECK(cfx_proxy_node(cfx_ones(cfx_list(2))) == NULL);
    CHECK_OK();
}

TEST(a_tensor_beside_a_node_becomes_a_constant_of_the_module) {
    cfx_module *gm = traced();
    cfx_node *x = cfx_graph_find(gm->graph, "x"), *mul = cfx_graph_find(gm->graph, "mul");
    CFX_INSERT_BEFORE(gm->graph, mul)
    cfx_node_replace(mul, cfx_add(cfx_tensor_from_value(cfx_list(1.0, 2.0)), x));
    CHECK(cfx_module_has(gm, "_tensor_constant0"));
    CHECK_STR(cfx_str(cfx_forward(gm, cfx_tensor_from_value(cfx_list(1.0, 1.0)))),
              "tensor([2., 3.])");
    cfx_graph *alone = cfx_graph_new();
    cfx_node *y = cfx_graph_placeholder(alone, "y", NULL, false, CFX_NONE);
    CHECK_OK();
    cfx_add(cfx_ones(cfx_list(2)), y);
    CHECK_ERROR("a tensor is combined with a node of a graph that belongs to no module");
}

TEST(in_a_graph_of_overloads_overloads_are_appended) {
    cfx_module *m = cfx_module_new("Swish", swish, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(2)), CFX_NONE, CFX_NONE);
    cfx_graph *g = p->module->graph;
    cfx_node *x = cfx_graph_find(g, "x"), *mul = cfx_graph_find(g, "mul");
    CFX_INSERT_BEFORE(g, mul)
    cfx_node_replace(mul, cfx_add(cfx_silu(x), 1));
    cfx_graph_eliminate_dead_code(g);
    CHECK_STR(
        cfx_graph_str(g),
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %silu_default : [num_users=1] = call_function[target=torch.ops.aten.silu.default]"
        "(args = (%x,), kwargs = {})\n"
        "    %add_tensor : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
        "(args = (%silu_default, 1), kwargs = {})\n"
        "    return (add_tensor,)");
    CHECK_STR(cfx_str(cfx_program_run(p, cfx_tensor_from_value(cfx_list(0.0, 0.0)))),
              "tensor([1., 1.])");
    cfx_node *parts = cfx_proxy_node(cfx_split(x, 1));
    CHECK_STR(cfx_node_format(parts),
              "%split_tensor : [num_users=0] = call_function[target=torch.ops.aten.split.Tensor]"
              "(args = (%x, 1), kwargs = {})");
    cfx_add(x, "a");
    CHECK_ERROR("add(): argument 'other' (position 2) must be Tensor, not str");
}

TEST(proxies_print_as_such_and_are_indexed) {
    cfx_graph *g = traced()->graph;
    cfx_node *x = cfx_graph_find(g, "x");
    CHECK_STR(cfx_str(cfx_proxy(x)), "Proxy(x)");
    CHECK_STR(cfx_repr(cfx_at(cfx_node_value(x), 1)), "Proxy(getitem)");
    CHECK_STR(cfx_node_format(cfx_graph_find(g, "getitem")),
              "%getitem : [num_users=0] = call_function[target=operator.getitem]"
              "(args = (%x, 1), kwargs = {})");
}

TEST(operands_that_are_no_nodes_any_more_are_refused) {
    cfx_graph *g = traced()->graph, *other = traced()->graph;
    cfx_node *x = cfx_graph_find(g, "x");
    cfx_add(x, cfx_graph_find(other, "x"));
    CHECK_ERROR("x belongs to another graph");
    cfx_tensor *gone = cfx_relu(x);
    cfx_graph_erase(cfx_proxy_node(gone));
    cfx_neg(gone);
    CHECK_ERROR("Node relu was erased: it can be no operand");
    CHECK(cfx__obj_is_bad(cfx_proxy(NULL)));
    CHECK_ERROR("the node is NULL");
    cfx_relu((cfx_node *)NULL);
    CHECK_ERROR("relu(): argument 'input' (position 1) must be Tensor, not NoneType");
}
