/* Sums, means, products, counts, and whether all or any elements are true. */
#include "../cmul.h"
#include "../reduce.h"

#include <complex.h>

CFX_FAMILY(REDUCE);
#undef I

typedef float _Complex c64_t;
typedef double _Complex c128_t;

/* ---- loops ----------------------------------------------------------------------------------- */

#define PLUS(a, b) ((a) + (b))
#define PLUS_INT(a, x) ((a) + (uint64_t)(x))
#define PLUS_NUMBER(a, x) ((x) == (x) ? (a) + (x) : (a))
#define TIMES(a, b) ((a) * (b))
#define TIMES_INT(a, x) ((a) * (uint64_t)(x))

#define FOLD sum_f32, float, float, double, float, 0, PLUS, PLUS
#include "reduce_fold.inc"
#define FOLD sum_f64, double, double, double, double, 0, PLUS, PLUS
#include "reduce_fold.inc"
#define FOLD sum_i64, int64_t, uint64_t, uint64_t, int64_t, 0, PLUS_INT, PLUS
#include "reduce_fold.inc"
#define FOLD sum_c64, c64_t, c64_t, c128_t, c64_t, 0, PLUS, PLUS
#include "reduce_fold.inc"
#define FOLD sum_c128, c128_t, c128_t, c128_t, c128_t, 0, PLUS, PLUS
#include "reduce_fold.inc"

#define FOLD nansum_f32, float, float, double, float, 0, PLUS_NUMBER, PLUS
#include "reduce_fold.inc"
#define FOLD nansum_f64, double, double, double, double, 0, PLUS_NUMBER, PLUS
#include "reduce_fold.inc"

#define FOLD prod_f32, float, float, float, float, 1, TIMES, TIMES
#include "reduce_fold.inc"
#define FOLD prod_f64, double, double, double, double, 1, TIMES, TIMES
#include "reduce_fold.inc"
#define FOLD prod_i64, int64_t, uint64_t, uint64_t, int64_t, 1, TIMES_INT, TIMES
#include "reduce_fold.inc"
#define FOLD prod_c64, c64_t, c64_t, c64_t, c64_t, 1, CMUL, CMUL
#include "reduce_fold.inc"
#define FOLD prod_c128, c128_t, c128_t, c128_t, c128_t, 1, CMUL, CMUL
#include "reduce_fold.inc"

/* Lanes count no further than a block's share, which every type of number holds exactly. */
#define ONE_MORE(a, x) ((a) + ((x) != 0))

#define FOLD count_f32, float, float, int64_t, int64_t, 0, ONE_MORE, PLUS
#include "reduce_fold.inc"
#define FOLD count_f64, double, double, int64_t, int64_t, 0, ONE_MORE, PLUS
#include "reduce_fold.inc"
#define FOLD count_i64, int64_t, int64_t, int64_t, int64_t, 0, ONE_MORE, PLUS
#include "reduce_fold.inc"
#define FOLD count_b8, uint8_t, uint32_t, int64_t, int64_t, 0, ONE_MORE, PLUS
#include "reduce_fold.inc"
#define FOLD count_c64, c64_t, int64_t, int64_t, int64_t, 0, ONE_MORE, PLUS
#include "reduce_fold.inc"
#define FOLD count_c128, c128_t, int64_t, int64_t, int64_t, 0, ONE_MORE, PLUS
#include "reduce_fold.inc"

/* Truth: lanes are as wide as elements, so that vectors stay whole. */
#define OR_TRUE(a, x) ((a) | ((x) != 0))
#define AND_TRUE(a, x) ((a) & ((x) != 0))
#define OR(a, b) ((a) | (b))
#define AND(a, b) ((a) & (b))

