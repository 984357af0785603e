/* Selectors: which nodes they pick. */
#include <cfx.h>

#include "run.h"
#include "test.h"

static cfx_value add_forward(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    cfx_tensor *y = cfx_relu(cfx_sin(x));
    return cfx_tensor_value(cfx_add(y, cfx_relu(cfx_cos(x))));
}

static cfx_graph *sample(void) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("M", add_forward, "x"));
    return gm->graph;
}

/* "sin, relu": the names of what is picked; scope. */
static const char *picked(const cfx_graph *g, const char *selector) {
    cfx_value nodes = cfx_select_nodes(g, selector);
    cfx__text out = {0};
    cfx__text_puts(&out, "");
    for (int64_t i = 0; nodes.tag == CFX_TAG_LIST && i < cfx_as_list(nodes)->len; i++)
        cfx__text_printf(&out, "%s%s", i ? ", " : "",
                         cfx_as_node(cfx_as_list(nodes)->items[i])->name);
    return cfx__text_take(&out);
}

TEST(select_by_name_operator_and_range) {
    cfx_graph *g = sample();
    CHECK_STR(picked(g, "relu"), "relu");
    CHECK_STR(picked(g, "relu*"), "relu, relu_1");
    CHECK_STR(picked(g, "op:relu"), "relu, relu_1");
    CHECK_STR(picked(g, "relu_1,sin"), "sin, relu_1");
    CHECK_STR(picked(g, "sin..add"), "sin, relu, add");
    CHECK_STR(picked(g, "..relu"), "x, sin, relu");
    CHECK_STR(picked(g, "cos.."), "cos, relu_1, add");
    CHECK_STR(picked(g, "sin..add,cos"), "sin, relu, cos, add");
    CHECK_OK();
    CHECK_STR(picked(g, "sinn"), "");
    CHECK_ERROR("no node matches 'sinn' (did you mean 'sin'?)");
    cfx_select_nodes(g, "op:sinn");
    CHECK_ERROR("no node matches 'op:sinn' (did you mean 'op:sin'?)");
    cfx_select_nodes(g, "ops:sin");
    CHECK_ERROR("no node matches 'ops:sin'; what stands before a colon is op, module or source");
    CHECK_STR(picked(g, "add..sin"), "");
    CHECK_ERROR("nothing lies between 'add' and 'sin'");
}

TEST(select_by_module_and_line) {
    cfx_graph *g = sample();
    cfx_node *sin = cfx_graph_find(g, "sin"), *cos = cfx_graph_find(g, "cos");
    cfx_each_node(g, n) cfx_node_set_meta(n, "source", cfx_none());
    cfx_node_set_meta(sin, "source", cfx_string_value("src/model.c:12"));
    cfx_node_set_meta(cos, "stack_trace",
                      cfx_string_value("  File \"/a/main.py\", line 3, in f\n    f(x)\n"
                                       "  File \"/a/model.py\", line 20, in forward\n"));
    cfx_node_set_meta(sin, "nn_module_stack",
                      cfx_dict_of("a", cfx_tuple("layers.0", "L"), "b",
                                  cfx_tuple("layers.0.act", "A")));
    CHECK_STR(picked(g, "module:layers.0"), "sin");
    CHECK_STR(picked(g, "module:*.act"), "sin");
    CHECK_STR(picked(g, "source:model.c:12"), "sin");
    CHECK_STR(picked(g, "source:src/model.c:10-13"), "sin");
    CHECK_STR(picked(g, "source:model.py"), "cos");
    CHECK_STR(picked(g, "source:main.py:3"), "cos");
    CHECK_STR(picked(g, "source:model.*:1-99"), "sin, cos");
    CHECK_OK();
    CHECK_STR(picked(g, "source:model.py:19"), "");
    CHECK_ERROR("no node matches 'source:model.py:19' (did you mean 'source:model.py:20'?)");
    CHECK_STR(picked(g, "source:odel.py"), "");
    CHECK_ERROR("no node matches 'source:odel.py' (did you mean 'source:model.py'?)");
    cfx_each_node(g, n) cfx_node_set_meta(n, "source", cfx_none());
    cfx_node_set_meta(cos, "stack_trace", cfx_none());
    CHECK_STR(picked(g, "source:model.py:19"), "");
    CHECK_ERROR("no node matches 'source:model.py:19'; no source lines are noted in the program");
}
