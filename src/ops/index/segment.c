/* Reductions of pieces: bincount, segment_reduce. */
#include "../back.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* ---- bincount -------------------------------------------------------------------------------- */

static void kernel_bincount(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    int64_t bins = arg_int(c, 2);
    if (!cfx__dtype_is_int(x->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"bincount_cpu\" not implemented for '%s'",
                   cfx__dtype_title(x->dtype));
        return;
    }
    if (bins < 0) {
        op_fail(c, "minlength should be >= 0");
        return;
    }
    if (x->ndim == 1 && x->numel == 0) {
        out_new(c, 0, CFX_I64, 1, &bins);
        if (!op_failed())
            memset(c->out[0]->data, 0, (size_t)bins * sizeof(int64_t));
        return;
    }
    const cfx_tensor *n = cfx__tensor_contiguous_as(x, CFX_I64);
    if (op_failed())
        return;
    const int64_t *at = (const int64_t *)n->data;
    int64_t least = x->ndim == 1 ? at[0] : -1, most = least;
    for (int64_t i = 0; x->ndim == 1 && i < x->numel; i++) {
        least = at[i] < least ? at[i] : least;
        most = at[i] > most ? at[i] : most;
    }
    if (least < 0) {
        op_fail(c, "bincount only supports 1-d non-negative integral inputs.");
        return;
    }
    if (w && (w->ndim != 1 || w->numel != x->numel)) {
        op_fail(c, "weights should be 1-d and have the same length as input");
        return;
    }
    if (most == INT64_MAX) {
        op_fail(c, "maximum value of input overflowed, it should be < %lld but got %lld",
                (long long)INT64_MAX, (long long)most);
        return;
    }
    bins = most + 1 > bins ? most + 1 : bins;
    cfx_dtype d = !w ? CFX_I64 : w->dtype == CFX_F32 ? CFX_F32 : CFX_F64;
    cfx_tensor *out = out_new(c, 0, d, 1, &bins);
    const cfx_tensor *weight = w ? cfx__tensor_contiguous_as(w, d) : NULL;
    if (op_failed())
        return;
    memset(out->data, 0, (size_t)(bins * cfx_dtype_size(d)));
    for (int64_t i = 0; i < x->numel; i++)
        if (d == CFX_I64)
            ((int64_t *)out->data)[at[i]]++;
        else if (d == CFX_F32)
            ((float *)out->data)[at[i]] += ((const float *)weight->data)[i];
        else
            ((double *)out->data)[at[i]] += ((const double *)weight->data)[i];
}

static void shape_bincount(cfx_op_call *c) {
    const cfx_tensor *w = arg_tensor(c, 1);
    int64_t n;
    if (op_data_size(c, &n))
        out_new(c, 0, !w ? CFX_I64 : w->dtype == CFX_F32 ? CFX_F32 : CFX_F64, 1, &n);
}

CFX_OP(bincount) = {
    "aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
    "torch.bincount Tensor.bincount", .kernel = kernel_bincount, .shape = shape_bincount,
    .effects = CFX_DATA_SHAPE, .out = "out"};

/* ---- segment_reduce -------------------------------------------------------------------------- */

typedef enum { SEGMENT_SUM, SEGMENT_MEAN, SEGMENT_MAX, SEGMENT_MIN, SEGMENT_PROD } segment_kind;

static bool segment_kind_of(cfx_op_call *c, segment_kind *kind) {
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    const char *name = arg_text(c, 1);
    for (int i = 0; i < COUNT(names); i++)
        if (!strcmp(name, names[i])) {
            *kind = (segment_kind)i;
            return true;
        }
    op_fail(c, "unsupported reduction given! %s", name);
    return false;
}

enum { ARG_LENGTHS = 2, ARG_INDICES, ARG_OFFSETS, ARG_AXIS, ARG_UNSAFE, ARG_INITIAL };

static void shape_segment_reduce(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *lengths = arg_tensor(c, ARG_LENGTHS);
    const cfx_tensor *by = lengths ? lengths : arg_tensor(c, ARG_OFFSETS);
    segment_kind kind;
    int64_t shape[CFX_MAX_DIMS];
    int axis = arg_dim(c, ARG_AXIS, x->ndim);
    if (axis < 0 || !segment_kind_of(c, &kind))
        return;
    if (!cfx__dtype_is_float(x->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"_segment_reduce_cpu\" not implemented for '%s'",
                   cfx__dtype_title(x->dtype));
        return;
    }
    if (arg_tensor(c, ARG_INDICES)) {
        op_fail(c, "segment_reduce(): indices based reduction is not supported yet.");
        return;
    }
    if (!by) {
        op_fail(c, "segment_reduce(): Either lengths or offsets must be defined.");
        return;
    }
    if (by->dtype != CFX_I64 && by->dtype != CFX_I32) {
        op_fail(c, "segment_reduce(): Expected lengths or offsets to be of integer type");
        return;
    }
    if (x->ndim == 0 || axis != by->ndim - 1) {
        op_fail(c,
                "segment_reduce(): Expected axis to be the last dimension of %s but got %d.",
                lengths ? "lengths" : "offsets", axis);
        return;
    }
    for (int d = 0; d < axis; d++)
        if (by->shape[d] != x->shape[d]) {
            op_fail(c, "segment_reduce(): Expected data and %s to agree before the axis",
                    lengths ? "lengths" : "offsets");
            return;
        }
    if (!lengths && by->shape[axis] < 1) {
        op_fail(c, "segment_reduce(): Expected offsets to have at least one element");
        return;
    }
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[axis] = by->shape[axis] - (lengths ? 0 : 1);
    out_new(c, 0, x->dtype, x->ndim, shape);
}

