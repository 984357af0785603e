/* Batch normalisation under its other names: with statistics that are updated or left alone, and
 * the index of the kernel that was chosen. All are native_batch_norm. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(NORM);

/* What another kernel than the CPU's would keep for its backward pass. */
static cfx_tensor *nothing_kept(cfx_op_call *c) {
    return cfx_new_empty(c->args[0], cfx_list(0), CFX_KW(dtype, cfx_u8));
}

static void take(cfx_op_call *c, cfx_value r, int n) {
    for (int i = 0; i < n && !op_failed(); i++)
        c->out[i] = cfx_tensor_at(r, i);
}

/* (input, weight, bias, running_mean, running_var, momentum, eps) */
static void norm(cfx_op_call *c, bool update) {
    cfx_value *a = c->args;
    take(c, cfx_native_batch_norm(a[0], a[1], a[2], a[3], a[4], cfx_bool(update), a[5], a[6]), 3);
    c->out[3] = nothing_kept(c);
}

static void decompose_with_update(cfx_op_call *c) { norm(c, true); }
static void decompose_no_update(cfx_op_call *c) { norm(c, false); }

static void decompose_functional(cfx_op_call *c) {
    cfx_value *a = c->args;
    cfx_value r = cfx_aten__native_batch_norm_legit_functional(a[0], a[1], a[2], a[3], a[4],
                                                               cfx_bool(true), a[5], a[6]);
    take(c, r, 3);
    c->out[3] = nothing_kept(c);
    for (int i = 4; i < 6 && !op_failed(); i++)
        c->out[i] = cfx_tensor_at(r, i - 1);
}

static void decompose_backward(cfx_op_call *c) {
    cfx_value *a = c->args;
    take(c, cfx_native_batch_norm_backward(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8],
                                           a[9]), 3);
}

static void decompose_impl_index(cfx_op_call *c) {
    cfx_value *a = c->args;
    cfx_value r = cfx_native_batch_norm(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    if (!op_failed())
        c->result = cfx_tuple(cfx_at(r, 0), cfx_at(r, 1), cfx_at(r, 2), nothing_kept(c), 0);
}

static void decompose_impl_index_backward(cfx_op_call *c) {
    cfx_value *a = c->args;
    take(c, cfx_native_batch_norm_backward(a[2], a[1], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
                                           a[10]), 3);
}

CFX_OP(_batch_norm_with_update) = {
    "aten::_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) "
    "running_mean, Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, "
    "Tensor)",
    NULL, .decompose = decompose_with_update,
    .out = "aten::_batch_norm_with_update.out(Tensor input, Tensor? weight, Tensor? bias, "
    "Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps, *, Tensor(d!) "
    "out, Tensor(e!) save_mean, Tensor(f!) save_invstd, Tensor(g!) reserve) -> (Tensor(d!), "
    "Tensor(e!), Tensor(f!), Tensor(g!))"};
CFX_OP(_batch_norm_with_update_functional) = {
    "aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor "
    "running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, "
    "Tensor, Tensor running_mean_out, Tensor running_var_out)",
    NULL, .decompose = decompose_functional};
CFX_OP(_batch_norm_no_update) = {
    "aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    NULL, .decompose = decompose_no_update, .out = "out"};
CFX_OP(batch_norm_backward) = {
    "aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] "
    "output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)",
    NULL, .decompose = decompose_backward};
CFX_OP(_batch_norm_impl_index) = {
    "aten::_batch_norm_impl_index(Tensor input, Tensor? weight, Tensor? bias, Tensor? "
    "running_mean, Tensor? running_var, bool training, float momentum, float eps, bool "
    "cudnn_enabled) -> (Tensor, Tensor, Tensor, Tensor, int)",
    NULL, .decompose = decompose_impl_index, .updates = "training", .effects = CFX_COMPOSITE};
CFX_OP(_batch_norm_impl_index_backward) = {
    "aten::_batch_norm_impl_index_backward(int impl_index, Tensor input, Tensor grad_output, "
    "Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? "
    "save_var_transform, bool train, float eps, bool[3] output_mask, Tensor reservedSpace) -> "
    "(Tensor, Tensor, Tensor)",
    NULL, .decompose = decompose_impl_index_backward, .effects = CFX_COMPOSITE};
