/* The simulator: ranks are threads of this process, and messages are copied between them. It is the
 * reference for MPI, and runs programs of many ranks where there is no MPI. Start at
 * cfx_group_simulate.
 *
 * One lock protects all ranks. A message goes to the first matching request, or waits for one.
 * If every rank waits and no message is in flight, they would wait forever, which is reported as
 * a fault. */
#include "group.h"

#include <pthread.h>
#include <time.h>

enum { STACK = 8 << 20, MOST_RANKS = 1024 };

typedef struct world world;

/* A message on its way, or a request that waits for one. */
typedef struct letter {
    struct letter *next;
    int peer, tag;
    bool sends, done;
    size_t size;                   /* of what was sent */
    char *data;                    /* a message's: a copy */
    cfx__part parts[CFX__PARTS];   /* a request's: where it goes */
} letter;

typedef struct {
    cfx__transport transport;
    world *world;
    pthread_t thread;
    letter *arrived, *wanted; /* in order */
    const letter *waits;      /* for this; NULL: it runs */
    bool ended;
    bool well;                /* fn returned true and left no error */
    cfx_error_kind kind;      /* what it left */
    cfx_site at;
    char *message, *notes;
} rank;

struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int size, left;   /* ranks, those that still run */
    rank *ranks;
    cfx_rank_fn *fn;
    void *user;
    int first;        /* the rank that failed first; -1: none */
    char fault[512];  /* what its failure is called for the others */
    cfx__context limits; /* the caller's, of which ranks take the limits */
};

static void add(letter **list, letter *l) {
    while (*list)
        list = &(*list)->next;
    *list = l;
}

/* The first of a list from a rank with a tag, taken out; NULL where there is none. */
static letter *take(letter **list, int peer, int tag) {
    for (; *list; list = &(*list)->next)
        if ((*list)->peer == peer && (*list)->tag == tag) {
            letter *l = *list;
            *list = l->next;
            l->next = NULL;
            return l;
        }
    return NULL;
}

static void take_out(letter **list, const letter *l) {
    for (; *list; list = &(*list)->next)
        if (*list == l) {
            *list = l->next;
            return;
        }
}

/* Puts what was sent where a request wants it, as far as there is room. */
static void deliver(letter *request, const char *data, size_t size) {
    size_t at = 0;
    for (int i = 0; i < CFX__PARTS && at < size; i++) {
        const cfx__part *p = &request->parts[i];
        const size_t n = p->size < size - at ? p->size : size - at;
        if (n)
            memcpy(p->data, data + at, n);
        at += n;
    }
    request->size = size;
    request->done = true;
}

/* ---- the transport --------------------------------------------------------------------------- */

static const char *rank_node(cfx__transport *t, int number) {
    (void)t, (void)number;
    return "this machine";
}

static letter *letter_new(int peer, int tag, bool sends) {
    letter *l = cfx__alloc0(sizeof *l);
    *l = (letter){.peer = peer, .tag = tag, .sends = sends};
    return l;
}

static letter *message_of(int from, int tag, const cfx__part *parts) {
    letter *m = letter_new(from, tag, true);
    for (int i = 0; i < CFX__PARTS; i++)
        m->size += parts[i].size;
    m->data = cfx__alloc_try(m->size + 1);
    if (!m->data) {
        cfx__free(m);
        return NULL;
    }
    for (size_t i = 0, at = 0; i < CFX__PARTS; at += parts[i++].size)
        if (parts[i].size)
            memcpy(m->data + at, parts[i].data, parts[i].size);
    return m;
}

static void message_free(letter *m) {
    cfx__free(m->data);
    cfx__free(m);
}

/* What is sent has left when this returns. */
static void *send_to(rank *own, int peer, int tag, const cfx__part *parts) {
    world *w = own->world;
    rank *to = &w->ranks[peer];
    letter *m = message_of(own->transport.rank, tag, parts);
    if (!m)
        return NULL;
    letter *sent = letter_new(peer, tag, true);
    sent->done = true;
    pthread_mutex_lock(&w->lock);
    letter *request = take(&to->wanted, own->transport.rank, tag);
    if (request)
        deliver(request, m->data, m->size);
    else
        add(&to->arrived, m);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (request)
        message_free(m);
    return sent;
}

