/* QR and LDL factorisations. */
#include <cfx/ops.h>

#include "linalg.h"

CFX_FAMILY(LINEAR);

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- geqrf and linalg_qr --------------------------------------------------------------------- */

static void shape_geqrf(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (a->ndim < 2) {
        op_fail(c, "torch.geqrf: input must have at least 2 dimensions.");
        return;
    }
    if (!check_matrix(c, a, "torch.geqrf", "input") || !lapack_of(c, a, "geqrf_cpu"))
        return;
    out_columns(c, 0, a->dtype, a->ndim, a->shape);
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, a->shape, (size_t)a->ndim * sizeof *shape);
    shape[a->ndim - 2] = least(rows_of(a), cols_of(a));
    out_new(c, 1, a->dtype, a->ndim - 1, shape);
}

/* Reflectors and their scales, in place. */
static void reflect(cfx_tensor *a, cfx_tensor *tau) {
    int64_t m = rows_of(a), n = cols_of(a), batch = batch_of(a);
    for (int64_t b = 0; b < batch && m && n; b++)
        lapack_for(a->dtype)->qr((int)m, (int)n, nth_matrix(a, b), nth(tau, b, least(m, n)));
}

static void kernel_geqrf(cfx_op_call *c) {
    cfx__tensor_copy(c->out[0], arg_tensor(c, 0));
    reflect(c->out[0], c->out[1]);
}

CFX_OP(geqrf) = {"aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)",
                 "torch.geqrf Tensor.geqrf", .shape = shape_geqrf, .kernel = kernel_geqrf,
                 .autocast = CFX_CAST_F32, .effects = CFX_OUT_CASTS, .out = "a"};

static void shape_qr(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    const char *mode = arg_text(c, 1);
    if (!check_matrix(c, a, "linalg.qr", "A") || !check_floating(c, a, "linalg.qr") ||
        !lapack_of(c, a, "geqrf_cpu"))
        return;
    bool complete = !strcmp(mode, "complete"), only_r = !strcmp(mode, "r");
    if (!complete && !only_r && strcmp(mode, "reduced")) {
        op_fail(c,
                "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', "
                "or 'complete'",
                mode);
        return;
    }
    int64_t shape[CFX_MAX_DIMS], m = rows_of(a), n = cols_of(a), k = complete ? m : least(m, n);
    int d = a->ndim;
    memcpy(shape, a->shape, (size_t)d * sizeof *shape);
    shape[d - 1] = k;
    if (only_r)
        out_nothing(c, 0, a->dtype);
    else
        out_columns(c, 0, a->dtype, d, shape);
    shape[d - 2] = k;
    shape[d - 1] = n;
    out_columns(c, 1, a->dtype, d, shape);
}

/* The leading part of matrices in columns: the first `rows` rows and `cols` columns of each. */
static cfx_tensor *leading(const cfx_tensor *t, int64_t rows, int64_t cols) {
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[t->ndim - 2] = rows;
    shape[t->ndim - 1] = cols;
    return cfx__tensor_alias(t, t->ndim, shape, t->stride, t->offset);
}

static void kernel_qr(cfx_op_call *c) {
    cfx_tensor *a = own_columns(c, arg_tensor(c, 0)), *q = c->out[0], *r = c->out[1];
    int64_t m = rows_of(a), n = cols_of(a), k = least(m, n), batch = batch_of(a);
    bool only_r = !strcmp(arg_text(c, 1), "r");
    int64_t shape[] = {batch, k};
    cfx_tensor *tau = cfx__tensor_empty(c->at, a->dtype, false, 2, shape, NULL);
    if (op_failed())
        return;
    reflect(a, tau);
    if (r->numel) {
        cfx__tensor_copy(r, leading(a, rows_of(r), n));
        keep_triangle(r, 'U');
    }
    if (only_r || !q->numel)
        return;
    if (!k) {
        fill_identity(q);
        return;
    }
    int64_t shared = least(n, cols_of(q));
    cfx__tensor_copy(leading(q, m, shared), leading(a, m, shared));
    for (int64_t b = 0; b < batch; b++)
        lapack_for(a->dtype)->q((int)m, (int)cols_of(q), (int)k, nth_matrix(q, b), nth(tau, b, k));
}

