/* trace: where running code becomes a graph.
 *
 * Invariant: while a tracer is active in a thread, a traced tensor stands for exactly one node of
 * its graph; a call with a traced tensor among its arguments makes a node and computes nothing, any
 * other call runs as usual. Tracers nest; each sees only what is traced for it. */
#ifndef CFX__TRACE_H
#define CFX__TRACE_H

#include <cfx/trace.h>
#include <cfx/tree.h>

#include "../graph/graph.h"
#include "../nn/nn.h"

/* A module that is being traced through. */
typedef struct cfx__trace_level {
    const char *key, *path, *type;
} cfx__trace_level;

/* What nodes that come from one line of C, in one state of the module stack, say about it. */
typedef struct cfx__trace_origin {
    cfx_site at;
    const void *levels; /* the dict of the stack, or NULL */
    cfx_dict *meta;     /* counted; NULL: the place is free */
} cfx__trace_origin;

enum { CFX__ORIGINS = 64 }; /* a power of two */

typedef struct cfx__tracer {
    cfx_tracer *config;      /* the user's */
    cfx_graph *graph;
    cfx_module *root;        /* what paths start from; receives constants */
    bool leaves_only;        /* every module is a leaf: how a graph is rebuilt */
    cfx_node *like; /* metadata for new nodes comes from here; NULL: from the module stack */
    cfx__nn_layer layer;
    cfx__fn_layer *outer_layer;
    cfx__mode_fn *outer_mode;
    cfx__modes modes_before;
    struct cfx__tracer *outer;
    cfx_dict *module_paths;  /* module (as its address) to path */
    cfx_dict *tensor_paths;  /* parameter or buffer (as its address) to path */
    cfx_dict *parameters;    /* parameter (as its address) to its one get_attr node, or None */
    cfx_dict *calls;         /* path to how often it was called */
    VEC(cfx__trace_level) stack;   /* outermost first */
    cfx_value levels;        /* the stack as metadata has it; None: to be made. Counted */
    cfx__trace_origin
        origins[CFX__ORIGINS]; /* metadata that nodes of one line and one stack share */
    struct cfx__branch *branch; /* not NULL: this is a sub-graph of outer's (branch.h) */
} cfx__tracer;

/* What a module takes: *made, which the caller frees, or the module's own. NULL: it has no
 * signature that could be read. And a call with one value for each parameter, be it what stands for
 * the whole of *args. Scope. */
const cfx__signature *cfx__root_signature(const cfx_module *m, cfx__signature **made);
cfx_value cfx__root_call(cfx_module *m, const cfx__signature *s, const cfx_value *values);
/* Makes t the calling thread's tracer, building t->graph over t->root, until it ends. */
void cfx__tracer_begin(cfx__tracer *t);
void cfx__tracer_end(cfx__tracer *t);
/* The active tracer, or NULL. */
cfx__tracer *cfx__tracer_now(void);
/* What cfx_annotate said last, a dict or None; borrowed. */
cfx_value cfx__trace_annotation(void);
/* Where the thread's recorder is kept (record.h). */
struct cfx__recorder **cfx__recorder_slot(void);
/* A tensor that stands for n; scope. The bad tensor for the bad node. */
cfx_tensor *cfx__traced_tensor(cfx_node *n);
/* v as an argument of a node: traced tensors become nodes, real ones get_attr nodes. Scope. */
cfx_value cfx__tracer_arg(cfx__tracer *t, cfx_site at, cfx_value v);
/* A node for a call, recorded with source line and module stack. */
cfx_node *cfx__tracer_node(cfx__tracer *t, cfx_site at, cfx_opcode op, cfx_target target,
                           cfx_args a);
/* The call as a node, spelled as Python does; the tensor that stands for it. */
cfx_value cfx__tracer_call(cfx__tracer *t, cfx_site at, cfx_target target, cfx_args a);
/* Forgets the metadata that nodes of one line share. */
void cfx__tracer_forget(cfx__tracer *t);
/* A node that an argument is or stands for, be it in a container; NULL: none. */
cfx_node *cfx__trace_any(cfx_args a);
/* A call with a node among its arguments outside tracing (later.h): a node at the insert point. */
bool cfx__trace_append(cfx_site at, const cfx_target *target, cfx_args a, cfx_value *result);

#endif
