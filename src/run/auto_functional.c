/* auto_functionalized and auto_functionalized_v2: an operator that writes to its arguments, run on
 * copies of them. Results are its own (None where it has none), then the copies. */
#include <cfx/ops.h>

#include "run.h"

/* The operator, by its value or by the name of one that was not registered when it was read. */
static cfx_op *mutable_op(cfx_site at, cfx_args a) {
    cfx_value v = a.n ? a.v[0] : cfx_none();
    const char *text = cfx_text(v);
    cfx_op *op = v.tag == CFX_TAG_OP ? cfx_as_op(v)
                 : text ? cfx_op_find(strncmp(text, "torch.ops.", 10) ? text : text + 10)
                        : NULL;
    if (!op)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "the operator %s that auto_functionalized runs is not registered; see "
                 "cfx_op_register",
                 text ? text : cfx_value_repr(v));
    return op;
}

/* A copy that lies as the tensor does. */
static cfx_value copied(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR) {
        const cfx_tensor *t = cfx_as_tensor(v);
        cfx_tensor *copy = cfx_empty_strided(cfx_ints_value(t->ndim, t->shape),
                                             cfx_ints_value(t->ndim, t->stride),
                                             CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)),
                                             CFX_KW(device, cfx_device_value(t->device)));
        return cfx_tensor_value(cfx_copy_(copy, v));
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), copied(cfx_as_list(v)->items[i]));
    return out;
}

/* Calls the operator; its results, and `extra` behind them. */
static cfx_value call(cfx_site at, cfx_op *op, cfx_dict *kwargs, cfx_value extra) {
    cfx_value v = cfx_op_do_from(at, op, (cfx_args){0, NULL, kwargs});
    cfx_value all = cfx_tuple_value(0, NULL);
    if (cfx_is_bad(v) || !cfx_ok())
        return cfx_bad();
    int n = cfx__op_info_of(op)->schema->nrets;
    for (int i = 0; n > 1 && i < n; i++)
        cfx_list_append(cfx_as_list(all), cfx_at(v, i));
    if (n < 2)
        cfx_list_append(cfx_as_list(all), n ? v : cfx_none());
    for (int64_t i = 0; i < cfx_as_list(extra)->len; i++)
        cfx_list_append(cfx_as_list(all), cfx_as_list(extra)->items[i]);
    return all;
}

cfx_value cfx__higher_auto_functionalized(cfx_site at, cfx_args a) {
    cfx_op *op = mutable_op(at, a);
    if (!op)
        return cfx_bad();
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_dict *kwargs = cfx_dict_new();
    cfx_value written = cfx_list_value(0, NULL);
    for (int64_t i = 0; a.kw && i < a.kw->len; i++)
        cfx_dict_put(kwargs, a.kw->entries[i].key, a.kw->entries[i].value);
    for (int i = 0; i < s->nargs; i++) {
        if (!s->args[i].writes)
            continue;
        cfx_value own = copied(cfx_dict_get(kwargs, s->args[i].name));
        cfx_dict_set(kwargs, s->args[i].name, own);
        cfx_list_append(cfx_as_list(written), own);
    }
    return call(at, op, kwargs, written);
}

/* ---- by bases -------------------------------------------------------------------------------- */

/* What the call says of a view, and takes out of the keywords. */
static cfx_value taken(cfx_dict *kwargs, const char *prefix, const char *what) {
    cfx_value key = cfx_string_value(cfx__text_format("%s_%s", prefix, what));
    const cfx_value *v = cfx_dict_find(kwargs, key);
    cfx_value own = v ? cfx__value_scope_own(cfx_value_keep(*v)) : cfx_none();
    cfx_dict_remove(kwargs, key);
    return own;
}

/* The view of a base that an argument is. */
static cfx_value view(cfx_site at, cfx_dict *kwargs, const char *prefix, cfx_value bases) {
    cfx_value index = taken(kwargs, prefix, "base_index"), alias = taken(kwargs, prefix, "alias");
    cfx_value size = taken(kwargs, prefix, "size"), stride = taken(kwargs, prefix, "stride");
    cfx_value offset = taken(kwargs, prefix, "storage_offset");
    cfx_value dim = taken(kwargs, prefix, "slice_dim");
    cfx_value start = taken(kwargs, prefix, "slice_start");
    cfx_value end = taken(kwargs, prefix, "slice_end");
    if (cfx_is_none(index))
        return index;
    int64_t k = cfx_integer(index);
    if (index.tag != CFX_TAG_INT || k < 0 || k >= cfx_as_list(bases)->len) {
        cfx_fail(CFX_INDEX_ERROR, at, "%s_base_index is %s, and there are %lld bases", prefix,
                 cfx_value_repr(index), (long long)cfx_as_list(bases)->len);
        return cfx_bad();
    }
    cfx_value base = cfx_as_list(bases)->items[k];
    if (!cfx_is_none(alias))
        return cfx_op_do_from(at, cfx_op_find("aten.alias"), CFX_ARGS(base));
    if (!cfx_is_none(offset))
        return cfx_tensor_value(cfx_as_strided(base, size, stride, offset));
    if (!cfx_is_none(dim))
        return cfx_op_do_from(at, cfx_op_find("aten.slice.Tensor"),
                              CFX_ARGS(base, dim, start, end));
    return base;
}

static cfx_value argument(cfx_site at, cfx_dict *kwargs, const cfx__schema_arg *arg,
                          cfx_value bases) {
    const char *prefix = cfx__text_format("_%s", arg->name);
    if (!arg->list)
        return view(at, kwargs, prefix, bases);
    cfx_value length = taken(kwargs, prefix, "length"), out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_integer(length) && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(out),
                        view(at, kwargs, cfx__text_format("%s_%lld", prefix, (long long)i), bases));
    return cfx_is_none(length) ? length : out;
}

cfx_value cfx__higher_auto_functionalized_v2(cfx_site at, cfx_args a) {
    cfx_op *op = mutable_op(at, a);
    cfx_value given = a.kw ? cfx_dict_get(a.kw, "_all_bases") : cfx_none();
    if (!op || (given.tag != CFX_TAG_LIST && given.tag != CFX_TAG_TUPLE)) {
        if (op)
            cfx_fail(CFX_TYPE_ERROR, at, "auto_functionalized_v2 has no _all_bases");
        return cfx_bad();
    }
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_dict *kwargs = cfx_dict_new();
    cfx_value bases = copied(given);
    for (int64_t i = 0; i < a.kw->len; i++)
        cfx_dict_put(kwargs, a.kw->entries[i].key, a.kw->entries[i].value);
    cfx_dict_remove(kwargs, cfx_string_value("_all_bases"));
    for (int i = 0; i < s->nargs && cfx_ok(); i++)
        if (s->args[i].writes) {
            cfx_value own = argument(at, kwargs, &s->args[i], bases);
            if (!cfx_is_bad(own))
                cfx_dict_set(kwargs, s->args[i].name, own);
        }
    return cfx_ok() ? call(at, op, kwargs, bases) : cfx_bad();
}
