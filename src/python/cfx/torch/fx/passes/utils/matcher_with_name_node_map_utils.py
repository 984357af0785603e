"""Patterns that name the nodes they want: their last result is a dict of name to node."""
from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from .matcher_utils import SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm):
    """(the pattern without the dict, the dict)."""
    from ....utils import _pytree as pytree

    names = {}
    for node in gm.graph.nodes:
        if node.op != "output":
            continue
        if gm._out_spec is None:
            raise AssertionError("gm._out_spec is None")
        out = pytree.tree_unflatten(node.args[0], gm._out_spec)
        if not isinstance(out, tuple):
            raise AssertionError("Expecting the pattern graph to return a tuple")
        if len(out) < 2:
            raise AssertionError("Expecting the pattern graph to have at least two outputs")
        *out, names = out
        flat, spec = pytree.tree_flatten(out)
        if not isinstance(names, dict):
            raise AssertionError("Expecting the input graph to have a dict output as the last "
                                 "element")
        node.args = (flat,)
        gm._codegen_out_spec = gm._out_spec = spec
        gm.graph._codegen.pytree_info = gm.graph._codegen.pytree_info._replace(out_spec=spec)
    gm.recompile()
    return gm, names


@compatibility(is_backward_compatible=False)
class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Matches have name_node_map: what the names of the pattern's dict stand for."""

    def __init__(self, pattern_gm, match_output=False, match_placeholder=False,
                 remove_overlapping_matches=True, ignore_literals=False):
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        self.pattern_gm = pattern_gm
        super().__init__(pattern_gm.graph, match_output, match_placeholder,
                         remove_overlapping_matches, ignore_literals)

    def match(self, graph, node_name_match=""):
        matches = super().match(graph, node_name_match)
        for m in matches:
            for name, node in self.name_node_map.items():
                m.name_node_map[name] = m.nodes_map[node]
        return matches


_ = (Graph, GraphModule)
