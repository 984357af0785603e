/* Attention of com.microsoft, in terms of ONNX's: projections, masks and caches as ONNX Runtime's
 * optimizer and its model builder write them. */
#include "microsoft.h"

#include <math.h>

CFX_FAMILY(ATTENTION);

/* What ONNX's attention is called with. */
typedef struct {
    cfx_tensor *q, *k, *v, *mask, *past_k, *past_v;
    int64_t heads, kv_heads, window;
    bool causal;
    cfx_value scale;
    double cap;
} attending;

/* Calls it: y alone, or the caches too. False, with an error. */
static bool attend(cfx_op_call *c, const attending *a, bool all) {
    cfx_value v = cfx_op_do_from(
        c->at, all ? &cfx_op_onnx_Attention_all : &cfx_op_onnx_Attention,
        CFX_ARGS(a->q, a->k, a->v, a->mask, a->past_k, a->past_v,
                 CFX_KW(is_causal, (int64_t)a->causal), CFX_KW(q_num_heads, a->heads),
                 CFX_KW(kv_num_heads, a->kv_heads), CFX_KW(left_window_size, a->window),
                 CFX_KW(scale, a->scale), CFX_KW(softcap, a->cap)));
    if (cfx_is_bad(v))
        return false;
    for (int i = 0; i < (all ? 3 : 1); i++)
        OUT(i) = all ? cfx_tensor_at(v, i) : cfx_as_tensor(v);
    return true;
}

/* A scale of 0, or none, is the usual one. */
static cfx_value scale_of(cfx_op_call *c, int i) {
    return arg_is_none(c, i) || arg_float(c, i) == 0 ? cfx_none() : c->args[i];
}

