/* Default decompositions of reductions and products. */
#include "core.h"

#include <cfx/ops.h>

#include <math.h>

#define T arg_tensor(c, 0)
#define NO_DIMS cfx_list_value(0, NULL)

/* ---- sums ------------------------------------------------------------------------------------ */

CORE(sum) { c->out[0] = DO(sum_dim_IntList, T, NO_DIMS, CFX_KW(dtype, c->args[1])); }

CORE(nansum) {
    bool sure = cfx__dtype_is_barebones(T->dtype); /* which where does not take */
    cfx_tensor *known = sure ? T : DO(where_ScalarSelf, DO(isnan, T), 0, T);
    cfx_value dims = arg_is_none(c, 1) ? NO_DIMS : c->args[1];
    c->out[0] = DO(sum_dim_IntList, known, dims, c->args[2], CFX_KW(dtype, c->args[3]));
}

CORE(count_nonzero) {
    cfx_tensor *other = DO(ne_Scalar, T, 0);
    c->out[0] = arg_is_none(c, 1) ? DO(sum, other)
                                  : DO(sum_dim_IntList, other, cfx_list(c->args[1]));
}
CORE(count_nonzero_dim_IntList) {
    c->out[0] = DO(sum_dim_IntList, DO(ne_Scalar, T, 0), c->args[1]);
}

CORE(logsumexp) {
    cfx_value dims = c->args[1];
    bool keep = arg_bool(c, 2);
    cfx_tensor *x = core_wide(c, 0);
    if (cfx__dtype_is_integral(x->dtype) || x->dtype == CFX_BOOL)
        x = core_to(c, x, CFX_F32);
    if (!x->numel) { /* which has no largest number */
        c->out[0] = DO(log, DO(sum_dim_IntList, DO(exp, x), dims, c->args[2]));
        return;
    }
    cfx_tensor *most = DO(amax, cfx__dtype_is_complex(x->dtype) ? DO(real, x) : x, dims, true);
    cfx_tensor *endless = DO(eq_Scalar, DO(abs, most), INFINITY);
    most = DO(where_ScalarSelf, endless, 0.0, most);
    bool all = cfx_as_list(dims)->len == 0;
    cfx_tensor *shift = keep ? most : all ? DO(squeeze, most) : DO(squeeze_dims, most, dims);
    cfx_tensor *sum =
        DO(sum_dim_IntList, DO(exp, DO(sub_Tensor, x, most)), dims, c->args[2]);
    c->out[0] = DO(add_Tensor, DO(log, sum), shift);
}

static cfx_tensor *not_all(cfx_op_call *c) { return DO(logical_not, T); }

static void give_bool(cfx_op_call *c, cfx_tensor *any) {
    c->out[0] = DO(logical_not, any);
    if (T->dtype == CFX_U8)
        c->out[0] = core_to(c, c->out[0], CFX_U8);
}
CORE(all) { give_bool(c, DO(any_dims, not_all(c))); }
CORE(all_dim) { give_bool(c, DO(any_dim, not_all(c), c->args[1], c->args[2])); }
CORE(all_dims) { give_bool(c, DO(any_dims, not_all(c), c->args[1], c->args[2])); }

CORE(aminmax) {
    cfx_value dims = arg_is_none(c, 1) ? NO_DIMS : cfx_list(c->args[1]);
    c->out[0] = DO(amin, T, dims, c->args[2]);
    c->out[1] = DO(amax, T, dims, c->args[2]);
}

/* ---- spread ---------------------------------------------------------------------------------- */

/* The correction as a float, 1 where none is given; a complex one is for the variance to refuse. */
static cfx_value as_float(cfx_value correction) {
    if (correction.tag == CFX_TAG_COMPLEX)
        return correction;
    return cfx_float(cfx_is_none(correction) ? 1 : cfx_number(correction));
}

/* Deviation is the root of the variance. */
static cfx_tensor *deviation(cfx_op_call *c, cfx_value dims, cfx_value correction, bool keep) {
    cfx_tensor *x = core_wide(c, 0);
    cfx_value less = as_float(correction);
    if (dims.tag == CFX_TAG_LIST && !cfx_as_list(dims)->len)
        dims = cfx_none();
    cfx_tensor *var = DO(var_correction, x, dims, CFX_KW(correction, less), CFX_KW(keepdim, keep));
    return core_to(c, DO(sqrt, var), cfx__dtype_real(T->dtype));
}

