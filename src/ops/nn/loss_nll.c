/* Negative log likelihood and cross entropy. */
#include "../back.h"

#include <math.h>

CFX_FAMILY(REDUCE);

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

typedef struct {
    const void *x, *weight;
    const int64_t *target;
    void *out, *total;
    int64_t batch, classes, inner, ignore, reduction;
    bool single; /* one sample without a batch dim */
} nll_job;

#define T float
#define FN(x) nll_f32_##x
#include "loss_nll.inc"
#define T double
#define FN(x) nll_f64_##x
#include "loss_nll.inc"

/* ---- checks ---------------------------------------------------------------------------------- */

/* Arguments of nll_loss_forward from number `at` on: self, target, weight, reduction, ignored. */
static bool nll_check(cfx_op_call *c, int at, bool images) {
    const cfx_tensor *x = arg_tensor(c, at), *t = arg_tensor(c, at + 1), *w = arg_tensor(c, at + 2);
    if (!images && (x->ndim < 1 || x->ndim > 2))
        op_fail(c, "input tensor should be 1D or 2D");
    else if (!images && t->ndim > 1)
        op_fail(c, "0D or 1D target tensor expected, multi-target not supported");
    else if (!images && !(x->ndim == 1 && t->ndim == 0) &&
             (t->ndim == 0 || x->shape[0] != t->shape[0]))
        op_fail(c, "size mismatch (got input: %s, target: %s)", cfx__shape_text(x->ndim, x->shape),
                cfx__shape_text(t->ndim, t->shape));
    else if (images && t->ndim != 3)
        op_fail(c,
                "only batches of spatial targets supported (3D tensors) but got targets of "
                "dimension: %d",
                t->ndim);
    else if (images && x->ndim != 4)
        op_fail(c,
                "only batches of spatial inputs supported (4D tensors), but got input of "
                "dimension: %d",
                x->ndim);
    else if (images && (x->shape[0] != t->shape[0] || x->shape[2] != t->shape[1] ||
                        x->shape[3] != t->shape[2]))
        op_fail(c, "size mismatch (got input: %s , target: %s", cfx__shape_text(x->ndim, x->shape),
                cfx__shape_text(t->ndim, t->shape));
    else if (!cfx__dtype_is_float(x->dtype))
        op_fail_as(NOT_IMPLEMENTED, c, "\"nll_loss%s_out_frame\" not implemented for '%s'",
                   images ? "2d_forward" : "", cfx__dtype_title(x->dtype));
    else if (t->dtype != CFX_I64 && (images || t->dtype != CFX_U8))
        op_fail(c, "expected scalar type Long but found %s", cfx__dtype_title(t->dtype));
    else if (w && w->dtype != x->dtype)
        op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(x->dtype),
                cfx__dtype_title(w->dtype));
    if (op_failed())
        return false;
    int64_t classes = x->shape[x->ndim == 1 ? 0 : 1];
    if (w && (w->ndim != 1 || w->numel != classes)) {
        if (images)
            op_fail(c, "weight tensor should be defined either for all or no classes");
        else
            op_fail(c,
                    "weight tensor should be defined either for all %lld classes or no classes but "
                    "got weight tensor of shape: %s",
                    (long long)classes, cfx__shape_text(w->ndim, w->shape));
        return false;
    }
    return true;
}

static bool is_images(const cfx_op_call *c) { return c->op->row != NULL; }

static nll_job nll_job_of(cfx_op_call *c, int at) {
    const cfx_tensor *x = arg_tensor(c, at), *w = arg_tensor(c, at + 2);
    const cfx_tensor *t = cfx__tensor_contiguous_as(arg_tensor(c, at + 1), CFX_I64);
    nll_job j = {.x = x->data, .weight = w ? w->data : NULL, .target = (const int64_t *)t->data,
                 .classes = x->shape[x->ndim == 1 ? 0 : 1], .batch = x->ndim == 1 ? 1 : x->shape[0],
                 .inner = x->ndim == 4 ? x->shape[2] * x->shape[3] : 1, .single = x->ndim == 1,
                 .reduction = arg_int(c, at + 3), .ignore = arg_int(c, at + 4)};
    if (t->numel == 0)
        j.batch = 0;
    return j;
}

/* ---- forward and backward -------------------------------------------------------------------- */

static void shape_nll(cfx_op_call *c) {
    if (!nll_check(c, 0, is_images(c)))
        return;
    const cfx_tensor *x = arg_tensor(c, 0), *t = arg_tensor(c, 1);
    bool each = arg_int(c, 3) == REDUCE_NONE && x->ndim > 1;
    out_new(c, 0, x->dtype, each ? t->ndim : 0, t->shape);
    out_new(c, 1, x->dtype, 0, NULL);
}

