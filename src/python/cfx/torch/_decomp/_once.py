"""One operator taken apart: its call is exported, decomposed, and what is left is called."""
from cfx._tensor import Tensor

from ..fx.node import map_arg
from ..utils import _pytree as pytree
from ..utils._python_dispatch import _disable_current_modes

_graphs = {}  # what a call looks like to the nodes that it is made of, or None


def call(op, args, kwargs):
    """What op.decompose(*args, **kwargs) gives; NotImplemented where it is not made of others."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [t for t in leaves if isinstance(t, Tensor)]
    key = (op, str(spec), tuple(
        (t.dtype, tuple(t.shape), tuple(t.stride())) if isinstance(t, Tensor) else repr(t)
        for t in leaves))
    if key not in _graphs:
        with _disable_current_modes():
            _graphs[key] = _taken_apart(op, leaves, spec, tensors)
    graph = _graphs[key]
    if graph is None:
        return NotImplemented
    return _run(graph, tensors)


def _taken_apart(op, leaves, spec, tensors):
    from ..export import ExportedProgram, export
    from ..export.decomp_utils import _all_decomposed
    from ..nn import Module

    class Call(Module):
        def forward(self, *given):
            rest = iter(given)
            args, kwargs = pytree.tree_unflatten(
                [next(rest) if isinstance(t, Tensor) else t for t in leaves], spec)
            return op(*args, **kwargs)

    keep = [str(o) for o in _all_decomposed() if o is not op]
    program = export(Call(), tuple(t.detach().clone() for t in tensors))._program
    graph = ExportedProgram(program._decompose_by({}, keep, False)).graph_module.graph
    return None if any(n.target is op for n in graph.nodes) else graph


def _run(graph, tensors):
    values, rest = {}, iter(tensors)
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = next(rest)
        elif node.op == "output":
            out = map_arg(node.args[0], lambda n: values[n])
            return out[0] if len(out) == 1 else tuple(out)
        else:
            values[node] = node.target(*map_arg(node.args, lambda n: values[n]),
                                       **map_arg(node.kwargs, lambda n: values[n]))
