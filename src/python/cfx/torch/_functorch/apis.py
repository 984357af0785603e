"""Functions of functions, under the name of the module that has them in PyTorch."""
from .transforms import grad, grad_and_value, vmap

__all__ = ["grad", "grad_and_value", "vmap"]
