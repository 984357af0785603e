/* Who is there still: what ranks tell each other in notes, processes of this machine that are over,
 * ranks that do not answer. Start at cfx__rank_watch. */
#define _GNU_SOURCE
#include "ranks.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "witness.h"

enum {
    WATCH_NS = 1000000,    /* how often the watcher looks */
    SENDING_NS = 50000,    /* and while something is being sent, which moves when it does */
    LINGER_NS = 700000000, /* how long a rank may go on after a fault before its caller is told, */
    HURRY_NS = 100000000,  /* and where mpirun ends it soon */
    FIND_NS = 300000000,   /* how long ranks that mpirun ends have to answer: it gives a second */
    ASK_NS = 1000000000,   /* how long a rank is waited for before it is asked, and asked again */
};

int64_t cfx__now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Under the lock; the first is kept. */
void cfx__rank_fault(ranks *a, const char *text) {
    if (a->faulty)
        return;
    snprintf(a->fault, sizeof a->fault, "%s", text);
    a->since = cfx__now_ns();
    a->faulty = true;
}

void cfx__rank_lost(ranks *a, int r, const char *how) {
    char text[SENTENCE];
    if (!a->faulty)
        a->own.lost = r;
    a->peers[r].lost = true;
    snprintf(text, sizeof text, "rank %d on %s (process %d) %s", r, a->peers[r].node,
             a->peers[r].pid, how);
    cfx__rank_fault(a, text);
}

bool cfx__rank_ok(ranks *a, int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING], said[SENTENCE];
    int len = 0;
    if (code == MPI_SUCCESS)
        return true;
    if (MPI_Error_string(code, text, &len) != MPI_SUCCESS)
        text[0] = 0;
    snprintf(said, sizeof said, "MPI cannot %s on rank %d on %s: %.200s", what, a->transport.rank,
             a->peers[a->transport.rank].node, text);
    cfx__rank_fault(a, said);
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
            cfx__rank_fault(a, "a rank sent a note that is none");
            return;
        }
        MPI_Recv(&a->heard, sizeof(note), MPI_BYTE, r, TAG_NOTE, a->notes, MPI_STATUS_IGNORE);
        a->heard.why[SENTENCE - 1] = 0;
        a->peers[r].silent = a->peers[r].asked = 0;
        a->peers[r].heard = cfx__now_ns();
        a->peers[r].said |= a->heard.kind <= FOLLOWED;
        char text[SENTENCE + 120];
        if (a->heard.kind == ASKS)
            say(a, r, ANSWERS);
        else if (a->heard.kind == FAILED) {
            snprintf(text, sizeof text, "rank %d on %s failed: %s", r, a->peers[r].node,
                     a->heard.why);
            cfx__rank_fault(a, text);
        } else if (a->heard.kind == FOLLOWED) {
            if (a->heard.lost >= 0 && a->heard.lost < a->transport.size)
                a->peers[a->heard.lost].lost = true;
            cfx__rank_fault(a, a->heard.why);
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
static void find_lost(ranks *a, bool begins) {
    int lost = -1;
    for (int r = 0; r < a->transport.size; r++) {
        const peer *p = &a->peers[r];
        if (r == a->transport.rank || p->here || p->said || (!begins && p->heard >= a->ending))
            continue;
        if (begins && a->transport.size <= WITNESSED)
            say(a, r, ASKS);
        lost = lost < 0 ? r : lost;
    }
    if (lost >= 0 && cfx__now_ns() - a->ending < FIND_NS)
        return;
    if (lost >= 0 && a->transport.size <= WITNESSED)
        cfx__rank_lost(a, lost, "does not answer while mpirun ends all ranks: it was killed, or "
                                "cannot be reached");
    else
        cfx__rank_fault(a, "mpirun ends all ranks: its own message says why");
}

void cfx__rank_look(ranks *a) {
    hear(a);
    for (int r = 0; r < a->transport.size; r++) {
        peer *p = &a->peers[r];
        if (r == a->transport.rank || !p->here || p->gone || !is_over(p))
            continue;
        p->gone = true;
        hear(a); /* its last words may be on their way */
        if (!p->said)
            cfx__rank_lost(a, r, "was killed, or ended without a word");
    }
    const bool begins = a->told_to_end && !a->ending;
    if (begins)
        a->ending = cfx__now_ns();
    if (a->ending && !a->faulty)
        find_lost(a, begins);
}

/* Ranks that are waited for, and whether they answer. */
static void ask(ranks *a) {
    const int64_t now = cfx__now_ns(), turn = now - a->turned < TICK_NS ? now - a->turned : TICK_NS;
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
            cfx__rank_lost(a, r, text);
        } else if (p->silent - p->asked > ASK_NS) {
            p->asked = p->silent;
            say(a, r, ASKS);
        }
    }
}

void cfx__rank_tell(ranks *a, const char *sentence) {
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
    const int64_t linger = a->ending ? HURRY_NS : LINGER_NS;
    if (!a->faulty || a->leaving || a->told || cfx__now_ns() - a->since < linger)
        return;
    a->told = true;
    if (a->transport.lost) {
        cfx__rank_tell(a, NULL);
        hear(a); /* which sends it */
        a->transport.lost(a->fault, a->transport.user);
    }
}

void *cfx__rank_watch(void *arg) {
    ranks *a = arg;
    for (;;) {
        pthread_mutex_lock(&a->lock);
        const bool over = a->over, sending = a->sending > 0;
        if (!over) {
            cfx__rank_look(a);
            ask(a);
            tell_late(a);
        }
        pthread_mutex_unlock(&a->lock);
        if (over)
            return NULL;
        cfx__nap(sending ? SENDING_NS : WATCH_NS);
    }
}