CFX_OP(linalg_qr) = {
    "aten::linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)",
    "torch._C._linalg.linalg_qr torch.linalg.qr", .shape = shape_qr, .kernel = kernel_qr,
    GRAD(qr, RESULT(0) | RESULT(1)), .autocast = CFX_CAST_F32, .out = "out"};

static void decompose_qr(cfx_op_call *c) {
    cfx_value v = cfx_linalg_qr(c->args[0], arg_bool(c, 1) ? "reduced" : "complete");
    c->out[0] = cfx_tensor_at(v, 0);
    c->out[1] = cfx_tensor_at(v, 1);
}

CFX_OP(qr) = {"aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
              "torch.qr Tensor.qr", .decompose = decompose_qr, .effects = CFX_COMPOSITE,
              .out = "Q"};

/* ---- products of reflectors ------------------------------------------------------------------ */

/* tau must have input's dtype and its batch; fn begins the messages. */
static bool check_tau(cfx_op_call *c, const cfx_tensor *a, const cfx_tensor *tau, const char *fn) {
    if (tau->ndim != a->ndim - 1) {
        op_fail(c,
                "%s: Expected tau to have one dimension less than input, but got tau.ndim equal to "
                "%d and input.ndim is equal to %d",
                fn, tau->ndim, a->ndim);
        return false;
    }
    if (a->ndim > 2 && memcmp(a->shape, tau->shape, (size_t)(a->ndim - 2) * sizeof *a->shape)) {
        op_fail(c,
                "%s: Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s",
                fn, cfx__shape_text(tau->ndim - 1, tau->shape));
        return false;
    }
    return true;
}

static void shape_householder(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *tau = arg_tensor(c, 1);
    const char *fn = "torch.linalg.householder_product";
    if (a->ndim < 2)
        op_fail(c, "%s: input must have at least 2 dimensions.", fn);
    else if (rows_of(a) < cols_of(a))
        op_fail(c, "%s: input.shape[-2] must be greater than or equal to input.shape[-1]", fn);
    else if (tau->ndim && cols_of(a) < tau->shape[tau->ndim - 1])
        op_fail(c, "%s: input.shape[-1] must be greater than or equal to tau.shape[-1]", fn);
    else if (!check_tau(c, a, tau, fn) || !check_matrix(c, a, fn, "input"))
        return;
    else if (a->dtype != tau->dtype)
        op_fail(c, "%s: tau dtype %s does not match input dtype %s", fn,
                cfx__dtype_title(tau->dtype), cfx__dtype_title(a->dtype));
    else if (lapack_of(c, a, "orgqr_cpu"))
        out_columns(c, 0, a->dtype, a->ndim, a->shape);
}

static void kernel_householder(cfx_op_call *c) {
    cfx_tensor *q = c->out[0], *tau = cfx__tensor_contiguous(arg_tensor(c, 1));
    int64_t m = rows_of(q), n = cols_of(q), k = tau->shape[tau->ndim - 1], batch = batch_of(q);
    if (op_failed() || !q->numel)
        return;
    cfx__tensor_copy(q, arg_tensor(c, 0));
    for (int64_t b = 0; b < batch; b++)
        lapack_for(q->dtype)->q((int)m, (int)n, (int)k, nth_matrix(q, b), nth(tau, b, k));
}

CFX_OP(linalg_householder_product) = {
    "aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    "torch._C._linalg.linalg_householder_product torch.linalg.householder_product",
    .shape = shape_householder, .kernel = kernel_householder, GRAD(householder, READ(0) | READ(1)),
    .autocast = CFX_CAST_F32, .effects = CFX_OUT_CASTS, .out = "out"};

static void decompose_orgqr(cfx_op_call *c) {
    c->out[0] = cfx_linalg_householder_product(c->args[0], c->args[1]);
}

CFX_OP(orgqr) = {"aten::orgqr(Tensor self, Tensor input2) -> Tensor", "torch.orgqr Tensor.orgqr",
                 .decompose = decompose_orgqr, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32,
                 .out = "out"};

