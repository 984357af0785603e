"""stubs.py PACKAGE: writes the .pyi files of the package in a folder, from the registry: what an
editor or a type checker shows of functions that no file of the package has."""
import ast
import inspect
import keyword
import os
import sys
import types

# The modules whose functions are the registry's, and the paths of these there.
NAMESPACES = {"cfx": "torch", "cfx.torch": "torch", "cfx.torch.linalg": "torch.linalg",
              "cfx.torch.nn.functional": "torch.nn.functional", "cfx.torch.fft": "torch.fft",
              "cfx.torch.special": "torch.special"}
# Tensors and modules have members called float and dtype: annotations have names of their own.
TYPES = {"Tensor": "Tensor", "Scalar": "Number", "int": "_int", "SymInt": "_int",
         "float": "_float", "bool": "_bool", "str": "str", "ScalarType": "_dtype",
         "Layout": "_layout", "Device": "_device | str", "MemoryFormat": "_memory_format",
         "number": "Number"}
HEAD = '''# Made from the registry of operators; see src/python/stubs.py.
import builtins
from typing import Any, Sequence, overload

'''
COMMON = '''Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_int, _float, _bool = builtins.int, builtins.float, builtins.bool
_dtype, _device, _layout, _memory_format = dtype, device, layout, memory_format
'''


def type_of(kind):
    """The annotation for a type of a schema."""
    if "(" in kind:  # what it shares with others: Tensor(a!)
        kind = kind[:kind.index("(")] + kind[kind.index(")") + 1:]
    if kind.endswith("?"):
        return f"{type_of(kind[:-1])} | None"
    if kind.endswith("]"):
        item, _, count = kind[:-1].rpartition("[")
        alone = f" | {type_of(item)}" if count and item in ("int", "SymInt") else ""
        return f"Sequence[{type_of(item)}]{alone}"
    return TYPES.get(kind, "Any")


def returns_of(schema):
    from cfx.torch._ops import FunctionSchema

    kinds = [r.type._text for r in FunctionSchema(schema).returns]
    if not kinds:
        return "None"
    if len(kinds) == 1:
        one = type_of(kinds[0])
        return one.replace("Sequence[", "list[", 1) if one.startswith("Sequence[") else one
    return f"tuple[{', '.join(map(type_of, kinds))}]"


def parameters_of(schema, method):
    from cfx._functions import split_schema

    parts, star, optional = [], False, False
    for i, (kind, name, default, only) in enumerate(split_schema(schema)):
        if method and not i:
            parts.append("self")
            continue
        if only and not star:
            parts.append("*")
            star = True
        name = "input" if name == "self" else name
        name += "_" if keyword.iskeyword(name) or name in [p.split(":")[0] for p in parts] else ""
        optional = (optional or default is not None) and not only
        has = default is not None or optional  # Python wants defaults behind the first
        parts.append(f"{name}: {type_of(kind)}{' = ...' if has else ''}")
    return ", ".join(parts)


def functions_of(name, schemas, method=False):
    """The overloads of a function, each once."""
    from cfx._functions import split_schema

    indent = "    " if method else ""
    if method:  # what numbers have by that name is not theirs
        schemas = [s for s in schemas if split_schema(s)[0][0].startswith("Tensor")] or schemas
    heads = list(dict.fromkeys(f"({parameters_of(s, method)}) -> {returns_of(s)}" for s in schemas))
    mark = f"{indent}@overload\n" if len(heads) > 1 else ""
    return "".join(f"{mark}{indent}def {name}{head}: ...\n" for head in heads)


def python_function(name, f, method=False):
    indent = "    " if method else ""
    try:
        names = [str(p.replace(annotation=p.empty, default=p.empty)) +
                 ("" if p.default is p.empty else "=...")
                 for p in inspect.signature(f).parameters.values()]
        kinds = [p.kind for p in inspect.signature(f).parameters.values()]
        if inspect.Parameter.KEYWORD_ONLY in kinds and \
                inspect.Parameter.VAR_POSITIONAL not in kinds:
            names.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
        head = ", ".join(names)
    except (TypeError, ValueError):
        head = ("self, " if method else "") + "*args: Any, **kwargs: Any"
    return f"{indent}def {name}({head}) -> Any: ...\n"


