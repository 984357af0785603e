/* .onnx files: what is in them becomes a program that is shown and runs. */
#include "onnx_test.h"

#include <stdlib.h>

static cfx_tensor *floats(int64_t n, const float *v) { return cfx_tensor_new(CFX_F32, 1, &n, v); }
static cfx_tensor *ints(int64_t n, const int64_t *v) { return cfx_tensor_new(CFX_I64, 1, &n, v); }

static cfx_tensor *count_up(int64_t rows, int64_t columns) {
    return cfx_reshape(cfx_arange(rows * columns, CFX_KW(dtype, cfx_f32)),
                       cfx_list(rows, columns));
}

TEST(onnx_graph_has_the_names_of_the_file) {
    made g = {0};
    put_value(&g, 11, "input", CFX_F32, "2,3");
    put_value(&g, 11, "x.1", CFX_F32, "3");
    put_tensor(&g, "fc.bias", floats(3, (float[]){1, 2, 3}));
    put_node(&g, "Add", "input,x.1", "/add/out", NULL);
    put_node(&g, "Sub", "/add/out,fc.bias", "y", NULL);
    put_node(&g, "Split", "y", "a,b", "{'axis': 1, 'num_outputs': 2}");
    put_value(&g, 12, "a", CFX_F32, "2,2");
    put_value(&g, 12, "b", CFX_F32, "2,1");
    cfx_program *p = opened(&g, 18);
    CHECK_STR(cfx_graph_str(p->module->graph),
              "graph():\n"
              "    %p_fc_bias : [num_users=1] = placeholder[target=p_fc_bias]\n"
              "    %input : [num_users=1] = placeholder[target=input]\n"
              "    %x_1 : [num_users=1] = placeholder[target=x_1]\n"
              "    %add_out : [num_users=1] = call_function[target=torch.ops.onnx.Add.default]"
              "(args = (%input, %x_1), kwargs = {})\n"
              "    %y : [num_users=1] = call_function[target=torch.ops.onnx.Sub.default]"
              "(args = (%add_out, %p_fc_bias), kwargs = {})\n"
              "    %Split : [num_users=2] = call_function[target=torch.ops.onnx.Split.default]"
              "(args = (%y,), kwargs = {axis: 1, num_outputs: 2})\n"
              "    %a : [num_users=1] = call_function[target=operator.getitem]"
              "(args = (%Split, 0), kwargs = {})\n"
              "    %b : [num_users=1] = call_function[target=operator.getitem]"
              "(args = (%Split, 1), kwargs = {})\n"
              "    return (a, b)");
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, "b"));
    CHECK_STR(cfx_result_text(&r), "f32[2, 1]");
    CHECK_STR(RUN(p, count_up(2, 3), floats(3, (float[]){10, 20, 30})),
              "(tensor([[ 9., 19.],\n        [12., 22.]]), tensor([[29.],\n        [32.]]))");
    CHECK_OK();
}

/* A shape that is computed: the batch is kept, the rest is one dimension. */
static void put_flatten(made *g) {
    put_tensor(g, "zero", cfx_tensor_new(CFX_I64, 0, NULL, (int64_t[]){0}));
    put_tensor(g, "minus", ints(1, (int64_t[]){-1}));
    put_tensor(g, "axis", ints(1, (int64_t[]){0}));
    put_node(g, "Shape", "x", "s", NULL);
    put_node(g, "Gather", "s,zero", "n", NULL);
    put_node(g, "Unsqueeze", "n,axis", "n1", NULL);
    put_node(g, "Concat", "n1,minus", "to", "{'axis': 0}");
    put_node(g, "Reshape", "x,to", "y", NULL);
}

TEST(onnx_shapes_that_are_computed_are_known) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "batch,2,3");
    put_flatten(&g);
    put_value(&g, 12, "y", CFX_F32, "batch,6");
    cfx_program *p = opened(&g, 17);
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, "y"));
    CHECK_STR(cfx_result_text(&r), "f32[s0, 6]");
    cfx_tensor *x = cfx_reshape(count_up(2, 6), cfx_list(2, 2, 3));
    CHECK_STR(RUN(p, x), "tensor([[ 0.,  1.,  2.,  3.,  4.,  5.],\n"
                         "        [ 6.,  7.,  8.,  9., 10., 11.]])");
    CHECK_OK();
}

