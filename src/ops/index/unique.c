/* Elements or slices without repetition. Shapes of results depend on data: kernels make them. */
#include "sort.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* What a search for different elements found, in items: `first` of each kind, the kind of each
 * position, how many of each. The arrays belong to the scope. */
typedef struct {
    int64_t n, kinds;
    int64_t *first, *kind, *count;
} groups;

static bool groups_make(cfx_op_call *c, groups *g, int64_t n) {
    *g = (groups){.n = n};
    g->first = scratch(c, CFX_I64, n);
    g->kind = scratch(c, CFX_I64, n);
    g->count = scratch(c, CFX_I64, n);
    return !op_failed();
}

/* Position i, which comes next in the order, opens a kind or joins the last one. */
static void groups_add(groups *g, int64_t i, bool opens) {
    if (opens) {
        g->first[g->kinds] = i;
        g->count[g->kinds++] = 0;
    }
    g->kind[i] = g->kinds - 1;
    g->count[g->kinds - 1]++;
}

/* An int64 result of n numbers, or an empty one where it was not asked for. */
static void out_numbers(cfx_op_call *c, int i, bool wanted, int ndim, const int64_t *shape,
                        const int64_t *from) {
    cfx_tensor *t = out_new(c, i, CFX_I64, wanted ? ndim : 1, wanted ? shape : (int64_t[]){0});
    if (from && !op_failed() && t->numel)
        memcpy(t->data, from, (size_t)t->numel * sizeof *from);
}

static bool orderable(cfx_op_call *c, cfx_dtype d) {
    if (cfx__dtype_is_barebones(d) || (cfx__dtype_is_computed(d) && !cfx__dtype_is_complex(d)))
        return true;
    op_fail_as(NOT_IMPLEMENTED, c, "\"unique\" not implemented for '%s'", cfx__dtype_title(d));
    return false;
}

/* Keys of a contiguous tensor's elements; NaNs are identified by `nan`. */
static const uint64_t *keys_of(cfx_op_call *c, const cfx_tensor *x, uint64_t *nan) {
    uint64_t *keys = scratch(c, CFX_I64, x->numel);
    if (op_failed())
        return NULL;
    sort_keys(keys, x->data, cfx_dtype_size(x->dtype), x->dtype, x->numel, false);
    *nan = x->dtype == CFX_F64 ? UINT64_MAX : cfx__dtype_is_float(x->dtype) ? UINT32_MAX : 0;
    return keys;
}

/* ---- elements -------------------------------------------------------------------------------- */

static void put_elements(cfx_op_call *c, const cfx_tensor *x, const groups *g, bool inverse,
                         bool counts) {
    cfx_tensor *values = out_new(c, 0, x->dtype, 1, &g->kinds);
    if (op_failed())
        return;
    size_t size = (size_t)cfx_dtype_size(x->dtype);
    for (int64_t i = 0; i < g->kinds; i++)
        memcpy(values->data + (size_t)i * size, x->data + (size_t)g->first[i] * size, size);
    const cfx_tensor *self = arg_tensor(c, 0);
    out_numbers(c, 1, inverse, self->ndim, self->shape, g->kind);
    if (c->nout > 2)
        out_numbers(c, 2, counts, 1, &g->kinds, g->count);
}

static void kernel_unique(cfx_op_call *c) {
    const cfx_tensor *x = cfx__tensor_contiguous(arg_tensor(c, 0));
    bool counts = c->nargs > 3 && arg_bool(c, 3);
    groups g;
    uint64_t nan = 0;
    if (!orderable(c, x->dtype) || !groups_make(c, &g, x->numel))
        return;
    sort_item *items = scratch(c, CFX_C128, 2 * x->numel);
    const uint64_t *keys = keys_of(c, x, &nan);
    if (op_failed())
        return;
    bool floats = cfx__dtype_is_float(x->dtype);
    for (int64_t i = 0; i < x->numel; i++)
        items[i] = (sort_item){keys[i], i};
    sort_items(items, items + x->numel, x->numel);
    for (int64_t i = 0; i < x->numel; i++)
        groups_add(&g, items[i].at, i == 0 || items[i].key != items[i - 1].key ||
                                        (floats && items[i].key == nan));
    put_elements(c, x, &g, arg_bool(c, 2), counts);
}

/* Values, which one each element is, and how often each occurs; empty where not asked for. */
static void shape_elements(cfx_op_call *c, bool inverse, bool counts) {
    const cfx_tensor *self = arg_tensor(c, 0);
    int64_t kinds, none = 0;
    if (!op_data_size(c, &kinds))
        return;
    out_new(c, 0, self->dtype, 1, &kinds);
    out_new(c, 1, CFX_I64, inverse ? self->ndim : 1, inverse ? self->shape : &none);
    if (c->nout > 2)
        out_new(c, 2, CFX_I64, 1, counts ? &kinds : &none);
}