/* Keys by the lengths of the rows, or by their ends followed by their beginnings. */
static cfx_tensor *between(cfx_tensor *mask, int64_t rows, int64_t keys) {
    cfx_tensor *at = cfx_arange(keys, CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    cfx_tensor *ends = cfx_reshape(cfx_slice(mask, 0, 0, rows), cfx_list(-1, 1, 1, 1));
    cfx_tensor *seen = cfx_lt(at, ends);
    if (onnx_size(mask, 0) == rows)
        return seen;
    cfx_tensor *first = cfx_reshape(cfx_slice(mask, 0, rows, 2 * rows), cfx_list(-1, 1, 1, 1));
    return cfx_logical_and(seen, cfx_ge(at, first));
}

/* What to add to the products of so many rows, of shape [batch, 1, 1, keys] or alike: `hidden`
 * where a mask of zeros and ones, or the lengths of the rows, leave a key out. */
static cfx_tensor *padding(cfx_op_call *c, cfx_tensor *mask, int64_t rows, int64_t keys,
                           double hidden) {
    cfx_tensor *seen = NULL;
    if (mask->ndim == 1 && (onnx_size(mask, 0) == rows || onnx_size(mask, 0) == 2 * rows))
        seen = between(mask, rows, keys);
    else if (mask->ndim == 2)
        seen = cfx_ne(cfx_unsqueeze(cfx_unsqueeze(mask, 1), 1), 0);
    else if (mask->ndim == 3)
        seen = cfx_ne(cfx_unsqueeze(mask, 1), 0);
    if (!seen) {
        op_fail_as(NOT_IMPLEMENTED, c, "%s: a mask of shape %s is not known here", op_title(c),
                   cfx__shape_text(mask->ndim, mask->shape));
        return NULL;
    }
    return onnx_to(cfx_mul(onnx_to(cfx_logical_not(seen), CFX_F32), hidden),
                   (cfx_dtype)T(0)->dtype);
}

/* The mask and the bias of products in one. */
static cfx_tensor *joined(cfx_tensor *mask, cfx_tensor *bias) {
    return mask && bias ? cfx_add(mask, bias) : mask ? mask : bias;
}

/* ---- of one input ---------------------------------------------------------------------------- */

/* Parts of the last dimension: three equal ones, or such as are given. */
static bool in_three(cfx_op_call *c, cfx_tensor *x, cfx_value sizes, cfx_tensor **out) {
    int64_t whole = onnx_size(x, x->ndim - 1);
    bool given = sizes.tag == CFX_TAG_LIST && cfx_as_list(sizes)->len == 3;
    if (!given && whole % 3) {
        op_fail(c, "%s: %lld numbers are not queries, keys and values", op_title(c),
                (long long)whole);
        return false;
    }
    cfx_value parts = given ? cfx_split(x, sizes, -1) : cfx_split(x, whole / 3, -1);
    for (int i = 0; i < 3 && !cfx_is_bad(parts); i++)
        out[i] = cfx_tensor_at(parts, i);
    return cfx_ok();
}

/* input, weights, bias, mask_index, past, attention_bias, past_sequence_length, do_rotary,
 * mask_filter_value, num_heads, past_present_share_buffer, qkv_hidden_sizes, rotary_embedding_dim,
 * scale, unidirectional */
static void attention(cfx_op_call *c, bool all) {
    cfx_tensor *parts[3], *x = cfx_matmul(T(0), T(1)), *past = T(4);
    if (arg_bool(c, 7) || arg_bool(c, 10)) {
        op_fail_as(NOT_IMPLEMENTED, c, "Attention: rotations and shared caches are not known here");
        return;
    }
    x = T(2) ? cfx_add(x, T(2)) : x;
    if (!cfx_ok() || !in_three(c, x, c->args[11], parts))
        return;
    attending a = {.q = parts[0], .k = parts[1], .v = parts[2], .heads = arg_int(c, 9),
                   .kv_heads = arg_int(c, 9), .window = -1, .causal = arg_bool(c, 14),
                   .scale = scale_of(c, 13)};
    int64_t keys = onnx_size(a.k, 1);
    if (past) {
        a.past_k = cfx_select(past, 0, 0), a.past_v = cfx_select(past, 0, 1);
        keys += onnx_size(past, 3);
    }
    cfx_tensor *mask = T(3) ? padding(c, T(3), onnx_size(x, 0), keys, arg_float(c, 8)) : NULL;
    a.mask = cfx_ok() ? joined(mask, T(5)) : NULL;
    if (cfx_ok() && attend(c, &a, all) && all)
        OUT(1) = cfx_stack(cfx_list(OUT(1), OUT(2)), 0);
}

ONNX_OP(Attention) { attention(c, false); }
ONNX_OP(Attention_all) { attention(c, true); }

CFX_OP(onnx_microsoft_Attention) = {
    "onnx_microsoft::Attention(Tensor input, Tensor weights, Tensor? bias=None, Tensor? "
    "mask_index=None, Tensor? past=None, Tensor? attention_bias=None, Tensor? "
    "past_sequence_length=None, *, int do_rotary=0, float mask_filter_value=-10000., int "
    "num_heads, int past_present_share_buffer=0, int[]? qkv_hidden_sizes=None, int "
    "rotary_embedding_dim=0, float? scale=None, int unidirectional=0) -> Tensor",
    ONNX(Attention, 1)};
CFX_OP(onnx_microsoft_Attention_all) = {
    "onnx_microsoft::Attention.all(Tensor input, Tensor weights, Tensor? bias=None, Tensor? "
    "mask_index=None, Tensor? past=None, Tensor? attention_bias=None, Tensor? "
    "past_sequence_length=None, *, int do_rotary=0, float mask_filter_value=-10000., int "
    "num_heads, int past_present_share_buffer=0, int[]? qkv_hidden_sizes=None, int "
    "rotary_embedding_dim=0, float? scale=None, int unidirectional=0) -> (Tensor output, Tensor "
    "present)",
    ONNX(Attention_all, 1)};

/* input, weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point,
 * past, do_rotary, mask_filter_value, num_heads, past_present_share_buffer, scale, unidirectional:
 * the same of quantized numbers. */
static void quantized_attention(cfx_op_call *c, cfx_op *by) {
    cfx_tensor *x = onnx_tensor_of(cfx_op_do_from(c->at, &cfx_op_onnx_DequantizeLinear,
                                                  CFX_ARGS(T(0), T(3), T(6))));
    cfx_tensor *w = onnx_tensor_of(cfx_op_do_from(c->at, &cfx_op_onnx_DequantizeLinear,
                                                  CFX_ARGS(T(1), T(4), T(7))));
    if (!cfx_ok())
        return;
    cfx_value y = cfx_op_do_from(
        c->at, by,
        CFX_ARGS(x, w, T(2), T(5), T(8), CFX_KW(do_rotary, c->args[9]),
                 CFX_KW(mask_filter_value, c->args[10]), CFX_KW(num_heads, c->args[11]),
                 CFX_KW(past_present_share_buffer, c->args[12]), CFX_KW(scale, c->args[13]),
                 CFX_KW(unidirectional, c->args[14])));
    bool all = by == &cfx_op_onnx_microsoft_Attention_all;
    for (int i = 0; i < (all ? 2 : 1) && !cfx_is_bad(y); i++)
        OUT(i) = all ? cfx_tensor_at(y, i) : cfx_as_tensor(y);
}

ONNX_OP(QAttention) { quantized_attention(c, &cfx_op_onnx_microsoft_Attention); }
ONNX_OP(QAttention_all) { quantized_attention(c, &cfx_op_onnx_microsoft_Attention_all); }

CFX_OP(onnx_microsoft_QAttention) = {
    "onnx_microsoft::QAttention(Tensor input, Tensor weight, Tensor bias, Tensor input_scale, "
    "Tensor weight_scale, Tensor? mask_index=None, Tensor? input_zero_point=None, Tensor? "
    "weight_zero_point=None, Tensor? past=None, *, int do_rotary=0, float "
    "mask_filter_value=-10000., int num_heads, int past_present_share_buffer=0, float? "
    "scale=None, int unidirectional=0) -> Tensor",
    ONNX(QAttention, 1)};
CFX_OP(onnx_microsoft_QAttention_all) = {
    "onnx_microsoft::QAttention.all(Tensor input, Tensor weight, Tensor bias, Tensor input_scale, "
    "Tensor weight_scale, Tensor? mask_index=None, Tensor? input_zero_point=None, Tensor? "
    "weight_zero_point=None, Tensor? past=None, *, int do_rotary=0, float "
    "mask_filter_value=-10000., int num_heads, int past_present_share_buffer=0, float? "
    "scale=None, int unidirectional=0) -> (Tensor output, Tensor present)",
    ONNX(QAttention_all, 1)};

/* ---- of queries, keys and values ------------------------------------------------------------- */

/* Argument i with its part of the bias. */
static cfx_tensor *with_bias(cfx_tensor *x, cfx_tensor *bias, int64_t from, int64_t to) {
    return bias && x->ndim == 3 ? cfx_add(x, cfx_slice(bias, 0, from, to)) : x;
}

/* query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value,
 * mask_filter_value, num_heads, scale, unidirectional */
static void multi_head(cfx_op_call *c, bool all) {
    attending a = {.q = T(0), .k = T(1), .v = T(2), .heads = arg_int(c, 9),
                   .kv_heads = arg_int(c, 9), .past_k = T(6), .past_v = T(7), .window = -1,
                   .causal = arg_bool(c, 11), .scale = scale_of(c, 10)};
    if (!a.k || !a.v || a.q->ndim != 3) {
        op_fail_as(NOT_IMPLEMENTED, c,
                   "MultiHeadAttention: queries, keys and values in one are not known here");
        return;
    }
    int64_t wide = onnx_size(a.q, 2), all_bias = T(3) ? onnx_size(T(3), 0) : 0;
    a.q = with_bias(a.q, T(3), 0, wide);
    a.k = with_bias(a.k, T(3), wide, 2 * wide);
    a.v = with_bias(a.v, T(3), 2 * wide, all_bias);
    int64_t keys = onnx_size(a.k, a.k->ndim == 4 ? 2 : 1);
    keys += a.past_k ? onnx_size(a.past_k, 2) : 0;
    cfx_tensor *mask = T(4) ? padding(c, T(4), onnx_size(a.q, 0), keys, arg_float(c, 8)) : NULL;
    a.mask = cfx_ok() ? joined(mask, T(5)) : NULL;
    if (cfx_ok())
        attend(c, &a, all);
}

ONNX_OP(MultiHeadAttention) { multi_head(c, false); }
ONNX_OP(MultiHeadAttention_all) { multi_head(c, true); }

CFX_OP(onnx_microsoft_MultiHeadAttention) = {
    "onnx_microsoft::MultiHeadAttention(Tensor query, Tensor? key=None, Tensor? value=None, "
    "Tensor? bias=None, Tensor? key_padding_mask=None, Tensor? attention_bias=None, Tensor? "
    "past_key=None, Tensor? past_value=None, *, float mask_filter_value=-10000., int num_heads, "
    "float? scale=None, int unidirectional=0) -> Tensor",
    ONNX(MultiHeadAttention, 1)};
CFX_OP(onnx_microsoft_MultiHeadAttention_all) = {
    "onnx_microsoft::MultiHeadAttention.all(Tensor query, Tensor? key=None, Tensor? value=None, "
    "Tensor? bias=None, Tensor? key_padding_mask=None, Tensor? attention_bias=None, Tensor? "
    "past_key=None, Tensor? past_value=None, *, float mask_filter_value=-10000., int num_heads, "
    "float? scale=None, int unidirectional=0) -> (Tensor output, Tensor present_key, Tensor "
    "present_value)",
    ONNX(MultiHeadAttention_all, 1)};

/* ---- of groups of heads ---------------------------------------------------------------------- */

static cfx_tensor *rotated(cfx_op_call *c, cfx_tensor *x, cfx_tensor *cosine, cfx_tensor *sine,
                           cfx_tensor *places, bool interleaved, int64_t heads, int64_t size) {
    return onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_RotaryEmbedding,
        CFX_ARGS(x, cosine, sine, places, CFX_KW(interleaved, (int64_t)interleaved),
                 CFX_KW(num_heads, heads), CFX_KW(rotary_embedding_dim, size))));
}

