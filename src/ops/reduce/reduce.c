/* The engine behind every reduction. Start at reduce_run.
 *
 * Dims that stay and dims that go are each ordered by stride and joined where the input walks them
 * as one. A tile is the innermost dim of both kinds; outer dims are counted through. Work is shared
 * among threads by results where there are enough of them, else by parts of the input. */
#include "../reduce.h"

enum {
    MAX_RESULTS = 512,  /* of a tile: their accumulators stay in the first-level cache */
    BLOCK = 2048,       /* elements converted at a time */
    MAX_PARTS = 32,     /* that one input is shared out into */
    MANY_ROWS = 256,    /* enough for parts of some */
    WIDE = 256          /* narrow columns are taken several rows at a time, up to this width */
};

typedef struct {
    int n;
    int64_t size[CFX_MAX_DIMS], in[CFX_MAX_DIMS], out[CFX_MAX_DIMS]; /* strides: bytes, elements */
} axes;

typedef struct {
    const reduction *r;
    axes keep, gone;
    int64_t outs, count;  /* results; elements of each */
    int64_t width, blocks; /* results of a tile; tiles along the innermost kept dim */
    int elem;             /* bytes of an input element */
    char *parts;          /* accumulators of each part, where the input is shared out */
    int64_t nparts;
} plan;

/* ---- planning -------------------------------------------------------------------------------- */

static void axis_add(axes *a, int64_t size, int64_t in, int64_t out) {
    int k = a->n++;
    for (; k > 0 && llabs(a->in[k - 1]) > llabs(in); k--) {
        a->size[k] = a->size[k - 1];
        a->in[k] = a->in[k - 1];
        a->out[k] = a->out[k - 1];
    }
    a->size[k] = size;
    a->in[k] = in;
    a->out[k] = out;
}

static void axes_join(axes *a) {
    int last = 0;
    for (int d = 1; d < a->n; d++) {
        if (a->in[d] == a->in[last] * a->size[last] && a->out[d] == a->out[last] * a->size[last]) {
            a->size[last] *= a->size[d];
            continue;
        }
        last++;
        a->size[last] = a->size[d];
        a->in[last] = a->in[d];
        a->out[last] = a->out[d];
    }
    a->n = a->n ? last + 1 : 0;
    if (!a->n) {
        a->n = 1;
        a->size[0] = 1;
        a->in[0] = a->out[0] = 0;
    }
}

