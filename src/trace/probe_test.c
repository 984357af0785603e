/* Decisions that forward takes by sizes, in plain C, are found, with their borders. */
#include <cfx/export.h>
#include <cfx/ops.h>

#include "probe.h"
#include "test.h"

/* What forward decides by, of the sizes of its one or two inputs. */
static bool (*decide)(int64_t n, int64_t m);
/* How a decision shows: another call, another number in a call, an error. */
static enum { CALL, NUMBER, FAILURE } shows;

static cfx_value decide_forward(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *x = cfx_as_tensor(a.v[0]), *y = a.n > 1 ? cfx_as_tensor(a.v[1]) : x;
    bool yes = decide(cfx_dim(x, 0), cfx_dim(y, 0));
    if (yes && shows == FAILURE)
        cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "not this size");
    cfx_tensor *sum = cfx_add(cfx_sum(x), cfx_sum(y));
    return cfx_tensor_value(shows == CALL && yes ? cfx_relu(sum)
                                                 : cfx_mul(sum, yes && shows == NUMBER ? 2 : 3));
}

static cfx_value sizes_of(const char *x, const char *y) {
    cfx_dict *all = cfx_dict_new();
    const char *names[] = {x, y};
    for (int i = 0; i < 2 && names[i]; i++) {
        cfx_dict *own = cfx_dict_new();
        cfx_dict_put(own, cfx_int(0), cfx_string_value(names[i]));
        cfx_dict_set(all, i ? "y" : "x", cfx_dict_value(own));
    }
    return cfx_dict_value(all);
}

static cfx_program *export_of(int64_t n, int64_t m, const char *x, const char *y) {
    cfx_module *module = cfx_module_new("M", decide_forward, y ? "x, y" : "x");
    cfx_value in = y ? cfx_tuple(cfx_ones(n, 3), cfx_ones(m, 3)) : cfx_tuple(cfx_ones(n, 3));
    return cfx_export(module, in, CFX_NONE, sizes_of(x, y));
}

static bool above_100(int64_t n, int64_t m) { return (void)m, n > 100; }
static bool below_4096(int64_t n, int64_t m) { return (void)m, n < 4096; }
static bool above_77777(int64_t n, int64_t m) { return (void)m, n > 77777; }
static bool by_8(int64_t n, int64_t m) { return (void)m, n % 8 == 0; }
static bool by_64(int64_t n, int64_t m) { return (void)m, n % 64 == 0; }
static bool by_3_rest_1(int64_t n, int64_t m) { return (void)m, n % 3 == 1; }
static bool is_4096(int64_t n, int64_t m) { return (void)m, n == 4096; }
static bool is_7(int64_t n, int64_t m) { return (void)m, n == 7; }
static bool is_power(int64_t n, int64_t m) { return (void)m, n > 0 && !(n & (n - 1)); }
static bool between(int64_t n, int64_t m) { return (void)m, n >= 4 && n < 4096; }
static bool even_beyond_2(int64_t n, int64_t m) { return (void)m, n % 2 == 0 && n > 2; }
static bool by_12_beyond(int64_t n, int64_t m) { return (void)m, (n > 292 ? n : 292) % 12 == 0; }
static bool is_200(int64_t n, int64_t m) { return (void)m, n == 200; }
static bool tens_are_33(int64_t n, int64_t m) { return (void)m, n / 10 == 33; }
static bool above_149_by_7(int64_t n, int64_t m) { return (void)m, n % 7 != 3 || n > 149; }
static bool smaller_is_30(int64_t n, int64_t m) { return (n < m ? n : m) == 30; }
static bool one_more(int64_t n, int64_t m) { return m == n + 1; }
static bool twice_and_1(int64_t n, int64_t m) { return n == 2 * m + 1; }
static bool sum_is_32(int64_t n, int64_t m) { return n + m == 32; }
static bool is_20_times(int64_t n, int64_t m) { return m == 20 * n; }
static bool quarter_sum(int64_t n, int64_t m) { return m / 15 == 2 || n + m / 4 > 375; }
static bool first_larger(int64_t n, int64_t m) { return n > m; }
static bool product_1000(int64_t n, int64_t m) { return n * m > 1000; }
static bool sum_300(int64_t n, int64_t m) { return n + m >= 300; }
static bool product_odd(int64_t n, int64_t m) { return n % 2 && m % 2; }
static bool equal(int64_t n, int64_t m) { return n == m; }
static bool divides(int64_t n, int64_t m) { return n % m == 0; }
static bool above_twice(int64_t n, int64_t m) { return n > 2 * m; }
static bool above_twice_and_3(int64_t n, int64_t m) { return n > 2 * m + 3; }
static bool above_7_3rds(int64_t n, int64_t m) { return 3 * n > 7 * m; }
static bool half_above(int64_t n, int64_t m) { return n / 2 > m; }
static bool below_5_times(int64_t n, int64_t m) { return m < 5 * n; }
static bool weighted_sum(int64_t n, int64_t m) { return n + 31 * m > 900; }
static bool within(int64_t n, int64_t m) { return n > m + 2 && n < 3 * m; }
static bool second_above_50(int64_t n, int64_t m) { return (void)n, m > 50; }

