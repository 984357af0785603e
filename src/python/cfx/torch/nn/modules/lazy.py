"""Modules whose sizes are known when they first run."""
import re

from ..parameter import Parameter, is_lazy  # noqa: F401


class LazyModuleMixin:
    """initialize_parameters(*args, **kwargs) is called once, before the first forward."""

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__["_initialized"] = False

    def has_uninitialized_params(self):
        return not self.__dict__["_initialized"]

    def initialize_parameters(self, *args, **kwargs):
        raise NotImplementedError(f"initialize_parameters is not implemented for "
                                  f"{type(self).__name__}")

    def _call_impl(self, *args, **kwargs):
        if not self.__dict__["_initialized"]:
            self.initialize_parameters(*args, **kwargs)
            self.__dict__["_initialized"] = True
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
                return self._call_impl(*args, **kwargs)
        return super()._call_impl(*args, **kwargs)


def _lazy(name):
    """LazyNAME: the layer without the size of its input, which dimension 1 (the last one of
    Linear) of its first input has."""
    from ._layers import layer

    plain = layer(name)

    class Lazy(LazyModuleMixin, plain):
        cls_to_become = plain

        def __init__(self, *args, **kwargs):
            from .module import Module

            Module.__init__(self)
            self.__dict__["_initialized"] = False
            self.__dict__["_given"] = args, kwargs

        def initialize_parameters(self, input, *args, **kwargs):
            given, named = self.__dict__.pop("_given")
            size = input.shape[-1 if name == "Linear" else 1]
            made = plain(size, *given, **named).train(self.training)
            self.__dict__.update({k: v for k, v in made.__dict__.items() if "hooks" not in k})

        def extra_repr(self):
            if "_given" not in self.__dict__:
                return super().extra_repr()
            given, named = self.__dict__["_given"]
            text = plain(1, *given, **named).extra_repr()  # with 0 where the size will be
            return re.sub(r"^(in_features=)?1(, \d+)?",
                          lambda m: (m[1] or "") + "0" + (m[2] or ""), text)

        def _no_parameters(self, *args, **kwargs):
            if "_given" in self.__dict__:
                raise ValueError(f"{type(self).__name__} has no parameters before its first "
                                 "forward: they have no sizes")
            return super().state_dict(*args, **kwargs)

        state_dict = _no_parameters

    Lazy.__name__ = Lazy.__qualname__ = f"Lazy{name}"
    Lazy.__module__ = plain.__module__
    return Lazy


NAMES = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
         "ConvTranspose3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d",
         "InstanceNorm2d", "InstanceNorm3d")
_made = {}


def __getattr__(name):
    plain = name[4:]
    if not name.startswith("Lazy") or plain not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if plain not in _made:
        _made[plain] = _lazy(plain)
    return _made[plain]
