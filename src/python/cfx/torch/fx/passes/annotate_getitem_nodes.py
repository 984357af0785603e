"""Types of items, from the types of what they are taken of."""
import operator
import typing

import cfx


def annotate_getitem_nodes(graph):
    """Annotates x[i] where x is annotated as a tuple, list or NamedTuple."""
    for node in graph.nodes:
        if node.target is not operator.getitem:
            continue
        sequence, index = node.args
        kind = sequence.type
        if not kind:
            continue
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple:
            if len(inner) == 2 and inner[1] is ...:
                node.type = inner[0]
            else:
                if len(inner) <= index:
                    raise AssertionError(f"Index {index} out of range for parameterized_types "
                                         f"(len={len(inner)})")
                node.type = inner[index]
        elif origin is list:
            node.type = inner[0]
        elif origin is None and hasattr(kind, "__annotations__") and kind is not cfx.Tensor:
            node.type = kind.__annotations__[kind._fields[index]]