static cfx_value unbiased(cfx_op_call *c, int i) { return cfx_int(arg_bool(c, i)); }

CORE(std_correction) { c->out[0] = deviation(c, c->args[1], c->args[2], arg_bool(c, 3)); }
CORE(std_dim) { c->out[0] = deviation(c, c->args[1], unbiased(c, 2), arg_bool(c, 3)); }
CORE(std) { c->out[0] = deviation(c, cfx_none(), unbiased(c, 1), false); }

static void mean_too(cfx_op_call *c, cfx_value dims, cfx_value correction, bool keep) {
    cfx_value less = as_float(correction);
    cfx_value v = DO_ALL(var_mean_correction, core_wide(c, 0), dims, CFX_KW(correction, less),
                         CFX_KW(keepdim, keep));
    cfx_tensor *var = cfx_tensor_at(v, 0), *mean = cfx_tensor_at(v, 1);
    c->out[0] = core_to(c, DO(sqrt, var), cfx__dtype_real(T->dtype));
    c->out[1] = core_to(c, mean, T->dtype);
}
CORE(std_mean_correction) { mean_too(c, c->args[1], c->args[2], arg_bool(c, 3)); }
CORE(std_mean_dim) { mean_too(c, c->args[1], unbiased(c, 2), arg_bool(c, 3)); }
CORE(std_mean) { mean_too(c, cfx_none(), unbiased(c, 1), false); }

CORE(var) { c->out[0] = DO(var_correction, T, cfx_none(), CFX_KW(correction, unbiased(c, 1))); }
CORE(var_dim) {
    c->out[0] = DO(var_correction, T, c->args[1], CFX_KW(correction, unbiased(c, 2)),
                   CFX_KW(keepdim, c->args[3]));
}

static void var_and_mean(cfx_op_call *c, cfx_value dims, cfx_value correction, cfx_value keep) {
    cfx_value v = DO_ALL(var_mean_correction, T, dims, CFX_KW(correction, correction),
                         CFX_KW(keepdim, keep));
    c->out[0] = cfx_tensor_at(v, 0);
    c->out[1] = cfx_tensor_at(v, 1);
}
CORE(var_mean) { var_and_mean(c, cfx_none(), unbiased(c, 1), cfx_bool(false)); }
CORE(var_mean_dim) { var_and_mean(c, c->args[1], unbiased(c, 2), c->args[3]); }

static void vector_norm(cfx_op_call *c, cfx_value dims, cfx_value keep, cfx_value dtype) {
    cfx_value p = arg_is_none(c, 1) ? cfx_float(2) : c->args[1];
    if (dims.tag == CFX_TAG_LIST && !cfx_as_list(dims)->len)
        dims = cfx_none();
    c->out[0] = DO(linalg_vector_norm, T, p, dims, keep, CFX_KW(dtype, dtype));
}
CORE(norm_Scalar) { vector_norm(c, cfx_none(), cfx_bool(false), cfx_none()); }
CORE(norm_ScalarOpt_dim) { vector_norm(c, c->args[2], c->args[3], cfx_none()); }
CORE(norm_ScalarOpt_dtype) { vector_norm(c, cfx_none(), cfx_bool(false), c->args[2]); }
CORE(norm_ScalarOpt_dim_dtype) { vector_norm(c, c->args[2], c->args[3], c->args[4]); }

/* ---- products -------------------------------------------------------------------------------- */

/* A factor; of products of integers its fraction is cut off. */
static cfx_value factor(const cfx_op_call *c, int i) {
    const cfx_dtype d = (cfx_dtype)T->dtype;
    return c->args[i].tag == CFX_TAG_FLOAT && (cfx__dtype_is_int(d) || d == CFX_BOOL)
               ? cfx_int(cfx__int64_of(arg_float(c, i)))
               : c->args[i];
}

CORE(baddbmm) {
    cfx_tensor *self = core_wide(c, 0), *a = core_wide(c, 1), *b = core_wide(c, 2);
    const cfx_value beta = factor(c, 3), alpha = factor(c, 4);
    cfx_tensor *sum = DO(bmm, a, b);
    if (!core_number_is(alpha, 1))
        sum = DO(mul_Tensor, sum, alpha);
    if (!core_number_is(beta, 0))
        sum = DO(add_Tensor, core_number_is(beta, 1) ? self : DO(mul_Tensor, self, beta), sum);
    c->out[0] = core_to(c, sum, T->dtype);
}

