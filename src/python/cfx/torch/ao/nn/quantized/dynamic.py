"""torch.ao.nn.quantized.dynamic: layers that round their inputs by the range that these have."""
from .. import classes as _classes

__all__ = [*_classes.NAMES["quantized.dynamic"]]


def __getattr__(name):
    return _classes.named("quantized.dynamic", name)


def __dir__():
    return __all__
