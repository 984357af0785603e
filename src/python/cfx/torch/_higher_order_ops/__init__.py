"""Control flow as operators: branches and bodies are graphs of their own where it is recorded."""
import functools
import warnings

from cfx import _cfx

from .._ops import HigherOrderOperator
from ..utils import _pytree as pytree
from .auto_functionalize import auto_functionalized, auto_functionalized_v2


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands)."""
    if isinstance(pred, (bool, int, float)):
        warnings.warn("Pred is a Python constant. When used with torch.cond, it specializes on one "
                      "of the branches. If you want torch.cond to preserve two branches, please "
                      "make the predicate a boolean tensor or a SymBool.", stacklevel=2)
        return (true_fn if pred else false_fn)(*operands)
    if _cfx.is_overridden(pred, *operands):
        return _cfx.override(operator("cond"), (pred, true_fn, false_fn, operands), {})
    return _cfx.cond(pred, (true_fn, false_fn), tuple(operands))


def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn as long as cond_fn says so; a tuple."""
    if _cfx.is_overridden(*carried_inputs):
        return _cfx.override(operator("while_loop"), (cond_fn, body_fn, carried_inputs), {})
    return _cfx.while_loop((cond_fn, body_fn), tuple(carried_inputs))


def map(f, xs, *args):  # noqa: A001
    """f(x, *args) for each slice x of xs, one behind the other."""
    return _cfx.map((f,), (xs, *args))


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """The last carry, and what combine_fn(carry, x) gave beside for each slice."""
    return _cfx.scan((combine_fn,), init, xs, dim, reverse)


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """Every beginning of xs, combined."""
    leaves, spec = pytree.tree_flatten(xs)
    if len(leaves) == 1 and leaves[0] is xs:
        return _cfx.scan((combine_fn,), None, xs, dim, reverse)

    @functools.wraps(combine_fn)
    def flat(a, b):
        both = combine_fn(pytree.tree_unflatten(a, spec), pytree.tree_unflatten(b, spec))
        return pytree.tree_leaves(both)

    return pytree.tree_unflatten(_cfx.scan((flat,), None, leaves, dim, reverse), spec)


# ---- as programs call them -----------------------------------------------------------------------


def _wrap_with_set_grad_enabled(enable, wrapped, *args):
    from ..autograd import set_grad_enabled

    with set_grad_enabled(enable):
        return wrapped(*args)


def _wrap_with_autocast(device_type, dtype, enabled, cache_enabled, wrapped, *args):
    from ..amp import autocast

    with autocast(device_type, dtype, enabled, cache_enabled):
        return wrapped(*args)


def _invoke_subgraph(subgraph, identifier, *operands):
    return subgraph(*operands)


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


_operators = {name: _Operator(name, f) for name, f in (
    ("cond", cond),
    ("while_loop", lambda test, body, carried, additional=(): while_loop(
        lambda *a: test(*a, *additional), lambda *a: body(*a, *additional), carried)),
    ("map_impl", lambda f, xs, args=(): map(lambda x, *rest: f(*x, *rest), tuple(xs), *args)),
    ("scan", lambda f, init, xs, dim=0, reverse=False, additional=(): scan(
        f, init, xs, dim=dim, reverse=reverse)),
    ("associative_scan", associative_scan),
    ("invoke_subgraph", _invoke_subgraph),
    ("wrap_with_set_grad_enabled", _wrap_with_set_grad_enabled),
    ("wrap_with_autocast", _wrap_with_autocast),
    ("auto_functionalized", auto_functionalized),
    ("auto_functionalized_v2", auto_functionalized_v2),
    ("print", lambda text, **kwargs: print(text.format(**kwargs))),
)}


def operator(name):
    """The operator called so; AttributeError where there is none."""
    try:
        return _operators[name]
    except KeyError:
        raise AttributeError(f"'_HigherOrderNamespace' object has no attribute '{name}'") from None
