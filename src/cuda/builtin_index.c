/* Indexed reads and writes (gather, index_select, embedding, x[i, j], scatter, index_copy,
 * index_add, index_put) by the hand-written kernel. The destination is copied first. Start at
 * cfx__cuda_try_index. */
#include <cfx/ops.h>

#include "../compile/calls.h"
#include "builtin.h"

typedef struct {
    cfx__cuda_piece p;
    int slot;
    const cfx_op *op;
    const cfx_value *a;
    const cfx__c_ref *x, *out;
    cfx__cuda_index_call call;
} job;

/* Whether the call is a kernel of a thread for each of a few elements, which can be joined with
 * others: no two of them are for one place. */
static bool is_small(const cfx__cuda_index_call *c) {
    int64_t all = 1, told = 1;
    for (int d = 0; d < c->ndim; d++) {
        all *= c->size[d];
        told *= c->x_stride[d] ? 1 : c->size[d];
    }
    return all <= CFX__CUDA_SMALL && (c->way == CFX__CUDA_TAKE || told == 1) &&
           c->way != CFX__CUDA_ADD;
}

/* Launches the call, whose places are in x, behind a copy of what is written to. */
static bool finish(job *j) {
    cfx__cuda_making *m = j->p.m;
    const bool writes = j->call.way != CFX__CUDA_TAKE;
    cfx__cuda_index_call like = j->call;
    like.y.dtype = like.x.dtype; /* else it is small, and converted */
    if (!cfx__cuda_index_elements(&like, &j->p.work) ||
        (writes && !cfx__c_is_there(j->out, j->x) &&
         !cfx__cuda_add_copy(m, j->slot, j->out, j->x)))
        return false;
    const cfx__c_ref *by[CFX__CUDA_INDEXES];
    for (int i = 0; i < j->call.n; i++)
        by[i] = j->p.refs[j->call.index[i].array.operand];
    return (j->p.work.n && is_small(&j->call) &&
            cfx__cuda_add_index(m, j->slot, &j->call, j->p.refs[j->call.x.operand],
                                j->p.refs[j->call.y.operand], by)) ||
           (j->call.y.dtype == j->call.x.dtype &&
            cfx__cuda_add_work(m, j->slot, &j->p.work, j->p.n, j->p.refs));
}

/* The two sides: `places` is indexed, `others` lies as the call counts. */
static void set_sides(job *j, cfx__cuda_index_way way, const cfx__c_ref *places,
                      const cfx__c_ref *others) {
    j->call.way = way;
    j->call.x = cfx__cuda_array_of(&j->p, places);
    j->call.y = cfx__cuda_array_of(&j->p, others);
}

/* ---- one index, along a dim ------------------------------------------------------------------ */

typedef struct {
    const cfx_op *op;
    cfx__cuda_index_way way;
    bool whole; /* the index has a place for each element, not for each of a dim */
} along_kind;

static const along_kind kinds[] = {{&cfx_op_gather, CFX__CUDA_TAKE, true},
                                   {&cfx_op_index_select, CFX__CUDA_TAKE, false},
                                   {&cfx_op_scatter_src, CFX__CUDA_PUT, true},
                                   {&cfx_op_scatter_add, CFX__CUDA_ADD, true},
                                   {&cfx_op_index_copy, CFX__CUDA_PUT, false},
                                   {&cfx_op_index_add, CFX__CUDA_ADD, false}};

/* f(self, dim, index), f(self, dim, index, source) */
static bool along(job *j) {
    const along_kind *kind = NULL;
    cfx__c_unit *u = &j->p.m->unit;
    for (int i = 0; i < COUNT(kinds); i++)
        if (kinds[i].op == j->op)
            kind = &kinds[i];
    if (!kind || !j->x->ndim || j->x->ndim > CFX__CUDA_DIMS)
        return false;
    const bool takes = kind->way == CFX__CUDA_TAKE;
    const cfx__c_ref *index = cfx__c_arg(u, j->a[2]);
    const cfx__c_ref *others = takes ? j->out : cfx__c_arg(u, j->a[3]);
    const cfx__c_ref *places = takes ? j->x : j->out;
    const cfx__c_ref *counted = kind->whole ? index : others;
    const int dim = cfx__c_dim(j->a[1], j->x->ndim);
    if (!index || !others || counted->ndim != j->x->ndim || others->ndim != j->x->ndim ||
        (!kind->whole && index->ndim > 1) ||
        (j->op == &cfx_op_index_add && cfx_is_number(j->a[4]) && cfx_number(j->a[4]) != 1))
        return false;
    cfx__cuda_index *by = &j->call.index[0];
    set_sides(j, kind->way, places, others);
    *by = (cfx__cuda_index){.array = cfx__cuda_array_of(&j->p, index),
                            .most = places->shape[dim],
                            .step = places->stride[dim]};
    j->call.n = 1;
    j->call.ndim = j->x->ndim;
    for (int d = 0; d < j->call.ndim; d++) {
        j->call.size[d] = counted->shape[d];
        j->call.x_stride[d] = d == dim ? 0 : places->stride[d];
        j->call.y_stride[d] = others->stride[d];
        by->stride[d] = kind->whole              ? index->stride[d]
                        : d == dim && index->ndim ? index->stride[0]
                                                  : 0;
    }
    if (!is_small(&j->call) && others->dtype != places->dtype) { /* halved */
        others = cfx__cuda_as(j->p.m, j->slot, others, places->dtype);
        if (!others)
            return false;
        j->call.y = cfx__cuda_array_of(&j->p, others);
    }
    return finish(j);
}

