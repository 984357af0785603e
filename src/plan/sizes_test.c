/* One program at many sizes: plans are kept, and share memory and packed weights. */
#include "form.h"
#include "plan_test.h"

#include <pthread.h>
#include <stdatomic.h>

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

static const cfx__plan_form *form_at(const cfx_program *p, int i) {
    const cfx__prepared *q = p->module->graph->prepared;
    for (; q; q = q->next)
        if (q->form && q->by->run == cfx_planner.run && !i--)
            return q->form;
    return NULL;
}

static int blocks_of(const cfx_program *p) {
    int n = 0;
    for (const cfx__plan_block *b = form_at(p, 0)->plan->blocks->first; b; b = b->next)
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

/* Lowered for the first size; one row is another kind of program, and has a plan of its own. */
TEST(one_plan_serves_many_sizes) {
    enum { SIZES = 12 };
    cfx_program *p = layered();
    for (int n = 0; n < SIZES; n++)
        CHECK(agree(p, rows(3 + 5 * n)));
    for (int i = 1; i < SIZES; i++)
        CHECK(form_at(p, i)->plan == form_at(p, 0)->plan);
    run_by(&cfx_planner, p, rows(1));
    CHECK(form_at(p, 0)->plan != form_at(p, 1)->plan);
    CHECK(agree(p, rows(1)));
    CHECK_OK();
}

static bool same_bits(const cfx_tensor *a, const cfx_tensor *b) {
    return cfx__tensor_same_shape(a, b) &&
           !memcmp(a->data, b->data, (size_t)a->numel * sizeof(float));
}

TEST(a_plan_at_another_size_computes_what_a_plan_of_that_size_does) {
    for (int n = 2; n < 40; n += 7) {
        cfx_manual_seed(5);
        cfx_program *p = layered();
        cfx_manual_seed(5);
        cfx_program *fresh = layered();
        cfx_value x = rows(n);
        run_by(&cfx_planner, p, rows(64)); /* as long as wide: nothing may follow from that */
        const cfx_value a = run_by(&cfx_planner, p, x), b = run_by(&cfx_planner, fresh, x);
        CHECK(form_at(p, 0)->plan == form_at(p, 1)->plan && form_at(fresh, 1) == NULL);
        CHECK(same_bits(cfx_tensor_at(a, 0), cfx_tensor_at(b, 0)));
    }
    CHECK_OK();
}

/* Grouped heads: attention reads those that are shared. */
TEST(heads_stay_shared_at_other_sizes) {
    cfx_program *p = program_of(
        HEAD "q, k, v):\n"
        CALL("a", "unsqueeze.default", "k, 2") CALL("b", "expand.default", "a, [-1, -1, 3, -1, -1]")
        CALL("c", "reshape.default", "b, [1, 6, -1, 8]") CALL("d", "unsqueeze.default", "v, 2")
        CALL("e", "expand.default", "d, [-1, -1, 3, -1, -1]")
        CALL("f", "reshape.default", "e, [1, 6, -1, 8]")
        CALL("g", "scaled_dot_product_attention.default", "q, c, f")
        CALL("h", "mul.Tensor", "g, 2") CALL("i", "add.Tensor", "h, q")
        "        return (i,)\n", cfx_dict_new());
    for (int n = 9; n < 40; n += 10)
        for (int turn = 0; turn < 2; turn++) {
            cfx_value in[] = {cfx_tensor_value(cfx_randn(1, 6, n, 8)),
                              cfx_tensor_value(cfx_randn(1, 2, n, 8)),
                              cfx_tensor_value(cfx_randn(1, 2, n, 8))};
            const cfx_args args = {3, in, NULL};
            cfx_value a = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL, args);
            cfx_value b = cfx_program_run_with(CFX_HERE, p, &cfx_planner, NULL, args);
            CHECK(cfx_integer(cfx_allclose(cfx_at(a, 0), cfx_at(b, 0), 1e-5, 1e-5)));
        }
    CHECK_INT((int)form_at(p, 0)->plan->repeats.len, 2);
    CHECK(form_at(p, 0)->plan == form_at(p, 3)->plan);
    CHECK_OK();
}

/* A product whose rows another shape shows, as they do at two rows and not at four. */
TEST(rows_that_are_cut_otherwise_at_another_size_are_not_the_rows_of_a_product) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(6, 4)};
    cfx_program *p = program_of(
        HEAD "p_w, x):\n" CALL("y", "linear.default", "x, p_w")
        CALL("v", "reshape.default", "y, [2, -1]") CALL("s", "sigmoid.default", "v")
        "        return (s,)\n", tensors_of(1, names, t));
    for (int64_t n = 2; n < 9; n += 2)
        CHECK(agree(p, cfx_tensor_value(cfx_randn(n, 4))));
    CHECK_OK();
}

/* Several views of a product, asked for one by one. */
TEST(parts_of_a_result_are_views_at_other_sizes_too) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(12, 4)};
    cfx_program *p = program_of(
        HEAD "p_w, x):\n" CALL("y", "linear.default", "x, p_w")
        CALL("l", "split.Tensor", "y, 4, -1")
        "        a = l[0]\n        b = l[1]\n        c = l[2]\n"
        CALL("d", "mul.Tensor", "a, b") CALL("e", "add.Tensor", "d, c")
        "        return (e,)\n", tensors_of(1, names, t));
    for (int64_t n = 2; n < 9; n += 3)
        CHECK(agree(p, cfx_tensor_value(cfx_randn(n, 4))));
    CHECK(form_at(p, 0)->plan == form_at(p, 2)->plan);
    CHECK_OK();
}

/* What no result asks for refuses sizes all the same. */
TEST(a_plan_at_another_size_refuses_what_the_interpreter_refuses) {
    cfx_program *p = program_of(
        HEAD "x):\n" CALL("u", "expand.default", "x, [3, 8]") CALL("a", "mul.Tensor", "x, 2")
        CALL("b", "relu.default", "a") "        return (b,)\n", cfx_dict_new());
    run_by(&cfx_planner, p, cfx_tensor_value(cfx_randn(3, 8)));
    CHECK_OK();
    run_by(&cfx_planner, p, cfx_tensor_value(cfx_randn(4, 8)));
    CHECK_ERROR("The expanded size of the tensor (3) must match the existing size (4)");
}

TEST(plans_for_other_sizes_run_in_the_same_memory) {
    enum { SIZES = 12 };
    cfx_program *p = layered();
    int64_t most = 0;
    for (int n = SIZES; n > 0; n--)
        run_by(&cfx_planner, p, rows(4 * n));
    for (int i = 0; i < SIZES; i++) {
        const cfx__plan_form *f = form_at(p, i);
        if (!CHECK(f != NULL))
            return;
        CHECK(f->plan->blocks == form_at(p, 0)->plan->blocks);
        most = f->room_bytes > most ? f->room_bytes : most;
    }
    CHECK_INT(blocks_of(p), 1);
    CHECK(form_at(p, 0)->plan->blocks->first->memory->numel < most + most / 4 + 4096);
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