TEST(onnx_shapes_that_are_data_run) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "2,3");
    put_value(&g, 11, "to", CFX_I64, "2");
    put_node(&g, "Reshape", "x,to", "y", NULL);
    put_node(&g, "Neg", "y", "z", NULL);
    put_value(&g, 12, "z", CFX_F32, "a,b");
    cfx_program *p = opened(&g, 17);
    CHECK_INT(cfx_node_result(cfx_graph_find(p->module->graph, "z")).kind, CFX_RESULT_UNKNOWN);
    CHECK_STR(RUN(p, count_up(2, 3), ints(2, (int64_t[]){3, -1})),
              "tensor([[-0., -1.],\n        [-2., -3.],\n        [-4., -5.]])");
    CHECK_OK();
}

/* Tools that change models put nodes behind those that use them. */
TEST(onnx_nodes_may_stand_in_any_order) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "2");
    put_node(&g, "Relu", "c", "y", NULL);
    put_node(&g, "Neg", "b", "c", NULL);
    put_node(&g, "Abs", "x", "b", NULL);
    put_value(&g, 12, "y", CFX_F32, "2");
    cfx_program *p = opened(&g, 18);
    CHECK_OK();
    CHECK_STR(RUN(p, cfx_full(cfx_list(2), -1.0)), "tensor([0., 0.])");
    g = (made){0};
    put_value(&g, 11, "x", CFX_F32, "2");
    put_node(&g, "Add", "x,c", "b", NULL);
    put_node(&g, "Neg", "b", "c", NULL);
    put_value(&g, 12, "c", CFX_F32, "2");
    opened(&g, 18);
    CHECK_ERROR("a node Neg: it computes its own input 'b': nodes form a cycle");
}

TEST(onnx_versions_choose_the_form_of_an_operator) {
    struct {
        int64_t version;
        const char *target, *shape;
    } cases[] = {{11, "torch.ops.onnx.Softmax.v1", "f32[2, 3, 4]"},
                 {13, "torch.ops.onnx.Softmax.default", "f32[2, 3, 4]"}};
    for (int i = 0; i < COUNT(cases); i++) {
        made g = {0};
        put_value(&g, 11, "x", CFX_F32, "2,3,4");
        put_node(&g, "Softmax", "x", "y", NULL);
        put_value(&g, 12, "y", CFX_F32, "2,3,4");
        cfx_program *p = opened(&g, cases[i].version);
        cfx_node *n = cfx_graph_find(p->module->graph, "y");
        CHECK_STR(cfx_node_format(n) ? n->target.name : "", cases[i].target + 10);
        cfx_tensor *y = cfx_as_tensor(cfx_program_run(p, cfx_zeros(2, 3, 4)));
        CHECK_NEAR(cfx_number(cfx__tensor_get(y, 0)), i ? 1.0 / 4 : 1.0 / 12, 1e-6);
    }
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "2");
    put_node(&g, "Gelu", "x", "y", NULL);
    put_value(&g, 12, "y", CFX_F32, "2");
    opened(&g, 13);
    CHECK_ERROR("a node Gelu: version 13 of the operator set has no such operator with 1 results");
}

/* ---- control flow ---------------------------------------------------------------------------- */

TEST(onnx_if_runs_the_branch) {
    made g = {0}, yes = {0}, no = {0};
    put_node(&yes, "Add", "x,x", "t", NULL);
    put_value(&yes, 12, "t", CFX_F32, "2");
    put_node(&no, "Mul", "w,x", "f", NULL);
    put_value(&no, 12, "f", CFX_F32, "2");
    put_value(&g, 11, "c", CFX_BOOL, "");
    put_value(&g, 11, "x", CFX_F32, "2");
    put_tensor(&g, "w", floats(2, (float[]){5, 7}));
    cfx__text n = node_begin("If", "c", "y");
    put_graph_attr(&n, "then_branch", &yes);
    put_graph_attr(&n, "else_branch", &no);
    node_end(&g, 1, &n);
    put_value(&g, 12, "y", CFX_F32, "2");
    cfx_program *p = opened(&g, 16);
    cfx_tensor *x = floats(2, (float[]){1, 2});
    CHECK_STR(RUN(p, cfx_tensor_new(CFX_BOOL, 0, NULL, (bool[]){true}), x), "tensor([2., 4.])");
    CHECK_STR(RUN(p, cfx_tensor_new(CFX_BOOL, 0, NULL, (bool[]){false}), x), "tensor([ 5., 14.])");
    CHECK_OK();
}

