/* Sizes that vary: ranges, expressions in the text, and what has none. tools/test_compile runs what
 * is written at several sizes. */
#include <sys/stat.h>

#include <cfx.h>
#include <cfx/emit.h>

#include "../../tests/files.h"
#include "compile.h"

#define HEAD "class GraphModule(torch.nn.Module):\n    def forward(self, "
#define CHECK_HAS(text, part) CHECK((text) && strstr(text, part) != NULL)

/* A program of code whose inputs are the caller's, s0 from 1 to 40, s1 from 2 on. */
static cfx_program *program_of(const char *code) {
    cfx_program *p = cfx_program_parse(code, "test");
    cfx_dict_set(p->ranges, "s0", cfx_tuple(1, 40));
    cfx_dict_set(p->ranges, "s1", cfx_tuple(2, cfx_none()));
    return p;
}

static const char *compiled(const char *code, const char *sizes) {
    return cfx_compile_text(program_of(code), &(cfx_compile_options){.name = "m", .sizes = sizes});
}

static const char adding[] = HEAD "x: \"f32[s0, s1]\", y: \"f32[s1]\"):\n"
                                  "        add = torch.ops.aten.add.Tensor(x, y)\n"
                                  "        mean = torch.ops.aten.mean.dim(add, [1])\n"
                                  "        return (add, mean)\n";

TEST(c_sizes_that_vary_are_parameters) {
    const char *text = compiled(adding, NULL);
    CHECK_HAS(text,
              "int m_run(const struct m_weights *w, void *arena, ptrdiff_t s0, ptrdiff_t s1,\n");
    CHECK_HAS(text, "    if (s1 < M_S1_MIN || s1 > M_S1_MAX)\n        return 2;\n");
    CHECK_HAS(text, "    const ptrdiff_t s0 = c->s0;\n    const ptrdiff_t s1 = c->s1;\n");
    CHECK_HAS(text, "for (int64_t i = 0; i < s0; i++) {\n");
    CHECK_HAS(text, "[i * s1 + j]");
    CHECK_HAS(text, "/ (double)s1)");
    CHECK_HAS(text, "-> f32[s0]");
}

TEST(c_sizes_can_be_given_and_narrowed) {
    const char *text = compiled(adding, "s0=3 s1=2:9");
    CHECK_HAS(text, "int m_run(const struct m_weights *w, void *arena, ptrdiff_t s1,\n");
    CHECK_HAS(text, "for (int64_t i = 0; i < 3; i++) {\n");
    CHECK(!strstr(text, "s0"));
    text = compiled(adding, "s0=3,s1=5");
    CHECK_HAS(text, "int m_run(const struct m_weights *w, void *arena,\n");
    CHECK(!compiled(adding, "s0=41"));
    CHECK_ERROR("the program takes s0 from 1 to 40");
    CHECK(!compiled(adding, "s7=4"));
    CHECK_ERROR(
        "'s7=4' does not set a dynamic size, such as s0=8 or s0=2:64; those of the program: "
        "s0, s1");
    CHECK(!compiled(adding, "s0=4:2"));
    CHECK(!cfx_ok());
    cfx_error_clear();
}

/* The text of a file; scope. */
static const char *text_of(const char *path) {
    cfx__text t = {0};
    char part[4096];
    FILE *file = fopen(path, "rb");
    for (size_t n; file && (n = fread(part, 1, sizeof part, file)) > 0;)
        cfx__text_add(&t, part, n);
    if (file)
        fclose(file);
    return cfx__text_take(&t);
}

static const char *header_of(const char *code) {
    CHECK(cfx_compile_c(program_of(code), &(cfx_compile_options){.name = "m"}, test_path("n.c")));
    return text_of(test_path("n.h"));
}

