/* libcfx_mpi: messages between ranks over MPI. It is a library of its own, opened when ranks are
 * asked for (src/group/open.c), and uses no function of libcfx: transport.h is all that both know.
 *
 * All calls of MPI are under one lock: the thread of the program makes them, and a watcher, which
 * keeps messages moving while the program computes and finds out about ranks that are gone:
 *   - a rank that fails says so to all others (a note, tag NOTE) before it ends;
 *   - a rank of this machine that is killed is seen by its process (pidfd, or kill(pid, 0));
 *   - mpirun ends all ranks when one is killed (SIGTERM): they ask each other who is there still,
 *     and name the one that is not (its connections outlive it: witness.h). The first rank of a
 *     machine that is over then has the others killed at once: the signal of its end interrupts
 *     mpirun's sleep of a second. So ranks leave together, and stay until all of them have spoken;
 *   - a rank that is waited for is asked whether it is there, which its watcher answers, whatever
 *     it computes: one that is stopped, or cannot be reached, is silent.
 * Whoever waits then gets a fault with a sentence; of a rank that computes for longer than LINGER
 * after that, the caller is told (watch.c). Start at cfx_mpi_transport. */
#define _GNU_SOURCE
#include "ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "windows.h"
#include "witness.h"

enum {
    PIECE = 1 << 30,         /* bytes that one block of an MPI type has at most */
    BLOCKS = 64,             /* of such, in one message */
    SPIN_NS = 2000000,       /* how long a rank waits awake: waking takes longer than a message */
    MEET_NS = 600000000,     /* how long ranks that mpirun ends wait for what the others say */
    STAY_NS = 250000000,     /* how long a rank that failed stays after it told its caller */
    FAREWELL_NS = 2000000000 /* how long a rank that fails waits for the others to say so too */
};

static ranks *all; /* there is one MPI in a process */

static void on_term(int sig) {
    (void)sig;
    if (all)
        all->told_to_end = 1;
    else
        cfx__guard_told_to_end();
}

/* ---- messages -------------------------------------------------------------------------------- */

static const char *mpi_node(cfx__transport *t, int rank) { return ((ranks *)t)->peers[rank].node; }

/* The parts of a message as one type, which lies in memory where they do; small ones lie in the
 * request. */
static bool type_of(ranks *a, asked *q, const cfx__part *parts) {
    int lengths[BLOCKS], n = 0;
    MPI_Aint places[BLOCKS];
    for (int i = 0; i < CFX__PARTS; i++) {
        const bool small = parts[i].size <= CFX__PART_SMALL;
        char *data = small ? q->small[i] : parts[i].data;
        q->parts[i] = parts[i];
        if (small && q->sends && parts[i].size)
            memcpy(data, parts[i].data, parts[i].size);
        for (size_t at = 0; at < parts[i].size; at += PIECE) {
            if (n == BLOCKS) {
                cfx__rank_fault(a, "a message of more than 64 GiB");
                return false;
            }
            const size_t left = parts[i].size - at;
            lengths[n] = (int)(left < PIECE ? left : PIECE);
            MPI_Get_address(data + at, &places[n++]);
        }
    }
    return cfx__rank_ok(a, MPI_Type_create_hindexed(n, lengths, places, MPI_BYTE, &q->type),
                  "make a type") &&
           cfx__rank_ok(a, MPI_Type_commit(&q->type), "make a type");
}

static void *mpi_begin(cfx__transport *t, bool sends, int peer_rank, int tag,
                       const cfx__part *parts) {
    ranks *a = (ranks *)t;
    asked *q = calloc(1, sizeof *q);
    pthread_mutex_lock(&a->lock);
    bool begun = false;
    if (q)
        q->sends = sends;
    if (!q)
        cfx__rank_fault(a, "there is no memory for a message");
    else if (!a->faulty && type_of(a, q, parts)) {
        q->peer = peer_rank;
        const int code = sends ? MPI_Isend(MPI_BOTTOM, 1, q->type, peer_rank, tag, a->comm,
                                           &q->request)
                               : MPI_Irecv(MPI_BOTTOM, 1, q->type, peer_rank, tag, a->comm,
                                           &q->request);
        begun = cfx__rank_ok(a, code, sends ? "send" : "receive");
        if (!begun)
            MPI_Type_free(&q->type);
        a->sending += begun && sends;
    }
    pthread_mutex_unlock(&a->lock);
    if (!begun)
        free(q);
    return begun ? q : NULL;
}

