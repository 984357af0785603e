#include "test.h"

#include "graph.h"

/* x -> relu -> neg -> output, and the parts of it. */
typedef struct chain {
    cfx_graph *g;
    cfx_node *x, *relu, *neg, *out;
} chain;

static chain chain_new(void) {
    chain c = {.g = cfx_graph_new()};
    c.x = cfx_graph_placeholder(c.g, "x", NULL, false, CFX_NONE);
    c.relu = cfx_graph_call_function(c.g, "torch.relu", cfx_tuple(c.x), CFX_NONE);
    c.neg = cfx_graph_call_function(c.g, "torch.neg", cfx_tuple(c.relu), CFX_NONE);
    c.out = cfx_graph_output(c.g, cfx_node_value(c.neg));
    return c;
}

static const char *names(const cfx_graph *g) {
    cfx__text t = {0};
    cfx_each_node(g, n)
        cfx__text_printf(&t, "%s%s", t.len ? " " : "", n->name);
    return cfx__text_take(&t);
}

TEST(a_graph_is_built_in_order) {
    chain c = chain_new();
    CHECK_STR(names(c.g), "x relu neg output");
    CHECK_INT(cfx_graph_len(c.g), 4);
    CHECK(cfx_graph_first(c.g) == c.x && cfx_graph_last(c.g) == c.out);
    CHECK(cfx_graph_find(c.g, "neg") == c.neg);
    CHECK(!cfx_graph_find(c.g, "nope"));
    CHECK(cfx_graph_output_node(c.g) == c.out);
    CHECK(c.relu->target.fn != NULL);
    CHECK(cfx_node_precedes(c.x, c.out) && !cfx_node_precedes(c.out, c.x));
    CHECK(cfx__graph_check(c.g));
    CHECK(cfx_graph_lint(c.g, NULL));
    CHECK_OK();
}

TEST(insert_points_nest) {
    chain c = chain_new();
    CFX_INSERT_BEFORE(c.g, c.neg) {
        cfx_graph_call_function(c.g, "torch.abs", cfx_tuple(c.relu), CFX_NONE);
        CFX_INSERT_AFTER(c.g, c.x) {
            cfx_graph_call_function(c.g, "torch.exp", cfx_tuple(c.x), CFX_NONE);
            cfx_graph_call_function(c.g, "torch.log", cfx_tuple(c.x), CFX_NONE);
        }
        cfx_graph_call_function(c.g, "torch.abs", cfx_tuple(c.relu), CFX_NONE);
    }
    cfx_graph_get_attr(c.g, "end");
    cfx_graph_insert_before(c.g, NULL);
    cfx_graph_get_attr(c.g, "a");
    cfx_graph_get_attr(c.g, "b");
    cfx_graph_insert_after(c.g, NULL);
    cfx_graph_get_attr(c.g, "z");
    CHECK_STR(names(c.g), "a b x exp log relu abs_1 abs_2 neg output end z");
    CHECK(cfx__graph_check(c.g));
    chain other = chain_new();
    cfx_graph_insert_before(c.g, other.x);
    CHECK_ERROR("Node to insert before is not in graph.");
    cfx_graph_insert_after(c.g, other.x);
    CHECK_ERROR("Node to insert after is not in graph.");
}

TEST(an_insert_point_survives_its_node) {
    chain c = chain_new();
    cfx_node *a = cfx_graph_get_attr(c.g, "a");
    cfx_node *b = cfx_graph_get_attr(c.g, "b");
    cfx_insert held = cfx_graph_insert_before(c.g, a);
    held.before = a;
    cfx_graph_erase(a);
    cfx_graph_get_attr(c.g, "c");
    CHECK_STR(names(c.g), "x relu neg output c b");
    cfx_graph_set_insert(c.g, held);
    cfx_graph_get_attr(c.g, "d");
    CHECK_STR(names(c.g), "x relu neg output c d b");
    cfx_graph_insert_before(c.g, b);
    cfx_node_move_before(b, c.x);
    cfx_graph_get_attr(c.g, "e");
    CHECK_STR(names(c.g), "b x relu neg output c d e");
    CHECK(cfx__graph_check(c.g));
}

TEST(erasing_a_used_node_is_refused) {
    chain c = chain_new();
    CHECK(!cfx_graph_erase(c.relu));
    CHECK_ERROR("Tried to erase Node relu but it still had 1 users in the graph: {neg: None}!");
    CHECK_STR(names(c.g), "x relu neg output");
    CHECK(cfx_graph_erase(c.out) && cfx_graph_erase(c.neg) && cfx_graph_erase(c.relu));
    CHECK_STR(names(c.g), "x");
    CHECK_INT(c.x->num_users, 0);
    CHECK(cfx_graph_erase(c.relu)); /* again: nothing */
    CHECK_INT(cfx_graph_len(c.g), 1);
    CHECK_STR(c.relu->name, "relu");
    CHECK_STR(cfx_repr(c.relu->args), "(None,)");
    CHECK(!cfx_graph_find(c.g, "relu"));
    CHECK(cfx__graph_check(c.g));
    CHECK(!cfx_node_set_args(c.relu, cfx_tuple(c.x)));
    CHECK_ERROR("Node relu was erased");
}

TEST(iteration_goes_on_while_nodes_come_and_go) {
    cfx_graph *g = cfx_graph_new();
    for (int i = 0; i < 10; i++)
        cfx_graph_get_attr(g, cfx__text_format("n%d", i));
    int seen = 0;
    cfx_each_node(g, n) {
        seen++;
        if (seen % 2) {
            cfx_node *next = cfx_node_after(n);
            cfx_graph_erase(n);
            if (seen == 3)
                cfx_graph_erase(next);
        } else {
            CFX_INSERT_BEFORE(g, n)
                cfx_graph_get_attr(g, "new");
        }
    }
    CHECK_INT(seen, 9);
    CHECK_STR(names(g), "new n1 new_1 n4 new_2 n6 new_3 n8");
    CHECK(cfx__graph_check(g));
}

TEST(nodes_move) {
    chain c = chain_new();
    CHECK(cfx_node_move_before(c.neg, c.relu));
    CHECK_STR(names(c.g), "x neg relu output");
    CHECK(cfx_node_move_after(c.x, c.out));
    CHECK_STR(names(c.g), "neg relu output x");
    CHECK(cfx_node_move_before(c.x, c.neg));
    CHECK(cfx_node_move_before(c.x, c.x));
    CHECK(cfx_node_move_after(c.neg, c.relu));
    CHECK_STR(names(c.g), "x relu neg output");
    CHECK(cfx__graph_check(c.g));
    chain other = chain_new();
    CHECK(!cfx_node_move_before(c.x, other.x));
    CHECK_ERROR("Attempting to move a Node into a different Graph");
}

static const char *found(cfx_graph *g, cfx_opcode op, const char *target) {
    return cfx_repr(cfx_graph_find_nodes(g, op, target));
}

TEST(nodes_are_found_by_opcode_and_target) {
    chain c = chain_new();
    cfx_graph_insert_before(c.g, c.relu);
    cfx_graph_call_function(c.g, "torch.relu", cfx_tuple(c.x), CFX_NONE);
    cfx_graph_call_function(c.g, "aten.relu.default", cfx_tuple(c.x), CFX_NONE);
    cfx_graph_call_method(c.g, "relu", cfx_tuple(c.x), CFX_NONE);
    CHECK_STR(found(c.g, CFX_CALL_FUNCTION, "torch.relu"), "[relu_1, relu]");
    CHECK_STR(found(c.g, CFX_CALL_FUNCTION, "relu"), "[relu_1, relu]");
    CHECK_STR(found(c.g, CFX_CALL_FUNCTION, "torch.ops.aten.relu.default"), "[relu_default]");
    CHECK_STR(found(c.g, CFX_CALL_METHOD, "relu"), "[relu_2]");
    CHECK_STR(found(c.g, CFX_CALL_FUNCTION, NULL), "[relu_1, relu_default, relu, neg]");
    CHECK_STR(found(c.g, CFX_PLACEHOLDER, NULL), "[x]");
    CHECK_STR(found(c.g, CFX_CALL_MODULE, NULL), "[]");
    CHECK(cfx_node_set_target(c.relu, cfx_graph_target(c.g, "torch.sigmoid")));
    CHECK_STR(found(c.g, CFX_CALL_FUNCTION, "torch.relu"), "[relu_1]");
    CHECK_STR(found(c.g, CFX_CALL_FUNCTION, "torch.sigmoid"), "[relu]");
    CHECK(cfx__graph_check(c.g));
}

typedef struct log {
    cfx_graph_hooks hooks;
    cfx__text text;
} log;

static void on_create(cfx_graph_hooks *h, cfx_node *n) {
    cfx__text_printf(&((log *)h)->text, "+%s ", n->name);
}

static void on_erase(cfx_graph_hooks *h, cfx_node *n) {
    cfx__text_printf(&((log *)h)->text, "-%s ", n->name);
}

