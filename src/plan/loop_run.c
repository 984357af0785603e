/* Runs loops on the CPU, block by block, by the functions of their steps. Start at
 * cfx__loop_schedule and cfx__loop_run.
 *
 * Steps are precompiled functions, one for each operator and dtype, so a loop of ten steps makes
 * ten calls for each block; fusion saves no instructions. It saves memory traffic: values between
 * steps stay in the first-level cache. So the size of a block decides the speed: small enough that
 * all live values (registers, allocated by liveness) fit the cache, and large enough that the cost
 * of a call is small beside its elements.
 *
 * Memory with the strides of the iteration is used in place, as an operand or a result. Other
 * memory is copied to a register first; values that repeat within a block (a bias, a broadcast row)
 * are copied once. The iteration follows the strides of the written lanes, and adjacent dimensions
 * are merged, so nearly all loops are one long line. A row that is reduced or normalised is never
 * divided: blocks are whole rows, and values with one number a row are narrow.
 *
 * The schedule depends on sizes and strides and is made anew for others; the steps are shared
 * (cfx__loop_shared). Threads get whole units, so two threads never write one row. */
#include "loop.h"

enum {
    LANES = CFX__LOOP_LANES,
    VALUES = CFX__LOOP_VALUES,
    MEMORY = 192 << 10, /* bytes of blocks, at most */
    AIM = 24 << 10,     /* bytes of blocks that stay in the first-level cache */
    BLOCK_MOST = 4096   /* elements of a block without rows */
};

/* A lane as blocks of it are used: where it is, moved once for all blocks, or moved. */
typedef struct {
    cfx_dtype dtype;
    int size; /* of an element */
    bool narrow;
    enum { IN_PLACE, ONCE, MOVED } how;
} lane;

/* A block of elements: a register, or the memory of a lane where that is in order. */
typedef struct {
    int lane;   /* whose memory it is; -1: none's */
    int last;   /* the step that needs it last */
    bool once;  /* the same for all blocks */
    int64_t at; /* bytes from the start of the registers */
} block_of;

typedef struct cfx__loop_schedule {
    int ndim, row_dims;  /* dimensions of the walk, the first is the innermost; those of a row */
    int64_t row, total;  /* elements of a row (1: no rows), of all */
    int64_t unit, block; /* elements that are not parted, elements of a block */
    int64_t memory;      /* bytes of registers */
    int64_t *shape;      /* of the walk; behind the struct, as are */
    int64_t *stride;     /* ndim of each lane, in bytes */
    lane *lanes;
    block_of *values;    /* by value */
} schedule;

void cfx__loop_schedule_free(cfx__loop *l) { cfx__free(l->schedule); }

static const int64_t *stride_of(const schedule *s, int k) { return s->stride + k * s->ndim; }

/* ---- the walk -------------------------------------------------------------------------------- */

/* Dimensions as they are looked for: in any order, later joined. */
typedef struct {
    cfx__iter_dims dims;
    int row_dims;
    int64_t stride[LANES][CFX_MAX_DIMS];
} walk;

static void set_strides(walk *w, const cfx__loop_lane *from, int64_t *stride) {
    const cfx_tensor *t = from->like;
    if (from->breadth == CFX__LOOP_WIDE) {
        cfx__iter_strides(&w->dims, t, stride);
        return;
    }
    cfx__iter_dims outer = {.ndim = w->dims.ndim - w->row_dims};
    memcpy(outer.shape, w->dims.shape + w->row_dims, (size_t)outer.ndim * sizeof *outer.shape);
    cfx_tensor with = *t;
    if (from->breadth == CFX__LOOP_NARROW_KEPT)
        with.ndim -= t->ndim < w->row_dims ? t->ndim : w->row_dims;
    memset(stride, 0, (size_t)w->row_dims * sizeof *stride);
    cfx__iter_strides(&outer, &with, stride + w->row_dims);
}

/* Brings the dimensions in the order of what is written. */
static void find_order(walk *w, const cfx__loop *l) {
    cfx__iter_dims order = w->dims;
    int64_t sorted[LANES][CFX_MAX_DIMS];
    const size_t size = (size_t)w->dims.ndim * sizeof **sorted;
    int n = 0, index[LANES];
    for (int write = 1; write >= 0; write--)
        for (int i = 0; i < l->nlanes; i++)
            if (l->lanes[i].write == (write == 1)) {
                memcpy(sorted[n], w->stride[i], size);
                index[n++] = i;
            }
    order.stride = sorted;
    cfx__iter_order(&order);
    for (int i = 0; i < n; i++)
        memcpy(w->stride[index[i]], sorted[i], size);
    memcpy(w->dims.shape, order.shape, size);
}

