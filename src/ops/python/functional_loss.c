/* torch.nn.functional: losses. The Python functions take a reduction by name, and two old arguments
 * that stood for it once; the operators below them a number. */
#include <cfx/ops.h>

#include "functional.h"

CFX_FAMILY(REDUCE);

/* Losses of single elements, weighted; the mean is over the weights where `by_weight`. */
static cfx_tensor *weighted(cfx_tensor *each, cfx_tensor *weight, int64_t r, bool by_weight) {
    each = cfx_mul(each, weight);
    if (r == REDUCE_NONE)
        return each;
    if (r == REDUCE_SUM)
        return cfx_sum(each);
    return by_weight ? cfx_div(cfx_sum(each), cfx_sum(weight)) : cfx_mean(each);
}

/* Input and target, the first two arguments, in their common shape. */
static cfx_value of_one_shape(cfx_op_call *c) {
    return cfx_broadcast_tensors(cfx_list(c->args[0], c->args[1]));
}

/* mse_loss and l1_loss: input, target, size_average, reduce, reduction, weight. */
static void distance_loss(cfx_op_call *c, bool squared) {
    int64_t r = functional_reduction(c, 2, 3, 4);
    cfx_tensor *weight = arg_tensor(c, 5);
    if (r < 0)
        return;
    int64_t how = weight ? REDUCE_NONE : r;
    cfx_value x = of_one_shape(c);
    c->out[0] = squared ? cfx_mse_loss(cfx_at(x, 0), cfx_at(x, 1), how)
                        : cfx_l1_loss(cfx_at(x, 0), cfx_at(x, 1), how);
    if (weight)
        c->out[0] = weighted(c->out[0], weight, r, true);
}
static void functional_mse_loss(cfx_op_call *c) { distance_loss(c, true); }
static void functional_l1_loss(cfx_op_call *c) { distance_loss(c, false); }

static void functional_huber_loss(cfx_op_call *c) {
    int64_t r = functional_reduction(c, 0, 0, 2);
    cfx_tensor *weight = arg_tensor(c, 4);
    if (r < 0)
        return;
    cfx_value x = of_one_shape(c);
    c->out[0] = cfx_huber_loss(cfx_at(x, 0), cfx_at(x, 1), weight ? REDUCE_NONE : r, c->args[3]);
    if (weight)
        c->out[0] = weighted(c->out[0], weight, r, false);
}

static void functional_smooth_l1_loss(cfx_op_call *c) {
    int64_t r = functional_reduction(c, 2, 3, 4);
    if (r < 0)
        return;
    cfx_value x = of_one_shape(c);
    c->out[0] = arg_float(c, 5) == 0
                    ? cfx_l1_loss(cfx_at(x, 0), cfx_at(x, 1), r)
                    : cfx_smooth_l1_loss(cfx_at(x, 0), cfx_at(x, 1), r, c->args[5]);
}

/* "batchmean" is a mean over the first dimension alone. */
static void functional_kl_div(cfx_op_call *c) {
    const char *text = arg_text(c, 4);
    bool batch = text && !strcmp(text, "batchmean") && arg_is_none(c, 2) && arg_is_none(c, 3);
    int64_t r = batch ? REDUCE_SUM : functional_reduction(c, 2, 3, 4);
    if (r < 0)
        return;
    c->out[0] = cfx_kl_div(c->args[0], c->args[1], r, CFX_KW(log_target, c->args[5]));
    const cfx_tensor *x = arg_tensor(c, 0);
    if (batch && x->ndim > 0 && !op_failed())
        c->out[0] = cfx_div(c->out[0], x->shape[0]);
}

static cfx_tensor *reduced(cfx_tensor *each, int64_t r) {
    return r == REDUCE_NONE ? each : r == REDUCE_SUM ? cfx_sum(each) : cfx_mean(each);
}

static void functional_multilabel_soft_margin_loss(cfx_op_call *c) {
    int64_t r = functional_reduction(c, 3, 4, 5);
    if (r < 0)
        return;
    cfx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1), *weight = arg_tensor(c, 2);
    if (!x->ndim) {
        op_fail_as(INDEX, c, "Dimension specified as -1 but tensor has no dimensions");
        return;
    }
    cfx_tensor *each =
        cfx_neg(cfx_add(cfx_mul(y, cfx_log_sigmoid(x)),
                        cfx_mul(cfx_rsub(y, 1), cfx_log_sigmoid(cfx_neg(x)))));
    if (weight)
        each = cfx_mul(each, weight);
    c->out[0] = reduced(cfx_div(cfx_sum(each, cfx_list(-1)), x->shape[x->ndim - 1]), r);
}

