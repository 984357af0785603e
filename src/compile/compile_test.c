/* Programs as C: the text of expressions, names and comments, what is refused, and that nothing of
 * a program gets into the source as it is. tools/test_compile builds and runs what is written. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cfx.h>
#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/pack.h>

#include "../../tests/files.h"
#include "compile.h"

/* ---- names ----------------------------------------------------------------------------------- */

TEST(c_names_are_identifiers_that_c_does_not_have) {
    CHECK_STR(cfx__c_identifier("layer1.0.conv1"), "layer1_0_conv1");
    CHECK_STR(cfx__c_identifier("for"), "for_");
    CHECK_STR(cfx__c_identifier("expf"), "expf_");
    CHECK_STR(cfx__c_identifier("virtual"), "virtual_");
    CHECK_STR(cfx__c_identifier("uintptr_t"), "uintptr_t_");
    CHECK_STR(cfx__c_identifier("1x"), "n1x");
    CHECK_STR(cfx__c_identifier("v3_a"), "v3_a_");
    CHECK_STR(cfx__c_identifier("MODEL_RUN"), "MODEL_RUN_");
    CHECK_STR(cfx__c_identifier("__init"), "n_init");
    CHECK_STR(cfx__c_identifier("a;b\n#include \"x\""), "a_b_include_x");
    CHECK_STR(cfx__c_identifier("\xc3\xa4"), "n_");
    cfx__map taken = {0};
    CHECK_STR(cfx__c_unique(&taken, "s", "a.b"), "a_b");
    CHECK_STR(cfx__c_unique(&taken, "s", "a_b"), "a_b_v2");
    CHECK_STR(cfx__c_unique(&taken, "t", "a_b"), "a_b");
    cfx__map_release(&taken);
}

TEST(c_comments_end_where_they_end) {
    CHECK_STR(cfx__c_comment("a */ int x; /* b"), "a * / int x; / * b");
    CHECK_STR(cfx__c_comment("*\\\n/"), "*../");
    CHECK_STR(cfx__c_comment("what?"
                             "?/\nint y;"),
              "what? ?/.int y;");
    CHECK_STR(cfx__c_comment("*\r/ \x1b[0m"), "*./ .[0m");
}

TEST(c_numbers_are_read_again_as_they_are) {
    CHECK_STR(cfx__c_number(CFX_F32, 1, 0), "1.0f");
    CHECK_STR(cfx__c_number(CFX_F32, (double)0.1f, 0), "0.1f");
    CHECK_STR(cfx__c_number(CFX_F64, -0.1, 0), "(-0.1)");
    CHECK_STR(cfx__c_number(CFX_F32, 210, 0), "210.0f");
    CHECK_STR(cfx__c_number(CFX_F64, 1e12, 0), "1e+12");
    CHECK_STR(cfx__c_number(CFX_F32, -INFINITY, 0), "(-INFINITY)");
    CHECK_STR(cfx__c_number(CFX_I64, 0, -3), "(-3)");
    CHECK_STR(cfx__c_number(CFX_I64, 0, INT64_MIN), "INT64_MIN");
    CHECK_STR(cfx__c_number(CFX_I64, 0, (int64_t)1 << 40), "INT64_C(1099511627776)");
}

/* ---- expressions ----------------------------------------------------------------------------- */

static const char *written(const char *expr, cfx_dtype d, double p0) {
    cfx__c c = {.name = "m"};
    const cfx__c_term in[] = {{"a", d}, {"b", d}, {"d", d}};
    const double f[CFX__LOOP_NUMBERS] = {p0};
    const int64_t i[CFX__LOOP_NUMBERS] = {(int64_t)p0};
    const char *text = cfx__c_expr(&c, "v", expr, 3, in, f, i, d);
    const char *all = cfx__text_format("%s%s", c.out.data ? c.out.data : "", text ? text : "none");
    cfx__text_release(&c.out);
    return all;
}

