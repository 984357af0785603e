/* The passes of lowering in order, with what each reads and fills. Start at the table. */
#include "../rewrite/rewrite.h"
#include "plan.h"

/* Fields of cfx__plan and cfx__lowering, by slot unless plan.h says otherwise; kernels.kind and the
 * like are fields of a slot's kernel. `steps` stands for what steps read and call. */
typedef struct {
    const char *name;
    bool (*run)(cfx__lowering *l);
    const char *reads, *fills, *what;
} pass;

static bool bind(cfx__lowering *l) { return !l->target->bind || l->target->bind(l); }

static const pass passes[] = {
    {"update", cfx__plan_update_in_place, "steps", "steps becomes",
     "functional updates of inputs become calls in place"},
    {"memory", cfx__plan_find_memory, "steps inputs", "steps object ordered written sharing",
     "which slots share memory, and which of it is written to"},
    {"variation", cfx__plan_find_variation, "steps written", "varies",
     "what differs from run to run"},
    {"put-off", cfx__plan_put_off, "steps varies", "put_off",
     "dequantized weights, which need not be computed"},
    {"fake", cfx__plan_run_fake, "steps varies put_off", "wanted given constants inputs",
     "a run on fake inputs: sizes, strides and constants"},
    {"weights", cfx__plan_find_weights, "varies wanted constants", "weights constants",
     "what a plan has to watch, and numbers that follow from sizes"},
    {"pass-by", cfx__plan_pass_by, "steps constants", "passed steps constants",
     "steps that give their argument again are not read any more"},
    {"heads", cfx__plan_share_heads, "steps given", "steps",
     "attention reads heads that are shared, not repeated"},
    {"readers", cfx__plan_find_readers, "steps passed", "first readers", "who reads what"},
    {"spelled", cfx__plan_find_spelled, "steps first readers", "steps passed first readers",
     "activations that are written out become operators"},
    {"unread", cfx__plan_leave_unread, "steps first readers", "taken",
     "what only moves numbers and is not read is left out"},
    {"homes", cfx__plan_find_homes, "steps given ordered", "home home_at joins given kernels.index",
     "parts of concatenations, and how the whole lies"},
    {"islands", cfx__plan_find_islands, "steps given constants readers home",
     "kernels.layer kernels.step taken given", "layers between bytes"},
    {"narrow", cfx__plan_find_narrow, "steps given constants readers home put_off",
     "kernels.layer taken given constants", "layers whose weights have 8 or 4 bits"},
    {"steps", cfx__plan_lower_steps, "steps given constants readers home joins taken passed",
     "kernels.kind kernels.layer kernels.op kernels.reorder groups members given taken",
     "each step left finds its kernel: a layer, part of a loop, a call"},
    {"loops", cfx__plan_make_loops, "groups members given", "kernels.loop kernels.reads",
     "groups become loops"},
    {"views", cfx__plan_find_views, "kernels.kind kernels.reorder given constants readers",
     "kernels.x given",
     "calls that look into the memory of others"},
    {"bind", bind, "kernels.layer", "kernels.ready kernels.first scratch",
     "the target makes kernels ready"},
    {"lifetimes", cfx__plan_find_lifetimes, "kernels", "kernels.frees kernels.between constants",
     "which kernel reads a slot last"},
    {"place", cfx__plan_place, "kernels home given", "offset room_bytes",
     "places in the arena, by lifetimes"},
};

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
    VEC_FREE(p->repeats);
    cfx_drop(p->lowered);
    cfx_drop(p->blocks);
    cfx__plan_again_free(p->again);
    cfx_drop(p->steps);
    cfx__arena_release(&p->arena);
}

static const cfx__obj_type plan_type = {.name = "plan", .free = plan_free};

static cfx__plan *plan_new(const cfx__plan_target *target, cfx__steps *steps) {
    cfx__plan *p = cfx__obj_make(&plan_type, sizeof *p);
    p->target = target;
    p->steps = steps;
    p->n = steps->nsteps;
    p->ninputs = steps->nplaceholders;
    p->threads = cfx_get_num_threads();
    p->precision = cfx_get_precision();
    p->blocks = cfx__plan_blocks_new();
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
        p->offset[k] = p->home[k] = -1;
        if (steps->steps[k].node->op == CFX_PLACEHOLDER) {
            p->kernels[k].kind = CFX__PLAN_INPUT;
            p->kernels[k].input = input++;
        }
    }
    return p;
}

