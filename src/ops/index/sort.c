/* sort, argsort, topk. */
#include "../back.h"
#include "sort.h"

CFX_FAMILY(REDUCE);

typedef struct {
    sort_lines lines; /* of the input, the values, the indices */
    cfx_dtype dtype;
    bool descending;
    int64_t k; /* of topk, as is sorted */
    bool sorted;
} sort_job;

/* One element of `size` bytes. */
static inline void move(char *to, const char *from, int size) {
    switch (size) {
    case 1: *to = *from; break;
    case 2: *(uint16_t *)to = *(const uint16_t *)from; break;
    case 4: *(uint32_t *)to = *(const uint32_t *)from; break;
    default: *(uint64_t *)to = *(const uint64_t *)from;
    }
}

static void put_items(const sort_job *j, char *const *p, const sort_item *items, int64_t n) {
    int size = cfx_dtype_size(j->dtype);
    for (int64_t i = 0; i < n; i++) {
        move(p[1] + i * j->lines.step[1], p[0] + items[i].at * j->lines.step[0], size);
        *(int64_t *)(p[2] + i * j->lines.step[2]) = items[i].at;
    }
}

static bool orderable(cfx_op_call *c, const char *name, cfx_dtype d) {
    if (!cfx__dtype_is_complex(d) && (cfx__dtype_is_computed(d) || c->op->dtypes >> d & 1))
        return true;
    op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", name, cfx__dtype_title(d));
    return false;
}

/* ---- sort ------------------------------------------------------------------------------------ */

static void sort_range(void *arg, int64_t begin, int64_t end) {
    sort_job *j = arg;
    int64_t n = j->lines.length;
    sort_item *items = cfx__alloc_try(2 * (size_t)n * sizeof *items);
    if (!items)
        return;
    for (int64_t i = begin; i < end; i++) {
        char *p[3];
        lines_at(&j->lines, i, p);
        sort_fill(items, p[0], j->lines.step[0], j->dtype, n, j->descending);
        sort_items(items, items + n, n);
        put_items(j, p, items, n);
    }
    cfx__free(items);
}

/* The numbers of the arguments dim and descending. */
typedef struct {
    int8_t dim, descending;
} sort_row;

static void shape_sort(cfx_op_call *c) {
    const sort_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    if (arg_dim(c, r->dim, x->ndim) < 0 || !orderable(c, "sorting_kernel_method_name", x->dtype))
        return;
    out_like(c, 0, x->dtype, x);
    out_like(c, 1, CFX_I64, x);
}

static void sort_into(cfx_op_call *c, cfx_tensor *values, cfx_tensor *indices) {
    const sort_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0), *t[3] = {x, values, indices};
    if (x->numel == 0)
        return;
    sort_job j = {.dtype = x->dtype, .descending = arg_bool(c, r->descending)};
    lines_make(&j.lines, arg_dim(c, r->dim, x->ndim), 3, t);
    cfx__parallel(j.lines.count, 2048 / j.lines.length + 1, sort_range, &j);
}

static void kernel_sort(cfx_op_call *c) { sort_into(c, c->out[0], c->out[1]); }

#define SORT(...)                                                                                  \
    .shape = shape_sort, .kernel = kernel_sort, .dtypes = CFX_IN_AS_IS | CFX_IN_UINT,              \
    .row = &(const sort_row) {                                                                     \
        __VA_ARGS__                                                                                \
    }

/* The gradient of values chosen along the dim that argument `at` names. */
static void back_sorted(cfx_back *b, int at) {
    const cfx_tensor *x = back_arg(b, 0);
    if (b->gout[0])
        back_give(b, 0, place_along(b->gout[0], x, back_dim(b, at, x->ndim), b->out[1], true));
}

static void grad_sort(cfx_back *b) { back_sorted(b, ((const sort_row *)b->op->row)->dim); }
static void grad_topk(cfx_back *b) { back_sorted(b, 2); }

