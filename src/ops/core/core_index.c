/* Default decompositions of indexing and padding. */
#include "core.h"

#include <cfx/ops.h>

#include "../sizes.h"

#include <math.h>

#define T arg_tensor(c, 0)

CORE(_unsafe_index_Tensor) { c->out[0] = DO(index_Tensor, T, c->args[1]); }
CORE(_unsafe_index_put) {
    c->out[0] = DO(index_put, T, c->args[1], arg_tensor(c, 2), c->args[3]);
}

/* Indices that name one dimension: (None, None, index). */
static cfx_value at_dim(int dim, cfx_tensor *index) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < dim; i++)
        cfx_list_append(cfx_as_list(list), cfx_none());
    cfx_list_append(cfx_as_list(list), cfx_tensor_value(index));
    return list;
}

/* self, dim, index, values: values put at, or added to, the places of index in dim. */
static void put_rows(cfx_op_call *c, cfx_tensor *values, bool add) {
    cfx_tensor *t = T, *index = arg_tensor(c, 2);
    bool number = t->ndim == 0;
    int dim = arg_dim(c, 1, t->ndim);
    if (dim < 0)
        return;
    if (number)
        t = DO(unsqueeze, t, 0);
    if (!index->ndim)
        index = DO(unsqueeze, index, 0);
    t = DO(index_put, t, at_dim(dim, index), values, CFX_KW(accumulate, add));
    c->out[0] = number ? DO(squeeze_dim, t, 0) : t;
}

CORE(index_add) {
    cfx_tensor *values = arg_tensor(c, 3);
    if (!core_number_is(c->args[4], 1))
        values = core_to(c, DO(mul_Tensor, values, c->args[4]), T->dtype);
    put_rows(c, values, true);
}
CORE(index_copy) { put_rows(c, arg_tensor(c, 3), false); }

CORE(index_fill) {
    cfx_tensor *t = T, *value = arg_tensor(c, 3);
    int dim = arg_dim(c, 1, t->ndim);
    if (dim < 0)
        return;
    if (!value)
        value = DO(scalar_tensor, c->args[3], CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)),
                   CFX_KW(layout, cfx_layout_value(CFX_STRIDED)),
                   CFX_KW(device, cfx_device_value(t->device)), CFX_KW(pin_memory, false));
    value = core_to(c, value, t->dtype);
    int64_t shape[CFX_MAX_DIMS] = {arg_tensor(c, 2)->numel};
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[dim] = arg_tensor(c, 2)->numel;
    value = DO(expand, value, cfx_ints_value(t->ndim ? t->ndim : 1, shape));
    put_rows(c, value, false);
}

CORE(take) {
    cfx_tensor *flat = DO(reshape, T, cfx_list(-1));
    c->out[0] = DO(index_Tensor, flat, cfx_list(arg_tensor(c, 1)));
}

CORE(select_scatter) { /* self, src, dim, index */
    cfx_tensor *t = T;
    int dim = arg_dim(c, 2, t->ndim);
    if (dim < 0)
        return;
    int64_t shape[CFX_MAX_DIMS], index = arg_int(c, 3);
    for (int i = 0; i < t->ndim; i++)
        shape[i] = i == dim ? -1 : 1;
    if (index < 0)
        index += t->shape[dim];
    cfx_tensor *range =
        DO(arange, size_of(t, dim), CFX_KW(device, cfx_device_value(t->device)));
    cfx_tensor *here = DO(eq_Scalar, DO(view, range, cfx_ints_value(t->ndim, shape)), index);
    cfx_tensor *src = DO(unsqueeze, core_to(c, arg_tensor(c, 1), t->dtype), dim);
    src = DO(expand, src, size_list(t));
    c->out[0] = DO(where_self, here, src, t);
}

