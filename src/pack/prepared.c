/* Packed weights in a file beside a model: forms that operators made of its tensors
 * (src/tensor/packed.h) are written to the file, and later processes that open the model use them.
 *
 * The file has a header, a list of storages with their forms, and the data of the forms, each
 * aligned to a cache line. It is verified before use. It is not opened if anybody else could
 * have written it. The header has a checksum of header and list; machine and source version must
 * match; each form must lie inside the file, and its key and size must be those that a kernel
 * requests. When a kernel requests a form, its data must match its checksum, and the data of the
 * model's tensor must match the checksum recorded for it. The latter check is skipped if the
 * model file is the one that was prepared: the same inode, size, modification and change times,
 * with the change older than the preparation by more than a clock step. */
#include <cfx/pack.h>

#include "../ops/ready.h"
#include "../tensor/packed.h"
#include "../graph/graph.h"
#include "prepared.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, MOST_FORMS = 16, NAME_MOST = 4096 };

/* Which file it was. */
typedef struct {
    uint64_t device, inode, size, written, changed; /* times in nanoseconds */
} stamp;

typedef struct {
    char magic[8];
    uint64_t sum;       /* of all that follows here, and of the list */
    uint64_t machine;   /* of what cfx__ready_machine says */
    stamp model;
    uint64_t made;      /* when, in nanoseconds */
    uint64_t nstorages, nforms;
    uint64_t list;      /* bytes */
} head;

/* In the list: a storage, its name, its forms. */
typedef struct {
    uint64_t size, sum, nforms, name; /* bytes of the name, with zeros to whole words */
} storage_entry;

typedef struct {
    uint64_t key, size, sum, at;
} form_entry;

static const char magic[8] = "cfxprep1";

/* What is known of the file beside a program. */
typedef struct {
    cfx_obj head;
    char *path, *refused;
    cfx__lender *lender; /* counted; NULL: refused */
} prepared;

static void prepared_free(void *obj) {
    prepared *p = obj;
    cfx__free(p->path);
    cfx__free(p->refused);
    cfx_drop(p->lender);
}

static const cfx__obj_type prepared_type = {.name = "prepared", .free = prepared_free};

static const char *path_of(const char *model) { return cfx__text_format("%s.prepared", model); }

static uint64_t machine_sum(void) {
    const char *text = cfx__ready_machine();
    return cfx__packed_sum(text, strlen(text));
}

