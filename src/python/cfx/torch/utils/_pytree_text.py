"""Specs of trees as texts: JSON, as exported programs have it, and a drawing."""
import json

from . import _pytree as tree


def treespec_dumps(treespec, protocol=None):
    """The spec as JSON, as exported programs have it."""
    if not isinstance(treespec, tree.TreeSpec):
        raise TypeError("treespec_dumps(treespec, protocol): Expected `treespec` to be instance of "
                        f"PyTreeSpec but got item of type {type(treespec)}.")
    if protocol not in (None, 1):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps((1, _to_json(treespec)))


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = tree.SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if node is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if node.serialized_type_name == tree.NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(f"No registered serialization name for {spec.type} found. Please "
                                  "update your _register_pytree_node call with a "
                                  "`serialized_type_name` kwarg.")
    if node.to_dumpable_context is not None:
        context = node.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context)
        except TypeError as e:
            raise TypeError("Unable to serialize context. Please make the context json "
                            "dump-able, or register a custom serializer using "
                            "_register_pytree_node.") from e
    return {"type": node.serialized_type_name, "context": context,
            "children_spec": [_to_json(c) for c in spec.children()]}


def treespec_loads(serialized):
    protocol, schema = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return _from_json(schema)


def _from_json(schema):
    if schema["type"] is None and schema["context"] is None and not schema["children_spec"]:
        return tree._LEAF_SPEC
    if schema["type"] not in tree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {schema['type']} in pytree is not registered.")
    kind = tree.SERIALIZED_TYPE_TO_PYTHON_TYPE[schema["type"]]
    node = tree.SUPPORTED_SERIALIZED_TYPES[kind]
    context = (node.from_dumpable_context(schema["context"]) if node.from_dumpable_context
               else json.loads(schema["context"]))
    return tree.TreeSpec(kind, context, [_from_json(c) for c in schema["children_spec"]])


class _Star:
    def __repr__(self):
        return "*"


def treespec_pprint(treespec):
    return repr(tree.tree_unflatten([_Star() for _ in range(treespec.num_leaves)], treespec))


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads
