/* Runs prepared plans: copies inputs to their addresses, runs steps as graphs or one by one,
 * with host steps in between, and copies results to new memory. Start at cfx__cuda_plan_run. */
#include <cfx/ops.h>

#include "../plan/plan.h"
#include "plan.h"

typedef struct {
    cfx__cuda_plan *p;
    const cfx__plan *plan;
    const cfx_execution *e;
    cfx_value *values; /* by slot: what the host has of it; counted where `have` */
    bool *have;
    void *event[2]; /* before and behind a step; NULL: nobody asks for times */
} frame;

static void store(frame *f, int slot, cfx_value v) {
    cfx_value_keep(v);
    if (f->have[slot])
        cfx_value_drop(f->values[slot]);
    f->values[slot] = v;
    f->have[slot] = true;
}

static bool is_watched(const cfx_execution *e) { return e->watcher && e->watcher->see; }

static bool wants(const frame *f, int slot) {
    const cfx_node *n = f->plan->kernels[slot].step->node;
    return is_watched(f->e) && (!f->e->watcher->wants || f->e->watcher->wants(f->e->watcher, n));
}

/* ---- to and from the card -------------------------------------------------------------------- */

static int64_t bytes_of(int ndim, const int64_t *shape, const int64_t *stride, cfx_dtype d) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) {
        if (!shape[i])
            return 0;
        n += (shape[i] - 1) * stride[i];
    }
    return n * cfx_dtype_size(d);
}

static int64_t ref_bytes(const cfx__c_ref *r) {
    return bytes_of(r->ndim, r->shape, r->stride, r->dtype);
}

/* t in the strides of a ref of its shape; scope. */
static cfx_tensor *lying_like(cfx_tensor *t, const cfx__c_ref *r) {
    bool same = true;
    for (int i = 0; i < t->ndim; i++)
        same &= t->shape[i] == 1 || t->stride[i] == r->stride[i];
    if (same)
        return t;
    cfx_tensor *to =
        cfx__tensor_empty((cfx_site){0}, (cfx_dtype)t->dtype, false, t->ndim, t->shape, r->stride);
    if (!cfx__obj_is_bad(to))
        cfx__tensor_copy(to, t);
    return to;
}

/* A tensor of the host's to its place on the card. */
static bool upload(frame *f, const cfx__c_ref *r, cfx_tensor *t, int slot) {
    const bool halved = r->dtype == CFX_BF16 && t->dtype == CFX_F32;
    bool fits = (t->dtype == r->dtype || halved) && t->ndim == r->ndim;
    for (int i = 0; fits && i < t->ndim; i++)
        fits = t->shape[i] == r->shape[i];
    if (!fits) {
        cfx_fail(CFX_RUNTIME_ERROR, f->e->at, "%s has another dtype or shape than was planned",
                 f->plan->kernels[slot].step->node->name);
        return false;
    }
    if (!t->numel)
        return true;
    if (halved)
        t = cfx_to(t, cfx_dtype_value(CFX_BF16));
    const cfx_tensor *own = cfx_ok() ? lying_like(t, r) : &cfx__tensor_bad;
    return !cfx__obj_is_bad(own) && cfx__cuda_copy(f->p->device, cfx__cuda_where(f->p, r),
                                                   (uintptr_t)own->data, ref_bytes(r));
}

/* What a ref says, as a tensor of the host's that was planned as `like`; scope. */
static cfx_value download(frame *f, const cfx__c_ref *r, cfx_value like) {
    cfx_tensor *t = cfx__tensor_empty(f->e->at, r->dtype, false, r->ndim, r->shape, r->stride);
    if (cfx__obj_is_bad(t) ||
        !cfx__cuda_copy(f->p->device, (uintptr_t)t->data, cfx__cuda_where(f->p, r),
                        t->numel ? ref_bytes(r) : 0) ||
        !cfx__cuda_wait(f->p->device))
        return cfx_bad();
    const cfx_dtype d = (cfx_dtype)cfx_as_tensor(like)->dtype;
    return cfx_tensor_value(r->dtype == d ? t : cfx_to(t, cfx_dtype_value(d)));
}

