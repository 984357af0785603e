/* Default decompositions of indexing and padding. */
#include "core.h"

#include <cfx/ops.h>

#define T arg_tensor(c, 0)

CORE(_unsafe_index_Tensor) { c->out[0] = DO(index_Tensor, T, c->args[1]); }
CORE(_unsafe_index_put) {
    c->out[0] = DO(index_put, T, c->args[1], arg_tensor(c, 2), c->args[3]);
}

/* Indices that name one dimension: (None, None, index). */
static cfx_value at_dim(int dim, cfx_tensor *index) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < dim; i++)
        cfx_list_append(list.list, cfx_none());
    cfx_list_append(list.list, cfx_tensor_value(index));
    return list;
}

/* self, dim, index, values: values put at, or added to, the places of index in dim. */
static void put_rows(cfx_call *c, cfx_tensor *values, bool add) {
    cfx_tensor *t = T;
    bool number = t->ndim == 0;
    int dim = arg_dim(c, 1, t->ndim);
    if (dim < 0)
        return;
    if (number)
        t = DO(unsqueeze, t, 0);
    t = DO(index_put, t, at_dim(dim, arg_tensor(c, 2)), values, CFX_KW(accumulate, add));
    c->out[0] = number ? DO(squeeze_dim, t, 0) : t;
}

CORE(index_add) {
    cfx_tensor *values = arg_tensor(c, 3);
    if (cfx_number(c->args[4]) != 1)
        values = DO(mul_Tensor, values, c->args[4]);
    put_rows(c, values, true);
}
CORE(index_copy) { put_rows(c, arg_tensor(c, 3), false); }

CORE(index_fill) {
    cfx_tensor *t = T, *value = arg_tensor(c, 3);
    int dim = arg_dim(c, 1, t->ndim);
    if (dim < 0)
        return;
    if (!value)
        value = DO(full, cfx_list_value(0, NULL), c->args[3],
                   CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)),
                   CFX_KW(layout, cfx_layout_value(CFX_STRIDED)),
                   CFX_KW(device, cfx_device_value(t->device)));
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
        DO(arange, t->shape[dim], CFX_KW(device, cfx_device_value(t->device)));
    cfx_tensor *here = DO(eq_Scalar, DO(view, range, cfx_ints_value(t->ndim, shape)), index);
    cfx_tensor *src = DO(unsqueeze, arg_tensor(c, 1), dim);
    src = DO(expand, src, cfx_ints_value(t->ndim, t->shape));
    c->out[0] = DO(where_self, here, src, t);
}

/* ---- padding --------------------------------------------------------------------------------- */

/* The places that the padded dimension is taken from. */
static cfx_tensor *reflected(cfx_call *c, cfx_tensor *range, int64_t size) {
    cfx_tensor *inside = DO(rsub_Scalar, DO(abs, range), size - 1);
    return DO(rsub_Scalar, DO(abs, inside), size - 1);
}

static void padded(cfx_call *c, bool reflect) {
    cfx_tensor *t = T, *y = t;
    int64_t pad[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, pad) / 2;
    for (int i = 0; i < n && !op_failed(); i++) {
        int dim = t->ndim - n + i;
        int64_t size = t->shape[dim], left = pad[2 * (n - 1 - i)], right = pad[2 * (n - i) - 1];
        cfx_tensor *range = DO(arange_start, -left, size + right,
                               CFX_KW(device, cfx_device_value(t->device)));
        cfx_tensor *from = reflect ? reflected(c, range, size) : DO(clamp, range, 0, size - 1);
        y = DO(_unsafe_index_Tensor, y, at_dim(dim, from));
    }
    if (!op_failed())
        c->out[0] = DO(contiguous, y, CFX_KW(memory_format,
                                             cfx_memory_format_value(cfx__suggest_format(y))));
}
CORE(reflection_pad) { padded(c, true); }
CORE(replication_pad) { padded(c, false); }

#define ROW(name) {&cfx_op_##name, core_##name, false}

const core_row core_index[] = {ROW(_unsafe_index_Tensor),
                               ROW(_unsafe_index_put),
                               ROW(index_add),
                               ROW(index_copy),
                               {&cfx_op_index_fill_int_Scalar, core_index_fill, false},
                               {&cfx_op_index_fill_int_Tensor, core_index_fill, false},
                               ROW(take),
                               ROW(select_scatter),
                               {&cfx_op_reflection_pad1d, core_reflection_pad, false},
                               {&cfx_op_reflection_pad2d, core_reflection_pad, false},
                               {&cfx_op_reflection_pad3d, core_reflection_pad, false},
                               {&cfx_op_replication_pad1d, core_replication_pad, false},
                               {&cfx_op_replication_pad2d, core_replication_pad, false},
                               {&cfx_op_replication_pad3d, core_replication_pad, false},
                               {0}};
