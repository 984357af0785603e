/* What reads what: before a graph is lowered, its steps are brought to a form in which nothing is
 * written to and every step reads what it needs, not what passes it on. */
#include <cfx/ops.h>

#include "plan.h"

/* ---- templates ------------------------------------------------------------------------------- */

static void each_slot(cfx_value v, cfx__plan_slot_fn *fn, void *user) {
    if (v.tag == CFX_TAG_NODE)
        fn(user, (int)v.spare);
    else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            each_slot(cfx_as_list(v)->items[i], fn, user);
    else if (v.tag == CFX_TAG_DICT)
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            each_slot(cfx_as_dict(v)->entries[i].value, fn, user);
    else if (v.tag == CFX_TAG_SLICE) {
        each_slot(cfx_as_slice(v)->start, fn, user);
        each_slot(cfx_as_slice(v)->stop, fn, user);
        each_slot(cfx_as_slice(v)->step, fn, user);
    }
}

void cfx__plan_each_read(const cfx__run_step *s, cfx__plan_slot_fn *fn, void *user) {
    if (!s->op) {
        each_slot(s->args, fn, user);
        each_slot(s->kwargs, fn, user);
        return;
    }
    for (int i = 0; i < s->nbound; i++)
        each_slot(s->bound[i], fn, user);
}

/* ---- what can be planned --------------------------------------------------------------------- */

bool cfx__plan_makes_own(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    for (int i = 0; i < s->nrets; i++)
        if (s->rets[i].alias)
            return false;
    return !op->view && !(op->effects & CFX_SHARES) &&
           (op->prepare || (op->shape && op->kernel) || op == &cfx_op_batch_norm);
}

/* Whether sizes or numbers that steps are bound to come from the data of a tensor. */
static bool reads_data(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    return op->effects & CFX_DATA_SHAPE || (s->nrets == 1 && s->rets[0].type == CFX__T_SCALAR);
}

/* What is known of the objects that slots hold, while steps are gone through in order. */
typedef struct {
    cfx__lowering *l;
    const cfx__run_step *step;
    int slot;
    bool *shared; /* by object: something else may look at its memory */
    int *now;     /* by object: the slot that has it as it is now */
} objects;

static void note_shared(void *user, int slot) {
    objects *o = user;
    const int object = o->l->object[slot];
    cfx_op *op = cfx__plan_op(o->step);
    if (!op || (!cfx__plan_makes_own(op) && o->l->object[o->slot] != object))
        o->shared[object] = true;
}

/* An in-place form can be a functional one where nothing else looks at the memory: it was made by a
 * step, and whatever read it so far made memory of its own. */
static bool may_write(const objects *o) {
    const cfx__run_step *steps = o->l->plan->steps->steps;
    if (o->step->bound[0].tag != CFX_TAG_NODE)
        return false;
    int object = o->l->object[o->step->bound[0].spare];
    return steps[object].op && cfx__plan_makes_own(steps[object].op) && !o->shared[object];
}

/* The slot whose memory a slot shows, itself, by views or by what may give its argument: an input,
 * or what makes memory of its own. -1: not known. */
static int memory_under(const objects *o, int slot) {
    const cfx__run_step *steps = o->l->plan->steps->steps, *s = &steps[slot];
    while (s->item ||
           (s->op && !cfx__plan_makes_own(s->op) && s->nbound && s->bound[0].tag == CFX_TAG_NODE)) {
        const cfx_value from = s->item ? cfx_as_list(s->args)->items[0] : s->bound[0];
        slot = o->l->object[from.spare];
        s = &steps[slot];
    }
    return s->node->op == CFX_PLACEHOLDER || (s->op && cfx__plan_makes_own(s->op)) ? slot : -1;
}

/* Whether an operator writes to its first argument alone, and gives that. */
static bool writes_first(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    for (int i = 1; i < s->nargs; i++)
        if (s->args[i].writes)
            return false;
    return s->nargs && s->args[0].writes && s->nrets == 1;
}

/* What is written to while others look at it, as a cache or a tensor that is filled part by part,
 * stays what it is: the step runs as it is. */
static bool writes_memory(const objects *o, bool *written) {
    const cfx_value self = o->step->bound[0];
    int slot = -1;
    if (writes_first(o->step->op) && self.tag == CFX_TAG_NODE)
        slot = memory_under(o, o->l->object[self.spare]);
    if (slot >= 0)
        written[slot] = o->l->lasting[slot] = true;
    return slot >= 0;
}