static void shape_ormqr(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0), *tau = arg_tensor(c, 1), *other = arg_tensor(c, 2);
    const char *fn = "torch.ormqr";
    bool left = arg_bool(c, 3);
    if (a->ndim < 2 || other->ndim < 2) {
        op_fail(c, "%s: %s must have at least 2 dimensions.", fn, a->ndim < 2 ? "input" : "other");
        return;
    }
    if ((left ? rows_of(other) : cols_of(other)) != rows_of(a)) {
        op_fail(c, "%s: other.shape[%d] must be equal to input.shape[-2]", fn, left ? -2 : -1);
        return;
    }
    if (tau->ndim && tau->shape[tau->ndim - 1] > cols_of(a)) {
        op_fail(c, "%s: tau.shape[-1] must be less than or equal to input.shape[-1]", fn);
        return;
    }
    if (!check_tau(c, a, tau, fn) || !check_matrix(c, a, fn, "input") ||
        !check_matrix(c, other, fn, "other"))
        return;
    if (tau->shape[tau->ndim - 1] > rows_of(a)) {
        op_fail(c, "%s: tau.shape[-1] must be less than or equal to input.shape[-2]", fn);
        return;
    }
    if (other->ndim != a->ndim) {
        op_fail(c,
                "%s: Expected other to have the same number of dimensions as input, but got "
                "other.ndim equal to %d and input.ndim is equal to %d",
                fn, other->ndim, a->ndim);
        return;
    }
    if (memcmp(a->shape, other->shape, (size_t)(a->ndim - 2) * sizeof *a->shape)) {
        op_fail(c,
                "%s: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
                "%s",
                fn, cfx__shape_text(other->ndim - 2, other->shape));
        return;
    }
    const cfx_tensor *bad = tau->dtype != a->dtype ? tau : other->dtype != a->dtype ? other : NULL;
    if (bad)
        op_fail(c,
                "%s: Expected input and %s to have the same dtype, but input has dtype%s and %s "
                "has dtype %s",
                fn, bad == tau ? "tau" : "other", cfx__dtype_title(a->dtype),
                bad == tau ? "tau" : "other", cfx__dtype_title(bad->dtype));
    else if (lapack_of(c, a, "ormqr_cpu"))
        out_columns(c, 0, a->dtype, other->ndim, other->shape);
}

static void kernel_ormqr(cfx_op_call *c) {
    cfx_tensor *x = c->out[0], *a = own_columns(c, arg_tensor(c, 0));
    cfx_tensor *tau = cfx__tensor_contiguous(arg_tensor(c, 1));
    int64_t k = tau->shape[tau->ndim - 1], batch = batch_of(a);
    if (op_failed())
        return;
    cfx__tensor_copy(x, arg_tensor(c, 2));
    for (int64_t b = 0; b < batch && k && x->numel; b++)
        lapack_for(a->dtype)->q_apply(arg_bool(c, 3) ? 'L' : 'R', arg_bool(c, 4), (int)rows_of(x),
                                      (int)cols_of(x), (int)k, (int)rows_of(a), nth_matrix(a, b),
                                      nth(tau, b, k), nth_matrix(x, b));
}

CFX_OP(ormqr) = {
    "aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) "
    "-> Tensor",
    "torch.ormqr Tensor.ormqr", .shape = shape_ormqr, .kernel = kernel_ormqr,
    GRAD(ormqr, READ(0) | READ(1) | READ(2)), .autocast = CFX_CAST_F32, .out = "out"};

/* ---- LDL ------------------------------------------------------------------------------------- */

static void shape_ldl_factor(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    const char *fn = "torch.linalg.ldl_factor_ex";
    if (!check_square(c, a, fn) || !check_floating(c, a, fn) ||
        !lapack_of(c, a, "ldl_factor_kernel_cpu"))
        return;
    out_columns(c, 0, a->dtype, a->ndim, a->shape);
    out_new(c, 1, CFX_I32, a->ndim - 1, a->shape);
    out_new(c, 2, CFX_I32, a->ndim - 2, a->shape);
}

static void kernel_ldl_factor(cfx_op_call *c) {
    cfx_tensor *ld = c->out[0];
    int64_t n = rows_of(ld), batch = batch_of(ld);
    int32_t *info = (int32_t *)c->out[2]->data;
    cfx__tensor_copy(ld, arg_tensor(c, 0));
    keep_triangle(ld, 'L');
    for (int64_t b = 0; b < batch; b++)
        info[b] = n ? lapack_for(ld->dtype)->ldl(arg_bool(c, 1), (int)n, nth_matrix(ld, b),
                                                 nth(c->out[1], b, n))
                    : 0;
    if (arg_bool(c, 2))
        report_info(c, info, batch, "torch.linalg.ldl_factor_ex", ld->ndim == 2);
}