static bool put_results(frame *f, int slot, cfx_value v) {
    const cfx__c_refs *r = &f->p->refs[slot];
    if (r->n == 1 && v.tag == CFX_TAG_TENSOR)
        return upload(f, r->refs, cfx_as_tensor(v), slot);
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return true;
    for (int64_t i = 0; i < cfx_as_list(v)->len && i < r->n; i++)
        if (cfx_as_list(v)->items[i].tag == CFX_TAG_TENSOR && r->refs[i].where != CFX__C_NOWHERE &&
            !upload(f, &r->refs[i], cfx_as_tensor(cfx_as_list(v)->items[i]), slot))
            return false;
    return true;
}

/* ---- the host -------------------------------------------------------------------------------- */

static cfx_value call(frame *f, const cfx__plan_kernel *k);

/* What a slot holds, on the host. Bad, with an error, where it cannot be had. */
static cfx_value on_host(frame *f, int slot) {
    const cfx__plan_kernel *k = &f->plan->kernels[slot];
    const cfx__c_refs *r = &f->p->refs[slot];
    if (f->have[slot] || !cfx_is_bad(f->plan->constants[slot]))
        return f->values[slot];
    cfx_value v = cfx_bad();
    if (k->kind == CFX__PLAN_INPUT) {
        v = f->e->inputs.v[k->input];
    } else if (k->kind == CFX__PLAN_PASS) {
        v = on_host(f, k->x);
    } else if (k->kind == CFX__PLAN_ITEM && f->have[k->x]) {
        v = cfx_at(f->values[k->x], k->index);
    } else if (k->kind == CFX__PLAN_VIEW && (!r->n || f->have[k->x])) {
        v = k->list < 0 ? call(f, k) : cfx_at(on_host(f, k->list), k->index);
    } else if (r->n == 1 && f->plan->given[slot].tag == CFX_TAG_TENSOR) {
        v = download(f, r->refs, f->plan->given[slot]);
    } else if (r->n) {
        v = f->plan->given[slot].tag == CFX_TAG_LIST ? cfx_list_value(0, NULL)
                                                     : cfx_tuple_value(0, NULL);
        for (int i = 0; i < r->n && cfx_ok(); i++)
            cfx_list_append(cfx_as_list(v), r->refs[i].where == CFX__C_NOWHERE
                                                ? cfx_none()
                                                : download(f, &r->refs[i],
                                                           cfx_at(f->plan->given[slot], i)));
    }
    if (cfx_is_bad(v) && cfx_ok())
        cfx_fail(CFX_RUNTIME_ERROR, f->e->at, "%s has no value on the card", k->step->node->name);
    if (cfx_ok())
        store(f, slot, v);
    return v;
}

static void need(void *user, int slot) {
    if (cfx_ok())
        on_host(user, slot);
}

/* A value in the strides that the interpreter would give it. */
static cfx_value ordered(cfx_value v, cfx_value like) {
    if (v.tag != CFX_TAG_TENSOR || like.tag != CFX_TAG_TENSOR ||
        !cfx__tensor_same_shape(cfx_as_tensor(v), cfx_as_tensor(like)))
        return v;
    const cfx_tensor *t = cfx_as_tensor(like);
    const cfx__c_ref r = {.ndim = t->ndim, .shape = t->shape, .stride = t->stride};
    return cfx_tensor_value(lying_like(cfx_as_tensor(v), &r));
}

static void order(void *user, int slot) {
    frame *f = user;
    if (f->have[slot] && cfx_ok())
        store(f, slot, ordered(f->values[slot], f->plan->wanted[slot]));
}

static cfx_value filled(const frame *f, cfx_value v) {
    const cfx__run view = {.values = f->values};
    return cfx__run_fill(&view, v);
}

