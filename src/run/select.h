/* Sets of nodes between others, and what selectors may have meant; see select.c. */
#ifndef CFX__SELECT_H
#define CFX__SELECT_H

#include "run.h"

/* Marks, by id, what is computed from nodes (NULL: from anything) and needed for others, both
 * included. */
void cfx__run_between(const cfx_graph *g, const bool *from, const bool *to, bool *chosen);
/* The end of an error about a selector that matches no node, such as " (did you mean
 * 'module:layer1'?)", or an empty text; scope. */
const char *cfx__run_meant(const cfx_graph *g, const char *selector);

#endif
