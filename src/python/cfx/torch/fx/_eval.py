"""Generated code as functions: compiled under a name of its own, so that tracebacks show its
lines."""
import itertools
import linecache
import traceback
import types

from cfx._functions import torch

from .graph import _is_from_torch


class _EvalCacheLoader:
    """The sources of generated code, for linecache."""

    def __init__(self):
        self.eval_cache = {}
        self.numbers = itertools.count()

    def cache(self, src, globals_, co_fields=None):
        key = f"<eval_with_key>.{next(self.numbers)}"
        if co_fields and "co_filename" in co_fields:
            if "co_firstlineno" not in co_fields or "co_name" not in co_fields:
                key = co_fields["co_filename"]
            else:
                key += (f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in "
                        f"{co_fields['co_name']}")
        self.eval_cache[key] = src
        linecache.lazycache(key, {**globals_, "__file__": key, "__name__": key,
                                  "__loader__": self})
        return key

    def get_source(self, name):
        return self.eval_cache.get(name)


_loader = _EvalCacheLoader()


def _exec_with_source(src, globals_, co_fields=None):
    key = _loader.cache(src, globals_, co_fields)
    exec(compile(src, key, "exec"), globals_)


def _method_from_src(method_name, src, globals_, co_fields=None):
    names = dict(globals_)
    _exec_with_source(src, names, co_fields)
    return names.pop(method_name)


def _forward_from_src(src, globals_, co_fields=None):
    """The function forward of generated code."""
    return _method_from_src("forward", src, globals_, co_fields)


class LazyForward:
    """forward of a class: compiled when it is first asked for, since graphs are often changed again
    before somebody calls them."""

    def __init__(self, src, globals_, co_fields):
        self._how = src, globals_, co_fields

    def __get__(self, instance, owner=None):
        forward = _forward_from_src(*self._how)
        for cls in (owner or type(instance)).__mro__:
            if vars(cls).get("forward") is self:
                cls.forward = forward
                break
        return forward if instance is None else forward.__get__(instance, owner)


def _error_message(frame):
    """The lines around the one of generated code that failed."""
    n = frame.lineno
    lines = linecache.getlines(frame.filename)
    text = ("Call using an FX-traced Module, "
            f"line {n} of the traced Module's generated forward function:")
    return "\n".join([traceback.format_exc(), text, "".join(lines[n - 2:n]),
                      "~" * len(frame.line) + "~~~ <--- HERE", "\n".join(lines[n:n + 2])])


# ---- imports for code that is saved --------------------------------------------------------------

_BUILTINS = {"inf": "from math import inf", "nan": "from math import nan",
             "NoneType": "NoneType = type(None)", "torch": "import torch",
             "device": "from torch import device",
             "fx_pytree": "import torch.fx._pytree as fx_pytree",
             "pytree": "import torch.utils._pytree as pytree"}


def _import_line(name, obj):
    if name in _BUILTINS:
        line = _BUILTINS[name]
        package = torch().__name__
        if package != "torch" and "torch" in line:
            line = "import cfx.torch as torch" if name == "torch" else \
                line.replace("torch", package, 1)
        return line
    if isinstance(obj, types.ModuleType):
        return f"import {obj.__name__} as {name}"
    if obj is ...:
        return f"{name} = ..."
    if _is_from_torch(obj) and getattr(obj, "__module__", None) is None:
        return _BUILTINS["torch"]
    module, attr = obj.__module__, getattr(obj, "__qualname__", getattr(obj, "__name__", name))
    if module == "typing" and not attr.isidentifier():
        attr = name.rpartition("_")[2]
    return f"from {module} import {attr} as {name}"


def import_block(globals_):
    """The lines that give generated code its names."""
    return "\n".join(sorted({_import_line(n, o) for n, o in globals_.items()}))
