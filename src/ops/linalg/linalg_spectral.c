/* Singular values, eigenvalues, least squares. */
#include <cfx/ops.h>

#include "linalg.h"

CFX_FAMILY(LINEAR);

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- singular values ------------------------------------------------------------------------- */

static void shape_svd(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    bool full = arg_bool(c, 1), uv = arg_bool(c, 2);
    if (!check_matrix(c, a, "linalg.svd", "A") || !check_floating(c, a, "linalg.svd"))
        return;
    if (!arg_is_none(c, 3)) {
        op_fail(c, "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs "
                   "with cuSOLVER backend.");
        return;
    }
    if (!lapack_of(c, a, "linalg_svd_cpu"))
        return;
    int64_t shape[CFX_MAX_DIMS], m = rows_of(a), n = cols_of(a), k = least(m, n);
    int d = a->ndim;
    memcpy(shape, a->shape, (size_t)d * sizeof *shape);
    if (uv) {
        shape[d - 1] = full ? m : k;
        out_columns(c, 0, a->dtype, d, shape);
        shape[d - 2] = full ? n : k;
        shape[d - 1] = n;
        out_columns(c, 2, a->dtype, d, shape);
    } else {
        out_nothing(c, 0, a->dtype);
        out_nothing(c, 2, a->dtype);
    }
    shape[d - 2] = k;
    out_new(c, 1, cfx__dtype_real(a->dtype), d - 1, shape);
}

static void kernel_svd(cfx_op_call *c) {
    cfx_tensor *a = own_columns(c, arg_tensor(c, 0));
    cfx_tensor *u = c->out[0], *s = c->out[1], *v = c->out[2];
    const lapack *la = lapack_for(a->dtype);
    int64_t m = rows_of(a), n = cols_of(a), k = least(m, n), batch = batch_of(a);
    bool full = arg_bool(c, 1), uv = arg_bool(c, 2);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed())
        return;
    if (!a->numel) {
        if (uv && full) { /* of an empty matrix, any orthogonal ones will do */
            fill_identity(u);
            fill_identity(v);
        }
        return;
    }
    char job = !uv ? 'N' : full ? 'A' : 'S';
    for (int64_t b = 0; b < batch; b++)
        info[b] = la->finite(m * n, nth_matrix(a, b))
                      ? la->svd(job, (int)m, (int)n, nth_matrix(a, b), nth(s, b, k),
                                uv ? nth_matrix(u, b) : NULL, uv ? nth_matrix(v, b) : NULL)
                      : -4;
    report_info(c, info, batch, "linalg.svd", a->ndim == 2);
}

CFX_OP(_linalg_svd) = {
    "aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? "
    "driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    NULL, .shape = shape_svd, .kernel = kernel_svd,
    GRAD(svd, READ(0) | RESULT(0) | RESULT(1) | RESULT(2)), .out = "U"};

static void decompose_svd(cfx_op_call *c) {
    cfx_value v =
        cfx_aten__linalg_svd(c->args[0], c->args[1], cfx_bool(true), CFX_KW(driver, c->args[2]));
    for (int i = 0; i < 3; i++)
        c->out[i] = cfx_tensor_at(v, i);
}

static void decompose_svdvals(cfx_op_call *c) {
    cfx_value v = cfx_aten__linalg_svd(c->args[0], cfx_bool(false), cfx_bool(false),
                                       CFX_KW(driver, c->args[1]));
    c->out[0] = cfx_tensor_at(v, 1);
}

CFX_OP(linalg_svd) = {
    "aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, "
    "Tensor S, Tensor Vh)",
    "torch._C._linalg.linalg_svd torch.linalg.svd", .decompose = decompose_svd,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "U"};
CFX_OP(linalg_svdvals) = {
    "aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    "torch._C._linalg.linalg_svdvals torch.linalg.svdvals", .decompose = decompose_svdvals,
    .effects = CFX_COMPOSITE, .core = core_linalg_svdvals, .core_early = true,
    .autocast = CFX_CAST_F32, .out = "out"};

/* ---- eigenvalues of symmetric matrices ------------------------------------------------------- */

