/* ready: layers, and the kernels that compute them.
 *
 * A layer is a call whose result is computed together with what follows it: a convolution or
 * product with its bias, an addition, activations, rounding. The record says all that a target
 * needs to know; which kernel computes it is the target's. On the CPU an operator's `takes` column
 * says whether there is a kernel for a layer and `make` makes it ready: what depends on shapes,
 * layouts and weights alone (packed weights, the choice of an algorithm) is found once, and running
 * it afterwards looks nothing up. A ready kernel is constant: many threads may run it at once. */
#ifndef CFX__READY_H
#define CFX__READY_H

#include "../dispatch/dispatch.h"
#include "columns.h"

/* What is done to each element of a result before it is stored, in this order. */
typedef struct cfx__post {
    cfx_op *op;      /* an operator of one tensor; NULL: what the result held before is added */
    cfx_value *args; /* of op, bound; the first is the element */
} cfx__post;

enum { CFX__POSTS = 4 };

/* A number as an integer: x = (q - zero) scale. */
typedef struct cfx__rounding {
    float scale;
    int32_t zero;
} cfx__rounding;

/* A layer in integers: its weight is int8, its input uint8, and so is what it adds. */
typedef struct cfx__integers {
    bool dynamic;             /* the input is float32, rounded by its own range when it runs */
    cfx__rounding x, add;
    const cfx_tensor *scales; /* of the weight, float32: one for each result, or one for all */
    bool rounds;              /* the result is uint8; else float32 */
    cfx__rounding out;
} cfx__integers;

/* A weight of 8 or 4 bits whose input and result are float32: n results of k inputs each. Inputs
 * may be rounded to int8 on the way: a block shares the scale with which its farthest number is
 * 127. */
typedef struct cfx__narrow {
    int bits;
    int64_t n, k, group;        /* inputs that share a scale; they divide k */
    const cfx_tensor *integers; /* int8 [n, k], or for 4 bits uint8 [n, k / 2]: two numbers a byte,
                                   the first in the low bits, each 8 more than it is */
    const cfx_tensor *scales;   /* float32 [n, k / group], or one for all */
    int64_t block;              /* inputs that are rounded together; 0: they are not rounded */
} cfx__narrow;

typedef struct cfx__epilogue {
    int n;
    cfx__post post[CFX__POSTS];
    const cfx__integers *integers; /* NULL: inputs are float32 */
    const cfx__narrow *narrow;     /* the weight in place of the argument; NULL: as given */
} cfx__epilogue;

/* A layer. Asked about, it may lie on the stack and borrow what it refers to; kept in a plan it is
 * made by cfx__layer_keep and holds counts. */
typedef struct cfx__layer {
    cfx_obj head;
    cfx_op_call call;         /* op, and its arguments after folding: weights are real and
                                 contiguous, what is read when it runs is fake and lies as it
                                 will; out[0]: the result, fake, as it will lie */
    int input;                /* the argument that is read when it runs */
    bool batches;             /* the program is for many batches: the first size of the result is a
                                 symbol there */
    cfx__epilogue epilogue;
    cfx__integers integers;   /* what epilogue.integers points to, in layers that are kept */
    cfx__narrow narrow;       /* the same of epilogue.narrow */
    cfx_value args[CFX_MAX_ARGS]; /* the same of call.args */
} cfx__layer;

/* A layer that holds counts of all that `l` refers to but the arguments of its posts; the caller
 * owns a count. */
cfx__layer *cfx__layer_keep(const cfx__layer *l);
static inline cfx_tensor *cfx__layer_x(const cfx__layer *l) {
    return cfx_as_tensor(l->call.args[l->input]);
}
static inline cfx_tensor *cfx__layer_out(const cfx__layer *l) { return l->call.out[0]; }

typedef struct cfx__ready {
    cfx_obj head;
    const char *name; /* of the implementation, for the eye */
    int64_t scratch;  /* bytes of intermediates */
    /* Computes; x and out lie as they lay when this was made. False, with an error, without memory.
     */
    bool (*run)(const struct cfx__ready *r, const void *x, void *out, void *scratch);
    /* This kernel and the first, whose result it reads, as one; NULL where there is no such. NULL:
     * never. The caller owns the result. */
    struct cfx__ready *(*behind)(const struct cfx__ready *first, const struct cfx__ready *second);
} cfx__ready;

/* What packed weights depend on beside their keys, as a line of text: the units of this machine
 * that kernels are chosen by, and the sources that pack. Scope. (dense/machine.c) */
const char *cfx__ready_machine(void);

/* Rows of a narrow weight, picked by integers: the columns of embedding. */
bool cfx__ready_takes_rows(const cfx__layer *l);
cfx__ready *cfx__ready_rows(const cfx__layer *l);

/* Whether an operator called so can be part of an epilogue of our kernels. */
bool cfx__ready_posts(cfx_op *op, const cfx_value *args);

typedef struct cfx__post_row {
    cfx__post_kind kind; /* BOUNDS for all that are so */
    float low, high;
} cfx__post_row;

/* What op is with these bound arguments; of kind CFX__POST_NONE where it is none of them. */
cfx__post_row cfx__post_of(const cfx_op *op, const cfx_value *args);

#endif
