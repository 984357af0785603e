/* Attention: softmax(q k' scale + mask) v, by one kernel (attention_flash.c) where PyTorch has one
 * too, else by its parts. */
#include <cfx/ops.h>

#include <math.h>

#include "../dense.h"
#include "attention.h"
#include "gemm.h"

CFX_FAMILY(ATTENTION);

/* ---- what may be fused ----------------------------------------------------------------------- */

/* The arguments of both operators that compute attention. */
typedef struct {
    cfx_tensor *q, *k, *v, *mask;
    double dropout;
    bool causal;
    cfx_value scale;
    bool grouped;
} attention;

static double scale_of(const attention *a) {
    if (a->scale.tag != CFX_TAG_NONE)
        return cfx_number(a->scale);
    return 1 / sqrt((double)a->q->shape[a->q->ndim - 1]);
}

/* Whether PyTorch would take its fused kernel on the CPU. */
static bool is_fused(const attention *a) {
    const cfx_tensor *q = a->q, *k = a->k, *v = a->v, *m = a->mask;
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4 || !cfx__dtype_is_float(q->dtype) ||
        a->dropout > 0)
        return false;
    const int64_t batch = q->shape[0], heads = q->shape[1], size = q->shape[3];
    if (k->shape[0] != batch || v->shape[0] != batch || k->shape[1] != v->shape[1] ||
        k->shape[2] != v->shape[2] || k->shape[3] != size || v->shape[3] != size || !q->numel ||
        !k->numel)
        return false;
    if (k->shape[1] != heads && (!a->grouped || heads % k->shape[1]))
        return false;
    if (q->stride[3] != 1 || k->stride[3] != 1 || v->stride[3] != 1)
        return false;
    if (!m)
        return true;
    if (m->ndim != 2 && m->ndim != 4)
        return false;
    const int64_t rows = m->shape[m->ndim - 2], keys = m->shape[m->ndim - 1];
    if ((rows != q->shape[2] && rows != 1) || (keys != k->shape[2] && keys != 1))
        return false;
    return m->ndim == 2 || ((m->shape[0] == 1 || m->shape[0] == batch) &&
                            (m->shape[1] == 1 || m->shape[1] == heads));
}

/* ---- the fused kernel ------------------------------------------------------------------------ */

static void strides_of(const cfx_tensor *t, int64_t *s) { memcpy(s, t->stride, 3 * sizeof *s); }

/* Everything is float32, k and q rows are as long as the head and adjacent. */
static void run_flash(const attention *a, cfx_tensor *out, cfx_tensor *lse) {
    const cfx_tensor *q = a->q, *m = a->mask;
    flash f = {.batch = q->shape[0],
               .heads = q->shape[1],
               .rows = q->shape[2],
               .keys = a->k->shape[2],
               .size = q->shape[3],
               .shared = q->shape[1] / a->k->shape[1],
               .q = (const float *)q->data,
               .k = (const float *)a->k->data,
               .v = (const float *)a->v->data,
               .causal = a->causal,
               .scale = (float)scale_of(a),
               .out = (float *)out->data};
    strides_of(q, f.qs);
    strides_of(a->k, f.ks);
    strides_of(a->v, f.vs);
    strides_of(out, f.os);
    if (lse) {
        f.lse = (float *)lse->data;
        strides_of(lse, f.ls);
    }
    if (m) {
        f.mask = m->data;
        f.mask_bool = m->dtype == CFX_BOOL;
        for (int i = 0; i < m->ndim; i++)
            f.ms[4 - m->ndim + i] = m->shape[i] == 1 ? 0 : m->stride[i];
    }
    flash_run(&f, flash_way(&f, cfx_get_precision()));
}

