/* The description of plans speaks: a target that knows nothing else computes what the interpreter
 * does, for the programs of this repository and, where CFX_PROGRAMS names folders of folders with a
 * model.pt2 and its inputs.safetensors (several with blanks between), for those; then CFX_REPORT
 * names a file for the counts. */
#include <cfx.h>
#include <math.h>
#include <stdlib.h>

#include "folders.h"
#include "plain.h"
#include "test.h"

TEST(a_target_of_the_description_alone_agrees_with_the_interpreter) {
    verdicts v = {0};
    plain_ran = (plain_counts){0};
    folder_check(&plain_executor, CFX_TEST_DATA "/zoo", &v);
    folder_check(&plain_executor, "examples/data", &v);
    CHECK_INT(v.others, 0);
    CHECK_INT(v.agree, 9);
    CHECK(plain_ran.layers > 10 && plain_ran.loops > 10 && plain_ran.views > 20);
    CHECK(plain_ran.placed > 5 && plain_ran.higher > 0);
    const char *report = getenv("CFX_REPORT");
    FILE *out = report ? fopen(report, "w") : NULL;
    for (const char *at = NULL, *folder; (folder = folder_given(&at)) != NULL;) {
        v = (verdicts){0};
        plain_ran = (plain_counts){0};
        folder_check(&plain_executor, folder, &v);
        if (out)
            fprintf(out,
                    "%s: %d agree, %d do not run; kernels: %ld layers, %ld loops, %ld views, %ld "
                    "joins, %ld calls (%ld placed), %ld higher\n",
                    folder, v.agree, v.others, plain_ran.layers, plain_ran.loops, plain_ran.views,
                    plain_ran.joins, plain_ran.calls, plain_ran.placed, plain_ran.higher);
    }
    if (out)
        fclose(out);
}

/* Programs with caches (c_...) of CFX_PROGRAMS, and those of this repository that write. */
TEST(thirty_steps_of_a_program_are_planned_once) {
    CHECK_INT(folder_steps(CFX_TEST_DATA "/zoo", "mutating", 30), 1);
    CHECK_INT(folder_steps(CFX_TEST_DATA "/zoo", "dyn_", 30), 1);
    for (const char *at = NULL, *folder; (folder = folder_given(&at)) != NULL;)
        CHECK(folder_steps(folder, "c_", 30) >= 0);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static double value_of(const char *text, double x, double y) {
    plain_expr *e = plain_parse(text);
    const plain_number in[] = {plain_float(x), plain_float(y), plain_float(0)};
    const plain_number numbers[CFX__LOOP_NUMBERS] = {{false, 2, 0}};
    CHECK(e != NULL);
    const double v = e ? plain_eval(e, in, numbers, false).f : NAN;
    plain_expr_free(e);
    return v;
}

TEST(expressions_of_steps_mean_what_c_means) {
    CHECK(value_of("x - y - 1", 5, 2) == 2);
    CHECK(value_of("x + p0 * y", 1, 3) == 7);
    CHECK(value_of("x > y || x != x ? x : y", 1, 3) == 3);
    CHECK(value_of("x < y == 1 ? -x : (T)0.5 * y", 1, 3) == -1);
    CHECK(value_of("({ T a = x * x; const T b = a + 1; b * y; })", 2, 3) == 15);
    CHECK(value_of("HOLD(x + 3, 0, 6) / 6", 9, 0) == 1);
    CHECK(value_of("WRAP(x, *, WRAP(y, +, 1))", 2, 3) == 8);
    CHECK(plain_parse("mystery(x)") == NULL);
    CHECK(plain_parse("x +") == NULL);
}
