"""Splitting by tags that nodes have."""
import copy
import dataclasses
import typing

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .tools_common import NodeList
from .utils import HolderModule, lift_subgraph_as_module

__all__ = ["getattr_recursive", "setattr_recursive", "Component", "split_by_tags"]


@compatibility(is_backward_compatible=False)
def getattr_recursive(obj, name):
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


@compatibility(is_backward_compatible=False)
def setattr_recursive(obj, attr, value):
    first, _, rest = attr.partition(".")
    if not rest:
        setattr(obj, attr, value)
    else:
        setattr_recursive(getattr(obj, first), rest, value)


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class Component:
    """A part: its graph, what it takes from outside, and its module."""

    graph: Graph
    order: int
    name: str
    input_placeholders: typing.List = dataclasses.field(default_factory=list)
    orig_inputs: typing.List = dataclasses.field(default_factory=list)
    orig_outputs: typing.List = dataclasses.field(default_factory=list)
    getattr_maps: typing.Dict[Node, Node] = dataclasses.field(default_factory=dict)
    constructor_args: typing.List[str] = dataclasses.field(default_factory=list)
    gm: typing.Optional[GraphModule] = None


@compatibility(is_backward_compatible=False)
def split_by_tags(gm, tags, return_fqn_mapping=False, return_tuple=False,
                  GraphModuleCls=GraphModule):
    """The GraphModule split into a part for each tag (node.tag), called after it."""
    components = [Component(Graph(), i, tag) for i, tag in enumerate(tags)]
    by_tag = {c.name: c for c in components}
    of_node, remapped, main, main_nodes = {}, {}, Graph(), {}
    output_node = None
    for node in gm.graph.nodes:
        if node.op == "output":
            output_node = node
            continue
        if node.op == "placeholder":
            main_nodes[node] = main.placeholder(node.name, type_expr=node.type)
            main_nodes[node].meta = copy.copy(node.meta)
            continue
        if node.op == "get_attr":
            continue
        if not hasattr(node, "tag"):
            raise AssertionError(f"Node does not have tag: {node.format_node()}")
        c = by_tag[node.tag]
        of_node[node] = c
        behind = max([of_node[i].order for i in node.all_input_nodes if i in of_node], default=-1)
        if c.order < behind:
            raise AssertionError(f"Component {c.name} order ({c.order}) must be >= max of its "
                                 f"upstream components ({behind})")
        remapped[node] = c.graph.node_copy(
            node, lambda x, c=c: _taken(x, c, of_node, remapped, gm))
    for node in _crossing(gm.graph, of_node, output_node):
        of_node[node].orig_outputs.append(node)
    root = HolderModule({})
    names = {}
    for c in components:
        outs = tuple(remapped[n] for n in c.orig_outputs)
        if return_tuple:
            c.graph.output(outs)
        else:
            c.graph.output(outs[0] if len(outs) == 1 else outs)
        c.gm, mapped = lift_subgraph_as_module(gm, subgraph=c.graph, comp_name=c.name)
        names.update(mapped)
        call = main.call_module(c.name, args=tuple(main_nodes[i] for i in c.orig_inputs),
                                kwargs=None)
        if len(outs) == 1 and not return_tuple:
            main_nodes[c.orig_outputs[0]] = call
        else:
            import operator

            for i, n in enumerate(c.orig_outputs):
                main_nodes[n] = main.call_function(operator.getitem, (call, i))
        setattr(root, c.name, c.gm)
    for node in gm.graph.nodes:  # attributes that the result names
        if node.op == "get_attr" and output_node in node.users:
            main_nodes[node] = main.get_attr(node.name)
            setattr(root, node.name, getattr_recursive(gm, node.target))
    main.output(map_arg(output_node.args[0], lambda n: main_nodes[n]))
    main._codegen = copy.deepcopy(gm.graph._codegen)
    whole = GraphModuleCls(root, main)
    return (whole, names) if return_fqn_mapping else whole


def _crossing(graph, of_node, output_node):
    """Nodes that another part or the output reads, in the order in which they are first read."""
    found = {}
    for user in [n for n in graph.nodes if n in of_node] + [output_node]:
        map_arg((user.args, user.kwargs), lambda n, user=user: found.setdefault(n)
                if n in of_node and of_node[n] is not of_node.get(user) else None)
    return found


def _taken(x, c, of_node, remapped, gm):
    """What an argument is inside a part."""
    if x.op == "get_attr":
        if x not in c.getattr_maps:
            c.getattr_maps[x] = c.graph.get_attr(x.target, type_expr=x.type)
            c.getattr_maps[x].meta = copy.copy(x.meta)
        return c.getattr_maps[x]
    if x in of_node and of_node[x] is c:
        return remapped[x]
    if x not in c.orig_inputs:
        c.orig_inputs.append(x)
        inner = c.graph.placeholder(x.name, type_expr=x.type)
        inner.meta = copy.copy(x.meta)
        c.input_placeholders.append(inner)
    return c.input_placeholders[c.orig_inputs.index(x)]


_ = NodeList
