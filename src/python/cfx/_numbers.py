"""Numbers and arrays of numpy's, as tensors are made of them and stand beside them."""
import array
import functools

from . import _cfx


def is_scalar(x):
    """Whether it is a number of numpy's, which has a dtype of its own."""
    return not isinstance(x, _cfx.TensorBase) and hasattr(type(x), "__array_interface__") \
        and x.shape == ()


def plain(data, scalars):
    """Numbers of other libraries and tensors of one element in sequences, as numbers; those with a
    dtype of their own are also noted."""
    if isinstance(data, (list, tuple)):
        return [plain(item, scalars) for item in data]
    if type(data) in (int, float, bool, complex, str) or data is None:
        return data
    if isinstance(data, _cfx.TensorBase):
        return data.tolist() if data.dim() == 0 else data
    if is_scalar(data):
        scalars.append(data)
        check_kind(data.dtype)
        return data.item()
    return list(data) if isinstance(data, range) else data


def recorded():
    """Whether calls are written down: by a mode, or while a model is exported."""
    return bool(_cfx.modes(True)) or _cfx.is_exporting()


def has_symbols(data):
    """Whether a number in it is one that an export has marked as data."""
    if isinstance(data, (list, tuple)):
        return any(map(has_symbols, data))
    return isinstance(data, _cfx.Sym) and data._marked


def stacked(data):
    """Nested sequences of numbers, some of them symbols, as a tensor that is computed of them."""
    if isinstance(data, (list, tuple)):
        return _cfx.overload("aten.stack.default")([stacked(item) for item in data])
    if isinstance(data, _cfx.TensorBase):
        return data
    kinds = {"SymInt": _cfx.int64, "bool": _cfx.bool, "int": _cfx.int64}
    name = type(data).__name__
    dtype = {"dtype": kinds[name]} if name in kinds else {}
    return _cfx.overload("aten.scalar_tensor.default")(data, **dtype)


_formats = {"torch.float32": "f", "torch.float64": "d", "torch.int64": "q", "torch.int32": "i",
            "torch.int16": "h", "torch.int8": "b", "torch.uint8": "B", "torch.bool": "?"}


def typed(data, dtype):
    """Nested sequences of numbers as a tensor that is made of this dtype, for those who would see
    that it was converted; None where there is no such way."""
    code, shape, flat = _formats.get(repr(dtype)), [], [data]
    while flat and isinstance(flat[0], list):
        shape.append(len(flat[0]))
        if any(not isinstance(row, list) or len(row) != shape[-1] for row in flat):
            return None
        flat = [item for row in flat for item in row]
    kind = float if code in ("f", "d") else bool if code == "?" else int
    if not code or not flat or any(type(item) not in (int, float, bool) for item in flat):
        return None
    try:
        numbers = array.array("B" if code == "?" else code, map(kind, flat))
    except (OverflowError, ValueError):
        return None
    return _cfx.from_buffer(memoryview(numbers).cast("B").cast(code, shape))[0]


def wide(data, dtype):
    """Numbers as a tensor; where a dtype is asked for, with all their digits until they are of
    it."""
    if dtype is None:
        return _cfx.tensor(data)
    default = _cfx.set_default_dtype(_cfx.float64)
    try:
        return _cfx.tensor(data)
    finally:
        _cfx.set_default_dtype(default)


def promoted(a, b):
    return (_cfx.tensor([0]).to(a) + _cfx.tensor([0]).to(b)).dtype


def dtype_beside(scalars, data):
    """The dtype of a sequence in which there are numbers of numpy's."""
    def rest(x):
        return [n for item in x for n in rest(item)] if isinstance(x, (list, tuple)) else \
            [] if is_scalar(x) else [x]

    kinds = [array_tensor(s.reshape(1)).dtype for s in {s.dtype: s for s in scalars}.values()]
    others = rest(data)
    if others:
        kinds.append(_cfx.tensor(plain(others, [])).dtype)
    return functools.reduce(promoted, kinds)


def check_kind(dtype):
    if dtype.kind not in "biufc":
        kind = dtype.type
        raise TypeError(f"can't convert np.ndarray of type {kind.__module__}.{kind.__name__}. The "
                        "only supported types are: float64, float32, float16, complex64, "
                        "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and "
                        "bool.")


def array_tensor(array):
    """What an array is beside a tensor: over its memory, or a copy where that cannot be shared."""
    try:
        return _cfx.from_buffer(array)[0]
    except ValueError:  # negative strides, another byte order
        return _cfx.from_buffer(array.astype(array.dtype.newbyteorder("="), order="C"))[0]


_cfx.adopt("array_tensor", array_tensor)