/* Rows without gaps between their numbers. */
static cfx_tensor *with_rows(cfx_tensor *t) {
    return t->stride[3] == 1 ? t : cfx__tensor_contiguous(t);
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool attention_fits(cfx_op_call *c, const attention *a) {
    const cfx_tensor *q = a->q, *k = a->k, *v = a->v, *m = a->mask;
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        op_fail(c,
                "Expected query, key, and value to have the same dtype, but got query.dtype: %s "
                "key.dtype: %s and value.dtype: %s instead.",
                cfx_dtype_name(q->dtype), cfx_dtype_name(k->dtype), cfx_dtype_name(v->dtype));
    else if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
        op_fail(c,
                "Expected query, key, and value to all be  at least 2 dimensional, but got "
                "query.dim: %d, key.dim: %d and value.dim: %d instead.",
                q->ndim, k->ndim, v->ndim);
    else if (m && a->causal)
        op_fail(c, "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                   "is_causal=True");
    else if (m && m->dtype != CFX_BOOL && m->dtype != CFX_F32 && m->dtype != q->dtype)
        op_fail(c,
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                "attn_mask.dtype: %s and  query.dtype: %s instead.",
                cfx_dtype_name(m->dtype), cfx_dtype_name(q->dtype));
    else if (a->dropout < 0 || a->dropout > 1)
        op_fail(c, "dropout probability has to be between 0 and 1, but got %g", a->dropout);
    return !op_failed();
}

/* Result 0 as the fused kernel leaves it: laid out as the query is. */
static void out_fused(cfx_op_call *c, const cfx_tensor *q) {
    if (cfx__shape_numel(c->at, 4, q->shape) >= 0)
        out_broadcast(c, 0, q->dtype, 1, &q);
}

/* The kernel's dtypes: halves are lifted by hand, for a bool mask stays one. */
static void fused(cfx_op_call *c, attention *a, cfx_tensor *out, cfx_tensor *lse) {
    cfx_tensor *to = out;
    if (out->dtype != CFX_F32 || out->stride[3] != 1) /* a query may overlap itself */
        to = cfx__tensor_empty(c->at, CFX_F32, false, 4, out->shape, NULL);
    a->q = with_rows(cfx__tensor_to_dtype(a->q, CFX_F32));
    a->k = with_rows(cfx__tensor_to_dtype(a->k, CFX_F32));
    a->v = with_rows(cfx__tensor_to_dtype(a->v, CFX_F32));
    if (a->mask && a->mask->dtype != CFX_BOOL)
        a->mask = cfx__tensor_to_dtype(a->mask, CFX_F32);
    if (op_failed())
        return;
    run_flash(a, to, lse);
    if (to != out)
        cfx__tensor_copy(out, to);
}

static attention sdpa_args(const cfx_op_call *c) {
    return (attention){arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3),
                       arg_float(c, 4),  arg_bool(c, 5),   c->args[6],       arg_bool(c, 7)};
}

static void shape_sdpa(cfx_op_call *c) {
    attention a = sdpa_args(c);
    if (!attention_fits(c, &a))
        return;
    if (is_fused(&a))
        out_fused(c, a.q);
    else
        out_as_composed(c);
}

static void kernel_sdpa(cfx_op_call *c) {
    attention a = sdpa_args(c);
    if (is_fused(&a) && a.q->dtype != CFX_F64) {
        fused(c, &a, c->out[0], NULL);
        return;
    }
    cfx_value made = cfx__op_decompose(c->at, c->op, c->args);
    if (!op_failed())
        cfx__tensor_copy(c->out[0], cfx_as_tensor(made));
}

/* A mask of bools as numbers to add: nothing, or minus infinity. */
static cfx_tensor *additive(cfx_tensor *mask, cfx_dtype dtype) {
    if (!mask || mask->dtype != CFX_BOOL)
        return mask;
    cfx_tensor *never = cfx_scalar_tensor(-INFINITY, CFX_KW(dtype, cfx_dtype_value(dtype)),
                                          CFX_KW(device, cfx_device_value(mask->device)));
    return cfx_where(mask, 0.0, never);
}

static void decompose_sdpa(cfx_op_call *c) {
    attention a = sdpa_args(c);
    if (!attention_fits(c, &a))
        return;
    cfx_value mask = CFX_V(additive(a.mask, (cfx_dtype)a.q->dtype));
    cfx_value made;
    if (is_fused(&a))
        made = cfx_aten__scaled_dot_product_flash_attention_for_cpu(
            a.q, a.k, a.v, a.dropout, a.causal, CFX_KW(attn_mask, mask), CFX_KW(scale, a.scale));
    else
        made = cfx_aten__scaled_dot_product_attention_math(a.q, a.k, a.v, mask, a.dropout, a.causal,
                                                           cfx_none(), CFX_KW(scale, a.scale),
                                                           CFX_KW(enable_gqa, cfx_bool(a.grouped)));
    if (!op_failed())
        c->out[0] = cfx_tensor_at(made, 0);
}

CFX_OP(scaled_dot_product_attention) = {
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
    "attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool "
    "enable_gqa=False) -> Tensor",
    "torch._C._nn.scaled_dot_product_attention torch.nn.functional.scaled_dot_product_attention",
    .shape = shape_sdpa,
    .kernel = kernel_sdpa,
    .decompose = decompose_sdpa,
    .effects = CFX_COMPOSITE | CFX_RANDOM, .autocast = CFX_CAST_LOW};

/* query, key, value, dropout_p, is_causal, attn_mask, scale: the fused operator itself. */
static attention flash_args(const cfx_op_call *c) {
    return (attention){arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 5),
                       arg_float(c, 3),  arg_bool(c, 4),   c->args[6],       true};
}

