"""Trees: nested containers as a list of leaves and a spec of how they were nested."""
import collections
import dataclasses
import importlib
import typing

from ._pytree_keys import GetAttrKey, MappingKey, SequenceKey, key_get, keystr  # noqa: F401

PyTree = Context = typing.Any
FlattenFunc = UnflattenFunc = typing.Callable


class NodeDef(typing.NamedTuple):
    type: type
    flatten_fn: typing.Callable
    unflatten_fn: typing.Callable
    flatten_with_keys_fn: typing.Optional[typing.Callable]


class _SerializeNodeDef(typing.NamedTuple):
    typ: type
    serialized_type_name: str
    to_dumpable_context: typing.Optional[typing.Callable]
    from_dumpable_context: typing.Optional[typing.Callable]


SUPPORTED_NODES = {}
SUPPORTED_SERIALIZED_TYPES = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE = {}
CONSTANT_NODES = set()
BUILTIN_TYPES = set()
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


# ---- which types are nodes -----------------------------------------------------------------------


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None,
                         to_dumpable_context=None, from_dumpable_context=None,
                         flatten_with_keys_fn=None):
    """Registers a class: flatten_fn(object) gives (children, context), unflatten_fn(children,
    context) the object again."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn,
                                  serialized_type_name=serialized_type_name,
                                  to_dumpable_context=to_dumpable_context,
                                  from_dumpable_context=from_dumpable_context,
                                  flatten_with_keys_fn=flatten_with_keys_fn)


def _private_register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None,
                                  to_dumpable_context=None, from_dumpable_context=None,
                                  flatten_with_keys_fn=None):
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if (to_dumpable_context is None) ^ (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be "
                         "None or registered.")
    name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context,
                                                        from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


_register_pytree_node = _private_register_pytree_node


def _deregister_pytree_node(cls):
    del SUPPORTED_NODES[cls]
    node = SUPPORTED_SERIALIZED_TYPES.pop(cls)
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(node.serialized_type_name, None)
    CONSTANT_NODES.discard(cls)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Registers a dataclass: its fields are children, those that are None are left out."""
    if field_names is None:
        if not dataclasses.is_dataclass(cls):
            raise ValueError("field_names must be specified with a list of all fields used to "
                             f"initialize {cls}, as it is not a dataclass.")
        field_names = [f.name for f in dataclasses.fields(cls) if f.init]
    names = [n for n in field_names if n not in (drop_field_names or ())]
    if dataclasses.is_dataclass(cls):
        known = {f.name for f in dataclasses.fields(cls) if f.init}
        wrong = known - set(names) - set(drop_field_names or ())
        if wrong or set(names) - known:
            raise ValueError(f"register_dataclass: the field names {field_names} are not those of "
                             f"{cls}, {sorted(known)}")

    def flatten(obj):
        there = [n for n in names if getattr(obj, n) is not None]
        none = [n for n in names if getattr(obj, n) is None]
        return [getattr(obj, n) for n in there], [there, none]

    def unflatten(values, context):
        there, none = context
        return cls(**dict(zip(there, values)), **dict.fromkeys(none))

    def with_keys(obj):
        values, context = flatten(obj)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], values)], context

    _private_register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys,
                                  serialized_type_name=serialized_type_name)


def register_constant(cls):
    """Registers a class whose objects have no leaves: they are part of the spec."""
    if cls.__eq__ is object.__eq__:
        raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `__eq__` "
                        f"implementation. Got: {cls}")

    def flatten(x):
        return [], ConstantNode(x)

    _private_register_pytree_node(cls, flatten, lambda _, context: context.value,
                                  flatten_with_keys_fn=flatten)
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    return isinstance(cls, type) and cls in CONSTANT_NODES


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    value: typing.Any


def is_namedtuple(obj):
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls):
    fields = getattr(cls, "_fields", None)
    return (isinstance(cls, type) and issubclass(cls, tuple) and isinstance(fields, tuple)
            and all(type(f) is str for f in fields) and callable(getattr(cls, "_make", None)))


def is_namedtuple_instance(obj):
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_class(cls):
    return (isinstance(cls, type) and issubclass(cls, tuple)
            and isinstance(getattr(cls, "n_sequence_fields", None), int))


def is_structseq(obj):
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


is_structseq_instance = is_structseq
_namedtuple_type = collections.namedtuple


def _get_node_type(tree):
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if is_namedtuple_class(cls):
        return _namedtuple_type
    if is_structseq_class(cls):
        return tuple
    return cls


# ---- Python's own containers ---------------------------------------------------------------------


def _keyed(items):
    return [(SequenceKey(i), v) for i, v in enumerate(items)]


def _mapped(d):
    return [(MappingKey(k), v) for k, v in d.items()]


