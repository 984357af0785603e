/* Export: modules become programs that print as PyTorch's and compute as the module does. */
#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/layers.h>
#include <cfx/ops.h>
#include <cfx/rewrite.h>

#include "worlds.h"
#include "test.h"

#define HAS(text, part) CHECK(strstr(text, part) != NULL)

static cfx_tensor *mlp_forward(cfx_module *self, cfx_tensor *x) {
    x = cfx_relu(cfx_call(self, "fc1", x));
    return cfx_call(self, "fc2", x);
}

static cfx_module *mlp(void) {
    cfx_module *m = cfx_module_new("MLP", mlp_forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(16, 32));
    cfx_nn_add(m, "fc2", cfx_nn_linear(32, 16));
    return m;
}

static cfx_value annotated(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value was = cfx_annotate(cfx_dict_of("stage", 0));
    cfx_tensor *y = cfx_gelu(cfx_as_tensor(a.v[0]));
    CHECK(cfx_as_dict(cfx_annotate(was))->len == 1);
    return cfx_tensor_value(cfx_neg(y));
}

TEST(nodes_are_annotated) {
    cfx_module *m = cfx_module_new_n("Annotated", annotated, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(2)), CFX_NONE, CFX_NONE);
    cfx_graph *g = p->module->graph;
    CHECK_STR(cfx_repr(cfx_node_get_meta(cfx_graph_find(g, "gelu"), "custom")), "{'stage': 0}");
    CHECK(cfx_is_none(cfx_node_get_meta(cfx_graph_find(g, "neg"), "custom")));
}

TEST(export_prints_as_pytorch) {
    cfx_program *p = cfx_export(mlp(), cfx_tuple(cfx_randn(1, 16)), CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK_STR(cfx_graph_str(p->module->graph),
              "graph():\n"
              "    %p_fc1_weight : [num_users=1] = placeholder[target=p_fc1_weight]\n"
              "    %p_fc1_bias : [num_users=1] = placeholder[target=p_fc1_bias]\n"
              "    %p_fc2_weight : [num_users=1] = placeholder[target=p_fc2_weight]\n"
              "    %p_fc2_bias : [num_users=1] = placeholder[target=p_fc2_bias]\n"
              "    %x : [num_users=1] = placeholder[target=x]\n"
              "    %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default]"
              "(args = (%x, %p_fc1_weight, %p_fc1_bias), kwargs = {})\n"
              "    %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default]"
              "(args = (%linear,), kwargs = {})\n"
              "    %linear_1 : [num_users=1] = call_function[target=torch.ops.aten.linear.default]"
              "(args = (%relu, %p_fc2_weight, %p_fc2_bias), kwargs = {})\n"
              "    return (linear_1,)");
    HAS(cfx_program_signature_str(p), "p_fc1_weight: PARAMETER target='fc1.weight'");
    HAS(cfx_program_signature_str(p), "x: USER_INPUT");
    HAS(cfx_program_signature_str(p), "linear_1: USER_OUTPUT");
    cfx_node *n = cfx_graph_find(p->module->graph, "linear_1");
    CHECK_STR(cfx_value_str(cfx_node_get_meta(n, "nn_module_stack")),
              "{'L__self__': ('', 'MLP'), 'L__self__fc2': ('fc2', "
              "'torch.nn.modules.linear.Linear')}");
    HAS(cfx_text(cfx_node_get_meta(n, "stack_trace")), "export_test.c\", line ");
}

TEST(export_notes_what_learns) {
    cfx_module *m = cfx_nn_linear(2, 2);
    cfx_requires_grad(cfx_as_tensor(cfx_dict_get(m->parameters, "bias")), false);
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(1, 2)), CFX_NONE, CFX_NONE);
    CHECK(cfx_node_result(cfx_graph_find(p->module->graph, "p_weight")).requires_grad);
    CHECK(!cfx_node_result(cfx_graph_find(p->module->graph, "p_bias")).requires_grad);
    CHECK_OK();
}

