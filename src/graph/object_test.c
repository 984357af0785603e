#include "test.h"

#include "graph.h"

/* A number that counts how often it was freed, and multiplies when it is called. What a test drops
 * no earlier than its context lives in static memory: its frame is gone by then. */
typedef struct factor {
    double by;
    int freed;
} factor;

static cfx_value factor_call(void *data, cfx_args a) {
    return cfx_tensor_value(cfx_mul(a.v[0], ((factor *)data)->by));
}
static const char *factor_text(void *data, bool repr) {
    (void)data;
    return repr ? "factor()" : "factor";
}
static void factor_free(void *data) { ((factor *)data)->freed++; }
static const cfx_object_type factor_type = {
    .name = "factor", .text = factor_text, .call = factor_call, .free = factor_free};

static cfx_graph *scaled(cfx_value f) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node *y = cfx_graph_create(g, CFX_CALL_FUNCTION, cfx_target_object("mine.scale", f),
                                   cfx_tuple(x, cfx_list(f)), CFX_NONE, NULL, NULL);
    cfx_graph_output(g, cfx_node_value(y));
    return g;
}

TEST(objects_are_targets_and_arguments) {
    static factor two = {.by = 2}, three = {.by = 3};
    cfx_value f = cfx_object_value(&factor_type, &two);
    cfx_value other = cfx_object_value(&factor_type, &three);
    cfx_graph *g = scaled(f);
    CHECK_STR(cfx_graph_str(g),
              "graph():\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %scale : [num_users=1] = call_function[target=mine.scale]"
              "(args = (%x, [factor]), kwargs = {})\n"
              "    return scale");
    CHECK(cfx_graph_equal(g, cfx_graph_copy(g)));
    CHECK(!cfx_graph_equal(g, scaled(other)));
    cfx_module *gm = cfx_graph_module(NULL, g, NULL);
    CHECK_NEAR(cfx_tensor_get(cfx_forward(gm, cfx_ones(1)), 0), 2, 0);
    cfx_node_set_target(cfx_graph_find(g, "scale"), cfx_target_object("mine.scale", other));
    CHECK_NEAR(cfx_tensor_get(cfx_forward(gm, cfx_ones(1)), 0), 3, 0);
    CHECK(cfx__graph_check(g));
    CHECK_OK();
}

TEST(nodes_keep_the_objects_that_they_call) {
    factor two = {.by = 2}, three = {.by = 3};
    cfx_graph *g = NULL, *copy = NULL;
    CFX_SCOPE {
        g = cfx_keep(scaled(cfx_object_value(&factor_type, &two)));
        copy = cfx_keep(cfx_graph_copy(g));
        cfx_node_set_target(cfx_graph_find(g, "scale"),
                            cfx_target_object("mine.scale",
                                              cfx_object_value(&factor_type, &three)));
        cfx_node_set_args(cfx_graph_find(g, "scale"), cfx_tuple(cfx_graph_find(g, "x")));
    }
    CHECK_INT(two.freed, 0);
    cfx_drop(copy);
    CHECK_INT(two.freed, 1);
    CHECK_INT(three.freed, 0);
    cfx_drop(g);
    CHECK_INT(three.freed, 1);
}

TEST(calls_of_two_objects_of_one_name_are_not_alike) {
    static factor two = {.by = 2}, three = {.by = 3};
    cfx_value f[] = {cfx_object_value(&factor_type, &two), cfx_object_value(&factor_type, &three)};
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x"), *y[3];
    for (int i = 0; i < 3; i++)
        y[i] = cfx_graph_create(g, CFX_CALL_FUNCTION, cfx_target_object("scale", f[i % 2]),
                                cfx_tuple(x), CFX_NONE, NULL, NULL);
    CHECK(cfx__node_alike(y[0], y[2]) && !cfx__node_alike(y[0], y[1]));
    CHECK_STR(y[2]->name, "scale_2");
    CHECK_INT(cfx_as_list(cfx_graph_find_nodes(g, CFX_CALL_FUNCTION, "scale"))->len, 3);
}

TEST(what_is_no_function_is_no_target) {
    static factor two = {.by = 2};
    static const cfx_object_type plain = {.name = "Plain"};
    CHECK_STR(cfx_target_object("plain", cfx_object_value(&plain, &two)).name, "<bad>");
    CHECK_ERROR("'Plain' object is not callable");
    CHECK_STR(cfx_target_object(NULL, cfx_object_value(&factor_type, &two)).name, "<bad>");
    CHECK_ERROR("the name of the function is NULL");
    CHECK_STR(cfx_target_object("two", cfx_int(2)).name, "<bad>");
    CHECK_ERROR("expected an object of the caller's, got int");
}

TEST(handles_of_the_callers_are_found_again) {
    int handle;
    cfx_graph *g = cfx_graph_new();
    cfx_tensor *t = cfx_ones(2);
    CHECK(!cfx_graph_user(g) && !cfx_tensor_user(t) && !cfx_graph_input(g, "x")->user);
    cfx_graph_set_user(g, &handle);
    cfx_tensor_set_user(t, &handle);
    cfx_graph_first(g)->user = &handle;
    CHECK(cfx_graph_user(g) == &handle && cfx_tensor_user(t) == &handle);
    cfx_graph *copy = cfx_graph_copy(g);
    CHECK(!cfx_graph_user(copy) && !cfx_graph_first(copy)->user);
    CHECK(!cfx_tensor_user(cfx_relu(t)) && !cfx_tensor_user(cfx_detach(t)));
}

TEST(a_node_becomes_another_kind) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node *y = cfx_graph_call_module(g, "fc.act", cfx_tuple(x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(y));
    CHECK(cfx_node_set_call(y, CFX_CALL_FUNCTION, cfx_target_named("torch.relu")));
    CHECK_STR(cfx_node_format(y), "%fc_act : [num_users=1] = call_function[target=torch.relu]"
                                  "(args = (%x,), kwargs = {})");
    CHECK_INT(cfx_as_list(cfx_graph_find_nodes(g, CFX_CALL_FUNCTION, NULL))->len, 1);
    CHECK_INT(cfx_as_list(cfx_graph_find_nodes(g, CFX_CALL_MODULE, NULL))->len, 0);
    CHECK(cfx_node_set_call(y, CFX_CALL_METHOD, (cfx_target){.name = "neg"}));
    CHECK(y->target.fn && cfx_node_is(y, "neg") && cfx__graph_check(g));
    CHECK(!cfx_node_set_call(y, (cfx_opcode)17, (cfx_target){.name = "neg"}));
    CHECK_ERROR("the new op of fc_act has no name");
    CHECK(!cfx_node_set_call(y, CFX_CALL_METHOD, (cfx_target){0}));
    CHECK_ERROR("the new target of fc_act has no name");
}

TEST(the_tree_of_a_graph_is_read_again) {
    cfx_graph *g = cfx_graph_new();
    CHECK(cfx_is_none(cfx_graph_tree(g)) && cfx_is_none(cfx_graph_tree(NULL)));
    cfx_graph_set_tree(g, cfx_list("x"), cfx_tuple(cfx_ellipsis()), cfx_none());
    CHECK_STR(cfx_repr(cfx_graph_tree(g)), "(['x'], (Ellipsis,), None)");
}
