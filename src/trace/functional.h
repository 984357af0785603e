/* Between functional.c and view_steps.c: what views are made of while writes become values. */
#ifndef CFX_TRACE_FUNCTIONAL_H
#define CFX_TRACE_FUNCTIONAL_H

#include "record.h"

/* What tensors can be views of. */
typedef struct cfx__functional_base {
    cfx_obj head;
    cfx_tensor *value; /* inner; counted */
    cfx_tensor *first; /* inner: its first value, in whose memory views lie; counted */
    uint32_t version;  /* counts writes */
    bool held;         /* an input or an attribute: who gave it sees what becomes of it */
} cfx__functional_base;

/* One step from a base to a view. */
typedef struct cfx__functional_step {
    cfx_obj head;
    struct cfx__functional_step *before; /* counted; NULL: from the base */
    cfx_op *op;
    cfx_value args;           /* a list, one for each of the schema's, the first unused; counted */
    int out;                  /* which of several results; -1: the only one */
    bool in_place;            /* the tensor itself took it, x.t_(): it lay otherwise before */
    uint32_t frame;           /* the decomposition that took it, which knows its numbers */
} cfx__functional_step;

/* A call on inner tensors by the name of the operator; scope. */
cfx_tensor *cfx__functional_do(cfx__recorder *r, const char *name, cfx_args a);
/* The tensor that the steps to s give from a base; scope. */
cfx_tensor *cfx__steps_forward(cfx__recorder *r, cfx_site at, const cfx__functional_step *s,
                               cfx_tensor *base);
/* The same without nodes: a fake tensor that lies in the memory of the base; scope. */
cfx_tensor *cfx__steps_place(cfx__recorder *r, const cfx__functional_step *s, cfx_tensor *base);
/* The new value of the base when the steps to s, taken from it, are to give `value`; scope. */
cfx_tensor *cfx__steps_back(cfx__recorder *r, cfx_site at, const cfx__functional_step *s,
                            cfx_tensor *base, cfx_tensor *value);
/* Whether any of the steps to s looks at the storage behind a tensor. */
bool cfx__steps_read_storage(const cfx__functional_step *s);

/* Whether two tensors of one shape have the same strides, but for dimensions of one element. */
bool cfx__strides_are(const cfx_tensor *a, const cfx_tensor *b);
/* The same from the same place in their storages. */
bool cfx__memory_order_is(const cfx_tensor *a, const cfx_tensor *b);
/* t with the strides of another, which has its shape; scope. An error where that is a part of its
 * storage. */
cfx_tensor *cfx__in_memory_order(cfx__recorder *r, cfx_site at, const cfx_tensor *like,
                                 cfx_tensor *t);
/* PyTorch's words where a tensor whose elements share memory is written. */
void cfx__refuse_overlap(cfx_site at, const char *name);

#endif
