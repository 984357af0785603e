/* Between use.c and change.c: what a run gave, and how two of them compare. */
#ifndef CFX_FUZZ_USE_H
#define CFX_FUZZ_USE_H

#include "fuzz.h"

typedef struct outcome {
    bool ran, limited;
    cfx_value leaves; /* copies: what is written to later is not seen */
    char why[200];    /* the error, where it did not run */
    char op[64]; /* the operator that refused */
} outcome;

/* What is compared: a program, its inputs, and what it gave when it was interpreted. */
typedef struct subject {
    cfx_program *program;
    cfx_value inputs;
    outcome first;
    bool whole;   /* it holds together, and computes what is noted */
    bool steady;  /* it gives the same each time */
    bool fixed;   /* nothing may be left out of it that refuses these inputs */
    uint64_t lot; /* a number of its own, to choose by */
} subject;

cfx_args use_args(cfx_value list);
cfx_value use_copies(cfx_value list);
/* What the last call gave, or why not: the error is forgotten. */
outcome use_outcome(cfx_value v);
/* Each run gets copies of the inputs; what it left in them is a part of what it gave. */
outcome use_run(cfx_program *p, const cfx_executor *x, cfx_value inputs);
outcome use_forward(cfx_module *m, cfx_value inputs);
bool use_same(const outcome *a, const outcome *b, double most);
/* The outcome is as the first: both refuse, or both give the same but for `most` of the largest
 * number, or last digits decide. */
void use_agree(const subject *s, const outcome *o, double most, const char *other);

/* Changes a program in every way there is, and compares what comes of it. */
void use_change(const subject *s);

#endif
