/* Odd arithmetic of sizes that vary, in forwards written in C: what is exported computes at other
 * sizes what forward does, decomposed too, and is the same program when it was saved and opened. */
#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/layers.h>
#include <cfx/ops.h>
#include <cfx/pack.h>
#include <cfx/rewrite.h>

#include <math.h>

#include "files.h"
#include "pt2.h"
#include "test.h"

#define END INT64_MAX
#define L(...) cfx_list(__VA_ARGS__)
#define N(t, i) cfx_dim(t, i)

enum { ONE, TWO, IMAGE }; /* x: [B, T]; y: [B, S] too; x: [B, 2, T, S] */

#define FORWARDS(F)                                                                                \
    F(mod3, ONE, cfx_pad(x, L(0, (8 - N(x, 1) % 8) % 8)))                                          \
    F(floor2, ONE, cfx_slice(x, 1, 0, N(x, 1) / 2 * 2))                                            \
    F(third, ONE, cfx_narrow(x, 1, N(x, 1) / 3, N(x, 1) - N(x, 1) / 3))                            \
    F(sumsz, ONE, cfx_zeros(N(x, 0) + N(x, 1) + 1))                                                \
    F(lin, ONE, cfx_mul(x, 2 * N(x, 0) + 3 * N(x, 1) - 1))                                         \
    F(prod1, ONE, cfx_mul(x, N(x, 0) * N(x, 1) + N(x, 0)))                                         \
    F(sq, ONE, cfx_mul(x, N(x, 0) * N(x, 0) - N(x, 1)))                                            \
    F(max, ONE, cfx_mul(x, N(x, 0) > N(x, 1) ? N(x, 0) : N(x, 1)))                                 \
    F(min, ONE, cfx_slice(x, 1, 0, N(x, 0) < N(x, 1) ? N(x, 0) : N(x, 1)))                         \
    F(ceil, ONE, cfx_mul(x, (N(x, 1) + 3) / 4))                                                    \
    F(ceil7, ONE, cfx_full(L((N(x, 1) + 6) / 7 * 7), 1.0))                                         \
    F(two, ONE, cfx_mul(x, (N(x, 0) / 2) * (N(x, 1) / 2)))                                         \
    F(mix, ONE, cfx_mul(x, N(x, 1) - N(x, 1) % 4 + 1))                                             \
    F(roll, ONE, cfx_roll(x, L(N(x, 1) / 2), L(1)))                                                \
    F(rollneg, ONE, cfx_roll(x, L(-2), L(1)))                                                      \
    F(chunk, ONE, cfx_sum(cfx_tensor_at(cfx_chunk(x, 2, 1), 0)))                                   \
    F(split, ONE, cfx_add(cfx_tensor_at(cfx_split(x, L(N(x, 1) / 2, N(x, 1) - N(x, 1) / 2), 1),    \
       1), 1))                                                                                     \
    F(unfold, ONE, cfx_unfold(x, 1, 3, 2))                                                         \
    F(ratio, ONE, cfx_mul(x, (double)N(x, 0) / (double)N(x, 1)))                                   \
    F(sqrt, ONE, cfx_div(x, sqrt((double)(N(x, 0) * N(x, 1)))))                                    \
    F(inv, ONE, cfx_mul(x, 1.0 / (double)(N(x, 1) - 1)))                                           \
    F(half, ONE, cfx_mul(x, 0.5 * (double)N(x, 1)))                                                \
    F(pct, ONE, cfx_mul(x, (double)N(x, 1) / 7))                                                   \
    F(arange, ONE, cfx_add(cfx_arange(1, N(x, 1) * 2, 2), 0))                                      \
    F(linsp, ONE, cfx_mul(x, cfx_linspace(0.0, 1.0, N(x, 1))))                                     \
    F(cat3, ONE, cfx_cat(L(x, cfx_slice(x, 1, 0, N(x, 1) / 2), x), 1))                             \
    F(mask, ONE, cfx_sum(cfx_index(x, L(cfx_gt(x, 0)))))                                           \
    F(nz, ONE, cfx_nonzero(cfx_gt(x, 0)))                                                          \
    F(ri, ONE, cfx_repeat_interleave(x, 3, 1))                                                     \
    F(eye, ONE, cfx_add(cfx_eye(N(x, 1)), 1))                                                      \
    F(tril, ONE, cfx_tril(cfx_ones(N(x, 1), N(x, 1))))                                             \
    F(flat, ONE, cfx_view(cfx_contiguous(cfx_transpose(x, 0, 1)), L(-1)))                          \
    F(resh, ONE, cfx_reshape(cfx_pad(x, L(0, N(x, 1))), L(N(x, 0), 2, N(x, 1))))                   \
    F(mean, ONE, cfx_sub(x, cfx_div(cfx_sum(x), N(x, 0) * N(x, 1))))                               \
    F(var, ONE, cfx_var(x, L(1), CFX_KW(correction, 1)))                                           \
    F(sel, ONE, cfx_select(x, 1, N(x, 1) / 2))                                                     \
    F(sel2, ONE, cfx_select(x, 1, N(x, 1) - 2))                                                    \
    F(step, ONE, cfx_slice(x, 1, 1, END, 3))                                                       \
    F(neg, ONE, cfx_slice(x, 1, -3, -1))                                                           \
    F(exp, ONE, cfx_expand(cfx_unsqueeze(x, 1), L(N(x, 0), N(x, 1) + 2, N(x, 1))))                 \
    F(mod2, ONE, cfx_mul(x, N(x, 0) % 2 + N(x, 1) % 3))                                            \
    F(diag, ONE, cfx_diag_embed(x))                                                                \
    F(two_in, TWO, cfx_cat(L(x, y), 1))                                                            \
    F(outer, TWO, cfx_add(cfx_unsqueeze(x, 2), cfx_unsqueeze(y, 1)))                               \
    F(sumdim, TWO, cfx_full(L(N(x, 1) + N(y, 1), 2), (double)N(y, 1)))                             \
    F(diff, TWO, cfx_mul(x, N(y, 1) - N(x, 1)))                                                    \
    F(conv, IMAGE, cfx_conv2d(x, cfx_attr(self, "w"), CFX_NONE, L(2, 2), L(1, 1)))                 \
    F(convflat, IMAGE, cfx_flatten(cfx_conv2d(x, cfx_attr(self, "w"), CFX_NONE, L(3, 2), L(1,      \
       1)), 1))                                                                                    \
    F(pool, IMAGE, cfx_max_pool2d(x, L(3, 3), L(1, 1), L(1, 1)))                                   \
    F(avgp, IMAGE, cfx_avg_pool2d(x, L(2, 2), L(1, 1)))                                            \
    F(inter, IMAGE, cfx_upsample_nearest2d(x, L(N(x, 2) * 2 + 1, N(x, 3) / 2)))                    \
    F(bil, IMAGE, cfx_upsample_bilinear2d(x, L(N(x, 2) + 3, N(x, 3) * 2), false))                  \
    F(pad, IMAGE, cfx_pad(x, L((4 - N(x, 3) % 4) % 4, 0, 0, (4 - N(x, 2) % 4) % 4)))               \
    F(refl, IMAGE, cfx_pad(x, L(2, 1, 1, 2), "reflect"))                                           \
    F(circ, IMAGE, cfx_pad(x, L(1, 2, 1, 1), "circular"))                                          \
    F(im2col, IMAGE, cfx_im2col(x, L(3, 3), L(1, 1), L(1, 1), L(2, 2)))                            \
    F(adapt, IMAGE, cfx_adaptive_avg_pool2d(x, L(1, 1)))                                           \
    F(swin, IMAGE, cfx_roll(x, L(-1, -2), L(2, 3)))                                                \
    F(gap, IMAGE, cfx_mean(cfx_flatten(x, 2), L(-1)))                                              \
    F(convt, IMAGE, cfx_conv_transpose2d(x, cfx_attr(self, "v"), CFX_NONE, L(2, 2), L(1, 1),       \
       L(1, 1)))                                                                                   \
    F(win, IMAGE, cfx_reshape(cfx_pad(x, L(0, (4 - N(x, 3) % 4) % 4)), L(N(x, 0), 2, N(x, 2),      \
       -1, 4)))                                                                                    \
    F(grid, IMAGE, cfx_add(x, cfx_unsqueeze(cfx_arange(N(x, 2)), 1)))