TEST(c_expressions_say_their_types) {
    CHECK_STR(written("x * y + 1", CFX_F32, 0), "a * b + 1.0f");
    CHECK_STR(written("x - (y - z)", CFX_F64, 0), "a - (b - d)");
    CHECK_STR(written("vsigmoid(x)", CFX_F32, 0), "1.0f / (1.0f + m_exp(-a))");
    CHECK_STR(written("sqrt(x) * p0", CFX_F64, 0.5), "sqrt(a) * 0.5");
    CHECK_STR(written("x > 0 || x != x ? x : 0", CFX_F32, 0), "a > 0.0f || a != a ? a : 0.0f");
    CHECK_STR(written("x * p0 + y / p0", CFX_F32, 1), "a + b");
    CHECK_STR(written("WRAP(x, +, WRAP(1, *, 0))", CFX_I64, 0), "a");
    CHECK_STR(written("WRAP(x, *, y)", CFX_I64, 0), "(int64_t)((uint64_t)a * (uint64_t)b)");
    CHECK_STR(written("x != x || x < y ? x : y", CFX_I64, 0), "a < b ? a : b");
    CHECK_STR(written("WRAP(x, *, p0)", CFX_I64, -1), "(int64_t)((uint64_t)a * (uint64_t)(-1))");
    CHECK_STR(written("HOLD(x + 3, 0, 6)", CFX_F32, 0),
              "const float v_a = a + 3.0f;\nv_a < 0.0f ? 0.0f : v_a > 6.0f ? 6.0f : v_a");
    CHECK_STR(written("({ const T q = x * x; q + (T)0.5 * q; })", CFX_F32, 0),
              "const float v_a = a * a;\nv_a + 0.5f * v_a");
    CHECK_STR(
        written("BOUNDED(rint(x * p0) + y, 0, 6)", CFX_F32, 2),
        "const float v_a = rintf(a * 2.0f) + b;\nv_a < 0.0f ? 0.0f : v_a > 6.0f ? 6.0f : v_a");
    CHECK_STR(written("CMUL(x, y) + p0 * x", CFX_C64, 2), "m_cmulf(a, b) + 2.0f * a");
    CHECK_STR(written("1 / (1 + cexp(-x))", CFX_C128, 0), "1.0 / (1.0 + cexp(-a))");
    CHECK_STR(written("~x * 0.5", CFX_C64, 0), "(float _Complex)((double _Complex)conjf(a) * 0.5)");
    CHECK_STR(written("UNIT(x)", CFX_C64, 0), "a == 0.0f ? 0.0f : a / cabsf(a)");
    CHECK_STR(written("x % y", CFX_F32, 0), "none");
    CHECK(cfx__c_expr_known("x % y", false));
    CHECK(!cfx__c_expr_known("mystery(x)", false));
    CHECK(!cfx__c_expr_known("x +", false));
    CHECK(!cfx__c_expr_known("x; system(y)", false));
}

/* ---- programs -------------------------------------------------------------------------------- */

#define HEAD "class GraphModule(torch.nn.Module):\n    def forward(self, "

/* A program of code whose inputs are the caller's. */
static cfx_program *program_of(const char *code) { return cfx_program_parse(code, "test"); }

#define CHECK_HAS(text, part) CHECK((text) && strstr(text, part) != NULL)

TEST(c_source_of_a_pointwise_program_is_one_loop) {
    const char *text =
        cfx_compile_text(program_of(HEAD "x: \"f32[4, 8]\", y: \"f32[8]\"):\n"
                                         "        add = torch.ops.aten.add.Tensor(x, y)\n"
                                         "        relu = torch.ops.aten.relu.default(add)\n"
                                         "        return (relu,)\n"),
                         &(cfx_compile_options){.name = "tiny"});
    CHECK_HAS(text, "static void tiny_forward(const struct tiny_call *c) {\n"
                    "    /* relu: loop of add, relu -> f32[4, 8] */\n"
                    "    const float *x = c->x;\n"
                    "    const float *y = c->y;\n"
                    "    float *out0 = c->out0;\n"
                    "    for (int64_t i = 0; i < 4; i++) {\n"
                    "        for (int64_t j = 0; j < 8; j++) {\n"
                    "            const float v2 = x[i * 8 + j] + y[j];\n"
                    "            out0[i * 8 + j] = v2 > 0.0f || v2 != v2 ? v2 : 0.0f;\n");
    CHECK(!strstr(text, "_results"));
    CHECK_HAS(text, "int tiny_run(const struct tiny_weights *w, void *arena,\n"
                    "    const float *x,\n    const float *y,\n    float *out0) {\n");
}

