/* Control flow: what runs it (loops.c), what makes graphs of it (capture.c), and the calls that do
 * one or the other (control.c). Everything here is flat: trees of arguments and results are taken
 * apart by who calls. */
#ifndef CFX__CONTROL_H
#define CFX__CONTROL_H

#include "../value/later.h"
#include "trace.h"

/* What control flow calls: a branch, or the body of a loop. */
typedef struct cfx__body {
    /* Calls it with flat arguments: the leaves of its result, a tuple. Scope; bad with an error. */
    cfx_value (*call)(struct cfx__body *b, cfx_site at, cfx_args flat);
    cfx_module *module;
    cfx_forward_fn *fn; /* the caller's; NULL: the module itself, a graph, is called */
    cfx_value in;       /* the spec of its arguments */
    cfx_value out;      /* the spec of what it gave last; bad: nothing yet */
    cfx_dict *kept;     /* where that lives, longer than the round of a loop; NULL: none is noted */
    int place;          /* which argument of a call it is */
    int64_t round;      /* of the loop that calls it now; -1: that is no loop */
} cfx__body;

/* ---- running (loops.c) ----------------------------------------------------------------------- */

/* Lists hold tensors and plain values. Results are tuples; scope. Bad, with an error. Every operand
 * that takes a gradient gets one, zeros where nothing depends on it, as in PyTorch. */

/* yes(operands) where pred is true, else no(operands). */
cfx_value cfx__loop_cond(cfx_site at, cfx_value pred, cfx__body *yes, cfx__body *no,
                         cfx_value operands);
/* While test(carried, rest) is true, carried = body(carried, rest). */
cfx_value cfx__loop_while(cfx_site at, cfx__body *test, cfx__body *body, cfx_value carried,
                          cfx_value rest);
/* body(row of each xs, rest) for each row along the first dimension; the results stacked. */
cfx_value cfx__loop_map(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest);
/* (carry, row) = body(carry, row of each xs, rest): the last carry, then the rows stacked. */
cfx_value cfx__loop_scan(cfx_site at, cfx__body *body, cfx_value init, cfx_value xs,
                         cfx_value rest);
/* Loop and SequenceMap of ONNX: see loops.c. */
cfx_value cfx__loop_onnx(cfx_site at, cfx__body *body, cfx_value most, cfx_value held,
                         cfx_value carried, cfx_value rest);
cfx_value cfx__loop_sequences(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest);
/* Row k of the results is body(row k - 1 of them, row k of xs, rest). */
cfx_value cfx__loop_associative_scan(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest);

/* ---- one or the other (control.c) ------------------------------------------------------------ */

/* The same where some value is traced, or a module is exported: the call becomes a node then, and
 * each body a graph. No branch is chosen and no round run by anyone who has no data. */
cfx_value cfx__control_cond(cfx_site at, cfx_value pred, cfx__body *yes, cfx__body *no,
                            cfx_value operands);
cfx_value cfx__control_while(cfx_site at, cfx__body *test, cfx__body *body, cfx_value carried,
                             cfx_value rest);
/* The same of functions of an operator. */
cfx_value cfx__control_rounds(cfx_site at, cfx__round_fn *test, cfx__round_fn *body,
                              cfx_value carried, cfx_value rest);
cfx_value cfx__control_map(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest);
cfx_value cfx__control_scan(cfx_site at, cfx__body *body, cfx_value init, cfx_value xs,
                            cfx_value rest);
cfx_value cfx__control_associative_scan(cfx_site at, cfx__body *body, cfx_value xs,
                                        cfx_value rest);

/* ---- capturing (capture.c) ------------------------------------------------------------------- */

/* Some of the operands. */
typedef struct cfx__capture_part {
    cfx_value values; /* a list of leaves */
    cfx_value seen;   /* what bodies get in their place, where that is another list; None: these */
    bool rows;        /* bodies get a row along the first dimension of each */
    int times;        /* so often, one after another; 0: once */
    bool tuple;       /* an argument of the node as a tuple, else as a list */
} cfx__capture_part;

/* A call of control flow that becomes a node. */
typedef struct cfx__capture {
    cfx_site at;
    const char *op;   /* cond */
    cfx_value pred;   /* the first argument; bad: there is none */
    int nbodies;
    cfx__body *body[2];
    const char *name[2];      /* of their graphs: true_graph */
    bool bare;                /* the first body gives one value, not a tuple */
    bool list;                /* bodies give lists */
    int nparts;
    cfx__capture_part part[3]; /* to the last are added what bodies use of the graph around them */
    bool plain_too;            /* plain values are operands as well, not part of the bodies */
    /* What the node gives, from what the first and the last body gave: a list of fake tensors.
     * Scope; bad, with an error, where it does not fit. Asked only where shapes are known. */
    cfx_value (*results)(const struct cfx__capture *c, const cfx_list *first,
                         const cfx_list *given);
} cfx__capture;

/* Whether a call with these values is to become a node: the values are traced, or everything is
 * recorded. */
bool cfx__capture_wanted(cfx_args a);
/* What a call gives of which one of two bodies runs, from what these gave: a tuple of fake tensors
 * and numbers (either.c). Scope; bad, with an error, where they do not fit together. */
cfx_value cfx__either_results(cfx_site at, const cfx_list *yes, const cfx_list *no);
/* What the memory of n's result comes from: n itself where it is its own. */
const cfx_node *cfx__capture_origin(const cfx_node *n);
/* Makes the node: a tuple of as many values as the last body gives. Scope; bad, with an error. */
cfx_value cfx__capture_call(cfx__capture *c);

#endif
