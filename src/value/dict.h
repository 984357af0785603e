/* What containers share among themselves, copies of dicts, and values that are the same object. */
#ifndef CFX__DICT_H
#define CFX__DICT_H

#include "value.h"

/* Whether the container may hold v, which is then counted as nested in it. */
static inline bool cfx__value_may_hold(cfx_obj *into, cfx_value v) {
    bool container = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_DICT;
    return likely(!container) || cfx__value_nest_in(into, v);
}
/* How many levels of containers are in v, as far as they were there when it was filled. */
int cfx__value_levels(cfx_value v);
/* Whether a container ("list", "dict") may be changed; else there is an error, in torch.fx's words:
 * a graph holds it. */
bool cfx__value_may_change(const cfx_obj *head, const char *kind);
/* Whether two values are the same object, or the same plain value; such have the same bits. */
static inline bool cfx__value_is(cfx_value a, cfx_value b) {
    return a.tag == b.tag && a.i_ == b.i_;
}
static inline uint64_t cfx__value_bits(cfx_value v) { return (uint64_t)v.i_; }
/* A copy of a dict, with one count, which the caller owns; NULL is an empty one. */
cfx_dict *cfx__dict_copy(const cfx_dict *d);
/* Removes the entries whose keys `those` does not have; how many. */
int64_t cfx__dict_keep_only(cfx_dict *d, const cfx_dict *those);

#endif
