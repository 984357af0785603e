/* Loads weights from a file into a program by name. All names of either may have a common
 * prefix: "module." in a checkpoint, "model." in an export. */
#include "weights.h"

#include <cfx/ops.h>

bool cfx__weights_ends(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

void cfx__weights_note(cfx_dict *report, const char *list, const char *name) {
    cfx_value v = cfx_dict_get(report, list);
    if (v.tag != CFX_TAG_LIST) {
        v = cfx_list_value(0, NULL);
        cfx_dict_set(report, list, v);
    }
    cfx_list_append(cfx_as_list(v), cfx_string_value(name));
}

/* ---- names ----------------------------------------------------------------------------------- */

/* How a name of the program becomes one of the file: so many letters less in front, then these. */
typedef struct renaming {
    size_t drop;
    const char *add;
} renaming;

/* A name of the program as the file has it; scope. NULL: too short. */
static const char *renamed(const char *name, renaming r) {
    return strlen(name) > r.drop ? cfx__text_format("%s%s", r.add, name + r.drop) : NULL;
}

/* Where the longest ending begins that two names share from a dot on; false: none. */
static bool shared_ending(const char *a, const char *b, size_t *in_a, size_t *in_b) {
    size_t i = strlen(a), k = strlen(b);
    bool found = false;
    while (i && k && a[i - 1] == b[k - 1]) {
        i--, k--;
        if ((!i || a[i - 1] == '.') && (!k || b[k - 1] == '.')) {
            *in_a = i;
            *in_b = k;
            found = true;
        }
    }
    return found;
}

/* How many names of the program the file has then; all begin with what is dropped. */
static int64_t matches(const cfx_dict *program, const cfx_dict *file, const char *first,
                       renaming r) {
    int64_t n = 0;
    for (int64_t i = 0; i < program->len; i++)
        CFX_SCOPE {
            const char *name = cfx_text(program->entries[i].key);
            const char *other = strncmp(name, first, r.drop) ? NULL : renamed(name, r);
            n += other && !cfx_is_none(cfx_dict_get(file, other));
        }
    return n;
}

/* The renaming by which most names of the program are in the file; scope. */
static renaming find_renaming(const cfx_dict *program, const cfx_dict *file) {
    enum { NAMES = 4, TRIES = 16 };
    renaming best = {0, ""};
    int64_t most = matches(program, file, "", best);
    int tries = 0;
    for (int64_t i = 0; i < program->len && i < NAMES && most < program->len; i++) {
        const char *name = cfx_text(program->entries[i].key);
        for (int64_t k = 0; k < file->len && tries < TRIES; k++) {
            const char *other = cfx_text(file->entries[k].key);
            size_t drop, keep;
            if (!other || !shared_ending(name, other, &drop, &keep) || (!drop && !keep))
                continue;
            const renaming r = {drop, cfx__text_format("%.*s", (int)keep, other)};
            const int64_t n = matches(program, file, name, r);
            tries++;
            if (n > most) {
                most = n;
                best = r;
            }
        }
    }
    return best;
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct loading {
    cfx_program *p;
    const cfx_dict *file;
    renaming renaming;
    cfx_dict *state, *report, *used;
    cfx__text wrong;
} loading;

static void tell(loading *l, const char *name, const char *fmt, ...) CFX_PRINTF(3, 4);
static void tell(loading *l, const char *name, const char *fmt, ...) {
    va_list ap;
    cfx__text_printf(&l->wrong, "%s%s ", l->wrong.len ? "; " : "", name);
    va_start(ap, fmt);
    cfx__text_vprintf(&l->wrong, fmt, ap);
    va_end(ap);
}

/* The tensor of a file in the dtype of the program's; floats are converted and noted. */
static void put(loading *l, const char *name, const cfx_tensor *old, cfx_tensor *t) {
    if (!cfx__tensor_same_shape(old, t)) {
        tell(l, name, "is %s there, %s in the program", cfx__shape_text(t->ndim, t->shape),
             cfx__shape_text(old->ndim, old->shape));
        return;
    }
    const bool floats = cfx__dtype_is_float(old->dtype) && cfx__dtype_is_float(t->dtype);
    if (old->dtype != t->dtype && !floats) {
        tell(l, name, "is %s there, %s in the program", cfx_dtype_name(t->dtype),
             cfx_dtype_name(old->dtype));
        return;
    }
    if (old->dtype != t->dtype) {
        cfx__weights_note(l->report, "converted", name);
        t = cfx_to(t, cfx_dtype_value(old->dtype));
    }
    cfx_dict_set(l->state, name, cfx_tensor_value(t));
    cfx__weights_note(l->report, "loaded", name);
}

/* Whether a name that the file lacks is another name of a tensor that it has: a file that has each
 * tensor once leaves it out. */
static bool put_tied(loading *l, const char *name, const cfx_tensor *old) {
    for (int64_t i = 0; i < l->state->len; i++) {
        const char *other = cfx_text(l->state->entries[i].key);
        const cfx_tensor *t = cfx_as_tensor(cfx_dict_get(l->p->state, other));
        if (!cfx_tensor_shares(t, old) || t->data != old->data || !cfx__tensor_same_shape(t, old))
            continue;
        cfx_dict_set(l->state, name, l->state->entries[i].value);
        cfx__weights_note(l->report, "loaded", name);
        return true;
    }
    return false;
}

static void load(loading *l, bool tied) {
    for (int64_t i = 0; i < l->p->state->len && cfx_ok(); i++) {
        const char *name = cfx_text(l->p->state->entries[i].key);
        const cfx_tensor *old = cfx_as_tensor(l->p->state->entries[i].value);
        const char *there = renamed(name, l->renaming);
        cfx_value v = there ? cfx_dict_get(l->file, there) : cfx_none();
        if (v.tag == CFX_TAG_TENSOR && !tied) {
            cfx_dict_set(l->used, there, cfx_bool(true));
            put(l, name, old, cfx_as_tensor(v));
        } else if (v.tag != CFX_TAG_TENSOR && tied && !put_tied(l, name, old)) {
            cfx__weights_note(l->report, "missing", name);
        }
    }
}

/* "a, b, c and 4 more"; scope. */
static const char *listed(cfx_value list) {
    enum { SHOWN = 5 };
    cfx__text t = {0};
    for (int64_t i = 0; i < cfx_len(list) && i < SHOWN; i++)
        cfx__text_printf(&t, "%s%s", i ? ", " : "", cfx_text(cfx_at(list, i)));
    if (cfx_len(list) > SHOWN)
        cfx__text_printf(&t, " and %lld more", (long long)(cfx_len(list) - SHOWN));
    return cfx__text_take(&t);
}

static bool finish(loading *l, const char *path, bool partial) {
    const cfx_value missing = cfx_dict_get(l->report, "missing");
    for (int64_t i = 0; i < l->file->len; i++)
        if (!cfx_dict_find(l->used, l->file->entries[i].key))
            cfx__weights_note(l->report, "unused", cfx_text(l->file->entries[i].key));
    cfx_dict_set(l->report, "prefix", cfx_string_value(l->renaming.add));
    if (!l->state->len && !l->wrong.len && l->p->state->len)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "'%s' has none of the program's weights: it has %s, the program %s", path,
                 l->file->len ? cfx_text(l->file->entries[0].key) : "nothing",
                 cfx_text(l->p->state->entries[0].key));
    else if (l->wrong.len)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' does not fit the program: %s", path,
                 l->wrong.data);
    else if (missing.tag == CFX_TAG_LIST && !partial)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' lacks %lld of the program's %lld weights: %s",
                 path, (long long)cfx_len(missing), (long long)l->p->state->len, listed(missing));
    return cfx_ok() && cfx_program_load_state_dict(l->p, l->state, false);
}

bool cfx_program_load_weights(cfx_program *p, const char *path, bool partial, cfx_dict *report) {
    if (!cfx_ok())
        return false;
    if (!p || cfx_failed(p) || !path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "weights go from a file into a program, not NULL");
        return false;
    }
    size_t mark = cfx_scope_open();
    const cfx_dict *file = cfx_tensors_read(path);
    loading l = {.p = p, .file = file, .state = cfx_dict_new(), .used = cfx_dict_new(),
                 .report = report ? report : cfx_dict_new()};
    bool fine = false;
    if (file) {
        l.renaming = find_renaming(p->state, file);
        load(&l, false);
        load(&l, true);
        fine = finish(&l, path, partial);
    }
    cfx__text_release(&l.wrong);
    cfx_scope_close(mark);
    return fine;
}