static void *recv_from(rank *own, int peer, int tag, const cfx__part *parts) {
    world *w = own->world;
    letter *request = letter_new(peer, tag, false);
    memcpy(request->parts, parts, sizeof request->parts);
    pthread_mutex_lock(&w->lock);
    letter *m = take(&own->arrived, peer, tag);
    if (m)
        deliver(request, m->data, m->size);
    else
        add(&own->wanted, request);
    pthread_mutex_unlock(&w->lock);
    if (m)
        message_free(m);
    return request;
}

static void *rank_begin(cfx__transport *t, bool sends, int peer, int tag, const cfx__part *parts) {
    rank *own = (rank *)t;
    return sends ? send_to(own, peer, tag, parts) : recv_from(own, peer, tag, parts);
}

/* Under the lock: this rank waits for a peer. Says so where nothing will ever come. */
static void find_fault(rank *own, int peer) {
    world *w = own->world;
    bool all = true;
    if (w->fault[0])
        return;
    if (w->ranks[peer].ended) {
        snprintf(w->fault, sizeof w->fault,
                 "rank %d on %s ended before it sent what rank %d waits for", peer,
                 rank_node(&own->transport, peer), own->transport.rank);
        return;
    }
    for (int r = 0; r < w->size; r++)
        all &= w->ranks[r].ended || (w->ranks[r].waits && !w->ranks[r].waits->done);
    if (all)
        snprintf(w->fault, sizeof w->fault,
                 "rank %d on %s waits for rank %d, as all ranks wait for each other: they do not "
                 "run the same",
                 own->transport.rank, rank_node(&own->transport, own->transport.rank), peer);
}

static struct timespec in_microseconds(int64_t wait) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t ns = t.tv_nsec + wait * 1000;
    return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

static int rank_test(cfx__transport *t, void *r, int64_t wait, size_t *size) {
    rank *own = (rank *)t;
    world *w = own->world;
    letter *request = r;
    const struct timespec until = in_microseconds(wait);
    pthread_mutex_lock(&w->lock);
    own->waits = wait > 0 && !request->done ? request : NULL;
    if (own->waits)
        find_fault(own, request->peer);
    int late = 0;
    while (wait > 0 && !request->done && !w->fault[0] && !late)
        late = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    own->waits = NULL;
    const int done = request->done ? 1 : w->fault[0] ? -1 : 0;
    if (done == -1)
        pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    *size = request->size;
    if (done == 1)
        cfx__free(request);
    return done;
}

static bool rank_cancel(cfx__transport *t, void *request) {
    rank *own = (rank *)t;
    pthread_mutex_lock(&own->world->lock);
    take_out(&own->wanted, request);
    pthread_mutex_unlock(&own->world->lock);
    cfx__free(request);
    return true;
}

