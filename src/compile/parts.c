/* Decomposes operators without a form in C into operators that have one, where their decomposition
 * columns do not. Start at the table; ready.c uses it. */
#include <math.h>

#include <cfx/ops.h>

#include "compile.h"
#include "parts.h"

static cfx_tensor *nth(cfx_value several, int64_t i) { return cfx_as_tensor(cfx_at(several, i)); }

/* median(self), nanmedian(self): of all as one row. */
static void median(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *row = cfx_reshape(x, cfx_list(-1));
    c->out[0] = !x->numel ? cfx_full_like(cfx_sum(x), NAN)
                : c->op == &cfx_op_median ? nth(cfx_median_dim(row, 0), 0)
                                          : nth(cfx_nanmedian_dim(row, 0), 0);
}

/* ---- sums ------------------------------------------------------------------------------------ */

cfx_value cfx__c_dims_but(const cfx_tensor *x, int but) {
    cfx_value dims = cfx_list_value(0, NULL);
    for (int i = 0; i < x->ndim; i++)
        if (i != but)
            cfx_list_append(cfx_as_list(dims), cfx_int(i));
    return dims;
}

/* var_mean.correction(self, dim, *, correction, keepdim), std_mean.correction */
static void var_mean(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    const bool root = c->op == &cfx_op_std_mean_correction;
    const cfx_value dims = arg_count(c, 1) ? c->args[1] : cfx__c_dims_but(x, -1);
    const cfx_value keep = cfx_bool(arg_bool(c, 3));
    c->out[0] = root ? cfx_std(x, dims, CFX_KW(correction, c->args[2]), CFX_KW(keepdim, keep))
                     : cfx_var(x, dims, CFX_KW(correction, c->args[2]), CFX_KW(keepdim, keep));
    c->out[1] = cfx_mean(x, dims, keep);
}

/* beta * self + alpha * product, where these are the arguments 3 and 4: integers among integers. */
static void give_sum(cfx_op_call *c, cfx_tensor *product) {
    const bool whole = !cfx__dtype_is_float((cfx_dtype)product->dtype);
    const cfx_value beta = whole ? cfx_int((int64_t)arg_float(c, 3)) : c->args[3];
    const cfx_value alpha = whole ? cfx_int((int64_t)arg_float(c, 4)) : c->args[4];
    product = cfx_mul(product, alpha);
    c->out[0] = cfx_number(beta) == 0 ? product
                                      : cfx_add(cfx_mul(arg_tensor(c, 0), beta), product);
}

/* addbmm(self, batch1, batch2, *, beta, alpha) */
static void addbmm(cfx_op_call *c) {
    give_sum(c, cfx_sum(cfx_bmm(arg_tensor(c, 1), arg_tensor(c, 2)), cfx_list(0)));
}

/* _cdist_forward(x1, x2, p, compute_mode) */
static void cdist(cfx_op_call *c) {
    cfx_tensor *apart =
        cfx_sub(cfx_unsqueeze(arg_tensor(c, 0), -2), cfx_unsqueeze(arg_tensor(c, 1), -3));
    c->out[0] = cfx_linalg_vector_norm(apart, c->args[2], cfx_list(-1));
}

/* addmv(self, mat, vec, *, beta, alpha) */
static void addmv(cfx_op_call *c) { give_sum(c, cfx_mv(arg_tensor(c, 1), arg_tensor(c, 2))); }

/* upsample_bicubic2d(self, output_size, align_corners, scales...), upsample_trilinear3d: where
 * sizes are given alone, or follow from the factors. */
static void resample(cfx_op_call *c) {
    cfx_op *op = c->op == &cfx_op_upsample_bicubic2d ? &cfx_op_upsample_bicubic2d_vec
                                                     : &cfx_op_upsample_trilinear3d_vec;
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_value size = c->args[1], factors = cfx_list_value(0, NULL);
    bool fits = true; /* sizes follow from factors, which then say all */
    for (int i = 3; i < c->nargs; i++) {
        const int64_t whole =
            arg_is_none(c, i) ? -1 : (int64_t)((double)x->shape[i - 1] * arg_float(c, i));
        fits = fits && whole == cfx_integer(cfx_at(size, i - 3));
        cfx_list_append(cfx_as_list(factors), c->args[i]);
    }
    for (int i = 3; i < c->nargs && !fits; i++)
        if (!arg_is_none(c, i))
            op_fail(c, "%s by factors beside other sizes has no form in C", cfx_op_name(c->op));
    const cfx_value out =
        cfx_op_do_from(c->at, op, CFX_ARGS(arg_tensor(c, 0), fits ? cfx_none() : size, c->args[2],
                                           fits ? factors : cfx_none()));
    c->out[0] = cfx_as_tensor(out);
}

