/* Programs written as .onnx: what the files hold, what is refused, and programs of several nodes
 * that are read back. Single operators are in rules_test.c. */
#include "onnx_test.h"

#include <unistd.h>

#include <cfx/emit.h>
#include <cfx/pack.h>
#include <cfx/rewrite.h>

#define HEAD "class GraphModule(torch.nn.Module):\n    def forward(self, "

/* A program from its code: inputs called p_... are parameters, those called b_... buffers; all of
 * ones. */
static cfx_program *program_of(const char *code) {
    cfx_module *gm = cfx_module_parse(code, "test");
    cfx_program *p = cfx_program_new(gm);
    cfx_each_node(gm->graph, n) {
        bool param = !strncmp(n->name, "p_", 2), buffer = !strncmp(n->name, "b_", 2);
        if (n->op == CFX_PLACEHOLDER) {
            const char *target = param || buffer ? n->name + 2 : NULL;
            cfx_input_kind kind = param    ? CFX_IN_PARAMETER
                                  : buffer ? CFX_IN_BUFFER
                                           : CFX_IN_USER;
            cfx_program_add_input(p, (cfx_input_spec){.kind = kind, .name = n->name,
                                                      .target = target, .persistent = true});
            cfx_result r = cfx_node_result(n);
            if (target)
                cfx_dict_set(p->state, target, cfx_tensor_value(cfx_ones(
                                                   cfx_ints_value(r.ndim, r.shape))));
        }
        if (n->op == CFX_OUTPUT)
            for (int64_t i = 0; i < cfx_len(cfx_at(n->args, 0)); i++)
                cfx_program_add_output(
                    p, (cfx_output_spec){.name = cfx_as_node(cfx_at(cfx_at(n->args, 0), i))->name});
    }
    return p;
}

#define LINEAR                                                                                     \
    HEAD "p_w: \"f32[3, 4]\", p_b: \"f32[3]\", x: \"f32[s0, 2, 4]\"):\n"                           \
         "        linear = torch.ops.aten.linear.default(x, p_w, p_b)\n"                           \
         "        n: \"Sym(s0)\" = torch.ops.aten.sym_size.int(x, 0)\n"                            \
         "        double: \"Sym(2*s0)\" = n * 2\n"                                                 \
         "        view = torch.ops.aten.view.default(linear, [double, 3])\n"                       \
         "        relu = torch.ops.aten.relu.default(view)\n"                                      \
         "        return (relu,)\n"

/* Names stay, sizes that vary are called as they were, numbers are shared. */
TEST(onnx_file_of_a_program) {
    CHECK(cfx_save(program_of(LINEAR), test_path("m.onnx")));
    cfx_program *p = cfx_open(test_path("m.onnx"));
    CHECK_STR(cfx_graph_str(p->module->graph),
              "graph():\n"
              "    %p_w : [num_users=1] = placeholder[target=p_w]\n"
              "    %p_b : [num_users=1] = placeholder[target=p_b]\n"
              "    %c_mul_2_const : [num_users=1] = placeholder[target=c_mul_2_const]\n"
              "    %c_view_const : [num_users=1] = placeholder[target=c_view_const]\n"
              "    %x : [num_users=2] = placeholder[target=x]\n"
              "    %sym_size_int_2 : [num_users=1] = call_function[target=torch.ops.onnx.Shape."
              "default](args = (%x,), kwargs = {start: 0, end: 1})\n"
              "    %linear_Transpose : [num_users=1] = call_function[target=torch.ops.onnx."
              "Transpose.default](args = (%p_w,), kwargs = {perm: [1, 0]})\n"
              "    %linear_MatMul : [num_users=1] = call_function[target=torch.ops.onnx.MatMul."
              "default](args = (%x, %linear_Transpose), kwargs = {})\n"
              "    %linear : [num_users=1] = call_function[target=torch.ops.onnx.Add.default](args "
              "= (%linear_MatMul, %p_b), kwargs = {})\n"
              "    %mul_2 : [num_users=1] = call_function[target=torch.ops.onnx.Mul.default](args "
              "= (%sym_size_int_2, %c_mul_2_const), kwargs = {})\n"
              "    %view_Concat : [num_users=1] = call_function[target=torch.ops.onnx.Concat."
              "default](args = ([%mul_2, %c_view_const],), kwargs = {axis: 0})\n"
              "    %view : [num_users=1] = call_function[target=torch.ops.onnx.Reshape.default]("
              "args = (%linear, %view_Concat), kwargs = {})\n"
              "    %relu : [num_users=1] = call_function[target=torch.ops.onnx.Relu.default](args "
              "= (%view,), kwargs = {})\n"
              "    return (relu,)");
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, "x"));
    CHECK_STR(cfx_value_str(cfx_result_size(&r, 0)), "s0");
    cfx_tensor *x = cfx_ones(cfx_list(2, 2, 4));
    CHECK_STR(cfx_str(cfx_program_run(p, x)),
              "tensor([[5., 5., 5.],\n        [5., 5., 5.],\n        [5., 5., 5.],\n"
              "        [5., 5., 5.]])");
    CHECK_OK();
    test_unlink("m.onnx");
    test_folder_done();
}