TEST(onnx_nodes_whose_graphs_use_values_given_later) {
    made g = {0}, yes = {0}, no = {0};
    put_node(&yes, "Neg", "late", "t", NULL);
    put_value(&yes, 12, "t", CFX_F32, "2");
    put_value(&no, 12, "late", CFX_F32, "2");
    put_value(&g, 11, "c", CFX_BOOL, "");
    put_value(&g, 11, "x", CFX_F32, "2");
    cfx__text n = node_begin("If", "c", "y");
    put_graph_attr(&n, "then_branch", &yes);
    put_graph_attr(&n, "else_branch", &no);
    node_end(&g, 1, &n);
    put_node(&g, "Abs", "x", "late", NULL);
    put_value(&g, 12, "y", CFX_F32, "2");
    cfx_program *p = opened(&g, 18);
    CHECK_OK();
    cfx_tensor *x = floats(2, (float[]){-3, 1});
    CHECK_STR(RUN(p, cfx_tensor_new(CFX_BOOL, 0, NULL, (bool[]){true}), x), "tensor([-3., -1.])");
    CHECK_STR(RUN(p, cfx_tensor_new(CFX_BOOL, 0, NULL, (bool[]){false}), x), "tensor([3., 1.])");
}

/* sum = sum + i for i < 4, with the sums so far. */
TEST(onnx_loop_carries_and_collects) {
    made g = {0}, body = {0};
    put_value(&body, 11, "i", CFX_I64, "");
    put_value(&body, 11, "go", CFX_BOOL, "");
    put_value(&body, 11, "sum_in", CFX_I64, "");
    put_node(&body, "Identity", "go", "go_out", NULL);
    put_node(&body, "Add", "sum_in,i", "sum_out", NULL);
    put_node(&body, "Identity", "sum_out", "row", NULL);
    put_value(&body, 12, "go_out", CFX_BOOL, "");
    put_value(&body, 12, "sum_out", CFX_I64, "");
    put_value(&body, 12, "row", CFX_I64, "");
    put_value(&g, 11, "n", CFX_I64, "");
    put_value(&g, 11, "s", CFX_I64, "");
    cfx__text n = node_begin("Loop", "n,,s", "last,all");
    put_graph_attr(&n, "body", &body);
    node_end(&g, 1, &n);
    put_value(&g, 12, "last", CFX_I64, "");
    put_value(&g, 12, "all", CFX_I64, "k");
    cfx_program *p = opened(&g, 16);
    CHECK_STR(RUN(p, cfx_tensor_new(CFX_I64, 0, NULL, (int64_t[]){4}),
                  cfx_tensor_new(CFX_I64, 0, NULL, (int64_t[]){10})),
              "(tensor(16), tensor([10, 11, 13, 16]))");
    CHECK_STR(RUN(p, cfx_tensor_new(CFX_I64, 0, NULL, (int64_t[]){0}),
                  cfx_tensor_new(CFX_I64, 0, NULL, (int64_t[]){10})),
              "(tensor(10), tensor([], dtype=torch.int64))");
    CHECK_OK();
}

/* A file is looked at without running what never ends. */
TEST(onnx_loop_without_an_end_opens) {
    made g = {0}, body = {0};
    put_value(&body, 11, "i", CFX_I64, "");
    put_value(&body, 11, "go", CFX_BOOL, "");
    put_value(&body, 11, "in", CFX_F32, "2");
    put_node(&body, "Identity", "go", "go_out", NULL);
    put_node(&body, "Neg", "in", "out", NULL);
    put_value(&body, 12, "go_out", CFX_BOOL, "");
    put_value(&body, 12, "out", CFX_F32, "2");
    put_value(&g, 11, "x", CFX_F32, "2");
    cfx__text n = node_begin("Loop", ",,x", "y");
    put_graph_attr(&n, "body", &body);
    node_end(&g, 1, &n);
    put_value(&g, 12, "y", CFX_F32, "2");
    CHECK(opened(&g, 16) != NULL);
    CHECK_OK();
}

