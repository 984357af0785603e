/* LU factorisation and what rests on it: solving, inverting, determinants. */
#include <cfx/ops.h>

#include "linalg.h"

CFX_FAMILY(LINEAR);

void lu_in_place(const lapack *la, cfx_tensor *lu, cfx_tensor *pivots, int32_t *info) {
    int64_t m = rows_of(lu), n = cols_of(lu), batch = batch_of(lu);
    for (int64_t b = 0; b < batch; b++)
        info[b] = m && n ? la->lu((int)m, (int)n, nth_matrix(lu, b), nth(pivots, b, m < n ? m : n))
                         : 0;
}

void lu_solve(const lapack *la, const cfx_tensor *lu, const cfx_tensor *pivots, cfx_tensor *x,
              bool right, bool adjoint) {
    int64_t n = rows_of(lu), k = right ? rows_of(x) : cols_of(x), batch = batch_of(x);
    if (!n || !k)
        return;
    /* X A = B is A^T X^T = B^T, and rows of X are columns of X^T; with A^H for A, the conjugate of
     * both sides is solved by A itself. */
    bool conjugated = right && adjoint;
    char trans = right ? (adjoint ? 'N' : 'T') : adjoint ? 'C' : 'N';
    if (conjugated)
        la->conjugate(x->numel, x->data);
    for (int64_t b = 0; b < batch; b++) {
        int64_t i = batch_index(lu, x->ndim - 2, x->shape, b);
        la->lu_solve(trans, (int)n, (int)k, nth_matrix(lu, i), nth(pivots, i, n), nth_matrix(x, b));
    }
    if (conjugated)
        la->conjugate(x->numel, x->data);
}

/* The results LU, pivots and, where it is not -1, info of a factorisation of a. */
static void shape_lu(cfx_op_call *c, const cfx_tensor *a, int lu, int pivots, int info) {
    int64_t shape[CFX_MAX_DIMS];
    int n = a->ndim;
    memcpy(shape, a->shape, (size_t)n * sizeof *shape);
    out_columns(c, lu, a->dtype, n, shape);
    shape[n - 2] = shape[n - 2] < shape[n - 1] ? shape[n - 2] : shape[n - 1];
    out_new(c, pivots, CFX_I32, n - 1, shape);
    if (info >= 0)
        out_new(c, info, CFX_I32, n - 2, shape);
}

static bool check_lu_input(cfx_op_call *c, const cfx_tensor *a, const char *fn) {
    if (a->ndim < 2) {
        op_fail(c, "%s: Expected tensor with 2 or more dimensions. Got size: %s instead", fn,
                cfx__shape_text(a->ndim, a->shape));
        return false;
    }
    return check_matrix(c, a, fn, "A");
}

/* ---- linalg_lu_factor_ex --------------------------------------------------------------------- */

static void shape_lu_factor(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_lu_input(c, a, "torch.lu_factor") || !lapack_of(c, a, "lu_cpu"))
        return;
    if (!arg_bool(c, 1))
        op_fail(c, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    else
        shape_lu(c, a, 0, 1, 2);
}

static void kernel_lu_factor(cfx_op_call *c) {
    cfx_tensor *lu = c->out[0];
    cfx__tensor_copy(lu, arg_tensor(c, 0));
    int32_t *info = (int32_t *)c->out[2]->data;
    lu_in_place(lapack_for(lu->dtype), lu, c->out[1], info);
    if (arg_bool(c, 2))
        report_info(c, info, batch_of(lu), "torch.linalg.lu_factor_ex", lu->ndim == 2);
}

CFX_OP(linalg_lu_factor_ex) = {
    "aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor "
    "LU, Tensor pivots, Tensor info)",
    "torch._C._linalg.linalg_lu_factor_ex torch.linalg.lu_factor_ex", .shape = shape_lu_factor,
    .kernel = kernel_lu_factor, GRAD(lu_factor, RESULT(0) | RESULT(1)), .out = "out"};

