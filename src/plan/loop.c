/* Loop kernels: see loop.h. Start at cfx__loop_run. */
#include "loop.h"

enum {
    LANES = CFX__LOOP_LANES,
    VALUES = 128,       /* its values */
    MEMORY = 192 << 10, /* bytes of blocks, at most */
    AIM = 24 << 10,     /* bytes of blocks that stay in the first-level cache */
    BLOCK_MOST = 4096   /* elements of a block without rows */
};

/* Memory that is read or written. */
typedef struct {
    cfx_dtype dtype;
    int size; /* of an element */
    int value;
    bool write, narrow;
    enum { IN_PLACE, ONCE, MOVED } how;
} lane;

/* A block of elements: a register, or the memory of a lane where that is in order. */
typedef struct {
    cfx_dtype dtype;
    bool narrow;
    int lane;           /* whose memory it is; -1: none's */
    int made, last;     /* the steps that make it and read it last; -1: before the first */
    bool once;          /* the same for all blocks */
    const char *number; /* it is this number everywhere */
    int64_t at;         /* bytes from the start of the registers */
} value;

typedef struct {
    enum { EACH, ROW, FOLD, WIDEN, CONVERT } kind;
    cfx__iter_loop *loop;
    int out, n, in[CFX__LOOP_OPERANDS];
    bool narrow;
    const void *params;
} step;

struct cfx__loop {
    cfx_obj head;
    cfx__arena arena;
    cfx__iter_dims dims;
    int64_t stride[LANES][CFX_MAX_DIMS];
    int row_dims;        /* of dims: the innermost are a row */
    int64_t row, total;  /* elements of a row (1: no rows), of all */
    int64_t unit, block; /* elements that are not parted, elements of a block */
    int nlanes, nvalues, nsteps;
    lane lanes[LANES];
    value values[VALUES];
    step steps[VALUES];
    int64_t cost, memory;
    bool rows, full; /* full: too much was asked for */
};

static void loop_free(void *obj) { cfx__arena_release(&((cfx__loop *)obj)->arena); }

static const cfx__obj_type loop_type = {.name = "loop kernel", .free = loop_free};

/* ---- making ---------------------------------------------------------------------------------- */

cfx__loop *cfx__loop_new(int ndim, const int64_t *shape, int row) {
    cfx__loop *l = cfx__obj_make(&loop_type, sizeof *l);
    cfx__iter_dims_of(&l->dims, ndim, shape);
    l->dims.stride = l->stride;
    l->row_dims = row;
    l->rows = row > 0;
    l->row = l->total = 1;
    for (int i = 0; i < l->dims.ndim; i++) {
        l->total *= l->dims.shape[i];
        l->row *= i < row ? l->dims.shape[i] : 1;
    }
    return l;
}

static int add_value(cfx__loop *l, value v) {
    if (l->nvalues == VALUES) {
        l->full = true;
        return 0;
    }
    l->values[l->nvalues] = v;
    return l->nvalues++;
}

static int add_lane(cfx__loop *l, const cfx_tensor *t, cfx__loop_breadth b) {
    if (l->nlanes == LANES) {
        l->full = true;
        return 0;
    }
    int k = l->nlanes++;
    l->lanes[k] =
        (lane){.dtype = t->dtype, .size = cfx_dtype_size(t->dtype), .narrow = b != CFX__LOOP_WIDE};
    if (b == CFX__LOOP_WIDE) {
        cfx__iter_strides(&l->dims, t, l->stride[k]);
        return k;
    }
    cfx__iter_dims outer = {.ndim = l->dims.ndim - l->row_dims};
    memcpy(outer.shape, l->dims.shape + l->row_dims, (size_t)outer.ndim * sizeof *outer.shape);
    cfx_tensor with = *t;
    if (b == CFX__LOOP_NARROW_KEPT)
        with.ndim -= t->ndim < l->row_dims ? t->ndim : l->row_dims;
    cfx__iter_strides(&outer, &with, l->stride[k] + l->row_dims);
    return k;
}

int cfx__loop_read(cfx__loop *l, const cfx_tensor *t, cfx__loop_breadth b) {
    int k = add_lane(l, t, b);
    return l->lanes[k].value = add_value(
               l, (value){.dtype = t->dtype, .narrow = b != CFX__LOOP_WIDE, .lane = k, .made = -1});
}

