/* embedding_bag: sums, means and maxima of rows of a table, a bag of indices each.
 *
 * Indices that belong to one bag are neighbours, so bags are what threads share. */
#include "../back.h"
#include "../ops.h"

CFX_FAMILY(INDEX);

enum { SUM, MEAN, MAX };

typedef struct {
    const cfx_tensor *weight, *indices, *offsets, *scale; /* scale: one for each index, or NULL */
    int mode;
    bool last; /* the last offset ends the last bag */
    int64_t padding, bags;
} bags_args;

static bool is_index_type(cfx_op_call *c, const char *name, const cfx_tensor *t) {
    if (t->dtype == CFX_I64 || t->dtype == CFX_I32)
        return true;
    op_fail(c,
            "Expected tensor for argument #1 '%s' to have one of the following scalar types: Long, "
            "Int; but got torch.%sTensor instead (while checking arguments for embedding_bag)",
            name, cfx__dtype_title(t->dtype));
    return false;
}

static bool read_args(cfx_op_call *c, bags_args *a) {
    *a = (bags_args){arg_tensor(c, 0),   arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 6),
                     (int)arg_int(c, 4), arg_bool(c, 7),   arg_int(c, 8),    0};
    const cfx_tensor *w = a->weight;
    if (a->indices->ndim != 1) {
        op_fail(c, "input has to be a 1D or 2D Tensor, but got Tensor of dimension %d",
                a->indices->ndim);
        return false;
    }
    if (a->offsets->ndim != 1) {
        op_fail(c, "offsets has to be a 1D Tensor, but got Tensor of dimension %d",
                a->offsets->ndim);
        return false;
    }
    if (!is_index_type(c, "indices", a->indices) || !is_index_type(c, "offsets", a->offsets))
        return false;
    if (!cfx__dtype_is_float(w->dtype) || w->ndim != 2) {
        op_fail(
            c,
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            "Half, BFloat16, Float, Double; but got torch.%sTensor instead (while checking "
            "arguments for embedding_bag)",
            cfx__dtype_title(w->dtype));
        return false;
    }
    if (a->mode < SUM || a->mode > MAX) {
        op_fail(c, "embedding_bag: mode has to be 0 (sum), 1 (mean) or 2 (max), but got %d",
                a->mode);
        return false;
    }
    if (a->scale && a->mode != SUM) {
        op_fail(c, "embedding_bag: per_sample_weights only supported with mode='sum'");
        return false;
    }
    if (a->scale && a->scale->dtype != w->dtype) {
        op_fail(
            c,
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            "#1 'per_sample_weights'; but type torch.%sTensor does not equal torch.%sTensor (while "
            "checking arguments for embedding_bag)",
            cfx__dtype_title(w->dtype), cfx__dtype_title(a->scale->dtype));
        return false;
    }
    if (a->scale && (a->scale->ndim != 1 || a->scale->numel != a->indices->numel)) {
        op_fail(c, "embedding_bag: per_sample_weights has shape %s, but there are %lld indices",
                cfx__shape_text(a->scale->ndim, a->scale->shape), (long long)a->indices->numel);
        return false;
    }
    if (a->last && a->offsets->numel < 1) {
        op_fail(c, "include_last_offset: number of offset should be at least 1");
        return false;
    }
    a->bags = a->offsets->numel - a->last;
    return true;
}

/* Sums alone over plain rows: PyTorch then does not say which bag each index is in. */
static bool is_fast(const bags_args *a) {
    return a->mode == SUM && a->weight->dtype != CFX_F64 && a->weight->stride[1] == 1 &&
           a->padding < 0 && (!a->scale || a->scale->stride[0] == 1);
}

static void make_shapes(cfx_op_call *c, bool grads) {
    bags_args a;
    for (int i = 0; i < 4; i++)
        c->out[i] = &cfx__tensor_bad;
    if (!read_args(c, &a))
        return;
    cfx_dtype d = a.indices->dtype > a.offsets->dtype ? a.indices->dtype : a.offsets->dtype;
    int64_t columns = a.weight->shape[1], n = is_fast(&a) ? 0 : a.indices->numel;
    int64_t sizes = a.mode == SUM && !grads ? a.offsets->numel : a.bags;
    out_new(c, 0, a.weight->dtype, 2, (int64_t[]){a.bags, columns});
    out_new(c, 1, d, 1, &n);
    out_new(c, 2, d, 1, &sizes);
    if (a.mode == MAX)
        out_new(c, 3, d, 2, (int64_t[]){a.bags, columns});
    else
        out_new(c, 3, d, 1, &sizes);
}

static void shape_embedding_bag(cfx_op_call *c) { make_shapes(c, true); }
static void shape_forward_only(cfx_op_call *c) { make_shapes(c, false); }

/* ---- the work ------------------------------------------------------------------------------- */

