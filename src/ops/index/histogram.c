/* Histograms and counts of integers. */
#include <cfx/ops.h>

#include "../ops.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* ---- edges ----------------------------------------------------------------------------------- */

/* The range of the finite case, or a wider one where it has no width. False, with an error, where
 * it is no range. */
static bool settle_range(cfx_op_call *c, const char *name, double widen, double *low,
                         double *high) {
    if (!isfinite(*low) || !isfinite(*high)) {
        op_fail(c, "torch.%s: dimension 0's range [%g, %g] is not finite", name, *low, *high);
        return false;
    }
    if (*low > *high) {
        op_fail(c, "torch.%s: min should not exceed max, but got min %g max %g for dimension 0",
                name, *low, *high);
        return false;
    }
    if (*low == *high) {
        *low -= widen;
        *high += widen;
    }
    return true;
}

/* The smallest and largest of n elements, `step` elements apart. */
#define RANGE_OF(id, T)                                                                            \
    static void range_##id(const T *x, int64_t n, int64_t step, double *low, double *high) {       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const double v = (double)x[i * step];                                                  \
            *low = i == 0 || v < *low || v != v ? v : *low;                                        \
            *high = i == 0 || v > *high || v != v ? v : *high;                                     \
        }                                                                                          \
    }
RANGE_OF(f32, float)
RANGE_OF(f64, double)

static void range_of(const cfx_tensor *x, int64_t first, int64_t n, int64_t step, double *low,
                     double *high) {
    if (x->dtype == CFX_F64)
        range_f64((const double *)x->data + first, n, step, low, high);
    else
        range_f32((const float *)x->data + first, n, step, low, high);
}

