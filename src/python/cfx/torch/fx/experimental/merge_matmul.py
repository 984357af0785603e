"""Products that share their right side become one product of what is on the left."""
import itertools
import operator

from ... import cat, matmul, split
from .._symbolic_trace import symbolic_trace
from ..passes.tools_common import legalize_graph
from ..proxy import Proxy


def split_result_tensors(result, inputs):
    """The rows of a merged product that belong to each input."""
    if isinstance(result, Proxy):
        sizes = [0] * len(inputs)
    else:
        sizes = [x.shape[0] for x in inputs]
    return split(result, sizes)


def may_depend_on(a, b, search_depth=6):
    """Whether a may depend on b: it is not looked further than so many steps."""
    if a == b:
        return True
    if not a.all_input_nodes:
        return False
    return search_depth == 0 or any(may_depend_on(i, b, search_depth - 1)
                                    for i in a.all_input_nodes)


def are_nodes_independent(nodes):
    return not any(may_depend_on(a, b) or may_depend_on(b, a)
                   for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod):
    """The traced module with products merged."""
    gm = symbolic_trace(in_mod)
    by_right = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is matmul:
            right = node.args[1]
            by_right.setdefault(right.target if right.op == "get_attr" else right,
                                []).append(node)
    for right, products in by_right.items():
        if len(products) < 2 or not are_nodes_independent(products):
            continue
        lefts = [p.args[0] for p in products]
        shared = gm.graph.get_attr(right) if isinstance(right, str) else right
        together = gm.graph.call_function(cat, (lefts,), {})
        product = gm.graph.call_function(matmul, (together, shared), {})
        parts = gm.graph.call_function(split_result_tensors, (product, lefts), {})
        items = [gm.graph.call_function(operator.getitem, (parts, i), {})
                 for i in range(len(lefts))]
        for old, new in zip(products, items):
            old.replace_all_uses_with(new)
            gm.graph.erase_node(old)
        legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm
