/* What the linear algebra operators share, and the operator that reports LAPACK's codes. */
#include <cfx/ops.h>

#include "linalg.h"

/* ---- checks ---------------------------------------------------------------------------------- */

bool check_matrix(cfx_op_call *c, const cfx_tensor *t, const char *fn, const char *arg) {
    if (t->ndim < 2) {
        op_fail(c, "%s: The input tensor %s must have at least 2 dimensions.", fn, arg);
        return false;
    }
    if (rows_of(t) > INT32_MAX || cols_of(t) > INT32_MAX) {
        op_fail_large(c, "%s: matrices of more than %d rows or columns are too large",
                      fn, INT32_MAX);
        return false;
    }
    return true;
}

bool check_square(cfx_op_call *c, const cfx_tensor *t, const char *fn) {
    if (!check_matrix(c, t, fn, "A"))
        return false;
    if (rows_of(t) == cols_of(t))
        return true;
    op_fail(c, "%s: A must be batches of square matrices, but they are %lld by %lld matrices", fn,
            (long long)rows_of(t), (long long)cols_of(t));
    return false;
}

bool check_floating(cfx_op_call *c, const cfx_tensor *t, const char *fn) {
    if (cfx__dtype_is_float(t->dtype) || cfx__dtype_is_complex(t->dtype))
        return true;
    op_fail(c, "%s: Expected a floating point or complex tensor as input. Got %s", fn,
            cfx__dtype_title(t->dtype));
    return false;
}

bool check_full_floating(cfx_op_call *c, const cfx_tensor *t, const char *fn) {
    if (!check_floating(c, t, fn))
        return false;
    if (!cfx__dtype_is_half(t->dtype))
        return true;
    op_fail(c, "%s: Low precision dtypes not supported. Got %s", fn, cfx__dtype_title(t->dtype));
    return false;
}

bool check_solver(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b, bool left,
                  const char *fn) {
    if (!check_square(c, a, fn) || !check_matrix(c, b, fn, "B"))
        return false;
    if (left ? rows_of(a) == rows_of(b) : cols_of(a) == cols_of(b))
        return true;
    op_fail(c,
            "%s: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)", fn,
            left ? "AX = B" : "XA = B", (long long)rows_of(a), (long long)cols_of(a),
            (long long)rows_of(b), (long long)cols_of(b));
    return false;
}

bool check_old_solver(cfx_op_call *c, const cfx_tensor *b, const cfx_tensor *a, const char *fn) {
    if (b->dtype != a->dtype)
        op_fail(c,
                "Expected b and A to have the same dtype, but found b of type %s and A of type %s "
                "instead.",
                cfx__dtype_title(b->dtype), cfx__dtype_title(a->dtype));
    else if (rows_of(a) != cols_of(a))
        op_fail(c, "A must be batches of square matrices, but they are %lld by %lld matrices",
                (long long)rows_of(a), (long long)cols_of(a));
    else if (cols_of(a) != rows_of(b))
        op_fail(c,
                "Incompatible matrix sizes for %s: each A matrix is %lld by %lld but each b matrix "
                "is %lld by %lld",
                fn, (long long)cols_of(a), (long long)cols_of(a), (long long)rows_of(b),
                (long long)cols_of(b));
    else
        return check_matrix(c, a, fn, "A") && check_matrix(c, b, fn, "B");
    return false;
}

const lapack *lapack_of(cfx_op_call *c, const cfx_tensor *t, const char *kernel) {
    const lapack *la = lapack_for(t->dtype);
    if (!la)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", kernel,
                   cfx__dtype_title(t->dtype));
    return la;
}

/* ---- what went wrong ------------------------------------------------------------------------- */

static void report_positive(cfx_op_call *c, const char *api, const char *batch, int info) {
    if (strstr(api, "inv"))
        op_fail_as(LINALG, c,
                "%s%s: The diagonal element %d is zero, the inversion could not be completed "
                "because the input matrix is singular.",
                api, batch, info);
    else if (strstr(api, "solve"))
        op_fail_as(LINALG, c, "%s%s: The solver failed because the input matrix is singular.", api,
                   batch);
    else if (strstr(api, "cholesky"))
        op_fail_as(LINALG, c,
                "%s%s: The factorization could not be completed because the input is not "
                "positive-definite (the leading minor of order %d is not positive-definite).",
                api, batch, info);
    else if (strstr(api, "eig") || strstr(api, "svd"))
        op_fail_as(LINALG, c,
                "%s%s: The algorithm failed to converge because the input matrix is "
                "ill-conditioned or has too many repeated %svalues (error code: %d).",
                api, batch, strstr(api, "svd") ? "singular " : "eigen", info);
    else if (strstr(api, "lstsq"))
        op_fail_as(LINALG, c,
                "%s%s: The least squares solution could not be computed because the input matrix "
                "does not have full rank (error code: %d).",
                api, batch, info);
    else if (strstr(api, "lu_factor"))
        op_fail_as(LINALG, c,
                "%s%s: U[%d,%d] is zero and using it on lu_solve would result in a division by "
                "zero. If you still want to perform the factorization, consider calling "
                "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
                api, batch, info, info);
    else
        op_fail_as(LINALG, c, "%s: Unknown error code: %d.", api, info);
}

void report_info(cfx_op_call *c, const int32_t *info, int64_t n, const char *api, bool is_matrix) {
    int64_t i = 0;
    while (i < n && !info[i])
        i++;
    if (i == n)
        return;
    const char *batch = is_matrix ? "" : cfx__text_format(": (Batch element %lld)", (long long)i);
    if (info[i] > 0)
        report_positive(c, api, batch, info[i]);
    else if (strstr(api, "svd") && info[i] == -4)
        op_fail_as(LINALG, c,
                "%s%s: The algorithm failed to converge because the input matrix contained "
                "non-finite values.",
                api, batch);
    else
        op_fail(c, "%s%s: Argument %d has illegal value.", api, batch, -info[i]);
}

