/* Programs written to .pt2 files: what was read is written again, what is made here can be read. */
#include "pt2.h"
#include "files.h"

#include <stdlib.h>
#include <unistd.h>

#define ZOO CFX_TEST_DATA "/zoo/"

static void clean(const char *name) {
    test_unlink(name);
    test_folder_done();
}

/* An entry of an archive as a value: of its JSON, or of its bytes. */
static cfx_value entry(cfx__zip *z, cfx__zip_entry *e) {
    cfx__pack_bytes b;
    size_t n = strlen(e->name);
    if (!CHECK(cfx__zip_read(z, e, true, &b)))
        return cfx_bad();
    return n > 5 && !strcmp(e->name + n - 5, ".json") ? cfx__json_parse(b.data, b.size, e->name)
                                                      : cfx_string_value_n(b.data, b.size);
}

/* Two archives hold the same, whatever the order; the id aside. */
static void check_same(const char *a, const char *b) {
    cfx__file_mapping *ma = cfx__file_map(a), *mb = cfx__file_map(b);
    cfx__zip x, y;
    if (!CHECK(ma && mb) ||
        !CHECK(cfx__zip_open(&x, a, (cfx__pack_bytes){ma->data, ma->size, ma})) ||
        !CHECK(cfx__zip_open(&y, b, (cfx__pack_bytes){mb->data, mb->size, mb})))
        return;
    CHECK_INT(x.entries.len, y.entries.len);
    for (size_t i = 0; i < x.entries.len; i++) {
        cfx__zip_entry *e = &x.entries.data[i], *other = cfx__zip_find(&y, e->name);
        if (!CHECK(other != NULL) || strstr(e->name, "serialization_id"))
            continue;
        if (!cfx_equal_values(entry(&x, e), entry(&y, other)))
            test_fail(CFX_HERE, "%s: %s differs", a, e->name);
    }
    cfx__zip_close(&x);
    cfx__zip_close(&y);
    cfx_drop(ma);
    cfx_drop(mb);
}

TEST(programs_are_written_as_they_were) {
    static const char *const names[] = {"bf16_linear",     "cond",      "dyn_conv", "index_zoo",
                                        "mutating_buffer", "pytree_io", "seed_mlp", "while_loop"};
    for (int i = 0; i < COUNT(names); i++)
        CFX_SCOPE {
            const char *from = cfx__text_format(ZOO "%s/model.pt2", names[i]);
            cfx_program *p = cfx_open(from);
            CHECK(cfx_save(p, test_path("model.pt2")));
            CHECK_OK();
            check_same(from, test_path("model.pt2"));
        }
    clean("model.pt2");
}

TEST(weights_in_files_are_aligned) {
    cfx_program *p = cfx_open(ZOO "seed_mlp/model.pt2");
    CHECK(cfx_save(p, test_path("m.pt2")));
    p = cfx_open(test_path("m.pt2"));
    for (int i = 0; p && i < 4; i++)
        CHECK_INT((uintptr_t)cfx_tensor_data(cfx_program_tensor(p, &p->inputs[i])) % 64, 0);
    clean("m.pt2");
}

static cfx_value fake(int64_t n) {
    return cfx_tensor_value(cfx_tensor_fake(CFX_F32, 1, &n, NULL));
}

/* (a, b, c) -> chunks of a + b, a list of two, of which the second is taken twice; a and b are one
 * tensor, c a constant. */
static cfx_program *make_program(void) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *a = cfx_graph_placeholder(g, "p_a", NULL, false, cfx_none());
    cfx_node *b = cfx_graph_placeholder(g, "p_b", NULL, false, cfx_none());
    cfx_node *c = cfx_graph_placeholder(g, "c", NULL, false, cfx_none());
    cfx_node *sum = cfx_graph_call_function(g, "torch.ops.aten.add.Tensor", cfx_tuple(a, b),
                                            cfx_none());
    cfx_node_set_meta(sum, "val", fake(4));
    cfx_node_set_meta(sum, "source", cfx_string_value("net.c:7"));
    cfx_node *split = cfx_graph_call_function(g, "torch.ops.aten.split.Tensor", cfx_tuple(sum, 2),
                                              cfx_none());
    cfx_node_set_meta(split, "val", cfx_tuple(fake(2), fake(2)));
    cfx_node *one = cfx_graph_call_function(g, "operator.getitem", cfx_tuple(split, 1), cfx_none());
    cfx_node *two = cfx_graph_call_function(g, "operator.getitem", cfx_tuple(split, 1), cfx_none());
    cfx_node *mul = cfx_graph_call_function(g, "torch.ops.aten.mul.Tensor", cfx_tuple(one, two),
                                            cfx_none());
    cfx_node_set_meta(mul, "val", fake(2));
    cfx_graph_output(g, cfx_tuple(mul, 7));
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, NULL));
    cfx_tensor *w = cfx_tensor_new(CFX_F32, 1, (int64_t[]){4}, (float[]){1, 2, 3, 4});
    cfx_dict_set(p->state, "a", cfx_tensor_value(w));
    cfx_dict_set(p->state, "b", cfx_tensor_value(w));
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_PARAMETER, .name = "p_a",
                                              .target = "a"});
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_PARAMETER, .name = "p_b",
                                              .target = "b"});
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = "c", .constant = true,
                                              .value = cfx_string_value("mean")});
    cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .name = "mul"});
    cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .value = cfx_int(7)});
    (void)c;
    return p;
}

