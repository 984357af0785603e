/* Programs that were edited: what is new is inferred, the signature follows, files hold the result.
 */
#include <cfx/export.h>
#include <cfx/nn.h>
#include <cfx/ops.h>
#include <cfx/rewrite.h>

#include "pt2.h"
#include "files.h"

#include <stdlib.h>
#include <unistd.h>

#define ZOO CFX_TEST_DATA "/zoo/"

static void clean(const char *name) {
    test_unlink(name);
    test_unlink(cfx__text_format("%.*s.safetensors", (int)strcspn(name, "."), name));
    test_folder_done();
}

/* Puts a call of the operator behind a node, for all its users. */
static cfx_node *insert(cfx_graph *g, cfx_node *at, const char *op) {
    cfx_node *made = NULL;
    CFX_INSERT_AFTER(g, at) made = cfx_graph_call_function(g, op, cfx_tuple(at), CFX_NONE);
    cfx_node_replace(at, made);
    return made;
}

static cfx_program *opened(const char *name) {
    cfx_program *q = cfx_open(test_path(name));
    clean(name);
    CHECK_OK();
    return q;
}

static cfx_program *reopened(const cfx_program *p, const char *name) {
    CHECK(cfx_save(p, test_path(name)));
    return opened(name);
}

static void same_numbers(cfx_value a, cfx_value b) {
    cfx_list *x = cfx_as_list(cfx_list_value(0, NULL)), *y = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(a, x), cfx_tree_flatten(b, y);
    CHECK_INT(x->len, y->len);
    for (int64_t i = 0; i < x->len && i < y->len; i++)
        CHECK(cfx_integer(cfx_equal(x->items[i], y->items[i])));
}

/* Nothing but the file says that an unknown operator gives a list. */
TEST(a_list_of_one_stays_a_list) {
    cfx_program *p = cfx_program_parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[4]\"):\n"
        "        parts = torch.ops.mine.parts.default(x)\n"
        "        first: \"f32[4]\" = parts[0]\n"
        "        return (first,)\n",
        "list");
    CHECK_OK();
    CHECK(!cfx_save(p, test_path("m.pt2")));
    CHECK_ERROR("We failed to resolve torch.ops.mine.parts.default to an operator");
    CHECK(cfx_save_unchecked(p, test_path("m.pt2")));
    CHECK_STR(cfx_graph_str(opened("m.pt2")->module->graph), cfx_graph_str(p->module->graph));
}

/* How long the storage of a view is is not known while shapes are checked. */
TEST(a_view_that_is_scattered_to_by_strides_is_saved) {
    cfx_program *p = cfx_program_parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[4]\"):\n"
        "        copy = torch.ops.aten.alias_copy.default(x)\n"
        "        neg = torch.ops.aten.neg_.default(copy)\n"
        "        flat = torch.ops.aten.view.default(neg, [4])\n"
        "        half = torch.ops.aten.slice.Tensor(x, 0, 0, 2)\n"
        "        put = torch.ops.aten.as_strided_scatter.default(flat, half, [2], [2])\n"
        "        return (put,)\n",
        "scattered");
    CHECK_OK();
    cfx_program *q = reopened(p, "m.pt2");
    CHECK_STR(cfx_str(cfx_program_run(q, cfx_arange(4.0))), "(tensor([ 0., -1.,  1., -3.]),)");
}

/* A file has one name for a result: those who take it again go by the first. */
TEST(a_result_that_is_taken_twice_is_saved_once) {
    cfx_program *p = cfx_program_parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[4]\"):\n"
        "        split = torch.ops.aten.split.Tensor(x, 2)\n"
        "        a = split[0]\n"
        "        b = split[0]\n"
        "        c = split[1]\n"
        "        add = torch.ops.aten.add.Tensor(b, c)\n"
        "        return (b, add, a)\n",
        "twice");
    CHECK_OK();
    cfx_program *q = reopened(p, "m.pt2");
    CHECK_STR(cfx_str(cfx_program_run(q, cfx_arange(4.0))),
              "(tensor([0., 1.]), tensor([2., 4.]), tensor([0., 1.]))");
    CHECK_INT(cfx_graph_len(q->module->graph), cfx_graph_len(p->module->graph) - 1);
}

