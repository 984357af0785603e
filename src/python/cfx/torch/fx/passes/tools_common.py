"""What several passes share: sizes, orders, groups of nodes that belong together."""
import collections
import operator
import typing

import cfx

from .._compatibility import compatibility
from ..graph import Graph
from ..node import Node, map_arg

__all__ = ["get_acc_ops_name", "get_node_target", "is_node_output_tensor", "FxNetAccFusionsFinder",
           "legalize_graph", "stable_topological_sort"]
Tensors = typing.Union[typing.Tuple[cfx.Tensor], typing.List[cfx.Tensor]]
TensorOrTensors = typing.Union[cfx.Tensor, Tensors]
NodeList = typing.List[Node]
NodeSet = typing.Set[Node]
Names = typing.List[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


@compatibility(is_backward_compatible=False)
def get_acc_ops_name(k):
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    module = k.__module__.replace("torch._ops", "torch.ops")
    return f"{module if module else ''}.{k.__name__}"


@compatibility(is_backward_compatible=False)
def get_node_target(submodules, node):
    """A text for what a node calls: the type of a module, the path of a function."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError("Expect op types of " + ", ".join(CALLABLE_NODE_OPS)
                             + f", but found {node.op}")
    if node.op == "call_module":
        from ... import typename

        m = submodules[node.target]
        return typename(getattr(m, "_base_class_origin", type(m)))
    if node.op == "call_function":
        from ..node import _get_qualified_name

        f = node.target
        if f.__module__ is not None and "acc_ops" in f.__module__:
            return f"acc_ops.{f.__name__}"
        return _get_qualified_name(f)
    return node.target


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node):
    """Whether a node gives one tensor, by its metadata."""
    kind = node.meta.get("type", None)
    return kind is not None and issubclass(kind, cfx.Tensor)


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """Groups of nodes that must stay together, because something that is no tensor goes between
    them."""

    def __init__(self, module, acc_nodes):
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self):
        result = {}
        acc = list(self.acc_nodes)
        for node in acc:
            if node in result or node.op not in CALLABLE_NODE_OPS:
                continue
            if "tensor_meta" in node.meta or node not in self.acc_nodes:
                continue
            group, wait = {node}, [node]
            while wait:
                n = wait.pop()
                others = list(n.users) if "tensor_meta" not in n.meta else []
                others += [i for i in n.all_input_nodes if i.op in CALLABLE_NODE_OPS
                           and "tensor_meta" not in i.meta]
                for o in others:
                    if o.op == "output":
                        continue
                    if o not in group:
                        group.add(o)
                        wait.append(o)
            if not group <= set(self.acc_nodes):
                self.acc_nodes -= group
            else:
                for n in group:
                    result[n] = group
        return result


def _early():
    """What is put before other nodes that can stand at its place."""
    names = "add mul sub floordiv truediv mod le lt ge gt eq ne".split()
    return {*(str(getattr(operator, name)) for name in names), "aten.sym_constrain_range.default",
            "aten.sym_constrain_range_for_size.default", "aten._assert_async.msg",
            "aten.scalar_tensor.default", "aten._assert_scalar.default"}


@compatibility(is_backward_compatible=False)
def legalize_graph(gm):
    """Puts the nodes of a GraphModule in an order in which each comes behind those it uses: as
    soon as it can, in turn; computing with sizes and assertions comes first."""
    wait = {n: len(n.all_input_nodes) for n in gm.graph.nodes}
    ready = collections.deque(n for n in wait if not wait[n])
    order = []
    while ready:
        n = ready.popleft()
        order.append(n)
        for u in n.users:
            wait[u] -= 1
            if not wait[u]:
                early = u.op == "call_function" and str(u.target) in _early()
                ready.appendleft(u) if early else ready.append(u)
    if len(order) < len(gm.graph.nodes):
        raise RuntimeError("Input graph has cycles, unable to add "
                           f"{[n for n in wait if n not in order]}")
    new, copies = Graph(), {}
    for n in order:
        copies[n] = new.node_copy(n, lambda x: copies[x])
    new._codegen = gm.graph._codegen
    gm.graph = new
    return gm


@compatibility(is_backward_compatible=False)
def stable_topological_sort(gm):
    """The same, keeping the order there is where it can."""
    gm.graph._sort()
    gm.recompile()
    return gm


_ = (operator, map_arg)
