"""Tensors: the class, and those of its methods that are no operators."""
import copy
import functools
import sys
import warnings

from . import _cfx, _numbers
from ._grad_mode import (  # noqa: F401
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled)
from ._shown import _alone, _attribute, _shown
from ._types import Size

_print_options = {"precision": 4, "linewidth": 80, "threshold": 1000, "edgeitems": 3,
                  "sci_mode": None}


@functools.cache
def _overload(name):
    """torch.ops.aten.NAME, its default where none is said."""
    return _cfx.overload(f"aten.{name}" if "." in name else f"aten.{name}.default")


def _turned(name, t, parts):
    """A view that is one call in an exported graph, and elsewhere the call that it consists of."""
    return _overload(name)(t) if _cfx.is_exporting() else parts(t)


class _TensorMeta(type):
    """Finds methods by name: Tensor.relu is what the registry has as Tensor.relu."""

    def __getattr__(cls, name):
        return _cfx.method(name)

    def __dir__(cls):
        names = set(super().__dir__())
        names.update(s[7:] for s in _cfx.spellings() if s.startswith("Tensor."))
        return sorted(names)


_TO = ("device", "dtype", "non_blocking", "copy")


def _to_device(args, kwargs):
    """The arguments of to() where a device and no dtype is said; None where it is another call."""
    said = {**dict(zip(_TO, args)), **kwargs}
    if len(said) < len(args) + len(kwargs) or set(said) - {*_TO, "memory_format"} or \
            said.pop("dtype", None) is not None:
        return None
    device = said.get("device")
    if isinstance(device, (str, int)) and not isinstance(device, bool):
        said["device"] = device = _cfx.device(device)
    if type(device) is not _cfx.device:
        return None
    return {k: v for k, v in said.items() if v is not None and v is not False}