static void decompose_lu_factor(cfx_op_call *c) {
    cfx_value v = cfx_linalg_lu_factor_ex(c->args[0], CFX_KW(pivot, arg_bool(c, 1)));
    if (op_failed())
        return;
    check_info(c, cfx_at(v, 2), "torch.linalg.lu_factor");
    c->out[0] = cfx_tensor_at(v, 0);
    c->out[1] = cfx_tensor_at(v, 1);
}

/* The same, and the arguments are called otherwise. */
static void decompose_lu_with_info(cfx_op_call *c) {
    cfx_value v = cfx_linalg_lu_factor_ex(c->args[0], CFX_KW(pivot, arg_bool(c, 1)),
                                          CFX_KW(check_errors, arg_bool(c, 2)));
    for (int i = 0; i < 3 && !op_failed(); i++)
        c->out[i] = cfx_tensor_at(v, i);
}

CFX_OP(_lu_with_info) = {
    "aten::_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, "
    "Tensor pivots, Tensor info)",
    "torch._lu_with_info", .decompose = decompose_lu_with_info, .effects = CFX_COMPOSITE};
CFX_OP(linalg_lu_factor) = {
    "aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    "torch._C._linalg.linalg_lu_factor torch.linalg.lu_factor", .decompose = decompose_lu_factor,
    .effects = CFX_COMPOSITE, .out = "out"};

/* ---- P, L, U --------------------------------------------------------------------------------- */

static void shape_plu(cfx_op_call *c, const cfx_tensor *a, bool p, bool data) {
    int64_t shape[CFX_MAX_DIMS], m = rows_of(a), n = cols_of(a), k = m < n ? m : n;
    memcpy(shape, a->shape, (size_t)a->ndim * sizeof *shape);
    int64_t *rows = &shape[a->ndim - 2], *cols = &shape[a->ndim - 1];
    *cols = m;
    if (p)
        out_new(c, 0, a->dtype, a->ndim, shape);
    else
        out_nothing(c, 0, a->dtype);
    if (!data) {
        out_nothing(c, 1, a->dtype);
        out_nothing(c, 2, a->dtype);
        return;
    }
    *cols = k;
    out_new(c, 1, a->dtype, a->ndim, shape);
    *rows = k;
    *cols = n;
    out_new(c, 2, a->dtype, a->ndim, shape);
}

