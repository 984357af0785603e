/* Loop fusion: neighbouring pointwise calls and row reductions become one loop kernel. A step
 * joins the groups of its operands if all iterate over the same elements and no value inside the
 * group is read from outside before the group's last step. Start at cfx__plan_group. */
#include <cfx/ops.h>

#include "plan.h"

enum { MOST = 40, MOST_READS = 12 }; /* members of a group, and what one reads from outside */

/* ---- members --------------------------------------------------------------------------------- */

/* A step as part of a loop. */
struct cfx__plan_member {
    cfx__loop_note note;
    int slot[CFX__LOOP_OPERANDS]; /* of the operands; -1: the note's number */
    bool narrow;                  /* it has one element for each row of its group */
};

/* The slot of an operand of a call; -2 where it is no argument. */
static int slot_of(const cfx__run_step *s, const cfx_value *args, const cfx_tensor *t) {
    for (int i = 0; t && i < s->nbound; i++)
        if (args[i].tag == CFX_TAG_TENSOR && cfx_as_tensor(args[i]) == t)
            return s->bound[i].tag == CFX_TAG_NODE ? (int)s->bound[i].spare : -2;
    return t ? -2 : -1;
}

static bool is_conversion(const cfx__run_step *s) {
    return s->op == &cfx_op_to_dtype && s->bound[4].tag == CFX_TAG_NONE;
}

/* Step k as part of a loop; NULL where it cannot be one. */
static cfx__plan_member *member_of(cfx__lowering *l, int k, cfx_op *op, cfx_tensor *like) {
    const cfx__run_step *s = l->plan->kernels[k].step; /* of bytes, where it is moved to them */
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < s->nbound; i++) {
        if (s->nested[i])
            return NULL;
        args[i] = cfx__plan_filled(l->plan, s->bound[i]);
        if (!cfx__plan_takes(s, i, args[i]))
            return NULL;
    }
    cfx__plan_member m = {.note = {.kind = CFX__LOOP_NONE}};
    if (is_conversion(s)) {
        m.note = (cfx__loop_note){.kind = CFX__LOOP_COPY, .n = 1};
        m.note.in[0].t = cfx_as_tensor(args[0]);
    } else {
        cfx_op_call c = {.op = op, .nargs = s->nbound, .args = args, .nout = 1, .note = &m.note};
        c.out[0] = like;
        op->kernel(&c);
    }
    if (!cfx_ok() || m.note.kind == CFX__LOOP_NONE || !cfx__dtype_is_computed(like->dtype))
        return NULL;
    for (int i = 0; i < m.note.n; i++) {
        const cfx_tensor *t = m.note.in[i].t;
        if ((m.slot[i] = slot_of(s, args, t)) == -2 || (t && !cfx__dtype_is_computed(t->dtype)))
            return NULL;
    }
    cfx__plan_member *own = cfx__arena_alloc(&l->plan->arena, sizeof *own);
    *own = m;
    return own;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Whether t has the shape of the group's elements, or of its rows. */
static bool is_wide(const cfx__plan_group *g, const cfx_tensor *t) {
    return t->ndim == g->ndim && !memcmp(t->shape, g->shape, (size_t)g->ndim * sizeof *g->shape);
}

static bool is_narrow(const cfx__plan_group *g, const cfx_tensor *t) {
    const int outer = g->ndim - g->row;
    if (!g->row || (t->ndim != g->ndim && t->ndim != outer) ||
        memcmp(t->shape, g->shape, (size_t)outer * sizeof *g->shape))
        return false;
    for (int i = outer; i < t->ndim; i++)
        if (t->shape[i] != 1)
            return false;
    return true;
}

static int64_t row_length(int ndim, const int64_t *shape, int row) {
    int64_t n = 1;
    for (int i = ndim - row; i < ndim; i++)
        n *= shape[i];
    return n;
}

/* Whether nobody outside reads a member of g before step k; `with` is to be part of g too. */
static bool is_open(const cfx__lowering *l, int g, int with, int k) {
    const cfx__plan_group *a = &l->groups.data[g];
    for (size_t i = 0; i < a->members.len; i++) {
        const int m = a->members.data[i];
        for (int r = l->first[m]; r < l->first[m + 1]; r++) {
            const int by = l->readers[r];
            if (by < k && l->group[by] != g && l->group[by] != with)
                return false;
        }
    }
    return true;
}

