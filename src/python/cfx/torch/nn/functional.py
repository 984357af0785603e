"""torch.nn.functional: functions of the registry by their names there."""
from cfx._functions import namespace

__getattr__, __dir__ = namespace(__name__, "torch.nn.functional", "torch")
