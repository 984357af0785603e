/* Containers: arenas, growing arrays, the map from text to pointers. */
#include "base.h"

/* ---- vectors --------------------------------------------------------------------------------- */

/* What an array of `need` items grows to: twice of what it was, or all there can be. */
static size_t grown(size_t cap, size_t need, size_t item) {
    size_t n = cap ? cap * 2 : 16;
    if (n < need)
        n = need;
    return n > SIZE_MAX / 2 / item ? SIZE_MAX / 2 / item : n;
}

/* At a limit an array grows by a quarter: who goes on a while does not copy it each time. Where the
 * machine has no memory for that, it grows by a few items where it lies. */
void *cfx__vec_grow(void *data, size_t *cap, size_t need, size_t item) {
    enum { FEW = 16 };
    size_t n = grown(*cap, need, item);
    void *p = cfx__realloc_try(data, n * item);
    if (unlikely(!p)) {
        n = need + *cap / 4;
        n = cfx__memory_headroom(n * item) ? n : need + FEW;
        p = cfx__realloc(data, n * item);
    }
    *cap = n;
    return p;
}

bool cfx__vec_grow_try(void **data, size_t *cap, size_t need, size_t item) {
    size_t n = grown(*cap, need, item);
    void *p = cfx__realloc_try(*data, n * item);
    if (!p)
        return false;
    *data = p;
    *cap = n;
    return true;
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
        cfx__free(c);
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
    return map_find(m, key, len, cfx__text_key(key, len))->value;
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
        cfx__free(old.slots);
    }
    size_t len = strlen(key);
    uint32_t hash = cfx__text_key(key, len);
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
    struct cfx__map_slot *s = map_find(m, key, len, cfx__text_key(key, len));
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
    cfx__free(m->slots);
    *m = (cfx__map){0};
}