/* A sequence that an operator of the graph makes, one that is the same for all, and a value of the
 * graph around. */
TEST(onnx_sequence_map_takes_sequences_that_are_computed) {
    made g = {0}, body = {0};
    put_value(&body, 11, "e", CFX_F32, "2");
    put_value(&body, 11, "same", CFX_F32, "2");
    put_node(&body, "Add", "e,same", "t", NULL);
    put_node(&body, "Mul", "t,x2", "o", NULL);
    put_value(&body, 12, "o", CFX_F32, "2");
    put_value(&g, 11, "x", CFX_F32, "2,2");
    put_value(&g, 11, "x2", CFX_F32, "2");
    put_node(&g, "SplitToSequence", "x", "parts", "{'axis': 0, 'keepdims': 0}");
    cfx__text n = node_begin("SequenceMap", "parts,x2", "mapped");
    put_graph_attr(&n, "body", &body);
    node_end(&g, 1, &n);
    put_node(&g, "ConcatFromSequence", "mapped", "y", "{'axis': 0, 'new_axis': 1}");
    put_value(&g, 12, "y", CFX_F32, "2,2");
    cfx_program *p = opened(&g, 17);
    CHECK_STR(RUN(p, count_up(2, 2), floats(2, (float[]){10, 1})),
              "tensor([[100.,   2.],\n        [120.,   4.]])");
    CHECK_OK();
}

TEST(onnx_scan_goes_over_an_axis) {
    made g = {0}, body = {0};
    put_value(&body, 11, "sum_in", CFX_F32, "2");
    put_value(&body, 11, "x_in", CFX_F32, "2");
    put_node(&body, "Add", "sum_in,x_in", "sum_out", NULL);
    put_node(&body, "Identity", "sum_out", "row", NULL);
    put_value(&body, 12, "sum_out", CFX_F32, "2");
    put_value(&body, 12, "row", CFX_F32, "2");
    put_value(&g, 11, "s", CFX_F32, "2");
    put_value(&g, 11, "x", CFX_F32, "2,3");
    cfx__text n = node_begin("Scan", "s,x", "last,all");
    put_graph_attr(&n, "body", &body);
    put_attr(&n, 5, "num_scan_inputs", cfx_int(1));
    put_attr(&n, 5, "scan_input_axes", cfx_list(1));
    put_attr(&n, 5, "scan_output_directions", cfx_list(1));
    node_end(&g, 1, &n);
    put_value(&g, 12, "last", CFX_F32, "2");
    put_value(&g, 12, "all", CFX_F32, "3,2");
    cfx_program *p = opened(&g, 16);
    CHECK_STR(RUN(p, cfx_zeros(2), count_up(2, 3)),
              "(tensor([ 3., 12.]), tensor([[ 3., 12.],\n        [ 1.,  7.],\n"
              "        [ 0.,  3.]]))");
    CHECK_OK();
}

/* ---- functions ------------------------------------------------------------------------------- */

/* twice(x) = x * k, k being an attribute with a default of 2. */
static cfx__text function(void) {
    made f = {0};
    cfx__text all = {0}, set = {0}, n = node_begin("Constant", "", "k"), value = {0};
    cfx__wire_put_text(&f.fields, 1, "twice");
    put_names(&f.fields, 4, "x");
    put_names(&f.fields, 5, "y");
    cfx__wire_put_text(&f.fields, 10, "mine");
    put_attr(&f.fields, 11, "by", cfx_float(2));
    cfx__wire_put_text(&value, 1, "value_float");
    cfx__wire_put_text(&value, 21, "by");
    cfx__wire_put_int(&value, 20, CFX__ONNX_FLOAT);
    put_message(&n, 5, &value);
    node_end(&f, 7, &n);
    n = node_begin("Mul", "x,k", "y");
    node_end(&f, 7, &n);
    cfx__wire_put_text(&set, 1, "");
    cfx__wire_put_int(&set, 2, 16);
    put_message(&f.fields, 9, &set);
    put_message(&all, 25, &f.fields);
    return all;
}