/* n + 1 edges from low to high, as linspace gives them. */
static void edges_fill(cfx_tensor *edges, double low, double high) {
    int64_t n = edges->numel;
    if (edges->dtype == CFX_F64) {
        double *e = (double *)edges->data, step = (high - low) / (double)(n - 1);
        for (int64_t i = 0; i < n; i++)
            e[i] = i < n / 2 ? low + step * (double)i : high - step * (double)(n - 1 - i);
    } else {
        float *e = (float *)edges->data, a = (float)low, b = (float)high;
        float step = (b - a) / (float)(n - 1);
        for (int64_t i = 0; i < n; i++)
            e[i] = i < n / 2 ? a + step * (float)i : b - step * (float)(n - 1 - i);
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

/* How a bin is found: by the width of bins, the same and then a look at the neighbours, or by
 * search. */
typedef enum { BY_WIDTH, BY_WIDTH_AND_LOOK, BY_SEARCH } bin_rule;

typedef struct {
    bin_rule rule;
    int64_t points;
    int dims;
    const cfx_tensor *x, *weight;     /* contiguous: points by dims; points */
    const cfx_tensor *const *edges;   /* one for each dim */
    cfx_tensor *hist;                 /* contiguous */
} histogram;

#define COUNT_BINS(id, T)                                                                          \
    static inline int64_t bin_##id(const T *e, int64_t n, T v, bin_rule by) {                      \
        if (!(v >= e[0] && v <= e[n - 1]))                                                         \
            return -1;                                                                             \
        int64_t low = 0, high = n;                                                                 \
        if (by != BY_SEARCH) {                                                                     \
            const T place = (v - e[0]) * (T)(n - 1) / (e[n - 1] - e[0]);                           \
            low = place >= 0 && place < (T)n ? (int64_t)place : 0; /* 0: edges without width */    \
            if (by == BY_WIDTH)                                                                    \
                return low == n - 1 ? low - 1 : low;                                               \
            high = low + 2 < n ? low + 2 : n;                                                      \
            low = low > 0 ? low - 1 : 0;                                                           \
        }                                                                                          \
        while (low < high) {                                                                       \
            int64_t mid = low + (high - low) / 2;                                                  \
            if (e[mid] > v)                                                                        \
                high = mid;                                                                        \
            else                                                                                   \
                low = mid + 1;                                                                     \
        }                                                                                          \
        return low - 1 == n - 1 ? n - 2 : low - 1;                                                 \
    }                                                                                              \
    static void count_##id(const histogram *h) {                                                   \
        const T *x = (const T *)h->x->data, *w = h->weight ? (const T *)h->weight->data : NULL;    \
        T *out = (T *)h->hist->data;                                                               \
        memset(out, 0, (size_t)h->hist->numel * sizeof *out);                                      \
        if (h->dims == 1 && h->rule == BY_WIDTH && !w) {                                           \
            const T *e = (const T *)h->edges[0]->data;                                             \
            const int64_t n = h->edges[0]->numel;                                                  \
            for (int64_t i = 0; i < h->points; i++) {                                              \
                int64_t b = bin_##id(e, n, x[i], BY_WIDTH);                                        \
                if (b >= 0)                                                                        \
                    out[b]++;                                                                      \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < h->points; i++, x += h->dims) {                                    \
            int64_t at = 0;                                                                        \
            for (int d = 0; d < h->dims && at >= 0; d++) {                                         \
                const cfx_tensor *e = h->edges[d];                                                 \
                int64_t b = bin_##id((const T *)e->data, e->numel, x[d], h->rule);                 \
                at = b < 0 ? -1 : at + b * h->hist->stride[d];                                     \
            }                                                                                      \
            if (at >= 0)                                                                           \
                out[at] += w ? w[i] : 1;                                                           \
        }                                                                                          \
    }                                                                                              \
    /* Divides by the sum and by the volume of each bin. */                                        \
    static void density_##id(const histogram *h) {                                                 \
        T *out = (T *)h->hist->data, sum = 0;                                                      \
        for (int64_t i = 0; i < h->hist->numel; i++)                                               \
            sum += out[i];                                                                         \
        for (int64_t i = 0; i < h->hist->numel; i++) {                                             \
            out[i] /= sum;                                                                         \
            for (int d = 0; d < h->dims; d++) {                                                    \
                int64_t b = i / h->hist->stride[d] % h->hist->shape[d];                            \
                const T *e = (const T *)h->edges[d]->data;                                         \
                out[i] /= e[b + 1] - e[b];                                                         \
            }                                                                                      \
        }                                                                                          \
    }
COUNT_BINS(f32, float)
COUNT_BINS(f64, double)

static void histogram_run(const histogram *h, bool density) {
    if (h->hist->numel == 0)
        return;
    if (h->hist->dtype == CFX_F64) {
        count_f64(h);
        if (density)
            density_f64(h);
    } else {
        count_f32(h);
        if (density)
            density_f32(h);
    }
}

/* ---- histc ----------------------------------------------------------------------------------- */

static bool floats_only(cfx_op_call *c, const char *name, cfx_dtype d) {
    if (d == CFX_F32 || d == CFX_F64)
        return true;
    op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", name, cfx__dtype_title(d));
    return false;
}

static bool bins_positive(cfx_op_call *c, int64_t bins, int dim) {
    if (bins > 0 && bins < INT64_MAX / 16)
        return true;
    op_fail(c, "torch.histogram(): bins must be > 0, but got %lld for dimension %d",
            (long long)bins, dim);
    return false;
}

static void shape_histc(cfx_op_call *c) {
    int64_t bins = arg_int(c, 1);
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    if (!cfx__dtype_is_half(d) && !floats_only(c, "histogram_cpu", d))
        return;
    if (bins_positive(c, bins, 0))
        out_new(c, 0, d, 1, &bins);
}

