/* Embeddings: rows of a table by their numbers. */
#include "../back.h"
#include "../ready.h"
#include "../sizes.h"
#include "walk.h"

#include <math.h>

CFX_FAMILY(INDEX);

/* "torch.FloatTensor": how these messages name the type of an argument. */
static bool is_index_type(cfx_op_call *c, const char *func, const char *name, int position,
                          const cfx_tensor *t) {
    if (t->dtype == CFX_I64 || t->dtype == CFX_I32)
        return true;
    op_fail(
        c,
        "Expected tensor for argument #%d '%s' to have one of the following scalar types: Long, "
        "Int; but got torch.%sTensor instead (while checking arguments for %s)",
        position, name, cfx__dtype_title(t->dtype), func);
    return false;
}

static void shape_embedding(cfx_op_call *c) {
    const cfx_tensor *weight = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    int64_t shape[CFX_MAX_DIMS + 1];
    c->out[0] = &cfx__tensor_bad;
    if (weight->ndim != 2) {
        op_fail(c, "'weight' must be 2-D");
        return;
    }
    if (!is_index_type(c, "embedding", "indices", 1, indices))
        return;
    memcpy(shape, indices->shape, (size_t)indices->ndim * sizeof *shape);
    shape[indices->ndim] = weight->shape[1];
    out_new(c, 0, weight->dtype, indices->ndim + 1, shape);
}

static void kernel_embedding(cfx_op_call *c) {
    cfx_tensor *weight = arg_tensor(c, 0), *out = c->out[0];
    const cfx_tensor *indices = cfx__tensor_contiguous_as(arg_tensor(c, 1), CFX_I64);
    int64_t stride[2] = {weight->shape[1], 1};
    if (!op_failed())
        walk_along(c, WALK_GET, &(walk_line){.a = weight, .b = out, .dim = 0, .index = indices,
                                             .b_stride = stride});
}

/* Where PyTorch would give a sparse tensor, this is the same tensor written out. */
static void grad_embedding(cfx_back *b) {
    back_give(b, 0, cfx_embedding_dense_backward(b->gout[0], b->args[1], back_arg(b, 0)->shape[0],
                                                 b->args[2], b->args[3]));
}

/* Each row is read again from where it was added to. */
static void grad_embedding_dense_backward(cfx_back *b) {
    cfx_tensor *index = back_arg(b, 1);
    const int64_t padding = back_int(b, 3);
    cfx_tensor *rows = cfx_index_select(b->gout[0], 0, cfx_reshape(index, cfx_list(-1)));
    if (back_bool(b, 4)) {
        cfx_fail(CFX_RUNTIME_ERROR, b->at,
                 "embedding_backward: gradients of scale_grad_by_freq are not supported");
        return;
    }
    rows = cfx_view(rows, sizes_of(back_arg(b, 0)));
    if (padding >= 0)
        rows = cfx_masked_fill(rows, cfx_unsqueeze(cfx_eq(index, padding), -1), 0);
    back_give(b, 0, rows);
}

CFX_OP(embedding) = {"aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool "
                     "scale_grad_by_freq=False, bool sparse=False) -> Tensor",
                     "torch.embedding", .shape = shape_embedding, .kernel = kernel_embedding,
                     .dtypes = CFX_IN_ANY, .takes = cfx__ready_takes_rows, .make = cfx__ready_rows,
                     .layer = {.input = 1}, GRAD(embedding, READ(1)), .effects = CFX_MOVES,
                     .out = "out"};

/* ---- backward ------------------------------------------------------------------------------- */

static void shape_embedding_backward(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    c->out[0] = &cfx__tensor_bad;
    if (!is_index_type(c, "embedding_backward", "indices", 2, indices))
        return;
    if (!cfx__dtype_is_float(grad->dtype)) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"embedding_backward\" not implemented for '%s'",
                   cfx__dtype_title(grad->dtype));
        return;
    }
    int64_t columns = grad->ndim ? grad->shape[grad->ndim - 1] : 0;
    if (!grad->ndim || grad->numel != size_product(indices->numel, columns)) {
        op_fail(c, "embedding_dense_backward: grad of shape %s does not fit indices of shape %s",
                cfx__shape_text(grad->ndim, grad->shape),
                cfx__shape_text(indices->ndim, indices->shape));
        return;
    }
    out_new(c, 0, grad->dtype, 2, (int64_t[]){arg_int(c, 2), columns});
}

typedef struct {
    const int64_t *index, *counts; /* counts: how often each row is named, or NULL */
    int64_t n, rows, columns, padding;
    const char *grad;
    char *out;
} backward;

#define BACKWARD(name, T)                                                                          \
    CFX__SIMD static void name(void *arg, int64_t begin, int64_t end) {                            \
        const backward *b = arg;                                                                   \
        for (int64_t i = 0; i < b->n; i++) {                                                       \
            int64_t row = b->index[i];                                                             \
            if (row == b->padding || row < 0 || row >= b->rows)                                    \
                continue;                                                                          \
            const T *from = (const T *)b->grad + i * b->columns;                                   \
            T *to = (T *)b->out + row * b->columns;                                                \
            T scale = b->counts ? 1 / (T)b->counts[row] : 1;                                       \
            _Pragma("omp simd") for (int64_t j = begin; j < end; j++) to[j] += from[j] * scale;    \
        }                                                                                          \
    }