static void find_walk(walk *w, const cfx__loop *l) {
    cfx__iter_dims_of(&w->dims, l->ndim, l->shape);
    w->dims.stride = w->stride;
    w->dims.n = l->nlanes;
    w->row_dims = l->row;
    for (int k = 0; k < l->nlanes; k++)
        set_strides(w, &l->lanes[k], w->stride[k]);
    if (!l->row)
        find_order(w, l);
    cfx__iter_join(&w->dims, &w->row_dims);
}

/* ---- where blocks stand ---------------------------------------------------------------------- */

/* How many of the innermost elements a lane repeats; `total` where it does not. */
static int64_t period_of(const schedule *s, int k) {
    int d = s->ndim;
    while (d > 0 && !stride_of(s, k)[d - 1])
        d--;
    int64_t n = 1;
    for (int i = 0; i < d; i++)
        n *= s->shape[i];
    return n;
}

/* Whether a lane lies in the order of the walk. */
static bool is_linear(const schedule *s, int k) {
    int64_t bytes = s->lanes[k].size;
    for (int d = s->lanes[k].narrow ? s->row_dims : 0; d < s->ndim; d++) {
        if (s->shape[d] != 1 && stride_of(s, k)[d] != bytes)
            return false;
        bytes *= s->shape[d];
    }
    return true;
}

static void place_lane(schedule *s, const cfx__loop *l, int k) {
    lane *a = &s->lanes[k];
    const int v = l->lanes[k].value;
    block_of *b = &s->values[v];
    a->how = is_linear(s, k) ? IN_PLACE : MOVED;
    if (a->how == IN_PLACE && l->lanes[k].write && b->lane < 0 && !l->values[v].number) {
        b->lane = k;
    } else if (l->lanes[k].write) {
        a->how = MOVED;
    } else if (a->how == MOVED) {
        b->lane = -1;
        int64_t period = a->narrow ? s->total : period_of(s, k);
        if (period > BLOCK_MOST || period == s->total)
            return;
        a->how = ONCE;
        b->once = true;
        s->unit = period > s->unit ? period : s->unit;
    }
}

static int size_of(const cfx__loop *l, int v) { return cfx_dtype_size(l->values[v].dtype); }

/* Whether value v cannot have the register of value `owner`: both are needed at once, or it is of
 * another kind. */
static bool is_taken(const schedule *s, const cfx__loop *l, int owner, int v) {
    const cfx__loop_value *a = &l->values[v], *b = &l->values[owner];
    const bool fixed = s->values[v].once || a->number || a->made < 0;
    return s->values[owner].once || b->number || fixed || s->values[owner].last >= a->made ||
           b->narrow != a->narrow || size_of(l, owner) != size_of(l, v);
}

/* Registers by the lifetimes of values: the bytes that each has for an element. */
static void place_values(schedule *s, const cfx__loop *l) {
    int owner[VALUES], n = 0;
    int64_t bytes = 0;
    for (int v = 0; v < l->nvalues; v++)
        s->values[v].last = l->values[v].last;
    for (int i = 0; i < l->nlanes; i++)
        if (l->lanes[i].write) /* moved when all steps are done */
            s->values[l->lanes[i].value].last = l->nsteps;
    for (int v = 0; v < l->nvalues; v++) {
        block_of *a = &s->values[v];
        if (a->lane >= 0)
            continue;
        int r = 0;
        while (r < n && is_taken(s, l, owner[r], v))
            r++;
        a->at = r < n ? s->values[owner[r]].at : bytes;
        if (r == n) {
            n++;
            bytes += l->values[v].narrow ? 0 : size_of(l, v);
        }
        owner[r] = v;
    }
    s->memory = bytes;
}

