/* Groups that a backend can run, that the caller has chosen, and by where nodes come from. */
#include "test.h"

#include <cfx/ops.h>
#include <cfx/split.h>

#include <string.h>

static const char *body(cfx_module *m) {
    const char *code = cfx_module_code(m), *at = strchr(code + strspn(code, "\n"), '\n');
    return at ? at + 1 : "";
}

/* ---- what a backend can run ------------------------------------------------------------------ */

static cfx_module *held(void) {
    cfx_module *gm = cfx_module_parse("def forward(self, x):\n"
                                      "    w = self.w\n"
                                      "    a = torch.add(x, w)\n"
                                      "    v = a.view(6)\n"
                                      "    b = torch.relu(v)\n"
                                      "    c = torch.sin(b)\n"
                                      "    d = torch.mul(c, 2)\n"
                                      "    e = d.view(2, 3)\n"
                                      "    return e\n",
                                      "graph");
    cfx_nn_buffer(gm, "w", cfx_full(cfx_list(2, 3), 3.0), true);
    CHECK_OK();
    return gm;
}

static bool no_sin(const cfx_node *n, void *user) {
    (void)user;
    return !cfx_node_is(n, "sin");
}

static const char *result(cfx_module *m) { return cfx_str(cfx_forward_value(m, cfx_ones(2, 3))); }

TEST(partitions_take_attributes_that_they_alone_read) {
    cfx_module *gm = held();
    cfx_module *m =
        cfx_module_partition_by(gm, no_sin, NULL, (cfx_partition_options){.attributes = true});
    CHECK_STR(body(m), "    fused_0 = self.fused_0(x);  x = None\n"
                       "    c = torch.sin(fused_0);  fused_0 = None\n"
                       "    fused_1 = self.fused_1(c);  c = None\n"
                       "    return fused_1\n    ");
    CHECK(strstr(cfx_module_code(cfx_module_find(m, "fused_0")), "w = self.w"));
    CHECK_STR(result(m), result(gm));
    m = cfx_module_partition_by(gm, no_sin, NULL, (cfx_partition_options){0});
    CHECK(strstr(body(m), "fused_0 = self.fused_0(x, w)"));
    CHECK_STR(result(m), result(gm));
    CHECK_OK();
}

/* What is not supported parts two groups where it uses the first: not where it uses none. */
TEST(partitions_are_as_few_as_can_be) {
    cfx_module *gm = cfx_module_parse("def forward(self, x, y):\n"
                                      "    a = torch.relu(x)\n"
                                      "    b = torch.mul(a, 2)\n"
                                      "    c = torch.sin(y)\n"
                                      "    d = torch.add(b, c)\n"
                                      "    e = torch.sin(d)\n"
                                      "    f = torch.add(e, b)\n"
                                      "    return f\n",
                                      "graph");
    cfx_module *m = cfx_module_partition(gm, no_sin, NULL, true);
    CHECK_STR(body(m), "    c = torch.sin(y);  y = None\n"
                       "    fused_0 = self.fused_0(x, c);  x = c = None\n"
                       "    getitem = fused_0[0]\n"
                       "    getitem_1 = fused_0[1];  fused_0 = None\n"
                       "    e = torch.sin(getitem);  getitem = None\n"
                       "    fused_1 = self.fused_1(e, getitem_1);  e = getitem_1 = None\n"
                       "    return fused_1\n    ");
    cfx_tensor *x = cfx_ones(2), *y = cfx_full(cfx_list(2), 3.0);
    CHECK_STR(cfx_str(cfx_forward(m, x, y)), cfx_str(cfx_forward(gm, x, y)));
    CHECK_OK();
}

