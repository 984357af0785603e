/* Views: slots that alias another slot, their root. Lowering finds them and their shape, strides
 * and offset by running the operator's own rule on fake tensors over the root's (fake) storage. A
 * run creates tensor headers from these and calls nothing.
 *
 * The operator is still called where a value differs from the plan (a watcher replaced it, or a
 * sub-graph returned another size), and where gradients may be recorded, because the dispatcher
 * then records the view. Start at cfx__plan_find_views. */
#include "plan.h"

int cfx__plan_root(const cfx__plan *p, int slot) {
    while (p->kernels[slot].kind == CFX__PLAN_VIEW || p->kernels[slot].kind == CFX__PLAN_PASS)
        slot = p->kernels[slot].x;
    return slot;
}

/* Storages are read by strides, and wider numbers begin at every second place or fourth. */
bool cfx__plan_view_may_fail(const cfx__plan *p, int slot) {
    const cfx__run_step *s = &p->steps->steps[slot];
    const cfx_value v = p->given[slot];
    if (!s->op || s->op->effects & CFX_STORAGE || !s->nbound || s->bound[0].tag != CFX_TAG_NODE)
        return true;
    const cfx_value x = p->given[s->bound[0].spare];
    return v.tag == CFX_TAG_TENSOR && x.tag == CFX_TAG_TENSOR &&
           cfx_dtype_size((cfx_dtype)cfx_as_tensor(v)->dtype) >
               cfx_dtype_size((cfx_dtype)cfx_as_tensor(x)->dtype);
}

/* ---- finding --------------------------------------------------------------------------------- */

static void mark_slot(void *user, int slot) { ((bool *)user)[slot] = true; }

/* Slots that a kernel brings in order: from there on their value is a copy, not what their own
 * kernel left in its place. Freed by the caller. */
static bool *find_reordered(const cfx__plan *p) {
    bool *out = cfx__alloc0((size_t)(p->n + 1) * sizeof *out);
    for (int k = 0; k < p->n; k++)
        if (p->kernels[k].reorder && p->kernels[k].kind != CFX__PLAN_OUTPUT)
            cfx__plan_each_read(p->kernels[k].step, mark_slot, out);
    return out;
}

/* The only slot among the arguments that is not constant, where a result may lie in its memory;
 * -1: there is none, or several. */
static int looked_into(const cfx__plan *p, const cfx__plan_kernel *k) {
    const cfx__run_step *s = k->step;
    int x = -1;
    if (k->kind != CFX__PLAN_CALL || k->reorder || cfx__plan_makes_own(k->op) ||
        !cfx__op_is_pure(k->op, s->bound))
        return -1;
    for (int i = 0; i < s->nbound; i++) {
        if (s->nested[i] && cfx__plan_has_unknown(p, s->bound[i])) /* as where a size is a symbol */
            return -1;
        if (s->bound[i].tag != CFX_TAG_NODE || !cfx_is_bad(p->constants[s->bound[i].spare]))
            continue;
        if (x >= 0 || !cfx__op_shares(k->op, i))
            return -1;
        x = (int)s->bound[i].spare;
    }
    return x >= 0 && p->given[x].tag == CFX_TAG_TENSOR ? x : -1;
}

/* Whether all tensors of v lie in a storage and are as `given` says. */
static bool lies_in(const cfx__storage *in, cfx_value v, cfx_value given) {
    if (v.tag != given.tag)
        return false;
    if (v.tag == CFX_TAG_TENSOR) {
        const cfx_tensor *t = cfx_as_tensor(v), *like = cfx_as_tensor(given);
        return t->storage == in && t->dtype == like->dtype && cfx__tensor_same_shape(t, like) &&
               cfx__plan_lies_like(t, like);
    }
    bool inside = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    inside = inside && cfx_as_list(v)->len == cfx_as_list(given)->len;
    for (int64_t i = 0; inside && i < cfx_as_list(v)->len; i++)
        inside = lies_in(in, cfx_as_list(v)->items[i], cfx_as_list(given)->items[i]);
    return inside;
}

/* Makes kernel k a view of slot x; v: where it lies, over the storage of what x gives. */
static void put_view(cfx__plan *p, cfx__plan_kernel *k, int x, cfx_value v) {
    const int slot = (int)(k - p->kernels);
    k->kind = CFX__PLAN_VIEW;
    k->x = x;
    k->same = v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v) == cfx_as_tensor(p->given[x]);
    cfx_value_keep(v);
    cfx_value_drop(p->given[slot]);
    p->given[slot] = v;
}

