"""Sub-graphs as modules, and graphs that are the same."""
from ....nn import Module
from ..._compatibility import compatibility
from ...graph_module import GraphModule


@compatibility(is_backward_compatible=False)
class HolderModule(Module):
    """Holds modules by name."""

    def __init__(self, d):
        super().__init__()
        for name, m in d.items():
            self.add_module(name, m)


@compatibility(is_backward_compatible=False)
def lift_subgraph_as_module(gm, subgraph, comp_name="", class_name="GraphModule"):
    """(a GraphModule of a sub-graph with what it names of gm, {path in gm: path there})."""
    below = HolderModule({})
    names = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = node.target
        path = target.split(".")
        holder, own = below, ""
        current = gm
        for part in path[:-1]:
            own = f"{own}.{part}" if own else part
            current = getattr(current, part)
            if not hasattr(holder, part):
                holder.add_module(part, HolderModule({}))
            holder = getattr(holder, part)
        value = getattr(current, path[-1])
        if target not in names:
            setattr(holder, path[-1], value)
            names[target] = f"{comp_name}.{target}"
    return GraphModule(below, subgraph, class_name), names


@compatibility(is_backward_compatible=False)
def compare_graphs(left, right):
    """Whether two graphs are the same but for names."""
    from .matcher_utils import SubgraphMatcher

    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
