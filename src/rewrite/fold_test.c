/* What depends on attributes alone is computed once. */
#include "test.h"

#include <cfx/ops.h>
#include <cfx/pass.h>

#include <string.h>

static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_tensor *w = cfx_attr(self, "w");
    cfx_tensor *t = cfx_as_tensor(cfx_py("operator.add", cfx_exp(w), 1));
    cfx_value parts = cfx_method(cfx_call(self, "fc", t), "chunk", 2, CFX_KW(dim, 1));
    cfx_tensor *x = cfx_mul(a.v[0], cfx_at(parts, 1));
    return cfx_tensor_value(cfx_add(x, cfx_rand_like(w)));
}

static cfx_module *traced(void) {
    cfx_manual_seed(1);
    cfx_module *m = cfx_module_new("Net", forward, "x");
    cfx_nn_parameter(m, "w", cfx_randn(2, 2));
    cfx_nn_add(m, "fc", cfx_nn_linear(2, 4));
    cfx_module *gm = cfx_symbolic_trace(m);
    CHECK_OK();
    return gm;
}

static const char *result(cfx_module *m) {
    cfx_manual_seed(3);
    return cfx_str(cfx_detach(cfx_forward_value(m, cfx_ones(2, 2))));
}

TEST(constants_of_traced_modules_are_folded) {
    cfx_module *gm = traced();
    const char *want = result(gm);
    cfx_node_set_meta(cfx_graph_find(gm->graph, "getitem"), "custom", cfx_string_value("kept"));
    CHECK_INT(cfx_fold_constants(gm, NULL, NULL), 1);
    CHECK_STR(cfx_module_code(gm), "\n\n\ndef forward(self, x):\n"
                                   "    w = self.w\n"
                                   "    folded_getitem = self.folded_getitem\n"
                                   "    mul = torch.mul(x, folded_getitem);  "
                                   "x = folded_getitem = None\n"
                                   "    rand_like = torch.rand_like(w);  w = None\n"
                                   "    add_1 = torch.add(mul, rand_like);  "
                                   "mul = rand_like = None\n"
                                   "    return add_1\n    ");
    CHECK_STR(result(gm), want);
    CHECK_STR(cfx_str(cfx_node_get_meta(cfx_graph_find(gm->graph, "folded_getitem"), "custom")),
              "kept");
    CHECK(!cfx_tensor_requires_grad(cfx_as_tensor(cfx_module_attr(gm, "folded_getitem"))));
    CHECK_INT(cfx_fold_constants(gm, NULL, NULL), 0);
    CHECK_OK();
}

static bool is_module(const cfx_node *n, void *user) {
    ++*(int *)user;
    return n->op == CFX_CALL_MODULE;
}

TEST(folding_skips_what_the_caller_says) {
    cfx_module *gm = traced();
    const char *want = result(gm);
    int asked = 0;
    CHECK_INT(cfx_fold_constants(gm, is_module, &asked), 1);
    CHECK_INT(asked, 3); /* exp, add, fc */
    CHECK(strstr(cfx_module_code(gm), "fc = self.fc(folded_add)"));
    CHECK_STR(result(gm), want);
    CHECK_OK();
}

TEST(what_is_written_to_is_not_folded) {
    cfx_module *gm = cfx_module_parse("def forward(self, x):\n"
                                      "    w = self.w\n"
                                      "    a = torch.exp(w)\n"
                                      "    b = w.add_(x)\n"
                                      "    c = torch.exp(w)\n"
                                      "    return (a, c)\n",
                                      "graph");
    cfx_nn_buffer(gm, "w", cfx_zeros(2), true);
    CHECK_INT(cfx_fold_constants(gm, NULL, NULL), 0);
    CHECK_OK();
    CHECK_INT(cfx_fold_constants(cfx_nn_linear(2, 2), NULL, NULL), -1);
    CHECK_ERROR("constants are folded in a GraphModule, not in Linear; see cfx_symbolic_trace");
}
