"""torch.library.custom_op: a function of Python's as an operator."""
import weakref

from cfx import _cfx

from . import _ops
from .infer_schema import infer_schema

__all__ = ["CustomOpDef", "custom_op"]

OPDEFS = weakref.WeakValueDictionary()


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes an operator "ns::name" of a function; a decorator where fn is left out. mutates_args:
    the names of the arguments that it writes to."""
    def make(f):
        ns, _, base = name.partition("::")
        if not base:
            raise ValueError(f"Expected `name` to be of the form \"namespace::name\", but got "
                             f"{name}")
        text = schema or infer_schema(f, mutates_args=mutates_args)
        return CustomOpDef(ns, base, text, f, device_types, tags or ())

    return make if fn is None else make(fn)


class CustomOpDef:
    """The operator that custom_op made; calling it calls that."""

    def __init__(self, namespace, name, schema, fn, device_types=None, tags=()):
        self._namespace, self._name = namespace, name
        self._init_fn = fn
        self._qualname = f"{namespace}::{name}"
        self.__name__ = name
        self._definition = _ops.define(f"{self._qualname}{schema}", tags)
        self._definition.replaceable = True  # as when a cell of a notebook runs again
        for device in (device_types,) if isinstance(device_types, (str, type(None))) \
                else device_types:
            self.register_kernel(device)(fn)
        OPDEFS[self._qualname] = self

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    @property
    def _opoverload(self):
        return self._definition.overload()

    def __call__(self, *args, **kwargs):
        return self._definition.overload()(*args, **kwargs)

    def register_kernel(self, device_types, fn=None, /):
        """What it does on devices; None: on all."""
        devices = (device_types,) if isinstance(device_types, (str, type(None))) else device_types

        def register(f):
            for device in devices:
                key = "CPU" if device is None else \
                    {"cpu": "CPU"}.get(device, device)
                self._definition.set(key, _without_aliases(self._qualname, f))
            return f

        return register if fn is None else register(fn)

    def register_fake(self, fn, /):
        """What it gives for tensors without numbers."""
        self._definition.set("Fake", fn)
        return fn

    register_abstract = register_fake

    def register_autograd(self, backward, /, *, setup_context=None):
        """Its gradient; see torch.library.register_autograd."""
        self._definition.set("Backward", (backward, setup_context))

    def register_vmap(self, func=None):
        """cfx has no vmap: what is registered is never called."""
        return (lambda f: f) if func is None else func


def _tensors(x):
    if isinstance(x, _cfx.TensorBase):
        yield x
    elif isinstance(x, (tuple, list)):
        for i in x:
            yield from _tensors(i)


def _without_aliases(name, f):
    """f, which may not give its arguments, or one thing twice."""
    def kernel(*args, **kwargs):
        result = f(*args, **kwargs)
        seen = [t for a in (*args, *kwargs.values()) for t in _tensors(a)]
        for t in _tensors(result):
            if any(t is other or (t.numel() and t._shares(other)) for other in seen):
                raise RuntimeError(
                    f"{name} (with implementation in {f.__module__}): The output of this custom "
                    "operator (1) must not also be an input to this custom operator and (2) may "
                    "not alias any inputs to this custom operator or other returns. The most "
                    "common way to trigger this error is if we have y = custom_op(x) and y and x "
                    "are the same Tensor. Please instead return a clone of the offending output "
                    "tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                    "return y.")
            seen.append(t)
        return result

    return kernel
