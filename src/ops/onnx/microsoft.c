/* Fused operators of com.microsoft, which ONNX Runtime's optimizer writes: activations, products,
 * convolutions, norms and embeddings. */
#include "microsoft.h"

CFX_FAMILY(ACTIVATION);

/* ---- activations ----------------------------------------------------------------------------- */

ONNX_OP(Gelu) { OUT(0) = cfx_gelu(T(0)); }
ONNX_OP(BiasGelu) { OUT(0) = cfx_gelu(cfx_add(T(0), T(1))); }
ONNX_OP(FastGelu) {
    OUT(0) = cfx_gelu(T(1) ? cfx_add(T(0), T(1)) : T(0), CFX_KW(approximate, "tanh"));
}
ONNX_OP(QuickGelu) { OUT(0) = cfx_mul(T(0), cfx_sigmoid(cfx_mul(T(0), arg_float(c, 1)))); }

/* The second half of the last dimension gates the first. */
ONNX_OP(BiasSplitGelu) {
    cfx_value halves = cfx_chunk(cfx_add(T(0), T(1)), 2, -1);
    if (!cfx_is_bad(halves) && cfx_as_list(halves)->len == 2)
        OUT(0) = cfx_mul(cfx_tensor_at(halves, 0), cfx_gelu(cfx_tensor_at(halves, 1)));
}

/* data, bias, axis, is_inner_broadcast: the dimensions from the axis on are one. The bias is
 * repeated within each batch, or each batch has the same. */
ONNX_OP(BiasSoftmax) {
    cfx_tensor *x = T(0), *bias = T(1);
    int axis = onnx_axis(c, arg_int(c, 2), x->ndim);
    if (axis < 0)
        return;
    if (bias->ndim != x->ndim && arg_bool(c, 3)) {
        op_fail_as(NOT_IMPLEMENTED, c, "BiasSoftmax: a bias of other dimensions than the data "
                   "that is repeated inside is not known here");
        return;
    }
    OUT(0) = cfx_reshape(cfx_softmax(cfx_flatten(cfx_add(x, bias), axis, -1), -1),
                         cfx_ints_value(x->ndim, x->shape));
}

CFX_OP(onnx_microsoft_BiasSplitGelu) = {
    "onnx_microsoft::BiasSplitGelu(Tensor X, Tensor bias) -> Tensor",
    ONNX(BiasSplitGelu, 1)};
CFX_OP(onnx_microsoft_BiasSoftmax) = {
    "onnx_microsoft::BiasSoftmax(Tensor data, Tensor bias, *, int axis=1, int is_inner_broadcast) "
    "-> Tensor",
    ONNX(BiasSoftmax, 1)};
CFX_OP(onnx_microsoft_Gelu) = {"onnx_microsoft::Gelu(Tensor X) -> Tensor", ONNX(Gelu, 1)};
CFX_OP(onnx_microsoft_BiasGelu) = {
    "onnx_microsoft::BiasGelu(Tensor A, Tensor B) -> Tensor",
    ONNX(BiasGelu, 1)};
CFX_OP(onnx_microsoft_FastGelu) = {
    "onnx_microsoft::FastGelu(Tensor X, Tensor? bias=None) -> Tensor",
    ONNX(FastGelu, 1)};
CFX_OP(onnx_microsoft_QuickGelu) = {
    "onnx_microsoft::QuickGelu(Tensor X, *, float alpha=1.702) -> Tensor",
    ONNX(QuickGelu, 1)};

/* What a fused activation is called, and its numbers, as far as they are given. */
static cfx_tensor *activated(cfx_op_call *c, cfx_tensor *x, const char *name, int n,
                             const double *with) {
    if (!*name)
        return x;
    if (!strcmp(name, "Relu"))
        return cfx_relu(x);
    if (!strcmp(name, "Tanh"))
        return cfx_tanh(x);
    if (!strcmp(name, "Sigmoid"))
        return cfx_sigmoid(x);
    if (!strcmp(name, "LeakyRelu"))
        return cfx_leaky_relu(x, n > 0 ? with[0] : 0.01);
    if (!strcmp(name, "Clip") && n > 1)
        return cfx_clamp(x, with[0], with[1]);
    if (!strcmp(name, "HardSigmoid"))
        return cfx_clamp(cfx_add(cfx_mul(x, n > 0 ? with[0] : 0.2), n > 1 ? with[1] : 0.5), 0, 1);
    op_fail_as(NOT_IMPLEMENTED, c, "%s: the activation '%s' is not known here", op_title(c), name);
    return &cfx__tensor_bad;
}