static void shape_eigh(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    const char *uplo = arg_text(c, 1);
    if (!check_square(c, a, "linalg.eigh"))
        return;
    if (!*uplo || !strchr("ULul", *uplo) || uplo[1]) {
        op_fail(c, "Expected UPLO argument to be 'L' or 'U', but got %s", uplo);
        return;
    }
    if (!lapack_of(c, a, "linalg_eigh_cpu"))
        return;
    out_new(c, 0, cfx__dtype_real(a->dtype), a->ndim - 1, a->shape);
    if (arg_bool(c, 2))
        out_columns(c, 1, a->dtype, a->ndim, a->shape);
    else
        out_nothing(c, 1, a->dtype);
}

static void kernel_eigh(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    bool vectors = arg_bool(c, 2), upper = *arg_text(c, 1) == 'U' || *arg_text(c, 1) == 'u';
    cfx_tensor *v = vectors ? c->out[1] : own_columns(c, a);
    int64_t n = rows_of(a), batch = batch_of(a);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed() || !a->numel)
        return;
    if (vectors)
        cfx__tensor_copy(v, a);
    for (int64_t b = 0; b < batch; b++)
        info[b] = lapack_for(a->dtype)->eigh(vectors, upper ? 'U' : 'L', (int)n, nth_matrix(v, b),
                                             nth(c->out[0], b, n));
    report_info(c, info, batch, "linalg.eigh", a->ndim == 2);
}

CFX_OP(_linalg_eigh) = {
    "aten::_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, "
    "Tensor eigenvectors)",
    NULL, .shape = shape_eigh, .kernel = kernel_eigh, GRAD(eigh, READ(0) | RESULT(0) | RESULT(1)),
    .out = "eigenvalues"};

static void decompose_eigh(cfx_op_call *c) {
    cfx_value v = cfx_aten__linalg_eigh(c->args[0], c->args[1], cfx_bool(true));
    c->out[0] = cfx_tensor_at(v, 0);
    c->out[1] = cfx_tensor_at(v, 1);
}

static void decompose_eigvalsh(cfx_op_call *c) {
    c->out[0] = cfx_tensor_at(cfx_aten__linalg_eigh(c->args[0], c->args[1], cfx_bool(false)), 0);
}

CFX_OP(linalg_eigh) = {
    "aten::linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)",
    "torch._C._linalg.linalg_eigh torch.linalg.eigh", .decompose = decompose_eigh,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "eigvals eigvals eigvecs"};
CFX_OP(linalg_eigvalsh) = {
    "aten::linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor",
    "torch._C._linalg.linalg_eigvalsh torch.linalg.eigvalsh", .decompose = decompose_eigvalsh,
    .effects = CFX_COMPOSITE, .core = core_linalg_eigvalsh, .core_early = true,
    .autocast = CFX_CAST_F32, .out = "out"};

/* ---- eigenvalues of any matrix --------------------------------------------------------------- */

static bool check_eig(cfx_op_call *c, const cfx_tensor *a, const char *fn) {
    if (!check_square(c, a, fn))
        return false;
    if (cfx__dtype_is_int(a->dtype) || a->dtype == CFX_BOOL) {
        op_fail(c, "Unknown Complex ScalarType for %s", cfx__dtype_title(a->dtype));
        return false;
    }
    return lapack_of(c, a, "linalg_eig_out_cpu") != NULL;
}

static cfx_dtype complex_of(cfx_dtype d) {
    return d == CFX_F64 || d == CFX_C128 ? CFX_C128 : CFX_C64;
}

/* Values and, where v is not NULL, vectors (in columns) of the call's argument. */
static void eig_into(cfx_op_call *c, cfx_tensor *w, cfx_tensor *v, const char *fn) {
    cfx_tensor *a = own_columns(c, arg_tensor(c, 0));
    int64_t n = rows_of(a), batch = batch_of(a);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed() || !a->numel)
        return;
    if (!lapack_for(a->dtype)->finite(a->numel, a->data)) {
        op_fail(c, "%s: input tensor should not contain infs or NaNs.", fn);
        return;
    }
    for (int64_t b = 0; b < batch; b++)
        info[b] = lapack_for(a->dtype)->eig((int)n, nth_matrix(a, b), nth(w, b, n),
                                            v ? nth_matrix(v, b) : NULL);
    report_info(c, info, batch, fn, a->ndim == 2);
}

