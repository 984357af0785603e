/* Whether a program works, told without running it.
 *
 *     cfx_problems *found = cfx_program_problems(p);
 *     for (int i = 0; i < found->n; i++)
 *         printf("%s: %s\n", found->items[i].node, found->items[i].text);
 *
 * cfx_save writes no program that has any. */
#ifndef CFX_CHECK_H
#define CFX_CHECK_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is wrong with one node, or with the program as a whole. */
typedef struct cfx_problem {
    cfx_error_kind kind;
    const char *text; /* the sentence, PyTorch's where it has one */
    const char *node; /* the node's name, below its sub-graph: "true_graph_0.relu"; NULL: none */
    int line;         /* of the text that the node was read from; 0: none */
} cfx_problem;

typedef struct cfx_problems {
    cfx_obj head;
    int n;
    cfx_problem *items; /* in the order of execution, those of the program as a whole last */
} cfx_problems;

/* All that is wrong with a program; scope. Looked at are:
 *  - structure: users mirror arguments in all graphs, nodes are in order, what they name is there;
 *  - the dialect (cfx_verifier): what PyTorch's verifier refuses;
 *  - calls: operators that nobody knows, arguments that no schema takes or that the operator
 *    refuses, results other than those noted of the node. Where sizes are symbols, at several
 *    sizes: what works at one only is wrong;
 *  - sub-graphs: they take what they are given and give what is noted of the call;
 *  - the signature: tensors are there and as declared, and what is written to inputs is like them.
 * What is noted of nothing is inferred first. Programs that have none are not looked at again until
 * they change. Bad, with an error, where p is NULL or bad. */
CFX_API cfx_problems *cfx_program_problems(const cfx_program *p);
/* One line for each, and for all nodes of which the same is said; those of a file begin with its
 * name and their line, "net.fx:7: node relu: ...", without one (NULL) the line comes last. Scope.
 */
CFX_API const char *cfx_problems_str(const cfx_problems *found, const char *file);
/* Whether there are none. Else the first is the error, and notes name the others. */
CFX_API bool cfx_program_check(const cfx_program *p);

/* A dialect: what operators a program may call. PyTorch's subclasses of Verifier; those of a
 * program are named in its extra "verifiers". */
typedef struct cfx_verifier {
    const char *dialect;
    bool writes; /* operators may write to their arguments */
    /* Whether the operator that n calls is one of the dialect; NULL: all are. False with an error
     * of its own, or without one. */
    bool (*valid)(const struct cfx_verifier *v, const cfx_node *n);
} cfx_verifier;

/* "ATEN", whose operators write nothing, as of what was decomposed; "TRAINING", as exported; and
 * "CORE", Core ATen's operators alone. NULL: there is no such dialect. Static. */
CFX_API const cfx_verifier *cfx_verifier_find(const char *dialect);
/* What a dialect refuses of a program, and what its signature lacks: SpecViolationErrors, and none
 * where PyTorch's verifier is content. Calls are not looked into. Scope; bad, with an error, where
 * p or v is NULL. */
CFX_API cfx_problems *cfx_program_verify(const cfx_program *p, const cfx_verifier *v);

#ifdef __cplusplus
}
#endif
#endif
