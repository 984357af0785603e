/* Gradients of activations, as operators: grad (x in the loops) and the input or the result (y). */
#include "../loops.h"

CFX_FAMILY(ACTIVATION);

/* ---- rectifiers and broken lines ------------------------------------------------------------- */

FLOATS(2, threshold_backward, y <= p0 ? 0 : x)
INTS(2, threshold_backward, y <= p0 ? 0 : x)
ROW(threshold_backward, RULE_SAME, 1, 2, "threshold_cpu", HAS_FLOATS(threshold_backward),
    HAS_INTS(threshold_backward), .no_bool = true)
ONLY_FLOAT2(leaky_relu_backward, 1, y > 0 ? x : x * p0)
ONLY_FLOAT2(hardtanh_backward, 1, y <= p0 || y >= p1 ? 0 : x)
ONLY_FLOAT_AS(2, hardsigmoid_backward, "hardsigmoid_backward", 1,
              y > -3 && y < 3 ? x * (T)(1.f / 6.f) : 0)
ONLY_FLOAT2(hardswish_backward, 1, y <= -3 ? 0 : y < 3 ? x * (y / 3 + (T)0.5) : x)
ONLY_FLOAT2(shrink_backward, 1, y >= -p0 && y <= p0 ? 0 : x)

static void shape_leaky_relu_backward(cfx_op_call *c) {
    if (arg_bool(c, 3) && arg_float(c, 2) < 0)
        op_fail(c,
                "In-place leakyReLu backward calculation is triggered with a negative slope which "
                "is not supported. This is caused by calling in-place forward function with a "
                "negative slope, please call out-of-place version instead. File an issue at "
                "https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu "
                "backward calculation with negative slope");
    shape_pointwise(c);
}

CFX_OP(threshold_backward) = {"aten::threshold_backward(Tensor grad_output, Tensor self, Scalar "
                              "threshold) -> Tensor", NULL, POINTWISE(threshold_backward),
                              GRAD(threshold_backward, READ(1)), .out = "grad_input"};
CFX_OP(leaky_relu_backward) = {
    "aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool "
    "self_is_result) -> Tensor", NULL,
    POINTWISE_AS(leaky_relu_backward, shape_leaky_relu_backward),
    GRAD(leaky_relu_backward, READ(1)), .out = "grad_input"};
CFX_OP(hardtanh_backward) = {"aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar "
                             "min_val, Scalar max_val) -> Tensor", NULL,
                             POINTWISE(hardtanh_backward), GRAD(hardtanh_backward, READ(1)),
                             .out = "grad_input"};
CFX_OP(hardsigmoid_backward) = {
    "aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", NULL,
    POINTWISE(hardsigmoid_backward), GRAD(hardsigmoid_backward, READ(1)), .out = "grad_input"};
CFX_OP(hardswish_backward) = {"aten::hardswish_backward(Tensor grad_output, Tensor self) -> "
                              "Tensor", NULL, POINTWISE(hardswish_backward),
                              GRAD(hardswish_backward, READ(0) | READ(1)), .out = "out"};
CFX_OP(hardshrink_backward) = {
    "aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor", NULL,
    POINTWISE(shrink_backward), GRAD(hardshrink_backward, READ(1)), .out = "grad_input"};
CFX_OP(softshrink_backward) = {
    "aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor", NULL,
    POINTWISE(shrink_backward), GRAD(softshrink_backward, READ(1)), .out = "grad_input"};

/* Two results: for the input, and for the weight at each element. */
ONLY_FLOAT3(prelu_backward_input, 1, y > 0 ? x : z * x)
ONLY_FLOAT3(prelu_backward_weight, 1, ((void)z, y > 0 ? 0 : y * x))

static void shape_prelu_backward(cfx_op_call *c) {
    pointwise_shape(c, &row_prelu_backward_input);
    if (!op_failed())
        out_like(c, 1, c->out[0]->dtype, c->out[0]);
}

static void kernel_prelu_backward(cfx_op_call *c) {
    pointwise_kernel(c, &row_prelu_backward_input, NULL);
    cfx_op_call weight = *c;
    weight.out[0] = c->out[1];
    pointwise_kernel(&weight, &row_prelu_backward_weight, NULL);
}

CFX_OP(_prelu_kernel_backward) = {
    "aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, "
    "Tensor)", NULL, .shape = shape_prelu_backward, .kernel = kernel_prelu_backward,
    GRAD(prelu_backward, READ(0) | READ(1) | READ(2))};

/* ---- smooth ones ----------------------------------------------------------------------------- */

