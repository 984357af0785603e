/* Alias analysis: which values share memory, and who writes to it. The planner has no other rule
 * for aliasing.
 *
 * Slots that may share memory form a class: a result with the arguments that it may alias, reads of
 * one attribute, inputs that share a storage. An in-place call is replaced by its functional form
 * if the memory was allocated inside the graph and no view of it exists yet; later steps then read
 * the new value. Every other write is performed in place, and all slots of its class become
 * `ordered`. The rest of the planner keeps this rule:
 *
 *     A step that reads or produces an ordered slot is a kernel of its own, at its own position.
 *
 * All other memory is written once, by the kernel that produces it, so it may be read at any
 * later time. A class is also ordered if a call depends on the storage of a value (strides and
 * offsets from its start), because a result inside the arena has no storage of its own. Start at
 * cfx__plan_find_memory. */
#include <cfx/ops.h>

#include "plan.h"

/* What is known of a class, at its root. */
typedef struct {
    bool outside; /* holds an input or an attribute: the caller sees what is written */
    bool viewed;  /* some slot is a view of another */
    bool written; /* also where the functional form of the call stands for it */
    bool ordered;
} class_facts;

typedef struct {
    cfx__lowering *l;
    int *parent; /* by slot: classes as a forest */
    class_facts *classes;
    int slot; /* the step that is looked at */
    const cfx__run_step *step;
    int *now; /* by object: the slot that has it as it is now */
    bool *number; /* by slot: it is a number, or several, known when sizes are */
    bool tensors; /* the step reads something else */
} memory;

/* ---- classes --------------------------------------------------------------------------------- */

static int root_of(const memory *m, int slot) {
    while (m->parent[slot] != slot)
        slot = m->parent[slot] = m->parent[m->parent[slot]];
    return slot;
}

static class_facts *class_of(const memory *m, int slot) { return &m->classes[root_of(m, slot)]; }

static void unite(memory *m, int a, int b) {
    a = root_of(m, a);
    b = root_of(m, b);
    if (a == b)
        return;
    m->parent[a] = b;
    m->classes[b].outside |= m->classes[a].outside;
    m->classes[b].written |= m->classes[a].written;
    m->classes[b].ordered |= m->classes[a].ordered;
    m->classes[b].viewed |= m->classes[a].viewed;
}

static void unite_with_step(void *user, int slot) {
    memory *m = user;
    unite(m, m->slot, slot);
}

typedef struct {
    const cfx__storage *storage;
    int slot;
} outside;

static int by_storage(const void *a, const void *b) {
    const outside *x = a, *y = b;
    const uintptr_t u = (uintptr_t)x->storage, v = (uintptr_t)y->storage;
    return u != v ? (u < v ? -1 : 1) : x->slot - y->slot;
}

static const cfx__storage *storage_of(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v)->storage : NULL;
}

/* Inputs whose tensors share a storage are one memory, and so are reads of one attribute. */
static void unite_outside(memory *m) {
    const cfx__plan *p = m->l->plan;
    outside *all = cfx__alloc((size_t)(p->n + 1) * sizeof *all);
    int n = 0;
    for (int k = 0; k < p->n; k++) {
        const cfx_node *node = p->steps->steps[k].node;
        if (node->op != CFX_PLACEHOLDER && node->op != CFX_GET_ATTR)
            continue;
        m->classes[k].outside = true;
        const cfx_value v = node->op == CFX_PLACEHOLDER
                                ? m->l->e->inputs.v[p->kernels[k].input]
                                : cfx__module_read((cfx_site){0}, m->l->e->module,
                                                   node->target.name);
        if (storage_of(v))
            all[n++] = (outside){storage_of(v), k};
    }
    qsort(all, (size_t)n, sizeof *all, by_storage);
    for (int i = 1; i < n; i++)
        if (all[i].storage == all[i - 1].storage)
            unite(m, all[i].slot, all[i - 1].slot);
    cfx__free(all);
}

/* ---- objects --------------------------------------------------------------------------------- */

static void note_tensor(void *user, int slot) {
    memory *m = user;
    m->tensors |= !m->number[slot];
}

/* Whether a step computes with sizes, as Python does: a function of Python's of numbers that are
 * known when sizes are, and so is its result. */
static bool is_of_sizes(memory *m) {
    static const char *const rooms[] = {"operator.", "_operator.", "math.", "torch.sym_"};
    const cfx__run_step *s = m->step;
    const char *name = s->node->target.name ? s->node->target.name : "";
    bool python = false;
    if (s->node->op != CFX_CALL_FUNCTION || s->op || s->item || s->node->target.object)
        return false;
    for (int i = 0; i < COUNT(rooms); i++)
        python |= !strncmp(name, rooms[i], strlen(rooms[i]));
    m->tensors = false;
    cfx__plan_each_read(s, note_tensor, m);
    return python && !m->tensors;
}

/* Whether sizes or numbers that steps are bound to come from the data of a tensor. */
static bool reads_data(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    return op->effects & CFX_DATA_SHAPE || (s->nrets == 1 && s->rets[0].type == CFX__T_SCALAR);
}

