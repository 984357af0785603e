/* Assigns nodes to hand-written kernels (kernels.h): their operands and epilogues. Start at
 * cfx__cuda_try_builtin. */
#include <cfx/ops.h>
#include <math.h>

#include "../compile/calls.h"
#include "../compile/layers.h"
#include "builtin.h"

typedef cfx__cuda_piece piece;

static const cfx__cuda_array none = {.operand = -1};

/* ---- convolutions ---------------------------------------------------------------------------- */

static bool window_of(const cfx__c_window *of, const cfx__c_work *k, cfx__cuda_window *to) {
    to->groups = of->groups;
    for (int i = 0; i < 2; i++) {
        to->stride[i] = cfx__c_item(of->stride, i, 1);
        to->padding[i] = of->lows ? of->low[i] : cfx__c_item(of->padding, i, 0);
        to->dilation[i] = cfx__c_item(of->dilation, i, 1);
    }
    return of->nd == 2 && !of->transposed && k->packs && k->x->ndim == 4 && cfx__c_count(k->out);
}

static bool convolution(cfx__cuda_making *m, int slot, cfx__c_work *k, const cfx_op *op) {
    piece p = {.m = m};
    const cfx__c_window of = cfx__c_window_of(k, op);
    cfx__cuda_window win;
    cfx__cuda_after after;
    if (!window_of(&of, k, &win))
        return false;
    if (cfx__cuda_points(m, slot, k, &win))
        return true;
    const int64_t *s = k->packs->shape;
    const bool single = win.groups == k->x->shape[1] && s[1] == 1 && win.groups > 1;
    cfx_tensor *weight =
        single ? k->packs : cfx_contiguous(cfx_permute(k->packs, cfx_list(0, 2, 3, 1)));
    k->w = cfx__c_constant(&m->c, weight, "weight");
    if (!k->w || (!single && !(k->x = cfx__cuda_images(m, slot, k->x, k->out->dtype))))
        return false;
    const int64_t c = s[1], last[] = {s[2] * s[3] * c, 1, s[3] * c, c};
    const cfx__cuda_array x = cfx__cuda_array_of(&p, k->x), out = cfx__cuda_array_of(&p, k->out);
    const cfx__cuda_array w =
        single ? cfx__cuda_array_of(&p, k->w) : cfx__cuda_array_as(&p, k->w, 4, s, last);
    int done = cfx__cuda_after_of(&p, k, &after);
    if (single && after.add.operand >= 0) { /* which that kernel does not add */
        after = (cfx__cuda_after){.bias = after.bias, .add = none};
        done = 0;
    }
    if (!(single ? cfx__cuda_depthwise(&x, &w, &win, &after, &out, &p.work)
                 : cfx__cuda_conv(&x, &w, &win, &after, &out, cfx__cuda_precise(), &p.work)))
        return false;
    return cfx__cuda_finish(&p, slot, k, done);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Four dims of a ref, ones before those that it has; broadcast to `to` where that is given. */
static cfx__cuda_array four(piece *p, const cfx__c_ref *r, const int64_t *to) {
    int64_t *shape = cfx__arena_alloc(&p->m->c.memory, 8 * sizeof *shape), *stride = shape + 4;
    if (!r || r->ndim > 4)
        return none;
    for (int i = 0; i < 4; i++) {
        const int own = i - (4 - r->ndim);
        shape[i] = own < 0 ? 1 : r->shape[own];
        stride[i] = own < 0 || (to && shape[i] == 1) ? 0 : r->stride[own];
        shape[i] = to ? to[i] : shape[i];
    }
    return cfx__cuda_array_as(p, r, 4, shape, stride);
}

/* scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa) */
static bool attention(cfx__cuda_making *m, int slot) {
    cfx__c_unit *u = &m->unit;
    const cfx__plan_kernel *k = &u->plan->kernels[slot];
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *q = cfx__c_arg(u, a[0]), *key = cfx__c_arg(u, a[1]);
    const cfx__c_ref *v = cfx__c_arg(u, a[2]), *mask = cfx__c_arg(u, a[3]);
    const cfx__c_ref *out = cfx__c_slot(u, slot)->n == 1 ? cfx__c_slot(u, slot)->refs : NULL;
    piece p = {.m = m};
    if (k->op != &cfx_op_scaled_dot_product_attention || !q || !key || !v || !out || q->ndim < 3 ||
        (a[3].tag != CFX_TAG_NONE && !mask) || (cfx_is_number(a[4]) && cfx_number(a[4]) != 0) ||
        q->ndim != key->ndim || q->ndim != v->ndim ||
        !(q = cfx__cuda_as(m, slot, q, out->dtype)))
        return false;
    const cfx__c_ref *const as_they_lie[] = {key, v};
    cfx__cuda_attention_call c = {.q = four(&p, q, NULL),
                                  .k = four(&p, key, NULL),
                                  .v = four(&p, v, NULL),
                                  .out = four(&p, out, NULL),
                                  .lse = none,
                                  .mask = none,
                                  .causal = cfx_as_bool(a[5]),
                                  .precision = cfx__cuda_precise()};
    if (c.q.operand < 0 || c.k.operand < 0 || c.v.operand < 0 || c.out.operand < 0)
        return false;
    const int64_t to[] = {c.q.shape[0], c.q.shape[1], c.q.shape[2], c.k.shape[2]};
    if (mask)
        c.mask = four(&p, mask, to);
    const double d = (double)q->shape[q->ndim - 1];
    c.scale = cfx_is_number(a[6]) ? cfx_number(a[6]) : d > 0 ? 1 / sqrt(d) : 1;
    if (mask && c.mask.operand < 0)
        return false;
    if (!cfx__cuda_attention(&c, &p.work)) { /* in one dtype, then */
        key = cfx__cuda_as(m, slot, key, out->dtype), v = cfx__cuda_as(m, slot, v, out->dtype);
        if (!key || !v || (key == as_they_lie[0] && v == as_they_lie[1]))
            return false;
        c.k = four(&p, key, NULL), c.v = four(&p, v, NULL);
        if (!cfx__cuda_attention(&c, &p.work))
            return false;
    }
    return cfx__cuda_finish(&p, slot, NULL, 0);
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* A part of a ref: the same strides from some element on. */
static cfx__c_ref *part(cfx__cuda_making *m, const cfx__c_ref *r, int ndim, const int64_t *shape,
                        const int64_t *stride, int64_t from) {
    cfx__c_ref *to = cfx__c_ref_like(&m->c, r, ndim, shape, stride);
    to->at += from;
    return to;
}

typedef struct {
    const cfx_op *op;
    int gates, states;
    bool relu;
} recurrent_kind;

static const recurrent_kind kinds[] = {{&cfx_op_lstm_input, 4, 2, false},
                                       {&cfx_op_gru_input, 3, 1, false},
                                       {&cfx_op_rnn_tanh_input, 1, 1, false},
                                       {&cfx_op_rnn_relu_input, 1, 1, true}};

/* A sequence as [steps, batch, size]. */
static const cfx__c_ref *by_steps(cfx__cuda_making *m, const cfx__c_ref *r, bool batch_first,
                                  int64_t from, int64_t size) {
    const int s = batch_first, b = !batch_first;
    const int64_t shape[] = {r->shape[s], r->shape[b], size};
    const int64_t stride[] = {r->stride[s], r->stride[b], r->stride[2]};
    return part(m, r, 3, shape, stride, from);
}

static const cfx__c_ref *state_of(cfx__cuda_making *m, const cfx__c_ref *r, int64_t n) {
    return part(m, r, 2, r->shape + 1, r->stride + 1, n * r->stride[0]);
}

typedef struct {
    const recurrent_kind *kind;
    const cfx__c_ref *out, *h, *c, *hn, *cn;
    const cfx_list *weights;
    bool biases, batch_first;
    int64_t layers, ways;
} recurrent_call;

static bool one_way(cfx__cuda_making *m, int slot, const recurrent_call *r, int64_t layer,
                    int64_t way, const cfx__c_ref *x, const cfx__c_ref *out, int64_t hidden) {
    const int64_t n = layer * r->ways + way, each = r->biases ? 4 : 2;
    const cfx__c_ref *w[4] = {0};
    piece p = {.m = m};
    for (int64_t i = 0; i < each; i++)
        if (n * each + i >= r->weights->len ||
            !(w[i] = cfx__c_arg(&m->unit, r->weights->items[n * each + i])))
            return false;
    const cfx__c_ref *to = by_steps(m, out, r->batch_first, way * hidden * out->stride[2], hidden);
    const cfx__cuda_recurrent_call call = {
        .x = cfx__cuda_array_of(&p, x),
        .wih = cfx__cuda_array_of(&p, w[0]),
        .whh = cfx__cuda_array_of(&p, w[1]),
        .bih = cfx__cuda_array_of(&p, w[2]),
        .bhh = cfx__cuda_array_of(&p, w[3]),
        .h = cfx__cuda_array_of(&p, state_of(m, r->h, n)),
        .c = r->c ? cfx__cuda_array_of(&p, state_of(m, r->c, n)) : none,
        .out = cfx__cuda_array_of(&p, to),
        .hn = cfx__cuda_array_of(&p, state_of(m, r->hn, n)),
        .cn = r->cn ? cfx__cuda_array_of(&p, state_of(m, r->cn, n)) : none,
        .gates = r->kind->gates,
        .relu = r->kind->relu,
        .reverse = way == 1,
        .precision = cfx__cuda_precise()};
    return cfx__cuda_recurrent(&call, &p.work) && cfx__cuda_finish(&p, slot, NULL, 0);
}

/* lstm.input(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static bool recurrent(cfx__cuda_making *m, int slot) {
    cfx__c_unit *u = &m->unit;
    const cfx__plan_kernel *k = &u->plan->kernels[slot];
    const cfx_value *a = k->step->bound;
    recurrent_call r = {0};
    for (int i = 0; i < COUNT(kinds); i++)
        if (kinds[i].op == k->op)
            r.kind = &kinds[i];
    if (!r.kind)
        return false;
    const cfx__c_refs *results = cfx__c_slot(u, slot);
    const bool two = r.kind->states == 2;
    const cfx_list *states = two && a[1].tag == CFX_TAG_LIST ? cfx_as_list(a[1]) : NULL;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]);
    if (!x || x->ndim != 3 || results->n != r.kind->states + 1 || a[2].tag != CFX_TAG_LIST ||
        (two && (!states || states->len != 2)) || cfx_as_bool(a[6]))
        return false;
    r.h = cfx__c_arg(u, two ? states->items[0] : a[1]);
    r.c = two ? cfx__c_arg(u, states->items[1]) : NULL;
    r.out = &results->refs[0], r.hn = &results->refs[1];
    r.cn = two ? &results->refs[2] : NULL;
    r.weights = cfx_as_list(a[2]);
    r.biases = cfx_as_bool(a[3]);
    r.layers = cfx_integer(a[4]);
    r.ways = cfx_as_bool(a[7]) ? 2 : 1;
    r.batch_first = cfx_as_bool(a[8]);
    if (!r.h || (two && !r.c) || r.h->ndim != 3 ||
        r.weights->len != r.layers * r.ways * (r.biases ? 4 : 2))
        return false;
    const int64_t hidden = r.h->shape[2];
    for (int64_t layer = 0; layer < r.layers; layer++) {
        const cfx__c_ref *out = layer + 1 == r.layers ? r.out : cfx__cuda_room_like(m, r.out);
        const cfx__c_ref *in = by_steps(m, x, r.batch_first, 0, x->shape[2]);
        for (int64_t way = 0; way < r.ways; way++)
            if (!one_way(m, slot, &r, layer, way, in, out, hidden))
                return false;
        x = out;
    }
    return true;
}

/* ---- the way in ------------------------------------------------------------------------------ */

bool cfx__cuda_try_builtin(cfx__cuda_making *m, int slot) {
    cfx__c_work k;
    const cfx__plan_kernel *kernel = &m->unit.plan->kernels[slot];
    m->unit.slot = slot;
    const cfx_op *op = cfx__cuda_work_of(m, slot, &k);
    if (!op)
        return kernel->kind == CFX__PLAN_CALL &&
               (attention(m, slot) || recurrent(m, slot) || cfx__cuda_try_index(m, slot) ||
                cfx__cuda_try_order(m, slot));
    return op->layer.product || op == &cfx_op_bmm || op == &cfx_op_baddbmm
               ? cfx__cuda_matrix_product(m, slot, &k, op)
               : k.w->ndim == 4 && convolution(m, slot, &k, op);
}
