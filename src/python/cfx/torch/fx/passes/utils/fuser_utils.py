"""Groups of nodes as modules of their own."""
import collections
import copy

from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import stable_topological_sort
from .common import lift_subgraph_as_module


@compatibility(is_backward_compatible=False)
def topo_sort(nodes):
    """Nodes of a graph so that each comes behind those it uses."""
    inside = set(nodes)
    wait = {n: sum(i in inside for i in n.all_input_nodes) for n in nodes}
    ready = collections.deque(n for n in nodes if not wait[n])
    out = []
    while ready:
        n = ready.popleft()
        out.append(n)
        for u in n.users:
            if u in inside:
                wait[u] -= 1
                if not wait[u]:
                    ready.append(u)
    if len(out) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return out


@compatibility(is_backward_compatible=False)
def validate_partition(partition):
    """Whether nodes could be one node without a cycle: no way leads out of them and in again."""
    inside = set(partition)
    if not inside:
        return True
    last = max(inside)
    seen, wait = set(), [u for n in inside for u in n.users if u not in inside]
    while wait:
        n = wait.pop()
        if n in inside:
            return False
        if n in seen or n > last:
            continue
        seen.add(n)
        wait.extend(n.users)
    return True


@compatibility(is_backward_compatible=False)
def fuse_as_graphmodule(gm, nodes, module_name, partition_lookup_table=None, *,
                        always_return_tuple=False):
    """(a GraphModule of nodes of gm, its inputs in gm, its outputs in gm)."""
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module "
                                 f"{gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
        if node not in gm.graph._find_nodes(node.op):
            raise AssertionError(f"{node} is not found in graph module {gm._get_name()}")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = set(nodes)
    subgraph = Graph()
    inputs, copies = {}, {}

    def take(x):
        if x.op == "get_attr" and x not in inside:
            pass
        if x in copies:
            return copies[x]
        if x not in inputs:
            inputs[x] = subgraph.placeholder(x.name, type_expr=x.type)
            inputs[x].meta = copy.copy(x.meta)
        return inputs[x]

    for node in nodes:
        copies[node] = subgraph.node_copy(node, take)
    outputs = {n: copies[n] for n in nodes if any(u not in inside for u in n.users)}
    results = tuple(outputs.values())
    subgraph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    subgraph.lint()
    fused, _ = lift_subgraph_as_module(gm, subgraph, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


@compatibility(is_backward_compatible=False)
def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs):
    """Calls a module in the place of the nodes that it was made of."""
    name = sub_gm.__class__.__name__
    gm.add_submodule(name, sub_gm)
    with gm.graph.inserting_after(max(orig_outputs)):
        call = gm.graph.call_module(name, args=orig_inputs, kwargs=None)
    result = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(result, tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    import operator

    items, last = [], call
    for i in range(len(orig_outputs)):
        with gm.graph.inserting_after(last):
            last = gm.graph.call_function(operator.getitem, (call, i))
        items.append(last)
    for old, new in zip(orig_outputs, items):
        old.replace_all_uses_with(new, propagate_meta=True)
    call.meta["val"] = tuple(o.meta.get("val", None) for o in orig_outputs)
    return gm


@compatibility(is_backward_compatible=False)
def erase_nodes(gm, nodes):
    for node in reversed(nodes):
        gm.graph.erase_node(node)


@compatibility(is_backward_compatible=False)
def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """Makes each group of nodes a module that is called: fused_0, fused_1, ..."""
    for i, nodes in enumerate(partitions):
        ordered = topo_sort(list(nodes))
        sub_gm, inputs, outputs = fuse_as_graphmodule(gm, ordered, f"{prefix}{i}",
                                                      always_return_tuple=always_return_tuple)
        insert_subgm(gm, sub_gm, inputs, outputs)
        erase_nodes(gm, ordered)
    stable_topological_sort(gm)
    gm.recompile()
    return gm


_ = (GraphModule, Node)
