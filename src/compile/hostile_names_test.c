/* Files whose names are C of their own, end to end: model.json of a good program with others in
 * it, compiled to C, built with every warning an error and trigraphs read, and right by its own
 * test. */
#include <stdlib.h>
#include <string.h>

#include <cfx.h>
#include <cfx/export.h>

#include "../../tests/files.h"
#include "../pack/zip.h"
#include "compile.h"

/* A text with each `from` replaced; scope. */
static const char *replaced(const char *text, const char *from, const char *to) {
    cfx__text out = {0};
    for (const char *at; (at = strstr(text, from)) != NULL; text = at + strlen(from)) {
        cfx__text_add(&out, text, (size_t)(at - text));
        cfx__text_puts(&out, to);
    }
    cfx__text_puts(&out, text);
    return cfx__text_take(&out);
}

/* A text as it stands in a string of JSON; scope. */
static const char *quoted(const char *text) {
    cfx__text out = {0};
    for (; *text; text++)
        if (*text == '\n')
            cfx__text_puts(&out, "\\n");
        else
            cfx__text_printf(&out, strchr("\"\\", *text) ? "\\%c" : "%c", *text);
    return cfx__text_take(&out);
}

/* The names of the seed's program, all of them, as something hostile; scope. Those that end alike
 * become the same name where only letters and digits stay. */
static const char *renamed(const char *json, const char *node, const char *text) {
    const struct {
        const char *from, *form, *to;
    } all[] = {{"\"x\"", "\"%s\"", node},
               {"\"p_fc1_weight\"", "\"%s_b\"", node},
               {"\"p_fc1_bias\"", "\"%s__b\"", node},
               {"\"p_fc2_weight\"", "\"%s___b\"", node},
               {"\"linear\"", "\"%s_d\"", node},
               {"\"relu\"", "\"%s__d\"", node},
               {"\"linear_1\"", "\"%s___d\"", node},
               {"\"fc1.weight\"", "\"%s f\"", text},
               {"\"fc1.bias\"", "\"%s*f\"", text},
               {"\"fc2.bias\"", "\"%s\"", text},
               {"L__self__fc1,fc1,", "L__self__fc1,%s,", text},
               {"L__self__fc2,fc2,", "L__self__fc2,%s/,", text},
               {"zoo.py", "%s", text},
               {"torch/nn/modules/linear.py", "%s", text}};
    for (int i = 0; i < COUNT(all); i++) {
        cfx__text to = {0};
        const char *hole = strstr(all[i].form, "%s");
        cfx__text_add(&to, all[i].form, (size_t)(hole - all[i].form));
        cfx__text_puts(&to, quoted(all[i].to));
        cfx__text_puts(&to, hole + 2);
        json = replaced(json, all[i].from, cfx__text_take(&to));
    }
    return json;
}

static bool write_named(const char *path, const char *node, const char *text) {
    cfx__file_mapping *m = cfx__file_map(CFX_TEST_DATA "/zoo/seed_mlp/model.pt2");
    cfx__zip z;
    if (!CHECK(m && cfx__zip_open(&z, "seed_mlp", (cfx__pack_bytes){m->data, m->size, m})))
        return false;
    cfx__zip_writer w = {.file = fopen(path, "wb")};
    for (size_t i = 0; i < z.entries.len; i++) {
        cfx__zip_entry *e = &z.entries.data[i];
        cfx__pack_bytes b;
        CHECK(cfx__zip_read(&z, e, false, &b));
        const bool json = strstr(e->name, "model.json") || strstr(e->name, "weights_config");
        const char *own =
            json ? renamed(cfx__text_format("%.*s", (int)b.size, b.data), node, text) : "";
        cfx__zip_add(&w, e->name, json ? own : b.data, json ? strlen(own) : b.size);
    }
    const bool fine = CHECK(cfx__zip_finish(&w));
    fclose(w.file);
    cfx__zip_close(&z);
    cfx_drop(m);
    return fine;
}

static bool has_compiler(void) {
    const bool has = system("command -v cc > /dev/null 2>&1") == 0;
    if (!has)
        printf("not run: what is compiled, for which there is no cc\n");
    return has;
}