/* Under the lock. */
static int test_once(ranks *a, asked *q, size_t *size) {
    int done = 0;
    MPI_Status s;
    const int code = MPI_Test(&q->request, &done, &s);
    if (code == MPI_ERR_TRUNCATE || (code != MPI_SUCCESS && done)) {
        char text[SENTENCE];
        snprintf(text, sizeof text, "rank %d on %s sent a longer message than rank %d expects: "
                 "the ranks do not run the same", q->peer, a->peers[q->peer].node,
                 a->transport.rank);
        cfx__rank_fault(a, text);
        return -1;
    }
    if (!cfx__rank_ok(a, code, "wait for a message"))
        return -1;
    if (!done)
        return a->faulty ? -1 : 0;
    MPI_Count n = 0;
    MPI_Get_elements_x(&s, MPI_BYTE, &n);
    *size = (size_t)n;
    for (int i = 0; i < CFX__PARTS && !q->sends; i++)
        if (q->parts[i].size && q->parts[i].size <= CFX__PART_SMALL)
            memcpy(q->parts[i].data, q->small[i], q->parts[i].size);
    a->sending -= q->sends;
    MPI_Type_free(&q->type);
    free(q);
    return 1;
}

/* Notes whether something of a rank is waited for. */
static void await(peer *p, bool waits) {
    if (!waits)
        p->silent = p->asked = 0;
    p->awaited = waits;
}

static int mpi_test(cfx__transport *t, void *request, int64_t wait, size_t *size) {
    ranks *a = (ranks *)t;
    const int64_t from = cfx__now_ns(), until = wait > 0 ? from + wait * 1000 : 0;
    asked *q = request;
    peer *p = &a->peers[q->peer];
    q->since = q->since ? q->since : from;
    for (;;) {
        pthread_mutex_lock(&a->lock);
        int done = test_once(a, q, size);
        await(p, done == 0 && until);
        if (done == 0 && p->said) {
            cfx__rank_look(a); /* what it sent before its note has come by now, or never will */
            done = test_once(a, q, size);
            if (done == 0)
                cfx__rank_lost(a, q->peer, "ended before it sent what is waited for");
            done = done == 0 ? -1 : done;
        }
        pthread_mutex_unlock(&a->lock);
        const int64_t time = cfx__now_ns();
        if (done || !until || time >= until)
            return done;
        if (time - q->since < SPIN_NS)
            sched_yield();
        else
            cfx__nap(20000);
    }
}

/* MPI cannot take back a send that has begun, nor a receive whose message is on its way, and goes
 * on with both whenever it makes progress, as it does when notes are heard. Those requests stay
 * until the process ends, and their memory with them. */