/* Small sizes are tried: there numbers may be others than at the sizes that a text was made of. */
TEST(c_ranges_begin_where_the_text_holds) {
    const char *text = header_of(HEAD "x: \"f32[s0, s1]\"):\n"
                                      "        a = torch.ops.aten.slice.Tensor(x, 1, 0, 5)\n"
                                      "        b = torch.ops.aten.mul.Tensor(a, 2)\n"
                                      "        s = torch.ops.aten.sum.default(b)\n"
                                      "        return (s,)\n");
    CHECK_HAS(text, "#define M_S1_MIN 6 /* raised: smaller ones are computed otherwise */\n");
    CHECK_HAS(text, "#define M_S0_MIN 1\n");
    static const char rolling[] =
        HEAD "x: \"f32[s0, s1]\"):\n"
             "        r = torch.ops.aten.roll.default(x, [3, -7], [0, 1])\n"
             "        return (r,)\n";
    CHECK_HAS(header_of(rolling), "#define M_S1_MIN 2\n");
    CHECK_HAS(compiled(rolling, NULL), "x[(i + s0 - 3 % s0) % s0 * s1 + (j + 7) % s1]");
    test_unlink("n.c");
    test_unlink("n.h");
    test_folder_done();
}

TEST(c_headers_tell_ranges_and_shapes_of_sizes) {
    const char *path = test_path("sizes.c");
    CHECK(cfx_compile_c(program_of(adding), &(cfx_compile_options){.name = "m"}, path));
    const char *text = text_of(test_path("sizes.h"));
    CHECK_HAS(text, "#define M_S0_MIN 1\n#define M_S0_MAX 40\n");
    CHECK_HAS(text,
              "#define M_S1_MIN 2\n#define M_S1_MAX 64 /* chosen: the program has no end */\n");
    CHECK_HAS(text, "#define M_X_SHAPE(s0, s1) {(s0), (s1)} /* f32[s0, s1] */\n"
                    "#define M_X_COUNT(s0, s1) ((s0) * (s1))\n");
    test_unlink("sizes.c");
    test_unlink("sizes.h");
}

/* Symbols may have any name: theirs in the text is none of C's or of the text's own. */
TEST(c_sizes_have_names_of_their_own) {
    cfx_program *p = program_of(HEAD "x: \"f32[while, out]\"):\n"
                                     "        relu = torch.ops.aten.relu.default(x)\n"
                                     "        return (relu,)\n");
    const char *text = cfx_compile_text(p, &(cfx_compile_options){.name = "m"});
    CHECK_HAS(text, "ptrdiff_t size_while, ptrdiff_t size_out,\n");
    CHECK_STR(cfx__c_identifier("s12"), "s12_");
}

TEST(c_texts_differ_in_numbers_alone_or_not) {
    CHECK(!cfx__c_apart("    /* a: b */\n x[i * 12 + 3]", "    /* a: b */\n x[i * 7 + 300]"));
    CHECK_STR(cfx__c_apart("    /* a: b */\n x[i * 12]", "    /* a: b */\n x[i]"), "a");
    CHECK_STR(cfx__c_apart("x 1.0f", "x 1.0"), "the program");
    CHECK_STR(cfx__c_apart("x1 2", "x2 2"), "the program");
}

/* What is written for points of two sizes, merged. */
static const char *merged(const char *const *texts, const int64_t (*at)[2], int n) {
    cfx__c c = {.program = program_of(HEAD "x: \"f32[s0, s1]\"):\n        return (x,)\n"),
                .nsizes = 2,
                .nvary = 2,
                .sizes = {{.symbol = "s0", .name = "s0"}, {.symbol = "s1", .name = "s1"}}};
    cfx__c_take takes[CFX__C_TAKES];
    const cfx__c_take *all[CFX__C_TAKES];
    for (int i = 0; i < n; i++) {
        takes[i] = (cfx__c_take){.at = {at[i][0], at[i][1]}, .text = texts[i]};
        all[i] = &takes[i];
    }
    const bool fine = cfx__c_merge(&c, n, all);
    const char *text = fine ? cfx__text_format("%s", c.out.data) : c.problems.data[0];
    VEC_FREE(c.problems);
    cfx__text_release(&c.out);
    cfx__arena_release(&c.memory);
    return text;
}

