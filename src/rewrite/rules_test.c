/* Rules: read, applied, checked; and the mistakes in them. */
#include "numbers.h"

#include <string.h>

static const char head[] = "class GraphModule(torch.nn.Module):\n";

/* A program of ATen calls, whose inputs have shapes. */
static cfx_program *program(const char *text) {
    cfx_module *gm = cfx_module_parse(text, "program");
    cfx_program *p = gm ? cfx_program_new(gm) : NULL;
    cfx_each_node(gm ? gm->graph : NULL, n) if (n->op == CFX_PLACEHOLDER) {
        bool held = n->name[0] == 'p' && n->name[1] == '_';
        cfx_input_spec in = {.kind = held ? CFX_IN_PARAMETER : CFX_IN_USER, .name = n->name,
                             .target = held ? n->name + 2 : NULL};
        cfx_program_add_input(p, in);
        if (held)
            cfx_dict_set(p->state, in.target, cfx_tensor_value(cfx_ones(4)));
    }
    cfx_value out = cfx_at(cfx_graph_output_node(gm->graph)->args, 0);
    for (int64_t i = 0; i < cfx_as_list(out)->len; i++)
        cfx_program_add_output(
            p, (cfx_output_spec){.kind = CFX_OUT_USER,
                                 .name = cfx_as_node(cfx_as_list(out)->items[i])->name});
    CHECK(cfx_program_infer(p));
    CHECK_OK();
    return p;
}

#define P(args, body) program(cfx_text(joined(args, body)))

static cfx_value joined(const char *args, const char *body) {
    static char text[1 << 14];
    snprintf(text, sizeof text, "%s    def forward(self, %s):\n%s", head, args, body);
    return cfx_string_value(text);
}

/* The body of what the rules make of a program. */
static const char *rewritten(const char *rules, cfx_program *p) {
    cfx_rules *r = cfx_rules_parse(rules, "test.rules");
    cfx_program *out = cfx_rewrite(p, r, NULL);
    return cfx_failed(out) ? "" : strstr(cfx_module_code(out->module), "):\n") + 3;
}

#define X "x: \"f32[2, 4]\""

TEST(rules_gelu) {
    static const char rule[] =
        "# what people write out\n"
        "gelu_tanh:  x * 0.5 * (1 + tanh((x + x**3 * 0.044715) * 0.7978845608))\n"
        "        -> gelu(x, approximate='tanh')   # one operator\n"
        "    where dtype(x) in (f32, bf16)\n";
    static const char body[] = "        mul = torch.ops.aten.mul.Tensor(x, 0.5)\n"
                               "        pow_1 = torch.ops.aten.pow.Tensor_Scalar(x, 3.0)\n"
                               "        mul_1 = torch.ops.aten.mul.Tensor(pow_1, 0.044715)\n"
                               "        add = torch.ops.aten.add.Tensor(x, mul_1)\n"
                               "        mul_2 = torch.ops.aten.mul.Tensor(add, 0.79788456080287)\n"
                               "        tanh = torch.ops.aten.tanh.default(mul_2)\n"
                               "        add_1 = torch.ops.aten.add.Tensor(tanh, 1.0)\n"
                               "        mul_3 = torch.ops.aten.mul.Tensor(mul, add_1)\n"
                               "        return (mul_3,)\n";
    cfx_program *p = P(X, body);
    CHECK_STR(rewritten(rule, p),
              "    gelu = torch.ops.aten.gelu.default(x, approximate = 'tanh');  x = None\n"
              "    return (gelu,)\n    ");
    CHECK_INT(cfx_graph_len(p->module->graph), 10); /* what was given is as it was */
    int changes = -1;
    cfx_rewrite(P("x: \"f64[2, 4]\"", body), cfx_rules_parse(rule, ""), &changes);
    CHECK_INT(changes, 0);
    CHECK_OK();
}

TEST(rules_until_none_fits) {
    CHECK_STR(rewritten("one: x + 0 -> x\n"
                        "two: x * 1 -> x\n"
                        "three: relu(relu(x)) -> relu(x)\n",
                        P(X, "        a = torch.ops.aten.relu.default(x)\n"
                             "        b = torch.ops.aten.add.Tensor(a, 0)\n"
                             "        c = torch.ops.aten.relu.default(b)\n"
                             "        d = torch.ops.aten.mul.Tensor(c, 1.0)\n"
                             "        e = torch.ops.aten.relu.default(d)\n"
                             "        return (e,)\n")),
              "    relu_1 = torch.ops.aten.relu.default(x);  x = None\n"
              "    return (relu_1,)\n    ");
    CHECK_OK();
}

