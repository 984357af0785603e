/* A rank as libcfx_mpi has it, and what it knows of the others: who has said how it ended, who is
 * gone (watch.c). mpi.c sends and receives, begins and ends. All of it is under the lock. */
#ifndef CFX__RANKS_H
#define CFX__RANKS_H

#include <mpi.h>
#include <pthread.h>
#include <signal.h>

#include "../group/transport.h"
#include "guard.h"

enum { SENTENCE = 480, TAG_NOTE = 100 };

/* What ranks tell each other. */
typedef struct {
    enum { WELL, FAILED, FOLLOWED, ASKS, ANSWERS } kind; /* FOLLOWED: another failed, and why */
    int lost; /* FOLLOWED: the rank that failed, where it will not say so itself; or -1 */
    char why[SENTENCE];
} note;

typedef struct {
    char node[NODE];
    int pid, fd; /* of its process, where it runs on this machine: fd -1 where there is none */
    bool here;
    bool gone, said; /* its process is over; it has said how it ended */
    bool lost;       /* it is thought to be gone, here or by another rank: no word is expected */
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
    bool stays;               /* this rank failed, and is not alone on its machine */
    asked *given_up;          /* requests that MPI could not take back */
    int64_t since;            /* when the fault was found */
    int64_t patience;         /* how long a rank may be silent */
    int64_t turned;           /* when the watcher looked last */
    volatile sig_atomic_t told_to_end; /* SIGTERM came */
    int64_t ending;           /* since when mpirun ends this rank; 0: it does not */
} ranks;

int64_t cfx__now_ns(void);

/* The first fault is kept. cfx__rank_lost: a rank that will say nothing any more. */
void cfx__rank_fault(ranks *a, const char *text);
void cfx__rank_lost(ranks *a, int r, const char *how);
/* False, and a fault, where a call of MPI has failed: MPI cannot `what`. */
bool cfx__rank_ok(ranks *a, int code, const char *what);

/* Takes what the others have said, and looks who is gone. */
void cfx__rank_look(ranks *a);
/* Tells all others how this rank ends: with a fault that it found, `sentence`, or well (NULL). */
void cfx__rank_tell(ranks *a, const char *sentence);
/* The watcher, a thread: looks, asks and tells until `over`. It takes the lock itself. */
void *cfx__rank_watch(void *a);

#endif
