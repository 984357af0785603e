/* Largest and smallest elements, and where they stand. */
#include "../numbered.h"
#include "../reduce.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* ---- loops ----------------------------------------------------------------------------------- */

/* A NaN wins over everything. */
#define LARGER(a, x) ((((x) > (a)) | ((x) != (x))) ? (x) : (a))
#define SMALLER(a, x) ((((x) < (a)) | ((x) != (x))) ? (x) : (a))
/* One instruction of a vector each. */
#define LARGER_NUMBER(a, x) ((x) > (a) ? (x) : (a))
#define SMALLER_NUMBER(a, x) ((x) < (a) ? (x) : (a))

#define FOLD_NAN int32_t
#define FOLD max_f32, float, float, float, float, -INFINITY, LARGER_NUMBER, LARGER
#include "reduce_fold.inc"
#define FOLD_NAN int64_t
#define FOLD max_f64, double, double, double, double, -INFINITY, LARGER_NUMBER, LARGER
#include "reduce_fold.inc"
#define FOLD max_i64, int64_t, int64_t, int64_t, int64_t, INT64_MIN, LARGER, LARGER
#include "reduce_fold.inc"
#define FOLD max_b8, uint8_t, uint8_t, uint8_t, uint8_t, 0, LARGER, LARGER
#include "reduce_fold.inc"
#define FOLD_NAN int32_t
#define FOLD min_f32, float, float, float, float, INFINITY, SMALLER_NUMBER, SMALLER
#include "reduce_fold.inc"
#define FOLD_NAN int64_t
#define FOLD min_f64, double, double, double, double, INFINITY, SMALLER_NUMBER, SMALLER
#include "reduce_fold.inc"
#define FOLD min_i64, int64_t, int64_t, int64_t, int64_t, INT64_MAX, SMALLER, SMALLER
#include "reduce_fold.inc"
#define FOLD min_b8, uint8_t, uint8_t, uint8_t, uint8_t, 1, SMALLER, SMALLER
#include "reduce_fold.inc"

#define ARG argmax_f32, float, int32_t, >
#include "reduce_arg.inc"
#define ARG argmax_f64, double, int64_t, >
#include "reduce_arg.inc"
#define ARG argmax_i64, int64_t, int64_t, >
#include "reduce_arg.inc"
#define ARG argmin_f32, float, int32_t, <
#include "reduce_arg.inc"
#define ARG argmin_f64, double, int64_t, <
#include "reduce_arg.inc"
#define ARG argmin_i64, int64_t, int64_t, <
#include "reduce_arg.inc"

#define LOOPS(id) &id##_f32_loops, &id##_f64_loops, &id##_i64_loops
#define BOTH(id) &id##_f32_both_loops, &id##_f64_both_loops, &id##_i64_both_loops

static const reducer maxes = {LOOPS(max), &max_b8_loops, .fold = CFX__FOLD_MAX,
                              .name = "max_values_cpu"};
static const reducer mins = {LOOPS(min), &min_b8_loops, .fold = CFX__FOLD_MIN,
                             .name = "min_values_cpu"};
static const reducer argmaxes = {LOOPS(argmax), .name = "argmax_cpu"};
static const reducer argmins = {LOOPS(argmin), .name = "argmin_cpu"};
static const reducer max_dims = {BOTH(argmax), .name = "max_cpu"};
static const reducer min_dims = {BOTH(argmin), .name = "min_cpu"};

typedef struct {
    const reducer *reducer;
    const char *name;
} max_row;

static void run_max(cfx_op_call *c, const reducer *r, uint64_t mask, int i) {
    reduction run = {.x = arg_tensor(c, 0), .fold = r->fold, .mask = mask, .nout = 1};
    run.out[0] = c->out[i];
    run.loops = reducer_need(c, r, run.x->dtype, &run.as);
    run.out_as[0] = run.as;
    if (run.loops)
        reduce_run_or_note(c, &run);
}

/* ---- amax, amin: any dims; max, min: all of them --------------------------------------------- */

