/* Gradients: a tape that records calls, and the backward pass.
 *
 *   cfx_tensor *w = cfx_requires_grad(cfx_randn(3), true);
 *   cfx_tensor *loss = cfx_sum(cfx_mul(w, w));
 *   cfx_backward(loss);                              the gradient is in cfx_tensor_grad(w)
 *
 * In grad mode, a call with an argument that requires a gradient creates a node, which holds
 * what its gradient formula reads. A tensor holds the node that made it, and a node the nodes
 * before it, so the tape lives as long as a tensor can reach it. */
#ifndef CFX_GRAD_H
#define CFX_GRAD_H

#include <cfx/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- which tensors --------------------------------------------------------------------------- */

/* Sets whether a leaf requires a gradient. Returns t. Fails for integers and for results of
 * recorded calls. */
CFX_API cfx_tensor *cfx_requires_grad_from(cfx_site at, cfx_tensor *t, bool on);
#define cfx_requires_grad(t, on) cfx_requires_grad_from(CFX_HERE, t, on)
/* Whether t requires a gradient: set by the user, or computed from a tensor that does. */
CFX_API bool cfx_tensor_requires_grad(const cfx_tensor *t);
/* Whether t was made by the user, not by a recorded call. */
CFX_API bool cfx_tensor_is_leaf(const cfx_tensor *t);
/* "MulBackward0", the name of the node that made t; NULL for leaves. Scope. */
CFX_API const char *cfx_tensor_grad_fn(const cfx_tensor *t);

/* The tape as a graph: the call that made t, and where gradients go from a call. A node is counted
 * (cfx_keep, cfx_drop) and keeps those behind it.
 *     for (int i = 0; i < cfx_grad_node_inputs(n); i++)
 *         if (cfx_grad_node_next(n, i, NULL)) ... */
typedef struct cfx__grad_node cfx_grad_node;
/* The node that the gradient of t goes to: what made it; a leaf's, which adds to its grad; NULL
 * where no gradient is wanted. Scope. */
CFX_API cfx_grad_node *cfx_tensor_grad_node(const cfx_tensor *t);
/* "MulBackward0"; a leaf's is "AccumulateGrad". Scope. */
CFX_API const char *cfx_grad_node_name(const cfx_grad_node *n);
/* How many tensors the call took; the node that the gradient of one goes to, borrowed, and which of
 * its results that one was (output may be NULL). NULL: none is wanted. */
CFX_API int cfx_grad_node_inputs(const cfx_grad_node *n);
CFX_API cfx_grad_node *cfx_grad_node_next(const cfx_grad_node *n, int i, int *output);
/* The leaf of an AccumulateGrad, borrowed; NULL where it is gone, and for other nodes. */
CFX_API cfx_tensor *cfx_grad_node_leaf(const cfx_grad_node *n);

/* ---- gradients ------------------------------------------------------------------------------- */

/* t.grad, borrowed: the accumulated gradient; NULL where there is none, or t is not a leaf and
 * its gradient was not retained. */
CFX_API cfx_tensor *cfx_tensor_grad(const cfx_tensor *t);
/* Sets t.grad; keeps it. NULL clears. Fails where shape or dtype differ from t's. */
CFX_API void cfx_tensor_set_grad_from(cfx_site at, cfx_tensor *t, cfx_tensor *grad);
#define cfx_tensor_set_grad(t, grad) cfx_tensor_set_grad_from(CFX_HERE, t, grad)
/* Makes backward leave a gradient on t although it is no leaf. */
CFX_API void cfx_retain_grad_from(cfx_site at, cfx_tensor *t);
#define cfx_retain_grad(t) cfx_retain_grad_from(CFX_HERE, t)

typedef struct cfx_backward_options {
    cfx_tensor *gradient; /* of the result; NULL is 1, for results of one element */
    bool retain_graph;    /* keep what the tape holds, to walk it again */
    bool create_graph;    /* record the backward pass too: gradients of gradients */
} cfx_backward_options;

/* Adds the gradient of t with respect to every leaf that it was made from to the grad of each.
 * False, with PyTorch's message, when it cannot: cfx_backward(loss, .retain_graph = true). */
