/* Resolves addresses and code: allocates the arena, waits for compilation, uploads weights, and
 * gives each step its function and argument words. Start at cfx__cuda_resolve. */
#include "plan.h"

/* Brings the weight that a ref is of to the card, where it is not there yet. */
static bool bring(cfx__cuda_making *m, const cfx__c_ref *r) {
    if (r->where != CFX__C_WEIGHT || m->p->weights.data[r->number])
        return true;
    m->p->weights.data[r->number] = cfx__cuda_held_get(m->p, &m->c.weights.data[r->number]);
    return m->p->weights.data[r->number] != NULL;
}

static bool resolve_rendered(cfx__cuda_making *m, cfx__cuda_step *s) {
    cfx__cuda_plan *p = m->p;
    const cfx__cuda_rendered *k = &m->text.made.data[s->nwords];
    s->words = cfx__arena_alloc(&p->memory, (size_t)(k->n + 1) * sizeof *s->words);
    s->nwords = 0;
    for (int i = 0; i < k->n; i++) {
        if (!bring(m, &k->refs[i]))
            return false;
        s->words[s->nwords++] = cfx__cuda_where(p, &k->refs[i]);
    }
    p->flags |= k->flags;
    if (k->flags)
        s->words[s->nwords++] = p->arena + (uint64_t)p->flag_at;
    return true;
}

/* The word that a kernel is given for an argument. */
static uint64_t word_of(cfx__cuda_plan *p, const cfx__cuda_called *c, const cfx__cuda_arg *a) {
    uint64_t word = (uint64_t)a->i;
    if (a->kind == CFX__CUDA_DOUBLE)
        memcpy(&word, &a->f, sizeof word);
    if (a->kind != CFX__CUDA_POINTER)
        return word;
    p->flags |= a->operand == CFX__CUDA_FLAG;
    if (a->operand == CFX__CUDA_SCRATCH)
        return p->arena + (uint64_t)(p->scratch_at + a->i);
    if (a->operand == CFX__CUDA_FLAG)
        return p->arena + (uint64_t)p->flag_at;
    if (a->operand == CFX__CUDA_COUNTERS)
        return p->arena + (uint64_t)(p->counters_at + a->i);
    const cfx__c_ref *r = &c->refs[a->operand]; /* i counts from where its memory begins */
    return cfx__cuda_where(p, r) + (uint64_t)(a->i - cfx__cuda_offset(r));
}

static bool resolve_called(cfx__cuda_making *m, const cfx__cuda_called *c, cfx__cuda_step *s) {
    s->words = cfx__arena_alloc(&m->p->memory, (size_t)(c->launch.nargs + 1) * sizeof *s->words);
    s->nwords = c->launch.nargs;
    for (int i = 0; i < c->launch.nargs; i++) {
        const cfx__cuda_arg *a = &c->launch.args[i];
        if (a->kind == CFX__CUDA_POINTER && a->operand < CFX__CUDA_OPERANDS &&
            !bring(m, &c->refs[a->operand]))
            return false;
        s->words[i] = word_of(m->p, c, a);
    }
    return true;
}

static bool resolve_job(cfx__cuda_making *m, const cfx__cuda_job *j) {
    for (int i = 0; i < j->nreads; i++)
        if (!bring(m, j->reads[i]))
            return false;
    return true;
}

bool cfx__cuda_resolve(cfx__cuda_making *m) {
    cfx__cuda_plan *p = m->p;
    for (size_t i = 0; i < p->steps.len; i++)
        if (p->steps.data[i].kind == CFX__CUDA_KERNEL && p->steps.data[i].nwords >= 0)
            cfx__cuda_pen_use(&m->text, p->steps.data[i].nwords);
    const int whole = m->text.made.len ? cfx__cuda_codes_ask(&m->codes, p->device,
                                                             cfx__cuda_pen_whole(&m->text, &m->c))
                                       : 0;
    const size_t n = m->codes.asked.len;
    cfx__cuda_code **codes = cfx__arena_alloc(&m->c.memory, (n + 1) * sizeof *codes);
    bool fine = whole >= 0 && cfx__cuda_codes_take(&m->codes, p->device, codes);
    for (size_t i = 0; i < n; i++)
        if (codes[i])
            VEC_PUSH(p->codes, codes[i]);
    for (size_t i = 0; i < p->steps.len && fine; i++) {
        cfx__cuda_step *s = &p->steps.data[i];
        const int call = s->kind == CFX__CUDA_KERNEL && s->nwords < 0 ? -1 - s->nwords : -1;
        if (s->kind == CFX__CUDA_JOB)
            fine = resolve_job(m, s->job);
        if (s->kind != CFX__CUDA_KERNEL)
            continue;
        s->code = cfx__cuda_function(codes[call >= 0 ? m->calls.data[call]->code : whole],
                                     s->function, s->shared);
        fine = s->code &&
               (call >= 0 ? resolve_called(m, m->calls.data[call], s) : resolve_rendered(m, s));
    }
    return fine;
}

bool cfx__cuda_allocate(cfx__cuda_making *m) {
    cfx__cuda_plan *p = m->p;
    for (size_t i = 0; i < m->c.weights.len; i++)
        VEC_PUSH(p->weights, NULL);
    p->flag_at = (m->c.arena + CFX__CUDA_LINE - 1) / CFX__CUDA_LINE * CFX__CUDA_LINE;
    p->counters_at = p->flag_at + CFX__CUDA_LINE;
    const int64_t counters = CFX__CUDA_COUNTED * (int64_t)sizeof(int);
    p->scratch_at = p->counters_at + counters;
    p->arena_bytes = p->scratch_at + m->scratch;
    p->arena = cfx__cuda_alloc(p->device, p->arena_bytes);
    return p->arena && cfx__cuda_done(p->device,
                                      p->device->driver->fill(p->arena + (uint64_t)p->flag_at, 0,
                                                              (size_t)(CFX__CUDA_LINE + counters),
                                                              p->device->stream),
                                      "clearing memory");
}
