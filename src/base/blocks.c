/* Recycling of memory: small blocks of a few fixed sizes, and large blocks for tensor storage.
 * Sanitizer builds recycle nothing, so every free is visible to them. */
#include "base.h"

#include <malloc.h>

enum { SPARE_MOST = 256 };

void *cfx__spare_alloc(cfx__spare_kind kind, size_t size) {
    struct cfx__spare *s = &cfx__ctx()->spare[kind];
    void *p = s->first;
    if (!p)
        return cfx__alloc(size);
    s->first = *(void **)p;
    s->len--;
    cfx__poison(p, size);
    return p;
}

void cfx__spare_free(cfx__spare_kind kind, void *p) {
#ifndef CFX_SANITIZE
    struct cfx__spare *s = &cfx__ctx()->spare[kind];
    if (s->len < SPARE_MOST && !cfx__reserve_has(p)) {
        *(void **)p = s->first;
        s->first = p;
        s->len++;
        return;
    }
#else
    (void)kind;
#endif
    cfx__free(p);
}

/* ---- the block cache ------------------------------------------------------------------------- */

/* Fresh pages cost more than the arithmetic of a large pointwise operator, so a thread keeps the
 * last blocks it freed. Blocks are rounded up to an eighth of a power of two, so that most hits are
 * of the very same size. A larger block will do too, so that programs at many sizes do not keep
 * blocks for each: one that is up to a half larger always, one of up to eight times the size while
 * what such blocks have too much adds up to little. Without that bound, small tensors that stay
 * could hold the large blocks that passing ones need again. */
enum { CACHE_BLOCKS = 32, CACHE_MIN = 1 << 14, CACHE_TIMES = 8 };
static const size_t unused_most = (size_t)16 << 20; /* bytes, in blocks that are much too large */
#ifdef CFX_SANITIZE
static const size_t cache_most = 0; /* every free is seen, and what is read behind a block */
#else
static const size_t cache_most = (size_t)512 << 20;
#endif

struct cfx__block_cache {
    size_t bytes;
    size_t unused; /* of blocks that are in use, at their ends */
    int len;
    struct {
        void *p;
        size_t size;
    } block[CACHE_BLOCKS];
};

static size_t block_size(size_t size) {
    if (!cache_most)
        return size;
    if (size < CACHE_MIN)
        return (size + 63) & ~(size_t)63;
    size_t step = ((size_t)1 << (63 - __builtin_clzl(size))) / 8;
    return (size + step - 1) / step * step;
}

static bool is_much_larger(size_t size, size_t rounded) { return size - rounded > rounded / 2; }

/* The smallest of the blocks that are large enough and not too large; -1: there is none. */
static int find_kept(const struct cfx__block_cache *c, size_t rounded) {
    int best = -1;
    for (int i = c->len - 1; i >= 0; i--) {
        const size_t size = c->block[i].size;
        if (size >= rounded && (best < 0 || size < c->block[best].size))
            best = i;
    }
    const size_t size = best >= 0 ? c->block[best].size : 0;
    const bool fits = best >= 0 && (!is_much_larger(size, rounded) ||
                                    (size / CACHE_TIMES <= rounded &&
                                     c->unused + (size - rounded) <= unused_most));
    return fits ? best : -1;
}

void *cfx__block_alloc(size_t size) {
    struct cfx__block_cache *c = cfx__ctx()->storage_cache;
    size_t rounded = block_size(size);
    if (rounded < size)
        return NULL;
    const int i = rounded >= CACHE_MIN && c ? find_kept(c, rounded) : -1;
    if (i < 0)
        return cfx__alloc_aligned(rounded ? rounded : 64);
    void *p = c->block[i].p;
    const size_t whole = c->block[i].size;
    c->bytes -= whole;
    c->unused += is_much_larger(whole, rounded) ? whole - rounded : 0;
    c->block[i] = c->block[--c->len];
    cfx__poison(p, rounded);
    return p;
}

static bool is_kept(size_t rounded) {
    if (rounded < CACHE_MIN)
        return false;
    return rounded <= cache_most / 4;
}

void cfx__block_free(void *p, size_t size) {
    size_t rounded = block_size(size);
    if (!is_kept(rounded)) {
        cfx__free(p);
        return;
    }
    struct cfx__block_cache **at = &cfx__ctx()->storage_cache;
    struct cfx__block_cache *c = *at ? *at : (*at = cfx__alloc_optional(sizeof *c));
    if (!c) {
        cfx__free(p);
        return;
    }
    const size_t whole = cfx__reserve_has(p) ? rounded : malloc_usable_size(p);
    if (is_much_larger(whole, rounded)) /* another thread may have counted it */
        c->unused -= whole - rounded < c->unused ? whole - rounded : c->unused;
    while (c->len && (c->len == CACHE_BLOCKS || c->bytes + whole > cache_most)) {
        cfx__free(c->block[0].p);
        c->bytes -= c->block[0].size;
        memmove(c->block, c->block + 1, (size_t)--c->len * sizeof c->block[0]);
    }
    c->block[c->len].p = p;
    c->block[c->len++].size = whole; /* it may have been found for something smaller */
    c->bytes += whole;
}

void cfx__block_cache_release(struct cfx__block_cache **at) {
    struct cfx__block_cache *c = *at;
    *at = NULL;
    if (!c)
        return;
    for (int i = 0; i < c->len; i++)
        cfx__free(c->block[i].p);
    cfx__free(c);
}
