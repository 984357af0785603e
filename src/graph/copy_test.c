#include "test.h"

#include "graph.h"

static cfx_graph *sample(void) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", "torch.Tensor", true, cfx_float(1.5));
    cfx_node *p = cfx_graph_get_attr(g, "p");
    cfx_node *a = cfx_graph_call_function(g, "torch.add", cfx_tuple(x, p), CFX_NONE);
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "dim", cfx_int(0));
    cfx_node *c = cfx_graph_call_function(g, "torch.cat", cfx_tuple(cfx_list(a, x)),
                                          cfx_dict_value(kw));
    cfx_node_set_meta(c, "custom", cfx_int(7));
    cfx_graph_output(g, cfx_tuple(a, c));
    return g;
}

TEST(a_copy_is_equal_and_apart) {
    cfx_graph *g = sample(), *copy = cfx_graph_copy(g);
    CHECK_STR(cfx_graph_str(copy), cfx_graph_str(g));
    CHECK(cfx_graph_equal(g, copy));
    CHECK(cfx_graph_hash(g) == cfx_graph_hash(copy));
    CHECK_INT(cfx_integer(cfx_node_get_meta(cfx_graph_find(copy, "cat"), "custom")), 7);
    CHECK(cfx__graph_check(copy));
    cfx_node_rename(cfx_graph_find(copy, "cat"), "other");
    CHECK(cfx_graph_equal(g, copy) && cfx_graph_hash(g) == cfx_graph_hash(copy));
    cfx_node_set_kwarg(cfx_graph_find(copy, "other"), "dim", cfx_bool(false));
    CHECK(!cfx_graph_equal(g, copy) && cfx_graph_hash(g) != cfx_graph_hash(copy));
    CHECK_STR(cfx_repr(cfx_graph_find(g, "cat")->kwargs), "{'dim': 0}");
    cfx_node_set_kwarg(cfx_graph_find(copy, "other"), "dim", cfx_int(0));
    CHECK(cfx_graph_equal(g, copy));
    cfx_node_replace_input(cfx_graph_find(copy, "other"), cfx_graph_find(copy, "x"),
                           cfx_graph_find(copy, "p"));
    CHECK(!cfx_graph_equal(g, copy) && cfx_graph_hash(g) != cfx_graph_hash(copy));
}

TEST(a_copy_starts_counting_anew) {
    cfx_graph *g = cfx_graph_new();
    cfx_graph_get_attr(g, "a");
    cfx_graph_erase(cfx_graph_get_attr(g, "a"));
    cfx_node *in = cfx_graph_placeholder(g, "input", NULL, false, CFX_NONE);
    cfx_node_set_name(in, "input");
    cfx_graph *copy = cfx_graph_copy(g);
    CHECK_STR(cfx_graph_get_attr(copy, "a")->name, "a_1");
    CHECK_STR(cfx_graph_get_attr(g, "a")->name, "a_2");
    CHECK(cfx_graph_find(copy, "input") != NULL);
}

TEST(a_graph_is_inlined) {
    cfx_graph *g = cfx_graph_new(), *from = sample();
    cfx_node *y = cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    cfx_node *add = cfx_graph_call_function(g, "torch.add", cfx_tuple(y, 1), CFX_NONE);
    cfx_node *out = cfx_graph_output(g, CFX_NONE);
    cfx_dict *values = cfx_dict_new();
    cfx_dict_put(values, cfx_node_value(cfx_graph_first(from)), cfx_node_value(add));
    cfx_value result;
    CFX_INSERT_BEFORE(g, out)
        result = cfx_graph_copy_into(g, from, values);
    cfx_node_set_arg(out, 0, result);
    CHECK_STR(cfx_graph_str(g),
              "graph():\n"
              "    %y : [num_users=1] = placeholder[target=y]\n"
              "    %add : [num_users=2] = call_function[target=torch.add](args = (%y, 1), kwargs = "
              "{})\n"
              "    %p : [num_users=1] = get_attr[target=p]\n"
              "    %add_1 : [num_users=2] = call_function[target=torch.add](args = (%add, %p), "
              "kwargs = {})\n"
              "    %cat : [num_users=1] = call_function[target=torch.cat](args = ([%add_1, "
              "%add],), kwargs = {dim: 0})\n"
              "    return (add_1, cat)");
    CHECK_INT(values->len, 4);
    CHECK_INT(cfx_integer(cfx_node_get_meta(cfx_graph_find(g, "cat"), "custom")), 7);
    CHECK(cfx__graph_check(g));
}

