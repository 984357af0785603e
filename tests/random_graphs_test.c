/* Random graphs that can be run: whatever is done to a graph without changing its meaning, the
 * numbers stay the same, and its texts bring it back. */
#include <string.h>

#include "numbers.h"

static bool writes; /* graphs may write in place, to inputs, parameters and views of them too */

/* ---- graphs ---------------------------------------------------------------------------------- */

static cfx_node *any_tensor(cfx_graph *g) {
    cfx_node *found = NULL;
    uint32_t seen = 0;
    cfx_each_node(g, n) if (!n->type && !test_draw(++seen)) found = n;
    return found;
}

static cfx_value any_operand(cfx_graph *g) {
    static const double numbers[] = {0.5, -2.0, 3.0, 1e-3, -0.0};
    return test_draw(4) ? cfx_node_value(any_tensor(g)) : cfx_float(numbers[test_draw(5)]);
}

/* A tuple of two tensors, marked by a type so that nobody takes it for a tensor, and an item. */
static void add_pair(cfx_graph *g) {
    cfx_node *pair =
        cfx_graph_call_function(g, "torch.chunk", cfx_tuple(any_tensor(g), 2), CFX_NONE);
    cfx_node_set_type(pair, "tuple");
    cfx_node *half = cfx_graph_call_function(g, "operator.getitem",
                                             cfx_tuple(pair, (int)test_draw(2)), CFX_NONE);
    cfx_node_set_type(half, "torch.Tensor");
    cfx_graph_call_function(g, "torch.cat", cfx_tuple(cfx_list(half, half)), CFX_NONE);
}

static void add_write(cfx_graph *g) {
    static const char *const one[] = {"relu_", "neg_", "sigmoid_"};
    static const char *const two[] = {"add_", "mul_", "sub_"};
    if (test_draw(2))
        cfx_graph_call_method(g, one[test_draw(3)], cfx_tuple(any_tensor(g)), CFX_NONE);
    else
        cfx_graph_call_method(g, two[test_draw(3)], cfx_tuple(any_tensor(g), any_operand(g)),
                              CFX_NONE);
}

static void add_node(cfx_graph *g) {
    static const char *const one[] = {"torch.relu", "torch.sigmoid", "torch.ops.aten.neg.default",
                                      "operator.neg", "torch.nn.functional.silu"};
    static const char *const two[] = {"operator.add", "operator.mul", "operator.sub",
                                      "torch.ops.aten.maximum.default"};
    static const char *const methods[] = {"tanh", "abs", "clone", "contiguous"};
    switch (test_draw(writes ? 8 : 7)) {
    case 0:
    case 1:
        cfx_graph_call_function(g, one[test_draw(5)], cfx_tuple(any_tensor(g)), CFX_NONE);
        break;
    case 2:
    case 3: {
        uint32_t k = test_draw(4);
        cfx_value second = k == 3 ? cfx_node_value(any_tensor(g)) : any_operand(g);
        cfx_graph_call_function(g, two[k], cfx_tuple(any_tensor(g), second), CFX_NONE);
        break;
    }
    case 4:
        cfx_graph_call_method(g, methods[test_draw(4)], cfx_tuple(any_tensor(g)), CFX_NONE);
        break;
    case 5: {
        cfx_dict *kw = cfx_dict_new();
        cfx_dict_set(kw, "min", cfx_float(-1));
        cfx_dict_set(kw, "max", test_draw(2) ? cfx_float(2) : cfx_none());
        cfx_graph_call_function(g, "torch.clamp", cfx_tuple(any_tensor(g)), cfx_dict_value(kw));
        break;
    }
    case 6: add_pair(g); break;
    case 7: add_write(g); break;
    }
}

static cfx_graph *any_graph(void) {
    cfx_graph *g = cfx_graph_new();
    cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_graph_placeholder(g, "y", NULL, false, CFX_NONE);
    for (uint32_t i = test_draw(25); i > 0; i--)
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
    CHECK_STR(result_of_halves(g, 2 + test_draw((uint32_t)n - 2)), want);
    CHECK_OK();
}