#define X "L['x'].size()[0]"
#define Y "L['y'].size()[0]"
#define CONSTANT(n)                                                                                \
    "Constraints violated (B)!\n  - You marked B as dynamic but your code specialized it to be a " \
    "constant (" n "). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic. " \
    "If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.\nSuggested "      \
    "fixes:\n  B = " n
#define GUARD(guard)                                                                               \
    "Constraints violated (B)!\n  - Not all values of B = " X " in the specified range satisfy "   \
    "the generated guard " guard

static const struct {
    const char *name;
    bool (*decide)(int64_t n, int64_t m);
    int64_t n;
    const char *error;
} alone[] = {
    {"n > 100", above_100, 7,
     GUARD("2 <= " X " and " X " <= 100\nSuggested fixes:\n  B = Dim('B', max=100)")},
    {"n > 100, true", above_100, 128,
     GUARD("101 <= " X " and " X " <= IntInfinity()\nSuggested fixes:\n  B = Dim('B', min=101)")},
    {"n > 100, at the border", above_100, 100,
     GUARD("2 <= " X " and " X " <= 100\nSuggested fixes:\n  B = Dim('B', max=100)")},
    {"n < 4096", below_4096, 7,
     GUARD("2 <= " X " and " X " <= 4095\nSuggested fixes:\n  B = Dim('B', max=4095)")},
    {"n > 77777", above_77777, 7,
     GUARD("2 <= " X " and " X " <= 77777\nSuggested fixes:\n  B = Dim('B', max=77777)")},
    {"4 <= n < 4096", between, 7,
     GUARD("4 <= " X " and " X " <= 4095\nSuggested fixes:\n  B = Dim('B', min=4, max=4095)")},
    {"n % 8", by_8, 16,
     GUARD("(" X " % 8) == 0.\nSuggested fixes:\n  _B = Dim('_B', min=1, max=oo)\n  B = 8*_B")},
    {"n % 8, not", by_8, 7, GUARD("(" X " % 8) != 0.")},
    {"n % 64", by_64, 64,
     GUARD("(" X " % 64) == 0.\nSuggested fixes:\n  _B = Dim('_B', min=1, max=oo)\n  B = 64*_B")},
    {"n % 64, not", by_64, 7, GUARD("(" X " % 64) != 0.")},
    {"n % 3 == 1", by_3_rest_1, 7,
     GUARD("(" X " % 3) == 1.\nSuggested fixes:\n  _B = Dim('_B', max=oo)\n  B = 3*_B - 2")},
    {"n == 4096", is_4096, 7, GUARD(X " != 4096.")},
    {"n == 4096, true", is_4096, 4096, CONSTANT("4096")},
    {"n == 7", is_7, 7, CONSTANT("7")},
    {"n == 7, not", is_7, 12, GUARD(X " != 7.")},
    {"n % 12 == 0 beyond 292", by_12_beyond, 7,
     GUARD("2 <= " X " and " X " <= 299\nSuggested fixes:\n  B = Dim('B', max=299)")},
    {"n == 200, not", is_200, 12, GUARD(X " != 200.")},
    {"n / 10 == 33", tens_are_33, 7,
     GUARD("2 <= " X " and " X " <= 329\nSuggested fixes:\n  B = Dim('B', max=329)")},
    {"a power of two", is_power, 16, GUARD("(" X " & (" X " - 1)) == 0.")},
    {"no power of two", is_power, 7, GUARD("(" X " & (" X " - 1)) != 0.")},
};

