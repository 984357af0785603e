/* group: nodes that belong together become a graph of their own, which is called.
 *
 * Invariant: a group has one result. What it computes on the way is used in it alone, so it may
 * stand where its last node stood. */
#ifndef CFX__GROUP_H
#define CFX__GROUP_H

#include "pass.h"

/* The graph of a group, and the child that it is: a text of the graph that calls it. */
typedef struct cfx__group_body {
    const cfx_graph *graph;
    const char *path;
} cfx__group_body;

typedef struct cfx__groups {
    cfx_module *module;       /* the GraphModule whose nodes are grouped */
    cfx__alias alias;
    VEC(cfx__group_body) bodies; /* of the groups so far; equal ones are one */
    cfx_dict *like;           /* lists of their numbers, by the hash of what they call; counted */
    int children;             /* numbers that names of children have */
    VEC(cfx_node *) nodes;    /* of the group at hand */
    bool *taken;              /* by id: part of a group */
    size_t len;
    int made;
} cfx__groups;

void cfx__groups_open(cfx__groups *g, cfx_module *gm);
void cfx__groups_close(cfx__groups *g);
/* Whether n may be part of a group: a call without effects, of memory that nothing writes to, that
 * is part of no group yet. */
bool cfx__groups_may_take(const cfx__groups *g, const cfx_node *n);
/* Adds a node to the group at hand. */
void cfx__groups_take(cfx__groups *g, cfx_node *n);
/* Gives the nodes of the group at hand back. */
void cfx__groups_leave(cfx__groups *g);
/* Makes the group at hand one: a child of the module called name_0 or so, and a call of it by
 * invoke_subgraph. The node that is its result; the bad node, with an error, where it fails. */
cfx_node *cfx__groups_make(cfx__groups *g, const char *name);

#endif
