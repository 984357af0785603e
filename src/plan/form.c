/* Forms of plans: see form.h. */
#include "form.h"

static void drop_values(cfx_value *v, int n) {
    for (int i = 0; v && i < n; i++)
        cfx_value_drop(v[i]);
    cfx__free(v);
}

static void drop_others(cfx__plan_other *v, int n) {
    for (int i = 0; i < n; i++)
        cfx_value_drop(v[i].v);
}

static void form_free(void *obj) {
    cfx__plan_form *f = obj;
    const cfx__plan *p = f->plan;
    cfx__plan_rooms_leave(f);
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_bound *b = f->bound[k];
        if (!b)
            continue;
        cfx_drop(b->ready);
        cfx_drop(b->loop);
        cfx_drop(b->x);
        cfx_drop(b->out);
    }
    if (f->given != p->given) {
        drop_values(f->inputs, p->ninputs);
        drop_values(f->given, p->n);
        cfx__free(f->offset);
    }
    drop_others(f->constants, f->nconstants);
    drop_others(f->wanted, f->nwanted);
    cfx__arena_release(&f->arena);
    cfx_drop(f->plan);
}

static const cfx__obj_type form_type = {.name = "form of a plan", .free = form_free};

static cfx__plan_bound *bound_of(cfx__plan_form *f, const cfx__plan *p, int slot) {
    const cfx__plan_kernel *k = &p->kernels[slot];
    if (k->kind != CFX__PLAN_LAYER && k->kind != CFX__PLAN_LOOP)
        return NULL;
    cfx__plan_bound *b = cfx__arena_alloc(&f->arena, sizeof *b);
    if (k->kind == CFX__PLAN_LOOP) {
        b->loop = cfx_keep(k->loop);
        return b;
    }
    b->ready = cfx_keep(k->ready);
    b->x = cfx_keep((cfx_tensor *)cfx__plan_read(p, k));
    b->out = cfx_keep(cfx__layer_out(k->layer));
    return b;
}

/* The n values of v that differ from the plan's, of those that are asked for (NULL: all). */
static int keep_others(cfx__plan_form *f, cfx__plan_other **to, const cfx_value *v,
                       const cfx_value *of, const bool *asked) {
    const int n = f->plan->n;
    int kept = 0;
    for (int pass = 0; pass < 2; pass++) { /* they are counted first */
        if (pass && kept)
            *to = cfx__arena_alloc(&f->arena, (size_t)kept * sizeof **to);
        for (int k = 0, at = 0; k < n && (!pass || at < kept); k++) {
            if ((asked && !asked[k]) || !memcmp(&v[k], &of[k], sizeof v[k]))
                continue;
            if (pass)
                (*to)[at] = (cfx__plan_other){k, cfx_value_keep(v[k])};
            at++;
            kept += !pass;
        }
    }
    return kept;
}

static cfx_value other_at(const cfx__plan_other *v, int n, int slot, cfx_value plans) {
    int from = 0, to = n;
    while (from < to) {
        const int middle = (from + to) / 2;
        if (v[middle].slot < slot)
            from = middle + 1;
        else
            to = middle;
    }
    return from < n && v[from].slot == slot ? v[from].v : plans;
}

cfx_value cfx__plan_form_constant(const cfx__plan_form *f, int slot) {
    return other_at(f->constants, f->nconstants, slot, f->plan->constants[slot]);
}

cfx_value cfx__plan_form_wanted(const cfx__plan_form *f, int slot) {
    return other_at(f->wanted, f->nwanted, slot, f->plan->wanted[slot]);
}

cfx__plan_form *cfx__plan_form_new(cfx__plan *p, cfx__plan *sized) {
    cfx__plan_form *f = cfx__obj_make(&form_type, sizeof *f);
    f->plan = cfx_keep(p);
    f->inputs = sized->inputs;
    f->given = sized->given;
    f->offset = sized->offset;
    f->room_bytes = sized->room_bytes;
    f->scratch = sized->scratch;
    f->arena.size = (size_t)p->n * sizeof *f->bound; /* twice that is all there will be */
    f->bound = cfx__arena_alloc(&f->arena, (size_t)p->n * sizeof *f->bound);
    for (int k = 0; k < p->n; k++)
        f->bound[k] = bound_of(f, sized, k);
    if (sized != p) {
        const bool *asked = cfx__plan_again_of(p)->wanted;
        f->nconstants = keep_others(f, &f->constants, sized->constants, p->constants, NULL);
        f->nwanted = keep_others(f, &f->wanted, sized->wanted, p->wanted, asked);
    }
    return f;
}

const cfx_tensor *cfx__plan_form_made(const cfx__plan_form *f, int slot) {
    return f->bound[slot] && f->bound[slot]->out ? f->bound[slot]->out
                                                 : cfx_as_tensor(f->given[slot]);
}
