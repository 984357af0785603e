"""Who looks on while a pass changes a graph: which nodes it made and erased, and where new ones
come from."""
import os

from .._compatibility import compatibility
from ..traceback import NodeSource, NodeSourceAction
from .graph_drawer import FxGraphDrawer

__all__ = ["GraphTransformObserver"]


@compatibility(is_backward_compatible=False)
class GraphTransformObserver:
    """A context around a pass. With log_url, a folder, the graph before and after is drawn
    there."""

    _pass_count = 0

    def __init__(self, gm, passname, subsystem=None, log_url=None):
        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        self.log_url = log_url
        self.active = True
        self.erased_nodes = set()
        self.created_nodes = set()
        self.name_to_node = {}
        self.copied_gms = []
        self._hooks = (("create_node", self._created), ("erase_node", self._erased),
                       ("replace_node", self._replaced), ("deepcopy", self._copied))
        if log_url is not None:
            GraphTransformObserver._pass_count += 1
            self.input_dot_graph = self._drawing()

    @classmethod
    def get_current_pass_count(cls):
        return cls._pass_count

    def _drawing(self):
        return FxGraphDrawer(self.gm, self.passname, ignore_getattr=True,
                             ignore_parameters_and_buffers=True).get_dot_graph()

    def apply_gm_pass(self, pass_fn):
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn):
        with self:
            return pass_fn(self.gm.graph)

    def __enter__(self):
        for kind, hook in self._hooks:
            getattr(self.gm, f"_register_{kind}_hook")(hook)
        self.erased_nodes.clear()
        self.created_nodes.clear()
        self.copied_gms.clear()
        self.name_to_node = {n.name: n for n in self.gm.graph.nodes}
        return self

    def __exit__(self, *error):
        for gm in self.copied_gms + [self.gm]:
            for kind, hook in self._hooks:
                getattr(gm, f"_unregister_{kind}_hook")(hook)
        if self.log_url is None or not (self.created_nodes or self.erased_nodes):
            return
        name = f"pass_{GraphTransformObserver._pass_count}_{self.passname}"
        for drawing, marked, what in ((self.input_dot_graph, self.erased_nodes, "input"),
                                      (self._drawing(), self.created_nodes, "output")):
            drawing.mark(marked)
            drawing.write(os.path.join(self.log_url, f"{name}_{what}_graph.dot"))

    def __deepcopy__(self, memo):
        return self

    def _created(self, node):
        self.created_nodes.add(node.name)
        self.name_to_node[node.name] = node
        node.meta.setdefault("from_node", []).append(
            NodeSource(None, self.passname, NodeSourceAction.CREATE))

    def _erased(self, node):
        self.erased_nodes.add(node.name)
        self.name_to_node.pop(node.name, None)

    def _replaced(self, old, new, user):
        node = self.name_to_node.get(new)
        if node is None:
            return
        sources = node.meta.get("from_node", [])
        if old.name in {s.name for s in sources}:
            return
        action = [NodeSourceAction.REPLACE]
        if node.name in self.created_nodes:
            action.append(NodeSourceAction.CREATE)
        made = [NodeSourceAction.CREATE]
        node.meta["from_node"] = [s for s in sources if not (
            s.pass_name == self.passname and s.action == made)] \
            + [NodeSource(old, self.passname, action)]

    def _copied(self, gm):
        self.copied_gms.append(gm)
