#include "test.h"

#include "emit.h"

/* An object whose code is "mine_Color.RED": a global and a text. */
static void color_code(void *data, cfx_code *out) {
    static const cfx_object_type class_type = {.name = "type"};
    cfx_code_global(out, "mine.Color", cfx_object_value(&class_type, (void *)"Color"));
    cfx_code_text(out, ".");
    cfx_code_text(out, data);
}
static const cfx_object_type color_type = {.name = "Color", .code = color_code};

static cfx_value call_nothing(void *data, cfx_args a) {
    (void)data;
    return a.v[0];
}
static const char *function_text(void *data, bool repr) {
    (void)repr;
    return data;
}
static const cfx_object_type function_type = {
    .name = "function", .call = call_nothing, .text = function_text};

static cfx_node *call(cfx_graph *g, const char *name, void *data, cfx_node *x) {
    cfx_value f = cfx_object_value(&function_type, data);
    return cfx_graph_create(g, CFX_CALL_FUNCTION, cfx_target_object(name, f), cfx_tuple(x),
                            CFX_NONE, NULL, NULL);
}

TEST(objects_in_code_are_globals) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_value red = cfx_object_value(&color_type, (void *)"RED");
    cfx_value blue = cfx_object_value(&color_type, (void *)"BLUE");
    cfx_value plain = cfx_object_value(&function_type, (void *)"<f>");
    cfx_node *y = call(g, "mine.paint", (void *)"paint", x);
    cfx_node_set_args(y, cfx_tuple(x, cfx_list(red), blue, plain));
    cfx_graph_output(g, cfx_node_value(cfx_graph_call(g, "math.sqrt", y)));
    cfx_python_code code = cfx_graph_python_code(g);
    CHECK_STR(code.src, "\n\n\ndef forward(self, x):\n"
                        "    paint = mine_paint(x, [mine_Color.RED], mine_Color.BLUE, <f>);  "
                        "x = None\n"
                        "    sqrt = math_sqrt(paint);  paint = None\n"
                        "    return sqrt\n    ");
    CHECK_STR(cfx_repr(code.globals),
              "{'mine_paint': paint, 'mine_Color': <type object>, 'math_sqrt': 'math.sqrt'}");
}

TEST(two_functions_of_one_name_have_two_in_code) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    static char one[] = "one", two[] = "two";
    cfx_node *a = call(g, "mine.f", one, x), *b = call(g, "mine.f", two, a);
    cfx_graph_output(g, cfx_node_value(call(g, "mine.f", one, b)));
    cfx_python_code code = cfx_graph_python_code(g);
    CHECK_STR(code.src, "\n\n\ndef forward(self, x):\n"
                        "    f = mine_f(x);  x = None\n"
                        "    f_1 = mine_f_1(f);  f = None\n"
                        "    f_2 = mine_f(f_1);  f_1 = None\n"
                        "    return f_2\n    ");
    CHECK_STR(cfx_repr(code.globals), "{'mine_f': one, 'mine_f_1': two}");
}

TEST(a_function_whose_path_is_torchs_is_no_global) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_graph_output(g, cfx_node_value(call(g, "torch.utils.f", (void *)"f", x)));
    cfx_python_code code = cfx_graph_python_code(g);
    CHECK(strstr(code.src, "f = torch.utils.f(x)") != NULL);
    CHECK_INT(code.globals->len, 0);
}

TEST(a_graph_is_read_without_its_class) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node *y = cfx_graph_call(g, "torch.relu", x);
    cfx_graph_output(g, cfx_node_value(y));
    cfx_node_set_meta(y, "val",
                      cfx_tensor_value(cfx_tensor_fake(CFX_F32, 1, (int64_t[]){2}, NULL)));
    CHECK_STR(cfx_graph_readable(g, (cfx_readable_options){0}),
              "def forward(self, x):\n"
              "    # No stacktrace found for following nodes\n"
              "    relu: \"f32[2]\" = torch.relu(x);  x = None\n"
              "    return relu\n");
    CHECK_STR(cfx_graph_readable(NULL, (cfx_readable_options){0}), "");
}
