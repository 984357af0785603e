/* Elements by their places: gathered, scattered, found, sorted. */
#include "../sizes.h"
#include "onnx.h"

CFX_FAMILY(INDEX);

static cfx_tensor *count_to(int64_t n) {
    return cfx_arange(n, CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
}

/* Places in int64, those from the end counted from the front. How many there are may vary, and with
 * it whether they are few enough to be known: what is done must not. */
static cfx_tensor *from_front(cfx_tensor *at, int64_t size) {
    const cfx_tensor *known = cfx__tensor_known(at);
    for (int i = 0; i < at->ndim && known; i++)
        known = size_varies(at->shape[i]) ? NULL : known;
    bool negative = !known;
    for (int64_t i = 0; known && i < known->numel && !negative; i++)
        negative = cfx_integer(cfx__tensor_get(known, i)) < 0;
    at = onnx_to(at, CFX_I64);
    return negative ? cfx_where(cfx_lt(at, 0), cfx_add(at, size), at) : at;
}

/* ---- gathered -------------------------------------------------------------------------------- */

/* One place that is known is a view; else whole slices are taken by their places. */
ONNX_OP(Gather) {
    cfx_tensor *x = T(0), *at = T(1);
    int axis = onnx_axis(c, arg_int(c, 2), x->ndim);
    const cfx_tensor *known = at->ndim == 0 ? cfx__tensor_known(at) : NULL;
    if (axis < 0)
        return;
    if (known) {
        OUT(0) = cfx_select(x, axis, cfx__tensor_get(known, 0));
        return;
    }
    cfx_value places = cfx_list_value(0, NULL);
    for (int i = 0; i < axis; i++)
        cfx_list_append(cfx_as_list(places), cfx_none());
    cfx_list_append(cfx_as_list(places), cfx_tensor_value(at));
    OUT(0) = cfx_index(x, places);
}

ONNX_OP(GatherElements) {
    int axis = onnx_axis(c, arg_int(c, 2), T(0)->ndim);
    if (axis >= 0)
        OUT(0) = onnx_to(cfx_gather(onnx_wide(T(0)), axis, from_front(T(1), T(0)->shape[axis])),
                         (cfx_dtype)T(0)->dtype);
}

/* The places of a tensor of tuples, one tensor for each dimension that they name; before them the
 * places in the first `batch` dimensions, which are their own. Bad, with an error. */
static cfx_value places_of(cfx_op_call *c, const cfx_tensor *x, cfx_tensor *at, int64_t batch) {
    int64_t k = at->ndim ? at->shape[at->ndim - 1] : 0;
    if (batch < 0 || batch >= at->ndim || k < 1 || batch + k > x->ndim) {
        op_fail(c, "%s: tuples of %lld places do not fit a tensor of %d dimensions", op_title(c),
                (long long)k, x->ndim);
        return cfx_bad();
    }
    cfx_value places = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < batch; i++) {
        cfx_tensor *own = count_to(x->shape[i]);
        for (int64_t n = at->ndim - 2 - i; n > 0; n--)
            own = cfx_unsqueeze(own, -1);
        cfx_list_append(cfx_as_list(places), cfx_tensor_value(own));
    }
    for (int64_t i = 0; i < k; i++)
        cfx_list_append(cfx_as_list(places), cfx_tensor_value(cfx_select(at, -1, i)));
    return places;
}

ONNX_OP(GatherND) {
    cfx_value places = places_of(c, T(0), onnx_to(T(1), CFX_I64), arg_int(c, 2));
    if (!cfx_is_bad(places))
        OUT(0) = cfx_index(T(0), places);
}

CFX_OP(onnx_Gather) = {
    "onnx::Gather(Tensor data, Tensor indices, *, int axis=0) -> Tensor",
    ONNX(Gather, 1)};
CFX_OP(onnx_GatherElements) = {
    "onnx::GatherElements(Tensor data, Tensor indices, *, int axis=0) -> Tensor",
    ONNX(GatherElements, 11)};
CFX_OP(onnx_GatherND) = {
    "onnx::GatherND(Tensor data, Tensor indices, *, int batch_dims=0) -> Tensor",
    ONNX(GatherND, 11)};

