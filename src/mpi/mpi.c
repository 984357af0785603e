/* libcfx_mpi: messages between ranks over MPI. It is a library of its own, opened when ranks are
 * asked for (src/group/open.c), and uses no function of libcfx: transport.h is all that both know.
 *
 * All calls of MPI are under one lock: the thread of the program makes them, and a watcher, which
 * keeps messages moving while the program computes and finds out about ranks that are gone:
 *   - a rank that fails says so to all others (a note, tag NOTE) before it ends;
 *   - a rank of this machine that is killed is seen by its process (pidfd, or kill(pid, 0));
 *   - mpirun ends all ranks when one is killed (SIGTERM): they ask each other who is there still,
 *     and name the one that is not (its connections outlive it: witness.h);
 *   - a rank that is waited for is asked whether it is there, which its watcher answers, whatever
 *     it computes: one that is stopped, or cannot be reached, is silent.
 * Whoever waits then gets a fault with a sentence; of a rank that computes for longer than LINGER
 * after that, the caller is told. Start at cfx_mpi_transport. */
#define _GNU_SOURCE
#include "../group/transport.h"
#include "guard.h"
#include "windows.h"
#include "witness.h"

#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SENTENCE = 480,
    TAG_NOTE = 100,
    PIECE = 1 << 30,        /* bytes that one block of an MPI type has at most */
    BLOCKS = 64,            /* of such, in one message */
    WATCH_NS = 1000000,     /* how often the watcher looks */
    SENDING_NS = 50000,     /* and while something is being sent, which moves when it does */
    SPIN_NS = 2000000,      /* how long a rank waits awake: waking up takes longer than a message */
    LINGER_NS = 700000000,  /* how long a rank may go on after a fault before its caller is told, */
    HURRY_NS = 100000000,   /* and where mpirun ends it soon */
    FIND_NS = 300000000,    /* how long ranks that mpirun ends have to answer: it gives a second */
    ASK_NS = 1000000000,    /* how long a rank is waited for before it is asked, and asked again */
    FAREWELL_NS = 2000000000 /* how long a rank that fails waits for the others to say so too */
};

/* What ranks tell each other. */
typedef struct {
    enum { WELL, FAILED, FOLLOWED, ASKS, ANSWERS } kind; /* FOLLOWED: another failed, and why */
    char why[SENTENCE];
} note;

typedef struct {
    char node[NODE];
    int pid, fd; /* of its process, where it runs on this machine: fd -1 where there is none */
    bool here;
    bool gone, said; /* its process is over; it has said how it ended */
    bool awaited;    /* something of it is waited for longer than a moment */
    int64_t silent;  /* for so long, while it was */
    int64_t asked;   /* the part of that before it was asked last */
    int64_t heard;   /* when a note of it came last */
} peer;

typedef struct asked {
    MPI_Request request;
    MPI_Datatype type;
    int peer;
    bool sends;
    int64_t since; /* when it was first waited for */
    cfx__part parts[CFX__PARTS];             /* as the caller gave them */
    char small[CFX__PARTS][CFX__PART_SMALL]; /* where those parts are that are small */
    struct asked *next;                      /* of those that were given up */
} asked;

typedef struct {
    cfx__transport transport; /* the first member */
    pthread_mutex_t lock;
    pthread_t watcher;
    MPI_Comm comm, notes;
    MPI_Win window;           /* MPI_WIN_NULL: there is none */
    peer *peers;
    note own, heard;          /* what is sent to others, and where it came to */
    MPI_Request *telling;     /* by rank */
    char fault[SENTENCE + 160];
    int sending;              /* requests to send that are not done */
    bool faulty, leaving, told, over;
    asked *given_up;          /* requests that MPI could not take back */
    int64_t since;            /* when the fault was found */
    int64_t patience;         /* how long a rank may be silent */
    int64_t turned;           /* when the watcher looked last */
    volatile sig_atomic_t told_to_end; /* SIGTERM came */
    int64_t finding;          /* since when this rank looks who is gone; 0: it does not */
} ranks;

static ranks *all; /* there is one MPI in a process */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Under the lock; the first is kept. */
static void set_fault(ranks *a, const char *text) {
    if (a->faulty)
        return;
    snprintf(a->fault, sizeof a->fault, "%s", text);
    a->since = now_ns();
    a->faulty = true;
}

static void set_gone(ranks *a, int r, const char *how) {
    char text[SENTENCE];
    snprintf(text, sizeof text, "rank %d on %s (process %d) %s", r, a->peers[r].node,
             a->peers[r].pid, how);
    set_fault(a, text);
}

