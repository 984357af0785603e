"""Names for annotations of sizes: a number for all dimensions, or one for each."""
import typing

from cfx._tensor import Tensor

T = typing.TypeVar("T")
_scalar_or_tuple_any_t = typing.Union[T, typing.Tuple[T, ...]]
_scalar_or_tuple_1_t = typing.Union[T, typing.Tuple[T]]
_scalar_or_tuple_2_t = typing.Union[T, typing.Tuple[T, T]]
_scalar_or_tuple_3_t = typing.Union[T, typing.Tuple[T, T, T]]
_size_any_t = _scalar_or_tuple_any_t[int]
_size_1_t = _scalar_or_tuple_1_t[int]
_size_2_t = _scalar_or_tuple_2_t[int]
_size_3_t = _scalar_or_tuple_3_t[int]
_ratio_2_t = _scalar_or_tuple_2_t[float]
_ratio_3_t = _scalar_or_tuple_3_t[float]
_ratio_any_t = _scalar_or_tuple_any_t[float]
_tensor_list_t = _scalar_or_tuple_any_t[Tensor]
_maybe_indices_t = _scalar_or_tuple_2_t[Tensor]