static void kernel_nll(cfx_op_call *c) {
    nll_job j = nll_job_of(c, 0);
    if (op_failed())
        return;
    j.out = c->out[0]->data;
    j.total = c->out[1]->data;
    if (c->out[0]->dtype == CFX_F64)
        nll_f64_forward(c, &j);
    else
        nll_f32_forward(c, &j);
}

#define NLL(images)                                                                                \
    .shape = shape_nll, .kernel = kernel_nll, .row = images,                                       \
    .dtypes = CFX_IN_NUMBER | CFX_IN(U8), .effects = CFX_CONTIGUOUS_ARGS

static void grad_nll_loss(cfx_back *b) {
    cfx_op *op = b->op->row ? &cfx_op_nll_loss2d_backward : &cfx_op_nll_loss_backward;
    if (b->gout[0])
        b->gin[0] = cfx_op_do(op, b->gout[0], b->args[0], b->args[1], b->args[2], b->args[3],
                              b->args[4], b->out[1]);
}

/* Linear in the gradient that comes in: its gradient is the loss again. */
static void grad_nll_loss_backward(cfx_back *b) {
    cfx_op *op = b->op->row ? &cfx_op_nll_loss2d_forward : &cfx_op_nll_loss_forward;
    if (b->needs[0])
        back_give(b, 0, cfx_tensor_at(cfx_op_do(op, b->gout[0], b->args[2], b->args[3], b->args[4],
                                                b->args[5]), 0));
}

CFX_OP(nll_loss_forward) = {
    "aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
    "ignore_index) -> (Tensor output, Tensor total_weight)",
    NLL(NULL), GRAD(nll_loss, READ(0) | READ(1) | READ(2) | RESULT(1)),
    .core = core_nll_loss_forward,
    .out = "aten::nll_loss_forward.output(Tensor self, Tensor target, Tensor? weight, int "
    "reduction, SymInt ignore_index, *, Tensor(a!) output, Tensor(b!) total_weight) -> "
    "(Tensor(a!), Tensor(b!))"};
CFX_OP(nll_loss2d_forward) = {
    "aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
    "ignore_index) -> (Tensor output, Tensor total_weight)",
    NLL("2d"), GRAD(nll_loss, READ(0) | READ(1) | READ(2) | RESULT(1)),
    .core = core_nll_loss_forward,
    .out = "aten::nll_loss2d_forward.output(Tensor self, Tensor target, Tensor? weight, int "
    "reduction, SymInt ignore_index, *, Tensor(a!) output, Tensor(b!) total_weight) -> "
    "(Tensor(a!), Tensor(b!))"};

static void shape_nll_backward(cfx_op_call *c) {
    const cfx_tensor *g = arg_tensor(c, 0), *x = arg_tensor(c, 1), *t = arg_tensor(c, 2);
    const cfx_tensor *total = arg_tensor(c, 6);
    if (!nll_check(c, 1, is_images(c)))
        return;
    if (total->numel != 1) {
        op_fail(c, "expected total_weight to be a single element tensor, got: %s (%lld elements)",
                cfx__shape_text(total->ndim, total->shape), (long long)total->numel);
        return;
    }
    bool each = arg_int(c, 4) == REDUCE_NONE && x->ndim > 1;
    if (each ? !cfx__tensor_same_shape(g, t) : g->numel != 1) {
        op_fail(c,
                "Expected a tensor of dimension %d and tensor.size[0] == %lld but got: dimension "
                "%d and tensor.size[0] = %lld",
                each ? t->ndim : 0, (long long)(t->ndim ? t->shape[0] : 1), g->ndim,
                (long long)(g->ndim ? g->shape[0] : 1));
        return;
    }
    if (g->dtype != x->dtype || total->dtype != x->dtype) {
        op_fail(c, "expected scalar type %s but found %s", cfx__dtype_title(x->dtype),
                cfx__dtype_title(g->dtype != x->dtype ? g->dtype : total->dtype));
        return;
    }
    out_new(c, 0, x->dtype, x->ndim, x->shape);
}

static void kernel_nll_backward(cfx_op_call *c) {
    nll_job j = nll_job_of(c, 1);
    cfx_tensor *out = c->out[0];
    if (op_failed())
        return;
    j.out = out->data;
    j.total = arg_tensor(c, 6)->data;
    if (out->numel)
        memset(out->data, 0, (size_t)(out->numel * cfx_dtype_size(out->dtype)));
    if (out->dtype == CFX_F64)
        nll_f64_backward(c, &j, (const double *)arg_tensor(c, 0)->data);
    else
        nll_f32_backward(c, &j, (const float *)arg_tensor(c, 0)->data);
}

