"""torch.nn.utils.parametrize: tensors of a module that are computed from parameters."""
import contextlib

from cfx._tensor import Tensor, no_grad

from ..modules import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization",
           "remove_parametrizations", "transfer_parametrizations_and_params",
           "type_before_parametrizations"]

_cache = None  # inside cached(): (id of module, name) to tensor


@contextlib.contextmanager
def cached():
    """A context in which each tensor is computed once."""
    global _cache
    outer, _cache = _cache, {} if _cache is None else _cache
    try:
        yield
    finally:
        _cache = outer


class ParametrizationList(ModuleList):
    """The modules that compute a tensor, one after the other, from `original`, or from original0,
    original1, ... where right_inverse gives several."""

    def __init__(self, modules, original, unsafe=False):
        super().__init__(modules)
        self.unsafe = unsafe
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, Tensor) and not isinstance(new, (list, tuple)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors "
                             f"(list, tuple...). Got {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        kept = isinstance(original, Parameter)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError("When `right_inverse` outputs one tensor, it may not change the "
                                 f"dtype.\noriginal.dtype: {original.dtype}\n"
                                 f"right_inverse(original).dtype: {new.dtype}")
            with no_grad():
                original.data = new.data if new is not original else original.data
            _put(self, "original", original, kept)
        else:
            for i, part in enumerate(new):
                own = Parameter(part, requires_grad=original.requires_grad) if kept else part
                _put(self, f"original{i}", own, kept)
        if not unsafe:
            with no_grad():
                made = self()
            if not isinstance(made, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got "
                                 f"{type(made).__name__}.")
            if made.dtype != original.dtype or self.is_tensor and made.shape != original.shape:
                raise ValueError("Registering a parametrization may not change the dtype or the "
                                 f"shape of the tensor, unless `unsafe` flag is enabled.\n"
                                 f"original: {original.dtype}, {original.shape}\n"
                                 f"parametrized: {made.dtype}, {made.shape}")

    def right_inverse(self, value):
        """Makes the parameters such that `value` is computed from them, as far as the modules
        know how."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not "
                                       "implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                self.original.copy_(value)
            else:
                for i, part in enumerate(value):
                    getattr(self, f"original{i}").copy_(part)

    def forward(self):
        if self.is_tensor:
            x = self[0](self.original)
        else:
            x = self[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for i in range(1, len(self)):
            x = self[i](x)
        return x


def _put(module, name, tensor, is_parameter):
    if is_parameter:
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _property(name):
    def get(self):
        if _cache is None:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _parametrized_class(module):
    """A class of its own for the module, since properties are its class's."""
    cls = type(module)

    def refuse(self, protocol=None):
        raise RuntimeError("Serialization of parametrized modules is only supported through "
                           "state_dict(). See:\nhttps://pytorch.org/tutorials/beginner/"
                           "saving_loading_models.html#saving-loading-a-general-checkpoint-for-"
                           "inference-and-or-resuming-training")

    def deepcopy(self, memo):
        import copy

        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__ = copy.deepcopy(self.__dict__, memo)
        other.__class__ = _copied_class(type(self))
        return other

    return type(f"Parametrized{cls.__name__}", (cls,), {
        "__getstate__": refuse, "__deepcopy__": deepcopy, "__module__": cls.__module__})


def _copied_class(cls):
    return type(cls.__name__, cls.__bases__, {k: v for k, v in vars(cls).items()
                                              if k not in ("__dict__", "__weakref__")})


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """module.tensor_name is parametrization(original) from now on. Gives the module."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            with no_grad():
                before = getattr(module, tensor_name)
                after = parametrization(before)
            if after.shape != before.shape or after.dtype != before.dtype:
                raise ValueError("Registering a parametrization may not change the dtype or the "
                                 "shape of the tensor, unless the `unsafe` flag is enabled.\n"
                                 f"before: {before.dtype}, {before.shape}\n"
                                 f"after: {after.dtype}, {after.shape}")
        module.parametrizations[tensor_name].append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a "
                         f"parametrized element with name '{tensor_name}'")
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.__class__ = _parametrized_class(module)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def is_parametrized(module, tensor_name=None):
    """Whether a tensor of the module, or any, is computed."""
    all_ = module._modules.get("parametrizations")
    if all_ is None or not isinstance(all_, ModuleDict):
        return False
    return len(all_) > 0 if tensor_name is None else tensor_name in all_


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """The tensor is a parameter again: as it is computed now, or the original. Gives the module."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if not made.is_tensor and not leave_parametrized:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that "
                         "is parametrized in terms of a sequence of tensors.")
    with no_grad():
        now = getattr(module, tensor_name)
    if made.is_tensor:
        original = made.original
        if leave_parametrized:
            with no_grad():
                original.data = now.data
        is_parameter = "original" in made._parameters
    else:
        is_parameter = bool(made._parameters)
        original = Parameter(now) if is_parameter else now
    cls = type(module)
    delattr(cls, tensor_name)
    del module.parametrizations[tensor_name]
    _put(module, tensor_name, original, is_parameter)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = cls.__bases__[0]
    return module


def type_before_parametrizations(module):
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives to_module what computes the tensors of from_module."""
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        for p in from_module.parametrizations[name]:
            register_parametrization(to_module, name, p, unsafe=True)
        own, new = from_module.parametrizations[name], to_module.parametrizations[name]
        for key, value in own.named_parameters(recurse=False):
            setattr(new, key, value)
    return to_module
