"""Which sizes of a program's inputs may vary: Dim, and what callers say with it."""
import dataclasses
import enum
import functools
import inspect
import math

import cfx

from ..nn.modules.module import Module
from ..utils import _pytree as pytree
from ..utils._pytree import keystr
from .._errors import UserError, UserErrorType

__all__ = ["Constraint", "Dim", "dims", "refine_dynamic_shapes_from_suggested_fixes",
           "AdditionalInputs", "ShapesCollection"]
int_oo = math.inf


class _DimHintType(enum.Enum):
    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


@dataclasses.dataclass
class _DimHint:
    """Dim.AUTO, Dim.STATIC, Dim.DYNAMIC; called, one with bounds."""

    type: _DimHintType
    min: int = None
    max: int = None
    _factory: bool = True

    @staticmethod
    def AUTO():
        return _DimHint(_DimHintType.AUTO)

    @staticmethod
    def DYNAMIC():
        return _DimHint(_DimHintType.DYNAMIC)

    @staticmethod
    def STATIC():
        return _DimHint(_DimHintType.STATIC)

    def __call__(self, min=None, max=None):
        if not self._factory:
            raise TypeError(f"'{type(self)}' object is not callable")
        if min is not None and min < 0:
            raise AssertionError(f"min must be non-negative, got {min}")
        if max is not None and max < 0:
            raise AssertionError(f"max must be non-negative, got {max}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.type, min=min, max=max, _factory=False)

    def __repr__(self):
        parts = [self.type.name]
        parts += [f"{n}={v}" for n, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"DimHint({', '.join(parts)})"


class Dim:
    """A size that varies: Dim("batch", min=1, max=64), and sums and multiples of it."""

    AUTO = _DimHint.AUTO()
    DYNAMIC = _DimHint.DYNAMIC()
    STATIC = _DimHint.STATIC()

    def __init__(self, name, *, min=None, max=None):
        low, high = 0 if min is None else min, int_oo if max is None else max
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min, self.max = low, high

    _LINEAR = "(Only increasing linear operations with integer coefficients are supported.)"

    def _parts(self):
        """(factor, root, addend)"""
        return 1, self, 0

    def _derive(self, factor, addend):
        a, root, b = self._parts()
        return _DerivedDim(root, a * factor, b * factor + addend)

    def __add__(self, other):
        if type(other) is not int:
            raise NotImplementedError(f"Attempted to add {other} to {self.__name__}, where an "
                                      f"integer was expected. {self._LINEAR}")
        return self._derive(1, other)

    __radd__ = __add__

    def __sub__(self, other):
        if type(other) is not int:
            raise NotImplementedError(f"Attempted to subtract {other} from {self.__name__}, where "
                                      f"an integer was expected. {self._LINEAR}")
        return self._derive(1, -other)

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {self._LINEAR}")

    def __mul__(self, other):
        if type(other) is not int or other <= 0:
            raise NotImplementedError(f"Attempted to multiply {other} with {self.__name__}, where "
                                      f"a positive integer was expected. {self._LINEAR}")
        return self._derive(other, 0)

    __rmul__ = __mul__

    @staticmethod
    def _readable(name, min_, max_):
        low = None if min_ == 2 else min_
        high = None if max_ == int_oo else max_
        parts = [f"'{name}'"]
        parts += [f"{n}={v}" for n, v in (("min", low), ("max", high)) if v is not None]
        return f"Dim({', '.join(parts)})"

    def __repr__(self):
        return Dim._readable(self.__name__, self.min, self.max)


_Dim = Dim


class _StaticDim(Dim):
    def __init__(self, value):
        self.__name__ = str(value)
        self.value = self.min = self.max = value


class _DerivedDim(Dim):
    """factor * root + addend"""

    def __init__(self, root, factor, addend):
        self.root, self.factor, self.addend = root, factor, addend
        text = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = text if not addend else f"{text} {'+-'[addend < 0]} {abs(addend)}"

    def fn(self, x):
        return self.factor * x + self.addend

    def _parts(self):
        return self.factor, self.root, self.addend

    @property
    def min(self):
        low = self.fn(self.root.min)
        if low < 0:
            raise AssertionError(f"Expected derived min value of {self.__name__} to be >= 0. "
                                 f"Please specify an appropriate min value for "
                                 f"{self.root.__name__} (currently {self.root.min}).")
        return low

    @property
    def max(self):
        return self.fn(self.root.max)

    def __repr__(self):
        return self.__name__


def dims(*names, min=None, max=None):
    """Several Dims with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class Constraint:
    """What older PyTorch had for sizes that vary; nothing makes one."""


# ---- matching what is said to the inputs ---------------------------------------------------------


def _is_builtin_leaf(t):
    return pytree._get_node_type(t) not in pytree.BUILTIN_TYPES


def _tree_map_with_path(func, tree, *dynamic_shapes, tree_name=None):
    """func(path, leaf, what is said of it); classes of the user's are taken apart."""

    def visit(path, t, *said):
        kind = pytree._get_node_type(t)
        if kind in pytree.SUPPORTED_NODES:
            children = pytree.SUPPORTED_NODES[kind].flatten_fn(t)[0]

            def parts(x):
                if x is None and isinstance(t, Module):
                    return [None] * len(children)
                same = pytree._get_node_type(x) is kind
                return pytree.SUPPORTED_NODES[kind].flatten_fn(x)[0] if same else x

            return pytree.tree_map_with_path(visit, children, *map(parts, said),
                                             is_leaf=_is_builtin_leaf)
        return func(path, t, *said)

    try:
        return pytree.tree_map_with_path(visit, tree, *dynamic_shapes, is_leaf=_is_builtin_leaf)
    except ValueError as e:
        if "mismatch" in str(e.args[0]):
            spec = pytree.tree_structure(tree, is_leaf=_is_builtin_leaf)
            for other in dynamic_shapes:
                _compare(spec, pytree.tree_structure(other, is_leaf=_is_builtin_leaf), (),
                         tree_name)
        raise


def _mismatch(tree_name, text):
    raise UserError(UserErrorType.INVALID_INPUT,
                    f"Detected mismatch between the structure of `{tree_name}` and "
                    f"`dynamic_shapes`: {text}", case_name="dynamic_shapes_validation")


def _compare(spec, other, path, name):
    """An error at the point where two trees differ."""
    where = keystr(path)
    if spec.is_leaf():
        return
    here, there = f"`{name}{where}`", f"`dynamic_shapes{where}`"
    if other.is_leaf():
        _mismatch(name, f"{here} is a {spec.type}, but {there} is not")
    if spec.type != other.type:
        _mismatch(name, f"{here} is a {spec.type}, but {there} is a {other.type}")
    if spec.num_children != other.num_children:
        _mismatch(name, f"{here} has {spec.num_children} elements, but {there} has "
                  f"{other.num_children} elements")
    others = other.children()
    if spec.type is dict:
        if set(spec.context) != set(other.context):
            _mismatch(name, f"{here} has keys {spec.context}, but {there} has keys "
                      f"{other.context}")
        by_key = dict(zip(other.context, others))
        others = [by_key[k] for k in spec.context]
    for i, (a, b) in enumerate(zip(spec.children(), others)):
        key = pytree.MappingKey(spec.context[i]) if spec.type is dict else pytree.SequenceKey(i)
        _compare(a, b, path + (key,), name)


def _combine_args(f, args, kwargs):
    """The arguments of a call by the names of the parameters."""
    if hasattr(f, "module") and hasattr(f, "graph_signature"):
        f = f.module()
    signature = inspect.signature(f.forward if hasattr(f, "forward") else f)
    return signature.bind(*args, **(kwargs or {})).arguments


def _bad(text):
    raise UserError(UserErrorType.INVALID_INPUT, text, case_name="dynamic_shapes_validation")


def _check_dynamic_shapes(combined_args, dynamic_shapes):
    """An error, in PyTorch's words, where what is said of sizes does not fit the inputs."""
    if dynamic_shapes is None or len(dynamic_shapes) == 0:
        return
    if isinstance(dynamic_shapes, (tuple, list)):
        combined_args = type(dynamic_shapes)(combined_args.values())
    bounds = {}

    def check_bounds(dim):
        low, high = bounds.setdefault(dim.__name__, (dim.min, dim.max))
        if (dim.min, dim.max) != (low, high):
            raise UserError(UserErrorType.INVALID_INPUT,
                            f"Found different definitions {Dim._readable(dim.__name__, low, high)}"
                            f" and {Dim._readable(dim.__name__, dim.min, dim.max)} for the same "
                            f"symbolic dimension {dim}!")

    def check_dim(dim, where, shape, path):
        if isinstance(dim, Dim):
            check_bounds(dim)
        elif dim is not None and not isinstance(dim, (int, _DimHint)):
            _bad(f"Unexpected dimension {where} in input tensor shape {shape} specified at "
                 f"`dynamic_shapes{keystr(path)}` (expected None, an int, a Dim, Dim.AUTO, "
                 f"Dim.STATIC, or Dim.DYNAMIC,  but got {dim!r} instead)")

    def check(path, t, shape):
        if not isinstance(t, cfx.Tensor):
            if type(t) is int and isinstance(shape, Dim):
                raise ValueError("Unable to specify input integers as dynamic through named Dims. "
                                 "Please use Dim.AUTO/DYNAMIC instead.")
            number = isinstance(t, int) and isinstance(shape, _DimHint)
            if shape is not None and not number:
                _bad(f"Cannot associate shape {shape} specified at `dynamic_shapes{keystr(path)}` "
                     f"to non-tensor type {type(t)} at `inputs{keystr(path)}` (expected None)")
        elif isinstance(shape, dict):
            for i, dim in shape.items():
                check_dim(dim, f"mapped to index {i}", shape, path)
        elif isinstance(shape, (tuple, list)):
            if len(shape) != len(t.shape):
                _bad(f"Expected dynamic shape spec {shape} specified at "
                     f"`dynamic_shapes{keystr(path)}` to have the same length as the actual tensor "
                     f"shape {t.shape} (expected {len(t.shape)}, but got {len(shape)} instead)")
            for i, dim in enumerate(shape):
                check_dim(dim, f"#{i}", shape, path)
        elif shape is not None:
            _bad(f"Unexpected input tensor shape {shape} specified at "
                 f"`dynamic_shapes{keystr(path)}` (expected either a list/tuple of dimensions, or "
                 "a dict mapping indices to dimensions, where each dimension is an int, a Dim, "
                 "Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)")

    if not isinstance(dynamic_shapes, (dict, tuple, list)):
        raise AssertionError("expected dynamic_shapes to be dict, tuple, or list, got "
                             f"{type(dynamic_shapes)}")
    if isinstance(dynamic_shapes, dict):
        _check_names(combined_args, dynamic_shapes)
    _tree_map_with_path(check, combined_args, dynamic_shapes, tree_name="inputs")


def _check_names(combined_args, dynamic_shapes):
    got, names = list(dynamic_shapes), list(combined_args)
    if sorted(map(str, got)) == sorted(names):
        return
    text = ("When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
            f"names {names} of `inputs`, but here they are {got}. ")
    if len(names) == 1 and names[0] not in got and isinstance(combined_args[names[0]], dict):
        text += ("Since here `inputs` is a list/tuple enclosing a single dict, maybe you just "
                 "forgot to enclose `dynamic_shapes` in a list/tuple?")
    else:
        text += ("Alternatively, you could also ignore arg names entirely and specify "
                 "`dynamic_shapes` as a list/tuple matching `inputs`.")
    _bad(text)


# ---- for the C library ---------------------------------------------------------------------------


def _dim_to_c(dim):
    """A size as cfx_export takes it."""
    if dim is None or isinstance(dim, int):
        return None
    if isinstance(dim, _DimHint):
        if dim.type is _DimHintType.STATIC:
            return None
        name = f"Dim.{dim.type.name}"
        return name if dim.min is None and dim.max is None else (name, dim.min, dim.max)
    root = dim.root if isinstance(dim, _DerivedDim) else dim  # bounds are those of the name
    low = None if root.min == 0 else root.min
    high = None if root.max == int_oo else root.max
    return dim.__name__ if low is None and high is None else (dim.__name__, low, high)


def to_c(forward, combined_args, dynamic_shapes):
    """A dict of argument to sizes, nested as the arguments are; None where nothing varies. C has a
    name for each argument: args_0, args_1 for those of *args, and the keys of **kwargs."""
    if dynamic_shapes is None or len(dynamic_shapes) == 0:
        return None
    names = list(combined_args)
    said = dict(zip(names, dynamic_shapes)) if isinstance(dynamic_shapes, (tuple, list)) \
        else {n: dynamic_shapes.get(n) for n in names}

    def check(name, path, t, i, dim):
        if isinstance(dim, int) and t.shape[i] != dim:
            raise UserError(UserErrorType.CONSTRAINT_VIOLATION,
                            f"Static shape constraint of {dim} does not match input size of "
                            f"{t.shape[i]}, for L['{name}']{keystr(path)}.size()[{i}]")

    def leaf(name, path, t, shape):
        if shape is None:
            return None
        if isinstance(shape, _DimHint):
            return _dim_to_c(shape)
        items = shape.items() if isinstance(shape, dict) else enumerate(shape)
        out = {}
        for i, dim in items:
            check(name, path, t, i, dim)
            value = _dim_to_c(dim)
            if value is not None:
                out[i] = value
        return out or None

    mapped = {n: _tree_map_with_path(functools.partial(leaf, n), combined_args[n], said[n],
                                      tree_name="inputs")
              if said[n] is not None else None for n in names}
    for p in inspect.signature(forward).parameters.values():
        if mapped.get(p.name) is None:
            continue
        if p.kind is p.VAR_POSITIONAL:
            mapped.update({f"{p.name}_{i}": v for i, v in enumerate(mapped.pop(p.name))})
        elif p.kind is p.VAR_KEYWORD:
            mapped.update(mapped.pop(p.name))
    return {n: v for n, v in mapped.items() if v is not None} or None


# ---- sizes from elsewhere ------------------------------------------------------------------------


@dataclasses.dataclass
class _IntWrapper:
    """A number among the arguments that a ShapesCollection can tell from others."""

    val: int


def _unwrapped(args):
    """Arguments with the numbers themselves."""
    return pytree.tree_map_only(_IntWrapper, lambda n: n.val, args)


class ShapesCollection:
    """Sizes by tensor, or by number: collection[x] = {0: batch}."""

    def __init__(self):
        self._shapes = {}

    def __setitem__(self, t, shape):
        if not isinstance(t, (cfx.Tensor, _IntWrapper)):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(t)}")
        known = self._shapes.get(id(t))
        if known is not None and known[1] != shape:
            raise AssertionError(f"Shapes assigned to input do not match: expected {known[1]}, "
                                 f"got {shape}")
        self._shapes[id(t)] = (t, shape)

    def __getitem__(self, t):
        if id(t) not in self._shapes:
            self._shapes[id(t)] = (t, {})
        return self._shapes[id(t)][1]

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        """What export takes, for these arguments."""
        seen = set()

        def find(path, t):
            if id(t) not in self._shapes:
                return None
            seen.add(id(t))
            return self._shapes[id(t)][1]

        out = _tree_map_with_path(find, _combine_args(m, args, kwargs))
        if any(t not in seen for t in self._shapes):
            raise ValueError("Some tensors that were assigned shapes were not found in args. Maybe "
                             "such tensors were copied when passing them as args? Maybe such "
                             "tensors are contained in classes that were not registered with "
                             "pytree?")
        return out


class AdditionalInputs:
    """Sizes from examples: what differs between them varies."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m, args, kwargs=None):
        trees = [_combine_args(m, *e) for e in [(args, kwargs), *self._examples]]

        def mark(path, first, *others):
            values = (first, *others)
            if isinstance(first, cfx.Tensor):
                return tuple(Dim.DYNAMIC if any(o.shape[i] != n for o in others) else None
                             for i, n in enumerate(first.shape))
            if any(type(o) is not type(first) for o in others):
                raise ValueError("The following inputs were found to have differing types, so they "
                                 f"cannot be marked as dynamic: {values}.")
            if all(o == first for o in others):
                return None
            if type(first) is int:
                return Dim.DYNAMIC
            raise ValueError("The following inputs were found to have differing values, but they "
                             f"cannot be marked as dynamic: {values}.")

        return _tree_map_with_path(mark, *trees)

    def verify(self, ep):
        module = ep.module(check_guards=False)
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    """What was said of sizes, with the fixes that an error message suggests."""
    import re

    fixes = {}
    for line in msg.split("Suggested fixes:")[1].strip().splitlines():
        found = re.match(r"(\w+) = (.*)", line.strip())
        if found:
            name, expression = found.groups()
            if expression.startswith("Dim("):
                fixes[name] = eval(expression, {"Dim": Dim})
            else:
                fixes[name] = int(expression) if expression.lstrip("-").isdigit() else expression
    known = {}

    def root(name):
        if isinstance(fixes.get(name), Dim):
            return fixes[name]
        return known.setdefault(name, Dim(name))

    def refined(dim):
        if not isinstance(dim, Dim):
            return dim
        base = dim.root.__name__ if isinstance(dim, _DerivedDim) else dim.__name__
        fix = fixes.get(dim.__name__, fixes.get(base))
        if fix is None:
            return dim
        if isinstance(fix, str):
            names = {n: root(n) for n in re.findall(r"[A-Za-z_]\w*", fix)}
            fix = eval(fix, names)
        if isinstance(dim, _DerivedDim) and dim.__name__ not in fixes:
            return dim.fn(fix) if isinstance(fix, int) else fix * dim.factor + dim.addend
        return fix

    def visit(shape):
        if isinstance(shape, dict):
            return {k: visit(v) for k, v in shape.items()}
        if isinstance(shape, (list, tuple)):
            return type(shape)(visit(v) for v in shape)
        return refined(shape)

    return visit(dynamic_shapes)
