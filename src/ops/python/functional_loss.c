/* torch.nn.functional: losses. The Python functions take a reduction by name, and two old arguments
 * that stood for it once; the operators below them a number. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(REDUCE);

enum { NONE, MEAN, SUM };

/* "mean" of a loss as the number that operators take; -1, with an error, when there is none. The
 * old size_average and reduce (0: the function has none) win where they are given. */
static int64_t reduction(cfx_op_call *c, int size_average, int reduce, int i) {
    if (reduce && (!arg_is_none(c, size_average) || !arg_is_none(c, reduce))) {
        bool average = arg_is_none(c, size_average) || arg_bool(c, size_average);
        bool some = arg_is_none(c, reduce) || arg_bool(c, reduce);
        return !some ? NONE : average ? MEAN : SUM;
    }
    const char *text = arg_text(c, i);
    if (text && !strcmp(text, "none"))
        return NONE;
    if (text && !strcmp(text, "mean"))
        return MEAN;
    if (text && !strcmp(text, "sum"))
        return SUM;
    op_fail_as(VALUE, c, "%s is not a valid value for reduction", text ? text : "None");
    return -1;
}

/* Losses of single elements, weighted; the mean is over the weights where `by_weight`. */
static cfx_tensor *weighted(cfx_tensor *each, cfx_tensor *weight, int64_t r, bool by_weight) {
    each = cfx_mul(each, weight);
    if (r == NONE)
        return each;
    if (r == SUM)
        return cfx_sum(each);
    return by_weight ? cfx_div(cfx_sum(each), cfx_sum(weight)) : cfx_mean(each);
}

/* mse_loss and l1_loss: input, target, size_average, reduce, reduction, weight. */
static void distance_loss(cfx_op_call *c, bool squared) {
    int64_t r = reduction(c, 2, 3, 4);
    cfx_tensor *weight = arg_tensor(c, 5);
    if (r < 0)
        return;
    int64_t how = weight ? NONE : r;
    c->out[0] = squared ? cfx_mse_loss(c->args[0], c->args[1], how)
                        : cfx_l1_loss(c->args[0], c->args[1], how);
    if (weight)
        c->out[0] = weighted(c->out[0], weight, r, true);
}
static void functional_mse_loss(cfx_op_call *c) { distance_loss(c, true); }
static void functional_l1_loss(cfx_op_call *c) { distance_loss(c, false); }

static void functional_huber_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 0, 0, 2);
    cfx_tensor *weight = arg_tensor(c, 4);
    if (r >= 0)
        c->out[0] = cfx_huber_loss(c->args[0], c->args[1], weight ? NONE : r, c->args[3]);
    if (r >= 0 && weight)
        c->out[0] = weighted(c->out[0], weight, r, false);
}

static void functional_smooth_l1_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 2, 3, 4);
    if (r < 0)
        return;
    c->out[0] = arg_float(c, 5) == 0
                    ? cfx_l1_loss(c->args[0], c->args[1], r)
                    : cfx_smooth_l1_loss(c->args[0], c->args[1], r, c->args[5]);
}

/* "batchmean" is a mean over the first dimension alone. */
static void functional_kl_div(cfx_op_call *c) {
    const char *text = arg_text(c, 4);
    bool batch = text && !strcmp(text, "batchmean") && arg_is_none(c, 2) && arg_is_none(c, 3);
    int64_t r = batch ? SUM : reduction(c, 2, 3, 4);
    if (r < 0)
        return;
    c->out[0] = cfx_kl_div(c->args[0], c->args[1], r, CFX_KW(log_target, c->args[5]));
    const cfx_tensor *x = arg_tensor(c, 0);
    if (batch && x->ndim > 0 && !op_failed())
        c->out[0] = cfx_div(c->out[0], x->shape[0]);
}

static void functional_binary_cross_entropy(cfx_op_call *c) {
    int64_t r = reduction(c, 3, 4, 5);
    if (r >= 0)
        c->out[0] = cfx_binary_cross_entropy(c->args[0], c->args[1], c->args[2], r);
}

static void functional_poisson_nll_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 4, 6, 7);
    if (r >= 0)
        c->out[0] = cfx_poisson_nll_loss(c->args[0], c->args[1], c->args[2], c->args[3],
                                         c->args[5], r);
}

static void functional_hinge_embedding_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 3, 4, 5);
    if (r >= 0)
        c->out[0] = cfx_hinge_embedding_loss(c->args[0], c->args[1], c->args[2], r);
}