typedef struct {
    const bags_args *a;
    const int64_t *index, *start; /* bag b holds indices start[b] .. start[b + 1] */
    const char *weight, *scale;
    char *out;
    int64_t row, column, columns; /* strides of the table; columns of the result */
    int64_t *size, *best;         /* of each bag without padding; rows of the maxima */
} job;

#define BAGS(name, T)                                                                              \
    CFX__SIMD static void name(void *arg, int64_t begin, int64_t end) {                            \
        const job *j = arg;                                                                        \
        const T *weight = (const T *)j->weight, *scale = (const T *)j->scale;                      \
        int mode = j->a->mode;                                                                     \
        int64_t n = j->columns, step = j->column;                                                  \
        for (int64_t b = begin; b < end; b++) {                                                    \
            T *out = (T *)j->out + b * n;                                                          \
            int64_t *best = j->best ? j->best + b * n : NULL, taken = 0;                           \
            memset(out, 0, (size_t)n * sizeof *out);                                               \
            for (int64_t i = j->start[b]; i < j->start[b + 1]; i++) {                              \
                if (j->index[i] == j->a->padding)                                                  \
                    continue;                                                                      \
                const T *w = weight + j->index[i] * j->row;                                        \
                if (mode == MAX) {                                                                 \
                    for (int64_t k = 0; k < n; k++)                                                \
                        if (!taken || w[k * step] > out[k]) {                                      \
                            out[k] = w[k * step];                                                  \
                            best[k] = j->index[i];                                                 \
                        }                                                                          \
                } else if (step == 1) {                                                            \
                    T s = scale ? scale[i] : 1;                                                    \
                    _Pragma("omp simd") for (int64_t k = 0; k < n; k++) out[k] += w[k] * s;        \
                } else {                                                                           \
                    T s = scale ? scale[i] : 1;                                                    \
                    for (int64_t k = 0; k < n; k++)                                                \
                        out[k] += w[k * step] * s;                                                 \
                }                                                                                  \
                taken++;                                                                           \
            }                                                                                      \
            j->size[b] = taken;                                                                    \
            for (int64_t k = 0; mode == MEAN && taken > 1 && k < n; k++)                           \
                out[k] /= (T)taken;                                                                \
        }                                                                                          \
    }
BAGS(bags_f32, float)
BAGS(bags_f64, double)

/* Which bag each index is in: the number of offsets up to it, less one. False, with an error, when
 * an offset is out of range. */
static bool find_bags(cfx_op_call *c, const bags_args *a, const int64_t *offset, int64_t *bag,
                      int64_t *start) {
    int64_t n = a->indices->numel;
    if (a->offsets->numel && offset[0] != 0) {
        op_fail(
            c,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            "position 0. However, got %lld",
            (long long)offset[0]);
        return false;
    }
    if (a->offsets->numel && offset[a->offsets->numel - 1] > n) {
        op_fail(
            c,
            "offsets[-1] can not be greater than input's length %lld but got offsets[-1] of %lld",
            (long long)n, (long long)offset[a->offsets->numel - 1]);
        return false;
    }
    memset(bag, 0, (size_t)(n + 1) * sizeof *bag);
    for (int64_t b = 0; b < a->bags; b++) {
        if (offset[b] < 0 || offset[b] > n) {
            op_fail_as(INDEX, c, "index out of range in self");
            return false;
        }
        bag[offset[b]]++;
    }
    for (int64_t i = 1; i <= n; i++)
        bag[i] += bag[i - 1];
    int64_t b = 0;
    for (int64_t i = 0; i < n; i++) {
        bag[i]--;
        while (b <= bag[i])
            start[b++] = i;
    }
    while (b <= a->bags)
        start[b++] = n;
    if (a->last && is_fast(a) && a->bags && offset[a->bags] < n && offset[a->bags] >= 0)
        for (b = a->bags; b >= 0 && start[b] > offset[a->bags]; b--)
            start[b] = offset[a->bags];
    return true;
}

