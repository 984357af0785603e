/* Costs: FLOPs and memory of a program, from the metadata of its nodes, without running it.
 *
 *     cfx_cost *c = cfx_program_cost(p, NULL);
 *     printf("%lld FLOPs, %lld bytes at most\n", (long long)c->flops, (long long)c->peak); */
#ifndef CFX_COST_H
#define CFX_COST_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one node costs. */
typedef struct cfx_node_cost {
    cfx_node *node;
    const cfx_module *owner; /* the GraphModule of its graph: the program's own, or a sub-graph's */
    int64_t flops;           /* as PyTorch's flop_counter has them, two for a multiply and add; of
                                cond the costlier branch, of loops one round */
    int64_t bytes;           /* memory that its result takes; none for views and weights */
    int64_t live;            /* bytes of inputs and results that are alive while it runs, weights
                                left out */
    int freed;               /* the number of the last node that needs its result */
    bool unknown;            /* a call of which nothing is noted, or not enough */
} cfx_node_cost;

typedef struct cfx_cost {
    cfx_obj head;
    int n;                  /* nodes of the program's graph, and behind each holder those of its
                               sub-graphs; in the order of execution */
    cfx_node_cost *nodes;
    int64_t flops;          /* of the program's own nodes, as are the sums below */
    int64_t bytes;
    int64_t peak;           /* the largest `live` */
    int peak_at;            /* of which node; -1 where there is none */
    int unknown;            /* calls that could not be counted */
} cfx_cost;

/* The costs of a program; scope. `sizes` maps names of symbols to numbers; a missing symbol has
 * the value of the example inputs. Bad, with an error, where p is NULL or bad, or where a symbol
 * has no value. */
CFX_API cfx_cost *cfx_program_cost(cfx_program *p, const cfx_dict *sizes);

#ifdef __cplusplus
}
#endif
#endif
