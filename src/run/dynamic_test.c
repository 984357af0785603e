/* Programs whose sizes vary, written in C (dynamic_calls_test.c, dynamic_models_test.c) and
 * exported: each is PyTorch's program of the same model (tests/data/dynamic.txt: code, sizes of
 * every result, ranges, code in Core ATen), up to the numbers of names, and computes at five sizes
 * what the module does. */
#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/rewrite.h>

#include <ctype.h>
#include <inttypes.h>

#include "../graph/plain_test.h"
#include "dynamic_test.h"
#include "run.h"
#include "test.h"

/* ---- what the data says ---------------------------------------------------------------------- */

typedef struct {
    char name[16];
    int64_t hint, least, most; /* 0: not given */
    bool automatic;
} symbol;

typedef struct {
    char name[64];
    symbol symbols[8];
    int nsymbols;
    const char *args; /* "x:f32[B,3]; y:i64[B]<5" */
    char *ranges, *shapes, *code;
    const char *core; /* the code after decomposition; NULL: the same */
} expected;

static bool is(const char *name, const char *other) { return !strcmp(name, other); }

static char *line_of(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    *end = '\0';
    *at = end + 1;
    return line;
}

static void read_symbols(expected *e, const char *text) {
    int used;
    for (symbol s; *text; text += used + (text[used] == ' ')) {
        char kind[32] = "";
        memset(&s, 0, sizeof s);
        if (sscanf(text, "%15[^=]=%" SCNd64 ":%31[^ ]%n", s.name, &s.hint, kind, &used) != 3)
            break;
        s.automatic = kind[0] == 'a' || kind[0] == 'd';
        if (kind[0] == ':')
            s.most = strtoll(kind + 1, NULL, 10);
        else if (!s.automatic)
            sscanf(kind, "%" SCNd64 ":%" SCNd64, &s.least, &s.most);
        e->symbols[e->nsymbols++] = s;
    }
}

/* One size of an input: a number, or an expression of symbols at their values. */
static int64_t size_at(const expected *e, const int64_t *values, const char *text) {
    const char *rest;
    cfx_value v;
    cfx__sym_parse(text, text + strlen(text), &rest, &v);
    if (v.tag == CFX_TAG_INT)
        return cfx_integer(v);
    for (int i = 0; i < e->nsymbols; i++) /* these are n, 2*n or n+1 */
        if (strstr(text, e->symbols[i].name)) {
            int64_t by = strchr(text, '*') ? strtoll(text, NULL, 10) : 1;
            const char *plus = strchr(text, '+');
            return values[i] * by + (plus ? strtoll(plus + 1, NULL, 10) : 0);
        }
    return 0;
}