/* Tensors of more than a kilobyte go to a file beside where the model would be too large. */
/* The modules around a call and the lines that made it come back, for all that it becomes. */
TEST(onnx_files_keep_where_nodes_come_from) {
    cfx_program *p = program_of(LINEAR);
    cfx_node *n = cfx_graph_find(p->module->graph, "linear");
    cfx_value stack = cfx_dict_of("L__self__", cfx_tuple("", "my.Net"), "L__self___fc",
                                  cfx_tuple("fc", "torch.nn.modules.linear.Linear"));
    cfx_node_set_meta(n, "nn_module_stack", stack);
    cfx_node_set_meta(n, "stack_trace", cfx_string_value("File \"net.py\", line 3, in forward"));
    CHECK(cfx_save(p, test_path("m.onnx")));
    p = cfx_open(test_path("m.onnx"));
    CHECK_OK();
    int found = 0;
    cfx_each_node(p->module->graph, k) {
        cfx_value back = cfx_node_get_meta(k, "nn_module_stack");
        if (back.tag != CFX_TAG_DICT)
            continue;
        CHECK(!strncmp(k->name, "linear", 6));
        CHECK_STR(cfx_value_repr(back), "{'self': ('', 'my.Net'), 'fc': ('fc', "
                                        "'torch.nn.modules.linear.Linear')}");
        CHECK_STR(cfx_text(cfx_node_get_meta(k, "stack_trace")),
                  "File \"net.py\", line 3, in forward");
        found++;
    }
    CHECK_INT(found, 3); /* Transpose, MatMul, Add */
    test_unlink("m.onnx");
}

TEST(onnx_tensors_in_a_file_beside) {
    cfx_program *p = program_of(HEAD "p_w: \"f32[32, 64]\", x: \"f32[2, 64]\"):\n"
                                     "        y = torch.ops.aten.linear.default(x, p_w)\n"
                                     "        return (y,)\n");
    CHECK(cfx__onnx_write(p, test_path("m.onnx"), 4096));
    CHECK_INT(access(test_path("m.onnx.data"), F_OK), 0);
    cfx_tensor *x = cfx_ones(cfx_list(2, 64));
    cfx_value y = cfx_program_run(cfx_open(test_path("m.onnx")), x);
    CHECK(cfx_is_true(cfx_all(cfx_eq(cfx_as_tensor(y), 64))));
    CHECK_OK();
    test_unlink("m.onnx.data");
    CHECK(cfx_failed(cfx_open(test_path("m.onnx"))));
    CHECK_ERROR("m.onnx.data");
    test_unlink("m.onnx");
    test_folder_done();
}

