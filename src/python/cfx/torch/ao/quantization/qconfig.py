"""Qconfigs: which observers look at activations and at weights."""
from collections import namedtuple

import cfx
from cfx import _cfx

from ...nn import Identity
from . import fake_quantize as _fake
from . import observer as _observer
from .observer import from_options, to_options

__all__ = ["QConfig", "get_default_qconfig", "get_default_qat_qconfig", "qconfig_equals"]


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """QConfig(activation, weight): two makers of observers."""

    __slots__ = ()

    def __new__(cls, activation, weight):
        from ...nn import Module

        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError("QConfig received observer instance, please pass observer class "
                             "instead. Use MyObserver.with_args(x=1) to override arguments to "
                             "constructor if needed")
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig


def to_c(q):
    """A qconfig as C is told it; None: left in float."""
    if q is None:
        return None
    if not isinstance(q, QConfig):
        raise TypeError(f"expected a QConfig or None, got {type(q).__name__}")
    return to_options(q.activation), to_options(q.weight)


def from_c(pair):
    return None if pair is None else QConfig(*map(from_options, pair))


def get_default_qconfig(backend="x86", version=0):
    """The observers that are usual for a backend."""
    if version != 0:
        raise AssertionError(f"Version number: {version} in get_default_qconfig is not supported. "
                             "Version number must be 0")
    return _of_backend(backend, "")


def get_default_qat_qconfig(backend="x86", version=1):
    """The same for training."""
    if version not in (0, 1):
        raise AssertionError(f"Version number: {version}in get_default_qat_qconfig is not "
                             "supported. Version number must be 0 or 1")
    return _of_backend(backend, " qat" if version else " qat v0")


def _of_backend(backend, suffix):
    known = ("fbgemm", "x86", "qnnpack", "onednn")
    if backend not in known:
        raise AssertionError(f"backend: {backend} not supported. backend must be one of "
                             f"{list(known)}")
    return from_c(_cfx.qconfig(backend + suffix))


# What PyTorch has as variables, by C's names for them.
_NAMED = {"default_qconfig": "default", "default_per_channel_qconfig": "per_channel",
          "default_dynamic_qconfig": "dynamic", "per_channel_dynamic_qconfig":
          "per_channel_dynamic", "float16_dynamic_qconfig": "float16_dynamic",
          "float16_static_qconfig": "float16_static", "float_qparams_weight_only_qconfig":
          "float_qparams_weight_only", "float_qparams_weight_only_qconfig_4bit":
          "float_qparams_weight_only_4bit", "default_symmetric_qnnpack_qconfig":
          "symmetric_qnnpack", "default_per_channel_symmetric_qnnpack_qconfig":
          "per_channel_symmetric_qnnpack", "default_reuse_input_qconfig": "reuse_input",
          "default_dynamic_qat_qconfig": "dynamic qat", "default_embedding_qat_qconfig":
          "embedding qat", "default_embedding_qat_qconfig_4bit": "embedding qat 4bit"}
for _name, _text in _NAMED.items():
    globals()[_name] = from_c(_cfx.qconfig(_text))
default_qat_qconfig = QConfig(activation=_fake.default_fake_quant,
                              weight=_fake.default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(activation=_fake.default_fused_act_fake_quant,
                                 weight=_fake.default_fused_wt_fake_quant)
default_debug_qconfig = QConfig(weight=_observer.default_weight_observer,
                                activation=_observer.default_debug_observer)
default_weight_only_qconfig = QConfig(activation=Identity, weight=_fake.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(activation=_fake.default_fake_quant, weight=Identity)
default_quint8_weight_qconfig = QConfig(
    activation=_observer.HistogramObserver,
    weight=_observer.MinMaxObserver.with_args(dtype=cfx.quint8))
_rounding = _fake.FusedMovingAvgObsFakeQuantize.with_args(
    observer=_observer.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=cfx.qint8,
    reduce_range=False, eps=2 ** -12)
default_symmetric_qnnpack_qat_qconfig = QConfig(
    activation=_rounding, weight=_fake.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    activation=_rounding, weight=_fake.fused_per_channel_wt_fake_quant_range_neg_127_to_127)
__all__ += [*_NAMED, *(name for name in list(globals()) if name.startswith("default_"))]


def qconfig_equals(q1, q2):
    """Whether two qconfigs have the same observers."""
    if q1 is None or q2 is None:
        return q1 is q2
    return _same(q1.activation, q2.activation) and _same(q1.weight, q2.weight)


def _same(a, b):
    return a == b or isinstance(a, type) and isinstance(b, type) and a is b
