"""torch.ao.quantization: observers, qconfigs, and quantization of traced modules."""
from . import fake_quantize, observer, qconfig, qconfig_mapping, quantize_fx
from .fake_quantize import *  # noqa: F401,F403
from .observer import *  # noqa: F401,F403
from .qconfig import *  # noqa: F401,F403
from .qconfig_mapping import *  # noqa: F401,F403

__all__ = [*fake_quantize.__all__, *observer.__all__, *qconfig.__all__, *qconfig_mapping.__all__]


def __getattr__(name):
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: cfx has FX graph mode "
                         "(quantize_fx); eager mode and PT2E are not there, and a program is "
                         "quantized by p.quantize(...)")


_ = quantize_fx