/* ---- products and convolutions --------------------------------------------------------------- */

CFX_FAMILY(LINEAR);

/* Matrices that are turned; where `batch`, the first dimension is the row. */
static cfx_tensor *turned(cfx_tensor *x, bool batch, bool turn) {
    if (batch && x->ndim > 2)
        x = cfx_movedim(x, 0, -2);
    return turn && x->ndim > 1 ? cfx_transpose(x, -2, -1) : x;
}

ONNX_OP(FusedMatMul) { /* A, B, alpha, transA, transB, transBatchA, transBatchB */
    cfx_tensor *a = turned(T(0), arg_bool(c, 5), arg_bool(c, 3));
    cfx_tensor *b = turned(T(1), arg_bool(c, 6), arg_bool(c, 4)), *y = cfx_matmul(a, b);
    OUT(0) = arg_float(c, 2) == 1 ? y : cfx_mul(y, arg_float(c, 2));
}

/* A, B, C, activation, activation_alpha, activation_beta, activation_gamma, alpha, beta, transA,
 * transB */
ONNX_OP(FusedGemm) {
    double with[2] = {0};
    int n = 0;
    while (n < 2 && !arg_is_none(c, 4 + n))
        with[n] = arg_float(c, 4 + n), n++;
    cfx_tensor *y = onnx_tensor_of(
        cfx_op_do_from(c->at, &cfx_op_onnx_Gemm,
                       CFX_ARGS(T(0), T(1), T(2), CFX_KW(alpha, c->args[7]),
                                CFX_KW(beta, c->args[8]), CFX_KW(transA, c->args[9]),
                                CFX_KW(transB, c->args[10]))));
    if (cfx_ok())
        OUT(0) = activated(c, y, arg_is_none(c, 3) ? "" : arg_text(c, 3), n, with);
}

CFX_OP(onnx_microsoft_FusedMatMul) = {
    "onnx_microsoft::FusedMatMul(Tensor A, Tensor B, *, float alpha=1., int transA=0, int "
    "transB=0, int transBatchA=0, int transBatchB=0) -> Tensor",
    ONNX(FusedMatMul, 1)};
CFX_OP(onnx_microsoft_FusedGemm) = {
    "onnx_microsoft::FusedGemm(Tensor A, Tensor B, Tensor? C=None, *, str? activation=None, float? "
    "activation_alpha=None, float? activation_beta=None, float? activation_gamma=None, float "
    "alpha=1., float beta=1., int transA=0, int transB=0) -> Tensor",
    ONNX(FusedGemm, 1)};

CFX_FAMILY(CONV);

/* X, W, B, Z, activation, activation_params, auto_pad, dilations, group, kernel_shape, pads,
 * strides: Z is added before the activation. */
ONNX_OP(FusedConv) {
    double with[2] = {0};
    int n = 0;
    cfx_value params = c->args[5];
    for (; n < 2 && params.tag == CFX_TAG_LIST && n < cfx_as_list(params)->len; n++)
        with[n] = cfx_number(cfx_at(params, n));
    cfx_tensor *y = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_Conv,
        CFX_ARGS(T(0), T(1), T(2), CFX_KW(auto_pad, c->args[6]), CFX_KW(dilations, c->args[7]),
                 CFX_KW(group, c->args[8]), CFX_KW(kernel_shape, c->args[9]),
                 CFX_KW(pads, c->args[10]), CFX_KW(strides, c->args[11]))));
    if (!cfx_ok())
        return;
    y = T(3) ? cfx_add(y, T(3)) : y;
    OUT(0) = activated(c, y, arg_is_none(c, 4) ? "" : arg_text(c, 4), n, with);
}

CFX_OP(onnx_microsoft_FusedConv) = {
    "onnx_microsoft::FusedConv(Tensor X, Tensor W, Tensor? B=None, Tensor? Z=None, *, str? "
    "activation=None, float[]? activation_params=None, str auto_pad=\"NOTSET\", int[]? "
    "dilations=None, int group=1, int[]? kernel_shape=None, int[]? pads=None, int[]? "
    "strides=None) -> Tensor",
    ONNX(FusedConv, 1)};