static cfx_value call(frame *f, const cfx__plan_kernel *k) {
    const cfx__run_step *s = k->step;
    cfx__plan_each_read(s, need, f);
    if (k->reorder)
        cfx__plan_each_read(s, order, f);
    if (!cfx_ok())
        return cfx_bad();
    const cfx__run view = {.values = f->values};
    const int outer = cfx__ctx()->card;
    if (k->op && k->op->effects & CFX_RANDOM) /* the card's numbers, whoever computes them */
        cfx__ctx()->card = f->p->device->number + 1;
    const cfx_value v = k->kind == CFX__PLAN_HIGHER
                            ? cfx__run_step_higher(&view, s, f->e->watcher)
                            : cfx__run_step_call(&view, f->e->at, k->op, s);
    cfx__ctx()->card = outer;
    return v;
}

/* ---- watchers -------------------------------------------------------------------------------- */

static const cfx_node *source_of(const cfx__plan *p, const cfx_node *n) {
    const uint32_t origin = cfx__node_of(n)->origin;
    const bool known = p->source && origin && origin <= p->source->made.len;
    return known ? &p->source->made.data[origin - 1]->pub : n;
}

/* Shows the value of a slot to somebody who wants it; what comes back goes to the card. */
static void show(frame *f, int slot) {
    if (!cfx_ok() || !wants(f, slot))
        return;
    size_t mark = cfx_scope_open();
    const cfx_value v = on_host(f, slot);
    const cfx_value other =
        cfx_ok()
            ? f->e->watcher->see(f->e->watcher, (cfx_node *)f->plan->kernels[slot].step->node, v)
            : cfx_none();
    if (cfx_ok() && !cfx_is_none(other)) {
        store(f, slot, other);
        put_results(f, slot, other);
    }
    cfx_scope_close(mark);
}

/* Whether a slot that no step computes has a value to be seen. */
static bool has_value(const frame *f, int slot) {
    const cfx__plan_kind kind = f->plan->kernels[slot].kind;
    return !cfx_is_bad(f->plan->constants[slot]) || kind == CFX__PLAN_INPUT ||
           kind == CFX__PLAN_PASS || kind == CFX__PLAN_ITEM || kind == CFX__PLAN_VIEW;
}

/* Shows what the kernel at a slot computed, and what stands before the next. */
static void show_kernel(frame *f, int slot) {
    const cfx__plan_kernel *k = &f->plan->kernels[slot];
    for (int i = 0; i < k->nwrites; i++)
        if (k->writes[i] != slot)
            show(f, k->writes[i]);
    show(f, slot);
}

/* ---- steps ----------------------------------------------------------------------------------- */

bool cfx__cuda_start(cfx__cuda_plan *p, const cfx__cuda_step *s, bool overlaps) {
    cfx__cuda_device *d = p->device;
    void *arguments[CFX__CUDA_REFS + CFX__CUDA_ARGS];
    if (s->kind == CFX__CUDA_JOB)
        return s->job->run(s->job, p);
    for (int i = 0; i < s->nwords; i++)
        arguments[i] = &s->words[i];
    cfx__cuda_launch_mode mode = {.which = s->cooperative ? CFX__CUDA_COOPERATIVE
                                                          : CFX__CUDA_OVERLAPPING,
                                  .value = 1};
    cfx__cuda_launching l = {.shared = s->shared, .stream = d->stream, .modes = &mode};
    memcpy(l.grid, s->grid, sizeof l.grid);
    memcpy(l.block, s->block, sizeof l.block);
    l.nmodes = s->cooperative || (overlaps && d->major >= 9);
    return cfx__cuda_done(d, d->driver->launch(&l, s->code, arguments, NULL), "starting a kernel");
}

/* Whether a kernel leaves room for another on every multiprocessor, all its blocks at once. */
static bool is_light(const cfx__cuda_plan *p, const cfx__cuda_step *s) {
    const uint64_t threads = (uint64_t)s->grid[0] * s->grid[1] * s->grid[2] * s->block[0];
    return s->kind == CFX__CUDA_KERNEL && s->shared <= CFX__CUDA_OWN &&
           threads <= (uint64_t)p->device->processors * 1024;
}

/* Light kernels start while the light one before them ends: each waits for what it reads itself.
 * Blocks that wait would be in the way of heavy ones. */
