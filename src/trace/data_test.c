/* Numbers that are data: C must not decide by them, forward may check them, and what is computed
 * with them is the same whichever way a module goes. Sentences and texts are PyTorch's. */
#include "ways_test.h"

#define FORWARD(name) static cfx_value name(cfx_module *self, cfx_args a)
#define X a.v[0]
#define N a.v[1]
#define GIVE(t)                                                                                    \
    do {                                                                                           \
        (void)self;                                                                                \
        return cfx_tensor_value(t);                                                                \
    } while (0)
#define OP(name, ...) cfx_py("operator." name, __VA_ARGS__)

/* As programs of the caller's have them: with their lines. */
#define cfx_integer(v) cfx_integer_from(CFX_HERE, v)
#define cfx_number(v) cfx_number_from(CFX_HERE, v)
#define cfx_dim(t, i) cfx_dim_from(CFX_HERE, t, i)
#define cfx_tensor_get(t, i) cfx_tensor_get_from(CFX_HERE, t, i)
#define cfx_tensor_shape(t) cfx_tensor_shape_from(CFX_HERE, t)
#define cfx_tensor_numel(t) cfx_tensor_numel_from(CFX_HERE, t)

/* ---- what must not decide -------------------------------------------------------------------- */

static cfx_value first_of(cfx_value x) { return cfx_item(cfx_select(cfx_select(x, 0, 0), 0, 0)); }

/* Through several functions. */
static int64_t doubled(cfx_value k) { return 2 * cfx_as_int(k); }
static bool is_large(cfx_value x) { return doubled(cfx_item(cfx_argmax(x))) > 8; }

