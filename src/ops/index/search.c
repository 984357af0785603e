/* Search in sorted sequences, and membership. */
#include "sort.h"

CFX_FAMILY(INDEX);

/* ---- searchsorted, bucketize ----------------------------------------------------------------- */

typedef struct {
    const void *sorted, *values;
    const int64_t *order; /* of each sequence; NULL where it is sorted as it lies */
    int64_t n, each;      /* elements of a sequence, values for each; one sequence: each is all */
    bool right;
    void *out;
    bool out32;
} search_job;

/* Where `value` is to be put in; NaN comes last. */
#define SEARCH(id, T)                                                                              \
    static void search_##id(void *arg, int64_t begin, int64_t end) {                               \
        const search_job *s = arg;                                                                 \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const T value = ((const T *)s->values)[i];                                             \
            const int64_t base = i / s->each * s->n;                                               \
            const T *seq = (const T *)s->sorted + base;                                            \
            int64_t low = 0, high = s->n;                                                          \
            while (low < high) {                                                                   \
                int64_t mid = low + (high - low) / 2;                                              \
                const T at = seq[s->order ? s->order[base + mid] : mid];                           \
                bool after = s->right ? at > value : at >= value;                                  \
                if (after)                                                                         \
                    high = mid;                                                                    \
                else                                                                               \
                    low = mid + 1;                                                                 \
            }                                                                                      \
            if (s->out32)                                                                          \
                ((int32_t *)s->out)[i] = (int32_t)low;                                             \
            else                                                                                   \
                ((int64_t *)s->out)[i] = low;                                                      \
        }                                                                                          \
    }
SEARCH(f32, float)
SEARCH(f64, double)
SEARCH(i64, int64_t)

/* The arguments, whichever operator they came with. */
typedef struct {
    const cfx_tensor *sorted, *values, *sorter;
    bool out32, right;
} search_args;

typedef struct {
    int8_t sorted, values, out32, right, side, sorter; /* numbers of arguments, or -1 */
} search_row;

static const cfx_tensor *tensor_or_number(cfx_op_call *c, int i) {
    const cfx_tensor *t = arg_tensor(c, i);
    return t ? t : cfx__tensor_wrapped(c->args[i]);
}

