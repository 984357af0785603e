/* Convolutions under the names of their kernels in PyTorch: each is a convolution of some form. */
#include <cfx/ops.h>

#include "../ops.h"

CFX_FAMILY(CONV);

/* The same number for each dimension that a stride is given for. */
static cfx_value for_each(const cfx_op_call *c, int stride, int64_t number) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < arg_count(c, stride); i++)
        cfx_list_append(cfx_as_list(list), cfx_int(number));
    return list;
}

/* (self, weight, kernel_size, bias, stride, padding, dilation?) */
static void decompose_slow(cfx_op_call *c) {
    cfx_value *a = c->args, dilation = c->nargs > 6 ? a[6] : for_each(c, 4, 1);
    c->out[0] = cfx_convolution(a[0], a[1], a[3], a[4], a[5], dilation, cfx_bool(false),
                                for_each(c, 4, 0), 1);
}

/* (self, weight, kernel_size, bias, stride, padding, output_padding, dilation) */
static void decompose_transposed(cfx_op_call *c) {
    cfx_value *a = c->args;
    c->out[0] = cfx_convolution(a[0], a[1], a[3], a[4], a[5], a[7], cfx_bool(true), a[6], 1);
}

/* (grad_output, self, weight, kernel_size, stride, padding, output_mask) */
static void decompose_slow_backward(cfx_op_call *c) {
    cfx_value *a = c->args, one = cfx_list(1, 1), zero = cfx_list(0, 0);
    const cfx_tensor *w = arg_tensor(c, 2);
    cfx_value r = cfx_convolution_backward(a[0], a[1], a[2], cfx_list(w->ndim ? w->shape[0] : 0),
                                           a[4], a[5], one, cfx_bool(false), zero, 1, a[6]);
    for (int i = 0; i < 3 && !op_failed(); i++)
        c->out[i] = cfx_tensor_at(r, i);
}

/* Time, batch and channels, in this order; the weight is (time, from, to). */
static void decompose_tbc(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    if (x->ndim != 3 || w->ndim != 3) {
        op_fail(c, x->ndim != 3 ? "Input must have 3 dims: time, batch, in_channel"
                                : "Weight tensor must have 3 dims: kernel_width, in_channels, "
                                  "out_channels.");
        return;
    }
    cfx_tensor *y = cfx_conv1d(cfx_permute(x, cfx_list(1, 2, 0)), cfx_permute(w, cfx_list(2, 1, 0)),
                               c->args[2], cfx_list(1), cfx_list(c->args[3]));
    c->out[0] = cfx_contiguous(cfx_permute(y, cfx_list(2, 0, 1)));
}

CFX_OP(_slow_conv2d_forward) = {
    "aten::_slow_conv2d_forward(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias, "
    "SymInt[2] stride, SymInt[2] padding) -> Tensor",
    NULL, .decompose = decompose_slow, .out = "output output"};
CFX_OP(_slow_conv2d_backward_output_mask) = {
    "aten::_slow_conv2d_backward.output_mask(Tensor grad_output, Tensor self, Tensor weight, "
    "SymInt[2] kernel_size, SymInt[2] stride, SymInt[2] padding, bool[3] output_mask) -> (Tensor "
    "grad_input, Tensor grad_weight, Tensor grad_bias)",
    NULL, .decompose = decompose_slow_backward,
    .out = "aten::_slow_conv2d_backward.output_mask_out(Tensor grad_output, Tensor self, Tensor "
    "weight, SymInt[2] kernel_size, SymInt[2] stride, SymInt[2] padding, bool[3] output_mask, *, "
    "Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))"};
CFX_OP(thnn_conv2d) = {
    "aten::thnn_conv2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias=None, "
    "SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0]) -> Tensor",
    NULL, .decompose = decompose_slow, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(slow_conv3d) = {
    "aten::slow_conv3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias=None, "
    "SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0]) -> Tensor",
    NULL, .decompose = decompose_slow, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(slow_conv3d_forward) = {
    "aten::slow_conv3d_forward(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias, "
    "SymInt[3] stride, SymInt[3] padding) -> Tensor",
    NULL, .decompose = decompose_slow, .out = "output output"};
CFX_OP(slow_conv_dilated2d) = {
    "aten::slow_conv_dilated2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? "
    "bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1]) -> "
    "Tensor",
    NULL, .decompose = decompose_slow, .out = "out"};
CFX_OP(slow_conv_dilated3d) = {
    "aten::slow_conv_dilated3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? "
    "bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, "
    "1, 1]) -> Tensor",
    NULL, .decompose = decompose_slow, .out = "out"};
CFX_OP(slow_conv_transpose2d) = {
    "aten::slow_conv_transpose2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? "
    "bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, "
    "0], SymInt[2] dilation=[1, 1]) -> Tensor",
    NULL, .decompose = decompose_transposed, .out = "out"};
CFX_OP(slow_conv_transpose3d) = {
    "aten::slow_conv_transpose3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? "
    "bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] "
    "output_padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1]) -> Tensor",
    NULL, .decompose = decompose_transposed, .out = "out"};
CFX_OP(conv_tbc) = {"aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
                    "torch.conv_tbc", .decompose = decompose_tbc, .autocast = CFX_CAST_LOW,
                    .out = "out"};
