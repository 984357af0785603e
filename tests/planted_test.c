/* One fault planted in the text of a good program: of each kind, in each line that it can be
 * planted in. Every one is told with its node and line, and nothing is written. */
#include "files.h"

#include "../src/value/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ZOO CFX_TEST_DATA "/zoo/"

/* ---- lines ----------------------------------------------------------------------------------- */

/* A statement: `name: "annotation" = call(arguments);  rest`. */
typedef struct line {
    const char *text;
    int number;
    const char *name;       /* of the node; scope */
    const char *annotation; /* where it starts, in its quotes; NULL: there is none */
    const char *call;       /* what is called; NULL: nothing is */
    const char *close;      /* the bracket that ends the call */
} line;

/* Where the bracket closes that opens here. */
static const char *closing(const char *open) {
    int depth = 0;
    char quote = 0;
    for (const char *p = open; *p && *p != '\n'; p++) {
        if (quote)
            quote = *p == quote ? 0 : quote;
        else if (*p == '\'' || *p == '"')
            quote = *p;
        depth += !quote && strchr("([{", *p) ? 1 : 0;
        depth -= !quote && strchr(")]}", *p) ? 1 : 0;
        if (!depth)
            return p;
    }
    return NULL;
}

static bool read_line(line *l) {
    const char *at = l->text + strspn(l->text, " ");
    size_t n = strcspn(at, ":= \n");
    const char *end = at + strcspn(at, "\n"), *equal = strstr(at, " = ");
    if (!n || *at == '#' || !equal || equal > end || !strncmp(at, "def ", 4))
        return false;
    l->name = cfx__string_new(at, n)->text;
    l->annotation = at[n] == ':' && at[n + 2] == '"' ? at + n + 3 : NULL;
    if (l->annotation)
        equal = strstr(strchr(l->annotation, '"'), " = ");
    l->call = equal + 3;
    const char *open = l->call + strcspn(l->call, "([ \n");
    l->close = *open == '(' || *open == '[' ? closing(open) : NULL;
    return l->close != NULL;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const char *replaced(const char *text, const char *at, size_t n, const char *by) {
    return cfx__text_format("%.*s%s%s", (int)(at - text), text, by, at + n);
}

/* Each gives the text with a fault in the line; NULL where it cannot be planted there. */
typedef const char *fault_fn(const char *text, const line *l);

static bool calls(const line *l, const char *what) { return !strncmp(l->call, what, strlen(what)); }

static const char *other_operator(const char *text, const line *l) {
    const char *at = calls(l, "torch.ops.aten.") ? l->call + strlen("torch.ops.aten.") : NULL;
    return at ? replaced(text, at, 0, "x") : NULL;
}

static const char *other_overload(const char *text, const line *l) {
    const char *end = l->call + strcspn(l->call, "("), *dot = end;
    while (*dot != '.')
        dot--;
    return calls(l, "torch.ops.aten.") ? replaced(text, dot + 1, (size_t)(end - dot - 1), "nothing")
                                       : NULL;
}

static const char *more_arguments(const char *text, const line *l) {
    bool none = l->close[-1] == '(';
    return calls(l, "torch.ops.") ? replaced(text, l->close, 0, none ? "'x'" : ", 'x', 'x', 'x'")
                                  : NULL;
}

static const char *no_arguments(const char *text, const line *l) {
    const char *open = strchr(l->call, '(');
    return calls(l, "torch.ops.") && open + 1 < l->close
               ? replaced(text, open + 1, (size_t)(l->close - open - 1), "")
               : NULL;
}

static const char *other_item(const char *text, const line *l) {
    const char *open = l->call + strcspn(l->call, "([ \n");
    return *open == '[' ? replaced(text, open + 1, (size_t)(l->close - open - 1), "99") : NULL;
}

/* The sizes of the first tensor in the annotation; NULL where it has none. */
static const char *sizes(const line *l) {
    const char *end = l->annotation ? strchr(l->annotation, '"') : NULL;
    const char *open = end ? strchr(l->annotation, '[') : NULL;
    while (open && open < end && (open == l->annotation || strchr("([, ", open[-1])))
        open = strchr(open + 1, '['); /* of a list, not of a tensor */
    return open && open < end ? open + 1 : NULL;
}

static const char *other_size(const char *text, const line *l) {
    const char *at = sizes(l);
    size_t n = at ? strspn(at, "0123456789") : 0;
    return n && strchr(",]", at[n])
               ? replaced(text, at, n, cfx__text_format("%d", atoi(at) + 1))
               : NULL;
}

static const char *size_for_symbol(const char *text, const line *l) {
    const char *at = sizes(l), *end = at ? strchr(at, ']') : NULL;
    for (; at && at < end; at++)
        if (*at == 's' && at[1] >= '0' && at[1] <= '9')
            return replaced(text, at, 1 + strspn(at + 1, "0123456789"), "3");
    return NULL;
}

static const char *symbol_for_size(const char *text, const line *l) {
    const char *at = sizes(l);
    size_t n = at ? strspn(at, "0123456789") : 0;
    return n && strchr(",]", at[n]) ? replaced(text, at, n, "s99") : NULL;
}

static const char *other_rank(const char *text, const line *l) {
    const char *at = sizes(l), *end = at ? strchr(at, ']') : NULL;
    if (!at)
        return NULL;
    const char *more = replaced(text, end, 0, at == end ? "1" : ", 1");
    end = more + (end - text) + (at == end ? 1 : 3);
    return end[1] == '[' ? replaced(more, end + 2, 0, at[0] == ']' ? "1" : "1, ") : more;
}

static const char *other_dtype(const char *text, const line *l) {
    static const char *const pairs[][2] = {
        {"f32[", "f64["}, {"f64[", "f32["}, {"bf16[", "f16["}, {"i64[", "i32["}, {"b8[", "i64["}};
    const char *at = sizes(l);
    for (int i = 0; at && i < COUNT(pairs); i++) {
        size_t n = strlen(pairs[i][0]);
        if (!strncmp(at - n, pairs[i][0], n))
            return replaced(text, at - n, n, pairs[i][1]);
    }
    return NULL;
}

static const struct {
    const char *what;
    fault_fn *plant;
} faults[] = {
    {"another operator", other_operator}, {"another overload", other_overload},
    {"more arguments", more_arguments},   {"no arguments", no_arguments},
    {"another item", other_item},         {"another size", other_size},
    {"a size for a symbol", size_for_symbol}, {"a symbol for a size", symbol_for_size},
    {"another rank", other_rank},         {"another dtype", other_dtype},
};

/* ---- the oracle ------------------------------------------------------------------------------ */

static void put(const char *name, const char *text) {
    FILE *f = fopen(test_path(name), "w");
    CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

static bool is_there(const char *name) { return access(test_path(name), F_OK) == 0; }

/* Whether a problem is of the node in this line; of the program as a whole, for number 0. */
static bool is_told(const cfx_problems *found, const char *name, int number) {
    for (int i = 0; i < found->n; i++) {
        const char *node = found->items[i].node, *dot = node ? strrchr(node, '.') : NULL;
        bool there = node && found->items[i].line == number;
        if (!number || (there && !strcmp(dot ? dot + 1 : node, name)))
            return true;
    }
    return false;
}

static void expect_refused(const char *program, const char *what, const char *text,
                           const char *name, int number) {
    size_t mark = cfx_scope_open();
    put("bad.fx", text);
    cfx_program *p = cfx_open(test_path("bad.fx"));
    if (cfx_failed(p)) { /* it cannot even be read */
        const char *place = cfx__text_format("bad.fx:%d:", number);
        if (number && !strstr(cfx_error_last()->message, place))
            test_fail(CFX_HERE, "%s, %s in %s: %s", program, what, name, cfx_error_last()->message);
        cfx_error_clear();
    } else {
        cfx_problems *found = cfx_program_problems(p);
        if (!is_told(found, name, number))
            test_fail(CFX_HERE, "%s, %s in line %d, %s: told is %s", program, what, number, name,
                      cfx_problems_str(found, NULL));
        bool written = cfx_save(p, test_path("out.pt2")) || is_there("out.pt2");
        cfx_error_clear();
        written |= cfx_save(p, test_path("out.fx")) || is_there("out.fx");
        cfx_error_clear();
        if (written || is_there("out.safetensors"))
            test_fail(CFX_HERE, "%s, %s in %s is written", program, what, name);
        test_unlink("out.pt2"), test_unlink("out.fx"), test_unlink("out.safetensors");
    }
    cfx_scope_close(mark);
}

/* Plants each fault in each line; how many could be planted. */
static int plant_all(const char *program, const char *text) {
    int planted = 0;
    line l = {.text = text, .number = 1};
    for (; *l.text && strncmp(l.text, "Graph signature", 15); l.number++) {
        for (int i = 0; i < COUNT(faults) && read_line(&l); i++)
            CFX_SCOPE {
                const char *bad = faults[i].plant(text, &l);
                if (bad)
                    expect_refused(program, faults[i].what, bad, l.name, l.number);
                planted += bad != NULL;
            }
        l.text += strcspn(l.text, "\n");
        l.text += *l.text == '\n';
    }
    return planted;
}

/* Plants faults in what forward says of its inputs. Who uses them tells, or the tensor that they
 * stand for. */
static int plant_inputs(const char *program, const char *text) {
    static fault_fn *const some[] = {other_size, symbol_for_size, other_rank, other_dtype};
    int planted = 0;
    const char *end = strchr(strstr(text, "def forward("), '\n');
    for (const char *at = text; (at = strstr(at, ": \"")) && at < end; at += 3) {
        const char *name = at;
        while (strchr(" (", name[-1]) == NULL)
            name--;
        line l = {.name = cfx__string_new(name, (size_t)(at - name))->text, .annotation = at + 3};
        for (int i = 0; i < COUNT(some); i++)
            CFX_SCOPE {
                const char *bad = some[i](text, &l);
                if (bad)
                    expect_refused(program, "an input", bad, l.name, 0);
                planted += bad != NULL;
            }
    }
    return planted;
}

/* Plants faults in the signature: what it names is not there. */
static int plant_signature(const char *program, const char *text) {
    static const char target[] = "target='";
    int planted = 0;
    for (const char *at = text; (at = strstr(at, target)); planted++) {
        at += strlen(target);
        CFX_SCOPE expect_refused(program, "a target", replaced(text, at, 0, "no_"), "it", 0);
    }
    return planted;
}

static const char *const programs[] = {"bf16_linear", "cond", "dyn_conv", "index_zoo",
                                       "mutating_buffer", "pytree_io", "seed_mlp", "while_loop"};

TEST(a_planted_fault_is_told_with_its_line_and_not_written) {
    int planted = 0;
    for (int i = 0; i < COUNT(programs); i++) {
        cfx_program *p = cfx_open(cfx__text_format(ZOO "%s/model.pt2", programs[i]));
        CHECK(cfx_program_check(p) && cfx_save(p, test_path("bad.fx")));
        CHECK(cfx_program_check(cfx_open(test_path("bad.fx"))));
        CHECK_OK();
        const char *text = cfx_program_fx(p);
        planted += plant_all(programs[i], text) + plant_inputs(programs[i], text) +
                   plant_signature(programs[i], text);
    }
    CHECK(planted > 300);
    test_folder_clear();
}

/* ---- what no line says ----------------------------------------------------------------------- */

static cfx_program *parsed(const char *body) {
    cfx_program *p = cfx_program_parse(body, "m.fx");
    CHECK_OK();
    return p;
}

/* All problems, one a line, and how the first is told as an error. */
TEST(all_problems_are_listed) {
    cfx_program *p = parsed("def forward(self, x: \"f32[4, 2]\"):\n"
                            "    a: \"f32[4, 2]\" = torch.ops.aten.rellu.default(x)\n"
                            "    b: \"f32[4, 2]\" = torch.ops.aten.rellu.default(a)\n"
                            "    c: \"f32[3, 2]\" = torch.ops.aten.view.default(b, [3, 2])\n"
                            "    d: \"i64[4, 2]\" = torch.ops.aten.neg.default(b)\n"
                            "    return (c, d)\n");
    cfx_problems *found = cfx_program_problems(p);
    CHECK_INT(found->n, 4);
    CHECK_STR(cfx_problems_str(found, "m.fx"),
              "m.fx:2: 2 nodes (a, b): We failed to resolve torch.ops.aten.rellu.default to an "
              "operator; the nearest: aten.relu.default, aten.celu.default, aten.elu.default\n"
              "m.fx:4: node c: shape '[3, 2]' is invalid for input of size 8\n"
              "m.fx:5: node d computes f32[4, 2], but i64[4, 2] is noted\n");
    CHECK(!cfx_program_check(p));
    CHECK_STR(cfx_error_last()->notes,
              "in 2 nodes (a, b), line 2\n"
              "node c, line 4: shape '[3, 2]' is invalid for input of size 8\n"
              "line 5: node d computes f32[4, 2], but i64[4, 2] is noted");
    CHECK_ERROR("We failed to resolve torch.ops.aten.rellu.default to an operator");
}

/* A symbol that an input has, and nothing after it: what works at one size only is wrong. */
TEST(a_symbol_that_is_specialized_is_told) {
    cfx_program *p = parsed("def forward(self, x: \"f32[s0, 4]\"):\n"
                            "    relu: \"f32[s0, 4]\" = torch.ops.aten.relu.default(x)\n"
                            "    view: \"f32[8, 2]\" = torch.ops.aten.view.default(relu, [8, 2])\n"
                            "    neg: \"f32[4, 4]\" = torch.ops.aten.neg.default(x)\n"
                            "    return (view, neg)\n\n"
                            "Range constraints: {s0: VR[2, 64]}\n"
                            "Hints: {s0: 4}\n");
    const char *told = cfx_problems_str(cfx_program_problems(p), NULL);
    CHECK(strstr(told, "node view, line 3: with s0 = "));
    CHECK(strstr(told, ": shape '[8, 2]' is invalid for input of size "));
    CHECK(strstr(told, "line 4: node neg computes f32["));
    CHECK(strstr(told, ", but f32[4, 4] is noted: s0 was inferred to be a constant (4)"));
    CHECK(!strstr(told, "relu"));
    CHECK_OK();
}

/* Guards say at which sizes a program is meant to work. */
TEST(guards_are_kept_to) {
    cfx_program *p = parsed("def forward(self, x: \"f32[s0, 4]\"):\n"
                            "    view: \"f32[((s0)//2), 8]\" = torch.ops.aten.view.default(x, [-1, "
                            "8])\n"
                            "    return (view,)\n\n"
                            "Hints: {s0: 6}\n");
    CHECK(!cfx_program_check(p));
    CHECK_ERROR("shape '[-1, 8]' is invalid for input of size");
    cfx_value guard = cfx_string_value("(L['x'].size()[0] % 2) == 0 and L['x'].size()[0] <= 64");
    cfx_dict_set(p->extra, "guards", cfx_list_value(1, &guard));
    CHECK(cfx_program_check(p));
    CHECK_OK();
}

/* What is noted without strides is that of the operator: a view of it may not be possible. */
TEST(strides_that_a_text_leaves_out_are_inferred) {
    cfx_program *p = parsed("def forward(self, x: \"f32[4, 6]\"):\n"
                            "    t: \"f32[6, 4]\" = torch.ops.aten.t.default(x)\n"
                            "    view: \"f32[24]\" = torch.ops.aten.view.default(t, [24])\n"
                            "    return (view,)\n");
    CHECK(!cfx_program_check(p));
    CHECK_ERROR("view size is not compatible with input tensor's size and stride");
    p = parsed("def forward(self, x: \"f32[4, 6]\"):\n"
               "    t: \"f32[6, 4]\" = torch.ops.aten.t.default(x)\n"
               "    reshape: \"f32[24]\" = torch.ops.aten.reshape.default(t, [24])\n"
               "    return (reshape,)\n");
    CHECK(cfx_program_check(p));
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, "t"));
    CHECK_INT(cfx_integer(cfx_result_stride(&r, 1)), 6);
}

