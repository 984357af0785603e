/* torch.nn.functional: the functions there that are Python's own, with arguments of their own, over
 * the operators they end in. What is the same function under another name (linear, conv2d) is a
 * spelling of the operator instead. Modules call these, so that logs and graphs name them. */
#include <cfx/ops.h>

#include "functional.h"

CFX_FAMILY(ACTIVATION);

/* ---- activations: (input, ..., inplace=False) ------------------------------------------------ */

static void functional_relu6(cfx_op_call *c) {
    cfx_args a = CFX_ARGS(c->args[0]);
    c->out[0] = arg_bool(c, 1) ? cfx_fn_call_inplace_from(c->at, &cfx_fn_relu6, a)
                               : cfx_fn_call_tensor_from(c->at, &cfx_fn_relu6, a);
}

static void functional_tanhshrink(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    c->out[0] = cfx_sub(x, cfx_tanh(x));
}

static void functional_softsign(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    c->out[0] = cfx_div(x, cfx_add(cfx_abs(x), 1));
}

/* ---- softmax and friends: (input, dim=None, _stacklevel=3, dtype=None) ----------------------- */

/* The dimension that is meant where none is given: an old rule, kept by PyTorch. */
static int64_t softmax_dim(const cfx_op_call *c) {
    int n = arg_tensor(c, 0)->ndim;
    return !arg_is_none(c, 1) ? arg_int(c, 1) : n == 0 || n == 1 || n == 3 ? 0 : 1;
}

static void functional_softmax(cfx_op_call *c) {
    c->out[0] = cfx_softmax(c->args[0], softmax_dim(c), c->args[3]);
}

static void functional_log_softmax(cfx_op_call *c) {
    c->out[0] = cfx_log_softmax(c->args[0], softmax_dim(c), c->args[3]);
}

static void functional_softmin(cfx_op_call *c) {
    c->out[0] = cfx_softmax(cfx_neg(c->args[0]), softmax_dim(c), c->args[3]);
}

/* ---- dropout: (input, p=0.5, training=True, inplace=False) ----------------------------------- */

static void functional_dropout(cfx_op_call *c) {
    double p = arg_float(c, 1);
    if (!(p >= 0 && p <= 1)) {
        op_fail_as(VALUE, c, "dropout probability has to be between 0 and 1, but got %s",
                   cfx_value_repr(c->args[1]));
        return;
    }
    cfx_args a = CFX_ARGS(c->args[0], p, arg_bool(c, 2));
    c->out[0] = arg_bool(c, 3) ? cfx_fn_call_inplace_from(c->at, &cfx_fn_dropout, a)
                               : cfx_fn_call_tensor_from(c->at, &cfx_fn_dropout, a);
}

/* The other dropouts: of channels, and those that keep mean and variance. */
static void drop_with(cfx_op_call *c, const cfx_fn *fn) {
    double p = arg_float(c, 1);
    if (!(p >= 0 && p <= 1)) {
        op_fail_as(VALUE, c, "dropout probability has to be between 0 and 1, but got %s",
                   cfx_value_repr(c->args[1]));
        return;
    }
    cfx_args a = CFX_ARGS(c->args[0], p, arg_bool(c, 2));
    c->out[0] = arg_bool(c, 3) ? cfx_fn_call_inplace_from(c->at, fn, a)
                               : cfx_fn_call_tensor_from(c->at, fn, a);
}

static void functional_alpha_dropout(cfx_op_call *c) { drop_with(c, &cfx_fn_alpha_dropout); }
static void functional_feature_alpha_dropout(cfx_op_call *c) {
    drop_with(c, &cfx_fn_feature_alpha_dropout);
}
static void functional_dropout2d(cfx_op_call *c) { drop_with(c, &cfx_fn_feature_dropout); }

