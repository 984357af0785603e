/* A rank that waits for others where MPI waits for all: in MPI_Init and MPI_Finalize. There is no
 * watcher then (watch.c), so a thread counts the time, and ends the process with a sentence. */
#ifndef CFX__GUARD_H
#define CFX__GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NODE = 64,          /* bytes of a machine's name */
    TICK_NS = 20000000, /* what a turn of who counts is at most: it may be stopped too */
};

void cfx__nap(int64_t ns);
/* Before MPI is called. Nanoseconds that a rank may leave others without an answer. */
int64_t cfx__guard_open(void);
/* From here to the end no more than that may go by; `what` MPI has not done then. False: there is
 * no thread for it. */
bool cfx__guard_begin(const char *what);
void cfx__guard_end(void);
/* mpirun ends all ranks, and this one has not met the others: says so, in a signal handler, and
 * ends the process. */
_Noreturn void cfx__guard_told_to_end(void);

#endif
