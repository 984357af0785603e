/* Sizes as PyTorch's tracer represents them during a decomposition.
 *
 * PyTorch runs the program on tensors whose sizes are SymInt objects. Each object records its
 * origin: the node that computed it, or a dimension of a tensor. A size of a tensor becomes a
 * node where it is first needed: as an argument, or where a tensor enters the program, because
 * functionalisation then computes its memory size. Results have the SymInts of their arguments,
 * or new ones (shared.c). After tracing, unused nodes are removed. Only then are equal
 * expressions merged into the first remaining node, and sizes read from tensors replaced by
 * expressions of the input sizes (hashcons.c). So the identity of the SymInt objects is visible
 * in the resulting program, and cfx reproduces it. */
#ifndef CFX__SYMINTS_H
#define CFX__SYMINTS_H

#include "merge.h"

typedef struct cfx__symint {
    cfx_value expr;        /* counted */
    cfx__seen seen;        /* what it is in each world */
    cfx_node *node;        /* that gives it; NULL: nobody asked */
    cfx_node *tensor;      /* whose size it is; NULL: it is arithmetic */
    int dim;
    uint32_t frame;        /* the decomposition that computed it */
} cfx__symint;

/* Invariant: numbers of symints count from 1; 0 is none, that is, a size that does not vary. */
typedef struct cfx__symints {
    const cfx__record_log *log;
    VEC(cfx__symint) all;
    VEC(uint32_t) dims;  /* of tensors, one after the other; each with that of its elements last */
    VEC(struct cfx__symint_tensor {
        size_t first;
        int ndim; /* -1: no tensor */
    })
    tensors;             /* by id of the node */
    VEC(uint32_t) number; /* by id of the node: the number that it gives */
    size_t wraps; /* those before are done */
} cfx__symints;

void cfx__symints_free(cfx__symints *s);

/* The sizes of inputs are compared with their bounds, and with those they are equal to, before
 * anything else. */
void cfx__symint_guard_inputs(cfx__merging *g);
/* An argument of the node at hand, v in each world: a number, or the node that gives it. Of numbers
 * that vary and do not say where they come from it is found out: the innermost decomposition
 * computed them or was given them, or the one around it. None where nothing has such a size. */
cfx_value cfx__symint_arg(cfx__merging *g, const cfx_value *v);
/* A node as an argument of the node at hand: a number where the expression is one. */
cfx_value cfx__symint_node_arg(const cfx__merging *g, cfx_node *n);
/* The node for a size with this expression that something has; None where nothing has. */
cfx_value cfx__symint_known(cfx__merging *g, cfx_value expr);
/* Node n gives val. */
void cfx__symint_made(cfx__merging *g, cfx_node *n, cfx_value val);
/* The node at hand is done: what the program is given by then is measured. */
void cfx__symint_wrapped(cfx__merging *g);

/* The size number dim of a tensor; CFX__NUMEL: of its elements, made where it is asked for. */
uint32_t cfx__symint_of(cfx__merging *g, const cfx_node *tensor, int dim);
/* Which size of an argument dimension dim of n's result is; 0: it is a new one. Its expression. */
uint32_t cfx__symint_shared(cfx__merging *g, const cfx_node *n, int ndim, const cfx__seen *sizes,
                            int dim);
cfx_value cfx__symint_expr(const cfx__merging *g, uint32_t i);

/* Calls the nodes as they come in the trace. */
void cfx__symints_name(cfx__merging *g);
/* One node for each expression, and assertions of what depends on data. */
bool cfx__symints_cons(cfx__merging *g);

#endif
