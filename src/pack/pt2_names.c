/* The tables of values in model.json. The table of tensors is as long as the graph and repeats
 * few texts many times, so it is not parsed as a whole. Start at cfx__pt2_names_read. */
#define _GNU_SOURCE /* memmem */
#include "pt2_names.h"

/* A description of tensors that is read when it is asked for, once for all that have it. */
typedef struct cfx__pt2_described {
    char *text;
    size_t len;
    cfx_value val; /* counted by the reader */
    bool made;
} described;

typedef cfx__pt2_names table;

/* Notes a value; NULL, with an error, where it was noted before. The name has to stay. */
static cfx__pt2_name *add_name(table *t, const char *name, cfx__pt2_kind kind) {
    if (cfx__map_get(&t->all, name)) {
        cfx__pt2_bad(t->r, "the value '%.200s' is described twice", name);
        return NULL;
    }
    cfx__pt2_name *x = cfx__arena_alloc(&t->arena, sizeof *x);
    x->kind = kind;
    cfx__map_set(&t->all, name, x);
    return x;
}

static bool read_table(table *t, const cfx__json *graph, const char *key, cfx__pt2_kind kind) {
    const cfx__json *pairs = cfx__json_get(graph, key);
    if (!pairs || pairs->kind == CFX__JSON_NULL)
        return true; /* older files have fewer tables */
    if (pairs->kind != CFX__JSON_OBJECT)
        return cfx__pt2_bad(t->r, "\"%s\" is no object", key);
    cfx__json_pairs(pairs, k, v) {
        cfx__pt2_name *x = add_name(t, k->text, kind);
        if (!x)
            return false;
        x->meta = v;
    }
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

bool cfx__pt2_has_hints(const char *text, size_t len) { return memmem(text, len, "\"hint\"", 6); }

static bool ignore(const cfx__json *key, const cfx__json *item, void *user) {
    (void)key, (void)item, (void)user;
    return true;
}

/* The tree of a description. Where it is none, reading the whole part tells the place. */
static bool read_described(const table *t, const described *d, cfx__json_tree *tree) {
    return cfx__json_read(tree, d->text, d->len, NULL) ||
           (cfx_ok() &&
            cfx__json_stream(t->parts->text, t->parts->tensors, t->parts->what, ignore, NULL) &&
            cfx__pt2_bad(t->r, "a tensor is described by no object"));
}

/* Whether it is JSON. Hints of symbols are noted before anything is made of expressions. */
static bool read_hints(const table *t, const described *d) {
    cfx__json_tree tree = {0};
    bool ok = read_described(t, d, &tree);
    if (ok)
        cfx__pt2_note_hints(t->r, tree.items.data);
    cfx__json_release(&tree);
    return ok;
}

/* Descriptions are found by their text. */
static bool add_described(const char *key, size_t klen, const char *value, size_t vlen,
                          void *user) {
    table *t = user;
    described *d = cfx__map_getn(&t->texts, value, vlen);
    if (!d) {
        d = cfx__arena_alloc(&t->arena, sizeof *d);
        d->text = cfx__arena_copy(&t->arena, value, vlen);
        d->len = vlen;
        cfx__map_set(&t->texts, d->text, d);
        if (!read_hints(t, d))
            return false;
    }
    cfx__pt2_name *x = add_name(t, cfx__arena_copy(&t->arena, key, klen), CFX__PT2_TENSOR);
    if (x)
        x->text = d;
    return x;
}

/* The same of a pair that had to be parsed. */
static bool add_parsed(const cfx__json *key, const cfx__json *item, void *user) {
    cfx__text text = {0};
    cfx__json_write(&text, item);
    bool ok = key && add_described(key->text, strlen(key->text), text.data, text.len, user);
    cfx__text_release(&text);
    return ok;
}

static bool read_tensors(table *t, const cfx__json *graph) {
    const cfx__json_part part = t->parts ? t->parts->tensors : (cfx__json_part){0};
    if (!part.text || *part.text != '{')
        return read_table(t, graph, "tensor_values", CFX__PT2_TENSOR);
    if (cfx__json_walk(part, add_described, t))
        return true;
    if (!cfx_ok())
        return false;
    cfx__map_release(&t->all); /* from the start, by a parser: it is right or tells why not */
    return cfx__json_stream(t->parts->text, part, t->parts->what, add_parsed, t);
}

static cfx_value described_val(table *t, described *d) {
    if (d->made)
        return d->val;
    cfx__json_tree tree = {0};
    d->val = read_described(t, d, &tree) ? cfx__pt2_tensor_val(t->r, tree.items.data) : cfx_bad();
    d->made = true;
    VEC_PUSH(t->r->kept, cfx_value_keep(d->val));
    cfx__json_release(&tree);
    return d->val;
}

/* ---- all ------------------------------------------------------------------------------------- */

cfx_value cfx__pt2_name_val(table *t, const cfx__pt2_name *x) {
    switch (x->kind) {
    case CFX__PT2_TENSOR:
        return x->text ? described_val(t, x->text) : cfx__pt2_tensor_val(t->r, x->meta);
    case CFX__PT2_SYM: return cfx__pt2_sym(t->r, x->meta);
    case CFX__PT2_OBJECT: return cfx__json_to_value(x->meta); /* name and class */
    }
    return cfx_none();
}

bool cfx__pt2_names_read(table *t, const cfx__json *graph) {
    return read_tensors(t, graph) && read_table(t, graph, "sym_int_values", CFX__PT2_SYM) &&
           read_table(t, graph, "sym_bool_values", CFX__PT2_SYM) &&
           read_table(t, graph, "sym_float_values", CFX__PT2_SYM) &&
           read_table(t, graph, "custom_obj_values", CFX__PT2_OBJECT);
}

void cfx__pt2_names_release(table *t) {
    cfx__map_release(&t->all);
    cfx__map_release(&t->texts);
    cfx__arena_release(&t->arena);
}