/* Whether a step gives a number, or several, known when sizes are. */
static bool gives_number(memory *m) {
    const cfx__run_step *s = m->step;
    if (s->op) {
        const cfx__schema *schema = cfx__op_info_of(s->op)->schema;
        if (schema->nrets != 1 || reads_data(s->op))
            return false;
        return schema->rets[0].type == CFX__T_INT || schema->rets[0].type == CFX__T_FLOAT ||
               schema->rets[0].type == CFX__T_BOOL;
    }
    if (s->item)
        return m->number[cfx_as_list(s->args)->items[0].spare];
    if (s->node->op == CFX_PLACEHOLDER)
        return s->input && cfx_is_number(m->l->e->inputs.v[m->l->plan->kernels[m->slot].input]);
    return is_of_sizes(m);
}

/* Whether the planner knows what a step does. */
static bool is_planned(const memory *m) {
    const cfx__run_step *s = m->step;
    switch (s->node->op) {
    case CFX_PLACEHOLDER: return s->input;
    case CFX_CALL_METHOD:
    case CFX_CALL_MODULE: return false;
    case CFX_CALL_FUNCTION:
        return s->op ? cfx__plan_passes(m->l, m->slot) || !reads_data(s->op)
                     : s->item || m->number[m->slot] || cfx__plan_is_higher(m->l, s);
    default: return true;
    }
}

/* Unites the step with what its result may lie in. */
static void find_class(memory *m) {
    const cfx__run_step *s = m->step;
    const int own = m->slot;
    if (!s->op) {
        if (s->node->op == CFX_CALL_FUNCTION && !m->number[own])
            cfx__plan_each_read(s, unite_with_step, m);
    } else {
        for (int i = 0; i < s->nbound; i++)
            if (cfx__op_shares(s->op, i))
                cfx__plan_each_slot(s->bound[i], unite_with_step, m);
    }
    const bool alone = root_of(m, own) == own && m->parent[own] == own;
    if (!alone && m->l->object[own] == own)
        class_of(m, own)->viewed = true;
}

static void order_class(void *user, int slot) { class_of(user, slot)->ordered = true; }
static void note_written(void *user, int slot) { class_of(user, slot)->written = true; }

/* The first argument of an in-place form whose functional form may stand for it: its memory was
 * made inside the graph, and nothing else looks at it. -1: it has to be written to. */
static int may_renew(const memory *m) {
    const cfx__run_step *s = m->step;
    const cfx__op_info *info = cfx__op_info_of(s->op);
    if (info->form != CFX__INPLACE || !info->nout || s->bound[0].tag != CFX_TAG_NODE)
        return -1;
    const int slot = (int)s->bound[0].spare;
    const class_facts *c = class_of(m, slot);
    return c->outside || c->viewed || c->ordered ? -1 : slot;
}

/* What a step writes to. */
static void find_writes(memory *m) {
    const cfx__run_step *s = m->step;
    if (!s->op || cfx__plan_passes(m->l, m->slot))
        return;
    const int renewed = may_renew(m);
    for (int i = 0; i < s->nbound; i++) {
        if (!cfx__op_writes(s->op, s->bound, i))
            continue;
        cfx__plan_each_slot(s->bound[i], note_written, m);
        if (i > 0 || renewed < 0)
            cfx__plan_each_slot(s->bound[i], order_class, m);
    }
    if (s->op->effects & CFX_STORAGE)
        cfx__plan_each_read(s, order_class, m);
}

/* The object of a step's result: the one that it writes to and gives, or gives as it is; else its
 * own. */
static void find_object(memory *m) {
    const cfx__run_step *s = m->step;
    int *object = m->l->object;
    object[m->slot] = m->slot;
    if (!s->op || !s->nbound || s->bound[0].tag != CFX_TAG_NODE)
        return;
    const cfx__op_info *info = cfx__op_info_of(s->op);
    if (cfx__plan_passes(m->l, m->slot) || (info->nout == 1 && info->schema->args[0].writes))
        object[m->slot] = object[s->bound[0].spare];
}

bool cfx__plan_find_memory(cfx__lowering *l) {
    const cfx__steps *steps = l->plan->steps;
    const size_t n = (size_t)steps->nsteps + 1;
    memory m = {.l = l, .parent = cfx__alloc(n * sizeof *m.parent)};
    m.classes = cfx__alloc0(n * sizeof *m.classes);
    m.now = cfx__alloc0(n * sizeof *m.now);
    m.number = cfx__alloc0(n * sizeof *m.number);
    for (size_t k = 0; k < n; k++)
        m.parent[k] = (int)k;
    unite_outside(&m);
    bool fine = cfx_ok();
    for (int k = 0; k < steps->nsteps && fine; k++) {
        m.step = &steps->steps[m.slot = k];
        cfx__plan_renew(l->object, m.now, &steps->steps[k]);
        m.number[k] = gives_number(&m);
        fine = is_planned(&m);
        find_object(&m);
        find_writes(&m);
        find_class(&m);
        m.now[l->object[k]] = k;
    }
    for (int k = 0; k < steps->nsteps; k++) {
        const cfx__plan_kernel *kernel = &l->plan->kernels[k];
        l->ordered[k] = class_of(&m, k)->ordered;
        l->written[k] = class_of(&m, k)->written;
        if (kernel->kind == CFX__PLAN_INPUT)
            l->plan->sharing[kernel->input] = l->ordered[k] ? root_of(&m, k) : -1;
    }
    cfx__free(m.parent);
    cfx__free(m.classes);
    cfx__free(m.now);
    cfx__free(m.number);
    return fine;
}