static bool launch_all(cfx__cuda_plan *p, int from, int to) {
    bool fine = true;
    for (int i = from; i < to && fine; i++)
        fine = cfx__cuda_start(p, &p->steps.data[i],
                               i > from && is_light(p, &p->steps.data[i - 1]) &&
                                   is_light(p, &p->steps.data[i]));
    return fine;
}

enum { RELAXED = 2 }; /* other threads may call the driver meanwhile */

/* A stretch as a graph; that none can be made is no error: it runs step by step. */
static void capture(cfx__cuda_plan *p, cfx__cuda_stretch *s) {
    cfx__cuda_device *d = p->device;
    void *graph = NULL;
    if (d->driver->capture_begin(d->stream, RELAXED))
        return;
    const bool fine = launch_all(p, s->from, s->to);
    if (d->driver->capture_end(d->stream, &graph) || !fine || !graph)
        s->graph = NULL;
    else if (d->driver->graph_make(&s->graph, graph, 0))
        s->graph = NULL;
    if (graph)
        d->driver->graph_free(graph);
    if (!cfx_ok() && !d->lost)
        cfx__error_forgive();
}

static bool run_stretch(cfx__cuda_plan *p, cfx__cuda_stretch *s) {
    cfx__cuda_device *d = p->device;
    if (p->runs == 1 && !s->graph && s->to - s->from > 1)
        capture(p, s);
    if (!cfx_ok())
        return false;
    return s->graph ? cfx__cuda_done(d, d->driver->graph_launch(s->graph, d->stream), "a graph")
                    : launch_all(p, s->from, s->to);
}

static bool run_host(frame *f, int slot) {
    size_t mark = cfx_scope_open();
    const cfx_value v = call(f, &f->plan->kernels[slot]);
    if (cfx_ok()) {
        store(f, slot, v);
        put_results(f, slot, v);
    }
    /* what was brought over stays until the copies are done */
    const bool fine = cfx_ok() && cfx__cuda_wait(f->p->device);
    cfx_scope_close(mark);
    if (!fine)
        cfx__run_note(source_of(f->plan, f->plan->kernels[slot].step->node));
    return fine;
}

static double now(void) { return (double)cfx__clock_ns() * 1e-9; }

static bool make_events(frame *f) {
    const cfx__cuda_driver *d = f->p->device->driver;
    bool fine = true;
    for (int i = 0; i < 2 && fine; i++)
        fine = cfx__cuda_done(f->p->device, d->event_create(&f->event[i], 0), "making an event");
    return fine;
}

static void free_events(frame *f) {
    for (int i = 0; i < 2; i++)
        if (f->event[i])
            f->p->device->driver->event_destroy(f->event[i]);
}

/* A step of the card's, whose time is told by the card's own clock where somebody asks. */
static bool run_timed(frame *f, const cfx__cuda_step *s, double *seconds) {
    cfx__cuda_device *d = f->p->device;
    float ms = 0;
    if (!f->event[1])
        return cfx__cuda_start(f->p, s, false) && cfx__cuda_wait(d);
    const bool fine =
        cfx__cuda_done(d, d->driver->event_record(f->event[0], d->stream), "an event") &&
        cfx__cuda_start(f->p, s, false) &&
        cfx__cuda_done(d, d->driver->event_record(f->event[1], d->stream), "an event") &&
        cfx__cuda_wait(d) &&
        cfx__cuda_done(d, d->driver->event_elapsed(&ms, f->event[0], f->event[1]), "an event");
    *seconds = ms * 1e-3;
    return fine;
}

