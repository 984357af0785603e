/* Splitting, partitions, inlining and extraction: what is split and run is what was run. */
#include "numbers.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cfx_module *parsed(const char *text) {
    cfx_module *gm = cfx_module_parse(text, "graph");
    CHECK_OK();
    return gm;
}

static const char *body(const cfx_module *gm) { return strstr(cfx_module_code(gm), "):\n") + 3; }

static const char sample[] = "def forward(self, x, y):\n"
                             "    a = torch.relu(x)\n"
                             "    b = torch.neg(y)\n"
                             "    c = a + b\n"
                             "    d = torch.sin(c)\n"
                             "    e = d * a\n"
                             "    return (e, c)\n";

static int by_letter(cfx_node *n, void *user) {
    const char *at = strchr(user, n->name[0]); /* "ab2c": the digit that follows */
    while (at && (*at < '0' || *at > '9'))
        at++;
    return at ? *at - '0' : 0;
}

static const char *result(cfx_module *gm) {
    cfx_tensor *x = cfx_add(cfx_arange(-2.0, 2.0), 0.25), *y = cfx_add(cfx_arange(-2.0, 2.0), -0.5);
    return cfx_repr(cfx_forward_value(gm, x, y));
}

static cfx_module *split(const char *text, const char *parts, cfx_split_options o) {
    cfx_module *gm = parsed(text), *m = cfx_split_module(gm, by_letter, (void *)parts, o);
    if (!cfx_failed(m)) {
        CHECK(cfx_graph_lint(m->graph, m));
        CHECK_STR(result(m), result(gm));
    }
    return m;
}

TEST(split_by_callback) {
    cfx_module *m = split(sample, "abc0de1", (cfx_split_options){0});
    CHECK_STR(body(m), "    submod_0 = self.submod_0(x, y);  x = y = None\n"
                       "    getitem = submod_0[0]\n"
                       "    getitem_1 = submod_0[1];  submod_0 = None\n"
                       "    submod_1 = self.submod_1(getitem, getitem_1);  getitem_1 = None\n"
                       "    return (submod_1, getitem)\n    ");
    CHECK_STR(body(cfx_module_find(m, "submod_1")),
              "    sin = torch.sin(c);  c = None\n"
              "    mul = sin * a;  sin = a = None\n"
              "    return mul\n    ");
    CHECK_OK();
}

static cfx_value scaled(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_mul(a.v[0], cfx_attr(self, "w"))));
}

TEST(parameters_that_parts_are_given_stay_parameters) {
    cfx_module *m = cfx_module_new("M", scaled, "x");
    cfx_nn_parameter(m, "w", cfx_ones(2));
    cfx_module *gm = cfx_symbolic_trace(m);
    cfx_module *s = cfx_split_module(gm, by_letter, "mr0", (cfx_split_options){0});
    CHECK_STR(cfx_repr(cfx_module_named_parameters(s)),
              "{'w': tensor([1., 1.], requires_grad=True)}");
}

TEST(split_options) {
    cfx_split_options o = {.keep_original_node_name = true, .number_inputs = true, .affix = "pp"};
    cfx_module *m = split(sample, "abc0de1", o);
    CHECK_STR(body(cfx_module_find(m, "submod_pp_1")),
              "    d = torch.sin(arg_0);  arg_0 = None\n"
              "    e = d * arg_1;  d = arg_1 = None\n"
              "    return e\n    ");
    /* two parts that need nothing of each other: the last one that is ready, or the first met */
    static const char two[] = "def forward(self, x, y):\n"
                              "    a = torch.relu(x)\n"
                              "    b = torch.neg(y)\n"
                              "    return (a, b)\n";
    CHECK_STR(body(split(two, "a0b1", (cfx_split_options){0})),
              "    submod_1 = self.submod_1(y);  y = None\n"
              "    submod_0 = self.submod_0(x);  x = None\n"
              "    return (submod_0, submod_1)\n    ");
    CHECK_STR(body(split(two, "a0b1", (cfx_split_options){.keep_original_order = true})),
              "    submod_0 = self.submod_0(x);  x = None\n"
              "    submod_1 = self.submod_1(y);  y = None\n"
              "    return (submod_0, submod_1)\n    ");
    CHECK(cfx_failed(split(sample, "ace0bd1", (cfx_split_options){0})));
    CHECK_ERROR("cycle exists between partitions!");
    CHECK(cfx_failed(cfx_split_module(NULL, by_letter, NULL, (cfx_split_options){0})));
    CHECK_ERROR("only a GraphModule can be split, not NULL");
}

static cfx_tensor *two_layers(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *w = cfx_attr(self, "w");
    return cfx_mul(cfx_call(self, "block.fc", cfx_call(self, "fc", x)), w);
}

