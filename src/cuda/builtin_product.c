/* Products by hand-written kernels: their operands and epilogues. Products of few rows are
 * limited by reading their weights, so several products of the same input share one launch.
 * Start at cfx__cuda_matrix_product. */
#include <cfx/ops.h>

#include "../compile/calls.h"
#include "../compile/layers.h"
#include "builtin.h"

typedef cfx__cuda_piece piece;

static const cfx__cuda_array none = {.operand = -1};

cfx__cuda_precision cfx__cuda_precise(void) {
    switch (cfx_get_precision()) {
    case CFX_PRECISION_F16:
        return CFX__CUDA_F16;
    case CFX_PRECISION_TF32:
        return CFX__CUDA_TF32;
    default:
        return CFX__CUDA_EXACT;
    }
}

/* ---- what follows ---------------------------------------------------------------------------- */

int cfx__cuda_after_of(piece *p, const cfx__c_work *k, cfx__cuda_after *after) {
    const cfx__epilogue *e = k->epilogue;
    cfx__text t = {0};
    int n = 0;
    *after = (cfx__cuda_after){.bias = cfx__cuda_array_of(p, k->bias), .add = none};
    if (e && e->n && !e->post[0].op) {
        after->add = cfx__cuda_array_of(p, k->add);
        n++;
    }
    for (; e && n < e->n && e->post[n].op; n++) {
        const char *line = cfx__cuda_post_text(&p->m->text, &p->m->c, &e->post[n]);
        if (!line)
            break;
        cfx__text_puts(&t, line);
    }
    after->post = t.len ? cfx__text_take(&t) : NULL;
    return n;
}

bool cfx__cuda_finish(piece *p, int slot, const cfx__c_work *k, int done) {
    return cfx__cuda_add_work(p->m, slot, &p->work, p->n, p->refs) &&
           (!k || cfx__cuda_posts(p->m, slot, k, done));
}

/* ---- operands -------------------------------------------------------------------------------- */

/* The rows of a ref: its dims before the last as one; false where they do not lie so. */
static bool rows_of(const cfx__c_ref *r, int64_t *shape, int64_t *stride) {
    if (!cfx__cuda_flatten(r, 1, shape, stride))
        return false;
    shape[1] = r->shape[r->ndim - 1];
    stride[1] = r->stride[r->ndim - 1];
    if (shape[0] == 1)
        stride[0] = shape[1];
    return true;
}

/* A product as kernels are told of it, and the sizes that its arrays point to. */
typedef struct {
    cfx__c_work k;
    int slot, done; /* posts that the kernel does */
    cfx__cuda_array x;
    cfx__cuda_skinny_part is;
    int64_t xs[2], xt[2], os[2], ot[2], ws[2], wt[2], as[2], at[2];
} member;

static bool read_narrow(piece *p, member *b) {
    cfx__c *c = &p->m->c;
    const cfx__narrow *of = b->k.epilogue->narrow;
    const cfx__c_ref *w = cfx__c_constant(c, (cfx_tensor *)of->integers, "weight");
    const cfx__c_ref *scales = cfx__c_constant(c, (cfx_tensor *)of->scales, "scales");
    if (!w || !scales)
        return false;
    b->is.w = (cfx__cuda_weight){.w = cfx__cuda_array_of(p, w),
                                 .scales = cfx__cuda_array_of(p, scales),
                                 .bits = w->dtype == CFX_U8 ? 4 : 8,
                                 .group = cfx__c_count(scales) == 1 ? 0 : of->group};
    b->is.constant = true;
    return true;
}

static bool read_weight(piece *p, member *b, const cfx_op *op) {
    cfx__c_work *k = &b->k;
    cfx_tensor *weight = k->packs;
    if (k->w->ndim != 2)
        return false;
    if (weight && op != &cfx_op_linear) /* rows of what is multiplied lie in one piece */
        weight = cfx_contiguous(cfx_transpose(weight, 0, 1));
    const bool turned = op != &cfx_op_linear && !weight;
    k->w = weight ? cfx__c_constant(&p->m->c, weight, "weight") : k->w;
    if (!k->w)
        return false;
    for (int i = 0; i < 2; i++) {
        b->ws[i] = k->w->shape[turned ? 1 - i : i];
        b->wt[i] = k->w->stride[turned ? 1 - i : i];
    }
    b->is.w = (cfx__cuda_weight){.w = cfx__cuda_array_as(p, k->w, 2, b->ws, b->wt),
                                 .scales = none};
    b->is.constant = k->w->where == CFX__C_WEIGHT;
    return true;
}

