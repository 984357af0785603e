"""Sizes that are symbols: SymInt, SymFloat, SymBool, and the functions that take them."""
import functools
import math
import operator
import sys

from cfx import _cfx

from ._errors import UserError, UserErrorType


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

    def __repr__(self):
        return str(self)

    def is_integer(self):
        return True


class GuardOnDataDependentSymNode(UserError):
    """Somebody decides by a number that is data. PyTorch wraps it in a UserError on some ways, and
    does not on others: who waits for either gets it."""

    __module__ = "torch.fx.experimental.symbolic_shapes"

    def __init__(self, text):
        super().__init__(UserErrorType.ANTI_PATTERN, text)


def _looked(f):
    """What looks at a number: PyTorch's own error where it is data. What an assert statement says
    of it is assumed instead, and the program asserts it."""
    def method(self):
        try:
            return f(self)
        except RuntimeError as e:
            if "data-dependent expression" not in str(e):
                raise
            if f.__name__ == "__bool__" and _is_asserted(sys._getframe(1)):
                _function("torch", "_check")(self)
                return True
            raise GuardOnDataDependentSymNode(str(e)) from None

    return method


def _is_asserted(frame):
    from .fx._frames import is_assert

    return is_assert(frame)


class _Sym(_cfx.Sym):
    """A number that is not known before the program runs: an expression of symbols, or a number
    that a model which is being exported got from C. Arithmetic gives others; to look at it is to
    decide by the example inputs, or an error where it is data."""

    __module__ = "torch"

    @property
    def node(self):
        return _SymNode(self)

    @_looked
    def __bool__(self):
        return self._true() if self._marked else bool(self._hint())

    @_looked
    def __int__(self):
        return int(self._hint())

    @_looked
    def __float__(self):
        return float(self._hint())

    def __hash__(self):
        if self._marked:
            kind = "non-nested SymInt" if isinstance(self, SymInt) else type(self).__name__
            raise TypeError(f"unhashable type: {kind}")
        return hash(str(self))

    def __deepcopy__(self, memo):
        return self


class SymInt(_Sym):
    __module__ = "torch"

    __index__ = _Sym.__int__

    def is_integer(self):
        return True

    def as_integer_ratio(self):
        return self, 1

    def __abs__(self):
        return self if self >= 0 else -self

    def __pos__(self):
        return self

    def __round__(self, ndigits=None):
        return self

    __trunc__ = __floor__ = __ceil__ = lambda self: self


class SymFloat(_Sym):
    __module__ = "torch"

    def is_integer(self):
        return float(self).is_integer()

    def __trunc__(self):
        return _called("torch", "sym_int", self)

    def __round__(self, ndigits=None):
        return _called("builtins", "round", self, *(() if ndigits is None else (ndigits,)))

    def __floor__(self):
        return _called("math", "floor", self)

    def __ceil__(self):
        return _called("math", "ceil", self)


class SymBool(_Sym):
    __module__ = "torch"

    def __and__(self, other):
        return _called("operator", "and_", self, other)

    def __or__(self, other):
        return _called("operator", "or_", self, other)


@functools.cache
def _function(module, name):
    return _cfx.function(f"{module}.{name}", name, 1)


def _called(module, name, *args):
    """What a function of C's gives for marked numbers."""
    return _function(module, name)(*args)


def _is_marked(x):
    return isinstance(x, _Sym) and x._marked


def _text(x):
    return f"({x})" if isinstance(x, SymInt) else str(x)


def _arithmetic(name, sign, reflected):
    def method(self, other):
        if not isinstance(other, (int, float, _Sym)):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        if _is_marked(a) or _is_marked(b):
            return _called("operator", name, a, b)
        if sign is None or not isinstance(other, (int, SymInt)):
            return getattr(operator, name)(*(x._hint() if isinstance(x, _Sym) else x
                                             for x in (a, b)))
        return SymInt(f"{_text(a)}{sign}{_text(b)}")

    return method


def _compared(name):
    op = getattr(operator, name)

    def method(self, other):
        if not isinstance(other, (int, float, _Sym)):
            return NotImplemented
        if _is_marked(self) or _is_marked(other):
            return _called("operator", name, self, other)
        if name in ("eq", "ne") and isinstance(other, SymInt) and str(self) == str(other):
            return name == "eq"
        return op(self._hint(), int(other) if isinstance(other, SymInt) else other)

    return method


for _name, _sign in (("add", " + "), ("sub", " - "), ("mul", "*"), ("floordiv", "//"),
                     ("mod", "%"), ("truediv", None), ("pow", None)):
    setattr(_Sym, f"__{_name}__", _arithmetic(_name, _sign, False))
    setattr(_Sym, f"__r{_name}__", _arithmetic(_name, _sign, True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(_Sym, f"__{_name}__", _compared(_name))


def _negated(self):
    return _called("operator", "neg", self) if self._marked else SymInt(f"-1*{_text(self)}")


def _shifted(operation):
    """self >> n and self << n, as quotients and multiples of a power of two."""
    def method(self, n):
        return operation(self, 1 << n) if isinstance(n, int) else NotImplemented

    return method


_Sym.__rshift__ = _shifted(operator.floordiv)
_Sym.__lshift__ = _shifted(operator.mul)
_Sym.__neg__ = _negated
_Sym.__divmod__ = lambda self, other: (self // other, self % other)
_Sym.__rdivmod__ = lambda self, other: (other // self, other % self)


def _overridden(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        if _cfx.is_overridden(*args):
            return _cfx.override(inner, args, kwargs)
        return f(*args, **kwargs)

    return inner


def _sym_function(name, plain):
    """torch.NAME: by C where a number is marked, which records it, else by Python."""
    @_overridden
    def f(*args):
        if any(_is_marked(a) for a in args):
            return _called("torch", name, *args)
        return plain(*args)

    f.__name__ = f.__qualname__ = name
    f.__module__ = "torch"
    return f


sym_int = _sym_function("sym_int", lambda a: a if isinstance(a, (int, SymInt))
                        else int(math.trunc(a)))
sym_float = _sym_function("sym_float", float)
sym_max = _sym_function("sym_max", max)
sym_min = _sym_function("sym_min", min)
sym_not = _sym_function("sym_not", operator.not_)
sym_ite = _sym_function("sym_ite", lambda b, t, f: t if b else f)

_cfx.adopt("sym_class", SymInt)
_cfx.adopt("sym_float_class", SymFloat)
_cfx.adopt("sym_bool_class", SymBool)
