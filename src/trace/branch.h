/* Sub-graphs: a graph that is made inside another, and may use what that one has. */
#ifndef CFX__BRANCH_H
#define CFX__BRANCH_H

#include "../graph/graph.h"
#include "../nn/nn.h"

/* Invariant: each node of a graph around it that the branch uses has one placeholder in it. */
typedef struct cfx__branch {
    cfx_graph *graph;
    cfx_graph *around;         /* the graph that it is made in */
    struct cfx__branch *outer; /* whose graph that is; NULL: it is no branch */
    cfx_list *captured;        /* nodes around it that it uses, first uses first; scope */
    cfx_dict *lifted;          /* such a node to its placeholder; scope */
    cfx_node *last_input;      /* the last placeholder; NULL: none yet */
    int ninputs;
} cfx__branch;

/* A branch of the graph `around`, which is itself that of a branch where outer is not NULL. */
cfx__branch cfx__branch_new(cfx_graph *around, cfx__branch *outer);
/* A placeholder after those there are. */
cfx_node *cfx__branch_input(cfx__branch *b);
/* A node as one of the branch: itself, or the placeholder that stands for it. NULL when it is
 * neither of its graph nor of one around it. */
cfx_node *cfx__branch_lift(cfx__branch *b, cfx_node *n);
/* Puts the placeholders of captured nodes in the order of the list; those that are not there yet
 * are made. */
void cfx__branch_order(cfx__branch *b, const cfx_list *captured);
/* The sub-graph called so: kept with the graph g, or a child of root, which may be NULL; *below is
 * then that child, else NULL. NULL where there is none. */
cfx_graph *cfx__branch_graph(const cfx_graph *g, const cfx_module *root, const char *name,
                             cfx_module **below);
/* Calls the inputs of sub-graphs as what they get is called around them, where torch.export does
 * so, and whatever is called so already otherwise; in all graphs below g, which are found as above.
 */
void cfx__branch_names(cfx_graph *g, const cfx_module *root);

#endif
