/* The walk through indices, and what else the indexing operators share. Start at walk_run. */
#include "walk.h"

/* ---- runs --------------------------------------------------------------------------------------
 */

typedef void walk_fn(void *a, const int64_t *off, int64_t sa, void *b, int64_t sb, int64_t n,
                     const void *alpha);
#define BODY "walk.inc"
#define BODY_FN walk_fn
#include "types.inc"

/* ---- the walk ------------------------------------------------------------------------------- */

static void add_dim(walk_dim *dims, int *n, int64_t size, int64_t a, int64_t b) {
    if (size == 1)
        return;
    walk_dim *last = *n ? &dims[*n - 1] : NULL;
    if (last && last->a == a * size && last->b == b * size)
        *last = (walk_dim){last->n * size, a, b};
    else
        dims[(*n)++] = (walk_dim){size, a, b};
}

void walk_outer(walk *w, int64_t n, int64_t a, int64_t b) {
    add_dim(w->outer, &w->nouter, n, a, b);
}
void walk_inner(walk *w, int64_t n, int64_t a, int64_t b) {
    add_dim(w->inner, &w->ninner, n, a, b);
}

typedef struct {
    const walk *w;
    walk_fn *run;
    const void *alpha;
    int64_t from, to; /* part of the innermost dimension, when that is what threads share */
} job;

static void step_into(const walk_dim *dims, int n, int64_t linear, int64_t *a, int64_t *b) {
    for (int d = n - 1; d >= 0; d--) {
        int64_t i = linear % dims[d].n;
        linear /= dims[d].n;
        *a += i * dims[d].a;
        *b += i * dims[d].b;
    }
}

/* The dimensions inside, at one position. */
static void run_inside(const job *j, char *a, char *b) {
    const walk *w = j->w;
    int size = cfx_dtype_size(w->dtype), rest = w->ninner - 1;
    walk_dim last = w->inner[rest];
    int64_t rows = 1;
    for (int d = 0; d < rest; d++)
        rows *= w->inner[d].n;
    for (int64_t r = 0; r < rows; r++) {
        int64_t oa = j->from * last.a, ob = j->from * last.b;
        if (rest)
            step_into(w->inner, rest, r, &oa, &ob);
        j->run(a + oa * size, NULL, last.a, b + ob * size, last.b, j->to - j->from, j->alpha);
    }
}

/* Positions [from, to) of one place outside. */
static void run_positions(const job *j, char *a, char *b, int64_t from, int64_t to) {
    const walk *w = j->w;
    int size = cfx_dtype_size(w->dtype);
    if (!w->ninner && !w->at_b) {
        j->run(a, w->at + from, 0, b + from * w->step_b * size, w->step_b, to - from, j->alpha);
        return;
    }
    for (int64_t k = from; k < to; k++) {
        char *pa = a + w->at[k] * size, *pb = b + (w->at_b ? w->at_b[k] : k * w->step_b) * size;
        if (w->ninner)
            run_inside(j, pa, pb);
        else
            j->run(pa, NULL, 1, pb, 1, 1, j->alpha);
    }
}

static void run_range(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const walk *w = j->w;
    int size = cfx_dtype_size(w->dtype);
    while (begin < end) {
        int64_t outer = begin / w->positions, k = begin % w->positions, a = 0, b = 0;
        int64_t to = k + (end - begin) < w->positions ? k + (end - begin) : w->positions;
        step_into(w->outer, w->nouter, outer, &a, &b);
        run_positions(j, w->a + a * size, w->b + b * size, k, to);
        begin += to - k;
    }
}

static void run_outer(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    run_range(arg, begin * j->w->positions, end * j->w->positions);
}

static void run_columns(void *arg, int64_t begin, int64_t end) {
    job j = *(const job *)arg;
    j.from = begin;
    j.to = end;
    run_range(&j, 0, j.w->positions);
}

void walk_run(cfx_op_call *c, walk *w) {
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < w->nouter; d++)
        outer *= w->outer[d].n;
    for (int d = 0; d < w->ninner; d++)
        inner *= w->inner[d].n;
    if (!outer || !inner || !w->positions || op_failed())
        return;
    walk_fn *run = body_for(w->op, w->dtype);
    if (!run) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", cfx_op_name(c->op),
                   cfx__dtype_title(w->dtype));
        return;
    }
    cfx_tensor *alpha =
        cfx_is_none(w->alpha) ? NULL : cfx__tensor_scalar(w->alpha, w->dtype);
    int64_t columns = w->ninner ? w->inner[w->ninner - 1].n : 1;
    job j = {w, run, alpha ? alpha->data : NULL, 0, columns};
    /* two positions may name one element: what writes through the index keeps their order */
    if (w->op == WALK_GET)
        cfx__parallel(outer * w->positions, cfx__grain(inner), run_range, &j);
    else if (outer > 1)
        cfx__parallel(outer, cfx__grain(inner * w->positions), run_outer, &j);
    else
        cfx__parallel(columns, cfx__grain(inner / columns * w->positions), run_columns, &j);
}

/* ---- offsets -------------------------------------------------------------------------------- */

