"""torch.autograd.grad_mode: contexts in which gradients are recorded, or are not."""
from cfx._tensor import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