CFX_OP(linalg_ldl_factor_ex) = {
    "aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) ->"
    " (Tensor LD, Tensor pivots, Tensor info)",
    "torch._C._linalg.linalg_ldl_factor_ex torch.linalg.ldl_factor_ex", .shape = shape_ldl_factor,
    .kernel = kernel_ldl_factor, .out = "out"};

static void decompose_ldl_factor(cfx_op_call *c) {
    cfx_value v = cfx_linalg_ldl_factor_ex(c->args[0], CFX_KW(hermitian, arg_bool(c, 1)));
    if (op_failed())
        return;
    check_info(c, cfx_at(v, 2), "torch.linalg.ldl_factor");
    c->out[0] = cfx_tensor_at(v, 0);
    c->out[1] = cfx_tensor_at(v, 1);
}

CFX_OP(linalg_ldl_factor) = {
    "aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    "torch._C._linalg.linalg_ldl_factor torch.linalg.ldl_factor", .decompose = decompose_ldl_factor,
    .effects = CFX_COMPOSITE, .out = "out"};

static void shape_ldl_solve(cfx_op_call *c) {
    const cfx_tensor *ld = arg_tensor(c, 0), *pivots = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    const char *fn = "torch.linalg.ldl_solve";
    if (!check_square(c, ld, fn) || !check_floating(c, ld, fn) || !check_matrix(c, b, fn, "B") ||
        !check_old_solver(c, b, ld, fn))
        return;
    int64_t shape[CFX_MAX_DIMS];
    if (pivots->ndim != ld->ndim - 1 ||
        memcmp(pivots->shape, ld->shape, (size_t)pivots->ndim * sizeof *ld->shape)) {
        op_fail(c,
                "%s: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
                "shape %s instead",
                fn, cfx__shape_text(pivots->ndim, pivots->shape));
        return;
    }
    if (!cfx__dtype_is_int(pivots->dtype)) {
        op_fail(c, "%s: Expected pivots to be integers. Got %s", fn,
                cfx__dtype_title(pivots->dtype));
        return;
    }
    int n = lapack_of(c, ld, "ldl_solve_kernel_cpu") ? broadcast_batch(c, b, ld, shape) : -1;
    if (n < 0)
        return;
    shape[n] = rows_of(b);
    shape[n + 1] = cols_of(b);
    out_columns(c, 0, b->dtype, n + 2, shape);
}

/* Whether pivots can be those of a factorisation: LAPACK follows them without looking. A negative
 * one stands with its neighbour for a block of 2. */
static bool ldl_pivots_hold(const int32_t *p, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        if (p[k] > 0 && p[k] <= n)
            continue;
        if (p[k] >= 0 || p[k] < -n || k + 1 == n || p[k + 1] >= 0 || p[k + 1] < -n)
            return false;
        k++;
    }
    return true;
}

static void kernel_ldl_solve(cfx_op_call *c) {
    cfx_tensor *x = c->out[0], *ld = own_columns(c, arg_tensor(c, 0));
    cfx_tensor *pivots = cfx__tensor_contiguous_as(arg_tensor(c, 1), CFX_I32);
    int64_t n = rows_of(ld), k = cols_of(x), batch = batch_of(x);
    if (op_failed() || !x->numel)
        return;
    for (int64_t b = 0; b < batch_of(ld); b++)
        if (!ldl_pivots_hold(nth(pivots, b, n), n)) {
            op_fail(c, "torch.linalg.ldl_solve: pivots must be those that ldl_factor gave");
            return;
        }
    cfx__tensor_copy(x, arg_tensor(c, 2));
    for (int64_t b = 0; b < batch; b++) {
        int64_t i = batch_index(ld, x->ndim - 2, x->shape, b);
        lapack_for(x->dtype)->ldl_solve(arg_bool(c, 3), (int)n, (int)k, nth_matrix(ld, i),
                                        nth(pivots, i, n), nth_matrix(x, b));
    }
}

CFX_OP(linalg_ldl_solve) = {
    "aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> "
    "Tensor",
    "torch._C._linalg.linalg_ldl_solve torch.linalg.ldl_solve", .shape = shape_ldl_solve,
    .kernel = kernel_ldl_solve, .out = "out"};
