/* Which node each line of code is of, and code generation of the user's own. */
#include "test.h"

#include <string.h>

static cfx_module *new_module(void) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x"), *y = cfx_graph_input(g, "y");
    cfx_node *sum = cfx_graph_call(g, "operator.add", x, y);
    cfx_graph_output(g, cfx_node_value(cfx_graph_call(g, "torch.relu", sum)));
    return cfx_graph_module(NULL, g, NULL);
}

TEST(line_map_tells_the_node_of_each_line) {
    cfx_module *gm = new_module();
    CHECK_STR(cfx_module_code(gm), "\n\n\ndef forward(self, x, y):\n"
                                   "    add = x + y;  x = y = None\n"
                                   "    relu = torch.relu(add);  add = None\n"
                                   "    return relu\n    ");
    cfx_python_code code = cfx_graph_python_code(gm->graph);
    CHECK_STR(cfx_repr(code.lines), "{1: 2, 2: 3, 3: 4, 4: 4}");
    CHECK_INT(code.start, 4);
    CHECK_STR(code.src, cfx_module_code(gm));
    CHECK_INT(code.globals->len, 0);
    CHECK_STR(cfx_repr(cfx_graph_python_code(cfx_graph_new()).lines), "{1: None, 2: None}");
}

TEST(line_map_counts_lines_of_inputs_and_wraps) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *sum = cfx_graph_input(g, "sum");
    cfx_node *f = cfx_graph_call(g, "mine.f", sum), *h = cfx_graph_call(g, "mine.h", f);
    cfx_node_set_meta(f, "is_wrapped", cfx_bool(true));
    cfx_node_set_meta(h, "is_wrapped", cfx_bool(true));
    cfx_graph_output(g, cfx_node_value(h));
    cfx_python_code code = cfx_graph_python_code(g);
    CHECK_STR(cfx_repr(code.lines), "{1: 0, 2: 1, 3: 2, 4: 3, 5: 3}");
    CHECK_INT(code.start, 5);
    CHECK_STR(cfx_repr(code.globals), "{'mine_f': 'mine.f', 'mine_h': 'mine.h'}");
}

/* ---- on_generate_code ------------------------------------------------------------------------ */

static cfx_value with_prints(const cfx_codegen *self, cfx_value lines) {
    cfx_value out = cfx_list(cfx_string_value((const char *)self->user));
    for (int64_t i = 0; i < cfx_as_list(lines)->len; i++) {
        cfx_list_append(cfx_as_list(out), cfx_at(lines, i));
        if (!strncmp(cfx_as_text(cfx_at(lines, i)), "add", 3))
            cfx_list_append(cfx_as_list(out), cfx_string_value("print(add)\n"));
    }
    return out;
}

TEST(lines_of_code_go_through_the_users_function) {
    cfx_module *gm = new_module();
    cfx_codegen own = {.body = with_prints, .user = "import pdb; pdb.set_trace()\n"};
    CHECK(!cfx_graph_set_codegen(gm->graph, &own));
    CHECK_STR(cfx_module_code(gm), "\n\n\ndef forward(self, x, y):\n"
                                   "    import pdb; pdb.set_trace()\n"
                                   "    add = x + y;  x = y = None\n"
                                   "    print(add)\n"
                                   "    relu = torch.relu(add);  add = None\n"
                                   "    return relu\n    ");
    CHECK_STR(cfx_repr(cfx_graph_python_code(gm->graph).lines),
              "{1: None, 2: 2, 3: 2, 4: 3, 5: 4, 6: 4}");
    CHECK(cfx_graph_set_codegen(gm->graph, NULL) == &own);
    CHECK_STR(cfx_repr(cfx_graph_python_code(gm->graph).lines), "{1: 2, 2: 3, 3: 4, 4: 4}");
}

/* ---- CodeGen --------------------------------------------------------------------------------- */

static const char *list_head(const cfx_codegen *self, cfx_value parameters, const char *returns) {
    CHECK_STR(returns, "");
    (void)self, (void)parameters;
    return "def forward(self, args_list):\n    x, y, = args_list";
}

static const char *dict_result(const cfx_codegen *self, const char *result) {
    (void)self;
    return result[0] == 'r' ? "return {'out': relu}" : "?";
}

static cfx_value from_list(const cfx_codegen *self, cfx_args a) {
    (void)self;
    return a.v[0];
}

static cfx_value to_dict(const cfx_codegen *self, cfx_value v) {
    (void)self;
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "out", v);
    return cfx_dict_value(d);
}

TEST(a_code_generator_of_the_users_own) {
    cfx_module *gm = new_module();
    cfx_codegen own = {
        .head = list_head, .result = dict_result, .inputs = from_list, .outputs = to_dict};
    cfx_graph_set_codegen(gm->graph, &own);
    CHECK_STR(cfx_module_code(gm), "\n\n\ndef forward(self, args_list):\n"
                                   "    x, y, = args_list\n"
                                   "    add = x + y;  x = y = None\n"
                                   "    relu = torch.relu(add);  add = None\n"
                                   "    return {'out': relu}\n    ");
    CHECK_STR(cfx_repr(cfx_graph_python_code(gm->graph).lines), "{2: 2, 3: 3, 4: 4, 5: 4}");
    cfx_value both = cfx_list(cfx_ones(2), cfx_ones(2));
    CHECK_STR(cfx_repr(cfx_forward_value(gm, both)), "{'out': tensor([2., 2.])}");
    CHECK_STR(cfx_repr(cfx_forward_value(cfx_module_copy(gm), both)), "{'out': tensor([2., 2.])}");
    CHECK_OK();
}

TEST(boxed_code_takes_a_list_and_empties_it) {
    cfx_module *gm = new_module();
    cfx_graph_set_codegen(gm->graph, &cfx_codegen_boxed);
    CHECK_STR(cfx_module_code(gm), "\n\n\ndef forward(self, args_list):\n"
                                   "    args_iter = iter(args_list)\n"
                                   "    x = next(args_iter)\n"
                                   "    y = next(args_iter)\n"
                                   "    args_list.clear()\n"
                                   "    add = x + y;  x = y = None\n"
                                   "    relu = torch.relu(add);  add = None\n"
                                   "    return relu\n    ");
    cfx_value box = cfx_list(cfx_ones(2), cfx_ones(2));
    CHECK_STR(cfx_repr(cfx_forward_value(gm, box)), "tensor([2., 2.])");
    CHECK_INT(cfx_as_list(box)->len, 0);
    cfx_graph *back = cfx_graph_parse(cfx_module_code(gm), "code");
    CHECK_STR(cfx_graph_code(back), cfx_module_code(gm));
    CHECK(cfx_graph_equal(back, gm->graph));
    CHECK_OK();
    cfx_forward_value(gm, cfx_ones(2), cfx_ones(2));
    CHECK_ERROR("forward() of a boxed graph takes one list, which it empties");
}
