/* The list of nodes and its order keys, so that "does a come before b" is one comparison.
 *
 * Keys are 62-bit numbers with gaps. A node that goes where there is no gap left spreads the keys
 * of its neighbourhood: the smallest aligned range of keys around it that is thin enough is
 * numbered anew, evenly (Bender, Cole, Demaine, Farach-Colton and Zito, "Two simplified algorithms
 * for maintaining order in a list"), which costs O(log n) a node at worst and nothing usually. */
#include "graph.h"

#define TOP ((uint64_t)1 << 62)
#define GAP ((uint64_t)1 << 32)  /* between nodes at the end */
#define STEP ((uint64_t)1 << 16) /* between nodes that come one after the other inside */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Numbers `count` nodes from n on evenly over the `size` keys from low on. */
static void spread(cfx_node *n, int64_t count, uint64_t low, uint64_t size) {
    uint64_t gap = size / (uint64_t)(count + 1);
    for (; count > 0; count--, n = n->next) {
        low += gap;
        cfx__node_of(n)->order = low;
    }
}

static void make_room(cfx_graph *g, cfx_node *around) {
    cfx_node *first = around, *last = around;
    int64_t count = 1;
    double thin = 4;
    for (int bits = 3; bits < 62; bits++, thin *= 1.42) {
        uint64_t size = (uint64_t)1 << bits, low = cfx__node_of(around)->order & ~(size - 1);
        for (; first->prev && cfx__node_of(first->prev)->order >= low; count++)
            first = first->prev;
        for (; last->next && cfx__node_of(last->next)->order < low + size; count++)
            last = last->next;
        if ((double)count < thin && (uint64_t)count < size / 8) {
            spread(first, count, low, size);
            return;
        }
    }
    cfx__graph_renumber(g);
}

void cfx__graph_renumber(cfx_graph *g) {
    uint64_t order = TOP / 2;
    if (g->len > 1 << 28) {
        spread(g->first, g->len, 0, TOP);
        return;
    }
    for (cfx_node *n = g->first; n; n = n->next, order += GAP)
        cfx__node_of(n)->order = order;
}

/* A key between those of prev and next; 0 where there is none. */
static uint64_t key_between(const cfx_node *prev, const cfx_node *next) {
    uint64_t low = prev ? cfx__node_of(prev)->order : 0,
             high = next ? cfx__node_of(next)->order : TOP;
    uint64_t half = (high - low) / 2;
    if (!half)
        return 0;
    if (!prev && !next)
        return half;
    if (!next)
        return low + least(half, GAP);
    return prev ? low + least(half, STEP) : high - least(half, GAP);
}

void cfx__node_link(cfx_graph *g, cfx_node *n, cfx_node *at) {
    cfx_node *prev = at ? at->prev : g->last;
    uint64_t key = key_between(prev, at);
    while (unlikely(!key)) {
        make_room(g, prev ? prev : at);
        key = key_between(prev, at);
    }
    cfx__node_of(n)->order = key;
    n->prev = prev;
    n->next = at;
    *(prev ? &prev->next : &g->first) = n;
    *(at ? &at->prev : &g->last) = n;
}

/* n keeps its own links: who stands on it can go on. */
void cfx__node_unlink(cfx_graph *g, cfx_node *n) {
    *(n->prev ? &n->prev->next : &g->first) = n->next;
    *(n->next ? &n->next->prev : &g->last) = n->prev;
}

bool cfx_node_precedes(const cfx_node *a, const cfx_node *b) {
    return a && b && cfx__node_of(a)->order < cfx__node_of(b)->order;
}
