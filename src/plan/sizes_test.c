/* One program at many sizes: plans are kept, and share memory and packed weights. */
#include "plan.h"
#include "plan_test.h"

#include <pthread.h>
#include <stdatomic.h>

#define CALL(to, op, args) "        " to " = torch.ops.aten." op "(" args ")\n"

/* Any number of rows; what comes out is the caller's. */
static cfx_program *layered(void) {
    static const char *const names[] = {"w", "v"};
    cfx_tensor *t[] = {cfx_mul(cfx_randn(64, 64), 0.1), cfx_mul(cfx_randn(64, 64), 0.1)};
    return program_of(HEAD "p_w, p_v, x):\n"
        CALL("a", "linear.default", "x, p_w") CALL("b", "gelu.default", "a")
        CALL("c", "linear.default", "b, p_v") CALL("d", "softmax.int", "c, -1")
        CALL("e", "add.Tensor", "d, b") CALL("f", "linear.default", "e, p_w")
        "        return (f,)\n", tensors_of(COUNT(names), names, t));
}

static cfx_value rows(int64_t n) { return cfx_tensor_value(cfx_randn(n, 64)); }

static atomic_int plans;

static void *count_plan(const cfx_execution *e) {
    plans++;
    return cfx_planner.prepare(e);
}

/* The planner, counted; what was prepared is freed by it, with the program. */
static const cfx_executor *counting(void) {
    static cfx_executor planner;
    planner = cfx_planner;
    planner.prepare = count_plan;
    return &planner;
}

static const cfx__plan *plan_at(const cfx_program *p, int i) {
    const cfx__prepared *q = p->module->graph->prepared;
    for (; q; q = q->next)
        if (q->form && q->by->run == cfx_planner.run && !i--)
            return q->form;
    return NULL;
}

static int blocks_of(const cfx_program *p) {
    int n = 0;
    for (const cfx__plan_block *b = plan_at(p, 0)->blocks->first; b; b = b->next)
        n++;
    return n;
}

TEST(many_sizes_in_turn_are_planned_once_each) {
    enum { SIZES = 12, ROUNDS = 3 };
    cfx_program *p = layered();
    const cfx_executor *x = counting();
    for (int round = 0; round < ROUNDS; round++)
        for (int n = 1; n <= SIZES; n++) {
            cfx_value in = rows(4 * n);
            CHECK(cfx_integer(cfx_allclose(cfx_at(run_by(&cfx_interpreter, p, in), 0),
                                           cfx_at(run_by(x, p, in), 0), 1e-5, 1e-5)));
        }
    CHECK_INT(plans, SIZES);
    CHECK_OK();
}

TEST(plans_for_other_sizes_run_in_the_same_memory) {
    enum { SIZES = 12 };
    cfx_program *p = layered();
    int64_t most = 0;
    for (int n = SIZES; n > 0; n--)
        run_by(&cfx_planner, p, rows(4 * n));
    for (int i = 0; i < SIZES; i++) {
        const cfx__plan *plan = plan_at(p, i);
        if (!CHECK(plan != NULL))
            return;
        CHECK(plan->blocks == plan_at(p, 0)->blocks);
        most = plan->room_bytes > most ? plan->room_bytes : most;
    }
    CHECK_INT(blocks_of(p), 1);
    CHECK(plan_at(p, 0)->blocks->first->memory->numel < most + most / 4 + 4096);
    for (int n = 1; n <= 2 * SIZES; n++) /* larger ones too: the block makes way for a larger one */
        CHECK(agree(p, rows(4 * n)));
    CHECK_INT(blocks_of(p), 1);
    CHECK_OK();
}

/* What the caller holds is not in that memory. */
TEST(results_stay_when_another_size_runs) {
    cfx_program *p = layered();
    cfx_tensor *first = cfx_tensor_at(run_by(&cfx_planner, p, rows(32)), 0);
    cfx_tensor *held = cfx_clone(first);
    for (int n = 1; n < 6; n++)
        run_by(&cfx_planner, p, rows(16 * n));
    CHECK(cfx_integer(cfx_equal(first, held)));
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { CALLERS = 8 };

typedef struct {
    cfx_program *p;
    const cfx_executor *x;
    pthread_barrier_t *begin;
    int rows, runs, number;
    bool fine;
} caller;

static void *serve(void *arg) {
    caller *c = arg;
    pthread_barrier_wait(c->begin);
    c->fine = true;
    for (int i = 0; i < c->runs; i++)
        CFX_SCOPE {
            const int64_t n = c->rows ? c->rows : 1 + (c->number * 7 + i * 5) % 40;
            cfx_value x = cfx_tensor_value(cfx_ones(n, 64));
            cfx_value want = run_by(&cfx_interpreter, c->p, x), got = run_by(c->x, c->p, x);
            c->fine &= cfx_ok() &&
                       cfx_integer(cfx_allclose(cfx_at(want, 0), cfx_at(got, 0), 1e-5, 1e-5));
        }
    cfx_finish(stderr);
    return NULL;
}

static void call_at_once(cfx_program *p, const cfx_executor *x, int n, int runs) {
    pthread_t threads[CALLERS];
    caller callers[CALLERS];
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, CALLERS);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){p, x, &begin, n, runs, i, false};
        pthread_create(&threads[i], NULL, serve, &callers[i]);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(callers[i].fine);
    }
    pthread_barrier_destroy(&begin);
}

TEST(callers_that_start_at_once_share_one_plan) {
    cfx_program *p = layered();
    call_at_once(p, counting(), 24, 3);
    CHECK_INT(plans, 1);
    CHECK(blocks_of(p) <= CALLERS);
}

/* Plans come and go while others run in the blocks where they were. */
TEST(callers_with_many_sizes_share_memory) {
    cfx_program *p = layered();
    call_at_once(p, &cfx_planner, 0, 60);
    CHECK(blocks_of(p) <= CALLERS);
}
