"""Graphs in pickles: their nodes one by one, with the names of others in arguments."""
from .node import map_arg


class _Named:
    """Stands for the node called so."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return (_Named, (self.name,))


def _named(value):
    return map_arg(value, lambda n: _Named(n.name))


def reduce_graph(graph):
    rows = [(n.op, n.name, n.target, _plain(_named(n.args)), _plain(_named(n.kwargs)), n.type,
             {k: v for k, v in n.meta.items() if k in ("stack_trace", "nn_module_stack")})
            for n in graph.nodes]
    return (build_graph, (type(graph), rows, graph._codegen))


def _plain(value):
    """Containers of nodes as plain ones."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_plain(v) for v in value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


def _filled(value, nodes):
    if isinstance(value, _Named):
        return nodes[value.name]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_filled(v, nodes) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_filled(v, nodes) for v in value)
    if isinstance(value, dict):
        return {k: _filled(v, nodes) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(_filled(v, nodes) for v in (value.start, value.stop, value.step)))
    return value


def build_graph(cls, rows, codegen):
    graph = cls()
    nodes = {}
    for op, name, target, args, kwargs, type_expr, meta in rows:
        node = graph.create_node(op, target, _filled(args, nodes), _filled(kwargs, nodes), name,
                                 type_expr)
        node.meta.update(meta)
        nodes[name] = node
    graph.set_codegen(codegen)
    return graph
