"""dynamic_shapes as plain data, and back: sizes are names, expressions of one name, or numbers."""
import dataclasses
import math
import re
import typing

import cfx

from ..._errors import UserError, UserErrorType
from ...export.dynamic_shapes import (Dim, _check_dynamic_shapes, _DerivedDim, _DimHint,
                                      _tree_map_with_path)
from ...utils import _pytree as pytree
from .serialize import _dataclass_to_dict


@dataclasses.dataclass
class RootDim:
    """The bounds of a Dim, and the expressions of it that are used."""

    min: int
    max: typing.Optional[int]
    derived: typing.List[str]


@dataclasses.dataclass
class DynamicShapesSpec:
    dynamic_shapes: typing.Any
    dims: typing.Dict[str, RootDim]


# ---- to data -------------------------------------------------------------------------------------


def _sizes(path, value, said):
    """What is said of each dimension of an input."""
    if not isinstance(value, cfx.Tensor):
        return None
    if said is None:
        return [Dim.STATIC] * value.dim()
    given = said.get if isinstance(said, dict) else said.__getitem__
    return [n if given(i) is None else given(i) for i, n in enumerate(value.shape)]


def _dump_dynamic_shapes(dynamic_shapes, args, kwargs=None, to_dict=False):
    """{"dynamic_shapes": ..., "dims": {name: {min, max, derived}}}, for these arguments."""
    if dynamic_shapes is None:
        return {"dynamic_shapes": None, "dims": {}}
    if isinstance(dynamic_shapes, dict):
        dynamic_shapes = dynamic_shapes.values()
    dynamic_shapes = tuple(dynamic_shapes)
    combined = (*args, *(kwargs or {}).values())
    _check_dynamic_shapes(dict(enumerate(combined)), dynamic_shapes)
    roots, derived = {}, {}

    def name_of(size):
        if size is None or isinstance(size, int):
            return size
        if isinstance(size, _DimHint):
            return f"_DimHint.{size.type.name}"
        root = size.root if isinstance(size, _DerivedDim) else size
        roots[root.__name__] = root
        if root is not size:
            derived.setdefault(root.__name__, set()).add(size.__name__)
        return size.__name__

    tree = _tree_map_with_path(_sizes, combined, dynamic_shapes, tree_name="inputs")
    named = pytree.tree_map(name_of, tree)
    dims = {name: RootDim(root.min, None if root.max == math.inf else root.max,
                          sorted(derived.get(name, ()))) for name, root in sorted(roots.items())}
    spec = DynamicShapesSpec(named, dims)
    return _dataclass_to_dict(spec) if to_dict else spec


# ---- and back ------------------------------------------------------------------------------------


def _bad(text):
    return UserError(UserErrorType.INVALID_INPUT, text)


def _checked(spec):
    """The Dims of a dict."""
    if not isinstance(spec, dict):
        raise _bad(f"With from_dict=True, expected `spec` to be a dict, got {type(spec)}")
    if sorted(spec) != ["dims", "dynamic_shapes"]:
        raise _bad("With from_dict=True, expected `spec` to have keys `dims` and `dynamic_shapes`, "
                   f"instead found {spec.keys()}")
    for name, row in spec["dims"].items():
        if not isinstance(name, str):
            raise _bad("Expected `spec['dims']` keys to be strings for symbols, got key "
                       f"{type(name)}")
        if sorted(row) != ["derived", "max", "min"]:
            raise _bad("Expected `spec['dims']` values to have keys `derived`, `max`, and `min`, "
                       f"instead found {row.keys()}")
        if not isinstance(row["min"], int):
            raise _bad("Expected dims in `spec['dims']` to map `min` to an int, got "
                       f"{name}: {row['min']}")
        if row["max"] is not None and not isinstance(row["max"], int):
            raise _bad("Expected dims in `spec['dims']` to map `max` to an int or None, got "
                       f"{name}: {row['max']}")
        if not isinstance(row["derived"], list) or \
                not all(isinstance(d, str) for d in row["derived"]):
            raise _bad("Expected dims in `spec['dims']` to map `derived` to a list of derived "
                       f"expressions, got {name}: {row['derived']}")
    return {name: RootDim(**row) for name, row in spec["dims"].items()}


def _derived(root, text):
    """The Dim that an expression of a root stands for."""
    name = re.escape(root.__name__)
    if set(re.findall(r"[A-Za-z_]\w*", text)) != {root.__name__}:
        raise _bad(f"Expected derived expressions in to have {root.__name__} as the only free "
                   f"symbol, got {text}")
    line = re.fullmatch(rf"(?:(\d+)\s*\*\s*)?{name}(?:\s*([+-])\s*(\d+))?", text.strip())
    if line is None:
        raise _bad(f"Expected derived expressions to be linear expressions, got {text}")
    factor, sign, addend = line.groups()
    dim = root if factor in (None, "1") else root * int(factor)
    return dim + int(sign + addend) if addend and int(addend) else dim


def _load_dynamic_shapes(spec, from_dict=False):
    """What torch.export takes, from a DynamicShapesSpec or, where from_dict, its dict."""
    if from_dict:
        rows, said = _checked(spec), spec["dynamic_shapes"]
    elif not isinstance(spec, DynamicShapesSpec):
        raise _bad(f"Expected `spec` to be a DynamicShapesSpec, got {type(spec)}")
    else:
        rows, said = spec.dims, spec.dynamic_shapes
    if said is None:
        return None
    known = {}
    for name, row in rows.items():
        if not name.isidentifier():
            raise _bad(f"Expected `spec['dims']` keys to be symbols, got {name}")
        known[name] = Dim(name, min=row.min, max=row.max)
        known.update({text: _derived(known[name], text) for text in row.derived})

    def size_of(text):
        if text is None or isinstance(text, int):
            return text
        if not isinstance(text, str):
            raise _bad("Expected leaves in `spec['dynamic_shapes']` to be ints, None, "
                       f"Dim.AUTO/STATIC, symbols,  or derived expressions, got {text}")
        hint = re.fullmatch(r"_DimHint\.(AUTO|STATIC|DYNAMIC)", text)
        if hint:
            return getattr(Dim, hint.group(1))
        if text not in known:
            raise _bad("Expected dims in `spec['dynamic_shapes']` to be tracked in `spec['dims']`, "
                       f"got {text} which is not in {rows.keys()}")
        return known[text]

    return pytree.tree_map(size_of, said)