TEST(a_copy_that_cannot_be_is_not_begun) {
    cfx_graph *g = cfx_graph_new(), *from = sample();
    cfx_node_move_before(cfx_graph_find(from, "add"), cfx_graph_find(from, "x"));
    CHECK(cfx_is_bad(cfx_graph_copy_into(g, from, NULL)));
    CHECK_ERROR("Argument 'x' of Node 'add' has no value in the graph it is copied to");
    CHECK_INT(cfx_graph_len(g), 0);
    CHECK(cfx_graph_equal(from, cfx_graph_copy(from)));
}

static cfx_value to_seven(cfx_node *n, void *user) {
    (void)n;
    return *(bool *)user ? cfx_list(7) : cfx_bad();
}

TEST(one_node_is_copied) {
    cfx_graph *g = sample();
    cfx_node *c = cfx_graph_find(g, "cat");
    cfx_node *same = cfx_graph_copy_node(g, c, NULL, NULL);
    CHECK_STR(same->name, "cat_1");
    CHECK_STR(cfx_repr(same->args), "([add, x],)");
    bool good = true;
    cfx_node *mapped = cfx_graph_copy_node(g, c, to_seven, &good);
    CHECK_STR(cfx_repr(mapped->args), "([[7], [7]],)");
    CHECK_INT(cfx_integer(cfx_node_get_meta(mapped, "custom")), 7);
    good = false;
    CHECK(cfx_graph_copy_node(g, c, to_seven, &good)->erased);
    CHECK_ERROR("an argument of cat is mapped to a bad value");
    CHECK(cfx__graph_check(g));
}

TEST(dead_code_goes_and_effects_stay) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_graph_placeholder(g, "unused", NULL, false, CFX_NONE);
    cfx_node *relu = cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE);
    cfx_graph_call_function(g, "operator.add", cfx_tuple(relu, 1), CFX_NONE);
    cfx_graph_call_method(g, "add_", cfx_tuple(x, 1), CFX_NONE);
    cfx_node *gt = cfx_graph_call_function(g, "operator.gt", cfx_tuple(x, 0), CFX_NONE);
    cfx_graph_call_function(g, "torch._assert", cfx_tuple(gt, "batch"), CFX_NONE);
    cfx_node *neg = cfx_graph_call_method(g, "neg", cfx_tuple(x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(neg));
    CHECK_INT(cfx_graph_eliminate_dead_code(g), 2);
    CHECK_INT(cfx_graph_eliminate_dead_code(g), 0);
    CHECK_INT(cfx_graph_len(g), 7);
    CHECK(!cfx_graph_find(g, "relu") && cfx_graph_find(g, "add_") && cfx_graph_find(g, "_assert"));
    CHECK(cfx__graph_check(g));
    CHECK_OK();
}

static cfx_value calls_layers(cfx_module *self, cfx_args a) {
    static const char *const all[] = {"act",   "inplace", "drop", "norm",
                                      "rrelu", "short",   "fc",   "seq"};
    for (int i = 0; i < 8; i++)
        cfx_call(self, all[i], a.v[0]);
    return a.v[0];
}