static void kernel_histc(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int64_t n = c->out[0]->numel + 1;
    double low = arg_float(c, 2), high = arg_float(c, 3);
    cfx_tensor *edges = cfx__tensor_empty(c->at, x->dtype, false, 1, &n, NULL);
    if (op_failed())
        return;
    if (low == high && x->numel)
        range_of(x, 0, x->numel, 1, &low, &high);
    if (low > high) {
        op_fail(c, "torch.histc: max must be larger than min");
        return;
    }
    if (!settle_range(c, "histc", 1, &low, &high))
        return;
    edges_fill(edges, low, high);
    const cfx_tensor *all[1] = {edges};
    histogram_run(&(histogram){BY_WIDTH, x->numel, 1, x, NULL, all, c->out[0]}, false);
}

CFX_OP(histc) = {"aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
                 "torch.histc Tensor.histc", .shape = shape_histc, .kernel = kernel_histc,
                 .dtypes = CFX_IN_FLOAT, .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};

/* ---- histogram ------------------------------------------------------------------------------- */

/* A range given as two numbers, or that of dim d of the points. */
static bool range_for(cfx_op_call *c, int arg, const cfx_tensor *x, int dims, int d, double *low,
                      double *high) {
    int64_t points = dims ? x->numel / dims : 0;
    *low = 0;
    *high = 1;
    if (!arg_is_none(c, arg)) {
        *low = cfx_number(cfx_as_list(c->args[arg])->items[2 * d]);
        *high = cfx_number(cfx_as_list(c->args[arg])->items[2 * d + 1]);
    } else if (points) {
        range_of(x, d, points, dims, low, high);
    }
    return settle_range(c, "histogramdd", 0.5, low, high);
}

static bool histogram_check(cfx_op_call *c, int range, int weight, int dims, const cfx_tensor *x,
                            int64_t points) {
    const cfx_tensor *w = arg_tensor(c, weight);
    if (!floats_only(c, "histogram_cpu", x->dtype))
        return false;
    if (w && w->dtype != x->dtype) {
        op_fail(c,
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
                "should have the same dtype, but got input(%s), and weight(%s)",
                cfx__dtype_title(x->dtype), cfx__dtype_title(w->dtype));
        return false;
    }
    if (w && w->numel != points) {
        op_fail(c, "torch.histogramdd: if weight tensor is provided it should have the same shape "
                   "as the input tensor excluding its innermost dimension");
        return false;
    }
    if (range >= 0 && !arg_is_none(c, range) && arg_count(c, range) != 2 * dims) {
        op_fail(c,
                "torch.histogramdd: for a %d-dimensional histogram range should have %d elements, "
                "but got %lld",
                dims, 2 * dims, (long long)arg_count(c, range));
        return false;
    }
    return true;
}

static void shape_histogram(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *bins = arg_tensor(c, 1);
    bool given = bins != NULL;
    int64_t n;
    if (!histogram_check(c, given ? -1 : 2, given ? 2 : 3, 1, x, x->numel))
        return;
    if (given && (bins->dtype != x->dtype || bins->ndim != 1 || bins->numel < 1)) {
        op_fail(c, bins->dtype != x->dtype
                       ? "torch.histogramdd: input tensor and bins tensors should have the same "
                         "dtype"
                       : "torch.histogramdd: bins tensor for dimension 0 should be a non-empty "
                         "vector");
        return;
    }
    if (!given && !bins_positive(c, arg_int(c, 1), 0))
        return;
    n = given ? bins->numel - 1 : arg_int(c, 1);
    out_new(c, 0, x->dtype, 1, &n);
    n++;
    out_new(c, 1, x->dtype, 1, &n);
}

static void kernel_histogram(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *bins = arg_tensor(c, 1), *edges[1] = {c->out[1]};
    double low, high;
    if (bins)
        cfx__tensor_copy(c->out[1], bins);
    else if (range_for(c, 2, x, 1, 0, &low, &high))
        edges_fill(c->out[1], low, high);
    if (op_failed())
        return;
    histogram h = {bins ? BY_SEARCH : BY_WIDTH_AND_LOOK, x->numel, 1, x,
                   arg_tensor(c, bins ? 2 : 3), edges, c->out[0]};
    histogram_run(&h, arg_bool(c, bins ? 3 : 4));
}

