/* One program of several recordings: what merge.c and reify.c share. */
#ifndef CFX__MERGE_H
#define CFX__MERGE_H

#include "worlds.h"

typedef struct {
    cfx__merge *m;
    cfx__exprs *exprs;
    cfx_node *at[CFX__WORLDS]; /* the node that is being merged */
    VEC(struct cfx__place {
        cfx_value expr; /* counted */
        cfx_node *node; /* what computes it; NULL: to be read of */
        cfx_node *tensor;
        int dim;
    })
    places;
    VEC(struct cfx__real {
        double at[CFX__WORLDS];
        cfx_node *node;
    })
    reals;
    VEC(cfx_node *) made; /* here */
} cfx__merging;

/* The node, or the dimension of a tensor, that gives an expression; NULL: none. */
struct cfx__place *cfx__place_find(const cfx__merging *g, cfx_value expr);
/* From now on node gives expr, or dimension dim of the tensor does. */
void cfx__place_add(cfx__merging *g, cfx_value expr, cfx_node *node, cfx_node *tensor, int dim);

/* A node at the insert point, with the source line of the node that is being merged. */
cfx_node *cfx__reify_node(cfx__merging *g, const char *target, cfx_value args, cfx_value val);
/* What an argument that is a number or a node stands for. */
cfx_value cfx__reify_meaning(cfx_value v);
/* An operation on numbers and nodes: a number, or a node, one that is there where there is one. */
cfx_value cfx__reify_apply(cfx__merging *g, cfx__sym_op op, cfx_value a, cfx_value b);
/* A node for an expression, made where there is none: of symbols where these are at hand, else by
 * asking a tensor. `written` where it stands for arithmetic of the program's. Bad, with an error.
 */
cfx_value cfx__reify(cfx__merging *g, cfx_value expr, bool written);

#endif
