/* Indexing along one dimension by a vector (index_select, index_add, ...), and of the tensor seen
 * as one vector (take, put). */
#include "index.h"
#include "walk.h"

#include <math.h>

CFX_FAMILY(INDEX);

static long long ll(int64_t x) { return (long long)x; }

/* ---- index_select --------------------------------------------------------------------------- */

static void shape_index_select(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2);
    int dim = arg_dim(c, 1, self->ndim);
    int64_t shape[CFX_MAX_DIMS];
    c->out[0] = &cfx__tensor_bad;
    if (dim < 0)
        return;
    if (index->ndim > 1) {
        op_fail_as(INDEX, c, "index_select(): Index is supposed to be a vector");
        return;
    }
    if (!self->ndim && index->numel != 1) {
        op_fail_as(INDEX, c,
                   "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
                   ll(index->numel));
        return;
    }
    if (index->dtype != CFX_I64 && index->dtype != CFX_I32) {
        op_fail(c, "index_select(): Expected dtype int32 or int64 for index");
        return;
    }
    for (int d = 0; d < self->ndim; d++)
        shape[d] = d == dim ? index->numel : self->shape[d];
    out_new(c, 0, self->dtype, self->ndim, shape);
}

/* Strides of what goes with self for each dimension of that, one at least; without dimensions it
 * has one element. */
static void source_strides(const cfx_tensor *self, const cfx_tensor *source, int64_t *stride) {
    stride[0] = 0;
    for (int d = 0; d < self->ndim || d < source->ndim; d++)
        stride[d] = d < source->ndim ? source->stride[d] : 0;
}

static void kernel_index_select(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0), *out = c->out[0];
    const cfx_tensor *index = cfx__tensor_contiguous_as(arg_tensor(c, 2), CFX_I64);
    int64_t stride[CFX_MAX_DIMS];
    source_strides(self, out, stride);
    int dim = arg_dim(c, 1, self->ndim);
    unsigned rules = self->ndim > 1 && dim == 1 ? WALK_INDICES | WALK_RUNTIME : 0;
    if (!op_failed())
        walk_along(c, WALK_GET, &(walk_line){.rules = rules, .a = self, .b = out, .dim = dim,
                                             .index = index, .b_stride = stride});
}

CFX_OP(index_select) = {"aten::index_select(Tensor self, int dim, Tensor index) -> Tensor",
                        "torch.index_select Tensor.index_select", .shape = shape_index_select,
                        .kernel = kernel_index_select,
                        .dtypes = CFX_IN_ANY, GRAD(index_select, READ(2)), .effects = CFX_MOVES,
                        .out = "out"};

/* ---- index_add, index_reduce ---------------------------------------------------------------- */

/* Checks that self and source agree beside the dimension indexed. */
static bool same_slices(const cfx_tensor *self, const cfx_tensor *source, int dim) {
    if (self->ndim <= 1 && source->ndim <= 1)
        return true;
    bool same = self->ndim == source->ndim;
    for (int d = 0; same && d < self->ndim; d++)
        same = d == dim || self->shape[d] == source->shape[d];
    return same;
}

static void shape_index_func(cfx_op_call *c, const char *func) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2),
                     *source = arg_tensor(c, 3);
    int dim = arg_dim(c, 1, self->ndim);
    c->out[0] = &cfx__tensor_bad;
    if (dim < 0)
        return;
    int64_t along = !source->ndim ? 1 : dim < source->ndim ? source->shape[dim] : -1;
    if (index->ndim > 1)
        op_fail_as(
            INDEX, c,
            "%s_(): Index is supposed to be a vector, but got dim: %d with type: %s and size: %s",
            func, index->ndim, cfx__dtype_title(index->dtype),
            cfx__shape_text(index->ndim, index->shape));
    else if (index->dtype != CFX_I64 && index->dtype != CFX_I32)
        op_fail(c, "%s_(): Expected dtype int32/int64 for index but got: %s", func,
                cfx__dtype_title(index->dtype));
    else if (self->dtype != source->dtype)
        op_fail(c, "%s_(): self (%s) and source (%s) must have the same scalar type", func,
                cfx__dtype_title(self->dtype), cfx__dtype_title(source->dtype));
    else if (dim != 0 && dim >= source->ndim)
        op_fail(c, "%s_(): Indexing dim %d is out of bounds of the source tensor with dim %d", func,
                dim, source->ndim);
    else if (index->numel != along)
        op_fail(
            c,
            "%s_(): Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: "
            "%d",
            func, ll(index->numel), ll(along), dim);
    else if (!same_slices(self, source, dim))
        op_fail(
            c,
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            "Got self.shape = %s source.shape = %s",
            cfx__shape_text(self->ndim, self->shape), cfx__shape_text(source->ndim, source->shape));
    else
        out_new(c, 0, self->dtype, self->ndim, self->shape);
}

