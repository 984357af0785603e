/* Pairs the nodes of two programs: two versions of a model, or a program before and after a
 * pass, decomposed, fused or converted. Nodes for the same value are found by origin, by name
 * and by what they compute. */
#ifndef CFX_PAIR_H
#define CFX_PAIR_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_pair {
    cfx_node *a, *b;
    bool changed; /* another operator, other constants, other inputs, another tensor */
} cfx_pair;

typedef struct cfx_pairs {
    cfx_obj head;
    int n;
    cfx_pair *pairs; /* in the order of b's nodes; each node is in one pair at most */
    cfx_node **by_a, **by_b; /* by node id: the other one, or NULL */
    cfx_program *a, *b; /* borrowed */
} cfx_pairs;

/* Pairs the nodes of two programs, without their sub-graphs; scope. Bad, with an error, where a
 * program is NULL or no calls can be paired. */
CFX_API cfx_pairs *cfx_program_pair(cfx_program *a, cfx_program *b);
/* The node that a node of either program is paired with, or NULL. */
CFX_API cfx_node *cfx_pairs_other(const cfx_pairs *p, const cfx_node *n);

#ifdef __cplusplus
}
#endif
#endif
