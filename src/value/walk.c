/* The walk through what values are made of. See walk.h. */
#include "walk.h"

#include <string.h>

bool cfx__value_each(cfx_value v, cfx__walk_fn *fn, void *user) {
    switch (v.tag) {
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        for (int64_t i = 0; i < v.list_->len; i++)
            if (!cfx__value_each(v.list_->items[i], fn, user))
                return false;
        return true;
    case CFX_TAG_DICT:
        for (int64_t i = 0; i < v.dict_->len; i++)
            if (!cfx__value_each(v.dict_->entries[i].value, fn, user))
                return false;
        return true;
    case CFX_TAG_SLICE:
        return cfx__value_each(v.slice_->start, fn, user) &&
               cfx__value_each(v.slice_->stop, fn, user) &&
               cfx__value_each(v.slice_->step, fn, user);
    case CFX_TAG_KEYWORD: return cfx__value_each(v.keyword_->value, fn, user);
    default: return fn(v, user);
    }
}

/* Whether two values are one: the same number, the same object. */
static bool is_same(cfx_value a, cfx_value b) {
    return a.tag == b.tag && a.spare == b.spare && a.i_ == b.i_;
}

static cfx_value map_list(cfx_value v, cfx__map_fn *fn, void *user) {
    cfx_value out = cfx__value_like(v);
    bool same = true;
    for (int64_t i = 0; i < v.list_->len; i++) {
        cfx_value item = cfx__value_map(v.list_->items[i], fn, user);
        if (cfx_is_bad(item))
            return item;
        same &= is_same(item, v.list_->items[i]);
        cfx_list_append(out.list_, item);
    }
    return same ? v : out;
}

static cfx_value map_dict(cfx_value v, cfx__map_fn *fn, void *user) {
    cfx_dict *out = cfx_dict_new();
    bool same = true;
    for (int64_t i = 0; i < v.dict_->len; i++) {
        cfx_value item = cfx__value_map(v.dict_->entries[i].value, fn, user);
        if (cfx_is_bad(item))
            return item;
        same &= is_same(item, v.dict_->entries[i].value);
        cfx_dict_put(out, v.dict_->entries[i].key, item);
    }
    return same ? v : cfx_dict_value(out);
}

static cfx_value map_slice(cfx_value v, cfx__map_fn *fn, void *user) {
    const cfx_slice *s = v.slice_;
    cfx_value start = cfx__value_map(s->start, fn, user), stop = cfx__value_map(s->stop, fn, user),
              step = cfx__value_map(s->step, fn, user);
    if (cfx_is_bad(start) || cfx_is_bad(stop) || cfx_is_bad(step))
        return cfx_bad();
    return is_same(start, s->start) && is_same(stop, s->stop) && is_same(step, s->step)
               ? v
               : cfx_slice_value(start, stop, step);
}

cfx_value cfx__value_map(cfx_value v, cfx__map_fn *fn, void *user) {
    switch (v.tag) {
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return map_list(v, fn, user);
    case CFX_TAG_DICT: return map_dict(v, fn, user);
    case CFX_TAG_SLICE: return map_slice(v, fn, user);
    case CFX_TAG_KEYWORD: {
        cfx_value inner = cfx__value_map(v.keyword_->value, fn, user);
        if (cfx_is_bad(inner))
            return inner;
        return is_same(inner, v.keyword_->value)
                   ? v
                   : cfx_keyword_value(v.keyword_->name->text, inner);
    }
    default: return fn(v, user);
    }
}