/* Halves are rounded where they are kept, once; a row is kept once, whatever is made of it. */
TEST(c_rows_that_are_read_again_are_kept_once) {
    const char *text = cfx_compile_text(
        program_of(HEAD "x: \"bf16[4, 8]\"):\n"
                        "        e = torch.ops.aten.exp.default(x)\n"
                        "        n = torch.ops.aten.layer_norm.default(e, [8], None, None, 1e-05)\n"
                        "        s = torch.ops.aten.softmax.int(n, -1)\n"
                        "        return (s,)\n"),
        &(cfx_compile_options){.name = "rows"});
    CHECK_HAS(text, "float *row0 = (float *)c->arena;\n");
    CHECK_HAS(text, "out0[i * 8 + j] = rows_to_bf16(v");
    CHECK(!strstr(text, "row1") && !strstr(text, "rows_to_bf16(rows_from_bf16("));
}

TEST(c_what_has_no_form_is_refused_with_its_nodes) {
    cfx_program *p = program_of(HEAD "x: \"f32[4]\"):\n"
                                     "        rand = torch.ops.aten.rand_like.default(x)\n"
                                     "        add = torch.ops.aten.add.Tensor(x, rand)\n"
                                     "        return (add,)\n");
    const char *path = test_path("refused.c");
    CHECK(!cfx_compile_c(p, NULL, path));
    CHECK_ERROR("the program cannot be compiled:\n"
                "  rand: aten.rand_like.default draws random numbers");
    struct stat st;
    CHECK(stat(path, &st) != 0);
}

/* The text of a program of one input; CHECK_ERROR tells why where there is none. */
static const char *compiled(const char *code, bool tested) {
    return cfx_compile_text(program_of(code), &(cfx_compile_options){.name = "m", .test = tested});
}

/* Numbers that nobody reads need no generator. */
TEST(c_draws_for_nobody_are_left_out) {
    const char *text = compiled(HEAD "x: \"f32[4]\"):\n"
                                     "        rand = torch.ops.aten.rand.default([])\n"
                                     "        less = torch.ops.aten.lt.Scalar(rand, 0.5)\n"
                                     "        add = torch.ops.aten.add.Tensor(x, x)\n"
                                     "        return (add,)\n",
                                true);
    CHECK_HAS(text, "int m_run(");
    CHECK(text && !strstr(text, "rand"));
}

TEST(c_complex_numbers_are_two_each) {
    const char *text =
        compiled(HEAD "x: \"f32[4]\"):\n"
                      "        z = torch.ops.aten._to_copy.default(x, dtype = torch.complex64)\n"
                      "        f = torch.ops.aten._fft_c2c.default(z, [0], 0, True)\n"
                      "        return (f,)\n",
                 true);
    CHECK_HAS(text, "[i] = (float _Complex)x[i];\n");
    CHECK_HAS(text, "static const float m_expected_out0[8] = {\n");
    CHECK_HAS(text, "have = (double)((const float *)out0)[i];\n");
    text = compiled(HEAD "z: \"c64[4, 2]\"):\n"
                         "        r = torch.ops.aten.view_as_real.default(z)\n"
                         "        s = torch.ops.aten.select.int(r, -1, 1)\n"
                         "        n = torch.ops.aten.neg.default(s)\n"
                         "        return (n,)\n",
                    true);
    CHECK_HAS(text, "const float *s = (const float *)c->z + 1;\n");
}

TEST(c_complex_numbers_are_computed_with) {
    const char *text = compiled(HEAD "x: \"f32[4, 8]\", f: \"c64[4]\"):\n"
                                     "        r = torch.ops.aten.view.default(x, [4, 4, 2])\n"
                                     "        z = torch.ops.aten.view_as_complex.default(r)\n"
                                     "        m = torch.ops.aten.mul.Tensor(z, f)\n"
                                     "        s = torch.ops.aten.sum.dim_IntList(m, [1])\n"
                                     "        a = torch.ops.aten.abs.default(s)\n"
                                     "        return (m, a)\n",
                                false);
    CHECK_HAS(text, "#include <complex.h>\n#undef I\n");
    CHECK_HAS(text, " = m_cmulf(");
    CHECK_HAS(text, "double _Complex sum");
    CHECK_HAS(text, "cabsf(");
    CHECK(!compiled(HEAD "z: \"c64[4, 4]\"):\n"
                         "        s = torch.ops.aten.mm.default(z, z)\n"
                         "        t = torch.ops.aten.cumprod.default(s, 0)\n"
                         "        return (t,)\n",
                    true));
    CHECK_ERROR("the program cannot be compiled:\n"
                "  cumprod: aten.cumprod.default has no form in C for complex numbers");
    CHECK(!compiled(HEAD "x: \"f32[4]\"):\n"
                         "        v = torch.ops.aten.view.dtype(x, torch.int32)\n"
                         "        a = torch.ops.aten.add.Tensor(v, 1)\n"
                         "        return (a,)\n",
                    true));
    CHECK_ERROR("the program cannot be compiled:\n"
                "  v: looks at float32 as at int32, which C does not let it");
}

