/* Steps of optimisers (ai.onnx.preview.training), and what ai.onnx.ml has of plain arithmetic. */
#include "onnx.h"

CFX_FAMILY(MATH);

/* ---- steps ----------------------------------------------------------------------------------- */

/* One kind of the tensors of a step: `kinds` of them follow each other in the list, first all that
 * are trained, then all gradients, then what was accumulated. */
static cfx_tensor *part(cfx_op_call *c, int kind, int kinds, int64_t i) {
    return arg_item(c, 2, kind * (arg_count(c, 2) / kinds) + i);
}

/* How many tensors a step trains; -1, with an error, where some lack their gradient or more. */
static int64_t count_trained(cfx_op_call *c, int kinds) {
    const int64_t n = arg_count(c, 2);
    if (n && n % kinds == 0)
        return n / kinds;
    op_fail(c, "%s: %lld tensors are not %d for each that is trained", op_title(c), (long long)n,
            kinds);
    return -1;
}

/* The gradient with that of the weight's norm. */
static cfx_tensor *gradient(cfx_op_call *c, int kinds, int64_t i, double norm) {
    cfx_tensor *g = part(c, 1, kinds, i);
    return norm != 0 ? cfx_add(g, cfx_mul(part(c, 0, kinds, i), norm)) : g;
}

/* Lists of new values as the results, one behind the other. */
static void give(cfx_op_call *c, int n, const cfx_value *lists) {
    c->result = cfx_list_value(0, NULL);
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < cfx_as_list(lists[k])->len; i++)
            cfx_list_append(cfx_as_list(c->result), cfx_at(lists[k], i));
}

static void keep(cfx_value list, cfx_tensor *t) {
    cfx_list_append(cfx_as_list(list), cfx_tensor_value(t));
}

/* `now` in the steps after the first, `first` in it: how many there were is a tensor's number. */
static cfx_tensor *after_first(cfx_op_call *c, cfx_tensor *now, cfx_tensor *first) {
    return cfx_where(cfx_gt(T(1), 0), now, first);
}

ONNX_OP(Adagrad) { /* R, T, inputs, decay_factor, epsilon, norm_coefficient */
    const int64_t n = count_trained(c, 3);
    cfx_tensor *count = onnx_to(T(1), (cfx_dtype)T(0)->dtype);
    cfx_tensor *rate = cfx_div(T(0), cfx_add(cfx_mul(count, arg_float(c, 3)), 1));
    cfx_value new[] = {cfx_list_value(0, NULL), cfx_list_value(0, NULL)};
    for (int64_t i = 0; i < n; i++) {
        cfx_tensor *g = gradient(c, 3, i, arg_float(c, 5));
        cfx_tensor *h = cfx_add(part(c, 2, 3, i), cfx_mul(g, g));
        cfx_tensor *step = cfx_div(cfx_mul(g, rate), cfx_add(cfx_sqrt(h), arg_float(c, 4)));
        keep(new[0], cfx_sub(part(c, 0, 3, i), step));
        keep(new[1], h);
    }
    give(c, 2, new);
}

/* R, T, inputs, alpha, beta, epsilon, norm_coefficient, norm_coefficient_post */
ONNX_OP(Adam) {
    const int64_t n = count_trained(c, 4);
    const double alpha = arg_float(c, 3), beta = arg_float(c, 4);
    cfx_tensor *count = onnx_to(T(1), (cfx_dtype)T(0)->dtype);
    cfx_tensor *first = cfx_rsub(cfx_pow(alpha, count), 1);
    cfx_tensor *second = cfx_sqrt(cfx_rsub(cfx_pow(beta, count), 1));
    cfx_tensor *rate = after_first(c, cfx_div(cfx_mul(T(0), second), first), T(0));
    cfx_value new[] = {cfx_list_value(0, NULL), cfx_list_value(0, NULL), cfx_list_value(0, NULL)};
    for (int64_t i = 0; i < n; i++) {
        cfx_tensor *g = gradient(c, 4, i, arg_float(c, 6));
        cfx_tensor *v = cfx_add(cfx_mul(part(c, 2, 4, i), alpha), cfx_mul(g, 1 - alpha));
        cfx_tensor *h = cfx_add(cfx_mul(part(c, 3, 4, i), beta),
                                cfx_mul(cfx_mul(g, g), 1 - beta));
        cfx_tensor *step = cfx_mul(cfx_div(v, cfx_add(cfx_sqrt(h), arg_float(c, 5))), rate);
        keep(new[0], cfx_mul(cfx_sub(part(c, 0, 4, i), step), 1 - arg_float(c, 7)));
        keep(new[1], v);
        keep(new[2], h);
    }
    give(c, 3, new);
}

