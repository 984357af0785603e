/* What the operators of ONNX share: numbers that say what a call is, axes, element types. */
#include "onnx.h"

/* ---- numbers --------------------------------------------------------------------------------- */

const cfx_tensor *onnx_numbers(cfx_op_call *c, int i) {
    const cfx_tensor *t = cfx__tensor_known(arg_tensor(c, i));
    const cfx__schema *s = cfx__op_info_of(c->op)->schema;
    if (!t)
        cfx__fail_unknown(c->at, "%s: its result depends on the values of '%s', which are not "
                                 "known before it runs", s->name, s->args[i].name);
    return t;
}

bool onnx_ints(cfx_op_call *c, int i, int64_t *out, int *n) {
    *n = 0;
    if (arg_is_none(c, i))
        return true;
    const cfx_tensor *t = onnx_numbers(c, i);
    if (!t)
        return false;
    if (t->ndim > 1 || t->numel > CFX_MAX_DIMS || !cfx__dtype_is_integral((cfx_dtype)t->dtype)) {
        op_fail(c, "%s: '%s' must be a list of at most %d integers, not %s of shape %s",
                op_title(c), cfx__op_info_of(c->op)->schema->args[i].name, CFX_MAX_DIMS,
                cfx_dtype_name((cfx_dtype)t->dtype), cfx__shape_text(t->ndim, t->shape));
        return false;
    }
    for (; *n < t->numel; ++*n)
        out[*n] = cfx_integer(cfx__tensor_get(t, *n));
    return true;
}

static bool one_number(cfx_op_call *c, int i, cfx_value *v) {
    const cfx_tensor *t = onnx_numbers(c, i);
    if (!t)
        return false;
    if (t->numel != 1) {
        op_fail(c, "%s: '%s' must be one number, not a tensor of shape %s", op_title(c),
                cfx__op_info_of(c->op)->schema->args[i].name, cfx__shape_text(t->ndim, t->shape));
        return false;
    }
    *v = cfx__tensor_get(t, 0);
    return true;
}

bool onnx_int(cfx_op_call *c, int i, int64_t other, int64_t *out) {
    cfx_value v = cfx_int(other);
    bool fine = arg_is_none(c, i) || one_number(c, i, &v);
    *out = cfx_integer(v);
    if (fine && (*out > CFX__MOST_ELEMENTS || *out < -CFX__MOST_ELEMENTS)) {
        op_fail(c, "%s: '%s' is %lld, which is not a size", op_title(c),
                cfx__op_info_of(c->op)->schema->args[i].name, (long long)*out);
        return false;
    }
    return fine;
}

bool onnx_count(cfx_op_call *c, int i, int64_t other, int64_t *out) {
    cfx_value v = cfx_int(other);
    bool fine = arg_is_none(c, i) || one_number(c, i, &v);
    *out = cfx_integer(v) < CFX__MOST_ELEMENTS ? cfx_integer(v) : CFX__MOST_ELEMENTS;
    *out = *out < 0 ? 0 : *out;
    return fine;
}

bool onnx_float(cfx_op_call *c, int i, double other, double *out) {
    cfx_value v = cfx_float(other);
    bool fine = arg_is_none(c, i) || one_number(c, i, &v);
    *out = cfx_number(v);
    return fine;
}

cfx_value onnx_operand(const cfx_tensor *t, const cfx_tensor *partner) {
    const cfx_tensor *known = t->numel == 1 && t->ndim <= partner->ndim ? cfx__tensor_known(t)
                                                                       : NULL;
    bool plain = known && cfx__dtype_is_computed((cfx_dtype)t->dtype) && t->dtype == partner->dtype;
    if (!plain)
        return cfx_tensor_value((cfx_tensor *)t);
    cfx_value v = cfx__tensor_get(known, 0);
    return t->dtype == CFX_F32 ? cfx_float(cfx__number_shortest((float)cfx_number(v))) : v;
}

int64_t onnx_size(const cfx_tensor *x, int i) {
    if (cfx_failed(x))
        return 0;
    if (i < x->ndim)
        return x->shape[i];
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "a tensor of shape %s has no dimension %d",
             cfx__shape_text(x->ndim, x->shape), i);
    return 0;
}

