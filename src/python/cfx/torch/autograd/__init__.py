"""torch.autograd: gradients."""
from cfx._grad import backward, grad
from cfx._tensor import (Tensor, enable_grad, inference_mode, no_grad,
                         set_grad_enabled)

from . import function, functional, grad_mode, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function
from .gradcheck import gradcheck, gradgradcheck

Variable = Tensor

__all__ = ["Function", "Variable", "detect_anomaly", "function", "functional", "gradcheck",
           "gradgradcheck", "set_detect_anomaly", "backward", "grad", "grad_mode", "graph",
           "enable_grad",
           "inference_mode", "no_grad",
           "set_grad_enabled"]
