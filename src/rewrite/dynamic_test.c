/* Sizes of inputs become symbols: numbers that were sizes are found, what pins a size is told. */
#include <cfx/check.h>
#include <cfx/ops.h>

#include "../../tests/files.h"
#include "../value/value.h"

static cfx_program *parsed(const char *body) {
    cfx_program *p = cfx_program_parse(body, "m.fx");
    CHECK_OK();
    return p;
}

static cfx_program *dynamic(const cfx_program *p, const char *size, const char *name) {
    cfx_dict *sizes = cfx_dict_new();
    cfx_dict_set(sizes, size, cfx_string_value(name));
    return cfx_make_dynamic(p, sizes);
}

#define HAS(text, part) CHECK(strstr(text, part) != NULL)

/* Views, ranges, masks and what is expanded to the batch, as exporters leave them at one size. */
TEST(numbers_that_were_sizes_are_computed) {
    cfx_program *p = parsed(
        "def forward(self, x: \"f32[2, 6, 8]\", cls: \"f32[1, 1, 8]\"):\n"
        "    heads = torch.ops.aten.view.default(x, [2, 6, 2, 4])\n"
        "    turned = torch.ops.aten.transpose.int(heads, 1, 2)\n"
        "    flat = torch.ops.aten.reshape.default(turned, [4, 6, 4])\n"
        "    back = torch.ops.aten.view.default(flat, [2, 2, 6, -1])\n"
        "    order = torch.ops.aten.transpose.int(back, 1, 2)\n"
        "    whole = torch.ops.aten.reshape.default(order, [2, 6, 8])\n"
        "    token = torch.ops.aten.expand.default(cls, [2, -1, -1])\n"
        "    all = torch.ops.aten.cat.default([token, whole], 1)\n"
        "    zeros = torch.ops.aten.zeros.default([2, 7, 8])\n"
        "    sum = torch.ops.aten.add.Tensor(all, zeros)\n"
        "    return (sum,)\n");
    cfx_program *q = dynamic(p, "in0.0", "batch");
    CHECK_OK();
    CHECK(cfx_program_check(q));
    const char *code = cfx_graph_code(q->module->graph);
    HAS(code, "sym_size_int = torch.ops.aten.sym_size.int(x, 0)");
    HAS(code, "heads = torch.ops.aten.view.default(x, [sym_size_int, 6, 2, 4])");
    HAS(code, "flat = torch.ops.aten.reshape.default(turned, [mul, 6, 4])");
    HAS(code, "back = torch.ops.aten.view.default(flat, [sym_size_int, 2, 6, -1])");
    HAS(code, "token = torch.ops.aten.expand.default(cls, [sym_size_int, -1, -1])");
    HAS(code, "zeros = torch.ops.aten.zeros.default([sym_size_int, 7, 8])");
    cfx_tensor *x = cfx_randn(5, 6, 8), *cls = cfx_randn(1, 1, 8);
    cfx_value got = cfx_at(cfx_program_run(q, x, cls), 0);
    cfx_value want = cfx_tensor_value(cfx_cat(cfx_list(cfx_expand(cls, cfx_list(5, 1, 8)), x), 1));
    CHECK_OK();
    CHECK(cfx_is_true(cfx_equal(got, want)));
}

/* A table bounds a size: where it ends is found. A size may be 1 in the example. */
TEST(sizes_go_as_far_as_tables_do) {
    cfx_program *p = parsed(
        "def forward(self, x: \"f32[1, 5, 4]\", table: \"f32[1, 40, 4]\"):\n"
        "    part = torch.ops.aten.slice.Tensor(table, 1, 0, 5)\n"
        "    sum = torch.ops.aten.add.Tensor(x, part)\n"
        "    mask = torch.ops.aten.full.default([1, 5, 5], 1.0)\n"
        "    turned = torch.ops.aten.transpose.int(sum, 1, 2)\n"
        "    scores = torch.ops.aten.matmul.default(sum, turned)\n"
        "    masked = torch.ops.aten.mul.Tensor(scores, mask)\n"
        "    return (masked,)\n");
    cfx_program *q = dynamic(p, "x.1", "length");
    CHECK_OK();
    cfx_result r = cfx_node_result(cfx_graph_find(q->module->graph, "masked"));
    CHECK_INT(r.ndim, 3);
    cfx_value symbol = cfx_result_size(&r, 1);
    CHECK_INT(symbol.tag, CFX_TAG_SYM);
    CHECK_STR(cfx_value_str(cfx_dict_get(q->ranges, cfx_value_str(symbol))), "(1, 40)");
    q = dynamic(p, "in0.0", "batch");
    CHECK_OK();
    r = cfx_node_result(cfx_graph_find(q->module->graph, "masked"));
    CHECK_INT(cfx_result_size(&r, 0).tag, CFX_TAG_SYM);
    cfx_program_run(q, cfx_randn(3, 5, 4), cfx_randn(1, 40, 4));
    CHECK_OK();
}