static void functional_margin_ranking_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 4, 5, 6);
    if (r >= 0)
        c->out[0] = cfx_margin_ranking_loss(c->args[0], c->args[1], c->args[2], c->args[3], r);
}

static void functional_cosine_embedding_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 4, 5, 6);
    if (r >= 0)
        c->out[0] = cfx_cosine_embedding_loss(c->args[0], c->args[1], c->args[2], c->args[3], r);
}

static void functional_soft_margin_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 2, 3, 4);
    if (r >= 0)
        c->out[0] = cfx_soft_margin_loss(c->args[0], c->args[1], r);
}

static void functional_multilabel_margin_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 2, 3, 4);
    if (r >= 0)
        c->out[0] = cfx_multilabel_margin_loss(c->args[0], c->args[1], r);
}

static void functional_multi_margin_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 5, 6, 7);
    if (r >= 0)
        c->out[0] = cfx_multi_margin_loss(c->args[0], c->args[1], c->args[2], c->args[3],
                                          c->args[4], r);
}

static cfx_tensor *reduced(cfx_tensor *each, int64_t r) {
    return r == NONE ? each : r == SUM ? cfx_sum(each) : cfx_mean(each);
}

static void functional_multilabel_soft_margin_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 3, 4, 5);
    if (r < 0)
        return;
    cfx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1), *weight = arg_tensor(c, 2);
    cfx_tensor *each =
        cfx_neg(cfx_add(cfx_mul(y, cfx_log_sigmoid(x)),
                        cfx_mul(cfx_rsub(y, 1), cfx_log_sigmoid(cfx_neg(x)))));
    if (weight)
        each = cfx_mul(each, weight);
    c->out[0] = reduced(cfx_div(cfx_sum(each, cfx_list(-1)), x->shape[x->ndim - 1]), r);
}

static void functional_triplet_margin_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 7, 8, 9);
    if (r >= 0)
        c->out[0] = cfx_triplet_margin_loss(c->args[0], c->args[1], c->args[2], c->args[3],
                                            c->args[4], c->args[5], c->args[6], r);
}

/* log(var) / 2 + (input - target)^2 / (2 var), var kept from zero without a gradient. */
static void functional_gaussian_nll_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 0, 0, 5);
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

static void functional_cross_entropy(cfx_op_call *c) {
    int64_t r = reduction(c, 3, 5, 6);
    if (r >= 0)
        c->out[0] = cfx_cross_entropy_loss(c->args[0], c->args[1], c->args[2], r, c->args[4],
                                           c->args[7]);
}

static void functional_nll_loss(cfx_op_call *c) {
    int64_t r = reduction(c, 3, 5, 6);
    if (r >= 0)
        c->out[0] = cfx_nll_loss_nd(c->args[0], c->args[1], c->args[2], r, c->args[4]);
}

static void functional_bce_with_logits(cfx_op_call *c) {
    int64_t r = reduction(c, 3, 4, 5);
    if (r >= 0)
        c->out[0] = cfx_binary_cross_entropy_with_logits(c->args[0], c->args[1], c->args[2],
                                                         c->args[6], r);
}

/* ---- similarity and distance ----------------------------------------------------------------- */

static void decompose_cosine_similarity(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    cfx_value dim = cfx_list(c->args[2]), eps = c->args[3];
    cfx_tensor *na = cfx_linalg_vector_norm(a, 2, dim, true);
    cfx_tensor *nb = cfx_linalg_vector_norm(b, 2, dim, true);
    c->out[0] = cfx_sum(cfx_mul(cfx_div(a, cfx_clamp_min(na, eps)),
                                cfx_div(b, cfx_clamp_min(nb, eps))), dim);
}

static void decompose_pairwise_distance(cfx_op_call *c) {
    cfx_tensor *gap = cfx_add(cfx_sub(c->args[0], c->args[1]), c->args[3]);
    c->out[0] = cfx_linalg_vector_norm(gap, c->args[2], cfx_list(-1), c->args[4]);
}

static void decompose_triplet_margin_loss(cfx_op_call *c) {
    cfx_value a = c->args[0], p = c->args[4], eps = c->args[5];
    cfx_tensor *near = cfx_pairwise_distance(a, c->args[1], p, eps);
    cfx_tensor *far = cfx_pairwise_distance(a, c->args[2], p, eps);
    if (arg_bool(c, 6))
        far = cfx_minimum(far, cfx_pairwise_distance(c->args[1], c->args[2], p, eps));
    cfx_tensor *each = cfx_clamp_min(cfx_add(cfx_sub(near, far), c->args[3]), 0);
    c->out[0] = reduced(each, arg_int(c, 7));
}

