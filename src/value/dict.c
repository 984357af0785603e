/* Dicts: entries in the order in which they came. Most have a few and are searched from the first
 * to the last; larger ones have an index over their entries as well. */
#include "dict.h"

enum { FEW = 8 }; /* entries of a dict without an index */

/* How many places before the entries are free, since entries were removed there: the word behind
 * the index. */
static int64_t front_of(const cfx_dict *d) {
    return d->index_ ? (int64_t)d->index_[d->index_cap_] : 0;
}

static void dict_free(void *p) {
    cfx_dict *d = p;
    for (int64_t i = 0; i < d->len; i++) {
        cfx_value_drop(d->entries[i].key);
        cfx_value_drop(d->entries[i].value);
    }
    cfx__free(d->entries ? d->entries - front_of(d) : NULL);
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
        cfx_fail(CFX_TYPE_ERROR, at, "a dict needs keys and values in turn, and key %s has no "
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

/* index_ holds half of the hash in the upper half of a word, in the lower the number of the entry,
 * counted from the first that there ever was, and 1: removing the first entry leaves the numbers of
 * all others. 0 is empty. */
static int64_t entry_of(const cfx_dict *d, uint64_t place) {
    return (int64_t)(uint32_t)place - 1 - front_of(d);
}
static uint64_t place_of(const cfx_dict *d, uint64_t hash, int64_t entry) {
    return (hash >> 32 << 32) | (uint64_t)(entry + front_of(d) + 1);
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
        if ((place ^ hash) >> 32 == 0 && is_wanted(w, d->entries[entry_of(d, place)].key))
            return entry_of(d, place);
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
    d->index_[i] = place_of(d, hash, k);
}

static void reindex(cfx_dict *d, int64_t cap) {
    const int64_t front = front_of(d);
    cfx__free(d->index_);
    d->index_cap_ = cap;
    d->index_ = cfx__alloc0(((size_t)cap + 1) * sizeof *d->index_);
    d->index_[cap] = (uint64_t)front;
    for (int64_t k = 0; k < d->len; k++)
        put_in_index(d, k);
}

/* Room for the first entries: a large graph has a dict for each node, of which most hold few. */
static void make_room(cfx_dict *d, int64_t entries) {
    d->entries = cfx__alloc((size_t)entries * sizeof *d->entries);
    d->cap_ = entries;
}

/* Room for one more entry: that of entries which were removed in front, where there is as much of
 * it as of others, or more memory. */
static void make_way(cfx_dict *d) {
    const int64_t front = front_of(d);
    struct cfx_entry *all = d->entries ? d->entries - front : NULL;
    size_t cap = (size_t)d->cap_;
    if (front > d->len) {
        memmove(all, d->entries, (size_t)d->len * sizeof *all);
        d->entries = all;
        d->index_[d->index_cap_] = 0;
        reindex(d, d->index_cap_);
        return;
    }
    all = cfx__vec_grow(all, &cap, cap + 1, sizeof *all);
    d->entries = all + front;
    d->cap_ = (int64_t)cap;
}

static void append(cfx_dict *d, cfx_value key, cfx_value value) {
    if (!d->cap_)
        make_room(d, FEW / 2);
    else if (d->len + front_of(d) == d->cap_)
        make_way(d);
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

/* Where the index has an entry. */
static uint64_t index_of(const cfx_dict *d, int64_t k) {
    const uint64_t mask = (uint64_t)d->index_cap_ - 1;
    const uint64_t hash = spread(cfx__value_hash(d->entries[k].key));
    uint64_t i = hash & mask;
    while (entry_of(d, d->index_[i]) != k)
        i = (i + 1) & mask;
    return i;
}

/* Takes an entry out of the index; those behind it that it kept from their places move up. */
static void leave_index(cfx_dict *d, int64_t k) {
    const uint64_t mask = (uint64_t)d->index_cap_ - 1;
    uint64_t hole = index_of(d, k);
    for (uint64_t i = (hole + 1) & mask; d->index_[i]; i = (i + 1) & mask) {
        const cfx_value key = d->entries[entry_of(d, d->index_[i])].key;
        const uint64_t home = spread(cfx__value_hash(key)) & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        d->index_[hole] = d->index_[i];
        hole = i;
    }
    d->index_[hole] = 0;
}

/* Entries from `first` to before `end` are about to move by one place. */
static void renumber(cfx_dict *d, int64_t first, int64_t end, int by) {
    if ((end - first) * 4 < d->index_cap_) {
        for (int64_t k = by > 0 ? end - 1 : first; k >= first && k < end; k -= by)
            d->index_[index_of(d, k)] += (uint64_t)by;
        return;
    }
    for (int64_t i = 0; i < d->index_cap_; i++) {
        const int64_t k = d->index_[i] ? entry_of(d, d->index_[i]) : -1;
        d->index_[i] += k >= first && k < end ? (uint64_t)by : 0;
    }
}

bool cfx_dict_remove(cfx_dict *d, cfx_value key) {
    wanted w = by_key(key);
    int64_t i = d && d->len ? find(d, &w) : -1;
    if (i < 0 || !cfx__value_may_change(&d->head, "dict"))
        return false;
    const struct cfx_entry gone = d->entries[i];
    const int64_t behind = d->len - 1 - i;
    if (d->index_)
        leave_index(d, i);
    if (d->index_ && i < behind) { /* those before it move up */
        renumber(d, 0, i, 1);
        memmove(d->entries + 1, d->entries, (size_t)i * sizeof *d->entries);
        d->entries++;
        d->index_[d->index_cap_]++;
    } else {
        if (d->index_)
            renumber(d, i + 1, d->len, -1);
        memmove(d->entries + i, d->entries + i + 1, (size_t)behind * sizeof *d->entries);
    }
    d->len--;
    d->changes_++;
    cfx_value_drop(gone.key);
    cfx_value_drop(gone.value);
    return true;
}

int64_t cfx__dict_keep_only(cfx_dict *d, const cfx_dict *those) {
    const int64_t before = d->len;
    if (!cfx__value_may_change(&d->head, "dict"))
        return 0;
    d->len = 0;
    for (int64_t i = 0; i < before; i++) {
        const struct cfx_entry e = d->entries[i];
        if (cfx_dict_find(those, e.key)) {
            d->entries[d->len++] = e;
            continue;
        }
        cfx_value_drop(e.key);
        cfx_value_drop(e.value);
    }
    d->changes_ += (uint64_t)(before - d->len);
    if (d->index_ && d->len < before)
        reindex(d, d->index_cap_);
    return before - d->len;
}

cfx_dict *cfx__dict_copy(const cfx_dict *d) {
    cfx_dict *copy = cfx__obj_make(&dict_type, sizeof *copy);
    if (d && d->len)
        make_room(copy, d->len + 1); /* it is made to be changed */
    for (int64_t i = 0; d && i < d->len; i++)
        if (cfx__value_may_hold(&copy->head, d->entries[i].value) &&
            cfx__value_may_hold(&copy->head, d->entries[i].key))
            append(copy, d->entries[i].key, d->entries[i].value);
    return copy;
}
