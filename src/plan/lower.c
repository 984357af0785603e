/* Lowering: turns a graph into kernels. The graph runs once on fake inputs, which gives all
 * sizes and folds constants; then each node gets its kernel. passes.c lists the passes. */
#include <cfx/ops.h>
#include <cfx/optim.h>

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
bool cfx__plan_run_fake(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    const bool *varies = l->varies;
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
    cfx_value out = cfx_executor_run(&cfx_interpreter, &e);
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

bool cfx__plan_find_weights(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    for (int k = 0; k < p->n; k++) {
        const cfx_opcode op = p->steps->steps[k].node->op;
        bool weight = op == CFX_GET_ATTR || (op == CFX_PLACEHOLDER && !l->varies[k]);
        if (weight && !note_weight(l, k, op == CFX_GET_ATTR ? -1 : p->kernels[k].input))
            return false;
        if (cfx_is_bad(p->constants[k]) && op == CFX_CALL_FUNCTION && is_known(p->wanted[k]))
            p->constants[k] = cfx_value_keep(p->wanted[k]);
    }
    return true;
}

/* ---- kernels --------------------------------------------------------------------------------- */

typedef struct {
    cfx__plan *plan;
    bool all;     /* strides of dimensions of size 1 count */
    bool other;   /* some slot is given in other strides than wanted */
    bool differs; /* the same, where all strides count */
} layout;

static void note_layout(void *user, int slot) {
    layout *a = user;
    const cfx_value given = a->plan->given[slot], wanted = a->plan->wanted[slot];
    if (cfx__value_object(given) == cfx__value_object(wanted) || same_strides(given, wanted, true))
        return;
    a->differs = true;
    a->other |= a->all || !same_strides(given, wanted, false);
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
    return op->effects & (CFX_STORAGE | CFX_LAYOUT | CFX_RANDOM);
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

/* Whether strides of dimensions of one element, which lie alike in memory, make another order of
 * the result: images of one element a plane, which are upsampled. */
static bool is_led_astray(const cfx__plan *p, int k) {
    const cfx__plan_kernel *kernel = &p->kernels[k];
    size_t mark = cfx_scope_open();
    bool astray = !same_strides(called(p, kernel->step, kernel->op), p->wanted[k], false);
    cfx_scope_close(mark);
    return astray;
}

bool cfx__plan_lower_call(cfx__lowering *l, int k) {
    cfx__plan *p = l->plan;
    cfx__plan_kernel *kernel = &p->kernels[k];
    const cfx__run_step *s = kernel->step;
    kernel->kind = CFX__PLAN_CALL;
    kernel->op = cfx__plan_op_called(l, s);
    layout a = {.plan = p, .all = l->ordered[k] || sees_strides(kernel->op)};
    cfx__plan_each_read(s, note_layout, &a);
    if (!a.other && kernel->op == s->op && !(a.differs && is_led_astray(p, k)))
        return true;
    if (!a.other && kernel->op == s->op) { /* which moves nothing */
        kernel->reorder = true;
        cfx__plan_each_read(s, reset_layout, p);
        return true;
    }
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
    layout a = {.plan = l->plan, .all = true};
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
        return cfx__plan_lower_call(l, k) && cfx_ok();
    size_t mark = cfx_scope_open();
    bool fused = gives_floats(p, k) && cfx__plan_fuse(l, k) >= 0;
    cfx_scope_close(mark);
    if (fused || !cfx_ok() || !cfx__plan_lower_call(l, k))
        return cfx_ok() && fused;
    mark = cfx_scope_open();
    if (!kernel->reorder && cfx__plan_group_step(l, k, kernel->op))
        kernel->kind = CFX__PLAN_NONE;
    cfx_scope_close(mark);
    return cfx_ok();
}

bool cfx__plan_lower_steps(cfx__lowering *l) {
    for (int k = 0; k < l->plan->n; k++)
        if (!lower_step(l, k))
            return false;
    return true;
}

void cfx__plan_call(cfx__lowering *l, int k) { l->plan->kernels[k].kind = CFX__PLAN_CALL; }