/* Results in tuples, lists and dicts, and what one node gives several of, are results each. */
TEST(c_results_are_one_after_the_other) {
    static const struct {
        const char *returned;
        int n;
    } cases[] = {{"a", 1}, {"t", 2}, {"(t, (a, [t]))", 5}, {"{'y': a, 'z': t}", 3}, {"None", 0}};
    for (int i = 0; i < COUNT(cases); i++) {
        const char *text =
            compiled(cfx__text_format(HEAD "x: \"f32[2, 6]\"):\n"
                                           "        t = torch.ops.aten.topk.default(x, 2)\n"
                                           "        a = torch.ops.aten.neg.default(x)\n"
                                           "        return %s\n",
                                      cases[i].returned),
                     true);
        CHECK_OK();
        CHECK_HAS(text, "m_run");
        for (int k = 0; text && k < 6; k++)
            CHECK(!!strstr(text, cfx__text_format("        .out%d = out%d,\n", k, k)) ==
                  (k < cases[i].n));
    }
}

TEST(c_division_of_integers_by_zero_fails) {
    const char *text = compiled(HEAD "x: \"i64[4]\", y: \"i64[4]\"):\n"
                                     "        r = torch.ops.aten.remainder.Tensor(x, y)\n"
                                     "        return (r,)\n",
                                false);
    CHECK_HAS(text, "            if (by[i] == 0)\n                *c->bad = 1;\n");
    CHECK(!compiled(HEAD "x: \"i64[4]\"):\n"
                         "        f = torch.ops.aten.floor_divide.default(x, 0)\n"
                         "        return (f,)\n",
                    false));
    CHECK_ERROR("the program cannot be compiled:\n"
                "  f: aten.floor_divide.default divides by zero");
}

/* x[i] alone counts from the end; elsewhere a negative index is an error, as in PyTorch. */
/* Running sums of another dtype are of numbers of that one. */
TEST(c_running_sums_convert_first) {
    const char *text = compiled(HEAD "x: \"f32[6]\"):\n"
                                     "        r = torch.ops.aten.cumsum.default(x, 0, dtype = "
                                     "torch.bool)\n"
                                     "        return (r,)\n",
                                false);
    CHECK_HAS(text, "sum = (int64_t)((uint64_t)sum + (uint64_t)(uint8_t)(x[r] != 0));\n"
                    "        out[r] = (uint8_t)(sum != 0);\n");
}

/* What one weight has changes no text but its own numbers. */
TEST(c_source_does_not_depend_on_weights) {
    const char *text[2];
    for (int i = 0; i < 2; i++) {
        cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2");
        cfx_dict *other = cfx_dict_new();
        cfx_dict_set(other, "fc2.bias", cfx_tensor_value(cfx_ones(cfx_list(16))));
        CHECK(cfx_program_load_state_dict(p, i ? other : p->state, false));
        text[i] =
            cfx_compile_text(p, &(cfx_compile_options){.name = "m", .weights = CFX_WEIGHTS_FILE});
    }
    CHECK_STR(text[0], text[1]);
    CHECK_HAS(text[0], "    m_fc1(c); /* fc1 */\n    m_fc2(c); /* fc2 */\n");
}

TEST(c_negative_indices_count_from_the_end_in_x_i_alone) {
    const char *text = compiled(HEAD "x: \"f32[4, 3]\", i: \"i64[2]\"):\n"
                                     "        r = torch.ops.aten.index.Tensor(x, [i])\n"
                                     "        return (r,)\n",
                                false);
    CHECK_HAS(text, "    at = at < 0 ? at + n : at;\n");
    static const char *const others[] = {"embedding.default(x, i)", "index_select.default(x, 0, i)",
                                         "gather.default(x, 0, j)", "scatter.value(x, 0, j, 2.0)"};
    for (int k = 0; k < COUNT(others); k++) {
        text = cfx__text_format(HEAD "x: \"f32[4, 3]\", i: \"i64[2]\", j: \"i64[2, 3]\"):\n"
                                     "        r = torch.ops.aten.%s\n"
                                     "        return (r,)\n",
                                others[k]);
        text = compiled(text, false);
        CHECK_HAS(text, "if (at >= 0 && at < n)");
        CHECK(text && !strstr(text, "at + n"));
    }
}