static void shape_flash(cfx_op_call *c) {
    attention a = flash_args(c);
    if (!attention_fits(c, &a))
        return;
    if (!is_fused(&a)) {
        op_fail(c,
                "_scaled_dot_product_flash_attention_for_cpu: query, key, value and attn_mask do "
                "not fit: 4 dims of floats, rows that lie together, no dropout");
        return;
    }
    const int64_t *n = a.q->shape;
    out_fused(c, a.q);
    out_strided(c, 1, a.q->dtype == CFX_F64 ? CFX_F64 : CFX_F32, 3, n,
                (int64_t[]){n[1] * n[2], 1, n[1]});
}

static void kernel_flash(cfx_op_call *c) {
    attention a = flash_args(c);
    if (a.q->dtype != CFX_F64) {
        fused(c, &a, c->out[0], c->out[1]);
        return;
    }
    const int64_t heads = a.q->shape[1];
    if (a.k->shape[1] != heads)
        a.k = cfx_repeat_interleave(a.k, heads / a.k->shape[1], 1);
    if (a.v->shape[1] != heads)
        a.v = cfx_repeat_interleave(a.v, heads / a.v->shape[1], 1);
    cfx_tensor *scores = cfx_mul(cfx_matmul(a.q, cfx_mT(a.k)), scale_of(&a));
    if (a.causal) {
        cfx_tensor *ones = cfx_ones(cfx_list(a.q->shape[2], a.k->shape[2]), CFX_KW(dtype, cfx_b8));
        a.mask = cfx_tril(ones);
    }
    if (a.mask)
        scores = cfx_add(scores, additive(a.mask, CFX_F64));
    cfx_tensor *y = cfx_matmul(cfx_aten__safe_softmax(scores, -1), a.v);
    cfx_tensor *lse = cfx_logsumexp(scores, cfx_list(-1));
    if (op_failed())
        return;
    cfx__tensor_copy(c->out[0], y);
    cfx__tensor_copy(c->out[1], lse);
}

static void decompose_flash(cfx_op_call *c) {
    attention a = flash_args(c);
    const bool grouped = a.q->ndim == 4 && a.k->ndim == 4 && a.q->shape[1] != a.k->shape[1];
    cfx_value made = cfx_aten__scaled_dot_product_attention_math(
        a.q, a.k, a.v, c->args[5], a.dropout, a.causal, cfx_none(), CFX_KW(scale, a.scale),
        CFX_KW(enable_gqa, cfx_bool(grouped)));
    if (op_failed())
        return;
    cfx_tensor *y = cfx_permute(cfx_tensor_at(made, 0), cfx_list(2, 0, 1, 3));
    y = cfx_contiguous(y, CFX_KW(memory_format, cfx_contiguous_format));
    c->out[0] = cfx_permute(y, cfx_list(1, 2, 0, 3));
    c->out[1] = cfx_tensor_at(made, 1);
}

cfx_grad_fn grad_flash; /* attention_back.c */

/* The product of queries and keys, and that of weights and values. */
static int64_t flops_flash(const cfx_op_call *c) {
    const int64_t *q = arg_tensor(c, 0)->shape, *v = arg_tensor(c, 2)->shape;
    return flops_of(5, (int64_t[]){q[0], q[1], q[2], v[2], q[3] + v[3]});
}

