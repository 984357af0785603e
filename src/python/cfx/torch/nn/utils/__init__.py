"""torch.nn.utils: norms of gradients, vectors of parameters, fused weights."""
import cfx
from cfx import _cfx

from . import fusion, rnn  # noqa: F401
from .fusion import (fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval,  # noqa: F401
                     fuse_linear_bn_weights)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales gradients so that their norm together is at most max_norm; the norm there was."""
    params = _with_grad(parameters)
    if not params:
        return cfx.tensor(0.0)
    total = cfx.tensor(_cfx.clip_norm(params, max_norm, norm_type))
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` "
                           f"is "
                           "non-finite, so it cannot be clipped. To disable this error and scale "
                           "the gradients by the non-finite norm anyway, set "
                           "`error_if_nonfinite=False`")
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Brings every element of gradients into -clip_value..clip_value."""
    params = _with_grad(parameters)
    if params:
        _cfx.clip_value(params, clip_value)


def _with_grad(parameters):
    params = [parameters] if isinstance(parameters, cfx.Tensor) else list(parameters)
    return [p for p in params if p.grad is not None]


def parameters_to_vector(parameters):
    return cfx.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    at = 0
    for p in parameters:
        p.data = vec[at:at + p.numel()].view_as(p).data
        at += p.numel()
