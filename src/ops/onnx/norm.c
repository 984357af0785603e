/* Normalisation, dropout and the losses. */
#include "onnx.h"

#include <math.h>

CFX_FAMILY(NORM);

/* ---- batches --------------------------------------------------------------------------------- */

/* Statistics may be wider than the numbers that they are of. */
static cfx_tensor *like(cfx_tensor *t, const cfx_tensor *x) {
    return onnx_to(t, (cfx_dtype)x->dtype);
}

/* By a mean and a variance, of the batch itself or given. */
static cfx_tensor *batch_norm(cfx_op_call *c, cfx_tensor *mean, cfx_tensor *var) {
    cfx_tensor *x = T(0);
    return cfx_batch_norm(x, like(T(1), x), like(T(2), x), like(mean, x), like(var, x), false, 0.,
                          arg_float(c, 5), false);
}

static bool has_channels(cfx_op_call *c) {
    if (T(0)->ndim < 2)
        op_fail(c, "BatchNormalization: a tensor of %d dimensions has no channels", T(0)->ndim);
    return T(0)->ndim >= 2;
}

/* The mean and the variance over all dimensions but the second. */
static cfx_value all_but_channels(const cfx_tensor *x) {
    cfx_value dims = cfx_list(0);
    for (int i = 2; i < x->ndim; i++)
        cfx_list_append(cfx_as_list(dims), cfx_int(i));
    return dims;
}

/* X, scale, B, input_mean, input_var, epsilon, momentum, training_mode */
static void batch_norm_now(cfx_op_call *c, bool running) {
    cfx_tensor *x = T(0), *mean = T(3), *var = T(4);
    double momentum = arg_float(c, 6);
    bool training = arg_bool(c, 7);
    if (!has_channels(c))
        return;
    if (training) {
        cfx_value dims = all_but_channels(x);
        mean = cfx_mean(x, dims), var = cfx_var(x, dims, CFX_KW(correction, 0));
    }
    OUT(0) = batch_norm(c, mean, var);
    if (!running)
        return;
    OUT(1) = training ? cfx_add(cfx_mul(T(3), momentum), cfx_mul(mean, 1 - momentum)) : mean;
    OUT(2) = training ? cfx_add(cfx_mul(T(4), momentum), cfx_mul(var, 1 - momentum)) : var;
}

ONNX_OP(BatchNormalization) { batch_norm_now(c, false); }
ONNX_OP(BatchNormalization_training) { batch_norm_now(c, true); }

/* X, scale, B, mean, var, epsilon, momentum, is_test, spatial: that there is one result says that
 * nothing is trained. Where it is not spatial, each place of an image has statistics of its own. */
ONNX_OP(BatchNormalization_v1) {
    cfx_tensor *x = T(0);
    if (!has_channels(c))
        return;
    if (arg_bool(c, 8)) {
        OUT(0) = batch_norm(c, T(3), T(4));
        return;
    }
    cfx_tensor *scale = cfx_mul(like(T(1), x), cfx_rsqrt(cfx_add(like(T(4), x), arg_float(c, 5))));
    OUT(0) = cfx_add(cfx_mul(cfx_sub(x, like(T(3), x)), scale), like(T(2), x));
}

CFX_OP(onnx_BatchNormalization) = {
    "onnx::BatchNormalization(Tensor X, Tensor scale, Tensor B, Tensor input_mean, Tensor "
    "input_var, *, float epsilon=1e-05, float momentum=0.9, int training_mode=0) -> Tensor",
    ONNX(BatchNormalization, 14)};
CFX_OP(onnx_BatchNormalization_training) = {
    "onnx::BatchNormalization.training(Tensor X, Tensor scale, Tensor B, Tensor input_mean, "
    "Tensor input_var, *, float epsilon=1e-05, float momentum=0.9, int training_mode=0) -> "
    "(Tensor Y, Tensor running_mean, Tensor running_var)",
    ONNX(BatchNormalization_training, 14)};
CFX_OP(onnx_BatchNormalization_v1) = {
    "onnx::BatchNormalization.v1(Tensor X, Tensor scale, Tensor B, Tensor mean, Tensor var, *, "
    "float epsilon=1e-05, float momentum=0.9, int is_test=1, int spatial=1) -> Tensor",
    ONNX(BatchNormalization_v1, 1)};

/* ---- instances, groups, layers --------------------------------------------------------------- */

ONNX_OP(InstanceNormalization) { /* input, scale, B, epsilon */
    OUT(0) = cfx_instance_norm(T(0), T(1), T(2), NULL, NULL, true, 0., arg_float(c, 3), false);
}

