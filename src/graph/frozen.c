/* Frozen values: what the arguments of a node are made of, and how nodes in them are replaced.
 *
 * Invariant: a frozen container that somebody else may have never changes, and it holds only frozen
 * containers, so it may be shared between nodes, graphs and threads. It is not nested deeper than
 * DEEPEST, so what walks arguments may recurse. All functions here hand over a count: no scope is
 * touched. */
#include "graph.h"

enum { DEEPEST = 200 }; /* containers in containers */

static cfx_value freeze(cfx_value v, int depth);

static bool is_node(const cfx_node *n) { return n && n->graph; }

/* ---- freeze --------------------------------------------------------------------------------- */

static cfx_value refuse(cfx_value v) {
    if (v.tag == CFX_TAG_KEYWORD)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0},
                 "argument of type: keyword '%s': keywords belong in kwargs",
                 cfx_as_keyword(v)->name->text);
    return cfx_bad();
}

/* Whether v can go into a frozen container as it is. */
static bool is_fixed(cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NODE: return is_node(cfx_as_node(v));
    case CFX_TAG_TENSOR: return !(cfx_as_tensor(v)->head.flags & CFX__TRACED);
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return cfx_as_list(v)->head.flags & CFX__FROZEN;
    case CFX_TAG_DICT: return cfx_as_dict(v)->head.flags & CFX__FROZEN;
    case CFX_TAG_SLICE:
    case CFX_TAG_KEYWORD:
    case CFX_TAG_BAD: return false;
    default: return true;
    }
}

static cfx_value freeze_list(cfx_value v, int depth) {
    const cfx_list *from = cfx_as_list(v);
    bool same = v.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; same && i < from->len; i++) {
        cfx_value item = from->items[i];
        if (item.tag >= CFX_TAG_NODE)
            same = item.tag == CFX_TAG_NODE ? is_node(cfx_as_node(item)) : is_fixed(item);
    }
    if (same) {
        cfx_as_list(v)->head.flags |= CFX__FROZEN;
        return cfx_value_keep(v);
    }
    cfx_list *l = cfx__list_alloc(from->len);
    for (int64_t i = 0; i < from->len; i++) {
        l->items[i] = freeze(from->items[i], depth + 1);
        if (cfx_is_bad(l->items[i])) {
            cfx_drop(l);
            return cfx_bad();
        }
    }
    l->head.flags |= cfx_as_list(v)->head.flags | CFX__FROZEN;
    return cfx__value_of_list(v, l);
}

static void note_node(cfx_node *n, void *user) {
    (void)n;
    *(bool *)user = true;
}

bool cfx__node_within(cfx_value v) {
    bool found = false;
    cfx__node_each(v, note_node, &found);
    return found;
}

/* A dict made in the scope of `mark`, which is closed: frozen, the caller owns it; bad where it is
 * no good. */
static cfx_value frozen_dict(cfx_dict *d, bool good, size_t mark) {
    if (good)
        cfx_keep(d);
    cfx_scope_close(mark);
    if (!good)
        return cfx_bad();
    d->head.flags |= CFX__FROZEN;
    return cfx_dict_value(d);
}

static cfx_value freeze_dict(cfx_value v, int depth) {
    size_t mark = cfx_scope_open();
    cfx_dict *d = cfx_dict_new();
    bool good = true;
    for (int64_t i = 0; good && i < cfx_as_dict(v)->len; i++) {
        cfx_value key = cfx_as_dict(v)->entries[i].key;
        cfx_value item = freeze(cfx_as_dict(v)->entries[i].value, depth + 1);
        good = !cfx_is_bad(item);
        if (good && cfx__node_within(key)) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Keys for dictionaries used as an argument cannot contain a Node. Got key: %s",
                     cfx_value_repr(key));
            good = false;
        }
        if (good)
            cfx_dict_put(d, key, item);
        cfx_value_drop(item);
    }
    return frozen_dict(d, good, mark);
}

static cfx_value freeze_slice(cfx_value v) {
    const cfx_value part[] = {cfx_as_slice(v)->start, cfx_as_slice(v)->stop, cfx_as_slice(v)->step};
    for (int i = 0; i < COUNT(part); i++)
        if (part[i].tag == CFX_TAG_BAD ||
            (part[i].tag == CFX_TAG_NODE && !is_node(cfx_as_node(part[i]))))
            return cfx_bad();
    return cfx_value_keep(v);
}

static cfx_value freeze(cfx_value v, int depth) {
    bool frozen = v.tag == CFX_TAG_DICT ? cfx_as_dict(v)->head.flags & CFX__FROZEN
                  : v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE
                      ? cfx_as_list(v)->head.flags & CFX__FROZEN
                      : false;
    if (frozen)
        return cfx_value_keep(v);
    if (depth > DEEPEST) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "an argument of a node has more than %d containers in each other", DEEPEST);
        return cfx_bad();
    }
    switch (v.tag) {
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return freeze_list(v, depth);
    case CFX_TAG_DICT: return freeze_dict(v, depth);
    case CFX_TAG_SLICE: return freeze_slice(v);
    case CFX_TAG_NODE: return is_node(cfx_as_node(v)) ? v : refuse(v);
    case CFX_TAG_TENSOR: {
        cfx_node *n = cfx__traced_node(v);
        return n ? cfx_node_value(n) : cfx_value_keep(v);
    }
    case CFX_TAG_KEYWORD:
    case CFX_TAG_BAD: return refuse(v);
    default: return cfx_value_keep(v);
    }
}