/* (C, L) without a batch counts as one sample. */
static void functional_dropout1d(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    if (x->ndim != 2 && x->ndim != 3) {
        op_fail_as(RUNTIME, c, "dropout1d: Expected 2D or 3D input, but received a %dD input. Note "
                   "that dropout1d exists to provide channel-wise dropout on inputs with 1 "
                   "spatial dimension, a channel dimension, and an optional batch dimension (i.e. "
                   "2D or 3D inputs).", x->ndim);
        return;
    }
    bool batched = x->ndim == 3;
    if (!batched)
        c->args[0] = cfx_tensor_value(cfx_unsqueeze(x, 0));
    drop_with(c, &cfx_fn_feature_dropout);
    if (!batched && !op_failed())
        c->out[0] = cfx_squeeze(c->out[0], 0);
}

/* Samples near a one-hot vector; with `hard` one-hot forwards and soft backwards. */
static void functional_gumbel_softmax(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    int64_t dim = arg_int(c, 4);
    cfx_tensor *noise = cfx_neg(cfx_log(cfx_exponential_(cfx_empty_like(x))));
    cfx_tensor *soft = cfx_softmax(cfx_div(cfx_add(x, noise), c->args[1]), dim);
    c->out[0] = soft;
    if (!arg_bool(c, 2) || op_failed())
        return;
    cfx_tensor *best = cfx_argmax(soft, dim, true);
    cfx_tensor *hard = cfx_scatter(cfx_zeros_like(x), dim, best, 1.0);
    c->out[0] = cfx_add(cfx_sub(hard, cfx_detach(soft)), soft);
}

/* ---- norms ----------------------------------------------------------------------------------- */

static void functional_layer_norm(cfx_op_call *c) {
    c->out[0] = cfx_layer_norm(c->args[0], c->args[1], c->args[2], c->args[3], c->args[4],
                               cfx_bool(false));
}

static void functional_group_norm(cfx_op_call *c) {
    c->out[0] = cfx_group_norm(c->args[0], c->args[1], c->args[2], c->args[3], c->args[4],
                               cfx_bool(false));
}

/* F: (input, mean, var, weight, bias, training, momentum, eps); aten: weight and bias come first.
 */
static void functional_batch_norm(cfx_op_call *c) {
    c->out[0] = cfx_batch_norm(c->args[0], c->args[3], c->args[4], c->args[1], c->args[2],
                               c->args[5], c->args[6], c->args[7], false);
}

static void functional_instance_norm(cfx_op_call *c) {
    c->out[0] = cfx_instance_norm(c->args[0], c->args[3], c->args[4], c->args[1], c->args[2],
                                  c->args[5], c->args[6], c->args[7], false);
}

static void functional_normalize(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    cfx_tensor *norm = cfx_linalg_vector_norm(x, c->args[1], cfx_list(c->args[2]), true);
    cfx_tensor *floor = cfx_expand_as(cfx_clamp_min(norm, c->args[3]), x);
    c->out[0] = arg_is_none(c, 4) ? cfx_div(x, floor) : cfx_div(x, floor, CFX_KW(out, c->args[4]));
}

/* Each value over what its neighbours across channels add up to. */
static void functional_local_response_norm(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    int64_t size = arg_int(c, 1);
    if (size < 1) {
        op_fail_as(VALUE, c, "local_response_norm: size must be positive, but it is %lld",
                   (long long)size);
        return;
    }
    if (x->ndim < 3) {
        op_fail_as(VALUE, c, "Expected 3D or higher dimensionality                          input "
                   "(got %d dimensions)", x->ndim);
        return;
    }
    cfx_tensor *squares = cfx_unsqueeze(cfx_mul(x, x), 1);
    if (x->ndim == 3) {
        squares = cfx_pad(squares, cfx_list(0, 0, size / 2, (size - 1) / 2));
        squares = cfx_avg_pool2d(squares, cfx_list(size, 1), cfx_list(1, 1));
    } else {
        cfx_tensor *cube = cfx_reshape(
            squares, cfx_list(x->shape[0], 1, x->shape[1], x->shape[2], -1));
        cube = cfx_pad(cube, cfx_list(0, 0, 0, 0, size / 2, (size - 1) / 2));
        squares = cfx_reshape(cfx_avg_pool3d(cube, cfx_list(size, 1, 1), cfx_list(1, 1, 1)),
                              cfx_ints_value(x->ndim, x->shape));
        squares = cfx_unsqueeze(squares, 1);
    }
    cfx_tensor *div = cfx_squeeze(squares, 1);
    div = cfx_pow(cfx_add(cfx_mul(div, c->args[2]), c->args[4]), c->args[3]);
    c->out[0] = cfx_div(x, div);
}