/* Inputs at these sizes; and, where dims is not NULL, what varies in them. */
static cfx_value inputs_at(const expected *e, const int64_t *values, cfx_dict *dims) {
    cfx_value args = cfx_tuple_value(0, NULL);
    for (const char *at = e->args; *at; at += strspn(at, "; ")) {
        char name[16], dtype[8], shape[64] = "", below[16] = "";
        sscanf(at, "%15[^:]:%7[^[][%63[^]]", name, dtype, shape);
        at = strchr(at, ']') + 1;
        if (*at == '<')
            sscanf(at, "<%15[^;]", below), at += strlen(below) + 1;
        int64_t sizes[8];
        int n = 0;
        cfx_dict *own = cfx_dict_new();
        for (char *s = strtok(shape, ","); s; s = strtok(NULL, ","), n++) {
            sizes[n] = size_at(e, values, s);
            for (int i = 0; i < e->nsymbols; i++) {
                const symbol *y = &e->symbols[i];
                const char *at_name = strstr(s, y->name);
                if (!at_name || (at_name > s && is_word(at_name[-1])))
                    continue;
                cfx_value least = y->least ? cfx_int(y->least) : cfx_none();
                cfx_value most = y->most ? cfx_int(y->most) : cfx_none();
                cfx_dict_put(own, cfx_int(n),
                             y->automatic ? cfx_string_value("Dim.AUTO")
                                          : cfx_tuple(s, least, most));
            }
        }
        if (dims)
            cfx_dict_set(dims, name, cfx_dict_value(own));
        cfx_value list = cfx_ints_value(n, sizes);
        const char *least = strchr(below, '+'); /* "6+2": up to 6, and 2 more */
        cfx_list_append(cfx_as_list(args),
                        CFX_V(is(dtype, "f32")    ? cfx_randn(list)
                              : is(dtype, "bool") ? cfx_gt(cfx_randn(list), -2)
                              : least ? cfx_add(cfx_randint(atoi(below), list), atoi(least + 1))
                                      : cfx_randint(atoi(below), list)));
    }
    return args;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* The sizes of all results as print_readable shows them. */
static const char *shapes_of(cfx_program *p) {
    cfx__text out = {0};
    const char *text = cfx_module_readable(p->module, (cfx_readable_options){0});
    for (const char *at = text; (at = strstr(at, ": \"")); at++) {
        const char *end = strchr(at + 3, '"');
        if (end && !strncmp(end, "\" = ", 4) && memchr(at, '[', (size_t)(end - at))) {
            cfx__text_puts(&out, out.len ? " " : "");
            for (at += 3; at < end; at++)
                if (*at != ' ')
                    cfx__text_putc(&out, *at);
        }
    }
    return cfx__text_take(&out);
}

static const char *ranges_of(cfx_program *p) {
    const char *text = strstr(cfx_program_str(p), "Range constraints: ");
    return text ? cfx__string_new(text + 19, strcspn(text + 19, "\n"))->text : "";
}

/* Five sizes within the ranges, the example's first. */
static void sizes_for(const expected *e, int k, int64_t *values) {
    for (int i = 0; i < e->nsymbols; i++) {
        const symbol *s = &e->symbols[i];
        int64_t step[] = {0, 1, 4, 3, 7}, most = s->most ? s->most : INT64_MAX;
        values[i] = s->hint + step[k] <= most ? s->hint + step[k] : s->hint;
        if (s->automatic && (is(e->name, "sym_auto_static") && i == 1))
            values[i] = s->hint;
    }
    if (is(e->name, "sym_auto_eq"))
        values[1] = values[0];
    if (is(e->name, "sym_auto_even"))
        values[0] *= 2;
}

/* Whether two results are the same: tensors up to rounding. */
static bool is_close(cfx_value a, cfx_value b, double atol) {
    if (a.tag == CFX_TAG_DICT && b.tag == CFX_TAG_DICT) {
        bool close = cfx_as_dict(a)->len == cfx_as_dict(b)->len;
        for (int64_t i = 0; close && i < cfx_as_dict(a)->len; i++)
            close = is_close(cfx_as_dict(a)->entries[i].value, cfx_as_dict(b)->entries[i].value,
                             atol);
        return close;
    }
    if (a.tag == CFX_TAG_TUPLE && b.tag == CFX_TAG_TUPLE) {
        bool close = cfx_as_list(a)->len == cfx_as_list(b)->len;
        for (int64_t i = 0; close && i < cfx_as_list(a)->len; i++)
            close = is_close(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i], atol);
        return close;
    }
    if (a.tag != CFX_TAG_TENSOR || b.tag != CFX_TAG_TENSOR)
        return cfx_equal_values(a, b);
    return cfx_as_tensor(a)->dtype == cfx_as_tensor(b)->dtype &&
           cfx_as_tensor(a)->ndim == cfx_as_tensor(b)->ndim &&
           cfx_integer(CFX_V(cfx_allclose(a, b, CFX_KW(atol, atol), CFX_KW(equal_nan, true))));
}

