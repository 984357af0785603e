/* Prepares a plan for a card: selects the form of each kernel, then resolves addresses and code
 * (resolve.c). Start at cfx__cuda_plan_make. */
#include "../compile/layers.h"
#include "kernels.h"
#include "plan.h"

/* ---- the form -------------------------------------------------------------------------------- */

static void plan_free(void *obj) {
    cfx__cuda_plan *p = obj;
    const cfx__cuda_driver *driver = p->device->driver;
    if (!p->device->lost)
        driver->set_current(p->device->context);
    for (size_t i = 0; i < p->stretches.len; i++)
        if (p->stretches.data[i].graph && !p->device->lost)
            driver->graph_exec_free(p->stretches.data[i].graph);
    for (size_t i = 0; i < p->steps.len; i++)
        cfx_drop(p->steps.data[i].job);
    for (size_t i = 0; i < p->weights.len; i++)
        if (p->weights.data[i])
            cfx__cuda_held_drop(p->weights.data[i]);
    for (size_t i = 0; i < p->codes.len; i++)
        cfx_drop(p->codes.data[i]);
    cfx__cuda_free(p->device, p->arena, p->arena_bytes);
    cfx__cuda_states_free(p);
    VEC_FREE(p->stretches);
    VEC_FREE(p->steps);
    VEC_FREE(p->weights);
    VEC_FREE(p->codes);
    cfx_drop(p->plan);
    cfx__free(p->failed);
    cfx__arena_release(&p->memory);
}

static const cfx__obj_type plan_type = {.name = "plan on a card", .free = plan_free};

cfx__cuda_address cfx__cuda_where(const cfx__cuda_plan *p, const cfx__c_ref *r) {
    const int64_t at = r->at * cfx_dtype_size(r->dtype);
    return r->where == CFX__C_ARENA   ? p->arena + (uint64_t)(r->base + at)
           : r->where == CFX__C_STATE ? p->states.data[r->number].at + (uint64_t)at
                                      : p->weights.data[r->number]->at + (uint64_t)at;
}

/* ---- what is for the card -------------------------------------------------------------------- */