#define NLL_BACKWARD(images)                                                                       \
    .shape = shape_nll_backward, .kernel = kernel_nll_backward, .row = images,                     \
    .dtypes = CFX_IN_NUMBER | CFX_IN(U8), .effects = CFX_CONTIGUOUS_ARGS

CFX_OP(nll_loss_backward) = {
    "aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
    "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
    NLL_BACKWARD(NULL), GRAD(nll_loss_backward, READ(2) | READ(3)), .out = "grad_input"};
CFX_OP(nll_loss2d_backward) = {
    "aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
    "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
    NLL_BACKWARD("2d"), GRAD(nll_loss_backward, READ(2) | READ(3)), .out = "grad_input"};

/* ---- what users call ------------------------------------------------------------------------- */

static void decompose_nll_loss(cfx_op_call *c) {
    cfx_value *a = c->args;
    c->out[0] = cfx_tensor_at(is_images(c) ? cfx_nll_loss2d_forward(a[0], a[1], a[2], a[3], a[4])
                                           : cfx_nll_loss_forward(a[0], a[1], a[2], a[3], a[4]),
                              0);
}

CFX_OP(nll_loss) = {"aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int "
                    "reduction=1, SymInt ignore_index=-100) -> Tensor",
                    .decompose = decompose_nll_loss, .effects = CFX_COMPOSITE,
                    .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(nll_loss2d) = {"aten::nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int "
                      "reduction=1, SymInt ignore_index=-100) -> Tensor",
                      .decompose = decompose_nll_loss, .effects = CFX_COMPOSITE, .row = "2d",
                      .autocast = CFX_CAST_F32, .out = "out"};

static void decompose_nll_loss_nd(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *t = arg_tensor(c, 1);
    cfx_value weight = c->args[2], reduction = c->args[3], ignore = c->args[4];
    if (x->ndim < 1) {
        op_fail_as(VALUE, c, "Expected 1 or more dimensions (got %d)", x->ndim);
        return;
    }
    if (x->ndim != 1 && (t->ndim == 0 || x->shape[0] != t->shape[0])) {
        op_fail_as(VALUE, c, "Expected input batch_size (%lld) to match target batch_size (%lld).",
                   (long long)x->shape[0], (long long)(t->ndim ? t->shape[0] : 1));
        return;
    }
    if (x->ndim <= 2) {
        c->out[0] = cfx_nll_loss(x, t, weight, reduction, ignore);
        return;
    }
    if (x->ndim == 4) {
        c->out[0] = cfx_nll_loss2d(x, t, weight, reduction, ignore);
        return;
    }
    int64_t size[CFX_MAX_DIMS], rows = x->shape[0], classes = x->shape[1];
    size[0] = rows;
    bool fits = t->ndim == x->ndim - 1;
    for (int d = 2; d < x->ndim; d++) {
        size[d - 1] = x->shape[d];
        fits = fits && t->shape[d - 1] == x->shape[d];
    }
    if (!fits) {
        op_fail(c, "Expected target size %s, got %s", cfx__shape_text(x->ndim - 1, size),
                cfx__shape_text(t->ndim, t->shape));
        return;
    }
    int64_t one = x->numel ? 1 : 0, rest = x->numel ? x->numel / (rows * classes) : 0;
    cfx_tensor *y = cfx_nll_loss2d(
        cfx_view(cfx_contiguous(x), cfx_list(rows, classes, one, rest)),
        cfx_view(cfx_contiguous(t), cfx_list(rows, t->numel ? 1 : 0, t->numel ? rest : 0)), weight,
        reduction, ignore);
    c->out[0] = arg_int(c, 3) == REDUCE_NONE ? cfx_view(y, cfx_ints_value(x->ndim - 1, size)) : y;
}

CFX_OP(nll_loss_nd) = {"aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int "
                       "reduction=1, SymInt ignore_index=-100) -> Tensor",
                       "torch._C._nn.nll_loss_nd", .decompose = decompose_nll_loss_nd,
                       .effects = CFX_COMPOSITE};

/* ---- cross entropy --------------------------------------------------------------------------- */

/* The weights of classes as a tensor that broadcasts over x. */
static cfx_tensor *class_weights(cfx_tensor *weight, const cfx_tensor *x) {
    int64_t shape[CFX_MAX_DIMS];
    if (x->ndim <= 1)
        return weight;
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == 1 ? weight->numel : 1;
    return cfx_view(weight, cfx_ints_value(x->ndim, shape));
}

static void cross_entropy_probabilities(cfx_op_call *c, cfx_tensor *log_p, int class_dim) {
    cfx_tensor *x = arg_tensor(c, 0), *t = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    int64_t reduction = arg_int(c, 3), classes = x->ndim ? x->shape[class_dim] : 1;
    double smooth = arg_float(c, 5);
    if (w && (w->ndim != 1 || w->numel != classes)) {
        op_fail(c,
                "cross_entropy: weight tensor should be defined either for all %lld classes or no "
                "classes but got weight tensor of shape: %s",
                (long long)classes, cfx__shape_text(w->ndim, w->shape));
        return;
    }
    if (smooth > 0)
        t = cfx_add(cfx_mul(t, 1 - smooth), smooth / (double)classes);
    cfx_tensor *y = cfx_mul(log_p, t);
    if (w)
        y = cfx_mul(y, class_weights(w, x));
    y = cfx_neg(reduction == REDUCE_NONE ? cfx_sum(y, cfx_list(class_dim)) : cfx_sum(y));
    if (reduction == REDUCE_MEAN)
        y = x->numel ? cfx_as_tensor(cfx_op_do(&cfx_op_div_Scalar, y, x->numel / classes))
                     : cfx_mul(y, NAN);
    c->out[0] = y;
}

static void cross_entropy_smooth(cfx_op_call *c, cfx_tensor *log_p, int class_dim) {
    cfx_tensor *x = arg_tensor(c, 0), *t = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    int64_t reduction = arg_int(c, 3), classes = x->ndim ? x->shape[class_dim] : 1;
    double smooth = arg_float(c, 5);
    cfx_tensor *loss = cfx_nll_loss_nd(log_p, t, c->args[2], c->args[3], c->args[4]);
    if (op_failed())
        return;
    cfx_tensor *even = w ? cfx_mul(log_p, class_weights(w, x)) : log_p;
    even = cfx_neg(cfx_sum(even, cfx_list(class_dim)));
    cfx_tensor *ignored = cfx_eq(t, c->args[4]);
    even = cfx_masked_fill(even, ignored, 0.0);
    if (reduction != REDUCE_NONE)
        even = cfx_sum(even);
    if (reduction == REDUCE_MEAN && w) {
        /* ignored targets weigh nothing, whatever class they name */
        cfx_tensor *known = cfx_masked_fill(t, ignored, 0);
        cfx_tensor *weights = cfx_gather(w, 0, cfx_flatten(known));
        weights = cfx_masked_fill(weights, cfx_flatten(ignored), 0.0);
        even = cfx_div(even, cfx_sum(weights));
    } else if (reduction == REDUCE_MEAN) {
        even = cfx_div(even, cfx_sum(cfx_logical_not(ignored)));
    }
    cfx_value share = cfx_op_do(&cfx_op_mul_Scalar, even, smooth / (double)classes);
    c->out[0] = cfx_add(cfx_op_do(&cfx_op_mul_Scalar, loss, 1 - smooth), share);
}

static void decompose_cross_entropy(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *t = arg_tensor(c, 1);
    int class_dim = x->ndim == 1 ? 0 : 1;
    double smooth = arg_float(c, 5);
    if (!(smooth >= 0 && smooth <= 1)) {
        op_fail(c, "label_smoothing must be between 0.0 and 1.0. Got: %g", smooth);
        return;
    }
    bool same = cfx__tensor_same_shape(x, t);
    if (same && !cfx__dtype_is_float(t->dtype)) {
        op_fail(c, "Expected floating point type for target with class probabilities, got %s",
                cfx__dtype_title(t->dtype));
        return;
    }
    if (same && arg_int(c, 4) >= 0) {
        op_fail(c, "ignore_index is not supported for floating point target");
        return;
    }
    cfx_tensor *log_p = cfx_log_softmax(x, class_dim, cfx_dtype_value(x->dtype));
    if (op_failed())
        return;
    if (same)
        cross_entropy_probabilities(c, log_p, class_dim);
    else if (smooth > 0)
        cross_entropy_smooth(c, log_p, class_dim);
    else
        c->out[0] = cfx_nll_loss_nd(log_p, t, c->args[2], c->args[3], c->args[4]);
}

CFX_OP(cross_entropy_loss) = {
    "aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
    "torch._C._nn.cross_entropy_loss", .decompose = decompose_cross_entropy,
    .effects = CFX_COMPOSITE, .autocast = CFX_CAST_F32};
