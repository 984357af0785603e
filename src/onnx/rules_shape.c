/* Rules for views, and for what puts tensors together and takes them apart. */
#include "export.h"

/* Whether a size among those of argument i is the number 0, which ONNX takes for "as it was". */
static bool has_zero(const cfx__onnx_export *x, int i) {
    cfx_value v = cfx__export_arg(x, i);
    bool found = false;
    for (int64_t k = 0; k < cfx_len(v); k++) {
        cfx_value s = cfx_as_list(v)->items[k];
        found |= s.tag == CFX_TAG_INT && cfx_integer(s) == 0;
    }
    return found;
}

/* A list argument with a number more for the parts of complex numbers, where there are such. */
static cfx_value with_pair(const cfx__onnx_export *x, int i, int64_t more) {
    cfx_value v = cfx__export_arg(x, i), all = cfx_list_value(cfx_len(v), cfx_as_list(v)->items);
    if (cfx__export_is_pairs(x, 0))
        cfx_list_append(cfx_as_list(all), cfx_int(more));
    return all;
}

RULE(view) {
    cfx_value v = cfx__export_in(x, 0), to = cfx__export_sizes(x, with_pair(x, 1, 2));
    (void)op;
    return has_zero(x, 1) ? PUT(Reshape, v, to, CFX_KW(allowzero, 1)) : PUT(Reshape, v, to);
}

static cfx_value transposed(cfx__onnx_export *x, int n, int64_t *order) {
    if (cfx__export_is_pairs(x, 0))
        order[n] = n, n++;
    return PUT(Transpose, cfx__export_in(x, 0), CFX_KW(perm, cfx_ints_value(n, order)));
}

RULE(permute) {
    int64_t order[CFX_MAX_DIMS + 1];
    int n = cfx__export_ints(x, 1, order);
    (void)op;
    for (int i = 0; i < n; i++)
        order[i] = cfx__export_dim(order[i], n);
    return n < 0 ? cfx_bad() : n ? transposed(x, n, order) : PUT(Identity, cfx__export_in(x, 0));
}

static cfx_value swapped(cfx__onnx_export *x, int64_t a, int64_t b) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t order[CFX_MAX_DIMS + 1];
    if (!r.ndim)
        return PUT(Identity, cfx__export_in(x, 0));
    for (int i = 0; i < r.ndim; i++)
        order[i] = i;
    int i = cfx__export_dim(a, r.ndim), k = cfx__export_dim(b, r.ndim);
    order[i] = k, order[k] = i;
    return transposed(x, r.ndim, order);
}
RULE(transpose) {
    (void)op;
    return swapped(x, cfx_integer(cfx__export_arg(x, 1)), cfx_integer(cfx__export_arg(x, 2)));
}
RULE(t) {
    (void)op;
    return cfx__export_given(x, 0).ndim < 2 ? PUT(Identity, cfx__export_in(x, 0))
                                            : swapped(x, 0, 1);
}

RULE(unsqueeze) {
    int ndim = cfx__export_result(x).ndim;
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), ndim);
    (void)op;
    return PUT(Unsqueeze, cfx__export_in(x, 0), cfx__export_one(x, dim));
}

/* Those of the dimensions named that have a size of 1 go. */
RULE(squeeze) {
    cfx_result r = cfx__export_given(x, 0);
    int64_t dims[CFX_MAX_DIMS], gone[CFX_MAX_DIMS];
    int n = x->schema->nargs > 1 ? cfx__export_ints(x, 1, dims) : r.ndim, k = 0;
    (void)op;
    for (int i = 0; i < n; i++) {
        int dim = x->schema->nargs > 1 ? cfx__export_dim(dims[i], r.ndim) : i;
        if (dim < r.ndim && cfx__export_is_size(&r, dim, 1))
            gone[k++] = dim;
    }
    cfx_value v = cfx__export_in(x, 0);
    return n < 0 ? cfx_bad() : k ? PUT(Squeeze, v, cfx__export_i64(x, k, gone)) : PUT(Identity, v);
}

/* A size of -1 is as it was; so is one of 1 in ONNX. */
RULE(expand) {
    cfx_value sizes = with_pair(x, 1, 2), list = cfx_list_value(0, NULL);
    (void)op;
    for (int64_t i = 0; i < cfx_len(sizes); i++) {
        cfx_value s = cfx_as_list(sizes)->items[i];
        bool same = s.tag == CFX_TAG_INT && cfx_integer(s) == -1;
        cfx_list_append(cfx_as_list(list), same ? cfx_int(1) : s);
    }
    return PUT(Expand, cfx__export_in(x, 0), cfx__export_sizes(x, list));
}

