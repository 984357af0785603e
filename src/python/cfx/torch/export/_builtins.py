"""Functions of Python's own that take numbers: while a model is exported, those that get symbols or
single tensors become what is recorded, where Python's would compare and so decide."""
import builtins
import contextlib
import functools
import math

import cfx
from cfx import _cfx

from .. import _sym


def _is_single(x):
    return isinstance(x, cfx.Tensor) and x.dim() == 0


def _extreme(plain, symbolic, of_tensors, bound):
    """max or min of two: which function depends on what they are."""
    def two(a, b):
        if _is_single(a) and _is_single(b):
            return of_tensors(a, b)
        for t, n in ((a, b), (b, a)):
            if _is_single(t) and type(n) in (int, float):
                return t.clamp(**{bound: n})
        if any(isinstance(x, _cfx.Sym) for x in (a, b)) and \
                all(isinstance(x, (_cfx.Sym, int, float)) for x in (a, b)):
            return symbolic(a, b)
        return plain(a, b)

    @functools.wraps(plain)
    def f(*args, **kwargs):
        values = args if len(args) > 1 else list(args[0]) if args else ()
        if kwargs or not any(isinstance(v, _cfx.Sym) or _is_single(v) for v in values):
            return plain(values if len(args) == 1 else args, **kwargs) if args else plain()
        return functools.reduce(two, values)

    return f


def _pow(x, y):
    if any(isinstance(n, _cfx.Sym) for n in (x, y)):
        return _sym.sym_float(x) ** y
    return math_pow(x, y)


math_pow = math.pow


@contextlib.contextmanager
def recorded():
    """Meanwhile max, min and math.pow are recorded where they get symbols."""
    own = builtins.max, builtins.min, math.pow
    builtins.max = _extreme(own[0], _sym.sym_max, cfx.torch.maximum, "min")
    builtins.min = _extreme(own[1], _sym.sym_min, cfx.torch.minimum, "max")
    math.pow = _pow
    try:
        yield
    finally:
        builtins.max, builtins.min, math.pow = own
