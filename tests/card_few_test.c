/* Products of few rows on a card that is played: how many launches they are, and that these may
 * begin while those before them end. */
#include <cfx.h>
#include <cfx/cuda.h>

#include "card.h"
#include "test.h"

static cfx_tensor *gated(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *h = cfx_mul(cfx_silu(cfx_call(self, "gate", x)), cfx_call(self, "up", x));
    return cfx_add(x, cfx_call(self, "down", h));
}

static cfx_program *gated_program(int rows) {
    cfx_manual_seed(3);
    cfx_module *m = cfx_module_new("Gated", gated, "x");
    cfx_nn_add(m, "gate", cfx_nn_linear(32, 80, .no_bias = true));
    cfx_nn_add(m, "up", cfx_nn_linear(32, 80));
    cfx_nn_add(m, "down", cfx_nn_linear(80, 32));
    return cfx_export(m, cfx_tuple(cfx_randn(rows, 32)), CFX_NONE, CFX_NONE);
}

static double apart(cfx_value a, cfx_value b) {
    return cfx_number(cfx_item(cfx_tensor_value(cfx_amax(cfx_abs(cfx_sub(a, b))))));
}

static cfx_value leave_as_is(cfx_watcher *w, cfx_node *n, cfx_value v) {
    (void)n, (void)v;
    ++*(int *)w->user;
    return cfx_none();
}

/* The gate and what it opens are products of the same x: one launch, unless somebody looks at each
 * value. */
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
        CHECK(apart(want, cfx_program_run_with(CFX_HERE, p, on, NULL, args)) < 1e-5);
        const long kernels = card.kernels, overlapping = card.overlapping;
        cfx_program_run_with(CFX_HERE, p, on, NULL, args); /* recorded */
        const long each = card.kernels - kernels;
        CHECK(rows > 8 || each <= 3);
        CHECK_INT(card.overlapping - overlapping, each - 1);
        CHECK(apart(want, cfx_program_run_with(CFX_HERE, p, on, NULL, args)) < 1e-5);
        int seen = 0;
        cfx_watcher w = {.see = leave_as_is, .user = &seen};
        const long before = card.kernels;
        CHECK(apart(want, cfx_program_run_with(CFX_HERE, p, on, &w, args)) < 1e-5);
        CHECK(card.kernels - before >= 4 && seen >= 8);
        CHECK_OK();
    }
    card_end();
}
