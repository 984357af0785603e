"""Partitions by the module or function of the source that nodes come from."""
import dataclasses
import logging
import typing

from ..._compatibility import compatibility
from ...node import Node

__all__ = ["get_source_partitions", "check_subgraphs_connected", "SourcePartition"]
logger = logging.getLogger(__name__)


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class SourcePartition:
    """Nodes of one module or function: inputs, outputs, and the parameters among them."""

    nodes: typing.List[Node]
    source: typing.Any
    input_nodes: typing.List[Node] = dataclasses.field(default_factory=list)
    output_nodes: typing.List[Node] = dataclasses.field(default_factory=list)
    params: typing.List[Node] = dataclasses.field(default_factory=list)


def _source_of(node):
    """(name, source) of the innermost module or function that a node comes from; None."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        return stack[-1]
    torch_fn = node.meta.get("torch_fn")
    if torch_fn is None:
        return None
    name, text = torch_fn
    kind, _, target = text.partition(".")
    if kind in ("builtin_function_or_method", "method_descriptor", "function"):
        return name, target
    return name, text


def _module_of(node, wanted_sources):
    """(path, class) of the module whose forward called it, where its class is wanted; None."""
    stack = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not stack:
        return None
    path, cls = list(stack.values())[-1]
    for source in wanted_sources:
        if not isinstance(source, type):
            continue
        name = f"{source.__module__}.{source.__qualname__}"
        if cls == name if isinstance(cls, str) else issubclass(cls, source):
            return path, source
    return None


@compatibility(is_backward_compatible=False)
def get_source_partitions(graph, wanted_sources, filter_fn=None):
    """Source to the partitions of nodes that come from it."""
    found = {}
    for node in graph.nodes:
        source = _source_of(node)
        if source is None or source[1] not in wanted_sources:
            source = None if node.meta.get("source_fn_stack") else _module_of(node, wanted_sources)
        if source is not None:
            found.setdefault(source[1], {}).setdefault(source[0], []).append(node)
    out = {}
    for source, groups in found.items():
        parts = [_partition(nodes, source) for nodes in groups.values()]
        if filter_fn:
            parts = [p for p in parts if all(map(filter_fn, p.output_nodes))]
        if parts:
            out[source] = parts
    return out


def _partition(nodes, source):
    inputs, outputs, params = {}, {}, {}
    for node in nodes:
        for a in node.args:
            if isinstance(a, Node) and a not in nodes and a.op != "get_attr":
                inputs.setdefault(a)
        for a in node.all_input_nodes:
            if a.op == "get_attr":
                params.setdefault(a)
        if any(u not in nodes for u in node.users):
            outputs.setdefault(node)
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


@compatibility(is_backward_compatible=False)
def check_subgraphs_connected(subgraph1, subgraph2):
    """Whether one gives the other something."""
    return any(n in subgraph1.nodes for node in subgraph2.nodes for n in node.all_input_nodes)