TEST(what_is_written_to_an_input_is_like_it) {
    static const char body[] = "def forward(self, x: \"f32[4]\"):\n"
                               "    %s\n"
                               "    return (made, x)\n\n"
                               "Graph signature:\n"
                               "    # inputs\n"
                               "    x: USER_INPUT\n\n"
                               "    # outputs\n"
                               "    made: USER_INPUT_MUTATION target='x'\n"
                               "    x: USER_OUTPUT\n";
    CHECK(cfx_program_check(
        parsed(cfx__text_format(body, "made = torch.ops.aten.neg.default(x)"))));
    CHECK(!cfx_program_check(
        parsed(cfx__text_format(body, "made = torch.ops.aten.sum.default(x)"))));
    CHECK_ERROR("made, which is written to 'x', is f32[], not f32[4]");
}

/* ---- dialects -------------------------------------------------------------------------------- */

static void set_dialect(cfx_program *p, const char *name) {
    cfx_value one = cfx_string_value(name);
    cfx_dict_set(p->extra, "verifiers", cfx_list_value(1, &one));
}

TEST(verifiers_speak_as_pytorchs) {
    cfx_program *p = parsed("def forward(self, x: \"f32[4]\"):\n"
                            "    add_ = torch.ops.aten.add_.Tensor(x, 1)\n"
                            "    return (add_,)\n");
    CHECK(cfx_program_check(p)); /* "TRAINING", as exported */
    set_dialect(p, "ATEN");
    CHECK(!cfx_program_check(p));
    CHECK_INT(cfx_error_last()->kind, CFX_SPEC_VIOLATION_ERROR);
    CHECK_STR(cfx_error_last()->message, "operator 'aten.add_.Tensor' is not functional");
    cfx_error_clear();
    set_dialect(p, "EDGE");
    CHECK(!cfx_program_check(p));
    CHECK_ERROR("operator 'aten.add_.Tensor' is not functional");
    p = parsed("def forward(self, x: \"f32[2, 4]\", w: \"f32[3, 4]\"):\n"
               "    linear = torch.ops.aten.linear.default(x, w)\n"
               "    relu = torch.ops.aten.relu.default(linear)\n"
               "    return (relu,)\n");
    CHECK(!cfx_program_verify(p, cfx_verifier_find("ATEN"))->n);
    CHECK_STR(cfx_problems_str(cfx_program_verify(p, cfx_verifier_find("CORE")), NULL),
              "node linear, line 2: Operator torch._ops.aten.linear.default is not Aten "
              "Canonical.\n");
    CHECK(!cfx_verifier_find("NOTHING"));
    CHECK_OK();
}

