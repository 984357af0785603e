/* Calls that equal another call, or a few others. (The C code generator decomposes these in the
 * program, before planning.) */
#include <cfx/ops.h>

#include "../compile/calls.h"
#include "../compile/layers.h"
#include "plan.h"

/* ---- other names ----------------------------------------------------------------------------- */

static const struct {
    const cfx_op *op;
    cfx_op *is; /* with the same arguments */
} names[] = {{&cfx_op___and___Tensor, &cfx_op_bitwise_and_Tensor},
             {&cfx_op___or___Tensor, &cfx_op_bitwise_or_Tensor},
             {&cfx_op___xor___Tensor, &cfx_op_bitwise_xor_Tensor},
             {&cfx_op_min_other, &cfx_op_minimum},
             {&cfx_op_max_other, &cfx_op_maximum}};

/* stack(tensors, dim): each is the part of the result at its number. */
static void put_stack(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_list *parts = cfx_as_list(k->step->bound[0]);
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    const int dim = cfx__c_dim(k->step->bound[1], out->ndim);
    for (int64_t i = 0; i < parts->len; i++) {
        const cfx__c_ref *part = cfx__c_arg(u, parts->items[i]);
        int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
        int n = 0;
        for (int d = 0; d < out->ndim; d++)
            if (d != dim) {
                shape[n] = out->shape[d];
                stride[n++] = out->stride[d];
            }
        if (!part || part->ndim != n) {
            cfx__c_refuse(u, "stacks values without memory");
            return;
        }
        cfx__c_ref *to = cfx__c_ref_like(u->c, out, n, shape, stride);
        to->at += i * out->stride[dim];
        cfx__c_copy(u->c, to, part);
    }
}

/* type_as(x, other), lift_fresh_copy(x): x again, perhaps in another dtype. */
static void put_again(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]);
    if (x && cfx__c_slot(u, u->slot)->n == 1)
        cfx__c_copy(u->c, cfx__c_slot(u, u->slot)->refs, x);
    else
        cfx__c_refuse(u, "copies a value without memory");
}

