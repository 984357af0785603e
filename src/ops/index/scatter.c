/* gather and scatter: an index as large as the values, that replaces one coordinate of each. Start
 * at rows_run. */
#include "index.h"
#include "walk.h"

#include <math.h>

CFX_FAMILY(INDEX);

typedef void row_fn(void *a, int64_t step, int64_t along, const int64_t *index, int64_t si, void *b,
                    int64_t sb, int64_t n);
#define BODY "scatter.inc"
#define BODY_FN row_fn
#include "types.inc"

/* ---- rows ----------------------------------------------------------------------------------- */

typedef struct {
    row_fn *row;
    int size, ndim, dim;
    int64_t shape[CFX_MAX_DIMS], sa[CFX_MAX_DIMS], sb[CFX_MAX_DIMS], si[CFX_MAX_DIMS];
    char *a, *b;
    const int64_t *index;
    int64_t inner; /* rows (of the last dimension) that share the coordinates before `dim` */
} rows;

/* Columns [from, to) of rows [begin, end). */
static void run_part(const rows *r, int64_t begin, int64_t end, int64_t from, int64_t to) {
    int last = r->ndim - 1;
    for (int64_t k = begin; k < end; k++) {
        int64_t a = 0, b = 0, i = 0, rest = k;
        for (int d = last - 1; d >= 0; d--) {
            int64_t at = rest % r->shape[d];
            rest /= r->shape[d];
            a += d == r->dim ? 0 : at * r->sa[d];
            b += at * r->sb[d];
            i += at * r->si[d];
        }
        int64_t step = last == r->dim ? 0 : r->sa[last];
        a += from * step;
        b += from * r->sb[last];
        i += from * r->si[last];
        r->row(r->a + a * r->size, step, r->sa[r->dim], r->index + i, r->si[last],
               r->b + b * r->size, r->sb[last], to - from);
    }
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
    const rows *r = arg;
    run_part(r, begin, end, 0, r->shape[r->ndim - 1]);
}

static void run_groups(void *arg, int64_t begin, int64_t end) {
    const rows *r = arg;
    run_rows(arg, begin * r->inner, end * r->inner);
}

static void run_columns(void *arg, int64_t begin, int64_t end) {
    const rows *r = arg;
    run_part(r, 0, r->inner, begin, end);
}

/* Whether all of index (int64) lies in [0, limit). */
CFX__SIMD static bool all_below(const int64_t *p, int64_t n, uint64_t limit) {
    bool ok = true;
    for (int64_t i = 0; i < n; i++)
        ok &= (uint64_t)p[i] < limit;
    return ok;
}

static bool in_range(cfx_op_call *c, const cfx_tensor *index, int dim, int64_t limit) {
    const int64_t *p = (const int64_t *)index->data;
    if (all_below(p, index->numel, (uint64_t)limit))
        return true;
    for (int64_t i = 0; i < index->numel; i++)
        if ((uint64_t)p[i] >= (uint64_t)limit) {
            op_fail(c, "index %lld is out of bounds for dimension %d with size %lld",
                    (long long)p[i], dim, (long long)limit);
            break;
        }
    return false;
}

/* The part of an index that differs: dimensions it is expanded along have one element. */
static const cfx_tensor *narrowed(const cfx_tensor *index) {
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < index->ndim; d++)
        shape[d] = index->stride[d] == 0 && index->shape[d] > 1 ? 1 : index->shape[d];
    return cfx__tensor_alias(index, index->ndim, shape, index->stride, index->offset);
}

/* Runs `op` between a, indexed along dim, and b over the shape of index; b may have no dimensions
 * (one value for all). Index and values are in range and of the right types. */
static void rows_run(cfx_op_call *c, walk_op op, cfx_tensor *a, int dim, const cfx_tensor *index,
                     cfx_tensor *b, bool fill) {
    if (!index->numel || op_failed())
        return;
    const cfx_tensor *own = cfx__tensor_contiguous_as(narrowed(index), CFX_I64);
    if (op_failed() || !in_range(c, own, dim, a->ndim ? a->shape[dim] : 1))
        return;
    rows r = {.row = body_for(op, a->dtype),
              .size = cfx_dtype_size(a->dtype),
              .dim = dim,
              .ndim = index->ndim ? index->ndim : 1,
              .a = a->data,
              .b = b->data,
              .index = (const int64_t *)own->data,
              .inner = 1};
    if (!r.row) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"scatter_gather_tensor_cpu\" not implemented for '%s'",
                   cfx__dtype_title(a->dtype));
        return;
    }
    for (int d = 0; d < r.ndim; d++) {
        r.shape[d] = index->ndim ? index->shape[d] : 1;
        r.sa[d] = a->ndim ? a->stride[d] : 1;
        r.sb[d] = fill || !b->ndim ? 0 : b->stride[d];
        r.si[d] = index->ndim && own->shape[d] == index->shape[d] ? own->stride[d] : 0;
    }
    int last = r.ndim - 1;
    int64_t columns = r.shape[last], total = index->numel / columns, groups = 1;
    for (int d = 0; d < last; d++)
        *(d < dim ? &groups : &r.inner) *= r.shape[d];
    /* two entries along dim may name one element: what writes through the index keeps their order
     */
    if (op == WALK_GET)
        cfx__parallel(total, cfx__grain(columns), run_rows, &r);
    else if (groups > 1 || dim == last)
        cfx__parallel(groups, cfx__grain(columns * r.inner), run_groups, &r);
    else
        cfx__parallel(columns, cfx__grain(total), run_columns, &r);
}

