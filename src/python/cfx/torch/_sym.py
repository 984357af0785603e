"""Sizes that are symbols: SymInt, SymFloat, SymBool, and the functions that take them."""
import math
import operator

from cfx import _cfx


class _SymNode:
    """What PyTorch keeps behind a SymInt: its expression, its value with the example inputs."""

    def __init__(self, sym):
        self._sym = sym

    @property
    def expr(self):
        return _Expr(str(self._sym))

    _expr = expr

    @property
    def hint(self):
        return self._sym._hint()

    def has_hint(self):
        return True

    shape_env = None


class _Expr(str):
    """An expression as text, for those who ask what it is made of."""

    @property
    def free_symbols(self):
        import re

        return {_Expr(s) for s in re.findall(r"[a-z]+\d+", self)}

    name = property(str)

    def is_integer(self):
        return True


class SymInt(_cfx.Sym):
    """An expression of sizes. Arithmetic gives expressions; a comparison is decided by the example
    inputs."""

    __module__ = "torch"

    @property
    def node(self):
        return _SymNode(self)

    def _with(self, text):
        return SymInt(text)

    def __int__(self):
        return self._hint()

    __index__ = __int__

    def __bool__(self):
        return bool(self._hint())

    def __hash__(self):
        return hash(str(self))

    def is_integer(self):
        return True

    def __float__(self):
        return float(self._hint())


def _text(x):
    return f"({x})" if isinstance(x, SymInt) else str(x)


def _arithmetic(sign, reflected):
    def method(self, other):
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        a, b = (_text(other), _text(self)) if reflected else (_text(self), _text(other))
        return SymInt(f"{a}{sign}{b}")

    return method


def _compared(op):
    def method(self, other):
        if op in (operator.eq, operator.ne) and isinstance(other, SymInt) \
                and str(self) == str(other):
            return op is operator.eq
        if not isinstance(other, (int, float, SymInt)):
            return NotImplemented
        return op(self._hint(), int(other) if isinstance(other, SymInt) else other)

    return method


for _name, _sign in (("add", " + "), ("sub", " - "), ("mul", "*"), ("floordiv", "//"),
                     ("mod", "%")):
    setattr(SymInt, f"__{_name}__", _arithmetic(_sign, False))
    setattr(SymInt, f"__r{_name}__", _arithmetic(_sign, True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymInt, f"__{_name}__", _compared(getattr(operator, _name)))
SymInt.__neg__ = lambda self: SymInt(f"-1*{_text(self)}")


class SymFloat:
    __module__ = "torch"


class SymBool:
    __module__ = "torch"


def _overridden(f):
    import functools

    @functools.wraps(f)
    def inner(*args, **kwargs):
        if _cfx.is_overridden(*args):
            return _cfx.override(inner, args, kwargs)
        return f(*args, **kwargs)

    return inner


@_overridden
def sym_int(a):
    return a if isinstance(a, (int, SymInt)) else int(math.trunc(a))


@_overridden
def sym_float(a):
    return float(a)


@_overridden
def sym_max(a, b):
    return max(a, b)


@_overridden
def sym_min(a, b):
    return min(a, b)


@_overridden
def sym_not(a):
    return not a


@_overridden
def sym_ite(b, t, f):
    return t if b else f


_cfx.adopt("sym_class", SymInt)
