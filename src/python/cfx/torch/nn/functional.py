"""torch.nn.functional: functions of the registry by their names there."""
from cfx._functions import namespace

from ..overrides import (handle_torch_function, has_torch_function,  # noqa: F401
                         has_torch_function_unary, has_torch_function_variadic)

__getattr__, __dir__ = namespace(__name__, "torch.nn.functional", "torch")