/* self, indices, output_size: what pooling picked, back at its places, by dims last dimensions. */
static void unpooled(cfx_op_call *c, int dims) {
    cfx_tensor *t = T;
    int64_t shape[CFX_MAX_DIMS], ones[CFX_MAX_DIMS], planes = 1, area = 1;
    int outer = t->ndim - dims;
    arg_ints(c, 2, shape + outer);
    for (int i = 0; i < t->ndim; i++) {
        shape[i] = i < outer ? t->shape[i] : shape[i];
        ones[i] = i < outer ? t->shape[i] : 1;
        *(i < outer ? &planes : &area) *= shape[i];
    }
    cfx_tensor *first = DO(arange, planes, CFX_KW(device, cfx_device_value(t->device)));
    first = DO(mul_Tensor, DO(view, first, cfx_ints_value(t->ndim, ones)), area);
    cfx_tensor *at = DO(add_Tensor, arg_tensor(c, 1), first);
    at = DO(reshape, at, cfx_list(-1));
    cfx_tensor *out = DO(new_zeros, t, cfx_ints_value(t->ndim, shape));
    cfx_tensor *flat = DO(reshape, out, cfx_list(-1));
    cfx_tensor *values = DO(reshape, t, cfx_list(-1));
    flat = DO(_unsafe_index_put, flat, cfx_list(at), values, false);
    c->out[0] = DO(view, flat, cfx_ints_value(t->ndim, shape));
}
CORE(max_unpool2d) { unpooled(c, 2); }
CORE(max_unpool3d) { unpooled(c, 3); }

/* grad_in, input_sizes, dim, size, step */
CORE(unfold_backward) {
    cfx_tensor *g = T;
    int64_t shape[CFX_MAX_DIMS];
    int ndim = arg_ints(c, 1, shape), dim = ndim ? arg_dim(c, 2, ndim) : 0;
    if (dim < 0 || op_failed())
        return;
    if (!ndim) {
        c->out[0] = DO(squeeze_copy_dim, g, 0);
        return;
    }
    cfx_tensor *at = DO(arange, shape[dim], CFX_KW(device, cfx_device_value(g->device)),
                        CFX_KW(dtype, cfx_dtype_value(CFX_I32)));
    at = DO(flatten_using_ints, DO(unfold, at, 0, c->args[3], c->args[4]));
    g = DO(flatten_using_ints, DO(movedim_int, g, -1, dim + 1), dim, dim + 1);
    cfx_tensor *out = DO(new_zeros, g, c->args[1]);
    out = DO(_unsafe_index_put, out, at_dim(dim, at), g, true);
    c->out[0] = DO(contiguous, out);
}

/* ---- searching ------------------------------------------------------------------------------- */

static cfx_tensor *inverted(cfx_op_call *c, cfx_op *by, cfx_tensor *found) {
    return arg_bool(c, 3) ? core_do(c, by, CFX_ARGS(found)) : found;
}

/* Each element beside each of a few others. */
static void isin_few(cfx_op_call *c, cfx_tensor *x, cfx_tensor *set) {
    int64_t shape[CFX_MAX_DIMS], dims[CFX_MAX_DIMS];
    if (x->ndim + set->ndim > CFX_MAX_DIMS) {
        op_fail(c, "isin of %d dimensions in %d has too many dimensions", x->ndim, set->ndim);
        return;
    }
    for (int i = 0; i < x->ndim + set->ndim; i++)
        shape[i] = i < x->ndim ? x->shape[i] : 1;
    for (int i = 0; i < set->ndim; i++)
        dims[i] = -1 - i;
    cfx_tensor *same = set->ndim ? DO(view, x, cfx_ints_value(x->ndim + set->ndim, shape)) : x;
    same = DO(eq_Tensor, same, set);
    if (set->ndim)
        same = DO(any_dims, same, cfx_ints_value(set->ndim, dims));
    c->out[0] = inverted(c, &cfx_op_bitwise_not, same);
}

