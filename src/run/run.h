/* run: where a graph becomes numbers again.
 *
 * Invariant: what an executor prepares is made once for a version of a graph and never changed
 * afterwards, so that many threads may run it at once; what changes while running is the run's. */
#ifndef CFX__RUN_H
#define CFX__RUN_H

#include <cfx/run.h>

#include "../trace/control.h"

/* One node, ready to run. In its arguments a node stands with its slot in value.spare. */
typedef struct cfx__run_step {
    cfx_node *node;
    cfx_value args;          /* a tuple */
    cfx_value kwargs;        /* a dict, or None where it is empty */
    bool input;              /* a placeholder that takes one value */
    bool item;               /* a node's result at a constant place: args is (node, int) */
    cfx_op *op;              /* the overload whose arguments could be bound already; NULL: none */
    int nbound;
    cfx_value *bound;        /* one for each argument of op's schema */
    bool *nested;            /* bound[i] is a container with nodes inside */
    int nfrees;
    int *frees;              /* slots whose last use this is */
} cfx__run_step;

/* What the interpreter prepares. */
typedef struct cfx__steps {
    cfx_obj head;
    int nsteps;
    cfx__run_step *steps;        /* slot k is the result of step k */
    int nplaceholders;
    cfx__arena arena;
    cfx_list *kept;          /* holds the containers that the steps refer to */
} cfx__steps;

/* What the interpreter's slots do where they are empty: its own, or the transformer's. */
typedef cfx_value cfx__handler(cfx_interp *it, cfx_target t, cfx_args a);
typedef struct cfx__slots {
    cfx__handler *placeholder, *get_attr, *call_function, *call_method, *call_module, *output;
    void (*enter)(cfx_interp *it, cfx_node *n); /* called before each node; may be NULL */
} cfx__slots;
extern const cfx__slots cfx__interp_slots;

/* A run: the values of the nodes computed so far, each counted. */
typedef struct cfx__run {
    const cfx__steps *steps;
    cfx_value *values;       /* by slot */
    bool *have;
    cfx_args inputs;
    cfx_value *boxed;        /* not NULL: the inputs, with counts to be let go when taken */
    int unboxed;             /* how many of them were */
    int next;                /* the next positional input */
    int now;                 /* the step that is being run */
    const cfx__slots *slots;
    void *user;              /* the slots' */
} cfx__run;

/* Runs the interpreter's graph, empty slots being those given. Scope. */
cfx_value cfx__run_graph(cfx_interp *it, cfx_args a, const cfx__slots *slots, void *user);
/* The caller's arguments as the placeholders of g take them: keywords apart, leaves instead of
 * trees (put into flat). False, with an error unless an argument is bad, where they do not fit. */
bool cfx__run_inputs(cfx_site at, const cfx_graph *g, cfx_args *a, cfx_list *flat);
/* The leaves of arguments for a spec of (args, kwargs), added to flat: given as they were then, by
 * the names of the parameters (None: not known), or leaf by leaf. False with PyTorch's words. */
bool cfx__tree_inputs(cfx_site at, cfx_value spec, cfx_value names, cfx_args a, cfx_list *flat);
/* The result of a run as callers see it. */
cfx_value cfx__run_result(const cfx_graph *g, cfx_value v);
/* A graph as steps; the caller owns a count. NULL, with an error, where an argument does not. */
cfx__steps *cfx__steps_make(cfx_graph *g);
/* The same, made anew only when the graph has changed. */
cfx__steps *cfx__steps_of(cfx_graph *g);
/* The slot of a node in the steps of its graph, or -1. */
int cfx__steps_slot(const cfx__steps *p, const cfx_node *n);
/* A template with its slots filled in; scope. */
cfx_value cfx__run_fill(const cfx__run *r, cfx_value v);
/* A step without detours: op, the step's own or one in its place, is called with what the step has
 * bound, slots filled in; and a step of a higher-order operator. Of r only the values are read.
 * Scope. */
cfx_value cfx__run_step_call(const cfx__run *r, cfx_site at, cfx_op *op, const cfx__run_step *s);
cfx_value cfx__run_step_higher(const cfx__run *r, const cfx__run_step *s, cfx_watcher *w);
/* What tensors of v, a result in each world, are known to hold, as the metadata "contents" has it;
 * None: that is not known. Scope. And back: notes it of the tensors of v, in world k. */