/* Where the queries are, [batch, queries]: the last before the end of each row, whose last key has
 * the number that is given; of a first text those from 0 on. */
static cfx_tensor *places_of(cfx_tensor *last_key, int64_t queries) {
    cfx_tensor *end = cfx_reshape(onnx_to(last_key, CFX_I64), cfx_list(-1, 1));
    cfx_tensor *first = cfx_clamp(cfx_add(end, 1 - queries), 0);
    return cfx_add(first, cfx_arange(queries, CFX_KW(dtype, cfx_dtype_value(CFX_I64))));
}

/* Queries, keys and values in one, by their heads. */
static bool unpack(cfx_op_call *c, attending *a) {
    int64_t whole = onnx_size(a->q, 2), parts = a->heads + 2 * a->kv_heads;
    if (a->k && a->v)
        return true;
    if (parts < 1 || whole % parts) {
        op_fail(c, "GroupQueryAttention: %lld numbers are not those of %lld and twice %lld heads",
                (long long)whole, (long long)a->heads, (long long)a->kv_heads);
        return false;
    }
    int64_t q = whole / parts * a->heads, k = whole / parts * a->kv_heads;
    cfx_value v = cfx_split(a->q, cfx_list(q, k, k), -1);
    if (cfx_is_bad(v))
        return false;
    a->q = cfx_tensor_at(v, 0), a->k = cfx_tensor_at(v, 1), a->v = cfx_tensor_at(v, 2);
    return true;
}