static void shape_index_add(cfx_op_call *c) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    uint32_t alpha = c->args[4].tag;
    if (alpha == CFX_TAG_FLOAT && !cfx__dtype_is_float(d) && !cfx__dtype_is_complex(d)) {
        op_fail(c,
                "For integral input tensors, argument alpha must not be a floating point number.");
        c->out[0] = &cfx__tensor_bad;
        return;
    }
    shape_index_func(c, "index_add");
}

static void kernel_index_add(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *source = arg_tensor(c, 3);
    const cfx_tensor *index = cfx__tensor_contiguous(arg_tensor(c, 2));
    int64_t stride[CFX_MAX_DIMS];
    int dim = arg_dim(c, 1, out->ndim);
    source_strides(out, source, stride);
    op_start_from_self(c);
    if (!op_failed())
        walk_along(c, WALK_ADD, &(walk_line){.a = out, .b = source, .dim = dim, .index = index,
                                             .b_stride = stride, .alpha = c->args[4]});
}

CFX_OP(index_add) = {"aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar "
                     "alpha=1) -> Tensor",
                     "torch.index_add Tensor.index_add",
                     .shape = shape_index_add,
                     .kernel = kernel_index_add,
                     .effects = CFX_UPDATE,
                     .dtypes = CFX_IN_NUMBER | CFX_IN(C64) | CFX_IN(C128),
                     GRAD(index_add, READ(2)), .core = core_index_add, .inplace = "default",
                     .out = "out"};

static void shape_index_reduce(cfx_op_call *c) {
    const char *reduce = arg_text(c, 4);
    const cfx_tensor *self = arg_tensor(c, 0);
    c->out[0] = &cfx__tensor_bad;
    if (strcmp(reduce, "prod") && strcmp(reduce, "mean") && strcmp(reduce, "amax") &&
        strcmp(reduce, "amin"))
        op_fail(c,
                "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got %s.",
                reduce);
    else if (cfx__dtype_is_complex(self->dtype) || self->dtype == CFX_BOOL)
        op_fail_as(NOT_IMPLEMENTED, c, "\"index_reduce\" not implemented for '%s'",
                   cfx__dtype_title(self->dtype));
    else
        shape_index_func(c, "index_reduce");
}

#define DIVIDE(name, T, expr)                                                                      \
    static void name(void *const *p, int64_t n, const void *params) {                              \
        T *out = p[0];                                                                             \
        const T *x = p[1], *y = p[2];                                                              \
        (void)params;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = expr;                                                                         \
    }
DIVIDE(divide_f32, float, x[i] / y[i])
DIVIDE(divide_f64, double, x[i] / y[i])
DIVIDE(divide_i64, int64_t, x[i] / y[i] - (x[i] % y[i] < 0))

void op_divide_counts(cfx_tensor *out, const cfx_tensor *counts) {
    cfx_dtype d = out->dtype;
    cfx__iter_loop *loop = d == CFX_F32 ? divide_f32 : d == CFX_F64 ? divide_f64 : divide_i64;
    cfx__iter_pointwise(loop, 1, 2, (cfx__iter_operand[]){{out, d}, {out, d}, {counts, d}}, NULL,
                        4);
}

