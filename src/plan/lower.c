/* Lowering: a graph becomes kernels. It is run once on fake inputs, which gives the sizes of
 * everything and the values of what is constant; then each node finds its kernel. Start at
 * cfx__plan_make. */
#include <cfx/ops.h>
#include <cfx/optim.h>

#include "../rewrite/rewrite.h"
#include "plan.h"

/* ---- values ---------------------------------------------------------------------------------- */

static bool same_strides(cfx_value a, cfx_value b, bool all) {
    if (a.tag != b.tag)
        return false;
    if (a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE) {
        bool same = cfx_as_list(a)->len == cfx_as_list(b)->len;
        for (int64_t i = 0; same && i < cfx_as_list(a)->len; i++)
            same = same_strides(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i], all);
        return same;
    }
    if (a.tag != CFX_TAG_TENSOR)
        return true;
    bool same = true;
    for (int i = 0; i < cfx_as_tensor(a)->ndim; i++)
        same &= (!all && cfx_as_tensor(a)->shape[i] == 1) ||
                cfx_as_tensor(a)->stride[i] == cfx_as_tensor(b)->stride[i];
    return same;
}

static bool same_results(cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return false;
    if (a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE) {
        bool same = cfx_as_list(a)->len == cfx_as_list(b)->len;
        for (int64_t i = 0; same && i < cfx_as_list(a)->len; i++)
            same = same_results(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]);
        return same;
    }
    return a.tag != CFX_TAG_TENSOR || (cfx_as_tensor(a)->dtype == cfx_as_tensor(b)->dtype &&
                                       cfx__tensor_same_shape(cfx_as_tensor(a), cfx_as_tensor(b)));
}

/* ---- the run on fake inputs ------------------------------------------------------------------ */

static cfx_value take_value(cfx_watcher *w, cfx_node *n, cfx_value v) {
    cfx__plan *p = w->user;
    int slot = cfx__steps_slot(p->steps, n);
    if (slot >= 0) { /* noted now: calls in place may give the tensor another shape later */
        p->wanted[slot] = cfx_value_keep(cfx__tensor_faked_in(v));
        p->constants[slot] = cfx_value_keep(v);
    }
    return cfx_none();
}

/* Fills wanted, given and constants. False, with an error, where the run fails. */
static bool run_fake(cfx__lowering *l, const bool *varies) {
    cfx__plan *p = l->plan;
    cfx_value *in = cfx__alloc((size_t)p->ninputs * sizeof *in);
    for (int k = 0, i = 0; k < p->n && i < p->ninputs; k++)
        if (p->kernels[k].kind == CFX__PLAN_INPUT) {
            const cfx_value given = l->e->inputs.v[i];
            in[i] = varies[k] || l->put_off[k] ? cfx__tensor_faked_in(given) : given;
            bool weight = !varies[k] && in[i].tag == CFX_TAG_TENSOR;
            p->inputs[i] = weight ? cfx_bad() : cfx_value_keep(in[i]);
            i++;
        }
    cfx_watcher w = {.see = take_value, .user = p};
    cfx_execution e = *l->e;
    e.inputs = (cfx_args){p->ninputs, in, NULL};
    e.constant = NULL;
    e.watcher = &w;
    cfx__generator *before = cfx__generator_saved(); /* tensors that do not vary are no fakes */
    cfx_value out = cfx_execute(&cfx_interpreter, &e);
    cfx__generator_restore(before);
    cfx__free(in);
    for (int k = 0; k < p->n && !cfx_is_bad(out); k++) {
        const cfx_value v = p->constants[k];
        const bool stored = l->put_off[k] && p->kernels[k].kind == CFX__PLAN_INPUT;
        p->given[k] = cfx_value_keep(p->wanted[k]);
        if (!varies[k] && !l->put_off[k])
            continue;
        p->constants[k] =
            stored ? cfx_value_keep(l->e->inputs.v[p->kernels[k].input]) : cfx_bad();
        cfx_value_drop(v);
    }
    return !cfx_is_bad(out);
}

