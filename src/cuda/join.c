/* Merges small kernels. A kernel of few elements costs as much as its launch, so consecutive
 * ones become one kernel of a single block: parts that touch different memory run at once,
 * dependent parts after a barrier. Start at cfx__cuda_join. */
#include "plan.h"

enum {
    ALL = 2 * CFX__CUDA_SMALL, /* elements */
    MOST = 16                  /* kernels */
};

/* What a rendered step is; NULL: it is none, or not for this. */
static const cfx__cuda_rendered *small(const cfx__cuda_making *m, size_t step) {
    const cfx__cuda_step *s = &m->p->steps.data[step];
    if (s->kind != CFX__CUDA_KERNEL || s->nwords < 0)
        return NULL;
    for (size_t i = 0; i < m->trials.len; i++) /* one of two ways, each of which is timed */
        if ((int)step >= m->trials.data[i].a && (int)step < m->trials.data[i].c)
            return NULL;
    const cfx__cuda_rendered *k = &m->text.made.data[s->nwords];
    return k->elements && k->elements <= CFX__CUDA_SMALL ? k : NULL;
}

/* Whether two kernels have to be one behind the other: one writes where the other reads or writes.
 */
static bool meet(const cfx__cuda_rendered *a, const cfx__cuda_rendered *b) {
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if ((a->writes[i] || b->writes[k]) && !cfx__cuda_are_apart(&a->refs[i], &b->refs[k]))
                return true;
    return false;
}

/* The kernels from a step on that become one: how many, and the phase of each. */
static int count(const cfx__cuda_making *m, size_t from, int *made, int *phase) {
    int n = 0, words = 0;
    int64_t elements = 0;
    for (size_t i = from; i < m->p->steps.len && n < MOST; i++) {
        const cfx__cuda_rendered *k = small(m, i);
        if (!k || elements + k->elements > ALL || words + k->n >= CFX__CUDA_REFS)
            break;
        elements += k->elements, words += k->n;
        made[n] = m->p->steps.data[i].nwords;
        phase[n] = 0;
        for (int before = 0; before < n; before++)
            if (meet(&m->text.made.data[made[before]], k) && phase[before] >= phase[n])
                phase[n] = phase[before] + 1;
        n++;
    }
    return n;
}

void cfx__cuda_join(cfx__cuda_making *m) {
    cfx__cuda_plan *p = m->p;
    const size_t n = p->steps.len;
    int *to = cfx__arena_alloc(&m->c.memory, (n + 1) * sizeof *to); /* by step: where it goes */
    size_t kept = 0;
    for (size_t i = 0; i < n;) {
        int made[MOST], phase[MOST];
        const int several = m->apart ? 0 : count(m, i, made, phase);
        const int joined =
            several > 1 ? cfx__cuda_render_joined(&m->text, &m->c, several, made, phase) : -1;
        const int taken = joined < 0 ? 1 : several;
        cfx__cuda_step s = p->steps.data[i + (size_t)taken - 1];
        if (joined >= 0) {
            const cfx__cuda_rendered *k = &m->text.made.data[joined];
            s.function = cfx__cuda_own_text(m, k->function);
            s.grid[0] = k->grid, s.block[0] = k->block;
            s.nwords = joined;
        }
        for (int k = 0; k < taken; k++)
            to[i++] = (int)kept;
        p->steps.data[kept++] = s;
    }
    to[n] = (int)kept;
    p->steps.len = kept;
    for (size_t i = 0; i < m->trials.len; i++) {
        cfx__cuda_trial *t = &m->trials.data[i];
        t->a = to[t->a], t->b = to[t->b], t->c = to[t->c];
    }
}