/* ---- embedding ------------------------------------------------------------------------------- */

static void functional_embedding(cfx_op_call *c) {
    cfx_tensor *weight = arg_tensor(c, 1);
    int64_t padding = arg_is_none(c, 2) ? -1 : arg_int(c, 2);
    if (!arg_is_none(c, 2) && weight->ndim > 0) {
        if (padding >= weight->shape[0] || padding < -weight->shape[0]) {
            op_fail_as(ASSERTION, c, "Padding_idx must be within num_embeddings");
            return;
        }
        padding = padding < 0 ? padding + weight->shape[0] : padding;
    }
    if (!arg_is_none(c, 3)) {
        cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
        cfx_embedding_renorm_(weight, c->args[0], c->args[3], c->args[4]);
        cfx_set_grad_mode(before);
    }
    c->out[0] = cfx_embedding(weight, c->args[0], padding, c->args[5], c->args[6]);
}

/* ---- pooling --------------------------------------------------------------------------------- */

static cfx_value stride_or(const cfx_op_call *c, int i) {
    return arg_is_none(c, i) ? cfx_list_value(0, NULL) : c->args[i];
}

#define MAX_POOL(id, plain, indexed)                                                               \
    static void functional_##id(cfx_op_call *c) {                                                  \
        c->result = arg_bool(c, 6)                                                                 \
                        ? indexed(c->args[0], c->args[1], stride_or(c, 2), c->args[3], c->args[4], \
                                  c->args[5])                                                      \
                        : cfx_tensor_value(plain(c->args[0], c->args[1], stride_or(c, 2),          \
                                                 c->args[3], c->args[4], c->args[5]));             \
    }
MAX_POOL(max_pool1d, cfx_max_pool1d, cfx_max_pool1d_with_indices)
MAX_POOL(max_pool2d, cfx_max_pool2d, cfx_max_pool2d_with_indices)
MAX_POOL(max_pool3d, cfx_max_pool3d, cfx_max_pool3d_with_indices)

CFX_OP(python_relu) = {"python::relu(Tensor input, bool inplace=False) -> Tensor",
    "torch.nn.functional.relu", DERIVED(relu)};
CFX_OP(python_relu6) = {"python::relu6(Tensor input, bool inplace=False) -> Tensor",
    "torch.nn.functional.relu6", FUNCTIONAL(relu6)};
CFX_OP(python_hardtanh) = {
    "python::hardtanh(Tensor input, float min_val=-1., float max_val=1., bool "
    "inplace=False) -> Tensor",
    "torch.nn.functional.hardtanh", DERIVED(hardtanh)};
CFX_OP(python_leaky_relu) = {
    "python::leaky_relu(Tensor input, float negative_slope=0.01, bool inplace=False) -> "
    "Tensor",
    "torch.nn.functional.leaky_relu", DERIVED(leaky_relu)};
CFX_OP(python_elu) = {"python::elu(Tensor input, float alpha=1., bool inplace=False) -> Tensor",
    "torch.nn.functional.elu", DERIVED(elu)};
CFX_OP(python_celu) = {"python::celu(Tensor input, float alpha=1., bool inplace=False) -> Tensor",
    "torch.nn.functional.celu", DERIVED(celu)};
CFX_OP(python_selu) = {"python::selu(Tensor input, bool inplace=False) -> Tensor",
    "torch.nn.functional.selu", DERIVED(selu)};
