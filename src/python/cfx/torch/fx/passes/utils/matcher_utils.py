"""Finding a pattern in a graph, goal by goal from results to inputs."""
import copy
import dataclasses
import logging
import typing

import cfx
from cfx import _cfx

from ..._compatibility import compatibility
from ...graph_module import _get_attr
from ...node import Node

__all__ = ["SubgraphMatcher", "InternalMatch"]
logger = logging.getLogger(__name__)


@compatibility(is_backward_compatible=False)
@dataclasses.dataclass
class InternalMatch:
    """A place where a pattern was found."""

    anchors: typing.List[Node]
    nodes_map: typing.Dict[Node, Node] = dataclasses.field(default_factory=dict)
    placeholder_nodes: typing.List[Node] = dataclasses.field(default_factory=list)
    returning_nodes: typing.List[Node] = dataclasses.field(default_factory=list)
    name_node_map: typing.Dict[str, Node] = dataclasses.field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(anchors=self.anchors, nodes_map=self.nodes_map.copy(),
                             placeholder_nodes=self.placeholder_nodes.copy(),
                             returning_nodes=self.returning_nodes.copy())


def _inner(pn):
    return pn.op not in ("placeholder", "output")


@compatibility(is_backward_compatible=False)
class SubgraphMatcher:
    """Finds the places where a graph is part of another. Placeholders of the pattern stand for
    anything unless match_placeholder; the output is not looked at unless match_output."""

    def __init__(self, pattern, match_output=False, match_placeholder=False,
                 remove_overlapping_matches=True, ignore_literals=False):
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with "
                                     "dead code")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else \
            [n for n in output.all_input_nodes if len(n.users) == 1]

    # ---- one node ----

    def _match_attributes(self, pn, gn):
        mine = _get_attr(pn.graph.owning_module, pn.target)
        other = _get_attr(gn.graph.owning_module, gn.target)
        if type(mine) is not type(other):
            return False
        if isinstance(mine, cfx.Tensor):
            return True
        raise RuntimeError(f"Unsupported type {mine} when matching attributes")

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if not _inner(pn):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _match_literals(self, pn, gn, match):
        if isinstance(pn, Node):
            if pn.op != "placeholder":
                return False
            if pn in match.nodes_map:
                return match.nodes_map[pn] == gn
            match.nodes_map[pn] = gn
            return True
        return not isinstance(gn, Node) and type(gn) is type(pn) and gn == pn

    def _match_args(self, a, b, match):
        if len(a) != len(b):
            return False
        for x, y in zip(a, b):
            if isinstance(x, Node) and isinstance(y, Node):
                fits = self._match_nodes(x, y, match)
            elif isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
                fits = self._match_args(x, y, match)
            else:
                fits = self._match_literals(x, y, match) or self.ignore_literals
            if not fits:
                return False
        return True

    def _match_nodes(self, pn, gn, match, node_name_match=""):
        if pn in match.nodes_map:
            return match.nodes_map[pn] == gn
        if gn in match.nodes_map.values() or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        mine, other = _arguments(pn, gn)
        return mine is not None and self._match_args(mine, other, match)

    # ---- the whole ----

    def _is_contained(self, nodes_map):
        """Whether what is inside a match is used there alone."""
        inside = {gn: pn for pn, gn in nodes_map.items()
                  if pn.op != "placeholder" and isinstance(gn, Node)}
        return all(user in inside for gn, pn in inside.items()
                   if pn not in self.pattern_returning_nodes for user in gn.users)

    def _remove_overlapping_matches(self, matches):
        kept, taken = [], set()
        for match in matches:
            nodes = {gn for pn, gn in match.nodes_map.items() if _inner(pn)}
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept

    def _search(self, candidates, at, match, found):
        """Tries the candidates of each anchor in turn."""
        if at == len(candidates):
            match.placeholder_nodes = [match.nodes_map[n] for n in
                                       self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]
            found.append(match)
            return
        anchor, nodes = candidates[at]
        for node in nodes:
            trial = copy.copy(match)
            if self._match_nodes(anchor, node, trial, self._name):
                self._search(candidates, at + 1, trial, found)

    def match(self, graph, node_name_match=""):
        """All places, as a list of InternalMatch."""
        from .fuser_utils import validate_partition

        self._name = node_name_match
        candidates = [(a, [n for n in graph.nodes if self._nodes_are_equal(a, n, node_name_match)])
                      for a in self.pattern_anchors]
        candidates = [(a, nodes) for a, nodes in candidates if nodes]
        found = []
        if candidates:
            self._search(candidates, 0, InternalMatch(anchors=self.pattern_anchors), found)
        found = [m for m in found if self._is_contained(m.nodes_map)]
        found = [m for m in found if validate_partition(
            [gn for pn, gn in m.nodes_map.items() if _inner(pn)])]
        return self._remove_overlapping_matches(found) if self.remove_overlapping_matches \
            else found


def _arguments(pn, gn):
    """The arguments of both in one order; (None, None) where they are not given alike."""
    same = len(pn.args) == len(gn.args) and list(pn.kwargs) == list(gn.kwargs)
    if same:
        return [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()]
    if pn.op == "call_function" and isinstance(pn.target, _cfx.OpOverload):
        return _by_schema(pn), _by_schema(gn)
    return None, None


def _by_schema(node):
    out = []
    for i, a in enumerate(node.target._schema.arguments):
        if a.name in node.kwargs:
            out.append(node.kwargs[a.name])
        elif not a.kwarg_only and i < len(node.args):
            out.append(node.args[i])
        else:
            out.append(a.default_value)
    return out
