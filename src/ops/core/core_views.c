/* Default decompositions of views and of operators that move elements about. */
#include "core.h"

#include <cfx/ops.h>

#include "../sizes.h"

#define T arg_tensor(c, 0)

/* ---- order of dimensions --------------------------------------------------------------------- */

static void swapped(cfx_op_call *c, int64_t a, int64_t b) {
    cfx_tensor *t = T;
    int i = cfx__shape_wrap_dim(c->at, a, t->ndim), k = cfx__shape_wrap_dim(c->at, b, t->ndim);
    if (i < 0 || k < 0)
        return;
    if (t->ndim <= 1 || i == k) {
        c->out[0] = DO(alias, t);
        return;
    }
    int64_t dims[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++)
        dims[d] = d;
    dims[i] = k, dims[k] = i;
    c->out[0] = DO(permute, t, cfx_ints_value(t->ndim, dims));
}
CORE(transpose_int) { swapped(c, arg_int(c, 1), arg_int(c, 2)); }
CORE(t) { swapped(c, 0, T->ndim < 2 ? 0 : 1); }

CORE(detach) { c->out[0] = DO(alias, T); }
CORE(_unsafe_view) { c->out[0] = DO(view, T, c->args[1]); }

CORE(squeeze) {
    int64_t dims[CFX_MAX_DIMS];
    for (int d = 0; d < T->ndim; d++)
        dims[d] = d;
    c->out[0] = DO(squeeze_dims, T, cfx_ints_value(T->ndim, dims));
}
CORE(squeeze_dim) { c->out[0] = DO(squeeze_dims, T, cfx_list(c->args[1])); }

/* ---- cutting and joining --------------------------------------------------------------------- */

CORE(split_Tensor) {
    const cfx_tensor *t = T;
    int dim = arg_dim(c, 2, t->ndim);
    int64_t size = arg_int(c, 1);
    if (dim < 0)
        return;
    if (size <= 0) {
        cfx_tensor *whole = DO(detach, T);
        c->result = cfx_list(whole);
        return;
    }
    size = size < INT64_MAX / 2 ? size : INT64_MAX / 2;
    cfx_value sizes = cfx_list_value(0, NULL);
    int64_t n = t->shape[dim] ? (t->shape[dim] + size - 1) / size : 1; /* no size: a number */
    cfx_value each = size == arg_int(c, 1) ? c->args[1] : cfx_int(size);
    cfx_value beyond = size_minus(size_times(each, n), size_of(t, dim));
    cfx_value last = size_minus(each, beyond);
    for (int64_t i = 0; i < n && !op_failed(); i++)
        cfx_list_append(cfx_as_list(sizes), i < n - 1 ? each : last);
    c->result = DO_ALL(split_with_sizes, T, sizes, c->args[2]);
}
CORE(unsafe_split_Tensor) { c->result = DO_ALL(split_Tensor, T, c->args[1], c->args[2]); }
CORE(unsafe_split_with_sizes) { c->result = DO_ALL(split_with_sizes, T, c->args[1], c->args[2]); }

CORE(unbind_int) {
    int dim = arg_dim(c, 1, T->ndim);
    if (dim < 0)
        return;
    cfx_value out = cfx_list_value(0, NULL);
    if (T->shape[dim]) {
        cfx_value parts = DO_ALL(tensor_split_sections, T, T->shape[dim], dim);
        for (int64_t i = 0; i < T->shape[dim] && !op_failed(); i++)
            cfx_list_append(cfx_as_list(out),
                            cfx_tensor_value(DO(squeeze_dim, cfx_tensor_at(parts, i), dim)));
    }
    c->result = out;
}

