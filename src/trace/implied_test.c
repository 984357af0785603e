/* What calls ask of sizes that data tells: it is asserted by the program, and by the decomposed and
 * the reopened one; what they do not ask is not. */
#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/ops.h>

#include "dims.h"
#include "test.h"

#define X (cfx_as_tensor(a.v[0]))
#define N (cfx_as_tensor(a.v[1]))
#define FORWARD(name, ...)                                                                         \
    static cfx_value name(cfx_module *self, cfx_args a) {                                          \
        (void)self;                                                                                \
        return CFX_V(__VA_ARGS__);                                                                 \
    }

/* The places of what is not zero: 3 in the example, as X has rows. */
static cfx_tensor *places(const cfx_tensor *n) { return cfx_select(cfx_nonzero(n), 1, 0); }
static cfx_tensor *negative(const cfx_tensor *n) {
    return cfx_select(cfx_nonzero(cfx_lt(n, 0)), 1, 0);
}
static cfx_value item(const cfx_tensor *n) { return cfx_item(cfx_max(n)); }

FORWARD(added, cfx_add(places(N), cfx_tensor_from_value(cfx_list(1, 2, 3))))
FORWARD(viewed, cfx_view(places(N), cfx_list(3, 1)))
FORWARD(paired, cfx_view(places(N), cfx_list(3, -1)))
FORWARD(cut, cfx_narrow(places(N), 0, 1, 2))
FORWARD(third, cfx_select(places(N), 0, 2))
FORWARD(row_added, cfx_add(places(N), cfx_select(X, 1, 0)))
FORWARD(by_rows, cfx_view(places(N), cfx_list(-1, cfx_size(X, 0))))
FORWARD(sum_by_rows,
        cfx_view(cfx_cat(cfx_list(places(N), negative(N))), cfx_list(-1, cfx_size(X, 0))))
FORWARD(alike, cfx_stack(cfx_list(places(N), negative(N))))
FORWARD(shared_out, cfx_view(cfx_cat(cfx_list(places(N), negative(N))), cfx_list(6)))
FORWARD(numbered, cfx_add(cfx_zeros(cfx_list(item(N))), cfx_tensor_from_value(cfx_list(1, 2, 3))))
FORWARD(in_the_middle, cfx_add(cfx_index(cfx_unsqueeze(N, 0), cfx_list(CFX_NONE, cfx_lt(N, 0))),
                               cfx_tensor_from_value(cfx_list(1, 2, 3))))
FORWARD(unasked, cfx_mul(places(N), 2))

static const struct {
    const char *name;
    cfx_forward_fn *forward;
    const char *fixed, *dynamic; /* what the program asserts; where rows vary; NULL: nothing, "": it
                                    is not exported so */
    int bad[5];
} all[] = {
    {"added", added, "Eq(u0, 3)", "Eq(u0, 3)", {-1, 0, -1, 0, 0}},
    {"viewed", viewed, "Eq(u0, 3)", "Eq(u0, 3)", {-1, -1, -1, -1, 0}},
    {"paired", paired, "Eq(Mod(u0, 3), 0)", "Eq(Mod(u0, 3), 0)", {-1, 0, 0, -1, 0}},
    {"cut", cut, "u0 >= 3", "u0 >= 3", {-1, 0, 0, -1, 0}},
    {"third", third, "u0 >= 3", "u0 >= 3", {-1, 0, 0, 0, 0}},
    {"row added", row_added, "Eq(u0, 3)", "Eq(u0, s77)", {-1, 0, -1, 0, 0}},
    {"by rows", by_rows, "Eq(Mod(u0, 3), 0)", "Eq(Mod(u0, s77), 0)", {-1, 0, 0, -1, 0}},
    {"sum by rows", sum_by_rows, "Eq(Mod(u0 + u1, 3), 0)", "", {-1, 0, 1, 1, 0}},
    {"alike", alike, "Eq(u1, u0)", "Eq(u1, u0)", {-1, 0, 1, 1, 0}},
    {"shared out", shared_out, "Eq(u0 + u1, 6)", "Eq(u0 + u1, 6)", {-1, 0, -1, 0, 0}},
    {"numbered", numbered, "Eq(u0, 3)", "Eq(u0, 3)", {4, 0, 0, 0, 0}},
    {"in the middle", in_the_middle, "Eq(u0, 3)", "Eq(u0, 3)", {-1, 0, -1, 0, 0}},
    {"unasked", unasked, NULL, NULL, {0, 0, 0, 0, 0}},
};