#define HISTOGRAM                                                                                  \
    .shape = shape_histogram, .kernel = kernel_histogram, .effects = CFX_CONTIGUOUS_ARGS

CFX_OP(histogram_bins_tensor) = {"aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? "
                                 "weight=None, bool density=False) -> (Tensor hist, Tensor "
                                 "bin_edges)",
                                 "torch.histogram Tensor.histogram", HISTOGRAM,
                                 .out = "bins_tensor_out"};
CFX_OP(histogram_bin_ct) = {
    "aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? "
    "weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    HISTOGRAM, .out = "bin_ct_out"};

/* ---- histogramdd ----------------------------------------------------------------------------- */

/* The number of dims of the points, checked against the number of bins given; -1 with an error. */
static int points_dims(cfx_op_call *c, int range, int weight) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (x->ndim < 2) {
        op_fail(c, "torch.histogramdd: input tensor should have at least 2 dimensions");
        return -1;
    }
    int64_t dims = x->shape[x->ndim - 1];
    if (dims != arg_count(c, 1) || dims > CFX_MAX_DIMS || dims < 1) {
        op_fail(c, "histogramdd: The size of bins must be equal to the innermost dimension of the "
                   "input.");
        return -1;
    }
    return histogram_check(c, range, weight, (int)dims, x, x->numel / dims) ? (int)dims : -1;
}

static bool edges_of(cfx_op_call *c, const cfx_tensor *x, int dims, const cfx_tensor **edges) {
    int64_t bins[CFX_MAX_DIMS];
    arg_ints(c, 1, bins);
    for (int d = 0; d < dims; d++) {
        double low, high;
        int64_t n;
        if (!bins_positive(c, bins[d], d))
            return false;
        if (__builtin_add_overflow(bins[d], 1, &n)) {
            op_fail_large(c, "Storage size calculation overflowed with sizes=[%lld]",
                          (long long)bins[d]);
            return false;
        }
        cfx_tensor *e = cfx__tensor_empty(c->at, x->dtype, c->fake, 1, &n, NULL);
        edges[d] = e;
        if (op_failed() || (!c->fake && !range_for(c, 2, x, dims, d, &low, &high)))
            return false;
        if (!c->fake)
            edges_fill(e, low, high);
    }
    return true;
}

static void decompose_bin_edges(cfx_op_call *c) {
    int dims = points_dims(c, 2, 3);
    const cfx_tensor *edges[CFX_MAX_DIMS];
    const cfx_tensor *x = arg_tensor(c, 0);
    if (dims < 0)
        return;
    if (!c->fake)
        x = cfx__tensor_contiguous(x);
    if (op_failed() || !edges_of(c, x, dims, edges))
        return;
    c->result = cfx_list_value(0, NULL);
    for (int d = 0; d < dims; d++)
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(edges[d]));
}

CFX_OP(_histogramdd_bin_edges) = {
    "aten::_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? "
    "weight=None, bool density=False) -> Tensor[]",
    "torch._histogramdd_bin_edges", .decompose = decompose_bin_edges, .out = "out"};

static void shape_from_bin_cts(cfx_op_call *c) {
    int64_t bins[CFX_MAX_DIMS];
    int dims = points_dims(c, 2, 3);
    if (dims < 0)
        return;
    arg_ints(c, 1, bins);
    for (int d = 0; d < dims; d++)
        if (!bins_positive(c, bins[d], d))
            return;
    out_new(c, 0, arg_tensor(c, 0)->dtype, dims, bins);
}

static void kernel_from_bin_cts(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *edges[CFX_MAX_DIMS];
    int dims = points_dims(c, 2, 3);
    if (dims < 0 || !edges_of(c, x, dims, edges))
        return;
    histogram h = {BY_WIDTH_AND_LOOK, x->numel / dims, dims, x, arg_tensor(c, 3), edges, c->out[0]};
    histogram_run(&h, arg_bool(c, 4));
}

