"""Modules that round what goes through as quantization would; gradients go straight through."""
import cfx

from . import observer as _observer
from .observer import InC

__all__ = ["FakeQuantizeBase", "FakeQuantize", "FixedQParamsFakeQuantize",
           "FusedMovingAvgObsFakeQuantize", "enable_observer", "disable_observer",
           "enable_fake_quant", "disable_fake_quant"]


class FakeQuantizeBase(InC):
    """The base of all modules that round."""

    _order = ("observer", "quant_min", "quant_max", "is_dynamic")

    def _to_c(self, kwargs):
        inner = kwargs.pop("observer", None) or _observer.MovingAverageMinMaxObserver
        given = InC._to_c(self, kwargs)
        del given["kind"]
        return {**_observer.to_options(inner), **given, "fake": self._fake}

    def enable_fake_quant(self, enabled=True):
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        self.enable_observer(False)

    dtype = property(lambda self: self.activation_post_process.dtype)
    qscheme = property(lambda self: self.activation_post_process.qscheme)
    ch_axis = property(lambda self: self.activation_post_process.ch_axis)
    is_per_channel = property(lambda self: "per_channel" in repr(self.qscheme))


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
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=_observer.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, is_dynamic=True,
    dtype=cfx.quint8, averaging_constant=1)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=_observer.HistogramObserver, quant_min=0, quant_max=255, dtype=cfx.quint8,
    qscheme=_observer._qscheme.per_tensor_affine, reduce_range=True)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=_observer.default_fixed_qparams_range_0to1_observer)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=_observer.default_fixed_qparams_range_neg1to1_observer)
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=_observer.MovingAveragePerChannelMinMaxObserver,
    qscheme=_observer._qscheme.per_channel_affine_float_qparams, dtype=cfx.quint8, quant_min=0,
    quant_max=255, ch_axis=0, averaging_constant=1)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_observer.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=cfx.quint8)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_observer.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=cfx.qint8,
    qscheme=_observer._qscheme.per_tensor_symmetric)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_observer.MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127,
    dtype=cfx.qint8, qscheme=_observer._qscheme.per_channel_symmetric)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_observer.MovingAverageMinMaxObserver, quant_min=-127, quant_max=127, dtype=cfx.qint8,
    qscheme=_observer._qscheme.per_tensor_symmetric, eps=2 ** -12)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_observer.MovingAveragePerChannelMinMaxObserver, quant_min=-127, quant_max=127,
    dtype=cfx.qint8, qscheme=_observer._qscheme.per_channel_symmetric, eps=2 ** -12)
__all__ += [name for name in list(globals()) if name.startswith(("default_", "fused_"))]
