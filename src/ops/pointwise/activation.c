/* Activations of neural networks. Their gradients are in activation_grad.c. */
#include <cfx/ops.h>

#include "../loops.h"
#include "../views.h"
#include "by_hand.h"

CFX_FAMILY(ACTIVATION);

/* ---- rectifiers ------------------------------------------------------------------------------ */

NUMBER1(relu, 1, x > 0 || x != x ? x : 0, x > 0 ? x : 0)
ONLY_FLOAT1(leaky_relu, 1, x > 0 ? x : x * p0)
ONLY_FLOAT2(prelu, 1, x > 0 ? x : x * y)
FLOATS(1, threshold, x <= p0 ? p1 : x)
INTS(1, threshold, x <= p0 ? p1 : x)
ROW(threshold, RULE_SAME, 1, 1, "threshold_cpu", HAS_FLOATS(threshold), HAS_INTS(threshold),
    .no_bool = true)

static void shape_relu(cfx_op_call *c) {
    if (arg_tensor(c, 0)->dtype == CFX_BOOL)
        op_fail(c, "Boolean inputs not supported for relu");
    else if (cfx__dtype_is_complex(arg_tensor(c, 0)->dtype))
        op_fail_as(NOT_IMPLEMENTED, c, "clamp is not supported for complex types");
    shape_pointwise(c);
}

static void shape_prelu_kernel(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *weight = arg_tensor(c, 1);
    if (x->dtype != weight->dtype)
        op_fail(c, "prelu: Type promoting not supported. Got %s and %s", cfx_dtype_name(x->dtype),
                cfx_dtype_name(weight->dtype));
    shape_pointwise_like(c);
}

static bool check_prelu(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *weight) {
    if (weight->ndim > 1) {
        op_fail(c, "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d",
                weight->ndim);
    } else if (weight->numel != 1) {
        int64_t channels = x->ndim > 1 ? x->shape[1] : 1;
        if (x->ndim == 0)
            op_fail(c, "Not allow zero-dim input tensor.");
        else if (channels != weight->numel)
            op_fail(c,
                    "Mismatch of parameter numbers and input channel size. Found parameter numbers "
                    "= %lld and channel size = %lld.",
                    (long long)weight->numel, (long long)channels);
    }
    return !op_failed();
}

/* The weights belong to dimension 1: one for all channels or one for each. */
static void decompose_prelu(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *weight = arg_tensor(c, 1);
    if (!check_prelu(c, x, weight))
        return;
    int64_t shape[CFX_MAX_DIMS], n = weight->numel;
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == 1 ? n : 1;
    if (weight->ndim == 0 || x->ndim != 1)
        weight = cfx_view(weight, cfx_ints_value(x->ndim, shape));
    c->out[0] = cfx_aten__prelu_kernel(x, weight);
}

CFX_OP(relu) = {"aten::relu(Tensor self) -> Tensor",
                "torch.relu Tensor.relu", POINTWISE_POST(relu, shape_relu, RELU),
                GRAD(relu, RESULT(0)), .inplace = "default", .out = "out"};
