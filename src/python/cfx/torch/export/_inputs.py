"""What a program's module is called with: arranged as in the export, of the sizes that it has."""
import math

import cfx

from ..utils import _pytree as pytree


class CheckInputs:
    """A hook that runs before the module: arguments that do not fit are told by their place."""

    def __init__(self, ranges):
        self.ranges = ranges  # symbol to (least, most)

    def __call__(self, module, args, kwargs):
        if not getattr(module, "validate_inputs", True):
            return
        given = flatten(args, kwargs, module._in_spec)
        if "_guards_fn" not in module._modules:
            check(module.graph.find_nodes(op="placeholder"), given, self.ranges)


def _reordered(kwargs, spec):
    """The keywords in the order of the export's; as they are, where they are others."""
    if spec.type is not tuple or len(spec.children_specs) != 2:
        return kwargs
    names = spec.children_specs[1].context
    return {n: kwargs[n] for n in names} if set(names or ()) == set(kwargs) else kwargs


def _as_spec(value, spec):
    """A tree of arguments with its dicts in the order of the export's."""
    if spec.is_leaf() or type(value) is not spec.type or spec.type not in (dict, list, tuple):
        return value
    keys = spec.context if spec.type is dict else range(spec.num_children)
    if len(value) != spec.num_children or (spec.type is dict and set(keys) != set(value)):
        return value
    items = [_as_spec(value[k], s) for k, s in zip(keys, spec.children())]
    return dict(zip(keys, items)) if spec.type is dict else spec.type(items)


def flatten(args, kwargs, spec):
    """(path, value) of each argument."""
    names = spec.children_specs[1].context if len(spec.children_specs) == 2 else None
    if isinstance(names, list) and set(names) != set(kwargs):
        raise ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords "
                         f"{list(kwargs)} but expected {names}")
    given = _as_spec((args, _reordered(kwargs, spec)), spec)
    paths, got = pytree.tree_flatten_with_path(given)
    if got != spec:
        raise ValueError("Trying to flatten user inputs with exported input tree spec: \n"
                         f"{spec}\nbut actually got inputs with tree spec of: \n{got}.\nPlease "
                         "check that the inputs have the same number and type of args and kwargs "
                         "as the ones you used when tracing.")
    return paths


def _place(path):
    """*args[0].x, or a keyword and what is inside."""
    if path[0].idx == 0:
        return f"*args{pytree.keystr(path[1:])}"
    return f"{str(path[1])[1:-1]}{pytree.keystr(path[2:])}"


def check(placeholders, given, ranges):
    """Holds arguments against what the export saw."""
    if len(placeholders) != len(given):
        raise RuntimeError(f"Unexpected number of inputs (expected {len(placeholders)}, got "
                           f"{len(given)})")
    sizes = {}  # symbol to what it is
    for node, (path, value) in zip(placeholders, given):
        like, place = node.meta.get("val"), _place(path)
        if isinstance(like, cfx.Tensor):
            _check_tensor(like, value, place, ranges, sizes)
        elif isinstance(like, (int, float, str)):
            if type(value) is not type(like) or value != like:
                raise RuntimeError(f"Expected input at {place} to be equal to {like}, but got "
                                   f"{value}")
        elif type(like).__name__ == "SymInt":
            _check_size(str(like), value, place, ranges, sizes)


def _check_tensor(like, value, place, ranges, sizes):
    if not isinstance(value, cfx.Tensor):
        raise RuntimeError(f"Expected input at {place} to be a tensor, but got {type(value)}")
    if len(like.shape) != len(value.shape):
        raise RuntimeError(f"Unexpected number of dimensions in input at {place}.shape (expected "
                           f"{like.shape}, got {value.shape})")
    for i, (size, n) in enumerate(zip(like.shape, value.shape)):
        where = f"{place}.shape[{i}]"
        if type(size) is not int:
            _check_size(str(size), n, where, ranges, sizes)
        elif type(n) is int and n != size:
            raise RuntimeError(f"Expected input at {where} to be equal to {size}, but got {n}")


def _symbols(expr):
    from .._sym import _Expr

    return _Expr(expr).free_symbols


def _value(expr, sizes):
    names = {"Max": max, "Min": min, "floor": math.floor, "ceil": math.ceil}
    return eval(expr, {"__builtins__": {}}, {**names, **{str(s): n for s, n in sizes.items()}})


def _solved(expr, symbol, n):
    """The integer that a symbol is where a line of it is n; None where there is none."""
    at = [_value(expr, {symbol: k}) for k in range(3)]
    slope = at[1] - at[0]
    if slope == 0 or at[2] - at[1] != slope or (n - at[0]) % slope:
        return None
    return (n - at[0]) // slope


def _check_size(expr, n, where, ranges, sizes):
    symbols = _symbols(expr)
    if type(n) is not int or len(symbols) != 1:  # a trace of the module, or more than a line
        return
    symbol = next(iter(symbols))
    if symbol in sizes:
        expected = _value(expr, sizes)
        if n != expected:
            raise RuntimeError(f"Expected input at {where} to be equal to {expected}, but got {n}")
    else:
        solved = n if expr == symbol else _solved(expr, symbol, n)
        if solved is None:
            raise RuntimeError(f"Expected input {where} = {n} to be of the form {expr}, where "
                               f"{symbol} is an integer")
        sizes[symbol] = solved
    least, most = ranges.get(expr, (0, math.inf))
    if least > 2 and n < least:
        raise RuntimeError(f"Expected input at {where} to be >= {least}, but got {n}")
    if n > most:
        raise RuntimeError(f"Expected input at {where} to be <= {most}, but got {n}")
