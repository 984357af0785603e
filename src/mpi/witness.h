/* What of a rank outlives it by a moment: its connections to ranks of other machines.
 *
 * Open MPI ends a process that sends to a peer whose connection was closed, and gives it no chance
 * to say why. So the connections of a rank that is killed stay open for a few seconds: a shell that
 * waits for its end has them too. Meanwhile mpirun, whose daemon sees the end, tells all ranks, and
 * these find out by asking each other who does not answer (watch.c). */
#ifndef CFX__WITNESS_H
#define CFX__WITNESS_H

#include <mpi.h>
#include <stdbool.h>

enum { WITNESSED = 256 };

/* Connects to all other ranks, which Open MPI does only when something is sent, and begins to hold
 * the connections to other machines. All ranks call it. Without a shell, or with more ranks than
 * WITNESSED, there is no witness, and all else goes on; false where a rank cannot be reached. */
bool cfx__witness_open(MPI_Comm notes, int rank, int size);
/* This rank ends well: its connections need not outlive it. */
void cfx__witness_close(void);

#endif
