"""torch.library: operators of the user's own, with a schema and functions of Python's behind it."""
import contextlib

from cfx import _cfx

from ._library import _ops
from ._library.custom_ops import CustomOpDef, custom_op  # noqa: F401
from ._library.fake_impl import get_ctx  # noqa: F401
from ._library.infer_schema import infer_schema  # noqa: F401
from ._library.opcheck import opcheck  # noqa: F401

__all__ = ["Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
           "impl_abstract", "infer_schema", "opcheck", "register_autograd", "register_fake",
           "register_kernel", "register_torch_dispatch", "register_vmap"]


def composite():
    """The overloads that are made of other operators."""
    return [d.overload() for d in _ops.definitions() if d.is_composite]


def fallthrough_kernel():
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Operators of one namespace: kind is "DEF", "FRAGMENT" or "IMPL"."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim",) or (kind == "DEF" and ns == "aten"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with "
                             "another name.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined = []
        self._undo = []

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema, alias_analysis="", *, tags=()):
        """Adds an operator: "sin(Tensor x) -> Tensor". Its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError("a library of the kind IMPL defines no operators")
        made = _ops.define(f"{self.ns}::{schema.strip()}", tags)
        self._defined.append(made)
        return made.name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """Says what an operator does on a device: "CPU", "Meta", "CompositeImplicitAutograd"..."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type "
                            f"{type(fn)}")
        if not isinstance(op_name, str):
            op_name = op_name._name
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        self._undo.append(_ops.find(name).set(dispatch_key or self.dispatch_key or
                                              "CompositeImplicitAutograd", fn))

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        self._undo.append(_ops.find(name).set("Fake", fn))

    def _destroy(self):
        for undo in reversed(self._undo):
            undo()
        for made in self._defined:
            _ops.remove(made)
        self._defined, self._undo = [], []


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def _name_of(op):
    """"ns::name" of a text, an overload or what custom_op made."""
    if isinstance(op, str):
        return op
    return op._name if isinstance(op, _cfx.OpOverload) else op._qualname


def define(qualname, schema, *, lib=None, tags=()):
    """Adds the operator "ns::name" with the schema "(Tensor x) -> Tensor"."""
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got "
                         f"{type(qualname)}")
    ns, _, name = qualname.partition("::")
    if not name:
        raise ValueError(f"Expected `qualname` to be of the form \"namespace::name\", but got "
                         f"{qualname}")
    if lib is not None:
        lib.define(name + schema, tags=tags)
    else:
        _ops.define(f"{ns}::{name}{schema}", tags)
    return lambda f: impl(qualname, "cpu", f, lib=lib)


_KEYS = {"cpu": "CPU", "default": "CompositeExplicitAutograd"}


def impl(qualname, types, func=None, *, lib=None):
    """What an operator does on devices ("cpu", "default", a dispatch key, or several). The older
    way to say it: impl(library, "name", "CPU")."""
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def by_library(f):
            library.impl(name, f, key)
            return f

        return by_library
    types = (types,) if isinstance(types, str) else tuple(types)

    def register(f):
        for t in types:
            undo = _ops.find(_name_of(qualname)).set(_KEYS.get(t, t), f)
            if lib is not None:
                lib._undo.append(undo)
        return f

    return register if func is None else register(func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """What an operator does on devices; None: on all."""
    if device_types is None:
        device_types = "default"
    return impl(_name_of(op), device_types, func, lib=lib)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """What an operator gives for tensors without numbers."""
    def register(f):
        undo = _ops.find(_name_of(op)).set("Fake", f)
        if lib is not None:
            lib._undo.append(undo)
        return f

    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """The gradient: backward(ctx, *gradients), where setup_context(ctx, inputs, output) kept what
    it needs."""
    undo = _ops.find(_name_of(op)).set("Backward", (backward, setup_context))
    if lib is not None:
        lib._undo.append(undo)


def register_vmap(op, func=None, /, *, lib=None):
    """cfx has no vmap: what is registered is kept and never called."""
    return (lambda f: f) if func is None else func


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    raise NotImplementedError("cfx asks the __torch_dispatch__ of modes alone; override it there")