FORWARD(reads_item) { GIVE(cfx_integer(cfx_item(N)) == 5 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_deeply) { GIVE(is_large(X) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(compares_item) { GIVE(cfx_is_true(OP("eq", cfx_item(N), 5)) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(computes_item) {
    cfx_value k = OP("add", OP("mul", cfx_item(N), 2), 1);
    GIVE(cfx_is_true(OP("lt", 3, k)) ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(reads_float) { GIVE(cfx_number(first_of(X)) > 0.5 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(compares_float) {
    GIVE(cfx_is_true(OP("gt", first_of(X), 0.5)) ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(reads_truth) { GIVE(cfx_is_true(cfx_gt(cfx_sum(X), 0)) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_number_as_truth) { GIVE(cfx_is_true(N) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_list) {
    cfx_value all = cfx_method(cfx_stack(cfx_list(N, N)), "tolist");
    GIVE(cfx_as_int(cfx_at(all, 1)) > 3 ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(equals_item) {
    GIVE(cfx_equal_values(cfx_item(N), cfx_int(5)) ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(reads_size) { GIVE(cfx_dim(cfx_nonzero(X), 0) == 0 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_far_size) { GIVE(cfx_dim(cfx_nonzero(X), 0) == 7919 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_shape) { GIVE(cfx_tensor_shape(cfx_nonzero(X))[0] > 3 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_count) { GIVE(cfx_tensor_numel(cfx_nonzero(X)) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_element) { GIVE(cfx_tensor_get(cfx_as_tensor(N), 0) > 3 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(reads_length) { GIVE(cfx_len(cfx_nonzero(X)) > 3 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(walks_rows) {
    cfx_value rows = cfx_items(cfx_nonzero(X));
    GIVE(cfx_len(rows) > 3 ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(compares_size) {
    GIVE(cfx_is_true(OP("eq", cfx_size(cfx_nonzero(X), 0), 0)) ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(reads_part) {
    cfx_tensor *rest = cfx_cat(cfx_list(cfx_nonzero(X), cfx_zeros_like(cfx_nonzero(X))));
    GIVE(cfx_dim(rest, 0) > 3 ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(takes_dimension) { GIVE(cfx_sum(X, cfx_item(N))); }
FORWARD(takes_truth) { GIVE(cfx_sum(X, 0, cfx_item(cfx_gt(N, 3)))); }
FORWARD(makes_constant) { GIVE(cfx_add(X, cfx_tensor_from_value(cfx_item(N)))); }
FORWARD(counts_rounds) {
    cfx_tensor *y = cfx_as_tensor(X);
    for (int64_t i = 0; i < cfx_integer(cfx_item(N)); i++)
        y = cfx_mul(y, 2);
    GIVE(y);
}

#define EXTRACT(e, like)                                                                           \
    "Could not extract specialized integer from data-dependent expression " e " (unhinted: " e     \
    ").  (Size-like symbols: " like ")\n"
#define GUARD(e, like)                                                                             \
    "Could not guard on data-dependent expression " e " (unhinted: " e                             \
    ").  (Size-like symbols: " like ")\n"

static const struct {
    const char *name;
    cfx_forward_fn *forward;
    const char *sentence, *also;
} refused[] = {
    {"item", reads_item, EXTRACT("u0", "none"), "The following call raised this error:\n  File \""},
    {"item, deep", reads_deeply, EXTRACT("u0", "none"), "return 2 * cfx_as_int(k)"},
    {"item == 5", compares_item, GUARD("Eq(u0, 5)", "none"),
     "To fix the error, insert one of the following checks before this call:\n"
     "  1. torch._check(u0 == 5)\n  2. torch._check(u0 != 5)"},
    {"2 * item + 1", computes_item, GUARD("2*u0 + 1 > 3", "none"), "torch._check(2*u0 + 1 <= 3)"},
    {"float", reads_float, GUARD("zuf0", "none"), "The number is data"},
    {"float > 0.5", compares_float, GUARD("zuf0 > 0.5", "none"), "torch._check(zuf0 <= 0.5)"},
    {"bool(tensor)", reads_truth, GUARD("Eq(u0, 1)", "none"), "reads_truth"},
    {"bool(int tensor)", reads_number_as_truth, GUARD("Ne(u0, 0)", "none"), "as_truth"},
    {"tolist", reads_list, EXTRACT("u1", "none"), "cfx_at(all, 1)"},
    {"equality", equals_item, EXTRACT("u0", "none"), "data"},
    {"size", reads_size, EXTRACT("u0", "u0"), "reads_size"},
    {"size, far", reads_far_size, EXTRACT("u0", "u0"), "7919"},
    {"shape", reads_shape, EXTRACT("u0", "u0"), "FORWARD(reads_shape)"},
    {"numel", reads_count, EXTRACT("u0", "u0"), "FORWARD(reads_count)"},
    {"element", reads_element, "Could not guard on data-dependent expression u0",
     "FORWARD(reads_element)"},
    {"len", reads_length, EXTRACT("u0", "u0"), "reads_length"},
    {"rows", walks_rows, EXTRACT("u0", "u0"), "cfx_items"},
    {"size == 0", compares_size, GUARD("Eq(u0, 0)", "u0"), "torch._check(u0 != 0)"},
    {"size of parts", reads_part, "Could not extract specialized integer from data-dependent", ""},
    {"dimension", takes_dimension, EXTRACT("u0", "none"), "takes_dimension"},
    {"truth as argument", takes_truth, GUARD("Eq(u0, 1)", "none"), "takes_truth"},
    {"constant", makes_constant, EXTRACT("u0", "none"), "data"},
    {"rounds", counts_rounds, EXTRACT("u0", "none"), "i < cfx_integer"},
};

TEST(export_refuses_decisions_by_data) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cfx_module *m = cfx_module_new("Decide", refused[i].forward, "x, n");
        cfx_program *p = EXPORT(m, cfx_randn(3, 4), cfx_tensor_from_value(cfx_int(5)));
        const char *message = cfx_ok() ? "" : cfx_error_last()->message;
        if (!cfx_failed(p) || !strstr(message, refused[i].sentence) ||
            !strstr(message, refused[i].also))
            test_fail(CFX_HERE, "%s: %s", refused[i].name, *message ? message : "exported");
        cfx_error_clear();
    }
}

/* Sizes that are not data may be looked at. */
FORWARD(reads_known) {
    cfx_tensor *all = cfx_nonzero(X);
    int64_t n = cfx_dim(all, 1) + cfx_dim(cfx_as_tensor(X), 0);
    GIVE(cfx_mul(X, cfx_integer(cfx_size(cfx_as_tensor(X), 1)) == 4 ? n : 0));
}

TEST(export_lets_c_look_at_sizes_that_are_not_data) {
    cfx_module *m = cfx_module_new("Known", reads_known, "x, n");
    cfx_tensor *x = cfx_randn(3, 4), *n = cfx_tensor_from_value(cfx_int(5));
    cfx_program *p = EXPORT(m, x, n);
    CHECK_OK();
    check_runs(m, p, cfx_tuple(x, n));
}

/* While tracing nothing is known of a tensor. */
FORWARD(traced_shape) { GIVE(cfx_tensor_shape(cfx_as_tensor(X)) ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(traced_rank) { GIVE(cfx_tensor_ndim(cfx_as_tensor(X)) == 2 ? cfx_sin(X) : cfx_cos(X)); }
FORWARD(traced_dtype) {
    GIVE(cfx_tensor_dtype(cfx_as_tensor(X)) == CFX_F32 ? cfx_sin(X) : cfx_cos(X));
}
FORWARD(traced_number) { GIVE(cfx_integer(cfx_item(N)) ? cfx_sin(X) : cfx_cos(X)); }

TEST(tracing_refuses_decisions_by_what_is_traced) {
    static cfx_forward_fn *const all[] = {traced_shape, traced_rank, traced_dtype, traced_number};
    for (int i = 0; i < 4; i++) {
        CHECK(cfx_failed(cfx_symbolic_trace(cfx_module_new("Traced", all[i], "x, n"))));
        CHECK_ERROR(i < 3 ? "symbolically traced variables cannot be used as inputs to control flow"
                          : "'Proxy' object cannot be interpreted as an integer");
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

FORWARD(checked) {
    cfx_value k = cfx_item(N);
    cfx_check(OP("ge", k, 2), NULL);
    cfx_check(OP("le", k, 7), "at most seven");
    GIVE(cfx_is_true(OP("gt", k, 1)) ? cfx_mul(X, k) : cfx_cos(X)); /* which is known by now */
}

TEST(export_takes_note_of_checks) {
    cfx_module *m = cfx_module_new("Check", checked, "x, n");
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_program *p = EXPORT(m, x, cfx_tensor_from_value(cfx_int(5)));
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, x, n):\n"
              "    item = torch.ops.aten.item.default(n);  n = None\n"
              "    ge_1 = item >= 2\n"
              "    _assert_scalar_default = torch.ops.aten._assert_scalar.default(ge_1, \"Runtime "
              "assertion failed for expression u0 >= 2 on node 'ge_1'\");  ge_1 = "
              "_assert_scalar_default = None\n"
              "    le_1 = item <= 7\n"
              "    _assert_scalar_default_1 = torch.ops.aten._assert_scalar.default(le_1, "
              "\"Runtime assertion failed for expression u0 <= 7 on node 'le_1'\");  le_1 = "
              "_assert_scalar_default_1 = None\n"
              "    mul = torch.ops.aten.mul.Tensor(x, item);  x = item = None\n"
              "    return (mul,)\n    ");
    CHECK(strstr(cfx_program_str(p), "Range constraints: {u0: VR[2, 7]}"));
    check_runs(m, p, cfx_tuple(x, cfx_tensor_from_value(cfx_int(3))));
    cfx_program_run(p, x, cfx_tensor_from_value(cfx_int(1)));
    CHECK_ERROR("Runtime assertion failed for expression u0 >= 2 on node 'ge_1'");
    cfx_program_run(p, x, cfx_tensor_from_value(cfx_int(8)));
    CHECK_ERROR("Runtime assertion failed for expression u0 <= 7 on node 'le_1'");
    cfx_forward_value(m, x, cfx_tensor_from_value(cfx_int(8)));
    CHECK_ERROR("at most seven");
    cfx_program *again =
        EXPORT(cfx_program_module(p), x, cfx_tensor_from_value(cfx_int(5)));
    CHECK(strstr(cfx_program_str(again), "Range constraints: {u0: VR[2, 7]}"));
    cfx_program_run(again, x, cfx_tensor_from_value(cfx_int(1)));
    CHECK_ERROR("Runtime assertion failed for expression u0 >= 2 on node");
}

FORWARD(several_checks) {
    cfx_value p = cfx_item(cfx_select(N, 0, 0)), q = cfx_item(cfx_select(N, 0, 1));
    cfx_check(OP("eq", OP("add", p, q), 11), NULL);
    cfx_check(OP("lt", p, q), NULL);
    cfx_check(OP("ne", p, 3), NULL);
    cfx_check(OP("le", OP("add", OP("mul", p, 2), 1), 9), NULL);
    GIVE(cfx_add(cfx_mul(X, p), q));
}

TEST(checks_that_are_no_ranges_are_asserted) {
    static const struct {
        int p, q;
        const char *sentence;
    } runs[] = {{2, 9, NULL},
                {2, 8, "Runtime assertion failed for expression Eq(u0 + u1, 11) on node 'eq"},
                {3, 8, "Runtime assertion failed for expression Ne(u0, 3) on node 'sym_not"},
                {6, 5, "Runtime assertion failed for expression u0 <= 4 on node 'le"},
                {-20, 31, NULL}};
    cfx_module *m = cfx_module_new("Several", several_checks, "x, n");
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_program *p = EXPORT(m, x, cfx_tensor_from_value(cfx_list(2, 9)));
    if (!CHECK_OK())
        return;
    CHECK(strstr(cfx_program_str(p), "{u0: VR[-int_oo, 4], u1: VR[-int_oo, int_oo]}"));
    cfx_program *all[] = {p, cfx_decompose(p, CFX_NONE),
                          EXPORT(cfx_program_module(p), x, cfx_tensor_from_value(cfx_list(2, 9)))};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 5; i++) {
            cfx_tensor *n = cfx_tensor_from_value(cfx_list(runs[i].p, runs[i].q));
            cfx_value y = cfx_program_run(all[k], x, n);
            if (runs[i].sentence)
                CHECK_ERROR(runs[i].sentence);
            else if (CHECK_OK())
                CHECK(cfx_is_true(cfx_allclose(y, cfx_forward(m, x, n))));
        }
}

FORWARD(one_value) {
    cfx_value k = cfx_item(N);
    cfx_check(OP("eq", k, 5), "must be five");
    GIVE(cfx_integer(k) == 5 ? cfx_add(X, k) : cfx_cos(X));
}

TEST(a_number_that_is_checked_to_be_one_value_may_be_looked_at) {
    cfx_module *m = cfx_module_new("One", one_value, "x, n");
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_program *p = EXPORT(m, x, cfx_tensor_from_value(cfx_int(5)));
    if (!CHECK_OK())
        return;
    CHECK(strstr(code_of(p, ""), "add = torch.ops.aten.add.Tensor(x, 5)"));
    CHECK(strstr(cfx_program_str(p), "Range constraints: {u0: VR[5, 5]}"));
    check_runs(m, p, cfx_tuple(x, cfx_tensor_from_value(cfx_int(5))));
    cfx_program_run(p, x, cfx_tensor_from_value(cfx_int(4)));
    CHECK_ERROR("Runtime assertion failed for expression u0 >= 5 on node 'ge'");
}

FORWARD(ranged) {
    cfx_value k = cfx_item(N);
    cfx_py("torch.sym_constrain_range_for_size", k, CFX_KW(min, 2), CFX_KW(max, 5));
    GIVE(cfx_zeros(cfx_list(k, 4)));
}

TEST(ranges_that_forward_gives_a_number_are_those_of_its_symbol) {
    cfx_module *m = cfx_module_new("Ranged", ranged, "x, n");
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_program *p = EXPORT(m, x, cfx_tensor_from_value(cfx_int(5)));
    if (!CHECK_OK())
        return;
    CHECK_STR(code_of(p, ""),
              "def forward(self, x, n):\n"
              "    item = torch.ops.aten.item.default(n);  n = None\n"
              "    ge = item >= 2\n"
              "    _assert_scalar_default = torch.ops.aten._assert_scalar.default(ge, \"Runtime "
              "assertion failed for expression u0 >= 2 on node 'ge'\");  ge = "
              "_assert_scalar_default = None\n"
              "    le = item <= 5\n"
              "    _assert_scalar_default_1 = torch.ops.aten._assert_scalar.default(le, \"Runtime "
              "assertion failed for expression u0 <= 5 on node 'le'\");  le = "
              "_assert_scalar_default_1 = None\n"
              "    zeros = torch.ops.aten.zeros.default([item, 4], device = device(type='cpu'), "
              "pin_memory = False);  item = None\n"
              "    return (zeros,)\n    ");
    check_runs(m, p, cfx_tuple(x, cfx_tensor_from_value(cfx_int(3))));
    cfx_program_run(p, x, cfx_tensor_from_value(cfx_int(6)));
    CHECK_ERROR("Runtime assertion failed for expression u0 <= 5 on node 'le'");
}

FORWARD(asserts) {
    cfx_py("torch._assert", cfx_gt(N, 2), "n is small");
    cfx_py("torch._assert_async", cfx_lt(N, 9));
    cfx_aten__assert_scalar(OP("ne", cfx_item(N), 7), "seven");
    GIVE(cfx_add(X, N));
}

TEST(assertions_are_recorded) {
    static const char *const sentences[] = {
        [1] = "n is small", [7] = "Runtime assertion failed for expression Ne(u0, 7) on node",
        [9] = "Assertion is failed"};
    cfx_module *m = cfx_module_new("Assert", asserts, "x, n");
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_program *p = EXPORT(m, x, cfx_tensor_from_value(cfx_int(5)));
    for (int n = 1; n < 10; n += 2) {
        cfx_program_run(p, x, cfx_tensor_from_value(cfx_int(n)));
        if (sentences[n])
            CHECK_ERROR(sentences[n]);
        else
            CHECK_OK();
    }
}

FORWARD(impossible) {
    cfx_value k = cfx_item(N);
    cfx_check(OP("ge", k, 5), NULL);
    cfx_check(OP("lt", k, 5), NULL);
    GIVE(cfx_add(X, k));
}

TEST(checks_say_what_is_wrong) {
    CHECK(cfx_check(cfx_bool(true), NULL) && cfx_check(2 > 1, "never"));
    CHECK(!cfx_check(cfx_bool(false), "two of them"));
    CHECK_ERROR("two of them");
    CHECK(!cfx_check(cfx_bool(false), NULL));
    CHECK_ERROR("Expected cond to be True, but got False. (Could this error message be improved? "
                "If so, please report an enhancement request to PyTorch.)");
    cfx_check(cfx_ones(1), NULL);
    CHECK_ERROR("cond must be a bool, but got <class 'torch.Tensor'>");
    cfx_py("torch._check_value", cfx_bool(false), "a value");
    CHECK_ERROR("a value");
    cfx_py("torch._check_is_size", -1);
    CHECK_ERROR("Expected cond to be True, but got False.");
    CHECK(cfx_failed(EXPORT(cfx_module_new("Never", impossible, "x, n"), cfx_randn(3, 4),
                            cfx_tensor_from_value(cfx_int(5)))));
    CHECK_ERROR("Expected cond to be True, but got False.");
}

/* ---- what is checked by operators and with sizes --------------------------------------------- */

static cfx_value at_of(cfx_value n, int i) { return cfx_item(cfx_select(n, 0, i)); }

FORWARD(constrained_twice) {
    cfx_value k = at_of(N, 0);
    cfx_py("torch.sym_constrain_range", k, CFX_KW(min, 4), CFX_KW(max, 6));
    cfx_py("torch.sym_constrain_range", k, CFX_KW(min, 8), CFX_KW(max, 9));
    GIVE(cfx_add(X, k));
}
FORWARD(constrained_badly) {
    cfx_value k = at_of(N, 0);
    cfx_py("torch.sym_constrain_range_for_size", k, CFX_KW(min, 9), CFX_KW(max, 6));
    GIVE(cfx_add(X, k));
}
FORWARD(contradicted) {
    cfx_value p = at_of(N, 0), q = at_of(N, 1);
    cfx_check(OP("lt", p, q), NULL);
    cfx_check(OP("ge", p, q), "p is large");
    GIVE(cfx_add(X, p));
}
FORWARD(without_solution) {
    cfx_check(OP("eq", OP("mul", at_of(N, 0), 2), 3), "odd");
    GIVE(cfx_sin(X));
}

TEST(checks_that_contradict_are_refused_in_their_own_words) {
    static const struct {
        cfx_forward_fn *forward;
        const char *sentence;
    } all[] = {{constrained_twice, "Invalid ranges [8:6]"},
               {constrained_badly, "Maximum value to constrain_as_size can't be less than the "
                                   "specified min value, received min=9 and max=6"},
               {contradicted, "p is large"},
               {without_solution, "odd"}};
    for (int i = 0; i < 4; i++) {
        cfx_module *m = cfx_module_new("Contradict", all[i].forward, "x, n");
        CHECK(cfx_failed(EXPORT(m, cfx_randn(3, 4), cfx_tensor_from_value(cfx_list(2, 9)))));
        CHECK_ERROR(all[i].sentence);
    }
}

FORWARD(all_positive) {
    cfx_check(cfx_item(cfx_all(cfx_gt(N, 0))), NULL);
    GIVE(cfx_sin(X));
}
FORWARD(none_negative) {
    cfx_check(cfx_py("torch.sym_not", cfx_item(cfx_any(cfx_lt(N, 0)))), NULL);
    GIVE(cfx_sin(X));
}
FORWARD(within_dim) {
    cfx_value k = at_of(N, 0);
    cfx_check(OP("le", k, cfx_dim(cfx_as_tensor(X), 0)), NULL); /* a plain number of C's */
    GIVE(cfx_mul(X, k));
}
FORWARD(within_twice) {
    cfx_value k = at_of(N, 0);
    cfx_check(OP("le", k, cfx_size(cfx_cat(cfx_list(X, X)), 0)), NULL);
    GIVE(cfx_mul(X, k));
}
FORWARD(narrowed) { GIVE(cfx_narrow(X, 0, 0, at_of(N, 0))); }
FORWARD(split) {
    GIVE(cfx_mul(cfx_tensor_at(cfx_split_with_sizes(X, cfx_method(N, "tolist"), 0), 0), 2));
}
FORWARD(of_equal_sizes) {
    cfx_value p = at_of(N, 0), q = at_of(N, 1);
    cfx_check(OP("eq", p, q), NULL);
    GIVE(cfx_add(cfx_ones(cfx_list(p, 4)), cfx_mul(cfx_ones(cfx_list(q, 4)), 2)));
}

static cfx_tensor *found(cfx_value n, int i) { return cfx_nonzero(cfx_ge(n, i)); }

FORWARD(counted_once) {
    cfx_tensor *all = found(N, 3);
    cfx_check(OP("eq", cfx_size(all, 0), 1), NULL);
    GIVE(cfx_add(cfx_mul(X, cfx_sum(all)), cfx_size(all, 0)));
}
FORWARD(counted_at_least) {
    cfx_check(OP("gt", cfx_size(found(N, 3), 0), 1), NULL);
    GIVE(cfx_sin(X));
}
FORWARD(counted_alike) {
    cfx_tensor *many = found(N, 1), *few = found(N, 3);
    cfx_check(OP("eq", cfx_size(many, 0), cfx_size(few, 0)), NULL);
    GIVE(cfx_add(cfx_sum(cfx_add(many, few)), X));
}

static const struct {
    const char *name;
    cfx_forward_fn *forward;
    int good[2], bad[2];
    const char *sentence, *dynamic; /* NULL: the program is not exported so, or not decomposed */
} asserted[] = {
    {"truth", all_positive, {1, 2}, {1, 0}, "Eq(u0, 1)", "Eq(u0, 1)"},
    {"no truth", none_negative, {1, 2}, {1, -1}, "Ne(u0, 1)", "Ne(u0, 1)"},
    {"cfx_dim", within_dim, {3, 0}, {8, 0}, "u0 <= 3", "u0 <= s77"},
    {"cfx_size", within_twice, {6, 0}, {13, 0}, "u0 <= 6", "u0 <= 2*s77"},
    {"narrow", narrowed, {3, 0}, {8, 0}, "u0 <= 3", "u0 <= s77"},
    {"narrow, negative", narrowed, {0, 0}, {-1, 0}, "u0 >= 0", "u0 >= 0"},
    {"split", split, {1, 2}, {2, 3}, "Eq(u0 + u1, 3)", "Eq(u0 + u1, s77)"},
    {"equal sizes", of_equal_sizes, {5, 5}, {5, 6}, "Eq(u0, u1)", "Eq(u0, u1)"},
    {"one found", counted_once, {1, 4}, {5, 4}, "u0 <= 1", "u0 <= 1"},
    {"one found, none is", counted_once, {3, 0}, {1, 1}, "u0 >= 1", "u0 >= 1"},
    {"two found", counted_at_least, {4, 4}, {4, 1}, "u0 >= 2", "u0 >= 2"},
    {"as many found", counted_alike, {4, 0}, {4, 1}, "Eq(u0, u1)", "Eq(u0, u1)"},
};

static void check_asserted(cfx_module *m, cfx_program *p, int i, const char *sentence) {
    cfx_tensor *x = cfx_randn(3, 4);
    cfx_tensor *good = cfx_tensor_from_value(cfx_list(asserted[i].good[0], asserted[i].good[1]));
    cfx_tensor *bad = cfx_tensor_from_value(cfx_list(asserted[i].bad[0], asserted[i].bad[1]));
    cfx_value y = cfx_program_run(p, x, good);
    if (CHECK_OK())
        CHECK(cfx_is_true(cfx_allclose(y, cfx_forward(m, x, good))));
    cfx_program_run(p, x, bad);
    CHECK_ERROR(cfx__text_format("Runtime assertion failed for expression %s on node", sentence));
}

TEST(what_is_checked_is_asserted_whatever_it_compares_with) {
    for (int i = 0; i < (int)(sizeof asserted / sizeof *asserted); i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            cfx_value args = cfx_tuple(cfx_randn(3, 4), cfx_tensor_from_value(cfx_list(1, 2)));
            const char *sentence = dynamic ? asserted[i].dynamic : asserted[i].sentence;
            cfx_module *m = cfx_module_new("Asserted", asserted[i].forward, "x, n");
            cfx_program *p =
                sentence ? cfx_export(m, args, CFX_NONE, dynamic ? batch_of("x") : CFX_NONE) : NULL;
            if (!p)
                continue;
            if (!CHECK_OK())
                test_fail(CFX_HERE, "%s", asserted[i].name);
            check_asserted(m, p, i, sentence);
            if (asserted[i].dynamic)
                check_asserted(m, cfx_decompose(p, CFX_NONE), i, sentence);
        }
}

/* ---- slices that data cuts ------------------------------------------------------------------- */

FORWARD(cut_end) { GIVE(cfx_slice(X, 0, 0, at_of(N, 0))); }
FORWARD(cut_start) { GIVE(cfx_slice(X, 0, at_of(N, 0))); }
FORWARD(cut_both) { GIVE(cfx_mul(cfx_slice(X, 1, at_of(N, 0), at_of(N, 1)), 2)); }
FORWARD(cut_item) {
    (void)self;
    return cfx_py("operator.getitem", X, cfx_slice_value(CFX_NONE, at_of(N, 1), CFX_NONE));
}
FORWARD(cut_sum) { GIVE(cfx_sum(cfx_slice(cfx_slice(X, 0, 0, at_of(N, 0)), 1, at_of(N, 1)), 0)); }
FORWARD(cut_positive) {
    cfx_value k = at_of(N, 0);
    cfx_check(OP("ge", k, 0), NULL);
    GIVE(cfx_slice(X, 0, 0, k));
}

TEST(slices_are_as_long_as_data_says) {
    static const struct {
        const char *name;
        cfx_forward_fn *forward;
        const char *shape; /* that the program notes */
    } all[] = {{"end", cut_end, "f32[u1, 4]"},     {"start", cut_start, "f32[u1, 4]"},
               {"both", cut_both, "f32[3, u2]"},   {"getitem", cut_item, "f32[u1, 4]"},
               {"twice", cut_sum, "f32[u1, u3]"},  {"checked", cut_positive, "f32[Min(3, u0), 4]"}};
    static const int numbers[][2] = {{1, 2}, {0, 3}, {7, 1}, {-1, 2}, {-9, 9}, {2, -1}};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            cfx_module *m = cfx_module_new("Cut", all[i].forward, "x, n");
            cfx_value args = cfx_tuple(cfx_randn(3, 4), cfx_tensor_from_value(cfx_list(1, 2)));
            cfx_program *p = cfx_export(m, args, CFX_NONE, dynamic ? batch_of("x") : CFX_NONE);
            if (!CHECK_OK() || (!dynamic && !CHECK(strstr(cfx_program_str(p), all[i].shape))))
                test_fail(CFX_HERE, "%s:\n%s", all[i].name, cfx_program_str(p));
            for (int k = 0; k < 6; k++) {
                cfx_tensor *n = cfx_tensor_from_value(cfx_list(numbers[k][0], numbers[k][1]));
                if (all[i].forward != cut_positive || numbers[k][0] >= 0)
                    check_runs(m, p, cfx_tuple(cfx_randn(dynamic ? k + 2 : 3, 4), n));
            }
        }
}

/* ---- whichever way --------------------------------------------------------------------------- */

FORWARD(sine) { GIVE(cfx_sin(X)); }
FORWARD(by_weight) { GIVE(cfx_mul(X, cfx_attr(self, "weight_of_all"))); }

static cfx_module *with_weight(cfx_forward_fn *forward) {
    cfx_module *m = cfx_module_new("Data", forward, "x, n");
    cfx_nn_parameter(m, "weight_of_all", cfx_rand(4));
    cfx_module_requires_grad(m, true);
    return m;
}

static cfx_value numbered(int k) {
    cfx_manual_seed(3);
    cfx_tensor *x = cfx_rand(3, 4);
    return cfx_tuple(k % 2 ? cfx_sub(x, 0.6) : x, cfx_tensor_from_value(cfx_int(4 - k)));
}

FORWARD(by_item) { GIVE(cfx_mul(by_weight(self, a), OP("add", cfx_item(N), 1))); }
FORWARD(by_float) { GIVE(cfx_mul(by_weight(self, a), OP("mul", first_of(X), 3))); }
FORWARD(chosen_by_item) { return cfx_cond(self, OP("gt", cfx_item(N), 2), sine, by_weight, X); }
FORWARD(chosen_by_truth) {
    return cfx_cond(self, cfx_item(cfx_gt(cfx_sum(X), 0)), sine, by_weight, X);
}
/* Few are picked: what was exported of three rows asserts that there are no more than twelve. */
FORWARD(by_count) {
    cfx_tensor *at = cfx_nonzero(cfx_gt(X, 0.6));
    cfx_value n = cfx_size(at, 0);
    return cfx_tuple(cfx_mul(by_weight(self, a), n), cfx_ones(cfx_list(n, 2)), OP("mul", n, 2));
}
FORWARD(by_list) {
    cfx_value all = cfx_method(cfx_stack(cfx_list(N, cfx_add(N, 2))), "tolist");
    GIVE(cfx_add(cfx_mul(by_weight(self, a), cfx_at(all, 0)), cfx_at(all, 1)));
}
FORWARD(by_checked) {
    cfx_value k = cfx_item(N);
    cfx_check(OP("ge", k, 0), NULL);
    cfx_check(OP("le", k, 4), NULL);
    GIVE(cfx_mul(by_weight(self, a), k));
}
FORWARD(still_below) { (void)self; return OP("lt", X, 3); }
FORWARD(one_more) {
    cfx_tensor *y = cfx_mul(N, cfx_attr(self, "weight_of_all"));
    return cfx_tuple(OP("add", X, 1), cfx_add(y, X));
}
FORWARD(counted) { return cfx_while_loop(self, still_below, one_more, 0, X); }

static cfx_module *new_by_item(void) { return with_weight(by_item); }
static cfx_module *new_by_float(void) { return with_weight(by_float); }
static cfx_module *new_chosen_by_item(void) { return with_weight(chosen_by_item); }
static cfx_module *new_chosen_by_truth(void) { return with_weight(chosen_by_truth); }
static cfx_module *new_by_count(void) { return with_weight(by_count); }
static cfx_module *new_by_list(void) { return with_weight(by_list); }
static cfx_module *new_by_checked(void) { return with_weight(by_checked); }
static cfx_module *new_counted(void) { return with_weight(counted); }

TEST(data_is_the_same_whichever_way_a_module_goes) {
    static const ways_model models[] = {
        {"item", new_by_item, numbered, 4, false, false, false, false},
        {"float item", new_by_float, numbered, 4, false, false, false, false},
        {"cond by an item", new_chosen_by_item, numbered, 4, true, false, false, false},
        {"cond by a truth", new_chosen_by_truth, numbered, 4, true, false, false, false},
        {"nonzero", new_by_count, numbered, 4, false, false, false, false},
        {"tolist", new_by_list, numbered, 4, false, false, false, false},
        {"checked", new_by_checked, numbered, 4, false, false, false, false},
        {"counted loop", new_counted, numbered, 2, true, true, false, true},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        CFX_SCOPE ways_check(&models[i]);
}
