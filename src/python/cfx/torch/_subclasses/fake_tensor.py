"""Fake tensors: sizes, strides and a dtype, and no numbers."""
import cfx
from cfx import _cfx
from cfx._tensor import _TensorMeta


class UnsupportedFakeTensorException(RuntimeError):
    pass


class DynamicOutputShapeException(RuntimeError):
    def __init__(self, func):
        super().__init__(func)
        self.func = func


class DataDependentOutputException(RuntimeError):
    def __init__(self, func):
        super().__init__(func)
        self.func = func


class MetadataMismatchError(RuntimeError):
    pass


class _FakeMeta(_TensorMeta):
    def __instancecheck__(cls, t):
        return isinstance(t, cfx.Tensor) and (t._is_fake or type(t) is _Symbolic)


class FakeTensor(cfx.Tensor, metaclass=_FakeMeta):
    """Any tensor without numbers is of this class."""

    def __new__(cls, fake_mode, elem, device=None, *args, **kwargs):
        return faked(_cfx.fake_like(elem), fake_mode)


class _Symbolic(cfx.Tensor):
    """What a node computes where sizes are symbols: shape and strides have expressions in them."""

    def _described(self, name):
        return self.__dict__["_said"][name]

    shape = property(lambda self: cfx.Size(self._described("shape")))

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        stride = tuple(self._described("stride") or _contiguous(self.shape))
        return stride if dim is None else stride[dim]

    def dim(self):
        return len(self.shape)

    ndim = property(dim)

    def numel(self):
        n = 1
        for size in self.shape:
            n = size * n
        return n

    def __repr__(self):
        text = f"FakeTensor(..., size=({', '.join(map(str, self.shape))}"
        text += ",)" if len(self.shape) == 1 else ")"
        if self.dtype is not cfx.float32:
            text += f", dtype={self.dtype}"
        return text + (", requires_grad=True)" if self._described("requires_grad") else ")")

    fake_mode = property(lambda self: _mode)

    def _to_c(self):
        return dict(self.__dict__["_said"])


def _contiguous(shape):
    out, step = [], 1
    for n in reversed(shape):
        out.insert(0, step)
        step = n * step
    return out


def symbolic(said):
    """The tensor that C describes by a dict: shape, stride, dtype, ..."""
    hints = [n._hint() if isinstance(n, _cfx.Sym) else n for n in said["shape"]]
    plain = _cfx.fake(said["dtype"], tuple(hints))
    t = _cfx.alias(_Symbolic, plain, False)
    t.__dict__["_said"] = {"shape": tuple(said["shape"]), "stride": said.get("stride"),
                           "dtype": said["dtype"], "device": said.get("device"),
                           "requires_grad": said.get("requires_grad", False)}
    return t


def faked(t, mode=None):
    """A tensor without numbers, with the attributes that PyTorch's have."""
    t.__dict__["fake_mode"] = mode or _mode
    return t


class FakeTensorMode:
    """A context in which tensors that are made have no numbers; from_tensor makes such of
    others."""

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None,
                 static_shapes=None, export=False):
        self.shape_env = shape_env
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self._was = []

    def __enter__(self):
        self._was.append(_cfx.set_fake_mode(True))
        return self

    def __exit__(self, *error):
        _cfx.set_fake_mode(self._was.pop())

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None,
                    trace=True):
        if tensor._is_fake:
            return tensor
        t = faked(_cfx.fake_like(tensor), self)
        if tensor.requires_grad:
            t.requires_grad_()
        return t


_mode = FakeTensorMode()


def unset_fake_temporarily():
    import contextlib

    @contextlib.contextmanager
    def off():
        was = _cfx.set_fake_mode(False)
        try:
            yield None
        finally:
            _cfx.set_fake_mode(was)

    return off()


def is_fake(x):
    return isinstance(x, FakeTensor)
