/* The pool: threads that help with one operator at a time. Start at cfx__parallel.
 *
 * Work is cut into pieces, and whoever is there takes the next one: the caller never waits for a
 * helper that has not begun, only for pieces that are being done. So a machine whose cores are busy
 * with something else costs the help, not more. A helper waits for work actively for a short while
 * (longer while a plan runs, whose kernels follow each other closely) and then sleeps. The pool is
 * the process's: callers at the same time share the helpers that are idle, and there are never more
 * threads at work than cores, or than a caller asked for.
 *
 * Which piece is which depends on the number of threads allowed alone, not on who was idle, so
 * results are the same from run to run. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "held.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    MOST = 64,              /* threads for one operator */
    PIECES = 4,             /* that each thread gets, where there is enough work */
    STACK = 8 << 20,
    SPIN_NS = 20000,        /* how long a helper waits actively: when nothing is known, */
    SPIN_PLAN_NS = 1000000, /* and while plans run */
    SPIN_END_NS = 50000     /* how long a caller waits so for the last pieces */
};

/* The pieces of one thread, which it takes first. Lines of memory are not shared. */
typedef struct {
    _Alignas(64) atomic_int next;
    int end;
} share;

typedef struct {
    cfx__parallel_fn *body;
    void *arg;
    int64_t n;
    int pieces, threads;
    size_t memory_limit;   /* the caller's, which is that of all who work for it */
    pthread_mutex_t lock;  /* of what follows */
    cfx__error_held first; /* what went wrong on other threads */
    share shares[MOST];
} region;

/* FREE -> CLAIMED by a caller -> GIVEN a region -> RUNNING it -> FREE; or GIVEN -> FREE where the
 * caller was done before the helper began. What is GIVEN says in the bits above whose turn it is,
 * so that nobody takes back what another caller gave. */
enum { FREE, CLAIMED, GIVEN, RUNNING, KINDS };

static unsigned given_in(unsigned turn) { return turn * KINDS + GIVEN; }

typedef struct {
    _Alignas(64) atomic_uint state;
    atomic_bool asleep;
    atomic_int awaited; /* callers that sleep until it is done */
    atomic_uint done;   /* regions that it ran */
    region *work;       /* while GIVEN or RUNNING */
    int number;         /* its share there */
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    pthread_t thread;
} helper;