#define DEFINE(name, kind, result)                                                                 \
    static cfx_value name##_forward(cfx_module *self, cfx_args a) {                                \
        cfx_tensor *x = cfx_as_tensor(a.v[0]), *y = a.n > 1 ? cfx_as_tensor(a.v[1]) : NULL;        \
        (void)self, (void)y;                                                                       \
        return CFX_V(result);                                                                      \
    }
FORWARDS(DEFINE)

typedef struct {
    const char *name;
    cfx_value (*forward)(cfx_module *, cfx_args);
    int kind;
} odd;

static const odd programs[] = {
#define ROW(name, kind, result) {#name, name##_forward, kind},
    FORWARDS(ROW)};

static cfx_value inputs_at(int kind, int64_t b, int64_t t, int64_t s) {
    cfx_value in = cfx_tuple_value(0, NULL);
    cfx_list_append(cfx_as_list(in), CFX_V(kind == IMAGE ? cfx_randn(b, 2, t, s)
                                                         : cfx_randn(b, t)));
    if (kind == TWO)
        cfx_list_append(cfx_as_list(in), CFX_V(cfx_randn(b, s)));
    return in;
}

static void vary(cfx_dict *of, int dim, const char *name, int64_t most) {
    cfx_value least = cfx_int(most ? 6 : 3), top = most ? cfx_int(most) : cfx_none();
    bool batch = !strcmp(name, "B");
    cfx_dict_put(of, cfx_int(dim), cfx_tuple(name, batch ? cfx_none() : least,
                                             batch ? cfx_none() : top));
}