static void note_lasting(void *user, int slot) {
    objects *o = user;
    o->l->lasting[o->slot] |= o->l->lasting[slot];
}

/* What shows such memory shares its fate. */
static void find_lasting(objects *o) {
    const cfx__steps *steps = o->l->plan->steps;
    for (int k = 0; k < steps->nsteps; k++) {
        o->step = &steps->steps[o->slot = k];
        if (o->l->lasting[o->l->object[k]])
            o->l->lasting[k] = true;
        if (!o->step->op || !cfx__plan_makes_own(o->step->op) || o->l->object[k] != k)
            cfx__plan_each_read(o->step, note_lasting, o);
    }
}

/* Lets a template read slot now[object[k]] instead of k; object may be NULL, for k itself. */
static void renew(const int *object, const int *now, cfx_value *v) {
    if (v->tag == CFX_TAG_NODE) {
        v->spare = (uint32_t)now[object ? object[v->spare] : (int)v->spare];
    } else if (v->tag == CFX_TAG_LIST || v->tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(*v)->len; i++)
            renew(object, now, &cfx_as_list(*v)->items[i]);
    } else if (v->tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < cfx_as_dict(*v)->len; i++)
            renew(object, now, &cfx_as_dict(*v)->entries[i].value);
    }
}

static void renew_step(const int *object, const int *now, cfx__run_step *s) {
    if (!s->op) {
        renew(object, now, &s->args);
        renew(object, now, &s->kwargs);
    }
    for (int i = 0; s->op && i < s->nbound; i++)
        renew(object, now, &s->bound[i]);
}

/* Whether a step computes with sizes, as Python does: its result is known when those are. */
static bool is_of_sizes(const cfx__run_step *s) {
    static const char *const names[] = {
        "add",     "sub",      "mul",     "floordiv",  "truediv", "mod",     "pow",
        "neg",     "abs",      "ge",      "gt",        "le",      "lt",      "eq",
        "ne",      "sym_max",  "sym_min", "sym_float", "sym_int", "sym_not", "sym_sum",
        "sym_ite", "sym_sqrt", "trunc",   "ceil",      "floor",   "sqrt",    "round"};
    const char *name = s->node->target.name ? s->node->target.name : "";
    const char *last = strrchr(name, '.');
    if (s->node->op != CFX_CALL_FUNCTION || s->op || s->item || !last || s->node->target.object)
        return false;
    const bool python = !strncmp(name, "operator.", 9) || !strncmp(name, "_operator.", 10) ||
                        !strncmp(name, "math.", 5) || !strncmp(name, "torch.sym_", 10);
    for (int i = 0; python && i < COUNT(names); i++)
        if (!strcmp(last + 1, names[i]))
            return true;
    return false;
}

/* The object of a step's result; false where the step does what is not planned. */
static bool find_object(objects *o, bool *written) {
    const cfx__run_step *s = o->step;
    cfx__lowering *l = o->l;
    const cfx_opcode op = s->node->op;
    l->object[o->slot] = o->slot;
    if ((op == CFX_PLACEHOLDER && !s->input) || op == CFX_CALL_METHOD || op == CFX_CALL_MODULE ||
        (op == CFX_CALL_FUNCTION && !s->op && !s->item && !is_of_sizes(s) &&
         !cfx__plan_is_higher(l, s)))
        return false;
    if (!s->op)
        return true;
    const cfx__op_info *info = cfx__op_info_of(s->op);
    const bool passes = cfx__plan_passes(l, o->slot), writes = info->writes && !passes;
    if (writes && !info->nout) /* to a list */
        return false;
    if (writes && !(info->form == CFX__INPLACE && may_write(o)) && !writes_memory(o, written))
        return false;
    if (passes || writes)
        l->object[o->slot] = l->object[s->bound[0].spare];
    if (writes)
        written[l->object[o->slot]] = true;
    return passes || !reads_data(s->op);
}