static cfx_module *layers(void) {
    cfx_module *m = cfx_module_new("M", two_layers, "x");
    cfx_module *block = cfx_module_new("B", two_layers, "x");
    cfx_manual_seed(0);
    cfx_nn_add(m, "fc", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "block", block);
    cfx_nn_add(block, "fc", cfx_nn_linear(4, 4));
    cfx_nn_parameter(m, "w", cfx_randn(4));
    return m;
}

static int second_half(cfx_node *n, void *user) {
    (void)user;
    return strcmp(n->name, "fc") != 0;
}

TEST(split_modules_and_parameters) {
    cfx_module *gm = cfx_symbolic_trace(layers());
    cfx_dict *names = cfx_dict_new();
    cfx_module *m = cfx_split_module(gm, second_half, NULL, (cfx_split_options){.names = names});
    CHECK_OK();
    CHECK_STR(body(m), "    w = self.w\n"
                       "    submod_0 = self.submod_0(x);  x = None\n"
                       "    submod_1 = self.submod_1(submod_0, w);  submod_0 = w = None\n"
                       "    return submod_1\n    ");
    CHECK_STR(body(cfx_module_find(m, "submod_1")),
              "    block_fc = self.block_fc(fc);  fc = None\n"
              "    mul = torch.mul(block_fc, w);  block_fc = w = None\n"
              "    return mul\n    ");
    CHECK_STR(cfx_repr(names), "{'submod_0.fc': 'fc', 'submod_1.block_fc': 'block.fc'}");
    cfx_tensor *x = cfx_randn(2, 4);
    CHECK(cfx_integer(cfx_equal(cfx_forward(m, x), cfx_forward(gm, x))));
    CHECK_INT(cfx_module_inline(m, NULL), 2);
    CHECK(cfx_graph_lint(m->graph, m));
    CHECK_STR(body(m), "    w = self.w\n"
                       "    fc = self.submod_0.fc(x);  x = None\n"
                       "    block_fc = self.submod_1.block_fc(fc);  fc = None\n"
                       "    mul = torch.mul(block_fc, w);  block_fc = w = None\n"
                       "    return mul\n    ");
    CHECK(cfx_integer(cfx_equal(cfx_forward(m, x), cfx_forward(gm, x))));
}

TEST(split_by_tags) {
    cfx_module *gm = parsed(sample);
    cfx_each_node(gm->graph, n) if (n->op == CFX_CALL_FUNCTION)
        cfx_node_set_meta(n, "tag", cfx_string_value(strchr("ab", n->name[0]) ? "red" : "blue"));
    cfx_module *m = cfx_split_by_tags(gm, (cfx_split_options){0});
    CHECK_STR(body(m), "    red = self.red(x, y);  x = y = None\n"
                       "    getitem = red[0]\n"
                       "    getitem_1 = red[1];  red = None\n"
                       "    blue = self.blue(getitem, getitem_1);  getitem = getitem_1 = None\n"
                       "    getitem_2 = blue[0]\n"
                       "    getitem_3 = blue[1];  blue = None\n"
                       "    return (getitem_2, getitem_3)\n    ");
    CHECK_STR(result(m), result(gm));
    cfx_node_remove_meta(cfx_graph_find(gm->graph, "d"), "tag");
    CHECK(cfx_failed(cfx_split_by_tags(gm, (cfx_split_options){0})));
    CHECK_ERROR("node d has no tag");
}

static cfx_value inner(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_call(self, "fc", a.v[0])));
}

static cfx_value outer(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_add(cfx_call(self, "b", a.v[0]), 1));
}

/* A part that is called as a module is takes nothing from it. */
TEST(split_of_nested_layers_of_a_program) {
    cfx_module *b = cfx_module_new("Inner", inner, "x"), *m = cfx_module_new("Outer", outer, "x");
    cfx_nn_add(b, "fc", cfx_nn_linear(2, 2));
    cfx_nn_add(m, "b", b);
    cfx_tensor *x = cfx_randn(1, 2);
    cfx_module *gm = cfx_program_module(cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE));
    const char *want = cfx_str(cfx_detach(cfx_forward_value(m, x)));
    for (int depth = 1; depth < 4; depth++) {
        cfx_module *parts = cfx_split_by_modules(gm, depth, (cfx_split_options){0});
        CHECK_OK();
        CHECK(cfx_graph_lint(parts->graph, parts));
        CHECK_STR(cfx_str(cfx_detach(cfx_forward_value(parts, x))), want);
        CHECK(cfx_module_inline(parts, NULL) > 1);
        CHECK_STR(cfx_str(cfx_detach(cfx_forward_value(parts, x))), want);
    }
    CHECK_OK();
}