/* A step of one operand that is no call's. */
static int add_plain(cfx__loop *l, int kind, int in, cfx_dtype dtype, bool narrow) {
    if (l->nsteps == VALUES) {
        l->full = true;
        return 0;
    }
    const int k = l->nsteps++;
    l->steps[k] = (step){.kind = kind, .n = 1, .in = {in}, .narrow = narrow};
    l->values[in].last = k;
    return l->steps[k].out = add_value(
               l, (value){.dtype = dtype, .narrow = narrow, .lane = -1, .made = k, .last = k});
}

/* A value as a step takes it. */
static int fitted(cfx__loop *l, int v, cfx_dtype as, bool narrow) {
    if (l->values[v].dtype != as)
        v = add_plain(l, CONVERT, v, as, l->values[v].narrow);
    return l->values[v].narrow && !narrow ? add_plain(l, WIDEN, v, as, false) : v;
}

static void *kept(cfx__loop *l, const void *data, size_t size) {
    return memcpy(cfx__arena_alloc(&l->arena, size), data, size);
}

static int number(cfx__loop *l, const cfx__loop_operand *o, bool narrow) {
    return add_value(l, (value){.dtype = o->as,
                                .narrow = narrow,
                                .lane = -1,
                                .made = -1,
                                .number = kept(l, o->number, sizeof o->number)});
}

int cfx__loop_step(cfx__loop *l, const cfx__loop_note *note, const int *in, cfx_dtype dtype,
                   bool narrow) {
    step s = {.kind = note->kind == CFX__LOOP_ROW    ? ROW
                      : note->kind == CFX__LOOP_FOLD ? FOLD
                                                     : EACH,
              .loop = note->loop,
              .n = note->n,
              .narrow = narrow};
    if (note->kind == CFX__LOOP_COPY)
        return add_plain(l, CONVERT, in[0], dtype, narrow);
    const bool narrow_in = narrow && s.kind != FOLD;
    for (int i = 0; i < note->n; i++)
        s.in[i] = in[i] < 0 ? number(l, &note->in[i], narrow_in)
                            : fitted(l, in[i], note->in[i].as, narrow_in);
    s.params = kept(l, note->params, sizeof note->params);
    l->cost += narrow ? 0 : note->cost;
    if (l->nsteps == VALUES) {
        l->full = true;
        return 0;
    }
    const int k = l->nsteps++;
    for (int i = 0; i < s.n; i++)
        l->values[s.in[i]].last = k;
    s.out = add_value(
        l, (value){.dtype = note->gives, .narrow = narrow, .lane = -1, .made = k, .last = k});
    l->steps[k] = s;
    return fitted(l, s.out, dtype, narrow);
}

void cfx__loop_write(cfx__loop *l, int v, const cfx_tensor *t) {
    int k = add_lane(l, t,
                     !l->values[v].narrow      ? CFX__LOOP_WIDE
                     : t->ndim == l->dims.ndim ? CFX__LOOP_NARROW_KEPT
                                               : CFX__LOOP_NARROW_GONE);
    l->lanes[k].write = true;
    l->lanes[k].value = v;
}

/* ---- where blocks stand ---------------------------------------------------------------------- */

/* How many of the innermost elements a lane repeats; `total` where it does not. */
static int64_t period_of(const cfx__loop *l, int k) {
    int d = l->dims.ndim;
    while (d > 0 && !l->stride[k][d - 1])
        d--;
    int64_t n = 1;
    for (int i = 0; i < d; i++)
        n *= l->dims.shape[i];
    return n;
}

/* Whether a lane lies in the order of the walk. */
static bool is_linear(const cfx__loop *l, int k) {
    int64_t bytes = l->lanes[k].size;
    for (int d = l->lanes[k].narrow ? l->row_dims : 0; d < l->dims.ndim; d++) {
        if (l->dims.shape[d] != 1 && l->stride[k][d] != bytes)
            return false;
        bytes *= l->dims.shape[d];
    }
    return true;
}

static void place_lane(cfx__loop *l, int k) {
    lane *a = &l->lanes[k];
    value *v = &l->values[a->value];
    a->how = is_linear(l, k) ? IN_PLACE : MOVED;
    if (a->how == IN_PLACE && a->write && v->lane < 0 && !v->number) {
        v->lane = k;
    } else if (a->write) {
        a->how = MOVED;
    } else if (a->how == MOVED) {
        v->lane = -1;
        int64_t period = a->narrow ? l->total : period_of(l, k);
        if (period > BLOCK_MOST || period == l->total)
            return;
        a->how = ONCE;
        v->once = true;
        l->unit = period > l->unit ? period : l->unit;
    }
}

