/* How deep lists, tuples and dicts lie in each other. It is bounded when they are put there, so
 * that whatever walks through values may call itself.
 *
 * Each container knows how many levels are below it and how many it was put under, in its flags. */
#include "dict.h"

enum { LEVELS = 1000, BELOW = 12, ABOVE = 22, MASK = 1023 };

static bool is_container(cfx_value v) {
    return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_DICT;
}

static uint32_t levels(const cfx_obj *o, int which) {
    return __atomic_load_n(&o->flags, __ATOMIC_RELAXED) >> which & MASK;
}

int cfx__value_levels(cfx_value v) { return is_container(v) ? (int)levels(v.obj_, BELOW) : 0; }

/* Raises a number of levels; other threads may do the same to what they share. */
static void raise(cfx_obj *o, int which, uint32_t to) {
    uint32_t flags = __atomic_load_n(&o->flags, __ATOMIC_RELAXED);
    while ((flags >> which & MASK) < to &&
           !__atomic_compare_exchange_n(&o->flags, &flags,
                                        (flags & ~((uint32_t)MASK << which)) | to << which, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Whether v is `what`, which is not frozen, or holds it. Gives up, and says so, after as many steps
 * as there are left. */
static bool holds(cfx_value v, const cfx_obj *what, int64_t *left) {
    const cfx_obj *o = is_container(v) ? v.obj_ : NULL;
    if (!o || o->flags & CFX__FROZEN)
        return false;
    if (o == what || --*left < 0)
        return true;
    if (!levels(o, BELOW))
        return false;
    int64_t n = v.tag == CFX_TAG_DICT ? v.dict_->len : v.list_->len;
    for (int64_t i = 0; i < n; i++)
        if (holds(v.tag == CFX_TAG_DICT ? v.dict_->entries[i].value : v.list_->items[i], what,
                  left))
            return true;
    return false;
}

static bool refuse(const char *why) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s", why);
    return false;
}

bool cfx__value_nest_in(cfx_obj *into, cfx_value v) {
    int64_t steps = 1000000;
    cfx_obj *o = v.obj_;
    uint32_t above = levels(into, ABOVE), below = levels(o, BELOW);
    if (o == into || (above && below && holds(v, into, &steps)))
        return refuse("a list or dict cannot hold itself");
    if (above + below + 1 > LEVELS)
        return refuse("lists and dicts are nested more than 1000 levels deep");
    raise(into, BELOW, below + 1);
    if (!(o->flags & CFX__FROZEN)) /* what is frozen takes nothing in any more */
        raise(o, ABOVE, above + 1);
    return true;
}
