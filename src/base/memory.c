/* Memory: small allocations, arenas, growing arrays, the map from text to pointers, and the cache
 * of large blocks that tensor storage comes from. */
#include "base.h"

void *cfx__alloc(size_t size) {
    void *p = malloc(size ? size : 1);
    if (unlikely(!p))
        __builtin_trap(); /* see base.h */
    return p;
}

void *cfx__alloc0(size_t size) {
    void *p = calloc(1, size ? size : 1);
    if (unlikely(!p))
        __builtin_trap();
    return p;
}

void *cfx__realloc(void *p, size_t size) {
    p = realloc(p, size ? size : 1);
    if (unlikely(!p))
        __builtin_trap();
    return p;
}

void *cfx__vec_grow(void *data, size_t *cap, size_t need, size_t item) {
    size_t n = *cap ? *cap * 2 : 16;
    if (n < need)
        n = need;
    *cap = n;
    return cfx__realloc(data, n * item);
}

enum { SPARE_MOST = 256 };

void *cfx__spare_alloc(cfx__spare_kind kind, size_t size) {
    struct cfx__spare *s = &cfx__ctx()->spare[kind];
    void *p = s->first;
    if (!p)
        return cfx__alloc(size);
    s->first = *(void **)p;
    s->len--;
    return p;
}

void cfx__spare_free(cfx__spare_kind kind, void *p) {
#ifndef __SANITIZE_ADDRESS__
    struct cfx__spare *s = &cfx__ctx()->spare[kind];
    if (s->len < SPARE_MOST) {
        *(void **)p = s->first;
        s->first = p;
        s->len++;
        return;
    }
#else
    (void)kind;
#endif
    free(p);
}

/* ---- arena ----------------------------------------------------------------------------------- */

struct cfx__arena_chunk {
    struct cfx__arena_chunk *next;
    max_align_t data[];
};

void *cfx__arena_alloc(cfx__arena *a, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (!a->chunk || a->used + size > a->size) {
        size_t room = a->size ? a->size : 2048;
        if (room < 1 << 18)
            room *= 2;
        if (room < size)
            room = size;
        struct cfx__arena_chunk *c = cfx__alloc(sizeof *c + room);
        c->next = a->chunk;
        a->chunk = c;
        a->used = 0;
        a->size = room;
    }
    void *p = (char *)a->chunk->data + a->used;
    a->used += size;
    return memset(p, 0, size);
}

char *cfx__arena_copy(cfx__arena *a, const char *text, size_t len) {
    char *p = cfx__arena_alloc(a, len + 1);
    memcpy(p, text, len);
    p[len] = 0;
    return p;
}

void cfx__arena_release(cfx__arena *a) {
    for (struct cfx__arena_chunk *c = a->chunk, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *a = (cfx__arena){0};
}

/* ---- map: open addressing, linear probing, removal by shifting back -------------------------- */

static struct cfx__map_slot *map_find(const cfx__map *m, const char *key, size_t len,
                                      uint32_t hash) {
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct cfx__map_slot *s = &m->slots[i];
        if (!s->key || (s->hash == hash && s->len == len && !memcmp(s->key, key, len)))
            return s;
    }
}

void *cfx__map_getn(const cfx__map *m, const char *key, size_t len) {
    if (!m->cap)
        return NULL;
    return map_find(m, key, len, (uint32_t)cfx__text_hash(key, len))->value;
}

void *cfx__map_get(const cfx__map *m, const char *key) {
    return cfx__map_getn(m, key, strlen(key));
}