TEST(export_computes_the_same) {
    cfx_manual_seed(3);
    cfx_module *m = mlp();
    cfx_tensor *x = cfx_randn(2, 16), *want = cfx_forward(m, x);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK_OK();
    cfx_tensor *got = cfx_as_tensor(cfx_program_run(p, x));
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    cfx_tensor *again = cfx_as_tensor(cfx_program_run(core, x));
    CHECK_OK();
    for (int i = 0; i < 32; i++) {
        CHECK_NEAR(cfx_tensor_get(got, i), cfx_tensor_get(want, i), 1e-6);
        CHECK_NEAR(cfx_tensor_get(again, i), cfx_tensor_get(want, i), 1e-5);
    }
    HAS(cfx_module_code(core->module), "addmm_1 = torch.ops.aten.addmm.default(p_fc2_bias, relu");
}

/* ---- what forward may do --------------------------------------------------------------------- */

static cfx_value count_forward(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_as_tensor(a.v[0]), *seen = cfx_attr(self, "seen");
    cfx_add_(seen, cfx_sum(x, cfx_list(0)));
    cfx_tensor *y = cfx_clone(x);
    cfx_mul_(y, 2);
    cfx_tensor *half = cfx_to(y, cfx_f64);
    return cfx_tuple(cfx_add(y, seen), cfx_list(half, cfx_size(x, 0)));
}

TEST(export_writes_and_trees) {
    cfx_module *m = cfx_module_new("Count", count_forward, "x");
    cfx_nn_buffer(m, "seen", cfx_zeros(4), true);
    cfx_tensor *x = cfx_ones(3, 4);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK_OK();
    const char *code = cfx_module_code(p->module);
    HAS(code, "add_ = torch.ops.aten.add_.Tensor(b_seen, sum_1)");
    HAS(code, "mul_ = torch.ops.aten.mul_.Tensor(clone, 2)");
    HAS(code, "_assert_tensor_metadata_default = torch.ops.aten._assert_tensor_metadata.default("
              "mul_, dtype = torch.float32, device = device(type='cpu'), layout = torch.strided)");
    HAS(code, "add = torch.ops.aten.add.Tensor(mul_, add_)");
    CHECK_NEAR(cfx_tensor_get(cfx_attr(m, "seen"), 0), 0, 0); /* nothing ran */
    cfx_value r = cfx_program_run(p, x);
    CHECK_OK();
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(r, 0), 0), 5, 1e-6);
    CHECK_INT(cfx_integer(cfx_at(cfx_at(r, 1), 1)), 3);
    CHECK_NEAR(cfx_tensor_get(cfx_attr(m, "seen"), 0), 3, 1e-6);
}

static cfx_value nested_forward(cfx_module *self, cfx_args a) {
    cfx_value batch = a.v[0];
    cfx_tensor *x = cfx_as_tensor(cfx_dict_get(cfx_as_dict(batch), "x"));
    cfx_tensor *y = cfx_tensor_at(cfx_dict_get(cfx_as_dict(batch), "pair"), 1);
    cfx_tensor *two = cfx_tensor_from_value(cfx_list(2.0, 3.0));
    (void)self;
    return cfx_tensor_value(cfx_add(cfx_mul(cfx_add(x, y), two), a.v[1]));
}

TEST(export_nested_inputs_and_constants) {
    cfx_module *m = cfx_module_new("Nested", nested_forward, "batch, bias");
    cfx_dict *batch = cfx_dict_new();
    cfx_dict_set(batch, "x", cfx_tensor_value(cfx_ones(2)));
    cfx_dict_set(batch, "pair", cfx_tuple(cfx_ones(1), cfx_ones(2)));
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_dict_value(batch), 5), CFX_NONE, CFX_NONE);
    CHECK_OK();
    HAS(cfx_module_code(p->module),
        "def forward(self, c_lifted_tensor_0, batch_x, batch_pair_0, batch_pair_1, bias):");
    HAS(cfx_module_code(p->module),
        "lift_fresh_copy = torch.ops.aten.lift_fresh_copy.default(c_lifted_tensor_0)");
    cfx_tensor *y = cfx_as_tensor(cfx_program_run(p, cfx_dict_value(batch), 5));
    CHECK_OK();
    CHECK_NEAR(cfx_tensor_get(y, 1), 11, 1e-6);
}

