/* Liveness: the readers of each slot of a lowered plan, the kernel after which it is freed, and
 * whether anything reads it at all. */
#include "plan.h"

typedef struct {
    int *last, now;
} lifetime; /* last: by slot, the kernel behind which it is freed */

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
    case CFX__PLAN_VIEW: /* its operator is called where x is not what was planned */
        if (k->list >= 0)
            fn(user, k->list);
        else
            cfx__plan_each_read(k->step, fn, user);
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

typedef struct {
    cfx__plan *plan;
    const cfx__plan_kernel *by; /* what reads */
} reader;

/* A view is made from its root, and from what it reads only where that is the same tensor. */
static void note_between(void *user, int slot) {
    const reader *r = user;
    if (r->by->kind != CFX__PLAN_VIEW || r->by->same)
        r->plan->kernels[slot].between = false;
}

/* Whether a call gives a tensor other sizes in place (squeeze_): a view made later is another. */
static bool changes_sizes(const cfx__plan *p) {
    for (int k = 0; k < p->n; k++) {
        const cfx__run_step *step = p->kernels[k].step;
        cfx_op *op = step ? step->node->target.op : NULL;
        const cfx_op *plain = op ? cfx__op_info_of(op)->functional : NULL;
        if (plain && plain->view && cfx__op_info_of(op)->writes)
            return true;
    }
    return false;
}

/* Finds views that are there for other views alone: a run makes no header of them. */
static void find_between(const cfx__lowering *l) {
    cfx__plan *p = l->plan;
    const bool fixed = !changes_sizes(p);
    for (int k = 0; k < p->n; k++)
        p->kernels[k].between = fixed && p->kernels[k].kind == CFX__PLAN_VIEW &&
                                !cfx__plan_wants(l->e, p->kernels[k].step->node);
    for (int k = 0; k < p->n; k++) {
        reader r = {p, &p->kernels[k]};
        cfx__plan_each_kernel_read(r.by, note_between, &r);
    }
}

/* A slot is freed by the kernel that reads it last, or by its own. */
bool cfx__plan_find_lifetimes(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    lifetime t = {.last = cfx__alloc((size_t)p->n * sizeof *t.last)};
    for (int k = 0; k < p->n; k++)
        t.last[k] = k;
    find_between(l);
    for (int k = 0; k < p->n; k++) {
        t.now = k;
        cfx__plan_each_kernel_read(&p->kernels[k], note_last, &t);
    }
    for (int k = p->n - 1; k >= 0; k--) { /* a root is there as long as its views are, and what a */
        t.now = t.last[k];                /* view reads as long as that may still be made */
        note_last(&t, cfx__plan_root(p, k));
        if (p->kernels[k].between)
            cfx__plan_each_kernel_read(&p->kernels[k], note_last, &t);
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
    assert_order(l);
    return cfx_ok();
}