CFX_API bool cfx_backward_from(cfx_site at, cfx_tensor *t, cfx_backward_options o);
#define cfx_backward(t, ...)                                                                       \
    cfx_backward_from(CFX_HERE, t, CFX_OPTIONS(cfx_backward_options, __VA_ARGS__))

typedef struct cfx_grad_options {
    cfx_value grad_outputs; /* one for each output, or None */
    bool retain_graph, create_graph;
    bool allow_unused;      /* None, not an error, for an input that no output depends on */
} cfx_grad_options;

/* The gradients of outputs with respect to inputs, each a tensor or a list of them: a tuple, one
 * for each input; scope. Nothing is added to any grad. */
CFX_API cfx_value cfx_grad_from(cfx_site at, cfx_value outputs, cfx_value inputs,
                                cfx_grad_options o);
#define cfx_grad(outputs, inputs, ...)                                                             \
    cfx_grad_from(CFX_HERE, CFX_V(outputs), CFX_V(inputs),                                         \
                  CFX_OPTIONS(cfx_grad_options, __VA_ARGS__))

/* torch.autograd.set_detect_anomaly: while on, a backward pass of this thread in which a gradient
 * becomes NaN fails, and says in which node. Returns what it was. */
CFX_API bool cfx_set_detect_anomaly(bool on);

/* ---- functions of the caller's --------------------------------------------------------------- */

typedef struct cfx_grad_function_options {
    const char *name;  /* what grad_fn is called: "SquareBackward"; copied */
    cfx_value object;  /* of the caller's, to be called (cfx/object.h); kept as long as the tape */
    cfx_value inputs;  /* a list: tensors, or None */
    cfx_value outputs; /* the same */
    cfx_value saved;   /* the inputs and outputs whose numbers object reads; None: no numbers */
} cfx_grad_function_options;

/* Records a user-defined function on the tape, like torch.autograd.Function: `outputs` were
 * computed from `inputs` without recording. The backward pass calls object with three lists:
 * inputs, outputs (None for those not saved) and gradients of the outputs (None where there are
 * none). It returns a list or tuple of the gradients of the inputs, None for none. An output
 * that is one of the inputs was mutated. False, with an error, where that is a leaf or a view,
 * or the options are invalid. */
CFX_API bool cfx_grad_function_from(cfx_site at, cfx_grad_function_options o);
#define cfx_grad_function(...)                                                                     \
    cfx_grad_function_from(CFX_HERE, CFX_OPTIONS(cfx_grad_function_options, __VA_ARGS__))

/* ---- hooks ----------------------------------------------------------------------------------- */

/* Sees the gradient of a tensor in the backward pass. Returns NULL to leave it as it is, or what is
 * to go on in its place. */
typedef cfx_tensor *cfx_tensor_hook_fn(cfx_tensor *grad, void *user);
/* Sees a leaf after a gradient was added to its grad. */
typedef void cfx_leaf_hook_fn(cfx_tensor *leaf, void *user);

/* Each returns a number to take the hook off with, 0 with an error where it cannot be put on. */
CFX_API int64_t cfx_tensor_hook_from(cfx_site at, cfx_tensor *t, cfx_tensor_hook_fn *fn,
                                     void *user);
CFX_API int64_t cfx_leaf_hook_from(cfx_site at, cfx_tensor *t, cfx_leaf_hook_fn *fn, void *user);
#define cfx_tensor_hook(t, fn, user) cfx_tensor_hook_from(CFX_HERE, t, fn, user)
#define cfx_leaf_hook(t, fn, user) cfx_leaf_hook_from(CFX_HERE, t, fn, user)
/* The same for an object of the caller's that can be called (cfx/object.h), which is kept as long
 * as the hook: it is given the gradient, and what it gives, a tensor or None, goes on in its place;
 * of a leaf (`leaf`) it is given the leaf. */
CFX_API int64_t cfx_tensor_hook_object_from(cfx_site at, cfx_tensor *t, cfx_value object,
                                            bool leaf);
#define cfx_tensor_hook_object(t, object, leaf)                                                    \
    cfx_tensor_hook_object_from(CFX_HERE, t, object, leaf)
/* Takes a hook off; a second time does nothing. */
CFX_API void cfx_tensor_unhook(cfx_tensor *t, int64_t hook);

#ifdef __cplusplus
}
#endif
#endif
