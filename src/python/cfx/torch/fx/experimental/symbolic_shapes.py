"""Symbols for sizes: what those who look at exported programs ask of them."""
import re

from ..._sym import GuardOnDataDependentSymNode, SymBool, SymFloat, SymInt  # noqa: F401
from ..._errors import ConstraintViolationError  # noqa: F401

__all__ = ["ConstraintViolationError", "GuardOnDataDependentSymNode", "ShapeEnv",
           "definitely_false",
           "definitely_true", "free_symbols", "free_unbacked_symbols", "guard_bool",
           "guard_float", "guard_int", "guard_size_oblivious", "has_free_symbols",
           "has_free_unbacked_symbols", "has_symbolic_sizes_strides", "hint_int",
           "is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbolic",
           "statically_known_true", "sym_and", "sym_eq", "sym_or"]


class ShapeEnv:
    """What a FakeTensorMode may be given. The sizes of fakes are numbers in cfx, and exports make
    their symbols themselves: there is nothing to keep here."""

    def __init__(self, *, tracked_fakes=None, **settings):
        self.tracked_fakes = tracked_fakes
        self.settings = settings


def is_symbolic(value):
    return isinstance(value, (SymInt, SymFloat, SymBool))


def is_concrete_int(a):
    return isinstance(a, int)


def is_concrete_float(a):
    return isinstance(a, float)


def is_concrete_bool(a):
    return isinstance(a, bool)


def hint_int(a, fallback=None):
    """The value with the example inputs; the fallback where that is data."""
    try:
        return int(a)
    except GuardOnDataDependentSymNode:
        if fallback is None:
            raise
        return fallback


def guard_int(a):
    return int(a)


def guard_float(a):
    return float(a)


def guard_bool(a):
    return bool(a)


guard_size_oblivious = guard_or_true = guard_or_false = bool


def statically_known_true(x):
    """Whether it is true whatever the sizes are; where nobody knows, it is not."""
    if is_symbolic(x):
        return str(x) == "True"
    return bool(x)


def definitely_true(x):
    return statically_known_true(x)


def definitely_false(x):
    return not is_symbolic(x) and not x


def sym_and(x, *others):
    """Whether all of several conditions hold."""
    for other in others:
        x = x & other
    return x


def sym_or(x, *others):
    """Whether one of several conditions holds."""
    for other in others:
        x = x | other
    return x


def sym_eq(x, y):
    """Whether two sizes, or tuples of them, are equal."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(bool(sym_eq(a, b)) for a, b in zip(x, y))
    return x == y


def _expressions(value):
    if is_symbolic(value):
        yield str(value)
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _expressions(v)
    elif hasattr(value, "shape"):
        yield from _expressions(tuple(value.shape))


def free_symbols(value):
    """The symbols in a number, a tensor's sizes, or several of them."""
    from ..._sym import _Expr

    return {_Expr(s) for e in _expressions(value) for s in re.findall(r"[a-z]+\d+", e)}


def free_unbacked_symbols(value):
    return {s for s in free_symbols(value) if s.startswith(("u", "zuf"))}


def has_free_symbols(value):
    return bool(free_symbols(value))


def has_free_unbacked_symbols(value):
    return bool(free_unbacked_symbols(value))


def has_symbolic_sizes_strides(t):
    return has_free_symbols(t)
