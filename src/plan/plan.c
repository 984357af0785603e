/* The planned executor: runs the kernels of a plan, with the form for the sizes of the inputs.
 * Start at run.
 *
 * The values of a run may differ from the plan's: a watcher may replace one, and a sub-graph may
 * return another size. So each kernel checks its operands (dtype, shape, strides), which takes
 * nanoseconds. An operand with other strides is copied to the planned ones; an operand of another
 * type is refused; a view whose root differs from the plan is computed by its operator.
 *
 * Results are in the run's block of memory (room.c), except two kinds: results returned to the
 * caller, which must outlive the run, and all results while a watcher is present, which may keep
 * them. Constants belong to the plan; if one is a result of the program, the caller gets a copy,
 * because callers may write to results.
 *
 * `fits` finds the form for a run by comparing the inputs with the graph's forms; inputs with
 * dynamic sizes are compared first. Weights must be the same tensors with the same version:
 * after a write to a parameter, a new plan is made. */
#include <cfx/ops.h>

#include "form.h"

/* ---- does a plan fit ------------------------------------------------------------------------- */

/* Whether somebody looks at values. */
static bool is_watched(const cfx_execution *e) { return e->watcher && e->watcher->see; }

bool cfx__plan_wants(const cfx_execution *e, const cfx_node *n) {
    return is_watched(e) && (!e->watcher->wants || e->watcher->wants(e->watcher, n));
}

static bool same_input(cfx_value have, cfx_value v) {
    if (have.tag != v.tag)
        return false;
    if (v.tag != CFX_TAG_TENSOR)
        return cfx_equal_values(have, v);
    const cfx_tensor *a = cfx_as_tensor(have), *b = cfx_as_tensor(v);
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) &&
           !memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride);
}

/* Whether the weight of an input or a node is what it was. */
static bool same_weight(const cfx__plan_weight *w, const cfx_execution *e) {
    cfx_value now = w->input < 0 ? cfx__module_read((cfx_site){0}, e->module, w->node->target.name)
                                 : e->inputs.v[w->input];
    return now.tag == CFX_TAG_TENSOR && cfx_as_tensor(now) == w->tensor &&
           cfx_as_tensor(now)->storage->version == w->version &&
           !cfx_as_tensor(now)->storage->foreign;
}

/* Whether all that somebody wants to see has a value in the plan. */
static bool shows(const cfx__plan *p, const cfx_execution *e) {
    for (int k = 0; k < p->n && e->watcher; k++)
        if (p->kernels[k].kind == CFX__PLAN_NONE && !p->kernels[k].stored &&
            cfx_is_bad(p->constants[k]) && cfx__plan_wants(e, p->kernels[k].step->node))
            return false;
    return true;
}

/* Whether the memory that the plan writes to is looked at by the inputs that looked at it when the
 * plan was made, and by no others. */
static bool same_sharing(const cfx__plan *p, const cfx_execution *e) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_value v = e->inputs.v[i];
        const cfx__storage *s =
            p->sharing[i] >= 0 && v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v)->storage : NULL;
        if (!s || s->head.refs == 1)
            continue;
        for (int k = 0; k < p->ninputs; k++)
            if (e->inputs.v[k].tag == CFX_TAG_TENSOR && p->sharing[k] != p->sharing[i] &&
                cfx_as_tensor(e->inputs.v[k])->storage == s)
                return false;
    }
    return true;
}

bool cfx__plan_serves(const cfx__plan *p, const cfx_execution *e) {
    if (e->inputs.n != p->ninputs || p->threads != cfx_get_num_threads() ||
        p->precision != cfx_get_precision())
        return false;
    if (p->nbecomes && (e->nbecomes != p->nbecomes ||
                        memcmp(e->becomes, p->becomes, (size_t)p->nbecomes * sizeof(int))))
        return false;
    for (size_t i = 0; i < p->weights.len; i++)
        if (!same_weight(&p->weights.data[i], e))
            return false;
    return same_sharing(p, e) && shows(p, e);
}

