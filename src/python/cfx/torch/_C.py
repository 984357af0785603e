"""torch._C: what scripts ask of PyTorch's core by name."""
import enum
import sys
import types

from cfx import _cfx
from cfx._functions import function as _function
from cfx._tensor import Tensor

from ._ops import Argument, FunctionSchema  # noqa: F401

TensorBase = _TensorBase = _cfx.TensorBase
_TensorMeta = type(Tensor)
_NodeBase = _cfx.NodeBase
Graph = Node = Value = None


class Tag(enum.Enum):
    """Tags of operators."""

    core = 0
    pointwise = 1
    nondeterministic_seeded = 2
    dynamic_output_shape = 3
    data_dependent_output = 4
    inplace_view = 5
    view_copy = 6
    needs_fixed_stride_order = 7
    pt2_compliant_tag = 8
    flexible_layout = 9


class ScriptMethod:
    """There is no TorchScript; nothing is of this class."""


class ScriptObject:
    """There are no objects of TorchScript's classes."""


ScriptModule = ScriptFunction = ScriptObject


class _Namespace(types.ModuleType):
    """torch._C._nn and the like: builtin functions."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "pad_sequence":
            from .nn.utils.rnn import pad_sequence

            return pad_sequence
        value = _function(f"torch.{self.__name__.partition('torch.')[2]}.{name}", self.__name__)
        setattr(self, name, value)
        return value


for _n in ("_nn", "_fft", "_linalg", "_special"):
    globals()[_n] = sys.modules[f"{__name__}.{_n}"] = _Namespace(f"{__name__}.{_n}")


class _Switch:
    """A context without overrides."""

    def __enter__(self):
        self._was = _cfx.set_overrides(False)

    def __exit__(self, *error):
        _cfx.set_overrides(self._was)


DisableTorchFunction = DisableTorchFunctionSubclass = _Switch


def _set_grad_enabled(mode):
    if _cfx.is_overridden(mode):
        return _cfx.override(_set_grad_enabled, (mode,), {})
    _cfx.set_grad_mode(0 if mode else 1)


def _disabled_torch_function_impl(func, types, args=(), kwargs=None):
    from .overrides import _disabled_torch_function_impl as disabled

    return disabled(func, types, args, kwargs)


def _len_torch_function_stack():
    return len(_cfx.modes(False))


def _len_torch_dispatch_stack():
    return len(_cfx.modes(True))


def _log_api_usage_once(name):
    pass


def _get_tracing_state():
    return None


def _is_tracing():
    return False


def __getattr__(name):
    if name == "_VariableFunctions":
        import importlib

        return importlib.import_module(__name__.rpartition(".")[0])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