/* Folds elements [begin, end), `step` apart, of one column. */
static double segment_fold(const cfx_tensor *x, int64_t first, int64_t begin, int64_t end,
                           int64_t step, segment_kind kind, double start) {
    for (int64_t i = begin; i < end; i++) {
        int64_t at = first + i * step;
        double v = x->dtype == CFX_F64 ? ((const double *)x->data)[at]
                                       : ((const float *)x->data)[at];
        switch (kind) {
        case SEGMENT_MAX: start = v != v || v > start ? v : start; break;
        case SEGMENT_MIN: start = v != v || v < start ? v : start; break;
        case SEGMENT_PROD: start *= v; break;
        default: start += v;
        }
    }
    return start;
}

/* One row of lengths or offsets: the segments of data row `row`. */
static bool segment_row(cfx_op_call *c, int64_t row, const int64_t *by, bool lengths,
                        segment_kind kind) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int axis = arg_dim(c, ARG_AXIS, x->ndim);
    int64_t n = x->shape[axis], segments = out->shape[axis], inner = 1, at = 0;
    bool given = !arg_is_none(c, ARG_INITIAL);
    double first = given                  ? arg_float(c, ARG_INITIAL)
                   : kind == SEGMENT_MAX  ? -INFINITY
                   : kind == SEGMENT_MIN  ? INFINITY
                   : kind == SEGMENT_PROD ? 1
                                          : 0;
    for (int d = axis + 1; d < x->ndim; d++)
        inner *= x->shape[d];
    for (int64_t s = 0; s < segments; s++) {
        int64_t begin = lengths ? at : by[s], end = lengths ? n : by[s + 1];
        if (lengths && (by[s] < 0 || by[s] > n - at)) {
            op_fail(c, by[s] < 0 ? "lengths contains negative value!"
                                 : "segment_reduce(): Expected all rows of lengths along axis to "
                                   "sum to data.size(lengths.dim()-1) when !unsafe.");
            return false;
        }
        if (lengths)
            at = end = begin + by[s];
        if (begin < 0 || end < begin || end > n) {
            op_fail(c, "segment_reduce(): offsets are out of order or out of range");
            return false;
        }
        for (int64_t j = 0; j < inner; j++) {
            double v = segment_fold(x, row * n * inner + j, begin, end, inner, kind, first);
            if (kind == SEGMENT_MEAN)
                v = end > begin ? v / (double)(end - begin) : given ? v : NAN;
            int64_t to = (row * segments + s) * inner + j;
            if (out->dtype == CFX_F64)
                ((double *)out->data)[to] = v;
            else
                ((float *)out->data)[to] = (float)v;
        }
    }
    if (lengths && at != n && !arg_bool(c, ARG_UNSAFE)) {
        op_fail(c, "segment_reduce(): Expected all rows of lengths along axis to sum to "
                   "data.size(lengths.dim()-1) when !unsafe.");
        return false;
    }
    return true;
}

static void kernel_segment_reduce(cfx_op_call *c) {
    const cfx_tensor *lengths = arg_tensor(c, ARG_LENGTHS);
    const cfx_tensor *by = lengths ? lengths : arg_tensor(c, ARG_OFFSETS);
    segment_kind kind;
    if (!segment_kind_of(c, &kind) || c->out[0]->numel == 0)
        return;
    by = cfx__tensor_contiguous_as(by, CFX_I64);
    if (op_failed())
        return;
    int64_t each = by->shape[by->ndim - 1], rows = each ? by->numel / each : 0;
    for (int64_t r = 0; r < rows; r++)
        if (!segment_row(c, r, (const int64_t *)by->data + r * each, lengths != NULL, kind))
            return;
}

/* ---- backward of segment_reduce -------------------------------------------------------------- */

/* Where each element of the data lies: its segment, and 1 (else 0, between segments). */
typedef struct {
    cfx_tensor *segment, *inside;
    int axis;
} segment_places;

