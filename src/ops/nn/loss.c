/* Losses that PyTorch has as kernels: one expression an element, then nothing, the mean or the sum.
 * Those it composes of other operators are in loss_composed.c. */
#include "../back.h"
#include "../loops.h"

CFX_FAMILY(REDUCE);

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* A row, and where in the arguments the reduction is; the number behind it is p0. */
typedef struct {
    const pointwise_row *row;
    int reduction;
} loss;

ONLY_FLOAT2(mse, 1, (x - y) * (x - y))
ONLY_FLOAT2(smooth_l1, 1, ({
                const T d = fabs(x - y);
                d < p0 ? (T)0.5 * d *d / p0 : d - (T)0.5 * p0;
            }))
ONLY_FLOAT2(huber, 1, ({
                const T d = fabs(x - y);
                d <= p0 ? (T)0.5 * d *d : p0 * (d - (T)0.5 * p0);
            }))
ONLY_FLOAT2(soft_margin, 5, log1p(vexp(-y * x)))

static const loss loss_mse = {&row_mse, 2}, loss_smooth_l1 = {&row_smooth_l1, 2},
                  loss_huber = {&row_huber, 2}, loss_soft_margin = {&row_soft_margin, 2};

/* ---- reduction ------------------------------------------------------------------------------- */

