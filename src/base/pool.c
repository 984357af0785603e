/* The thread pool: helper threads that work on one operator at a time. Start at cfx__parallel.
 *
 * Work is divided into pieces, and any free thread takes the next one. The caller never waits for a
 * helper that has not started, only for pieces in progress; so if other processes occupy the cores,
 * the caller loses the help and nothing more. A helper spins for work for a short time (longer
 * while a plan runs, whose kernels follow each other closely) and then sleeps. The pool belongs to
 * the process: concurrent callers share idle helpers, and there are never more working threads than
 * cores, or than a caller asked for.
 *
 * The pool binds helpers to cores, because the scheduler starts a thread on the core of its parent,
 * and if it keeps them there, a helper that has started a piece and its caller alternate on that
 * core indefinitely. A helper is bound to a core that the caller may use, but not to the caller's
 * own, and is moved when a caller arrives on its core. If other processes use that core too (the
 * helper is runnable more often than it runs), it is unbound, and the scheduler decides.
 *
 * Waking a sleeping helper costs the caller more than a small piece of work. So the caller starts
 * alone, and wakes helpers after the time that waking one takes, which is measured. Frequent work
 * is given to helpers at once; rare small work never is. The number of helpers is the number that
 * pays off (worth.c).
 *
 * The division into pieces depends only on the number of threads allowed, not on which are idle,
 * so results are the same in every run. */
#define _GNU_SOURCE /* pthread_setaffinity_np */
#include "cores.h"
#include "held.h"
#include "pool.h"
#include "worth.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST = 64,              /* threads for one operator */
    PIECES = 4,             /* that each thread gets, where there is enough work */
    STACK = 8 << 20,
    SPIN_NS = 20000,        /* how long a helper waits actively: when nothing is known, */
    SPIN_PLAN_NS = 1000000, /* and while plans run */
    SPIN_END_NS = 50000,    /* how long a caller waits so for the last pieces */
    LOOK_NS = 4000000,      /* how often a helper looks whether it has its core for itself, */
    MOVE_NS = 2000000,      /* and how often it is moved, at most */
    WAKE_NS = 20000,        /* what waking a helper takes: as long as nothing is known, */
    WAKE_LEAST_NS = 2000, WAKE_MOST_NS = 200000, /* and within these */
    DENSE = 8               /* time without work makes up for a DENSE-th of time with work */
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
    int core;              /* that the caller is on */
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
    atomic_int core;    /* where it was last; -1: not known */
    int bound;          /* the core that it is bound to; -1: none. Of the pool's lock, as is */
    int64_t moved;      /* when it was bound last; */
    cfx__cores cores;   /* and those that it may use. */
    atomic_llong roused; /* when it was woken for work that it has not begun; 0: it was not */
    int64_t since, ran; /* its clock and its time on a core when it last looked */
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
    atomic_int wake_ns;   /* what waking a helper took lately */
    cfx__worth worth;     /* what regions took */
    bool forks;           /* what happens when the process forks is arranged for */
    helper helper[MOST];
    atomic_bool watched;
    atomic_size_t nspans;
    cfx__pool_span spans[CFX__POOL_SPANS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake_ns = WAKE_NS, .worth.giving = CFX__GIVING_NS};

static _Thread_local bool inside; /* a piece is being done: what it calls runs alone */

/* Of a calling thread. */
static _Thread_local struct {
    cfx__cores cores; /* as of when its last plan began; none: not asked yet */
    int64_t worked;   /* what of its time went to regions of late */
    int64_t ended;    /* when the last one did */
    int nth;          /* regions since its last plan began */
} caller;

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

