/* ready: kernels made ready for one call.
 *
 * What depends on shapes, layouts and weights alone (primitives, packed weights, room for
 * intermediates) is found once, by the `prepare` column of an operator; running it afterwards looks
 * nothing up. A ready kernel is constant: many threads may run it at once. */
#ifndef CFX__READY_H
#define CFX__READY_H

#include "../dispatch/dispatch.h"

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

/* A weight of 8 or 4 bits whose input and result are float32: n results of k inputs each. */
typedef struct cfx__narrow {
    int bits;
    int64_t n, k, group;        /* inputs that share a scale; they divide k */
    const cfx_tensor *integers; /* int8 [n, k], or for 4 bits uint8 [n, k / 2]: two numbers a byte,
                                   the first in the low bits, each 8 more than it is */
    const cfx_tensor *scales;   /* float32 [n, k / group], or one for all */
} cfx__narrow;

typedef struct cfx__epilogue {
    int n;
    cfx__post post[CFX__POSTS];
    const cfx__integers *integers; /* NULL: inputs are float32 */
    const cfx__narrow *narrow;     /* the weight in place of the argument; NULL: as given */
} cfx__epilogue;

typedef struct cfx__ready {
    cfx_obj head;
    const char *name; /* of the implementation, for the eye */
    int input;        /* the argument that is read when it runs; all others are in here */
    int64_t scratch;  /* bytes of intermediates */
    /* Computes; x and out lie as they lay when this was made. False, with an error, without memory.
     */
    bool (*run)(const struct cfx__ready *r, const void *x, void *out, void *scratch);
    /* This kernel and the first, whose result it reads, as one; NULL where there is no such. NULL:
     * never. The caller owns the result. */
    struct cfx__ready *(*behind)(const struct cfx__ready *first, const struct cfx__ready *second);
} cfx__ready;

/* Rows of a weight, picked by integers, made ready; NULL where there is no kernel for it. */
cfx__ready *cfx__ready_rows(const cfx__narrow *w, const cfx_tensor *rows, const cfx_tensor *out);

/* Whether an operator called so can be part of an epilogue. */
bool cfx__ready_takes(cfx_op *op, const cfx_value *args);

#endif
