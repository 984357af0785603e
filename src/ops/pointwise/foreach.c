/* Operators over lists of tensors, as optimisers use them: a call for each item. What is a list
 * among the arguments gives an item to each call, anything else goes to all. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(MATH);

/* How many calls there are; -1, with an error, where lists differ in length. */
static int64_t count_calls(cfx_op_call *c) {
    int64_t n = -1;
    for (int i = 0; i < c->nargs; i++) {
        if (c->args[i].tag != CFX_TAG_LIST)
            continue;
        int64_t len = cfx_as_list(c->args[i])->len;
        if (n >= 0 && len != n) {
            cfx_fail(CFX_RUNTIME_ERROR, c->at,
                     "Tensor lists must have the same number of tensors, got %lld and %lld",
                     (long long)n, (long long)len);
            return -1;
        }
        n = len;
    }
    if (n == 0)
        cfx_fail(CFX_RUNTIME_ERROR, c->at, "Tensor list must have at least one tensor.");
    return n > 0 ? n : -1;
}

/* Argument i in call k. */
static cfx_value item_of(const cfx_op_call *c, int i, int64_t k) {
    return c->args[i].tag == CFX_TAG_LIST ? cfx_as_list(c->args[i])->items[k] : c->args[i];
}

/* The number that call k takes of a tensor with one for each. */
static cfx_value number_of(const cfx_op_call *c, cfx_value v, int64_t k) {
    if (v.tag != CFX_TAG_TENSOR)
        return v;
    return c->fake ? cfx_int(1) : cfx_float(cfx__tensor_number(cfx_as_tensor(v), k));
}

/* The function of the row for each item; alpha, and the factor of addcdiv and addcmul, by name. */
static void each(cfx_op_call *c) {
    const cfx_fn *fn = c->op->row;
    bool factor = fn == &cfx_fn_addcdiv || fn == &cfx_fn_addcmul;
    int64_t n = count_calls(c);
    c->result = cfx_list_value(0, NULL);
    for (int64_t k = 0; k < n && cfx_ok(); k++) {
        cfx_value args[CFX_MAX_ARGS];
        cfx_args a = {.n = 0, .v = args};
        for (int i = 0; i < c->nargs; i++) {
            bool alpha = i == 2 && (fn == &cfx_fn_add || fn == &cfx_fn_sub);
            cfx_value v = item_of(c, i, k);
            if (alpha)
                v = cfx_keyword_value("alpha", v);
            else if (factor && i == 3)
                v = cfx_keyword_value("value", number_of(c, v, k));
            args[a.n++] = v;
        }
        cfx_list_append(cfx_as_list(c->result), cfx_fn_call_from(c->at, fn, a));
    }
}

/* What `one` makes of each item. */
static void each_by(cfx_op_call *c, cfx_tensor *one(const cfx_op_call *c, int64_t k)) {
    int64_t n = count_calls(c);
    c->result = cfx_list_value(0, NULL);
    for (int64_t k = 0; k < n && cfx_ok(); k++)
        cfx_list_append(cfx_as_list(c->result), cfx_tensor_value(one(c, k)));
}

static cfx_tensor *norm(const cfx_op_call *c, int64_t k) {
    return cfx_linalg_vector_norm(item_of(c, 0, k), c->args[1], CFX_KW(dtype, c->args[2]));
}

static cfx_tensor *powsum(const cfx_op_call *c, int64_t k) {
    cfx_tensor *x = cfx_as_tensor(item_of(c, 0, k));
    return cfx_sum(cfx_pow(cfx_abs(x), c->args[1]), CFX_KW(dtype, c->args[2]));
}

static cfx_tensor *copied(const cfx_op_call *c, int64_t k) {
    return cfx_copy(item_of(c, 0, k), item_of(c, 1, k), c->args[2]);
}

static void each_norm(cfx_op_call *c) { each_by(c, norm); }
static void each_powsum(cfx_op_call *c) { each_by(c, powsum); }
static void each_copy(cfx_op_call *c) { each_by(c, copied); }

#define EACH(fn) .decompose = each, .row = &cfx_fn_##fn

CFX_OP(_foreach_abs) = {
    "aten::_foreach_abs(Tensor[] self) -> Tensor[]",
    "torch._foreach_abs", EACH(abs), .inplace = "default", .out = "out"};
