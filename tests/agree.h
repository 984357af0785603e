/* Between agree.c and eager.c: what a run gave, and the run that all others are held against. */
#ifndef CFX_TEST_AGREE_H
#define CFX_TEST_AGREE_H

#include "programs.h"

/* What a run gave, or why it gave nothing. */
typedef struct {
    bool ran;
    bool limited;      /* it gave nothing for want of memory or time */
    char why[256];
    cfx_node *refused; /* eager runs: the node that did */
    cfx_list *leaves;  /* copies: results, then inputs and state as they are afterwards */
    cfx_dict *taps;    /* copies of the values of nodes by name; NULL: not asked for */
} outcome;

/* Copies of tensors; other values as they are. Scope. */
cfx_value eager_copy(cfx_value v);
cfx_value eager_copies(cfx_value list);
cfx_args eager_args(cfx_value list);
/* What the last call gave, or why not: the error is forgotten. */
outcome eager_outcome(cfx_value result, cfx_value inputs, const cfx_dict *state);
/* The calls of the graph one by one, by the dispatcher alone. noise: 0, or which last digits
 * change. */
outcome eager_run(const random_program *p, uint64_t noise);

/* Changes the last digits of a float result in place, as another order of a sum would. */
void eager_disturb(cfx_value v, uint64_t *lot);

#endif
