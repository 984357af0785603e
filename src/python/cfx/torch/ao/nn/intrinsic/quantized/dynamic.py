"""torch.ao.nn.intrinsic.quantized.dynamic"""
from ... import classes as _classes

__all__ = [*_classes.NAMES["intrinsic.quantized.dynamic"]]


def __getattr__(name):
    return _classes.named("intrinsic.quantized.dynamic", name)


def __dir__():
    return __all__
