"""torch.overrides: __torch_function__, function modes, and what functions are called."""
import contextlib
import functools
import types

from cfx import _cfx
from cfx._functions import find, torch as _torch
from cfx._tensor import Tensor


class TorchFunctionMode:
    """A context in which __torch_function__(func, types, args, kwargs) sees every call."""

    inner = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _cfx.push_mode(self, False)
        return self

    def __exit__(self, *error):
        _cfx.pop_mode(False)

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    modes = _cfx.modes(False)
    return modes[-1] if modes else None


def _get_current_function_mode_stack():
    return _cfx.modes(False)


@contextlib.contextmanager
def enable_reentrant_dispatch():
    yield


def has_torch_function(relevant_args):
    return _cfx.is_overridden(*relevant_args)


def has_torch_function_unary(arg):
    return _cfx.is_overridden(arg)


def has_torch_function_variadic(*args):
    return _cfx.is_overridden(*args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks those among the arguments that override a function."""
    return _cfx.override(public_api, args, kwargs)


def _refusal(func, who):
    """What is said where nobody among the arguments takes a call: functions of C's and functions of
    Python's have sentences of their own."""
    name = resolve_name(func) or f"{func.__module__}.{func.__name__}"
    if isinstance(func, (_cfx.Function, _cfx.Method)) and \
            not getattr(func, "_path", "").startswith("torch.nn.functional."):
        mode = _get_current_function_mode()
        lines = "" if mode is None else f"  - mode object {mode}\n"
        lines += "".join(f"  - tensor subclass {type(w)}\n" for w in who
                         if type(w) is not Tensor)
        return (f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
                f"NotImplemented:\n\n{lines}\n"
                "For more information, try re-running with TORCH_LOGS=not_implemented")
    mode = _get_current_function_mode()
    return (f"no implementation found for '{name}' on types that implement __torch_function__: "
            f"{[type(w) for w in who]}" + (f" nor in mode {mode}" if mode is not None else ""))


def is_tensor_like(inp):
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func):
    """Whether a function is one of Tensor's."""
    if isinstance(func, _cfx.Method):
        return True
    name = getattr(func, "__name__", None)
    if name == "__get__":
        return True
    return isinstance(func, (types.FunctionType, types.MethodDescriptorType,
                             types.WrapperDescriptorType)) and name is not None and \
        (Tensor.__dict__.get(name) is func or _cfx.TensorBase.__dict__.get(name) is func)


def wrap_torch_function(dispatcher):
    def decorate(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if _cfx.is_overridden(*relevant):
                return _cfx.override(wrapped, args, kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def resolve_name(f):
    """The path by which a function of torch's is known, or None."""
    if isinstance(f, _cfx.OpOverload):
        return str(f)
    if isinstance(f, _cfx.Method):
        return f"torch.{f._path}"
    if isinstance(f, _cfx.Function):
        return _public_path(f._path)
    if getattr(f, "_is_packet", False):
        return str(f)
    path = _cfx.known.get(f) if getattr(f, "__hash__", None) else None
    if path:
        return path if path.startswith("torch") else None
    name = getattr(f, "__name__", None)
    if name in ("__get__", "__set__"):
        return _attribute_path(f, name)
    if name and name[0] != "_" and getattr(f, "__module__", None) == "torch" and \
            getattr(_torch(), name, None) is f:
        return f"torch.{name}"
    if name and Tensor.__dict__.get(name) is f or \
            name and _cfx.TensorBase.__dict__.get(name) is f:
        return f"torch.Tensor.{name}"
    return None


def _attribute_path(f, name):
    """torch.Tensor.shape.__get__ of an attribute's accessor."""
    owner = getattr(f, "__self__", None)
    if isinstance(owner, property):  # whose name, from Python 3.13 on, is that of its function
        own = next((n for n, v in vars(Tensor).items() if v is owner), None)
    else:
        own = getattr(owner, "__name__", None)
    return f"torch.Tensor.{own}.{name}" if own else None


def _public_path(path):
    if path.startswith("torch._C._nn."):
        return "torch.nn.functional." + path[13:]
    if path.startswith("torch._C._"):
        module, _, name = path[10:].partition(".")
        return f"torch.{module}.{name[len(module) + 1:]}"
    return path


@functools.lru_cache(None)
def get_overridable_functions():
    """Namespace to the functions in it that can be overridden."""
    from . import nn

    out = {Tensor: [], nn.functional: []}
    for s in _cfx.spellings():
        try:
            if s.startswith("Tensor."):
                out[Tensor].append(getattr(Tensor, s[7:]))
            elif s.startswith("torch.nn.functional."):
                out[nn.functional].append(find(s))
        except AttributeError:
            continue
    return out


def get_ignored_functions():
    return set()


def get_testing_overrides():
    return {}


def _disabled_torch_function_impl(func, types, args=(), kwargs=None):
    was = _cfx.set_overrides(False)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _cfx.set_overrides(was)
