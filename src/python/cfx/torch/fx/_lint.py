"""What is wrong with a graph, in torch.fx's words."""
from .node import map_arg


def lint(graph):
    """An error where a graph is not well-formed: an argument from elsewhere or later, two nodes of
    one name, a target that the owning module does not have."""
    seen, names = set(), set()

    def check(arg, node=None):
        where = f" of Node '{node}' " if node else " "
        if arg.graph is not graph:
            raise RuntimeError(f"Argument '{arg}'{where}does not belong to this Graph, but was "
                               f"used "
                               "as an argument! If you are copying nodes from another graph, make "
                               f"sure to use ``arg_transform`` on node_copy() to remap values\n"
                               f"{graph}")
        if arg not in seen:
            raise RuntimeError(f"Argument '{arg}'{where}was used before it has been defined! "
                               "Please check that Nodes in the graph are topologically ordered\n"
                               f"{graph}")

    for node in graph.nodes:
        if node.op not in ("placeholder", "call_method", "call_module", "call_function",
                           "get_attr", "output"):
            raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        map_arg(node.args, lambda a: check(a, node))
        map_arg(node.kwargs, lambda a: check(a, node))
        seen.add(node)
        if node.name in names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        names.add(node.name)
    if graph.owning_module is not None:
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _check_target(graph.owning_module, node)


def _check_target(module, node):
    from ..nn import Module, Parameter
    import cfx

    atoms = node.target.split(".")
    found = module
    for i, atom in enumerate(atoms):
        if not hasattr(found, atom):
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute "
                               f"{atom} of {'.'.join(atoms[:i])}")
        below = getattr(found, atom)
        last = i == len(atoms) - 1
        if node.op == "call_module" and not isinstance(below, Module) or \
                node.op == "get_attr" and not last and not isinstance(below, Module):
            raise RuntimeError(f"Node {node} target {node.target} {atom} of "
                               f"{'.'.join(atoms[:i])} does not reference an nn.Module")
        if node.op == "get_attr" and last and not isinstance(below, (Module, Parameter)) \
                and not (isinstance(found, Module) and atom in found._buffers) \
                and isinstance(below, cfx.Tensor):
            import warnings

            warnings.warn(f"Node {node} target {node.target} {atom} of {'.'.join(atoms[:i])} does "
                          "not reference an nn.Module, nn.Parameter, or buffer, which is what "
                          "'get_attr' Nodes typically target", stacklevel=3)
        found = below