/* The permutation that pivots stand for, as a matrix: P A' = A where A' is A with rows swapped. */
static void fill_permutation(cfx_op_call *c, cfx_tensor *p, const cfx_tensor *pivots, int64_t k) {
    int64_t m = rows_of(p), batch = batch_of(p), size = cfx_dtype_size(p->dtype);
    int64_t *row = scratch(c, CFX_I64, m);
    if (!row)
        return;
    cfx_tensor *one = cfx__tensor_scalar(cfx_int(1), (cfx_dtype)p->dtype);
    memset(p->data, 0, (size_t)(p->numel * size));
    for (int64_t b = 0; b < batch && m; b++) {
        const int32_t *pivot = nth(pivots, b, k);
        char *matrix = nth_matrix(p, b);
        for (int64_t i = 0; i < m; i++)
            row[i] = i;
        for (int64_t i = 0; i < k; i++) {
            int64_t at = pivot[i] - 1, held = row[i];
            if (at < 0 || at >= m) {
                op_fail(c, "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                           "Did you properly pass the result of lu_factor?");
                return;
            }
            row[i] = row[at];
            row[at] = held;
        }
        for (int64_t i = 0; i < m; i++)
            memcpy(matrix + (row[i] * m + i) * size, one->data, (size_t)size);
    }
}

/* One triangle of lu's leading part into contiguous t; the unit diagonal of L where `unit`. */
static void fill_triangle(cfx_tensor *t, const cfx_tensor *lu, bool lower) {
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    cfx__tensor_copy(t, cfx__tensor_alias(lu, lu->ndim, shape, lu->stride, lu->offset));
    int64_t m = rows_of(t), n = cols_of(t), batch = batch_of(t), size = cfx_dtype_size(t->dtype);
    cfx_tensor *one = cfx__tensor_scalar(cfx_int(1), (cfx_dtype)t->dtype);
    for (int64_t b = 0; b < batch && t->numel; b++)
        for (int64_t i = 0; i < m; i++) {
            char *row = (char *)nth_matrix(t, b) + i * n * size;
            int64_t least = i < n ? i : n;
            if (!lower)
                memset(row, 0, (size_t)(least * size));
            else if (i < n) {
                memset(row + i * size, 0, (size_t)((n - i) * size));
                memcpy(row + i * size, one->data, (size_t)size);
            }
        }
}

static void shape_lu_unpack(cfx_op_call *c) {
    const cfx_tensor *lu = arg_tensor(c, 0), *pivots = arg_tensor(c, 1);
    bool p = arg_bool(c, 3);
    if (!check_lu_input(c, lu, "torch.lu_unpack"))
        return;
    if (p && pivots->dtype != CFX_I32) {
        op_fail(c,
                "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
                "dtype.\nNote: this function is intended to be used with the output produced by "
                "torch.linalg.lu_factor");
        return;
    }
    int64_t m = rows_of(lu), n = cols_of(lu), k = m < n ? m : n;
    bool fits = pivots->ndim == lu->ndim - 1 && pivots->shape[pivots->ndim - 1] == k;
    for (int i = 0; fits && i < lu->ndim - 2; i++)
        fits = pivots->shape[i] == lu->shape[i];
    if (p && !fits)
        op_fail(c, "torch.lu_unpack: LU_pivots of shape %s do not belong to LU_data of shape %s",
                cfx__shape_text(pivots->ndim, pivots->shape), cfx__shape_text(lu->ndim, lu->shape));
    else
        shape_plu(c, lu, p, arg_bool(c, 2));
}

static void kernel_lu_unpack(cfx_op_call *c) {
    const cfx_tensor *lu = arg_tensor(c, 0);
    int64_t m = rows_of(lu), n = cols_of(lu);
    if (arg_bool(c, 3))
        fill_permutation(c, c->out[0], cfx__tensor_contiguous(arg_tensor(c, 1)), m < n ? m : n);
    if (arg_bool(c, 2)) {
        fill_triangle(c->out[1], lu, true);
        fill_triangle(c->out[2], lu, false);
    }
}

CFX_OP(lu_unpack) = {
    "aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
    "unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
    "torch.lu_unpack", .shape = shape_lu_unpack, .kernel = kernel_lu_unpack,
    GRAD(lu_unpack, 0), ASIDE(RESULT(0)), .out = "out"};

static void shape_linalg_lu(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_lu_input(c, a, "linalg.lu") || !lapack_of(c, a, "lu_cpu"))
        return;
    if (!arg_bool(c, 1))
        op_fail(c, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    else
        shape_plu(c, a, true, true);
}

static void kernel_linalg_lu(cfx_op_call *c) {
    cfx_tensor *lu = own_columns(c, arg_tensor(c, 0));
    int64_t m = rows_of(lu), n = cols_of(lu), k = m < n ? m : n, batch = batch_of(lu);
    int64_t shape[] = {batch, k};
    cfx_tensor *pivots = cfx__tensor_empty(c->at, CFX_I32, false, 2, shape, NULL);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed())
        return;
    lu_in_place(lapack_for(lu->dtype), lu, pivots, info);
    fill_permutation(c, c->out[0], pivots, k);
    fill_triangle(c->out[1], lu, true);
    fill_triangle(c->out[2], lu, false);
}