static bool search_side(cfx_op_call *c, const search_row *r, search_args *a) {
    if (r->side < 0 || arg_is_none(c, r->side))
        return true;
    const char *side = arg_text(c, r->side);
    if (strcmp(side, "left") && strcmp(side, "right")) {
        op_fail(c, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
        return false;
    }
    if (a->right && !strcmp(side, "left")) {
        op_fail(c, "torch.searchsorted(): side and right can't be set to opposites, got side of "
                   "left while right was True");
        return false;
    }
    a->right = !strcmp(side, "right");
    return true;
}

static bool search_shapes(cfx_op_call *c, const search_args *a) {
    const cfx_tensor *s = a->sorted, *v = a->values;
    if (a->sorter && !cfx__tensor_same_shape(a->sorter, s)) {
        op_fail(c,
                "torch.searchsorted(): boundary and sorter must have the same size, but got "
                "boundary tensor %s and got sorter tensor %s",
                cfx__shape_text(s->ndim, s->shape),
                cfx__shape_text(a->sorter->ndim, a->sorter->shape));
        return false;
    }
    if (a->sorter && a->sorter->dtype != CFX_I64) {
        op_fail(c, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
                cfx__dtype_title(a->sorter->dtype));
        return false;
    }
    if (v->ndim == 0 && s->ndim != 1) {
        op_fail(c,
                "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
                "dimension is 1, but we got boundaries tensor dim(%d) and input value's dim(0) "
                "numel(1)",
                s->ndim);
        return false;
    }
    if (s->ndim == 0) {
        op_fail(c, "torch.searchsorted(): boundaries tensor should have positive dimension, but "
                   "got 0 dimension");
        return false;
    }
    bool fits = s->ndim == 1 || s->ndim == v->ndim;
    for (int d = 0; fits && s->ndim > 1 && d < s->ndim - 1; d++)
        fits = s->shape[d] == v->shape[d];
    if (!fits) {
        op_fail(c,
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
                "dimensions of boundaries tensor and input value tensor must match, but we got "
                "boundaries tensor %s and input value tensor %s",
                cfx__shape_text(s->ndim, s->shape), cfx__shape_text(v->ndim, v->shape));
        return false;
    }
    if (a->out32 && s->shape[s->ndim - 1] >= INT32_MAX) {
        op_fail(c,
                "torch.searchsorted(): the size of boundaries' last dimension should be less than "
                "%d, but we got %lld",
                INT32_MAX, (long long)s->shape[s->ndim - 1]);
        return false;
    }
    return true;
}

static bool search_read(cfx_op_call *c, search_args *a) {
    const search_row *r = c->op->row;
    a->sorted = arg_tensor(c, r->sorted);
    a->values = tensor_or_number(c, r->values);
    a->sorter = r->sorter >= 0 ? arg_tensor(c, r->sorter) : NULL;
    a->out32 = arg_bool(c, r->out32);
    a->right = arg_bool(c, r->right);
    if (r->sorter < 0 && a->sorted->ndim != 1) {
        op_fail(c, "boundaries tensor must be 1 dimension, but got dim(%d)", a->sorted->ndim);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        cfx_dtype d = (i ? a->values : a->sorted)->dtype;
        if (cfx__dtype_is_complex(d)) {
            op_fail_as(NOT_IMPLEMENTED, c, "\"searchsorted_out_cpu\" not implemented for '%s'",
                       cfx__dtype_title(d));
            return false;
        }
    }
    return search_side(c, r, a) && search_shapes(c, a);
}

static void shape_search(cfx_op_call *c) {
    search_args a;
    if (search_read(c, &a))
        out_new(c, 0, a.out32 ? CFX_I32 : CFX_I64, a.values->ndim, a.values->shape);
}

static bool sorter_in_range(cfx_op_call *c, const cfx_tensor *t) {
    int64_t n = t->shape[t->ndim - 1];
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t at = ((const int64_t *)t->data)[i];
        if (at < 0 || at >= n) {
            op_fail(c, "torch.searchsorted(): sorter index out of range");
            return false;
        }
    }
    return true;
}

static void kernel_search(cfx_op_call *c) {
    search_args a;
    if (!search_read(c, &a))
        return;
    cfx__promotion p = CFX__PROMOTION_START;
    cfx__promotion_tensor(&p, a.sorted);
    cfx__promotion_tensor(&p, a.values);
    cfx_dtype both = cfx__promotion_dtype(&p); /* a number is rounded to it, or wraps */
    cfx_dtype d = both == CFX_F64 ? CFX_F64 : cfx__dtype_is_float(both) ? CFX_F32 : CFX_I64;
    const cfx_tensor *sorted = cfx__tensor_contiguous_as(a.sorted, d);
    const cfx_tensor *values = cfx__tensor_contiguous_as(cfx__tensor_to_dtype(a.values, both), d);
    const cfx_tensor *sorter = a.sorter ? cfx__tensor_contiguous(a.sorter) : NULL;
    if (op_failed() || values->numel == 0 || (sorter && !sorter_in_range(c, sorter)))
        return;
    search_job s = {sorted->data, values->data, sorter ? (const int64_t *)sorter->data : NULL,
                    sorted->shape[sorted->ndim - 1],
                    sorted->ndim == 1 ? values->numel : values->shape[values->ndim - 1], a.right,
                    c->out[0]->data, a.out32};
    cfx__parallel(values->numel, 2048,
                  d == CFX_F64   ? search_f64
                  : d == CFX_F32 ? search_f32
                                 : search_i64,
                  &s);
}

#define SEARCHSORTED                                                                               \
    .shape = shape_search, .kernel = kernel_search,                                                \
    .row = &(const search_row) { 0, 1, 2, 3, 4, 5 }
#define BUCKETIZE                                                                                  \
    .shape = shape_search, .kernel = kernel_search,                                                \
    .row = &(const search_row) { 1, 0, 2, 3, -1, -1 }

