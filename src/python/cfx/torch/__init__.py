"""torch, played by cfx: PyTorch's names for the C library.

`import cfx.torch as torch`, or `python3 -m cfx script.py`, where `import torch` means this. What a
name of torch's stands for that is not here is an AttributeError or ImportError that says so.
"""
import importlib
import math
import sys

from cfx import _cfx
from cfx._cfx import (  # noqa: F401
    OpOverload, device, dtype, get_num_threads, layout, memory_format, set_num_threads)
from cfx._functions import function as _function
from cfx._tensor import (  # noqa: F401
    Tensor, as_tensor, enable_grad, from_dlpack, from_numpy, frombuffer, inference_mode,
    is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled, tensor)
from cfx._types import Size, finfo, iinfo, return_types  # noqa: F401

from ._basics import *  # noqa: F401,F403
from ._basics import _assert, _check, _check_is_size, _check_value  # noqa: F401
from ._sym import (SymBool, SymFloat, SymInt, sym_float, sym_int, sym_ite, sym_max,  # noqa: F401
                   sym_min, sym_not)
from ._qscheme import (per_channel_affine, per_channel_affine_float_qparams,  # noqa: F401
                       per_channel_symmetric, per_tensor_affine, per_tensor_symmetric, qscheme)
from .version import __version__  # noqa: F401

for _d in ("float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz "
           "float8_e5m2fnuz float8_e8m0fnu int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool "
           "complex32 complex64 complex128 qint8 quint8 qint32").split():
    globals()[_d] = getattr(_cfx, _d)
double, float, half = _cfx.float64, _cfx.float32, _cfx.float16
long, int, short = _cfx.int64, _cfx.int32, _cfx.int16
cfloat, cdouble, chalf = _cfx.complex64, _cfx.complex128, _cfx.complex32
e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None
strided, sparse_coo = _cfx.strided, _cfx.sparse_coo
contiguous_format, preserve_format = _cfx.contiguous_format, _cfx.preserve_format
channels_last, channels_last_3d = _cfx.channels_last, _cfx.channels_last_3d

# Modules of the package, in the order in which they can be imported.
from . import _tensor, overrides, utils  # noqa: E402,F401
from . import nn  # noqa: E402,F401
from . import _ops  # noqa: E402,F401
from ._C import Tag  # noqa: E402,F401
from ._ops import ops  # noqa: E402,F401

_SUBMODULES = {"fx", "export", "autograd", "optim", "jit", "cuda", "_C", "linalg", "special", "fft",
               "functional", "testing", "backends", "amp", "random", "serialization", "types",
               "distributed", "multiprocessing", "compiler", "_subclasses", "_higher_order_ops",
               "func", "version", "library", "_library", "_functorch", "ao", "quantization",
               "profiler", "onnx", "_decomp", "accelerator"}


def __getattr__(name):
    if name == "__all__":  # what a wildcard imports: functions and types, no modules
        return [n for n in __dir__() if not n.startswith("_") and n not in _MODULES]
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    else:
        try:
            value = _function(f"torch.{name}", __name__)
            globals()[name] = value
            return value
        except AttributeError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_MODULES = _SUBMODULES | {"importlib", "math", "sys", "nn", "utils", "overrides"}


def __dir__():
    names = {s[6:] for s in _cfx.spellings() if s.startswith("torch.") and s.count(".") == 1}
    return sorted({*globals(), *names, *_SUBMODULES})


_self = sys.modules[__name__]
