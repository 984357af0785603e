/* Gradients of reductions: what was one number for many goes to each of them. */
#include "../words.h"

#include <math.h>

/* g in the shape it has with the reduced dimensions kept as ones. `dims` are those given. */
static cfx_tensor *with_dims(cfx_tensor *g, const cfx_tensor *in, cfx_value dims, bool kept) {
    if (kept || in->ndim == 0)
        return g;
    int64_t shape[CFX_MAX_DIMS];
    bool all = cfx_is_none(dims) || (dims.tag == CFX_TAG_LIST && cfx_as_list(dims)->len == 0);
    for (int i = 0; i < in->ndim; i++)
        shape[i] = all ? 1 : in->shape[i];
    bool one = dims.tag == CFX_TAG_INT;
    int64_t n = all ? 0 : one ? 1 : cfx_as_list(dims)->len;
    for (int64_t i = 0; i < n; i++) {
        int64_t d = cfx_integer(one ? dims : cfx_as_list(dims)->items[i]);
        shape[d < 0 ? d + in->ndim : d] = 1;
    }
    return cfx_view(g, cfx_ints_value(in->ndim, shape));
}

static cfx_tensor *expanded(cfx_tensor *g, const cfx_tensor *in) {
    return cfx_expand(g, sizes_of(in));
}

BACK(sum, expanded(G, X(0)))
BACK(sum_dim, expanded(with_dims(G, X(0), A(1), cfx_integer(A(2))), X(0)))

/* How many numbers of the argument each result is made of. */
static double count_of(const cfx_tensor *in, const cfx_tensor *out) {
    double n = 1;
    for (int i = 0; i < in->ndim; i++)
        n *= (double)in->shape[i];
    for (int i = 0; i < out->ndim; i++)
        n /= (double)(out->shape[i] ? out->shape[i] : 1);
    return n;
}

BACK(mean, cfx_div(expanded(G, X(0)), count_of(X(0), Y(0))))
BACK(mean_dim, cfx_div(expanded(with_dims(G, X(0), A(1), back_bool(b, 2)), X(0)),
                       count_of(X(0), Y(0))))
BACK(nansum, cfx_mul(with_dims(G, X(0), A(1), back_bool(b, 2)),
                     cfx_logical_not(cfx_isnan(X(0)))))

/* ---- products -------------------------------------------------------------------------------- */

static bool any_zero(cfx_tensor *x) {
    if (x->head.flags & CFX__FAKE)
        return true;
    return x->numel && cfx__tensor_number(cfx_any(cfx_eq(cfx_detach(x), 0)), 0) != 0;
}

/* The product of all others along dim: of those before times those after. */
static cfx_tensor *others_along(cfx_tensor *x, int dim) {
    int64_t n = x->shape[dim];
    if (n == 1)
        return cfx_ones_like(cfx_detach(x));
    cfx_tensor *ones = cfx_ones_like(cfx_detach(cfx_narrow(x, dim, 0, 1)));
    cfx_tensor *before = cfx_cat(cfx_list(ones, cfx_narrow(x, dim, 0, n - 1)), dim);
    cfx_tensor *rest = cfx_flip(cfx_narrow(x, dim, 1, n - 1), cfx_list(dim));
    cfx_tensor *after = cfx_cumprod(cfx_cat(cfx_list(ones, rest), dim), dim);
    return cfx_mul(cfx_cumprod(before, dim), cfx_flip(after, cfx_list(dim)));
}

static cfx_tensor *back_prod(cfx_back *b) {
    cfx_tensor *x = X(0);
    if (!x->ndim || !x->numel)
        return x->ndim ? cfx_zeros_like(cfx_detach(x)) : G;
    if (!any_zero(x))
        return cfx_mul(G, conj_of(cfx_div(Y(0), x)));
    cfx_tensor *line = cfx_reshape(x, -1);
    return cfx_mul(G, cfx_reshape(conj_of(others_along(line, 0)), sizes_of(x)));
}
BACK(prod, back_prod(b))

static cfx_tensor *back_prod_dim(cfx_back *b) {
    cfx_tensor *x = X(0);
    if (!x->ndim || !x->numel)
        return x->ndim ? cfx_zeros_like(cfx_detach(x)) : G;
    int dim = back_dim(b, 1, x->ndim);
    cfx_tensor *g = with_dims(G, x, A(1), back_bool(b, 2));
    if (!any_zero(x))
        return cfx_mul(g, conj_of(cfx_div(with_dims(Y(0), x, A(1), back_bool(b, 2)), x)));
    return cfx_mul(g, conj_of(others_along(x, dim)));
}
BACK(prod_dim, back_prod_dim(b))

