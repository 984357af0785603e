/* unflatten: the modules of a program put together again.
 *
 * unflatten.c gives each module the nodes that it ran, unflatten_writes.c what it writes,
 * unflatten_state.c its tensors, and makes one module of calls that do the same. swap.c puts
 * modules of the caller's in the place of some.
 *
 * Invariant: every node of the flat graph is in exactly one module; what it takes from outside is a
 * placeholder there, given by the call. */
#ifndef CFX__UNFLATTEN_H
#define CFX__UNFLATTEN_H

#include <cfx/split.h>

#include "../run/run.h"

/* A call of a module that was made of nodes. */
typedef struct cfx__outlined {
    cfx_module *parent;
    const char *parent_path;
    cfx_node *call;     /* in the parent's graph */
    const char *path;   /* "encoder" */
    const char *name;   /* what the parent's graph calls: "encoder@1", below the parent */
    cfx_module *module;
} cfx__outlined;

typedef struct cfx__unflat {
    const cfx_program *program;
    cfx_graph *flat;    /* a copy of its graph */
    cfx_module *root;
    cfx_dict *seen;    /* nodes of the flat graph that are in a module */
    cfx_dict *origin;  /* placeholder of a module to the node of the flat graph that it is */
    cfx_dict *made;    /* path to a module that holds others and may still be called itself */
    cfx_dict *names;   /* path with number ("encoder@1") that a module has already */
    cfx_dict *written; /* path to the names of nodes whose results are to be written back there, and
                          the tensor of each, a placeholder of the flat graph */
    cfx_dict *finals;  /* placeholder of a tensor that is written to, to its last value */
    VEC(cfx__outlined) calls;
    int depth;
} cfx__unflat;

/* Results that stand for writes become writes: copy_ behind what computes the value, which all
 * others read from then on. */
void cfx__unflat_write(cfx__unflat *u);
/* The placeholder of the tensor of which n, a node that does not write, is a value that the program
 * gives it; NULL where there is none, several may be meant, or others still read what it was. */
cfx_node *cfx__unflat_written(const cfx__unflat *u, cfx_node *n);
/* The modules that computed what preserved ones read from a tensor write it there. False with an
 * error. */
bool cfx__unflat_write_back(const cfx__unflat *u);
/* Gives the modules their tensors; their graphs read them then. False with an error. */
bool cfx__unflat_state(cfx__unflat *u);
/* Calls of one module whose graphs are equal are calls of one module; those whose signature is
 * preserved find theirs by counting. Modules come in the order they had. */
void cfx__unflat_join(cfx__unflat *u);

/* Nodes at the insert point of m's graph that put leaves together, and take them apart, as a spec
 * says that becomes an attribute of m. */
cfx_node *cfx__node_tree_unflatten(cfx_module *m, cfx_value leaves, cfx_value spec);
cfx_node *cfx__node_tree_flatten(cfx_module *m, cfx_value tree, cfx_value spec);
/* The call of a module whose signature is known, with the leaves of its arguments, at the insert
 * point of m's graph: nodes that make (args, kwargs) of them, and of these what the call takes;
 * where `in_turn` all of args before kwargs. */
void cfx__node_tree_args(cfx_module *m, cfx_value leaves, cfx_value spec, bool in_turn,
                         cfx_value *args, cfx_value *kwargs);

#endif
