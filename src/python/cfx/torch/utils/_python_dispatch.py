"""Dispatch modes: contexts that see the ATen overloads that are called."""
import contextlib

from cfx import _cfx


class TorchDispatchMode:
    """A context in which __torch_dispatch__(func, types, args, kwargs) sees every overload."""

    def __init__(self, _dispatch_key=None):
        pass

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _cfx.push_mode(self, True)
        return self

    def __exit__(self, *error):
        _cfx.pop_mode(True)

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode():
    modes = _cfx.modes(True)
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack():
    return _cfx.modes(True)


@contextlib.contextmanager
def _disable_current_modes():
    """Without the dispatch modes of this thread."""
    modes = []
    while _cfx.modes(True):
        modes.append(_cfx.pop_mode(True))
    try:
        yield modes
    finally:
        for m in reversed(modes):
            _cfx.push_mode(m, True)


def is_traceable_wrapper_subclass(t):
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_in_torch_dispatch_mode(include_infra_modes=True):
    return bool(_cfx.modes(True))


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    names, context = t.__tensor_flatten__()
    inner = {n: callback(n, getattr(t, n)) for n in names}
    return type(t).__tensor_unflatten__(inner, context, outer_size or t.size(),
                                        outer_stride or t.stride())


def return_and_correct_aliasing(func, args, kwargs, out):
    return out
