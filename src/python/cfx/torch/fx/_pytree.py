"""Taking nested arguments apart by a spec: what generated code calls."""
import collections

from cfx import _cfx  # noqa: F401

from ..utils import _pytree as pytree

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Registers how an object of a class is taken apart where its spec is known."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(tree, spec, exact_structural_match=False):
    """The leaves of a tree in the order of a spec; what is not in the spec is left out."""
    if spec.is_leaf():
        return [tree]
    flatten = SUPPORTED_NODES.get(spec.type) or _registered(spec.type)
    if flatten is None:
        raise RuntimeError(f"{type(tree)} does not have a flatten_fn_spec associated with it. "
                           "Please register one with "
                           "torch.fx._pytree.register_pytree_flatten_spec.  If you have "
                           "serialized your model, make sure that any custom pytrees have been "
                           "registered before loading it.")
    children = flatten(tree, spec)
    matches = SUPPORTED_NODES_EXACT_MATCH.get(spec.type)
    if exact_structural_match and matches is not None and not matches(tree, spec):
        raise RuntimeError(f"Cannot flatten pytree {tree}, given spec: {spec}")
    leaves = []
    for child, child_spec in zip(children, spec.children()):
        leaves += tree_flatten_spec(child, child_spec, exact_structural_match)
    return leaves


def _registered(cls):
    """How torch.utils._pytree takes objects of a class apart; None where it does not."""
    node = pytree.SUPPORTED_NODES.get(cls)
    return None if node is None else lambda tree, spec: node.flatten_fn(tree)[0]


def _by_key(d, spec):
    return [d[k] for k in spec.context]


def _by_place(items, spec):
    return [items[i] for i in range(spec.num_children)]


def _as_long(items, spec):
    return len(items) == spec.num_children


register_pytree_flatten_spec(dict, _by_key, _as_long)
register_pytree_flatten_spec(collections.OrderedDict, _by_key, _as_long)
register_pytree_flatten_spec(collections.defaultdict,
                             lambda d, spec: [d[k] for k in spec.context[1]], _as_long)
register_pytree_flatten_spec(list, _by_place, _as_long)
register_pytree_flatten_spec(tuple, _by_place, _as_long)
register_pytree_flatten_spec(collections.namedtuple, _by_place, _as_long)
register_pytree_flatten_spec(pytree._namedtuple_type, _by_place, _as_long)
