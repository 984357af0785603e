/* Memory of ranks that all of them see, where all are on one machine. */
#ifndef CFX__WINDOWS_H
#define CFX__WINDOWS_H

#include <mpi.h>

#include "../group/transport.h"

/* Gives a transport its windows; without them all goes by messages. *window is to be freed, or
 * MPI_WIN_NULL. Every rank calls it, once. */
void cfx__windows_open(MPI_Comm all, cfx__transport *t, MPI_Win *window);

#endif