static void check_runs(const expected *e, cfx_module *m, cfx_program *p, cfx_program *core) {
    for (int k = 0; k < 5; k++) {
        int64_t values[8];
        sizes_for(e, k, values);
        cfx_value in = inputs_at(e, values, NULL);
        cfx_args a = {(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL};
        cfx_value want = cfx_forward_value_from(CFX_HERE, m, a);
        cfx_value got = cfx_program_run_from(CFX_HERE, p, a);
        cfx_value again = cfx_program_run_from(CFX_HERE, core, a);
        CHECK_OK();
        CHECK(is_close(got, want, 1e-5));
        CHECK(is_close(again, want, 1e-4));
    }
}

static const dynamic_program *program_of(const char *name) {
    const dynamic_program *const tables[] = {cfx__dynamic_calls, cfx__dynamic_models};
    for (int i = 0; i < COUNT(tables); i++)
        for (const dynamic_program *p = tables[i]; p->name; p++)
            if (is(p->name, name))
                return p;
    return NULL;
}

/* The signature of forward: "x, y". */
static const char *names_of(const char *args) {
    cfx__text out = {0};
    for (const char *at = args; at; at = strchr(at, ';')) {
        at += strspn(at, "; ");
        cfx__text_printf(&out, "%s%.*s", out.len ? ", " : "", (int)strcspn(at, ":"), at);
    }
    return cfx__text_take(&out);
}

static void check_program(const expected *e) {
    const dynamic_program *row = program_of(e->name);
    CHECK(row != NULL);
    cfx_module *m = cfx_module_new("M", row->forward, names_of(e->args));
    if (row->furnish)
        row->furnish(m, e->name);
    cfx_module_train(m, false);
    int64_t hints[8];
    sizes_for(e, 0, hints);
    cfx_dict *dims = cfx_dict_new();
    cfx_value in = inputs_at(e, hints, dims);
    cfx_program *p = cfx_export(m, in, CFX_NONE, cfx_dict_value(dims));
    if (!cfx_ok())
        printf("    %s\n", e->name);
    CHECK_OK();
    const char *code = trimmed(plain(cfx_module_code(p->module)));
    if (strcmp(code, e->code) || strcmp(ranges_of(p), e->ranges) || strcmp(shapes_of(p), e->shapes))
        printf("    %s\n", e->name);
    CHECK_STR(code, e->code);
    CHECK_STR(shapes_of(p), e->shapes);
    CHECK_STR(ranges_of(p), e->ranges);
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    const char *parts = trimmed(plain(cfx_module_code(core->module)));
    if (strcmp(parts, e->core ? e->core : e->code))
        printf("    %s\n", e->name);
    CHECK_STR(parts, e->core ? e->core : e->code);
    check_runs(e, m, p, core);
}

static void check_all(const char *start) {
    FILE *f = fopen(CFX_TEST_DATA "/dynamic.txt", "rb");
    cfx__text all = {0};
    char block[4096];
    CHECK(f != NULL);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        cfx__text_add(&all, block, n);
    fclose(f);
    int seen = 0;
    for (char *at = all.data; (at = strstr(at, "== "));) {
        expected e = {0};
        char *next = strstr(at + 1, "\n== "), *head;
        if (next)
            *next = '\0', next[0] = '\n';
        head = line_of(&at) + 3;
        char *bar = strstr(head, " | "), *last = strstr(bar + 3, " | ");
        snprintf(e.name, sizeof e.name, "%.*s", (int)(bar - head), head);
        e.args = bar + 3;
        *last = '\0';
        read_symbols(&e, last + 3);
        e.ranges = line_of(&at);
        e.shapes = line_of(&at);
        e.code = at;
        at = next ? next + 1 : all.data + all.len;
        if (next)
            *next = '\0';
        else if (all.data[all.len - 1] == '\n')
            all.data[all.len - 1] = '\0';
        char *parts = strstr(e.code, "\n-- core\n");
        if (parts)
            *parts = '\0', e.core = parts + strlen("\n-- core\n");
        size_t mark = cfx_scope_open();
        if (!strncmp(e.name, start, strlen(start))) {
            check_program(&e);
            seen++;
        }
        cfx_scope_close(mark);
    }
    cfx__text_release(&all);
    CHECK(seen > 0);
}

TEST(dynamic_convolutions) { check_all("conv"); }
TEST(dynamic_pools) { check_all("pool"); }
TEST(dynamic_views) { check_all("view"); }
TEST(dynamic_parts) { check_all("part"); }
TEST(dynamic_attention) { check_all("attn"); }
TEST(dynamic_sizes_as_values) { check_all("val"); }
TEST(dynamic_symbols) { check_all("sym"); }
TEST(dynamic_data) { check_all("data"); }
TEST(dynamic_layers) {
    static const char *const starts[] = {
        "auto", "patch", "pixel", "unfold", "pad", "layer", "group", "soft", "log", "cum",
        "mlp", "mat", "arg", "outer", "where", "loop", "inplace", "adaptive", "batch", "cross",
        "dropout", "einsum", "embed", "f_rms", "gram", "gru", "instance", "mesh", "one_",
        "pos_", "res", "rms", "to_", "topk", "tuple", "type", "upsample"};
    for (int i = 0; i < COUNT(starts); i++)
        check_all(starts[i]);
}

/* ---- sizes beyond limits --------------------------------------------------------------------- */

static cfx_value limited(cfx_module *self, cfx_args a) {
    cfx_tensor *flat = cfx_view(a.v[0], cfx_list(1, 1, -1));
    cfx_tensor *middle = cfx_nanquantile(a.v[0], 0.5), *pooled = cfx_adaptive_avg_pool1d(flat, 2);
    return cfx_tuple(middle, pooled, cfx_call(self, "c", flat));
}

/* Sizes at which operators have no room are tried as others are. That they are refused is no
 * mistake of the program: it would work at smaller ones of its range. */
TEST(limits_at_far_sizes_are_no_problems) {
    cfx_module *m = cfx_module_new("Limited", limited, "x");
    cfx_nn_add(m, "c", cfx_nn_conv_transpose1d(1, 2, 3));
    cfx_value sizes = cfx_list(cfx_list("Dim.AUTO", "Dim.AUTO", "Dim.AUTO", "Dim.AUTO"));
    cfx_program *p =
        cfx_export(m, cfx_tuple(cfx_randn(cfx_list(3, 4, 5, 6))), CFX_NONE, sizes);
    CHECK_OK();
    CHECK(cfx_program_check(p));
    CHECK_INT(cfx_program_problems(p)->n, 0);
}
