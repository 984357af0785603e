"""What each node computes, noted while a graph runs."""
import sys
import traceback
import typing

import cfx
from cfx import _cfx

from .._compatibility import compatibility
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["TensorMetadata", "ShapeProp"]


@compatibility(is_backward_compatible=True)
class TensorMetadata(typing.NamedTuple):
    """A tensor without its numbers."""

    shape: cfx.Size
    dtype: _cfx.dtype
    requires_grad: bool
    stride: typing.Tuple[int, ...]
    memory_format: typing.Optional[_cfx.memory_format]
    is_quantized: bool
    qparams: typing.Dict[str, typing.Any]


def _extract_tensor_metadata(result, include_contiguity=True):
    """The metadata of a tensor."""
    memory_format = None
    if include_contiguity:
        for f in (_cfx.contiguous_format, _cfx.channels_last, _cfx.channels_last_3d):
            dims = {_cfx.channels_last: 4, _cfx.channels_last_3d: 5}.get(f)
            if (dims is None or result.dim() == dims) and result.is_contiguous(memory_format=f):
                memory_format = f
                break
    qparams = {}
    if result.is_quantized:
        qparams["qscheme"] = result.qscheme()
        qparams["scale"], qparams["zero_point"] = result.q_scale(), result.q_zero_point()
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(),
                          memory_format, result.is_quantized, qparams)


@compatibility(is_backward_compatible=True)
class ShapeProp(Interpreter):
    """Runs a graph and writes meta["tensor_meta"] and meta["type"] of each node."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.fake_module = None
        self.real_module = self.module

    def run_node(self, n):
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as e:
            traceback.print_exc()
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with "
                               f"meta={n.meta}") from e
        found = [False]

        def extract(x):
            if isinstance(x, cfx.Tensor):
                found[0] = True
                return _extract_tensor_metadata(x)
            return x

        meta = map_aggregate(result, extract)
        if found[0]:
            n.meta["tensor_meta"] = meta
        if self.fake_mode is not None and isinstance(result, cfx.Tensor):
            n.meta["val"] = result
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Runs the graph on these inputs."""
        if self.fake_mode is not None:
            args = [self.fake_mode.from_tensor(a) if isinstance(a, cfx.Tensor) else a
                    for a in args]
        return super().run(*args)


_ = (Node, sys)