static void on_replace(cfx_graph_hooks *h, cfx_node *old, cfx_node *with, cfx_node *user) {
    cfx__text_printf(&((log *)h)->text, "%s>%s@%s ", old->name, with->name, user->name);
}

TEST(hooks_see_changes) {
    chain c = chain_new();
    log l = {{on_create, on_erase, on_replace, NULL, NULL}, {0}};
    cfx_graph_hooks other = {0};
    cfx_graph_add_hooks(c.g, &l.hooks);
    cfx_graph_add_hooks(c.g, &other);
    cfx_graph_insert_before(c.g, c.neg);
    cfx_node *abs = cfx_graph_call_function(c.g, "torch.abs", cfx_tuple(c.x), CFX_NONE);
    CHECK_INT(cfx_node_replace(c.relu, abs), 1);
    cfx_graph_erase(c.relu);
    cfx_graph_remove_hooks(c.g, &l.hooks);
    cfx_graph_get_attr(c.g, "p");
    CHECK_STR(l.text.data, "+abs_1 relu>abs_1@neg -relu ");
    cfx__text_release(&l.text);
}

TEST(wrong_arguments_make_a_bad_node) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *n = cfx_graph_call_function(g, "torch.relu", cfx_list(1), CFX_NONE);
    CHECK_ERROR("args must be a tuple, got list");
    CHECK(n && n->erased && !n->graph);
    CHECK(!cfx_node_set_args(n, cfx_tuple(1)));
    CHECK_ERROR("the node is bad");
    cfx_graph_call_function(g, "torch.relu", cfx_tuple(n), CFX_NONE);
    CHECK_ERROR("an argument of the node is bad");
    cfx_graph_call_function(g, "torch.relu", CFX_NONE, cfx_int(2));
    CHECK_ERROR("kwargs must be a dict, got int");
    cfx_dict *odd = cfx_dict_new();
    cfx_dict_set(odd, "a.b", cfx_int(1));
    cfx_graph_call_function(g, "torch.relu", CFX_NONE, cfx_dict_value(odd));
    CHECK_ERROR("keywords must be names, got 'a.b'");
    n = cfx_graph_call_function(g, "torch.relu", CFX_NONE, CFX_NONE);
    CHECK(!cfx_node_set_kwarg(n, "2", cfx_int(1)));
    CHECK_ERROR("keywords must be names, got '2'");
    cfx_graph_call_function(g, "torch.relu", cfx_tuple(CFX_KW(alpha, 2)), CFX_NONE);
    CHECK_ERROR("keywords belong in kwargs");
    cfx_graph_create(g, (cfx_opcode)9, (cfx_target){.name = "x"}, CFX_NONE, CFX_NONE, NULL, NULL);
    CHECK_ERROR("op '9' is not in _legal_ops");
    cfx_graph_call_function(NULL, "torch.relu", CFX_NONE, CFX_NONE);
    CHECK_ERROR("the graph is NULL");
    cfx_graph_call_function(g, "torch.ops.a\nb", CFX_NONE, CFX_NONE);
    CHECK_ERROR("functions have names with dots between them, not 'torch.ops.a\\nb'");
    CHECK(!cfx_node_set_target(n, (cfx_target){.name = "torch.ops."}));
    CHECK_ERROR("functions have names with dots between them, not 'torch.ops.'");
    cfx_target f = cfx_target_named("torch.relu"), op = cfx_target_named("aten.relu.default");
    cfx_graph_create(g, CFX_CALL_METHOD, f, CFX_NONE, CFX_NONE, NULL, NULL);
    CHECK_ERROR("target torch.relu has type function but a str is expected");
    cfx_graph_create(g, CFX_PLACEHOLDER, op, CFX_NONE, CFX_NONE, NULL, NULL);
    CHECK_ERROR("target aten.relu.default has type function but a str is expected");
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_dict *d = cfx_dict_new();
    cfx_dict_put(d, cfx_node_value(x), cfx_int(1));
    cfx_graph_output(g, cfx_dict_value(d));
    CHECK_ERROR("Keys for dictionaries used as an argument cannot contain a Node. Got key: x");
    CHECK_INT(cfx_graph_len(g), 2);
    CHECK(!cfx_graph_first(NULL) && !cfx_node_after(NULL) && !cfx_graph_find(NULL, "x"));
    CHECK(cfx__graph_check(g));
}

