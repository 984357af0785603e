/* Loops as descriptions: see loop.h. */
#include "loop.h"

enum { FIRST = 512 }; /* bytes of the first piece of the arena */

static void loop_free(void *obj) {
    cfx__loop *l = obj;
    for (int i = 0; i < l->nlanes; i++)
        cfx_drop(l->lanes[i].like);
    cfx__loop_schedule_free(l);
    cfx_drop(l->of);
    cfx__arena_release(&l->arena);
}

static const cfx__obj_type loop_type = {.name = "loop kernel", .free = loop_free};

cfx__loop *cfx__loop_new(int ndim, const int64_t *shape, int row) {
    cfx__loop *l = cfx__obj_make(&loop_type, sizeof *l);
    l->ndim = ndim;
    l->row = row;
    l->arena.size = FIRST / 2; /* the first piece is twice that: most loops are short */
    memcpy(l->shape, shape, (size_t)ndim * sizeof *shape);
    return l;
}

int64_t cfx__loop_row_length(const cfx__loop *l) {
    int64_t n = 1;
    for (int i = l->ndim - l->row; i < l->ndim; i++)
        n *= l->shape[i];
    return n;
}

/* n items of a size, with room for one more: it doubles when n is a power of two. */
static void *grown(cfx__loop *l, void *items, int n, size_t size) {
    if (n & (n - 1) || n == 1) /* 1 and 2 come together */
        return items;
    void *more = cfx__arena_alloc(&l->arena, (size_t)(n ? 2 * n : 2) * size);
    return n ? memcpy(more, items, (size_t)n * size) : more;
}

static int add_value(cfx__loop *l, cfx__loop_value v) {
    if (l->nvalues == CFX__LOOP_VALUES) {
        l->full = true;
        return 0;
    }
    l->values = grown(l, l->values, l->nvalues, sizeof v);
    l->values[l->nvalues] = v;
    return l->nvalues++;
}

static int add_lane(cfx__loop *l, cfx_tensor *t, cfx__loop_breadth b) {
    if (l->nlanes == CFX__LOOP_LANES) {
        l->full = true;
        return 0;
    }
    l->lanes = grown(l, l->lanes, l->nlanes, sizeof *l->lanes);
    l->lanes[l->nlanes] = (cfx__loop_lane){.like = cfx_keep(t), .breadth = b};
    return l->nlanes++;
}

int cfx__loop_read(cfx__loop *l, cfx_tensor *t, cfx__loop_breadth b) {
    const int k = add_lane(l, t, b);
    return l->lanes[k].value =
               add_value(l, (cfx__loop_value){.dtype = (cfx_dtype)t->dtype,
                                              .narrow = b != CFX__LOOP_WIDE,
                                              .lane = k,
                                              .made = -1});
}

/* Adds a step whose operands are set; its result. */
static int add_step(cfx__loop *l, cfx__loop_step s, cfx_dtype gives) {
    if (l->nsteps == CFX__LOOP_VALUES) {
        l->full = true;
        return 0;
    }
    const int k = l->nsteps++;
    for (int i = 0; i < s.n; i++)
        l->values[s.in[i]].last = k;
    s.out = add_value(l, (cfx__loop_value){.dtype = gives,
                                           .narrow = s.narrow,
                                           .lane = -1,
                                           .made = k,
                                           .last = k});
    l->steps = grown(l, l->steps, k, sizeof s);
    l->steps[k] = s;
    return s.out;
}

/* A step of one operand that is no call's. */
static int add_plain(cfx__loop *l, cfx__loop_action kind, int in, cfx_dtype dtype, bool narrow) {
    return add_step(l, (cfx__loop_step){.kind = kind, .n = 1, .in = {in}, .narrow = narrow}, dtype);
}

/* A value as a step takes it. */
static int fitted(cfx__loop *l, int v, cfx_dtype as, bool narrow) {
    if (l->values[v].dtype != as)
        v = add_plain(l, CFX__STEP_CONVERT, v, as, l->values[v].narrow);
    return l->values[v].narrow && !narrow ? add_plain(l, CFX__STEP_WIDEN, v, as, false) : v;
}

