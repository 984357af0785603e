/* The minimiser: a fault in one place is found. */
#include "test.h"

#include <string.h>

static cfx_program *chain(int n) {
    char text[1 << 14];
    size_t len = (size_t)snprintf(text, sizeof text, "class GraphModule(torch.nn.Module):\n"
                                  "    def forward(self, x: \"f32[4, 6]\"):\n"
                                  "        n0 = torch.ops.aten.sin.default(x)\n");
    for (int i = 1; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "        n%d = torch.ops.aten.%s.default(n%d)\n", i,
                                i == 7   ? "exp"
                                : i == 12 ? "tanh"
                                : i % 2   ? "cos"
                                          : "sin",
                                i - 1);
    snprintf(text + len, sizeof text - len, "        return (n%d,)\n", n - 1);
    cfx_program *p = cfx_program_new(cfx_module_parse(text, "chain"));
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = "x"});
    char name[16];
    snprintf(name, sizeof name, "n%d", n - 1);
    cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .name = name});
    CHECK(cfx_program_infer(p));
    CHECK_OK();
    return p;
}

static bool has_tanh(cfx_program *p, cfx_value inputs, void *user) {
    (void)inputs;
    ++*(int *)user;
    return cfx_graph_find(p->module->graph, "n12") &&
           cfx_graph_find(p->module->graph, "n12")->op == CFX_CALL_FUNCTION;
}

static bool has_both(cfx_program *p, cfx_value inputs, void *user) {
    cfx_node *exp = cfx_graph_find(p->module->graph, "n7");
    return has_tanh(p, inputs, user) && exp && exp->op == CFX_CALL_FUNCTION;
}

TEST(reduce_to_one_node) {
    int tries = 0;
    cfx_value inputs = cfx_none();
    cfx_tensor *x = cfx_randn(4, 6);
    cfx_program *p = chain(100), *q = cfx_program_reduce(p, cfx_list(x), has_tanh, &tries, &inputs);
    if (!CHECK_OK() || !CHECK(!cfx_failed(q)))
        return;
    CHECK_STR(strstr(cfx_module_code(q->module), "    n12"),
              "    n12 = torch.ops.aten.tanh.default(n11);  n11 = None\n"
              "    return (n12,)\n    ");
    CHECK(tries < 60);
    CHECK_STR(cfx_repr(cfx_py("builtins.getattr", cfx_at(inputs, 0), "shape")), "(1, 1)");
    CHECK_INT(cfx_graph_len(p->module->graph), 102); /* what was given is as it was */
    cfx_value all = cfx_program_run(q, cfx_at(inputs, 0));
    CHECK(cfx_ok() && all.tag == CFX_TAG_TUPLE);
}

TEST(reduce_to_two_nodes) {
    int tries = 0;
    cfx_value inputs = cfx_none();
    cfx_program *q =
        cfx_program_reduce(chain(40), cfx_list(cfx_randn(4, 6)), has_both, &tries, &inputs);
    if (!CHECK_OK() || !CHECK(!cfx_failed(q)))
        return;
    CHECK_STR(strstr(cfx_module_code(q->module), "    n7"),
              "    n7 = torch.ops.aten.exp.default(n6);  n6 = None\n"
              "    n12 = torch.ops.aten.tanh.default(n11);  n11 = None\n"
              "    return (n7, n12)\n    ");
    CHECK_INT(cfx_as_list(inputs)->len, 2);
}

static bool never(cfx_program *p, cfx_value inputs, void *user) {
    (void)p, (void)inputs, (void)user;
    return false;
}

TEST(reduce_what_does_not_fail) {
    cfx_value inputs;
    CHECK(
        cfx_failed(cfx_program_reduce(chain(5), cfx_list(cfx_randn(4, 6)), never, NULL, &inputs)));
    CHECK_ERROR("the program does not fail: nothing to reduce");
    CHECK(!cfx_executors_differ(chain(9), cfx_list(cfx_randn(4, 6)), NULL));
    CHECK(cfx_executors_differ(chain(9), cfx_list(cfx_randn(4, 7)), NULL)); /* an error */
    CHECK_OK();
}
