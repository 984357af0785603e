"""torch.amp.autocast_mode: the context, and what it is in a graph."""
import functools
import warnings

from cfx import _cfx
from cfx._tensor import Tensor

from .. import _basics
from ..utils._pytree import tree_map

_UNSUPPORTED = ("In {0} autocast, but the target dtype is not supported. Disabling autocast.\n"
                "{0} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.")


class autocast:
    """A context, and a decorator: products and convolutions inside compute in `dtype`."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        unknown = enabled and dtype not in (None, _cfx.bfloat16, _cfx.float16)
        if unknown:
            warnings.warn(_UNSUPPORTED.format(device_type.upper()), stacklevel=2)
        self.device, self.fast_dtype, self._enabled = device_type, dtype, enabled and not unknown

    def __enter__(self):
        _cfx.autocast_begin(self.device, self.fast_dtype, self._enabled)
        _basics.autocast_regions.append((self.device, self._enabled))
        return self

    def __exit__(self, *error):
        _basics.autocast_regions.pop()
        _cfx.autocast_end()

    def __call__(self, f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            with autocast(self.device, self.fast_dtype, self._enabled):
                return f(*args, **kwargs)

        return inner


def _enter_autocast(*vals):
    """Begins a region; what _exit_autocast is given."""
    if _cfx.is_overridden(*vals):
        return _cfx.override(_enter_autocast, vals, {})
    return autocast(*vals).__enter__()


def _exit_autocast(mode):
    if _cfx.is_overridden(mode):
        return _cfx.override(_exit_autocast, (mode,), {})
    mode.__exit__()


def is_autocast_available(device_type):
    return device_type == "cpu"


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """A decorator of forward of an autograd.Function: its tensors come in a dtype, and it runs
    outside the region; without one it runs in the region in which it is called."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx, *args, **kwargs):
        ctx._fwd_used_autocast = on = _basics.is_autocast_enabled(device_type)
        if cast_inputs is None or not on:
            return fwd(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        args, kwargs = tree_map(lambda x: _cast(x, device_type, cast_inputs), (args, kwargs))
        with autocast(device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return forward


def _cast(x, device_type, dtype):
    right = isinstance(x, Tensor) and x.is_floating_point() and x.device.type == device_type
    return x.to(dtype) if right and x.dtype is not _cfx.float64 else x


def custom_bwd(bwd=None, *, device_type):
    """A decorator of its backward, which runs in a region where forward did."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx, *grads):
        with autocast(device_type, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *grads)

    return backward
