/* Running: a graph becomes numbers again.
 *
 * An interpreter is a struct with some function slots filled; an empty slot is inherited, and
 * "super" is the plain function of the same name. */
#ifndef CFX_RUN_H
#define CFX_RUN_H

#include <cfx/program.h>
#include <cfx/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A GraphModule: a graph that is called like any module, with what it names of root (modules,
 * parameters, buffers; shared, not copied). type NULL: "GraphModule". Scope. It is never stale:
 * editing the graph is enough. Bad, with an error, where root lacks what the graph names; where
 * root is NULL it is added later (cfx_graph_module_add, cfx_module_set_attr). */
CFX_API cfx_module *cfx_graph_module(cfx_module *root, cfx_graph *g, const char *type);
/* cfx_tracer_trace with the defaults, as a GraphModule named after root; scope. Bad, with an error,
 * when it cannot be traced. */
CFX_API cfx_module *cfx_symbolic_trace(cfx_module *root);
/* Plans the graph now rather than at the next call. Never needed; cheap. */
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

/* Runs the graph on the arguments (keywords by placeholder name); scope. An error names the node:
 * "While executing %relu ...", its module path and source line. */
CFX_API cfx_value cfx_run_from(cfx_site at, cfx_interp *it, cfx_args args);
#define cfx_run(it, ...) cfx_run_from(CFX_HERE, it, CFX_ARGS(__VA_ARGS__))
/* The value of a node during a run, or of the last one with keep_values; borrowed. None when it has
 * none (yet, or any more). */
CFX_API cfx_value cfx_interp_value(cfx_interp *it, const cfx_node *n);
/* interpreter.boxed_run(list): the inputs are taken out of the list, one for each placeholder, so
 * that one which nobody else holds is freed after its last use. Scope. */
CFX_API cfx_value cfx_run_boxed_from(cfx_site at, cfx_interp *it, cfx_value inputs);
#define cfx_run_boxed(it, inputs) cfx_run_boxed_from(CFX_HERE, it, inputs)

