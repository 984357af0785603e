"""Batch norms that do not learn, as part of the weights of the layer before them."""
import copy

import cfx

from ..parameter import Parameter


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """(weight, bias) of a convolution with the batch norm behind it, of the dtypes it has."""
    bias_dtype = conv_w.dtype if conv_b is None else conv_b.dtype
    conv_b = cfx.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = cfx.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = cfx.zeros_like(bn_rm) if bn_b is None else bn_b
    factor = cfx.rsqrt(bn_rv + bn_eps)
    shape = [1, -1] if transpose else [-1, 1]
    shape += [1] * (conv_w.dim() - 2)
    weight = conv_w * (bn_w * factor).reshape(shape)
    bias = (conv_b - bn_rm) * factor * bn_w + bn_b
    return (Parameter(weight.detach().to(conv_w.dtype), conv_w.requires_grad),
            Parameter(bias.detach().to(bias_dtype), conv_b.requires_grad))


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """The convolution with the batch norm in its weights."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose)
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    bias_dtype = linear_w.dtype if linear_b is None else linear_b.dtype
    linear_b = cfx.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * cfx.rsqrt(bn_rv + bn_eps)
    weight = (linear_w * scale.unsqueeze(-1)).detach().to(linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).detach().to(bias_dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_b.requires_grad)


def fuse_linear_bn_eval(linear, bn):
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    return fused
