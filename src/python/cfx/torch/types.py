"""torch.types: names for annotations."""
import typing

from cfx._cfx import device, dtype
from cfx._tensor import Tensor

from ._sym import SymBool, SymFloat, SymInt

Device = typing.Optional[typing.Union[device, str, int]]
Number = typing.Union[int, float, bool]
_int, _float, _bool, _dtype, _device = int, float, bool, dtype, device
IntLikeType = typing.Union[int, SymInt]
FloatLikeType = typing.Union[float, SymFloat]
BoolLikeType = typing.Union[bool, SymBool]
_TensorOrTensors = typing.Union[Tensor, typing.Sequence[Tensor]]
_size = typing.Union[typing.List[int], typing.Tuple[int, ...]]