static bool amax_mask(cfx_op_call *c, const char *name, uint64_t *mask) {
    const cfx_tensor *x = arg_tensor(c, 0);
    bool whole = c->nargs == 1 || arg_count(c, 1) == 0;
    if (x->numel == 0 && whole) {
        op_fail_as(RUNTIME, c,
                   "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                   "the reduction dim with the 'dim' argument.",
                   name);
        return false;
    }
    *mask = all_dims(x);
    if (c->nargs == 1)
        return true;
    return arg_dims_mask(c, 1, x->ndim, mask) && reduce_nonempty(c, name, x, *mask);
}

static void shape_amax(cfx_op_call *c) {
    const max_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    cfx_dtype as;
    if (!reducer_need(c, r->reducer, x->dtype, &as) || !amax_mask(c, r->name, &mask))
        return;
    out_reduced(c, 0, x->dtype, x, mask, c->nargs > 2 && arg_bool(c, 2));
}

static void kernel_amax(cfx_op_call *c) {
    const max_row *r = c->op->row;
    uint64_t mask;
    if (amax_mask(c, r->name, &mask))
        run_max(c, r->reducer, mask, 0);
}

#define AMAX(id, text)                                                                             \
    .shape = shape_amax, .kernel = kernel_amax, .effects = CFX_LOOPS,                              \
    .row = &(const max_row) { &id, text }

CFX_OP(amax) = {"aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
                "torch.amax Tensor.amax", AMAX(maxes, "amax"), GRAD(amax, READ(0) | RESULT(0)),
                .out = "out"};
CFX_OP(amin) = {"aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
                "torch.amin Tensor.amin", AMAX(mins, "amin"), GRAD(amax, READ(0) | RESULT(0)),
                .out = "out"};
CFX_OP(max) = {"aten::max(Tensor self) -> Tensor", "torch.max Tensor.max", AMAX(maxes, "max"),
               GRAD(max, READ(0) | RESULT(0)), NUMBERED(1), .out = "unary_out"};
CFX_OP(min) = {"aten::min(Tensor self) -> Tensor", "torch.min Tensor.min", AMAX(mins, "min"),
               GRAD(max, READ(0) | RESULT(0)), NUMBERED(1), .out = "unary_out"};

/* ---- aminmax --------------------------------------------------------------------------------- */

static bool aminmax_mask(cfx_op_call *c, uint64_t *mask) {
    const cfx_tensor *x = arg_tensor(c, 0);
    bool whole = c->nargs == 1 || arg_is_none(c, 1);
    *mask = all_dims(x);
    if (whole) {
        if (x->numel == 0)
            op_fail(c, "aminmax(): cannot compute aminmax over an empty dimension as the operation "
                       "has no identity.");
        return x->numel != 0;
    }
    int dim = arg_dim(c, 1, x->ndim);
    if (dim < 0)
        return false;
    *mask = dim_mask(x, dim);
    return reduce_nonempty(c, "aminmax", x, *mask);
}

static void shape_aminmax(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    cfx_dtype as;
    if (!reducer_need(c, &maxes, x->dtype, &as) || !aminmax_mask(c, &mask))
        return;
    bool keepdim = c->nargs > 2 && arg_bool(c, 2);
    out_reduced(c, 0, x->dtype, x, mask, keepdim);
    out_reduced(c, 1, x->dtype, x, mask, keepdim);
}

static void kernel_aminmax(cfx_op_call *c) {
    uint64_t mask;
    if (!aminmax_mask(c, &mask))
        return;
    run_max(c, &mins, mask, 0);
    run_max(c, &maxes, mask, 1);
}

CFX_OP(aminmax) = {
    "aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    "torch.aminmax Tensor.aminmax", .shape = shape_aminmax, .kernel = kernel_aminmax,
    GRAD(aminmax, READ(0) | RESULT(0) | RESULT(1)), .core = core_aminmax, .out = "out"};
CFX_OP(_aminmax) = {"aten::_aminmax(Tensor self) -> (Tensor, Tensor)", .shape = shape_aminmax,
                    .kernel = kernel_aminmax, .out = "out"};