/* Elements and others in one row, sorted: who is beside the same number. */
static void isin_unique(cfx_op_call *c, cfx_tensor *x, cfx_tensor *flat, cfx_tensor *set) {
    cfx_tensor *all = DO(cat, cfx_list(flat, set));
    cfx_value sorted = DO_ALL(sort_stable, all, CFX_KW(stable, true));
    cfx_tensor *row = cfx_tensor_at(sorted, 0), *order = cfx_tensor_at(sorted, 1);
    cfx_tensor *twice = DO(eq_Tensor, DO(slice_Tensor, row, 0, 1, INT64_MAX),
                           DO(slice_Tensor, row, 0, 0, -1));
    twice = DO(constant_pad_nd, twice, cfx_list(0, 1), false);
    twice = inverted(c, &cfx_op_logical_not, twice);
    cfx_tensor *mask = DO(index_copy, DO(empty_like, twice), 0, order, twice);
    mask = DO(slice_Tensor, mask, 0, 0, x->numel);
    c->out[0] = DO(reshape, mask, size_list(x));
}

/* Where each element would stand among many others in order. */
static void isin_many(cfx_op_call *c, cfx_tensor *x, cfx_tensor *flat, cfx_tensor *set) {
    cfx_tensor *row = cfx_tensor_at(DO_ALL(sort, set), 0);
    cfx_tensor *at = DO(searchsorted_Tensor, row, flat);
    if (op_failed())
        return;
    at = DO(where_ScalarOther, DO(lt_Scalar, at, row->numel), at, 0);
    cfx_tensor *same = DO(eq_Tensor, DO(index_Tensor, row, cfx_list(at)), flat);
    same = inverted(c, &cfx_op_logical_not, same);
    c->out[0] = DO(reshape, same, size_list(x));
}

/* The number that is looked for, as it is compared: in the dtype of both. PyTorch makes a float32
 * of it, which is the same where float32 holds all numbers of that dtype. */
static cfx_tensor *isin_number(cfx_op_call *c, const cfx_tensor *set) {
    cfx_dtype d = arg_result_type(c, 2);
    cfx_value number = core_fitting(c->args[0], d), device = cfx_device_value(set->device);
    if (d == CFX_I32 || d == CFX_I64 || d == CFX_F64)
        return DO(scalar_tensor, number, CFX_KW(dtype, cfx_dtype_value(d)), CFX_KW(device, device));
    return DO(scalar_tensor, number, CFX_KW(device, device));
}

CORE(isin) { /* elements, test_elements, assume_unique, invert */
    cfx_tensor *x = T, *set = arg_tensor(c, 1);
    if (!set) {
        c->out[0] = core_do(c, arg_bool(c, 3) ? &cfx_op_ne_Scalar : &cfx_op_eq_Scalar,
                            CFX_ARGS(x, c->args[1]));
        return;
    }
    if (!x)
        x = isin_number(c, set);
    if (op_failed())
        return;
    if (!x->numel) {
        c->out[0] = DO(empty_like, x, CFX_KW(dtype, cfx_dtype_value(CFX_BOOL)));
        return;
    }
    if ((double)set->numel < 10.0 * pow((double)x->numel, 0.145)) {
        isin_few(c, x, set);
        return;
    }
    cfx_tensor *flat = DO(flatten_using_ints, x), *others = DO(flatten_using_ints, set);
    if (arg_bool(c, 2))
        isin_unique(c, x, flat, others);
    else
        isin_many(c, x, flat, others);
}

/* ---- padding --------------------------------------------------------------------------------- */

/* The places that the padded dimension is taken from. */
static cfx_tensor *reflected(cfx_op_call *c, cfx_tensor *range, cfx_value size) {
    cfx_value last = size_minus(size, 1);
    cfx_tensor *inside = DO(rsub_Scalar, DO(abs, range), last);
    return DO(rsub_Scalar, DO(abs, inside), last);
}

