/* Random programs, edited at random: whatever is done, the invariant holds. */
#include "numbers.h"

#include "graph.h"

static cfx_node *pick(const cfx_graph *g) {
    cfx_node *n = cfx_graph_first(g);
    for (uint32_t k = test_draw((uint32_t)cfx_graph_len(g)); k; k--)
        n = cfx_node_after(n);
    return n;
}

/* A value with up to three nodes from before `limit` (NULL: from anywhere) in it. */
static cfx_value some_value(const cfx_graph *g, const cfx_node *limit, int depth) {
    cfx_value v[3];
    int n = (int)test_draw(4);
    switch (test_draw(depth ? 8 : 5)) {
    case 0:
        return cfx_int(test_draw(10));
    case 1: return cfx_string_value("s");
    case 2: case 3: case 4: {
        cfx_node *node = pick(g);
        return limit && !cfx_node_precedes(node, limit) ? CFX_NONE : cfx_node_value(node);
    }
    case 5: case 6:
        for (int i = 0; i < n && i < 3; i++)
            v[i] = some_value(g, limit, depth - 1);
        return n % 2 ? cfx_list_value(n > 3 ? 3 : n, v) : cfx_tuple_value(n > 3 ? 3 : n, v);
    default:
        return cfx_slice_value(some_value(g, limit, 0), CFX_NONE, cfx_int(2));
    }
}

/* A list so long that nodes in it are replaced where they are. */
static cfx_value long_list(const cfx_graph *g, const cfx_node *limit) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < 80; i++)
        cfx_list_append(cfx_as_list(list), some_value(g, limit, i % 16 == 0));
    return list;
}

static cfx_value some_args(const cfx_graph *g, const cfx_node *limit) {
    cfx_value v[3];
    int n = (int)test_draw(4);
    if (test_draw(6) == 0)
        return cfx_tuple(1, long_list(g, limit));
    for (int i = 0; i < n; i++)
        v[i] = some_value(g, limit, 2);
    return cfx_tuple_value(n, v);
}

static void edit(cfx_graph *g, bool ordered) {
    static const char *const targets[] = {"torch.relu", "operator.add", "torch.relu_", "f", "sum"};
    cfx_node *at = pick(g), *other = pick(g);
    const cfx_node *limit = ordered ? at : NULL;
    switch (test_draw(10)) {
    case 0: case 1: case 2:
        CFX_INSERT_BEFORE(g, at)
        cfx_graph_call_function(g, targets[test_draw(5)], some_args(g, limit), CFX_NONE);
        break;
    case 3:
        CFX_INSERT_AFTER(g, at) {
            cfx_graph_get_attr(g, "a.b");
            cfx_graph_call_method(g, "add", some_args(g, limit), CFX_NONE);
        }
        break;
    case 4:
        cfx_node_set_args(at, some_args(g, limit));
        break;
    case 5:
        cfx_node_set_kwarg(at, "k", some_value(g, limit, 2));
        break;
    case 6:
        if (!ordered || (at->users && cfx_node_precedes(other, at)))
            cfx_node_replace(at, other);
        break;
    case 7:
        if (!at->num_users && cfx_graph_len(g) > 3)
            cfx_graph_erase(at);
        break;
    case 8:
        if (!ordered)
            cfx_node_move_before(at, other);
        break;
    case 9: cfx_node_rename(at, "renamed"); break;
    }
}

static cfx_graph *random_graph(bool ordered, int edits) {
    cfx_graph *g = cfx_graph_new();
    cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    for (int i = 0; i < edits; i++)
        CFX_SCOPE {
            edit(g, ordered);
            if (!CHECK(cfx__graph_check(g)))
                i = edits;
        }
    return g;
}

TEST(random_edits_keep_a_graph_in_order) {
    for (uint32_t seed = 1; seed <= 30; seed++)
        CFX_SCOPE {
            test_seed(seed * 7919);
            cfx_graph *g = random_graph(true, 120), *copy = cfx_graph_copy(g);
            CHECK(cfx_graph_lint(g, NULL));
            CHECK(cfx__graph_check(copy) && cfx_graph_equal(g, copy));
            CHECK_STR(cfx_graph_str(copy), cfx_graph_str(g));
            CHECK(cfx_graph_hash(g) == cfx_graph_hash(copy));
            CHECK(cfx_graph_sort(copy) && cfx_graph_equal(g, copy));
            cfx_graph_eliminate_dead_code(copy);
            CHECK(cfx__graph_check(copy) && cfx_graph_lint(copy, NULL));
            cfx_each_node(copy, n)
                CHECK(n->num_users || cfx_node_is_impure(n));
            cfx_graph *into = cfx_graph_new();
            CHECK(!cfx_is_bad(cfx_graph_copy_into(into, g, NULL)));
            CHECK(cfx_graph_equal(into, g) && cfx__graph_check(into));
            CHECK_OK();
        }
}

TEST(random_edits_in_any_order_can_be_sorted_or_have_a_cycle) {
    int sorted = 0;
    for (uint32_t seed = 1; seed <= 60; seed++)
        CFX_SCOPE {
            test_seed(seed * 104729);
            cfx_graph *g = random_graph(false, (int)seed);
            CHECK(cfx_graph_equal(g, cfx_graph_copy(g)));
            if (cfx_graph_sort(g)) {
                CHECK(cfx_graph_lint(g, NULL));
                sorted++;
            } else {
                CHECK_ERROR("Input graph has cycles, unable to add [");
            }
            CHECK(cfx__graph_check(g));
        }
    CHECK(sorted > 5 && sorted < 60);
}