bool cfx__cuda_put_call(cfx__c_unit *u, int slot) {
    const cfx__plan_kernel *k = &u->plan->kernels[slot];
    u->slot = slot;
    if (k->kind != CFX__PLAN_CALL)
        return false;
    for (int i = 0; i < COUNT(names); i++)
        if (names[i].op == k->op) {
            cfx__plan_kernel other = *k;
            other.op = names[i].is;
            cfx__c_call(u, &other);
            return true;
        }
    if (cfx__cuda_functional(k->op) != k->op) { /* the result lies where the argument does */
        cfx__plan_kernel other = *k;
        other.op = cfx__cuda_functional(k->op);
        cfx__c_call(u, &other);
        return true;
    }
    if (k->op == &cfx_op_stack && cfx__c_slot(u, slot)->n == 1)
        put_stack(u, k);
    else if (k->op == &cfx_op_type_as || k->op == &cfx_op_lift_fresh_copy)
        put_again(u, k);
    else
        return false;
    return true;
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static const cfx__c_ref *three(cfx__c *c, const cfx__c_ref *r) {
    const int nd = r->ndim;
    int64_t shape[] = {1, r->shape[nd - 2], r->shape[nd - 1]};
    int64_t stride[] = {0, r->stride[nd - 2], r->stride[nd - 1]};
    return cfx__cuda_flatten(r, 2, shape, stride) ? cfx__c_ref_like(c, r, 3, shape, stride) : NULL;
}

/* A matrix for all, or the same number of them on both sides. */
static const cfx_op *matmul(cfx__c_unit *u, const cfx__plan_kernel *kernel, cfx__c_work *k) {
    const cfx__c_ref *x = cfx__c_arg(u, kernel->step->bound[0]);
    const cfx__c_ref *w = cfx__c_arg(u, kernel->step->bound[1]);
    const cfx__c_refs *out = cfx__c_slot(u, u->slot);
    if (!x || !w || out->n != 1 || x->ndim < 2 || w->ndim < 2 || out->refs->ndim < 2)
        return NULL;
    *k = (cfx__c_work){.u = u, .c = u->c, .args = kernel->step->bound, .alpha = 1, .beta = 1};
    k->x = x, k->w = w, k->out = out->refs;
    if (w->ndim == 2)
        return &cfx_op_mm;
    for (int i = 0; i < x->ndim - 2; i++)
        if (x->ndim != w->ndim || x->shape[i] != w->shape[i])
            return NULL;
    k->x = three(u->c, x), k->w = three(u->c, w), k->out = three(u->c, out->refs);
    return k->x && k->w && k->out ? &cfx_op_bmm : NULL;
}

const cfx__c_ref *cfx__cuda_images(cfx__cuda_making *m, int slot, const cfx__c_ref *x,
                                   cfx_dtype d) {
    int64_t stride[4];
    if (x->dtype == d && (x->shape[1] == 1 || x->stride[1] == 1))
        return x;
    cfx__strides_of_format(CFX_CHANNELS_LAST, 4, x->shape, stride);
    cfx__c_ref *like = cfx__c_ref_like(&m->c, x, 4, x->shape, stride);
    like->dtype = d;
    const cfx__c_ref *to = cfx__cuda_room_like(m, like);
    return cfx__cuda_add_copy(m, slot, to, x) ? to : NULL;
}

/* All operands in the dtype of the result; false where one cannot be had so. */
static bool in_one_dtype(cfx__cuda_making *m, int slot, cfx__c_work *k) {
    const cfx_dtype d = k->out->dtype;
    const cfx__c_ref **of[] = {&k->x, &k->w, &k->bias, &k->add};
    k->packs = k->packs ? cfx__cuda_weight_as(k->packs, d) : NULL;
    if (k->packs)
        k->w = cfx__c_shape_ref(&m->c, k->packs);
    if (k->packs && k->packs->ndim == 4 && k->x->ndim == 4 && k->x->dtype != d &&
        !(k->x = cfx__cuda_images(m, slot, k->x, d)))
        return false;
    for (int i = 0; i < COUNT(of); i++)
        if (*of[i] && (*of[i])->where != CFX__C_NOWHERE &&
            !(*of[i] = cfx__cuda_as(m, slot, *of[i], d)))
            return false;
    return true;
}

/* A copy of what does not lie in rows that are evenly apart, as products read it. */
static const cfx__c_ref *in_rows(cfx__cuda_making *m, int slot, const cfx__c_ref *r) {
    int64_t rows, apart, stride[CFX_MAX_DIMS];
    if (!r || !r->ndim || !cfx__c_count(r) ||
        (cfx__cuda_flatten(r, 1, &rows, &apart) &&
         (r->stride[r->ndim - 1] == 1 || r->shape[r->ndim - 1] == 1)))
        return r;
    cfx__strides_contiguous(r->ndim, r->shape, stride);
    const cfx__c_ref *to =
        cfx__cuda_room_like(m, cfx__c_ref_like(&m->c, r, r->ndim, r->shape, stride));
    return cfx__cuda_add_copy(m, slot, to, r) ? to : r;
}

const cfx_op *cfx__cuda_work_of(cfx__cuda_making *m, int slot, cfx__c_work *k) {
    cfx__c_unit *u = &m->unit;
    const cfx__plan_kernel *kernel = &u->plan->kernels[slot];
    u->slot = slot;
    const cfx_op *op = kernel->kind == CFX__PLAN_CALL && kernel->op == &cfx_op_matmul
                           ? matmul(u, kernel, k)
                           : cfx__c_work_of(u, slot, k);
    if (!op || (m->halves && !in_one_dtype(m, slot, k)))
        return NULL;
    if (op == &cfx_op_linear || op == &cfx_op_mm || op == &cfx_op_addmm) {
        k->x = in_rows(m, slot, k->x);
        k->add = in_rows(m, slot, k->add);
    }
    return op;
}

bool cfx__cuda_has_library(const cfx__cuda_making *m, int slot) {
    const cfx__plan_kernel *k = &m->unit.plan->kernels[slot];
    return (k->kind == CFX__PLAN_LAYER && !k->layer->epilogue.narrow) ||
           (k->kind == CFX__PLAN_CALL &&
            (k->op == &cfx_op_matmul || cfx__c_call_is_product(k->op)));
}

/* ---- what libraries do ----------------------------------------------------------------------- */

bool cfx__cuda_flatten(const cfx__c_ref *r, int keep, int64_t *size, int64_t *stride) {
    *size = 1, *stride = 0;
    for (int i = r->ndim - 1 - keep; i >= 0; i--) {
        if (r->shape[i] == 1)
            continue;
        if (*size == 1)
            *stride = r->stride[i];
        else if (r->stride[i] != *stride * *size)
            return false;
        *size *= r->shape[i];
    }
    return true;
}

static bool lies_alike(const cfx__c_ref *a, const cfx__c_ref *b) {
    bool alike = a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; alike && i < a->ndim; i++)
        alike = a->shape[i] == b->shape[i] && (a->shape[i] == 1 || a->stride[i] == b->stride[i]);
    return alike;
}

int cfx__cuda_library_posts(const cfx__c_work *k, const cfx__c_ref **add, bool *relu) {
    const cfx__epilogue *e = k->epilogue;
    int n = 0;
    *add = e && e->n && !e->post[0].op && lies_alike(k->add, k->out) ? k->add : NULL;
    n += *add != NULL;
    *relu = e && n < e->n && e->post[n].op == &cfx_op_relu;
    return n + *relu;
}