bool cfx__plan_find_objects(cfx__lowering *l, bool *written) {
    const cfx__steps *steps = l->plan->steps;
    objects o = {.l = l, .shared = cfx__alloc0((size_t)steps->nsteps + 1)};
    o.now = cfx__alloc0(((size_t)steps->nsteps + 1) * sizeof *o.now);
    bool fine = true;
    for (int k = 0; k < steps->nsteps && fine; k++) {
        o.step = &steps->steps[o.slot = k];
        renew_step(l->object, o.now, &steps->steps[k]);
        fine = find_object(&o, written);
        cfx__plan_each_read(o.step, note_shared, &o);
        o.now[l->object[k]] = k;
    }
    if (fine)
        find_lasting(&o);
    cfx__free(o.shared);
    cfx__free(o.now);
    return fine;
}

/* ---- readers --------------------------------------------------------------------------------- */

typedef struct {
    int *first, *readers, *free, now;
} reading;

static void count_reader(void *user, int slot) { ((reading *)user)->first[slot + 1]++; }

static void put_reader(void *user, int slot) {
    reading *r = user;
    r->readers[r->free[slot]++] = r->now;
}

/* Whether a step only gives its argument again, and nobody looks on: then its readers read that. */
static bool is_passed_by(const cfx__lowering *l, int k) {
    return (cfx__plan_passes(l, k) || cfx__plan_is_same(l, k)) &&
           !cfx__plan_wants(l->e, l->plan->steps->steps[k].node);
}

void cfx__plan_pass_by(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    int *now = cfx__alloc(((size_t)p->n + 1) * sizeof *now);
    for (int k = 0; k < p->n; k++) {
        cfx__run_step *s = &p->steps->steps[k];
        renew_step(NULL, now, s);
        now[k] = k;
        if (s->op == &cfx_op__assert_tensor_metadata) { /* holds for these sizes: it has run */
            p->constants[k] = cfx_none();
            l->passed[k] = true;
        } else if (cfx_is_bad(p->constants[k]) && is_passed_by(l, k)) {
            l->passed[k] = true;
            now[k] = (int)s->bound[0].spare;
        }
    }
    cfx__free(now);
}

/* A step that reads a slot twice is there twice; one that is passed by is not. */
void cfx__plan_find_readers(cfx__lowering *l) {
    const cfx__steps *steps = l->plan->steps;
    const size_t n = (size_t)steps->nsteps;
    reading r = {.first = cfx__alloc0((n + 1) * sizeof *r.first)};
    for (size_t k = 0; k < n; k++)
        if (!l->passed[k])
            cfx__plan_each_read(&steps->steps[k], count_reader, &r);
    for (size_t k = 0; k < n; k++)
        r.first[k + 1] += r.first[k];
    r.readers = cfx__alloc(((size_t)r.first[n] + 1) * sizeof *r.readers);
    r.free = cfx__alloc((n + 1) * sizeof *r.free);
    memcpy(r.free, r.first, (n + 1) * sizeof *r.free);
    for (r.now = 0; r.now < steps->nsteps; r.now++)
        if (!l->passed[r.now])
            cfx__plan_each_read(&steps->steps[r.now], put_reader, &r);
    cfx__free(r.free);
    l->first = r.first;
    l->readers = r.readers;
}

/* Whether a slot that is read is one of those marked. */
typedef struct {
    const bool *marked;
    bool any;
} variation;

static void note_variation(void *user, int slot) {
    variation *v = user;
    v->any |= v->marked[slot];
}

bool cfx__plan_reads_lasting(const cfx__lowering *l, int slot) {
    variation v = {l->lasting, false};
    cfx__plan_each_read(&l->plan->steps->steps[slot], note_variation, &v);
    return v.any;
}

bool cfx__plan_find_variation(cfx__lowering *l, const bool *written, bool *varies) {
    const cfx__steps *steps = l->plan->steps;
    int input = 0;
    for (int k = 0; k < steps->nsteps; k++) {
        const cfx__run_step *s = &steps->steps[k];
        variation v = {varies, false};
        cfx__plan_each_read(s, note_variation, &v);
        varies[k] = v.any || written[l->object[k]];
        if (s->node->op == CFX_PLACEHOLDER) {
            const cfx_value in = l->e->inputs.v[input];
            bool constant = l->e->constant && l->e->constant[input] && in.tag == CFX_TAG_TENSOR &&
                            cfx_as_tensor(in)->storage && !cfx_as_tensor(in)->storage->foreign;
            varies[k] = in.tag == CFX_TAG_TENSOR && (!constant || written[k]);
            input++;
        } else if ((s->op && (s->op->effects & CFX_RANDOM) && !v.any) || cfx__node_logs(s->node)) {
            return false;
        }
    }
    return true;
}
