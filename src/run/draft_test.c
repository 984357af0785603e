/* Draft export: where cfx_export refuses, a program that does what the example does, refuses other
 * data, and says what was assumed. */
#include <cfx/export.h>
#include <cfx/layers.h>
#include <cfx/ops.h>
#include <cfx/trace.h>

#include "test.h"

#include "../value/value.h"

#define FORWARD(name) static cfx_value name(cfx_module *self, cfx_args a)
#define X a.v[0]
#define N a.v[1]
#define GIVE(t)                                                                                    \
    do {                                                                                           \
        (void)self;                                                                                \
        return cfx_tensor_value(t);                                                                \
    } while (0)
#define OP(name, ...) cfx_py("operator." name, __VA_ARGS__)
#define cfx_integer(v) cfx_integer_from(CFX_HERE, v)
#define cfx_dim(t, i) cfx_dim_from(CFX_HERE, t, i)
#define cfx_tensor_get(t, i) cfx_tensor_get_from(CFX_HERE, t, i)

FORWARD(reads_item) { GIVE(cfx_integer(cfx_item(N)) == 5 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(compares_item) { GIVE(cfx_is_true(OP("gt", cfx_item(N), 3)) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(computes_item) {
    cfx_value k = OP("add", OP("mul", cfx_item(N), 2), 1);
    GIVE(cfx_is_true(OP("lt", 3, k)) ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(compares_float) {
    cfx_value first = cfx_item(cfx_select(X, 0, 0));
    GIVE(cfx_is_true(OP("gt", first, 0.5)) ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(reads_truth) { GIVE(cfx_is_true(cfx_gt(cfx_sum(X), 0)) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_size) { GIVE(cfx_dim(cfx_nonzero(X), 0) == 3 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_twice) {
    cfx_value k = cfx_item(N);
    cfx_tensor *y = cfx_is_true(OP("gt", k, 3)) ? cfx_sin(X) : cfx_cos(X);
    GIVE(cfx_is_true(OP("lt", k, 9)) ? y : cfx_neg(y));
}
FORWARD(reads_element) { GIVE(cfx_tensor_get(cfx_as_tensor(N), 0) > 3 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(wants_a_size) { GIVE(cfx_dim(cfx_as_tensor(X), 0) == 4 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(is_fine) { GIVE(cfx_add(X, cfx_item(N))); }

static cfx_value example(int64_t n) {
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(1.0, 0.0, 2.0, 0.25));
    return cfx_tuple(x, cfx_tensor_from_value(cfx_int(n)));
}

static cfx_value run(cfx_program *p, cfx_value args) {
    return cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL,
                                (cfx_args){2, cfx_as_list(args)->items, NULL});
}

static cfx_module *module_of(cfx_forward_fn *forward) {
    return cfx_module_new("Draft", forward, "x, n");
}

typedef struct {
    cfx_forward_fn *forward;
    int64_t like, unlike; /* numbers for which the example's way is taken, and is not */
    const char *asked, *value;
} draft;

/* The refusal of an export, the draft, and what that refuses. */
static void check_draft(const draft *d) {
    cfx_module *m = module_of(d->forward);
    cfx_export(m, example(5), CFX_NONE, CFX_NONE);
    CHECK(!cfx_ok());
    cfx_error_clear();
    cfx_program *p = cfx_draft_export(m, example(5), CFX_NONE, CFX_NONE);
    CHECK_OK();
    cfx_value told = cfx_draft_failures(p);
    CHECK_INT(cfx_len(told), 1);
    const cfx_dict *first = cfx_as_dict(cfx_at(told, 0));
    CHECK_STR(cfx_text(cfx_dict_get(first, "expression")), d->asked);
    CHECK_STR(cfx_text(cfx_dict_get(first, "value")), d->value);
    CHECK(strstr(cfx_text(cfx_dict_get(first, "line")), "draft_test.c") != NULL);
    cfx_args like = {2, cfx_as_list(example(d->like))->items, NULL};
    cfx_value eager = cfx_forward_value_from(CFX_HERE, m, like);
    CHECK(cfx_is_true(cfx_equal(run(p, example(d->like)), eager)));
    CHECK_OK();
    if (d->unlike == d->like)
        return;
    run(p, example(d->unlike));
    CHECK(!cfx_ok() && strstr(cfx_error_last()->message, "Runtime assertion failed"));
    cfx_error_clear();
}

TEST(drafts_do_what_the_example_does) {
    static const draft drafts[] = {{reads_item, 5, 4, "u0", "5"},
                                   {compares_item, 4, 3, "u0 > 3", "True"},
                                   {computes_item, 2, 1, "2*u0 + 1 > 3", "True"},
                                   {compares_float, 5, 5, "zuf0 > 0.5", "True"},
                                   {reads_truth, 5, 5, "Eq(u0, 1)", "True"},
                                   {reads_size, 5, 5, "u0", "3"}};
    for (int i = 0; i < COUNT(drafts); i++)
        check_draft(&drafts[i]);
}

TEST(drafts_tell_all_that_is_wrong) {
    cfx_program *p = cfx_draft_export(module_of(reads_twice), example(5), CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK_INT(cfx_len(cfx_draft_failures(p)), 2);
    const char *report = cfx_draft_report(p);
    CHECK(strstr(report, "WARNING: 2 issue(s) found during export") != NULL);
    CHECK(strstr(report, "unable to evaluate the value of `u0 > 3`") != NULL);
    CHECK(strstr(report, "unable to evaluate the value of `u0 < 9`") != NULL);
    CHECK(strstr(report, "specialized to a constant (e.g. `True`)") != NULL);
    run(p, example(8));
    CHECK_OK();
    run(p, example(9));
    CHECK(!cfx_ok());
    cfx_error_clear();
}

TEST(drafts_let_sizes_be_what_they_must) {
    cfx_module *m = module_of(wants_a_size);
    cfx_value dynamic = cfx_dict_of("x", cfx_dict_of(0, "batch"));
    cfx_program *p = cfx_draft_export(m, example(5), CFX_NONE, dynamic);
    CHECK_OK();
    cfx_value told = cfx_draft_failures(p);
    CHECK_INT(cfx_len(told), 1);
    CHECK_STR(cfx_text(cfx_dict_get(cfx_as_dict(cfx_at(told, 0)), "kind")), "sizes");
    CHECK(strstr(cfx_draft_report(p), "Constraint violation error.") != NULL);
    run(p, example(5));
    CHECK_OK();
}

TEST(drafts_of_what_is_fine_are_exports) {
    cfx_program *p = cfx_draft_export(module_of(is_fine), example(5), CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK_INT(cfx_len(cfx_draft_failures(p)), 0);
    CHECK(strstr(cfx_draft_report(p), "No issues are found during export") != NULL);
    CHECK(cfx_is_true(cfx_equal(run(p, example(7)),
                                cfx_add(cfx_at(example(7), 0), 7))));
    CHECK_OK();
}

TEST(drafts_of_what_cannot_be_are_errors) {
    cfx_draft_export(module_of(reads_element), example(5), CFX_NONE, CFX_NONE);
    CHECK(!cfx_ok() && strstr(cfx_error_last()->message, "data-dependent expression"));
    cfx_error_clear();
    cfx_draft_export(NULL, example(5), CFX_NONE, CFX_NONE);
    CHECK(!cfx_ok());
    cfx_error_clear();
}