static void plan_make(plan *p, const reduction *r) {
    const cfx_tensor *x = r->x;
    p->r = r;
    p->elem = cfx_dtype_size(x->dtype);
    p->outs = p->count = 1;
    p->keep.n = p->gone.n = 0;
    p->parts = NULL;
    for (int d = x->ndim - 1; d >= 0; d--) {
        bool gone = r->mask >> d & 1;
        /* absurd only where nothing is reached by it */
        int64_t step = (int64_t)((uint64_t)x->stride[d] * (uint64_t)p->elem);
        if (x->shape[d] != 1 && gone)
            axis_add(&p->gone, x->shape[d], step, 0);
        else if (x->shape[d] != 1)
            axis_add(&p->keep, x->shape[d], step, p->outs);
        if (gone)
            p->count *= x->shape[d];
        else
            p->outs *= x->shape[d];
    }
    axes_join(&p->keep);
    axes_join(&p->gone);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Narrow dense columns (a few results, many rows): several rows are taken as one wide row, and its
 * groups of accumulators are merged afterwards. */
static bool fold_narrow(const plan *p, char *acc, reduce_tile t) {
    const reduce_loops *l = p->r->loops;
    if (p->r->ordered || t.sk != 1 || t.nk >= WIDE / 4 || t.sr != t.nk || t.nr < WIDE)
        return false;
    int64_t group = WIDE / t.nk, wide = group * t.nk, rows = t.nr / group;
    _Alignas(64) char more[WIDE * 32];
    if ((size_t)(wide * l->size) > sizeof more)
        return false;
    l->start(more, wide);
    reduce_tile w = t;
    w.nk = wide;
    w.nr = rows;
    w.sr = wide;
    l->fold(more, &w);
    for (int64_t g = 0; g < group; g++)
        l->merge(acc, more + g * t.nk * l->size, t.nk);
    w = t;
    w.x = (const char *)t.x + rows * wide * cfx_dtype_size(p->r->as);
    w.nr = t.nr - rows * group;
    if (w.nr)
        l->fold(acc, &w);
    return true;
}

static void fold_direct(const plan *p, char *acc, const reduce_tile *t) {
    if (!fold_narrow(p, acc, *t))
        p->r->loops->fold(acc, t);
}

/* A tile in another dtype: blocks of it are converted, rows or columns, whichever lie closer. */
static void fold_converted(const plan *p, char *acc, const char *x, int64_t nk, int64_t sk,
                           int64_t nr, int64_t sr, int64_t first) {
    _Alignas(64) char block[BLOCK * 16];
    const reduction *r = p->r;
    int size = cfx_dtype_size(r->as);
    bool rows = nk == 1 || (nr > 1 && llabs(sr) <= llabs(sk));
    int64_t fast = rows ? nr : nk, slow = rows ? nk : nr;
    int64_t sfast = rows ? sr : sk, sslow = rows ? sk : sr;
    for (int64_t f = 0; f < fast; f += BLOCK) {
        int64_t n = fast - f < BLOCK ? fast - f : BLOCK, batch = BLOCK / n;
        for (int64_t s = 0; s < slow; s += batch) {
            int64_t m = slow - s < batch ? slow - s : batch;
            const char *from = x + f * sfast + s * sslow;
            if (sslow == n * sfast)
                cfx__convert_in(block, r->as, from, sfast, r->x->dtype, n * m);
            else
                for (int64_t i = 0; i < m; i++)
                    cfx__convert_in(block + i * n * size, r->as, from + i * sslow, sfast,
                                    r->x->dtype, n);
            reduce_tile t = {block, m, n, n, 1, first + f, r->params};
            if (!rows)
                t = (reduce_tile){block, n, 1, m, n, first + s, r->params};
            fold_direct(p, acc + (rows ? s : f) * r->loops->size, &t);
        }
    }
}

static void fold_tile(const plan *p, char *acc, const char *x, int64_t nk, int64_t nr,
                      int64_t first) {
    int64_t sk = p->keep.in[0], sr = p->gone.in[0];
    if (p->r->as != p->r->x->dtype) {
        fold_converted(p, acc, x, nk, sk, nr, sr, first);
        return;
    }
    reduce_tile t = {x, nk, sk / p->elem, nr, sr / p->elem, first, p->r->params};
    fold_direct(p, acc, &t);
}

/* Folds elements [begin, end) of the outermost dim that goes, and all of the others, into acc. */
static void fold_gone(const plan *p, char *acc, const char *x, int64_t nk, int64_t begin,
                      int64_t end) {
    const axes *a = &p->gone;
    int top = a->n - 1;
    if (top == 0) {
        fold_tile(p, acc, x + begin * a->in[0], nk, end - begin, begin);
        return;
    }
    int64_t index[CFX_MAX_DIMS] = {0};
    x += begin * a->in[top];
    for (index[top] = begin; index[top] < end;) {
        fold_tile(p, acc, x, nk, a->size[0], 0);
        int d = 1;
        for (;; d++) {
            index[d]++;
            x += a->in[d];
            if (d == top || index[d] < a->size[d])
                break;
            x -= index[d] * a->in[d];
            index[d] = 0;
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static void put(const plan *p, const char *acc, int64_t at, int64_t n) {
    const reduction *r = p->r;
    _Alignas(64) char block[2][MAX_RESULTS * 16];
    void *to[2];
    bool direct[2] = {false, false};
    int64_t step = p->keep.out[0];
    for (int i = 0; i < r->nout; i++) {
        int size = cfx_dtype_size(r->out_as[i]);
        direct[i] = r->out[i]->dtype == r->out_as[i] && (step == 1 || n == 1);
        to[i] = direct[i] ? r->out[i]->data + at * size : block[i];
    }
    r->loops->finish(to, acc, n, p->count, r->params);
    for (int i = 0; i < r->nout; i++) {
        int size = cfx_dtype_size(r->out[i]->dtype);
        if (!direct[i])
            cfx__convert_out(r->out[i]->data + at * size, step * size, r->out[i]->dtype, block[i],
                             r->out_as[i], n);
    }
}

/* Where block number `unit` of results begins in the input and the output, and how many it has. */
static int64_t unit_at(const plan *p, int64_t unit, const char **x, int64_t *out) {
    const axes *a = &p->keep;
    int64_t first = unit % p->blocks * p->width, rest = unit / p->blocks;
    *x = p->r->x->data + first * a->in[0];
    *out = first * a->out[0];
    for (int d = 1; d < a->n; d++) {
        int64_t i = rest % a->size[d];
        rest /= a->size[d];
        *x += i * a->in[d];
        *out += i * a->out[d];
    }
    return a->size[0] - first < p->width ? a->size[0] - first : p->width;
}

static void run_units(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    const reduce_loops *l = p->r->loops;
    _Alignas(64) char acc[MAX_RESULTS * 32];
    for (int64_t unit = begin; unit < end; unit++) {
        const char *x;
        int64_t out, n = unit_at(p, unit, &x, &out);
        l->start(acc, n);
        if (p->count)
            fold_gone(p, acc, x, n, 0, p->gone.size[p->gone.n - 1]);
        put(p, acc, out, n);
    }
}

static void run_parts(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    const reduce_loops *l = p->r->loops;
    int64_t units = p->outs / p->keep.size[0] * p->blocks, top = p->gone.size[p->gone.n - 1];
    for (int64_t part = begin; part < end; part++)
        for (int64_t unit = 0; unit < units; unit++) {
            const char *x;
            int64_t out, n = unit_at(p, unit, &x, &out);
            char *acc = p->parts + ((part * units + unit) * p->width) * l->size;
            l->start(acc, n);
            fold_gone(p, acc, x, n, top * part / p->nparts, top * (part + 1) / p->nparts);
        }
}

/* Shares out the input: each part folds into accumulators of its own. False when out of memory. */
static bool run_shared(plan *p, int64_t units) {
    const reduce_loops *l = p->r->loops;
    size_t bytes = (size_t)(p->nparts * units * p->width * l->size);
    p->parts = cfx__block_alloc(bytes);
    if (!p->parts)
        return false;
    cfx__parallel(p->nparts, 1, run_parts, p);
    for (int64_t unit = 0; unit < units; unit++) {
        const char *x;
        int64_t out, n = unit_at(p, unit, &x, &out);
        char *acc = p->parts + unit * p->width * l->size;
        for (int64_t part = 1; part < p->nparts; part++)
            l->merge(acc, p->parts + ((part * units + unit) * p->width) * l->size, n);
        put(p, acc, out, n);
    }
    cfx__block_free(p->parts, bytes);
    return true;
}

void reduce_run(const reduction *r) {
    plan p;
    plan_make(&p, r);
    if (p.outs == 0)
        return;
    int64_t inner = p.keep.size[0], numel = p.outs * (p.count ? p.count : 1);
    int64_t most = MAX_RESULTS * 32 / r->loops->size;
    p.width = most < MAX_RESULTS ? most : MAX_RESULTS;
    /* enough tiles for all threads; columns no narrower than a few vectors, and as wide as can be
     * where there are many rows, of which threads get parts */
    const bool rows = p.gone.in[0] == p.elem, many = !rows && p.count >= MANY_ROWS;
    if (numel > CFX__THREAD_WORTH && p.outs / inner < 16 && inner >= (rows ? 16 : 1024) &&
        inner / 16 < p.width && !many)
        p.width = inner / 16;
    if (p.width > inner)
        p.width = inner;
    p.blocks = (inner + p.width - 1) / p.width;
    int64_t units = p.outs / inner * p.blocks, top = p.gone.size[p.gone.n - 1];
    p.nparts = numel / CFX__THREAD_WORTH < MAX_PARTS ? numel / CFX__THREAD_WORTH : MAX_PARTS;
    if (p.nparts > top)
        p.nparts = top;
    if (units < (many ? 16 : 8) && p.nparts > units && run_shared(&p, units))
        return;
    int64_t each = numel / units;
    cfx__parallel(units, CFX__THREAD_WORTH / (each ? each : 1) + 1, run_units, &p);
}

/* ---- as a step of a loop --------------------------------------------------------------------- */

static void fold_row(void *const *p, int64_t n, const void *params) {
    const reduce_loops *l = *(const reduce_loops *const *)params;
    _Alignas(16) char acc[64];
    l->start(acc, 1);
    l->fold(acc, &(reduce_tile){.x = p[1], .nk = 1, .sk = n, .nr = n, .sr = 1});
    l->finish(p, acc, 1, n, NULL);
}

void reduce_run_or_note(cfx_op_call *c, const reduction *r) {
    if (!c->note) {
        reduce_run(r);
        return;
    }
    int row = 0;
    while (row < r->x->ndim && r->mask >> (r->x->ndim - 1 - row) & 1)
        row++;
    const uint64_t last = row ? all_dims(r->x) ^ (all_dims(r->x) >> row) : 0;
    if (!row || r->mask != last || r->nout != 1 || r->params || r->ordered || r->loops->size > 64)
        return;
    loop_note(c->note, CFX__LOOP_FOLD, fold_row, r->out_as[0], 1, &r->loops, sizeof r->loops);
    loop_operand(c->note, (cfx_tensor *)r->x, r->as);
    c->note->says.fold = r->fold;
    c->note->row = row;
}

/* ---- what rows share ------------------------------------------------------------------------- */

/* The loops for elements of dtype d and the dtype that they read. NULL when there are none. */
static const reduce_loops *loops_for(const reducer *r, cfx_dtype d, cfx_dtype *as) {
    if (!cfx__dtype_is_computed(d) && !(r->stored >> d & 1))
        return NULL;
    switch (cfx__dtype_wide(d)) {
    case CFX_BOOL:
        if (r->b8)
            return *as = CFX_BOOL, r->b8;
        return *as = CFX_I64, r->i64;
    case CFX_F64: return *as = CFX_F64, r->f64;
    case CFX_F32:
    case CFX_F16:
    case CFX_BF16: return *as = CFX_F32, r->f32;
    case CFX_C64: return *as = CFX_C64, r->c64;
    case CFX_C128: return *as = CFX_C128, r->c128;
    default: return *as = CFX_I64, r->i64;
    }
}

const reduce_loops *reducer_need(cfx_op_call *c, const reducer *r, cfx_dtype d, cfx_dtype *as) {
    const reduce_loops *l = loops_for(r, d, as);
    if (!l)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", r->name,
                   cfx__dtype_title(d));
    return l;
}

cfx_tensor *out_reduced(cfx_op_call *c, int i, cfx_dtype dtype, const cfx_tensor *x, uint64_t mask,
                        bool keepdim) {
    int64_t shape[CFX_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (!(mask >> d & 1))
            shape[n++] = x->shape[d];
        else if (keepdim)
            shape[n++] = 1;
    return out_new(c, i, dtype, n, shape);
}

bool reduce_nonempty(cfx_op_call *c, const char *name, const cfx_tensor *x, uint64_t mask) {
    for (int d = 0; d < x->ndim; d++)
        if ((mask >> d & 1) && x->shape[d] == 0) {
            op_fail_as(INDEX, c, "%s(): Expected reduction dim %d to have non-zero size.", name, d);
            return false;
        }
    return true;
}