static void shape_eig(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_eig(c, a, "linalg.eig"))
        return;
    out_new(c, 0, complex_of(a->dtype), a->ndim - 1, a->shape);
    out_columns(c, 1, complex_of(a->dtype), a->ndim, a->shape);
}

static void kernel_eig(cfx_op_call *c) { eig_into(c, c->out[0], c->out[1], "torch.linalg.eig"); }

static void shape_eigvals(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (check_eig(c, a, "linalg.eigvals"))
        out_new(c, 0, complex_of(a->dtype), a->ndim - 1, a->shape);
}

static void kernel_eigvals(cfx_op_call *c) { eig_into(c, c->out[0], NULL, "torch.linalg.eigvals"); }

static void decompose_eigvals(cfx_op_call *c) { c->out[0] = cfx_aten__linalg_eigvals(c->args[0]); }

CFX_OP(linalg_eig) = {
    "aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    "torch._C._linalg.linalg_eig torch.linalg.eig", .shape = shape_eig, .kernel = kernel_eig,
    GRAD(eig, RESULT(0) | RESULT(1)), .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(_linalg_eigvals) = {"aten::_linalg_eigvals(Tensor self) -> Tensor", NULL,
                           .shape = shape_eigvals, .kernel = kernel_eigvals,
                           GRAD(eigvals, READ(0))};
CFX_OP(linalg_eigvals) = {
    "aten::linalg_eigvals(Tensor self) -> Tensor",
    "torch._C._linalg.linalg_eigvals torch.linalg.eigvals", .decompose = decompose_eigvals,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};

/* ---- least squares --------------------------------------------------------------------------- */

/* A, B and how they are to be solved. */
typedef struct {
    const cfx_tensor *a, *b; /* b is a matrix, also where the caller gave vectors */
    bool vector;
    char driver;
    int nbatch;
    int64_t batch[CFX_MAX_DIMS];
} least_squares;

static bool check_lstsq(cfx_op_call *c, least_squares *q) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const char *fn = "torch.linalg.lstsq";
    if (a->ndim < 2 || b->ndim < 1) {
        op_fail(c, "%s: input must have at least %d dimensions.", fn, 2);
        return false;
    }
    int64_t apart = (int64_t)a->ndim - b->ndim;
    if (apart < 0 || apart > 1) {
        op_fail(c,
                "%s: input.dim() must be greater or equal to other.dim() and (input.dim() - "
                "other.dim()) <= 1",
                fn);
        return false;
    }
    q->vector = apart == 1;
    if (rows_of(a) != b->shape[b->ndim - (q->vector ? 1 : 2)]) {
        op_fail(c, "%s: input.size(-2) should match other.size(%d)", fn, q->vector ? -1 : -2);
        return false;
    }
    if (!check_matrix(c, a, fn, "input"))
        return false;
    if (a->dtype != b->dtype) {
        op_fail(c,
                "%s: Expected input and other to have the same dtype, but got input's dtype %s and "
                "other's dtype %s",
                fn, cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
        return false;
    }
    if (!lapack_of(c, a, "torch.linalg.lstsq_cpu"))
        return false;
    const char *driver = arg_is_none(c, 3) ? "gelsy" : arg_text(c, 3);
    if (strncmp(driver, "gels", 4) || (driver[4] && (!strchr("yds", driver[4]) || driver[5]))) {
        op_fail(c, "%s: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)", fn);
        return false;
    }
    q->driver = !driver[4] ? 's' : driver[4] == 's' ? 'S' : driver[4];
    q->a = a;
    q->b = q->vector ? as_column(b) : b;
    q->nbatch = broadcast_batch(c, a, q->b, q->batch);
    return q->nbatch >= 0 && check_matrix(c, q->b, fn, "other");
}

/* Sums of squares of the rows of x after the first n, for each column: one row of residuals. */
static void residuals_of(const cfx_tensor *x, int64_t n, cfx_tensor *out) {
    int64_t rows = rows_of(x), k = cols_of(x), columns = batch_of(x) * k;
    bool wide = out->dtype == CFX_F64, complex_ = cfx__dtype_is_complex(x->dtype);
    int64_t each = complex_ ? 2 : 1;
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0;
        for (int64_t i = (j * rows + n) * each; i < (j + 1) * rows * each; i++) {
            double v = wide ? ((double *)x->data)[i] : ((float *)x->data)[i];
            sum += v * v;
        }
        if (wide)
            ((double *)out->data)[j] = sum;
        else
            ((float *)out->data)[j] = (float)sum;
    }
}