/* ---- axes ------------------------------------------------------------------------------------ */

int onnx_axis(cfx_op_call *c, int64_t axis, int ndim) {
    if (axis >= -ndim && axis < ndim)
        return (int)(axis < 0 ? axis + ndim : axis);
    op_fail(c, "%s: there is no axis %lld in a tensor of %d dimensions", op_title(c),
            (long long)axis, ndim);
    return -1;
}

static bool axes_given(cfx_op_call *c, int i, int64_t *out, int *n) {
    if (arg_tensor(c, i))
        return onnx_ints(c, i, out, n);
    if (arg_count(c, i) > CFX_MAX_DIMS) {
        op_fail(c, "%s: there are more axes than a tensor has", op_title(c));
        return false;
    }
    *n = arg_ints(c, i, out);
    return true;
}

int onnx_axes(cfx_op_call *c, int i, int ndim, int64_t *out) {
    int n = 0;
    uint64_t seen = 0;
    if (arg_is_none(c, i)) {
        for (; n < ndim; n++)
            out[n] = n;
        return n;
    }
    if (!axes_given(c, i, out, &n))
        return -1;
    for (int k = 0; k < n; k++) {
        int axis = onnx_axis(c, out[k], ndim);
        if (axis < 0)
            return -1;
        if (seen >> axis & 1) {
            op_fail(c, "%s: axis %d is given twice", op_title(c), axis);
            return -1;
        }
        seen |= (uint64_t)1 << axis;
        out[k] = axis;
    }
    return n;
}

/* ---- element types --------------------------------------------------------------------------- */

static const cfx__onnx_type types[] = {
    {"float", 1, CFX_F32, 0},
    {"uint8", 2, CFX_U8, 0},
    {"int8", 3, CFX_I8, 0},
    {"uint16", 4, CFX_U16, 0},
    {"int16", 5, CFX_I16, 0},
    {"int32", 6, CFX_I32, 0},
    {"int64", 7, CFX_I64, 0},
    {"string", 8, CFX_DTYPE_COUNT, 0},
    {"bool", 9, CFX_BOOL, 0},
    {"float16", 10, CFX_F16, 0},
    {"double", 11, CFX_F64, 0},
    {"uint32", 12, CFX_U32, 0},
    {"uint64", 13, CFX_U64, 0},
    {"complex64", 14, CFX_C64, 0},
    {"complex128", 15, CFX_C128, 0},
    {"bfloat16", 16, CFX_BF16, 0},
    {"float8e4m3fn", 17, CFX_F8E4M3FN, 0},
    {"float8e4m3fnuz", 18, CFX_F8E4M3FNUZ, 0},
    {"float8e5m2", 19, CFX_F8E5M2, 0},
    {"float8e5m2fnuz", 20, CFX_F8E5M2FNUZ, 0},
    {"uint4", 21, CFX_U8, 4},
    {"int4", 22, CFX_I8, 4},
    {"float4e2m1", 23, CFX_F8E4M3FN, 4}, /* which has all of its numbers */
    {"float8e8m0", 24, CFX_F8E8M0FNU, 0},
    {"uint2", 25, CFX_U8, 2},
    {"int2", 26, CFX_I8, 2},
};