TEST(c_clamps_of_halves_and_pools_of_integers_have_forms) {
    const char *text = compiled(HEAD "x: \"f16[4]\", low: \"f16[]\", high: \"f16[]\"):\n"
                                     "        c = torch.ops.aten.clamp.Tensor(x, low, high)\n"
                                     "        return (c,)\n",
                                true);
    CHECK_HAS(text, "v6 = v0 != v0 ? v0 : v6_a > v2 || v2 != v2 ? v2 : v6_a;\n");
    text = compiled(HEAD "x: \"i8[1, 1, 4, 4]\"):\n"
                         "        m = torch.ops.aten.max_pool2d.default(x, [2, 2])\n"
                         "        return (m,)\n",
                    true);
    CHECK_HAS(text, "best = v > best ? v : best;\n");
}

TEST(c_picks_by_masks_are_named) {
    CHECK(!compiled(HEAD "x: \"f32[4]\", m: \"b8[4]\"):\n"
                         "        picked = torch.ops.aten.index.Tensor(x, [m])\n"
                         "        return (picked,)\n",
                    false));
    CHECK_ERROR("the program cannot be compiled:\n"
                "  picked: aten.index.Tensor picks by a mask: its size depends on data");
}

TEST(c_inputs_are_not_written_to) {
    CHECK(!compiled(HEAD "x: \"f32[4]\", y: \"f32[4]\"):\n"
                         "        add_ = torch.ops.aten.add_.Tensor(x, y)\n"
                         "        mul = torch.ops.aten.mul.Tensor(add_, y)\n"
                         "        return (mul,)\n",
                    true));
    CHECK_ERROR("the program cannot be compiled:\n"
                "  add: is written to input x, which is the caller's");
}

/* An array lies in order; as_strided of what the program was made for did not. */
TEST(c_strides_of_inputs_are_not_looked_at) {
    static const char code[] = HEAD "x: \"f32[4, 2]\"):\n"
                                    "        a = torch.ops.aten.mul.Tensor(x, x)\n"
                                    "        s = torch.ops.aten.as_strided.default(a, [3], [1])\n"
                                    "        return (s,)\n";
    cfx_module *gm = cfx_module_parse(code, "test");
    cfx_tensor *x = cfx_transpose(cfx_ones(cfx_list(2, 4)), 0, 1);
    cfx_program *p = cfx_export(gm, cfx_tuple(x), CFX_NONE, CFX_NONE);
    CHECK(!cfx_compile_text(p, NULL));
    CHECK_ERROR("looks at memory behind a tensor, and input x has strides of its own");
}

TEST(c_is_written_to_files_that_end_so) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2");
    CHECK(!cfx_compile_c(p, NULL, "model.txt"));
    CHECK_ERROR("C is written to a file whose name ends in .c");
    CHECK(!cfx_compile_c(p, NULL, NULL));
    CHECK_ERROR("C is written to a file whose name ends in .c");
    CHECK(!cfx_compile_c(p, NULL, test_path("none/model.c")));
    CHECK(!cfx_ok());
    cfx_error_clear();
}

/* The header is included by the name that its file has. */
TEST(c_headers_have_the_names_of_their_files) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2");
    CHECK(cfx_compile_c(p, NULL, test_path("g\xc3\xb6 1.c")));
    char text[4096] = "";
    FILE *file = fopen(test_path("g\xc3\xb6 1.c"), "rb");
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
    CHECK(strstr(text, "#include \"g\xc3\xb6 1.h\"\n") != NULL);
    if (file)
        fclose(file);
    CHECK(!cfx_compile_c(p, NULL, test_path("a\"b.c")));
    CHECK_ERROR("'a\"b' is no name of a header that C could include");
    test_unlink("g\xc3\xb6 1.c");
    test_unlink("g\xc3\xb6 1.h");
    test_folder_done();
}