/* How often each slice took part: int64, broadcasting over out. At least 1. */
static cfx_tensor *slice_counts(cfx_op_call *c, const cfx_tensor *out, int dim,
                                const cfx_tensor *index, bool include_self) {
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < out->ndim; d++)
        shape[d] = d == dim ? out->shape[d] : 1;
    cfx_tensor *counts = cfx__tensor_empty(c->at, CFX_I64, false, out->ndim, shape, NULL);
    if (cfx__obj_is_bad(counts))
        return counts;
    int64_t *n = (int64_t *)counts->data;
    for (int64_t i = 0; i < counts->numel; i++)
        n[i] = include_self;
    for (int64_t i = 0; i < index->numel; i++)
        n[((const int64_t *)index->data)[i]]++;
    for (int64_t i = 0; i < counts->numel; i++)
        n[i] += !n[i];
    return counts;
}

static void kernel_index_reduce(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *source = arg_tensor(c, 3);
    const cfx_tensor *index = cfx__tensor_contiguous(arg_tensor(c, 2));
    const char *reduce = arg_text(c, 4);
    bool include_self = arg_bool(c, 5), mean = !strcmp(reduce, "mean");
    int dim = arg_dim(c, 1, out->ndim);
    walk_op op = mean               ? WALK_ADD
                 : reduce[0] == 'p' ? WALK_MUL
                 : reduce[2] == 'a' ? WALK_MAX
                                    : WALK_MIN;
    int64_t stride[CFX_MAX_DIMS], none[CFX_MAX_DIMS] = {0};
    if (op_failed())
        return;
    source_strides(out, source, stride);
    op_start_from_self(c);
    if (!include_self) {
        double start = op == WALK_ADD   ? 0
                       : op == WALK_MUL ? 1
                       : op == WALK_MAX ? -INFINITY
                                        : INFINITY;
        cfx_value v = out->dtype != CFX_I64 ? cfx_float(start)
                      : op == WALK_MAX      ? cfx_int(INT64_MIN)
                      : op == WALK_MIN      ? cfx_int(INT64_MAX)
                                            : cfx_int((int64_t)start);
        cfx_tensor *first = cfx__tensor_scalar(v, out->dtype);
        walk_along(c, WALK_SET, &(walk_line){.a = out, .b = first, .dim = dim, .index = index,
                                             .b_stride = none});
    }
    if (!op_failed())
        walk_along(c, op, &(walk_line){.a = out, .b = source, .dim = dim, .index = index,
                                       .b_stride = stride});
    if (mean && !op_failed()) {
        cfx_tensor *counts = slice_counts(c, out, dim, index, include_self);
        if (!op_failed())
            op_divide_counts(out, counts);
    }
}

CFX_OP(index_reduce) = {"aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str "
                        "reduce, *, bool include_self=True) -> Tensor",
                        "torch.index_reduce Tensor.index_reduce",
                        .shape = shape_index_reduce,
                        .kernel = kernel_index_reduce,
                        .effects = CFX_UPDATE,
                        .dtypes = CFX_IN_NUMBER,
                        GRAD(reduce_to, READ(0) | READ(2) | READ(3) | RESULT(0)),
                        .inplace = "default", .out = "out"};

/* ---- index_copy, index_fill ----------------------------------------------------------------- */

static const char *slice_text(const cfx_tensor *t, int dim) {
    int64_t shape[CFX_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < t->ndim; d++)
        if (d != dim)
            shape[n++] = t->shape[d];
    return cfx__shape_text(n, shape);
}

static void shape_index_copy(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2),
                     *source = arg_tensor(c, 3);
    int dim = arg_dim(c, 1, self->ndim);
    c->out[0] = &cfx__tensor_bad;
    if (dim < 0 || !op_takes(c, self, "index_copy_cpu"))
        return;
    if (index->ndim > 1)
        op_fail_as(INDEX, c, "index_copy_(): Index should have dimension 1 or 0 (got %d)",
                   index->ndim);
    else if (!source->ndim && index->numel != 1)
        op_fail_as(INDEX, c,
                   "index_copy_(): When source is scalar, index should have one element (got %lld)",
                   ll(index->numel));
    else if (source->ndim != self->ndim && source->ndim && self->ndim)
        op_fail_as(
            INDEX, c,
            "index_copy_(): When source and destination are not scalars, their dimensionality "
            "must match. Source dimensionality (%d), destination dimensionality (%d)",
            source->ndim, self->ndim);
    else if (index->dtype != CFX_I64)
        op_fail(c, "index_copy_(): Expected a long tensor for index, but got %s",
                cfx__dtype_title(index->dtype));
    else if (self->dtype != source->dtype)
        op_fail(
            c,
            "index_copy_(): self and source expected to have the same dtype, but got (self) %s and "
            "(source) %s",
            cfx__dtype_title(self->dtype), cfx__dtype_title(source->dtype));
    else if (strcmp(slice_text(self, dim), slice_text(source, dim)))
        op_fail(c,
                "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
                "slice shape: %s at dimension %d and source slice shape: %s at dimension 0.",
                slice_text(self, dim), dim, slice_text(source, dim));
    else if (source->ndim && index->numel != source->shape[dim])
        op_fail_as(
            INDEX, c,
            "index_copy_(): Number of indices (%lld) should be equal to source.size(dim) (%lld)",
            ll(index->numel), ll(source->shape[dim]));
    else
        out_new(c, 0, self->dtype, self->ndim, self->shape);
}

