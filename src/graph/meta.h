/* What a graph has beside what struct cfx_graph shows: the tables of meta.c. */
#ifndef CFX__META_H
#define CFX__META_H

#include "graph.h"

/* What cfx_graph_new makes. */
typedef struct cfx__graph_whole {
    cfx_graph graph;          /* first: a cfx_graph * points here */
    struct cfx__metas *metas; /* metadata that nodes share; NULL: none yet */
} cfx__graph_whole;

/* Lets go of the metadata that nodes of g share. */
void cfx__graph_drop_metas(cfx_graph *g);

#endif
