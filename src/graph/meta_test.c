/* Metadata that nodes share: what it costs, and that a change of one node's is its own. */
#include "meta.h"
#include "test.h"

enum { NODES = 3000 };

static cfx_value fake(int64_t rows, int64_t columns) {
    int64_t shape[] = {rows, columns};
    return cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2, shape, NULL));
}

/* A chain of calls, each with a description of its own, which is equal to the others'. */
static cfx_graph *chain(void) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *last = cfx_graph_input(g, "x");
    for (int i = 0; i < NODES; i++)
        CFX_SCOPE {
            last = cfx_graph_call(g, "aten.relu.default", last);
            cfx_node_set_meta(last, "val", fake(2, 3));
            cfx_node_set_meta(last, "stack_trace", cfx_node_get_meta(last->prev, "stack_trace"));
        }
    cfx_graph_output(g, cfx_node_value(last));
    return g;
}

TEST(equal_results_of_many_nodes_are_one) {
    cfx_graph *g = chain();
    cfx_node *n = cfx_graph_last(g)->prev;
    CHECK(n->meta == n->prev->meta);
    CHECK(cfx_as_tensor(cfx_node_get_meta(n, "val")) ==
          cfx_as_tensor(cfx_node_get_meta(n->prev, "val")));
    CHECK_OK();
}

TEST(a_node_costs_less_than_a_kilobyte) {
    size_t before = cfx_memory_held();
    cfx_graph *g = chain();
    CHECK((cfx_memory_held() - before) / NODES < 700);
    CHECK_INT(cfx_graph_len(g), NODES + 2);
}

TEST(what_one_node_notes_is_not_noted_of_others) {
    cfx_graph *g = chain();
    cfx_node *n = cfx_graph_last(g)->prev, *other = n->prev;
    cfx_node_set_meta(n, "custom", cfx_int(7));
    CHECK(cfx_is_none(cfx_node_get_meta(other, "custom")));
    cfx_node_set_meta(n, "val", fake(2, 4));
    CHECK_INT(cfx_node_result(other).shape[1], 3);
    CHECK_INT(cfx_node_result(n).shape[1], 4);
    CHECK_INT(cfx_integer(cfx_node_get_meta(n, "custom")), 7);
    CHECK(cfx_node_remove_meta(n, "custom"));
    CHECK(!cfx_node_remove_meta(other, "custom"));
    CHECK_INT(cfx_node_result(n).shape[1], 4);
    CHECK_OK();
}

TEST(wanting_a_gradient_is_a_nodes_own) {
    cfx_graph *g = chain();
    cfx_node *n = cfx_graph_last(g)->prev, *other = n->prev;
    cfx__result_set_grad(n, true);
    CHECK(cfx_node_result(n).requires_grad && !cfx_node_result(other).requires_grad);
    cfx__result_set_grad(n, false);
    CHECK(!cfx_node_result(n).requires_grad);
}

TEST(sizes_that_are_symbols_are_shared_and_told_apart) {
    cfx_graph *g = chain();
    cfx_node *n = cfx_graph_last(g)->prev;
    for (int i = 0; i < 3; i++, n = n->prev)
        CFX_SCOPE {
            cfx_dict *d = cfx_dict_new();
            cfx_dict_set(d, "shape", cfx_tuple(cfx_symbol_value("s0"), i < 2 ? 3 : 4));
            cfx_dict_set(d, "dtype", cfx_dtype_value(CFX_F32));
            cfx_node_set_meta(n, "val", cfx_dict_value(d));
        }
    n = cfx_graph_last(g)->prev;
    CHECK(n->meta == n->prev->meta && n->meta != n->prev->prev->meta);
    cfx_result r = cfx_node_result(n->prev->prev);
    CHECK_INT(cfx_integer(cfx_result_size(&r, 1)), 4);
    cfx__result_set_grad(n, true);
    CHECK(cfx_node_result(n).requires_grad && !cfx_node_result(n->prev).requires_grad);
}