CFX_OP(leaky_relu) = {"aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
                      "torch._C._nn.leaky_relu", POINTWISE_POST(leaky_relu, shape_pointwise, LEAKY),
                      GRAD(leaky_relu, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(_prelu_kernel) = {"aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor", NULL,
                         POINTWISE_AS(prelu, shape_prelu_kernel), GRAD(prelu, READ(0) | READ(1)),
                         .core = core__prelu_kernel};
CFX_OP(prelu) = {"aten::prelu(Tensor self, Tensor weight) -> Tensor",
                 "torch.prelu torch.nn.functional.prelu Tensor.prelu",
                 .decompose = decompose_prelu, .effects = CFX_COMPOSITE, .autocast = CFX_CAST_LOW};
CFX_OP(threshold) = {"aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
                     "torch.threshold", POINTWISE(threshold), GRAD(threshold, READ(0)),
                     .core = core_threshold, .inplace = "default", .out = "out"};

/* ---- exponential units ----------------------------------------------------------------------- */

ONLY_FLOAT1(elu, 3, x <= 0 ? expm1(x * p2) * (p0 * p1) : x * p1)

static void decompose_selu(cfx_op_call *c) {
    c->out[0] = cfx_elu(arg_tensor(c, 0), 1.6732632423543772848170429916717,
                        1.0507009873554804934193349852946);
}

static void decompose_celu(cfx_op_call *c) {
    double alpha = arg_float(c, 1);
    if (alpha == 0)
        op_fail(c, "ZeroDivisionError: alpha cannot be 0 for CELU");
    else
        c->out[0] = cfx_elu(arg_tensor(c, 0), c->args[1], 1, 1 / alpha);
}

CFX_OP(elu) = {"aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> "
               "Tensor", "torch._C._nn.elu", POINTWISE(elu),
               GRAD(elu, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(selu) = {"aten::selu(Tensor self) -> Tensor", "torch.selu",
                .decompose = decompose_selu, .effects = CFX_COMPOSITE, .inplace = "default"};
CFX_OP(celu) = {"aten::celu(Tensor self, Scalar alpha=1.) -> Tensor",
                "torch.celu", .decompose = decompose_celu, .core = core_celu, .inplace = "default",
                .out = "out"};

/* ---- smooth ones ----------------------------------------------------------------------------- */

FLOATS(1, gelu, (T)0.5 * x * (1 + verf(x * (T)M_SQRT1_2)))
ROW(gelu, RULE_SAME, 6, 1, "GeluKernelImpl", HAS_FLOATS(gelu), .by_hand = &by_hand_gelu)
#define CUBIC(x) ((T)(M_SQRT2 * M_2_SQRTPI * 0.5) * (x + (T)0.044715 * x * x * x))
ONLY_FLOAT_AS(1, gelu_tanh, "GeluKernelImpl", 6, (T)0.5 * x * (1 + tanh(CUBIC(x))))
FLOATS(1, silu, x / (1 + vexp(-x)))
COMPLEXES(1, silu, x / (1 + cexp(-x)))
ROW(silu, RULE_SAME, 3, 1, "silu_cpu", HAS_FLOATS(silu), HAS_COMPLEXES(silu),
    .by_hand = &by_hand_silu)
ONLY_FLOAT1(mish, 8, x *tanh(log1p(vexp(x))))
ONLY_FLOAT1(softplus, 5, x *p0 > p1 ? x : log1p(vexp(x * p0)) / p0)
ONLY_FLOAT1(log_sigmoid, 5, (x < 0 ? x : 0) - log1p(vexp(-fabs(x))))
ONLY_FLOAT1(log_sigmoid_buffer, 3, vexp(-fabs(x)))

static const pointwise_row *gelu_row(cfx_op_call *c) {
    const char *how = arg_text(c, 1);
    if (!strcmp(how, "tanh"))
        return &row_gelu_tanh;
    if (strcmp(how, "none"))
        op_fail(c, "approximate argument must be either none or tanh.");
    return &row_gelu;
}

static void shape_gelu(cfx_op_call *c) { pointwise_shape(c, gelu_row(c)); }
static void kernel_gelu(cfx_op_call *c) { pointwise_kernel(c, gelu_row(c), NULL); }

/* The second result is what the gradient wants again. */
static void shape_log_sigmoid_forward(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    pointwise_shape(c, &row_log_sigmoid);
    out_new(c, 0, t->dtype, t->ndim, t->shape);
    out_new(c, 1, t->dtype, t->ndim, t->shape);
}

static void kernel_log_sigmoid_forward(cfx_op_call *c) {
    pointwise_kernel(c, &row_log_sigmoid, NULL);
    cfx_op_call buffer = *c;
    buffer.out[0] = c->out[1];
    pointwise_kernel(&buffer, &row_log_sigmoid_buffer, NULL);
}

static void decompose_log_sigmoid(cfx_op_call *c) {
    c->out[0] = cfx_tensor_at(cfx_log_sigmoid_forward(arg_tensor(c, 0)), 0);
}

CFX_OP(gelu) = {"aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
                "torch._C._nn.gelu torch.nn.functional.gelu",
                .shape = shape_gelu, .kernel = kernel_gelu, GRAD(gelu, READ(0)),
                .effects = CFX_POINTWISE | CFX_LOOPS | IS_POST(GELU), .inplace = "default",
                .out = "out"};
CFX_OP(silu) = {"aten::silu(Tensor self) -> Tensor", "torch._C._nn.silu",
                POINTWISE_POST(silu, shape_pointwise, SILU), GRAD(silu, READ(0)),
                .core = core_silu, .inplace = "default", .out = "out"};
CFX_OP(mish) = {"aten::mish(Tensor self) -> Tensor", "torch._C._nn.mish", POINTWISE(mish),
                GRAD(mish, READ(0)), .core = core_mish, .inplace = "default", .out = "out"};
CFX_OP(softplus) = {"aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
                    "torch._C._nn.softplus torch.nn.functional.softplus", POINTWISE(softplus),
                    GRAD(softplus, READ(0)),
                    .core = core_softplus, .autocast = CFX_CAST_F32_ON_GPU, .out = "out"};
CFX_OP(log_sigmoid) = {"aten::log_sigmoid(Tensor self) -> Tensor",
                       "torch._C._nn.log_sigmoid torch.nn.functional.logsigmoid",
                       .decompose = decompose_log_sigmoid, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(log_sigmoid_forward) = {
    "aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", NULL,
    .shape = shape_log_sigmoid_forward, .kernel = kernel_log_sigmoid_forward,
    GRAD(log_sigmoid, READ(0) | RESULT(1)), .core = core_log_sigmoid_forward,
    .out = "aten::log_sigmoid_forward.output(Tensor self, *, Tensor(a!) output, Tensor(b!) buffer) "
    "-> (Tensor(a!), Tensor(b!))",
    ASIDE(RESULT(1))};

/* ---- broken lines ---------------------------------------------------------------------------- */

/* x held between low and high; nan stays. */
#define HOLD(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
NUMBER1(hardtanh, 1, BELOW(ABOVE(x, p0), p1), BELOW(ABOVE(x, p0), p1))
ONLY_FLOAT1(hardsigmoid, 1, HOLD(x + 3, 0, 6) / 6)
ONLY_FLOAT1(hardswish, 1, x *HOLD(x + 3, 0, 6) / 6)
ONLY_FLOAT1(hardshrink, 1, x >= -p0 && x <= p0 ? 0 : x)
ONLY_FLOAT1(softshrink, 1, x > p0 ? x - p0 : x < -p0 ? x + p0 : x * 0)

static void shape_hardtanh(cfx_op_call *c) {
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    if (d == CFX_BOOL)
        op_fail(c, "Bool inputs not supported for hardtanh");
    else if (cfx__dtype_is_complex(d))
        op_fail_as(NOT_IMPLEMENTED, c, "clamp is not supported for complex types");
    else if (d == CFX_U8 && (arg_float(c, 1) < 0 || arg_float(c, 2) < 0))
        op_fail(c, "cannot do hardtanh on an unsigned type with negative limits");
    shape_pointwise_like(c);
}

static void shape_softshrink(cfx_op_call *c) {
    if (!(arg_float(c, 1) >= 0))
        op_fail(c, "lambda must be greater or equal to 0, but found to be %g.", arg_float(c, 1));
    shape_pointwise(c);
}

static void decompose_relu6(cfx_op_call *c) { c->out[0] = cfx_hardtanh(arg_tensor(c, 0), 0, 6); }

CFX_OP(hardtanh) = {"aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
                    "torch._C._nn.hardtanh", POINTWISE_POST(hardtanh, shape_hardtanh, BOUNDS),
                    GRAD(hardtanh, READ(0)), .inplace = "default", .out = "out"};
CFX_OP(relu6) = {"aten::relu6(Tensor self) -> Tensor", "torch._C._nn.relu6",
                 .decompose = decompose_relu6, .effects = CFX_COMPOSITE | IS_POST(RELU6),
                 .inplace = "default"};
CFX_OP(hardsigmoid) = {"aten::hardsigmoid(Tensor self) -> Tensor",
                       "torch._C._nn.hardsigmoid", POINTWISE(hardsigmoid),
                       GRAD(hardsigmoid, READ(0)), .core = core_hardsigmoid,
                       .quantized = CFX_QUANTIZED_UNIT, .inplace = "default", .out = "out"};
CFX_OP(hardswish) = {"aten::hardswish(Tensor self) -> Tensor", "torch._C._nn.hardswish",
                     POINTWISE_POST(hardswish, shape_pointwise, HARDSWISH),
                     GRAD(hardswish, READ(0)), .core = core_hardswish, .inplace = "default",
                     .out = "out"};
CFX_OP(hardshrink) = {"aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
                      "torch.hardshrink torch.nn.functional.hardshrink Tensor.hardshrink",
                      POINTWISE(hardshrink), GRAD(hardshrink, READ(0)), .core = core_hardshrink,
                      .out = "out"};
CFX_OP(softshrink) = {"aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
                      "torch._C._nn.softshrink torch.nn.functional.softshrink",
                      POINTWISE_AS(softshrink, shape_softshrink),
                      GRAD(softshrink, READ(0)), .core = core_softshrink, .out = "out"};

/* ---- gates ----------------------------------------------------------------------------------- */

ONLY_FLOAT2(glu, 3, x *vsigmoid(y))

/* The dimension that a glu halves, or -1 with an error. */
static int glu_dim(cfx_op_call *c, const cfx_tensor *t, int arg) {
    if (t->ndim == 0) {
        op_fail(c, "glu does not support 0-dimensional tensors");
        return -1;
    }
    int d = arg_dim(c, arg, t->ndim);
    if (d >= 0 && t->shape[d] % 2) {
        op_fail(c, "Halving dimension must be even, but dimension %d is size %lld", d,
                (long long)t->shape[d]);
        return -1;
    }
    return d;
}

/* Half `which` of t along d; scope. */
static cfx_tensor *half_of(const cfx_tensor *t, int d, int which) {
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[d] /= 2;
    return cfx__tensor_alias(t, t->ndim, shape, t->stride,
                             t->offset + which * shape[d] * t->stride[d]);
}

static bool glu_halves(cfx_op_call *c, cfx_value *halves) {
    cfx_tensor *t = arg_tensor(c, 0);
    int d = glu_dim(c, t, 1);
    for (int i = 0; i < 2 && d >= 0; i++)
        halves[i] = cfx_tensor_value(half_of(t, d, i));
    return d >= 0;
}

static void shape_glu(cfx_op_call *c) {
    cfx_value halves[2];
    cfx_op_call f = *c;
    f.args = halves;
    f.nargs = 2;
    f.out[0] = &cfx__tensor_bad;
    if (glu_halves(c, halves))
        pointwise_shape(&f, &row_glu);
    c->out[0] = f.out[0];
}

static void kernel_glu(cfx_op_call *c) {
    cfx_value halves[2];
    if (glu_halves(c, halves))
        pointwise_run(c, &row_glu, arg_tensor(c, 0)->dtype, 2, halves, NULL);
}

CFX_OP(glu) = {"aten::glu(Tensor self, int dim=-1) -> Tensor", "torch._C._nn.glu",
               .shape = shape_glu, .kernel = kernel_glu, GRAD(glu, READ(0)), .core = core_glu,
               .out = "out"};
