/* Variance and standard deviation, with and without the mean. */
#include "../numbered.h"
#include "../reduce.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct {
    double mean, squares, n; /* squares: of deviations from the mean, summed */
} var_acc;

typedef struct {
    double correction;
    bool root, means;
} var_params;

static void var_start(void *acc, int64_t n) { memset(acc, 0, (size_t)n * sizeof(var_acc)); }

/* A block whose elements deviate from `about` by d1 in sum, and by d2 in the sum of squares. */
static inline var_acc var_block(double about, double d1, double d2, double n) {
    const double squares = d2 - d1 * d1 / n;
    return (var_acc){about + d1 / n, squares < 0 ? 0 : squares, n}; /* rounded: never less */
}

static inline void var_join(var_acc *a, var_acc b) {
    double n = a->n + b.n, delta = b.mean - a->mean;
    if (a->n == 0) {
        *a = b;
        return;
    }
    a->squares += b.squares + delta * delta * a->n * b.n / n;
    a->mean += delta * b.n / n;
    a->n = n;
}

static void var_merge(void *acc, const void *other, int64_t n) {
    var_acc *a = acc;
    const var_acc *o = other;
    for (int64_t i = 0; i < n; i++)
        if (o[i].n > 0)
            var_join(&a[i], o[i]);
}

#define T float
#define FN(x) var_f32_##x
#include "reduce_var.inc"
#define T double
#define FN(x) var_f64_##x
#include "reduce_var.inc"

static const reducer vars = {&var_f32_loops, &var_f64_loops, .name = "std_var_cpu"};

/* ---- rows ------------------------------------------------------------------------------------ */

/* Arguments by their number in the schema, -1 where there is none: dims, keepdim, and the
 * correction itself or whether it is 1. */
typedef struct {
    bool root, means;
    int8_t dim, keepdim, correction, unbiased;
} var_row;

static bool var_mask(cfx_op_call *c, uint64_t *mask) {
    const var_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    *mask = all_dims(x);
    return r->dim < 0 || arg_dims_mask(c, r->dim, x->ndim, mask);
}

static void shape_var(cfx_op_call *c) {
    const var_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    if (!cfx__dtype_is_float(x->dtype) && !cfx__dtype_is_complex(x->dtype)) {
        const char *name = r->means ? r->root ? "std_mean" : "var_mean" : "std and var";
        op_fail(c, "%s only support floating point and complex dtypes", name);
        return;
    }
    if (!var_mask(c, &mask))
        return;
    bool keepdim = r->keepdim >= 0 && arg_bool(c, r->keepdim);
    out_reduced(c, 0, cfx__dtype_real(x->dtype), x, mask, keepdim);
    if (r->means)
        out_reduced(c, 1, x->dtype, x, mask, keepdim);
}

static void run_var(cfx_op_call *c, const cfx_tensor *x, const var_params *p, uint64_t mask,
                    cfx_tensor *var, cfx_tensor *mean) {
    reduction run = {.x = x, .mask = mask, .nout = p->means ? 2 : 1, .out = {var, mean},
                     .params = p};
    run.loops = reducer_need(c, &vars, x->dtype, &run.as);
    run.out_as[0] = run.out_as[1] = run.as;
    if (run.loops)
        reduce_run(&run);
}

/* The real or the imaginary parts of a complex tensor, where they lie. */
static cfx_tensor *part_of(const cfx_tensor *x, bool imaginary) {
    cfx_tensor *t = cfx__tensor_alias(x, x->ndim, x->shape, x->stride, x->offset);
    t->dtype = (uint8_t)cfx__dtype_real(x->dtype);
    t->data += imaginary ? cfx_dtype_size(t->dtype) : 0;
    for (int d = 0; d < t->ndim; d++)
        t->stride[d] *= 2;
    return t;
}

/* The variance of complex numbers is that of their parts together. */
static void kernel_var_complex(cfx_op_call *c, const var_params *p, uint64_t mask) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0], *var[2], *mean[2];
    var_params plain = {p->correction, false, true};
    for (int i = 0; i < 2; i++) {
        var[i] = cfx__tensor_empty(c->at, out->dtype, false, out->ndim, out->shape, NULL);
        mean[i] = cfx__tensor_empty(c->at, out->dtype, false, out->ndim, out->shape, NULL);
        if (op_failed())
            return;
        run_var(c, part_of(x, i), &plain, mask, var[i], mean[i]);
        if (p->means)
            cfx__tensor_copy(part_of(c->out[1], i), mean[i]);
    }
    for (int64_t i = 0; i < out->numel; i++) {
        double v = cfx_number(cfx__tensor_get(var[0], i)) + cfx_number(cfx__tensor_get(var[1], i));
        cfx__tensor_set(out, i, cfx_float(p->root ? sqrt(v) : v));
    }
}

