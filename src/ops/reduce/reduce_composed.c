/* Reductions made of other operators: trace, nanmean, equal, allclose, diff, quantile. */
#include "../back.h"
#include "../sizes.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* ---- trace, nanmean -------------------------------------------------------------------------- */

static void decompose_trace(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (x->ndim != 2)
        op_fail(c, "trace: expected a matrix, but got tensor with dim %d", x->ndim);
    else
        c->out[0] = cfx_sum(cfx_diagonal(x));
}

CFX_OP(trace) = {"aten::trace(Tensor self) -> Tensor", "torch.trace Tensor.trace",
                 .decompose = decompose_trace, .core = core_trace, .autocast = CFX_CAST_F32,
                 .out = "out"};

static void decompose_nanmean(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (!cfx__dtype_is_float(x->dtype) && !cfx__dtype_is_complex(x->dtype)) {
        op_fail(c,
                "nanmean(): expected input to have floating point or complex dtype but got %s",
                cfx__dtype_title(x->dtype));
        return;
    }
    cfx_tensor *count = cfx_sum(cfx_logical_not(cfx_isnan(x)), c->args[1], c->args[2]);
    c->out[0] = cfx_div(cfx_nansum(x, c->args[1], c->args[2], CFX_KW(dtype, c->args[3])), count);
}

CFX_OP(nanmean) = {"aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, "
                   "ScalarType? dtype=None) -> Tensor",
                   "torch.nanmean Tensor.nanmean", .decompose = decompose_nanmean,
                   .effects = CFX_COMPOSITE, .out = "out"};

/* ---- questions with one answer --------------------------------------------------------------- */

/* The bool that a 0-dim tensor holds. */
static void answer(cfx_op_call *c, const cfx_tensor *t) {
    if (!op_failed())
        c->result = cfx_bool(*(const uint8_t *)t->data != 0);
}

static void kernel_equal(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (!cfx__tensor_same_shape(a, b))
        c->result = cfx_bool(false);
    else
        answer(c, cfx_all(cfx_eq(a, b)));
}

CFX_OP(equal) = {"aten::equal(Tensor self, Tensor other) -> bool", "torch.equal Tensor.equal",
                 .kernel = kernel_equal, .effects = CFX_DATA_SHAPE};

static void kernel_allclose(cfx_op_call *c) {
    answer(c, cfx_all(cfx_isclose(c->args[0], c->args[1], c->args[2], c->args[3], c->args[4])));
}

CFX_OP(allclose) = {"aten::allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, "
                    "float atol=1e-08, bool equal_nan=False) -> bool",
                    "torch.allclose Tensor.allclose", .kernel = kernel_allclose,
                    .effects = CFX_DATA_SHAPE};

static void decompose_is_all_true(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (x->dtype != CFX_BOOL)
        op_fail(c, "Expected a bool tensor, but got %s", cfx__dtype_title(x->dtype));
    else
        c->out[0] = c->op->row ? cfx_all(x) : cfx_any(x);
}

CFX_OP(_is_all_true) = {"aten::_is_all_true(Tensor self) -> Tensor", "torch._is_all_true",
                        .decompose = decompose_is_all_true, .row = ""};
CFX_OP(_is_any_true) = {"aten::_is_any_true(Tensor self) -> Tensor", "torch._is_any_true",
                        .decompose = decompose_is_all_true};

/* ---- diff ------------------------------------------------------------------------------------ */

/* What is joined to an end must agree in all other dims. */
static bool joins(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *t, int dim) {
    if (!t || t->ndim == 0)
        return true;
    if (t->ndim != x->ndim) {
        op_fail(c, "diff expects prepend or append to be the same dimension as input");
        return false;
    }
    for (int d = 0; d < x->ndim; d++)
        if (d != dim && t->shape[d] != x->shape[d]) {
            op_fail(c,
                    "diff expects the shape of tensor to prepend or append to match that of input "
                    "except along the differencing dimension; input.size(%d) = %lld, but got "
                    "tensor.size(%d) = %lld",
                    d, (long long)x->shape[d], d, (long long)t->shape[d]);
            return false;
        }
    return true;
}

