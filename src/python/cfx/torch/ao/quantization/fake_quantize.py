"""Modules that round what goes through as quantization would; gradients go straight through."""
import cfx
from cfx import _cfx

from . import observer as _observer
from .observer import ObserverBase

__all__ = ["FakeQuantizeBase", "FakeQuantize", "FixedQParamsFakeQuantize",
           "FusedMovingAvgObsFakeQuantize", "enable_observer", "disable_observer",
           "enable_fake_quant", "disable_fake_quant"]


class FakeQuantizeBase(ObserverBase):
    """The base of all modules that round."""

    def __init__(self, observer=None, quant_min=None, quant_max=None, **kwargs):
        observer = observer or _observer.MovingAverageMinMaxObserver
        self._inner = _observer.to_options(observer)
        ObserverBase.__init__(self, quant_min=quant_min, quant_max=quant_max, **kwargs)

    def __setattr__(self, name, value):
        if name == "_inner":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def _to_c(self, dtype, kwargs):
        given = ObserverBase._to_c(self, dtype, kwargs)
        del given["kind"]
        return {**self.__dict__.pop("_inner"), **given, "fake": self._fake}

    def enable_fake_quant(self, enabled=True):
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        self.enable_observer(False)

    qscheme = property(lambda self: self.activation_post_process.qscheme)


class FakeQuantize(FakeQuantizeBase):
    _fake = 1


class FixedQParamsFakeQuantize(FakeQuantize):
    pass


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    _fake = 2


class _LearnableFakeQuantize(FakeQuantizeBase):
    _fake = 3


CLASSES = {cls.__name__: cls for cls in (FakeQuantize, FixedQParamsFakeQuantize,
                                         FusedMovingAvgObsFakeQuantize, _LearnableFakeQuantize)}


def _switch(name):
    def apply(mod):
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()

    apply.__name__ = name
    apply.__doc__ = f"For model.apply: {name.replace('_', ' ')} of every module that rounds."
    return apply


enable_observer, disable_observer = _switch("enable_observer"), _switch("disable_observer")
enable_fake_quant, disable_fake_quant = _switch("enable_fake_quant"), _switch("disable_fake_quant")

default_fake_quant = FakeQuantize.with_args(
    observer=_observer.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=cfx.quint8,
    qscheme=_observer._qscheme.per_tensor_affine, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=_observer.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=cfx.qint8,
    qscheme=_observer._qscheme.per_tensor_symmetric, reduce_range=False)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=_observer.MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127,
    dtype=cfx.qint8, qscheme=_observer._qscheme.per_channel_symmetric, reduce_range=False,
    ch_axis=0)
__all__ += ["default_fake_quant", "default_weight_fake_quant",
            "default_per_channel_weight_fake_quant"]
del _cfx
