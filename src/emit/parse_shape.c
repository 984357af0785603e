/* Shapes in texts, "f32[3, s77][s77, 1]cpu", become what is noted of a node. Start at
 * cfx__parse_shape. */
#include "emit.h"

typedef struct reading {
    const char *at, *end;
    int depth;
    bool bare; /* a tensor without strides is in it */
} reading;

static bool take(reading *r, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n))
        return false;
    r->at += n;
    return true;
}

static void commas(reading *r) {
    while (r->at < r->end && (*r->at == ',' || *r->at == ' '))
        r->at++;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* A size: a number, an expression, or in quotes the text of one that has no value. */
static bool take_size(reading *r, cfx_value *v) {
    if (!take(r, "'"))
        return cfx__sym_parse(r->at, r->end, &r->at, v) &&
               (v->tag != CFX_TAG_INT || cfx_integer(*v) >= 0);
    const char *from = r->at, *end = memchr(from, '\'', (size_t)(r->end - from));
    if (!end)
        return false;
    *v = cfx_string_value_n(from, (size_t)(end - from));
    r->at = end + 1;
    return true;
}

/* [3, s77]: sizes, as a tuple; whether all of them are numbers. */
static cfx_value take_sizes(reading *r, bool *known) {
    cfx_value sizes = cfx_tuple_value(0, NULL), v;
    for (r->at++; r->at < r->end && *r->at != ']'; commas(r)) {
        if (!take_size(r, &v))
            return cfx_bad();
        *known &= v.tag == CFX_TAG_INT;
        cfx_list_append(cfx_as_list(sizes), v);
    }
    return take(r, "]") ? sizes : cfx_bad();
}

static cfx_value fake(cfx_dtype dtype, cfx_value shape, cfx_value stride) {
    int64_t sizes[CFX_MAX_DIMS], strides[CFX_MAX_DIMS];
    int64_t ndim = cfx_as_list(shape)->len;
    bool strided = stride.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; i < ndim; i++) {
        sizes[i] = cfx_integer(cfx_as_list(shape)->items[i]);
        strides[i] = strided ? cfx_integer(cfx_as_list(stride)->items[i]) : 0;
    }
    cfx_tensor *t = cfx_tensor_fake(dtype, (int)ndim, sizes, strided ? strides : NULL);
    return cfx_ok() ? cfx_tensor_value(t) : cfx_bad();
}

static cfx_value described(cfx_dtype dtype, cfx_value shape, cfx_value stride) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "shape", shape);
    cfx_dict_set(d, "dtype", cfx_dtype_value(dtype));
    if (stride.tag == CFX_TAG_TUPLE)
        cfx_dict_set(d, "stride", stride);
    return cfx_dict_value(d);
}

/* The device behind the sizes, up to what ends a result. */
static bool take_device(reading *r, cfx_value v) {
    size_t n = 0;
    while (r->at + n < r->end && !strchr(",)]", r->at[n]))
        n++;
    cfx_device where;
    if (n && !cfx__device_parse(cfx__string_new(r->at, n)->text, &where))
        return false;
    if (n && v.tag == CFX_TAG_DICT)
        cfx_dict_set(cfx_as_dict(v), "device", cfx_device_value(where));
    else if (n)
        cfx__tensor_place(cfx_as_tensor(v), where);
    r->at += n;
    return true;
}

static cfx_value take_tensor(reading *r) {
    const char *sizes = memchr(r->at, '[', (size_t)(r->end - r->at));
    cfx_dtype dtype;
    bool known = true;
    if (!sizes || !cfx_dtype_parse(cfx__string_new(r->at, (size_t)(sizes - r->at))->text, &dtype))
        return cfx_bad();
    r->at = sizes;
    cfx_value shape = take_sizes(r, &known), stride = cfx_none();
    if (cfx_is_bad(shape) || cfx_as_list(shape)->len > CFX_MAX_DIMS)
        return cfx_bad();
    if (r->at < r->end && *r->at == '[')
        stride = take_sizes(r, &known);
    else
        r->bare = true;
    if (cfx_is_bad(stride) || (stride.tag == CFX_TAG_TUPLE &&
                               cfx_as_list(stride)->len != cfx_as_list(shape)->len))
        return cfx_bad();
    cfx_value v = known ? fake(dtype, shape, stride) : described(dtype, shape, stride);
    return !cfx_is_bad(v) && take_device(r, v) ? v : cfx_bad();
}

/* ---- results --------------------------------------------------------------------------------- */

/* Sym(u0 <= 8), whose bracket is read, is kept as text: relations are no values. */
static cfx_value take_symbol(reading *r) {
    const char *from = r->at, *rest;
    int depth = 1;
    for (; r->at < r->end && depth; r->at++)
        depth += (*r->at == '(') - (*r->at == ')');
    const char *end = r->at - 1;
    cfx_value v;
    if (depth || end == from)
        return cfx_bad();
    if (!cfx__sym_parse(from, end, &rest, &v) || rest != end)
        v = cfx_string_value_n(from, (size_t)(end - from));
    return v;
}

static cfx_value take_result(reading *r);

/* (f32[2], f32[2]) or, where it is a list, [f32[2], f32[2]]; the first bracket is read. */
static cfx_value take_several(reading *r, cfx_value out, const char *close) {
    if (++r->depth > CFX__MAX_NESTING)
        return cfx_bad();
    for (commas(r); r->at < r->end && *r->at != *close; commas(r)) {
        cfx_value v = take_result(r);
        if (cfx_is_bad(v))
            return v;
        cfx_list_append(cfx_as_list(out), v);
    }
    r->depth--;
    return take(r, close) ? out : cfx_bad();
}

static cfx_value take_result(reading *r) {
    if (take(r, "Sym("))
        return take_symbol(r);
    if (take(r, "("))
        return take_several(r, cfx_tuple_value(0, NULL), ")");
    if (take(r, "["))
        return take_several(r, cfx_list_value(0, NULL), "]");
    if (take(r, "None"))
        return cfx_none();
    if (take(r, "True"))
        return cfx_bool(true);
    if (take(r, "False"))
        return cfx_bool(false);
    char *end;
    long long i = strtoll(r->at, &end, 10);
    if (end > r->at && (*end == ',' || *end == ')' || *end == ']')) {
        r->at = end;
        return cfx_int(i);
    }
    return take_tensor(r);
}

bool cfx__parse_shape(cfx_node *n, const char *text) {
    reading r = {.at = text, .end = text + strlen(text)};
    cfx_value v = take_result(&r);
    if (cfx_is_bad(v) || r.at != r.end)
        return false;
    cfx_node_set_meta(n, "val", v);
    cfx__node_of(n)->bare = r.bare && n->op != CFX_PLACEHOLDER;
    return true;
}
