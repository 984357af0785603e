/* quantized::*, arithmetic and layers on quantized tensors: on the floats that they stand for, with
 * results quantized by the scale that the call asks for. Products are in products.c. */
#include <cfx/ops.h>

#include "quant.h"

#include <math.h>

CFX_FAMILY(MATH);

static cfx_tensor *floats(cfx_op_call *c, int i) {
    cfx_tensor *t = arg_tensor(c, i);
    if (!t->quantizer) {
        op_fail(c, "%s takes quantized tensors, got one of torch.%s", cfx_op_name(c->op),
                cfx_dtype_name(t->dtype));
        return &cfx__tensor_bad;
    }
    return cfx__quantized_to_float(c->at, t);
}

/* The result of the call: y in the dtype of the first argument, by these parameters. */
static void give(cfx_op_call *c, cfx_tensor *y, double scale, int64_t zero_point) {
    if (!op_failed())
        c->out[0] = cfx__quantized_from(c->at, y, arg_tensor(c, 0)->dtype,
                                        cfx__quantizer_new(scale, zero_point));
}

/* The same, by arguments `at` and `at + 1`. */
static void give_by(cfx_op_call *c, cfx_tensor *y, int at) {
    give(c, y, arg_float(c, at), arg_int(c, at + 1));
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* What a row of two operands computes: an operator, and whether relu follows. */
typedef struct binary {
    cfx_tensor *(*op)(cfx_tensor *a, cfx_tensor *b);
    bool relu;
} binary;

static cfx_tensor *plus(cfx_tensor *a, cfx_tensor *b) { return cfx_add(a, b); }
static cfx_tensor *times(cfx_tensor *a, cfx_tensor *b) { return cfx_mul(a, b); }
static cfx_tensor *product(cfx_tensor *a, cfx_tensor *b) { return cfx_matmul(a, b); }

static void decompose_binary(cfx_op_call *c) {
    const binary *row = c->op->row;
    cfx_tensor *a = floats(c, 0), *b = floats(c, 1);
    if (op_failed())
        return;
    cfx_tensor *y = row->op(a, b);
    give_by(c, row->relu ? cfx_relu(y) : y, 2);
}

static void limits(const cfx_tensor *t, double *low, double *high) {
    *low = t->dtype == CFX_QI8 ? -128 : t->dtype == CFX_QI32 ? INT32_MIN : 0;
    *high = t->dtype == CFX_QI8 ? 127 : t->dtype == CFX_QI32 ? INT32_MAX : 255;
}

/* A sum with a number, in whole steps, moves the zero point as far as that reaches; then the scale
 * grows. */
static void decompose_add_scalar(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *x = floats(c, 0);
    if (op_failed())
        return;
    double low, high, b = arg_float(c, 1), s = t->quantizer->scale;
    limits(t, &low, &high);
    double steps = nearbyint(b / s), moved = (double)t->quantizer->zero_point - steps, zero = moved;
    cfx_tensor *y = cfx_add(x, steps * s);
    if (moved < low)
        s *= (high - moved) / (high - low), zero = low;
    else if (moved > high)
        s *= (moved - low) / (high - low), zero = high;
    give(c, ((const binary *)c->op->row)->relu ? cfx_relu(y) : y, s, cfx__int64_of(zero));
}

/* A product with a number leaves the integers and scales the scale; below zero it mirrors them. */
static void decompose_mul_scalar(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_tensor *x = floats(c, 0);
    if (op_failed())
        return;
    double low, high, b = arg_float(c, 1), s = t->quantizer->scale * fabs(b);
    limits(t, &low, &high);
    double zero = (double)t->quantizer->zero_point;
    cfx_tensor *y = cfx_mul(x, b);
    if (b < 0)
        zero = low + high - zero;
    give(c, ((const binary *)c->op->row)->relu ? cfx_relu(y) : y, b == 0 ? 1 : s,
         b == 0 ? 0 : cfx__int64_of(zero));
}

/* The number comes first. */
static void decompose_add_left(cfx_op_call *c) {
    c->out[0] = cfx_quantized_add(c->args[1], c->args[0]);
}
static void decompose_mul_left(cfx_op_call *c) {
    c->out[0] = cfx_quantized_mul(c->args[1], c->args[0]);
}

static const binary row_add = {plus, false}, row_add_relu = {plus, true}, row_mul = {times, false},
                    row_mul_relu = {times, true}, row_matmul = {product, false};

#define NATIVE(fn) .decompose = fn, .quantized = CFX_QUANTIZED_OWN, NO_GRAD
#define BINARY(name, fn) NATIVE(fn), .row = &row_##name

CFX_OP(quantized_add) = {
    "quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "torch.ops.quantized.add", BINARY(add, decompose_binary)};
CFX_OP(quantized_add_Scalar) = {"quantized::add.Scalar(Tensor qa, Scalar b) -> Tensor qc", NULL,
                                BINARY(add, decompose_add_scalar)};
CFX_OP(quantized_add_Scalar2) = {"quantized::add.Scalar2(Scalar b, Tensor qa) -> Tensor qc", NULL,
                                 NATIVE(decompose_add_left)};
CFX_OP(quantized_add_relu) = {
    "quantized::add_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "torch.ops.quantized.add_relu", BINARY(add_relu, decompose_binary)};
CFX_OP(quantized_add_relu_Scalar) = {"quantized::add_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc",
                                     NULL, BINARY(add_relu, decompose_add_scalar)};
CFX_OP(quantized_mul) = {
    "quantized::mul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "torch.ops.quantized.mul", BINARY(mul, decompose_binary)};
CFX_OP(quantized_mul_Scalar) = {"quantized::mul.Scalar(Tensor qa, Scalar b) -> Tensor qc", NULL,
                                BINARY(mul, decompose_mul_scalar)};
CFX_OP(quantized_mul_Scalar2) = {"quantized::mul.Scalar2(Scalar b, Tensor qa) -> Tensor qc", NULL,
                                 NATIVE(decompose_mul_left)};
CFX_OP(quantized_mul_relu) = {
    "quantized::mul_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "torch.ops.quantized.mul_relu", BINARY(mul_relu, decompose_binary)};
CFX_OP(quantized_mul_relu_Scalar) = {"quantized::mul_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc",
                                     NULL, BINARY(mul_relu, decompose_mul_scalar)};
CFX_OP(quantized_matmul) = {
    "quantized::matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
    "torch.ops.quantized.matmul", BINARY(matmul, decompose_binary)};

/* ---- activations ----------------------------------------------------------------------------- */

static void decompose_hardswish(cfx_op_call *c) { give_by(c, cfx_hardswish(floats(c, 0)), 1); }

static void decompose_elu(cfx_op_call *c) {
    give_by(c, cfx_elu(floats(c, 0), c->args[3], c->args[4], c->args[5]), 1);
}

static void decompose_leaky_relu(cfx_op_call *c) {
    give_by(c, cfx_leaky_relu(floats(c, 0), c->args[1]), 3);
}

static void decompose_prelu(cfx_op_call *c) {
    cfx_tensor *weight = arg_tensor(c, 1)->quantizer ? floats(c, 1) : arg_tensor(c, 1);
    give_by(c, cfx_prelu(floats(c, 0), weight), 2);
}

static void decompose_softmax(cfx_op_call *c) {
    give_by(c, cfx_softmax(floats(c, 0), c->args[1]), 2);
}

static void decompose_dropout(cfx_op_call *c) { c->out[0] = tensor_copy(arg_tensor(c, 0)); }

static void decompose_cat(cfx_op_call *c) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < arg_count(c, 0); i++) {
        cfx_tensor *t = arg_item(c, 0, i);
        if (!t || !t->quantizer) {
            op_fail(c, "%s takes quantized tensors", cfx_op_name(c->op));
            return;
        }
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(cfx__quantized_to_float(c->at, t)));
    }
    if (!arg_count(c, 0)) {
        op_fail(c, "%s: expected a non-empty list of tensors", cfx_op_name(c->op));
        return;
    }
    cfx_tensor *first = arg_item(c, 0, 0), *y = cfx_cat(list, c->args[1]);
    double scale = arg_is_none(c, 2) ? first->quantizer->scale : arg_float(c, 2);
    int64_t zero = arg_is_none(c, 3) ? first->quantizer->zero_point : arg_int(c, 3);
    if (!op_failed())
        c->out[0] = cfx__quantized_from(c->at, y, first->dtype, cfx__quantizer_new(scale, zero));
}

CFX_FAMILY(ACTIVATION);
CFX_OP(quantized_hardswish) = {
    "quantized::hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.hardswish", NATIVE(decompose_hardswish)};
CFX_OP(quantized_elu) = {
    "quantized::elu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1, Scalar "
    "scale=1, Scalar input_scale=1) -> Tensor",
    "torch.ops.quantized.elu", NATIVE(decompose_elu)};
CFX_OP(quantized_leaky_relu) = {
    "quantized::leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, int "
    "output_zero_point) -> Tensor",
    "torch.ops.quantized.leaky_relu", NATIVE(decompose_leaky_relu)};
CFX_OP(quantized_prelu) = {
    "quantized::prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point) -> "
    "Tensor",
    "torch.ops.quantized.prelu", NATIVE(decompose_prelu)};
CFX_OP(quantized_softmax) = {
    "quantized::softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.softmax", NATIVE(decompose_softmax)};
CFX_OP(quantized_dropout) = {
    "quantized::dropout(Tensor self, float output_scale, int output_zero_point, float p=0.5, bool "
    "training=True, bool inplace=False) -> Tensor",
    "torch.ops.quantized.dropout", NATIVE(decompose_dropout)};
CFX_FAMILY(VIEW);
CFX_OP(quantized_cat) = {
    "quantized::cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor",
    "torch.ops.quantized.cat", NATIVE(decompose_cat)};

/* ---- normalisation --------------------------------------------------------------------------- */

static void decompose_layer_norm(cfx_op_call *c) {
    give_by(c, cfx_layer_norm(floats(c, 0), c->args[1], c->args[2], c->args[3], c->args[4]), 5);
}

static void decompose_instance_norm(cfx_op_call *c) {
    give_by(c,
            cfx_instance_norm(floats(c, 0), c->args[1], c->args[2], NULL, NULL, true, 0.0,
                              c->args[3], false),
            4);
}

static void decompose_group_norm(cfx_op_call *c) {
    give_by(c, cfx_group_norm(floats(c, 0), c->args[1], c->args[2], c->args[3], c->args[4]), 5);
}

/* qx, weight, bias, mean, var, eps, output_scale, output_zero_point */
static void decompose_batch_norm(cfx_op_call *c) {
    cfx_tensor *y = cfx_batch_norm(floats(c, 0), c->args[1], c->args[2], c->args[3], c->args[4],
                                   false, 0.0, c->args[5], false);
    give_by(c, c->op->row ? cfx_relu(y) : y, 6);
}

CFX_FAMILY(NORM);
CFX_OP(quantized_layer_norm) = {
    "quantized::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
    "float eps, float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.layer_norm", NATIVE(decompose_layer_norm)};
CFX_OP(quantized_instance_norm) = {
    "quantized::instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, float "
    "output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.instance_norm", NATIVE(decompose_instance_norm)};
CFX_OP(quantized_group_norm) = {
    "quantized::group_norm(Tensor qx, int num_groups, Tensor? weight, Tensor? bias, float eps, "
    "float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.group_norm", NATIVE(decompose_group_norm)};
CFX_OP(quantized_batch_norm2d) = {
    "quantized::batch_norm2d(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, "
    "float eps, float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.batch_norm2d", NATIVE(decompose_batch_norm)};
CFX_OP(quantized_batch_norm3d) = {
    "quantized::batch_norm3d(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, "
    "float eps, float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.batch_norm3d", NATIVE(decompose_batch_norm)};
CFX_OP(quantized_batch_norm2d_relu) = {
    "quantized::batch_norm2d_relu(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor "
    "var, float eps, float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.batch_norm2d_relu", NATIVE(decompose_batch_norm), .row = &row_add_relu};
CFX_OP(quantized_batch_norm3d_relu) = {
    "quantized::batch_norm3d_relu(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor "
    "var, float eps, float output_scale, int output_zero_point) -> Tensor",
    "torch.ops.quantized.batch_norm3d_relu", NATIVE(decompose_batch_norm), .row = &row_add_relu};
