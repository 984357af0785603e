/* spare: what a whole process says of memory: whether it shares a machine's with others that do the
 * same work, and so gives back what it could read again (ranks over MPI do; see
 * src/tensor/packed.c), and what it tells when even the reserve is used up. */
#ifndef CFX__SPARE_H
#define CFX__SPARE_H

#include <stdbool.h>

/* Says so of all threads; returns what was so before. (memory.c) */
bool cfx__memory_spare(bool on);
bool cfx__memory_spares(void);

/* Called, on any thread, when neither the heap nor a reserve has what cannot be done without: it
 * tells so, without taking memory, and ends the process, which would be trapped else. */
void cfx__memory_spent(void (*tell)(void));

#endif