/* What has no elements is compared with nothing: no loop of no rounds, which compilers warn of. */
TEST(c_tests_of_empty_results_compare_nothing) {
    const char *text = compiled(HEAD "x: \"f32[0, 4]\"):\n"
                                     "        relu = torch.ops.aten.relu.default(x)\n"
                                     "        sum = torch.ops.aten.sum.default(x)\n"
                                     "        return (relu, sum)\n",
                                true);
    CHECK_HAS(text, "for (size_t i = 0; i < 1; i++)");
    CHECK(text && !strstr(text, "size_t i = 0; i < 0;"));
}

/* Names of a program that are C of their own reach the source as identifiers alone. */
TEST(c_source_has_no_text_of_the_program) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2");
    cfx_program *copy = cfx_program_copy(p);
    cfx_each_node(copy->module->graph, n) if (n->op == CFX_CALL_FUNCTION) {
        cfx_node_set_meta(n, "stack_trace",
                          cfx_string_value("  File \"a*/ system(\"evil\"); /*?"
                                           "?/\n.py\", line 3, in f\n"));
        cfx_value path = cfx_tuple(cfx_string_value("evil*/ int evil; /*"), cfx_string_value("t"));
        cfx_value stack = cfx_dict_value(cfx_dict_new());
        cfx_dict_set(cfx_as_dict(stack), "k", path);
        cfx_node_set_meta(n, "nn_module_stack", stack);
    }
    const char *text = cfx_compile_text(copy, &(cfx_compile_options){.name = "a\"; int x"});
    CHECK(text != NULL);
    for (const char *at = text; at && (at = strstr(at, "evil")); at++) {
        const char *open = NULL, *close = NULL; /* inside of a comment, or of an identifier */
        for (const char *b = text; b < at; b++) {
            open = !strncmp(b, "/*", 2) ? b : open;
            close = !strncmp(b, "*/", 2) ? b : close;
        }
        CHECK((open && (!close || open > close)) || at[-1] == '_' || at[4] == '_');
    }
    CHECK(text && !strstr(text, "; int x"));
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* The text of a program of one call. */
static const char *text_of_call(const char *inputs, const char *call) {
    cfx_program *p = cfx_program_parse(
        cfx__text_format("class GraphModule(torch.nn.Module):\n    def forward(self, %s):\n"
                         "        y = torch.ops.aten.%s\n        return (y,)\n",
                         inputs, call),
        "test");
    return cfx_compile_text(p, &(cfx_compile_options){.name = "m"});
}

TEST(c_truth_of_bools_is_no_count) {
    const char *all = text_of_call("x: \"b8[4, 5]\"", "all.default(x)");
    const char *any = text_of_call("x: \"b8[4, 5]\"", "any.dim(x, 1)");
    CHECK(all && strstr(all, "&= x[i] != 0;"));
    CHECK(any && strstr(any, "|= x[i * 5 + j] != 0;"));
    const char *sum = text_of_call("x: \"b8[4, 5]\"", "sum.default(x)");
    CHECK(sum && strstr(sum, "+= x[i] != 0;"));
}

/* What has no form of its own is made of what has one. */
TEST(c_operators_without_a_form_are_taken_apart) {
    static const char *const calls[] = {
        "median.default(x)",      "round.decimals(x, decimals=2)", "view_copy.default(x, [5, 4])",
        "lerp.Scalar(x, x, 0.3)", "logcumsumexp.default(x, 1)",    "floor_divide.default(x, x)"};
    for (int i = 0; i < COUNT(calls); i++)
        if (!CHECK(text_of_call("x: \"f32[4, 5]\"", calls[i])))
            printf("%s\n", calls[i]);
    CHECK(text_of_call("x: \"f32[4]\", y: \"f32[4, 5]\", z: \"f32[5]\"", "addmv.default(x, y, z)"));
    CHECK(text_of_call("x: \"f32[4]\", y: \"f32[5]\"", "bucketize.Tensor(x, y)"));
    CHECK(!text_of_call("x: \"f32[4]\"", "rand_like.default(x)"));
    CHECK_ERROR("y: aten.rand_like.default draws random numbers");
}

