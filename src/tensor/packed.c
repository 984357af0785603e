/* Forms of a storage's data; see packed.h. The list is short and its lock is held for a few
 * instructions; forms are reference-counted, so a form in use survives its removal from the
 * list. */
#include "packed.h"

#include <time.h>
#include <unistd.h>

enum { KEPT = 8 };
enum { LARGE = 1 << 16 }; /* bytes of a file that are worth giving back */

static void packed_free(void *p) {
    cfx__packed *f = p;
    if (!f->from)
        cfx__free(f->data);
    cfx_drop(f->from);
}

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

/* The form in the list, which may be in the making: it has no data then. Called locked. */
static cfx__packed *look_up(const cfx__storage *s, uint64_t key, size_t size) {
    cfx__packed *f = s->packed;
    while (f && (f->key != key || f->size != size))
        f = f->next;
    return f;
}

/* ---- lent ------------------------------------------------------------------------------------ */

static void lender_free(void *p) {
    cfx__lender *l = p;
    cfx_drop(l->file);
    cfx__free(l->of);
}

static const cfx__obj_type lender_type = {.name = "lender", .free = lender_free};

cfx__lender *cfx__lender_new(cfx__file_mapping *file, int nof) {
    cfx__lender *l = cfx__obj_make(&lender_type, sizeof *l);
    l->file = cfx_keep(file);
    l->of = cfx__alloc0((size_t)nof * sizeof *l->of);
    return l;
}

void cfx__packed_lend(cfx__storage *s, const cfx__packed *form) {
    cfx__packed *f = cfx__obj_make(&packed_type, sizeof *f);
    const cfx_obj head = f->head;
    *f = *form;
    f->head = head;
    f->version = s->version;
    f->unchecked = true;
    cfx_keep(f->from);
    cfx__packed_keep(s, f);
    cfx_drop(f);
}

int cfx__packed_all(cfx__storage *s, cfx__packed **forms, int most) {
    int n = 0;
    cfx__lock(&s->packed_lock);
    cfx__packed *old = take_old(s, KEPT);
    for (cfx__packed *f = s->packed; f && n < most; f = f->next)
        if (f->data && !f->local && !f->unchecked)
            forms[n++] = cfx_keep(f);
    cfx__unlock(&s->packed_lock);
    drop_all(old);
    return n;
}

static void count_one(int64_t *count, int64_t by) {
    __atomic_fetch_add(count, by, __ATOMIC_RELAXED);
}

/* Whether the bytes that a form was made of are those of the storage. Threads that ask at once find
 * the same. */
static bool is_of(const cfx__storage *s, cfx__lent_of *of) {
    int is = __atomic_load_n((int *)&of->is, __ATOMIC_RELAXED);
    if (is == CFX__LENT_UNKNOWN) {
        is = cfx__packed_sum(s->data, s->size) == of->sum ? CFX__LENT_SAME : CFX__LENT_OTHER;
        __atomic_store_n((int *)&of->is, is, __ATOMIC_RELAXED);
    }
    return is == CFX__LENT_SAME;
}

/* Whether a form is ours, or lent and what it should be. */
static bool is_believed(const cfx__storage *s, cfx__packed *f) {
    if (likely(!__atomic_load_n(&f->unchecked, __ATOMIC_ACQUIRE)))
        return true;
    if (!is_of(s, &f->from->of[f->of])) {
        count_one(&f->from->other, 1);
        return false;
    }
    if (cfx__packed_sum(f->data, f->size) != f->sum) {
        count_one(&f->from->broken, 1);
        return false;
    }
    count_one(&f->from->used, 1);
    count_one(&f->from->bytes, (int64_t)f->size);
    __atomic_store_n(&f->unchecked, false, __ATOMIC_RELEASE);
    return true;
}

static void take_out(cfx__storage *s, cfx__packed *f) {
    cfx__lock(&s->packed_lock);
    cfx__packed **at = &s->packed;
    while (*at && *at != f)
        at = &(*at)->next;
    const bool found = *at != NULL;
    if (found) {
        *at = f->next;
        f->next = NULL;
    }
    cfx__unlock(&s->packed_lock);
    if (found)
        cfx_drop(f);
}

cfx__packed *cfx__packed_find(cfx__storage *s, uint64_t key, size_t size) {
    cfx__lock(&s->packed_lock);
    cfx__packed *old = take_old(s, KEPT), *f = look_up(s, key, size);
    f = f && f->data ? cfx_keep(f) : NULL;
    cfx__unlock(&s->packed_lock);
    drop_all(old);
    if (!f || is_believed(s, f))
        return f;
    take_out(s, f);
    cfx_drop(f);
    return NULL;
}

