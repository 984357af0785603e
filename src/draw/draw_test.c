#include <cfx.h>

#include "files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cfx_tensor *mlp_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "fc2", cfx_relu(cfx_call(self, "fc1", x)));
}

static cfx_module *mlp(void) {
    cfx_module *m = cfx_module_new("MLP", mlp_forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(4, 8));
    cfx_nn_add(m, "fc2", cfx_nn_linear(8, 2, .no_bias = true));
    return cfx_symbolic_trace(m);
}

static bool has(const char *text, const char *part) {
    bool found = text && strstr(text, part);
    if (!found)
        test_fail(CFX_HERE, "missing: %s", part);
    return found;
}

/* Whether a text is XML as far as a drawing needs it: elements nest, and what is quoted or between
 * them holds no sign that would have to be escaped. */
static bool well_formed(const char *text) {
    if (!text)
        return false;
    const char *open[64];
    size_t len[64];
    int depth = 0;
    for (const char *at = text; *at;) {
        if (*at == '&') {
            size_t n = strcspn(at, ";");
            if (n > 6)
                return false;
            at += n;
        } else if (*at == '<') {
            bool closing = at[1] == '/';
            const char *name = at + 1 + closing;
            size_t n = strcspn(name, " />\n");
            const char *end = name + n;
            for (bool quoted = false; *end && (quoted || *end != '>'); end++) {
                quoted ^= *end == '"';
                if (*end == '<')
                    return false;
            }
            if (!*end)
                return false;
            if (closing) {
                if (!depth--)
                    return false;
                if (len[depth] != n || memcmp(open[depth], name, n))
                    return false;
            } else if (end[-1] != '/') {
                if (depth == 64)
                    return false;
                open[depth] = name;
                len[depth++] = n;
            }
            at = end + 1;
        } else {
            at++;
        }
    }
    return depth == 0;
}

TEST(draw_svg_of_a_module) {
    cfx_module *gm = mlp();
    const char *svg = cfx_module_draw(gm, (cfx_draw_options){0});
    CHECK_OK();
    CHECK(well_formed(svg));
    has(svg, "<svg xmlns=");
    has(svg, "prefers-color-scheme:dark");
    has(svg, "<g id=\"fc1\"");
    has(svg, ">Linear</text>");
    has(svg, ">weight f32[8, 4]</text>");
    has(svg, ">in_features=4, out_features=8,</text>");
    has(svg, "<title>%relu : [num_users=1] = call_function[target=torch.relu]");
    has(svg, "draw_test.c:");                                   /* the source line, in the title */
    CHECK_STR(svg, cfx_module_draw(gm, (cfx_draw_options){0})); /* the same bytes each time */
}

TEST(draw_escapes_everything) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_call_function(
        g, "torch.einsum", cfx_tuple("ij,jk->ik & \"<b>'|{}\\\n\x01\xff", cfx_list(x, x)),
        CFX_NONE);
    cfx_node *z = cfx_graph_call_method(g, "clamp", cfx_tuple(y), CFX_NONE);
    cfx_dict *stack = cfx_dict_new();
    cfx_dict_set(stack, "k",
                 cfx_tuple("a<b>&\"c\".gr\xc3\xb6\xc3\x9f"
                           "e",
                           "T<int>"));
    cfx_node_set_meta(z, "nn_module_stack", cfx_dict_value(stack));
    cfx_node_set_meta(z, "stack_trace", CFX_V("  File \"<eval>\", line 3, in f\n    a < b && c"));
    cfx_graph_output(g, cfx_node_value(z));
    const char *svg = cfx_graph_draw(g, (cfx_draw_options){.name = "<script>&"});
    CHECK_OK();
    CHECK(well_formed(svg));
    CHECK(!strstr(svg, "<script>") && !strstr(svg, "<b>") && !strchr(svg, '\x01'));
    has(svg, "&lt;script&gt;&amp;");
    has(svg, "-&gt;ik &amp;");
    has(svg, "a&lt;b&gt;&amp;&quot;c&quot;.gr\xc3\xb6\xc3\x9f"
             "e");
    has(svg, "a &lt; b &amp;&amp; c");
}

/* ---- sub-graphs ---------------------------------------------------------------------------- */

static const char branches[] =
    "class GraphModule(torch.nn.Module):\n"
    "    def forward(self, x: \"f32[3, 4]\", p: \"b8[]\"):\n"
    "        true_graph_0 = self.true_graph_0\n"
    "        false_graph_0 = self.false_graph_0\n"
    "        cond = torch.ops.higher_order.cond(p, true_graph_0, false_graph_0, [x])\n"
    "        getitem: \"f32[3, 4]\" = cond[0]\n"
    "        return (getitem,)\n"
    "\n"
    "    class true_graph_0(torch.nn.Module):\n"
    "        def forward(self, x: \"f32[3, 4]\"):\n"
    "            relu: \"f32[3, 4]\" = torch.ops.aten.relu.default(x)\n"
    "            return (relu,)\n"
    "\n"
    "    class false_graph_0(torch.nn.Module):\n"
    "        def forward(self, x: \"f32[3, 4]\"):\n"
    "            sin: \"f32[3, 4]\" = torch.ops.aten.sin.default(x)\n"
    "            return (sin,)\n";