#define SLOPE(id, expr, cexpr)                                                                     \
    FLOATS_SAY(2, id, #expr, expr)                                                                 \
    COMPLEXES_SAY(2, id, #cexpr, cexpr)                                                            \
    ROW(id, RULE_SAME, 1, 2, #id "_cpu", HAS_FLOATS(id), HAS_COMPLEXES(id))
SLOPE(sigmoid_backward, x *(1 - y) * y, CMUL(x, conj(CMUL(1 - y, y))))
SLOPE(tanh_backward, x *(1 - y * y), CMUL(x, conj(1 - CMUL(y, y))))

ONLY_FLOAT2(silu_backward, 4, ({
                const T s = vsigmoid(y);
                x *s *(1 + y * (1 - s));
            }))
ONLY_FLOAT2(mish_backward, 8, ({
                const T s = vsigmoid(y), t = tanh(log1p(vexp(y)));
                x *(t + y * s * (1 - t * t));
            }))
ONLY_FLOAT2(softplus_backward, 4, ({
                const T e = vexp(y * p0);
                y *p0 > p1 ? x : x *e / (e + 1);
            }))
ONLY_FLOAT3(log_sigmoid_backward, 1, x *((y < 0 ? 1 : 0) - (y < 0 ? 1 : -1) * (z / (1 + z))))

CFX_OP(sigmoid_backward) = {"aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
                            NULL, POINTWISE(sigmoid_backward),
                            GRAD(sigmoid_backward, READ(0) | READ(1)), .out = "grad_input"};
CFX_OP(tanh_backward) = {"aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor", NULL,
                         POINTWISE(tanh_backward), GRAD(tanh_backward, READ(0) | READ(1)),
                         .out = "grad_input"};
CFX_OP(silu_backward) = {"aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor", NULL,
                         POINTWISE(silu_backward), GRAD(silu_backward, READ(0) | READ(1)),
                         .out = "grad_input"};
CFX_OP(mish_backward) = {"aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor", NULL,
                         POINTWISE(mish_backward), GRAD(mish_backward, READ(0) | READ(1))};
CFX_OP(softplus_backward) = {"aten::softplus_backward(Tensor grad_output, Tensor self, Scalar "
                             "beta, Scalar threshold) -> Tensor", NULL,
                             POINTWISE(softplus_backward),
                             GRAD(softplus_backward, READ(0) | READ(1)), .out = "grad_input"};
CFX_OP(log_sigmoid_backward) = {
    "aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", NULL,
    POINTWISE(log_sigmoid_backward), GRAD(log_sigmoid_backward, READ(0) | READ(1) | READ(2)),
    .out = "grad_input"};

/* The slope of y Phi(y): Phi(y) + y phi(y), and the same of its approximation. */
#define BETA ((T)(M_SQRT2 * M_2_SQRTPI * 0.5))
#define KAPPA ((T)0.044715)
ONLY_FLOAT_AS(2, gelu_backward, "GeluBackwardKernelImpl", 8, ({
                const T below = (T)0.5 * (1 + verf(y * (T)M_SQRT1_2));
                const T density = (T)(M_2_SQRTPI * M_SQRT1_2 * 0.5) * vexp((T)-0.5 * y * y);
                x *(below + y * density);
            }))
ONLY_FLOAT_AS(2, gelu_tanh_backward, "GeluBackwardKernelImpl", 8, ({
                const T t = tanh(BETA * (y + KAPPA * y * y * y));
                const T inner = BETA * (1 + 3 * KAPPA * y * y);
                x *((T)0.5 * (1 + t) + (T)0.5 * y * (1 - t * t) * inner);
            }))

static const pointwise_row *gelu_backward_row(cfx_op_call *c) {
    const char *how = arg_text(c, 2);
    if (!strcmp(how, "tanh"))
        return &row_gelu_tanh_backward;
    if (strcmp(how, "none"))
        op_fail(c, "approximate argument must be either none or tanh.");
    return &row_gelu_backward;
}

static void shape_gelu_backward(cfx_op_call *c) { pointwise_shape(c, gelu_backward_row(c)); }
static void kernel_gelu_backward(cfx_op_call *c) {
    pointwise_kernel(c, gelu_backward_row(c), NULL);
}

CFX_OP(gelu_backward) = {"aten::gelu_backward(Tensor grad_output, Tensor self, *, str "
                         "approximate=\"none\") -> Tensor", NULL,
                         .shape = shape_gelu_backward, .kernel = kernel_gelu_backward,
                         .effects = CFX_POINTWISE, GRAD(gelu_backward, READ(0) | READ(1)),
                         .out = "grad_input"};

/* Without an eps the slope is infinite at 0 and 1 and undefined beyond. */
#define LOGIT_SLOPE(x, y) ((x) / ((y) * (1 - (y))))
ONLY_FLOAT2(logit_backward, 1,
            y < 0 || y > 1 ? (T)NAN : y == 0 || y == 1 ? x *(T)INFINITY : LOGIT_SLOPE(x, y))
ONLY_FLOAT2(logit_backward_eps, 1, y < p0 || y > 1 - p0 ? 0 : LOGIT_SLOPE(x, y))

static void kernel_logit_backward(cfx_op_call *c) {
    bool held = !arg_is_none(c, 2) && arg_float(c, 2) >= 0;
    pointwise_kernel(c, held ? &row_logit_backward_eps : &row_logit_backward,
                     &(pointwise_params){.f = {arg_float(c, 2)}});
}

CFX_OP(logit_backward) = {"aten::logit_backward(Tensor grad_output, Tensor self, float? "
                          "eps=None) -> Tensor", NULL,
                          .shape = shape_pointwise, .kernel = kernel_logit_backward,
                          .row = &row_logit_backward, .effects = CFX_POINTWISE,
                          GRAD(logit_backward, READ(0) | READ(1)), .out = "grad_input"};

/* ---- exponential units ----------------------------------------------------------------------- */

/* p0 alpha, p1 scale, p2 input_scale; y is the result or the input. */
ONLY_FLOAT_AS(2, elu_backward_result, "elu_backward_cpu", 1,
              y <= 0 ? x * p2 * (y + p0 * p1) : x * p1)
ONLY_FLOAT_AS(2, elu_backward_input, "elu_backward_cpu", 4,
              y <= 0 ? x * p2 * p0 * p1 * vexp(y * p2) : x * p1)

static const pointwise_row *elu_backward_row(cfx_op_call *c) {
    if (!arg_bool(c, 4))
        return &row_elu_backward_input;
    if (arg_float(c, 1) < 0)
        op_fail(c,
                "In-place elu backward calculation is triggered with a negative slope which is not "
                "supported. This is caused by calling in-place forward function with a negative "
                "slope, please call out-of-place version instead.");
    return &row_elu_backward_result;
}

static void shape_elu_backward(cfx_op_call *c) {
    cfx_value operands[] = {c->args[0], c->args[5]};
    cfx_op_call f = *c;
    f.args = operands;
    f.nargs = 2;
    pointwise_shape(&f, elu_backward_row(c));
    c->out[0] = f.out[0];
}

static void kernel_elu_backward(cfx_op_call *c) {
    cfx_value operands[] = {c->args[0], c->args[5]};
    pointwise_params p = {.f = {arg_float(c, 1), arg_float(c, 2), arg_float(c, 3)}};
    pointwise_run(c, elu_backward_row(c), c->out[0]->dtype, 2, operands, &p);
}

CFX_OP(elu_backward) = {"aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, "
                        "Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor",
                        NULL, .shape = shape_elu_backward, .kernel = kernel_elu_backward,
                        GRAD(elu_backward, READ(0) | READ(5)), .out = "grad_input"};

/* ---- gates ----------------------------------------------------------------------------------- */

ONLY_FLOAT3(glu_backward_first, 3, ((void)y, x *vsigmoid(z)))
ONLY_FLOAT3(glu_backward_second, 4, ({
                const T s = vsigmoid(z);
                x *y *s *(1 - s);
            }))

static cfx_tensor *half_of(const cfx_tensor *t, int d, int which) {
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[d] /= 2;
    return cfx__tensor_alias(t, t->ndim, shape, t->stride,
                             t->offset + which * shape[d] * t->stride[d]);
}

static void shape_glu_backward(cfx_op_call *c) {
    cfx_tensor *grad = arg_tensor(c, 0), *t = arg_tensor(c, 1);
    int d = t->ndim ? arg_dim(c, 2, t->ndim) : -1, ndim = 0;
    int64_t shape[CFX_MAX_DIMS];
    if (t->ndim == 0)
        op_fail(c, "glu does not support 0-dimensional tensors");
    else if (d >= 0 && t->shape[d] % 2)
        op_fail(c, "Halving dimension must be even, but dimension %d is size %lld", d,
                (long long)t->shape[d]);
    else if (!cfx__dtype_is_float(t->dtype) || grad->dtype != t->dtype)
        op_fail(c, "result type Float can't be cast to the desired output type %s",
                cfx__dtype_title(t->dtype));
    if (!op_failed()) {
        cfx_tensor *half = half_of(t, d, 0);
        cfx__shape_broadcast(c->at, &ndim, shape, half->ndim, half->shape);
        cfx__shape_broadcast(c->at, &ndim, shape, grad->ndim, grad->shape);
        if (!op_failed() && !cfx__tensor_same_shape(grad, half))
            op_fail(c, "glu_backward: grad_output has shape %s, which is not half of %s",
                    cfx__shape_text(grad->ndim, grad->shape), cfx__shape_text(t->ndim, t->shape));
    }
    out_new(c, 0, t->dtype, t->ndim, t->shape);
}

static void kernel_glu_backward(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 1);
    int d = arg_dim(c, 2, t->ndim);
    const pointwise_row *rows[] = {&row_glu_backward_first, &row_glu_backward_second};
    cfx_value operands[] = {c->args[0], cfx_tensor_value(half_of(t, d, 0)),
                            cfx_tensor_value(half_of(t, d, 1))};
    for (int i = 0; i < 2; i++) {
        cfx_op_call f = *c;
        f.out[0] = half_of(c->out[0], d, i);
        pointwise_run(&f, rows[i], t->dtype, 3, operands, NULL);
    }
}

CFX_OP(glu_backward) = {"aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
                        NULL, .shape = shape_glu_backward, .kernel = kernel_glu_backward,
                        GRAD(glu_backward, READ(0) | READ(1)), .out = "grad_input"};