static void shape_unique(cfx_op_call *c) {
    shape_elements(c, arg_bool(c, 2), c->nargs > 3 && arg_bool(c, 3));
}

CFX_OP(_unique2) = {"aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool "
                    "return_counts=False) -> (Tensor, Tensor, Tensor)",
                    "torch._unique2",
                    .shape = shape_unique,
                    .kernel = kernel_unique,
                    .dtypes = CFX_IN_AS_IS | CFX_IN_UINT,
                    .effects = CFX_DATA_SHAPE, .out = "out"};
CFX_OP(_unique) = {"aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> "
                   "(Tensor, Tensor)",
                   "torch._unique",
                   .shape = shape_unique,
                   .kernel = kernel_unique,
                   .dtypes = CFX_IN_AS_IS | CFX_IN_UINT,
                   .effects = CFX_DATA_SHAPE, .out = "out"};

/* ---- slices ---------------------------------------------------------------------------------- */

/* x as rows, one for each index of dim. */
static cfx_tensor *rows_of(cfx_op_call *c, const cfx_tensor *x, int dim) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    shape[0] = x->shape[dim];
    stride[0] = x->stride[dim];
    for (int d = 0, n = 1; d < x->ndim; d++)
        if (d != dim) {
            shape[n] = x->shape[d];
            stride[n++] = x->stride[d];
        }
    (void)c;
    return cfx__tensor_contiguous(cfx__tensor_alias(x, x->ndim, shape, stride, x->offset));
}

/* The first keys that differ decide. */
static int compare(const uint64_t *a, const uint64_t *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static bool holds(const uint64_t *row, int64_t n, uint64_t key) {
    for (int64_t i = 0; i < n; i++)
        if (row[i] == key)
            return true;
    return false;
}

/* Stable merge sort of row numbers. */
static void sort_rows(int64_t *order, int64_t *spare, int64_t n, const uint64_t *keys,
                      int64_t width) {
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            int64_t mid = i + run < n ? i + run : n, end = i + 2 * run < n ? i + 2 * run : n;
            for (int64_t l = i, r = mid, o = i; o < end; o++) {
                bool left = l < mid && (r >= end || compare(keys + order[l] * width,
                                                            keys + order[r] * width, width) <= 0);
                spare[o] = left ? order[l++] : order[r++];
            }
        }
        memcpy(order, spare, (size_t)n * sizeof *order);
    }
}

static void put_rows(cfx_op_call *c, const cfx_tensor *rows, int dim, const groups *g) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    memcpy(shape, rows->shape, (size_t)rows->ndim * sizeof *shape);
    shape[0] = g->kinds;
    cfx_tensor *found = cfx__tensor_empty(c->at, x->dtype, false, rows->ndim, shape, NULL);
    if (op_failed())
        return;
    size_t bytes = (size_t)(rows->numel / rows->shape[0] * cfx_dtype_size(x->dtype));
    for (int64_t i = 0; i < g->kinds; i++)
        memcpy(found->data + (size_t)i * bytes, rows->data + (size_t)g->first[i] * bytes, bytes);
    for (int d = 0, n = 1; d < x->ndim; d++) {
        shape[d] = d == dim ? g->kinds : x->shape[d];
        stride[d] = d == dim ? found->stride[0] : found->stride[n++];
    }
    out_view(c, 0, found, x->ndim, shape, stride, 0);
    out_numbers(c, 1, true, 1, &g->n, g->kind);
    out_numbers(c, 2, true, 1, &g->kinds, g->count);
}

static void unique_rows(cfx_op_call *c, int dim, bool sorted) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int zeros = 0;
    if (x->ndim == 0) {
        x = cfx__tensor_alias(x, 1, (int64_t[]){1}, (int64_t[]){1}, x->offset);
        c->args[0] = cfx_tensor_value(x);
    }
    for (int d = 0; d < x->ndim; d++)
        zeros += x->shape[d] == 0;
    if (!orderable(c, x->dtype))
        return;
    if (x->shape[dim] == 0) {
        if (zeros > 1) {
            op_fail(c, "Number of zero sized dimensions is more than one, so unique cannot be "
                       "applied ");
            return;
        }
        out_new(c, 0, x->dtype, x->ndim, x->shape);
        out_numbers(c, 1, false, 0, NULL, NULL);
        out_numbers(c, 2, false, 0, NULL, NULL);
        return;
    }
    if (zeros) {
        op_fail(c, "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
                   "applied");
        return;
    }
    const cfx_tensor *rows = rows_of(c, x, dim);
    groups g;
    uint64_t nan = 0;
    int64_t n = x->shape[dim], width = x->numel / n;
    const uint64_t *keys = keys_of(c, rows, &nan);
    int64_t *order = scratch(c, CFX_I64, 2 * n);
    if (op_failed() || !groups_make(c, &g, n))
        return;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    if (sorted)
        sort_rows(order, order + n, n, keys, width);
    bool floats = cfx__dtype_is_float(x->dtype);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *row = keys + order[i] * width;
        /* a row with a NaN equals no other */
        groups_add(&g, order[i], i == 0 || compare(row, keys + order[i - 1] * width, width) ||
                                     (floats && holds(row, width, nan)));
    }
    put_rows(c, rows, dim, &g);
}