TEST(probe_finds_what_is_asked_of_one_size) {
    for (int i = 0; i < COUNT(alone); i++)
        for (shows = CALL; shows <= FAILURE; shows++) {
            decide = alone[i].decide;
            if (shows == FAILURE && decide(alone[i].n, 1))
                continue; /* the example itself */
            size_t mark = cfx_scope_open();
            if (!CHECK(cfx_failed(export_of(alone[i].n, 0, "B", NULL))))
                printf("    %s, %d\n", alone[i].name, shows);
            CHECK_ERROR(alone[i].error);
            cfx_scope_close(mark);
        }
}

/* Sizes of Dim.AUTO give way, and two sizes become a guard, whoever names them. */
static const struct {
    const char *name;
    bool (*decide)(int64_t n, int64_t m);
    int64_t n, m;
    const char *x, *y, *ranges, *guards;
} granted[] = {
    {"auto n > 100", above_100, 7, 0, "Dim.AUTO", NULL, "{'s77': (2, 100)}", "None"},
    {"auto n % 8", by_8, 16, 0, "Dim.AUTO", NULL, "{'s77': (2, None)}", "[\"(" X " % 8) == 0\"]"},
    {"auto n % 8, not", by_8, 7, 0, "Dim.AUTO", NULL, "{'s77': (2, None)}",
     "[\"(" X " % 8) != 0\"]"},
    {"auto n % 2 beyond 2", even_beyond_2, 130, 0, "Dim.AUTO", NULL, "{'s77': (3, None)}",
     "[\"(" X " % 2) == 0\"]"},
    {"auto n == 4096", is_4096, 7, 0, "Dim.AUTO", NULL, "{'s77': (2, None)}",
     "[\"" X " != 4096\"]"},
    {"auto n == 7", is_7, 7, 0, "Dim.AUTO", NULL, "{}", "None"},
    {"auto n % 7 below 150", above_149_by_7, 24, 0, "Dim.AUTO", NULL, "{'s77': (2, 149)}",
     "[\"(" X " % 7) == 3\"]"},
    {"auto power", is_power, 16, 0, "Dim.AUTO", NULL, "{}", "None"},
    {"n > m", first_larger, 7, 5, "Dim.AUTO", "Dim.AUTO", "{'s77': (3, None), 's17': (2, None)}",
     "[\"" X " > " Y "\"]"},
    {"n > m, not", first_larger, 5, 7, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"" X " <= " Y "\"]"},
    {"n > m, equal", first_larger, 5, 5, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"" X " <= " Y "\"]"},
    {"n * m > 1000", product_1000, 7, 5, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"" X "*" Y " <= 1000\"]"},
    {"n * m > 1000, true", product_1000, 70, 50, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (2, None), 's17': (2, None)}", "[\"" X "*" Y " >= 1001\"]"},
    {"n + m >= 300", sum_300, 7, 5, "Dim.AUTO", "Dim.AUTO", "{'s77': (2, 297), 's17': (2, 297)}",
     "[\"" X " + " Y " <= 299\"]"},
    {"n > 2 * m", above_twice, 12, 5, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (5, None), 's17': (2, None)}", "[\"" X " > 2*" Y "\"]"},
    {"n > 2 * m + 3, not", above_twice_and_3, 12, 5, "B", "C",
     "{'s77': (0, None), 's17': (0, None)}", "[\"" X " <= 3 + 2*" Y "\"]"},
    {"3 * n > 7 * m", above_7_3rds, 12, 5, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (5, None), 's17': (2, None)}", "[\"3*" X " > 7*" Y "\"]"},
    {"n / 2 > m", half_above, 12, 5, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (6, None), 's17': (2, None)}", "[\"" X " >= 2 + 2*" Y "\"]"},
    {"m < 5 * n", below_5_times, 12, 5, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (2, None), 's17': (2, None)}", "[\"" Y " < 5*" X "\"]"},
    {"n + 31 * m > 900, not", weighted_sum, 12, 5, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (2, 838), 's17': (2, 28)}", "[\"" X " + 31*" Y " <= 900\"]"},
    {"n * m % 2 == 0", product_odd, 4, 6, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"((" X "*" Y ") % 2) == 0\"]"},
    {"n == m, not", equal, 7, 5, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"" X " != " Y "\"]"},
    {"m == n + 1, not", one_more, 7, 5, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"" Y " != (1 + " X ")\"]"},
    {"n == 2 * m + 1, not", twice_and_1, 16, 17, "B", "C",
     "{'s77': (0, None), 's17': (0, None)}", "[\"" X " != (1 + 2*" Y ")\"]"},
    {"m == 20 * n, not", is_20_times, 15, 12, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"" Y " != (20*" X ")\"]"},
    {"n + m == 32, not", sum_is_32, 7, 5, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (2, None), 's17': (2, None)}", "[\"" Y " != (32 + (-1)*" X ")\"]"},
    {"n % m == 0", divides, 15, 5, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"(" X " % " Y ") == 0\"]"},
    {"n % m == 0, not", divides, 7, 5, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"(" X " % " Y ") != 0\"]"},
    {"m > 50", second_above_50, 7, 5, "B", "Dim.AUTO", "{'s77': (0, None), 's17': (2, 50)}",
     "None"},
};