#define FOLD any_f32, float, int32_t, int32_t, uint8_t, 0, OR_TRUE, OR
#include "reduce_fold.inc"
#define FOLD any_f64, double, int64_t, int64_t, uint8_t, 0, OR_TRUE, OR
#include "reduce_fold.inc"
#define FOLD any_i64, int64_t, int64_t, int64_t, uint8_t, 0, OR_TRUE, OR
#include "reduce_fold.inc"
#define FOLD any_b8, uint8_t, uint8_t, uint8_t, uint8_t, 0, OR_TRUE, OR
#include "reduce_fold.inc"
#define FOLD any_c64, c64_t, int64_t, int64_t, uint8_t, 0, OR_TRUE, OR
#include "reduce_fold.inc"
#define FOLD any_c128, c128_t, int64_t, int64_t, uint8_t, 0, OR_TRUE, OR
#include "reduce_fold.inc"
#define FOLD all_f32, float, int32_t, int32_t, uint8_t, 1, AND_TRUE, AND
#include "reduce_fold.inc"
#define FOLD all_f64, double, int64_t, int64_t, uint8_t, 1, AND_TRUE, AND
#include "reduce_fold.inc"
#define FOLD all_i64, int64_t, int64_t, int64_t, uint8_t, 1, AND_TRUE, AND
#include "reduce_fold.inc"
#define FOLD all_b8, uint8_t, uint8_t, uint8_t, uint8_t, 1, AND_TRUE, AND
#include "reduce_fold.inc"
#define FOLD all_c64, c64_t, int64_t, int64_t, uint8_t, 1, AND_TRUE, AND
#include "reduce_fold.inc"
#define FOLD all_c128, c128_t, int64_t, int64_t, uint8_t, 1, AND_TRUE, AND
#include "reduce_fold.inc"

/* A mean is a sum with another end. */
#define MEAN(id, W, R)                                                                             \
    static void mean_##id##_finish(void *const *out, const void *acc, int64_t n, int64_t count,    \
                                   const void *params) {                                           \
        (void)params;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((R *)out[0])[i] = (R)(((const W *)acc)[i] / (double)count);                           \
    }                                                                                              \
    static const reduce_loops mean_##id##_loops = {sizeof(W), sum_##id##_start, sum_##id##_fold,   \
                                                   sum_##id##_merge, mean_##id##_finish};
MEAN(f32, double, float)
MEAN(f64, double, double)
MEAN(c64, c128_t, c64_t)
MEAN(c128, c128_t, c128_t)

/* ---- rows ------------------------------------------------------------------------------------ */

#define REAL_(id) &id##_f32_loops, &id##_f64_loops
#define COMPLEX_(id) .c64 = &id##_c64_loops, .c128 = &id##_c128_loops

/* the sum of bools is their count */
static const reducer sums = {REAL_(sum),
                             &sum_i64_loops,
                             &count_b8_loops,
                             COMPLEX_(sum),
                             .fold = CFX__FOLD_SUM,
                             .name = "sum_cpu",
                             .stored = CFX_IN_UINT};
static const reducer nansums = {REAL_(nansum), &sum_i64_loops, .fold = CFX__FOLD_NANSUM,
                                .name = "nansum_cpu", .stored = CFX_IN_UINT};
static const reducer means = {REAL_(mean), COMPLEX_(mean), .fold = CFX__FOLD_MEAN,
                              .name = "sum_cpu"};
static const reducer prods = {REAL_(prod),
                              &prod_i64_loops,
                              COMPLEX_(prod),
                              .fold = CFX__FOLD_PROD,
                              .name = "prod_out_cpu",
                              .stored = CFX_IN_UINT};
static const reducer counts = {REAL_(count),
                               &count_i64_loops,
                               &count_b8_loops,
                               COMPLEX_(count),
                               .fold = CFX__FOLD_COUNT,
                               .name = "nonzero_count_cpu",
                               .stored = CFX_IN(C32)};
static const reducer anys = {REAL_(any),
                             &any_i64_loops,
                             &any_b8_loops,
                             COMPLEX_(any),
                             .fold = CFX__FOLD_ANY,
                             .name = "or_cpu",
                             .stored = CFX_IN_STORED};