/* What each of n points of a line takes of `from` points, [n, from]: a triangle, or a cubic, over
 * the points that it stands for. */
static cfx_tensor *antialiased(int64_t from, int64_t n, double scale, bool cubic) {
    const double a = -0.5, wide = scale > 1 ? scale : 1;
    const cfx_value f64 = CFX_KW(dtype, cfx_dtype_value(CFX_F64));
    cfx_tensor *centre = cfx_unsqueeze(cfx_mul(cfx_add(cfx_arange(n, f64), 0.5), scale), 1);
    cfx_tensor *x = cfx_abs(cfx_div(cfx_sub(cfx_add(cfx_arange(from, f64), 0.5), centre), wide));
    cfx_tensor *w = cfx_relu(cfx_rsub(x, 1));
    if (cubic) {
        cfx_tensor *square = cfx_mul(x, x), *zero = cfx_zeros_like(x);
        cfx_tensor *near = cfx_add(cfx_mul(square, cfx_sub(cfx_mul(x, a + 2), a + 3)), 1);
        cfx_tensor *far = cfx_sub(cfx_mul(x, cfx_add(cfx_mul(x, cfx_sub(x, 5)), 8)), 4);
        w = cfx_where(cfx_lt(x, 1), near, cfx_where(cfx_lt(x, 2), cfx_mul(far, a), zero));
    }
    return cfx_div(w, cfx_sum(w, cfx_list(1), true));
}

/* _upsample_bilinear2d_aa(self, output_size, align_corners, scales_h, scales_w), and bicubic: a
 * product for each direction */
static void resample_aa(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *w[2];
    if (!cfx__dtype_is_float(x->dtype))
        return;
    for (int i = 0; i < 2; i++) {
        const int64_t from = x->shape[2 + i], n = cfx_integer(cfx_at(c->args[1], i));
        const bool factor = !arg_is_none(c, 3 + i) && arg_float(c, 3 + i) > 0;
        const double spaces = n > 1 ? (double)(from - 1) / (double)(n - 1) : 0;
        const double scale = arg_bool(c, 2) ? spaces
                             : factor       ? 1 / arg_float(c, 3 + i)
                                            : (double)from / (double)n;
        w[i] = cfx_to(antialiased(from, n, scale, c->op == &cfx_op__upsample_bicubic2d_aa),
                      cfx_dtype_value(x->dtype));
    }
    c->out[0] = cfx_matmul(w[0], cfx_matmul(x, cfx_t(w[1])));
}

/* ---- looks that are copied ------------------------------------------------------------------- */

/* view_copy(self, size) is a copy of view(self, size), and so on. */
static void copied_look(cfx_op_call *c) {
    const char *name = cfx_op_name(c->op), *end = strstr(name, "_copy");
    cfx_op *look = cfx_op_find(cfx__text_format("%.*s%s", (int)(end - name), name, end + 5));
    const cfx_value v =
        look ? cfx_op_do_from(c->at, look, (cfx_args){c->nargs, c->args, NULL}) : cfx_bad();
    const cfx_list *several = cfx__c_several(v);
    if (several)
        c->result = cfx_list_value(0, NULL);
    for (int i = 0; several && i < several->len; i++)
        cfx_list_append(cfx_as_list(c->result),
                        cfx_tensor_value(cfx_clone(cfx_as_tensor(several->items[i]))));
    if (v.tag == CFX_TAG_TENSOR)
        c->out[0] = cfx_clone(cfx_as_tensor(v));
}

/* ---- picking and putting --------------------------------------------------------------------- */

static cfx_tensor *flat(cfx_tensor *x) { return cfx_reshape(x, cfx_list(-1)); }

/* x with those elements replaced whose numbers are in `at`, by those of src. */
static cfx_tensor *replaced(cfx_tensor *x, cfx_tensor *at, cfx_tensor *src) {
    return cfx_reshape_as(cfx_index_put(flat(x), cfx_list(flat(at)), flat(src)), x);
}

