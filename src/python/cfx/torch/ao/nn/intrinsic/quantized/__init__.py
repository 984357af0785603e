"""torch.ao.nn.intrinsic.quantized: layers and the relu behind them, on quantized tensors."""
from ... import classes as _classes
from . import dynamic

__all__ = ["dynamic", *_classes.NAMES["intrinsic.quantized"]]


def __getattr__(name):
    return _classes.named("intrinsic.quantized", name)


def __dir__():
    return __all__