/* Values that are no tensors follow from sizes alone, which a plan is made for. */
static bool is_known(cfx_value v) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            if (!is_known(cfx_as_list(v)->items[i]))
                return false;
        return true;
    }
    return cfx_is_number(v) || v.tag == CFX_TAG_STR || v.tag == CFX_TAG_DTYPE;
}

/* False where the weight may be written to unseen. */
static bool note_weight(cfx__lowering *l, int slot, int input) {
    cfx_value v = l->plan->constants[slot];
    if (v.tag != CFX_TAG_TENSOR)
        return true;
    if (!cfx_as_tensor(v)->storage || cfx_as_tensor(v)->storage->foreign)
        return false;
    cfx__plan_weight w = {.input = input,
                          .node = l->plan->steps->steps[slot].node,
                          .tensor = cfx_keep(cfx_as_tensor(v)),
                          .version = cfx_as_tensor(v)->storage->version};
    VEC_PUSH(l->plan->weights, w);
    return true;
}

/* ---- kernels --------------------------------------------------------------------------------- */

typedef struct {
    cfx__plan *plan;
    bool all;   /* strides of dimensions of size 1 count */
    bool other; /* some slot is given in other strides than wanted */
} layout;

static void note_layout(void *user, int slot) {
    layout *a = user;
    a->other |= !same_strides(a->plan->given[slot], a->plan->wanted[slot], a->all);
}

static void reset_layout(void *user, int slot) {
    cfx__plan *p = user;
    cfx_value_drop(p->given[slot]);
    p->given[slot] = cfx_value_keep(p->wanted[slot]);
}

cfx_value cfx__plan_filled(const cfx__plan *p, cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        return cfx_is_bad(p->constants[v.spare]) ? p->given[v.spare] : p->constants[v.spare];
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx__plan_filled(p, cfx_as_list(v)->items[i]));
    return out;
}

bool cfx__plan_takes(const cfx__run_step *s, int i, cfx_value v) {
    return cfx__bind_takes(&cfx__op_info_of(s->op)->schema->args[i], v, cfx__op_mode(s->op));
}

/* Strides are part of what these compute: random numbers are drawn in the order of memory. */
static bool sees_strides(const cfx_op *op) {
    return op->effects & (CFX_STORAGE | CFX_RANDOM) || op == &cfx_op_view ||
           op == &cfx_op_view_dtype || op == &cfx_op_view_copy_dtype ||
           op == &cfx_op_view_as_complex || op == &cfx_op_is_contiguous ||
           op == &cfx_op_is_contiguous_memory_format;
}

/* The result of a call whose arguments lie in other strides; bad, without an error, where the
 * operator does not take them so. */
static cfx_value called(const cfx__plan *p, const cfx__run_step *s, cfx_op *op) {
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < s->nbound; i++)
        args[i] = cfx__plan_filled(p, s->bound[i]);
    cfx_value v = cfx__op_call_bound((cfx_site){0}, op, args);
    if (cfx_ok())
        return cfx__tensor_faked_in(v);
    cfx__error_forgive();
    return cfx_bad();
}

static bool lower_call(cfx__lowering *l, int k) {
    cfx__plan *p = l->plan;
    cfx__plan_kernel *kernel = &p->kernels[k];
    const cfx__run_step *s = kernel->step;
    kernel->kind = CFX__PLAN_CALL;
    kernel->op = cfx__plan_op_called(l, s);
    layout a = {p, l->ordered[k] || sees_strides(kernel->op), false};
    cfx__plan_each_read(s, note_layout, &a);
    if (!a.other && kernel->op == s->op)
        return true;
    if (l->ordered[k]) { /* the memory itself is written to: only others are brought in order */
        kernel->reorder = true;
        cfx__plan_each_read(s, reset_layout, p);
        return true;
    }
    size_t mark = cfx_scope_open();
    cfx_value v = a.other && sees_strides(kernel->op) ? cfx_bad() : called(p, s, kernel->op);
    bool fine = !cfx_is_bad(v) && same_results(v, p->wanted[k]);
    if (!fine && a.other && kernel->op == s->op) {
        kernel->reorder = true;
        cfx__plan_each_read(s, reset_layout, p);
        v = p->wanted[k];
        fine = true;
    }
    if (fine) {
        cfx_value_keep(v);
        cfx_value_drop(p->given[k]);
        p->given[k] = v;
    }
    cfx_scope_close(mark);
    return fine;
}

