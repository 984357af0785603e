"""print_readable: the code with shapes and source lines, as the C library writes it."""
from ..nn.modules.module import _addindent


def verbose_code(graph, options):
    """The code of one graph."""
    from ._meta import push

    push(graph)
    return graph._readable(bool(options.get("include_stride")), bool(options.get("include_device")),
                           bool(options.get("colored")), bool(options.get("expanded_def")),
                           tuple(options.get("additional_meta") or ()))


def readable(module, name, **options):
    """The class that a GraphModule is, with those of its children."""
    code = module.graph.python_code("self", verbose=True, **options).src.lstrip("\n")
    text = _addindent(f"class {name}(torch.nn.Module):\n" + code, 4).rstrip(" ")
    below = [readable(child, child_name, **{**options, "expanded_def": False})
             for child_name, child in module.named_children() if hasattr(child, "graph")]
    return text + _addindent("\n".join([""] + below), 4)
