/* The pool: every index once, errors of helpers, callers at once, forks, helpers that sleep. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "test.h"

#include "cores.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void mark(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        ((char *)arg)[i]++;
}

/* Whether each of n indices was visited once. */
static bool visits_once(int64_t n, int64_t grain) {
    char *seen = cfx__alloc0((size_t)n + 1);
    cfx__parallel(n, grain, mark, seen);
    int64_t right = 0;
    for (int64_t i = 0; i < n; i++)
        right += seen[i] == 1;
    cfx__free(seen);
    return right == n;
}

TEST(parallel_visits_each_index_once) {
    for (int threads = 1; threads <= 5; threads++) {
        cfx_set_num_threads(threads);
        CHECK_INT(cfx_get_num_threads(), threads);
        CHECK(visits_once(1000, 10) && visits_once(7, 1) && visits_once(3, 0));
    }
    cfx__parallel(0, 10, mark, NULL);
    cfx_set_num_threads(1000);
    CHECK_INT(cfx_get_num_threads(), 64);
    CHECK(visits_once(1000, 1));
    cfx_set_num_threads(0);
    CHECK(cfx_get_num_threads() >= 1);
}

/* What a body was called with depends on the number of threads, not on who was idle. */
static void note_ends(void *arg, int64_t begin, int64_t end) {
    _Atomic int64_t *sum = arg;
    atomic_fetch_add(sum, (begin + 1) * (end + 3));
}

static void add_up(void *arg, int64_t begin, int64_t end) {
    _Atomic int64_t *sums = arg;
    sums[0] += end - begin;
    sums[1] += begin < 0 || end <= begin;
}

/* As many elements as a view stands for, at most. */
TEST(pieces_of_much_are_in_order) {
    _Atomic int64_t sums[2] = {0};
    cfx_set_num_threads(64);
    cfx__parallel(((int64_t)1 << 56) - 1, 1, add_up, sums);
    CHECK_INT(sums[0], ((int64_t)1 << 56) - 1);
    CHECK_INT(sums[1], 0);
}

TEST(pieces_are_the_same_from_run_to_run) {
    cfx_set_num_threads(3);
    _Atomic int64_t first = 0;
    cfx__parallel(1000, 7, note_ends, &first);
    for (int i = 0; i < 50; i++) {
        _Atomic int64_t again = 0;
        cfx__parallel(1000, 7, note_ends, &again);
        CHECK_INT(again, first);
    }
}

static void fail_late(void *arg, int64_t begin, int64_t end) {
    (void)arg;
    for (int64_t i = begin; i < end; i++)
        if (i == 900)
            cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "index %d is wrong", 900);
}

TEST(errors_of_helpers_reach_the_caller) {
    cfx_set_num_threads(4);
    for (int i = 0; i < 20; i++) {
        cfx__parallel(1000, 1, fail_late, NULL);
        CHECK_ERROR("index 900 is wrong");
    }
    CHECK(visits_once(1000, 1));
}

static void ask_for_much(void *arg, int64_t begin, int64_t end) {
    _Atomic int *given = arg;
    for (int64_t i = begin; i < end; i++) {
        void *p = cfx__alloc_try((size_t)1 << 20);
        *given += p != NULL;
        cfx__free(p);
    }
}

TEST(helpers_keep_to_the_memory_limit_of_the_caller) {
    _Atomic int given = 0;
    cfx_set_num_threads(4);
    cfx_set_memory_limit(cfx_memory_held() + (1 << 19));
    for (int i = 0; i < 20; i++) {
        cfx__parallel(1000, 1, ask_for_much, &given);
        CHECK_ERROR("the memory limit of");
    }
    CHECK_INT(given, 0);
    cfx_set_memory_limit(0);
    cfx__parallel(1000, 1, ask_for_much, &given);
    CHECK_INT(given, 1000);
}

static void inner(void *arg, int64_t begin, int64_t end) {
    _Atomic int64_t *whole = arg;
    atomic_fetch_add(whole, begin == 0 && end == 100);
}

static void outer(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        cfx__parallel(100, 1, inner, arg);
}

TEST(inside_a_body_everything_runs_at_once) {
    cfx_set_num_threads(4);
    _Atomic int64_t whole = 0;
    cfx__parallel(40, 1, outer, &whole);
    CHECK_INT(whole, 40);
}

static void *call_often(void *arg) {
    _Atomic int *wrong = arg;
    cfx_set_num_threads(4);
    for (int i = 0; i < 200; i++)
        *wrong += !visits_once(500, 5);
    return NULL;
}

TEST(many_callers_share_the_helpers) {
    enum { CALLERS = 16 };
    pthread_t caller[CALLERS];
    _Atomic int wrong = 0;
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&caller[i], NULL, call_often, &wrong);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(caller[i], NULL);
    CHECK_INT(wrong, 0);
}

typedef struct {
    pthread_t thread[64];
    _Atomic int n, most, now;
} crowd;

static void count_in(void *arg, int64_t begin, int64_t end) {
    crowd *c = arg;
    (void)begin, (void)end;
    int now = atomic_fetch_add(&c->now, 1) + 1, most = c->most;
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now))
        ;
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    atomic_fetch_sub(&c->now, 1);
}

static void *call_crowded(void *arg) {
    cfx_set_num_threads(3);
    for (int i = 0; i < 20; i++)
        cfx__parallel(12, 1, count_in, arg);
    return NULL;
}