/* The numbers of the elements of x, in its shape. */
static cfx_tensor *numbers_of(cfx_tensor *x) {
    return cfx_reshape_as(cfx_arange(x->numel, CFX_KW(dtype, cfx_dtype_value(CFX_I64))), x);
}

/* diagonal_scatter(self, src, offset, dim1, dim2) */
static void diagonal_scatter(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *at = cfx_diagonal(numbers_of(x), c->args[2], c->args[3], c->args[4]);
    c->out[0] = replaced(x, at, arg_tensor(c, 1));
}

/* as_strided_scatter(self, src, size, stride, storage_offset) of a tensor without gaps */
static void as_strided_scatter(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    const int ndim = (int)arg_count(c, 2);
    cfx_tensor *at =
        cfx_full(cfx_list_value(0, NULL), cfx_is_number(c->args[4]) ? cfx_integer(c->args[4]) : 0,
                 CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    if (x->offset || !cfx__tensor_is_contiguous(x))
        op_fail(c, "as_strided_scatter of a tensor with gaps has no form in C");
    for (int i = 0; i < ndim; i++) {
        const int64_t n = cfx_integer(cfx_as_list(c->args[2])->items[i]);
        cfx_tensor *along = cfx_mul(cfx_arange(n, CFX_KW(dtype, cfx_dtype_value(CFX_I64))),
                                    cfx_as_list(c->args[3])->items[i]);
        at = cfx_add(cfx_unsqueeze(at, -1), along);
    }
    c->out[0] = replaced(x, at, arg_tensor(c, 1));
}

/* max_pool2d_with_indices_backward(grad_output, self, ..., indices): gradients go where the largest
 * numbers were. */
static void max_pool_backward(cfx_op_call *c) {
    cfx_tensor *grad = arg_tensor(c, 0), *x = arg_tensor(c, 1), *index = arg_tensor(c, 7);
    const int nd = c->op == &cfx_op_max_pool2d_with_indices_backward ? 2 : 3;
    int64_t points = 1, images = 1;
    for (int i = 0; i < x->ndim; i++)
        *(i < x->ndim - nd ? &images : &points) *= x->shape[i];
    cfx_tensor *none = cfx_zeros_like(cfx_reshape(x, cfx_list(images, points)));
    const int64_t n = images ? grad->numel / images : 0;
    c->out[0] = cfx_reshape_as(cfx_scatter_add(none, 1, cfx_reshape(index, cfx_list(images, n)),
                                               cfx_reshape(grad, cfx_list(images, n))),
                               x);
}

/* _softmax_backward_data(grad_output, output, dim, input_dtype) */
static void softmax_backward(cfx_op_call *c) {
    cfx_tensor *y = arg_tensor(c, 1), *product = cfx_mul(arg_tensor(c, 0), y);
    cfx_tensor *sum = cfx_sum(product, cfx_list(c->args[2]), true);
    c->out[0] = cfx_to(cfx_sub(product, cfx_mul(y, sum)), c->args[3]);
}

/* Halves as float32, in which PyTorch computes gradients of them. */
static cfx_tensor *wide(cfx_tensor *t) {
    return cfx_dtype_size((cfx_dtype)t->dtype) == 2 ? cfx_to(t, cfx_dtype_value(CFX_F32)) : t;
}

static cfx_tensor *like_arg(const cfx_op_call *c, int arg, cfx_tensor *t) {
    return cfx_to(t, cfx_dtype_value((cfx_dtype)arg_tensor(c, arg)->dtype));
}

/* _log_softmax_backward_data(grad_output, output, dim, input_dtype) */
static void log_softmax_backward(cfx_op_call *c) {
    cfx_tensor *g = wide(arg_tensor(c, 0)), *y = wide(arg_tensor(c, 1));
    cfx_tensor *sum = cfx_sum(g, cfx_list(c->args[2]), true);
    c->out[0] = cfx_to(cfx_sub(g, cfx_mul(cfx_exp(y), sum)), c->args[3]);
}

/* gelu_backward(grad_output, self, *, approximate) */
static void gelu_backward(cfx_op_call *c) {
    cfx_tensor *g = wide(arg_tensor(c, 0)), *x = wide(arg_tensor(c, 1)), *square = cfx_mul(x, x);
    cfx_tensor *slope;
    if (strcmp(cfx_text(c->args[2]), "tanh")) {
        cfx_tensor *share = cfx_mul(cfx_add(cfx_erf(cfx_mul(x, M_SQRT1_2)), 1), 0.5);
        cfx_tensor *density = cfx_mul(cfx_exp(cfx_mul(square, -0.5)), 0.5 * M_2_SQRTPI * M_SQRT1_2);
        slope = cfx_add(share, cfx_mul(x, density));
    } else {
        const double by = M_SQRT2 * M_2_SQRTPI * 0.5, cubic = 0.044715;
        cfx_tensor *inner = cfx_mul(cfx_add(x, cfx_mul(cfx_mul(square, x), cubic)), by);
        cfx_tensor *t = cfx_tanh(inner), *half = cfx_mul(x, 0.5);
        cfx_tensor *back = cfx_mul(cfx_add(cfx_mul(square, 3 * cubic), 1), by);
        cfx_tensor *rest = cfx_mul(cfx_mul(half, cfx_rsub(cfx_mul(t, t), 1)), back);
        slope = cfx_add(cfx_mul(cfx_add(t, 1), 0.5), rest);
    }
    c->out[0] = like_arg(c, 1, cfx_mul(g, slope));
}

/* native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
 * output_mask) */
static void layer_norm_backward(cfx_op_call *c) {
    cfx_tensor *g = wide(arg_tensor(c, 0)), *x = wide(arg_tensor(c, 1));
    cfx_tensor *rstd = arg_tensor(c, 4), *w = arg_tensor(c, 5);
    const int outer = x->ndim - (int)arg_count(c, 2);
    cfx_value rows = cfx_list_value(0, NULL), row = cfx_list_value(0, NULL);
    double n = 1;
    for (int i = 0; i < x->ndim; i++) {
        cfx_list_append(cfx_as_list(i < outer ? rows : row), cfx_int(i));
        n *= i < outer ? 1 : (double)x->shape[i];
    }
    cfx_tensor *unit = cfx_mul(cfx_sub(x, arg_tensor(c, 3)), rstd);
    if (cfx_is_true(cfx_at(c->args[7], 0))) {
        cfx_tensor *scaled = w ? cfx_mul(g, wide(w)) : g;
        cfx_tensor *shift = cfx_sum(scaled, row, true);
        cfx_tensor *turn = cfx_mul(unit, cfx_sum(cfx_mul(scaled, unit), row, true));
        cfx_tensor *all = cfx_sub(cfx_sub(cfx_mul(scaled, n), shift), turn);
        c->out[0] = like_arg(c, 1, cfx_mul(cfx_div(rstd, n), all));
    }
    for (int i = 1; i < 3; i++) { /* of the weight, and of the bias */
        if (!cfx_is_true(cfx_at(c->args[7], i)) || !arg_tensor(c, 4 + i))
            continue;
        cfx_tensor *of = i == 1 ? cfx_mul(g, unit) : g;
        c->out[i] = like_arg(c, 4 + i, outer ? cfx_sum(of, rows) : of);
    }
}

/* nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight) */
static void nll_loss_backward(cfx_op_call *c) {
    enum { MEAN = 1 };
    cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *w = arg_tensor(c, 3);
    const int classes = x->ndim < 2 ? 0 : 1;
    cfx_tensor *target = cfx_unsqueeze(arg_tensor(c, 2), classes);
    cfx_tensor *kept = cfx_ne(target, c->args[5]);
    cfx_tensor *at = cfx_where(kept, target, cfx_zeros_like(target));
    cfx_tensor *by = cfx_scatter(cfx_zeros_like(x), classes, at, -1.0);
    if (arg_int(c, 4) == MEAN)
        g = cfx_div(g, arg_tensor(c, 6));
    if (g->ndim && g->ndim < x->ndim)
        g = cfx_unsqueeze(g, classes);
    by = w ? cfx_mul(by, w) : by;
    c->out[0] = cfx_mul(by, cfx_where(kept, g, cfx_zeros_like(g)));
}

/* embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
static void embedding_backward(cfx_op_call *c) {
    cfx_tensor *g = arg_tensor(c, 0), *at = flat(arg_tensor(c, 1));
    const int64_t width = g->ndim ? g->shape[g->ndim - 1] : 1;
    cfx_tensor *rows = cfx_reshape(wide(g), cfx_list(at->numel, width));
    if (arg_bool(c, 4)) {
        cfx_tensor *count = cfx_new_zeros(rows, cfx_list(c->args[2]));
        count = cfx_index_put(count, cfx_list(at), cfx_new_ones(rows, cfx_list(at->numel)), true);
        rows = cfx_div(rows, cfx_unsqueeze(cfx_index_select(count, 0, at), 1));
    }
    cfx_tensor *padding = cfx_unsqueeze(cfx_eq(at, c->args[3]), 1);
    rows = cfx_where(padding, cfx_zeros_like(rows), rows);
    cfx_tensor *all = cfx_new_zeros(rows, cfx_list(c->args[2], cfx_int(width)));
    c->out[0] = like_arg(c, 0, cfx_index_put(all, cfx_list(at), rows, true));
}

/* put(self, index, source, accumulate) */
static void put(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *out = cfx_index_put(flat(x), cfx_list(flat(arg_tensor(c, 1))),
                                    flat(arg_tensor(c, 2)), cfx_bool(arg_bool(c, 3)));
    c->out[0] = cfx_reshape_as(out, x);
}

/* masked_scatter(self, mask, source): the first number of source goes to the first place that the
 * mask has, and so on. */
static void masked_scatter(cfx_op_call *c) {
    const cfx_value both = cfx_broadcast_tensors(arg_tensor(c, 0), arg_tensor(c, 1));
    cfx_tensor *x = nth(both, 0), *mask = nth(both, 1);
    cfx_tensor *at = cfx_clamp(cfx_sub(cfx_cumsum(flat(mask), 0), 1), CFX_KW(min, 0));
    cfx_tensor *picked = cfx_index_select(flat(arg_tensor(c, 2)), 0, at);
    c->out[0] = cfx_where(mask, cfx_reshape_as(picked, x), x);
}

/* The only index that is not None, its number; NULL: there are others. */
static cfx_tensor *only_index(const cfx_op_call *c, int *at) {
    cfx_tensor *only = NULL;
    for (int i = 0; i < arg_count(c, 1); i++) {
        if (!arg_item(c, 1, i))
            continue;
        if (only)
            return NULL;
        only = arg_item(c, 1, i);
        *at = i;
    }
    return only;
}

/* index_put(self, indices, values, accumulate) by one mask: the same values wherever that is true,
 * so that none needs to be counted. */
static void index_put_by_mask(cfx_op_call *c) {
    int at = 0;
    cfx_tensor *x = arg_tensor(c, 0), *mask = only_index(c, &at), *v = arg_tensor(c, 2);
    if (!mask || mask->dtype != CFX_BOOL)
        return;
    const int behind = x->ndim - at - mask->ndim, count = v->ndim - behind - 1;
    cfx_value shape = cfx_list_value(0, NULL), spread = cfx_list_value(0, NULL);
    if (behind < 0 || (count >= 0 && v->shape[count] != 1))
        return;
    for (int i = 0; i < v->ndim; i++) /* a dim for each of the mask's, where that of places is */
        for (int k = 0; k < (i == count ? mask->ndim : 1); k++)
            cfx_list_append(cfx_as_list(shape), cfx_int(v->shape[i]));
    for (int i = 0; i < mask->ndim + behind; i++)
        cfx_list_append(cfx_as_list(spread), cfx_int(i < mask->ndim ? mask->shape[i] : 1));
    cfx_tensor *where = cfx_reshape(mask, spread), *given = cfx_reshape(v, shape);
    c->out[0] = cfx_where(where, arg_bool(c, 3) ? cfx_add(x, given) : given, x);
}

/* index_reduce(self, dim, index, source, reduce, *, include_self) */
static void index_reduce(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *source = arg_tensor(c, 3);
    const int dim = arg_dim(c, 1, x->ndim ? x->ndim : 1);
    cfx_tensor *row = x->ndim ? x : flat(x); /* one number is a row of one */
    source = source->ndim ? source : flat(source);
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < source->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(i == dim ? -1 : 1));
    cfx_tensor *index = cfx_expand_as(cfx_reshape(arg_tensor(c, 2), shape), source);
    c->out[0] = cfx_reshape_as(cfx_scatter_reduce(row, dim, index, source, c->args[4],
                                                  CFX_KW(include_self, cfx_bool(arg_bool(c, 5)))),
                               x);
}

