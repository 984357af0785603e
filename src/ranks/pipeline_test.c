/* Pipelines over simulated ranks: results, order, caches, what fails. */
#include <cfx/ranks.h>

#include "../group/group.h"
#include "test.h"

enum { STAGES = 3, WIDTH = 8, BATCHES = 11 };

/* A row of stages, each a program of its own, and what they are together. */
typedef struct {
    cfx_program *stages[STAGES];
    cfx_module *parts[STAGES];
    int depth, fails_at, n;  /* fails_at: the batch at which rank 0's source fails; 0: never */
    int given, taken, most;  /* most: the largest number of batches on their way */
    bool right;
    cfx_value last;
} line;

static cfx_tensor *batch_of(int i) {
    cfx_tensor *x = cfx_tensor_new(CFX_F32, 2, (int64_t[]){2, WIDTH}, NULL);
    for (int k = 0; k < 2 * WIDTH; k++)
        ((float *)x->data)[k] = (float)((i * 31 + k * 7) % 13) - 6;
    return x;
}

static cfx_tensor *whole(const line *l, int i) {
    cfx_tensor *x = batch_of(i);
    for (int s = 0; s < STAGES; s++)
        x = cfx_forward(l->parts[s], x);
    return x;
}

static line make(void) {
    line l = {.right = true, .n = BATCHES};
    cfx_manual_seed(3);
    for (int s = 0; s < STAGES; s++) {
        l.parts[s] = cfx_nn_sequential(cfx_nn_linear(WIDTH, WIDTH), cfx_nn_relu());
        l.stages[s] = cfx_export(l.parts[s], cfx_tuple(batch_of(0)), CFX_NONE, CFX_NONE);
    }
    return l;
}

static cfx_value next_batch(void *user) {
    line *l = user;
    if (l->fails_at && l->given == l->fails_at)
        return cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "the source is dry"), cfx_none();
    if (l->given == l->n)
        return cfx_none();
    const int on_way = ++l->given - l->taken;
    l->most = on_way > l->most ? on_way : l->most;
    return cfx_tuple(batch_of(l->given - 1));
}

static bool take_result(cfx_value result, void *user) {
    line *l = user;
    cfx_value same = cfx_allclose(cfx_as_tensor(result), whole(l, l->taken), 1e-5, 1e-6);
    l->right &= cfx_integer(same) != 0;
    l->taken++;
    return true;
}

static bool run_line(cfx_group *g, void *user) {
    line *l = user;
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_program *stage = l->stages[cfx_group_rank(g)];
    cfx_pipeline *p = cfx_pipeline_new(g, stage, l->stages[STAGES - 1]->out_spec);
    cfx_pipeline_set_depth(p, l->depth);
    return cfx_pipeline_run(p, next_batch, take_result, user);
}

TEST(a_pipeline_gives_what_the_whole_gives_in_order) {
    line l = make();
    CHECK(cfx_group_simulate(STAGES, run_line, &l));
    CHECK_INT(l.taken, BATCHES);
    CHECK(l.right);
    CHECK(l.most <= 4 * STAGES);
}

TEST(a_depth_of_one_sends_each_batch_round_before_the_next) {
    line l = make();
    l.depth = 1;
    CHECK(cfx_group_simulate(STAGES, run_line, &l));
    CHECK_INT(l.taken, BATCHES);
    CHECK_INT(l.most, 1);
    CHECK(l.right);
}

TEST(a_pipeline_of_no_batches_ends) {
    line l = make();
    l.n = 0;
    CHECK(cfx_group_simulate(STAGES, run_line, &l));
    CHECK_INT(l.taken, 0);
}

TEST(a_source_that_fails_ends_all_stages) {
    line l = make();
    l.fails_at = 4;
    CHECK(!cfx_group_simulate(STAGES, run_line, &l));
    CHECK_ERROR("rank 0: the source is dry");
}

TEST(a_stage_that_does_not_fit_says_which_it_is) {
    line l = make();
    l.stages[1] = cfx_export(cfx_nn_linear(3, 3), cfx_tuple(cfx_ones(2, 3)), CFX_NONE, CFX_NONE);
    CHECK(!cfx_group_simulate(STAGES, run_line, &l));
    CHECK(cfx_error_last() && strstr(cfx_error_last()->notes, "In stage 1 of 3, on this machine"));
    CHECK_ERROR("rank 1: ");
}

static bool alone(cfx_group *g, void *user) {
    line *l = user;
    cfx_pipeline *p = cfx_pipeline_new(g, l->stages[0], l->stages[0]->out_spec);
    return cfx_pipeline_run(p, next_batch, NULL, user) && cfx_pipeline_run(p, NULL, NULL, NULL);
}

TEST(one_rank_is_a_pipeline_too) {
    line l = make();
    CHECK(cfx_group_simulate(1, alone, &l));
    CHECK_INT(l.given, BATCHES);
    CHECK(alone(NULL, &l));
}

/* ---- state ----------------------------------------------------------------------------------- */

/* Adds up what it has seen. */
static cfx_tensor *forward_sum(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *sum = cfx_attr(self, "sum");
    cfx_add_(sum, x);
    return cfx_mul(sum, 1);
}

static cfx_value take_ring(void *user) {
    line *l = user;
    if (l->given == 6)
        return cfx_none();
    return cfx_tuple(l->given++ ? cfx_as_tensor(l->last) : cfx_ones(1));
}

static bool keep_ring(cfx_value result, void *user) {
    line *l = user;
    cfx_value_drop(l->last);
    l->last = cfx_value_keep(result);
    return true;
}

static bool run_ring(cfx_group *g, void *user) {
    line *l = user;
    cfx_pipeline *p = cfx_pipeline_new(g, l->stages[cfx_group_rank(g)], l->stages[0]->out_spec);
    cfx_pipeline_set_depth(p, 1);
    for (int text = 0; text < 2; text++) {
        l->given = cfx_group_rank(g) ? l->given : 0;
        cfx_pipeline_reset(p);
        if (!cfx_pipeline_run(p, take_ring, keep_ring, user))
            return false;
        if (cfx_group_rank(g) == 0) /* s0 sums inputs, s1 sums s0's; both texts alike */
            CHECK_NEAR(cfx_tensor_get(cfx_as_tensor(l->last), 0), 144, 0);
    }
    return true;
}

TEST(stages_keep_their_state_and_results_go_round) {
    line l = {.last = cfx_none()};
    for (int s = 0; s < 2; s++) {
        cfx_module *m = cfx_module_new("Sum", forward_sum, "x");
        cfx_nn_buffer(m, "sum", cfx_zeros(1), true);
        l.stages[s] = cfx_export(m, cfx_tuple(cfx_ones(1)), CFX_NONE, CFX_NONE);
    }
    CHECK(cfx_group_simulate(2, run_ring, &l));
    cfx_value_drop(l.last);
    for (int s = 0; s < 2; s++) /* the programs' own buffers are as they were */
        CHECK_NEAR(cfx_tensor_get(cfx_as_tensor(cfx_dict_get(l.stages[s]->state, "sum")), 0), 0, 0);
}
