/* rewrite: where a graph becomes a better graph.
 *
 * Invariant: what is given is never changed; a rewritten program is new and computes the same. */
#ifndef CFX__REWRITE_H
#define CFX__REWRITE_H

#include <cfx/rewrite.h>

#include "../ops/core.h"
#include "../run/run.h"
#include "../trace/record.h"

/* ---- sizes that are symbols (symbolic.c) ----------------------------------------------------- */

/* A program whose sizes are symbols is run at sizes that are unlike any other number in it, so that
 * every integer which depends on them can be told by its value. */
typedef struct cfx__symbols {
    VEC(struct cfx__assigned {
        const char *name; /* of the source program */
        int64_t value;
    }) assigned;
    VEC(struct cfx__size {
        int64_t value;
        cfx_node *node;   /* the integer itself; NULL: to be made of */
        cfx_node *tensor; /* dimension `dim` of this */
        int dim;
    }) sizes;
    cfx_dict *plain; /* integers that the program names itself; counted */
} cfx__symbols;

/* Chooses sizes for all symbols in the graphs of p. */
void cfx__symbols_choose(cfx__symbols *s, const cfx_program *p);
void cfx__symbols_free(cfx__symbols *s);
/* An expression at the chosen sizes; other values as they are. A symbol that is new gets a size. */
cfx_value cfx__symbols_value(cfx__symbols *s, cfx_value v);
/* The tensor that metadata describes, at the chosen sizes; None where it describes none. Scope. */
cfx_value cfx__symbols_tensor(cfx__symbols *s, cfx_value val);
/* From now on `value` is what node n gives, or dimension dim of the tensor n. */
void cfx__symbols_know(cfx__symbols *s, int64_t value, cfx_node *n, int dim);
/* The integer as an argument: a node where it depends on symbols; made in r where needed. */
cfx_value cfx__symbols_arg(cfx__symbols *s, cfx__recorder *r, int64_t value);
/* Metadata of a tensor, with the expressions of its sizes. Scope. */
cfx_value cfx__symbols_describe(cfx__symbols *s, const cfx_tensor *t);

/* ---- running a graph again (rerun.c) --------------------------------------------------------- */

typedef struct cfx__rerun {
    cfx__recorder recorder; /* first */
    cfx_module *from, *to;  /* the GraphModule, and what receives children and constants */
    cfx__symbols *symbols;  /* shared by sub-graphs */
    cfx_value *values;      /* by id of the node of the old graph; counted */
    cfx_value keep;         /* operators to leave whole */
    const int *order;       /* placeholder number order[i] comes i-th; NULL: as they are */
    VEC(cfx_tensor *) inputs; /* what placeholders gave, NULL where no tensor; by old number */
} cfx__rerun;

/* Runs the graph of run->from on fake tensors; its results, before they are nodes. False, with an
 * error that names the node. */
bool cfx__rerun_graph(cfx__rerun *run, cfx_value *result);
void cfx__rerun_done(cfx__rerun *run);
/* A higher-order operator: sub-graphs are rewritten too. */
cfx_value cfx__rerun_higher(cfx__rerun *run, const cfx_node *n, cfx_args a);
/* A copy of the node with its arguments as they are now; its results from its metadata. */
cfx_value cfx__rerun_copy(cfx__rerun *run, const cfx_node *n, cfx_args a);

#endif