static const reducer alls = {REAL_(all),
                             &all_i64_loops,
                             &all_b8_loops,
                             COMPLEX_(all),
                             .fold = CFX__FOLD_ALL,
                             .name = "and_cpu",
                             .stored = CFX_IN_STORED};

/* What the arguments of a reduction are, by their number in the schema; -1 where there is none. */
typedef struct {
    const reducer *reducer;
    enum {
        LIKE_SUM,
        LIKE_MEAN,
        LIKE_ALL,
        LIKE_ALL_DIMS, /* an empty list of dims reduces nothing */
        LIKE_COUNT
    } kind;
    int8_t dim, keepdim, dtype;
} sum_row;

static bool row_mask(cfx_op_call *c, const sum_row *r, uint64_t *mask) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (r->dim < 0) {
        *mask = all_dims(x);
        return true;
    }
    if (r->kind == LIKE_ALL_DIMS && !arg_is_none(c, r->dim) && arg_count(c, r->dim) == 0) {
        *mask = 0;
        return true;
    }
    return arg_dims_mask(c, r->dim, x->ndim, mask);
}

/* The dtype that elements take before they are folded, and that of the result. */
static bool row_dtypes(cfx_op_call *c, const sum_row *r, cfx_dtype *in, cfx_dtype *out) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    bool given = r->dtype >= 0 && !arg_is_none(c, r->dtype);
    switch (r->kind) {
    case LIKE_SUM:
        *in = given ? arg_dtype(c, r->dtype, d) : d;
        *out = !given && (d == CFX_BOOL || cfx__dtype_is_integral(d)) ? CFX_I64 : *in;
        return true;
    case LIKE_MEAN:
        *in = *out = given ? arg_dtype(c, r->dtype, d) : d;
        if (cfx__dtype_is_floating(*out) || cfx__dtype_is_complex(*out))
            return true;
        op_fail(c,
                "mean(): could not infer output dtype. %s dtype must be either a floating point or "
                "complex dtype. Got: %s",
                given ? "Optional" : "Input", cfx__dtype_title(*out));
        return false;
    case LIKE_ALL:
    case LIKE_ALL_DIMS:
        *in = d;
        *out = d == CFX_U8 ? CFX_U8 : CFX_BOOL;
        return true;
    case LIKE_COUNT:
        *in = d;
        *out = CFX_I64;
        return true;
    }
    return false;
}

static void shape_sum(cfx_op_call *c) {
    const sum_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    cfx_dtype in, out, as;
    if (r->reducer == &nansums && cfx__dtype_is_complex(x->dtype))
        op_fail(c, "nansum on CPU does not support complex inputs");
    if (!row_dtypes(c, r, &in, &out) || !reducer_need(c, r->reducer, in, &as) ||
        !row_mask(c, r, &mask))
        return;
    out_reduced(c, 0, out, x, mask, r->keepdim >= 0 && arg_bool(c, r->keepdim));
}

static void kernel_sum(cfx_op_call *c) {
    const sum_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_dtype in, out;
    reduction run = {.nout = 1, .out = {c->out[0]}};
    if (!row_dtypes(c, r, &in, &out) || !row_mask(c, r, &run.mask))
        return;
    run.loops = reducer_need(c, r->reducer, in, &run.as);
    /* a dtype that was asked for is taken first, as if by to(dtype) */
    const bool converted = x->dtype != in && run.as != in;
    if (converted && c->note)
        return;
    run.x = converted ? cfx__tensor_to_dtype(x, in) : x;
    bool truth = r->kind == LIKE_ALL || r->kind == LIKE_ALL_DIMS;
    if (truth && x->dtype == CFX_U8)
        run.loops = r->reducer->b8, run.as = CFX_U8;
    if (r->kind == LIKE_COUNT && (x->dtype == CFX_U8 || x->dtype == CFX_I8))
        run.loops = r->reducer->b8, run.as = x->dtype;
    bool counted = r->kind == LIKE_COUNT || run.as == CFX_BOOL;
    run.fold = counted && !truth ? CFX__FOLD_COUNT : r->reducer->fold;
    run.out_as[0] = truth ? out : counted ? CFX_I64 : run.as;
    if (!op_failed())
        reduce_run_or_note(c, &run);
}

