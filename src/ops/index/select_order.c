/* Elements by their place in the order: kthvalue, median, nanmedian, mode. */
#include "../back.h"
#include "../numbered.h"
#include "../reduce.h"
#include "sort.h"

#include <math.h>

CFX_FAMILY(REDUCE);

typedef enum { PICK_KTH, PICK_MEDIAN, PICK_NANMEDIAN, PICK_MODE } pick_kind;

typedef struct {
    sort_lines lines;
    cfx_dtype dtype;
    pick_kind kind;
    int64_t k; /* from 0 */
    char *values;
    int64_t *places; /* NULL where values alone are wanted */
} pick_job;

static bool is_nan(const char *x, cfx_dtype d) {
    switch (d) {
    case CFX_F32: return isnan(*(const float *)x);
    case CFX_F64: return isnan(*(const double *)x);
    case CFX_F16: return isnan(cfx__f16_load(*(const uint16_t *)x));
    case CFX_BF16: return isnan(cfx__bf16_load(*(const uint16_t *)x));
    default: return false;
    }
}

/* The place of the median; NaNs come last in the order, so the first one is found behind all. */
static int64_t median_of(const pick_job *j, const char *x, sort_item *items) {
    int64_t n = j->lines.length, step = j->lines.step[0], numbers = 0, nan = -1;
    for (int64_t i = 0; i < n; i++)
        if (!is_nan(x + i * step, j->dtype))
            numbers++;
        else if (nan < 0)
            nan = i;
    if (numbers < n && j->kind == PICK_MEDIAN)
        return nan;
    int64_t nth = (numbers - 1) / 2, skip = nth;
    sort_fill(items, x, step, j->dtype, n, false);
    sort_nth(items, nth, n);
    if (numbers == 0)
        return items[nth].at;
    /* equal numbers count in the order of their places */
    uint64_t key = items[nth].key;
    for (int64_t i = 0; i < n; i++)
        skip -= items[i].key < key;
    sort_fill(items, x, step, j->dtype, n, false);
    for (int64_t i = 0;; i++)
        if (items[i].key == key && skip-- == 0)
            return i;
}

/* The place of the most frequent element, the smallest of equally frequent ones. */
static int64_t mode_of(const pick_job *j, const char *x, sort_item *items) {
    int64_t n = j->lines.length, best = 0, place = 0, begin = 0;
    sort_fill(items, x, j->lines.step[0], j->dtype, n, false);
    sort_unstable(items, n);
    for (int64_t i = 0; i < n; i++)
        if (i == n - 1 || items[i].key != items[i + 1].key) {
            if (i + 1 - begin > best) {
                best = i + 1 - begin;
                place = items[i].at;
            }
            begin = i + 1;
        }
    return place;
}

static void pick_range(void *arg, int64_t begin, int64_t end) {
    pick_job *j = arg;
    int64_t n = j->lines.length;
    int size = cfx_dtype_size(j->dtype);
    sort_item *items = cfx__alloc_try((size_t)n * sizeof *items);
    if (!items)
        return;
    for (int64_t i = begin; i < end; i++) {
        char *x;
        int64_t at;
        lines_at(&j->lines, i, &x);
        if (j->kind == PICK_KTH) {
            sort_fill(items, x, j->lines.step[0], j->dtype, n, false);
            sort_quickselect(items, j->k, n);
            at = items[j->k].at;
        } else {
            at = j->kind == PICK_MODE ? mode_of(j, x, items) : median_of(j, x, items);
        }
        memcpy(j->values + i * size, x + at * j->lines.step[0], (size_t)size);
        if (j->places)
            j->places[i] = at;
    }
    cfx__free(items);
}

static void pick_run(cfx_op_call *c, pick_job *j, const cfx_tensor *x, int dim) {
    j->dtype = x->dtype;
    j->values = c->out[0]->data;
    j->places = c->nout == 2 ? (int64_t *)c->out[1]->data : NULL;
    lines_make(&j->lines, dim, 1, &x);
    if (x->numel)
        cfx__parallel(j->lines.count, 4096 / j->lines.length + 1, pick_range, j);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The numbers of the arguments dim and keepdim. */
typedef struct {
    pick_kind kind;
    int8_t dim, keepdim;
    const char *name;
    bool bools;
} pick_row;

static bool pick_dtype(cfx_op_call *c, const pick_row *r) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    if (!cfx__dtype_is_complex(d) && (r->bools || d != CFX_BOOL))
        return true;
    op_fail_as(NOT_IMPLEMENTED, c, "\"%s_cpu\" not implemented for '%s'", r->name,
               cfx__dtype_title(d));
    return false;
}

