"""Modes of gradients: no_grad, enable_grad, inference_mode, set_grad_enabled."""
import functools

from . import _cfx


class _GradMode:
    """A context, and a decorator, in which grad mode is another."""

    _mode = 0

    def __enter__(self):
        self._was = _cfx.set_grad_mode(self._mode)
        return self

    def __exit__(self, *error):
        _cfx.set_grad_mode(self._was)

    def __call__(self, f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            with self.__class__.__new__(self.__class__)._like(self):
                return f(*args, **kwargs)

        return inner

    def _like(self, other):
        self.__dict__.update(other.__dict__)
        return self

    def __new__(cls, f=None, *args, **kwargs):
        o = object.__new__(cls)
        if callable(f) and not isinstance(f, bool):
            return cls.__call__(o, f)
        return o


class no_grad(_GradMode):
    """with no_grad(): nothing is recorded for gradients."""

    __module__ = "torch"
    _mode = 1


class enable_grad(_GradMode):
    __module__ = "torch"
    _mode = 0


class inference_mode(_GradMode):
    """As no_grad, without any bookkeeping."""

    __module__ = "torch"
    _mode = 2

    def __init__(self, mode=True):
        self._mode = 2 if mode else _cfx.get_grad_mode()


class set_grad_enabled(_GradMode):
    """Sets grad mode at once, and back at the end of a with block."""

    __module__ = "torch"

    def __init__(self, mode):
        self._mode = 0 if mode else 1
        self._was = _cfx.set_grad_mode(self._mode)

    def __enter__(self):
        _cfx.set_grad_mode(self._mode)
        return self


def is_grad_enabled():
    return _cfx.get_grad_mode() == 0


def is_inference_mode_enabled():
    return _cfx.get_grad_mode() == 2