/* ---- the largest and the smallest ------------------------------------------------------------ */

/* Equal ones share what comes. */
static cfx_tensor *back_extreme(cfx_back *b, int out, cfx_value dims, bool kept) {
    cfx_tensor *x = X(0);
    if (!x->ndim)
        return b->gout[out];
    cfx_tensor *g = with_dims(b->gout[out], x, dims, kept);
    cfx_tensor *same = cfx_eq(x, with_dims(Y(out), x, dims, kept));
    bool all = cfx_is_none(dims) || (dims.tag == CFX_TAG_LIST && !cfx_as_list(dims)->len);
    cfx_tensor *count = all ? cfx_sum(same)
                            : cfx_sum(same, dims.tag == CFX_TAG_INT ? cfx_list(dims) : dims, true);
    return cfx_div(cfx_mul(g, same), count);
}
BACK(amax, back_extreme(b, 0, A(1), back_bool(b, 2)))
BACK(max, share_equals(G, X(0), Y(0)))
BACK(max_dim, G ? place_along(G, X(0), back_dim(b, 1, X(0)->ndim), Y(1), back_bool(b, 2)) : NULL)

static cfx_tensor *back_aminmax(cfx_back *b, cfx_value dim, bool kept) {
    cfx_tensor *low = b->gout[0] ? back_extreme(b, 0, dim, kept) : NULL;
    return plus(low, b->gout[1] ? back_extreme(b, 1, dim, kept) : NULL);
}
BACK(aminmax, back_aminmax(b, A(1), back_bool(b, 2)))

/* ---- spread ---------------------------------------------------------------------------------- */

/* What the four forms of var and std call their arguments: "self, unbiased", "self, dim, unbiased,
 * keepdim" and "self, dim, correction, keepdim". */
static void read_spread(const cfx_back *b, cfx_value *dims, double *correction, bool *kept) {
    *dims = b->nargs == 2 ? cfx_none() : b->args[1];
    cfx_value c = b->args[b->nargs == 2 ? 1 : 2];
    *correction = cfx_is_none(c) ? 1 : cfx_number(c);
    *kept = b->nargs > 2 && back_bool(b, 3);
}

static cfx_tensor *back_spread(cfx_back *b, cfx_tensor *g_var, cfx_tensor *g_mean) {
    cfx_value dims;
    double correction;
    bool kept;
    read_spread(b, &dims, &correction, &kept);
    cfx_tensor *x = X(0), *g = NULL;
    double n = count_of(x, Y(0)), left = n - correction > 0 ? n - correction : 0;
    if (g_var) {
        bool all = cfx_is_none(dims) || (dims.tag == CFX_TAG_LIST && !cfx_as_list(dims)->len);
        cfx_tensor *mean = all ? cfx_mean(x) : cfx_mean(x, dims, true);
        g = cfx_mul(cfx_mul(with_dims(g_var, x, dims, kept), 2 / left), cfx_sub(x, mean));
    }
    if (!g_mean)
        return g;
    return plus(g, cfx_div(expanded(with_dims(g_mean, x, dims, kept), x), n));
}

static cfx_tensor *var_from_std(cfx_back *b) {
    if (!G)
        return NULL;
    return cfx_masked_fill(cfx_div(G, cfx_mul(Y(0), 2)), cfx_eq(Y(0), 0), 0);
}

BACK(var, back_spread(b, G, NULL))
BACK(std, back_spread(b, var_from_std(b), NULL))
BACK(var_mean, back_spread(b, G, b->gout[1]))
BACK(std_mean, back_spread(b, var_from_std(b), b->gout[1]))

/* ---- norms ----------------------------------------------------------------------------------- */

/* g and norm have the reduced dimensions kept. */
static cfx_tensor *back_norm(cfx_tensor *g, cfx_tensor *x, double p, cfx_tensor *norm,
                             cfx_value dims) {
    cfx_tensor *none = cfx_eq(norm, 0);
    if (p == 0)
        return cfx_zeros_like(cfx_detach(x));
    if (p == 1)
        return cfx_mul(cfx_sgn(x), g);
    if (p == 2)
        return cfx_mul(g, cfx_masked_fill(cfx_div(x, norm), none, 0));
    if (isinf(p)) {
        cfx_tensor *size = cfx_abs(x);
        cfx_tensor *hit = cfx_logical_or(cfx_eq(size, norm), cfx_isnan(size));
        cfx_tensor *times = cfx_is_none(dims) ? cfx_sum(hit) : cfx_sum(hit, dims, true);
        return cfx_mul(cfx_sgn(x), cfx_mul(cfx_div(g, times), hit));
    }
    if (p < 1) {
        cfx_tensor *part = cfx_mul(cfx_sgn(x), cfx_pow(cfx_abs(x), p - 1));
        part = cfx_masked_fill(part, cfx_eq(x, 0), 0);
        return cfx_mul(cfx_mul(part, g), cfx_pow(norm, 1 - p));
    }
    cfx_tensor *part = p < 2 ? cfx_mul(cfx_sgn(x), cfx_pow(cfx_abs(x), p - 1))
                             : cfx_mul(x, cfx_pow(cfx_abs(x), p - 2));
    return cfx_mul(part, cfx_masked_fill(cfx_div(g, cfx_pow(norm, p - 1)), none, 0));
}

