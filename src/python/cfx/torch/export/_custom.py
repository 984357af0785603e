"""Classes of the user's in the arguments and results of an export. C knows tuples, lists, dicts and
NamedTuples: an object whose class is registered (torch.utils._pytree) goes to it as a NamedTuple of
its children, a Packed, and is put together again for the model and for the specs of the program."""
import collections

from ..utils import _pytree as pytree

_OWN = {tuple, list, dict, collections.OrderedDict, collections.namedtuple,
        pytree._namedtuple_type}
_kinds = []  # (class, context, names, the class of its Packed)


class Packed:
    """What the classes of packed objects have in common."""

    _node, _context = None, None


def _is_custom(x):
    kind = pytree._get_node_type(x)
    return kind in pytree.SUPPORTED_NODES and kind not in _OWN


def _name(key, i):
    """What C calls a child."""
    for attribute in ("name", "key"):
        name = getattr(key, attribute, None)
        if isinstance(name, str) and name.isidentifier() and not name.startswith("_"):
            return name
    return f"f{getattr(key, 'idx', i)}"


def _kind(cls, context, names):
    """The class of Packed for objects of a class with this context."""
    for known, its_context, its_names, packed in _kinds:
        if known is cls and its_names == names and its_context == context:
            return packed
    base = collections.namedtuple(cls.__name__, names)
    packed = type(cls.__name__, (base, Packed), {"_node": cls, "_context": context,
                                                 "__module__": cls.__module__})
    _kinds.append((cls, context, names, packed))
    return packed


def pack(x):
    """A tree as C can have it."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(pack, x))
    if type(x) in (tuple, list):
        return type(x)(map(pack, x))
    if isinstance(x, dict) and pytree._get_node_type(x) in _OWN:
        return type(x)((k, pack(v)) for k, v in x.items())
    if not _is_custom(x):
        return x
    node = pytree.SUPPORTED_NODES[pytree._get_node_type(x)]
    if node.flatten_with_keys_fn is None:
        children, context = node.flatten_fn(x)
        names = [f"f{i}" for i in range(len(children))]
    else:
        pairs, context = node.flatten_with_keys_fn(x)
        names = [_name(k, i) for i, (k, _) in enumerate(pairs)]
        children = [v for _, v in pairs]
    if len(set(names)) < len(names):
        names = [f"f{i}" for i in range(len(names))]
    return _kind(node.type, context, names)(*map(pack, children))


def unpack(x):
    """The tree again."""
    if isinstance(x, Packed):
        children = [unpack(v) for v in x]
        return pytree.SUPPORTED_NODES[x._node].unflatten_fn(children, x._context)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(unpack, x))
    if type(x) in (tuple, list):
        return type(x)(map(unpack, x))
    if isinstance(x, dict):
        return type(x)((k, unpack(v)) for k, v in x.items())
    return x


def unpack_spec(spec):
    """The spec of the user's objects, from that of packed ones."""
    if spec.is_leaf():
        return spec
    children = [unpack_spec(s) for s in spec.children()]
    context = spec.context
    if isinstance(context, type) and issubclass(context, Packed):
        return pytree.TreeSpec(context._node, context._context, children)
    return pytree.TreeSpec(spec.type, context, children)
