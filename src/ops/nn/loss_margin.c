/* Margin losses over classes: multi_margin_loss, multilabel_margin_loss, and their gradients. */
#include "../back.h"

#include <math.h>

CFX_FAMILY(REDUCE);

typedef struct {
    const void *x, *weight, *grad_out; /* grad_out: NULL going forward */
    const int64_t *target;
    void *out, *is_target; /* is_target: of multilabel_margin_loss alone */
    int64_t rows, n;
    double margin;
    bool squared, mean, each; /* each: one loss a row */
} margin_job;

#define T float
#define FN(x) f32_##x
#include "loss_margin.inc"
#define T double
#define FN(x) f64_##x
#include "loss_margin.inc"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static void margin_run(cfx_dtype d, const margin_job *j) {
    if (d == CFX_F64)
        f64_margin_run(j);
    else
        f32_margin_run(j);
}

/* Rows and classes of x. False, with an error, where it has none. */
static bool margin_size(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *target,
                        int64_t *rows, int64_t *n) {
    *rows = x->ndim == 2 ? x->shape[0] : 1;
    *n = x->ndim == 0 ? 1 : x->shape[x->ndim - 1];
    if (x->ndim > 2 || *n == 0) {
        op_fail(c,
                "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s",
                cfx__shape_text(x->ndim, x->shape));
        return false;
    }
    if (!cfx__dtype_is_float(x->dtype)) {
        bool labels = !strncmp(op_title(c), "multilabel", 10);
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s_%s\" not implemented for '%s'", op_title(c),
                   labels ? "out_frame" : "cpu_kernel", cfx__dtype_title(x->dtype));
        return false;
    }
    if (target->dtype != CFX_I64) {
        op_fail(c, "expected scalar type Long but found %s", cfx__dtype_title(target->dtype));
        return false;
    }
    return true;
}

static bool targets_in_range(cfx_op_call *c, const cfx_tensor *target, int64_t least, int64_t n,
                             const char *text) {
    for (int64_t i = 0; i < target->numel; i++) {
        int64_t t = ((const int64_t *)target->data)[i];
        if (t < least || t >= n) {
            op_fail(c, "%s", text);
            return false;
        }
    }
    return true;
}

/* The gradient of the result: one number, or one a row. */
static bool grad_fits(cfx_op_call *c, const cfx_tensor *g, const cfx_tensor *x, bool each,
                      int64_t rows) {
    if (g->dtype == x->dtype && g->numel == (each ? rows : 1))
        return true;
    op_fail(c, "%s: the gradient has shape %s and dtype %s", cfx_op_name(c->op),
            cfx__shape_text(g->ndim, g->shape), cfx__dtype_title(g->dtype));
    return false;
}

/* ---- multi_margin_loss ----------------------------------------------------------------------- */

/* Arguments from number `at` on: self, target, p, margin, weight, reduction. */
static bool multi_margin_check(cfx_op_call *c, int at, int64_t *rows, int64_t *n) {
    const cfx_tensor *x = arg_tensor(c, at), *t = arg_tensor(c, at + 1), *w = arg_tensor(c, at + 4);
    double p = arg_float(c, at + 2);
    if (p != 1 && p != 2) {
        op_fail(c, "only p == 1 and p == 2 supported");
        return false;
    }
    if (!margin_size(c, x, t, rows, n))
        return false;
    if (t->ndim > 1 || t->numel != *rows) {
        op_fail(c, "inconsistent target size, expected %lld but got %s", (long long)*rows,
                cfx__shape_text(t->ndim, t->shape));
        return false;
    }
    if (w && (w->ndim > 1 || w->numel != *n || w->dtype != x->dtype)) {
        op_fail(c, "inconsistent weight size, expected %lld but got %s", (long long)*n,
                cfx__shape_text(w->ndim, w->shape));
        return false;
    }
    return true;
}