/* The first n rows of x: a view that keeps its strides; without the column of a vector. */
static cfx_tensor *solution_of(const cfx_tensor *x, int64_t n, bool vector) {
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim - 2] = n;
    return cfx__tensor_alias(x, vector ? x->ndim - 1 : x->ndim, shape, x->stride, x->offset);
}

static bool has_full_rank(const cfx_tensor *rank, int64_t full) {
    for (int64_t i = 0; i < rank->numel; i++)
        if (((int64_t *)rank->data)[i] != full)
            return false;
    return true;
}

static void kernel_lstsq(cfx_op_call *c) {
    least_squares q;
    if (!check_lstsq(c, &q))
        return;
    int64_t m = rows_of(q.a), n = cols_of(q.a), k = cols_of(q.b), rows = m > n ? m : n, batch = 1;
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    memcpy(shape, q.batch, (size_t)q.nbatch * sizeof *shape);
    for (int i = 0; i < q.nbatch; i++)
        batch *= shape[i];
    cfx_dtype real = cfx__dtype_real(q.a->dtype);
    bool svd = q.driver == 'S' || q.driver == 'd';
    shape[q.nbatch] = least(m, n);
    cfx_tensor *s = svd ? out_new(c, 3, real, q.nbatch + 1, shape) : out_nothing(c, 3, real);
    if (q.driver == 's')
        out_nothing(c, 2, CFX_I64);
    else
        out_new(c, 2, CFX_I64, q.nbatch, shape);
    shape[q.nbatch] = rows;
    shape[q.nbatch + 1] = k;
    column_strides(q.nbatch + 2, shape, stride);
    cfx_tensor *x = cfx__tensor_empty(c->at, q.b->dtype, false, q.nbatch + 2, shape, stride);
    cfx_tensor *a = columns_of(c, q.a, q.nbatch, q.batch);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed())
        return;
    cfx__tensor_fill(x, cfx_int(0));
    cfx__tensor_copy(solution_of(x, m, false), q.b);
    double eps = real == CFX_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
    double rcond = arg_is_none(c, 2) ? eps * (double)rows : arg_float(c, 2);
    for (int64_t b = 0; b < batch; b++) {
        int rank = 0;
        info[b] = a->numel && k ? lapack_for(a->dtype)->least_squares(
                                      q.driver, (int)m, (int)n, (int)k, nth_matrix(a, b),
                                      nth_matrix(x, b), rcond, &rank, nth(s, b, least(m, n)))
                                : 0;
        if (q.driver != 's')
            ((int64_t *)c->out[2]->data)[b] = rank;
    }
    if (!a->numel)
        cfx__tensor_fill(x, cfx_int(0));
    report_info(c, info, q.driver == 's' ? 0 : batch, "torch.linalg.lstsq", q.a->ndim == 2);
    c->out[0] = solution_of(x, n, q.vector);
    shape[q.nbatch] = k;
    if (m > n && q.driver != 'y' && (q.driver == 's' || has_full_rank(c->out[2], n)) && a->numel)
        residuals_of(x, n, out_new(c, 1, real, q.nbatch + 1, shape));
    else
        out_nothing(c, 1, real);
}

CFX_OP(linalg_lstsq) = {
    "aten::linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor"
    " solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    "torch._C._linalg.linalg_lstsq torch.linalg.lstsq", .kernel = kernel_lstsq,
    .effects = CFX_OUT_CASTS | CFX_DATA_SHAPE, GRAD(lstsq, READ(0) | READ(1) | RESULT(0)),
    ASIDE(RESULT(3)), .autocast = CFX_CAST_F32, .out = "out"};