ONNX_OP(Momentum) { /* R, T, inputs, alpha, beta, mode, norm_coefficient */
    const int64_t n = count_trained(c, 3);
    const double alpha = arg_float(c, 3);
    const bool nesterov = !strcmp(arg_text(c, 5), "nesterov");
    cfx_value new[] = {cfx_list_value(0, NULL), cfx_list_value(0, NULL)};
    for (int64_t i = 0; i < n; i++) {
        cfx_tensor *g = gradient(c, 3, i, arg_float(c, 6));
        cfx_tensor *own = after_first(c, cfx_mul(g, arg_float(c, 4)), g);
        cfx_tensor *v = cfx_add(cfx_mul(part(c, 2, 3, i), alpha), own);
        cfx_tensor *way = nesterov ? cfx_add(g, cfx_mul(v, alpha)) : v;
        keep(new[0], cfx_sub(part(c, 0, 3, i), cfx_mul(way, T(0))));
        keep(new[1], v);
    }
    give(c, 2, new);
}

CFX_OP(onnx_training_Adagrad) = {
    "onnx_training::Adagrad(Tensor R, Tensor T, Tensor[] inputs, *, float decay_factor=0., float "
    "epsilon=0., float norm_coefficient=0.) -> Tensor[]",
    ONNX_SEVERAL(Adagrad, 1)};
CFX_OP(onnx_training_Adam) = {
    "onnx_training::Adam(Tensor R, Tensor T, Tensor[] inputs, *, float alpha=0.9, float "
    "beta=0.999, float epsilon=0., float norm_coefficient=0., float norm_coefficient_post=0.) -> "
    "Tensor[]",
    ONNX_SEVERAL(Adam, 1)};
CFX_OP(onnx_training_Momentum) = {
    "onnx_training::Momentum(Tensor R, Tensor T, Tensor[] inputs, *, float alpha, float beta, str "
    "mode, float norm_coefficient) -> Tensor[]",
    ONNX_SEVERAL(Momentum, 1)};

/* ---- ai.onnx.ml ------------------------------------------------------------------------------ */

CFX_FAMILY(INDEX);

ONNX_OP(Binarizer) {
    OUT(0) = onnx_to(cfx_gt(T(0), arg_float(c, 1)), (cfx_dtype)T(0)->dtype);
}

/* Elements along the last dimension; a row is a table of one. */
ONNX_OP(ArrayFeatureExtractor) {
    cfx_tensor *x = T(0)->ndim == 1 ? cfx_unsqueeze(T(0), 0) : T(0);
    OUT(0) = cfx_index_select(x, -1, cfx_reshape(T(1), cfx_list(-1)));
}

CFX_OP(onnx_ml_Binarizer) = {
    "onnx_ml::Binarizer(Tensor X, *, float threshold=0.) -> Tensor",
    ONNX(Binarizer, 1)};
CFX_OP(onnx_ml_ArrayFeatureExtractor) = {
    "onnx_ml::ArrayFeatureExtractor(Tensor X, Tensor Y) -> Tensor",
    ONNX(ArrayFeatureExtractor, 1)};