TEST(programs_made_here_are_written) {
    CHECK(cfx_save(make_program(), test_path("made.pt2")));
    CHECK_OK();
    cfx_program *p = cfx_open(test_path("made.pt2"));
    if (!CHECK_OK() || !CHECK(!cfx_failed(p)))
        return;
    CHECK_STR(cfx_graph_code(p->module->graph),
              "\n\n\ndef forward(self, p_a, p_b, c):\n"
              "    add_tensor = torch.ops.aten.add.Tensor(p_a, p_b);  p_a = p_b = None\n"
              "    split_tensor = torch.ops.aten.split.Tensor(add_tensor, 2);  add_tensor = None\n"
              "    getitem = split_tensor[1];  split_tensor = None\n"
              "    mul_tensor = torch.ops.aten.mul.Tensor(getitem, getitem);  getitem = None\n"
              "    return (mul_tensor, 7)\n    ");
    const cfx_tensor *a = cfx_program_tensor(p, &p->inputs[0]);
    const cfx_tensor *b = cfx_program_tensor(p, &p->inputs[1]);
    CHECK(a && b && cfx_tensor_shares(a, b));
    CHECK(p->inputs[2].constant);
    CHECK_STR(cfx_text(p->inputs[2].value), "mean");
    CHECK_INT(cfx_integer(p->outputs[1].value), 7);
    CHECK_STR(cfx_repr(p->in_spec), "((Ellipsis,), {})");
    CHECK_STR(cfx_text(cfx_node_get_meta(cfx_graph_find(p->module->graph, "add_tensor"), "source")),
              "net.c:7");
    clean("made.pt2");
}

/* A linear layer whose weights lie in 8 bits, with a scale for each row. */
static cfx_tensor *forward_scaled(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *w = cfx_to(cfx_attr(self, "weight"), cfx_bf16);
    return cfx_linear(cfx_to(x, cfx_bf16), cfx_mul(w, cfx_attr(self, "scale")));
}

static cfx_module *scaled(cfx_value dtype) {
    cfx_module *m = cfx_module_new("Scaled", forward_scaled, "x");
    cfx_tensor *w = cfx_div(cfx_reshape(cfx_arange(12.0), cfx_list(3, 4)), 7);
    cfx_tensor *s = cfx_tensor_from_value(cfx_list(cfx_list(0.5), cfx_list(0.25), cfx_list(2.0)));
    cfx_nn_buffer(m, "weight", cfx_to(w, dtype), true);
    cfx_nn_buffer(m, "scale", cfx_to(s, cfx_bf16), true);
    return m;
}

TEST(weights_of_8_bits_run_from_files) {
    cfx_tensor *x = cfx_div(cfx_reshape(cfx_arange(8.0), cfx_list(2, 4)), 5);
    cfx_program *made = cfx_export(scaled(cfx_f8e4m3fn), cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK(cfx_save(made, test_path("made.pt2")) && cfx_save(made, test_path("made.fx")));
    const char *want = "tensor([[ 0.2021,  0.2715,  3.5625],\n"
                       "        [ 0.5469,  0.8984, 12.1250]], dtype=torch.bfloat16)";
    const char *const files[] = {"made.pt2", "made.fx"};
    for (int i = 0; i < COUNT(files); i++) {
        cfx_program *p = cfx_open(test_path(files[i]));
        CHECK_STR(cfx_str(cfx_program_run(p, x)), want);
        const char *code = cfx_module_readable(p->module, (cfx_readable_options){0});
        CHECK(strstr(code, "b_weight: \"f8e4m3fn[3, 4]\"") != NULL);
    }
    test_unlink("made.fx");
    test_unlink("made.safetensors");
    clean("made.pt2");
}

/* A list of tensors among the results, which nothing reads. */
TEST(lists_that_nothing_reads_are_written) {
    cfx_program *p = cfx_program_parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x: \"f32[3, 2]\"):\n"
        "        all_of = torch.ops.aten.histogramdd.int_bins(x, 1)\n"
        "        getitem = all_of[0]\n"
        "        return (getitem,)\n",
        "lists");
    CHECK(cfx_save(p, test_path("made.pt2")));
    cfx_program *again = cfx_open(test_path("made.pt2"));
    CHECK_OK();
    CHECK_STR(cfx_str(cfx_program_run(again, cfx_ones(cfx_list(3, 2)))), "(tensor([[3.]]),)");
    clean("made.pt2");
}