static bool no_relu(const cfx_verifier *v, const cfx_node *n) {
    return !cfx_node_is(n, cfx_text(cfx_string_value("relu"))) || !v->dialect;
}

TEST(a_dialect_of_ones_own) {
    cfx_program *p = parsed("def forward(self, x: \"f32[4]\"):\n"
                            "    relu = torch.ops.aten.relu.default(x)\n"
                            "    return (relu,)\n");
    static const cfx_verifier mine = {.dialect = "MINE", .valid = no_relu};
    CHECK_STR(cfx_problems_str(cfx_program_verify(p, &mine), NULL),
              "node relu, line 2: operator 'aten.relu.default' is not of dialect MINE\n");
}

TEST(programs_call_operators_alone) {
    cfx_program *p = parsed("def forward(self, x: \"f32[4]\"):\n"
                            "    relu = x.relu()\n"
                            "    return (relu,)\n");
    CHECK(!cfx_program_check(p));
    CHECK_STR(cfx_error_last()->message, "call_module is not valid: got a class 'relu' ");
    cfx_error_clear();
    p = parsed("def forward(self, x: \"f32[4]\"):\n"
               "    relu = torch.relu(x)\n"
               "    return (relu,)\n");
    CHECK(!cfx_program_check(p));
    CHECK_ERROR("Operator 'torch.relu' is not an allowed operator type: (<class "
                "'torch._ops.OpOverload'>, <class 'torch._ops.HigherOrderOperator'>)\n"
                "Valid builtin ops: [<built-in function getitem>, <built-in function add>,");
    p = parsed("def forward(self, x: \"f32[4]\"):\n"
               "    y = x + 1\n"
               "    return (y,)\n");
    CHECK(cfx_program_check(p)); /* in words it allows; PyTorch refuses it when it is saved */
    p = parsed("def forward(self, x):\n"
               "    relu = torch.ops.aten.relu.default(x)\n"
               "    return (relu,)\n");
    CHECK(!cfx_program_check(p));
    CHECK_ERROR("Node.meta x is missing val field.");
}

/* What is noted of a node is what it was when it was made: a call in place may change it later. */
TEST(shapes_that_calls_in_place_change_are_no_faults) {
    cfx_program *p = cfx_program_parse(
        "def forward(self, x: \"f32[5, 4]\"):\n"
        "    y: \"f32[5, 4]\" = torch.ops.aten.clone.default(x)\n"
        "    z: \"f32[4, 5]\" = torch.ops.aten.transpose_.default(y, 0, 1)\n"
        "    w: \"f32[4, 5]\" = torch.ops.aten.relu.default(y)\n"
        "    v: \"f32[5, 4]\" = torch.ops.aten.relu.default(x)\n"
        "    return (w, v)\n", "m.fx");
    CHECK(cfx_program_check(p));
    cfx_result w = cfx_node_result(cfx_graph_find(p->module->graph, "w"));
    CHECK_STR(cfx_result_text(&w), "f32[4, 5]");
    CHECK_OK();
}
