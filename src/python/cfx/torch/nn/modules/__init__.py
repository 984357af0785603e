"""torch.nn.modules: the base class, containers, and the layers of the C library's table."""
import sys

from . import _layers, _written, container, module
from .container import (Container, ModuleDict, ModuleList, ParameterDict, ParameterList,
                        Sequential)
from .module import Module

_layers.install(sys.modules[__name__])
_OWN = {"Container": Container, "Module": Module, "ModuleDict": ModuleDict,
        "ModuleList": ModuleList, "ParameterDict": ParameterDict, "ParameterList": ParameterList,
        "Sequential": Sequential, **_written.LAYERS}


def __getattr__(name):
    if name == "__all__":
        return sorted([*_OWN, *_layers.ROWS])
    if name == "lazy" or name.startswith("Lazy"):
        import importlib

        lazy = importlib.import_module(f"{__name__}.lazy")
        return lazy if name == "lazy" else getattr(lazy, name)
    if name in _written.LAYERS:
        return _written.LAYERS[name]
    try:
        return _layers.layer(name)
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__():
    return sorted([*globals(), *_layers.ROWS])


_ = (container, module)