TEST(parts_are_called_in_the_order_of_their_tags) {
    cfx_module *gm = parsed("def forward(self, x):\n"
                            "    a = torch.sin(x)\n"
                            "    b = torch.cos(x)\n"
                            "    c = torch.add(a, 1)\n"
                            "    return (b, c)\n");
    static const char *const tags[] = {"first", "second", "first"};
    for (int i = 0; i < 3; i++)
        cfx_node_set_meta(cfx_graph_find(gm->graph, (char[]){(char)('a' + i), 0}), "tag",
                          cfx_string_value(tags[i]));
    CHECK_STR(body(cfx_split_by_tags(gm, (cfx_split_options){0})),
              "    first = self.first(x)\n"
              "    second = self.second(x);  x = None\n"
              "    return (second, first)\n    ");
    CHECK_STR(body(cfx_split_by_tags(
                  gm, (cfx_split_options){.tags = cfx_list("second", "first")})),
              "    second = self.second(x)\n"
              "    first = self.first(x);  x = None\n"
              "    return (second, first)\n    ");
    CHECK_OK();
    CHECK(cfx_failed(cfx_split_by_tags(gm, (cfx_split_options){.tags = cfx_list("first")})));
    CHECK_ERROR("node b has the tag 'second', which is not among those listed");
}

static bool no_sin(const cfx_node *n, void *user) {
    (void)user;
    return !strstr(n->target.name, "sin");
}

TEST(partition_by_what_is_supported) {
    cfx_module *gm = parsed(sample);
    cfx_module *m = cfx_module_partition(gm, no_sin, NULL, false);
    CHECK_STR(body(m), "    fused_0 = self.fused_0(x, y);  x = y = None\n"
                       "    getitem = fused_0[0]\n"
                       "    getitem_1 = fused_0[1];  fused_0 = None\n"
                       "    d = torch.sin(getitem)\n"
                       "    e = d * getitem_1;  d = getitem_1 = None\n"
                       "    return (e, getitem)\n    ");
    CHECK_STR(result(m), result(gm));
    CHECK(cfx_graph_lint(m->graph, m));
    m = cfx_module_partition(gm, no_sin, NULL, true);
    CHECK(strstr(body(m), "fused_1 = self.fused_1(d, getitem_1)"));
    CHECK_STR(result(m), result(gm));
    CHECK_OK();
}

TEST(split_into_stages) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < 12; i++)
        x = cfx_graph_call_function(g, "torch.mm", cfx_tuple(x, x), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(x));
    cfx_module *gm = cfx_graph_module(NULL, g, NULL);
    cfx_shape_prop(gm, cfx_ones(8, 8));
    cfx_module *m = cfx_split_stages(gm, 3, CFX_STAGE_FLOPS, (cfx_split_options){0});
    CHECK(m && cfx_graph_len(m->graph) == 5);
    for (int i = 0; m && i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "submod_%d", i);
        CHECK_INT(cfx_graph_len(cfx_module_find(m, name)->graph), 6);
    }
    m = cfx_split_stages(gm, 4, CFX_STAGE_BYTES, (cfx_split_options){0});
    CHECK(m && cfx_graph_len(m->graph) == 6);
    CHECK_OK();
}

/* ---- programs -------------------------------------------------------------------------------- */

static int random_stretch(cfx_node *n, void *user) {
    (void)n;
    int *part = user;
    *part += !test_draw(9);
    return *part;
}

/* The inputs of a reference program, in order; and another copy of the program for each use, since
 * running one may write to it. */
static const char *folder;

static cfx_program *opened(const char *name, cfx_list *inputs) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s/inputs.safetensors", folder, name);
    cfx_dict *all = cfx_safetensors_read(path);
    for (int64_t i = 0; all && i < all->len; i++) {
        char key[16];
        snprintf(key, sizeof key, "in%d", (int)i);
        cfx_list_append(inputs, cfx_dict_get(all, key));
    }
    snprintf(path, sizeof path, "%s/%s/model.pt2", folder, name);
    return all ? cfx_open(path) : NULL;
}

static const char *run_whole(const char *name) {
    cfx_list *in = cfx_as_list(cfx_list_value(0, NULL));
    cfx_program *p = opened(name, in);
    cfx_manual_seed(0);
    return cfx_repr(cfx_program_run_from(CFX_HERE, p, (cfx_args){(int)in->len, in->items, NULL}));
}

/* The result of a program whose graph runs as another module. */
static const char *run_as(const char *name, cfx_module *(*made)(cfx_module *gm)) {
    cfx_list *in = cfx_as_list(cfx_list_value(0, NULL));
    cfx_program *p = opened(name, in);
    cfx_module *m = made(p->module);
    if (!m)
        return "";
    cfx_manual_seed(0);
    cfx_value all = cfx_program_inputs_from(CFX_HERE, p, (cfx_args){(int)in->len, in->items, NULL});
    if (cfx_is_bad(all))
        return "";
    cfx_args a = {(int)cfx_as_list(all)->len, cfx_as_list(all)->items, NULL};
    return cfx_repr(cfx_program_outputs(p, all, cfx_forward_value_from(CFX_HERE, m, a)));
}