TEST(random_graphs_keep_their_meaning) {
    for (uint64_t seed = 1; seed <= 120; seed++)
        CFX_SCOPE {
            test_seed(seed * 104729);
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
        if (test_draw(2))
            len += (size_t)snprintf(text + len, sizeof text - len, "rule_%d: %s\n", (int)i,
                                    sound_rules[i]);
    text[len] = 0;
    return cfx_rules_parse(text, "random.rules");
}

TEST(random_graphs_with_random_rules_keep_their_meaning) {
    int applied = 0;
    for (uint64_t seed = 1; seed <= 300; seed++)
        CFX_SCOPE {
            test_seed(seed * 7368787);
            cfx_graph *g = any_graph(), *changed = cfx_graph_copy(g);
            cfx_module *gm = cfx_graph_module(NULL, changed, NULL);
            cfx_rules *rules = any_rules();
            int n = rules ? cfx_rules_apply(rules, gm) : -1;
            CHECK(n >= 0 && cfx_graph_lint(changed, gm));
            CHECK_STR(cfx_repr(cfx_forward_value(gm, input(0.25), input(-0.5))), result(g));
            if (!CHECK_OK())
                cfx_error_clear();
            applied += n;
        }
    CHECK(applied > 300);
}

/* ---- passes ---------------------------------------------------------------------------------- */

static cfx_tensor *nothing(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return x;
}

/* A program with two parameters, which are equal, and something computed of them alone. */
static cfx_program *any_program(void) {
    cfx_module *root = cfx_module_new("Random", nothing, "x");
    cfx_nn_parameter(root, "w", cfx_add(cfx_arange(-1.0, 3.0), 0.5));
    cfx_nn_parameter(root, "v", cfx_add(cfx_arange(-1.0, 3.0), 0.5));
    cfx_graph *g = any_graph();
    cfx_node *first = cfx_node_after(cfx_node_after(cfx_graph_first(g)));
    CFX_INSERT_BEFORE(g, first) {
        cfx_node *w = cfx_graph_get_attr(g, "w"), *v = cfx_graph_get_attr(g, "v");
        cfx_node *sum = cfx_graph_call(g, "torch.mul", w, v);
        sum = cfx_graph_call(g, "torch.add", sum, cfx_graph_call(g, "Tensor.neg", w));
        for (uint32_t i = 1 + test_draw(3); i > 0; i--) {
            cfx_node *user = cfx_graph_first(g);
            for (uint32_t k = test_draw((uint32_t)cfx_graph_len(g)); k > 0; k--)
                user = cfx_node_after(user);
            if (user->inputs && cfx_node_precedes(sum, user) && !user->inputs->node->type)
                cfx_node_replace_input(user, user->inputs->node, sum);
        }
    }
    cfx_module *gm = cfx_graph_module(root, g, NULL);
    return cfx_export(gm, cfx_tuple(input(0.25), input(-0.5)), CFX_NONE, CFX_NONE);
}

/* Results, and what is left in the inputs and parameters, as tensors; numbers are left out. */
static cfx_list *computed(const cfx_program *p) {
    cfx_program *own = cfx_program_copy(p);
    for (int64_t i = 0; i < own->state->len; i++) {
        cfx_value t = own->state->entries[i].value;
        cfx_dict_put(own->state, own->state->entries[i].key, cfx_tensor_value(cfx_clone(t)));
    }
    cfx_tensor *x = input(0.25), *y = input(-0.5);
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(cfx_program_run(own, x, y), leaves);
    cfx_list_append(leaves, cfx_tensor_value(x));
    cfx_list_append(leaves, cfx_tensor_value(y));
    return leaves;
}

static bool same_values(const cfx_list *a, const cfx_list *b) {
    bool same = a->len == b->len;
    for (int64_t i = 0; same && i < a->len; i++)
        if (a->items[i].tag == CFX_TAG_TENSOR)
            same = cfx_is_true(cfx_all(cfx_isclose(a->items[i], b->items[i], 1e-4, 1e-6, true)));
    return same && cfx_ok();
}

/* A pass that keeps what is computed and needs to be told nothing; what checks may find
 * something. */
static const cfx_pass *any_pass(void) {
    for (;;) {
        const cfx_pass *p = cfx_pass_number((int)test_draw(64));
        if (p && p->promise != CFX_PASS_LOWERED && strncmp(p->name, "check_", 6) &&
            strcmp(p->name, "specialize"))
            return p;
    }
}

static void hear_nothing(const char *line, void *user) { (void)line, (void)user; }

/* Applies some passes; their names, for messages. */
static const char *apply_some(cfx_program *p, int *changes) {
    static char names[512];
    size_t len = 0;
    names[0] = 0;
    for (uint32_t i = 1 + test_draw(4); i > 0 && cfx_ok(); i--) {
        const cfx_pass *pass = any_pass();
        len += (size_t)snprintf(names + len, sizeof names - len, " %s", pass->name);
        int n = cfx_pass_apply(pass, p, NULL);
        *changes += n;
        if (n < 0 && strstr(cfx_error_last()->message, "no node that gives"))
            cfx_error_clear(); /* there is nothing to log */
    }
    return names;
}

TEST(random_programs_with_random_passes_keep_their_meaning) {
    int changes = 0;
    cfx_set_log(hear_nothing, NULL);
    writes = true;
    for (uint64_t seed = 1; seed <= 300; seed++)
        CFX_SCOPE {
            test_seed(seed * 15485863);
            cfx_program *p = any_program();
            if (cfx_failed(p)) { /* which cannot be exported: a result that is written to, say */
                cfx_error_clear();
                continue;
            }
            const cfx_list *want = computed(p);
            const char *names = apply_some(p, &changes);
            bool fine = cfx_ok() && cfx_program_check(p) && same_values(want, computed(p));
            if (!fine)
                test_fail(CFX_HERE, "seed %d, passes%s: %s", (int)seed, names,
                          cfx_ok() ? "other numbers" : cfx_error_last()->message);
            cfx_error_clear();
        }
    CHECK(changes > 1000);
    writes = false;
    cfx_set_log(NULL, NULL);
}

/* ---- passes that break programs -------------------------------------------------------------- */

/* A call of the program; NULL where there is none. */
static cfx_node *any_call(cfx_graph *g) {
    cfx_node *found = NULL;
    uint32_t seen = 0;
    cfx_each_node(g, n) if (n->op == CFX_CALL_FUNCTION && n->inputs && !test_draw(++seen)) found =
        n;
    return found;
}

static int break_something(cfx_program *p, const cfx_dict *options) {
    cfx_graph *g = p->module->graph;
    cfx_node *n = any_call(g);
    (void)options;
    switch (test_draw(4)) {
    case 0: cfx_node_set_target(n, cfx_graph_target(g, "aten.mm.default")); break;
    case 1: cfx_node_move_before(n, cfx_graph_first(g)); break;
    case 2: cfx_node_set_args(n, cfx_tuple("text")); break;
    case 3: cfx_fail(CFX_RUNTIME_ERROR, CFX_HERE, "changed its mind"); break;
    }
    cfx_graph_call(g, "aten.relu.default", cfx_graph_first(g));
    return 1;
}

TEST(passes_that_break_random_programs_are_refused) {
    static const cfx_pass breaks = {
        .name = "breaks", .summary = "breaks something", .run = break_something};
    int refused = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        CFX_SCOPE {
            test_seed(seed * 32452843);
            cfx_program *p = any_program();
            if (!p || !any_call(p->module->graph)) {
                cfx_error_clear();
                continue;
            }
            cfx_graph *before = cfx_graph_copy(p->module->graph);
            const cfx_list *want = computed(p);
            CHECK_INT(cfx_pass_apply(&breaks, p, NULL), -1);
            CHECK(!cfx_ok() && strstr(cfx_error_last()->notes, "in pass breaks"));
            cfx_error_clear();
            CHECK(cfx_graph_equal(p->module->graph, before));
            CHECK(same_values(want, computed(p)));
            refused++;
        }
    CHECK(refused > 50);
}