TEST(rules_conditions) {
    static const struct {
        const char *where;
        bool holds;
    } cases[] = {{"rank(x) == 2", true},
                 {"rank(x) == 2 and shape(x)[-1] == 4", true},
                 {"shape(x)[7] == 4", false},
                 {"not shape(x)[7] == 4", false}, /* nothing is known of it */
                 {"shape(x) == shape(y) or dtype(x) == i64", false},
                 {"shape(y)[0] == shape(x)[1]", true},
                 {"numel(x) < 10 and numel(x) >= 8", true},
                 {"constant(y) and not constant(x)", true},
                 {"number(c) and c > 2 and c * 2 == 6", true},
                 {"close(c, 3.0000001)", true},
                 {"close(c, 1e999) or close(-1e999, 1e999)", false},
                 {"close(1e999, 1e999)", true},
                 {"int(c)", true},
                 {"users(m) == 1", true},
                 {"users(x) == 2", true},
                 {"c in (1, 2)", false},
                 {"c // 2 == 1 and c % 2 == 1 and -c < 0", true},
                 {"c ** 2 == 9 and abs(c - 5) == 2", true},
                 {"number(x)", false},
                 {"c / 0 == 1", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rule[256];
        snprintf(rule, sizeof rule, "r: (m := x * c) + y -> x where %s", cases[i].where);
        const char *got = rewritten(rule, P(X ", p_y: \"f32[4]\"",
                                            "        mul = torch.ops.aten.mul.Tensor(x, 3)\n"
                                            "        add = torch.ops.aten.add.Tensor(mul, p_y)\n"
                                            "        neg = torch.ops.aten.neg.default(x)\n"
                                            "        return (add, neg)\n"));
        if (!CHECK_OK() || (strstr(got, "aten.mul") == NULL) != cases[i].holds)
            test_fail(CFX_HERE, "%s: %s", cases[i].where, got);
    }
}

TEST(rules_literals) {
    CHECK_STR(rewritten("fold: x * a * b -> x * (a * b) where number(a) and number(b)",
                        P(X, "        a = torch.ops.aten.mul.Tensor(x, 2)\n"
                             "        b = torch.ops.aten.mul.Tensor(a, 0.25)\n"
                             "        c = torch.ops.aten.mul.Tensor(b, x)\n"
                             "        return (c,)\n")),
              "    mul_1 = torch.ops.aten.mul.Tensor(x, 0.5)\n"
              "    c = torch.ops.aten.mul.Tensor(mul_1, x);  mul_1 = x = None\n"
              "    return (c,)\n    ");
    CHECK_OK();
}

TEST(rules_leave_writes_alone) {
    cfx_program *p = P(X, "        a = torch.ops.aten.relu.default(x)\n"
                          "        b = torch.ops.aten.add_.Tensor(x, 1)\n"
                          "        c = torch.ops.aten.neg.default(a)\n"
                          "        d = torch.ops.aten.exp.default(c)\n"
                          "        e = torch.ops.aten.tanh.default(d)\n"
                          "        return (e,)\n");
    CHECK_STR(rewritten("late: neg(relu(x)) -> -clamp(x, min=0)\n"
                        "free: tanh(exp(x)) -> exp(tanh(x))", p),
              "    a = torch.ops.aten.relu.default(x)\n"
              "    b = torch.ops.aten.add_.Tensor(x, 1);  x = b = None\n"
              "    c = torch.ops.aten.neg.default(a);  a = None\n"
              "    tanh = torch.ops.aten.tanh.default(c);  c = None\n"
              "    exp = torch.ops.aten.exp.default(tanh);  tanh = None\n"
              "    return (exp,)\n    ");
    CHECK_OK();
}

TEST(rules_several_results) {
    CHECK_STR(rewritten("both: (sin(x), cos(x)) -> (tanh(x), neg(x))",
                        P(X, "        a = torch.ops.aten.sin.default(x)\n"
                             "        b = torch.ops.aten.cos.default(x)\n"
                             "        c = torch.ops.aten.add.Tensor(b, a)\n"
                             "        return (c,)\n")),
              "    tanh = torch.ops.aten.tanh.default(x)\n"
              "    neg = torch.ops.aten.neg.default(x);  x = None\n"
              "    c = torch.ops.aten.add.Tensor(neg, tanh);  neg = tanh = None\n"
              "    return (c,)\n    ");
    CHECK_OK();
}

static bool is_small(const cfx_found *f, void *user) {
    return cfx_number(cfx_found_get(f, "c")) < *(double *)user;
}

static cfx_value shifted(const cfx_found *f, cfx_graph *g, void *user) {
    (void)user;
    cfx_value x = cfx_found_get(f, "x");
    if (cfx_number(cfx_found_get(f, "c")) == 7)
        return CFX_NONE;
    return cfx_node_value(
        cfx_graph_call_function(g, "aten.sub.Tensor", cfx_tuple(x, 9), CFX_NONE));
}

TEST(rules_in_a_table) {
    double limit = 5;
    const cfx_rule rows[] = {
        {"tiny", "x * c", "x + c", "number(c)", .when = is_small, .user = &limit},
        {"shift", "x - c", .then = shifted, .where = "number(c) and c != 9"}};
    cfx_rules *r = cfx_rules_table(rows, 2);
    cfx_program *p = P(X, "        a = torch.ops.aten.mul.Tensor(x, 2)\n"
                          "        b = torch.ops.aten.mul.Tensor(a, 6)\n"
                          "        c = torch.ops.aten.sub.Tensor(b, 1)\n"
                          "        d = torch.ops.aten.sub.Tensor(c, 7)\n"
                          "        return (d,)\n");
    int n = 0;
    cfx_program *out = r ? cfx_rewrite(p, r, &n) : NULL;
    if (!CHECK_OK() || !CHECK(out && n == 2))
        return;
    CHECK_STR(strstr(cfx_module_code(out->module), "):\n") + 3,
              "    add = torch.ops.aten.add.Tensor(x, 2);  x = None\n"
              "    b = torch.ops.aten.mul.Tensor(add, 6);  add = None\n"
              "    sub_tensor = torch.ops.aten.sub.Tensor(b, 9);  b = None\n"
              "    d = torch.ops.aten.sub.Tensor(sub_tensor, 7);  sub_tensor = None\n"
              "    return (d,)\n    ");
    cfx_node *add = cfx_graph_find(out->module->graph, "add");
    CHECK_STR(cfx_repr(cfx_node_get_meta(add, "from_node")), "{'pass': 'tiny', 'nodes': ['a']}");
    cfx_result result = cfx_node_result(add);
    CHECK_STR(cfx_result_text(&result), "f32[2, 4]");
    const cfx_rule back[] = {/* level by level */
                             {.name = "back", .pattern = "x + c", .replacement = "x * c"}};
    out = cfx_rewrite(out, cfx_rules_table(back, 1), &n);
    cfx_node *mul = CHECK(n == 1) ? cfx_graph_find(out->module->graph, "mul") : NULL;
    if (CHECK_OK() && CHECK(mul))
        CHECK_STR(cfx_repr(cfx_node_get_meta(mul, "from_node")),
                  "{'pass': 'back', 'nodes': ['add'], 'from': {'add': {'pass': 'tiny', 'nodes': "
                  "['a']}}}");
}

/* A rule that matches what it made before: the history of the node stays small. */
TEST(rules_that_apply_again_and_again_keep_a_short_history) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < 600; i++)
        x = cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE);
    cfx_graph_output(g, cfx_tuple(x));
    cfx_module *gm = cfx_graph_module(NULL, g, "Relus");
    cfx_rules *r = cfx_rules_parse("once: relu(relu(x)) -> relu(x)", "");
    if (!CHECK_INT(cfx_rules_apply(r, gm), 599))
        return;
    int levels = 0;
    cfx_node *n = cfx_node_before(cfx_graph_output_node(g));
    for (cfx_value from = cfx_node_get_meta(n, "from_node"); from.tag == CFX_TAG_DICT; levels++) {
        cfx_value earlier = cfx_dict_get(cfx_as_dict(from), "from");
        from = earlier.tag == CFX_TAG_DICT ? cfx_as_dict(earlier)->entries[0].value : cfx_none();
    }
    CHECK(levels > 1 && levels <= 17);
    CHECK_OK();
}

