/* Norms of vectors, and what is made of them: dist, renorm. */
#include <cfx/ops.h>

#include "../loops.h"
#include "../numbered.h"
#include "../reduce.h"

CFX_FAMILY(REDUCE);

/* ---- loops ----------------------------------------------------------------------------------- */

#define PLUS(a, b) ((a) + (b))
#define PLUS_ABS(a, x) ((a) + fabs(x))
#define PLUS_SQUARE(a, x) ((a) + (x) * (x))
#define PLUS_ONE(a, x) ((a) + ((x) != 0))
#define PLUS_POWER(a, x) ((a) + pow(fabs((double)(x)), *(const double *)params))
#define LARGER(a, x) (((fabs(x) > (a)) | ((x) != (x))) ? fabs(x) : (a))
#define SMALLER(a, x) (((fabs(x) < (a)) | ((x) != (x))) ? fabs(x) : (a))

#define FOLD norm0_f32, float, float, double, float, 0, PLUS_ONE, PLUS
#include "reduce_fold.inc"
#define FOLD norm0_f64, double, double, double, double, 0, PLUS_ONE, PLUS
#include "reduce_fold.inc"
#define FOLD norm1_f32, float, float, double, float, 0, PLUS_ABS, PLUS
#include "reduce_fold.inc"
#define FOLD norm1_f64, double, double, double, double, 0, PLUS_ABS, PLUS
#include "reduce_fold.inc"
#define FOLD squares_f32, float, float, double, float, 0, PLUS_SQUARE, PLUS
#include "reduce_fold.inc"
#define FOLD squares_f64, double, double, double, double, 0, PLUS_SQUARE, PLUS
#include "reduce_fold.inc"
#define FOLD powers_f32, float, double, double, float, 0, PLUS_POWER, PLUS
#include "reduce_fold.inc"
#define FOLD powers_f64, double, double, double, double, 0, PLUS_POWER, PLUS
#include "reduce_fold.inc"
#define FOLD most_f32, float, float, float, float, 0, LARGER, LARGER
#include "reduce_fold.inc"
#define FOLD most_f64, double, double, double, double, 0, LARGER, LARGER
#include "reduce_fold.inc"
#define FOLD least_f32, float, float, float, float, INFINITY, SMALLER, SMALLER
#include "reduce_fold.inc"
#define FOLD least_f64, double, double, double, double, INFINITY, SMALLER, SMALLER
#include "reduce_fold.inc"

/* Other ends of the sums of squares and powers. */
#define ROOT(id, R)                                                                                \
    static void root2_##id(void *const *out, const void *acc, int64_t n, int64_t count,            \
                           const void *params) {                                                   \
        (void)count, (void)params;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((R *)out[0])[i] = (R)sqrt(((const double *)acc)[i]);                                  \
    }                                                                                              \
    static void root_##id(void *const *out, const void *acc, int64_t n, int64_t count,             \
                          const void *params) {                                                    \
        (void)count;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((R *)out[0])[i] = (R)pow(((const double *)acc)[i], 1 / *(const double *)params);      \
    }                                                                                              \
    static const reduce_loops norm2_##id##_loops = {sizeof(double), squares_##id##_start,          \
                                                    squares_##id##_fold, squares_##id##_merge,     \
                                                    root2_##id};                                   \
    static const reduce_loops normp_##id##_loops = {sizeof(double), powers_##id##_start,           \
                                                    powers_##id##_fold, powers_##id##_merge,       \
                                                    root_##id};
ROOT(f32, float)
ROOT(f64, double)

#define REAL_(id) {&id##_f32_loops, &id##_f64_loops, .name = "norm_cpu"}

static const reducer *norm_of(double p) {
    static const reducer zero = REAL_(norm0), one = REAL_(norm1), two = REAL_(norm2),
                         any = REAL_(normp), most = REAL_(most), least = REAL_(least);
    return p == 0           ? &zero
           : p == 1         ? &one
           : p == 2         ? &two
           : p == INFINITY  ? &most
           : p == -INFINITY ? &least
                            : &any;
}

LOOP1(magnitude_c64, c64_t, float, f, cabsf(x))
LOOP1(magnitude_c128, c128_t, double, f, cabs(x))

/* |x| of complex numbers; other tensors are their own. */
static const cfx_tensor *magnitude(cfx_op_call *c, const cfx_tensor *x) {
    if (!cfx__dtype_is_complex(x->dtype))
        return x;
    cfx_dtype real = cfx__dtype_real(x->dtype);
    cfx_tensor *y = cfx__tensor_empty(c->at, real, false, x->ndim, x->shape, NULL);
    cfx__iter_operand o[2] = {{y, real}, {x, x->dtype}};
    pointwise_params none = {.dtype = x->dtype};
    if (!op_failed())
        cfx__iter_pointwise(x->dtype == CFX_C64 ? magnitude_c64 : magnitude_c128, 1, 1, o, &none,
                            4);
    return y;
}

