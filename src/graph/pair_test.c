#include <cfx.h>

#include "test.h"

#include <string.h>

static cfx_tensor *mlp_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "fc2", cfx_relu(cfx_call(self, "fc1", x)));
}

static cfx_program *mlp(void) {
    cfx_manual_seed(1);
    cfx_module *m = cfx_module_new("MLP", mlp_forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(4, 8));
    cfx_nn_add(m, "fc2", cfx_nn_linear(8, 2));
    return cfx_export(m, cfx_tuple(cfx_zeros(cfx_list(3, 4))), CFX_NONE, CFX_NONE);
}

static cfx_node *node(const cfx_program *p, const char *name) {
    return cfx_graph_find(p->module->graph, name);
}

static int count_changed(const cfx_pairs *p) {
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += p->pairs[i].changed;
    return n;
}

TEST(pairs_of_equal_programs_are_all_nodes) {
    cfx_program *a = mlp(), *b = mlp();
    cfx_pairs *p = cfx_program_pair(a, b);
    CHECK_OK();
    CHECK_INT(p->n, cfx_graph_len(a->module->graph));
    CHECK_INT(count_changed(p), 0);
    CHECK(cfx_pairs_other(p, node(a, "relu")) == node(b, "relu"));
    CHECK(cfx_pairs_other(p, node(b, "x")) == node(a, "x"));
}

TEST(pairs_find_the_origin_of_decomposed_nodes) {
    cfx_program *a = mlp(), *b = cfx_decompose(a, CFX_NONE);
    cfx_pairs *p = cfx_program_pair(a, b);
    CHECK_OK();
    CHECK(cfx_pairs_other(p, node(a, "linear")) == node(b, "addmm"));
    CHECK(cfx_pairs_other(p, node(a, "linear_1")) == node(b, "addmm_1"));
    CHECK(cfx_pairs_other(p, node(b, "permute")) == NULL);
}

TEST(pairs_tell_what_changed) {
    cfx_program *a = mlp(), *b = mlp();
    cfx_target sigmoid = cfx_graph_target(b->module->graph, "aten.sigmoid.default");
    cfx_node_set_target(node(b, "relu"), sigmoid);
    cfx_node_rename(node(b, "relu"), "other");
    cfx_pairs *p = cfx_program_pair(a, b);
    CHECK_OK();
    CHECK(cfx_pairs_other(p, node(a, "relu")) == node(b, "other"));
    CHECK_INT(count_changed(p), 1);
    cfx_program *c = mlp();
    cfx_set_grad_mode(CFX_NO_GRAD);
    for (int i = 0; i < c->ninputs; i++)
        if (c->inputs[i].target && !strcmp(c->inputs[i].target, "fc2.bias"))
            cfx_fill_(cfx_program_tensor(c, &c->inputs[i]), 7);
    p = cfx_program_pair(a, c);
    CHECK_INT(count_changed(p), 1);
    CHECK(cfx_failed(cfx_program_pair(a, NULL)));
    CHECK_ERROR("the program is NULL");
}