static cfx_tensor *numbers(const int *n) {
    return cfx_tensor_from_value(cfx_list(n[0], n[1], n[2], n[3], n[4]));
}

static void check(const char *name, cfx_program *p, cfx_module *m, int i, const char *asserts) {
    cfx_tensor *x = cfx_randn(3, 4);
    if (!CHECK(cfx_program_check(p)))
        test_fail(CFX_HERE, "%s, %s: %s", all[i].name, name, cfx_error_last()->message);
    cfx_error_clear();
    static const int three[] = {-1, 0, -1, 0, -1}, one[] = {3, 0, 0, 0, 0};
    cfx_tensor *good = numbers(all[i].forward == numbered ? one : three);
    cfx_value y = cfx_program_run(p, x, good);
    if (!CHECK_OK() || !CHECK(cfx_is_true(cfx_allclose(y, cfx_forward(m, x, good)))))
        test_fail(CFX_HERE, "%s, %s", all[i].name, name);
    cfx_program_run(p, x, numbers(all[i].bad));
    if (!asserts)
        CHECK_OK();
    else if (cfx_ok())
        test_fail(CFX_HERE, "%s, %s: runs", all[i].name, name);
    cfx_error_clear();
}

static cfx_value rows_vary(void) {
    cfx_dict *x = cfx_dict_new(), *sizes = cfx_dict_new();
    cfx_dict_put(x, cfx_int(0), cfx_tuple("b", 2, 9));
    cfx_dict_set(sizes, "x", cfx_dict_value(x));
    return cfx_dict_value(sizes);
}

TEST(what_calls_ask_of_sizes_that_data_tells_is_asserted) {
    static const int three[] = {-1, 0, -1, 0, -1};
    for (int i = 0; i < COUNT(all); i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            const char *asserts = dynamic ? all[i].dynamic : all[i].fixed;
            if (asserts && !*asserts)
                continue;
            cfx_module *m = cfx_module_new("Asks", all[i].forward, "x, n");
            cfx_value args = cfx_tuple(cfx_randn(3, 4), numbers(three));
            cfx_program *p = cfx_export(m, args, CFX_NONE, dynamic ? rows_vary() : CFX_NONE);
            const char *text = cfx_ok() ? cfx_program_str(p) : "";
            if (!CHECK_OK() || (asserts && !CHECK(strstr(text, asserts)))) {
                test_fail(CFX_HERE, "%s:\n%s", all[i].name, text);
                continue;
            }
            check("exported", p, m, i, asserts);
            check("decomposed", cfx_decompose(p, CFX_NONE), m, i, asserts);
        }
}

/* What no size at all makes work stays the error that it is. */
FORWARD(never, cfx_add(cfx_add(places(N), cfx_tensor_from_value(cfx_list(1, 2, 3))),
                       cfx_tensor_from_value(cfx_list(1, 2))))

TEST(what_no_size_makes_work_is_refused) {
    static const int three[] = {-1, 0, -1, 0, -1};
    cfx_module *m = cfx_module_new("Never", never, "x, n");
    cfx_value args = cfx_tuple(cfx_randn(3, 4), numbers(three));
    CHECK(cfx_failed(cfx_export(m, args, CFX_NONE, CFX_NONE)));
    CHECK_ERROR("The size of tensor a (3) must match the size of tensor b (2) at non-singleton "
                "dimension 0");
}
