/* Running sums, products, extremes along one dimension. */
#include "../back.h"
#include "../cmul.h"
#include "../special.h"

#include <complex.h>
#include <math.h>

CFX_FAMILY(REDUCE);
#undef I

typedef float _Complex c64_t;
typedef double _Complex c128_t;

enum { SCAN_WIDTH = 128 }; /* columns taken at a time */

typedef struct {
    void *out, *places; /* places: of extremes alone */
    const void *x;
    int64_t n, inner;
} scan_job;

/* Where block u of columns begins, and how many columns it has. */
static int64_t scan_at(const scan_job *s, int64_t u, int64_t *width) {
    int64_t blocks = (s->inner + SCAN_WIDTH - 1) / SCAN_WIDTH, first = u % blocks * SCAN_WIDTH;
    *width = s->inner - first < SCAN_WIDTH ? s->inner - first : SCAN_WIDTH;
    return u / blocks * s->n * s->inner + first;
}

/* ---- loops ----------------------------------------------------------------------------------- */

#define PLUS(a, x) ((a) + (x))
#define TIMES(a, x) ((a) * (x))

#define T float
#define A double
#define FN(x) cumsum_f32_##x
#define STEP PLUS
#define START 0
#include "scan.inc"
#define T double
#define A double
#define FN(x) cumsum_f64_##x
#define STEP PLUS
#define START 0
#include "scan.inc"
#define T int64_t
#define A uint64_t
#define FN(x) cumsum_i64_##x
#define STEP(a, x) ((a) + (uint64_t)(x))
#define START 0
#include "scan.inc"
#define T c64_t
#define A c128_t
#define FN(x) cumsum_c64_##x
#define STEP PLUS
#define START 0
#include "scan.inc"
#define T c128_t
#define A c128_t
#define FN(x) cumsum_c128_##x
#define STEP PLUS
#define START 0
#include "scan.inc"
#define T float
#define A double
#define FN(x) cumprod_f32_##x
#define STEP TIMES
#define START 1
#include "scan.inc"
#define T double
#define A double
#define FN(x) cumprod_f64_##x
#define STEP TIMES
#define START 1
#include "scan.inc"
#define T int64_t
#define A uint64_t
#define FN(x) cumprod_i64_##x
#define STEP(a, x) ((a) * (uint64_t)(x))
#define START 1
#include "scan.inc"
#define T c64_t
#define A c128_t
#define FN(x) cumprod_c64_##x
#define STEP CMUL
#define START 1
#include "scan.inc"
#define T c128_t
#define A c128_t
#define FN(x) cumprod_c128_##x
#define STEP CMUL
#define START 1
#include "scan.inc"

/* log(e^a + e^x) without leaving the range of numbers. */
static inline double log_add(double a, double x) {
    double low = a < x ? a : x, high = a < x ? x : a;
    if (a != a || x != x)
        return NAN;
    return low == high && isinf(high) ? high : high + log1p(exp(low - high));
}

#define T float
#define A double
#define FN(x) logcumsumexp_f32_##x
#define STEP log_add
#define START -INFINITY
#include "scan.inc"
#define T double
#define A double
#define FN(x) logcumsumexp_f64_##x
#define STEP log_add
#define START -INFINITY
#include "scan.inc"

#define T float _Complex
#define A double _Complex
#define FN(x) logcumsumexp_c64_##x
#define STEP special_log_add
#define START -INFINITY
#include "scan.inc"
#define T double _Complex
#define A double _Complex
#define FN(x) logcumsumexp_c128_##x
#define STEP special_log_add
#define START -INFINITY
#include "scan.inc"