def tensor_class():
    """The class Tensor: attributes, methods of the package's, methods of the registry's."""
    import cfx
    from cfx import _cfx

    lines, names = ["class Tensor:\n"], set(dir(cfx.Tensor))
    names |= {s[7:] for s in _cfx.spellings() if s.startswith("Tensor.") and s.count(".") == 1}
    known = {"dtype": "_dtype", "device": "_device", "shape": "Size", "grad": "Tensor | None",
             "T": "Tensor", "mT": "Tensor", "H": "Tensor", "data": "Tensor", "ndim": "_int",
             "requires_grad": "_bool", "is_leaf": "_bool", "itemsize": "_int", "nbytes": "_int",
             "layout": "_layout"}
    for name in sorted(names):
        member = getattr(cfx.Tensor, name, None)
        hidden = name.startswith("_") and not name.startswith("__")
        if member is None or hidden or name in dir(object) or keyword.iskeyword(name):
            continue
        if isinstance(member, _cfx.Method):
            lines.append(functions_of(name, member._schemas, method=True))
        elif name in known or not callable(member):
            lines.append(f"    {name}: {known.get(name, 'Any')}\n")
        else:
            lines.append(python_function(name, member, method=True))
    return "".join(lines)


def stub_of(module, prefix):
    """The text of a module's stub."""
    from cfx import _cfx

    start, own = prefix + ".", module.__name__
    names = {s[len(start):] for s in _cfx.spellings() if s.startswith(start)}
    names = {n for n in names | set(dir(module)) if "." not in n and not keyword.iskeyword(n)}
    imports, lines, aliases = [], [], []
    for name in sorted(names):
        if name.startswith("_") and name != "__version__":
            continue
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            if value.__name__ == f"{own}.{name}":
                imports.append(f"from . import {name} as {name}\n")
        elif isinstance(value, _cfx.Function):
            lines.append(functions_of(name, value._schemas))
        elif isinstance(value, (_cfx.dtype, _cfx.layout, _cfx.memory_format)):
            lines.append(f"{name}: {type(value).__name__}\n")
        elif name == "Tensor":
            lines.append(tensor_class() if own == "cfx" else "")
        elif isinstance(value, type):
            aliases.append(class_of(name, value, own))
        elif callable(value):
            lines.append(python_function(name, value))
        else:
            lines.append(f"{name}: Any\n")
    if own != "cfx":
        imports.insert(0, "from cfx import Size, Tensor, device, dtype, layout, memory_format\n")
    return HEAD + "".join(imports) + "".join(aliases) + COMMON + "".join(lines)


def class_of(name, cls, module):
    """A class: where a file of the package has it, from there."""
    from cfx import _cfx

    home = next((m for m, v in sys.modules.items() if m.startswith("cfx.") and m != module and
                 m != "cfx._cfx" and vars(v).get(cls.__name__) is cls and
                 m not in NAMESPACES), None)
    if home and cls.__name__.isidentifier():
        return f"from {home} import {cls.__name__} as {name}\n"
    if cls in (_cfx.dtype, _cfx.device, _cfx.layout, _cfx.memory_format) and module != "cfx":
        return ""
    return f"class {name}:\n    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n" \
           f"    def __getattr__(self, name: str) -> Any: ...\n"


def main():
    package = os.path.abspath(sys.argv[1])
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(package))
    import importlib

    for name, prefix in NAMESPACES.items():
        module = importlib.import_module(name)
        text = stub_of(module, prefix)
        ast.parse(text)
        with open(os.path.splitext(module.__file__)[0] + ".pyi", "w", encoding="utf-8") as f:
            f.write(text)
    with open(os.path.join(package, "py.typed"), "w", encoding="utf-8") as f:
        f.write("partial\n")


if __name__ == "__main__":
    main()