/* embedding(weight, indices) */
static bool rows(job *j) {
    const cfx__c_ref *index = cfx__c_arg(&j->p.m->unit, j->a[1]);
    if (j->op != &cfx_op_embedding || !index || j->x->ndim != 2 ||
        index->ndim + 1 > CFX__CUDA_DIMS || j->out->ndim != index->ndim + 1)
        return false;
    const cfx_value weight = cfx__c_known(&j->p.m->unit, j->a[0]);
    if (j->x->dtype != j->out->dtype && weight.tag == CFX_TAG_TENSOR) /* its rows are halved */
        j->x = cfx__c_constant(&j->p.m->c,
                               cfx__cuda_weight_as(cfx_as_tensor(weight), j->out->dtype),
                               "weight");
    if (!j->x)
        return false;
    cfx__cuda_index *by = &j->call.index[0];
    set_sides(j, CFX__CUDA_TAKE, j->x, j->out);
    *by = (cfx__cuda_index){.array = cfx__cuda_array_of(&j->p, index),
                            .most = j->x->shape[0],
                            .step = j->x->stride[0]};
    j->call.n = 1;
    j->call.ndim = j->out->ndim;
    for (int d = 0; d < j->call.ndim; d++) {
        const bool last = d == index->ndim;
        j->call.size[d] = j->out->shape[d];
        j->call.x_stride[d] = last ? j->x->stride[1] : 0;
        j->call.y_stride[d] = j->out->stride[d];
        by->stride[d] = last ? 0 : index->stride[d];
    }
    return finish(j);
}

/* ---- several indices ------------------------------------------------------------------------- */

/* The indices of a list that stand beside each other: the first dim, and how many; 0: there are
 * others, or none. */
static int beside(const job *j, const cfx_list *list, int *first, const cfx__c_ref **of) {
    int n = 0;
    *first = 0;
    for (int64_t d = 0; d < list->len; d++) {
        if (list->items[d].tag == CFX_TAG_NONE)
            continue;
        const cfx__c_ref *r = cfx__c_arg(&j->p.m->unit, list->items[d]);
        if (!r || n == CFX__CUDA_INDEXES || (n && d != *first + n))
            return 0;
        *first = n ? *first : (int)d;
        of[n++] = r;
    }
    return list->len <= j->x->ndim ? n : 0;
}

/* The stride at dim d of nd of what is broadcast there, its last dims being theirs. */
static int64_t spread(const cfx__c_ref *r, int d, int nd) {
    const int own = d - (nd - r->ndim);
    return own < 0 || r->shape[own] == 1 ? 0 : r->stride[own];
}

/* index(self, indices), index_put(self, indices, values, accumulate) */
static bool picks(job *j) {
    const bool puts = j->op == &cfx_op_index_put;
    if ((!puts && j->op != &cfx_op_index_Tensor) || j->a[1].tag != CFX_TAG_LIST)
        return false;
    const cfx__c_ref *of[CFX__CUDA_INDEXES], *values = j->out, *places = puts ? j->out : j->x;
    int first, told = 0;
    const int n = beside(j, cfx_as_list(j->a[1]), &first, of);
    for (int i = 0; i < n; i++)
        told = of[i]->ndim > told ? of[i]->ndim : told;
    const int nd = j->x->ndim - n + told;
    if (puts)
        values = cfx__c_arg(&j->p.m->unit, j->a[2]);
    if (!n || nd > CFX__CUDA_DIMS || !values || values->ndim > nd || (!puts && values->ndim != nd))
        return false;
    set_sides(j, !puts ? CFX__CUDA_TAKE : cfx_as_bool(j->a[3]) ? CFX__CUDA_ADD : CFX__CUDA_PUT,
              places, values);
    j->call.n = n;
    j->call.ndim = nd;
    j->call.wrap = true;
    for (int i = 0; i < n; i++)
        j->call.index[i] = (cfx__cuda_index){.array = cfx__cuda_array_of(&j->p, of[i]),
                                             .most = places->shape[first + i],
                                             .step = places->stride[first + i]};
    for (int d = 0; d < nd; d++) {
        const bool by_index = d >= first && d < first + told;
        const int own = d < first ? d : d - told + n;
        j->call.size[d] = by_index ? 1 : places->shape[own];
        j->call.x_stride[d] = by_index ? 0 : places->stride[own];
        j->call.y_stride[d] = puts ? spread(values, d, nd) : values->stride[d];
        for (int i = 0; i < n && by_index; i++) {
            const int at = d - first - (told - of[i]->ndim);
            j->call.index[i].stride[d] = spread(of[i], d - first, told);
            if (at >= 0 && of[i]->shape[at] != 1)
                j->call.size[d] = of[i]->shape[at];
        }
    }
    return finish(j);
}

bool cfx__cuda_try_index(cfx__cuda_making *m, int slot) {
    bool (*const ways[])(job *) = {along, rows, picks};
    const cfx__plan_kernel *k = &m->unit.plan->kernels[slot];
    const cfx__c_refs *out = cfx__c_slot(&m->unit, slot);
    for (int i = 0; i < COUNT(ways) && k->step->nbound > 1 && out->n == 1; i++) {
        job j = {.p = {.m = m}, .slot = slot, .a = k->step->bound, .out = out->refs};
        j.op = cfx__cuda_functional(k->op);
        j.x = cfx__c_arg(&m->unit, j.a[0]);
        if (j.x && cfx__c_count(j.x) && cfx__c_count(j.out) && ways[i](&j))
            return true;
    }
    return false;
}
