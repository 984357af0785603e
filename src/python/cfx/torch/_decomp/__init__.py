"""torch._decomp: how operators are taken apart, as tables of functions."""
from cfx import _cfx

from ..export.decomp_utils import CustomDecompTable

__all__ = ["core_aten_decompositions", "decomposition_table", "get_decompositions",
           "register_decomposition", "remove_decompositions"]

decomposition_table = CustomDecompTable([op for op in _cfx.overloads("") if op._has_parts])


def _overloads(op):
    """The overloads of a packet, of an overload itself, or of several."""
    if isinstance(op, (list, tuple)):
        return [o for each in op for o in _overloads(each)]
    return [op] if isinstance(op, _cfx.OpOverload) else list(op._all)


def core_aten_decompositions():
    """What run_decompositions does: a table of one's own, to be changed."""
    return CustomDecompTable()


def get_decompositions(aten_ops, type="post_autograd"):
    """{overload: function} for operators; those that are not taken apart are left out."""
    return {o: decomposition_table[o] for op in aten_ops for o in _overloads(op)
            if o in decomposition_table}


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """A decorator: the function takes the operator apart, in this table or in another."""
    table = decomposition_table if registry is None else registry

    def register(fn):
        for o in _overloads(aten_op):
            table[o] = fn
        return fn

    return register


def remove_decompositions(decompositions, aten_ops):
    """Takes operators out of a table."""
    for op in aten_ops:
        for o in _overloads(op):
            decompositions.pop(o, None)
