/* Norms of matrices, condition numbers, ranks, pseudo-inverses: made of singular values. */
#include <cfx/ops.h>
#include <float.h>
#include <math.h>

#include "../views.h"
#include "linalg.h"

CFX_FAMILY(REDUCE);

/* ---- norms ----------------------------------------------------------------------------------- */

/* The order `ord` for a message: as PyTorch prints a number. */
static const char *order_text(cfx_value ord) {
    if (ord.tag == CFX_TAG_STR)
        return cfx_text(ord);
    double x = cfx_number(ord);
    return isinf(x) ? (x > 0 ? "inf" : "-inf") : cfx__text_format("%g", x);
}

/* The two dims of a matrix norm in dims[2], wrapped; dtype is argument `dtype_at`. */
static bool check_norm(cfx_op_call *c, const cfx_tensor *a, cfx_value dim, int dtype_at,
                       int64_t *dims) {
    const char *fn = "linalg.matrix_norm";
    if (!check_matrix(c, a, fn, "A"))
        return false;
    if (cfx_as_list(dim)->len != 2) {
        op_fail(c, "%s: dim must be a 2-tuple. Got %s", fn, cfx_value_repr(dim));
        return false;
    }
    for (int i = 0; i < 2; i++) {
        dims[i] = cfx__shape_wrap_dim(c->at, cfx_integer(cfx_as_list(dim)->items[i]), a->ndim);
        if (dims[i] < 0)
            return false;
    }
    if (dims[0] == dims[1]) {
        op_fail(c, "%s: dims must be different. Got (%lld, %lld)", fn, (long long)dims[0],
                (long long)dims[1]);
        return false;
    }
    if (!check_floating(c, a, fn))
        return false;
    cfx_dtype to = arg_dtype(c, dtype_at, (cfx_dtype)a->dtype);
    if (!cfx__dtype_is_float(to) && !cfx__dtype_is_complex(to))
        op_fail(c, "%s: dtype should be floating point or complex, but got %s", fn,
                cfx__dtype_title(to));
    else if (cfx__dtype_promote((cfx_dtype)a->dtype, to) != to)
        op_fail(c,
                "%s: the dtype of the input (%s) should be convertible without narrowing to the "
                "specified dtype (%s)",
                fn, cfx__dtype_title(a->dtype), cfx__dtype_title(to));
    return !op_failed();
}

/* Singular values of the matrices in dims, folded to one number each: 's' sum, '+' largest, '-'
 * smallest. */
static cfx_tensor *fold_singular(cfx_op_call *c, int dtype_at, const int64_t *dims, bool keepdim,
                                 char how) {
    cfx_tensor *a = arg_tensor(c, 0);
    int64_t order[CFX_MAX_DIMS], back[CFX_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < a->ndim; d++)
        if (d != dims[0] && d != dims[1])
            order[n++] = d;
    order[n++] = dims[0];
    order[n++] = dims[1];
    if (!arg_is_none(c, dtype_at))
        a = cfx_to(a, c->args[dtype_at]);
    cfx_tensor *s = cfx_linalg_svdvals(cfx_permute(a, cfx_ints_value(n, order)));
    cfx_value keep = cfx_bool(keepdim);
    cfx_tensor *r = how == 's'   ? cfx_sum(s, cfx_list(-1), keep)
                    : how == '+' ? cfx_amax(s, cfx_list(-1), keep)
                                 : cfx_amin(s, cfx_list(-1), keep);
    if (!keepdim)
        return r;
    for (int i = 0; i < n; i++)
        back[order[i]] = i;
    return cfx_permute(cfx_unsqueeze(r, -1), cfx_ints_value(n, back));
}