TEST(what_a_graph_holds_does_not_change) {
    cfx_graph *g = cfx_graph_new();
    cfx_value list = cfx_list(1, 2);
    cfx_node *n = cfx_graph_call_function(g, "torch.cat", cfx_tuple(list), CFX_NONE);
    cfx_list_append(cfx_as_list(list), cfx_int(3));
    CHECK_STR(cfx_repr(n->args), "([1, 2],)");
    cfx_list_append(cfx_as_list(cfx_as_list(n->args)->items[0]), cfx_int(3));
    CHECK_ERROR("'immutable_list' object does not support mutation.");
    cfx_dict_set(cfx_as_dict(n->kwargs), "dim", cfx_int(3));
    CHECK_ERROR("'immutable_dict' object does not support mutation.");
}

TEST(a_graph_keeps_a_foreign_one_alive) {
    cfx_graph *g = cfx_graph_new();
    CFX_SCOPE {
        chain c = chain_new();
        cfx_graph_output(g, cfx_node_value(c.x));
    }
    CHECK_STR(cfx_repr(cfx_graph_last(g)->args), "(x,)");
    CHECK(cfx__graph_check(g));
}

TEST(graphs_that_use_each_others_nodes_do_not_leak) {
    cfx_graph *g = cfx_graph_new(); /* the leak checker sees whether both go */
    CFX_SCOPE {
        chain c = chain_new();
        cfx_node *mine = cfx_graph_call_function(g, "torch.neg", cfx_tuple(c.x), CFX_NONE);
        cfx_graph_call_function(c.x->graph, "torch.add", cfx_tuple(mine, c.x), CFX_NONE);
        CHECK(cfx__graph_check(g) && cfx__graph_check(c.x->graph));
    }
    CHECK_STR(cfx_repr(cfx_graph_last(g)->args), "(x,)");
    cfx_graph *h = cfx_graph_new();
    CFX_SCOPE { /* now the one that is kept by the other goes first */
        cfx_graph *k = cfx_graph_new();
        cfx_node *a = cfx_graph_placeholder(k, "a", NULL, false, CFX_NONE);
        cfx_node *b = cfx_graph_call_function(h, "torch.neg", cfx_tuple(1), CFX_NONE);
        cfx_graph_call_function(k, "torch.neg", cfx_tuple(b), CFX_NONE);
        cfx_graph_call_function(h, "torch.add", cfx_tuple(a, b), CFX_NONE);
    }
    CHECK_STR(cfx_repr(cfx_graph_last(h)->args), "(None, neg)");
    CHECK(cfx__graph_check(h));
}

/* ---- size ----------------------------------------------------------------------------------- */

enum { MANY = 100000 };

TEST(a_hundred_thousand_nodes) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE), *last = x;
    for (int i = 0; i < MANY; i++)
        CFX_SCOPE
            last = cfx_graph_call_function(g, "operator.add", cfx_tuple(last, x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(last));
    CHECK_INT(x->num_users, MANY);
    CHECK(cfx_graph_lint(g, NULL));
    cfx_node *y = cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    CHECK(cfx_node_move_before(y, x));
    CHECK_INT(cfx_node_replace(x, y), MANY);
    CHECK_INT(x->num_users, 0);
    cfx_graph *copy = cfx_graph_copy(g);
    CHECK(cfx_graph_equal(g, copy));
    CHECK(cfx__graph_check(copy));
    CHECK(cfx_graph_sort(copy));
    CHECK_INT(cfx_as_list(cfx_graph_find_nodes(g, CFX_CALL_FUNCTION, "operator.add"))->len, MANY);
    cfx_graph_erase(cfx_graph_output_node(g));
    CHECK_INT(cfx_graph_eliminate_dead_code(g), MANY);
    CHECK_STR(names(g), "y x");
    CHECK_OK();
}

TEST(insertions_at_one_place_stay_cheap) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *left = cfx_graph_get_attr(g, "left"), *right = cfx_graph_get_attr(g, "right");
    cfx_graph_insert_before(g, right); /* one behind the other */
    for (int i = 0; i < MANY; i++)
        cfx_graph_get_attr(g, "a");
    for (int i = 0; i < MANY; i++) { /* each before the one before */
        cfx_graph_insert_after(g, left);
        cfx_graph_get_attr(g, "b");
    }
    for (int i = 0; i < MANY; i++) { /* always in the middle */
        cfx_graph_insert_before(g, i ? cfx_graph_last(g)->prev : right);
        cfx_graph_get_attr(g, "c");
    }
    cfx_node *at = right;
    for (int i = 0; i < MANY; i++) { /* at the very start */
        cfx_graph_insert_before(g, at == right ? left : at);
        at = cfx_graph_get_attr(g, "d");
    }
    CHECK_INT(cfx_graph_len(g), 4 * MANY + 2);
    CHECK(cfx__graph_check(g));
}