/* A window bounds a size from below. What is in the way of a size is told by the attempt that came
 * farthest: sizes that are too small for the window are not. */
TEST(sizes_begin_where_windows_fit) {
    cfx_program *p = parsed(
        "def forward(self, x: \"f32[2, 3, 32, 32]\", w: \"f32[4, 3, 8, 8]\"):\n"
        "    conv = torch.ops.aten.conv2d.default(x, w, None, [8, 8])\n"
        "    flat = torch.ops.aten.view.default(conv, [2, 4, 16])\n"
        "    return (flat,)\n");
    cfx_program *q = dynamic(p, "in0.2", "height");
    CHECK_OK();
    CHECK_STR(cfx_value_repr(cfx_dict_value(q->ranges)), "{'s53': (8, None)}");
    HAS(cfx_graph_code(q->module->graph), "sym_size_int // 8");
    cfx_program *table = parsed(
        "def forward(self, x: \"f32[2, 3, 32, 32]\", w: \"f32[4, 3, 8, 8]\","
        " t: \"f32[4, 16]\"):\n"
        "    conv = torch.ops.aten.conv2d.default(x, w, None, [8, 8])\n"
        "    flat = torch.ops.aten.flatten.using_ints(conv, 2)\n"
        "    both = torch.ops.aten.add.Tensor(flat, t)\n"
        "    return (both,)\n");
    dynamic(table, "in0.2", "height");
    CHECK_ERROR("node both pins the size: with height = ");
}

TEST(what_pins_a_size_is_told) {
    cfx_program *p = parsed("def forward(self, x: \"f32[2, 3]\", w: \"f32[3, 4]\"):\n"
                            "    mm = torch.ops.aten.mm.default(x, w)\n"
                            "    steps = torch.ops.aten.select.int(mm, 0, 1)\n"
                            "    more = torch.ops.aten.select.int(x, 0, 0)\n"
                            "    return (steps, more)\n");
    CHECK(cfx_failed(dynamic(p, "in0.1", "width")));
    CHECK_ERROR("node mm pins the size: with width = ");
    CHECK(cfx_failed(dynamic(p, "in2.0", "n")));
    CHECK_ERROR("'in2.0' does not name an input of the program");
    CHECK(cfx_failed(dynamic(p, "in0.0", "2*n")));
    CHECK_ERROR("'2*n' is not a name for in0.0; write a name such as 'batch'");
    CHECK(cfx_failed(dynamic(p, "in0.2", "n")));
    CHECK_ERROR("'in0.2' is not a dimension of f32[2, 3]");
    CHECK(cfx_failed(dynamic(p, "in0", "n")));
    CHECK_ERROR("'in0' does not name a size");
    cfx_program *q = dynamic(p, "in0.0", "n");
    CHECK_OK();
    CHECK(cfx_failed(dynamic(q, "in0.0", "n")));
    CHECK_ERROR("'in0.0' varies already, as s77");
    cfx_dict *two = cfx_dict_new();
    cfx_dict_set(two, "in0.0", cfx_string_value("n"));
    cfx_dict_set(two, "in1.0", cfx_string_value("n"));
    CHECK(cfx_failed(cfx_make_dynamic(p, two)));
    CHECK_ERROR("'in1.0' is 3, but 'n' is 2 in another input");
}

