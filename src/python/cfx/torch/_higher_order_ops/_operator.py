"""torch.ops.higher_order: operators whose arguments are functions."""
from cfx import _cfx

from .._ops import HigherOrderOperator

_operators = {}


class _Operator(HigherOrderOperator):
    """torch.ops.higher_order.NAME"""

    def __init__(self, name, function):
        super().__init__(name)
        self._function = function

    def __call__(self, *args, **kwargs):
        if _cfx.is_overridden(*args, *kwargs.values()):
            return _cfx.override(self, args, kwargs)
        return self._function(*args, **kwargs)

    def __reduce__(self):
        return (operator, (self._name,))

    def __deepcopy__(self, memo):
        return self


def register(name, function):
    """The operator torch.ops.higher_order.NAME, which calls a function."""
    return _operators.setdefault(name, _Operator(name, function))


def operator(name):
    """The operator called so; AttributeError where there is none."""
    try:
        return _operators[name]
    except KeyError:
        raise AttributeError(f"'_HigherOrderNamespace' object has no attribute '{name}'") from None