TEST(probe_grants_what_is_asked_of_several_sizes_or_automatic_ones) {
    for (int i = 0; i < COUNT(granted); i++)
        for (shows = CALL; shows <= FAILURE; shows++) {
            decide = granted[i].decide;
            if (shows == FAILURE && decide(granted[i].n, granted[i].y ? granted[i].m : 1))
                continue;
            size_t mark = cfx_scope_open();
            cfx_program *p = export_of(granted[i].n, granted[i].m, granted[i].x, granted[i].y);
            if (CHECK_OK()) {
                bool fine = CHECK_STR(cfx_repr(cfx_dict_value(p->ranges)), granted[i].ranges);
                fine &= CHECK_STR(cfx_repr(cfx_dict_get(p->extra, "guards")), granted[i].guards);
                if (!fine)
                    printf("    %s, %d\n", granted[i].name, shows);
            } else {
                printf("    %s, %d\n", granted[i].name, shows);
            }
            cfx_error_clear();
            cfx_scope_close(mark);
        }
}

/* What no condition was found for is refused, and never exported as it is at the example. */
TEST(probe_finds_what_two_sizes_must_be_for) {
    static bool (*const all[])(int64_t n, int64_t m) = {smaller_is_30, is_20_times, quarter_sum,
                                                            within};
    for (int i = 0; i < COUNT(all); i++)
        for (shows = CALL; shows < FAILURE; shows++) {
            size_t mark = cfx_scope_open();
            decide = all[i];
            cfx_program *p = export_of(15, 12, "Dim.AUTO", "Dim.AUTO");
            static const int64_t sizes[][2] = {{30, 300}, {30, 30}, {4, 80}, {300, 301}, {9, 40}};
            for (int k = 0; k < COUNT(sizes) && cfx_ok(); k++) {
                cfx_tensor *x = cfx_ones(sizes[k][0], 3), *y = cfx_ones(sizes[k][1], 3);
                cfx_value want = decide_forward(NULL, (cfx_args){2, CFX_ARGS(x, y).v, NULL});
                cfx_value got = cfx_program_run(p, x, y);
                if (!cfx_ok())
                    CHECK(strstr(cfx_error_last()->message, "Guard failed: ") ||
                          strstr(cfx_error_last()->message, "Expected input at "));
                else if (!CHECK(cfx_equal_values(cfx_item(want), cfx_item(got))))
                    printf("    condition %d at %d, %d\n", i, (int)sizes[k][0], (int)sizes[k][1]);
                cfx_error_clear();
            }
            if (!cfx_ok())
                CHECK_ERROR("the program is not the same at all sizes");
            cfx_scope_close(mark);
        }
}