/* ---- norms ----------------------------------------------------------------------------------- */

CFX_FAMILY(NORM);

/* ONNX's layer norm with its statistics, over the last dimension. */
static bool layer_norm(cfx_op_call *c, cfx_tensor *x, cfx_tensor *gamma, cfx_tensor *beta,
                       double eps, cfx_tensor **out) {
    cfx_value v = cfx_op_do_from(c->at, &cfx_op_onnx_LayerNormalization_statistics,
                                 CFX_ARGS(x, gamma, beta, CFX_KW(epsilon, eps)));
    for (int i = 0; i < 3 && !cfx_is_bad(v); i++)
        out[i] = cfx_tensor_at(v, i);
    return cfx_ok();
}

static cfx_tensor *summed(cfx_tensor *x, cfx_tensor *skip, cfx_tensor *bias) {
    x = cfx_add(x, skip);
    return bias ? cfx_add(x, bias) : x;
}

static cfx_tensor *normed(cfx_tensor *x, cfx_tensor *gamma, cfx_tensor *beta, double eps) {
    cfx_value size = cfx_list(onnx_size(x, x->ndim - 1));
    return cfx_layer_norm(x, size, gamma, beta, eps);
}

static cfx_tensor *rms_normed(cfx_tensor *x, cfx_tensor *gamma, double eps) {
    cfx_value size = cfx_list(onnx_size(x, x->ndim - 1));
    return cfx_rms_norm(x, size, gamma, eps);
}

ONNX_OP(SkipLayerNormalization) { /* input, skip, gamma, beta, bias, epsilon */
    OUT(0) = normed(summed(T(0), T(1), T(4)), T(2), T(3), arg_float(c, 5));
}

ONNX_OP(SkipLayerNormalization_all) {
    cfx_tensor *x = summed(T(0), T(1), T(4));
    if (layer_norm(c, x, T(2), T(3), arg_float(c, 5), c->out))
        OUT(3) = x;
}

/* input, skip, gamma, bias, epsilon */
ONNX_OP(SkipSimplifiedLayerNormalization) {
    OUT(0) = rms_normed(summed(T(0), T(1), T(3)), T(2), arg_float(c, 4));
}

/* The mean is 0 for this norm. */
ONNX_OP(SkipSimplifiedLayerNormalization_all) {
    cfx_tensor *x = summed(T(0), T(1), T(3)), *wide = onnx_to(x, CFX_F32);
    double eps = arg_float(c, 4);
    cfx_tensor *square = cfx_mean(cfx_mul(wide, wide), cfx_list(-1), true);
    OUT(0) = rms_normed(x, T(2), eps);
    OUT(1) = cfx_zeros_like(square);
    OUT(2) = cfx_rsqrt(cfx_add(square, eps));
    OUT(3) = x;
}

CFX_OP(onnx_microsoft_SkipLayerNormalization) = {
    "onnx_microsoft::SkipLayerNormalization(Tensor input, Tensor skip, Tensor gamma, Tensor? "
    "beta=None, Tensor? bias=None, *, float epsilon=1e-12) -> Tensor",
    ONNX(SkipLayerNormalization, 1)};
CFX_OP(onnx_microsoft_SkipLayerNormalization_all) = {
    "onnx_microsoft::SkipLayerNormalization.all(Tensor input, Tensor skip, Tensor gamma, Tensor? "
    "beta=None, Tensor? bias=None, *, float epsilon=1e-12) -> (Tensor output, Tensor mean, Tensor "
    "inv_std_var, Tensor input_skip_bias_sum)",
    ONNX(SkipLayerNormalization_all, 1)};
CFX_OP(onnx_microsoft_SkipSimplifiedLayerNormalization) = {
    "onnx_microsoft::SkipSimplifiedLayerNormalization(Tensor input, Tensor skip, Tensor gamma, "
    "Tensor? bias=None, *, float epsilon=1e-12) -> Tensor",
    ONNX(SkipSimplifiedLayerNormalization, 1)};
CFX_OP(onnx_microsoft_SkipSimplifiedLayerNormalization_all) = {
    "onnx_microsoft::SkipSimplifiedLayerNormalization.all(Tensor input, Tensor skip, Tensor gamma, "
    "Tensor? bias=None, *, float epsilon=1e-12) -> (Tensor output, Tensor mean, Tensor "
    "inv_std_var, Tensor input_skip_bias_sum)",
    ONNX(SkipSimplifiedLayerNormalization_all, 1)};