/* Whether the program is opened and compiled, and what is written is built and right. */
static void check_names(const char *node, const char *text, const char *prefix) {
    const char *model = test_path("m.pt2"), *source = test_path("m.c"), *built = test_path("m");
    if (!write_named(model, node, text))
        return;
    cfx_program *p = cfx_open(model);
    const cfx_compile_options o = {
        .name = prefix, .test = true, .main = true, .weights = CFX_WEIGHTS_INLINE};
    const bool fine =
        CHECK(cfx_compile_c(p, &o, source)) &&
        CHECK_INT(
            system(cfx__text_format("cc -std=c11 -trigraphs -pedantic -Wall -Wextra -Wconversion "
                                    "-Werror -Wno-error=trigraphs %s -o %s -lm 2> /dev/null && "
                                    "%s --test > /dev/null && "
                                    "(! command -v c++ || c++ -std=c++17 -fsyntax-only -x c++ %s) "
                                    "> /dev/null 2>&1",
                                    source, built, built, test_path("m.h"))),
            0);
    if (!fine)
        printf("%.40s, %.40s: %s\n", node, text,
               cfx_ok() ? "it is not built or not right" : cfx_error_last()->message);
    cfx_error_clear();
    test_unlink("m.pt2");
    test_unlink("m.c");
    test_unlink("m.h");
    test_unlink("m");
}

TEST(c_of_files_with_hostile_names_is_built_and_right) {
    static const struct {
        const char *node, *text;
    } names[] = {{"float", "*/ int evil; /*"},
                 {"int64_t", "// x"},
                 {"out0", "a\\\nb"},
                 {"c", "?"
                       "?/\nint evil; /* ?"
                       "?/"},
                 {"model_run", "\"; int evil; \""},
                 {"s0", "a\nint evil;"},
                 {"LINE", "\xe2\x98\x83\xc3\xa9"},
                 {"main", "while"},
                 {"arena", "#include \"x\""},
                 {"call", "%s%n"},
                 {"memcpy", "*\\\n/ int evil; /\\\n*"},
                 {"_Static_assert", "__LINE__"},
                 {"model_weights", "w"},
                 {"printf", "run"},
                 {"sizes", "product"},
                 {"bad", "sample_bad"},
                 {"X", "MODEL_WEIGHTS"},
                 {"uintptr_t", "friend"},
                 {"xor", "catch"},
                 {"typename", "noexcept"},
                 {"wchar_t", "i386"}};
    if (!has_compiler())
        return;
    for (int i = 0; i < COUNT(names); i++)
        check_names(names[i].node, names[i].text, i % 2 ? names[i].text : "model");
    char *longest = cfx__alloc0(3001);
    memset(longest, 'y', 3000);
    check_names(longest, longest, longest);
    cfx__free(longest);
    test_folder_done();
}

/* Nodes that are called as values and sums of loops are: their pointers have other names. */
TEST(c_of_nodes_named_like_variables_of_loops_is_built) {
    static const char *const names[] = {"v0", "v1_a", "sum1", "r1", "best", "row", "y2"};
    for (int i = 0; has_compiler() && i < COUNT(names); i++) {
        const char *n = names[i], *source = test_path("m.c");
        cfx_module *gm = cfx_module_parse(
            cfx__text_format("class GraphModule(torch.nn.Module):\n"
                             "    def forward(self, %s: \"f32[3, 6]\"):\n"
                             "        add = torch.ops.aten.add.Tensor(%s, 1)\n"
                             "        soft = torch.ops.aten._softmax.default(%s, -1, False)\n"
                             "        most = torch.ops.aten.argmax.default(%s, 1)\n"
                             "        return (add, soft, most)\n",
                             n, n, n, n),
            "test");
        cfx_program *p = cfx_export(gm, cfx_tuple(cfx_ones(cfx_list(3, 6))), CFX_NONE, CFX_NONE);
        CHECK(cfx_compile_c(p, &(cfx_compile_options){.name = "m"}, source));
        if (!CHECK_INT(system(cfx__text_format("cc -std=c11 -pedantic -Wall -Wextra -Wconversion "
                                               "-Werror -c %s -o %s 2> /dev/null",
                                               source, test_path("m.o"))),
                       0))
            printf("by the name %s\n", n);
        test_unlink("m.c");
        test_unlink("m.h");
        test_unlink("m.o");
    }
}
