"""torch.ao.nn.intrinsic: modules that are called one after the other as one."""
from .. import classes as _classes
from . import qat, quantized

_FusedModule = _classes.FusedModule
__all__ = ["qat", "quantized", *_classes.NAMES["intrinsic"]]


def __getattr__(name):
    return _classes.named("intrinsic", name)


def __dir__():
    return __all__