ONNX_OP(GroupNormalization) { /* X, scale, bias, epsilon, num_groups */
    OUT(0) = cfx_group_norm(T(0), arg_int(c, 4), T(1), T(2), arg_float(c, 3), false);
}

/* Scale and bias of a group, not of a channel. */
ONNX_OP(GroupNormalization_v18) {
    cfx_tensor *x = T(0);
    int64_t groups = arg_int(c, 4), each = groups > 0 && x->ndim > 1 ? onnx_size(x, 1) / groups : 0;
    if (each < 1) {
        op_fail(c, "GroupNormalization: %lld groups do not fit a tensor of shape %s",
                (long long)groups, cfx__shape_text(x->ndim, x->shape));
        return;
    }
    OUT(0) = cfx_group_norm(x, groups, cfx_repeat_interleave(T(1), each),
                            cfx_repeat_interleave(T(2), each), arg_float(c, 3), false);
}

CFX_OP(onnx_InstanceNormalization) = {
    "onnx::InstanceNormalization(Tensor input, Tensor scale, Tensor B, *, float epsilon=1e-05) -> "
    "Tensor",
    ONNX(InstanceNormalization, 1)};
CFX_OP(onnx_GroupNormalization) = {
    "onnx::GroupNormalization(Tensor X, Tensor scale, Tensor bias, *, float epsilon=1e-05, int "
    "num_groups, int stash_type=1) -> Tensor",
    ONNX(GroupNormalization, 21)};
CFX_OP(onnx_GroupNormalization_v18) = {
    "onnx::GroupNormalization.v18(Tensor X, Tensor scale, Tensor bias, *, float epsilon=1e-05, "
    "int num_groups) -> Tensor",
    ONNX(GroupNormalization_v18, 18)};

/* The dimensions that are normalised, from the axis on; bad, with an error. */
static cfx_value normalised(cfx_op_call *c, int64_t given) {
    cfx_tensor *x = T(0);
    int axis = onnx_axis(c, given, x->ndim);
    return axis < 0 ? cfx_bad() : cfx_ints_value(x->ndim - axis, x->shape + axis);
}

/* Whether t has just this shape: ATen takes no other. */
static bool has_shape(const cfx_tensor *t, cfx_value shape) {
    bool same = t->ndim == cfx_as_list(shape)->len;
    for (int i = 0; same && i < t->ndim; i++)
        same = t->shape[i] == cfx_integer(cfx_at(shape, i));
    return same;
}

/* A scale that is broadcast is applied by itself. */
static cfx_tensor *scaled(cfx_tensor *y, cfx_tensor *scale, cfx_tensor *bias) {
    y = cfx_mul(y, scale);
    return bias ? cfx_add(y, bias) : y;
}

static cfx_tensor *layer_norm(cfx_op_call *c, cfx_value shape, double eps) {
    cfx_tensor *x = T(0), *scale = T(1), *bias = T(2);
    bool plain = has_shape(scale, shape) && (!bias || has_shape(bias, shape));
    return plain ? cfx_layer_norm(x, shape, scale, bias, eps)
                 : scaled(cfx_layer_norm(x, shape, NULL, NULL, eps), scale, bias);
}

ONNX_OP(LayerNormalization) { /* X, Scale, B, axis, epsilon, stash_type */
    cfx_value shape = normalised(c, arg_int(c, 3));
    if (!cfx_is_bad(shape))
        OUT(0) = layer_norm(c, shape, arg_float(c, 4));
}

ONNX_OP(LayerNormalization_statistics) {
    cfx_value shape = normalised(c, arg_int(c, 3)), all;
    if (cfx_is_bad(shape))
        return;
    OUT(0) = layer_norm(c, shape, arg_float(c, 4));
    all = cfx_native_layer_norm(onnx_to(T(0), CFX_F32), shape, NULL, NULL, arg_float(c, 4));
    if (cfx_is_bad(all))
        return;
    OUT(1) = cfx_tensor_at(all, 1), OUT(2) = cfx_tensor_at(all, 2);
}

ONNX_OP(RMSNormalization) { /* X, scale, axis, epsilon, stash_type */
    cfx_value shape = normalised(c, arg_int(c, 2));
    double eps = arg_float(c, 3);
    if (cfx_is_bad(shape))
        return;
    OUT(0) = has_shape(T(1), shape) ? cfx_rms_norm(T(0), shape, T(1), eps)
                                    : scaled(cfx_rms_norm(T(0), shape, NULL, eps), T(1), NULL);
}