/* ---- checks --------------------------------------------------------------------------------- */

static int64_t size_at(const cfx_tensor *t, int d) { return t->ndim ? t->shape[d] : 1; }
static int dims_of(const cfx_tensor *t) { return t->ndim ? t->ndim : 1; }

static bool is_index(cfx_op_call *c, const char *name, const cfx_tensor *index) {
    if (!index->numel || index->dtype == CFX_I64 || index->dtype == CFX_I32)
        return true;
    op_fail(c, "%s(): Expected dtype int32/int64 for index", name);
    return false;
}

static bool scatter_fits(cfx_op_call *c, const cfx_tensor *self, int dim, const cfx_tensor *index,
                         const cfx_tensor *src) {
    if (!index->numel)
        return true;
    if (dims_of(self) != dims_of(index)) {
        op_fail(c, "Index tensor must have the same number of dimensions as self tensor");
        return false;
    }
    if (src && dims_of(src) != dims_of(index)) {
        op_fail(c, "Index tensor must have the same number of dimensions as src tensor");
        return false;
    }
    bool fits = true;
    for (int d = 0; d < dims_of(self); d++) {
        fits &= d == dim || size_at(index, d) <= size_at(self, d);
        fits &= !src || size_at(index, d) <= size_at(src, d);
    }
    if (fits)
        return true;
    const char *after = src ? cfx__text_format(" and to be no larger size than src %s",
                                               cfx__shape_text(src->ndim, src->shape))
                            : "";
    op_fail(c, "Expected index %s to be no larger than self %s apart from dimension %d%s",
            cfx__shape_text(index->ndim, index->shape), cfx__shape_text(self->ndim, self->shape),
            dim, after);
    return false;
}

/* ---- gather --------------------------------------------------------------------------------- */

static void shape_gather(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2);
    int dim = arg_dim(c, 1, self->ndim);
    c->out[0] = &cfx__tensor_bad;
    if (dim < 0 || !is_index(c, "gather", index) ||
        !op_takes(c, self, "scatter_gather_tensor_cpu"))
        return;
    if (index->numel && dims_of(self) != dims_of(index)) {
        op_fail(c, "Index tensor must have the same number of dimensions as input tensor");
        return;
    }
    for (int d = 0; index->numel && d < dims_of(self); d++)
        if (d != dim && size_at(index, d) > size_at(self, d)) {
            op_fail(
                c,
                "Size does not match at dimension %d expected index %s to be no larger than self "
                "%s apart from dimension %d",
                d, cfx__shape_text(index->ndim, index->shape),
                cfx__shape_text(self->ndim, self->shape), dim);
            return;
        }
    out_new(c, 0, self->dtype, index->ndim, index->shape);
}

static void kernel_gather(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0);
    rows_run(c, WALK_GET, self, arg_dim(c, 1, self->ndim), arg_tensor(c, 2), c->out[0], false);
}

CFX_OP(gather) = {
    "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    "torch.gather Tensor.gather", .shape = shape_gather, .kernel = kernel_gather,
    GRAD(gather, READ(2)), .effects = CFX_MOVES, .out = "out"};

/* ---- scatter -------------------------------------------------------------------------------- */

static void shape_scatter(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *src = arg_tensor(c, 3);
    int dim = arg_dim(c, 1, self->ndim);
    c->out[0] = &cfx__tensor_bad;
    if (dim < 0 || !is_index(c, "scatter", index) ||
        !op_takes(c, self, src ? "scatter_gather_tensor_cpu" : "scatter_gather_scalar_cpu"))
        return;
    if (src && src->dtype != self->dtype)
        op_fail(c, "scatter(): Expected self.dtype to be equal to src.dtype");
    else if (scatter_fits(c, self, dim, index, src))
        out_new(c, 0, self->dtype, self->ndim, self->shape);
}

static bool one_of(const char *text, const char *const *names, int *which) {
    for (*which = 0; names[*which]; ++*which)
        if (!strcmp(text, names[*which]))
            return true;
    return false;
}

static const char *const old_names[] = {"add", "multiply", NULL};
static const char *const new_names[] = {"sum", "prod", "amax", "amin", "mean", NULL};

static void shape_scatter_old(cfx_op_call *c) {
    int which;
    if (one_of(arg_text(c, 4), old_names, &which)) {
        shape_scatter(c);
        return;
    }
    op_fail(c, "reduce argument must be either add or multiply.");
    c->out[0] = &cfx__tensor_bad;
}

static void shape_scatter_reduce(cfx_op_call *c) {
    int which;
    if (one_of(arg_text(c, 4), new_names, &which)) {
        shape_scatter(c);
        return;
    }
    op_fail(c, "reduce argument must be either sum, prod, mean, amax or amin.");
    c->out[0] = &cfx__tensor_bad;
}