/* Caches that grow have as many keys as seqlens_k says, and one more. Where they are parts of a
 * larger buffer, or rows are padded, there are fewer: that is refused when it is run. */
static void check_lengths(cfx_op_call *c, const attending *a, cfx_tensor *last) {
    int64_t keys = onnx_size(a->k, 1) + (a->past_k ? onnx_size(a->past_k, 2) : 0);
    if (cfx_ok())
        cfx_op_do_from(c->at, &cfx_op__assert_async_msg,
                       CFX_ARGS(cfx_all(cfx_eq(last, keys - 1)),
                                "GroupQueryAttention: seqlens_k does not say that all keys are in "
                                "use; padded rows and caches in a larger buffer are refused"));
}

/* query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache,
 * position_ids, attention_bias, head_sink, do_rotary, kv_num_heads, local_window_size, num_heads,
 * qk_output, rotary_interleaved, scale, smooth_softmax, softcap */
ONNX_OP(GroupQueryAttention) {
    attending a = {.q = T(0), .k = T(1), .v = T(2), .mask = T(10), .past_k = T(3), .past_v = T(4),
                   .heads = arg_int(c, 15), .kv_heads = arg_int(c, 13), .causal = true,
                   .window = arg_int(c, 14) > 0 ? arg_int(c, 14) - 1 : -1,
                   .scale = scale_of(c, 18), .cap = arg_float(c, 20)};
    if (T(11) || arg_int(c, 19) > 0 || arg_int(c, 16) > 0) {
        op_fail_as(NOT_IMPLEMENTED, c,
                   "GroupQueryAttention: sinks, smooth softmax and products are not known here");
        return;
    }
    if (a.q->ndim != 3 || !unpack(c, &a))
        return;
    check_lengths(c, &a, T(5));
    if (arg_bool(c, 12)) {
        int64_t size = T(7) ? 2 * onnx_size(T(7), 1) : 0;
        cfx_tensor *places = T(9) ? T(9) : places_of(T(5), onnx_size(a.q, 1));
        a.q = rotated(c, a.q, T(7), T(8), places, arg_bool(c, 17), a.heads, size);
        a.k = rotated(c, a.k, T(7), T(8), places, arg_bool(c, 17), a.kv_heads, size);
    }
    if (cfx_ok())
        attend(c, &a, true);
}

