/* ONNX models as programs of ATen: what they compute stays the same, in memory and in a .pt2, and
 * no operator of ONNX is left. The models are those of tests/data/onnx, with ONNX Runtime's
 * results. */
#include "onnx_test.h"

#include <stdlib.h>
#include <unistd.h>

#include <cfx/pack.h>
#include <cfx/rewrite.h>

static const char *const models[] = {"control", "conv", "dynamic", "function", "qdq", "rnn",
                                     "sequence"};

/* The files input_0.pb, ... of a model as a list. */
static cfx_value samples(const char *model, const char *kind) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; cfx_ok(); i++) {
        const char *path = cfx__text_format("tests/data/onnx/%s/test_data_set_0/%s_%d.pb", model,
                                            kind, i);
        if (access(path, F_OK))
            break;
        cfx_list_append(cfx_as_list(list), cfx__onnx_sample(path, CFX__ONNX_IS_TENSOR));
    }
    return list;
}

static bool gives_expected(cfx_program *p, const char *model) {
    cfx_value in = samples(model, "input"), want = samples(model, "output");
    cfx_value got = cfx_program_run_from(
        (cfx_site){0}, p, (cfx_args){(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL});
    bool same = !cfx_is_bad(got), one = cfx_as_list(want)->len == 1;
    for (int64_t i = 0; same && i < cfx_as_list(want)->len; i++) {
        cfx_tensor *g = cfx_as_tensor(one ? got : cfx_at(got, i));
        cfx_tensor *w = cfx_as_tensor(cfx_at(want, i));
        same = g->dtype == w->dtype &&
               cfx_is_true(cfx_allclose(g, w, CFX_KW(rtol, 1e-3), CFX_KW(atol, 1e-5)));
    }
    return same && cfx_ok();
}

static bool has_foreign(const cfx_program *p) {
    return strstr(cfx_graph_str(p->module->graph), "torch.ops.onnx") != NULL;
}

TEST(onnx_models_compute_the_same_in_aten) {
    for (int i = 0; i < COUNT(models); i++) {
        cfx_program *p = cfx_open(cfx__text_format("tests/data/onnx/%s/model.onnx", models[i]));
        CHECK(has_foreign(p));
        CHECK(gives_expected(p, models[i]));
        cfx_program *aten = cfx_to_aten(p);
        CHECK(!has_foreign(aten));
        CHECK(gives_expected(aten, models[i]));
        CHECK_OK();
    }
}

TEST(onnx_models_are_saved_as_pt2) {
    for (int i = 0; i < COUNT(models); i++) {
        cfx_program *p = cfx_open(cfx__text_format("tests/data/onnx/%s/model.onnx", models[i]));
        CHECK(cfx_save(p, test_path("m.pt2")));
        CHECK(gives_expected(cfx_open(test_path("m.pt2")), models[i]));
        CHECK_OK();
        test_unlink("m.pt2");
    }
    test_folder_done();
}

TEST(onnx_models_are_saved_as_onnx) {
    for (int i = 0; i < COUNT(models); i++) {
        cfx_program *p = cfx_open(cfx__text_format("tests/data/onnx/%s/model.onnx", models[i]));
        CHECK(cfx_save(p, test_path("m.onnx")));
        CHECK(gives_expected(cfx_open(test_path("m.onnx")), models[i]));
        CHECK_OK();
        test_unlink("m.onnx");
    }
    test_folder_done();
}

/* How many elements are not zero, are picked or are unlike each other only data tells: the sizes
 * are symbols, from which all others follow, and the ATen program has them, too. */
TEST(onnx_sizes_that_data_decides_are_symbols) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "n,3");
    put_tensor(&g, "zero", cfx_zeros(1));
    put_node(&g, "NonZero", "x", "nz", NULL);
    put_node(&g, "Transpose", "nz", "at", "{'perm': [1, 0]}");
    put_node(&g, "GatherND", "x,at", "v", NULL);
    put_node(&g, "Greater", "v,zero", "m", NULL);
    put_node(&g, "Compress", "v,m", "c", NULL);
    put_node(&g, "Unique", "x", "u,first,inverse,counts", NULL);
    put_node(&g, "Unique", "x", "r,_f,back,_c", "{'axis': 0}");
    put_value(&g, 12, "v", CFX_F32, "a");
    put_value(&g, 12, "c", CFX_F32, "b");
    put_value(&g, 12, "u", CFX_F32, "k");
    put_value(&g, 12, "counts", CFX_I64, "k");
    put_value(&g, 12, "inverse", CFX_I64, "t");
    put_value(&g, 12, "r", CFX_F32, "l,3");
    put_value(&g, 12, "back", CFX_I64, "n");
    cfx_program *p = opened(&g, 17), *aten = cfx_to_aten(p);
    CHECK_OK();
    static const struct {
        const char *node, *result;
    } noted[] = {{"nz", "i64[2, u0]"},     {"v", "f32[u0]"},       {"c", "f32[u3]"},
                 {"u", "f32[u1]"},         {"counts", "i64[u1]"}, {"inverse", "i64[3*s0]"},
                 {"r", "f32[u2, 3]"},      {"back", "i64[s0]"}};
    for (int i = 0; i < COUNT(noted); i++) {
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, noted[i].node));
        CHECK_STR(cfx_result_text(&r), noted[i].result);
    }
    CHECK(!has_foreign(aten));
    CHECK(cfx_save(aten, test_path("m.pt2")));
    cfx_program *back = cfx_open(test_path("m.pt2"));
    for (int rows = 1; rows < 5 && cfx_ok(); rows++) {
        cfx_tensor *x = cfx_sub(cfx_remainder(cfx_arange(3.0 * rows), 4), 1);
        x = cfx_reshape(x, cfx_list(rows, 3));
        CHECK_STR(cfx_str(cfx_program_run(back, x)), cfx_str(cfx_program_run(p, x)));
    }
    CHECK_OK();
    test_unlink("m.pt2");
    test_folder_done();
}

