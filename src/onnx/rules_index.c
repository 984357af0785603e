/* Rules for reading and writing at indices, sorting and choosing. */
#include "export.h"

#include <math.h>

static int64_t dim_of(const cfx__onnx_export *x, int i, int ndim) {
    return cfx__export_dim(cfx_integer(cfx__export_arg(x, i)), ndim);
}

/* Indices are i64 or i32 in ONNX. */
static cfx_value index_in(cfx__onnx_export *x, int i) { return cfx__export_as(x, i, CFX_I64); }

RULE(embedding) {
    (void)op;
    return PUT(Gather, cfx__export_in(x, 0), index_in(x, 1));
}

/* Which rows belong to which bag, [bags, rows], as truths: those from its offset to the next. */
static cfx_value in_bags(cfx__onnx_export *x, cfx_value at) {
    int64_t none = cfx_integer(cfx__export_arg(x, 8));
    cfx_value first = cfx__export_one(x, 0), one = cfx__export_one(x, 1);
    cfx_value last = cfx__export_one(x, -1);
    cfx_value starts = index_in(x, 2), count = PUT(Shape, at), ends = starts;
    if (cfx__export_flag(x, 7)) /* the last offset is the end of all */
        starts = PUT(Slice, starts, first, last, first);
    ends = PUT(Slice, ends, one, cfx__export_one(x, INT64_MAX), first);
    if (!cfx__export_flag(x, 7))
        ends = cfx_ok() ? PUT(Concat, cfx_list(ends, count), CFX_KW(axis, 0)) : cfx_bad();
    cfx_value row = PUT(Range, cfx__export_number(x, cfx_int(0), CFX_I64),
                        PUT(Reshape, count, cfx__export_i64(x, 0, NULL)),
                        cfx__export_number(x, cfx_int(1), CFX_I64));
    cfx_value in = PUT(And, PUT(GreaterOrEqual, row, PUT(Unsqueeze, starts, one)),
                       PUT(Less, row, PUT(Unsqueeze, ends, one)));
    if (none < 0)
        return in;
    return PUT(And, in, PUT(Not, PUT(Equal, at, cfx__export_number(x, cfx_int(none), CFX_I64))));
}

/* Sums and means of rows: the truths, as numbers, times the rows. */
RULE(embedding_bag) {
    enum { SUM, MEAN };
    int64_t mode = cfx_integer(cfx__export_arg(x, 4));
    cfx_dtype d = cfx__export_given(x, 0).dtype;
    (void)op;
    if (mode != SUM && mode != MEAN)
        return cfx__export_lacks("it takes the largest of each bag");
    cfx_value at = index_in(x, 1), rows = PUT(Gather, cfx__export_in(x, 0), at);
    if (!cfx_is_none(cfx__export_arg(x, 6)))
        rows = PUT(Mul, rows, PUT(Unsqueeze, cfx__export_as(x, 6, d), cfx__export_one(x, -1)));
    cfx_value in = cfx__export_cast(x, in_bags(x, at), CFX_BOOL, d), y = PUT(MatMul, in, rows);
    if (mode == MEAN) {
        cfx_value n = PUT(ReduceSum, in, cfx__export_one(x, 1), CFX_KW(keepdims, 1));
        cfx_value one = cfx__export_number(x, cfx_float(1), d);
        y = cfx_ok() ? PUT(Div, y, PUT(Max, cfx_list(n, one))) : cfx_bad();
    }
    return cfx_is_bad(y) ? y : cfx_tuple(y, cfx_none(), cfx_none(), cfx_none());
}

RULE(index_select) {
    int ndim = cfx__export_given(x, 0).ndim;
    cfx_value at = index_in(x, 2);
    (void)op;
    if (!ndim)
        return PUT(Identity, cfx__export_in(x, 0));
    if (!cfx__export_given(x, 2).ndim)
        at = PUT(Unsqueeze, at, cfx__export_one(x, 0));
    return PUT(Gather, cfx__export_in(x, 0), at, CFX_KW(axis, dim_of(x, 1, ndim)));
}

