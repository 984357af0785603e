/* Order-dependent calls (sorting, scans) and pooling, by hand-written kernels. Start at
 * cfx__cuda_try_order. */
#include <cfx/ops.h>

#include "../compile/calls.h"
#include "builtin.h"

/* A call that is being made: its arguments and results. */
typedef struct {
    cfx__cuda_piece p;
    const cfx__plan_kernel *k;
    const cfx_value *a;
    const cfx__c_ref *x;
    const cfx__c_refs *out;
} call;

static bool finish(call *c, int slot, bool taken) {
    return taken && cfx__cuda_add_work(c->p.m, slot, &c->p.work, c->p.n, c->p.refs);
}

/* cumsum(x, dim), cumprod(x, dim) */
static bool scan(call *c) {
    const bool product = c->k->op == &cfx_op_cumprod;
    if ((!product && c->k->op != &cfx_op_cumsum) || c->out->n != 1 ||
        c->out->refs->dtype != c->x->dtype)
        return false;
    const cfx__cuda_array x = cfx__cuda_array_of(&c->p, c->x);
    const cfx__cuda_array out = cfx__cuda_array_of(&c->p, c->out->refs);
    return cfx__cuda_scan(&x, &out, cfx__c_dim(c->a[1], c->x->ndim), product, &c->p.work);
}

static bool is_true(cfx_value v) { return v.tag == CFX_TAG_BOOL && cfx_as_bool(v); }

/* sort(x, dim, descending), sort.stable(x, stable, dim, descending), topk(x, k, dim, largest) */
static bool sort(call *c) {
    const cfx_op *op = c->k->op;
    const int dim = op == &cfx_op_sort ? 1 : 2;
    if ((op != &cfx_op_sort && op != &cfx_op_sort_stable && op != &cfx_op_topk) || c->out->n != 2)
        return false;
    const cfx__cuda_array x = cfx__cuda_array_of(&c->p, c->x);
    const cfx__cuda_array values = cfx__cuda_array_of(&c->p, &c->out->refs[0]);
    const cfx__cuda_array indices = cfx__cuda_array_of(&c->p, &c->out->refs[1]);
    return cfx__cuda_sort(&x, &values, &indices, cfx__c_dim(c->a[dim], c->x->ndim),
                          is_true(c->a[dim + 1]), &c->p.work);
}

/* The result without the dim that is gone through, which it may have as one. */
static cfx__cuda_array without(call *c, const cfx__c_ref *r, int dim) {
    int64_t *shape = cfx__arena_alloc(&c->p.m->c.memory, 2 * CFX_MAX_DIMS * sizeof *shape);
    int64_t *stride = shape + CFX_MAX_DIMS;
    int n = 0;
    for (int i = 0; i < r->ndim; i++) {
        if (r->ndim == c->x->ndim && i == dim)
            continue;
        shape[n] = r->shape[i];
        stride[n++] = r->stride[i];
    }
    return cfx__cuda_array_as(&c->p, r, n, shape, stride);
}

/* argmax(x, dim, keepdim), max.dim(x, dim, keepdim), and of the least */
static bool extreme(call *c) {
    const cfx_op *op = c->k->op;
    const bool both = op == &cfx_op_max_dim || op == &cfx_op_min_dim;
    const bool least = op == &cfx_op_argmin || op == &cfx_op_min_dim;
    if ((!both && op != &cfx_op_argmax && op != &cfx_op_argmin) || c->a[1].tag != CFX_TAG_INT ||
        c->out->n != 1 + both)
        return false;
    const int dim = cfx__c_dim(c->a[1], c->x->ndim);
    const cfx__cuda_array x = cfx__cuda_array_of(&c->p, c->x);
    const cfx__cuda_array values =
        both ? without(c, &c->out->refs[0], dim) : (cfx__cuda_array){.operand = -1};
    const cfx__cuda_array indices = without(c, &c->out->refs[both], dim);
    return cfx__cuda_extreme(&x, &values, &indices, dim, least, &c->p.work);
}

static int64_t item(cfx_value v, int i, int64_t fallback) {
    int64_t list[CFX_MAX_DIMS];
    const int n = cfx__c_ints(v, list);
    return n ? list[n == 1 ? 0 : i] : fallback;
}

/* max_pool2d(x, kernel, stride, padding, dilation), adaptive_avg_pool2d(x, sizes) */
static bool pool(call *c) {
    const cfx_op *op = c->k->op;
    const bool adaptive = op == &cfx_op_adaptive_avg_pool2d || op == &cfx_op__adaptive_avg_pool2d;
    if ((op != &cfx_op_max_pool2d && !adaptive) || c->out->n != 1 || c->x->ndim != 4 ||
        !(c->x = cfx__cuda_as(c->p.m, c->p.m->unit.slot, c->x, c->out->refs->dtype)))
        return false;
    cfx__cuda_pool_call p = {.x = cfx__cuda_array_of(&c->p, c->x),
                             .out = cfx__cuda_array_of(&c->p, c->out->refs),
                             .indices = {.operand = -1},
                             .max = !adaptive,
                             .adaptive = adaptive};
    for (int i = 0; i < 2 && !adaptive; i++) {
        p.kernel[i] = item(c->a[1], i, 1);
        p.stride[i] = item(c->a[2], i, p.kernel[i]);
        p.padding[i] = item(c->a[3], i, 0);
        p.dilation[i] = item(c->a[4], i, 1);
    }
    return cfx__cuda_pool(&p, &c->p.work);
}

bool cfx__cuda_try_order(cfx__cuda_making *m, int slot) {
    cfx__c_unit *u = &m->unit;
    bool (*const ways[])(call *) = {scan, sort, extreme, pool};
    for (int i = 0; i < COUNT(ways); i++) {
        call c = {.p = {.m = m}, .k = &u->plan->kernels[slot]};
        c.a = c.k->step->bound;
        c.x = c.k->step->nbound ? cfx__c_arg(u, c.a[0]) : NULL;
        c.out = cfx__c_slot(u, slot);
        if (c.x && c.x->ndim && cfx__c_count(c.x) && finish(&c, slot, ways[i](&c)))
            return true;
    }
    return false;
}