static void kernel_embedding_bag(cfx_op_call *c) {
    bags_args a;
    if (!read_args(c, &a))
        return;
    cfx_dtype d = a.weight->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    const cfx_tensor *index = cfx__tensor_contiguous_as(a.indices, CFX_I64);
    const cfx_tensor *offset = cfx__tensor_contiguous_as(a.offsets, CFX_I64);
    const cfx_tensor *weight = cfx__tensor_to_dtype(a.weight, d);
    const cfx_tensor *scale = a.scale ? cfx__tensor_contiguous_as(a.scale, d) : NULL;
    cfx_tensor *out = cfx__tensor_contiguous_as(c->out[0], d);
    int64_t n = index->numel, *bag = scratch(c, CFX_I64, n + 1);
    int64_t *start = scratch(c, CFX_I64, a.bags + 1), *size = scratch(c, CFX_I64, a.bags);
    int64_t *best = a.mode == MAX ? scratch(c, CFX_I64, out->numel) : NULL;
    if (op_failed() || !find_bags(c, &a, (const int64_t *)offset->data, bag, start))
        return;
    const int64_t *at = (const int64_t *)index->data;
    for (int64_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= weight->shape[0]) {
            op_fail(
                c,
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be %lld",
                (long long)at[i]);
            return;
        }
    if (best)
        memset(best, 0, (size_t)out->numel * sizeof *best);
    job j = {&a,
             at,
             start,
             weight->data,
             scale ? scale->data : NULL,
             out->data,
             weight->stride[0],
             weight->stride[1],
             weight->shape[1],
             size,
             best};
    double work = a.bags ? (double)n * (double)j.columns / (double)a.bags + 1 : 1;
    cfx__parallel(a.bags, cfx__grain(work), d == CFX_F32 ? bags_f32 : bags_f64, &j);
    if (out != c->out[0])
        cfx__tensor_copy(c->out[0], out);
    cfx_dtype id = c->out[2]->dtype;
    int is = cfx_dtype_size(id);
    if (c->out[1]->numel)
        cfx__convert_out(c->out[1]->data, is, id, bag, CFX_I64, n);
    if (a.mode == SUM) {
        for (int i = 2; i < 4; i++)
            memset(c->out[i]->data, 0, (size_t)(c->out[i]->numel * is));
        return;
    }
    cfx__convert_out(c->out[2]->data, is, id, size, CFX_I64, a.bags);
    cfx__convert_out(c->out[3]->data, is, id, best ? best : size, CFX_I64, c->out[3]->numel);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The bag that each index is in. */
static cfx_tensor *bag_of_each(const cfx_back *b) {
    cfx_tensor *offsets = back_arg(b, 2), *index = back_arg(b, 1);
    if (back_bool(b, 7))
        offsets = cfx_slice(offsets, 0, 0, offsets->numel - 1);
    cfx_tensor *at = cfx_arange(index->numel, CFX_KW(dtype, cfx_i64));
    return cfx_sub(cfx_searchsorted(offsets, at, CFX_KW(right, cfx_bool(true))), 1);
}

static void grad_embedding_bag(cfx_back *b) {
    cfx_tensor *g = b->gout[0], *w = back_arg(b, 0), *bag = g ? bag_of_each(b) : NULL;
    cfx_value *a = (cfx_value *)b->args;
    if (g && b->needs[6])
        back_give(b, 6, cfx_aten__embedding_bag_per_sample_weights_backward(
                            g, w, a[1], a[2], bag, a[4], a[8]));
    if (g && b->needs[0])
        back_give(b, 0, cfx_aten__embedding_bag_dense_backward(g, a[1], bag, b->out[2], b->out[3],
                                                               w->shape[0], a[3], a[4], a[6],
                                                               a[8]));
}

CFX_OP(_embedding_bag) = {
    "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
    "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, "
    "bool "
    "include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
    NULL, .shape = shape_embedding_bag, .kernel = kernel_embedding_bag,
    GRAD(embedding_bag, READ(0) | READ(1) | READ(2) | READ(6) | RESULT(2) | RESULT(3)),
    .out = "out"};
CFX_OP(_embedding_bag_forward_only) = {
    "aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool "
    "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, "
    "bool "
    "include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
    NULL, .shape = shape_forward_only, .kernel = kernel_embedding_bag, .out = "out"};

/* ---- the composite -------------------------------------------------------------------------- */

static void call_bag(cfx_op_call *c, cfx_value padding) {
    const cfx_tensor *weight = arg_tensor(c, 0);
    int64_t index = -1;
    if (!cfx_is_none(padding)) {
        int64_t n = weight->ndim ? weight->shape[0] : 0;
        index = cfx_integer(padding);
        if (index < -n || index >= n) {
            op_fail(
                c,
                "padding_idx must be within the number of embeddings, -%lld through %lld, but got "
                "%lld",
                (long long)n, (long long)n - 1, (long long)index);
            return;
        }
        index += index < 0 ? n : 0;
    }
    cfx_op *op = weight->head.flags & CFX__GRAD ? &cfx_op__embedding_bag
                                                : &cfx_op__embedding_bag_forward_only;
    cfx_value r = cfx_op_do(op, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4],
                            c->args[5], c->args[6], c->args[7], index);
    for (int i = 0; i < 4 && !op_failed(); i++)
        c->out[i] = cfx_tensor_at(r, i);
}

static void decompose_bag(cfx_op_call *c) { call_bag(c, CFX_NONE); }
static void decompose_bag_padded(cfx_op_call *c) { call_bag(c, c->args[8]); }

CFX_OP(embedding_bag) = {"aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
                         "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
                         "per_sample_weights=None, bool "
                         "include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)",
                         "torch.embedding_bag", .decompose = decompose_bag,
                         .effects = CFX_COMPOSITE};
CFX_OP(embedding_bag_padding_idx) = {
    "aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool "
    "scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool "
    "include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
    NULL, .decompose = decompose_bag_padded, .effects = CFX_COMPOSITE};
