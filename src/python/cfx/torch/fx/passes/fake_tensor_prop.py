"""What each node computes, found out without computing it."""
import cfx

from ..._subclasses.fake_tensor import FakeTensorMode
from .._compatibility import compatibility
from ..interpreter import Interpreter
from ..node import map_aggregate
from .shape_prop import _extract_tensor_metadata

__all__ = ["FakeTensorProp"]


@compatibility(is_backward_compatible=False)
class FakeTensorProp(Interpreter):
    """Runs a graph on tensors without numbers, and writes meta["val"] of each node."""

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = mode or FakeTensorMode()

    def fetch_attr(self, target):
        value = super().fetch_attr(target)
        return self._mode.from_tensor(value) if isinstance(value, cfx.Tensor) else value

    def call_module(self, target, args, kwargs):
        module = self.module.get_submodule(target)
        state = {n: self._mode.from_tensor(t) for n, t in
                 [*module.named_parameters(), *module.named_buffers()]}
        from ...func import functional_call

        return functional_call(module, state, args, kwargs)

    def run_node(self, n):
        result = super().run_node(n)
        n.meta["val"] = result
        if isinstance(result, cfx.Tensor):
            n.meta["tensor_meta"] = map_aggregate(
                result, lambda x: _extract_tensor_metadata(x) if isinstance(x, cfx.Tensor) else x)
        return result

    def propagate(self, *args):
        return self.propagate_dont_convert_inputs(
            *[self._mode.from_tensor(a) if isinstance(a, cfx.Tensor) else a for a in args])

    def propagate_dont_convert_inputs(self, *args):
        with self._mode:
            return super().run(*args)