/* Turns bytes for an element into places: each register begins on a line. */
static bool place_registers(schedule *s, const cfx__loop *l) {
    int64_t aim = s->memory ? AIM / s->memory : BLOCK_MOST;
    aim = aim > BLOCK_MOST ? BLOCK_MOST : aim;
    s->block = (aim / s->unit > 0 ? aim / s->unit : 1) * s->unit;
    if (s->block > s->total)
        s->block = (s->total + s->unit - 1) / s->unit * s->unit;
    if (s->block >= 64 && !l->row && s->unit == 1)
        s->block -= s->block % 64;
    const int64_t rows = (s->block / s->row + 63) / 64 * 64, wide = (s->block + 63) / 64 * 64;
    int64_t narrow_at = s->memory * wide;
    for (int v = 0; v < l->nvalues; v++) {
        block_of *a = &s->values[v];
        if (a->lane >= 0)
            continue;
        if (!l->values[v].narrow) {
            a->at *= wide;
            continue;
        }
        a->at = narrow_at;
        narrow_at += rows * 16;
    }
    s->memory = narrow_at;
    return narrow_at <= MEMORY;
}

/* A schedule with the walk in it, in one piece of memory. */
static schedule *schedule_new(const cfx__loop *l, const walk *w) {
    const int ndim = w->dims.ndim;
    const size_t dims = (size_t)ndim * sizeof(int64_t), lanes = (size_t)l->nlanes;
    schedule *s = cfx__alloc0(sizeof *s + dims * (1 + lanes) + lanes * sizeof *s->lanes +
                              (size_t)l->nvalues * sizeof *s->values);
    s->ndim = ndim;
    s->row_dims = w->row_dims;
    s->shape = (int64_t *)(s + 1);
    s->stride = s->shape + ndim;
    s->values = (block_of *)(s->stride + l->nlanes * ndim);
    s->lanes = (lane *)(s->values + l->nvalues);
    memcpy(s->shape, w->dims.shape, dims);
    for (int k = 0; k < l->nlanes; k++) {
        const cfx_dtype dtype = (cfx_dtype)l->lanes[k].like->dtype;
        memcpy(s->stride + k * ndim, w->stride[k], dims);
        s->lanes[k] = (lane){.dtype = dtype,
                             .size = cfx_dtype_size(dtype),
                             .narrow = l->lanes[k].breadth != CFX__LOOP_WIDE};
    }
    return s;
}

bool cfx__loop_schedule(cfx__loop *l) {
    if (l->full || cfx__loop_row_length(l) > CFX__LOOP_ROW_MOST)
        return false;
    walk w;
    find_walk(&w, l);
    schedule *s = l->schedule = schedule_new(l, &w);
    s->row = cfx__loop_row_length(l);
    s->total = 1;
    for (int i = 0; i < s->ndim; i++)
        s->total *= s->shape[i];
    if (!s->total)
        return false;
    s->unit = s->row;
    for (int v = 0; v < l->nvalues; v++)
        s->values[v].lane = l->values[v].lane;
    for (int k = 0; k < l->nlanes; k++)
        place_lane(s, l, k);
    place_values(s, l);
    return place_registers(s, l);
}