CFX__SIMD static double sum_f32(const float *x, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

CFX__SIMD static double sum_f64(const double *x, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* Sets a 0-dim tensor to the sum of t, or to its mean. */
static void reduce(cfx_tensor *to, const cfx_tensor *t, int64_t how) {
    const cfx_tensor *x = cfx__tensor_contiguous_as(t, t->dtype == CFX_F64 ? CFX_F64 : CFX_F32);
    double sum = x->dtype == CFX_F64 ? sum_f64((const double *)x->data, x->numel)
                                     : sum_f32((const float *)x->data, x->numel);
    cfx__tensor_set(to, 0, cfx_float(how == REDUCE_MEAN ? sum / (double)t->numel : sum));
}

static bool is_reduced(int64_t how) { return how == REDUCE_MEAN || how == REDUCE_SUM; }

static void shape_loss(cfx_op_call *c) {
    const loss *l = c->op->row;
    cfx_op_call f = *c;
    f.fake |= is_reduced(arg_int(c, l->reduction));
    pointwise_shape(&f, l->row);
    c->out[0] = f.out[0];
    if (!op_failed() && is_reduced(arg_int(c, l->reduction)))
        out_new(c, 0, f.out[0]->dtype, 0, NULL);
}

static void kernel_loss(cfx_op_call *c) {
    const loss *l = c->op->row;
    int64_t how = arg_int(c, l->reduction);
    int next = l->reduction + 1;
    pointwise_params p = {.f = {next < c->nargs ? arg_float(c, next) : 0}};
    cfx_op_call each = *c;
    if (is_reduced(how))
        pointwise_shape(&each, l->row);
    pointwise_kernel(&each, l->row, &p);
    if (is_reduced(how) && !op_failed())
        reduce(c->out[0], each.out[0], how);
}

static void shape_smooth_l1(cfx_op_call *c) {
    if (arg_float(c, 3) < 0)
        op_fail(c, "smooth_l1_loss does not support negative values for beta.");
    shape_loss(c);
}

static void shape_huber(cfx_op_call *c) {
    if (arg_float(c, 3) <= 0)
        op_fail(c, "huber_loss does not support non-positive values for delta.");
    shape_loss(c);
}

#define LOSS(id, rule) .shape = rule, .kernel = kernel_loss, .row = &loss_##id

/* Computed in place of -self: that has the dtype and the shape of the result. */
static void shape_soft_margin(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_op_call f = *c;
    f.fake = true;
    pointwise_shape(&f, &row_soft_margin);
    if (op_failed())
        return;
    if (x->dtype == CFX_BOOL)
        op_fail(c, "Negation, the `-` operator, on a bool tensor is not supported. If you are "
                   "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    else if (!cfx__tensor_same_shape(f.out[0], x))
        op_fail(c, "output with shape %s doesn't match the broadcast shape %s",
                cfx__shape_text(x->ndim, x->shape),
                cfx__shape_text(f.out[0]->ndim, f.out[0]->shape));
    else if (cfx__dtype_is_int(x->dtype))
        op_fail(c, "result type Float can't be cast to the desired output type %s",
                cfx__dtype_title(x->dtype));
    else
        out_new(c, 0, x->dtype, is_reduced(arg_int(c, 2)) ? 0 : x->ndim, x->shape);
}

static void kernel_soft_margin(cfx_op_call *c) {
    const cfx_dtype d = (cfx_dtype)arg_tensor(c, 0)->dtype;
    cfx_value own[CFX_MAX_ARGS];
    cfx_op_call f = *c;
    memcpy(own, c->args, (size_t)c->nargs * sizeof *own);
    if (arg_tensor(c, 1)->dtype != d)
        own[1] = cfx_tensor_value(cfx__tensor_contiguous_as(arg_tensor(c, 1), d));
    f.args = own;
    if (!op_failed())
        kernel_loss(&f);
}

/* Input and target as large as both together: backward operators count the elements. */
static void input_and_target(const cfx_back *b, cfx_tensor **x, cfx_tensor **y) {
    *x = back_arg(b, 0), *y = back_arg(b, 1);
    if (cfx__tensor_same_shape(*x, *y))
        return;
    cfx_value both = cfx_broadcast_tensors(cfx_list(*x, *y));
    *x = cfx_tensor_at(both, 0), *y = cfx_tensor_at(both, 1);
}

/* These losses depend on the difference alone: the target has the gradient of the other sign. */
static void grad_difference_loss(cfx_back *b) {
    cfx_op *op = b->op == &cfx_op_huber_loss ? &cfx_op_huber_loss_backward
                                             : &cfx_op_smooth_l1_loss_backward;
    cfx_tensor *both[2];
    input_and_target(b, &both[0], &both[1]);
    for (int i = 0; i < 2; i++) {
        cfx_tensor *x = both[i], *y = both[1 - i], *g = b->gout[0];
        if (!b->needs[i])
            continue;
        if (b->op == &cfx_op_mse_loss)
            g = cfx_mse_loss_backward(g, x, y, b->args[2]);
        else
            g = tensor_of(cfx_op_do(op, g, x, y, b->args[2], b->args[3]));
        back_give_sum(b, i, g);
    }
}

static void grad_soft_margin_loss(cfx_back *b) {
    cfx_tensor *x, *y;
    input_and_target(b, &x, &y);
    back_give_sum(b, 0, cfx_soft_margin_loss_backward(b->gout[0], x, y, b->args[2]));
}

CFX_OP(mse_loss) = {"aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
                    "torch._C._nn.mse_loss", LOSS(mse, shape_loss),
                    GRAD(difference_loss, READ(0) | READ(1)), .core = core_mse_loss,
                    .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(smooth_l1_loss) = {"aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, "
                          "float beta=1.) -> Tensor", "torch._C._nn.smooth_l1_loss",
                          LOSS(smooth_l1, shape_smooth_l1),
                          GRAD(difference_loss, READ(0) | READ(1)), .core = core_smooth_l1_loss,
                          .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(huber_loss) = {"aten::huber_loss(Tensor self, Tensor target, int reduction=1, float "
                      "delta=1.) -> Tensor", "torch._C._nn.huber_loss",
                      LOSS(huber, shape_huber), GRAD(difference_loss, READ(0) | READ(1)),
                      .core = core_huber_loss, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(soft_margin_loss) = {"aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) "
                            "-> Tensor", "torch._C._nn.soft_margin_loss",
                            .shape = shape_soft_margin, .kernel = kernel_soft_margin,
                            .row = &loss_soft_margin,
                            GRAD(soft_margin_loss, READ(0) | READ(1)),
                            .core = core_soft_margin_loss, .autocast = CFX_CAST_F32, .out = "out"};

/* ---- cross entropy of probabilities ---------------------------------------------------------- */

/* Logarithms are held above -100, so that a certain mistake costs something finite. */
#define HELD_LOG(l) ((l) < -100 ? -100 : (l))
ONLY_FLOAT2(bce, 6, ({
                const T a = vlog(x), b = log1p(-x);
                (y - 1) * HELD_LOG(b) - y *HELD_LOG(a);
            }))
ONLY_FLOAT3(bce_weighted, 6, ({
                const T a = vlog(x), b = log1p(-x);
                ((y - 1) * HELD_LOG(b) - y * HELD_LOG(a)) * z;
            }))
COMPARE1(is_probability, x >= 0 && x <= 1)

static const pointwise_row *bce_row(const cfx_op_call *c) {
    return arg_is_none(c, 2) ? &row_bce : &row_bce_weighted;
}

static void shape_bce(cfx_op_call *c) {
    const cfx_dtype d = (cfx_dtype)arg_tensor(c, 0)->dtype;
    const cfx_dtype target = (cfx_dtype)arg_tensor(c, 1)->dtype;
    cfx_op_call f = *c;
    if (d != target)
        op_fail(c, "Found dtype %s but expected %s", cfx__dtype_title(target), cfx__dtype_title(d));
    else if (!cfx__dtype_is_float(d))
        op_fail(c, "\"binary_cross_entropy\" not implemented for '%s'", cfx__dtype_title(d));
    if (op_failed())
        return;
    bool reduced = is_reduced(arg_int(c, 3));
    f.fake |= reduced;
    pointwise_shape(&f, bce_row(c));
    c->out[0] = f.out[0];
    if (!op_failed() && reduced)
        out_new(c, 0, f.out[0]->dtype, 0, NULL);
}

static bool are_probabilities(cfx_op_call *c, const cfx_tensor *t) {
    cfx_op_call f = *c;
    f.out[0] = cfx__tensor_empty(c->at, CFX_BOOL, false, t->ndim, t->shape, NULL);
    if (op_failed())
        return false;
    f.nargs = 1;
    pointwise_kernel(&f, &row_is_probability, NULL);
    if (t->numel && memchr(f.out[0]->data, 0, (size_t)t->numel)) {
        op_fail(c, "all elements of input should be between 0 and 1");
        return false;
    }
    return true;
}

static void kernel_bce(cfx_op_call *c) {
    int64_t how = arg_int(c, 3);
    cfx_op_call each = *c;
    if (!are_probabilities(c, arg_tensor(c, 0)))
        return;
    if (is_reduced(how))
        pointwise_shape(&each, bce_row(c));
    pointwise_kernel(&each, bce_row(c), NULL);
    if (is_reduced(how) && !op_failed())
        reduce(c->out[0], each.out[0], how);
}

static void grad_bce(cfx_back *b) {
    cfx_tensor *x, *y, *w = back_arg(b, 2), *g = b->gout[0];
    input_and_target(b, &x, &y);
    if (b->needs[0])
        back_give_sum(b, 0, cfx_binary_cross_entropy_backward(g, x, y, w, b->args[3]));
    if (b->needs[1]) {
        cfx_tensor *slope = cfx_sub(cfx_log(cfx_rsub(x, 1)), cfx_log(x));
        slope = cfx_mul(slope, back_int(b, 3) == REDUCE_MEAN ? 1 / (double)x->numel : 1);
        back_give_sum(b, 1, cfx_mul(w ? cfx_mul(slope, w) : slope, g));
    }
}

CFX_OP(binary_cross_entropy) = {
    "aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int "
    "reduction=1) -> Tensor", "torch._C._nn.binary_cross_entropy",
    .shape = shape_bce, .kernel = kernel_bce, GRAD(bce, READ(0) | READ(1) | READ(2)),
    .core = core_binary_cross_entropy, .autocast = CFX_CAST_F32, .out = "out"};

/* ---- gradients ------------------------------------------------------------------------------- */

/* x is the gradient of the loss, y the input, z the target; p0 is 1 / n for a mean, 1 for a sum. */
ONLY_FLOAT3(mse_backward, 1, 2 * p0 *(y - z) * x)
ONLY_FLOAT3(smooth_l1_backward, 1, ({
                const T d = y - z;
                d <= -p1 ? -p0 *x : d >= p1 ? p0 *x : p0 * d *x / p1;
            }))
ONLY_FLOAT3(huber_backward, 1, ({
                const T d = y - z;
                d <= -p1 ? -p0 *x *p1 : d >= p1 ? p0 *x *p1 : p0 * d *x;
            }))
ONLY_FLOAT3(soft_margin_backward, 4, ({
                const T e = vexp(-z * y);
                -p0 *z *e / (1 + e) * x;
            }))
ONLY_FLOAT3(bce_backward, 1, ({
                const T s = (1 - y) * y;
                p0 *x *(y - z) / (s > (T)1e-12 ? s : (T)1e-12);
            }))

/* The number behind the reduction (beta, delta) is p1. */
static void kernel_loss_backward(cfx_op_call *c) {
    const loss *l = c->op->row;
    cfx_tensor *input = arg_tensor(c, 1);
    int next = l->reduction + 1;
    double share = arg_int(c, l->reduction) == REDUCE_MEAN ? 1 / (double)input->numel : 1;
    pointwise_params p = {.f = {share, next < c->nargs ? arg_float(c, next) : 0}};
    pointwise_kernel(c, l->row, &p);
}

static void shape_loss_backward(cfx_op_call *c) {
    pointwise_shape(c, ((const loss *)c->op->row)->row);
}

static const loss loss_mse_backward = {&row_mse_backward, 3},
                  loss_smooth_l1_backward = {&row_smooth_l1_backward, 3},
                  loss_huber_backward = {&row_huber_backward, 3},
                  loss_soft_margin_backward = {&row_soft_margin_backward, 3},
                  loss_bce_backward = {&row_bce_backward, 4};

static void kernel_bce_backward(cfx_op_call *c) {
    kernel_loss_backward(c);
    if (!arg_is_none(c, 3) && !op_failed())
        cfx_mul_(c->out[0], arg_tensor(c, 3));
}

/* The same of small operators, which have gradients of their own: the slope of each element's loss,
 * its share and the gradient that came. */
static void by_slope(cfx_op_call *c, int reduction, cfx_tensor *slope) {
    bool mean = arg_int(c, reduction) == REDUCE_MEAN;
    if (mean)
        slope = cfx_mul(slope, 1 / (double)arg_tensor(c, 1)->numel);
    c->out[0] = cfx_mul(slope, arg_tensor(c, 0));
}

static void decompose_mse_backward(cfx_op_call *c) {
    by_slope(c, 3, cfx_mul(cfx_sub(c->args[1], c->args[2]), 2));
}

static void decompose_bent_backward(cfx_op_call *c) {
    cfx_tensor *d = cfx_sub(c->args[1], c->args[2]);
    const double bend = arg_float(c, 4);
    if (c->op == &cfx_op_huber_loss_backward)
        by_slope(c, 3, cfx_clamp(d, -bend, bend));
    else
        by_slope(c, 3, bend > 0 ? cfx_div(cfx_clamp(d, -bend, bend), bend) : cfx_sign(d));
}

static void decompose_soft_margin_backward(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 1), *y = arg_tensor(c, 2);
    by_slope(c, 3, cfx_neg(cfx_mul(y, cfx_sigmoid(cfx_neg(cfx_mul(y, x))))));
}

static void decompose_bce_backward(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 1), *y = arg_tensor(c, 2), *w = arg_tensor(c, 3);
    cfx_tensor *spread = cfx_clamp_min(cfx_mul(cfx_rsub(x, 1), x), 1e-12);
    cfx_tensor *slope = cfx_div(cfx_sub(x, y), spread);
    by_slope(c, 4, w ? cfx_mul(slope, w) : slope);
}

#define LOSS_BACKWARD(id, parts)                                                                   \
    .shape = shape_loss_backward, .kernel = kernel_loss_backward, .row = &loss_##id##_backward,    \
    .decompose = decompose_##parts##_backward

CFX_OP(mse_loss_backward) = {"aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor "
                             "target, int reduction) -> Tensor", NULL, LOSS_BACKWARD(mse, mse),
                             .out = "grad_input"};
CFX_OP(smooth_l1_loss_backward) = {
    "aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int "
    "reduction, float beta) -> Tensor", NULL, LOSS_BACKWARD(smooth_l1, bent), .out = "grad_input"};
CFX_OP(huber_loss_backward) = {
    "aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
    "float delta) -> Tensor", NULL, LOSS_BACKWARD(huber, bent), .out = "out grad_input"};
CFX_OP(soft_margin_loss_backward) = {
    "aten::soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int "
    "reduction) -> Tensor", NULL, LOSS_BACKWARD(soft_margin, soft_margin), .out = "grad_input"};
CFX_OP(binary_cross_entropy_backward) = {
    "aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? "
    "weight=None, int reduction=1) -> Tensor", NULL,
    .shape = shape_loss_backward, .kernel = kernel_bce_backward, .row = &loss_bce_backward,
    .decompose = decompose_bce_backward, .out = "grad_input"};