TEST(inserted_node_is_saved_and_run) {
    static const char *const names[] = {"m.pt2", "m.fx"};
    for (int i = 0; i < COUNT(names); i++) {
        cfx_program *p = cfx_open(ZOO "seed_mlp/model.pt2");
        cfx_graph *g = p->module->graph;
        cfx_node *last = cfx_as_node(cfx_at(cfx_at(cfx_graph_output_node(g)->args, 0), 0));
        insert(g, last, "torch.ops.aten.neg.default");
        CHECK(cfx_program_check(p));
        CHECK_STR(p->outputs[0].name, "neg_default");
        cfx_program *q = reopened(p, names[i]);
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, "neg_default"));
        cfx_result same = cfx_node_result(cfx_graph_find(q->module->graph, "neg_default"));
        CHECK(r.kind == CFX_RESULT_TENSOR && cfx_result_equal(&r, &same));
        CHECK(cfx_program_check(q));
        cfx_value sample = cfx_program_sample_inputs(p);
        cfx_value x = cfx_at(cfx_at(sample, 0), 0);
        same_numbers(cfx_program_run(p, x), cfx_program_run(q, x));
    }
}

TEST(inserted_node_follows_symbolic_sizes) {
    cfx_program *p = cfx_open(ZOO "dyn_conv/model.pt2");
    cfx_graph *g = p->module->graph;
    cfx_node *last = cfx_as_node(cfx_at(cfx_at(cfx_graph_output_node(g)->args, 0), 0));
    cfx_result before = cfx_node_result(last);
    cfx_node *made = insert(g, last, "torch.ops.aten.relu.default");
    CHECK(cfx_program_infer(p));
    cfx_result r = cfx_node_result(made);
    CHECK_STR(cfx_result_text(&r), cfx_result_text(&before));
    CHECK(strstr(cfx_result_text(&r), "s") != NULL);
    CHECK(cfx_program_check(p));
    CHECK(cfx_program_check(reopened(p, "m.pt2")));
}

/* Sizes of what was put in are found from the symbols that the inputs have. */
TEST(inserted_sizes_are_terms_of_symbols) {
    static const struct {
        const char *op, *result;
        int64_t size[4]; /* further arguments; -1: the end */
    } cases[] = {
        {"torch.ops.aten.avg_pool2d.default", "f32[1, 3, s39, s94]", {2, -1}},
        {"torch.ops.aten.max_pool2d.default", "f32[1, 3, ((2*s39)//3), ((2*s94)//3)]",
         {3, -1}},
        {"torch.ops.aten.slice.Tensor", "f32[1, 3, 5, 2*s94]", {2, 0, 5, -1}},
        {"torch.ops.aten.slice.Tensor", "f32[1, 3, 2*s39 - 1, 2*s94]", {2, 1, 4096, -1}},
        {"torch.ops.aten.slice.Tensor", "f32[1, 3, 2*s39, 2*s94 - 2]", {3, 2, 4096, -1}},
        {"torch.ops.aten.repeat_interleave.self_int", "f32[1, 3, 6*s39, 2*s94]",
         {3, 2, -1}},
        {"torch.ops.aten.flatten.using_ints", "f32[1, 12*s39*s94]", {1, -1}},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        cfx_program *p = cfx_open(ZOO "dyn_conv/model.pt2");
        cfx_graph *g = p->module->graph;
        cfx_node *x = cfx_graph_find(g, "x"), *made = NULL, *out = cfx_graph_output_node(g);
        cfx_value args = cfx_tuple(x);
        for (int k = 0; cases[i].size[k] >= 0; k++)
            cfx_list_append(cfx_as_list(args), i < 2 ? cfx_list(cases[i].size[k])
                                                     : cfx_int(cases[i].size[k]));
        CFX_INSERT_BEFORE(g, out) made = cfx_graph_call_function(g, cases[i].op, args, CFX_NONE);
        cfx_node_set_args(out, cfx_tuple(cfx_tuple(made)));
        CHECK(cfx_program_infer(p));
        cfx_result r = cfx_node_result(made);
        CHECK_STR(cfx_result_text(&r), cases[i].result);
    }
    CHECK_OK();
}

