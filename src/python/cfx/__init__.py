"""cfx: PyTorch programs captured, shown, tapped, changed, run and saved, by a library in C.

    import cfx
    p = cfx.open("model.pt2")
    y = p(x)                        # tensors of cfx, numpy, or anything that speaks DLPack
    p.run(x, tap="op:gelu")         # what flows through nodes
    p.decompose().optimize().save("fast.pt2")

`cfx.torch` has the same library under PyTorch's names; `python3 -m cfx script.py` runs a script
with that as its torch.
"""
import atexit

from . import _cfx, _fork
from ._cfx import *  # noqa: F401,F403
from ._tensor import (Tensor, as_tensor, enable_grad, from_dlpack, from_numpy, frombuffer,
                      inference_mode, is_grad_enabled, no_grad, set_grad_enabled, tensor)
from ._types import Size, finfo, iinfo

from ._cfx import get_num_threads, manual_seed, memory_held, set_num_threads

__version__ = _cfx.version
atexit.register(_cfx.close)
_fork.arrange()

_LAZY = {"open": "_program", "Program": "_program", "export": "_program", "Session": "_session",
         "Graph": "_graph",
         "Node": "_graph", "LimitError": "_errors", "FileError": "_errors"}


def __getattr__(name):
    """What is in no file of the package is looked for in the registry: cfx.relu, cfx.randn."""
    if name.startswith("__"):
        raise AttributeError(name)
    import importlib

    if name in _LAZY:
        value = getattr(importlib.import_module(f"cfx.{_LAZY[name]}"), name)
    else:
        from ._functions import function

        try:
            value = function(f"torch.{name}", "torch")
        except AttributeError:
            raise AttributeError(f"module 'cfx' has no attribute '{name}'") from None
    globals()[name] = value
    return value


def __dir__():
    names = {s[6:] for s in _cfx.spellings() if s.startswith("torch.") and s.count(".") == 1}
    return sorted({*globals(), *_LAZY, *names})


_ = (Tensor, as_tensor, enable_grad, from_dlpack, from_numpy, frombuffer, inference_mode,
     is_grad_enabled, no_grad, set_grad_enabled, tensor, Size, finfo, iinfo, get_num_threads,
     manual_seed, memory_held, set_num_threads)
