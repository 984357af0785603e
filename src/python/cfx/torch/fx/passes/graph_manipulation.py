"""Targets replaced, and the sizes of nodes."""
import typing

import cfx

from .._compatibility import compatibility
from ..graph import Graph
from ..node import map_arg
from .shape_prop import ShapeProp

__all__ = ["replace_target_nodes_with", "size_bytes", "get_size_of_all_nodes", "get_tensor_meta",
           "get_size_of_node"]


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Lets nodes of one kind and target be of another."""
    new, values = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            values[node] = new.create_node(new_op, new_target,
                                           map_arg(node.args, lambda n: values[n]),
                                           map_arg(node.kwargs, lambda n: values[n]), node.name)
        else:
            values[node] = new.node_copy(node, lambda n: values[n])
    fx_module.graph = new


@compatibility(is_backward_compatible=False)
class size_bytes(typing.NamedTuple):
    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(fx_module, args=None):
    """Writes node.size_bytes: of the result, and with it of the weights."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node):
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that "
                           "shape propagation has run.")
    return meta


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module, node):
    weights = 0
    if node.op == "call_module":
        weights = sum(p.numel() for p in fx_module.get_submodule(node.target).parameters())
    meta = get_tensor_meta(node)
    size, count = meta.dtype.itemsize, cfx.Size(meta.shape).numel()
    return size_bytes(size * count, size * (count + weights))