/* The product b->k of an operator; false where it does not lie in rows. */
static bool read_member(piece *p, member *b, const cfx_op *op) {
    cfx__c_work *k = &b->k;
    if (k->alpha != 1 || k->beta != 1 || !k->x->ndim || !k->out->ndim ||
        !rows_of(k->x, b->xs, b->xt) || !rows_of(k->out, b->os, b->ot) ||
        (k->bias &&
         (k->bias->ndim != 1 || k->bias->stride[0] != 1 || k->bias->shape[0] != b->os[1])))
        return false;
    b->x = cfx__cuda_array_as(p, k->x, 2, b->xs, b->xt);
    if (!(k->epilogue && k->epilogue->narrow ? read_narrow(p, b) : read_weight(p, b, op)))
        return false;
    b->is.out = cfx__cuda_array_as(p, k->out, 2, b->os, b->ot);
    b->done = cfx__cuda_after_of(p, k, &b->is.after);
    if (b->is.after.add.operand >= 0) {
        if (!rows_of(k->add, b->as, b->at))
            return false;
        b->is.after.add.ndim = 2, b->is.after.add.shape = b->as, b->is.after.add.stride = b->at;
    }
    return true;
}

/* ---- several of few rows --------------------------------------------------------------------- */

typedef struct {
    piece p;
    int n;
    member of[CFX__CUDA_SKINNY_PARTS];
} group;

static bool are_apart(const cfx__c_ref *a, const cfx__c_ref *b) {
    return !a || !b || cfx__cuda_are_apart(a, b);
}

static bool same_place(const cfx__c_ref *a, const cfx__c_ref *b) {
    bool same = a->where == b->where && a->number == b->number && a->base == b->base &&
                a->at == b->at && a->dtype == b->dtype && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->shape[i] == b->shape[i] && a->stride[i] == b->stride[i];
    return same;
}

/* Whether a product may be computed at the same time as those before it: none of them reads what
 * another writes. */
static bool may_join(const group *g, const cfx__c_work *k) {
    bool fine = same_place(k->x, g->of[0].k.x);
    for (int i = 0; i < g->n; i++) {
        const cfx__c_work *o = &g->of[i].k;
        fine = fine && are_apart(o->out, k->add) && are_apart(o->out, k->bias) &&
               are_apart(k->out, o->add) && are_apart(k->out, o->bias);
    }
    return fine && (k->packs || (k->epilogue && k->epilogue->narrow)) &&
           k->add != k->x; /* a state may be read by both, and is not written here */
}

/* The slot behind the last of a group whose product may come to it: the next that computes. */
static int next_slot(const group *g) {
    const cfx__cuda_making *m = g->p.m;
    const cfx__plan *plan = m->unit.plan;
    for (int k = g->of[g->n - 1].slot + 1; k < plan->n; k++)
        if (cfx__cuda_computes(plan, k))
            return plan->kernels[k].kind == CFX__PLAN_LAYER ? k : -1;
    return -1;
}

/* One more product of the same x; false where there is none, and nothing has changed. */
static bool grow(group *g) {
    cfx__cuda_making *m = g->p.m;
    const cfx__cuda_mark before = cfx__cuda_mark_of(m);
    const int slot = g->n < CFX__CUDA_SKINNY_PARTS ? next_slot(g) : -1, operands = g->p.n;
    if (slot < 0 || m->apart)
        return false;
    member *b = &g->of[g->n];
    *b = (member){.slot = slot};
    const cfx_op *op = cfx__cuda_work_of(m, slot, &b->k);
    if (op && op->layer.product && m->p->steps.len == before.steps &&
        may_join(g, &b->k) && read_member(&g->p, b, op)) {
        cfx__cuda_skinny_part parts[CFX__CUDA_SKINNY_PARTS];
        cfx__cuda_work tried = {0};
        for (int i = 0; i <= g->n; i++)
            parts[i] = g->of[i].is;
        if (cfx__cuda_skinny(&g->of[0].x, NULL, g->n + 1, parts, cfx__cuda_precise(), &tried)) {
            g->p.work = tried;
            g->n++;
            return true;
        }
    }
    cfx__cuda_go_back(m, before);
    g->p.n = operands;
    return false;
}

