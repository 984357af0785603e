/* Dynamic sizes given by the tensors themselves (torch.export.ShapesCollection) or by further
 * inputs (AdditionalInputs), converted to the form of `dynamic` in cfx_export. */
#include "export.h"

typedef struct naming {
    const cfx_list *shapes;   /* pairs of a tensor and its sizes */
    bool *used;               /* which of them was found */
    const cfx_value *others;  /* or: the same argument in each of the other inputs */
    int nothers;
} naming;

static cfx_value sizes_of(naming *n, cfx_value v);

/* ---- other inputs ---------------------------------------------------------------------------- */

/* What differs, as PyTorch shows it: "(3, 4)". */
static const char *all_values(const naming *n, cfx_value v) {
    cfx_value all = cfx_tuple_value(1, &v);
    for (int i = 0; i < n->nothers; i++)
        cfx_list_append(cfx_as_list(all), n->others[i]);
    return cfx_value_repr(all);
}

static bool are_alike(const naming *n, cfx_value v) {
    for (int i = 0; i < n->nothers; i++) {
        cfx_value other = n->others[i];
        bool like = v.tag == other.tag;
        if (like && v.tag == CFX_TAG_TENSOR)
            like = cfx_as_tensor(v)->ndim == cfx_as_tensor(other)->ndim;
        if (like && (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE))
            like = cfx_as_list(v)->len == cfx_as_list(other)->len;
        for (int64_t k = 0; like && v.tag == CFX_TAG_DICT && k < cfx_as_dict(v)->len; k++)
            like = cfx_dict_find(cfx_as_dict(other), cfx_as_dict(v)->entries[k].key) != NULL;
        if (!like) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "The following inputs were found to have differing types, so they cannot be "
                     "marked as dynamic: %s.",
                     all_values(n, v));
            return false;
        }
    }
    return true;
}

/* A size that another input has otherwise varies. */
static cfx_value compared(const naming *n, const cfx_tensor *t) {
    cfx_dict *dims = cfx_dict_new();
    for (int i = 0; i < t->ndim; i++) {
        bool varies = false;
        for (int k = 0; k < n->nothers; k++)
            varies |= cfx_as_tensor(n->others[k])->shape[i] != t->shape[i];
        if (varies)
            cfx_dict_put(dims, cfx_int(i), cfx_string_value("Dim.DYNAMIC"));
    }
    return dims->len ? cfx_dict_value(dims) : cfx_none();
}

static cfx_value compared_plain(const naming *n, cfx_value v) {
    for (int i = 0; i < n->nothers; i++) {
        if (cfx_equal_values(v, n->others[i]))
            continue;
        if (v.tag == CFX_TAG_INT)
            return cfx_string_value("Dim.DYNAMIC");
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "The following inputs were found to have differing values, but they cannot be "
                 "marked as dynamic: %s.",
                 all_values(n, v));
        break;
    }
    return cfx_none();
}

/* ---- tensors --------------------------------------------------------------------------------- */

static cfx_value looked_up(naming *n, const cfx_tensor *t) {
    for (int64_t i = 0; i < n->shapes->len; i++)
        if (cfx_as_tensor(cfx_at(n->shapes->items[i], 0)) == t) {
            n->used[i] = true;
            return cfx_at(n->shapes->items[i], 1);
        }
    return cfx_none();
}

/* ---- both ------------------------------------------------------------------------------------ */

/* The sizes of part number i of a list, or of the part with that key. */
static cfx_value part(const naming *n, cfx_value v, int64_t i) {
    naming inner = *n;
    cfx_value *others = cfx__alloc((size_t)(n->nothers + 1) * sizeof *others);
    bool dict = v.tag == CFX_TAG_DICT;
    for (int k = 0; k < n->nothers; k++)
        others[k] = dict ? *cfx_dict_find(cfx_as_dict(n->others[k]), cfx_as_dict(v)->entries[i].key)
                         : cfx_as_list(n->others[k])->items[i];
    inner.others = others;
    cfx_value made =
        sizes_of(&inner, dict ? cfx_as_dict(v)->entries[i].value : cfx_as_list(v)->items[i]);
    cfx__free(others);
    return made;
}

/* What is said of the sizes in a value, nested as it is; scope. */
static cfx_value sizes_of(naming *n, cfx_value v) {
    if (!cfx_ok() || !are_alike(n, v))
        return cfx_none();
    if (v.tag == CFX_TAG_TENSOR)
        return n->shapes ? looked_up(n, cfx_as_tensor(v)) : compared(n, cfx_as_tensor(v));
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        cfx_value out = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out), part(n, v, i));
        return out;
    }
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *out = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx_dict_put(out, cfx_as_dict(v)->entries[i].key, part(n, v, i));
        return cfx_dict_value(out);
    }
    return n->shapes ? cfx_none() : compared_plain(n, v);
}

/* Arguments by name; scope. */
static cfx_value by_name(cfx_module *m, cfx_value args, cfx_value kwargs) {
    cfx__signature *made;
    const cfx__signature *s = cfx__root_signature(m, &made);
    cfx_dict *all = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++)
        cfx_dict_set(all, cfx__export_argument(s, i), cfx_as_list(args)->items[i]);
    const cfx_dict *named = kwargs.tag == CFX_TAG_DICT ? cfx_as_dict(kwargs) : NULL;
    for (int64_t i = 0; named && i < named->len; i++)
        cfx_dict_put(all, named->entries[i].key, named->entries[i].value);
    cfx__signature_free(made);
    return cfx_dict_value(all);
}

cfx_value cfx__shapes_collected(cfx_module *m, cfx_value args, cfx_value kwargs, cfx_value shapes) {
    bool fine = shapes.tag == CFX_TAG_LIST || shapes.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; fine && i < cfx_as_list(shapes)->len; i++) {
        cfx_value pair = cfx_as_list(shapes)->items[i];
        fine = pair.tag == CFX_TAG_TUPLE && cfx_as_list(pair)->len == 2 &&
               cfx_at(pair, 0).tag == CFX_TAG_TENSOR;
    }
    if (!fine) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "shapes are a list of pairs of a tensor and its sizes, not %s",
                 cfx_value_repr(shapes));
        return cfx_none();
    }
    naming n = {.shapes = cfx_as_list(shapes)};
    n.used = cfx__alloc0((size_t)n.shapes->len + 1);
    cfx_value dynamic = sizes_of(&n, by_name(m, args, kwargs));
    for (int64_t i = 0; i < n.shapes->len; i++)
        fine = fine && n.used[i];
    if (!fine)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Some tensors that were assigned shapes were not found in args. Maybe such "
                 "tensors were copied when passing them as args?");
    cfx__free(n.used);
    return dynamic;
}

cfx_value cfx__shapes_inferred(cfx_module *m, cfx_value args, cfx_value kwargs, cfx_value inputs) {
    bool fine = inputs.tag == CFX_TAG_LIST || inputs.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; fine && i < cfx_as_list(inputs)->len; i++) {
        cfx_value pair = cfx_as_list(inputs)->items[i];
        fine = pair.tag == CFX_TAG_TUPLE && cfx_as_list(pair)->len == 2 &&
               cfx_at(pair, 0).tag == CFX_TAG_TUPLE &&
               (cfx_is_none(cfx_at(pair, 1)) || cfx_at(pair, 1).tag == CFX_TAG_DICT);
    }
    if (!fine) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "additional inputs are a list of pairs of a tuple of arguments and a dict of "
                 "keywords or None, not %s",
                 cfx_value_repr(inputs));
        return cfx_none();
    }
    const cfx_list *all = cfx_as_list(inputs);
    cfx_value *others = cfx__alloc((size_t)(all->len + 1) * sizeof *others);
    for (int64_t i = 0; i < all->len; i++)
        others[i] = by_name(m, cfx_at(all->items[i], 0), cfx_at(all->items[i], 1));
    naming n = {.others = others, .nothers = (int)all->len};
    cfx_value dynamic = sizes_of(&n, by_name(m, args, kwargs));
    cfx__free(others);
    return dynamic;
}