/* How many of the numbers in order are before each of others. */
static void give_counted(cfx_op_call *c, cfx_tensor *order, cfx_tensor *x, bool right,
                         bool narrow) {
    cfx_tensor *among = order->ndim > 1 ? cfx_unsqueeze(order, -2) : order;
    cfx_tensor *one = cfx_unsqueeze(x, -1);
    cfx_tensor *behind = right ? cfx_gt(among, one) : cfx_ge(among, one);
    cfx_tensor *sum = cfx_sum(cfx_logical_not(behind), cfx_list(-1));
    c->out[0] = narrow ? cfx_to(sum, cfx_dtype_value(CFX_I32)) : sum;
}

/* bucketize.Tensor(self, boundaries, *, out_int32, right) */
static void bucketize(cfx_op_call *c) {
    give_counted(c, arg_tensor(c, 1), arg_tensor(c, 0), arg_bool(c, 3), arg_bool(c, 2));
}

/* searchsorted.Tensor(sorted_sequence, self, *, out_int32, right, side, sorter) */
static void searchsorted(cfx_op_call *c) {
    const bool right = arg_bool(c, 3) || (!arg_is_none(c, 4) && !strcmp(arg_text(c, 4), "right"));
    cfx_tensor *order = arg_tensor(c, 0), *by = arg_tensor(c, 5);
    give_counted(c, by ? cfx_gather(order, -1, by) : order, arg_tensor(c, 1), right,
                 arg_bool(c, 2));
}

