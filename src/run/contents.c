/* Known values of small tensors, recorded for nodes of foreign operators: the metadata
 * "contents" is a tensor if the value is the same at all sizes, a list of expressions if it
 * depends on them, a tuple of these for several results. A node that takes a shape as input
 * finds it in the metadata of its operand. */
#include "../trace/worlds.h"

#include "run.h"

enum { MOST_EXPRESSIONS = 64 };

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* The numbers of a tensor in each world; false where they are not known. */
static bool known_everywhere(int n, const cfx_value *v, const cfx_tensor **known) {
    for (int k = 0; k < n; k++) {
        known[k] = v[k].tag == CFX_TAG_TENSOR ? cfx__tensor_known(cfx_as_tensor(v[k])) : NULL;
        if (!known[k] || known[k]->dtype != known[0]->dtype ||
            !cfx__tensor_same_shape(known[k], known[0]))
            return false;
    }
    return true;
}

static bool all_equal(int n, const cfx_tensor *const *known) {
    for (int k = 1; k < n; k++)
        for (int64_t i = 0; i < known[0]->numel; i++)
            if (!cfx_equal_values(cfx__tensor_get(known[0], i), cfx__tensor_get(known[k], i)))
                return false;
    return true;
}

/* Integers as expressions; None where there is none for one. */
static cfx_value expressions(cfx__exprs *x, const cfx_tensor *const *known) {
    const cfx_tensor *t = known[0];
    cfx_value out = cfx_list_value(0, NULL);
    if (!cfx__dtype_is_int((cfx_dtype)t->dtype) || t->numel > MOST_EXPRESSIONS)
        return cfx_none();
    for (int64_t i = 0; i < t->numel; i++) {
        cfx__seen seen;
        for (int k = 0; k < x->worlds->n; k++)
            seen.at[k] = cfx_integer(cfx__tensor_get(known[k], i));
        cfx_value e = cfx__exprs_known(x, &seen);
        e = cfx_is_none(e) ? cfx__exprs_fit(x, &seen) : e;
        if (cfx_is_none(e))
            return e;
        cfx_list_append(cfx_as_list(out), e);
    }
    return out;
}

cfx_value cfx__contents_of(cfx__exprs *x, const cfx_value *v) {
    const cfx_tensor *known[CFX__WORLDS];
    int n = x->worlds->n;
    if (is_sequence(v[0])) {
        cfx_value out = cfx_tuple_value(0, NULL), item[CFX__WORLDS];
        bool any = false;
        for (int64_t i = 0; i < cfx_as_list(v[0])->len; i++) {
            for (int k = 0; k < n; k++)
                item[k] = is_sequence(v[k]) ? cfx_at(v[k], i) : cfx_none();
            cfx_value one = cfx__contents_of(x, item);
            any |= !cfx_is_none(one);
            cfx_list_append(cfx_as_list(out), one);
        }
        return any ? out : cfx_none();
    }
    if (!known_everywhere(n, v, known))
        return cfx_none();
    return all_equal(n, known) ? cfx_tensor_value((cfx_tensor *)known[0]) : expressions(x, known);
}

/* The integers that expressions are in world k, in a tensor like t; NULL where one has no value. */
static cfx_tensor *evaluated(const cfx__worlds *w, int k, const cfx_list *e, const cfx_tensor *t) {
    if (e->len != t->numel)
        return NULL;
    cfx_tensor *out = cfx__tensor_empty((cfx_site){0}, (cfx_dtype)t->dtype, false, t->ndim,
                                        t->shape, NULL);
    for (int64_t i = 0; i < e->len && !cfx__obj_is_bad(out); i++) {
        int64_t v;
        if (!cfx__worlds_eval(w, k, e->items[i], &v))
            return NULL;
        cfx__tensor_set(out, i, cfx_int(v));
    }
    return cfx__obj_is_bad(out) ? NULL : out;
}

void cfx__contents_know(const cfx__worlds *w, int k, cfx_value contents, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR && contents.tag == CFX_TAG_TENSOR) {
        cfx__tensor_know(cfx_as_tensor(v), cfx_as_tensor(contents));
    } else if (v.tag == CFX_TAG_TENSOR && contents.tag == CFX_TAG_LIST) {
        cfx_tensor *t = evaluated(w, k, cfx_as_list(contents), cfx_as_tensor(v));
        if (t)
            cfx__tensor_know(cfx_as_tensor(v), t);
    } else if (is_sequence(v) && contents.tag == CFX_TAG_TUPLE) {
        int64_t n = cfx_as_list(contents)->len;
        for (int64_t i = 0; i < cfx_as_list(v)->len && i < n; i++)
            cfx__contents_know(w, k, cfx_as_list(contents)->items[i], cfx_as_list(v)->items[i]);
    }
}
