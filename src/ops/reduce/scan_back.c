/* Gradients of running sums and products: the same, run backwards. */
#include "../words.h"

#include <math.h>

static cfx_tensor *from_end(cfx_tensor *t, int dim) {
    cfx_value dims = cfx_list(dim);
    return cfx_flip(cfx_cumsum(cfx_flip(t, dims), dim), dims);
}

BACK(cumsum, X(0)->ndim ? from_end(G, back_dim(b, 1, X(0)->ndim)) : G)

/* Where a factor is 0 the quotient of products says nothing; each factor is left out in turn. */
static cfx_tensor *leave_out(cfx_tensor *g, cfx_tensor *x, int dim) {
    int64_t n = x->shape[dim];
    cfx_value parts = cfx_list_value(0, NULL);
    cfx_tensor *ones = cfx_ones_like(cfx_detach(cfx_narrow(x, dim, 0, 1))), *before = ones;
    for (int64_t k = 0; k < n; k++) {
        cfx_tensor *after = ones;
        if (k + 1 < n) {
            cfx_tensor *rest = cfx_cumprod(cfx_narrow(x, dim, k + 1, n - k - 1), dim);
            after = cfx_cat(cfx_list(ones, rest), dim);
        }
        cfx_tensor *others = conj_of(cfx_mul(before, after));
        cfx_tensor *part = cfx_mul(cfx_narrow(g, dim, k, n - k), others);
        cfx_list_append(cfx_as_list(parts), CFX_V(cfx_sum(part, cfx_list(dim), true)));
        before = cfx_mul(before, cfx_narrow(x, dim, k, 1));
    }
    return cfx_cat(parts, dim);
}

static cfx_tensor *back_cumprod(cfx_back *b) {
    cfx_tensor *x = cast_to(X(0), (cfx_dtype)G->dtype);
    if (!x->ndim || !x->numel)
        return G;
    int dim = back_dim(b, 1, x->ndim);
    bool zeros = (x->head.flags & CFX__FAKE) ||
                 cfx__tensor_number(cfx_any(cfx_eq(cfx_detach(x), 0)), 0) != 0;
    if (zeros)
        return leave_out(G, x, dim);
    return cfx_div(from_end(cfx_mul(G, conj_of(Y(0))), dim), conj_of(x));
}
BACK(cumprod, back_cumprod(b))

static void decompose_cumprod_backward(cfx_op_call *c) {
    cfx_value args[] = {c->args[1], c->args[2], CFX_NONE}, gin[COUNT(args)];
    back_apply(c, &cfx_op_cumprod, args, 1, (cfx_tensor *[]){arg_tensor(c, 3)},
               (cfx_tensor *[]){arg_tensor(c, 0)}, 1, gin);
    c->out[0] = tensor_of(gin[0]);
}

CFX_OP(cumprod_backward) = {
    "aten::cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor", NULL,
    .decompose = decompose_cumprod_backward, .effects = CFX_COMPOSITE | CFX_SHARES};

/* In logarithms throughout, positive and negative parts apart, so that nothing overflows. */
static cfx_tensor *part_of(cfx_back *b, cfx_tensor *size, cfx_tensor *mine, int dim) {
    cfx_value dims = cfx_list(dim);
    cfx_tensor *logs = cfx_where(mine, cfx_log(size), -INFINITY);
    cfx_tensor *back = cfx_flip(cfx_sub(logs, Y(0)), dims);
    return cfx_exp(cfx_add(cfx_flip(cfx_logcumsumexp(back, dim), dims), X(0)));
}

/* The same in small operators, which have gradients in turn: the share that element i has in sum j
 * is exp(x_i - y_j), from i on. */
static cfx_tensor *shares_of(cfx_back *b, int dim) {
    cfx_tensor *x = cfx_transpose(X(0), dim, -1), *y = cfx_transpose(Y(0), dim, -1);
    int64_t n = X(0)->shape[dim];
    cfx_tensor *later = cfx_tril(cfx_ones(cfx_list(n, n), CFX_KW(dtype, cfx_b8)), -1);
    cfx_tensor *logs = cfx_sub(cfx_unsqueeze(x, -1), cfx_unsqueeze(y, -2));
    cfx_tensor *shares = conj_of(cfx_masked_fill(cfx_exp(logs), later, 0));
    cfx_tensor *g = cfx_unsqueeze(cfx_transpose(G, dim, -1), -1);
    return cfx_transpose(cfx_squeeze(cfx_matmul(shares, g), -1), dim, -1);
}

static cfx_tensor *back_logcumsumexp(cfx_back *b) {
    if (!X(0)->ndim || !X(0)->numel)
        return G;
    int dim = back_dim(b, 1, X(0)->ndim);
    if (back_recorded() || cfx__dtype_is_complex(X(0)->dtype))
        return shares_of(b, dim);
    cfx_tensor *size = cfx_abs(G);
    return cfx_sub(part_of(b, size, cfx_gt(G, 0), dim), part_of(b, size, cfx_lt(G, 0), dim));
}
BACK(logcumsumexp, back_logcumsumexp(b))
