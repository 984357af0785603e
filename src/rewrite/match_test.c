/* Patterns: what fits, what does not, and what is put in its place. */
#include "test.h"

#include <string.h>

/* ---- graphs ---------------------------------------------------------------------------------- */

static cfx_module *parsed(const char *body) {
    cfx_module *gm = cfx_module_parse(body, "graph");
    CHECK_OK();
    return gm;
}

#define F(args, ...) parsed("def forward(self, " args "):\n" __VA_ARGS__)

static int count(cfx_module *gm, const char *pattern) {
    cfx_matches *m = cfx_find_pattern_in(gm, cfx_source_text(pattern), (cfx_replace_options){0});
    return cfx_failed(m) ? -1 : m->len;
}

/* How often a pattern that is a graph is found. */
static int count_graph(cfx_module *gm, cfx_module *pattern) {
    cfx_matches *m = cfx_find_pattern(gm, pattern->graph);
    return cfx_failed(m) ? -1 : m->len;
}

/* The body after a replacement. */
static const char *replaced(cfx_module *gm, const char *pattern, const char *with) {
    if (cfx_failed(cfx_replace_pattern(gm, pattern, with)))
        return "";
    CHECK(cfx_graph_lint(gm->graph, gm));
    return strstr(cfx_module_code(gm), "):\n") + 3;
}

/* ---- what fits ------------------------------------------------------------------------------- */

TEST(match_all_spellings_of_a_function) {
    cfx_module *gm = F("x", "    a = torch.relu(x)\n"
                            "    b = torch.nn.functional.relu(a)\n"
                            "    c = b.relu()\n"
                            "    d = torch.ops.aten.relu.default(c)\n"
                            "    e = torch.nn.functional.relu(d, inplace = False)\n"
                            "    f = e.relu_()\n"
                            "    g = torch.nn.functional.relu(f, inplace = True)\n"
                            "    h = torch.ops.aten.relu_.default(g)\n"
                            "    return h\n");
    CHECK_INT(count(gm, "relu(x)"), 5);
    CHECK_INT(count(gm, "F.relu(x)"), 5);
    CHECK_INT(count(gm, "x.relu()"), 5);
    CHECK_INT(count(gm, "torch.relu(x)"), 5);
    CHECK_INT(count(gm, "relu_(x)"), 3);
    CHECK_INT(count(gm, "F.relu(x, inplace=True)"), 3);
    CHECK_INT(count(gm, "aten.relu.default(x)"), 5);
    CHECK_INT(count(gm, "sigmoid(x)"), 0);
    CHECK_OK();
}

TEST(match_arguments_by_the_schema) {
    cfx_module *gm = F("x, y", "    a = torch.add(x, y)\n"
                               "    b = torch.add(x, y, alpha = 1)\n"
                               "    c = torch.ops.aten.add.Tensor(a, b)\n"
                               "    d = torch.softmax(c, dim = -1)\n"
                               "    e = torch.nn.functional.softmax(d, -1)\n"
                               "    f = e.softmax(-1)\n"
                               "    g = torch.ops.aten.softmax.int(f, -1)\n"
                               "    h = torch.softmax(g, 0)\n"
                               "    return h\n");
    CHECK_INT(count(gm, "add(x, y)"), 3);
    CHECK_INT(count(gm, "add(x, y, alpha=2)"), 0);
    CHECK_INT(count(gm, "add(self=x, other=y)"), 3);
    CHECK_INT(count(gm, "softmax(x, -1)"), 4);
    CHECK_INT(count(gm, "softmax(x, dim=0)"), 1);
    CHECK_INT(count(gm, "softmax(x, _)"), 5);
    CHECK_OK();
}

TEST(match_numbers) {
    cfx_module *gm = F("x", "    a = x * 0.7978845608028654\n"
                            "    b = 0.79788456 * a\n"
                            "    c = b + 2\n"
                            "    d = c ** 3.0\n"
                            "    return d\n");
    CHECK_INT(count(gm, "x * 0.7978845608"), 2);
    CHECK_INT(count(gm, "x * 0.798"), 0);
    CHECK_INT(count(gm, "2.0 + x"), 1);
    CHECK_INT(count(gm, "x ** 3"), 1);
    CHECK_INT(count(gm, "x * (1 / 2)"), 0);
    /* a graph's numbers have to be the same, as in torch.fx */
    CHECK_INT(count_graph(gm, F("x", "    a = x + 2\n    return a\n")), 1);
    CHECK_INT(count_graph(gm, F("x", "    a = x + 2.0\n    return a\n")), 0);
    CHECK_INT(count_graph(gm, F("x", "    a = 2 + x\n    return a\n")), 0);
    cfx_matches *m = cfx_find_pattern_in(
        gm, cfx_source_graph(F("x", "    a = x + 7\n    return a\n")->graph),
        (cfx_replace_options){.ignore_literals = true});
    CHECK(m && m->len == 1);
    CHECK_OK();
}