TEST(partitions_count_what_computes) {
    cfx_module *gm = held();
    cfx_value views = cfx_list("view");
    cfx_module *m =
        cfx_module_partition_by(gm, no_sin, NULL, (cfx_partition_options){.non_compute = views});
    CHECK(strstr(body(m), "fused_0 = self.fused_0(x, w)"));
    CHECK(!strstr(body(m), "fused_1"));
    CHECK_STR(result(m), result(gm));
    m = cfx_module_partition_by(
        gm, no_sin, NULL,
        (cfx_partition_options){.non_compute = views, .single = true, .trim = true});
    CHECK(strstr(body(m), "    fused_1 = self.fused_1(c);  c = None\n"
                          "    e = fused_1.view(2, 3);  fused_1 = None\n"));
    CHECK_STR(result(m), result(gm));
    m = cfx_module_partition_by(
        gm, no_sin, NULL,
        (cfx_partition_options){.non_compute = views, .allowed_single = cfx_list("mul")});
    CHECK(strstr(body(m), "fused_1 = self.fused_1(c)"));
    CHECK_STR(result(m), result(gm));
    CHECK_OK();
}

/* ---- what the caller has chosen -------------------------------------------------------------- */

static cfx_value named(cfx_module *gm, const char *a, const char *b) {
    return cfx_list(cfx_graph_find(gm->graph, a), cfx_graph_find(gm->graph, b));
}

TEST(chosen_nodes_become_modules) {
    cfx_module *gm = held();
    cfx_module *m = cfx_fuse_nodes(gm, cfx_list(named(gm, "b", "v"), named(gm, "d", "e")), "my_");
    CHECK_STR(body(m), "    w = self.w\n"
                       "    a = torch.add(x, w);  x = w = None\n"
                       "    my_0 = self.my_0(a);  a = None\n"
                       "    c = torch.sin(my_0);  my_0 = None\n"
                       "    my_1 = self.my_1(c);  c = None\n"
                       "    return my_1\n    ");
    CHECK_STR(result(m), result(gm));
    CHECK_INT(cfx_module_inline(m, NULL), 2);
    CHECK_STR(result(m), result(gm));
    CHECK_OK();
}

TEST(chosen_nodes_have_to_fit) {
    cfx_module *gm = held(), *other = held();
    CHECK(cfx_failed(cfx_fuse_nodes(gm, cfx_list(named(gm, "b", "d")), NULL)));
    CHECK_ERROR("Invalid partition, found dependency cycles: group 0 needs c, which needs it");
    CHECK(cfx_failed(cfx_fuse_nodes(gm, cfx_list(named(gm, "b", "v"), named(gm, "c", "v")), NULL)));
    CHECK_ERROR("v is in two groups");
    CHECK(cfx_failed(cfx_fuse_nodes(gm, cfx_list(named(other, "b", "v")), NULL)));
    CHECK_ERROR("b is not found in the graph module");
    CHECK(cfx_failed(cfx_fuse_nodes(gm, cfx_list(named(gm, "x", "a")), NULL)));
    CHECK_ERROR("x cannot be part of a group");
    CHECK(cfx_failed(cfx_fuse_nodes(gm, cfx_list(cfx_list(3)), NULL)));
    CHECK_ERROR("3 is no node");
    CHECK(cfx_failed(cfx_fuse_nodes(cfx_nn_linear(2, 2), cfx_list(cfx_list(3)), NULL)));
    CHECK_ERROR("only a GraphModule can be partitioned, not Linear");
}

/* ---- where nodes come from ------------------------------------------------------------------- */

static cfx_value net(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_call(self, "relu", cfx_call(self, "conv", a.v[0]));
    x = cfx_as_tensor(cfx_py("torch.nn.functional.relu", cfx_call(self, "conv", x)));
    return cfx_tensor_value(cfx_call(self, "fc", cfx_flatten(x, 1)));
}

static cfx_module *new_net(void) {
    cfx_module *m = cfx_module_new("Net", net, "x");
    cfx_nn_add(m, "conv", cfx_nn_conv2d(2, 2, 1));
    cfx_nn_add(m, "relu", cfx_nn_make("ReLU"));
    cfx_nn_add(m, "fc", cfx_nn_linear(8, 3));
    return m;
}

/* Entry `key` of partition i of a source, the names of its nodes: "['conv2d', 'relu']". */
static const char *part(cfx_value all, const char *source, int i, const char *key) {
    cfx_value one = cfx_at(cfx_dict_get(cfx_as_dict(all), source), i);
    cfx_value nodes = cfx_dict_get(cfx_as_dict(one), key), out = cfx_list_value(0, NULL);
    for (int64_t k = 0; k < cfx_as_list(nodes)->len; k++)
        cfx_list_append(cfx_as_list(out),
                        cfx_string_value(cfx_as_node(cfx_as_list(nodes)->items[k])->name));
    return cfx_repr(out);
}

