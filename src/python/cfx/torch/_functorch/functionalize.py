"""torch.func.functionalize: a function without writes. It is exported, what it writes becomes
values, and the calls that are left are made; inputs that it wrote to are copied to at the end."""
import functools

from cfx._tensor import Tensor

from ..fx.node import map_arg
from ..utils import _pytree as pytree
from ..utils._python_dispatch import _disable_current_modes

__all__ = ["functionalize"]


def functionalize(func, *, remove="mutations"):
    """The function, computed by operators that write to nothing."""
    if remove == "mutations_and_views":
        raise NotImplementedError("functionalize(remove=\"mutations_and_views\"): cfx has no "
                                  "operators that copy in the place of views")
    if remove != "mutations":
        raise RuntimeError(f"functionalize(f, remove='mutations'): received invalid argument for "
                           f"remove={remove}")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [t for t in leaves if isinstance(t, Tensor)]
        with _disable_current_modes():
            ep, out_spec = _program(func, leaves, spec, tensors)
        return pytree.tree_unflatten(_run(ep, tensors), out_spec[0])

    return wrapped


def _program(func, leaves, spec, tensors):
    from ..export import export
    from ..nn import Module

    out_spec = []

    class Call(Module):
        def forward(self, *given):
            rest = iter(given)
            args, kwargs = pytree.tree_unflatten(
                [next(rest) if isinstance(t, Tensor) else t for t in leaves], spec)
            flat, found = pytree.tree_flatten(func(*args, **kwargs))
            out_spec[:] = [found]
            return tuple(flat)

    copies = tuple(t.detach().clone() for t in tensors)
    return export(Call(), copies).run_decompositions({}), out_spec


def _run(ep, tensors):
    """The results; inputs that are written to get what the program has for them."""
    signature, constants = ep.graph_signature, {**ep.state_dict, **ep.constants}
    names = {s.arg.name: s.target for s in signature.input_specs if s.target is not None}
    values, rest = {}, iter(tensors)
    for node in ep.graph.nodes:
        if node.op == "placeholder":
            values[node] = constants[names[node.name]] if node.name in names else next(rest)
        elif node.op == "output":
            out = map_arg(node.args[0], lambda n: values[n])
        else:
            values[node] = node.target(*map_arg(node.args, lambda n: values[n]),
                                       **map_arg(node.kwargs, lambda n: values[n]))
    places = {n.name: v for n, v in values.items() if n.op == "placeholder"}
    results = []
    for s, value in zip(signature.output_specs, out):
        if s.target is not None:
            places[s.target].copy_(value)
        else:
            results.append(value)
    return results