static cfx_value split_forward(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value parts = cfx_split(a.v[0], 1);
    return cfx_tuple(cfx_add(cfx_at(parts, 0), 1), cfx_mul(cfx_at(parts, -1), 2));
}

/* A trial that has become far longer than the program is not recorded to its end, and its limit is
 * nobody's error. */
TEST(probe_gives_up_trials_that_grow_without_end) {
    cfx_program *p = cfx_export(cfx_module_new("M", split_forward, "x"),
                                cfx_tuple(cfx_ones(3, 4)), CFX_NONE, sizes_of("Dim.AUTO", NULL));
    CHECK_OK();
    CHECK_STR(cfx_repr(cfx_dict_value(p->ranges)), "{}");
    CHECK_INT(cfx_set_node_limit(0), 0);
}

static bool never(int64_t n, int64_t m) { return n < 0 && m < 0; }

TEST(probe_notes_which_sizes_were_tried) {
    decide = never;
    shows = CALL;
    cfx_program *p = export_of(7, 0, "B", NULL);
    CHECK_OK();
    cfx_value noted = cfx_dict_get(p->extra, "probed");
    const char *sizes =
        noted.tag == CFX_TAG_DICT ? cfx_text(cfx_dict_get(cfx_as_dict(noted), "s77")) : NULL;
    if (CHECK(sizes)) {
        CHECK(!strncmp(sizes, "2-6, 8-257, ", 12)); /* the example is 7 */
        CHECK(strstr(sizes, "511-51"));
        CHECK(strstr(sizes, ", 4095-4097, "));
    }
    p = cfx_export(cfx_module_new("M", decide_forward, "x"), cfx_tuple(cfx_ones(7, 3)), CFX_NONE,
                   sizes_of("B", NULL), .probe_ms = -1);
    CHECK_OK();
    noted = cfx_dict_get(p->extra, "probed");
    CHECK_STR(cfx_repr(noted), "{'s77': '2-6, 8-9, 15-17, 31-33, 63-65'}");
}

TEST(probe_guards_are_checked_when_the_program_runs) {
    decide = product_1000;
    shows = CALL;
    cfx_program *p = export_of(7, 5, "B", "C");
    CHECK_OK();
    CHECK(!cfx_is_bad(cfx_program_run(p, cfx_ones(100, 3), cfx_ones(10, 3))));
    CHECK(cfx_is_bad(cfx_program_run(p, cfx_ones(101, 3), cfx_ones(10, 3))));
    CHECK_ERROR("Guard failed: x.size()[0] * y.size()[0] <= 1000");
}

/* A name that no size is alone is said by the size that is made of it. */
TEST(probe_guards_of_derived_sizes_are_checked) {
    decide = product_1000;
    shows = CALL;
    cfx_program *p = export_of(8, 5, "2*k", "C");
    CHECK_OK();
    CHECK_STR(cfx_repr(cfx_dict_get(p->extra, "guards")), "[\"" Y "*(" X " // 2) <= 500\"]");
    CHECK(!cfx_is_bad(cfx_program_run(p, cfx_ones(100, 3), cfx_ones(10, 3))));
    CHECK(cfx_is_bad(cfx_program_run(p, cfx_ones(102, 3), cfx_ones(10, 3))));
    CHECK_ERROR("Guard failed: y.size()[0] * (x.size()[0] // 2) <= 500");
}