static int64_t time_on_core(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void look_from_now(helper *h) {
    h->since = cfx__clock_ns();
    h->ran = time_on_core();
}

/* Whether others had the core for a quarter of the time since the helper last looked; it was ready
 * to run all along. */
static bool is_crowded(helper *h) {
    const int64_t since = h->since, ran = h->ran;
    if (cfx__clock_ns() - since < LOOK_NS)
        return false;
    look_from_now(h);
    return h->since - since - (h->ran - ran) > (h->since - since) / 4;
}

/* Lets the scheduler decide where the helper runs. */
static void unbind(helper *h) {
    pthread_mutex_lock(&pool.lock);
    if (h->bound >= 0 && h->cores.n)
        pthread_setaffinity_np(pthread_self(), sizeof h->cores.set, &h->cores.set);
    h->bound = -1;
    h->moved = cfx__clock_ns();
    pthread_mutex_unlock(&pool.lock);
}

static void sleep_for_work(helper *h) {
    if (is_crowded(h))
        unbind(h);
    pthread_mutex_lock(&h->lock);
    atomic_store(&h->asleep, true);
    while (!has_work(h) && !atomic_load(&pool.ending))
        pthread_cond_wait(&h->wake, &h->lock);
    atomic_store(&h->asleep, false);
    pthread_mutex_unlock(&h->lock);
    look_from_now(h);
}

static void rouse(helper *h) {
    if (!atomic_load(&h->asleep))
        return;
    atomic_store(&h->roused, cfx__clock_ns());
    pthread_mutex_lock(&h->lock);
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

/* The helper begins: how long waking it took is noted. */
static void note_wake(helper *h) {
    const int64_t roused = atomic_exchange(&h->roused, 0);
    if (!roused)
        return;
    int64_t took = cfx__clock_ns() - roused;
    took = took < WAKE_LEAST_NS ? WAKE_LEAST_NS : took > WAKE_MOST_NS ? WAKE_MOST_NS : took;
    atomic_store(&pool.wake_ns, (int)((3 * atomic_load(&pool.wake_ns) + took) / 4));
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

/* What a caller does between pieces as long as helpers sleep. */
typedef struct loan loan;
static void lend_late(region *r, loan *l);

/* Takes pieces until there are none: those of share `number` first, then others'. How many. */
static int work_on(region *r, int number, loan *late) {
    int done = 0;
    inside = true;
    for (int i = 0; i < r->threads; i++) {
        share *s = &r->shares[(number + i) % r->threads];
        for (int p; (p = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end;) {
            r->body(r->arg, begin_of(r, p), begin_of(r, p + 1));
            done++;
            if (late)
                lend_late(r, late);
        }
    }
    inside = false;
    return done;
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

static void note_span(const helper *h, int64_t begin) {
    const size_t at = atomic_fetch_add(&pool.nspans, 1);
    if (at < CFX__POOL_SPANS)
        pool.spans[at] = (cfx__pool_span){(int)(h - pool.helper), begin, cfx__clock_ns()};
}

void cfx__pool_watch(bool on) {
    if (on)
        atomic_store(&pool.nspans, 0);
    atomic_store(&pool.watched, on);
}

size_t cfx__pool_spans(const cfx__pool_span **spans) {
    const size_t n = atomic_load(&pool.nspans);
    *spans = pool.spans;
    return n < CFX__POOL_SPANS ? n : CFX__POOL_SPANS;
}

/* Ends at once where nobody has a claim. */
static bool may_end(helper *h) {
    unsigned none = FREE;
    return atomic_load(&pool.ending) && atomic_compare_exchange_strong(&h->state, &none, CLAIMED);
}

static void *help(void *arg) {
    helper *h = arg;
    look_from_now(h);
    while (!may_end(h)) {
        if (!spin_for_work(h))
            sleep_for_work(h);
        unsigned given = atomic_load(&h->state);
        if (given % KINDS != GIVEN || !atomic_compare_exchange_strong(&h->state, &given, RUNNING))
            continue;
        note_wake(h);
        cfx__ctx_tls.memory_limit = h->work->memory_limit;
        const int64_t begin = atomic_load_explicit(&pool.watched, memory_order_relaxed)
                                  ? cfx__clock_ns()
                                  : 0;
        work_on(h->work, h->number, NULL);
        atomic_store_explicit(&h->core, cfx__core_now(), memory_order_relaxed);
        if (unlikely(begin))
            note_span(h, begin);
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
        if (is_crowded(h))
            unbind(h);
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

/* A core for a helper, which is noted as its own; -1: none is free. Called locked. */
static int find_core(helper *h, int from) {
    cpu_set_t taken;
    CPU_ZERO(&taken);
    for (int i = 0; i < atomic_load(&pool.helpers); i++)
        if (pool.helper[i].bound >= 0 && &pool.helper[i] != h)
            CPU_SET(pool.helper[i].bound, &taken);
    h->cores = caller.cores;
    h->moved = cfx__clock_ns();
    h->bound = cfx__core_free(&h->cores, &taken, from);
    atomic_store(&h->core, h->bound);
    return h->bound;
}

/* Moves a helper that is where the caller is, or where the caller may not be. */
static void move(helper *h, int from) {
    const int core = atomic_load_explicit(&h->core, memory_order_relaxed);
    if (core < 0 || core >= CPU_SETSIZE || from < 0 ||
        (core != from && (!caller.cores.n || CPU_ISSET(core, &caller.cores.set))) ||
        pthread_mutex_trylock(&pool.lock))
        return;
    if (cfx__clock_ns() - h->moved > MOVE_NS && find_core(h, from) >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(h->bound, &one);
        pthread_setaffinity_np(h->thread, sizeof one, &one);
    }
    pthread_mutex_unlock(&pool.lock);
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
    const int core = find_core(h, cfx__core_now());
    if (core >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        pthread_attr_setaffinity_np(&attr, sizeof one, &one);
    }
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
    const int n = cfx__cores_worth();
    return n > MOST ? MOST : n;
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

/* A region that is lent, and to whom. */
struct loan {
    int wanted, n;    /* helpers */
    bool more;        /* some were not woken, or not even started */
    int64_t start;    /* of the region */
    lent helpers[MOST - 1];
};

/* Gives the region to helpers that are idle; to those that sleep where `wakes` says so. */
static void lend(region *r, loan *l, bool wakes) {
    const int most = r->threads > cores() ? r->threads : cores();
    if (l->wanted < 1)
        return;
    if (wakes && atomic_load(&pool.helpers) < l->wanted)
        start_up_to(l->wanted);
    const int helpers = atomic_load(&pool.helpers);
    l->more = l->wanted > helpers && !wakes;
    for (int i = 0; i < helpers && l->n < l->wanted; i++) {
        helper *h = &pool.helper[i];
        unsigned none = FREE;
        if (!wakes && atomic_load(&h->asleep)) {
            l->more = true;
            continue;
        }
        if (!atomic_compare_exchange_strong(&h->state, &none, CLAIMED))
            continue;
        if (!room_for_one(most)) {
            atomic_store(&h->state, FREE);
            break;
        }
        move(h, r->core);
        h->work = r;
        h->number = l->n + 1;
        l->helpers[l->n] = (lent){h, atomic_load(&h->done) + 1};
        atomic_store(&h->state, given_in(l->helpers[l->n++].turn));
        rouse(h);
    }
}

/* Wakes helpers once the caller worked without them for as long as that takes. */
static void lend_late(region *r, loan *l) {
    if (l->more && caller.worked + cfx__clock_ns() - l->start > atomic_load(&pool.wake_ns))
        lend(r, l, true);
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

/* What of the caller's time went to regions of late, at most a few times what waking takes: time
 * in between counts against it. */
static void note_time(int64_t begin, int64_t end) {
    const int64_t idle = caller.ended ? begin - caller.ended : 0;
    const int64_t most = 4 * (int64_t)atomic_load(&pool.wake_ns);
    caller.worked -= idle / DENSE;
    caller.worked = (caller.worked < 0 ? 0 : caller.worked) + end - begin;
    caller.worked = caller.worked > most ? most : caller.worked;
    caller.ended = end;
}

/* The region that comes at this place of a plan, over as many elements. */
static uint64_t key_of(const region *r) {
    const uint64_t key = cfx__hash_mix((uint64_t)(uintptr_t)r->body, (uint64_t)r->n);
    return cfx__hash_mix(key, (uint64_t)caller.nth << 8 | (uint64_t)r->threads);
}

static void run_region(region *r) {
    if (!caller.cores.n)
        caller.cores = cfx__cores_allowed();
    const int most = caller.cores.n < r->threads ? caller.cores.n : r->threads;
    const uint64_t key = key_of(r);
    loan l = {.wanted = cfx__worth_helpers(&pool.worth, key, most - 1), .start = cfx__clock_ns()};
    caller.nth += caller.nth < INT_MAX;
    pthread_mutex_init(&r->lock, NULL);
    for (int t = 0; t < r->threads; t++) {
        atomic_init(&r->shares[t].next, r->pieces * t / r->threads);
        r->shares[t].end = r->pieces * (t + 1) / r->threads;
    }
    r->core = cfx__core_now();
    atomic_fetch_add(&pool.busy, 1);
    const bool wakes = caller.worked > atomic_load(&pool.wake_ns);
    lend(r, &l, wakes);
    const int64_t given = l.n ? cfx__clock_ns() : l.start;
    if (l.n && !wakes)
        cfx__worth_note_giving(&pool.worth, l.n, given - l.start);
    const int done = work_on(r, 0, &l);
    if (done)
        cfx__worth_note(&pool.worth, key, (cfx__clock_ns() - given) * r->pieces / done);
    take_back(l.helpers, l.n);
    atomic_fetch_sub(&pool.busy, 1);
    pthread_mutex_destroy(&r->lock);
    note_time(l.start, cfx__clock_ns());
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

void cfx__parallel_plan(bool begins) {
    if (begins && caller.cores.n) /* the host may have moved this thread */
        caller.cores = cfx__cores_allowed();
    caller.nth = begins ? 1 : 0;
    atomic_fetch_add(&pool.plans, begins ? 1 : -1);
}
