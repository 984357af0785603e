"""while_loop: a function again and again, as long as another says so."""
from cfx import _cfx

from ._operator import register


def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn as long as cond_fn says so; a tuple."""
    if _cfx.is_overridden(*carried_inputs):
        return _cfx.override(while_loop_op, (cond_fn, body_fn, carried_inputs), {})
    return _cfx.while_loop((cond_fn, body_fn), tuple(carried_inputs))


while_loop_op = register("while_loop", lambda test, body, carried, additional=(): while_loop(
    lambda *a: test(*a, *additional), lambda *a: body(*a, *additional), carried))
