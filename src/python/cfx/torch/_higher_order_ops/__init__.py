"""Control flow as operators: branches and bodies are graphs of their own where it is recorded."""
import functools

from cfx import _cfx

from ..utils import _pytree as pytree


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands)."""
    if _cfx.is_overridden(pred, *operands):
        return _cfx.override(cond, (pred, true_fn, false_fn, operands), {})
    return _cfx.cond(pred, (true_fn, false_fn), tuple(operands))


def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn as long as cond_fn says so; a tuple."""
    if _cfx.is_overridden(*carried_inputs):
        return _cfx.override(while_loop, (cond_fn, body_fn, carried_inputs), {})
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