/* Makes kernel k a view of slot x, where it is one. */
static void find_call(cfx__plan *p, cfx__plan_kernel *k, int x) {
    cfx_value args[CFX_MAX_ARGS];
    if (x < 0 || cfx__plan_view_may_fail(p, (int)(k - p->kernels)))
        return;
    for (int i = 0; i < k->step->nbound; i++)
        args[i] = cfx__plan_filled(p, k->step->bound[i]);
    cfx_value v = cfx__op_call_bound((cfx_site){0}, k->op, args);
    if (!cfx_ok())
        cfx__error_forgive();
    else if (lies_in(cfx_as_tensor(p->given[x])->storage, v, p->given[k - p->kernels]))
        put_view(p, k, x, v);
}

/* An item of several views is a view. */
static void find_item(cfx__plan *p, cfx__plan_kernel *k) {
    const cfx__plan_kernel *all = k->kind == CFX__PLAN_ITEM ? &p->kernels[k->x] : NULL;
    if (all && all->kind == CFX__PLAN_VIEW) {
        const cfx_value v = cfx_as_list(p->given[k->x])->items[k->index];
        k->list = k->x;
        put_view(p, k, all->x, v);
    }
}

typedef struct {
    int x;
    bool others;
} reading;

static void note_other(void *user, int slot) {
    reading *r = user;
    r->others |= slot != r->x;
}

/* Several views that are only asked for one by one need no list of them; what its call reads beside
 * their memory (tensor_split by a tensor) would be lost with it. */
static void leave_lists(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    for (int k = 0; k < p->n; k++) {
        bool unread = p->kernels[k].kind == CFX__PLAN_VIEW && p->given[k].tag != CFX_TAG_TENSOR &&
                      !cfx__plan_wants(l->e, p->kernels[k].step->node);
        reading by = {p->kernels[k].x, false};
        if (unread)
            cfx__plan_each_read(p->kernels[k].step, note_other, &by);
        unread = unread && !by.others;
        for (int r = l->first[k]; unread && r < l->first[k + 1]; r++)
            unread = p->kernels[l->readers[r]].kind == CFX__PLAN_VIEW;
        if (unread)
            p->kernels[k].kind = CFX__PLAN_NONE;
    }
}

bool cfx__plan_find_views(cfx__lowering *l) {
    bool *reordered = find_reordered(l->plan);
    for (int k = 0; k < l->plan->n && cfx_ok(); k++) {
        size_t mark = cfx_scope_open();
        const int x = looked_into(l->plan, &l->plan->kernels[k]);
        if (x >= 0 && !reordered[x])
            find_call(l->plan, &l->plan->kernels[k], x);
        find_item(l->plan, &l->plan->kernels[k]);
        cfx_scope_close(mark);
    }
    cfx__free(reordered);
    leave_lists(l);
    return cfx_ok();
}

/* Several views that are only asked for one by one have no kernel any more; they were found again
 * before their items are. */
bool cfx__plan_view_again(cfx__plan *p, const cfx__plan_kernel *was, int slot) {
    cfx__plan_kernel *k = &p->kernels[slot];
    if (was->x < 0)
        return false;
    const cfx_value v = p->given[slot], root = p->given[was->x];
    const int list = was->list;
    k->kind = CFX__PLAN_CALL;
    k->x = -1;
    if (list >= 0)
        put_view(p, k, p->kernels[list].x, cfx_as_list(p->given[list])->items[was->index]);
    else if (root.tag == CFX_TAG_TENSOR && lies_in(cfx_as_tensor(root)->storage, v, v))
        put_view(p, k, was->x, v); /* its shape rule was given the root itself */
    else
        find_call(p, k, looked_into(p, k));
    const bool found = k->kind == CFX__PLAN_VIEW && k->x == was->x && k->same == was->same;
    k->kind = was->kind;
    return found;
}

/* ---- headers --------------------------------------------------------------------------------- */

cfx_value cfx__plan_view(cfx_value v, const cfx_tensor *from, cfx_tensor *now) {
    if (v.tag == CFX_TAG_TENSOR) {
        const cfx_tensor *like = cfx_as_tensor(v);
        const int64_t size = cfx_dtype_size((cfx_dtype)like->dtype);
        const int64_t old = cfx_dtype_size((cfx_dtype)from->dtype);
        const int64_t by = like->offset * size - from->offset * old; /* bytes */
        cfx_tensor *t = cfx__tensor_alias(now, like->ndim, like->shape, like->stride, now->offset);
        t->dtype = like->dtype;
        t->offset = (now->offset * old + by) / size;
        t->data = now->data ? now->data + (like->numel ? by : 0) : NULL;
        return cfx_tensor_value(t);
    }
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx__plan_view(cfx_as_list(v)->items[i], from, now));
    return out;
}
