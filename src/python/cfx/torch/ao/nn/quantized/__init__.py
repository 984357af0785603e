"""torch.ao.nn.quantized: layers that take and give quantized tensors."""
from .. import classes as _classes
from . import dynamic, reference
from .modules import DeQuantize, FloatFunctional, FXFloatFunctional, QFunctional, Quantize

__all__ = ["DeQuantize", "FXFloatFunctional", "FloatFunctional", "QFunctional", "Quantize",
           "dynamic", "reference", *_classes.NAMES["quantized"]]


def __getattr__(name):
    return _classes.named("quantized", name)


def __dir__():
    return __all__
