/* Little work on a card that is played, products of few rows and kernels of few elements: how many
 * launches they are, and that these may begin while those before them end. */
#include <cfx.h>
#include <cfx/cuda.h>

#include "card.h"
#include "test.h"

static cfx_tensor *gated(cfx_module *self, cfx_tensor *in) {
    cfx_tensor *x = cfx_layer_norm(in, cfx_list(32));
    cfx_tensor *h = cfx_mul(cfx_silu(cfx_call(self, "gate", x)), cfx_call(self, "up", x));
    return cfx_add(in, cfx_call(self, "down", h));
}

static cfx_program *gated_program(int rows) {
    cfx_manual_seed(3);
    cfx_module *m = cfx_module_new("Gated", gated, "x");
    cfx_nn_add(m, "gate", cfx_nn_linear(32, 80, .no_bias = true));
    cfx_nn_add(m, "up", cfx_nn_linear(32, 80));
    cfx_nn_add(m, "down", cfx_nn_linear(80, 32));
    return cfx_export(m, cfx_tuple(cfx_randn(rows, 32)), CFX_NONE, CFX_NONE);
}

static cfx_value leave_as_is(cfx_watcher *w, cfx_node *n, cfx_value v) {
    (void)n, (void)v;
    ++*(int *)w->user;
    return cfx_none();
}

/* The gate and what it opens are products of the same x: one launch, in which each block makes x,
 * a norm, for itself; so is the last product, which takes the gate. But not where somebody looks at
 * each value. */
TEST(products_of_the_same_rows_are_one_launch) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    for (int rows = 1; rows <= 9; rows += 4) CFX_SCOPE { /* 9 are for kernels of more rows too */
        cfx_program *p = gated_program(rows);
        cfx_value in[] = {cfx_tensor_value(cfx_randn(rows, 32))};
        const cfx_args args = {1, in, NULL};
        const cfx_executor *on = cfx_cuda_executor(0);
        const cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
        CHECK(card_apart(want, cfx_program_run_with(CFX_HERE, p, on, NULL, args)) < 1e-5);
        const long kernels = card.kernels, overlapping = card.overlapping;
        cfx_program_run_with(CFX_HERE, p, on, NULL, args); /* recorded */
        const long each = card.kernels - kernels;
        CHECK(rows > 8 ? each >= 4 : each == 2);
        CHECK_INT(card.overlapping - overlapping, each - 1);
        CHECK(card_apart(want, cfx_program_run_with(CFX_HERE, p, on, NULL, args)) < 1e-5);
        int seen = 0;
        cfx_watcher w = {.see = leave_as_is, .user = &seen};
        const long before = card.kernels;
        CHECK(card_apart(want, cfx_program_run_with(CFX_HERE, p, on, &w, args)) < 1e-5);
        CHECK(card.kernels - before >= 4 && seen >= 8);
        cfx_set_precision(CFX_PRECISION_BF16);
        for (int i = 0; i < 2; i++)
            CHECK(card_apart(want, cfx_program_run_with(CFX_HERE, p, on, NULL, args)) < 0.05);
        cfx_set_precision(CFX_PRECISION_F32);
        CHECK_OK();
    }
    card_end();
}

/* Heads of x turned by an angle, put to place `at` of a table, and read from there. */
static cfx_tensor *turned(cfx_module *self, cfx_tensor *x, cfx_tensor *table, cfx_tensor *at) {
    (void)self;
    cfx_tensor *other = cfx_cat(cfx_list(cfx_neg(cfx_slice(x, -1, 4, 8)), cfx_slice(x, -1, 0, 4)),
                                -1);
    cfx_tensor *y = cfx_add(cfx_mul(x, cfx_cos(x)), cfx_mul(other, cfx_sin(x)));
    return cfx_index_select(cfx_index_copy(table, 1, at, y), 1, at);
}

/* What follows from each other and what does not, in one kernel of one block. */
TEST(kernels_of_few_elements_are_one_launch) {
    if (!card_begin())
        return;
    cfx_set_grad_mode(CFX_INFERENCE);
    const int64_t shape[] = {1};
    for (int64_t place = 2; place < 20; place += 15) CFX_SCOPE { /* 17 is not there */
        cfx_module *m = cfx_module_new("Turned", turned, "x, table, at");
        cfx_value in[] = {cfx_tensor_value(cfx_randn(3, 1, 8)),
                          cfx_tensor_value(cfx_randn(3, 5, 8)),
                          cfx_tensor_value(cfx_tensor_new(CFX_I64, 1, shape, (int64_t[]){2}))};
        cfx_program *p = cfx_export(m, cfx_tuple(in[0], in[1], in[2]), CFX_NONE, CFX_NONE);
        in[2] = cfx_tensor_value(cfx_tensor_new(CFX_I64, 1, shape, &place));
        const cfx_args args = {3, in, NULL};
        const cfx_executor *on = cfx_cuda_executor(0);
        const long before = card.kernels;
        const cfx_value have = cfx_program_run_with(CFX_HERE, p, on, NULL, args);
        CHECK_INT(card.kernels - before, 1);
        if (place == 2) {
            CHECK_OK();
            const cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
            CHECK(card_apart(want, have) < 1e-6);
        } else {
            CHECK(!cfx_ok() && cfx_error_last()->kind == CFX_INDEX_ERROR);
            cfx_error_clear();
        }
    }
    card_end();
}
