"""Derivatives of functions, under the name of the module that has them in PyTorch."""
from .functionalize import functionalize
from .transforms import (grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp)

__all__ = ["functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "vjp"]