/* ONNX Runtime's own name for RMSNormalization, in ONNX's operator set. */
ONNX_OP(SimplifiedLayerNormalization) { /* X, scale, axis, epsilon, stash_type */
    OUT(0) = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_RMSNormalization,
        CFX_ARGS(T(0), T(1), CFX_KW(axis, c->args[2]), CFX_KW(epsilon, c->args[3]))));
}

CFX_OP(onnx_SimplifiedLayerNormalization) = {
    "onnx::SimplifiedLayerNormalization(Tensor X, Tensor scale, *, int axis=-1, float "
    "epsilon=1e-05, int stash_type=1) -> Tensor",
    ONNX(SimplifiedLayerNormalization, 1)};

/* ---- before ONNX had them -------------------------------------------------------------------- */

CFX_FAMILY(MATH);

ONNX_OP(Inverse) { OUT(0) = cfx_inverse(T(0)); }

/* X, Grid, align_corners, mode, padding_mode */
ONNX_OP(GridSample) {
    OUT(0) = onnx_tensor_of(cfx_op_do_from(
        c->at, &cfx_op_onnx_GridSample,
        CFX_ARGS(T(0), T(1), CFX_KW(align_corners, c->args[2]), CFX_KW(mode, c->args[3]),
                 CFX_KW(padding_mode, c->args[4]))));
}

ONNX_OP(Trilu) { /* X, k, upper */
    OUT(0) = onnx_tensor_of(cfx_op_do_from(c->at, &cfx_op_onnx_Trilu,
                                           CFX_ARGS(T(0), T(1), CFX_KW(upper, c->args[2]))));
}

CFX_OP(onnx_microsoft_Inverse) = {"onnx_microsoft::Inverse(Tensor X) -> Tensor", ONNX(Inverse, 1)};
CFX_OP(onnx_microsoft_GridSample) = {
    "onnx_microsoft::GridSample(Tensor X, Tensor Grid, *, int align_corners=0, str "
    "mode=\"bilinear\", str padding_mode=\"zeros\") -> Tensor",
    ONNX(GridSample, 1)};
CFX_OP(onnx_microsoft_Trilu) = {
    "onnx_microsoft::Trilu(Tensor X, Tensor? k=None, *, int upper=1) -> Tensor",
    ONNX(Trilu, 1)};

/* ---- embeddings ------------------------------------------------------------------------------ */

/* input_ids, segment_ids, word_embedding, position_embedding, segment_embedding, gamma, beta, mask,
 * position_ids, epsilon, mask_index_type; the results are the norm, how many of each row the mask
 * leaves, and the sum that was normed. */
ONNX_OP(EmbedLayerNormalization) {
    cfx_tensor *ids = T(0), *places = T(8);
    cfx_tensor *x = cfx_embedding(T(2), ids);
    if (!places)
        places = cfx_arange(onnx_size(ids, 1), CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    x = cfx_add(x, cfx_embedding(T(3), places));
    if (T(1) && T(4))
        x = cfx_add(x, cfx_embedding(T(4), T(1)));
    OUT(0) = normed(x, T(5), T(6), arg_float(c, 9));
    cfx_value i32 = cfx_dtype_value(CFX_I32);
    OUT(1) = T(7) && arg_int(c, 10) == 0
                 ? onnx_to(cfx_sum(T(7), cfx_list(1)), CFX_I32)
                 : cfx_zeros(cfx_list(onnx_size(ids, 0)), CFX_KW(dtype, i32));
    OUT(2) = x;
}

CFX_OP(onnx_microsoft_EmbedLayerNormalization) = {
    "onnx_microsoft::EmbedLayerNormalization(Tensor input_ids, Tensor? segment_ids, Tensor "
    "word_embedding, Tensor position_embedding, Tensor? segment_embedding, Tensor gamma, Tensor "
    "beta, Tensor? mask=None, Tensor? position_ids=None, *, float epsilon=1e-12, int "
    "mask_index_type=0) -> (Tensor output, Tensor mask_index, Tensor embedding_sum)",
    ONNX(EmbedLayerNormalization, 1)};
