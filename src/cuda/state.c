/* Mutated state: caches and counters in buffers that the caller keeps and a plan updates in
 * place. An input of this kind in card memory is used at its own address, and the plan is valid
 * for that tensor only. One in host memory has a copy on the card, which is uploaded before a
 * run (unless nobody wrote to the tensor since the last) and downloaded after it. Start at
 * cfx__cuda_place_states. */
#include <cfx/ops.h>

#include "../compile/calls.h"
#include "../compile/layers.h"
#include "../plan/plan.h"
#include "plan.h"

static int64_t bytes_of(const cfx_tensor *t) {
    return t->numel * cfx_dtype_size((cfx_dtype)t->dtype);
}

static cfx_tensor *given(const cfx_execution *e, int input) {
    const cfx_value v = e->inputs.v[input];
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

/* Whichever device the program calls it: see cfx_program_to. */
static bool lies_there(const cfx__cuda_device *d, const cfx_tensor *t) {
    const cfx_device at = t->storage ? t->storage->device : t->device;
    return at.type == CFX_CUDA && at.index == d->number;
}

/* ---- placing --------------------------------------------------------------------------------- */

cfx_op *cfx__cuda_functional(cfx_op *op) {
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    return info && info->form == CFX__INPLACE && info->nout == 1 && info->functional
               ? info->functional
               : op;
}

/* Whether a call writes to its first argument alone, and gives that. */
static bool is_update(const cfx__plan_kernel *k) {
    cfx_op *op = k->op;
    return (op == &cfx_op_copy_ || cfx__cuda_functional(op) != op) &&
           !(op->effects & CFX_STORAGE) && k->step->bound[0].tag == CFX_TAG_NODE;
}

static bool writes(const cfx__plan_kernel *k) {
    return k->kind == CFX__PLAN_CALL &&
           (cfx__op_call_writes(k->op, k->step->bound) || k->op->effects & CFX_STORAGE);
}

/* Whether two inputs are one tensor under two names. */
static bool is_same(const cfx_tensor *a, const cfx_tensor *b) {
    return a && b && a->data == b->data && a->dtype == b->dtype && cfx__tensor_same_shape(a, b) &&
           cfx__plan_lies_like(a, b);
}

/* The number of the state that an input is; a new one where it has none. Below 0: it cannot be. */
static int state_of(cfx__cuda_making *m, int input) {
    cfx__cuda_plan *p = m->p;
    const cfx_tensor *t = given(m->e, input);
    for (int i = 0; i < p->plan->ninputs; i++) /* memory that others look into otherwise */
        if (p->plan->sharing[i] == p->plan->sharing[input] && !is_same(given(m->e, i), t))
            return -1;
    for (size_t i = 0; i < p->states.len; i++)
        if (is_same(given(m->e, p->states.data[i].input), t))
            return (int)i;
    if (!t->storage || !cfx__tensor_is_dense(t) || !cfx__c_type((cfx_dtype)t->dtype))
        return -1;
    cfx__cuda_state s = {.input = input, .bytes = bytes_of(t), .own = !lies_there(p->device, t)};
    s.at = s.own ? cfx__cuda_alloc(p->device, s.bytes) : (uintptr_t)t->data;
    VEC_PUSH(p->states, s);
    return s.at ? (int)p->states.len - 1 : -1;
}

static bool place_input(cfx__cuda_making *m, int slot) {
    const int input = m->p->plan->kernels[slot].input, number = state_of(m, input);
    if (number < 0)
        return false;
    cfx__c_ref *r = cfx__arena_alloc(&m->p->memory, sizeof *r);
    *r = *cfx__c_shape_ref(&m->c, given(m->e, input));
    r->where = CFX__C_STATE;
    r->number = number;
    r->name = "state";
    m->unit.refs[slot] = (cfx__c_refs){1, r};
    return true;
}

/* The result of an update is what was updated, be that a look into something else. */
static bool place_update(cfx__cuda_making *m, int slot) {
    const cfx__plan *p = m->p->plan;
    const int arg = (int)p->kernels[slot].step->bound[0].spare, root = cfx__plan_root(p, arg);
    if (!is_update(&p->kernels[slot]) || m->unit.refs[root].n != 1 ||
        m->unit.refs[root].refs->where != CFX__C_STATE || p->given[arg].tag != CFX_TAG_TENSOR)
        return false;
    const cfx_tensor *t = cfx_as_tensor(p->given[arg]);
    cfx__c_ref *r = cfx__arena_alloc(&m->p->memory, sizeof *r);
    *r = *m->unit.refs[root].refs;
    if (r->dtype != (cfx_dtype)t->dtype)
        return false;
    if (arg != root) {
        const cfx__c_ref *look = cfx__c_shape_ref(&m->c, t);
        r->ndim = look->ndim, r->shape = look->shape, r->stride = look->stride;
        r->at += t->offset;
    }
    m->unit.refs[slot] = (cfx__c_refs){1, r};
    return true;
}

static void note_kept(void *user, int slot) {
    cfx__cuda_making *m = user;
    const cfx__c_refs *r = &m->unit.refs[cfx__plan_root(m->p->plan, slot)];
    m->kept |= r->n == 1 && r->refs->where == CFX__C_STATE;
}

/* Results that are what an input becomes are the input itself; other memory that is written to
 * would leave the graph. */
static void note_results(cfx__cuda_making *m, const cfx__plan_kernel *output) {
    const cfx__plan *p = m->p->plan;
    const cfx_value all = cfx_as_list(output->step->args)->items[0];
    const cfx_list *items =
        all.tag == CFX_TAG_TUPLE || all.tag == CFX_TAG_LIST ? cfx_as_list(all) : NULL;
    for (int64_t i = 0; items && i < items->len; i++) {
        const cfx_value v = items->items[i];
        const cfx__c_refs *r = v.tag == CFX_TAG_NODE ? &m->unit.refs[v.spare] : NULL;
        const int becomes = i < p->nbecomes ? p->becomes[i] : -1;
        if (!r || becomes < 0 || r->n != 1 || r->refs->where != CFX__C_STATE ||
            m->p->states.data[r->refs->number].input != becomes)
            cfx__plan_each_slot(v, note_kept, m);
    }
    if (!items)
        cfx__plan_each_slot(all, note_kept, m);
}

bool cfx__cuda_place_states(cfx__cuda_making *m) {
    const cfx__plan *p = m->p->plan;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        if (kernel->kind == CFX__PLAN_INPUT && p->sharing[kernel->input] >= 0 &&
            cfx_is_bad(p->constants[k]) && !place_input(m, k))
            return false;
        if (writes(kernel) && !place_update(m, k))
            return false;
        if (kernel->kind == CFX__PLAN_OUTPUT) /* the caller's own memory is the host's to give */
            note_results(m, kernel);
    }
    return !m->kept && cfx_ok();
}