/* What each slot does where it is empty. */
CFX_API cfx_value cfx_interp_run_node(cfx_interp *it, cfx_node *n);
CFX_API cfx_value cfx_interp_placeholder(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_get_attr(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_call_function(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_call_method(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_call_module(cfx_interp *it, cfx_target t, cfx_args a);
CFX_API cfx_value cfx_interp_output(cfx_interp *it, cfx_target t, cfx_args a);

/* Rebuilds the graph through the same slots, on traced values: what they return becomes the new
 * graph. Metadata is kept. A new GraphModule; scope. */
CFX_API cfx_module *cfx_transform(cfx_interp *it);

/* ---- executors ------------------------------------------------------------------------------- */

/* What was done in one go: by a kernel of a plan, or by the interpreter at a node. */
typedef struct cfx_ran {
    const char *kernel;           /* how it is called */
    int nnodes;
    const cfx_node *const *nodes; /* that it computes, in order: the last has the value */
    cfx_value value;
    double seconds;
} cfx_ran;

/* Who looks on while a graph runs. Nodes that are not wanted may never have a value of their own.
 */
typedef struct cfx_watcher {
    bool (*wants)(struct cfx_watcher *self, const cfx_node *n); /* NULL: every node */
    /* Is given each value wanted, in order; what it returns, unless None, takes its place. */
    cfx_value (*see)(struct cfx_watcher *self, cfx_node *n, cfx_value v);
    void *user;
    bool inside; /* nodes of sub-graphs too; cfx_run_path tells where they are */
    /* Is told of each kernel of a plan, or each call. With `see` NULL nothing else is looked at,
     * and a plan runs as it does alone. */
    void (*ran)(struct cfx_watcher *self, const cfx_ran *r);
} cfx_watcher;

/* Where the graph is that the calling thread runs: "" for the outermost, else the way to a
 * sub-graph, with the round of a loop: "cond.true_graph_0.",
 * "while_loop@2.while_loop_body_graph_0.". For hooks and watchers; borrowed, while they run. */
CFX_API const char *cfx_run_path(void);

/* One run of a graph, as an executor gets it. */
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

/* An executor: a way to run graphs. What it prepares is kept with the graph until that is edited,
 * and used by many threads at once. See docs/ADD_AN_EXECUTOR.md. */
typedef struct cfx_executor {
    const char *name;
    /* Makes ready what the run needs; e->graph is set. NULL: not a graph for this executor, or an
     * error: the interpreter runs it then. */
    void *(*prepare)(const cfx_execution *e);
    /* Whether a form made for other inputs is good for these; NULL: it always is. */
    bool (*fits)(const void *prepared, const cfx_execution *e);
    cfx_value (*run)(void *prepared, const cfx_execution *e); /* scope; errors name the node */
    void (*free)(void *prepared);
} cfx_executor;

/* The interpreter, the reference for all others. */
CFX_API extern const cfx_executor cfx_interpreter;
/* Lowers a graph once for the shapes of its inputs: convolutions and products with what follows
 * them, images channels last, weights packed, constants folded; all else as the dispatcher runs
 * it. Graphs that have calls of modules are the interpreter's. */
CFX_API extern const cfx_executor cfx_planner;
/* How it would run a program on such arguments: a line for each kernel with what it gives and how
 * many nodes became part of it; what all of it needs. Scope. NULL, with an error, where the
 * arguments do not fit; "" where the program is the interpreter's. */
CFX_API const char *cfx_program_plan_from(cfx_site at, cfx_program *p, cfx_args args);
#define cfx_program_plan(p, ...) cfx_program_plan_from(CFX_HERE, p, CFX_ARGS(__VA_ARGS__))
/* The same as far as one pass of lowering: all nodes, with what is known of them then. An unknown
 * pass is an error that names all. NULL for `pass`: the whole plan. */
CFX_API const char *cfx_program_plan_after_from(cfx_site at, cfx_program *p, const char *pass,
                                                cfx_args args);
#define cfx_program_plan_after(p, pass, ...)                                                       \
    cfx_program_plan_after_from(CFX_HERE, p, pass, CFX_ARGS(__VA_ARGS__))
/* Runs a graph by an executor (NULL: the one chosen for this thread); scope. The interpreter steps
 * in where single calls are looked at: modes, tracing, gradients, fake tensors. */
CFX_API cfx_value cfx_executor_run(const cfx_executor *x, const cfx_execution *e);
/* Chooses the executor of GraphModules and programs for this thread; NULL: the default. Returns the
 * one chosen before. */
CFX_API const cfx_executor *cfx_set_executor(const cfx_executor *x);

/* ---- programs -------------------------------------------------------------------------------- */

/* Runs a program as Python would call it: cfx_program_run(p, x, CFX_KW(mask, m)); or with all its
 * inputs by position, in flattened order, whatever they are called in Python. Inputs are
 * checked against the signature (number, tree, dtype, rank, sizes, ranges of symbols) and the
 * guards that it was exported with, and every operator that is not registered is named before
 * anything runs. Buffers and inputs that the
 * program writes to are written to; nothing is recorded for gradients. Gives the result in the
 * program's own tree; scope. Many threads may run one program at once. */
CFX_API cfx_value cfx_program_run_from(cfx_site at, cfx_program *p, cfx_args args);
#define cfx_program_run(p, ...) cfx_program_run_from(CFX_HERE, p, CFX_ARGS(__VA_ARGS__))
/* The same by an executor (NULL: the one chosen), with a watcher (NULL: none). */
CFX_API cfx_value cfx_program_run_with(cfx_site at, cfx_program *p, const cfx_executor *x,
                                       cfx_watcher *w, cfx_args args);
/* The same in steps, to run the graph by an interpreter or a tap of one's own: the values of all
 * placeholders, checked, as a tuple; and the result as the caller sees it, made of those inputs and
 * what the graph gave, with the writes done. Scope; bad, with an error, where they do not fit. */
CFX_API cfx_value cfx_program_inputs_from(cfx_site at, cfx_program *p, cfx_args args);
#define cfx_program_inputs(p, ...) cfx_program_inputs_from(CFX_HERE, p, CFX_ARGS(__VA_ARGS__))
CFX_API cfx_value cfx_program_outputs(cfx_program *p, cfx_value inputs, cfx_value outputs);
/* program.module(): a GraphModule with parameters and buffers under their own names, shared with
 * the program, and called like the model it came from: the trees of its arguments and result belong
 * to its graph, and go along into what tools make of that. It is differentiated and edited as any
 * other. Its inputs are checked as those of the program are, by its placeholders and the ranges in
 * its attribute "range_constraints", until its attribute "validate_inputs" is set to false; what
 * tools make of it takes anything. Scope. Bad, with an error, where p is NULL. */
CFX_API cfx_module *cfx_program_module(cfx_program *p);

/* A copy whose graphs may be edited; tensors are shared. Scope. Bad, with an error, where the
 * signature of p does not fit its graph. */
CFX_API cfx_program *cfx_program_copy(const cfx_program *p);
/* Finds out what the nodes compute that were made or changed since it was noted (cfx_node_result),
 * and those that depend on them, by the shape rules of their operators; nothing is computed, sizes
 * that are symbols stay so. cfx_save does it first. False, with an error that names the node, where
 * it cannot be told. */
CFX_API bool cfx_program_infer(const cfx_program *p);
/* The same where what is noted may be wrong, as in a text that was edited: what is noted of inputs
 * holds, and what does not follow from it is found again. */
CFX_API bool cfx_program_settle(const cfx_program *p);

/* ---- taps ------------------------------------------------------------------------------------ */

/* Runs and collects the values of chosen nodes: a dict of name to value; scope. A selector is a
 * node name, a glob over names, "op:relu", "module:layers.0" or "source:model.py:12" (see
 * cfx/select.h). Nodes of sub-graphs are picked too; they are called by
 * cfx_run_path and their name, and a selector may leave out the rounds of loops:
 * "while_loop.while_loop_body_graph_0.mul" is that node in each round. */
CFX_API cfx_dict *cfx_tap_from(cfx_site at, cfx_module *gm, const char *selector, cfx_args args);
/* Whether a selector picks a node, for watchers of one's own: in a run where the graph is counts
 * (cfx_run_path). */
CFX_API bool cfx_node_selected(const cfx_node *n, const char *selector);
#define cfx_tap(gm, selector, ...) cfx_tap_from(CFX_HERE, gm, selector, CFX_ARGS(__VA_ARGS__))

/* Runs once and writes down what each node's result is: "val" (fake tensors) and "tensor_meta" in
 * the metadata. On fake inputs nothing is computed. The result of the run; scope. */
CFX_API cfx_value cfx_shape_prop_from(cfx_site at, cfx_module *gm, cfx_args args);
#define cfx_shape_prop(gm, ...) cfx_shape_prop_from(CFX_HERE, gm, CFX_ARGS(__VA_ARGS__))
/* "TensorMetadata(shape=torch.Size([2, 4]), dtype=torch.float32, ...)" of such a "tensor_meta";
 * scope. */
CFX_API const char *cfx_tensor_meta_str(cfx_value meta);

/* Calls fn with each value of chosen nodes whenever the GraphModule runs: e->node and e->out; what
 * it returns, unless None, takes the value's place. Selectors as for taps. The handle is taken off
 * with cfx_hook_remove; NULL, with an error, where no node fits. */
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
