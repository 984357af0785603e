/* Attention of language models, and the rotation of what it compares. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(ATTENTION);

/* ---- heads ----------------------------------------------------------------------------------- */

/* [batch, length, heads * size] as [batch, heads, length, size]; four dimensions are so already. */
static cfx_tensor *in_heads(cfx_op_call *c, cfx_tensor *x, int64_t heads) {
    if (x->ndim == 4)
        return x;
    if (x->ndim != 3 || heads < 1 || onnx_size(x, 2) % heads) {
        op_fail(c, "%s: a tensor of shape %s has no %lld heads", op_title(c),
                cfx__shape_text(x->ndim, x->shape), (long long)heads);
        return &cfx__tensor_bad;
    }
    x = cfx_reshape(x, cfx_list(onnx_size(x, 0), onnx_size(x, 1), heads, onnx_size(x, 2) / heads));
    return cfx_transpose(x, 1, 2);
}

static cfx_tensor *out_of_heads(cfx_tensor *x) {
    cfx_value shape = cfx_list(onnx_size(x, 0), onnx_size(x, 2), onnx_size(x, 1) * onnx_size(x, 3));
    return cfx_reshape(cfx_transpose(x, 1, 2), shape);
}

/* Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen, is_causal, kv_num_heads,
 * left_window_size, q_num_heads, qk_matmul_output_mode, right_window_size, scale, softcap,
 * softmax_precision */
typedef struct {
    cfx_tensor *q, *k, *v, *mask;
    double scale, cap;
    bool causal;
} attending;

static int64_t heads_of(cfx_op_call *c, int i) { return arg_is_none(c, i) ? 0 : arg_int(c, i); }

/* The places of the queries among the keys, [queries, 1]: behind the past or, where sequences have
 * ends of their own, the last before each, [batch, 1, queries, 1]. */
static cfx_tensor *places(cfx_op_call *c, int64_t queries, int64_t past) {
    cfx_value i64 = cfx_dtype_value(CFX_I64);
    cfx_tensor *row = cfx_unsqueeze(cfx_arange(queries, CFX_KW(dtype, i64)), 1);
    if (!T(6) || T(4))
        return cfx_add(row, past);
    return cfx_add(row, cfx_sub(cfx_reshape(T(6), cfx_list(-1, 1, 1, 1)), queries));
}

/* What a query may see: a bool tensor [queries, keys], or of four dimensions, or NULL where it may
 * see everything. */
static cfx_tensor *seen(cfx_op_call *c, const attending *a, int64_t past) {
    int64_t queries = onnx_size(a->q, 2), keys = onnx_size(a->k, 2);
    int64_t left = arg_int(c, 9), right = arg_int(c, 12);
    cfx_tensor *mask = NULL;
    cfx_value i64 = cfx_dtype_value(CFX_I64);
    cfx_tensor *row = places(c, queries, past);
    cfx_tensor *column = cfx_arange(keys, CFX_KW(dtype, i64));
    if (a->causal)
        mask = cfx_le(column, row);
    if (left >= 0) {
        cfx_tensor *near = cfx_ge(column, cfx_sub(row, left));
        mask = mask ? cfx_logical_and(mask, near) : near;
    }
    if (right >= 0) {
        cfx_tensor *near = cfx_le(column, cfx_add(row, right));
        mask = mask ? cfx_logical_and(mask, near) : near;
    }
    if (T(6)) { /* keys behind the end of each sequence are padding */
        cfx_tensor *end = cfx_reshape(T(6), cfx_list(-1, 1, 1, 1));
        cfx_tensor *real = cfx_lt(column, end);
        mask = mask ? cfx_logical_and(mask, real) : real;
    }
    return mask;
}

/* A mask of truths or of numbers to be added, which may be shorter than the keys. */
static cfx_tensor *given_mask(cfx_op_call *c, const attending *a) {
    cfx_tensor *mask = T(3);
    int64_t keys = onnx_size(a->k, 2);
    int64_t has = mask && mask->ndim ? mask->shape[mask->ndim - 1] : keys;
    if (!mask || has == keys || has == 1)
        return mask;
    cfx_value with = mask->dtype == CFX_BOOL ? cfx_bool(false) : cfx_float(-INFINITY);
    return cfx_constant_pad_nd(mask, cfx_list(0, keys - has), with);
}