TEST(what_files_have_no_form_for_is_refused) {
    cfx_tensor *x = cfx_ones(cfx_list(2, 4));
    CHECK(!cfx_save(cfx_export(scaled(cfx_u32), cfx_tuple(x), CFX_NONE, CFX_NONE),
                    test_path("made.pt2")));
    CHECK_ERROR(".pt2 files have no number for the dtype uint32");
    CHECK(access(test_path("made.pt2"), F_OK) != 0);
    cfx_program *p = make_program();
    cfx_node *sum = cfx_graph_find(p->module->graph, "add_tensor");
    cfx_node_remove_meta(sum, "val");
    CHECK(!cfx_save(p, test_path("made.pt2")));
    CHECK_ERROR("node 'add_tensor' has no description of its result");
    cfx_node_set_meta(sum, "val", fake(4));
    CHECK(!cfx_save(p, test_path("missing/made.pt2")));
    CHECK_ERROR("missing/made.pt2");
    CHECK(!cfx_save(p, test_path("made.xyz")));
    CHECK_ERROR("a file of a program ends in .pt2, .onnx or .fx, not in .xyz");
    CHECK(access(test_path("made.xyz"), F_OK) != 0);
    CHECK(cfx_save(p, test_path("made")));
    clean("made");
    cfx_node_set_target(sum, cfx_graph_target(p->module->graph, "torch.add"));
    CHECK(!cfx_save(p, test_path("made.pt2")));
    CHECK_ERROR("Operator 'torch.add' is not an allowed operator type: (<class "
                "'torch._ops.OpOverload'>, <class 'torch._ops.HigherOrderOperator'>)\n");
    CHECK(!cfx_save_unchecked(p, test_path("made.pt2")));
    CHECK_ERROR("node 'add_tensor' calls torch.add");
    p = make_program();
    cfx_node *out = cfx_graph_output_node(p->module->graph);
    sum = cfx_graph_find(p->module->graph, "add_tensor");
    cfx_node_set_args(out, cfx_tuple(cfx_tuple(cfx_tuple(sum, sum))));
    CHECK(!cfx_save_unchecked(p, test_path("made.pt2")));
    CHECK_ERROR("gives a tuple among others; a file has no form for it");
    clean("made.pt2");
}

TEST(a_program_without_its_tensors_is_not_written) {
    cfx_program *p = make_program();
    const char *name = p->inputs[0].target;
    cfx_dict_remove(p->state, cfx_string_value(name));
    CHECK(!cfx_save(p, test_path("made.pt2")));
    CHECK_ERROR(cfx__text_format("Parameter %s is not in the state dict.", name));
    CHECK(!cfx_save(p, test_path("made.fx")));
    CHECK_ERROR("is not in the state dict.");
    CHECK(access(test_path("made.pt2"), F_OK) != 0 && access(test_path("made.fx"), F_OK) != 0);
}

TEST(a_call_with_several_results_is_not_written_as_one) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/hostile/one_of_two_results.pt2");
    CHECK_OK();
    CHECK(!cfx_save_unchecked(p, test_path("made.pt2")));
    CHECK_ERROR("node 'relu' uses 'linear' as one value, which its operator does not give");
    p = cfx_open(CFX_TEST_DATA "/hostile/three_of_two_results.pt2");
    CHECK_OK();
    CHECK(!cfx_save_unchecked(p, test_path("made.pt2")));
    CHECK_ERROR("node 'lstm' is described with 3 results; its operator gives 2");
    p = cfx_program_parse("class GraphModule(torch.nn.Module):\n"
                          "    def forward(self, x: \"f32[2, 3]\"):\n"
                          "        y: \"Sym(u0)\" = torch.ops.aten.max.dim(x, 0)\n"
                          "        z: \"f32[2, 3]\" = torch.ops.aten.relu.default(x)\n"
                          "        return (z,)\n", "made");
    CHECK_OK();
    CHECK(!cfx_save_unchecked(p, test_path("made.pt2")));
    CHECK_ERROR("node 'y' is described with 1 result; its operator gives 2");
    clean("made.pt2");
}