/* log(var) / 2 + (input - target)^2 / (2 var), var kept from zero without a gradient. */
static void functional_gaussian_nll_loss(cfx_op_call *c) {
    int64_t r = functional_reduction(c, 0, 0, 5);
    if (r < 0)
        return;
    cfx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1);
    cfx_tensor *var = c->args[2].tag == CFX_TAG_TENSOR ? arg_tensor(c, 2)
                                                       : cfx_full_like(x, c->args[2]);
    if (var->ndim == x->ndim - 1)
        var = cfx_unsqueeze(var, -1);
    var = cfx_add(var, cfx_detach(cfx_sub(cfx_clamp_min(var, c->args[4]), var)));
    cfx_tensor *gap = cfx_sub(x, y);
    cfx_tensor *each = cfx_mul(cfx_add(cfx_log(var), cfx_div(cfx_mul(gap, gap), var)), 0.5);
    if (arg_bool(c, 3))
        each = cfx_add(each, 0.91893853320467274);
    c->out[0] = reduced(each, r);
}

/* ---- similarity and distance ----------------------------------------------------------------- */

/* t + number as a call from C++ has it, by the overload for numbers. */
static cfx_tensor *plus(cfx_tensor *t, cfx_value number) {
    cfx_value v = cfx_op_do(&cfx_op_add_Scalar, t, number);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}

/* The sequence of calls is PyTorch's, which divides by the second norm first. */
static void decompose_cosine_similarity(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    cfx_value dim = cfx_list(c->args[2]);
    cfx_dtype d = arg_result_type(c, 2);
    if (!cfx__dtype_is_float(d)) {
        op_fail(c, "expected common dtype to be floating point, yet common dtype is %s",
                cfx__dtype_title(d));
        return;
    }
    a = cfx__dtype_is_float(a->dtype) ? a : cfx_to(a, cfx_dtype_value(d));
    b = cfx__dtype_is_float(b->dtype) ? b : cfx_to(b, cfx_dtype_value(d));
    int64_t shape[CFX_MAX_DIMS];
    int n = a->ndim;
    memcpy(shape, a->shape, (size_t)n * sizeof *shape);
    if (!cfx__shape_broadcast(c->at, &n, shape, b->ndim, b->shape))
        return;
    if (!cfx__tensor_same_shape(a, b)) {
        b = cfx_expand(b, cfx_ints_value(n, shape));
        a = cfx_expand(a, cfx_ints_value(n, shape));
    }
    cfx_tensor *na = cfx_clone(cfx_linalg_vector_norm(a, 2, dim, true));
    cfx_tensor *nb = cfx_clone(cfx_linalg_vector_norm(b, 2, dim, true));
    if (op_failed())
        return;
    cfx_tensor *least =
        cfx_scalar_tensor(c->args[3], CFX_KW(dtype, cfx_dtype_value((cfx_dtype)na->dtype)),
                          CFX_KW(device, cfx_device_value(na->device)));
    na = cfx_clamp_min(na, least);
    nb = cfx_clamp_min(nb, least);
    b = cfx_div(b, nb);
    c->out[0] = cfx_sum(cfx_mul(cfx_div(a, na), b), dim);
}

static void decompose_pairwise_distance(cfx_op_call *c) {
    cfx_tensor *gap = plus(cfx_sub(c->args[0], c->args[1]), c->args[3]);
    if (!op_failed())
        c->out[0] = cfx_linalg_vector_norm(gap, c->args[2], cfx_list(gap->ndim - 1), c->args[4]);
}

static void decompose_triplet_margin_loss(cfx_op_call *c) {
    cfx_value a = c->args[0], p = c->args[4], eps = c->args[5];
    cfx_tensor *near = cfx_pairwise_distance(a, c->args[1], p, eps);
    cfx_tensor *far = cfx_pairwise_distance(a, c->args[2], p, eps);
    if (arg_bool(c, 6))
        far = cfx_minimum(far, cfx_pairwise_distance(c->args[1], c->args[2], p, eps));
    cfx_tensor *each = cfx_clamp_min(cfx_sub(plus(near, c->args[3]), far), 0);
    c->out[0] = reduced(each, arg_int(c, 7));
}

#define COMPOSED(id) .decompose = decompose_##id, .effects = CFX_COMPOSITE

CFX_OP(cosine_similarity) = {
    "aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    "torch.cosine_similarity torch.nn.functional.cosine_similarity", COMPOSED(cosine_similarity),
    .autocast = CFX_CAST_F32_ON_GPU};
CFX_OP(pairwise_distance) = {
    "aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
    "bool keepdim=False) -> Tensor",
    "torch.pairwise_distance torch.nn.functional.pairwise_distance", COMPOSED(pairwise_distance)};
CFX_OP(triplet_margin_loss) = {
    "aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., "
    "float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
    "torch.triplet_margin_loss", COMPOSED(triplet_margin_loss), .autocast = CFX_CAST_F32};

