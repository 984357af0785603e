/* Stores results in bfloat16 on the card, for programs run in that precision (cfx_get_precision):
 * results computed from products and convolutions take half the bytes, are loaded and computed with
 * as float32, and are rounded once on storing. The plan does not change: fusion, folding and
 * offsets are those of float32, and only refs say how elements are stored.
 *
 * Only activations are stored so: float inputs of the caller, rows picked from float weights,
 * and what is computed from these. Positions, masks and what is computed only from them stay
 * float32, as do inputs, results, and all operands of kernels that take only float32. Start at
 * cfx__cuda_halve. */
#include <cfx/ops.h>

#include "../compile/layers.h"
#include "../plan/plan.h"
#include "../tensor/packed.h"
#include "plan.h"

typedef struct {
    const cfx__cuda_making *m;
    const cfx__plan *plan;
    const cfx__c_refs *refs;
    bool *half;   /* by slot whose memory is its own */
    bool *active; /* by slot: an activation */
    int now;
    bool found;
} finding;

/* ---- what kernels take ----------------------------------------------------------------------- */

static bool is_pool(const cfx_op *op) {
    return op == &cfx_op_max_pool2d || op == &cfx_op_adaptive_avg_pool2d ||
           op == &cfx_op__adaptive_avg_pool2d;
}

/* Whether a layer has a kernel for numbers of 16 bits: products, and convolutions of images. */
static bool is_layer(const cfx__layer *l) {
    const cfx_op *op = l->call.op;
    const cfx_value w = l->call.args[op->layer.weight];
    return op->layer.product || op == &cfx_op_conv2d || op == &cfx_op_conv2d_padding ||
           (op == &cfx_op_convolution && cfx_as_tensor(w)->ndim == 4 &&
            !cfx_as_bool(l->call.args[6]));
}

static bool is_product(const cfx_op *op) {
    return op->layer.product || op == &cfx_op_bmm || op == &cfx_op_baddbmm;
}

/* Whether elements are copied as they are, whichever dtypes both sides have. */
static bool moves(const cfx_op *op) { return cfx__plan_moves(op) || op == &cfx_op_cat; }

/* Whether elements are put into a cache, which stays as it is. */
static bool fills(const cfx__cuda_making *m, int slot) {
    const cfx__c_refs *r = &m->unit.refs[slot];
    return cfx__cuda_functional(m->p->plan->kernels[slot].op) == &cfx_op_index_copy && r->n == 1 &&
           r->refs->where == CFX__C_STATE;
}

/* Whether what a kernel reads and gives may be halved. */
static bool takes(const cfx__cuda_making *m, int slot) {
    const cfx__plan_kernel *k = &m->p->plan->kernels[slot];
    if (m->wide[slot])
        return false;
    switch (k->kind) {
    case CFX__PLAN_LOOP:
    case CFX__PLAN_JOIN:
    case CFX__PLAN_OUTPUT:
        return true;
    case CFX__PLAN_LAYER:
        return is_layer(k->layer);
    case CFX__PLAN_CALL:
        return moves(k->op) || is_pool(k->op) || k->op == &cfx_op_embedding || fills(m, slot) ||
               k->op == &cfx_op_scaled_dot_product_attention || is_product(k->op);
    default:
        return false;
    }
}

bool cfx__cuda_can_render(const cfx__cuda_making *m, int slot) {
    const cfx__plan_kernel *k = &m->unit.plan->kernels[slot];
    return !m->halves || k->kind == CFX__PLAN_LOOP || k->kind == CFX__PLAN_JOIN ||
           !takes(m, slot) || (k->kind == CFX__PLAN_CALL && moves(k->op));
}

/* ---- whose memory ---------------------------------------------------------------------------- */

static bool is_look(const cfx__plan_kernel *k) {
    return k->kind == CFX__PLAN_VIEW || k->kind == CFX__PLAN_PASS || k->kind == CFX__PLAN_ITEM;
}

static int root_of(const cfx__plan *p, int slot) {
    while (is_look(&p->kernels[slot]))
        slot = p->kernels[slot].x;
    return slot;
}

static bool is_f32(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == CFX_F32;
}

/* ---- activations ----------------------------------------------------------------------------- */

static void note_active(void *user, int slot) {
    finding *f = user;
    f->found |= f->active[root_of(f->plan, slot)];
}

static void find_active(finding *f) {
    const cfx__plan *p = f->plan;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        if (!cfx_is_bad(p->constants[k]) || is_look(kernel))
            continue;
        f->found = kernel->kind == CFX__PLAN_INPUT ||
                   (kernel->kind == CFX__PLAN_CALL && kernel->op == &cfx_op_embedding);
        if (!f->found && kernel->kind != CFX__PLAN_NONE)
            cfx__plan_each_kernel_read(kernel, note_active, f);
        f->active[k] |= f->found && is_f32(p->given[k]);
        for (int i = 0; i < kernel->nwrites; i++)
            f->active[kernel->writes[i]] |= f->found && is_f32(p->given[kernel->writes[i]]);
    }
}

/* ---- which are halved ------------------------------------------------------------------------ */

/* Results of a kernel that takes them are halved, until something else speaks against it. */
static void begin(finding *f) {
    const cfx__plan *p = f->plan;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        if (!cfx_is_bad(p->constants[k]) || !takes(f->m, k) ||
            kernel->kind == CFX__PLAN_OUTPUT ||
            (f->refs[k].n == 1 && f->refs[k].refs->where == CFX__C_STATE))
            continue;
        f->half[k] = f->active[k] && f->refs[k].n == 1 && is_f32(p->given[k]);
        for (int i = 0; i < kernel->nwrites; i++)
            f->half[kernel->writes[i]] =
                f->active[kernel->writes[i]] && f->refs[kernel->writes[i]].n == 1;
    }
}

