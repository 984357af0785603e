/* The context: one per thread, the only mutable state of the library, with the scope stack in it.
 * Start at cfx__ctx. A thread's context is freed by cfx_finish or, at the latest, when the thread
 * ends. */
#include "base.h"

#include <pthread.h>

_Thread_local cfx__context cfx__ctx_tls __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void context_release(void *unused) {
    (void)unused;
    cfx__context *c = &cfx__ctx_tls;
    if (!c->known) /* freed by cfx_finish; nothing was used since */
        return;
    cfx_scope_close(0);
    for (int i = CFX__SLOTS - 1; i >= 0; i--) {
        void *data = c->slot[i].data;
        c->slot[i].data = NULL;
        if (data)
            c->slot[i].free(data);
    }
    cfx_scope_close(0); /* what the slots' owners made while going */
    VEC_FREE(c->scope);
    cfx__block_cache_release(&c->storage_cache);
    for (int i = 0; i < CFX__SPARES; i++)
        for (void *p = c->spare[i].first, *next; p; p = next) {
            next = *(void **)p;
            cfx__free(p);
        }
    memset(c->spare, 0, sizeof c->spare);
    cfx__text_release(&c->message);
    cfx__text_release(&c->notes);
    memset(&c->error, 0, sizeof c->error);
    c->failed = false;
    cfx__reserve_leave(c);
    cfx__memory_settle();
    c->known = false;
}

static void make_key(void) { pthread_key_create(&thread_end, context_release); }

void cfx__ctx_first_use(void) {
    cfx__ctx_tls.known = true;
    pthread_once(&once, make_key);
    pthread_setspecific(thread_end, &cfx__ctx_tls);
    cfx__reserve_make(&cfx__ctx_tls);
}

void *cfx__ctx_slot_make(cfx__ctx_slot_id slot, void *(*make)(void), void (*done)(void *)) {
    cfx__context *c = cfx__ctx();
    c->slot[slot].data = make();
    c->slot[slot].free = done;
    return c->slot[slot].data;
}

int cfx_finish(FILE *out) {
    bool fine = cfx_report(out);
    context_release(NULL);
    return fine ? 0 : 1;
}

cfx_precision cfx_set_precision(cfx_precision p) {
    cfx__context *c = cfx__ctx();
    cfx_precision before = c->precision;
    c->precision = p >= CFX_PRECISION_F32 && p <= CFX_PRECISION_TF32 ? p : CFX_PRECISION_F32;
    return before;
}

cfx_precision cfx_get_precision(void) { return cfx__ctx()->precision; }

/* ---- objects and scopes ---------------------------------------------------------------------- */

void *cfx__obj_make(const cfx__obj_type *type, size_t size) {
    cfx_obj *obj = cfx__alloc0(size);
    obj->refs = 1;
    obj->type = type;
    return obj;
}

void *cfx__obj_new(const cfx__obj_type *type, size_t size) {
    return cfx__scope_own(cfx__obj_make(type, size));
}

bool cfx_failed(const void *obj) { return !obj || cfx__obj_is_bad(obj); }

void *cfx_keep_obj(void *p) {
    cfx_obj *obj = p;
    if (obj && !(obj->flags & CFX__BAD))
        __atomic_fetch_add(&obj->refs, 1, __ATOMIC_RELAXED);
    return p;
}

/* What an object holds goes with it, and what that holds: chains of any length, so that beyond some
 * levels objects wait in a list, linked where their counts were, for those above to be done. */
enum { DROP_LEVELS = 200 };
static _Thread_local struct {
    int levels;
    cfx_obj *waiting;
} dropping;
_Static_assert(offsetof(cfx_obj, type) >= sizeof(cfx_obj *), "a link fits in front of the type");

static void release(cfx_obj *obj) {
    const cfx__obj_type *type = obj->type;
    dropping.levels++;
    if (type->free)
        type->free(obj);
    if (!type->frees_itself)
        cfx__free(obj);
    dropping.levels--;
}

static void release_waiting(void) {
    while (dropping.waiting) {
        cfx_obj *obj = dropping.waiting;
        memcpy(&dropping.waiting, (void *)obj, sizeof dropping.waiting);
        obj->refs = 0;
        obj->flags = 0;
        release(obj);
    }
}

void cfx_drop(void *p) {
    cfx_obj *obj = p;
    if (!obj || (obj->flags & CFX__BAD))
        return;
    /* the only holder needs no atomic subtraction: nobody else can be counting */
    if (__atomic_load_n(&obj->refs, __ATOMIC_ACQUIRE) != 1 &&
        __atomic_sub_fetch(&obj->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (unlikely(dropping.levels >= DROP_LEVELS)) {
        memcpy((void *)obj, &dropping.waiting, sizeof dropping.waiting);
        dropping.waiting = obj;
        return;
    }
    release(obj);
    if (unlikely(dropping.waiting) && !dropping.levels)
        release_waiting();
}

size_t cfx_scope_open(void) { return cfx__ctx()->scope.len; }

void cfx_scope_close(size_t mark) {
    cfx__context *c = cfx__ctx();
    while (c->scope.len > mark)
        cfx_drop(c->scope.data[--c->scope.len]);
}

void *cfx_scope_return(size_t mark, void *obj) {
    cfx_keep_obj(obj);
    cfx_scope_close(mark);
    if (obj && !cfx__obj_is_bad(obj))
        cfx__scope_own(obj);
    return obj;
}
