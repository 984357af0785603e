/* Sets of nodes between others; see select.c. */
#ifndef CFX__SELECT_H
#define CFX__SELECT_H

#include "run.h"

/* Marks, by id, what is computed from nodes (NULL: from anything) and needed for others, both
 * included. */
void cfx__run_between(const cfx_graph *g, const bool *from, const bool *to, bool *chosen);

#endif
