/* Linear systems: by LU, by a triangular matrix, by a Cholesky factor; inverses. */
#include <cfx/ops.h>

#include "linalg.h"

CFX_FAMILY(LINEAR);

/* ---- linalg_solve ---------------------------------------------------------------------------- */

/* Whether B is a batch of vectors: of one dimension, or of A's shape without its last one. */
static bool is_vector(const cfx_tensor *a, const cfx_tensor *b) {
    return b->ndim == 1 || (b->ndim == a->ndim - 1 &&
                            !memcmp(b->shape, a->shape, (size_t)b->ndim * sizeof *b->shape));
}

static void shape_solve(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const char *fn = "linalg.solve";
    bool left = arg_bool(c, 2);
    if (!check_full_floating(c, a, fn))
        return;
    if (a->dtype != b->dtype) {
        op_fail(c,
                "linalg.solve: Expected A and B to have the same dtype, but found A of type %s and "
                "B of type %s instead",
                cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
        return;
    }
    if (!check_matrix(c, a, fn, "A"))
        return;
    bool vector = is_vector(a, b);
    const cfx_tensor *matrix = vector ? as_column(b) : b;
    if (!check_solver(c, a, matrix, left, fn))
        return;
    if (vector && !left) {
        op_fail(c,
                "linalg.solve: Vector broadcasting of the left hand side is not supported for "
                "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    int n = broadcast_batch(c, matrix, a, shape);
    if (n < 0)
        return;
    shape[n] = rows_of(matrix);
    shape[n + 1] = cols_of(matrix);
    if (left)
        out_columns(c, 0, b->dtype, vector ? n + 1 : n + 2, shape);
    else
        out_new(c, 0, b->dtype, n + 2, shape);
    out_columns(c, 1, a->dtype, a->ndim, a->shape);
    out_new(c, 2, CFX_I32, a->ndim - 1, a->shape);
    out_new(c, 3, CFX_I32, a->ndim - 2, a->shape);
}

static void kernel_solve(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const lapack *la = lapack_for(a->dtype);
    bool left = arg_bool(c, 2);
    int32_t *info = (int32_t *)c->out[3]->data;
    cfx__tensor_copy(c->out[1], a);
    lu_in_place(la, c->out[1], c->out[2], info);
    if (arg_bool(c, 3)) {
        report_info(c, info, batch_of(a), "torch.linalg.solve_ex", a->ndim == 2);
        if (op_failed())
            return;
    }
    cfx_tensor *result = c->out[0];
    if (!is_vector(a, b)) {
        cfx__tensor_copy(result, b);
        lu_solve(la, c->out[1], c->out[2], result, !left, false);
        return;
    }
    /* A batch of vectors has strides of its own: solve in columns, then copy. */
    cfx_tensor *x = columns_of(c, as_column(b), result->ndim - 1, result->shape);
    if (op_failed())
        return;
    lu_solve(la, c->out[1], c->out[2], x, false, false);
    cfx__tensor_copy(as_column(result), x);
}

CFX_OP(_linalg_solve_ex) = {
    "aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
    "(Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    NULL, .shape = shape_solve, .kernel = kernel_solve,
    GRAD(solve, READ(0) | RESULT(0) | RESULT(1) | RESULT(2)), .out = "result", ASIDE(RESULT(1))};

static cfx_value solve_ex(cfx_op_call *c, bool check) {
    return cfx_aten__linalg_solve_ex(c->args[0], c->args[1], CFX_KW(left, arg_bool(c, 2)),
                                     CFX_KW(check_errors, check));
}

static void decompose_solve_ex(cfx_op_call *c) {
    cfx_value v = solve_ex(c, arg_bool(c, 3));
    c->out[0] = cfx_tensor_at(v, 0);
    c->out[1] = cfx_tensor_at(v, 3);
}

static void decompose_solve(cfx_op_call *c) {
    cfx_value v = solve_ex(c, false);
    if (op_failed())
        return;
    check_info(c, cfx_at(v, 3), "torch.linalg.solve");
    c->out[0] = cfx_tensor_at(v, 0);
}

CFX_OP(linalg_solve_ex) = {
    "aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
    "(Tensor result, Tensor info)",
    "torch._C._linalg.linalg_solve_ex torch.linalg.solve_ex", .decompose = decompose_solve_ex,
    .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(linalg_solve) = {
    "aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    "torch._C._linalg.linalg_solve torch.linalg.solve", .decompose = decompose_solve,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};

/* ---- inverses -------------------------------------------------------------------------------- */

static void shape_inv(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_square(c, a, "linalg.inv") || !check_full_floating(c, a, "linalg.inv"))
        return;
    out_columns(c, 0, a->dtype, a->ndim, a->shape);
    out_new(c, 1, CFX_I32, a->ndim - 2, a->shape);
}

static void kernel_inv(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    const lapack *la = lapack_for(a->dtype);
    int32_t *info = (int32_t *)c->out[1]->data;
    cfx_tensor *lu = own_columns(c, a);
    cfx_tensor *pivots = cfx__tensor_empty(c->at, CFX_I32, false, a->ndim - 1, a->shape, NULL);
    if (op_failed())
        return;
    lu_in_place(la, lu, pivots, info);
    fill_identity(c->out[0]);
    lu_solve(la, lu, pivots, c->out[0], false, false);
    if (arg_bool(c, 1))
        report_info(c, info, batch_of(a), "linalg.inv_ex", a->ndim == 2);
}

CFX_OP(linalg_inv_ex) = {
    "aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    "torch._C._linalg.linalg_inv_ex torch.linalg.inv_ex", .shape = shape_inv, .kernel = kernel_inv,
    GRAD(inv, RESULT(0)), .autocast = CFX_CAST_F32, .out = "inverse"};

static void decompose_inv(cfx_op_call *c) {
    cfx_value v = cfx_linalg_inv_ex(c->args[0]);
    if (op_failed())
        return;
    check_info(c, cfx_at(v, 1), "linalg.inv");
    c->out[0] = cfx_tensor_at(v, 0);
}

CFX_OP(linalg_inv) = {
    "aten::linalg_inv(Tensor A) -> Tensor",
    "torch._C._linalg.linalg_inv torch.linalg.inv", .decompose = decompose_inv,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(inverse) = {"aten::inverse(Tensor self) -> Tensor", "torch.inverse Tensor.inverse",
                   .decompose = decompose_inv, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32,
                   .out = "out"};

/* ---- triangular systems ---------------------------------------------------------------------- */

/* Every matrix of x (in columns, holding B) becomes the solution; a in columns. */
static void solve_triangles(const cfx_tensor *a, cfx_tensor *x, bool left, char uplo, char trans,
                            bool unit) {
    int64_t m = rows_of(x), n = cols_of(x), batch = batch_of(x);
    for (int64_t b = 0; b < batch && m && n; b++)
        lapack_for(a->dtype)->triangular(
            left ? 'L' : 'R', uplo, trans, unit, (int)m, (int)n,
            nth_matrix(a, batch_index(a, x->ndim - 2, x->shape, b)), nth_matrix(x, b));
}

static void shape_solve_triangular(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const char *fn = "linalg.solve_triangular";
    if (!check_solver(c, a, b, arg_bool(c, 3), fn) || !lapack_of(c, a, "triangular_solve_cpu"))
        return;
    if (a->dtype != b->dtype) {
        op_fail(c,
                "%s: Expected A and B to have the same dtype, but found A of type %s and B of type "
                "%s instead",
                fn, cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    int n = broadcast_batch(c, b, a, shape);
    if (n < 0)
        return;
    shape[n] = rows_of(b);
    shape[n + 1] = cols_of(b);
    out_columns(c, 0, a->dtype, n + 2, shape);
}

static void kernel_solve_triangular(cfx_op_call *c) {
    cfx_tensor *a = own_columns(c, arg_tensor(c, 0));
    if (op_failed())
        return;
    cfx__tensor_copy(c->out[0], arg_tensor(c, 1));
    solve_triangles(a, c->out[0], arg_bool(c, 3), arg_bool(c, 2) ? 'U' : 'L', 'N', arg_bool(c, 4));
}

CFX_OP(linalg_solve_triangular) = {
    "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
    "unitriangular=False) -> Tensor",
    "torch._C._linalg.linalg_solve_triangular torch.linalg.solve_triangular",
    .shape = shape_solve_triangular, .kernel = kernel_solve_triangular,
    GRAD(solve_triangular, READ(0) | RESULT(0)), .out = "out"};

static void shape_triangular_solve(cfx_op_call *c) {
    const cfx_tensor *b = arg_tensor(c, 0), *a = arg_tensor(c, 1);
    if (b->ndim < 2 || a->ndim < 2) {
        const cfx_tensor *bad = b->ndim < 2 ? b : a;
        op_fail(c,
                "torch.triangular_solve: Expected %s to have at least 2 dimensions, but it has %d "
                "dimensions instead",
                bad == b ? "b" : "A", bad->ndim);
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    if (!check_old_solver(c, b, a, "triangular_solve") || !lapack_of(c, a, "triangular_solve_cpu"))
        return;
    int n = broadcast_batch(c, b, a, shape);
    if (n < 0)
        return;
    shape[n] = rows_of(b);
    shape[n + 1] = cols_of(b);
    out_columns(c, 0, b->dtype, n + 2, shape);
    shape[n] = shape[n + 1] = rows_of(a);
    out_columns(c, 1, a->dtype, n + 2, shape);
}

static void kernel_triangular_solve(cfx_op_call *c) {
    cfx__tensor_copy(c->out[0], arg_tensor(c, 0));
    cfx__tensor_copy(c->out[1], arg_tensor(c, 1));
    char trans = arg_bool(c, 3) ? 'T' : 'N';
    solve_triangles(c->out[1], c->out[0], true, arg_bool(c, 2) ? 'U' : 'L', trans, arg_bool(c, 4));
}

CFX_OP(triangular_solve) = {
    "aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
    "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    "torch.triangular_solve Tensor.triangular_solve", .shape = shape_triangular_solve,
    .kernel = kernel_triangular_solve, GRAD(triangular_solve, READ(1) | RESULT(0)), .out = "X X M"};

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* Factorises out, which gets a first; info has one number for each matrix. */
static void cholesky_into(cfx_tensor *out, const cfx_tensor *a, bool upper, int32_t *info) {
    int64_t n = rows_of(a), batch = batch_of(a);
    char uplo = upper ? 'U' : 'L';
    cfx__tensor_copy(out, a);
    keep_triangle(out, uplo);
    for (int64_t b = 0; b < batch; b++)
        info[b] = n ? lapack_for(out->dtype)->cholesky(uplo, (int)n, nth_matrix(out, b)) : 0;
}

static void shape_cholesky_ex(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_square(c, a, "linalg.cholesky") || !check_floating(c, a, "linalg.cholesky") ||
        !lapack_of(c, a, "cholesky_cpu"))
        return;
    out_columns(c, 0, a->dtype, a->ndim, a->shape);
    out_new(c, 1, CFX_I32, a->ndim - 2, a->shape);
}

static void kernel_cholesky_ex(cfx_op_call *c) {
    int32_t *info = (int32_t *)c->out[1]->data;
    cholesky_into(c->out[0], arg_tensor(c, 0), arg_bool(c, 1), info);
    if (arg_bool(c, 2))
        report_info(c, info, c->out[1]->numel, "linalg.cholesky_ex", c->out[0]->ndim == 2);
}

CFX_OP(linalg_cholesky_ex) = {
    "aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> "
    "(Tensor L, Tensor info)",
    "torch._C._linalg.linalg_cholesky_ex torch.linalg.cholesky_ex", .shape = shape_cholesky_ex,
    .kernel = kernel_cholesky_ex, GRAD(cholesky, RESULT(0)), .out = "L"};

static void decompose_cholesky(cfx_op_call *c) {
    cfx_value v = cfx_linalg_cholesky_ex(c->args[0], CFX_KW(upper, arg_bool(c, 1)));
    if (op_failed())
        return;
    check_info(c, cfx_at(v, 1), "linalg.cholesky");
    c->out[0] = cfx_tensor_at(v, 0);
}

CFX_OP(linalg_cholesky) = {
    "aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    "torch._C._linalg.linalg_cholesky torch.linalg.cholesky", .decompose = decompose_cholesky,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};

static void shape_cholesky(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_square(c, a, "cholesky") || !lapack_of(c, a, "cholesky_cpu"))
        return;
    if (a->numel)
        out_columns(c, 0, a->dtype, a->ndim, a->shape);
    else
        out_new(c, 0, a->dtype, a->ndim, a->shape);
}

static void kernel_cholesky(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    int64_t batch = batch_of(a);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed() || !a->numel)
        return;
    cholesky_into(c->out[0], a, arg_bool(c, 1), info);
    report_info(c, info, batch, "cholesky", a->ndim == 2);
}

CFX_OP(cholesky) = {"aten::cholesky(Tensor self, bool upper=False) -> Tensor",
                    "torch.cholesky Tensor.cholesky", .shape = shape_cholesky,
                    .kernel = kernel_cholesky, GRAD(cholesky, RESULT(0)), .autocast = CFX_CAST_F32,
                    .effects = CFX_OUT_CASTS, .out = "out"};

static void shape_cholesky_inverse(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (check_square(c, a, "cholesky_inverse") && lapack_of(c, a, "cholesky_inverse_out_cpu"))
        out_columns(c, 0, a->dtype, a->ndim, a->shape);
}

static void kernel_cholesky_inverse(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    int64_t n = rows_of(out), batch = batch_of(out);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed() || !out->numel)
        return;
    cfx__tensor_copy(out, arg_tensor(c, 0));
    for (int64_t b = 0; b < batch; b++)
        info[b] = lapack_for(out->dtype)->cholesky_inverse(arg_bool(c, 1) ? 'U' : 'L', (int)n,
                                                           nth_matrix(out, b));
    report_info(c, info, batch, "cholesky_inverse", out->ndim == 2);
}

CFX_OP(cholesky_inverse) = {"aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
                            "torch.cholesky_inverse Tensor.cholesky_inverse",
                            .shape = shape_cholesky_inverse, .kernel = kernel_cholesky_inverse,
                            GRAD(cholesky_inverse, READ(0) | RESULT(0)), .autocast = CFX_CAST_F32,
                            .effects = CFX_OUT_CASTS, .out = "out"};

static void shape_cholesky_solve(cfx_op_call *c) {
    const cfx_tensor *b = arg_tensor(c, 0), *a = arg_tensor(c, 1);
    if (b->ndim < 2 || a->ndim < 2) {
        const cfx_tensor *bad = b->ndim < 2 ? b : a;
        op_fail(c, "%s should have at least 2 dimensions, but has %d dimensions instead",
                bad == b ? "b" : "u", bad->ndim);
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    if (!check_old_solver(c, b, a, "cholesky_solve") || !lapack_of(c, a, "cholesky_solve_cpu"))
        return;
    int n = broadcast_batch(c, b, a, shape);
    if (n < 0)
        return;
    shape[n] = rows_of(b);
    shape[n + 1] = cols_of(b);
    out_columns(c, 0, b->dtype, n + 2, shape);
}

static void kernel_cholesky_solve(cfx_op_call *c) {
    cfx_tensor *x = c->out[0], *a = own_columns(c, arg_tensor(c, 1));
    int64_t n = rows_of(x), k = cols_of(x), batch = batch_of(x);
    if (op_failed() || !x->numel)
        return;
    cfx__tensor_copy(x, arg_tensor(c, 0));
    for (int64_t b = 0; b < batch; b++)
        lapack_for(x->dtype)->cholesky_solve(
            arg_bool(c, 2) ? 'U' : 'L', (int)n, (int)k,
            nth_matrix(a, batch_index(a, x->ndim - 2, x->shape, b)), nth_matrix(x, b));
}

CFX_OP(cholesky_solve) = {
    "aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    "torch.cholesky_solve Tensor.cholesky_solve", .shape = shape_cholesky_solve,
    .kernel = kernel_cholesky_solve, GRAD(cholesky_solve, READ(1) | RESULT(0)),
    .autocast = CFX_CAST_F32, .effects = CFX_OUT_CASTS, .out = "out"};
CFX_OP(_cholesky_solve_helper) = {
    "aten::_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor", NULL,
    .shape = shape_cholesky_solve, .kernel = kernel_cholesky_solve, .out = "out"};
