/* The size-independent facts that resize.c needs for each new shape, computed once by the thread
 * that prepares the graph. Start at cfx__plan_again_of. */
#include <cfx/ops.h>

#include "form.h"

void cfx__plan_again_free(struct cfx__plan_again *a) {
    if (a)
        cfx__free(a->lives);
    cfx__free(a);
}

typedef struct {
    struct cfx__plan_again *of;
    int n, slot;
} reading;

static void count_read(void *user, int slot) {
    (void)slot;
    ((reading *)user)->n++;
}

static void put_read(void *user, int slot) {
    reading *r = user;
    r->of->reads[r->n++] = slot;
}

static void mark(void *user, int slot) { ((bool *)user)[slot] = true; }

/* Whether a kernel depends on more than what it reads: memory that is written to or looked at
 * behind its tensors, sub-graphs. */
static bool is_fixed(const cfx__plan_kernel *k) {
    return k->kind == CFX__PLAN_HIGHER ||
           (k->op && (k->kind == CFX__PLAN_CALL || k->kind == CFX__PLAN_VIEW) &&
            (cfx__op_call_writes(k->op, k->step->bound) || k->op->effects & CFX_STORAGE));
}

static bool is_never(const cfx__plan *p) {
    bool never = p->lowered != NULL;
    for (int k = 0; k < p->n && !never; k++)
        never = is_fixed(&p->kernels[k]);
    for (int i = 0; i < p->ninputs && !never; i++)
        never = p->sharing[i] >= 0;
    return never;
}

static struct cfx__plan_again *again_new(const cfx__plan *p) {
    const size_t n = (size_t)p->n;
    reading r = {0};
    for (int k = 0; k < p->n; k++)
        cfx__plan_each_read(&p->steps->steps[k], count_read, &r);
    struct cfx__plan_again *a =
        cfx__alloc0(sizeof *a + (n + 1 + (size_t)r.n) * sizeof(int) + 5 * n * sizeof(bool));
    a->first = (int *)(a + 1);
    a->reads = a->first + n + 1;
    a->live = (bool *)(a->reads + r.n);
    a->member = a->live + n;
    a->wanted = a->member + n;
    a->given = a->wanted + n;
    a->never = is_never(p);
    r = (reading){.of = a};
    for (int k = 0; k < p->n; k++) {
        a->first[k] = r.n;
        cfx__plan_each_read(&p->steps->steps[k], put_read, &r);
    }
    a->first[n] = r.n;
    return a;
}

/* Which values a run looks at: what is brought in order, and where results and views lie. */
static void find_looked_at(const cfx__plan *p, struct cfx__plan_again *a) {
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        if (kernel->reorder)
            cfx__plan_each_read(kernel->step, mark, a->wanted);
        for (int i = 0; i < kernel->nwrites; i++)
            a->given[kernel->writes[i]] = true;
        for (int i = 0; kernel->kind == CFX__PLAN_LOOP && i < kernel->nchain; i++)
            a->member[kernel->chain[i]] = true;
        if (kernel->kind == CFX__PLAN_VIEW && !kernel->between)
            a->given[k] = a->given[cfx__plan_root(p, k)] = true;
        if (kernel->kind == CFX__PLAN_JOIN)
            cfx__plan_each_read(kernel->step, mark, a->given);
        if (kernel->kind == CFX__PLAN_JOIN || p->offset[k] >= 0)
            a->given[k] = true;
    }
}

/* Whether a step that no kernel computes may refuse other sizes: all but those that take whatever
 * they are given, as what is passed by and the parts of what programs spell out does. */
static bool may_refuse(const cfx__run_step *s) {
    const cfx_op *op = cfx__plan_op(s);
    return op && !(op->effects & CFX_LOOPS) && op != &cfx_op_dropout && op != &cfx_op_to_dtype;
}

static void find_live(const cfx__plan *p, struct cfx__plan_again *a) {
    for (int k = p->n - 1; k >= 0; k--) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        a->live[k] |= kernel->kind != CFX__PLAN_NONE || !cfx_is_bad(p->constants[k]) ||
                      may_refuse(&p->steps->steps[k]);
        for (int i = 0; i < kernel->nchain; i++)
            a->live[kernel->chain[i]] = true;
        if (!a->live[k])
            continue;
        cfx__plan_each_read(kernel->step, mark, a->live);
        for (int i = a->first[k]; i < a->first[k + 1]; i++)
            a->live[a->reads[i]] = true;
    }
}

const struct cfx__plan_again *cfx__plan_again_of(cfx__plan *p) {
    if (!p->again) {
        p->again = again_new(p);
        find_looked_at(p, p->again);
        find_live(p, p->again);
        p->again->lives = cfx__plan_lives_of(p);
    }
    return p->again;
}
