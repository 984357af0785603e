"""scan: a function of a carry and each slice of tensors."""
from cfx import _cfx

from ._operator import register


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """The last carry, and what combine_fn(carry, x) gave beside for each slice."""
    return _cfx.scan((combine_fn,), init, xs, dim, reverse)


scan_op = register("scan", lambda f, init, xs, dim=0, reverse=False, additional=(): scan(
    f, init, xs, dim=dim, reverse=reverse))