/* ---- scattered ------------------------------------------------------------------------------- */

/* What ATen calls a reduction; NULL, with an error, where there is none such. "" is none at all. */
static const char *reduction(cfx_op_call *c, const char *name) {
    static const char *const names[][2] = {
        {"none", ""}, {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
    for (int i = 0; name && i < COUNT(names); i++)
        if (!strcmp(names[i][0], name))
            return names[i][1];
    op_fail(c, "%s: the reduction is none, add, mul, max or min, not '%s'", op_title(c), name);
    return NULL;
}

ONNX_OP(ScatterElements) { /* data, indices, updates, axis, reduction */
    cfx_tensor *x = onnx_wide(T(0)), *updates = onnx_wide(T(2));
    int axis = onnx_axis(c, arg_int(c, 3), x->ndim);
    const char *how = axis < 0 ? NULL : reduction(c, arg_text(c, 4));
    if (!how)
        return;
    cfx_tensor *at = from_front(T(1), x->shape[axis]);
    OUT(0) = onnx_to(!*how                 ? cfx_scatter(x, axis, at, updates)
                     : !strcmp(how, "sum") ? cfx_scatter_add(x, axis, at, updates)
                                           : cfx_scatter_reduce(x, axis, at, updates, how),
                     (cfx_dtype)T(0)->dtype);
}

ONNX_OP(Scatter) {
    int axis = onnx_axis(c, arg_int(c, 3), T(0)->ndim);
    if (axis >= 0)
        OUT(0) = cfx_scatter(T(0), axis, from_front(T(1), T(0)->shape[axis]), T(2));
}

/* The tuples as places in the first k dimensions as one. */
static cfx_tensor *rows_of(const cfx_tensor *x, cfx_value places, int64_t k) {
    cfx_tensor *row = NULL;
    for (int64_t i = 0; i < k; i++) {
        cfx_tensor *at = from_front(cfx_tensor_at(places, i), x->shape[i]);
        row = row ? cfx_add(cfx_mul(row, x->shape[i]), at) : at;
    }
    return cfx_reshape(row, cfx_list(-1));
}

static cfx_tensor *reduced_rows(cfx_tensor *x, cfx_value places, int64_t k, cfx_tensor *updates,
                                const char *how) {
    cfx_value shape = cfx_ints_value(x->ndim, x->shape), rows = cfx_list(-1);
    for (int i = (int)k; i < x->ndim; i++)
        cfx_list_append(cfx_as_list(rows), cfx_int(x->shape[i]));
    cfx_tensor *row = rows_of(x, places, k);
    x = cfx_index_reduce(cfx_reshape(x, rows), 0, row, cfx_reshape(updates, rows), how);
    return cfx_reshape(x, shape);
}

ONNX_OP(ScatterND) { /* data, indices, updates, reduction */
    cfx_tensor *x = onnx_wide(T(0)), *at = onnx_to(T(1), CFX_I64), *updates = onnx_wide(T(2));
    const char *how = reduction(c, arg_text(c, 3));
    cfx_value places = how ? places_of(c, x, at, 0) : cfx_bad();
    if (cfx_is_bad(places))
        return;
    static const char *const other[][2] = {{"prod", "prod"}, {"amax", "amax"}, {"amin", "amin"}};
    for (int i = 0; i < COUNT(other); i++)
        if (!strcmp(how, other[i][0])) {
            x = reduced_rows(x, places, at->shape[at->ndim - 1], updates, other[i][1]);
            OUT(0) = onnx_to(x, (cfx_dtype)T(0)->dtype);
            return;
        }
    OUT(0) = onnx_to(cfx_index_put(x, places, updates, *how != 0), (cfx_dtype)T(0)->dtype);
}

CFX_OP(onnx_ScatterElements) = {
    "onnx::ScatterElements(Tensor data, Tensor indices, Tensor updates, *, int axis=0, str "
    "reduction=\"none\") -> Tensor",
    ONNX(ScatterElements, 11)};
CFX_OP(onnx_Scatter) = {
    "onnx::Scatter(Tensor data, Tensor indices, Tensor updates, *, int axis=0) -> Tensor",
    ONNX(Scatter, 9)};
CFX_OP(onnx_ScatterND) = {
    "onnx::ScatterND(Tensor data, Tensor indices, Tensor updates, *, str reduction=\"none\") -> "
    "Tensor",
    ONNX(ScatterND, 11)};

/* Writes a few rows of a cache at the places of each batch, behind the end in front again where
 * `circular`. */
ONNX_OP(TensorScatter) { /* past_cache, update, write_indices, axis, mode */
    cfx_tensor *cache = T(0), *update = T(1);
    int axis = onnx_axis(c, arg_int(c, 3), cache->ndim);
    if (axis < 0)
        return;
    if (axis == 0 || update->ndim != cache->ndim) {
        op_fail(c, "TensorScatter: the first dimension is the batch, and both tensors have as many "
                "dimensions");
        return;
    }
    bool circular = !strcmp(arg_text(c, 4), "circular");
    if (!circular && strcmp(arg_text(c, 4), "linear")) {
        op_fail(c, "TensorScatter: the mode is linear or circular, not '%s'", arg_text(c, 4));
        return;
    }
    cfx_tensor *at = cfx_unsqueeze(count_to(update->shape[axis]), 0);
    if (T(2))
        at = cfx_add(at, cfx_unsqueeze(onnx_to(T(2), CFX_I64), 1));
    if (circular)
        at = cfx_remainder(at, cache->shape[axis]);
    for (int i = 1; i < axis; i++)
        at = cfx_unsqueeze(at, 1);
    for (int i = axis + 1; i < cache->ndim; i++)
        at = cfx_unsqueeze(at, -1);
    at = cfx_expand(at, cfx_ints_value(update->ndim, update->shape));
    OUT(0) = cfx_scatter(cache, axis, at, update);
}

CFX_OP(onnx_TensorScatter) = {
    "onnx::TensorScatter(Tensor past_cache, Tensor update, Tensor? write_indices=None, *, int "
    "axis=-2, str mode=\"linear\") -> Tensor",
    ONNX(TensorScatter, 24)};

/* ---- chosen by data -------------------------------------------------------------------------- */

ONNX_OP(NonZero) {
    cfx_tensor *x = onnx_wide(T(0));
    OUT(0) = cfx_transpose(cfx_nonzero(x->ndim ? x : cfx_reshape(x, cfx_list(1))), 0, 1);
}

ONNX_OP(Compress) { /* input, condition, axis */
    cfx_tensor *x = T(0), *at = cfx_reshape(cfx_nonzero(T(1)), cfx_list(-1));
    OUT(0) = arg_is_none(c, 2) ? cfx_index_select(cfx_reshape(x, cfx_list(-1)), 0, at)
                               : cfx_index_select(x, arg_int(c, 2), at);
}

CFX_OP(onnx_NonZero) = {"onnx::NonZero(Tensor X) -> Tensor", ONNX(NonZero, 9)};
CFX_OP(onnx_Compress) = {
    "onnx::Compress(Tensor input, Tensor condition, *, int? axis=None) -> Tensor",
    ONNX(Compress, 9)};

/* Places outside of the range stand for nothing. */
ONNX_OP(OneHot) { /* indices, depth, values, axis */
    cfx_tensor *at = T(0), *values = T(2);
    int64_t depth;
    int axis = onnx_axis(c, arg_int(c, 3), at->ndim + 1);
    if (axis < 0 || !onnx_int(c, 1, 0, &depth))
        return;
    at = cfx_unsqueeze(from_front(at, depth), axis);
    cfx_tensor *place = count_to(depth);
    for (int i = axis + 1; i < at->ndim; i++)
        place = cfx_unsqueeze(place, -1);
    OUT(0) = cfx_where(cfx_eq(at, place), cfx_select(values, 0, 1), cfx_select(values, 0, 0));
}

CFX_OP(onnx_OneHot) = {
    "onnx::OneHot(Tensor indices, Tensor depth, Tensor values, *, int axis=-1) -> Tensor",
    ONNX(OneHot, 9)};

/* ---- sorted ---------------------------------------------------------------------------------- */

/* Of equals the first counts: a stable sort, whose first k are taken. */
static void top(cfx_op_call *c, int64_t k, int64_t axis, bool largest) {
    cfx_tensor *x = onnx_wide(T(0));
    cfx_value sorted = cfx_sort(x, CFX_KW(stable, true), CFX_KW(dim, axis),
                                CFX_KW(descending, largest));
    for (int i = 0; i < 2 && !cfx_is_bad(sorted); i++)
        OUT(i) = cfx_slice(cfx_tensor_at(sorted, i), axis, 0, k);
    OUT(0) = onnx_to(OUT(0) ? OUT(0) : &cfx__tensor_bad, (cfx_dtype)T(0)->dtype);
}

static bool count_fits(cfx_op_call *c, int64_t k, int axis) {
    bool fits = axis >= 0 && k >= 0 && k <= T(0)->shape[axis];
    if (axis >= 0 && !fits)
        op_fail(c, "TopK: there are no %lld elements along axis %d", (long long)k, axis);
    return fits;
}

ONNX_OP(TopK) { /* X, K, axis, largest, sorted */
    int64_t k;
    int axis = onnx_axis(c, arg_int(c, 2), T(0)->ndim);
    if (onnx_int(c, 1, 0, &k) && count_fits(c, k, axis))
        top(c, k, axis, arg_bool(c, 3));
}

ONNX_OP(TopK_v1) { /* X, axis, k */
    int axis = onnx_axis(c, arg_int(c, 1), T(0)->ndim);
    if (count_fits(c, arg_int(c, 2), axis))
        top(c, arg_int(c, 2), axis, true);
}

CFX_OP(onnx_TopK) = {
    "onnx::TopK(Tensor X, Tensor K, *, int axis=-1, int largest=1, int sorted=1) -> (Tensor "
    "Values, Tensor Indices)",
    ONNX(TopK, 10)};
CFX_OP(onnx_TopK_v1) = {
    "onnx::TopK.v1(Tensor X, *, int axis=-1, int k) -> (Tensor Values, Tensor Indices)",
    ONNX(TopK_v1, 1)};

/* Beside what ATen finds: where each value comes first, and the values in that order where they are
 * not to be sorted. */
ONNX_OP(Unique) { /* X, axis, sorted */
    cfx_tensor *x = onnx_wide(T(0));
    bool flat = arg_is_none(c, 1);
    int axis = flat ? 0 : onnx_axis(c, arg_int(c, 1), x->ndim);
    if (axis < 0)
        return;
    cfx_value all = flat ? cfx_aten__unique2(x, true, true, true)
                         : cfx_unique_dim(x, axis, true, true, true);
    if (cfx_is_bad(all) || !cfx_ok())
        return;
    cfx_tensor *values = cfx_tensor_at(all, 0), *counts = cfx_tensor_at(all, 2);
    cfx_tensor *inverse = cfx_reshape(cfx_tensor_at(all, 1), cfx_list(-1));
    int64_t n = inverse->numel;
    cfx_tensor *first = cfx_scatter_reduce(cfx_full_like(counts, n), 0, inverse, count_to(n),
                                           "amin");
    if (!arg_bool(c, 2)) {
        cfx_tensor *order = cfx_argsort(first), *rank = cfx_argsort(order);
        values = cfx_index_select(values, axis, order);
        first = cfx_index_select(first, 0, order);
        counts = cfx_index_select(counts, 0, order);
        inverse = cfx_index_select(rank, 0, inverse);
    }
    OUT(0) = onnx_to(values, (cfx_dtype)T(0)->dtype);
    OUT(1) = first, OUT(2) = inverse, OUT(3) = counts;
}

CFX_OP(onnx_Unique) = {
    "onnx::Unique(Tensor X, *, int? axis=None, int sorted=1) -> (Tensor Y, Tensor indices, Tensor "
    "inverse_indices, Tensor counts)",
    ONNX(Unique, 11)};
