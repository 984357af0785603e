#include "test.h"

#include "graph.h"

TEST(lint_names_a_foreign_node) {
    cfx_graph *g = cfx_graph_new(), *h = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(h, "x", NULL, false, CFX_NONE);
    cfx_node *relu = cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(relu));
    CHECK(!cfx_graph_lint(g, NULL));
    CHECK_STR(cfx_error_last()->message,
              "Argument 'x' of Node 'relu' does not belong to this Graph, but was used as an "
              "argument! If you are copying nodes from another graph, make sure to use "
              "``arg_transform`` on node_copy() to remap values\n"
              "graph():\n"
              "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = "
              "{})\n"
              "    return relu");
    cfx_error_clear();
}

TEST(lint_names_a_use_before_the_definition) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE);
    cfx_node *z = cfx_graph_call_function(g, "torch.neg", cfx_tuple(y), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(z));
    cfx_node_set_args(y, cfx_tuple(z));
    CHECK(!cfx_graph_lint(g, NULL));
    CHECK_STR(cfx_error_last()->message,
              "Argument 'neg' of Node 'relu' was used before it has been defined! Please check "
              "that Nodes in the graph are topologically ordered\n"
              "graph():\n"
              "    %x : [num_users=0] = placeholder[target=x]\n"
              "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%neg,), kwargs "
              "= {})\n"
              "    %neg : [num_users=2] = call_function[target=torch.neg](args = (%relu,), kwargs "
              "= {})\n"
              "    return neg");
    cfx_error_clear();
    CHECK(!cfx_graph_sort(g));
    CHECK_ERROR("Input graph has cycles, unable to add [relu, neg, output]");
    CHECK(cfx__graph_check(g));
    CHECK_INT(cfx_graph_eliminate_dead_code(g), 0);
    CHECK_ERROR("was used before it has been defined!");
}

TEST(lint_looks_at_the_owner) {
    cfx_module *m = cfx_module_new_n("M", NULL, ""), *sub = cfx_module_new_n("S", NULL, "");
    cfx_nn_add(m, "sub", sub);
    cfx_module_set_attr(m, "sub.k", cfx_int(3));
    cfx_graph *g = cfx_graph_new();
    cfx_graph_get_attr(g, "sub.k");
    cfx_node *call = cfx_graph_call_module(g, "sub", CFX_NONE, CFX_NONE);
    CHECK(cfx_graph_lint(g, m));
    cfx_node_set_target(call, (cfx_target){.name = "sub.nope"});
    CHECK(!cfx_graph_lint(g, m));
    CHECK_ERROR("Node sub target sub.nope references nonexistent attribute nope of sub");
    cfx_node_set_target(call, (cfx_target){.name = "nope"});
    cfx__graph_own(g, m);
    CHECK(!cfx_graph_lint(g, NULL));
    CHECK_ERROR("Node sub target nope references nonexistent attribute nope of ");
    cfx_node_set_target(call, (cfx_target){.name = "sub.k"});
    CHECK(!cfx_graph_lint(g, NULL));
    CHECK_ERROR("Node sub target sub.k k of sub does not reference an nn.Module");
    cfx_node_set_target(call, (cfx_target){.name = "sub.k.z"});
    CHECK(!cfx_graph_lint(g, NULL));
    CHECK_ERROR("k of sub does not reference an nn.Module");
    cfx_graph_erase(call);
    cfx_graph_get_attr(g, "sub.k.z");
    CHECK(!cfx_graph_lint(g, NULL));
    CHECK_ERROR("references nonexistent attribute z of sub.k");
}

static const char *names(const cfx_graph *g) {
    cfx__text t = {0};
    cfx_each_node(g, n)
        cfx__text_printf(&t, "%s%s", t.len ? " " : "", n->name);
    return cfx__text_take(&t);
}

TEST(sorting_keeps_the_order_where_it_can) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *n[6];
    for (int i = 0; i < 6; i++)
        n[i] = cfx_graph_call_function(g, cfx__text_format("f%d", i), CFX_NONE, CFX_NONE);
    CHECK(cfx_graph_sort(g));
    CHECK_STR(names(g), "f0 f1 f2 f3 f4 f5");
    cfx_node_set_args(n[0], cfx_tuple(n[3], n[4]));
    cfx_node_set_args(n[1], cfx_tuple(n[3]));
    cfx_node_set_args(n[2], cfx_tuple(n[0]));
    CHECK(cfx_graph_sort(g));
    CHECK_STR(names(g), "f3 f1 f4 f0 f2 f5");
    CHECK(cfx__graph_check(g));
    CHECK(cfx_graph_lint(g, NULL));
    CHECK(cfx_graph_sort(cfx_graph_new()));
}

TEST(sorting_a_reversed_graph_is_linear) {
    enum { MANY = 50000 };
    cfx_graph *g = cfx_graph_new();
    cfx_value all = cfx_list_value(0, NULL);
    cfx_node *sum = cfx_graph_call_function(g, "f", CFX_NONE, CFX_NONE), *last = sum;
    for (int i = 0; i < MANY; i++) {
        cfx_node *n = cfx_graph_call_function(g, "g", CFX_NONE, CFX_NONE);
        if (last != sum)
            CFX_SCOPE
                cfx_node_set_args(last, cfx_tuple(n));
        cfx_list_append(cfx_as_list(all), cfx_node_value(n));
        last = n;
    }
    cfx_node_set_args(sum, cfx_tuple(all));
    CHECK(cfx_graph_sort(g));
    CHECK(cfx_graph_lint(g, NULL));
    CHECK(cfx_graph_last(g) == sum && cfx_graph_first(g) == last);
    CHECK(cfx__graph_check(g));
}