static void kernel_index_copy(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *source = arg_tensor(c, 3);
    const cfx_tensor *index = cfx__tensor_contiguous(arg_tensor(c, 2));
    int64_t stride[CFX_MAX_DIMS];
    int dim = arg_dim(c, 1, out->ndim);
    source_strides(out, source, stride);
    if (op_failed())
        return;
    op_start_from_self(c);
    walk_along(c, WALK_SET,
               &(walk_line){.rules = WALK_INDEX_COPY | WALK_LAZY, .a = out, .b = source,
                            .dim = dim, .index = index, .b_stride = stride});
}

CFX_OP(index_copy) = {
    "aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    "torch.index_copy Tensor.index_copy",
    .shape = shape_index_copy,
    .kernel = kernel_index_copy,
    .dtypes = CFX_IN_AS_IS | CFX_IN(C32),
    .effects = CFX_UPDATE,
    GRAD(index_copy, READ(2)),
    .core = core_index_copy,
    .autocast = CFX_CAST_WIDEST, .inplace = "default", .out = "out"};

static void shape_index_fill(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *value = arg_tensor(c, 3);
    int dim = arg_dim(c, 1, self->ndim);
    bool complex_ = value ? cfx__dtype_is_complex(value->dtype) : c->args[3].tag == CFX_TAG_COMPLEX;
    c->out[0] = &cfx__tensor_bad;
    if (dim < 0 || !op_takes(c, self, "index_fill_cpu"))
        return;
    if (value && value->ndim)
        op_fail(c,
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d "
                "dimension(s).",
                value->ndim);
    else if (index->dtype != CFX_I64)
        op_fail_as(INDEX, c, "index_fill_(): Expected dtype int64 for index.");
    else if (complex_ && !cfx__dtype_is_complex(self->dtype))
        op_fail(c, "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    else if (index->ndim > 1)
        op_fail(c, "Index has to be a vector/scalar");
    else
        out_like(c, 0, self->dtype, self);
}

static void kernel_index_fill(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *value = arg_tensor(c, 3);
    const cfx_tensor *index = cfx__tensor_contiguous(arg_tensor(c, 2));
    int64_t none[CFX_MAX_DIMS] = {0};
    value = value ? cfx__tensor_to_dtype(value, out->dtype)
                  : cfx__tensor_scalar(c->args[3], out->dtype);
    int dim = arg_dim(c, 1, out->ndim);
    if (op_failed())
        return;
    op_start_from_self(c);
    walk_along(c, WALK_SET,
               &(walk_line){.rules = WALK_WRAP | WALK_NAMED | WALK_LAZY, .a = out, .b = value,
                            .dim = dim, .index = index, .b_stride = none});
}

CFX_OP(index_fill_int_Scalar) = {
    "aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    "torch.index_fill Tensor.index_fill",
    .shape = shape_index_fill,
    .kernel = kernel_index_fill,
    .dtypes = CFX_IN_AS_IS | CFX_IN(C32),
    .effects = CFX_UPDATE,
    GRAD(index_fill, READ(2)),
    .core = core_index_fill, .inplace = "int_Scalar", .out = "int_Scalar_out"};
CFX_OP(index_fill_int_Tensor) = {
    "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    NULL,
    .shape = shape_index_fill,
    .kernel = kernel_index_fill,
    .dtypes = CFX_IN_AS_IS | CFX_IN(C32),
    .effects = CFX_UPDATE,
    GRAD(index_fill, READ(2)),
    .core = core_index_fill, .inplace = "int_Tensor", .out = "int_Tensor_out"};

/* ---- take, put ------------------------------------------------------------------------------ */

static bool is_long(cfx_op_call *c, const char *func, const cfx_tensor *index) {
    if (index->dtype == CFX_I64)
        return true;
    op_fail(c, "%s(): Expected a long tensor for index, but got %s", func,
            cfx__dtype_title(index->dtype));
    return false;
}

static void shape_take(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 1);
    c->out[0] = &cfx__tensor_bad;
    if (!is_long(c, "take", index) || !op_takes(c, self, "take_cpu"))
        return;
    if (!self->numel && index->numel)
        op_fail_as(INDEX, c, "take(): tried to take from an empty tensor");
    else
        out_new(c, 0, self->dtype, index->ndim, index->shape);
}