TEST(inserted_sums_of_sizes_are_sums_of_symbols) {
    cfx_program *p = cfx_open(ZOO "dyn_conv/model.pt2");
    cfx_graph *g = p->module->graph;
    cfx_node *x = cfx_graph_find(g, "x"), *out = cfx_graph_output_node(g), *made = NULL;
    CFX_INSERT_BEFORE(g, out) {
        cfx_node *rows = cfx_graph_call_function(g, "torch.ops.aten.select.int", cfx_tuple(x, 3, 0),
                                                 CFX_NONE);
        cfx_node *cols = cfx_graph_call_function(g, "torch.ops.aten.select.int", cfx_tuple(x, 2, 0),
                                                 CFX_NONE);
        made = cfx_graph_call_function(g, "torch.ops.aten.cat.default",
                                       cfx_tuple(cfx_list(rows, cols, rows), -1), CFX_NONE);
    }
    cfx_node_set_args(out, cfx_tuple(cfx_tuple(made)));
    CHECK(cfx_program_infer(p));
    cfx_result r = cfx_node_result(made);
    CHECK_STR(cfx_result_text(&r), "f32[1, 3, 4*s39 + 2*s94]");
    CHECK_OK();
}

TEST(change_is_followed_as_far_as_results_differ) {
    cfx_module *gm = cfx_module_parse(
        "class M(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[2, 4]\"):\n"
        "        relu: \"f32[2, 4]\" = torch.ops.aten.relu.default(x)\n"
        "        exp: \"f32[2, 4]\" = torch.ops.aten.exp.default(relu)\n"
        "        sum_1: \"f32[]\" = torch.ops.aten.sum.default(exp)\n"
        "        neg: \"f32[]\" = torch.ops.aten.neg.default(sum_1)\n"
        "        return (neg,)\n",
        "test");
    cfx_program *p = cfx_program_new(gm);
    cfx_graph *g = gm->graph;
    CHECK(cfx_program_sync(p));
    CHECK_INT(p->ninputs, 1);
    cfx_node *relu = cfx_graph_find(g, "relu"), *exp = cfx_graph_find(g, "exp");
    cfx_node_set_target(relu, cfx_graph_target(g, "torch.ops.aten.unsqueeze.default"));
    cfx_node_set_args(relu, cfx_tuple(cfx_graph_find(g, "x"), 0));
    CHECK(cfx_program_infer(p));
    cfx_result r = cfx_node_result(exp), s = cfx_node_result(cfx_graph_find(g, "sum_1"));
    CHECK_STR(cfx_result_text(&r), "f32[1, 2, 4]");
    CHECK_STR(cfx_result_text(&s), "f32[]");
    cfx_node_set_meta(exp, "val", cfx_int(3));
    CHECK(!cfx_program_check(p));
    CHECK_ERROR("node exp computes f32[1, 2, 4], but int 3 is noted");
}

TEST(missing_module_is_told_with_its_line) {
    cfx_program *p = cfx_program_parse("def forward(self, x: \"f32[2]\"):\n"
                                       "    relu = torch.ops.aten.relu.default(x)\n"
                                       "    fc: \"f32[2]\" = self.fc(relu)\n"
                                       "    return (fc,)\n",
                                       "m.fx");
    const cfx_problems *found = cfx_program_problems(p);
    CHECK_INT(found->n, 1);
    CHECK_STR(found->items[0].node, "fc");
    CHECK_INT(found->items[0].line, 3);
    CHECK(strstr(found->items[0].text, "target fc references nonexistent attribute fc") != NULL);
}

TEST(range_without_a_size_is_a_problem) {
    cfx_program *p = cfx_open(ZOO "dyn_conv/model.pt2");
    cfx_value key = p->ranges->entries[0].key;
    cfx_dict_put(p->ranges, key, cfx_tuple(9, 3));
    CHECK(!cfx_program_check(p));
    CHECK_ERROR(cfx__text_format("nothing lies in the range of %s, from 9 to 3", cfx_text(key)));
    CHECK(!cfx_save(p, test_path("m.pt2")));
    CHECK_ERROR("nothing lies in the range of");
    test_folder_done();
}