static void same_as_module(cfx_module *m, cfx_value args) {
    cfx_module_train(m, false);
    cfx_program *p = cfx_export(m, args, CFX_NONE, CFX_NONE);
    CHECK_OK();
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items, NULL};
    cfx_value got[] = {cfx_forward_value_from(CFX_HERE, m, a), cfx_program_run_from(CFX_HERE, p, a),
                       cfx_program_run_from(CFX_HERE, core, a)};
    CHECK_OK();
    for (int k = 0; k < 3; k++) {
        cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
        cfx_tree_flatten(got[k], leaves);
        got[k] = cfx_list_value(leaves->len, leaves->items);
    }
    for (int64_t i = 0; i < cfx_as_list(got[0])->len; i++)
        for (int k = 1; k < 3; k++)
            CHECK(cfx_integer(
                CFX_V(cfx_allclose(cfx_at(got[0], i), cfx_at(got[k], i), CFX_KW(atol, 1e-5)))));
}

TEST(export_layers) {
    cfx_manual_seed(5);
    same_as_module(cfx_nn_sequential(cfx_nn_conv2d(3, 8, 3, .padding = 1), cfx_nn_batch_norm2d(8),
                                     cfx_nn_relu(), cfx_nn_max_pool2d(2), cfx_nn_flatten(),
                                     cfx_nn_dropout(), cfx_nn_linear(128, 5)),
                   cfx_tuple(cfx_randn(2, 3, 8, 8)));
    same_as_module(cfx_nn_lstm(4, 6, .num_layers = 2, .bidirectional = true, .batch_first = true),
                   cfx_tuple(cfx_randn(2, 5, 4)));
    same_as_module(cfx_nn_gru(4, 6), cfx_tuple(cfx_randn(5, 2, 4)));
    same_as_module(cfx_nn_multihead_attention(8, 2),
                   cfx_tuple(cfx_randn(6, 2, 8), cfx_randn(6, 2, 8), cfx_randn(6, 2, 8)));
    same_as_module(cfx_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16),
                   cfx_tuple(cfx_randn(6, 2, 8)));
}

TEST(export_layers_print_as_pytorch) {
    cfx_module *m = cfx_nn_transformer_encoder_layer(32, 4, .batch_first = true);
    cfx_module_train(m, false);
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(2, 6, 32)), CFX_NONE, CFX_NONE);
    CHECK_OK();
    const char *code = cfx_module_code(p->module);
    HAS(code, "transpose = torch.ops.aten.transpose.int(src, 1, 0)\n");
    HAS(code, "permute = torch.ops.aten.permute.default(scaled_dot_product_attention, "
              "[2, 0, 1, 3]);  scaled_dot_product_attention = None\n"
              "    view_6 = torch.ops.aten.view.default(permute, [12, 32])");
    HAS(code, "layer_norm.default(add, [32], p_norm1_weight, p_norm1_bias, 1e-05, False)");
    m = cfx_nn_lstm(4, 6);
    p = cfx_export(m, cfx_tuple(cfx_randn(5, 2, 4)), CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK(cfx_graph_find(p->module->graph, "input") != NULL);
    HAS(cfx_module_code(p->module), "zeros = torch.ops.aten.zeros.default([1, 2, 6], dtype = "
                                    "torch.float32, device = device(type='cpu'), pin_memory = "
                                    "False)");
}

static cfx_tensor *normed_forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "LayerNorm", x);
}

TEST(export_inputs_have_small_letters) {
    cfx_module *m = cfx_module_new("Normed", normed_forward, "x");
    cfx_nn_add(m, "LayerNorm", cfx_nn_layer_norm(4));
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(2, 4)), CFX_NONE, CFX_NONE);
    CHECK_OK();
    HAS(cfx_program_signature_str(p), "p_layernorm_weight: PARAMETER target='LayerNorm.weight'");
}