CFX_OP(_foreach_acos) = {
    "aten::_foreach_acos(Tensor[] self) -> Tensor[]",
    "torch._foreach_acos", EACH(acos), .inplace = "default", .out = "out"};
CFX_OP(_foreach_add_List) = {
    "aten::_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]",
    "torch._foreach_add", EACH(add), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_add_Scalar) = {
    "aten::_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(add), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_add_ScalarList) = {
    "aten::_foreach_add.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(add), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_add_Tensor) = {
    "aten::_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]",
    NULL, EACH(add), .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(_foreach_addcdiv_Scalar) = {
    "aten::_foreach_addcdiv.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
    "Scalar value=1) -> Tensor[]",
    "torch._foreach_addcdiv", EACH(addcdiv), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_addcdiv_ScalarList) = {
    "aten::_foreach_addcdiv.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
    "Scalar[] scalars) -> Tensor[]",
    NULL, EACH(addcdiv), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_addcdiv_Tensor) = {
    "aten::_foreach_addcdiv.Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
    "Tensor scalars) -> Tensor[]",
    NULL, EACH(addcdiv), .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(_foreach_addcmul_Scalar) = {
    "aten::_foreach_addcmul.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
    "Scalar value=1) -> Tensor[]",
    "torch._foreach_addcmul", EACH(addcmul), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_addcmul_ScalarList) = {
    "aten::_foreach_addcmul.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
    "Scalar[] scalars) -> Tensor[]",
    NULL, EACH(addcmul), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_addcmul_Tensor) = {
    "aten::_foreach_addcmul.Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
    "Tensor scalars) -> Tensor[]",
    NULL, EACH(addcmul), .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(_foreach_asin) = {
    "aten::_foreach_asin(Tensor[] self) -> Tensor[]",
    "torch._foreach_asin", EACH(asin), .inplace = "default", .out = "out"};
CFX_OP(_foreach_atan) = {
    "aten::_foreach_atan(Tensor[] self) -> Tensor[]",
    "torch._foreach_atan", EACH(atan), .inplace = "default", .out = "out"};
CFX_OP(_foreach_ceil) = {
    "aten::_foreach_ceil(Tensor[] self) -> Tensor[]",
    "torch._foreach_ceil", EACH(ceil), .inplace = "default", .out = "out"};
CFX_OP(_foreach_clamp_max_List) = {
    "aten::_foreach_clamp_max.List(Tensor[] self, Tensor[] other) -> Tensor[]",
    "torch._foreach_clamp_max", EACH(clamp_max), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_clamp_max_Scalar) = {
    "aten::_foreach_clamp_max.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(clamp_max), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_clamp_max_ScalarList) = {
    "aten::_foreach_clamp_max.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(clamp_max), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_clamp_min_List) = {
    "aten::_foreach_clamp_min.List(Tensor[] self, Tensor[] other) -> Tensor[]",
    "torch._foreach_clamp_min", EACH(clamp_min), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_clamp_min_Scalar) = {
    "aten::_foreach_clamp_min.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(clamp_min), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_clamp_min_ScalarList) = {
    "aten::_foreach_clamp_min.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(clamp_min), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_copy) = {
    "aten::_foreach_copy(Tensor[] self, Tensor[] src, "
    "bool non_blocking=False) -> Tensor[] self_out",
    "torch._foreach_copy", .decompose = each_copy, .inplace = "default", .out = "out"};
CFX_OP(_foreach_cos) = {
    "aten::_foreach_cos(Tensor[] self) -> Tensor[]",
    "torch._foreach_cos", EACH(cos), .inplace = "default", .out = "out"};
CFX_OP(_foreach_cosh) = {
    "aten::_foreach_cosh(Tensor[] self) -> Tensor[]",
    "torch._foreach_cosh", EACH(cosh), .inplace = "default", .out = "out"};
CFX_OP(_foreach_div_List) = {
    "aten::_foreach_div.List(Tensor[] self, Tensor[] other) -> Tensor[]",
    "torch._foreach_div", EACH(div), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_div_Scalar) = {
    "aten::_foreach_div.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(div), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_div_ScalarList) = {
    "aten::_foreach_div.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(div), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_div_Tensor) = {
    "aten::_foreach_div.Tensor(Tensor[] self, Tensor other) -> Tensor[]",
    NULL, EACH(div), .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(_foreach_erf) = {
    "aten::_foreach_erf(Tensor[] self) -> Tensor[]",
    "torch._foreach_erf", EACH(erf), .inplace = "default", .out = "out"};
CFX_OP(_foreach_erfc) = {
    "aten::_foreach_erfc(Tensor[] self) -> Tensor[]",
    "torch._foreach_erfc", EACH(erfc), .inplace = "default", .out = "out"};
CFX_OP(_foreach_exp) = {
    "aten::_foreach_exp(Tensor[] self) -> Tensor[]",
    "torch._foreach_exp", EACH(exp), .inplace = "default", .out = "out"};
CFX_OP(_foreach_expm1) = {
    "aten::_foreach_expm1(Tensor[] self) -> Tensor[]",
    "torch._foreach_expm1", EACH(expm1), .inplace = "default", .out = "out"};
CFX_OP(_foreach_floor) = {
    "aten::_foreach_floor(Tensor[] self) -> Tensor[]",
    "torch._foreach_floor", EACH(floor), .inplace = "default", .out = "out"};
CFX_OP(_foreach_frac) = {
    "aten::_foreach_frac(Tensor[] self) -> Tensor[]",
    "torch._foreach_frac", EACH(frac), .inplace = "default", .out = "out"};
CFX_OP(_foreach_lerp_List) = {
    "aten::_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]",
    "torch._foreach_lerp", EACH(lerp), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_lerp_Scalar) = {
    "aten::_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]",
    NULL, EACH(lerp), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_lerp_ScalarList) = {
    "aten::_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight) -> Tensor[]",
    NULL, EACH(lerp), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_lgamma) = {
    "aten::_foreach_lgamma(Tensor[] self) -> Tensor[]",
    "torch._foreach_lgamma", EACH(lgamma), .inplace = "default", .out = "out"};
CFX_OP(_foreach_log) = {
    "aten::_foreach_log(Tensor[] self) -> Tensor[]",
    "torch._foreach_log", EACH(log), .inplace = "default", .out = "out"};
CFX_OP(_foreach_log10) = {
    "aten::_foreach_log10(Tensor[] self) -> Tensor[]",
    "torch._foreach_log10", EACH(log10), .inplace = "default", .out = "out"};
CFX_OP(_foreach_log1p) = {
    "aten::_foreach_log1p(Tensor[] self) -> Tensor[]",
    "torch._foreach_log1p", EACH(log1p), .inplace = "default", .out = "out"};
CFX_OP(_foreach_log2) = {
    "aten::_foreach_log2(Tensor[] self) -> Tensor[]",
    "torch._foreach_log2", EACH(log2), .inplace = "default", .out = "out"};
CFX_OP(_foreach_max) = {
    "aten::_foreach_max(Tensor[] self) -> Tensor[]",
    "torch._foreach_max", EACH(max), .out = "out"};
CFX_OP(_foreach_maximum_List) = {
    "aten::_foreach_maximum.List(Tensor[] self, Tensor[] other) -> Tensor[]",
    "torch._foreach_maximum", EACH(maximum), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_maximum_Scalar) = {
    "aten::_foreach_maximum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(clamp_min), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_maximum_ScalarList) = {
    "aten::_foreach_maximum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(clamp_min), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_minimum_List) = {
    "aten::_foreach_minimum.List(Tensor[] self, Tensor[] other) -> Tensor[]",
    "torch._foreach_minimum", EACH(minimum), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_minimum_Scalar) = {
    "aten::_foreach_minimum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(clamp_max), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_minimum_ScalarList) = {
    "aten::_foreach_minimum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(clamp_max), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_mul_List) = {
    "aten::_foreach_mul.List(Tensor[] self, Tensor[] other) -> Tensor[]",
    "torch._foreach_mul", EACH(mul), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_mul_Scalar) = {
    "aten::_foreach_mul.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(mul), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_mul_ScalarList) = {
    "aten::_foreach_mul.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(mul), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_mul_Tensor) = {
    "aten::_foreach_mul.Tensor(Tensor[] self, Tensor other) -> Tensor[]",
    NULL, EACH(mul), .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(_foreach_neg) = {
    "aten::_foreach_neg(Tensor[] self) -> Tensor[]",
    "torch._foreach_neg", EACH(neg), .inplace = "default", .out = "out"};
CFX_OP(_foreach_norm_Scalar) = {
    "aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
    "torch._foreach_norm", .decompose = each_norm, .out = "Scalar_out"};
CFX_OP(_foreach_pow_List) = {
    "aten::_foreach_pow.List(Tensor[] self, Tensor[] exponent) -> Tensor[]",
    "torch._foreach_pow", EACH(pow), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_pow_Scalar) = {
    "aten::_foreach_pow.Scalar(Tensor[] self, Scalar exponent) -> Tensor[]",
    NULL, EACH(pow), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_pow_ScalarAndTensor) = {
    "aten::_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]",
    NULL, EACH(pow)};
CFX_OP(_foreach_pow_ScalarList) = {
    "aten::_foreach_pow.ScalarList(Tensor[] self, Scalar[] exponent) -> Tensor[]",
    NULL, EACH(pow), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_powsum_Scalar) = {
    "aten::_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
    "torch._foreach_powsum", .decompose = each_powsum, .out = "Scalar_out"};
CFX_OP(_foreach_reciprocal) = {
    "aten::_foreach_reciprocal(Tensor[] self) -> Tensor[]",
    "torch._foreach_reciprocal", EACH(reciprocal), .inplace = "default", .out = "out"};
CFX_OP(_foreach_round) = {
    "aten::_foreach_round(Tensor[] self) -> Tensor[]",
    "torch._foreach_round", EACH(round), .inplace = "default", .out = "out"};
CFX_OP(_foreach_rsqrt) = {
    "aten::_foreach_rsqrt(Tensor[] self) -> Tensor[]",
    "torch._foreach_rsqrt", EACH(rsqrt), .inplace = "default", .out = "out"};
CFX_OP(_foreach_sigmoid) = {
    "aten::_foreach_sigmoid(Tensor[] self) -> Tensor[]",
    "torch._foreach_sigmoid", EACH(sigmoid), .inplace = "default", .out = "out"};
CFX_OP(_foreach_sign) = {
    "aten::_foreach_sign(Tensor[] self) -> Tensor[]",
    "torch._foreach_sign", EACH(sign), .inplace = "default", .out = "out"};
CFX_OP(_foreach_sin) = {
    "aten::_foreach_sin(Tensor[] self) -> Tensor[]",
    "torch._foreach_sin", EACH(sin), .inplace = "default", .out = "out"};
CFX_OP(_foreach_sinh) = {
    "aten::_foreach_sinh(Tensor[] self) -> Tensor[]",
    "torch._foreach_sinh", EACH(sinh), .inplace = "default", .out = "out"};
CFX_OP(_foreach_sqrt) = {
    "aten::_foreach_sqrt(Tensor[] self) -> Tensor[]",
    "torch._foreach_sqrt", EACH(sqrt), .inplace = "default", .out = "out"};
CFX_OP(_foreach_sub_List) = {
    "aten::_foreach_sub.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]",
    "torch._foreach_sub", EACH(sub), .inplace = "List", .out = "List_out"};
CFX_OP(_foreach_sub_Scalar) = {
    "aten::_foreach_sub.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    NULL, EACH(sub), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(_foreach_sub_ScalarList) = {
    "aten::_foreach_sub.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    NULL, EACH(sub), .inplace = "ScalarList", .out = "ScalarList_out"};
CFX_OP(_foreach_tan) = {
    "aten::_foreach_tan(Tensor[] self) -> Tensor[]",
    "torch._foreach_tan", EACH(tan), .inplace = "default", .out = "out"};
CFX_OP(_foreach_tanh) = {
    "aten::_foreach_tanh(Tensor[] self) -> Tensor[]",
    "torch._foreach_tanh", EACH(tanh), .inplace = "default", .out = "out"};
CFX_OP(_foreach_trunc) = {
    "aten::_foreach_trunc(Tensor[] self) -> Tensor[]",
    "torch._foreach_trunc", EACH(trunc), .inplace = "default", .out = "out"};
CFX_OP(_foreach_zero) = {
    "aten::_foreach_zero(Tensor[] self) -> Tensor[] self_out",
    "torch._foreach_zero", EACH(zeros_like), .inplace = "default", .out = "out"};