#define COMPOSED(id) .decompose = decompose_##id, .effects = CFX_COMPOSITE

CFX_OP(cosine_similarity) = {
    "aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    "torch.cosine_similarity torch.nn.functional.cosine_similarity", COMPOSED(cosine_similarity),
    .autocast = CFX_CAST_F32_ON_GPU};
CFX_OP(pairwise_distance) = {
    "aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=1e-06, bool "
    "keepdim=False) -> Tensor",
    "torch.pairwise_distance torch.nn.functional.pairwise_distance", COMPOSED(pairwise_distance)};
CFX_OP(triplet_margin_loss) = {
    "aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., "
    "float p=2., float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
    "torch.triplet_margin_loss", COMPOSED(triplet_margin_loss), .autocast = CFX_CAST_F32};

/* ---- rows ------------------------------------------------------------------------------------ */

#define FUNCTIONAL(id) .decompose = functional_##id, .effects = CFX_COMPOSITE

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
    "torch.nn.functional.binary_cross_entropy", FUNCTIONAL(binary_cross_entropy)};
CFX_OP(python_poisson_nll_loss) = {
    "python::poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool "
    "full=False, bool? size_average=None, float eps=1e-08, bool? reduce=None, str "
    "reduction='mean') -> Tensor",
    "torch.nn.functional.poisson_nll_loss", FUNCTIONAL(poisson_nll_loss)};
CFX_OP(python_hinge_embedding_loss) = {
    "python::hinge_embedding_loss(Tensor input, Tensor target, float margin=1., bool? "
    "size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.hinge_embedding_loss", FUNCTIONAL(hinge_embedding_loss)};
CFX_OP(python_margin_ranking_loss) = {
    "python::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, Scalar margin=0, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.margin_ranking_loss", FUNCTIONAL(margin_ranking_loss)};
CFX_OP(python_cosine_embedding_loss) = {
    "python::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, Scalar "
    "margin=0, bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.cosine_embedding_loss", FUNCTIONAL(cosine_embedding_loss)};
CFX_OP(python_soft_margin_loss) = {
    "python::soft_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.soft_margin_loss", FUNCTIONAL(soft_margin_loss)};
CFX_OP(python_multilabel_margin_loss) = {
    "python::multilabel_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.multilabel_margin_loss", FUNCTIONAL(multilabel_margin_loss)};
CFX_OP(python_multi_margin_loss) = {
    "python::multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1., Tensor? "
    "weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.multi_margin_loss", FUNCTIONAL(multi_margin_loss)};
CFX_OP(python_multilabel_soft_margin_loss) = {
    "python::multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.multilabel_soft_margin_loss", FUNCTIONAL(multilabel_soft_margin_loss)};
CFX_OP(python_triplet_margin_loss) = {
    "python::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float "
    "margin=1., Scalar p=2, float eps=1e-06, bool swap=False, bool? size_average=None, bool? "
    "reduce=None, str reduction='mean') -> Tensor",
    "torch.nn.functional.triplet_margin_loss", FUNCTIONAL(triplet_margin_loss)};
CFX_OP(python_gaussian_nll_loss) = {
    "python::gaussian_nll_loss(Tensor input, Tensor target, t var, bool full=False, float "
    "eps=1e-06, str reduction='mean') -> Tensor",
    "torch.nn.functional.gaussian_nll_loss", FUNCTIONAL(gaussian_nll_loss)};
CFX_OP(python_cross_entropy) = {
    "python::cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean', float "
    "label_smoothing=0.) -> Tensor",
    "torch.nn.functional.cross_entropy", FUNCTIONAL(cross_entropy)};
CFX_OP(python_nll_loss) = {
    "python::nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean') -> "
    "Tensor",
    "torch.nn.functional.nll_loss", FUNCTIONAL(nll_loss)};
CFX_OP(python_binary_cross_entropy_with_logits) = {
    "python::binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean', Tensor? "
    "pos_weight=None) -> Tensor",
    "torch.nn.functional.binary_cross_entropy_with_logits", FUNCTIONAL(bce_with_logits)};
