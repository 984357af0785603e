/* Passes: a program becomes a better one, step by step.
 *
 * A pass is a struct: a name, one sentence, what it needs, what it promises, and a function that
 * edits a program and says how many changes it made. A pipeline is a table of passes; a manager
 * runs it: torch.fx's PassManager, PassBase and PassResult. docs/ADD_A_PASS.md shows one. */
#ifndef CFX_PASS_H
#define CFX_PASS_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What stays when a pass has run. */
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
    /* Edits the program; options as a dict of text to text, all of them given. How many changes; an
     * error is recorded where it fails (cfx_fail), and the program is then as it was before. */
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
    /* The caller's own check, after each application: PassManager.add_checks. False, with an error
     * or without, ends the run as a pass that fails does. NULL: none. */
    bool (*accept)(cfx_program *p, const cfx_pass_report *r, void *user);
    void *user;
} cfx_pass_manager;

typedef struct cfx_pass_result {
    cfx_program *program; /* scope; the one given where that is edited; bad where it failed */
    bool modified;
    int changes;
    int applications; /* how many there were */
} cfx_pass_result;

/* Runs a pipeline. New nodes know where they come from: "from_node", a dict of "pass" and "nodes",
 * the names of those they took the place of; and "from", where some of these were made by a pass
 * themselves: a dict of their names to such dicts. When a pass fails, or leaves a program that does
 * not hold together, there is an error that names the pass and the node, and the program given is
 * as it was before (unless it was to be consumed). */
CFX_API cfx_pass_result cfx_passes_run(const cfx_pass_manager *m, cfx_program *p);
/* One pass, in place. Its changes; -1, with an error, where it fails. */
CFX_API int cfx_pass_apply(const cfx_pass *pass, cfx_program *p, cfx_dict *options);
/* The default pipeline on a copy; scope. Bad with an error. */
CFX_API cfx_program *cfx_optimize(cfx_program *p);

/* A copy of a module, traced, in which batch norms that do not learn are part of the weights of the
 * convolutions and linear layers before them: torch.fx's fuse(). A GraphModule; scope. Bad, with
 * an error, where it cannot be traced. */
CFX_API cfx_module *cfx_fuse_conv_bn(const cfx_module *m);

/* What depends on attributes of a GraphModule alone is computed now, in place: the graph reads the
 * result as a buffer, folded_NAME, and has its metadata. Calls that have effects or draw numbers
 * are left, and those that `skip` is true for (NULL: none): torch.fx's split_const_subgraphs with
 * skip_folding_node_fn. Modules that nothing calls any more stay; cfx_graph_module_prune removes
 * them. How many results were folded; -1 with an error. */
CFX_API int cfx_fold_constants(cfx_module *gm, bool (*skip)(const cfx_node *n, void *user),
                               void *user);

/* One spelling for each call of a GraphModule, in place: torch.fx's NormalizeArgs,
 * NormalizeOperators and methods as functions. torch.add(x, y), x + y and x.add(y) become
 * torch.ops.aten.add.Tensor(x, y), arguments by position, defaults left out; x + y of which it is
 * not known that it is a tensor stays as it is (see cfx_shape_prop), and what ATen does not have.
 * How many nodes changed; -1 with an error where gm has no graph. */
CFX_API int cfx_module_normalize(cfx_module *gm);
/* The arguments of a call matched to the signature of what it calls, defaults filled in, as
 * torch.fx's Node.normalized_arguments does it: (args, kwargs), those given by position first and
 * all others by name, or all by name; scope. Modules are those of `root`. None where the call has
 * no such signature, or its arguments do not fit one. */
CFX_API cfx_value cfx_node_normalized_arguments(const cfx_node *n, const cfx_module *root,
                                                bool only_keywords);

/* The passes there are: number i, NULL past the last; and by name, NULL where there is none. */
CFX_API const cfx_pass *cfx_pass_number(int i);
CFX_API const cfx_pass *cfx_pass_find(const char *name);
/* The default pipeline. */
CFX_API const cfx_pass_step *cfx_pass_default(int *nsteps);

#ifdef __cplusplus
}
#endif
#endif