/* ---- what makes their rows ------------------------------------------------------------------- */

typedef struct {
    const cfx__plan *plan;
    const group *g;
    int from, now;
    bool only;
} readers;

static void note_reader(void *user, int slot) {
    readers *r = user;
    bool within = r->plan->kernels[r->now].kind == CFX__PLAN_VIEW;
    for (int i = 0; i < r->g->n; i++)
        within |= r->g->of[i].slot == r->now;
    if (cfx__plan_root(r->plan, slot) == r->from && !within)
        r->only = false;
}

/* Whether nothing else than the products reads what a slot makes. */
static bool is_theirs(const group *g, int from) {
    readers r = {.plan = g->p.m->unit.plan, .g = g, .from = from, .only = true};
    for (r.now = from + 1; r.now < r.plan->n && r.only; r.now++)
        cfx__plan_each_kernel_read(&r.plan->kernels[r.now], note_reader, &r);
    for (int i = 0; i < g->n; i++) /* as x alone */
        r.only &= are_apart(g->of[i].k.add, g->of[0].k.x);
    return r.only;
}

/* The loop that makes x, where it is the last step so far and small, is made by each block of the
 * products instead: a norm, a gate. False, and nothing has changed, where it is not so. */
static bool take_loop(group *g) {
    cfx__cuda_making *m = g->p.m;
    const cfx__plan *plan = m->unit.plan;
    const cfx__c_ref *x = g->of[0].k.x;
    const cfx__cuda_step *last =
        m->p->steps.len ? &m->p->steps.data[m->p->steps.len - 1] : NULL;
    const cfx__plan_kernel *product = &plan->kernels[g->of[0].slot];
    const int from = product->kind == CFX__PLAN_LAYER && product->x >= 0
                         ? cfx__plan_root(plan, product->x)
                         : -1;
    const int operands = g->p.n;
    cfx__cuda_within w;
    if (from < 0 || m->apart || !last || last->kind != CFX__CUDA_KERNEL || last->nwords < 0 ||
        last->slot != from || plan->kernels[from].kind != CFX__PLAN_LOOP ||
        plan->kernels[from].nwrites != 1 || plan->kernels[from].writes[0] != from ||
        (m->p->steps.len > 1 && last[-1].slot == from) || !is_theirs(g, from) ||
        !cfx__cuda_render_within(&m->text, &m->unit, from, 256, &w))
        return false;
    cfx__cuda_before before = {.text = w.text,
                               .function = cfx__text_format("%s_one", w.is.function),
                               .n = w.is.n, .out = -1, .apart = w.is.elements != 0,
                               .count = w.is.elements ? w.is.elements : w.is.grid};
    bool fine = w.is.n <= CFX__CUDA_BEFORE + 1 && w.is.n + operands <= CFX__CUDA_OPERANDS;
    for (int i = 0; i < w.is.n && fine; i++) {
        const cfx__c_ref *r = &w.is.refs[i];
        cfx__c_ref *own = cfx__c_ref_like(&m->c, r, r->ndim, r->shape, r->stride);
        before.arrays[i] = cfx__cuda_array_of(&g->p, own);
        if (r->where == CFX__C_WEIGHT && cfx__cuda_bytes(r) <= CFX__CUDA_OWN)
            before.constant[i] = cfx__cuda_bytes(r);
        if (w.is.writes[i]) {
            fine = before.out < 0 && r->where == CFX__C_ARENA && r->dtype == x->dtype &&
                   cfx__cuda_offset(r) == cfx__cuda_offset(x);
            before.out = i;
            before.bytes = cfx__cuda_bytes(r);
        }
        for (int k = 0; k < g->n && !w.is.writes[i]; k++) /* others may still be reading */
            fine = fine && r->where != CFX__C_STATE && cfx__cuda_are_apart(r, g->of[k].k.out);
    }
    cfx__cuda_skinny_part parts[CFX__CUDA_SKINNY_PARTS];
    cfx__cuda_work work = {0};
    for (int i = 0; i < g->n; i++)
        parts[i] = g->of[i].is;
    if (!fine || before.out < 0 || before.bytes > CFX__CUDA_OWN ||
        !cfx__cuda_skinny(&g->of[0].x, &before, g->n, parts, cfx__cuda_precise(), &work)) {
        g->p.n = operands;
        return false;
    }
    g->p.work = work;
    m->p->steps.len--;
    return true;
}

