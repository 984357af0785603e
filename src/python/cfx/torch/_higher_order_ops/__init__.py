"""Control flow as operators: branches and bodies are graphs of their own where it is recorded."""
from ._operator import operator, register
from .associative_scan import associative_scan
from .auto_functionalize import auto_functionalized, auto_functionalized_v2
from .cond import cond
from .map import map  # noqa: A004
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "operator", "scan", "while_loop"]


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


for _name, _function in (
        ("invoke_subgraph", _invoke_subgraph),
        ("wrap_with_set_grad_enabled", _wrap_with_set_grad_enabled),
        ("wrap_with_autocast", _wrap_with_autocast),
        ("auto_functionalized", auto_functionalized),
        ("auto_functionalized_v2", auto_functionalized_v2),
        ("print", lambda text, **kwargs: print(text.format(**kwargs)))):
    register(_name, _function)