/* round.decimals(self, *, decimals) */
static void round_decimals(cfx_op_call *c) {
    const int64_t places = arg_int(c, 1);
    double by = 1;
    for (int64_t i = 0; i < (places < 0 ? -places : places); i++)
        by *= 10;
    cfx_tensor *x = arg_tensor(c, 0);
    c->out[0] = places < 0 ? cfx_mul(cfx_round(cfx_div(x, by)), by)
                           : cfx_div(cfx_round(cfx_mul(x, by)), by);
}

/* linspace.Tensor_Tensor(start, end, steps, *, dtype) and so on, in floats: from both ends, as
 * PyTorch counts */
static void linspace(cfx_op_call *c) {
    const cfx_dtype dtype = arg_dtype(c, 3, cfx__dtype_of_number(cfx_float(0)));
    const cfx_value d = cfx_dtype_value(dtype);
    const int64_t n = arg_int(c, 2);
    cfx_tensor *end[2];
    if (!cfx__dtype_is_float(dtype) || n < 2)
        return;
    for (int i = 0; i < 2; i++)
        end[i] = c->args[i].tag == CFX_TAG_TENSOR
                     ? cfx_to(c->args[i], d)
                     : cfx_full(cfx_list_value(0, NULL), c->args[i], CFX_KW(dtype, d));
    cfx_tensor *i = cfx_arange(n, CFX_KW(dtype, d));
    cfx_tensor *step = cfx_div(cfx_sub(end[1], end[0]), n - 1);
    cfx_tensor *up = cfx_add(cfx_mul(i, step), end[0]);
    cfx_tensor *down = cfx_sub(end[1], cfx_mul(cfx_rsub(i, n - 1), step));
    c->out[0] = cfx_where(cfx_lt(i, n / 2), up, down);
}

