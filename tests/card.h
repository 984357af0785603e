/* card: a card that is not there. The tables of src/cuda/driver.h filled with functions of the
 * host's: memory is the heap's, a stream does everything at once, and kernels are compiled by the
 * host's compiler and played (play.h). */
#ifndef CFX_TEST_CARD_H
#define CFX_TEST_CARD_H

#include <stdbool.h>
#include <stddef.h>

#include <cfx.h>

/* What happened so far, and what is to go wrong. */
typedef struct {
    long kernels, copies, graphs; /* launched; graphs that were replayed */
    long compiled;                /* texts */
    long overlapping;             /* kernels that may start while the one before them ends */
    size_t held, most;            /* bytes on the card; the most that it has, 0: no end */
    int fail_kernel;              /* what a launch answers; 0: it is done */
    int fail_after;               /* the call of the driver that fails; 0: none */
    int init, version;            /* what it answers when it is opened, and of which CUDA it is */
    int processors, shared;       /* multiprocessors, bytes of shared memory of a block */
    int count;                    /* cards */
} card_state;

extern card_state card;

/* Whether kernels can be played here; says "not run" where they cannot. From now on that is the
 * card. */
bool card_begin(void);
void card_end(void);
/* Something that a library does on the stream, now or when a graph is replayed, and the
 * milliseconds that it takes by the card's clock, where a kernel takes one. */
typedef struct {
    void (*does)(const void *what);
    char what[256];
    float ms;
} card_job;
int card_do(const card_job *job);
/* How far apart the numbers of two tensors are, wherever they lie. */
double card_apart(cfx_value a, cfx_value b);

#endif
