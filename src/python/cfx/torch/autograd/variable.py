"""Variable, an old name of Tensor."""
from cfx._tensor import Tensor

Variable = Tensor
__all__ = ["Variable"]