static uint64_t nanoseconds(struct timespec t) {
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* All zero where the path names no file by itself: a program inside an archive, tensors beside. */
static stamp stamp_of(const char *model) {
    struct stat st;
    const size_t len = strlen(model);
    if (len < 4 || strcmp(model + len - 4, ".pt2") || stat(model, &st) != 0)
        return (stamp){0};
    return (stamp){(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
                   nanoseconds(st.st_mtim), nanoseconds(st.st_ctim)};
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    const cfx_program *program;
    const cfx__file_mapping *file;
    const head *head;
    size_t at;           /* in the list */
    uint64_t left;       /* forms that the head still promises */
    bool lends;          /* else it is only looked whether the list is whole */
} reading;

/* The next n bytes of the list; NULL where it ends. */
static const void *next_of(reading *r, uint64_t n) {
    const size_t end = sizeof(head) + (size_t)r->head->list;
    if (n > end - r->at)
        return NULL;
    const void *p = r->file->data + r->at;
    r->at += (size_t)n;
    return p;
}

static bool is_inside(const reading *r, const form_entry *f) {
    const uint64_t from = sizeof(head) + r->head->list, size = r->file->size;
    return f->at % LINE == 0 && f->at >= from && f->at <= size && f->size <= size - f->at;
}

static cfx__storage *storage_called(const cfx_program *p, const char *name) {
    cfx_value key = cfx_string_value(name);
    const cfx_value *v = cfx_dict_find(p->state, key);
    v = v ? v : cfx_dict_find(p->constants, key);
    return v && v->tag == CFX_TAG_TENSOR ? cfx_as_tensor(*v)->storage : NULL;
}

/* One storage and its forms, lent where the program has it. False where the list is broken. */
static bool read_storage(reading *r, cfx__lender *lender, int number) {
    const storage_entry *e = next_of(r, sizeof *e);
    const char *name = e && e->name && e->name <= NAME_MOST && e->name % 8 == 0
                           ? next_of(r, e->name)
                           : NULL;
    if (!name || name[e->name - 1] || e->nforms > r->left)
        return false;
    cfx__storage *s = storage_called(r->program, name);
    lender->of[number].sum = e->sum;
    r->left -= e->nforms;
    for (uint64_t i = 0; i < e->nforms; i++) {
        const form_entry *f = next_of(r, sizeof *f);
        if (!f || !is_inside(r, f))
            return false;
        const cfx__packed lent = {.key = f->key, .data = r->file->data + f->at,
                                  .size = (size_t)f->size, .sum = f->sum, .from = lender,
                                  .of = number};
        if (r->lends && s && s->data && s->size == e->size && !s->foreign && f->size)
            cfx__packed_lend(s, &lent);
    }
    return true;
}

/* Why a file cannot be what it should be; NULL: nothing is known against it. */
static const char *wrong_with(const cfx__file_mapping *m) {
    const head *h = (const head *)m->data;
    if (m->size < sizeof *h || memcmp(h->magic, magic, sizeof magic))
        return "it is no prepared file";
    if (h->list > m->size - sizeof *h || h->nstorages > h->list / sizeof(storage_entry) ||
        h->nforms > h->list / sizeof(form_entry))
        return "it is shorter than it says";
    const char *from = (const char *)&h->machine;
    if (cfx__packed_sum(from, (size_t)(m->data + sizeof *h + h->list - from)) != h->sum)
        return "it is not what was written";
    if (h->machine != machine_sum())
        return "it was made for another machine, or by another version of cfx";
    return NULL;
}

/* Whether the model's file is the one that was prepared, by what its folder says. */
static bool is_same_file(const head *h, const char *model) {
    enum { STEP = 2000000000 }; /* of the clock of any file system */
    const stamp now = stamp_of(model);
    return now.size && !memcmp(&now, &h->model, sizeof now) && now.changed + STEP < h->made;
}

static const char *lend_all(prepared *to, const cfx_program *p, const cfx__file_mapping *m,
                            const char *model) {
    const char *wrong = wrong_with(m);
    if (wrong)
        return wrong;
    const head *h = (const head *)m->data;
    to->lender = cfx__lender_new((cfx__file_mapping *)m, (int)h->nstorages);
    to->lender->nforms = (int)h->nforms;
    const bool same = is_same_file(h, model);
    for (int lends = 0; lends < 2; lends++) {
        reading r = {p, m, h, sizeof *h, h->nforms, lends};
        for (uint64_t i = 0; i < h->nstorages; i++) {
            to->lender->of[i].is = same ? CFX__LENT_SAME : CFX__LENT_UNKNOWN;
            if (!read_storage(&r, to->lender, (int)i))
                return "it is shorter than it says";
        }
    }
    return NULL;
}

void cfx__prepared_find(cfx_program *p, const char *path) {
    size_t mark = cfx_scope_open();
    const char *beside = path_of(path);
    struct stat st;
    if (cfx_ok() && lstat(beside, &st) == 0) {
        prepared *made = cfx__obj_make(&prepared_type, sizeof *made);
        made->path = cfx__text_copy(beside, strlen(beside));
        cfx__file_mapping *m = cfx__file_map_own(beside);
        const char *why = m ? lend_all(made, p, m, path) : cfx_error_last()->message;
        if (why)
            made->refused = cfx__text_copy(why, strlen(why));
        if (!m)
            cfx__error_forgive();
        cfx_drop(m);
        p->own_->prepared = made;
    }
    cfx_scope_close(mark);
}

cfx_value cfx_program_prepared(const cfx_program *p) {
    const prepared *made = p && !cfx_failed(p) ? p->own_->prepared : NULL;
    if (!made)
        return cfx_none();
    const cfx__lender *l = made->refused ? NULL : made->lender;
    return cfx_dict_of("path", made->path, "refused",
                       made->refused ? cfx_string_value(made->refused) : cfx_none(), "forms",
                       l ? l->nforms : 0, "used", l ? l->used : 0, "bytes", l ? l->bytes : 0,
                       "other", l ? l->other : 0, "broken", l ? l->broken : 0);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A storage of the program, with the forms that it has. */
typedef struct {
    const char *name;
    cfx__storage *storage;
    int n;
    cfx__packed *forms[MOST_FORMS]; /* counted */
} item;

typedef VEC(item) items;

/* Whether a storage has been met, which it has from now on. */
static bool is_met(cfx_dict *met, const cfx__storage *s) {
    const cfx_value key = cfx_int((int64_t)(intptr_t)s);
    const bool known = cfx_dict_find(met, key) != NULL;
    cfx_dict_put(met, key, cfx_none());
    return known;
}

/* Adds the storages of a dict of tensors that have forms. */
static void gather(items *all, cfx_dict *met, const cfx_dict *tensors) {
    for (int64_t i = 0; i < tensors->len; i++) {
        const cfx_value v = tensors->entries[i].value;
        cfx__storage *s = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v)->storage : NULL;
        const char *name = cfx_text(tensors->entries[i].key);
        if (!s || !s->packed || !name || strlen(name) >= NAME_MOST - 8 || is_met(met, s))
            continue;
        item one = {.name = name, .storage = s};
        one.n = cfx__packed_all(s, one.forms, MOST_FORMS);
        if (one.n)
            VEC_PUSH(*all, one);
    }
}

static void put(cfx__text *t, const void *p, size_t n) { cfx__text_add(t, p, n); }

static uint64_t in_lines(uint64_t n) { return (n + LINE - 1) / LINE * LINE; }

/* The list; forms lie behind it in its order, the first at `at`. Returns their number. */
static uint64_t put_list(cfx__text *t, const items *all, uint64_t at) {
    static const char zeros[8];
    uint64_t count = 0;
    for (size_t i = 0; i < all->len; i++) {
        const item *one = &all->data[i];
        const size_t len = strlen(one->name), room = (len + 8) / 8 * 8;
        const storage_entry e = {one->storage->size,
                                 cfx__packed_sum(one->storage->data, one->storage->size),
                                 (uint64_t)one->n, room};
        put(t, &e, sizeof e);
        put(t, one->name, len);
        put(t, zeros, room - len);
        for (int k = 0; k < one->n; k++, count++) {
            const cfx__packed *f = one->forms[k];
            const form_entry form = {f->key, f->size, cfx__packed_sum(f->data, f->size), at};
            put(t, &form, sizeof form);
            at += in_lines(f->size);
        }
    }
    return count;
}

static void write_lines(FILE *file, const void *p, size_t n) {
    static const char zeros[LINE];
    fwrite(p, 1, n, file);
    fwrite(zeros, 1, (size_t)in_lines(n) - n, file);
}

static bool write_all(const char *to, const items *all, head h, const cfx__text *list) {
    cfx__file_save s;
    if (!cfx__file_save_open(&s, to))
        return false;
    if (fchmod(fileno(s.file), S_IRUSR | S_IWUSR) != 0)
        errno = 0; /* a file system without rights: whoever opens it looks again */
    fwrite(&h, 1, sizeof h, s.file);
    fwrite(list->data, 1, list->len, s.file);
    for (size_t i = 0; i < all->len; i++)
        for (int k = 0; k < all->data[i].n; k++)
            write_lines(s.file, all->data[i].forms[k]->data, all->data[i].forms[k]->size);
    return cfx__file_save_close(&s, true);
}

static bool save(const items *all, const char *model, cfx_dict *report) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    head h = {.machine = machine_sum(), .model = stamp_of(model), .made = nanoseconds(now),
              .nstorages = all->len};
    cfx__text list = {0};
    memcpy(h.magic, magic, sizeof magic);
    put_list(&list, all, 0); /* for its length, which the places of forms do not change */
    const uint64_t first = in_lines(sizeof h + list.len);
    list.len = 0;
    h.nforms = put_list(&list, all, first);
    while (sizeof h + list.len < first)
        put(&list, "", 1);
    h.list = list.len;
    cfx__text summed = {0};
    put(&summed, &h.machine, sizeof h - offsetof(head, machine));
    put(&summed, list.data, list.len);
    h.sum = cfx__packed_sum(summed.data, summed.len);
    cfx__text_release(&summed);
    const char *to = path_of(model);
    const bool fine = cfx_ok() && write_all(to, all, h, &list);
    cfx__text_release(&list);
    int64_t bytes = 0;
    for (size_t i = 0; i < all->len; i++)
        for (int k = 0; k < all->data[i].n; k++)
            bytes += (int64_t)all->data[i].forms[k]->size;
    if (fine && report) {
        cfx_dict_set(report, "path", cfx_string_value(to));
        cfx_dict_set(report, "forms", cfx_int((int64_t)h.nforms));
        cfx_dict_set(report, "bytes", cfx_int(bytes));
    }
    return fine;
}

bool cfx_program_prepare(const cfx_program *p, const char *path, cfx_dict *report) {
    if (!path || !cfx__program_whole((cfx_site){0}, p)) {
        if (cfx_ok())
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return false;
    }
    size_t mark = cfx_scope_open();
    items all = {0};
    cfx_dict *met = cfx_dict_new();
    gather(&all, met, p->state);
    gather(&all, met, p->constants);
    bool fine = all.len > 0;
    if (!fine)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "nothing of '%s' is packed: run it first, by the plan; what has no products and "
                 "no convolutions needs no preparing",
                 path);
    fine = fine && save(&all, path, report);
    for (size_t i = 0; i < all.len; i++)
        for (int k = 0; k < all.data[i].n; k++)
            cfx_drop(all.data[i].forms[k]);
    VEC_FREE(all);
    cfx_scope_close(mark);
    return fine;
}
