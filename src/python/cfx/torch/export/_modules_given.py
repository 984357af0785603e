"""Modules among the arguments of an export: trees whose leaves are their parameters and buffers, so
that a program computes with those of the module that it is called with."""
from ..nn.modules.module import Module
from ..utils import _pytree as pytree


class _Like:
    """What a module is beside its tensors; of one kind are those whose tensors are called alike."""

    def __init__(self, module, names):
        self._module, self._names = module, names

    def __eq__(self, other):
        return isinstance(other, _Like) and self._names == other._names

    def __hash__(self):
        return hash(tuple(self._names))

    def __repr__(self):
        return f"{type(self._module).__name__}({', '.join(self._names)})"


def _tensors(module):
    """Path to tensor; one that stands in several places comes once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _flatten_with_keys(module):
    tensors = _tensors(module)
    keys = [pytree.MappingKey(n.replace(".", "_")) for n in tensors]
    return list(zip(keys, tensors.values())), _Like(module, list(tensors))


def _flatten(module):
    tensors = _tensors(module)
    return list(tensors.values()), _Like(module, list(tensors))


def _copied(module, by_id, known):
    """A module like another, with other tensors in the places of its own."""
    if id(module) not in known:
        new = known[id(module)] = object.__new__(type(module))
        new.__dict__.update(module.__dict__)
        for part in ("_parameters", "_buffers"):
            new.__dict__[part] = {n: by_id.get(id(t), t) for n, t in module.__dict__[part].items()}
        new.__dict__["_modules"] = {n: m and _copied(m, by_id, known)
                                    for n, m in module._modules.items()}
    return known[id(module)]


def _unflatten(values, like):
    own = _tensors(like._module).values()
    return _copied(like._module, {id(t): v for t, v in zip(own, values)}, {})


def register(args, kwargs):
    """Lets the classes of the modules in these arguments be trees."""
    for leaf in pytree.tree_leaves((args, kwargs)):
        if isinstance(leaf, Module) and type(leaf) not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(type(leaf), _flatten, _unflatten,
                                        flatten_with_keys_fn=_flatten_with_keys)