/* One step, with the time that it takes told, and its values shown. */
static bool run_seen(frame *f, int i) {
    const cfx__cuda_step *s = &f->p->steps.data[i];
    const cfx__plan_kernel *k = &f->plan->kernels[s->slot];
    const double start = now();
    double seconds = 0;
    const bool host = s->kind == CFX__CUDA_HOST;
    const bool fine = host ? run_host(f, s->slot) : run_timed(f, s, &seconds);
    const bool last = i + 1 == (int)f->p->steps.len || f->p->steps.data[i + 1].slot != s->slot;
    if (fine && f->e->watcher->ran) {
        cfx_ran r = {.kernel = cfx__text_format("%s%s", host ? "host " : "",
                                                s->kind == CFX__CUDA_JOB
                                                    ? s->job->name
                                                    : cfx__plan_kernel_name(f->plan, k)),
                     .nnodes = k->nchain ? k->nchain : 1,
                     .value = f->plan->given[s->slot],
                     .seconds = host ? now() - start : seconds};
        const cfx_node **nodes = cfx__alloc((size_t)r.nnodes * sizeof *nodes);
        nodes[0] = source_of(f->plan, k->step->node);
        for (int n = 0; n < k->nchain; n++)
            nodes[n] = source_of(f->plan, f->plan->kernels[k->chain[n]].step->node);
        r.nodes = nodes;
        f->e->watcher->ran(f->e->watcher, &r);
        cfx__free(nodes);
    }
    if (fine && last)
        show_kernel(f, s->slot);
    return fine && cfx_ok();
}

/* Runs step by step for somebody who looks on, slot by slot. */
static void run_watched(frame *f) {
    int i = 0;
    if (f->e->watcher->ran && !make_events(f))
        return;
    for (int slot = 0; slot < f->plan->n && cfx_ok(); slot++) {
        if (i < (int)f->p->steps.len && f->p->steps.data[i].slot < slot)
            i++;
        bool ran = false;
        for (; i < (int)f->p->steps.len && f->p->steps.data[i].slot == slot && cfx_ok(); i++) {
            size_t mark = cfx_scope_open();
            ran = true;
            if (cfx__limit_time())
                run_seen(f, i);
            cfx_scope_close(mark);
        }
        if (!ran && has_value(f, slot))
            show(f, slot);
    }
    for (; i < (int)f->p->steps.len && cfx_ok(); i++) /* results in another order */
        run_seen(f, i);
}

static void run_steps(frame *f) {
    cfx__cuda_plan *p = f->p;
    size_t s = 0;
    for (int i = 0; i < (int)p->steps.len && cfx_ok() && cfx__limit_time();) {
        if (p->steps.data[i].kind == CFX__CUDA_HOST) {
            run_host(f, p->steps.data[i].slot);
            i++;
            continue;
        }
        while (p->stretches.data[s].from < i)
            s++;
        if (!run_stretch(p, &p->stretches.data[s]))
            break;
        i = p->stretches.data[s].to;
    }
}

/* ---- inputs and results ---------------------------------------------------------------------- */

static void put_inputs(frame *f) {
    for (int k = 0; k < f->plan->n && cfx_ok(); k++) {
        const cfx__plan_kernel *kernel = &f->plan->kernels[k];
        if (kernel->kind != CFX__PLAN_INPUT || !f->p->refs[k].n ||
            !cfx_is_bad(f->plan->constants[k]) || f->p->refs[k].refs->where == CFX__C_STATE)
            continue;
        upload(f, f->p->refs[k].refs, cfx_as_tensor(f->e->inputs.v[kernel->input]), k);
    }
}

/* The value of a slot that leaves the plan: an input itself, a copy of what was folded, or a tensor
 * on the card. */
static cfx_value result_of(frame *f, int slot) {
    const cfx__c_refs *r = &f->p->results[slot];
    int from = slot;
    while (f->plan->kernels[from].kind == CFX__PLAN_PASS)
        from = f->plan->kernels[from].x;
    const cfx__plan_kernel *k = &f->plan->kernels[from];
    const cfx_value known = f->plan->constants[slot];
    if (!cfx_is_bad(known)) {
        cfx_op *op = k->step->op;
        const bool made = known.tag == CFX_TAG_TENSOR && op && !op->view;
        return made ? cfx_tensor_value(cfx_clone(known)) : known;
    }
    if (k->kind == CFX__PLAN_INPUT)
        return f->e->inputs.v[k->input];
    if (r->n != 1)
        return ordered(on_host(f, slot), f->plan->wanted[slot]);
    if (r->refs->where == CFX__C_STATE) /* what that input becomes */
        return f->e->inputs.v[f->p->states.data[r->refs->number].input];
    const cfx_tensor *like = cfx_as_tensor(f->plan->wanted[slot]);
    cfx_tensor *t = cfx__cuda_tensor(f->p->device, (cfx_dtype)like->dtype, like->ndim, like->shape,
                                     r->refs->stride);
    if (!cfx__obj_is_bad(t) && t->numel)
        cfx__cuda_copy(f->p->device, (uintptr_t)t->data, cfx__cuda_where(f->p, r->refs),
                       ref_bytes(r->refs));
    return cfx_tensor_value(t);
}

