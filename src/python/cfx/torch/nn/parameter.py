"""Parameters: tensors that a module learns; and buffers."""
import cfx
from cfx import _cfx
from cfx._tensor import _TensorMeta


class _ParameterMeta(_TensorMeta):
    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, cfx.Tensor) and \
            getattr(instance, "_is_param", False)


def _disabled_torch_function_impl(func, types, args=(), kwargs=None):
    """Overrides nothing."""
    was = _cfx.set_overrides(False)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _cfx.set_overrides(was)


class Parameter(cfx.Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes a parameter of the module it is assigned to."""

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = cfx.tensor([])
        if requires_grad and isinstance(data, cfx.Tensor) and \
                not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require "
                               "gradients")
        if type(data) not in (cfx.Tensor, Parameter) and not isinstance(data, cls):
            t = data.detach().requires_grad_(requires_grad)
            if type(t) is not type(data):
                raise RuntimeError(f"Creating a Parameter from an instance of type "
                                   f"{type(data).__name__} requires that detach() returns an "
                                   f"instance of the same type, but return type "
                                   f"{type(t).__name__} was found instead.")
            t._is_param = True
            return t
        return _cfx.alias(cls, data, requires_grad)

    def __init__(self, data=None, requires_grad=True):
        pass

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        with cfx.no_grad():
            result = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        return (_rebuild_parameter, (self.data, self.requires_grad))

    __torch_function__ = _disabled_torch_function_impl


def _rebuild_parameter(data, requires_grad):
    return Parameter(data, requires_grad)


class _BufferMeta(_TensorMeta):
    def __instancecheck__(cls, instance):
        return isinstance(instance, cfx.Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(cfx.Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to."""

    def __new__(cls, data=None, *, persistent=True):
        t = (cfx.tensor([]) if data is None else data).detach().requires_grad_(
            False if data is None else data.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t


def is_lazy(param):
    return False


_cfx.adopt("parameter", Parameter)
_cfx.adopt("disabled", _disabled_torch_function_impl)
