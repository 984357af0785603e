#include "test.h"

#include "graph.h"

static cfx_node *call(cfx_graph *g, const char *target, cfx_value args) {
    return cfx_graph_call_function(g, target, args, CFX_NONE);
}

static const char *users(const cfx_node *n) { return cfx_repr(cfx_node_users(n)); }

TEST(users_come_in_order_and_once) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    cfx_node *a = call(g, "operator.add", cfx_tuple(x, x));
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "k", cfx_list(y, cfx_slice_value(cfx_node_value(x), CFX_NONE, CFX_NONE)));
    cfx_node *b = cfx_graph_call_function(g, "f", cfx_tuple(cfx_tuple(a, y)), cfx_dict_value(kw));
    CHECK_STR(users(x), "[add, f]");
    CHECK_INT(x->num_users, 2);
    CHECK_STR(cfx_repr(cfx_node_inputs(b)), "[add, y, x]");
    CHECK(cfx_node_input(b, 1) == y && cfx_node_user(x, 1) == b);
    CHECK(!cfx_node_input(b, 3) && !cfx_node_user(x, 2) && !cfx_node_user(x, -1));
    CHECK(cfx_node_set_args(a, cfx_tuple(y, x))); /* registered anew: now the last user */
    CHECK_STR(users(x), "[f, add]");
    CHECK_STR(users(y), "[f, add]");
    CHECK(cfx__graph_check(g));
}

TEST(arguments_change_one_by_one) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *n = call(g, "f", cfx_tuple(x, 1));
    CHECK(cfx_node_set_arg(n, 1, cfx_float(2.5)));
    CHECK(cfx_node_set_arg(n, -2, cfx_list(x)));
    CHECK(cfx_node_insert_arg(n, 0, cfx_string_value("a")));
    CHECK(cfx_node_insert_arg(n, 3, CFX_NONE));
    CHECK(cfx_node_set_kwarg(n, "dim", cfx_int(1)));
    CHECK(cfx_node_set_kwarg(n, "dim", cfx_node_value(x)));
    CHECK_STR(cfx_repr(n->args), "('a', [x], 2.5, None)");
    CHECK_STR(cfx_repr(n->kwargs), "{'dim': x}");
    CHECK(!cfx_node_set_arg(n, 4, CFX_NONE));
    CHECK_ERROR("list assignment index out of range");
    CHECK(!cfx_node_insert_arg(n, 5, CFX_NONE));
    CHECK_ERROR("insert_args index must be between 0 and len(self.args), got 5");
    CHECK(!cfx_node_set_args(n, cfx_list(1)));
    CHECK_ERROR("args must be a tuple, got list");
    CHECK(!cfx_node_set_arg(n, 0, cfx_bad()));
    CHECK_ERROR("an argument of the node is bad");
    CHECK_STR(cfx_repr(n->args), "('a', [x], 2.5, None)");
    CHECK(cfx__graph_check(g));
}

static bool is_not(cfx_node *user, void *data) { return user != data; }

TEST(a_node_is_replaced_where_it_is_used) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *a = call(g, "f", cfx_tuple(x, cfx_list(x, 1)));
    cfx_node *b = call(g, "f", cfx_tuple(x));
    cfx_node *new = call(g, "g", cfx_tuple(x));
    CHECK_INT(cfx_node_replace_if(x, new, is_not, b), 1);
    CHECK_STR(cfx_repr(a->args), "(g, [g, 1])");
    CHECK_STR(users(x), "[f_1, g]");
    CHECK_INT(cfx_node_replace(x, new), 1); /* the new one goes on using x */
    CHECK_STR(users(x), "[g]");
    CHECK_STR(users(new), "[f, f_1]");
    CHECK(cfx_node_replace_input(a, new, x));
    CHECK_STR(cfx_repr(a->args), "(x, [x, 1])");
    CHECK_INT(cfx_node_replace(x, x), 0);
    CHECK(cfx__graph_check(g));
    CHECK_INT(cfx_node_replace(x, NULL), 0);
    CHECK_ERROR("the node is NULL");
}

