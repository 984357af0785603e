/* What the rules of shard_rules.c and shard_layers.c share. */
#ifndef CFX__SHARD_RULES_H
#define CFX__SHARD_RULES_H

#include "shard.h"

static inline uint32_t id_of(const cfx_node *n) { return cfx__node_of(n)->id; }

static inline int ndim_of(const cfx__shard *s, const cfx_node *n) {
    cfx_result r = cfx__shard_whole(s, n);
    return r.kind == CFX_RESULT_TENSOR ? r.ndim : -1;
}

static inline bool is_piece(const cfx__shard *s, const cfx_node *n) {
    return n && cfx__shard_piece(s, n)->dim >= 0;
}

static inline cfx_node *arg(const cfx_node *n, const char *name) { return cfx__call_node(n, name); }

static inline int dim_arg(const cfx_node *n, const char *name, int ndim) {
    cfx_value v = cfx__call_arg(n, name);
    int dim = v.tag == CFX_TAG_INT ? (int)cfx_integer(v) : 0;
    return dim < 0 ? dim + ndim : dim;
}

/* Sets the piece of n to that of x, along another dimension. */
static inline bool follow(cfx__shard *s, cfx_node *n, const cfx_node *x, int dim) {
    cfx__piece p = *cfx__shard_piece(s, x);
    p.dim = dim;
    cfx__shard_set(s, n, p);
    return true;
}

/* Whether two pieces, dimensions aside, are cut alike. */
static inline bool are_alike(const cfx__piece *a, const cfx__piece *b) {
    if (a->units != b->units || a->cover != b->cover)
        return false;
    if (a->nsegments <= 1 && b->nsegments <= 1)
        return true;
    return a->nsegments == b->nsegments &&
           !memcmp(a->segments, b->segments, (size_t)a->nsegments * sizeof *a->segments);
}

typedef bool cfx__shard_fn(cfx__shard *s, cfx_node *n);
/* The first argument that is a piece, or NULL. */
cfx_node *cfx__shard_first(const cfx__shard *s, const cfx_node *n);
/* Dimensions are counted from the right, as broadcasting does. Every other argument becomes such a
 * piece as `lead` is, unless it is broadcast there; false where that cannot be. */
bool cfx__shard_align(cfx__shard *s, cfx_node *n, cfx_node *lead);

/* Layers and products (shard_layers.c). */
cfx__shard_fn cfx__shard_linear, cfx__shard_addmm, cfx__shard_matmul, cfx__shard_baddbmm,
    cfx__shard_attention, cfx__shard_embedding;

#endif
