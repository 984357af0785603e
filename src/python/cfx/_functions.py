"""Functions by their names: what torch.relu, operator.add and torch.ops.aten.add.Tensor stand for.

The registry of the C library knows every operator under the paths that Python has for it. Here a
path becomes a callable, and a callable a path; nothing is listed by hand.
"""
import builtins
import importlib
import inspect
import keyword
import math
import operator
import re
import types

from . import _cfx

BUILTIN_METHOD, BUILTIN_FUNCTION = 0, 1

_found = {}  # path to callable
_schema = re.compile(r"^(\w+)::(\w+)(?:\.(\w+))?\((.*)\) -> (.*)$", re.S)


def torch():
    """The package that plays torch: cfx.torch, or torch itself under `python3 -m cfx`."""
    return importlib.import_module("cfx.torch")


# ---- from a path to a callable -------------------------------------------------------------------


def find(path):
    """The callable that a path names; AttributeError where there is none."""
    try:
        return _found[path]
    except KeyError:
        pass
    f = _find(path)
    _found[path] = f
    if not isinstance(f, str) and _cfx.canonical(path):
        _cfx.known[f] = path
    return f


def _find(path):
    root, _, rest = path.partition(".")
    if root in ("operator", "_operator"):
        return getattr(operator, rest)
    if root == "builtins":
        return getattr(builtins, rest)
    if root == "math":
        return getattr(math, rest)
    if root == "Tensor":
        return getattr(torch().Tensor, rest)
    if root in ("torch", "aten"):
        return _walk(path)
    found = _cfx.tree_class(path)
    if found is not None:
        return found
    raise AttributeError(f"nothing is called '{path}'")


def _walk(path):
    parts = path.split(".")
    if parts[0] == "aten":
        parts = ["torch", "ops"] + parts
    at, name = torch(), parts[0]
    for part in parts[1:]:
        try:
            at = getattr(at, part)
        except AttributeError:
            if not isinstance(at, types.ModuleType):
                raise
            at = importlib.import_module(f"{at.__name__}.{part}")
    return at


# ---- from a callable to a path -------------------------------------------------------------------


def target_of(f):
    """(path, known): what a graph calls a callable, and whether the C library has an operator
    under that path."""
    path = qualified_name(f)
    text = re.sub(r"^_operator\.", "operator.", path)
    if text == path and "." not in path and getattr(builtins, path, None) is f:
        text = f"builtins.{path}"
    if _cfx.canonical(text) and find(text) is f:
        return text, True
    return text if text.startswith(("operator.", "builtins.")) else path, False