#define SUM(id, ...)                                                                               \
    .shape = shape_sum, .kernel = kernel_sum, .dtypes = CFX_IN_SELF, .effects = CFX_LOOPS,         \
    .row = &(const sum_row) { &id, __VA_ARGS__ }

CFX_OP(sum) = {"aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
               "torch.sum Tensor.sum", SUM(sums, LIKE_SUM, -1, -1, 1), GRAD(sum, 0),
               .core = core_sum, .autocast = CFX_CAST_F32_ON_GPU, .out = "out"};
CFX_OP(sum_dim_IntList) = {"aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, "
                           "ScalarType? dtype=None) -> Tensor",
                           SUM(sums, LIKE_SUM, 1, 2, 3), GRAD(sum_dim, 0), .out = "IntList_out",
                           .autocast = CFX_CAST_F32_ON_GPU};
CFX_OP(nansum) = {"aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, "
                  "ScalarType? dtype=None) -> Tensor",
                  "torch.nansum Tensor.nansum", SUM(nansums, LIKE_SUM, 1, 2, 3),
                  GRAD(nansum, READ(0)), .core = core_nansum, .out = "out"};
CFX_OP(mean) = {"aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                "torch.mean Tensor.mean", SUM(means, LIKE_MEAN, -1, -1, 1), GRAD(mean, 0),
                .quantized = CFX_QUANTIZED_MEAN,
                .out = "dtype_out"};
CFX_OP(mean_dim) = {"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, "
                    "ScalarType? dtype=None) -> Tensor",
                    SUM(means, LIKE_MEAN, 1, 2, 3), GRAD(mean_dim, 0), .out = "out",
                    .quantized = CFX_QUANTIZED_MEAN};
CFX_OP(prod) = {"aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                "torch.prod Tensor.prod", SUM(prods, LIKE_SUM, -1, -1, 1),
                GRAD(prod, READ(0) | RESULT(0)), .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(prod_dim_int) = {"aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, "
                        "ScalarType? dtype=None) -> Tensor",
                        SUM(prods, LIKE_SUM, 1, 2, 3), GRAD(prod_dim, READ(0) | RESULT(0)),
                        .out = "int_out", .autocast = CFX_CAST_F32};
CFX_OP(all) = {"aten::all(Tensor self) -> Tensor", "torch.all Tensor.all",
               SUM(alls, LIKE_ALL, -1, -1, -1), .out = "all_out", .core = core_all};
CFX_OP(all_dim) = {"aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
                   SUM(alls, LIKE_ALL, 1, 2, -1), .out = "out", .core = core_all_dim};
CFX_OP(all_dims) = {"aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
                    SUM(alls, LIKE_ALL_DIMS, 1, 2, -1), .core = core_all_dims, .out = "dims_out"};
CFX_OP(any) = {"aten::any(Tensor self) -> Tensor", "torch.any Tensor.any",
               SUM(anys, LIKE_ALL, -1, -1, -1), .out = "all_out"};
CFX_OP(any_dim) = {"aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
                   SUM(anys, LIKE_ALL, 1, 2, -1), .out = "out"};
CFX_OP(any_dims) = {"aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
                    SUM(anys, LIKE_ALL_DIMS, 1, 2, -1), .out = "dims_out"};
CFX_OP(count_nonzero) = {"aten::count_nonzero(Tensor self, int? dim=None) -> Tensor",
                         "torch.count_nonzero Tensor.count_nonzero",
                         SUM(counts, LIKE_COUNT, 1, -1, -1), .core = core_count_nonzero,
                         .out = "out"};
CFX_OP(count_nonzero_dim_IntList) = {
    "aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
    SUM(counts, LIKE_COUNT, 1, -1, -1), .core = core_count_nonzero_dim_IntList,
    .out = "dim_IntList_out"};