/* A tensor without dimensions stands for one of a single element, on both sides. */
RULE(gather) {
    int ndim = cfx__export_given(x, 0).ndim;
    cfx_result index = cfx__export_given(x, 2);
    cfx_value first = cfx__export_one(x, 0);
    (void)op;
    if (!ndim)
        return PUT(Expand, cfx__export_in(x, 0),
                   cfx__export_shape(x, cfx__export_in(x, 2), &index));
    if (!index.ndim)
        return PUT(Squeeze,
                   PUT(GatherElements, cfx__export_in(x, 0), PUT(Unsqueeze, index_in(x, 2), first)),
                   first);
    return PUT(GatherElements, cfx__export_in(x, 0), index_in(x, 2),
               CFX_KW(axis, dim_of(x, 1, ndim)));
}

/* ---- x[i, j] --------------------------------------------------------------------------------- */

/* What a list of indices says: tensors for some dimensions, None for the others. */
typedef struct {
    int n, dims[CFX_MAX_DIMS];      /* the dimensions that are indexed */
    cfx_value at[CFX_MAX_DIMS];     /* by what, i64 */
    int ranks[CFX_MAX_DIMS], rank;  /* of those, and the highest */
    int ndim;                       /* of what is indexed */
    bool adjacent;                  /* the dimensions lie side by side */
} indices;

/* A mask, which bytes are too, as the numbers of its true elements: one tensor for each of its
 * dimensions, so that one without dimensions indexes nothing, as in ATen. */
static bool read_mask(cfx__onnx_export *x, indices *i, cfx_value v, int rank) {
    cfx_value found = rank ? PUT(NonZero, v) : v; /* [rank, count] */
    for (int64_t k = 0; k < rank && i->n < CFX_MAX_DIMS; k++) {
        i->dims[i->n] = i->ndim++;
        i->ranks[i->n] = 1;
        i->at[i->n++] = PUT(Gather, found, cfx__export_number(x, cfx_int(k), CFX_I64));
    }
    return cfx_ok();
}

static bool read_indices(cfx__onnx_export *x, indices *i, cfx_value list, int ndim) {
    *i = (indices){.adjacent = true};
    for (int64_t k = 0; k < cfx_len(list); k++) {
        cfx_value v = cfx_as_list(list)->items[k];
        cfx_node *n = v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
        cfx_result r = cfx_node_result(n);
        cfx_value now = n ? x->values[cfx__node_of(n)->id] : cfx_none();
        if (!n) {
            i->ndim++;
        } else if (now.tag != CFX_TAG_NODE) {
            cfx__export_lacks("ONNX has nothing for what %s gives", n->name);
            return false;
        } else if (r.dtype == CFX_BOOL || r.dtype == CFX_U8) {
            if (!read_mask(x, i, now, r.ndim))
                return false;
        } else {
            i->dims[i->n] = i->ndim++;
            i->ranks[i->n] = r.ndim;
            i->at[i->n++] = cfx__export_cast(x, now, r.dtype, CFX_I64);
        }
    }
    i->ndim = ndim;
    for (int k = 0; k < i->n; k++) {
        i->rank = i->ranks[k] > i->rank ? i->ranks[k] : i->rank;
        i->adjacent &= k == 0 || i->dims[k] == i->dims[k - 1] + 1;
    }
    return cfx_ok();
}

/* The dimensions that are indexed first, then the others. */
static void order_of(const indices *i, int64_t *order) {
    int k = i->n;
    for (int d = 0, j = 0; d < i->ndim; d++)
        if (j < i->n && i->dims[j] == d)
            order[j++] = d;
        else
            order[k++] = d;
}

static bool is_sorted(const int64_t *order, int n) {
    for (int k = 0; k < n; k++)
        if (order[k] != k)
            return false;
    return true;
}

static cfx_value ordered(cfx__onnx_export *x, cfx_value v, const int64_t *order, int n) {
    return is_sorted(order, n) ? v : PUT(Transpose, v, CFX_KW(perm, cfx_ints_value(n, order)));
}

