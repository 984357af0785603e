/* torch.gradient: differences of neighbours by the distances of the places where values are known.
 *
 * Inside, the parabola through three neighbours gives the slope; at both ends the line through two
 * (edge_order 1) or again a parabola (2). */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(REDUCE);

/* Rows from `start` to `end` (INT64_MAX: the last) along dim. */
static cfx_tensor *rows(cfx_tensor *x, int dim, int64_t start, int64_t end) {
    return cfx_slice(x, dim, start, end == INT64_MAX ? cfx_none() : cfx_int(end));
}

static cfx_tensor *difference(cfx_tensor *x, int dim, int64_t a, int64_t a_end, int64_t b,
                              int64_t b_end) {
    return cfx_sub(rows(x, dim, a, a_end), rows(x, dim, b, b_end));
}

/* ---- one distance for all -------------------------------------------------------------------- */

static cfx_tensor *weighed(cfx_tensor *x, int dim, int64_t first, const double *w) {
    cfx_tensor *sum = cfx_mul(rows(x, dim, first, first + 1), w[0]);
    for (int i = 1; i < 3; i++) {
        int64_t at = first + i, end = at + 1 ? at + 1 : INT64_MAX;
        sum = cfx_add(sum, cfx_mul(rows(x, dim, at, end), w[i]));
    }
    return sum;
}

static cfx_tensor *along_even(cfx_tensor *x, int dim, cfx_value step, bool parabola) {
    static const double first[] = {-1.5, 2, -0.5}, last[] = {0.5, -2, 1.5};
    cfx_tensor *inside = cfx_div(cfx_div(difference(x, dim, 2, INT64_MAX, 0, -2), step), 2);
    cfx_tensor *before = parabola ? weighed(x, dim, 0, first) : difference(x, dim, 1, 2, 0, 1);
    cfx_tensor *after = parabola ? weighed(x, dim, -3, last)
                                 : difference(x, dim, -1, INT64_MAX, -2, -1);
    return cfx_cat(cfx_list(cfx_div(before, step), inside, cfx_div(after, step)), dim);
}

/* ---- a place for each ------------------------------------------------------------------------ */

/* The slope of the parabola through three neighbours, at the first (-1), second or last (1). */
static cfx_tensor *slope(cfx_tensor *const f[3], cfx_tensor *h, cfx_tensor *k, int at) {
    cfx_tensor *both = cfx_add(h, k), *a, *b, *c;
    cfx_tensor *outer = cfx_mul(h, both), *middle = cfx_mul(h, k), *inner = cfx_mul(k, both);
    if (at < 0) {
        a = cfx_div(cfx_neg(cfx_add(both, h)), outer);
        b = cfx_div(both, middle);
        c = cfx_div(cfx_neg(h), inner);
    } else if (at > 0) {
        a = cfx_div(k, outer);
        b = cfx_div(cfx_neg(both), middle);
        c = cfx_div(cfx_add(both, k), inner);
    } else {
        a = cfx_div(cfx_neg(k), outer);
        b = cfx_div(cfx_sub(k, h), middle);
        c = cfx_div(h, inner);
    }
    return cfx_add(cfx_add(cfx_mul(a, f[0]), cfx_mul(b, f[1])), cfx_mul(c, f[2]));
}

