/* Dropout: elements, or whole channels, drawn to be zero. */
#include "../back.h"
#include "../loops.h"

CFX_FAMILY(RANDOM);

ANALYTIC2(native_dropout_backward, 1, x *y *p0, CMUL(CMUL(x, y), p0))

static bool check_probability(cfx_op_call *c, double p) {
    if (p >= 0 && p <= 1)
        return true;
    op_fail(c, "dropout probability has to be between 0 and 1, but got %g", p);
    return false;
}

/* What the noise is drawn for: each element, or each channel of each sample. */
static cfx_tensor *noise_like(cfx_tensor *t, bool by_channel) {
    int64_t shape[CFX_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++)
        shape[d] = d < 2 ? t->shape[d] : 1;
    return by_channel ? cfx_new_empty(t, cfx_ints_value(t->ndim, shape)) : cfx_empty_like(t);
}

/* All four are this, as PyTorch decomposes them: input * noise, and for those that keep mean and
 * deviation of a selu network, + b. */
static void dropout(cfx_op_call *c, bool by_channel, bool alpha) {
    cfx_tensor *t = arg_tensor(c, 0);
    double p = arg_float(c, 1);
    c->out[0] = t;
    if (!check_probability(c, p) || p == 0 || !arg_bool(c, 2) || t->numel == 0)
        return;
    if (by_channel && t->ndim < 2) {
        op_fail(c, "Feature dropout requires at least 2 dimensions in the input");
        return;
    }
    if (p == 1) {
        c->out[0] = cfx_mul(t, cfx_zeros(cfx_list(), CFX_KW(dtype, cfx_dtype_value(t->dtype))));
        return;
    }
    if (cfx__ctx()->card && !by_channel && !alpha) { /* as PyTorch has it there */
        c->out[0] = cfx_as_tensor(cfx_at(cfx_native_dropout(t, p, true), 0));
        return;
    }
    cfx_tensor *noise = cfx_bernoulli_(noise_like(t, by_channel), 1 - p);
    if (!alpha) {
        c->out[0] = cfx_mul(t, cfx_div_(noise, 1 - p));
        return;
    }
    const double slope = 1.7580993408473766; /* selu's scale times its alpha */
    double a = 1 / sqrt((slope * slope * p + 1) * (1 - p));
    cfx_tensor *b = cfx_add_(cfx_mul_(cfx_add(noise, -1), slope * a), slope * a * p);
    c->out[0] = cfx_add(cfx_mul(t, cfx_mul_(noise, a)), b);
}

static void decompose_dropout(cfx_op_call *c) { dropout(c, false, false); }
static void decompose_feature_dropout(cfx_op_call *c) { dropout(c, true, false); }
static void decompose_alpha_dropout(cfx_op_call *c) { dropout(c, false, true); }
static void decompose_feature_alpha_dropout(cfx_op_call *c) { dropout(c, true, true); }

#define DROPS(how) .decompose = decompose_##how, .effects = \
    CFX_COMPOSITE | CFX_RANDOM | CFX_SHARES

CFX_OP(dropout) = {"aten::dropout(Tensor input, float p, bool train) -> Tensor",
                   "torch.dropout", DROPS(dropout), .core = core_dropout, .core_early = true,
                   .inplace = "default"};
CFX_OP(feature_dropout) = {"aten::feature_dropout(Tensor input, float p, bool train) -> Tensor",
                           "torch.feature_dropout", DROPS(feature_dropout), .inplace = "default"};
CFX_OP(alpha_dropout) = {"aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor",
                         "torch.alpha_dropout",
                         DROPS(alpha_dropout), .inplace = "default"};
CFX_OP(feature_alpha_dropout) = {
    "aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor",
    "torch.feature_alpha_dropout",
    DROPS(feature_alpha_dropout), .inplace = "default"};

/* ---- with the mask as a second result -------------------------------------------------------- */

static bool trains(const cfx_op_call *c) { return arg_is_none(c, 2) || arg_bool(c, 2); }

