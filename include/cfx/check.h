/* Verifies a program without running it.
 *
 *     cfx_problems *found = cfx_program_problems(p);
 *     for (int i = 0; i < found->n; i++)
 *         printf("%s: %s\n", found->items[i].node, found->items[i].text);
 *
 * cfx_save does not write a program that has problems. */
#ifndef CFX_CHECK_H
#define CFX_CHECK_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A problem of a node, or of the program as a whole. */
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

/* All problems of a program; scope. It checks:
 * - structure: users mirror arguments in all graphs, nodes are in order, attributes exist;
 * - the dialect (cfx_verifier): the rules of PyTorch's verifier;
 * - calls: unknown operators, arguments that match no schema or that the operator refuses,
 *   results that differ from the metadata; with symbolic sizes at several sizes, where working
 *   at only one is a problem;
 * - sub-graphs: their inputs and results match the call;
 * - the signature: tensors exist as declared, and mutations match their inputs.
 * Missing metadata is inferred first. A program without problems is not checked again until it
 * changes. Bad, with an error, where p is NULL or bad. */
CFX_API cfx_problems *cfx_program_problems(const cfx_program *p);
/* The problems as text, one a line; nodes with the same problem share a line. With a file name,
 * a line begins with it and the line number, "net.fx:7: node relu: ..."; without one (NULL) the
 * line number comes last. Scope. */
CFX_API const char *cfx_problems_str(const cfx_problems *found, const char *file);
/* Whether a program has no problems. Otherwise the first becomes the error, and its notes list
 * the others. */
CFX_API bool cfx_program_check(const cfx_program *p);

/* A dialect: the operators that a program may call, like PyTorch's subclasses of Verifier.
 * extra["verifiers"] names those of a program. */
typedef struct cfx_verifier {
    const char *dialect;
    bool writes; /* operators may write to their arguments */
    /* Whether the operator of n is in the dialect; NULL: all are. False with or without an
     * error. */
    bool (*valid)(const struct cfx_verifier *v, const cfx_node *n);
} cfx_verifier;

/* The dialects "ATEN", without mutating operators, for decomposed programs; "TRAINING", for
 * exported ones; and "CORE", only Core ATen. NULL for others. Static. */
CFX_API const cfx_verifier *cfx_verifier_find(const char *dialect);
/* The violations of a dialect and of the signature, as PyTorch's verifier reports them
 * (SpecViolationErrors); calls are not checked. Scope; bad, with an error, where p or v is NULL. */
CFX_API cfx_problems *cfx_program_verify(const cfx_program *p, const cfx_verifier *v);

#ifdef __cplusplus
}
#endif
#endif