const cfx__onnx_type *cfx__onnx_type_named(const char *name) {
    for (int i = 0; name && i < COUNT(types); i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

const cfx__onnx_type *cfx__onnx_type_numbered(int64_t number) {
    for (int i = 0; i < COUNT(types); i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

const cfx__onnx_type *cfx__onnx_type_of(cfx_dtype d) {
    for (int i = 0; i < COUNT(types); i++)
        if (types[i].dtype == d && !types[i].bits)
            return &types[i];
    return NULL;
}

const cfx__onnx_type *onnx_type_named(cfx_op_call *c, const char *name) {
    const cfx__onnx_type *t = cfx__onnx_type_named(name);
    if (t && t->dtype != CFX_DTYPE_COUNT)
        return t;
    op_fail_as(NOT_IMPLEMENTED, c, "%s: there are no tensors of the type '%s' here", op_title(c),
               name ? name : "");
    return NULL;
}

const char *onnx_type_name(cfx_op_call *c, const cfx_tensor *t) {
    const cfx__onnx_type *type = cfx__onnx_type_of((cfx_dtype)t->dtype);
    if (type)
        return type->name;
    op_fail_as(NOT_IMPLEMENTED, c, "%s: ONNX has no tensors of %s", op_title(c),
               cfx_dtype_name((cfx_dtype)t->dtype));
    return "";
}

/* The largest finite number of a float of 8 bits. */
static double largest(cfx_dtype d) {
    switch (d) {
    case CFX_F8E4M3FN:
        return 448;
    case CFX_F8E4M3FNUZ:
        return 240;
    default:
        return 57344;
    }
}

/* Numbers as integers of few bits: what is behind the point is cut off, and of the rest the lowest
 * bits are kept, as casts between integers do. */
static cfx_tensor *to_few_bits(cfx_tensor *x, const cfx__onnx_type *to) {
    const int64_t half = (int64_t)1 << (to->bits - 1);
    bool with_sign = to->dtype == CFX_I8;
    x = onnx_to(onnx_wide(x), CFX_I64);
    x = with_sign ? cfx_add(x, half) : x;
    x = cfx_bitwise_and(x, 2 * half - 1);
    return onnx_to(with_sign ? cfx_sub(x, half) : x, to->dtype);
}

/* Numbers as floats of four bits, 0, 0.5, 1, 1.5, 2, 3, 4, 6 and the same below zero: the nearest
 * one, of two the one whose last bit is 0. There is no NaN: it is -0, as ONNX's tests have it. */
static cfx_tensor *to_float4(cfx_tensor *x) {
    x = cfx_clamp(onnx_to(onnx_wide(x), CFX_F32), -6, 6);
    x = cfx_where(cfx_isnan(x), -0.0, x);
    cfx_tensor *size = cfx_abs(x);
    cfx_tensor *step = cfx_where(cfx_lt(size, 2), 0.5, cfx_where(cfx_lt(size, 4), 1.0, 2.0));
    return onnx_to(cfx_mul(cfx_round(cfx_div(x, step)), step), CFX_F8E4M3FN);
}

/* Powers of 2 near to x, which is not negative: the next that is not below it ("up"), not above it
 * ("down"), or the nearest one. */
static cfx_tensor *to_powers(cfx_tensor *x, const char *way) {
    x = onnx_to(x, CFX_F32);
    cfx_value parts = cfx_frexp(x); /* a number from 1 / 2 up to 1, and a power */
    if (cfx_is_bad(parts))
        return &cfx__tensor_bad;
    double most = !strcmp(way, "up") ? 0.5 : !strcmp(way, "down") ? 1 : 0.75;
    cfx_tensor *above = cfx_gt(cfx_at(parts, 0), most);
    cfx_tensor *power = cfx_sub(cfx_add(cfx_at(parts, 1), onnx_to(above, CFX_I32)), 1);
    x = cfx_exp2(onnx_to(cfx_clamp(cfx_where(cfx_eq(x, 0), -127, power), -127, 127), CFX_F32));
    return onnx_to(x, CFX_F8E8M0FNU);
}

cfx_tensor *onnx_cast(cfx_op_call *c, cfx_tensor *x, const cfx__onnx_type *to, bool saturate,
                      const char *way) {
    if (!to)
        return &cfx__tensor_bad;
    if (strcmp(way, "up") && strcmp(way, "down") && strcmp(way, "nearest")) {
        op_fail(c, "%s: the round_mode '%s' is not known", op_title(c), way);
        return &cfx__tensor_bad;
    }
    if (to->bits)
        return cfx__dtype_is_float8(to->dtype) ? to_float4(x) : to_few_bits(x, to);
    if (to->dtype == CFX_F8E8M0FNU && x->dtype != to->dtype)
        return to_powers(x, way);
    if (cfx__dtype_is_float8(to->dtype) && saturate && x->dtype != to->dtype) {
        x = onnx_wide(x);
        if (cfx__dtype_is_float((cfx_dtype)x->dtype))
            x = cfx_clamp(x, -largest(to->dtype), largest(to->dtype));
    }
    return onnx_to(x, to->dtype);
}