TEST(match_either_order) {
    cfx_module *gm = F("x, y", "    s = torch.sigmoid(x)\n"
                               "    a = x * s\n"
                               "    t = torch.sigmoid(y)\n"
                               "    b = t * y\n"
                               "    c = a - b\n"
                               "    return c\n");
    CHECK_INT(count(gm, "x * sigmoid(x)"), 2);
    CHECK_INT(count(gm, "mul(sigmoid(x), x)"), 2);
    CHECK_INT(count(gm, "x * sigmoid(x) - y * sigmoid(y)"), 1);
    CHECK_INT(count(gm, "y * sigmoid(y) - x"), 1);
    CHECK_OK();
}

TEST(match_no_value_that_leaks) {
    cfx_module *gm = F("x", "    s = torch.sigmoid(x)\n"
                            "    a = x * s\n"
                            "    b = a + s\n"
                            "    return b\n");
    CHECK_INT(count(gm, "x * sigmoid(x)"), 0);
    CHECK_INT(count(gm, "(x * (s := sigmoid(x)), s)"), 1);
    CHECK_OK();
}

TEST(match_no_cycle) {
    /* relu(x) and add(y, z) as one node would need cos(relu(x)) before and after it */
    cfx_module *gm = F("x, y", "    r = torch.relu(x)\n"
                               "    c = torch.cos(r)\n"
                               "    a = r + c\n"
                               "    return a\n");
    CHECK_INT(count(gm, "(r := relu(x), r + z)"), 0);
    CHECK_INT(count(gm, "(r := relu(x), r + cos(r))"), 1);
    CHECK_OK();
}

TEST(match_no_node_twice) {
    cfx_module *gm = F("x", "    a = torch.neg(x)\n"
                            "    b = torch.neg(a)\n"
                            "    c = torch.neg(b)\n"
                            "    return c\n");
    CHECK_INT(count(gm, "neg(neg(x))"), 1);
    CHECK_OK();
}

TEST(match_one_value_for_one_name) {
    cfx_module *gm = F("x, y", "    a = torch.cat([x, y], 1)\n"
                               "    b = torch.cat([x, x], 1)\n"
                               "    c = torch.add(a, b)\n"
                               "    d = c[(slice(None, None, None), 0)]\n"
                               "    return d\n");
    CHECK_INT(count(gm, "cat([p, p], 1)"), 1);
    CHECK_INT(count(gm, "cat([p, q], 1)"), 2);
    CHECK_INT(count(gm, "cat(all, 1)"), 2);
    CHECK_INT(count(gm, "cat(all, 0)"), 0);
    CHECK_INT(count(gm, "c[:, 0]"), 1);
    /* torch.fx's placeholders stand for different nodes */
    CHECK_INT(count_graph(gm, F("p, q", "    c = torch.cat([p, q], 1)\n    return c\n")), 1);
    CHECK_OK();
}

TEST(match_several_results) {
    cfx_module *gm = F("x, y", "    s = torch.sin(x)\n"
                               "    t = torch.sin(y)\n"
                               "    c = torch.cos(y)\n"
                               "    d = torch.cos(x)\n"
                               "    a = s + c\n"
                               "    b = t + d\n"
                               "    e = a * b\n"
                               "    return e\n");
    cfx_matches *m = cfx_find_pattern(gm, "(sin(x), cos(x))");
    if (!CHECK(m && m->len == 2))
        return;
    CHECK_STR(m->items[0].anchor->name, "s");
    CHECK_STR(cfx_repr(cfx_found_get(&m->items[0], "cos")), "d");
    CHECK_STR(cfx_repr(cfx_found_get(&m->items[1], "x")), "y");
    /* the new node uses x and y, and comes before its first user */
    CHECK_STR(replaced(gm, "(sin(x), cos(x))", "(torch.tanh(x), torch.exp(x))"),
              "    tanh = torch.tanh(x)\n"
              "    exp = torch.exp(x);  x = None\n"
              "    tanh_1 = torch.tanh(y)\n"
              "    exp_1 = torch.exp(y);  y = None\n"
              "    a = tanh + exp_1;  tanh = exp_1 = None\n"
              "    b = tanh_1 + exp;  tanh_1 = exp = None\n"
              "    e = a * b;  a = b = None\n"
              "    return e\n    ");
    CHECK_OK();
}