/* The norm of order `ord` (a number or a text) of the matrices in `dim`. */
static void matrix_norm(cfx_op_call *c, cfx_value ord, cfx_value dim, bool keepdim, int dtype_at) {
    cfx_tensor *a = arg_tensor(c, 0);
    int64_t dims[2];
    const char *text = cfx_text(ord);
    double size = text ? 0 : fabs(cfx_number(ord));
    if (ord.tag == CFX_TAG_COMPLEX && !number_fits(c, ord, CFX_F64))
        return;
    bool nuclear = text && !strcmp(text, "nuc"), frobenius = text && !strcmp(text, "fro");
    if (text ? !nuclear && !frobenius : size != 1 && size != 2 && !isinf(size)) {
        op_fail(c, "linalg.matrix_norm: Order %s not supported.", order_text(ord));
        return;
    }
    if (!check_norm(c, a, dim, dtype_at, dims))
        return;
    bool largest = !text && cfx_number(ord) > 0;
    if (frobenius) {
        c->out[0] = cfx_linalg_vector_norm(a, 2, cfx_ints_value(2, dims), cfx_bool(keepdim),
                                           CFX_KW(dtype, c->args[dtype_at]));
    } else if (nuclear || size == 2) {
        c->out[0] = fold_singular(c, dtype_at, dims, keepdim, nuclear ? 's' : largest ? '+' : '-');
    } else {
        int64_t first = dims[isinf(size) ? 1 : 0], second = dims[isinf(size) ? 0 : 1];
        if (!keepdim && first < second)
            second--;
        cfx_tensor *sums = cfx_linalg_vector_norm(a, 1.0, cfx_ints_value(1, &first),
                                                  cfx_bool(keepdim),
                                                  CFX_KW(dtype, c->args[dtype_at]));
        cfx_value last = cfx_ints_value(1, &second);
        c->out[0] = largest ? cfx_amax(sums, last, cfx_bool(keepdim))
                            : cfx_amin(sums, last, cfx_bool(keepdim));
    }
}

static void decompose_matrix_norm(cfx_op_call *c) {
    matrix_norm(c, c->args[1], c->args[2], arg_bool(c, 3), 4);
}

