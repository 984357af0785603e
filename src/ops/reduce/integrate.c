/* Integrals by the trapezoidal rule, and covariances: all made of other operators. */
#include <cfx/ops.h>

#include "../views.h"

CFX_FAMILY(REDUCE);

/* ---- the trapezoidal rule -------------------------------------------------------------------- */

/* All samples along dim but the last, or but the first. */
static cfx_tensor *samples(cfx_tensor *y, int dim, bool right) {
    return right ? cfx_slice(y, dim, 1) : cfx_slice(y, dim, 0, -1);
}

/* The distances between the samples x of y along dim, shaped to broadcast with them. */
static cfx_tensor *distances(cfx_op_call *c, cfx_tensor *y, cfx_tensor *x, int dim) {
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < y->ndim; d++)
        shape[d] = 1;
    if (x->ndim == 1) {
        if (x->shape[0] != y->shape[dim]) {
            op_fail(c, "%s: There must be one `x` value for each sample point", op_title(c));
            return &cfx__tensor_bad;
        }
        shape[dim] = x->shape[0];
        x = cfx_view(x, cfx_ints_value(y->ndim, shape));
    } else if (x->ndim < y->ndim) {
        memcpy(shape + y->ndim - x->ndim, x->shape, x->ndim * sizeof *shape);
        x = cfx_view(x, cfx_ints_value(y->ndim, shape));
    }
    return cfx_sub(samples(x, dim, true), samples(x, dim, false));
}

static cfx_tensor *times(cfx_op_call *c, cfx_tensor *t, cfx_value number) {
    return call_bound(c, &cfx_op_mul_Scalar, (cfx_value[]){cfx_tensor_value(t), number});
}

/* Whether the distance of samples, where it is a number, is a real one. */
static bool distance_fits(cfx_op_call *c) {
    bool fits = c->args[1].tag != CFX_TAG_COMPLEX && c->args[1].tag != CFX_TAG_BOOL;
    if (!fits)
        op_fail(c, "%s: Currently, we only support dx as a real number.", op_title(c));
    return fits;
}

static void decompose_trapezoid(cfx_op_call *c) {
    cfx_tensor *y = arg_tensor(c, 0), *x = arg_tensor(c, 1);
    int dim = arg_dim(c, 2, y->ndim);
    if (dim < 0)
        return;
    if (y->ndim == 0 || y->shape[dim] == 0) {
        c->out[0] = cfx_zeros_like(cfx_sum(y, cfx_list(dim)));
    } else if (x) {
        cfx_tensor *dx = distances(c, y, x, dim);
        cfx_tensor *pairs = cfx_add(samples(y, dim, false), samples(y, dim, true));
        c->out[0] = cfx_div(cfx_sum(cfx_mul(pairs, dx), cfx_list(dim)), 2.0);
    } else if (distance_fits(c)) {
        cfx_tensor *last = cfx_select(y, dim, -1), *ends = cfx_add(cfx_select(y, dim, 0), last);
        ends = times(c, ends, cfx_float(0.5));
        c->out[0] = times(c, cfx_sub(cfx_sum(y, cfx_list(dim)), ends), c->args[1]);
    }
}

static void decompose_cumulative(cfx_op_call *c) {
    cfx_tensor *y = arg_tensor(c, 0), *x = arg_tensor(c, 1);
    int dim = arg_dim(c, 2, y->ndim);
    if (dim < 0)
        return;
    if (y->ndim == 0) {
        op_fail_as(INDEX, c, "slice() cannot be applied to a 0-dim tensor.");
        return;
    }
    if (!x && !distance_fits(c))
        return;
    cfx_tensor *dx = x ? distances(c, y, x, dim) : NULL;
    cfx_tensor *pairs = cfx_add(samples(y, dim, false), samples(y, dim, true));
    c->out[0] = dx ? cfx_div(cfx_cumsum(cfx_mul(pairs, dx), dim), 2.0)
                   : cfx_cumsum(cfx_mul(pairs, cfx_number(c->args[1]) / 2), dim);
}

#define BY_TRAPEZOIDS .decompose = decompose_trapezoid, .effects = CFX_COMPOSITE
CFX_OP(trapezoid_x) = {"aten::trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
                       "torch.trapezoid", BY_TRAPEZOIDS};
CFX_OP(trapezoid_dx) = {"aten::trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
                        "torch.trapezoid", BY_TRAPEZOIDS};
CFX_OP(trapz_x) = {"aten::trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", "torch.trapz",
                   BY_TRAPEZOIDS};
CFX_OP(trapz_dx) = {"aten::trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor", "torch.trapz",
                    BY_TRAPEZOIDS};
