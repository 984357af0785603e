"""torch.Size, torch.finfo, torch.iinfo, torch.return_types: the small classes that Python is
shorter for."""
import re
import types

from . import _cfx


class Size(tuple):
    """The sizes of a tensor: a tuple of ints that prints as torch.Size([2, 3])."""

    __slots__ = ()
    __module__ = "torch"

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def numel(self):
        n = 1
        for size in self:
            n *= size
        return n

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other):
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times):
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __getitem__(self, key):
        item = tuple.__getitem__(self, key)
        return Size(item) if isinstance(key, slice) else item

    def __reduce__(self):
        return (_size, (tuple(self),))


def _size(sizes):
    """For pickles, in which torch may be another's."""
    return Size(sizes)


def _bits(dtype):
    return dtype.itemsize * 8


def _dtype(name, given):
    if not isinstance(given, _cfx.dtype):
        raise TypeError(f"{name}(): argument 'type' (position 1) must be torch.dtype, not "
                        f"{type(given).__name__}")
    return given


class iinfo:
    """torch.iinfo(dtype): what an integer dtype can hold."""

    __module__ = "torch"

    def __init__(self, dtype):
        if _dtype("iinfo", dtype).is_floating_point or dtype.is_complex:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to "
                            f"handle '{dtype}'")
        self.dtype = repr(dtype)[6:]
        self.bits = _bits(dtype)
        self.min = -(1 << self.bits - 1) if dtype.is_signed else 0
        self.max = (1 << self.bits - dtype.is_signed) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


# mantissa bits that are stored, least and largest exponent of normal numbers
_FLOATS = {"float16": (10, -14, 15), "bfloat16": (7, -126, 127), "float32": (23, -126, 127),
           "float64": (52, -1022, 1023), "float8_e5m2": (2, -14, 15), "float8_e4m3fn": (3, -6, 8)}


class finfo:
    """torch.finfo(dtype): what a floating point dtype can hold."""

    __module__ = "torch"

    def __init__(self, dtype=None):
        dtype = _dtype("finfo", _cfx.float32 if dtype is None else dtype).to_real()
        name = repr(dtype)[6:]
        if name not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use "
                            f"torch.iinfo to handle '{dtype}'")
        mantissa, low, high = _FLOATS[name]
        self.dtype = name
        self.bits = _bits(dtype)
        self.eps = 2.0 ** -mantissa
        self.max = 448.0 if name == "float8_e4m3fn" else (2 - self.eps) * 2.0 ** high
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** low
        digits = {10: 3, 7: 2, 23: 6, 52: 15}.get(mantissa, 0)
        self.resolution = float(f"1e-{digits}") if digits else 1.0

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
                f"eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
                f"dtype={self.dtype})")


_return_types = {}


def return_type(name, fields):
    """The class of results that have names: torch.return_types.max(values=..., indices=...)."""
    key = (name, fields)
    if key not in _return_types:
        _return_types[key] = _make_return_type(name, fields)
    return _return_types[key]


def _make_return_type(name, fields):
    def show(self):
        inner = ",\n".join(f"{f}={v!r}" for f, v in zip(fields, self))
        return f"torch.return_types.{name}(\n{inner})"

    def at(i):
        return property(lambda self: tuple.__getitem__(self, i))

    members = {"__slots__": (), "__repr__": show, "__module__": "torch.return_types",
               "n_fields": len(fields), "n_sequence_fields": len(fields),
               "__reduce__": lambda self: (_rebuild, (name, fields, tuple(self)))}
    members.update((f, at(i)) for i, f in enumerate(fields))
    return type(name, (tuple,), members)


def _rebuild(name, fields, items):
    return return_type(name, fields)(items)


_cfx.adopt("size", Size)
_cfx.adopt("return_type", return_type)


class _ReturnTypes(types.ModuleType):
    """torch.return_types: the classes by the names of their operators."""

    def __getattr__(self, name):
        for op in () if name.startswith("__") else _cfx.overloads(f"aten.{name}"):
            fields = re.findall(r"\w+ (\w+)", op._schema_text.rpartition(" -> ")[2])
            if len(fields) > 1:
                setattr(self, name, return_type(name, tuple(fields)))
                return self.__dict__[name]
        raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")


return_types = _ReturnTypes("torch.return_types")