CFX_OP(python_silu) = {"python::silu(Tensor input, bool inplace=False) -> Tensor",
    "torch.nn.functional.silu", DERIVED(silu)};
CFX_OP(python_mish) = {"python::mish(Tensor input, bool inplace=False) -> Tensor",
    "torch.nn.functional.mish", DERIVED(mish)};
CFX_OP(python_hardswish) = {"python::hardswish(Tensor input, bool inplace=False) -> Tensor",
    "torch.nn.functional.hardswish", DERIVED(hardswish)};
CFX_OP(python_hardsigmoid) = {"python::hardsigmoid(Tensor input, bool inplace=False) -> Tensor",
    "torch.nn.functional.hardsigmoid", DERIVED(hardsigmoid)};
CFX_OP(python_threshold) = {
    "python::threshold(Tensor input, Scalar threshold, Scalar value, bool inplace=False) ->"
    " Tensor",
    "torch.nn.functional.threshold", DERIVED(threshold)};
CFX_OP(python_tanhshrink) = {"python::tanhshrink(Tensor input) -> Tensor",
    "torch.nn.functional.tanhshrink", FUNCTIONAL(tanhshrink)};
CFX_OP(python_tanh) = {"python::tanh(Tensor input) -> Tensor", "torch.nn.functional.tanh",
                       DERIVED(tanh)};
CFX_OP(python_sigmoid) = {"python::sigmoid(Tensor input) -> Tensor", "torch.nn.functional.sigmoid",
                          DERIVED(sigmoid)};
CFX_OP(python_softsign) = {"python::softsign(Tensor input) -> Tensor",
    "torch.nn.functional.softsign", FUNCTIONAL(softsign)};
CFX_OP(python_glu) = {"python::glu(Tensor input, int dim=-1) -> Tensor",
    "torch.nn.functional.glu", DERIVED(glu)};
CFX_OP(python_softmax) = {
    "python::softmax(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? "
    "dtype=None) -> Tensor",
    "torch.nn.functional.softmax", FUNCTIONAL(softmax)};
CFX_OP(python_log_softmax) = {
    "python::log_softmax(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? "
    "dtype=None) -> Tensor",
    "torch.nn.functional.log_softmax", FUNCTIONAL(log_softmax)};
CFX_OP(python_softmin) = {
    "python::softmin(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? "
    "dtype=None) -> Tensor",
    "torch.nn.functional.softmin", FUNCTIONAL(softmin)};
CFX_FAMILY(RANDOM);
CFX_OP(python_dropout) = {
    "python::dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False) "
    "-> Tensor",
    "torch.nn.functional.dropout", DRAWING(dropout)};
CFX_OP(python_alpha_dropout) = {
    "python::alpha_dropout(Tensor input, float p=0.5, bool training=False, bool inplace=False) "
    "-> Tensor",
    "torch.nn.functional.alpha_dropout", DRAWING(alpha_dropout)};
CFX_OP(python_feature_alpha_dropout) = {
    "python::feature_alpha_dropout(Tensor input, float p=0.5, bool training=False, bool "
    "inplace=False) -> Tensor",
    "torch.nn.functional.feature_alpha_dropout", DRAWING(feature_alpha_dropout)};
CFX_OP(python_dropout1d) = {
    "python::dropout1d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> "
    "Tensor",
    "torch.nn.functional.dropout1d", DRAWING(dropout1d)};
CFX_OP(python_dropout2d) = {
    "python::dropout2d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> "
    "Tensor",
    "torch.nn.functional.dropout2d", DRAWING(dropout2d)};
CFX_OP(python_dropout3d) = {
    "python::dropout3d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> "
    "Tensor",
    "torch.nn.functional.dropout3d", DRAWING(dropout2d)};
CFX_FAMILY(ACTIVATION);
CFX_OP(python_rrelu) = {
    "python::rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool "
    "training=False, bool inplace=False) -> Tensor",
    "torch.nn.functional.rrelu", DERIVED(rrelu)};
