/* What a node computes, as its metadata notes it. */
#include "graph.h"
#include "test.h"

static cfx_value described(void) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "shape", cfx_tuple(cfx__sym_name("s77", true, 5), 4));
    cfx_dict_set(d, "dtype", cfx_dtype_value(CFX_BF16));
    return cfx_dict_value(d);
}

TEST(result_of_a_tensor) {
    cfx_result r = cfx_result_of(cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2, (int64_t[]){2, 3},
                                                                  NULL)));
    CHECK_INT(r.kind, CFX_RESULT_TENSOR);
    CHECK_INT(r.shape[1], 3);
    CHECK_INT(cfx_integer(cfx_result_size(&r, -1)), 3);
    CHECK_INT(cfx_integer(cfx_result_stride(&r, 0)), 3);
    CHECK(cfx_is_none(cfx_result_size(&r, 2)));
    CHECK(cfx_is_none(cfx_result_size(&r, -3)));
    CHECK_STR(cfx_result_text(&r), "f32[2, 3]");
}

TEST(result_with_symbolic_sizes) {
    cfx_result r = cfx_result_of(described());
    CHECK_INT(r.kind, CFX_RESULT_TENSOR);
    CHECK_INT(r.dtype, CFX_BF16);
    CHECK(r.shape == NULL && r.stride == NULL);
    CHECK_STR(cfx_value_str(cfx_result_size(&r, 0)), "s77");
    CHECK_STR(cfx_value_str(cfx_result_stride(&r, 0)), "4");
    CHECK_STR(cfx_result_text(&r), "bf16[s77, 4]");
    cfx_result same = cfx_result_of(described()), other = cfx_result_of(cfx_int(3));
    CHECK(cfx_result_equal(&r, &same));
    CHECK(!cfx_result_equal(&r, &other));
}

TEST(result_of_several_and_of_none) {
    cfx_result r = cfx_result_of(cfx_tuple(described(), cfx_int(3), "u0 <= 8"));
    CHECK_INT(r.kind, CFX_RESULT_SEVERAL);
    CHECK_INT(cfx_result_count(&r), 3);
    CHECK_INT(cfx_result_item(&r, 1).kind, CFX_RESULT_INT);
    CHECK_INT(cfx_result_item(&r, 2).kind, CFX_RESULT_BOOL);
    CHECK_INT(cfx_result_item(&r, 3).kind, CFX_RESULT_UNKNOWN);
    CHECK_STR(cfx_result_text(&r), "(bf16[s77, 4], int 3, str u0 <= 8)");
    CHECK_INT(cfx_node_result(NULL).kind, CFX_RESULT_UNKNOWN);
}

TEST(node_predicates) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *one = cfx_graph_call_function(g, "operator.getitem", cfx_tuple(x, 1), CFX_NONE);
    cfx_node *some = cfx_graph_call_function(g, "operator.getitem", cfx_tuple(x, "k"), CFX_NONE);
    cfx_node *cond = cfx_graph_call_function(g, "torch.ops.higher_order.cond", cfx_tuple(x),
                                             CFX_NONE);
    CHECK(cfx_node_is_getitem(one) && cfx_node_takes_result(one));
    CHECK(cfx_node_is_getitem(some) && !cfx_node_takes_result(some));
    CHECK(!cfx_node_is_getitem(x) && !cfx_node_is_getitem(NULL));
    CHECK_STR(cfx_node_higher_order(cond), "cond");
    CHECK(cfx_node_higher_order(one) == NULL);
}