static void shape_native_dropout(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    check_probability(c, arg_float(c, 1));
    if (trains(c) && !cfx__dtype_is_floating(t->dtype) && !cfx__dtype_is_complex(t->dtype))
        op_fail(c, "result type Float can't be cast to the desired output type %s",
                cfx__dtype_title(t->dtype));
    out_like(c, 0, t->dtype, t);
    if (trains(c) && t->numel)
        out_new(c, 1, CFX_BOOL, t->ndim, t->shape);
    else
        out_like(c, 1, CFX_BOOL, t);
}

static void kernel_native_dropout(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    double kept = 1 - arg_float(c, 1);
    if (!trains(c)) {
        cfx__tensor_copy(c->out[0], t);
        cfx__tensor_fill(c->out[1], cfx_bool(true));
        return;
    }
    cfx__random_dropout(cfx__generator_default(), c->out[1], t, kept);
    cfx_value operands[] = {c->args[0], cfx_tensor_value(c->out[1])};
    pointwise_params p = {.f = {kept == 0 ? 0 : 1 / kept}};
    pointwise_run(c, &row_native_dropout_backward, t->dtype, 2, operands, &p);
}

static void grad_native_dropout(cfx_back *b) {
    const bool train = cfx_is_none(b->args[2]) || back_bool(b, 2);
    const double p = back_float(b, 1), scale = !train ? 1 : p == 1 ? 0 : 1 / (1 - p);
    if (b->gout[0])
        back_give(b, 0, cfx_native_dropout_backward(b->gout[0], b->out[1], scale));
}

static void grad_native_dropout_backward(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, cfx_native_dropout_backward(b->gout[0], b->args[1], b->args[2]));
}

CFX_OP(native_dropout) = {"aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, "
                          "Tensor)", "torch.native_dropout",
                          .shape = shape_native_dropout, .kernel = kernel_native_dropout,
                          .dtypes = CFX_IN_FLOAT8 | CFX_IN(F8E8M0FNU) | CFX_IN(C32),
                          .effects = CFX_RANDOM, GRAD(native_dropout, RESULT(1)), .out = "out"};
CFX_OP(native_dropout_backward) = {
    "aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", NULL,
    POINTWISE(native_dropout_backward), GRAD(native_dropout_backward, READ(1)), .out = "out"};

/* ---- leaky rectifiers of random slope -------------------------------------------------------- */

static void check_rrelu(cfx_op_call *c, int lower, int upper) {
    double a = arg_float(c, lower), b = arg_float(c, upper);
    if (!(a <= b))
        op_fail(c, "Lower bound should be less than or equal to the upper bound");
    else if (!isfinite(a) || !isfinite(b))
        op_fail(c, "rrelu: lower bound and upper bound must be finite");
}

static void shape_rrelu_with_noise_functional(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0), *noise = arg_tensor(c, 1);
    check_rrelu(c, 2, 3);
    if (!cfx__tensor_same_shape(t, noise))
        op_fail(c, "noise tensor shape must match self tensor shape. Got self.shape = %s "
                   "noise.shape = %s",
                cfx__shape_text(t->ndim, t->shape), cfx__shape_text(noise->ndim, noise->shape));
    else if (!cfx__dtype_is_float(t->dtype) || noise->dtype != t->dtype)
        op_fail_as(NOT_IMPLEMENTED, c, "\"rrelu_with_noise_out_cpu\" not implemented for '%s'",
                   cfx__dtype_title(t->dtype));
    out_new(c, 0, t->dtype, t->ndim, t->shape);
    out_like(c, 1, noise->dtype, noise);
}

/* A slope is drawn for each element that is not positive, in order; the noise tells which. */
static void kernel_rrelu_with_noise_functional(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    double lower = arg_float(c, 2), upper = arg_float(c, 3), middle = (lower + upper) / 2;
    bool training = arg_bool(c, 4);
    cfx__tensor_copy(c->out[1], arg_tensor(c, 1));
    const cfx_tensor *x = cfx__tensor_contiguous_as(t, CFX_F64);
    cfx_tensor *y = cfx__tensor_empty(c->at, CFX_F64, false, t->ndim, t->shape, NULL);
    cfx_tensor *noise = cfx__tensor_empty(c->at, CFX_F64, false, t->ndim, t->shape, NULL);
    if (op_failed())
        return;
    cfx__generator *g = cfx__generator_default();
    const double *from = (const double *)x->data;
    double *to = (double *)y->data, *drawn = (double *)noise->data;
    for (int64_t i = 0; i < t->numel; i++) {
        double slope = 1;
        if (from[i] <= 0)
            slope = training ? lower + (upper - lower) * cfx__random_double(g) : middle;
        to[i] = from[i] * slope;
        drawn[i] = slope;
    }
    cfx__tensor_copy(c->out[0], y);
    if (training)
        cfx__tensor_copy(c->out[1], noise);
}

