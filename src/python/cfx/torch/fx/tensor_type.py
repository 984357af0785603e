"""Types of tensors by their sizes, some of which may be anything: Dyn."""
from ._compatibility import compatibility


class _DynType:
    """The type of anything."""

    def __init__(self):
        self.__name__ = "_DynType"

    def __eq__(self, other):
        return isinstance(other, self.__class__)

    def __hash__(self):
        return hash("Dyn")

    def __str__(self):
        return "Dyn"

    def __repr__(self):
        return "Dyn"


Dyn = _DynType()


@compatibility(is_backward_compatible=False)
class TensorType:
    """TensorType((1, 2, Dyn)) or TensorType[1, 2, Dyn]"""

    def __init__(self, dim):
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self):
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other):
        return isinstance(other, self.__class__) and list(self.__args__) == list(other.__args__)

    def __hash__(self):
        return hash(tuple(self.__args__))

    def __class_getitem__(cls, *args):
        if len(args) == 1 and isinstance(args[0], tuple):
            args = args[0]
        return TensorType(tuple(args))


def _sizes(a, b):
    """The sizes of two tensors, in pairs; None where they are no two tensors of as many."""
    if isinstance(a, TensorType) and isinstance(b, TensorType) and \
            len(a.__args__) == len(b.__args__):
        return list(zip(a.__args__, b.__args__))
    return None


@compatibility(is_backward_compatible=False)
def is_consistent(t1, t2):
    """Whether there is something that is of both types."""
    if t1 == t2 or Dyn in (t1, t2):
        return True
    pairs = _sizes(t1, t2)
    return pairs is not None and all(is_consistent(a, b) for a, b in pairs)


@compatibility(is_backward_compatible=False)
def is_more_precise(t1, t2):
    """Whether everything of the first type is of the second."""
    if t1 == t2 or t2 == Dyn:
        return True
    pairs = _sizes(t1, t2)
    return pairs is not None and all(is_more_precise(a, b) for a, b in pairs)
