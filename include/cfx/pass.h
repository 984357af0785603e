/* Passes over programs: torch.fx's PassManager, PassBase and PassResult.
 *
 * A pass is a struct: a name, a summary, its requirements, its promise, and a function that
 * edits a program and returns the number of changes. A pipeline is a table of passes, which a
 * manager runs. docs/ADD_A_PASS.md shows one. */
#ifndef CFX_PASS_H
#define CFX_PASS_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a pass preserves. */
typedef enum cfx_pass_promise {
    CFX_PASS_EXACT,    /* the same numbers */
    CFX_PASS_ROUNDED,  /* the same but for rounding */
    CFX_PASS_LOWERED,  /* computed in a lower precision */
    CFX_PASS_NARROWED  /* fewer inputs, sizes or results are taken or given */
} cfx_pass_promise;

typedef struct cfx_pass {
    const char *name;    /* "fold_batch_norm" */
    const char *summary; /* one sentence */
    const char *after;   /* names of passes, blanks between, that come before it where a pipeline
                            has them; NULL: none */
    const char *options; /* "limit=16777216 keep=": what it can be told, with what it takes
                            otherwise; "*": anything; NULL: nothing */
    cfx_pass_promise promise;
    bool repeat;         /* until it changes nothing */
    /* Edits the program; `options` maps texts to texts and contains every option. Returns the
     * number of changes. On failure it records an error (cfx_fail), and the program is restored. */
    int (*run)(cfx_program *p, const cfx_dict *options);
} cfx_pass;

/* One line of a pipeline. */
typedef struct cfx_pass_step {
    const cfx_pass *pass;
    cfx_dict *options; /* NULL: those that the pass takes otherwise */
} cfx_pass_step;

/* What one application of a pass did. */
typedef struct cfx_pass_report {
    const cfx_pass *pass;
    int application; /* its number, from 1 on */
    int changes;
    int64_t nodes_before, nodes_after; /* of all graphs of the program */
    double seconds;
} cfx_pass_report;

typedef struct cfx_pass_manager {
    const cfx_pass_step *steps;
    int nsteps;    /* 0: the default pipeline */
    int rounds;    /* the pipeline again until nothing changes, so often at most; 0: once */
    bool in_place; /* the program given is edited; else a copy of it */
    bool consume;  /* the same, and where a pass fails the program is left half edited, for the
                      caller to drop: no copy is kept to put back, which takes half of the memory */
    bool check;    /* cfx_program_check after each application; done for passes of one's own and in
                      debug builds anyway */
    int stop;      /* after so many applications; 0: when all are done */
    void (*report)(const cfx_pass_report *r, void *user); /* after each application; NULL: none */
    /* A check by the caller after each application, like PassManager.add_checks. False, with or
     * without an error, ends the run like a failing pass. NULL: none. */
    bool (*accept)(cfx_program *p, const cfx_pass_report *r, void *user);
    void *user;
} cfx_pass_manager;

typedef struct cfx_pass_result {
    cfx_program *program; /* scope; the one given where that is edited; bad where it failed */
    bool modified;
    int changes;
    int applications; /* how many there were */
} cfx_pass_result;

/* Runs a pipeline. New nodes record their origin: "from_node", a dict of "pass", "nodes", the
 * names of the replaced nodes, and "from", a dict of the same for those of them that a pass had
 * made. If a pass fails, or leaves an inconsistent program, the error names the pass and the
 * node, and the program given is unchanged (unless consumed). */
CFX_API cfx_pass_result cfx_passes_run(const cfx_pass_manager *m, cfx_program *p);
/* Applies one pass in place. Returns its changes; -1, with an error, on failure. */
CFX_API int cfx_pass_apply(const cfx_pass *pass, cfx_program *p, cfx_dict *options);
/* Runs the default pipeline on a copy; scope. Bad with an error. */
CFX_API cfx_program *cfx_optimize(cfx_program *p);

/* torch.fx's fuse(): a traced copy of a module with batch norms in evaluation mode folded into
 * the preceding convolutions and linear layers. A GraphModule; scope. Bad, with an error, where
 * it cannot be traced. */
CFX_API cfx_module *cfx_fuse_conv_bn(const cfx_module *m);

/* torch.fx's split_const_subgraphs with skip_folding_node_fn, in place: folds calls that depend
 * only on attributes of the GraphModule; the graph then reads the result as a buffer
 * folded_NAME, with its metadata. Calls with side effects or random numbers are kept, and those
 * for which `skip` is true (NULL: none). Modules without remaining calls stay;
 * cfx_graph_module_prune removes them. Returns the number of folded results; -1 with an error. */
CFX_API int cfx_fold_constants(cfx_module *gm, bool (*skip)(const cfx_node *n, void *user),
                               void *user);

/* torch.fx's NormalizeArgs, NormalizeOperators and conversion of methods, in place: torch.add(x,
 * y), x + y and x.add(y) become torch.ops.aten.add.Tensor(x, y), with arguments by position and
 * without defaults. Kept are x + y on values not known to be tensors (see cfx_shape_prop), and
 * functions that ATen does not have. Returns the number of changed nodes; -1, with an error,
 * where gm has no graph. */
CFX_API int cfx_module_normalize(cfx_module *gm);
/* torch.fx's Node.normalized_arguments: the arguments of a call bound to the signature of its
 * target, with defaults: (args, kwargs), as given by position and the others by name, or all by
 * name; scope. Modules are looked up in `root`. None where the target has no signature, or the
 * arguments do not match it. */
CFX_API cfx_value cfx_node_normalized_arguments(const cfx_node *n, const cfx_module *root,
                                                bool only_keywords);

/* The passes: number i, NULL past the last; and by name, NULL if unknown. */
CFX_API const cfx_pass *cfx_pass_number(int i);
CFX_API const cfx_pass *cfx_pass_find(const char *name);
/* The default pipeline. */
CFX_API const cfx_pass_step *cfx_pass_default(int *nsteps);

#ifdef __cplusplus
}
#endif
#endif