/* self, p, dim, maxnorm */
CORE(renorm) {
    cfx_tensor *x = T;
    bool wide = cfx__dtype_is_half(x->dtype);
    int64_t dims[CFX_MAX_DIMS];
    int dim = arg_dim(c, 2, x->ndim), n = 0;
    if (dim < 0)
        return;
    for (int i = 0; i < x->ndim; i++)
        if (i != dim)
            dims[n++] = i;
    cfx_tensor *norm = DO(linalg_vector_norm, x, c->args[1], cfx_ints_value(n, dims), true,
                          CFX_KW(dtype, wide ? cfx_dtype_value(CFX_F32) : cfx_none()));
    cfx_tensor *too_far = DO(gt_Scalar, norm, c->args[3]);
    cfx_tensor *less = DO(mul_Tensor, DO(reciprocal, DO(add_Tensor, norm, 1e-7)), c->args[3]);
    less = core_to(c, DO(where_ScalarOther, too_far, less, 1.0), x->dtype);
    c->out[0] = DO(contiguous, DO(mul_Tensor, x, less));
}

CORE(addr) {
    cfx_tensor *outer = DO(outer, arg_tensor(c, 1), arg_tensor(c, 2));
    outer = DO(mul_Tensor, outer, c->args[4]);
    c->out[0] = core_number_is(c->args[3], 0)
                    ? outer
                    : DO(add_Tensor, DO(mul_Tensor, T, c->args[3]), outer);
}
CORE(trace) {
    cfx_tensor *copy = DO(clone, DO(diagonal, T),
                          CFX_KW(memory_format, cfx_memory_format_value(CFX_CONTIGUOUS)));
    c->out[0] = DO(sum, copy);
}

/* a, b, dim: each part from the two after it, in a ring. */
CORE(linalg_cross) {
    cfx_tensor *a = T, *b = arg_tensor(c, 1);
    int dim = arg_dim(c, 2, a->ndim);
    if (dim < 0)
        return;
    int ndim = a->ndim;
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, a->shape, (size_t)ndim * sizeof *shape);
    if (!cfx__shape_broadcast(c->at, &ndim, shape, b->ndim, b->shape))
        return;
    if (!cfx__tensor_same_shape(a, b)) {
        a = DO(expand, a, cfx_ints_value(ndim, shape));
        b = DO(expand, b, cfx_ints_value(ndim, shape));
    }
    cfx_tensor *at = DO(arange, 3, CFX_KW(device, cfx_device_value(a->device)));
    cfx_tensor *product[2];
    for (int i = 0; i < 2; i++) {
        cfx_tensor *l = DO(index_select, a, dim,
                           DO(remainder_Scalar, DO(add_Tensor, at, 1 + i), 3));
        cfx_tensor *r = DO(index_select, b, dim,
                           DO(remainder_Scalar, DO(add_Tensor, at, 2 - i), 3));
        product[i] = DO(mul_Tensor, l, r);
    }
    c->out[0] = DO(sub_Tensor, product[0], product[1]);
}

CORE(dot) { c->out[0] = DO(sum, DO(mul_Tensor, T, arg_tensor(c, 1))); }
CORE(vdot) {
    cfx_tensor *x = cfx__dtype_is_complex(T->dtype) ? DO(conj_physical, T) : T;
    c->out[0] = DO(sum, DO(mul_Tensor, x, arg_tensor(c, 1)));
}
CORE(mv) { c->out[0] = DO(sum_dim_IntList, DO(mul_Tensor, T, arg_tensor(c, 1)), cfx_list(1)); }

/* Values alone: PyTorch asks for the vectors too when it traces. */
CORE(linalg_eigvalsh) {
    c->out[0] = cfx_tensor_at(DO_ALL(_linalg_eigh, c->args[0], c->args[1]), 0);
}
CORE(linalg_svdvals) {
    c->out[0] = cfx_tensor_at(DO_ALL(_linalg_svd, c->args[0], CFX_KW(driver, c->args[1])), 1);
}

/* ---- softmax with rows that are masked out --------------------------------------------------- */

CORE(_safe_softmax) {
    cfx_tensor *y = DO(softmax_int, T, c->args[1], c->args[2]);
    cfx_tensor *out = DO(logical_not, DO(any_dim, DO(logical_not, DO(eq_Scalar, T, -INFINITY)),
                                         c->args[1], true));
    c->out[0] = DO(where_self, out, DO(zeros_like, y), y);
}
