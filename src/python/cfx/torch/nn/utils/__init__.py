"""torch.nn.utils: norms of gradients, vectors of parameters, fused weights."""
import importlib

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


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of several tensors together."""
    tensors = [tensors] if isinstance(tensors, cfx.Tensor) else list(tensors)
    if not tensors:
        return cfx.tensor(0.0)
    return cfx.stack([t.norm(norm_type) for t in tensors]).norm(norm_type)


def skip_init(module_cls, *args, **kwargs):
    """A module of the class; its parameters are whatever they are."""
    return module_cls(*args, **{k: v for k, v in kwargs.items() if k != "device"})


def __getattr__(name):
    """Modules of this package that hold on to torch.nn are found when they are asked for."""
    if name in ("parametrizations", "parametrize", "prune", "stateless"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("weight_norm", "remove_weight_norm", "spectral_norm", "remove_spectral_norm"):
        return getattr(importlib.import_module(f"{__name__}._norms"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