/* Sub-graphs may look at strides: they see those that the interpreter gives. */
static bool lower_higher(cfx__lowering *l, int k) {
    cfx__plan_kernel *kernel = &l->plan->kernels[k];
    layout a = {l->plan, true, false};
    kernel->kind = CFX__PLAN_HIGHER;
    cfx__plan_each_read(kernel->step, note_layout, &a);
    kernel->reorder = a.other;
    if (a.other)
        cfx__plan_each_read(kernel->step, reset_layout, l->plan);
    return true;
}

/* Kernels that give bytes are found with their islands. */
static bool gives_floats(const cfx__plan *p, int k) {
    const cfx_value v = p->wanted[k];
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == CFX_F32;
}

static bool lower_step(cfx__lowering *l, int k) {
    cfx__plan *p = l->plan;
    cfx__plan_kernel *kernel = &p->kernels[k];
    const cfx__run_step *s = kernel->step;
    if (s->node->op == CFX_OUTPUT) { /* of constants too */
        kernel->kind = CFX__PLAN_OUTPUT;
        kernel->reorder = true;
        return true;
    }
    if (l->taken[k] || l->passed[k] || !cfx_is_bad(p->constants[k]) ||
        kernel->kind == CFX__PLAN_INPUT)
        return true;
    if (s->item || cfx__plan_passes(l, k) || cfx__plan_is_same(l, k)) {
        kernel->kind = s->item ? CFX__PLAN_ITEM : CFX__PLAN_PASS;
        kernel->x = (int)(s->item ? cfx_as_list(s->args)->items[0] : s->bound[0]).spare;
        kernel->index = s->item ? cfx_integer(cfx_as_list(s->args)->items[1]) : 0;
        cfx_value from = p->given[kernel->x];
        bool sequence = from.tag == CFX_TAG_LIST || from.tag == CFX_TAG_TUPLE;
        if (s->item && (!sequence || kernel->index < 0 || kernel->index >= cfx_as_list(from)->len))
            return false;
        cfx_value_drop(p->given[k]);
        p->given[k] = cfx_value_keep(s->item ? cfx_as_list(from)->items[kernel->index] : from);
        return true;
    }
    if (!s->op)
        return cfx__plan_is_higher(l, s) && lower_higher(l, k);
    if (l->joins[k]) {
        kernel->kind = CFX__PLAN_JOIN;
        kernel->op = s->op;
        return true;
    }
    if (cfx__plan_is_ordered(l, k))
        return lower_call(l, k) && cfx_ok();
    size_t mark = cfx_scope_open();
    bool fused = gives_floats(p, k) && cfx__plan_fuse(l, k) >= 0;
    cfx_scope_close(mark);
    if (fused || !cfx_ok() || !lower_call(l, k))
        return cfx_ok() && fused;
    mark = cfx_scope_open();
    if (!kernel->reorder && cfx__plan_group_step(l, k, kernel->op))
        kernel->kind = CFX__PLAN_NONE;
    cfx_scope_close(mark);
    return cfx_ok();
}

void cfx__plan_call(cfx__lowering *l, int k) { l->plan->kernels[k].kind = CFX__PLAN_CALL; }

/* ---- lifetimes ------------------------------------------------------------------------------- */

typedef struct {
    int *last, now;
} lifetime;

