/* Tensors made of sizes, ranges and random numbers. */
#include "onnx.h"

CFX_FAMILY(CREATE);

/* One number everywhere, 0. in float32 unless a value says another. */
ONNX_OP(ConstantOfShape) { /* input, value */
    int64_t shape[CFX_MAX_DIMS];
    int n;
    cfx_value with = cfx_float(0);
    cfx_dtype d = CFX_F32;
    if (!onnx_ints(c, 0, shape, &n))
        return;
    if (T(1)) {
        const cfx_tensor *v = onnx_numbers(c, 1);
        if (!v || v->numel != 1) {
            if (v)
                op_fail(c, "ConstantOfShape: the value is a tensor of one number");
            return;
        }
        with = cfx__tensor_get(v, 0);
        d = (cfx_dtype)v->dtype;
    }
    cfx_tensor *x = cfx_full(cfx_ints_value(n, shape), with,
                             CFX_KW(dtype, cfx_dtype_value(cfx__dtype_wide(d))));
    OUT(0) = onnx_to(x, d);
}

ONNX_OP(Range) {
    cfx_value v[3];
    for (int i = 0; i < 3; i++) {
        const cfx_tensor *t = onnx_numbers(c, i);
        if (!t || t->numel != 1) {
            if (t)
                op_fail(c, "Range: start, limit and delta are one number each");
            return;
        }
        v[i] = cfx__tensor_get(t, 0);
    }
    if (cfx_number(v[2]) == 0) {
        op_fail(c, "Range: delta is 0");
        return;
    }
    bool none = cfx_number(v[2]) > 0 ? cfx_number(v[1]) < cfx_number(v[0])
                                     : cfx_number(v[1]) > cfx_number(v[0]);
    cfx_dtype d = (cfx_dtype)T(0)->dtype;
    OUT(0) = cfx_arange(v[0], none ? v[0] : v[1], v[2], CFX_KW(dtype, cfx_dtype_value(d)));
}

ONNX_OP(EyeLike) { /* input, dtype, k */
    cfx_tensor *x = T(0);
    const cfx__onnx_type *type = arg_is_none(c, 1) ? NULL : onnx_type_named(c, arg_text(c, 1));
    if (x->ndim != 2) {
        op_fail(c, "EyeLike: the tensor has %d dimensions, not 2", x->ndim);
        return;
    }
    if (!cfx_ok())
        return;
    cfx_dtype d = type ? type->dtype : (cfx_dtype)x->dtype;
    int64_t k = arg_int(c, 2);
    cfx_value i64 = cfx_dtype_value(CFX_I64);
    if (k == 0 && cfx__dtype_is_computed(d)) {
        OUT(0) = cfx_eye(onnx_size(x, 0), onnx_size(x, 1), CFX_KW(dtype, cfx_dtype_value(d)));
        return;
    }
    cfx_tensor *row = cfx_unsqueeze(cfx_arange(onnx_size(x, 0), CFX_KW(dtype, i64)), 1);
    cfx_tensor *column = cfx_arange(onnx_size(x, 1), CFX_KW(dtype, i64));
    OUT(0) = onnx_to(cfx_eq(column, cfx_add(row, k)), d);
}

ONNX_OP(Trilu) { /* input, k, upper */
    int64_t k;
    cfx_tensor *x = onnx_wide(T(0));
    if (onnx_int(c, 1, 0, &k))
        OUT(0) = onnx_to(arg_bool(c, 2) ? cfx_triu(x, k) : cfx_tril(x, k), (cfx_dtype)T(0)->dtype);
}

CFX_OP(onnx_ConstantOfShape) = {
    "onnx::ConstantOfShape(Tensor input, *, Tensor? value=None) -> Tensor",
    ONNX(ConstantOfShape, 9)};
CFX_OP(onnx_Range) = {
    "onnx::Range(Tensor start, Tensor limit, Tensor delta) -> Tensor",
    ONNX(Range, 11)};
CFX_OP(onnx_EyeLike) = {
    "onnx::EyeLike(Tensor input, *, str? dtype=None, int k=0) -> Tensor",
    ONNX(EyeLike, 9)};
CFX_OP(onnx_Trilu) = {
    "onnx::Trilu(Tensor input, Tensor? k=None, *, int upper=1) -> Tensor",
    ONNX(Trilu, 14)};