/* ---- rows ------------------------------------------------------------------------------------ */

static void functional_ctc_loss(cfx_op_call *c) {
    int64_t r = functional_reduction(c, 0, 0, 5);
    if (r >= 0)
        c->out[0] = cfx_ctc_loss(c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], r,
                                 c->args[6]);
}

CFX_OP(python_mse_loss) = {
    "python::mse_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean', Tensor? weight=None) -> Tensor",
    "torch.nn.functional.mse_loss", FUNCTIONAL(mse_loss)};
CFX_OP(python_l1_loss) = {
    "python::l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean', Tensor? weight=None) -> Tensor",
    "torch.nn.functional.l1_loss", FUNCTIONAL(l1_loss)};
CFX_OP(python_huber_loss) = {
    "python::huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1., "
    "Tensor? weight=None) -> Tensor",
    "torch.nn.functional.huber_loss", FUNCTIONAL(huber_loss)};
CFX_OP(python_smooth_l1_loss) = {
    "python::smooth_l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean', float beta=1.) -> Tensor",
    "torch.nn.functional.smooth_l1_loss", FUNCTIONAL(smooth_l1_loss)};
CFX_OP(python_kl_div) = {
    "python::kl_div(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean', bool log_target=False) -> Tensor",
    "torch.nn.functional.kl_div", FUNCTIONAL(kl_div)};
CFX_OP(python_binary_cross_entropy) = {
    "python::binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.binary_cross_entropy", DERIVED(binary_cross_entropy)};
CFX_OP(python_poisson_nll_loss) = {
    "python::poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool "
    "full=False, bool? size_average=None, float eps=1e-08, bool? reduce=None, str "
    "reduction='mean') -> Tensor",
    "torch.nn.functional.poisson_nll_loss", DERIVED(poisson_nll_loss)};
CFX_OP(python_hinge_embedding_loss) = {
    "python::hinge_embedding_loss(Tensor input, Tensor target, float margin=1., bool? "
    "size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.hinge_embedding_loss", DERIVED(hinge_embedding_loss)};
CFX_OP(python_margin_ranking_loss) = {
    "python::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, Scalar margin=0, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.margin_ranking_loss", DERIVED(margin_ranking_loss)};
CFX_OP(python_cosine_embedding_loss) = {
    "python::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, Scalar "
    "margin=0, bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.cosine_embedding_loss", DERIVED(cosine_embedding_loss)};
CFX_OP(python_soft_margin_loss) = {
    "python::soft_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.soft_margin_loss", DERIVED(soft_margin_loss)};
CFX_OP(python_multilabel_margin_loss) = {
    "python::multilabel_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.multilabel_margin_loss", DERIVED(multilabel_margin_loss)};
CFX_OP(python_multi_margin_loss) = {
    "python::multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1., Tensor? "
    "weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.multi_margin_loss", DERIVED(multi_margin_loss)};
CFX_OP(python_multilabel_soft_margin_loss) = {
    "python::multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.multilabel_soft_margin_loss", FUNCTIONAL(multilabel_soft_margin_loss)};
CFX_OP(python_triplet_margin_loss) = {
    "python::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float "
    "margin=1., Scalar p=2, float eps=1e-06, bool swap=False, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.triplet_margin_loss", DERIVED(triplet_margin_loss)};
CFX_OP(python_gaussian_nll_loss) = {
    "python::gaussian_nll_loss(Tensor input, Tensor target, t var, bool full=False, float "
    "eps=1e-06, str reduction='mean') -> Tensor",
    "torch.nn.functional.gaussian_nll_loss", FUNCTIONAL(gaussian_nll_loss)};
CFX_OP(python_cross_entropy) = {
    "python::cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean', float "
    "label_smoothing=0.) -> Tensor",
    "torch.nn.functional.cross_entropy", DERIVED(cross_entropy_loss)};
CFX_OP(python_nll_loss) = {
    "python::nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean') -> "
    "Tensor",
    "torch.nn.functional.nll_loss", DERIVED(nll_loss_nd)};
CFX_OP(python_binary_cross_entropy_with_logits) = {
    "python::binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean', Tensor? "
    "pos_weight=None) -> Tensor",
    "torch.nn.functional.binary_cross_entropy_with_logits",
    DERIVED(binary_cross_entropy_with_logits)};
CFX_OP(python_ctc_loss) = {
    "python::ctc_loss(Tensor log_probs, Tensor targets, t input_lengths, t target_lengths, int "
    "blank=0, str reduction='mean', bool zero_infinity=False) -> Tensor",
    "torch.nn.functional.ctc_loss", FUNCTIONAL(ctc_loss)};