static void fail_bounds(cfx_op_call *c, unsigned rules, int64_t index, int dim, int64_t size) {
    cfx_error_kind kind = rules & WALK_RUNTIME ? CFX_RUNTIME_ERROR : CFX_INDEX_ERROR;
    if (rules & WALK_INDICES)
        cfx_fail(kind, c->at, "INDICES element is out of DATA bounds, id=%lld axis_dim=%lld",
                 (long long)index, (long long)size);
    else if (rules & WALK_TAKE)
        cfx_fail(kind, c->at,
                 "out of range: tried to access index %lld on a tensor of %lld elements.",
                 (long long)index, (long long)size);
    else if (rules & (WALK_NAMED | WALK_INDEX_COPY))
        cfx_fail(kind, c->at, "%sindex %lld is out of bounds for dimension %d with size %lld",
                 rules & WALK_INDEX_COPY ? "index_copy_(): " : "", (long long)index, dim,
                 (long long)size);
    else
        cfx_fail(kind, c->at, "index out of range in self");
}

const int64_t *walk_offsets(cfx_op_call *c, unsigned rules, int dim, int64_t positions, int n,
                            const cfx_tensor *const *index, const int64_t *size,
                            const int64_t *stride) {
    if (n == 1 && stride[0] == 1 && !(rules & WALK_WRAP)) { /* the index is its own offset */
        const int64_t *at = (const int64_t *)index[0]->data;
        for (int64_t i = 0; i < positions; i++)
            if (unlikely((uint64_t)at[i] >= (uint64_t)size[0])) {
                fail_bounds(c, rules, at[i], dim, size[0]);
                return NULL;
            }
        return at;
    }
    int64_t *off = scratch(c, CFX_I64, positions);
    if (!off)
        return NULL;
    for (int k = 0; k < n; k++) {
        const int64_t *at = (const int64_t *)index[k]->data;
        int64_t limit = size[k], step = stride[k], wrap = rules & WALK_WRAP ? limit : 0;
        for (int64_t i = 0; i < positions; i++) {
            int64_t v = at[i] < 0 ? at[i] + wrap : at[i];
            if (unlikely((uint64_t)v >= (uint64_t)limit)) {
                fail_bounds(c, rules, at[i], dim + k, limit);
                return NULL;
            }
            off[i] = k ? off[i] + v * step : v * step;
        }
    }
    if (!n)
        memset(off, 0, (size_t)positions * sizeof *off);
    return off;
}

void walk_along(cfx_op_call *c, walk_op op, const walk_line *l) {
    const cfx_tensor *a = l->a;
    int64_t one = 1, size = a->ndim ? a->shape[l->dim] : 1;
    walk w = {.op = op,
              .dtype = a->dtype,
              .a = a->data,
              .b = l->b->data,
              .positions = l->index->numel,
              .alpha = l->alpha};
    for (int d = 0; d < a->ndim && l->rules & WALK_LAZY; d++)
        if (d != l->dim && !a->shape[d])
            return;
    w.at = walk_offsets(c, l->rules, l->dim, w.positions, 1, &l->index, &size,
                        a->ndim ? &a->stride[l->dim] : &one);
    if (!w.at)
        return;
    w.step_b = l->b_stride[l->dim];
    for (int d = 0; d < a->ndim; d++) {
        if (d < l->dim)
            walk_outer(&w, a->shape[d], a->stride[d], l->b_stride[d]);
        else if (d > l->dim)
            walk_inner(&w, a->shape[d], a->stride[d], l->b_stride[d]);
    }
    walk_run(c, &w);
}

/* ---- helpers -------------------------------------------------------------------------------- */

cfx_tensor *op_expand(const cfx_tensor *t, int ndim, const int64_t *shape) {
    int64_t stride[CFX_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        int from = d - (ndim - t->ndim);
        stride[d] = from < 0 || (t->shape[from] == 1 && shape[d] != 1) ? 0 : t->stride[from];
    }
    return cfx__tensor_alias(t, ndim, shape, stride, t->offset);
}

void op_start_from_self(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0), *out = c->out[0];
    if (out->data != self->data)
        cfx__tensor_copy(out, self);
}

cfx_dtype op_lifted(cfx_dtype d) {
    return cfx__dtype_is_half(d) ? CFX_F32 : cfx__dtype_is_int(d) || d == CFX_BOOL ? CFX_I64 : d;
}

CFX__SIMD int64_t op_count_nonzero(const cfx_tensor *t) {
    const cfx_tensor *flags = cfx__tensor_contiguous_as(t, CFX_BOOL);
    const uint8_t *p = (const uint8_t *)flags->data;
    int64_t count = 0, n = p ? t->numel : 0;
    for (int64_t i = 0; i < n; i++)
        count += p[i] != 0;
    return count;
}

cfx_tensor *op_nonzero(cfx_op_call *c, const cfx_tensor *t) {
    const cfx_tensor *flags = cfx__tensor_contiguous_as(t, CFX_BOOL);
    if (cfx__obj_is_bad(flags))
        return &cfx__tensor_bad;
    int64_t count = op_count_nonzero(flags);
    cfx_tensor *out = cfx__tensor_empty(c->at, CFX_I64, false, 2, (int64_t[]){count, t->ndim},
                                        (int64_t[]){1, count});
    if (cfx__obj_is_bad(out) || !t->ndim || !count)
        return out;
    const uint8_t *p = (const uint8_t *)flags->data;
    int64_t *to = (int64_t *)out->data, index[CFX_MAX_DIMS] = {0}, found = 0;
    int last = t->ndim - 1;
    for (int64_t row = 0; row < t->numel / t->shape[last]; row++) {
        for (int64_t i = 0; i < t->shape[last]; i++) {
            if (!*p++)
                continue;
            for (int d = 0; d < last; d++)
                to[d * count + found] = index[d];
            to[last * count + found++] = i;
        }
        for (int d = last - 1; d >= 0 && ++index[d] == t->shape[d]; d--)
            index[d] = 0;
    }
    return out;
}