/* The layers whose calls stay although nobody reads what they give. */
static const char *kept_layers(bool training) {
    cfx_module *m = cfx_module_new_n("M", calls_layers, "x");
    cfx_nn_add(m, "act", cfx_nn_relu());
    cfx_nn_add(m, "inplace", cfx_nn_relu(.inplace = true));
    cfx_nn_add(m, "drop", cfx_nn_dropout());
    cfx_nn_add(m, "norm", cfx_nn_batch_norm1d(4));
    cfx_nn_add(m, "rrelu", cfx_nn_make("RReLU"));
    cfx_nn_add(m, "short", cfx_nn_make("Embedding", 3, 4, CFX_KW(max_norm, 1.0)));
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "seq", cfx_nn_sequential(cfx_nn_linear(4, 4), cfx_nn_dropout()));
    cfx_module_find(m, "seq")->leaf = true;
    cfx_module_train(m, training);
    cfx_module *gm = cfx_symbolic_trace(m);
    cfx_graph_eliminate_dead_code(gm->graph);
    return cfx_str(cfx_graph_find_nodes(gm->graph, CFX_CALL_MODULE, NULL));
}

TEST(effects_of_layers_stay) {
    CHECK_STR(kept_layers(true), "[inplace, drop, norm, rrelu, short, seq]");
    CHECK_STR(kept_layers(false), "[inplace, short]");
    CHECK_OK();
}

TEST(copies_of_what_an_operator_refuses_are_marked) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_node *y = cfx_graph_call(g, "torch.ops.aten.permute.default", x, cfx_list(0, 0));
    cfx_graph_output(g, cfx_node_value(y));
    cfx__node_of(y)->refused = true;
    cfx_graph *all = cfx_graph_copy(g);
    CHECK(cfx__node_of(cfx_graph_find(all, y->name))->refused);
    CHECK(!cfx__node_of(cfx_graph_find(all, "x"))->refused);
}

static bool is_random(const cfx_node *n, void *user) {
    ++*(int *)user;
    return n->op == CFX_PLACEHOLDER ? !strcmp(n->name, "x") : cfx_node_is(n, "add_");
}

TEST(dead_code_is_what_the_caller_says) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x"), *y = cfx_graph_input(g, "y");
    cfx_graph_call(g, "Tensor.add_", x, 1);
    cfx_graph_call(g, "torch.rand_like", y);
    cfx_graph_call(g, "torch.relu", x);
    cfx_graph_output(g, cfx_int(1));
    int asked = 0;
    CHECK_INT(cfx_graph_eliminate_dead_code_by(g, is_random, &asked), 3);
    CHECK_INT(asked, 4); /* of x no more than of the output: add_ uses it */
    CHECK_STR(cfx_graph_str(g), "graph():\n"
                                "    %x : [num_users=1] = placeholder[target=x]\n"
                                "    %add_ : [num_users=0] = call_method[target=add_](args = (%x, "
                                "1), kwargs = {})\n"
                                "    return 1");
    CHECK_INT(cfx_graph_eliminate_dead_code_by(g, NULL, NULL), 0);
    CHECK(!cfx_ok());
    cfx_error_clear();
}

TEST(dropout_in_training_is_not_dead) {
    static const struct {
        const char *call;
        int dead;
    } rows[] = {{"torch.nn.functional.dropout(x)", 0},
                {"torch.nn.functional.dropout(x, 0.5, False)", 1},
                {"torch.nn.functional.dropout2d(x, training = True)", 0},
                {"torch.nn.functional.alpha_dropout(x)", 1},
                {"torch.nn.functional.gumbel_softmax(x)", 0},
                {"torch.nn.functional.relu(x)", 1}};
    for (int i = 0; i < COUNT(rows); i++) {
        cfx_module *gm = cfx_module_parse(
            cfx__text_format("def forward(self, x):\n    a = %s\n    return x\n", rows[i].call),
            "graph");
        CHECK_OK();
        CHECK_INT(cfx_graph_eliminate_dead_code(gm->graph), rows[i].dead);
    }
}
