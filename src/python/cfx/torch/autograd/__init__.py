"""torch.autograd: gradients."""
from cfx._grad import backward, grad
from cfx._tensor import (Tensor, enable_grad, inference_mode, no_grad,
                         set_grad_enabled)

from . import grad_mode

Variable = Tensor

__all__ = ["Variable", "backward", "grad", "grad_mode", "enable_grad", "inference_mode", "no_grad",
           "set_grad_enabled"]