CORE(stack) {
    const cfx_tensor *first = arg_count(c, 0) ? arg_item(c, 0, 0) : NULL;
    if (!first) {
        op_fail(c, "stack expects a non-empty TensorList");
        return;
    }
    int64_t n = arg_count(c, 0);
    int dim = cfx__shape_wrap_dim(c->at, arg_int(c, 1), first->ndim + 1);
    if (dim < 0)
        return;
    if (dim < first->ndim) {
        int64_t shape[CFX_MAX_DIMS + 1];
        memcpy(shape, first->shape, (size_t)dim * sizeof *shape);
        shape[dim] = n;
        memcpy(shape + dim + 1, first->shape + dim, (size_t)(first->ndim - dim) * sizeof *shape);
        c->out[0] = DO(view, DO(cat, c->args[0], dim), cfx_ints_value(first->ndim + 1, shape));
        return;
    }
    cfx_value rows = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n && !op_failed(); i++)
        cfx_list_append(cfx_as_list(rows), cfx_tensor_value(DO(unsqueeze, arg_item(c, 0, i), dim)));
    c->out[0] = DO(cat, rows, c->args[1]);
}

/* ---- moving elements about ------------------------------------------------------------------- */

static cfx_tensor *rolled(cfx_op_call *c, cfx_tensor *t, int64_t shift, int dim) {
    cfx_value size = size_of(t, dim);
    shift = shift < -INT32_MAX || shift > INT32_MAX ? shift % t->shape[dim] : shift;
    cfx_value start = size_modulo(size_minus(size, shift), size);
    cfx_tensor *range = DO(arange, size, CFX_KW(device, cfx_device_value(t->device)));
    cfx_tensor *from = DO(fmod_Scalar, DO(add_Tensor, range, start), size);
    return DO(index_select, t, dim, from);
}

CORE(roll) {
    cfx_tensor *t = T;
    int64_t shifts[CFX_MAX_DIMS], dims[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shifts), m = arg_ints(c, 2, dims);
    if (op_failed())
        return;
    if (!t->numel) {
        c->out[0] = DO(clone, t);
        return;
    }
    if (!m && n == 1) {
        cfx_tensor *flat = DO(flatten_using_ints, t);
        if (!op_failed())
            c->out[0] = DO(view, rolled(c, flat, shifts[0], 0), size_list(t));
        return;
    }
    for (int i = 0; i < n && i < m && !op_failed(); i++) {
        int dim = cfx__shape_wrap_dim(c->at, dims[i], t->ndim);
        if (dim >= 0)
            t = rolled(c, t, shifts[i], dim);
    }
    c->out[0] = t;
}

CORE(rot90) {
    int64_t dims[CFX_MAX_DIMS], turns = ((arg_int(c, 1) % 4) + 4) % 4;
    int n = arg_ints(c, 2, dims);
    if (op_failed() || n != 2)
        return;
    if (turns == 0)
        c->out[0] = DO(clone, T, CFX_KW(memory_format, cfx_memory_format_value(CFX_CONTIGUOUS)));
    else if (turns == 2)
        c->out[0] = DO(flip, T, c->args[2]);
    else
        c->out[0] = DO(transpose_int, DO(flip, T, cfx_list(dims[turns == 1 ? 1 : 0])), dims[0],
                       dims[1]);
}

