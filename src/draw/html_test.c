#include "draw.h"

#include "test.h"

#include "../value/json.h"

static cfx_tensor *block_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_add(x, cfx_relu(cfx_call(self, "fc", x)));
}

static cfx_tensor *net_forward(cfx_module *self, cfx_tensor *x) {
    for (int i = 0; i < 3; i++)
        x = cfx_call(self, cfx__text_format("blocks.%d", i), x);
    return cfx_sum(x);
}

/* Three equal blocks, exported. */
static cfx_program *net(void) {
    cfx_module *m = cfx_module_new("Net", net_forward, "x"), *list = cfx_nn_module_list(0, NULL);
    for (int i = 0; i < 3; i++) {
        cfx_module *b = cfx_module_new("Block", block_forward, "x");
        cfx_nn_add(b, "fc", cfx_nn_linear(4, 4));
        cfx_nn_append(list, b);
    }
    cfx_nn_add(m, "blocks", list);
    return cfx_export(m, cfx_tuple(cfx_zeros(cfx_list(2, 4))), CFX_NONE, CFX_NONE);
}

static bool has(const char *text, const char *part) {
    bool found = text && strstr(text, part);
    if (!found)
        test_fail(CFX_HERE, "missing: %s", part);
    return found;
}

/* The data of a page, as a value; scope. */
static cfx_value data_of(const char *html) {
    const char *from = html ? strstr(html, "id=\"data\">\n") : NULL;
    const char *to = from ? strstr(from, "\n</script>") : NULL;
    from = from ? from + strlen("id=\"data\">\n") : NULL;
    return to ? cfx__json_parse(from, (size_t)(to - from), "the page") : cfx_none();
}

static cfx_value graph_of(const char *html) {
    return cfx_at(cfx_dict_get(cfx_as_dict(data_of(html)), "graphs"), 0);
}

static int count_kind(cfx_value graph, int kind) {
    cfx_value kinds = cfx_dict_get(cfx_as_dict(graph), "kind");
    int n = 0;
    for (int64_t i = 0; i < cfx_as_list(kinds)->len; i++)
        n += cfx_integer(cfx_as_list(kinds)->items[i]) == kind;
    return n;
}

TEST(html_has_the_program_and_its_scripts) {
    const char *html = cfx_program_draw(net(), (cfx_draw_options){.form = CFX_HTML});
    CHECK_OK();
    has(html, "<!doctype html>");
    has(html, "class Viewer");
    CHECK(!strstr(html, "import {")); /* one script: modules are joined */
    CHECK(!strstr(html, "http://") || !strstr(html, "src=\"http"));
    cfx_value g = graph_of(html);
    CHECK_INT(g.tag, CFX_TAG_DICT);
    CHECK_STR(cfx_text(cfx_dict_get(cfx_as_dict(g), "title")), "Net");
    CHECK_INT(count_kind(g, CFX__ITEM_REPEAT), 1);
    CHECK_INT(count_kind(g, CFX__ITEM_MODULE), 3);
    CHECK_INT(cfx_as_list(cfx_dict_get(cfx_as_dict(g), "tensors"))->len, 6);
    has(html, "3 \xc3\x97 Block");
}

TEST(html_of_a_wide_graph_has_sections) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < 600; i++)
        n = cfx_graph_call_function(g, "torch.relu", cfx_tuple(n), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(n));
    cfx_value v = graph_of(cfx_graph_draw(g, (cfx_draw_options){.form = CFX_HTML}));
    CHECK_OK();
    CHECK_INT(count_kind(v, CFX__ITEM_SECTION), 11);
    CHECK_INT(cfx_as_list(cfx_dict_get(cfx_as_dict(v), "frames"))->len, 12);
}

static cfx_node *chain(cfx_graph *g, cfx_node *n, int len) {
    for (int i = 0; i < len; i++)
        n = cfx_graph_call_function(g, "torch.relu", cfx_tuple(n), CFX_NONE);
    return n;
}