TEST(match_an_inner_use_of_a_result) {
    cfx_module *gm = F("x, y", "    r = torch.relu(x)\n"
                               "    n = torch.neg(r)\n"
                               "    z = torch.exp(y)\n"
                               "    a = r + z\n"
                               "    b = n * a\n"
                               "    return b\n");
    CHECK_STR(replaced(gm, "(r := relu(x), r + z)", "(tanh(x), x - z)"),
              "    tanh = torch.tanh(x)\n"
              "    n = torch.neg(tanh);  tanh = None\n"
              "    z = torch.exp(y);  y = None\n"
              "    sub = x - z;  x = z = None\n"
              "    b = n * sub;  n = sub = None\n"
              "    return b\n    ");
    CHECK_OK();
}

/* ---- what is put in -------------------------------------------------------------------------- */

static cfx_value cat_sum(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_method(cfx_cat(cfx_list(a.v[0], a.v[1])), "sum");
}

static cfx_tensor *stack(cfx_module *self, cfx_tensor *w1, cfx_tensor *w2) {
    (void)self;
    return cfx_stack(cfx_list(w1, w2));
}

TEST(replace_by_functions) {
    cfx_module *gm = F("w1, w2", "    cat = torch.cat([w1, w2])\n"
                                 "    sum_1 = cat.sum()\n"
                                 "    neg = torch.neg(sum_1)\n"
                                 "    return neg\n");
    cfx_module *from = cfx_module_new("from", cat_sum, "w1, w2");
    cfx_module *to = cfx_module_new("to", stack, "w1, w2");
    cfx_matches *m = cfx_replace_pattern(gm, from, to);
    if (!CHECK(m && m->len == 1))
        return;
    CHECK_STR(m->items[0].anchor->name, "sum_1");
    CHECK_STR(cfx_repr(m->items[0].replacements), "[stack]");
    CHECK_STR(cfx_repr(cfx_found_get(&m->items[0], "cat")), "cat");
    CHECK_STR(strstr(cfx_module_code(gm), "):\n") + 3,
              "    stack = torch.stack([w1, w2]);  w1 = w2 = None\n"
              "    neg = torch.neg(stack);  stack = None\n"
              "    return neg\n    ");
}

TEST(replace_in_aten_gives_aten) {
    cfx_module *gm = F("x", "    relu = torch.ops.aten.relu.default(x)\n"
                            "    add = torch.ops.aten.add.Tensor(relu, 1)\n"
                            "    return (add,)\n");
    CHECK_STR(replaced(gm, "relu(x) + 1", "F.softmax(x, dim=1) * 2 + x.clamp(min=0)"),
              "    softmax = torch.ops.aten.softmax.int(x, 1)\n"
              "    mul = torch.ops.aten.mul.Tensor(softmax, 2);  softmax = None\n"
              "    clamp = torch.ops.aten.clamp.default(x, 0);  x = None\n"
              "    add_1 = torch.ops.aten.add.Tensor(mul, clamp);  mul = clamp = None\n"
              "    return (add_1,)\n    ");
}

TEST(replace_numbers_by_arithmetic) {
    cfx_module *gm = F("x", "    a = x * 3\n"
                            "    b = a * 0.5\n"
                            "    return b\n");
    CHECK_STR(replaced(gm, "x * p * q", "x * (p * q)"),
              "    mul_1 = x * 1.5;  x = None\n"
              "    return mul_1\n    ");
}

TEST(replace_a_chain) {
    cfx_module *gm = F("x", "    a = torch.neg(x)\n"
                            "    b = torch.neg(a)\n"
                            "    c = torch.neg(b)\n"
                            "    d = torch.cat([c, b], 1)\n"
                            "    return (d, c)\n");
    CHECK_STR(replaced(gm, "neg(x)", "abs(x)"),
              "    abs_1 = torch.abs(x);  x = None\n"
              "    abs_2 = torch.abs(abs_1);  abs_1 = None\n"
              "    abs_3 = torch.abs(abs_2)\n"
              "    d = torch.cat([abs_3, abs_2], 1);  abs_2 = None\n"
              "    return (d, abs_3)\n    ");
}