TEST(c_numbers_become_expressions_of_sizes) {
    static const int64_t at[][2] = {{40, 64}, {7, 11}, {13, 5}, {29, 17}, {11, 31}};
    const char *texts[5];
    static const struct {
        const char *form, *is;
        int64_t a, b, ab, c;
    } cases[] = {{"i < %lld;", "i < s0 * s1 * 12;", 0, 0, 12, 0},
                 {"x[i * %lld]", "x[i * (s0 * 3 - 3)]", 3, 0, 0, -3},
                 {"i / %lld %% 2", "i / (s0 * s1) % 2", 0, 0, 1, 0},
                 {"memcpy(a, b, %lld * sizeof *a)", "memcpy(a, b, (size_t)(s1 * 4) * sizeof *a)", 0,
                  4, 0, 0},
                 {"(c->arena + %lld)", "(c->arena + 2688)", 2, 2, 1, 48},
                 {"f(%lld, 3)", "f(s1 + s0 + 2, 3)", 1, 1, 0, 2},
                 {"/ %lld.0", "/ ((double)(s0 + 1))", 1, 0, 0, 1}};
    for (int k = 0; k < COUNT(cases); k++) {
        for (int i = 0; i < 5; i++)
            texts[i] = cfx__text_format(
                cases[k].form, (long long)(cases[k].a * at[i][0] + cases[k].b * at[i][1] +
                                           cases[k].ab * at[i][0] * at[i][1] + cases[k].c));
        if (k == 4)
            texts[0] = "(c->arena + 2688)"; /* the place at the largest sizes */
        CHECK_STR(merged(texts, at, 5), cases[k].is);
    }
    for (int i = 0; i < 5; i++)
        texts[i] = cfx__text_format("    /* a: b */\n%lld", (long long)(at[i][0] * at[i][0] % 19));
    CHECK_HAS(merged(texts, at, 5),
              "a: a number that is 4 at one size and 11 at another has no form");
}

/* All points of ranges that have few; else their ends and what is around powers of two. */
TEST(c_points_are_all_of_few_and_the_edges_of_many) {
    cfx__c c = {.nsizes = 2, .nvary = 2, .sizes = {{.low = 1, .high = 9}, {.low = 3, .high = 8}}};
    bool seen[10][9] = {{false}};
    int64_t at[CFX__C_SIZES];
    int n = 0, distinct = 0;
    for (; cfx__c_point(&c, n, at); n++) {
        if (!CHECK(at[0] >= 2 && at[0] <= 9 && at[1] >= 3 && at[1] <= 8))
            return;
        distinct += !seen[at[0]][at[1]];
        seen[at[0]][at[1]] = true;
    }
    CHECK_INT(n, 8 * 6);
    CHECK_INT(distinct, n);
    c.sizes[0].high = 2048;
    c.sizes[1].high = 300;
    static const int64_t want[] = {2, 3, 4, 15, 16, 17, 64, 1023, 1024, 1025, 2047, 2048};
    for (int k = 0; k < COUNT(want); k++) {
        bool found = false;
        for (int i = 0; i < CFX__C_TAKES; i++)
            found |= cfx__c_point(&c, i, at) && at[0] == want[k];
        if (!CHECK(found))
            printf("%lld is no point\n", (long long)want[k]);
    }
    CHECK(cfx__c_point(&c, 0, at) && at[0] == 2048 && at[1] == 300);
}

/* Where the text of larger sizes is another, the range of the sample's size ends before them; it
 * is never the text of sizes on one side of such a place that serves both. */
TEST(c_ranges_end_where_the_text_is_another) {
    static const char cut[] = HEAD "x: \"f32[s0, s1]\"):\n"
                                   "        a = torch.ops.aten.slice.Tensor(x, 1, 0, 30)\n"
                                   "        b = torch.ops.aten.mul.Tensor(a, 2)\n"
                                   "        s = torch.ops.aten.sum.default(b)\n"
                                   "        return (s,)\n";
    cfx_compile_options o = {.name = "m", .inputs = cfx_list(cfx_ones(cfx_list(3, 8)))};
    CHECK(cfx_compile_c(program_of(cut), &o, test_path("n.c")));
    const char *text = text_of(test_path("n.h"));
    CHECK_HAS(text, "#define M_S1_MIN 2\n"
                    "#define M_S1_MAX 30 /* lowered: larger ones are computed otherwise */\n");
    o.inputs = cfx_list(cfx_ones(cfx_list(3, 40)));
    CHECK(cfx_compile_c(program_of(cut), &o, test_path("n.c")));
    CHECK_HAS(text_of(test_path("n.h")),
              "#define M_S1_MIN 31 /* raised: smaller ones are computed otherwise */\n");
    test_unlink("n.c");
    test_unlink("n.h");
    test_folder_done();
}