static void kernel_var(cfx_op_call *c) {
    const var_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    var_params p = {1, r->root, r->means};
    uint64_t mask;
    if (r->correction >= 0 && !arg_is_none(c, r->correction))
        p.correction = arg_float(c, r->correction);
    if (r->unbiased >= 0)
        p.correction = arg_bool(c, r->unbiased);
    if (!var_mask(c, &mask))
        return;
    if (cfx__dtype_is_complex(x->dtype))
        kernel_var_complex(c, &p, mask);
    else
        run_var(c, x, &p, mask, c->out[0], r->means ? c->out[1] : NULL);
}

#define VAR(...)                                                                                   \
    .shape = shape_var, .kernel = kernel_var, .effects = CFX_OUT_CASTS,                            \
    .row = &(const var_row) {                                                                      \
        __VA_ARGS__                                                                                \
    }

/* PyTorch's order: a number behind the tensor is a dimension, a bool says whether the estimate is
 * unbiased, and without either the rule is that of a correction. */
CFX_OP(var_dim) = {"aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
                   "keepdim=False) -> Tensor", "torch.var Tensor.var",
                   VAR(false, false, 1, 3, -1, 2), GRAD(var, READ(0)), NUMBERED(0), .out = "out",
                   .core = core_var_dim};
CFX_OP(var_correction) = {"aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? "
                          "correction=None, bool keepdim=False) -> Tensor", NULL,
                          VAR(false, false, 1, 3, 2, -1), GRAD(var, READ(0)), NUMBERED(0),
                          .out = "correction_out"};
CFX_OP(var) = {"aten::var(Tensor self, bool unbiased=True) -> Tensor", NULL,
               VAR(false, false, -1, -1, -1, 1), GRAD(var, READ(0)), NUMBERED(0), .core = core_var};
CFX_OP(std_dim) = {"aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
                   "keepdim=False) -> Tensor", "torch.std Tensor.std",
                   VAR(true, false, 1, 3, -1, 2), GRAD(std, READ(0) | RESULT(0)), NUMBERED(0),
                   .out = "out",
                   .core = core_std_dim};
CFX_OP(std_correction) = {"aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? "
                          "correction=None, bool keepdim=False) -> Tensor", NULL,
                          VAR(true, false, 1, 3, 2, -1), GRAD(std, READ(0) | RESULT(0)),
                          NUMBERED(0),
                          .core = core_std_correction, .out = "correction_out"};
CFX_OP(std) = {"aten::std(Tensor self, bool unbiased=True) -> Tensor", NULL,
               VAR(true, false, -1, -1, -1, 1), GRAD(std, READ(0) | RESULT(0)), NUMBERED(0),
               .core = core_std};
CFX_OP(var_mean_dim) = {"aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
                        "keepdim=False) -> (Tensor, Tensor)", "torch.var_mean",
                        VAR(false, true, 1, 3, -1, 2), GRAD(var_mean, READ(0)), NUMBERED(0),
                        .core = core_var_mean_dim};
CFX_OP(var_mean_correction) = {"aten::var_mean.correction(Tensor self, int[1]? dim=None, *, "
                               "Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
                               NULL,
                               VAR(false, true, 1, 3, 2, -1), GRAD(var_mean, READ(0)), NUMBERED(0),
                               .out = "correction_out"};
CFX_OP(var_mean) = {"aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
                    NULL, VAR(false, true, -1, -1, -1, 1), GRAD(var_mean, READ(0)), NUMBERED(0),
                    .core = core_var_mean};
CFX_OP(std_mean_dim) = {"aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
                        "keepdim=False) -> (Tensor, Tensor)", "torch.std_mean",
                        VAR(true, true, 1, 3, -1, 2), GRAD(std_mean, READ(0) | RESULT(0)),
                        NUMBERED(0),
                        .core = core_std_mean_dim};
CFX_OP(std_mean_correction) = {"aten::std_mean.correction(Tensor self, int[1]? dim=None, *, "
                               "Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
                               NULL,
                               VAR(true, true, 1, 3, 2, -1), GRAD(std_mean, READ(0) | RESULT(0)),
                               NUMBERED(0),
                               .core = core_std_mean_correction, .out = "correction_out"};
CFX_OP(std_mean) = {"aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
                    NULL, VAR(true, true, -1, -1, -1, 1),
                    GRAD(std_mean, READ(0) | RESULT(0)), NUMBERED(0), .core = core_std_mean};