static bool mpi_ok(ranks *a, int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING], said[SENTENCE];
    int len = 0;
    if (code == MPI_SUCCESS)
        return true;
    if (MPI_Error_string(code, text, &len) != MPI_SUCCESS)
        text[0] = 0;
    snprintf(said, sizeof said, "MPI cannot %s on rank %d on %s: %.200s", what, a->transport.rank,
             a->peers[a->transport.rank].node, text);
    set_fault(a, said);
    return false;
}

/* A word to a rank, which nobody waits for. */
static void say(ranks *a, int r, int kind) {
    static const note asks = {.kind = ASKS}, answers = {.kind = ANSWERS};
    MPI_Request request;
    if (MPI_Isend(kind == ASKS ? &asks : &answers, sizeof(note), MPI_BYTE, r, TAG_NOTE, a->notes,
                  &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
}

/* Takes the notes that have come. */
static void hear(ranks *a) {
    int there = 1;
    MPI_Status s;
    while (there) {
        if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTE, a->notes, &there, &s) != MPI_SUCCESS || !there)
            return;
        int size = 0;
        MPI_Get_count(&s, MPI_BYTE, &size);
        const int r = s.MPI_SOURCE;
        if (r < 0 || r >= a->transport.size || size != (int)sizeof(note)) {
            set_fault(a, "a rank sent a note that is none");
            return;
        }
        MPI_Recv(&a->heard, sizeof(note), MPI_BYTE, r, TAG_NOTE, a->notes, MPI_STATUS_IGNORE);
        a->heard.why[SENTENCE - 1] = 0;
        a->peers[r].silent = a->peers[r].asked = 0;
        a->peers[r].heard = now_ns();
        a->peers[r].said |= a->heard.kind <= FOLLOWED;
        char text[SENTENCE + 120];
        if (a->heard.kind == ASKS)
            say(a, r, ANSWERS);
        else if (a->heard.kind == FAILED) {
            snprintf(text, sizeof text, "rank %d on %s failed: %s", r, a->peers[r].node,
                     a->heard.why);
            set_fault(a, text);
        } else if (a->heard.kind == FOLLOWED) {
            set_fault(a, a->heard.why);
        }
    }
}

/* Whether the process of a rank on this machine is over. */
static bool is_over(const peer *p) {
    if (p->fd >= 0) {
        struct pollfd f = {p->fd, POLLIN, 0};
        return poll(&f, 1, 0) > 0;
    }
    return kill(p->pid, 0) && errno == ESRCH;
}

/* mpirun ends all ranks: a rank of another machine that is gone does not answer. */
static void find_lost(ranks *a) {
    const bool begins = !a->finding;
    int lost = -1;
    if (begins)
        a->finding = now_ns();
    for (int r = 0; r < a->transport.size; r++) {
        const peer *p = &a->peers[r];
        if (r == a->transport.rank || p->here || p->said || (!begins && p->heard >= a->finding))
            continue;
        if (begins && a->transport.size <= WITNESSED)
            say(a, r, ASKS);
        lost = lost < 0 ? r : lost;
    }
    if (lost >= 0 && now_ns() - a->finding < FIND_NS)
        return;
    if (lost >= 0 && a->transport.size <= WITNESSED)
        set_gone(a, lost, "does not answer while mpirun ends all ranks: it was killed, or cannot "
                          "be reached");
    else
        set_fault(a, "mpirun ends all ranks: its own message says why");
}

static void look(ranks *a) {
    hear(a);
    for (int r = 0; r < a->transport.size; r++) {
        peer *p = &a->peers[r];
        if (r == a->transport.rank || !p->here || p->gone || !is_over(p))
            continue;
        p->gone = true;
        hear(a); /* its last words may be on their way */
        if (!p->said)
            set_gone(a, r, "was killed, or ended without a word");
    }
    if (a->told_to_end && !a->faulty)
        find_lost(a);
}

/* Ranks that are waited for, and whether they answer. */
static void ask(ranks *a) {
    const int64_t now = now_ns(), turn = now - a->turned < TICK_NS ? now - a->turned : TICK_NS;
    a->turned = now;
    for (int r = 0; r < a->transport.size; r++) {
        peer *p = &a->peers[r];
        if (!p->awaited || p->said || p->gone)
            continue;
        p->silent += turn;
        if (p->silent > a->patience) {
            char text[160];
            snprintf(text, sizeof text, "has not answered for %lld seconds: it is stopped, or "
                     "cannot be reached", (long long)(a->patience / 1000000000));
            set_gone(a, r, text);
        } else if (p->silent - p->asked > ASK_NS) {
            p->asked = p->silent;
            say(a, r, ASKS);
        }
    }
}