CFX_OP(onnx_microsoft_GroupQueryAttention) = {
    "onnx_microsoft::GroupQueryAttention(Tensor query, Tensor? key, Tensor? value, Tensor? "
    "past_key, Tensor? past_value, Tensor seqlens_k, Tensor total_sequence_length, Tensor? "
    "cos_cache=None, Tensor? sin_cache=None, Tensor? position_ids=None, Tensor? "
    "attention_bias=None, Tensor? head_sink=None, *, int do_rotary=0, int kv_num_heads, int "
    "local_window_size=-1, int num_heads, int qk_output=0, int rotary_interleaved=0, float? "
    "scale=None, int smooth_softmax=0, float softcap=0.) -> (Tensor output, Tensor present_key, "
    "Tensor present_value)",
    ONNX(GroupQueryAttention, 1)};

/* input, position_ids, cos_cache, sin_cache, interleaved, is_packed_batching, num_heads,
 * rotary_embedding_dim, scale: one position is that of the first in each row. */
ONNX_OP(RotaryEmbedding) {
    cfx_tensor *x = T(0), *places = onnx_to(T(1), CFX_I64), *cosine = T(2);
    int64_t rows = onnx_size(x, x->ndim == 4 ? 2 : 1), heads = arg_int(c, 6);
    int64_t size = arg_int(c, 7) ? arg_int(c, 7) : 2 * onnx_size(cosine, 1);
    if (!cfx_ok() || size < 1)
        return;
    if (arg_bool(c, 5) || arg_float(c, 8) != 1) {
        op_fail_as(NOT_IMPLEMENTED, c,
                   "RotaryEmbedding: packed batches and scales are not known here");
        return;
    }
    if (places->ndim < 2) {
        places = cfx_add(cfx_reshape(places, cfx_list(1, 1)),
                         cfx_arange(rows, CFX_KW(dtype, cfx_dtype_value(CFX_I64))));
        places = cfx_expand(places, cfx_list(onnx_size(x, 0), rows));
    }
    if (!heads && x->ndim == 3)
        heads = onnx_size(x, 2) / size;
    OUT(0) = rotated(c, x, cosine, T(3), places, arg_bool(c, 4), heads, size);
}

CFX_OP(onnx_microsoft_RotaryEmbedding) = {
    "onnx_microsoft::RotaryEmbedding(Tensor input, Tensor position_ids, Tensor cos_cache, Tensor "
    "sin_cache, *, int interleaved=0, int is_packed_batching=0, int num_heads=0, int "
    "rotary_embedding_dim=0, float scale=1.) -> Tensor",
    ONNX(RotaryEmbedding, 1)};
