/* The backward operators of indexing: what was read is added where it was read from. */
#include "../back.h"

CFX_FAMILY(INDEX);

static cfx_tensor *zeros_of(cfx_op_call *c, int sizes) {
    return cfx_new_zeros(c->args[0], c->args[sizes]);
}

static void decompose_index_select_backward(cfx_op_call *c) {
    c->out[0] = cfx_index_add(zeros_of(c, 1), c->args[2], c->args[3], c->args[0]);
}

static void decompose_gather_backward(cfx_op_call *c) {
    cfx_tensor *zeros = cfx_new_zeros(c->args[0], sizes_of(arg_tensor(c, 1)));
    c->out[0] = cfx_scatter_add(zeros, c->args[2], c->args[3], c->args[0]);
}

static void decompose_cummaxmin_backward(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 1);
    c->out[0] = x->numel ? cfx_scatter_add(cfx_new_zeros(c->args[0], sizes_of(x)), c->args[3],
                                           c->args[2], c->args[0])
                         : cfx_new_zeros(c->args[0], sizes_of(x));
}

static void decompose_value_selecting(cfx_op_call *c) {
    cfx_tensor *grad = arg_tensor(c, 0), *index = arg_tensor(c, 2);
    if (!arg_bool(c, 4) && arg_count(c, 3)) {
        grad = cfx_unsqueeze(grad, c->args[1]);
        index = cfx_unsqueeze(index, c->args[1]);
    }
    c->out[0] = cfx_scatter(zeros_of(c, 3), c->args[1], index, grad);
}

/* Element number k of those that the mask names took element k of the source. */
static void decompose_masked_scatter_backward(cfx_op_call *c) {
    cfx_tensor *g = arg_tensor(c, 0);
    int64_t sizes[CFX_MAX_DIMS];
    int64_t n = cfx__shape_numel(c->at, arg_ints(c, 2, sizes), sizes);
    if (op_failed())
        return;
    cfx_tensor *named = cfx_reshape(cfx_expand(c->args[1], sizes_of(g)), cfx_list(-1));
    cfx_tensor *place = cfx_clamp_min(cfx_sub(cfx_cumsum(named, 0), 1), 0);
    cfx_tensor *each = cfx_mul(cfx_reshape(g, cfx_list(-1)), named);
    cfx_tensor *flat = cfx_new_zeros(g, cfx_list(n));
    c->out[0] = cfx_view(n ? cfx_scatter_add(flat, 0, place, each) : flat, c->args[2]);
}

static void decompose_masked_select_backward(cfx_op_call *c) {
    cfx_value all = cfx_broadcast_tensors(cfx_list(c->args[1], c->args[2]));
    if (op_failed())
        return;
    cfx_tensor *zeros = cfx_zeros_like(cfx_tensor_at(all, 0));
    c->out[0] = cfx_masked_scatter(zeros, c->args[2], c->args[0]);
}

CFX_OP(index_select_backward) = {
    "aten::index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> "
    "Tensor",
    NULL, .decompose = decompose_index_select_backward, .effects = CFX_COMPOSITE};
CFX_OP(gather_backward) = {"aten::gather_backward(Tensor grad, Tensor self, int dim, Tensor index, "
                           "bool sparse_grad) -> Tensor",
                           NULL, .decompose = decompose_gather_backward, .effects = CFX_COMPOSITE};
CFX_OP(cummaxmin_backward) = {
    "aten::cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor", NULL,
    .decompose = decompose_cummaxmin_backward, .effects = CFX_COMPOSITE};
CFX_OP(value_selecting_reduction_backward) = {
    "aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] "
    "sizes, bool keepdim) -> Tensor",
    NULL, .decompose = decompose_value_selecting, .effects = CFX_COMPOSITE};
CFX_OP(masked_scatter_backward) = {
    "aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
    NULL, .decompose = decompose_masked_scatter_backward};
CFX_OP(masked_select_backward) = {
    "aten::masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor", NULL,
    .decompose = decompose_masked_select_backward, .effects = CFX_COMPOSITE};