/* Of version 17; ONNX Runtime's optimizer writes it into models of older versions too. */
CFX_OP(onnx_LayerNormalization) = {
    "onnx::LayerNormalization(Tensor X, Tensor Scale, Tensor? B=None, *, int axis=-1, float "
    "epsilon=1e-05, int stash_type=1) -> Tensor",
    ONNX(LayerNormalization, 1)};
CFX_OP(onnx_LayerNormalization_statistics) = {
    "onnx::LayerNormalization.statistics(Tensor X, Tensor Scale, Tensor? B=None, *, int axis=-1, "
    "float epsilon=1e-05, int stash_type=1) -> (Tensor Y, Tensor Mean, Tensor InvStdDev)",
    ONNX(LayerNormalization_statistics, 1)};
CFX_OP(onnx_RMSNormalization) = {
    "onnx::RMSNormalization(Tensor X, Tensor scale, *, int axis=-1, float epsilon=1e-05, int "
    "stash_type=1) -> Tensor",
    ONNX(RMSNormalization, 23)};

/* ---- by neighbours, by length ---------------------------------------------------------------- */

/* By the squares of a few channels around, more of them behind where their number is even. */
ONNX_OP(LRN) { /* X, alpha, beta, bias, size */
    cfx_tensor *x = T(0);
    int64_t size = arg_int(c, 4), front = (size - 1) / 2;
    if (x->ndim < 2 || size < 1) {
        op_fail(c, "LRN: %lld channels of a tensor of %d dimensions", (long long)size, x->ndim);
        return;
    }
    cfx_value pads = cfx_list_value(0, NULL);
    for (int i = x->ndim - 1; i >= 1; i--) {
        cfx_list_append(cfx_as_list(pads), cfx_int(i == 1 ? front : 0));
        cfx_list_append(cfx_as_list(pads), cfx_int(i == 1 ? size - 1 - front : 0));
    }
    cfx_tensor *squares = cfx_constant_pad_nd(cfx_mul(x, x), pads);
    squares = cfx_sum(cfx_unfold(squares, 1, size, 1), cfx_list(-1));
    squares = cfx_add(cfx_mul(squares, arg_float(c, 1) / (double)size), arg_float(c, 3));
    OUT(0) = cfx_div(x, cfx_pow(squares, arg_float(c, 2)));
}

/* Zeros stay zeros. */
ONNX_OP(LpNormalization) { /* input, axis, p */
    cfx_tensor *x = T(0);
    if (arg_int(c, 2) != 1 && arg_int(c, 2) != 2) {
        op_fail(c, "LpNormalization: p is 1 or 2, not %lld", (long long)arg_int(c, 2));
        return;
    }
    cfx_tensor *size = arg_int(c, 2) == 1
                           ? cfx_sum(cfx_abs(x), cfx_list(arg_int(c, 1)), true)
                           : cfx_sqrt(cfx_sum(cfx_mul(x, x), cfx_list(arg_int(c, 1)), true));
    OUT(0) = cfx_where(cfx_eq(size, 0), cfx_zeros_like(x), cfx_div(x, size));
}

ONNX_OP(MeanVarianceNormalization) { /* X, axes */
    cfx_tensor *x = T(0), *mean = cfx_mean(x, c->args[1], true);
    cfx_tensor *squares = cfx_mean(cfx_mul(x, x), c->args[1], true);
    cfx_tensor *deviation = cfx_sqrt(cfx_sub(squares, cfx_mul(mean, mean)));
    OUT(0) = cfx_div(cfx_sub(x, mean), cfx_add(deviation, 1e-9));
}

CFX_OP(onnx_LRN) = {
    "onnx::LRN(Tensor X, *, float alpha=0.0001, float beta=0.75, float bias=1., int size) -> "
    "Tensor",
    ONNX(LRN, 1)};
CFX_OP(onnx_LpNormalization) = {
    "onnx::LpNormalization(Tensor input, *, int axis=-1, int p=2) -> Tensor",
    ONNX(LpNormalization, 1)};
CFX_OP(onnx_MeanVarianceNormalization) = {
    "onnx::MeanVarianceNormalization(Tensor X, *, int[] axes=[0, 2, 3]) -> Tensor",
    ONNX(MeanVarianceNormalization, 9)};

/* ---- dropout --------------------------------------------------------------------------------- */

CFX_FAMILY(RANDOM);

/* What is dropped is only known when training: then both results are drawn. */
static void dropout(cfx_op_call *c, double ratio, bool training, bool mask) {
    cfx_tensor *x = T(0);
    cfx_value truth = cfx_dtype_value(CFX_BOOL);
    if (!training || ratio == 0) {
        OUT(0) = x;
        if (mask)
            OUT(1) = cfx_ones_like(x, CFX_KW(dtype, truth));
        return;
    }
    cfx_value both = cfx_native_dropout(x, ratio, true);
    if (cfx_is_bad(both))
        return;
    OUT(0) = cfx_tensor_at(both, 0);
    if (mask)
        OUT(1) = cfx_tensor_at(both, 1);
}