static void shape_multi_margin(cfx_op_call *c) {
    int64_t rows, n;
    if (!multi_margin_check(c, 0, &rows, &n))
        return;
    bool each = arg_int(c, 5) == REDUCE_NONE && arg_tensor(c, 1)->ndim > 0;
    out_new(c, 0, arg_tensor(c, 0)->dtype, each ? 1 : 0, &rows);
}

static void run_multi_margin(cfx_op_call *c, int at) {
    const cfx_tensor *x = arg_tensor(c, at), *t = arg_tensor(c, at + 1), *w = arg_tensor(c, at + 4);
    margin_job j = {.x = x->data, .weight = w ? w->data : NULL,
                    .grad_out = at ? arg_tensor(c, 0)->data : NULL,
                    .target = (const int64_t *)t->data, .out = c->out[0]->data,
                    .margin = arg_float(c, at + 3), .squared = arg_float(c, at + 2) == 2,
                    .mean = arg_int(c, at + 5) == REDUCE_MEAN,
                    .each = arg_int(c, at + 5) == REDUCE_NONE && t->ndim > 0};
    if (!multi_margin_check(c, at, &j.rows, &j.n) ||
        !targets_in_range(c, t, 0, j.n, "target out of range"))
        return;
    margin_run(x->dtype, &j);
}

static void kernel_multi_margin(cfx_op_call *c) { run_multi_margin(c, 0); }

#define MARGIN .dtypes = CFX_IN_NUMBER, .effects = CFX_CONTIGUOUS_ARGS

static void grad_multi_margin_loss(cfx_back *b) {
    back_give(b, 0, cfx_multi_margin_loss_backward(b->gout[0], b->args[0], b->args[1], b->args[2],
                                                   b->args[3], b->args[4], b->args[5]));
}

static void grad_multilabel_margin_loss(cfx_back *b) {
    if (b->gout[0])
        back_give(b, 0, cfx_multilabel_margin_loss_backward(b->gout[0], b->args[0], b->args[1],
                                                            b->args[2], b->out[1]));
}

CFX_OP(multi_margin_loss) = {"aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, "
                             "Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor",
                             "torch._C._nn.multi_margin_loss", .shape = shape_multi_margin,
                             .kernel = kernel_multi_margin, MARGIN,
                             GRAD(multi_margin_loss, READ(0) | READ(1) | READ(4)),
                             .core = core_multi_margin_loss, .autocast = CFX_CAST_F32,
                             .out = "out"};

static void shape_multi_margin_backward(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 1);
    int64_t rows, n;
    bool each = arg_int(c, 6) == REDUCE_NONE && arg_tensor(c, 2)->ndim > 0;
    if (multi_margin_check(c, 1, &rows, &n) && grad_fits(c, arg_tensor(c, 0), x, each, rows))
        out_new(c, 0, x->dtype, x->ndim, x->shape);
}

static void kernel_multi_margin_backward(cfx_op_call *c) { run_multi_margin(c, 1); }

CFX_OP(multi_margin_loss_backward) = {
    "aten::multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, "
    "Scalar margin, Tensor? weight=None, int reduction=1) -> Tensor",
    .shape = shape_multi_margin_backward, .kernel = kernel_multi_margin_backward, MARGIN,
    .out = "grad_input"};

/* ---- multilabel_margin_loss ------------------------------------------------------------------ */

static bool multilabel_check(cfx_op_call *c, int at, int64_t *rows, int64_t *n) {
    const cfx_tensor *x = arg_tensor(c, at), *t = arg_tensor(c, at + 1);
    if (!margin_size(c, x, t, rows, n))
        return false;
    bool fits = x->ndim <= 1 ? t->ndim <= 1 && t->numel == *n
                             : t->ndim == 2 && t->shape[0] == *rows && t->shape[1] == *n;
    if (!fits)
        op_fail(c, "inconsistent target size: %s for input of size: %s",
                cfx__shape_text(t->ndim, t->shape), cfx__shape_text(x->ndim, x->shape));
    return fits;
}

