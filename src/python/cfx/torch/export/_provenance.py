"""Where nodes of programs and their modules come from, and what callers noted at them."""
from ..fx.traceback import NodeSource, NodeSourceAction

_CREATE, _REPLACE = NodeSourceAction.CREATE, NodeSourceAction.REPLACE


def push_custom(graph_module):
    """Notes in C what callers put into meta["custom"] of nodes, for programs made of this one."""
    for node in graph_module.graph.nodes:
        custom = node.meta.get("custom")
        if custom:
            try:
                node._put_meta("custom", custom)
            except TypeError:  # what C has no values for stays with the nodes of Python's
                pass


def keep_custom(graph_module, new):
    """Inputs and the output of a program made of another have what was noted at those of that."""
    noted = {n.name: n.meta["custom"] for n in graph_module.graph.nodes
             if n.op in ("placeholder", "output") and n.meta.get("custom")}
    for node in new.graph.nodes if noted else ():
        if node.op in ("placeholder", "output") and node.name in noted:
            node.meta["custom"] = noted[node.name]


def say_sources(module, graph, signature):
    """meta["from_node"] of the nodes of a program's module: those of the program; weights, which
    are inputs there, were copied and then replaced."""
    own = {n.name: n for n in graph.nodes}
    places = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
              **signature.inputs_to_lifted_tensor_constants}
    inputs = {target: own[name] for name, target in places.items() if name in own}
    for node in module.graph.nodes:
        if node.op == "call_function" and node.name in own:
            node.meta["from_node"] = [NodeSource(own[node.name], "ExportedProgram.module()",
                                                 _CREATE)]
        elif node.op == "get_attr" and node.target in inputs:
            copied = NodeSource(inputs[node.target], "ExportedProgram.module().unlift()",
                                [_CREATE, _REPLACE])
            copied.from_node = [NodeSource(inputs[node.target], "ExportedProgram.module()",
                                           _CREATE)]
            node.meta["from_node"] = [copied]