/* All indices as rows of one tensor, [..., n]: each is brought to the sizes of all. */
static cfx_value rows_of(cfx__onnx_export *x, const indices *i) {
    cfx_value parts = cfx_list_value(0, NULL), zero = cfx_bad();
    cfx_value none = cfx__export_number(x, cfx_int(0), CFX_I64);
    for (int k = 0; k < i->n && i->n > 1; k++) {
        cfx_value z = PUT(Mul, i->at[k], none);
        zero = k ? PUT(Add, zero, z) : z;
    }
    for (int k = 0; k < i->n; k++) {
        cfx_value at = i->n > 1 ? PUT(Add, i->at[k], zero) : i->at[k];
        cfx_list_append(cfx_as_list(parts), PUT(Unsqueeze, at, cfx__export_one(x, -1)));
    }
    if (!cfx_ok())
        return cfx_bad();
    return i->n > 1 ? PUT(Concat, parts, CFX_KW(axis, -1)) : cfx_at(parts, 0);
}

/* Where the dimensions of the indices stand in what x[i, j] gives. */
static int first_of(const indices *i) { return i->adjacent && i->n ? i->dims[0] : 0; }

RULE(indexed) {
    indices i;
    int ndim = cfx__export_given(x, 0).ndim;
    int64_t order[CFX_MAX_DIMS], back[CFX_MAX_DIMS];
    cfx_value v = cfx__export_in(x, 0);
    (void)op;
    if (!read_indices(x, &i, cfx__export_arg(x, 1), ndim))
        return cfx_bad();
    if (!i.n)
        return PUT(Identity, v);
    if (i.n == 1)
        return PUT(Gather, v, i.at[0], CFX_KW(axis, i.dims[0]));
    order_of(&i, order);
    v = PUT(GatherND, ordered(x, v, order, ndim), rows_of(x, &i));
    /* where they lie side by side, what they give takes their place */
    int first = first_of(&i), all = i.rank + ndim - i.n, k = 0;
    for (int d = 0; d < first; d++)
        back[k++] = i.rank + d;
    for (int d = 0; d < i.rank; d++)
        back[k++] = d;
    for (int d = first; d < ndim - i.n; d++)
        back[k++] = i.rank + d;
    return ordered(x, v, back, all);
}

/* Values in the sizes of what x[i, j] gives, the dimensions of the indices first. `self` has those
 * that are indexed first. */
static cfx_value spread(cfx__onnx_export *x, const indices *i, cfx_value values, cfx_value rows,
                        cfx_value self) {
    int first = first_of(i), all = i->rank + i->ndim - i->n, k = 0;
    int64_t order[CFX_MAX_DIMS];
    cfx_value parts = cfx_list_value(0, NULL);
    if (first)
        cfx_list_append(cfx_as_list(parts), PUT(Shape, self, CFX_KW(start, i->n),
                                                CFX_KW(end, i->n + first)));
    cfx_list_append(cfx_as_list(parts), PUT(Shape, rows, CFX_KW(end, -1)));
    if (i->n + first < i->ndim)
        cfx_list_append(cfx_as_list(parts), PUT(Shape, self, CFX_KW(start, i->n + first)));
    if (!cfx_ok())
        return cfx_bad();
    cfx_value sizes = cfx_len(parts) > 1 ? PUT(Concat, parts, CFX_KW(axis, 0)) : cfx_at(parts, 0);
    for (int d = 0; d < i->rank; d++)
        order[k++] = first + d;
    for (int d = 0; d < all; d++)
        if (d < first || d >= first + i->rank)
            order[k++] = d;
    return ordered(x, PUT(Expand, values, sizes), order, all);
}

