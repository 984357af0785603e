#include "draw.h"

#include "files.h"
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

static bool has(const char *text, const char *part) {
    bool found = text && strstr(text, part);
    if (!found)
        test_fail(CFX_HERE, "missing: %s", part);
    return found;
}

/* The numbers of RFC 1321. */
TEST(draw_md5) {
    CHECK_INT(cfx__draw_md5("", 0), 0xd41d8cd9);
    CHECK_INT(cfx__draw_md5("abc", 3), 0x90015098);
    CHECK_INT(cfx__draw_md5("message digest", 14), 0xf96b697d);
    static const char long_one[] =
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
    CHECK_INT(cfx__draw_md5(long_one, 80), 0x57edf4a2);
}

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_tensor_at(cfx_list(cfx_py("operator.add", x, 1)), 0);
    return cfx_call(self, "fc", cfx_clamp(cfx_relu(y), 0, 1));
}

static cfx_module *traced(void) {
    cfx_module *m = cfx_module_new("Net", forward, "x");
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 2));
    return cfx_symbolic_trace(m);
}

TEST(draw_dot_is_that_of_fx_graph_drawer) {
    const char *dot = cfx_module_draw(traced(), (cfx_draw_options){.form = CFX_DOT});
    CHECK_OK();
    has(dot, "digraph \"Net\" {\nrankdir=TB;\n");
    has(dot, "\"x\" [label=\"{name=%x|op_code=placeholder\\n|target=x\\n|num_users=1\\n}\", "
             "shape=\"record\", style=\"filled,rounded\", fillcolor=\"AliceBlue\", "
             "fontcolor=\"#000000\"];\n");
    has(dot,
        "{name=%add|op_code=call_function\\n|target=_operator.add\\n|args=(1,)|num_users=1\\n}");
    has(dot, "fillcolor=\"Wheat1\"");   /* operator.add */
    has(dot, "fillcolor=\"Coral\"");    /* torch.clamp */
    has(dot, "fillcolor=\"Thistle1\""); /* torch.relu */
    has(dot, "|args=(\\l0,\\n1,\\n)\\l|");
    has(dot, "{name=%fc|op_code=call_module\\n\\ntorch.nn.modules.linear.Linear\\n|"
             "in_features: 4\\nout_features: 2\\n}");
    has(dot, "\"fc.weight\" [label=\"{fc.weight|op_code=get_parameter\\ltorch.float32[2, 4]\\n}\", "
             "shape=\"record\", style=\"filled,rounded\", fillcolor=\"Salmon\"");
    has(dot, "\"fc.weight\" -> \"fc\";\n");
    has(dot, "\"relu\" -> \"clamp\";\n");
    const char *bare =
        cfx_module_draw(traced(), (cfx_draw_options){.form = CFX_DOT,
                                                     .ignore_parameters_and_buffers = true,
                                                     .dot_graph_shape = "box",
                                                     .node_names_in_args = true});
    CHECK(!strstr(bare, "fc.weight"));
    has(bare, "shape=\"box\"");
    has(bare, "args=(\\l%x,\\n1,\\n)\\l");
    CHECK(
        !cfx_module_draw(traced(), (cfx_draw_options){.form = CFX_DOT, .dot_graph_shape = "a\"b"}));
    CHECK_ERROR("is no shape");
}

/* Feeds a text to graphviz, which has to read all of it; returns what it says of each node. */
static const char *through_graphviz(const char *text) {
    const char *in = test_path("graph.dot");
    FILE *f = fopen(in, "w");
    if (!CHECK(f != NULL))
        return NULL;
    fputs(text, f);
    fclose(f);
    FILE *p = popen(cfx__text_format("dot -Tplain '%s' 2>&1", in), "r");
    cfx__text got = {0};
    char line[512];
    while (p && fgets(line, sizeof line, p))
        cfx__text_puts(&got, line);
    int status = p ? pclose(p) : -1;
    if (status || !got.len || strstr(got.data, "rror") || strstr(got.data, "arning"))
        test_fail(CFX_HERE, "graphviz (tools/setup --tests): status %d: %s", status,
                  got.data ? got.data : "");
    remove(in);
    return cfx__text_take(&got);
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at++)
        n++;
    return n;
}

TEST(draw_dot_goes_through_graphviz) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_call_function(
        g, "torch.einsum",
        cfx_tuple("ij,jk->ik {a|b} <p> \"q\" \\n \\ & \xc3\xa9\nend", cfx_list(x)), CFX_NONE);
    cfx_node_set_meta(y, "stack_trace",
                      CFX_V("  File \"/a/b/c/d.py\", line 7, in f\n    x = {1 | 2} < \"3\""));
    cfx_graph_output(g, cfx_node_value(y));
    cfx_draw_options o = {.form = CFX_DOT, .parse_stack_trace = true, .name = "a \"b\" {|}"};
    const char *dot = cfx_graph_draw(g, o);
    CHECK_OK();
    has(dot, "file=c/d.py:7 x = \\{1 \\| 2\\} \\< \\\"3\\\"\\n");
    CHECK_INT(count(through_graphviz(dot), "\nnode "), 3);
    o.dot_graph_shape = "box";
    CHECK_INT(count(through_graphviz(cfx_graph_draw(g, o)), "\nnode "), 3);
    CHECK_INT(
        count(through_graphviz(cfx_module_draw(traced(), (cfx_draw_options){.form = CFX_DOT})),
              "\nnode "),
        8); /* six nodes, a weight, a bias */
}

TEST(draw_dot_normalizes_arguments) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y =
        cfx_graph_call_function(g, "torch.ops.aten.add.Tensor", cfx_tuple(x, 2), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(y));
    const char *plain = cfx_graph_draw(g, (cfx_draw_options){.form = CFX_DOT});
    has(plain, "|args=(2,)|num_users");
    const char *dot =
        cfx_graph_draw(g, (cfx_draw_options){.form = CFX_DOT, .normalize_args = true});
    has(dot, "|kwargs=\\{\\lother: 2,\\nalpha: 1,\\n\\}\\l|num_users");
    CHECK_INT(count(through_graphviz(dot), "\nnode "), 3);
}

TEST(draw_dot_has_a_graph_for_each_subgraph) {
    static const char text[] = "class GraphModule(torch.nn.Module):\n"
                               "    def forward(self, x: \"f32[3]\", p: \"b8[]\"):\n"
                               "        a = self.a\n"
                               "        b = self.b\n"
                               "        cond = torch.ops.higher_order.cond(p, a, b, [x])\n"
                               "        return (cond,)\n"
                               "\n"
                               "    class a(torch.nn.Module):\n"
                               "        def forward(self, x: \"f32[3]\"):\n"
                               "            relu: \"f32[3]\" = torch.ops.aten.relu.default(x)\n"
                               "            return (relu,)\n"
                               "\n"
                               "    class b(torch.nn.Module):\n"
                               "        def forward(self, x: \"f32[3]\"):\n"
                               "            return (x,)\n";
    cfx_module *gm = cfx_module_parse(text, "text");
    const char *dot = cfx_module_draw(gm, (cfx_draw_options){.form = CFX_DOT});
    CHECK_OK();
    CHECK_INT(count(dot, "digraph "), 3);
    has(dot, "digraph \"GraphModule_a\" {");
    has(dot, "|dtype=torch.float32\\n|shape=(3,)\\n|stride=(1,)\\n");
    CHECK_INT(count(through_graphviz(dot), "\nnode "), 6 + 3 + 2);
}