TEST(draw_subgraphs_inside_their_node) {
    cfx_module *gm = cfx_module_parse(branches, "branches");
    const char *svg = cfx_module_draw(gm, (cfx_draw_options){0});
    CHECK_OK();
    CHECK(well_formed(svg));
    has(svg, "id=\"cond\"");
    has(svg, "id=\"cond.true_graph_0.relu\"");
    has(svg, "id=\"cond.false_graph_0.sin\"");
    const char *closed = cfx_module_draw(gm, (cfx_draw_options){.depth = 1});
    CHECK(!strstr(closed, "true_graph_0.relu"));
    const char *focus = cfx_module_draw(gm, (cfx_draw_options){.focus = "op:sin"});
    has(focus, "id=\"cond.false_graph_0.sin\"");
}

/* ---- programs ------------------------------------------------------------------------------ */

static cfx_program *program(void) {
    static const char text[] =
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, p_fc_weight: \"f32[2, 4]\", b_scale: \"f32[2]\", x: \"f32[3, "
        "4]\"):\n"
        "        linear: \"f32[3, 2]\" = torch.ops.aten.linear.default(x, p_fc_weight)\n"
        "        mul: \"f32[3, 2]\" = torch.ops.aten.mul.Tensor(linear, b_scale)\n"
        "        relu: \"f32[3, 2]\" = torch.ops.aten.relu.default(mul)\n"
        "        return (relu,)\n";
    cfx_program *p = cfx_program_new(cfx_module_parse(text, "program"));
    cfx_program_add_input(
        p, (cfx_input_spec){CFX_IN_PARAMETER, "p_fc_weight", "fc.weight", false, false, CFX_NONE});
    cfx_program_add_input(
        p, (cfx_input_spec){CFX_IN_BUFFER, "b_scale", "scale", true, false, CFX_NONE});
    cfx_program_add_input(p, (cfx_input_spec){CFX_IN_USER, "x", NULL, false, false, CFX_NONE});
    return p;
}

TEST(draw_folds_parameters) {
    const char *svg = cfx_program_draw(program(), (cfx_draw_options){0});
    CHECK_OK();
    CHECK(well_formed(svg));
    has(svg, ">fc.weight f32[2, 4]</text>");
    has(svg, ">scale f32[2]</text>");
    CHECK(!strstr(svg, "id=\"p_fc_weight\""));
    has(svg, "id=\"x\"");
}

/* Numbers that say what an operator does stand in its box, as they do where they are no tensors. */
TEST(draw_tells_small_constants) {
    static const char text[] =
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, p_w: \"f32[2]\", p_k: \"f32[]\", c_at: \"i64[2]\", c_long: "
        "\"i64[9]\", x: \"f32[4, 2]\"):\n"
        "        a: \"f32[2, 2]\" = torch.ops.aten.index_select.default(x, 0, c_at)\n"
        "        b: \"f32[2, 2]\" = torch.ops.aten.mul.Tensor(a, p_k)\n"
        "        c: \"f32[2, 2]\" = torch.ops.aten.mul.Tensor(b, p_w)\n"
        "        d: \"i64[9]\" = torch.ops.aten.neg.default(c_long)\n"
        "        e: \"f32[2, 2]\" = torch.ops.onnx.HardSigmoid.default(c, alpha = 0.2, "
        "beta = 0.25)\n"
        "        return (d, e)\n";
    cfx_program *p = cfx_program_new(cfx_module_parse(text, "program"));
    cfx_program_add_input(
        p, (cfx_input_spec){CFX_IN_PARAMETER, "p_w", "w", false, false, CFX_NONE});
    cfx_program_add_input(
        p, (cfx_input_spec){CFX_IN_PARAMETER, "p_k", "k", false, false, CFX_NONE});
    cfx_program_add_input(
        p, (cfx_input_spec){CFX_IN_CONSTANT, "c_at", "at", false, false, CFX_NONE});
    cfx_program_add_input(
        p, (cfx_input_spec){CFX_IN_CONSTANT, "c_long", "long", false, false, CFX_NONE});
    cfx_program_add_input(p, (cfx_input_spec){CFX_IN_USER, "x", NULL, false, false, CFX_NONE});
    cfx_dict_set(p->state, "w", cfx_tensor_value(cfx_ones(2)));
    cfx_dict_set(p->state, "k", cfx_tensor_value(cfx_full(cfx_tuple(), 0.25)));
    cfx_dict_set(p->constants, "at",
                 cfx_tensor_value(cfx_tensor_from_value(cfx_list(3, 0))));
    cfx_dict_set(p->constants, "long", cfx_tensor_value(cfx_arange(9)));
    const char *svg = cfx_program_draw(p, (cfx_draw_options){0});
    CHECK_OK();
    has(svg, ">dim=0, index=[3, 0]</text>");
    has(svg, ">other=0.25</text>");
    has(svg, ">w f32[2]</text>");
    has(svg, ">long i64[9]</text>");
    CHECK(!strstr(svg, ">at i64[2]</text>"));
    has(svg, ">beta=0.25</text>"); /* and not alpha, which is 0.2 where nothing is said */
    const char *html = cfx_program_draw(p, (cfx_draw_options){.form = CFX_HTML});
    has(html, "\"%c_at = [3, 0]\"");
    has(html, "\"numbers\":\"0.25\"");
    has(html, "\"shape\":\"i64[9]\",\"bytes\":72,\"count\"");
    CHECK_OK();
}

