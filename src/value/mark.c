/* Numbers that stand for ones which are not known yet, in values of any kind. */
#include "value.h"

static bool list_has_marks(const cfx_list *l) {
    for (int64_t i = 0; i < l->len; i++)
        if (cfx__value_has_marks(l->items[i]))
            return true;
    return false;
}

bool cfx__value_has_marks(cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_BOOL:
    case CFX_TAG_INT:
    case CFX_TAG_FLOAT: return v.spare;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return list_has_marks(v.list_);
    case CFX_TAG_SLICE:
        return cfx__value_has_marks(v.slice_->start) || cfx__value_has_marks(v.slice_->stop) ||
               cfx__value_has_marks(v.slice_->step);
    case CFX_TAG_DICT:
        for (int64_t i = 0; i < v.dict_->len; i++)
            if (cfx__value_has_marks(v.dict_->entries[i].value))
                return true;
        return false;
    case CFX_TAG_KEYWORD: return cfx__value_has_marks(v.keyword_->value);
    default: return false;
    }
}

cfx_value cfx__value_plain(cfx_value v) {
    if (!cfx__value_has_marks(v))
        return v;
    switch (v.tag) {
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: {
        cfx_value out = cfx__value_like(v);
        for (int64_t i = 0; i < v.list_->len; i++)
            cfx_list_append(out.list_, cfx__value_plain(v.list_->items[i]));
        return out;
    }
    case CFX_TAG_SLICE:
        return cfx_slice_value(cfx__value_plain(v.slice_->start), cfx__value_plain(v.slice_->stop),
                               cfx__value_plain(v.slice_->step));
    case CFX_TAG_DICT: {
        cfx_dict *out = cfx_dict_new();
        for (int64_t i = 0; i < v.dict_->len; i++)
            cfx_dict_put(out, v.dict_->entries[i].key, cfx__value_plain(v.dict_->entries[i].value));
        return cfx_dict_value(out);
    }
    case CFX_TAG_KEYWORD:
        return cfx_keyword_value(v.keyword_->name->text, cfx__value_plain(v.keyword_->value));
    default: v.spare = 0; return v;
    }
}