/* Four callers of three threads: helpers are lent while no more than the cores, or three, work. */
TEST(callers_at_once_do_not_take_more_threads_than_there_are_cores) {
    crowd c = {.n = 4};
    cfx_set_num_threads(0);
    const int cores = cfx_get_num_threads(), limit = cores > 3 ? cores : 3;
    for (int i = 0; i < c.n; i++)
        pthread_create(&c.thread[i], NULL, call_crowded, &c);
    for (int i = 0; i < c.n; i++)
        pthread_join(c.thread[i], NULL);
    CHECK(c.most <= limit + c.n - 1);
}

TEST(helpers_that_sleep_are_woken) {
    cfx_set_num_threads(3);
    for (int i = 0; i < 5; i++) {
        CHECK(visits_once(1000, 1));
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    }
    cfx__parallel_plan(true);
    CHECK(visits_once(1000, 1));
    cfx__parallel_plan(false);
}

TEST(a_forked_process_has_helpers_of_its_own) {
    cfx_set_num_threads(3);
    CHECK(visits_once(1000, 1));
    pid_t child = fork();
    if (!child)
        _exit(visits_once(1000, 1) && visits_once(1000, 1) ? 0 : 1);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK(visits_once(1000, 1));
}

/* ---- where helpers run ----------------------------------------------------------------------- */

typedef struct {
    pthread_t caller;
    _Atomic int core, seen[CPU_SETSIZE]; /* the caller's; pieces of helpers by core */
    _Atomic int helped, beside;          /* pieces of helpers; those done on the caller's core */
} places;

static void note_place(void *arg, int64_t begin, int64_t end) {
    places *p = arg;
    (void)begin, (void)end;
    const int core = cfx__core_now();
    if (pthread_equal(pthread_self(), p->caller)) {
        p->core = core;
    } else if (core >= 0 && core < CPU_SETSIZE) {
        p->helped++;
        p->seen[core]++;
        p->beside += core == p->core;
    }
    for (int64_t until = cfx__clock_ns() + 20000; cfx__clock_ns() < until;)
        ;
}

static places *run_placed(int threads, int regions) {
    static places p;
    p = (places){.caller = pthread_self(), .core = -1};
    cfx_set_num_threads(threads);
    for (int i = 0; i < regions; i++)
        cfx__parallel(16, 1, note_place, &p);
    return &p;
}

/* On a machine that is busy with other things a helper may come too late for work that is small:
 * what should hold is tried for some seconds. */
enum { PATIENCE_S = 20 };

static bool comes_to_hold(bool (*holds)(void)) {
    const int64_t until = cfx__clock_ns() + (int64_t)PATIENCE_S * 1000000000;
    bool held = holds();
    while (!held && cfx__clock_ns() < until)
        held = holds();
    return held;
}

static bool helpers_help(void) { return run_placed(4, 50)->helped > 0; }

/* The host may pin its threads: helpers stay where their caller may be. */
TEST(helpers_stay_on_the_cores_of_their_caller) {
    const cfx__cores all = cfx__cores_allowed();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cfx__core_now(), &one);
    CHECK(!sched_setaffinity(0, sizeof one, &one));
    cfx__parallel_plan(true);
    CHECK_INT(cfx__cores_allowed().n, 1);
    CHECK_INT(run_placed(4, 50)->helped, 0); /* there is no core for one */
    cfx__parallel_plan(false);
    CHECK(!sched_setaffinity(0, sizeof all.set, &all.set));
    cfx__parallel_plan(true);
    const places *p = run_placed(4, 50);
    for (int i = 0; i < CPU_SETSIZE; i++)
        CHECK(!p->seen[i] || CPU_ISSET(i, &all.set));
    CHECK(all.n == 1 || comes_to_hold(helpers_help));
    cfx__parallel_plan(false);
}

/* The caller may be moved by the system. */
static bool helpers_are_elsewhere(void) {
    const places *p = run_placed(2, 200);
    return p->helped > 0 && p->beside * 4 <= p->helped;
}

/* While the caller stays on its core no helper is there, even where there is one core for both. */
TEST(helpers_are_not_on_the_core_of_their_caller) {
    const cfx__cores all = cfx__cores_allowed();
    if (all.n < 2)
        return;
    run_placed(2, 20); /* helpers have begun somewhere */
    CHECK(comes_to_hold(helpers_are_elsewhere));
}

/* How often threads other than this one went to sleep. */
static long sleeps_of_others(void) {
    struct rusage all, own;
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    return all.ru_nvcsw - own.ru_nvcsw;
}

static bool rare_work_wakes_nobody(void) {
    enum { TIMES = 12 };
    _Atomic int64_t sums[2] = {0};
    run_placed(2, 20);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* helpers sleep */
    const long before = sleeps_of_others();
    for (int i = 0; i < TIMES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
        cfx__parallel(2, 1, add_up, sums); /* some nanoseconds */
    }
    CHECK_INT(sums[0], 2 * TIMES);
    return sleeps_of_others() - before < TIMES / 2;
}

TEST(small_work_that_is_rare_wakes_nobody) {
    CHECK(comes_to_hold(rare_work_wakes_nobody));
    CHECK(cfx__cores_allowed().n == 1 || comes_to_hold(helpers_help)); /* dense work does */
}
