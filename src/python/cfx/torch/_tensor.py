"""torch._tensor: where PyTorch has the class Tensor."""
from cfx._tensor import Tensor  # noqa: F401
