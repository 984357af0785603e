"""What a node of an exported program is: a parameter, a buffer, a constant."""
import contextlib
import inspect

from ..nn.modules.module import Module
from ..utils import _pytree as pytree


@contextlib.contextmanager
def _disable_load_state_dict_hooks(mod):
    """A context in which state_dict() and load_state_dict() of a module call no hooks of its."""
    hooks = (mod._state_dict_hooks, mod._state_dict_pre_hooks, mod._load_state_dict_pre_hooks)
    before = [dict(h) for h in hooks]
    for h in hooks:
        h.clear()
    try:
        yield
    finally:
        for h, was in zip(hooks, before):
            h.update(was)


def wrap_method(method):
    """A module whose forward is a method of another module, with that one's parameters, buffers and
    children."""
    if not inspect.ismethod(method) or not isinstance(method.__self__, Module):
        raise ValueError(f"Expected {method} to be a method of a module")
    m = Module()
    for part in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
        m.__dict__[part] = method.__self__.__dict__[part]
    m.forward = method
    return m


def sync_state(first, *others):
    """Lets modules of exported methods of one module have the parameters and buffers of the first
    of them."""
    for other in others:
        for part in ("_parameters", "_buffers"):
            mine, theirs = first.__dict__[part], other.__dict__[part]
            theirs.update({n: mine[n] for n in theirs if n in mine})
        for name, child in other.named_children():
            if name in first._modules:
                sync_state(first._modules[name], child)


def is_param(program, node):
    """Whether a placeholder is a parameter."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program, node):
    """The parameter that a placeholder is; None where it is none."""
    if not is_param(program, node):
        return None
    return program.state_dict[program.graph_signature.inputs_to_parameters[node.name]]


def is_buffer(program, node):
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program, node):
    """The buffer that a placeholder is, persistent or not; None where it is none."""
    if not is_buffer(program, node):
        return None
    name = program.graph_signature.inputs_to_buffers[node.name]
    if name in program.graph_signature.non_persistent_buffers:
        return program.constants[name]
    return program.state_dict[name]


def is_lifted_tensor_constant(program, node):
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program, node):
    """The constant that a placeholder is; None where it is none."""
    if not is_lifted_tensor_constant(program, node):
        return None
    return program.constants[program.graph_signature.inputs_to_lifted_tensor_constants[node.name]]


def register_dataclass_as_pytree_node(cls, flatten_fn=None, unflatten_fn=None, *,
                                      serialized_type_name=None, to_dumpable_context=None,
                                      from_dumpable_context=None, return_none_fields=False):
    """Lets inputs and outputs be of a dataclass; fields that are None are no children of it, unless
    they are asked for."""
    import dataclasses

    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")

    def flatten(obj):
        names, values, none = [], [], []
        for f in dataclasses.fields(obj):
            value = getattr(obj, f.name)
            if value is None and not return_none_fields:
                none.append(f.name)
            else:
                names.append(f.name)
                values.append(value)
        return values, [names, none]

    def unflatten(values, context):
        names, none = context
        return cls(**dict(zip(names, values)), **dict.fromkeys(none))

    def with_keys(obj):
        values, context = (flatten_fn or flatten)(obj)
        return [(pytree.MappingKey(k), v) for k, v in zip(context[0], values)], context

    pytree.register_pytree_node(cls, flatten_fn or flatten, unflatten_fn or unflatten,
                                serialized_type_name=serialized_type_name,
                                flatten_with_keys_fn=with_keys,
                                to_dumpable_context=to_dumpable_context,
                                from_dumpable_context=from_dumpable_context)
