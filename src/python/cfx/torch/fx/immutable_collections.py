"""Lists and dicts that cannot be changed: what the arguments of nodes are made of."""
from cfx import _cfx

from ._compatibility import compatibility
from ..utils import _pytree as pytree

_ADVICE = ("If you are attempting to modify the kwargs or args of a torch.fx.Node object,\n"
           "instead create a new copy of it and assign the copy to the node:\n"
           "\n"
           "    new_args = ...  # copy and mutate args\n"
           "    node.args = new_args")


def _refuses(base, method):
    def refuse(self, *args, **kwargs):
        raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_ADVICE}")

    refuse.__name__ = method
    refuse.__wrapped__ = getattr(base, method, None)
    return refuse


def _frozen(name, base, methods):
    members = {m: _refuses(base, m) for m in methods if hasattr(base, m)}
    members["__module__"] = __name__
    return type(name, (base,), members)


_List = _frozen("_List", list, ["__delitem__", "__iadd__", "__imul__", "__setitem__", "append",
                                "clear", "extend", "insert", "pop", "remove", "reverse", "sort"])
_Dict = _frozen("_Dict", dict, ["__delitem__", "__ior__", "__setitem__", "clear", "pop",
                                "popitem", "setdefault", "update"])


@compatibility(is_backward_compatible=True)
class immutable_list(_List):
    """A list that is hashed by its items and never changes."""

    __slots__ = ()

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return (type(self), (tuple(self),))


@compatibility(is_backward_compatible=True)
class immutable_dict(_Dict):
    """A dict that never changes."""

    __slots__ = ()

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return (type(self), (list(self.items()),))


pytree._register_pytree_node(immutable_list, lambda x: (list(x), None),
                             lambda items, _: immutable_list(items),
                             serialized_type_name="torch.fx.immutable_collections.immutable_list",
                             flatten_with_keys_fn=lambda x: (
                                 [(pytree.SequenceKey(i), v) for i, v in enumerate(x)], None))
pytree._register_pytree_node(immutable_dict, lambda x: (list(x.values()), list(x)),
                             lambda items, keys: immutable_dict(zip(keys, items)),
                             serialized_type_name="torch.fx.immutable_collections.immutable_dict",
                             flatten_with_keys_fn=lambda x: (
                                 [(pytree.MappingKey(k), v) for k, v in x.items()], list(x)))
_cfx.adopt("immutable_list", immutable_list)
_cfx.adopt("immutable_dict", immutable_dict)