static void padded(cfx_op_call *c, bool reflect) {
    cfx_tensor *t = T, *y = t;
    const cfx_value pad = c->args[1];
    int n = (int)cfx_as_list(pad)->len / 2;
    for (int i = 0; i < n && !op_failed(); i++) {
        int dim = t->ndim - n + i;
        cfx_value size = size_of(t, dim), start = size_negative(cfx_at(pad, 2 * (n - 1 - i)));
        cfx_tensor *range = DO(arange_start, start, size_plus(size, cfx_at(pad, 2 * (n - i) - 1)),
                               CFX_KW(device, cfx_device_value(t->device)));
        cfx_tensor *from = reflect ? reflected(c, range, size)
                                   : DO(clamp, range, 0, size_minus(size, 1));
        cfx_value at = at_dim(dim, from);
        while (cfx_as_list(at)->len < t->ndim)
            cfx_list_append(cfx_as_list(at), cfx_none());
        y = DO(_unsafe_index_Tensor, y, at);
    }
    if (!op_failed())
        c->out[0] =
            DO(contiguous, y,
               CFX_KW(memory_format, cfx_memory_format_value(cfx__tensor_suggest_format(y))));
}
CORE(reflection_pad) { padded(c, true); }
CORE(replication_pad) { padded(c, false); }

/* ---- padding in a ring ----------------------------------------------------------------------- */

static int64_t no_less(int64_t a) { return a > 0 ? a : 0; }

#define part_of(t, dim, from, to) DO(slice_Tensor, t, dim, from, to)

static void copy_part(cfx_op_call *c, cfx_tensor *to, cfx_tensor *from) {
    if (!op_failed())
        cfx_fn_call_inplace_from(c->at, cfx_fn_find("copy"), CFX_ARGS(to, from));
}

/* self, pad: written in place, first the middle, then the ends from what is there. */
CORE(_pad_circular) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t pad[CFX_MAX_DIMS];
    cfx_value shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, pad) / 2;
    for (int i = 0; i < t->ndim; i++)
        shape[i] = size_of(t, i);
    for (int i = 0; i < n; i++)
        shape[t->ndim - 1 - i] =
            size_plus(size_plus(shape[t->ndim - 1 - i], pad[2 * i]), pad[2 * i + 1]);
    cfx_tensor *out = DO(new_empty, t, cfx_list_value(t->ndim, shape)), *to = out, *from = t;
    for (int i = 0; i < n; i++) {
        int dim = t->ndim - 1 - i;
        int64_t l = pad[2 * i], r = pad[2 * i + 1];
        to = part_of(to, dim, no_less(l), size_minus(shape[dim], no_less(r)));
        from = part_of(from, dim, no_less(-l), size_minus(size_of(t, dim), no_less(-r)));
    }
    copy_part(c, to, from);
    for (int i = 0; i < n && !op_failed(); i++) {
        int dim = t->ndim - 1 - i;
        int64_t l = pad[2 * i], r = pad[2 * i + 1];
        cfx_value end = shape[dim];
        if (l > 0) {
            cfx_value first = size_minus(size_minus(end, l), no_less(r));
            to = part_of(out, dim, 0, l);
            copy_part(c, to, part_of(out, dim, first, size_minus(end, no_less(r))));
        }
        if (r > 0) {
            to = part_of(out, dim, size_minus(end, r), end);
            copy_part(c, to, part_of(out, dim, no_less(l), no_less(l) + r));
        }
    }
    c->out[0] = out;
}

/* ---- columns of an image --------------------------------------------------------------------- */

/* Where each place of the kernel finds its element in each block along one dimension. */
static cfx_tensor *block_places(cfx_op_call *c, cfx_value size, int64_t kernel, int64_t dilation,
                                int64_t pad, int64_t stride) {
    cfx_value where = cfx_device_value(T->device), i64 = cfx_dtype_value(CFX_I64);
    cfx_value blocks = size_minus(size_plus(size, pad * 2), dilation * (kernel - 1));
    cfx_tensor *start = DO(arange_start_step, 0, blocks, stride, CFX_KW(dtype, i64),
                           CFX_KW(device, where), CFX_KW(pin_memory, false));
    start = DO(unsqueeze, start, 0);
    cfx_tensor *inside = DO(arange_start_step, 0, kernel * dilation, dilation, CFX_KW(dtype, i64),
                            CFX_KW(device, where), CFX_KW(pin_memory, false));
    return DO(add_Tensor, start, DO(unsqueeze, inside, -1));
}

