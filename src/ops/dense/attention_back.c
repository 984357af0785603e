/* The gradient of fused attention. Neither the scores nor the weights were kept: the weights are
 * made again from the logarithm of each row's sum, which was. */
#include <math.h>

#include "../back.h"
#include "../dense.h"

CFX_FAMILY(ATTENTION);

typedef struct {
    cfx_tensor *q, *k, *v, *mask;
    cfx_tensor *out, *lse; /* NULL where all is to be made from q, k and v: to be recorded */
    cfx_tensor *grad;
    bool causal;
    double scale;
} attended;

typedef struct {
    cfx_tensor *q, *k, *v, *scores;
} attended_grads;

static cfx_tensor *lifted(cfx_tensor *t) {
    return t && cfx__dtype_is_half(t->dtype) ? cast_to(t, CFX_F32) : t;
}

/* Heads that several queries share, one for each of them; and back, summed. */
static cfx_tensor *each_head(cfx_tensor *t, int64_t heads) {
    return t->shape[1] == heads ? t : cfx_repeat_interleave(t, heads / t->shape[1], 1);
}
static cfx_tensor *shared_head(cfx_tensor *t, const cfx_tensor *like) {
    const int64_t *n = like->shape;
    if (op_failed() || t->shape[1] == n[1])
        return t;
    t = cfx_view(cfx_contiguous(t), cfx_list(n[0], n[1], t->shape[1] / n[1], n[2], n[3]));
    return cfx_sum(t, cfx_list(2));
}

static cfx_tensor *weights_of(const attended *a, cfx_tensor *q, cfx_tensor *k) {
    cfx_tensor *scores = cfx_mul(cfx_matmul(q, cfx_mT(k)), a->scale);
    if (a->causal) {
        cfx_tensor *ones = cfx_ones(cfx_list(q->shape[2], k->shape[2]), CFX_KW(dtype, cfx_b8));
        scores = cfx_masked_fill(scores, cfx_logical_not(cfx_tril(ones)), -INFINITY);
    }
    if (a->mask && a->mask->dtype == CFX_BOOL)
        scores = cfx_masked_fill(scores, cfx_logical_not(a->mask), -INFINITY);
    else if (a->mask)
        scores = cfx_add(scores, a->mask);
    if (!a->lse)
        return cfx_aten__safe_softmax(scores, -1);
    cfx_tensor *lse = cfx_unsqueeze(a->lse, -1);
    cfx_tensor *nothing = cfx_eq(lse, -INFINITY); /* rows where all is masked */
    return cfx_masked_fill(cfx_exp(cfx_sub(scores, lse)), nothing, 0);
}

static attended_grads back_attention(const attended *a) {
    const int64_t heads = a->q->shape[1];
    cfx_tensor *q = lifted(a->q), *g = lifted(a->grad);
    cfx_tensor *k = each_head(lifted(a->k), heads), *v = each_head(lifted(a->v), heads);
    cfx_tensor *w = weights_of(a, q, k), *gw = cfx_matmul(g, cfx_mT(v));
    cfx_tensor *along = a->out ? cfx_mul(g, lifted(a->out)) : cfx_mul(gw, w);
    cfx_tensor *gs = cfx_mul(w, cfx_sub(gw, cfx_sum(along, cfx_list(-1), cfx_bool(true))));
    cfx_tensor *scaled_gs = cfx_mul(gs, a->scale);
    attended_grads r = {cfx_matmul(scaled_gs, k),
                        shared_head(cfx_matmul(cfx_mT(scaled_gs), q), a->k),
                        shared_head(cfx_matmul(cfx_mT(w), g), a->v), gs};
    r.q = cast_to(r.q, a->q->dtype);
    r.k = cast_to(r.k, a->k->dtype), r.v = cast_to(r.v, a->v->dtype);
    return r;
}

static double scale_or(cfx_value scale, const cfx_tensor *q) {
    return cfx_is_none(scale) ? 1 / sqrt((double)q->shape[q->ndim - 1]) : cfx_number(scale);
}

/* grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale */
static void decompose_flash_backward(cfx_op_call *c) {
    cfx_tensor *q = arg_tensor(c, 1), *k = arg_tensor(c, 2), *v = arg_tensor(c, 3);
    attended a = {q, k, v, arg_tensor(c, 8), arg_tensor(c, 4), arg_tensor(c, 5), arg_tensor(c, 0),
                  arg_bool(c, 7), 0};
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4 || a.grad->ndim != 4 || !k->shape[1] ||
        !v->shape[1] || q->shape[1] % k->shape[1] || q->shape[1] % v->shape[1] ||
        arg_float(c, 6) != 0) {
        op_fail(c, "_scaled_dot_product_flash_attention_for_cpu_backward: query, key and value do "
                   "not fit: 4 dims, no dropout");
        return;
    }
    a.scale = scale_or(c->args[9], q);
    attended_grads r = back_attention(&a);
    c->out[0] = r.q, c->out[1] = r.k, c->out[2] = r.v;
}

/* The scores again, then two products each for the gradients of weights and values and of queries
 * and keys. */
static int64_t flops_flash_backward(const cfx_op_call *c) {
    const int64_t *q = arg_tensor(c, 1)->shape, *v = arg_tensor(c, 3)->shape;
    return flops_of(5, (int64_t[]){q[0], q[1], q[2], v[2], 3 * q[3] + 2 * v[3]});
}

CFX_OP(_scaled_dot_product_flash_attention_for_cpu_backward) = {
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, "
    "Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
    "Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor "
    "grad_value)",
    NULL, .decompose = decompose_flash_backward, .flops = flops_flash_backward};

/* query, key, value, dropout_p, is_causal, attn_mask, scale */
void grad_flash(cfx_back *b) {
    if (!b->gout[0])
        return;
    if (!back_recorded() && !b->needs[5]) {
        cfx_value grads = cfx_aten__scaled_dot_product_flash_attention_for_cpu_backward(
            b->gout[0], b->args[0], b->args[1], b->args[2], b->out[0], b->out[1], b->args[3],
            b->args[4], CFX_KW(attn_mask, b->args[5]), CFX_KW(scale, b->args[6]));
        for (int i = 0; i < 3; i++)
            back_give_at(b, i, grads, i);
        return;
    }
    attended a = {back_arg(b, 0), back_arg(b, 1), back_arg(b, 2), back_arg(b, 5), NULL, NULL,
                  b->gout[0], back_bool(b, 4), 0};
    a.scale = scale_or(b->args[6], a.q);
    attended_grads r = back_attention(&a);
    cfx_tensor *grads[] = {r.q, r.k, r.v};
    for (int i = 0; i < 3; i++)
        if (b->needs[i])
            back_give(b, i, grads[i]);
    back_give_sum(b, 5, r.scores);
}