static void keep(finding *f, int slot) {
    f->found |= f->half[slot];
    f->half[slot] = false;
}

static void keep_read(void *user, int slot) { keep(user, root_of(((finding *)user)->plan, slot)); }

/* Elements from the first of a ref to behind its last. */
static int64_t reach(const cfx__c_ref *r) {
    int64_t n = 1;
    for (int i = 0; i < r->ndim; i++)
        n += (r->shape[i] - 1) * r->stride[i];
    return n;
}

/* Whether two refs share memory, as it was planned: in elements of float32. */
static bool overlap(const cfx__c_ref *a, const cfx__c_ref *b) {
    const int64_t x = a->base + a->at * 4, y = b->base + b->at * 4;
    return a->where == CFX__C_ARENA && b->where == CFX__C_ARENA && x < y + reach(b) * 4 &&
           y < x + reach(a) * 4;
}

/* What is written where it is read has one size of elements. */
static void same_size(finding *f, int in, int out) {
    const int a = root_of(f->plan, in);
    if (f->refs[in].n != 1 || f->refs[out].n != 1 || f->half[a] == f->half[out] ||
        !overlap(f->refs[in].refs, f->refs[out].refs))
        return;
    keep(f, a);
    keep(f, out);
}

static void same_sizes(void *user, int slot) {
    finding *f = user;
    const cfx__plan_kernel *k = &f->plan->kernels[f->now];
    same_size(f, slot, f->now);
    for (int i = 0; i < k->nwrites; i++)
        same_size(f, slot, k->writes[i]);
}

/* Takes back what a slot speaks against; whether there was anything. */
static bool settle(finding *f) {
    const cfx__plan *p = f->plan;
    f->found = false;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        f->now = k;
        if (!cfx_is_bad(p->constants[k]) || kernel->kind == CFX__PLAN_NONE)
            continue;
        if (is_look(kernel)) {
            for (int i = 0; i < f->refs[k].n; i++) /* as another dtype */
                if (f->refs[k].refs[i].dtype != CFX_F32)
                    keep(f, root_of(p, k));
            continue;
        }
        if (!takes(f->m, k))
            cfx__plan_each_kernel_read(kernel, keep_read, f);
        cfx__plan_each_kernel_read(kernel, same_sizes, f);
    }
    for (int k = 0; k < p->n; k++) /* parts lie where the whole does */
        if (p->home[k] >= 0)
            same_size(f, k, p->home[k]);
    return f->found;
}

void cfx__cuda_halve(cfx__cuda_making *m) {
    const cfx__plan *p = m->p->plan;
    const size_t n = (size_t)p->n + 1;
    finding f = {.m = m, .plan = p, .refs = m->unit.refs};
    f.half = cfx__alloc0(2 * n);
    f.active = f.half + n;
    find_active(&f);
    begin(&f);
    while (settle(&f)) {
    }
    for (int k = 0; k < p->n; k++)
        for (int i = 0; i < m->unit.refs[k].n && f.half[root_of(p, k)]; i++) {
            m->unit.refs[k].refs[i].dtype = CFX_BF16;
            m->halves = true;
        }
    cfx__free(f.half);
}

/* ---- operands -------------------------------------------------------------------------------- */

static void round_all(void *user, void *to) {
    const cfx_tensor *from = user;
    cfx_tensor *t = cfx_tensor_borrow(CFX_BF16, 1, &from->numel, to, NULL, NULL);
    const int64_t one = 1;
    if (cfx_ok())
        cfx__tensor_copy(
            t, cfx__tensor_alias((cfx_tensor *)from, 1, &from->numel, &one, from->offset));
}

cfx_tensor *cfx__cuda_weight_as(cfx_tensor *t, cfx_dtype d) {
    if (t->dtype == d || t->dtype != CFX_F32 || d != CFX_BF16)
        return t;
    cfx_tensor *whole = cfx__tensor_contiguous(t);
    if (cfx__obj_is_bad(whole) || !whole->numel)
        return whole;
    return cfx__packed_tensor(whole, cfx__packed_key("bf16", 1, &whole->numel), CFX_BF16,
                              whole->ndim, whole->shape, round_all, whole);
}

/* The number of a weight that is noted already, in bfloat16. */
static int rounded(cfx__cuda_making *m, int number) {
    for (size_t i = 0; i < m->rounded.len; i++)
        if (m->rounded.data[i].of == number)
            return m->rounded.data[i].is;
    const cfx__c_weight *w = &m->c.weights.data[number];
    void *data = cfx__c_block_of(&m->c, w->count * 2);
    cfx__convert(data, 2, CFX_BF16, w->data, 4, CFX_F32, w->count);
    const cfx__cuda_rounded r = {
        number, cfx__c_weight_add(&m->c, w->name, CFX_BF16, w->count, data, w->note)};
    VEC_PUSH(m->rounded, r);
    return r.is;
}

const cfx__c_ref *cfx__cuda_as(cfx__cuda_making *m, int slot, const cfx__c_ref *r, cfx_dtype d) {
    const bool halves =
        (r && r->dtype == CFX_F32 && d == CFX_BF16) || (r && r->dtype == CFX_BF16 && d == CFX_F32);
    if (!m->halves || !halves)
        return r;
    cfx__c_ref *like = cfx__c_ref_like(&m->c, r, r->ndim, r->shape, r->stride);
    like->dtype = d;
    if (r->where == CFX__C_WEIGHT && d == CFX_BF16) {
        like->number = rounded(m, r->number);
        return like;
    }
    const cfx__c_ref *to = cfx__cuda_room_like(m, like);
    return cfx__cuda_add_copy(m, slot, to, r) ? to : NULL;
}
