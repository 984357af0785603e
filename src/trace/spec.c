/* Whether what the caller says of sizes that may vary fits the inputs, in the words of
 * torch.export's _check_dynamic_shapes. Paths are those of Python: ['x'][0]. Start at
 * cfx__spec_check. */
#include "dims.h"

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

static bool mismatch(const char *text) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: %s",
             text);
    return false;
}

static const char *class_of(cfx_value v) {
    return cfx__text_format("<class '%s'>", cfx__value_python_type(v));
}

static cfx_value keys_of(cfx_value dict) {
    cfx_value keys = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_dict(dict)->len; i++)
        cfx_list_append(cfx_as_list(keys), cfx_as_dict(dict)->entries[i].key);
    return keys;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static bool is_hint(cfx_value v) {
    const char *text = v.tag == CFX_TAG_STR ? cfx_text(v) : "";
    return !strcmp(text, "Dim.AUTO") || !strcmp(text, "Dim.DYNAMIC") || !strcmp(text, "Dim.STATIC");
}

static bool check_tensor(const char *path, const cfx_tensor *t, cfx_value spec) {
    if (is_list(spec) && cfx_as_list(spec)->len != t->ndim) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Expected dynamic shape spec %s specified at `dynamic_shapes%s` to have the same "
                 "length as the actual tensor shape torch.Size(%s) (expected %d, but got %lld "
                 "instead)",
                 cfx_value_repr(spec), path, cfx__shape_text(t->ndim, t->shape), t->ndim,
                 (long long)cfx_as_list(spec)->len);
        return false;
    }
    if (is_list(spec) || spec.tag == CFX_TAG_DICT)
        return true; /* what its items are is seen when they are read */
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "Unexpected input tensor shape %s specified at `dynamic_shapes%s` (expected either a "
             "list/tuple of dimensions, or a dict mapping indices to dimensions, where each "
             "dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)",
             cfx_value_str(spec), path);
    return false;
}

static bool check_plain(const char *path, cfx_value v, cfx_value spec) {
    if (v.tag == CFX_TAG_INT && (is_hint(spec) || spec.tag == CFX_TAG_INT))
        return true;
    if (v.tag == CFX_TAG_INT && (spec.tag == CFX_TAG_STR || spec.tag == CFX_TAG_TUPLE))
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Unable to specify input integers as dynamic through named Dims. Please use "
                 "Dim.AUTO/DYNAMIC instead.");
    else
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Cannot associate shape %s specified at `dynamic_shapes%s` to non-tensor type %s "
                 "at `inputs%s` (expected None)",
                 cfx_value_str(spec), path, class_of(v), path);
    return false;
}

/* ---- trees ----------------------------------------------------------------------------------- */

static bool check(const char *path, cfx_value v, cfx_value spec);

static bool check_list(const char *path, const cfx_list *items, cfx_value v, cfx_value spec) {
    if (!is_list(spec))
        return mismatch(
            cfx__text_format(spec.tag == CFX_TAG_DICT
                                 ? "`inputs%s` is a %s, but `dynamic_shapes%s` is a <class 'dict'>"
                                 : "`inputs%s` is a %s, but `dynamic_shapes%s` is not",
                             path, class_of(v), path));
    if (cfx_as_list(spec)->len != items->len)
        return mismatch(cfx__text_format("`inputs%s` has %lld elements, but "
                                         "`dynamic_shapes%s` has %lld elements",
                                         path, (long long)items->len, path,
                                         (long long)cfx_as_list(spec)->len));
    for (int64_t i = 0; i < items->len; i++)
        if (!check(cfx__text_format("%s[%lld]", path, (long long)i), items->items[i],
                   cfx_as_list(spec)->items[i]))
            return false;
    return true;
}

static bool check_dict(const char *path, cfx_value v, cfx_value spec) {
    if (spec.tag != CFX_TAG_DICT)
        return mismatch(cfx__text_format("`inputs%s` is a <class 'dict'>, but "
                                         "`dynamic_shapes%s` is not",
                                         path, path));
    for (int64_t i = 0; i < cfx_as_dict(spec)->len; i++) {
        cfx_value key = cfx_as_dict(spec)->entries[i].key;
        const cfx_value *own = cfx_dict_find(cfx_as_dict(v), key);
        if (!own)
            return mismatch(
                cfx__text_format("`inputs%s` has keys %s, but `dynamic_shapes%s` has keys %s", path,
                                 cfx_value_repr(keys_of(v)), path, cfx_value_repr(keys_of(spec))));
        if (!check(cfx__text_format("%s[%s]", path, cfx_value_repr(key)), *own,
                   cfx_as_dict(spec)->entries[i].value))
            return false;
    }
    return true;
}

static bool check(const char *path, cfx_value v, cfx_value spec) {
    if (cfx_is_none(spec))
        return true;
    if (v.tag == CFX_TAG_TENSOR)
        return check_tensor(path, cfx_as_tensor(v), spec);
    if (is_list(v))
        return check_list(path, cfx_as_list(v), v, spec);
    return v.tag == CFX_TAG_DICT ? check_dict(path, v, spec) : check_plain(path, v, spec);
}

/* A name that is no argument's is a slip; one that is left out has sizes that do not vary. */
static bool check_names(cfx_value inputs, cfx_value spec) {
    for (int64_t i = 0; i < cfx_as_dict(spec)->len; i++)
        if (!cfx_dict_find(cfx_as_dict(inputs), cfx_as_dict(spec)->entries[i].key)) {
            bool enclosed = cfx_as_dict(inputs)->len == 1 &&
                            cfx_as_dict(inputs)->entries[0].value.tag == CFX_TAG_DICT;
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "When `dynamic_shapes` is specified as a dict, its top-level keys must be the "
                     "arg names %s of `inputs`, but here they are %s. %s",
                     cfx_value_repr(keys_of(inputs)), cfx_value_repr(keys_of(spec)),
                     enclosed ? "Since here `inputs` is a list/tuple enclosing a single dict, "
                                "maybe you just forgot to enclose `dynamic_shapes` in a list/tuple?"
                              : "Alternatively, you could also ignore arg names entirely and "
                                "specify `dynamic_shapes` as a list/tuple matching `inputs`.");
            return false;
        }
    return true;
}

cfx_value cfx__spec_check(cfx_value inputs, cfx_value spec) {
    if (cfx_is_none(spec))
        return spec;
    if (is_list(spec)) { /* in the order of arguments */
        cfx_value values = cfx_tuple_value(0, NULL);
        cfx_dict *named = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(inputs)->len; i++)
            cfx_list_append(cfx_as_list(values), cfx_as_dict(inputs)->entries[i].value);
        if (!check_list("", cfx_as_list(values), spec, spec))
            return cfx_bad();
        for (int64_t i = 0; i < cfx_as_list(spec)->len; i++)
            cfx_dict_put(named, cfx_as_dict(inputs)->entries[i].key, cfx_as_list(spec)->items[i]);
        return cfx_dict_value(named);
    }
    if (spec.tag != CFX_TAG_DICT) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "sizes that may vary are given as a dict of arguments, or a list of them in their "
                 "order, not %s",
                 cfx_value_type_name(spec));
        return cfx_bad();
    }
    return check_names(inputs, spec) && check_dict("", inputs, spec) ? spec : cfx_bad();
}