CFX_OP(_aminmax_dim) = {
    "aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
    .shape = shape_aminmax, .kernel = kernel_aminmax, .out = "dim_out"};

/* ---- max.dim, min.dim: values and places ----------------------------------------------------- */

static void shape_max_dim(cfx_op_call *c) {
    const max_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_dtype as;
    int dim = arg_dim(c, 1, x->ndim);
    if (dim < 0 || !reducer_need(c, r->reducer, x->dtype, &as) ||
        !reduce_nonempty(c, r->name, x, dim_mask(x, dim)))
        return;
    out_reduced(c, 0, x->dtype, x, dim_mask(x, dim), arg_bool(c, 2));
    out_reduced(c, 1, CFX_I64, x, dim_mask(x, dim), arg_bool(c, 2));
}

static void kernel_max_dim(cfx_op_call *c) {
    const max_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    reduction run = {.x = x, .mask = dim_mask(x, arg_dim(c, 1, x->ndim)), .ordered = true,
                     .nout = 2, .out = {c->out[0], c->out[1]}, .out_as = {0, CFX_I64}};
    run.loops = reducer_need(c, r->reducer, x->dtype, &run.as);
    run.out_as[0] = run.as;
    if (run.loops)
        reduce_run(&run);
}

#define MAX_DIM(id, text)                                                                          \
    .shape = shape_max_dim, .kernel = kernel_max_dim, .row = &(const max_row) { &id, text }

CFX_OP(max_dim) = {
    "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    MAX_DIM(max_dims, "max"), GRAD(max_dim, RESULT(1)), NUMBERED(0),
    .out = "dim_max max max_values"};
CFX_OP(min_dim) = {
    "aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    MAX_DIM(min_dims, "min"), GRAD(max_dim, RESULT(1)), NUMBERED(0),
    .out = "dim_min min min_indices"};

/* ---- argmax, argmin -------------------------------------------------------------------------- */

static void shape_argmax(cfx_op_call *c) {
    const max_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_dtype as;
    uint64_t mask = all_dims(x);
    if (x->dtype == CFX_BOOL) {
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s_cpu\" not implemented for 'Bool'", r->name);
        return;
    }
    if (!reducer_need(c, r->reducer, x->dtype, &as))
        return;
    if (arg_is_none(c, 1)) {
        if (x->numel == 0) {
            op_fail_as(INDEX, c,
                       "%s(): Expected reduction dim to be specified for input.numel() == 0.",
                       r->name);
            return;
        }
    } else {
        int dim = arg_dim(c, 1, x->ndim);
        if (dim < 0 || !reduce_nonempty(c, r->name, x, mask = dim_mask(x, dim)))
            return;
    }
    out_reduced(c, 0, CFX_I64, x, mask, arg_bool(c, 2));
}

static void kernel_argmax(cfx_op_call *c) {
    const max_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    reduction run = {.x = x, .ordered = true, .nout = 1, .out = {c->out[0]}, .out_as = {CFX_I64}};
    run.loops = reducer_need(c, r->reducer, x->dtype, &run.as);
    if (arg_is_none(c, 1)) {
        /* places count in row-major order: one dim of all elements */
        cfx_tensor *flat = cfx__tensor_contiguous(x);
        run.x = cfx__tensor_alias(flat, 1, &x->numel, (int64_t[]){1}, flat->offset);
        run.mask = 1;
    } else {
        run.mask = dim_mask(x, arg_dim(c, 1, x->ndim));
    }
    if (run.loops && !op_failed())
        reduce_run(&run);
}

#define ARGMAX(id, text)                                                                           \
    .shape = shape_argmax, .kernel = kernel_argmax, .row = &(const max_row) { &id, text }

CFX_OP(argmax) = {"aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
                  "torch.argmax Tensor.argmax", ARGMAX(argmaxes, "argmax"), .out = "out"};
CFX_OP(argmin) = {"aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
                  "torch.argmin Tensor.argmin", ARGMAX(argmins, "argmin"), .out = "out"};