/* ---- sizes that vary ------------------------------------------------------------------------- */

TEST(export_sizes_that_vary) {
    cfx_module *m = mlp();
    cfx_dict *dims = cfx_dict_new(), *dynamic = cfx_dict_new();
    cfx_dict_put(dims, cfx_int(0), cfx_tuple("batch", 2, 1024));
    cfx_dict_set(dynamic, "x", cfx_dict_value(dims));
    cfx_program *p =
        cfx_export(m, cfx_tuple(cfx_randn(4, 16)), CFX_NONE, cfx_dict_value(dynamic));
    CHECK_OK();
    HAS(cfx_module_readable(p->module, (cfx_readable_options){0}), "x: \"f32[s77, 16]\"");
    HAS(cfx_module_readable(p->module, (cfx_readable_options){0}), "linear_1: \"f32[s77, 16]\"");
    HAS(cfx_program_str(p), "Range constraints: {s77: VR[2, 1024]}");
    cfx_tensor *y = cfx_as_tensor(cfx_program_run(p, cfx_randn(7, 16)));
    CHECK_OK();
    CHECK_INT(cfx_dim(y, 0), 7);
}

static cfx_tensor *flipped_part(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_flip(cfx_slice(x, 1, CFX_NONE, CFX_NONE, 5), cfx_list(0));
}

/* Of a single row the strides are those of the slice, of several they are not: what leads nowhere
 * does not count. */
TEST(export_strides_of_dimensions_of_one_element) {
    cfx_module *m = cfx_module_new("Flipped", flipped_part, "x");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(1, 3, 1)), CFX_NONE,
                                cfx_list(cfx_list(CFX_NONE, "Dim.AUTO", CFX_NONE)));
    CHECK_OK();
    cfx_value noted = cfx_node_get_meta(cfx_graph_find(p->module->graph, "flip"), "val");
    CHECK_STR(cfx_repr(cfx_dict_get(cfx_as_dict(noted), "stride")), "(((s27 + 4)//5), 1, 1)");
}

static cfx_tensor *written_diagonal(cfx_module *self, cfx_tensor *x) {
    (void)self;
    cfx_tensor *d = cfx_diagonal(x, 4, 0, 2);
    cfx_add_(d, d);
    return cfx_mul(x, 2);
}

/* A dimension without elements counts as one of one element, as in PyTorch: with strides of 0 the
 * diagonal would overlap itself and could not be written to. */
TEST(export_strides_of_tensors_without_elements) {
    cfx_module *m = cfx_module_new("Written", written_diagonal, "x");
    cfx_tensor *x = cfx_transpose(cfx_randn(3, 3, 5), 1, 2);
    cfx_value sizes = cfx_list("Dim.AUTO", "Dim.AUTO", "Dim.AUTO");
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, cfx_list(sizes));
    CHECK_OK();
    cfx_value noted = cfx_node_get_meta(cfx_graph_find(p->module->graph, "diagonal"), "val");
    CHECK_STR(cfx_repr(cfx_dict_get(cfx_as_dict(noted), "shape")), "(s27, 0)");
    CHECK_STR(cfx_repr(cfx_dict_get(cfx_as_dict(noted), "stride")), "(1, 1)");
}

TEST(export_numbers_of_symbols) {
    CHECK_INT(cfx__symbol_number("L['x'].size()[0]"), 77);
    CHECK_INT(cfx__symbol_number("L['ids'].size()[0]"), 23);
}

