/* Tracing: makes a graph of running code.
 *
 * cfx_tracer_trace (and cfx_symbolic_trace of run.h) runs a module's forward once on tensors
 * that stand for nodes. Leaf modules (cfx's own layers, except containers) become call_module
 * nodes, others are traced through. There is no global state: two threads may trace at once. */
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
    cfx_dict *concrete_args; /* parameter name to the value it is fixed to; NULL: none. Leaves of
                                containers are placeholders of their own; an ellipsis is free,
                                and so is CFX_PH */
    bool check_mutable_operations; /* a call that writes to an operand is refused */
    bool proxy_buffer_attributes;  /* a buffer has one node however often it is read by name */
    void *user;
    cfx_module *root;        /* filled in while tracing */
    cfx_graph *graph;
    struct cfx__tracer *own_;
} cfx_tracer;

/* The graph of root; scope. Bad, with an error, where forward cannot be traced (control flow on
 * a traced value: torch.fx's message, with the C file and line). */
CFX_API cfx_graph *cfx_tracer_trace(cfx_tracer *t, cfx_module *root);
/* A free placeholder in concrete_args, as PHWithMeta is: its node has this metadata entry. */
#define CFX_PH(key, x) cfx_keyword_value(#key, CFX_V(x))
/* The default policy: layers of cfx's own are leaves, Sequential and the like are not. */
CFX_API bool cfx_tracer_is_leaf(cfx_tracer *t, cfx_module *m, const char *path);
/* Whether the calling thread is tracing. */
CFX_API bool cfx_is_tracing(void);

/* ---- nodes as operands ---------------------------------------------------------------------- */

/* A tensor that stands for a node, like torch.fx's Proxy(node); scope. Outside tracing, a call
 * with such a tensor, or with the node itself, as an argument computes nothing: it appends a
 * node to the graph, at the insert point (by default right behind its operands), and returns the
 * tensor that stands for the new node. So a pass can write
 *     cfx_node_replace(n, cfx_mul(x, cfx_sigmoid(x)));
 * In a graph of ATen overloads (an exported program's), the node calls the overload that takes
 * the arguments, elsewhere the Python function. A real tensor among the arguments becomes a
 * constant of the module that owns the graph. The bad tensor, with an error, where n is NULL or
 * bad. */
CFX_API cfx_tensor *cfx_proxy(cfx_node *n);
/* The node that a value stands for, or is; NULL for other values. */
CFX_API cfx_node *cfx_proxy_node_of(cfx_value v);
#define cfx_proxy_node(v) cfx_proxy_node_of(CFX_V(v))

/* ---- while tracing -------------------------------------------------------------------------- */

/* The size of dimension i: an int, or a traced value while tracing; every argument position
 * accepts either. During an export, C may read it by cfx_integer unless it depends on data;
 * compute with it by cfx_py("operator.mul", n, 2). */
CFX_API cfx_value cfx_size_from(cfx_site at, cfx_tensor *t, int i);
#define cfx_size(t, i) cfx_size_from(CFX_HERE, t, i)
/* Whether sizes may differ when the recording runs: during an export with dynamic shapes, or
 * after a call with a data-dependent result size. Code that computes with cfx_size should then
 * use cfx_py. */
CFX_API bool cfx_sizes_vary(void);
/* Whether a one-element tensor or a number is true. A TraceError while tracing. During an
 * export, for data-dependent values, PyTorch's "Could not guard on data-dependent expression",
 * unless a check determines the answer. */
CFX_API bool cfx_is_true_from(cfx_site at, cfx_value v);
#define cfx_is_true(v) cfx_is_true_from(CFX_HERE, CFX_V(v))
/* torch._check: whether cond, a bool or a comparison by cfx_py("operator.le", n, 8), holds;
 * otherwise a RuntimeError with the message (NULL: PyTorch's). During an export, a condition on
 * data-dependent numbers is assumed: it narrows the range of u0, answers later questions, and
 * the program asserts it when it runs. */
CFX_API bool cfx_check_from(cfx_site at, cfx_value cond, const char *message);
#define cfx_check(cond, message) cfx_check_from(CFX_HERE, CFX_V(cond), message)
/* len(v) of a list, tuple, dict, string or tensor; -1, with an error, while v is traced. */
CFX_API int64_t cfx_len_from(cfx_site at, cfx_value v);
#define cfx_len(v) cfx_len_from(CFX_HERE, CFX_V(v))
/* The items of Python's `for item in v`: of a list or tuple, the keys of a dict, the rows of a
 * tensor. A list; scope. A TraceError for a traced v, whose length is unknown; take a known
 * number of items by cfx_at. */
CFX_API cfx_value cfx_items_from(cfx_site at, cfx_value v);
#define cfx_items(v) cfx_items_from(CFX_HERE, CFX_V(v))
/* Calls a method by name: cfx_method(x, "clamp", CFX_KW(min, 0)). */
CFX_API cfx_value cfx_method_from(cfx_site at, const char *name, cfx_args args);
#define cfx_method(self, name, ...)                                                                \
    cfx_method_from(CFX_HERE, name, CFX_ARGS(self __VA_OPT__(, ) __VA_ARGS__))