RULE(index_put) {
    indices i;
    cfx_result r = cfx__export_given(x, 0);
    int64_t order[CFX_MAX_DIMS], back[CFX_MAX_DIMS];
    cfx_value v = cfx__export_in(x, 0), values = cfx__export_as(x, 2, r.dtype);
    bool adds = cfx__export_flag(x, 3);
    (void)op;
    if (!read_indices(x, &i, cfx__export_arg(x, 1), r.ndim))
        return cfx_bad();
    if (!i.n)
        return adds ? PUT(Add, v, values) : PUT(Expand, values, cfx__export_shape(x, v, &r));
    order_of(&i, order);
    for (int k = 0; k < r.ndim; k++)
        back[order[k]] = k;
    cfx_value rows = rows_of(x, &i), self = ordered(x, v, order, r.ndim);
    values = spread(x, &i, values, rows, self);
    v = adds ? PUT(ScatterND, self, rows, values, CFX_KW(reduction, "add"))
             : PUT(ScatterND, self, rows, values);
    return ordered(x, v, back, r.ndim);
}

static bool has_shape(const cfx_result *a, const cfx_result *b) {
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = cfx_equal_values(cfx_result_size(a, i), cfx_result_size(b, i));
    return same;
}

/* The first elements of source go to where the mask is true. Expand gives what two shapes broadcast
 * to. */
RULE(masked_scatter) {
    cfx_result r = cfx__export_given(x, 0), m = cfx__export_given(x, 1),
               all = cfx__export_result(x);
    cfx_value self = cfx__export_in(x, 0), source = cfx__export_as(x, 2, r.dtype);
    cfx_value mask = PUT(Expand, cfx__export_in(x, 1), cfx__export_shape(x, self, &r));
    if (!has_shape(&r, &all))
        self = PUT(Expand, self, cfx__export_shape(x, cfx__export_in(x, 1), &m));
    cfx_value first = cfx__export_one(x, 0);
    cfx_value at = PUT(Transpose, PUT(NonZero, mask), CFX_KW(perm, cfx_list(1, 0)));
    cfx_value values = PUT(Slice, PUT(Reshape, source, cfx__export_one(x, -1)), first,
                           PUT(Shape, at, CFX_KW(end, 1)), first);
    (void)op;
    if (!all.ndim)
        return cfx__export_lacks("it writes to a tensor without dimensions");
    return PUT(ScatterND, self, at, values);
}

/* How many of the boundaries, which are sorted, lie before each element: of those in argument
 * `ends` for elements of argument `v`. */
static cfx_value counted(cfx__onnx_export *x, int v, int ends, bool right) {
    cfx_dtype d = cfx__dtype_promote(cfx__export_given(x, v).dtype,
                                     cfx__export_given(x, ends).dtype);
    cfx_value at = PUT(Unsqueeze, cfx__export_as(x, v, d), cfx__export_one(x, -1));
    cfx_value bounds = cfx__export_as(x, ends, d);
    if (cfx__export_given(x, ends).ndim > 1) /* each row has its own */
        bounds = PUT(Unsqueeze, bounds, cfx__export_one(x, -2));
    cfx_value before = right ? PUT(LessOrEqual, bounds, at) : PUT(Less, bounds, at);
    cfx_value n = PUT(ReduceSum, cfx__export_cast(x, before, CFX_BOOL, CFX_I64),
                      cfx__export_one(x, -1), CFX_KW(keepdims, 0));
    return cfx__export_cast(x, n, CFX_I64, cfx__export_result(x).dtype);
}

RULE(bucketize) {
    (void)op;
    return counted(x, 0, 1, cfx__export_flag(x, 3));
}

/* sorted_sequence, self, out_int32, right, side, sorter */
RULE(searchsorted) {
    const char *side = cfx_text(cfx__export_arg(x, 4));
    (void)op;
    if (!cfx_is_none(cfx__export_arg(x, 5)))
        return cfx__export_lacks("it has a sorter");
    return counted(x, 1, 0, cfx__export_flag(x, 3) || (side && !strcmp(side, "right")));
}