static void note_last(void *user, int slot) {
    lifetime *t = user;
    if (t->last[slot] < t->now)
        t->last[slot] = t->now;
}

void cfx__plan_each_kernel_read(const cfx__plan_kernel *k, cfx__plan_slot_fn *fn, void *user) {
    switch (k->kind) {
    case CFX__PLAN_CALL:
    case CFX__PLAN_HIGHER:
    case CFX__PLAN_JOIN:
    case CFX__PLAN_OUTPUT:
        cfx__plan_each_read(k->step, fn, user);
        break;
    case CFX__PLAN_LAYER:
        if (k->add >= 0)
            fn(user, k->add);
        fn(user, k->x);
        break;
    case CFX__PLAN_LOOP:
        for (int i = 0; i < k->nreads; i++)
            fn(user, k->reads[i]);
        for (int i = 0; i < k->nwrites; i++)
            fn(user, k->writes[i]);
        break;
    case CFX__PLAN_VIEW:
        if (k->list >= 0)
            fn(user, k->list);
        fn(user, k->x);
        break;
    case CFX__PLAN_PASS:
    case CFX__PLAN_ITEM:
        fn(user, k->x);
        break;
    default:
        break;
    }
}

static void note_read(void *user, int slot) { ((bool *)user)[slot] = true; }

bool *cfx__plan_kernel_reads(const cfx__lowering *l) {
    bool *read = cfx__alloc0((size_t)(l->plan->n + 1) * sizeof *read);
    for (int k = 0; k < l->plan->n; k++)
        cfx__plan_each_kernel_read(&l->plan->kernels[k], note_read, read);
    return read;
}

bool cfx__plan_is_read(const cfx__lowering *l, const bool *by_kernels, int slot) {
    bool read = by_kernels[slot];
    for (int r = l->first[slot]; r < l->first[slot + 1]; r++)
        read |= !l->taken[l->readers[r]];
    return read;
}

static void *room_for(cfx__plan *p, int n) {
    return cfx__arena_alloc(&p->arena, (size_t)n * sizeof(int));
}

/* Gives up what was computed of weights alone and is only in kernels now, in another form. */
static void drop_folded(cfx__lowering *l, int slot) {
    cfx__plan *p = l->plan;
    if (p->constants[slot].tag != CFX_TAG_TENSOR || !p->kernels[slot].step->op ||
        p->kernels[slot].kind != CFX__PLAN_NONE || l->passed[slot] ||
        cfx__plan_wants(l->e, p->kernels[slot].step->node))
        return;
    cfx_value_drop(p->constants[slot]);
    p->constants[slot] = cfx_bad();
}

/* A slot is freed by the kernel that reads it last, or by its own. */
static void find_lifetimes(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    lifetime t = {.last = cfx__alloc((size_t)p->n * sizeof *t.last)};
    for (int k = 0; k < p->n; k++)
        t.last[k] = k;
    for (t.now = 0; t.now < p->n; t.now++)
        cfx__plan_each_kernel_read(&p->kernels[t.now], note_last, &t);
    for (int k = p->n - 1; k >= 0; k--) { /* a root is there as long as its views are */
        const int root = cfx__plan_root(p, k);
        t.last[root] = t.last[k] > t.last[root] ? t.last[k] : t.last[root];
    }
    for (int k = 0; k < p->n; k++) {
        p->kernels[t.last[k]].nfrees++;
        if (t.last[k] == k)
            drop_folded(l, k);
    }
    for (int k = 0; k < p->n; k++) {
        cfx__plan_kernel *kernel = &p->kernels[k];
        kernel->frees = room_for(p, kernel->nfrees);
        kernel->nfrees = 0;
    }
    for (int k = 0; k < p->n; k++) {
        cfx__plan_kernel *by = &p->kernels[t.last[k]];
        by->frees[by->nfrees++] = k;
    }
    cfx__free(t.last);
}

/* The rule of memory.c: what reads or gives an ordered slot is a kernel of its own, at its own
 * place. Asked in debug builds. */