bool cfx__loop_in_place(const cfx__loop *l, int in, int out) {
    const schedule *s = l->schedule;
    const lane *a = &s->lanes[in], *b = &s->lanes[out];
    return a->how == IN_PLACE && b->how == IN_PLACE && a->size == b->size &&
           a->narrow == b->narrow &&
           s->values[l->lanes[in].value].last <= l->values[l->lanes[out].value].made;
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

static void run_rows(const frame *f, const cfx__loop_step *s) {
    const cfx__loop *l = f->loop;
    const int64_t row = l->schedule->row;
    int64_t by[1 + CFX__LOOP_OPERANDS];
    void *p[1 + CFX__LOOP_OPERANDS];
    by[0] = size_of(l, s->out) * (s->kind == CFX__STEP_FOLD ? 1 : row);
    for (int i = 0; i < s->n; i++)
        by[i + 1] = size_of(l, s->in[i]) * row;
    for (int64_t r = 0; r < f->m; r++) {
        p[0] = f->at[s->out] + r * by[0];
        for (int i = 0; i < s->n; i++)
            p[i + 1] = f->at[s->in[i]] + r * by[i + 1];
        s->loop(p, row, s->params);
    }
}

static void run_step(const frame *f, const cfx__loop_step *s) {
    const cfx__loop *l = f->loop;
    const cfx_dtype out = l->values[s->out].dtype, in = l->values[s->in[0]].dtype;
    const int size = cfx_dtype_size(out), from = cfx_dtype_size(in);
    const int64_t n = s->narrow ? f->m : f->n, row = l->schedule->row;
    void *p[1 + CFX__LOOP_OPERANDS];
    switch (s->kind) {
    case CFX__STEP_EACH:
        p[0] = f->at[s->out];
        for (int i = 0; i < s->n; i++)
            p[i + 1] = f->at[s->in[i]];
        s->loop(p, n, s->params);
        break;
    case CFX__STEP_CONVERT:
        cfx__convert(f->at[s->out], size, out, f->at[s->in[0]], from, in, n);
        break;
    case CFX__STEP_WIDEN:
        for (int64_t r = 0; r < f->m; r++)
            cfx__convert(f->at[s->out] + r * row * size, size, out, f->at[s->in[0]] + r * size, 0,
                         in, row);
        break;
    default:
        run_rows(f, s);
    }
}

static void set_cursor(const schedule *s, int k, cfx__iter_cursor *c, char *data, int64_t at) {
    static const int64_t one = 1;
    const int skip = s->lanes[k].narrow ? s->row_dims : 0;
    c->ndim = s->ndim - skip;
    c->shape = c->ndim ? s->shape + skip : &one;
    c->stride = stride_of(s, k) + skip;
    c->ndim = c->ndim ? c->ndim : 1;
    cfx__iter_cursor_set(c, data, s->lanes[k].narrow ? at / s->row : at);
}

/* What stays the same for all blocks. */
static void begin(const frame *f, char *const *data, cfx__iter_cursor *cursors, int64_t at) {
    const cfx__loop *l = f->loop;
    const schedule *s = l->schedule;
    for (int v = 0; v < l->nvalues; v++) {
        const cfx__loop_value *a = &l->values[v];
        if (a->number)
            cfx__convert_in(f->at[v], a->dtype, a->number, 0, a->dtype,
                            a->narrow ? s->block / s->row : s->block);
    }
    for (int k = 0; k < l->nlanes; k++) {
        const lane *a = &s->lanes[k];
        if (a->how == IN_PLACE)
            continue;
        set_cursor(s, k, &cursors[k], data[k], at);
        if (a->how == ONCE)
            cfx__iter_cursor_move(&cursors[k], a->dtype, f->at[l->lanes[k].value], a->dtype,
                                  s->block < s->total - at ? s->block : s->total - at, true);
    }
}

static void run_range(void *arg, int64_t first, int64_t end) {
    const job *j = arg;
    const cfx__loop *l = j->loop;
    const schedule *s = l->schedule;
    _Alignas(64) char memory[MEMORY];
    cfx__iter_cursor cursors[LANES];
    frame f = {.loop = l};
    for (int v = 0; v < l->nvalues; v++)
        f.at[v] = memory + s->values[v].at;
    end = end * s->unit < s->total ? end * s->unit : s->total;
    begin(&f, j->data, cursors, first * s->unit);
    for (int64_t at = first * s->unit; at < end; at += s->block) {
        f.n = end - at < s->block ? end - at : s->block;
        f.m = f.n / s->row;
        for (int k = 0; k < l->nlanes; k++) {
            const lane *a = &s->lanes[k];
            const int v = l->lanes[k].value;
            if (a->how == IN_PLACE)
                f.at[v] = j->data[k] + (a->narrow ? at / s->row : at) * a->size;
            else if (a->how == MOVED && !l->lanes[k].write)
                cfx__iter_cursor_move(&cursors[k], a->dtype, f.at[v], a->dtype,
                                      a->narrow ? f.m : f.n, true);
        }
        for (int i = 0; i < l->nsteps; i++)
            run_step(&f, &l->steps[i]);
        for (int k = 0; k < l->nlanes; k++) {
            const lane *a = &s->lanes[k];
            if (l->lanes[k].write && a->how == MOVED)
                cfx__iter_cursor_move(&cursors[k], a->dtype, f.at[l->lanes[k].value], a->dtype,
                                      a->narrow ? f.m : f.n, false);
        }
    }
}

void cfx__loop_run(const cfx__loop *l, char *const *data) {
    const schedule *s = l->schedule;
    job j = {l, data};
    int64_t grain = CFX__THREAD_WORTH / (l->cost > 0 ? l->cost : 1);
    grain = (grain < 512 ? 512 : grain) / s->unit;
    cfx__parallel((s->total + s->unit - 1) / s->unit, grain ? grain : 1, run_range, &j);
}