static cfx_module *in_stretches(cfx_module *gm) {
    int part = 0;
    return cfx_split_module(gm, random_stretch, &part, (cfx_split_options){0});
}

static cfx_module *and_back(cfx_module *gm) {
    cfx_module *m = in_stretches(gm);
    CHECK(!m || cfx_module_inline(m, NULL) >= 0);
    return m;
}

static cfx_module *in_stages(cfx_module *gm) {
    return cfx_split_stages(gm, 1 + (int)test_draw(5),
                            test_draw(2) ? CFX_STAGE_FLOPS : CFX_STAGE_BYTES,
                            (cfx_split_options){0});
}

static cfx_module *by_modules(cfx_module *gm) {
    return cfx_split_by_modules(gm, 1 + (int)test_draw(3), (cfx_split_options){0});
}

static bool by_chance(const cfx_node *n, void *user) {
    (void)n, (void)user;
    return test_draw(3) > 0;
}

static cfx_module *by_support(cfx_module *gm) {
    return cfx_module_partition(gm, by_chance, NULL, test_draw(2));
}

/* Reference programs, those of CFX_ZOO where that is set. */
TEST(split_programs_compute_the_same) {
    static cfx_module *(*const ways[])(cfx_module *) = {in_stretches, and_back, in_stages,
                                                        by_modules, by_support};
    folder = getenv("CFX_ZOO") ? getenv("CFX_ZOO") : CFX_TEST_DATA "/zoo";
    cfx_set_executor(&cfx_interpreter); /* parts and whole are rounded alike */
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        CFX_SCOPE {
            char path[512];
            snprintf(path, sizeof path, "%s/%s/model.pt2", folder, e->d_name);
            if (e->d_name[0] == '.' || access(path, R_OK))
                continue;
            const char *want = run_whole(e->d_name);
            if (!CHECK_OK())
                continue;
            for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
                const char *got = run_as(e->d_name, ways[k]);
                if (!CHECK_OK() || strcmp(got, want))
                    test_fail(CFX_HERE, "%s, way %d: %.300s\n---- not ----\n%.300s", e->d_name,
                              (int)k, got, want);
                cfx_error_clear();
            }
        }
    closedir(d);
}

/* ---- extraction ------------------------------------------------------------------------------ */

TEST(extract_between_nodes) {
    folder = CFX_TEST_DATA "/zoo";
    cfx_list *in = cfx_as_list(cfx_list_value(0, NULL));
    cfx_program *p = opened("seed_mlp", in);
    cfx_program *part = cfx_program_extract(p, "relu", "linear_1");
    if (!CHECK_OK() || !CHECK(part != NULL))
        return;
    CHECK_INT(part->ninputs, 3);
    CHECK_STR(part->inputs[2].name, "linear");
    CHECK_STR(strstr(cfx_module_code(part->module), "    relu"),
              "    relu = torch.ops.aten.relu.default(linear);  linear = None\n"
              "    linear_1 = torch.ops.aten.linear.default(relu, p_fc2_weight, p_fc2_bias);  "
              "relu = p_fc2_weight = p_fc2_bias = None\n"
              "    return (linear_1,)\n    ");
    cfx_value all = cfx_program_inputs_from(CFX_HERE, p, (cfx_args){(int)in->len, in->items, NULL});
    cfx_args a = {(int)cfx_as_list(all)->len, cfx_as_list(all)->items, NULL};
    cfx_dict *taps = cfx_tap_from(CFX_HERE, p->module, "linear*", a);
    cfx_value got = cfx_program_run(part, cfx_dict_get(taps, "linear"));
    CHECK(cfx_integer(cfx_allclose(cfx_at(got, 0), cfx_dict_get(taps, "linear_1"))));
    CHECK(cfx_program_extract(p, NULL, NULL) != NULL);
    part = cfx_program_extract_nodes(p, cfx_select_nodes(p->module->graph, "relu,module:fc1"));
    if (CHECK_OK() && CHECK(part != NULL)) {
        CHECK_INT(part->ninputs, 3);
        CHECK_STR(strstr(cfx_module_code(part->module), "    return"), "    return (relu,)\n    ");
    }
    CHECK(cfx_failed(cfx_program_extract_nodes(p, cfx_select_nodes(p->module->graph, "x"))));
    CHECK_ERROR("nothing of these nodes is used by others");
    CHECK(cfx_failed(cfx_program_extract(p, "nothing", NULL)));
    CHECK_ERROR("the program has no node called 'nothing'");
    CHECK(cfx_failed(cfx_program_extract(p, "linear_1", "relu")));
    CHECK_ERROR("relu does not depend on linear_1");
}