/* B, T and S; the last two from 6 to `most` where that is not 0. */
static cfx_value dims_of(int kind, int64_t most) {
    cfx_dict *all = cfx_dict_new(), *x = cfx_dict_new(), *y = cfx_dict_new();
    vary(x, 0, "B", most);
    vary(x, kind == IMAGE ? 2 : 1, "T", most);
    if (kind == IMAGE)
        vary(x, 3, "S", most);
    vary(y, 0, "B", most);
    vary(y, 1, "S", most);
    cfx_dict_set(all, "x", cfx_dict_value(x));
    if (kind == TWO)
        cfx_dict_set(all, "y", cfx_dict_value(y));
    return cfx_dict_value(all);
}

static void check_runs(const odd *o, cfx_module *m, cfx_program *const *p, int n) {
    static const int64_t at[][3] = {{4, 11, 14}, {3, 9, 8},   {7, 16, 13},
                                    {9, 8, 21},  {2, 29, 30}, {30, 12, 9}};
    for (int k = 0; k < COUNT(at); k++) {
        cfx_value in = inputs_at(o->kind, at[k][0], at[k][1], at[k][2]);
        cfx_args a = {(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL};
        cfx_value want = cfx_forward_value_from(CFX_HERE, m, a);
        for (int i = 0; i < n; i++) {
            cfx_value got = cfx_program_run_from(CFX_HERE, p[i], a);
            bool same = cfx_ok() &&
                        cfx_tensor_ndim(cfx_as_tensor(got)) ==
                            cfx_tensor_ndim(cfx_as_tensor(want)) &&
                        cfx_integer(CFX_V(cfx_allclose(got, want, CFX_KW(atol, 1e-4),
                                                       CFX_KW(equal_nan, true))));
            if (!same)
                printf("    %s, program %d at sizes %d\n", o->name, i, k);
            CHECK(same);
        }
    }
}

static void check_odd(const odd *o, int64_t most) {
    cfx_module *m = cfx_module_new("M", o->forward, o->kind == TWO ? "x, y" : "x");
    cfx_nn_parameter(m, "w", cfx_randn(3, 2, 3, 3));
    cfx_nn_parameter(m, "v", cfx_randn(2, 3, 3, 3));
    cfx_value in = inputs_at(o->kind, 4, 11, 14);
    cfx_program *p = cfx_export(m, in, CFX_NONE, dims_of(o->kind, most));
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK(cfx_save(p, test_path("odd.pt2")));
    cfx_program *again = cfx_open(test_path("odd.pt2"));
    test_unlink("odd.pt2");
    if (!cfx_ok())
        printf("    %s\n", o->name);
    CHECK_OK();
    CHECK_STR(cfx_program_str(again), cfx_program_str(p));
    check_runs(o, m, (cfx_program *[]){p, core, again}, 3);
}

static void check_all(int64_t most) {
    for (int i = 0; i < COUNT(programs); i++) {
        size_t mark = cfx_scope_open();
        check_odd(&programs[i], most);
        cfx_scope_close(mark);
    }
}

TEST(odd_sizes_without_bound) { check_all(0); }
TEST(odd_sizes_up_to_40) { check_all(40); }
TEST(odd_sizes_up_to_billions) { check_all(2000000000); }

/* What no expression is found for is refused, not guessed at. */
static cfx_value log_forward(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    (void)self;
    return CFX_V(cfx_mul(x, log((double)N(x, 1))));
}
TEST(odd_sizes_that_no_expression_gives_are_refused) {
    cfx_module *m = cfx_module_new("M", log_forward, "x");
    CHECK(cfx_failed(cfx_export(m, inputs_at(ONE, 4, 11, 0), CFX_NONE, dims_of(ONE, 0))));
    const char *notes = cfx_ok() ? NULL : cfx_error_last()->notes;
    CHECK(notes &&
          strstr(notes,
                 "an argument of mul varies with the sizes of the inputs in a way that no "
                 "expression was found for: it is 2.3978952727983707, and ") &&
          !strstr(notes, "and 2.3978952727983707 at"));
    CHECK_ERROR("You marked T as dynamic but your code specialized it to be a constant (11).");
}
