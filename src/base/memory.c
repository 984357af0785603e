/* Memory allocation. cfx__alloc never fails: if the heap does, the error is recorded and a reserve
 * serves the request until the objects in it are freed, so the caller can finish, notice the error
 * and stop. cfx__alloc_try can fail, and is for allocations that grow with the data. All
 * allocations are counted.
 *
 * A reserve is address space that a thread sets aside on first use (less where address space is
 * scarce). It is allocated linearly and becomes free when nothing in it is in use any more. */
#include "base.h"
#include "spare.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* ---- counting -------------------------------------------------------------------------------- */

enum { COUNT_STEP = 1 << 16 }; /* a thread adds up so many bytes before the others hear of it */

static _Atomic int64_t held; /* by all threads, but for what each has not yet added */

static void count(cfx__context *c, int64_t bytes) {
    c->uncounted += bytes;
    if (unlikely(c->uncounted > COUNT_STEP || c->uncounted < -COUNT_STEP))
        cfx__memory_settle();
}

void cfx__memory_settle(void) {
    cfx__context *c = &cfx__ctx_tls;
    atomic_fetch_add_explicit(&held, c->uncounted, memory_order_relaxed);
    c->uncounted = 0;
}

size_t cfx_memory_held(void) {
    int64_t bytes = atomic_load_explicit(&held, memory_order_relaxed) + cfx__ctx()->uncounted;
    return bytes > 0 ? (size_t)bytes : 0;
}

static bool over_limit(const cfx__context *c, size_t size) {
    return unlikely(c->memory_limit) &&
           (size > c->memory_limit || cfx_memory_held() > c->memory_limit - size);
}

/* ---- the reserve ----------------------------------------------------------------------------- */

enum { RESERVE = 16 << 20, RESERVE_LEAST = 1 << 16 };

struct cfx__region {
    struct cfx__region *next;
    size_t used, size, live; /* live: pieces in use */
    bool owned;              /* by a context; else it goes when live is 0 */
    max_align_t data[];
};

/* In front of each piece. */
typedef struct piece {
    _Alignas(max_align_t) size_t size;
} piece;

static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cfx__region *regions; /* all there are, of all threads */
static _Atomic size_t pieces;       /* in use, in all regions */

#ifdef CFX_SANITIZE
/* What lies in a region is in use: the leak check, where there is one, follows its pointers. */
__attribute__((weak)) void __lsan_register_root_region(const void *p, size_t size);
__attribute__((weak)) void __lsan_unregister_root_region(const void *p, size_t size);

static void region_tell(const void *p, size_t size, bool mapped) {
    if (mapped ? !__lsan_register_root_region : !__lsan_unregister_root_region)
        return;
    (mapped ? __lsan_register_root_region : __lsan_unregister_root_region)(p, size);
}
#else
static void region_tell(const void *p, size_t size, bool mapped) {
    (void)p, (void)size, (void)mapped;
}
#endif

/* A region for a piece of so many bytes: as large as a reserve is to be, or as there is. */
static struct cfx__region *region_map(size_t bytes) {
    struct cfx__region *r;
    const size_t least = bytes + sizeof *r;
    size_t size = least > RESERVE ? least : RESERVE;
    while ((r = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) == MAP_FAILED &&
           size / 2 >= least)
        size /= 2;
    if (r == MAP_FAILED)
        return NULL;
    region_tell(r, size, true);
    *r = (struct cfx__region){.next = regions, .size = size - sizeof *r, .owned = true};
    return regions = r;
}

/* Gives a region up; it goes once nothing in it is in use. */
static void region_leave(struct cfx__region *r) {
    r->owned = false;
    if (r->live)
        return;
    struct cfx__region **at = &regions;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    region_tell(r, sizeof *r + r->size, false);
    munmap(r, sizeof *r + r->size);
}

void cfx__reserve_make(cfx__context *c) {
    pthread_mutex_lock(&regions_lock);
    if (!c->reserve)
        c->reserve = region_map(RESERVE_LEAST);
    pthread_mutex_unlock(&regions_lock);
}

void cfx__reserve_leave(cfx__context *c) {
    pthread_mutex_lock(&regions_lock);
    if (c->reserve)
        region_leave(c->reserve);
    c->reserve = NULL;
    pthread_mutex_unlock(&regions_lock);
}

static void *region_take(struct cfx__region *r, size_t size) {
    if (r && !r->live)
        r->used = 0;
    if (!r || r->size - r->used < size)
        return NULL;
    piece *p = (piece *)((char *)r->data + r->used);
    r->used += size;
    r->live++;
    p->size = size - sizeof *p;
    atomic_fetch_add_explicit(&pieces, 1, memory_order_relaxed);
    return p + 1;
}

/* Memory from this thread's reserve, or from a further region when it is used up. */
static void *reserve_alloc(cfx__context *c, size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    size = ((size + 15) & ~(size_t)15) + sizeof(piece);
    pthread_mutex_lock(&regions_lock);
    void *p = region_take(c->reserve, size);
    if (!p) {
        struct cfx__region *full = c->reserve;
        c->reserve = region_map(size);
        if (full && c->reserve)
            region_leave(full);
        else if (full)
            c->reserve = full;
        p = region_take(c->reserve, size);
    }
    pthread_mutex_unlock(&regions_lock);
    return p;
}