_private_register_pytree_node(
    tuple, lambda d: (list(d), None), lambda values, context: tuple(values),
    serialized_type_name="builtins.tuple", flatten_with_keys_fn=lambda d: (_keyed(d), None))
_private_register_pytree_node(
    list, lambda d: (list(d), None), lambda values, context: list(values),
    serialized_type_name="builtins.list", flatten_with_keys_fn=lambda d: (_keyed(d), None))
_private_register_pytree_node(
    dict, lambda d: (list(d.values()), list(d)), lambda values, keys: dict(zip(keys, values)),
    serialized_type_name="builtins.dict", flatten_with_keys_fn=lambda d: (_mapped(d), list(d)))
_private_register_pytree_node(
    collections.namedtuple, lambda d: (list(d), type(d)), lambda values, cls: cls(*values),
    serialized_type_name="collections.namedtuple",
    to_dumpable_context=lambda cls: f"{cls.__module__}.{cls.__qualname__}",
    from_dumpable_context=lambda name: _imported(name),
    flatten_with_keys_fn=lambda d: (
        [(GetAttrKey(f), v) for f, v in zip(d._fields, d)], type(d)))
_private_register_pytree_node(
    collections.OrderedDict, lambda d: (list(d.values()), list(d)),
    lambda values, keys: collections.OrderedDict(zip(keys, values)),
    serialized_type_name="collections.OrderedDict",
    flatten_with_keys_fn=lambda d: (_mapped(d), list(d)))
_private_register_pytree_node(
    collections.defaultdict, lambda d: (list(d.values()), [d.default_factory, list(d)]),
    lambda values, context: collections.defaultdict(context[0], zip(context[1], values)),
    serialized_type_name="collections.defaultdict",
    to_dumpable_context=lambda context: {
        "default_factory_module": context[0].__module__,
        "default_factory_name": context[0].__qualname__,
        "dict_context": context[1]},
    from_dumpable_context=lambda d: [
        getattr(importlib.import_module(d["default_factory_module"]), d["default_factory_name"]),
        d["dict_context"]],
    flatten_with_keys_fn=lambda d: (_mapped(d), [d.default_factory, list(d)]))
_private_register_pytree_node(
    collections.deque, lambda d: (list(d), d.maxlen),
    lambda values, maxlen: collections.deque(values, maxlen=maxlen),
    serialized_type_name="collections.deque",
    flatten_with_keys_fn=lambda d: (_keyed(d), d.maxlen))
STANDARD_DICT_TYPES = frozenset({dict, collections.OrderedDict, collections.defaultdict})
BUILTIN_TYPES.update(SUPPORTED_NODES)


def _imported(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


# ---- specs ---------------------------------------------------------------------------------------


@dataclasses.dataclass(init=False, repr=False, eq=False)
class TreeSpec:
    """How a tree is nested: the type of its root, what that keeps beside its children, and
    theirs."""

    type: typing.Any
    _context: typing.Any
    _children: typing.List["TreeSpec"]
    num_nodes: int = dataclasses.field(init=False)
    num_leaves: int = dataclasses.field(init=False)
    num_children: int = dataclasses.field(init=False)

    def __init__(self, type, context=None, children_specs=()):
        self.type = type
        self._context = context
        self._children = list(children_specs)
        self.num_children = len(self._children)
        self.num_nodes = 1 + sum(c.num_nodes for c in self._children)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in self._children)

    context = property(lambda self: self._context)
    children_specs = property(lambda self: self._children)

    def is_leaf(self):
        return self.type is None

    def children(self):
        return list(self._children)

    def child(self, index):
        return self._children[index]

    def __repr__(self, indent=0):
        if self.type is None:
            return "*"
        indent += 2
        texts = [c.__repr__(indent) for c in self._children]
        inner = (",\n" + " " * indent).join(texts)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{inner}])"

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self is other or (str(self.type) == str(other.type)
                                 and self._context == other._context
                                 and self._children == other._children)

    def __hash__(self):
        if self.type is None:
            return hash((None, None))
        context = self._context
        if self.type in (dict, collections.OrderedDict):
            context = tuple(context)
        elif self.type is collections.defaultdict:
            context = (context[0], tuple(context[1]))
        elif isinstance(context, list):
            context = str(context)
        return hash((self.type, context, tuple(self._children)))

    def flatten_up_to(self, tree):
        """What a tree has in the places of this spec's leaves; a ValueError where it differs."""
        out = []
        self._flatten_up_to(tree, out)
        return out

    def _flatten_up_to(self, tree, out):
        if self.type is None:
            out.append(tree)
            return
        kind = _get_node_type(tree)
        if self.type not in BUILTIN_TYPES or kind not in BUILTIN_TYPES:
            if kind is not self.type:
                raise ValueError(f"Type mismatch; expected {self.type!r}, but got {kind!r}.")
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            if len(children) != self.num_children:
                raise ValueError(f"Node arity mismatch; expected {self.num_children!r}, but got "
                                 f"{len(children)!r}.")
            if context != self._context:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        else:
            children = self._builtin_children(tree, kind)
        for child, spec in zip(children, self._children):
            spec._flatten_up_to(child, out)

    def _builtin_children(self, tree, kind):
        both = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind is not self.type and not both:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        if len(tree) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children!r}, but got "
                             f"{len(tree)!r}.")
        if both:
            keys = self._context[1] if self.type is collections.defaultdict else self._context
            if set(keys) != set(tree):
                missing, more = set(keys) - set(tree), set(tree) - set(keys)
                text = ""
                if missing:
                    text += f"; missing key(s): {sorted(missing, key=str)}"
                if more:
                    text += f"; extra key(s): {sorted(more, key=str)}"
                raise ValueError(f"Node keys mismatch{text}.")
            return [tree[k] for k in keys]
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if kind is not collections.deque and context != self._context:
            raise ValueError(f"Node context mismatch for node type {self.type!r}; expected "
                             f"{self._context!r}, but got {context!r}.")
        return children

    def unflatten(self, leaves):
        """The tree again."""
        leaves = list(leaves) if not isinstance(leaves, (list, tuple)) else leaves
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but "
                             "the spec refers to a pytree that holds "
                             f"{self.num_leaves} items ({self}).")
        return self._unflatten(leaves, 0)

    def _unflatten(self, leaves, at):
        if self.type is None:
            return leaves[at]
        children = []
        for spec in self._children:
            children.append(spec._unflatten(leaves, at))
            at += spec.num_leaves
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __init__(self):
        super().__init__(None)