/* out = the p-norm of x over the dims of the mask, elements taken as `in` first. */
static void run_norm(cfx_op_call *c, const cfx_tensor *x, cfx_dtype in, double p, uint64_t mask,
                     cfx_tensor *out) {
    x = magnitude(c, x);
    reduction run = {.x = x, .mask = mask, .nout = 1, .out = {out}, .params = &p};
    run.loops = reducer_need(c, norm_of(p), cfx__dtype_real(in), &run.as);
    run.out_as[0] = run.as;
    if (!op_failed())
        reduce_run(&run);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Arguments by their number in the schema; -1 where there is none. */
typedef struct {
    int8_t p, dim, keepdim, dtype;
    bool linalg; /* which function PyTorch's messages name */
} norm_row;

typedef struct {
    double p;
    uint64_t mask;
    bool keepdim;
    cfx_dtype in;
} norm_args;

static double order(cfx_op_call *c, int i) {
    return i < 0 || arg_is_none(c, i) ? 2 : arg_float(c, i);
}

/* Norms without an identity need elements. */
static bool norm_nonempty(cfx_op_call *c, const norm_row *r, const norm_args *a) {
    const cfx_tensor *x = arg_tensor(c, 0);
    if (x->numel || !(a->p < 0 || a->p == INFINITY))
        return true;
    const char *tail = "the operation does not have an identity";
    if (r->dim < 0 || arg_is_none(c, r->dim) || arg_count(c, r->dim) == 0) {
        op_fail(c, "linalg.vector_norm cannot compute the %g norm on an empty tensor because %s",
                a->p, tail);
        return false;
    }
    for (int d = 0; d < x->ndim; d++)
        if ((a->mask >> d & 1) && x->shape[d] == 0) {
            op_fail(c,
                    "linalg.vector_norm cannot compute the %g norm on the dimension %dbecause "
                    "this dimension is empty and %s",
                    a->p, d, tail);
            return false;
        }
    return true;
}

static bool norm_read(cfx_op_call *c, norm_args *a) {
    const norm_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    a->p = order(c, r->p);
    a->keepdim = r->keepdim >= 0 && arg_bool(c, r->keepdim);
    a->mask = all_dims(x);
    a->in = r->dtype < 0 ? x->dtype : arg_dtype(c, r->dtype, x->dtype);
    if (!cfx__dtype_is_float(x->dtype) && !cfx__dtype_is_complex(x->dtype)) {
        if (r->linalg)
            op_fail(c,
                    "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                    "%s",
                    cfx__dtype_title(x->dtype));
        else
            op_fail(c,
                    "norm(): input dtype should be either floating point or complex. Got %s "
                    "instead.",
                    cfx__dtype_title(x->dtype));
        return false;
    }
    if (!cfx__dtype_is_float(a->in) && !cfx__dtype_is_complex(a->in)) {
        op_fail(c, "linalg.vector_norm: dtype should be floating point or complex. Got %s",
                cfx__dtype_title(a->in));
        return false;
    }
    if (cfx__dtype_is_complex(x->dtype) != cfx__dtype_is_complex(a->in)) {
        op_fail(c, "linalg.vector_norm: dtype should be %s for %s inputs, but got %s",
                cfx__dtype_is_complex(x->dtype) ? "complex" : "real",
                cfx__dtype_is_complex(x->dtype) ? "complex" : "real", cfx__dtype_title(a->in));
        return false;
    }
    return (r->dim < 0 || arg_dims_mask(c, r->dim, x->ndim, &a->mask)) && norm_nonempty(c, r, a);
}

static void shape_norm(cfx_op_call *c) {
    norm_args a;
    if (norm_read(c, &a))
        out_reduced(c, 0, cfx__dtype_real(a.in), arg_tensor(c, 0), a.mask, a.keepdim);
}

static void kernel_norm(cfx_op_call *c) {
    norm_args a;
    if (norm_read(c, &a))
        run_norm(c, arg_tensor(c, 0), a.in, a.p, a.mask, c->out[0]);
}

#define NORM(...)                                                                                  \
    .shape = shape_norm, .kernel = kernel_norm, .row = &(const norm_row) { __VA_ARGS__ }

CFX_OP(linalg_vector_norm) = {
    "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "torch.linalg.vector_norm", NORM(1, 2, 3, 4, true), GRAD(norm_dim, READ(0) | RESULT(0)),
    .out = "out"};
CFX_OP(norm_ScalarOpt_dim) = {
    "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
    NULL, NORM(1, 2, 3, -1, false), GRAD(norm_dim, READ(0) | RESULT(0)), NUMBERED(1),
    .out = "out", .core = core_norm_ScalarOpt_dim, .autocast = CFX_CAST_F32_ON_GPU};
CFX_OP(norm_Scalar) = {"aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
                       NORM(1, -1, -1, -1, false), GRAD(norm, READ(0) | RESULT(0)), NUMBERED(0),
                       .core = core_norm_Scalar, .autocast = CFX_CAST_F32_ON_GPU,
                       .out = "Scalar_out"};
CFX_OP(norm_ScalarOpt_dtype) = {
    "aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
    NORM(1, -1, -1, 2, false), GRAD(norm, READ(0) | RESULT(0)), .core = core_norm_ScalarOpt_dtype,
    .autocast = CFX_CAST_F32_ON_GPU, .out = "ScalarOpt_dtype_out"};
CFX_OP(norm_ScalarOpt_dim_dtype) = {
    "aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, "
    "ScalarType dtype) -> Tensor",
    NORM(1, 2, 3, 4, false), GRAD(norm_dim, READ(0) | RESULT(0)), .out = "dtype_out",
    .core = core_norm_ScalarOpt_dim_dtype, .autocast = CFX_CAST_F32_ON_GPU};

static void decompose_frobenius_norm(cfx_op_call *c) {
    c->out[0] = cfx_linalg_vector_norm(arg_tensor(c, 0), 2, c->args[1], c->args[2]);
}

CFX_OP(frobenius_norm_dim) = {
    "aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    "torch.functional.frobenius_norm", .decompose = decompose_frobenius_norm,
    .effects = CFX_COMPOSITE, .out = "out"};

static void decompose_dist(cfx_op_call *c) {
    c->out[0] = cfx_norm(cfx_sub(arg_tensor(c, 0), arg_tensor(c, 1)), c->args[2]);
}

CFX_OP(dist) = {"aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
                "torch.dist Tensor.dist", .decompose = decompose_dist,
                .autocast = CFX_CAST_F32_ON_GPU, .out = "out"};

/* ---- renorm ---------------------------------------------------------------------------------- */

static void shape_renorm(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    double p = arg_float(c, 1), most = arg_float(c, 3);
    if (c->args[1].tag == CFX_TAG_COMPLEX || c->args[3].tag == CFX_TAG_COMPLEX)
        op_fail(c, "renorm: %s must be real-valued",
                c->args[1].tag == CFX_TAG_COMPLEX ? "p" : "maxnorm");
    else if (!(p > 0))
        op_fail(c, "renorm: non-positive-norm not supported");
    else if (!(most >= 0))
        op_fail(c, "renorm: expected maxnorm to be >= 0 but got %g", most);
    else if (x->ndim < 2)
        op_fail(c, "renorm: input needs at least 2 dimensions, got %d dimensions", x->ndim);
    else if (!cfx__dtype_is_float(x->dtype) && !cfx__dtype_is_complex(x->dtype))
        op_fail_as(NOT_IMPLEMENTED, c, "\"renorm_cpu\" not implemented for '%s'",
                   cfx__dtype_title(x->dtype));
    else if (arg_dim(c, 2, x->ndim) >= 0)
        out_new(c, 0, x->dtype, x->ndim, x->shape);
}

static void kernel_renorm(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int dim = arg_dim(c, 2, x->ndim);
    int64_t n = x->shape[dim];
    double most = arg_float(c, 3);
    cfx_dtype real = cfx__dtype_is_complex(x->dtype) ? cfx__dtype_real(x->dtype) : x->dtype;
    cfx_tensor *norm = cfx__tensor_empty(c->at, real, false, 1, &n, NULL);
    if (op_failed() || x->numel == 0)
        return;
    run_norm(c, x, x->dtype, arg_float(c, 1), all_dims(x) & ~((uint64_t)1 << dim), norm);
    cfx__tensor_copy(out, x);
    int64_t inner = out->stride[dim], outer = out->numel / (n * inner);
    inner *= real == x->dtype ? 1 : 2;
    for (int64_t k = 0; k < n; k++) {
        double size = cfx_number(cfx__tensor_get(norm, k));
        if (!(size > most))
            continue;
        double scale = most / (size + 1e-7);
        for (int64_t i = 0; i < outer; i++) {
            int64_t at = (i * n + k) * inner;
            for (int64_t j = at; j < at + inner; j++)
                if (real == CFX_F64)
                    ((double *)out->data)[j] *= scale;
                else
                    ((float *)out->data)[j] *= (float)scale;
        }
    }
}

CFX_OP(renorm) = {"aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
                  "torch.renorm Tensor.renorm", .shape = shape_renorm, .kernel = kernel_renorm,
                  .dtypes = CFX_IN_FLOAT | CFX_IN(C64) | CFX_IN(C128),
                  .effects = CFX_CONTIGUOUS_ARGS, GRAD(renorm, READ(0)), .core = core_renorm,
                  .autocast = CFX_CAST_F32_ON_GPU, .inplace = "default", .out = "out"};