/* ---- updates --------------------------------------------------------------------------------- */

/* Whether an argument behind the first lies in the memory that is written. */
static bool meets(cfx__c_unit *u, const cfx__plan_kernel *k, const cfx__c_ref *to) {
    for (int i = 1; i < k->step->nbound; i++) {
        const cfx__c_ref *r = cfx__c_arg(u, k->step->bound[i]);
        if (r && r->where == CFX__C_STATE && r->number == to->number)
            return true;
    }
    return false;
}

bool cfx__cuda_try_update(cfx__cuda_making *m, int slot) {
    const cfx__plan_kernel *k = &m->unit.plan->kernels[slot];
    if (!writes(k) || m->unit.refs[slot].n != 1)
        return false;
    const cfx__c_ref *to = m->unit.refs[slot].refs;
    if (meets(&m->unit, k, to))
        return false;
    if (k->op == &cfx_op_copy_) {
        const cfx__c_ref *from = cfx__c_arg(&m->unit, k->step->bound[1]);
        return from && from->ndim <= to->ndim && cfx__cuda_add_copy(m, slot, to, from);
    }
    return cfx__cuda_try_index(m, slot) || cfx__cuda_add_call(m, slot);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void forget(cfx__cuda_state *s) {
    cfx_drop(s->of);
    s->of = NULL;
}

void cfx__cuda_states_free(cfx__cuda_plan *p) {
    for (size_t i = 0; i < p->states.len; i++) {
        forget(&p->states.data[i]);
        if (p->states.data[i].own)
            cfx__cuda_free(p->device, p->states.data[i].at, p->states.data[i].bytes);
    }
    VEC_FREE(p->states);
}

bool cfx__cuda_states_fit(const cfx__cuda_plan *p, const cfx_execution *e) {
    for (size_t i = 0; i < p->states.len; i++) {
        const cfx__cuda_state *s = &p->states.data[i];
        const cfx_tensor *t = given(e, s->input);
        if (!t || !t->storage || bytes_of(t) != s->bytes ||
            (s->own ? lies_there(p->device, t) : (uintptr_t)t->data != s->at))
            return false;
    }
    return true;
}

bool cfx__cuda_states_in(cfx__cuda_plan *p, const cfx_execution *e) {
    for (size_t i = 0; i < p->states.len; i++) {
        cfx__cuda_state *s = &p->states.data[i];
        const cfx_tensor *t = given(e, s->input);
        const bool same = s->of && s->of->data == t->data && s->version == t->storage->version;
        forget(s); /* what a run that fails leaves is nobody's */
        if (s->own && !same && !cfx__cuda_copy(p->device, s->at, (uintptr_t)t->data, s->bytes))
            return false;
    }
    return true;
}

bool cfx__cuda_states_out(cfx__cuda_plan *p, const cfx_execution *e) {
    for (size_t i = 0; i < p->states.len; i++) {
        cfx__cuda_state *s = &p->states.data[i];
        cfx_tensor *t = given(e, s->input);
        if (s->own && !cfx__cuda_copy(p->device, (uintptr_t)t->data, s->at, s->bytes))
            return false;
        s->version = ++t->storage->version;
        if (s->own)
            s->of = cfx_keep(t);
    }
    return true;
}
