/* What PyTorch printed, and what is printed here for the same graphs: equal byte for byte. The
 * graphs come from the texts themselves, through the parser, so each text is read and written. */
#include "test.h"

#include "emit.h"

#include <dirent.h>

/* A whole file, without the newline that print() added to gm.code; NULL when it is not there. */
static const char *file_text(const char *dir, const char *name) {
    FILE *f = fopen(cfx__text_format("%s/%s.txt", dir, name), "rb");
    if (!f)
        return NULL;
    cfx__text t = {0};
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        cfx__text_add(&t, block, n);
    fclose(f);
    return cfx__text_take(&t);
}

static void compare(const char *dir, const char *what, const char *got, const char *want) {
    size_t n = strlen(got), at = 0;
    if (!strncmp(got, want, n) && (!want[n] || !strcmp(want + n, "\n")))
        return;
    while (got[at] && got[at] == want[at])
        at++;
    size_t from = at > 30 ? at - 30 : 0;
    test_fail(CFX_HERE, "%s: %s differs at %zu:\n  got  ...%.80s\n  want ...%.80s", dir, what, at,
              got + from, want + from);
}

static void check_readable(const char *dir, const cfx_graph *code) {
    const char *text = file_text(dir, "readable");
    cfx_module *m = text ? cfx_module_parse(text, "readable") : NULL;
    if (!text || !CHECK_OK() || !CHECK(!cfx_failed(m)))
        return;
    compare(dir, "readable", cfx_module_readable(m, (cfx_readable_options){0}), text);
    CHECK(cfx_graph_equal(m->graph, code));
}

static void check_form(const char *dir, const char *form, const cfx_graph *g, bool names_too,
                       bool code_too) {
    const char *tabular = names_too ? file_text(dir, "tabular") : NULL;
    if (names_too)
        compare(dir, cfx__text_format("graph of %s", form), cfx_graph_str(g),
                file_text(dir, "graph"));
    if (code_too)
        compare(dir, cfx__text_format("code of %s", form), cfx_graph_code(g),
                file_text(dir, "code"));
    if (tabular)
        compare(dir, cfx__text_format("table of %s", form), cfx_graph_tabular(g), tabular);
}

static void check_case(const char *dir) {
    const char *graph = file_text(dir, "graph"), *code = file_text(dir, "code");
    bool lossy = strstr(code, ") -> ") != NULL; /* the graph form has no type for the result */
    cfx_graph *g = cfx_graph_parse(graph, "graph"), *c = cfx_graph_parse(code, "code");
    if (!CHECK_OK() || !g || !c) {
        test_fail(CFX_HERE, "%s cannot be parsed", dir);
        cfx_error_clear();
        return;
    }
    check_form(dir, "graph", g, true, !lossy);
    check_form(dir, "code", c, !cfx_graph_find(g, "input"), true); /* code calls it input_1 */
    CHECK(lossy || cfx_graph_equal(g, c));
    CHECK(cfx_graph_lint(g, NULL) && cfx_graph_lint(c, NULL));
    check_readable(dir, c);
}

static void check_all(const char *folder) {
    const char *root = getenv("CFX_TEXTS");
    const char *path = cfx__text_format("%s/%s", CFX_TEST_DATA, folder);
    if (root)
        path = root;
    DIR *d = opendir(path);
    if (!CHECK(d != NULL))
        return;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            CFX_SCOPE check_case(cfx__text_format("%s/%s", path, e->d_name));
            n++;
        }
    closedir(d);
    CHECK(n > 10);
}

TEST(texts_of_traced_modules) { check_all("fx"); }
TEST(texts_of_exported_programs) { check_all("zoo"); }

/* A cell as wide as the graph is long, in a table of that many lines. */
TEST(tables_are_not_the_square_of_a_graph) {
    cfx_graph *g = cfx_graph_new();
    cfx_value all = cfx_list_value(0, NULL);
    for (int i = 0; i < 6000; i++)
        cfx_list_append(cfx_as_list(all), cfx_node_value(cfx_graph_placeholder(
                                              g, "a_name_of_some_length", NULL, false, CFX_NONE)));
    cfx_graph_call_function(g, "torch.cat", cfx_tuple_value(1, &all), CFX_NONE);
    const char *table = cfx_graph_tabular(g);
    CHECK(strlen(table) < (size_t)80 << 20); /* 900 MB when all are padded */
    CHECK(strstr(table, "a_name_of_some_length_5999],)  {}") != NULL);
    CHECK_OK();
}