CFX_OP(_scaled_dot_product_flash_attention_for_cpu) = {
    "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
    "float "
    "dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor "
    "output, Tensor logsumexp)",
    "torch._scaled_dot_product_flash_attention_for_cpu", .shape = shape_flash,
    .kernel = kernel_flash, .decompose = decompose_flash, .flops = flops_flash,
    GRAD(flash, READ(0) | READ(1) | READ(2) | READ(5) | RESULT(0) | RESULT(1)),
    ASIDE(RESULT(1)), .core = decompose_flash};

/* ---- the same written out -------------------------------------------------------------------- */

static cfx_tensor *times(cfx_tensor *t, double factor) {
    cfx_value v = cfx_op_do(&cfx_op_mul_Scalar, t, factor);
    return op_failed() ? &cfx__tensor_bad : cfx_as_tensor(v);
}

/* query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale, enable_gqa */
static void decompose_attention_math(cfx_op_call *c) {
    attention a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3),
                   arg_float(c, 4),  arg_bool(c, 5),   c->args[7],       arg_bool(c, 8)};
    cfx_tensor *q = a.q, *k = a.k, *v = a.v, *mask = a.mask, *dropped = arg_tensor(c, 6);
    if (!attention_fits(c, &a))
        return;
    const cfx_dtype dtype = (cfx_dtype)q->dtype;
    const bool half = cfx__dtype_is_half(dtype);
    if (half) { /* the mask stays as it is: adding it promotes */
        q = cfx_aten__to_copy(q, CFX_KW(dtype, cfx_f32)),
        k = cfx_aten__to_copy(k, CFX_KW(dtype, cfx_f32));
        v = cfx_aten__to_copy(v, CFX_KW(dtype, cfx_f32));
    }
    double scale = scale_of(&a), root = sqrt(fabs(scale));
    q = times(q, scale < 0 ? -root : root);
    if (op_failed())
        return;
    if (a.causal) {
        cfx_tensor *ones =
            cfx_ones(cfx_list(q->shape[q->ndim - 2], k->shape[k->ndim - 2]), CFX_KW(dtype, cfx_b8),
                     CFX_KW(device, cfx_device_value(q->device)));
        mask = additive(cfx_tril(ones), (cfx_dtype)q->dtype);
    }
    if (a.grouped && q->ndim >= 3 && k->ndim >= 3 && v->ndim >= 3) {
        const int64_t heads = q->shape[q->ndim - 3], kh = k->shape[k->ndim - 3];
        const int64_t vh = v->shape[v->ndim - 3];
        if (!kh || !vh || heads % kh || heads % vh) {
            op_fail(c, "Number of heads in key and value must divide the number of heads in query");
            return;
        }
        if (heads != kh)
            k = cfx_repeat_interleave(k, heads / kh, -3);
        if (heads != vh)
            v = cfx_repeat_interleave(v, heads / vh, -3);
    }
    cfx_tensor *scores = cfx_matmul(q, times(cfx_transpose(k, -2, -1), root));
    if (mask)
        scores = mask->dtype == CFX_BOOL ? cfx_add(scores, additive(mask, (cfx_dtype)q->dtype))
                 : c->fake               ? cfx_add(scores, mask) /* as PyTorch for subclasses */
                                         : cfx_add_(scores, mask);
    cfx_tensor *weights = cfx_aten__safe_softmax(scores, -1);
    if (a.dropout > 0 && dropped) {
        weights = cfx_masked_fill(weights, cfx_logical_not(dropped), 0.0);
        v = cfx_mul(v, 1 / (1 - a.dropout));
    } else if (a.dropout > 0) {
        weights = cfx_dropout(weights, a.dropout, cfx_bool(true));
    }
    cfx_tensor *given = weights;
    if (half)
        given = cfx_aten__to_copy(weights, CFX_KW(dtype, cfx_dtype_value(dtype)));
    cfx_tensor *y = cfx_matmul(weights, v);
    if (half)
        y = cfx_aten__to_copy(y, CFX_KW(dtype, cfx_dtype_value(dtype)));
    c->out[0] = y;
    c->out[1] = given;
}

CFX_OP(_scaled_dot_product_attention_math) = {
    "aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? "
    "attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, "
    "float? "
    "scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
    "torch._scaled_dot_product_attention_math", .decompose = decompose_attention_math,
    .effects = CFX_COMPOSITE | CFX_RANDOM};