CFX_OP(python_gumbel_softmax) = {
    "python::gumbel_softmax(Tensor logits, Scalar tau=1, bool hard=False, float eps=1e-10, int "
    "dim=-1) -> Tensor",
    "torch.nn.functional.gumbel_softmax", DRAWING(gumbel_softmax)};
CFX_FAMILY(NORM);
CFX_OP(python_layer_norm) = {
    "python::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, "
    "Tensor? bias=None, float eps=1e-05) -> Tensor",
    "torch.nn.functional.layer_norm", FUNCTIONAL(layer_norm)};
CFX_OP(python_rms_norm) = {
    "python::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? "
    "eps=None) -> Tensor",
    "torch.nn.functional.rms_norm", DERIVED(rms_norm)};
CFX_OP(python_group_norm) = {
    "python::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? "
    "bias=None, float eps=1e-05) -> Tensor",
    "torch.nn.functional.group_norm", FUNCTIONAL(group_norm)};
CFX_OP(python_batch_norm) = {
    "python::batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? "
    "weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float "
    "eps=1e-05) -> Tensor",
    "torch.nn.functional.batch_norm", FUNCTIONAL(batch_norm), .updates = "training"};
CFX_OP(python_instance_norm) = {
    "python::instance_norm(Tensor input, Tensor? running_mean=None, Tensor? "
    "running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True,"
    " float momentum=0.1, float eps=1e-05) -> Tensor",
    "torch.nn.functional.instance_norm", FUNCTIONAL(instance_norm),
    .updates = "use_input_stats"};
CFX_OP(python_normalize) = {
    "python::normalize(Tensor input, float p=2., int dim=1, float eps=1e-12, Tensor? out=None) -> "
    "Tensor",
    "torch.nn.functional.normalize", FUNCTIONAL(normalize)};
CFX_OP(python_local_response_norm) = {
    "python::local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, "
    "float k=1.) -> Tensor",
    "torch.nn.functional.local_response_norm", FUNCTIONAL(local_response_norm)};
CFX_FAMILY(INDEX);
CFX_OP(python_embedding) = {
    "python::embedding(Tensor input, Tensor weight, int? padding_idx=None, float? "
    "max_norm=None, float norm_type=2., bool scale_grad_by_freq=False, bool sparse=False)"
    " -> Tensor",
    "torch.nn.functional.embedding", FUNCTIONAL(embedding)};
CFX_FAMILY(POOL);
CFX_OP(python_max_pool1d) = {
    "python::max_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] "
    "padding=0, int[1] dilation=1, bool ceil_mode=False, bool return_indices=False) -> t",
    "torch.nn.functional.max_pool1d", FUNCTIONAL(max_pool1d)};
CFX_OP(python_max_pool2d) = {
    "python::max_pool2d(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] "
    "padding=0, int[2] dilation=1, bool ceil_mode=False, bool return_indices=False) -> t",
    "torch.nn.functional.max_pool2d", FUNCTIONAL(max_pool2d)};
CFX_OP(python_max_pool3d) = {
    "python::max_pool3d(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] "
    "padding=0, int[3] dilation=1, bool ceil_mode=False, bool return_indices=False) -> t",
    "torch.nn.functional.max_pool3d", FUNCTIONAL(max_pool3d)};
CFX_OP(python_adaptive_avg_pool2d) = {
    "python::adaptive_avg_pool2d(Tensor input, int[2] output_size) -> Tensor",
    "torch.nn.functional.adaptive_avg_pool2d", DERIVED(adaptive_avg_pool2d)};
CFX_OP(python_adaptive_avg_pool3d) = {
    "python::adaptive_avg_pool3d(Tensor input, int[3] output_size) -> Tensor",
    "torch.nn.functional.adaptive_avg_pool3d", DERIVED(adaptive_avg_pool3d)};
