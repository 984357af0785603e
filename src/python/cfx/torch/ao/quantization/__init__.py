"""torch.ao.quantization: observers, qconfigs, and quantization of models, traced or as they are."""
from . import backend_config, fake_quantize, fuse_modules, fx, observer, qconfig, \
    qconfig_mapping, quantization_mappings, quantize, quantize_fx, stubs
from .fake_quantize import *  # noqa: F401,F403
from .observer import *  # noqa: F401,F403
from .qconfig import *  # noqa: F401,F403
from .qconfig_mapping import *  # noqa: F401,F403
from .quantization_mappings import *  # noqa: F401,F403
from .stubs import *  # noqa: F401,F403

# Names that modules have too: the functions are meant.
_functions = {name: getattr(module, name) for module in (fuse_modules, quantize)
              for name in module.__all__}
__all__ = [*fake_quantize.__all__, *observer.__all__, *qconfig.__all__, *qconfig_mapping.__all__,
           *quantization_mappings.__all__, *stubs.__all__, *_functions]
globals().update(_functions)


def __getattr__(name):
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: cfx has FX graph mode "
                         "(quantize_fx) and eager mode (prepare, convert); a program is quantized "
                         "by p.quantize(...)")


_ = backend_config, fx, quantize_fx
