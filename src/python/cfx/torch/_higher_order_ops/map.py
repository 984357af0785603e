"""map: a function of each slice of tensors."""
from cfx import _cfx

from ._operator import register


def map(f, xs, *args):  # noqa: A001
    """f(x, *args) for each slice x of xs, one behind the other."""
    return _cfx.map((f,), (xs, *args))


map_impl = register("map_impl", lambda f, xs, args=(): map(lambda x, *rest: f(*x, *rest),
                                                           tuple(xs), *args))
