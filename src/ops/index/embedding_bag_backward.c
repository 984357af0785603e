/* The backward operators of embedding_bag, made of smaller ones. */
#include "../back.h"

CFX_FAMILY(INDEX);

enum { SUM, MEAN, MAX };

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
 * per_sample_weights, padding_idx) */
static void decompose_dense_backward(cfx_op_call *c) {
    cfx_tensor *g = arg_tensor(c, 0), *bag = arg_tensor(c, 2), *size = arg_tensor(c, 3);
    cfx_tensor *scale = arg_tensor(c, 8);
    int64_t mode = arg_int(c, 7);
    if (g->ndim != 2) {
        op_fail(c, "_embedding_bag_dense_backward: the gradient has a row for each bag, got %s",
                cfx__shape_text(g->ndim, g->shape));
        return;
    }
    if (mode == MAX) {
        cfx_tensor *filled = cfx_unsqueeze(cfx_gt(size, 0), 1);
        cfx_tensor *zeros = cfx_new_zeros(g, cfx_list(c->args[5], g->shape[1]));
        c->out[0] = cfx_scatter_add(zeros, 0, cast_to(arg_tensor(c, 4), CFX_I64),
                                    cfx_mul(g, filled));
        return;
    }
    cfx_tensor *each = cfx_index_select(g, 0, bag);
    if (mode == MEAN) {
        cfx_tensor *count = cast_to(cfx_clamp_min(size, 1), (cfx_dtype)g->dtype);
        each = cfx_div(each, cfx_unsqueeze(cfx_index_select(count, 0, bag), 1));
    }
    if (scale)
        each = cfx_mul(each, cfx_unsqueeze(scale, 1));
    c->out[0] = cfx_embedding_dense_backward(each, c->args[1], c->args[5], c->args[9], c->args[6]);
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx) */
static void decompose_scale_backward(cfx_op_call *c) {
    if (arg_int(c, 5) != SUM) {
        op_fail(c, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
        return;
    }
    cfx_tensor *index = arg_tensor(c, 2), *rows = cfx_index_select(c->args[1], 0, index);
    cfx_tensor *each = cfx_index_select(c->args[0], 0, c->args[4]);
    cfx_tensor *sum = cfx_sum(cfx_mul(each, rows), cfx_list(1));
    c->out[0] = cfx_masked_fill(sum, cfx_eq(index, c->args[6]), 0);
}

/* With an empty offset2bag, as the quick sums leave it, it is found from the offsets. */
static void decompose_bag_backward(cfx_op_call *c) {
    cfx_value *a = c->args, bag = a[3];
    const cfx_tensor *index = arg_tensor(c, 1);
    if (arg_bool(c, 9)) {
        op_fail_as(NOT_IMPLEMENTED, c, "_embedding_bag_backward: there are no sparse gradients");
        return;
    }
    if (index->numel && !arg_tensor(c, 3)->numel) {
        cfx_tensor *at = cfx_arange(index->numel, CFX_KW(dtype, cfx_i64));
        bag = CFX_V(cfx_sub(cfx_searchsorted(a[2], at, CFX_KW(right, cfx_bool(true))), 1));
    }
    c->out[0] = cfx_aten__embedding_bag_dense_backward(a[0], a[1], bag, a[4], a[5], a[6], a[7],
                                                       a[8], a[10], a[11]);
}

CFX_OP(_embedding_bag_dense_backward) = {
    "aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor "
    "bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, "
    "Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
    NULL, .decompose = decompose_dense_backward, .out = "out"};
CFX_OP(_embedding_bag_per_sample_weights_backward) = {
    "aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, "
    "Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
    NULL, .decompose = decompose_scale_backward, .out = "out"};
CFX_OP(_embedding_bag_backward) = {
    "aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, "
    "Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int "
    "mode, bool sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
    NULL, .decompose = decompose_bag_backward, .effects = CFX_COMPOSITE};