/* ---- random numbers -------------------------------------------------------------------------- */

CFX_FAMILY(RANDOM);

/* The dtype that an attribute names; `other` where it is left out. */
static cfx_dtype named_dtype(cfx_op_call *c, int i, cfx_dtype other) {
    const cfx__onnx_type *t = arg_is_none(c, i) ? NULL : onnx_type_named(c, arg_text(c, i));
    return t ? t->dtype : other;
}

/* mean + scale * noise, or low + (high - low) * noise. A seed is the runtime's business. */
static void draw(cfx_op_call *c, cfx_value shape, cfx_dtype d, bool normal, double a, double b) {
    cfx_value dtype = cfx_dtype_value(d);
    cfx_tensor *x = !cfx_ok() ? &cfx__tensor_bad
                    : normal  ? cfx_randn(shape, CFX_KW(dtype, dtype))
                              : cfx_rand(shape, CFX_KW(dtype, dtype));
    OUT(0) = cfx_add(cfx_mul(x, normal ? b : b - a), a);
}

static cfx_value shape_of(const cfx_tensor *t) { return cfx_ints_value(t->ndim, t->shape); }

ONNX_OP(RandomNormal) { /* dtype, mean, scale, seed, shape */
    draw(c, c->args[4], named_dtype(c, 0, CFX_F32), true, arg_float(c, 1), arg_float(c, 2));
}
ONNX_OP(RandomUniform) { /* dtype, high, low, seed, shape */
    draw(c, c->args[4], named_dtype(c, 0, CFX_F32), false, arg_float(c, 2), arg_float(c, 1));
}
ONNX_OP(RandomNormalLike) { /* input, dtype, mean, scale, seed */
    draw(c, shape_of(T(0)), named_dtype(c, 1, (cfx_dtype)T(0)->dtype), true, arg_float(c, 2),
         arg_float(c, 3));
}
ONNX_OP(RandomUniformLike) { /* input, dtype, high, low, seed */
    draw(c, shape_of(T(0)), named_dtype(c, 1, (cfx_dtype)T(0)->dtype), false, arg_float(c, 3),
         arg_float(c, 2));
}
ONNX_OP(Bernoulli) { /* input, dtype, seed */
    OUT(0) = onnx_to(cfx_bernoulli(T(0)), named_dtype(c, 1, (cfx_dtype)T(0)->dtype));
}
/* Logarithms of the odds, of which so many are drawn. */
ONNX_OP(Multinomial) { /* input, dtype, sample_size, seed */
    cfx_tensor *at = cfx_multinomial(cfx_softmax(T(0), -1), arg_int(c, 2), true);
    OUT(0) = onnx_to(at, named_dtype(c, 1, CFX_I32));
}

#define DRAWN(name, version) ONNX_WITH(onnx_##name, version, CFX_RANDOM)

CFX_OP(onnx_RandomNormal) = {
    "onnx::RandomNormal(*, str? dtype=None, float mean=0., float scale=1., float? seed=None, "
    "int[] shape) -> Tensor",
    DRAWN(RandomNormal, 1)};
CFX_OP(onnx_RandomUniform) = {
    "onnx::RandomUniform(*, str? dtype=None, float high=1., float low=0., float? seed=None, int[] "
    "shape) -> Tensor",
    DRAWN(RandomUniform, 1)};
CFX_OP(onnx_RandomNormalLike) = {
    "onnx::RandomNormalLike(Tensor input, *, str? dtype=None, float mean=0., float scale=1., "
    "float? seed=None) -> Tensor",
    DRAWN(RandomNormalLike, 1)};
CFX_OP(onnx_RandomUniformLike) = {
    "onnx::RandomUniformLike(Tensor input, *, str? dtype=None, float high=1., float low=0., "
    "float? seed=None) -> Tensor",
    DRAWN(RandomUniformLike, 1)};
CFX_OP(onnx_Bernoulli) = {
    "onnx::Bernoulli(Tensor input, *, str? dtype=None, float? seed=None) -> Tensor",
    DRAWN(Bernoulli, 15)};
CFX_OP(onnx_Multinomial) = {
    "onnx::Multinomial(Tensor input, *, str? dtype=None, int sample_size=1, float? seed=None) -> "
    "Tensor",
    DRAWN(Multinomial, 7)};