/* Tells all others how this rank ends: with a fault that it found, `sentence`, or well (NULL). */
static void tell(ranks *a, const char *sentence) {
    a->own.kind = a->faulty ? FOLLOWED : sentence ? FAILED : WELL;
    snprintf(a->own.why, sizeof a->own.why, "%.*s", SENTENCE - 1,
             a->faulty ? a->fault : sentence ? sentence : "");
    for (int r = 0; r < a->transport.size; r++) {
        a->telling[r] = MPI_REQUEST_NULL;
        if (r != a->transport.rank && !a->peers[r].gone)
            MPI_Isend(&a->own, sizeof a->own, MPI_BYTE, r, TAG_NOTE, a->notes, &a->telling[r]);
    }
}

/* A rank that computes on after a fault: its caller is told, before mpirun ends it. */
static void tell_late(ranks *a) {
    const int64_t linger = a->told_to_end ? HURRY_NS : LINGER_NS;
    if (!a->faulty || a->leaving || a->told || now_ns() - a->since < linger)
        return;
    a->told = true;
    if (a->transport.lost) {
        tell(a, NULL);
        hear(a); /* which sends it */
        a->transport.lost(a->fault, a->transport.user);
    }
}

static void *watch(void *arg) {
    ranks *a = arg;
    for (;;) {
        pthread_mutex_lock(&a->lock);
        const bool over = a->over, sending = a->sending > 0;
        if (!over) {
            look(a);
            ask(a);
            tell_late(a);
        }
        pthread_mutex_unlock(&a->lock);
        if (over)
            return NULL;
        cfx__nap(sending ? SENDING_NS : WATCH_NS);
    }
}

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
                set_fault(a, "a message of more than 64 GiB");
                return false;
            }
            const size_t left = parts[i].size - at;
            lengths[n] = (int)(left < PIECE ? left : PIECE);
            MPI_Get_address(data + at, &places[n++]);
        }
    }
    return mpi_ok(a, MPI_Type_create_hindexed(n, lengths, places, MPI_BYTE, &q->type),
                  "make a type") &&
           mpi_ok(a, MPI_Type_commit(&q->type), "make a type");
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
        set_fault(a, "there is no memory for a message");
    else if (!a->faulty && type_of(a, q, parts)) {
        q->peer = peer_rank;
        begun = sends ? mpi_ok(a, MPI_Isend(MPI_BOTTOM, 1, q->type, peer_rank, tag, a->comm,
                                            &q->request), "send")
                      : mpi_ok(a, MPI_Irecv(MPI_BOTTOM, 1, q->type, peer_rank, tag, a->comm,
                                            &q->request), "receive");
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
        set_fault(a, text);
        return -1;
    }
    if (!mpi_ok(a, code, "wait for a message"))
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
    const int64_t from = now_ns(), until = wait > 0 ? from + wait * 1000 : 0;
    asked *q = request;
    peer *p = &a->peers[q->peer];
    q->since = q->since ? q->since : from;
    for (;;) {
        pthread_mutex_lock(&a->lock);
        int done = test_once(a, q, size);
        await(p, done == 0 && until);
        if (done == 0 && p->said) {
            look(a); /* what it sent before its note has come by now, or never will */
            done = test_once(a, q, size);
            if (done == 0)
                set_gone(a, q->peer, "ended before it sent what is waited for");
            done = done == 0 ? -1 : done;
        }
        pthread_mutex_unlock(&a->lock);
        const int64_t time = now_ns();
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

/* Whether every other rank has said how it ended, or is gone. */
static bool all_said(const ranks *a) {
    bool said = true;
    for (int r = 0; r < a->transport.size; r++)
        said &= r == a->transport.rank || a->peers[r].said || a->peers[r].gone;
    return said;
}

/* A rank that fails stays a while, so that the others hear of it before mpirun ends them all, which
 * it does when the first has ended: SIGTERM, and a second later SIGKILL. MPI_Finalize waits for
 * every rank, so none calls it unless all have ended well. */
static bool mpi_end(cfx__transport *t, const char *sentence) {
    ranks *a = (ranks *)t;
    pthread_mutex_lock(&a->lock);
    a->leaving = true;
    tell(a, sentence);
    for (int r = 0; r < a->transport.size; r++)
        await(&a->peers[r], r != a->transport.rank);
    int64_t until = a->own.kind != WELL ? now_ns() + FAREWELL_NS : INT64_MAX;
    while (!all_said(a) && (!a->told_to_end || (a->own.kind == WELL && !a->faulty)) &&
           now_ns() < until) {
        look(a);
        if (a->faulty && until == INT64_MAX)
            until = now_ns() + FAREWELL_NS;
        pthread_mutex_unlock(&a->lock);
        cfx__nap(200000);
        pthread_mutex_lock(&a->lock);
    }
    const bool well = a->own.kind == WELL && !a->faulty;
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
        p->gone = p->said = p->awaited = false;
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
    a->turned = now_ns();
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
    if (pthread_create(&a->watcher, NULL, watch, a)) {
        snprintf(why, room, "there is no thread to watch over the ranks");
        return NULL;
    }
    return t;
}
