"""Operators that write to their arguments, in programs without writes: they run on copies, which
come back behind their results."""
from cfx import _cfx

from ..utils import _pytree as pytree


def _copied(value):
    """Copies that lie as the tensors do."""
    def copy(t):
        return t.new_empty_strided(t.shape, t.stride()).copy_(t)

    return pytree.tree_map_only(_cfx.TensorBase, copy, value)


def _call(op, kwargs, extra):
    result = op(**kwargs)
    n = len(op._schema.returns)
    return (*(result if n > 1 else (result,)), *extra)


def auto_functionalized(op, **kwargs):
    """The results of op (None where it has none), then what it would have written to."""
    written = [a.name for a in op._schema.arguments if a.is_write]
    own = {**kwargs, **{name: _copied(kwargs.get(name)) for name in written}}
    return _call(op, own, [own[name] for name in written])


def auto_functionalized_v2(op, *, _all_bases, **kwargs):
    """The same where arguments are views of bases: those come back."""
    bases = _copied(list(_all_bases))
    for a in op._schema.arguments:
        if not a.is_write:
            continue
        prefix = f"_{a.name}"
        if "[" not in a.type._text:
            kwargs[a.name] = _view(kwargs, prefix, bases)
            continue
        length = kwargs.pop(f"{prefix}_length", None)
        kwargs[a.name] = None if length is None else \
            [_view(kwargs, f"{prefix}_{i}", bases) for i in range(length)]
    return _call(op, kwargs, bases)


def _view(kwargs, prefix, bases):
    """The view of a base that an argument is; what is said of it is taken out of kwargs."""
    from .._ops import ops

    said = {name: kwargs.pop(f"{prefix}_{name}", None) for name in
            ("base_index", "alias", "size", "stride", "storage_offset", "slice_dim",
             "slice_start", "slice_end")}
    if said["base_index"] is None:
        return None
    base = bases[said["base_index"]]
    if said["alias"]:
        return ops.aten.alias.default(base)
    if said["storage_offset"] is not None:
        return base.as_strided(said["size"], said["stride"], said["storage_offset"])
    if said["slice_dim"] is not None:
        return ops.aten.slice.Tensor(base, said["slice_dim"], said["slice_start"],
                                     said["slice_end"])
    return base