class Tensor(_cfx.TensorBase, metaclass=_TensorMeta):
    """Numbers in any number of dimensions, as PyTorch has them."""

    __module__ = "torch"
    _is_param = False

    # ---- text and copies ----

    def __repr__(self, *, tensor_contents=None):
        if _cfx.is_overridden(self):
            return _cfx.override(Tensor.__repr__, (self,), {"tensor_contents": tensor_contents})
        o = _print_options
        sci = {None: 0, True: 1, False: -1}[o["sci_mode"]]
        text = self._text(o["precision"], o["linewidth"], o["threshold"], o["edgeitems"], sci)
        name, own = type(self).__name__, type(self).__module__.partition(".")[0]
        if own in ("cfx", "torch") or not text.startswith("tensor("):
            return text
        first, *rest = text[len("tensor"):].split("\n")  # one of the user's classes
        return "\n".join([name + first, *(" " * (len(name) - len("tensor")) + r for r in rest)])

    def __format__(self, spec):
        if self.dim() == 0 and not self._is_fake and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __copy__(self):
        return _cfx.alias(type(self), self, self.requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) "
                               "support the deepcopy "
                               "protocol at the moment.  If you were attempting to deepcopy a "
                               "module, this may be "
                               "because of a torch.nn.utils.weight_norm usage, see "
                               "https://github.com/pytorch/pytorch/pull/103001")
        with no_grad():
            other = _cfx.alias(type(self), self.detach().clone(), self.requires_grad)
        memo[id(self)] = other
        if self.grad is not None:
            other.grad = self.grad.__deepcopy__(memo)
        for name, value in vars(self).items():
            other.__dict__[name] = copy.deepcopy(value, memo)
        return other

    def __reduce_ex__(self, protocol):
        order = sorted(range(self.dim()), key=lambda d: -self.stride(d))  # as it lies in memory
        dense = self.detach().permute(order)
        if not dense.is_contiguous():
            order, dense = None, self.detach().contiguous()
        data = bytes(memoryview(dense.cpu().reshape(-1).view(_cfx.uint8)))
        state = {k: v for k, v in vars(self).items() if not k.startswith("_backward")}
        cls = None if type(self) is Tensor else type(self)
        return (_rebuild, (cls, data, self.dtype, tuple(dense.shape), self.requires_grad, state,
                           order, str(self.device) if self.is_cuda else None))

    @_shown
    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
        """A copy of data, of this dtype unless another is said."""
        return tensor(data.detach() if isinstance(data, Tensor) else data,
                      dtype=dtype or self.dtype, device=device or self.device,
                      requires_grad=requires_grad)

    @_shown
    def new(self, *args, device=None):
        """A tensor of this dtype: of such a size, or with such numbers."""
        if len(args) == 1 and not isinstance(args[0], int):
            return self.new_tensor(args[0])
        return self.new_empty(args)

    def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
        """The numbers in it, each once."""
        from .torch import unique

        return unique(self, sorted=sorted, return_inverse=return_inverse,
                      return_counts=return_counts, dim=dim)

    def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
        from .torch import unique_consecutive

        return unique_consecutive(self, return_inverse=return_inverse,
                                  return_counts=return_counts, dim=dim)

    @_shown
    def polygamma(self, n):
        from .torch import special

        return special.polygamma(n, self)

    @_shown
    def apply_(self, callable):
        """Every element replaced by what a function of Python's gives for it."""
        with no_grad():
            return self.copy_(tensor([callable(v) for v in self.reshape(-1).tolist()],
                                     dtype=self.dtype).reshape(self.shape))

    @_shown
    def is_set_to(self, other):
        """Whether both are the same view of the same memory."""
        return self._shares(other) and self.storage_offset() == other.storage_offset() and \
            self.shape == other.shape and self.stride() == other.stride()

    # ---- iteration and conversion ----

    def __iter__(self):
        if self.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    @_alone
    def __reversed__(self):
        return self if self.dim() == 0 else self.flip(0)

    @_alone
    def __contains__(self, element):
        if isinstance(element, (Tensor, int, float, complex)):
            return bool((element == self).any())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed "
                           f"in a {type(element)}.")

    @_alone
    def __complex__(self):
        return complex(self.item())

    def __array__(self, dtype=None, copy=None):
        a = self.numpy()
        return a if dtype is None else a.astype(dtype, copy=False)

    __array_priority__ = 1000

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return from_numpy(array.astype("uint8") if array.dtype == bool else array)

    @_shown
    def numpy(self, *, force=False):
        """The same memory as a numpy array."""
        if self.requires_grad and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use "
                               "tensor.detach().numpy() instead.")
        if self._is_fake:
            raise RuntimeError(".numpy() is not supported for tensor subclasses.")
        import numpy

        if force:
            return numpy.asarray(self.detach().cpu().resolve_conj())
        if self.dtype in (_cfx.bfloat16,) or "float8" in repr(self.dtype):
            raise TypeError("Got unsupported ScalarType BFloat16")
        return numpy.asarray(memoryview(self))

    @_alone
    def tolist(self):
        if self.dim() == 0:
            return self.item()
        if self.dim() == 1:
            return _cfx.to_list(self)
        return [row.tolist() for row in self.unbind(0)]

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream not in (None, -1):
            raise TypeError("a tensor of the CPU has no stream")
        return _cfx.to_dlpack(self.clone() if copy else self)

    def __dlpack_device__(self):
        return (2, self.device.index) if self.is_cuda else (1, 0)

    # ---- gradients ----

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        if _cfx.is_overridden(self):
            return _cfx.override(Tensor.backward, (self,), {
                "gradient": gradient, "retain_graph": retain_graph, "create_graph": create_graph,
                "inputs": inputs})
        if inputs is not None:
            from ._grad import backward

            return backward(self, gradient, retain_graph, create_graph, inputs)
        retain = create_graph if retain_graph is None else retain_graph
        self._backward(gradient, retain, create_graph)

    @_shown
    def requires_grad_(self, requires_grad=True):
        if not isinstance(requires_grad, bool):
            raise TypeError("requires_grad_(): argument 'requires_grad' (position 1) must be bool, "
                            f"not {type(requires_grad).__name__}")
        self.requires_grad = requires_grad
        return self

    def register_hook(self, hook):
        """Calls hook(grad) with the gradient of this tensor in the backward pass."""
        from ._grad import tensor_hook

        return tensor_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook):
        from ._grad import leaf_hook

        return leaf_hook(self, hook)

    @_attribute
    def grad_fn(self):
        if self._grad_fn_name is None:
            return None
        from ._grad import grad_fn

        return grad_fn(_cfx.grad_node(self))

    @property
    def _backward_hooks(self):
        return None

    # ---- where and what it is ----

    @_attribute
    def T(self):
        return _turned("numpy_T", self, lambda t: t.permute(tuple(range(t.dim() - 1, -1, -1))))

    @_attribute
    def mT(self):
        return _turned("mT", self, lambda t: t.transpose(-2, -1) if t.dim() > 1
                       else _overload("mT")(t))

    @_attribute
    def H(self):
        return _overload("matrix_H")(self)

    @_attribute
    def mH(self):
        return _overload("mH")(self)

    @_attribute
    def real(self):
        return _cfx.function("torch.real", "real", 0)(self)

    @_attribute
    def imag(self):
        return _cfx.function("torch.imag", "imag", 0)(self)

    is_cuda = _attribute(lambda self: self.device.type == "cuda")
    is_cpu = _attribute(lambda self: self.device.type == "cpu")
    is_meta = _attribute(lambda self: self.device.type == "meta")
    is_quantized = _attribute(lambda self: repr(self.dtype).startswith("torch.q"))
    names = _attribute(lambda self: (None,) * self.dim())
    output_nr = _attribute(lambda self: 0)

    @_alone
    def is_floating_point(self):
        return self.dtype.is_floating_point

    @_alone
    def is_complex(self):
        return self.dtype.is_complex

    @_alone
    def is_signed(self):
        return self.dtype.is_signed

    @_alone
    def is_inference(self):
        return False

    @_alone
    def is_shared(self):
        return False

    @_alone
    def get_device(self):
        return -1 if self.device.type == "cpu" else self.device.index or 0

    @_shown
    def is_contiguous(self, memory_format=None):
        return _cfx.is_contiguous(self, memory_format)

    @_shown
    def to(self, *args, **kwargs):
        """The tensor of another dtype, or elsewhere. Where a device and no dtype is said, PyTorch
        says the rest too."""
        said = _to_device(args, kwargs)
        if said is None:
            return _cfx.method("to")(self, *args, **kwargs)
        return _overload("to.dtype_layout")(self, dtype=self.dtype, layout=self.layout, **said)

    @_shown
    def cpu(self, memory_format=None):
        return self.to("cpu", memory_format=memory_format)

    @_shown
    def cuda(self, device=None, non_blocking=False, memory_format=None):
        device = _cfx.device("cuda" if device is None else device)
        if device.type != "cuda":
            raise RuntimeError(f"Invalid device, must be cuda device but got {device.type}")
        return self.to(device, non_blocking=non_blocking, memory_format=memory_format)

    @_shown
    def dim_order(self, *, ambiguity_check=False):
        """The dimensions from the slowest in memory to the fastest."""
        return tuple(sorted(range(self.dim()), key=lambda d: (-self.stride(d), d)))

    @_shown
    def is_pinned(self, device=None):
        return False

    @_shown
    def pin_memory(self, device=None):
        return self

    @_alone
    def share_memory_(self):
        return self

    @_shown
    def type(self, dtype=None, non_blocking=False):
        """The name of the class of old, or the tensor in another dtype."""
        if dtype is None:
            where = "torch.cuda" if self.is_cuda else "torch"
            return f"{where}.{_OLD_NAMES.get(self.dtype, 'Tensor')}"
        if isinstance(dtype, str):
            known = {f"torch.{n}": d for d, n in _OLD_NAMES.items()}
            if dtype not in known:
                raise ValueError(f"invalid type: '{dtype}'")
            dtype = known[dtype]
        return self.to(getattr(dtype, "dtype", dtype))  # torch.FloatTensor has one

    @_shown
    def nonzero(self, *, as_tuple=False):
        """The places of elements that are not zero: a row for each, or a tensor for each
        dimension."""
        if not as_tuple:
            return _cfx.method("nonzero")(self)
        return tuple(_overload("nonzero_numpy")(self))

    @_alone
    def untyped_storage(self):
        return Storage(self)

    storage = typed_storage = _typed_storage = untyped_storage

    def __hash__(self):
        return id(self)

    def __setstate__(self, state):
        self.__dict__.update(state)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        """What subclasses inherit: the function runs, and tensors that it gives are of the
        subclass."""
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        was = _cfx.set_overrides(False)
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            _cfx.set_overrides(was)
        return _convert(result, cls)

    __torch_dispatch__ = None

    @staticmethod
    def _make_subclass(cls, data, require_grad=False, **unused):
        return _cfx.alias(cls, data.detach(), require_grad)

    def as_subclass(self, cls):
        return _cfx.alias(cls, self, self.requires_grad)

    def _repr_html_(self):
        return None


def _convert(result, cls):
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if type(result) in (tuple, list):
        return type(result)(_convert(r, cls) for r in result)
    return result


class Storage:
    """The memory of a tensor, for those who ask whether two share it."""

    def __init__(self, tensor):
        self._tensor = tensor

    def data_ptr(self):
        return self._tensor.data_ptr() - self._tensor.storage_offset() * self._tensor.element_size()

    _cdata = property(data_ptr)

    def nbytes(self):
        t = self._tensor
        last = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if t.numel() else 0
        return (t.storage_offset() + last) * t.element_size()

    size = nbytes
    device = property(lambda self: self._tensor.device)

    def __len__(self):
        return self.nbytes()

    def __eq__(self, other):
        return isinstance(other, Storage) and self._tensor._shares(other._tensor)

    def __hash__(self):
        return hash(self.data_ptr())


_OLD_NAMES = {_cfx.float32: "FloatTensor", _cfx.float64: "DoubleTensor", _cfx.float16: "HalfTensor",
              _cfx.bfloat16: "BFloat16Tensor", _cfx.int64: "LongTensor", _cfx.int32: "IntTensor",
              _cfx.int16: "ShortTensor", _cfx.int8: "CharTensor", _cfx.uint8: "ByteTensor",
              _cfx.bool: "BoolTensor"}