static const char *rank_fault(cfx__transport *t) {
    const world *w = ((rank *)t)->world;
    return w->fault[0] ? w->fault : NULL;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void take_limits(const world *w) {
    const cfx__context *from = &w->limits;
    cfx__context *c = cfx__ctx();
    c->memory_limit = from->memory_limit;
    c->node_limit = from->node_limit;
    c->precision = from->precision;
    c->copy_files = from->copy_files;
    c->seconds = from->seconds;
    c->deadline = c->due = from->deadline;
    c->float_dtype = from->float_dtype;
    cfx_set_num_threads(from->threads > w->size ? from->threads / w->size : 1);
}

static void fail_first(world *w, const rank *own) {
    const int number = own->transport.rank;
    if (w->first >= 0)
        return;
    w->first = number;
    if (!w->fault[0])
        snprintf(w->fault, sizeof w->fault, "rank %d on this machine failed: %s", number,
                 own->message ? own->message : "it said nothing");
}

/* What went wrong, in memory that outlives the thread. */
static void note_error(rank *own) {
    const cfx_error *e = cfx_error_last();
    if (!e)
        return;
    own->kind = e->kind;
    own->at = e->at;
    own->message = cfx__text_copy(e->message, strlen(e->message));
    if (e->notes)
        own->notes = cfx__text_copy(e->notes, strlen(e->notes));
}

static void *run_rank(void *arg) {
    rank *own = arg;
    world *w = own->world;
    take_limits(w);
    cfx_group *g = cfx__group_new(&own->transport);
    cfx_set_group(g);
    const bool well = w->fn(g, w->user) && cfx_ok();
    cfx_set_group(NULL);
    cfx_drop(g);
    note_error(own);
    pthread_mutex_lock(&w->lock);
    own->well = well;
    own->ended = true;
    if (!well)
        fail_first(w, own);
    w->left--;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Waits for all ranks; a limit of the caller's ends them. */
static void wait_for_ranks(world *w) {
    pthread_mutex_lock(&w->lock);
    while (w->left > 0) {
        const struct timespec until = in_microseconds(50000);
        pthread_cond_timedwait(&w->changed, &w->lock, &until);
        if (!w->fault[0] && !cfx__limit_time())
            snprintf(w->fault, sizeof w->fault, "%s", cfx_error_last()->message);
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void start_ranks(world *w) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    int started = 0;
    for (int r = 0; r < w->size; r++)
        w->ranks[r] = (rank){.world = w,
                             .transport = {.version = CFX__TRANSPORT_VERSION, .rank = r,
                                           .size = w->size, .node = rank_node,
                                           .begin = rank_begin, .test = rank_test,
                                           .cancel = rank_cancel, .fault = rank_fault}};
    pthread_mutex_lock(&w->lock);
    while (started < w->size &&
           !pthread_create(&w->ranks[started].thread, &attr, run_rank, &w->ranks[started]))
        started++;
    w->left = started;
    for (int r = started; r < w->size; r++)
        w->ranks[r].ended = true;
    if (started < w->size)
        snprintf(w->fault, sizeof w->fault, "there is no thread for rank %d", started);
    pthread_mutex_unlock(&w->lock);
    pthread_attr_destroy(&attr);
    wait_for_ranks(w);
    for (int r = 0; r < started; r++)
        pthread_join(w->ranks[r].thread, NULL);
}

/* The first error becomes the caller's, with the number of its rank. */
static bool take_errors(world *w) {
    bool well = true;
    for (int r = 0; r < w->size; r++) {
        rank *own = &w->ranks[r];
        well &= own->well;
        if (r == w->first && own->message)
            cfx_fail(own->kind, own->at, "rank %d: %s", r, own->message);
        if (r == w->first && own->notes)
            cfx_error_note("%s", own->notes);
        cfx__free(own->message);
        cfx__free(own->notes);
        while (own->arrived)
            message_free(take(&own->arrived, own->arrived->peer, own->arrived->tag));
    }
    if (!well && cfx_ok())
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s",
                 w->fault[0] ? w->fault : "a rank failed and did not say why");
    return well && cfx_ok();
}

bool cfx_group_simulate(int n, cfx_rank_fn *fn, void *user) {
    if (!cfx_ok())
        return false;
    if (n < 1 || n > MOST_RANKS || !fn) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "from 1 to %d ranks are simulated, not %d",
                 MOST_RANKS, n);
        return false;
    }
    const int threads = cfx_get_num_threads();
    world w = {.size = n, .fn = fn, .user = user, .first = -1, .limits = *cfx__ctx()};
    w.limits.threads = threads;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w.changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&w.lock, NULL);
    w.ranks = cfx__alloc0((size_t)n * sizeof *w.ranks);
    start_ranks(&w);
    bool well = take_errors(&w);
    cfx__free(w.ranks);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.changed);
    return well;
}
