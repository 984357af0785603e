"""torch.functional: the functions that PyTorch writes in Python."""
from cfx._functions import namespace

__getattr__, __dir__ = namespace(__name__, "torch.functional")