/* ---- control flow ---------------------------------------------------------------------------- */

/* Control flow that tracing and cfx_export capture. A branch is a forward function: it takes
 * `self`, which may be NULL, and the operands, and returns a tensor or a tuple, list or dict of
 * tensors. On ordinary values, branches simply run. On traced values, and during an export, each
 * branch becomes a graph (true_graph_0, ...) and the call one node, torch.ops.higher_order.cond;
 * values captured from the surrounding forward become operands. During an export, branches must
 * not write to their operands or return them. The result belongs to the scope; the bad value,
 * with an error, when a branch fails or the results of the branches do not match. */

/* Runs one of two branches, selected by a bool or a one-element tensor. In an exported program,
 * sizes and integers that differ between the branches are new symbols: u0, u1, ... */
CFX_API cfx_value cfx_cond_from(cfx_site at, cfx_module *self, cfx_value pred, cfx_forward_fn *yes,
                                cfx_forward_fn *no, cfx_args operands);
#define cfx_cond(self, pred, yes, no, ...)                                                         \
    cfx_cond_from(CFX_HERE, self, CFX_V(pred), yes, no, CFX_ARGS(__VA_ARGS__))
/* While test(values) is true, values = body(values). Returns a tuple of as many values as were
 * given. During an export these are tensors and integers; an integer is symbolic: body computes
 * with it as with a size, and test compares it by cfx_py("operator.lt", i, n). A .pt2 cannot
 * express integers beside tensors, in PyTorch neither: save such a program as .fx. */
CFX_API cfx_value cfx_while_loop_from(cfx_site at, cfx_module *self, cfx_forward_fn *test,
                                      cfx_forward_fn *body, cfx_args values);
#define cfx_while_loop(self, test, body, ...)                                                      \
    cfx_while_loop_from(CFX_HERE, self, test, body, CFX_ARGS(__VA_ARGS__))
/* fn(row, rest...) for each row along the first dimension of xs (a tensor, or a tuple, list or dict
 * of them), the results stacked. args: xs, then the rest. */
CFX_API cfx_value cfx_map_from(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_args args);
#define cfx_map(self, fn, ...) cfx_map_from(CFX_HERE, self, fn, CFX_ARGS(__VA_ARGS__))
typedef struct cfx_scan_options {
    int64_t dim;  /* the dimension of xs that is gone over; negative from the end */
    bool reverse; /* from its end */
} cfx_scan_options;
/* (carry, y) = fn(carry, x) for each x along a dimension of xs, starting with init: a tuple of the
 * last carry and all y, stacked along the first dimension. init, xs and what fn returns are tensors
 * or tuples, lists or dicts of them; a carry keeps its shape and dtype.
 *     cfx_scan(self, step, cfx_zeros(4), xs, .dim = 1, .reverse = true) */
CFX_API cfx_value cfx_scan_from(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_value init,
                                cfx_value xs, cfx_scan_options options);
#define cfx_scan(self, fn, init, ...) CFX_SCAN_(self, fn, init, __VA_ARGS__, )
#define CFX_SCAN_(self, fn, init, xs, ...)                                                         \
    cfx_scan_from(CFX_HERE, self, fn, CFX_V(init), CFX_V(xs),                                      \
                  CFX_OPTIONS(cfx_scan_options, __VA_ARGS__))
/* y[k] = fn(y[k - 1], x[k]) along a dimension of xs, from y[0] = x[0] on, for an fn to which the
 * order of its calls does not matter: in the form of xs.
 *     cfx_associative_scan(self, add, xs, .dim = 1) */
CFX_API cfx_value cfx_associative_scan_from(cfx_site at, cfx_module *self, cfx_forward_fn *fn,
                                            cfx_value xs, cfx_scan_options options);
#define cfx_associative_scan(self, fn, ...) CFX_ASSOCIATIVE_SCAN_(self, fn, __VA_ARGS__, )
#define CFX_ASSOCIATIVE_SCAN_(self, fn, xs, ...)                                                   \
    cfx_associative_scan_from(CFX_HERE, self, fn, CFX_V(xs),                                       \
                              CFX_OPTIONS(cfx_scan_options, __VA_ARGS__))

/* ---- opaque functions ------------------------------------------------------------------------ */

/* A user-defined function that becomes one call_function node named `name` when an argument is
 * traced, and runs otherwise. */
CFX_API cfx_value cfx_wrap_from(cfx_site at, const char *name, cfx_opaque_fn *fn, cfx_args args);
#define cfx_wrap(name, fn, ...) cfx_wrap_from(CFX_HERE, name, fn, CFX_ARGS(__VA_ARGS__))
/* The same for a callable object with data (cfx_object_value); the node keeps it. */
CFX_API cfx_value cfx_wrap_object_from(cfx_site at, const char *name, cfx_value object,
                                       cfx_args args);
#define cfx_wrap_object(name, object, ...)                                                         \
    cfx_wrap_object_from(CFX_HERE, name, object, CFX_ARGS(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