void cfx__map_set(cfx__map *m, const char *key, void *value) {
    if ((m->len + 1) * 4 > m->cap * 3) {
        cfx__map old = *m;
        m->cap = old.cap ? old.cap * 2 : 16;
        m->slots = cfx__alloc0(m->cap * sizeof *m->slots);
        for (size_t i = 0; i < old.cap; i++)
            if (old.slots[i].key)
                *map_find(m, old.slots[i].key, old.slots[i].len, old.slots[i].hash) = old.slots[i];
        free(old.slots);
    }
    size_t len = strlen(key);
    uint32_t hash = (uint32_t)cfx__text_hash(key, len);
    struct cfx__map_slot *s = map_find(m, key, len, hash);
    if (!s->key) {
        *s = (struct cfx__map_slot){key, hash, (uint32_t)len, NULL};
        m->len++;
    }
    s->value = value;
}

void cfx__map_remove(cfx__map *m, const char *key) {
    if (!m->cap)
        return;
    size_t len = strlen(key), mask = m->cap - 1;
    struct cfx__map_slot *s = map_find(m, key, len, (uint32_t)cfx__text_hash(key, len));
    if (!s->key)
        return;
    m->len--;
    size_t hole = (size_t)(s - m->slots);
    for (size_t i = (hole + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
        size_t home = m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct cfx__map_slot){0};
}

void cfx__map_release(cfx__map *m) {
    free(m->slots);
    *m = (cfx__map){0};
}

/* ---- the block cache ------------------------------------------------------------------------- */

/* Fresh pages cost more than the arithmetic of a large pointwise operator, so a thread keeps the
 * last blocks it freed. Blocks are rounded up to an eighth of a power of two, so that a hit needs
 * the very same rounded size. */
enum { CACHE_BLOCKS = 32, CACHE_MIN = 1 << 14 };
#ifdef __SANITIZE_ADDRESS__
static const size_t cache_most = 0; /* every free is seen */
#else
static const size_t cache_most = (size_t)512 << 20;
#endif

struct cfx__block_cache {
    size_t bytes;
    int len;
    struct {
        void *p;
        size_t size;
    } block[CACHE_BLOCKS];
};

static size_t block_size(size_t size) {
    if (size < CACHE_MIN)
        return (size + 63) & ~(size_t)63;
    size_t step = ((size_t)1 << (63 - __builtin_clzl(size))) / 8;
    return (size + step - 1) / step * step;
}

void *cfx__block_alloc(size_t size) {
    struct cfx__block_cache *c = cfx__ctx()->storage_cache;
    size_t rounded = block_size(size);
    if (rounded < size || (cfx__ctx()->block_limit && rounded > cfx__ctx()->block_limit))
        return NULL;
    if (rounded >= CACHE_MIN && c)
        for (int i = c->len - 1; i >= 0; i--)
            if (c->block[i].size == rounded) {
                void *p = c->block[i].p;
                c->block[i] = c->block[--c->len];
                c->bytes -= rounded;
                return p;
            }
    void *p = NULL;
    return posix_memalign(&p, 64, rounded ? rounded : 64) ? NULL : p;
}

size_t cfx_set_memory_limit(size_t bytes) {
    cfx__context *c = cfx__ctx();
    size_t before = c->block_limit;
    c->block_limit = bytes;
    return before;
}

void cfx__block_free(void *p, size_t size) {
    size_t rounded = block_size(size);
    if (rounded < CACHE_MIN || rounded > cache_most / 4) {
        free(p);
        return;
    }
    struct cfx__block_cache **at = &cfx__ctx()->storage_cache;
    if (!*at)
        *at = cfx__alloc0(sizeof **at);
    struct cfx__block_cache *c = *at;
    while (c->len && (c->len == CACHE_BLOCKS || c->bytes + rounded > cache_most)) {
        free(c->block[0].p);
        c->bytes -= c->block[0].size;
        memmove(c->block, c->block + 1, (size_t)--c->len * sizeof c->block[0]);
    }
    c->block[c->len].p = p;
    c->block[c->len++].size = rounded;
    c->bytes += rounded;
}

void cfx__block_cache_release(struct cfx__block_cache **at) {
    struct cfx__block_cache *c = *at;
    *at = NULL;
    if (!c)
        return;
    for (int i = 0; i < c->len; i++)
        free(c->block[i].p);
    free(c);
}
