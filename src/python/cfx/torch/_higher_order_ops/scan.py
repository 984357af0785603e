"""scan: a function of a carry and each slice of tensors."""
from cfx import _cfx

from ._operator import register


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """The last carry, and what combine_fn(carry, x) gave beside for each slice."""
    return _cfx.scan((combine_fn,), init, xs, dim, reverse)


def _as_called(combine_fn, init, xs, additional_inputs=()):
    """The operator in graphs, which has lists for everything: all carries and results in one."""
    def step(carry, x):
        out = combine_fn(*carry, *x, *additional_inputs)
        return list(out[:len(init)]), list(out[len(init):])

    carry, outs = scan(step, list(init), list(xs))
    return [*carry, *outs]


scan_op = register("scan", _as_called)
