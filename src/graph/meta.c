/* Metadata of nodes. A dict of it never changes while more than one has it: nodes of large graphs
 * say the same of what they compute and of where they are from, so that dicts, and the tensors
 * without numbers in them, are shared. Which ones is found in two small tables of the graph that
 * remember what came last: a million nodes of a chain have a dict and a tensor among them. */
#include "../value/dict.h"
#include "meta.h"

enum { STEPS = 1 << 9, VALUES = 1 << 9, KEYS = 32 };
enum { MANY = 64 }; /* nodes from which on it is worth it */

/* What a dict is with one pair more. */
typedef struct step {
    cfx_dict *before; /* counted; NULL: nothing was noted */
    cfx_dict *after;  /* counted; NULL: the place is free */
    int64_t at;       /* the entry in `after` that was put */
} step;

struct cfx__metas {
    step steps[STEPS];
    cfx_value values[VALUES]; /* what nodes compute; counted */
    cfx_value keys[KEYS];     /* texts; counted */
};

void cfx__graph_drop_metas(cfx_graph *g) {
    struct cfx__metas *all = ((cfx__graph_whole *)g)->metas;
    for (int i = 0; all && i < STEPS; i++) {
        cfx_drop(all->steps[i].before);
        cfx_drop(all->steps[i].after);
    }
    for (int i = 0; all && i < VALUES; i++)
        cfx_value_drop(all->values[i]);
    for (int i = 0; all && i < KEYS; i++)
        cfx_value_drop(all->keys[i]);
    cfx__free(all);
    ((cfx__graph_whole *)g)->metas = NULL;
}

/* The tables, where the graph is large enough for them; else NULL. */
static struct cfx__metas *metas_of(cfx_graph *g) {
    cfx__graph_whole *own = (cfx__graph_whole *)g;
    if (!own->metas && g->made.len >= MANY)
        own->metas = cfx__alloc0(sizeof *own->metas);
    return own->metas;
}

/* ---- what nodes compute ---------------------------------------------------------------------- */

/* Whether a tensor is a description and nothing more: without numbers, of no other's memory, and
 * nobody has hung anything on it. */
static bool is_description(const cfx_tensor *t) {
    return cfx_tensor_is_fake(t) && !t->base && !t->proxy && !t->tape && !t->quantizer &&
           !t->user && !t->known && t->storage && !(t->head.flags & CFX__QUANTIZED);
}

static bool same_description(const cfx_tensor *a, const cfx_tensor *b) {
    const size_t bytes = (size_t)a->ndim * sizeof *a->shape;
    return a->dtype == b->dtype && a->layout == b->layout && a->ndim == b->ndim &&
           a->head.flags == b->head.flags && a->offset == b->offset &&
           a->device.type == b->device.type && a->device.index == b->device.index &&
           a->storage->size == b->storage->size && !memcmp(a->shape, b->shape, bytes) &&
           !memcmp(a->stride, b->stride, bytes);
}

static uint64_t hash_of(const cfx_tensor *t) {
    uint64_t h = cfx__hash_mix(t->dtype, (uint64_t)t->ndim);
    for (int i = 0; i < t->ndim; i++)
        h = cfx__hash_mix(h, (uint64_t)t->shape[i] ^ (uint64_t)t->stride[i] << 32);
    return h;
}

/* Whether two tuples have the same items, not only equal ones. */
static bool same_items(const cfx_list *a, const cfx_list *b) {
    bool same = a->len == b->len;
    for (int64_t i = 0; same && i < a->len; i++)
        same = cfx__value_is(a->items[i], b->items[i]);
    return same;
}

/* A result whose sizes are symbols: the tuples in it are compared by value. */
static uint64_t hash_of_dict(const cfx_dict *d) {
    uint64_t h = (uint64_t)d->len;
    for (int64_t i = 0; i < d->len; i++)
        h = cfx__hash_mix(h, cfx__value_hash(d->entries[i].value));
    return h;
}

static bool same_dicts(const cfx_dict *a, const cfx_dict *b) {
    bool same = a->len == b->len;
    for (int64_t i = 0; same && i < a->len; i++)
        same = cfx_equal_values(a->entries[i].key, b->entries[i].key) &&
               a->entries[i].value.tag == b->entries[i].value.tag &&
               cfx_equal_values(a->entries[i].value, b->entries[i].value);
    return same;
}

static bool same_result(cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return false;
    switch (a.tag) {
    case CFX_TAG_TENSOR: return same_description(cfx_as_tensor(a), cfx_as_tensor(b));
    case CFX_TAG_TUPLE: return same_items(cfx_as_list(a), cfx_as_list(b));
    default: return same_dicts(cfx_as_dict(a), cfx_as_dict(b));
    }
}

enum { MOST_ITEMS = 8 };

/* The value that stands for all that are described like this one: v itself where it is the first of
 * them, or nothing that can be shared. */
static cfx_value shared_value(struct cfx__metas *all, cfx_value v) {
    uint64_t h;
    if (v.tag == CFX_TAG_TENSOR && is_description(cfx_as_tensor(v))) {
        h = hash_of(cfx_as_tensor(v));
    } else if (v.tag == CFX_TAG_DICT) {
        h = hash_of_dict(cfx_as_dict(v));
    } else if (v.tag == CFX_TAG_TUPLE && cfx_as_list(v)->len <= MOST_ITEMS) {
        cfx_value items[MOST_ITEMS];
        const int64_t n = cfx_as_list(v)->len;
        h = (uint64_t)n;
        for (int64_t i = 0; i < n; i++) {
            items[i] = shared_value(all, cfx_as_list(v)->items[i]);
            h = cfx__hash_mix(h, cfx__value_bits(items[i]));
        }
        v = cfx_tuple_value(n, items);
    } else {
        return v;
    }
    cfx_value *place = &all->values[(h ^ h >> 32) % VALUES];
    if (same_result(*place, v))
        return *place;
    cfx_value_drop(*place);
    return *place = cfx_value_keep(v);
}

/* ---- dicts ----------------------------------------------------------------------------------- */

/* The key as a value that all dicts have. */
static cfx_value shared_key(struct cfx__metas *all, const char *key) {
    const size_t len = strlen(key);
    cfx_value *place = &all->keys[cfx__text_key(key, len) % KEYS];
    if (place->tag == CFX_TAG_STR && !strcmp(cfx_text(*place), key))
        return *place;
    cfx_value_drop(*place);
    return *place = cfx_value_keep(cfx_string_value_n(key, len));
}

static cfx_dict *changed_copy(struct cfx__metas *all, const cfx_dict *before, const char *key,
                              cfx_value v) {
    cfx_dict *d = cfx__dict_copy(before);
    cfx_dict_put(d, shared_key(all, key), v);
    return d;
}

static int64_t entry_of(const cfx_dict *d, const char *key) {
    int64_t i = 0;
    while (i < d->len && strcmp(cfx_text(d->entries[i].key), key))
        i++;
    return i;
}

/* What metadata is after v was put under the key: one more count, which the caller owns. */
static cfx_dict *shared_step(struct cfx__metas *all, cfx_dict *before, const char *key,
                             cfx_value v) {
    uint64_t h = cfx__hash_mix((uint64_t)(uintptr_t)before, cfx__value_bits(v));
    h = cfx__hash_mix(h, (unsigned char)key[0]);
    step *s = &all->steps[(h ^ h >> 32) % STEPS];
    if (s->after && s->before == before && cfx__value_is(s->after->entries[s->at].value, v) &&
        !strcmp(cfx_text(s->after->entries[s->at].key), key))
        return cfx_keep(s->after);
    cfx_dict *after = changed_copy(all, before, key, v);
    cfx_drop(s->before);
    cfx_drop(s->after);
    *s = (step){cfx_keep(before), cfx_keep(after), entry_of(after, key)};
    return after;
}

/* Metadata of a node that it shares with no other, to be changed. */
static cfx_dict *own_meta(cfx_node *n) {
    if (n->meta && n->meta->head.refs == 1)
        return n->meta;
    cfx_dict *d = cfx__dict_copy(n->meta);
    cfx_drop(n->meta);
    return n->meta = d;
}

void cfx_node_set_meta(cfx_node *n, const char *key, cfx_value v) {
    if (!cfx__node_given(n) || !key || cfx_is_bad(v))
        return;
    const bool val = !strcmp(key, "val");
    struct cfx__metas *all = metas_of(n->graph);
    if (all) {
        size_t mark = cfx_scope_open();
        cfx_dict *before = n->meta;
        n->meta = shared_step(all, before, key, val ? shared_value(all, v) : v);
        cfx_drop(before);
        cfx_scope_close(mark);
    } else {
        cfx_dict_set(own_meta(n), key, v);
    }
    if (val) {
        cfx__node_of(n)->stale = cfx__node_of(n)->bare = false;
        n->graph->noted++;
    }
}

void cfx__node_copy_meta(cfx_node *to, const cfx_node *from) {
    for (int64_t i = 0; from->meta && i < from->meta->len; i++)
        cfx_node_set_meta(to, cfx_text(from->meta->entries[i].key), from->meta->entries[i].value);
}

bool cfx_node_remove_meta(cfx_node *n, const char *key) {
    if (!n || !n->graph || !n->meta || !key)
        return false;
    size_t mark = cfx_scope_open();
    cfx_value name = cfx_string_value(key);
    bool removed = cfx_dict_find(n->meta, name) && cfx_dict_remove(own_meta(n), name);
    n->graph->noted += removed;
    cfx_scope_close(mark);
    return removed;
}

cfx_value cfx_node_get_meta(const cfx_node *n, const char *key) {
    return n && n->meta && key ? cfx_dict_get(n->meta, key) : cfx_none();
}

/* ---- where a node is from -------------------------------------------------------------------- */

bool cfx__path_is_no_module(const char *path) {
    return !strcmp(path, "_empty_nn_module_stack_from_metadata_hook");
}

static const char *const origin[] = {"stack_trace",     "source",   "nn_module_stack",
                                     "source_fn_stack", "torch_fn", "custom"};

void cfx__node_set_origin(cfx_node *n, const cfx_node *from) {
    for (int i = 0; i < COUNT(origin); i++) {
        cfx_value v = cfx_node_get_meta(from, origin[i]);
        if (!cfx_is_none(v))
            cfx_node_set_meta(n, origin[i], v);
    }
}

void cfx__node_add_origin(cfx_node *n, const cfx_node *from) {
    for (int i = 0; i < COUNT(origin); i++)
        if (cfx_is_none(cfx_node_get_meta(n, origin[i])) &&
            !cfx_is_none(cfx_node_get_meta(from, origin[i])))
            cfx_node_set_meta(n, origin[i], cfx_node_get_meta(from, origin[i]));
}