TEST(html_folds_constants_and_what_nothing_reads) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = chain(g, x, 4);
    cfx_node *c = cfx_graph_call_function(g, "torch.arange", cfx_tuple(8), CFX_NONE);
    c = chain(g, c, 3);
    cfx_node *sum = cfx_graph_call_function(g, "torch.add", cfx_tuple(y, c), CFX_NONE);
    cfx_graph_call_function(g, "torch.relu_", cfx_tuple(c), CFX_NONE); /* changes c: is no waste */
    chain(g, x, 2); /* fewer than are folded */
    cfx_node *last = chain(g, sum, 2);
    chain(g, x, 3);
    cfx_graph_output(g, cfx_node_value(last));
    const char *html = cfx_graph_draw(g, (cfx_draw_options){.form = CFX_HTML});
    cfx_value v = graph_of(html);
    CHECK_OK();
    CHECK_INT(count_kind(v, CFX__ITEM_ASIDE), 2);
    CHECK_INT(cfx_as_list(cfx_dict_get(cfx_as_dict(v), "aside"))->len, 2);
    has(html, "\"constants\"");
    has(html, "\"unused values\"");
    CHECK(!strstr(html, "\"side values\"")); /* without weights all inputs are the spine */
}

/* Numbers that exporters to ONNX keep as tensors are no weights that a mask depends on. */
TEST(html_folds_masks_that_are_filled_with_numbers) {
    static const char text[] =
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, p_w: \"f32[2]\", p_a: \"f32[]\", p_b: \"f32[]\", x: \"f32[4, "
        "2]\", keep: \"f32[4, 2]\"):\n"
        "        y: \"f32[4, 2]\" = torch.ops.aten.mul.Tensor(x, p_w)\n"
        "        m: \"b8[4, 2]\" = torch.ops.aten.gt.Scalar(keep, 0)\n"
        "        n: \"b8[4, 2]\" = torch.ops.aten.logical_not.default(m)\n"
        "        o: \"b8[4, 2]\" = torch.ops.aten.logical_not.default(n)\n"
        "        f: \"f32[4, 2]\" = torch.ops.aten.where.self(o, p_a, p_b)\n"
        "        z: \"f32[4, 2]\" = torch.ops.aten.add.Tensor(y, f)\n"
        "        return (z,)\n";
    cfx_program *p = cfx_program_new(cfx_module_parse(text, "program"));
    static const char *const names[] = {"p_w", "p_a", "p_b"};
    for (int i = 0; i < 3; i++) {
        const char *target = names[i] + 2;
        cfx_program_add_input(
            p, (cfx_input_spec){CFX_IN_PARAMETER, names[i], target, false, false, CFX_NONE});
        cfx_dict_set(p->state, target, cfx_tensor_value(i ? cfx_ones(cfx_tuple()) : cfx_ones(2)));
    }
    cfx_program_add_input(p, (cfx_input_spec){CFX_IN_USER, "x", NULL, false, false, CFX_NONE});
    cfx_program_add_input(p, (cfx_input_spec){CFX_IN_USER, "keep", NULL, false, false, CFX_NONE});
    const char *html = cfx_program_draw(p, (cfx_draw_options){.form = CFX_HTML});
    CHECK_OK();
    CHECK_INT(count_kind(graph_of(html), CFX__ITEM_ASIDE), 1);
    has(html, "\"side values\"");
}

TEST(html_texts_cannot_leave_the_script) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node_set_meta(n, "source", cfx_string_value("</script><script>alert(1)</script>"));
    cfx_graph_output(g, cfx_node_value(n));
    const char *html = cfx_graph_draw(g, (cfx_draw_options){.form = CFX_HTML});
    CHECK(!strstr(html, "<script>alert"));
    has(html, "\\u003c/script>\\u003cscript>");
}

TEST(html_of_long_texts_takes_time_and_memory_in_proportion) {
    enum { LONG = 3000000 };
    cfx__text source = {0};
    for (int i = 0; i < LONG; i++)
        cfx__text_putc(&source, '<');
    cfx_graph *g = cfx_graph_new();
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node_set_meta(n, "source", cfx_string_value(cfx__text_take(&source)));
    cfx_graph_output(g, cfx_node_value(n));
    const char *html = cfx_graph_draw(g, (cfx_draw_options){.form = CFX_HTML});
    CHECK_OK();
    CHECK(strlen(html) > 6 * LONG && strlen(html) < 7 * LONG);
    cfx_set_memory_limit(cfx_memory_held() + 20000000); /* it ends while the text is written */
    cfx_graph_draw(g, (cfx_draw_options){.form = CFX_HTML});
    CHECK_ERROR("the memory limit of");
    cfx_set_memory_limit(0);
}