static struct cfx__region *region_of(const void *p) {
    for (struct cfx__region *r = regions; r; r = r->next)
        if ((const char *)p >= (const char *)r->data &&
            (const char *)p < (const char *)r->data + r->size)
            return r;
    return NULL;
}

bool cfx__reserve_has(const void *p) {
    if (likely(!atomic_load_explicit(&pieces, memory_order_relaxed)))
        return false;
    pthread_mutex_lock(&regions_lock);
    bool has = region_of(p) != NULL;
    pthread_mutex_unlock(&regions_lock);
    return has;
}

/* Frees p if a reserve has it. */
static bool reserve_free(void *p) {
    if (likely(!atomic_load_explicit(&pieces, memory_order_relaxed)))
        return false;
    pthread_mutex_lock(&regions_lock);
    struct cfx__region *r = region_of(p);
    if (r) {
        atomic_fetch_sub_explicit(&pieces, 1, memory_order_relaxed);
        if (--r->live == 0 && !r->owned)
            region_leave(r);
    }
    pthread_mutex_unlock(&regions_lock);
    return r != NULL;
}

/* ---- allocation ------------------------------------------------------------------------------ */

typedef enum heap_kind { PLAIN, ZEROED, ALIGNED } heap_kind;

static void *heap(void *old, size_t size, heap_kind kind) {
    void *p = NULL;
    size = size ? size : 1;
    if (kind == ALIGNED)
        return posix_memalign(&p, 64, size) ? NULL : p;
    return kind == ZEROED ? calloc(1, size) : realloc(old, size);
}

/* What the heap gives, counted; NULL, with the error recorded, when it or the limit refuses even
 * after the recycled blocks were given back. Of aligned blocks the caller says what they were for.
 */
static inline void *ask(void *old, size_t size, heap_kind kind) {
    cfx__context *c = cfx__ctx();
    int64_t before = old ? (int64_t)malloc_usable_size(old) : 0;
    void *p = over_limit(c, size) ? NULL : heap(old, size, kind);
    if (unlikely(!p) && c->storage_cache) {
        cfx__block_cache_release(&c->storage_cache);
        p = over_limit(c, size) ? NULL : heap(old, size, kind);
    }
    if (likely(p)) {
        count(c, (int64_t)malloc_usable_size(p) - before);
        if (kind != ZEROED && size > (size_t)before)
            cfx__poison((char *)p + before, size - (size_t)before);
    } else if (kind != ALIGNED || over_limit(c, size))
        cfx__error_memory(size, over_limit(c, size));
    return p;
}

static void (*_Atomic spent)(void); /* see spare.h */

void cfx__memory_spent(void (*tell)(void)) { spent = tell; }

/* The last place to look. What is asked for here is small, and whoever asks stops soon: a loop that
 * goes on for 16 MiB and more, on a machine that has nothing left, is a mistake of the library's.
 */
static void *last_resort(size_t size) {
    void *p = reserve_alloc(cfx__ctx(), size);
    if (!p && spent)
        spent();
    if (!p)
        __builtin_trap();
    cfx__poison(p, size);
    return p;
}

void *cfx__alloc_try(size_t size) { return ask(NULL, size, PLAIN); }
void *cfx__alloc_aligned(size_t size) { return ask(NULL, size, ALIGNED); }

bool cfx__memory_headroom(size_t size) {
    void *p = heap(NULL, size, PLAIN);
    free(p);
    return p != NULL;
}

bool cfx__memory_wanted(size_t size) {
    bool there = size < RESERVE / 2 || cfx__memory_headroom(size);
    if (!there)
        cfx__error_memory(size, false);
    return there;
}

void *cfx__alloc_optional(size_t size) {
    void *p = heap(NULL, size, ZEROED);
    if (p)
        count(cfx__ctx(), (int64_t)malloc_usable_size(p));
    return p;
}

void *cfx__alloc(size_t size) {
    void *p = ask(NULL, size, PLAIN);
    return likely(p) ? p : last_resort(size);
}

void *cfx__alloc0(size_t size) {
    void *p = ask(NULL, size, ZEROED);
    return likely(p) ? p : memset(last_resort(size), 0, size);
}

/* Moves what does not lie in the heap, or may not stay there. */
static void *moved(void *old, size_t size, void *to) {
    if (!old || !to)
        return to;
    size_t had = cfx__reserve_has(old) ? ((piece *)old)[-1].size : malloc_usable_size(old);
    memcpy(to, old, had < size ? had : size);
    cfx__free(old);
    return to;
}

void *cfx__realloc_try(void *old, size_t size) {
    if (unlikely(cfx__reserve_has(old)))
        return moved(old, size, ask(NULL, size, PLAIN));
    return ask(old, size, PLAIN);
}

void *cfx__realloc(void *old, size_t size) {
    void *p = cfx__realloc_try(old, size);
    return likely(p) ? p : moved(old, size, last_resort(size));
}

void cfx__free(void *p) {
    if (!p || unlikely(reserve_free(p)))
        return;
    count(cfx__ctx(), -(int64_t)malloc_usable_size(p));
    cfx__poison(p, malloc_usable_size(p));
    free(p);
}