/* A list that stands for a name holds what an earlier replacement put there. */
TEST(replace_inside_lists) {
    cfx_module *gm = F("x, y", "    a = torch.cat([x, y], 1)\n"
                               "    b = torch.cat([a, y], 1)\n"
                               "    return b\n");
    CHECK_STR(replaced(gm, "cat(all, 1)", "stack(all, 0)"),
              "    stack = torch.stack([x, y], 0);  x = None\n"
              "    stack_1 = torch.stack([stack, y], 0);  stack = y = None\n"
              "    return stack_1\n    ");
}

TEST(replace_by_an_input) {
    cfx_module *gm = F("x", "    a = torch.dropout(x, 0.5, False)\n"
                            "    b = torch.relu(a)\n"
                            "    return b\n");
    CHECK_STR(replaced(gm, "dropout(x, _, False)", "x"),
              "    b = torch.relu(x);  x = None\n"
              "    return b\n    ");
}

TEST(replace_what_nobody_uses) {
    cfx_module *gm = F("x", "    a = torch.relu(x)\n"
                            "    return x\n");
    CHECK_STR(replaced(gm, "relu(x)", "neg(x)"), "    neg = torch.neg(x);  neg = None\n"
                                                 "    return x\n    ");
}

static bool not_the_first(const cfx_found *f, cfx_graph *g, void *user) {
    (void)g;
    return ++*(int *)user > 1 && cfx_found_get(f, "x").tag == CFX_TAG_NODE;
}

static cfx_graph *by_name(const cfx_found *f, cfx_graph *g, void *user) {
    (void)g, (void)user;
    cfx_graph *r = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(r, "x", NULL, false, CFX_NONE);
    const char *what = !strcmp(f->anchor->name, "a") ? "torch.sin" : "torch.cos";
    cfx_graph_output(r, cfx_node_value(cfx_graph_call_function(r, what, cfx_tuple(x), CFX_NONE)));
    return r;
}

TEST(replace_with_filters_and_callbacks) {
    int seen = 0;
    cfx_module *gm = F("x", "    a = torch.relu(x)\n    b = torch.relu(a)\n    return b\n");
    cfx_matches *m = cfx_replace_pattern_in(
        gm, cfx_source_text("relu(x)"), cfx_source_text("neg(x)"),
        (cfx_replace_options){.filter = not_the_first, .user = &seen});
    CHECK(m && m->len == 1 && seen == 2);
    CHECK_STR(strstr(cfx_module_code(gm), "    a"), "    a = torch.relu(x);  x = None\n"
                                                    "    neg = torch.neg(a);  a = None\n"
                                                    "    return neg\n    ");
    gm = F("x", "    a = torch.relu(x)\n    b = torch.relu(a)\n    return b\n");
    cfx_replace_pattern_in(gm, cfx_source_text("relu(x)"), (cfx_source){0},
                           (cfx_replace_options){.replacement = by_name});
    CHECK_STR(strstr(cfx_module_code(gm), "    sin"), "    sin = torch.sin(x);  x = None\n"
                                                      "    cos = torch.cos(sin);  sin = None\n"
                                                      "    return cos\n    ");
}

/* ---- hand-written passes --------------------------------------------------------------------- */

TEST(match_a_node) {
    cfx_module *gm = F("y", "    s = torch.sigmoid(y)\n"
                            "    m = s * y\n"
                            "    k = m * 3\n"
                            "    return (k, s)\n");
    cfx_node *n = cfx_graph_find(gm->graph, "m"), *x = NULL, *s = NULL;
    CHECK(cfx_match(n, "mul(x, sigmoid(x))", &x, &s));
    CHECK_STR(x->name, "y");
    CHECK_STR(s->name, "s");
    CHECK(cfx_match(n, "mul(x, sigmoid(x))"));
    CHECK(!cfx_match(s, "mul(x, sigmoid(x))", &x));
    CHECK(cfx_match(s, "sigmoid(x)", &x));
    CHECK(!cfx_match(cfx_graph_find(gm->graph, "k"), "x * c", &x, &s)); /* 3 is no node */
    CHECK(cfx_match(cfx_graph_find(gm->graph, "k"), "x * 3", &x));
    CHECK_STR(x->name, "m");
    CHECK(!cfx_match(NULL, "relu(x)", &x));
    CHECK_OK();
    CHECK(!cfx_match(n, "relu(", &x));
    CHECK_ERROR("pattern 'relu(': expected a value");
}

/* ---- what is no pattern ---------------------------------------------------------------------- */