/* x[..., start:end:step, ...] */
static cfx_value sliced(cfx__onnx_export *x, cfx_value v, int64_t dim, cfx_value start,
                        cfx_value end, int64_t step) {
    cfx_value first = cfx_is_none(start) ? cfx__export_one(x, 0) : cfx__export_size(x, start);
    cfx_value last = cfx_is_none(end) ? cfx__export_one(x, INT64_MAX) : cfx__export_size(x, end);
    return PUT(Slice, v, first, last, cfx__export_one(x, dim), cfx__export_one(x, step));
}

RULE(slice) {
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), cfx__export_result(x).ndim);
    cfx_value step = cfx__export_arg(x, 4);
    (void)op;
    if (step.tag != CFX_TAG_INT)
        return cfx__export_lacks("its step varies");
    return sliced(x, cfx__export_in(x, 0), dim, cfx__export_arg(x, 2), cfx__export_arg(x, 3),
                  cfx_integer(step));
}

RULE(selected) {
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)),
                                  cfx__export_given(x, 0).ndim);
    (void)op;
    return PUT(Gather, cfx__export_in(x, 0), cfx__export_scalar(x, cfx__export_arg(x, 2), CFX_I64),
               CFX_KW(axis, dim));
}

/* Tensors of a list argument, in the dtype of the result; those of no elements and one dimension
 * are left out, as ATen does. */
RULE(cat) {
    cfx_value list = cfx__export_arg(x, 0), parts = cfx_list_value(0, NULL);
    cfx_result own = cfx__export_result(x);
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), own.ndim);
    (void)op;
    for (int64_t i = 0; i < cfx_len(list); i++) {
        cfx_node *n = cfx_as_node(cfx_as_list(list)->items[i]);
        cfx_result r = cfx_node_result(n);
        if (r.ndim == 1 && own.ndim > 1 && cfx__export_is_size(&r, 0, 0))
            continue;
        cfx_value v = x->values[cfx__node_of(n)->id];
        if (v.tag != CFX_TAG_NODE)
            return cfx__export_lacks("ONNX has nothing for what %s gives", n->name);
        cfx_list_append(cfx_as_list(parts), cfx__export_cast(x, v, r.dtype, own.dtype));
    }
    return cfx_ok() ? PUT(Concat, parts, CFX_KW(axis, dim)) : cfx_bad();
}

RULE(split) {
    int64_t dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 2)),
                                  cfx__export_given(x, 0).ndim);
    cfx_value all = PUT(Split, cfx__export_in(x, 0), cfx__export_sizes(x, cfx__export_arg(x, 1)),
                        CFX_KW(axis, dim));
    cfx_value out = cfx_tuple_value(0, NULL);
    (void)op;
    for (int i = 0; i < cfx_len(cfx__export_arg(x, 1)) && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(out), cfx__export_item(x, all, i));
    return cfx_ok() ? out : cfx_bad();
}

RULE(repeat) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value times = with_pair(x, 1, 1), v = cfx__export_in(x, 0);
    int64_t more = cfx_len(cfx__export_arg(x, 1)) - r.ndim, axes[CFX_MAX_DIMS];
    (void)op;
    for (int64_t i = 0; i < more && i < CFX_MAX_DIMS; i++)
        axes[i] = i;
    if (more > 0)
        v = PUT(Unsqueeze, v, cfx__export_i64(x, (int)more, axes));
    return PUT(Tile, v, cfx__export_sizes(x, times));
}

RULE(flip) {
    int64_t dims[CFX_MAX_DIMS], start[CFX_MAX_DIMS], end[CFX_MAX_DIMS], step[CFX_MAX_DIMS];
    int n = cfx__export_ints(x, 1, dims), ndim = cfx__export_result(x).ndim;
    (void)op;
    for (int i = 0; i < n; i++) {
        dims[i] = cfx__export_dim(dims[i], ndim);
        start[i] = -1, end[i] = INT64_MIN, step[i] = -1;
    }
    if (n <= 0)
        return n ? cfx_bad() : PUT(Identity, cfx__export_in(x, 0));
    cfx_value by = cfx__export_i64(x, n, step);
    return PUT(Slice, cfx__export_in(x, 0), cfx__export_i64(x, n, start),
               cfx__export_i64(x, n, end), cfx__export_i64(x, n, dims), by);
}