static cfx__lowering *lowering_new(cfx__plan *p, const cfx_execution *e) {
    const size_t n = (size_t)p->n + 1;
    cfx__lowering *l = cfx__alloc0(sizeof *l);
    bool **const flags[] = {&l->taken, &l->passed, &l->ordered, &l->joins,
                            &l->put_off, &l->varies, &l->written};
    l->plan = p;
    l->target = p->target;
    l->e = e;
    for (int i = 0; i < COUNT(flags); i++)
        *flags[i] = cfx__arena_alloc(&l->arena, n * sizeof **flags[i]);
    l->object = cfx__arena_alloc(&l->arena, n * sizeof *l->object);
    l->group = cfx__arena_alloc(&l->arena, n * sizeof *l->group);
    l->members = cfx__arena_alloc(&l->arena, n * sizeof *l->members);
    for (size_t k = 0; k < n; k++)
        l->group[k] = -1;
    return l;
}

static void lowering_free(cfx__lowering *l) {
    for (size_t i = 0; i < l->groups.len; i++)
        VEC_FREE(l->groups.data[i].members);
    VEC_FREE(l->groups);
    cfx__free(l->first);
    cfx__free(l->readers);
    cfx__arena_release(&l->arena);
    cfx__free(l);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* What is asked for beside a plan: its text after one of the passes. */
typedef struct {
    const pass *last; /* NULL: all of them */
    cfx__text text;
    bool lowered;     /* foreign operators are opened: each plan does more than the interpreter */
} until;

/* Kernels that do more than one call of the dispatcher's does. */
static int count_fused(const cfx__plan *p) {
    int n = 0;
    for (int k = 0; k < p->n; k++)
        n += p->kernels[k].kind == CFX__PLAN_LAYER || p->kernels[k].nchain > 1;
    return n;
}

static bool lower(cfx__lowering *l, until *u) {
    if (!l->plan->n || l->e->inputs.n != l->plan->ninputs)
        return false;
    for (int i = 0; i < COUNT(passes); i++) {
        if (!passes[i].run(l) || !cfx_ok())
            return false;
        if (u->last == &passes[i]) {
            cfx__plan_put(&u->text, l->plan, l);
            return true;
        }
    }
    /* else the interpreter does as well */
    return u->lowered || count_fused(l->plan) >= l->target->least;
}

static cfx__plan *make(const cfx__plan_target *target, const cfx_execution *e, until *u) {
    size_t mark = cfx_scope_open();
    cfx__steps *steps = cfx__steps_make(e->graph);
    cfx__plan *p = steps ? plan_new(target, steps) : NULL;
    bool fine = false;
    if (p) {
        cfx__lowering *l = lowering_new(p, e);
        fine = lower(l, u);
        lowering_free(l);
    }
    cfx_scope_close(mark);
    if (fine)
        return p;
    cfx_drop(p);
    return NULL;
}

/* A plan of what foreign operators are made of for such inputs. Who looks at values wants those of
 * the nodes there are. */
static cfx__plan *make_foreign(const cfx__plan_target *target, const cfx_execution *e, until *u) {
    if (e->watcher && e->watcher->see)
        return NULL;
    size_t mark = cfx_scope_open();
    cfx_module *lowered = cfx__lower_execution(e);
    cfx__plan *p = NULL;
    if (lowered) {
        cfx_execution inside = *e;
        inside.module = lowered;
        inside.graph = lowered->graph;
        u->lowered = true;
        p = make(target, &inside, u);
    }
    if (p) {
        p->lowered = cfx_keep(lowered);
        p->source = e->graph;
    }
    cfx_scope_close(mark);
    return p;
}

static cfx__plan *make_any(const cfx__plan_target *target, const cfx_execution *e, until *u) {
    return cfx__is_foreign(e->module) ? make_foreign(target, e, u) : make(target, e, u);
}

cfx__plan *cfx__plan_make(const cfx__plan_target *target, const cfx_execution *e) {
    until u = {0};
    return make_any(target, e, &u);
}

static const char *names_of_passes(void) {
    cfx__text t = {0};
    for (int i = 0; i < COUNT(passes); i++)
        cfx__text_printf(&t, "%s%s", i ? ", " : "", passes[i].name);
    return cfx__text_take(&t);
}

const char *cfx__plan_after(const cfx__plan_target *target, const cfx_execution *e,
                            const char *name) {
    until u = {0};
    for (int i = 0; i < COUNT(passes); i++)
        if (!strcmp(passes[i].name, name))
            u.last = &passes[i];
    if (!u.last) {
        cfx_fail(CFX_VALUE_ERROR, e->at, "there is no pass '%s'; passes are %s", name,
                 names_of_passes());
        return NULL;
    }
    cfx__text_printf(&u.text, "after %s: %s\nreads %s; fills %s\n", u.last->name, u.last->what,
                     u.last->reads, u.last->fills);
    cfx__plan *p = make_any(target, e, &u);
    const char *text = cfx__text_take(&u.text);
    cfx_drop(p);
    return p ? text : cfx_ok() ? "" : NULL;
}
