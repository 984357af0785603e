"""torch.ops: namespaces of operators, each with its overloads."""
import functools
import re
import types
import typing

import cfx
from cfx import _cfx
from cfx._functions import _schema, split_schema

OpOverload = _cfx.OpOverload


class OpOverloadPacket:
    """All overloads of an operator: torch.ops.aten.add."""

    _is_packet = True

    def __init__(self, namespace, name, overloads):
        self._qualified_op_name = f"{namespace}::{name}"
        self._namespace = namespace
        self.__name__ = name
        self.__module__ = f"torch.ops.{namespace}"
        self._overload_names = [str(o).rpartition(".")[2] for o in overloads]
        self._overload_names = ["" if n == "default" else n for n in self._overload_names]
        self._all = overloads
        self._dir = []

    def overloads(self):
        return [n or "default" for n in self._overload_names]

    def __iter__(self):
        return iter(self._dir)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._namespace}.{self.__name__}.{name}"
        found = _cfx.overload(full)
        if found is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        self._dir.append(name)
        setattr(self, name, found)
        return found

    def __call__(self, *args, **kwargs):
        if _cfx.is_overridden(*args, *kwargs.values()):
            return _cfx.override(self, args, kwargs)
        if self._namespace == "quantized":
            args, kwargs = self._with_numbers(args, kwargs)
        if len(self._all) == 1:
            return self._all[0](*args, **kwargs)
        return self._function(*args, **kwargs)

    @functools.cached_property
    def _number_places(self):
        """The places and names of arguments that are numbers."""
        given = self._all[0]._schema_text.partition("(")[2].partition(")")[0].split(", ")
        return {key for i, text in enumerate(given) if text.startswith(("float ", "int "))
                for key in (i, text.split()[-1])}

    def _with_numbers(self, args, kwargs):
        """Scales and zero points may be tensors of one number: buffers of a converted module."""
        def number(place, a):
            plain = place not in self._number_places or not isinstance(a, cfx.Tensor) or a.ndim
            return a if plain else a.item()

        return ([number(i, a) for i, a in enumerate(args)],
                {k: number(k, a) for k, a in kwargs.items()})

    @functools.cached_property
    def _function(self):
        return _cfx.function(f"{self._namespace}.{self.__name__}", self.__name__, 1)

    def __hash__(self):
        return hash(self._qualified_op_name)

    def __str__(self):
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"

    def __reduce__(self):
        return (_packet, (self._namespace, self.__name__))

    def __deepcopy__(self, memo):
        return self

    op = property(lambda self: self)
    _op = op


def _packet(namespace, name):
    return getattr(getattr(ops, namespace), name)


class _OpNamespace(types.ModuleType):
    """torch.ops.aten"""

    def __init__(self, name):
        super().__init__("torch.ops." + name)
        self.name = name

    def __getattr__(self, op):
        if op.startswith("__"):
            raise AttributeError(op)
        found = _cfx.overloads(f"{self.name}.{op}") or _forms(self.name, op)
        if not found:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op}'")
        packet = OpOverloadPacket(self.name, op, found)
        setattr(self, op, packet)
        return packet

    def __dir__(self):
        start = self.name + "."
        names = {str(o)[len(start):].partition(".")[0] for o in _cfx.overloads("")
                 if str(o).startswith(start)}
        return sorted(names)

    def __iter__(self):
        return iter(dir(self))


def _forms(namespace, op):
    """The in-place overloads of an operator, which are derived from the functional ones."""
    if not op.endswith("_"):
        return []
    plain = _cfx.overloads(f"{namespace}.{op[:-1]}")
    found = [_cfx.overload(f"{namespace}.{op}.{str(o).rpartition('.')[2]}") for o in plain]
    return [o for o in found if o is not None]


class _HigherOrder(types.ModuleType):
    """torch.ops.higher_order"""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        from . import _higher_order_ops

        return _higher_order_ops.operator(name)


class _Ops(types.ModuleType):
    """torch.ops"""

    def __init__(self):
        super().__init__("torch.ops")
        self.higher_order = _HigherOrder("torch.ops.higher_order")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _OpNamespace(name)
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path):
        raise OSError(f"'{path}' is a library of PyTorch's; cfx has its own operators")

    def import_module(self, module):
        import importlib

        importlib.import_module(module)


ops = _Ops()


# ---- schemas as objects --------------------------------------------------------------------------


class _Type:
    """The type of an argument."""

    def __init__(self, text):
        self._text = re.sub(r"\([a-z*]\w*!?( -> [a-z*|]+)?\)", "", text)

    @property
    def annotation_str(self):
        t = self._text
        if t.endswith("?"):
            return f"Optional[{_Type(t[:-1]).annotation_str}]"
        if t.endswith("]"):
            return f"List[{_Type(t[:t.rindex('[')]).annotation_str}]"
        return {"Scalar": "number", "SymInt": "int", "ScalarType": "int"}.get(t, t)

    def kind(self):
        t = self._text
        if t.endswith("?"):
            return "OptionalType"
        if t.endswith("]"):
            return "ListType"
        return {"Tensor": "TensorType", "Scalar": "NumberType", "int": "IntType",
                "SymInt": "SymIntType", "float": "FloatType", "bool": "BoolType",
                "str": "StringType"}.get(t, "AnyType")

    def getElementType(self):
        t = self._text
        return _Type(t[:-1] if t.endswith("?") else t[:t.rindex("[")])

    def isSubtypeOf(self, other):
        return self._text == other._text

    def __str__(self):
        return self.annotation_str

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, _Type) and self._text == other._text

    def __hash__(self):
        return hash(self._text)