static cfx_tensor *along_places(cfx_tensor *x, int dim, cfx_tensor *places, bool parabola) {
    int64_t shape[CFX_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        shape[i] = i == dim ? -1 : 1;
    cfx_tensor *step = cfx_view(cfx_diff(places), cfx_ints_value(x->ndim, shape));
    cfx_tensor *all[] = {rows(x, dim, 0, -2), rows(x, dim, 1, -1), rows(x, dim, 2, INT64_MAX)};
    cfx_tensor *inside = slope(all, rows(step, dim, 0, -1), rows(step, dim, 1, INT64_MAX), 0);
    cfx_tensor *before, *after;
    if (parabola) {
        cfx_tensor *first[] = {rows(x, dim, 0, 1), rows(x, dim, 1, 2), rows(x, dim, 2, 3)};
        cfx_tensor *last[] = {rows(x, dim, -3, -2), rows(x, dim, -2, -1),
                              rows(x, dim, -1, INT64_MAX)};
        before = slope(first, rows(step, dim, 0, 1), rows(step, dim, 1, 2), -1);
        after = slope(last, rows(step, dim, -2, -1), rows(step, dim, -1, INT64_MAX), 1);
    } else {
        before = cfx_div(difference(x, dim, 1, 2, 0, 1), rows(step, dim, 0, 1));
        after = cfx_div(difference(x, dim, -1, INT64_MAX, -2, -1),
                        rows(step, dim, -1, INT64_MAX));
    }
    return cfx_cat(cfx_list(before, inside, after), dim);
}

/* ---- the operators --------------------------------------------------------------------------- */

/* The dims asked for: all where None. False, with PyTorch's message, where something is wrong. */
static bool dims_of(cfx_op_call *c, cfx_value given, int64_t edge, int *n, int *dims) {
    const cfx_tensor *x = arg_tensor(c, 0);
    bool list = given.tag == CFX_TAG_LIST;
    *n = list ? (int)cfx_as_list(given)->len : cfx_is_none(given) ? x->ndim : 1;
    if (edge != 1 && edge != 2) {
        op_fail(c, "torch.gradient only supports edge_order=1 and edge_order=2.");
        return false;
    }
    if (*n > CFX_MAX_DIMS) {
        op_fail(c, "dim %d appears multiple times in the list of dims", 0);
        return false;
    }
    uint64_t seen = 0;
    for (int i = 0; i < *n; i++) {
        cfx_value d = list ? cfx_as_list(given)->items[i] : cfx_is_none(given) ? cfx_int(i) : given;
        dims[i] = cfx__shape_wrap_dim(c->at, cfx_integer(d), x->ndim);
        if (dims[i] < 0)
            return false;
        if (seen >> dims[i] & 1) {
            op_fail(c, "dim %d appears multiple times in the list of dims", dims[i]);
            return false;
        }
        seen |= 1ull << dims[i];
        if (!x->ndim || x->shape[dims[i]] < edge + 1) {
            op_fail(c, "torch.gradient expected each dimension size to be at least edge_order+1");
            return false;
        }
    }
    return true;
}

static void fail_spacing(cfx_op_call *c, cfx_value dims, long long spacings, int n) {
    if (cfx_is_none(dims))
        op_fail(c, "torch.gradient expected spacing to be unspecified, a scalar, or a list of "
                   "length equal to 'self.dim() = %d', since dim argument was not given, but got a "
                   "list of length %lld", n, spacings);
    else
        op_fail(c, "torch.gradient expected spacing to be unspecified, a scalar or it's spacing "
                   "and dim arguments to have the same length, but got a spacing argument of "
                   "length %lld and a dim argument of length %d.", spacings, n);
}

/* `spacing` is a number for all dims, or a list with a number or a tensor of places for each. */
static void gradient(cfx_op_call *c, cfx_value spacing, cfx_value given, int64_t edge) {
    int n, dims[CFX_MAX_DIMS];
    bool each = spacing.tag == CFX_TAG_LIST;
    if (arg_tensor(c, 0)->dtype == CFX_U8) {
        op_fail(c, "torch.gradient does not support uint8 input.");
        return;
    }
    if (!dims_of(c, given, edge, &n, dims))
        return;
    if (each && cfx_as_list(spacing)->len != n) {
        fail_spacing(c, given, (long long)cfx_as_list(spacing)->len, n);
        return;
    }
    c->result = cfx_list_value(0, NULL);
    for (int i = 0; i < n && !op_failed(); i++) {
        cfx_value s = each ? cfx_as_list(spacing)->items[i]
                           : cfx_is_none(spacing) ? cfx_int(1) : spacing;
        cfx_tensor *x = arg_tensor(c, 0);
        cfx_tensor *g = s.tag == CFX_TAG_TENSOR
                            ? along_places(x, dims[i], cfx_as_tensor(s), edge == 2)
                            : along_even(x, dims[i], s, edge == 2);
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(g));
    }
}

static void decompose_gradient(cfx_op_call *c) {
    gradient(c, c->args[1], c->args[2], arg_int(c, 3));
}
static void decompose_gradient_array(cfx_op_call *c) {
    gradient(c, cfx_none(), c->args[1], arg_int(c, 2));
}

CFX_OP(gradient_scalarint) = {
    "aten::gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int "
    "edge_order=1) -> Tensor[]",
    "torch.gradient", .decompose = decompose_gradient, .effects = CFX_COMPOSITE};
CFX_OP(gradient_scalararray) = {
    "aten::gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> "
    "Tensor[]",
    NULL, .decompose = decompose_gradient, .effects = CFX_COMPOSITE};
CFX_OP(gradient_array) = {
    "aten::gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]", NULL,
    .decompose = decompose_gradient_array, .effects = CFX_COMPOSITE};
CFX_OP(gradient_scalarrayint) = {
    "aten::gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int "
    "edge_order=1) -> Tensor[]",
    NULL, .decompose = decompose_gradient, .effects = CFX_COMPOSITE};
CFX_OP(gradient_scalarrayarray) = {
    "aten::gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) "
    "-> Tensor[]",
    NULL, .decompose = decompose_gradient, .effects = CFX_COMPOSITE};
CFX_OP(gradient_tensorarrayint) = {
    "aten::gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int "
    "edge_order=1) -> Tensor[]",
    NULL, .decompose = decompose_gradient, .effects = CFX_COMPOSITE};
CFX_OP(gradient_tensorarray) = {
    "aten::gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> "
    "Tensor[]",
    NULL, .decompose = decompose_gradient, .effects = CFX_COMPOSITE};