CFX_OP(linalg_lu) = {
    "aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    "torch._C._linalg.linalg_lu torch.linalg.lu", .shape = shape_linalg_lu,
    .kernel = kernel_linalg_lu, GRAD(lu, RESULT(0) | RESULT(1) | RESULT(2)),
    ASIDE(RESULT(0)), .out = "out"};

/* ---- linalg_lu_solve ------------------------------------------------------------------------- */

static void shape_lu_solve(cfx_op_call *c) {
    const cfx_tensor *lu = arg_tensor(c, 0), *pivots = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    bool left = arg_bool(c, 3);
    if (!check_full_floating(c, lu, "torch.linalg.lu_solve"))
        return;
    if (lu->dtype != b->dtype) {
        op_fail(c,
                "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type "
                "%s and B of type %s instead",
                cfx__dtype_title(lu->dtype), cfx__dtype_title(b->dtype));
        return;
    }
    if (pivots->dtype != CFX_I32) {
        op_fail(c, "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
        return;
    }
    if (!check_square(c, lu, "torch.linalg.lu_solve") ||
        !check_solver(c, lu, b, left, "linalg.lu_solve"))
        return;
    if (!pivots->ndim || pivots->shape[pivots->ndim - 1] != cols_of(lu)) {
        op_fail(c, "linalg.lu_solve: Number of pivots per batch should be same as the dimension of "
                   "the matrix");
        return;
    }
    if (pivots->ndim != lu->ndim - 1 ||
        memcmp(pivots->shape, lu->shape, (size_t)pivots->ndim * sizeof *lu->shape)) {
        op_fail(c,
                "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
                "pivots with shape %s instead",
                cfx__shape_text(pivots->ndim, pivots->shape));
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    int n = broadcast_batch(c, b, lu, shape);
    if (n < 0)
        return;
    shape[n] = rows_of(b);
    shape[n + 1] = cols_of(b);
    if (left)
        out_columns(c, 0, b->dtype, n + 2, shape);
    else
        out_new(c, 0, b->dtype, n + 2, shape);
}

static bool check_pivots(cfx_op_call *c, const cfx_tensor *pivots, int64_t n) {
    const int32_t *p = (const int32_t *)pivots->data;
    for (int64_t i = 0; i < pivots->numel; i++)
        if (p[i] < 1 || p[i] > n) {
            op_fail(c,
                    "Pivots given to lu_solve must all be %s. Did you properly pass the result of "
                    "lu_factor?",
                    p[i] < 1 ? "greater or equal to 1" : "smaller or equal to LU.size(-2)");
            return false;
        }
    return true;
}

static void kernel_lu_solve(cfx_op_call *c) {
    const cfx_tensor *lu = arg_tensor(c, 0), *pivots = cfx__tensor_contiguous(arg_tensor(c, 1));
    if (!check_pivots(c, pivots, rows_of(lu)))
        return;
    cfx__tensor_copy(c->out[0], arg_tensor(c, 2));
    lu_solve(lapack_for(lu->dtype), own_columns(c, lu), pivots, c->out[0], !arg_bool(c, 3),
             arg_bool(c, 4));
}

CFX_OP(linalg_lu_solve) = {
    "aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
    "adjoint=False) -> Tensor",
    "torch._C._linalg.linalg_lu_solve torch.linalg.lu_solve", .shape = shape_lu_solve,
    .kernel = kernel_lu_solve, GRAD(lu_solve, READ(0) | READ(1) | RESULT(0)), .out = "out"};

static void decompose_lu_solve(cfx_op_call *c) {
    c->out[0] = cfx_linalg_lu_solve(c->args[1], c->args[2], c->args[0]);
}

CFX_OP(lu_solve) = {"aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
                    "torch.lu_solve Tensor.lu_solve", .decompose = decompose_lu_solve,
                    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};

/* ---- determinants ---------------------------------------------------------------------------- */

/* LU of a, or of its transpose where PyTorch takes that: the determinant is the same. */
static void lu_of(cfx_op_call *c, const cfx_tensor *a, int lu, int pivots, int32_t *info) {
    bool swap = cfx__tensor_is_contiguous(a) && !cfx__dtype_is_complex(a->dtype);
    cfx__tensor_copy(c->out[lu], swap ? transposed(a) : a);
    lu_in_place(lapack_for(a->dtype), c->out[lu], c->out[pivots], info);
}

static void shape_det(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_square(c, a, "linalg.det") || !check_floating(c, a, "linalg.det") ||
        !lapack_of(c, a, "lu_cpu"))
        return;
    out_new(c, 0, a->dtype, a->ndim - 2, a->shape);
    shape_lu(c, a, 1, 2, -1);
}

static void kernel_det(cfx_op_call *c) {
    cfx_tensor *lu = c->out[1];
    int64_t n = rows_of(lu), batch = batch_of(lu);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed())
        return;
    lu_of(c, arg_tensor(c, 0), 1, 2, info);
    for (int64_t b = 0; b < batch; b++)
        lapack_for(lu->dtype)->det((int)n, nth_matrix(lu, b), nth(c->out[2], b, n),
                                   nth(c->out[0], b, 1));
}