static segment_places places_of(const cfx_back *b) {
    const cfx_tensor *x = back_arg(b, 0);
    cfx_tensor *by = back_arg(b, ARG_LENGTHS), *ends, *start = NULL;
    const int axis = back_dim(b, ARG_AXIS, x->ndim);
    int64_t shape[CFX_MAX_DIMS], n = x->shape[axis];
    if (by) {
        ends = cfx_cumsum(by, -1);
    } else {
        by = back_arg(b, ARG_OFFSETS);
        ends = cfx_contiguous(cfx_slice(by, -1, 1));
        start = cfx_slice(by, -1, 0, 1);
    }
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    cfx_tensor *at = cfx_arange(n, CFX_KW(dtype, cfx_i64));
    at = cfx_contiguous(cfx_expand(at, cfx_ints_value(axis + 1, shape)));
    cfx_tensor *segment = cfx_searchsorted(ends, at, CFX_KW(right, cfx_bool(true)));
    cfx_tensor *inside = cfx_lt(segment, b->out[0]->shape[axis]);
    if (start)
        inside = cfx_logical_and(inside, cfx_ge(at, start));
    segment = cfx_clamp_max(segment, b->out[0]->shape[axis] - 1);
    for (int i = axis + 1; i < x->ndim; i++) {
        segment = cfx_unsqueeze(segment, i);
        inside = cfx_unsqueeze(inside, i);
    }
    inside = cfx_to(inside, cfx_dtype_value(x->dtype));
    return (segment_places){cfx_expand(segment, sizes_of(x)), cfx_expand(inside, sizes_of(x)),
                            axis};
}

/* What each element finds in its segment's place of t. */
static cfx_tensor *spread(segment_places p, cfx_tensor *t) {
    return cfx_mul(cfx_gather(t, p.axis, p.segment), p.inside);
}

static cfx_tensor *count_in(segment_places p, cfx_tensor *out, cfx_tensor *each) {
    return cfx_scatter_add(zeros_as(out), p.axis, p.segment, cfx_mul(each, p.inside));
}

static void grad_segment_reduce(cfx_back *b) {
    cfx_tensor *g = b->gout[0], *x = back_arg(b, 0), *out = b->out[0], *each;
    const char *how = cfx_text(b->args[1]);
    cfx_value dtype = cfx_dtype_value(x->dtype);
    if (!x->numel || !out->numel) {
        back_give(b, 0, zeros_as(x));
        return;
    }
    segment_places p = places_of(b);
    if (!strcmp(how, "sum")) {
        each = spread(p, g);
    } else if (!strcmp(how, "mean")) {
        each = spread(p, cfx_div(g, cfx_clamp_min(count_in(p, out, p.inside), 1)));
    } else if (!strcmp(how, "prod")) { /* the product of the others */
        cfx_tensor *zero = cfx_eq(x, 0), *zeros = count_in(p, out, cfx_to(zero, dtype));
        cfx_tensor *rest = cfx_segment_reduce(
            cfx_masked_fill(x, zero, 1), b->args[1], CFX_KW(lengths, b->args[ARG_LENGTHS]),
            CFX_KW(offsets, b->args[ARG_OFFSETS]), CFX_KW(axis, b->args[ARG_AXIS]),
            CFX_KW(unsafe, b->args[ARG_UNSAFE]), CFX_KW(initial, b->args[ARG_INITIAL]));
        rest = cfx_masked_fill(cfx_mul(g, rest), cfx_gt(zeros, 1), 0);
        cfx_tensor *shares = cfx_div(spread(p, cfx_mul(g, out)), cfx_masked_fill(x, zero, 1));
        each = cfx_where(zero, spread(p, rest), shares);
    } else { /* those that equal the extreme share its gradient */
        cfx_tensor *equal = cfx_eq(x, cfx_gather(out, p.axis, p.segment));
        equal = cfx_to(cfx_logical_or(equal, cfx_isnan(x)), dtype);
        each = spread(p, cfx_div(g, cfx_clamp_min(count_in(p, out, equal), 1)));
        each = cfx_mul(each, equal);
    }
    back_give(b, 0, each);
}

CFX_OP(segment_reduce) = {
    "aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
    "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    "torch.segment_reduce", .shape = shape_segment_reduce, .kernel = kernel_segment_reduce,
    .dtypes = CFX_IN_FLOAT | CFX_IN(I64), .effects = CFX_CONTIGUOUS_ARGS,
    GRAD(segment_reduce, READ(0) | READ(2) | READ(4) | RESULT(0)), .out = "out"};

static void decompose_segment_reduce_backward(cfx_op_call *c) {
    cfx_value *a = c->args;
    cfx_value args[] = {a[2], a[3], a[4], CFX_NONE, a[5], a[6], cfx_bool(true), a[7]};
    cfx_value gin[COUNT(args)];
    if (!arg_is_none(c, 7))
        arg_float(c, 7); /* a complex one is refused */
    if (op_failed())
        return;
    back_apply(c, &cfx_op_segment_reduce, args, 1, (cfx_tensor *[]){arg_tensor(c, 1)},
               (cfx_tensor *[]){arg_tensor(c, 0)}, 1, gin);
    c->out[0] = tensor_of(gin[0]);
}

CFX_OP(_segment_reduce_backward) = {
    "aten::_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, "
    "Tensor? lengths=None, Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor",
    NULL, .decompose = decompose_segment_reduce_backward, .out = "out"};
