/* Linear algebra made of products and factorisations: powers, chains, tensors as matrices. */
#include <cfx/ops.h>
#include <math.h>

#include "linalg.h"

CFX_FAMILY(LINEAR);

/* ---- powers ---------------------------------------------------------------------------------- */

static void decompose_matrix_power(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0);
    int64_t n = arg_int(c, 1);
    if (!check_square(c, a, "linalg.matrix_power"))
        return;
    if (n == 0) {
        cfx_tensor *eye = cfx_eye(rows_of(a), CFX_KW(dtype, cfx_dtype_value(a->dtype)));
        c->out[0] = cfx_clone(cfx_expand(eye, cfx_ints_value(a->ndim, a->shape)),
                              CFX_KW(memory_format, cfx_contiguous_format));
        return;
    }
    if (n == 1) {
        c->out[0] = cfx_clone(a);
        return;
    }
    if (n < 0)
        a = cfx_linalg_inv(a);
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    cfx_tensor *square = a, *result = NULL;
    if (left == 3) {
        result = cfx_matmul(cfx_matmul(a, a), a);
        left = 0;
    }
    while (left && !op_failed()) {
        if (left & 1)
            result = result ? cfx_matmul(result, square) : square;
        left >>= 1;
        if (left)
            square = cfx_matmul(square, square);
    }
    c->out[0] = result;
}

CFX_OP(linalg_matrix_power) = {
    "aten::linalg_matrix_power(Tensor self, int n) -> Tensor",
    "torch._C._linalg.linalg_matrix_power torch.linalg.matrix_power",
    .decompose = decompose_matrix_power, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(matrix_power) = {"aten::matrix_power(Tensor self, int n) -> Tensor",
                        "torch.matrix_power Tensor.matrix_power",
                        .decompose = decompose_matrix_power, .effects = CFX_COMPOSITE,
                        .out = "out"};

/* ---- log-determinant, the older SVD ---------------------------------------------------------- */

static void decompose_logdet(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0);
    if (!check_square(c, a, "logdet") || !check_full_floating(c, a, "logdet"))
        return;
    cfx_value v = cfx_linalg_slogdet(a);
    cfx_tensor *sign = cfx_tensor_at(v, 0), *size = cfx_tensor_at(v, 1);
    c->out[0] = cfx__dtype_is_complex(a->dtype) ? cfx_add(cfx_log(sign), size)
                                                : cfx_where(cfx_eq(sign, -1), (double)NAN, size);
}

CFX_OP(logdet) = {"aten::logdet(Tensor self) -> Tensor", "torch.logdet Tensor.logdet",
                  .decompose = decompose_logdet, .effects = CFX_COMPOSITE};

static void decompose_old_svd(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0);
    if (a->ndim < 2) {
        op_fail(c,
                "linalg.svd: input should have at least 2 dimensions, but has %d dimensions "
                "instead",
                a->ndim);
        return;
    }
    if (arg_bool(c, 2)) {
        cfx_value v = cfx_linalg_svd(a, cfx_bool(!arg_bool(c, 1)));
        c->out[0] = cfx_tensor_at(v, 0);
        c->out[1] = cfx_tensor_at(v, 1);
        c->out[2] = cfx_mH(cfx_tensor_at(v, 2));
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    cfx_value dtype = cfx_dtype_value(a->dtype);
    memcpy(shape, a->shape, (size_t)a->ndim * sizeof *shape);
    c->out[1] = cfx_linalg_svdvals(a);
    shape[a->ndim - 1] = rows_of(a);
    c->out[0] = cfx_zeros(cfx_ints_value(a->ndim, shape), CFX_KW(dtype, dtype));
    shape[a->ndim - 2] = shape[a->ndim - 1] = cols_of(a);
    c->out[2] = cfx_zeros(cfx_ints_value(a->ndim, shape), CFX_KW(dtype, dtype));
}

CFX_OP(svd) = {
    "aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor "
    "V)",
    "torch.svd Tensor.svd", .decompose = decompose_old_svd, .effects = CFX_COMPOSITE, .out = "U"};

/* ---- products of vectors --------------------------------------------------------------------- */

static void decompose_vecdot(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1);
    if (!check_floating(c, x, "linalg.vecdot"))
        return;
    if (x->dtype != y->dtype)
        op_fail(c,
                "linalg.vecdot: Expected x and y to have the same dtype, but found x of type %s "
                "and y of type %s instead",
                cfx__dtype_title(x->dtype), cfx__dtype_title(y->dtype));
    else if (x->ndim == 1 && y->ndim == 1)
        c->out[0] = cfx_vdot(x, y);
    else
        c->out[0] = cfx_sum(cfx_mul(cfx_conj(x), y), cfx_list(arg_int(c, 2)));
}