/* Pads are told from the last dimension on, in pairs. */
RULE(pad) {
    cfx_value pads = cfx__export_arg(x, 1), before = cfx_list_value(0, NULL);
    cfx_value after = cfx_list_value(0, NULL);
    int ndim = cfx__export_given(x, 0).ndim, n = (int)(cfx_len(pads) / 2);
    cfx_dtype d = cfx__export_result(x).dtype;
    (void)op;
    for (int i = 0; i < ndim; i++) {
        int k = ndim - 1 - i;
        cfx_list_append(cfx_as_list(before), k < n ? cfx_at(pads, 2 * k) : cfx_int(0));
        cfx_list_append(cfx_as_list(after), k < n ? cfx_at(pads, 2 * k + 1) : cfx_int(0));
    }
    for (int i = 0; i < ndim; i++)
        cfx_list_append(cfx_as_list(before), cfx_at(after, i));
    return PUT(Pad, cfx__export_as(x, 0, d), cfx__export_sizes(x, before),
               cfx__export_as(x, 2, d));
}

/* What n is an item of, or may share its memory with; NULL: it has its own. */
static const cfx_node *looks_into(const cfx_node *n) {
    const cfx_value x = cfx_len(n->args) > 0 ? cfx_at(n->args, 0) : cfx_none();
    if (n->op != CFX_CALL_FUNCTION || x.tag != CFX_TAG_NODE)
        return NULL;
    const bool shares = n->target.op ? cfx__op_shares(n->target.op, 0)
                                     : cfx_node_is_getitem(n);
    return shares ? cfx_as_node(x) : NULL;
}

/* How many elements a node gives; -1: that varies, or is not known. */
static int64_t elements_of(const cfx_node *n) {
    const cfx_result r = cfx_node_result(n);
    int64_t elements = r.shape ? 1 : -1;
    for (int i = 0; r.shape && i < r.ndim; i++)
        elements *= r.shape[i];
    return elements;
}

/* Whether a value has all elements of the memory that it lies in. */
static bool is_whole(const cfx_node *n) {
    const int64_t own = elements_of(n);
    const cfx_node *base = n;
    for (const cfx_node *next = looks_into(n); next; next = looks_into(next))
        base = next;
    return own >= 0 && own == elements_of(base);
}

/* What a view of any strides sees of a tensor in one piece: its elements by number. */
RULE(as_strided) {
    cfx_result from = cfx__export_given(x, 0), to = cfx__export_result(x);
    int64_t sizes[CFX_MAX_DIMS], strides[CFX_MAX_DIMS], at[CFX_MAX_DIMS] = {0}, whole = -1;
    int64_t elements = 1;
    int n = cfx__export_ints(x, 1, sizes), k = cfx__export_ints(x, 2, strides);
    cfx_value offset = cfx__export_arg(x, 3);
    (void)op;
    if (n < 0 || k != n || !from.shape || !to.shape || offset.tag == CFX_TAG_NODE)
        return cfx__export_lacks("its strides, or the sizes of what it looks into, vary");
    for (int i = from.ndim - 1; i >= 0; elements *= from.shape[i--])
        if (from.shape[i] != 1 && from.stride[i] != elements)
            return cfx__export_lacks("what it looks into is not in one piece");
    if (x->args[0].tag == CFX_TAG_NODE && !is_whole(cfx_as_node(x->args[0])))
        return cfx__export_lacks("it looks into memory beside the view that it is given");
    cfx_tensor *index = cfx_tensor_new(CFX_I64, n, sizes, NULL);
    for (int64_t i = 0; i < index->numel && cfx_ok(); i++) {
        int64_t e = offset.tag == CFX_TAG_INT ? cfx_integer(offset) : 0;
        for (int j = 0; j < n; j++)
            e += at[j] * strides[j];
        ((int64_t *)index->data)[i] = e;
        if (e < 0 || e >= elements)
            return cfx__export_lacks("it looks into memory beside the view that it is given");
        for (int j = n - 1; j >= 0 && ++at[j] == sizes[j]; j--)
            at[j] = 0;
    }
    cfx_value flat = PUT(Reshape, cfx__export_in(x, 0), cfx__export_i64(x, 1, &whole));
    return PUT(Gather, flat, cfx__export_tensor(x, index));
}

/* The size of a dimension; -1, with an error, where it varies. */
static int64_t fixed_size(cfx__onnx_export *x, int dim) {
    cfx_result r = cfx__export_given(x, 0);
    cfx_value size = cfx_result_size(&r, dim);
    if (size.tag != CFX_TAG_INT)
        cfx__export_lacks("a size that it looks into varies");
    return size.tag == CFX_TAG_INT ? cfx_integer(size) : -1;
}