/* ---- comparisons that are noted -------------------------------------------------------------- */

static const char *relation;
static int64_t divisor, number;

/* n // divisor compared with a number, or with the second size. */
static cfx_value compare_forward(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *x = cfx_as_tensor(a.v[0]), *y = a.n > 1 ? cfx_as_tensor(a.v[1]) : x;
    cfx_value n = cfx_int(cfx_dim(x, 0)), m = a.n > 1 ? cfx_int(cfx_dim(y, 0)) : cfx_int(number);
    n = divisor > 0 ? cfx_py("operator.floordiv", n, divisor)
        : divisor   ? cfx_py("operator.mod", n, -divisor)
                    : n;
    bool yes = cfx_is_true(cfx_py(relation, n, m));
    cfx_tensor *sum = cfx_add(cfx_sum(x), cfx_sum(y));
    return cfx_tensor_value(yes ? cfx_relu(sum) : cfx_mul(sum, 3));
}

static const struct {
    const char *name, *relation;
    int64_t divisor, number, n, m;
    const char *x, *y;
    const char *ranges, *guards, *error;
} compared[] = {
    {"n < 4096", "operator.lt", 0, 4096, 7, 0, "B", NULL, NULL, NULL,
     GUARD("2 <= " X " and " X " <= 4095\nSuggested fixes:\n  B = Dim('B', max=4095)")},
    {"n < 30 million", "operator.lt", 0, 30000000, 7, 0, "B", NULL, NULL, NULL,
     GUARD("2 <= " X " and " X " <= 29999999\nSuggested fixes:\n  B = Dim('B', max=29999999)")},
    {"n == 12345", "operator.eq", 0, 12345, 7, 0, "B", NULL, NULL, NULL, GUARD(X " != 12345.")},
    {"n == 12345, auto", "operator.eq", 0, 12345, 7, 0, "Dim.AUTO", NULL, "{'s77': (2, None)}",
     "[\"" X " != 12345\"]", NULL},
    {"n == 7", "operator.eq", 0, 7, 7, 0, "B", NULL, NULL, NULL, CONSTANT("7")},
    {"n // 5 <= 20000", "operator.le", 5, 20000, 7, 0, "Dim.AUTO", NULL, "{'s77': (2, 100004)}",
     "None", NULL},
    {"n % 1000 == 0, not", "operator.eq", -1000, 0, 7, 0, "Dim.AUTO", NULL, "{'s77': (2, None)}",
     "[\"(" X " % 1000) != 0\"]", NULL},
    {"n % 16 == 0", "operator.eq", -16, 0, 32, 0, "Dim.AUTO", NULL, "{'s77': (2, None)}",
     "[\"(" X " % 16) == 0\"]", NULL},
    {"n >= 1", "operator.ge", 0, 1, 7, 0, "B", NULL, "{'s77': (0, None)}", "None", NULL},
    {"n != -3", "operator.ne", 0, -3, 7, 0, "B", NULL, "{'s77': (0, None)}", "None", NULL},
    {"n > m", "operator.gt", 0, 0, 7, 5, "Dim.AUTO", "Dim.AUTO",
     "{'s77': (3, None), 's17': (2, None)}", "[\"" X " > " Y "\"]", NULL},
    {"n > m, named", "operator.gt", 0, 0, 7, 5, "B", "C", NULL, NULL,
     "Constraints violated (B)!\n  - Not all values of B = " X " in the specified range satisfy "
     "the generated guard 3 <= " X " and " X " <= IntInfinity()\n"
     "Suggested fixes:\n  B = Dim('B', min=3)"},
    {"n // 3 > m, not", "operator.gt", 3, 0, 7, 5, "B", "C", "{'s77': (0, None), 's17': (0, None)}",
     "[\"(" X " // 3) <= " Y "\"]", NULL},
    {"n == m", "operator.eq", 0, 0, 7, 7, "Dim.AUTO", "Dim.AUTO", "{'s17': (2, None)}", "None",
     NULL},
};