static void decompose_diff(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *ends[2] = {arg_tensor(c, 3), arg_tensor(c, 4)};
    int64_t n = arg_int(c, 1);
    if (x->ndim < 1) {
        op_fail(c, "diff expects input to be at least one-dimensional");
        return;
    }
    if (n < 0) {
        op_fail(c, "order must be non-negative but got %lld", (long long)n);
        return;
    }
    int dim = arg_dim(c, 2, x->ndim);
    if (dim < 0 || !joins(c, x, ends[0], dim) || !joins(c, x, ends[1], dim))
        return;
    if (n == 0) {
        c->out[0] = cfx_clone(x);
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (!ends[i])
            continue;
        if (ends[i]->ndim == 0) {
            int64_t shape[CFX_MAX_DIMS];
            for (int d = 0; d < x->ndim; d++)
                shape[d] = d == dim ? 1 : x->shape[d];
            ends[i] = cfx_expand(ends[i], cfx_ints_value(x->ndim, shape));
        }
        x = cfx_cat(i ? cfx_list(x, ends[i]) : cfx_list(ends[i], x), c->args[2]);
    }
    for (cfx_value rest = cfx_int(x->shape[dim]); n > 0 && !op_failed(); n--) {
        size_t mark = cfx_scope_open();
        bool some = x->shape[dim] > 0;
        rest = some ? size_minus(rest, 1) : cfx_int(0);
        cfx_tensor *low = cfx_narrow(x, c->args[2], 0, rest);
        cfx_tensor *high = cfx_narrow(x, c->args[2], some ? 1 : 0, rest);
        x = x->dtype == CFX_BOOL ? cfx_logical_xor(high, low) : cfx_sub(high, low);
        x = cfx_scope_return(mark, x);
        if (cfx_integer(rest) == 0)
            break;
    }
    c->out[0] = x;
}

/* Summed over what is not in the sizes, or is 1 there. */
static void decompose_sum_to_size(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    int64_t sizes[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, sizes);
    bool fits = n <= x->ndim;
    for (int i = 0; i < n && fits; i++)
        fits = sizes[i] == 1 || sizes[i] == x->shape[x->ndim - n + i];
    if (op_failed())
        return;
    if (fits && n == 0)
        c->out[0] = cfx_sum(x); /* integers become int64 even where there is one */
    else if (fits)
        c->out[0] = cfx_view(sum_to(x, n, sizes), c->args[1]);
    else
        op_fail(c, "size {%s} is not expandable to size {%s}.", cfx__shape_text(n, sizes),
                cfx__shape_text(x->ndim, x->shape));
}

CFX_OP(sum_to_size) = {"aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor",
                       "Tensor.sum_to_size", .decompose = decompose_sum_to_size,
                       .effects = CFX_COMPOSITE | CFX_SHARES};
CFX_OP(diff) = {"aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? "
                "append=None) -> Tensor",
                "torch.diff Tensor.diff", .decompose = decompose_diff, .effects = CFX_COMPOSITE,
                .out = "out"};

/* ---- quantile -------------------------------------------------------------------------------- */

typedef enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST } between;

/* Whether all of q lie in [0, 1]; where there are no numbers to look at, a program will. */
static bool quantiles_fit(cfx_op_call *c, const char *name, const cfx_tensor *q) {
    const char *why = cfx__text_format("%s() q values must be in the range [0, 1]", name);
    if (q->data)
        for (int64_t i = 0; !op_failed() && i < q->numel; i++) {
            double v = cfx__tensor_number(q, i);
            if (!(v >= 0 && v <= 1))
                op_fail(c, "%s", why);
        }
    else
        cfx_aten__assert_async(cfx_all(cfx_logical_and(cfx_ge(q, 0), cfx_le(q, 1))), why);
    return !op_failed();
}

