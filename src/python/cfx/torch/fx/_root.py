"""The root of a graph: the node between the last and the first, with which the list of nodes closes
to a ring. It is no step of the program: iteration, texts and passes do not meet it."""
import functools

from cfx import _cfx

from .node import Node


class _Root(Node):
    """What `next` of the last node and `prev` of the first are."""

    op, name, target, type = "root", "", "", None
    args, kwargs, _args, _kwargs = (), {}, (), {}
    _num_users, _erased = 0, False
    users = property(lambda self: {})
    all_input_nodes = property(lambda self: [])
    meta = functools.cached_property(lambda self: {})
    next = property(lambda self: self.graph._end(False))
    prev = property(lambda self: self.graph._end(True))

    def prepend(self, x):
        """Moves a node to the end of the graph."""
        self._check(x)
        if self.prev is not x:
            self.prev.append(x)

    def append(self, x):
        """Moves a node to the start of the graph."""
        self._check(x)
        if self.next is not x:
            self.next.prepend(x)

    def _check(self, x):
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            raise AssertionError("the root of a graph cannot be moved")

    def is_impure(self, impure_random=True):
        return False

    def _format(self):
        return "% : [num_users=0] = root[target=](args = (), kwargs = {})"

    def __repr__(self):
        return ""

    # The root stands before all nodes; of a Node and a _Root Python asks the _Root first.

    def __lt__(self, other):
        return self is not other

    def __gt__(self, other):
        return False

    def __le__(self, other):
        return True

    def __ge__(self, other):
        return self is other


_cfx.adopt("root_class", _Root)