static void take_result(void *user, int slot) {
    frame *f = user;
    const cfx_value v = cfx_ok() ? result_of(f, slot) : cfx_bad();
    if (cfx_ok())
        store(f, slot, v);
}

static cfx_value results(frame *f) {
    for (int k = 0; k < f->plan->n; k++) {
        const cfx__plan_kernel *kernel = &f->plan->kernels[k];
        if (kernel->kind != CFX__PLAN_OUTPUT)
            continue;
        cfx__plan_each_slot(kernel->step->args, take_result, f);
        cfx_value v = cfx_ok() ? filled(f, cfx_as_list(kernel->step->args)->items[0]) : cfx_bad();
        if (!cfx_ok() || !wants(f, k) || !cfx__cuda_wait(f->p->device))
            return v;
        const cfx_value other =
            f->e->watcher->see(f->e->watcher, (cfx_node *)kernel->step->node, v);
        return cfx_is_none(other) ? v : other;
    }
    return cfx_none();
}

/* Records an error where an index was out of range. */
static void check_indices(frame *f) {
    int flag = 0;
    cfx__cuda_device *d = f->p->device;
    if (cfx__cuda_copy(d, (uintptr_t)&flag, f->p->arena + (uint64_t)f->p->flag_at, sizeof flag) &&
        cfx__cuda_wait(d) && flag)
        cfx_fail(CFX_INDEX_ERROR, f->e->at, "an index is out of range (found on the card)");
}

cfx_value cfx__cuda_plan_run(cfx__cuda_plan *p, const cfx_execution *e) {
    if (p->failed) {
        cfx_fail(p->failure, e->at, "%s", p->failed);
        return cfx_bad();
    }
    if (!cfx__cuda_enter(p->device))
        return cfx_bad();
    const size_t n = (size_t)p->plan->n;
    size_t mark = cfx_scope_open();
    frame f = {.p = p, .plan = p->plan, .e = e};
    f.values = cfx__alloc(n * (sizeof *f.values + sizeof *f.have));
    f.have = (bool *)(f.values + n);
    memcpy(f.values, p->plan->constants, n * sizeof *f.values);
    memset(f.have, 0, n * sizeof *f.have);
    if (cfx__cuda_states_in(p, e))
        put_inputs(&f);
    if (p->flags && cfx_ok())
        cfx__cuda_done(p->device,
                       p->device->driver->fill(p->arena + (uint64_t)p->flag_at, 0, sizeof(int),
                                               p->device->stream),
                       "clearing memory");
    if (cfx_ok() && e->watcher)
        run_watched(&f);
    else if (cfx_ok())
        run_steps(&f);
    cfx_value v = cfx_ok() ? results(&f) : cfx_bad();
    if (p->flags && cfx_ok())
        check_indices(&f);
    if (cfx_ok())
        cfx__cuda_states_out(p, e);
    cfx__cuda_wait(p->device); /* what was copied may be freed from here on, after an error too */
    if (!cfx_ok())
        v = cfx_bad();
    p->runs += cfx_ok() && !e->watcher;
    cfx_value_keep(v);
    for (size_t k = 0; k < n; k++)
        if (f.have[k])
            cfx_value_drop(f.values[k]);
    cfx__free(f.values);
    free_events(&f);
    cfx__cuda_leave(p->device);
    cfx_scope_close(mark);
    return cfx__value_scope_own(v);
}