static bool mpi_cancel(cfx__transport *t, void *request) {
    ranks *a = (ranks *)t;
    asked *q = request;
    int done = 0;
    pthread_mutex_lock(&a->lock);
    await(&a->peers[q->peer], false);
    if (!a->over) {
        if (!q->sends)
            MPI_Cancel(&q->request);
        done = MPI_Test(&q->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
        MPI_Type_free(&q->type);
    }
    a->sending -= q->sends;
    if (!done) {
        q->next = a->given_up;
        a->given_up = q;
    }
    pthread_mutex_unlock(&a->lock);
    if (done)
        free(q);
    return done;
}

static const char *mpi_fault(cfx__transport *t) {
    ranks *a = (ranks *)t;
    pthread_mutex_lock(&a->lock);
    const char *text = a->faulty ? a->fault : NULL; /* which is written once */
    pthread_mutex_unlock(&a->lock);
    return text;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Whether every other rank has said how it ended, or will not. */
static bool all_said(const ranks *a) {
    bool said = true;
    for (int r = 0; r < a->transport.size; r++)
        said &= r == a->transport.rank || a->peers[r].said || a->peers[r].gone ||
                a->peers[r].lost;
    return said;
}

/* Whether a rank that mpirun ends has waited long enough for what the others say. */
static bool is_late(const ranks *a) {
    return a->ending && (a->own.kind != WELL || a->faulty) && cfx__now_ns() - a->ending > MEET_NS;
}

/* At the exit of a rank that failed: others of this machine may not have told their callers yet. */
static void stay(void) {
    if (!all || !all->stays)
        return;
    fflush(NULL); /* what waits in stdout would be lost if this rank is killed while it stays */
    cfx__nap(STAY_NS);
}

/* A rank that fails stays a while, so that the others hear of it before mpirun ends them all, which
 * it does when the first has ended: SIGTERM, and a second later SIGKILL. MPI_Finalize waits for
 * every rank, so none calls it unless all have ended well. */
static bool mpi_end(cfx__transport *t, const char *sentence) {
    ranks *a = (ranks *)t;
    pthread_mutex_lock(&a->lock);
    a->leaving = true;
    cfx__rank_tell(a, sentence);
    for (int r = 0; r < a->transport.size; r++)
        await(&a->peers[r], r != a->transport.rank);
    int64_t until = a->own.kind != WELL ? cfx__now_ns() + FAREWELL_NS : INT64_MAX;
    while (!all_said(a) && !is_late(a) && cfx__now_ns() < until) {
        cfx__rank_look(a);
        if (a->faulty && until == INT64_MAX)
            until = cfx__now_ns() + FAREWELL_NS;
        pthread_mutex_unlock(&a->lock);
        cfx__nap(200000);
        pthread_mutex_lock(&a->lock);
    }
    const bool well = a->own.kind == WELL && !a->faulty;
    for (int r = 0; r < a->transport.size; r++)
        a->stays |= !well && r != a->transport.rank && a->peers[r].here;
    if (well)
        MPI_Waitall(a->transport.size, a->telling, MPI_STATUSES_IGNORE);
    a->over = true;
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->watcher, NULL);
    if (well)
        cfx__guard_begin("ended");
    if (well && a->window != MPI_WIN_NULL)
        MPI_Win_free(&a->window);
    if (well) {
        MPI_Finalize();
        cfx__witness_close();
    }
    cfx__guard_end();
    return well;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Who is where. */
static bool meet(ranks *a) {
    peer own = {.pid = (int)getpid(), .fd = -1};
    if (gethostname(own.node, sizeof own.node - 1))
        snprintf(own.node, sizeof own.node, "an unnamed machine");
    if (MPI_Allgather(&own, sizeof own, MPI_BYTE, a->peers, sizeof own, MPI_BYTE, a->comm) !=
        MPI_SUCCESS)
        return false;
    for (int r = 0; r < a->transport.size; r++) {
        peer *p = &a->peers[r];
        p->node[NODE - 1] = 0;
        for (char *c = p->node; *c; c++)
            *c = *c > ' ' && *c < 127 ? *c : '?';
        p->here = !strcmp(p->node, own.node);
        p->gone = p->said = p->lost = p->awaited = false;
        p->silent = p->asked = p->heard = 0;
        p->fd = -1;
#ifdef SYS_pidfd_open
        if (p->here && r != a->transport.rank)
            p->fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
#endif
        if (p->here && p->fd < 0 && kill(p->pid, 0))
            p->here = false; /* another machine of the same name */
    }
    return true;
}

static ranks *fail(char *why, size_t room, const char *text) {
    snprintf(why, room, "%s", text);
    return NULL;
}

static ranks *open_ranks(char *why, size_t room) {
    int had = 0, level = 0;
    MPI_Initialized(&had);
    if (had)
        return fail(why, room, "MPI is in use in this process already");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return fail(why, room, "MPI does not start");
    if (level < MPI_THREAD_SERIALIZED)
        return fail(why, room, "this MPI is for programs of one thread");
    ranks *a = calloc(1, sizeof *a);
    if (!a || MPI_Comm_dup(MPI_COMM_WORLD, &a->comm) != MPI_SUCCESS ||
        MPI_Comm_dup(MPI_COMM_WORLD, &a->notes) != MPI_SUCCESS)
        return fail(why, room, "MPI has no room for a communicator");
    MPI_Comm_set_errhandler(a->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(a->notes, MPI_ERRORS_RETURN);
    MPI_Comm_rank(a->comm, &a->transport.rank);
    MPI_Comm_size(a->comm, &a->transport.size);
    a->peers = calloc((size_t)a->transport.size, sizeof *a->peers);
    a->telling = calloc((size_t)a->transport.size, sizeof(MPI_Request));
    if (!a->peers || !a->telling || !meet(a))
        return fail(why, room, "the ranks do not find each other");
    if (!cfx__witness_open(a->notes, a->transport.rank, a->transport.size))
        return fail(why, room, "the ranks do not reach each other");
    cfx__windows_open(a->comm, &a->transport, &a->window);
    a->own.lost = -1;
    a->turned = cfx__now_ns();
    return a;
}

__attribute__((visibility("default"))) cfx__transport_open cfx_mpi_transport;

cfx__transport *cfx_mpi_transport(int version, char *why, size_t room) {
    if (version != CFX__TRANSPORT_VERSION) {
        snprintf(why, room, "libcfx_mpi is of another version than cfx");
        return NULL;
    }
    if (all) {
        snprintf(why, room, "MPI is in use already");
        return NULL;
    }
    const int64_t patience = cfx__guard_open();
    signal(SIGTERM, on_term);
    if (!cfx__guard_begin("started")) {
        snprintf(why, room, "there is no thread to watch over the ranks");
        return NULL;
    }
    ranks *a = open_ranks(why, room);
    cfx__guard_end();
    if (!a)
        return NULL;
    a->patience = patience;
    cfx__transport *t = &a->transport;
    t->version = CFX__TRANSPORT_VERSION;
    t->node = mpi_node;
    t->begin = mpi_begin;
    t->test = mpi_test;
    t->cancel = mpi_cancel;
    t->fault = mpi_fault;
    t->end = mpi_end;
    pthread_mutex_init(&a->lock, NULL);
    all = a;
    atexit(stay);
    if (pthread_create(&a->watcher, NULL, cfx__rank_watch, a)) {
        snprintf(why, room, "there is no thread to watch over the ranks");
        return NULL;
    }
    return t;
}
