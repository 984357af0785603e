/* Losses and distances. */
#include "layer.h"

/* Weights are buffers: they move with the module and are in its state dict. */
static void make_weighted(cfx_module *m, const cfx__layer_options *o) {
    static const char *const names[] = {"weight", "pos_weight"};
    for (int i = 0; i < COUNT(names); i++)
        if (strstr(o->row->options, names[i])) {
            cfx_value v = cfx__layer_option(o, names[i]);
            cfx_nn_buffer(m, names[i], v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL, true);
        }
}

#define F "torch.nn.functional."
#define LOSS(name, options, call)                                                                  \
    {                                                                                              \
        "loss." name, options "reduction='mean'", "", F call, .inputs = "input, target",           \
                                                              .make = make_weighted                \
    }
#define PAIR_LOSS(name, call)                                                                      \
    { "loss." name, "margin=0.0, reduction='mean'", "", F call, .inputs = "input1, input2, target" }

const cfx__layer cfx__layers_loss[] = {
    LOSS("L1Loss", "", "l1_loss(input, target, reduction=reduction)"),
    LOSS("MSELoss", "", "mse_loss(input, target, reduction=reduction)"),
    LOSS("SoftMarginLoss", "", "soft_margin_loss(input, target, reduction=reduction)"),
    LOSS("MultiLabelMarginLoss", "", "multilabel_margin_loss(input, target, reduction=reduction)"),
    {"loss.SmoothL1Loss", "reduction='mean', beta=1.0", "",
     F "smooth_l1_loss(input, target, reduction=reduction, beta=beta)", .inputs = "input, target"},
    {"loss.HuberLoss", "reduction='mean', delta=1.0", "",
     F "huber_loss(input, target, reduction=reduction, delta=delta)", .inputs = "input, target"},
    {"loss.KLDivLoss", "reduction='mean', log_target=False", "",
     F "kl_div(input, target, reduction=reduction, log_target=log_target)",
     .inputs = "input, target"},
    {"loss.CrossEntropyLoss",
     "weight=None, ignore_index=-100, reduction='mean', label_smoothing=0.0", "",
     F "cross_entropy(input, target, weight=weight, ignore_index=ignore_index, "
       "reduction=reduction, label_smoothing=label_smoothing)",
     .inputs = "input, target", .make = make_weighted},
    LOSS("NLLLoss", "weight=None, ignore_index=-100, ",
         "nll_loss(input, target, weight=weight, ignore_index=ignore_index, reduction=reduction)"),
    LOSS("BCELoss", "weight=None, ",
         "binary_cross_entropy(input, target, weight=weight, reduction=reduction)"),
    {"loss.BCEWithLogitsLoss", "weight=None, reduction='mean', pos_weight=None", "",
     F "binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight, "
       "reduction=reduction)",
     .inputs = "input, target", .make = make_weighted},
    LOSS("MultiLabelSoftMarginLoss", "weight=None, ",
         "multilabel_soft_margin_loss(input, target, weight=weight, reduction=reduction)"),
    LOSS("MultiMarginLoss", "p=1, margin=1.0, weight=None, ",
         "multi_margin_loss(input, target, p=p, margin=margin, weight=weight, "
         "reduction=reduction)"),
    LOSS("HingeEmbeddingLoss", "margin=1.0, ",
         "hinge_embedding_loss(input, target, margin=margin, reduction=reduction)"),
    {"loss.PoissonNLLLoss", "log_input=True, full=False, eps=1e-08, reduction='mean'", "",
     F "poisson_nll_loss(input, target, log_input=log_input, full=full, eps=eps, "
       "reduction=reduction)",
     .inputs = "input, target"},
    {"loss.GaussianNLLLoss", "*, full=False, eps=1e-06, reduction='mean'", "",
     F "gaussian_nll_loss(input, target, var, full=full, eps=eps, reduction=reduction)",
     .inputs = "input, target, var"},
    {"loss.CTCLoss", "blank=0, reduction='mean', zero_infinity=False", "",
     F "ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, "
       "zero_infinity)",
     .inputs = "log_probs, targets, input_lengths, target_lengths"},
    PAIR_LOSS("MarginRankingLoss",
              "margin_ranking_loss(input1, input2, target, margin=margin, reduction=reduction)"),
    PAIR_LOSS("CosineEmbeddingLoss",
              "cosine_embedding_loss(input1, input2, target, margin=margin, reduction=reduction)"),
    {"loss.TripletMarginLoss", "margin=1.0, p=2.0, eps=1e-06, swap=False, reduction='mean'", "",
     F "triplet_margin_loss(anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap, "
       "reduction=reduction)",
     .inputs = "anchor, positive, negative"},
    {"distance.CosineSimilarity", "dim=1, eps=1e-08", "", F "cosine_similarity(x1, x2, dim, eps)",
     .inputs = "x1, x2"},
    {"distance.PairwiseDistance", "p=2.0, eps=1e-06, keepdim=False", "",
     F "pairwise_distance(x1, x2, p, eps, keepdim)", .inputs = "x1, x2"},
    {0},
};