CFX_OP(linalg_matrix_norm) = {
    "aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *,"
    " ScalarType? dtype=None) -> Tensor",
    "torch._C._linalg.linalg_matrix_norm torch.linalg.matrix_norm",
    .decompose = decompose_matrix_norm, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(linalg_matrix_norm_str_ord) = {
    "aten::linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool "
    "keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    NULL, .decompose = decompose_matrix_norm, .effects = CFX_COMPOSITE, .out = "str_ord_out"};

static void decompose_norm(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    bool has_dim = !arg_is_none(c, 2), has_ord = !arg_is_none(c, 1);
    int64_t n = has_dim ? arg_count(c, 2) : a->ndim;
    if (has_dim && n != 1 && n != 2) {
        op_fail(c, "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %s",
                cfx_value_repr(c->args[2]));
        return;
    }
    if (!has_dim && has_ord && n != 1 && n != 2) {
        op_fail(c,
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                "%dD.",
                a->ndim);
        return;
    }
    if (has_ord && (n == 2 || c->args[1].tag == CFX_TAG_STR))
        matrix_norm(c, c->args[1], has_dim ? c->args[2] : cfx_list(0, 1), arg_bool(c, 3), 4);
    else
        c->out[0] = cfx_linalg_vector_norm(c->args[0], has_ord ? c->args[1] : cfx_float(2),
                                           c->args[2], c->args[3], CFX_KW(dtype, c->args[4]));
}

CFX_OP(linalg_norm) = {
    "aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "torch._C._linalg.linalg_norm torch.linalg.norm", .decompose = decompose_norm,
    .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(linalg_norm_ord_str) = {
    "aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    NULL, .decompose = decompose_norm, .effects = CFX_COMPOSITE, .out = "ord_str_out"};

/* ---- condition numbers ----------------------------------------------------------------------- */

static void decompose_cond(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0);
    cfx_value p = arg_is_none(c, 1) ? cfx_int(2) : c->args[1];
    const char *text = cfx_text(p);
    double size = text ? 0 : fabs(cfx_number(p));
    bool nuclear = text && !strcmp(text, "nuc");
    if (a->ndim < 2) {
        op_fail(c, "linalg.cond: The input tensor must have at least 2 dimensions.");
        return;
    }
    if (text ? !nuclear && strcmp(text, "fro") : size != 1 && size != 2 && !isinf(size)) {
        op_fail(c, "linalg.cond got an invalid norm type: %s", order_text(p));
        return;
    }
    if (!a->numel) {
        c->out[0] = cfx_zeros(cfx_ints_value(a->ndim - 2, a->shape),
                              CFX_KW(dtype, cfx_dtype_value(cfx__dtype_real(a->dtype))));
        return;
    }
    if (nuclear) {
        cfx_tensor *s = cfx_linalg_svdvals(a);
        c->out[0] = cfx_mul(cfx_sum(s, cfx_list(-1)), cfx_sum(cfx_reciprocal(s), cfx_list(-1)));
        return;
    }
    if (size == 2) {
        cfx_tensor *s = cfx_linalg_svdvals(a);
        cfx_tensor *most = cfx_narrow(s, -1, 0, 1), *least = cfx_narrow(s, -1, -1, 1);
        cfx_tensor *r = cfx_number(p) < 0 ? cfx_div(least, most) : cfx_div(most, least);
        c->out[0] = cfx_squeeze(r, -1);
        return;
    }
    if (!check_square(c, a, cfx__text_format("linalg.cond(ord=%s)", order_text(p))))
        return;
    /* A matrix without an inverse has an infinite one here. */
    cfx_value v = cfx_linalg_inv_ex(a);
    cfx_tensor *singular = cfx_gt(cfx_unsqueeze(cfx_unsqueeze(cfx_tensor_at(v, 1), -1), -1), 0);
    cfx_tensor *inverse = cfx_masked_fill(cfx_tensor_at(v, 0), singular, INFINITY);
    cfx_tensor *r = cfx_mul(cfx_linalg_matrix_norm(a, p), cfx_linalg_matrix_norm(inverse, p));
    c->out[0] = cfx_nan_to_num(r, INFINITY, INFINITY, -INFINITY);
}

CFX_FAMILY(LINEAR);
CFX_OP(linalg_cond) = {
    "aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
    "torch._C._linalg.linalg_cond torch.linalg.cond", .decompose = decompose_cond,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(linalg_cond_p_str) = {"aten::linalg_cond.p_str(Tensor self, str p) -> Tensor", NULL,
                             .decompose = decompose_cond, .effects = CFX_COMPOSITE,
                             .autocast = CFX_CAST_F32, .out = "p_str_out"};

/* ---- tolerances ------------------------------------------------------------------------------ */

static cfx_tensor *number(double x) {
    return cfx_full(cfx_list_value(0, NULL), x, CFX_KW(dtype, cfx_f64));
}

/* What singular values below count as nothing relatively, where nobody says: eps times the larger
 * size. */
static double default_rtol(cfx_op_call *c, const cfx_tensor *a) {
    cfx_dtype real = cfx__dtype_real(a->dtype);
    if (real != CFX_F32 && real != CFX_F64) {
        op_fail(c, "This function doesn't handle types other than float and double");
        return 0;
    }
    int64_t larger = rows_of(a) > cols_of(a) ? rows_of(a) : cols_of(a);
    return (real == CFX_F32 ? FLT_EPSILON : DBL_EPSILON) * (double)larger;
}

static bool check_tolerance(cfx_op_call *c, const cfx_tensor *t, const char *fn, const char *name) {
    if (t && cfx__dtype_is_complex(t->dtype))
        op_fail(c, "%s: %s tensor of complex type is not supported. Got %s", fn, name,
                cfx__dtype_title(t->dtype));
    return !op_failed();
}

typedef struct {
    cfx_tensor *atol, *rtol;
} tolerances;

/* Tolerances given as tensors in arguments i and i + 1, or not at all. */
static tolerances tensor_tolerances(cfx_op_call *c, int i, const char *fn) {
    cfx_tensor *atol = arg_tensor(c, i), *rtol = arg_tensor(c, i + 1);
    tolerances t = {atol, rtol};
    if (!check_tolerance(c, atol, fn, "atol") || !check_tolerance(c, rtol, fn, "rtol"))
        return t;
    if (!rtol) {
        t.rtol = number(default_rtol(c, arg_tensor(c, 0)));
        if (atol)
            t.rtol = cfx_where(cfx_gt(atol, 0), number(0), t.rtol);
    }
    if (!atol)
        t.atol = number(0);
    return t;
}

/* The same given as numbers. */
static tolerances number_tolerances(cfx_op_call *c, int i) {
    double atol = arg_is_none(c, i) ? 0 : arg_float(c, i);
    double rtol = !arg_is_none(c, i + 1)                ? arg_float(c, i + 1)
                  : !arg_is_none(c, i) && atol > 0 ? 0
                                                   : default_rtol(c, arg_tensor(c, 0));
    return (tolerances){number(atol), number(rtol)};
}

/* The greater of atol and rtol times the largest of each matrix. */
static cfx_tensor *threshold(tolerances t, cfx_tensor *largest) {
    return cfx_maximum(cfx_unsqueeze(t.atol, -1), cfx_mul(cfx_unsqueeze(t.rtol, -1), largest));
}

/* ---- pseudo-inverses ------------------------------------------------------------------------- */

static bool check_pinv(cfx_op_call *c) {
    const cfx_tensor *a = arg_tensor(c, 0);
    if (a->ndim >= 2 && lapack_for(a->dtype))
        return true;
    op_fail(c,
            "linalg.pinv(%s{%s}): expected a tensor with 2 or more dimensions of float, double, "
            "cfloat or cdouble types",
            cfx__dtype_title(a->dtype), cfx__shape_text(a->ndim, a->shape));
    return false;
}

static void decompose_pinv(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0);
    if (!check_pinv(c))
        return;
    tolerances t = tensor_tolerances(c, 1, "torch.linalg.pinv");
    if (op_failed())
        return;
    if (!a->numel) {
        c->out[0] = cfx_zeros(cfx_ints_value(a->ndim, transposed(a)->shape),
                              CFX_KW(dtype, cfx_dtype_value(a->dtype)));
        return;
    }
    cfx_value to = cfx_dtype_value(a->dtype);
    if (arg_bool(c, 3)) { /* the singular values of Hermitian matrices: absolute eigenvalues */
        cfx_value v = cfx_linalg_eigh(a);
        cfx_tensor *w = cfx_tensor_at(v, 0), *u = cfx_tensor_at(v, 1), *s = cfx_abs(w);
        cfx_tensor *tol = threshold(t, cfx_amax(s, cfx_list(-1), cfx_bool(true)));
        cfx_tensor *inverse = cfx_to(cfx_where(cfx_gt(s, tol), cfx_reciprocal(w), 0.0), to);
        c->out[0] = cfx_matmul(cfx_mul(u, cfx_unsqueeze(inverse, -2)), cfx_mH(u));
        return;
    }
    cfx_value v = cfx_linalg_svd(a, cfx_bool(false));
    cfx_tensor *u = cfx_tensor_at(v, 0), *s = cfx_tensor_at(v, 1), *vh = cfx_tensor_at(v, 2);
    cfx_tensor *tol = threshold(t, cfx_narrow(s, -1, 0, 1));
    cfx_tensor *inverse = cfx_to(cfx_where(cfx_gt(s, tol), cfx_reciprocal(s), 0.0), to);
    c->out[0] = cfx_matmul(cfx_mul(cfx_mH(vh), cfx_unsqueeze(inverse, -2)), cfx_mH(u));
}

CFX_OP(linalg_pinv_atol_rtol_tensor) = {
    "aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool "
    "hermitian=False) -> Tensor",
    NULL, .decompose = decompose_pinv, GRAD(pinv, READ(0) | RESULT(0)),
    .effects = CFX_OUT_CASTS, .out = "atol_rtol_tensor_out"};

static void pinv_with(cfx_op_call *c, tolerances t, cfx_value hermitian) {
    if (op_failed())
        return;
    cfx_value v[] = {c->args[0], cfx_tensor_value(t.atol), cfx_tensor_value(t.rtol), hermitian};
    cfx_value r = cfx__op_call_bound(c->at, &cfx_op_linalg_pinv_atol_rtol_tensor, v);
    c->out[0] = r.tag == CFX_TAG_TENSOR ? cfx_as_tensor(r) : &cfx__tensor_bad;
}

static void decompose_pinv_float(cfx_op_call *c) {
    if (check_pinv(c))
        pinv_with(c, number_tolerances(c, 1), c->args[3]);
}

static void decompose_pinv_rcond(cfx_op_call *c) {
    tolerances t = {number(0), number(arg_float(c, 1))};
    pinv_with(c, t, c->nargs > 2 ? c->args[2] : cfx_bool(false));
}

static void decompose_pinv_rcond_tensor(cfx_op_call *c) {
    if (check_tolerance(c, arg_tensor(c, 1), "torch.linalg.pinv", "rcond"))
        pinv_with(c, (tolerances){number(0), arg_tensor(c, 1)}, c->args[2]);
}

CFX_OP(linalg_pinv_atol_rtol_float) = {
    "aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
    "hermitian=False) -> Tensor",
    NULL, .decompose = decompose_pinv_float, .effects = CFX_COMPOSITE,
    .out = "atol_rtol_float_out"};
CFX_OP(linalg_pinv) = {
    "aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
    "torch._C._linalg.linalg_pinv torch.linalg.pinv", .decompose = decompose_pinv_rcond,
    .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(linalg_pinv_rcond_tensor) = {
    "aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
    NULL, .decompose = decompose_pinv_rcond_tensor, .effects = CFX_COMPOSITE,
    .out = "out_rcond_tensor"};
CFX_OP(pinverse) = {
    "aten::pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor",
    "torch.pinverse Tensor.pinverse", .decompose = decompose_pinv_rcond, .effects = CFX_COMPOSITE,
    .autocast = CFX_CAST_F32};

/* ---- ranks ----------------------------------------------------------------------------------- */

/* How many singular values are above the threshold. */
static void rank_with(cfx_op_call *c, tolerances t, bool hermitian) {
    cfx_tensor *a = arg_tensor(c, 0);
    if (op_failed())
        return;
    if (!a->numel) {
        c->out[0] = cfx_zeros(cfx_ints_value(a->ndim - 2, a->shape), CFX_KW(dtype, cfx_i64));
        return;
    }
    cfx_tensor *s = hermitian ? cfx_abs(cfx_linalg_eigvalsh(a)) : cfx_linalg_svdvals(a);
    cfx_tensor *most = hermitian ? cfx_amax(s, cfx_list(-1), cfx_bool(true))
                                 : cfx_narrow(s, -1, 0, 1);
    c->out[0] = cfx_sum(cfx_gt(s, threshold(t, most)), cfx_list(-1));
}

static bool check_rank(cfx_op_call *c) {
    return check_matrix(c, arg_tensor(c, 0), "torch.linalg.matrix_rank", "input");
}

static void decompose_rank_tensor(cfx_op_call *c) {
    if (check_rank(c))
        rank_with(c, tensor_tolerances(c, 1, "torch.linalg.matrix_rank"), arg_bool(c, 3));
}

static void decompose_rank_float(cfx_op_call *c) {
    if (check_rank(c))
        rank_with(c, number_tolerances(c, 1), arg_bool(c, 3));
}

static void decompose_rank_tol(cfx_op_call *c) {
    cfx_tensor *given = arg_tensor(c, 1);
    if (check_rank(c) && check_tolerance(c, given, "torch.linalg.matrix_rank", "atol"))
        rank_with(c, (tolerances){given ? given : number(arg_float(c, 1)), number(0)},
                  arg_bool(c, 2));
}

CFX_OP(linalg_matrix_rank_atol_rtol_tensor) = {
    "aten::linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? "
    "rtol=None, bool hermitian=False) -> Tensor",
    NULL, .decompose = decompose_rank_tensor, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32,
    .out = "atol_rtol_tensor_out"};
CFX_OP(linalg_matrix_rank_atol_rtol_float) = {
    "aten::linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
    "bool hermitian=False) -> Tensor",
    NULL, .decompose = decompose_rank_float, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32,
    .out = "atol_rtol_float_out"};
CFX_OP(linalg_matrix_rank) = {
    "aten::linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
    "torch._C._linalg.linalg_matrix_rank torch.linalg.matrix_rank", .decompose = decompose_rank_tol,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(linalg_matrix_rank_tol_tensor) = {
    "aten::linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
    NULL, .decompose = decompose_rank_tol, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32,
    .out = "out_tol_tensor"};