/* A size does not move to a dimension that held something else in the example, and dimensions that
 * are there at one size alone are told. */
TEST(rows_are_not_mixed) {
    cfx_program *p = parsed("def forward(self, x: \"f32[4, 4]\"):\n"
                            "    parts = torch.ops.aten.view.default(x, [2, 2, 4])\n"
                            "    return (parts,)\n");
    CHECK(cfx_failed(dynamic(p, "in0.0", "batch")));
    CHECK_ERROR("node parts pins the size: with batch = 2: shape '[2, 2, 4]' is invalid");
    p = parsed("def forward(self, x: \"f32[1, 3]\"):\n"
               "    row = torch.ops.aten.squeeze.dim(x, 0)\n"
               "    return (row,)\n");
    CHECK(cfx_failed(dynamic(p, "in0.0", "batch")));
    CHECK_ERROR("node row pins the size: with batch = ");
}

/* A query that is repeated for each row of a batch, which is 1 in the example, attends to its own
 * row and not to those of all: the result has a row for each. */
TEST(what_is_repeated_for_a_batch_of_one_varies) {
    cfx_program *p = parsed(
        "def forward(self, x: \"f32[1, 6, 8]\", probe: \"f32[1, 1, 8]\"):\n"
        "    query = torch.ops.aten.repeat.default(probe, [1, 1, 1])\n"
        "    first = torch.ops.aten.transpose.int(query, 1, 0)\n"
        "    keys = torch.ops.aten.transpose.int(x, 1, 0)\n"
        "    q = torch.ops.aten.view.default(first, [1, 2, 4])\n"
        "    k = torch.ops.aten.reshape.default(keys, [6, 2, 4])\n"
        "    heads = torch.ops.aten.transpose.int(q, 0, 1)\n"
        "    others = torch.ops.aten.permute.default(k, [1, 2, 0])\n"
        "    bmm = torch.ops.aten.bmm.default(heads, others)\n"
        "    score = torch.ops.aten.softmax.int(bmm, -1)\n"
        "    values = torch.ops.aten.transpose.int(k, 0, 1)\n"
        "    all = torch.ops.aten.bmm.default(score, values)\n"
        "    seen = torch.ops.aten.transpose.int(all, 0, 1)\n"
        "    flat = torch.ops.aten.reshape.default(seen, [1, 8])\n"
        "    return (flat,)\n");
    cfx_program *q = dynamic(p, "in0.0", "batch");
    CHECK_OK();
    cfx_tensor *a = cfx_randn(1, 6, 8), *b = cfx_randn(1, 6, 8), *probe = cfx_randn(1, 1, 8);
    cfx_value both = cfx_at(cfx_program_run(q, cfx_cat(cfx_list(a, b), 0), probe), 0);
    cfx_value one = cfx_at(cfx_program_run(p, a, probe), 0);
    cfx_value two = cfx_at(cfx_program_run(p, b, probe), 0);
    CHECK_OK();
    CHECK(cfx_is_true(cfx_allclose(both, cfx_cat(cfx_list(one, two), 0), 1e-5, 1e-6, false)));
}

/* Graphs of calls take and give what varies, and have sizes of their own replaced. */
TEST(sizes_vary_in_subgraphs) {
    cfx_program *p = parsed(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[3, 4]\"):\n"
        "        g = self.g\n"
        "        call = torch.ops.higher_order.wrap_with_set_grad_enabled(False, g, x)\n"
        "        y: \"f32[12]\" = call[0]\n"
        "        return (y,)\n"
        "\n"
        "    class g(torch.nn.Module):\n"
        "        def forward(self, x: \"f32[3, 4]\"):\n"
        "            view: \"f32[12]\" = torch.ops.aten.view.default(x, [12])\n"
        "            return (view,)\n");
    cfx_program *q = dynamic(p, "in0.0", "batch");
    CHECK_OK();
    CHECK(cfx_program_check(q));
    cfx_value y = cfx_at(cfx_program_run(q, cfx_randn(5, 4)), 0);
    CHECK_OK();
    CHECK_INT(cfx_tensor_numel(cfx_as_tensor(y)), 20);
}
