"""torch.ao.nn.quantized.reference: float layers whose weights are rounded."""
from .. import classes as _classes

__all__ = [*_classes.NAMES["quantized.reference"]]


def __getattr__(name):
    return _classes.named("quantized.reference", name)


def __dir__():
    return __all__
