#include "test.h"

#include <cfx/watch.h>

#include "run.h"

#include <math.h>

TEST(statistics_of_a_tensor_and_of_several) {
    float x[] = {0, 1, 2, 3, NAN, INFINITY, 0, -2};
    cfx_stats s = {0};
    cfx_stats_add(&s, cfx_tensor_new(CFX_F32, 1, (int64_t[]){8}, x));
    CHECK_INT(s.count, 8);
    CHECK_INT(s.zeros, 2);
    CHECK_INT(s.nans, 1);
    CHECK_INT(s.infs, 1);
    CHECK_NEAR(s.mean, 4.0 / 6, 1e-12);
    CHECK_NEAR(s.deviation, sqrt(18.0 / 6 - 16.0 / 36), 1e-12);
    CHECK_NEAR(s.min, -2, 0);
    CHECK_NEAR(s.max, 3, 0);
    cfx_stats_add(&s, cfx_tensor_new(CFX_F32, 1, (int64_t[]){2}, (float[]){10, -10}));
    CHECK_INT(s.tensors, 2);
    CHECK_NEAR(s.mean, 4.0 / 8, 1e-12);
    CHECK_NEAR(s.deviation, sqrt(218.0 / 8 - 0.25), 1e-9);
    CHECK_NEAR(s.low, -2, 0);
    int64_t all = 0;
    for (int i = 0; i < CFX_STATS_BINS; i++)
        all += s.histogram[i];
    CHECK_INT(all, 8);
    cfx_stats none = {0};
    cfx_stats_add(&none, NULL);
    cfx_stats_add(&none, cfx_tensor_fake(CFX_F32, 1, (int64_t[]){8}, NULL));
    CHECK_INT(none.count, 0);
}

TEST(a_watch_sees_what_modules_give) {
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(4, 8), cfx_nn_relu());
    cfx_watch *w = cfx_watch_new(m, "*");
    CHECK_INT(cfx_watch_count(w), 2);
    cfx_forward(m, cfx_ones(3, 4));
    cfx_forward(m, cfx_ones(3, 4));
    CHECK_STR(cfx_watch_path(w, 1), "1");
    CHECK_INT(cfx_watch_stats(w, 1)->count, 48);
    CHECK_INT(cfx_watch_stats(w, 1)->tensors, 2);
    CHECK(cfx_watch_stats(w, 1)->min >= 0);
    CHECK(!cfx_watch_stats(w, 2));
    cfx_watch_stop(w);
    cfx_forward(m, cfx_ones(3, 4));
    CHECK_INT(cfx_watch_stats(w, 0)->count, 48);
    CHECK_INT(cfx_hook_count(cfx_module_find(m, "0")), 0);
    CHECK_OK();
    CHECK(!cfx_watch_new(m, "nope*"));
    CHECK_ERROR("no module of Sequential matches 'nope*'");
}

TEST(a_watch_stays_with_what_it_watches) {
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(4, 8), cfx_nn_relu()), *copy;
    size_t mark = cfx_scope_open();
    cfx_watch *w = cfx_watch_new(m, "*");
    copy = cfx_keep(cfx_module_copy(m));
    cfx_forward(copy, cfx_ones(3, 4));
    CHECK_INT(cfx_watch_stats(w, 0)->count, 0);
    cfx_scope_close(mark);
    cfx_forward(copy, cfx_ones(3, 4)); /* the watch is gone */
    CHECK_INT(cfx_hook_count(cfx_module_find(copy, "0")), 0);
    cfx_drop(copy);
    CHECK_OK();
}

static cfx_tensor *two_layers(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "b", cfx_relu(cfx_call(self, "a", x)));
}

TEST(modules_of_a_program_are_watched_by_its_nodes) {
    cfx_module *m = cfx_module_new("Two", two_layers, "x");
    cfx_nn_add(m, "a", cfx_nn_linear(4, 3));
    cfx_nn_add(m, "b", cfx_nn_linear(3, 2));
    cfx_tensor *x = cfx_randn(5, 4);
    cfx_watch *want = cfx_watch_new(m, "*");
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    cfx_module *gm = cfx_program_module(p);
    cfx_watch *w = cfx_watch_new(gm, "*");
    cfx_forward(m, x);
    cfx_forward(gm, x);
    CHECK_OK();
    CHECK_INT(cfx_watch_count(w), 2);
    for (int i = 0; i < 2; i++) {
        CHECK_STR(cfx_watch_path(w, i), cfx_watch_path(want, i));
        CHECK_INT(cfx_watch_stats(w, i)->count, cfx_watch_stats(want, i)->count);
        CHECK_NEAR(cfx_watch_stats(w, i)->mean, cfx_watch_stats(want, i)->mean, 1e-6);
    }
    cfx_watch_stop(w);
    cfx_forward(gm, x);
    CHECK_INT(cfx_watch_stats(w, 0)->count, 15);
}

TEST(every_number_has_a_bin) {
    const double narrow[] = {0, 5e-324, NAN, INFINITY}, wide[] = {-1.7e308, 0, 1.7e308};
    cfx_stats s = {0}, t = {0};
    cfx_stats_add(&s, cfx_tensor_new(CFX_F64, 1, (int64_t[]){4}, narrow));
    CHECK_INT(s.histogram[0], 2);
    cfx_stats_add(&t, cfx_tensor_new(CFX_F64, 1, (int64_t[]){3}, wide));
    CHECK_INT(t.histogram[0], 1);
    CHECK_INT(t.histogram[CFX_STATS_BINS / 2], 1);
    CHECK_INT(t.histogram[CFX_STATS_BINS - 1], 1);
}

/* Counts what a call shows: positional arguments in tens, named ones in ones. */
static cfx_value count_shown(cfx_mode *self, cfx_target t, cfx_args a) {
    cfx_args shown = cfx_op_args_shown(t.op, a);
    *(int64_t *)self->user = 10 * shown.n + (shown.kw ? shown.kw->len : 0);
    return cfx_mode_forward(self, t, a);
}

TEST(defaults_are_not_shown_and_arguments_that_must_be_named_are) {
    int64_t seen = 0;
    cfx_tensor *x = cfx_ones(2);
    cfx_mode m = {.handle = count_shown, .user = &seen};
    cfx_dispatch_mode_push(&m);
    cfx_add(x, x);
    CHECK(seen == 20);
    cfx_add(x, x, CFX_KW(alpha, 3));
    CHECK(seen == 21);
    cfx_sum(x, cfx_list(0), true);
    CHECK(seen == 30);
    cfx_zeros(2);
    CHECK(seen == 10);
    cfx_zeros(2, CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    CHECK(seen == 11);
    cfx_dispatch_mode_pop();
}
