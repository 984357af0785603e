"""vmap, under the name of the module that has it in PyTorch."""
from .transforms import vmap

__all__ = ["vmap"]