/* The elements where the mask is true. Expand gives what two shapes broadcast to. */
RULE(masked_select) {
    cfx_result r = cfx__export_given(x, 0), m = cfx__export_given(x, 1);
    cfx_value self = cfx__export_in(x, 0), mask = cfx__export_in(x, 1);
    cfx_value of_self = cfx__export_shape(x, self, &r), of_mask = cfx__export_shape(x, mask, &m);
    (void)op;
    return PUT(Compress, PUT(Expand, self, of_mask),
               PUT(Reshape, PUT(Expand, mask, of_self), cfx__export_one(x, -1)));
}

RULE(nonzero) {
    (void)op;
    return PUT(Transpose, PUT(NonZero, cfx__export_in(x, 0)), CFX_KW(perm, cfx_list(1, 0)));
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* Whether there are no elements: tensors beside it may then have any dimensions. */
static bool is_empty(const cfx_result *r) {
    for (int d = 0; d < r->ndim; d++)
        if (cfx_equal_values(cfx_result_size(r, d), cfx_int(0)))
            return true;
    return false;
}

/* The part of src that indices are for: the first of each dimension. */
static cfx_value cut(cfx__onnx_export *x, cfx_value src, int i, int at) {
    cfx_result s = cfx__export_given(x, i), k = cfx__export_given(x, at);
    int64_t zero[CFX_MAX_DIMS] = {0}, axes[CFX_MAX_DIMS];
    bool same = true;
    if (is_empty(&k))
        return src;
    if (!s.ndim)
        return PUT(Reshape, src, cfx__export_i64(x, 1, (int64_t[]){1}));
    if (!k.ndim) /* a number of a tensor of one dimension */
        return PUT(Slice, src, cfx__export_i64(x, 1, (int64_t[]){0}),
                   cfx__export_i64(x, 1, (int64_t[]){1}));
    for (int d = 0; d < k.ndim; d++) {
        axes[d] = d;
        same &= cfx_equal_values(cfx_result_size(&s, d), cfx_result_size(&k, d));
    }
    if (same)
        return src;
    return PUT(Slice, src, cfx__export_i64(x, k.ndim, zero),
               cfx__export_shape(x, cfx__export_in(x, at), &k), cfx__export_i64(x, k.ndim, axes));
}

static cfx_value scattered_to(cfx__onnx_export *x, cfx_value self, cfx_value src,
                              const char *reduction) {
    cfx_result r = cfx__export_given(x, 0), k = cfx__export_given(x, 2);
    if (is_empty(&k))
        return self;
    if (!r.ndim)
        return cfx__export_lacks("it writes to a tensor without dimensions");
    int64_t dim = dim_of(x, 1, r.ndim);
    cfx_value at = index_in(x, 2);
    if (!k.ndim) /* of a tensor of one dimension */
        at = PUT(Reshape, at, cfx__export_i64(x, 1, (int64_t[]){1}));
    return reduction ? PUT(ScatterElements, self, at, src, CFX_KW(axis, dim),
                           CFX_KW(reduction, reduction))
                     : PUT(ScatterElements, self, at, src, CFX_KW(axis, dim));
}

static cfx_value scattered(cfx__onnx_export *x, cfx_value src, const char *reduction) {
    return scattered_to(x, cfx__export_in(x, 0), src, reduction);
}

static cfx_value source(cfx__onnx_export *x) {
    return cut(x, cfx__export_as(x, 3, cfx__export_result(x).dtype), 3, 2);
}

RULE(scatter_src) {
    (void)op;
    return scattered(x, source(x), NULL);
}

RULE(scatter_value) {
    cfx_result k = cfx__export_given(x, 2);
    cfx_value shape = cfx__export_shape(x, cfx__export_in(x, 2), &k);
    (void)op;
    return scattered(x, PUT(Expand, cfx__export_as(x, 3, cfx__export_result(x).dtype), shape),
                     NULL);
}

RULE(scatter_add) {
    (void)op;
    return scattered(x, source(x), "add");
}

/* A way to reduce, and the number that changes nothing in it. */
typedef struct {
    const char *aten, *onnx;
    double nothing;
    bool averages; /* what is summed is divided by how much it is */
} way;

/* That of argument 4; NULL, with an error. */
static const way *read_way(const cfx__onnx_export *x) {
    static const way ways[] = {{"sum", "add", 0, false},
                               {"add", "add", 0, false},
                               {"prod", "mul", 1, false},
                               {"multiply", "mul", 1, false},
                               {"amax", "max", -(double)INFINITY, false},
                               {"amin", "min", (double)INFINITY, false},
                               {"mean", "add", 0, true}};
    const char *name = cfx_text(cfx__export_arg(x, 4));
    for (int i = 0; i < COUNT(ways) && name; i++)
        if (!strcmp(name, ways[i].aten)) {
            if (ways[i].averages && !cfx__dtype_is_floating(cfx__export_given(x, 0).dtype))
                return cfx__export_lacks("it takes means of integers"), NULL;
            return &ways[i];
        }
    cfx__export_lacks("it reduces by '%s'", name ? name : "");
    return NULL;
}

/* Whether what was there counts; false also with an error. */
static bool counts_self(const cfx__onnx_export *x) {
    if (x->schema->nargs <= 5 || cfx__export_flag(x, 5))
        return true;
    if (!cfx__dtype_is_floating(cfx__export_given(x, 0).dtype))
        cfx__export_lacks("it reduces integers without what was there");
    return false;
}

/* A number in the shape of a value of the new graph. */
static cfx_value filled(cfx__onnx_export *x, double number, cfx_dtype d, cfx_value shape) {
    return PUT(Expand, cfx__export_number(x, cfx_float(number), d), shape);
}

/* Sums by how many numbers each has, or by 1 where it has none. */
static cfx_value averaged(cfx__onnx_export *x, cfx_value sums, cfx_value counts, cfx_dtype d) {
    cfx_value one = cfx__export_number(x, cfx_float(1), d);
    return PUT(Div, sums, PUT(Max, cfx_list(counts, one)));
}

/* scatter.reduce, and scatter_reduce: where what was there does not count, the number that changes
 * nothing is there first. */
RULE(scatter_reduce) {
    cfx_result r = cfx__export_given(x, 0), k = cfx__export_given(x, 2);
    cfx_value self = cfx__export_in(x, 0);
    const way *w = read_way(x);
    const bool counts = counts_self(x);
    (void)op;
    if (!w || !cfx_ok())
        return cfx_bad();
    cfx_value shape = cfx_none();
    if (!counts || w->averages)
        shape = cfx__export_shape(x, cfx__export_in(x, 2), &k);
    if (!counts)
        self = scattered_to(x, self, filled(x, w->nothing, r.dtype, shape), NULL);
    cfx_value y = scattered_to(x, self, source(x), w->onnx);
    if (!w->averages)
        return y;
    cfx_value before = filled(x, counts ? 1 : 0, r.dtype, cfx__export_shape(x, self, &r));
    return averaged(x, y, scattered_to(x, before, filled(x, 1, r.dtype, shape), "add"), r.dtype);
}

/* index_reduce: the same at whole slices, whose indices stand for all their elements. */
RULE(index_reduce) {
    cfx_result r = cfx__export_given(x, 0), i = cfx__export_given(x, 2);
    cfx_result s = cfx__export_given(x, 3);
    cfx_value self = cfx__export_in(x, 0), src = cfx__export_as(x, 3, r.dtype);
    const way *w = read_way(x);
    const bool counts = counts_self(x);
    (void)op;
    if (!w || !cfx_ok())
        return cfx_bad();
    if (is_empty(&i) || is_empty(&s))
        return PUT(Identity, self);
    if (!r.ndim || s.ndim != r.ndim || i.ndim != 1)
        return cfx__export_lacks("it has a tensor without dimensions");
    int64_t dim = dim_of(x, 1, r.ndim), sizes[CFX_MAX_DIMS];
    for (int d = 0; d < r.ndim; d++)
        sizes[d] = d == dim ? -1 : 1;
    cfx_value shape = cfx__export_shape(x, src, &s);
    cfx_value at = PUT(Expand, PUT(Reshape, index_in(x, 2), cfx__export_i64(x, r.ndim, sizes)),
                       shape);
    if (!counts)
        self = PUT(ScatterElements, self, at, filled(x, w->nothing, r.dtype, shape),
                   CFX_KW(axis, dim));
    cfx_value y = PUT(ScatterElements, self, at, src, CFX_KW(axis, dim),
                      CFX_KW(reduction, w->onnx));
    if (!w->averages)
        return y;
    cfx_value before = filled(x, counts ? 1 : 0, r.dtype, cfx__export_shape(x, self, &r));
    return averaged(x, y, PUT(ScatterElements, before, at, filled(x, 1, r.dtype, shape),
                              CFX_KW(axis, dim), CFX_KW(reduction, "add")), r.dtype);
}

/* ---- order ----------------------------------------------------------------------------------- */

static cfx_value top(cfx__onnx_export *x, cfx_value k, int64_t dim, bool largest, bool sorted) {
    cfx_value both = PUT(TopK, cfx__export_in(x, 0), k, CFX_KW(axis, dim),
                         CFX_KW(largest, largest ? 1 : 0), CFX_KW(sorted, sorted ? 1 : 0));
    return cfx_is_bad(both) ? both
                            : cfx_tuple(cfx__export_item(x, both, 0), cfx__export_item(x, both, 1));
}

RULE(topk) {
    int ndim = cfx__export_given(x, 0).ndim;
    (void)op;
    if (!ndim)
        return cfx__export_lacks("it is given a tensor without dimensions");
    return top(x, cfx__export_size(x, cfx__export_arg(x, 1)), dim_of(x, 2, ndim),
               cfx__export_flag(x, 3), cfx__export_flag(x, 4));
}

/* aten.sort(x, dim, descending), and with `stable` before dim. */
RULE(sort) {
    cfx_result r = cfx__export_given(x, 0);
    int at = x->schema->nargs > 3 ? 2 : 1;
    (void)op;
    if (!r.ndim)
        return cfx__export_lacks("it is given a tensor without dimensions");
    int64_t dim = dim_of(x, at, r.ndim);
    cfx_value size = cfx_result_size(&r, (int)dim), v = cfx__export_in(x, 0);
    cfx_value k = size.tag == CFX_TAG_INT
                      ? cfx__export_one(x, cfx_integer(size))
                      : PUT(Shape, v, CFX_KW(start, dim), CFX_KW(end, dim + 1));
    return top(x, k, dim, cfx__export_flag(x, at + 1), true);
}

static const cfx__onnx_rule rows[] = {
    {"aten.embedding.default", embedding, NULL},
    {"aten._embedding_bag.default", embedding_bag, NULL},
    {"aten._embedding_bag_forward_only.default", embedding_bag, NULL},
    {"aten.index_select.default", index_select, NULL},
    {"aten.gather.default", gather, NULL},
    {"aten.index.Tensor", indexed, NULL},
    {"aten.index_put.default", index_put, NULL},
    {"aten.nonzero.default", nonzero, NULL},
    {"aten.masked_scatter.default", masked_scatter, NULL},
    {"aten.bucketize.Tensor", bucketize, NULL},
    {"aten.searchsorted.Tensor", searchsorted, NULL},
    {"aten.masked_select.default", masked_select, NULL},
    {"aten.scatter.src", scatter_src, NULL},
    {"aten.scatter.value", scatter_value, NULL},
    {"aten.scatter_add.default", scatter_add, NULL},
    {"aten.scatter_reduce.two", scatter_reduce, NULL},
    {"aten.scatter.reduce", scatter_reduce, NULL},
    {"aten.index_reduce.default", index_reduce, NULL},
    {"aten.topk.default", topk, NULL},
    {"aten.sort.default", sort, NULL},
    {"aten.sort.stable", sort, NULL},
};

const cfx__onnx_rules cfx__onnx_rules_index = CFX__ONNX_RULES(rows);