/* A file names sizes that vary and does not say how far: a table bounds them from above, a window
 * from below. Places that are counted out are known where they are few, which decides nothing. */
TEST(onnx_sizes_are_bounded_in_aten) {
    cfx_program *p = cfx_program_parse(
        "def forward(self, x: \"f32[s0, 1, s1]\", t: \"f32[1, 1, 40]\", w: \"f32[1, 1, 3]\"):\n"
        "    n: \"Sym(s0)\" = torch.ops.aten.sym_size.int(x, 0)\n"
        "    size: \"Sym(s1)\" = torch.ops.aten.sym_size.int(x, 2)\n"
        "    part: \"f32[1, 1, s1]\" = torch.ops.aten.slice.Tensor(t, 2, 0, size)\n"
        "    both: \"f32[s0, 1, s1]\" = torch.ops.aten.add.Tensor(x, part)\n"
        "    count: \"i64[s1]\" = torch.ops.aten.arange.default(size)\n"
        "    places: \"i64[s0, 1, s1]\" = torch.ops.aten.expand.default(count, [n, 1, size])\n"
        "    found: \"f32[s0, 1, s1]\" = torch.ops.aten.gather.default(both, 2, places)\n"
        "    conv: \"f32[s0, 1, s1 - 2]\" = torch.ops.aten.conv1d.default(found, w)\n"
        "    return (conv,)\n"
        "Range constraints: {s0: VR[2, int_oo], s1: VR[3, 40]}\n",
        "m.fx");
    CHECK(cfx_save(p, test_path("m.onnx")));
    cfx_program *q = cfx_open(test_path("m.onnx")), *aten = cfx_to_aten(q);
    CHECK_OK();
    CHECK(!has_foreign(aten));
    cfx_result x = cfx_node_result(cfx_graph_find(aten->module->graph, "x"));
    CHECK_STR(cfx_value_str(cfx_dict_get(aten->ranges, cfx_value_str(cfx_result_size(&x, 2)))),
              "(3, 40)");
    CHECK_STR(cfx_value_str(cfx_dict_get(aten->ranges, cfx_value_str(cfx_result_size(&x, 0)))),
              "(0, None)");
    CHECK(cfx_save(aten, test_path("m.pt2")));
    for (int size = 3; size <= 40; size += 37) {
        cfx_tensor *in = cfx_randn(5, 1, size), *t = cfx_randn(1, 1, 40), *w = cfx_randn(1, 1, 3);
        cfx_tensor *want = cfx_tensor_at(cfx_program_run(p, in, t, w), 0);
        CHECK(cfx_is_true(cfx_allclose(cfx_program_run(aten, in, t, w), want)));
    }
    CHECK_OK();
    test_unlink("m.onnx");
    test_unlink("m.pt2");
    test_folder_done();
}

