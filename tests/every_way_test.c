/* Small programs that were once another thing when decomposed, planned or optimised: they give the
 * same in every way, results and what is left in inputs. Random ones: programs_test.c. */
#include "test.h"

#include "../fuzz/use.h"
#include "../src/value/value.h"

#include <string.h>

/* Inputs as a signature has them, statements divided by bars ("aten." is torch.ops.aten), and what
 * is returned. */
typedef struct {
    const char *inputs, *calls, *results;
} small;

static cfx_program *program_of(const small *s) {
    cfx_value calls = cfx_list_value(0, NULL);
    const char *at = s->calls;
    for (size_t n; *at; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        const char *text = cfx__text_format("%.*s", (int)n, at), *op = strstr(text, "aten.");
        cfx_list_append(cfx_as_list(calls),
                        cfx_string_value(cfx__text_format("        %.*storch.ops.%s\n",
                                                          (int)(op - text), text, op)));
    }
    const char *body = "";
    for (int64_t i = 0; i < cfx_as_list(calls)->len; i++)
        body = cfx__text_format("%s%s", body, cfx_text(cfx_as_list(calls)->items[i]));
    return cfx_program_parse(cfx__text_format("class GraphModule(torch.nn.Module):\n"
                                              "    def forward(self, %s):\n"
                                              "%s        return (%s,)\n",
                                              s->inputs, body, s->results),
                             "small");
}

static void compare(const small *s, cfx_program *p, cfx_value in, const outcome *first,
                    const char *way) {
    if (!cfx_ok()) {
        test_fail(CFX_HERE, "%s: %s, of %s", way, cfx_error_last()->message, s->calls);
        cfx_clear();
        return;
    }
    outcome by = use_run(p, &cfx_interpreter, in), planned = use_run(p, &cfx_planner, in);
    if (strcmp(by.why, first->why) || !use_same(&by, first, 1e-6))
        test_fail(CFX_HERE, "%s: %s %s, not %s %s, of %s", way, by.why, cfx_str(by.leaves),
                  first->why, cfx_str(first->leaves), s->calls);
    if (strcmp(planned.why, first->why) || !use_same(&planned, first, 1e-6))
        test_fail(CFX_HERE, "%s, planned: %s %s, not %s %s, of %s", way, planned.why,
                  cfx_str(planned.leaves), first->why, cfx_str(first->leaves), s->calls);
}

static void in_every_way(const small *s) {
    cfx_program *p = program_of(s);
    CHECK_OK();
    cfx_value in = fuzz_inputs(p);
    outcome first = use_run(p, &cfx_interpreter, in);
    compare(s, p, in, &first, "as it is");
    compare(s, cfx_decompose(p, CFX_NONE), in, &first, "decomposed");
    compare(s, cfx_optimize(p), in, &first, "optimised");
}

#define ALL(table)                                                                                 \
    for (size_t i_ = 0; i_ < sizeof table / sizeof *table; i_++)                                   \
    in_every_way(&table[i_])

TEST(writes_to_views_of_other_dtypes_are_put_back) {
    static const small all[] = {
        {"x: \"i64[3, 0]\"",
         "v = aten.view.dtype(x, torch.float16)|f = aten.fill_.Scalar(v, 0.125)", "f, x"},
    };
    ALL(all);
}

TEST(batch_norm_updates_one_statistic_alone) {
    static const small all[] = {
        {"x: \"f32[4, 3]\", m: \"f32[3]\"",
         "y = aten.batch_norm.default(x, None, None, m, None, True, 0.25, 1e-05, False)", "y, m"},
        {"x: \"f32[4, 3]\", v: \"f32[3]\"",
         "y = aten.batch_norm.default(x, None, None, None, v, True, 0.25, 1e-05, False)", "y, v"},
    };
    ALL(all);
}