/* The rows that differ lie one after the other, whichever dimension they are of. */
static void shape_unique_dim(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    const int dim = arg_dim(c, 1, x->ndim);
    int64_t kinds, shape[CFX_MAX_DIMS] = {1}, stride[CFX_MAX_DIMS], width = 1;
    const int ndim = x->ndim ? x->ndim : 1;
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    const int64_t n = dim >= 0 ? shape[dim] : 0;
    if (dim < 0 || !op_data_size(c, &kinds))
        return;
    for (int d = ndim - 1; d >= 0; d--)
        if (d != dim) {
            stride[d] = width;
            width *= shape[d];
        }
    stride[dim] = width;
    shape[dim] = kinds;
    out_strided(c, 0, x->dtype, ndim, shape, stride);
    out_new(c, 1, CFX_I64, 1, &n);
    out_new(c, 2, CFX_I64, 1, &kinds);
}

static void kernel_unique_dim(cfx_op_call *c) {
    int dim = arg_dim(c, 1, arg_tensor(c, 0)->ndim);
    if (dim >= 0)
        unique_rows(c, dim, true);
}

CFX_OP(unique_dim) = {"aten::unique_dim(Tensor self, int dim, bool sorted=True, bool "
                      "return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
                      "torch.unique_dim", .shape = shape_unique_dim, .kernel = kernel_unique_dim,
                      .dtypes = CFX_IN_AS_IS | CFX_IN_UINT, .effects = CFX_DATA_SHAPE,
                      .out = "out"};

/* ---- neighbours ------------------------------------------------------------------------------ */

/* Whether rows are compared; those of a vector are its elements. */
static bool compares_rows(const cfx_op_call *c) {
    return !arg_is_none(c, 3) && (arg_int(c, 3) != 0 || arg_tensor(c, 0)->ndim != 1);
}

static void kernel_unique_consecutive(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (compares_rows(c)) {
        int dim = arg_dim(c, 3, x->ndim);
        if (dim >= 0)
            unique_rows(c, dim, false);
        return;
    }
    groups g;
    uint64_t nan = 0;
    x = cfx__tensor_contiguous(x);
    if (!orderable(c, x->dtype) || !groups_make(c, &g, x->numel))
        return;
    const uint64_t *keys = keys_of(c, x, &nan);
    if (op_failed())
        return;
    bool floats = cfx__dtype_is_float(x->dtype);
    for (int64_t i = 0; i < x->numel; i++)
        groups_add(&g, i, i == 0 || keys[i] != keys[i - 1] || (floats && keys[i] == nan));
    put_elements(c, x, &g, arg_bool(c, 1), arg_bool(c, 2));
}

static void shape_unique_consecutive(cfx_op_call *c) {
    if (compares_rows(c))
        cfx__op_needs_data(c);
    else
        shape_elements(c, arg_bool(c, 1), arg_bool(c, 2));
}

CFX_OP(unique_consecutive) = {
    "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, "
    "int? dim=None) -> (Tensor, Tensor, Tensor)",
    .shape = shape_unique_consecutive, .kernel = kernel_unique_consecutive,
    .dtypes = CFX_IN_AS_IS | CFX_IN_UINT, .effects = CFX_DATA_SHAPE, .out = "out"};

static void kernel_unique_dim_consecutive(cfx_op_call *c) {
    int dim = arg_dim(c, 1, arg_tensor(c, 0)->ndim);
    if (dim >= 0)
        unique_rows(c, dim, false);
}

CFX_OP(unique_dim_consecutive) = {
    "aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool "
    "return_counts=False) -> (Tensor, Tensor, Tensor)",
    .kernel = kernel_unique_dim_consecutive, .dtypes = CFX_IN_AS_IS | CFX_IN_UINT,
    .effects = CFX_DATA_SHAPE, .out = "out"};
