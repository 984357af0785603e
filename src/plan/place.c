/* Arena allocation: assigns each result of a plan's kernels an offset at which it does not
 * overlap any value that is still live. room.c provides the memory. Start at cfx__plan_place. */
#include "plan.h"

enum { LINE = 64 }; /* bytes */
static const int64_t most_bytes = (int64_t)1 << 60; /* of a room: sizes still add up behind it */

const cfx_tensor *cfx__plan_made(const cfx__plan *p, int slot) {
    const cfx__plan_kernel *k = &p->kernels[slot];
    return k->kind == CFX__PLAN_LAYER ? cfx__layer_out(k->layer) : cfx_as_tensor(p->given[slot]);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

typedef struct {
    const cfx__lowering *l;
    const cfx__plan *plan;
    int *last;     /* these three are cfx__plan_lives */
    int *root;
    bool *escapes;
    bool *given;   /* by slot: its place went to a result that is written over it */
    int now;
} placing;

static void note_last(void *user, int slot) {
    placing *p = user;
    if (p->last[slot] < p->now)
        p->last[slot] = p->now;
}

/* Whether the target writes the result of kernel k, a call, where the plan says: one tensor, made
 * anew. */
static bool is_written_anew(const cfx__plan *p, int k) {
    const cfx__plan_kernel *kernel = &p->kernels[k];
    return kernel->kind == CFX__PLAN_CALL && p->target->places &&
           p->given[k].tag == CFX_TAG_TENSOR &&
           !cfx__op_call_writes(kernel->op, kernel->step->bound) && p->target->places(kernel);
}

/* Whether a kernel may give memory that it was given. */
static bool may_alias(const cfx__plan *p, int slot) {
    const cfx__plan_kernel *k = &p->kernels[slot];
    return k->kind == CFX__PLAN_PASS || k->kind == CFX__PLAN_ITEM || k->kind == CFX__PLAN_VIEW ||
           k->kind == CFX__PLAN_HIGHER ||
           (k->kind == CFX__PLAN_CALL && !cfx__plan_makes_own(k->op) && !is_written_anew(p, slot));
}

static void take_root(void *user, int slot) {
    placing *p = user;
    p->root[p->now] =
        p->root[p->now] == p->now || p->root[p->now] == p->root[slot] ? p->root[slot] : -1;
}

static void hand_down(void *user, int slot) {
    placing *p = user;
    p->escapes[slot] |= p->escapes[p->now];
    if (p->last[slot] < p->last[p->now])
        p->last[slot] = p->last[p->now];
}

static void note_escape(void *user, int slot) { ((placing *)user)->escapes[slot] = true; }

static void find_lives(placing *p) {
    const cfx__plan *plan = p->plan;
    for (p->now = 0; p->now < plan->n; p->now++) {
        const cfx__plan_kernel *k = &plan->kernels[p->now];
        p->last[p->now] = p->root[p->now] = p->now;
        if (k->kind == CFX__PLAN_VIEW)
            p->root[p->now] = p->root[k->x];
        else if (may_alias(plan, p->now))
            cfx__plan_each_kernel_read(k, take_root, p);
        cfx__plan_each_kernel_read(k, note_last, p);
        if (k->kind == CFX__PLAN_OUTPUT)
            cfx__plan_each_kernel_read(k, note_escape, p);
    }
    for (p->now = plan->n - 1; p->now >= 0; p->now--)
        if (may_alias(plan, p->now))
            cfx__plan_each_kernel_read(&plan->kernels[p->now], hand_down, p);
    for (int k = 0; k < plan->n; k++) { /* parts lie in the memory of the whole */
        const int home = plan->home[k];
        if (home < 0 || p->escapes[home])
            continue;
        p->root[k] = home;
        p->last[home] = p->last[home] > p->last[k] ? p->last[home] : p->last[k];
    }
}

/* ---- offsets --------------------------------------------------------------------------------- */

/* A piece of the block that is free. */
typedef struct {
    int64_t at, size;
} gap;

typedef struct {
    VEC(gap) gaps; /* by place; never next to each other */
    int64_t end;
} block;

static int64_t bytes_of(const cfx_tensor *t) {
    int64_t n = 1;
    if (!t->numel)
        return 0;
    for (int i = 0; i < t->ndim; i++)
        n += (t->shape[i] - 1) * t->stride[i];
    n *= cfx_dtype_size((cfx_dtype)t->dtype);
    return (n + LINE - 1) / LINE * LINE;
}

/* Whether the memory of a result may be that of another. */
static bool shares(const cfx__plan *p, int slot) {
    return bytes_of(cfx__plan_made(p, slot)) > p->target->own_most;
}

/* The smallest gap that is large enough, or the end, where a gap that reaches there is used. */
static int64_t take(block *b, int64_t size) {
    int best = -1;
    for (size_t i = 0; i < b->gaps.len; i++)
        if (b->gaps.data[i].size >= size &&
            (best < 0 || b->gaps.data[i].size < b->gaps.data[best].size))
            best = (int)i;
    gap *g = best >= 0 ? &b->gaps.data[best] : NULL;
    gap *tail = b->gaps.len ? &b->gaps.data[b->gaps.len - 1] : NULL;
    if (!g && tail && tail->at + tail->size == b->end) {
        b->end = tail->at + size;
        b->gaps.len--;
        return b->end - size;
    }
    if (!g) {
        b->end += size;
        return b->end - size;
    }
    int64_t at = g->at;
    g->at += size;
    g->size -= size;
    if (!g->size) {
        memmove(g, g + 1, (b->gaps.len - (size_t)best - 1) * sizeof *g);
        b->gaps.len--;
    }
    return at;
}

static void give(block *b, int64_t at, int64_t size) {
    size_t i = 0;
    while (i < b->gaps.len && b->gaps.data[i].at < at)
        i++;
    if (i > 0 && b->gaps.data[i - 1].at + b->gaps.data[i - 1].size == at) {
        gap *g = &b->gaps.data[i - 1];
        g->size += size;
        if (i < b->gaps.len && g->at + g->size == b->gaps.data[i].at) {
            g->size += b->gaps.data[i].size;
            memmove(g + 1, g + 2, (b->gaps.len - i - 1) * sizeof *g);
            b->gaps.len--;
        }
        return;
    }
    if (i < b->gaps.len && at + size == b->gaps.data[i].at) {
        b->gaps.data[i].at = at;
        b->gaps.data[i].size += size;
        return;
    }
    gap new = {at, size};
    VEC_PUSH(b->gaps, new);
    memmove(&b->gaps.data[i + 1], &b->gaps.data[i], (b->gaps.len - i - 1) * sizeof new);
    b->gaps.data[i] = new;
}

/* Whether the place of slot s can be given to what kernel `now` writes: nothing looks there later,
 * and the kernel reads it nowhere else. */
static bool is_spare(const placing *p, int s) {
    const cfx__plan *plan = p->plan;
    const cfx__plan_kernel *k = &plan->kernels[p->now];
    if (plan->offset[s] < 0 || p->last[s] != p->now || p->given[s])
        return false;
    int same = 0;
    for (int i = 0; i < k->nreads; i++)
        same += p->root[k->reads[i]] == p->root[s] || p->root[k->reads[i]] < 0;
    if (k->kind == CFX__PLAN_LAYER)
        same += (p->root[k->x] == p->root[s] || p->root[k->x] < 0) + (k->add >= 0);
    return same == 1;
}

/* A slot whose place the result number i of kernel `now` can have, or -1. */
static int spare_for(const placing *p, int i, int64_t bytes) {
    const cfx__plan *plan = p->plan;
    const cfx__plan_kernel *k = &plan->kernels[p->now];
    if (k->kind != CFX__PLAN_LOOP)
        return k->add >= 0 && is_spare(p, k->add) &&
                       cfx__plan_lies_like(cfx__plan_made(plan, k->add), cfx__layer_out(k->layer))
                   ? k->add
                   : -1;
    for (int r = 0; r < k->nreads; r++)
        if (is_spare(p, k->reads[r]) && plan->target->in_place &&
            plan->target->in_place(k->loop, r, k->nreads + i) &&
            bytes_of(cfx__plan_made(plan, k->reads[r])) == bytes)
            return k->reads[r];
    return -1;
}

/* Whether a result is made where its home is. */
static bool is_at_home(const placing *p, int slot) {
    const cfx__plan *plan = p->plan;
    const int home = plan->home[slot];
    if (home < 0 || p->escapes[home] || plan->kernels[home].kind != CFX__PLAN_JOIN)
        return false;
    const cfx_tensor *made = cfx__plan_made(plan, slot), *whole = cfx_as_tensor(plan->given[home]);
    for (int i = 0; i < made->ndim; i++)
        if (made->stride[i] != whole->stride[i])
            return false;
    return true;
}

static void place_result(placing *p, block *b, int i, int slot) {
    cfx__plan *plan = p->l->plan;
    if (p->escapes[slot] || b->end > most_bytes)
        return;
    if (is_at_home(p, slot)) {
        const int home = plan->home[slot];
        if (plan->offset[home] < 0)
            plan->offset[home] = take(b, bytes_of(cfx__plan_made(plan, home)));
        plan->offset[slot] = plan->offset[home] + cfx__plan_home_offset(plan, slot);
        p->given[slot] = true;
        return;
    }
    const int64_t bytes = bytes_of(cfx__plan_made(plan, slot));
    const int spare = shares(plan, slot) ? spare_for(p, i, bytes) : -1;
    if (spare >= 0)
        p->given[spare] = true;
    plan->offset[slot] = spare >= 0 ? plan->offset[spare] : take(b, bytes);
}

static void place_all(placing *p) {
    cfx__plan *plan = p->l->plan;
    block b = {.end = 0};
    int *first = cfx__alloc0((size_t)(plan->n + 2) * sizeof *first);
    int *dying = cfx__alloc((size_t)(plan->n + 1) * sizeof *dying);
    for (int k = 0; k < plan->n; k++)
        first[p->last[k] + 2]++;
    for (int k = 0; k < plan->n; k++)
        first[k + 2] += first[k + 1];
    for (int k = 0; k < plan->n; k++)
        dying[first[p->last[k] + 1]++] = k;
    for (p->now = 0; p->now < plan->n; p->now++) {
        const cfx__plan_kernel *k = &plan->kernels[p->now];
        if (k->kind == CFX__PLAN_LAYER ||
            (is_written_anew(plan, p->now) && !p->l->ordered[p->now]) ||
            (k->kind == CFX__PLAN_JOIN && plan->offset[p->now] < 0))
            place_result(p, &b, 0, p->now);
        for (int i = 0; i < k->nwrites; i++)
            place_result(p, &b, i, k->writes[i]);
        for (int i = first[p->now]; i < first[p->now + 1]; i++)
            if (plan->offset[dying[i]] >= 0 && !p->given[dying[i]] && shares(plan, dying[i]))
                give(&b, plan->offset[dying[i]], bytes_of(cfx__plan_made(plan, dying[i])));
    }
    plan->room_bytes = b.end;
    VEC_FREE(b.gaps);
    cfx__free(first);
    cfx__free(dying);
}

cfx__plan_lives *cfx__plan_lives_of(const cfx__plan *p) {
    const size_t n = (size_t)p->n;
    cfx__plan_lives *v = cfx__alloc0(sizeof *v + 2 * n * sizeof(int) + n * sizeof(bool));
    v->last = (int *)(v + 1);
    v->root = v->last + n;
    v->escapes = (bool *)(v->root + n);
    placing at = {.plan = p, .last = v->last, .root = v->root, .escapes = v->escapes};
    find_lives(&at);
    return v;
}

bool cfx__plan_place_by(cfx__lowering *l, const cfx__plan_lives *v) {
    placing p = {.l = l, .plan = l->plan, .last = v->last, .root = v->root, .escapes = v->escapes};
    p.given = cfx__alloc0((size_t)l->plan->n + 1);
    place_all(&p);
    cfx__free(p.given);
    return l->plan->room_bytes <= most_bytes;
}

bool cfx__plan_place(cfx__lowering *l) {
    cfx__plan_lives *v = cfx__plan_lives_of(l->plan);
    const bool fine = cfx__plan_place_by(l, v);
    cfx__free(v);
    return fine;
}
