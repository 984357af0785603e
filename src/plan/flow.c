/* Prepares the data flow of a graph for lowering: writes become functional operators, and each
 * step reads the value that it needs directly, not through nodes that only pass it on. */
#include <cfx/ops.h>

#include "../value/walk.h"
#include "plan.h"

/* ---- templates ------------------------------------------------------------------------------- */

typedef struct {
    cfx__plan_slot_fn *fn;
    void *user;
} slot_visit;

static bool visit_slot(cfx_value leaf, void *user) {
    const slot_visit *v = user;
    if (leaf.tag == CFX_TAG_NODE)
        v->fn(v->user, (int)leaf.spare);
    return true;
}

void cfx__plan_each_slot(cfx_value v, cfx__plan_slot_fn *fn, void *user) {
    cfx__value_each(v, visit_slot, &(slot_visit){fn, user});
}

void cfx__plan_each_read(const cfx__run_step *s, cfx__plan_slot_fn *fn, void *user) {
    if (!s->op) {
        cfx__plan_each_slot(s->args, fn, user);
        cfx__plan_each_slot(s->kwargs, fn, user);
        return;
    }
    for (int i = 0; i < s->nbound; i++)
        cfx__plan_each_slot(s->bound[i], fn, user);
}

typedef struct {
    const cfx__plan *plan;
    bool any;
} unknown;

static void note_unknown(void *user, int slot) {
    unknown *u = user;
    u->any |= cfx_is_bad(u->plan->constants[slot]);
}

bool cfx__plan_has_unknown(const cfx__plan *p, cfx_value v) {
    unknown u = {p, false};
    cfx__plan_each_slot(v, note_unknown, &u);
    return u.any;
}

bool cfx__plan_reads_unknown(const cfx__plan *p, const cfx__run_step *s) {
    unknown u = {p, false};
    cfx__plan_each_read(s, note_unknown, &u);
    return u.any;
}

/* ---- what can be planned --------------------------------------------------------------------- */

bool cfx__plan_reshapes(const cfx_op *op) {
    return op && op->view && op->effects & CFX_IN_ORDER;
}

bool cfx__plan_moves(const cfx_op *op) {
    return op && (op->view || op->effects & CFX_IN_ORDER);
}

bool cfx__plan_makes_own(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    for (int i = 0; i < s->nrets; i++)
        if (s->rets[i].alias)
            return false;
    return !op->view && !(op->effects & CFX_SHARES) &&
           (op->takes || (op->shape && op->kernel) || op == &cfx_op_batch_norm);
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
    } else if (v->tag == CFX_TAG_SLICE) {
        renew(object, now, &cfx_as_slice(*v)->start);
        renew(object, now, &cfx_as_slice(*v)->stop);
        renew(object, now, &cfx_as_slice(*v)->step);
    }
}

void cfx__plan_renew(const int *object, const int *now, cfx__run_step *s) {
    if (!s->op) {
        renew(object, now, &s->args);
        renew(object, now, &s->kwargs);
    }
    for (int i = 0; s->op && i < s->nbound; i++)
        renew(object, now, &s->bound[i]);
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

bool cfx__plan_pass_by(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    int *now = cfx__alloc(((size_t)p->n + 1) * sizeof *now);
    for (int k = 0; k < p->n; k++) {
        cfx__run_step *s = &p->steps->steps[k];
        cfx__plan_renew(NULL, now, s);
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
    return cfx_ok();
}

/* A step that reads a slot twice is there twice; one that is passed by is not. */
bool cfx__plan_find_readers(cfx__lowering *l) {
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
    return cfx_ok();
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

static bool reads_ordered(const cfx__lowering *l, int slot) {
    variation v = {l->ordered, false};
    cfx__plan_each_read(&l->plan->steps->steps[slot], note_variation, &v);
    return v.any;
}

/* Whether a step writes to memory that stays. */
static bool writes_ordered(const cfx__lowering *l, const cfx__run_step *s) {
    variation v = {l->ordered, false};
    for (int i = 0; s->op && i < s->nbound; i++)
        if (cfx__op_writes(s->op, s->bound, i))
            cfx__plan_each_slot(s->bound[i], note_variation, &v);
    return v.any;
}

bool cfx__plan_is_ordered(const cfx__lowering *l, int slot) {
    return l->ordered[slot] || reads_ordered(l, slot);
}

cfx_op *cfx__plan_op_called(const cfx__lowering *l, const cfx__run_step *s) {
    return writes_ordered(l, s) ? s->op : cfx__plan_op(s);
}

bool cfx__plan_find_variation(cfx__lowering *l) {
    const cfx__steps *steps = l->plan->steps;
    bool *varies = l->varies;
    int input = 0;
    for (int k = 0; k < steps->nsteps; k++) {
        const cfx__run_step *s = &steps->steps[k];
        variation v = {varies, false};
        cfx__plan_each_read(s, note_variation, &v);
        varies[k] = v.any || l->written[k] || (s->op && cfx__op_call_writes(s->op, s->bound));
        if (s->node->op == CFX_PLACEHOLDER) {
            const cfx_value in = l->e->inputs.v[input];
            bool constant = l->e->constant && l->e->constant[input] && in.tag == CFX_TAG_TENSOR &&
                            cfx_as_tensor(in)->storage && !cfx_as_tensor(in)->storage->foreign;
            varies[k] = in.tag == CFX_TAG_TENSOR && (!constant || l->written[k]);
            input++;
        } else if ((s->op && (s->op->effects & CFX_RANDOM) && !v.any) || cfx__node_logs(s->node)) {
            return false;
        }
    }
    return true;
}