/* "self, p", "self, p, dim, keepdim", either with a dtype. */
static cfx_tensor *back_norm_of(cfx_back *b, bool by_dims) {
    double p = cfx_is_none(A(1)) ? 2 : back_float(b, 1);
    cfx_value dims = by_dims ? A(2) : cfx_none();
    if (dims.tag == CFX_TAG_LIST && !cfx_as_list(dims)->len)
        dims = cfx_none();
    bool kept = by_dims && back_bool(b, 3);
    cfx_tensor *x = cast_to(X(0), (cfx_dtype)Y(0)->dtype == cfx__dtype_real(X(0)->dtype)
                                      ? (cfx_dtype)X(0)->dtype
                                      : (cfx_dtype)Y(0)->dtype);
    return back_norm(with_dims(G, x, dims, kept), x, p, with_dims(Y(0), x, dims, kept), dims);
}
BACK(norm, back_norm_of(b, false))
BACK(norm_dim, back_norm_of(b, true))

/* Rows longer than the limit were scaled down to it. */
static cfx_tensor *back_renorm(cfx_back *b) {
    cfx_tensor *x = X(0);
    int dim = back_dim(b, 2, x->ndim);
    int64_t others[CFX_MAX_DIMS], n = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != dim)
            others[n++] = i;
    cfx_value dims = cfx_ints_value(n, others);
    double p = back_float(b, 1), limit = back_float(b, 3);
    cfx_tensor *norm = cfx_linalg_vector_norm(x, p, dims, true);
    cfx_tensor *along = cfx_sum(real_of(cfx_mul(conj_of(x), G)), dims, true);
    cfx_tensor *part = back_norm(along, x, p, norm, dims);
    cfx_tensor *over = cfx_reciprocal(cfx_add(norm, 1e-7));
    cfx_tensor *g = cfx_mul(cfx_mul(over, limit), cfx_sub(G, cfx_mul(over, part)));
    return cfx_where(cfx_gt(norm, limit), g, G);
}
BACK(renorm, back_renorm(b))

/* ---- exponentials that are summed ------------------------------------------------------------ */

static cfx_tensor *back_logsumexp(cfx_back *b) {
    cfx_tensor *x = X(0), *y = with_dims(Y(0), x, A(1), back_bool(b, 2));
    cfx_tensor *share = cfx_exp(cfx_sub(x, y));
    return cfx_mul(with_dims(G, x, A(1), back_bool(b, 2)), conj_of(share));
}
BACK(logsumexp, back_logsumexp(b))

static cfx_value dtype_of(const cfx_tensor *t) { return cfx_dtype_value((cfx_dtype)t->dtype); }

BACK(softmax, cfx_aten__softmax_backward_data(G, Y(0), A(1), dtype_of(X(0))))
BACK(log_softmax, cfx_aten__log_softmax_backward_data(G, Y(0), A(1), dtype_of(X(0))))

static cfx_tensor *sum_along(cfx_back *b, cfx_tensor *t) {
    return cfx_sum(t, cfx_list(A(2)), true);
}

void grad_softmax_backward(cfx_back *b) {
    cfx_tensor *g = cast_to(G, (cfx_dtype)X(1)->dtype);
    GIVE(0, cfx_aten__softmax_backward_data(g, X(1), A(2), A(3)));
    if (b->needs[1]) {
        cfx_tensor *a = cfx_mul(sum_along(b, cfx_mul(X(1), X(0))), g);
        cfx_tensor *c = cfx_mul(X(0), sum_along(b, cfx_mul(X(1), g)));
        GIVE(1, cfx_sub(cfx_sub(cfx_mul(X(0), g), a), c));
    }
}

void grad_log_softmax_backward(cfx_back *b) {
    cfx_tensor *g = cast_to(G, (cfx_dtype)X(1)->dtype), *share = cfx_exp(X(1));
    GIVE(0, cfx_sub(g, sum_along(b, cfx_mul(g, share))));
    GIVE(1, cfx_mul(cfx_mul(cfx_neg(sum_along(b, X(0))), share), g));
}