/* Both masks as one. */
static cfx_tensor *joined(cfx_tensor *mask, cfx_tensor *sees) {
    if (!mask || !sees)
        return mask ? mask : sees;
    return mask->dtype == CFX_BOOL ? cfx_logical_and(mask, sees)
                                   : cfx_where(sees, mask, -INFINITY);
}

/* `spell`: it will be written out, with a mask for what a query may not see. */
static bool read(cfx_op_call *c, attending *a, bool spell) {
    int64_t past = T(4) ? onnx_size(T(4), 2) : 0;
    a->q = in_heads(c, T(0), heads_of(c, 10));
    a->k = in_heads(c, T(1), heads_of(c, 8));
    a->v = in_heads(c, T(2), heads_of(c, 8));
    if (T(4))
        a->k = cfx_cat(cfx_list(T(4), a->k), 2);
    if (T(5))
        a->v = cfx_cat(cfx_list(T(5), a->v), 2);
    if (!cfx_ok())
        return false;
    a->causal = arg_bool(c, 7);
    a->cap = arg_float(c, 14);
    a->scale = arg_is_none(c, 13) ? 1 / sqrt((double)onnx_size(a->q, 3)) : arg_float(c, 13);
    cfx_tensor *mask = given_mask(c, a);
    bool simple = a->causal && !mask && !past && !T(6) && arg_int(c, 9) < 0 &&
                  arg_int(c, 12) < 0 && onnx_size(a->q, 2) == onnx_size(a->k, 2) && !spell;
    if (!simple) {
        a->mask = joined(mask, seen(c, a, past));
        a->causal = false;
    }
    return cfx_ok();
}

/* Keys or values for each head of the queries. */
static cfx_tensor *repeated(const attending *a, cfx_tensor *x) {
    int64_t times = onnx_size(x, 1) ? onnx_size(a->q, 1) / onnx_size(x, 1) : 1;
    return times > 1 ? cfx_repeat_interleave(x, times, 1) : x;
}

static cfx_tensor *safe_softmax(cfx_tensor *x) {
    return cfx_as_tensor(cfx_op_do(&cfx_op__safe_softmax, x, -1));
}

/* Written out: products are capped, or are a result themselves. What mode says is given: products,
 * capped, with the mask, or shares. Who sees nothing has no shares. */
static cfx_tensor *spelled(const attending *a, int64_t mode, cfx_tensor **products) {
    cfx_tensor *k = repeated(a, a->k);
    cfx_tensor *p = cfx_mul(cfx_matmul(a->q, cfx_transpose(k, 2, 3)), a->scale);
    *products = p;
    if (a->cap > 0)
        p = cfx_mul(cfx_tanh(cfx_div(p, a->cap)), a->cap);
    *products = mode == 1 ? p : *products;
    if (a->mask)
        p = a->mask->dtype == CFX_BOOL ? cfx_where(a->mask, p, -INFINITY) : cfx_add(p, a->mask);
    *products = mode == 2 ? p : *products;
    p = a->mask ? safe_softmax(p) : cfx_softmax(p, -1);
    *products = mode == 3 ? p : *products;
    return cfx_matmul(p, repeated(a, a->v));
}

static void attend(cfx_op_call *c, bool all) {
    attending a = {0};
    cfx_tensor *products = NULL, *y;
    bool spell = all || arg_float(c, 14) > 0;
    if (!read(c, &a, spell))
        return;
    bool shared = onnx_size(a.k, 1) != onnx_size(a.q, 1);
    y = spell ? spelled(&a, arg_int(c, 11), &products)
              : cfx_scaled_dot_product_attention(a.q, a.k, a.v, a.mask, 0., a.causal,
                                                 CFX_KW(scale, a.scale),
                                                 CFX_KW(enable_gqa, shared));
    OUT(0) = T(0)->ndim == 3 ? out_of_heads(y) : y;
    if (!all)
        return;
    OUT(1) = a.k, OUT(2) = a.v, OUT(3) = products;
}

