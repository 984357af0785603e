/* Running graphs and programs.
 *
 * An interpreter is a struct of functions; a NULL function means the default, and cfx_interp_...
 * of the same name is its `super()`. */
#ifndef CFX_RUN_H
#define CFX_RUN_H

#include <cfx/program.h>
#include <cfx/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A GraphModule: a graph that can be called like any module, with the modules, parameters and
 * buffers of root that the graph names (shared, not copied). type NULL: "GraphModule". Scope.
 * Edits of the graph take effect without recompilation. Bad, with an error, where root lacks
 * something that the graph names; with root NULL, add it later (cfx_graph_module_add,
 * cfx_module_set_attr). */
CFX_API cfx_module *cfx_graph_module(cfx_module *root, cfx_graph *g, const char *type);
/* cfx_tracer_trace with the defaults, as a GraphModule named after root; scope. Bad, with an error,
 * when it cannot be traced. */
CFX_API cfx_module *cfx_symbolic_trace(cfx_module *root);
/* Prepares the graph now instead of at the next call. Never necessary; cheap. */
CFX_API bool cfx_graph_module_recompile(cfx_module *gm);
/* Adds a module at a dotted path, whose parents are made where missing; keeps it. False, with an
 * error, when something that is no module is in the way. */
CFX_API bool cfx_graph_module_add(cfx_module *gm, const char *path, cfx_module *m);
/* Removes the module at a dotted path; whether there was one. */
CFX_API bool cfx_graph_module_remove(cfx_module *gm, const char *path);
/* Removes children that no node calls or reads from. Returns how many. */
CFX_API int cfx_graph_module_prune(cfx_module *gm);

typedef struct cfx_interp {
    cfx_module *module; /* the GraphModule to run */
    cfx_graph *graph;   /* another graph over the same module; NULL: the module's own */
    cfx_value (*run_node)(struct cfx_interp *it, cfx_node *n);
    cfx_value (*placeholder)(struct cfx_interp *it, cfx_target t, cfx_args a);
    cfx_value (*get_attr)(struct cfx_interp *it, cfx_target t, cfx_args a);
    cfx_value (*call_function)(struct cfx_interp *it, cfx_target t, cfx_args a);
    cfx_value (*call_method)(struct cfx_interp *it, cfx_target t, cfx_args a);
    cfx_value (*call_module)(struct cfx_interp *it, cfx_target t, cfx_args a);
    cfx_value (*output)(struct cfx_interp *it, cfx_target t, cfx_args a);
    cfx_dict *given;    /* values for some nodes, by name: they are not run. NULL: none */
    bool keep_values;   /* values are not freed after their last use; the graph keeps them until
                           its next run that does so: cfx_interp_value */
    void *user;
    cfx_node *node;     /* the node being run */
    struct cfx__run *own_;
} cfx_interp;

/* Runs the graph on the arguments (keywords are placeholder names); scope. An error names the
 * node: "While executing %relu ...", its module path and source line. */
CFX_API cfx_value cfx_run_from(cfx_site at, cfx_interp *it, cfx_args args);
#define cfx_run(it, ...) cfx_run_from(CFX_HERE, it, CFX_ARGS(__VA_ARGS__))
/* The value of a node during a run, or after one with keep_values; borrowed. None if it has none
 * (yet, or any more). */
CFX_API cfx_value cfx_interp_value(cfx_interp *it, const cfx_node *n);
/* interpreter.boxed_run(list): takes the inputs out of the list, one for each placeholder, so
 * that an input with no other reference is freed after its last use. Scope. */
CFX_API cfx_value cfx_run_boxed_from(cfx_site at, cfx_interp *it, cfx_value inputs);
#define cfx_run_boxed(it, inputs) cfx_run_boxed_from(CFX_HERE, it, inputs)