TEST(draw_focus_leaves_the_rest_out) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < 12; i++)
        n = cfx_graph_call_function(g, "torch.relu", cfx_tuple(n), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(n));
    const char *svg = cfx_graph_draw(g, (cfx_draw_options){.focus = "relu_6"});
    CHECK_OK();
    CHECK(well_formed(svg));
    has(svg, "id=\"relu_4\"");
    has(svg, "id=\"relu_8\"");
    CHECK(!strstr(svg, "id=\"relu_3\"") && !strstr(svg, "id=\"relu_9\""));
    has(svg, ">relu_3</text>"); /* what it reads is named on a stub */
    CHECK(!cfx_graph_draw(g, (cfx_draw_options){.focus = "op:conv2d"}));
    CHECK_ERROR("no node of graph matches 'op:conv2d'");
}

/* ---- the caller's paint -------------------------------------------------------------------- */

static void paint(const cfx_node *n, cfx_node_style *style, void *user) {
    ++*(int *)user;
    if (!strcmp(n->name, "relu")) {
        style->fill = "#ffd0d0";
        style->lines = "12.5 us\n40 % of <all>\n";
    }
}

static void paint_badly(const cfx_node *n, cfx_node_style *style, void *user) {
    (void)n, (void)user;
    style->fill = "red;}</style>";
}

TEST(draw_styles_of_the_caller) {
    int asked = 0;
    const char *svg = cfx_module_draw(mlp(), (cfx_draw_options){.style = paint, .user = &asked});
    CHECK_INT(asked, 5);
    CHECK(well_formed(svg));
    has(svg, "style=\"fill:#ffd0d0\"");
    has(svg, ">12.5 us</text>");
    has(svg, ">40 % of &lt;all&gt;</text>");
    CHECK(!cfx_module_draw(mlp(), (cfx_draw_options){.style = paint_badly}));
    CHECK_ERROR("is no CSS colour");
}

/* ---- bad input ----------------------------------------------------------------------------- */

static bool exists(const char *path) { return access(path, F_OK) == 0; }

TEST(draw_refuses_what_is_no_graph) {
    CHECK(!cfx_graph_draw(cfx_graph_new(), (cfx_draw_options){0}));
    CHECK_ERROR("the graph is empty");
    CHECK(!cfx_graph_draw(NULL, (cfx_draw_options){0}));
    CHECK(!cfx_ok());
    cfx_error_clear();
    CHECK(!cfx_module_draw(cfx_nn_linear(2, 2), (cfx_draw_options){0}));
    CHECK_ERROR("only a GraphModule can be drawn, not Linear");
    CHECK(!cfx_program_draw(NULL, (cfx_draw_options){0}));
    CHECK_ERROR("there is no program to draw");
    CHECK(!cfx_module_draw(mlp(), (cfx_draw_options){.depth = -1}));
    CHECK_ERROR("a depth of -1");
    cfx_graph *g = cfx_graph_new(); /* used before it is made */
    cfx_node *a = cfx_graph_placeholder(g, "a", NULL, false, CFX_NONE);
    cfx_node *b = cfx_graph_call_function(g, "torch.relu", cfx_tuple(a), CFX_NONE);
    cfx_node_move_before(b, a);
    CHECK(!cfx_graph_draw(g, (cfx_draw_options){0}));
    CHECK_ERROR("was used before it has been defined");
}

TEST(draw_files_are_whole_or_not_there) {
    const char *path = test_path("a.svg"), *other = test_path("none/a.dot");
    cfx_module *gm = mlp();
    CHECK(cfx_module_draw_file(gm, path, (cfx_draw_options){0}));
    CHECK(exists(path));
    remove(path);
    CHECK(!cfx_module_draw_file(gm, other, (cfx_draw_options){0}));
    CHECK_ERROR("cannot write");
    other = test_path("a.png");
    CHECK(!cfx_module_draw_file(gm, other, (cfx_draw_options){0}));
    CHECK_ERROR("the name must end in .svg, .html or .dot");
    CHECK(!exists(other));
    CHECK(!cfx_module_draw_file(gm, path, (cfx_draw_options){.focus = "nothing"}));
    CHECK_ERROR("no node of MLP matches 'nothing'");
    CHECK(!exists(path));
    test_folder_done(); /* nothing is left in it */
}