/* That a node fails at some sizes says nothing about the sizes at which others are looked at: a
 * size that is rounded up to 16 was taken for a sum, at sizes 64 apart. */
TEST(onnx_sizes_are_looked_at_closely) {
    cfx_program *p = cfx_program_parse(
        "def forward(self, x: \"f32[s0, s1]\", t: \"f32[1, 40]\"):\n"
        "    size: \"Sym(s1)\" = torch.ops.aten.sym_size.int(x, 1)\n"
        "    part: \"f32[1, s1]\" = torch.ops.aten.slice.Tensor(t, 1, 0, size)\n"
        "    both: \"f32[s0, s1]\" = torch.ops.aten.add.Tensor(x, part)\n"
        "    less: \"Sym(-s1)\" = -size\n"
        "    more: \"Sym(PythonMod(-s1, 16))\" = less % 16\n"
        "    all: \"Sym(s1 + PythonMod(-s1, 16))\" = size + more\n"
        "    count: \"i64[s1 + PythonMod(-s1, 16)]\" = torch.ops.aten.arange.default(all)\n"
        "    return (both, count)\n"
        "Range constraints: {s0: VR[2, int_oo], s1: VR[2, 40]}\n",
        "m.fx");
    CHECK(cfx_save(p, test_path("m.onnx")));
    cfx_program *aten = cfx_to_aten(cfx_open(test_path("m.onnx")));
    CHECK_OK();
    for (int size = 2; size <= 40; size += 19) {
        cfx_tensor *in = cfx_randn(3, size), *t = cfx_randn(1, 40);
        cfx_value want = cfx_at(cfx_program_run(p, in, t), 1);
        CHECK(cfx_is_true(cfx_equal(cfx_at(cfx_program_run(aten, in, t), 1), want)));
    }
    CHECK_OK();
    test_unlink("m.onnx");
    test_folder_done();
}

/* The weights of recurrent layers are put in another order once, not in each run. */
TEST(onnx_recurrent_layers_are_planned) {
    cfx_program *p = cfx_open("tests/data/onnx/rnn/model.onnx");
    cfx_value in = samples("rnn", "input");
    const char *plan = cfx_program_plan_from(
        (cfx_site){0}, p, (cfx_args){(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL});
    CHECK_OK();
    CHECK(strstr(plan, "aten.lstm.input") && !strstr(plan, "aten.split"));
}

/* The size that the second of two finds is not the one that it is given. */
TEST(onnx_sizes_that_data_decides_one_after_another) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "3,4");
    put_value(&g, 11, "rows", CFX_BOOL, "3");
    put_value(&g, 11, "columns", CFX_BOOL, "4");
    put_node(&g, "Compress", "x,rows", "some", "{'axis': 0}");
    put_node(&g, "Compress", "some,columns", "y", "{'axis': 1}");
    put_value(&g, 12, "y", CFX_F32, "a,b");
    cfx_program *p = opened(&g, 18);
    CHECK(cfx_save(cfx_to_aten(p), test_path("m.pt2")));
    cfx_program *aten = cfx_open(test_path("m.pt2"));
    cfx_tensor *x = cfx_reshape(cfx_arange(12.0), cfx_list(3, 4));
    cfx_tensor *rows = cfx_ne(cfx_arange(3), 1), *columns = cfx_gt(cfx_arange(4), 0);
    CHECK_STR(RUN(aten, x, rows, columns), "tensor([[ 1.,  2.,  3.],\n        [ 9., 10., 11.]])");
    CHECK_STR(RUN(aten, x, cfx_logical_not(rows), columns), "tensor([[5., 6., 7.]])");
    CHECK_OK();
    test_unlink("m.pt2");
    test_folder_done();
}