/* ---- blocks that repeat, in pictures -------------------------------------------------------- */

TEST(svg_draws_the_first_of_blocks_that_repeat) {
    cfx_program *p = net();
    const char *svg = cfx_program_draw(p, (cfx_draw_options){0});
    CHECK_OK();
    has(svg, ">blocks.0\xe2\x80\x93"
             "2 \xc2\xb7 3 \xc3\x97 Block</text>");
    has(svg, "<g id=\"modules:blocks.0\"");
    has(svg, "<g id=\"relu\"");
    has(svg, "<g id=\"sum_1\"");
    CHECK(!strstr(svg, "<g id=\"relu_1\"") && !strstr(svg, "<g id=\"relu_2\""));
    svg = cfx_program_draw(p, (cfx_draw_options){.all = true});
    has(svg, "<g id=\"relu_2\"");
    CHECK(!strstr(svg, "3 \xc3\x97 Block"));
}

static cfx_tensor *shared_forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *mask = cfx_sigmoid(x);
    for (int i = 0; i < 4; i++)
        x = cfx_mul(cfx_call(self, cfx__text_format("blocks.%d", i), x), mask);
    return x;
}

TEST(focus_leaves_out_what_a_shared_value_feeds_elsewhere) {
    cfx_module *m = cfx_module_new("Net", shared_forward, "x");
    cfx_module *list = cfx_nn_module_list(0, NULL);
    for (int i = 0; i < 4; i++) {
        cfx_module *b = cfx_module_new("Block", block_forward, "x");
        cfx_nn_add(b, "fc", cfx_nn_linear(4, 4));
        cfx_nn_append(list, b);
    }
    cfx_nn_add(m, "blocks", list);
    cfx_value x = cfx_tuple(cfx_zeros(cfx_list(2, 4)));
    cfx_program *p = cfx_export(m, x, CFX_NONE, CFX_NONE);
    const char *svg = cfx_program_draw(p, (cfx_draw_options){.focus = "module:blocks.1"});
    CHECK_OK();
    has(svg, "<g id=\"relu_1\"");
    has(svg, "<g id=\"sigmoid\"");
    CHECK(!strstr(svg, "<g id=\"mul_3\"")); /* of the mask too, three blocks further on */
}

/* ---- columns --------------------------------------------------------------------------------- */

static const char *with_column(const char *node, cfx_value v) {
    cfx_dict *columns = cfx_dict_new(), *values = cfx_dict_new();
    cfx_dict_set(values, node, v);
    cfx_dict_set(columns, "time (us)", cfx_dict_value(values));
    return cfx_program_draw(net(), (cfx_draw_options){.form = CFX_HTML, .columns = columns});
}

TEST(html_columns_are_facts_of_nodes) {
    has(with_column("relu_1", cfx_float(2.5)), "[\"time (us)\",[");
    has(with_column("relu_1", cfx_string_value("slow")), ",\"slow\"]");
    has(with_column("relu_1", cfx_list(1, 2)), ",[1,2]]");
    CHECK_OK();
    CHECK(!with_column("no_such", cfx_int(1)));
    CHECK_ERROR("column 'time (us)' has a value for 'no_such', which is no node of Net");
    CHECK(!with_column("relu_1", cfx_dict_value(cfx_dict_new())));
    CHECK_ERROR("column 'time (us)' of node relu_1 is neither a number nor a text nor a list");
    cfx_dict *columns = cfx_dict_new();
    cfx_dict_set(columns, "time", cfx_int(1));
    CHECK(!cfx_program_draw(net(), (cfx_draw_options){.form = CFX_HTML, .columns = columns}));
    CHECK_ERROR("column 'time' is no dict of node names to values");
    CHECK(!cfx_program_draw(net(), (cfx_draw_options){.form = CFX_HTML, .focus = "nothing"}));
    CHECK_ERROR("no node of Net matches 'nothing'");
}