static void shape_pick(cfx_op_call *c) {
    const pick_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    int dim = arg_dim(c, r->dim, x->ndim);
    if (dim < 0 || !pick_dtype(c, r))
        return;
    if (r->kind == PICK_KTH) {
        int64_t k = arg_int(c, 1), n = x->ndim ? x->shape[dim] : 1;
        if (!reduce_nonempty(c, r->name, x, dim_mask(x, dim)))
            return;
        if (k < 1 || k > n) {
            op_fail(c, "kthvalue(): selected number k out of range for dimension %d", dim);
            return;
        }
    }
    if (!reduce_nonempty(c, r->name, x, dim_mask(x, dim)))
        return;
    out_reduced(c, 0, x->dtype, x, dim_mask(x, dim), arg_bool(c, r->keepdim));
    out_reduced(c, 1, CFX_I64, x, dim_mask(x, dim), arg_bool(c, r->keepdim));
}

static void kernel_pick(cfx_op_call *c) {
    const pick_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    pick_job j = {.kind = r->kind, .k = r->kind == PICK_KTH ? arg_int(c, 1) - 1 : 0};
    pick_run(c, &j, x, arg_dim(c, r->dim, x->ndim));
}

#define PICK(...)                                                                                  \
    .shape = shape_pick, .kernel = kernel_pick, .row = &(const pick_row) { __VA_ARGS__ }

static void grad_pick(cfx_back *b) {
    const pick_row *r = b->op->row;
    const cfx_tensor *x = back_arg(b, 0);
    if (b->gout[0])
        back_give(b, 0, place_along(b->gout[0], x, back_dim(b, r->dim, x->ndim), b->out[1],
                                    back_bool(b, r->keepdim)));
}

CFX_OP(kthvalue) = {"aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> "
                    "(Tensor values, Tensor indices)",
                    "torch.kthvalue Tensor.kthvalue", PICK(PICK_KTH, 2, 3, "kthvalue", false),
                    GRAD(pick, RESULT(1)), .out = "values"};
CFX_OP(mode) = {"aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
                "indices)",
                "torch.mode Tensor.mode", PICK(PICK_MODE, 1, 2, "mode", true),
                GRAD(pick, RESULT(1)), .out = "values"};
CFX_OP(median_dim) = {
    "aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    PICK(PICK_MEDIAN, 1, 2, "median", false), GRAD(pick, RESULT(1)), NUMBERED(1),
    .out = "dim_values"};
CFX_OP(nanmedian_dim) = {"aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor "
                         "values, Tensor indices)",
                         PICK(PICK_NANMEDIAN, 1, 2, "nanmedian", false), GRAD(pick, RESULT(1)),
                         NUMBERED(1),
                         .out = "dim_values"};

static void shape_median(cfx_op_call *c) {
    if (pick_dtype(c, c->op->row))
        out_new(c, 0, arg_tensor(c, 0)->dtype, 0, NULL);
}

static void kernel_median(cfx_op_call *c) {
    const pick_row *r = c->op->row;
    const cfx_tensor *x = cfx__tensor_contiguous(arg_tensor(c, 0));
    if (op_failed())
        return;
    if (x->numel == 0) {
        /* of nothing: NaN, or what a NaN converts to */
        cfx__tensor_fill(c->out[0], x->dtype == CFX_I32 ? cfx_int(INT32_MIN) : cfx_float(NAN));
        return;
    }
    pick_job j = {.kind = r->kind};
    pick_run(c, &j, cfx__tensor_alias(x, 1, &x->numel, (int64_t[]){1}, x->offset), 0);
}

#define MEDIAN(kind_, text)                                                                        \
    .shape = shape_median, .kernel = kernel_median,                                                \
    .row = &(const pick_row) { kind_, -1, -1, text, false }

static void grad_median(cfx_back *b) {
    back_give(b, 0, share_equals(b->gout[0], back_arg(b, 0), b->out[0]));
}

CFX_OP(median) = {"aten::median(Tensor self) -> Tensor", "torch.median Tensor.median",
                  MEDIAN(PICK_MEDIAN, "median"), GRAD(median, READ(0) | RESULT(0)), NUMBERED(0),
                  .out = "out"};
CFX_OP(nanmedian) = {"aten::nanmedian(Tensor self) -> Tensor", "torch.nanmedian Tensor.nanmedian",
                     MEDIAN(PICK_NANMEDIAN, "nanmedian"), GRAD(median, READ(0) | RESULT(0)),
                     NUMBERED(0),
                     .out = "out"};
