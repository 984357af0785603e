/* grad: calls leave a tape.
 *
 * Invariant: a tensor owns its tape and through it the node that made it; a node owns the nodes
 * that its gradients go to, and of its arguments and results only those that its formula reads.
 * Nothing points the other way with a count, so there are no cycles: what is saved is saved as an
 * alias without tape and base. */
#ifndef CFX__GRAD_H
#define CFX__GRAD_H

#include <cfx/grad.h>

#include "../dispatch/dispatch.h"

typedef struct cfx__grad_node cfx__grad_node;
typedef struct cfx__tape cfx__tape;

typedef enum cfx__grad_node_kind {
    CFX__NODE_OP,      /* a recorded call: runs the gradient column of its operator */
    CFX__NODE_MISSING, /* the same for an operator that has no gradient: fails when it runs */
    CFX__NODE_FUNCTION, /* a function of the caller's: calls an object, the first of args */
    CFX__NODE_LEAF,    /* adds to the grad of a leaf */
    CFX__NODE_SLICES   /* a write to a view, seen from the base */
} cfx__grad_node_kind;

/* A tensor as a node remembers it: its numbers where they are saved, else its outline; and where
 * its gradient goes. */
typedef struct cfx__grad_kept {
    cfx_tensor *tensor; /* counted; NULL: the outline alone */
    cfx__grad_node *to;     /* counted; NULL: no gradient is wanted */
    int output;         /* which result of `to` */
    uint32_t version;   /* of the storage when it was saved */
    uint8_t dtype, ndim;
    bool none;          /* None stands here in a list */
    bool unchecked;     /* the operator itself writes to it: its version says nothing */
    cfx_device device;
    int64_t offset;
    int64_t *dims;      /* shape, then strides; in the node */
} cfx__grad_kept;

typedef struct cfx__grad_hook {
    int64_t id;
    int output;
    cfx_tensor_hook_fn *fn; /* or one of the next two */
    cfx_leaf_hook_fn *leaf_fn;
    cfx__tape *retain;      /* borrowed; its end takes the hook off */
    void *user;
    cfx_object *object;     /* counted, or NULL: what `user` is */
} cfx__grad_hook;

struct cfx__grad_node {
    cfx_obj head;
    cfx__grad_node_kind kind;
    cfx_op *op;            /* the functional operator */
    cfx_site at;          /* of the call */
    uint64_t seq;          /* later calls run first */
    bool released;         /* what it had saved is gone */
    bool spare;            /* its block is of the common size */
    int nargs, nin, nout;  /* arguments; tensors among them, lists counted through; results */
    cfx_value *args; /* a tensor or a list of them is identified by `spare`, its first in kept */
    cfx__grad_kept *kept;       /* nin arguments, then nout results */
    VEC(cfx__grad_hook) hooks;
    cfx__tape *leaf;       /* LEAF: borrowed; NULL once the tensor is gone */
    cfx__grad_node *inner;     /* SLICES: the call that wrote to the view */
    cfx__grad_node *next;      /* while being freed */
};

/* What hangs on a tensor: t->tape. */
struct cfx__tape {
    cfx_obj head;
    cfx_tensor *owner;   /* the tensor it hangs on; borrowed */
    cfx__grad_node *node; /* what made it; a leaf's: where its gradient is added; NULL: neither */
    int output;          /* which result of node */
    bool leaf;
    bool retains;
    uint32_t version;    /* a view's: of the storage, when `node` was right */
    cfx_tensor *grad;    /* counted */
};

/* Per thread: the numbers of nodes and hooks, blocks of nodes that are gone, and what was asked. */
typedef struct cfx__grad_state {
    uint64_t seq;
    int64_t hooks;
    void *spare; /* linked through their first word */
    int nspare;
    bool anomalies; /* gradients that are not numbers are errors */
} cfx__grad_state;

cfx__grad_state *cfx__grad_state_get(void);

/* The tape of t, made if there is none. */
cfx__tape *cfx__tape_of(cfx_tensor *t);
/* Makes t the result `output` of node. */
void cfx__tape_set(cfx_tensor *t, cfx__grad_node *node, int output);
/* Where the gradient of t goes, borrowed; NULL where none is wanted. Views of a base that was
 * written to since get a new node here. */
cfx__grad_node *cfx__grad_edge_of(cfx_site at, cfx_tensor *t, int *output);

/* A node with one count, the caller's. `args` are those of the call (nargs of them), `out` its
 * results. `written`, where an in-place call is recorded, is the tensor it wrote to. */
typedef struct cfx__grad_written {
    cfx_tensor *self;    /* NULL: nothing was written to */
    cfx_tensor *before;  /* a copy of it from before, where the formula reads it */
    cfx_tensor *outline; /* its shape before, where the call changed that; NULL: it did not */
    cfx__grad_node *to;      /* where its gradient went before */
    int output;
    uint32_t version;    /* of its storage before */
} cfx__grad_written;
cfx__grad_node *cfx__grad_node_new(cfx_site at, cfx_op *op, const cfx_value *args, int nout,
                                   cfx_tensor *const *out, const cfx__grad_written *written);
/* The node of a function of the caller's (cfx_grad_function): args are the object, its name and the
 * inputs. The numbers of those inputs and outputs are kept that are in `saved`. */
cfx__grad_node *cfx__grad_node_function(cfx_site at, const cfx_grad_function_options *o);
/* What becomes of a base when the recorded call `inner` wrote to a view of it. */
cfx__grad_node *cfx__grad_node_slices(cfx_site at, cfx_tensor *base, cfx__grad_node *inner);
/* "MulBackward0"; scope. */
const char *cfx__grad_node_op_name(cfx_op *op);
const char *cfx__grad_node_name(const cfx__grad_node *n);
/* Forgets what is saved. */
void cfx__grad_node_release(cfx__grad_node *n);

/* A call that has an argument with a gradient: records it. The dispatcher's layer (later.h). */
cfx_value cfx__grad_call(cfx_site at, cfx_op *op, cfx_value *args);

/* Runs a node: from the gradients of its results to those of its nin arguments, NULL where there
 * are none; scope. False when it failed. */
bool cfx__grad_node_run(cfx__grad_node *n, cfx_tensor *const *gout, cfx_tensor **gin);

#endif