CFX_OP(_histogramdd_from_bin_cts) = {
    "aten::_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? "
    "weight=None, bool density=False) -> Tensor",
    "torch._histogramdd_from_bin_cts", .shape = shape_from_bin_cts, .kernel = kernel_from_bin_cts,
    .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};

static void shape_from_bin_tensors(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int dims = points_dims(c, -1, 2);
    for (int d = 0; d < dims; d++) {
        const cfx_tensor *e = arg_item(c, 1, d);
        if (!e || e->ndim != 1 || e->numel < 1 || e->dtype != arg_tensor(c, 0)->dtype) {
            op_fail(c, "torch.histogramdd: bins tensor for dimension %d should be a non-empty "
                       "vector of the input's dtype", d);
            return;
        }
        shape[d] = e->numel - 1;
    }
    if (dims > 0)
        out_new(c, 0, arg_tensor(c, 0)->dtype, dims, shape);
}

static void kernel_from_bin_tensors(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *edges[CFX_MAX_DIMS];
    int dims = points_dims(c, -1, 2);
    for (int d = 0; d < dims; d++)
        edges[d] = cfx__tensor_contiguous(arg_item(c, 1, d));
    if (dims < 0 || op_failed())
        return;
    histogram h = {BY_SEARCH, x->numel / dims, dims, x, arg_tensor(c, 2), edges, c->out[0]};
    histogram_run(&h, arg_bool(c, 3));
}

CFX_OP(_histogramdd_from_bin_tensors) = {
    "aten::_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool "
    "density=False) -> Tensor",
    "torch._histogramdd_from_bin_tensors", .shape = shape_from_bin_tensors,
    .kernel = kernel_from_bin_tensors, .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};

/* (hist, edges) of any kind of bins. */
static void decompose_histogramdd(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    cfx_value bins = c->args[1], edges = bins;
    cfx_tensor *hist;
    if (bins.tag == CFX_TAG_LIST && cfx_as_list(bins)->len &&
        cfx_as_list(bins)->items[0].tag == CFX_TAG_TENSOR) {
        hist = cfx_aten__histogramdd_from_bin_tensors(x, bins, CFX_KW(weight, c->args[3]),
                                                      CFX_KW(density, c->args[4]));
    } else {
        if (bins.tag != CFX_TAG_LIST) {
            int64_t all[CFX_MAX_DIMS], n = x->ndim ? x->shape[x->ndim - 1] : 0;
            for (int64_t d = 0; d < n && d < CFX_MAX_DIMS; d++)
                all[d] = cfx_integer(bins);
            bins = cfx_ints_value(n < CFX_MAX_DIMS ? n : CFX_MAX_DIMS, all);
        }
        edges = cfx_aten__histogramdd_bin_edges(x, bins, CFX_KW(range, c->args[2]),
                                                CFX_KW(weight, c->args[3]),
                                                CFX_KW(density, c->args[4]));
        hist = cfx_aten__histogramdd_from_bin_cts(x, bins, CFX_KW(range, c->args[2]),
                                                  CFX_KW(weight, c->args[3]),
                                                  CFX_KW(density, c->args[4]));
    }
    c->result = cfx_tuple(hist, edges);
}

#define HISTOGRAMDD .decompose = decompose_histogramdd, .effects = CFX_COMPOSITE

CFX_OP(histogramdd) = {
    "aten::histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool "
    "density=False) -> (Tensor hist, Tensor[] bin_edges)",
    "torch.histogramdd", HISTOGRAMDD};
CFX_OP(histogramdd_int_bins) = {
    "aten::histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, "
    "bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    HISTOGRAMDD};
CFX_OP(histogramdd_TensorList_bins) = {
    "aten::histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, Tensor? "
    "weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    HISTOGRAMDD};