/* The defaults of the functions of cfx_interp. */
CFX_API cfx_value cfx_interp_run_node(cfx_interp *it, cfx_node *n);
CFX_API cfx_value cfx_interp_placeholder(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_get_attr(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_call_function(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_call_method(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_call_module(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_output(cfx_interp *it, cfx_target t, cfx_args a);

/* Rebuilds the graph by the same functions on traced values: their results form the new graph.
 * Metadata is kept. A new GraphModule; scope. */
CFX_API cfx_module *cfx_transform(cfx_interp *it);

/* ---- executors ------------------------------------------------------------------------------- */

/* A unit of execution: a kernel of a plan, or a node of the interpreter. */
typedef struct cfx_ran {
    const char *kernel;           /* how it is called */
    int nnodes;
    const cfx_node *const *nodes; /* that it computes, in order: the last has the value */
    cfx_value value;
    double seconds;
} cfx_ran;

/* An observer of a run. Nodes that it does not ask for may never have a value of their own. */
typedef struct cfx_watcher {
    bool (*wants)(struct cfx_watcher *self, const cfx_node *n); /* NULL: every node */
    /* Receives each requested value, in order; its return value, unless None, replaces the
     * value. */
    cfx_value (*see)(struct cfx_watcher *self, cfx_node *n, cfx_value v);
    void *user;
    bool inside; /* nodes of sub-graphs too; cfx_run_path tells where they are */
    /* Receives each kernel of a plan, or each call. If `see` is NULL, a plan runs exactly as
     * without observer. */
    void (*ran)(struct cfx_watcher *self, const cfx_ran *r);
} cfx_watcher;

/* The path of the sub-graph that the calling thread runs: "" for the outermost graph, otherwise
 * with the iteration of loops: "cond.true_graph_0.", "while_loop@2.while_loop_body_graph_0.".
 * For hooks and watchers; borrowed, valid while they run. */
CFX_API const char *cfx_run_path(void);

/* One run of a graph: the argument of an executor. */
typedef struct cfx_execution {
    cfx_site at;
    cfx_module *module;   /* the GraphModule */
    cfx_graph *graph;     /* another graph over the same module; NULL: the module's own */
    cfx_args inputs;      /* what its placeholders take */
    const bool *constant; /* by input: a weight, the same tensor in every run. NULL: none is */
    cfx_watcher *watcher; /* NULL: nobody looks on */
    int nbecomes;         /* results that are told of: */
    const int *becomes;   /* the input that each is written to when the run is over, unless it is
                             that tensor already; -1: none */
} cfx_execution;

/* An executor runs graphs. The form that it prepares is stored with the graph until the graph is
 * edited, and many threads use it at once. See docs/ADD_AN_EXECUTOR.md. */
typedef struct cfx_executor {
    const char *name;
    /* Prepares the form for runs; e->graph is set. NULL, with or without an error: this executor
     * cannot run the graph, so the interpreter does. */
    void *(*prepare)(const cfx_execution *e);
    /* Whether a form made for other inputs can be used for these; NULL: always. */
    bool (*fits)(const void *prepared, const cfx_execution *e);
    cfx_value (*run)(void *prepared, const cfx_execution *e); /* scope; errors name the node */
    void (*free)(void *prepared);
} cfx_executor;

/* The interpreter, the reference for all others. */
CFX_API extern const cfx_executor cfx_interpreter;
/* Lowers a graph for the shapes of its inputs: convolutions and products with epilogues, images
 * channels last, packed weights, folded constants; other nodes by the dispatcher. Graphs with
 * module calls run in the interpreter. */
CFX_API extern const cfx_executor cfx_planner;
/* The plan of a program for such arguments, as text: a line for each kernel with its result and
 * the number of nodes fused into it, and the memory needed. Scope. NULL, with an error, where
 * the arguments do not match; "" where the interpreter runs the program. */
CFX_API const char *cfx_program_plan_from(cfx_site at, cfx_program *p, cfx_args args);
#define cfx_program_plan(p, ...) cfx_program_plan_from(CFX_HERE, p, CFX_ARGS(__VA_ARGS__))
/* The same after one pass of lowering: all nodes, with what is known of them. An unknown pass is
 * an error that lists all. NULL for `pass`: the whole plan. */
CFX_API const char *cfx_program_plan_after_from(cfx_site at, cfx_program *p, const char *pass,
                                                cfx_args args);
#define cfx_program_plan_after(p, pass, ...)                                                       \
    cfx_program_plan_after_from(CFX_HERE, p, pass, CFX_ARGS(__VA_ARGS__))
/* Runs a graph by an executor (NULL: that of this thread); scope. With modes, tracing, gradients
 * or fake tensors, the interpreter runs it instead. */
CFX_API cfx_value cfx_executor_run(const cfx_executor *x, const cfx_execution *e);
/* Sets the executor of GraphModules and programs for this thread; NULL: the default. Returns the
 * previous one. */
CFX_API const cfx_executor *cfx_set_executor(const cfx_executor *x);

/* ---- programs -------------------------------------------------------------------------------- */

/* Runs a program with the arguments of its Python call, cfx_program_run(p, x, CFX_KW(mask, m)),
 * or with all inputs by position in flattened order. Checks the inputs against the signature
 * (number, tree, dtype, rank, sizes, ranges of symbols) and the guards of the export, and
 * reports all unregistered operators, before anything runs. Writes to the buffers and inputs
 * that the program mutates; records no gradients. Returns the result in the program's tree;
 * scope. Many threads may run one program at once. */
CFX_API cfx_value cfx_program_run_from(cfx_site at, cfx_program *p, cfx_args args);
#define cfx_program_run(p, ...) cfx_program_run_from(CFX_HERE, p, CFX_ARGS(__VA_ARGS__))
/* The same with an executor (NULL: that of this thread) and a watcher (NULL: none). */
CFX_API cfx_value cfx_program_run_with(cfx_site at, cfx_program *p, const cfx_executor *x,
                                       cfx_watcher *w, cfx_args args);
/* The two halves of a run, for an interpreter or a tap of the caller: cfx_program_inputs returns
 * the checked values of all placeholders, a tuple; cfx_program_outputs makes the caller's result
 * of these inputs and the graph's results, and performs the mutations. Scope; bad, with an
 * error, where they do not match. */
CFX_API cfx_value cfx_program_inputs_from(cfx_site at, cfx_program *p, cfx_args args);
#define cfx_program_inputs(p, ...) cfx_program_inputs_from(CFX_HERE, p, CFX_ARGS(__VA_ARGS__))
CFX_API cfx_value cfx_program_outputs(cfx_program *p, cfx_value inputs, cfx_value outputs);
/* program.module(): a GraphModule with parameters and buffers under their own names, shared with
 * the program, and called like the original model: its graph has the trees of arguments and
 * result, which tools preserve. It can be differentiated and edited. It checks its inputs by its
 * placeholders and the ranges in its attribute "range_constraints", unless its attribute
 * "validate_inputs" is false; modules that tools make of it do not check. Scope. Bad, with an
 * error, where p is NULL. */
CFX_API cfx_module *cfx_program_module(cfx_program *p);

/* A copy whose graphs may be edited; tensors are shared. Scope. Bad, with an error, where the
 * signature of p does not match its graph. */
CFX_API cfx_program *cfx_program_copy(const cfx_program *p);
/* Infers the results (cfx_node_result) of nodes that were made or changed, and of those that
 * depend on them, by shape rules; nothing is computed, and symbolic sizes stay symbolic.
 * cfx_save does this first. False, with an error that names the node, where a result cannot be
 * inferred. */
CFX_API bool cfx_program_infer(const cfx_program *p);
/* The same where metadata may be wrong, as in an edited text: keeps the metadata of inputs and
 * infers everything that does not follow from it again. */
CFX_API bool cfx_program_settle(const cfx_program *p);

/* ---- taps ------------------------------------------------------------------------------------ */

/* Runs and collects the values of selected nodes: a dict of name to value; scope. A selector is
 * a node name, a glob over names, "op:relu", "module:layers.0" or "source:model.py:12" (see
 * cfx/select.h). Nodes of sub-graphs are included, named by cfx_run_path and their name; a
 * selector without the iteration of a loop, "while_loop.while_loop_body_graph_0.mul", matches
 * every iteration. */
CFX_API cfx_dict *cfx_tap_from(cfx_site at, cfx_module *gm, const char *selector, cfx_args args);
/* Whether a selector matches a node, for watchers; during a run it takes the path of the
 * sub-graph into account (cfx_run_path). */
CFX_API bool cfx_node_selected(const cfx_node *n, const char *selector);
#define cfx_tap(gm, selector, ...) cfx_tap_from(CFX_HERE, gm, selector, CFX_ARGS(__VA_ARGS__))

/* Runs once and records the result of each node: "val" (fake tensors) and "tensor_meta" in the
 * metadata. On fake inputs nothing is computed. Returns the result of the run; scope. */
CFX_API cfx_value cfx_shape_prop_from(cfx_site at, cfx_module *gm, cfx_args args);
#define cfx_shape_prop(gm, ...) cfx_shape_prop_from(CFX_HERE, gm, CFX_ARGS(__VA_ARGS__))
/* "TensorMetadata(shape=torch.Size([2, 4]), dtype=torch.float32, ...)" of such a "tensor_meta";
 * scope. */
CFX_API const char *cfx_tensor_meta_str(cfx_value meta);

/* Calls fn with each value of the selected nodes at every run of the GraphModule: e->node and
 * e->out; its return value, unless None, replaces the value. Remove the hook with
 * cfx_hook_remove; NULL, with an error, where no node matches. */
CFX_API cfx_hook_handle *cfx_node_hook_from(cfx_site at, cfx_module *gm, const char *selector,
                                            cfx_hook_fn *fn, void *user);
#define cfx_node_hook(gm, selector, fn, user) cfx_node_hook_from(CFX_HERE, gm, selector, fn, user)

/* Runs `times` times and prints a table of time per node, the costliest first. */
CFX_API void cfx_print_profile_from(cfx_site at, cfx_module *gm, int times, FILE *out,
                                    cfx_args args);
#define cfx_print_profile(gm, times, out, ...)                                                     \
    cfx_print_profile_from(CFX_HERE, gm, times, out, CFX_ARGS(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
