/* stages: where a program is cut, and the programs that it is cut into.
 *
 * Invariant: a value that crosses is a tensor or a number, and is computed once; what is written to
 * is touched by one stage. */
#ifndef CFX__STAGES_H
#define CFX__STAGES_H

#include <cfx/cost.h>
#include <cfx/stages.h>

#include "rewrite.h"

/* The calls of a program in a row, items of several results in the place of what gives them, and
 * what it would mean to cut before each. */
typedef struct cfx__cuts {
    const cfx_program *program;
    cfx_dict *sizes;  /* of all symbols */
    int len;          /* places in the row */
    int *place;       /* by node id; -1: an input, an attribute or the output */
    int *last;        /* by node id: the last place that uses it; len: a result of the program */
    double *seconds;  /* by place: what comes before it takes; one more for the end */
    double *tensors;  /* the same: bytes of parameters and the like that are read */
    int64_t *flops;   /* the same: operations */
    double *crossing; /* bytes that cross a cut before a place */
    int *held;        /* not 0: no cut before this place */
} cfx__cuts;

/* Looks at a program; false with an error. Closed in any case. */
bool cfx__cuts_open(cfx__cuts *c, const cfx_program *p, const cfx_stage_options *o);
void cfx__cuts_close(cfx__cuts *c);
/* Whether what n computes crosses a cut before a place. */
bool cfx__cuts_crosses(const cfx__cuts *c, const cfx_node *n, int place);
/* Chooses where to cut: first[i] is the first place of stage i, first[n] the end. False with an
 * error. (stage_balance.c) */
bool cfx__cuts_choose(const cfx__cuts *c, const cfx_stage_options *o, int *first);

#endif