/* The last of equals is the place; once a NaN was seen, the last NaN is. */
#define EXTREME(id, T, before)                                                                     \
    static void id##_run(void *arg, int64_t begin, int64_t end) {                                  \
        const scan_job *s = arg;                                                                   \
        for (int64_t u = begin; u < end; u++) {                                                    \
            int64_t width, at = scan_at(s, u, &width);                                             \
            for (int64_t j = 0; j < width; j++) {                                                  \
                const T *x = (const T *)s->x + at + j;                                             \
                T *out = (T *)s->out + at + j, best = *x;                                          \
                int64_t *place = (int64_t *)s->places + at + j, found = 0;                         \
                for (int64_t i = 0; i < s->n; i++) {                                               \
                    const T y = x[i * s->inner];                                                   \
                    const bool beats = y before best, number = best == best;                       \
                    if (y != y || (number && beats)) {                                             \
                        best = y;                                                                  \
                        found = i;                                                                 \
                    }                                                                              \
                    out[i * s->inner] = best;                                                      \
                    place[i * s->inner] = found;                                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
EXTREME(cummax_f32, float, >=)
EXTREME(cummax_f64, double, >=)
EXTREME(cummax_i64, int64_t, >=)
EXTREME(cummin_f32, float, <=)
EXTREME(cummin_f64, double, <=)
EXTREME(cummin_i64, int64_t, <=)

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct {
    cfx__parallel_fn *f32, *f64, *i64, *c64, *c128;
    const char *name;
    bool dtype; /* argument 2 is a dtype; integers become int64 */
} scan_row;

static cfx__parallel_fn *scan_for(cfx_op_call *c, const scan_row *r, cfx_dtype d) {
    cfx__parallel_fn *f = !cfx__dtype_is_computed(d)              ? NULL
                          : d == CFX_F64                          ? r->f64
                          : d == CFX_C64                          ? r->c64
                          : d == CFX_C128                         ? r->c128
                          : d == CFX_F32 || cfx__dtype_is_half(d) ? r->f32
                                                                  : r->i64;
    if (!f)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", r->name,
                   cfx__dtype_title(d));
    return f;
}

static void shape_scan(cfx_op_call *c) {
    const scan_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_dtype d = x->dtype;
    if (arg_dim(c, 1, x->ndim) < 0)
        return;
    if (r->dtype)
        d = arg_dtype(c, 2, d == CFX_BOOL || cfx__dtype_is_integral(d) ? CFX_I64 : d);
    if (!scan_for(c, r, d))
        return;
    out_new(c, 0, d, x->ndim, x->shape);
    if (c->nout == 2)
        out_new(c, 1, CFX_I64, x->ndim, x->shape);
}

static void kernel_scan(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    const scan_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx__parallel_fn *run = scan_for(c, r, out->dtype);
    /* a dtype that was asked for is taken first, as if by to(dtype) */
    if (r->dtype && !arg_is_none(c, 2))
        x = cfx__tensor_to_dtype(x, arg_dtype(c, 2, x->dtype));
    x = cfx__tensor_contiguous_as(x, out->dtype);
    if (op_failed() || x->numel == 0)
        return;
    int dim = arg_dim(c, 1, x->ndim);
    scan_job s = {out->data, c->nout == 2 ? c->out[1]->data : NULL, x->data,
                  x->ndim ? x->shape[dim] : 1, 1};
    for (int i = dim + 1; i < x->ndim; i++)
        s.inner *= x->shape[i];
    int64_t units = x->numel / (s.n * s.inner) * ((s.inner + SCAN_WIDTH - 1) / SCAN_WIDTH);
    cfx__parallel(units, 8192 / (x->numel / units) + 1, run, &s);
}

#define SCAN(...)                                                                                  \
    .shape = shape_scan, .kernel = kernel_scan,                                                    \
    .dtypes = CFX_IN_NUMBER | CFX_IN(C64) | CFX_IN(C128) | CFX_IN_SELF, .row = &(const scan_row) { \
        __VA_ARGS__                                                                                \
    }
#define REAL_(id) id##_f32_run, id##_f64_run

CFX_OP(cumsum) = {"aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
                  "torch.cumsum Tensor.cumsum",
                  SCAN(REAL_(cumsum), cumsum_i64_run, cumsum_c64_run, cumsum_c128_run,
                       "cumsum_out_cpu", true), GRAD(cumsum, 0), .autocast = CFX_CAST_F32_ON_GPU,
                       .inplace = "default", .out = "out"};
CFX_OP(cumprod) = {"aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
                   "torch.cumprod Tensor.cumprod",
                   SCAN(REAL_(cumprod), cumprod_i64_run, cumprod_c64_run, cumprod_c128_run,
                        "cumprod_out_cpu", true), GRAD(cumprod, READ(0) | RESULT(0)),
                        .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default", .out = "out"};
CFX_OP(logcumsumexp) = {
    "aten::logcumsumexp(Tensor self, int dim) -> Tensor", "torch.logcumsumexp Tensor.logcumsumexp",
    SCAN(REAL_(logcumsumexp), NULL, logcumsumexp_c64_run, logcumsumexp_c128_run,
         "logcumsumexp_out_cpu", false),
    GRAD(logcumsumexp, READ(0) | RESULT(0)), .out = "out"};
CFX_OP(_logcumsumexp) = {
    "aten::_logcumsumexp(Tensor self, int dim) -> Tensor",
    SCAN(REAL_(logcumsumexp), NULL, logcumsumexp_c64_run, logcumsumexp_c128_run,
         "logcumsumexp_out_cpu", false),
    GRAD(logcumsumexp, READ(0) | RESULT(0)), .out = "out"};
static void grad_cummax(cfx_back *b) {
    const cfx_tensor *x = back_arg(b, 0);
    if (!b->gout[0])
        return;
    back_give(b, 0, x->ndim && x->numel
                        ? cfx_scatter_add(zeros_as(x), b->args[1], b->out[1], b->gout[0])
                        : b->gout[0]);
}

CFX_OP(cummax) = {"aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
                  "torch.cummax Tensor.cummax",
                  SCAN(REAL_(cummax), cummax_i64_run, NULL, NULL, "cummax_cpu", false),
                  GRAD(cummax, RESULT(1)), .out = "out"};
CFX_OP(cummin) = {"aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
                  "torch.cummin Tensor.cummin",
                  SCAN(REAL_(cummin), cummin_i64_run, NULL, NULL, "cummin_cpu", false),
                  GRAD(cummax, RESULT(1)), .out = "out"};