/* Channels to places in the image, or back: a view of two more dimensions, turned. */
static void shuffled(cfx_op_call *c, bool unshuffle) {
    cfx_tensor *t = T;
    int64_t f = arg_int(c, 1), order[CFX_MAX_DIMS + 2];
    cfx_value wide[CFX_MAX_DIMS + 2], shape[CFX_MAX_DIMS];
    int n = t->ndim - 3;
    if (n < 0 || f <= 0 || t->ndim + 2 > CFX_MAX_DIMS) {
        op_fail(c, "%s expects an image of channels and a positive factor", op_title(c));
        return;
    }
    cfx_value ch = size_of(t, n), h = size_of(t, n + 1), w = size_of(t, n + 2);
    for (int i = 0; i < n; i++)
        wide[i] = shape[i] = size_of(t, i), order[i] = i;
    shape[n] = unshuffle ? size_times(ch, f * f) : size_over(ch, f * f);
    shape[n + 1] = unshuffle ? size_over(h, f) : size_times(h, f);
    shape[n + 2] = unshuffle ? size_over(w, f) : size_times(w, f);
    cfx_value by = cfx_int(f), split[] = {shape[n], by, by, h, w},
              join[] = {ch, shape[n + 1], by, shape[n + 2], by};
    int spread[] = {0, 3, 1, 4, 2}, gather[] = {0, 2, 4, 1, 3};
    for (int i = 0; i < 5; i++) {
        wide[n + i] = unshuffle ? join[i] : split[i];
        order[n + i] = n + (unshuffle ? gather[i] : spread[i]);
    }
    cfx_tensor *y = DO(permute, DO(view, t, cfx_list_value(n + 5, wide)),
                       cfx_ints_value(n + 5, order));
    y = DO(reshape, y, cfx_list_value(t->ndim, shape));
    cfx_value format = cfx_memory_format_value(cfx__tensor_suggest_format(t));
    c->out[0] = DO(clone, y, CFX_KW(memory_format, format));
}
CORE(pixel_shuffle) { shuffled(c, false); }
CORE(pixel_unshuffle) { shuffled(c, true); }

CORE(channel_shuffle) {
    cfx_tensor *t = T;
    int64_t groups = arg_int(c, 1), wide[CFX_MAX_DIMS + 1];
    if (t->ndim < 3 || groups <= 0 || t->shape[1] % groups) {
        op_fail(c, "channel_shuffle expects channels that groups divide");
        return;
    }
    wide[0] = t->shape[0], wide[1] = groups, wide[2] = t->shape[1] / groups;
    memcpy(wide + 3, t->shape + 2, (size_t)(t->ndim - 2) * sizeof *wide);
    cfx_tensor *y = DO(view, t, cfx_ints_value(t->ndim + 1, wide));
    y = DO(contiguous, DO(transpose_int, y, 1, 2));
    c->out[0] = DO(view, y, size_list(t));
}

/* ---- copies of views ------------------------------------------------------------------------- */

#define COPY(...) DO(clone, DO(__VA_ARGS__), CFX_KW(memory_format, cfx_contiguous_format))

CORE(alias_copy) { c->out[0] = COPY(alias, T); }
CORE(t_copy) { c->out[0] = COPY(t, T); }
CORE(transpose_copy_int) { c->out[0] = COPY(transpose_int, T, c->args[1], c->args[2]); }
CORE(unsqueeze_copy) { c->out[0] = COPY(unsqueeze, T, c->args[1]); }
CORE(squeeze_copy) { c->out[0] = COPY(squeeze, T); }
CORE(squeeze_copy_dim) { c->out[0] = COPY(squeeze_dim, T, c->args[1]); }
CORE(squeeze_copy_dims) { c->out[0] = COPY(squeeze_dims, T, c->args[1]); }
CORE(expand_copy) { c->out[0] = COPY(expand, T, c->args[1]); }
CORE(diagonal_copy) { c->out[0] = COPY(diagonal, T, c->args[1], c->args[2], c->args[3]); }
CORE(unfold_copy) { c->out[0] = COPY(unfold, T, c->args[1], c->args[2], c->args[3]); }

/* ---- triangles ------------------------------------------------------------------------------- */

static void triangle(cfx_op_call *c, cfx_op *compare) {
    cfx_tensor *t = T;
    if (t->ndim < 2) {
        op_fail(c, "%s: input tensor must have at least 2 dimensions", op_title(c));
        return;
    }
    cfx_value device = cfx_device_value(t->device);
    cfx_tensor *cols =
        DO(unsqueeze, DO(arange, size_of(t, t->ndim - 1), CFX_KW(device, device)), -2);
    cfx_tensor *rows =
        DO(unsqueeze, DO(arange, size_of(t, t->ndim - 2), CFX_KW(device, device)), -1);
    cfx_tensor *inside =
        core_do(c, compare, CFX_ARGS(DO(sub_Tensor, cols, rows), c->args[1]));
    c->out[0] = DO(contiguous, t->dtype == CFX_BOOL ? DO(logical_and, inside, t)
                                                    : DO(where_ScalarOther, inside, t, 0));
}
CORE(tril) { triangle(c, &cfx_op_le_Scalar); }
CORE(triu) { triangle(c, &cfx_op_ge_Scalar); }