static void dropout_now(cfx_op_call *c, bool mask) { /* data, ratio, training_mode, seed */
    double ratio, training;
    if (onnx_float(c, 1, 0.5, &ratio) && onnx_float(c, 2, 0, &training))
        dropout(c, ratio, training != 0, mask);
}

ONNX_OP(Dropout) { dropout_now(c, false); }
ONNX_OP(Dropout_mask) { dropout_now(c, true); }
ONNX_OP(Dropout_v1) { dropout(c, 0, false, false); }
ONNX_OP(Dropout_v1_mask) { dropout(c, 0, false, true); }

CFX_OP(onnx_Dropout) = {
    "onnx::Dropout(Tensor data, Tensor? ratio=None, Tensor? training_mode=None, *, int? "
    "seed=None) -> Tensor",
    ONNX_WITH(onnx_Dropout, 12, CFX_RANDOM)};
CFX_OP(onnx_Dropout_mask) = {
    "onnx::Dropout.mask(Tensor data, Tensor? ratio=None, Tensor? training_mode=None, *, int? "
    "seed=None) -> (Tensor output, Tensor mask)",
    ONNX_WITH(onnx_Dropout_mask, 12, CFX_RANDOM)};
CFX_OP(onnx_Dropout_v1) = {
    "onnx::Dropout.v1(Tensor data, *, int is_test=1, float ratio=0.5) -> Tensor",
    ONNX(Dropout_v1, 1)};
CFX_OP(onnx_Dropout_v1_mask) = {
    "onnx::Dropout.v1_mask(Tensor data, *, int is_test=1, float ratio=0.5) -> (Tensor output, "
    "Tensor mask)",
    ONNX(Dropout_v1_mask, 1)};

/* ---- losses ---------------------------------------------------------------------------------- */

CFX_FAMILY(OTHER);

/* none, mean or sum as ATen counts them; -1, with an error. */
static int64_t reduction(cfx_op_call *c, const char *name) {
    static const char *const names[] = {"none", "mean", "sum"};
    for (int i = 0; name && i < COUNT(names); i++)
        if (!strcmp(names[i], name))
            return i;
    op_fail(c, "%s: the reduction is none, mean or sum, not '%s'", op_title(c), name);
    return -1;
}

/* Classes that are ignored have a number that no class has, where none is told. */
static cfx_tensor *nll(cfx_op_call *c, cfx_tensor *input, int ignore) {
    int64_t how = reduction(c, arg_text(c, ignore + 1));
    int64_t none = arg_is_none(c, ignore) ? -100 : arg_int(c, ignore);
    if (how < 0)
        return &cfx__tensor_bad;
    return cfx_nll_loss_nd(input, onnx_to(T(1), CFX_I64), T(2), how, none);
}

ONNX_OP(NegativeLogLikelihoodLoss) { OUT(0) = nll(c, T(0), 3); }
ONNX_OP(SoftmaxCrossEntropyLoss) { OUT(0) = nll(c, cfx_log_softmax(T(0), 1), 3); }
ONNX_OP(SoftmaxCrossEntropyLoss_log_prob) {
    OUT(1) = cfx_log_softmax(T(0), 1);
    OUT(0) = nll(c, OUT(1), 3);
}

CFX_OP(onnx_NegativeLogLikelihoodLoss) = {
    "onnx::NegativeLogLikelihoodLoss(Tensor input, Tensor target, Tensor? weight=None, *, int? "
    "ignore_index=None, str reduction=\"mean\") -> Tensor",
    ONNX(NegativeLogLikelihoodLoss, 12)};
CFX_OP(onnx_SoftmaxCrossEntropyLoss) = {
    "onnx::SoftmaxCrossEntropyLoss(Tensor scores, Tensor labels, Tensor? weights=None, *, int? "
    "ignore_index=None, str reduction=\"mean\") -> Tensor",
    ONNX(SoftmaxCrossEntropyLoss, 12)};
CFX_OP(onnx_SoftmaxCrossEntropyLoss_log_prob) = {
    "onnx::SoftmaxCrossEntropyLoss.log_prob(Tensor scores, Tensor labels, Tensor? weights=None, "
    "*, int? ignore_index=None, str reduction=\"mean\") -> (Tensor output, Tensor log_prob)",
    ONNX(SoftmaxCrossEntropyLoss_log_prob, 12)};
