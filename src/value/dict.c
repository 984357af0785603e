/* Dicts: entries in the order in which they came. Most have a few and are searched from the first
 * to the last; larger ones have an index over their entries as well. */
#include "dict.h"

enum { FEW = 8 }; /* entries of a dict without an index */

static void dict_free(void *p) {
    cfx_dict *d = p;
    for (int64_t i = 0; i < d->len; i++) {
        cfx_value_drop(d->entries[i].key);
        cfx_value_drop(d->entries[i].value);
    }
    cfx__free(d->entries);
    cfx__free(d->index_);
}

static const cfx__obj_type dict_type = {.name = "dict", .free = dict_free};

cfx_dict *cfx_dict_new(void) { return cfx__obj_new(&dict_type, sizeof(cfx_dict)); }

cfx_value cfx_dict_value(cfx_dict *d) {
    cfx_value v = cfx_none();
    v.tag = d ? CFX_TAG_DICT : CFX_TAG_NONE;
    v.dict_ = d;
    return v;
}

cfx_value cfx_dict_of_from(cfx_site at, cfx_args pairs) {
    cfx_dict *d = cfx_dict_new();
    if (pairs.n % 2) {
        cfx_fail(CFX_TYPE_ERROR, at, "a dict is made of keys and values in turn, and %s has no "
                 "value", cfx_value_repr(pairs.v[pairs.n - 1]));
        return cfx_bad();
    }
    for (int i = 0; i < pairs.n; i += 2)
        cfx_dict_put(d, pairs.v[i], pairs.v[i + 1]);
    return cfx_ok() ? cfx_dict_value(d) : cfx_bad();
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The hash with both halves in play: that of a text has but one. */
static uint64_t spread(uint64_t hash) { return cfx__hash_mix(0, hash); }

/* index_ holds entry number + 1 in its lower half, half of the hash in its upper; 0 is empty. */
static int64_t entry_of(uint64_t place) { return (int64_t)(uint32_t)place - 1; }
static uint64_t place_of(uint64_t hash, int64_t entry) {
    return (hash >> 32 << 32) | (uint64_t)(entry + 1);
}

static bool is_text(cfx_value key, const char *text, size_t len) {
    return key.tag == CFX_TAG_STR && key.str_->len == len && !memcmp(key.str_->text, text, len);
}

/* What is looked for: a value, or a text that no value has been made of. */
typedef struct wanted {
    cfx_value key;
    const char *text; /* NULL: the value */
    size_t len;
} wanted;

static bool is_wanted(const wanted *w, cfx_value key) {
    return w->text ? is_text(key, w->text, w->len) : cfx_equal_values(key, w->key);
}

/* The number of the entry; -1: there is none. */
static int64_t find(const cfx_dict *d, const wanted *w) {
    if (!d->index_) {
        for (int64_t i = 0; i < d->len; i++)
            if (is_wanted(w, d->entries[i].key))
                return i;
        return -1;
    }
    uint64_t hash = spread(w->text ? cfx__text_key(w->text, w->len) : cfx__value_hash(w->key));
    uint64_t mask = (uint64_t)d->index_cap_ - 1;
    for (uint64_t i = hash & mask; d->index_[i]; i = (i + 1) & mask) {
        uint64_t place = d->index_[i];
        if ((place ^ hash) >> 32 == 0 && is_wanted(w, d->entries[entry_of(place)].key))
            return entry_of(place);
    }
    return -1;
}

static wanted by_key(cfx_value key) {
    return key.tag == CFX_TAG_STR ? (wanted){key, key.str_->text, key.str_->len}
                                  : (wanted){.key = key};
}

static wanted by_text(const char *text) {
    return text ? (wanted){.text = text, .len = strlen(text)} : by_key(cfx_none());
}

const cfx_value *cfx_dict_find(const cfx_dict *d, cfx_value key) {
    wanted w = by_key(key);
    int64_t i = d && d->len ? find(d, &w) : -1;
    return i < 0 ? NULL : &d->entries[i].value;
}

cfx_value cfx_dict_get(const cfx_dict *d, const char *key) {
    wanted w = by_text(key);
    int64_t i = d && d->len ? find(d, &w) : -1;
    return i < 0 ? cfx_none() : d->entries[i].value;
}

/* ---- changing -------------------------------------------------------------------------------- */

/* All keys differ: the first free place is that of an entry. */
static void put_in_index(cfx_dict *d, int64_t k) {
    uint64_t mask = (uint64_t)d->index_cap_ - 1;
    uint64_t hash = spread(cfx__value_hash(d->entries[k].key)), i = hash & mask;
    while (d->index_[i])
        i = (i + 1) & mask;
    d->index_[i] = place_of(hash, k);
}

static void reindex(cfx_dict *d, int64_t cap) {
    cfx__free(d->index_);
    d->index_cap_ = cap;
    d->index_ = cfx__alloc0((size_t)cap * sizeof *d->index_);
    for (int64_t k = 0; k < d->len; k++)
        put_in_index(d, k);
}

static void append(cfx_dict *d, cfx_value key, cfx_value value) {
    if (d->len == d->cap_) {
        size_t cap = (size_t)d->cap_;
        d->entries = cfx__vec_grow(d->entries, &cap, cap + 1, sizeof *d->entries);
        d->cap_ = (int64_t)cap;
    }
    d->entries[d->len++] = (struct cfx_entry){cfx_value_keep(key), cfx_value_keep(value)};
    if (!d->index_ && d->len <= FEW)
        return;
    if (!d->index_ || d->len * 2 > d->index_cap_)
        reindex(d, d->index_ ? d->index_cap_ * 2 : 4 * FEW);
    else
        put_in_index(d, d->len - 1);
}

static void put(cfx_dict *d, const wanted *w, cfx_value value) {
    if (!cfx__value_may_change(&d->head, "dict") || !cfx__value_may_hold(&d->head, value) ||
        !cfx__value_may_hold(&d->head, w->key))
        return;
    d->changes_++;
    int64_t i = find(d, w);
    if (i >= 0) {
        cfx_value before = d->entries[i].value;
        d->entries[i].value = cfx_value_keep(value);
        cfx_value_drop(before);
    } else if (cfx_is_none(w->key) && w->text) {
        size_t mark = cfx_scope_open();
        append(d, cfx_string_value_n(w->text, w->len), value);
        cfx_scope_close(mark);
    } else {
        append(d, w->key, value);
    }
}

static void fail_to_put(cfx_value key) {
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the dict to put %s into is NULL", cfx_value_repr(key));
}

void cfx_dict_put(cfx_dict *d, cfx_value key, cfx_value value) {
    wanted w = by_key(key);
    if (d && !cfx__obj_is_bad(d))
        put(d, &w, value);
    else
        fail_to_put(key);
}

void cfx_dict_set(cfx_dict *d, const char *key, cfx_value value) {
    wanted w = by_text(key);
    if (d && !cfx__obj_is_bad(d))
        put(d, &w, value);
    else
        fail_to_put(cfx_string_value(key));
}

bool cfx_dict_remove(cfx_dict *d, cfx_value key) {
    wanted w = by_key(key);
    int64_t i = d && d->len ? find(d, &w) : -1;
    if (i < 0 || !cfx__value_may_change(&d->head, "dict"))
        return false;
    struct cfx_entry gone = d->entries[i];
    memmove(d->entries + i, d->entries + i + 1, (size_t)(d->len - i - 1) * sizeof *d->entries);
    d->len--;
    d->changes_++;
    if (d->index_)
        reindex(d, d->index_cap_);
    cfx_value_drop(gone.key);
    cfx_value_drop(gone.value);
    return true;
}

cfx_dict *cfx__dict_copy(const cfx_dict *d) {
    cfx_dict *copy = cfx__obj_make(&dict_type, sizeof *copy);
    for (int64_t i = 0; d && i < d->len; i++)
        if (cfx__value_may_hold(&copy->head, d->entries[i].value) &&
            cfx__value_may_hold(&copy->head, d->entries[i].key))
            append(copy, d->entries[i].key, d->entries[i].value);
    return copy;
}
