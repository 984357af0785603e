"""Where nodes come from: metadata that new nodes take over from the node being run."""
import contextlib
import copy
import enum
import functools
import traceback

from cfx import _cfx

from ._compatibility import compatibility

current_meta = {}
current_replay_node = None
should_preserve_node_meta = False


@compatibility(is_backward_compatible=False)
class NodeSourceAction(enum.Enum):
    CREATE = "create"
    REPLACE = "replace"


@compatibility(is_backward_compatible=False)
class NodeSource:
    """The node that another was made from, by which pass, and where that one came from."""

    class NodeInfo:
        def __init__(self, name, target, graph_id):
            self.name = name
            self.target = target
            self.graph_id = graph_id

    def __init__(self, node, pass_name="", action=None):
        self.pass_name = pass_name
        self.action = [] if action is None else action if isinstance(action, list) else [action]
        for a in self.action:
            if not isinstance(a, NodeSourceAction):
                raise AssertionError(f"Expected NodeSourceAction, got {type(a)}")
        self.node_info = None
        self.from_node = []
        if node:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            self.from_node = copy.deepcopy(node.meta.get("from_node", []))

    name = property(lambda self: self.node_info.name if self.node_info else "")
    target = property(lambda self: self.node_info.target if self.node_info else "")
    graph_id = property(lambda self: self.node_info.graph_id if self.node_info else -1)

    def __repr__(self):
        return self.print_readable()

    def _get_action_string(self):
        return "+".join(a.name.lower() for a in self.action)

    def print_readable(self, indent=0):
        """The chain of sources, a line each."""
        if indent > 9:
            return ""
        text = (" " * (4 * indent) + f"(name={self.name}, pass_name={self.pass_name}, "
                f"action={self._get_action_string()}, graph_id={self.graph_id})\n")
        return text + "".join(s.print_readable(indent + 1) for s in self.from_node)

    def to_dict(self):
        return {"name": self.name, "target": self.target, "graph_id": self.graph_id,
                "pass_name": self.pass_name, "action": self._get_action_string(),
                "from_node": [s.to_dict() for s in self.from_node]}

    def __eq__(self, other):
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash(str(self.to_dict()))

    @classmethod
    def _from_dict(cls, d):
        if not isinstance(d, dict):
            raise AssertionError(f"Expected a dict, got {type(d)}")
        source = cls(None, d.get("pass_name", ""))
        words = [w for w in d.get("action", "").split("+") if w]
        source.action = [NodeSourceAction[w.upper()] for w in words]
        if d.get("name") or d.get("target"):
            source.node_info = cls.NodeInfo(d["name"], d["target"], d["graph_id"])
        source.from_node = [cls._from_dict(s) for s in d.get("from_node", [])]
        return source


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """Meanwhile nodes that are made take over the metadata of the one being run."""
    global should_preserve_node_meta, current_meta
    was, meta = should_preserve_node_meta, current_meta.copy()
    should_preserve_node_meta = enable or was
    _tell()
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = was, meta
        _tell()


@compatibility(is_backward_compatible=False)
def set_stack_trace(stack):
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def annotate(annotation_dict):
    """Puts entries into meta["custom"] of the nodes that are made meanwhile."""
    global current_meta
    had, old = "custom" in current_meta, current_meta.get("custom", {})
    current_meta["custom"] = {**old, **annotation_dict}
    _tell()
    try:
        yield
    finally:
        if had:
            current_meta["custom"] = old
        else:
            del current_meta["custom"]
        _tell()


def _tell():
    """Exports record in C, where nodes are annotated as here."""
    _cfx.annotate(current_meta.get("custom") if should_preserve_node_meta else None)


@compatibility(is_backward_compatible=False)
def annotate_fn(annotation_dict):
    def decorate(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            with annotate(annotation_dict):
                return f(*args, **kwargs)

        return inner

    return decorate


@compatibility(is_backward_compatible=False)
def format_stack():
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@compatibility(is_backward_compatible=False)
def has_preserved_node_meta():
    return should_preserve_node_meta


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    """Lets a node be the one that new nodes come from."""
    global current_meta
    if not should_preserve_node_meta or not node.meta:
        yield
        return
    was = current_meta
    try:
        current_meta = node.meta.copy()
        current_meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
        yield
    finally:
        current_meta = was


@compatibility(is_backward_compatible=False)
def get_current_meta():
    return current_meta


@compatibility(is_backward_compatible=False)
def get_current_replay_node():
    return current_replay_node


@compatibility(is_backward_compatible=False)
def get_graph_provenance_json(graph):
    """Node name to the sources of the node, as JSON has them."""
    out = {}
    for node in graph.nodes:
        if node.op == "call_function":
            out[node.name] = [s.to_dict() for s in node.meta.get("from_node", [])]
    return out