struct cfx__exprs;
struct cfx__worlds;
cfx_value cfx__contents_of(struct cfx__exprs *x, const cfx_value *v);
void cfx__contents_know(const struct cfx__worlds *w, int k, cfx_value contents, cfx_value v);

/* What runs the higher-order operator called so (torch.ops.higher_order.cond); NULL: none does. Its
 * arguments hold sub-graphs as modules. */
typedef cfx_value cfx__higher_fn(cfx_site at, cfx_args a);
cfx__higher_fn *cfx__higher_find(const char *name);
/* Calls the graph of a region (wrap_with_set_grad_enabled, wrap_with_autocast) in its mode, by
 * b->call; the rest of b is filled in. */
cfx_value cfx__higher_region(cfx_site at, const char *name, cfx_args a, cfx__body *b);
/* A cond (yes, no) whose way is known, or an onnx_sequence_map (yes alone), by yes->call and
 * no->call, which give tuples; the rest of them is filled in. */
cfx_value cfx__higher_settled(cfx_site at, const char *name, cfx_args a, cfx__body *yes,
                              cfx__body *no);
/* Those that take no sub-graph: torch.ops.higher_order.print (print.c), and operators that write
 * to copies (auto_functional.c). */
cfx_value cfx__higher_print(cfx_site at, cfx_args a);
cfx_value cfx__higher_auto_functionalized(cfx_site at, cfx_args a);
cfx_value cfx__higher_auto_functionalized_v2(cfx_site at, cfx_args a);

/* ---- where a run is (inside.c) --------------------------------------------------------------- */

/* What a thread's runs know of each other. */
typedef struct cfx__run_state {
    const cfx_executor *executor; /* the one chosen; NULL: the planner */
    const cfx_node *node;         /* the call whose sub-graphs are being run; NULL: there is none */
    const char *path;             /* of the graph that is being run; NULL: the outermost */
    cfx_watcher *watcher;         /* looks into the sub-graphs of `node`; NULL: nobody does */
    const cfx_module *entered;    /* the sub-graph that is about to run */
    struct cfx__inference *inference; /* whose shape rules run; NULL: none's */
} cfx__run_state;
cfx__run_state *cfx__run_state_now(void);
/* Runs a higher-order operator, the call n. A watcher that wants to is led into its sub-graphs;
 * NULL: the one that looks on already. */
cfx_value cfx__run_higher(cfx__higher_fn *fn, const cfx_node *n, cfx_args a, cfx_watcher *w);
/* Calls a sub-graph, argument number i of the call that is being run, in a round of a loop (-1: no
 * loop). */
cfx_value cfx__run_subgraph(cfx_site at, cfx_module *m, int i, int64_t round, cfx_args a);
/* Who looks into gm, which is being called; NULL: nobody. */
cfx_watcher *cfx__run_watcher(const cfx_module *gm);
/* Whether a selector picks a node in the graph at `path`: by the node's own name, or by the whole
 * name, rounds of loops in it or left out. */
bool cfx__run_picks(const char *selector, const char *path, const cfx_node *n);
/* Whether it picks any node of a graph, or of the graphs below it, in whatever round. */
bool cfx__run_picks_any(const char *selector, const cfx_module *gm);

/* ---- executors ------------------------------------------------------------------------------- */

/* A form of a graph that an executor prepared. Counted; kept in a list with the graph. */
typedef struct cfx__prepared {
    cfx_obj head;
    const cfx_executor *by;
    uint64_t version; /* of the graph */
    void *form;       /* NULL: the executor does not run this graph */
    struct cfx__prepared *next;
} cfx__prepared;

/* The form for a run, prepared where there is none yet; the caller owns a count. */
cfx__prepared *cfx__prepared_for(const cfx_executor *x, const cfx_execution *e);
/* Calls a GraphModule through the chosen executor, with its tree if it has one. Scope. */
cfx_value cfx__run_module(cfx_site at, cfx_module *gm, cfx_args a, cfx_watcher *w);

/* The same with the hooks on its nodes: the forward of GraphModules. */
cfx_value cfx__run_hooked(cfx_module *gm, cfx_args a);

/* The region that the arguments of wrap_with_autocast describe. */
cfx_autocast_options cfx__autocast_of(cfx_site at, cfx_args a);

/* ---- programs -------------------------------------------------------------------------------- */

/* What the inputs of a program stand for, found once for what it holds. Counted. */
typedef struct cfx__bound {
    cfx_obj head;
    uint64_t version;          /* of the graph */
    uint64_t state, constants; /* changes of those dicts when this was made */
    int ninputs, noutputs;
    cfx_tensor **tensors; /* by input, counted; NULL: the caller's, or there is none */
    bool *constant;       /* by input: a weight that the program does not write to */
    int *becomes;         /* by output: the input that it is written to; -1: none */
} cfx__bound;
/* What is told of a run on the values of all inputs; it lives as long as b and those. */
cfx_execution cfx__program_execution(cfx_site at, const cfx_program *p, const cfx__bound *b,
                                     cfx_value inputs);
/* Runs a program's graph on the values of all its inputs; scope. */
cfx_value cfx__program_execute(cfx_site at, cfx_program *p, const cfx_executor *x, cfx_watcher *w,
                               cfx_value inputs);
/* cfx_program_run_with, where `replace` (or NULL) may put other values in the tuple of all inputs
 * before the graph runs. */
typedef void cfx__inputs_fn(void *user, cfx_value inputs);
cfx_value cfx__program_run(cfx_site at, cfx_program *p, const cfx_executor *x, cfx_watcher *w,
                           cfx_args a, cfx__inputs_fn *replace, void *user);
/* The input that an output is to be written to; -1 where it is none. */
int cfx__program_written(const cfx_program *p, const cfx_output_spec *o);
/* Whether the parameter that an input stands for wants gradients. */
bool cfx__program_learns(const cfx_program *p, const cfx_input_spec *s);
/* A module that checks its inputs before its graph runs, without a graph; scope. And what it needs
 * for that, once it has one: the trees of a program, its ranges, what its constant inputs are. */
cfx_module *cfx__program_shell(const char *type);
void cfx__program_dress(cfx_module *m, const cfx_program *p);
/* Made anew when the program's tensors or signature have changed; the caller owns a count. */
cfx__bound *cfx__program_weights(cfx_program *p);

/* Whether the caller's flat inputs are as the placeholders say; an error where not. */
bool cfx__program_check(cfx_site at, const cfx_program *p, const cfx_list *flat);
/* The same for a graph all of whose placeholders are the caller's. guards: a list of texts. */
bool cfx__inputs_check(cfx_site at, const cfx_graph *g, const cfx_dict *ranges, cfx_value guards,
                       cfx_args flat);
/* Whether every operator can run; an error that lists all that cannot. */
bool cfx__program_supported(cfx_site at, cfx_program *p);
/* Whether every call fits its operator's schema, in sub-graphs too: what running finds out first.
 * An error names the node. */
bool cfx__program_binds(const cfx_program *p);
/* cfx_program_infer as far as it goes: nodes whose operators refuse their inputs stay as they are.
 */
void cfx__program_infer_most(const cfx_program *p);
/* Less than cfx_program_check, which looks at the dialect too: structure and signature; and those
 * with what nodes compute. */
bool cfx__program_check_graphs(const cfx_program *p);
bool cfx__program_check_results(const cfx_program *p);
/* What is noted of what the graphs of a higher-order call are given, one for each placeholder, and
 * of what the call then gives; scope. NULL and None where that is not known of the operator. */
cfx_list *cfx__higher_takes(const cfx_node *n);
cfx_value cfx__higher_gives(const cfx_module *m, const cfx_node *n);
/* Whether what a node calls is known here. */
bool cfx__run_known(const cfx_node *n);
/* The overload that a call_function names by a text that was unknown when the node was made. */
cfx_op *cfx__run_late_op(const cfx_node *n);

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Adds "While executing ..." with module path and source line to the recorded error. */
void cfx__run_note(const cfx_node *n);
/* Whether a selector (see cfx_tap) picks a node. */
bool cfx__run_selects(const char *selector, const cfx_node *n);

#endif