/* Registers by the lifetimes of values: the bytes that each has for an element. */
static void place_values(cfx__loop *l) {
    int owner[VALUES], n = 0;
    int64_t bytes = 0;
    for (int i = 0; i < l->nlanes; i++)
        if (l->lanes[i].write) /* moved when all steps are done */
            l->values[l->lanes[i].value].last = l->nsteps;
    for (int v = 0; v < l->nvalues; v++) {
        value *a = &l->values[v];
        const bool fixed = a->once || a->number || a->made < 0;
        if (a->lane >= 0)
            continue;
        int r = 0;
        for (; r < n; r++) {
            const value *b = &l->values[owner[r]];
            bool taken = b->once || b->number || fixed || b->last >= a->made ||
                         b->narrow != a->narrow ||
                         cfx_dtype_size(b->dtype) != cfx_dtype_size(a->dtype);
            if (!taken)
                break;
        }
        if (r == n) {
            n++;
            a->at = bytes;
            bytes += (int64_t)cfx_dtype_size(a->dtype) * (a->narrow ? 0 : 1);
        } else {
            a->at = l->values[owner[r]].at;
        }
        owner[r] = v;
    }
    l->memory = bytes;
}

/* Turns bytes for an element into places: each register begins on a line. */
static bool place_registers(cfx__loop *l) {
    int64_t aim = l->memory ? AIM / l->memory : BLOCK_MOST;
    aim = aim > BLOCK_MOST ? BLOCK_MOST : aim;
    l->block = (aim / l->unit > 0 ? aim / l->unit : 1) * l->unit;
    if (l->block > l->total)
        l->block = (l->total + l->unit - 1) / l->unit * l->unit;
    if (l->block >= 64 && !l->rows && l->unit == 1)
        l->block -= l->block % 64;
    const int64_t rows = (l->block / l->row + 63) / 64 * 64, wide = (l->block + 63) / 64 * 64;
    int64_t narrow_at = l->memory * wide;
    for (int v = 0; v < l->nvalues; v++) {
        value *a = &l->values[v];
        if (a->lane >= 0)
            continue;
        if (!a->narrow) {
            a->at *= wide;
            continue;
        }
        a->at = narrow_at;
        narrow_at += rows * 16;
    }
    l->memory = narrow_at;
    return narrow_at <= MEMORY;
}

bool cfx__loop_finish(cfx__loop *l) {
    if (l->full || l->total == 0 || l->row > CFX__LOOP_ROW_MOST)
        return false;
    /* results say in which order to walk: they stand first */
    l->dims.n = l->nlanes;
    if (!l->rows) {
        cfx__iter_dims order = l->dims;
        int64_t(*sorted)[CFX_MAX_DIMS] = cfx__alloc((size_t)l->nlanes * sizeof *sorted);
        int n = 0, index[LANES];
        for (int write = 1; write >= 0; write--)
            for (int i = 0; i < l->nlanes; i++)
                if (l->lanes[i].write == (write == 1)) {
                    memcpy(sorted[n], l->stride[i], sizeof *sorted);
                    index[n++] = i;
                }
        order.stride = sorted;
        cfx__iter_order(&order);
        for (int i = 0; i < n; i++)
            memcpy(l->stride[index[i]], sorted[i], sizeof *sorted);
        memcpy(l->dims.shape, order.shape, sizeof order.shape);
        cfx__free(sorted);
    }
    cfx__iter_join(&l->dims, &l->row_dims);
    l->unit = l->row;
    for (int k = 0; k < l->nlanes; k++)
        place_lane(l, k);
    place_values(l);
    return place_registers(l);
}

