"""torch.nn: modules, layers and what they are made of."""
from . import functional, init, modules, parameter, utils
from .modules import (Container, Module, ModuleDict, ModuleList, ParameterDict, ParameterList,
                      Sequential)
from .parameter import Buffer, Parameter


def __getattr__(name):
    if name == "__all__":
        return sorted({"Parameter", "Buffer", *modules.__all__})
    if name in ("attention", "parallel", "DataParallel"):
        import importlib

        found = importlib.import_module(f"{__name__}.{name if name[0] == 'a' else 'parallel'}")
        return found.DataParallel if name == "DataParallel" else found
    try:
        return getattr(modules, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__():
    return sorted({*globals(), *dir(modules)})


_ = (functional, init, parameter, utils, Container, Module, ModuleDict, ModuleList, ParameterDict,
     ParameterList, Sequential, Buffer, Parameter)