CFX_OP(linalg_vecdot) = {
    "aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    "torch._C._linalg.linalg_vecdot torch.linalg.vecdot", .decompose = decompose_vecdot,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_LOW, .out = "out"};

/* ---- tensors as matrices --------------------------------------------------------------------- */

static void decompose_tensorinv(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    int64_t ind = arg_int(c, 1), before = 1, after = 1, shape[CFX_MAX_DIMS];
    if (ind <= 0) {
        op_fail(c, "Expected a strictly positive integer for 'ind', but got %lld", (long long)ind);
        return;
    }
    ind = ind > a->ndim ? a->ndim : ind;
    for (int d = 0; d < a->ndim; d++) {
        *(d < ind ? &before : &after) *= a->shape[d];
        shape[d < ind ? a->ndim - ind + d : d - ind] = a->shape[d];
    }
    if (before != after) {
        op_fail(c,
                "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
                "prod(self.shape[:ind]), but got %lld != %lld",
                (long long)after, (long long)before);
        return;
    }
    cfx_tensor *inverse = cfx_linalg_inv(cfx_reshape(c->args[0], cfx_list(after, after)));
    c->out[0] = cfx_reshape(inverse, cfx_ints_value(a->ndim, shape));
}

CFX_OP(linalg_tensorinv) = {
    "aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
    "torch._C._linalg.linalg_tensorinv torch.linalg.tensorinv", .decompose = decompose_tensorinv,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};

static void decompose_tensorsolve(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    int64_t dims[CFX_MAX_DIMS], to[CFX_MAX_DIMS], product = 1;
    int n = arg_ints(c, 2, dims);
    for (int i = 0; i < n && !op_failed(); i++)
        to[i] = a->ndim - n + i;
    if (n && !op_failed())
        a = cfx_movedim(a, cfx_ints_value(n, dims), cfx_ints_value(n, to));
    if (op_failed())
        return;
    int rest = a->ndim > b->ndim ? a->ndim - b->ndim : 0;
    for (int d = a->ndim - rest; d < a->ndim; d++)
        product *= a->shape[d];
    if (product != b->numel || a->numel != product * product) {
        op_fail(c,
                "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                "prod(self.shape[:other.ndim]), but got %lld != %lld",
                (long long)product, (long long)b->numel);
        return;
    }
    cfx_tensor *x = cfx_linalg_solve(cfx_reshape(a, cfx_list(product, product)), cfx_flatten(b));
    c->out[0] = cfx_reshape(x, cfx_ints_value(rest, a->shape + a->ndim - rest));
}

CFX_OP(linalg_tensorsolve) = {
    "aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    "torch._C._linalg.linalg_tensorsolve torch.linalg.tensorsolve",
    .decompose = decompose_tensorsolve, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32,
    .out = "out"};

/* ---- powers of numbers in rows --------------------------------------------------------------- */

/* Columns of x to the powers 0 .. n - 1. */
static cfx_tensor *powers(cfx_tensor *x, int64_t n) {
    int64_t shape[CFX_MAX_DIMS + 1];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim] = n - 1;
    cfx_tensor *wide = cfx_expand(cfx_unsqueeze(x, -1), cfx_ints_value(x->ndim + 1, shape));
    cfx_tensor *rest = cfx_cumprod(wide, -1);
    if (op_failed())
        return &cfx__tensor_bad;
    shape[x->ndim] = 1;
    cfx_tensor *ones = cfx_new_ones(rest, cfx_ints_value(x->ndim + 1, shape));
    return cfx_cat(cfx_list(ones, rest), -1);
}

static void decompose_linalg_vander(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (x->dtype == CFX_BOOL || cfx__dtype_is_half(x->dtype)) {
        op_fail(c,
                "linalg.vander supports floating point, complex, and integer tensors, but got %s",
                cfx__dtype_title(x->dtype));
        return;
    }
    if (!x->ndim)
        x = cfx_unsqueeze(x, -1);
    int64_t n = arg_is_none(c, 1) ? x->shape[x->ndim - 1] : arg_int(c, 1);
    if (n <= 1)
        op_fail(c, "N must be greater than 1.");
    else
        c->out[0] = powers(x, n);
}

CFX_OP(linalg_vander) = {
    "aten::linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
    "torch._C._linalg.linalg_vander torch.linalg.vander", .decompose = decompose_linalg_vander,
    .effects = CFX_COMPOSITE};

static void decompose_linalg_diagonal(cfx_op_call *c) {
    c->out[0] = cfx_diagonal(c->args[0], c->args[1], c->args[2], c->args[3]);
}

CFX_OP(linalg_diagonal) = {
    "aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
    NULL, .decompose = decompose_linalg_diagonal, .effects = CFX_COMPOSITE};