bool cfx__plan_fits(const cfx__plan *p, const cfx_value *inputs, const cfx_execution *e) {
    bool same = e->inputs.n == p->ninputs;
    for (int i = p->ninputs - 1; i >= 0 && same; i--) /* weights come first, sizes that vary last */
        same = cfx_is_bad(inputs[i]) || same_input(inputs[i], e->inputs.v[i]);
    return same && cfx__plan_serves(p, e);
}

static bool fits(const void *form, const cfx_execution *e) {
    const cfx__plan_form *f = form;
    return cfx__plan_fits(f->plan, f->inputs, e);
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct {
    const cfx__plan *plan;
    const cfx__plan_form *form;
    const cfx_execution *e;
    cfx__plan_room *room; /* NULL: every result has memory of its own */
    bool headers;         /* views are headers, no calls */
    cfx_value *values;    /* by slot */
    bool *have;           /* by slot: the value is counted */
    void *scratch;
} frame;

static void store(frame *f, int slot, cfx_value v) {
    cfx_value_keep(v);
    if (f->have[slot])
        cfx_value_drop(f->values[slot]);
    f->values[slot] = v;
    f->have[slot] = true;
}

static void release(frame *f, int slot) {
    if (f->have[slot])
        cfx_value_drop(f->values[slot]);
    f->have[slot] = false;
}

bool cfx__plan_lies_like(const cfx_tensor *t, const cfx_tensor *like) {
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] != 1 && t->stride[i] != like->stride[i])
            return false;
    return true;
}

/* t in the strides of another tensor of its shape; scope. */
static cfx_tensor *lying_like(cfx_tensor *t, const cfx_tensor *like) {
    if (cfx__plan_lies_like(t, like)) {
        const size_t size = (size_t)t->ndim * sizeof *t->stride;
        return !memcmp(t->stride, like->stride, size)
                   ? t
                   : cfx__tensor_alias(t, t->ndim, t->shape, like->stride, t->offset);
    }
    cfx_tensor *to = cfx__tensor_empty((cfx_site){0}, (cfx_dtype)t->dtype, false, t->ndim, t->shape,
                                       like->stride);
    if (!cfx__obj_is_bad(to))
        cfx__tensor_copy(to, t);
    return to;
}

static cfx_value reordered(cfx_value v, cfx_value wanted) {
    if (v.tag == CFX_TAG_TENSOR && wanted.tag == CFX_TAG_TENSOR &&
        cfx__tensor_same_shape(cfx_as_tensor(v), cfx_as_tensor(wanted)))
        return cfx_tensor_value(lying_like(cfx_as_tensor(v), cfx_as_tensor(wanted)));
    if ((v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE) || wanted.tag != v.tag ||
        cfx_as_list(wanted)->len != cfx_as_list(v)->len)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out),
                        reordered(cfx_as_list(v)->items[i], cfx_as_list(wanted)->items[i]));
    return out;
}

/* The values that a template reads, in the strides that the interpreter would give them. */
static void reorder(frame *f, cfx_value v) {
    if (v.tag == CFX_TAG_NODE) {
        const cfx_value now = f->values[v.spare];
        const cfx_value other = reordered(now, cfx__plan_form_wanted(f->form, (int)v.spare));
        if (other.tag == CFX_TAG_TENSOR ? cfx_as_tensor(other) != cfx_as_tensor(now)
                                        : cfx__value_object(other) != cfx__value_object(now))
            store(f, (int)v.spare, other);
    } else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            reorder(f, cfx_as_list(v)->items[i]);
    } else if (v.tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            reorder(f, cfx_as_dict(v)->entries[i].value);
    }
}

/* What was folded belongs to the plan: a caller gets a copy. A view of a weight is the weight's. */
static void own_constant(void *user, int slot) {
    frame *f = user;
    cfx_value known = cfx__plan_form_constant(f->form, slot);
    cfx_op *op = f->plan->kernels[slot].step->op;
    if (known.tag == CFX_TAG_TENSOR && op && cfx__plan_makes_own(op))
        store(f, slot, cfx_tensor_value(cfx_clone(known)));
}

