"""Passes: what one gives, and the base of classes of them."""
import abc
import collections

from ..._compatibility import compatibility

__all__ = ["PassResult", "PassBase"]


@compatibility(is_backward_compatible=False)
class PassResult(collections.namedtuple("PassResult", ["graph_module", "modified"])):
    """The module after a pass, and whether it changed."""

    __slots__ = ()

    def __new__(cls, graph_module, modified):
        return super().__new__(cls, graph_module, modified)


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """A pass with checks before and after."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Does the work: a PassResult, or None."""

    def requires(self, graph_module):
        """Called before; an error where the module is not fit for the pass."""

    def ensures(self, graph_module):
        """Called after."""
