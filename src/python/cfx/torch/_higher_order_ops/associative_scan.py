"""associative_scan: what a function of two makes of every beginning of tensors."""
import functools

from cfx import _cfx

from ..utils import _pytree as pytree
from ._operator import register


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


def _as_called(combine_fn, xs, additional_inputs=()):
    """The operator in graphs, whose function takes the parts of both beside each other."""
    return associative_scan(lambda a, b: combine_fn(*a, *b, *additional_inputs), list(xs), 0)


associative_scan_op = register("associative_scan", _as_called)