static void decompose_rrelu(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    check_rrelu(c, 1, 2);
    if (op_failed())
        return;
    if (!arg_bool(c, 3)) {
        c->out[0] = cfx_leaky_relu(t, (arg_float(c, 1) + arg_float(c, 2)) / 2);
        return;
    }
    cfx_value both = cfx_rrelu_with_noise_functional(t, noise_like(t, false), c->args[1],
                                                     c->args[2], true);
    c->out[0] = cfx_tensor_at(both, 0);
}

static void decompose_rrelu_with_noise(cfx_op_call *c) {
    cfx_value *a = c->args;
    cfx_value both = cfx_rrelu_with_noise_functional(a[0], a[1], a[2], a[3], a[4]);
    if (op_failed())
        return;
    cfx_copy_(a[1], cfx_tensor_at(both, 1));
    c->out[0] = cfx_tensor_at(both, 0);
}

static void decompose_rrelu_with_noise_(cfx_op_call *c) {
    decompose_rrelu_with_noise(c);
    c->out[0] = cfx_copy_(c->args[0], c->out[0]);
}

/* With a slope as good as fixed it is leaky_relu's gradient. */
static void decompose_rrelu_with_noise_backward(cfx_op_call *c) {
    double lower = arg_float(c, 3), upper = arg_float(c, 4);
    if (arg_bool(c, 5) && upper - lower > 1e-6)
        c->out[0] = cfx_mul(arg_tensor(c, 2), arg_tensor(c, 0));
    else
        c->out[0] = cfx_leaky_relu_backward(arg_tensor(c, 0), arg_tensor(c, 1), (lower + upper) / 2,
                                            arg_bool(c, 6));
}

static void grad_rrelu_with_noise(cfx_back *b) {
    if (b->gout[0])
        back_give(b, 0, cfx_rrelu_with_noise_backward(b->gout[0], b->args[0], b->out[1],
                                                      b->args[2], b->args[3], b->args[4], false));
}

CFX_FAMILY(ACTIVATION);
CFX_OP(rrelu) = {"aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, "
                 "bool training=False, Generator? generator=None) -> Tensor",
                 "torch.rrelu",
                 .decompose = decompose_rrelu, .effects = CFX_COMPOSITE | CFX_RANDOM,
                 .inplace = "default"};
CFX_OP(rrelu_with_noise_functional) = {
    "aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
    "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, "
    "Tensor noise_out)", NULL,
    .shape = shape_rrelu_with_noise_functional, .kernel = kernel_rrelu_with_noise_functional,
    .effects = CFX_RANDOM, GRAD(rrelu_with_noise, READ(0) | RESULT(1))};
CFX_OP(rrelu_with_noise) = {
    "aten::rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar "
    "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor",
    NULL, .decompose = decompose_rrelu_with_noise, .effects = CFX_RANDOM,
    .out = "aten::rrelu_with_noise.out(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar "
    "upper=0.33333333333333331, bool training=False, Generator? generator=None, *, Tensor(a!) "
    "out) -> Tensor(a!)"};
CFX_OP(rrelu_with_noise_) = {
    "aten::rrelu_with_noise_(Tensor(a!) self, Tensor(b!) noise, Scalar lower=0.125, Scalar "
    "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor(a!)",
    NULL, .decompose = decompose_rrelu_with_noise_, .effects = CFX_RANDOM};
CFX_OP(rrelu_with_noise_backward) = {
    "aten::rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar "
    "lower, Scalar upper, bool training, bool self_is_result) -> Tensor", NULL,
    .decompose = decompose_rrelu_with_noise_backward, .out = "out"};