/* The walk over all of `flat`, one vector, at the positions of index. */
static void walk_flat(cfx_op_call *c, walk_op op, cfx_tensor *flat, const cfx_tensor *index,
                      cfx_tensor *other) {
    int64_t one = 1;
    walk w = {.op = op,
              .dtype = flat->dtype,
              .a = flat->data,
              .b = other->data,
              .positions = index->numel,
              .step_b = 1};
    w.at = walk_offsets(c, WALK_WRAP | WALK_TAKE, 0, index->numel, 1, &index, &flat->numel, &one);
    if (w.at)
        walk_run(c, &w);
}

static void kernel_take(cfx_op_call *c) {
    walk_flat(c, WALK_GET, arg_tensor(c, 0), arg_tensor(c, 1), c->out[0]);
}

CFX_OP(take) = {"aten::take(Tensor self, Tensor index) -> Tensor",
                "torch.take Tensor.take",
                .shape = shape_take,
                .kernel = kernel_take,
                .effects = CFX_CONTIGUOUS_ARGS | CFX_MOVES,
                GRAD(take, READ(1)),
                .core = core_take, .out = "out"};

static void shape_put(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 1),
                     *source = arg_tensor(c, 2);
    c->out[0] = &cfx__tensor_bad;
    if (!is_long(c, "put_", index) || !op_takes(c, self, "take_put_cpu"))
        return;
    if (self->dtype != source->dtype)
        op_fail(
            c,
            "put_(): self and source expected to have the same dtype, but got self.dtype = %s and "
            "source.dtype = %s",
            cfx__dtype_title(self->dtype), cfx__dtype_title(source->dtype));
    else if (source->numel != index->numel)
        op_fail_as(INDEX, c,
                   "put_(): Expected source and index to have the same number of elements, but got "
                   "source.numel() = %lld, index.numel() = %lld",
                   ll(source->numel), ll(index->numel));
    else if (!self->numel && index->numel)
        op_fail_as(INDEX, c, "put_(): Tried to put elements into an empty tensor");
    else
        out_like(c, 0, self->dtype, self);
}

static void kernel_put(cfx_op_call *c) {
    cfx_tensor *self = arg_tensor(c, 0);
    bool accumulate = arg_bool(c, 3);
    cfx_dtype d = accumulate ? op_lifted(self->dtype) : self->dtype;
    cfx_tensor *flat = cfx__tensor_empty(c->at, d, false, self->ndim, self->shape, NULL);
    const cfx_tensor *index = cfx__tensor_contiguous(arg_tensor(c, 1));
    cfx_tensor *source = cfx__tensor_contiguous_as(arg_tensor(c, 2), d);
    if (op_failed())
        return;
    cfx__tensor_copy(flat, self);
    walk_flat(c, accumulate ? WALK_ADD : WALK_SET, flat, index, source);
    if (!op_failed())
        cfx__tensor_copy(c->out[0], flat);
}

CFX_OP(put) = {
    "aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    "Tensor.put",
    .shape = shape_put,
    .kernel = kernel_put,
    .effects = CFX_UPDATE,
    GRAD(put, READ(1)), .inplace = "default", .out = "out"};