/* A long list that nobody else has keeps its place in memory, and inputs stay in order. */
TEST(a_node_in_a_long_list_is_replaced_in_place) {
    enum { N = 100 };
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE), *a[N];
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < N; i++)
        cfx_list_append(cfx_as_list(list), cfx_node_value(a[i] = call(g, "f", cfx_tuple(x, i))));
    cfx_node *all = call(g, "cat", cfx_tuple(list, 1));
    const cfx_list *held = cfx_as_list(cfx_as_list(all->args)->items[0]);
    cfx_node *new = call(g, "g", cfx_tuple(x));
    CHECK_INT(cfx_node_replace(a[3], new), 1);
    CHECK(cfx_as_list(cfx_as_list(all->args)->items[0]) == held);
    CHECK(cfx_node_input(all, 3) == new && a[3]->num_users == 0);
    CHECK_INT(cfx_node_replace(a[7], new), 1); /* a second time, behind the first */
    CHECK_INT(cfx_node_replace(a[50], a[40]), 1);
    CHECK_INT(cfx_node_replace(a[1], a[60]), 1); /* before the first: it comes there now */
    CHECK(cfx_node_input(all, 1) == a[60] && cfx_node_input(all, 6) == a[6]);
    CHECK(cfx_node_input(all, 7) == a[8] && cfx_node_input(all, N - 4) == a[99]);
    CHECK(cfx_as_list(cfx_as_list(all->args)->items[0]) == held);
    CHECK(cfx__graph_check(g));
    CHECK_INT(cfx_node_replace(new, a[3]), 1); /* twice in the list: made anew */
    CHECK(cfx_as_list(cfx_as_list(all->args)->items[0]) != held);
    CHECK(cfx_node_input(all, 3) == a[3] && cfx_as_node(cfx_at(cfx_at(all->args, 0), 7)) == a[3]);
    cfx_value kept = cfx_value_keep(all->args); /* somebody else has it */
    CHECK_INT(cfx_node_replace(a[9], new), 1);
    CHECK(cfx_as_node(cfx_at(cfx_at(kept, 0), 9)) == a[9]);
    CHECK(cfx_as_node(cfx_at(cfx_at(all->args, 0), 9)) == new);
    cfx_value_drop(kept);
    CHECK(cfx__graph_check(g));
}

TEST(names_change) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    cfx_node_rename(y, "x");
    CHECK_STR(y->name, "x_1");
    cfx_node_rename(y, "input");
    CHECK_STR(y->name, "input_1");
    CHECK(cfx_node_set_name(y, "input"));
    CHECK_STR(y->name, "input");
    CHECK(cfx_graph_find(g, "input") == y && !cfx_graph_find(g, "x_1"));
    CHECK(!cfx_node_set_name(y, "x"));
    CHECK_ERROR("Node redefined name x!");
    CHECK(!cfx_node_set_name(y, "a b"));
    CHECK_ERROR("'a b' cannot be the name of a node");
    CHECK(cfx_node_set_name(x, "x"));
    cfx_node_set_type(x, "torch.Tensor");
    CHECK_STR(x->type, "torch.Tensor");
    cfx_node_set_type(x, NULL);
    CHECK(!x->type);
    CHECK(cfx__graph_check(g));
}

TEST(metadata_is_shared_until_it_changes) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    CHECK(cfx_is_none(cfx_node_get_meta(x, "val")));
    cfx_node_set_meta(x, "val", cfx_int(1));
    cfx_graph *copy = cfx_graph_copy(g);
    cfx_node *y = cfx_graph_first(copy);
    CHECK_INT(cfx_integer(cfx_node_get_meta(y, "val")), 1);
    cfx_node_set_meta(y, "val", cfx_int(2));
    cfx_node_set_meta(y, "custom", cfx_string_value("a"));
    CHECK_INT(cfx_integer(cfx_node_get_meta(x, "val")), 1);
    CHECK(cfx_is_none(cfx_node_get_meta(x, "custom")));
    CHECK_INT(cfx_integer(cfx_node_get_meta(y, "val")), 2);
    CHECK(cfx_node_remove_meta(y, "val"));
    CHECK(!cfx_node_remove_meta(y, "val"));
}

/* ---- effects -------------------------------------------------------------------------------- */

static bool impure(const char *target) {
    return cfx_node_is_impure(call(cfx_graph_new(), target, CFX_NONE));
}