CFX_OP(_linalg_det) = {"aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
                       NULL, .shape = shape_det, .kernel = kernel_det,
                       GRAD(det, READ(0) | RESULT(0) | RESULT(1) | RESULT(2)), .out = "result",
                       ASIDE(RESULT(1))};

static void decompose_det(cfx_op_call *c) {
    c->out[0] = cfx_tensor_at(cfx_aten__linalg_det(c->args[0]), 0);
}

CFX_OP(linalg_det) = {
    "aten::linalg_det(Tensor A) -> Tensor",
    "torch._C._linalg.linalg_det torch.linalg.det", .decompose = decompose_det,
    .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(det) = {"aten::det(Tensor self) -> Tensor", "torch.det Tensor.det",
               .decompose = decompose_det, .effects = CFX_COMPOSITE};

static void shape_slogdet(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (!check_square(c, a, "linalg.slogdet") || !check_full_floating(c, a, "linalg.slogdet"))
        return;
    out_new(c, 0, a->dtype, a->ndim - 2, a->shape);
    out_new(c, 1, cfx__dtype_real(a->dtype), a->ndim - 2, a->shape);
    shape_lu(c, a, 2, 3, -1);
}

static void kernel_slogdet(cfx_op_call *c) {
    cfx_tensor *lu = c->out[2];
    int64_t n = rows_of(lu), batch = batch_of(lu);
    int32_t *info = scratch(c, CFX_I32, batch);
    if (op_failed())
        return;
    lu_of(c, arg_tensor(c, 0), 2, 3, info);
    for (int64_t b = 0; b < batch; b++)
        lapack_for(lu->dtype)->log_det((int)n, nth_matrix(lu, b), nth(c->out[3], b, n),
                                       nth(c->out[0], b, 1), nth(c->out[1], b, 1));
}

CFX_OP(_linalg_slogdet) = {
    "aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    NULL, .shape = shape_slogdet, .kernel = kernel_slogdet,
    GRAD(slogdet, READ(0) | RESULT(0) | RESULT(2) | RESULT(3)), .out = "sign", ASIDE(RESULT(2))};

static void decompose_slogdet(cfx_op_call *c) {
    cfx_value v = cfx_aten__linalg_slogdet(c->args[0]);
    c->out[0] = cfx_tensor_at(v, 0);
    c->out[1] = cfx_tensor_at(v, 1);
}

CFX_OP(linalg_slogdet) = {
    "aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    "torch._C._linalg.linalg_slogdet torch.linalg.slogdet", .decompose = decompose_slogdet,
    .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(slogdet) = {"aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
                   "torch.slogdet Tensor.slogdet", .decompose = decompose_slogdet,
                   .effects = CFX_COMPOSITE, .out = "out"};
