/* run: where a graph becomes numbers again.
 *
 * Invariant: a plan is made once for a version of a graph and never changed afterwards, so that
 * many threads may run it at once; what changes while running is in a frame of the caller's. */
#ifndef CFX__RUN_H
#define CFX__RUN_H

#include <cfx/run.h>

#include "../trace/trace.h"

/* One node, ready to run. In its arguments a node stands with its slot in value.spare. */
typedef struct cfx__step {
    cfx_node *node;
    cfx_value args;          /* a tuple */
    cfx_value kwargs;        /* a dict, or None where it is empty */
    cfx_op *op;              /* the overload whose arguments could be bound already; NULL: none */
    int nbound;
    cfx_value *bound;        /* one for each argument of op's schema */
    bool *nested;            /* bound[i] is a container with nodes inside */
    int nfrees;
    int *frees;              /* slots whose last use this is */
} cfx__step;

typedef struct cfx__plan {
    cfx_obj head;
    uint64_t version;        /* of the graph it was made from */
    int nsteps;
    cfx__step *steps;        /* slot k is the result of step k */
    int nplaceholders;
    cfx__arena arena;
    cfx_list *kept;          /* holds the containers that the steps refer to */
} cfx__plan;

/* A run: the values of the nodes computed so far, each counted. */
typedef struct cfx__run {
    const cfx__plan *plan;
    cfx_value *values;       /* by slot */
    bool *have;
    cfx_args inputs;
    int next;                /* the next positional input */
    int now;                 /* the step that is being run */
    cfx__tracer *rebuild;    /* not NULL: values are traced, and nodes are made of what is done */
} cfx__run;

/* Runs the interpreter's graph; with a tracer, rebuilds it there. Scope. */
cfx_value cfx__run_graph(cfx_interp *it, cfx_args a, cfx__tracer *rebuild);
/* The plan of a graph, made anew when the graph has changed; borrowed from the graph. */
const cfx__plan *cfx__plan_of(cfx_graph *g);
/* The slot of a node in the plan of its graph, or -1. */
int cfx__plan_slot(const cfx__plan *p, const cfx_node *n);
/* A template with its slots filled in; scope. */
cfx_value cfx__run_fill(const cfx__run *r, cfx_value v);
/* Adds "While executing ..." with module path and source line to the recorded error. */
void cfx__run_note(const cfx_node *n);
/* Whether a selector (see cfx_tap) picks a node. */
bool cfx__selects(const char *selector, const cfx_node *n);

#endif