def _rebuild(cls, data, dtype, shape, requires_grad, state, order=None, device=None):
    flat = _cfx.from_buffer(bytearray(data))[0] if data else tensor([], dtype=_cfx.uint8)
    plain = flat.view(dtype).reshape(shape) if data else tensor([], dtype=dtype).reshape(shape)
    if order and order != sorted(order):
        plain = plain.permute([order.index(d) for d in range(len(order))])
    t = _cfx.alias(cls or Tensor, plain.to(device) if device else plain, requires_grad)
    t.__dict__.update(state)
    return t


# ---- making --------------------------------------------------------------------------------------


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A copy of numbers, nested sequences of them, an array or a tensor."""
    if _cfx.is_overridden():  # a mode is on
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad,
                   "pin_memory": pin_memory}
        return _cfx.override(tensor, (data,), {k: v for k, v in options.items() if v})
    if isinstance(data, Tensor):
        warnings.warn("To copy construct from a tensor, it is recommended to use "
                      "sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than "
                      "torch.tensor(sourceTensor).",
                      UserWarning, stacklevel=2)
    if isinstance(data, (list, tuple)) and data and getattr(data[0], "shape", ()) != () and \
            hasattr(data[0], "__array_interface__"):
        data = sys.modules["numpy"].array(data)
    scalars = []
    if isinstance(data, Tensor):
        t = data.detach().clone()
    elif _cfx.is_exporting() and _numbers.has_symbols(data):
        t = _numbers.stacked(data)
    else:
        plain = _numbers.plain(data, scalars)
        t = _numbers.typed(plain, dtype) if dtype is not None and _numbers.recorded() else None
        t = _numbers.wide(plain, dtype) if t is None else t
    if dtype is None and scalars:
        dtype = _numbers.dtype_beside(scalars, data)
    if dtype is None and type(data) in (float, list, tuple) and t.dtype is _cfx.float32:
        dtype = _default_dtype[0] if _default_dtype[0] is not _cfx.float32 else None
    if (dtype or t.dtype) is not t.dtype or device is not None and _cfx.device(device) != t.device:
        t = t.to(dtype=dtype or t.dtype, device=device)
    if _cfx.modes(True):  # who sees what is called sees that these numbers are new
        t = _cfx.overload("aten.lift_fresh.default")(t)
    return t.requires_grad_() if requires_grad else t


_default_dtype = [_cfx.float32]


def as_tensor(data, dtype=None, device=None):
    """A tensor over the same memory where that can be, else a copy."""
    if _cfx.is_overridden():
        options = {"dtype": dtype, "device": device}
        return _cfx.override(as_tensor, (data,), {k: v for k, v in options.items() if v})
    if isinstance(data, Tensor):
        t = data
    elif hasattr(data, "__array_interface__") and data.shape != ():
        t = from_numpy(data)
    else:
        t = tensor(data, dtype=dtype)
    return t.to(dtype=dtype or t.dtype, device=device) if dtype or device else t


tensor.__module__ = as_tensor.__module__ = "torch"


def from_numpy(array):
    """The tensor over an array's memory."""
    if not hasattr(type(array), "__array_interface__"):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    _numbers.check_kind(array.dtype)
    t, readonly = _cfx.from_buffer(array)
    if readonly:
        warnings.warn("The given NumPy array is not writable, and PyTorch does not support "
                      "non-writable tensors. This "
                      "means writing to this tensor will result in undefined behavior. You may "
                      "want to copy the array "
                      "to protect its data or make it writable before converting it to a tensor.",
                      UserWarning, stacklevel=2)
    return t


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A flat tensor over a buffer's bytes."""
    if not isinstance(dtype, _cfx.dtype):
        raise TypeError("frombuffer(): argument 'dtype' must be torch.dtype, not "
                        f"{type(dtype).__name__}")
    whole = memoryview(buffer).cast("B")
    length, size = len(whole), dtype.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer "
                         f"length ({length} bytes) minus 1")
    if count < 0 and (length - offset) % size:
        raise ValueError(f"buffer length ({length - offset} bytes) after offset ({offset} bytes) "
                         f"must be a multiple of element size ({size})")
    count = (length - offset) // size if count < 0 else count
    if offset + count * size > length:
        raise ValueError(f"requested buffer length ({count} * {size} bytes) after offset "
                         f"({offset} bytes) must not be greater than actual buffer length "
                         f"({length} bytes)")
    if whole.readonly:
        warnings.warn("The given buffer is not writable, and PyTorch does not support non-writable "
                      "tensors. This means you can write to the underlying (supposedly "
                      "non-writable) buffer using the tensor. You may want to copy the buffer to "
                      "protect its data or make it writable before converting it to a tensor.",
                      UserWarning, stacklevel=2)
    view = whole[offset:offset + count * size]
    t = _cfx.from_buffer(view)[0].view(dtype)
    return t.requires_grad_() if requires_grad else t


def from_dlpack(ext):
    """The tensor over the memory of anything that speaks DLPack."""
    return _cfx.from_dlpack(ext.__dlpack__() if hasattr(ext, "__dlpack__") else ext)


for _name in ("is_sparse", "is_mkldnn", "is_mps", "is_xpu", "is_nested", "is_sparse_csr"):
    setattr(Tensor, _name, _attribute(lambda self: False))
_cfx.adopt("tensor_class", Tensor)