/* Products of few rows from a slot on, which is read already. */
static bool few_rows(group *g) {
    cfx__cuda_making *m = g->p.m;
    if (!cfx__cuda_skinny(&g->of[0].x, NULL, 1, &g->of[0].is, cfx__cuda_precise(), &g->p.work))
        return false;
    m->few = g->of[0].is.constant && g->of[0].os[0] <= CFX__CUDA_FEW;
    while (m->few && grow(g))
        ;
    if (m->few)
        take_loop(g);
    const int last = g->of[g->n - 1].slot;
    if (!cfx__cuda_add_work(m, last, &g->p.work, g->p.n, g->p.refs))
        return false;
    for (int i = 0; i < g->n; i++) {
        if (!cfx__cuda_posts(m, last, &g->of[i].k, g->of[i].done))
            return false;
        m->done = g->of[i].slot;
    }
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* [z, m, k] times [z, k, n], whose columns lie in one piece. */
static bool batches(cfx__cuda_making *m, int slot, cfx__c_work *k) {
    piece p = {.m = m};
    if (k->alpha != 1 || k->bias || k->w->ndim != 3 || k->x->ndim != 3)
        return false;
    const int64_t ws[] = {k->w->shape[0], k->w->shape[2], k->w->shape[1]};
    const int64_t wt[] = {k->w->stride[0], k->w->stride[2], k->w->stride[1]};
    const cfx__cuda_array x = cfx__cuda_array_of(&p, k->x),
                          w = cfx__cuda_array_as(&p, k->w, 3, ws, wt);
    const cfx__cuda_array out = cfx__cuda_array_of(&p, k->out);
    return cfx__cuda_product(&x, &w, NULL, &out, cfx__cuda_precise(), &p.work) &&
           cfx__cuda_finish(&p, slot, k, 0);
}

bool cfx__cuda_points(cfx__cuda_making *m, int slot, cfx__c_work *k, const cfx__cuda_window *win) {
    piece p = {.m = m};
    const cfx__c_ref *x = k->x, *out = k->out;
    const int64_t *s = k->packs->shape, ws[] = {s[0], s[1]}, wt[] = {s[1], 1};
    if (s[2] != 1 || s[3] != 1 || win->groups != 1 || win->padding[0] || win->padding[1] ||
        x->shape[2] != 1 || x->shape[3] != 1 || x->shape[0] > CFX__CUDA_SKINNY)
        return false;
    k->w = cfx__c_constant(&m->c, k->packs, "weight");
    const cfx__cuda_array in = cfx__cuda_array_as(&p, x, 2, x->shape, x->stride);
    cfx__cuda_skinny_part part = {
        .w = {.w = cfx__cuda_array_as(&p, k->w, 2, ws, wt), .scales = none},
        .out = cfx__cuda_array_as(&p, out, 2, out->shape, out->stride),
        .constant = k->w && k->w->where == CFX__C_WEIGHT};
    const int done = cfx__cuda_after_of(&p, k, &part.after);
    part.after.add.ndim = 2;
    return k->w && cfx__cuda_skinny(&in, NULL, 1, &part, cfx__cuda_precise(), &p.work) &&
           cfx__cuda_finish(&p, slot, k, done);
}

bool cfx__cuda_matrix_product(cfx__cuda_making *m, int slot, cfx__c_work *k, const cfx_op *op) {
    group g = {.p = {.m = m}, .n = 1};
    member *b = &g.of[0];
    *b = (member){.k = *k, .slot = slot};
    if (!op->layer.product)
        return batches(m, slot, k);
    if (!read_member(&g.p, b, op))
        return false;
    if (b->os[0] <= CFX__CUDA_SKINNY && few_rows(&g))
        return true;
    g.p.work.n = 0;
    return !b->is.w.bits &&
           cfx__cuda_product(&b->x, &b->is.w.w, &b->is.after, &b->is.out, cfx__cuda_precise(),
                             &g.p.work) &&
           cfx__cuda_finish(&g.p, slot, &b->k, b->done);
}