static void assert_order(const cfx__lowering *l) {
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__)
    for (int k = 0; k < l->plan->n; k++) {
        const cfx__plan_kernel *kernel = &l->plan->kernels[k];
        bool fused = kernel->kind == CFX__PLAN_LAYER || kernel->kind == CFX__PLAN_LOOP ||
                     kernel->kind == CFX__PLAN_JOIN;
        for (int i = 0; fused && i < (kernel->nchain ? kernel->nchain : 1); i++)
            if (cfx__plan_is_ordered(l, kernel->nchain ? kernel->chain[i] : k))
                cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the plan moves %s, which is ordered",
                         kernel->step->node->name);
    }
#else
    (void)l;
#endif
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void drop_values(cfx_value *v, int n) {
    for (int i = 0; v && i < n; i++)
        cfx_value_drop(v[i]);
    cfx__free(v);
}

static void plan_free(void *obj) {
    cfx__plan *p = obj;
    for (int k = 0; k < p->n; k++) {
        cfx_drop(p->kernels[k].layer);
        cfx_drop(p->kernels[k].ready);
        cfx_drop(p->kernels[k].loop);
        for (int i = 0; i < p->kernels[k].nreads; i++)
            cfx_drop(p->kernels[k].read_like[i]);
    }
    drop_values(p->constants, p->n);
    drop_values(p->wanted, p->n);
    drop_values(p->given, p->n);
    drop_values(p->inputs, p->ninputs);
    for (size_t i = 0; i < p->weights.len; i++)
        cfx_drop(p->weights.data[i].tensor);
    VEC_FREE(p->weights);
    cfx_drop(p->lowered);
    cfx_drop(p->rooms);
    cfx_drop(p->steps);
    cfx__arena_release(&p->arena);
}

static const cfx__obj_type plan_type = {.name = "plan", .free = plan_free};

static cfx__plan *plan_new(cfx__steps *steps) {
    cfx__plan *p = cfx__obj_make(&plan_type, sizeof *p);
    p->steps = steps;
    p->n = steps->nsteps;
    p->ninputs = steps->nplaceholders;
    p->threads = cfx_get_num_threads();
    p->precision = cfx_get_precision();
    p->kernels = cfx__arena_alloc(&p->arena, (size_t)p->n * sizeof *p->kernels);
    p->offset = cfx__arena_alloc(&p->arena, (size_t)p->n * sizeof *p->offset);
    p->home = cfx__arena_alloc(&p->arena, (size_t)p->n * sizeof *p->home);
    p->home_at = cfx__arena_alloc(&p->arena, (size_t)p->n * sizeof *p->home_at);
    p->sharing = cfx__arena_alloc(&p->arena, (size_t)p->ninputs * sizeof *p->sharing);
    p->constants = cfx__alloc0((size_t)p->n * sizeof *p->constants);
    p->wanted = cfx__alloc0((size_t)p->n * sizeof *p->wanted);
    p->given = cfx__alloc0((size_t)p->n * sizeof *p->given);
    p->inputs = cfx__alloc0((size_t)p->ninputs * sizeof *p->inputs);
    int input = 0;
    for (int k = 0; k < p->n; k++) {
        p->kernels[k] = (cfx__plan_kernel){
            .step = &steps->steps[k], .first = -1, .x = -1, .add = -1, .list = -1};
        p->constants[k] = cfx_bad();
        if (steps->steps[k].node->op == CFX_PLACEHOLDER) {
            p->kernels[k].kind = CFX__PLAN_INPUT;
            p->kernels[k].input = input++;
        }
    }
    return p;
}