static void shape_multilabel(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0), *t = arg_tensor(c, 1);
    int64_t rows, n;
    if (!multilabel_check(c, 0, &rows, &n))
        return;
    out_new(c, 0, x->dtype, arg_int(c, 2) == REDUCE_NONE && t->ndim > 1 ? 1 : 0, &rows);
    out_new(c, 1, x->dtype, t->ndim, t->shape);
}

static void run_multilabel(cfx_op_call *c, int at, void *is_target) {
    const cfx_tensor *x = arg_tensor(c, at), *t = arg_tensor(c, at + 1);
    margin_job j = {.x = x->data, .grad_out = at ? arg_tensor(c, 0)->data : NULL,
                    .target = (const int64_t *)t->data, .out = c->out[0]->data,
                    .is_target = is_target, .mean = arg_int(c, at + 2) == REDUCE_MEAN,
                    .each = arg_int(c, at + 2) == REDUCE_NONE && t->ndim > 1};
    if (multilabel_check(c, at, &j.rows, &j.n) &&
        targets_in_range(c, t, -1, j.n, "target is out of range"))
        margin_run(x->dtype, &j);
}

static void kernel_multilabel(cfx_op_call *c) {
    cfx_tensor *is_target = c->out[1];
    if (is_target->numel)
        memset(is_target->data, 0, (size_t)(is_target->numel * cfx_dtype_size(is_target->dtype)));
    run_multilabel(c, 0, is_target->data);
}

CFX_OP(multilabel_margin_loss_forward) = {
    "aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor "
    "output, Tensor is_target)",
    .shape = shape_multilabel, .kernel = kernel_multilabel, MARGIN,
    GRAD(multilabel_margin_loss, READ(0) | READ(1) | RESULT(1)),
    .core = core_multilabel_margin_loss_forward,
    .out = "aten::multilabel_margin_loss_forward.output(Tensor self, Tensor target, int reduction, "
    "*, Tensor(a!) output, Tensor(b!) is_target) -> (Tensor(a!), Tensor(b!))"};

static void shape_multilabel_backward(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 1), *t = arg_tensor(c, 2), *is_target = arg_tensor(c, 4);
    int64_t rows, n;
    bool each = arg_int(c, 3) == REDUCE_NONE && t->ndim > 1;
    if (!multilabel_check(c, 1, &rows, &n) || !grad_fits(c, arg_tensor(c, 0), x, each, rows))
        return;
    if (is_target->numel != t->numel || is_target->dtype != x->dtype) {
        op_fail(c, "inconsistent is_target size. Expected %s but got %s",
                cfx__shape_text(t->ndim, t->shape),
                cfx__shape_text(is_target->ndim, is_target->shape));
        return;
    }
    out_new(c, 0, x->dtype, x->ndim, x->shape);
}

static void kernel_multilabel_backward(cfx_op_call *c) {
    cfx_tensor *out = c->out[0];
    if (out->numel)
        memset(out->data, 0, (size_t)(out->numel * cfx_dtype_size(out->dtype)));
    run_multilabel(c, 1, arg_tensor(c, 4)->data);
}

CFX_OP(multilabel_margin_loss_backward) = {
    "aten::multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int "
    "reduction, Tensor is_target) -> Tensor",
    .shape = shape_multilabel_backward, .kernel = kernel_multilabel_backward, MARGIN,
    .out = "grad_input"};

static void decompose_multilabel(cfx_op_call *c) {
    c->out[0] =
        cfx_tensor_at(cfx_multilabel_margin_loss_forward(c->args[0], c->args[1], c->args[2]), 0);
}

CFX_OP(multilabel_margin_loss) = {
    "aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "torch._C._nn.multilabel_margin_loss", .decompose = decompose_multilabel,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32, .out = "out"};