/* self, offset, dim1, dim2: seen as columns, of which a mask keeps the diagonal. */
CORE(diag_embed) {
    cfx_tensor *t = T;
    int64_t offset = arg_int(c, 1), shape[CFX_MAX_DIMS + 1];
    int n = t->ndim + 1, a = cfx__shape_wrap_dim(c->at, arg_int(c, 2), n);
    int b = a < 0 ? -1 : cfx__shape_wrap_dim(c->at, arg_int(c, 3), n);
    if (a < 0 || b < 0)
        return;
    if (a > b) {
        int other = a;
        a = b, b = other, offset = -offset;
    }
    int64_t more = offset < 0 ? -offset : offset;
    cfx_value size = size_of(t, t->ndim - 1);
    cfx_value device = cfx_device_value(t->device), i64 = cfx_dtype_value(CFX_I64);
    if (offset) {
        memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
        shape[t->ndim - 1] = more;
        cfx_tensor *zeros = DO(zeros, cfx_ints_value(t->ndim, shape),
                               CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)),
                               CFX_KW(device, device));
        t = DO(cat, offset > 0 ? cfx_list(zeros, t) : cfx_list(t, zeros), -1);
        size = size_plus(size, more);
    }
    t = DO(movedim_int, DO(unsqueeze, t, a), -1, b);
    if (cfx__dtype_is_barebones(t->dtype)) /* which where does not take */
        t = core_to(c, t, CFX_I64);
    cfx_tensor *rows = DO(arange, size, CFX_KW(dtype, i64), CFX_KW(device, device));
    cfx_tensor *cols = DO(arange_start, offset, size_plus(size, offset), CFX_KW(dtype, i64),
                          CFX_KW(device, device));
    cfx_value square = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(square), i == a || i == b ? size : cfx_int(1));
    cfx_tensor *kept = DO(eq_Tensor, rows, DO(unsqueeze, cols, -1));
    kept = DO(reshape, kept, square);
    c->out[0] = DO(contiguous, t->dtype == CFX_BOOL ? DO(logical_and, kept, t)
                                                    : DO(where_ScalarOther, kept, t, 0));
}

/* Each with zeros on both sides, below each other. */
CORE(block_diag) {
    cfx_value rows = cfx_list_value(0, NULL);
    int64_t n = arg_count(c, 0), width = 0, start = 0;
    cfx_tensor **t = scratch(c, CFX_I64, n);
    for (int64_t i = 0; i < n && !op_failed(); i++) {
        t[i] = arg_item(c, 0, i);
        t[i] = t[i]->ndim < 2 ? DO(view, t[i], cfx_list(1, -1)) : t[i];
        width += cfx__obj_is_bad(t[i]) ? 0 : t[i]->shape[1];
    }
    for (int64_t i = 0; i < n && !op_failed(); i++) {
        int64_t row = t[i]->shape[0], after = width - start - t[i]->shape[1];
        cfx_value d = cfx_dtype_value((cfx_dtype)t[i]->dtype), at = cfx_device_value(t[0]->device);
        cfx_tensor *l = DO(zeros, cfx_list(row, start), CFX_KW(dtype, d), CFX_KW(device, at));
        cfx_tensor *r = DO(zeros, cfx_list(row, after), CFX_KW(dtype, d), CFX_KW(device, at));
        cfx_list_append(cfx_as_list(rows), cfx_tensor_value(DO(cat, cfx_list(l, t[i], r), 1)));
        start += t[i]->shape[1];
    }
    if (!op_failed())
        c->out[0] = n ? DO(cat, rows) : DO(zeros, cfx_list(1, 0));
}