/* A constant of n rows: row i is start + i * step and the `more` numbers that follow it. */
static cfx_value counted(cfx__onnx_export *x, int64_t n, int64_t start, int64_t step,
                         int64_t more) {
    cfx_tensor *t = cfx_tensor_new(CFX_I64, more > 0 ? 2 : 1, (int64_t[]){n, more}, NULL);
    int64_t each = more > 0 ? more : 1;
    for (int64_t i = 0; i < n * each && cfx_ok(); i++)
        ((int64_t *)t->data)[i] = start + i / each * step + i % each;
    return cfx__export_tensor(x, t);
}

/* The two dimensions become one, of which every (m + 1)-th element is taken. */
RULE(diagonal) {
    int ndim = cfx__export_given(x, 0).ndim, a, b, k = 0;
    int64_t offset = cfx_integer(cfx__export_arg(x, 1)), order[CFX_MAX_DIMS + 1];
    a = cfx__export_dim(cfx_integer(cfx__export_arg(x, 2)), ndim);
    b = cfx__export_dim(cfx_integer(cfx__export_arg(x, 3)), ndim);
    int64_t n = fixed_size(x, a), m = fixed_size(x, b);
    (void)op;
    if (n < 0 || m < 0)
        return cfx_bad();
    for (int i = 0; i < ndim; i++)
        if (i != a && i != b)
            order[k++] = i;
    order[k] = a, order[k + 1] = b;
    int64_t top = offset < 0 ? -offset : 0, left = offset > 0 ? offset : 0;
    int64_t len = n - top < m - left ? n - top : m - left;
    cfx_value v = transposed(x, ndim, order), rest = cfx__export_one(x, n * m);
    if (ndim > 2) {
        cfx_value lead = PUT(Shape, v, CFX_KW(end, ndim - 2));
        rest = cfx_ok() ? PUT(Concat, cfx_list(lead, rest), CFX_KW(axis, 0)) : cfx_bad();
    }
    return PUT(Gather, PUT(Reshape, v, rest, CFX_KW(allowzero, 1)),
               counted(x, len < 0 ? 0 : len, top * m + left, m + 1, 0), CFX_KW(axis, -1));
}

/* Windows of a dimension, whose elements become the last one. */
RULE(unfold) {
    int ndim = cfx__export_given(x, 0).ndim, k = 0;
    int dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 1)), ndim);
    int64_t size = cfx_integer(cfx__export_arg(x, 2)), step = cfx_integer(cfx__export_arg(x, 3));
    int64_t n = ndim ? fixed_size(x, dim) : 1, order[CFX_MAX_DIMS + 1];
    (void)op;
    if (n < 0 || !ndim || ndim == CFX_MAX_DIMS || size < 1)
        return n < 0 ? cfx_bad() : cfx__export_lacks("its windows are empty");
    cfx_value at = counted(x, (n - size) / step + 1, 0, step, size);
    cfx_value v = PUT(Gather, cfx__export_in(x, 0), at, CFX_KW(axis, dim));
    for (int i = 0; i <= ndim; i++)
        if (i != dim + 1)
            order[k++] = i;
    order[k] = dim + 1;
    return PUT(Transpose, v, CFX_KW(perm, cfx_ints_value(ndim + 1, order)));
}

/* A part of self along one dimension is another's: what lies before, it, and what lies behind. */
static cfx_value replaced(cfx__onnx_export *x, cfx_value part, int64_t dim, int64_t start,
                          int64_t end) {
    cfx_value v = cfx__export_in(x, 0), parts = cfx_list_value(0, NULL);
    cfx_result r = cfx__export_given(x, 0);
    int64_t size = cfx_integer(cfx_result_size(&r, (int)dim));
    if (start > 0)
        cfx_list_append(cfx_as_list(parts),
                        sliced(x, v, dim, cfx_int(0), cfx_int(start), 1));
    cfx_list_append(cfx_as_list(parts), part);
    if (end < size)
        cfx_list_append(cfx_as_list(parts), sliced(x, v, dim, cfx_int(end), cfx_none(), 1));
    return cfx_ok() ? PUT(Concat, parts, CFX_KW(axis, dim)) : cfx_bad();
}

/* An end of a slice as a number from 0 to the size. */
static int64_t bounded(cfx_value v, int64_t size, int64_t none) {
    int64_t n = v.tag == CFX_TAG_INT ? cfx_integer(v) : none;
    n = n < 0 ? n + size : n;
    return n < 0 ? 0 : n > size ? size : n;
}

