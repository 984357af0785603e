/* spare: whether this process shares a machine's memory with others that do the same work, and so
 * gives back what it could read again. Ranks over MPI do; see src/tensor/packed.c. */
#ifndef CFX__SPARE_H
#define CFX__SPARE_H

#include <stdbool.h>

/* Says so of all threads; returns what was so before. (memory.c) */
bool cfx__memory_spare(bool on);
bool cfx__memory_spares(void);

#endif
