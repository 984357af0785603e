"""torch.ao.nn.qat: layers that round their weights while they are trained."""
from . import classes as _classes

__all__ = [*_classes.NAMES["qat"]]


def __getattr__(name):
    return _classes.named("qat", name)


def __dir__():
    return __all__
