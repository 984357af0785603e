/* Losses and similarities that PyTorch composes of other operators. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(REDUCE);

enum { MEAN = 1, SUM = 2 };

/* The loss of each element, its mean or its sum, as argument `at` asks. */
static void give(cfx_op_call *c, cfx_tensor *each, int at) {
    int64_t how = arg_int(c, at);
    c->out[0] = how == MEAN ? cfx_mean(each) : how == SUM ? cfx_sum(each) : each;
}

static void decompose_l1_loss(cfx_op_call *c) {
    give(c, cfx_abs(cfx_sub(arg_tensor(c, 0), arg_tensor(c, 1))), 2);
}

static void decompose_bce_with_logits(cfx_op_call *c) {
    cfx_tensor *input = arg_tensor(c, 0), *target = arg_tensor(c, 1);
    cfx_tensor *log_sigmoid = cfx_log_sigmoid(input);
    if (arg_tensor(c, 3)) {
        cfx_tensor *weight = cfx_add_(cfx_mul(cfx_sub(arg_tensor(c, 3), 1), target), 1);
        log_sigmoid = cfx_mul(log_sigmoid, weight);
    }
    cfx_tensor *each = cfx_sub_(cfx_mul_(cfx_rsub(target, 1), input), log_sigmoid);
    give(c, arg_tensor(c, 2) ? cfx_mul_(each, arg_tensor(c, 2)) : each, 4);
}

static void decompose_kl_div(cfx_op_call *c) {
    cfx_tensor *input = arg_tensor(c, 0), *target = arg_tensor(c, 1);
    if (arg_bool(c, 3))
        give(c, cfx_mul(cfx_exp(target), cfx_sub(target, input)), 2);
    else
        give(c, cfx_sub(cfx_xlogy(target, target), cfx_mul(target, input)), 2);
}

static void decompose_poisson_nll_loss(cfx_op_call *c) {
    cfx_tensor *input = arg_tensor(c, 0), *target = arg_tensor(c, 1), *each;
    if (arg_bool(c, 2))
        each = cfx_sub(cfx_exp(input), cfx_mul(target, input));
    else
        each = cfx_sub(input, cfx_mul(target, cfx_log(cfx_add(input, arg_float(c, 4)))));
    if (arg_bool(c, 3)) { /* Stirling's approximation of log target! */
        cfx_tensor *stirling = cfx_sub(cfx_mul(target, cfx_log(target)), target);
        stirling = cfx_add(stirling, cfx_mul(cfx_log(cfx_mul(target, 6.283185307179586)), 0.5));
        each = cfx_add(each, cfx_masked_fill(stirling, cfx_le(target, 1), 0));
    }
    give(c, each, 5);
}

/* Arithmetic with numbers as C++ has it: by the overloads for numbers, and number - t by way of a
 * tensor that is filled with the number. */
#define BY_NUMBER(op, t, number) cfx_as_tensor(cfx_op_do(&cfx_op_##op##_Scalar, t, number))
static cfx_tensor *less_than_number(cfx_value number, cfx_tensor *t) {
    return cfx_sub(cfx_fill(cfx_empty_like(t), number), t);
}
static cfx_tensor *none_like(cfx_tensor *t) {
    return cfx_zeros_like(t, CFX_KW(memory_format, cfx_memory_format_value(CFX_CONTIGUOUS)));
}

static void decompose_hinge_embedding_loss(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1), *none = none_like(x);
    cfx_tensor *margin = cfx_clamp_min(less_than_number(c->args[2], x), 0);
    cfx_tensor *apart = cfx_where(cfx_ne(target, 1), margin, none);
    give(c, cfx_add(apart, cfx_where(cfx_ne(target, -1), x, none)), 3);
}

static void decompose_margin_ranking_loss(cfx_op_call *c) {
    cfx_tensor *gap = cfx_sub(arg_tensor(c, 0), arg_tensor(c, 1));
    gap = cfx_mul(cfx_neg(arg_tensor(c, 2)), gap);
    if (!op_failed())
        give(c, cfx_clamp_min_(BY_NUMBER(add, gap, c->args[3]), 0), 4);
}

static void decompose_cosine_embedding_loss(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *target = arg_tensor(c, 2);
    int dim = target->ndim;
    if (dim > 1) {
        op_fail(c, "0D or 1D target tensor expected, multi-target not supported");
    } else if (a->ndim != dim + 1 || b->ndim != dim + 1) {
        op_fail(c,
                "%dD target tensor expects %dD input tensors, but found inputs with sizes %s and "
                "%s.",
                dim, dim + 1, cfx__shape_text(a->ndim, a->shape),
                cfx__shape_text(b->ndim, b->shape));
    }
    if (op_failed())
        return;
    cfx_value over = cfx_list(dim);
    cfx_tensor *product = cfx_sum(cfx_mul(a, b), over);
    cfx_tensor *size_a = cfx_sum(cfx_mul(a, a), over);
    if (op_failed())
        return;
    size_a = BY_NUMBER(add, size_a, 1e-12f);
    cfx_tensor *size_b = BY_NUMBER(add, cfx_sum(cfx_mul(b, b), over), 1e-12f);
    cfx_tensor *cosine = cfx_div(product, cfx_sqrt(cfx_mul(size_a, size_b)));
    cfx_tensor *none = none_like(cosine), *near = less_than_number(cfx_int(1), cosine);
    if (op_failed())
        return;
    cfx_tensor *far = cfx_clamp_min(BY_NUMBER(sub, cosine, c->args[3]), 0);
    near = cfx_where(cfx_eq(target, 1), near, none);
    give(c, cfx_add(near, cfx_where(cfx_eq(target, -1), far, none)), 4);
}

#define COMPOSED(how) .decompose = decompose_##how, .effects = CFX_COMPOSITE

CFX_OP(l1_loss) = {"aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
                   "torch._C._nn.l1_loss", COMPOSED(l1_loss), .autocast = CFX_CAST_F32};
CFX_OP(binary_cross_entropy_with_logits) = {
    "aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
    "Tensor? pos_weight=None, int reduction=1) -> Tensor",
    "torch.binary_cross_entropy_with_logits",
    .decompose = decompose_bce_with_logits, .core = core_binary_cross_entropy_with_logits,
    .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(kl_div) = {"aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool "
                  "log_target=False) -> Tensor", "torch.kl_div",
                  COMPOSED(kl_div), .autocast = CFX_CAST_F32};
CFX_OP(poisson_nll_loss) = {"aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, "
                            "bool full, float eps, int reduction) -> Tensor",
                            "torch.poisson_nll_loss",
                            COMPOSED(poisson_nll_loss), .autocast = CFX_CAST_F32};
CFX_OP(hinge_embedding_loss) = {
    "aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> "
    "Tensor", "torch.hinge_embedding_loss",
    COMPOSED(hinge_embedding_loss), .autocast = CFX_CAST_F32};
CFX_OP(margin_ranking_loss) = {
    "aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int "
    "reduction=1) -> Tensor", "torch.margin_ranking_loss",
    COMPOSED(margin_ranking_loss), .autocast = CFX_CAST_F32};
CFX_OP(cosine_embedding_loss) = {
    "aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
    "int reduction=1) -> Tensor",
    "torch.cosine_embedding_loss",
    COMPOSED(cosine_embedding_loss), .autocast = CFX_CAST_F32};
