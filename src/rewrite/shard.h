/* shard: the program of one rank, with layers cut across ranks.
 *
 * Invariant: every value is either replicated or sharded along one known dimension; if an
 * operator cannot work on sharded inputs, the layers that produced them stay whole. */
#ifndef CFX__SHARD_H
#define CFX__SHARD_H

#include <cfx/stages.h>

#include "pass.h"

enum { CFX__SEGMENTS = 8 };

/* What a rank has of a value. */
typedef struct cfx__piece {
    int dim;       /* along which it is cut; -1: not at all */
    int nsegments; /* the dimension is so many stretches in a row, each of which is cut */
    int64_t segments[CFX__SEGMENTS];
    int64_t units; /* the dimension, or each stretch, is so many equal units (heads, say), of which
                      a rank has whole ones, some ranks one more than others; 0: all have equal
                      parts */
    int64_t cover; /* a rank has the units that its share of so many finer ones lies in, of which
                      others have some too: heads of keys, and those of queries that share them; 0:
                      its share of the units themselves */
    uint32_t by;   /* the layer that cut it, by the id of its node in the whole */
} cfx__piece;

typedef struct cfx__shard {
    const cfx_program *whole;
    cfx_program *program;  /* the rank's, edited in place */
    int rank, ranks;
    VEC(cfx__piece) pieces;      /* by node id of the rank's graph */
    VEC(const cfx_node *) of;    /* by the same: the node of the whole that it computes, or NULL */
    uint32_t *joined;            /* by id of the whole: layers whose pieces meet, as a forest */
    bool *cut;                   /* by the same: a layer that is cut in this round */
    cfx__piece *layout;          /* by the same: stretches that a layer's results are to have */
    const char **whole_because;  /* by the same: why a layer stays whole; NULL: it need not */
    VEC(uint32_t) failed;        /* layers whose pieces met something that takes none */
    VEC(const char *) reasons;   /* of these; scope */
    VEC(cfx_node *) written;     /* inputs of the program that pieces are written to */
    VEC(uint32_t) written_by;    /* by which layers */
    bool asked;                  /* the rule that was tried wants other stretches */
    bool again;                  /* something was found out: the round is repeated */
} cfx__shard;

/* ---- steps that rules are made of (shard.c) -------------------------------------------------- */

const cfx__piece *cfx__shard_piece(const cfx__shard *s, const cfx_node *n);
/* The result of n in the whole program; and a size of it at the example, -1: not known. */
cfx_result cfx__shard_whole(const cfx__shard *s, const cfx_node *n);
int64_t cfx__shard_size(const cfx__shard *s, const cfx_node *n, int dim);
/* n, which is new, computes what `like` does in the whole. */
void cfx__shard_same(cfx__shard *s, const cfx_node *n, const cfx_node *like);
/* Where the part of a rank begins in a stretch of `size` elements that is cut as a piece says. */
int64_t cfx__shard_begin(const cfx__shard *s, const cfx__piece *p, int64_t size, int rank);
/* How much of it this rank has. */
int64_t cfx__shard_part(const cfx__shard *s, const cfx__piece *p, int64_t size);
/* The dimension of its argument that n, which only moves dimensions, has as `dim`; -1: n is no
 * such call. */
int cfx__shard_dim_before(const cfx__shard *s, const cfx_node *n, int dim);
/* The rank's piece of a value that it has all of, before `at`. */
cfx_node *cfx__shard_cut(cfx__shard *s, cfx_node *at, cfx_node *n, const cfx__piece *as);
/* The sum over all ranks, put behind n in its place; bias (or NULL) is added to it. */
void cfx__shard_reduce(cfx__shard *s, cfx_node *n, cfx_node *bias);
void cfx__shard_set(cfx__shard *s, const cfx_node *n, cfx__piece piece);
/* The stretches of the dimension along which a piece is cut have to be these; false where that
 * cannot be asked for. */
bool cfx__shard_ask(cfx__shard *s, const cfx__piece *p, int n, const int64_t *segments);
/* The units have to be so many, or a divisor of that where another asks too; false where that would
 * be too few. */
bool cfx__shard_ask_units(cfx__shard *s, const cfx__piece *p, int64_t units);
/* Of two pieces whose units differ, along dimensions of `size`, the coarser is asked to cover the
 * finer where that makes ranks more even; else the finer is asked for the units of the other. */
bool cfx__shard_agree(cfx__shard *s, const cfx__piece *a, const cfx__piece *b, int64_t size);
/* Whether ranks have units in common of x, and those that p has of as many as it covers. */
static inline bool cfx__shard_covers(const cfx__piece *x, const cfx__piece *p, int64_t size) {
    return x->cover && !p->cover && x->cover == (p->units ? p->units : size);
}
/* The input x of n, of which ranks have some in common, as the share of the units that it covers,
 * of which there are `heads` along its dimension; false where it covers others. */
bool cfx__shard_exact(cfx__shard *s, cfx_node *n, cfx_node *x, int64_t heads);
/* The layers that made a piece must not have units in common; false. */
bool cfx__shard_uncover(cfx__shard *s, const cfx__piece *p);
/* What is in the way of a dimension of so many elements being cut; NULL: nothing. *units is set to
 * what a piece of it says. */
const char *cfx__shard_divides(const cfx__shard *s, int64_t size, int64_t least, int64_t *units);
/* Pieces of two layers meet. */
void cfx__shard_join(cfx__shard *s, uint32_t a, uint32_t b);
/* Replaces an input of a node. */
void cfx__shard_give(cfx_node *user, cfx_node *old, cfx_node *with);

/* Gives n what it needs of its arguments and says which piece it computes (shard_rules.c). False:
 * it takes no pieces. */
bool cfx__shard_rule(cfx__shard *s, cfx_node *n);

#endif
