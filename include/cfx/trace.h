/* Tracing: running code becomes a graph.
 *
 * cfx_trace (and cfx_symbolic_trace of run.h) runs a module's forward once on tensors that stand
 * for nodes. Leaf modules (cfx's own layers, except containers) become call_module nodes, others
 * are traced through. Nothing global is touched: two threads may trace at once. */
#ifndef CFX_TRACE_H
#define CFX_TRACE_H

#include <cfx/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How to trace; a struct literal with the fields that differ from the default. */
typedef struct cfx_tracer {
    /* Whether m, at path, becomes one node. NULL: cfx_tracer_is_leaf. */
    bool (*is_leaf)(struct cfx_tracer *self, cfx_module *m, const char *path);
    cfx_dict *concrete_args; /* parameter name to the value it is fixed to; NULL: none */
    void *user;
    cfx_module *root;        /* filled in while tracing */
    cfx_graph *graph;
    struct cfx__tracer *own_;
} cfx_tracer;

/* The graph of root; scope. NULL, with an error, when forward does what cannot be traced
 * (control flow on a traced value: torch.fx's words, with the C file and line). */
CFX_API cfx_graph *cfx_trace(cfx_tracer *t, cfx_module *root);
/* The default policy: layers of cfx's own are leaves, Sequential and the like are not. */
CFX_API bool cfx_tracer_is_leaf(cfx_tracer *t, cfx_module *m, const char *path);
/* Whether the calling thread is tracing. */
CFX_API bool cfx_is_tracing(void);

/* The size of dimension i: an int, or a traced value while tracing. Every argument position accepts
 * either. */
CFX_API cfx_value cfx_size_at(cfx_where at, cfx_tensor *t, int i);
#define cfx_size(t, i) cfx_size_at(CFX_HERE, t, i)
/* Whether a one-element tensor or a number is true. While tracing: a TraceError. */
CFX_API bool cfx_is_true_at(cfx_where at, cfx_value v);
#define cfx_is_true(v) cfx_is_true_at(CFX_HERE, CFX_V(v))
/* Calls a method by name: cfx_method(x, "clamp", CFX_KW(min, 0)). */
CFX_API cfx_value cfx_method_at(cfx_where at, const char *name, cfx_args args);
#define cfx_method(self, name, ...)                                                                \
    cfx_method_at(CFX_HERE, name, CFX_ARGS(self __VA_OPT__(, ) __VA_ARGS__))

/* A function of the caller's that becomes one call_function node named `name` when an argument is
 * traced, and runs otherwise. */
typedef cfx_value cfx_opaque_fn(cfx_args args);
CFX_API cfx_value cfx_wrap_call(cfx_where at, const char *name, cfx_opaque_fn *fn, cfx_args args);
#define cfx_wrap(name, fn, ...) cfx_wrap_call(CFX_HERE, name, fn, CFX_ARGS(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