ONNX_OP(Attention) { attend(c, false); }
ONNX_OP(Attention_all) { attend(c, true); }

CFX_OP(onnx_Attention) = {
    "onnx::Attention(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? past_key=None, "
    "Tensor? past_value=None, Tensor? nonpad_kv_seqlen=None, *, int is_causal=0, int? "
    "kv_num_heads=None, int left_window_size=-1, int? q_num_heads=None, int "
    "qk_matmul_output_mode=0, int right_window_size=-1, float? scale=None, float softcap=0., str? "
    "softmax_precision=None) -> Tensor",
    ONNX(Attention, 23)};
CFX_OP(onnx_Attention_all) = {
    "onnx::Attention.all(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? "
    "past_key=None, Tensor? past_value=None, Tensor? nonpad_kv_seqlen=None, *, int is_causal=0, "
    "int? kv_num_heads=None, int left_window_size=-1, int? q_num_heads=None, int "
    "qk_matmul_output_mode=0, int right_window_size=-1, float? scale=None, float softcap=0., str? "
    "softmax_precision=None) -> (Tensor Y, Tensor present_key, Tensor present_value, Tensor "
    "qk_matmul_output)",
    ONNX(Attention_all, 23)};

/* ---- rotation -------------------------------------------------------------------------------- */

/* Pairs of numbers of each head are turned by an angle of their position: the halves of what is
 * turned, or neighbours. */
ONNX_OP(RotaryEmbedding) { /* X, cos_cache, sin_cache, position_ids, interleaved, num_heads, dim */
    cfx_tensor *x = in_heads(c, T(0), arg_is_none(c, 5) ? 0 : arg_int(c, 5));
    cfx_tensor *cosine = T(1), *sine = T(2);
    if (!cfx_ok())
        return;
    int64_t size = onnx_size(x, 3), turned = arg_int(c, 6) ? arg_int(c, 6) : size;
    if (T(3)) {
        cosine = cfx_index(cosine, cfx_list(T(3)));
        sine = cfx_index(sine, cfx_list(T(3)));
    }
    cosine = cfx_unsqueeze(cfx_slice(cosine, -1, 0, turned / 2), 1);
    sine = cfx_unsqueeze(cfx_slice(sine, -1, 0, turned / 2), 1);
    cfx_tensor *part = turned < size ? cfx_slice(x, -1, 0, turned) : x, *a, *b, *y;
    bool neighbours = arg_bool(c, 4);
    a = neighbours ? cfx_slice(part, -1, 0, INT64_MAX, 2) : cfx_slice(part, -1, 0, turned / 2);
    b = neighbours ? cfx_slice(part, -1, 1, INT64_MAX, 2) : cfx_slice(part, -1, turned / 2, turned);
    cfx_tensor *real = cfx_sub(cfx_mul(a, cosine), cfx_mul(b, sine));
    cfx_tensor *other = cfx_add(cfx_mul(a, sine), cfx_mul(b, cosine));
    y = neighbours ? cfx_flatten(cfx_stack(cfx_list(real, other), -1), -2)
                   : cfx_cat(cfx_list(real, other), -1);
    if (turned < size)
        y = cfx_cat(cfx_list(y, cfx_slice(x, -1, turned, INT64_MAX)), -1);
    OUT(0) = T(0)->ndim == 3 ? out_of_heads(y) : y;
}

CFX_OP(onnx_RotaryEmbedding) = {
    "onnx::RotaryEmbedding(Tensor X, Tensor cos_cache, Tensor sin_cache, Tensor? "
    "position_ids=None, *, int interleaved=0, int? num_heads=None, int rotary_embedding_dim=0) -> "
    "Tensor",
    ONNX(RotaryEmbedding, 23)};