TEST(signature_follows_the_graph) {
    cfx_program *p = cfx_open(ZOO "mutating_buffer/model.pt2");
    cfx_graph *g = p->module->graph;
    int inputs = p->ninputs, outputs = p->noutputs;
    cfx_node *x = NULL, *output = cfx_graph_output_node(g);
    cfx_each_node(g, n) if (n->op == CFX_PLACEHOLDER) x = n;
    cfx_node_rename(x, "picture");
    CHECK(cfx_program_sync(p));
    CHECK_STR(p->inputs[inputs - 1].name, "picture");
    CHECK_INT(cfx_program_input(p, x)->kind, CFX_IN_USER);
    cfx_node *extra = NULL;
    CFX_INSERT_AFTER(g, x) extra = cfx_graph_placeholder(g, "more", NULL, false, CFX_NONE);
    CHECK(!cfx_program_check(p));
    CHECK_ERROR("Node.meta more is missing val field.");
    cfx_node_set_meta(extra, "val", cfx_node_get_meta(x, "val"));
    cfx_value results = cfx_list_value(outputs, cfx_as_list(cfx_at(output->args, 0))->items);
    cfx_list_append(cfx_as_list(results), cfx_node_value(extra));
    cfx_node_set_args(output, cfx_tuple_value(1, &results));
    CHECK(cfx_program_sync(p));
    CHECK_INT(p->ninputs, inputs + 1);
    CHECK_INT(p->noutputs, outputs + 1);
    CHECK_STR(p->outputs[outputs].name, "more");
    CHECK_STR(cfx_value_repr(p->in_spec), "((Ellipsis, Ellipsis), {})");
    cfx_node *held = cfx_program_add_tensor(p, CFX_IN_CONSTANT, "one", cfx_ones(1));
    CHECK_STR(held->name, "c_one");
    CHECK_INT(cfx_program_input(p, held)->kind, CFX_IN_CONSTANT);
    CHECK_INT(p->inputs[p->ninputs - 1].kind, CFX_IN_USER);
    CHECK(cfx_program_check(p));
    cfx_node_set_args(output, cfx_tuple(cfx_list_value(outputs, cfx_as_list(results)->items)));
    cfx_graph_erase(extra);
    CHECK(cfx_program_sync(p));
    CHECK_STR(cfx_value_repr(p->in_spec), "((Ellipsis,), {})");
    CHECK_INT(p->noutputs, outputs);
}

TEST(copy_is_apart) {
    static const char *const names[] = {"seed_mlp", "cond", "pytree_io", "dyn_conv"};
    for (int i = 0; i < COUNT(names); i++) {
        cfx_program *p = cfx_open(cfx__text_format(ZOO "%s/model.pt2", names[i]));
        cfx_program *q = cfx_program_copy(p);
        CHECK(cfx_graph_equal(p->module->graph, q->module->graph));
        CHECK_STR(cfx_program_signature_str(q), cfx_program_signature_str(p));
        CHECK_STR(cfx_module_readable(q->module, (cfx_readable_options){0}),
                  cfx_module_readable(p->module, (cfx_readable_options){0}));
        CHECK(cfx_program_check(q));
        cfx_node *first = cfx_graph_first(q->module->graph);
        cfx_node_rename(first, "other");
        CHECK(strcmp(cfx_graph_first(p->module->graph)->name, "other") != 0);
        CHECK(cfx_program_check(p));
    }
}

/* The text with `part`, which it has, replaced. */
static const char *edited(const char *text, const char *part, const char *by) {
    const char *at = strstr(text, part);
    if (!CHECK(at != NULL))
        return text;
    return cfx__text_format("%.*s%s%s", (int)(at - text), text, by, at + strlen(part));
}

static const char *read_text(const char *path) {
    cfx__file_mapping *map = cfx__file_map(path);
    const char *text = cfx__string_new(map->data, map->size)->text;
    cfx_drop(map);
    return text;
}