static void put_call(made *g, const char *in, const char *out, double by) {
    cfx__text n = node_begin("twice", in, out);
    cfx__wire_put_text(&n, 7, "mine");
    if (by != 2)
        put_attr(&n, 5, "by", cfx_float(by));
    node_end(g, 1, &n);
}

TEST(onnx_functions_stand_in_the_place_of_calls) {
    made g = {0};
    cfx__text f = function();
    put_value(&g, 11, "x", CFX_F32, "2");
    put_call(&g, "x", "a", 2);
    put_call(&g, "a", "b", 5);
    put_value(&g, 12, "b", CFX_F32, "2");
    cfx_program *p = opened_with(&g, 16, &f);
    CHECK_STR(RUN(p, floats(2, (float[]){1, 2})), "tensor([10., 20.])");
    CHECK_OK();
}

/* ---- quantized, narrow and far away ---------------------------------------------------------- */

TEST(onnx_integers_of_four_bits) {
    made g = {0};
    cfx__text t = {0};
    cfx__wire_put_int(&t, 1, 3);
    cfx__wire_put_int(&t, 2, 22); /* int4 */
    cfx__wire_put_text(&t, 8, "w");
    cfx__wire_put_bytes(&t, 9, "\x7f\x08", 2); /* -1, 7, -8 */
    put_message(&g.fields, 5, &t);
    put_tensor(&g, "s", cfx_tensor_new(CFX_F32, 0, NULL, (float[]){0.5f}));
    put_value(&g, 11, "x", CFX_F32, "3");
    put_node(&g, "DequantizeLinear", "w,s", "d", NULL);
    put_node(&g, "Add", "x,d", "y", NULL);
    put_value(&g, 12, "y", CFX_F32, "3");
    cfx_program *p = opened(&g, 21);
    CHECK_STR(RUN(p, cfx_zeros(3)), "tensor([-0.5000,  3.5000, -4.0000])");
    CHECK_OK();
}

TEST(onnx_floats_of_four_bits) {
    made g = {0};
    cfx__text t = {0};
    cfx__wire_put_int(&t, 1, 4);
    cfx__wire_put_int(&t, 2, 23); /* float4e2m1 */
    cfx__wire_put_text(&t, 8, "w");
    cfx__wire_put_bytes(&t, 9, "\x71\xd8", 2); /* 0.5, 6, -0, -3 */
    put_message(&g.fields, 5, &t);
    put_tensor(&g, "s", cfx_tensor_new(CFX_F32, 0, NULL, (float[]){0.5f}));
    put_value(&g, 11, "x", CFX_F32, "4");
    put_node(&g, "DequantizeLinear", "w,s", "d", NULL);
    put_node(&g, "Add", "x,d", "y", NULL);
    put_value(&g, 12, "y", CFX_F32, "4");
    cfx_program *p = opened(&g, 23);
    CHECK_STR(RUN(p, cfx_ones(4)), "tensor([ 1.2500,  4.0000,  1.0000, -0.5000])");
    CHECK_OK();
}

static void put_pair(cfx__text *to, const char *key, const char *value) {
    cfx__text p = {0};
    cfx__wire_put_text(&p, 1, key);
    cfx__wire_put_text(&p, 2, value);
    put_message(to, 13, &p);
}

static cfx_program *with_data_in(const char *location, const char *offset) {
    made g = {0};
    cfx__text t = {0};
    cfx__wire_put_int(&t, 1, 2);
    cfx__wire_put_int(&t, 2, 1);
    cfx__wire_put_text(&t, 8, "w");
    put_pair(&t, "location", location);
    put_pair(&t, "offset", offset);
    cfx__wire_put_int(&t, 14, 1);
    put_message(&g.fields, 5, &t);
    put_value(&g, 11, "x", CFX_F32, "2");
    put_node(&g, "Add", "x,w", "y", NULL);
    put_value(&g, 12, "y", CFX_F32, "2");
    cfx__text m = model_of(&g, 17, NULL);
    write_bytes("m.onnx", m.data, m.len);
    cfx__text_release(&m);
    return cfx_open(test_path("m.onnx"));
}

