/* base: what everything stands on.
 *
 * Invariant: all state of the library is in one thread-local context. An object made by the
 * library is on the scope stack once for the count that the scope owns. Exactly one function sets
 * the error (cfx_fail, over cfx__fail_list) and one forgets it (cfx_error_clear). */
#ifndef CFX__BASE_H
#define CFX__BASE_H

#include <cfx/base.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- numbers ------------------------------------------------------------------------------ */

/* Whether a float, cut towards zero, is an int64; no other converts in C. */
static inline bool cfx__int64_fits(double f) { return f >= -0x1p63 && f < 0x1p63; }

/* A float cut towards zero; what does not fit, NaN too, becomes the smallest integer, as on the
 * machines PyTorch runs on. */
static inline int64_t cfx__int64_of(double f) {
    return cfx__int64_fits(f) ? (int64_t)f : INT64_MIN;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Never NULL, for what the library needs to go on: when the heap refuses, the error is recorded and
 * a reserve of the thread's serves (memory.c). Loops over a file, a graph or a list look at cfx_ok,
 * so that little is asked for after that. */
void *cfx__alloc(size_t size);
void *cfx__alloc0(size_t size);
void *cfx__realloc(void *p, size_t size);
void cfx__free(void *p); /* of all these and of those below */

/* For what grows with data: NULL, with the error recorded, when there is no memory. */
void *cfx__alloc_try(size_t size);
void *cfx__realloc_try(void *p, size_t size); /* p stays as it was when NULL is returned */
/* For what only makes things faster: NULL, and no error. Zeroed. */
void *cfx__alloc_optional(size_t size);

/* Blocks for tensor storage, 64-byte aligned, recycled per thread. NULL when out of memory, which
 * the caller records: it knows what for. */
struct cfx__block_cache;
void *cfx__block_alloc(size_t size);
void *cfx__alloc_aligned(size_t size); /* one that is not recycled; cfx__free */
void cfx__block_free(void *p, size_t size);
void cfx__block_cache_release(struct cfx__block_cache **cache);

/* Whether the heap has so much now, whatever the limit: asked before a library is entered that ends
 * the process when it gets no memory, and where a reserve would have to be as large. */
bool cfx__memory_headroom(size_t size);
/* The same with the error recorded: before tables as large as a file are made by cfx__alloc, whose
 * reserve is for little. */
bool cfx__memory_wanted(size_t size);

/* The thread's reserve, and whether memory lies in one. */
struct cfx__context;
void cfx__reserve_make(struct cfx__context *c);
void cfx__reserve_leave(struct cfx__context *c);
bool cfx__reserve_has(const void *p);
/* In debug builds memory that is given out or back holds what nobody can take for a result: NaN,
 * -1, no pointer. */
static inline void cfx__poison(void *p, size_t size) {
#ifdef CFX_POISON
    memset(p, 0xff, size);
#else
    (void)p, (void)size;
#endif
}
void cfx__memory_settle(void);                     /* adds this thread's count to that of all */
void cfx__error_memory(size_t size, bool limited); /* records it, allocating nothing */
/* Forgets an error that is an answer: this cannot be done, so something else is. Memory that ran
 * out and limits are no answers and stay. Returns whether no error is recorded now. */
bool cfx__error_forgive(void);

/* Blocks of one small size, recycled per thread without a trip to malloc. A block may be freed on
 * another thread than it came from. */
typedef enum cfx__spare_kind {
    CFX__SPARE_TENSOR,
    CFX__SPARE_STORAGE,
    CFX__SPARE_LIST,
    CFX__SPARES
} cfx__spare_kind;
void *cfx__spare_alloc(cfx__spare_kind kind, size_t size);
void cfx__spare_free(cfx__spare_kind kind, void *p);

/* A lock for a few instructions, where nobody waits long. Zero is open. */
static inline void cfx__lock(bool *lock) {
    while (__atomic_test_and_set(lock, __ATOMIC_ACQUIRE))
        ;
}
static inline void cfx__unlock(bool *lock) { __atomic_clear(lock, __ATOMIC_RELEASE); }

/* A bump allocator: everything in it dies at once. */
typedef struct cfx__arena {
    struct cfx__arena_chunk *chunk;
    size_t used, size;
} cfx__arena;

void *cfx__arena_alloc(cfx__arena *a, size_t size);
char *cfx__arena_copy(cfx__arena *a, const char *text, size_t len);
void cfx__arena_release(cfx__arena *a);

/* ---- objects ------------------------------------------------------------------------------ */

/* What an object is: each room has one constant of this for each kind of object it makes. */
typedef struct cfx__obj_type {
    const char *name;
    void (*free)(void *obj); /* releases what the object holds; the object itself is freed after */
    bool frees_itself;       /* ... unless `free` does that too */
} cfx__obj_type;

enum { CFX__BAD = 1 }; /* cfx_obj.flags: the object of a failed call; immortal, never on a scope */

/* Makes an object with one count, which the current scope owns. Zeroed. */
void *cfx__obj_new(const cfx__obj_type *type, size_t size);
/* Makes an object with one count that the caller owns (no scope knows of it). Zeroed. */
void *cfx__obj_make(const cfx__obj_type *type, size_t size);
/* Hands one count to the current scope. Returns obj. */
static inline void *cfx__scope_own(void *obj);

static inline bool cfx__obj_is_bad(const void *obj) {
    return obj && (((const cfx_obj *)obj)->flags & CFX__BAD);
}

/* ---- strings ------------------------------------------------------------------------------ */

typedef struct cfx_string {
    cfx_obj obj;
    uint32_t hash;
    size_t len;
    char text[];
} cfx_string;

cfx_string *cfx__string_new(const char *text, size_t len); /* scope */

/* A growing text. Zero is empty; cfx__text_release or cfx__text_take ends it. */
typedef struct cfx__text {
    char *data;
    size_t len, cap;
} cfx__text;

/* Makes room for len bytes more and the zero; false, with the error recorded, without memory. A
 * text without room stays as it is, whatever is added. */
bool cfx__text_room(cfx__text *t, size_t len);

/* Inline: with a constant length, which is the rule, little is left of it. */
static inline void cfx__text_add(cfx__text *t, const char *bytes, size_t len) {
    if (unlikely(t->len + len + 1 > t->cap) && !cfx__text_room(t, len))
        return;
    if (len)
        memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = 0;
}

static inline void cfx__text_puts(cfx__text *t, const char *s) { cfx__text_add(t, s, strlen(s)); }

static inline void cfx__text_putc(cfx__text *t, char c) {
    if (unlikely(t->len + 2 > t->cap) && !cfx__text_room(t, 1))
        return;
    t->data[t->len++] = c;
    t->data[t->len] = 0;
}

/* Numbers have a point, whatever the locale of the program. */
void cfx__text_printf(cfx__text *t, const char *fmt, ...) CFX_PRINTF(2, 3);
void cfx__text_vprintf(cfx__text *t, const char *fmt, va_list ap);
/* The same to a buffer, and from text: snprintf and strtod as they are in the C locale. */
int cfx__number_print(char *buffer, size_t size, const char *fmt, ...) CFX_PRINTF(3, 4);
double cfx__number_read(const char *text, char **end);
/* The double of fewest digits that a float is nearest to: 0.1, where its own is
 * 0.10000000149011612. */
double cfx__number_shortest(float f);
void cfx__text_release(cfx__text *t);
const char *cfx__text_take(cfx__text *t); /* the text as a scope string; t becomes empty */

char *cfx__text_copy(const char *text, size_t len); /* the caller frees it with cfx__free */
const char *cfx__text_format(const char *fmt, ...) CFX_PRINTF(1, 2); /* scope string */
uint64_t cfx__text_hash(const void *p, size_t n); /* of both ends of what is long; never another */
/* For tables: of all bytes, and another in each process, so that nobody can write names that lie in
 * one place. */
uint32_t cfx__text_key(const void *p, size_t n);
/* A hash with one more fact in it; the order of facts matters. */
static inline uint64_t cfx__hash_mix(uint64_t h, uint64_t fact) {
    h = (h ^ fact) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* One character of UTF-8 (surrogates, which Python has, included): its length in bytes and its
 * code; 0 where the bytes are none. And back. */
size_t cfx__utf8_get(const char *text, size_t left, uint32_t *code);
void cfx__utf8_put(cfx__text *t, uint32_t code);
bool cfx__utf8_printable(uint32_t code); /* as str.isprintable() says */
/* The first character of a text as a terminal may have it: itself, or an escape where it is no
 * character, or one that a terminal would obey. Returns how many bytes of the text it is. */
enum { CFX__SHOWN = 12 };
size_t cfx__utf8_show(const char *text, size_t left, char shown[CFX__SHOWN]);
void cfx__text_show(cfx__text *t, size_t from); /* so for all of t from there on */
/* Adds a text that stays on its line: ends of lines and tabs are escapes too. */
void cfx__text_line(cfx__text *t, const char *text, size_t len);
static inline void cfx__text_puts_line(cfx__text *t, const char *text) {
    cfx__text_line(t, text, strlen(text));
}
/* As cfx__text_vprintf, but what %s brings stays on its line, where it is not all there is. */
void cfx__text_vshow(cfx__text *t, const char *fmt, va_list ap);
void cfx__text_showf(cfx__text *t, const char *fmt, ...) CFX_PRINTF(2, 3);
/* How many letters to insert, drop, replace or swap with the next to come from a to b; more than
 * `most` where that is not enough. */
int cfx__text_distance(const char *a, const char *b, int most);
bool cfx__text_glob(const char *pattern, const char *text); /* * any run, ? any character */

/* ---- vectors and maps ------------------------------------------------------------------------ */

/* VEC(T) v = {0}; VEC_PUSH(v, x); v.data[i], v.len; VEC_FREE(v). */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *data;                                                                                   \
        size_t len, cap;                                                                           \
    }
#define VEC_PUSH(v, x) (VEC_ROOM(v, 1), (v).data[(v).len++] = (x))
#define VEC_ROOM(v, n)                                                                             \
    ((v).len + (n) > (v).cap                                                                       \
         ? (void)((v).data = cfx__vec_grow((v).data, &(v).cap, (v).len + (n), sizeof *(v).data))   \
         : (void)0)
/* Whether there is room for n more: for vectors that grow with data. */
#define VEC_TRY(v, n)                                                                              \
    ((v).len + (n) <= (v).cap ||                                                                   \
     cfx__vec_grow_try((void **)&(v).data, &(v).cap, (v).len + (n), sizeof *(v).data))
#define VEC_FREE(v) (cfx__free((v).data), (v).data = NULL, (v).len = (v).cap = 0)
void *cfx__vec_grow(void *data, size_t *cap, size_t need, size_t item);
bool cfx__vec_grow_try(void **data, size_t *cap, size_t need, size_t item);

/* From text to a pointer, in order of hash only. Keys are borrowed. Zero is empty. */
typedef struct cfx__map {
    struct cfx__map_slot {
        const char *key;
        uint32_t hash, len;
        void *value;
    } *slots;
    size_t len, cap;
} cfx__map;

void *cfx__map_get(const cfx__map *m, const char *key);
void *cfx__map_getn(const cfx__map *m, const char *key, size_t len);
void cfx__map_set(cfx__map *m, const char *key, void *value);
void cfx__map_remove(cfx__map *m, const char *key);
void cfx__map_release(cfx__map *m);

/* Hands a line to who cfx_set_log says (log.c). */
void cfx__log(const char *line);

/* A RuntimeError that is no mistake: what is asked for is not known before a run, such as the data
 * of a fake tensor. */
void cfx__fail_unknown(cfx_site at, const char *fmt, ...) CFX_PRINTF(2, 3);
bool cfx__error_unknown(void); /* whether such an error is recorded */
/* A RuntimeError of sizes that are beyond what memory, integers or an operator can take, and would
 * do were they smaller. */
void cfx__fail_large(cfx_site at, const char *fmt, ...) CFX_PRINTF(2, 3);
bool cfx__error_large(void); /* whether such an error is recorded */

/* cfx_fail for messages with texts of several lines in them (a graph, a tree), which stay so; those
 * of cfx_fail are shown on one. */
void cfx__fail_lines(cfx_error_kind kind, cfx_site at, const char *fmt, ...) CFX_PRINTF(3, 4);
/* cfx_fail for functions that take a format themselves: `before` as it is, then what that gives. */
void cfx__fail_list(cfx_error_kind kind, cfx_site at, const char *before, const char *fmt,
                    va_list ap);

/* Nanoseconds of a clock that nobody sets. */
int64_t cfx__clock_ns(void);

/* ---- the context ---------------------------------------------------------------------------- */

/* What a room keeps per thread beyond the fields below, and how it is freed by cfx_finish. */
typedef enum cfx__ctx_slot_id {
    CFX__SLOT_DISPATCH,
    CFX__SLOT_OPS,
    CFX__SLOT_GENERATOR,
    CFX__SLOT_GRAD,
    CFX__SLOT_NN,
    CFX__SLOT_TRACE,
    CFX__SLOT_SYM,
    CFX__SLOT_RUN,
    CFX__SLOT_REWRITE,
    CFX__SLOTS
} cfx__ctx_slot_id;

/* What an error is of, where that matters to who tries something. */
typedef enum cfx__error_cause {
    CFX__OF_ANYTHING,
    CFX__OF_UNKNOWN, /* what is not known yet */
    CFX__OF_LARGE    /* sizes beyond a limit */
} cfx__error_cause;

typedef struct cfx__context {
    bool known;  /* its end is arranged for */
    VEC(cfx_obj *) scope;
    bool failed;  /* an error is recorded */
    cfx__error_cause cause;
    cfx_error error;
    cfx__text message, notes;
    const char *op; /* the operator being called; static text */
    cfx_site at;    /* the caller's line of the call under way, for errors that know none */
    int threads; /* 0: not asked for, all cores */
    int float_dtype; /* what floats without a dtype are, plus 1; 0: float32 */
    cfx_precision precision;
    int card; /* where new tensors lie: the number of a card plus 1; 0: on the host */
    size_t memory_limit; /* 0: none, here and below */
    int64_t node_limit;
    int64_t deadline; /* nanoseconds of the monotonic clock; 0: none */
    double seconds;   /* that the deadline was set for */
    cfx_interrupt_fn *interrupt; /* NULL: nobody is asked */
    void *interrupt_user;
    int64_t ask_at;   /* when it is asked next */
    int64_t due;      /* the earlier of deadline and ask_at; 0: neither is */
    bool copy_files;
    uint64_t secret; /* what tables are keyed by; see cfx__text_key */
    cfx_log_fn *log; /* NULL: to stderr */
    void *log_user;
    int64_t uncounted;   /* bytes allocated less those freed, not yet added up (memory.c) */
    struct cfx__region *reserve;
    char memory_message[160]; /* of the error that there is no memory for */
    struct cfx__block_cache *storage_cache;
    struct cfx__spare {
        void *first; /* linked through their first word */
        int len;
    } spare[CFX__SPARES]; /* small blocks of one size each, ready for use */
    struct {
        void *data;
        void (*free)(void *);
    } slot[CFX__SLOTS];
} cfx__context;

/* The calling thread's context. Reached on every call many times over, hence inline and hence the
 * TLS model that needs no call to find it. */
extern _Thread_local cfx__context cfx__ctx_tls __attribute__((tls_model("initial-exec")));
void cfx__ctx_first_use(void);

static inline cfx__context *cfx__ctx(void) {
    if (unlikely(!cfx__ctx_tls.known))
        cfx__ctx_first_use();
    return &cfx__ctx_tls;
}

/* The caller's line of the call under way: of a module, a run, a layer that is made. An error that
 * has no line of its own is there. `enter` returns the one of the call around it, for `leave`. */
static inline cfx_site cfx__site(void) { return cfx__ctx()->at; }
static inline cfx_site cfx__site_enter(cfx_site at) {
    cfx__context *c = cfx__ctx();
    cfx_site outer = c->at;
    if (at.file)
        c->at = at;
    return outer;
}
static inline void cfx__site_leave(cfx_site outer) { cfx__ctx()->at = outer; }

/* The data of a slot; made by `make` and later freed by `done` if it is not there yet. */
void *cfx__ctx_slot_make(cfx__ctx_slot_id slot, void *(*make)(void), void (*done)(void *));

static inline void *cfx__ctx_slot(cfx__ctx_slot_id slot, void *(*make)(void),
                                  void (*done)(void *)) {
    void *data = cfx__ctx_tls.slot[slot].data;
    return likely(data != NULL) ? data : cfx__ctx_slot_make(slot, make, done);
}

static inline void *cfx__scope_own(void *obj) {
    cfx__context *c = cfx__ctx();
    VEC_PUSH(c->scope, (cfx_obj *)obj);
    return obj;
}

/* Whether there is time left and nobody wants to stop; else the error is recorded. Asked once a
 * node or an operator. */
bool cfx__limit_late(cfx__context *c);
static inline bool cfx__limit_time(void) {
    cfx__context *c = cfx__ctx();
    return likely(!c->due) || !cfx__limit_late(c);
}
/* Whether a graph may have so many nodes; else the error is recorded. */
bool cfx__limit_nodes(size_t nodes);

/* Whether the machine multiplies tiles of bf16 (AMX), and lets this process do so: it is tried. */
bool cfx__machine_has_tiles(void);
/* How the instruction that arranges tiles reads it. */
typedef struct cfx__tile_config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16]; /* of a row, by tile */
    uint8_t rows[16];
} cfx__tile_config;

/* Runs body(arg, begin, end) over [0, n) in pieces of at least `grain`, on as many of the threads
 * allowed as are idle (pool.c). Inside a body it runs all of it at once. */
typedef void cfx__parallel_fn(void *arg, int64_t begin, int64_t end);
void cfx__parallel(int64_t n, int64_t grain, cfx__parallel_fn *body, void *arg);
/* How many plain operations on elements are worth a thread; the grain where a unit has `work`. */
enum { CFX__THREAD_WORTH = 32768 };
static inline int64_t cfx__grain(double work) {
    return work >= CFX__THREAD_WORTH ? 1 : (int64_t)(CFX__THREAD_WORTH / (work < 1 ? 1 : work));
}
/* A plan begins or ends: in between, regions follow each other closely. */
void cfx__parallel_plan(bool begins);

#endif