/* Symbols of arguments that are lists and dicts, as PyTorch 2.11 called them. */
TEST(export_numbers_of_symbols_of_leaves) {
    static const struct {
        const char *input, *symbol;
        int dim;
    } those[] = {{"x", "s77", 0},   {"a_0", "s10", 0}, {"a_1", "s12", 1},
                 {"d_a", "s98", 0}, {"z_0", "s9", 0},  {"z_1_0", "s68", 0}};
    for (int i = 0; i < COUNT(those); i++) {
        cfx_graph *g = cfx_graph_new();
        cfx_node *n = cfx_graph_placeholder(g, those[i].input, NULL, false, cfx_none());
        CHECK(cfx__symbol_is_of(those[i].symbol, n, those[i].dim));
        CHECK(!cfx__symbol_is_of("s3", n, those[i].dim));
    }
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static cfx_tensor *branch_forward(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_is_true(cfx_gt(cfx_sum(x), 0)) ? cfx_relu(x) : x;
}

TEST(export_mistakes) {
    cfx_module *m = cfx_module_new("Branch", branch_forward, "x");
    CHECK(cfx_failed(cfx_export(m, cfx_tuple(cfx_ones(2)), CFX_NONE, CFX_NONE)));
    CHECK_ERROR("Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  "
                "(Size-like symbols: none)\n\nThe number is data, which nobody has while a module "
                "is exported: choose by cfx_cond, or by cfx_where, which computes both");
    CHECK(cfx_failed(cfx_export(m, cfx_list(1), CFX_NONE, CFX_NONE)));
    CHECK_ERROR("cfx_export takes a tuple of arguments and a dict of keywords, not List[int] and "
                "dict");
    CHECK(cfx_failed(cfx_export(NULL, CFX_NONE, CFX_NONE, CFX_NONE)));
    CHECK_ERROR("the module is NULL");
}

/* ---- where nodes come from ------------------------------------------------------------------- */

static cfx_tensor *functions(cfx_module *self, cfx_tensor *x) {
    x = cfx_call(self, "act", cfx_call(self, "fc", x));
    x = cfx_call(self, "fc", cfx_py("operator.sub", 1, x));
    x = cfx_as_tensor(cfx_method(x, "reshape", -1));
    x = cfx_as_tensor(cfx_py("operator.getitem", x, 0));
    return cfx_as_tensor(cfx_op_do(&cfx_op_sin, cfx_relu(x)));
}

static const char *meta(const cfx_program *p, const char *node, const char *key) {
    return cfx_repr(cfx_node_get_meta(cfx_graph_find(p->module->graph, node), key));
}

TEST(exported_nodes_know_the_call_and_the_function) {
    cfx_module *m = cfx_module_new("Functions", functions, "x");
    cfx_nn_add(m, "fc", cfx_nn_linear(2, 2));
    cfx_nn_add(m, "act", cfx_nn_relu());
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(1, 2)), CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK_STR(meta(p, "linear", "nn_module_stack"),
              "{'L__self__': ('', 'Functions'), "
              "'L__self__fc': ('fc', 'torch.nn.modules.linear.Linear')}");
    CHECK_STR(meta(p, "linear_1", "nn_module_stack"),
              "{'L__self__': ('', 'Functions'), "
              "'L__self__fc@1': ('fc', 'torch.nn.modules.linear.Linear')}");
    CHECK_STR(meta(p, "linear", "torch_fn"),
              "('linear_1', 'builtin_function_or_method.linear')");
    CHECK_STR(meta(p, "linear_1", "torch_fn"),
              "('linear_2', 'builtin_function_or_method.linear')");
    CHECK_STR(meta(p, "relu", "torch_fn"), "('relu_1', 'function.relu')");
    CHECK_STR(meta(p, "rsub", "torch_fn"), "('__rsub___1', 'function.__rsub__')");
    CHECK_STR(meta(p, "reshape", "torch_fn"), "('reshape_1', 'method_descriptor.reshape')");
    CHECK_STR(meta(p, "select", "torch_fn"),
              "('__getitem___1', 'wrapper_descriptor.__getitem__')");
    CHECK_STR(meta(p, "relu_1", "torch_fn"), "('relu_1', 'builtin_function_or_method.relu')");
    CHECK_STR(meta(p, "sin", "torch_fn"), "('sin.default_1', 'OpOverload.sin.default')");
}