/* A part of self is src, at places by number along a dimension: i64[n], or one alone. */
static cfx_value strewn(cfx__onnx_export *x, cfx_value src, int dim, cfx_value places) {
    int64_t shape[CFX_MAX_DIMS];
    int ndim = cfx__export_given(x, 0).ndim;
    for (int i = 0; i < ndim; i++)
        shape[i] = i == dim ? -1 : 1;
    places = PUT(Reshape, places, cfx__export_i64(x, ndim, shape));
    places = PUT(Expand, places, PUT(Shape, src));
    return PUT(ScatterElements, cfx__export_in(x, 0), places, src, CFX_KW(axis, dim));
}

/* The places that a slice takes of a dimension. */
static cfx_value places_of(cfx__onnx_export *x, int dim, cfx_value from, cfx_value to,
                           int64_t step) {
    cfx_value size = PUT(Shape, cfx__export_in(x, 0), CFX_KW(start, dim), CFX_KW(end, dim + 1));
    cfx_value all = PUT(Range, cfx__export_number(x, cfx_int(0), CFX_I64),
                        PUT(Reshape, size, cfx__export_i64(x, 0, NULL)),
                        cfx__export_number(x, cfx_int(1), CFX_I64));
    return sliced(x, all, 0, from, to, step);
}

RULE(slice_scatter) {
    cfx_result r = cfx__export_given(x, 0);
    int dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 2)), r.ndim);
    cfx_value size = cfx_result_size(&r, dim), from = cfx__export_arg(x, 3);
    cfx_value to = cfx__export_arg(x, 4), step = cfx__export_arg(x, 5);
    cfx_value src = cfx__export_as(x, 1, r.dtype);
    (void)op;
    if (step.tag != CFX_TAG_INT)
        return cfx__export_lacks("its step varies");
    if (size.tag != CFX_TAG_INT || from.tag == CFX_TAG_NODE || to.tag == CFX_TAG_NODE ||
        cfx_integer(step) != 1)
        return strewn(x, src, dim, places_of(x, dim, from, to, cfx_integer(step)));
    int64_t n = cfx_integer(size), start = bounded(from, n, 0), end = bounded(to, n, n);
    return end <= start ? PUT(Identity, cfx__export_in(x, 0)) : replaced(x, src, dim, start, end);
}

RULE(select_scatter) {
    cfx_result r = cfx__export_given(x, 0);
    int dim = cfx__export_dim(cfx_integer(cfx__export_arg(x, 2)), r.ndim);
    cfx_value size = cfx_result_size(&r, dim), at = cfx__export_arg(x, 3);
    cfx_value part = PUT(Unsqueeze, cfx__export_as(x, 1, r.dtype), cfx__export_one(x, dim));
    (void)op;
    if (size.tag != CFX_TAG_INT || at.tag != CFX_TAG_INT)
        return strewn(x, part, dim, cfx__export_size(x, at));
    int64_t i = bounded(at, cfx_integer(size), 0);
    return replaced(x, part, dim, i, i + 1);
}

static const cfx__onnx_rule rows[] = {
    {"aten.view.default", view, NULL},
    {"aten.reshape.default", view, NULL},
    {"aten._unsafe_view.default", view, NULL},
    {"aten.view_copy.default", view, NULL},
    {"aten.permute.default", permute, NULL},
    {"aten.permute_copy.default", permute, NULL},
    {"aten.transpose.int", transpose, NULL},
    {"aten.t.default", t, NULL},
    {"aten.unsqueeze.default", unsqueeze, NULL},
    {"aten.squeeze.default", squeeze, NULL},
    {"aten.squeeze.dim", squeeze, NULL},
    {"aten.squeeze.dims", squeeze, NULL},
    {"aten.expand.default", expand, NULL},
    {"aten.slice.Tensor", slice, NULL},
    {"aten.select.int", selected, NULL},
    {"aten.cat.default", cat, NULL},
    {"aten.split_with_sizes.default", split, NULL},
    {"aten.split_with_sizes_copy.default", split, NULL},
    {"aten.repeat.default", repeat, NULL},
    {"aten.flip.default", flip, NULL},
    {"aten.constant_pad_nd.default", pad, NULL},
    {"aten.as_strided.default", as_strided, NULL},
    {"aten.diagonal.default", diagonal, NULL},
    {"aten.unfold.default", unfold, NULL},
    {"aten.unfold_copy.default", unfold, NULL},
    {"aten.slice_scatter.default", slice_scatter, NULL},
    {"aten.select_scatter.default", select_scatter, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_shape = CFX__ONNX_RULES(rows);