static bool lower(cfx__lowering *l, bool *varies) {
    cfx__plan *p = l->plan;
    if (l->e->inputs.n != p->ninputs)
        return false;
    cfx__plan_update_in_place(l);
    if (!cfx_ok() || !cfx__plan_find_memory(l) || !cfx__plan_find_variation(l, varies))
        return false;
    cfx__plan_put_off(l, varies);
    if (!run_fake(l, varies))
        return false;
    for (int k = 0; k < p->n; k++) {
        const cfx_opcode op = p->steps->steps[k].node->op;
        bool weight = op == CFX_GET_ATTR || (op == CFX_PLACEHOLDER && !varies[k]);
        if (weight && !note_weight(l, k, op == CFX_GET_ATTR ? -1 : p->kernels[k].input))
            return false;
        if (cfx_is_bad(p->constants[k]) && op == CFX_CALL_FUNCTION && is_known(p->wanted[k]))
            p->constants[k] = cfx_value_keep(p->wanted[k]);
    }
    cfx__plan_pass_by(l);
    cfx__plan_share_heads(l);
    cfx__plan_find_readers(l);
    cfx__plan_find_spelled(l);
    cfx__plan_leave_unread(l);
    cfx__plan_find_homes(l);
    cfx__plan_find_islands(l);
    cfx__plan_find_narrow(l);
    int ready = 0;
    for (int k = 0; k < p->n; k++)
        if (!lower_step(l, k))
            return false;
    cfx__plan_make_loops(l);
    cfx__plan_find_views(l);
    if (!cfx__plan_bind(l))
        return false;
    for (int k = 0; k < p->n; k++)
        ready += p->kernels[k].kind == CFX__PLAN_LAYER || p->kernels[k].nchain > 1;
    find_lifetimes(l);
    assert_order(l);
    return cfx__plan_place(l) && ready > 0; /* else the interpreter does as well */
}

static void lowering_free(cfx__lowering *l) {
    for (size_t i = 0; i < l->groups.len; i++)
        VEC_FREE(l->groups.data[i].members);
    VEC_FREE(l->groups);
    cfx__free(l->first);
    cfx__free(l->readers);
    cfx__free(l->object);
    cfx__free(l->group);
    cfx__free(l->members);
    cfx__free(l->taken);
}

static cfx__plan *make(const cfx_execution *e) {
    size_t mark = cfx_scope_open();
    cfx__steps *steps = cfx__steps_make(e->graph);
    cfx__plan *p = steps ? plan_new(steps) : NULL;
    bool fine = false;
    if (p) {
        size_t n = (size_t)p->n + 1;
        bool *flags = cfx__alloc0(7 * n * sizeof *flags);
        cfx__lowering l = {.plan = p,
                           .e = e,
                           .taken = flags,
                           .passed = flags + n,
                           .ordered = flags + 2 * n,
                           .joins = flags + 3 * n,
                           .put_off = flags + 4 * n,
                           .written = flags + 6 * n,
                           .object = cfx__alloc0(n * sizeof *l.object),
                           .group = cfx__alloc(n * sizeof *l.group),
                           .members = cfx__alloc0(n * sizeof *l.members)};
        for (size_t k = 0; k < n; k++)
            l.group[k] = -1;
        fine = lower(&l, flags + 5 * n);
        lowering_free(&l);
    }
    cfx_scope_close(mark);
    if (fine)
        return p;
    cfx_drop(p);
    return NULL;
}

/* A plan of what foreign operators are made of for such inputs. Who looks at values wants those of
 * the nodes there are. */
static cfx__plan *make_foreign(const cfx_execution *e) {
    if (e->watcher && e->watcher->see)
        return NULL;
    size_t mark = cfx_scope_open();
    cfx_module *lowered = cfx__lower_execution(e);
    cfx__plan *p = NULL;
    if (lowered) {
        cfx_execution inside = *e;
        inside.module = lowered;
        inside.graph = lowered->graph;
        p = make(&inside);
    }
    if (p) {
        p->lowered = cfx_keep(lowered);
        p->source = e->graph;
    }
    cfx_scope_close(mark);
    return p;
}

cfx__plan *cfx__plan_make(const cfx_execution *e) {
    return cfx__is_foreign(e->module) ? make_foreign(e) : make(e);
}