/* All of it is the process's. */
static struct {
    pthread_mutex_t lock; /* of starting and ending helpers */
    atomic_int helpers;   /* started; those before it are complete */
    atomic_int busy;      /* callers and helpers at work */
    atomic_int plans;     /* that run now */
    atomic_bool ending;   /* no helper starts any more */
    bool forks;           /* what happens when the process forks is arranged for */
    helper helper[MOST];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool inside; /* a piece is being done: what it calls runs alone */

/* ---- waiting --------------------------------------------------------------------------------- */

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool has_work(helper *h) { return atomic_load(&h->state) % KINDS == GIVEN; }

/* Waits actively for work; false when there was none for a while. */
static bool spin_for_work(helper *h) {
    const int64_t start = cfx__clock_ns();
    do {
        for (int i = 0; i < 64; i++) {
            if (has_work(h))
                return true;
            relax();
        }
    } while (cfx__clock_ns() - start <
             (atomic_load_explicit(&pool.plans, memory_order_relaxed) ? SPIN_PLAN_NS : SPIN_NS));
    return false;
}

static void sleep_for_work(helper *h) {
    pthread_mutex_lock(&h->lock);
    atomic_store(&h->asleep, true);
    while (!has_work(h) && !atomic_load(&pool.ending))
        pthread_cond_wait(&h->wake, &h->lock);
    atomic_store(&h->asleep, false);
    pthread_mutex_unlock(&h->lock);
}

static void rouse(helper *h) {
    if (!atomic_load(&h->asleep))
        return;
    pthread_mutex_lock(&h->lock);
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

/* It may have run others since. */
static bool has_run(helper *h, unsigned turn) { return (int)(atomic_load(&h->done) - turn) >= 0; }

/* Waits until a helper has run as many regions as `turn` says. */
static void await(helper *h, unsigned turn) {
    const int64_t start = cfx__clock_ns();
    do {
        for (int i = 0; i < 64; i++) {
            if (has_run(h, turn))
                return;
            relax();
        }
    } while (cfx__clock_ns() - start < SPIN_END_NS);
    pthread_mutex_lock(&h->lock);
    atomic_fetch_add(&h->awaited, 1);
    while (!has_run(h, turn))
        pthread_cond_wait(&h->finished, &h->lock);
    atomic_fetch_sub(&h->awaited, 1);
    pthread_mutex_unlock(&h->lock);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Where piece p begins: n * p / pieces, which may be no number of 64 bits on the way. */
static int64_t begin_of(const region *r, int p) {
    return r->n / r->pieces * p + r->n % r->pieces * p / r->pieces;
}

/* Takes pieces until there are none: those of share `number` first, then others'. */
static void work_on(region *r, int number) {
    inside = true;
    for (int i = 0; i < r->threads; i++) {
        share *s = &r->shares[(number + i) % r->threads];
        for (int p; (p = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end;)
            r->body(r->arg, begin_of(r, p), begin_of(r, p + 1));
    }
    inside = false;
}

/* Moves this thread's error to where the caller looks. */
static void hand_over(region *r) {
    cfx__error_held own;
    cfx__error_hold(&own);
    pthread_mutex_lock(&r->lock);
    cfx__error_held later = r->first.failed ? own : r->first;
    r->first = r->first.failed ? r->first : own;
    pthread_mutex_unlock(&r->lock);
    cfx__text_release(&later.message);
    cfx__text_release(&later.notes);
}

/* Ends at once where nobody has a claim. */
static bool may_end(helper *h) {
    unsigned none = FREE;
    return atomic_load(&pool.ending) && atomic_compare_exchange_strong(&h->state, &none, CLAIMED);
}

static void *help(void *arg) {
    helper *h = arg;
#ifdef _OPENMP
    omp_set_num_threads(1); /* libraries that are called from here start no threads of theirs */
#endif
    while (!may_end(h)) {
        if (!spin_for_work(h))
            sleep_for_work(h);
        unsigned given = atomic_load(&h->state);
        if (given % KINDS != GIVEN || !atomic_compare_exchange_strong(&h->state, &given, RUNNING))
            continue;
        cfx__ctx_tls.memory_limit = h->work->memory_limit;
        work_on(h->work, h->number);
        if (unlikely(cfx__ctx_tls.failed))
            hand_over(h->work);
        atomic_fetch_sub(&pool.busy, 1);
        atomic_fetch_add(&h->done, 1); /* from here on the region may be gone */
        atomic_store(&h->state, FREE);
        if (atomic_load(&h->awaited)) {
            pthread_mutex_lock(&h->lock);
            pthread_cond_broadcast(&h->finished);
            pthread_mutex_unlock(&h->lock);
        }
    }
    return NULL;
}

/* ---- helpers come and go --------------------------------------------------------------------- */

static void before_fork(void) { pthread_mutex_lock(&pool.lock); }
static void after_fork(void) { pthread_mutex_unlock(&pool.lock); }

/* In the child there is one thread. */
static void in_child(void) {
    atomic_store(&pool.helpers, 0);
    atomic_store(&pool.busy, 0);
    atomic_store(&pool.plans, 0);
    pthread_mutex_init(&pool.lock, NULL);
}

/* Signals are for the threads of the host. */
static bool start(helper *h) {
    pthread_attr_t attr;
    sigset_t all, before;
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->wake, NULL);
    pthread_cond_init(&h->finished, NULL);
    sigfillset(&all);
    if (pthread_attr_init(&attr))
        return false;
    pthread_attr_setstacksize(&attr, STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool fine = !pthread_create(&h->thread, &attr, help, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return fine;
}

/* Starts helpers until there are so many. Fewer, where the system gives no more. */
static void start_up_to(int wanted) {
    pthread_mutex_lock(&pool.lock);
    if (!pool.forks)
        pool.forks = !pthread_atfork(before_fork, after_fork, in_child);
    int have = atomic_load(&pool.helpers);
    while (pool.forks && have < wanted && !atomic_load(&pool.ending) && start(&pool.helper[have]))
        atomic_store(&pool.helpers, ++have);
    pthread_mutex_unlock(&pool.lock);
}

/* The code that helpers run goes away when the library is unloaded, and when the process ends. */
__attribute__((destructor)) static void end_all(void) {
    atomic_store(&pool.ending, true);
    pthread_mutex_lock(&pool.lock);
    const int n = atomic_exchange(&pool.helpers, 0);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < n; i++) {
        helper *h = &pool.helper[i];
        pthread_mutex_lock(&h->lock);
        pthread_cond_broadcast(&h->wake);
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->thread, NULL);
    }
}

/* ---- regions --------------------------------------------------------------------------------- */

/* A helper with what it was given, for the caller to end. */
typedef struct {
    helper *helper;
    unsigned turn;
} lent;

static int cores(void) {
    static atomic_int known;
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n)
        return n;
    cpu_set_t set;
    n = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                               : CPU_COUNT(&set);
    n = n < 1 ? 1 : n > MOST ? MOST : n;
    atomic_store_explicit(&known, n, memory_order_relaxed);
    return n;
}

void cfx_set_num_threads(int n) { cfx__ctx()->threads = n < 1 ? 0 : n > MOST ? MOST : n; }

int cfx_get_num_threads(void) {
    const int n = cfx__ctx()->threads;
    return n ? n : cores();
}

/* Whether one more thread may be at work. */
static bool room_for_one(int most) {
    if (atomic_fetch_add(&pool.busy, 1) < most)
        return true;
    atomic_fetch_sub(&pool.busy, 1);
    return false;
}

/* Gives the region to helpers that are idle. */
static int lend(region *r, lent *out) {
    const int wanted = r->threads - 1, most = r->threads > cores() ? r->threads : cores();
    if (atomic_load(&pool.helpers) < wanted)
        start_up_to(wanted);
    int n = 0;
    for (int i = 0; i < atomic_load(&pool.helpers) && n < wanted; i++) {
        helper *h = &pool.helper[i];
        unsigned none = FREE;
        if (!atomic_compare_exchange_strong(&h->state, &none, CLAIMED))
            continue;
        if (!room_for_one(most)) {
            atomic_store(&h->state, FREE);
            break;
        }
        h->work = r;
        h->number = n + 1;
        out[n] = (lent){h, atomic_load(&h->done) + 1};
        atomic_store(&h->state, given_in(out[n++].turn));
        rouse(h);
    }
    return n;
}

/* Takes the region back from those that have not begun, and waits for the others. */
static void take_back(const lent *l, int n) {
    for (int i = 0; i < n; i++) {
        unsigned given = given_in(l[i].turn);
        if (atomic_compare_exchange_strong(&l[i].helper->state, &given, CLAIMED)) {
            atomic_fetch_sub(&pool.busy, 1);
            atomic_store(&l[i].helper->state, FREE);
        } else {
            await(l[i].helper, l[i].turn);
        }
    }
}

static void run_region(region *r) {
    lent helpers[MOST];
    pthread_mutex_init(&r->lock, NULL);
    for (int t = 0; t < r->threads; t++) {
        atomic_init(&r->shares[t].next, r->pieces * t / r->threads);
        r->shares[t].end = r->pieces * (t + 1) / r->threads;
    }
    atomic_fetch_add(&pool.busy, 1);
    int n = lend(r, helpers);
    work_on(r, 0);
    take_back(helpers, n);
    atomic_fetch_sub(&pool.busy, 1);
    pthread_mutex_destroy(&r->lock);
    if (unlikely(r->first.failed)) {
        cfx_fail(r->first.error.kind, r->first.error.at, "%s", r->first.error.message);
        cfx__text_release(&r->first.message);
        cfx__text_release(&r->first.notes);
    }
}

void cfx__parallel(int64_t n, int64_t grain, cfx__parallel_fn *body, void *arg) {
    const int threads = n > grain && !inside ? cfx_get_num_threads() : 1;
    const int64_t most = grain > 0 ? (n + grain - 1) / grain : n;
    if (threads <= 1 || most <= 1) {
        body(arg, 0, n);
        return;
    }
    region r = {.body = body, .arg = arg, .n = n, .memory_limit = cfx__ctx()->memory_limit};
    r.pieces = (int)(most < threads * PIECES ? most : threads * PIECES);
    r.threads = threads < r.pieces ? threads : r.pieces;
    run_region(&r);
}

void cfx__parallel_plan(bool begins) { atomic_fetch_add(&pool.plans, begins ? 1 : -1); }