TEST(onnx_data_in_a_file_beside) {
    float data[] = {9, 1.5f, 2.5f};
    write_bytes("w.bin", (char *)data, sizeof data);
    cfx_program *p = with_data_in("w.bin", "4");
    CHECK_STR(RUN(p, cfx_zeros(2)), "tensor([1.5000, 2.5000])");
    with_data_in("w.bin", "8");
    CHECK_ERROR("tensor 'w' needs 8 bytes at 8 of 'w.bin', which has 12");
    with_data_in("../w.bin", "0");
    CHECK_ERROR("which is not a file of the model's folder");
    with_data_in("/etc/passwd", "0");
    CHECK_ERROR("which is not a file of the model's folder");
    test_unlink("m.onnx");
    test_unlink("w.bin");
    test_folder_done();
}

/* A node with the modules that it is in, as PyTorch's exporter notes them; NULL: none are noted. */
static void put_placed(made *g, const char *op, const char *in, const char *out,
                       const char *module) {
    cfx__text n = node_begin(op, in, out);
    for (int i = 0; module && i < 2; i++) {
        cfx__text pair = {0};
        cfx__wire_put_text(&pair, 1, i ? "pkg.torch.onnx.class_hierarchy"
                                       : "pkg.torch.onnx.name_scopes");
        cfx__wire_put_text(&pair, 2, i ? "['Net', 'Part', 'op']"
                                       : cfx__text_format("['', '%s', 'x']", module));
        put_message(&n, 9, &pair);
    }
    node_end(g, 1, &n);
}

/* What a quantizer puts into a model has no metadata; it is in the modules of its neighbours. */
TEST(onnx_nodes_without_modules_belong_to_those_around) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "2");
    put_tensor(&g, "w", cfx_ones(cfx_list(2)));
    put_placed(&g, "Abs", "x", "before", NULL); /* beside an input: in no module */
    put_placed(&g, "Sqrt", "w", "of_weight", NULL);
    put_placed(&g, "Neg", "before", "a", "first");
    put_placed(&g, "Identity", "a", "within", NULL);
    put_placed(&g, "Relu", "within", "b", "first");
    put_placed(&g, "Floor", "b", "between", NULL);
    put_placed(&g, "Ceil", "between", "between_too", NULL);
    put_placed(&g, "Add", "between_too,of_weight", "c", "second");
    put_placed(&g, "Round", "c", "after", NULL);
    put_value(&g, 12, "after", CFX_F32, "2");
    cfx_program *p = opened(&g, 18);
    const struct {
        const char *name, *modules;
    } want[] = {{"before", "None"},
                {"of_weight", "{'self': ('', 'Net'), 'second': ('second', 'Part')}"},
                {"within", "{'self': ('', 'Net'), 'first': ('first', 'Part')}"},
                {"between", "{'self': ('', 'Net')}"},
                {"between_too", "{'self': ('', 'Net')}"},
                {"after", "{'self': ('', 'Net'), 'second': ('second', 'Part')}"}};
    for (int i = 0; i < COUNT(want) && cfx_ok(); i++) {
        cfx_node *n = cfx_graph_find(p->module->graph, want[i].name);
        CHECK_STR(cfx_value_repr(cfx_node_get_meta(n, "nn_module_stack")), want[i].modules);
    }
    CHECK_OK();
}

/* A weight that is dequantized before all else comes beside the layer that it is for. */
TEST(onnx_what_is_made_of_weights_is_made_where_it_is_needed) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "2");
    put_tensor(&g, "w", cfx_ones(cfx_list(2)));
    put_node(&g, "Constant", "", "k", "{'value_float': 2.0}");
    put_node(&g, "Mul", "w,k", "scaled", NULL);
    put_node(&g, "Neg", "scaled", "weight", NULL);
    put_node(&g, "Abs", "w", "unused", NULL);
    put_node(&g, "Relu", "x", "a", NULL);
    put_node(&g, "Add", "a,weight", "y", NULL);
    put_value(&g, 12, "y", CFX_F32, "2");
    cfx_program *p = opened(&g, 18);
    cfx__text order = {0};
    if (cfx_ok())
        cfx_each_node(p->module->graph, n)
            if (n->op == CFX_CALL_FUNCTION)
                cfx__text_printf(&order, "%s ", n->name);
    CHECK_STR(cfx__text_take(&order), "a scaled weight y unused ");
    CHECK_STR(RUN(p, cfx_ones(cfx_list(2))), "tensor([-1., -1.])");
    CHECK_OK();
}