bool cfx__loop_in_place(const cfx__loop *l, int in, int out) {
    const lane *a = &l->lanes[in], *b = &l->lanes[out];
    return a->how == IN_PLACE && b->how == IN_PLACE && a->size == b->size &&
           a->narrow == b->narrow && l->values[a->value].last <= l->values[b->value].made;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct {
    const cfx__loop *loop;
    char *const *data;
} job;

typedef struct {
    const cfx__loop *loop;
    char *at[VALUES];
    int64_t n, m; /* elements and rows of the block */
} frame;

static void run_rows(const frame *f, const step *s) {
    const cfx__loop *l = f->loop;
    int64_t by[1 + CFX__LOOP_OPERANDS];
    void *p[1 + CFX__LOOP_OPERANDS];
    by[0] = cfx_dtype_size(l->values[s->out].dtype) * (s->kind == FOLD ? 1 : l->row);
    for (int i = 0; i < s->n; i++)
        by[i + 1] = cfx_dtype_size(l->values[s->in[i]].dtype) * l->row;
    for (int64_t r = 0; r < f->m; r++) {
        p[0] = f->at[s->out] + r * by[0];
        for (int i = 0; i < s->n; i++)
            p[i + 1] = f->at[s->in[i]] + r * by[i + 1];
        s->loop(p, l->row, s->params);
    }
}

static void run_step(const frame *f, const step *s) {
    const cfx__loop *l = f->loop;
    const value *out = &l->values[s->out], *in = &l->values[s->in[0]];
    const int size = cfx_dtype_size(out->dtype), from = cfx_dtype_size(in->dtype);
    const int64_t n = s->narrow ? f->m : f->n;
    void *p[1 + CFX__LOOP_OPERANDS];
    switch (s->kind) {
    case EACH:
        p[0] = f->at[s->out];
        for (int i = 0; i < s->n; i++)
            p[i + 1] = f->at[s->in[i]];
        s->loop(p, n, s->params);
        break;
    case CONVERT:
        cfx__convert(f->at[s->out], size, out->dtype, f->at[s->in[0]], from, in->dtype, n);
        break;
    case WIDEN:
        for (int64_t r = 0; r < f->m; r++)
            cfx__convert(f->at[s->out] + r * l->row * size, size, out->dtype,
                         f->at[s->in[0]] + r * size, 0, in->dtype, l->row);
        break;
    default:
        run_rows(f, s);
    }
}

static void set_cursor(const cfx__loop *l, int k, cfx__iter_cursor *c, char *data, int64_t at) {
    static const int64_t one = 1;
    const int skip = l->lanes[k].narrow ? l->row_dims : 0;
    c->ndim = l->dims.ndim - skip;
    c->shape = c->ndim ? l->dims.shape + skip : &one;
    c->stride = l->stride[k] + skip;
    c->ndim = c->ndim ? c->ndim : 1;
    cfx__iter_cursor_set(c, data, l->lanes[k].narrow ? at / l->row : at);
}

/* What stays the same for all blocks. */
static void begin(const frame *f, char *const *data, cfx__iter_cursor *cursors, int64_t at) {
    const cfx__loop *l = f->loop;
    for (int v = 0; v < l->nvalues; v++)
        if (l->values[v].number)
            cfx__convert_in(f->at[v], l->values[v].dtype, l->values[v].number, 0,
                            l->values[v].dtype, l->values[v].narrow ? l->block / l->row : l->block);
    for (int k = 0; k < l->nlanes; k++) {
        const lane *a = &l->lanes[k];
        if (a->how == IN_PLACE)
            continue;
        set_cursor(l, k, &cursors[k], data[k], at);
        if (a->how == ONCE)
            cfx__iter_cursor_move(&cursors[k], a->dtype, f->at[a->value], a->dtype,
                                  l->block < l->total - at ? l->block : l->total - at, true);
    }
}

static void run_range(void *arg, int64_t first, int64_t end) {
    const job *j = arg;
    const cfx__loop *l = j->loop;
    _Alignas(64) char memory[MEMORY];
    cfx__iter_cursor cursors[LANES];
    frame f = {.loop = l};
    for (int v = 0; v < l->nvalues; v++)
        f.at[v] = memory + l->values[v].at;
    end = end * l->unit < l->total ? end * l->unit : l->total;
    begin(&f, j->data, cursors, first * l->unit);
    for (int64_t at = first * l->unit; at < end; at += l->block) {
        f.n = end - at < l->block ? end - at : l->block;
        f.m = f.n / l->row;
        for (int k = 0; k < l->nlanes; k++) {
            const lane *a = &l->lanes[k];
            if (a->how == IN_PLACE)
                f.at[a->value] = j->data[k] + (a->narrow ? at / l->row : at) * a->size;
            else if (a->how == MOVED && !a->write)
                cfx__iter_cursor_move(&cursors[k], a->dtype, f.at[a->value], a->dtype,
                                      a->narrow ? f.m : f.n, true);
        }
        for (int i = 0; i < l->nsteps; i++)
            run_step(&f, &l->steps[i]);
        for (int k = 0; k < l->nlanes; k++) {
            const lane *a = &l->lanes[k];
            if (a->write && a->how == MOVED)
                cfx__iter_cursor_move(&cursors[k], a->dtype, f.at[a->value], a->dtype,
                                      a->narrow ? f.m : f.n, false);
        }
    }
}

void cfx__loop_run(const cfx__loop *l, char *const *data) {
    job j = {l, data};
    int64_t grain = CFX__THREAD_WORTH / (l->cost > 0 ? l->cost : 1);
    grain = (grain < 512 ? 512 : grain) / l->unit;
    cfx__parallel((l->total + l->unit - 1) / l->unit, grain ? grain : 1, run_range, &j);
}
