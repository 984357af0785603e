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

typedef struct cfx__epilogue {
    int n;
    cfx__post post[CFX__POSTS];
} cfx__epilogue;

typedef struct cfx__ready {
    cfx_obj head;
    const char *name; /* of the implementation, for the eye */
    int input;        /* the argument that is read when it runs; all others are in here */
    int64_t scratch;  /* bytes of intermediates */
    /* Computes; x and out lie as they lay when this was made. False, with an error, without memory.
     */
    bool (*run)(const struct cfx__ready *r, const void *x, void *out, void *scratch);
} cfx__ready;

/* Whether an operator called so can be part of an epilogue. */
bool cfx__ready_takes(cfx_op *op, const cfx_value *args);

#endif