static bool is_first(const cfx_node *n, void *user) {
    (void)user;
    return !strchr(n->name, '1');
}

TEST(source_partitions_of_functions_and_modules) {
    cfx_program *p = cfx_export(new_net(), cfx_tuple(cfx_ones(1, 2, 2, 2)), CFX_NONE, CFX_NONE);
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    cfx_graph *g = core->module->graph;
    cfx_value all = cfx_source_partitions(
        g, cfx_list("linear", "torch.nn.Linear", "Conv2d", "relu", "tanh"), NULL, NULL);
    CHECK_INT(cfx_as_dict(all)->len, 4); /* no tanh */
    CHECK_STR(part(all, "linear", 0, "nodes"), "['permute', 'addmm']");
    CHECK_STR(part(all, "torch.nn.Linear", 0, "nodes"), "['permute', 'addmm']");
    CHECK_STR(part(all, "linear", 0, "input_nodes"), "['p_fc_weight', 'p_fc_bias', 'view']");
    CHECK_STR(part(all, "linear", 0, "output_nodes"), "['addmm']");
    CHECK_STR(part(all, "Conv2d", 0, "nodes"), "['convolution']");
    CHECK_STR(part(all, "Conv2d", 1, "nodes"), "['convolution_1']"); /* its second call */
    CHECK_STR(part(all, "relu", 1, "nodes"), "['relu_1']");
    all = cfx_source_partitions(g, cfx_list("relu"), is_first, NULL);
    CHECK_INT(cfx_as_list(cfx_dict_get(cfx_as_dict(all), "relu"))->len, 1);
    CHECK_OK();
    CHECK(cfx_is_bad(cfx_source_partitions(g, cfx_list(1), NULL, NULL)));
    CHECK_ERROR("sources are a list of names of functions and module types, not [1]");
}

TEST(source_partitions_of_what_was_traced) {
    cfx_module *gm = cfx_symbolic_trace(new_net());
    cfx_value wanted = cfx_list("Conv2d", "relu", "ReLU");
    cfx_value all = cfx_source_partitions(gm->graph, wanted, NULL, NULL);
    CHECK_STR(part(all, "Conv2d", 0, "nodes"), "['conv']");
    CHECK_STR(part(all, "Conv2d", 1, "nodes"), "['conv_1']");
    CHECK_STR(part(all, "ReLU", 0, "nodes"), "['relu']");
    CHECK_STR(part(all, "relu", 0, "nodes"), "['relu_1']");
    CHECK_OK();
}

TEST(sequences_of_partitions) {
    cfx_program *p = cfx_export(new_net(), cfx_tuple(cfx_ones(1, 2, 2, 2)), CFX_NONE, CFX_NONE);
    cfx_graph *g = p->module->graph;
    cfx_value found = cfx_sequential_partitions(g, cfx_list("Conv2d", "ReLU"), NULL, NULL);
    CHECK_INT(cfx_as_list(found)->len, 2); /* the module, and F.relu */
    cfx_value second = cfx_as_list(found)->items[1];
    CHECK_STR(cfx_as_node(cfx_at(cfx_dict_get(cfx_as_dict(cfx_at(second, 0)), "nodes"), 0))->name,
              "conv2d_1");
    CHECK_STR(cfx_as_node(cfx_at(cfx_dict_get(cfx_as_dict(cfx_at(second, 1)), "nodes"), 0))->name,
              "relu_1");
    found = cfx_sequential_partitions(g, cfx_list("Conv2d", "Linear"), NULL, NULL);
    CHECK_INT(cfx_as_list(found)->len, 0);
    CHECK_OK();
    CHECK(cfx_is_bad(cfx_sequential_partitions(g, cfx_list("ReLU", "relu"), NULL, NULL)));
    CHECK_ERROR("Invalid partition types: ['ReLU', 'relu']. Each type in the sequence must be "
                "unique");
}