/* What is less at larger sizes may be more at small ones than its place in the arena has. */
TEST(c_rooms_are_held_against_sizes) {
    const char *text =
        compiled(HEAD "x: \"f32[s0, s1]\"):\n"
                      "        a = torch.ops.aten.slice.Tensor(x, 1, 1, 9223372036854775807)\n"
                      "        b = torch.ops.aten.mul.Tensor(a, 2)\n"
                      "        c = torch.ops.aten.cumsum.default(b, 1)\n"
                      "        d = torch.ops.aten.cumsum.default(c, 0)\n"
                      "        return (d,)\n",
                 "s0=2:9 s1=4:33");
    CHECK_HAS(text, "    if (s0 * (s1 - 1) * 4 > 1152) /* its room in the arena */\n"
                    "        return 2;\n");
    CHECK_HAS(text, "for (int64_t r = 0; r < s1 - 1; r++)");
    CHECK_HAS(text, "[i * (s1 - 1) + r]");
    CHECK_HAS(text, "-> f32[s0, s1 - 1] */");
    CHECK_HAS(compiled(adding, NULL), "m_run(");
    CHECK(!strstr(compiled(adding, NULL), "its room in the arena"));
}

/* Points that no text was written at are looked at: what is cut off at 30 has other sizes below. */
TEST(c_sizes_of_nodes_follow_at_every_point) {
    cfx_program *p = program_of(HEAD "x: \"f32[s0, s1]\"):\n"
                                     "        a = torch.ops.aten.slice.Tensor(x, 1, 0, 30)\n"
                                     "        b = torch.ops.aten.mul.Tensor(a, 2)\n"
                                     "        return (b,)\n");
    cfx__c c = {.program = p,
                .nsizes = 2,
                .nvary = 2,
                .sizes = {{.symbol = "s0", .name = "s0", .low = 2, .high = 40},
                          {.symbol = "s1", .name = "s1", .low = 31, .high = 64}}};
    cfx__c_take known[5];
    int64_t at[CFX__C_SIZES] = {0};
    for (int i = 0; i < 5; i++)
        known[i] = (cfx__c_take){.at = {40 - 7 * i, 64 - 3 * i * i % 31}};
    cfx__c_proof *proof = cfx__alloc(sizeof *proof);
    CHECK(cfx__c_proof_begin(proof, &c, p, 5, known));
    CHECK(!cfx__c_find_stray(proof, at));
    c.sizes[1].low = 29;
    CHECK(cfx__c_find_stray(proof, at));
    CHECK_INT(at[1], 29);
    CHECK(cfx__c_proof_holds(proof, (const int64_t[CFX__C_SIZES]){3, 30}));
    CHECK(!cfx__c_proof_holds(proof, (const int64_t[CFX__C_SIZES]){3, 29}));
    c.sizes[1].high = 100000; /* too many for all: each goes through its range */
    CHECK(cfx__c_find_stray(proof, at));
    CHECK_INT(at[1], 29);
    cfx__free(proof);
    cfx__arena_release(&c.memory);
}

/* A program of numbers that change where s1 is 4320 or 4321, in the lines of `rest`. */
static cfx_program *changing(const char *rest) {
    return program_of(cfx__text_format(HEAD "x: \"f32[s0, s1]\"):\n"
                                            "        n = torch.ops.aten.sym_size.int(x, 1)\n"
                                            "        a = n - 4321\n"
                                            "        b = n - 4320\n"
                                            "        mul = a * b\n"
                                            "        add = mul + 1\n"
                                            "%s        return (out,)\n",
                                       rest));
}

/* Numbers of the program are sizes at which something may change: a size that is another at two of
 * a million is in the text; where what has no form changes, the range ends. */
TEST(c_sizes_that_meet_numbers_of_the_program_are_looked_at) {
    const cfx_compile_options o = {.name = "m", .sizes = "s0=2:9 s1=100:1000000"};
    const char *text = cfx_compile_text(
        changing("        p = add + 1\n"
                 "        div: \"Sym(((s1 - 4321)*(s1 - 4320) + 2)//"
                 "((s1 - 4321)*(s1 - 4320) + 1))\" = p // add\n"
                 "        more: \"Sym(s1 + (((s1 - 4321)*(s1 - 4320) + 2)//"
                 "((s1 - 4321)*(s1 - 4320) + 1)))\" = n + div\n"
                 "        out = torch.ops.aten.full.default([more], 2.0)\n"),
        &o);
    CHECK_HAS(text, " / ((s1 - 4321) * (s1 - 4320) + 1); i++");
    CHECK(cfx_compile_c(changing("        div = 1 // add\n"
                                 "        out = torch.ops.aten.mul.Tensor(x, div)\n"),
                        &o, test_path("n.c")));
    CHECK_HAS(text_of(test_path("n.h")),
              "#define M_S1_MIN 4322 /* raised: smaller ones are computed otherwise */\n");
    test_unlink("n.c");
    test_unlink("n.h");
    test_folder_done();
}

