"""Types for values while they are traced."""
from ._compatibility import compatibility
from .proxy import Proxy


@compatibility(is_backward_compatible=False)
def annotate(val, type):
    """The value, whose node has the type if it is traced."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise TypeError(f"Tried to annotate a value that already had a type on it! Existing "
                            f"type is {val.node.type} and new type is {type}. This could happen if "
                            "you tried to annotate a function parameter value (in which case you "
                            "should use the type slot on the function signature) or you called "
                            "annotate on the same value twice")
        val.node.type = type
    return val