cfx_value cfx__graph_freeze(cfx_value v) { return freeze(v, 0); }

bool cfx__graph_keywords_fit(const cfx_dict *kwargs) {
    for (int64_t i = 0; i < kwargs->len; i++) {
        cfx_value key = kwargs->entries[i].key;
        const cfx_string *name = key.tag == CFX_TAG_STR ? cfx_as_string(key) : NULL;
        if (unlikely(!name || !cfx__name_is_identifier(name->text, name->len))) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "keywords must be names, got %s",
                     cfx_value_repr(key));
            return false;
        }
    }
    return true;
}

/* ---- nodes in values ------------------------------------------------------------------------ */

void cfx__node_each(cfx_value v, cfx__node_visit *fn, void *user) {
    switch (v.tag) {
    case CFX_TAG_NODE: fn(cfx_as_node(v), user); break;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            if (cfx_as_list(v)->items[i].tag >= CFX_TAG_NODE)
                cfx__node_each(cfx_as_list(v)->items[i], fn, user);
        break;
    case CFX_TAG_DICT:
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx__node_each(cfx_as_dict(v)->entries[i].value, fn, user);
        break;
    case CFX_TAG_SLICE:
        cfx__node_each(cfx_as_slice(v)->start, fn, user);
        cfx__node_each(cfx_as_slice(v)->stop, fn, user);
        cfx__node_each(cfx_as_slice(v)->step, fn, user);
        break;
    default: break;
    }
}

static bool same_value(cfx_value a, cfx_value b) {
    return a.tag == b.tag && (cfx__value_tag_counted(a.tag)
                                   ? cfx__value_object(a) == cfx__value_object(b)
                                   : cfx_equal_values(a, b));
}

static cfx_value map_list(cfx_value v, cfx__node_fn *fn, void *user) {
    cfx_list *l = NULL;
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
        cfx_value item = cfx_as_list(v)->items[i];
        cfx_value mapped = item.tag < CFX_TAG_NODE ? item : cfx__node_map(item, fn, user);
        if (cfx_is_bad(mapped)) {
            cfx_drop(l);
            return mapped;
        }
        if (!l && !same_value(item, mapped)) {
            l = cfx__list_alloc(cfx_as_list(v)->len);
            for (int64_t k = 0; k < i; k++)
                l->items[k] = cfx_value_keep(cfx_as_list(v)->items[k]);
        }
        if (l)
            l->items[i] = mapped;
        else
            cfx_value_drop(mapped);
    }
    if (!l)
        return cfx_value_keep(v);
    l->head.flags |= cfx_as_list(v)->head.flags | CFX__FROZEN;
    return cfx__value_of_list(v, l);
}

static cfx_value map_dict(cfx_value v, cfx__node_fn *fn, void *user) {
    if (!cfx__node_within(v))
        return cfx_value_keep(v);
    size_t mark = cfx_scope_open();
    cfx_dict *d = cfx_dict_new();
    bool good = true;
    for (int64_t i = 0; good && i < cfx_as_dict(v)->len; i++) {
        cfx_value item = cfx__node_map(cfx_as_dict(v)->entries[i].value, fn, user);
        good = !cfx_is_bad(item);
        if (good)
            cfx_dict_put(d, cfx_as_dict(v)->entries[i].key, item);
        cfx_value_drop(item);
    }
    return frozen_dict(d, good, mark);
}

static cfx_value map_slice(cfx_value v, cfx__node_fn *fn, void *user) {
    if (!cfx__node_within(v))
        return cfx_value_keep(v);
    cfx_value part[] = {cfx_as_slice(v)->start, cfx_as_slice(v)->stop, cfx_as_slice(v)->step};
    bool good = true;
    for (int i = 0; i < COUNT(part); i++) {
        part[i] = cfx__node_map(part[i], fn, user);
        good = good && !cfx_is_bad(part[i]);
    }
    size_t mark = cfx_scope_open();
    if (good)
        v = cfx_value_keep(cfx_slice_value(part[0], part[1], part[2]));
    cfx_scope_close(mark);
    for (int i = 0; i < COUNT(part); i++)
        cfx_value_drop(part[i]);
    return good ? v : cfx_bad();
}

cfx_value cfx__node_map(cfx_value v, cfx__node_fn *fn, void *user) {
    switch (v.tag) {
    case CFX_TAG_NODE: {
        cfx_value to = fn(cfx_as_node(v), user);
        bool made = to.tag != CFX_TAG_NODE || cfx_as_node(to)->graph;
        return made ? to : cfx_bad();
    }
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return map_list(v, fn, user);
    case CFX_TAG_DICT: return map_dict(v, fn, user);
    case CFX_TAG_SLICE: return map_slice(v, fn, user);
    default: return cfx_value_keep(v);
    }
}