TEST(c_sweeps_begin_where_sizes_meet_numbers) {
    cfx__c c = {.program = program_of(HEAD
                                      "x: \"f32[s0, s1]\"):\n"
                                      "        a = torch.ops.aten.slice.Tensor(x, 1, 0, 777)\n"
                                      "        return (a,)\n"),
                .nsizes = 2,
                .nvary = 2,
                .sizes = {{.symbol = "s0", .name = "s0", .low = 2, .high = 4000},
                          {.symbol = "s1", .name = "s1", .low = 31, .high = 9000}}};
    int64_t at[CFX__C_SIZES] = {0};
    int met = 0, same = 0, n = 0;
    bool ends[2][40] = {{false}}; /* 32 sizes from the least one on, and the 8 last ones */
    cfx__c_sweep s = cfx__c_sweep_of(&c, 500, 10);
    for (; cfx__c_sweep_next(&s, at); n++) {
        CHECK(at[0] >= 2 && at[0] <= 4000 && at[1] >= 31 && at[1] <= 9000);
        for (int i = 0; i < 2; i++) {
            const int64_t low = at[i] - c.sizes[i].low, high = c.sizes[i].high - at[i];
            if (low < 32 || high < 8)
                ends[i][low < 32 ? low : 32 + high] = true;
        }
        met |= at[1] >= 776 && at[1] <= 778 ? 1 << (at[1] - 776) : 0;
        same += at[0] == at[1];
    }
    CHECK_INT(n, 250 + 2 * 40);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 40; k++)
            CHECK(ends[i][k]);
    CHECK_INT(met, 7);
    CHECK(same > 0);
    c.sizes[0].high = 6;
    c.sizes[1].high = 40;
    bool seen[7][41] = {{false}};
    s = cfx__c_sweep_of(&c, 500, 10);
    for (n = 0; cfx__c_sweep_next(&s, at); n++)
        if (CHECK(at[0] >= 2 && at[0] <= 6 && at[1] >= 31 && at[1] <= 40))
            seen[at[0]][at[1]] = true;
    CHECK_INT(n, 50);
    for (int i = 2; i <= 6; i++)
        for (int k = 31; k <= 40; k++)
            CHECK(seen[i][k]);
    cfx__arena_release(&c.memory);
}

/* Windows have one text for all sizes, be they odd or even, multiples of the result's or not. */
TEST(c_windows_have_one_text_for_all_sizes) {
    static const char half[] = "(s0//2), (s1//2)";
    static const struct {
        const char *call, *gives, *has;
    } cases[] = {
        {"avg_pool2d.default(x, [3, 3], [2, 2], [0, 0], True)", half, "if (p0 < 0 || p0 >= s0)"},
        {"max_pool2d.default(x, [3, 3], [2, 2], [0, 0], [1, 1], True)", half,
         "if (p1 < 0 || p1 >= s1)"},
        {"adaptive_avg_pool2d.default(x, [7, 7])", "7, 7", "* s0 / 7"},
        {"upsample_bilinear2d.vec(x, [32, 32], False, None)", "32, 32", "(double)s0"},
        {"upsample_bilinear2d.vec(x, [32, 32], True, None)", "32, 32", "(double)(s1 - 1)"},
        {"upsample_nearest2d.vec(x, [13, 13], None)", "13, 13", "(double)s1"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const char *code =
            cfx__text_format(HEAD "x: \"f32[1, 3, s0, s1]\"):\n"
                                  "        p: \"f32[1, 3, %s]\" = torch.ops.aten.%s\n"
                                  "        return (p,)\n",
                             cases[i].gives, cases[i].call);
        const char *text = compiled(code, "s0=4:40 s1=4:40");
        CHECK_HAS(text, cases[i].has);
    }
}