CFX_OP(cumulative_trapezoid_x) = {
    "aten::cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    "torch.cumulative_trapezoid", .decompose = decompose_cumulative, .effects = CFX_COMPOSITE};
CFX_OP(cumulative_trapezoid_dx) = {
    "aten::cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    "torch.cumulative_trapezoid", .decompose = decompose_cumulative, .effects = CFX_COMPOSITE};

/* ---- covariance ------------------------------------------------------------------------------ */

/* One weight for each of n observations, or none: counts are whole, others are not. */
static bool weights_fit(cfx_op_call *c, const cfx_tensor *w, const char *name, bool whole,
                        int64_t n) {
    if (w && w->ndim > 1)
        op_fail(c,
                "cov(): expected %s to have one or fewer dimensions but got %s with %d "
                "dimensions",
                name, name, w->ndim);
    else if (w && !(whole ? cfx__dtype_is_integral(w->dtype) : cfx__dtype_is_floating(w->dtype)))
        op_fail(c, "cov(): expected %s to have %s dtype but got %s with %s dtype", name,
                whole ? "integral" : "floating point", name, cfx__dtype_title(w->dtype));
    else if (w && w->numel != n)
        op_fail(c,
                "cov(): expected %s to have the same numel as there are observations in the "
                "input but got %lld != %lld",
                name, (long long)w->numel, (long long)n);
    for (int64_t i = 0; w && w->data && i < w->numel && !op_failed(); i++)
        if (cfx__tensor_number(w, i) < 0)
            op_fail(c, "cov(): %s cannot be negative", name);
    return !op_failed();
}

static void decompose_cov(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *times = arg_tensor(c, 2), *weight = arg_tensor(c, 3);
    if (x->ndim > 2) {
        op_fail(c,
                "cov(): expected input to have two or fewer dimensions but got an input with %d "
                "dimensions",
                x->ndim);
        return;
    }
    if (x->dtype == CFX_BOOL) {
        op_fail(c, "cov(): bool dtype is not supported for input");
        return;
    }
    cfx_tensor *rows = x->ndim < 2 ? cfx_view(x, cfx_list(1, -1)) : x, *w = NULL;
    if (op_failed() || !weights_fit(c, times, "fweights", true, rows->shape[1]) ||
        !weights_fit(c, weight, "aweights", false, rows->shape[1]))
        return;
    if (times || weight)
        w = times && weight ? cfx_mul(times, weight) : times ? times : weight;
    int64_t correction = arg_int(c, 1);
    cfx_tensor *total = w ? cfx_sum(w) : NULL, *divisor = NULL, *mean;
    if (w) {
        mean = cfx_div(cfx_sum(cfx_mul(rows, w), cfx_list(1)), total);
        cfx_tensor *lost = !correction ? NULL
                           : weight    ? cfx_div(cfx_sum(cfx_mul(w, weight)), total)
                                       : NULL;
        divisor = lost ? cfx_sub(total, cfx_mul(lost, correction)) : cfx_sub(total, correction);
    } else {
        bool whole = !cfx__dtype_is_float(rows->dtype) && !cfx__dtype_is_complex(rows->dtype);
        cfx_tensor *numbers = whole ? cfx_to(rows, cfx_f32) : rows;
        mean = cfx_div(cfx_sum(numbers, cfx_list(1)), rows->shape[1]);
    }
    cfx_tensor *apart = cfx_sub(rows, cfx_unsqueeze(mean, 1));
    cfx_tensor *other = w ? cfx_mul(apart, w) : apart;
    cfx_tensor *sums = cfx_mm(apart, cfx_conj(cfx_t(other)));
    int64_t left = 0;
    if (__builtin_sub_overflow(rows->shape[1], correction, &left))
        left = correction < 0 ? INT64_MAX : 0;
    sums = divisor ? cfx_div(sums, cfx_clamp_min(divisor, 0)) : cfx_div(sums, left > 0 ? left : 0);
    c->out[0] = cfx_squeeze(sums);
}

CFX_OP(cov) = {"aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, "
               "Tensor? aweights=None) -> Tensor",
               "torch.cov Tensor.cov", .decompose = decompose_cov, .effects = CFX_COMPOSITE};

static void decompose_corrcoef(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (x->ndim > 2) {
        op_fail(c,
                "corrcoef(): expected input to have two or fewer dimensions but got an input "
                "with %d dimensions",
                x->ndim);
        return;
    }
    cfx_tensor *cov = cfx_cov(x);
    if (cfx__obj_is_bad(cov))
        return;
    if (cov->ndim == 0) { /* one variable: it goes with itself, or is NaN */
        c->out[0] = cfx_div(cov, cov);
        return;
    }
    cfx_tensor *deviation = cfx_sqrt(cfx_diagonal(cov));
    c->out[0] = cfx_div(cfx_div(cov, cfx_view(deviation, cfx_list(-1, 1))),
                        cfx_view(deviation, cfx_list(1, -1)));
}

CFX_OP(corrcoef) = {"aten::corrcoef(Tensor self) -> Tensor", "torch.corrcoef Tensor.corrcoef",
                    .decompose = decompose_corrcoef, .effects = CFX_COMPOSITE};