static void check_errors(cfx_op_call *c) {
    const cfx_tensor *info = arg_tensor(c, 0);
    if (info->dtype != CFX_I32) {
        op_fail(c, "_linalg_check_errors: Expected info to be a tensor of torch.int32");
        return;
    }
    if (c->fake || !info->data)
        return;
    info = cfx__tensor_contiguous(info);
    report_info(c, (const int32_t *)info->data, info->numel, arg_text(c, 1), arg_bool(c, 2));
}

CFX_OP(_linalg_check_errors) = {
    "aten::_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()", NULL,
    .decompose = check_errors, .effects = CFX_SIDE};

void check_info(cfx_op_call *c, cfx_value info, const char *api) {
    cfx_aten__linalg_check_errors(info, api,
                                  CFX_KW(is_matrix, cfx_bool(arg_tensor(c, 0)->ndim == 2)));
}

/* ---- results and copies ---------------------------------------------------------------------- */

void column_strides(int ndim, const int64_t *shape, int64_t *stride) {
    cfx__strides_contiguous(ndim, shape, stride);
    if (ndim >= 2) {
        stride[ndim - 1] = shape[ndim - 2] > 1 ? shape[ndim - 2] : 1;
        stride[ndim - 2] = 1;
    }
}

cfx_tensor *out_columns(cfx_op_call *c, int i, cfx_dtype dtype, int ndim, const int64_t *shape) {
    int64_t stride[CFX_MAX_DIMS];
    column_strides(ndim, shape, stride);
    return out_strided(c, i, dtype, ndim, shape, stride);
}

cfx_tensor *out_nothing(cfx_op_call *c, int i, cfx_dtype dtype) {
    int64_t none = 0;
    return out_new(c, i, dtype, 1, &none);
}

cfx_tensor *columns_of(cfx_op_call *c, const cfx_tensor *t, int nbatch, const int64_t *batch) {
    int64_t shape[CFX_MAX_DIMS + 2], stride[CFX_MAX_DIMS + 2];
    memcpy(shape, batch, (size_t)nbatch * sizeof *shape);
    shape[nbatch] = rows_of(t);
    shape[nbatch + 1] = cols_of(t);
    column_strides(nbatch + 2, shape, stride);
    cfx_tensor *copy = cfx__tensor_empty(c->at, t->dtype, false, nbatch + 2, shape, stride);
    if (copy->data)
        cfx__tensor_copy(copy, t);
    return copy;
}

cfx_tensor *transposed(const cfx_tensor *t) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = t->ndim;
    memcpy(shape, t->shape, (size_t)n * sizeof *shape);
    memcpy(stride, t->stride, (size_t)n * sizeof *stride);
    shape[n - 1] = t->shape[n - 2], shape[n - 2] = t->shape[n - 1];
    stride[n - 1] = t->stride[n - 2], stride[n - 2] = t->stride[n - 1];
    return cfx__tensor_alias(t, n, shape, stride, t->offset);
}

cfx_tensor *as_column(const cfx_tensor *t) {
    int64_t shape[CFX_MAX_DIMS + 1], stride[CFX_MAX_DIMS + 1];
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    memcpy(stride, t->stride, (size_t)t->ndim * sizeof *stride);
    shape[t->ndim] = stride[t->ndim] = 1;
    return cfx__tensor_alias(t, t->ndim + 1, shape, stride, t->offset);
}

void fill_identity(cfx_tensor *t) {
    cfx__tensor_fill(t, cfx_int(0));
    int n = t->ndim - 1;
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    memcpy(shape, t->shape, (size_t)n * sizeof *shape);
    memcpy(stride, t->stride, (size_t)n * sizeof *stride);
    shape[n - 1] = rows_of(t) < cols_of(t) ? rows_of(t) : cols_of(t);
    stride[n - 1] = t->stride[n - 1] + t->stride[n];
    cfx__tensor_fill(cfx__tensor_alias(t, n, shape, stride, t->offset), cfx_int(1));
}

void keep_triangle(cfx_tensor *t, char keep) {
    int64_t m = rows_of(t), n = cols_of(t), batch = batch_of(t);
    size_t size = (size_t)cfx_dtype_size(t->dtype);
    for (int64_t b = 0; b < batch && t->numel; b++) {
        char *column = nth_matrix(t, b);
        for (int64_t j = 0; j < n; j++, column += m * (int64_t)size) {
            int64_t from = keep == 'U' ? j + 1 : 0, to = keep == 'U' ? m : j < m ? j : m;
            if (from < to)
                memset(column + from * (int64_t)size, 0, (size_t)(to - from) * size);
        }
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

int broadcast_batch(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *b, int64_t *batch) {
    int n = 0;
    if (!cfx__shape_broadcast(c->at, &n, batch, a->ndim - 2, a->shape) ||
        !cfx__shape_broadcast(c->at, &n, batch, b->ndim - 2, b->shape))
        return -1;
    return n;
}

int64_t batch_index(const cfx_tensor *t, int nbatch, const int64_t *batch, int64_t i) {
    int64_t index = 0, scale = 1;
    int own = t->ndim - 2;
    for (int d = nbatch - 1; d >= 0; d--) {
        int64_t at = i % batch[d];
        i /= batch[d];
        int k = own - (nbatch - d);
        if (k < 0)
            break;
        if (t->shape[k] != 1)
            index += at * scale;
        scale *= t->shape[k];
    }
    return index;
}
