"""Schemas of control flow, as its nodes show them."""


def hop_schema_from_fx_node(node):
    """cond(Tensor pred, GraphModule true_fn, ..., Tensor[2] operands) -> Tensor[1]"""
    names = _NAMES.get(node.target._name) or [f"arg{i}" for i in range(len(node.args))]
    given = ", ".join(f"{_type(a, node)} {name}" for name, a in zip(names, node.args))
    results = node.meta["val"]
    return f"{node.target._name}({given}) -> {_values(results)}"


_NAMES = {"cond": ["pred", "true_fn", "false_fn", "operands"],
          "while_loop": ["cond_fn", "body_fn", "carried_inputs", "additional_inputs"]}


def _type(a, node):
    from ..fx import Node

    if isinstance(a, (tuple, list)):
        return f"{_type(a[0], node) if a else 'Tensor'}[{len(a)}]"
    if not isinstance(a, Node):
        return type(a).__name__
    return "GraphModule" if a.op == "get_attr" and "val" not in a.meta else _value(a.meta["val"])


def _values(v):
    return f"{_value(v[0])}[{len(v)}]" if isinstance(v, (tuple, list)) else _value(v)


def _value(v):
    import cfx

    return "Tensor" if isinstance(v, cfx.Tensor) else type(v).__name__