CFX_OP(sort) = {
    "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    "torch.sort Tensor.sort", SORT(1, 2), GRAD(sort, RESULT(1)), .out = "values"};
CFX_OP(sort_stable) = {"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool "
                       "descending=False) -> (Tensor values, Tensor indices)",
                       SORT(2, 3), GRAD(sort, RESULT(1)), .out = "values_stable"};

static void shape_argsort(cfx_op_call *c) {
    const sort_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    if (arg_dim(c, r->dim, x->ndim) >= 0 && orderable(c, "sorting_kernel_method_name", x->dtype))
        out_like(c, 0, CFX_I64, x);
}

static void kernel_argsort(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *values = cfx__tensor_empty(c->at, x->dtype, false, x->ndim, x->shape, NULL);
    if (!op_failed())
        sort_into(c, values, c->out[0]);
}

static void decompose_argsort(cfx_op_call *c) {
    bool stable = c->nargs == 4;
    cfx_value pair = stable ? cfx_sort(arg_tensor(c, 0), CFX_KW(stable, c->args[1]),
                                       CFX_KW(dim, c->args[2]), CFX_KW(descending, c->args[3]))
                            : cfx_sort(arg_tensor(c, 0), c->args[1], c->args[2]);
    c->out[0] = cfx_tensor_at(pair, 1);
}

#define ARGSORT(...)                                                                               \
    .shape = shape_argsort, .kernel = kernel_argsort, .dtypes = CFX_IN_AS_IS | CFX_IN_UINT,        \
    .decompose = decompose_argsort, .row = &(const sort_row){__VA_ARGS__},                         \
    .effects = CFX_COMPOSITE

CFX_OP(argsort) = {"aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
                   "torch.argsort Tensor.argsort", ARGSORT(1, 2)};
CFX_OP(argsort_stable) = {"aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool "
                          "descending=False) -> Tensor",
                          ARGSORT(2, 3), .out = "stable_out"};

static void decompose_msort(cfx_op_call *c) {
    c->out[0] = cfx_tensor_at(cfx_sort(arg_tensor(c, 0), 0), 0);
}

CFX_OP(msort) = {"aten::msort(Tensor self) -> Tensor", "torch.msort Tensor.msort",
                 .decompose = decompose_msort, .effects = CFX_COMPOSITE, .out = "out"};

/* ---- topk ------------------------------------------------------------------------------------ */

/* The k first items of a line when they are few: a heap sees every key once. */
static void top_items(const sort_job *j, const char *x, sort_item *heap) {
    uint64_t keys[512];
    int64_t n = j->lines.length, step = j->lines.step[0], k = j->k;
    for (int64_t i = 0; i < n; i += COUNT(keys)) {
        int64_t m = n - i < COUNT(keys) ? n - i : COUNT(keys), e = 0;
        sort_keys(keys, x + i * step, step, j->dtype, m, j->descending);
        for (; e < m && i + e < k; e++) {
            heap[i + e] = (sort_item){keys[e], i + e};
            if (i + e == k - 1)
                sort_heap_make(heap, k);
        }
        for (; e < m; e++)
            if (keys[e] < heap[0].key)
                sort_heap_replace(heap, k, (sort_item){keys[e], i + e});
    }
    sort_heap_end(heap, k);
}

static void topk_range(void *arg, int64_t begin, int64_t end) {
    sort_job *j = arg;
    int64_t n = j->lines.length, k = j->k;
    bool few = k <= n / 64;
    sort_item *items = cfx__alloc_try((size_t)(few ? k : n) * sizeof *items);
    if (!items)
        return;
    for (int64_t i = begin; i < end; i++) {
        char *p[3];
        lines_at(&j->lines, i, p);
        if (few) {
            top_items(j, p[0], items);
        } else {
            sort_fill(items, p[0], j->lines.step[0], j->dtype, n, j->descending);
            sort_nth(items, k - 1, n);
            if (j->sorted)
                sort_unstable(items, k - 1);
        }
        put_items(j, p, items, k);
    }
    cfx__free(items);
}

static void shape_topk(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int dim = arg_dim(c, 2, x->ndim);
    int64_t k = arg_int(c, 1), shape[CFX_MAX_DIMS];
    if (dim < 0 || !orderable(c, "topk_cpu", x->dtype))
        return;
    if (k < 0 || k > (x->ndim ? x->shape[dim] : 1)) {
        op_fail(c, "selected index k out of range");
        return;
    }
    if (x->dtype == CFX_BOOL) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"topk_cpu\" not implemented for 'Bool'");
        return;
    }
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    if (x->ndim)
        shape[dim] = k;
    out_new(c, 0, x->dtype, x->ndim, shape);
    out_new(c, 1, CFX_I64, x->ndim, shape);
}

static void kernel_topk(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *t[3] = {x, c->out[0], c->out[1]};
    if (c->out[0]->numel == 0)
        return;
    sort_job j = {.dtype = x->dtype, .descending = arg_bool(c, 3),
                  .k = x->ndim ? arg_int(c, 1) : 1, /* a number is one, whatever k is */
                  .sorted = arg_bool(c, 4)};
    lines_make(&j.lines, arg_dim(c, 2, x->ndim), 3, t);
    cfx__parallel(j.lines.count, 8192 / j.lines.length + 1, topk_range, &j);
}

CFX_OP(topk) = {"aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool "
                "sorted=True) -> (Tensor values, Tensor indices)",
                "torch.topk Tensor.topk", .shape = shape_topk, .kernel = kernel_topk,
                GRAD(topk, RESULT(1)), .out = "values"};
