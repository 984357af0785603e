/* Random graphs that can be run: whatever is done to a graph without changing its meaning, the
 * numbers stay the same, and its texts bring it back. */
#include "test.h"

static uint64_t state;

static uint32_t next(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static cfx_node *any_tensor(cfx_graph *g) {
    cfx_node *found = NULL;
    uint32_t seen = 0;
    cfx_each_node(g, n)
        if (!n->type && !next(++seen))
            found = n;
    return found;
}

static cfx_value any_operand(cfx_graph *g) {
    static const double numbers[] = {0.5, -2.0, 3.0, 1e-3, -0.0};
    return next(4) ? cfx_node_value(any_tensor(g)) : cfx_float(numbers[next(5)]);
}

/* A tuple of two tensors, marked by a type so that nobody takes it for a tensor, and an item. */
static void add_pair(cfx_graph *g) {
    cfx_node *pair =
        cfx_graph_call_function(g, "torch.chunk", cfx_tuple(any_tensor(g), 2), CFX_NONE);
    cfx_node_set_type(pair, "tuple");
    cfx_node *half = cfx_graph_call_function(g, "operator.getitem", cfx_tuple(pair, (int)next(2)),
                                             CFX_NONE);
    cfx_node_set_type(half, "torch.Tensor");
    cfx_graph_call_function(g, "torch.cat", cfx_tuple(cfx_list(half, half)), CFX_NONE);
}

static void add_node(cfx_graph *g) {
    static const char *const one[] = {"torch.relu", "torch.sigmoid", "torch.ops.aten.neg.default",
                                      "operator.neg", "torch.nn.functional.silu"};
    static const char *const two[] = {"operator.add", "operator.mul", "operator.sub",
                                      "torch.ops.aten.maximum.default"};
    static const char *const methods[] = {"tanh", "abs", "clone", "contiguous"};
    switch (next(7)) {
    case 0:
    case 1:
        cfx_graph_call_function(g, one[next(5)], cfx_tuple(any_tensor(g)), CFX_NONE);
        break;
    case 2:
    case 3: {
        uint32_t k = next(4);
        cfx_value second = k == 3 ? cfx_node_value(any_tensor(g)) : any_operand(g);
        cfx_graph_call_function(g, two[k], cfx_tuple(any_tensor(g), second), CFX_NONE);
        break;
    }
    case 4: cfx_graph_call_method(g, methods[next(4)], cfx_tuple(any_tensor(g)), CFX_NONE); break;
    case 5: {
        cfx_dict *kw = cfx_dict_new();
        cfx_dict_set(kw, "min", cfx_float(-1));
        cfx_dict_set(kw, "max", next(2) ? cfx_float(2) : cfx_none());
        cfx_graph_call_function(g, "torch.clamp", cfx_tuple(any_tensor(g)), cfx_dict_value(kw));
        break;
    }
    case 6: add_pair(g); break;
    }
}

static cfx_graph *any_graph(void) {
    cfx_graph *g = cfx_graph_new();
    cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    for (uint32_t i = next(25); i > 0; i--)
        CFX_SCOPE add_node(g);
    CFX_SCOPE {
        cfx_dict *rest = cfx_dict_new();
        cfx_dict_set(rest, "k", cfx_node_value(any_tensor(g)));
        cfx_graph_output(g, cfx_tuple(any_tensor(g), cfx_list(any_tensor(g), 1), rest));
    }
    return g;
}

/* ---- what it computes ------------------------------------------------------------------------ */

static cfx_tensor *input(double shift) { return cfx_add(cfx_arange(-2.0, 2.0), shift); }

static const char *result(cfx_graph *g) {
    cfx_module *gm = g ? cfx_graph_module(NULL, g, NULL) : NULL;
    return !cfx_failed(gm) ? cfx_repr(cfx_forward_value(gm, input(0.25), input(-0.5))) : "no graph";
}

/* Runs the graph in two halves: the nodes up to a place, which give what is needed after it, and
 * the rest, which take that. */
static const char *result_of_halves(cfx_graph *g, int64_t place) {
    cfx_graph *first = cfx_graph_copy(g), *second = cfx_graph_new();
    cfx_value crossing = cfx_list_value(0, NULL);
    cfx_dict *values = cfx_dict_new();
    cfx_node *cut = cfx_graph_first(g);
    for (int64_t i = 0; i < place; i++)
        cut = cfx_node_after(cut);
    for (cfx_node *n = cfx_graph_first(g); n != cut; n = cfx_node_after(n)) {
        bool later = false;
        cfx_each_user(n, u) later |= u->user == cut || cfx_node_precedes(cut, u->user);
        cfx_node *p =
            later ? cfx_graph_placeholder(second, n->name, n->type, false, CFX_NONE) : NULL;
        cfx_dict_put(values, cfx_node_value(n), cfx_node_value(p));
        if (later)
            cfx_list_append(cfx_as_list(crossing), cfx_node_value(cfx_graph_find(first, n->name)));
    }
    cfx_node_set_args(cfx_graph_output_node(first), cfx_tuple(crossing));
    cfx_graph_eliminate_dead_code(first);
    cfx_graph_output(second, cfx_graph_copy_into(second, g, values));
    CHECK(cfx_graph_lint(first, NULL) && cfx_graph_lint(second, NULL));
    cfx_value mid =
        cfx_forward_value(cfx_graph_module(NULL, first, NULL), input(0.25), input(-0.5));
    if (cfx_is_bad(mid))
        return "bad";
    cfx_args a = {(int)cfx_as_list(mid)->len, cfx_as_list(mid)->items, NULL};
    return cfx_repr(cfx_forward_value_from(CFX_HERE, cfx_graph_module(NULL, second, NULL), a));
}

/* ---- the properties -------------------------------------------------------------------------- */

static void check_graph(cfx_graph *g) {
    const char *want = result(cfx_graph_copy(g)), *code = cfx_graph_code(g);
    cfx_graph *copy = cfx_graph_copy(g), *from_code = cfx_graph_parse(code, "code");
    cfx_graph *from_graph = cfx_graph_parse(cfx_graph_str(g), "graph");
    CHECK_OK();
    CHECK(cfx_graph_lint(g, NULL));
    CHECK(from_code && cfx_graph_equal(g, from_code));
    CHECK(from_graph && cfx_graph_equal(g, from_graph));
    CHECK(cfx_graph_hash(g) == cfx_graph_hash(copy));
    CHECK_STR(cfx_graph_code(copy), code);
    CHECK_STR(result(from_code), want);
    CHECK_STR(result(from_graph), want);
    CHECK(cfx_graph_sort(copy));
    cfx_graph_eliminate_dead_code(copy);
    CHECK_STR(result(copy), want);
    cfx_module *gm = cfx_graph_module(NULL, cfx_graph_copy(g), NULL);
    cfx_interp it = {.module = gm};
    cfx_module *same = cfx_transform(&it);
    CHECK(same && cfx_graph_len(same->graph) == cfx_graph_len(g)); /* calls are made anew */
    CHECK_STR(same ? result(same->graph) : "", want);
    cfx_module *deep = cfx_module_copy(gm);
    CHECK(deep && cfx_graph_equal(deep->graph, g));
    CHECK_STR(cfx_repr(cfx_run(&it, input(0.25), input(-0.5))), want);
    int64_t n = cfx_graph_len(g);
    CHECK_STR(result_of_halves(g, 2 + next((uint32_t)n - 2)), want);
    CHECK_OK();
}

TEST(random_graphs_keep_their_meaning) {
    for (uint64_t seed = 1; seed <= 120; seed++)
        CFX_SCOPE {
            state = seed * 104729;
            check_graph(any_graph());
        }
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Rules that keep what is computed, some only where numbers are met. */
static const char *const sound_rules[] = {
    "relu(relu(x)) -> relu(x)",
    "neg(neg(x)) -> x",
    "abs(neg(x)) -> abs(x)",
    "relu(abs(x)) -> abs(x)",
    "maximum(x, x) -> relu(x - x) + x",
    "x.clone() -> x",
    "x.contiguous() -> x",
    "F.silu(x) -> x * sigmoid(x)",
    "x - c -> x + -c where number(c)",
    "x * c -> x / (1 / c) where number(c) and c == 0.5",
    "(a := relu(x), b := neg(x)) -> (relu(x), 0 - x)",
    "chunk(x, 2)[i] -> split(x, 2)[i] where int(i)",
};

static cfx_rules *any_rules(void) {
    char text[2048];
    size_t len = 0;
    for (size_t i = 0; i < sizeof sound_rules / sizeof *sound_rules; i++)
        if (next(2))
            len += (size_t)snprintf(text + len, sizeof text - len, "rule_%d: %s\n", (int)i,
                                    sound_rules[i]);
    text[len] = 0;
    return cfx_rules_parse(text, "random.rules");
}

TEST(random_graphs_with_random_rules_keep_their_meaning) {
    int applied = 0;
    for (uint64_t seed = 1; seed <= 300; seed++)
        CFX_SCOPE {
            state = seed * 7368787;
            cfx_graph *g = any_graph(), *changed = cfx_graph_copy(g);
            cfx_module *gm = cfx_graph_module(NULL, changed, NULL);
            cfx_rules *rules = any_rules();
            int n = rules ? cfx_rules_apply(rules, gm) : -1;
            CHECK(n >= 0 && cfx_graph_lint(changed, gm));
            CHECK_STR(cfx_repr(cfx_forward_value(gm, input(0.25), input(-0.5))), result(g));
            if (!CHECK_OK())
                cfx_clear();
            applied += n;
        }
    CHECK(applied > 300);
}
