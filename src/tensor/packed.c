/* Forms of a storage's data that operators keep with it. The list is short and its lock is held for
 * a few instructions; forms are counted, so one in use survives being dropped from the list. */
#include "tensor.h"

enum { KEPT = 4 };

static void packed_free(void *p) { cfx__free(((cfx__packed *)p)->data); }

static const cfx__obj_type packed_type = {.name = "packed", .free = packed_free};

uint64_t cfx__packed_key(const char *form, int n, const int64_t *facts) {
    uint64_t key = cfx__text_hash(form, strlen(form));
    for (int i = 0; i < n; i++)
        key = cfx__hash_mix(key, (uint64_t)facts[i]);
    return key;
}

cfx__packed *cfx__packed_new(const cfx__storage *s, uint64_t key, size_t size) {
    void *data = cfx__alloc_aligned(size ? size : 64);
    if (!data)
        return NULL;
    cfx__packed *f = cfx__obj_make(&packed_type, sizeof *f);
    f->key = key;
    f->version = s->version;
    f->data = data;
    f->size = size;
    return f;
}

/* Takes out of the list those made of other data, and all after the first n. Called locked. */
static cfx__packed *take_old(cfx__storage *s, int n) {
    cfx__packed *old = NULL, **at = &s->packed;
    while (*at) {
        cfx__packed *f = *at;
        if (n > 0 && f->version == s->version && !s->foreign) {
            n--;
            at = &f->next;
            continue;
        }
        *at = f->next;
        f->next = old;
        old = f;
    }
    return old;
}

static void drop_all(cfx__packed *f) {
    for (cfx__packed *next; f; f = next) {
        next = f->next;
        f->next = NULL;
        cfx_drop(f);
    }
}

cfx__packed *cfx__packed_find(cfx__storage *s, uint64_t key, size_t size) {
    cfx__lock(&s->packed_lock);
    cfx__packed *old = take_old(s, KEPT), *f = s->packed;
    while (f && (f->key != key || f->size != size))
        f = f->next;
    cfx_keep(f);
    cfx__unlock(&s->packed_lock);
    drop_all(old);
    return f;
}

void cfx__packed_keep(cfx__storage *s, cfx__packed *f) {
    cfx__lock(&s->packed_lock);
    f->next = s->packed;
    s->packed = cfx_keep(f);
    cfx__packed *old = take_old(s, KEPT);
    cfx__unlock(&s->packed_lock);
    drop_all(old);
}

void cfx__packed_drop_all(cfx__storage *s) {
    cfx__lock(&s->packed_lock);
    cfx__packed *old = take_old(s, 0);
    cfx__unlock(&s->packed_lock);
    drop_all(old);
}