/* All nodes that have no form are told, and nothing is written. */
TEST(onnx_refuses_what_it_has_no_operators_for) {
    cfx_program *p = program_of(HEAD "x: \"f32[2, 3]\"):\n"
                                     "        a = torch.ops.aten.digamma.default(x)\n"
                                     "        b = torch.ops.aten.relu.default(a)\n"
                                     "        c = torch.ops.aten.rand_like.default(x)\n"
                                     "        d = torch.ops.aten.lgamma.default(b)\n"
                                     "        e = torch.ops.aten.add.Tensor(d, c)\n"
                                     "        return (e,)\n");
    CHECK(!cfx_save(p, test_path("m.onnx")));
    CHECK_STR(cfx_error_last()->message,
              "3 nodes have no form in ONNX:\n"
              "    digamma (aten.digamma.default): ONNX has no operator for it, and it is not made "
              "of others\n"
              "    rand_like (aten.rand_like.default): it draws random numbers, which differ from "
              "one runtime to another\n"
              "    lgamma (aten.lgamma.default): ONNX has no operator for it, and it is not made "
              "of others");
    cfx_error_clear();
    CHECK(access(test_path("m.onnx"), F_OK) != 0);
    p = program_of(HEAD "x: \"f32[2, 3]\"):\n"
                        "        b = torch.ops.aten.complex.default(x, x)\n"
                        "        return (b,)\n");
    CHECK(!cfx_save(p, test_path("m.onnx")));
    CHECK_ERROR("a node has no form in ONNX: output (output): complex_1 is a result of complex "
                "numbers");
    p = program_of(HEAD "x: \"f32[3, 2]\"):\n"
                        "        a = torch.ops.aten.complex.default(x, x)\n"
                        "        b = torch.ops.aten._fft_c2r.default(a, [1], 0, 4)\n"
                        "        return (b,)\n");
    CHECK(!cfx_save(p, test_path("m.onnx")));
    CHECK_ERROR("fewer numbers are given than half of the points");
    p = program_of(HEAD "x: \"f32[1, 1, 1, 3]\"):\n"
                        "        a = torch.ops.aten.max_pool2d_with_indices.default(x, [2, 2], "
                        "[1, 2], [1], [2, 1])\n"
                        "        b = a[1]\n"
                        "        return (b,)\n");
    CHECK(!cfx_save(p, test_path("m.onnx")));
    CHECK_ERROR("a window has nothing but padding in it");
    p = program_of(HEAD "x: \"f32[6]\"):\n"
                        "        a = torch.ops.aten.slice.Tensor(x, 0, 4, 6)\n"
                        "        b = torch.ops.aten.as_strided.default(a, [2], [1], 0)\n"
                        "        return (b,)\n");
    CHECK(!cfx_save(p, test_path("m.onnx")));
    CHECK_ERROR("it looks into memory beside the view that it is given");
    p = program_of(HEAD "x: \"f32[6]\"):\n"
                        "        s = torch.ops.aten.split.Tensor(x, 2)\n"
                        "        a = s[1]\n"
                        "        b = torch.ops.aten.as_strided.default(a, [2], [1], 0)\n"
                        "        return (b,)\n");
    CHECK(!cfx_save(p, test_path("m.onnx")));
    CHECK_ERROR("it looks into memory beside the view that it is given");
    test_folder_done();
}

/* What a program writes to its tensors is a result more, and the tensor an input with a value. */
TEST(onnx_state_goes_out_and_comes_in) {
    cfx_program *p = program_of(HEAD "b_count: \"f32[2]\", x: \"f32[2]\"):\n"
                                     "        a = torch.ops.aten.add_.Tensor(b_count, x)\n"
                                     "        y = torch.ops.aten.mul.Tensor(a, 3)\n"
                                     "        return (y,)\n");
    CHECK(cfx_save(p, test_path("m.onnx")));
    cfx_program *q = cfx_open(test_path("m.onnx"));
    cfx_tensor *x = cfx_full(cfx_list(2), 4.0);
    CHECK_STR(cfx_str(cfx_program_run(q, x)), "(tensor([15., 15.]), tensor([5., 5.]))");
    CHECK_OK();
    test_unlink("m.onnx");
    test_folder_done();
}

/* ---- programs of PyTorch --------------------------------------------------------------------- */

