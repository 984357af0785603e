#include <cfx.h>

#include "test.h"

#include "../graph/graph.h"

static cfx_tensor *mlp_forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_relu(cfx_call(self, "fc1", x));
    return cfx_transpose(cfx_call(self, "fc2", x), 0, 1);
}

static cfx_program *mlp(void) {
    cfx_module *m = cfx_module_new("MLP", mlp_forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(4, 8));
    cfx_nn_add(m, "fc2", cfx_nn_linear(8, 2));
    return cfx_export(m, cfx_tuple(cfx_zeros(cfx_list(3, 4))), CFX_NONE, CFX_NONE);
}

static const cfx_node_cost *row(const cfx_cost *c, const char *name) {
    for (int i = 0; c && i < c->n; i++)
        if (!strcmp(c->nodes[i].node->name, name))
            return &c->nodes[i];
    test_fail(CFX_HERE, "no node %s", name);
    return c->nodes;
}

TEST(cost_of_a_program) {
    cfx_cost *c = cfx_program_cost(mlp(), NULL);
    CHECK_OK();
    CHECK_INT(row(c, "linear")->flops, 2 * 3 * 4 * 8);
    CHECK_INT(row(c, "linear_1")->flops, 2 * 3 * 8 * 2);
    CHECK_INT(row(c, "relu")->flops, 0);
    CHECK_INT(c->flops, 288);
    CHECK_INT(row(c, "linear")->bytes, 3 * 8 * 4);
    CHECK_INT(row(c, "p_fc1_weight")->bytes, 0); /* weights are there anyway */
    CHECK_INT(row(c, "x")->bytes, 3 * 4 * 4);
    CHECK_INT(row(c, "transpose")->bytes, 0);
    /* x and its product; then the product and relu's result; relu's and the last */
    CHECK_INT(row(c, "linear")->live, 48 + 96);
    CHECK_INT(row(c, "relu")->live, 96 + 96);
    CHECK_INT(row(c, "linear_1")->live, 96 + 24);
    CHECK_INT(row(c, "transpose")->live, 24); /* what it is a view of */
    CHECK_INT(c->peak, 192);
    CHECK_STR(c->nodes[c->peak_at].node->name, "relu");
    CHECK_INT(c->unknown, 0);
}

TEST(cost_takes_sizes_of_symbols) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/dyn_conv/model.pt2");
    CHECK_OK();
    cfx_dict *sizes = cfx_dict_new();
    cfx_result x = cfx_node_result(cfx_graph_find(p->module->graph, "x"));
    const char *name = cfx_value_str(cfx_result_size(&x, 2)) + 2; /* the height is 2*s39 */
    int64_t flops[3];
    for (int i = 0; i < 3; i++) {
        cfx_dict_set(sizes, name, cfx_int(10 * (i + 1)));
        flops[i] = cfx_program_cost(p, sizes)->flops;
    }
    CHECK(flops[0] > 0);
    CHECK_INT(flops[1], 2 * flops[0]);
    CHECK_INT(flops[2], 3 * flops[0]);
}

TEST(cost_of_cond_is_that_of_its_dearer_branch) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/cond/model.pt2");
    cfx_cost *c = cfx_program_cost(p, NULL);
    CHECK_OK();
    int64_t inner = 0, holder = -1;
    for (int i = 0; i < c->n; i++) {
        if (cfx_node_higher_order(c->nodes[i].node))
            holder = c->nodes[i].flops;
        else if (c->nodes[i].owner != p->module && c->nodes[i].flops > inner)
            inner = c->nodes[i].flops;
    }
    CHECK_INT(holder, inner);
    CHECK(cfx_failed(cfx_program_cost(NULL, NULL)));
    CHECK_ERROR("the program is NULL");
}

TEST(costs_of_sizes_beyond_all_are_refused) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/dyn_conv/model.pt2");
    cfx_dict *sizes = cfx_dict_new();
    cfx_result x = cfx_node_result(cfx_graph_find(p->module->graph, "x"));
    cfx_dict_set(sizes, cfx_value_str(cfx_result_size(&x, 2)) + 2, cfx_int((int64_t)1 << 61));
    CHECK(cfx_failed(cfx_program_cost(p, sizes)));
    CHECK_ERROR("Storage size calculation overflowed");
}