static void scatter(cfx_op_call *c, walk_op op) {
    cfx_tensor *out = c->out[0], *src = arg_tensor(c, 3);
    bool fill = !src;
    if (fill)
        src = cfx__tensor_scalar(c->args[3], out->dtype);
    op_start_from_self(c);
    rows_run(c, op, out, arg_dim(c, 1, out->ndim), arg_tensor(c, 2), src, fill);
}

static void kernel_scatter(cfx_op_call *c) { scatter(c, WALK_SET); }
static void kernel_scatter_add(cfx_op_call *c) { scatter(c, WALK_ADD); }

static void kernel_scatter_old(cfx_op_call *c) {
    scatter(c, arg_text(c, 4)[0] == 'a' ? WALK_ADD : WALK_MUL);
}

static cfx_tensor *number(cfx_op_call *c, cfx_dtype d, walk_op op) {
    (void)c;
    bool whole = d == CFX_I64;
    cfx_value v = op == WALK_ADD   ? cfx_int(0)
                  : op == WALK_MUL ? cfx_int(1)
                  : op == WALK_MAX ? (whole ? cfx_int(INT64_MIN) : cfx_float(-INFINITY))
                                   : (whole ? cfx_int(INT64_MAX) : cfx_float(INFINITY));
    return cfx__tensor_scalar(v, d);
}

static void kernel_scatter_reduce(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *src = arg_tensor(c, 3), *index = arg_tensor(c, 2);
    int which, dim = arg_dim(c, 1, out->ndim);
    one_of(arg_text(c, 4), new_names, &which);
    bool mean = which == 4, include_self = arg_bool(c, 5);
    walk_op op = mean ? WALK_ADD : (walk_op)(WALK_ADD + which);
    if (mean && cfx__dtype_is_complex(out->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"scatter_reduce\" not implemented for '%s'",
                   cfx__dtype_title(out->dtype));
        return;
    }
    op_start_from_self(c);
    if (!include_self)
        rows_run(c, WALK_SET, out, dim, index, number(c, out->dtype, op), true);
    rows_run(c, op, out, dim, index, src, false);
    if (!mean || op_failed())
        return;
    cfx_tensor *counts = cfx__tensor_empty(c->at, CFX_I64, false, out->ndim, out->shape, NULL);
    if (op_failed())
        return;
    int64_t *n = (int64_t *)counts->data;
    for (int64_t i = 0; i < counts->numel; i++)
        n[i] = include_self;
    rows_run(c, WALK_ADD, counts, dim, index, cfx__tensor_scalar(cfx_int(1), CFX_I64), true);
    for (int64_t i = 0; i < counts->numel; i++)
        n[i] += !n[i];
    if (!op_failed())
        op_divide_counts(out, counts);
}

#define SUMS (CFX_IN_NUMBER | CFX_IN(C64) | CFX_IN(C128))

CFX_OP(scatter_src) = {
    "aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    "torch.scatter Tensor.scatter",
    .shape = shape_scatter,
    .kernel = kernel_scatter,
    .effects = CFX_UPDATE,
    GRAD(scatter, READ(2)), .inplace = "src", .out = "src_out"};
CFX_OP(scatter_value) = {
    "aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    NULL,
    .shape = shape_scatter,
    .kernel = kernel_scatter,
    .effects = CFX_UPDATE,
    GRAD(scatter, READ(2)), .inplace = "value", .out = "value_out"};
CFX_OP(scatter_reduce) = {"aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, "
                          "str reduce) -> Tensor",
                          NULL,
                          .shape = shape_scatter_old,
                          .kernel = kernel_scatter_old,
                          .effects = CFX_UPDATE,
                          .dtypes = SUMS, .inplace = "reduce", .out = "reduce_out"};
CFX_OP(scatter_value_reduce) = {"aten::scatter.value_reduce(Tensor self, int dim, Tensor index, "
                                "Scalar value, *, str reduce) -> Tensor",
                                NULL,
                                .shape = shape_scatter_old,
                                .kernel = kernel_scatter_old,
                                .effects = CFX_UPDATE,
                                .dtypes = SUMS, .inplace = "value_reduce",
                                .out = "value_reduce_out"};
CFX_OP(scatter_add) = {
    "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    "torch.scatter_add Tensor.scatter_add",
    .shape = shape_scatter,
    .kernel = kernel_scatter_add,
    .effects = CFX_UPDATE,
    .dtypes = SUMS, GRAD(scatter_add, READ(2)), .inplace = "default", .out = "out"};
CFX_OP(scatter_reduce_two) = {"aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor "
                              "src, str reduce, *, bool include_self=True) -> Tensor",
                              "torch.scatter_reduce Tensor.scatter_reduce",
                              .shape = shape_scatter_reduce,
                              .kernel = kernel_scatter_reduce,
                              .effects = CFX_UPDATE,
                              .dtypes = SUMS,
                              GRAD(reduce_to, READ(0) | READ(2) | READ(3) | RESULT(0)),
                              .inplace = "two", .out = "two_out"};