static void *kept(cfx__loop *l, const void *data, size_t size) {
    return memcpy(cfx__arena_alloc(&l->arena, size), data, size);
}

static int number(cfx__loop *l, const cfx__loop_operand *o, bool narrow) {
    return add_value(l, (cfx__loop_value){.dtype = o->as,
                                          .narrow = narrow,
                                          .lane = -1,
                                          .made = -1,
                                          .number = kept(l, o->number, sizeof o->number)});
}

int cfx__loop_step_add(cfx__loop *l, const cfx__loop_note *note, const int *in, cfx_dtype dtype,
                       bool narrow) {
    if (note->kind == CFX__LOOP_COPY)
        return add_plain(l, CFX__STEP_CONVERT, in[0], dtype, narrow);
    cfx__loop_step s = {.kind = note->kind == CFX__LOOP_ROW    ? CFX__STEP_ROW
                                : note->kind == CFX__LOOP_FOLD ? CFX__STEP_FOLD
                                                               : CFX__STEP_EACH,
                        .says = note->says,
                        .loop = note->loop,
                        .n = note->n,
                        .narrow = narrow};
    const bool narrow_in = narrow && s.kind != CFX__STEP_FOLD;
    for (int i = 0; i < note->n; i++)
        s.in[i] = in[i] < 0 ? number(l, &note->in[i], narrow_in)
                            : fitted(l, in[i], note->in[i].as, narrow_in);
    s.params = kept(l, note->params, sizeof note->params);
    l->cost += narrow ? 0 : note->cost;
    return fitted(l, add_step(l, s, note->gives), dtype, narrow);
}

void cfx__loop_write(cfx__loop *l, int v, cfx_tensor *t) {
    const int k = add_lane(l, t,
                           !l->values[v].narrow ? CFX__LOOP_WIDE
                           : t->ndim == l->ndim ? CFX__LOOP_NARROW_KEPT
                                                : CFX__LOOP_NARROW_GONE);
    l->lanes[k].write = true;
    l->lanes[k].value = v;
}

/* ---- at another shape ------------------------------------------------------------------------ */

static bool same_value(const cfx__loop_value *a, const cfx__loop_value *b) {
    return a->dtype == b->dtype && a->narrow == b->narrow && a->lane == b->lane &&
           a->made == b->made && a->last == b->last && !a->number == !b->number &&
           (!a->number || !memcmp(a->number, b->number, sizeof((cfx__loop_operand *)0)->number));
}

static bool same_step(const cfx__loop_step *a, const cfx__loop_step *b) {
    return a->kind == b->kind && a->out == b->out && a->n == b->n && a->narrow == b->narrow &&
           a->loop == b->loop && !memcmp(a->in, b->in, sizeof a->in) &&
           !memcmp(&a->says, &b->says, sizeof a->says) && !a->params == !b->params &&
           (!a->params || !memcmp(a->params, b->params, sizeof((cfx__loop_note *)0)->params));
}

static bool same_program(const cfx__loop *a, const cfx__loop *b) {
    bool same = a->nvalues == b->nvalues && a->nsteps == b->nsteps && a->nlanes == b->nlanes;
    for (int i = 0; i < a->nvalues && same; i++)
        same = same_value(&a->values[i], &b->values[i]);
    for (int i = 0; i < a->nsteps && same; i++)
        same = same_step(&a->steps[i], &b->steps[i]);
    return same;
}

cfx__loop *cfx__loop_shared(cfx__loop *l, cfx__loop *with) {
    const size_t lanes = (size_t)l->nlanes * sizeof *l->lanes;
    if (!same_program(l, with))
        return l;
    cfx__loop *own = cfx__obj_make(&loop_type, sizeof *own + lanes);
    const cfx_obj head = own->head;
    *own = *l;
    own->head = head;
    own->arena = (cfx__arena){0};
    own->lanes = memcpy(own + 1, l->lanes, lanes);
    own->of = cfx_keep(with->of ? with->of : with);
    own->values = own->of->values;
    own->steps = own->of->steps;
    l->nlanes = 0; /* their tensors and the schedule went over */
    l->schedule = NULL;
    cfx_drop(l);
    return own;
}