static bool impure_method(const char *target) {
    return cfx_node_is_impure(cfx_graph_call_method(cfx_graph_new(), target, CFX_NONE, CFX_NONE));
}

TEST(effects_come_from_schemas) {
    CHECK(!impure("torch.relu") && !impure("operator.add") && !impure("operator.and_"));
    CHECK(!impure("operator.or_") && !impure("math.sqrt") && !impure("builtins.getattr"));
    CHECK(impure("torch.relu_") && impure("aten.relu_.default") && impure("aten.add_.Tensor"));
    CHECK(impure("operator.iadd") && impure("operator.setitem") && !impure("operator.invert"));
    CHECK(impure("torch.ops.mine.unknown.default") && impure("mine.unknown")); /* who knows */
    CHECK(impure("torch._assert") && impure("torch.ops.aten._assert_async.msg"));
    CHECK(impure("torch.ops.aten.sym_constrain_range.default") && impure("builtins.print"));
    CHECK(impure_method("add_") && impure_method("__setitem__") && impure_method("__iadd__"));
    CHECK(!impure_method("add") && !impure_method("__add__") && !impure_method("__invert__"));
    CHECK(!impure_method("size") && impure_method("unknown_"));
    cfx_graph *g = cfx_graph_new();
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "inplace", cfx_bool(false));
    cfx_node *n = cfx_graph_call_function(g, "torch.relu", CFX_NONE, cfx_dict_value(kw));
    CHECK(!cfx_node_is_impure(n));
    cfx_node_set_kwarg(n, "inplace", cfx_bool(true));
    CHECK(cfx_node_is_impure(n));
    CHECK(cfx_node_is_impure(cfx_graph_call_module(g, "m", CFX_NONE, CFX_NONE)));
    CHECK(!cfx_node_is_impure(cfx_graph_get_attr(g, "p")));
    CHECK(cfx_node_is_impure(cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE)));
    CHECK(cfx_node_is_impure(cfx_graph_output(g, CFX_NONE)));
    CHECK_OK();
}

TEST(a_module_is_pure_when_its_graph_is) {
    cfx_module *root = cfx_module_new_n("Root", NULL, "");
    cfx_module *sub = cfx_module_new_n("Sub", NULL, "");
    cfx_nn_add(root, "sub", sub);
    cfx_graph *g = cfx_graph_new(), *h = cfx_graph_new();
    cfx_node *n = cfx_graph_call_module(g, "sub", CFX_NONE, CFX_NONE);
    CHECK(cfx_node_is_impure(n)); /* nobody knows what sub is */
    cfx__graph_own(g, root);
    CHECK(!cfx_node_is_impure(n));
    cfx__graph_own(h, sub);
    CHECK(!cfx_node_is_impure(n));
    cfx_graph_call_function(h, "torch._assert", CFX_NONE, CFX_NONE);
    CHECK(cfx_node_is_impure(n));
    cfx__module_set_graph(root, NULL, NULL);
    CHECK(!g->owner);
}

TEST(argument_is_not_nested_without_end) {
    cfx_graph *g = cfx_graph_new();
    cfx_value deep = cfx_int(1);
    for (int i = 0; i < 500; i++)
        deep = cfx_list_value(1, &deep);
    CHECK(cfx_graph_call_function(g, "f", cfx_tuple(deep), CFX_NONE)->graph == NULL);
    CHECK_ERROR("an argument of a node has more than 200 containers in each other");
}

TEST(metadata_goes_to_what_takes_the_place) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x"), *a = cfx_graph_call(g, "torch.relu", x);
    cfx_node *b = cfx_graph_call(g, "torch.neg", x);
    cfx_graph_output(g, cfx_node_value(a));
    cfx_node_set_meta(a, "custom", cfx_int(7));
    CHECK_INT(cfx_node_replace_with_meta(a, cfx_node_value(b)), 1);
    CHECK_INT(cfx_integer(cfx_node_get_meta(b, "custom")), 7);
    CHECK_INT(a->num_users, 0);
    CHECK_INT(cfx_node_replace_with_meta(b, cfx_node_value(a)), 0);
    CHECK_ERROR("propagate_meta=True), but replace_with already has .meta keys");
}