static bool quantile_check(cfx_op_call *c, const char *name, const cfx_tensor *x,
                           const cfx_tensor *q, between *how) {
    static const char *const names[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    const char *text = arg_text(c, 4);
    *how = LINEAR;
    while (*how < COUNT(names) && strcmp(text, names[*how]))
        (*how)++;
    if (x->numel == 0)
        op_fail(c, "%s() input tensor must be non-empty", name);
    else if (q->ndim > 1)
        op_fail(c, "%s() q must be a scalar or 1D tensor", name);
    else if (x->dtype != CFX_F32 && x->dtype != CFX_F64)
        op_fail(c, "quantile() input tensor must be either float or double dtype");
    else if (q->dtype != x->dtype)
        op_fail(c, "%s() q tensor must be same dtype as the input tensor", name);
    else if (*how == COUNT(names))
        op_fail(c,
                "%s() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
                "got %s",
                name, text);
    return !op_failed() && (!arg_tensor(c, 1) || quantiles_fit(c, name, q));
}

/* Ranks, fractions of them included, at which the quantiles stand in the sorted lines. */
static cfx_tensor *quantile_ranks(cfx_tensor *sorted, cfx_tensor *q, bool ignore_nan) {
    if (ignore_nan) {
        cfx_tensor *numbers =
            cfx_sum(cfx_logical_not(cfx_isnan(sorted)), cfx_list(-1), cfx_bool(true));
        cfx_tensor *ranks = cfx_mul(q, cfx_sub(numbers, 1));
        return cfx_masked_fill(ranks, cfx_lt(ranks, 0), 0);
    }
    int64_t last = cfx__obj_is_bad(sorted) ? 0 : sorted->shape[sorted->ndim - 1] - 1;
    cfx_tensor *bad = cfx_any(cfx_isnan(sorted), -1, cfx_bool(true));
    return cfx_where(bad, (double)last, cfx_mul(q, last));
}

static void decompose_quantile(cfx_op_call *c) {
    bool ignore_nan = c->op->row != NULL;
    const char *name = ignore_nan ? "nanquantile" : "quantile";
    cfx_tensor *x = arg_tensor(c, 0), *q = arg_tensor(c, 1), *sorted;
    between how;
    int64_t shape[CFX_MAX_DIMS + 2];
    int n = 0, dim = -1;
    if (!q) {
        double v = arg_float(c, 1);
        if (!(v >= 0 && v <= 1)) {
            op_fail(c, "%s() q must be in the range [0, 1] but got %g", name, v);
            return;
        }
        cfx_dtype dtype = x->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
        q = cfx_scalar_tensor(v, CFX_KW(dtype, cfx_dtype_value(dtype)));
    }
    if (!arg_is_none(c, 2)) {
        dim = arg_dim(c, 2, x->ndim);
        if (dim < 0)
            return;
    }
    if (!quantile_check(c, name, x, q, &how))
        return;
    bool flat = dim < 0 || x->ndim == 0, keepdim = arg_bool(c, 3);
    for (int d = 0; d < x->ndim; d++)
        if (!flat && d != dim)
            shape[n++] = x->shape[d];
        else if (keepdim)
            shape[n++] = 1;
    if (flat)
        sorted = cfx_tensor_at(cfx_sort(cfx_flatten(x)), 0);
    else if (dim == x->ndim - 1)
        sorted = cfx_tensor_at(cfx_sort(x), 0);
    else
        sorted = cfx_tensor_at(cfx_sort(cfx_transpose(cfx_unsqueeze(x, -1), dim, -1)), 0);
    shape[n++] = flat ? x->numel : x->shape[dim];
    if (shape[n - 1] > 1 << 24) {
        op_fail_large(c, "%s() input tensor is too large", name);
        return;
    }
    sorted = cfx_reshape(sorted, cfx_ints_value(n, shape));
    cfx_tensor *q1 = q->ndim ? q : cfx_reshape(q, cfx_list(1));
    cfx_tensor *ranks = quantile_ranks(sorted, q1, ignore_nan);
    if (how == LOWER)
        ranks = cfx_floor(ranks);
    else if (how == HIGHER || how == NEAREST)
        ranks = how == HIGHER ? cfx_ceil(ranks) : cfx_round(ranks);
    cfx_tensor *below = cfx_to(ranks, cfx_i64), *values = cfx_gather(sorted, -1, below);
    if (how == LINEAR || how == MIDPOINT) {
        cfx_tensor *weight = how == MIDPOINT ? cfx_full_like(ranks, 0.5) : cfx_sub(ranks, below);
        cfx_tensor *above = cfx_gather(sorted, -1, cfx_to(cfx_ceil(ranks), cfx_i64));
        values = cfx_lerp(values, above, weight);
    }
    if (q->ndim == 0)
        c->out[0] = cfx_squeeze(values, -1);
    else
        c->out[0] = cfx_squeeze(cfx_transpose(cfx_unsqueeze(values, 0), 0, -1), -1);
}

#define QUANTILE(nan) .decompose = decompose_quantile, .row = nan, .effects = CFX_COMPOSITE

CFX_OP(quantile) = {"aten::quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, "
                    "str interpolation=\"linear\") -> Tensor",
                    "torch.quantile Tensor.quantile", QUANTILE(NULL), .autocast = CFX_CAST_F32,
                    .out = "out"};
CFX_OP(quantile_scalar) = {"aten::quantile.scalar(Tensor self, float q, int? dim=None, bool "
                           "keepdim=False, *, str interpolation=\"linear\") -> Tensor",
                           QUANTILE(NULL), .autocast = CFX_CAST_F32, .out = "scalar_out"};
CFX_OP(nanquantile) = {"aten::nanquantile(Tensor self, Tensor q, int? dim=None, bool "
                       "keepdim=False, *, str interpolation=\"linear\") -> Tensor",
                       "torch.nanquantile Tensor.nanquantile", QUANTILE("nan"),
                       .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(nanquantile_scalar) = {"aten::nanquantile.scalar(Tensor self, float q, int? dim=None, bool "
                              "keepdim=False, *, str interpolation=\"linear\") -> Tensor",
                              QUANTILE("nan"), .autocast = CFX_CAST_F32, .out = "scalar_out"};