/* Writes beside a norm do not keep it from the layer before it. */
TEST(c_norms_are_folded_into_layers_before_writes) {
    cfx_module *net = cfx_nn_sequential(cfx_nn_conv2d(3, 4, 3), cfx_nn_batch_norm2d(4),
                                        cfx_nn_relu(.inplace = true));
    cfx_module_train(net, false);
    cfx_program *p = cfx_export(net, cfx_tuple(cfx_randn(1, 3, 8, 8)), CFX_NONE, CFX_NONE);
    const char *text = cfx_compile_text(p, &(cfx_compile_options){.name = "m"});
    CHECK(text && strstr(text, ": conv2d, ") && !strstr(text, "running_mean"));
}

/* Branches compute what is wanted where it is wanted, the caller's array. */
TEST(c_branches_are_not_copied) {
    const char *text = cfx_compile_text(cfx_open(CFX_TEST_DATA "/zoo/cond/model.pt2"),
                                        &(cfx_compile_options){.name = "m"});
    CHECK(text && strstr(text, "out0[i] = sinf(") && !strstr(text, "memcpy(to, from"));
    text = cfx_compile_text(cfx_open(CFX_TEST_DATA "/zoo/while_loop/model.pt2"),
                            &(cfx_compile_options){.name = "m"});
    CHECK(text && !strstr(text, "m_results(")); /* carried there */
}

/* What is given in rows 1 and 2 of what is kept. */
static cfx_tensor *keeps(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *cache = cfx_attr(self, "cache");
    cfx_copy_(cfx_narrow(cache, 0, 1, 2), x);
    return cfx_sum(cache);
}

/* Part of a value that nobody else reads is written where that lies, of what the program keeps too.
 */
TEST(c_parts_are_written_in_place) {
    const char *text = cfx_compile_text(cfx_open(CFX_TEST_DATA "/zoo/mutating_buffer/model.pt2"),
                                        &(cfx_compile_options){.name = "m"});
    CHECK(text && strstr(text, "aten.slice_scatter.default") && !strstr(text, "memcpy(to, from"));
    cfx_module *m = cfx_module_new("Kept", keeps, "x");
    cfx_nn_buffer(m, "cache", cfx_zeros(cfx_list(4, 6)), true);
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_randn(2, 6)), CFX_NONE, CFX_NONE);
    text = cfx_compile_text(p, &(cfx_compile_options){.name = "m"});
    CHECK(text && strstr(text, "c->state->cache + 6;") && !strstr(text, "24 * sizeof"));
    CHECK_OK();
}

/* Where attention writes what it makes of queries: over them, unless somebody reads them later. */
TEST(c_attention_takes_the_place_of_its_queries) {
    for (int later = 0; later < 2; later++) {
        const char *text = cfx_compile_text(
            program_of(cfx__text_format(
                HEAD "x: \"f32[1, 2, 8, 4]\", k: \"f32[1, 2, 8, 4]\"):\n"
                     "        q = torch.ops.aten.cumsum.default(x, 2)\n"
                     "        a = torch.ops.aten.scaled_dot_product_attention.default(q, k, k)\n"
                     "        c = torch.ops.aten.cumsum.default(a, 2)\n"
                     "        y = torch.ops.aten.add.Tensor(c, %s)\n"
                     "        return (y,)\n",
                later ? "q" : "k")),
            &(cfx_compile_options){.name = "m"});
        const char *query = text ? strstr(text, "*query = (const float *)") : NULL;
        const char *out = query ? strstr(query, "*out = (float *)") : NULL;
        if (!CHECK(out != NULL))
            return;
        query += strlen("*query = (const float *)"), out += strlen("*out = (float *)");
        const size_t n = strcspn(query, ";");
        CHECK((n == strcspn(out, ";") && !memcmp(query, out, n)) == !later);
    }
}

/* An offset that is given counts from where memory begins, not from the look that it is given. */
TEST(c_offsets_of_memory_count_from_where_it_begins) {
    const char *text = cfx_compile_text(
        program_of(HEAD "x: \"f32[4]\"):\n"
                        "        s = torch.ops.aten.select.int(x, -1, 2)\n"
                        "        a = torch.ops.aten.as_strided.default(s, [3, 1], [0, 4], 1)\n"
                        "        b = torch.ops.aten.cumsum.default(a, 0)\n"
                        "        return (b,)\n"),
        &(cfx_compile_options){.name = "m"});
    CHECK(text && strstr(text, "= c->x + 1;") && !strstr(text, "c->x + 3;"));
}
