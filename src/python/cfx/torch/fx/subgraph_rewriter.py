"""Replacing patterns in graphs."""
import copy
import dataclasses
import typing

from ..nn import Module
from ._compatibility import compatibility
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _get_attr, _has_attr
from .node import Node

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]


@compatibility(is_backward_compatible=True)
class Match(typing.NamedTuple):
    """A place where a pattern was found: its last node, and which node of the pattern is which."""

    anchor: Node
    nodes_map: typing.Dict[Node, Node]


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class ReplacedPatterns:
    """The same, with the nodes that were put there."""

    anchor: Node
    nodes_map: typing.Dict[Node, Node]
    replacements: typing.List[Node]


def _replace_attributes(gm, replacement):
    """Copies the attributes that new nodes name from the replacement."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _has_attr(gm, node.target):
            continue
        if not _has_attr(replacement, node.target):
            raise RuntimeError('Attempted to create a "', node.op, '" node during subgraph '
                               f"rewriting with target {node.target}, but the referenced attribute "
                               "does not exist in the replacement GraphModule")
        value = copy.deepcopy(_get_attr(replacement, node.target))
        if isinstance(value, Module):
            gm.add_submodule(node.target, value)
        else:
            setattr(gm, node.target, value)
    gm.graph.lint()


@compatibility(is_backward_compatible=True)
def replace_pattern(gm, pattern, replacement):
    """Puts a replacement wherever a pattern is found: a list of Match. Both are functions, modules
    or GraphModules."""
    return [Match(anchor=m.anchor, nodes_map=m.nodes_map)
            for m in _replace_pattern(gm, pattern, replacement)]


@compatibility(is_backward_compatible=False)
def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None,
                                 ignore_literals=False, replacement_callback=None,
                                 node_name_match=""):
    """The same for the places that all filters agree to; a callback may make a replacement for
    each."""
    return _replace_pattern(gm, pattern, replacement, match_filters, ignore_literals,
                            replacement_callback, node_name_match)


def _graph_of(source):
    if isinstance(source, GraphModule):
        return source.graph
    return source if isinstance(source, Graph) else symbolic_trace(source).graph


def _replace_pattern(gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
                     replacement_callback=None, node_name_match=""):
    from .passes.utils.matcher_utils import SubgraphMatcher

    graph, wanted = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(wanted, ignore_literals=ignore_literals)
    matches = [m for m in matcher.match(graph, node_name_match=node_name_match)
               if all(f(m, graph, wanted) for f in match_filters or ())]
    common = None if replacement is None else _graph_of(replacement)
    if common is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement "
                             "callback")
    changed, done = {}, []
    for match in matches:
        with_ = replacement_callback(match, graph, wanted) if replacement_callback else common
        new = _replace_one(graph, match, wanted, with_, changed)
        done.append(ReplacedPatterns(anchor=match.anchors[0], nodes_map=match.nodes_map,
                                     replacements=new))
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_one(graph, match, pattern, replacement, changed):
    """Puts a copy of the replacement's nodes in the place of a match; the nodes."""
    inputs = [n for n in replacement.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs "
                             f"{len(inputs)}")
    values = {}
    for i, (inner, outer) in enumerate(zip(inputs, match.placeholder_nodes)):
        now = changed.get(outer, outer) if isinstance(outer, Node) else outer
        values[inner] = now
        if now is not outer:  # an earlier replacement took its place
            match.placeholder_nodes[i] = now
            key = next(k for k, v in match.nodes_map.items() if v is outer)
            match.nodes_map[key] = now
    with graph.inserting_before(_insert_point(graph, match)):
        results = graph.graph_copy(replacement, values)
    results = (results,) if isinstance(results, Node) else results
    new = [v for v in values.values() if v not in match.placeholder_nodes]
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs "
                             f"{len(results)}")
    for old, node in zip(match.returning_nodes, results):
        old.replace_all_uses_with(node)
        changed[old] = node
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return new


def _insert_point(graph, match):
    """The first user of what the match gives; where nobody uses it, the node behind it."""
    users = {u for n in match.returning_nodes for u in n.users}
    if users:
        return min(users)
    return max(match.returning_nodes).next
