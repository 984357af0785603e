/* Problems of a program while they are being found. */
#ifndef CFX__PROBLEMS_H
#define CFX__PROBLEMS_H

#include <cfx/check.h>

#include "infer.h"

typedef struct cfx__finding {
    const cfx_program *program;
    cfx_problems *found;
    const char *path;    /* of the graph that is looked at; "": the program's own */
    cfx__inference infer;
} cfx__finding;

/* Adds a problem of a node (NULL: of the program as a whole). */
void cfx__problem_add(cfx__finding *f, const cfx_node *n, cfx_error_kind kind, const char *fmt, ...)
    CFX_PRINTF(4, 5);
/* The recorded error becomes one, behind `before`, and is forgotten; one of memory or limits
 * stays. */
void cfx__problem_take(cfx__finding *f, const cfx_node *n, const char *before);

/* ---- what is looked at ----------------------------------------------------------------------- */

/* The names of a program's dialects; scope. And the verifier of one: a dialect that nobody knows is
 * ATEN's. */
cfx_list *cfx__dialects_of(const cfx_program *p);
const cfx_verifier *cfx__verifier_of(cfx_value dialect);
/* Where calls are looked at: with the sizes of the example, with larger ones, and with ones of
 * another order of magnitude. */
enum { CFX__TRIED_WORLDS = 1 << 0 | 1 << 4 | 1 << 2 };
/* Whether a call computes what is noted of it (noted.c). */
void cfx__verify_call(cfx__finding *f, cfx_node *n);
/* What PyTorch's verifier says of a node (verifier.c). */
void cfx__verify_node(cfx__finding *f, const cfx_verifier *v, const cfx_node *n);
/* The signature of the program, in the verifier's words and beyond them (promises.c). */
void cfx__verify_signature(cfx__finding *f);
/* Whether sub-graphs take what a higher-order call gives them, and give what it gives. */
void cfx__verify_subgraphs(cfx__finding *f, cfx_node *n);

#endif