/* Whether an operand of step k that is a member of the group is read as the loop has it. */
static bool reads_fit(const cfx__lowering *l, const cfx__plan_group *g, int group, int k,
                      bool narrow) {
    const cfx__plan_member *m = l->members[k];
    const cfx_tensor *like = cfx__plan_tensor(l, k);
    for (int i = 0; i < m->note.n; i++) {
        if (m->slot[i] < 0 || l->group[m->slot[i]] != group)
            continue;
        const cfx_tensor *t = cfx__plan_tensor(l, m->slot[i]);
        if (cfx__plan_wants(l->e, l->plan->steps->steps[m->slot[i]].node))
            return false;
        if (narrow ? !cfx__tensor_same_shape(t, like)
                   : !is_wide(g, t) && !(is_narrow(g, t) && t->ndim == g->ndim))
            return false;
    }
    return true;
}

/* Whether step k can be part of a group, and how. */
static bool may_join(const cfx__lowering *l, int group, int k, bool *narrow) {
    cfx__plan_group g = l->groups.data[group];
    const cfx__plan_member *m = l->members[k];
    const cfx_tensor *like = cfx__plan_tensor(l, k);
    const bool rows = m->note.kind == CFX__LOOP_ROW || m->note.kind == CFX__LOOP_FOLD;
    const cfx_tensor *through = rows ? m->note.in[0].t : like;
    *narrow = m->note.kind == CFX__LOOP_FOLD;
    if (rows) {
        if (!is_wide(&g, through) || (g.row && g.row != m->note.row))
            return false;
        g.row = m->note.row;
    } else if (!is_wide(&g, like)) {
        if (!is_narrow(&g, like))
            return false;
        *narrow = true;
    }
    if (g.members.len >= MOST || !is_open(l, group, group, k))
        return false;
    return reads_fit(l, &g, group, k, *narrow && !rows);
}

static void put(cfx__lowering *l, int group, int k) {
    cfx__plan_group *g = &l->groups.data[group];
    const cfx__plan_member *m = l->members[k];
    if (m->note.kind == CFX__LOOP_ROW || m->note.kind == CFX__LOOP_FOLD)
        g->row = m->note.row;
    cfx_tensor *home = cfx__plan_home_like(l, k);
    if (home) {
        cfx_value_drop(l->plan->given[k]);
        l->plan->given[k] = cfx_value_keep(cfx_tensor_value(home));
    }
    VEC_PUSH(g->members, k);
    l->group[k] = group;
    l->taken[k] = true;
}

/* Whether what two groups read and do can be one. */
static bool may_merge(const cfx__lowering *l, int a, int b, int k) {
    const cfx__plan_group *x = &l->groups.data[a], *y = &l->groups.data[b];
    return x->ndim == y->ndim && !memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) &&
           (!x->row || !y->row || x->row == y->row) && x->members.len + y->members.len < MOST &&
           is_open(l, a, b, k) && is_open(l, b, a, k);
}

static void merge(cfx__lowering *l, int into, int from) {
    cfx__plan_group *x = &l->groups.data[into], *y = &l->groups.data[from];
    for (size_t i = 0; i < y->members.len; i++) {
        VEC_PUSH(x->members, y->members.data[i]);
        l->group[y->members.data[i]] = into;
    }
    x->row = x->row ? x->row : y->row;
    y->members.len = 0;
}

static int new_group(cfx__lowering *l, int k) {
    const cfx__plan_member *m = l->members[k];
    const bool rows = m->note.kind == CFX__LOOP_ROW || m->note.kind == CFX__LOOP_FOLD;
    const cfx_tensor *through = rows ? m->note.in[0].t : cfx__plan_tensor(l, k);
    cfx__plan_group g = {.ndim = through->ndim};
    memcpy(g.shape, through->shape, (size_t)through->ndim * sizeof *g.shape);
    VEC_PUSH(l->groups, g);
    return (int)l->groups.len - 1;
}