static cfx_value filled(const frame *f, cfx_value v) {
    const cfx__run view = {.values = f->values};
    return cfx__run_fill(&view, v);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static cfx_value run_call(frame *f, const cfx__plan_kernel *k) {
    const cfx__run_step *s = k->step;
    const cfx__run view = {.values = f->values};
    for (int i = 0; i < s->nbound && k->reorder; i++)
        reorder(f, s->bound[i]);
    return cfx__run_step_call(&view, f->e->at, k->op, s);
}

/* The tensor in a slot, as a kernel was promised it. NULL, with an error, where somebody put
 * something else in its place. */
static cfx_tensor *operand(frame *f, int slot, const cfx_tensor *like) {
    cfx_value v = f->values[slot];
    if (v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == like->dtype &&
        cfx_as_tensor(v)->data && cfx__tensor_same_shape(cfx_as_tensor(v), like)) {
        cfx_tensor *t = lying_like(cfx_as_tensor(v), like);
        return cfx__obj_is_bad(t) ? NULL : t;
    }
    cfx_fail(CFX_RUNTIME_ERROR, f->e->at, "%s was replaced by a value of another dtype or shape",
             f->plan->kernels[slot].step->node->name);
    return NULL;
}

/* The place of a slot's result: in the room, or memory of its own. */
static cfx_tensor *place_of(frame *f, int slot) {
    if (f->room && f->form->offset[slot] >= 0)
        return cfx_as_tensor(f->room->values[slot]);
    const cfx_tensor *like = cfx__plan_form_made(f->form, slot);
    return cfx__tensor_empty(f->e->at, (cfx_dtype)like->dtype, false, like->ndim, like->shape,
                             like->stride);
}

/* Where a layer is written; what it adds to is there already. */
static cfx_tensor *result_of(frame *f, const cfx__plan_kernel *k) {
    const int slot = (int)(k - f->plan->kernels);
    cfx_tensor *to = place_of(f, slot);
    const cfx_tensor *t = k->add >= 0 ? operand(f, k->add, f->form->bound[slot]->out) : NULL;
    if (cfx__obj_is_bad(to) || (k->add >= 0 && !t))
        return NULL;
    if (t && t->data != to->data)
        cfx__tensor_copy(to, t);
    return to;
}

static cfx_value run_layer(frame *f, const cfx__plan_kernel *k) {
    const cfx__plan_bound *b = f->form->bound[k - f->plan->kernels];
    cfx_tensor *x = operand(f, k->x, b->x);
    cfx_tensor *out = x ? result_of(f, k) : NULL;
    if (!out)
        return cfx_bad();
    return b->ready->run(b->ready, x->data, out->data, f->scratch) ? cfx_tensor_value(out)
                                                                    : cfx_bad();
}

/* The tensor in a slot that is a part of a whole; NULL, with an error, where it is another than was
 * planned, which calls and sub-graphs may give. */
static const cfx_tensor *part_of(const frame *f, int slot) {
    const cfx_value v = f->values[slot];
    if (v.tag == CFX_TAG_TENSOR && (cfx_as_tensor(v)->data || !cfx_as_tensor(v)->numel) &&
        cfx__tensor_same_shape(cfx_as_tensor(v), cfx_as_tensor(f->form->given[slot])))
        return cfx_as_tensor(v);
    cfx_fail(CFX_RUNTIME_ERROR, f->e->at, "%s has another shape than was planned",
             f->plan->kernels[slot].step->node->name);
    return NULL;
}

/* A concatenation: parts that their kernels did not write there go to their places. */
static cfx_value run_join(frame *f, const cfx__plan_kernel *k) {
    const int slot = (int)(k - f->plan->kernels);
    const cfx_list *parts = cfx_as_list(k->step->bound[0]);
    if (!f->room || f->form->offset[slot] < 0)
        return reordered(run_call(f, k), f->form->given[slot]);
    cfx_tensor *whole = place_of(f, slot);
    int64_t at = 0;
    for (int64_t i = 0; i < parts->len; i++) {
        const int from = (int)parts->items[i].spare;
        const cfx_tensor *t = part_of(f, from);
        if (!t)
            return cfx_bad();
        cfx_tensor *to = cfx__tensor_alias(whole, t->ndim, t->shape, whole->stride,
                                           whole->offset + at * whole->stride[k->index]);
        if (to->data != t->data)
            cfx__tensor_copy(to, t);
        at += t->shape[k->index];
    }
    return cfx_tensor_value(whole);
}

static cfx_value run_higher(frame *f, const cfx__plan_kernel *k) {
    const cfx__run_step *s = k->step;
    if (k->reorder) {
        reorder(f, s->args);
        reorder(f, s->kwargs);
    }
    const cfx__run view = {.values = f->values};
    return cfx__run_step_higher(&view, s, f->e->watcher);
}

/* What a watcher makes of the value of a node. */
static cfx_value seen(frame *f, const cfx_node *n, cfx_value v) {
    if (cfx_is_bad(v) || !cfx__plan_wants(f->e, n))
        return v;
    cfx_value other = f->e->watcher->see(f->e->watcher, (cfx_node *)n, v);
    return cfx_is_none(other) ? v : other;
}

/* Runs a loop and stores what it gives beside the value of its own slot. */
static cfx_value run_loop(frame *f, const cfx__plan_kernel *k) {
    char *data[CFX__LOOP_LANES];
    cfx_value made[CFX__LOOP_LANES], own = cfx_none();
    const cfx__loop *loop = f->form->bound[k - f->plan->kernels]->loop;
    for (int i = 0; i < k->nreads; i++) {
        const cfx_tensor *t = operand(f, k->reads[i], loop->lanes[i].like);
        if (!t)
            return cfx_bad();
        data[i] = t->data;
    }
    for (int i = 0; i < k->nwrites; i++) {
        cfx_tensor *t = place_of(f, k->writes[i]);
        if (cfx__obj_is_bad(t))
            return cfx_bad();
        data[k->nreads + i] = t->data;
        made[i] = cfx_tensor_value(t);
    }
    cfx__loop_run(loop, data);
    for (int i = 0; i < k->nwrites; i++) {
        const cfx__plan_kernel *at = &f->plan->kernels[k->writes[i]];
        if (at == k)
            own = made[i];
        else
            store(f, k->writes[i], seen(f, at->step->node, made[i]));
    }
    return own;
}

static void run_slot(frame *f, int slot);

/* The view in a slot that was passed over, as it is read by views alone. */
static void make_between(void *user, int slot) {
    frame *f = user;
    if (f->plan->kernels[slot].between && !f->have[slot])
        run_slot(f, slot);
}

/* What the operator of a view gives. */
static cfx_value call_view(frame *f, const cfx__plan_kernel *k) {
    cfx__plan_each_read(k->step, make_between, f);
    return cfx_ok() ? run_call(f, k) : cfx_bad();
}

/* A view: the room's, a header over the root's memory, or, where that is not what was planned or
 * somebody has to hear of it, what the operator gives. */
static cfx_value run_view(frame *f, const cfx__plan_kernel *k) {
    const int slot = (int)(k - f->plan->kernels), root = cfx__plan_root(f->plan, slot);
    const cfx_value at = f->values[root];
    const cfx_tensor *from = cfx_as_tensor(f->form->given[root]);
    if (f->room && !k->between && !cfx_is_bad(f->room->values[slot]))
        return f->room->values[slot];
    if (f->headers && !k->between && at.tag == CFX_TAG_TENSOR &&
        cfx_as_tensor(at)->dtype == from->dtype &&
        cfx__tensor_same_shape(cfx_as_tensor(at), from) &&
        cfx__plan_lies_like(cfx_as_tensor(at), from))
        return k->same ? f->values[k->x]
                       : cfx__plan_view(f->form->given[slot], from, cfx_as_tensor(at));
    if (k->list < 0)
        return call_view(f, k);
    return cfx_at(f->have[k->list] ? f->values[k->list] : call_view(f, &f->plan->kernels[k->list]),
                  k->index);
}

static cfx_value run_kernel(frame *f, const cfx__plan_kernel *k) {
    const int slot = (int)(k - f->plan->kernels);
    switch (k->kind) {
    case CFX__PLAN_INPUT:
        return f->e->inputs.v[k->input];
    case CFX__PLAN_PASS:
        return f->values[k->x];
    case CFX__PLAN_ITEM:
        return cfx_at(f->values[k->x], k->index);
    case CFX__PLAN_VIEW:
        return run_view(f, k);
    case CFX__PLAN_CALL:
        return run_call(f, k);
    case CFX__PLAN_LAYER:
        return run_layer(f, k);
    case CFX__PLAN_LOOP:
        return run_loop(f, k);
    case CFX__PLAN_HIGHER:
        return run_higher(f, k);
    case CFX__PLAN_JOIN:
        return run_join(f, k);
    case CFX__PLAN_OUTPUT:
        reorder(f, k->step->args);
        cfx__plan_each_slot(k->step->args, own_constant, f);
        return filled(f, cfx_as_list(k->step->args)->items[0]);
    default:
        return f->values[slot];
    }
}

/* ---- the executor ---------------------------------------------------------------------------- */

/* Weights are there before a run begins, as all constants are, and views that only views read are
 * made where one of those is called. */
static bool is_idle(const frame *f, int slot) {
    const cfx__plan_kernel *k = &f->plan->kernels[slot];
    if (k->kind != CFX__PLAN_NONE && k->kind != CFX__PLAN_INPUT)
        return k->between && !is_watched(f->e);
    const bool known = !cfx_is_bad(f->plan->constants[slot]); /* at all sizes, if at one */
    return k->kind == CFX__PLAN_NONE ? !known || !is_watched(f->e) : known && !is_watched(f->e);
}

/* Lets go of what nothing reads after a kernel. */
static void free_behind(frame *f, const cfx__plan_kernel *k) {
    for (int i = 0; i < k->nfrees; i++)
        if (k->kind != CFX__PLAN_OUTPUT || &f->plan->kernels[k->frees[i]] != k)
            release(f, k->frees[i]);
}

static void run_slot(frame *f, int slot) {
    const cfx__plan_kernel *k = &f->plan->kernels[slot];
    size_t mark = cfx_scope_open();
    store(f, slot, seen(f, k->step->node, run_kernel(f, k)));
    cfx_scope_close(mark);
    if (cfx_ok())
        free_behind(f, k);
}

/* The node of the caller's graph that one of the plan's was made for. */
static const cfx_node *source_of(const cfx__plan *p, const cfx_node *n) {
    uint32_t origin = cfx__node_of(n)->origin;
    bool known = p->source && origin && origin <= p->source->made.len;
    return known ? &p->source->made.data[origin - 1]->pub : n;
}

static double now(void) { return (double)cfx__clock_ns() * 1e-9; }

static void time_slot(frame *f, int slot) {
    const cfx__plan_kernel *k = &f->plan->kernels[slot];
    const double start = now();
    run_slot(f, slot);
    cfx_ran r = {cfx__plan_kernel_name(f->plan, k), k->nchain ? k->nchain : 1, NULL,
                 f->have[slot] ? f->values[slot] : f->form->given[slot], now() - start};
    const cfx_node **nodes = cfx__alloc((size_t)r.nnodes * sizeof *nodes);
    nodes[0] = source_of(f->plan, k->step->node);
    for (int i = 0; i < k->nchain; i++)
        nodes[i] = source_of(f->plan, f->plan->kernels[k->chain[i]].step->node);
    r.nodes = nodes;
    if (*r.kernel && cfx_ok())
        f->e->watcher->ran(f->e->watcher, &r);
    cfx__free(nodes);
}

static cfx_value run(void *form, const cfx_execution *e) {
    const cfx__plan_form *of = form;
    const cfx__plan *p = of->plan;
    const size_t n = (size_t)p->n;
    size_t mark = cfx_scope_open();
    frame f = {.plan = p, .form = of, .e = e};
    f.values = cfx__alloc(n * (sizeof *f.values + sizeof *f.have));
    f.have = (bool *)(f.values + n);
    memcpy(f.values, p->constants, n * sizeof *f.values);
    for (int i = 0; i < of->nconstants; i++)
        f.values[of->constants[i].slot] = of->constants[i].v;
    memset(f.have, 0, n * sizeof *f.have);
    cfx__plan_room *room;
    cfx__plan_block *block = cfx__plan_room_take(of, e->at, &room);
    f.scratch = room ? room->memory->data + of->room_bytes : NULL;
    const bool limited = cfx__ctx()->memory_limit != 0; /* as a call looks at it */
    f.room = is_watched(e) ? NULL : room; /* what is seen may be kept */
    f.headers = !is_watched(e) && !limited && cfx_get_grad_mode() == CFX_INFERENCE;
    cfx_value result = cfx_none();
    cfx__parallel_plan(true);
    for (int k = 0; k < p->n && cfx_ok(); k++) {
        if (is_idle(&f, k)) {
            free_behind(&f, &p->kernels[k]);
            continue;
        }
        if (!cfx__limit_time())
            break;
        if (e->watcher && e->watcher->ran)
            time_slot(&f, k);
        else
            run_slot(&f, k);
        if (!cfx_ok())
            cfx__run_note(source_of(p, p->kernels[k].step->node));
        else if (p->kernels[k].kind == CFX__PLAN_OUTPUT)
            result = f.values[k];
    }
    cfx__parallel_plan(false);
    result = cfx_ok() ? result : cfx_bad();
    cfx_value_keep(result);
    for (int k = 0; k < p->n; k++)
        release(&f, k);
    cfx__free(f.values);
    if (block)
        cfx__plan_room_give(of, block);
    cfx_scope_close(mark);
    return cfx__value_scope_own(result);
}

/* ---- preparing ------------------------------------------------------------------------------- */

enum { TRIED = 4 }; /* plans of the graph that are asked whether they serve other sizes */

/* Plans that the graph has, the last used first; how many. The caller owns a count of each. */
static int plans_of(cfx_graph *g, cfx__plan **plans) {
    int n = 0;
    cfx__lock(&g->prepared_lock);
    for (const cfx__prepared *q = g->prepared; q && n < TRIED; q = q->next) {
        const cfx__plan_form *f = q->by->run == run && q->version == g->version ? q->form : NULL;
        bool known = !f;
        for (int i = 0; i < n && !known; i++)
            known = plans[i] == f->plan;
        if (!known)
            plans[n++] = cfx_keep(f->plan);
    }
    cfx__unlock(&g->prepared_lock);
    return n;
}

/* A plan for these inputs, which shares memory with another of the graph where there is one. */
static cfx__plan_form *lowered(const cfx_execution *e, const cfx__plan *other) {
    cfx__plan *p = cfx__plan_make(&cfx__plan_cpu, e);
    if (p && other) { /* it has not run yet, so it has no rooms */
        cfx_drop(p->blocks);
        p->blocks = cfx_keep(other->blocks);
    }
    cfx__plan_form *f = p ? cfx__plan_form_new(p, p) : NULL;
    cfx_drop(p);
    return f;
}

static void *prepare(const cfx_execution *e) {
    cfx__plan *plans[TRIED];
    cfx__plan_form *f = NULL;
    const int n = plans_of(e->graph, plans);
    for (int i = 0; i < n && !f && cfx_ok(); i++)
        f = cfx__plan_resized(plans[i], e);
    f = f || !cfx_ok() ? f : lowered(e, n ? plans[0] : NULL);
    for (int i = 0; i < n; i++)
        cfx_drop(plans[i]);
    return f;
}

const cfx_executor cfx_planner = {"planner", prepare, fits, run, cfx_drop};