bool cfx__cuda_computes(const cfx__plan *p, int slot) {
    const cfx__plan_kind kind = p->kernels[slot].kind;
    return cfx_is_bad(p->constants[slot]) &&
           (kind == CFX__PLAN_CALL || kind == CFX__PLAN_LAYER || kind == CFX__PLAN_LOOP ||
            kind == CFX__PLAN_JOIN || kind == CFX__PLAN_HIGHER);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void *copied(cfx__arena *a, const void *from, size_t size) {
    void *to = cfx__arena_alloc(a, size + 1);
    return size ? memcpy(to, from, size) : to;
}

static int64_t room_for(cfx__c *c, const cfx_tensor *t) {
    int64_t n = 1, at = (c->arena + CFX__CUDA_LINE - 1) / CFX__CUDA_LINE * CFX__CUDA_LINE;
    for (int i = 0; i < t->ndim; i++)
        n += (t->shape[i] ? t->shape[i] - 1 : 0) * t->stride[i];
    n = n * cfx_dtype_size((cfx_dtype)t->dtype) + CFX__CUDA_LINE - 1;
    c->arena = at + n / CFX__CUDA_LINE * CFX__CUDA_LINE;
    return at;
}

static cfx__c_ref ref_like(cfx__cuda_making *m, const cfx_tensor *t) {
    const size_t size = (size_t)t->ndim * sizeof *t->shape;
    cfx__arena *a = &m->p->memory;
    return (cfx__c_ref){.where = CFX__C_ARENA,
                        .base = room_for(&m->c, t),
                        .dtype = (cfx_dtype)t->dtype,
                        .ndim = t->ndim,
                        .shape = copied(a, t->shape, size),
                        .stride = copied(a, t->stride, size),
                        .name = "x"};
}

static bool is_plain_tensor(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx__c_type((cfx_dtype)cfx_as_tensor(v)->dtype) &&
           !(cfx_as_tensor(v)->head.flags & CFX__QUANTIZED);
}

static void place_inputs(cfx__cuda_making *m) {
    const cfx__plan *p = m->p->plan;
    for (int k = 0; k < p->n; k++) {
        if (p->kernels[k].kind != CFX__PLAN_INPUT || !cfx_is_bad(p->constants[k]) ||
            !is_plain_tensor(p->given[k]) || m->unit.refs[k].n)
            continue;
        cfx__c_ref *r = cfx__arena_alloc(&m->p->memory, sizeof *r);
        *r = ref_like(m, cfx_as_tensor(p->given[k]));
        m->unit.refs[k] = (cfx__c_refs){1, r};
    }
}

static bool are_plain(cfx_value v) {
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v.tag != CFX_TAG_TENSOR || is_plain_tensor(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        if (!are_plain(cfx_as_list(v)->items[i]))
            return false;
    return true;
}

static bool lies_like(const cfx__c_ref *r, const cfx_tensor *t) {
    for (int i = 0; i < r->ndim; i++)
        if (r->shape[i] != 1 && r->stride[i] != t->stride[i])
            return false;
    return r->ndim == t->ndim && r->dtype == (cfx_dtype)t->dtype;
}

/* What has no dtype that kernels know stays with the host; false where a look is into memory that
 * lies in another order than was planned. */
static bool settle_places(cfx__cuda_making *m) {
    const cfx__plan *p = m->p->plan;
    for (int k = 0; k < p->n; k++) {
        if (!are_plain(p->given[k]))
            m->unit.refs[k].n = 0;
        const int root = p->kernels[k].kind == CFX__PLAN_VIEW ? cfx__plan_root(p, k) : -1;
        if (root >= 0 && m->unit.refs[root].n == 1 && p->given[root].tag == CFX_TAG_TENSOR &&
            !lies_like(m->unit.refs[root].refs, cfx_as_tensor(p->given[root])))
            return false;
    }
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static cfx__cuda_step *add_step(cfx__cuda_making *m, cfx__cuda_step_kind kind, int slot) {
    cfx__cuda_step s = {.kind = kind, .slot = slot};
    VEC_PUSH(m->p->steps, s);
    return &m->p->steps.data[m->p->steps.len - 1];
}

/* Scratch memory, which all steps share. */
static void need_scratch(cfx__cuda_making *m, int64_t bytes) {
    m->scratch = bytes > m->scratch ? bytes : m->scratch;
}

void cfx__cuda_add_job(cfx__cuda_making *m, int slot, cfx__cuda_job *job) {
    add_step(m, CFX__CUDA_JOB, slot)->job = job;
    need_scratch(m, job->scratch);
}

const char *cfx__cuda_own_text(cfx__cuda_making *m, const char *text) {
    return copied(&m->p->memory, text, strlen(text) + 1);
}

/* Steps for what was rendered since `from`; words are addresses when there are any: refs for now.
 */
static void add_rendered(cfx__cuda_making *m, size_t from, int slot) {
    for (size_t i = from; i < m->text.made.len; i++) {
        cfx__cuda_step *s = add_step(m, CFX__CUDA_KERNEL, slot);
        const cfx__cuda_rendered *k = &m->text.made.data[i];
        s->function = cfx__cuda_own_text(m, k->function);
        s->grid[0] = k->grid;
        s->block[0] = k->block;
        s->grid[1] = s->grid[2] = s->block[1] = s->block[2] = 1;
        s->nwords = (int)i; /* until it is resolved */
    }
}

bool cfx__cuda_posts(cfx__cuda_making *m, int slot, const cfx__c_work *of, int from) {
    cfx__c_work k = *of;
    cfx__epilogue rest = k.epilogue ? *k.epilogue : (cfx__epilogue){0};
    const size_t before = m->text.made.len;
    if (from >= rest.n)
        return true;
    rest.n -= from;
    memmove(rest.post, rest.post + from, (size_t)rest.n * sizeof *rest.post);
    k.epilogue = &rest;
    if (!cfx__cuda_render_posts(&m->text, &m->c, &k))
        return false;
    add_rendered(m, before, slot);
    return true;
}

int64_t cfx__cuda_offset(const cfx__c_ref *r) {
    return (r->where == CFX__C_ARENA ? r->base : 0) + r->at * cfx_dtype_size(r->dtype);
}

/* The bytes that a ref reaches, from where its memory begins. */
static void reach_of(const cfx__c_ref *r, int64_t *from, int64_t *to) {
    const int64_t size = cfx_dtype_size(r->dtype);
    *from = cfx__cuda_offset(r), *to = *from + size;
    for (int i = 0; i < r->ndim; i++)
        *(r->stride[i] < 0 ? from : to) += (r->shape[i] - 1) * r->stride[i] * size;
}

int64_t cfx__cuda_bytes(const cfx__c_ref *r) {
    int64_t from, to;
    reach_of(r, &from, &to);
    return to - from;
}

/* The same of each piece of memory that begins at a multiple of `every` bytes, where the ref lies
 * in all of them in one way; false where it does not. */
static bool reach_within(const cfx__c_ref *r, int64_t every, int64_t *from, int64_t *to) {
    const int64_t size = cfx_dtype_size(r->dtype);
    *from = cfx__cuda_offset(r) % every, *to = *from + size;
    for (int i = 0; i < r->ndim; i++) {
        const int64_t step = r->stride[i] * size;
        if (step < 0)
            return false;
        *to += r->shape[i] == 1 || step % every == 0 ? 0 : (r->shape[i] - 1) * step;
    }
    return *to <= every;
}

bool cfx__cuda_are_apart(const cfx__c_ref *a, const cfx__c_ref *b) {
    int64_t from, to, begin, end;
    if (a->where != b->where || (a->where != CFX__C_ARENA && a->number != b->number))
        return true;
    reach_of(a, &from, &to), reach_of(b, &begin, &end);
    if (to <= begin || end <= from)
        return true;
    for (int i = 0; i < a->ndim; i++) { /* columns of the same rows */
        const int64_t every = a->stride[i] * cfx_dtype_size(a->dtype);
        if (a->shape[i] > 1 && every > 0 && reach_within(a, every, &from, &to) &&
            reach_within(b, every, &begin, &end) && (to <= begin || end <= from))
            return true;
    }
    return false;
}

const cfx__c_ref *cfx__cuda_room_like(cfx__cuda_making *m, const cfx__c_ref *r) {
    cfx__c_ref *to = cfx__c_ref_like(&m->c, r, r->ndim, r->shape, r->stride);
    cfx_tensor *like = cfx_tensor_fake(r->dtype, r->ndim, r->shape, r->stride);
    to->where = CFX__C_ARENA;
    to->base = room_for(&m->c, like);
    to->at = 0;
    return to;
}

bool cfx__cuda_add_copy(cfx__cuda_making *m, int slot, const cfx__c_ref *to,
                        const cfx__c_ref *from) {
    const size_t before = m->text.made.len;
    if (!cfx__cuda_render_copy(&m->text, &m->c, to, from))
        return false;
    add_rendered(m, before, slot);
    return true;
}

bool cfx__cuda_add_index(cfx__cuda_making *m, int slot, const cfx__cuda_index_call *call,
                         const cfx__c_ref *x, const cfx__c_ref *y, const cfx__c_ref *const *by) {
    const size_t before = m->text.made.len;
    if (!cfx__cuda_render_index(&m->text, &m->c, call, x, y, by))
        return false;
    add_rendered(m, before, slot);
    return true;
}

static bool can_launch(const cfx__cuda_device *d, const cfx__cuda_launch *l) {
    const uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    return (l->shared <= 48 << 10 || l->shared <= (unsigned)d->shared_most) &&
           (!l->cooperative || blocks <= (uint64_t)d->processors);
}

bool cfx__cuda_add_work(cfx__cuda_making *m, int slot, const cfx__cuda_work *w, int n,
                        const cfx__c_ref *const *refs) {
    static const char names[] = "#define cfx_exp expf\n#define cfx_log logf\n"
                                "#define cfx_tanh tanhf\n#define cfx_erf erff\n"
                                "#ifndef INFINITY\n"
                                "#define INFINITY __int_as_float(0x7f800000)\n"
                                "#endif\n#ifndef NAN\n"
                                "#define NAN __int_as_float(0x7fc00000)\n#endif\n";
    for (int i = 0; i < w->n; i++)
        if (!can_launch(m->p->device, &w->launch[i]))
            return false;
    for (int i = 0; i < w->n; i++) {
        const cfx__cuda_launch *l = &w->launch[i];
        cfx__cuda_called *c = cfx__arena_alloc(&m->c.memory, sizeof *c);
        c->launch = *l;
        const char *source = cfx__text_format("%s%s%s%s", l->before ? l->before : names,
                                              l->defines, cfx__cuda_text("base"), l->text);
        c->code = cfx__cuda_codes_ask(&m->codes, m->p->device, source);
        if (c->code < 0)
            return false;
        for (int k = 0; k < n; k++)
            c->refs[k] = *refs[k];
        cfx__cuda_step *s = add_step(m, CFX__CUDA_KERNEL, slot);
        s->function = cfx__cuda_own_text(m, l->function);
        memcpy(s->grid, l->grid, sizeof s->grid);
        memcpy(s->block, l->block, sizeof s->block);
        s->shared = l->shared;
        s->cooperative = l->cooperative;
        s->nwords = -1 - (int)m->calls.len; /* until it is resolved */
        VEC_PUSH(m->calls, c);
    }
    need_scratch(m, w->scratch);
    return true;
}

cfx__cuda_mark cfx__cuda_mark_of(const cfx__cuda_making *m) {
    return (cfx__cuda_mark){m->p->steps.len, m->text.made.len, m->calls.len};
}

void cfx__cuda_go_back(cfx__cuda_making *m, cfx__cuda_mark to) {
    while (m->p->steps.len > to.steps)
        cfx_drop(m->p->steps.data[--m->p->steps.len].job);
    m->text.made.len = to.made;
    m->calls.len = to.calls;
}

static bool try_way(cfx__cuda_making *m, int slot, bool (*way)(cfx__cuda_making *, int)) {
    const cfx__cuda_mark before = cfx__cuda_mark_of(m);
    m->unit.slot = slot;
    if (way(m, slot) && cfx_ok())
        return true;
    cfx__cuda_go_back(m, before);
    return false;
}

static bool try_builtin(cfx__cuda_making *m, int slot) {
    return m->p->device->major >= 8 && try_way(m, slot, cfx__cuda_try_builtin);
}

/* Libraries are opened where nothing is known of what is faster, or they are. */
static bool try_library(cfx__cuda_making *m, int slot) {
    return try_way(m, slot, cfx__cuda_try_product) || try_way(m, slot, cfx__cuda_try_convolution);
}

/* By kernels written by hand, by a library, or both where they have to be tried; false: neither. */
static bool make_work(cfx__cuda_making *m, int slot) {
    const cfx__cuda_mark before = cfx__cuda_mark_of(m);
    m->few = false;
    m->way = 0; /* where nothing is tried, the library's first */
    cfx__cuda_trial c = {.a = (int)m->p->steps.len};
    if (!try_builtin(m, slot))
        return try_library(m, slot);
    c.b = (int)m->p->steps.len;
    if (m->few || !cfx__cuda_has_library(m, slot))
        return true;
    c.key = cfx__cuda_way_key(m, c.a, c.b);
    const char kept = cfx__cuda_way_kept(c.key);
    if (kept == 'a')
        return true;
    if (kept) {
        cfx__cuda_go_back(m, before);
        m->way = kept - 'b';
        return try_library(m, slot) || try_builtin(m, slot);
    }
    m->way = -1;
    if (try_library(m, slot)) {
        c.c = (int)m->p->steps.len;
        VEC_PUSH(m->trials, c);
    } else if (cfx__cuda_blas_open() && cfx__cuda_dnn_open()) { /* neither does this */
        cfx__cuda_remember(c.key, "a", 1);
    }
    return true;
}

bool cfx__cuda_add_call(cfx__cuda_making *m, int slot) {
    const size_t from = m->text.made.len;
    if (!cfx__cuda_can_render(m, slot) || !cfx__cuda_render(&m->text, &m->unit, slot))
        return false;
    add_rendered(m, from, slot);
    return true;
}

static bool is_written(const cfx__cuda_making *m, int slot) {
    const cfx__c_refs *r = &m->unit.refs[slot];
    return m->unit.plan->kernels[slot].kind == CFX__PLAN_CALL && r->n == 1 &&
           r->refs->where == CFX__C_STATE;
}

static void make_step(cfx__cuda_making *m, int slot) {
    if (is_written(m, slot) ? try_way(m, slot, cfx__cuda_try_update)
                            : make_work(m, slot) || cfx__cuda_add_call(m, slot))
        return;
    add_step(m, CFX__CUDA_HOST, slot);
}

/* ---- results --------------------------------------------------------------------------------- */

static void place_result(void *user, int slot) {
    cfx__cuda_making *m = user;
    const cfx__plan *p = m->p->plan;
    const cfx__c_refs *r = &m->unit.refs[slot];
    if (!cfx_is_bad(p->constants[slot]) || r->n != 1 || p->wanted[slot].tag != CFX_TAG_TENSOR)
        return;
    const cfx_tensor *want = cfx_as_tensor(p->wanted[slot]);
    m->p->results[slot] = *r;
    if (lies_like(r->refs, want) || !want->numel || r->refs->where == CFX__C_STATE)
        return;
    cfx__c_ref *to = cfx__arena_alloc(&m->p->memory, sizeof *to);
    *to = ref_like(m, want);
    if (cfx__cuda_add_copy(m, slot, to, r->refs))
        m->p->results[slot] = (cfx__c_refs){1, to};
}

static void place_results(cfx__cuda_making *m) {
    const cfx__plan *p = m->p->plan;
    m->p->results = cfx__arena_alloc(&m->p->memory, (size_t)p->n * sizeof *m->p->results);
    for (int k = 0; k < p->n; k++)
        if (p->kernels[k].kind == CFX__PLAN_OUTPUT)
            cfx__plan_each_kernel_read(&p->kernels[k], place_result, m);
}

/* ---- stretches ------------------------------------------------------------------------------- */

static void find_stretches(cfx__cuda_plan *p) {
    cfx__cuda_stretch s = {0};
    for (int i = 0; i <= (int)p->steps.len; i++) {
        const bool end = i == (int)p->steps.len || p->steps.data[i].kind == CFX__CUDA_HOST;
        if (!end)
            continue;
        s.to = i;
        if (s.to > s.from)
            VEC_PUSH(p->stretches, s);
        s = (cfx__cuda_stretch){.from = i + 1};
    }
}

/* ---- the way in ------------------------------------------------------------------------------ */

/* Everything but the plan itself. False, with an error: the card said no; without one, that this is
 * for the host. */
static bool make(cfx__cuda_making *m) {
    cfx__cuda_plan *p = m->p;
    cfx__c *c = &m->c;
    const size_t n = (size_t)p->plan->n;
    cfx__cuda_pen_begin(&m->text, c, (int64_t)p->device->processors * 256);
    c->arena = (p->plan->room_bytes + CFX__CUDA_LINE - 1) / CFX__CUDA_LINE * CFX__CUDA_LINE;
    m->unit = (cfx__c_unit){.c = c, .plan = p->plan, .slot = -1};
    m->unit.refs = cfx__arena_alloc(&p->memory, n * sizeof *m->unit.refs);
    p->refs = m->unit.refs;
    if (!cfx__cuda_place_states(m))
        return false;
    place_inputs(m);
    cfx__c_place(&m->unit);
    c->problems.len = 0;
    if (!settle_places(m) || !cfx_ok())
        return false;
    if (m->wide)
        cfx__cuda_halve(m);
    for (int k = 0; k < p->plan->n && cfx_ok(); k++) {
        if (!cfx__cuda_computes(p->plan, k) || k <= m->done)
            continue;
        make_step(m, k);
        const cfx__plan_kind kind = p->plan->kernels[k].kind;
        if (p->states.len && p->steps.data[p->steps.len - 1].kind == CFX__CUDA_HOST)
            return false; /* it would not see what was written */
        if (p->steps.len && p->steps.data[p->steps.len - 1].kind == CFX__CUDA_HOST &&
            p->steps.data[p->steps.len - 1].slot == k &&
            (kind == CFX__PLAN_LAYER || kind == CFX__PLAN_LOOP)) {
            m->again = m->halves && !m->wide[k];
            if (m->halves)
                m->wide[k] = true;
            return false; /* the host has no kernels for these of this target */
        }
    }
    place_results(m);
    cfx__cuda_join(m);
    return cfx_ok() && cfx__cuda_allocate(m) && cfx__cuda_resolve(m) && cfx__cuda_wait(p->device) &&
           cfx__cuda_autotune(m) && cfx_ok();
}

static void end(cfx__cuda_making *m) {
    for (int k = 0; k < m->p->plan->n; k++) /* refs of c's own memory, which goes */
        if (m->unit.refs && m->unit.refs[k].n) {
            cfx__c_refs *r = &m->unit.refs[k];
            cfx__c_ref *own = copied(&m->p->memory, r->refs, (size_t)r->n * sizeof *own);
            for (int i = 0; i < r->n; i++) {
                const size_t size = (size_t)own[i].ndim * sizeof *own[i].shape;
                own[i].shape = copied(&m->p->memory, own[i].shape, size);
                own[i].stride = copied(&m->p->memory, own[i].stride, size);
                own[i].name = "";
            }
            if (m->p->results && m->p->results[k].refs == r->refs)
                m->p->results[k].refs = own;
            r->refs = own;
        }
    cfx__cuda_pen_end(&m->text);
    VEC_FREE(m->c.weights);
    VEC_FREE(m->c.problems);
    VEC_FREE(m->c.rooms);
    VEC_FREE(m->calls);
    VEC_FREE(m->trials);
    VEC_FREE(m->rounded);
    cfx__cuda_codes_end(&m->codes);
    for (size_t i = 0; i < m->c.blocks.len; i++)
        cfx__free(m->c.blocks.data[i]);
    VEC_FREE(m->c.blocks);
    cfx__text_release(&m->c.out);
    cfx__text_release(&m->c.helpers);
    cfx__map_release(&m->c.names);
    cfx__map_release(&m->c.helped);
    cfx__arena_release(&m->c.memory);
}

/* A plan made ready; NULL where it is for the host, with an error where the card said no. wide: by
 * slot, see cfx__cuda_making; *again: there is one more, and it may be tried so. *known: something
 * was tried for it, and what was found is kept. */
static cfx__cuda_plan *attempt(cfx__cuda_device *d, cfx__plan *plan, const cfx_execution *e,
                               bool *wide, bool *again, bool *known) {
    cfx__cuda_plan *p = cfx__obj_make(&plan_type, sizeof *p);
    p->plan = cfx_keep(plan);
    p->device = d;
    p->watched = e->watcher && e->watcher->see;
    cfx__cuda_making *m = cfx__alloc0(sizeof *m);
    m->p = p;
    m->e = e;
    m->done = -1;
    m->apart = p->watched;
    m->wide = wide;
    const bool made = make(m);
    *again = m->again && cfx_ok();
    *known = made && m->trials.len && cfx__cuda_way_kept(m->trials.data[0].key);
    end(m);
    cfx__free(m);
    if (made) {
        find_stretches(p);
        return p;
    }
    cfx_drop(p);
    return NULL;
}

static cfx__cuda_plan *ready(cfx__cuda_device *d, cfx__plan *plan, const cfx_execution *e) {
    bool again = plan->precision == CFX_PRECISION_BF16;
    bool *wide = again ? cfx__alloc0((size_t)plan->n + 1) : NULL, known = false;
    cfx__cuda_plan *p = NULL;
    do
        p = attempt(d, plan, e, wide, &again, &known);
    while (again);
    if (known) { /* as the next process makes it, in text, memory and bits: without other ways */
        cfx_drop(p);
        p = attempt(d, plan, e, wide, &again, &known);
    }
    cfx__free(wide);
    return p;
}

/* A form of a plan that could not be made ready: runs tell why, so that nothing else runs it
 * silently. */
static cfx__cuda_plan *failed(cfx__cuda_device *d, cfx__plan *plan) {
    const cfx_error *error = cfx_error_last();
    cfx__cuda_plan *p = cfx__obj_make(&plan_type, sizeof *p);
    p->plan = cfx_keep(plan);
    p->device = d;
    p->failure = error->kind;
    const size_t n = strlen(error->message) + 1;
    p->failed = memcpy(cfx__alloc(n), error->message, n);
    cfx_error_clear();
    return p;
}

static cfx__cuda_plan *make_for(const cfx__plan_target *target, cfx__cuda_device *d,
                                const cfx_execution *e, bool *again) {
    cfx__plan *plan = cfx__plan_make(target, e);
    cfx__cuda_plan *p = NULL;
    if (plan) {
        size_t mark = cfx_scope_open();
        struct cfx__cuda_ahead *ahead = cfx__cuda_ahead_begin(d, plan);
        if (cfx__cuda_enter(d)) {
            p = ready(d, plan, e);
            cfx__cuda_leave(d);
        }
        cfx__cuda_ahead_end(ahead, p);
        if (!p && !cfx_ok())
            p = failed(d, plan);
        *again = !p && plan->nbecomes;
        cfx_scope_close(mark);
    }
    cfx_drop(plan);
    return p;
}

cfx__cuda_plan *cfx__cuda_plan_make(cfx__cuda_device *d, const cfx_execution *e) {
    bool again = false;
    cfx__cuda_plan *p = make_for(&cfx__plan_cuda, d, e, &again);
    return again ? make_for(&cfx__plan_cuda_apart, d, e, &again) : p;
}