static cfx_value in_order(const char *path, const char *prefix) {
    cfx_dict *d = cfx_safetensors_read(path);
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; cfx_ok(); i++) {
        const char *name = cfx__text_format("%s%d", prefix, i);
        const cfx_value *v = cfx_dict_find(d, cfx_string_value(name));
        if (!v)
            break;
        cfx_list_append(cfx_as_list(list), *v);
    }
    return list;
}

/* Whether a program gives, as its first results, those of the files. */
static bool gives_expected(cfx_program *p, const char *folder, const char *tag) {
    cfx_value in = in_order(cfx__text_format("%s/inputs%s.safetensors", folder, tag), "in");
    cfx_value want = in_order(cfx__text_format("%s/outputs%s.safetensors", folder, tag), "out");
    cfx_value got = cfx_program_run_from(
        (cfx_site){0}, p, (cfx_args){(int)cfx_len(in), cfx_as_list(in)->items, NULL});
    bool same = cfx_ok() && cfx_len(want) > 0, one = got.tag == CFX_TAG_TENSOR;
    for (int64_t i = 0; same && i < cfx_len(want); i++) {
        cfx_tensor *g = cfx_as_tensor(one ? got : cfx_at(got, i)), *w = cfx_tensor_at(want, i);
        bool half = w->dtype == CFX_BF16;
        same = g->dtype == w->dtype &&
               cfx_is_true(cfx_allclose(g, w, CFX_KW(rtol, half ? 5e-2 : 1e-3),
                                        CFX_KW(atol, half ? 5e-2 : 1e-5)));
    }
    return same && cfx_ok();
}

TEST(onnx_programs_of_pytorch_come_back) {
    static const char *const names[] = {"bf16_linear", "cond", "dyn_conv", "index_zoo",
                                        "mutating_buffer", "pytree_io", "seed_mlp", "while_loop"};
    for (int i = 0; i < COUNT(names); i++) {
        size_t mark = cfx_scope_open();
        const char *folder = cfx__text_format(CFX_TEST_DATA "/zoo/%s", names[i]);
        cfx_program *p = cfx_open(cfx__text_format("%s/model.pt2", folder));
        bool fine = cfx_save(p, test_path("m.onnx")) &&
                    gives_expected(cfx_open(test_path("m.onnx")), folder, "");
        bool other = !access(cfx__text_format("%s/inputs2.safetensors", folder), F_OK);
        if (!fine || (other && !gives_expected(cfx_open(test_path("m.onnx")), folder, "2")))
            test_fail(CFX_HERE, "%s: %s", names[i],
                      cfx_ok() ? "other numbers" : cfx_error_last()->message);
        cfx_error_clear();
        cfx_scope_close(mark);
    }
    test_unlink("m.onnx");
    test_folder_done();
}

#define PADDED                                                                                     \
    HEAD "x: \"f32[2, s0]\"):\n"                                                                   \
         "        n: \"Sym(s0)\" = torch.ops.aten.sym_size.int(x, 1)\n"                            \
         "        rest: \"Sym(s0 % 4)\" = n % 4\n"                                                \
         "        left: \"Sym(4 - (s0 % 4))\" = 4 - rest\n"                                       \
         "        more: \"Sym((4 - (s0 % 4)) % 4)\" = left % 4\n"                                 \
         "        pad = torch.ops.aten.constant_pad_nd.default(x, [0, more])\n"                    \
         "        return (pad,)\n"

/* Margins that are none at every fourth size: one program all the same. */
TEST(onnx_pads_by_sizes_are_taken_apart) {
    CHECK(cfx_save(program_of(PADDED), test_path("m.onnx")));
    cfx_program *p = cfx_decompose(cfx_open(test_path("m.onnx")), CFX_NONE);
    CHECK_OK();
    for (int64_t n = 2; n < 10; n++) {
        cfx_value out = cfx_program_run(p, cfx_ones(2, n));
        CHECK_INT(cfx_dim(cfx_as_tensor(out), 1), (n + 3) / 4 * 4);
    }
    test_unlink("m.onnx");
}
