#include "test.h"

#include "graph.h"

/* The names that torch.fx gives to a row of candidates. */
static void check_names(const char *candidates, const char *expected) {
    cfx__namespace ns = {0};
    cfx__text got = {0};
    for (const char *p = candidates; *p;) {
        size_t n = strcspn(p, " ");
        cfx__text_printf(&got, "%s%s", got.len ? " " : "",
                         cfx__name_create(&ns, cfx__string_new(p, n)->text, false));
        p += n + (p[n] == ' ');
    }
    CHECK_STR(got.data, expected);
    cfx__text_release(&got);
    cfx__namespace_release(&ns);
}

TEST(names_are_numbered) {
    check_names("add add add", "add add_1 add_2");
    check_names("add add add_5 add add", "add add_1 add_5 add_6 add_7");
    check_names("relu_3 relu relu", "relu_3 relu relu_4");
    check_names("add_1 add_1 add_1 add", "add_1 add_2 add_3 add");
    check_names("x_1_2 x_1_2 x_1 x_1", "x_1_2 x_1_1 x_1 x_2");
    check_names("a_007 a_007 a_7", "a_007 a_1 a_7");
    check_names("_1 _1 __1 __1", "_1 _1_1 __1 __2");
}

TEST(names_of_python_are_avoided) {
    check_names("sum sum getattr input", "sum_1 sum_2 getattr_1 input_1");
    check_names("class inf nan torch device None", "class_1 inf_1 nan_1 torch_1 device_1 None_1");
    check_names("sum_1 sum", "sum_1 sum_2");
    CHECK(cfx__name_reserved("ArithmeticError") && cfx__name_reserved("zip"));
    CHECK(!cfx__name_reserved("relu"));
}

TEST(names_become_identifiers) {
    check_names("sub.0 a.b-c 0 *args **kwargs 3x", "sub_0 a_b_c _0 _args _kwargs _3x");
    cfx__namespace ns = {0};
    CHECK_STR(cfx__name_create(&ns, "", false), "_unnamed");
    CHECK_STR(cfx__name_create(&ns, "\xc3\xa9t\xc3\xa9", false), "_t_");
    CHECK_STR(cfx__name_create(&ns, "sum", true), "sum");
    CHECK_STR(cfx__name_create(&ns, "sum", true), "sum_1");
    cfx__namespace_release(&ns);
}

TEST(targets_become_snake_case) {
    static const char *const rows[][2] = {{"MaxPool", "max_pool"},   {"Conv2d", "conv2d"},
                                          {"T", "t"},                {"getHTTPResponse",
                                                                      "get_httpresponse"},
                                          {"mod.pascalCase", "mod.pascal_case"},
                                          {"ALL_CAPS", "all_caps"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cfx__text t = {0};
        cfx__name_snake_case(&t, rows[i][0]);
        CHECK_STR(t.data, rows[i][1]);
        cfx__text_release(&t);
    }
}

static const char *name_of(cfx_node *n) { return n->name; }

TEST(nodes_are_called_after_their_targets) {
    cfx_graph *g = cfx_graph_new();
    CHECK_STR(name_of(cfx_graph_placeholder(g, "sum", NULL, false, CFX_NONE)), "sum_1");
    CHECK_STR(name_of(cfx_graph_placeholder(g, "*args", NULL, false, CFX_NONE)), "_args");
    CHECK_STR(name_of(cfx_graph_get_attr(g, "layers.0.weight")), "layers_0_weight");
    CHECK_STR(name_of(cfx_graph_call_function(g, "torch.relu", CFX_NONE, CFX_NONE)), "relu");
    CHECK_STR(name_of(cfx_graph_call_function(g, "torch.ops.aten.relu.default", CFX_NONE,
                                              CFX_NONE)),
              "relu_default");
    CHECK_STR(name_of(cfx_graph_call_function(g, "operator.and_", CFX_NONE, CFX_NONE)), "and_");
    CHECK_STR(name_of(cfx_graph_call_function(g, "torch.ops.my.thing.out", CFX_NONE, CFX_NONE)),
              "thing_out");
    CHECK_STR(name_of(cfx_graph_call_function(g, "torch.ops.higher_order.cond", CFX_NONE,
                                              CFX_NONE)),
              "cond");
    CHECK_STR(name_of(cfx_graph_call_function(g, "getattr", CFX_NONE, CFX_NONE)), "getattr_1");
    CHECK_STR(name_of(cfx_graph_call_method(g, "__add__", CFX_NONE, CFX_NONE)), "add");
    CHECK_STR(name_of(cfx_graph_call_module(g, "myConv", CFX_NONE, CFX_NONE)), "my_conv");
    CHECK_STR(name_of(cfx_graph_output(g, CFX_NONE)), "output");
    CHECK_OK();
}

TEST(a_name_costs_the_same_however_many_there_are) {
    cfx__namespace ns = {0};
    for (int i = 0; i < 100000; i++)
        cfx__name_create(&ns, "add", false);
    for (int i = 0; i < 100000; i++)
        cfx__name_create(&ns, i % 2 ? "add_1" : "add_5", false);
    CHECK_STR(cfx__name_create(&ns, "add_1", false), "add_200000");
    CHECK_STR(cfx__name_create(&ns, "add", false), "add_200001");
    cfx__namespace_release(&ns);
}