_LEAF_SPEC = LeafSpec()


def treespec_leaf():
    return _LEAF_SPEC


def treespec_tuple(iterable=(), /):
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping=(), /, **kwargs):
    d = dict(mapping, **kwargs)
    return TreeSpec(dict, list(d), list(d.values()))


# ---- flattening ----------------------------------------------------------------------------------


def tree_is_leaf(tree, is_leaf=None):
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec)"""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree, leaves, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(c, leaves, is_leaf) for c in children])


def tree_unflatten(leaves, treespec):
    """The tree of a spec with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("tree_unflatten(leaves, treespec): Expected `treespec` to be instance of "
                        f"PyTreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None):
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args, **kwargs):
    """The leaves of all arguments of a call."""
    leaves = []
    for a in args:
        leaves.extend(tree_iter(a))
    for a in kwargs.values():
        leaves.extend(tree_iter(a))
    return leaves


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree with func(leaf, ...) in the place of each leaf."""
    leaves, spec = tree_flatten(tree, is_leaf=is_leaf)
    all_leaves = [leaves] + [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten(list(map(func, *all_leaves)))


def tree_map_(func, tree, *rests, is_leaf=None):
    leaves, spec = tree_flatten(tree, is_leaf=is_leaf)
    for items in zip(leaves, *[spec.flatten_up_to(r) for r in rests]):
        func(*items)
    return tree


def map_only(type_or_types_or_pred, /):
    """A decorator: the function is called for what is of a type, and gives the rest as it is."""
    import types

    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):
        pred = lambda x: isinstance(x, type_or_types_or_pred)  # noqa: E731
    elif callable(type_or_types_or_pred):
        pred = type_or_types_or_pred
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return lambda func: lambda x: func(x) if pred(x) else x


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(kind, /, pred, tree, is_leaf=None):
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kind))


def tree_any_only(kind, /, pred, tree, is_leaf=None):
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kind))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of a prefix of a tree, each as often as the tree has leaves there; None where it
    is no prefix."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if kind is not treespec.type or len(children) != treespec.num_children \
            or context != treespec.context:
        return None
    out = []
    for child, spec in zip(children, treespec.children()):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        out += part
    return out


# ---- with paths ----------------------------------------------------------------------------------


def _with_paths(path, tree, is_leaf):
    if is_leaf is not None and is_leaf(tree):
        yield path, tree
        return
    kind = _get_node_type(tree)
    handler = SUPPORTED_NODES.get(kind)
    if not handler:
        yield path, tree
        return
    if handler.flatten_with_keys_fn is None:
        raise ValueError("Did not find a flatten_with_keys_fn for type: {}. Please pass a "
                         "flatten_with_keys_fn argument to register_pytree_node.".format(kind))
    children, _ = handler.flatten_with_keys_fn(tree)
    for key, child in children:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), ...], spec)"""
    return list(_with_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    return list(_with_paths((), tree, is_leaf))


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten([func(path, leaf, *more) for (path, leaf), *more in zip(found, *others)])


from ._pytree_text import treespec_dumps, treespec_loads, treespec_pprint  # noqa: E402,F401