CFX_OP(searchsorted_Tensor) = {
    "aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool "
    "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    "torch.searchsorted", SEARCHSORTED, .out = "Tensor_out"};
CFX_OP(searchsorted_Scalar) = {
    "aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool "
    "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    SEARCHSORTED, .out = "Scalar_out"};
CFX_OP(bucketize_Tensor) = {"aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool "
                            "out_int32=False, bool right=False) -> Tensor",
                            "torch.bucketize", BUCKETIZE, .out = "Tensor_out"};
CFX_OP(bucketize_Scalar) = {"aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool "
                            "out_int32=False, bool right=False) -> Tensor",
                            BUCKETIZE, .out = "Scalar_out"};

/* ---- isin ------------------------------------------------------------------------------------ */

static bool isin_dtype(cfx_op_call *c, const cfx_tensor *t) {
    if (!cfx__dtype_is_complex(t->dtype))
        return true;
    op_fail(c, "Unsupported input type encountered for isin(): %s", cfx__dtype_title(t->dtype));
    return false;
}

static void shape_isin(cfx_op_call *c) {
    const cfx_tensor *x = tensor_or_number(c, 0), *test = tensor_or_number(c, 1);
    if (isin_dtype(c, x) && isin_dtype(c, test))
        out_new(c, 0, CFX_BOOL, x->ndim, x->shape);
}

typedef struct {
    const uint64_t *keys, *test;
    int64_t n; /* of test, sorted */
    uint8_t *out;
    bool invert;
    uint64_t nan; /* the key that is never in; 0: none */
} isin_job;

static void isin_range(void *arg, int64_t begin, int64_t end) {
    const isin_job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t low = 0, high = j->n;
        while (low < high) {
            int64_t mid = low + (high - low) / 2;
            if (j->test[mid] < j->keys[i])
                low = mid + 1;
            else
                high = mid;
        }
        bool in = low < j->n && j->test[low] == j->keys[i] && !(j->nan && j->keys[i] == j->nan);
        j->out[i] = in != j->invert;
    }
}

static void kernel_isin(cfx_op_call *c) {
    const cfx_tensor *t[2] = {tensor_or_number(c, 0), tensor_or_number(c, 1)};
    cfx__promotion p = CFX__PROMOTION_START;
    cfx__promotion_tensor(&p, t[0]);
    cfx__promotion_tensor(&p, t[1]);
    cfx_dtype d = cfx__promotion_dtype(&p);
    uint64_t *keys[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        t[i] = cfx__tensor_contiguous_as(t[i], d);
        keys[i] = scratch(c, CFX_I64, t[i]->numel);
        if (op_failed())
            return;
        sort_keys(keys[i], t[i]->data, cfx_dtype_size(d), d, t[i]->numel, false);
    }
    int64_t n = t[1]->numel;
    sort_item *items = scratch(c, CFX_C128, 2 * n);
    if (op_failed())
        return;
    for (int64_t i = 0; i < n; i++)
        items[i].key = keys[1][i];
    sort_items(items, items + n, n);
    for (int64_t i = 0; i < n; i++)
        keys[1][i] = items[i].key;
    isin_job j = {keys[0], keys[1], n, (uint8_t *)c->out[0]->data, arg_bool(c, 3),
                  d == CFX_F64 ? UINT64_MAX : cfx__dtype_is_float(d) ? UINT32_MAX : 0};
    cfx__parallel(t[0]->numel, 4096, isin_range, &j);
}

#define ISIN .shape = shape_isin, .kernel = kernel_isin, .core = core_isin

CFX_FAMILY(COMPARE);
CFX_OP(isin_Tensor_Tensor) = {"aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, "
                              "bool assume_unique=False, bool invert=False) -> Tensor",
                              "torch.isin", ISIN, .out = "Tensor_Tensor_out"};
CFX_OP(isin_Tensor_Scalar) = {"aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, "
                              "bool assume_unique=False, bool invert=False) -> Tensor",
                              ISIN, .out = "Tensor_Scalar_out"};
CFX_OP(isin_Scalar_Tensor) = {"aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, "
                              "bool assume_unique=False, bool invert=False) -> Tensor",
                              ISIN, .out = "Scalar_Tensor_out"};