class _AliasInfo(typing.NamedTuple):
    is_write: bool
    before_set: set
    after_set: set


class Argument:
    """An argument or result of a schema."""

    def __init__(self, kind, name, default, only):
        self.name = name
        self.type = self.real_type = _Type(kind)
        sized = re.search(r"\[(\d+)\]", kind)
        self.N = int(sized.group(1)) if sized else None  # of a list whose length is given
        self.kwarg_only = only
        self._default = default
        mark = re.search(r"\(([a-z*]\w*)(!?)", kind)
        self.alias_info = _AliasInfo(bool(mark.group(2)), {mark.group(1)}, {mark.group(1)}) \
            if mark else None
        self.is_write = bool(mark and mark.group(2))

    def has_default_value(self):
        return self._default is not None

    @property
    def default_value(self):
        if self._default is None:
            return None
        text = {"Mean": "1", "long": "4", "contiguous_format": "0"}.get(self._default,
                                                                        self._default)
        try:
            value = eval(text, {"inf": float("inf")})
        except NameError:
            return text
        return [value] * self.N if self.N and isinstance(value, (int, float)) else value

    is_out = property(lambda self: self.kwarg_only and self.is_write)

    def __repr__(self):
        return f"{self.type} {self.name}"


class FunctionSchema:
    """A schema: torch.ops.aten.add.Tensor._schema."""

    def __init__(self, text):
        self._text = text
        ns, name, overload, _, returns = _schema.match(text).groups()
        self.name = f"{ns}::{name}"
        self.overload_name = overload or ""
        self.arguments = [Argument(*a) for a in split_schema(text)]
        self.returns = _returns(returns)
        self.is_vararg = self.is_varret = False

    @property
    def is_mutable(self):
        return any(a.is_write for a in self.arguments)

    def __str__(self):
        return self._text

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and self._text == other._text

    def __hash__(self):
        return hash(self._text)


def _returns(text):
    text = text.strip()
    if text == "()":
        return []
    parts, depth, start = [], 0, 0
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    for i, c in enumerate(inner + ","):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append(inner[start:i].strip())
            start = i + 1
    out = []
    for part in parts:
        kind, _, name = part.rpartition(" ")
        out.append(Argument(kind or name, name if kind else "", None, False))
    return out


# ---- what an overload has beside C's part --------------------------------------------------------

_CORE = {"pointwise": 1}


def _attribute(op, name):
    text = str(op)
    ns, packet, overload = text.split(".")
    if name == "_schema":
        value = FunctionSchema(op._schema_text)
    elif name in ("overloadpacket", "_overloadpacket"):
        value = getattr(getattr(ops, ns), packet)
    elif name == "_overloadname":
        value = overload
    elif name == "namespace":
        value = ns
    elif name == "name":
        full = f"{ns}::{packet}" + ("" if overload == "default" else f".{overload}")
        value = lambda: full  # noqa: E731
    elif name == "_name":
        value = f"{ns}::{packet}" + ("" if overload == "default" else f".{overload}")
    elif name == "op":
        value = op
    elif name == "_op":
        value = op
    elif name in ("tags", "_tags"):
        value = _tags(op)
    elif name == "is_view":
        value = any(a.alias_info and not a.is_write for a in op._schema.arguments)
    elif name == "decompose":
        value = functools.partial(_decompose, op)
    elif name == "_opname":
        value = packet
    elif name in ("_defined_in_python", "has_kernel_for_dispatch_key",
                  "has_kernel_for_any_dispatch_key"):
        value = (lambda *a: False) if name.startswith("has") else False
    elif name == "_can_decompose":
        value = lambda: bool(op._effects & 2)  # noqa: E731
    elif name == "redispatch":
        value = lambda keyset, *args, **kwargs: op(*args, **kwargs)  # noqa: E731
    elif name == "default" and overload == "default":
        value = op
    else:
        raise AttributeError(f"'OpOverload' object has no attribute '{name}'")
    op.__dict__[name] = value
    return value


def _tags(op):
    from ._C import Tag

    tags = []
    if op._effects & 1:
        tags.append(Tag.pointwise)
    if op._effects & 4:
        tags.append(Tag.nondeterministic_seeded)
    if op._effects & 64:
        tags.append(Tag.dynamic_output_shape)
    return tags


def _decompose(op, *args, **kwargs):
    from ._decomp import _once

    return _once.call(op, args, kwargs)


class HigherOrderOperator:
    """An operator that takes functions or sub-graphs."""

    _is_higher_order = True

    def __init__(self, name, *, cacheable=False):
        self._name = self.__name__ = name
        self._ns = self.namespace = "higher_order"
        self.__module__ = "torch.ops.higher_order"

    def __str__(self):
        return self._name

    def __repr__(self):
        return f"<HigherOrderOperator({self._name})>"

    def name(self):
        return self._name


_cfx.adopt("overload_attr", _attribute)