BACKWARD(backward_f32, float)
BACKWARD(backward_f64, double)

static void kernel_embedding_backward(cfx_op_call *c) {
    cfx_tensor *out = c->out[0], *grad = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    backward b = {.index = (const int64_t *)indices->data,
                  .n = indices->numel,
                  .rows = out->shape[0],
                  .columns = out->shape[1],
                  .padding = arg_int(c, 3),
                  .grad = grad->data,
                  .out = out->data};
    memset(out->data, 0, (size_t)(out->numel * cfx_dtype_size(out->dtype)));
    if (arg_bool(c, 4)) {
        int64_t *counts = scratch(c, CFX_I64, b.rows);
        if (!counts)
            return;
        memset(counts, 0, (size_t)b.rows * sizeof *counts);
        for (int64_t i = 0; i < b.n; i++)
            if (b.index[i] >= 0 && b.index[i] < b.rows)
                counts[b.index[i]]++;
        b.counts = counts;
    }
    cfx__parallel(b.columns, cfx__grain((double)b.n),
                  out->dtype == CFX_F32 ? backward_f32 : backward_f64, &b);
}

CFX_OP(embedding_dense_backward) = {
    "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt "
    "padding_idx, bool scale_grad_by_freq) -> Tensor",
    NULL,
    .shape = shape_embedding_backward,
    .kernel = kernel_embedding_backward,
    .dtypes = CFX_IN_NUMBER,
    .effects = CFX_CONTIGUOUS_ARGS, GRAD(embedding_dense_backward, READ(1)), .out = "out"};

static void decompose_embedding_backward(cfx_op_call *c) {
    if (arg_bool(c, 5))
        op_fail_as(NOT_IMPLEMENTED, c, "embedding_backward: there are no sparse gradients here");
    else
        c->out[0] = cfx_embedding_dense_backward(c->args[0], c->args[1], c->args[2], c->args[3],
                                                 c->args[4]);
}

CFX_OP(embedding_backward) = {
    "aten::embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, "
    "bool scale_grad_by_freq, bool sparse) -> Tensor",
    NULL, .decompose = decompose_embedding_backward, .effects = CFX_COMPOSITE};

/* ---- renorm --------------------------------------------------------------------------------- */

static void shape_embedding_renorm(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    c->out[0] = &cfx__tensor_bad;
    if (self->ndim != 2)
        op_fail(
            c,
            "Expected 2-dimensional tensor, but got %d-dimensional tensor for argument #1 'self' "
            "(while checking arguments for embedding_renorm_)",
            self->ndim);
    else if (!cfx__dtype_is_float(self->dtype))
        op_fail_as(NOT_IMPLEMENTED, c, "\"embedding_renorm\" not implemented for '%s'",
                   cfx__dtype_title(self->dtype));
    else if (is_index_type(c, "embedding_renorm_", "indices", 2, indices))
        out_like(c, 0, self->dtype, self);
}

static double row_norm(const double *row, int64_t n, double p) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(row[i]);
        sum = isinf(p) ? (x > sum ? x : sum) : p == 0 ? sum + (x != 0) : sum + pow(x, p);
    }
    return isinf(p) || p == 0 ? sum : pow(sum, 1 / p);
}

static void kernel_embedding_renorm(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    const cfx_tensor *indices = cfx__tensor_contiguous_as(arg_tensor(c, 1), CFX_I64);
    double max_norm = arg_float(c, 2), p = arg_float(c, 3);
    int64_t n = out->shape[1], rows = out->shape[0];
    int size = cfx_dtype_size(out->dtype);
    double *row = scratch(c, CFX_F64, n);
    uint8_t *seen = scratch(c, CFX_U8, rows);
    if (op_failed())
        return;
    const int64_t *at = (const int64_t *)indices->data;
    for (int64_t i = 0; i < indices->numel; i++)
        if (at[i] < 0 || at[i] >= rows) {
            op_fail_as(INDEX, c, "index %lld is out of bounds for dimension 0 with size %lld",
                       (long long)at[i], (long long)rows);
            return;
        }
    memset(seen, 0, (size_t)rows);
    op_start_from_self(c);
    for (int64_t i = 0; i < indices->numel; i++) {
        if (seen[at[i]]++)
            continue;
        char *data = out->data + at[i] * out->stride[0] * size;
        cfx__convert_in(row, CFX_F64, data, out->stride[1] * size, out->dtype, n);
        double norm = row_norm(row, n, p);
        seen[at[i]] = 1;
        if (!(norm > max_norm))
            continue;
        for (int64_t j = 0; j < n; j++)
            row[j] *= max_norm / (norm + 1e-7);
        cfx__convert_out(data, out->stride[1] * size, out->dtype, row, CFX_F64, n);
    }
}

CFX_OP(embedding_renorm) = {
    "aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float "
    "norm_type) -> Tensor",
    NULL, .shape = shape_embedding_renorm, .kernel = kernel_embedding_renorm,
    .effects = CFX_UPDATE, .inplace = "default", .out = "out"};