/* _pdist_forward(self, p): between each row and those behind it */
static void pdist(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    const int64_t n = x->shape[0];
    const cfx_value pairs = CFX_V(cfx_triu_indices(n, n, 1));
    cfx_tensor *from = cfx_index_select(x, 0, cfx_select(pairs, 0, 0));
    cfx_tensor *to = cfx_index_select(x, 0, cfx_select(pairs, 0, 1));
    c->out[0] = cfx_linalg_vector_norm(cfx_sub(from, to), c->args[1], cfx_list(-1));
}

/* _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim): a product, summed */
static void trilinear(cfx_op_call *c) {
    cfx_tensor *x[3];
    for (int k = 0; k < 3; k++) {
        x[k] = arg_tensor(c, k);
        for (int i = 0; i < arg_count(c, 3 + k); i++)
            x[k] = cfx_unsqueeze(x[k], cfx_at(c->args[3 + k], i));
    }
    cfx_tensor *all = cfx_mul(cfx_mul(x[0], x[1]), x[2]);
    c->out[0] = arg_count(c, 6) ? cfx_sum(all, c->args[6]) : all;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const cfx__c_parts table[] = {
    {&cfx_op_median, median},
    {&cfx_op_nanmedian, median},
    {&cfx_op_var_mean_correction, var_mean},
    {&cfx_op_std_mean_correction, var_mean},
    {&cfx_op_addbmm, addbmm},
    {&cfx_op__cdist_forward, cdist},
    {&cfx_op__native_batch_norm_legit_no_stats, cfx__c_batch_norm},
    {&cfx_op__native_batch_norm_legit_functional, cfx__c_batch_norm},
    {&cfx_op__native_batch_norm_legit_no_training, cfx__c_batch_norm},
    {&cfx_op_native_layer_norm, cfx__c_layer_norm},
    {&cfx_op_native_group_norm, cfx__c_group_norm},
    {&cfx_op_addmv, addmv},
    {&cfx_op_upsample_bicubic2d, resample},
    {&cfx_op_upsample_trilinear3d, resample},
    {&cfx_op__upsample_bilinear2d_aa, resample_aa},
    {&cfx_op__upsample_bicubic2d_aa, resample_aa},
    {&cfx_op_view_copy, copied_look},
    {&cfx_op_permute_copy, copied_look},
    {&cfx_op_as_strided_copy, copied_look},
    {&cfx_op_narrow_copy, copied_look},
    {&cfx_op_split_with_sizes_copy, copied_look},
    {&cfx_op_unbind_copy_int, copied_look},
    {&cfx_op_diagonal_scatter, diagonal_scatter},
    {&cfx_op_as_strided_scatter, as_strided_scatter},
    {&cfx_op_max_pool2d_with_indices_backward, max_pool_backward},
    {&cfx_op_max_pool3d_with_indices_backward, max_pool_backward},
    {&cfx_op_mm, cfx__c_complex_product},
    {&cfx_op_bmm, cfx__c_complex_product},
    {&cfx_op_addmm, cfx__c_complex_addmm},
    {&cfx_op_baddbmm, cfx__c_complex_addmm},
    {&cfx_op_linear, cfx__c_complex_linear},
    {&cfx_op_complex, cfx__c_of_parts},
    {&cfx_op_polar, cfx__c_of_parts},
    {&cfx_op_cumsum, cfx__c_by_parts},
    {&cfx_op_constant_pad_nd, cfx__c_by_parts},
    {&cfx_op_tril, cfx__c_by_parts},
    {&cfx_op_triu, cfx__c_by_parts},
    {&cfx_op_angle, cfx__c_angle},
    {&cfx_op__fft_r2c, cfx__c_fft_r2c},
    {&cfx_op__fft_c2r, cfx__c_fft_c2r},
    {&cfx_op__softmax_backward_data, softmax_backward},
    {&cfx_op__log_softmax_backward_data, log_softmax_backward},
    {&cfx_op_gelu_backward, gelu_backward},
    {&cfx_op_native_layer_norm_backward, layer_norm_backward},
    {&cfx_op_nll_loss_backward, nll_loss_backward},
    {&cfx_op_embedding_dense_backward, embedding_backward},
    {&cfx_op_put, put},
    {&cfx_op_masked_scatter, masked_scatter},
    {&cfx_op_index_reduce, index_reduce},
    {&cfx_op_bucketize_Tensor, bucketize},
    {&cfx_op_searchsorted_Tensor, searchsorted},
    {&cfx_op_round_decimals, round_decimals},
    {&cfx_op_index_put, index_put_by_mask},
    {&cfx_op_linspace_Tensor_Tensor, linspace},
    {&cfx_op_linspace_Tensor_Scalar, linspace},
    {&cfx_op_linspace_Scalar_Tensor, linspace},
    {&cfx_op__pdist_forward, pdist},
    {&cfx_op__trilinear, trilinear},
    {&cfx_op_linalg_lu, cfx__c_lu},
    {&cfx_op_triangular_solve, cfx__c_triangular_solve},
    {&cfx_op_cholesky_inverse, cfx__c_cholesky_inverse},
};

cfx_op_fn *cfx__c_parts_of(const cfx_op *op) {
    for (int i = 0; i < COUNT(table); i++)
        if (table[i].op == op)
            return table[i].fn;
    return NULL;
}