def qualified_name(f):
    """torch.fx's name for a callable: its module and name; builtins have no module."""
    name = getattr(f, "__name__", None)
    if name is None:
        name = type(f).__name__
        return f"{type(f).__module__}.{name}"
    if getattr(builtins, name, None) is f:
        return name
    if isinstance(f, (_cfx.Function, _cfx.Method)):
        path = f._path
        return f"torch.{path}" if path.startswith("Tensor.") else path
    if isinstance(f, _cfx.OpOverload):
        return f"torch.ops.{f}"
    if isinstance(f, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        if getattr(torch().Tensor, name, None) is f:
            return f"torch.Tensor.{name}"
    if name == "<lambda>":
        try:
            name = inspect.getsource(f).split("=")[0].strip()
        except Exception as e:
            raise RuntimeError("Unable to represent lambda") from e
    module = getattr(f, "__module__", None)
    if module is None:
        raise RuntimeError(f"cannot find module for {f}")
    if getattr(f, "__qualname__", "") == f"Tensor.{name}" and \
            f is getattr(torch().Tensor, name, None):
        return f"torch.Tensor.{name}"
    package = torch().__name__
    if module == package or module.startswith(package + "."):
        module = "torch" + module[len(package):]
    return f"{module.replace('torch._ops', 'torch.ops')}.{name}"


# ---- functions that PyTorch writes in Python -----------------------------------------------------


def split_schema(text):
    """The arguments of a schema as (type, name, default text or None, keyword only)."""
    arguments = _schema.match(text).group(4)
    out, depth, start, only = [], 0, 0, False
    for i, c in enumerate(arguments + ","):
        depth += (c in "([") - (c in ")]")
        if c != "," or depth:
            continue
        part = arguments[start:i].strip()
        start = i + 1
        if part == "*":
            only = True
        elif part and part != "...":
            head, _, default = part.partition("=")
            kind, _, name = head.strip().rpartition(" ")
            out.append((kind, name, default.strip() if "=" in part else None, only))
    return out


_CONSTANTS = {"Mean": "'mean'", "long": "torch.int64",
              "contiguous_format": "torch.contiguous_format"}


def _default(kind, text):
    text = _CONSTANTS.get(text, text)
    return text.replace('"', "'") if kind.startswith("str") else text


def signature(f_or_schema):
    """The parameters of a function as Python writes them: "input, p=0.5, training=True"."""
    schema = f_or_schema if isinstance(f_or_schema, str) else f_or_schema._schemas[0]
    parts, star = [], False
    for kind, name, default, only in split_schema(schema):
        if only and not star:
            parts.append("*")
            star = True
        name = name + "_" if keyword.iskeyword(name) else name
        parts.append(name if default is None else f"{name}={_default(kind, default)}")
    return ", ".join(parts)


def python_function(path, module):
    """A function that is one of Python's in PyTorch, torch.nn.functional.relu: it has a
    signature, and overrides are told of it; what has a default is passed on by name, as PyTorch's
    own do."""
    name = path.rpartition(".")[2]
    inner = _cfx.function(path, name, BUILTIN_FUNCTION)
    schema = inner._schemas[0].replace("Tensor self,", "Tensor input,", 1)
    given = []
    for kind, argument, default, only in split_schema(schema):
        given.append(argument if default is None and not only else f"{argument}={argument}")
    parameters = signature(schema)
    first = split_schema(schema)[0]
    if first[0] == "Tensor[]" and path.startswith("torch.functional."):  # meshgrid(x, y)
        given[0] = f"*{first[1]}"
        parameters = f"*{parameters.replace(', *', '', 1)}"
    text = f"def {name}({parameters}):\n    return _call({', '.join(given)})\n"
    names = {"_call": inner, "torch": torch(), "inf": math.inf, "nan": math.nan, "__name__": module}
    exec(compile(text, f"<{path}>", "exec"), names)
    f = names[name]
    f.__doc__ = inner.__doc__
    f.__module__ = module

    def public(shown):
        """What overrides are told was called, and what the path names."""
        inner._set_public(shown)
        _cfx.known[shown] = path
        _found[path] = shown

    public(f)
    f._public = public
    return f


def function(path, module):
    """What a namespace has under a path: built in, or Python's where the operator is one of
    Python's."""
    own = _cfx.canonical(path)
    if own and own != path:
        return find(own)
    name = path.rpartition(".")[2]
    kind = BUILTIN_METHOD if path.count(".") == 1 else BUILTIN_FUNCTION
    f = _cfx.function(path, name, kind)
    if f._schemas[0].startswith("python::") and \
            path.startswith(("torch.nn.functional.", "torch.functional.")):
        return python_function(path, module)
    return f


def namespace(module, *prefixes):
    """(__getattr__, __dir__) of a module whose functions are those of the registry below a path, or
    the next where the first has none."""
    import sys

    def get(name):
        if name == "__all__":  # what a wildcard imports
            return [n for n in names() if not n.startswith("_")]
        if not name.startswith("__"):
            for prefix in prefixes:
                try:
                    value = function(f"{prefix}.{name}", module)
                except AttributeError:
                    continue
                setattr(sys.modules[module], name, value)
                return value
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def names():
        start = prefixes[0] + "."
        found = {s[len(start):] for s in _cfx.spellings() if s.startswith(start)}
        return sorted({*vars(sys.modules[module]), *(n for n in found if "." not in n)})

    return get, names


_cfx.adopt("callable", find)
_cfx.adopt("target_of", target_of)