bool cfx__plan_group_step(cfx__lowering *l, int k, cfx_op *op) {
    cfx_tensor *like = cfx__plan_tensor(l, k);
    const cfx__run_step *s = l->plan->kernels[k].step;
    if (!like || !like->numel || like->ndim > CFX__LOOP_DIMS ||
        (!is_conversion(s) && (!(op->effects & CFX_LOOPS) || !op->kernel)))
        return false;
    cfx__plan_member *m = l->members[k] = member_of(l, k, op, like);
    if (!m)
        return false;
    const bool rows = m->note.kind == CFX__LOOP_ROW || m->note.kind == CFX__LOOP_FOLD;
    const cfx_tensor *x = m->note.in[0].t;
    if (rows && (!x->numel || x->ndim > CFX__LOOP_DIMS ||
                 row_length(x->ndim, x->shape, m->note.row) > l->target->row_most))
        return false;
    int group = -1;
    m->narrow = m->note.kind == CFX__LOOP_FOLD;
    for (int i = 0; i < m->note.n; i++) {
        int g = m->slot[i] < 0 ? -1 : l->group[m->slot[i]];
        bool narrow;
        if (g < 0 || g == group || !may_join(l, g, k, &narrow))
            continue;
        if (group < 0)
            group = g;
        else if (narrow == m->narrow && may_merge(l, group, g, k))
            merge(l, group, g);
        else
            continue;
        m->narrow = narrow;
    }
    put(l, group < 0 ? new_group(l, k) : group, k);
    return true;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static int by_slot(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* A loop being made of a group. */
typedef struct {
    cfx__lowering *l;
    cfx__plan_group *g;
    const bool *read; /* by slot: a layer reads it, whatever the graph says */
    int group, nreads, reads[MOST_READS];
    int values[MOST_READS]; /* of the reads */
    cfx__loop_breadth breadths[MOST_READS];
    cfx__loop *loop;
} making;

/* The value of memory outside. */
static int read_value(making *m, int slot, cfx__loop_breadth b) {
    for (int i = 0; i < m->nreads; i++)
        if (m->reads[i] == slot && m->breadths[i] == b)
            return m->values[i];
    if (m->nreads == MOST_READS)
        return -1;
    const int k = m->nreads++;
    m->reads[k] = slot;
    m->breadths[k] = b;
    return m->values[k] = cfx__loop_read(m->loop, cfx__plan_tensor(m->l, slot), b);
}

static bool is_seen(const making *m, int k) {
    const cfx__lowering *l = m->l;
    if (cfx__plan_wants(l->e, l->plan->steps->steps[k].node) || m->read[k])
        return true;
    for (int r = l->first[k]; r < l->first[k + 1]; r++)
        if (l->group[l->readers[r]] != m->group)
            return true;
    return k == m->g->members.data[m->g->members.len - 1]; /* the kernel's own value */
}

/* Fills the loop, which stores the n members at `writes`; false where it would have too much. */
static bool fill(making *m, int *value, int n, const int *writes) {
    cfx__lowering *l = m->l;
    for (size_t i = 0; i < m->g->members.len; i++) {
        const int k = m->g->members.data[i];
        const cfx__plan_member *a = l->members[k];
        const cfx_tensor *like = cfx__plan_tensor(l, k);
        const cfx__loop_breadth b = !a->narrow || a->note.kind == CFX__LOOP_FOLD ? CFX__LOOP_WIDE
                                    : like->ndim == m->g->ndim ? CFX__LOOP_NARROW_KEPT
                                                               : CFX__LOOP_NARROW_GONE;
        int in[CFX__LOOP_OPERANDS];
        for (int j = 0; j < a->note.n; j++) {
            const int slot = a->slot[j];
            in[j] = slot < 0                     ? -1
                    : l->group[slot] == m->group ? value[slot]
                                                 : read_value(m, slot, b);
            if (slot >= 0 && in[j] < 0)
                return false;
        }
        value[k] = cfx__loop_step_add(m->loop, &a->note, in, (cfx_dtype)like->dtype, a->narrow);
    }
    for (int i = 0; i < n; i++)
        cfx__loop_write(m->loop, value[writes[i]], cfx__plan_tensor(l, writes[i]));
    return !m->loop->full && (!l->target->schedule || l->target->schedule(m->loop));
}

static int *ints(cfx__lowering *l, const int *v, int n) {
    int *own = cfx__arena_alloc(&l->plan->arena, (size_t)n * sizeof *own);
    memcpy(own, v, (size_t)n * sizeof *own);
    return own;
}

/* The kernel of a group, at its last member. */
static void make(cfx__lowering *l, int group, int *value, const bool *read) {
    cfx__plan_group *g = &l->groups.data[group];
    const int n = (int)g->members.len;
    if (!n)
        return;
    qsort(g->members.data, (size_t)n, sizeof *g->members.data, by_slot);
    making m = {.l = l, .g = g, .group = group, .read = read};
    int writes[MOST] = {0}, nwrites = 0;
    for (int i = 0; i < n; i++)
        if (is_seen(&m, g->members.data[i]))
            writes[nwrites++] = g->members.data[i];
    m.loop = cfx__loop_new(g->ndim, g->shape, g->row);
    if (!fill(&m, value, nwrites, writes)) { /* each by itself */
        cfx_drop(m.loop);
        for (int i = 0; i < n; i++)
            cfx__plan_call(l, g->members.data[i]);
        return;
    }
    cfx__plan_kernel *k = &l->plan->kernels[g->members.data[n - 1]];
    k->kind = CFX__PLAN_LOOP;
    k->loop = m.loop;
    k->nreads = m.nreads;
    k->reads = ints(l, m.reads, m.nreads);
    k->read_like = cfx__arena_alloc(&l->plan->arena, (size_t)m.nreads * sizeof *k->read_like);
    for (int i = 0; i < m.nreads; i++)
        k->read_like[i] = cfx_keep(cfx__plan_tensor(l, m.reads[i]));
    k->nchain = n;
    k->chain = ints(l, g->members.data, n);
    for (int i = 0; i < nwrites; i++)
        l->plan->kernels[writes[i]].stored = true;
    k->nwrites = nwrites;
    k->writes = ints(l, writes, nwrites);
}

bool cfx__plan_make_loops(cfx__lowering *l) {
    int *value = cfx__alloc((size_t)(l->plan->n + 1) * sizeof *value);
    bool *read = cfx__plan_kernel_reads(l);
    for (size_t g = 0; g < l->groups.len && cfx_ok(); g++)
        make(l, (int)g, value, read);
    cfx__free(read);
    cfx__free(value);
    return cfx_ok();
}

/* ---- the same loop at other sizes ------------------------------------------------------------ */

/* The shape of the loop: that of a member, or of what it folds. */
static bool shape_of(const cfx__lowering *l, cfx__plan_group *g) {
    for (size_t i = 0; i < g->members.len; i++) {
        const int k = g->members.data[i];
        const bool fold = l->members[k]->note.kind == CFX__LOOP_FOLD;
        const cfx_tensor *t = fold ? l->members[k]->note.in[0].t : cfx__plan_tensor(l, k);
        if (l->members[k]->narrow && !fold)
            continue;
        memcpy(g->shape, t->shape, (size_t)g->ndim * sizeof *g->shape);
        return t->ndim == g->ndim;
    }
    return false;
}

/* Whether a member does what it did, and on the elements of the group. */
static bool fits_group(const cfx__lowering *l, const cfx__plan_group *g, int group, int k) {
    const cfx__plan_member *m = l->members[k];
    const cfx_tensor *like = cfx__plan_tensor(l, k);
    const bool rows = m->note.kind == CFX__LOOP_ROW || m->note.kind == CFX__LOOP_FOLD;
    if (rows ? m->note.row != g->row || !is_wide(g, m->note.in[0].t)
             : !(m->narrow ? is_narrow(g, like) : is_wide(g, like)))
        return false;
    return reads_fit(l, g, group, k, m->narrow && !rows);
}

static bool same_steps(const cfx__loop *a, const cfx__loop *b) {
    bool same = a->nsteps == b->nsteps && a->nvalues == b->nvalues && a->nlanes == b->nlanes;
    for (int i = 0; same && i < a->nsteps; i++)
        same = a->steps[i].kind == b->steps[i].kind && a->steps[i].out == b->steps[i].out;
    for (int i = 0; same && i < a->nlanes; i++)
        same = a->lanes[i].breadth == b->lanes[i].breadth && a->lanes[i].value == b->lanes[i].value;
    return same;
}

/* Whether a member had one element a row in the plan that has the loop already. */
static bool was_narrow(const cfx__plan *of, const cfx__plan_group *before, int k, bool fold) {
    return fold || !is_wide(before, cfx_as_tensor(of->given[k]));
}

cfx__loop *cfx__plan_loop_again(cfx__lowering *l, const cfx__plan *of, const cfx__plan_kernel *k,
                                int *value) {
    cfx__plan_group g = {.ndim = k->loop->ndim, .row = k->loop->row};
    memcpy(g.shape, k->loop->shape, sizeof k->loop->shape);
    const cfx__plan_group before = g;
    const int group = (int)(k - l->plan->kernels);
    bool fits = true;
    g.members.data = k->chain;
    g.members.len = (size_t)k->nchain;
    for (int i = 0; i < k->nchain && fits; i++) {
        const int slot = k->chain[i];
        cfx__plan_member *m =
            member_of(l, slot, l->plan->kernels[slot].op, cfx__plan_tensor(l, slot));
        l->members[slot] = m;
        l->group[slot] = group;
        fits = m != NULL;
        if (fits)
            m->narrow = was_narrow(of, &before, slot, m->note.kind == CFX__LOOP_FOLD);
    }
    fits = fits && shape_of(l, &g);
    for (int i = 0; i < k->nchain && fits; i++)
        fits = fits_group(l, &g, group, k->chain[i]);
    making m = {.l = l, .g = &g, .group = group};
    m.loop = fits ? cfx__loop_new(g.ndim, g.shape, g.row) : NULL;
    fits = fits && fill(&m, value, k->nwrites, k->writes) && same_steps(m.loop, k->loop);
    if (fits && m.nreads == k->nreads && !memcmp(m.reads, k->reads, sizeof(int) * (size_t)m.nreads))
        return cfx__loop_shared(m.loop, k->loop);
    cfx_drop(m.loop);
    return NULL;
}
