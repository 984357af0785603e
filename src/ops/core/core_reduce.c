/* Default decompositions of reductions, products and losses. */
#include "core.h"

#include <cfx/ops.h>

#include <math.h>

#define T arg_tensor(c, 0)
#define NO_DIMS cfx_list_value(0, NULL)

/* ---- sums ------------------------------------------------------------------------------------ */

CORE(sum) { c->out[0] = DO(sum_dim_IntList, T, NO_DIMS, CFX_KW(dtype, c->args[1])); }

CORE(nansum) {
    cfx_tensor *known = DO(where_ScalarSelf, DO(isnan, T), 0, T);
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
    cfx_tensor *most = DO(amax, T, dims, true);
    cfx_tensor *endless = DO(eq_Scalar, DO(abs, most), INFINITY);
    most = DO(where_ScalarSelf, endless, 0.0, most);
    bool all = cfx_as_list(dims)->len == 0;
    cfx_tensor *shift = keep ? most : all ? DO(squeeze, most) : DO(squeeze_dims, most, dims);
    cfx_tensor *sum =
        DO(sum_dim_IntList, DO(exp, DO(sub_Tensor, T, most)), dims, c->args[2]);
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

/* Deviation is the root of the variance; the correction is a float there. */
static cfx_tensor *deviation(cfx_op_call *c, cfx_value dims, cfx_value correction, bool keep) {
    cfx_tensor *x = core_wide(c, 0);
    double less = cfx_is_none(correction) ? 1.0 : cfx_number(correction);
    if (dims.tag == CFX_TAG_LIST && !cfx_as_list(dims)->len)
        dims = cfx_none();
    cfx_tensor *var = DO(var_correction, x, dims, CFX_KW(correction, less), CFX_KW(keepdim, keep));
    return core_to(c, DO(sqrt, var), T->dtype);
}

static cfx_value unbiased(cfx_op_call *c, int i) { return cfx_int(arg_bool(c, i)); }

CORE(std_correction) { c->out[0] = deviation(c, c->args[1], c->args[2], arg_bool(c, 3)); }
CORE(std_dim) { c->out[0] = deviation(c, c->args[1], unbiased(c, 2), arg_bool(c, 3)); }
CORE(std) { c->out[0] = deviation(c, cfx_none(), unbiased(c, 1), false); }

static void mean_too(cfx_op_call *c, cfx_value dims, cfx_value correction, bool keep) {
    double less = cfx_is_none(correction) ? 1.0 : cfx_number(correction);
    cfx_value v = DO_ALL(var_mean_correction, core_wide(c, 0), dims, CFX_KW(correction, less),
                         CFX_KW(keepdim, keep));
    cfx_tensor *var = cfx_tensor_at(v, 0), *mean = cfx_tensor_at(v, 1);
    c->out[0] = core_to(c, DO(sqrt, var), T->dtype);
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

static bool is_one(cfx_value v) { return cfx_number(v) == 1; }

CORE(baddbmm) {
    cfx_tensor *product = DO(bmm, arg_tensor(c, 1), arg_tensor(c, 2)), *self = T;
    if (!is_one(c->args[4]))
        product = DO(mul_Tensor, product, c->args[4]);
    if (cfx_number(c->args[3]) == 0) {
        c->out[0] = product;
        return;
    }
    if (!is_one(c->args[3]))
        self = DO(mul_Tensor, self, c->args[3]);
    c->out[0] = DO(add_Tensor, self, product);
}

CORE(addr) {
    cfx_tensor *outer = DO(outer, arg_tensor(c, 1), arg_tensor(c, 2));
    outer = DO(mul_Tensor, outer, c->args[4]);
    c->out[0] = cfx_number(c->args[3]) == 0
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

/* ---- losses ---------------------------------------------------------------------------------- */

static void reduced(cfx_op_call *c, cfx_tensor *loss, int i) {
    int64_t how = arg_int(c, i);
    c->out[0] = how == 1 ? DO(mean, loss) : how == 2 ? DO(sum, loss) : loss;
}

CORE(mse_loss) {
    cfx_tensor *apart = DO(sub_Tensor, T, arg_tensor(c, 1));
    reduced(c, DO(pow_Tensor_Scalar, apart, 2), 2);
}

CORE(huber_loss) {
    double delta = arg_float(c, 3);
    cfx_tensor *z = DO(abs, DO(sub_Tensor, T, arg_tensor(c, 1)));
    cfx_tensor *near_it = DO(lt_Scalar, z, delta);
    cfx_tensor *square = DO(mul_Tensor, DO(mul_Tensor, z, 0.5), z);
    cfx_tensor *line = DO(mul_Tensor, DO(sub_Tensor, z, 0.5 * delta), delta);
    reduced(c, DO(where_self, near_it, square, line), 2);
}

CORE(smooth_l1_loss) {
    double beta = arg_float(c, 3);
    cfx_tensor *z = DO(abs, DO(sub_Tensor, T, arg_tensor(c, 1)));
    if (beta == 0) {
        reduced(c, z, 2);
        return;
    }
    cfx_tensor *near_it = DO(lt_Scalar, z, beta);
    cfx_tensor *square =
        DO(div_Tensor, DO(mul_Tensor, DO(pow_Tensor_Scalar, z, 2), 0.5), beta);
    reduced(c, DO(where_self, near_it, square, DO(sub_Tensor, z, 0.5 * beta)), 2);
}

CORE(binary_cross_entropy) {
    cfx_tensor *x = T, *y = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    cfx_value floor = cfx_list_value(0, NULL);
    cfx_tensor *less = DO(sub_Tensor, y, 1), *log_rest = DO(log1p, DO(neg, x));
    cfx_tensor *a = DO(mul_Tensor, less, DO(maximum, log_rest, DO(new_full, x, floor, -100)));
    cfx_tensor *b = DO(maximum, DO(log, x), DO(new_full, x, floor, -100));
    cfx_tensor *loss = DO(sub_Tensor, a, DO(mul_Tensor, y, b));
    reduced(c, w ? DO(mul_Tensor, loss, w) : loss, 3);
}

/* self, target, weight, pos_weight, reduction */
CORE(binary_cross_entropy_with_logits) {
    cfx_tensor *x = T, *y = arg_tensor(c, 1), *w = arg_tensor(c, 2), *more = arg_tensor(c, 3);
    cfx_tensor *share = NULL;
    if (more)
        share = DO(add_Tensor, DO(mul_Tensor, DO(sub_Tensor, more, 1), y), 1);
    cfx_tensor *rest = DO(mul_Tensor, DO(rsub_Scalar, y, 1), x);
    cfx_tensor *log = cfx_tensor_at(DO_ALL(log_sigmoid_forward, x), 0);
    cfx_tensor *loss = DO(sub_Tensor, rest, more ? DO(mul_Tensor, share, log) : log);
    reduced(c, w ? DO(mul_Tensor, loss, w) : loss, 4);
}

/* self, target, weight, reduction, ignore_index: what each target picks, 0 where it is ignored. */
CORE(nll_loss_forward) {
    cfx_tensor *x = T, *y = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    int dim = x->ndim < 2 ? 0 : 1;
    int64_t how = arg_int(c, 3), shape[CFX_MAX_DIMS];
    cfx_value ignored = c->args[4];
    if (w && x->ndim > 1) {
        for (int i = 0; i < x->ndim; i++)
            shape[i] = i == dim ? w->shape[0] : 1;
        w = DO(view, w, cfx_ints_value(x->ndim, shape));
    }
    if (w)
        x = DO(mul_Tensor, x, w);
    cfx_tensor *safe = DO(where_ScalarOther, DO(ne_Scalar, y, ignored), y, 0);
    safe = DO(unsqueeze, safe, dim);
    cfx_tensor *loss = DO(neg, DO(squeeze_dim, DO(gather, x, dim, safe), dim));
    loss = DO(where_ScalarOther, DO(ne_Scalar, y, ignored), loss, 0);
    if (how == 0 && x->ndim > 1) {
        c->out[0] = loss;
        c->out[1] = DO(new_full, x, cfx_list_value(0, NULL), 0.0);
        return;
    }
    if (w) {
        cfx_tensor *all = DO(expand, w, cfx_ints_value(x->ndim, x->shape));
        all = DO(squeeze_dim, DO(gather, all, dim, safe), dim);
        c->out[1] = DO(sum, DO(where_ScalarOther, DO(ne_Scalar, y, ignored), all, 0));
    } else {
        c->out[1] = DO(_to_copy, DO(sum, DO(ne_Scalar, y, ignored)),
                       CFX_KW(dtype, cfx_dtype_value((cfx_dtype)x->dtype)),
                       CFX_KW(device, cfx_device_value(x->device)));
    }
    if (how != 0)
        loss = DO(sum, loss);
    c->out[0] = how == 1 ? DO(div_Tensor, loss, c->out[1]) : loss;
}

CORE(soft_margin_loss) {
    cfx_tensor *z = DO(mul_Tensor, DO(neg, T), arg_tensor(c, 1));
    reduced(c, DO(log1p, DO(exp, z)), 2);
}