/* ---- made of others -------------------------------------------------------------------------- */

/* What the data of a storage was computed of. */
typedef struct {
    cfx__storage *of; /* counted */
    uint64_t by;
    cfx__packed *form; /* that has the data; counted */
} origin;

static void origin_free(void *p) {
    origin *o = p;
    cfx_drop(o->form);
    cfx_drop(o->of);
    cfx__free(o);
}

/* ---- made once ------------------------------------------------------------------------------- */

/* Stands in the list for a form that a thread is making: it has no data. */
typedef struct {
    cfx__packed form;
    pid_t maker;
} in_the_making;

static cfx__packed *place_for(const cfx__storage *s, uint64_t key, size_t size) {
    in_the_making *place = cfx__obj_make(&packed_type, sizeof *place);
    place->form.key = key;
    place->form.version = s->version;
    place->form.size = size;
    place->maker = getpid();
    return &place->form;
}

/* The form, or that which another thread is making, or else `own`, which is put in the list. */
static cfx__packed *found_or(cfx__storage *s, cfx__packed *own) {
    cfx__lock(&s->packed_lock);
    cfx__packed *old = take_old(s, KEPT), *f = look_up(s, own->key, own->size);
    if (!f) {
        f = own;
        own->next = s->packed;
        s->packed = cfx_keep(own);
    }
    cfx_keep(f);
    cfx__unlock(&s->packed_lock);
    drop_all(old);
    return f;
}

cfx__packed *cfx__packed_get(cfx__storage *s, uint64_t key, size_t size, cfx__packed_fn *make,
                             void *user) {
    const origin *from = s->release == origin_free && !s->version ? s->owner : NULL;
    if (from) /* and nobody wrote to it since */
        return cfx__packed_get(from->of, cfx__hash_mix(key, from->by), size, make, user);
    if (s->foreign)
        return make(user);
    cfx__packed *f = cfx__packed_find(s, key, size);
    if (likely(f != NULL))
        return f;
    cfx__packed *place = place_for(s, key, size);
    f = found_or(s, place);
    while (f != place && !f->data) { /* another thread is at it */
        if (((in_the_making *)f)->maker != getpid()) /* which a forked child does not have */
            take_out(s, f);
        else
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        cfx_drop(f);
        f = found_or(s, place);
    }
    while (f != place && !is_believed(s, f)) {
        take_out(s, f);
        cfx_drop(f);
        f = found_or(s, place);
    }
    if (f == place) {
        cfx_drop(f);
        f = make(user);
        if (f) { /* for whom the form is looked for here, whatever it was made of on the way */
            f->key = key;
            f->version = place->version;
            cfx__packed_keep(s, f);
            if (s->size >= LARGE)
                cfx__file_unload(s);
        }
        take_out(s, place);
    }
    cfx_drop(place);
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

/* ---- tensors made of others ------------------------------------------------------------------ */

enum { BEYOND = 64 }; /* zeros behind the elements, which whole vectors may read */

typedef struct {
    const cfx_tensor *of;
    uint64_t key;
    size_t size;
    cfx__packed_fill_fn *fill;
    void *user;
} filling;

static cfx__packed *make_filled(void *user) {
    const filling *f = user;
    cfx__packed *form = cfx__packed_new(f->of->storage, f->key, f->size);
    if (form) { /* all of it is written to files of prepared weights */
        f->fill(f->user, form->data);
        memset((char *)form->data + f->size - BEYOND, 0, BEYOND);
    }
    return form;
}

cfx_tensor *cfx__packed_tensor(const cfx_tensor *of, uint64_t by, cfx_dtype dtype, int ndim,
                               const int64_t *shape, cfx__packed_fill_fn *fill, void *user) {
    const int64_t numel = cfx__shape_numel((cfx_site){0}, ndim, shape);
    if (numel < 0)
        return &cfx__tensor_bad;
    by = cfx__hash_mix(by, (uint64_t)of->offset);
    filling f = {of, by, (size_t)(numel * cfx_dtype_size(dtype)) + BEYOND, fill, user};
    cfx__packed *form = cfx__packed_get(of->storage, by, f.size, make_filled, &f);
    if (!form) /* there is no memory */
        return cfx__tensor_empty((cfx_site){0}, dtype, false, ndim, shape, NULL);
    origin *o = cfx__alloc(sizeof *o);
    *o = (origin){cfx_keep(of->storage), by, form};
    cfx_tensor *t = cfx_tensor_borrow(dtype, ndim, shape, form->data, origin_free, o);
    if (!cfx__obj_is_bad(t))
        t->storage->foreign = of->storage->foreign;
    return t;
}
