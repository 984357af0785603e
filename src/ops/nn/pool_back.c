/* Gradients of pooling. Averages have backward operators; where maxima were kept, gradients
 * go to their places, and gradients of those gradients are read from the same places. */
#include "../back.h"
#include "pool.h"

/* Whether the operator of this call pools over three dims: its name says so. */
static bool is_3d(const cfx_back *b) { return strstr(cfx__op_info_of(b->op)->schema->name, "3d"); }

/* x [..., planes] at the places that index names, plane by plane over the last `dims` dims. */
static cfx_tensor *read_places(cfx_tensor *x, cfx_tensor *index, int dims) {
    cfx_tensor *flat = cfx_gather(cfx_flatten(x, -dims, -1), -1, cfx_flatten(index, -dims, -1));
    return cfx_view(flat, sizes_of(index));
}

/* ---- maxima ---------------------------------------------------------------------------------- */

void grad_max_pool(cfx_back *b) {
    if (!b->gout[0])
        return;
    cfx_op *op = is_3d(b) ? &cfx_op_max_pool3d_with_indices_backward
                          : &cfx_op_max_pool2d_with_indices_backward;
    b->gin[0] = cfx_op_do(op, b->gout[0], b->args[0], b->args[1], b->args[2], b->args[3],
                          b->args[4], b->args[5], b->out[1]);
}

void grad_adaptive_max_pool(cfx_back *b) {
    if (!b->gout[0])
        return;
    cfx_op *op = is_3d(b) ? &cfx_op_adaptive_max_pool3d_backward
                          : &cfx_op_adaptive_max_pool2d_backward;
    b->gin[0] = cfx_op_do(op, b->gout[0], b->args[0], b->out[1]);
}

void grad_fractional_max_pool(cfx_back *b) {
    if (!b->gout[0])
        return;
    cfx_op *op = is_3d(b) ? &cfx_op_fractional_max_pool3d_backward
                          : &cfx_op_fractional_max_pool2d_backward;
    b->gin[0] = cfx_op_do(op, b->gout[0], b->args[0], b->args[1], b->args[2], b->out[1]);
}

/* Of operators that put their first argument where their last one, the places, says. */
void grad_max_pool_backward(cfx_back *b) {
    back_give(b, 0, read_places(b->gout[0], back_arg(b, b->nargs - 1), is_3d(b) ? 3 : 2));
}

void grad_max_unpool(cfx_back *b) {
    back_give(b, 0, read_places(b->gout[0], back_arg(b, 1), is_3d(b) ? 3 : 2));
}

/* ---- averages -------------------------------------------------------------------------------- */

void grad_avg_pool(cfx_back *b) {
    cfx_op *op = is_3d(b) ? &cfx_op_avg_pool3d_backward : &cfx_op_avg_pool2d_backward;
    b->gin[0] = cfx_op_do(op, b->gout[0], b->args[0], b->args[1], b->args[2], b->args[3],
                          b->args[4], b->args[5], b->args[6]);
}

void grad_avg_pool_backward(cfx_back *b) {
    cfx_op *op = is_3d(b) ? &cfx_op_avg_pool3d : &cfx_op_avg_pool2d;
    b->gin[0] = cfx_op_do(op, b->gout[0], b->args[2], b->args[3], b->args[4], b->args[5],
                          b->args[6], b->args[7]);
}

void grad_adaptive_avg_pool(cfx_back *b) {
    cfx_op *op = is_3d(b) ? &cfx_op__adaptive_avg_pool3d_backward
                          : &cfx_op__adaptive_avg_pool2d_backward;
    b->gin[0] = cfx_op_do(op, b->gout[0], b->args[0]);
}

void grad_adaptive_avg_pool_backward(cfx_back *b) {
    const int dims = is_3d(b) ? 3 : 2;
    const cfx_tensor *grad = back_arg(b, 0);
    cfx_op *op = dims == 3 ? &cfx_op__adaptive_avg_pool3d : &cfx_op__adaptive_avg_pool2d;
    b->gin[0] = cfx_op_do(op, b->gout[0], cfx_ints_value(dims, grad->shape + grad->ndim - dims));
}