TEST(bad_patterns) {
    cfx_module *gm = F("x", "    a = torch.relu(x)\n    return a\n");
    CHECK_INT(count(gm, "gelo(x)"), -1);
    CHECK_ERROR("pattern 'gelo(x)': no operator is called 'gelo'; did you mean 'gelu'?");
    CHECK_INT(count(gm, "torch.sigmoidd(x)"), -1);
    CHECK_ERROR("no operator is called 'torch.sigmoidd'; did you mean 'sigmoid'?");
    CHECK_INT(count(gm, "relu(x, y, z)"), -1);
    CHECK_ERROR("relu() takes no such arguments: aten::relu(Tensor self) -> Tensor");
    CHECK_INT(count(gm, "x"), -1);
    CHECK_ERROR("a pattern is a call");
    CHECK_INT(count(gm, "relu(x) y"), -1);
    CHECK_ERROR("'y' is one too many");
    CHECK_INT(count(gm, ""), -1);
    CHECK_ERROR("expected a value");
    cfx_module *dead = F("x", "    a = torch.relu(x)\n    b = torch.neg(x)\n    return a\n");
    CHECK(cfx_failed(cfx_find_pattern(gm, dead->graph)));
    CHECK_ERROR("SubgraphMatcher cannot be initialized with an pattern with dead code");
    CHECK(cfx_failed(cfx_find_pattern(gm, cfx_graph_new())));
    CHECK_ERROR("empty pattern");
    CHECK(cfx_failed(cfx_replace_pattern(gm, "relu(x)", "neg(y)")));
    CHECK_ERROR("'y' is not bound by the pattern");
    CHECK(cfx_failed(cfx_replace_pattern(gm, "relu(x)", "(neg(x), x)")));
    CHECK_ERROR("the pattern has 1 result(s)");
    CHECK(cfx_failed(cfx_replace_pattern(gm, "relu(x)", "3")));
    CHECK_ERROR("not a number");
    CHECK(cfx_failed(cfx_replace_pattern((cfx_module *)NULL, "relu(x)", "x")));
    CHECK_ERROR("a pattern is looked for in a GraphModule, not in NULL");
    CHECK_STR(strstr(cfx_module_code(gm), "    a"), "    a = torch.relu(x);  x = None\n"
                                                    "    return a\n    ");
}

/* ---- options --------------------------------------------------------------------------------- */

static int count_with(cfx_module *gm, const char *pattern, cfx_replace_options o) {
    cfx_matches *m = cfx_find_pattern_in(gm, cfx_source_text(pattern), o);
    return cfx_failed(m) ? -1 : m->len;
}

TEST(patterns_of_inputs_results_and_overlapping_places) {
    cfx_module *gm = F("x, y", "    a = torch.relu(x)\n"
                               "    b = torch.relu(a)\n"
                               "    c = torch.relu(b)\n"
                               "    d = torch.add(c, y)\n"
                               "    e = torch.relu(d)\n"
                               "    return (e,)\n");
    CHECK_INT(count(gm, "relu(x)"), 4);
    CHECK_INT(count_with(gm, "relu(x)", (cfx_replace_options){.match_placeholder = true}), 1);
    CHECK_INT(count_with(gm, "relu(x)", (cfx_replace_options){.match_output = true}), 1);
    CHECK_INT(count_with(gm, "relu(relu(x))", (cfx_replace_options){0}), 1);
    CHECK_INT(count_with(gm, "relu(relu(x))", (cfx_replace_options){.overlapping = true}), 2);
    CHECK_INT(count_with(gm, "relu(add(relu(x), y))", (cfx_replace_options){.match_output = true}),
              1);
    CHECK_INT(count_with(gm, "add(relu(x), y)", (cfx_replace_options){.match_output = true}), 0);
    CHECK_INT(count_with(gm, "add(relu(relu(relu(x))), y)",
                         (cfx_replace_options){.match_placeholder = true}),
              1);
    CHECK_OK();
    CHECK(cfx_failed(cfx_replace_pattern_in(gm, cfx_source_text("relu(relu(x))"),
                                            cfx_source_text("relu(x)"),
                                            (cfx_replace_options){.overlapping = true})));
    CHECK_ERROR("places that overlap cannot be replaced");
}

TEST(patterns_of_all_results) {
    cfx_module *gm = F("x", "    a = torch.sin(x)\n    b = torch.cos(x)\n    return (a, b)\n");
    cfx_replace_options all = {.match_output = true};
    CHECK_INT(count_with(gm, "(sin(x), cos(x))", all), 1);
    CHECK_INT(count_with(gm, "(cos(x), sin(x))", all), 0); /* in another order */
    CHECK_INT(count_with(gm, "sin(x)", all), 0);
    CHECK_OK();
}