TEST(rules_on_a_module) {
    cfx_module *gm = cfx_module_parse("def forward(self, x):\n"
                                      "    relu = torch.nn.functional.relu(x)\n"
                                      "    add = relu + 0\n"
                                      "    return add\n", "module");
    cfx_rules *r = cfx_rules_parse("a: relu(x) -> sigmoid(x)\nb: x + 0 -> x", "");
    CHECK_INT(cfx_rules_apply(r, gm), 2);
    CHECK_STR(strstr(cfx_module_code(gm), "    sig"), "    sigmoid = torch.sigmoid(x);  x = None\n"
                                                      "    return sigmoid\n    ");
}

/* What a replacement has inside is known to the rules that follow. */
TEST(rules_on_a_module_know_what_others_made) {
    cfx_module *gm = cfx_module_parse("def forward(self, x):\n"
                                      "    relu = torch.ops.aten.relu.default(x)\n"
                                      "    return relu\n", "module");
    cfx_shape_prop(gm, cfx_randn(2, 3));
    cfx_rules *r = cfx_rules_parse("a: relu(x) -> tanh(sum(x, [0]))\n"
                                   "b: tanh(y) -> sigmoid(y) where rank(y) == 1", "");
    CHECK_INT(cfx_rules_apply(r, gm), 2);
    CHECK(strstr(cfx_module_code(gm), "sigmoid") != NULL);
    CHECK_OK();
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void check_bad(const char *rules, const char *error) {
    CHECK(cfx_failed(cfx_rules_parse(rules, "bad.rules")));
    CHECK_ERROR(error);
}

TEST(rules_that_cannot_be_read) {
    check_bad("a: relu(x) -> gelo(x)",
              "bad.rules:1: rule a: no operator is called 'gelo'; did you mean 'gelu'?");
    check_bad("# first\n\na: relu(x) -> x\nb: neg(x)\n    -> y\n",
              "bad.rules:5: rule b: 'y' is not bound by the pattern");
    check_bad("a: relu(x, 1) -> x",
              "rule a: relu() takes no such arguments: aten::relu(Tensor self) -> Tensor");
    check_bad("a: relu(x)", "rule a: expected '->' and what the pattern becomes");
    check_bad("a: relu(x) -> x where size(x) == 2", "rule a: there is no condition 'size'");
    check_bad("a: relu(x) -> x where rank(x, 1) == 2", "rule a: rank() takes 1 value(s)");
    check_bad("a: relu(x) -> x where rank(z) == 2", "rule a: 'z' is not bound by the pattern");
    check_bad("a: relu(x) -> x\na: neg(x) -> x",
              "bad.rules:2: rule a: there is a rule of that name already");
    check_bad("relu(x) -> x", "bad.rules:1: expected a rule, 'name: pattern -> result'");
    check_bad("a: x -> x", "rule a: a pattern is a call");
    check_bad("a: relu(x) -> 1", "rule a: what a pattern is replaced by is a value or a call");
    check_bad("a: relu(x) -> (x", "rule a: expected ')'");
    check_bad("a: relu(x)) -> x", "rule a: ') -> x' is one too many");
    CHECK(cfx_failed(cfx_rules_open("no/such.rules")));
    CHECK_ERROR("no/such.rules");
}

static void check_refused(const char *rules, const char *error) {
    cfx_program *p = P(X, "        relu = torch.ops.aten.relu.default(x)\n"
                          "        return (relu,)\n");
    CHECK_STR(rewritten(rules, p), "");
    CHECK_ERROR(error);
    CHECK_STR(strstr(cfx_module_code(p->module), "    relu"),
              "    relu = torch.ops.aten.relu.default(x);  x = None\n"
              "    return (relu,)\n    ");
}

TEST(rules_that_cannot_be_applied) {
    check_refused("grow: relu(x) -> relu(relu(x))", "rule grow: it never stops: it was applied");
    check_refused("ping: relu(x) -> relu6(x)\npong: relu6(x) -> relu(x)", "it never stops");
    check_refused("sum: relu(x) -> sum(x)",
                  "test.rules:1: rule sum: node sum_1 computes f32[], where f32[2, 4] was");
    check_refused("long: relu(x) -> x.long()", "rule long: node long computes i64[2, 4]");
    check_refused("bmm: relu(x) -> bmm(x, x)",
                  "test.rules:1: rule bmm: node bmm: batch1 must be a 3D tensor");
    check_refused("two: relu(x) -> (x, x)", "rule two: the pattern has 1 result(s)");
}

/* ---- random texts ---------------------------------------------------------------------------- */

/* Whatever stands in a file of rules: an error or rules, and no harm. */
TEST(rules_from_random_texts) {
    static const char seed_text[] =
        "gelu: x * 0.5 * (1 + tanh((x + x**3 * 0.044715))) -> gelu(x, approximate='tanh')\n"
        "    where dtype(x) in (f32, bf16) and not rank(x) == 2\n"
        "two: (s := sin(x), cos(x)[:, 1]) -> (s.relu(), -x @ _)\n";
    test_seed(7);
    for (int round = 0; round < 3000; round++) {
        char text[sizeof seed_text + 8];
        memcpy(text, seed_text, sizeof seed_text);
        for (int k = 0; k < 1 + round % 5; k++) {
            static const char bytes[] = "()[]:=,.-+*/>#'\"x1_ \n\\\x80";
            size_t at = test_draw(sizeof seed_text - 1);
            text[at] = bytes[test_draw(sizeof bytes - 1)];
        }
        CFX_SCOPE {
            cfx_rules *r = cfx_rules_parse(text, "random");
            CHECK(cfx_failed(r) == !cfx_ok());
            cfx_error_clear();
        }
    }
}