static cfx_tensor *by_two_names(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "b", cfx_call(self, "a.0", x));
}

TEST(a_module_with_two_names_is_called_by_the_one_that_was_used) {
    cfx_module *m = cfx_module_new("Two", by_two_names, "x"), *one = cfx_nn_linear(2, 2);
    cfx_nn_add(m, "a", cfx_nn_sequential(one));
    cfx_nn_add(m, "b", one);
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(1, 2)), CFX_NONE, CFX_NONE);
    CHECK_STR(meta(p, "linear", "nn_module_stack"),
              "{'L__self__': ('', 'Two'), "
              "'L__self__a.0': ('a.0', 'torch.nn.modules.linear.Linear')}");
    CHECK_STR(meta(p, "linear_1", "nn_module_stack"),
              "{'L__self__': ('', 'Two'), 'L__self__b': ('b', 'torch.nn.modules.linear.Linear')}");
}

/* ---- what forward assigns -------------------------------------------------------------------- */

static cfx_value swap_forward(cfx_module *self, cfx_args a) {
    cfx_tensor *old = cfx_attr(self, "a"), *other = cfx_attr(self, "b");
    cfx_tensor *last = cfx_slice(old, 0, 1, 2);
    cfx_module_set_attr(self, "a", cfx_tensor_value(other));
    cfx_module_set_attr(self, "b", cfx_tensor_value(cfx_add(old, a.v[0])));
    return cfx_tuple(old, last, cfx_mul(cfx_attr(self, "b"), 2));
}

static cfx_module *new_swap(void) {
    cfx_module *m = cfx_module_new("Swap", swap_forward, "x");
    cfx_nn_buffer(m, "a", cfx_tensor_from_value(cfx_list(1.0, 2.0)), true);
    cfx_nn_buffer(m, "b", cfx_tensor_from_value(cfx_list(3.0, 4.0)), true);
    return m;
}

TEST(what_forward_assigns_to_buffers_is_written_to_them) {
    for (int core = 0; core < 2; core++) {
        cfx_module *m = new_swap(), *exported = new_swap();
        cfx_program *p = cfx_export(exported, cfx_tuple(cfx_ones(2)), CFX_NONE, CFX_NONE);
        CHECK_STR(cfx_str(cfx_module_attr(exported, "a")), "tensor([1., 2.])"); /* as it was */
        p = core ? cfx_decompose(p, CFX_NONE) : p;
        for (int i = 0; i < 3 && CHECK_OK(); i++) {
            const char *want = cfx_str(cfx_forward_value(m, cfx_ones(2)));
            CHECK_STR(cfx_str(cfx_program_run(p, cfx_ones(2))), want);
        }
    }
}

static cfx_tensor *keep_forward(cfx_module *self, cfx_tensor *x) {
    cfx_module_set_attr(self, "inner.last", cfx_tensor_value(cfx_mul(x, 2)));
    return cfx_relu(x);
}

TEST(tensors_that_forward_assigns_to_attributes_are_not_lost) {
    cfx_module *m = cfx_module_new("Keep", keep_forward, "x");
    cfx_nn_add(m, "inner", cfx_module_new("Inner", NULL, ""));
    CHECK(cfx_failed(cfx_export(m, cfx_tuple(cfx_ones(2)), CFX_NONE, CFX_NONE)));
    CHECK_ERROR("The tensor attribute self.inner.last was assigned during export. Such attributes "
                "must be registered as buffers using the `register_buffer` API");
    CHECK(!cfx_module_has(m, "inner.last"));
    cfx_nn_parameter(cfx_module_find(m, "inner"), "last", cfx_ones(2));
    CHECK(cfx_failed(cfx_export(m, cfx_tuple(cfx_ones(2)), CFX_NONE, CFX_NONE)));
    CHECK_ERROR("The tensor attribute self.inner.last was assigned during export.");
    CHECK_STR(cfx_str(cfx_module_attr(m, "inner.last")), "tensor([1., 1.], requires_grad=True)");
}
