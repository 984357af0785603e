/* What a graph has beside what struct cfx_graph shows: the tables of meta.c, and what tells whether
 * a signature is still in line with it. */
#ifndef CFX__META_H
#define CFX__META_H

#include "graph.h"

/* What cfx_graph_new makes. */
typedef struct cfx__graph_whole {
    cfx_graph graph;          /* first: a cfx_graph * points here */
    struct cfx__metas *metas; /* metadata that nodes share; NULL: none yet */
    uint64_t edges; /* counts changes of placeholders, the output and names of results */
} cfx__graph_whole;

/* A number that such a change makes another one, and that other graphs do not have; not 0. */
static inline uint64_t cfx__graph_edges(const cfx_graph *g) {
    return cfx__hash_mix((uintptr_t)g, ((const cfx__graph_whole *)g)->edges) | 1;
}
/* Counts such a change, and any change of n. */
static inline void cfx__graph_count_edge(cfx_graph *g) { ((cfx__graph_whole *)g)->edges++; }
static inline void cfx__graph_count(cfx_graph *g, const cfx_node *n) {
    g->version++;
    if (n->op == CFX_PLACEHOLDER || n->op == CFX_OUTPUT)
        cfx__graph_count_edge(g);
}

/* Lets go of the metadata that nodes of g share. */
void cfx__graph_drop_metas(cfx_graph *g);

#endif