/* Four pairs of arguments from `at` on: kernel, dilation, padding, stride. */
static bool window_args(cfx_op_call *c, int at, int64_t w[4][CFX_MAX_DIMS]) {
    for (int i = 0; i < 4; i++)
        if (arg_ints(c, at + i, w[i]) == 1)
            w[i][1] = w[i][0];
    return !op_failed();
}

CORE(im2col) {
    int64_t w[4][CFX_MAX_DIMS];
    cfx_tensor *x = T;
    bool single = x->ndim == 3;
    if (!window_args(c, 1, w))
        return;
    if (single)
        x = DO(unsqueeze, x, 0);
    if (op_failed())
        return;
    cfx_tensor *row = block_places(c, size_of(x, 2), w[0][0], w[1][0], w[2][0], w[3][0]);
    cfx_tensor *col = block_places(c, size_of(x, 3), w[0][1], w[1][1], w[2][1], w[3][1]);
    cfx_tensor *padded_x =
        DO(constant_pad_nd, x, cfx_list(w[2][1], w[2][1], w[2][0], w[2][0]), 0.0);
    if (op_failed())
        return;
    cfx_value rows = size_of(row, 1);
    row = DO(unsqueeze, DO(unsqueeze, row, -1), -1);
    for (int i = 0; i < 2; i++) /* [:, :, of which those are calls that may be less than all */
        if (size_varies(x->shape[i]))
            padded_x = DO(slice_Tensor, padded_x, i, 0, INT64_MAX);
    cfx_value at = at_dim(2, row);
    cfx_list_append(cfx_as_list(at), cfx_tensor_value(col));
    cfx_tensor *y = DO(permute, DO(index_Tensor, padded_x, at), cfx_list(0, 1, 2, 4, 3, 5));
    cfx_value blocks = op_failed() ? cfx_int(0) : size_times(rows, size_of(col, 1));
    y = DO(reshape, y, cfx_list(size_of(x, 0), x->shape[1] * w[0][0] * w[0][1], blocks));
    c->out[0] = single ? DO(squeeze_dim, y, 0) : y;
}

/* self, output_size, kernel, dilation, padding, stride: the gradient of im2col. */
CORE(col2im) {
    int64_t w[4][CFX_MAX_DIMS], size[CFX_MAX_DIMS], col[2];
    cfx_tensor *x = T;
    bool single = x->ndim == 2;
    if (!window_args(c, 2, w) || arg_ints(c, 1, size) != 2)
        return;
    if (single)
        x = DO(unsqueeze, x, 0);
    if (op_failed())
        return;
    for (int i = 0; i < 2; i++)
        col[i] = (size[i] + 2 * w[2][i] - w[1][i] * (w[0][i] - 1) - 1) / w[3][i] + 1;
    int64_t channels = x->shape[1] / (w[0][0] * w[0][1]);
    cfx_tensor *y =
        DO(reshape, x, cfx_list(x->shape[0], channels, w[0][0], w[0][1], col[0], col[1]));
    y = DO(permute, y, cfx_list(0, 1, 2, 4, 3, 5));
    cfx_tensor *row = block_places(c, cfx_int(size[0]), w[0][0], w[1][0], w[2][0], w[3][0]);
    row = DO(unsqueeze, DO(unsqueeze, row, -1), -1);
    cfx_value at = at_dim(2, row);
    cfx_list_append(cfx_as_list(at),
                    cfx_tensor_value(block_places(c, cfx_int(size[1]), w[0][1], w[1][1], w[2][1],
                                                  w[3][1])));
    cfx_tensor *sum =
        DO(new_zeros, x,
           cfx_list(x->shape[0], channels, size[0] + 2 * w[2][0], size[1] + 2 * w[2][1]));
    sum = DO(_unsafe_index_put, sum, at, y, true);
    sum = DO(constant_pad_nd, sum, cfx_list(-w[2][1], -w[2][1], -w[2][0], -w[2][0]), 0.0);
    c->out[0] = single ? DO(squeeze_dim, sum, 0) : sum;
}