static cfx_program *edited_file(const char *text) {
    FILE *f = fopen(test_path("m.fx"), "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return cfx_open(test_path("m.fx"));
}

/* The signature is part of the text: what an input is, where it comes from, how it is called. */
TEST(text_has_the_signature) {
    cfx_program *p = cfx_open(ZOO "pytree_io/model.pt2");
    CHECK(cfx_save(p, test_path("m.fx")));
    const char *text = read_text(test_path("m.fx"));
    const char *own = edited(text, "{'bias': bias}", "{'offset': bias}");
    own = edited(own, "Result: {'h': add_1, ", "Result: {'hidden': add_1, ");
    own = edited(own, "target='lin.bias'\n", "target='lin.bias' requires_grad=False\n");
    cfx_program *q = edited_file(own);
    CHECK_OK();
    CHECK_STR(cfx_repr(q->in_spec),
              "(({'x': Ellipsis, 'pair': (Ellipsis, Ellipsis)},), {'offset': Ellipsis})");
    CHECK(!cfx_node_result(cfx_graph_find(q->module->graph, "p_lin_bias")).requires_grad);
    CHECK(cfx_node_result(cfx_graph_find(q->module->graph, "p_lin_weight")).requires_grad);
    CHECK(cfx_failed(edited_file(edited(text, "target='lin.bias'", "target='lin.offset'"))));
    CHECK_ERROR("its input 'p_lin_bias' stands for 'lin.offset', which the file lacks");
    clean("m.fx");
    cfx_program *saved = reopened(q, "m.pt2"); /* and files have it */
    CHECK_STR(cfx_repr(saved->in_spec), cfx_repr(q->in_spec));
    CHECK_STR(cfx_repr(saved->out_spec),
              "{'hidden': Ellipsis, 'stats': (Ellipsis, [Ellipsis, Ellipsis])}");
}

TEST(text_may_add_and_remove) {
    cfx_program *p = cfx_open(ZOO "seed_mlp/model.pt2");
    CHECK(cfx_save(p, test_path("m.fx")));
    const char *text = read_text(test_path("m.fx"));
    const char *arg = strstr(text, "x: \"f32");
    CHECK(arg != NULL);
    text = edited(text, ", x: ", ", scale: \"f32[]\", x: ");
    cfx_value results = cfx_at(cfx_graph_output_node(p->module->graph)->args, 0);
    const char *last = cfx_as_node(cfx_at(results, 0))->name;
    text = edited(text, cfx__text_format("return (%s,)", last),
                  cfx__text_format("mul = torch.ops.aten.mul.Tensor(%s, scale)\n        "
                                   "return (mul, %s)", last, last));
    cfx_program *q = edited_file(text);
    cfx_result mul = cfx_node_result(cfx_graph_find(q->module->graph, "mul"));
    CHECK_INT(mul.kind, CFX_RESULT_TENSOR); /* it is inferred */
    if (CHECK(!cfx_failed(q))) {
        CHECK(cfx_program_check(q));
        CHECK_INT(q->ninputs, p->ninputs + 1);
        CHECK_INT(q->noutputs, 2);
        CHECK_STR(q->outputs[0].name, "mul");
        cfx_value x = cfx_at(cfx_at(cfx_program_sample_inputs(p), 0), 0);
        cfx_value out = cfx_program_run(q, cfx_tensor_from_value(cfx_float(2)), x);
        CHECK_OK();
        same_numbers(cfx_tensor_value(cfx_mul(cfx_at(out, 1), 2)), cfx_at(out, 0));
        same_numbers(cfx_tuple(cfx_at(out, 1)), cfx_tuple(cfx_program_run(p, x)));
    }
    clean("m.fx");
}

static cfx_value doubled(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(a.v[0], 2));
}

/* The example that a module was exported with goes with the program, and into its file. */
TEST(exported_programs_have_sample_inputs) {
    cfx_module *m = cfx_module_new("Doubled", doubled, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(2, 3)), CFX_NONE, CFX_NONE);
    CHECK_OK();
    const char *path = test_path("sample.pt2");
    CHECK(cfx_save(p, path));
    cfx_program *again = cfx_open(path);
    cfx_value sample = cfx_program_sample_inputs(again);
    CHECK_OK();
    CHECK_STR(cfx_value_str(cfx_program_sample_inputs(p)), cfx_value_str(sample));
    CHECK_STR(cfx_str(sample), "((tensor([[1., 1., 1.],\n        [1., 1., 1.]]),), {})");
    remove(path);
}