TEST(probe_knows_comparisons_that_are_noted_exactly) {
    for (int i = 0; i < COUNT(compared); i++) {
        size_t mark = cfx_scope_open();
        relation = compared[i].relation;
        divisor = compared[i].divisor;
        number = compared[i].number;
        bool two = compared[i].y != NULL;
        cfx_module *module = cfx_module_new("M", compare_forward, two ? "x, y" : "x");
        cfx_value x = cfx_tensor_value(cfx_ones(compared[i].n, 3));
        cfx_program *p =
            cfx_export(module, two ? cfx_tuple(x, cfx_ones(compared[i].m, 3)) : cfx_tuple(x),
                       CFX_NONE, sizes_of(compared[i].x, compared[i].y));
        bool fine = compared[i].error ? CHECK_ERROR(compared[i].error) : CHECK_OK();
        if (fine && !compared[i].error) {
            fine &= CHECK_STR(cfx_repr(cfx_dict_value(p->ranges)), compared[i].ranges);
            fine &= CHECK_STR(cfx_repr(cfx_dict_get(p->extra, "guards")), compared[i].guards);
        }
        if (!fine)
            printf("    %s\n", compared[i].name);
        cfx_error_clear();
        cfx_scope_close(mark);
    }
}

/* ---- sizes of views -------------------------------------------------------------------------- */

static cfx_value reshape_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_reshape(a.v[1], cfx_list(cfx_dim(cfx_as_tensor(a.v[0]), 0), -1)));
}

/* As PyTorch has it: the two sizes are one, be there others that divide y or not. */
TEST(a_view_by_the_size_of_another_input_makes_them_one) {
    static const int64_t sizes[] = {4, 6, 7};
    for (int i = 0; i < COUNT(sizes); i++) {
        const int64_t n = sizes[i];
        cfx_module *module = cfx_module_new("M", reshape_forward, "x, y");
        cfx_program *p = cfx_export(module, cfx_tuple(cfx_ones(n, 3), cfx_ones(n, 2, 5)), CFX_NONE,
                                    sizes_of("Dim.AUTO", "Dim.AUTO"));
        CHECK_OK();
        CHECK_STR(cfx_repr(cfx_dict_value(p->ranges)), "{'s17': (2, None)}");
        cfx_value out = cfx_program_run(p, cfx_ones(9, 3), cfx_ones(9, 2, 5));
        CHECK_INT(cfx_dim(cfx_as_tensor(out), 1), 10);
        CHECK(cfx_is_bad(cfx_program_run(p, cfx_ones(2, 3), cfx_ones(9, 2, 5))));
        cfx_error_clear();
        cfx_export(module, cfx_tuple(cfx_ones(n, 3), cfx_ones(n, 2, 5)), CFX_NONE,
                   sizes_of("B", "C"));
        CHECK_ERROR("Constraints violated");
    }
}

static cfx_value turned_forward(cfx_module *self, cfx_args a) {
    (void)self;
    const cfx_tensor *x = cfx_as_tensor(a.v[0]);
    return cfx_tensor_value(cfx_reshape(a.v[0], cfx_list(cfx_dim(x, 1), cfx_dim(x, 0))));
}

TEST(a_view_by_sizes_that_change_places_makes_them_one) {
    cfx_module *module = cfx_module_new("M", turned_forward, "x");
    cfx_dict *own = cfx_dict_new(), *all = cfx_dict_new();
    cfx_dict_put(own, cfx_int(0), cfx_string_value("Dim.AUTO"));
    cfx_dict_put(own, cfx_int(1), cfx_string_value("Dim.AUTO"));
    cfx_dict_set(all, "x", cfx_dict_value(own));
    cfx_program *p = cfx_export(module, cfx_tuple(cfx_ones(4, 4)), CFX_NONE, cfx_dict_value(all));
    CHECK_OK();
    CHECK_INT(p->ranges->len, 1);
    CHECK_INT(cfx_dim(cfx_as_tensor(cfx_program_run(p, cfx_ones(9, 9))), 0), 9);
}
